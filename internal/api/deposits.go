package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
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

// ProductDepositRequest is the body of POST /organization-deposit.
type ProductDepositRequest struct {
	MintID  int    `json:"mintId"`
	Product string `json:"product"`
}

// ProductAddress is where an organization pays in for a product of its own.
type ProductAddress struct {
	Product          string  `json:"product"`
	Chain            string  `json:"chain"`
	Address          string  `json:"address"`
	MintID           int     `json:"mintId"`
	Memo             *string `json:"memo"`
	MinDepositAmount string  `json:"minDepositAmount"`
	PaymentURI       string  `json:"paymentUri"`
}

func (a *api) createOrganizationDepositAddress(c *call) (answer, error) {
	var body ProductDepositRequest
	if err := decode(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := mintIDPossible(body.MintID); err != nil {
		return answer{}, err
	}
	counter := &deposit.Counter{DB: a.conf.DB, Chains: a.conf.Chains, Wallets: a.conf.Wallets}
	given, err := counter.OfProduct(c.Context(), c.org, body.MintID, body.Product)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: ProductAddress{
		Product: body.Product, Chain: string(given.Mint.Chain), Address: string(given.Address), MintID: given.Mint.ID,
		MinDepositAmount: given.Mint.MinDeposit.String(), PaymentURI: given.PaymentURI,
	}}, nil
}

func (a *api) createDepositAddress(c *call) (answer, error) {
	var body DepositRequest
	if err := decode(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := mintIDPossible(body.MintID); err != nil {
		return answer{}, err
	}
	email := ""
	if body.CustomerEmail != nil {
		// An empty text is no way to say that there is none; null is.
		if email = *body.CustomerEmail; email == "" {
			return answer{}, customer.CheckEmail(email)
		}
	}
	counter := &deposit.Counter{
		DB: a.conf.DB, Chains: a.conf.Chains, Wallets: a.conf.Wallets, By: c.actor(),
		// Who may not change an e-mail does not decide at once whose withdrawals need no approval.
		UntrustedEmail: !c.key.May(org.ScopeFull),
	}
	given, err := counter.Address(c.Context(), c.org, body.MintID, body.CustomerID, email)
	if err != nil {
		return answer{}, err
	}
	if given.EmailIgnored {
		c.warn.Set("Warning", "customerEmail ignored")
	}
	return answer{status: http.StatusOK, body: DepositAddress{
		CustomerID: given.Customer.ID, Chain: string(given.Mint.Chain), Address: string(given.Address), MintID: given.Mint.ID,
		MinDepositAmount: given.Mint.MinDeposit.String(), PaymentURI: given.PaymentURI,
	}}, nil
}

func mintIDPossible(n int) error {
	if n < 1 {
		return fault.New(fault.Invalid, fault.InvalidRequest, "The field mintId is a whole number above zero."+untouched+" GET /mints lists the mints there are.").On("mintId")
	}
	return nil
}

var depositColumns = []column[webhook.Deposit]{
	{"depositId", func(d webhook.Deposit) string { return d.DepositID }},
	{"createdAt", func(d webhook.Deposit) string { return d.CreatedAt.String() }},
	{"customerId", func(d webhook.Deposit) string { return text(d.CustomerID) }},
	{"product", func(d webhook.Deposit) string { return text(d.Product) }},
	{"customerEmail", func(d webhook.Deposit) string { return text(d.CustomerEmail) }},
	{"mintId", func(d webhook.Deposit) string { return number(d.MintID) }},
	{"symbol", func(d webhook.Deposit) string {
		if d.Mint == nil {
			return ""
		}
		return d.Mint.Symbol
	}},
	{"chain", func(d webhook.Deposit) string { return d.Chain }},
	{"amount", func(d webhook.Deposit) string { return d.Amount }},
	{"amountDecimal", func(d webhook.Deposit) string { return text(d.AmountDecimal) }},
	{"usdValue", func(d webhook.Deposit) string { return text(d.USDValue) }},
	{"status", func(d webhook.Deposit) string { return d.Status }},
	{"chainStatus", func(d webhook.Deposit) string { return d.ChainStatus }},
	{"source", func(d webhook.Deposit) string { return d.Source }},
	{"address", func(d webhook.Deposit) string { return d.Address }},
	{"fromAddresses", func(d webhook.Deposit) string { return strings.Join(d.FromAddresses, " ") }},
	{"txHash", func(d webhook.Deposit) string { return d.TxHash }},
	{"logIndex", func(d webhook.Deposit) string { return number(d.LogIndex) }},
	{"blockNumber", func(d webhook.Deposit) string { return number(d.BlockNumber) }},
	{"isFlagged", func(d webhook.Deposit) string { return strconv.FormatBool(d.IsFlagged) }},
	{"riskOfFunds", func(d webhook.Deposit) string { return text(d.RiskOfFunds) }},
	{"sweepTxHash", func(d webhook.Deposit) string { return text(d.SweepTxHash) }},
	{"confirmedAt", func(d webhook.Deposit) string { return moment(d.ConfirmedAt) }},
	{"creditedAt", func(d webhook.Deposit) string { return moment(d.CreditedAt) }},
	{"outputIndex", func(d webhook.Deposit) string { return number(d.OutputIndex) }},
	{"memo", func(d webhook.Deposit) string { return text(d.Memo) }},
}

func (a *api) listDeposits(c *call) (answer, error) {
	f := deposit.Filter{
		CustomerID: c.query["customerId"], Product: c.query["product"], Status: c.query["status"], Chain: c.query["chain"],
		CreatedAfter: or(c.query.time("createdAfter")), CreatedBefore: or(c.query.time("createdBefore")),
		TxHash: sameHash(c.query["txHash"]), Address: a.sameAddress(c.query["address"]),
		IsFlagged: c.query.flag("isFlagged"),
	}
	if n := c.query.number("mintId"); n != nil {
		f.MintID = *n
	}
	if c.table {
		return exported(a, c, "deposits", depositColumns, inSnapshot(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(webhook.Deposit) error) error {
			return deposit.Each(ctx, tx, c.org, f, desc, row)
		}))
	}
	p, err := a.place(c, "deposits")
	if err != nil {
		return answer{}, err
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
