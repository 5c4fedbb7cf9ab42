package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/webhook"
)

const selectObjects = `
	SELECT w.withdrawal_id, w.idempotency_key, w.customer_id, w.product, w.whitelisted_address_id, w.mint_id, m.symbol, m.name, m.chain, m.decimals, m.contract,
		w.amount, w.usd_value, w.to_address, w.network_fee,
		(SELECT n.mint_id FROM mints n WHERE n.chain = w.chain AND n.kind = 'NATIVE'),
		w.status, w.chain_status, w.requires_approval, w.approval_reasons, w.tx_hash, w.replaced_tx_hashes,
		w.failure_reason, w.rejected_reason, w.reference, w.metadata, w.fee_mode, w.fee_deducted, w.max_network_fee, w.travel_rule,
		w.created_at, w.approved_at, w.broadcast_at, w.completed_at, w.screening, w.charge_costs, w.charge_held, w.charge_failure_max, w.charged, w.approvals_required,
		(SELECT count(*) FROM withdrawal_approvals a WHERE a.withdrawal_id = w.withdrawal_id AND a.round = w.approval_round)
	FROM withdrawals w JOIN mints m ON m.mint_id = w.mint_id`

// LoadObject returns a withdrawal as the API and the events show it, as this transaction sees it.
// Error: fault NOT_FOUND.
func LoadObject(ctx context.Context, tx pg.Tx, org, withdrawalID string) (webhook.Withdrawal, error) {
	if !id.IsValid("wd", withdrawalID) {
		return webhook.Withdrawal{}, newNotFound()
	}
	rows, err := tx.Query(ctx, selectObjects+` WHERE w.org_id = $1 AND w.withdrawal_id = $2`, org, withdrawalID)
	if err != nil {
		return webhook.Withdrawal{}, fmt.Errorf("read withdrawal %s: %w", withdrawalID, err)
	}
	l, err := pgx.CollectExactlyOneRow(rows, scanObject)
	if errors.Is(err, pgx.ErrNoRows) {
		return webhook.Withdrawal{}, newNotFound()
	}
	if err != nil {
		return webhook.Withdrawal{}, fmt.Errorf("read withdrawal %s: %w", withdrawalID, err)
	}
	return l.object, nil
}

// ByID returns a withdrawal as it is now. Error: fault NOT_FOUND, also for the id of another
// organization.
func (s *Service) ByID(ctx context.Context, org, withdrawalID string) (w webhook.Withdrawal, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		w, err = LoadObject(ctx, tx, org, withdrawalID)
		return err
	})
	return w, err
}

// renderedRow pairs a rendered row with its exact sort key. The object shows milliseconds; created
// has the microseconds that the table sorts by.
type renderedRow struct {
	object  webhook.Withdrawal
	created time.Time
}

func scanObject(row pgx.CollectableRow) (renderedRow, error) {
	var (
		w                              webhook.Withdrawal
		amount                         money.Amount
		fee, deducted, feeMax          *money.Amount
		travelRule                     []byte
		value                          *money.USD
		contract                       string
		created                        time.Time
		approved, broadcast, completed *time.Time
		reasons, replaced              []string
		metadata                       map[string]string
		screening                      *webhook.WithdrawalScreening
		costs                          org.ChargedCosts
		c                              charge
		charged                        money.Amount
	)
	err := row.Scan(&w.WithdrawalID, &w.IdempotencyKey, &w.CustomerID, &w.Product, &w.WhitelistedAddressID, &w.MintID,
		&w.Mint.Symbol, &w.Mint.Name, &w.Mint.Chain, &w.Mint.Decimals, &contract,
		&amount, &value, &w.ToAddress, &fee, &w.NetworkFeeMintID,
		&w.Status, &w.ChainStatus, &w.RequiresApproval, &reasons, &w.TxHash, &replaced,
		&w.FailureReason, &w.RejectedReason, &w.Reference, &metadata, &w.FeeMode, &deducted, &feeMax, &travelRule,
		&created, &approved, &broadcast, &completed, &screening, &costs, &c.held, &c.failureMax, &charged,
		&w.Approvals.Required, &w.Approvals.Received)
	if err != nil {
		return renderedRow{}, err
	}
	w.Mint.ID = w.MintID
	if contract != "" {
		w.Mint.ContractAddress = &contract
	}
	w.Type = webhook.OfCustomer
	if w.Product != nil {
		w.Type = webhook.OfOrganization
		// The fee was held in addition to the amount, and the organization pays it in any case.
		w.FeeMode = FeeOrganization
		if deducted != nil {
			amount = money.SubOrZero(amount, *deducted)
		}
	}
	w.Amount, w.AmountDecimal = amount.String(), amount.Decimal(w.Mint.Decimals)
	if deducted != nil && w.Status != string(Failed) && w.Status != string(Rejected) && w.Status != string(Cancelled) {
		// The part of the fee that the customer pays and the destination does not receive. The
		// organization is billed what the network took.
		fee = deducted
	}
	w.NetworkFee, w.MaxNetworkFee = amountText(fee), amountText(feeMax)
	w.TravelRule = travelRule
	if value != nil {
		text := value.Cents()
		w.USDValue = &text
	}
	w.ApprovalReasons, w.ReplacedTxHashes, w.Metadata = reasons, replaced, metadata
	if w.RequiresApproval {
		w.Approvals.Required = max(w.Approvals.Required, 1)
		if approved != nil { // also one from before approvals had rows
			w.Approvals.Received = max(w.Approvals.Received, 1)
		}
	}
	w.Screening.Status = string(ResultNotConfigured)
	if screening != nil {
		w.Screening = *screening
	}
	if w.CustomerCharge = chargeObject(costs, w.MintID, c); w.CustomerCharge != nil && completed != nil {
		w.CustomerCharge.Charged = amountText(&charged)
	}
	w.CreatedAt = webhook.At(created)
	w.ApprovedAt, w.BroadcastAt, w.CompletedAt = webhook.AtOrNil(approved), webhook.AtOrNil(broadcast),
		webhook.AtOrNil(completed)
	return renderedRow{w, created}, nil
}

func amountText(a *money.Amount) *string {
	if a == nil {
		return nil
	}
	s := a.String()
	return &s
}

// screeningObject returns what the API shows of a screening decision.
func screeningObject(d risk.WithdrawalDecision) webhook.WithdrawalScreening {
	w := webhook.WithdrawalScreening{Status: string(d.Status)}
	if v := d.Verdict; v != nil && v.Severity != "" {
		severity, provider := string(v.Severity), v.Provider
		w.Severity, w.Provider = &severity, &provider
	}
	return w
}
