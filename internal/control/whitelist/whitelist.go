// Package whitelist keeps the addresses to which organizations may withdraw. The operator adds
// them, they are usable after a cooling-off, and the signer endorses them and remembers them on its
// own.
//
// A row is what an operator asked for; the signer's proof makes it an address. The row is committed
// before the signer is asked, under an id that the endorsement keeps. So an interrupted request is
// repeated with the same values.
//
// Invariants:
//
//   - No address is used because of its row alone; its proof is checked.
//   - A row never changes what it says.
//   - A failed call of the signer is never taken for a refusal.
//
// A crash may leave a row that the signer has not endorsed; it is not usable. It may also leave a
// removed row that the signer still knows; it cannot be chosen any more. RunMaintenance finishes
// both.
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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	// CoolingOff is how long a new address is not usable by default.
	CoolingOff = 24 * time.Hour
	// CoolingOffMax is the longest cooling-off that can be configured.
	CoolingOffMax = 30 * 24 * time.Hour
	// LabelRunesMax is the longest label of an address, in runes.
	LabelRunesMax = 100

	idPrefix        = "wla"
	addressBytesMax = 128
	entriesMax      = 500 // of one organization
)

// ErrProof says that a row is not what the signer endorsed. It needs a person's attention at once.
var ErrProof = signer.ErrEndorsement

// Status is the state of an entry.
type Status string

// Statuses of an entry. A removed entry never comes back: the same address is added again.
const (
	StatusWaiting    Status = "WAITING"     // not endorsed yet: operators have to sign, or the signer is asked again
	StatusCoolingOff Status = "COOLING_OFF" // it is usable from UsableFrom on
	StatusUsable     Status = "USABLE"
	StatusRefused    Status = "REFUSED" // the signer refuses it, or the row is not what it endorsed
	StatusRemoved    Status = "REMOVED"
)

// Statuses lists all statuses.
var Statuses = []string{
	string(StatusWaiting), string(StatusCoolingOff), string(StatusUsable), string(StatusRefused),
	string(StatusRemoved),
}

// Entry is an address to which an organization may withdraw.
type Entry struct {
	ID        string // wla_…
	OrgID     string
	Chain     chain.Name
	Address   chain.Address
	Label     string
	CreatedAt time.Time
	CreatedBy string // the operator's key
	ChangeID  string // chg_… where two operators had to agree, or ""
	NotBefore time.Time
	// UsableFrom is when the entry becomes usable: as the signer says, or NotBefore until it has.
	UsableFrom time.Time
	Endorsed   bool
	Refusal    string // why the signer or this program refuses it, or ""
	WaitsFor   string // what the signer said last of an entry that lacks operators' signatures, or ""
	RemovedAt  *time.Time
	RemovedBy  string

	mac, proof  []byte
	journalHead signer.Head // position of its endorsement in the journal; without a hash
	revokedSeq  *int64
}

// Status returns the state of the entry at a time.
func (e Entry) Status(now time.Time) Status {
	switch {
	case e.RemovedAt != nil:
		return StatusRemoved
	case e.Refusal != "":
		return StatusRefused
	case !e.Endorsed || e.WaitsFor != "":
		return StatusWaiting
	case now.Before(e.UsableFrom):
		return StatusCoolingOff
	}
	return StatusUsable
}

// endorsement returns what the signer endorses.
func (e Entry) endorsement() signer.Endorsement {
	return signer.Endorsement{
		OrgID: e.OrgID, ID: e.ID, Chain: e.Chain, Address: e.Address,
		LabelHash: signer.HashLabel(e.Label), NotBefore: signer.FormatMicros(e.NotBefore), MAC: e.mac,
	}
}

// Config holds the configuration of a Service.
type Config struct {
	AttestKey  ed25519.PublicKey // from a file of the operator, never from the database
	GrantKey   *signer.GrantKey  // signs requests for the signer; nil if the signer requires no MAC
	Chains     chain.Chains
	CoolingOff time.Duration // of the installation; the signer's policy may require a longer one
	Approvers  Approvers     // says which operators have to sign; nil: none
}

