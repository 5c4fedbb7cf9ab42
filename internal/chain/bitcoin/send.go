package bitcoin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/several"
)

var _ chain.Sender = (*adapter)(nil)

// codeInChain is how nodes of both kinds say that a transaction is in a block.
const codeInChain = -27

// knownPhrases are how they say that they have it already, in a block or waiting.
var knownPhrases = []string{
	"already in block chain", "already in utxo set", "already exists in blockchain",
	"already have transaction", "already in mempool", "already-in-mempool", "already-known",
}

// Send gives the bytes to all nodes at once. Nothing that one of them says proves that
// the transaction is not out: also what it calls invalid, or too cheap to replace another,
// may lie with a second node, or with a miner.
func (a *adapter) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	hash, err := bitcointx.HashOf(raw)
	if err != nil {
		return chain.Unknown, "not sent, since it is no transaction of ours: " + several.TruncateAnswer(err.Error())
	}
	text := hex.EncodeToString(raw)
	return several.SendToAll(ctx, a.providers, func(ctx context.Context, p *provider) (chain.Answer, error) {
		var got chain.TxHash
		if err := p.callBatch(ctx, newCall(&got, "sendrawtransaction", text)); err != nil {
			return classifySendError(err), err
		}
		if got != hash {
			return chain.Unknown, fmt.Errorf("%s: took %s for %.90q", p.name, hash, string(got))
		}
		return chain.Accepted, nil
	})
}

func classifySendError(err error) chain.Answer {
	var r *nodeError
	if !errors.As(err, &r) {
		return chain.Unknown
	}
	text := strings.ToLower(r.Message)
	for _, w := range knownPhrases {
		if r.Code == codeInChain || strings.Contains(text, w) {
			return chain.Known
		}
	}
	return chain.Unknown
}
