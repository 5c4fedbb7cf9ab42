package dashboard

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// transactionKind is a kind of transaction. The list shows one kind at a time, so that each page is a page
// of one index.
type transactionKind string

const (
	depositKind    transactionKind = "DEPOSIT"
	withdrawalKind transactionKind = "WITHDRAWAL"
	transferKind   transactionKind = "TRANSFER"
)

var transactionKinds = []transactionKind{depositKind, withdrawalKind, transferKind}

// title names the kind in the plural.
func (k transactionKind) title() string {
	switch k {
	case withdrawalKind:
		return "Withdrawals"
	case transferKind:
		return "Transfers"
	}
	return "Deposits"
}

// folder is the part of a path that stands for the kind.
func (k transactionKind) folder() string {
	switch k {
	case withdrawalKind:
		return "withdrawals"
	case transferKind:
		return "transfers"
	}
	return "deposits"
}

// transactionPath returns the path of the page of a transaction.
func transactionPath(r *pages.Request, kind transactionKind, id string) string {
	return r.Path("transactions", kind.folder(), id)
}

// Statuses of the filter, in the order of a transaction's life.
var (
	depositStatuses = []deposit.Status{
		deposit.Confirming, deposit.Screening, deposit.Credited, deposit.Flagged, deposit.Rejecting,
		deposit.Redirecting, deposit.ResolutionStuck, deposit.Rejected, deposit.Redirected, deposit.BelowMinimum,
		deposit.Unsupported, deposit.Orphaned, deposit.Reversed,
	}
	withdrawalStatuses = []withdrawal.Status{
		withdrawal.AwaitingApproval, withdrawal.Processing, withdrawal.Broadcast, withdrawal.Completed,
		withdrawal.Failed, withdrawal.Rejected, withdrawal.Cancelled, withdrawal.Blocked,
	}
)

// statusNames are the values of the filter for a status.
var statusNames = func() (names []string) {
	for _, status := range depositStatuses {
		names = append(names, string(status))
	}
	for _, status := range withdrawalStatuses {
		if !slices.Contains(names, string(status)) {
			names = append(names, string(status))
		}
	}
	return names
}()

// Parameters of the list that the interface does not have. A day is in UTC.
var (
	kindParameter = kernel.Parameter{
		Name: "kind", Kind: kernel.WordParameter,
		Enum: []string{string(depositKind), string(withdrawalKind), string(transferKind)},
	}
	statusParameter    = kernel.Parameter{Name: "status", Kind: kernel.WordParameter, Enum: statusNames}
	fromDayParameter   = kernel.Parameter{Name: "from", Kind: kernel.TextParameter, Max: len(time.DateOnly)}
	toDayParameter     = kernel.Parameter{Name: "to", Kind: kernel.TextParameter, Max: len(time.DateOnly)}
	referenceParameter = kernel.Parameter{Name: "reference", Kind: kernel.TextParameter, Max: referenceBytesMax}
)

// referenceBytesMax bounds a reference of the interface: 255 characters.
const referenceBytesMax = 1020

// transactionsPage lists deposits, withdrawals and transfers.
func (d *dashboard) transactionsPage() pages.Page {
	return pages.Page{
		Path: "/transactions", Title: "Transactions", Action: identity.ReadOrganization,
		Group: "", Icon: "history", Shortcut: "t",
		Live: []string{"DEPOSIT", "WITHDRAWAL", "TRANSFER"},
		Query: []kernel.Parameter{
			pages.CursorParameter, kindParameter, statusParameter, resource.MintFilter, fromDayParameter,
			toDayParameter,
			resource.CustomerFilter, resource.TxHashFilter, resource.AddressFilter, referenceParameter,
		},
		Load: d.loadTransactions, WriteCSV: d.writeTransactions,
	}
}

// transactionFilter is what the query of the list asks for.
type transactionFilter struct {
	kind                                   transactionKind
	status                                 string
	mintID                                 *int
	createdAfter, createdBefore            time.Time // both exclusive
	customerID, txHash, address, reference string
}

