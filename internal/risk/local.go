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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
)

// LocalName is the provider that reads the list of this installation, for networks
// without real money.
const LocalName = "LOCAL"

// Entry is what the local list says of an address: a severity with what stands
// beside it, or that the provider is down when asked about it.
type Entry struct {
	Address    string
	Outage     bool
	Severity   Severity // UNKNOWN is one here
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

// checkText refuses what nobody could read.
func checkText(param, s string, bytesMax int) error {
	if s == "" || len(s) > bytesMax || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) }) {
		return fault.New(fault.Invalid, fault.InvalidRequest, "%s has 1 to %d bytes of printable text. Nothing was changed and no money moved.", param, bytesMax).On(param)
	}
	return nil
}

// CheckAddress refuses what is no address of any chain. Error: INVALID_REQUEST.
func CheckAddress(address string) error {
	if len(address) > addressBytesMax || address == "" || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.New(fault.Invalid, fault.InvalidRequest, "An address has 1 to %d letters, digits and signs. Nothing was changed and no money moved.", addressBytesMax).On("address")
	}
	return nil
}

func (e Entry) check() error {
	if err := CheckAddress(e.Address); err != nil {
		return err
	}
	bad := func(param, text string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, "%s Nothing was changed and no money moved.", text).On(param)
	}
	if e.Outage {
		if e.Severity != "" || e.Score != nil || e.Entity != "" || len(e.Categories) > 0 {
			return bad("outage", "An outage says nothing of the address: leave the other fields out.")
		}
		return nil
	}
	if e.Severity != Unknown && !slices.Contains(Severities, e.Severity) {
		return bad("severity", "The severity is NONE, LOW, MEDIUM, HIGH, SEVERE or UNKNOWN.")
	}
	if e.Score != nil && (*e.Score < 0 || *e.Score > 100) {
		return bad("score", "The score is a whole number from 0 to 100.")
	}
	if e.Entity != "" {
		if err := checkText("entity", e.Entity, entityBytesMax); err != nil {
			return err
		}
	}
	if len(e.Categories) > entryCategoriesMax {
		return bad("categories", fmt.Sprintf("There are at most %d categories.", entryCategoriesMax))
	}
	for _, c := range e.Categories {
		if err := checkText("categories", c, categoryBytesMax); err != nil {
			return err
		}
	}
	return nil
}

const entryColumns = `address, outage, coalesce(severity, ''), score, coalesce(entity, ''), categories, created_at, updated_at`

func readEntry(row pgx.CollectableRow) (e Entry, err error) {
	err = row.Scan(&e.Address, &e.Outage, &e.Severity, &e.Score, &e.Entity, &e.Categories, &e.CreatedAt, &e.UpdatedAt)
	return e, err
}

// checkReadable refuses what no configured chain reads as an address: an entry for a
// mistyped address is never found, and a test of screening then shows nothing. A sender
// may be an account without a key, which only ParseContract reads.
func checkReadable(address string, chains chain.Chains) error {
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		g := chains[name].Grammar
		if _, err := g.Parse(address); err == nil {
			return nil
		}
		if _, err := g.ParseContract(address); err == nil {
			return nil
		}
	}
	return fault.New(fault.Invalid, fault.InvalidAddress,
		"No configured chain reads this as an address, so screening would never find the entry. Nothing was changed and no money moved. Check its letters, its length and its checksum.").On("address")
}

// SetLocal puts an address of one of the chains on the local list, or replaces what the
// list says of it. It writes the audit row. Errors: INVALID_REQUEST, INVALID_ADDRESS.
func SetLocal(ctx context.Context, tx pg.Tx, chains chain.Chains, by audit.Actor, e Entry) (Entry, error) {
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	if err := checkReadable(e.Address, chains); err != nil {
		return Entry{}, err
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
		Canonical(e.Address), e.Address, e.Outage, string(e.Severity), e.Score, e.Entity, e.Categories, tx.Now)
	if err != nil {
		return Entry{}, fmt.Errorf("put %s on the local list: %w", e.Address, err)
	}
	set, err := pgx.CollectExactlyOneRow(rows, readEntry)
	if err != nil {
		return Entry{}, fmt.Errorf("put %s on the local list: %w", e.Address, err)
	}
	return set, audit.Record(ctx, tx, audit.Entry{
		Actor: by, Action: "local_risk.set", ResourceKind: "ADDRESS", ResourceID: e.Address,
		Detail: map[string]any{"outage": e.Outage, "severity": string(e.Severity), "score": e.Score, "entity": e.Entity, "categories": e.Categories},
	})
}

