package withdrawal

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/webhook"
)

// rented is what an account takes on the chain of these tests: 300 units of USDC, and a bit
// that is rounded up to one more.
var rented = money.Units(100_000_000_001)

// tokenAccounts is a chain on which holding a token takes an account.
type tokenAccounts struct{ chain.Accounts }

func (tokenAccounts) Rent(chain.Address) (money.Amount, error) { return rented, nil }

// newChargingHouse is a house that charges its customers these costs. A payment makes an
// account for its payee and costs 60 dollars beside.
func newChargingHouse(t *testing.T, costs string) (*house, *charges) {
	t.Helper()
	h := newHouse(t)
	most, err := money.Units(20 * milli).Add(rented)
	if err != nil {
		t.Fatal(err)
	}
	c := &charges{fees: &chain.Fees{GasLimit: 1, Beside: most, Rent: rented}}
	ch := h.Chains[chain.Ethereum]
	ch.Sender, ch.Accounts = c, tokenAccounts{}
	h.Chains = chain.Chains{chain.Ethereum: ch}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")}}
	h.set("chargeCustomerCosts", `"`+costs+`"`)
	return h, c
}

// has its account already.
func (c *charges) made() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fees.Rent = money.Zero
}

func (h *house) charged(w webhook.Withdrawal, rentMax, failureMax, charged string) {
	h.t.Helper()
	got, err := h.ByID(h.t.Context(), h.org, w.WithdrawalID)
	if err != nil {
		h.t.Fatal(err)
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	c := got.CustomerCharge
	if c == nil || c.MintID != got.MintID || c.RentMax != rentMax || text(c.FailureMax) != failureMax || text(c.Charged) != charged {
		h.t.Errorf("charge: got %+v, want at most %q, %q when it fails, charged %q", c, rentMax, failureMax, charged)
	}
}

// earned is what the organization has from its customers.
func (h *house) earned(want string) {
	h.t.Helper()
	if got := h.holds(usdc, ledger.Product, "CUSTODIAL"); got.String() != want {
		h.t.Errorf("the organization has %v, want %v", got, want)
	}
}

// posted are the causes of a withdrawal's transfers with their amounts, in order.
func (h *house) posted(w webhook.Withdrawal, want ...string) {
	h.t.Helper()
	var got []string
	err := pgtest.Owner(h.t, h.DB).QueryRow(h.t.Context(), `
		SELECT array_agg(cause_kind || ' ' || amount ORDER BY transfer_id) FROM ledger_transfers WHERE cause_id = $1`, w.WithdrawalID).Scan(&got)
	if err != nil {
		h.t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("posted: got %v, want %v", got, want)
	}
}

// Rule WD-54.
func TestTheRentOfANewAccountIsHeldAndChargedWhenThePaymentIsMade(t *testing.T) {
	t.Parallel()
	h, c := newChargingHouse(t, "RENT")
	told, err := h.Preview(t.Context(), h.org, h.want())
	if err != nil || told.CustomerCharge == nil || told.CustomerCharge.RentMax != "301" || told.CustomerCharge.FailureMax != nil {
		t.Fatalf("preview: got %+v %v, want 301", told.CustomerCharge, err)
	}
	customer, to := alice, stranger
	e, err := h.Estimate(t.Context(), h.org, Estimation{MintID: usdc, CustomerID: &customer, ToAddress: &to})
	if err != nil || e.CustomerCharge == nil || e.CustomerCharge.RentMax != "301" || e.MaxAmount.String() != "999699" {
		t.Fatalf("estimate: got %+v %v, want 301, and 999699 at most", e, err)
	}

	paid := h.request(h.want())
	h.balances("998699", "1301")
	h.charged(paid, "301", "", "")
	if err := h.ended(h.order(paid), dispatch.End{Paid: true, Hash: "0xaa", Fee: rented, Rent: rented}); err != nil {
		t.Fatal(err)
	}
	h.balances("998699", "0")
	h.earned("301")
	h.charged(paid, "301", "", "301")
	h.posted(paid, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_CHARGE 301", "WITHDRAWAL_END 1000")

	// Another sender made the account meanwhile, or it took less.
	paid = h.request(h.want())
	h.pays(paid)
	h.charged(paid, "301", "", "0")
	h.posted(paid, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_CHARGE_RETURN 301", "WITHDRAWAL_END 1000")
	paid = h.request(h.want())
	if err := h.ended(h.order(paid), dispatch.End{Paid: true, Hash: "0xcc", Fee: rented, Rent: money.Units(50_000_000_000)}); err != nil {
		t.Fatal(err)
	}
	h.posted(paid, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_CHARGE 150", "WITHDRAWAL_CHARGE_RETURN 151", "WITHDRAWAL_END 1000")
	h.earned("451")
	h.balances("996549", "0")

	// What was not paid is given back whole, and a failure is the organization's.
	failed := h.request(h.want())
	if err := h.ended(h.order(failed), dispatch.End{Hash: "0xdd", Fee: rented, PayeeFailed: true}); err != nil {
		t.Fatal(err)
	}
	h.posted(failed, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_END 1301")
	h.charged(failed, "301", "", "0")
	r := h.want()
	r.ToAddress, r.RequireApproval = elsewhere, true
	held := h.request(r)
	h.balances("995248", "1301")
	if _, err := h.Remove(t.Context(), h.org, held.WithdrawalID, audit.Operator("ann"), ""); err != nil {
		t.Fatal(err)
	}
	h.balances("996549", "0")

	// There is an account: nothing is charged, and no price is asked for.
	c.made()
	h.Prices = price.Fixed{}
	r.RequireApproval = false
	paid = h.request(r)
	h.charged(paid, "0", "", "")
	h.balances("995549", "1000")
}

// Rule WD-54.
func TestABalanceHasToReachForTheChargeAsWell(t *testing.T) {
	t.Parallel()
	h, _ := newChargingHouse(t, "RENT")
	r := h.want()
	r.Amount = "999700"
	before := h.rows()
	_, _, err := h.Request(t.Context(), h.org, r)
	refused(t, err, fault.InsufficientBalance)
	_, err = h.Preview(t.Context(), h.org, r)
	refused(t, err, fault.InsufficientBalance)
	if got := h.rows(); got != before {
		t.Errorf("a refused request wrote: got %s, want %s", got, before)
	}

	// Two amounts would fit, and with what is charged one does.
	r.Amount = "499900"
	var taken atomic.Int32
	crowd(2, func(int) {
		_, _, err := h.Request(t.Context(), h.org, r)
		if err == nil {
			taken.Add(1)
		} else if !fault.Is(err, fault.InsufficientBalance) {
			t.Error(err)
		}
	})
	if n := taken.Load(); n != 1 {
		t.Errorf("got %d accepted, want 1", n)
	}
	h.balances("499799", "500201")
	r.Amount = "499498" // exactly
	h.request(r)
	h.balances("0", "1000000")
}

// Rule WD-54.
func TestAChargeThatCannotBeComputedRefusesTheRequest(t *testing.T) {
	t.Parallel()
	h, c := newChargingHouse(t, "RENT")
	fixed := h.Prices
	before := h.rows()
	none := func() {
		t.Helper()
		for range 2 {
			_, _, err := h.Request(t.Context(), h.org, h.want())
			refused(t, err, fault.CodeUnavailable)
			_, err = h.Preview(t.Context(), h.org, h.want())
			refused(t, err, fault.CodeUnavailable)
		}
		_, err := h.Estimate(t.Context(), h.org, Estimation{MintID: usdc})
		refused(t, err, fault.CodeUnavailable)
		if got := h.rows(); got != before {
			t.Errorf("a refused request wrote: got %s, want %s", got, before)
		}
	}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}}
	none()
	h.Prices = price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("3000")}}
	none()
	h.Prices = agedPrice{fixed, priceAgeMax * 2}
	none()
	h.Prices = price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("3000"), usdc: {}}}
	none()
	h.Prices = fixed

	// It is unknown whether the payee has an account: what one takes is held.
	was := c.fees
	c.fees = nil
	h.charged(h.request(h.want()), "301", "", "")
	h.set("chargeCustomerCosts", `"RENT_AND_FAILURES"`)
	before = h.rows()
	none()
	c.fees = was
	h.request(h.want())
}

