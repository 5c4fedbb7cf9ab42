package wire

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// Checkout returns the object of a checkout. One that was read without its payments lacks them, and then its payments
// in dollars, too, unless dollars are its currency.
func Checkout(c checkout.Checkout) webhook.Checkout {
	o := webhook.Checkout{
		CheckoutID: c.ID, URL: textOrNil(c.URL), Status: string(c.Status), Exception: string(c.Exception()),
		Details:  webhook.CheckoutDetails{Exceptions: texts(c.Exceptions)},
		Currency: c.Currency, AmountDue: c.AmountDue.Show(c.Currency), AmountPaid: c.Counted.Show(c.Currency),
		AmountPaidUSD: paidUSD(c), AmountRemaining: c.Missing().Show(c.Currency),
		AmountOverpaid: c.Surplus().Show(c.Currency), AcceptedMintIDs: c.AcceptedMintIDs,

		CustomerID: c.CustomerID, CustomerEmail: c.CustomerEmail, Reference: c.Reference,
		OnePerReference: c.OnePerReference, Metadata: c.Metadata, IdempotencyKey: textOrNil(c.IdempotencyKey),
		SuccessURL: c.SuccessURL, CancelURL: c.CancelURL, AcceptedBy: decider(c.DecidedBy),
		AcceptReason: textOrNil(c.DecidedReason), LinkID: c.LinkID,

		ExpiresAt: webhook.At(c.ExpiresAt), CancelledAt: webhook.AtOrNil(c.CancelledAt),
		CompletedAt: webhook.AtOrNil(c.CompletedAt), CreatedAt: webhook.At(c.CreatedAt),
		UpdatedAt: webhook.At(c.UpdatedAt),
	}
	for _, item := range c.Items {
		unitPrice := item.UnitPrice
		if parsed, err := checkout.ReadPrice(item.UnitPrice); err == nil {
			unitPrice = parsed.Show(c.Currency)
		}
		o.LineItems = append(o.LineItems, webhook.LineItem{
			ProductID: textOrNil(item.ProductID), Name: item.Name, UnitPrice: unitPrice, Quantity: item.Quantity,
		})
	}
	for _, mintID := range c.AcceptedMintIDs {
		o.PaymentOptions = append(o.PaymentOptions, PaymentOption(c, mintID))
	}
	for _, p := range c.Payments {
		o.Payments = append(o.Payments, checkoutPayment(c, p))
	}
	if c.Refund != nil {
		o.Refund = new(Refund(*c.Refund))
	}
	return o
}

// decider returns the actor of a decision, as the row of the checkout names it; nil for none.
func decider(named string) *webhook.Actor {
	kind, id, isNamed := strings.Cut(named, " ")
	if !isNamed {
		return nil
	}
	return &webhook.Actor{Type: kind, ID: id}
}

// paidUSD returns what the credited payments count in dollars; nil if the price of one in dollars is not known.
func paidUSD(c checkout.Checkout) *string {
	if c.Currency == checkout.USD {
		return new(c.Counted.Show(checkout.USD))
	}
	var sum checkout.Price
	isCounted := false
	for _, p := range c.Payments {
		if !p.Counts || p.Status != outcome.PaymentCredited || p.Counted == nil || p.Rate == nil {
			continue
		}
		isCounted = true
		value, hasPrice, err := p.Rate.InUSD(*p.Counted, c.Currency)
		if err == nil && hasPrice {
			sum, err = sum.Add(value)
		}
		if err != nil || !hasPrice {
			return nil
		}
	}
	if !isCounted && !c.Counted.IsZero() {
		return nil
	}
	return new(sum.Show(checkout.USD))
}

// PaymentOption returns the object of how a checkout can be paid in one mint, opened or not.
func PaymentOption(c checkout.Checkout, mintID int) webhook.PaymentOption {
	o := webhook.PaymentOption{MintID: mintID}
	i := slices.IndexFunc(c.Options, func(opened checkout.Option) bool { return opened.Mint.ID == mintID })
	if i < 0 {
		return o
	}
	opened := c.Options[i]
	o.Address, o.AddressProof = textOrNil(opened.Wallet.Address), addressProof(opened.Wallet)
	if opened.TakesWallets && len(opened.Ref) == len(payuri.Reference("", "", 0)) {
		o.SharedAddress, o.SharedAddressProof = textOrNil(opened.Shared.Address), addressProof(*opened.Shared)
		o.Reference = new(payuri.ReferenceText([32]byte(opened.Ref)))
	}
	quote, hasQuote := opened.Quote()
	// An option whose price is unknown, or whose mint was closed, keeps the quote of before a part was paid.
	if !hasQuote || c.Status == outcome.Open && quote.Covers.Cmp(c.Remaining()) != 0 {
		return o
	}
	o.Amount, o.RateExpiresAt = amount(&quote.Amount), webhook.AtOrNil(&quote.ExpiresAt)
	if rate, err := quote.Rate.PerToken(); err == nil {
		o.Rate = new(rate.Show(c.Currency))
	}
	if c.Status == outcome.Open && (opened.Shared == nil || opened.TakesWallets) {
		o.PaymentURI = paymentURI(opened, quote.Amount)
	}
	return o
}

// paymentURI returns the link of a payment; nil where its chain does not run, because then its network is not known.
func paymentURI(opened checkout.Option, asked money.Amount) *string {
	t := payuri.Target{
		Chain: opened.Mint.Chain, CAIP2: opened.Network, Contract: opened.Mint.Contract, Decimals: opened.Mint.Decimals,
		Address: opened.Wallet.Address, Amount: asked,
	}
	if opened.Shared != nil && opened.Mint.Chain.Family() == chain.SolanaFamily {
		t.Address, t.Reference = opened.Shared.Address, new([32]byte(opened.Ref))
	}
	uri, err := payuri.New(t)
	if err != nil {
		return nil
	}
	return &uri.Link
}

func addressProof(w wallet.Wallet) *webhook.AddressProof {
	return &webhook.AddressProof{
		Family: string(w.Family), Purpose: w.Purpose, Path: w.Path,
		Signature: base64.StdEncoding.EncodeToString(w.Proof),
	}
}

func checkoutPayment(c checkout.Checkout, p checkout.Payment) webhook.CheckoutPayment {
	o := webhook.CheckoutPayment{
		DepositID: p.DepositID, Chain: string(p.Chain), Amount: p.Amount.String(), TxHash: string(p.Tx),
		Status: string(p.Status), IsLate: c.IsLate(p), Counts: p.Counts, PaidAt: webhook.At(p.PaidAt()),
	}
	if p.Mint != nil {
		o.MintID = &p.Mint.ID
	}
	if p.Counted == nil || p.Rate == nil {
		return o
	}
	o.Value = new(p.Counted.Show(c.Currency))
	o.PriceSource, o.PricedAt = textOrNil(p.Rate.Source), webhook.AtOrNil(&p.Rate.PricedAt)
	if usd, hasPrice, err := p.Rate.InUSD(*p.Counted, c.Currency); err == nil && hasPrice {
		if dollars, err := money.ParseUSD(usd.Text()); err == nil {
			o.USDValue = cents(&dollars)
		}
	}
	if p.Rate.Source != checkout.OwnSymbol {
		o.Price = new(p.Rate.Price.String())
	}
	return o
}
