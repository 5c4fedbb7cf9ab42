package dashboard

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// The acts of the page of a customer.
const (
	freezeAct = "freeze"
	liftAct   = "lift"
	emailAct  = "email"
)

// recentTransactionsMax is how many transactions of a customer its page shows.
const recentTransactionsMax = 10

// customersPage lists the customers.
func (d *dashboard) customersPage() pages.Page {
	return pages.Page{
		Path: "/customers", Title: "Customers", Action: identity.ReadOrganization,
		Live:  []string{"CUSTOMER", "FREEZE"},
		Group: "", Icon: "customers", Shortcut: "c",
		Query: []kernel.Parameter{
			{Name: "search", Kind: kernel.TextParameter, Max: customerIDBytesMax},
			{Name: "status", Kind: kernel.WordParameter, Enum: customer.Statuses},
			pages.CursorParameter,
		},
		Load: d.loadCustomers, WriteCSV: d.writeCustomers,
	}
}

// customerRow is a customer in the list.
type customerRow struct {
	Path, ID, Email string
	Chip            ui.Chip
	Created         ui.Moment
}

// customersView is what the list shows.
type customersView struct {
	Path, CSVPath, Search string
	Tabs                  []ui.Tab
	IsFrozen              bool
	Rows                  []customerRow
	FirstPath, NextPath   string
}

// customerChip writes the status of a customer for people.
func customerChip(isFrozen bool) ui.Chip {
	if isFrozen {
		return ui.Chip{Kind: ui.Bad, Word: "Frozen"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Active"}
}

// checkCustomerQuery refuses a search within a state: a search goes by the ids alone.
func checkCustomerQuery(r *pages.Request) error {
	if r.Query["search"] != "" && r.Query["status"] != "" {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.ReadOnly,
			"A list is searched by id, or it has the customers of one state.").WithParam("status")
	}
	return nil
}

func (d *dashboard) loadCustomers(r *pages.Request) (templ.Component, error) {
	if err := checkCustomerQuery(r); err != nil {
		return nil, err
	}
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	search, status := r.Query["search"], r.Query["status"]
	var found pagination.Result[customer.Customer]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if search != "" {
			found, err = customer.ListByPrefix(ctx, tx, r.Session.OrgID, search, p)
		} else {
			found, err = customer.List(ctx, tx, r.Session.OrgID, customer.Filter{Status: status}, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	isFrozen := customer.Customer{Frozen: true}.Status() == status
	view := customersView{
		Path: r.Path("customers"), CSVPath: r.CSVPath(), Search: search, IsFrozen: isFrozen,
		Tabs: []ui.Tab{
			{Title: "All", Path: r.Path("customers"), Current: status == ""},
			{
				Title: "Frozen", Path: r.FilterPath("status", customer.Customer{Frozen: true}.Status()),
				Current: isFrozen,
			},
		},
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, c := range found.Items {
		view.Rows = append(view.Rows, customerRow{
			Path: r.Path("customers", c.ID), ID: c.ID, Email: c.Email, Chip: customerChip(c.Frozen),
			Created: r.Moment(c.CreatedAt),
		})
	}
	return customersList(view), nil
}

func (d *dashboard) writeCustomers(r *pages.Request, w *kernel.StreamWriter) error {
	if err := checkCustomerQuery(r); err != nil {
		return err
	}
	org, search := r.Session.OrgID, r.Query["search"]
	return kernel.WriteTable(r.Context(), w, true, resource.CustomerColumns,
		func(ctx context.Context, desc bool, row func(resource.Customer) error) error {
			show := func(c customer.Customer) error { return row(resource.ShowCustomer(c)) }
			return d.conf.DB.SnapshotOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
				if search != "" {
					return customer.ForEachByPrefix(ctx, tx, org, search, show)
				}
				return customer.ForEach(ctx, tx, org, customer.Filter{Status: r.Query["status"]}, desc, show)
			})
		})
}

// customerPage shows one customer, and takes freezes and the change of the e-mail.
func (d *dashboard) customerPage() pages.Page {
	return pages.Page{
		Path: "/customers/{customerId}", Title: "Customer", Action: identity.ReadOrganization,
		Live: []string{"FREEZE"}, LiveOfAll: true,
		Load: d.loadCustomer,
		Acts: []pages.Act{
			{
				Name: freezeAct, Action: identity.FreezeCustomer, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{{Name: "reason", BytesMax: noteBytesMax, Optional: true}},
				FindDone: d.findFreeze(true), Run: d.freezeCustomer,
			},
			{
				Name: liftAct, Action: identity.UnfreezeCustomer, StepUp: pages.ActStepUp,
				FindDone: d.findFreeze(false), Run: d.liftFreeze,
			},
			{
				Name: emailAct, Action: identity.SetCustomerEmail, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{{
					Name: "customerEmail", BytesMax: emailBytesMax, Missing: "Enter the new e-mail of the customer.",
				}},
				Run: d.changeEmail,
			},
		},
	}
}

func customerPath(r *pages.Request) string { return r.Path("customers", r.PathParam("customerId")) }

// findFreeze returns the page of a customer whom the organization has frozen, or has not: what the act
// wants stands already. Rule PAGE-13.
func (d *dashboard) findFreeze(isFrozen bool) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (path string, err error) {
		org, id := r.Session.OrgID, r.PathParam("customerId")
		err = d.conf.DB.ReadOrg(r.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			path = ""
			if _, err := customer.ByID(ctx, tx, org, id); err != nil {
				return err
			}
			active, err := freeze.ListOfCustomer(ctx, tx, org, id)
			if err == nil && slices.ContainsFunc(active, isOwnFreeze) == isFrozen {
				path = customerPath(r)
			}
			return err
		})
		return path, err
	}
}