// Rule WD-54.
func TestWhatWasShownIsChargedWhateverTheSettingIsThen(t *testing.T) {
	t.Parallel()
	h, _ := newChargingHouse(t, "RENT")
	r := h.want()
	r.RequireApproval = true
	held := h.request(r)
	h.set("chargeCustomerCosts", `"NONE"`)
	free := h.request(h.want())
	h.set("chargeCustomerCosts", `"RENT_AND_FAILURES"`)
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("9000")}}
	h.approve(held)
	for _, w := range []webhook.Withdrawal{held, free} {
		if err := h.ended(h.order(w), dispatch.End{Paid: true, Hash: "0xaa", Fee: rented, Rent: rented}); err != nil {
			t.Fatal(err)
		}
	}
	h.charged(held, "301", "", "301")
	h.posted(free, "WITHDRAWAL_HOLD 1000", "WITHDRAWAL_END 1000")
	if free.CustomerCharge != nil {
		t.Errorf("got %+v of one that was requested while nothing was charged", free.CustomerCharge)
	}
	h.earned("301")
}

// Rule WD-55.
func TestAPaymentThatFailsForItsPayeeIsChargedOutOfItsHold(t *testing.T) {
	t.Parallel()
	h, chainCharges := newChargingHouse(t, "RENT_AND_FAILURES")
	fee := money.Units(200_000_000_001) // 600 units, and one more
	for _, c := range []struct {
		name   string
		end    dispatch.End
		posted []string
		charge string
	}{
		{"because of its payee", dispatch.End{Hash: "0xaa", Fee: fee, PayeeFailed: true}, []string{"WITHDRAWAL_CHARGE 601", "WITHDRAWAL_END 700"}, "601"},
		{"for more than is held", dispatch.End{Hash: "0xaa", Fee: money.Units(milli), PayeeFailed: true}, []string{"WITHDRAWAL_CHARGE 1301"}, "1301"},
		{"for another reason", dispatch.End{Hash: "0xaa", Fee: fee}, []string{"WITHDRAWAL_END 1301"}, "0"},
		{"cancelled", dispatch.End{Hash: "0xaa", Fee: fee, Cancelled: true}, []string{"WITHDRAWAL_END 1301"}, "0"},
	} {
		before, had := h.holds(usdc, ledger.Customer, alice), h.holds(usdc, ledger.Product, "CUSTODIAL")
		r := h.want()
		r.RequireApproval = true // what failed before holds it, too
		w := h.request(r)
		h.approve(w)
		h.charged(w, "301", "1301", "")
		if err := h.ended(h.order(w), c.end); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		h.posted(w, append([]string{"WITHDRAWAL_HOLD 1301"}, c.posted...)...)
		h.charged(w, "301", "1301", c.charge)
		charge := money.MustParse(c.charge)
		if got := less(before, h.holds(usdc, ledger.Customer, alice)); got != charge {
			t.Errorf("%s: the customer paid %v, want %v", c.name, got, charge)
		}
		if got := less(h.holds(usdc, ledger.Product, "CUSTODIAL"), had); got != charge {
			t.Errorf("%s: the organization got %v, want %v", c.name, got, charge)
		}
		// Told once more, nothing moves.
		if err := h.ending(h.order(w), c.end); err == nil {
			t.Errorf("%s: it ended twice", c.name)
		}
	}
	// The most that was shown is the most that is charged, whatever it cost in the end.
	chainCharges.mu.Lock()
	chainCharges.fees = &chain.Fees{GasLimit: 1, Beside: money.Units(20 * milli)}
	chainCharges.mu.Unlock()
	r := h.want()
	r.MintID, r.Amount = eth, "100000000000000000"
	h.deposit(alice, eth, 100*milli)
	r.ToAddress = elsewhere
	w := h.request(r)
	h.charged(w, "0", "20000000000000000", "")
	if err := h.ended(h.order(w), dispatch.End{Hash: "0xaa", Fee: money.Units(30 * milli), PayeeFailed: true}); err != nil {
		t.Fatal(err)
	}
	h.charged(w, "0", "20000000000000000", "20000000000000000")
}

