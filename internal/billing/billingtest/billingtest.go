// Package billingtest gives other packages' tests fees and invoices.
//
// Its fees have no posting in the ledger behind them, so package billing says that an invoice of them differs from the
// books. A crash leaves nothing that outlives a test.
package billingtest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Fee is a network fee.
type Fee struct {
	OrgID      string
	SourceKind string // "" is NETWORK_FEE
	SourceID   string
	MintID     int
	Amount     uint64
	IsCredit   bool
	Price      string // of a whole coin in dollars; "" for none
	TxHash     string
	IncurredAt time.Time
}

// ID returns the id of the fee, as the service computes it.
func (f Fee) ID() string { return id.Derive("fee", f.OrgID, f.sourceKind(), f.SourceID) }

func (f Fee) sourceKind() string {
	if f.SourceKind == "" {
		return "NETWORK_FEE"
	}
	return f.SourceKind
}

// InsertFees inserts fees, each with a price of its own, in a transaction of the superuser without triggers.
func InsertFees(ctx context.Context, tx pgx.Tx, fees ...Fee) error {
	for _, f := range fees {
		_, err := tx.Exec(ctx, `
			WITH mark AS (
				INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
				SELECT $5::integer, nullif($8::text, '')::numeric, 'COINGECKO',
					$10::timestamptz - interval '2 minutes', $10
				WHERE $8::text <> '' RETURNING price_mark_id, price)
			INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps,
				is_credit, tx_hash, incurred_at, usd_value, price_mark_id)
			SELECT $1, $2, 'NETWORK_FEE', $3, $4, m.mint_id, $6, 0, $7, $9, $10,
				div($6::numeric * trunc(mark.price * 1e18), ('1e' || m.decimals)::numeric) * 0.000000000000000001,
				mark.price_mark_id
			FROM mints m LEFT JOIN mark ON true WHERE m.mint_id = $5`,
			f.ID(), f.OrgID, f.sourceKind(), f.SourceID, f.MintID, fmt.Sprint(f.Amount), f.IsCredit, f.Price, f.TxHash,
			f.IncurredAt)
		if err != nil {
			return fmt.Errorf("insert the fee %s: %w", f.SourceID, err)
		}
	}
	return nil
}

// SaveTerms saves the terms of a party, or of the installation for "", at once.
func SaveTerms(ctx context.Context, s *billing.Service, orgID string, party document.Party) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := s.SaveTerms(ctx, tx, operator.Key{}, changerequest.Rule{}, billing.Terms{
			OrgID: orgID, Party: party, TaxRateBps: new(1900), TaxNote: new("VAT 19 %"),
		})
		return err
	})
}

// Issue issues the invoice of an organization for a month.
func Issue(ctx context.Context, s *billing.Service, orgID, month string) (billing.Invoice, error) {
	run, err := s.IssueInvoices(ctx, month, orgID, audit.System("test"))
	if err != nil {
		return billing.Invoice{}, err
	}
	if len(run.Invoices) != 1 {
		return billing.Invoice{}, fmt.Errorf("%s has no invoice of %s: %v", orgID, month, run.Skipped)
	}
	return run.Invoices[0], nil
}
