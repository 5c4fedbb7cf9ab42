package withdrawal

import (
	"context"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
)

// gwei is a unit of the coin; alice has a million of them in newPricedEnv.
const gwei = 1_000_000_000

// newPricedEnv returns an environment whose chain quotes fees, and in which alice has native coin.
func newPricedEnv(t *testing.T) (*testEnv, *sim.Chain) {
	t.Helper()
	h := newTestEnv(t)
	net := sim.New(sim.Config{})
	ch := net.ToChain()
	h.Chains = chain.Chains{ch.Name: ch}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")}}
	h.creditDeposit(alice, eth, 1_000_000*gwei)
	return h, net
}

// newDeducted returns a request for native coin whose fee comes out of the amount.
func (h *testEnv) newDeducted(amount string) Request {
	r := h.newRequest()
	r.MintID, r.Amount, r.FeeMode = eth, amount, FeeDeducted
	return r
}

func (h *testEnv) accountBalance(mintID int, kind ledger.Kind, subject string) money.Amount {
	h.t.Helper()
	var a money.Amount
	err := h.DB.ReadOrg(h.t.Context(), h.org, func(ctx context.Context, tx pg.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, ledger.Account{OrgID: h.org, MintID: mintID, Kind: kind, Subject: subject})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// wantBooks checks where alice's coin is: available, held, or with the organization.
func (h *testEnv) wantBooks(when, available, held, product string) {
	h.t.Helper()
	for _, c := range []struct {
		kind          ledger.Kind
		subject, want string
	}{{ledger.Customer, alice, available}, {ledger.Withdrawing, alice, held}, {ledger.Product, "CUSTODIAL", product}} {
		if got := h.accountBalance(eth, c.kind, c.subject); got.String() != c.want {
			h.t.Errorf("%s: %s has %v, want %v", when, c.kind, got, c.want)
		}
	}
}

// orderAmounts returns what the order of a withdrawal pays, and its deducted fee.
func (h *testEnv) orderAmounts(w Withdrawal) (pays, kept money.Amount) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.DB).QueryRow(
		h.t.Context(), `SELECT amount, fee_deducted FROM dispatch_orders WHERE order_id = $1`, w.ID,
	).Scan(&pays, &kept)
	if err != nil {
		h.t.Fatal(err)
	}
	return pays, kept
}

// Rule WD-27.
func TestADeductedFeeComesOutOfTheAmountOnce(t *testing.T) {
	t.Parallel()
	h, _ := newPricedEnv(t)
	const amount = "500000000000000" // half of it
	for _, c := range []struct {
		name    string
		end     dispatch.End
		status  string
		settles bool
	}{
		{
			"paid, and the network took less",
			dispatch.End{Paid: true, Hash: "0xaa", Fee: money.Units(1)},
			"COMPLETED", true,
		},
		{
			"paid, and the network took more",
			dispatch.End{Paid: true, Hash: "0xbb", Fee: money.Units(900_000 * gwei)},
			"COMPLETED", true,
		},
		{"failed", dispatch.End{Hash: "0xcc", Fee: money.Units(7)}, "FAILED", false},
	} {
		had, own := h.accountBalance(eth, ledger.Customer, alice), h.accountBalance(eth, ledger.Product, "CUSTODIAL")
		if had.Less(money.MustParse(amount)) {
			h.creditDeposit(alice, eth, 1_000_000*gwei)
			had = h.accountBalance(eth, ledger.Customer, alice)
		}
		w := h.mustRequest(h.newDeducted(amount))
		if w.Status != "PROCESSING" || w.FeeMode != "DEDUCTED" || w.Amount.String() != amount || w.NetworkFee == nil {
			t.Fatalf("%s: got %+v, want it ordered with its fee", c.name, w)
		}
		fee := *w.NetworkFee
		pays, kept := h.orderAmounts(w)
		if sum, err := pays.Add(kept); err != nil || sum.String() != amount || kept != fee || fee.IsZero() {
			t.Errorf("%s: the order pays %v and %v is kept, want %s of which %v", c.name, pays, kept, amount, fee)
		}
		left := money.SubOrZero(had, money.MustParse(amount))
		h.wantBooks(c.name+", ordered", left.String(), amount, own.String())
		if err := h.endOrder(h.loadOrder(w), c.end); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := h.ByID(t.Context(), h.org, w.ID)
		if err != nil || string(got.Status) != c.status {
			t.Fatalf("%s: got %v %v, want %v", c.name, got.Status, err, c.status)
		}
		if c.settles {
			with, err := own.Add(fee)
			if err != nil || got.NetworkFee.String() != fee.String() {
				t.Errorf("%s: got a fee of %v %v, want %v", c.name, *got.NetworkFee, err, fee)
			}
			h.wantBooks(c.name, left.String(), "0", with.String())
		} else {
			h.wantBooks(c.name, had.String(), "0", own.String())
		}
		if err := h.endOrder(h.loadOrder(w), c.end); err == nil {
			t.Errorf("%s, a second end: got no error, want one", c.name)
		}
	}
}

