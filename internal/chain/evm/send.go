package evm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// knownPhrases are the texts of nodes that already have these bytes.
var knownPhrases = []string{
	"already known", "known transaction", "already imported", "alreadyknown",
	"already in mempool",
}

// Send gives the bytes to all providers at once. No answer of a provider proves that the
// transaction is not out, so there is no answer that says so.
func (a *adapter) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	hash := evmtx.HashOf(raw)
	return quorum.SendToAll(ctx, a.providers, func(ctx context.Context, p *provider) (chain.Answer, error) {
		var got common.Hash
		err := p.callMethod(ctx, &got, "eth_sendRawTransaction", hexutil.Bytes(raw))
		if err != nil {
			return classifySendError(err), err
		}
		if txHash(got) != hash {
			return chain.Unknown, fmt.Errorf("%s: accepted %s for %s", p.name, hash, got)
		}
		return chain.Accepted, nil
	})
}

func classifySendError(err error) chain.Answer {
	var rpcErr rpc.Error
	if !errors.As(err, &rpcErr) {
		return chain.Unknown
	}
	text := strings.ToLower(rpcErr.Error())
	for _, w := range knownPhrases {
		if strings.Contains(text, w) {
			return chain.Known
		}
	}
	return chain.Unknown
}
