package checkouts

import (
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

func otherOf(key string) func(*checkout.CheckoutRequest) {
	return func(r *checkout.CheckoutRequest) { r.IdempotencyKey = &key }
}

// Rule CO-4.
func TestOneReferenceHasOneOpenCheckout(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product(oncePerReference)
	first := e.checkout(request(productID), dollars)
	_, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, request(productID, otherOf("key-2")))
	if f := e.wantFault(err, fault.ReferencePaid); f.Extra["existingId"] != first {
		t.Errorf("got the checkout %v, want %s", f.Extra["existingId"], first)
	}
	// The same key is the same checkout, and no conflict.
	again, isReplayed, err := e.Checkouts.CreateCheckout(e.ctx, e.org, request(productID))
	if e.must(err); !isReplayed || again.ID != first {
		t.Errorf("got %s, replayed %v, want %s again", again.ID, isReplayed, first)
	}
	e.pass(32 * time.Minute)
	e.is(first, outcome.Expired)
	second := e.checkout(request(productID, otherOf("key-2")), dollars)
	// A late payment of the first one completes nothing while the second one is open.
	e.paid(first, dollars, 100*million)
	e.is(first, outcome.Expired, outcome.PaidLate)
	e.wantStable(first)
	_, err = e.Checkouts.AcceptCheckout(e.ctx, e.org, first, "late", audit.Operator("ann"))
	e.wantFault(err, fault.ReferencePaid)
	_, err = e.Checkouts.CancelCheckout(e.ctx, e.org, second, audit.Operator("ann"))
	e.must(err)
	_, err = e.Checkouts.AcceptCheckout(e.ctx, e.org, first, "late", audit.Operator("ann"))
	e.must(err)
	e.is(first, outcome.Completed, outcome.PaidLate)
	_, _, err = e.Checkouts.CreateCheckout(e.ctx, e.org, request(productID, otherOf("key-3")))
	e.wantFault(err, fault.ReferencePaid)
	e.wantStable(first)
}

// A payment in time that is noticed late may find the reference taken. It is never without an exception then.
// Rule CO-4.
func TestAPaymentOfATakenReferenceIsShownToAPerson(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product(oncePerReference)
	first := e.checkout(request(productID), dollars)
	e.stopped[chain.Base] = true
	e.pay(first, baseDollars, 100*million)
	e.mine(1)
	e.pass(32 * time.Minute)
	e.is(first, outcome.Expired)
	e.checkout(request(productID, otherOf("key-2")), dollars)
	e.stopped[chain.Base] = false
	e.turn()
	e.finalize()
	e.is(first, outcome.Expired, outcome.PaidLate)
	e.wantStable(first)
}

// payShared pays the shared address of Solana, and names accounts.
func (e *testEnv) payShared(units uint64, references ...chain.Address) {
	e.Helper()
	shared := e.texts(`SELECT address FROM wallets WHERE purpose = 'CHECKOUT_SHARED' AND org_id = $1`, e.org)
	if len(shared) != 1 {
		e.Fatalf("got %d shared addresses, want one", len(shared))
	}
	e.nets[chain.Solana].SubmitTx(payer, sim.Move{
		Contract: solanaToken, To: chain.Address(shared[0]), Amount: money.Units(units), References: references,
	})
	e.block()
}

func (e *testEnv) referenceOf(checkoutID string) chain.Address {
	e.Helper()
	return chain.Address(payuri.ReferenceText([32]byte(e.option(checkoutID, solanaDollars).Ref)))
}

// Rules CO-8 and CO-11.
func TestAPaymentToTheSharedAddressIsMatchedByItsReference(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), solanaDollars)
	second := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
	program := sim.SolanaAddress("a program")
	e.payShared(100*million, program, e.referenceOf(first))
	e.is(first, outcome.Processing)
	e.finalize()
	e.payShared(100 * million)
	e.payShared(100*million, program)
	e.payShared(100*million, e.referenceOf(first), e.referenceOf(second))
	e.finalize()
	e.is(second, outcome.Open)
	e.ends(first, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: paidEvents, actions: paidActions, books: map[int]int64{solanaDollars: 400 * million},
	})
	for reason, want := range map[string]int{"NO_REFERENCE": 2, "SEVERAL_REFERENCES": 1} {
		if n := len(e.texts(`SELECT deposit_id FROM checkout_unmatched WHERE reason = $1 AND org_id = $2`, reason,
			e.org)); n != want {
			t.Errorf("got %d unmatched for %s, want %d", n, reason, want)
		}
	}
	// Two references of one checkout name one checkout.
	e.payShared(100*million, e.referenceOf(second), e.referenceOf(second))
	e.finalize()
	e.is(second, outcome.Completed)
	e.wantStable(second)
}

