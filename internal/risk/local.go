package risk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// LocalName is the provider that reads the list of this installation, for networks without real
// money.
const LocalName = "LOCAL"

// LocalListEntry is an entry of the local list: a severity with its details, or an outage, which
// acts as if the provider were down for this address.
type LocalListEntry struct {
	Address    string
	Outage     bool
	Severity   Severity // may be UNKNOWN
	Score      *int
	Entity     string
	Categories []string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

const (
	addressBytesMax    = 200
	entityBytesMax     = 200
	categoryBytesMax   = 100
	entryCategoriesMax = 20
)

// checkText refuses unprintable text.
func checkText(param, s string, bytesMax int) error {
	if s == "" || len(s) > bytesMax || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) }) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%s has to have 1 to %d bytes of printable text.", param, bytesMax).WithParam(param)
	}
	return nil
}

// CheckAddress refuses text that is no address on any chain. Error: INVALID_REQUEST.
func CheckAddress(address string) error {
	if len(address) > addressBytesMax || address == "" ||
		strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"An address has to have 1 to %d letters, digits and signs.", addressBytesMax).WithParam("address")
	}
	return nil
}

func (e LocalListEntry) validate() error {
	if err := CheckAddress(e.Address); err != nil {
		return err
	}
	refuse := func(param, text string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%s", text).
			WithParam(param)
	}
	if e.Outage {
		if e.Severity != "" || e.Score != nil || e.Entity != "" || len(e.Categories) > 0 {
			return refuse("outage", "An outage says nothing about the address: leave the other fields out.")
		}
		return nil
	}
	if e.Severity != Unknown && !slices.Contains(Severities, e.Severity) {
		return refuse("severity", "The severity has to be NONE, LOW, MEDIUM, HIGH, SEVERE or UNKNOWN.")
	}
	if e.Score != nil && (*e.Score < 0 || *e.Score > 100) {
		return refuse("score", "The score has to be a whole number from 0 to 100.")
	}
	if e.Entity != "" {
		if err := checkText("entity", e.Entity, entityBytesMax); err != nil {
			return err
		}
	}
	if len(e.Categories) > entryCategoriesMax {
		return refuse("categories", fmt.Sprintf("There may be at most %d categories.", entryCategoriesMax))
	}
	for _, c := range e.Categories {
		if err := checkText("categories", c, categoryBytesMax); err != nil {
			return err
		}
	}
	return nil
}

const entryColumns = `address, outage, coalesce(severity, ''), score, coalesce(entity, ''), categories, created_at, updated_at`

func readEntry(row pgx.CollectableRow) (e LocalListEntry, err error) {
	err = row.Scan(&e.Address, &e.Outage, &e.Severity, &e.Score, &e.Entity, &e.Categories, &e.CreatedAt, &e.UpdatedAt)
	return e, err
}

// checkReadable refuses text that no configured chain parses as an address. An entry for a mistyped
// address would never match, and a test of screening would then show nothing. A sender may be an
// account without a key, which only ParseContract accepts. Rule RISK-15.
func checkReadable(address string, chains chain.Chains) error {
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		g := chains[name].AddressCodec
		if _, err := g.Parse(address); err == nil {
			return nil
		}
		if _, err := g.ParseContract(address); err == nil {
			return nil
		}
	}
	return fault.New(fault.Invalid, fault.InvalidAddress, fault.NothingWritten,
		"No configured chain can parse this address, so screening would never find the entry.").
		WithAdvice("Check its letters, its length and its checksum.").
		WithParam("address")
}

