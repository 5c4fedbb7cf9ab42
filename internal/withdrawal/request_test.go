package withdrawal

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Rule WD-2.
func TestRequestHoldsAndOrders(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	if w.Status != "PROCESSING" || w.ChainStatus != "NONE" || w.RequiresApproval || w.Amount.String() != "1000" ||
		w.Amount.Decimal(w.Mint.Decimals) != "0.001" ||
		w.ToAddress != stranger || w.USDValue.Cents() != "0.00" || *w.NetworkFeeMintID != eth ||
		w.Mint.Symbol != "USDC" {
		t.Errorf("got %+v, want a withdrawal that is processing", w)
	}
	h.wantBalances("999000", "1000")
	if got := h.orderStatus(w.ID); got != "QUEUED" {
		t.Errorf("order: got %v, want QUEUED", got)
	}
	h.wantEvents(w.ID)
}

// Rules WD-3, WD-4.
func TestHeldRequestTellsAndOrdersNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.requestHeld()
	if w.Status != "AWAITING_APPROVAL" || !w.RequiresApproval || len(w.ApprovalReasons) != 1 ||
		w.Approvals.Required != 1 || w.Approvals.Received != 0 {
		t.Errorf("got %+v, want a withdrawal that waits", w)
	}
	h.wantBalances("999000", "1000")
	h.wantEvents(w.ID, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL")
	if got := h.orderStatus(w.ID); got != "none" {
		t.Errorf("order: got %v, want none", got)
	}
}

// Rule WD-3.
func TestThresholdHoldsStrictlyAbove(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	limit := money.MustParseUSD("0.001")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return org.SetWithdrawThreshold(ctx, tx, audit.Operator("test"), h.org, &limit)
	})
	r := h.newRequest()
	if w := h.mustRequest(r); w.Status != "PROCESSING" {
		t.Errorf("at the threshold: got %v %v, want PROCESSING", w.Status, w.ApprovalReasons)
	}
	r.Amount = "1001"
	if w := h.mustRequest(r); w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "USD_THRESHOLD" {
		t.Errorf("above the threshold: got %v %v, want AWAITING_APPROVAL", w.Status, w.ApprovalReasons)
	}
	fixed := h.Prices
	h.Prices = agedPrice{fixed, priceAgeMax + time.Second}
	if w := h.mustRequest(r); w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "PRICE_UNAVAILABLE" {
		t.Errorf("with a stale price: got %v %v, want AWAITING_APPROVAL", w.Status, w.ApprovalReasons)
	}
	h.Prices = nil
	if w := h.mustRequest(r); w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "PRICE_UNAVAILABLE" ||
		w.USDValue != nil {
		t.Errorf("without a price: got %v %v, want AWAITING_APPROVAL", w.Status, w.ApprovalReasons)
	}
}

// agedPrice is a source whose prices are of some time ago.
type agedPrice struct {
	price.Source
	age time.Duration
}

func (p agedPrice) USD(ctx context.Context, mintID int) (price.Quote, error) {
	q, err := p.Source.USD(ctx, mintID)
	q.QuotedAt = q.QuotedAt.Add(-p.age)
	return q, err
}

