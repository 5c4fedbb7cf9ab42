// Package whitelist is the addresses that organizations may be paid out to: kept by the
// operator, usable after a cooling-off, and endorsed by the signer, which remembers them
// on its own.
//
// A row is what somebody asked for; the signer's proof makes it an address. It is
// committed before the signer is asked, under an id that is the endorsement's for ever,
// so whatever is cut off is asked for again with the same words.
//
// What never happens here: an address that is used because a row says so, without its
// proof; a row that changes what it says; an answer of the signer's that is taken for a
// no when it is none. What a crash leaves: a row that the signer has not endorsed, which
// is not usable, or one that is removed and that the signer still knows, which nobody
// can choose any more. Keep finishes both.
package whitelist

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	// CoolingOff is how long a new address is not usable where nobody says otherwise.
	CoolingOff = 24 * time.Hour
	// CoolingOffMax bounds what somebody may say.
	CoolingOffMax = 30 * 24 * time.Hour
	// LabelRunesMax bounds what people call an address.
	LabelRunesMax = 100

	idPrefix        = "wla"
	addressBytesMax = 128
	liveMax         = 500 // of one organization
)

// ErrProof says that a row is not what the signer endorsed. Somebody has to look at once.
var ErrProof = signer.ErrEndorsement

// Status is where an address stands.
type Status string

// The statuses. One that is removed never comes back: the same address is added again.
const (
	Waiting     Status = "WAITING"     // the signer has not endorsed it yet; it will be asked again
	Cooling     Status = "COOLING_OFF" // it is usable from a time on
	UsableNow   Status = "USABLE"
	RefusedHere Status = "REFUSED" // the signer says no, or the row is not what it endorsed
	Removed     Status = "REMOVED"
)

// Statuses are all of them.
var Statuses = []string{string(Waiting), string(Cooling), string(UsableNow), string(RefusedHere), string(Removed)}

// Address is one that an organization may be paid out to.
type Address struct {
	ID        string // wla_…
	OrgID     string
	Chain     chain.Name
	Address   chain.Address
	Label     string
	CreatedAt time.Time
	CreatedBy string // the operator's key
	ChangeID  string // chg_… where two operators had to agree, or ""
	NotBefore time.Time
	// UsableFrom is when it may be paid: what the signer said, and NotBefore until it has.
	UsableFrom time.Time
	Endorsed   bool
	Refusal    string // why the signer or this program refuses it, or ""
	RemovedAt  *time.Time
	RemovedBy  string

	mac, proof []byte
	journal    signer.Head // where its endorsement is; no hash
	revokedSeq *int64
}

// Status is where the address stands at a time.
func (a Address) Status(now time.Time) Status {
	switch {
	case a.RemovedAt != nil:
		return Removed
	case a.Refusal != "":
		return RefusedHere
	case !a.Endorsed:
		return Waiting
	case now.Before(a.UsableFrom):
		return Cooling
	}
	return UsableNow
}

// words are what the signer endorses.
func (a Address) words() signer.Endorsement {
	return signer.Endorsement{
		OrgID: a.OrgID, ID: a.ID, Chain: a.Chain, Address: a.Address,
		LabelHash: signer.LabelHash(a.Label), NotBefore: signer.Moment(a.NotBefore), MAC: a.mac,
	}
}

// Config is what a book needs.
type Config struct {
	AttestKey  ed25519.PublicKey // from a file of the operator's, never from the database
	Grants     *signer.GrantKey  // what the signer believes that an address was asked for by; nil where it asks nobody
	Chains     chain.Chains
	CoolingOff time.Duration // of the installation; the signer's policy may want longer
}

// Book keeps the addresses. Safe for concurrent use.
type Book struct {
	db     *pg.DB
	signer signer.Signer
	conf   Config
	log    *slog.Logger
}

// New makes a book.
func New(db *pg.DB, s signer.Signer, conf Config, log *slog.Logger) *Book {
	if len(conf.AttestKey) != ed25519.PublicKeySize {
		panic("whitelist: the attestation key is not an ed25519 public key")
	}
	return &Book{db: db, signer: s, conf: conf, log: log}
}

// Prove checks that an endorsed address says what the signer endorsed, word for word.
// Error: ErrProof, which is also logged.
func (b *Book) Prove(a Address) error {
	if !a.Endorsed {
		return nil
	}
	body := signer.EndorseBody{Endorsement: a.words(), UsableFrom: signer.Moment(a.UsableFrom), Proof: a.proof}
	if err := body.Check(b.conf.AttestKey); err != nil {
		b.log.Error("a whitelisted address does not say what the signer endorsed: somebody changed its row", "whitelisted", a.ID, "org", a.OrgID)
		return fmt.Errorf("whitelisted address %w", err)
	}
	return nil
}

func gate(org string) string { return "whitelist of " + org }

