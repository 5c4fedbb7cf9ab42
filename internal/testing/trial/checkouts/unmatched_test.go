package checkouts

import (
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
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/service"
)

var person = audit.Actor{Kind: "USER", ID: "usr_ann"}

// stray pays the shared address of Solana without a key, and returns the deposit once it is credited.
func (e *testEnv) stray(units uint64, references ...chain.Address) string {
	e.Helper()
	before := e.unmatched()
	e.payShared(units, references...)
	e.finalize()
	return e.newest(before)
}

// newest returns the one unmatched deposit that was not there before.
func (e *testEnv) newest(before []checkout.Unmatched) string {
	e.Helper()
	found := slices.DeleteFunc(e.unmatched(), func(u checkout.Unmatched) bool {
		return slices.ContainsFunc(before, func(b checkout.Unmatched) bool { return b.DepositID == u.DepositID })
	})
	if len(found) != 1 {
		e.Fatalf("got %d new unmatched payments, want one", len(found))
	}
	return found[0].DepositID
}

// unmatched lists what is unmatched.
func (e *testEnv) unmatched() []checkout.Unmatched {
	e.Helper()
	page, err := e.Checkouts.ListUnmatched(e.ctx, e.org, checkout.UnmatchedFilter{}, pagination.Page{Limit: 100})
	e.must(err)
	return page.Items
}

// assign gives an unmatched payment to a checkout, and lets the checkout know.
func (e *testEnv) assign(depositID, checkoutID string) checkout.Unmatched {
	e.Helper()
	u, err := e.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, checkoutID, person)
	e.must(err)
	e.turn()
	return u
}

// A person gives a payment without a key to the checkout that asked for it. It counts by its own moment, and completes
// the checkout. Rules CO-100, CO-101, CO-102 and CO-103.
func TestAnAssignedPaymentCompletesItsCheckout(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), solanaDollars)
	other := e.checkout(request(productID, otherOf("key-2"), func(r *checkout.CheckoutRequest) {
		r.Items[0].Quantity = 2
	}), solanaDollars)
	e.payShared(100 * million)
	e.is(first, outcome.Open)
	e.finalize()
	found := e.unmatched()
	if len(found) != 1 || found[0].Reason != checkout.NoReference || found[0].DepositStatus != "CREDITED" ||
		!slices.Equal(found[0].SuggestedIDs, []string{first}) {
		t.Fatalf("got %+v, want one payment that may be of %s", found, first)
	}
	depositID := found[0].DepositID
	u := e.assign(depositID, first)
	if u.AssignedTo != first || u.AssignedBy != "USER usr_ann" || u.AssignedAt == nil {
		t.Errorf("got %+v, want that Ann assigned it to %s", u, first)
	}
	e.ends(first, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: []string{"COMPLETED"}, actions: []string{"payment_assigned", "changed OPEN COMPLETED"},
		books: map[int]int64{solanaDollars: 100 * million},
	})
	if found := e.unmatched(); len(found) != 0 {
		t.Errorf("got %+v that is unmatched, want nothing", found)
	}
	before := e.snapshot()
	again, err := e.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, first, audit.APIKey("key"))
	if e.must(err); again.AssignedBy != "USER usr_ann" {
		t.Errorf("assigned again: got %+v, want it as it was", again)
	}
	_, err = e.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, other, person)
	if f := e.wantFault(err, fault.InvalidState); f.Effect != fault.NothingWritten {
		t.Errorf("got the effect %v, want that nothing was written", f.Effect)
	}
	if after := e.snapshot(); after != before {
		t.Errorf("what was refused changed%s", compare(before, after))
	}
}