// Rules REQ-3, WD-11, WD-14.
func TestRefusedRequestWritesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	treasury, err := h.wallets.Treasury(t.Context(), h.org, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := org.Create(t.Context(), h.DB, "other")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := h.wallets.Address(
		t.Context(),
		signer.WalletRef{OrgID: other.ID, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: "bob"},
	)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	before := h.dumpRows()
	for _, c := range []struct {
		name   string
		change func(*Request)
		want   fault.Code
		param  string
	}{
		{"unknown mint", func(r *Request) { r.MintID = 99 }, fault.MintNotFound, "mintId"},
		{"customer id of spaces", func(r *Request) { r.CustomerID = " " }, fault.InvalidRequest, "customerId"},
		{"unknown customer", func(r *Request) { r.CustomerID = "nobody" }, fault.InsufficientBalance, "amount"},
		{"customer in another case", func(r *Request) { r.CustomerID = "Alice" }, fault.InsufficientBalance, "amount"},
		{"amount of nothing", func(r *Request) { r.Amount = "0" }, fault.InvalidAmount, "amount"},
		{"negative", func(r *Request) { r.Amount = "-5" }, fault.InvalidAmount, "amount"},
		{"leading zeros", func(r *Request) { r.Amount = "007" }, fault.InvalidAmount, "amount"},
		{"point without useDecimal", func(r *Request) { r.Amount = "1.0" }, fault.InvalidAmount, "amount"},
		{
			"excess zeros", func(r *Request) { r.Amount, r.UseDecimal = "1.0000000", true },
			fault.InvalidAmount, "amount",
		},
		{"beyond 256 bits", func(r *Request) { r.Amount = strings.Repeat("9", 78) }, fault.InvalidAmount, "amount"},
		{"below the minimum", func(r *Request) { r.Amount = "9" }, fault.AmountBelowMinimum, "amount"},
		{"one unit more than there is", func(r *Request) { r.Amount = "1000001" }, fault.InsufficientBalance, "amount"},
		{
			"bad checksum", func(r *Request) { r.ToAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD" },
			fault.InvalidAddress, "toAddress",
		},
		{"39 digits", func(r *Request) { r.ToAddress = stranger[:41] }, fault.InvalidAddress, "toAddress"},
		{"a name", func(r *Request) { r.ToAddress = "vitalik.eth" }, fault.InvalidAddress, "toAddress"},
		{
			"zero address", func(r *Request) { r.ToAddress = "0x0000000000000000000000000000000000000000" },
			fault.DestinationNotAllowed, "toAddress",
		},
		{
			"precompile", func(r *Request) { r.ToAddress = "0x0000000000000000000000000000000000000009" },
			fault.DestinationNotAllowed, "toAddress",
		},
		{
			"the token itself", func(r *Request) { r.ToAddress = string(usdcAddress) },
			fault.DestinationNotAllowed, "toAddress",
		},
		{
			"our treasury", func(r *Request) { r.ToAddress = string(treasury.Address) },
			fault.DestinationNotAllowed, "toAddress",
		},
		{
			"another tenant's deposit address",
			func(r *Request) { r.ToAddress = strings.ToLower(string(theirs.Address)) },
			fault.DestinationNotAllowed, "toAddress",
		},
		{"memo", func(r *Request) { r.Memo = text("7") }, fault.InvalidRequest, "memo"},
		{"deducted fee", func(r *Request) { r.FeeMode = "DEDUCTED" }, fault.InvalidRequest, "feeMode"},
		{
			"key with a space", func(r *Request) { r.IdempotencyKey = text("a b") }, fault.InvalidRequest,
			"idempotencyKey",
		},
		{"empty key", func(r *Request) { r.IdempotencyKey = text("") }, fault.InvalidRequest, "idempotencyKey"},
		{
			"long key", func(r *Request) { r.IdempotencyKey = text(strings.Repeat("k", 256)) },
			fault.InvalidRequest, "idempotencyKey",
		},
		{
			"reference with a zero byte", func(r *Request) { r.Reference = text("a\x00") },
			fault.InvalidRequest, "reference",
		},
		{
			"long metadata", func(r *Request) { r.Metadata = map[string]string{"k": strings.Repeat("v", 501)} },
			fault.InvalidRequest, "metadata",
		},
	} {
		r := h.newRequest()
		c.change(&r)
		_, _, err := h.Request(t.Context(), h.org, r)
		f := fault.Find(err)
		if f == nil || f.Code != c.want || f.Param != c.param {
			t.Errorf("%s: got %v, want %v on %v", c.name, err, c.want, c.param)
		}
	}
	if got := h.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

func TestRefusedFirstRequestMakesNoTreasury(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	other, _, err := org.Create(t.Context(), h.DB, "other")
	if err != nil {
		t.Fatal(err)
	}
	before := h.dumpRows()
	_, _, err = h.Request(t.Context(), other.ID, h.newRequest())
	wantFault(t, err, fault.InsufficientBalance)
	if got := h.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

func TestFreezesStopRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    freeze.Freeze
		want fault.Code
	}{
		{"customer", freeze.Freeze{Scope: freeze.ScopeCustomer, CustomerID: alice}, fault.CustomerFrozen},
		{"organization", freeze.Freeze{Scope: freeze.ScopeOrganization}, fault.OrganizationFrozen},
		{"chain", freeze.Freeze{Scope: freeze.ScopeChain, Chain: chain.Ethereum}, fault.WithdrawalsSuspended},
		{"all", freeze.Freeze{Scope: freeze.ScopeAll}, fault.WithdrawalsSuspended},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			held := h.requestHeld()
			f := c.f
			if f.Scope == freeze.ScopeCustomer || f.Scope == freeze.ScopeOrganization {
				f.OrgID = h.org
			}
			f.Source, f.Reason, f.Actor = freeze.SourceOperator, "test", audit.Operator("test")
			h.inSystem(func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) })
			before := h.dumpRows()
			_, _, err := h.Request(t.Context(), h.org, h.newRequest())
			wantFault(t, err, c.want)
			_, err = h.Approve(t.Context(), h.org, held.ID, audit.User("usr_1"))
			wantFault(t, err, c.want)
			if got := h.dumpRows(); got != before {
				t.Errorf("rows: got %v, want %v", got, before)
			}
		})
	}
}

