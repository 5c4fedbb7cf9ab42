package withdrawal

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
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

// rented is the rent of an account on the chain of these tests: 300 units of USDC, and a fraction
// that is rounded up to one more.
var rented = money.Units(100_000_000_001)

// tokenAccounts is a chain on which a token needs an account.
type tokenAccounts struct{ chain.TokenAccounts }

func (tokenAccounts) Rent(chain.Address) (money.Amount, error) { return rented, nil }

// newChargingEnv returns an environment that charges its customers these costs. A payment creates
// an account for its payee and costs 60 dollars on top.
func newChargingEnv(t *testing.T, costs string) (*testEnv, *fakeCosts) {
	t.Helper()
	h := newTestEnv(t)
	most, err := money.Units(20 * milli).Add(rented)
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCosts{fees: &chain.Fees{GasLimit: 1, NonGas: most, Rent: rented}}
	ch := h.Chains[chain.Ethereum]
	ch.Sender, ch.TokenAccounts = c, tokenAccounts{}
	h.Chains = chain.Chains{chain.Ethereum: ch}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")}}
	h.setSetting("chargeCustomerCosts", `"`+costs+`"`)
	return h, c
}

// setCosts gives the payee an account already, so no rent arises.
func (c *fakeCosts) setCosts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fees.Rent = money.Zero
}

