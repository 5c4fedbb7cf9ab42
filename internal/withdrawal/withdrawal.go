// Package withdrawal takes a payment from a customer's balance to an address, or from a product's
// balance to an address on the organization's whitelist. It handles the request with its gates, the
// approval, and what dispatch reports about the payment until it is final.
//
// Invariants:
//
//   - A row has its hold, and a hold has its row.
//   - A refused request writes nothing.
//   - A key has at most one row.
//   - A time-out never releases a hold.
//
// After a crash the whole request is there (row, hold, decision, order or event, audit) or none of
// it. A caller that saw no answer sends the same key again and gets the existing row.
package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// priceAgeMax is how old a price may be to decide about a threshold.
const priceAgeMax = 5 * time.Minute

// AddressIssuer returns the address of a wallet of this installation, issued or read back, and
// proven. *wallet.Service implements it. The call may be repeated after any error.
type AddressIssuer interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
}

// Service accepts withdrawals and carries them to their end. It is safe for concurrent use.
type Service struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets AddressIssuer
	Prices  price.Source
	Events  event.Recorder
	// Risk configures the screening of destinations; its zero value screens nothing.
	Risk risk.Policy
	// Whitelist says where an organization's own money may go; nil: to no address.
	Whitelist Whitelist
	// Groups accepts customers' withdrawals that come together in one transaction; nil: each in its own.
	Groups *Groups
	// GrantKey binds a decision to the terms of the payment, for the signer; nil if the signer
	// requires no grants.
	GrantKey *signer.GrantKey
	// Refunds finds the refund of a payment that a restored database lacks; nil: there is none.
	Refunds RefundRestorer
	// Batches proves the rows of batches that payments make; nil: there are none.
	Batches BatchBook
	// Approvers knows rules and passkeys; nil: no organization has a rule.
	Approvers Approvers
	// ApprovalPage returns the page on which people sign a withdrawal; nil: unknown.
	ApprovalPage func(withdrawalID string) string
	// Voider has the signer void payments that were taken back after they had been let go.
	Voider *dispatch.Voider
	// PriceAge returns the greatest age of a mint's price that decides about a threshold; nil: five
	// minutes for every mint.
	PriceAge func(mintID int) time.Duration
	// HasPriceSource reports whether a mint has a price source, which need not answer now. Costs in
	// a coin without a source have no value and no limit in dollars. nil: no mint has one.
	HasPriceSource func(mintID int) bool
}

// Service implements the listeners of dispatch.
var (
	_ dispatch.Listener          = (*Service)(nil)
	_ dispatch.FeeChangeListener = (*Service)(nil)
	_ dispatch.Reviewer          = (*Service)(nil)
	_ dispatch.VoidListener      = (*Service)(nil)
)

func (s *Service) priceAge(mintID int) time.Duration {
	if s.PriceAge != nil {
		return s.PriceAge(mintID)
	}
	return priceAgeMax
}

// storedWithdrawal holds what approving, ending and settling need of an existing withdrawal.
type storedWithdrawal struct {
	id        string
	owner     ledger.Owner     // whose balance pays
	listedID  string           // the whitelist entry that the organization's own money goes to, or ""
	refund    *signer.RefundOf // the refund that it pays, or nil
	batch     *signer.BatchRow // the row of a batch that it pays, or nil
	mintID    int
	chain     chain.Name
	amount    money.Amount
	toAddress chain.Address
	key       *string
	status    Status
	txHash    *string
	reasons   []Reason

	deductsFee  bool          // the customer pays the fee
	deductedFee *money.Amount // how much of the fee; nil until the order is submitted
	feeMax      *money.Amount // the caller's limit for the fee

	endIntent *endIntent // how a person ended it, until the signer has voided it
	isVoid    bool       // it was taken back and is never paid

	// approvalsRequired is 0 for a withdrawal that was never held, or that is older than the count.
	approvalsRequired int
	approvalRound     int    // how often it was returned for approval
	mac               []byte // MAC over the terms that it was requested with
	madeBy            string // who asked for an organization's own payment while a rule held, or ""

	charge  charge
	charged money.Amount // what its end charged the customer

	costMax *money.Amount // the most that the network would have taken at the request; nil: unknown
}

// signedTerms returns the terms that approvers approve. Rule OW-6.
func (r storedWithdrawal) signedTerms(org string, m mint.Mint) signer.Terms {
	t := signer.Terms{
		OrgID: org, WithdrawalID: r.id, Chain: r.chain, MintID: r.mintID, Contract: m.Contract, To: r.toAddress,
		Amount:  r.amount,
		FeeMode: parsed{deductsFee: r.deductsFee}.feeMode(), Product: r.owner.Product(), WhitelistedID: r.listedID,
		Refund: r.refund, Batch: r.batch, MadeBy: r.madeBy,
	}
	if r.feeMax != nil {
		t.FeeMax = *r.feeMax
	}
	return t
}

