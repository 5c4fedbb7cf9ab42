package tokens

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
)

// H-45, H-72 and invariant I-11. Rule DEP-5.
func TestWhatATokenSaysIsCreditedOnlyAsItsBalancesMoved(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		token  evmtoken.Contract
		before func(h *house, mintID int)
		call   string
		args   []any // after the address
		shows  []string
		has    uint64
		doubt  bool
	}{
		{
			name: "says false and moves nothing", token: evmtoken.FalseToken, call: "transfer", args: []any{big.NewInt(500)},
			before: func(h *house, mintID int) { h.act(mintID, evmtoken.FalseToken, "refuse", true) },
		},
		{
			name: "says false and moves", token: evmtoken.FalseToken, call: "transfer", args: []any{big.NewInt(500)},
			before: func(h *house, mintID int) { h.act(mintID, evmtoken.FalseToken, "deny", true) },
			shows:  []string{"CREDITED"}, has: 500,
		},
		{
			name: "says nothing and moves, like USDT", token: evmtoken.Tether, call: "transfer", args: []any{big.NewInt(500)},
			shows: []string{"CREDITED"}, has: 500,
		},
		{
			name: "takes a fee", token: evmtoken.FeeToken, call: "transfer", args: []any{big.NewInt(500)},
			shows: []string{"UNSUPPORTED BALANCE_DELTA"}, doubt: true,
		},
		{
			name: "announces and moves nothing", token: evmtoken.LyingToken, call: "transfer", args: []any{big.NewInt(500)},
			shows: []string{"UNSUPPORTED BALANCE_DELTA"}, doubt: true,
		},
		{
			name: "announces more than it moves", token: evmtoken.LyingToken, call: "exaggerate", args: []any{big.NewInt(500), big.NewInt(499)},
			shows: []string{"UNSUPPORTED BALANCE_DELTA"}, doubt: true,
		},
		{name: "moves without a word", token: evmtoken.LyingToken, call: "whisper", args: []any{big.NewInt(500)}},
	}
	tokens := listed{}
	for i, c := range cases {
		tokens[10+i] = usual(c.token)
	}
	h := open(t, tokens)
	var doubted []int
	for i, c := range cases {
		if c.before != nil {
			c.before(h, 10+i)
		}
		if c.doubt {
			doubted = append(doubted, 10+i)
		}
	}
	h.mine(1)
	for i, c := range cases {
		h.act(10+i, c.token, c.call, append([]any{h.customer(c.name)}, c.args...)...)
	}
	h.settle()
	for i, c := range cases {
		h.shows(c.name, c.shows...)
		h.has(c.name, 10+i, c.has)
	}
	h.wantQuarantine(doubted...)
	if n := h.number(`SELECT count(*) FROM events`); n != 2 {
		t.Errorf("got %d events, want one for each credit", n)
	}
}

// H-54. Rule DEP-5: nothing is credited from a rebase.
func TestARebaseIsCreditedToNobodyAndTheReconcilerSeesIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		by   [2]int64
	}{{"up", [2]int64{2, 1}}, {"down", [2]int64{1, 2}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, listed{usdc: usual(evmtoken.RebasingToken)})
			h.pay(usdc, h.customer("ann"), 500_000)
			h.settle()
			h.has("ann", usdc, 500_000)
			h.sound()
			h.act(usdc, evmtoken.RebasingToken, "rebase", big.NewInt(c.by[0]), big.NewInt(c.by[1]))
			h.settle()
			h.has("ann", usdc, 500_000)
			h.shows("ann", "CREDITED")
			if h.onChain().OK() {
				t.Error("got no breach, want the balance that nothing explains told")
			}
		})
	}
}

// H-45, behind a proxy: what was credited stands, what comes after the change is
// believed only as its balances show.
func TestATokenThatIsUpgradedIsFoundOutByItsNextDeposit(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: fiat, 3: fiat})
	for id, becomes := range map[int]evmtoken.Contract{usdc: evmtoken.FeeToken, 3: evmtoken.LyingToken} {
		ann, bob := h.customer("ann"), h.customer("bob")
		h.pay(id, ann, 500_000)
		h.settle()
		code, err := h.node.Deploy(h.ctx, becomes, "", "", uint8(0))
		h.must(err)
		h.act(id, evmtoken.Proxy, "proxyUpgradeTo", code)
		h.mine(1)
		h.pay(id, bob, 700_000)
		h.settle()
		h.has("ann", id, 500_000)
		h.has("bob", id, 0)
		if !h.quarantined(id) {
			t.Errorf("became %s: got no quarantine of mint %d", becomes, id)
		}
		// And nothing is paid of it while nobody has looked.
		if _, err := h.ask("ann", id, "1000", common.HexToAddress("0x1111111111111111111111111111111111111111")); err == nil {
			t.Errorf("became %s: got a withdrawal accepted, want it refused", becomes)
		}
	}
	h.shows("ann", "CREDITED", "CREDITED")
	h.shows("bob", "UNSUPPORTED BALANCE_DELTA", "UNSUPPORTED BALANCE_DELTA")
	// A release credits nothing that the balances did not show.
	h.release(usdc)
	h.settle()
	h.has("bob", usdc, 0)
}

