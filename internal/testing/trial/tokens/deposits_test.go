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
		before func(h *testEnv, mintID int)
		call   string
		args   []any // after the address
		shows  []string
		has    uint64
		doubt  bool
	}{
		{
			name: "says false and moves nothing", token: evmtoken.FalseToken, call: "transfer",
			args:   []any{big.NewInt(500)},
			before: func(h *testEnv, mintID int) { h.callToken(mintID, evmtoken.FalseToken, "refuse", true) },
		},
		{
			name: "says false and moves", token: evmtoken.FalseToken, call: "transfer", args: []any{big.NewInt(500)},
			before: func(h *testEnv, mintID int) { h.callToken(mintID, evmtoken.FalseToken, "deny", true) },
			shows:  []string{"CREDITED"}, has: 500,
		},
		{
			name: "says nothing and moves, like USDT", token: evmtoken.Tether, call: "transfer",
			args:  []any{big.NewInt(500)},
			shows: []string{"CREDITED"}, has: 500,
		},
		{
			name: "takes a fee", token: evmtoken.FeeToken, call: "transfer", args: []any{big.NewInt(500)},
			shows: []string{"UNSUPPORTED BALANCE_DELTA"}, doubt: true,
		},
		{
			name: "announces and moves nothing", token: evmtoken.LyingToken, call: "transfer",
			args:  []any{big.NewInt(500)},
			shows: []string{"UNSUPPORTED BALANCE_DELTA"}, doubt: true,
		},
		{
			name: "announces more than it moves", token: evmtoken.LyingToken, call: "exaggerate",
			args:  []any{big.NewInt(500), big.NewInt(499)},
			shows: []string{"UNSUPPORTED BALANCE_DELTA"}, doubt: true,
		},
		{name: "moves without a word", token: evmtoken.LyingToken, call: "whisper", args: []any{big.NewInt(500)}},
	}
	tokens := tokenList{}
	for i, c := range cases {
		tokens[10+i] = newUsualToken(c.token)
	}
	h := newTestEnv(t, tokens)
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
		h.callToken(10+i, c.token, c.call, append([]any{h.customerAddress(c.name)}, c.args...)...)
	}
	h.settleAll()
	for i, c := range cases {
		h.wantDeposits(c.name, c.shows...)
		h.wantBalance(c.name, 10+i, c.has)
	}
	h.wantQuarantine(doubted...)
	if n := h.number(`SELECT count(*) FROM events`); n != 2 {
		t.Errorf("got %d events, want one for each credit", n)
	}
}

// H-54. Rule DEP-5: a rebase causes no credit.
func TestARebaseIsCreditedToNobodyAndTheReconcilerSeesIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		by   [2]int64
	}{{"up", [2]int64{2, 1}}, {"down", [2]int64{1, 2}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.RebasingToken)})
			h.sendTokens(usdc, h.customerAddress("ann"), 500_000)
			h.settleAll()
			h.wantBalance("ann", usdc, 500_000)
			h.checkBooks()
			h.callToken(usdc, evmtoken.RebasingToken, "rebase", big.NewInt(c.by[0]), big.NewInt(c.by[1]))
			h.settleAll()
			h.wantBalance("ann", usdc, 500_000)
			h.wantDeposits("ann", "CREDITED")
			if h.checkOnChain().IsIntact() {
				t.Error("got no breach, want the balance that nothing explains told")
			}
		})
	}
}

// H-45, behind a proxy: earlier credits stand, and deposits after the upgrade count only as their
// balances show.
func TestATokenThatIsUpgradedIsFoundOutByItsNextDeposit(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newFiatToken, 3: newFiatToken})
	for id, becomes := range map[int]evmtoken.Contract{usdc: evmtoken.FeeToken, 3: evmtoken.LyingToken} {
		ann, bob := h.customerAddress("ann"), h.customerAddress("bob")
		h.sendTokens(id, ann, 500_000)
		h.settleAll()
		code, err := h.node.DeployContract(h.ctx, becomes, "", "", uint8(0))
		h.mustSucceed(err)
		h.callToken(id, evmtoken.Proxy, "proxyUpgradeTo", code)
		h.mine(1)
		h.sendTokens(id, bob, 700_000)
		h.settleAll()
		h.wantBalance("ann", id, 500_000)
		h.wantBalance("bob", id, 0)
		if !h.isQuarantined(id) {
			t.Errorf("became %s: got no quarantine of mint %d", becomes, id)
		}
		// And no payment of it is made until a person has looked.
		if _, err := h.requestWithdrawal(
			"ann", id, "1000", common.HexToAddress("0x1111111111111111111111111111111111111111"),
		); err == nil {
			t.Errorf("became %s: got a withdrawal accepted, want it refused", becomes)
		}
	}
	h.wantDeposits("ann", "CREDITED", "CREDITED")
	h.wantDeposits("bob", "UNSUPPORTED BALANCE_DELTA", "UNSUPPORTED BALANCE_DELTA")
	// A release credits nothing that the balances did not show.
	h.releaseMint(usdc)
	h.settleAll()
	h.wantBalance("bob", usdc, 0)
}

