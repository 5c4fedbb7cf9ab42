package swap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const selectSwaps = `
	SELECT s.swap_id, s.org_id, coalesce(s.idempotency_key, ''), s.kind, coalesce(s.customer_id, ''),
			coalesce(s.product, ''),
		f.mint_id, f.symbol, f.name, f.chain, f.decimals, f.contract, t.mint_id, t.symbol, t.name, t.chain,
			t.decimals, t.contract,
		s.amount_in, s.estimated_out, s.min_out, s.amount_out, coalesce(s.provider, ''), s.status, s.fee_amount,
			s.fee_bps, s.usd_value,
		s.estimated_seconds, s.origin_tx_hash, s.destination_tx_hash, s.refund_tx_hash, s.failure_reason,
			s.failure_message,
		s.refunded, s.restored, s.short, s.refund_report,
		(SELECT d.deposit_id FROM deposits d WHERE d.swap_id = s.swap_id AND d.completes_swap), s.metadata,
		s.created_at, s.updated_at, s.completed_at, s.failed_at, s.restored_at, s.delayed_at, s.paid_at, s.pay_by,
			s.expires_at,
		coalesce(s.deposit_address, ''), s.delivery_wallet_id, s.refund_wallet_id, s.look_at, s.request_digest,
			s.refund_fee,
		coalesce(s.whitelisted_address_id, ''), coalesce(s.payout_address, ''), s.payout_max, s.payout_until,
			s.payout_id, coalesce(s.delivered_at, s.completed_at), s.approvals_required,
		p.approvers, p.signature_ends,
		coalesce(s.requester_kind, ''), coalesce(s.requester_id, ''), s.rejected_note, s.approved_at, s.slippage_bps,
			s.request_mac
	FROM swaps s JOIN mints f ON f.mint_id = s.from_mint_id JOIN mints t ON t.mint_id = s.to_mint_id
		LEFT JOIN LATERAL (
			SELECT array_agg(person ORDER BY at, person) AS approvers,
				array_agg(signature_end ORDER BY at, person) AS signature_ends
			FROM (
				SELECT a.approver_kind || ' ' || a.approver_id AS person, min(a.at) AS at,
					max((a.signature ->> 'notAfter')::timestamptz) AS signature_end
				FROM swap_approvals a WHERE s.kind = 'ORGANIZATION' AND a.swap_id = s.swap_id
				GROUP BY a.approver_kind, a.approver_id
			) a
		) p ON true`

// scanSwap returns the scan of a swap at a time: of one that waits, only approvals with time left count.
func scanSwap(now time.Time) pgx.RowToFunc[Swap] {
	return func(row pgx.CollectableRow) (Swap, error) { return scanSwapAt(row, now) }
}

func scanSwapAt(row pgx.CollectableRow, now time.Time) (w Swap, err error) {
	var approvers []string
	var signatureEnds []*time.Time // nil: an approval without a signature
	var payBy, expiresAt *time.Time
	err = row.Scan(&w.ID, &w.OrgID, &w.IdempotencyKey, &w.Kind, &w.CustomerID, &w.Product,
		&w.From.ID, &w.From.Symbol, &w.From.Name, &w.From.Chain, &w.From.Decimals, &w.From.Contract,
		&w.To.ID, &w.To.Symbol, &w.To.Name, &w.To.Chain, &w.To.Decimals, &w.To.Contract,
		&w.AmountIn, &w.EstimatedOut, &w.MinOut, &w.AmountOut, &w.Provider, &w.Status, &w.FeeAmount, &w.FeeBps,
		&w.USDValue, &w.EstimatedSeconds, &w.OriginTxHash, &w.DestinationTxHash, &w.RefundTxHash, &w.FailureReason,
		&w.FailureMessage, &w.Refunded, &w.Restored, &w.Short, &w.RefundReport, &w.DepositID, &w.Metadata,
		&w.CreatedAt, &w.UpdatedAt, &w.CompletedAt, &w.FailedAt, &w.RestoredAt, &w.DelayedAt, &w.PaidAt, &payBy,
		&expiresAt, &w.DepositAddress, &w.DeliveryWalletID, &w.RefundWalletID, &w.LookAt, &w.digest, &w.refundFee,
		&w.WhitelistedID, &w.PayoutAddress, &w.PayoutMax, &w.PayoutUntil, &w.PayoutID, &w.DeliveredAt,
		&w.ApprovalsRequired, &approvers, &signatureEnds, &w.Requester.Kind, &w.Requester.ID, &w.RejectedNote,
		&w.ApprovedAt, &w.slippageBps, &w.mac)
	if payBy != nil && expiresAt != nil {
		w.PayBy, w.ExpiresAt = *payBy, *expiresAt
	}
	for n, name := range approvers {
		end := signatureEnds[n]
		if w.Status == AwaitingApproval && end != nil && !now.Add(signatureMargin).Before(*end) {
			w.ToSignAgain = append(w.ToSignAgain, parseApprover(name))
			continue
		}
		w.Approvers = append(w.Approvers, parseApprover(name))
	}
	w.ApprovalCount = len(w.Approvers)
	return w, err
}

// isID reports whether a text has the form of the id of a swap, of either kind.
func isID(text string) bool {
	return id.IsValid(customerPrefix, text) || id.IsValid(organizationPrefix, text)
}

// Load returns a swap of a customer as this transaction sees it. Error: fault NOT_FOUND.
func Load(ctx context.Context, tx pg.Tx, orgID, swapID string) (Swap, error) {
	return loadOf(ctx, tx, orgID, swapID, customerPrefix)
}