// H-48, H-49 and I-12. Rule DEP-5.
func TestCoinIsCreditedAsItMovedWhateverATraceOrALogSays(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: usual(evmtoken.Token)})
	batch, err := h.node.Deploy(h.ctx, evmtoken.Batch)
	h.must(err)
	h.act(usdc, evmtoken.Token, "approve", batch, big.NewInt(1_000_000))
	// A contract at the address of EIP-7708 that logs what it is told to.
	native := common.HexToAddress("0xfffffffffffffffffffffffffffffffffffffffe")
	liar, err := h.node.Deploy(h.ctx, evmtoken.LyingToken, "", "", uint8(0))
	h.must(err)
	code, err := h.node.Eth.CodeAt(h.ctx, liar, nil)
	h.must(err)
	h.must(h.node.SetCode(h.ctx, native, code))
	h.mine(1)
	cases := []struct {
		customer string
		send     func(to common.Address)
		coin     uint64
		shows    []string
	}{
		{"forwarded", func(to common.Address) { h.send(batch, 777, evmtoken.Batch.Call("forward", to)) }, 777, []string{"CREDITED"}},
		{"selfdestruct", func(to common.Address) { h.send(batch, 777, evmtoken.Batch.Call("destroyTowards", to)) }, 777, []string{"CREDITED"}},
		{"undone and caught", func(to common.Address) { h.send(batch, 777, evmtoken.Batch.Call("payAndUndo", to)) }, 0, nil},
		{"undone with all", func(to common.Address) { h.send(batch, 777, evmtoken.Batch.Call("payThenRevert", to)) }, 0, nil},
		{"delegatecall", func(to common.Address) { h.send(batch, 777, evmtoken.Batch.Call("delegate", to)) }, 0, nil},
		{"token undone and caught", func(to common.Address) {
			h.send(batch, 0, evmtoken.Batch.Call("sendTokenAndUndo", h.at[usdc], to, big.NewInt(777)))
		}, 0, nil},
		{"coin with its log", func(to common.Address) {
			h.coin(to, 777)
			h.send(native, 0, evmtoken.LyingToken.Call("pretend", h.node.FaucetAddress(), to, big.NewInt(777)))
		}, 777, []string{"CREDITED"}},
		{"log alone", func(to common.Address) {
			h.send(native, 0, evmtoken.LyingToken.Call("pretend", h.node.FaucetAddress(), to, big.NewInt(777)))
		}, 0, nil},
	}
	for _, c := range cases {
		c.send(h.customer(c.customer))
	}
	h.settle()
	for _, c := range cases {
		h.has(c.customer, eth, c.coin)
		h.has(c.customer, usdc, 0)
		h.shows(c.customer, c.shows...)
		h.holds(eth, h.customer(c.customer), int64(c.coin))
	}
	if n := h.number(`SELECT count(*) FROM scan_findings`); n != 0 {
		t.Errorf("got %d findings, want none", n)
	}
	h.sound()
}

// H-46, H-51, H-57 and H-58. Rules DEP-4 and DEP-7.
func TestABatchIsAsManyDepositsAsItPaysAndOnlyTheListedContractCounts(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: usual(evmtoken.Token)})
	batch, err := h.node.Deploy(h.ctx, evmtoken.Batch)
	h.must(err)
	second, err := h.node.Deploy(h.ctx, evmtoken.Alias, h.at[usdc])
	h.must(err)
	twin := usual(evmtoken.Token)(h) // of the same name, symbol and decimals
	h.act(usdc, evmtoken.Token, "approve", batch, big.NewInt(1_000_000))
	h.act(usdc, evmtoken.Token, "approve", second, big.NewInt(1_000_000))
	h.mine(1)

	ann := h.customer("ann")
	var to []common.Address
	var units []*big.Int
	for i := range 50 {
		to, units = append(to, common.BigToAddress(big.NewInt(int64(1_000_000+i)))), append(units, big.NewInt(1000))
	}
	to[0], to[17], to[49] = ann, ann, ann
	h.send(batch, 0, evmtoken.Batch.Call("sendToken", h.at[usdc], to, units))
	h.send(second, 0, evmtoken.Token.Call("transfer", h.customer("bob"), big.NewInt(5000)))
	h.send(twin, 0, evmtoken.Token.Call("transfer", h.customer("cleo"), big.NewInt(5000)))
	h.pay(usdc, h.customer("dora"), 0)
	h.act(usdc, evmtoken.Token, "transferFrom", h.customer("dora"), h.customer("dora"), big.NewInt(0))
	h.settle()

	h.shows("ann", "CREDITED", "CREDITED", "CREDITED")
	h.has("ann", usdc, 3000)
	if n := h.number(`SELECT count(DISTINCT position) FROM deposits WHERE customer_id = 'ann'`); n != 3 {
		t.Errorf("got %d positions in the transaction, want 3", n)
	}
	h.shows("bob", "CREDITED", "UNSUPPORTED UNKNOWN_TOKEN")
	h.has("bob", usdc, 5000)
	h.shows("cleo", "UNSUPPORTED UNKNOWN_TOKEN")
	h.has("cleo", usdc, 0)
	h.shows("dora")
	if n := h.number(`SELECT count(*) FROM events`); n != 4 {
		t.Errorf("got %d events, want one for each credit", n)
	}
	h.wantQuarantine()
	h.sound()
}