// Rule WD-27.
func TestADeductedFeeIsDecidedWhenThePaymentIsOrderedAndStays(t *testing.T) {
	t.Parallel()
	h, net := newPricedEnv(t)
	r := h.newDeducted("500000000000000")
	r.RequireApproval = true
	w := h.mustRequest(r)
	if w.Status != "AWAITING_APPROVAL" || w.NetworkFee != nil {
		t.Fatalf("got %+v, want it to wait, its fee open", w)
	}
	net.SetBaseFee(3 * gwei)
	approved, err := h.Approve(t.Context(), h.org, w.ID, person)
	if err != nil || approved.NetworkFee == nil {
		t.Fatalf("got %+v %v, want it ordered with its fee", approved, err)
	}
	pays, kept := h.orderAmounts(w)
	if kept.String() != approved.NetworkFee.String() || money.SubOrZero(w.Amount, kept) != pays {
		t.Errorf(
			"the order pays %v and keeps %v of %s, want the fee %s kept", pays, kept, w.Amount,
			*approved.NetworkFee,
		)
	}
	// The signer returns it; a more expensive network does not change the decision.
	h.returnOrder(w, &signer.Refusal{Code: signer.PolicyLimit})
	net.SetBaseFee(9 * gwei)
	again, err := h.Approve(t.Context(), h.org, w.ID, person)
	if err != nil || *again.NetworkFee != *approved.NetworkFee {
		t.Errorf("got %+v %v, want the fee that was decided", again, err)
	}
	if nowPays, nowKept := h.orderAmounts(w); nowPays != pays || nowKept != kept {
		t.Errorf("the order pays %v and keeps %v, want %v and %v", nowPays, nowKept, pays, kept)
	}
}

// Rule WD-27.
func TestAFeeThatCannotBeDeductedIsNotDeducted(t *testing.T) {
	t.Parallel()
	h, net := newPricedEnv(t)
	dear, some := "1", "500000000000000"
	before := h.dumpRows()
	for _, c := range []struct {
		name   string
		change func(*Request)
		want   fault.Code
		param  string
	}{
		{"of a token", func(r *Request) { r.MintID, r.Amount = usdc, "1000" }, fault.InvalidRequest, "feeMode"},
		{"in another word", func(r *Request) { r.FeeMode = "deducted" }, fault.InvalidRequest, "feeMode"},
		{"more than the amount", func(r *Request) { r.Amount = "1000" }, fault.AmountBelowMinimum, "amount"},
		{
			"a limit of nothing", func(r *Request) { r.MaxNetworkFee = new(string); *r.MaxNetworkFee = "0" },
			fault.InvalidAmount, "maxNetworkFee",
		},
		{
			"a limit with a point",
			func(r *Request) { r.MaxNetworkFee = new(string); *r.MaxNetworkFee = "1.5" }, fault.InvalidAmount,
			"maxNetworkFee",
		},
		{
			"a limit below nothing",
			func(r *Request) { r.MaxNetworkFee = new(string); *r.MaxNetworkFee = "-1" }, fault.InvalidAmount,
			"maxNetworkFee",
		},
	} {
		r := h.newDeducted(some)
		c.change(&r)
		_, _, err := h.Request(t.Context(), h.org, r)
		if f := fault.Find(err); f == nil || f.Code != c.want || f.Param != c.param {
			t.Errorf("%s: got %v, want %v on %v", c.name, err, c.want, c.param)
		}
	}
	net.Provider(0).SetDown(context.DeadlineExceeded)
	_, _, err := h.Request(t.Context(), h.org, h.newDeducted(some))
	wantFault(t, err, fault.CodeUnavailable)
	if got := h.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	net.Provider(0).SetDown(nil)

	r := h.newDeducted(some)
	r.MaxNetworkFee = &dear
	w := h.mustRequest(r)
	if w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "NETWORK_FEE" || w.MaxNetworkFee.String() != "1" ||
		w.NetworkFee != nil {
		t.Fatalf("got %+v, want it to wait because of its fee", w)
	}
	_, err = h.Approve(t.Context(), h.org, w.ID, person)
	wantFault(t, err, fault.ApprovalRefused)
	h.wantBooks("while it waits", "500000000000000", some, "0")
	if _, err := h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org)); err != nil {
		t.Fatal(err)
	}
	h.wantBooks("cancelled", "1000000000000000", "0", "0")
}

