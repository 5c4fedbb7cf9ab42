package withdrawal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
)

// Withdrawal is a payment to an address as an organization sees it: from a customer's balance, or
// from one of its own.
type Withdrawal struct {
	ID                   string
	Owner                ledger.Owner // whose balance pays
	WhitelistedAddressID *string      // the entry that the organization's own money goes to
	SwapID               string       // of the swap of own money whose output it pays; "" for others
	RefundID             string       // of the refund of a checkout that it pays; "" for others
	BatchID              string       // of the batch of which it pays a row; "" for others
	BatchRow             int          // the row, from 1; 0 for others
	IdempotencyKey       *string      // that a caller gave
	Mint                 mint.Mint    // id, chain, contract, symbol, name and decimals; nothing else of it is read
	// Amount is what a customer pays, or what the destination of the organization's own money
	// receives.
	Amount    money.Amount
	USDValue  *money.USD // for display
	ToAddress chain.Address
	// NetworkFee is nil until it is final, or decided because the amount includes it.
	NetworkFee       *money.Amount
	NetworkFeeMintID *int // the chain's native coin
	FeeMode          string
	MaxNetworkFee    *money.Amount   // what the caller allowed the network to take
	CustomerCharge   *CustomerCharge // nil: nothing is charged

	Status           Status
	ChainStatus      string
	RequiresApproval bool
	ApprovalReasons  []Reason
	Approvals        Approvals
	// ApprovalFingerprint are the first digits of what people sign by the organization's rule; "" for a withdrawal that
	// needs no signature. The page, the mail and the signer's log have the same ones.
	ApprovalFingerprint string
	Screening           Screening

	TxHash           *chain.TxHash
	ReplacedTxHashes []chain.TxHash // earlier versions in the same slot
	FailureReason    *string
	RejectedReason   *string

	Reference  *string
	Metadata   map[string]string
	TravelRule json.RawMessage // what the caller said of the parties; it names people

	CreatedAt                            time.Time
	ApprovedAt, BroadcastAt, CompletedAt *time.Time
}

// CustomerCharge is what a customer pays of what a withdrawal costs the organization.
type CustomerCharge struct {
	Costs      org.ChargedCosts
	MintID     int           // the mint that is withdrawn
	RentMax    money.Amount  // held in addition to the amount
	FailureMax *money.Amount // the most that a failure takes out of the hold; nil: nothing
	Charged    *money.Amount // what was taken; nil while the payment has not ended
}

// Approvals is how far the approval of a withdrawal has come.
type Approvals struct{ Required, Received int }

// Screening is what risk screening said about a destination.
type Screening struct {
	Status             string
	Severity, Provider *string
}

// selectWithdrawals selects what scanWithdrawal reads.
const (
	selectWithdrawals = selectColumns + ` FROM withdrawals w JOIN mints m ON m.mint_id = w.mint_id`
	selectColumns     = `
	SELECT w.withdrawal_id, w.idempotency_key, coalesce(w.customer_id, ''), coalesce(w.product, ''), w.whitelisted_address_id, w.mint_id, m.symbol, m.name, m.chain, m.decimals, m.contract,
		w.amount, w.usd_value, w.to_address, w.network_fee,
		(SELECT n.mint_id FROM mints n WHERE n.chain = w.chain AND n.kind = 'NATIVE'),
		w.status, w.chain_status, w.requires_approval, w.approval_reasons, w.tx_hash, w.replaced_tx_hashes,
		w.failure_reason, w.rejected_reason, w.reference, w.metadata, w.fee_mode, w.fee_deducted, w.max_network_fee, w.travel_rule,
		w.created_at, w.approved_at, w.broadcast_at, w.completed_at, w.screening, w.charge_costs, w.charge_held, w.charge_failure_max, w.charged, w.approvals_required,
		(SELECT count(DISTINCT (a.approver_kind, a.approver_id)) FROM withdrawal_approvals a
			WHERE a.withdrawal_id = w.withdrawal_id AND a.round = w.approval_round AND (w.status <> 'AWAITING_APPROVAL'
				OR a.signature IS NULL OR (a.signature ->> 'notAfter')::timestamptz > now() + interval '2 minutes')),
		CASE WHEN w.product IS NOT NULL THEN (SELECT s.swap_id FROM swaps s WHERE s.payout_id = w.withdrawal_id) END,
		coalesce(w.refund_id, ''), coalesce(w.batch_id, ''), coalesce(w.batch_row, 0), w.fee_mode = 'DEDUCTED',
		coalesce(w.made_by, ''), (SELECT f.checkout_id FROM refunds f WHERE f.refund_id = w.refund_id),
		(SELECT b.content_hash FROM payout_batches b WHERE b.batch_id = w.batch_id), w.org_id`
)

// Load returns a withdrawal as this transaction sees it. Error: fault NOT_FOUND.
func Load(ctx context.Context, tx pg.Tx, org, withdrawalID string) (Withdrawal, error) {
	if !id.IsValid("wd", withdrawalID) {
		return Withdrawal{}, newNotFound()
	}
	rows, err := tx.Query(ctx, selectWithdrawals+` WHERE w.org_id = $1 AND w.withdrawal_id = $2`, org, withdrawalID)
	if err != nil {
		return Withdrawal{}, fmt.Errorf("read withdrawal %s: %w", withdrawalID, err)
	}
	w, err := pgx.CollectExactlyOneRow(rows, scanWithdrawal)
	if errors.Is(err, pgx.ErrNoRows) {
		return Withdrawal{}, newNotFound()
	}
	if err != nil {
		return Withdrawal{}, fmt.Errorf("read withdrawal %s: %w", withdrawalID, err)
	}
	return w, nil
}

