package evm_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/chaintest"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
)

// The promises also hold when finality is a depth, and with two providers.
func TestEthereumKeepsThePromisesInItsOtherForms(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T) chaintest.Lab {
		l := newLab(t)
		cfg := config(l.node.URL, newProxy(t, l.node).URL)
		cfg.Finality = evm.Finality{Depth: 2 * slots}
		l.chain = newChain(t, cfg)
		return l
	})
}

// pay mines one transaction of an external account and returns its block as it is before it is
// final.
func (l *lab) pay(t testing.TB, to common.Address, value int64, data []byte) (chain.TxHash, chain.Contents) {
	t.Helper()
	tx := l.send(t, l.other(), to, big.NewInt(value), data)
	l.Mine(t, 1)
	return tx, l.latest(t)
}

func (l *lab) latest(t testing.TB) chain.Contents {
	t.Helper()
	h, err := l.chain.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := recent(t, l.chain, h.Latest.Height)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// final and recent return blocks with the internal movements of their transactions.
func final(t testing.TB, c chain.Chain, height uint64) (chain.Contents, error) {
	t.Helper()
	got, err := c.Reader.Final(t.Context(), height)
	if err != nil {
		return got, err
	}
	return chaintest.WithInternal(t.Context(), c.Reader, got)
}

func recent(t testing.TB, c chain.Chain, height uint64) (chain.Contents, error) {
	t.Helper()
	got, err := c.Reader.Recent(t.Context(), height)
	if err != nil {
		return got, err
	}
	return chaintest.WithInternal(t.Context(), c.Reader, got)
}

// to returns what arrived at an address, in the order of the block.
func to(c chain.Contents, a chain.Address) (in []string) {
	for _, tr := range c.Transfers {
		if tr.To == a {
			in = append(in, fmt.Sprintf("%s@%s %v", tr.Kind, tr.Position, tr.Amount))
		}
	}
	return in
}

func same(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// hostile.md H-58.
func TestOneTransactionMayPayManyTimes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.Account(t), l.Account(t)
	_, c := l.pay(t, l.batch, 0, evmtoken.Batch.CallData("sendToken", *l.usdc(),
		[]common.Address{raw(a), raw(b), raw(a), raw(b), raw(a)},
		[]*big.Int{big.NewInt(10), big.NewInt(20), big.NewInt(10), big.NewInt(0), big.NewInt(30)}))
	same(t, "tokens", to(c, a), "TOKEN@0 10", "TOKEN@2 10", "TOKEN@4 30")
	same(t, "tokens, one of nothing", to(c, b), "TOKEN@1 20")

	_, c = l.pay(t, l.batch, 100, evmtoken.Batch.CallData("sendNative",
		[]common.Address{raw(a), raw(b), raw(a)}, []*big.Int{big.NewInt(1), big.NewInt(2), big.NewInt(3)}))
	same(t, "coin", to(c, a), "INTERNAL@0 1", "INTERNAL@2 3")
	same(t, "coin", to(c, b), "INTERNAL@1 2")
	same(t, "coin that came with the call", to(c, evmtx.Canonical(l.batch)), "NATIVE@ 100")
	if len(c.Transfers) != 5 { // and what was too much, back
		t.Errorf("got %v, want five transfers", c.Transfers)
	}
}

// hostile.md H-48 and H-49.
func TestCoinThatContractsMoveIsFoundOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, call := range []struct {
		method string
		want   []string
	}{
		{"forward", []string{"INTERNAL@0 77"}},
		{"destroyTowards", []string{"INTERNAL@0.0 77"}},
		{"payAndUndo", nil},
		{"payThenRevert", nil},
	} {
		a := l.Account(t)
		_, c := l.pay(t, l.batch, 77, evmtoken.Batch.CallData(call.method, raw(a)))
		same(t, call.method, to(c, a), call.want...)
		want := money.Zero
		if call.want != nil {
			want = money.Units(77)
		}
		if got := l.held(t, c.Block, a, ""); got != want {
			t.Errorf("%s: got a balance of %v, want %v", call.method, got, want)
		}
	}
	a := l.Account(t)
	_, c := l.pay(t, l.batch, 0, evmtoken.Batch.CallData("sendTokenAndUndo", *l.usdc(), raw(a), big.NewInt(5)))
	same(t, "sendTokenAndUndo", to(c, a))
}

