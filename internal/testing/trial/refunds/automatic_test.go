package refunds

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/transfer"
)

// newProduct makes a product for a hundred dollars with policies.
func (e *testEnv) newProduct(over, late string, underBps int) checkout.Product {
	e.Helper()
	d := checkout.NewDraft()
	d.Name, d.PriceType, d.Price, d.AcceptedMintIDs = "Gold plan", checkout.FixedPrice, new("100"),
		[]int{dollars, ether}
	d.OverpaymentPolicy, d.LatePaymentPolicy, d.UnderpaymentToleranceBps = over, late, underBps
	p, _, err := e.Checkouts.Create(e.ctx, e.org, checkout.Request{Draft: d, Actor: audit.APIKey(e.org)})
	e.must(err)
	return p
}

// sell makes a checkout of a product, with options in both mints.
func (e *testEnv) sell(p checkout.Product) string {
	e.Helper()
	c, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, checkout.CheckoutRequest{
		Items: []checkout.ItemRequest{{ProductID: p.ID, Quantity: 1}}, ExpiresIn: new(3600), Actor: audit.APIKey(e.org),
	})
	e.must(err)
	for _, mintID := range []int{dollars, ether} {
		_, err := e.Checkouts.OpenOption(e.ctx, e.org, c.ID, mintID)
		e.must(err)
	}
	return c.ID
}

// refunding makes a product whose surplus, late payments and parts are refunded by themselves.
func (e *testEnv) refunding() checkout.Product {
	e.Helper()
	return e.newProduct(checkout.RefundLinkSurplus, checkout.RefundLinkLate, 50)
}

// payAlone pays a checkout, and lets the payment be credited and settled. No policy makes a refund yet.
func (e *testEnv) payAlone(checkoutID string, units uint64) {
	e.Helper()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
	e.must(err)
	e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, units)
	for range 3 {
		e.net.Mine(1)
		e.advance(blockTime)
		e.walk()
	}
}

// made returns the refunds of a checkout, the oldest first.
func (e *testEnv) made(checkoutID string) []checkout.Refund {
	e.Helper()
	page, err := e.Checkouts.ListRefunds(e.ctx, e.org, checkout.RefundFilter{CheckoutID: checkoutID},
		pagination.Page{Limit: 20})
	e.must(err)
	return page.Items
}

// onlyMade expects one refund that a policy made and that waits for its payer.
func (e *testEnv) onlyMade(checkoutID string, cause outcome.Exception, units uint64) checkout.Refund {
	e.Helper()
	made := e.made(checkoutID)
	if len(made) != 1 {
		e.Fatalf("got the refunds %+v, want one", made)
	}
	r := made[0]
	if r.Status != checkout.RefundAwaitingAddress || r.IsClaimable || r.Cause != cause || r.Mint.ID != dollars ||
		r.Amount != money.Units(units) || r.Requester.Kind != "SYSTEM" || r.FeeMode != checkout.FeeOrganization {
		e.Fatalf("got %+v, want a refund of %d by the service for %s", r, units, cause)
	}
	return r
}

// claimMade issues the key of a refund that a policy made, and claims it.
func (e *testEnv) claimMade(r checkout.Refund, address chain.Address) {
	e.Helper()
	_, key, err := e.Checkouts.ReissueRefundKey(e.ctx, e.org, r.ID, audit.User("ann"))
	e.must(err)
	e.must(e.claim(r.ID, key, address))
	e.until(r.ID, checkout.RefundCompleted)
}

func (e *testEnv) problem(checkoutID, want string) {
	e.Helper()
	got, err := e.Checkouts.AutomaticRefundProblem(e.ctx, e.org, checkoutID)
	e.must(err)
	if want == "" && got != "" || !strings.Contains(got, want) {
		e.Errorf("got the problem %q, want %q", got, want)
	}
}

