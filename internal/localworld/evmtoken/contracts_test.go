package evmtoken_test

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
)

var (
	alice    = common.HexToAddress("0x000000000000000000000000000000000000a11c")
	bob      = common.HexToAddress("0x0000000000000000000000000000000000000b0b")
	transfer = evmtoken.Token.ABI().Events["Transfer"].ID
)

// A bench is a chain with what the tests ask of it again and again.
type bench struct {
	*testing.T
	*anvil.Node
}

func start(t *testing.T) bench {
	t.Parallel()
	return bench{t, anviltest.Start(t, anvil.Config{})}
}

func (b bench) deploy(c evmtoken.Contract, args ...any) common.Address {
	b.Helper()
	at, err := b.DeployContract(b.Context(), c, args...)
	if err != nil {
		b.Fatal(err)
	}
	return at
}

// token deploys a token of the usual constructor and mints to the faucet.
func (b bench) token(c evmtoken.Contract, units int64) common.Address {
	b.Helper()
	at := b.deploy(c, "Some Token", "SOME", uint8(6))
	b.do(at, nil, c, "mint", b.FaucetAddress(), big.NewInt(units))
	return at
}

func (b bench) send(at common.Address, value *big.Int, c evmtoken.Contract, method string, args ...any) *types.Receipt {
	b.Helper()
	hash, err := b.SendTx(b.Context(), &at, value, c.CallData(method, args...))
	if err != nil {
		b.Fatal(err)
	}
	receipt, err := b.WaitReceipt(b.Context(), hash)
	if err != nil {
		b.Fatal(err)
	}
	return receipt
}

func (b bench) do(at common.Address, value *big.Int, c evmtoken.Contract, method string, args ...any) *types.Receipt {
	b.Helper()
	receipt := b.send(at, value, c, method, args...)
	if receipt.Status != types.ReceiptStatusSuccessful {
		b.Fatalf("%s.%s: got a revert, want success", c, method)
	}
	return receipt
}

func (b bench) refused(at common.Address, value *big.Int, c evmtoken.Contract, method string, args ...any) {
	b.Helper()
	if receipt := b.send(at, value, c, method, args...); receipt.Status != types.ReceiptStatusFailed {
		b.Errorf("%s.%s: got success, want a revert", c, method)
	}
}

func (b bench) holds(token, account common.Address, want int64) {
	b.Helper()
	got, err := b.TokenBalance(b.Context(), token, account)
	if err != nil {
		b.Fatal(err)
	}
	if got.Cmp(big.NewInt(want)) != 0 {
		b.Errorf("%v: got %v units, want %d", account, got, want)
	}
}

func (b bench) hasCoin(account common.Address, want int64) {
	b.Helper()
	got, err := b.Eth.BalanceAt(b.Context(), account, nil)
	if err != nil {
		b.Fatal(err)
	}
	if got.Cmp(big.NewInt(want)) != 0 {
		b.Errorf("%v: got %v wei, want %d", account, got, want)
	}
}

// announced are the amounts of the Transfer events of a transaction.
func announced(r *types.Receipt) []int64 {
	var out []int64
	for _, log := range r.Logs {
		if log.Topics[0] == transfer {
			out = append(out, new(big.Int).SetBytes(log.Data).Int64())
		}
	}
	return out
}

func (b bench) announces(r *types.Receipt, want ...int64) {
	b.Helper()
	got := announced(r)
	if len(got) != len(want) {
		b.Errorf("got transfers of %v, want %v", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			b.Errorf("got transfers of %v, want %v", got, want)
		}
	}
}

