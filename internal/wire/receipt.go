package wire

import (
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/webhook"
)

// Receipt returns the object of a receipt. environment is webhook.Live or webhook.Test.
func Receipt(r checkout.Receipt, environment string, issuedAt time.Time) webhook.Receipt {
	c := r.Checkout
	shown := webhook.Receipt{
		Environment: environment, CheckoutID: c.ID, OrganizationID: c.OrgID, Shop: r.ShopName, Currency: c.Currency,
		AmountDue: c.AmountDue.Show(c.Currency), AmountPaid: r.Paid.Show(c.Currency), IssuedAt: webhook.At(issuedAt),
	}
	if c.CompletedAt != nil {
		shown.CompletedAt = webhook.At(*c.CompletedAt)
	}
	for _, item := range c.Items {
		shown.Items = append(shown.Items, webhook.ReceiptItem{
			Name: item.Name, Quantity: int64(item.Quantity), UnitPrice: item.UnitPrice,
		})
	}
	for _, p := range r.Payments {
		payment := webhook.ReceiptPayment{
			DepositID: p.DepositID, MintID: p.Mint.ID, Symbol: p.Mint.Symbol, Chain: string(p.Chain),
			Amount: p.Amount.String(), Decimals: p.Mint.Decimals, TxHash: string(p.Tx), BlockHash: p.BlockHash,
			BlockHeight: p.Height, Counted: p.Counted.Text(), CreditedAt: webhook.At(p.CreditedAt),
		}
		if p.Rate.Source != pricing.OwnSymbol {
			payment.Price, payment.CurrencyPrice = new(p.Rate.Price.String()), new(p.Rate.CurrencyPrice.String())
			payment.PriceSource, payment.PricedAt = &p.Rate.Source, webhook.AtOrNil(&p.Rate.PricedAt)
		}
		shown.Payments = append(shown.Payments, payment)
	}
	return shown
}
