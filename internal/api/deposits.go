package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// DepositRequest is the body of POST /deposit.
type DepositRequest struct {
	MintID        int     `json:"mintId"`
	CustomerID    string  `json:"customerId"`
	CustomerEmail *string `json:"customerEmail,omitempty"`
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

func (a *api) createOrganizationDepositAddress(c *call) (answer, error) {
	var body ProductDepositRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := checkMintID(body.MintID); err != nil {
		return answer{}, err
	}
	counter := &deposit.AddressService{DB: a.conf.DB, Chains: a.conf.Chains, Wallets: a.conf.Wallets}
	assigned, err := counter.IssueForProduct(c.Context(), c.org, body.MintID, body.Product)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: ProductAddress{
		Product: body.Product, Chain: string(assigned.Mint.Chain), Address: string(assigned.Address),
		MintID:           assigned.Mint.ID,
		MinDepositAmount: assigned.Mint.MinDeposit.String(), PaymentURI: assigned.PaymentURI,
	}}, nil
}

func (a *api) createDepositAddress(c *call) (answer, error) {
	var body DepositRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := checkMintID(body.MintID); err != nil {
		return answer{}, err
	}
	email := ""
	if body.CustomerEmail != nil {
		// An empty text does not mean that there is no e-mail; null does.
		if email = *body.CustomerEmail; email == "" {
			return answer{}, customer.CheckEmail(email)
		}
	}
	counter := &deposit.AddressService{
		DB: a.conf.DB, Chains: a.conf.Chains, Wallets: a.conf.Wallets, Actor: c.auditActor(),
		// An e-mail decides whose withdrawals need no approval. A key that may not change an e-mail
		// can therefore set only an untrusted one.
		UntrustedEmail: !c.key.IsAllowed(identity.SetCustomerEmail),
	}
	assigned, err := counter.IssueForCustomer(c.Context(), c.org, body.MintID, body.CustomerID, email)
	if err != nil {
		return answer{}, err
	}
	if assigned.EmailIgnored {
		c.header.Set("Warning", "customerEmail ignored")
	}
	return answer{status: http.StatusOK, body: DepositAddress{
		CustomerID: assigned.Customer.ID, Chain: string(assigned.Mint.Chain), Address: string(assigned.Address),
		MintID:           assigned.Mint.ID,
		MinDepositAmount: assigned.Mint.MinDeposit.String(), PaymentURI: assigned.PaymentURI,
	}}, nil
}

func checkMintID(n int) error {
	if n < 1 {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The field mintId has to be a whole number above zero.").
			WithStep(fault.ListMints).WithParam("mintId")
	}
	return nil
}

var depositColumns = []column[webhook.Deposit]{
	{"depositId", func(d webhook.Deposit) string { return d.DepositID }},
	{"createdAt", func(d webhook.Deposit) string { return d.CreatedAt.String() }},
	{"customerId", func(d webhook.Deposit) string { return textOrEmpty(d.CustomerID) }},
	{"product", func(d webhook.Deposit) string { return textOrEmpty(d.Product) }},
	{"customerEmail", func(d webhook.Deposit) string { return textOrEmpty(d.CustomerEmail) }},
	{"mintId", func(d webhook.Deposit) string { return numberOrEmpty(d.MintID) }},
	{"symbol", func(d webhook.Deposit) string {
		if d.Mint == nil {
			return ""
		}
		return d.Mint.Symbol
	}},
	{"chain", func(d webhook.Deposit) string { return d.Chain }},
	{"amount", func(d webhook.Deposit) string { return d.Amount }},
	{"amountDecimal", func(d webhook.Deposit) string { return textOrEmpty(d.AmountDecimal) }},
	{"usdValue", func(d webhook.Deposit) string { return textOrEmpty(d.USDValue) }},
	{"status", func(d webhook.Deposit) string { return d.Status }},
	{"chainStatus", func(d webhook.Deposit) string { return d.ChainStatus }},
	{"source", func(d webhook.Deposit) string { return d.Source }},
	{"address", func(d webhook.Deposit) string { return d.Address }},
	{"fromAddresses", func(d webhook.Deposit) string { return strings.Join(d.FromAddresses, " ") }},
	{"txHash", func(d webhook.Deposit) string { return d.TxHash }},
	{"logIndex", func(d webhook.Deposit) string { return numberOrEmpty(d.LogIndex) }},
	{"blockNumber", func(d webhook.Deposit) string { return numberOrEmpty(d.BlockNumber) }},
	{"isFlagged", func(d webhook.Deposit) string { return strconv.FormatBool(d.IsFlagged) }},
	{"riskOfFunds", func(d webhook.Deposit) string { return textOrEmpty(d.RiskOfFunds) }},
	{"sweepTxHash", func(d webhook.Deposit) string { return textOrEmpty(d.SweepTxHash) }},
	{"confirmedAt", func(d webhook.Deposit) string { return timeOrEmpty(d.ConfirmedAt) }},
	{"creditedAt", func(d webhook.Deposit) string { return timeOrEmpty(d.CreditedAt) }},
	{"outputIndex", func(d webhook.Deposit) string { return numberOrEmpty(d.OutputIndex) }},
	{"memo", func(d webhook.Deposit) string { return textOrEmpty(d.Memo) }},
}

func (a *api) listDeposits(c *call) (answer, error) {
	f := deposit.Filter{
		CustomerID: c.query["customerId"], Product: c.query["product"], Status: c.query["status"],
		Chain:         c.query["chain"],
		CreatedAfter:  timeOrZero(c.query.timeValue("createdAfter")),
		CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
		TxHash:        canonicalHash(c.query["txHash"]), Address: a.canonicalAddress(c.query["address"]),
		IsFlagged: c.query.flagValue("isFlagged"),
	}
	if n := c.query.numberValue("mintId"); n != nil {
		f.MintID = *n
	}
	if c.table {
		return csvExport(a, c, "deposits", depositColumns,
			snapshotReader(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(webhook.Deposit) error) error {
				return deposit.ForEach(ctx, tx, c.org, f, desc, row)
			}))
	}
	p, err := a.readPage(c, "deposits")
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[webhook.Deposit]
	err = a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.List(ctx, tx, c.org, f, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	identity := func(d webhook.Deposit) webhook.Deposit { return d }
	return answer{status: http.StatusOK, body: newPage(a, c, "deposits", found, identity)}, nil
}

func (a *api) getDeposit(c *call) (answer, error) {
	var found webhook.Deposit
	err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.LoadObject(ctx, tx, c.org, c.pathParam("depositId"))
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: found}, nil
}
