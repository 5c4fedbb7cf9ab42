package deposit_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

const checkoutID = "co_1"

var (
	till       = sim.Address("the address of one checkout")
	sharedTill = sim.Address("the address that checkouts share")
)

// addTills makes the wallet of one checkout and the one that checkouts share. From now on what their owners hear is
// noted.
func (w *testEnv) addTills(t *testing.T) *[]deposit.Update {
	t.Helper()
	w.addWallet(t, "adr_till", wallet.Checkout, checkoutID, till)
	w.addWallet(t, "adr_shared", wallet.CheckoutShared, "CHECKOUT", sharedTill)
	noted := new([]deposit.Update)
	registered := owners()
	registered[wallet.Checkout] = notedPayments{noted: noted}
	registered[wallet.CheckoutShared] = notedPayments{deposit.CheckoutOwner{IsShared: true}, noted}
	w.service.Owners = deposit.NewOwners(registered)
	return noted
}

// addWallet makes a wallet with the signer's statement.
func (w *testEnv) addWallet(t *testing.T, id, purpose, subject string, address chain.Address) {
	t.Helper()
	ref := signer.WalletRef{OrgID: w.org, Family: chain.EVM, Purpose: purpose, Subject: subject}
	_, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
		VALUES ($1, $2, 'EVM', $3, $4, 'm/1', $5, $6, now())`, id, w.org, purpose, subject, address,
		ed25519.Sign(w.attest, signer.AttestedBytes(ref, "m/1", address)))
	if err != nil {
		t.Fatalf("insert a wallet: %v", err)
	}
}

// wantHeard checks what the owners of checkouts heard since the last time.
func (w *testEnv) wantHeard(t *testing.T, noted *[]deposit.Update, want ...string) {
	t.Helper()
	var got []string
	for _, u := range *noted {
		text := fmt.Sprintf("%s %s>%s %v", u.Subject, u.From, u.To, u.Amount)
		if !u.BlockTime.IsZero() {
			text += " in a block"
		}
		got = append(got, text)
	}
	*noted = nil
	if !slices.Equal(got, want) {
		t.Errorf("the owners heard:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (w *testEnv) wantNoEvent(t *testing.T) {
	t.Helper()
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("got %d events, want none", n)
	}
}

// A transaction that pays a checkout, a product and a customer locks in the order of docs/design/locks.md, in which the
// payments of checkouts are behind the rows of all other owners: also of those whose words come later.
func TestTheOwnersHearInTheOrderOfTheirLocks(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	noted := w.addTills(t)
	shop := sim.Address("the address of a product")
	w.addWallet(t, "adr_shop", wallet.OrganizationDeposit, "CUSTODIAL", shop)
	var heard []string
	registered := owners()
	registered[wallet.CustomerDeposit] = notedCustomers{heard: &heard}
	registered[wallet.OrganizationDeposit] = notedProducts{heard: &heard}
	registered[wallet.Checkout] = tillAfter{notedPayments{noted: noted}, &heard}
	w.service.Owners = deposit.NewOwners(registered)
	w.c.SubmitTx(payer, moveTo(till, 300), moveTo(shop, 70), moveTo(alice, 50))
	w.c.Mine(1)
	w.walkBlocks(t)
	want := []string{">CONFIRMING alice", "CONFIRMING CUSTODIAL", "CONFIRMING co_1"}
	if !slices.Equal(heard, want) {
		t.Errorf("got %v, want %v", heard, want)
	}
}

// notedProducts notes when the owner of products hears of an arrival, among the other owners.
type notedProducts struct {
	deposit.ProductOwner
	heard *[]string
}

func (o notedProducts) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	for _, u := range updates {
		*o.heard = append(*o.heard, string(u.To)+" "+u.Subject)
	}
	return o.ProductOwner.OnUpdates(ctx, tx, updates)
}

// A final block that credits a customer orphans the payment of a checkout before it posts: the order of
// docs/design/locks.md, in which balances are behind the rows of all owners.
func TestACheckoutHearsOfAnOrphanBeforeTheBlockIsPosted(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	noted := w.addTills(t)
	var postings []int
	registered := owners()
	registered[wallet.Checkout] = tillAndPostings{notedPayments{noted: noted}, &postings}
	w.service.Owners = deposit.NewOwners(registered)
	hash := w.c.Pay(payer, till, usdcAt, 100)
	w.c.Mine(1)
	w.walkBlocks(t)
	w.c.Fork(1, hash)
	w.c.Pay(payer, alice, usdcAt, 50)
	w.c.Mine(8)
	w.walkFinal(t) // the head walk did not run meanwhile
	w.wantHeard(t, noted, "co_1 >CONFIRMING 100 in a block", "co_1 CONFIRMING>ORPHANED 100")
	if want := []int{0, 0}; !slices.Equal(postings, want) {
		t.Errorf("the ledger had %v rows when the checkout heard, want %v", postings, want)
	}
	w.wantCredited(t, usdc, 50, 1)
}

// tillAndPostings also notes how many rows the ledger has when it hears of arrivals.
type tillAndPostings struct {
	notedPayments
	postings *[]int
}

func (o tillAndPostings) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	var n int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM ledger_transfers`).Scan(&n); err != nil {
		return fmt.Errorf("count postings: %w", err)
	}
	*o.postings = append(*o.postings, n)
	return o.notedPayments.OnUpdates(ctx, tx, updates)
}

