// Package swaptest inserts rows of swaps for tests of what shows them. A swap of the service needs a provider,
// a signer and two chains; a page needs the row alone.
//
// The rows are inserted without triggers, so the books have none of them: a test of money makes its swaps by
// the service. A crash leaves no trace that outlives a test.
package swaptest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/id"
)

// feeBps is the fee of each row, in basis points.
const feeBps = 25

// Row is a swap. A zero field is absent.
type Row struct {
	OrgID, CustomerID, IdempotencyKey string
	FromMintID, ToMintID              int
	Chain                             string // of both mints
	AmountIn, EstimatedOut, AmountOut uint64
	Provider, Status                  string
	FailureReason, FailureMessage     string
	RefundReport                      string
	Refunded, Restored, Short         uint64
	OriginTx, DestinationTx, RefundTx string
	Metadata                          map[string]string
	CreatedAt                         time.Time
	PaidAt, DelayedAt, EndedAt        *time.Time
	RestoredAt                        *time.Time
	// Of an organization's swap, which has no customer: the product that pays, and the address that is paid.
	Product, PayoutAddress string
}

// isOfProduct reports whether it is a swap of the organization's own money.
func (r Row) isOfProduct() bool { return r.Product != "" }

// Report is what a provider said of a swap.
type Report struct {
	Status, Word, Refund, Reason string
	TxHashes                     []string
	CreatedAt                    time.Time
}

// ID returns the id of the swap, as the service computes it.
func (r Row) ID() string {
	if r.isOfProduct() {
		return id.Derive("os", r.OrgID, r.IdempotencyKey)
	}
	return id.Derive("cs", r.OrgID, r.IdempotencyKey)
}

// DeliveryWalletID returns the id of the wallet at which the output of the swap arrives.
func (r Row) DeliveryWalletID() string { return id.Derive("adr", r.ID(), "delivery") }

// RefundWalletID returns the id of the wallet at which a refund of the swap arrives.
func (r Row) RefundWalletID() string { return id.Derive("adr", r.ID(), "refund") }

// DisableTriggers lets a transaction of the superuser insert rows that no verb made.
func DisableTriggers(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`)
	return err
}

// MarkDelivered makes a pending swap of an organization one whose output is in its product. The transaction is one of
// the superuser without triggers.
func MarkDelivered(ctx context.Context, tx pgx.Tx, swapID string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET status = 'PROCESSING', amount_out = min_out, delivered_at = now(), paid_at = now(),
			origin_tx_hash = '0x01', destination_tx_hash = '0x02'
		WHERE swap_id = $1 AND status = 'PENDING' AND kind = 'ORGANIZATION'`, swapID)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("it is not pending")
	}
	if err != nil {
		return fmt.Errorf("mark swap %s as delivered: %w", swapID, err)
	}
	return nil
}

// Insert inserts swaps, each with its offer. The transaction is one of the superuser without triggers.
func Insert(ctx context.Context, tx pgx.Tx, rows ...Row) error {
	for _, r := range rows {
		if err := insert(ctx, tx, r); err != nil {
			return fmt.Errorf("insert the swap of key %s: %w", r.IdempotencyKey, err)
		}
	}
	return nil
}

