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
	// Checkout receives what the payer of one checkout sends; the subject is the checkout.
	Checkout = "CHECKOUT"
	// CheckoutShared receives for all checkouts of the organization on a chain where a payment names its checkout
	// itself, by a reference; the subject is the product CHECKOUT. The wallets of checkouts have the usual form,
	// because every wallet of a payer can pay it.
	CheckoutShared = "CHECKOUT_SHARED"
)

// Purposes lists every purpose that a wallet can have, in the order in which the owners of their arrivals take locks
// (docs/design/locks.md).
var Purposes = []string{
	CustomerDeposit, OrganizationDeposit, Treasury, Change, SwapDelivery, SwapRefund, DepositSwap, Checkout,
	CheckoutShared,
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
	// Subject is the customer's id, the product, the number, the swap, the deposit swap or the checkout; "" for a
	// treasury.
	Subject   string
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
	var wallets []Wallet
	err := b.db.ReadOrgBatch(ctx, refs[0].OrgID, func(batch *pgx.Batch) {
		wallets = queueBySubjects(batch, refs[0].OrgID, refs)
	})
	if err != nil {
		return nil, fmt.Errorf("look for %d wallets of %s: %w", len(refs), refs[0].OrgID, err)
	}
	var missing []int
	for i, w := range wallets {
		if w.ID == "" {
			missing = append(missing, i)
		}
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
	asked := make([]signer.WalletRef, len(missing))
	for n, i := range missing {
		asked[n] = refs[i]
	}
	stored, err := b.storeIssued(ctx, asked, issued)
	if err != nil {
		return err
	}
	for n, i := range missing {
		wallets[i] = stored[n]
	}
	return nil
}

// storeIssued stores the addresses that the signer issued for references of one organization, unless
// they are stored, and returns their wallets.
func (b *Service) storeIssued(
	ctx context.Context, refs []signer.WalletRef, issued []signer.IssuedAddress,
) ([]Wallet, error) {
	org := refs[0].OrgID
	now := b.db.Clock()().UTC().Truncate(time.Microsecond)
	made := make([]Wallet, len(issued))
	entries := make([]signer.Entry, len(issued))
	for n := range issued {
		made[n], entries[n] = newWallet(issued[n], now), issued[n].Entry
		if err := b.checkIssued(made[n]); err != nil {
			return nil, err
		}
	}
	// An import copies entries in this order, too.
	slices.SortFunc(entries, func(a, b signer.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	var stored []Wallet
	var checkEntries func() error
	var queueErr error
	err := b.db.InOrgPipelined(ctx, org,
		func(batch *pgx.Batch) {
			if checkEntries, queueErr = journal.QueueEntries(batch, now, entries...); queueErr != nil {
				return
			}
			queueInserts(batch, made)
			stored = queueBySubjects(batch, org, refs)
		},
		func(_ context.Context, _ pg.Tx, batch *pgx.Batch) error {
			if queueErr != nil {
				return queueErr
			}
			if err := checkEntries(); err != nil {
				return err
			}
			var acts []audit.Entry
			for n, w := range stored {
				// A concurrent insert may have won; its row counts then.
				if err := checkSame(w, made[n]); err != nil {
					return err
				}
				if w.ID == made[n].ID {
					acts = append(acts, newIssuedEntry(w))
				}
			}
			return audit.QueueEntries(batch, now, acts...)
		})
	if err != nil {
		return nil, fmt.Errorf("store %d wallets of %s: %w", len(issued), org, err)
	}
	return stored, nil
}

// queueInserts queues the inserts of wallets that do not exist.
func queueInserts(batch *pgx.Batch, made []Wallet) {
	for _, w := range made {
		batch.Queue(insertWallet, w.insertArgs()...)
	}
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
	w := newWallet(issued, tx.Now)
	if err := b.checkIssued(w); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, insertWallet, w.insertArgs()...)
	if err != nil {
		return fmt.Errorf("insert a wallet of %s: %w", w.OrgID, err)
	}
	if tag.RowsAffected() == 1 {
		return audit.Record(ctx, tx, newIssuedEntry(w))
	}
	existing, err := findBySubject(ctx, tx, w.Ref())
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return checkSame(existing, w)
}

// newWallet returns the wallet of an address that the signer issued.
func newWallet(issued signer.IssuedAddress, now time.Time) Wallet {
	return Wallet{
		ID: id.New("adr", now), OrgID: issued.OrgID, Family: issued.Family, Purpose: issued.Purpose,
		Subject: issued.Subject, Form: issued.Form,
		Path: issued.Path, Address: issued.Address, Proof: issued.Proof, CreatedAt: now,
	}
}

// checkIssued checks the proof of a new wallet, and that its address is of the form that the proof names.
func (b *Service) checkIssued(w Wallet) error {
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
	return nil
}

// checkSame checks that the stored wallet of a subject has the address that the signer issued for it.
func checkSame(stored, issued Wallet) error {
	if stored.Address != issued.Address || stored.Path != issued.Path || stored.Form != issued.Form {
		slog.Error(
			"wallet row does not have the address that the signer issued", "wallet", stored.ID, "org",
			issued.OrgID, "purpose", issued.Purpose,
		)
		return fmt.Errorf("wallet %s of %s: %w", stored.ID, issued.OrgID, ErrProof)
	}
	return nil
}

const insertWallet = `
	INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at, form)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
	ON CONFLICT DO NOTHING`

// insertArgs returns the arguments of insertWallet.
func (w Wallet) insertArgs() []any {
	return []any{
		w.ID, w.OrgID, string(w.Family), w.Purpose, w.Subject, w.Path, string(w.Address), w.Proof, w.CreatedAt,
		string(w.Form),
	}
}

func newIssuedEntry(w Wallet) audit.Entry {
	return audit.Entry{
		OrgID: w.OrgID, Actor: audit.System("wallet"), Action: "wallet.issued", ResourceKind: "WALLET",
		ResourceID: w.ID,
		Detail:     map[string]string{"purpose": w.Purpose, "subject": w.Subject, "address": string(w.Address)},
	}
}

const columns = `wallet_id, org_id, family, purpose, subject, path, address, proof, created_at, form`

func (w *Wallet) scanTargets() []any {
	return []any{
		&w.ID, &w.OrgID, &w.Family, &w.Purpose, &w.Subject, &w.Path, &w.Address, &w.Proof, &w.CreatedAt, &w.Form,
	}
}

func scanWallet(row pgx.CollectableRow) (w Wallet, err error) {
	err = row.Scan(w.scanTargets()...)
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

// queueBySubjects queues findBySubject for references of one organization. The wallets are set, in their
// order, once the batch was sent; one that does not exist has no id.
func queueBySubjects(batch *pgx.Batch, org string, refs []signer.WalletRef) []Wallet {
	found := make([]Wallet, len(refs))
	var families, purposes, subjects []string
	for _, r := range refs {
		families, purposes, subjects = append(families, string(r.Family)), append(purposes, r.Purpose),
			append(subjects, r.Subject)
	}
	batch.Queue(`
		SELECT r.nth, w.*
		FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS r (family, purpose, subject, nth)
		CROSS JOIN LATERAL (
			SELECT `+columns+` FROM wallets s
			WHERE s.org_id = $1 AND s.family = r.family AND s.purpose = r.purpose AND s.subject >= r.subject
			ORDER BY s.subject LIMIT 1) w
		WHERE w.subject = r.subject`,
		org, families, purposes, subjects).Query(func(rows pgx.Rows) error {
		var nth int64
		var w Wallet
		_, err := pgx.ForEachRow(rows, append([]any{&nth}, w.scanTargets()...), func() error {
			found[nth-1], w.Proof = w, nil
			return nil
		})
		return err
	})
	return found
}

// QueueTreasuries queues the look-up of an organization's treasuries. Their addresses are set, as their
// rows say, once the batch was sent. A family without a treasury is missing.
func QueueTreasuries(batch *pgx.Batch, org string) func() map[chain.Family]chain.Address {
	var refs []signer.WalletRef
	for _, f := range listFamilies() {
		refs = append(refs, signer.WalletRef{OrgID: org, Family: f, Purpose: Treasury})
	}
	found := queueBySubjects(batch, org, refs)
	return func() map[chain.Family]chain.Address {
		addresses := map[chain.Family]chain.Address{}
		for _, w := range found {
			if w.ID != "" {
				addresses[w.Family] = w.Address
			}
		}
		return addresses
	}
}

// QueueOwned queues the question which of these addresses belong to wallets of Coffer. The answer is set once the batch
// was sent.
func QueueOwned(batch *pgx.Batch, f chain.Family, addresses ...chain.Address) map[chain.Address]bool {
	owned := map[chain.Address]bool{}
	texts := make([]string, 0, len(addresses))
	for _, a := range addresses {
		texts = append(texts, string(a))
	}
	batch.Queue(`
		SELECT w.address FROM unnest($2::text[]) AS k (address)
		CROSS JOIN LATERAL (SELECT address FROM wallets WHERE family = $1 AND `+pg.ByKey("address", "k.address")+`) w`,
		string(f), texts).Query(func(rows pgx.Rows) error {
		var a chain.Address
		_, err := pgx.ForEachRow(rows, []any{&a}, func() error {
			owned[a] = true
			return nil
		})
		return err
	})
	return owned
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
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM wallets
		WHERE org_id = $1 AND family = ANY ($2) AND purpose = $3 AND subject = $4 ORDER BY family`,
		org, listFamilies(), CustomerDeposit, customerID) // named, so that the key's index is used
	if err != nil {
		return nil, fmt.Errorf("read the wallets of customer %q: %w", customerID, err)
	}
	found, err := pgx.CollectRows(rows, scanWallet)
	if err != nil {
		return nil, fmt.Errorf("read the wallets of customer %q: %w", customerID, err)
	}
	return found, nil
}

// listFamilies returns all families of chains.
func listFamilies() []chain.Family {
	var families []chain.Family
	for _, name := range chain.Names {
		if f := name.Family(); !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	return families
}