// ClearLocal takes an address off the local list and writes the audit row. It returns
// what the list said. Error: NOT_FOUND.
func ClearLocal(ctx context.Context, tx pg.Tx, by audit.Actor, address string) (Entry, error) {
	if err := CheckAddress(address); err != nil {
		return Entry{}, err
	}
	rows, err := tx.Query(ctx, `DELETE FROM local_risk WHERE address_key = $1 RETURNING `+entryColumns, Canonical(address))
	if err != nil {
		return Entry{}, fmt.Errorf("take %s off the local list: %w", address, err)
	}
	gone, err := pgx.CollectExactlyOneRow(rows, readEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, noEntry()
	}
	if err != nil {
		return Entry{}, fmt.Errorf("take %s off the local list: %w", address, err)
	}
	return gone, audit.Record(ctx, tx, audit.Entry{Actor: by, Action: "local_risk.cleared", ResourceKind: "ADDRESS", ResourceID: address})
}

func noEntry() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, "The local list says nothing of this address. Nothing was changed and no money moved. GET /local-risk shows what it has.")
}

// LocalEntry is what the local list says of an address. Error: NOT_FOUND.
func LocalEntry(ctx context.Context, tx pg.Tx, address string) (Entry, error) {
	rows, err := tx.Query(ctx, `SELECT `+entryColumns+` FROM local_risk WHERE address_key = $1`, Canonical(address))
	if err != nil {
		return Entry{}, fmt.Errorf("look on the local list for %s: %w", address, err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, readEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, noEntry()
	}
	if err != nil {
		return Entry{}, fmt.Errorf("look on the local list for %s: %w", address, err)
	}
	return e, nil
}

// LocalEntries is the local list, a page at a time.
func LocalEntries(ctx context.Context, tx pg.Tx, p page.Page) (page.Result[Entry], error) {
	q := page.Select(`SELECT ` + entryColumns + ` FROM local_risk WHERE true`)
	sql, args := q.Sorted(p, "created_at", "address_key")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return page.Result[Entry]{}, fmt.Errorf("read the local list: %w", err)
	}
	found, err := pgx.CollectRows(rows, readEntry)
	if err != nil {
		return page.Result[Entry]{}, fmt.Errorf("read the local list: %w", err)
	}
	return page.Cut(p, found, func(e Entry) page.Cursor { return page.Cursor{At: e.CreatedAt, ID: Canonical(e.Address)} }), nil
}

// Local is the provider that answers from the local list. An address that is not on
// it is LOW, as if the provider had seen it once. It is for networks without real
// money: the configuration refuses it on any other.
type Local struct{ DB *pg.DB }

// Name is LOCAL.
func (Local) Name() string { return LocalName }

// Covers every chain.
func (Local) Covers(chain.Name) bool { return true }

// Screen reads the list as it is now. Error: ErrUnavailable where the list says so.
func (l Local) Screen(ctx context.Context, s Subject) (Verdict, error) {
	var e Entry
	err := l.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		e, err = LocalEntry(ctx, tx, string(s.Address))
		return err
	})
	v := Verdict{Provider: LocalName, Severity: Low, Known: true, Categories: []string{}, Direct: true, At: l.DB.Clock()()}
	switch {
	case fault.Is(err, fault.CodeNotFound):
		v.Raw = json.RawMessage(`{"listed":false}`)
		return v, nil
	case err != nil:
		return Verdict{}, Unavailable("%w", err)
	case e.Outage:
		return Verdict{}, Final("the local list has an outage for this address")
	}
	v.Severity, v.Known, v.Score, v.Entity, v.Categories, v.Owner = e.Severity, e.Severity != Unknown, e.Score, e.Entity, e.Categories, e.Categories
	v.Raw, err = json.Marshal(map[string]any{"listed": true, "severity": e.Severity, "score": e.Score, "entity": e.Entity, "categories": e.Categories})
	if err != nil {
		return Verdict{}, Unavailable("%w", err)
	}
	return v, nil
}
