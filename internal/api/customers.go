package api

import (
	"context"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/webhook"
)

// Customer is one of the organization's customers.
type Customer struct {
	CustomerID    string           `json:"customerId"`
	CustomerEmail *string          `json:"customerEmail"`
	Status        string           `json:"status"`
	Metadata      webhook.Metadata `json:"metadata"`
	CreatedAt     webhook.Time     `json:"createdAt"`
	UpdatedAt     webhook.Time     `json:"updatedAt"`
}

func showCustomer(c customer.Customer) Customer {
	return Customer{
		CustomerID: c.ID, CustomerEmail: optionalText(c.Email), Status: c.Status(), Metadata: c.Metadata,
		CreatedAt: webhook.At(c.CreatedAt), UpdatedAt: webhook.At(c.UpdatedAt),
	}
}

func timeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

var customerColumns = []column[Customer]{
	{"customerId", func(c Customer) string { return c.CustomerID }},
	{"customerEmail", func(c Customer) string { return textOrEmpty(c.CustomerEmail) }},
	{"status", func(c Customer) string { return c.Status }},
	{"createdAt", func(c Customer) string { return c.CreatedAt.String() }},
	{"updatedAt", func(c Customer) string { return c.UpdatedAt.String() }},
	{"metadata", func(c Customer) string { return metadataJSON(c.Metadata) }},
}

func (a *api) listCustomers(c *call) (answer, error) {
	f := customer.Filter{
		CustomerID: c.query["customerId"], Status: c.query["status"],
		CreatedAfter:  timeOrZero(c.query.timeValue("createdAfter")),
		CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
	}
	if c.table {
		return csvExport(a, c, "customers", customerColumns,
			snapshotReader(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(Customer) error) error {
				return customer.ForEach(ctx, tx, c.org, f, desc, func(found customer.Customer) error {
					return row(showCustomer(found))
				})
			}))
	}
	p, err := a.readPage(c, "customers")
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[customer.Customer]
	err = a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = customer.List(ctx, tx, c.org, f, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, "customers", found, showCustomer)}, nil
}

func (a *api) getCustomer(c *call) (answer, error) {
	var found customer.Customer
	err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = customer.ByID(ctx, tx, c.org, c.pathParam("customerId"))
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showCustomer(found)}, nil
}

// CustomerChange is the body of PATCH /customers/{customerId}. It takes no null: an e-mail can be
// changed, but not removed.
type CustomerChange struct {
	CustomerEmail string            `json:"customerEmail,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
}

func (a *api) editCustomer(c *call) (answer, error) {
	var body CustomerChange
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	ch := customer.Change{Metadata: body.Metadata}
	if hasMember(c.body, "customerEmail") {
		ch.Email = &body.CustomerEmail
	}
	return a.answerCustomer(c, func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		return customer.Edit(ctx, tx, c.org, c.pathParam("customerId"), c.auditActor(), ch)
	})
}

// FreezeRequest is the body of POST /customers/{customerId}/freeze, which may be
// left out.
type FreezeRequest struct {
	Reason *string `json:"reason,omitempty"`
}

func (a *api) freezeCustomer(c *call) (answer, error) {
	var body FreezeRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	return a.answerCustomer(c, func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		return customer.Freeze(ctx, tx, c.org, c.pathParam("customerId"), c.auditActor(), textOrEmpty(body.Reason))
	})
}

// UnfreezeRequest is the body of POST /customers/{customerId}/unfreeze, which may
// be left out.
type UnfreezeRequest struct{}

func (a *api) unfreezeCustomer(c *call) (answer, error) {
	if err := decodeBody(c.body, &UnfreezeRequest{}); err != nil {
		return answer{}, err
	}
	return a.answerCustomer(c, func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		return customer.Unfreeze(ctx, tx, c.org, c.pathParam("customerId"), c.auditActor())
	})
}

// answerCustomer answers with a customer after the transaction.
func (a *api) answerCustomer(c *call, change func(context.Context, pg.Tx) (customer.Customer, error)) (answer, error) {
	var updated customer.Customer
	err := a.conf.DB.InOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		updated, err = change(ctx, tx)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showCustomer(updated)}, nil
}

// Balance is a customer's balance of one mint.
type Balance struct {
	MintID          int     `json:"mintId"`
	Symbol          string  `json:"symbol"`
	Chain           string  `json:"chain"`
	Available       string  `json:"available"`
	PendingDeposit  string  `json:"pendingDeposit"`
	PendingWithdraw string  `json:"pendingWithdraw"`
	InSwap          string  `json:"inSwap"`
	Held            string  `json:"held"`
	Total           string  `json:"total"`
	USDValue        *string `json:"usdValue"`
}

// Balances are a customer's balances.
type Balances struct {
	Data []Balance `json:"data"`
}

func (a *api) customerBalances(c *call) (answer, error) {
	var found []report.Balance
	err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) error {
		owner, err := customer.ByID(ctx, tx, c.org, c.pathParam("customerId"))
		if err != nil {
			return err
		}
		found, err = report.LoadBalances(ctx, tx, c.org, owner.ID)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	body := Balances{Data: make([]Balance, 0, len(found))}
	for _, b := range found {
		row := Balance{
			MintID: b.Mint.ID, Symbol: b.Mint.Symbol, Chain: string(b.Mint.Chain),
			Available: b.Available.String(), PendingDeposit: b.PendingDeposit.String(),
			PendingWithdraw: b.PendingWithdraw.String(),
			InSwap:          "0", Held: b.Held.String(), Total: b.Total.String(),
		}
		if v := report.USDValue(c.Context(), a.conf.Prices, b.Mint, b.Total); v != nil {
			row.USDValue = optionalText(v.Cents())
		}
		body.Data = append(body.Data, row)
	}
	return answer{status: http.StatusOK, body: body}, nil
}
