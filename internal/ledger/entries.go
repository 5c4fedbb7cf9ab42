package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Entry is a ledger transfer from the side of one of its two accounts.
type Entry struct {
	ID            int64
	Account       Account
	ContraAccount Account // the account on the other side
	Credit        bool    // true: the account received the amount
	Amount        money.Amount
	Cause         Cause
	PostedAt      time.Time
}

// Filter selects the accounts of a statement. A zero field does not narrow it.
type Filter struct {
	MintID       int
	Chain        string
	Kinds        []Kind
	Subject      string
	PostedAfter  time.Time // exclusive
	PostedBefore time.Time // exclusive
}

func (f Filter) orgQuery(org string) *pagination.Query {
	q := pagination.NewQuery(`
		SELECT e.transfer_id, a.org_id, a.mint_id, a.kind, a.subject, o.org_id, o.mint_id, o.kind, o.subject,
			e.credit, e.amount, e.cause_kind, e.cause_id, e.created_at
		FROM (
			SELECT credit_account AS account_id, debit_account AS other_id, true AS credit,
				transfer_id, amount, cause_kind, cause_id, created_at FROM ledger_transfers
			UNION ALL
			SELECT debit_account, credit_account, false,
				transfer_id, amount, cause_kind, cause_id, created_at FROM ledger_transfers
		) e
		JOIN ledger_accounts a ON a.account_id = e.account_id
		JOIN ledger_accounts o ON o.account_id = e.other_id
		WHERE a.org_id = ?`, org)
	if f.MintID != 0 {
		q.AddCondition(`a.mint_id = ?`, f.MintID)
	}
	if f.Chain != "" {
		q.AddCondition(`EXISTS (SELECT FROM mints m WHERE m.mint_id = a.mint_id AND m.chain = ?)`, f.Chain)
	}
	if len(f.Kinds) > 0 {
		q.AddCondition(`a.kind = ANY (?)`, f.Kinds)
	}
	q.SetTimeRange(f.PostedAfter, f.PostedBefore)
	if f.Subject != "" {
		q.AddCondition(`a.subject = ?`, f.Subject)
	}
	return q
}

// shows reports whether the statement includes accounts of one of the kinds.
func (f Filter) shows(kinds ...Kind) bool {
	return len(f.Kinds) == 0 || slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(f.Kinds, k) })
}

// paged returns the statement for a page. It reads the next rows of each account that the filter
// selects, or without a subject of each mint, in index order, and merges them. It never reads or
// sorts the other transfers of the organization.
func (f Filter) paged(org string, p pagination.Page) (sql string, args []any) {
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	order, than := "ASC", ">"
	if p.Desc {
		order, than = "DESC", "<"
	}
	orgID, limit := arg(org), p.LimitSQL()
	narrow := ""
	if f.MintID != 0 {
		narrow += " AND m.mint_id = " + arg(f.MintID)
	}
	if f.Chain != "" {
		narrow += " AND m.chain = " + arg(f.Chain)
	}
	kinds := ""
	if len(f.Kinds) > 0 {
		kinds = " = ANY (" + arg(f.Kinds) + ")"
	}
	window, last, cursor := "", "", ""
	after, before := p.DropImpliedBound(f.PostedAfter, f.PostedBefore)
	if !after.IsZero() {
		window += " AND t.created_at > " + arg(after)
	}
	if !before.IsZero() {
		window += " AND t.created_at < " + arg(before)
	}
	if p.Cursor != nil {
		n, err := strconv.ParseInt(p.Cursor.ID, 10, 64)
		if err != nil {
			panic("ledger: a checked cursor is invalid: " + p.Cursor.ID)
		}
		// The first condition is where the index scan starts. The second skips the entry of a
		// transfer that the page before has already shown.
		at := arg(p.Cursor.CreatedAt)
		window += " AND (t.created_at, t.transfer_id) " + than + "= (" + at + ", " + arg(n/2) + ")"
		last, cursor = " AND (t.created_at, t.transfer_id * 2 + ", ") "+than+" ("+at+", "+arg(n)+")"
	}
	// A transfer has two entries; the debit comes first: see entryID.
	entries := func(credit, account, other, from, where string) string {
		sql := "SELECT t.transfer_id, " + credit + " AS credit, " + account + " AS account_id, " + other +
			" AS other_id, t.amount, t.cause_kind, t.cause_id, t.created_at" +
			" FROM " + from + " WHERE " + where + window
		if p.Cursor != nil {
			sql += last + "(" + credit + ")::int" + cursor
		}
		sql += " ORDER BY t.created_at " + order + ", t.transfer_id " + order
		if f.Subject == "" {
			sql += ", " + credit + " " + order
		}
		return sql + " LIMIT " + limit
	}
	from := ""
	if f.Subject != "" {
		accounts := "ledger_accounts k JOIN mints m ON m.mint_id = k.mint_id" + narrow + " AND k.org_id = " +
			orgID + " AND k.subject = " + arg(f.Subject)
		if kinds != "" {
			accounts += " AND k.kind" + kinds
		}
		// The order is that of the account's index. So a page reads one page of rows, for an
		// account with few transfers or with millions.
		from = accounts + " CROSS JOIN LATERAL ((" +
			entries(
				"false", "t.debit_account", "t.credit_account", "ledger_transfers t",
				"t.debit_account = k.account_id",
			) + ") UNION ALL (" +
			entries(
				"true", "t.credit_account", "t.debit_account", "ledger_transfers t",
				"t.credit_account = k.account_id",
			) + ")) e WHERE true"
	} else {
		where := "t.org_id = " + orgID + " AND t.mint_id = m.mint_id"
		if !f.shows(Gas, Custody, FeesDue, FeesBilled) {
			// This is the condition of the partial index. Nearly all transfers of a coin that pays
			// for sweeps are fees.
			where += " AND t.cause_kind NOT IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID')"
		}
		if kinds != "" {
			// A subquery reads the account of each entry by its key. Its result is a boolean, which
			// the planner expects to be true for many rows.
			where += " AND (SELECT a.kind" + kinds + " FROM ledger_accounts a WHERE a.account_id = s.account_id)"
		}
		const sides = "ledger_transfers t CROSS JOIN LATERAL (VALUES (false, t.debit_account, t.credit_account), " +
			"(true, t.credit_account, t.debit_account)) AS s (credit, account_id, other_id)"
		from = "mints m CROSS JOIN LATERAL (" + entries(
			"s.credit", "s.account_id", "s.other_id", sides, where,
		) + ") e WHERE true" + narrow
	}
	sorted := " ORDER BY e.created_at " + order + ", " + entryID + " " + order
	return `
		SELECT e.transfer_id, a.org_id, a.mint_id, a.kind, a.subject, o.org_id, o.mint_id, o.kind, o.subject,
			e.credit, e.amount, e.cause_kind, e.cause_id, e.created_at
		FROM (SELECT e.* FROM ` + from + sorted + ` LIMIT ` + limit + `) e
		JOIN ledger_accounts a ON a.account_id = e.account_id
		JOIN ledger_accounts o ON o.account_id = e.other_id` + sorted, args
}

