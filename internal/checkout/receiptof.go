package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// ReceiptOf returns the receipt of a completed checkout as a signed file: what was sold, what was paid for it, and in
// which transactions. It names neither the customer nor the reference, so a payer may show it to anyone. Errors: faults
// NOT_FOUND, INVALID_STATE; UNAVAILABLE in a process that has no private key. Rules CO-19, CO-72 and CO-73.
func (s *Service) ReceiptOf(ctx context.Context, orgID, checkoutID string) ([]byte, error) {
	c, err := s.CheckoutByID(ctx, orgID, checkoutID)
	if err != nil {
		return nil, err
	}
	if c.Status != outcome.Completed {
		return nil, fault.New(fault.Conflict, fault.InvalidState, fault.ReadOnly,
			"This checkout is %s, and only a completed one has a receipt.", c.Status).
			WithDetail("status", string(c.Status))
	}
	if !s.Receipts.CanSign() {
		return nil, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.ReadOnly,
			"This process has no private key of webhooks and signs no receipt.").
			WithAdvice("Ask the operator to serve receipts from a process that has it.")
	}
	settings, err := s.LoadSettings(ctx, orgID)
	if err != nil {
		return nil, err
	}
	r := webhook.Receipt{
		Environment: s.Environment, CheckoutID: c.ID, OrganizationID: c.OrgID, Shop: settings.ShopName,
		Currency: c.Currency, AmountDue: c.AmountDue.Show(c.Currency), CompletedAt: webhook.At(*c.CompletedAt),
		IssuedAt: webhook.At(s.DB.Clock()()),
	}
	for _, item := range c.Items {
		r.Items = append(r.Items, webhook.ReceiptItem{
			Name: item.Name, Quantity: int64(item.Quantity), UnitPrice: item.UnitPrice,
		})
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if r.Shop == "" {
			if err := tx.QueryRow(ctx, `SELECT name FROM organizations WHERE org_id = $1`, orgID).Scan(&r.Shop); err != nil {
				return err
			}
		}
		r.Payments, r.AmountPaid, err = c.receiptPayments(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the receipt of checkout %s: %w", checkoutID, err)
	}
	file, err := s.Receipts.Receipt(r)
	if err != nil {
		return nil, fmt.Errorf("sign the receipt of checkout %s: %w", checkoutID, err)
	}
	return file, nil
}

// receiptPayments returns the credited payments that count, with their blocks, and what they count together.
func (c Checkout) receiptPayments(
	ctx context.Context, tx pg.Tx,
) (payments []webhook.ReceiptPayment, amountPaid string, err error) {
	var sum Price
	for _, p := range c.Payments {
		if !p.Counts || p.Status != outcome.PaymentCredited {
			continue
		}
		if sum, err = sum.Add(*p.Counted); err != nil {
			return nil, "", err
		}
		shown := webhook.ReceiptPayment{
			DepositID: p.DepositID, MintID: p.Mint.ID, Symbol: p.Mint.Symbol, Chain: string(p.Chain),
			Amount: p.Amount.String(), Decimals: p.Mint.Decimals, TxHash: string(p.Tx), BlockHeight: p.Height,
			Counted: p.Counted.Text(),
		}
		var creditedAt *time.Time
		err = tx.QueryRow(ctx, `SELECT block_hash, credited_at FROM deposits WHERE deposit_id = $1`, p.DepositID).
			Scan(&shown.BlockHash, &creditedAt)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && creditedAt == nil {
			err = fmt.Errorf("payment %s has no credited deposit", p.DepositID)
		}
		if err != nil {
			return nil, "", err
		}
		shown.CreditedAt = webhook.At(*creditedAt)
		if p.Rate.Source != pricing.OwnSymbol {
			shown.Price, shown.CurrencyPrice = new(p.Rate.Price.String()), new(p.Rate.CurrencyPrice.String())
			shown.PriceSource, shown.PricedAt = &p.Rate.Source, webhook.AtOrNil(&p.Rate.PricedAt)
		}
		payments = append(payments, shown)
	}
	return payments, sum.Show(c.Currency), nil
}

// PublicReceipt returns the receipt of a checkout for its payer. See ReceiptOf.
func (s *Service) PublicReceipt(ctx context.Context, checkoutID string) ([]byte, error) {
	orgID, err := s.ownerOf(ctx, checkoutID)
	if err != nil {
		return nil, err
	}
	return s.ReceiptOf(ctx, orgID, checkoutID)
}