func (l *lab) held(t testing.TB, at chain.Block, a, contract chain.Address) money.Amount {
	t.Helper()
	got, err := l.chain.Reader.Balances(t.Context(), at, []chain.Holding{{Address: a, Contract: contract}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func TestAContractThatIsCreatedWithCoinIsPaid(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	created := crypto.CreateAddress(l.node.FaucetAddress(), l.nonceOfFaucet(t))
	// 0x00 is STOP: a contract that does nothing and accepts coin.
	if _, err := l.node.SendTx(t.Context(), nil, big.NewInt(5), []byte{0}); err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	same(t, "creation", to(l.latest(t), evmtx.Canonical(created)), "NATIVE@ 5")
}

func (l *lab) nonceOfFaucet(t testing.TB) uint64 {
	t.Helper()
	n, err := l.node.Eth.PendingNonceAt(t.Context(), l.node.FaucetAddress())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// hostile.md H-45 and invariant I-11: a token's logs and its balances differ, and the adapter reads
// both.
func TestBalancesShowWhatTokensDoNotSay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, c := range []struct {
		token evmtoken.Contract
		call  string
		args  func(to common.Address) []any
		said  []string
		moved uint64
	}{
		{
			evmtoken.FeeToken, "transfer",
			func(to common.Address) []any { return []any{to, big.NewInt(1000)} },
			[]string{"TOKEN@0 1000"},
			990,
		},
		{
			evmtoken.LyingToken, "transfer",
			func(to common.Address) []any { return []any{to, big.NewInt(1000)} },
			[]string{"TOKEN@0 1000"},
			0,
		},
		{
			evmtoken.LyingToken, "exaggerate",
			func(to common.Address) []any { return []any{to, big.NewInt(1000), big.NewInt(1)} },
			[]string{"TOKEN@0 1000"},
			1,
		},
		{
			evmtoken.LyingToken, "whisper",
			func(to common.Address) []any { return []any{to, big.NewInt(1000)} }, nil, 1000,
		},
		{
			evmtoken.Tether, "transfer",
			func(to common.Address) []any { return []any{to, big.NewInt(1000)} },
			[]string{"TOKEN@0 1000"},
			1000,
		},
		{
			evmtoken.FalseToken, "transfer",
			func(to common.Address) []any { return []any{to, big.NewInt(1 << 40)} }, nil, 0,
		},
	} {
		what := string(c.token) + "." + c.call
		token, err := l.node.DeployContract(t.Context(), c.token, "T", "T", uint8(6))
		if err != nil {
			t.Fatal(err)
		}
		holder := l.other()
		if _, err := l.node.SendTx(t.Context(), &token, nil,
			c.token.CallData("mint", crypto.PubkeyToAddress(holder.PublicKey), big.NewInt(1<<20))); err != nil {
			t.Fatal(err)
		}
		l.Mine(t, 1)
		a := l.Account(t)
		_, seen := l.pay(t, token, 0, c.token.CallData(c.call, c.args(raw(a))...))
		same(t, what, to(seen, a), c.said...)
		if got := l.held(t, seen.Block, a, evmtx.Canonical(token)); got != money.Units(c.moved) {
			t.Errorf("%s: got a balance of %v, want %d", what, got, c.moved)
		}
		before := chain.Block{Height: seen.Height - 1, Hash: seen.Parent}
		if got := l.held(t, before, a, evmtx.Canonical(token)); !got.IsZero() {
			t.Errorf("%s: got a balance of %v in the block before, want 0", what, got)
		}
	}
}

// Invariant I-10. A fork that puts other logs before ours changes the index of the log in its block
// and not the identity of the transfer.
func TestAForkThatShiftsLogsKeepsPositions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.Account(t)
	l.Pay(t, chain.Token, l.Account(t), money.Units(1))
	batch := evmtoken.Batch.CallData("sendToken", *l.usdc(),
		[]common.Address{raw(l.Account(t)), raw(a)}, []*big.Int{big.NewInt(10), big.NewInt(20)})
	tx, c := l.pay(t, l.batch, 0, batch)
	was := c.Transfers[len(c.Transfers)-1]
	l.Fork(t, 1, tx)
	c = l.latest(t)
	is := c.Transfers[len(c.Transfers)-1]
	if was.Position != "1" || is.Position != "1" || was.Tx != is.Tx || was.LogIndex != 2 || is.LogIndex != 1 {
		t.Errorf("got %+v, want %+v with another log index", is, was)
	}
}

func TestAFailedTransactionMovesNothingButItsFee(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	failed := l.PayReverted(t, chain.Native,
		evmtx.Canonical(common.HexToAddress("0x1234567890123456789012345678901234567890")), money.Units(1000))
	l.Mine(t, 1)
	c := l.latest(t)
	for _, tr := range c.Transfers {
		if tr.Tx == failed {
			t.Errorf("got %+v, want nothing: the coin never reached the contract that it was sent to", tr)
		}
	}
	if len(c.Fees) != 1 || c.Fees[0].Amount.IsZero() {
		t.Errorf("got fees %+v, want the sender's", c.Fees)
	}
}