// H-37 and H-52. Rule WD-12: what stands in a history is no known destination.
func TestAPoisonedHistoryMakesNoDestinationKnown(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: usual(evmtoken.Token)})
	h.pay(usdc, h.customer("ann"), 500_000)
	h.settle()
	shop := common.HexToAddress("0xabcd000000000000000000000000000000001234")
	fake := common.HexToAddress("0xabcd0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f1234")
	first := h.withdraw("ann", usdc, "1000", shop)
	h.ends(first)
	h.wantWithdrawal(first, "COMPLETED")
	// The poisoner writes the look-alike into the history of our treasury in all the
	// ways there are: a transfer of nothing in our name, a false token's event, dust.
	liar, err := h.node.Deploy(h.ctx, evmtoken.LyingToken, "A token", "TOK", uint8(6))
	h.must(err)
	h.act(usdc, evmtoken.Token, "transferFrom", raw(h.treasury.Address), fake, big.NewInt(0))
	h.send(liar, 0, evmtoken.LyingToken.Call("pretend", raw(h.treasury.Address), fake, big.NewInt(1000)))
	h.send(liar, 0, evmtoken.LyingToken.Call("pretend", fake, raw(h.treasury.Address), big.NewInt(1000)))
	h.settle()
	second := h.withdraw("ann", usdc, "1000", fake)
	h.ends(second)
	h.wantWithdrawal(second, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.holds(usdc, fake, 0)
	third := h.withdraw("ann", usdc, "1000", shop)
	h.ends(third)
	h.wantWithdrawal(third, "COMPLETED")
	h.holds(usdc, shop, 2000)
}

// H-51. Rule DEP-6: ten thousand transfers of a unit are kept as dust, a row each,
// and nothing else comes of them.
func TestAFloodOfDustIsKeptAndMovesNothing(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: usual(evmtoken.Token)})
	batch, err := h.node.Deploy(h.ctx, evmtoken.Batch)
	h.must(err)
	h.act(usdc, evmtoken.Token, "approve", batch, big.NewInt(1_000_000_000))
	ann := h.customer("ann")
	h.pay(usdc, ann, 500_000)
	h.settle()
	const each, times = 1000, 10
	to, units := make([]common.Address, each), make([]*big.Int, each)
	for i := range to {
		to[i], units[i] = ann, big.NewInt(1)
	}
	for i := range times {
		h.send(batch, 0, evmtoken.Batch.Call("sendToken", h.at[usdc], to, units))
		if i%2 == 1 {
			h.mine(1)
		}
	}
	h.mine(1)
	h.turn()
	if n := h.number(`SELECT count(*) FROM deposits WHERE status = 'CONFIRMING'`); n != 0 {
		t.Errorf("got %d deposits shown before they are final, want none", n)
	}
	began := time.Now()
	h.settle()
	t.Logf("%d transfers taken in within %v", each*times, time.Since(began))
	for what, c := range map[string]struct {
		sql  string
		want int64
	}{
		"deposits":         {`SELECT count(*) FROM deposits WHERE status = 'BELOW_MINIMUM'`, each * times},
		"of them all dust": {`SELECT dust::bigint FROM address_funds f JOIN wallets USING (wallet_id) WHERE subject = 'ann' AND mint_id = 2`, each * times},
		"events":           {`SELECT count(*) FROM events`, 1},
		"postings":         {`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT' AND mint_id = 2`, 1},
		"sweeps":           {`SELECT count(*) FROM sweeps`, 0},
		"audit":            {`SELECT count(*) FROM audit_log WHERE action = 'deposit.below_minimum'`, each * times},
	} {
		if got := h.number(c.sql); got != c.want {
			t.Errorf("%s: got %d, want %d", what, got, c.want)
		}
	}
	h.has("ann", usdc, 500_000)
	_, err = h.Sweeper.All(h.ctx)
	h.must(err)
	if got := h.word(`SELECT amount::text FROM sweeps`); got != "500000" {
		t.Errorf("got a sweep of %s, want what was credited alone", got)
	}
	h.sound()
}