// Rules CO-100 and CO-102.
func TestOnlyTheOrganizationAssignsAPayment(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.checkout(request(e.product()), solanaDollars)
	matched := e.paidDeposit(id)
	depositID := e.stray(100 * million)
	theirs, _, err := e.Checkouts.CreateCheckout(e.ctx, e.other, checkout.CheckoutRequest{
		AdHoc: &checkout.AdHocItem{Name: "Theirs", Price: "100", Currency: "USD"}, Actor: person,
	})
	e.must(err)
	_, err = e.Checkouts.OpenOption(e.ctx, e.other, theirs.ID, solanaDollars)
	e.must(err)
	if found := e.unmatched(); len(found) != 1 || len(found[0].SuggestedIDs) != 0 {
		t.Errorf("got %+v, want no suggestion: the open checkout of this amount is another organization's", found)
	}
	before := e.snapshot()
	for name, c := range map[string]struct{ org, depositID, checkoutID string }{
		"another organization's payment":  {e.other, depositID, theirs.ID},
		"to another's checkout":           {e.org, depositID, theirs.ID},
		"an absent payment":               {e.org, strings.Replace(depositID, "dep_", "dep_0", 1)[:30], id},
		"what is no id":                   {e.org, "my payment", id},
		"to no checkout":                  {e.org, depositID, "co_absent"},
		"a payment that has its checkout": {e.org, matched, id},
	} {
		_, err := e.Checkouts.AssignUnmatched(e.ctx, c.org, c.depositID, c.checkoutID, person)
		if f := fault.Find(err); f == nil || f.Code != fault.CodeNotFound || f.Effect != fault.NothingWritten {
			t.Errorf("%s: got %v, want NOT_FOUND", name, err)
		}
	}
	if _, err := e.Checkouts.UnmatchedByID(e.ctx, e.other, depositID); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("read by another organization: got %v, want NOT_FOUND", err)
	}
	if after := e.snapshot(); after != before {
		t.Errorf("what was refused changed%s", compare(before, after))
	}
}

// paidDeposit pays a checkout on Solana with its key, and returns the deposit.
func (e *testEnv) paidDeposit(checkoutID string) string {
	e.Helper()
	e.payShared(100*million, e.referenceOf(checkoutID))
	e.finalize()
	return e.load(checkoutID).Payments[0].DepositID
}

// A checkout in every state takes an assigned payment, by the rules of every payment. Rule CO-103.
func TestAnAssignedPaymentFollowsTheUsualRules(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	paid := e.checkout(request(productID), solanaDollars)
	e.paidDeposit(paid)
	e.assign(e.stray(50*million), paid)
	e.is(paid, outcome.Completed, outcome.Overpaid)
	e.wantStable(paid)

	part := e.checkout(request(productID, otherOf("key-2")), dollars)
	e.assign(e.stray(40*million), part)
	e.is(part, outcome.Open, outcome.Underpaid)
	e.wantStable(part)

	ended := e.checkout(request(e.product(holdingLate), otherOf("key-3")), dollars)
	e.pass(32 * time.Minute)
	e.is(ended, outcome.Expired)
	e.assign(e.stray(100*million), ended)
	e.is(ended, outcome.Expired, outcome.PaidLate)
	e.wantStable(ended)

	recalled := e.checkout(request(productID, otherOf("key-4")), dollars)
	early := e.stray(100 * million)
	e.pass(time.Minute)
	_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, recalled, person)
	e.must(err)
	// It was paid before the cancellation, so it is in time.
	e.assign(early, recalled)
	e.is(recalled, outcome.Completed)
	e.wantStable(recalled)

	// A checkout that was made after the payment: no one knew it before.
	depositID := e.stray(100 * million)
	e.pass(time.Minute)
	late := e.checkout(request(productID, otherOf("key-5")), dollars)
	e.assign(depositID, late)
	e.is(late, outcome.Completed)
	e.wantStable(late)
}

