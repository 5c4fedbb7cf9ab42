// Package wallet manages every address that Coffer controls: its owner, the proof that the signer
// holds its key, and the funds on it by Coffer's own books.
//
// Invariants:
//
//   - No address is handed out because of its row alone; its proof is checked.
//   - No amount is written because a chain reports it.
//   - The funds of a wallet never fall below zero, and no unit is promised twice.
//
// A crash may leave an address that the signer has and the table lacks. Asking the signer again, or
// importing its journal, gives the same address.
package wallet

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Purposes of wallets.
const (
	CustomerDeposit     = "CUSTOMER_DEPOSIT"     // receives for one customer, the subject
	OrganizationDeposit = "ORGANIZATION_DEPOSIT" // receives for one product of the organization, the subject
	Treasury            = "TREASURY"             // pays; one for each organization and family, without a subject
	// Change receives the change output of one Bitcoin slot. Change wallets are numbered from 1 in
	// their organization; the number is the subject.
	Change = "CHANGE"
	// SwapDelivery receives what a swap provider delivers for one swap, and SwapRefund what it gives
	// back. The subject is the swap. Both have the usual form, because providers parse other forms of
	// addresses unreliably.
	SwapDelivery = signer.SwapDeliveryPurpose
	SwapRefund   = signer.SwapRefundPurpose
	// DepositSwap receives what a swap provider delivers for one deposit swap, the subject.
	DepositSwap = "DEPOSIT_SWAP"
)

// Purposes lists every purpose that a wallet can have.
var Purposes = []string{
	CustomerDeposit, OrganizationDeposit, Treasury, Change, SwapDelivery, SwapRefund, DepositSwap,
}

var (
	// ErrProof says that the proof of an address does not hold. Such an address is not handed out.
	ErrProof = signer.ErrProof
	// ErrNotFound says that there is no such wallet.
	ErrNotFound = errors.New("no such wallet")
)

// Wallet is an address that Coffer controls.
type Wallet struct {
	ID, OrgID string
	Family    chain.Family
	Purpose   string
	Subject   string // the customer's id, the product, the number, the swap or the deposit swap; "" for a treasury
	Form      chain.Form
	Path      string
	Address   chain.Address
	Proof     []byte
	CreatedAt time.Time
}

// Ref returns the reference by which the signer knows the wallet.
func (w Wallet) Ref() signer.WalletRef {
	return signer.WalletRef{OrgID: w.OrgID, Family: w.Family, Purpose: w.Purpose, Subject: w.Subject, Form: w.Form}
}

// Service issues addresses and proves them. It is safe for concurrent use.
type Service struct {
	db        *pg.DB
	signer    signer.Signer
	attestKey ed25519.PublicKey
	proofs    proofCache
}

var _ journal.WalletKeeper = (*Service)(nil)

// New returns a Service. attestKey comes from a file of the operator, never from the database: an
// attacker who changes rows must not be able to change the key that checks them. It panics on an
// invalid key.
func New(db *pg.DB, s signer.Signer, attestKey ed25519.PublicKey) *Service {
	if len(attestKey) != ed25519.PublicKeySize {
		panic("wallet: the attestation key is not an ed25519 public key")
	}
	return &Service{db: db, signer: s, attestKey: attestKey}
}

// VerifyAttestation checks that the signer attested the wallet's address for exactly this
// organization, purpose, subject, family, form and path. Error: ErrProof, which is also logged.
// Rule DEP-2.
func (b *Service) VerifyAttestation(w Wallet) error {
	attested := signer.AttestedBytes(w.Ref(), w.Path, w.Address)
	if b.proofs.isVerified(attested, w.Proof) {
		return nil
	}
	if ed25519.Verify(b.attestKey, attested, w.Proof) {
		b.proofs.addProof(attested, w.Proof)
		return nil
	}
	slog.Error(
		"wallet row does not have the address that the signer attested", "wallet", w.ID, "org", w.OrgID,
		"purpose", w.Purpose,
	)
	return fmt.Errorf("wallet %s of %s: %w", w.ID, w.OrgID, ErrProof)
}

// Treasury returns the treasury wallet of an organization and family.
func (b *Service) Treasury(ctx context.Context, org string, f chain.Family) (Wallet, error) {
	return b.Address(ctx, signer.WalletRef{OrgID: org, Family: f, Purpose: Treasury})
}

// Address returns the wallet of ref and issues it on first use. It checks the proof at every call.
// The form of ref applies to a new wallet; a wallet that was issued in another form is returned as
// it is. The wallets of a swap have the usual form. The organization must exist. Address runs its own
// transactions, and the call may be repeated after any error. Errors: ErrProof, a *signer.Refusal, or
// unknown. Rule DEP-2.
func (b *Service) Address(ctx context.Context, ref signer.WalletRef) (Wallet, error) {
	found, err := b.Addresses(ctx, ref)
	if err != nil {
		return Wallet{}, err
	}
	return found[0], nil
}

