package evm_test

import (
	"context"
	"crypto/ecdsa"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/chaintest"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	slots     = 2
	strangers = 8
	gasOfPay  = 500_000
)

var (
	feeCap = money.Units(100 * params.GWei)
	rich   = new(big.Int).Mul(big.NewInt(1000), big.NewInt(params.Ether))
)

func TestEthereumKeepsThePromises(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T) chaintest.Lab { return newLab(t) })
}

// lab is an anvil that makes blocks only when told.
type lab struct {
	node   *anvil.Node
	chain  chain.Chain
	tokens anvil.Tokens
	batch  common.Address
	keys   map[chain.Address]*ecdsa.PrivateKey
	// others pay in turn, so that no payment of one depends on another's nonce when a fork removes
	// it.
	others []*ecdsa.PrivateKey
	paid   int
}

var _ chaintest.Lab = (*lab)(nil)

func config(endpoints ...string) evm.Config {
	return evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID,
		Endpoints: endpoints, Quorum: len(endpoints),
		FeeCap: feeCap, TipCap: money.Units(2 * params.GWei),
	}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{keys: map[chain.Address]*ecdsa.PrivateKey{}}
	l.node, l.tokens = anviltest.StartWithTokens(t, anvil.Config{Manual: true, SlotsInEpoch: slots})
	var err error
	if l.batch, err = l.node.DeployContract(t.Context(), evmtoken.Batch); err != nil {
		t.Fatal(err)
	}
	for range strangers {
		k := newKey(t)
		a := crypto.PubkeyToAddress(k.PublicKey)
		if err := l.node.SetBalance(t.Context(), a, rich); err != nil {
			t.Fatal(err)
		}
		if _, err := l.node.SendTx(t.Context(), l.usdc(), nil,
			evmtoken.Token.CallData("transfer", a, big.NewInt(1e12))); err != nil {
			t.Fatal(err)
		}
		l.send(t, k, *l.usdc(), nil, evmtoken.Token.CallData("approve", l.batch, big.NewInt(1e12)))
		l.others = append(l.others, k)
	}
	l.Finalize(t)
	l.chain = newChain(t, config(l.node.URL))
	return l
}

func newChain(t testing.TB, cfg evm.Config) chain.Chain {
	t.Helper()
	c, err := evm.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (l *lab) usdc() *common.Address { return &l.tokens.USDC.Address }

func (l *lab) Chain() chain.Chain   { return l.chain }
func (l *lab) FeeCap() money.Amount { return feeCap }
func (l *lab) Kinds() []chain.Kind  { return []chain.Kind{chain.Native, chain.Internal, chain.Token} }
func (l *lab) Token() chain.Address { return evmtx.Canonical(*l.usdc()) }

func (l *lab) Account(t testing.TB) chain.Address {
	t.Helper()
	k := newKey(t)
	a := evmtx.Canonical(crypto.PubkeyToAddress(k.PublicKey))
	l.keys[a] = k
	return a
}

func (l *lab) Payer(t testing.TB) chain.Address {
	t.Helper()
	a := l.Account(t)
	l.Fund(t, a, "", chaintest.AmpleNative)
	return a
}

func (l *lab) Fund(t testing.TB, to, contract chain.Address, amount money.Amount) {
	t.Helper()
	var err error
	if contract == "" {
		err = l.node.SetBalance(t.Context(), raw(to), amount.Big())
	} else {
		token := raw(contract)
		_, err = l.node.SendTx(t.Context(), &token, nil, evmtoken.Token.CallData("transfer", raw(to), amount.Big()))
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
}

func (l *lab) Pay(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	from := l.other()
	switch kind {
	case chain.Native:
		return l.send(t, from, raw(to), amount.Big(), nil)
	case chain.Internal:
		return l.send(t, from, l.batch, amount.Big(), evmtoken.Batch.CallData("forward", raw(to)))
	}
	return l.send(t, from, *l.usdc(), nil, evmtoken.Token.CallData("transfer", raw(to), amount.Big()))
}

func (l *lab) PayReverted(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	from := l.other()
	switch kind {
	case chain.Native:
		return l.send(t, from, l.batch, amount.Big(), evmtoken.Batch.CallData("payThenRevert", raw(to)))
	case chain.Internal:
		return l.send(t, from, l.batch, amount.Big(), evmtoken.Batch.CallData("payAndUndo", raw(to)))
	}
	return l.send(t, from, l.batch, nil, evmtoken.Batch.CallData("sendTokenAndUndo", *l.usdc(), raw(to), amount.Big()))
}

func (l *lab) RefusePayments(t testing.TB, to chain.Address) {
	t.Helper()
	if _, err := l.node.SendTx(t.Context(), l.usdc(), nil,
		evmtoken.FiatToken.CallData("blacklist", raw(to))); err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
}

func (l *lab) Sign(t testing.TB, from chain.Address, payload []byte) ([]byte, chain.TxHash) {
	t.Helper()
	digest := evmtx.Digest(payload)
	sig, err := crypto.Sign(digest[:], l.keys[from])
	if err != nil {
		t.Fatal(err)
	}
	signed, hash, err := evmtx.AttachSignature(payload, sig, from)
	if err != nil {
		t.Fatal(err)
	}
	return signed, hash
}

func (l *lab) Mine(t testing.TB, blocks int) {
	t.Helper()
	if err := l.node.MineBlocks(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
}

func (*lab) CanFork() bool    { return true }
func (*lab) CanReplace() bool { return true }

func (l *lab) Finalize(t testing.TB) {
	t.Helper()
	l.Mine(t, 2*slots)
}

func (l *lab) Fork(t testing.TB, depth int, keep ...chain.TxHash) {
	t.Helper()
	var txs []anvil.ReorgTx
	for _, h := range keep {
		b, err := l.node.RawTransaction(t.Context(), common.HexToHash(string(h)))
		if err != nil {
			t.Fatal(err)
		}
		txs = append(txs, anvil.ReorgTx{Raw: b, Offset: depth - 1})
	}
	if err := l.node.ReplaceBlocks(t.Context(), depth, txs...); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) other() *ecdsa.PrivateKey { return l.others[l.paid%len(l.others)] }

// send sends a call of an external account and ignores its result. Each call offers a slightly
// lower fee than the one before, so that a block has them in this order.
func (l *lab) send(t testing.TB, key *ecdsa.PrivateKey, to common.Address, value *big.Int, data []byte) chain.TxHash {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	nonce, err := l.node.Eth.PendingNonceAt(ctx, crypto.PubkeyToAddress(key.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	l.paid++
	tx := types.MustSignNewTx(key, types.LatestSignerForChainID(l.node.ChainID), &types.DynamicFeeTx{
		ChainID: l.node.ChainID, Nonce: nonce, To: &to, Value: value, Data: data, Gas: gasOfPay,
		GasTipCap: big.NewInt(params.GWei - int64(l.paid)), GasFeeCap: big.NewInt(1000 * params.GWei),
	})
	if err := l.node.Eth.SendTransaction(ctx, tx); err != nil {
		t.Fatal(err)
	}
	return chain.TxHash(tx.Hash().Hex())
}

func raw(a chain.Address) common.Address { return common.HexToAddress(string(a)) }