// A surplus is refunded once, by the service, without a key, and the terms of the checkout decide about it: a later
// policy of its product does not. Rules CO-110 and CO-115.
func TestASurplusIsRefundedByItselfOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	p, kept := e.refunding(), e.newProduct(checkout.CreditSurplus, checkout.HoldLate, 50)
	id, other := e.sell(p), e.sell(kept)
	for product, policy := range map[string]string{
		p.ID: checkout.CreditSurplus, kept.ID: checkout.RefundLinkSurplus,
	} {
		_, err := e.Checkouts.Patch(e.ctx, e.org, product, audit.User("ann"),
			checkout.Change{OverpaymentPolicy: &policy})
		e.must(err)
	}
	e.pay(id, dollars, 150*million)
	e.pay(other, dollars, 150*million)
	if made := e.made(other); len(made) != 0 {
		t.Errorf("got %+v, want no refund of a surplus that stays", made)
	}
	r := e.onlyMade(id, outcome.Overpaid, 50*million)
	e.books(dollars, 250*million, 50*million)
	e.exceptions(id, outcome.Overpaid)
	e.problem(id, "")
	if _, err := e.Checkouts.ClaimableRefund(e.ctx, r.ID, ""); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("got %v, want no refund without a key", err)
	}
	// The holder of the key of the checkout's page gets the first key of the refund.
	e.Checkouts.IsPageKey = func(checkoutID, key string) bool { return checkoutID == id && key == "of the page" }
	refundID, key, err := e.Checkouts.RefundKeyOfCheckout(e.ctx, id, "of the page")
	e.must(err)
	if refundID != r.ID {
		t.Fatalf("got the key of %s, want that of %s", refundID, r.ID)
	}
	e.must(e.claim(r.ID, key, home))
	e.until(r.ID, checkout.RefundCompleted)
	e.has(home, dollars, 50*million)
	got := e.texts(`SELECT actor_kind || ' ' || actor_id FROM audit_log WHERE resource_id = $1
		AND action = 'refund.requested'`, r.ID)
	if !slices.Equal(got, []string{"SYSTEM checkout"}) {
		t.Errorf("got the authors %v, want the service", got)
	}

	e.pay(id, dollars, 100*million) // Another one is for a person.
	if made := e.made(id); len(made) != 1 {
		t.Errorf("got %+v, want one refund", made)
	}
	e.problem(id, "100 USDC on ETHEREUM stays with you: a refund was made by itself before")
}

// A surplus in two coins is two refunds, each of the newest payments, and none is made before every payment is final.
// Rule CO-111.
func TestASurplusInTwoCoinsIsTwoRefunds(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.sell(e.refunding())
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 150*million)
	e.net.Mine(1)
	e.advance(blockTime)
	e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 60*million)
	e.net.Pay(payer, c.Options[0].Wallet.Address, "", 50*milliCoin)
	e.pass(8) // The first payment is credited while the others are not.
	made := e.made(id)
	slices.SortFunc(made, func(a, b checkout.Refund) int { return a.Mint.ID - b.Mint.ID })
	if len(made) != 2 || made[0].Mint.ID != dollars || made[0].Amount != money.Units(110*million) ||
		made[1].Mint.ID != ether || made[1].Amount != money.Units(50*milliCoin) {
		t.Fatalf("got %+v, want the newest payments and a part of the one before", made)
	}
	e.books(dollars, 100*million, 110*million)
	e.claimMade(made[1], home)
	e.has(home, ether, 50*milliCoin)
	e.is(made[0].ID, checkout.RefundAwaitingAddress)
}

