package resource

import (
	"encoding/json"
	"strconv"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// TransferColumns are the columns of the table of transfers.
var TransferColumns = []kernel.Column[webhook.Transfer]{
	{Name: "transferId", Cell: func(t webhook.Transfer) string { return t.TransferID }},
	{Name: "createdAt", Cell: func(t webhook.Transfer) string { return t.CreatedAt.String() }},
	{Name: "idempotencyKey", Cell: func(t webhook.Transfer) string { return t.IdempotencyKey }},
	{Name: "reference", Cell: func(t webhook.Transfer) string { return TextOrEmpty(t.Reference) }},
	{Name: "mintId", Cell: func(t webhook.Transfer) string { return strconv.Itoa(t.MintID) }},
	{Name: "symbol", Cell: func(t webhook.Transfer) string { return t.Mint.Symbol }},
	{Name: "chain", Cell: func(t webhook.Transfer) string { return t.Mint.Chain }},
	{Name: "amount", Cell: func(t webhook.Transfer) string { return t.Amount }},
	{Name: "amountDecimal", Cell: func(t webhook.Transfer) string { return t.AmountDecimal }},
	{Name: "fromCustomerId", Cell: func(t webhook.Transfer) string { return TextOrEmpty(t.From.CustomerID) }},
	{Name: "fromProduct", Cell: func(t webhook.Transfer) string { return TextOrEmpty(t.From.Product) }},
	{Name: "toCustomerId", Cell: func(t webhook.Transfer) string { return TextOrEmpty(t.To.CustomerID) }},
	{Name: "toProduct", Cell: func(t webhook.Transfer) string { return TextOrEmpty(t.To.Product) }},
	{Name: "metadata", Cell: func(t webhook.Transfer) string { return MetadataJSON(t.Metadata) }},
}

// MetadataJSON encodes a caller's own keys and values as JSON, "" for none.
func MetadataJSON(m webhook.Metadata) string {
	if len(m) == 0 {
		return ""
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic("resource: cannot encode metadata: " + err.Error())
	}
	return string(raw)
}