// I-20, and the replay rules of the interface. Rule IDEM-1.
func TestReplaysAreOneWithdrawal(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key := "payout-991"
	r := h.newRequest()
	r.IdempotencyKey = &key
	// The whole balance: the loser of the race finds it empty, and still gets the winner's
	// withdrawal.
	r.Amount = "1000000"
	const callers = 64
	ids := make([]string, callers)
	fresh := make([]bool, callers)
	runParallel(callers, func(i int) {
		w, replayed, err := h.Request(t.Context(), h.org, r)
		if err != nil {
			t.Errorf("caller %d: got %v, want the withdrawal", i, err)
			return
		}
		ids[i], fresh[i] = w.ID, !replayed
	})
	made := 0
	for i := range callers {
		if ids[i] != ids[0] {
			t.Fatalf("caller %d: got %v, want %v", i, ids[i], ids[0])
		}
		if fresh[i] {
			made++
		}
	}
	if made != 1 {
		t.Errorf("made: got %v, want 1", made)
	}
	h.wantBalances("0", "1000000")
	if got := h.dumpRows(); !strings.Contains(got, "withdrawals 1, transfers 2,") ||
		!strings.Contains(got, "orders 1,") {
		t.Errorf("rows: got %v, want one withdrawal, its hold and its order", got)
	}
}

// Rules IDEM-2, IDEM-3.
func TestReplayComesBeforeEveryOtherRule(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key, reference, other := "k", "order 7", "order 8"
	r := h.newRequest()
	r.IdempotencyKey, r.Reference = &key, &reference
	first := h.mustRequest(r)
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(
			ctx, tx,
			freeze.Freeze{
				Scope: freeze.ScopeOrganization, OrgID: h.org, Source: freeze.SourceOperator, Reason: "test",
				Actor: audit.Operator("test"),
			},
		)
	})
	before := h.dumpRows()

	r.Amount, r.UseDecimal, r.ToAddress = "0.001", true, strings.ToLower(stranger)
	r.Metadata = map[string]string{"not": "counted"}
	again, replayed, err := h.Request(t.Context(), h.org, r)
	if err != nil || !replayed || again.ID != first.ID {
		t.Errorf(
			"the same payment in other words: got %v %v %v, want %v", again.ID, replayed, err,
			first.ID,
		)
	}
	for name, change := range map[string]func(*Request){
		"amount":    func(r *Request) { r.Amount = "0.002" },
		"no amount": func(r *Request) { r.Amount = "x" },
		"mint":      func(r *Request) { r.MintID = 99 },
		"address":   func(r *Request) { r.ToAddress = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359" },
		"customer":  func(r *Request) { r.CustomerID = "bob" },
		"approval":  func(r *Request) { r.RequireApproval = true },
		// One key for two orders of one amount: no answer may say that both are paid.
		"reference":    func(r *Request) { r.Reference = &other },
		"no reference": func(r *Request) { r.Reference = nil },
	} {
		changed := r
		change(&changed)
		_, _, err := h.Request(t.Context(), h.org, changed)
		f := fault.Find(err)
		if f == nil || f.Code != fault.IdempotencyConflict || f.Extra["existingId"] != first.ID {
			t.Errorf("other %s: got %v, want %v with %v", name, err, fault.IdempotencyConflict, first.ID)
		}
	}
	if got := h.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

// Rule IDEM-1.
func TestAReplayShowsThePresentState(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key := "k"
	r := h.newRequest()
	r.IdempotencyKey, r.RequireApproval = &key, true
	first := h.mustRequest(r)
	if _, err := h.Remove(t.Context(), h.org, first.ID, audit.User("usr_1"), ""); err != nil {
		t.Fatal(err)
	}
	again, replayed, err := h.Request(t.Context(), h.org, r)
	if err != nil || !replayed || again.ID != first.ID || again.Status != "REJECTED" {
		t.Errorf(
			"got %v %v %v %v, want %v REJECTED", again.ID, again.Status, replayed, err,
			first.ID,
		)
	}
	h.wantBalances("1000000", "0")
}

// A change whose event cannot be written does not happen, at every step with an event. Rule EVT-1.
func TestAChangeWhoseEventCannotBeWrittenDoesNotHappen(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held, going := h.requestHeld(), h.mustRequest(h.newRequest())
	_, err := pgtest.OwnerPool(t, h.DB).Exec(t.Context(), `
		CREATE FUNCTION break_event() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$;
		CREATE TRIGGER break_event BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION break_event()`)
	if err != nil {
		t.Fatal(err)
	}
	before := h.dumpRows()
	r := h.newRequest()
	r.RequireApproval = true
	for name, change := range map[string]func() error{
		"request": func() error { _, _, err := h.Request(t.Context(), h.org, r); return err },
		"approve": func() error { _, err := h.Approve(t.Context(), h.org, held.ID, person); return err },
		"remove":  func() error { _, err := h.Remove(t.Context(), h.org, held.ID, person, ""); return err },
		"broadcast": func() error {
			return h.DB.InSystem(
				t.Context(),
				func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, h.loadOrder(going), "0xaa") },
			)
		},
		"end": func() error { return h.endOrder(h.loadOrder(going), dispatch.End{Paid: true, Hash: "0xaa"}) },
	} {
		if err := change(); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	if got := h.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	for id, want := range map[string]string{held.ID: "AWAITING_APPROVAL", going.ID: "PROCESSING"} {
		if got, err := h.ByID(t.Context(), h.org, id); err != nil || string(got.Status) != want {
			t.Errorf("%s: got %v %v, want %v", id, got.Status, err, want)
		}
	}
}

