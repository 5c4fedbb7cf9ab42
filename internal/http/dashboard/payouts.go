package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// payoutKind names batch payouts among the resources of the audit log.
const payoutKind = "BATCH_PAYOUT"

// payoutsTab is the tab of the batch payouts that wait for an approval.
const payoutsTab = "Payouts"

const payoutDescription = "Lists of payments of your own money, each approved as a whole."

var payoutStatusParameter = kernel.Parameter{
	Name: "status", Kind: kernel.WordParameter, Enum: resource.BatchPayoutStatuses,
}

// payoutsToApprove selects the batch payouts that wait for a person.
var payoutsToApprove = payout.Filter{Status: string(payout.AwaitingApproval)}

// payoutsPage lists the batch payouts. Rule PAGE-100.
func (d *dashboard) payoutsPage() pages.Page {
	return pages.Page{
		Path: "/payouts", Title: "Payouts", Action: identity.ReadOrganization, Group: "", Icon: "payout",
		Shortcut: "o", Live: []string{payoutKind, "WITHDRAWAL"},
		Query: []kernel.Parameter{pages.CursorParameter, payoutStatusParameter, fromDayParameter, toDayParameter},
		Load:  d.loadPayouts, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			f, err := readPayoutFilter(r)
			if err != nil {
				return err
			}
			return d.writePayouts(r, w, f)
		},
	}
}

// payoutsToApprovePage lists the batch payouts that wait for a person. Rule PAGE-103.
func (d *dashboard) payoutsToApprovePage() pages.Page {
	return pages.Page{
		Path: "/approvals/payouts", Title: payoutsTab, Action: identity.ReadOrganization, Live: []string{payoutKind},
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadPayoutsToApprove, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			return d.writePayouts(r, w, payoutsToApprove)
		},
	}
}

func payoutPath(r *pages.Request, batchID string) string { return r.Path("payouts", batchID) }

// payoutChip writes the status of a batch payout for people.
func payoutChip(status payout.Status) ui.Chip {
	switch status {
	case payout.Draft:
		return ui.Chip{Kind: ui.Quiet, Word: "Draft"}
	case payout.Validating:
		return ui.Chip{Kind: ui.Info, Word: "Being checked"}
	case payout.Invalid:
		return ui.Chip{Kind: ui.Bad, Word: "Not payable"}
	case payout.AwaitingApproval:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for approval"}
	case payout.Processing:
		return ui.Chip{Kind: ui.Info, Word: "Being paid"}
	case payout.Completed:
		return ui.Chip{Kind: ui.Good, Word: "Paid"}
	case payout.PartiallyCompleted:
		return ui.Chip{Kind: ui.Wait, Word: "Paid in part"}
	case payout.Failed:
		return ui.Chip{Kind: ui.Bad, Word: "Nothing paid"}
	case payout.Cancelled:
		return ui.Chip{Kind: ui.Quiet, Word: "Cancelled"}
	case payout.Rejected:
		return ui.Chip{Kind: ui.Quiet, Word: "Rejected"}
	}
	return ui.Chip{}
}

// batchChip is payoutChip with what a person did while the batch was being paid.
func batchChip(b payout.Batch) ui.Chip {
	switch {
	case b.Status != payout.Processing:
	case b.StoppedAt != nil:
		return ui.Chip{Kind: ui.Wait, Word: "Being cancelled"}
	case b.PausedAt != nil:
		return ui.Chip{Kind: ui.Wait, Word: "Paused"}
	}
	return payoutChip(b.Status)
}

// payoutProgress is how far a batch payout has come.
type payoutProgress struct {
	Paid, Included int
	// Text counts the rows that are paid, and Tallies those of every other kind.
	Text    string
	Tallies []string
}

// countRows writes a number of rows.
func countRows(n int) string { return ui.FormatCount(n, "row") }

func newPayoutProgress(b payout.Batch) payoutProgress {
	c := b.Counts
	if b.ApprovedAt == nil {
		c.Waiting, c.Unpaid = 0, 0 // nothing was asked to pay them
	}
	p := payoutProgress{
		Paid: c.Paid, Included: c.Included, Text: strconv.Itoa(c.Paid) + " of " + countRows(c.Included) + " paid",
	}
	for _, part := range []struct {
		n    int
		word string
	}{
		{c.Processing, "on their way"},
		{c.Waiting, "waiting"},
		{c.Unpaid, "not paid"},
		{b.Header.Rows - c.Included, "left out"},
		{c.Bad, "unreadable"},
	} {
		if part.n > 0 {
			p.Tallies = append(p.Tallies, strconv.Itoa(part.n)+" "+part.word)
		}
	}
	return p
}

// payoutAmount is a sum of one coin.
type payoutAmount struct{ Figure, Symbol, Network, Dollars string }

// payoutAmounts writes the totals of a batch payout.
func (d *dashboard) payoutAmounts(
	ctx context.Context, mints mint.Catalogue, totals []contenthash.Total,
) (amounts []payoutAmount) {
	for _, t := range totals {
		shown := payoutAmount{Figure: t.Amount.String(), Symbol: "units"}
		if m, isKnown := mints.ByID(t.MintID); isKnown {
			shown = payoutAmount{
				t.Amount.Decimal(m.Decimals), m.Symbol, networkName(m.Chain), d.dollars(ctx, m, t.Amount),
			}
		}
		amounts = append(amounts, shown)
	}
	return amounts
}

// shownAmountsMax is how many sums a row of a list shows.
const shownAmountsMax = 3

