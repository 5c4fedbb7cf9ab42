package wallet_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

const org, other = "org_1", "org_2"

type testEnv struct {
	db     *pg.DB
	owner  *pgxpool.Pool
	signer *local.Signer
	book   *wallet.Service
	attest ed25519.PublicKey
}

func newTestEnv(t *testing.T) testEnv {
	t.Helper()
	db := pgtest.New(t)
	s, attest := signertest.New(t)
	w := testEnv{db: db, owner: pgtest.OwnerPool(t, db), signer: s, book: wallet.New(db, s, attest), attest: attest}
	w.exec(t, `ALTER TABLE wallets DISABLE TRIGGER wallets_stay`) // as a thief of the database would
	w.exec(
		t, `INSERT INTO organizations (org_id, name, created_at) VALUES ($1, 'one', now()), ($2, 'two', now())`,
		org, other,
	)
	w.exec(t, `
		INSERT INTO mints (mint_id, chain, network, kind, contract, symbol, name, decimals, deposit_enabled, withdraw_enabled,
			min_deposit, min_withdraw, confirmations_required, finality)
		VALUES (1, 'ETHEREUM', 'LOCAL', 'NATIVE', '', 'ETH', 'Ether', 18, true, true, 1, 1, 1, 'FINALIZED'),
			(2, 'ETHEREUM', 'LOCAL', 'TOKEN', '0xT', 'USDC', 'Dollar', 6, true, true, 1, 1, 1, 'FINALIZED')`)
	if err := journal.Import(t.Context(), db, s, w.book); err != nil {
		t.Fatal(err)
	}
	return w
}

