package crashes

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/trial/oracle"
)

// ethereum is anvil.
type ethereum struct {
	plain
	node *anvil.Node
}

func openEthereum(w *localworld.World) network { return ethereum{node: w.Chain()} }

func (e ethereum) url() string                        { return e.node.URL }
func (e ethereum) mine(ctx context.Context) error     { return e.node.Mine(ctx, 1) }
func (ethereum) every() time.Duration                 { return 200 * time.Millisecond }
func (ethereum) readied(context.Context, *town) error { return nil }
func (ethereum) ahead() uint64                        { return 0 }
func (ethereum) sends() string                        { return "eth_sendRawTransaction" }
func (ethereum) pool(t *town, waits bool)             { t.mining.Store(!waits) }
func (e ethereum) truth() truth                       { return oracle.Open(e.node.URL) }
func (ethereum) nobody(seed []byte) string {
	return common.BytesToAddress(crypto.Keccak256(seed)).Hex()
}

func (e ethereum) head(ctx context.Context) (height, behind uint64, err error) {
	height, err = e.node.Eth.BlockNumber(ctx)
	return height, 4, err
}

func (e ethereum) height(ctx context.Context, tx string) (uint64, error) {
	r, err := e.node.Receipt(ctx, common.HexToHash(tx))
	if err != nil {
		return 0, err
	}
	return r.BlockNumber.Uint64(), nil
}

func (e ethereum) holds(ctx context.Context, token, who string) (*big.Int, error) {
	return e.node.TokenBalance(ctx, common.HexToAddress(token), common.HexToAddress(who))
}

func (e ethereum) refuse(ctx context.Context, token, who string) error {
	_, err := e.node.Do(ctx, common.HexToAddress(token), nil, evmtoken.FiatToken.Call("blacklist", common.HexToAddress(who)))
	return err
}

func (e ethereum) stranger(ctx context.Context, token string, units *big.Int) (stranger, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return stranger{}, err
	}
	at := crypto.PubkeyToAddress(key.PublicKey)
	if err := e.node.SetBalance(ctx, at, big.NewInt(params.Ether)); err != nil {
		return stranger{}, err
	}
	_, err = e.node.PayToken(ctx, common.HexToAddress(token), at, units)
	return stranger{at.Hex(), func(ctx context.Context, token, to string, units *big.Int) (string, error) {
		tx, err := e.node.SendFrom(ctx, key, ptr(common.HexToAddress(token)), nil, evmtoken.Token.Call("transfer", common.HexToAddress(to), units))
		return tx.Hex(), err
	}}, err
}

func (e ethereum) instead(ctx context.Context, raw []byte, other string) error {
	if err := e.node.DropTransaction(ctx, common.HexToHash(other)); err != nil {
		return err
	}
	var got common.Hash
	if err := e.node.RPC.CallContext(ctx, &got, e.sends(), hexutil.Bytes(raw)); err != nil {
		return err
	}
	return e.mine(ctx)
}

func (ethereum) id(text string) (string, error) {
	raw, err := hexutil.Decode(text)
	if err != nil {
		return "", err
	}
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		return "", err
	}
	return tx.Hash().Hex(), nil
}

// spoil has the receipts of a block, which are asked for where there are movements.
func (ethereum) spoil(method string, _ []byte, _ string) (json.RawMessage, bool) {
	return json.RawMessage(`[{"logs": "none"}]`), method == "eth_getBlockReceipts"
}

func (e ethereum) fork(ctx context.Context, with ...[]byte) error {
	var txs []anvil.ReorgTx
	for _, raw := range with {
		txs = append(txs, anvil.ReorgTx{Raw: raw})
	}
	return e.node.Reorg(ctx, 1, txs...)
}

func (e ethereum) raw(ctx context.Context, tx string) ([]byte, error) {
	return e.node.Raw(ctx, common.HexToHash(tx))
}

func (e ethereum) again(ctx context.Context, raw []byte) error {
	var hash common.Hash
	err := e.node.RPC.CallContext(ctx, &hash, e.sends(), hexutil.Bytes(raw))
	if err != nil && !strings.Contains(err.Error(), "already") {
		return err
	}
	return nil
}
