// Package fee keeps the fees that organizations owe for what the service did: one line for each source.
// That of a swap is written in the transaction that ends it, and that of a network fee by package
// billing. A line never changes. It gets its value in dollars at most once, from a price that is kept
// with its source and time, and its invoice at most once.
//
// Nothing here moves money: the feature that writes a line posts it. A crash leaves a line without a
// value, which the pricing loop finds.
package fee

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// Kind says what a fee is for.
type Kind string

// SourceKind says what the id of a source names.
type SourceKind string

// The kinds.
const (
	SwapFee    Kind       = "SWAP_FEE"
	NetworkFee Kind       = "NETWORK_FEE" // its source is a cause of the ledger
	OfSwap     SourceKind = "SWAP"
)

// Line is a fee that an organization owes.
type Line struct {
	ID         string
	OrgID      string
	Kind       Kind
	SourceKind SourceKind
	SourceID   string
	MintID     int
	Amount     money.Amount // atomic units of the mint
	FeeBps     int
	USDValue   *money.USD // nil until it is priced
	Price      *Mark      // by which it is valued
	IncurredAt time.Time
	IsCredit   bool   // it lowers what is owed
	TxHash     string // of a network fee
	InvoiceID  string // "" until an invoice has it
}

// Mark is the price of a whole token at a moment.
type Mark struct {
	Price    money.USD
	Source   string
	QuotedAt time.Time
}

// AddLine writes the line of a source, in the transaction of what it is for. A source has one line.
func AddLine(ctx context.Context, tx pg.Tx, l Line) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, incurred_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		id.Derive("fee", l.OrgID, string(l.SourceKind), l.SourceID), l.OrgID, string(l.Kind), string(l.SourceKind),
		l.SourceID,
		l.MintID, l.Amount, l.FeeBps, l.IncurredAt)
	if err != nil {
		return fmt.Errorf("write the fee of %s %s: %w", l.SourceKind, l.SourceID, err)
	}
	return nil
}