func TestFiatTokenStopsWhomItIsTold(t *testing.T) {
	b := start(t)
	tokens, err := b.DeployTokens(b.Context())
	if err != nil {
		t.Fatal(err)
	}
	at, c := tokens.USDC.Address, evmtoken.FiatToken
	b.do(at, nil, c, "blacklist", alice)
	b.refused(at, nil, c, "transfer", alice, big.NewInt(1))
	b.do(at, nil, c, "unBlacklist", alice)
	b.do(at, nil, c, "transfer", alice, big.NewInt(1))
	b.do(at, nil, c, "pause")
	b.refused(at, nil, c, "transfer", alice, big.NewInt(1))
	b.do(at, nil, c, "unpause")
	b.do(at, nil, c, "transfer", alice, big.NewInt(1))
	b.holds(at, alice, 2)
	b.refused(at, nil, c, "initialize", "Other", "OTHER", uint8(6), alice)
	b.refused(at, nil, c, "transfer", alice, new(big.Int).Lsh(big.NewInt(1), 255))
}

func TestFiatTokenIsUpgradedInPlace(t *testing.T) {
	b := start(t)
	tokens, err := b.DeployTokens(b.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := tokens.USDC.Address
	next := b.deploy(evmtoken.FiatToken)
	b.do(at, nil, evmtoken.FiatToken, "transfer", alice, big.NewInt(3))
	b.do(at, nil, evmtoken.Proxy, "proxyUpgradeTo", next)
	slot := common.HexToHash("0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc")
	stored, err := b.Eth.StorageAt(b.Context(), at, slot, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := common.BytesToAddress(stored); got != next {
		t.Errorf("got implementation %v in the slot of ERC-1967, want %v", got, next)
	}
	b.holds(at, alice, 3)
	b.refused(at, nil, evmtoken.Proxy, "proxyUpgradeTo", alice) // no code there
}

func TestTetherAnswersNothing(t *testing.T) {
	b := start(t)
	at := b.token(evmtoken.Tether, 100)
	out, err := b.CallContract(b.Context(), at, evmtoken.Tether, "transfer", alice, big.NewInt(1))
	if err != nil || len(out) != 0 {
		t.Errorf("got %v, %v, want an empty answer", out, err)
	}
	b.announces(b.do(at, nil, evmtoken.Tether, "transfer", alice, big.NewInt(40)), 40)
	b.holds(at, alice, 40)
	b.do(at, nil, evmtoken.Tether, "approve", bob, big.NewInt(1))
	b.refused(at, nil, evmtoken.Tether, "approve", bob, big.NewInt(2))
}

func TestFeeTokenDeliversLessThanItSays(t *testing.T) {
	b := start(t)
	at := b.token(evmtoken.FeeToken, 1000)
	b.announces(b.do(at, nil, evmtoken.FeeToken, "transfer", alice, big.NewInt(500)), 500)
	b.holds(at, alice, 495)
}

func TestFalseTokenDoesNotRevert(t *testing.T) {
	b := start(t)
	at := b.token(evmtoken.FalseToken, 10)
	b.announces(b.do(at, nil, evmtoken.FalseToken, "transfer", alice, big.NewInt(11)))
	b.do(at, nil, evmtoken.FalseToken, "refuse", true)
	b.announces(b.do(at, nil, evmtoken.FalseToken, "transfer", alice, big.NewInt(1)))
	b.holds(at, alice, 0)
	out, err := b.CallContract(b.Context(), at, evmtoken.FalseToken, "transfer", alice, big.NewInt(1))
	if err != nil || out[0] != false {
		t.Errorf("got %v, %v, want false", out, err)
	}
	b.do(at, nil, evmtoken.FalseToken, "refuse", false)
	b.announces(b.do(at, nil, evmtoken.FalseToken, "transfer", alice, big.NewInt(1)), 1)
}

func TestLyingTokenLies(t *testing.T) {
	b := start(t)
	at := b.token(evmtoken.LyingToken, 100)
	b.announces(b.do(at, nil, evmtoken.LyingToken, "transfer", alice, big.NewInt(50)), 50)
	b.holds(at, alice, 0)
	b.announces(b.do(at, nil, evmtoken.LyingToken, "exaggerate", alice, big.NewInt(90), big.NewInt(9)), 90)
	b.holds(at, alice, 9)
	b.announces(b.do(at, nil, evmtoken.LyingToken, "whisper", alice, big.NewInt(1)))
	b.holds(at, alice, 10)
	b.announces(b.do(at, nil, evmtoken.LyingToken, "pretend", bob, alice, big.NewInt(7)), 7)
	b.holds(at, alice, 10)
}

func TestRebasingTokenChangesBalancesWithoutATransfer(t *testing.T) {
	b := start(t)
	at := b.token(evmtoken.RebasingToken, 1000)
	b.do(at, nil, evmtoken.RebasingToken, "transfer", alice, big.NewInt(100))
	b.holds(at, alice, 100)
	b.announces(b.do(at, nil, evmtoken.RebasingToken, "rebase", big.NewInt(9), big.NewInt(10)))
	b.holds(at, alice, 90)
	b.holds(at, b.FaucetAddress(), 810)
}

func TestBatchPaysManyTokensAtOnce(t *testing.T) {
	b := start(t)
	for _, c := range []evmtoken.Contract{evmtoken.Token, evmtoken.Tether} {
		at, batch := b.token(c, 1000), b.deploy(evmtoken.Batch)
		b.do(at, nil, c, "approve", batch, big.NewInt(1000))
		b.announces(b.do(batch, nil, evmtoken.Batch, "sendToken", at,
			[]common.Address{alice, bob, alice}, []*big.Int{big.NewInt(1), big.NewInt(2), big.NewInt(3)}), 1, 2, 3)
		b.announces(b.do(batch, nil, evmtoken.Batch, "sendTokenAndUndo", at, alice, big.NewInt(500)))
		b.holds(at, alice, 4)
		b.holds(at, bob, 2)
	}
}

func TestBatchPaysTheCoinByInnerCalls(t *testing.T) {
	b := start(t)
	batch, refuser := b.deploy(evmtoken.Batch), b.deploy(evmtoken.Refuser)
	ten := big.NewInt(10)
	b.do(batch, ten, evmtoken.Batch, "forward", alice)
	b.hasCoin(alice, 10)
	b.do(batch, ten, evmtoken.Batch, "sendNative", []common.Address{alice, bob}, []*big.Int{
		big.NewInt(3), big.NewInt(4),
	})
	b.hasCoin(alice, 13)
	b.hasCoin(bob, 4)
	b.do(batch, ten, evmtoken.Batch, "payAndUndo", alice)
	b.hasCoin(alice, 13)
	b.do(batch, ten, evmtoken.Batch, "destroyTowards", refuser)
	b.hasCoin(refuser, 10) // a receiver cannot refuse this
	b.refused(batch, ten, evmtoken.Batch, "forward", refuser)
	b.do(refuser, nil, evmtoken.Refuser, "accept", true)
	b.do(batch, ten, evmtoken.Batch, "forward", refuser)
	b.hasCoin(refuser, 20)
	b.hasCoin(batch, 0)
}

// The trace of an undone payment is what a careless scanner would book.
func TestUndonePaymentsShowInTheTrace(t *testing.T) {
	b := start(t)
	batch := b.deploy(evmtoken.Batch)
	receipt := b.do(batch, big.NewInt(10), evmtoken.Batch, "payAndUndo", alice)
	type frame struct {
		To    common.Address `json:"to"`
		Value string         `json:"value"`
		Error string         `json:"error"`
		Calls []frame        `json:"calls"`
	}
	var top frame
	if err := b.RPC.CallContext(b.Context(), &top, "debug_traceTransaction", receipt.TxHash,
		map[string]any{"tracer": "callTracer"}); err != nil {
		t.Fatal(err)
	}
	if len(top.Calls) == 0 || top.Calls[0].Error == "" || len(top.Calls[0].Calls) == 0 ||
		top.Calls[0].Calls[0].To != alice {
		t.Errorf("got %+v, want a reverted call that paid %v", top, alice)
	}
}

func TestAddressesOfTheTokensAreAlwaysTheSame(t *testing.T) {
	b := start(t)
	tokens, err := b.DeployTokens(b.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, token := range tokens.List() {
		if want := crypto.CreateAddress(b.FaucetAddress(), uint64(i+1)); token.Address != want {
			t.Errorf("%s: got %v, want %v", token.Symbol, token.Address, want)
		}
	}
}