// exec writes past every right and trigger, as a thief of the database would.
func (w testEnv) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.owner.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w testEnv) issueAddress(t *testing.T, customer string) wallet.Wallet {
	t.Helper()
	got, err := w.book.Address(t.Context(), signertest.Deposit(org, customer))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Rule DEP-1.
func TestAddressIsTheSameForEver(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	first := w.issueAddress(t, "alice")
	if again := w.issueAddress(t, "alice"); again.Address != first.Address || again.ID != first.ID {
		t.Errorf("got %v, want %v again", again, first)
	}
	if bob := w.issueAddress(t, "bob"); bob.Address == first.Address {
		t.Errorf("got %v for two customers", bob.Address)
	}
	theirs, err := w.book.Address(t.Context(), signertest.Deposit(other, "alice"))
	if err != nil || theirs.Address == first.Address {
		t.Errorf("got %v, %v for another organization's customer, want another address", theirs.Address, err)
	}
	treasury, err := w.book.Treasury(t.Context(), org, chain.EVM)
	if err != nil || treasury.Purpose != wallet.Treasury || treasury.Subject != "" {
		t.Errorf("treasury: got %v, %v", treasury, err)
	}
	// The signer returns the same address to a database that has lost the row.
	w.exec(t, `DELETE FROM wallets WHERE wallet_id = $1`, first.ID)
	if again := w.issueAddress(t, "alice"); again.Address != first.Address {
		t.Errorf("after losing the row: got %v, want %v", again.Address, first.Address)
	}
}

func TestAddressIsOneForManyCallersAtOnce(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	const callers = 32
	got := make([]wallet.Wallet, callers)
	errs := make([]error, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() { got[n], errs[n] = w.book.Address(t.Context(), signertest.Deposit(org, "alice")) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, g := range got {
		if g.ID != got[0].ID || g.Address != got[0].Address {
			t.Errorf("got %v, want %v for everybody", g, got[0])
		}
	}
	head, err := w.signer.Head(t.Context())
	if err != nil || head.Seq != 2 {
		t.Errorf("got %d journal entries, %v, want a genesis and one address", head.Seq, err)
	}
	var audits int
	if err := w.owner.QueryRow(
		t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'wallet.issued'`,
	).Scan(&audits); err != nil || audits != 1 {
		t.Errorf("got %d audit rows, %v, want 1", audits, err)
	}
}

// flip changes one letter of a hexadecimal address.
func flip(a chain.Address) string {
	last := "0"
	if strings.HasSuffix(string(a), "0") {
		last = "1"
	}
	return string(a[:len(a)-1]) + last
}

// Rule DEP-2.
func TestTamperedRowNeverGivesAnAddress(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(*testing.T, testEnv, wallet.Wallet, wallet.Wallet){
		"one letter of the address": func(t *testing.T, w testEnv, a, _ wallet.Wallet) {
			w.exec(t, `UPDATE wallets SET address = $2 WHERE wallet_id = $1`, a.ID, flip(a.Address))
		},
		"one bit of the proof": func(t *testing.T, w testEnv, a, _ wallet.Wallet) {
			proof := bytes.Clone(a.Proof)
			proof[17] ^= 4
			w.exec(t, `UPDATE wallets SET proof = $2 WHERE wallet_id = $1`, a.ID, proof)
		},
		"no proof": func(t *testing.T, w testEnv, a, _ wallet.Wallet) {
			w.exec(t, `UPDATE wallets SET proof = '' WHERE wallet_id = $1`, a.ID)
		},
		"the path": func(t *testing.T, w testEnv, a, b wallet.Wallet) {
			w.exec(t, `UPDATE wallets SET path = $2 WHERE wallet_id = $1`, a.ID, b.Path)
		},
		"two rows swapped": func(t *testing.T, w testEnv, a, b wallet.Wallet) {
			w.exec(t, `UPDATE wallets SET subject = 'nobody' WHERE wallet_id = $1`, a.ID)
			w.exec(t, `UPDATE wallets SET subject = $2 WHERE wallet_id = $1`, b.ID, a.Subject)
			w.exec(t, `UPDATE wallets SET subject = $2 WHERE wallet_id = $1`, a.ID, b.Subject)
		},
		"another customer's row with proof and path": func(t *testing.T, w testEnv, a, b wallet.Wallet) {
			w.exec(t, `DELETE FROM wallets WHERE wallet_id = $1`, b.ID)
			w.exec(
				t, `UPDATE wallets SET address = $2, path = $3, proof = $4 WHERE wallet_id = $1`, a.ID,
				string(b.Address), b.Path, b.Proof,
			)
		},
		"moved to another organization": func(t *testing.T, w testEnv, a, _ wallet.Wallet) {
			theirs, err := w.book.Address(t.Context(), signertest.Deposit(other, a.Subject))
			if err != nil {
				t.Fatal(err)
			}
			w.exec(t, `DELETE FROM wallets WHERE wallet_id = $1`, a.ID)
			w.exec(t, `UPDATE wallets SET org_id = $2 WHERE wallet_id = $1`, theirs.ID, org)
		},
		"the address given to somebody else beforehand": func(t *testing.T, w testEnv, a, b wallet.Wallet) {
			w.exec(t, `DELETE FROM wallets WHERE wallet_id = $1`, a.ID)
			w.exec(t, `UPDATE wallets SET address = $2 WHERE wallet_id = $1`, b.ID, string(a.Address))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			a, b := w.issueAddress(t, "alice"), w.issueAddress(t, "bob")
			tamper(t, w, a, b)
			got, err := w.book.Address(t.Context(), signertest.Deposit(org, "alice"))
			if !errors.Is(err, wallet.ErrProof) {
				t.Errorf("got error %v, want ErrProof", err)
			}
			if got.Address != "" {
				t.Errorf("got address %s beside the error", got.Address)
			}
		})
	}
}

func TestProofOfAnotherSignerDoesNotHold(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	a := w.issueAddress(t, "alice")
	_, foreign := signertest.New(t)
	if err := wallet.New(w.db, w.signer, foreign).VerifyAttestation(a); !errors.Is(err, wallet.ErrProof) {
		t.Errorf("got %v, want ErrProof", err)
	}
	if _, err := wallet.New(w.db, w.signer, foreign).Address(
		t.Context(), signertest.Deposit(org, "carol"),
	); !errors.Is(err, wallet.ErrProof) {
		t.Errorf("a fresh address: got %v, want ErrProof", err)
	}
}

func TestKnownFindsOnlyOurs(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	a, b := w.issueAddress(t, "alice"), w.issueAddress(t, "bob")
	var got map[chain.Address]wallet.Wallet
	var byID wallet.Wallet
	var missing error
	var listed pagination.Result[wallet.Wallet]
	err := w.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if got, err = wallet.ByAddresses(
			ctx, tx, chain.EVM, []chain.Address{a.Address, signertest.Stranger, b.Address, ""},
		); err != nil {
			return err
		}
		if byID, err = wallet.ByID(ctx, tx, a.ID); err != nil {
			return err
		}
		_, missing = wallet.ByID(ctx, tx, "adr_none")
		listed, err = wallet.List(ctx, tx, org, pagination.Page{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[a.Address].ID != a.ID || got[b.Address].Subject != "bob" {
		t.Errorf("got %v, want the wallets of alice and bob", got)
	}
	if byID.Address != a.Address || !errors.Is(missing, wallet.ErrNotFound) || len(listed.Items) != 2 {
		t.Errorf("got %v, %v, %v", byID, missing, listed)
	}
}

func (w testEnv) moveFunds(t *testing.T, m ...wallet.Movement) error {
	t.Helper()
	return w.db.InSystem(
		t.Context(), func(ctx context.Context, tx pg.Tx) error { return wallet.MoveFunds(ctx, tx, m...) },
	)
}

func (w testEnv) loadFunds(t *testing.T, walletID string, mint int) (f wallet.Funds) {
	t.Helper()
	if err := w.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, walletID, mint)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFundsAreNeverPromisedTwice(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	a := w.issueAddress(t, "alice")
	plus := func(p wallet.Part, n uint64) wallet.Movement {
		return wallet.Movement{WalletID: a.ID, OrgID: org, MintID: 2, Part: p, Plus: money.Units(n)}
	}
	minus := func(p wallet.Part, n uint64) wallet.Movement {
		return wallet.Movement{WalletID: a.ID, OrgID: org, MintID: 2, Part: p, Minus: money.Units(n)}
	}
	must := func(m ...wallet.Movement) {
		t.Helper()
		if err := w.moveFunds(t, m...); err != nil {
			t.Fatal(err)
		}
	}
	short := func(what string, m ...wallet.Movement) {
		t.Helper()
		before := w.loadFunds(t, a.ID, 2)
		if err := w.moveFunds(t, m...); !errors.Is(err, wallet.ErrInsufficient) {
			t.Errorf("%s: got %v, want ErrShort", what, err)
		}
		if after := w.loadFunds(t, a.ID, 2); after != before {
			t.Errorf("%s: got %+v, want %+v unchanged", what, after, before)
		}
	}
	short("reserve of nothing", plus(wallet.Reserved, 1))
	must(plus(wallet.Credited, 100), plus(wallet.Gas, 10), plus(wallet.Dust, 3))
	must(plus(wallet.Held, 20), plus(wallet.Reserved, 50))
	short("reserve what is held", plus(wallet.Reserved, 31))
	short("hold what is reserved", plus(wallet.Held, 31))
	short("release more than was reserved", minus(wallet.Reserved, 51))
	short("gas beyond the gas", plus(wallet.GasReserved, 11))
	short("less than no dust", minus(wallet.Dust, 4))
	short("take credited money that is promised", minus(wallet.Credited, 31))
	must(plus(wallet.GasReserved, 10))
	short("burn reserved gas", minus(wallet.Gas, 1))
	// A sweep that became final, and its gas, in one step.
	must(minus(wallet.Reserved, 50), plus(wallet.Swept, 50), minus(wallet.GasReserved, 10), minus(wallet.Gas, 4))
	want := wallet.Funds{
		Credited: money.Units(100), Held: money.Units(20), Swept: money.Units(50),
		Gas: money.Units(6), Dust: money.Units(3),
	}
	got := w.loadFunds(t, a.ID, 2)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Spendable() != money.Units(30) || got.GasSpendable() != money.Units(6) {
		t.Errorf("got %v and %v, want 30 and 6 to spend", got.Spendable(), got.GasSpendable())
	}
	// Only the outcome counts.
	must(minus(wallet.Dust, 5), plus(wallet.Dust, 5))

	wrong := plus(wallet.Credited, 1)
	wrong.OrgID = other
	if err := w.moveFunds(t, wrong); err == nil {
		t.Error("another organization's movement: got no error")
	}
	wrong = plus("TIPS", 1)
	if err := w.moveFunds(t, wrong); err == nil {
		t.Error("an unknown part: got no error")
	}
	if got := w.loadFunds(t, a.ID, 1); got != (wallet.Funds{}) {
		t.Errorf("a mint that was never held: got %+v, want nothing", got)
	}
	if err := w.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		all, err := wallet.ListHoldings(ctx, tx, org)
		if err == nil && (len(all) != 1 || all[0].Funds != got) {
			err = fmt.Errorf("got %+v, want %+v", all, got)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestFundsOfManyWorkersAddUp(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	a, b := w.issueAddress(t, "alice"), w.issueAddress(t, "bob")
	credit := func(id string, n uint64) wallet.Movement {
		return wallet.Movement{WalletID: id, OrgID: org, MintID: 2, Part: wallet.Credited, Plus: money.Units(n)}
	}
	if err := w.moveFunds(t, credit(a.ID, 40), credit(b.ID, 40)); err != nil {
		t.Fatal(err)
	}
	const workers = 16
	won := make([]int, workers)
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			for range 10 {
				// Named in either order, always locked in one.
				pair := []string{a.ID, b.ID}
				if n%2 == 0 {
					pair[0], pair[1] = pair[1], pair[0]
				}
				err := w.moveFunds(t,
					wallet.Movement{
						WalletID: pair[0], OrgID: org, MintID: 2, Part: wallet.Reserved, Plus: money.Units(1),
					},
					wallet.Movement{
						WalletID: pair[1], OrgID: org, MintID: 2, Part: wallet.Reserved, Plus: money.Units(1),
					})
				switch {
				case err == nil:
					won[n]++
				case !errors.Is(err, wallet.ErrInsufficient):
					t.Errorf("got %v", err)
				}
			}
		})
	}
	all.Wait()
	total := 0
	for _, n := range won {
		total += n
	}
	if total != 40 || w.loadFunds(t, a.ID, 2).Reserved != money.Units(40) ||
		w.loadFunds(t, b.ID, 2).Reserved != money.Units(40) {
		t.Errorf("got %d reservations, %+v, want 40 on both", total, w.loadFunds(t, a.ID, 2))
	}
	if got := w.db.Counts().Deadlocks; got != 0 {
		t.Errorf("deadlocks: got %d, want 0", got)
	}
}

func TestTheWalletsOfACustomerAreThoseForItsDeposits(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	want := w.issueAddress(t, "alice")
	w.issueAddress(t, "bob")
	if _, err := w.book.Treasury(t.Context(), org, chain.EVM); err != nil {
		t.Fatal(err)
	}
	for of, n := range map[string]int{org: 1, other: 0} {
		err := w.db.ReadOrg(t.Context(), of, func(ctx context.Context, tx pg.Tx) error {
			found, err := wallet.ListOfCustomer(ctx, tx, of, "alice")
			if err == nil && (len(found) != n || n == 1 && found[0].Address != want.Address) {
				t.Errorf("%s: got %v, want %d wallets", of, found, n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