// Rule IDEM-4.
func TestRefusalDoesNotUseUpAKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key := "k"
	r := h.newRequest()
	r.IdempotencyKey, r.Amount = &key, "1000001"
	_, _, err := h.Request(t.Context(), h.org, r)
	wantFault(t, err, fault.InsufficientBalance)
	r.Amount = "1000"
	if w, replayed, err := h.Request(t.Context(), h.org, r); err != nil || replayed || w.Amount.String() != "1000" {
		t.Errorf("got %v %v %v, want a new withdrawal", w.Amount, replayed, err)
	}
}

// Rule WD-2.
func TestSpendersNeverOverdraw(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r := h.newRequest()
	r.Amount = "100000" // ten of them fit
	taken := make([]bool, 64)
	runParallel(len(taken), func(i int) {
		_, _, err := h.Request(t.Context(), h.org, r)
		taken[i] = err == nil
		if err != nil && !fault.HasCode(err, fault.InsufficientBalance) {
			t.Errorf("got %v, want %v", err, fault.InsufficientBalance)
		}
	})
	n := 0
	for _, ok := range taken {
		if ok {
			n++
		}
	}
	if n != 10 {
		t.Errorf("taken: got %v, want 10", n)
	}
	h.wantBalances("0", "1000000")
}

// H-37.
// Rule WD-12.
func TestLookalikeOfAKnownDestinationIsHeld(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r := h.newRequest()
	r.ToAddress = "0x1111222222222222222222222222222222223333"
	if w := h.mustRequest(r); w.Status != "PROCESSING" {
		t.Fatalf("a first destination: got %v %v, want PROCESSING", w.Status, w.ApprovalReasons)
	}
	r.ToAddress = "0x1111444444444444444444444444444444443333"
	if w := h.mustRequest(r); w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "DESTINATION_ADDRESS" {
		t.Errorf("its look-alike: got %v %v, want AWAITING_APPROVAL", w.Status, w.ApprovalReasons)
	}
	r.ToAddress = "0x1111222222222222222222222222222222223333"
	if w := h.mustRequest(r); w.Status != "PROCESSING" {
		t.Errorf("the known one: got %v %v, want PROCESSING", w.Status, w.ApprovalReasons)
	}
}

// Rule WD-13.
func TestLowLiquidityIsHeld(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	treasury, err := h.wallets.Treasury(t.Context(), h.org, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return wallet.MoveFunds(
			ctx, tx,
			wallet.Movement{
				WalletID: treasury.ID, OrgID: h.org, MintID: usdc, Part: wallet.Held,
				Plus: money.Units(998_500),
			},
		)
	})
	if w := h.mustRequest(h.newRequest()); w.Status != "PROCESSING" {
		t.Errorf("covered: got %v %v, want PROCESSING", w.Status, w.ApprovalReasons)
	}
	if w := h.mustRequest(h.newRequest()); w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "LOW_LIQUIDITY" {
		t.Errorf("promised already: got %v %v, want LOW_LIQUIDITY", w.Status, w.ApprovalReasons)
	}
}