func insert(ctx context.Context, tx pgx.Tx, r Row) error {
	if r.RefundReport == "" {
		r.RefundReport = "NONE"
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	hash := sha256.Sum256([]byte(r.IdempotencyKey))
	address := "0x" + hex.EncodeToString(sha256Of(r.ID()))[:40]
	var completedAt, failedAt *time.Time
	if r.Status == "COMPLETED" {
		completedAt = r.EndedAt
	} else {
		failedAt = r.EndedAt
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, metadata,
		from_mint_id,
			to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address,
			delivery_wallet_id,
			refund_wallet_id, pay_by, expires_at, estimated_seconds, usd_value, fee_bps, fee_amount, status,
			refunded, restored,
			short, restore_count, short_count, refund_report, amount_out, origin_tx_hash, destination_tx_hash,
			refund_tx_hash,
			failure_reason, failure_message, paid_at, delayed_at, created_at, updated_at, completed_at, failed_at,
			restored_at)
		VALUES ($1, $2, $3, $4, $5, '\x00', $6, $7, $8, $9, $9, $10::numeric, $11, $11, $12, $13, $14, $15, $16, $17,
		90, 12.5,
			$18::integer, div($10::numeric * $18::integer, 10000), $19, $20, $21::numeric, $22::numeric,
			($21::numeric > 0)::int,
			($22::numeric > 0)::int, $23, nullif($24::numeric, 0), nullif($25, ''), nullif($26, ''), nullif($27, ''),
			nullif($28, ''), nullif($29, ''), $30, $31, $32, $33, $34, $35, $36)`,
		r.ID(), r.OrgID, r.CustomerID, r.IdempotencyKey, hex.EncodeToString(hash[:]), r.Metadata, r.FromMintID,
		r.ToMintID,
		r.Chain, r.AmountIn, r.EstimatedOut, r.Provider, address, r.DeliveryWalletID(), r.RefundWalletID(),
		r.CreatedAt.Add(30*time.Minute), r.CreatedAt.Add(24*time.Hour), feeBps, r.Status, r.Refunded, r.Restored,
		r.Short,
		r.RefundReport, r.AmountOut, r.OriginTx, r.DestinationTx, r.RefundTx, r.FailureReason, r.FailureMessage,
		r.PaidAt,
		r.DelayedAt, r.CreatedAt, latest(r), completedAt, failedAt, r.RestoredAt)
	if err != nil {
		return err
	}
	if r.isOfProduct() {
		_, err = tx.Exec(ctx, `
			UPDATE swaps SET kind = 'ORGANIZATION', customer_id = NULL, product = $2, fee_bps = 0, fee_amount = 0,
				whitelisted_address_id = $3, payout_address = $4, payout_max = estimated_out, slippage_bps = 100,
				payout_until = created_at + interval '48 hours', request_mac = '\x00', requester_kind = 'API_KEY',
				requester_id = org_id
			WHERE swap_id = $1`, r.ID(), r.Product, id.Derive("wla", r.OrgID, r.PayoutAddress), r.PayoutAddress)
		if err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO swap_offers (swap_id, org_id, scheme, deposit_address, signed_quote, created_at)
		VALUES ($1, $2, 'ONE_CLICK_V0', $3, $4, $5)`, r.ID(), r.OrgID, address, []byte(r.ID()), r.CreatedAt)
	return err
}

func sha256Of(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// latest returns when something of the swap changed last.
func latest(r Row) time.Time {
	newest := r.CreatedAt
	for _, moment := range []*time.Time{r.PaidAt, r.DelayedAt, r.EndedAt, r.RestoredAt} {
		if moment != nil && moment.After(newest) {
			newest = *moment
		}
	}
	return newest
}

// InsertReports inserts reports of the provider of a swap, the oldest first.
func InsertReports(ctx context.Context, tx pgx.Tx, r Row, reports ...Report) error {
	for i, report := range reports {
		hashes := report.TxHashes
		if hashes == nil {
			hashes = []string{}
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO swap_reports (swap_id, number, org_id, status, word, refund, reason, tx_hashes, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			r.ID(), i+1, r.OrgID, report.Status, report.Word, report.Refund, report.Reason, hashes, report.CreatedAt)
		if err != nil {
			return fmt.Errorf("insert report %d of swap %s: %w", i+1, r.ID(), err)
		}
	}
	return nil
}

// InsertArrival inserts a final arrival at a wallet of a swap: a deposit of its wallet, with its role. A stray
// one has a reason. It returns the id of the deposit.
func InsertArrival(
	ctx context.Context, tx pgx.Tx, r Row, role, reason, txHash string, mintID int, amount uint64, arrivedAt time.Time,
) (depositID string, err error) {
	depositID = id.Derive("dep", r.ID(), role, txHash)
	purpose, walletID := "SWAP_DELIVERY", r.DeliveryWalletID()
	if role == "REFUND" {
		purpose, walletID = "SWAP_REFUND", r.RefundWalletID()
	}
	var customerID *string
	if role == "DELIVERY" {
		customerID = &r.CustomerID
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, swap_id, arrival_role, completes_swap,
		is_hidden, customer_id,
			mint_id, chain, contract, amount, address, from_address, tx_hash, kind, position, log_index, height,
			block_hash, status,
			chain_status, proof_id, created_at, confirmed_at, credited_at)
		SELECT $1, $2, $3, $4, $5, $6, $6 = 'DELIVERY', $6 <> 'DELIVERY', $7, m.mint_id, m.chain, m.contract, $8, $9,
			'0x1111111111111111111111111111111111111111', $10, 'TOKEN', '0', 0, 101, '0xe', 'CREDITED', 'FINALIZED',
			1, $11, $11, $11
		FROM mints m WHERE m.mint_id = $12`,
		depositID, r.OrgID, walletID, purpose, r.ID(), role, customerID, amount,
		"0x"+hex.EncodeToString(sha256Of(walletID))[:40], txHash, arrivedAt, mintID)
	if err != nil {
		return "", fmt.Errorf("insert a deposit of swap %s: %w", r.ID(), err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at) VALUES ($1, $2, $3, $4, $5,
		$6)`,
		depositID, r.OrgID, r.ID(), role, reason, arrivedAt)
	if err != nil {
		return "", fmt.Errorf("insert an arrival of swap %s: %w", r.ID(), err)
	}
	return depositID, nil
}