// H-48, H-49 and I-12. Rule DEP-5.
func TestCoinIsCreditedAsItMovedWhateverATraceOrALogSays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.Token)})
	batch, err := h.node.DeployContract(h.ctx, evmtoken.Batch)
	h.mustSucceed(err)
	h.callToken(usdc, evmtoken.Token, "approve", batch, big.NewInt(1_000_000))
	// A contract at the address of EIP-7708 that logs what it is told to.
	native := common.HexToAddress("0xfffffffffffffffffffffffffffffffffffffffe")
	liar, err := h.node.DeployContract(h.ctx, evmtoken.LyingToken, "", "", uint8(0))
	h.mustSucceed(err)
	code, err := h.node.Eth.CodeAt(h.ctx, liar, nil)
	h.mustSucceed(err)
	h.mustSucceed(h.node.SetCode(h.ctx, native, code))
	h.mine(1)
	cases := []struct {
		customer string
		send     func(to common.Address)
		coin     uint64
		shows    []string
	}{
		{
			"forwarded",
			func(to common.Address) { h.sendTransaction(batch, 777, evmtoken.Batch.CallData("forward", to)) }, 777,
			[]string{"CREDITED"},
		},
		{
			"selfdestruct",
			func(to common.Address) { h.sendTransaction(batch, 777, evmtoken.Batch.CallData("destroyTowards", to)) },
			777,
			[]string{"CREDITED"},
		},
		{
			"undone and caught",
			func(to common.Address) { h.sendTransaction(batch, 777, evmtoken.Batch.CallData("payAndUndo", to)) }, 0,
			nil,
		},
		{
			"undone with all",
			func(to common.Address) { h.sendTransaction(batch, 777, evmtoken.Batch.CallData("payThenRevert", to)) }, 0,
			nil,
		},
		{
			"delegatecall",
			func(to common.Address) { h.sendTransaction(batch, 777, evmtoken.Batch.CallData("delegate", to)) }, 0, nil,
		},
		{"token undone and caught", func(to common.Address) {
			h.sendTransaction(
				batch, 0, evmtoken.Batch.CallData("sendTokenAndUndo", h.tokenAddresses[usdc], to, big.NewInt(777)),
			)
		}, 0, nil},
		{"coin with its log", func(to common.Address) {
			h.sendCoin(to, 777)
			h.sendTransaction(
				native, 0, evmtoken.LyingToken.CallData("pretend", h.node.FaucetAddress(), to, big.NewInt(777)),
			)
		}, 777, []string{"CREDITED"}},
		{"log alone", func(to common.Address) {
			h.sendTransaction(
				native, 0, evmtoken.LyingToken.CallData("pretend", h.node.FaucetAddress(), to, big.NewInt(777)),
			)
		}, 0, nil},
	}
	for _, c := range cases {
		c.send(h.customerAddress(c.customer))
	}
	h.settleAll()
	for _, c := range cases {
		h.wantBalance(c.customer, eth, c.coin)
		h.wantBalance(c.customer, usdc, 0)
		h.wantDeposits(c.customer, c.shows...)
		h.wantChainBalance(eth, h.customerAddress(c.customer), int64(c.coin))
	}
	if n := h.number(`SELECT count(*) FROM scan_findings`); n != 0 {
		t.Errorf("got %d findings, want none", n)
	}
	h.checkBooks()
}

// H-46, H-51, H-57 and H-58. Rules DEP-4 and DEP-7.
func TestABatchIsAsManyDepositsAsItPaysAndOnlyTheListedContractCounts(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.Token)})
	batch, err := h.node.DeployContract(h.ctx, evmtoken.Batch)
	h.mustSucceed(err)
	second, err := h.node.DeployContract(h.ctx, evmtoken.Alias, h.tokenAddresses[usdc])
	h.mustSucceed(err)
	twin := newUsualToken(evmtoken.Token)(h) // with the same name, symbol and decimals
	h.callToken(usdc, evmtoken.Token, "approve", batch, big.NewInt(1_000_000))
	h.callToken(usdc, evmtoken.Token, "approve", second, big.NewInt(1_000_000))
	h.mine(1)

	ann := h.customerAddress("ann")
	var to []common.Address
	var units []*big.Int
	for i := range 50 {
		to, units = append(to, common.BigToAddress(big.NewInt(int64(1_000_000+i)))), append(units, big.NewInt(1000))
	}
	to[0], to[17], to[49] = ann, ann, ann
	h.sendTransaction(batch, 0, evmtoken.Batch.CallData("sendToken", h.tokenAddresses[usdc], to, units))
	h.sendTransaction(second, 0, evmtoken.Token.CallData("transfer", h.customerAddress("bob"), big.NewInt(5000)))
	h.sendTransaction(twin, 0, evmtoken.Token.CallData("transfer", h.customerAddress("cleo"), big.NewInt(5000)))
	h.sendTokens(usdc, h.customerAddress("dora"), 0)
	h.callToken(
		usdc, evmtoken.Token, "transferFrom", h.customerAddress("dora"), h.customerAddress("dora"), big.NewInt(0),
	)
	h.settleAll()

	h.wantDeposits("ann", "CREDITED", "CREDITED", "CREDITED")
	h.wantBalance("ann", usdc, 3000)
	if n := h.number(`SELECT count(DISTINCT position) FROM deposits WHERE customer_id = 'ann'`); n != 3 {
		t.Errorf("got %d positions in the transaction, want 3", n)
	}
	h.wantDeposits("bob", "CREDITED", "UNSUPPORTED UNKNOWN_TOKEN")
	h.wantBalance("bob", usdc, 5000)
	h.wantDeposits("cleo", "UNSUPPORTED UNKNOWN_TOKEN")
	h.wantBalance("cleo", usdc, 0)
	h.wantDeposits("dora")
	if n := h.number(`SELECT count(*) FROM events`); n != 4 {
		t.Errorf("got %d events, want one for each credit", n)
	}
	h.wantQuarantine()
	h.checkBooks()
}