// Rule WD-26.
func TestAPaymentAboveItsFeeLimitWaitsForAPerson(t *testing.T) {
	t.Parallel()
	h, _ := newPricedEnv(t)
	most := "1"
	r := h.newRequest()
	r.MaxNetworkFee = &most
	w := h.mustRequest(r)
	if w.Status != "AWAITING_APPROVAL" || w.ApprovalReasons[0] != "NETWORK_FEE" {
		t.Fatalf("got %v %v, want it to wait because of its fee", w.Status, w.ApprovalReasons)
	}
	// A person may approve it; dispatch asks the chain again and returns it.
	if _, err := h.Approve(t.Context(), h.org, w.ID, person); err != nil {
		t.Fatal(err)
	}
	h.returnOrder(w, &signer.Refusal{Code: dispatch.FeeRefused, Message: "the network may take up to 9"})
	got, err := h.ByID(t.Context(), h.org, w.ID)
	if err != nil || got.Status != "AWAITING_APPROVAL" || len(got.ApprovalReasons) != 1 ||
		got.ApprovalReasons[0] != "NETWORK_FEE" {
		t.Errorf("got %+v %v, want it to wait because of its fee", got, err)
	}
	h.wantBalances("999000", "1000")

	enough := "1000000000000000000"
	r.MaxNetworkFee = &enough
	if w := h.mustRequest(r); w.Status != "PROCESSING" {
		t.Errorf("got %v %v, want PROCESSING", w.Status, w.ApprovalReasons)
	}
}

func TestAnEstimateTellsWhatTheChainWouldCharge(t *testing.T) {
	t.Parallel()
	h, net := newPricedEnv(t)
	text := func(s string) *string { return &s }
	before := h.dumpRows()
	coin, err := h.Estimate(
		t.Context(), h.org,
		EstimateRequest{MintID: eth, CustomerID: text(alice), ToAddress: text(stranger), FeeMode: FeeDeducted},
	)
	if err != nil || coin.NetworkFee.IsZero() || *coin.NetworkFeeMintID != eth || coin.NetworkFeeUSD == nil ||
		coin.MaxAmount.String() != "1000000000000000" ||
		!coin.ExpiresAt.After(h.DB.Clock()()) {
		t.Fatalf("got %+v %v, want the fee and all that alice has", coin, err)
	}
	value, err := money.ValueOf(coin.NetworkFee, 18, money.MustParseUSD("3000"))
	if err != nil || *coin.NetworkFeeUSD != value {
		t.Errorf("got %v, want %v", coin.NetworkFeeUSD, value)
	}
	token, err := h.Estimate(t.Context(), h.org, EstimateRequest{MintID: usdc})
	if err != nil || token.MaxAmount != nil || !coin.NetworkFee.Less(token.NetworkFee) {
		t.Errorf("got %+v %v, want the fee of a token, which is more than a coin's %v", token, err, coin.NetworkFee)
	}
	nobody, err := h.Estimate(t.Context(), h.org, EstimateRequest{MintID: usdc, CustomerID: text("nobody")})
	if err != nil || !nobody.MaxAmount.IsZero() {
		t.Errorf("got %+v %v, want nothing to withdraw", nobody, err)
	}
	for _, c := range []struct {
		name  string
		e     EstimateRequest
		want  fault.Code
		param string
	}{
		{"unknown mint", EstimateRequest{MintID: 99}, fault.MintNotFound, "mintId"},
		{
			"customer of spaces",
			EstimateRequest{MintID: usdc, CustomerID: text(" ")},
			fault.InvalidRequest,
			"customerId",
		},
		{"no customer", EstimateRequest{MintID: usdc, CustomerID: text("")}, fault.InvalidRequest, "customerId"},
		{"bad amount", EstimateRequest{MintID: usdc, Amount: text("1.5")}, fault.InvalidAmount, "amount"},
		{"amount of nothing", EstimateRequest{MintID: usdc, Amount: text("")}, fault.InvalidAmount, "amount"},
		{"bad address", EstimateRequest{MintID: usdc, ToAddress: text("nowhere")}, fault.InvalidAddress, "toAddress"},
		{"no address", EstimateRequest{MintID: usdc, ToAddress: text("")}, fault.InvalidAddress, "toAddress"},
		{
			"a token's fee from the amount",
			EstimateRequest{MintID: usdc, FeeMode: FeeDeducted},
			fault.InvalidRequest, "feeMode",
		},
	} {
		_, err := h.Estimate(t.Context(), h.org, c.e)
		if f := fault.Find(err); f == nil || f.Code != c.want || f.Param != c.param {
			t.Errorf("%s: got %v, want %v on %v", c.name, err, c.want, c.param)
		}
	}
	net.Provider(0).SetDown(context.DeadlineExceeded)
	_, err = h.Estimate(t.Context(), h.org, EstimateRequest{MintID: usdc})
	wantFault(t, err, fault.CodeUnavailable)
	h.Chains = chain.Chains{}
	_, err = h.Estimate(t.Context(), h.org, EstimateRequest{MintID: usdc})
	wantFault(t, err, fault.WithdrawalsSuspended)
	if got := h.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

// fixedPrices returns prices that do not change while a test compares two answers.
func fixedPrices(now time.Time) price.Fixed {
	return price.Fixed{
		Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")},
		Clock:  func() time.Time { return now },
	}
}