// What was paid in part is refunded once the time is over, and what comes later is refused and refunded. Rule CO-113.
func TestAPartAndALatePaymentAreRefunded(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id, unpaid := e.sell(e.refunding()), e.sell(e.newProduct(checkout.CreditSurplus, checkout.HoldLate, 50))
	e.pay(id, dollars, 40*million)
	if made := e.made(id); len(made) != 0 {
		t.Fatalf("got %+v, want no refund while the rest can be paid", made)
	}
	e.wait(2 * time.Hour)
	e.pass(3)
	e.exceptions(id, outcome.Underpaid)
	part := e.onlyMade(id, outcome.Underpaid, 40*million)
	if part.Kind != checkout.FullRefund {
		t.Errorf("got the kind %s, want all of it", part.Kind)
	}
	e.books(dollars, 0, 40*million)

	e.pay(id, dollars, 60*million)
	e.pay(unpaid, dollars, 100*million) // It waits for a person.
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	if c.Status != outcome.Expired {
		t.Errorf("got %s, want a checkout that a late payment does not complete", c.Status)
	}
	made := e.made(id)
	i := slices.IndexFunc(made, func(r checkout.Refund) bool { return r.Cause == outcome.PaidLate })
	if len(made) != 2 || i < 0 || made[i].Amount != money.Units(60*million) {
		t.Fatalf("got %+v, want a refund of the late payment", made)
	}
	if held := e.made(unpaid); len(held) != 0 {
		t.Errorf("got %+v, want a late payment that waits for a person", held)
	}
	e.claimMade(part, home)
	e.claimMade(made[i], second)
	e.has(home, dollars, 40*million)
	e.has(second, dollars, 60*million)
	e.exceptions(id, outcome.PaidLate, outcome.Underpaid, outcome.Refunded)
}

// While a payment is flagged, the part beside it is not given back: an approval completes the checkout. Rule CO-113.
func TestAPartIsNotRefundedBesideAFlaggedPayment(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setting("screeningUsdThreshold", `"0"`)
	e.setting("screeningSeverityThreshold", `"MEDIUM"`)
	id := e.sell(e.refunding())
	e.payFrom(thief, id)
	e.pay(id, dollars, 40*million)
	e.wait(2 * time.Hour)
	e.pass(3)
	e.exceptions(id, outcome.Flagged, outcome.Underpaid)
	if made := e.made(id); len(made) != 0 {
		t.Errorf("got %+v, want no refund of the part yet", made)
	}
	_, err := e.Deposits.Approve(e.ctx, e.texts(`SELECT deposit_id FROM deposits WHERE status = 'FLAGGED'`)[0],
		deposit.Actor{Actor: audit.Operator("ann"), Name: "Ann"}, "known")
	e.must(err)
	e.pass(3)
	e.exceptions(id, outcome.Overpaid)
	e.onlyMade(id, outcome.Overpaid, 40*million)
}

// A payment that is later than seven days is for a person. Rule CO-113.
func TestAPaymentOfLongAfterIsNotRefundedByItself(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.sell(e.refunding())
	e.wait(8 * 24 * time.Hour)
	e.pay(id, dollars, 100*million)
	e.exceptions(id, outcome.PaidLate)
	if made := e.made(id); len(made) != 0 {
		t.Errorf("got %+v, want a late payment that waits for a person", made)
	}
}

// The settlement does not wait for a refund that the balance lacks: it says so, and is made once the money is there.
// So does one of a frozen organization. Rule CO-112.
func TestARefundWithoutABalanceIsTriedAgain(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.sell(e.refunding())
	e.payAlone(id, 150*million)
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, e.org, "carl", "")
		return err
	}))
	product, carl := transfer.Party{Product: new("CHECKOUT")}, transfer.Party{CustomerID: new("carl")}
	move := func(key string, from, to transfer.Party) {
		t.Helper()
		_, err := e.Transfers.Request(e.ctx, e.org, transfer.Request{
			MintID: dollars, Amount: "120000000", From: from, To: to, IdempotencyKey: key, Actor: audit.APIKey(e.org),
		})
		e.must(err)
	}
	move("there", product, carl)
	for range 4 {
		e.must(e.Checkouts.RefundAutomatically(e.ctx))
		e.advance(10 * time.Minute)
	}
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	if c.Status != outcome.Completed || len(e.made(id)) != 0 {
		t.Fatalf("got %s and %+v, want a completed checkout without a refund", c.Status, e.made(id))
	}
	e.problem(id, "A refund of 50 USDC on ETHEREUM waits: the balance of CHECKOUT is smaller.")
	delays := `SELECT action FROM audit_log WHERE resource_id = $1 AND action = 'checkout.refund_delayed'`
	if got := e.texts(delays, id); len(got) != 1 { // not one for each try
		t.Errorf("got %d rows about it, want one", len(got))
	}
	move("back", carl, product)
	e.must(e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeOrganization, OrgID: e.org, Source: freeze.SourceOperator, Reason: "asked",
			Actor: audit.Operator("op"),
		})
	}))
	e.must(e.Checkouts.RefundAutomatically(e.ctx))
	e.problem(id, "A refund of 50 USDC on ETHEREUM waits: the organization is frozen.")
	e.liftFreezes()
	e.advance(10 * time.Minute)
	e.must(e.Checkouts.RefundAutomatically(e.ctx))
	e.onlyMade(id, outcome.Overpaid, 50*million)
	e.problem(id, "")
	e.look()
}

