package dashboard

import (
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
)

// The names of the acts about an unmatched payment.
const (
	assignAct          = "assign"
	refundUnmatchedAct = "refund"
)

// checkoutFieldName is the field, and the parameter of the page, that names a checkout.
const checkoutFieldName = "checkoutId"

const checkoutIDBytesMax = 64

var chosenCheckoutParameter = kernel.Parameter{
	Name: checkoutFieldName, Kind: kernel.TextParameter, Max: checkoutIDBytesMax,
}

// unmatchedPage lists what arrived for checkouts and belongs to none. Rules PAGE-86 and PAGE-93.
func (d *dashboard) unmatchedPage() pages.Page {
	return pages.Page{
		Path: "/checkouts/unmatched", Title: "Unmatched payments", Action: identity.ReadOrganization,
		Live: []string{"DEPOSIT"}, Query: []kernel.Parameter{pages.CursorParameter}, Load: d.loadUnmatched,
	}
}

// unmatchedPaymentPage shows what arrived for checkouts and named none, and takes the decision about it. Rules PAGE-94
// and PAGE-95.
func (d *dashboard) unmatchedPaymentPage() pages.Page {
	return pages.Page{
		Path: "/unmatched-payments/{depositId}", Title: "Unmatched payment", Action: identity.ReadOrganization,
		MenuPath: "/checkouts", Live: []string{"DEPOSIT"}, Query: []kernel.Parameter{chosenCheckoutParameter},
		Load: d.loadUnmatchedPayment,
		Acts: []pages.Act{
			{
				Name: assignAct, Action: identity.DecideCheckout, StepUp: pages.ActStepUp,
				Fields: []pages.Field{{
					Name: checkoutFieldName, BytesMax: checkoutIDBytesMax, Missing: "Enter the checkout.",
				}},
				FindDone: d.findAssigned, Run: d.assignUnmatched,
			},
			{
				Name: refundUnmatchedAct, Action: identity.RefundCheckout, StepUp: pages.ActStepUp, Keyed: true,
				Fields: []pages.Field{
					{Name: refundAddressName, BytesMax: 4 * refundAddressMax, Optional: true},
					{Name: "reason", BytesMax: noteBytesMax, Optional: true},
				},
				FindDone: d.findUnmatchedRefund, Run: d.refundUnmatched,
			},
		},
	}
}

func unmatchedPath(r *pages.Request, depositID string) string {
	return r.Path("unmatched-payments", depositID)
}

func (d *dashboard) unmatchedOf(r *pages.Request) (checkout.Unmatched, error) {
	return d.conf.Checkouts.UnmatchedByID(r.Context(), r.Session.OrgID, r.PathParam("depositId"))
}

// findAssigned returns the page of the checkout that has the payment already.
func (d *dashboard) findAssigned(r *pages.Request) (string, error) {
	u, err := d.unmatchedOf(r)
	if err != nil || u.AssignedTo == "" {
		return "", err
	}
	return checkoutPath(r, u.AssignedTo), nil
}

// assignUnmatched gives the payment to a checkout. Rule PAGE-94.
func (d *dashboard) assignUnmatched(r *pages.Request) (string, error) {
	u, err := d.conf.Checkouts.AssignUnmatched(r.Context(), r.Session.OrgID, r.PathParam("depositId"),
		strings.TrimSpace(r.Values[checkoutFieldName]), actor(r))
	if f := fault.Find(err); f != nil && f.Code == fault.CodeNotFound {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"There is no such checkout.").WithParam(checkoutFieldName)
	}
	if err != nil {
		return "", err
	}
	return checkoutPath(r, u.AssignedTo), nil
}

// readUnmatchedRefund reads the form of the refund.
func readUnmatchedRefund(r *pages.Request) checkout.UnmatchedRefund {
	return checkout.UnmatchedRefund{
		DepositID: r.PathParam("depositId"), IdempotencyKey: new(r.Key()), Actor: actor(r),
		ToAddress: resource.OptionalText(strings.TrimSpace(r.Values[refundAddressName])),
		Reason:    resource.OptionalText(strings.ReplaceAll(r.Values["reason"], "\r\n", "\n")),
	}
}

