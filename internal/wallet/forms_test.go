package wallet_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

func bitcoinOf(customer string, f chain.Form) signer.WalletRef {
	return signer.WalletRef{
		OrgID: org, Family: chain.BitcoinFamily, Purpose: wallet.CustomerDeposit, Subject: customer, Form: f,
	}
}

// newBitcoinEnv returns an environment whose signer has Bitcoin wallets.
func newBitcoinEnv(t *testing.T) (testEnv, keys.Seed) {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	seed = seed.ForNetwork(chain.Local)
	conf := local.Config{Journal: filepath.Join(t.TempDir(), "journal"), Policy: signertest.NewPolicy()}
	if err := local.CreateJournal(conf, seed); err != nil {
		t.Fatal(err)
	}
	s, err := local.Open(conf, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db := pgtest.New(t)
	w := testEnv{
		db: db, owner: pgtest.OwnerPool(t, db), signer: s,
		book: wallet.New(db, s, seed.AttestKey().PublicKey()),
	}
	w.exec(t, `ALTER TABLE wallets DISABLE TRIGGER wallets_stay`) // as a thief of the database would
	w.exec(t, `INSERT INTO organizations (org_id, name, created_at) VALUES ($1, 'one', now())`, org)
	if err := journal.Import(t.Context(), db, s, w.book); err != nil {
		t.Fatal(err)
	}
	return w, seed
}

// Rule DEP-44.
func TestTheFormOfNewAddressesChangesNoOther(t *testing.T) {
	t.Parallel()
	w, _ := newBitcoinEnv(t)
	address := func(r signer.WalletRef) wallet.Wallet {
		t.Helper()
		got, err := w.book.Address(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ann := address(bitcoinOf("ann", chain.Usual))
	bob := address(bitcoinOf("bob", chain.Taproot))
	if bitcointx.IsTaproot(ann.Address) || ann.Form != chain.Usual || !bitcointx.IsTaproot(bob.Address) ||
		bob.Form != chain.Taproot {
		t.Errorf(
			"got %s of form %q and %s of form %q, want SegWit and taproot", ann.Address, ann.Form, bob.Address,
			bob.Form,
		)
	}
	if treasury := address(signer.WalletRef{
		OrgID: org, Family: chain.BitcoinFamily, Purpose: wallet.Treasury,
	}); treasury.Form != chain.Usual {
		t.Errorf("got a treasury of form %q, want the usual one", treasury.Form)
	}
	for _, f := range []chain.Form{chain.Usual, chain.Taproot} {
		for _, was := range []wallet.Wallet{ann, bob} {
			if got := address(bitcoinOf(was.Subject, f)); got.ID != was.ID || got.Address != was.Address ||
				got.Form != was.Form {
				t.Errorf("%s, now that new ones are %q: got %+v, want %+v", was.Subject, f, got, was)
			}
		}
	}
	// The signer had issued them, a crash lost the rows, and then the setting changed.
	for _, was := range []wallet.Wallet{ann, bob} {
		w.exec(t, `DELETE FROM wallets WHERE wallet_id = $1`, was.ID)
		now := chain.Taproot
		if was.Form == chain.Taproot {
			now = chain.Usual
		}
		if got := address(bitcoinOf(was.Subject, now)); got.Address != was.Address || got.Form != was.Form {
			t.Errorf(
				"%s, whose row was lost: got %s of form %q, want %s", was.Subject, got.Address, got.Form, was.Address,
			)
		}
	}
	err := w.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		got, err := wallet.ByRef(ctx, tx, bitcoinOf("bob", chain.Taproot))
		if err != nil || got.Address != bob.Address {
			t.Errorf("bob's, by its words: got %+v, %v, want %s", got, err, bob.Address)
		}
		if _, err := wallet.ByRef(ctx, tx, bitcoinOf("bob", chain.Usual)); !errors.Is(err, wallet.ErrNotFound) {
			t.Errorf("bob's in a form that it has not: got %v, want ErrNotFound", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, sql := range map[string]string{
		"taproot of EVM":      `INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at, form) VALUES ('adr_x', $1, 'EVM', 'CUSTOMER_DEPOSIT', 'x', 'm', 'x', '', now(), 'TAPROOT')`,
		"a taproot treasury":  `INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at, form) VALUES ('adr_x', $1, 'BITCOIN', 'TREASURY', '', 'm', 'x', '', now(), 'TAPROOT')`,
		"a form of no name":   `INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at, form) VALUES ('adr_x', $1, 'BITCOIN', 'CUSTOMER_DEPOSIT', 'x', 'm', 'x', '', now(), 'WRAPPED')`,
		"a form that changes": `UPDATE wallets SET form = 'NESTED' WHERE org_id = $1`,
	} {
		if _, err := w.owner.Exec(t.Context(), sql, org); !pg.ViolatesConstraint(err, "wallets_form_known") {
			t.Errorf("%s: got %v, want it refused by wallets_form_known", what, err)
		}
	}
}

// Rule DEP-2, for the form of an address.
func TestARowOfAnotherFormNeverGivesAnAddress(t *testing.T) {
	t.Parallel()
	w, _ := newBitcoinEnv(t)
	for customer, f := range map[string]chain.Form{"ann": chain.Usual, "bob": chain.Taproot} {
		was, err := w.book.Address(t.Context(), bitcoinOf(customer, f))
		if err != nil {
			t.Fatal(err)
		}
		w.exec(t, `UPDATE wallets SET form = CASE form WHEN '' THEN 'TAPROOT' ELSE '' END WHERE wallet_id = $1`, was.ID)
		if got, err := w.book.Address(t.Context(), bitcoinOf(customer, f)); !errors.Is(err, wallet.ErrProof) ||
			got.Address != "" {
			t.Errorf("%s: got %s, %v, want ErrProof and no address", customer, got.Address, err)
		}
	}
}

// lyingSigner answers with an address of another form than requested.
type lyingSigner struct {
	signer.Signer
	answers func(signer.WalletRef, signer.IssuedAddress) signer.IssuedAddress
	of      map[chain.Form]chain.Form
}

func (l lyingSigner) IssueAddress(ctx context.Context, r signer.WalletRef) (signer.IssuedAddress, error) {
	asked := r
	if r.Purpose == wallet.CustomerDeposit {
		asked.Form = l.of[r.Form]
	}
	issued, err := l.Signer.IssueAddress(ctx, asked)
	if err == nil && asked != r {
		issued = l.answers(r, issued)
	}
	return issued, err
}

// Rule DEP-2, for a signer that lies or has a defect.
func TestAnAddressOfAnotherFormThanAskedForIsRefused(t *testing.T) {
	t.Parallel()
	other := map[chain.Form]chain.Form{chain.Usual: chain.Taproot, chain.Taproot: chain.Usual}
	for name, answers := range map[string]func(keys.Seed, signer.WalletRef, signer.IssuedAddress) signer.IssuedAddress{
		"as what it is": func(_ keys.Seed, _ signer.WalletRef, i signer.IssuedAddress) signer.IssuedAddress {
			return i
		},
		"as what was asked for": func(_ keys.Seed, r signer.WalletRef, i signer.IssuedAddress) signer.IssuedAddress {
			i.WalletRef = r
			return i
		},
		"with a proof that it is what was asked for": func(
			seed keys.Seed, r signer.WalletRef, i signer.IssuedAddress,
		) signer.IssuedAddress {
			i.WalletRef, i.Proof = r, seed.AttestKey().AttestAddress(r, i.Path, i.Address)
			return i
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, seed := newBitcoinEnv(t)
			public := seed.AttestKey().PublicKey()
			book := wallet.New(
				w.db,
				lyingSigner{
					w.signer,
					func(r signer.WalletRef, i signer.IssuedAddress) signer.IssuedAddress {
						return answers(seed, r, i)
					},
					other,
				},
				public,
			)
			for customer, f := range map[string]chain.Form{"ann": chain.Usual, "bob": chain.Taproot} {
				if got, err := book.Address(t.Context(), bitcoinOf(customer, f)); err == nil {
					t.Errorf("%s: got %s of form %q, want an error", customer, got.Address, got.Form)
				}
			}
			var rows int
			if err := w.owner.QueryRow(
				t.Context(), `SELECT count(*) FROM wallets WHERE purpose <> 'TREASURY'`,
			).Scan(&rows); err != nil || rows != 0 {
				t.Errorf("got %d rows, %v, want none", rows, err)
			}
		})
	}
}

// Providers of swaps parse other forms of addresses unreliably.
func TestTheWalletsOfASwapHaveTheUsualForm(t *testing.T) {
	t.Parallel()
	w, _ := newBitcoinEnv(t)
	seen := map[chain.Address]bool{}
	for _, purpose := range []string{wallet.SwapDelivery, wallet.SwapRefund} {
		for _, form := range []chain.Form{chain.Taproot, chain.Usual} {
			got, err := w.book.Address(t.Context(), signer.WalletRef{
				OrgID: org, Family: chain.BitcoinFamily, Purpose: purpose, Subject: "cs_1", Form: form,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got.Form != chain.Usual || bitcointx.IsTaproot(got.Address) {
				t.Errorf("%s of %q: got %s of form %q, want the usual one", purpose, form, got.Address, got.Form)
			}
			seen[got.Address] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("got %d addresses, want one of each purpose", len(seen))
	}
}