// A payment keeps the status of its deposit: one that is not final is seen, and counts once it is credited. One that a
// fork removes counts for nothing. Rule CO-103.
func TestAnAssignedPaymentKeepsTheStatusOfItsDeposit(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), solanaDollars)
	second := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
	e.payShared(100 * million)
	depositID := e.newest(nil)
	e.assign(depositID, first)
	e.is(first, outcome.Processing)
	net := e.nets[chain.Solana]
	hash := net.BlockAt(net.Latest().Height).Transfers[0].Tx
	e.fork(chain.Solana, 1, hash)
	e.turn()
	e.is(first, outcome.Open)
	if got := e.describeAll(first); !slices.Equal(got, []string{"ORPHANED 100 by quote 1 not counted"}) {
		t.Errorf("got %q, want one payment that is gone", got)
	}
	net.ResubmitTx(hash, payer, sim.Move{
		Contract: solanaToken, To: e.sharedAddress(), Amount: money.Units(100 * million),
		References: []chain.Address{e.referenceOf(second)},
	})
	e.block()
	e.finalize()
	// What a person assigned stays, whatever the final block names.
	e.is(first, outcome.Completed)
	e.is(second, outcome.Open)
	e.wantStable(first)
	if found := e.unmatched(); len(found) != 0 {
		t.Errorf("got %+v that is unmatched, want nothing", found)
	}
}

func (e *testEnv) sharedAddress() chain.Address {
	e.Helper()
	return chain.Address(e.texts(
		`SELECT address FROM wallets WHERE purpose = 'CHECKOUT_SHARED' AND org_id = $1`, e.org,
	)[0])
}

// A payment that is taken back after its assignment leaves its checkout as every payment does. Rule CO-103.
func TestAnAssignedPaymentMayBeReversed(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	backup := pgtest.CopyDatabase(t, e.database)
	lost := e.usual()
	e.mine(5)
	hash := e.pay(lost, dollars, 100*million)
	e.mine(1 + finality)
	e.restore(backup)
	e.turn()
	id := e.checkout(request(e.product(), otherOf("key-9")), dollars)
	e.assign(e.newest(nil), id)
	e.is(id, outcome.Completed)
	net := e.nets[chain.Ethereum]
	net.Fork(finality+2, hash)
	net.MineEmpty(finality + 6)
	walker := e.Walker(chain.Ethereum)
	for range turnsMax {
		if _, err := walker.StepFinal(e.ctx); errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
	}
	fork, err := walker.FindFork(e.ctx)
	e.must(err)
	_, err = walker.Repoint(e.ctx, fork, 2, audit.Operator("op"))
	e.must(err)
	e.turn()
	net.MineEmpty(10)
	e.turn()
	e.must(e.Deposits.SettleReorgs(e.ctx))
	e.turn()
	e.is(id, outcome.Completed, outcome.Reversed)
	e.wantBooks(nil)
	e.wantStable(id)
}

// restore continues with an older database, which the signer's journal has completed.
func (e *testEnv) restore(backup pgtest.Database) {
	e.Helper()
	e.db = pgtest.Open(e.T, backup, e.clock)
	e.Service = e.open(e.db)
	_, err := journal.RestoreDatabase(e.ctx, e.db, e.signer, e.Wallets, e.NewRestorer(audit.Operator("op")), false)
	e.must(err)
	e.must(e.Checkouts.RestoreOptions(e.ctx, time.Time{}))
}

// A flagged payment counts for nothing, assigned or not, and counts once a person approves it. Rule CO-103.
func TestAFlaggedPaymentIsAssignedAsFlagged(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.screen()
	id := e.checkout(request(e.product()), solanaDollars)
	e.nets[chain.Solana].SubmitTx(thief, sim.Move{
		Contract: solanaToken, To: e.sharedAddress(), Amount: money.Units(100 * million),
	})
	e.block()
	e.finalize()
	e.assign(e.newest(nil), id)
	e.is(id, outcome.Open, outcome.Flagged)
	_, err := e.Deposits.Approve(e.ctx, e.deposits("FLAGGED")[0], decider(), "")
	e.must(err)
	e.turn()
	e.is(id, outcome.Completed)
	e.wantStable(id)
}

