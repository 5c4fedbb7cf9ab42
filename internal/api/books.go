package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/webhook"
)

// ProductBalance is an organization's balance of one mint in one product.
type ProductBalance struct {
	Product         string  `json:"product"`
	MintID          int     `json:"mintId"`
	Symbol          string  `json:"symbol"`
	Chain           string  `json:"chain"`
	Available       string  `json:"available"`
	Pending         string  `json:"pending"`
	PendingDeposit  string  `json:"pendingDeposit"`
	Total           string  `json:"total"`
	USDValue        *string `json:"usdValue"`
	OwedToCustomers *string `json:"owedToCustomers,omitempty"`
}

// ProductBalances are an organization's own balances.
type ProductBalances struct {
	Data []ProductBalance `json:"data"`
}

func (a *api) listProductBalances(c *call) (answer, error) {
	var found []report.ProductBalance
	err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = report.LoadProductBalances(ctx, tx, c.org)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	body := ProductBalances{Data: make([]ProductBalance, 0, len(found))}
	for _, b := range found {
		row := ProductBalance{
			Product: b.Product, MintID: b.Mint.ID, Symbol: b.Mint.Symbol, Chain: string(b.Mint.Chain),
			Available: b.Available.String(), Pending: b.Pending.String(), PendingDeposit: b.PendingDeposit.String(),
			Total: b.Total.String(),
		}
		if b.Product == "CUSTODIAL" {
			row.OwedToCustomers = pointerTo(b.Owed.String())
		}
		if v := report.USDValue(c.Context(), a.conf.Prices, b.Mint, b.Total); v != nil {
			row.USDValue = optionalText(v.Cents())
		}
		body.Data = append(body.Data, row)
	}
	return answer{status: http.StatusOK, body: body}, nil
}

// Entry is one movement of a balance.
type Entry struct {
	EntryID       string        `json:"entryId"`
	Account       webhook.Party `json:"account"`
	Balance       string        `json:"balance"`
	MintID        int           `json:"mintId"`
	Symbol        string        `json:"symbol"`
	Chain         string        `json:"chain"`
	Direction     string        `json:"direction"`
	Amount        string        `json:"amount"`
	AmountDecimal string        `json:"amountDecimal"`
	Cause         string        `json:"cause"`
	ResourceID    string        `json:"resourceId"`
	CreatedAt     webhook.Time  `json:"createdAt"`
}

var (
	ledgerCauses = []string{
		string(ledger.Deposit), string(ledger.DepositReversal), string(ledger.WithdrawalHold),
		string(ledger.WithdrawalEnd), string(ledger.WithdrawalFee),
		string(ledger.WithdrawalCharge), string(ledger.WithdrawalChargeReturn),
		string(ledger.Transfer), string(ledger.Restore),
	}
	// balanceNames maps the kinds of accounts that an organization is shown to their names.
	balanceNames = map[ledger.Kind]string{
		ledger.Customer: "AVAILABLE", ledger.Withdrawing: "PENDING_WITHDRAW", ledger.Product: "AVAILABLE",
		ledger.ProductWithdrawing: "PENDING_WITHDRAW",
	}
)

func (a *api) listLedgerEntries(c *call) (answer, error) {
	f := ledger.Filter{
		Kinds: []ledger.Kind{ledger.Customer, ledger.Withdrawing, ledger.Product, ledger.ProductWithdrawing},
	}
	customerID, ofCustomer := c.query["customerId"]
	product, ofProduct := c.query["product"]
	switch {
	case ofCustomer && ofProduct:
		return answer{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A balance belongs to a customer or to a product, not to both.").
			WithAdvice("Give customerId or product, or neither for all balances.").WithParam("product")
	case ofCustomer:
		f.Kinds, f.Subject = f.Kinds[:2], customerID
	case ofProduct:
		f.Kinds, f.Subject = f.Kinds[2:], product
	}
	if n := c.query.numberValue("mintId"); n != nil {
		f.MintID = *n
	}
	f.PostedAfter = timeOrZero(c.query.timeValue("createdAfter"))
	f.PostedBefore = timeOrZero(c.query.timeValue("createdBefore"))
	f.Chain = c.query["chain"]
	if c.table {
		return a.exportEntries(c, f)
	}
	p, err := a.readPage(c, "ledger entries")
	if err != nil {
		return answer{}, err
	}
	found, mints, err := a.loadEntries(c, f, p)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, "ledger entries", found, showEntry(mints))}, nil
}

func (a *api) loadEntries(
	c *call, f ledger.Filter, p pagination.Page,
) (found pagination.Result[ledger.Entry], mints mint.Catalogue, err error) {
	err = a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		found, err = ledger.ListEntries(ctx, tx, c.org, f, p)
		return err
	})
	return found, mints, err
}

func showEntry(mints mint.Catalogue) func(ledger.Entry) Entry {
	return func(e ledger.Entry) Entry {
		m, _ := mints.ByID(e.Account.MintID)
		// A restored payment is posted in parts, which differ in the suffix of its id.
		resource, _, _ := strings.Cut(e.Cause.ID, "/")
		shown := Entry{
			EntryID: fmt.Sprint("le_", e.ID, "_d"), Balance: balanceNames[e.Account.Kind], MintID: m.ID,
			Symbol: m.Symbol, Chain: string(m.Chain),
			Direction: "DEBIT", Amount: e.Amount.String(), AmountDecimal: e.Amount.Decimal(m.Decimals),
			Cause: string(e.Cause.Kind), ResourceID: resource, CreatedAt: webhook.At(e.PostedAt),
		}
		if e.Credit {
			shown.EntryID, shown.Direction = fmt.Sprint("le_", e.ID, "_c"), "CREDIT"
		}
		if e.Account.Kind == ledger.Product || e.Account.Kind == ledger.ProductWithdrawing {
			shown.Account.Product = &e.Account.Subject
		} else {
			shown.Account.CustomerID = &e.Account.Subject
		}
		return shown
	}
}

var entryColumns = []column[Entry]{
	{"entryId", func(e Entry) string { return e.EntryID }},
	{"createdAt", func(e Entry) string { return e.CreatedAt.String() }},
	{"customerId", func(e Entry) string { return textOrEmpty(e.Account.CustomerID) }},
	{"product", func(e Entry) string { return textOrEmpty(e.Account.Product) }},
	{"balance", func(e Entry) string { return e.Balance }},
	{"mintId", func(e Entry) string { return strconv.Itoa(e.MintID) }},
	{"symbol", func(e Entry) string { return e.Symbol }},
	{"chain", func(e Entry) string { return e.Chain }},
	{"direction", func(e Entry) string { return e.Direction }},
	{"amount", func(e Entry) string { return e.Amount }},
	{"amountDecimal", func(e Entry) string { return e.AmountDecimal }},
	{"cause", func(e Entry) string { return e.Cause }},
	{"resourceId", func(e Entry) string { return e.ResourceID }},
}

func (a *api) exportEntries(c *call, f ledger.Filter) (answer, error) {
	return csvExport(a, c, "ledger-entries", entryColumns,
		snapshotReader(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(Entry) error) error {
			mints, err := mint.LoadCatalogue(ctx, tx)
			if err != nil {
				return err
			}
			show := showEntry(mints)
			return ledger.ForEachEntry(ctx, tx, c.org, f, desc, func(e ledger.Entry) error { return row(show(e)) })
		}))
}