// tillAfter also notes when it hears of an arrival, among the other owners.
type tillAfter struct {
	notedPayments
	heard *[]string
}

func (o tillAfter) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	for _, u := range updates {
		*o.heard = append(*o.heard, string(u.To)+" "+u.Subject)
	}
	return o.notedPayments.OnUpdates(ctx, tx, updates)
}

// Rule DEP-56.
func TestWhatReachesACheckoutIsTheProductsAndTheCheckoutHearsOfIt(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	noted := w.addTills(t)
	w.c.SubmitTx(payer, moveTo(till, 300), moveTo(till, 3), moveTo(sharedTill, 50))
	w.c.Mine(1)
	w.walkBlocks(t)
	seen := slices.Clone(*noted)
	w.wantHeard(t, noted, "co_1 >CONFIRMING 300 in a block", "CHECKOUT >CONFIRMING 50 in a block")
	for i, want := range []struct {
		checkoutID string
		address    chain.Address
	}{{checkoutID, till}, {"", sharedTill}} {
		if got := seen[i]; got.CheckoutID != want.checkoutID || got.Address != want.address ||
			got.Chain != chain.Ethereum || got.OrgID != w.org || got.MintID == nil || *got.MintID != usdc ||
			!got.BlockTime.Equal(w.c.BlockAt(1).Time) {
			t.Errorf("got %+v, want %+v with the time of its block", got, want)
		}
	}
	w.c.Mine(3)
	w.walkBlocks(t)
	w.wantHeard(t, noted, "co_1 CONFIRMING>CREDITED 300 in a block", "co_1 >BELOW_MINIMUM 3 in a block",
		"CHECKOUT CONFIRMING>CREDITED 50 in a block")
	if got := w.loadBalance(t, ledger.Product, "CHECKOUT", usdc); got != money.Units(350) {
		t.Errorf("CHECKOUT: got %v, want 350", got)
	}
	if f := w.loadFunds(t, "adr_till", usdc); f.Credited != money.Units(300) || f.Dust != money.Units(3) {
		t.Errorf("on the address: got %+v, want 300 and 3 of dust", f)
	}
	for _, d := range w.listDeposits(t, deposit.Filter{Product: "CHECKOUT", Status: "CREDITED"}) {
		isOwn := d.Address == string(till)
		if d.Source != "CHECKOUT" || d.CustomerID != nil || isOwn != (d.CheckoutID != nil) ||
			isOwn && *d.CheckoutID != checkoutID {
			t.Errorf("got %+v, want a deposit with source CHECKOUT, and the checkout whose address it is", d)
		}
	}
	w.wantNoEvent(t)
	w.checkBooks(t)
}

// Rule DEP-56: a credit that comes after the block names no time of a block.
func TestACheckoutHearsOfACreditAfterTheBlock(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	noted := w.addTills(t)
	w.c.Pay(payer, till, usdcAt, 100)
	w.c.Mine(4)
	w.wantWaiting(t)
	w.wantHeard(t, noted, "co_1 >SCREENING 100 in a block")
	w.creditAll(t)
	w.wantHeard(t, noted, "co_1 SCREENING>CREDITED 100")
	w.wantNoEvent(t)
}