// flatFee says that every payment costs the same.
type flatFee struct{ units uint64 }

// TransferFee implements checkout.Costs.
func (f flatFee) TransferFee(context.Context, chain.Name) *money.Amount {
	return new(money.Units(f.units))
}

// What is below the smallest payment, or worth no more than the fee of its payment, stays, and the checkout says so.
// Rule CO-112.
func TestDustStaysAndSaysSo(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	exact := e.sell(e.newProduct(checkout.RefundLinkSurplus, checkout.HoldLate, 0))
	dear := e.sell(e.refunding())
	e.payAlone(exact, 100*million+5)
	e.payAlone(dear, 120*million)
	e.Checkouts.Costs = flatFee{10 * milliCoin} // twenty dollars
	e.must(e.Checkouts.RefundAutomatically(e.ctx))
	e.exceptions(exact, outcome.Overpaid)
	e.exceptions(dear, outcome.Overpaid)
	e.problem(exact, "0.000005 USDC on ETHEREUM stays with you: the smallest payment is 0.00001 USDC.")
	e.problem(dear, "20 USDC on ETHEREUM stays with you: the network takes as much for its payment.")
	e.Checkouts.Costs = flatFee{milliCoin}
	e.advance(time.Hour)
	e.must(e.Checkouts.RefundAutomatically(e.ctx)) // It was decided.
	if made := append(e.made(exact), e.made(dear)...); len(made) != 0 {
		t.Errorf("got %+v, want none", made)
	}
	e.books(dollars, 220*million+5, 0)
	for _, id := range []string{exact, dear} {
		got := e.texts(`SELECT action FROM audit_log WHERE resource_id = $1 AND action = 'checkout.refund_kept'`, id)
		if len(got) != 1 {
			t.Errorf("got %d rows about it, want one", len(got))
		}
	}
}

