package mirror_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id/idtest"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

// remembers is a Restorer that records the customer of each intent.
type remembers map[string]string

func (remembers) RestoreOrganizations(context.Context, pg.Tx, []string) error { return nil }

func (r remembers) RestoreOrders(_ context.Context, _ pg.Tx, intents []mirror.JournaledIntent) error {
	for _, m := range intents {
		r[m.ID] = m.Intent.CustomerID
	}
	return nil
}

func (remembers) ResumeOperation(context.Context, pg.Tx, time.Time) error { return nil }

// owners compares the wallets of a database with those that customers received.
func (b database) owners(t *testing.T, when string, want map[string]chain.Address) {
	t.Helper()
	rows, err := b.owner.Query(t.Context(), `SELECT subject, address FROM wallets WHERE purpose = 'CUSTOMER_DEPOSIT'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := map[string]chain.Address{}
	for rows.Next() {
		var customerID string
		var address chain.Address
		if err := rows.Scan(&customerID, &address); err != nil {
			t.Fatal(err)
		}
		got[customerID] = address
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%s: got %d wallets of customers, want %d", when, len(got), len(want))
	}
	for customerID, address := range want {
		if got[customerID] != address {
			t.Errorf("%s: %q: got the address %q, want %s", when, customerID, got[customerID], address)
		}
		// The signer confirms the row, or the wallet service refuses it.
		if w, err := b.book.Address(t.Context(), signertest.Deposit(org, customerID)); err != nil ||
			w.Address != address {
			t.Errorf("%s: the book has %q %v for %q, want %s", when, w.Address, err, customerID, address)
		}
	}
}

// An adopted journal, and a database that is restored from one, return each customer's own
// addresses and payments, and none of a customer with a similar id. Rule IDEM-1.
func TestAJournalGivesEachCustomerItsOwnAgain(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	b := h.newDatabase(t, org)
	b.mustImport(t)
	signertest.IssueAddress(t, h.s, signertest.Treasury(org))
	addresses, payments := map[string]chain.Address{}, remembers{}
	for i, customerID := range idtest.Alike {
		w, err := b.book.Address(t.Context(), signertest.Deposit(org, customerID))
		if err != nil {
			t.Fatal(err)
		}
		addresses[customerID] = w.Address
		intent := fmt.Sprint("wd_", i)
		b.order(t, intent)
		entry, err := h.s.AdmitIntent(t.Context(), signer.Intent{
			ID: intent, Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org),
			To:       signertest.Stranger,
			Contract: signertest.Token, Amount: money.Units(1), CustomerID: customerID,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.record(t, entry); err != nil {
			t.Fatal(err)
		}
		payments[intent] = customerID
	}
	b.mustImport(t)
	b.owners(t, "as issued", addresses)

	older := h.newDatabase(t, org) // a backup from before all of this
	found := remembers{}
	if _, err := mirror.RestoreDatabase(t.Context(), older.db, h.s, older.book, found, false); err != nil {
		t.Fatal(err)
	}
	older.owners(t, "restored", addresses)
	if len(found) != len(payments) {
		t.Errorf("restored: got %d payments, want %d", len(found), len(payments))
	}
	for intent, customerID := range payments {
		if found[intent] != customerID {
			t.Errorf("restored: got payment %s of %q, want it of %q", intent, found[intent], customerID)
		}
	}

	h.lose(t)
	copied, err := mirror.CopiedEntries(t.Context(), b.db)
	if err != nil {
		t.Fatal(err)
	}
	if err := local.AdoptJournal(h.conf, h.seed, copied,
		[]local.ChainNonce{{Wallet: signertest.Treasury(org), Chain: signertest.Chain, NextNonce: 0}}); err != nil {
		t.Fatal(err)
	}
	h.open(t)
	b.book = wallet.New(b.db, h.s, h.seed.AttestKey().PublicKey())
	b.importAdopted(t)
	b.owners(t, "adopted", addresses)
	for i, customerID := range idtest.Alike {
		again := signer.Intent{
			ID: fmt.Sprint("wd_", i), Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org),
			To:       signertest.Stranger,
			Contract: signertest.Token, Amount: money.Units(1), CustomerID: customerID,
		}
		if _, err := h.s.AdmitIntent(t.Context(), again); err != nil {
			t.Errorf("adopted: payment %s of %q: got %v, want it known", again.ID, customerID, err)
		}
		again.CustomerID = idtest.Alike[(i+1)%len(idtest.Alike)]
		if _, err := h.s.AdmitIntent(t.Context(), again); err == nil {
			t.Errorf("adopted: payment %s of %q: got it taken for one of %q", again.ID, customerID, again.CustomerID)
		}
	}
}