// Rule CO-102.
func TestOneAssignmentOfSeveralWins(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	ids := []string{
		e.checkout(request(productID), solanaDollars), e.checkout(request(productID, otherOf("key-2")), solanaDollars),
	}
	depositID := e.stray(100 * million)
	errs := e.atOnce(8, func(s *service.Service, i int) error {
		_, err := s.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, ids[i/4], person)
		return err
	})
	e.turn()
	u, err := e.Checkouts.UnmatchedByID(e.ctx, e.org, depositID)
	e.must(err)
	for i, err := range errs {
		if isWinner := ids[i/4] == u.AssignedTo; isWinner != (err == nil) || !isWinner &&
			!fault.HasCode(err, fault.InvalidState) {
			t.Errorf("to %s, while it is of %s: got %v", ids[i/4], u.AssignedTo, err)
		}
	}
	for _, id := range ids {
		want := outcome.Open
		if id == u.AssignedTo {
			want = outcome.Completed
		}
		e.is(id, want)
	}
	if n := len(e.texts(`SELECT actor_id FROM audit_log WHERE action = 'checkout.payment_assigned'`)); n != 1 {
		t.Errorf("got %d audit rows of the assignment, want one", n)
	}
}

// A final block that names a checkout gives it what a recent block gave to none, unless a person was first.
// Rule CO-104.
func TestAReferenceThatIsFoundLaterIsMatched(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), solanaDollars)
	second := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
	replace := func() {
		net := e.nets[chain.Solana]
		moved := net.BlockAt(net.Latest().Height).Transfers[0]
		net.Fork(1, moved.Tx)
		net.ResubmitTx(moved.Tx, payer, sim.Move{
			Contract: solanaToken, To: moved.To, Amount: moved.Amount,
			References: []chain.Address{e.referenceOf(first)},
		})
		net.Mine(2)
		e.turn()
	}
	e.payShared(100 * million)
	replace()
	depositID := e.newest(nil)
	e.is(first, outcome.Open)
	e.finalize()
	e.is(first, outcome.Completed)
	e.wantStable(first)
	_, err := e.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, second, person)
	e.wantFault(err, fault.InvalidState)
	if u := e.assign(depositID, first); u.AssignedBy != "SYSTEM checkout" {
		t.Errorf("got %+v, want that the block assigned it", u)
	}

	// A person and the final block at the same moment: one of them is first, and the other changes nothing.
	for range 3 {
		e.payShared(100 * million)
		replace()
		depositID := e.newest(nil)
		e.mine(finality)
		errs := e.atOnce(2, func(s *service.Service, i int) error {
			if i == 0 {
				e.walk()
				return nil
			}
			_, err := s.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, second, person)
			return err
		})
		e.turn()
		u, err := e.Checkouts.UnmatchedByID(e.ctx, e.org, depositID)
		e.must(err)
		want := map[string]string{first: "SYSTEM checkout", second: "USER usr_ann"}[u.AssignedTo]
		if want == "" || u.AssignedBy != want || (errs[1] == nil) != (u.AssignedTo == second) {
			t.Errorf("got %+v and %v", u, errs[1])
		}
	}
	e.wantStable(first)
	e.wantStable(second)
}

// What a final block takes from a checkout goes to no other one. A person may leave it there. Rules CO-102 and CO-105.
func TestAPaymentDoesNotGoToAnotherCheckout(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), solanaDollars)
	second := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
	e.payShared(100*million, e.referenceOf(first))
	net := e.nets[chain.Solana]
	moved := net.BlockAt(net.Latest().Height).Transfers[0]
	net.Fork(1, moved.Tx)
	net.ResubmitTx(moved.Tx, payer, sim.Move{
		Contract: solanaToken, To: moved.To, Amount: moved.Amount, References: []chain.Address{e.referenceOf(second)},
	})
	net.Mine(2)
	e.turn()
	e.finalize()
	depositID := e.newest(nil)
	_, err := e.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, second, person)
	if f := e.wantFault(err, fault.InvalidState); f.Details["checkoutId"] != first {
		t.Errorf("got the details %v, want the checkout %s", f.Details, first)
	}
	_, _, _, err = e.Checkouts.RefundUnmatched(e.ctx, e.org,
		checkout.UnmatchedRefund{DepositID: depositID, Actor: person})
	e.wantFault(err, fault.InvalidState)
	e.assign(depositID, first)
	e.is(first, outcome.Completed)
	e.wantStable(first)
}