// findUnmatchedRefund returns the page of the refund that the key of the form made. Rule PAGE-15.
func (d *dashboard) findUnmatchedRefund(r *pages.Request) (string, error) {
	made, isKnown, err := d.conf.Checkouts.FindRefundByKey(r.Context(), r.Session.OrgID, r.Key())
	if err != nil || !isKnown {
		return "", err
	}
	path := refundPath(r, made.ID)
	differs, err := d.conf.Checkouts.DiffersUnmatched(r.Context(), r.Session.OrgID, made, readUnmatchedRefund(r))
	if err != nil || differs {
		return "", r.NewKeyConflict("the refund of "+made.Amount.Decimal(made.Mint.Decimals)+" "+made.Mint.Symbol, path)
	}
	return path, nil
}

// refundUnmatched gives the payment back. Rule PAGE-95.
func (d *dashboard) refundUnmatched(r *pages.Request) (string, error) {
	req := readUnmatchedRefund(r)
	if req.ToAddress == nil && d.conf.Checkouts.ClaimURL == nil {
		return "", newNoClaimPages().WithParam(refundAddressName)
	}
	made, claimKey, _, err := d.conf.Checkouts.RefundUnmatched(r.Context(), r.Session.OrgID, req)
	if err != nil {
		return "", err
	}
	if claimKey != "" {
		r.ShowOnce(claimLink(d.newClaimLink(r, made, claimKey, refundLinkTitle)))
		return "", nil
	}
	return refundPath(r, made.ID), nil
}

// unmatchedRow is a payment that belongs to no checkout.
type unmatchedRow struct {
	Path                    string
	Figure, Symbol, Network string
	Reason                  string
	Chip                    ui.Chip // of its deposit
	Arrived                 ui.Moment
	Suggested               []link // the checkouts that asked for just this amount
	OpenPath                string // of the checkouts of its day that are still open
}

// link is a path with its text.
type link struct{ Path, Text string }

// unmatchedView is what the list of unmatched payments shows.
type unmatchedView struct {
	Tabs                []ui.Tab
	BalancePath         string
	Rows                []unmatchedRow
	FirstPath, NextPath string
}

func newUnmatchedRow(r *pages.Request, u checkout.Unmatched) unmatchedRow {
	row := unmatchedRow{
		Path: unmatchedPath(r, u.DepositID), Figure: u.Amount.String(), Symbol: "units",
		Network: networkName(u.Chain), Reason: unmatchedText(u.Reason),
		Chip: depositChip(deposit.Status(u.DepositStatus)), Arrived: r.Moment(u.SeenAt),
	}
	if u.Mint != nil {
		row.Figure, row.Symbol = u.Amount.Decimal(u.Mint.Decimals), u.Mint.Symbol
	}
	for _, checkoutID := range u.SuggestedIDs {
		row.Suggested = append(row.Suggested, link{checkoutPath(r, checkoutID), checkoutID})
	}
	day := u.SeenAt.UTC().Format(time.DateOnly)
	row.OpenPath = r.Path("checkouts") + "?" + url.Values{
		checkoutStatusParameter.Name: {string(outcome.Open)},
		fromDayParameter.Name:        {day}, toDayParameter.Name: {day},
	}.Encode()
	return row
}