// readTransactionFilter reads the query of the list. A filter that the kind does not have is refused: a list
// without it would look like its answer. Rule PAGE-10.
func readTransactionFilter(r *pages.Request) (f transactionFilter, err error) {
	f = transactionFilter{
		kind: transactionKind(r.Query[kindParameter.Name]), status: r.Query[statusParameter.Name],
		mintID: r.Query.NumberValue(resource.MintFilter.Name), customerID: r.Query[resource.CustomerFilter.Name],
		txHash:  resource.CanonicalHash(r.Query[resource.TxHashFilter.Name]),
		address: r.Query[resource.AddressFilter.Name], reference: r.Query[referenceParameter.Name],
	}
	if f.kind == "" {
		f.kind = depositKind
	}
	if f.createdAfter, err = readDay(r, fromDayParameter.Name); err != nil {
		return f, err
	}
	if f.createdBefore, err = readDay(r, toDayParameter.Name); err != nil {
		return f, err
	}
	if !f.createdAfter.IsZero() {
		f.createdAfter = f.createdAfter.Add(-time.Microsecond) // The database has no finer time.
	}
	if !f.createdBefore.IsZero() {
		f.createdBefore = f.createdBefore.AddDate(0, 0, 1)
	}
	for name, isKnown := range map[string]bool{
		statusParameter.Name:        f.hasStatus(),
		resource.TxHashFilter.Name:  f.kind != transferKind,
		resource.AddressFilter.Name: f.kind != transferKind,
		referenceParameter.Name:     f.kind != depositKind,
	} {
		if r.Query[name] != "" && !isKnown {
			return f, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"%s cannot be filtered by this %s.", f.kind.title(), name).WithAdvice("Choose another filter.")
		}
	}
	return f, nil
}

// hasStatus reports whether the status is one of the kind.
func (f transactionFilter) hasStatus() bool {
	switch f.kind {
	case depositKind:
		return slices.Contains(depositStatuses, deposit.Status(f.status))
	case withdrawalKind:
		return slices.Contains(withdrawalStatuses, withdrawal.Status(f.status))
	}
	return false
}