// Rule WD-13.
func TestLiquidityCountsWhatCanBeSwept(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	treasury, err := h.wallets.Treasury(t.Context(), h.org, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	own, err := h.wallets.Address(
		t.Context(),
		signer.WalletRef{OrgID: h.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: alice},
	)
	if err != nil {
		t.Fatal(err)
	}
	// The funds are on the customer's address: half of them free, half being swept.
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		err := wallet.MoveFunds(ctx, tx,
			wallet.Movement{
				WalletID: treasury.ID, OrgID: h.org, MintID: usdc, Part: wallet.Swept,
				Plus: money.Units(1_000_000),
			},
			wallet.Movement{
				WalletID: own.ID, OrgID: h.org, MintID: usdc, Part: wallet.Credited,
				Plus: money.Units(1_000_000),
			},
			wallet.Movement{
				WalletID: own.ID, OrgID: h.org, MintID: usdc, Part: wallet.Reserved, Plus: money.Units(500_000),
			})
		if err != nil {
			return err
		}
		err = dispatch.Submit(ctx, tx, dispatch.Order{
			ID: "sw_1", OrgID: h.org, Purpose: signer.Sweep, Chain: chain.Ethereum, WalletID: own.ID,
			ToWalletID: treasury.ID,
			To:         treasury.Address, MintID: usdc, Contract: usdcAddress, Amount: money.Units(500_000),
			Trigger: dispatch.TriggerValue,
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO internal_orders (order_id, org_id, purpose, trigger) VALUES ('sw_1', $1, 'SWEEP', 'VALUE')`, h.org)
		return err
	})
	r := h.newRequest()
	r.Amount = "999000"
	if w := h.mustRequest(r); w.Status != "PROCESSING" {
		t.Errorf("what can be swept: got %v %v, want PROCESSING", w.Status, w.ApprovalReasons)
	}
	h.creditDeposit("bob", eth, 1) // another mint does not help
	r.Amount = "1000"
	if w := h.mustRequest(r); w.Status != "PROCESSING" {
		t.Errorf("the rest: got %v %v, want PROCESSING", w.Status, w.ApprovalReasons)
	}
}

func TestOrganizationMayDemandKeys(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return org.SetRequireWithdrawIdempotency(ctx, tx, audit.Operator("test"), h.org, true)
	})
	_, _, err := h.Request(t.Context(), h.org, h.newRequest())
	wantFault(t, err, fault.InvalidRequest)
	key := "k"
	r := h.newRequest()
	r.IdempotencyKey = &key
	h.mustRequest(r)
}

// The organization's own wallets are known destinations, too. Otherwise a lookalike of its own
// deposit address would be paid without an approval. Rule WD-12.
func TestLookalikeOfAnAddressOfOursIsHeld(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	own, err := h.wallets.Address(
		t.Context(),
		signer.WalletRef{OrgID: h.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: alice},
	)
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.ToLower(string(own.Address))
	r := h.newRequest()
	r.ToAddress = shown[:6] + strings.Repeat("5", 32) + shown[38:]
	if w := h.mustRequest(r); w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "DESTINATION_ADDRESS" {
		t.Errorf("got %v %v, want AWAITING_APPROVAL for DESTINATION_ADDRESS", w.Status, w.ApprovalReasons)
	}
}

// The balance would cover all of them, so only the key prevents them. Rule IDEM-1.
func TestReplaysOfAPaymentThatCouldBeMadeAgainAreOneWithdrawal(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.requestHeld() // the treasury exists, so that the callers meet at the last step
	key := "payout-992"
	r := h.newRequest()
	r.IdempotencyKey = &key
	runParallel(64, func(i int) {
		if _, _, err := h.Request(t.Context(), h.org, r); err != nil {
			t.Errorf("caller %d: got %v, want the withdrawal", i, err)
		}
	})
	h.wantBalances("998000", "2000")
	if got := h.dumpRows(); !strings.Contains(got, "withdrawals 2,") || !strings.Contains(got, "orders 1,") {
		t.Errorf("rows: got %v, want the held one and one more", got)
	}
}
