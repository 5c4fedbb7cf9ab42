package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Receipt is what a receipt of a completed checkout says. It has neither the customer nor the reference, so a payer may
// show it to anyone.
type Receipt struct {
	Checkout Checkout
	ShopName string
	Payments []ReceiptPayment // those that count and are credited
	Paid     Price            // what they count together
}

// ReceiptPayment is a credited payment with the block that has it.
type ReceiptPayment struct {
	Payment

	BlockHash  string
	CreditedAt time.Time
}

// ReceiptByID returns what the receipt of a completed checkout says. Errors: faults NOT_FOUND, INVALID_STATE. Rule
// CO-19.
func (s *Service) ReceiptByID(ctx context.Context, orgID, checkoutID string) (r Receipt, err error) {
	if r.Checkout, err = s.CheckoutByID(ctx, orgID, checkoutID); err != nil {
		return Receipt{}, err
	}
	if r.Checkout.Status != outcome.Completed {
		return Receipt{}, fault.New(fault.Conflict, fault.InvalidState, fault.ReadOnly,
			"This checkout is %s, and only a completed one has a receipt.", r.Checkout.Status).
			WithExtra("currentStatus", string(r.Checkout.Status))
	}
	settings, err := s.LoadSettings(ctx, orgID)
	if err != nil {
		return Receipt{}, err
	}
	r.ShopName = settings.ShopName
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if settings.ShopName == "" {
			err = tx.QueryRow(ctx, `SELECT name FROM organizations WHERE org_id = $1`, orgID).Scan(&r.ShopName)
			if err != nil {
				return err
			}
		}
		r.Payments, r.Paid, err = r.Checkout.receiptPayments(ctx, tx)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("read the receipt of checkout %s: %w", checkoutID, err)
	}
	return r, nil
}

// receiptPayments returns the credited payments that count, with their blocks, and what they count together.
func (c Checkout) receiptPayments(ctx context.Context, tx pg.Tx) (payments []ReceiptPayment, paid Price, err error) {
	for _, p := range c.Payments {
		if !p.Counts || p.Status != outcome.PaymentCredited {
			continue
		}
		if paid, err = paid.Add(*p.Counted); err != nil {
			return nil, paid, err
		}
		shown := ReceiptPayment{Payment: p}
		var creditedAt *time.Time
		err = tx.QueryRow(ctx, `SELECT block_hash, credited_at FROM deposits WHERE deposit_id = $1`, p.DepositID).
			Scan(&shown.BlockHash, &creditedAt)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && creditedAt == nil {
			err = fmt.Errorf("payment %s has no credited deposit", p.DepositID)
		}
		if err != nil {
			return nil, paid, err
		}
		shown.CreditedAt = *creditedAt
		payments = append(payments, shown)
	}
	return payments, paid, nil
}

// PublicReceipt returns what the receipt of a checkout says for its payer. See ReceiptByID.
func (s *Service) PublicReceipt(ctx context.Context, checkoutID string) (Receipt, error) {
	orgID, err := s.ownerOf(ctx, checkoutID)
	if err != nil {
		return Receipt{}, err
	}
	return s.ReceiptByID(ctx, orgID, checkoutID)
}