// Service keeps the whitelist entries. It is safe for concurrent use.
type Service struct {
	db     *pg.DB
	signer signer.Signer
	conf   Config
	log    *slog.Logger
}

// New returns a Service. It panics on an invalid attestation key.
func New(db *pg.DB, s signer.Signer, conf Config, log *slog.Logger) *Service {
	if len(conf.AttestKey) != ed25519.PublicKeySize {
		panic("whitelist: the attestation key is not an ed25519 public key")
	}
	return &Service{db: db, signer: s, conf: conf, log: log}
}

// VerifyEndorsement checks that an endorsed entry says exactly what the signer endorsed. Error:
// ErrProof, which is also logged. Rule OP-8.
func (b *Service) VerifyEndorsement(e Entry) error {
	if !e.Endorsed {
		return nil
	}
	body := signer.EndorseBody{
		Endorsement: e.endorsement(), UsableFrom: signer.FormatMicros(e.UsableFrom), Proof: e.proof,
	}
	if err := body.VerifyProof(b.conf.AttestKey); err != nil {
		b.log.Error(
			"a whitelist entry differs from what the signer endorsed: the database was changed by hand",
			"whitelisted", e.ID, "org", e.OrgID,
		)
		return fmt.Errorf("whitelisted address %w", err)
	}
	return nil
}

func lockName(org string) string { return "whitelist of " + org }

// Usable returns an entry to which an organization may withdraw now. It runs in a transaction of
// the organization or of the system, and a removal waits for that transaction. Errors:
//
//   - fault NOT_FOUND,
//   - fault ADDRESS_NOT_WHITELISTED when the entry was removed or the signer refuses it,
//   - the same fault while the entry cools off or waits for the signer, with usableFrom in the
//     details,
//   - ErrProof, which the caller did not cause.
//
// Rule OP-8.
func (b *Service) Usable(ctx context.Context, tx pg.Tx, orgID, whitelistedAddressID string) (Entry, error) {
	if err := pg.LockShared(ctx, tx, lockName(orgID)); err != nil {
		return Entry{}, err
	}
	e, err := ByID(ctx, tx, orgID, whitelistedAddressID)
	if err != nil {
		return Entry{}, err
	}
	if err := b.VerifyEndorsement(e); err != nil {
		return Entry{}, err
	}
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld, format, args...).
			WithAdvice("Choose another address, or ask the operator of this service.").
			WithParam("whitelistedAddressId").WithDetail("status", string(e.Status(tx.Now)))
	}
	switch e.Status(tx.Now) {
	case StatusUsable:
		return e, nil
	case StatusRemoved:
		return Entry{}, refuse("This address was removed from the whitelist.")
	case StatusRefused:
		return Entry{}, refuse("The signer does not pay this address.")
	}
	err = fault.Find(
		refuse(
			"This address was added recently and is usable from %s on.",
			e.UsableFrom.UTC().Format(time.RFC3339),
		),
	).
		WithDetail("usableFrom", e.UsableFrom.UTC().Format(time.RFC3339Nano))
	return Entry{}, err
}

const columns = `whitelisted_address_id, org_id, chain, address, label, created_at, created_by, coalesce(change_id, ''), not_before, request_mac,
	coalesce(usable_from, not_before), proof IS NOT NULL, proof, coalesce(journal_id, ''), coalesce(journal_seq, 0), coalesce(refusal, ''),
	removed_at, coalesce(removed_by, ''), revoked_seq, coalesce(waits_for, '')`

