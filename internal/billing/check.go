package billing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Verification is what an invoice is, computed again.
type Verification struct {
	Invoice Invoice
	Lines   int64
	// Difference says where the invoice first differs from what it is computed from; "" if nowhere.
	Difference string
	// ChainFees counts the network fees that their chains confirmed, and Unread names those whose transactions no chain
	// showed: see VerifyOnChain.
	ChainFees int64
	Unread    []UnreadFee
}

// Verify computes an invoice again: each line from the ledger, the order that a final block ended, and the
// mark, then the sections from the lines, the totals from the sections, and the document from all of them. It
// names the first line that differs, by time. Error: fault NOT_FOUND. Rule BI-16.
func (s *Service) Verify(ctx context.Context, invoiceID string) (v Verification, err error) {
	err = s.DB.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		v = Verification{}
		if v.Invoice, err = LoadInvoice(ctx, tx, invoiceID); err != nil {
			return err
		}
		if v.Difference, err = findLineDifference(ctx, tx, invoiceID); err != nil || v.Difference != "" {
			return err
		}
		v.Difference, v.Lines, err = compareSums(ctx, tx, v.Invoice)
		return err
	})
	return v, err
}

// findLineDifference describes the first line, by time, that is not what the ledger, its order and its mark say.
func findLineDifference(ctx context.Context, tx pg.Tx, invoiceID string) (string, error) {
	var lineID, problem string
	err := tx.QueryRow(ctx, `
		SELECT x.fee_line_id, x.problem FROM (
			SELECT l.fee_line_id, l.incurred_at, CASE
				WHEN l.org_id <> i.org_id THEN 'it is of another organization'
				WHEN l.incurred_at >= i.ends_at THEN 'it is of a later month'
				WHEN l.kind = 'NETWORK_FEE' AND t.transfer_id IS NULL THEN 'the ledger has no such fee'
				WHEN l.kind = 'NETWORK_FEE' AND ((t.org_id, t.mint_id, t.amount, t.created_at)
						IS DISTINCT FROM (l.org_id, l.mint_id, l.amount, l.incurred_at)
					OR d.kind IS DISTINCT FROM CASE WHEN l.is_credit THEN 'FEES_BILLED' ELSE 'FEES_DUE' END)
					THEN format('the ledger has %s of mint %s at %s', t.amount, t.mint_id, t.created_at)
				WHEN l.source_kind IN ('NETWORK_FEE', 'FEE_CHANGE') AND o.fee IS DISTINCT FROM (
					SELECT sum(CASE a.kind WHEN 'FEES_DUE' THEN f.amount ELSE -f.amount END)
					FROM ledger_transfers f JOIN ledger_accounts a ON a.account_id = f.debit_account
					WHERE f.leg = 1 AND (f.cause_kind = 'NETWORK_FEE' AND f.cause_id = o.order_id COLLATE "C"
						OR f.cause_kind = 'FEE_CHANGE' AND f.cause_id IN (SELECT (o.order_id || '/' || n) COLLATE "C"
							FROM generate_series(1, p.fork) n)))
					THEN format('the order was proven on chain to cost %s', coalesce(o.fee::text, 'nothing'))
				WHEN l.kind = 'SWAP_FEE' AND (s.org_id, s.from_mint_id, s.fee_amount, s.completed_at)
					IS DISTINCT FROM (l.org_id, l.mint_id, l.amount, l.incurred_at)
					THEN format('the swap has a fee of %s of mint %s', s.fee_amount, s.from_mint_id)
				WHEN k.price_mark_id IS NULL OR k.mint_id <> l.mint_id THEN 'it has no price of its mint'
				WHEN l.kind = 'NETWORK_FEE'
					AND k.created_at NOT BETWEEN l.incurred_at - interval '15 minutes' AND l.incurred_at
					THEN format('its price is of %s', k.created_at)
				WHEN l.kind = 'NETWORK_FEE' AND trunc(l.usd_value * 1e18) <> v.exact
					OR abs(trunc(l.usd_value * 1e18) - v.exact) > 1
					THEN format('by its price it is worth %s, and it says %s', v.exact * 0.000000000000000001,
						l.usd_value)
				END AS problem
			FROM fee_lines l JOIN invoices i ON i.invoice_id = l.invoice_id JOIN mints m ON m.mint_id = l.mint_id
			LEFT JOIN ledger_transfers t ON l.kind = 'NETWORK_FEE' AND t.cause_kind = l.source_kind
				AND t.cause_id = l.source_id COLLATE "C" AND t.leg = CASE l.source_kind WHEN 'FEE_PREPAID' THEN 0
					ELSE 1 END
			LEFT JOIN ledger_accounts d ON d.account_id = t.debit_account
			LEFT JOIN dispatch_orders o ON l.kind = 'NETWORK_FEE' AND o.order_id = split_part(l.source_id, '/', 1)
			LEFT JOIN finality_proofs p ON p.proof_id = o.proof_id
			LEFT JOIN swaps s ON l.kind = 'SWAP_FEE' AND s.swap_id = l.source_id
			LEFT JOIN price_marks k ON k.price_mark_id = l.price_mark_id
			CROSS JOIN LATERAL (
				SELECT div(l.amount * trunc(k.price * 1e18), ('1e' || m.decimals)::numeric) AS exact) v
			WHERE l.invoice_id = $1) x
		WHERE x.problem IS NOT NULL ORDER BY x.incurred_at, x.fee_line_id LIMIT 1`, invoiceID).Scan(&lineID, &problem)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("compute the lines of %s again: %w", invoiceID, err)
	}
	return fmt.Sprintf("line %s: %s", lineID, problem), nil
}

