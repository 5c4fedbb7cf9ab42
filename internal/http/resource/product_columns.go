package resource

import (
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// ProductColumns are the columns of the table of products.
var ProductColumns = []kernel.Column[webhook.Product]{
	{Name: "productId", Cell: func(p webhook.Product) string { return p.ProductID }},
	{Name: "createdAt", Cell: func(p webhook.Product) string { return p.CreatedAt.String() }},
	{Name: "status", Cell: func(p webhook.Product) string { return p.Status }},
	{Name: "name", Cell: func(p webhook.Product) string { return p.Name }},
	{Name: "description", Cell: func(p webhook.Product) string { return TextOrEmpty(p.Description) }},
	{Name: "imageUrl", Cell: func(p webhook.Product) string { return TextOrEmpty(p.ImageURL) }},
	{Name: "priceType", Cell: func(p webhook.Product) string { return p.PriceType }},
	{Name: "currency", Cell: func(p webhook.Product) string { return p.Currency }},
	{Name: "price", Cell: func(p webhook.Product) string { return TextOrEmpty(p.Price) }},
	{Name: "minPrice", Cell: func(p webhook.Product) string { return TextOrEmpty(p.MinPrice) }},
	{Name: "maxPrice", Cell: func(p webhook.Product) string { return TextOrEmpty(p.MaxPrice) }},
	{Name: "acceptedMintIds", Cell: func(p webhook.Product) string { return joinNumbers(p.AcceptedMintIDs) }},
	{Name: "settlementMintId", Cell: func(p webhook.Product) string {
		if p.SettlementMintID == nil {
			return ""
		}
		return strconv.Itoa(*p.SettlementMintID)
	}},
	{Name: "maxQuantity", Cell: func(p webhook.Product) string { return strconv.Itoa(p.MaxQuantity) }},
	{
		Name: "underpaymentToleranceBps",
		Cell: func(p webhook.Product) string { return strconv.Itoa(p.UnderpaymentToleranceBps) },
	},
	{Name: "overpaymentPolicy", Cell: func(p webhook.Product) string { return p.OverpaymentPolicy }},
	{Name: "latePaymentPolicy", Cell: func(p webhook.Product) string { return p.LatePaymentPolicy }},
	{Name: "successUrl", Cell: func(p webhook.Product) string { return TextOrEmpty(p.SuccessURL) }},
	{Name: "cancelUrl", Cell: func(p webhook.Product) string { return TextOrEmpty(p.CancelURL) }},
	{Name: "onePerReference", Cell: func(p webhook.Product) string { return strconv.FormatBool(p.OnePerReference) }},
	{Name: "metadata", Cell: func(p webhook.Product) string { return MetadataJSON(p.Metadata) }},
	{Name: "idempotencyKey", Cell: func(p webhook.Product) string { return TextOrEmpty(p.IdempotencyKey) }},
	{Name: "updatedAt", Cell: func(p webhook.Product) string { return p.UpdatedAt.String() }},
	{Name: "archivedAt", Cell: func(p webhook.Product) string { return TimeOrEmpty(p.ArchivedAt) }},
}

// joinNumbers writes numbers into one cell.
func joinNumbers(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, " ")
}
