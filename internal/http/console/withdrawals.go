package console

import (
	"context"
	"net/url"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// withdrawalsPage lists the withdrawals of all organizations.
func (c *console) withdrawalsPage() pages.Page {
	return pages.Page{
		Path: "/withdrawals", Title: "Withdrawals", Action: identity.ReadInstallation, Group: moneyGroup,
		Icon: "arrow", Shortcut: "w",
		Query: []kernel.Parameter{
			pages.CursorParameter, textFilter("status"), textFilter("organizationId"), textFilter("chain"),
			textFilter("txHash"), textFilter("address"),
		},
		Live: []string{"WITHDRAWAL"}, Load: c.loadWithdrawals, WriteCSV: c.writeWithdrawals,
	}
}

func (c *console) listWithdrawals(
	r *pages.Request, p pagination.Page,
) (pagination.Result[withdrawal.OrgWithdrawal], error) {
	return c.conf.Withdrawals.ListAcrossOrgs(r.Context(), r.Query["organizationId"], withdrawal.Filter{
		Status: r.Query["status"], Chain: r.Query["chain"], TxHash: r.Query["txHash"], Address: r.Query["address"],
	}, p)
}

// withdrawalStatuses are the states by which the list can be filtered.
var withdrawalStatuses = []withdrawal.Status{
	withdrawal.AwaitingApproval, withdrawal.Processing, withdrawal.Broadcast, withdrawal.Completed, withdrawal.Failed,
	withdrawal.Rejected, withdrawal.Cancelled, withdrawal.Blocked,
}

func (c *console) loadWithdrawals(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listWithdrawals(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	states := []option{{"", "All"}}
	for _, status := range withdrawalStatuses {
		states = append(states, option{string(status), withdrawalChip(status).Word})
	}
	view := listView{
		Path: r.Path("withdrawals"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r,
			filter{Name: "status", Label: "State", Options: states},
			filter{Name: "organizationId", Label: "Organization"},
			filter{
				Name: "chain", Label: "Network",
				Options: append([]option{{"", "All"}}, chainOptions(c.chainNames())...),
			},
			filter{Name: "address", Label: "Address"}, filter{Name: "txHash", Label: "Transaction"}),
		Table: table{Caption: "Withdrawals", Columns: []column{
			{Title: "State"},
			{Title: "Amount", IsNumber: true},
			{Title: "To"},
			{Title: "Organization"},
			{Title: "Requested"},
			{Title: "Open", IsUnseen: true},
		}},
	}
	for _, item := range found.Items {
		w := item.Withdrawal
		figure := w.Amount.Decimal(w.Mint.Decimals)
		view.Table.addRow(
			ui.StateChip(withdrawalChip(w.Status)), pair(ui.Amount(figure, w.Mint.Symbol), dollarsOfWithdrawal(w)),
			pair(ui.ShortAddress(string(w.ToAddress)), ui.Text(networkName(w.Mint.Chain))),
			pair(link(r.Path("organizations", item.OrgID), names.nameOf(item.OrgID)), payerOf(w)),
			ui.When(r.Moment(w.CreatedAt)),
			openLink(r.Path("withdrawals", item.OrgID, w.ID), "Open", figure+" "+ui.EscapeForeign(w.Mint.Symbol)),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return withdrawalsList(view), nil
}

func payerOf(w withdrawal.Withdrawal) templ.Component {
	if w.Owner.IsOrganization() {
		return ui.Text("Own money, " + wordOf(w.Owner.Product()))
	}
	return ui.Foreign(w.Owner.CustomerID())
}

func dollarsOfWithdrawal(w withdrawal.Withdrawal) templ.Component {
	if w.USDValue == nil {
		return ui.Dollars("")
	}
	return ui.Dollars(w.USDValue.Cents())
}

var withdrawalColumns = []kernel.Column[withdrawal.OrgWithdrawal]{
	{Name: "withdrawalId", Cell: func(o withdrawal.OrgWithdrawal) string { return o.Withdrawal.ID }},
	{Name: "organizationId", Cell: func(o withdrawal.OrgWithdrawal) string { return o.OrgID }},
	{
		Name: "createdAt",
		Cell: func(o withdrawal.OrgWithdrawal) string { return webhook.At(o.Withdrawal.CreatedAt).String() },
	},
	{Name: "customerId", Cell: func(o withdrawal.OrgWithdrawal) string { return o.Withdrawal.Owner.CustomerID() }},
	{Name: "product", Cell: func(o withdrawal.OrgWithdrawal) string { return o.Withdrawal.Owner.Product() }},
	{Name: "chain", Cell: func(o withdrawal.OrgWithdrawal) string { return string(o.Withdrawal.Mint.Chain) }},
	{Name: "symbol", Cell: func(o withdrawal.OrgWithdrawal) string { return o.Withdrawal.Mint.Symbol }},
	{Name: "amount", Cell: func(o withdrawal.OrgWithdrawal) string { return o.Withdrawal.Amount.String() }},
	{Name: "amountDecimal", Cell: func(o withdrawal.OrgWithdrawal) string {
		return o.Withdrawal.Amount.Decimal(o.Withdrawal.Mint.Decimals)
	}},
	{Name: "status", Cell: func(o withdrawal.OrgWithdrawal) string { return string(o.Withdrawal.Status) }},
	{Name: "toAddress", Cell: func(o withdrawal.OrgWithdrawal) string { return string(o.Withdrawal.ToAddress) }},
	{Name: "txHash", Cell: func(o withdrawal.OrgWithdrawal) string { return textOrEmpty(o.Withdrawal.TxHash) }},
}

func (c *console) writeWithdrawals(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, withdrawalColumns, eachOf(
		func(p pagination.Page) (
			pagination.Result[withdrawal.OrgWithdrawal], error,
		) {
			return c.listWithdrawals(r, p)
		}))
}

// withdrawalPage shows one withdrawal. It has no act: the organization decides about its withdrawals, and
// the page of the order has the safe act.
func (c *console) withdrawalPage() pages.Page {
	return pages.Page{
		Path: "/withdrawals/{organizationId}/{withdrawalId}", Title: "Withdrawal", Action: identity.ReadInstallation,
		Live: []string{"WITHDRAWAL"}, Load: c.loadWithdrawal,
	}
}

// withdrawalView is what the page of a withdrawal shows.
type withdrawalView struct {
	Figure, Symbol, Dollars string
	Chip                    ui.Chip
	Facts                   []ui.Fact
	Steps                   table
	OrderPath, WaitText     string
}

func (c *console) loadWithdrawal(r *pages.Request) (templ.Component, error) {
	orgID, err := organizationID(r)
	if err != nil {
		return nil, err
	}
	w, err := c.conf.Withdrawals.ByID(r.Context(), orgID, r.PathParam("withdrawalId"))
	if err != nil {
		return nil, err
	}
	decisions, err := c.conf.Withdrawals.ListDecisions(r.Context(), orgID, w.ID)
	if err != nil {
		return nil, err
	}
	var names holders
	var order dispatch.OrderView
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if names, err = loadHolders(ctx, tx); err != nil {
			return err
		}
		order, err = dispatch.LoadView(ctx, tx, w.ID)
		if fault.HasCode(err, fault.CodeNotFound) {
			return nil // It was not sent to a network yet, or never is.
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	view := withdrawalView{
		Figure: w.Amount.Decimal(w.Mint.Decimals), Symbol: w.Mint.Symbol, Chip: withdrawalChip(w.Status),
		Facts: withdrawalFacts(r, orgID, w),
		Steps: table{Caption: "History", Columns: textColumns("What", "Who", "When", "Note")},
	}
	if w.USDValue != nil {
		view.Dollars = w.USDValue.Cents()
	}
	if order.ID != "" {
		view.OrderPath, view.WaitText = r.Path("orders", order.ID), order.DescribeWait()
	}
	for _, d := range decisions {
		view.Steps.addRow(ui.Text(wordOf(d.Act)), ui.Foreign(names.nameOf(d.Actor)), ui.When(r.Moment(d.DecidedAt)),
			foreignOrNothing(d.Note, "none"))
	}
	return withdrawalOverview(view), nil
}

func withdrawalFacts(r *pages.Request, orgID string, w withdrawal.Withdrawal) []ui.Fact {
	facts := []ui.Fact{
		{Name: "To", Value: ui.Address(string(w.ToAddress))},
		{Name: "Network", Value: ui.Text(networkName(w.Mint.Chain))},
		{Name: "Paid from", Value: payerOf(w)},
		{Name: "Organization", Value: link(r.Path("organizations", orgID), orgID)},
		{Name: "Transaction", Value: codeOrNothing(textOrEmpty(w.TxHash), "none yet")},
		{Name: "Screening", Value: ui.Text(wordOf(w.Screening.Status))},
		{Name: "Requested", Value: ui.When(r.Moment(w.CreatedAt))},
		{Name: "Approved", Value: whenOrNothing(r, w.ApprovedAt, "no")},
		{Name: "Completed", Value: whenOrNothing(r, w.CompletedAt, "no")},
		{Name: "Withdrawal", Value: ui.Code(w.ID)},
	}
	if w.SwapID != "" {
		facts = append(facts, ui.Fact{
			Name:  "Pays the output of",
			Value: link(r.Path("swaps", w.SwapID), "A swap of the organization's own money"),
		})
	}
	for _, item := range []struct {
		name string
		text *string
	}{{"Reference", w.Reference}, {"Why it failed", w.FailureReason}, {"Why it was removed", w.RejectedReason}} {
		if text := textOrEmpty(item.text); text != "" {
			facts = append(facts, ui.Fact{Name: item.name, Value: ui.Foreign(text)})
		}
	}
	return append(facts, ui.Fact{Name: "Audit log", Value: link(
		Prefix+"/audit?"+url.Values{"resourceId": {w.ID}}.Encode(), "What the log has about it")})
}

// withdrawalChip writes the status of a withdrawal for people.
func withdrawalChip(status withdrawal.Status) ui.Chip {
	switch status {
	case withdrawal.AwaitingApproval:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for approval"}
	case withdrawal.Processing:
		return ui.Chip{Kind: ui.Info, Word: "Being paid"}
	case withdrawal.Broadcast:
		return ui.Chip{Kind: ui.Info, Word: "Sent, not final"}
	case withdrawal.Completed:
		return ui.Chip{Kind: ui.Good, Word: "Paid"}
	case withdrawal.Failed:
		return ui.Chip{Kind: ui.Bad, Word: "Failed"}
	case withdrawal.Rejected:
		return ui.Chip{Kind: ui.Quiet, Word: "Removed"}
	case withdrawal.Cancelled:
		return ui.Chip{Kind: ui.Quiet, Word: "Cancelled"}
	case withdrawal.Blocked:
		return ui.Chip{Kind: ui.Bad, Word: "Blocked"}
	}
	return ui.Chip{}
}