// loadOf returns a swap of the kind whose ids have the prefix.
func loadOf(ctx context.Context, tx pg.Tx, orgID, swapID, prefix string) (Swap, error) {
	if !id.IsValid(prefix, swapID) {
		return Swap{}, newGone()
	}
	rows, err := tx.Query(ctx, selectSwaps+` WHERE s.org_id = $1 AND s.swap_id = $2`, orgID, swapID)
	return collectOne(swapID, rows, tx.Now, err)
}

// loadAny returns a swap of any organization, for the operator and for work that spans organizations.
func loadAny(ctx context.Context, tx pg.Tx, swapID string) (Swap, error) {
	if !isID(swapID) {
		return Swap{}, newGone()
	}
	rows, err := tx.Query(ctx, selectSwaps+` WHERE s.swap_id = $1`, swapID)
	return collectOne(swapID, rows, tx.Now, err)
}

func collectOne(swapID string, rows pgx.Rows, now time.Time, err error) (Swap, error) {
	if err != nil {
		return Swap{}, fmt.Errorf("read swap %s: %w", swapID, err)
	}
	w, err := pgx.CollectExactlyOneRow(rows, scanSwap(now))
	if errors.Is(err, pgx.ErrNoRows) {
		return Swap{}, newGone()
	}
	if err != nil {
		return Swap{}, fmt.Errorf("read swap %s: %w", swapID, err)
	}
	return w, nil
}

// lock locks a swap and returns it.
func lock(ctx context.Context, tx pg.Tx, swapID string) (Swap, error) {
	var locked string
	err := tx.QueryRow(ctx, `SELECT swap_id FROM swaps WHERE swap_id = $1 FOR UPDATE`, swapID).Scan(&locked)
	if errors.Is(err, pgx.ErrNoRows) {
		return Swap{}, newGone()
	}
	if err != nil {
		return Swap{}, fmt.Errorf("lock swap %s: %w", swapID, err)
	}
	return loadAny(ctx, tx, swapID)
}

// ByID returns a swap of a customer as it is now. Error: fault NOT_FOUND, also for the id of another organization.
func (s *Service) ByID(ctx context.Context, orgID, swapID string) (w Swap, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		w, err = Load(ctx, tx, orgID, swapID)
		return err
	})
	return w, err
}

// Filter narrows a list. A zero field does not narrow it.
type Filter struct {
	CustomerID     string
	Status         string
	IdempotencyKey string
	CreatedAfter   time.Time // exclusive
	CreatedBefore  time.Time // exclusive
	// ToRestore leaves the failed swaps of which something came back that the customer does not have.
	ToRestore bool
}

func (f Filter) query(q *pagination.Query) *pagination.Query {
	if f.CustomerID != "" {
		q.AddCondition("s.customer_id = ?", f.CustomerID)
	}
	if f.Status != "" {
		q.AddCondition("s.status = ?", f.Status)
	}
	if f.IdempotencyKey != "" {
		q.AddCondition("s.key_hash = ANY (?)", []string{
			keyHash(f.IdempotencyKey), organizationKeyHash(f.IdempotencyKey),
		})
	}
	if f.ToRestore {
		q.AddCondition("s.status = 'FAILED' AND s.refunded > s.restored")
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// List returns a page of the swaps of an organization's customers in the order of (creation time, id).
func (s *Service) List(
	ctx context.Context, orgID string, f Filter, p pagination.Page,
) (page pagination.Result[Swap], err error) {
	q := f.query(pagination.NewQuery(selectSwaps+` WHERE s.org_id = ? AND s.kind = 'CUSTOMER'`, orgID))
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		page, err = listPage(ctx, tx, q, p)
		return err
	})
	return page, err
}

func listPage(ctx context.Context, tx pg.Tx, q *pagination.Query, p pagination.Page) (pagination.Result[Swap], error) {
	sql, args := q.BuildPage(p, "s.created_at", "s.swap_id")
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return pagination.Result[Swap]{}, fmt.Errorf("list swaps: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanSwap(tx.Now))
	if err != nil {
		return pagination.Result[Swap]{}, fmt.Errorf("list swaps: %w", err)
	}
	return pagination.CutPage(p, found, func(w Swap) pagination.Cursor {
		return pagination.Cursor{CreatedAt: w.CreatedAt, ID: w.ID}
	}), nil
}

// ForEach calls fn for all swaps of an organization's customers that match the filter, in list order and from one
// snapshot. The first error of fn ends it.
func (s *Service) ForEach(ctx context.Context, orgID string, f Filter, desc bool, fn func(Swap) error) error {
	q := f.query(pagination.NewQuery(selectSwaps+` WHERE s.org_id = ? AND s.kind = 'CUSTOMER'`, orgID))
	sql, args := q.BuildAll(desc, "s.created_at", "s.swap_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanSwap(tx.Now), fn)
	})
	if err != nil {
		return fmt.Errorf("read the swaps of %s: %w", orgID, err)
	}
	return nil
}

// ListReports returns what a provider reported of a swap, oldest first.
func ListReports(ctx context.Context, tx pg.Tx, swapID string) ([]Report, error) {
	rows, err := tx.Query(ctx, `
		SELECT number, status, word, refund, reason, tx_hashes, created_at FROM swap_reports
		WHERE swap_id = $1 ORDER BY number`, swapID)
	if err != nil {
		return nil, fmt.Errorf("read the reports of swap %s: %w", swapID, err)
	}
	reports, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Report])
	if err != nil {
		return nil, fmt.Errorf("read the reports of swap %s: %w", swapID, err)
	}
	return reports, nil
}