// AddNetworkLines writes the lines of network fees, whose sources are causes of the ledger. A source that has a line
// keeps it.
func AddNetworkLines(ctx context.Context, tx pg.Tx, lines []Line) error {
	n := len(lines)
	ids, orgs, kinds, sources := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	mints, amounts, credits := make([]int, n), make([]money.Amount, n), make([]bool, n)
	hashes, times := make([]string, n), make([]time.Time, n)
	for i, l := range lines {
		ids[i], orgs[i] = id.Derive("fee", l.OrgID, string(l.SourceKind), l.SourceID), l.OrgID
		kinds[i], sources[i], mints[i], amounts[i] = string(l.SourceKind), l.SourceID, l.MintID, l.Amount
		credits[i], hashes[i], times[i] = l.IsCredit, l.TxHash, l.IncurredAt
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps,
			incurred_at, is_credit, tx_hash)
		SELECT f.id, f.org_id, 'NETWORK_FEE', f.kind, f.source, f.mint_id, f.amount, 0, f.posted_at, f.is_credit,
			f.tx_hash
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::numeric[], $7::bool[],
			$8::text[], $9::timestamptz[])
			AS f (id, org_id, kind, source, mint_id, amount, is_credit, tx_hash, posted_at)
		ON CONFLICT ON CONSTRAINT fee_lines_source_once DO NOTHING`,
		ids, orgs, kinds, sources, mints, amounts, credits, hashes, times)
	if err != nil {
		return fmt.Errorf("write the lines of %d network fees: %w", n, err)
	}
	return nil
}

// PriceByMarks values at most limit lines since a moment, of one organization or of all for "", by the newest
// mark of at most a quarter of an hour before each. A fee of a swap has as long to get the price of its own
// moment from a Pricer. The value is exact, rounded down at 18 digits.
func PriceByMarks(ctx context.Context, tx pg.Tx, orgID string, start time.Time, limit int) (int64, error) {
	tag, err := tx.Exec(ctx, `
		WITH due AS (
			SELECT l.fee_line_id, p.price_mark_id,
				div(l.amount * trunc(p.price * 1e18), ('1e' || m.decimals)::numeric) * 0.000000000000000001 AS usd_value
			FROM fee_lines l JOIN mints m ON m.mint_id = l.mint_id
			CROSS JOIN LATERAL (
				SELECT p.price_mark_id, p.price FROM price_marks p
				WHERE p.mint_id = l.mint_id
					AND p.created_at BETWEEN l.incurred_at - interval '15 minutes' AND l.incurred_at
				ORDER BY p.created_at DESC, p.price_mark_id DESC LIMIT 1) p
			WHERE l.usd_value IS NULL AND l.incurred_at >= $1 AND ($2 = '' OR l.org_id = $2)
				AND (l.kind = 'NETWORK_FEE' OR l.incurred_at < $3)
				AND l.amount * p.price < ('1e' || m.decimals)::numeric * 1e18
			ORDER BY l.fee_line_id LIMIT $4 FOR NO KEY UPDATE OF l)
		UPDATE fee_lines l SET usd_value = d.usd_value, price_mark_id = d.price_mark_id
		FROM due d WHERE l.fee_line_id = d.fee_line_id AND l.usd_value IS NULL`,
		start, orgID, tx.Now.Add(-priceLateMax), limit)
	if err != nil {
		return 0, fmt.Errorf("value lines: %w", err)
	}
	return tag.RowsAffected(), nil
}

// MintMark is a mark with its mint.
type MintMark struct {
	MintID int
	Mark
}

// StoreMarks stores marks as of a moment, but of no mint that has one between the other moment and this one. It
// returns how many it stored.
func StoreMarks(ctx context.Context, tx pg.Tx, marks []MintMark, takenAt, after time.Time) (int64, error) {
	var mints []int
	var prices []money.USD
	var sources []string
	var times []time.Time
	for _, m := range marks {
		mints, prices = append(mints, m.MintID), append(prices, m.Price)
		sources, times = append(sources, m.Source), append(times, m.QuotedAt)
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
		SELECT q.mint_id, q.price, q.source, q.quoted_at, $5
		FROM unnest($1::int[], $2::numeric[], $3::text[], $4::timestamptz[]) AS q (mint_id, price, source, quoted_at)
			JOIN mints USING (mint_id)
		WHERE NOT EXISTS (SELECT FROM price_marks p
			WHERE p.mint_id = q.mint_id AND p.created_at > $6 AND p.created_at <= $5)`,
		mints, prices, sources, times, takenAt, after)
	if err != nil {
		return 0, fmt.Errorf("store %d marks: %w", len(marks), err)
	}
	return tag.RowsAffected(), nil
}

// BindSQL binds the valued lines of an organization, $1, that became due before $2 and are on no invoice, to
// invoice $3.
const BindSQL = `UPDATE fee_lines SET invoice_id = $3
	WHERE org_id = $1 AND invoice_id IS NULL AND incurred_at < $2 AND usd_value IS NOT NULL
	RETURNING kind, is_credit, mint_id, amount, usd_value`

const selectLines = `
	SELECT l.fee_line_id, l.org_id, l.kind, l.source_kind, l.source_id, l.mint_id, l.amount, l.fee_bps, l.usd_value,
		p.price, p.source,
		p.quoted_at, l.incurred_at, l.is_credit, coalesce(l.tx_hash, ''), coalesce(l.invoice_id, '')
	FROM fee_lines l LEFT JOIN price_marks p ON p.price_mark_id = l.price_mark_id`

func scanLine(row pgx.CollectableRow) (l Line, err error) {
	var value *money.USD
	var source *string
	var quotedAt *time.Time
	err = row.Scan(&l.ID, &l.OrgID, &l.Kind, &l.SourceKind, &l.SourceID, &l.MintID, &l.Amount, &l.FeeBps, &l.USDValue,
		&value, &source, &quotedAt, &l.IncurredAt, &l.IsCredit, &l.TxHash, &l.InvoiceID)
	if err == nil && value != nil {
		l.Price = &Mark{*value, *source, *quotedAt}
	}
	return l, err
}

// Filter narrows a list of lines. A zero field does not narrow it.
type Filter struct {
	OrgID      string
	InvoiceID  string
	IsUnbilled bool      // only lines that are on no invoice
	Start, End time.Time // the first inclusive, the second exclusive
}

// MonthLayout is the form of a month.
const MonthLayout = "2006-01"