func (h *testEnv) wantCharged(w Withdrawal, rentMax, failureMax, charged string) {
	h.t.Helper()
	got, err := h.ByID(h.t.Context(), h.org, w.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	text := func(a *money.Amount) string {
		if a == nil {
			return ""
		}
		return a.String()
	}
	c := got.CustomerCharge
	if c == nil || c.MintID != got.Mint.ID || c.RentMax.String() != rentMax || text(c.FailureMax) != failureMax ||
		text(c.Charged) != charged {
		h.t.Errorf("charge: got %+v, want at most %q, %q when it fails, charged %q", c, rentMax, failureMax, charged)
	}
}

// wantEarned checks what the organization has received from its customers.
func (h *testEnv) wantEarned(want string) {
	h.t.Helper()
	if got := h.accountBalance(usdc, ledger.Product, "CUSTODIAL"); got.String() != want {
		h.t.Errorf("the organization has %v, want %v", got, want)
	}
}

// wantPostings checks the causes and amounts of a withdrawal's ledger transfers, in order.
func (h *testEnv) wantPostings(w Withdrawal, want ...string) {
	h.t.Helper()
	var got []string
	err := pgtest.OwnerPool(h.t, h.DB).QueryRow(h.t.Context(), `
		SELECT array_agg(cause_kind || ' ' || amount ORDER BY transfer_id) FROM ledger_transfers WHERE cause_id = $1`,
		w.ID).Scan(&got)
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
	h, c := newChargingEnv(t, "RENT")
	told, err := h.Preview(t.Context(), h.org, h.newRequest())
	if err != nil || told.CustomerCharge == nil || told.CustomerCharge.RentMax.String() != "301" ||
		told.CustomerCharge.FailureMax != nil {
		t.Fatalf("preview: got %+v %v, want 301", told.CustomerCharge, err)
	}
	customer, to := alice, stranger
	e, err := h.Estimate(t.Context(), h.org, EstimateRequest{MintID: usdc, CustomerID: &customer, ToAddress: &to})
	if err != nil || e.CustomerCharge == nil || e.CustomerCharge.RentMax.String() != "301" ||
		e.MaxAmount.String() != "999699" {
		t.Fatalf("estimate: got %+v %v, want 301, and 999699 at most", e, err)
	}

	paid := h.mustRequest(h.newRequest())
	h.wantBalances("998699", "1301")
	h.wantCharged(paid, "301", "", "")
	if err := h.endOrder(
		h.loadOrder(paid), dispatch.End{Paid: true, Hash: "0xaa", Fee: rented, Rent: rented},
	); err != nil {
		t.Fatal(err)
	}
	h.wantBalances("998699", "0")
	h.wantEarned("301")
	h.wantCharged(paid, "301", "", "301")
	h.wantPostings(paid, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_CHARGE 301", "WITHDRAWAL_END 1000")

	// Another sender created the account in the meantime, or the rent was lower.
	paid = h.mustRequest(h.newRequest())
	h.payOrder(paid)
	h.wantCharged(paid, "301", "", "0")
	h.wantPostings(paid, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_CHARGE_RETURN 301", "WITHDRAWAL_END 1000")
	paid = h.mustRequest(h.newRequest())
	if err := h.endOrder(
		h.loadOrder(paid),
		dispatch.End{Paid: true, Hash: "0xcc", Fee: rented, Rent: money.Units(50_000_000_000)},
	); err != nil {
		t.Fatal(err)
	}
	h.wantPostings(
		paid, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_CHARGE 150", "WITHDRAWAL_CHARGE_RETURN 151",
		"WITHDRAWAL_END 1000",
	)
	h.wantEarned("451")
	h.wantBalances("996549", "0")

	// What was not paid is released in full, and the organization bears a failure.
	failed := h.mustRequest(h.newRequest())
	if err := h.endOrder(h.loadOrder(failed), dispatch.End{Hash: "0xdd", Fee: rented, PayeeFailed: true}); err != nil {
		t.Fatal(err)
	}
	h.wantPostings(failed, "WITHDRAWAL_HOLD 1301", "WITHDRAWAL_END 1301")
	h.wantCharged(failed, "301", "", "0")
	r := h.newRequest()
	r.ToAddress, r.RequireApproval = elsewhere, true
	held := h.mustRequest(r)
	h.wantBalances("995248", "1301")
	if _, err := h.Remove(t.Context(), h.org, held.ID, audit.Operator("ann"), ""); err != nil {
		t.Fatal(err)
	}
	h.wantBalances("996549", "0")

	// The payee has an account: nothing is charged, and no price is fetched.
	c.setCosts()
	h.Prices = price.Fixed{}
	r.RequireApproval = false
	paid = h.mustRequest(r)
	h.wantCharged(paid, "0", "", "")
	h.wantBalances("995549", "1000")
}

// Rule WD-54.
func TestABalanceHasToReachForTheChargeAsWell(t *testing.T) {
	t.Parallel()
	h, _ := newChargingEnv(t, "RENT")
	r := h.newRequest()
	r.Amount = "999700"
	before := h.dumpRows()
	_, _, err := h.Request(t.Context(), h.org, r)
	wantFault(t, err, fault.InsufficientBalance)
	_, err = h.Preview(t.Context(), h.org, r)
	wantFault(t, err, fault.InsufficientBalance)
	if got := h.dumpRows(); got != before {
		t.Errorf("a refused request wrote: got %s, want %s", got, before)
	}

	// The balance covers two amounts, and with the charge only one.
	r.Amount = "499900"
	var taken atomic.Int32
	runParallel(2, func(int) {
		_, _, err := h.Request(t.Context(), h.org, r)
		if err == nil {
			taken.Add(1)
		} else if !fault.HasCode(err, fault.InsufficientBalance) {
			t.Error(err)
		}
	})
	if n := taken.Load(); n != 1 {
		t.Errorf("got %d accepted, want 1", n)
	}
	h.wantBalances("499799", "500201")
	r.Amount = "499498" // exactly
	h.mustRequest(r)
	h.wantBalances("0", "1000000")
}

// Rule WD-54.
func TestAChargeThatCannotBeComputedRefusesTheRequest(t *testing.T) {
	t.Parallel()
	h, c := newChargingEnv(t, "RENT")
	fixed := h.Prices
	before := h.dumpRows()
	empty := func() {
		t.Helper()
		for range 2 {
			_, _, err := h.Request(t.Context(), h.org, h.newRequest())
			wantFault(t, err, fault.CodeUnavailable)
			_, err = h.Preview(t.Context(), h.org, h.newRequest())
			wantFault(t, err, fault.CodeUnavailable)
		}
		_, err := h.Estimate(t.Context(), h.org, EstimateRequest{MintID: usdc})
		wantFault(t, err, fault.CodeUnavailable)
		if got := h.dumpRows(); got != before {
			t.Errorf("a refused request wrote: got %s, want %s", got, before)
		}
	}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}}
	empty()
	h.Prices = price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("3000")}}
	empty()
	h.Prices = agedPrice{fixed, priceAgeMax * 2}
	empty()
	h.Prices = price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("3000"), usdc: {}}}
	empty()
	h.Prices = fixed

	// It is unknown whether the payee has an account: the rent of one is held.
	was := c.fees
	c.fees = nil
	h.wantCharged(h.mustRequest(h.newRequest()), "301", "", "")
	h.setSetting("chargeCustomerCosts", `"RENT_AND_FAILURES"`)
	before = h.dumpRows()
	empty()
	c.fees = was
	h.mustRequest(h.newRequest())
}

