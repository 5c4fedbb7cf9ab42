package console

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Kinds of resources of billing in the audit log.
const (
	invoiceKind    = "INVOICE"
	creditNoteKind = "CREDIT_NOTE"
	termsKind      = "BILLING_TERMS"
)

// The tabs of Billing.
const (
	runTab             = "Billing run"
	invoicesTab        = "Invoices"
	creditNotesTab     = "Credit notes"
	unpricedTab        = "Without a price"
	termsTab           = "Seller's terms"
	billingDescription = "What organizations owe for networks and swaps, month by month."
)

// The acts of billing.
const (
	runAct      = "run"
	addPriceAct = "add"
)

const (
	monthBytesMax   = 7
	unpricedMax     = rowsMax
	priceBytesMax   = 64
	momentBytesMax  = 40
	momentLayout    = "2006-01-02T15:04:05Z"
	monthFilterName = "month"
)

func billingTabs(r *pages.Request, current string) []ui.Tab {
	tabs := []ui.Tab{
		{Title: runTab, Path: r.Path("billing")},
		{Title: invoicesTab, Path: r.Path("billing", "invoices")},
		{Title: creditNotesTab, Path: r.Path("billing", "credit-notes")},
		{Title: unpricedTab, Path: r.Path("billing", "prices")},
		{Title: termsTab, Path: r.Path("billing", "terms")},
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Title == current
	}
	return tabs
}

// billingPage shows what is due for a month, and issues its invoices. Rule PAGE-98.
func (c *console) billingPage() pages.Page {
	return pages.Page{
		Path: "/billing", Title: "Billing", Action: identity.ReadInstallation, Group: moneyGroup, Icon: "invoice",
		Shortcut: "i",
		Query:    []kernel.Parameter{pages.CursorParameter, textFilter(monthFilterName)},
		Live:     []string{invoiceKind, creditNoteKind, termsKind},
		Load:     c.loadBilling,
		Acts: []pages.Act{{
			Name: runAct, Action: identity.IssueInvoices, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{
				{Name: monthFilterName, BytesMax: monthBytesMax, Missing: "Enter the month, such as 2026-01."},
				{Name: "organizationId", BytesMax: idBytesMax, Optional: true},
			},
			Run: c.runBilling,
		}},
	}
}

// runBilling issues the invoices of a month. A run may be repeated: what was issued stays.
func (c *console) runBilling(r *pages.Request) (string, error) {
	result, err := c.conf.Billing.IssueInvoices(
		r.Context(), r.Values[monthFilterName], r.Values["organizationId"], actor(r),
	)
	if f := fault.Find(err); f != nil && f.Code == fault.CodeNotFound {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"There is no such organization.").WithParam("organizationId")
	}
	if err != nil {
		return "", err
	}
	if len(result.Failed) > 0 {
		first, reason := result.Failed[0], "An internal error, which the log of the service has."
		if f := fault.Find(first.Err); f != nil {
			reason = f.Reason
		}
		return "", fault.New(fault.Conflict, fault.InvalidState, fault.Stated,
			"%d invoices were issued. The invoices of %d organizations could not be. That of %s: %s", result.Issued,
			len(result.Failed), first.OrgID, reason).WithAdvice("Run the month again once that is corrected.")
	}
	return monthPath(r, result.Month), nil
}

func monthPath(r *pages.Request, month string) string {
	return r.Path("billing") + "?" + url.Values{monthFilterName: {month}}.Encode()
}

// lastMonth returns the month before that of a moment.
func lastMonth(moment time.Time) string {
	return moment.UTC().AddDate(0, 0, -moment.UTC().Day()).Format(fee.MonthLayout)
}

// monthText writes a month for people.
func monthText(month string) string {
	first, err := time.Parse(fee.MonthLayout, month)
	if err != nil {
		return month
	}
	return first.Format("January 2006")
}

// billingView is what the page of a run shows.
type billingView struct {
	Tabs                []ui.Tab
	Path, Month         string
	Filters             []filter
	IsOver, HasSeller   bool
	EndsAt              ui.Moment
	TermsPath           string
	Table               table
	FirstPath, NextPath string
	Run                 *actView
	Form                ui.Form
}

