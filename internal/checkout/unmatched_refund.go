package checkout

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/policy"
	"github.com/cofferpay/coffer/internal/request"
)

const (
	// ownItemName is what the checkout of a payment says that was unmatched and is given back.
	ownItemName = "Unmatched payment"
	// ownDepositKey is the key of its metadata that names the deposit.
	ownDepositKey = "unmatchedDepositId"
)

// UnmatchedRefund asks for a refund of an unmatched payment, as a whole.
type UnmatchedRefund struct {
	DepositID      string
	ToAddress      *string // nil: the payer gives it, with a key
	FeeMode        string  // "" means FeeOrganization
	Reason         *string
	IdempotencyKey *string // nil: every call makes another refund of what is left
	Actor          audit.Actor
}

// requestFor returns the request of the same refund for the checkout that the payment gets.
func (r UnmatchedRefund) requestFor(orgID string, u Unmatched) RefundRequest {
	return RefundRequest{
		CheckoutID: ownCheckoutID(orgID, u), Kind: FullRefund, ToAddress: r.ToAddress, FeeMode: r.FeeMode,
		Reason: r.Reason, IdempotencyKey: r.IdempotencyKey, Actor: r.Actor,
	}
}

// DiffersUnmatched reports whether a request has other parameters than the one that made a refund. Error: fault
// NOT_FOUND.
func (s *Service) DiffersUnmatched(ctx context.Context, orgID string, made Refund, r UnmatchedRefund) (bool, error) {
	u, err := s.UnmatchedByID(ctx, orgID, r.DepositID)
	if err != nil {
		return false, asWritten(err)
	}
	return made.Differs(r.requestFor(orgID, u)), nil
}

// RefundUnmatched gives back an unmatched payment as a whole. The payment gets a checkout of its own, which is
// cancelled from the beginning and which no payer sees, and is refunded there as every payment is. A crash between two
// steps, or a balance that lacks the amount, leaves the payment with that checkout, and the same call goes on. The
// results are those of RequestRefund.
// Errors: those of RequestRefund; INVALID_STATE if the payment belongs to another checkout. Rule CO-105.
func (s *Service) RefundUnmatched(
	ctx context.Context, orgID string, r UnmatchedRefund,
) (refund Refund, claimKey string, isReplayed bool, err error) {
	u, err := s.UnmatchedByID(ctx, orgID, r.DepositID)
	if err != nil {
		return refund, "", false, asWritten(err)
	}
	asked := r.requestFor(orgID, u)
	if r.IdempotencyKey != nil && request.IsKey(*r.IdempotencyKey) {
		if refund, isReplayed, err = s.FindRefundByKey(ctx, orgID, *r.IdempotencyKey); err != nil || isReplayed {
			return refund, "", isReplayed, err
		}
	}
	if u.AssignedTo == "" {
		if err := s.checkUnmatchedRefund(ctx, orgID, u, asked); err != nil {
			return refund, "", false, err
		}
		if err := s.makeOwnCheckout(ctx, orgID, asked.CheckoutID, u, r.Actor); err != nil {
			return refund, "", false, err
		}
		if u, err = s.AssignUnmatched(ctx, orgID, r.DepositID, asked.CheckoutID, r.Actor); err != nil {
			return refund, "", false, err
		}
	}
	if u.AssignedTo != asked.CheckoutID {
		return refund, "", false, newAssigned(u.AssignedTo)
	}
	return s.RequestRefund(ctx, orgID, asked)
}

// ownCheckoutID returns the id of the checkout that an unmatched payment gets. It follows from the deposit, so every
// call finds the same one. A payment at the address of a checkout that the database lacks gets the checkout of this
// address, so what arrives there later is matched.
func ownCheckoutID(orgID string, u Unmatched) string {
	if u.CheckoutID != "" {
		return u.CheckoutID
	}
	return id.Derive(checkoutPrefix, orgID, "unmatched", u.DepositID)
}