// Rule WD-54.
func TestWhatWasShownIsChargedWhateverTheSettingIsThen(t *testing.T) {
	t.Parallel()
	h, _ := newChargingEnv(t, "RENT")
	r := h.newRequest()
	r.RequireApproval = true
	held := h.mustRequest(r)
	h.setSetting("chargeCustomerCosts", `"NONE"`)
	free := h.mustRequest(h.newRequest())
	h.setSetting("chargeCustomerCosts", `"RENT_AND_FAILURES"`)
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("9000")}}
	h.mustApprove(held)
	for _, w := range []Withdrawal{held, free} {
		if err := h.endOrder(
			h.loadOrder(w), dispatch.End{Paid: true, Hash: "0xaa", Fee: rented, Rent: rented},
		); err != nil {
			t.Fatal(err)
		}
	}
	h.wantCharged(held, "301", "", "301")
	h.wantPostings(free, "WITHDRAWAL_HOLD 1000", "WITHDRAWAL_END 1000")
	if free.CustomerCharge != nil {
		t.Errorf("got %+v of one that was requested while nothing was charged", free.CustomerCharge)
	}
	h.wantEarned("301")
}

// Rule WD-55.
func TestAPaymentThatFailsForItsPayeeIsChargedOutOfItsHold(t *testing.T) {
	t.Parallel()
	h, chainCharges := newChargingEnv(t, "RENT_AND_FAILURES")
	fee := money.Units(200_000_000_001) // 600 units, and one more
	for _, c := range []struct {
		name   string
		end    dispatch.End
		posted []string
		charge string
	}{
		{
			"because of its payee",
			dispatch.End{Hash: "0xaa", Fee: fee, PayeeFailed: true},
			[]string{"WITHDRAWAL_CHARGE 601", "WITHDRAWAL_END 700"},
			"601",
		},
		{
			"for more than is held",
			dispatch.End{Hash: "0xaa", Fee: money.Units(milli), PayeeFailed: true},
			[]string{"WITHDRAWAL_CHARGE 1301"},
			"1301",
		},
		{"for another reason", dispatch.End{Hash: "0xaa", Fee: fee}, []string{"WITHDRAWAL_END 1301"}, "0"},
		{"cancelled", dispatch.End{Hash: "0xaa", Fee: fee, Cancelled: true}, []string{"WITHDRAWAL_END 1301"}, "0"},
	} {
		before, had := h.accountBalance(usdc, ledger.Customer, alice),
			h.accountBalance(usdc, ledger.Product, "CUSTODIAL")
		r := h.newRequest()
		r.RequireApproval = true // the earlier failure holds it, too
		w := h.mustRequest(r)
		h.mustApprove(w)
		h.wantCharged(w, "301", "1301", "")
		if err := h.endOrder(h.loadOrder(w), c.end); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		h.wantPostings(w, append([]string{"WITHDRAWAL_HOLD 1301"}, c.posted...)...)
		h.wantCharged(w, "301", "1301", c.charge)
		charge := money.MustParse(c.charge)
		if got := money.SubOrZero(before, h.accountBalance(usdc, ledger.Customer, alice)); got != charge {
			t.Errorf("%s: the customer paid %v, want %v", c.name, got, charge)
		}
		if got := money.SubOrZero(h.accountBalance(usdc, ledger.Product, "CUSTODIAL"), had); got != charge {
			t.Errorf("%s: the organization got %v, want %v", c.name, got, charge)
		}
		// A second report moves nothing.
		if err := h.tryEndOrder(h.loadOrder(w), c.end); err == nil {
			t.Errorf("%s: it ended twice", c.name)
		}
	}
	// The displayed maximum limits the charge, whatever the cost was in the end.
	chainCharges.mu.Lock()
	chainCharges.fees = &chain.Fees{GasLimit: 1, NonGas: money.Units(20 * milli)}
	chainCharges.mu.Unlock()
	r := h.newRequest()
	r.MintID, r.Amount = eth, "100000000000000000"
	h.creditDeposit(alice, eth, 100*milli)
	r.ToAddress = elsewhere
	w := h.mustRequest(r)
	h.wantCharged(w, "0", "20000000000000000", "")
	if err := h.endOrder(
		h.loadOrder(w), dispatch.End{Hash: "0xaa", Fee: money.Units(30 * milli), PayeeFailed: true},
	); err != nil {
		t.Fatal(err)
	}
	h.wantCharged(w, "0", "20000000000000000", "20000000000000000")
}