// ByID returns a withdrawal as it is now. Error: fault NOT_FOUND, also for the id of another
// organization.
func (s *Service) ByID(ctx context.Context, org, withdrawalID string) (w Withdrawal, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		w, err = Load(ctx, tx, org, withdrawalID)
		return err
	})
	return w, err
}

func scanWithdrawal(row pgx.CollectableRow) (Withdrawal, error) {
	var (
		w                   Withdrawal
		customerID, product string
		deducted            *money.Amount
		travelRule          []byte
		screening           *storedScreening
		costs               org.ChargedCosts
		c                   charge
		charged             money.Amount
		swapID              *string
		terms               storedWithdrawal
		checkoutID          *string
		contentHash         []byte
		orgID               string
	)
	err := row.Scan(&w.ID, &w.IdempotencyKey, &customerID, &product, &w.WhitelistedAddressID,
		&w.Mint.ID, &w.Mint.Symbol, &w.Mint.Name, &w.Mint.Chain, &w.Mint.Decimals, &w.Mint.Contract,
		&w.Amount, &w.USDValue, &w.ToAddress, &w.NetworkFee, &w.NetworkFeeMintID,
		&w.Status, &w.ChainStatus, &w.RequiresApproval, &w.ApprovalReasons, &w.TxHash, &w.ReplacedTxHashes,
		&w.FailureReason, &w.RejectedReason, &w.Reference, &w.Metadata, &w.FeeMode, &deducted, &w.MaxNetworkFee,
		&travelRule, &w.CreatedAt, &w.ApprovedAt, &w.BroadcastAt, &w.CompletedAt, &screening,
		&costs, &c.held, &c.failureMax, &charged, &w.Approvals.Required, &w.Approvals.Received,
		&swapID, &w.RefundID, &w.BatchID, &w.BatchRow, &terms.deductsFee, &terms.madeBy, &checkoutID, &contentHash,
		&orgID)
	if err != nil {
		return Withdrawal{}, err
	}
	w.Owner, w.TravelRule = ledger.OwnerOf(customerID, product), travelRule
	if w.RefundID != "" {
		w.Owner, w.IdempotencyKey = ledger.RefundOwner(), nil // the key is none that a caller gave
	}
	if w.BatchID != "" {
		w.Owner, w.IdempotencyKey = ledger.BatchOwner(), nil
	}
	if slices.Contains(w.ApprovalReasons, ReasonApprovalRule) {
		w.ApprovalFingerprint = w.fingerprint(orgID, terms, checkoutID, contentHash)
	}
	if w.Owner.IsOrganization() {
		w.setSwap(swapID)
		// The fee was held in addition to the amount, and the organization pays it in any case.
		w.FeeMode = FeeOrganization
		if deducted != nil {
			w.Amount = money.SubOrZero(w.Amount, *deducted)
		}
	}
	if deducted != nil && w.Status != Failed && w.Status != Rejected && w.Status != Cancelled {
		// The part of the fee that the customer pays and the destination does not receive. The
		// organization is billed what the network took.
		w.NetworkFee = deducted
	}
	if w.RequiresApproval {
		w.Approvals.Required = max(w.Approvals.Required, 1)
		if w.ApprovedAt != nil { // also one from before approvals had rows
			w.Approvals.Received = max(w.Approvals.Received, 1)
		}
	}
	w.Screening.Status = string(ResultNotConfigured)
	if screening != nil {
		w.Screening = Screening(*screening)
	}
	if w.CustomerCharge = newCharge(costs, w.Mint.ID, c); w.CustomerCharge != nil && w.CompletedAt != nil {
		w.CustomerCharge.Charged = &charged
	}
	return w, nil
}

// fingerprint returns the fingerprint of the terms, before anything of the row is changed for display.
func (w Withdrawal) fingerprint(orgID string, r storedWithdrawal, checkoutID *string, contentHash []byte) string {
	r.id, r.owner, r.mintID, r.chain = w.ID, w.Owner, w.Mint.ID, w.Mint.Chain
	r.amount, r.toAddress, r.feeMax = w.Amount, w.ToAddress, w.MaxNetworkFee
	if w.WhitelistedAddressID != nil {
		r.listedID = *w.WhitelistedAddressID
	}
	if checkoutID != nil {
		r.refund = &signer.RefundOf{RefundID: w.RefundID, CheckoutID: *checkoutID}
	}
	if w.BatchID != "" {
		r.batch = &signer.BatchRow{BatchID: w.BatchID, Row: w.BatchRow}
		copy(r.batch.ContentHash[:], contentHash)
	}
	return r.signedTerms(orgID, w.Mint).Fingerprint()
}

// storedScreening is a Screening as a row has it.
type storedScreening struct {
	Status   string  `json:"status"`
	Severity *string `json:"severity"`
	Provider *string `json:"provider"`
}

func newStoredScreening(d risk.WithdrawalDecision) storedScreening {
	s := storedScreening{Status: string(d.Status)}
	if v := d.Verdict; v != nil && v.Severity != "" {
		severity, provider := string(v.Severity), v.Provider
		s.Severity, s.Provider = &severity, &provider
	}
	return s
}