// payoutLine is a batch payout in a list.
type payoutLine struct {
	Path, ID       string
	Amounts        []payoutAmount
	MoreAmounts    string // how many more sums there are; "" for none
	Progress       payoutProgress
	IsBegun        bool // rows are paid, or were
	Chip           ui.Chip
	Author         string
	ApprovalsText  string // "" while no person is asked
	Made           ui.Moment
	Problem, Label string // Label tells it from others for screen readers
}

func (d *dashboard) newPayoutLine(
	r *pages.Request, b payout.Batch, mints mint.Catalogue, names people,
) payoutLine {
	line := payoutLine{
		Path: payoutPath(r, b.ID), ID: b.ID, Amounts: d.payoutAmounts(r.Context(), mints, b.Header.Totals),
		Progress: newPayoutProgress(b), IsBegun: b.ApprovedAt != nil, Chip: batchChip(b),
		Author: names.nameOf(b.Maker, r.Session), Made: r.Moment(b.CreatedAt), Problem: b.Problem,
		Label: "of " + countRows(b.Header.Rows) + ", made by " + names.nameOf(b.Maker, r.Session),
	}
	if rest := len(line.Amounts) - shownAmountsMax; rest > 0 {
		line.MoreAmounts = "and " + strconv.Itoa(rest) + " more"
		line.Amounts = line.Amounts[:shownAmountsMax]
	}
	if b.Status == payout.AwaitingApproval {
		line.ApprovalsText = strconv.Itoa(b.Approvals) + " of " + strconv.Itoa(b.Required) + " approvals"
	}
	return line
}

// payoutsView is what both lists of batch payouts show.
type payoutsView struct {
	ListPath, CSVPath   string
	FormPath            string // of the form that makes one; "" for a person who may not
	Tabs                []ui.Tab
	Statuses            []choice
	FromDay, ToDay      string
	IsFiltered          bool
	Rows                []payoutLine
	FirstPath, NextPath string
	Calls               []string
}

func readPayoutFilter(r *pages.Request) (f payout.Filter, err error) {
	f.Status = r.Query[payoutStatusParameter.Name]
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

// loadMints returns the catalogue.
func (d *dashboard) loadMints(r *pages.Request) (mints mint.Catalogue, err error) {
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	return mints, err
}

// listPayouts makes the view of a list.
func (d *dashboard) listPayouts(r *pages.Request, f payout.Filter, p pagination.Page) (view payoutsView, err error) {
	found, err := d.conf.Payouts.List(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return view, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return view, err
	}
	mints, err := d.loadMints(r)
	if err != nil {
		return view, err
	}
	view = payoutsView{ListPath: r.PagePath(), CSVPath: r.CSVPath()}
	if r.IsAllowed(identity.ManageBatchPayouts) {
		view.FormPath = r.Path("payouts", "new")
	}
	for _, b := range found.Items {
		view.Rows = append(view.Rows, d.newPayoutLine(r, b, mints, names))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return view, nil
}

func (d *dashboard) loadPayouts(r *pages.Request) (templ.Component, error) {
	f, err := readPayoutFilter(r)
	if err != nil {
		return nil, err
	}
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	view, err := d.listPayouts(r, f, p)
	if err != nil {
		return nil, err
	}
	view.IsFiltered = f != (payout.Filter{})
	view.FromDay, view.ToDay = r.Query[fromDayParameter.Name], r.Query[toDayParameter.Name]
	for _, status := range resource.BatchPayoutStatuses {
		view.Statuses = append(view.Statuses, choice{
			Value: status, Text: payoutChip(payout.Status(status)).Word, IsChosen: f.Status == status,
		})
	}
	view.Calls = []string{d.callText("GET", "/batch-payouts", "")}
	return payoutList(view), nil
}

func (d *dashboard) loadPayoutsToApprove(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	p.Desc = false // What waits longest comes first.
	view, err := d.listPayouts(r, payoutsToApprove, p)
	if err != nil {
		return nil, err
	}
	view.Tabs = approvalTabs(r, payoutsTab, countText(len(view.Rows), view.NextPath != ""))
	return payoutsToApproveList(view), nil
}

// countPayoutsToApprove counts the batch payouts that wait for a person, for the first page.
func (d *dashboard) countPayoutsToApprove(r *pages.Request) (text string, err error) {
	found, err := d.conf.Payouts.List(
		r.Context(), r.Session.OrgID, payoutsToApprove, pagination.Page{Limit: waitingMax, Desc: true},
	)
	if err != nil || len(found.Items) == 0 {
		return "", err
	}
	return countNoun("batch payout", len(found.Items), found.NextCursor != nil) + " to approve", nil
}

// totalColumns are a column for the sum of each coin of a catalogue, in atomic units.
func totalColumns(mints mint.Catalogue) (columns []kernel.Column[webhook.BatchPayout]) {
	for _, m := range mints.List(mint.Filter{}) {
		columns = append(columns, kernel.Column[webhook.BatchPayout]{
			Name: fmt.Sprintf("total %d %s %s", m.ID, m.Symbol, m.Chain),
			Cell: func(b webhook.BatchPayout) string {
				for _, t := range b.Totals {
					if t.MintID == m.ID {
						return t.Amount
					}
				}
				return ""
			},
		})
	}
	return columns
}

func (d *dashboard) writePayouts(r *pages.Request, w *kernel.StreamWriter, f payout.Filter) error {
	mints, err := d.loadMints(r)
	if err != nil {
		return err
	}
	columns := slices.Concat(resource.BatchPayoutColumns, totalColumns(mints))
	return kernel.WriteTable(r.Context(), w, true, columns,
		func(ctx context.Context, desc bool, row func(webhook.BatchPayout) error) error {
			return d.conf.Payouts.ForEach(ctx, r.Session.OrgID, f, desc,
				func(b payout.Batch) error { return row(wire.BatchPayout(b)) })
		})
}