func (c *console) loadBilling(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	p.Desc = false
	name := r.Query[monthFilterName]
	if name == "" {
		name = lastMonth(r.Now)
	}
	if typed := r.Form.Value(runAct, monthFilterName); r.Form.Act == runAct && typed != "" {
		if _, err := billing.ParseMonth(typed); err == nil {
			name = typed
		}
	}
	month, err := billing.ParseMonth(name)
	if err != nil {
		return nil, err
	}
	var found pagination.Result[billing.OrgMonth]
	hasSeller := true
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if _, err = billing.LoadTerms(ctx, tx, ""); fault.HasCode(err, fault.CodeNotFound) {
			hasSeller, err = false, nil
		}
		if err == nil {
			found, err = billing.ListMonth(ctx, tx, month, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := billingView{
		Tabs: billingTabs(r, runTab), Path: r.Path("billing"), Month: monthText(month.Name), Form: r.Form,
		Filters: filtersOf(r, filter{Name: monthFilterName, Label: "Month, such as 2026-01"}),
		IsOver:  !r.Now.Before(month.End), EndsAt: r.Moment(month.End), TermsPath: r.Path("billing", "terms"),
		HasSeller: hasSeller,
		Table: table{Caption: "Organizations with fees of the month", Columns: []column{
			{Title: "Organization"},
			{Title: "Result"},
			{Title: "On the invoice", IsNumber: true},
			{Title: "On no invoice yet", IsNumber: true},
			{Title: "Without a price"},
			{Title: "Open", IsUnseen: true},
		}},
	}
	view.Filters[0].Value = month.Name
	for _, o := range found.Items {
		view.Table.addRow(monthCells(r, o, view.IsOver, names)...)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	if r.IsAllowed(identity.IssueInvoices) {
		view.Run = newRunForm(r, month.Name)
	}
	return billingOverview(view), nil
}

// monthCells are the cells of an organization in the table of a run.
func monthCells(r *pages.Request, o billing.OrgMonth, isOver bool, names orgNames) []templ.Component {
	result := ui.StateChip(monthChip(o, isOver))
	if o.InvoiceID == "" && o.HasTerms {
		result = pair(result, join(ui.Text("by itself from "), ui.Text(ui.FormatTime(o.DueAt))))
	}
	billed, unbilled, missing := nothing("no invoice"), nothing("nothing"), nothing("none")
	open := openLink(r.Path("organizations", o.OrgID, "billing-terms"), "Terms", "of "+names.nameOf(o.OrgID))
	if o.InvoiceID != "" {
		billed = pair(ui.Dollars(o.Total.Cents()), ui.Code(o.Number))
		open = openLink(r.Path("billing", "invoices", o.InvoiceID), "Open", o.Number)
	}
	if o.Lines > 0 {
		unbilled = pair(ui.Dollars(o.Subtotal), ui.Text(ui.FormatCount(o.Lines, "fee")))
	}
	if o.Unpriced > 0 {
		missing = link(r.Path("billing", "prices"), ui.FormatCount(o.Unpriced, "fee"))
	}
	return []templ.Component{
		link(r.Path("organizations", o.OrgID), names.nameOf(o.OrgID)), result, billed, unbilled, missing, open,
	}
}

// monthChip says what a run did for an organization, or would do.
func monthChip(o billing.OrgMonth, isOver bool) ui.Chip {
	switch {
	case o.InvoiceID != "" && o.Status == billing.Paid:
		return ui.Chip{Kind: ui.Good, Word: "Issued and paid"}
	case o.InvoiceID != "":
		return ui.Chip{Kind: ui.Info, Word: "Issued"}
	case !o.HasTerms:
		return ui.Chip{Kind: ui.Bad, Word: "Not billed: no terms"}
	case !o.CanBill():
		return ui.Chip{Kind: ui.Quiet, Word: "Less than a cent"}
	case !isOver:
		return ui.Chip{Kind: ui.Quiet, Word: "Month is not over"}
	}
	return ui.Chip{Kind: ui.Wait, Word: "Due"}
}

func newRunForm(r *pages.Request, month string) *actView {
	form := r.Form
	if form.Act != runAct {
		form = ui.Form{Act: runAct, Typed: map[string]string{monthFilterName: month}}
	}
	return &actView{
		Path: r.Path("billing"), Act: runAct, Form: form, Button: "Issue the invoices", IsPrimary: true,
		Text: "Each organization with at least a cent gets its invoice of the month. An invoice that was issued " +
			"before stays as it is. An issued invoice never changes.",
		Inputs: []ui.Input{
			{
				Act: runAct, Name: monthFilterName, Label: "Month", Type: "text", MaxLength: monthBytesMax,
				Autocomplete: "off", Hint: "It has to be over, in UTC.",
			},
			{
				Act: runAct, Name: "organizationId", Label: "Only this organization", Type: "text", Optional: true,
				Autocomplete: "off", MaxLength: idBytesMax, Hint: "Its id, org_…",
			},
		},
	}
}

// unpricedPage lists fees for which no source had a price, and takes a price that an operator states. Rule PAGE-98.
func (c *console) unpricedPage() pages.Page {
	return pages.Page{
		Path: "/billing/prices", Title: "Fees without a price", Action: identity.ReadInstallation,
		Live: []string{"MINT"}, Load: c.loadUnpriced,
		Acts: []pages.Act{{
			Name: addPriceAct, Action: identity.AddPriceMark, StepUp: pages.ActStepUp,
			Fields: []pages.Field{
				{Name: "mintId", BytesMax: idBytesMax, Missing: "Choose the coin."},
				{Name: "price", BytesMax: priceBytesMax, Missing: "Enter the price in dollars."},
				{Name: "source", BytesMax: textBytesMax, Missing: "Say where you have it from."},
				{Name: "at", BytesMax: momentBytesMax, Missing: "Enter the moment of the price."},
			},
			Run: c.addPrice,
		}},
	}
}

func (c *console) addPrice(r *pages.Request) (string, error) {
	refuse := func(name, reason string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", reason).WithParam(name)
	}
	mintID, err := strconv.Atoi(r.Values["mintId"])
	if err != nil {
		return "", refuse("mintId", "Choose a coin of the list.")
	}
	price, err := money.ParseUSD(r.Values["price"])
	if err != nil {
		return "", refuse("price", "Enter a number of dollars such as 149.80.")
	}
	moment, err := time.Parse(time.RFC3339, r.Values["at"])
	if err != nil {
		return "", refuse("at", "Enter a time such as 2026-01-10T12:00:00Z.")
	}
	_, err = c.conf.Billing.AddMark(r.Context(), billing.AddedMark{
		MintID: mintID, Price: price, Source: r.Values["source"], Moment: moment,
	}, actor(r))
	return r.Path("billing", "prices"), err
}

// unpricedView is what the page of the fees without a price shows.
type unpricedView struct {
	Tabs    []ui.Tab
	Table   table
	HasMore bool
	Add     *actView
	Form    ui.Form
}

func (c *console) loadUnpriced(r *pages.Request) (templ.Component, error) {
	lines, err := c.conf.Billing.UnpricedLines(r.Context(), unpricedMax+1)
	if err != nil {
		return nil, err
	}
	var mints mint.Catalogue
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := unpricedView{
		Tabs: billingTabs(r, unpricedTab), Form: r.Form, HasMore: len(lines) > unpricedMax,
		Table: table{Caption: "Fees without a price", Columns: []column{
			{Title: "Due since"}, {Title: "Organization"}, {Title: "Fee"}, {Title: "Amount", IsNumber: true},
		}},
	}
	if view.HasMore {
		lines = lines[:unpricedMax]
	}
	var coins []option
	isListed := map[int]bool{}
	for _, l := range lines {
		network := nothing("unknown coin")
		if m, isKnown := mints.ByID(l.MintID); isKnown {
			network = ui.Text(networkName(m.Chain))
			if !isListed[m.ID] {
				isListed[m.ID] = true
				coins = append(coins, option{
					mintText(m.ID), ui.EscapeForeign(m.Symbol) + " on " + networkName(m.Chain),
				})
			}
		}
		view.Table.addRow(ui.When(r.Moment(l.IncurredAt)),
			link(r.Path("organizations", l.OrgID), names.nameOf(l.OrgID)),
			pair(ui.Text(feeTitle(l)), ui.Code(l.SourceID)), pair(amountOf(mints, l.MintID, l.Amount), network))
	}
	if r.IsAllowed(identity.AddPriceMark) && len(coins) > 0 {
		view.Add = newPriceForm(r, coins, lines[0].IncurredAt)
	}
	return unpricedList(view), nil
}

func newPriceForm(r *pages.Request, coins []option, oldest time.Time) *actView {
	form := r.Form
	if form.Act != addPriceAct {
		form = ui.Form{
			HasPasskey: form.HasPasskey, IsCodeless: form.IsCodeless, Act: addPriceAct,
			Typed: map[string]string{"at": oldest.UTC().Format(momentLayout)},
		}
	}
	return &actView{
		Path: r.Path("billing", "prices"), Act: addPriceAct, Form: form, Button: "State this price", TakesCode: true,
		IsPrimary: true,
		Text: "Fees of this coin without a price that became due up to a quarter of an hour after the moment take " +
			"it. A price that a fee has never changes.",
		Choices: []choice{{Act: addPriceAct, Name: "mintId", Label: "Coin", Options: coins}},
		Inputs: []ui.Input{
			{
				Act: addPriceAct, Name: "price", Label: "Price of a whole coin in dollars", Type: "text",
				InputMode: "decimal", MaxLength: priceBytesMax, Autocomplete: "off",
			},
			{
				Act: addPriceAct, Name: "source", Label: "Where you have it from", Type: "text", MaxLength: 200,
				Autocomplete: "off", Hint: "Invoices name it with each fee.",
			},
			{
				Act: addPriceAct, Name: "at", Label: "Moment of the price, in UTC", Type: "text",
				MaxLength: momentBytesMax, Autocomplete: "off", Hint: "Such as 2026-01-10T12:00:00Z.",
			},
		},
	}
}

// feeTitle says what a fee is of.
func feeTitle(l fee.Line) string {
	if l.Kind == fee.SwapFee {
		return "Fee of a swap"
	}
	switch l.SourceKind {
	case fee.SourceKind(ledger.FeePrepaid):
		return "Network fee that its withdrawal paid"
	case fee.SourceKind(ledger.FeeChange):
		if l.IsCredit {
			return "Network fee that became lower"
		}
		return "Network fee that became higher"
	}
	return "Network fee"
}