// Usable is an address that an organization may be paid out to now, in a transaction of
// the organization or of the system, which a removal waits for. Faults: NOT_FOUND;
// ADDRESS_NOT_WHITELISTED while it cools off or waits for the signer (usableFrom in the
// details), when it was removed, and when the signer refuses it. Error: ErrProof, which
// is no fault of the caller's.
func (b *Book) Usable(ctx context.Context, tx pg.Tx, orgID, whitelistedAddressID string) (Address, error) {
	if err := pg.Share(ctx, tx, gate(orgID)); err != nil {
		return Address{}, err
	}
	a, err := ByID(ctx, tx, orgID, whitelistedAddressID)
	if err != nil {
		return Address{}, err
	}
	if err := b.Prove(a); err != nil {
		return Address{}, err
	}
	no := func(format string, args ...any) error {
		return fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, format+" Nothing was held and nothing was sent. Choose another address, or ask the operator of this service.", args...).
			On("whitelistedAddressId").With("status", string(a.Status(tx.Now)))
	}
	switch a.Status(tx.Now) {
	case UsableNow:
		return a, nil
	case Removed:
		return Address{}, no("This address was removed from the whitelist.")
	case RefusedHere:
		return Address{}, no("The signer does not pay this address.")
	}
	err = fault.Of(no("This address was added a short time ago and may be used from %s on.", a.UsableFrom.UTC().Format(time.RFC3339))).
		With("usableFrom", a.UsableFrom.UTC().Format(time.RFC3339Nano))
	return Address{}, err
}

const columns = `whitelisted_address_id, org_id, chain, address, label, created_at, created_by, coalesce(change_id, ''), not_before, request_mac,
	coalesce(usable_from, not_before), proof IS NOT NULL, proof, coalesce(journal_id, ''), coalesce(journal_seq, 0), coalesce(refusal, ''),
	removed_at, coalesce(removed_by, ''), revoked_seq`

func scan(row pgx.CollectableRow) (a Address, err error) {
	var seq int64
	err = row.Scan(&a.ID, &a.OrgID, &a.Chain, &a.Address, &a.Label, &a.CreatedAt, &a.CreatedBy, &a.ChangeID, &a.NotBefore, &a.mac,
		&a.UsableFrom, &a.Endorsed, &a.proof, &a.journal.JournalID, &seq, &a.Refusal, &a.RemovedAt, &a.RemovedBy, &a.revokedSeq)
	a.journal.Seq = uint64(seq)
	return a, err
}

// ByID reads an address of an organization, as its row says. Error: NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, orgID, name string) (Address, error) {
	return read(ctx, tx, name, ` AND org_id = $2`, orgID)
}

func read(ctx context.Context, tx pg.Tx, name, and string, args ...any) (Address, error) {
	absent := fault.New(fault.NotFound, fault.CodeNotFound, "There is no such whitelisted address of this organization. Nothing was changed and no money moved.").On("whitelistedAddressId")
	if !id.Is(idPrefix, name) {
		return Address{}, absent
	}
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM whitelisted_addresses WHERE whitelisted_address_id = $1`+and, append([]any{name}, args...)...)
	if err != nil {
		return Address{}, fmt.Errorf("read whitelisted address %s: %w", name, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, absent
	}
	if err != nil {
		return a, fmt.Errorf("read whitelisted address %s: %w", name, err)
	}
	return a, nil
}

// ByID is an address of an organization for whoever looks at it. One whose row is not
// what the signer endorsed is shown as refused. Error: NOT_FOUND.
func (b *Book) ByID(ctx context.Context, tx pg.Tx, orgID, name string) (Address, error) {
	a, err := ByID(ctx, tx, orgID, name)
	if err == nil {
		b.mark(&a)
	}
	return a, err
}

func (b *Book) mark(a *Address) {
	if b.Prove(*a) != nil {
		a.Refusal = "The row is not what the signer endorsed: somebody changed it."
	}
}

// List is a page of an organization's addresses, those that were removed as well. One
// whose row is not what the signer endorsed is shown as refused.
func (b *Book) List(ctx context.Context, tx pg.Tx, orgID string, p page.Page) (page.Result[Address], error) {
	q := page.Select(`SELECT `+columns+` FROM whitelisted_addresses WHERE org_id = ?`, orgID)
	sql, args := q.Sorted(p, "created_at", "whitelisted_address_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return page.Result[Address]{}, fmt.Errorf("list the whitelisted addresses of %s: %w", orgID, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return page.Result[Address]{}, fmt.Errorf("list the whitelisted addresses of %s: %w", orgID, err)
	}
	for n := range found {
		b.mark(&found[n])
	}
	return page.Cut(p, found, func(a Address) page.Cursor { return page.Cursor{At: a.CreatedAt, ID: a.ID} }), nil
}

// Wanted is an address as an operator wants it.
type Wanted struct {
	Chain   string `json:"chain"`
	Address string `json:"address"`
	Label   string `json:"label"`
}

func (a Address) entry(by audit.Actor, action string, more map[string]any) audit.Entry {
	detail := map[string]any{"chain": a.Chain, "address": a.Address, "label": a.Label}
	for k, v := range more {
		detail[k] = v
	}
	return audit.Entry{
		OrgID: a.OrgID, Actor: by, Action: action, ResourceKind: "WHITELISTED_ADDRESS", ResourceID: a.ID, Detail: detail,
	}
}

// plain brings a label into its form, or refuses it.
func plain(label string) (string, error) {
	label = strings.TrimSpace(label)
	if label == "" || !utf8.ValidString(label) || utf8.RuneCountInString(label) > LabelRunesMax || strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest,
			"label says whose address it is in 1 to %d printable characters. Nothing was changed and no money moved. Correct it.", LabelRunesMax).On("label")
	}
	return label, nil
}