// readDay reads a day of the query; without one it returns the zero time.
func readDay(r *pages.Request, name string) (time.Time, error) {
	text, present := r.Query[name]
	if !present {
		return time.Time{}, nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 1 {
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The day %q is not one.", kernel.ClipText(text)).WithAdvice("Write it as 2026-01-31.").WithParam(name)
	}
	return day, nil
}

func (d *dashboard) depositFilter(f transactionFilter) deposit.Filter {
	filter := deposit.Filter{
		CustomerID: f.customerID, Status: f.status, CreatedAfter: f.createdAfter, CreatedBefore: f.createdBefore,
		TxHash: f.txHash, Address: resource.CanonicalAddress(d.conf.Chains, f.address),
	}
	if f.mintID != nil {
		filter.MintID = *f.mintID
	}
	return filter
}

func (f transactionFilter) withdrawals() withdrawal.Filter {
	return withdrawal.Filter{
		CustomerID: f.customerID, Status: f.status, MintID: f.mintID, CreatedAfter: f.createdAfter,
		CreatedBefore: f.createdBefore, TxHash: f.txHash, Address: f.address, Reference: f.reference,
	}
}

func (f transactionFilter) transfers() transfer.Filter {
	return transfer.Filter{
		CustomerID: f.customerID, MintID: f.mintID, Reference: f.reference, CreatedAfter: f.createdAfter,
		CreatedBefore: f.createdBefore,
	}
}

// transactionRow is a transaction in a list.
type transactionRow struct {
	Path, ID                string
	Kind                    string // "" in a list of one kind
	Figure, Symbol, Dollars string
	HasNoValue              bool // its kind has no value in dollars
	Network                 string
	Party, PartyKind        string
	Address                 string // "" of a transfer
	Receiver, ReceiverKind  string // of a transfer
	Chip                    ui.Chip
	Made                    ui.Moment
	createdAt               time.Time
}

// activeFilter is a filter of the list that has no field of its own, with the list without it.
type activeFilter struct{ Name, Value, WithoutPath string }

// choice is a value of a filter.
type choice struct {
	Value, Text string
	IsChosen    bool
}

// hiddenValue is a filter that the form of the others keeps.
type hiddenValue struct{ Name, Value string }

// transactionsView is what the list shows.
type transactionsView struct {
	ListPath, SearchPath         string
	Tabs                         []ui.Tab
	Kind                         transactionKind
	Statuses, Mints              []choice
	FromDay, ToDay               string
	Hidden                       []hiddenValue
	Active                       []activeFilter
	IsFiltered                   bool
	Rows                         []transactionRow
	FirstPath, NextPath, CSVPath string
	Steps                        []string // the first calls, for an empty list
}

func (d *dashboard) loadTransactions(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	f, err := readTransactionFilter(r)
	if err != nil {
		return nil, err
	}
	rows, nextCursor, err := d.listTransactions(r, f, p)
	if err != nil {
		return nil, err
	}
	view := transactionsView{
		ListPath: r.Path("transactions"), SearchPath: r.Path("transactions", "search"), Kind: f.kind, Rows: rows,
		FromDay: r.Query[fromDayParameter.Name], ToDay: r.Query[toDayParameter.Name],
		CSVPath: r.CSVPath(), Steps: d.firstCalls(f.kind),
	}
	view.FirstPath, view.NextPath = r.PagePaths(nextCursor)
	for _, kind := range transactionKinds {
		view.Tabs = append(view.Tabs, ui.Tab{
			Title: kind.title(), Path: view.ListPath + "?" + kindParameter.Name + "=" + string(kind),
			Current: kind == f.kind,
		})
	}
	if view.Mints, err = d.mintChoices(r, f.mintID); err != nil {
		return nil, err
	}
	view.addFilters(r, f)
	return transactionsList(view), nil
}

// addFilters adds what the form of the filters shows.
func (v *transactionsView) addFilters(r *pages.Request, f transactionFilter) {
	switch f.kind {
	case depositKind:
		for _, status := range depositStatuses {
			v.Statuses = append(v.Statuses, choice{
				Value: string(status), Text: depositChip(status).Word, IsChosen: f.status == string(status),
			})
		}
	case withdrawalKind:
		for _, status := range withdrawalStatuses {
			v.Statuses = append(v.Statuses, choice{
				Value: string(status), Text: withdrawalChip(status).Word, IsChosen: f.status == string(status),
			})
		}
	}
	v.Hidden = []hiddenValue{{kindParameter.Name, string(f.kind)}}
	for _, shown := range []struct{ parameter, name string }{
		{resource.CustomerFilter.Name, "Customer"},
		{resource.TxHashFilter.Name, "Transaction"},
		{resource.AddressFilter.Name, "Address"},
		{referenceParameter.Name, "Reference"},
	} {
		if value := r.Query[shown.parameter]; value != "" {
			v.Hidden = append(v.Hidden, hiddenValue{shown.parameter, value})
			v.Active = append(v.Active, activeFilter{shown.name, value, r.PathWithout(shown.parameter)})
		}
	}
	for name := range r.Query {
		v.IsFiltered = v.IsFiltered || name != kindParameter.Name && name != pages.CursorParameter.Name
	}
}

// mintChoices are the tokens of the filter.
func (d *dashboard) mintChoices(r *pages.Request, chosen *int) (choices []choice, err error) {
	var catalogue mint.Catalogue
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		catalogue, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	for _, m := range catalogue.List(mint.Filter{}) {
		choices = append(choices, choice{
			Value: strconv.Itoa(m.ID), Text: ui.EscapeForeign(m.Symbol) + ", " + networkName(m.Chain),
			IsChosen: chosen != nil && *chosen == m.ID,
		})
	}
	return choices, err
}

// listTransactions reads a page of transactions of the kind.
func (d *dashboard) listTransactions(
	r *pages.Request, f transactionFilter, p pagination.Page,
) (rows []transactionRow, nextCursor *pagination.Cursor, err error) {
	switch f.kind {
	case withdrawalKind:
		found, err := d.conf.Withdrawals.List(r.Context(), r.Session.OrgID, f.withdrawals(), p)
		for _, w := range found.Items {
			rows = append(rows, withdrawalRow(r, w))
		}
		return rows, found.NextCursor, err
	case transferKind:
		found, err := d.conf.Transfers.List(r.Context(), r.Session.OrgID, f.transfers(), p)
		for _, t := range found.Items {
			rows = append(rows, transferLine(r, t))
		}
		return rows, found.NextCursor, err
	}
	var found pagination.Result[deposit.Deposit]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.List(ctx, tx, r.Session.OrgID, d.depositFilter(f), p)
		return err
	})
	for _, item := range found.Items {
		rows = append(rows, depositLine(r, item))
	}
	return rows, found.NextCursor, err
}

func depositLine(r *pages.Request, item deposit.Deposit) transactionRow {
	row := transactionRow{
		Path: transactionPath(r, depositKind, item.ID), ID: item.ID, Network: networkName(item.Chain),
		Address: string(item.Address), Chip: depositChip(item.Status), Made: r.Moment(item.CreatedAt),
		createdAt: item.CreatedAt,
	}
	row.Figure, row.Symbol = depositAmount(item)
	if item.USDValue != nil {
		row.Dollars = item.USDValue.Cents()
	}
	row.Party, row.PartyKind = ownerName(item.CustomerID, item.Product)
	return row
}