func isOwnFreeze(f freeze.Freeze) bool { return f.Source == freeze.SourceOrganization }

// changeCustomer runs a change of the customer of the page.
func (d *dashboard) changeCustomer(
	r *pages.Request, change func(ctx context.Context, tx pg.Tx, org, id string) error,
) (string, error) {
	err := d.conf.DB.InOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		return change(ctx, tx, r.Session.OrgID, r.PathParam("customerId"))
	})
	return customerPath(r), err
}

func (d *dashboard) freezeCustomer(r *pages.Request) (string, error) {
	return d.changeCustomer(r, func(ctx context.Context, tx pg.Tx, org, id string) error {
		_, err := customer.Freeze(ctx, tx, org, id, actor(r), r.Values["reason"])
		return err
	})
}

func (d *dashboard) liftFreeze(r *pages.Request) (string, error) {
	return d.changeCustomer(r, func(ctx context.Context, tx pg.Tx, org, id string) error {
		_, err := customer.Unfreeze(ctx, tx, org, id, actor(r))
		return err
	})
}

func (d *dashboard) changeEmail(r *pages.Request) (string, error) {
	return d.changeCustomer(r, func(ctx context.Context, tx pg.Tx, org, id string) error {
		email := r.Values["customerEmail"]
		_, err := customer.Edit(ctx, tx, org, id, actor(r), customer.Change{Email: &email})
		return err
	})
}

// customerView is what the page of a customer shows.
type customerView struct {
	ListPath, Path, ID      string
	StatementPath           string
	SwapsPath               string // the list of its swaps
	DepositSwapsPath        string // the list of its deposit swaps
	Chip                    ui.Chip
	Facts                   []ui.Fact
	Balances                []customerBalance
	Addresses               []addressRow
	Recent                  []transactionRow
	Freezes                 []freezeRow
	HasOwnFreeze            bool
	WiderFreeze             string // in words; "" without one
	CanFreeze, CanLift      bool
	CanChangeEmail          bool
	EmailLabel, EmailButton string
	Form                    ui.Form
}

// customerBalance is what a customer has of one token.
type customerBalance struct {
	Available, Symbol, Network, Dollars string
	Withdrawing, InSwap, Arriving, Held string // "" for none
}

// addressRow is an address at which the customer pays in.
type addressRow struct {
	Networks, Address string
	Issued            ui.Moment
}

// freezeRow is an active freeze of the customer.
type freezeRow struct {
	Source, Author, Reason string
	Created                ui.Moment
}

