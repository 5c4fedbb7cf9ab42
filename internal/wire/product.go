package wire

import (
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/webhook"
)

// Product returns the object of a product.
func Product(p checkout.Product) webhook.Product {
	price := func(value *checkout.Price) *string {
		if value == nil {
			return nil
		}
		return new(value.Show(p.Currency))
	}
	return webhook.Product{
		ProductID: p.ID, Name: p.Name, Description: p.Description, ImageURL: p.ImageURL, Status: string(p.Status),
		PriceType: p.PriceType, Currency: p.Currency, Price: price(p.Price), MinPrice: price(p.MinPrice),
		MaxPrice: price(p.MaxPrice), AcceptedMintIDs: p.AcceptedMintIDs, SettlementMintID: p.SettlementMintID,
		MaxQuantity: p.MaxQuantity, UnderpaymentToleranceBps: p.UnderpaymentToleranceBps,
		OverpaymentPolicy: p.OverpaymentPolicy, LatePaymentPolicy: p.LatePaymentPolicy, SuccessURL: p.SuccessURL,
		CancelURL: p.CancelURL, OnePerReference: p.OnePerReference, Metadata: p.Metadata,
		IdempotencyKey: textOrNil(p.IdempotencyKey), CreatedAt: webhook.At(p.CreatedAt),
		UpdatedAt: webhook.At(p.UpdatedAt), ArchivedAt: webhook.AtOrNil(p.ArchivedAt),
	}
}
