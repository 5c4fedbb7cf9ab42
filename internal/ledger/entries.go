package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
)

// Entry is a transfer as one of its two accounts sees it.
type Entry struct {
	ID      int64
	Account Account
	Other   Account // where it went to, or came from
	Credit  bool    // true: the account received the amount
	Amount  money.Amount
	Cause   Cause
	At      time.Time
}

// Filter picks the accounts of a statement; zero members do not narrow it.
type Filter struct {
	MintID  int
	Chain   string
	Kinds   []Kind
	Subject string
	After   time.Time // exclusive
	Before  time.Time // exclusive
}

func (f Filter) query(org string) *page.Query {
	q := page.Select(`
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
		q.And(`a.mint_id = ?`, f.MintID)
	}
	if f.Chain != "" {
		q.And(`EXISTS (SELECT FROM mints m WHERE m.mint_id = a.mint_id AND m.chain = ?)`, f.Chain)
	}
	if len(f.Kinds) > 0 {
		kinds := make([]string, len(f.Kinds))
		for i, k := range f.Kinds {
			kinds[i] = string(k)
		}
		q.And(`a.kind = ANY (?)`, kinds)
	}
	if !f.After.IsZero() {
		q.And(`e.created_at > ?`, f.After)
	}
	if !f.Before.IsZero() {
		q.And(`e.created_at < ?`, f.Before)
	}
	if f.Subject != "" {
		q.And(`a.subject = ?`, f.Subject)
	}
	return q
}

// Both sides of a transfer may be in one list: the debit comes first.
const entryAt, entryID = "e.created_at", "(e.transfer_id * 2 + e.credit::int)"

func readEntry(row pgx.CollectableRow) (e Entry, err error) {
	err = row.Scan(&e.ID, &e.Account.OrgID, &e.Account.MintID, &e.Account.Kind, &e.Account.Subject,
		&e.Other.OrgID, &e.Other.MintID, &e.Other.Kind, &e.Other.Subject,
		&e.Credit, &e.Amount, &e.Cause.Kind, &e.Cause.ID, &e.At)
	return e, err
}

// Entries are what moved the accounts of an organization that the filter picks,
// each with its cause: a statement, one page in the order of (at, id). A
// transfer between two picked accounts appears once for each.
func Entries(ctx context.Context, tx pg.Tx, org string, f Filter, p page.Page) (page.Result[Entry], error) {
	sql, args := f.query(org).Sorted(p, entryAt, entryID)
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return page.Result[Entry]{}, fmt.Errorf("list the entries of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, readEntry)
	if err != nil {
		return page.Result[Entry]{}, fmt.Errorf("list the entries of %s: %w", org, err)
	}
	return page.Cut(p, found, func(e Entry) page.Cursor {
		n := e.ID * 2
		if e.Credit {
			n++
		}
		return page.Cursor{At: e.At, ID: strconv.FormatInt(n, 10)}
	}), nil
}

// EachEntry hands on all the entries that the filter leaves, in the order of a
// list. The first error of fn ends it.
func EachEntry(ctx context.Context, tx pg.Tx, org string, f Filter, desc bool, fn func(Entry) error) error {
	sql, args := f.query(org).Whole(desc, entryAt, entryID)
	if err := pg.Each(ctx, tx, sql, args, readEntry, fn); err != nil {
		return fmt.Errorf("read the entries of %s: %w", org, err)
	}
	return nil
}
