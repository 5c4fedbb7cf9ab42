package dashboard

import (
	"context"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// checkoutKind names checkouts among the resources of the audit log.
const checkoutKind = "CHECKOUT"

var (
	checkoutStatusParameter = kernel.Parameter{
		Name: "status", Kind: kernel.WordParameter, Enum: resource.CheckoutStatuses,
	}
	exceptionParameter = kernel.Parameter{
		Name: "exception", Kind: kernel.WordParameter, Enum: resource.CheckoutExceptions,
	}
)

// checkoutsPage lists the checkouts. Rule PAGE-83.
func (d *dashboard) checkoutsPage() pages.Page {
	return pages.Page{
		Path: "/checkouts", Title: "Checkouts", Action: identity.ReadOrganization, Group: "", Icon: "checkout",
		Shortcut: "k", Live: []string{checkoutKind},
		Query: []kernel.Parameter{
			pages.CursorParameter, checkoutStatusParameter, exceptionParameter, resource.CustomerFilter,
			referenceParameter, fromDayParameter, toDayParameter,
		},
		Load: d.loadCheckouts, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			f, err := readCheckoutFilter(r)
			if err != nil {
				return err
			}
			return d.writeCheckouts(r, w, f)
		},
	}
}

// checkoutsToDecidePage lists the checkouts that wait for a person. Rule PAGE-86.
func (d *dashboard) checkoutsToDecidePage() pages.Page {
	return pages.Page{
		Path: "/checkouts/decisions", Title: "Checkouts that need a decision", Action: identity.ReadOrganization,
		Live: []string{checkoutKind}, Query: []kernel.Parameter{pages.CursorParameter},
		Load: d.loadCheckoutsToDecide, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			return d.writeCheckouts(r, w, checkoutsToDecide)
		},
	}
}

// checkoutsToDecide selects the checkouts that wait for a person.
var checkoutsToDecide = checkout.CheckoutFilter{NeedsDecision: true}

func checkoutPath(r *pages.Request, checkoutID string) string { return r.Path("checkouts", checkoutID) }

// The tabs of Checkouts.
const (
	allCheckoutsTab      = "Checkouts"
	decisionsTab         = "Need a decision"
	unmatchedTab         = "Unmatched payments"
	checkoutSettingsTab  = "Settings"
	checkoutDescription  = "What payers buy from you, one sale each."
	checkoutBalanceNote  = "What is credited is in the balance of your checkout, whatever becomes of its checkout."
	checkoutBalanceTitle = "The money is there"
)

// decisionsMax is how many checkouts that wait for a person are counted: every page with the count reads them.
const decisionsMax = 50

// countDecisions counts the checkouts that wait for a person.
func (d *dashboard) countDecisions(r *pages.Request) (n int, hasMore bool, err error) {
	n, err = d.conf.Checkouts.CountToDecide(r.Context(), r.Session.OrgID, decisionsMax+1)
	return min(n, decisionsMax), n > decisionsMax, err
}

// checkoutTabs are the tabs of Checkouts, with how many wait for a person.
func (d *dashboard) checkoutTabs(r *pages.Request, current string) ([]ui.Tab, error) {
	waiting, hasMore, err := d.countDecisions(r)
	if err != nil {
		return nil, err
	}
	tabs := []ui.Tab{
		{Title: allCheckoutsTab, Path: r.Path("checkouts")},
		{
			Title: decisionsTab, Path: r.Path("checkouts", "decisions"),
			Count: countText(waiting, hasMore),
		},
		{Title: refundsTab, Path: r.Path("refunds")},
		{Title: unmatchedTab, Path: r.Path("checkouts", "unmatched")},
		{Title: checkoutSettingsTab, Path: r.Path("checkouts", "settings")},
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Title == current
	}
	return tabs, nil
}

// readCheckoutFilter reads the query of the list.
func readCheckoutFilter(r *pages.Request) (f checkout.CheckoutFilter, err error) {
	f = checkout.CheckoutFilter{
		Status: r.Query[checkoutStatusParameter.Name], Exception: r.Query[exceptionParameter.Name],
		CustomerID: r.Query[resource.CustomerFilter.Name], Reference: r.Query[referenceParameter.Name],
	}
	if f.CreatedAfter, err = readDay(r, fromDayParameter.Name); err != nil {
		return f, err
	}
	if f.CreatedBefore, err = readDay(r, toDayParameter.Name); err != nil {
		return f, err
	}
	if !f.CreatedAfter.IsZero() {
		f.CreatedAfter = f.CreatedAfter.Add(-time.Microsecond) // The database has no finer time.
	}
	if !f.CreatedBefore.IsZero() {
		f.CreatedBefore = f.CreatedBefore.AddDate(0, 0, 1)
	}
	return f, nil
}

