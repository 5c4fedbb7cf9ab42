package api

import (
	"context"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// Customer is one of the organization's customers.
type Customer = resource.Customer

func customerFilter(c *call) customer.Filter {
	return customer.Filter{
		CustomerID: c.Query["customerId"], Status: c.Query["status"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) exportCustomers(c *call) (kernel.Rows[Customer], error) {
	f := customerFilter(c)
	return snapshotRows(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(Customer) error) error {
		return customer.ForEach(ctx, tx, c.Caller.OrgID, f, desc, func(found customer.Customer) error {
			return row(resource.ShowCustomer(found))
		})
	}), nil
}

func (a *api) listCustomers(c *call) (kernel.Page[Customer], error) {
	p, err := c.ReadPage("customers")
	if err != nil {
		return kernel.Page[Customer]{}, err
	}
	var found pagination.Result[customer.Customer]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = customer.List(ctx, tx, c.Caller.OrgID, customerFilter(c), p)
		return err
	})
	if err != nil {
		return kernel.Page[Customer]{}, err
	}
	return kernel.NewPage(c.Request, "customers", found, resource.ShowCustomer), nil
}

func (a *api) getCustomer(c *call) (Customer, error) {
	var found customer.Customer
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = customer.ByID(ctx, tx, c.Caller.OrgID, c.PathParam("customerId"))
		return err
	})
	if err != nil {
		return Customer{}, err
	}
	return resource.ShowCustomer(found), nil
}

// CustomerChange is the body of PATCH /customers/{customerId}. It takes no null: an e-mail can be
// changed, but not removed.
type CustomerChange struct {
	CustomerEmail string            `json:"customerEmail,omitempty" doc:"The customer's new e-mail. If it differs from the known one, no allowlist counts it for 24 hours." bounds:"minLength=3,maxLength=254" example:"b@example.com"`
	Metadata      map[string]string `json:"metadata,omitempty" doc:"Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40 characters, values of up to 500." bounds:"maxProperties=20"`
}

func (a *api) editCustomer(c *call, body CustomerChange) (Customer, error) {
	ch := customer.Change{Metadata: body.Metadata}
	if c.HasMember("customerEmail") {
		ch.Email = &body.CustomerEmail
	}
	return a.answerCustomer(c, func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		return customer.Edit(ctx, tx, c.Caller.OrgID, c.PathParam("customerId"), c.Caller.Actor(), ch)
	})
}

// FreezeRequest is the body of POST /customers/{customerId}/freeze, which may be
// left out.
type FreezeRequest struct {
	Reason *string `json:"reason,omitempty" doc:"For your own records: the audit log shows who froze the customer and why." bounds:"maxLength=500"`
}

func (a *api) freezeCustomer(c *call, body FreezeRequest) (Customer, error) {
	return a.answerCustomer(c, func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		return customer.Freeze(ctx, tx, c.Caller.OrgID, c.PathParam("customerId"), c.Caller.Actor(),
			resource.TextOrEmpty(body.Reason))
	})
}

// UnfreezeRequest is the body of POST /customers/{customerId}/unfreeze, which may
// be left out.
type UnfreezeRequest struct{}

func (a *api) unfreezeCustomer(c *call, _ UnfreezeRequest) (Customer, error) {
	return a.answerCustomer(c, func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		return customer.Unfreeze(ctx, tx, c.Caller.OrgID, c.PathParam("customerId"), c.Caller.Actor())
	})
}

// answerCustomer answers with a customer after the transaction.
func (a *api) answerCustomer(c *call, change func(context.Context, pg.Tx) (customer.Customer, error)) (Customer,
	error,
) {
	var updated customer.Customer
	err := a.conf.DB.InOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		updated, err = change(ctx, tx)
		return err
	})
	if err != nil {
		return Customer{}, err
	}
	return resource.ShowCustomer(updated), nil
}

// Balance is a customer's balance of one mint.
type Balance struct {
	MintID          int     `json:"mintId"`
	Symbol          string  `json:"symbol"`
	Chain           string  `json:"chain"`
	Available       string  `json:"available" doc:"The amount that can be spent." form:"amount"`
	PendingDeposit  string  `json:"pendingDeposit"`
	PendingWithdraw string  `json:"pendingWithdraw" doc:"Held for withdrawals that have not ended." form:"amount"`
	InSwap          string  `json:"inSwap" doc:"Held for swaps that have not ended, and what came back from failed ones until you restore it." form:"amount"`
	Held            string  `json:"held" doc:"Deposits that risk screening flagged. The total does not include them." form:"amount"`
	Total           string  `json:"total" doc:"available + pendingWithdraw + inSwap." form:"amount"`
	USDValue        *string `json:"usdValue"`
}

// Balances are a customer's balances.
type Balances struct {
	Data []Balance `json:"data"`
}

func (a *api) customerBalances(c *call) (Balances, error) {
	var found []report.Balance
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) error {
		owner, err := customer.ByID(ctx, tx, c.Caller.OrgID, c.PathParam("customerId"))
		if err != nil {
			return err
		}
		found, err = report.LoadBalances(ctx, tx, c.Caller.OrgID, owner.ID)
		return err
	})
	if err != nil {
		return Balances{}, err
	}
	body := Balances{Data: make([]Balance, 0, len(found))}
	for _, b := range found {
		row := Balance{
			MintID: b.Mint.ID, Symbol: b.Mint.Symbol, Chain: string(b.Mint.Chain),
			Available: b.Available.String(), PendingDeposit: b.PendingDeposit.String(),
			PendingWithdraw: b.PendingWithdraw.String(),
			InSwap:          b.InSwap.String(), Held: b.Held.String(), Total: b.Total.String(),
		}
		if v := report.USDValue(c.Context(), a.conf.Prices, b.Mint, b.Total); v != nil {
			row.USDValue = resource.OptionalText(v.Cents())
		}
		body.Data = append(body.Data, row)
	}
	return body, nil
}