// SetLocalEntry adds an address of one of the chains to the local list, or replaces its entry. It
// writes the audit row. Errors: INVALID_REQUEST, INVALID_ADDRESS.
func SetLocalEntry(
	ctx context.Context, tx pg.Tx, chains chain.Chains, actor audit.Actor, e LocalListEntry,
) (LocalListEntry, error) {
	if err := e.validate(); err != nil {
		return LocalListEntry{}, err
	}
	if err := checkReadable(e.Address, chains); err != nil {
		return LocalListEntry{}, err
	}
	if e.Categories == nil {
		e.Categories = []string{}
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO local_risk (address_key, address, outage, severity, score, entity, categories, created_at, updated_at)
		VALUES ($1, $2, $3, nullif($4, ''), $5, nullif($6, ''), $7, $8, $8)
		ON CONFLICT (address_key) DO UPDATE SET address = EXCLUDED.address, outage = EXCLUDED.outage, severity = EXCLUDED.severity,
			score = EXCLUDED.score, entity = EXCLUDED.entity, categories = EXCLUDED.categories, updated_at = EXCLUDED.updated_at
		RETURNING `+entryColumns,
		CanonicalAddress(e.Address), e.Address, e.Outage, string(e.Severity), e.Score, e.Entity, e.Categories, tx.Now)
	if err != nil {
		return LocalListEntry{}, fmt.Errorf("write %s to the local list: %w", e.Address, err)
	}
	stored, err := pgx.CollectExactlyOneRow(rows, readEntry)
	if err != nil {
		return LocalListEntry{}, fmt.Errorf("write %s to the local list: %w", e.Address, err)
	}
	return stored, audit.Record(ctx, tx, audit.Entry{
		Actor: actor, Action: "local_risk.set", ResourceKind: "ADDRESS", ResourceID: e.Address,
		Detail: map[string]any{
			"outage":   e.Outage,
			"severity": string(e.Severity), "score": e.Score, "entity": e.Entity, "categories": e.Categories,
		},
	})
}

// DeleteLocalEntry removes an address from the local list and writes the audit row. It returns the
// removed entry. Error: NOT_FOUND.
func DeleteLocalEntry(ctx context.Context, tx pg.Tx, actor audit.Actor, address string) (LocalListEntry, error) {
	if err := CheckAddress(address); err != nil {
		return LocalListEntry{}, err
	}
	rows, err := tx.Query(ctx, `DELETE FROM local_risk WHERE address_key = $1 RETURNING `+entryColumns,
		CanonicalAddress(address))
	if err != nil {
		return LocalListEntry{}, fmt.Errorf("remove %s from the local list: %w", address, err)
	}
	removed, err := pgx.CollectExactlyOneRow(rows, readEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return LocalListEntry{}, newNoEntry()
	}
	if err != nil {
		return LocalListEntry{}, fmt.Errorf("remove %s from the local list: %w", address, err)
	}
	return removed, audit.Record(ctx, tx,
		audit.Entry{Actor: actor, Action: "local_risk.cleared", ResourceKind: "ADDRESS", ResourceID: address})
}

func newNoEntry() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"The local list does not have this address.").
		WithStep(fault.ListLocalRisk)
}

// LoadLocalEntry returns the entry of an address. Error: NOT_FOUND.
func LoadLocalEntry(ctx context.Context, tx pg.Tx, address string) (LocalListEntry, error) {
	rows, err := tx.Query(ctx, `SELECT `+entryColumns+` FROM local_risk WHERE address_key = $1`,
		CanonicalAddress(address))
	if err != nil {
		return LocalListEntry{}, fmt.Errorf("look up %s in the local list: %w", address, err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, readEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return LocalListEntry{}, newNoEntry()
	}
	if err != nil {
		return LocalListEntry{}, fmt.Errorf("look up %s in the local list: %w", address, err)
	}
	return e, nil
}

// ListLocalEntries returns a page of the local list.
func ListLocalEntries(ctx context.Context, tx pg.Tx, p pagination.Page) (pagination.Result[LocalListEntry], error) {
	q := pagination.NewQuery(`SELECT ` + entryColumns + ` FROM local_risk WHERE true`)
	sql, args := q.BuildPage(p, "created_at", "address_key")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[LocalListEntry]{}, fmt.Errorf("read the local list: %w", err)
	}
	found, err := pgx.CollectRows(rows, readEntry)
	if err != nil {
		return pagination.Result[LocalListEntry]{}, fmt.Errorf("read the local list: %w", err)
	}
	return pagination.CutPage(p, found, func(e LocalListEntry) pagination.Cursor {
		return pagination.Cursor{CreatedAt: e.CreatedAt, ID: CanonicalAddress(e.Address)}
	}), nil
}

// LocalScreener is the provider that answers from the local list. An address outside the list is
// LOW, as if the provider had seen it once. It is for networks without real money: the
// configuration refuses it on any other.
type LocalScreener struct{ DB *pg.DB }

// Name returns LOCAL.
func (LocalScreener) Name() string { return LocalName }

// Covers returns true for every chain.
func (LocalScreener) Covers(chain.Name) bool { return true }

// Screen reads the present list. Error: ErrUnavailable for an entry with an outage.
func (l LocalScreener) Screen(ctx context.Context, s Subject) (Verdict, error) {
	var e LocalListEntry
	err := l.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		e, err = LoadLocalEntry(ctx, tx, string(s.Address))
		return err
	})
	v := Verdict{
		Provider: LocalName, Severity: Low, IsKnown: true, Categories: []string{}, Direct: true,
		GivenAt: l.DB.Clock()(),
	}
	switch {
	case fault.HasCode(err, fault.CodeNotFound):
		v.Raw = json.RawMessage(`{"listed":false}`)
		return v, nil
	case err != nil:
		return Verdict{}, Unavailable("%w", err)
	case e.Outage:
		return Verdict{}, NotRetryable("the local list has an outage for this address")
	}
	v.Severity, v.IsKnown, v.Score, v.Entity, v.Categories, v.OwnerCategories = e.Severity, e.Severity != Unknown,
		e.Score, e.Entity, e.Categories, e.Categories
	v.Raw, err = json.Marshal(map[string]any{
		"listed": true, "severity": e.Severity, "score": e.Score, "entity": e.Entity, "categories": e.Categories,
	})
	if err != nil {
		return Verdict{}, Unavailable("%w", err)
	}
	return v, nil
}