// Rule DEP-56.
func TestACheckoutHearsOfAFlaggedPaymentAndOfItsDecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decide func(t *testing.T, w *testEnv, id string) error
		want   []string
		left   uint64
	}{
		"approved": {
			func(t *testing.T, w *testEnv, id string) error {
				_, err := w.service.Approve(t.Context(), id, operatorActor(), "")
				return err
			},
			[]string{"co_1 FLAGGED>CREDITED 500"},
			500,
		},
		"rejected": {
			func(t *testing.T, w *testEnv, id string) error {
				_, err := w.service.Reject(t.Context(), id, operatorActor(), "")
				if err == nil {
					w.execAsTableOwner(t, `
						UPDATE dispatch_orders SET status = 'PAID', tx_hash = 'hash', fee = 1, broadcast_at = now(),
							ended_at = now(), proof_id = (SELECT max(proof_id) FROM finality_proofs)
						WHERE purpose = 'RETURN'`)
					w.endTransfer(t, true)
				}
				return err
			},
			[]string{"co_1 FLAGGED>REJECTING 500", "co_1 REJECTING>REJECTED 500"},
			0,
		},
		"its return failed": {
			func(t *testing.T, w *testEnv, id string) error {
				_, err := w.service.Reject(t.Context(), id, operatorActor(), "")
				if err == nil {
					w.endTransfer(t, false)
				}
				return err
			},
			[]string{"co_1 FLAGGED>REJECTING 500", "co_1 REJECTING>RESOLUTION_STUCK 500"},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := newScreenedEnv(t)
			noted := w.addTills(t)
			o.setSeverity(payer, risk.Severe)
			w.c.Pay(payer, till, usdcAt, 500)
			w.c.Mine(4)
			w.walkFinal(t)
			*noted = nil
			w.creditAll(t)
			flagged := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
			if len(flagged) != 1 {
				t.Fatalf("got %d flagged, want one", len(flagged))
			}
			*noted = nil
			if err := c.decide(t, w, flagged[0].DepositID); err != nil {
				t.Fatal(err)
			}
			w.wantHeard(t, noted, c.want...)
			if got := w.loadBalance(t, ledger.Product, "CHECKOUT", usdc); got != money.Units(c.left) {
				t.Errorf("CHECKOUT: got %v, want %d", got, c.left)
			}
			w.wantNoEvent(t)
		})
	}
}

// Rule DEP-56.
func TestACheckoutHearsOfAPaymentThatAForkRemoves(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	noted := w.addTills(t)
	hash := w.c.Pay(payer, till, usdcAt, 100)
	w.c.Mine(2)
	w.walkBlocks(t)
	w.c.Fork(2, hash)
	w.c.Mine(10)
	w.walkBlocks(t)
	w.wantHeard(t, noted, "co_1 >CONFIRMING 100 in a block", "co_1 CONFIRMING>ORPHANED 100")
	w.wantNoEvent(t)
}

// Rules DEP-22 and DEP-56: the checkout hears of a payment in question and of its reversal, and no event tells of it.
func TestACheckoutHearsOfAPaymentThatIsReversed(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	noted := w.addTills(t)
	w.c.Pay(payer, till, usdcAt, 100)
	w.c.Mine(9)
	w.walkBlocks(t)
	*noted = nil
	w.reorgAway(t)
	questioned := slices.Clone(*noted)
	w.wantHeard(t, noted, "co_1 CREDITED>CREDITED 100")
	if len(questioned) == 1 && !questioned[0].IsReorged {
		t.Error("got a credit whose finality stands, want it in question")
	}
	w.settleReorgs(t)
	w.wantHeard(t, noted, "co_1 CREDITED>REVERSED 100")
	if got := w.loadBalance(t, ledger.Product, "CHECKOUT", usdc); !got.IsZero() {
		t.Errorf("CHECKOUT: got %v, want nothing", got)
	}
	w.wantNoEvent(t)
	w.checkBooks(t)
}

// Rule DEP-57: only the owner of the shared wallet hears of references, and of a final block again.
func TestTheSharedWalletHearsWhatATransactionOnlyNames(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	noted := w.addTills(t)
	reference, other := sim.Address("a reference"), sim.Address("a program")
	w.c.SubmitTx(
		payer, sim.Move{
			Contract: usdcAt, To: sharedTill, Amount: money.Units(100),
			References: []chain.Address{reference, other},
		}, moveTo(till, 40),
	)
	w.c.Mine(1)
	w.walkBlocks(t)
	w.c.Mine(3)
	w.walkBlocks(t)
	if len(*noted) != 4 {
		t.Fatalf("got %d changes, want two of each deposit", len(*noted))
	}
	for _, u := range *noted {
		var want []chain.Address
		if u.Purpose == wallet.CheckoutShared {
			want = []chain.Address{reference, other}
		}
		if !slices.Equal(u.References, want) {
			t.Errorf("%s at %s: got %v, want %v", u.To, u.Purpose, u.References, want)
		}
	}
}