// SetMonth narrows the filter to a month in UTC. It reports whether the text is one.
func (f *Filter) SetMonth(month string) bool {
	first, err := time.Parse(MonthLayout, month)
	if err != nil || first.Format(MonthLayout) != month || first.Year() < 1 {
		return false
	}
	f.Start, f.End = first, first.AddDate(0, 1, 0)
	return true
}

func (f Filter) query() *pagination.Query {
	q := pagination.NewQuery(selectLines + ` WHERE true`)
	if f.OrgID != "" {
		q.AddCondition("l.org_id = ?", f.OrgID)
	}
	if f.InvoiceID != "" {
		q.AddCondition("l.invoice_id = ?", f.InvoiceID)
	}
	if f.IsUnbilled {
		q.AddCondition("l.invoice_id IS NULL")
	}
	if !f.Start.IsZero() {
		q.AddCondition("l.incurred_at >= ?", f.Start)
	}
	if !f.End.IsZero() {
		q.AddCondition("l.incurred_at < ?", f.End)
	}
	return q
}

// List returns a page of lines in the order of (time, id). Rule SWAP-29.
func List(ctx context.Context, tx pg.Tx, f Filter, p pagination.Page) (pagination.Result[Line], error) {
	q := f.query()
	sql, args := q.BuildPage(p, "l.incurred_at", "l.fee_line_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Line]{}, fmt.Errorf("list fees: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanLine)
	if err != nil {
		return pagination.Result[Line]{}, fmt.Errorf("list fees: %w", err)
	}
	return pagination.CutPage(p, found, func(l Line) pagination.Cursor {
		return pagination.Cursor{CreatedAt: l.IncurredAt, ID: l.ID}
	}), nil
}

// ByID returns a line, in a transaction that sees it. Error: fault NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, feeLineID string) (Line, error) {
	rows, err := tx.Query(ctx, selectLines+` WHERE l.fee_line_id = $1`, feeLineID)
	if err != nil {
		return Line{}, fmt.Errorf("read fee %s: %w", feeLineID, err)
	}
	l, err := pgx.CollectExactlyOneRow(rows, scanLine)
	if errors.Is(err, pgx.ErrNoRows) {
		return l, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "This fee does not exist.")
	}
	if err != nil {
		return l, fmt.Errorf("read fee %s: %w", feeLineID, err)
	}
	return l, nil
}

// ForEach calls fn for every line of a filter, in list order.
func ForEach(ctx context.Context, tx pg.Tx, f Filter, desc bool, fn func(Line) error) error {
	sql, args := f.query().BuildAll(desc, "l.incurred_at", "l.fee_line_id")
	if err := pg.ForEachRow(ctx, tx, sql, args, scanLine, fn); err != nil {
		return fmt.Errorf("read fees: %w", err)
	}
	return nil
}

// ListUnpriced returns the oldest lines without a value, of all organizations.
func ListUnpriced(ctx context.Context, tx pg.Tx, limit int) ([]Line, error) {
	rows, err := tx.Query(ctx,
		// The limit is no parameter, so that PostgreSQL keeps the plan.
		selectLines+fmt.Sprintf(` WHERE l.usd_value IS NULL ORDER BY l.incurred_at, l.fee_line_id LIMIT %d`, limit))
	if err != nil {
		return nil, fmt.Errorf("list fees without a value: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanLine)
	if err != nil {
		return nil, fmt.Errorf("list fees without a value: %w", err)
	}
	return found, nil
}

const (
	pricePause    = 2 * time.Second
	priceBatchMax = 100
	// priceLateMax is how long after a fee its price may be read. A later price says nothing about the
	// moment, so the line stays without a value, which the bill shows.
	priceLateMax = 15 * time.Minute
)

// Pricer gives the lines of swaps their value. Those of network fees get theirs from package billing.
type Pricer struct {
	DB     *pg.DB
	Prices price.Source
	// PriceAge returns the greatest age of a price; nil: five minutes.
	PriceAge func(mintID int) time.Duration
	Log      *slog.Logger
}

// priceAgeMax is the default of PriceAge.
const priceAgeMax = 5 * time.Minute

func (p *Pricer) priceAge(mintID int) time.Duration {
	if p.PriceAge != nil {
		return p.PriceAge(mintID)
	}
	return priceAgeMax
}

// Run prices lines until ctx ends. Any number of processes may run it. It returns nil.
func (p *Pricer) Run(ctx context.Context) error {
	for {
		if _, err := p.Step(ctx); err != nil && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "fee: cannot price lines", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pricePause):
		}
	}
}