// H-37 and H-52. Rule WD-12: an address in a history is no known destination.
func TestAPoisonedHistoryMakesNoDestinationKnown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.Token)})
	h.sendTokens(usdc, h.customerAddress("ann"), 500_000)
	h.settleAll()
	shop := common.HexToAddress("0xabcd000000000000000000000000000000001234")
	fake := common.HexToAddress("0xabcd0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f1234")
	first := h.mustWithdraw("ann", usdc, "1000", shop)
	h.waitWithdrawalEnd(first)
	h.wantWithdrawal(first, "COMPLETED")
	// The poisoner writes the look-alike into the history of our treasury in every way: a transfer
	// of zero in our name, a false token's event, dust.
	liar, err := h.node.DeployContract(h.ctx, evmtoken.LyingToken, "A token", "TOK", uint8(6))
	h.mustSucceed(err)
	h.callToken(usdc, evmtoken.Token, "transferFrom", raw(h.treasury.Address), fake, big.NewInt(0))
	h.sendTransaction(liar, 0, evmtoken.LyingToken.CallData("pretend", raw(h.treasury.Address), fake, big.NewInt(1000)))
	h.sendTransaction(liar, 0, evmtoken.LyingToken.CallData("pretend", fake, raw(h.treasury.Address), big.NewInt(1000)))
	h.settleAll()
	second := h.mustWithdraw("ann", usdc, "1000", fake)
	h.waitWithdrawalEnd(second)
	h.wantWithdrawal(second, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.wantChainBalance(usdc, fake, 0)
	third := h.mustWithdraw("ann", usdc, "1000", shop)
	h.waitWithdrawalEnd(third)
	h.wantWithdrawal(third, "COMPLETED")
	h.wantChainBalance(usdc, shop, 2000)
}

// H-51. Rule DEP-6: ten thousand transfers of a unit are kept as dust, a row each, and have no
// other effect.
func TestAFloodOfDustIsKeptAndMovesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.Token)})
	batch, err := h.node.DeployContract(h.ctx, evmtoken.Batch)
	h.mustSucceed(err)
	h.callToken(usdc, evmtoken.Token, "approve", batch, big.NewInt(1_000_000_000))
	ann := h.customerAddress("ann")
	h.sendTokens(usdc, ann, 500_000)
	h.settleAll()
	const each, times = 1000, 10
	to, units := make([]common.Address, each), make([]*big.Int, each)
	for i := range to {
		to[i], units[i] = ann, big.NewInt(1)
	}
	for i := range times {
		h.sendTransaction(batch, 0, evmtoken.Batch.CallData("sendToken", h.tokenAddresses[usdc], to, units))
		if i%2 == 1 {
			h.mine(1)
		}
	}
	h.mine(1)
	h.runAllSteps()
	if n := h.number(`SELECT count(*) FROM deposits WHERE status = 'CONFIRMING'`); n != 0 {
		t.Errorf("got %d deposits shown before they are final, want none", n)
	}
	began := time.Now()
	h.settleAll()
	t.Logf("%d transfers taken in within %v", each*times, time.Since(began))
	for what, c := range map[string]struct {
		sql  string
		want int64
	}{
		"deposits": {`SELECT count(*) FROM deposits WHERE status = 'BELOW_MINIMUM'`, each * times},
		"of them all dust": {
			`SELECT dust::bigint FROM address_funds f JOIN wallets USING (wallet_id) WHERE subject = 'ann' AND mint_id = 2`,
			each * times,
		},
		"events":   {`SELECT count(*) FROM events`, 1},
		"postings": {`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT' AND mint_id = 2`, 1},
		"sweeps":   {`SELECT count(*) FROM sweeps`, 0},
		"audit":    {`SELECT count(*) FROM audit_log WHERE action = 'deposit.below_minimum'`, each * times},
	} {
		if got := h.number(c.sql); got != c.want {
			t.Errorf("%s: got %d, want %d", what, got, c.want)
		}
	}
	h.wantBalance("ann", usdc, 500_000)
	_, err = h.Sweeper.SweepAll(h.ctx)
	h.mustSucceed(err)
	if got := h.word(`SELECT amount::text FROM sweeps`); got != "500000" {
		t.Errorf("got a sweep of %s, want what was credited alone", got)
	}
	h.checkBooks()
}
