package bitcoin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

var _ chain.Sender = (*adapter)(nil)

// codeInChain is the error number of both kinds of node for a transaction that is in a block.
const codeInChain = -27

// knownPhrases are the texts for a transaction that the node already has, in a block or in its
// mempool.
var knownPhrases = []string{
	"already in block chain", "already in utxo set", "already exists in blockchain",
	"already have transaction", "already in mempool", "already-in-mempool", "already-known",
}

// Send gives the bytes to all nodes at once. No answer of a node proves that the transaction is not
// out: a transaction that it calls invalid, or too cheap for a replacement, may be with another
// node or a miner.
func (a *adapter) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	hash, err := bitcointx.HashOf(raw)
	if err != nil {
		return chain.Unknown, "not sent, because it is not a transaction of this service: " +
			"" + quorum.TruncateAnswer(err.Error())
	}
	text := hex.EncodeToString(raw)
	return quorum.SendToAll(ctx, a.providers, func(ctx context.Context, p *provider) (chain.Answer, error) {
		var got chain.TxHash
		if err := p.callBatch(ctx, newCall(&got, "sendrawtransaction", text)); err != nil {
			return classifySendError(err), err
		}
		if got != hash {
			return chain.Unknown, fmt.Errorf("%s: accepted %s for %.90q", p.name, hash, string(got))
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
