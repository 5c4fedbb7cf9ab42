package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// DepositRequest is the body of POST /deposit.
type DepositRequest struct {
	MintID        int     `json:"mintId"`
	CustomerID    string  `json:"customerId"`
	CustomerEmail *string `json:"customerEmail,omitempty"`
}

// DepositAddress is where a customer pays in.
type DepositAddress struct {
	CustomerID       string  `json:"customerId"`
	Chain            string  `json:"chain"`
	Address          string  `json:"address"`
	MintID           int     `json:"mintId"`
	Memo             *string `json:"memo"`
	MinDepositAmount string  `json:"minDepositAmount"`
	PaymentURI       string  `json:"paymentUri"`
}

func (a *api) createDepositAddress(c *call) (answer, error) {
	var body DepositRequest
	if err := decode(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := customer.CheckID(body.CustomerID); err != nil {
		return answer{}, err
	}
	email := ""
	if body.CustomerEmail != nil {
		email = *body.CustomerEmail
		if err := customer.CheckEmail(email); err != nil {
			return answer{}, err
		}
	}
	if err := mintIDPossible(body.MintID); err != nil {
		return answer{}, err
	}
	mints, err := a.mints(c.Context(), c.org)
	if err != nil {
		return answer{}, err
	}
	m, ok := mints.ByID(body.MintID)
	if !ok {
		return answer{}, fault.New(fault.Invalid, fault.MintNotFound,
			"There is no mint %d. No address was given out and no money moved. GET /mints lists the ones there are.", body.MintID).On("mintId")
	}
	running, ok := a.conf.Chains[m.Chain]
	if !ok || !m.DepositEnabled || m.Quarantined {
		return answer{}, fault.New(fault.Unprocessable, fault.DepositsSuspended,
			"No addresses are given out for %s on %s at the moment. No money moved; addresses that were given out before are still watched. Use another mint, or ask the operator of this service.", m.Symbol, m.Chain).On("mintId")
	}
	// The customer first: an address that somebody knows always has an owner.
	var owner customer.Customer
	var ignored bool
	err = a.conf.DB.InOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		owner, ignored, err = customer.Ensure(ctx, tx, c.org, body.CustomerID, email)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	w, err := a.conf.Wallets.Address(c.Context(), signer.WalletRef{
		OrgID: c.org, Family: m.Chain.Family(), Purpose: wallet.CustomerDeposit, Subject: owner.ID,
	})
	if err != nil {
		return answer{}, err
	}
	if ignored {
		c.warn.Set("Warning", "customerEmail ignored")
	}
	return answer{status: http.StatusOK, body: DepositAddress{
		CustomerID: owner.ID, Chain: string(m.Chain), Address: string(w.Address), MintID: m.ID,
		MinDepositAmount: m.MinDeposit.String(), PaymentURI: running.Grammar.PaymentURI(w.Address, m.Contract),
	}}, nil
}

func mintIDPossible(n int) error {
	if n < 1 {
		return fault.New(fault.Invalid, fault.InvalidRequest, "The field mintId is a whole number above zero."+untouched+" GET /mints lists the mints there are.").On("mintId")
	}
	return nil
}

func (a *api) listDeposits(c *call) (answer, error) {
	p, err := a.place(c, "deposits")
	if err != nil {
		return answer{}, err
	}
	f := deposit.Filter{
		CustomerID: c.query["customerId"], Status: c.query["status"], Chain: c.query["chain"],
		CreatedAfter: or(c.query.time("createdAfter")), CreatedBefore: or(c.query.time("createdBefore")),
		TxHash: c.query["txHash"], Address: c.query["address"],
	}
	if n := c.query.number("mintId"); n != nil {
		f.MintID = *n
	}
	var found page.Result[webhook.Deposit]
	err = a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.List(ctx, tx, c.org, f, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	same := func(d webhook.Deposit) webhook.Deposit { return d }
	return answer{status: http.StatusOK, body: listed(a, c, "deposits", found, same)}, nil
}

func (a *api) getDeposit(c *call) (answer, error) {
	var found webhook.Deposit
	err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.Object(ctx, tx, c.org, c.param("depositId"))
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: found}, nil
}