func scanEntry(row pgx.CollectableRow) (e Entry, err error) {
	var seq int64
	err = row.Scan(&e.ID, &e.OrgID, &e.Chain, &e.Address, &e.Label, &e.CreatedAt, &e.CreatedBy, &e.ChangeID,
		&e.NotBefore, &e.mac,
		&e.UsableFrom, &e.Endorsed, &e.proof, &e.journalHead.JournalID, &seq, &e.Refusal, &e.RemovedAt, &e.RemovedBy,
		&e.revokedSeq, &e.WaitsFor)
	e.journalHead.Seq = uint64(seq)
	return e, err
}

// ByID reads an entry of an organization as its row says. Error: NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, orgID, name string) (Entry, error) {
	return readEntry(ctx, tx, name, ` AND org_id = $2`, orgID)
}

func readEntry(ctx context.Context, tx pg.Tx, name, condition string, args ...any) (Entry, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This organization does not have this whitelist entry.").WithParam("whitelistedAddressId")
	if !id.IsValid(idPrefix, name) {
		return Entry{}, notFound
	}
	rows, err := tx.Query(
		ctx, `SELECT `+columns+` FROM whitelisted_addresses WHERE whitelisted_address_id = $1`+condition,
		append([]any{name}, args...)...,
	)
	if err != nil {
		return Entry{}, fmt.Errorf("read whitelisted address %s: %w", name, err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, notFound
	}
	if err != nil {
		return e, fmt.Errorf("read whitelisted address %s: %w", name, err)
	}
	return e, nil
}

// ByID returns an entry of an organization for display. An entry whose row is not what the signer
// endorsed is shown as refused. Error: NOT_FOUND.
func (b *Service) ByID(ctx context.Context, tx pg.Tx, orgID, name string) (Entry, error) {
	e, err := ByID(ctx, tx, orgID, name)
	if err == nil {
		b.markUnproven(&e)
	}
	return e, err
}

func (b *Service) markUnproven(e *Entry) {
	if b.VerifyEndorsement(*e) != nil {
		e.Refusal = "The row differs from what the signer endorsed: the database was changed by hand."
	}
}

// List returns a page of an organization's entries, with the removed ones. An entry whose row is
// not what the signer endorsed is shown as refused.
func (b *Service) List(
	ctx context.Context, tx pg.Tx, orgID string, p pagination.Page,
) (pagination.Result[Entry], error) {
	q := pagination.NewQuery(`SELECT `+columns+` FROM whitelisted_addresses WHERE org_id = ?`, orgID)
	sql, args := q.BuildPage(p, "created_at", "whitelisted_address_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Entry]{}, fmt.Errorf("list the whitelisted addresses of %s: %w", orgID, err)
	}
	found, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return pagination.Result[Entry]{}, fmt.Errorf("list the whitelisted addresses of %s: %w", orgID, err)
	}
	for n := range found {
		b.markUnproven(&found[n])
	}
	return pagination.CutPage(
		p, found, func(e Entry) pagination.Cursor { return pagination.Cursor{CreatedAt: e.CreatedAt, ID: e.ID} },
	), nil
}

// EntryRequest is an entry that an operator asks for.
type EntryRequest struct {
	Chain   string `json:"chain"`
	Address string `json:"address"`
	Label   string `json:"label"`
}

func (e Entry) auditEntry(actor audit.Actor, action string, extra map[string]any) audit.Entry {
	detail := map[string]any{"chain": e.Chain, "address": e.Address, "label": e.Label}
	for k, v := range extra {
		detail[k] = v
	}
	return audit.Entry{
		OrgID: e.OrgID, Actor: actor, Action: action, ResourceKind: "WHITELISTED_ADDRESS", ResourceID: e.ID,
		Detail: detail,
	}
}

// parseLabel returns the trimmed label, or refuses it.
func parseLabel(label string) (string, error) {
	label = strings.TrimSpace(label)
	if label == "" || !utf8.ValidString(label) || utf8.RuneCountInString(label) > LabelRunesMax ||
		strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"label has to name the owner of the address in 1 to %d printable characters.", LabelRunesMax).
			WithAdvice("Correct it.").
			WithParam("label")
	}
	return label, nil
}