func (d *dashboard) loadUnmatched(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := d.conf.Checkouts.ListUnmatched(r.Context(), r.Session.OrgID, checkout.UnmatchedFilter{}, p)
	if err != nil {
		return nil, err
	}
	view := unmatchedView{BalancePath: r.Path("balances")}
	if view.Tabs, err = d.checkoutTabs(r, unmatchedTab); err != nil {
		return nil, err
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, u := range found.Items {
		view.Rows = append(view.Rows, newUnmatchedRow(r, u))
	}
	return unmatchedList(view), nil
}

// suggestionRow is an open checkout that asked for just what arrived.
type suggestionRow struct {
	Path, ChoosePath string
	ID, Name         string
	Reference        string
	Made             ui.Moment
	IsChosen         bool
}

// unmatchedPaymentView is what the page of an unmatched payment shows.
type unmatchedPaymentView struct {
	unmatchedRow

	ListPath, PagePath, DepositPath string
	Facts                           []ui.Fact
	Suggestions                     []suggestionRow
	Form                            ui.Form
	Key                             string // of the form of the refund
	HasPages                        bool   // for payers, so a refund needs no address
	CanAssign, CanRefund            bool
	WhyNot                          string // why nothing can be done here; "" if something can
	AssignedPath, AssignedID        string // the checkout that has the payment; "" while it is unmatched
	AssignedBy                      string
	Calls                           []string
}

func (d *dashboard) loadUnmatchedPayment(r *pages.Request) (templ.Component, error) {
	u, err := d.unmatchedOf(r)
	if err != nil {
		return nil, err
	}
	view := unmatchedPaymentView{
		unmatchedRow: newUnmatchedRow(r, u), ListPath: r.Path("checkouts", "unmatched"),
		PagePath: unmatchedPath(r, u.DepositID), DepositPath: transactionPath(r, depositKind, u.DepositID),
		Facts: []ui.Fact{
			{Name: "Deposit", Value: copiedText(u.DepositID)},
			{Name: "Transaction", Value: copiedText(string(u.Tx))},
			{Name: "Seen", Value: ui.When(r.Moment(u.SeenAt))},
		},
		Form: ui.Filled(r.Form, assignAct, map[string]string{checkoutFieldName: r.Query[checkoutFieldName]}),
		Key:  r.FormKey(refundUnmatchedAct), HasPages: d.conf.Checkouts.ClaimURL != nil,
		Calls: []string{
			d.callText("POST", "/unmatched-payments/"+u.DepositID+"/assign", `{"checkoutId":"co_…"}`),
			d.callText("POST", "/unmatched-payments/"+u.DepositID+"/refund", `{"idempotencyKey":"refund-78"}`),
		},
	}
	if r.Form.Act == refundUnmatchedAct {
		view.Form = r.Form
	}
	for _, checkoutID := range u.SuggestedIDs {
		c, err := d.conf.Checkouts.CheckoutByID(r.Context(), r.Session.OrgID, checkoutID)
		if err != nil {
			return nil, err
		}
		row := suggestionRow{
			Path: checkoutPath(r, c.ID), ID: c.ID, Reference: textOrEmpty(c.Reference), Made: r.Moment(c.CreatedAt),
			IsChosen:   r.Query[checkoutFieldName] == c.ID,
			ChoosePath: view.PagePath + "?" + url.Values{checkoutFieldName: {c.ID}}.Encode(),
		}
		if len(c.Items) > 0 {
			row.Name = c.Items[0].Name
		}
		view.Suggestions = append(view.Suggestions, row)
	}
	view.explain(r, u)
	if u.AssignedTo != "" {
		names, err := d.loadPeople(r)
		if err != nil {
			return nil, err
		}
		view.AssignedBy = "Its final block named the checkout."
		if kind, actorID, _ := strings.Cut(u.AssignedBy, " "); kind != "SYSTEM" {
			view.AssignedBy = "Assigned by " + names.nameOf(audit.Actor{Kind: kind, ID: actorID}, r.Session) + "."
		}
	}
	return unmatchedOverview(view), nil
}

// explain says what the person can do about the payment.
func (v *unmatchedPaymentView) explain(r *pages.Request, u checkout.Unmatched) {
	switch {
	case u.AssignedTo != "":
		v.AssignedPath, v.AssignedID = checkoutPath(r, u.AssignedTo), u.AssignedTo
	case u.Mint == nil:
		v.WhyNot = "The token is not in the catalogue, so nothing is credited. Ask the operator to support it."
	case !r.IsAllowed(identity.DecideCheckout):
		v.WhyNot = "An owner, an admin or finance decides whose payment it is."
	default:
		v.CanAssign = true
		v.CanRefund = r.IsAllowed(identity.RefundCheckout) && u.Reason != checkout.OtherReference &&
			deposit.Status(u.DepositStatus) == deposit.Credited
	}
}