func withdrawalRow(r *pages.Request, w withdrawal.Withdrawal) transactionRow {
	row := transactionRow{
		Path: transactionPath(r, withdrawalKind, w.ID), ID: w.ID, Figure: w.Amount.Decimal(w.Mint.Decimals),
		Symbol: w.Mint.Symbol, Network: networkName(w.Mint.Chain), Address: string(w.ToAddress),
		Chip: withdrawalChip(w.Status), Made: r.Moment(w.CreatedAt), createdAt: w.CreatedAt,
	}
	if w.USDValue != nil {
		row.Dollars = w.USDValue.Cents()
	}
	customer, product := w.Owner.CustomerID(), w.Owner.Product()
	row.Party, row.PartyKind = ownerName(&customer, resource.OptionalText(product))
	return row
}

func transferLine(r *pages.Request, t transfer.Transfer) transactionRow {
	row := transactionRow{
		Path: transactionPath(r, transferKind, t.ID), ID: t.ID, Figure: t.Amount.Decimal(t.Mint.Decimals),
		Symbol: t.Mint.Symbol, Network: networkName(t.Mint.Chain), HasNoValue: true,
		Chip: ui.Chip{Kind: ui.Good, Word: "Done"}, Made: r.Moment(t.CreatedAt), createdAt: t.CreatedAt,
	}
	row.Party, row.PartyKind = ownerName(t.From.CustomerID, t.From.Product)
	row.Receiver, row.ReceiverKind = ownerName(t.To.CustomerID, t.To.Product)
	return row
}

// ownerName names the customer or the product whose balance a transaction moves.
func ownerName(customerID, product *string) (name, kind string) {
	if product != nil {
		return productName(*product), "Your own balance"
	}
	return textOrEmpty(customerID), "Customer"
}

// firstCalls are the calls of the interface that make the first transaction of a kind.
func (d *dashboard) firstCalls(kind transactionKind) []string {
	switch kind {
	case depositKind:
		return []string{d.callText("POST", "/deposit", `{"mintId":1,"customerId":"customer-1"}`)}
	case withdrawalKind:
		return []string{d.callText("POST", "/withdraw",
			`{"mintId":1,"customerId":"customer-1","amount":"1000000","toAddress":"…"}`)}
	}
	return []string{d.callText("POST", "/transfers", `{"mintId":1,"amount":"1000000","idempotencyKey":"charge-1",`+
		`"from":{"customerId":"customer-1"},"to":{"product":"CUSTODIAL"}}`)}
}

// callText writes a call of the interface for a shell. The path and the body are texts of ours and ids,
// which have no quotation mark.
func (d *dashboard) callText(method, path, body string) string {
	call := "curl"
	if method != "GET" {
		call += " -X " + method
	}
	call += " '" + d.conf.APIURL + path + `' -H "x-api-key: $COFFER_API_KEY"`
	if body != "" {
		call += ` -H 'content-type: application/json' -d '` + body + "'"
	}
	return call
}

// writeTransactions writes the table of the kind. Rule PAGE-11.
func (d *dashboard) writeTransactions(r *pages.Request, w *kernel.StreamWriter) error {
	f, err := readTransactionFilter(r)
	if err != nil {
		return err
	}
	switch f.kind {
	case withdrawalKind:
		return kernel.WriteTable(r.Context(), w, true, resource.WithdrawalColumns,
			func(ctx context.Context, desc bool, row func(webhook.Withdrawal) error) error {
				return d.conf.Withdrawals.ForEach(ctx, r.Session.OrgID, f.withdrawals(), desc,
					func(w withdrawal.Withdrawal) error { return row(wire.Withdrawal(w)) })
			})
	case transferKind:
		return kernel.WriteTable(r.Context(), w, true, resource.TransferColumns,
			func(ctx context.Context, desc bool, row func(webhook.Transfer) error) error {
				return d.conf.Transfers.ForEach(ctx, r.Session.OrgID, f.transfers(), desc,
					func(t transfer.Transfer) error { return row(wire.Transfer(t)) })
			})
	}
	return kernel.WriteTable(r.Context(), w, true, resource.DepositColumns,
		func(ctx context.Context, desc bool, row func(webhook.Deposit) error) error {
			return d.conf.DB.SnapshotOrg(ctx, r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
				return deposit.ForEach(ctx, tx, r.Session.OrgID, d.depositFilter(f), desc,
					func(item deposit.Deposit) error { return row(wire.Deposit(item)) })
			})
		})
}