// entryAt and entryID sort the entries. Both sides of a transfer may be in one list: the debit is
// first.
const entryAt, entryID = "e.created_at", "(e.transfer_id * 2 + e.credit::int)"

func readEntry(row pgx.CollectableRow) (e Entry, err error) {
	err = row.Scan(&e.ID, &e.Account.OrgID, &e.Account.MintID, &e.Account.Kind, &e.Account.Subject,
		&e.ContraAccount.OrgID, &e.ContraAccount.MintID, &e.ContraAccount.Kind, &e.ContraAccount.Subject,
		&e.Credit, &e.Amount, &e.Cause.Kind, &e.Cause.ID, &e.PostedAt)
	return e, err
}

// ListEntries returns a statement: one page of what moved the selected accounts of an organization,
// each entry with its cause, in the order of (time, id). A transfer between two selected accounts
// has two entries. Rule BAL-2.
func ListEntries(
	ctx context.Context, tx pg.Tx, org string, f Filter, p pagination.Page,
) (pagination.Result[Entry], error) {
	sql, args := f.paged(org, p)
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Entry]{}, fmt.Errorf("list the entries of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, readEntry)
	if err != nil {
		return pagination.Result[Entry]{}, fmt.Errorf("list the entries of %s: %w", org, err)
	}
	return pagination.CutPage(p, found, func(e Entry) pagination.Cursor {
		n := e.ID * 2
		if e.Credit {
			n++
		}
		return pagination.Cursor{CreatedAt: e.PostedAt, ID: strconv.FormatInt(n, 10)}
	}), nil
}

// ForEachEntry calls fn for all entries that match the filter, in list order. The first error of fn
// ends it.
func ForEachEntry(ctx context.Context, tx pg.Tx, org string, f Filter, desc bool, fn func(Entry) error) error {
	sql, args := f.orgQuery(org).BuildAll(desc, entryAt, entryID)
	if err := pg.ForEachRow(ctx, tx, sql, args, readEntry, fn); err != nil {
		return fmt.Errorf("read the entries of %s: %w", org, err)
	}
	return nil
}

// ListEntriesOf returns what an event moved on accounts of these kinds, oldest first. The causes are the
// kinds of postings that follow from the event. An event has few of them.
func ListEntriesOf(
	ctx context.Context, tx pg.Tx, org, causeID string, causes []CauseKind, kinds []Kind,
) ([]Entry, error) {
	// Each kind of cause is one read of the index on (cause_kind, cause_id): an array operator may not run
	// before the row-level security policies.
	rows, err := tx.Query(ctx, `
		SELECT t.transfer_id, a.org_id, a.mint_id, a.kind, a.subject, o.org_id, o.mint_id, o.kind, o.subject,
			s.credit, t.amount, t.cause_kind, t.cause_id, t.created_at
		FROM unnest($3::text[]) AS k (cause_kind)
		CROSS JOIN LATERAL (
			SELECT * FROM ledger_transfers l WHERE l.cause_kind = k.cause_kind AND l.cause_id = $2 AND l.org_id = $1
		) t
		CROSS JOIN LATERAL (VALUES
			(false, t.debit_account, t.credit_account), (true, t.credit_account, t.debit_account))
			AS s (credit, account_id, other_id)
		JOIN ledger_accounts a ON a.account_id = s.account_id
		JOIN ledger_accounts o ON o.account_id = s.other_id
		WHERE a.kind = ANY ($4) ORDER BY t.created_at, t.transfer_id, s.credit`, org, causeID, causes, kinds)
	if err != nil {
		return nil, fmt.Errorf("list the entries of %s: %w", causeID, err)
	}
	found, err := pgx.CollectRows(rows, readEntry)
	if err != nil {
		return nil, fmt.Errorf("list the entries of %s: %w", causeID, err)
	}
	return found, nil
}