// customerRead is what is read of a customer in one transaction.
type customerRead struct {
	customer customer.Customer
	balances []report.Balance
	wallets  []wallet.Wallet
	deposits []deposit.Deposit
	freezes  []freeze.Freeze
	authors  map[string]audit.Actor // of freezes, by id
	widest   *freeze.Freeze
}

func (d *dashboard) readCustomer(r *pages.Request) (c customerRead, err error) {
	org, id := r.Session.OrgID, r.PathParam("customerId")
	err = d.conf.DB.ReadOrg(r.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		c = customerRead{authors: map[string]audit.Actor{}}
		if c.customer, err = customer.ByID(ctx, tx, org, id); err != nil {
			return err
		}
		if c.balances, err = report.LoadBalances(ctx, tx, org, id); err != nil {
			return err
		}
		if c.wallets, err = wallet.ListOfCustomer(ctx, tx, org, id); err != nil {
			return err
		}
		newest := pagination.Page{Desc: true, Limit: recentTransactionsMax}
		found, err := deposit.List(ctx, tx, org, deposit.Filter{CustomerID: id}, newest)
		if err != nil {
			return err
		}
		c.deposits = found.Items
		if c.freezes, err = freeze.ListOfCustomer(ctx, tx, org, id); err != nil {
			return err
		}
		for _, f := range c.freezes {
			// The first entry about a freeze is its creation.
			acts, err := audit.List(ctx, tx, audit.Filter{OrgID: org, ResourceID: f.ID}, pagination.Page{Limit: 1})
			if err != nil {
				return err
			}
			if len(acts.Items) > 0 {
				c.authors[f.ID] = acts.Items[0].Actor
			}
		}
		c.widest, err = freeze.Active(ctx, tx, freeze.Target{OrgID: org, CustomerID: id})
		return err
	})
	return c, err
}

func (d *dashboard) loadCustomer(r *pages.Request) (templ.Component, error) {
	c, err := d.readCustomer(r)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	ofCustomer := "?" + url.Values{resource.CustomerFilter.Name: {c.customer.ID}}.Encode()
	view := customerView{
		ListPath: r.Path("customers"), Path: customerPath(r), ID: c.customer.ID,
		StatementPath:    r.Path("customers", c.customer.ID, "statement"),
		SwapsPath:        r.Path("swaps") + ofCustomer,
		DepositSwapsPath: r.Path("deposit-swaps") + ofCustomer,
		Chip:             customerChip(c.customer.Frozen), Facts: aboutCustomer(r, c.customer), Form: r.Form,
		HasOwnFreeze: slices.ContainsFunc(c.freezes, isOwnFreeze), CanFreeze: r.IsAllowed(identity.FreezeCustomer),
		CanLift: r.IsAllowed(identity.UnfreezeCustomer), CanChangeEmail: r.IsAllowed(identity.SetCustomerEmail),
		EmailLabel: "New e-mail", EmailButton: "Change the e-mail",
	}
	if c.customer.Email == "" {
		view.EmailLabel, view.EmailButton = "E-mail", "Add the e-mail"
	}
	if c.widest != nil && c.widest.Scope != freeze.ScopeCustomer {
		view.WiderFreeze = widerFreezeText(c.widest.Scope)
	}
	for _, f := range c.freezes {
		row := freezeRow{
			Source: freezeSourceText(f.Source), Author: names.nameOf(c.authors[f.ID], r.Session),
			Created: r.Moment(f.CreatedAt),
		}
		if isOwnFreeze(f) {
			row.Reason = f.Reason // The others are sentences for the operator.
		}
		view.Freezes = append(view.Freezes, row)
	}
	for _, b := range c.balances {
		view.Balances = append(view.Balances, d.newCustomerBalance(r.Context(), b))
	}
	if view.Addresses, err = d.listAddresses(r, c.wallets); err != nil {
		return nil, err
	}
	if view.Recent, err = d.listRecent(r, c.customer.ID, c.deposits); err != nil {
		return nil, err
	}
	return customerOverview(view), nil
}

