package deposit_test

import (
	"context"
	"crypto/ed25519"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// stallOwner owns wallets of a purpose that this package does not know. It notes the deposits that
// it is told of, in the transaction that changes them.
type stallOwner struct{}

const stallPurpose = "STALL"

func (stallOwner) Terms() deposit.Terms { return deposit.Terms{IsOperators: true} }

func (stallOwner) Account(string, bool) (ledger.Account, wallet.Part) {
	return ledger.Account{Kind: ledger.Suspense}, wallet.Credited
}

func (stallOwner) EventType(event.Type) event.Type { return "" }

func (stallOwner) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	for _, u := range updates {
		_, err := tx.Exec(
			ctx, `INSERT INTO stall_arrivals VALUES ($1, $2, $3, $4)`,
			u.DepositID, string(u.From), string(u.To), u.Amount,
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// addStall makes the purpose and a wallet of it, as the migration of a feature would.
func (w *testEnv) addStall(t *testing.T) chain.Address {
	t.Helper()
	address := sim.Address("stall")
	ref := signer.WalletRef{OrgID: w.org, Family: chain.EVM, Purpose: stallPurpose}
	owner := pgtest.OwnerPool(t, w.db)
	for _, sql := range []string{
		`ALTER TABLE wallets DROP CONSTRAINT wallets_purpose_known`,
		`CREATE TABLE stall_arrivals (deposit_id text, from_status text, to_status text, amount numeric)`,
		`GRANT INSERT ON stall_arrivals TO coffer_system`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if _, err := owner.Exec(t.Context(), `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
		VALUES ('adr_stall', $1, 'EVM', $2, '', 'm/1', $3, $4, now())`, w.org, stallPurpose, address,
		ed25519.Sign(w.attest, signer.AttestedBytes(ref, "m/1", address))); err != nil {
		t.Fatal(err)
	}
	return address
}

func (w *testEnv) stallArrivals(t *testing.T) (found []string) {
	t.Helper()
	err := pgtest.OwnerPool(t, w.db).QueryRow(t.Context(), `
		SELECT coalesce(array_agg(from_status || '>' || to_status || ' ' || amount ORDER BY to_status), '{}')
		FROM stall_arrivals`).Scan(&found)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A later feature needs no change here: it registers its owner and gets its arrivals, with their
// block and after it, in the transaction of the credit.
func TestAnOwnerOfANewPurposeGetsItsArrivals(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	stall := w.addStall(t)
	registered := owners()
	registered[stallPurpose] = stallOwner{}
	w.service.Owners = deposit.NewOwners(registered)
	w.c.Pay(payer, stall, usdcAt, 500)
	w.c.Pay(payer, alice, usdcAt, 70)
	w.c.Mine(4)
	w.walkBlocks(t)
	want := []string{">CREDITED 500"}
	if got := w.stallArrivals(t); !slices.Equal(got, want) {
		t.Errorf("with its block: got %v, want %v", got, want)
	}
	w.c.Pay(payer, stall, usdcAt, 60)
	w.c.Mine(4)
	w.wantWaiting(t)
	w.creditAll(t)
	want = []string{">CREDITED 500", "SCREENING>CREDITED 60", ">SCREENING 60"}
	if got := w.stallArrivals(t); !slices.Equal(got, want) {
		t.Errorf("after its block: got %v, want %v", got, want)
	}
	if got := w.loadBalance(t, ledger.Suspense, "", usdc); got != money.Units(560) {
		t.Errorf("account of its owner: got %v, want 560", got)
	}
	if got := w.loadFunds(t, "adr_stall", usdc).Credited; got != money.Units(560) {
		t.Errorf("credited on the address: got %v, want 560", got)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(70) {
		t.Errorf("alice: got %v, want 70", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != 1 {
		t.Errorf("events: got %d, want that of alice alone", n)
	}
}

// notedCustomers notes the changes that the owner of customers' arrivals hears of.
type notedCustomers struct {
	deposit.CustomerOwner
	heard *[]string
}

func (o notedCustomers) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	for _, u := range updates {
		*o.heard = append(*o.heard, string(u.From+">"+u.To)+" "+u.Subject)
	}
	return o.CustomerOwner.OnUpdates(ctx, tx, updates)
}

// Rule DEP-9: the owner also hears of a deposit that a fork removes before it is final.
func TestAnOwnerHearsOfADepositThatAForkRemoves(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	var heard []string
	registered := owners()
	registered[wallet.CustomerDeposit] = notedCustomers{heard: &heard}
	w.service.Owners = deposit.NewOwners(registered)
	hash := w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(2)
	w.walkBlocks(t)
	w.c.Fork(2, hash)
	w.c.Mine(10)
	w.walkBlocks(t)
	if want := []string{">CONFIRMING alice", "CONFIRMING>ORPHANED alice"}; !slices.Equal(heard, want) {
		t.Errorf("got %v, want %v", heard, want)
	}
}

// An arrival whose owner is unknown stops the walk: it is neither skipped nor credited to another.
func TestAnArrivalWithoutAnOwnerStopsTheWalk(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, w.addStall(t), usdcAt, 500)
	w.c.Mine(4)
	var err error
	for moved := true; moved && err == nil; {
		moved, err = w.w.StepFinal(t.Context())
	}
	if err == nil {
		t.Error("final walk: got no error")
	}
	if _, err := w.w.StepHead(t.Context()); err == nil {
		t.Error("head walk: got no error")
	}
	if n := w.queryCount(t, `SELECT count(*) FROM deposits`); n != 0 {
		t.Errorf("got %d deposits, want none", n)
	}
}

func TestEveryPurposeOfWalletsNeedsAnOwner(t *testing.T) {
	t.Parallel()
	for _, purpose := range wallet.Purposes {
		registered := owners()
		delete(registered, purpose)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s has no owner: got no panic", purpose)
				}
			}()
			deposit.NewOwners(registered)
		}()
	}
}