// compareSums describes where the sections, the totals or the document of an invoice are not what its lines say.
func compareSums(ctx context.Context, tx pg.Tx, inv Invoice) (difference string, lines int64, err error) {
	x, err := loadSections(ctx, tx,
		`WITH bound AS (SELECT kind, is_credit, mint_id, amount, usd_value FROM fee_lines WHERE invoice_id = $1)`+
			selectSections, inv.ID)
	if err != nil {
		return "", 0, err
	}
	lines = x.lines()
	var encoded json.RawMessage
	var hash []byte
	var rateBps int
	var total money.USD
	err = tx.QueryRow(ctx, `SELECT document, document_hash, tax_rate_bps, total FROM invoices WHERE invoice_id = $1`,
		inv.ID).Scan(&encoded, &hash, &rateBps, &total)
	if err != nil {
		return "", lines, fmt.Errorf("read the document of %s: %w", inv.ID, err)
	}
	var d document.Invoice
	if err := json.Unmarshal(encoded, &d); err != nil {
		return "", lines, fmt.Errorf("read the document of %s: %w", inv.ID, err)
	}
	frozen, _, err := freeze(d)
	if err != nil {
		return "", lines, err
	}
	if sum := sha256.Sum256(frozen); !bytes.Equal(sum[:], hash) {
		return "the document is not the one that was issued: its hash differs", lines, nil
	}
	printed := x.printed()
	for i := range max(len(printed), len(d.Sections)) {
		if i >= len(printed) || i >= len(d.Sections) || printed[i] != d.Sections[i] {
			return fmt.Sprintf("section %d differs from the sum of its lines", i+1), lines, nil
		}
	}
	tax := taxOn(x.subtotal, rateBps)
	sum := new(big.Int).Add(x.subtotal, tax)
	if usdToCents(d.Subtotal).Cmp(x.subtotal) != 0 || usdToCents(d.Tax).Cmp(tax) != 0 ||
		usdToCents(d.Total).Cmp(sum) != 0 || usdToCents(total).Cmp(sum) != 0 {
		return fmt.Sprintf("the total is %s, and the sections make %s", d.Total.Cents(), formatCents(sum)), lines, nil
	}
	if d.Number != inv.Number || d.Month != inv.Month || !d.Issued.Equal(inv.IssuedAt) {
		return "the document has another number, month or time than the invoice", lines, nil
	}
	return "", lines, nil
}