func aboutCustomer(r *pages.Request, c customer.Customer) []ui.Fact {
	facts := []ui.Fact{{Name: "E-mail", Value: ui.Text("not known")}}
	if c.Email != "" {
		facts[0].Value = ui.Foreign(c.Email)
	}
	if c.EmailChangedAt != nil {
		facts = append(facts, ui.Fact{Name: "E-mail changed", Value: ui.When(r.Moment(*c.EmailChangedAt))})
		if end := c.EmailChangedAt.Add(customer.CoolingOff); r.Now.Before(end) {
			facts = append(facts, ui.Fact{
				Name:  "Not trusted yet",
				Value: ui.Text("No allowlist counts it until " + ui.FormatMoment(r.Moment(end)) + "."),
			})
		}
	}
	facts = append(facts, ui.Fact{Name: "Created", Value: ui.When(r.Moment(c.CreatedAt))})
	for _, name := range kernel.SortedKeys(c.Metadata) {
		facts = append(facts, ui.Fact{Name: ui.EscapeForeign(name), Value: ui.Foreign(c.Metadata[name])})
	}
	return facts
}

func (d *dashboard) newCustomerBalance(ctx context.Context, b report.Balance) customerBalance {
	row := customerBalance{
		Available: b.Available.Decimal(b.Mint.Decimals), Symbol: b.Mint.Symbol, Network: networkName(b.Mint.Chain),
	}
	if value := report.USDValue(ctx, d.conf.Prices, b.Mint, b.Total); value != nil {
		row.Dollars = value.Cents()
	}
	if !b.PendingWithdraw.IsZero() {
		row.Withdrawing = b.PendingWithdraw.Decimal(b.Mint.Decimals)
	}
	if !b.InSwap.IsZero() {
		row.InSwap = b.InSwap.Decimal(b.Mint.Decimals)
	}
	if !b.PendingDeposit.IsZero() {
		row.Arriving = b.PendingDeposit.Decimal(b.Mint.Decimals)
	}
	if !b.Held.IsZero() {
		row.Held = b.Held.Decimal(b.Mint.Decimals)
	}
	return row
}

// listAddresses returns the customer's addresses. An address without a valid proof of its key is an error
// and never shown. Rule DEP-2.
func (d *dashboard) listAddresses(r *pages.Request, wallets []wallet.Wallet) (rows []addressRow, err error) {
	for _, w := range wallets {
		if err := d.conf.Deposits.Wallets.VerifyAttestation(w); err != nil {
			return nil, errors.Join(errors.New("an address of the customer has no valid proof"), err)
		}
		var networks []string
		for _, name := range chain.Names {
			if name.Family() == w.Family {
				networks = append(networks, networkName(name))
			}
		}
		rows = append(rows, addressRow{
			Networks: strings.Join(networks, ", "), Address: string(w.Address), Issued: r.Moment(w.CreatedAt),
		})
	}
	return rows, nil
}

// listRecent merges the newest deposits, withdrawals, transfers and swaps of a customer.
func (d *dashboard) listRecent(
	r *pages.Request, customerID string, deposits []deposit.Deposit,
) (rows []transactionRow, err error) {
	newest := pagination.Page{Desc: true, Limit: recentTransactionsMax}
	withdrawals, err := d.conf.Withdrawals.List(
		r.Context(), r.Session.OrgID, withdrawal.Filter{CustomerID: customerID}, newest,
	)
	if err != nil {
		return nil, err
	}
	transfers, err := d.conf.Transfers.List(
		r.Context(), r.Session.OrgID, transfer.Filter{CustomerID: customerID}, newest,
	)
	if err != nil {
		return nil, err
	}
	swaps, err := d.conf.Swaps.List(r.Context(), r.Session.OrgID, swap.Filter{CustomerID: customerID}, newest)
	if err != nil {
		return nil, err
	}
	add := func(kind transactionKind, row transactionRow) {
		row.Kind = kind.singular()
		rows = append(rows, row)
	}
	for _, item := range deposits {
		add(depositKind, depositLine(r, item))
	}
	for _, w := range withdrawals.Items {
		add(withdrawalKind, withdrawalRow(r, w))
	}
	for _, t := range transfers.Items {
		add(transferKind, transferLine(r, t))
	}
	for _, w := range swaps.Items {
		rows = append(rows, swapLine(r, w))
	}
	return sortRecent(rows), nil
}