// Two processes and a person at the same moment give a surplus back once. Rule CO-110.
func TestASurplusIsRefundedOnceByTheFirst(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	p, other := e.refunding(), e.open(e.db)
	for range 3 {
		id := e.sell(p)
		e.payAlone(id, 150*million)
		errs := atOnce(6, func(i int) error {
			if i%3 == 2 {
				_, _, _, err := e.Checkouts.RequestRefund(e.ctx, e.org, request(id, overpaid))
				return err
			}
			// The claim of another process is over.
			err := e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE refund_turns SET look_at = $2 WHERE checkout_id = $1`, id, tx.Now)
				return err
			})
			return errors.Join(err, []*checkout.Service{e.Checkouts, other.Checkouts}[i%3].RefundAutomatically(e.ctx))
		})
		for _, err := range errs {
			if err != nil && !fault.HasCode(err, fault.RefundExceedsPayment) {
				t.Errorf("got %v, want RefundExceedsPayment at most", err)
			}
		}
		e.look()
		made := e.made(id)
		if len(made) != 1 || made[0].Amount != money.Units(50*million) {
			t.Fatalf("got %+v, want one refund of the surplus", made)
		}
	}
	e.books(dollars, 300*million, 150*million)
}

// A refund that no one claimed is taken back when its reason is gone: the chain took its payment back, or a person
// accepted what was paid. It is not made again. Rule CO-114.
func TestARefundWithoutAReasonIsTakenBack(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	part := e.sell(e.refunding())
	e.payAlone(part, 40*million)
	e.wait(2 * time.Hour)
	e.pass(3)
	promised := e.onlyMade(part, outcome.Underpaid, 40*million)
	_, key, err := e.Checkouts.ReissueRefundKey(e.ctx, e.org, promised.ID, audit.User("ann"))
	e.must(err)
	_, err = e.Checkouts.AcceptCheckout(e.ctx, e.org, part, "a regular guest", audit.User("ann"))
	e.must(err)
	e.wantFault(e.claim(promised.ID, key, home), fault.InvalidState) // also before the worker looks
	e.must(e.Checkouts.RefundAutomatically(e.ctx))
	e.is(promised.ID, checkout.RefundCancelled)
	e.books(dollars, 40*million, 0)

	e.net.Mine(5)
	id := e.sell(e.refunding())
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	hash := e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 100*million)
	e.net.Mine(1)
	e.advance(blockTime)
	other := sim.Address("another payer")
	e.net.Mint(other, signertest.Token, money.Units(50*million))
	e.net.Mint(other, "", money.Units(milliCoin))
	e.net.Pay(other, c.Options[0].Wallet.Address, signertest.Token, 50*million)
	for range 3 { // credited, and not swept
		e.net.Mine(1)
		e.advance(blockTime)
		e.walk()
	}
	e.must(e.Checkouts.RefundAutomatically(e.ctx))
	surplus := e.onlyMade(id, outcome.Overpaid, 50*million)
	e.net.Fork(6, hash) // The payment from which the refund takes is mined again.
	e.net.Mine(1)
	e.net.MineEmpty(11)
	for range 50 {
		if _, err := e.Walker.StepFinal(e.ctx); errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
	}
	fork, err := e.Walker.FindFork(e.ctx)
	e.must(err)
	_, err = e.Walker.Repoint(e.ctx, fork, 2, audit.Operator("op"))
	e.must(err)
	e.walk()
	e.net.MineEmpty(10)
	e.walk()
	e.must(e.Deposits.SettleReorgs(e.ctx))
	e.walk()
	e.exceptions(id, outcome.Reversed)
	for range 2 {
		e.must(e.Checkouts.RefundAutomatically(e.ctx))
		e.advance(time.Hour)
	}
	e.is(surplus.ID, checkout.RefundCancelled)
	if made := e.made(id); len(made) != 1 {
		t.Errorf("got %+v, want no second refund", made)
	}
	e.look()
}

// The database admits only the automatic refunds for which the terms of the checkout ask. Rule CO-115.
func TestTheTablesRefuseARefundThatNoPolicyMakes(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(150 * million)
	r, _ := e.refund(request(id, overpaid))
	automatic := e.sell(e.refunding())
	e.pay(automatic, dollars, 150*million)
	e.onlyMade(automatic, outcome.Overpaid, 50*million)
	owner := pgtest.OwnerPool(t, e.db)
	const begun = `INSERT INTO automatic_refunds (checkout_id, mint_id, cause, org_id, refund_id) `
	for name, c := range map[string]struct{ constraint, sql string }{
		"a refund by a program": {
			"automatic_refunds_asked_for", begun + `
				SELECT checkout_id, mint_id, 'OVERPAID', org_id, refund_id FROM refunds
				WHERE refund_id = '` + r.ID + `'`,
		},
		"another cause of the same refund": {
			"automatic_refunds_one_cause", begun + `
				SELECT checkout_id, mint_id, 'PAID_LATE', org_id, refund_id FROM refunds
				WHERE checkout_id = '` + automatic + `'`,
		},
		"a second one": {
			"automatic_refunds_pkey", begun + `SELECT checkout_id, mint_id, 'OVERPAID', org_id, refund_id FROM refunds
				WHERE checkout_id = '` + automatic + `'`,
		},
		"another mint":   {"automatic_refunds_append_only", `UPDATE automatic_refunds SET mint_id = 2`},
		"no row of it":   {"automatic_refunds_append_only", `DELETE FROM automatic_refunds`},
		"no turn":        {"refund_turns_append_only", `DELETE FROM refund_turns`},
		"an empty cause": {"refund_turns_words", `UPDATE refund_turns SET problem = ''`},
	} {
		if _, err := owner.Exec(e.ctx, c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", name, err, c.constraint)
		}
	}
}