// One provider shows a recent block. If its final block names another checkout, the payment counts for neither. Rule
// CO-11.
func TestAPaymentThatItsFinalBlockGivesToAnotherCountsForNeither(t *testing.T) {
	t.Parallel()
	for name, references := range map[string]func(e *testEnv, second string) []chain.Address{
		"another": func(e *testEnv, second string) []chain.Address {
			return []chain.Address{e.referenceOf(second)}
		},
		"none": func(*testEnv, string) []chain.Address { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			productID := e.product()
			first := e.checkout(request(productID), solanaDollars)
			second := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
			e.payShared(100*million, e.referenceOf(first))
			e.is(first, outcome.Processing)
			net := e.nets[chain.Solana]
			moved := net.BlockAt(net.Latest().Height).Transfers[0]
			net.Fork(1, moved.Tx)
			net.ResubmitTx(moved.Tx, payer, sim.Move{
				Contract: solanaToken, To: moved.To, Amount: moved.Amount, References: references(e, second),
			})
			net.Mine(2)
			e.turn()
			e.is(first, outcome.Processing)
			e.finalize()
			e.is(second, outcome.Open)
			e.ends(first, ending{
				status: outcome.Open, seen: "0", counted: "0",
				payments: []string{"ORPHANED 100 by quote 1 not counted"}, events: []string{"PROCESSING"},
				actions: []string{"changed OPEN PROCESSING", "changed PROCESSING OPEN"},
				books:   map[int]int64{solanaDollars: 100 * million},
			})
			found := e.texts(`SELECT reason FROM checkout_unmatched`)
			if len(found) != 1 || found[0] != "OTHER_REFERENCE" {
				t.Errorf("got the unmatched %q, want one of OTHER_REFERENCE", found)
			}
		})
	}
}

// The address of its own takes what an exchange sends, and another organization's reference names nothing.
func TestOnSolanaACheckoutAlsoHasAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.checkout(request(e.product()), solanaDollars)
	foreign := chain.Address(payuri.ReferenceText(payuri.Reference(e.other, id, solanaDollars)))
	e.payShared(million, foreign)
	e.finalize()
	if n := len(e.texts(`SELECT deposit_id FROM checkout_unmatched WHERE reason = 'NO_REFERENCE'`)); n != 1 {
		t.Errorf("got %d unmatched, want one", n)
	}
	e.paid(id, solanaDollars, 100*million)
	e.is(id, outcome.Completed)
	e.wantStable(id)
}

// A database that was restored from a backup lacks the checkout. Its wallet comes back from the journal of the signer,
// and what arrives is credited and waits for a person. Rule CO-10.
func TestARestoredDatabaseWithoutTheCheckoutCreditsWhatArrives(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	backup := pgtest.CopyDatabase(t, e.database)
	id := e.usual()
	e.pay(id, dollars, 100*million)
	e.mine(1 + finality)
	e.db = pgtest.Open(t, backup, e.clock)
	e.Service = e.open(e.db)
	e.must(journal.Import(e.ctx, e.db, e.signer, e.Wallets))
	e.turn()
	found := e.texts(`SELECT u.reason || ' ' || u.checkout_id || ' ' || d.status FROM checkout_unmatched u
		JOIN deposits d USING (deposit_id)`)
	if len(found) != 1 || found[0] != "NO_CHECKOUT "+id+" CREDITED" {
		t.Errorf("got %q, want one credit that is unmatched for want of its checkout", found)
	}
	e.wantBooks(paidBooks)
	// What arrives there later is unmatched, too, flagged or not.
	e.nets[chain.Ethereum].Pay(payer, e.address(id, chain.EVM), signertest.Token, million)
	e.block()
	e.finalize()
	e.wantBooks(map[int]int64{dollars: 101 * million})
}

// A payer who asks where a payment is hears of this checkout alone, and asking changes nothing. Rule CO-18.
func TestAPayerHearsWhereAPaymentIs(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), dollars)
	second := e.checkout(request(productID, otherOf("key-2")), dollars)
	hash := e.pay(first, dollars, 100*million)
	e.mine(1)
	before := e.snapshot()
	locate := func(checkoutID, text string) checkout.Located {
		t.Helper()
		found, err := e.Checkouts.LocatePayment(e.ctx, checkoutID, text)
		e.must(err)
		return found
	}
	if got := locate(first, string(hash)); !got.IsComing || got.Chain != chain.Ethereum || got.Payment != nil {
		t.Errorf("before the walk: got %+v, want that it is coming on Ethereum", got)
	}
	if got := locate(second, string(hash)); got.IsComing || got.Payment != nil {
		t.Errorf("another checkout: got %+v, want that it is of something else", got)
	}
	if got := locate(first, strings.Repeat("ab", 32)); got.Chain != "" || got.IsComing || got.Payment != nil {
		t.Errorf("an absent hash: got %+v, want nothing", got)
	}
	_, err := e.Checkouts.LocatePayment(e.ctx, first, "my payment")
	e.wantFault(err, fault.InvalidRequest)
	_, err = e.Checkouts.LocatePayment(e.ctx, "co_absent", string(hash))
	e.wantFault(err, fault.CodeNotFound)
	if after := e.snapshot(); after != before {
		t.Errorf("asking changed%s", compare(before, after))
	}
	e.turn()
	if got := locate(first, string(hash)); got.Payment == nil || got.Payment.Counted.Text() != "100" {
		t.Errorf("after the walk: got %+v, want the payment", got)
	}
	if got := locate(second, string(hash)); got.IsComing || got.Payment != nil {
		t.Errorf("another checkout after the walk: got %+v, want that it is of something else", got)
	}
}

// The same for a payment to the shared address, which names its checkout. Rule CO-18.
func TestAPayerHearsWhereAPaymentToTheSharedAddressIs(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	first := e.checkout(request(productID), solanaDollars)
	second := e.checkout(request(productID, otherOf("key-2")), solanaDollars)
	e.stopped[chain.Solana] = true
	e.payShared(100*million, e.referenceOf(first))
	net := e.nets[chain.Solana]
	hash := string(net.BlockAt(net.Latest().Height).Transfers[0].Tx)
	for id, isComing := range map[string]bool{first: true, second: false} {
		got, err := e.Checkouts.LocatePayment(e.ctx, id, hash)
		if e.must(err); got.IsComing != isComing || got.Chain != chain.Solana {
			t.Errorf("got %+v, want one on Solana that is coming: %v", got, isComing)
		}
	}
}