// freezeSourceText says who froze a customer.
func freezeSourceText(source freeze.Source) string {
	switch source {
	case freeze.SourceOrganization:
		return "Frozen by your organization"
	case freeze.SourceOperator:
		return "Frozen by the operator of this service"
	case freeze.SourceVerify:
		return "Frozen by the checker of this service"
	case freeze.SourceFinality:
		return "Frozen because a final block was replaced"
	case freeze.SourceDispatch:
		return "Frozen because a payment could not be explained"
	case freeze.SourceSigner:
		return "Frozen by the signer"
	}
	return ""
}

// widerFreezeText says what a freeze stops that is wider than a customer.
func widerFreezeText(scope freeze.Scope) string {
	switch scope {
	case freeze.ScopeAll:
		return "All payments of this service are frozen. The operator of this service has to lift that."
	case freeze.ScopeOrganization:
		return "All payments of your organization are frozen. The operator of this service has to lift that."
	}
	return ""
}

// statementPage shows every movement of a customer's balances.
func (d *dashboard) statementPage() pages.Page {
	return pages.Page{
		Path: "/customers/{customerId}/statement", Title: "Statement", Action: identity.ReadOrganization,
		Live: []string{"DEPOSIT", "WITHDRAWAL", "SWAP", "TRANSFER"}, LiveOfAll: true,
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadStatement, WriteCSV: d.writeStatement,
	}
}

// statementView is what the page shows.
type statementView struct {
	CustomerPath, ID, CSVPath string
	Rows                      []movementRow
	FirstPath, NextPath       string
}

// movementRow is one movement of a balance.
type movementRow struct {
	Cause, Balance, ResourceID string
	Figure, Symbol, Network    string
	Direction                  string
	Posted                     ui.Moment
}

// statementFilter selects the movements of a customer, as the interface does.
func statementFilter(customerID string) ledger.Filter {
	return ledger.Filter{Kinds: []ledger.Kind{ledger.Customer, ledger.Withdrawing, ledger.InSwap}, Subject: customerID}
}

func (d *dashboard) loadStatement(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	org, id := r.Session.OrgID, r.PathParam("customerId")
	var mints mint.Catalogue
	var found pagination.Result[ledger.Entry]
	err = d.conf.DB.ReadOrg(r.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		if _, err = customer.ByID(ctx, tx, org, id); err != nil {
			return err
		}
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		found, err = ledger.ListEntries(ctx, tx, org, statementFilter(id), p)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := statementView{
		CustomerPath: customerPath(r), ID: id, CSVPath: r.CSVPath(),
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	show := resource.ShowEntry(mints)
	for _, item := range found.Items {
		shown := show(item)
		row := movementRow{
			Cause: describeAction(strings.ToLower(shown.Cause)), Balance: "Available", ResourceID: shown.ResourceID,
			Figure: shown.AmountDecimal, Symbol: shown.Symbol, Network: networkName(chain.Name(shown.Chain)),
			Direction: "Out", Posted: r.Moment(item.PostedAt),
		}
		if item.Account.Kind == ledger.Withdrawing {
			row.Balance = "Held for withdrawals"
		}
		if item.Account.Kind == ledger.InSwap {
			row.Balance = "Held for swaps"
		}
		if item.Credit {
			row.Direction = "In"
		}
		view.Rows = append(view.Rows, row)
	}
	return customerStatement(view), nil
}

func (d *dashboard) writeStatement(r *pages.Request, w *kernel.StreamWriter) error {
	org, id := r.Session.OrgID, r.PathParam("customerId")
	return kernel.WriteTable(r.Context(), w, true, resource.EntryColumns,
		func(ctx context.Context, desc bool, row func(resource.Entry) error) error {
			return d.conf.DB.SnapshotOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
				if _, err := customer.ByID(ctx, tx, org, id); err != nil {
					return err
				}
				mints, err := mint.LoadCatalogue(ctx, tx)
				if err != nil {
					return err
				}
				show := resource.ShowEntry(mints)
				return ledger.ForEachEntry(ctx, tx, org, statementFilter(id), desc,
					func(e ledger.Entry) error { return row(show(e)) })
			})
		})
}