// checkoutRow is a checkout in a list.
type checkoutRow struct {
	Path            string
	Chip            ui.Chip
	Exceptions      []ui.Chip
	Name, MoreNames string // of the items; MoreNames is "" for one item
	AmountDue, Paid string
	NotCredited     string // how much of what is paid is in blocks alone; "" for nothing
	Currency        string
	Reference       string
	Made            ui.Moment
}

// checkoutsView is what the lists of checkouts show.
type checkoutsView struct {
	ListPath, CSVPath     string
	Tabs                  []ui.Tab
	Statuses, Exceptions  []choice
	CustomerID, Reference string
	FromDay, ToDay        string
	IsFiltered            bool
	Rows                  []checkoutRow
	FirstPath, NextPath   string
	Calls                 []string
}

// newCheckoutCall is a call that makes a checkout.
func (d *dashboard) newCheckoutCall() string {
	return d.callText("POST", "/checkouts",
		`{"name":"Gold plan","price":"49.99","currency":"USD","reference":"order-77"}`)
}

// listCheckouts makes the view of a list.
func (d *dashboard) listCheckouts(
	r *pages.Request, tab string, f checkout.CheckoutFilter,
) (view checkoutsView, err error) {
	p, err := r.ReadPage()
	if err != nil {
		return view, err
	}
	found, err := d.conf.Checkouts.ListCheckouts(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return view, err
	}
	view = checkoutsView{
		ListPath: r.PagePath(), CSVPath: r.CSVPath(),
		Calls: []string{d.newCheckoutCall(), d.callText("GET", "/checkouts", "")},
	}
	if view.Tabs, err = d.checkoutTabs(r, tab); err != nil {
		return view, err
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, c := range found.Items {
		view.Rows = append(view.Rows, newCheckoutRow(r, c))
	}
	return view, nil
}

func (d *dashboard) loadCheckouts(r *pages.Request) (templ.Component, error) {
	f, err := readCheckoutFilter(r)
	if err != nil {
		return nil, err
	}
	view, err := d.listCheckouts(r, allCheckoutsTab, f)
	if err != nil {
		return nil, err
	}
	view.CustomerID, view.Reference = f.CustomerID, f.Reference
	view.FromDay, view.ToDay = r.Query[fromDayParameter.Name], r.Query[toDayParameter.Name]
	view.IsFiltered = f != (checkout.CheckoutFilter{})
	for _, status := range outcome.Statuses {
		view.Statuses = append(view.Statuses, choice{
			Value: string(status), Text: checkoutChip(status).Word, IsChosen: f.Status == string(status),
		})
	}
	for _, word := range resource.CheckoutExceptions {
		view.Exceptions = append(view.Exceptions, choice{
			Value: word, Text: exceptionChip(outcome.Exception(word)).Word, IsChosen: f.Exception == word,
		})
	}
	return checkoutList(view), nil
}

func (d *dashboard) loadCheckoutsToDecide(r *pages.Request) (templ.Component, error) {
	view, err := d.listCheckouts(r, decisionsTab, checkoutsToDecide)
	if err != nil {
		return nil, err
	}
	return checkoutsToDecideList(view), nil
}

func newCheckoutRow(r *pages.Request, c checkout.Checkout) checkoutRow {
	row := checkoutRow{
		Path: checkoutPath(r, c.ID), Chip: checkoutChip(c.Status), Exceptions: exceptionChips(c),
		AmountDue: c.AmountDue.Show(c.Currency), Paid: c.SeenSum.Show(c.Currency), Currency: c.Currency,
		Reference: textOrEmpty(c.Reference), Made: r.Moment(c.CreatedAt),
	}
	if len(c.Items) > 0 {
		row.Name = c.Items[0].Name
	}
	if rest := len(c.Items) - 1; rest > 0 {
		row.MoreNames = "and " + strconv.Itoa(rest) + " more"
	}
	if open, err := c.SeenSum.Sub(c.Counted); err == nil && !open.IsZero() {
		row.NotCredited = open.Show(c.Currency)
	}
	return row
}

// exceptionChips writes what is unusual about a checkout, the most severe first.
func exceptionChips(c checkout.Checkout) (chips []ui.Chip) {
	for _, e := range c.Exceptions {
		chips = append(chips, exceptionChip(e))
	}
	return chips
}

func (d *dashboard) writeCheckouts(r *pages.Request, w *kernel.StreamWriter, f checkout.CheckoutFilter) error {
	return kernel.WriteTable(r.Context(), w, true, resource.CheckoutColumns,
		func(ctx context.Context, desc bool, row func(webhook.Checkout) error) error {
			return d.conf.Checkouts.ForEachCheckout(ctx, r.Session.OrgID, f, desc,
				func(c checkout.Checkout) error { return row(wire.Checkout(c)) })
		})
}
