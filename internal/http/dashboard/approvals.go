package dashboard

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// approvalsPage lists the withdrawals that wait for a person.
func (d *dashboard) approvalsPage() pages.Page {
	return pages.Page{
		Path: "/approvals", Title: "Transactions to approve", Action: identity.ReadOrganization,
		Live:  []string{"WITHDRAWAL"},
		Group: "", Icon: "approve", Shortcut: "a",
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadApprovals, WriteCSV: d.writeApprovals, Acts: []pages.Act{d.newChooseAct()},
	}
}

// approvalRow is a withdrawal that waits for a person.
type approvalRow struct {
	Path                          string
	Figure, Symbol, Dollars       string
	Network, Address, PayerName   string
	PayerKind                     string
	Reasons                       []string
	Requested                     ui.Moment
	ApprovalsGiven, ApprovalsNeed string
	BoxValue                      string // its id where it may be signed boxes with others, or ""
	IsTicked                      bool
}

// approvalsView is what the list shows.
type approvalsView struct {
	Tabs                       []ui.Tab
	Rows                       []approvalRow
	FirstPath, NextPath        string
	CSVPath                    string
	CanDecide                  bool
	DecidingRoles, Explanation string
	ChoosePath                 string // where the chosen ones are reviewed; "": there are no two
	Form                       ui.Form
}

// heldFilter selects the withdrawals that wait for a person.
var heldFilter = withdrawal.Filter{Status: string(withdrawal.AwaitingApproval)}

func (d *dashboard) loadApprovals(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	p.Desc = false // What waits longest comes first.
	found, err := d.conf.Withdrawals.List(r.Context(), r.Session.OrgID, heldFilter, p)
	if err != nil {
		return nil, err
	}
	view := approvalsView{CSVPath: r.CSVPath(), CanDecide: r.IsAllowed(identity.DecideWithdrawal), Form: r.Form}
	boxes, chosen := 0, r.ListTicked(chosenName)
	for _, w := range found.Items {
		row := newApprovalRow(r, w)
		if d.mayBeInReviewList(r, w) {
			row.BoxValue, row.IsTicked = w.ID, slices.Contains(chosen, w.ID)
			boxes++
		}
		view.Rows = append(view.Rows, row)
	}
	if boxes >= signer.PaymentListMin {
		view.ChoosePath = r.Path("approvals", chooseAct)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	view.Tabs = approvalTabs(r, "", countText(len(found.Items), found.NextCursor != nil))
	return approvalsList(view), nil
}

// approvalTabs are the tabs of Transactions to approve.
func approvalTabs(r *pages.Request, current, count string) []ui.Tab {
	tabs := []ui.Tab{
		{Title: "Withdrawals", Path: r.Path("approvals")},
		{Title: payoutsTab, Path: r.Path("approvals", "payouts")},
		{Title: "Own swaps", Path: r.Path("approvals", "organization-swaps")},
		{Title: "Flagged deposits", Path: r.Path("approvals", "flagged")},
		{Title: "Failed swaps", Path: r.Path("approvals", "swaps")},
		{Title: "Resolution history", Path: r.Path("approvals", "history")},
	}
	tabs = slices.DeleteFunc(tabs, func(t ui.Tab) bool { return !strings.HasPrefix(t.Path, "/") }) // of other pages
	for i := range tabs {
		if tabs[i].Title == current || current == "" && i == 0 {
			tabs[i].Current, tabs[i].Count = true, count
		}
	}
	return tabs
}

// countText counts the rows of the first page of a list.
func countText(n int, hasMore bool) string {
	if hasMore {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// countNoun counts things by a noun that takes an s for more than one.
func countNoun(noun string, n int, hasMore bool) string {
	if n == 1 && !hasMore {
		return "1 " + noun
	}
	return countText(n, hasMore) + " " + noun + "s"
}

func newApprovalRow(r *pages.Request, w withdrawal.Withdrawal) approvalRow {
	row := approvalRow{
		Path:   r.Path("approvals", "withdrawals", w.ID),
		Figure: w.Amount.Decimal(w.Mint.Decimals), Symbol: w.Mint.Symbol,
		Network: networkName(w.Mint.Chain), Address: string(w.ToAddress),
		Requested:      r.Moment(w.CreatedAt),
		ApprovalsGiven: strconv.Itoa(w.Approvals.Received), ApprovalsNeed: strconv.Itoa(w.Approvals.Required),
	}
	if w.USDValue != nil {
		row.Dollars = w.USDValue.Cents()
	}
	row.PayerKind, row.PayerName = "Customer", w.Owner.CustomerID()
	if w.Owner.IsOrganization() {
		row.PayerKind, row.PayerName = "Your own balance", productName(w.Owner.Product())
	}
	for _, reason := range w.ApprovalReasons {
		row.Reasons = append(row.Reasons, reasonText(reason))
	}
	return row
}

var approvalColumns = []kernel.Column[withdrawal.Withdrawal]{
	{Name: "withdrawalId", Cell: func(w withdrawal.Withdrawal) string { return w.ID }},
	{Name: "createdAt", Cell: func(w withdrawal.Withdrawal) string { return webhook.At(w.CreatedAt).String() }},
	{Name: "customerId", Cell: func(w withdrawal.Withdrawal) string { return w.Owner.CustomerID() }},
	{Name: "product", Cell: func(w withdrawal.Withdrawal) string { return w.Owner.Product() }},
	{Name: "symbol", Cell: func(w withdrawal.Withdrawal) string { return w.Mint.Symbol }},
	{Name: "chain", Cell: func(w withdrawal.Withdrawal) string { return string(w.Mint.Chain) }},
	{Name: "amount", Cell: func(w withdrawal.Withdrawal) string { return w.Amount.String() }},
	{
		Name: "amountDecimal",
		Cell: func(w withdrawal.Withdrawal) string { return w.Amount.Decimal(w.Mint.Decimals) },
	},
	{Name: "usdValue", Cell: func(w withdrawal.Withdrawal) string {
		if w.USDValue == nil {
			return ""
		}
		return w.USDValue.Cents()
	}},
	{Name: "toAddress", Cell: func(w withdrawal.Withdrawal) string { return string(w.ToAddress) }},
	{Name: "approvals", Cell: func(w withdrawal.Withdrawal) string { return strconv.Itoa(w.Approvals.Received) }},
	{
		Name: "approvalsRequired",
		Cell: func(w withdrawal.Withdrawal) string { return strconv.Itoa(w.Approvals.Required) },
	},
}

func (d *dashboard) writeApprovals(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, false, approvalColumns,
		func(ctx context.Context, desc bool, row func(withdrawal.Withdrawal) error) error {
			return d.conf.Withdrawals.ForEach(ctx, r.Session.OrgID, heldFilter, desc, row)
		})
}

// productName writes a product for people, as the interface names it.
func productName(product string) string {
	switch product {
	case "CUSTODIAL":
		return "Custodial"
	case "CHECKOUT":
		return "Checkout"
	case "BATCH_PAYOUT":
		return "Batch Payout"
	}
	return product
}