// Rule DEP-56, enforced by the tables alone.
func TestTheTablesKeepWhichCheckoutADepositIsOf(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.addTills(t)
	w.c.SubmitTx(payer, moveTo(till, 100), moveTo(sharedTill, 70))
	w.c.Mine(4)
	w.wantWaiting(t)
	ids := map[chain.Address]string{}
	for _, d := range w.listDeposits(t, deposit.Filter{}) {
		ids[chain.Address(d.Address)] = d.DepositID
	}
	insert := func(members string) string {
		return `INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_2", "tx_hash": "x", ` +
			members + `}')).* FROM deposits d WHERE deposit_id = $1`
	}
	for name, c := range map[string]struct {
		at              chain.Address
		sql, constraint string
	}{
		"another checkout's": {
			till, `UPDATE deposits SET checkout_id = 'co_2' WHERE deposit_id = $1`, "deposits_identity_fixed",
		},
		"no checkout's": {
			till, `UPDATE deposits SET checkout_id = NULL WHERE deposit_id = $1`, "deposits_identity_fixed",
		},
		"another product's": {
			till, `UPDATE deposits SET product = 'CUSTODIAL' WHERE deposit_id = $1`, "deposits_identity_fixed",
		},
		"a customer's as well":              {till, insert(`"customer_id": "alice"`), "deposits_subject"},
		"at the wallet of another checkout": {till, insert(`"checkout_id": "co_2"`), "deposits_wallet"},
		"of a product that sells nothing":   {till, insert(`"product": "CUSTODIAL"`), "deposits_product"},
		"of no product":                     {till, insert(`"product": null`), "deposits_product"},
		"of a checkout and without its id":  {till, insert(`"checkout_id": null`), "deposits_checkout"},
		"an organization's at its wallet": {
			till, insert(`"checkout_id": null, "purpose": "ORGANIZATION_DEPOSIT"`), "deposits_wallet",
		},
		"a checkout's at the shared wallet": {
			sharedTill, insert(`"checkout_id": "co_1", "purpose": "CHECKOUT"`), "deposits_wallet",
		},
		"a checkout's beside the shared purpose": {
			sharedTill, insert(`"checkout_id": "co_1"`), "deposits_checkout",
		},
		"another product's at the shared wallet": {sharedTill, insert(`"product": "CUSTODIAL"`), "deposits_product"},
	} {
		if _, err := pgtest.OwnerPool(t, w.db).Exec(
			t.Context(), c.sql, ids[c.at],
		); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE wallets SET subject = 'co_1' WHERE wallet_id = 'adr_shared'`,
	); !pg.ViolatesConstraint(err, "wallets_purpose_known") {
		t.Errorf("got %v, want no shared wallet of one checkout", err)
	}
	for address, units := range map[chain.Address]uint64{till: 100, sharedTill: 70} {
		for _, to := range []ledger.Account{
			{Kind: ledger.Product, Subject: "CUSTODIAL"},
			{Kind: ledger.Customer, Subject: "alice"},
			{Kind: ledger.Suspense},
		} {
			to.OrgID, to.MintID = w.org, usdc
			err := w.creditTo(t, ids[address], to, units)
			if !pg.ViolatesConstraint(err, "ledger_transfers_of_cause") {
				t.Errorf("%s to %v: got %v, want a violation of ledger_transfers_of_cause", address, to, err)
			}
		}
	}
	// The books also compare the deposit with the wallet.
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE wallets SET subject = 'co_3' WHERE wallet_id = 'adr_till'`,
	); err != nil {
		t.Fatal(err)
	}
	own := ledger.Account{OrgID: w.org, MintID: usdc, Kind: ledger.Product, Subject: "CHECKOUT"}
	if err := w.creditTo(t, ids[till], own, 100); !pg.ViolatesConstraint(err, "ledger_transfers_of_cause") {
		t.Errorf("at the wallet of another checkout: got %v, want a violation of ledger_transfers_of_cause", err)
	}
	if n := w.creditAll(t); n != 1 {
		t.Errorf("got %d credited, want that of the shared wallet alone", n)
	}
}

// creditTo credits a deposit to an account, past the service.
func (w *testEnv) creditTo(t *testing.T, depositID string, to ledger.Account, units uint64) error {
	t.Helper()
	return w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(
			ctx, `UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = $1`, depositID,
		); err != nil {
			return err
		}
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: depositID}, Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: w.org, MintID: usdc, Kind: ledger.Custody},
				Credit: to, Amount: money.Units(units),
			}},
		})
	})
}