// checkUnmatchedRefund refuses what the refund would refuse, before anything is written.
func (s *Service) checkUnmatchedRefund(ctx context.Context, orgID string, u Unmatched, asked RefundRequest) error {
	if u.Reason == OtherReference {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"A recent block gave this payment to a checkout, and its final block does not.").
			WithAdvice("Assign it to that checkout, and give it back there.").WithExtra("currentStatus", u.Reason)
	}
	if err := asked.checkForm(); err != nil {
		return err
	}
	err := s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		active, err := freeze.Active(ctx, tx, freeze.Target{OrgID: orgID})
		if err != nil {
			return err
		}
		if refusal := policy.CheckFrozen(active, "", fault.NothingWritten); refusal != nil {
			return refusal
		}
		return nil
	})
	if err != nil {
		return err
	}
	if asked.IdempotencyKey != nil && !request.IsKey(*asked.IdempotencyKey) {
		return nil // RequestRefund refuses it, and writes nothing either
	}
	_, err = s.planRefund(Checkout{ID: asked.CheckoutID, Payments: []Payment{{
		DepositID: u.DepositID, Mint: u.Mint, Chain: u.Chain, Amount: u.Amount,
		Status: s.PaymentStatuses[u.DepositStatus],
	}}}, asked)
	return err
}

// makeOwnCheckout makes the checkout of an unmatched payment, unless it exists. It asks for just what arrived, in this
// mint, so it needs no price. Its time was over when the payment arrived, and it is cancelled in the transaction that
// makes it: no state of it follows from the payment, and no event says that something was sold.
func (s *Service) makeOwnCheckout(
	ctx context.Context, orgID, checkoutID string, u Unmatched, requester audit.Actor,
) error {
	exists, err := s.hasCheckout(ctx, orgID, checkoutID)
	if err != nil || exists {
		return err
	}
	c, err := newOwnCheckout(orgID, checkoutID, u)
	if err != nil {
		return err
	}
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		c.CreatedAt, c.ExpiresAt = tx.Now, u.SeenAt
		if !c.ExpiresAt.Before(tx.Now) { // by the clock of another process
			c.ExpiresAt = tx.Now.Add(-time.Microsecond)
		}
		b := &pgx.Batch{}
		if err := queueInsert(b, c); err != nil {
			return err
		}
		b.Queue(`
			UPDATE checkouts SET version = version + 1, status = 'CANCELLED', cancelled_at = $2
			WHERE checkout_id = $1 AND version = 1`, c.ID, c.ExpiresAt)
		err := audit.QueueEntries(b, tx.Now,
			newCheckoutEntry(c, requester, "created", map[string]any{
				"due": c.AmountDue.Text(), "currency": c.Currency, "reference": nil, "deposit": u.DepositID,
			}),
			newCheckoutEntry(c, requester, "cancelled", nil))
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if pg.ViolatesConstraint(err, "checkouts_pkey") {
		return nil // another request was first
	}
	if err != nil {
		return fmt.Errorf("make checkout %s of unmatched payment %s: %w", checkoutID, u.DepositID, err)
	}
	return nil
}

func newOwnCheckout(orgID, checkoutID string, u Unmatched) (Checkout, error) {
	amountDue, err := pricing.Counted(u.Amount, u.Mint.Decimals, pricing.SameCurrency(u.SeenAt))
	if err != nil || amountDue.IsZero() || amountDue.Cmp(countedMax) > 0 {
		return Checkout{}, fault.New(fault.Unprocessable, fault.InvalidAmount, fault.NothingWritten,
			"A checkout cannot have the amount of this payment.").WithAdvice("Ask the operator to pay it back.")
	}
	return Checkout{
		Sale: Sale{
			Items:    []LineItem{{Name: ownItemName, UnitPrice: amountDue.Text(), Quantity: 1}},
			Currency: u.Mint.Symbol, AmountDue: amountDue, Need: amountDue, AcceptedMintIDs: []int{u.Mint.ID},
			OverPolicy: CreditSurplus, LatePolicy: HoldLate, CostMaxBps: costMaxBpsDefault,
		},
		ID: checkoutID, OrgID: orgID, Version: 1, Status: outcome.Open,
		Metadata: map[string]string{ownDepositKey: u.DepositID},
		digest:   request.Digest("coffer-unmatched-1", u.DepositID),
	}, nil
}