// Rules WD-54, WD-55. The database computes a charge again.
func TestTheDatabaseRefusesAChargeThatTheOrderDoesNotExplain(t *testing.T) {
	t.Parallel()
	h, _ := newChargingEnv(t, "RENT_AND_FAILURES")
	w := h.mustRequest(h.newRequest())
	h.setOrderStatus(w.ID, "BROADCAST")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, h.loadOrder(w), "0xaa") })
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
		h.setOrderStatus(w.ID, to)
		h.endWithCost(w.ID, says)
		if err := h.tryEndOrder(h.loadOrder(w), end); !pg.ViolatesConstraint(err, "withdrawals_charged") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	h.wantBalances("998699", "1301")
	owner := pgtest.OwnerPool(t, h.DB)
	for _, c := range []struct{ sql, refusal string }{
		{`UPDATE withdrawals SET charge_held = 1`, "withdrawals_charge_fixed"},
		{
			`UPDATE withdrawals SET charge_costs = 'NONE', charge_rent = 0, charge_held = 0, charge_failure_max = NULL`,
			"withdrawals_charge_fixed",
		},
		{`UPDATE withdrawals SET charge_failure_max = 1`, "withdrawals_charge_fixed"},
		{`UPDATE withdrawals SET charge_mint_price = 2`, "withdrawals_charge_fixed"},
		{`UPDATE withdrawals SET charged = 1, charge_cost = 1`, "withdrawals_charge_fixed"},
		{
			`INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status, requires_approval, approval_reasons, created_at,
				charge_costs, charge_rent, charge_held, charge_coin_price, charge_mint_price)
			SELECT 'wd_x', org_id, customer_id, mint_id, chain, amount, to_address, request_digest, 'PROCESSING', false, '{}', created_at,
				charge_costs, charge_rent, 300, charge_coin_price, charge_mint_price FROM withdrawals`,
			"withdrawals_charge_held",
		},
	} {
		if _, err := owner.Exec(t.Context(), c.sql); !pg.ViolatesConstraint(err, c.refusal) {
			t.Errorf("%s: got %v, want %s", c.sql, err, c.refusal)
		}
	}
}

// Rule WD-54. The payee had an account when the payment was requested, and has closed it.
func TestAnAccountThatWasNotHeldForGoesBackToAPersonOnce(t *testing.T) {
	t.Parallel()
	h, c := newChargingEnv(t, "RENT")
	c.setCosts()
	w := h.mustRequest(h.newRequest())
	h.wantCharged(w, "0", "", "")
	review := func(w Withdrawal, rent money.Amount) (r *signer.Refusal) {
		h.inSystem(func(ctx context.Context, tx pg.Tx) (err error) {
			r, err = h.ReviewRent(ctx, tx, h.loadOrder(w), rent)
			return err
		})
		return r
	}
	r := review(w, rented)
	if r == nil || r.Code != dispatch.RentNotHeld {
		t.Fatalf("got %v, want a refusal", r)
	}
	h.setOrderStatus(w.ID, "REFUSED")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnRefused(ctx, tx, h.loadOrder(w), r) })
	got, err := h.ByID(t.Context(), h.org, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.wantReasons(got, "POLICY_LIMIT")
	h.mustApprove(w)
	if r := review(w, rented); r != nil {
		t.Errorf("once a person has approved it: got %v, want nothing against it", r)
	}
	// The organization pays.
	if err := h.endOrder(
		h.loadOrder(w), dispatch.End{Paid: true, Hash: "0xaa", Fee: rented, Rent: rented},
	); err != nil {
		t.Fatal(err)
	}
	h.wantPostings(w, "WITHDRAWAL_HOLD 1000", "WITHDRAWAL_END 1000")

	c.mu.Lock()
	c.fees.Rent = rented
	c.mu.Unlock()
	if r := review(h.mustRequest(h.newRequest()), rented); r != nil {
		t.Errorf("held for: got %v, want nothing against it", r)
	}
	h.setSetting("chargeCustomerCosts", `"NONE"`)
	c.setCosts()
	if r := review(h.mustRequest(h.newRequest()), rented); r != nil {
		t.Errorf("nothing is charged: got %v, want nothing against it", r)
	}
}

// Rule WD-55. A refused payment creates no account, so its cost has no rent in it.
func TestTheMostThatAFailureIsChargedHasNoRentInIt(t *testing.T) {
	t.Parallel()
	h, c := newChargingEnv(t, "RENT_AND_FAILURES")
	most, err := money.Units(200_000_000_001).Add(rented)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.fees.NonGas = most
	c.mu.Unlock()
	h.wantCharged(h.mustRequest(h.newRequest()), "301", "601", "")
}