// evaluatedAmount returns the amount that the gates check: what a customer pays, or what the
// destination of an organization's withdrawal receives.
func (r storedWithdrawal) evaluatedAmount() money.Amount {
	if r.owner.IsOrganization() {
		return r.payoutAmount()
	}
	return r.amount
}

// payoutAmount returns what the order pays: the amount less the deducted fee. Rule WD-10.
func (r storedWithdrawal) payoutAmount() money.Amount {
	if r.deductedFee == nil {
		return r.amount
	}
	return money.SubOrZero(r.amount, *r.deductedFee)
}

func loadRow(ctx context.Context, tx pg.Tx, org, withdrawalID string) (storedWithdrawal, error) {
	return readRow(ctx, tx, org, withdrawalID, "")
}

// lockRow reads a withdrawal like loadRow and locks its row.
func lockRow(ctx context.Context, tx pg.Tx, org, withdrawalID string) (storedWithdrawal, error) {
	return readRow(ctx, tx, org, withdrawalID, " FOR NO KEY UPDATE")
}

func readRow(ctx context.Context, tx pg.Tx, org, withdrawalID, lock string) (storedWithdrawal, error) {
	r := storedWithdrawal{id: withdrawalID}
	if !id.IsValid("wd", withdrawalID) {
		return r, newNotFound()
	}
	var e endIntent
	var customerID, product, refundID, checkoutID, batchID string
	var batchRow int
	var contentHash []byte
	err := tx.QueryRow(ctx, `
		SELECT coalesce(customer_id, ''), coalesce(product, ''), coalesce(whitelisted_address_id, ''), mint_id, chain, amount, to_address, idempotency_key, status, tx_hash, approval_reasons,
			fee_mode = 'DEDUCTED', fee_deducted, max_network_fee, approvals_required, approval_round, request_mac, cost_max,
			charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price, charged,
			coalesce(end_status, ''), coalesce(end_note, ''), coalesce(end_actor_kind, ''), coalesce(end_actor, ''), EXISTS (SELECT FROM dispatch_voids WHERE order_id = withdrawal_id),
			coalesce(refund_id, ''),
			coalesce((SELECT f.checkout_id FROM refunds f WHERE f.refund_id = withdrawals.refund_id), ''),
			coalesce(batch_id, ''), coalesce(batch_row, 0), coalesce(made_by, ''),
			(SELECT b.content_hash FROM payout_batches b WHERE b.batch_id = withdrawals.batch_id)
		FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2`+lock, org, withdrawalID).
		Scan(&customerID, &product, &r.listedID, &r.mintID, &r.chain, &r.amount, &r.toAddress,
			&r.key, &r.status, &r.txHash, &r.reasons,
			&r.deductsFee, &r.deductedFee, &r.feeMax, &r.approvalsRequired, &r.approvalRound, &r.mac, &r.costMax,
			&r.charge.rent, &r.charge.held, &r.charge.failureMax, &r.charge.coinPrice, &r.charge.mintPrice, &r.charged,
			&e.status, &e.note, &e.actor.Kind, &e.actor.ID, &r.isVoid,
			&refundID, &checkoutID, &batchID, &batchRow, &r.madeBy, &contentHash)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, newNotFound()
	}
	if err != nil {
		return r, fmt.Errorf("read withdrawal %s: %w", withdrawalID, err)
	}
	r.owner = ledger.OwnerOf(customerID, product)
	if refundID != "" {
		r.owner, r.refund = ledger.RefundOwner(), &signer.RefundOf{RefundID: refundID, CheckoutID: checkoutID}
	}
	if batchID != "" {
		r.owner, r.batch = ledger.BatchOwner(), &signer.BatchRow{BatchID: batchID, Row: batchRow}
		copy(r.batch.ContentHash[:], contentHash)
	}
	if e.status != "" {
		r.endIntent = &e
	}
	return r, nil
}

func newNotFound() *fault.Fault {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no withdrawal with this id.").
		WithStep(fault.ListWithdrawals)
}

// newInvalidState returns the answer to the loser of a race and to every late call.
func newInvalidState(act string, status Status) *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"Only a withdrawal that is AWAITING_APPROVAL can be %s, and this one is %s.", act, status).
		WithStep(fault.ShowWithdrawal).
		WithExtra("currentStatus", string(status))
}

// refuseLate returns the answer to the loser of a race. It reads the row again, because the winner
// has committed by the time the compare-and-swap fails.
func (s *Service) refuseLate(ctx context.Context, tx pg.Tx, org, withdrawalID, act string) error {
	r, err := loadRow(ctx, tx, org, withdrawalID)
	if err != nil {
		return err
	}
	return newInvalidState(act, r.status)
}
