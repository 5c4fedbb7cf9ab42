package api

import (
	"context"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// DepositRequest is the body of POST /deposit.
type DepositRequest struct {
	MintID        int     `json:"mintId" bounds:"minimum=1"`
	CustomerID    string  `json:"customerId"`
	CustomerEmail *string `json:"customerEmail,omitempty" doc:"The customer's e-mail. This call sets it while none is known, and never changes it." bounds:"minLength=3,maxLength=254" example:"a@example.com"`
}

// DepositAddress is a customer's deposit address.
type DepositAddress struct {
	CustomerID       string  `json:"customerId"`
	Chain            string  `json:"chain"`
	Address          string  `json:"address"`
	MintID           int     `json:"mintId"`
	Memo             *string `json:"memo"`
	MinDepositAmount string  `json:"minDepositAmount"`
	PaymentURI       string  `json:"paymentUri"`
}

// ProductDepositRequest is the body of POST /organization-deposit.
type ProductDepositRequest struct {
	MintID  int    `json:"mintId"`
	Product string `json:"product"`
}

// ProductAddress is the deposit address of a product of an organization.
type ProductAddress struct {
	Product          string  `json:"product"`
	Chain            string  `json:"chain"`
	Address          string  `json:"address"`
	MintID           int     `json:"mintId"`
	Memo             *string `json:"memo"`
	MinDepositAmount string  `json:"minDepositAmount"`
	PaymentURI       string  `json:"paymentUri"`
}

func (a *api) createOrganizationDepositAddress(c *call, body ProductDepositRequest) (ProductAddress, error) {
	if err := checkMintID(body.MintID); err != nil {
		return ProductAddress{}, err
	}
	counter := &deposit.AddressService{DB: a.conf.DB, Chains: a.conf.Chains, Wallets: a.conf.Wallets}
	assigned, err := counter.IssueForProduct(c.Context(), c.Caller.OrgID, body.MintID, body.Product)
	if err != nil {
		return ProductAddress{}, err
	}
	return ProductAddress{
		Product: body.Product, Chain: string(assigned.Mint.Chain), Address: string(assigned.Address),
		MintID:           assigned.Mint.ID,
		MinDepositAmount: assigned.Mint.MinDeposit.String(), PaymentURI: assigned.PaymentURI,
	}, nil
}

func (a *api) createDepositAddress(c *call, body DepositRequest) (DepositAddress, error) {
	if err := checkMintID(body.MintID); err != nil {
		return DepositAddress{}, err
	}
	email := ""
	if body.CustomerEmail != nil {
		// An empty text does not mean that there is no e-mail; null does.
		if email = *body.CustomerEmail; email == "" {
			return DepositAddress{}, customer.CheckEmail(email)
		}
	}
	counter := &deposit.AddressService{
		DB: a.conf.DB, Chains: a.conf.Chains, Wallets: a.conf.Wallets, Actor: c.Caller.Actor(),
		// An e-mail decides whose withdrawals need no approval. A key that may not change an e-mail
		// can therefore set only an untrusted one.
		UntrustedEmail: !c.Caller.IsAllowed(identity.SetCustomerEmail),
	}
	assigned, err := counter.IssueForCustomer(c.Context(), c.Caller.OrgID, body.MintID, body.CustomerID, email)
	if err != nil {
		return DepositAddress{}, err
	}
	if assigned.EmailIgnored {
		c.AnswerHeader.Set("Warning", "customerEmail ignored")
	}
	return DepositAddress{
		CustomerID: assigned.Customer.ID, Chain: string(assigned.Mint.Chain), Address: string(assigned.Address),
		MintID:           assigned.Mint.ID,
		MinDepositAmount: assigned.Mint.MinDeposit.String(), PaymentURI: assigned.PaymentURI,
	}, nil
}

func checkMintID(n int) error {
	if n < 1 {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The field mintId has to be a whole number above zero.").
			WithStep(fault.ListMints).WithParam("mintId")
	}
	return nil
}

func (a *api) depositFilter(c *call) deposit.Filter {
	f := deposit.Filter{
		CustomerID: c.Query["customerId"], Product: c.Query["product"], Status: c.Query["status"],
		Chain:        c.Query["chain"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		TxHash:    resource.CanonicalHash(c.Query["txHash"]),
		Address:   resource.CanonicalAddress(a.conf.Chains, c.Query["address"]),
		IsFlagged: c.Query.FlagValue("isFlagged"),
	}
	if n := c.Query.NumberValue("mintId"); n != nil {
		f.MintID = *n
	}
	return f
}

func (a *api) exportDeposits(c *call) (kernel.Rows[webhook.Deposit], error) {
	f := a.depositFilter(c)
	return snapshotRows(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(webhook.Deposit) error) error {
		return deposit.ForEach(
			ctx, tx, c.Caller.OrgID, f, desc, func(d deposit.Deposit) error { return row(wire.Deposit(d)) },
		)
	}), nil
}

func (a *api) listDeposits(c *call) (kernel.Page[webhook.Deposit], error) {
	p, err := c.ReadPage("deposits")
	if err != nil {
		return kernel.Page[webhook.Deposit]{}, err
	}
	var found pagination.Result[deposit.Deposit]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.List(ctx, tx, c.Caller.OrgID, a.depositFilter(c), p)
		return err
	})
	if err != nil {
		return kernel.Page[webhook.Deposit]{}, err
	}
	return kernel.NewPage(c.Request, "deposits", found, wire.Deposit), nil
}

func (a *api) getDeposit(c *call) (webhook.Deposit, error) {
	var found deposit.Deposit
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.Load(ctx, tx, c.Caller.OrgID, c.PathParam("depositId"))
		return err
	})
	if err != nil {
		return webhook.Deposit{}, err
	}
	return wire.Deposit(found), nil
}