// Addresses returns the wallets of several references of one organization, in their order, as Address
// does. New ones are stored in one transaction.
func (b *Service) Addresses(ctx context.Context, refs ...signer.WalletRef) ([]Wallet, error) {
	refs = slices.Clone(refs)
	for i := range refs {
		if isOfSwap(refs[i]) {
			refs[i].Form = chain.Usual
		}
	}
	wallets := make([]Wallet, len(refs))
	var missing []int
	err := b.db.ReadOrg(ctx, refs[0].OrgID, func(ctx context.Context, tx pg.Tx) error {
		missing = nil
		for i, ref := range refs {
			w, err := findBySubject(ctx, tx, ref)
			switch {
			case errors.Is(err, ErrNotFound):
				missing = append(missing, i)
			case err != nil:
				return err
			}
			wallets[i] = w
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := b.issueMissing(ctx, refs, wallets, missing); err != nil {
		return nil, err
	}
	for i, w := range wallets {
		if isOfSwap(refs[i]) && w.Form != chain.Usual {
			return nil, fmt.Errorf("wallet %s of %s is of form %q: %w", w.ID, w.OrgID, w.Form, ErrProof)
		}
		if err := b.VerifyAttestation(w); err != nil {
			return nil, err
		}
	}
	return wallets, nil
}

func isOfSwap(ref signer.WalletRef) bool {
	return ref.Purpose == SwapDelivery || ref.Purpose == SwapRefund || ref.Purpose == DepositSwap
}

// issueMissing issues those wallets that do not exist.
func (b *Service) issueMissing(ctx context.Context, refs []signer.WalletRef, wallets []Wallet, missing []int) error {
	for _, i := range missing {
		// On UTXO chains the treasury owns a deposit from the moment of the credit. The credit
		// cannot ask the signer for a treasury, so the treasury is issued first.
		if refs[i].Family.IsUTXO() && refs[i].Purpose != Treasury {
			if _, err := b.Treasury(ctx, refs[i].OrgID, refs[i].Family); err != nil {
				return err
			}
		}
	}
	// The signer is asked for all of them at once: each answer waits until the journal is on disk.
	issued, errs := make([]signer.IssuedAddress, len(missing)), make([]error, len(missing))
	var asking sync.WaitGroup
	for n, i := range missing {
		asking.Go(func() { issued[n], errs[n] = b.issueWallet(ctx, refs[i]) })
	}
	asking.Wait()
	if err := errors.Join(errs...); err != nil || len(missing) == 0 {
		return err
	}
	return b.db.InOrg(ctx, refs[0].OrgID, func(ctx context.Context, tx pg.Tx) error {
		entries := make([]signer.Entry, len(issued))
		for n := range issued {
			entries[n] = issued[n].Entry
		}
		// An import copies entries in this order, too.
		slices.SortFunc(entries, func(a, b signer.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, entry := range entries {
			if err := journal.RecordEntry(ctx, tx, entry); err != nil {
				return err
			}
		}
		for n, i := range missing {
			if err := b.EnsureWallet(ctx, tx, issued[n]); err != nil {
				return err
			}
			// A concurrent insert may have won; its row counts then.
			var err error
			if wallets[i], err = findBySubject(ctx, tx, refs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// issueWallet has the signer issue the address of a wallet.
func (b *Service) issueWallet(ctx context.Context, ref signer.WalletRef) (signer.IssuedAddress, error) {
	issued, err := b.askSigner(ctx, ref)
	var refusal *signer.Refusal
	if errors.As(err, &refusal) && refusal.Code == signer.RefusedForm {
		// The wallet was issued before the form of new ones changed, and the row is missing after a
		// crash or a restore. The signer is asked for its old form.
		for _, variant := range ref.OtherForms() {
			if issued, err = b.askSigner(ctx, variant); err == nil {
				break
			}
		}
	}
	if err != nil {
		return issued, fmt.Errorf("ask the signer for a wallet of %s: %w", ref.OrgID, err)
	}
	return issued, nil
}

// askSigner asks the signer for an address and refuses an answer for another wallet.
func (b *Service) askSigner(ctx context.Context, ref signer.WalletRef) (signer.IssuedAddress, error) {
	issued, err := b.signer.IssueAddress(ctx, ref)
	if err == nil && issued.WalletRef != ref {
		return signer.IssuedAddress{}, errors.New("it answered for another one")
	}
	return issued, err
}

// EnsureWallet inserts the wallet of an address that the signer issued, unless it exists. It
// returns ErrProof in these cases:
//
//   - The proof does not hold.
//   - The address is not of the form that the proof names.
//   - The existing wallet has another address.
func (b *Service) EnsureWallet(ctx context.Context, tx pg.Tx, issued signer.IssuedAddress) error {
	w := Wallet{
		ID: id.New("adr", tx.Now), OrgID: issued.OrgID, Family: issued.Family, Purpose: issued.Purpose,
		Subject: issued.Subject, Form: issued.Form,
		Path: issued.Path, Address: issued.Address, Proof: issued.Proof,
	}
	if err := b.VerifyAttestation(w); err != nil {
		return err
	}
	if bitcointx.IsTaproot(w.Address) != (w.Form == chain.Taproot) {
		slog.Error(
			"signer attested an address of another form than it says", "org", w.OrgID, "purpose", w.Purpose,
			"form", w.Form, "address", w.Address,
		)
		return fmt.Errorf("wallet of %s: %s is not of form %q: %w", w.OrgID, w.Address, w.Form, ErrProof)
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at, form)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT DO NOTHING`,
		w.ID, w.OrgID, string(w.Family), w.Purpose, w.Subject, w.Path, string(w.Address), w.Proof, tx.Now,
		string(w.Form))
	if err != nil {
		return fmt.Errorf("insert a wallet of %s: %w", w.OrgID, err)
	}
	if tag.RowsAffected() == 1 {
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: w.OrgID, Actor: audit.System("wallet"), Action: "wallet.issued", ResourceKind: "WALLET",
			ResourceID: w.ID,
			Detail:     map[string]string{"purpose": w.Purpose, "subject": w.Subject, "address": string(w.Address)},
		})
	}
	existing, err := findBySubject(ctx, tx, w.Ref())
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if existing.Address != w.Address || existing.Path != w.Path || existing.Form != w.Form {
		slog.Error(
			"wallet row does not have the address that the signer issued", "wallet", existing.ID, "org",
			w.OrgID, "purpose", w.Purpose,
		)
		return fmt.Errorf("wallet %s of %s: %w", existing.ID, w.OrgID, ErrProof)
	}
	return nil
}

const columns = `wallet_id, org_id, family, purpose, subject, path, address, proof, created_at, form`

func scanWallet(row pgx.CollectableRow) (w Wallet, err error) {
	err = row.Scan(
		&w.ID, &w.OrgID, &w.Family, &w.Purpose, &w.Subject, &w.Path, &w.Address, &w.Proof, &w.CreatedAt,
		&w.Form,
	)
	return w, err
}

func scanOne(rows pgx.Rows, err error) (Wallet, error) {
	if err != nil {
		return Wallet{}, fmt.Errorf("read a wallet: %w", err)
	}
	w, err := pgx.CollectExactlyOneRow(rows, scanWallet)
	if errors.Is(err, pgx.ErrNoRows) {
		return Wallet{}, ErrNotFound
	}
	if err != nil {
		return Wallet{}, fmt.Errorf("read a wallet: %w", err)
	}
	return w, nil
}

// findBySubject returns the wallet with these values, in whichever form it was issued.
func findBySubject(ctx context.Context, tx pg.Tx, r signer.WalletRef) (Wallet, error) {
	// Only the key's index provides this order. On an empty table any index that begins with the organization
	// looks as good, and a session keeps its plans.
	return scanOne(tx.Query(ctx, `
		SELECT `+columns+` FROM (
			SELECT `+columns+` FROM wallets WHERE org_id = $1 AND family = $2 AND purpose = $3 AND subject >= $4
			ORDER BY subject LIMIT 1) w
		WHERE subject = $4`,
		r.OrgID, string(r.Family), r.Purpose, r.Subject))
}

// ByID returns a wallet as its row says, without a check of the proof. Error: ErrNotFound.
func ByID(ctx context.Context, tx pg.Tx, walletID string) (Wallet, error) {
	w, err := scanOne(tx.Query(ctx, `SELECT `+columns+` FROM wallets WHERE wallet_id = $1`, walletID))
	if err != nil {
		return w, fmt.Errorf("wallet %s: %w", walletID, err)
	}
	return w, nil
}

// ByRef returns the wallet of ref, in exactly that form, as its row says and without a check of the
// proof. Error: ErrNotFound.
func ByRef(ctx context.Context, tx pg.Tx, ref signer.WalletRef) (Wallet, error) {
	w, err := findBySubject(ctx, tx, ref)
	if err == nil && w.Form != ref.Form {
		err = ErrNotFound
	}
	if err != nil {
		return w, fmt.Errorf("wallet of %s for %s: %w", ref.OrgID, ref.Purpose, err)
	}
	return w, nil
}

// TreasuryIDs returns the treasuries of organizations in a family, by organization. Organizations
// without a treasury are missing.
func TreasuryIDs(ctx context.Context, tx pg.Tx, f chain.Family, orgs ...string) (map[string]string, error) {
	rows, err := tx.Query(ctx, `
		SELECT org_id, wallet_id FROM wallets WHERE org_id = ANY ($1) AND family = $2 AND purpose = 'TREASURY' AND subject = ''`, orgs, string(f))
	if err != nil {
		return nil, fmt.Errorf("treasuries of %d organizations: %w", len(orgs), err)
	}
	found := map[string]string{}
	var org, walletID string
	_, err = pgx.ForEachRow(rows, []any{&org, &walletID}, func() error {
		found[org] = walletID
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("treasuries of %d organizations: %w", len(orgs), err)
	}
	return found, nil
}

// ByAddresses returns those addresses that belong to wallets of Coffer. The wallets are as their
// rows say; a decision about one of them checks its proof first.
func ByAddresses(
	ctx context.Context, tx pg.Tx, f chain.Family, addresses []chain.Address,
) (map[chain.Address]Wallet, error) {
	byAddress := map[chain.Address]Wallet{}
	if len(addresses) == 0 {
		return byAddress, nil
	}
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = string(a)
	}
	rows, err := tx.Query(
		ctx, `SELECT `+columns+` FROM wallets WHERE family = $1 AND address = ANY ($2)`, string(f), texts,
	)
	if err != nil {
		return nil, fmt.Errorf("look for %d addresses: %w", len(addresses), err)
	}
	wallets, err := pgx.CollectRows(rows, scanWallet)
	if err != nil {
		return nil, fmt.Errorf("look for %d addresses: %w", len(addresses), err)
	}
	for _, w := range wallets {
		byAddress[w.Address] = w
	}
	return byAddress, nil
}

// ListBySubjects returns those wallets of a purpose that an organization has already for some families
// and subjects, oldest first, after a check of their proofs. It issues none. Error: ErrProof if the
// proof of one of them does not hold.
func (b *Service) ListBySubjects(
	ctx context.Context, tx pg.Tx, org, purpose string, families []chain.Family, subjects []string,
) ([]Wallet, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM wallets
		WHERE org_id = $1 AND family = ANY ($2) AND purpose = $3 AND subject = ANY ($4)
		ORDER BY created_at, wallet_id`,
		org, familyNames(families), purpose, subjects)
	if err != nil {
		return nil, fmt.Errorf("list the wallets of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, scanWallet)
	if err != nil {
		return nil, fmt.Errorf("list the wallets of %s: %w", org, err)
	}
	for _, w := range found {
		if err := b.VerifyAttestation(w); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func familyNames(families []chain.Family) []string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = string(f)
	}
	return names
}

// List returns an organization's wallets for reports, one page in the order of (created_at, id), as
// their rows say.
func List(ctx context.Context, tx pg.Tx, org string, p pagination.Page) (pagination.Result[Wallet], error) {
	q := pagination.NewQuery(`SELECT `+columns+` FROM wallets WHERE org_id = ?`, org)
	sql, args := q.BuildPage(p, "created_at", "wallet_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Wallet]{}, fmt.Errorf("list the wallets of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, scanWallet)
	if err != nil {
		return pagination.Result[Wallet]{}, fmt.Errorf("list the wallets of %s: %w", org, err)
	}
	return pagination.CutPage(
		p, found, func(w Wallet) pagination.Cursor { return pagination.Cursor{CreatedAt: w.CreatedAt, ID: w.ID} },
	), nil
}

// ListOfCustomer returns the wallets that receive deposits of a customer, by family, as their rows say. The
// caller checks the proof of a wallet before it shows the address.
func ListOfCustomer(ctx context.Context, tx pg.Tx, org, customerID string) ([]Wallet, error) {
	var families []chain.Family // named, so that the key's index is used
	for _, name := range chain.Names {
		if f := name.Family(); !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM wallets
		WHERE org_id = $1 AND family = ANY ($2) AND purpose = $3 AND subject = $4 ORDER BY family`,
		org, families, CustomerDeposit, customerID)
	if err != nil {
		return nil, fmt.Errorf("read the wallets of customer %q: %w", customerID, err)
	}
	found, err := pgx.CollectRows(rows, scanWallet)
	if err != nil {
		return nil, fmt.Errorf("read the wallets of customer %q: %w", customerID, err)
	}
	return found, nil
}