// Rules WD-54, WD-55. The database computes a charge again.
func TestTheDatabaseRefusesAChargeThatTheOrderDoesNotExplain(t *testing.T) {
	t.Parallel()
	h, _ := newChargingHouse(t, "RENT_AND_FAILURES")
	w := h.request(h.want())
	h.dispatched(w.WithdrawalID, "BROADCAST")
	h.system(func(ctx context.Context, tx pg.Tx) error { return h.Broadcast(ctx, tx, h.order(w), "0xaa") })
	for name, says := range map[string]dispatch.End{
		"no rent":       {Paid: true},
		"another rent":  {Paid: true, Fee: rented, Rent: money.Units(50_000_000_000)},
		"a failed one":  {Fee: rented, PayeeFailed: true},
		"none's payees": {Fee: rented},
	} {
		end := dispatch.End{Paid: says.Paid, Hash: "0xaa", Fee: rented, Rent: rented, PayeeFailed: true}
		if name == "a failed one" {
			end.PayeeFailed = false
		}
		to := "FAILED"
		if says.Paid {
			to = "PAID"
		}
		h.dispatched(w.WithdrawalID, to)
		h.costs(w.WithdrawalID, says)
		if err := h.ending(h.order(w), end); !pg.Violates(err, "withdrawals_charged") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	h.balances("998699", "1301")
	owner := pgtest.Owner(t, h.DB)
	for _, c := range []struct{ sql, refusal string }{
		{`UPDATE withdrawals SET charge_held = 1`, "withdrawals_charge_fixed"},
		{`UPDATE withdrawals SET charge_costs = 'NONE', charge_rent = 0, charge_held = 0, charge_failure_max = NULL`, "withdrawals_charge_fixed"},
		{`UPDATE withdrawals SET charge_failure_max = 1`, "withdrawals_charge_fixed"},
		{`UPDATE withdrawals SET charge_mint_price = 2`, "withdrawals_charge_fixed"},
		{`UPDATE withdrawals SET charged = 1, charge_cost = 1`, "withdrawals_charge_fixed"},
		{`INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status, requires_approval, approval_reasons, created_at,
				charge_costs, charge_rent, charge_held, charge_coin_price, charge_mint_price)
			SELECT 'wd_x', org_id, customer_id, mint_id, chain, amount, to_address, request_digest, 'PROCESSING', false, '{}', created_at,
				charge_costs, charge_rent, 300, charge_coin_price, charge_mint_price FROM withdrawals`, "withdrawals_charge_held"},
	} {
		if _, err := owner.Exec(t.Context(), c.sql); !pg.Violates(err, c.refusal) {
			t.Errorf("%s: got %v, want %s", c.sql, err, c.refusal)
		}
	}
}

// Rule WD-54. The payee had an account when the payment was requested, and has closed it.
func TestAnAccountThatWasNotHeldForGoesBackToAPersonOnce(t *testing.T) {
	t.Parallel()
	h, c := newChargingHouse(t, "RENT")
	c.made()
	w := h.request(h.want())
	h.charged(w, "0", "", "")
	review := func(w webhook.Withdrawal, rent money.Amount) (r *signer.Refusal) {
		h.system(func(ctx context.Context, tx pg.Tx) (err error) {
			r, err = h.ReviewRent(ctx, tx, h.order(w), rent)
			return err
		})
		return r
	}
	r := review(w, rented)
	if r == nil || r.Code != dispatch.RentNotHeld {
		t.Fatalf("got %v, want a refusal", r)
	}
	h.dispatched(w.WithdrawalID, "REFUSED")
	h.system(func(ctx context.Context, tx pg.Tx) error { return h.Refused(ctx, tx, h.order(w), r) })
	got, err := h.ByID(t.Context(), h.org, w.WithdrawalID)
	if err != nil {
		t.Fatal(err)
	}
	h.reasons(got, "POLICY_LIMIT")
	h.approve(w)
	if r := review(w, rented); r != nil {
		t.Errorf("once a person has approved it: got %v, want nothing against it", r)
	}
	// The organization pays.
	if err := h.ended(h.order(w), dispatch.End{Paid: true, Hash: "0xaa", Fee: rented, Rent: rented}); err != nil {
		t.Fatal(err)
	}
	h.posted(w, "WITHDRAWAL_HOLD 1000", "WITHDRAWAL_END 1000")

	c.mu.Lock()
	c.fees.Rent = rented
	c.mu.Unlock()
	if r := review(h.request(h.want()), rented); r != nil {
		t.Errorf("held for: got %v, want nothing against it", r)
	}
	h.set("chargeCustomerCosts", `"NONE"`)
	c.made()
	if r := review(h.request(h.want()), rented); r != nil {
		t.Errorf("nothing is charged: got %v, want nothing against it", r)
	}
}

// Rule WD-55. A payment that is refused makes no account, so its cost has no rent in it.
func TestTheMostThatAFailureIsChargedHasNoRentInIt(t *testing.T) {
	t.Parallel()
	h, c := newChargingHouse(t, "RENT_AND_FAILURES")
	most, err := money.Units(200_000_000_001).Add(rented)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.fees.Beside = most
	c.mu.Unlock()
	h.charged(h.request(h.want()), "301", "601", "")
}