// Step prices the lines that have no value yet and are young enough. It returns how many it priced. A line that cannot
// be priced now keeps no other one waiting.
func (p *Pricer) Step(ctx context.Context) (priced int, err error) {
	quotes := map[int]price.Quote{} // of this step, by mint; without a price for those that have none
	var last unpricedLine
	var failed []error
	for isFirst := true; ; isFirst = false {
		lines, err := p.listUnpriced(ctx, last, isFirst)
		if err != nil {
			return priced, errors.Join(append(failed, fmt.Errorf("look for fees without a value: %w", err))...)
		}
		for _, l := range lines {
			q, isAsked := quotes[l.MintID]
			if !isAsked {
				q = p.findQuote(ctx, l.MintID)
				quotes[l.MintID] = q
			}
			if q.Price == (money.USD{}) {
				continue
			}
			value, err := money.ValueOf(l.Amount, l.decimals, q.Price)
			if err != nil {
				failed = append(failed, fmt.Errorf("value of fee %s: %w", l.ID, err))
				continue
			}
			isStored, err := p.store(ctx, l.Line, q, value)
			if err != nil {
				failed = append(failed, err)
			}
			if isStored {
				priced++
			}
		}
		if len(lines) < priceBatchMax || ctx.Err() != nil {
			return priced, errors.Join(failed...)
		}
		last = lines[len(lines)-1]
	}
}

// unpricedLine is a line without a value, with the decimals of its mint.
type unpricedLine struct {
	Line
	decimals int
}

// listUnpriced returns the oldest lines without a value that are young enough, from the first or behind the last one.
func (p *Pricer) listUnpriced(ctx context.Context, last unpricedLine, isFirst bool) (lines []unpricedLine, err error) {
	err = p.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT l.fee_line_id, l.mint_id, l.amount, l.incurred_at, m.decimals FROM fee_lines l
				JOIN mints m ON m.mint_id = l.mint_id
			WHERE l.usd_value IS NULL AND l.kind = 'SWAP_FEE' AND l.incurred_at > $1
				AND ($2 OR (l.incurred_at, l.fee_line_id) > ($3::timestamptz, $4::text))
			ORDER BY l.incurred_at, l.fee_line_id LIMIT $5`,
			tx.Now.Add(-priceLateMax), isFirst, last.IncurredAt, last.ID, priceBatchMax)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l unpricedLine, err error) {
			err = row.Scan(&l.ID, &l.MintID, &l.Amount, &l.IncurredAt, &l.decimals)
			return l, err
		})
		return err
	})
	return lines, err
}

// findQuote returns the price of a mint, or none if there is no fresh one now.
func (p *Pricer) findQuote(ctx context.Context, mintID int) price.Quote {
	q, err := p.Prices.USD(ctx, mintID)
	if err != nil || price.CheckFresh(q, p.DB.Clock()(), p.priceAge(mintID)) != nil {
		return price.Quote{}
	}
	return q
}

// store writes the price and the value. A line that another process has priced keeps that value.
func (p *Pricer) store(ctx context.Context, l Line, q price.Quote, value money.USD) (isStored bool, err error) {
	err = p.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `
			WITH due AS (SELECT fee_line_id FROM fee_lines WHERE fee_line_id = $1
				AND usd_value IS NULL FOR NO KEY UPDATE),
			mark AS (
				INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
				SELECT $2::integer, $3::numeric, $4::text, $5::timestamptz, $6::timestamptz FROM due
					RETURNING price_mark_id)
			UPDATE fee_lines SET usd_value = $7, price_mark_id = mark.price_mark_id FROM mark WHERE fee_line_id = $1`,
			l.ID, l.MintID, q.Price, q.Source, q.QuotedAt, tx.Now, value)
		isStored = err == nil && tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("store the value of fee %s: %w", l.ID, err)
	}
	return isStored, nil
}
