package billing

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// CollectLines writes a line for each network fee that is in the ledger since a moment and has none. It returns
// how many it found. Rule BI-1.
func (s *Service) CollectLines(ctx context.Context, start time.Time) (found int, err error) {
	for {
		var n int
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			n, err = collectLines(ctx, tx, "", start)
			return err
		})
		if err != nil {
			return found, err
		}
		if found += n; n > 0 {
			failpoint.Hit("L01")
		}
		if n < batchMax {
			return found, nil
		}
	}
}

// networkFee is a row of the ledger that says what a transaction cost, or that it cost less.
type networkFee struct {
	OrgID, CauseKind, CauseID string
	MintID                    int
	Amount                    money.Amount
	IsCredit                  bool
	TxHash                    string
	PostedAt                  time.Time
}

// collectLines writes lines of at most one batch of fees: of one organization, or of all for "".
func collectLines(ctx context.Context, tx pg.Tx, org string, start time.Time) (int, error) {
	// The accounts of fees are few, and each has an index by time.
	rows, err := tx.Query(ctx, `
		SELECT t.org_id, t.cause_kind, t.cause_id, t.mint_id, t.amount, a.kind = 'FEES_BILLED', coalesce(o.tx_hash, ''),
			t.created_at
		FROM organizations g
		JOIN ledger_accounts a ON a.org_id = g.org_id AND a.subject = '' AND a.kind IN ('FEES_DUE', 'FEES_BILLED')
		JOIN ledger_transfers t ON t.debit_account = a.account_id
		LEFT JOIN dispatch_orders o ON o.order_id = split_part(t.cause_id, '/', 1) COLLATE "default"
		WHERE ($1 = '' OR g.org_id = $1) AND t.created_at >= $2
			AND t.cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID')
			AND NOT EXISTS (SELECT FROM fee_lines l
				WHERE l.source_kind = t.cause_kind AND l.source_id = t.cause_id COLLATE "default")
		ORDER BY t.cause_kind, t.cause_id LIMIT $3`, org, start, batchMax)
	if err != nil {
		return 0, fmt.Errorf("look for network fees without a line: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[networkFee])
	if err != nil {
		return 0, fmt.Errorf("look for network fees without a line: %w", err)
	}
	if len(found) == 0 {
		return 0, nil
	}
	lines := make([]fee.Line, len(found))
	for i, f := range found {
		lines[i] = fee.Line{
			OrgID: f.OrgID, SourceKind: fee.SourceKind(f.CauseKind), SourceID: f.CauseID, MintID: f.MintID,
			Amount: f.Amount, IsCredit: f.IsCredit, TxHash: f.TxHash, IncurredAt: f.PostedAt,
		}
	}
	return len(found), fee.AddNetworkLines(ctx, tx, lines)
}

// PriceLines gives lines since a moment that have no value the newest mark of at most a quarter of an hour
// before them. It returns how many it valued. Rules BI-3 and BI-4.
func (s *Service) PriceLines(ctx context.Context, start time.Time) (priced int64, err error) {
	for {
		var n int64
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			n, err = priceLines(ctx, tx, "", start)
			return err
		})
		priced += n
		if err != nil || n < batchMax {
			return priced, err
		}
	}
}

// priceLines values one batch of lines: of one organization, or of all for "".
func priceLines(ctx context.Context, tx pg.Tx, org string, start time.Time) (int64, error) {
	return fee.PriceByMarks(ctx, tx, org, start, batchMax)
}

// UnpricedLines returns the oldest lines of all organizations that have no value, at most limit. They wait for
// the next invoice.
func (s *Service) UnpricedLines(ctx context.Context, limit int) (lines []fee.Line, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		lines, err = fee.ListUnpriced(ctx, tx, limit)
		return err
	})
	return lines, err
}

// Lines returns the lines of an invoice, by time, as a sequence. An error ends it.
func Lines(ctx context.Context, tx pg.Tx, invoiceID string) iter.Seq2[document.Line, error] {
	return func(yield func(document.Line, error) bool) {
		errStopped := errors.New("the reader stopped")
		err := ForEachLine(ctx, tx, invoiceID, func(l document.Line) error {
			if !yield(l, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(document.Line{}, err)
		}
	}
}

// ForEachLine calls fn for every line of an invoice, by time.
func ForEachLine(ctx context.Context, tx pg.Tx, invoiceID string, fn func(document.Line) error) error {
	scan := func(row pgx.CollectableRow) (l document.Line, err error) {
		var amount money.Amount
		var decimals int
		var value, price money.USD
		var isCredit bool
		err = row.Scan(&l.FeeLineID, &l.Kind, &l.SourceKind, &l.SourceID, &l.IncurredAt, &l.TxHash, &l.Chain, &l.Symbol,
			&amount, &decimals, &value, &isCredit, &price, &l.PriceSource, &l.PricedAt)
		l.IncurredAt, l.PricedAt = l.IncurredAt.UTC(), l.PricedAt.UTC()
		l.Amount, l.USDExact = signed(isCredit, amount.Decimal(decimals)), signed(isCredit, value.String())
		l.Price = price.String()
		return l, err
	}
	err := pg.ForEachRow(ctx, tx, `
		SELECT l.fee_line_id, l.kind, l.source_kind, l.source_id, l.incurred_at, coalesce(l.tx_hash,
			s.origin_tx_hash, ''),
			m.chain, m.symbol, l.amount, m.decimals, l.usd_value, l.is_credit, p.price, p.source, p.quoted_at
		FROM fee_lines l JOIN mints m USING (mint_id) JOIN price_marks p ON p.price_mark_id = l.price_mark_id
			LEFT JOIN swaps s ON l.source_kind = 'SWAP' AND s.swap_id = l.source_id
		WHERE l.invoice_id = $1 ORDER BY l.incurred_at, l.fee_line_id`, []any{invoiceID}, scan, fn)
	if err != nil {
		return fmt.Errorf("read the lines of %s: %w", invoiceID, err)
	}
	return nil
}
