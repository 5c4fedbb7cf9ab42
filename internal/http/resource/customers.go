package resource

import (
	"encoding/json"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// Customer is one of the organization's customers.
type Customer struct {
	CustomerID    string           `json:"customerId"`
	CustomerEmail *string          `json:"customerEmail" doc:"The customer's e-mail. This field sets it while none is known, and never changes it." bounds:"maxLength=254" example:"a@example.com"`
	Status        string           `json:"status" doc:"FROZEN: deposits are credited as usual, and no money leaves." enum:"ACTIVE,FROZEN"`
	Metadata      webhook.Metadata `json:"metadata"`
	CreatedAt     webhook.Time     `json:"createdAt"`
	UpdatedAt     webhook.Time     `json:"updatedAt"`
}

// ShowCustomer writes a customer for the interface.
func ShowCustomer(c customer.Customer) Customer {
	return Customer{
		CustomerID: c.ID, CustomerEmail: OptionalText(c.Email), Status: c.Status(), Metadata: c.Metadata,
		CreatedAt: webhook.At(c.CreatedAt), UpdatedAt: webhook.At(c.UpdatedAt),
	}
}

// CustomerColumns are the columns of the table of customers.
var CustomerColumns = []kernel.Column[Customer]{
	{Name: "customerId", Cell: func(c Customer) string { return c.CustomerID }},
	{Name: "customerEmail", Cell: func(c Customer) string { return TextOrEmpty(c.CustomerEmail) }},
	{Name: "status", Cell: func(c Customer) string { return c.Status }},
	{Name: "createdAt", Cell: func(c Customer) string { return c.CreatedAt.String() }},
	{Name: "updatedAt", Cell: func(c Customer) string { return c.UpdatedAt.String() }},
	{Name: "metadata", Cell: func(c Customer) string { return encodeMetadata(c.Metadata) }},
}

// encodeMetadata encodes a caller's own keys and values as JSON, "" for none.
func encodeMetadata(m webhook.Metadata) string {
	if len(m) == 0 {
		return ""
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic("resource: cannot encode metadata: " + err.Error())
	}
	return string(raw)
}
