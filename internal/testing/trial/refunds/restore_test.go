package refunds

import (
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// on returns the environment with an older database, which the signer's journal has completed.
func (e *testEnv) on(backup pgtest.Database) *testEnv {
	e.Helper()
	e.db.Close()
	r := &testEnv{
		T: e.T, ctx: e.ctx, net: e.net, now: e.clock(), grants: e.grants, signer: e.signer, attest: e.attest,
		org: e.org, database: backup,
	}
	r.db = pgtest.Open(e, backup, r.clock)
	r.Harness = r.open(r.db)
	_, err := journal.RestoreDatabase(r.ctx, r.db, r.signer, r.Wallets, r.NewRestorer(audit.Operator("op")), false)
	r.must(err)
	r.must(journal.Check(r.ctx, r.db, r.signer, r.Wallets))
	r.look()
	return r
}

// A backup that lacks the payment of a refund, its claim or the refund itself pays nothing twice. Rule CO-85.
func TestARestoredBackupPaysNoRefundTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		early func(e *testEnv, id string) (checkout.Refund, string) // before the backup
		late  func(e *testEnv, id string, r checkout.Refund, key string) checkout.Refund
	}{
		"it lacks the payment": {
			func(e *testEnv, id string) (checkout.Refund, string) { return e.refund(request(id, to(home))) }, nil,
		},
		"it lacks the claim": {
			func(e *testEnv, id string) (checkout.Refund, string) { return e.refund(request(id)) },
			func(e *testEnv, _ string, r checkout.Refund, key string) checkout.Refund {
				r, err := e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{
					RefundID: r.ID, Key: key, Address: string(home),
				})
				e.must(err)
				return r
			},
		},
		"it lacks a claim that failed as well": {
			func(e *testEnv, id string) (checkout.Refund, string) { return e.refund(request(id)) },
			func(e *testEnv, _ string, r checkout.Refund, key string) checkout.Refund {
				claim := checkout.RefundClaim{RefundID: r.ID, Key: key, Address: string(second)}
				_, err := e.Checkouts.ClaimRefund(e.ctx, claim)
				e.must(err)
				for range 20 {
					if e.turn(); len(e.texts(`SELECT status FROM withdrawals WHERE status = 'BROADCAST'`)) > 0 {
						break
					}
					e.net.Mine(1)
					e.advance(blockTime)
				}
				e.net.RefuseTransfers(signertest.Token, second, "the contract refuses it")
				e.until(r.ID, checkout.RefundAwaitingAddress)
				claim.Address = string(home)
				r, err = e.Checkouts.ClaimRefund(e.ctx, claim)
				e.must(err)
				return r
			},
		},
		"it lacks the refund": {
			nil,
			func(e *testEnv, id string, _ checkout.Refund, _ string) checkout.Refund {
				r, _ := e.refund(request(id, to(home)))
				return r
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.paid(100 * million)
			var r checkout.Refund
			var key string
			if c.early != nil {
				r, key = c.early(e, id)
			}
			backup := pgtest.CopyDatabase(t, e.database)
			if c.late != nil {
				r = c.late(e, id, r, key)
			}
			e.until(r.ID, checkout.RefundCompleted)
			e.has(home, dollars, 100*million)

			restored := e.on(backup)
			restored.pass(8)
			if c.early != nil {
				restored.until(r.ID, checkout.RefundCompleted)
				_, err := restored.Checkouts.ClaimableRefund(restored.ctx, r.ID, "AAAAAAAAAAAAAAAAAAAAAA")
				restored.wantFault(err, fault.CodeNotFound)
			}
			restored.books(dollars, 0, 0)
			_, _, _, err := restored.Checkouts.RequestRefund(restored.ctx, restored.org, request(id))
			if !fault.HasCode(err, fault.RefundExceedsPayment) && !fault.HasCode(err, fault.InsufficientBalance) {
				t.Errorf("got %v, want no second refund", err)
			}
			restored.pass(4)
			restored.has(home, dollars, 100*million)
			restored.has(second, dollars, 0)
		})
	}
}

// A backup lacks the checkout of a payment. The payment is given back as a whole, or at the checkout to which a person
// assigns it, which had no address before: the signer pays both. Rules CO-86, CO-102 and CO-105.
func TestAnUnmatchedPaymentIsPaidBack(t *testing.T) {
	t.Parallel()
	for name, refund := range map[string]func(e *testEnv, depositID string) checkout.Refund{
		"as a whole": func(e *testEnv, depositID string) checkout.Refund {
			r, key, _, err := e.Checkouts.RefundUnmatched(e.ctx, e.org, checkout.UnmatchedRefund{
				DepositID: depositID, ToAddress: new(string(home)), Actor: audit.APIKey("key"),
			})
			if e.must(err); key != "" || r.CheckoutID == "" {
				e.Errorf("got %+v with the key %q, want a refund of a checkout without a key", r, key)
			}
			return r
		},
		"at another checkout": func(e *testEnv, depositID string) checkout.Refund {
			c, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, checkout.CheckoutRequest{
				AdHoc:           &checkout.AdHocItem{Name: "Gold plan", Price: "200", Currency: "USD"},
				AcceptedMintIDs: []int{dollars}, Actor: audit.APIKey(e.org),
			})
			e.must(err)
			_, err = e.Checkouts.AssignUnmatched(e.ctx, e.org, depositID, c.ID, audit.APIKey("key"))
			e.must(err)
			e.turn()
			r, _ := e.refund(request(c.ID, to(home)))
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			backup := pgtest.CopyDatabase(t, e.database)
			id := e.newCheckout()
			c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
			e.must(err)
			e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 100*million)
			r := e.on(backup)
			r.pass(8)
			found, err := r.Checkouts.ListUnmatched(r.ctx, r.org, checkout.UnmatchedFilter{}, pagination.Page{Limit: 2})
			if r.must(err); len(found.Items) != 1 || found.Items[0].Reason != checkout.NoCheckout {
				t.Fatalf("got %+v, want one payment without a checkout", found.Items)
			}
			given := refund(r, found.Items[0].DepositID)
			if isOwn := given.CheckoutID == id; isOwn != (name == "as a whole") {
				t.Errorf("got a refund of %s, and the address is that of %s", given.CheckoutID, id)
			}
			r.until(given.ID, checkout.RefundCompleted)
			r.has(home, dollars, 100*million)
			r.books(dollars, 0, 0)
			missed := outcome.Underpaid
			if name == "as a whole" {
				missed = outcome.PaidLate
			}
			r.exceptions(given.CheckoutID, missed, outcome.Refunded)
		})
	}
}