// A restored database knows the options of its checkouts that were opened after the backup: their references follow
// from what it has. Rule CO-106.
func TestARestoredDatabaseKnowsTheReferencesOfItsCheckouts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	known := e.checkout(request(productID), dollars) // paid in another way when the backup is made
	backup := pgtest.CopyDatabase(t, e.database)
	_, err := e.Checkouts.OpenOption(e.ctx, e.org, known, solanaDollars)
	e.must(err)
	lost := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
	reference, lostReference, shared := e.referenceOf(known), e.referenceOf(lost), e.sharedAddress()
	for _, named := range []chain.Address{reference, lostReference} {
		e.nets[chain.Solana].SubmitTx(payer, sim.Move{
			Contract: solanaToken, To: shared, Amount: money.Units(100 * million),
			References: []chain.Address{named},
		})
		e.mine(1)
	}
	e.restore(backup)
	if e.referenceOf(known) != reference {
		t.Errorf("got the reference %s, want %s", e.referenceOf(known), reference)
	}
	e.must(e.Checkouts.RestoreOptions(e.ctx, time.Time{})) // again
	e.turn()
	e.finalize()
	e.is(known, outcome.Completed)
	if got := e.describeAll(known); !slices.Equal(got, []string{"CREDITED 100 by market"}) {
		t.Errorf("got %q, want one payment at the price of the market", got)
	}
	// Of the other one the database knows nothing.
	if found := e.unmatched(); len(found) != 1 || found[0].Reason != checkout.NoReference {
		t.Errorf("got %+v, want one payment without a known reference", found)
	}
	e.wantStable(known)
}

// An unmatched payment that is given back has a checkout of its own, which no one sold. Rule CO-105.
func TestAnUnmatchedPaymentIsRefundedAsAWhole(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.checkout(request(e.product()), solanaDollars)
	depositID := e.stray(100 * million)
	asked := checkout.UnmatchedRefund{
		DepositID: depositID, ToAddress: new("nowhere"), IdempotencyKey: new("back"), Actor: person,
	}
	before := e.snapshot()
	_, _, _, err := e.Checkouts.RefundUnmatched(e.ctx, e.org, asked)
	e.wantFault(err, fault.InvalidAddress)
	_, _, _, err = e.Checkouts.RefundUnmatched(e.ctx, e.other, asked)
	e.wantFault(err, fault.CodeNotFound)
	if after := e.snapshot(); after != before {
		t.Errorf("what was refused changed%s", compare(before, after))
	}
	asked.ToAddress = nil
	refund, key, isReplayed, err := e.Checkouts.RefundUnmatched(e.ctx, e.org, asked)
	if e.must(err); isReplayed || key == "" || refund.Amount != money.Units(100*million) {
		t.Fatalf("got %+v with the key %q, replayed %v, want a new refund of all with a key", refund, key, isReplayed)
	}
	e.turn()
	c := e.is(refund.CheckoutID, outcome.Cancelled, outcome.PaidLate)
	if c.Metadata["unmatchedDepositId"] != depositID || c.Currency != "USDC" || c.AmountDue.Text() != "100" ||
		len(c.Payments) != 1 || c.Payments[0].DepositID != depositID || c.Payments[0].Counts {
		t.Errorf("got %+v, want a cancelled checkout with this payment, which does not count", c)
	}
	e.wantStable(refund.CheckoutID)
	if n := len(e.texts(`SELECT type FROM events WHERE resource_id = $1 AND type <> 'CHECKOUT_EXCEPTION'`,
		refund.CheckoutID)); n != 0 {
		t.Errorf("got %d events of a sale, want none", n)
	}
	again, _, isReplayed, err := e.Checkouts.RefundUnmatched(e.ctx, e.org, asked)
	if e.must(err); !isReplayed || again.ID != refund.ID {
		t.Errorf("the same key: got %s, replayed %v, want %s again", again.ID, isReplayed, refund.ID)
	}
	asked.IdempotencyKey = nil
	_, _, _, err = e.Checkouts.RefundUnmatched(e.ctx, e.org, asked)
	e.wantFault(err, fault.RefundExceedsPayment)
	// It was taken back, and is given back again at the same checkout.
	_, err = e.Checkouts.CancelRefund(e.ctx, e.org, refund.ID, person)
	e.must(err)
	third, _, _, err := e.Checkouts.RefundUnmatched(e.ctx, e.org, asked)
	if e.must(err); third.CheckoutID != refund.CheckoutID {
		t.Errorf("got the checkout %s, want %s", third.CheckoutID, refund.CheckoutID)
	}
	// Of an assigned payment the checkout decides.
	other := e.checkout(request(e.product(), otherOf("key-2")), dollars)
	assigned := e.stray(70 * million)
	e.assign(assigned, other)
	_, _, _, err = e.Checkouts.RefundUnmatched(e.ctx, e.org,
		checkout.UnmatchedRefund{DepositID: assigned, Actor: person})
	e.wantFault(err, fault.InvalidState)
}

// Payments at the address of a checkout that the database lacks have one checkout, and each payer gets the own payment
// alone. Rule CO-105.
func TestARefundOfAnUnmatchedPaymentTakesNoOther(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	backup := pgtest.CopyDatabase(t, e.database)
	lost := e.usual()
	e.mine(5)
	e.pay(lost, dollars, 100*million)
	e.pay(lost, dollars, 30*million)
	e.mine(1 + finality)
	e.restore(backup)
	e.turn()
	found := e.unmatched()
	if len(found) != 2 || found[0].Reason != checkout.NoCheckout || found[1].Reason != checkout.NoCheckout {
		t.Fatalf("got %+v, want two payments without a checkout", found)
	}
	refund := func(u checkout.Unmatched) checkout.Refund {
		e.Helper()
		r, _, _, err := e.Checkouts.RefundUnmatched(e.ctx, e.org, checkout.UnmatchedRefund{
			DepositID: u.DepositID, Actor: person,
		})
		e.must(err)
		if len(r.Parts) != 1 || r.Parts[0].DepositID != u.DepositID || r.Amount != u.Amount {
			t.Fatalf("got a refund of %s with %+v, want %s of %s", r.Amount, r.Parts, u.Amount, u.DepositID)
		}
		e.turn()
		return r
	}
	first := refund(found[0])
	_, err := e.Checkouts.CancelRefund(e.ctx, e.org, first.ID, person)
	e.must(err)
	second := refund(found[1])
	refund(found[0])
	differs, err := e.Checkouts.DiffersUnmatched(e.ctx, e.org, second, checkout.UnmatchedRefund{
		DepositID: found[0].DepositID, Actor: person,
	})
	if e.must(err); !differs {
		t.Error("the refund of another payment counts as the same request")
	}
	e.wantStable(lost)
}

// Concurrent refunds of one unmatched payment take it once. Rule CO-105.
func TestAnUnmatchedPaymentIsRefundedOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.checkout(request(e.product()), solanaDollars)
	depositID := e.stray(100 * million)
	errs := e.atOnce(6, func(s *service.Service, _ int) error {
		_, _, _, err := s.Checkouts.RefundUnmatched(e.ctx, e.org, checkout.UnmatchedRefund{
			DepositID: depositID, Actor: person,
		})
		return err
	})
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if !fault.HasCode(err, fault.RefundExceedsPayment) {
			t.Errorf("got %v, want REFUND_EXCEEDS_PAYMENT", err)
		}
	}
	if made != 1 {
		t.Errorf("got %d refunds, want one", made)
	}
	e.turn()
}

// The tables let an unmatched payment become that of the checkout to which it is assigned, once, and nothing else. Rule
// CO-102.
func TestTheTablesKeepTheRulesOfAssignments(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), solanaDollars)
	second := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
	theirs, _, err := e.Checkouts.CreateCheckout(e.ctx, e.other, checkout.CheckoutRequest{
		AdHoc: &checkout.AdHocItem{Name: "Theirs", Price: "100", Currency: "USD"}, Actor: person,
	})
	e.must(err)
	open := e.stray(100 * million)
	done := e.stray(100 * million)
	e.assign(done, first)
	before := e.snapshot()
	assignTo := func(checkoutID, by string) string {
		return `UPDATE checkout_unmatched SET assigned_to = '` + checkoutID + `', assigned_by = '` + by +
			`', assigned_at = now() WHERE deposit_id = $1`
	}
	pay := func(checkoutID string) string {
		return `INSERT INTO checkout_payments (deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time,
				seen_at, was_live, status, try_at)
			SELECT deposit_id, org_id, '` + checkoutID + `', mint_id, chain, amount, created_at, created_at, false,
				'CREDITED', now() FROM deposits WHERE deposit_id = $1`
	}
	for _, c := range []struct {
		name, constraint, id string
		sql                  []string
	}{
		{"assigned without a payment", "checkout_unmatched_paid", open, []string{assignTo(first, "USER a")}},
		{"a payment without an assignment", "checkout_unmatched_paid", open, []string{pay(first)}},
		{"the payment of another checkout", "checkout_unmatched_paid", open, []string{
			pay(second), assignTo(first, "USER a"),
		}},
		{"assigned to another organization's", "checkout_unmatched_checkout", open, []string{
			pay(second), assignTo(theirs.ID, "USER a"),
		}},
		{"assigned by no one", "checkout_unmatched_assigned", open, []string{assignTo(first, "")}},
		{"assigned without a time", "checkout_unmatched_assigned", open, []string{
			`UPDATE checkout_unmatched SET assigned_to = '` + first + `' WHERE deposit_id = $1`,
		}},
		{"assigned again", "checkout_unmatched_assigned_once", done, []string{assignTo(second, "USER a")}},
		{"unmatched again", "checkout_unmatched_assigned_once", done, []string{
			`UPDATE checkout_unmatched SET assigned_to = NULL, assigned_by = NULL, assigned_at = NULL
			WHERE deposit_id = $1`,
		}},
		{"another amount", "checkout_unmatched_append_only", open, []string{
			`UPDATE checkout_unmatched SET amount = 1 WHERE deposit_id = $1`,
		}},
		{"another sight", "checkout_unmatched_append_only", open, []string{
			`UPDATE checkout_unmatched SET block_time = now(), was_live = true WHERE deposit_id = $1`,
		}},
		{"no row any more", "checkout_unmatched_append_only", open, []string{
			`DELETE FROM checkout_unmatched WHERE deposit_id = $1`,
		}},
	} {
		tx, err := pgtest.OwnerPool(t, e.db).Begin(e.ctx)
		e.must(err)
		for _, sql := range c.sql {
			if _, err = tx.Exec(e.ctx, sql, c.id); err != nil {
				break
			}
		}
		if err == nil {
			err = tx.Commit(e.ctx)
		} else {
			e.must(tx.Rollback(e.ctx))
		}
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.constraint)
		}
	}
	if after := e.snapshot(); after != before {
		t.Errorf("the attacks changed%s", compare(before, after))
	}
}
