package dashboard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// refundKind names refunds among the resources of the audit log.
const refundKind = "REFUND"

// The names of the acts about refunds.
const (
	refundAct        = "refund"
	cancelRefundAct  = "cancel"
	addressRefundAct = "address"
	claimLinkAct     = "claim-link"
)

const (
	refundsTab         = "Refunds"
	refundStepsMax     = 200
	shownRefundsMax    = 20
	refundAddressMax   = 128 // characters; package checkout says so too
	refundReasonMax    = 1000
	wholeName          = "what" // the field that says how much is refunded
	refundAddressName  = "toAddress"
	refundLinkTitle    = "The refund is made"
	newRefundLinkTitle = "The refund has a new link"
)

var refundStatusParameter = kernel.Parameter{
	Name: "status", Kind: kernel.WordParameter, Enum: resource.CheckoutRefundStatuses,
}

// refundsPage lists the refunds of checkouts. Rule PAGE-90.
func (d *dashboard) refundsPage() pages.Page {
	return pages.Page{
		Path: "/refunds", Title: "Refunds", Action: identity.ReadOrganization, MenuPath: "/checkouts",
		Live:  []string{refundKind},
		Query: []kernel.Parameter{pages.CursorParameter, refundStatusParameter, fromDayParameter, toDayParameter},
		Load:  d.loadRefunds, WriteCSV: d.writeRefunds,
	}
}

// refundPage shows a refund with what happened to its money, and what can be done about it. Rules PAGE-91 and PAGE-92.
func (d *dashboard) refundPage() pages.Page {
	return pages.Page{
		Path: "/refunds/{refundId}", Title: "Refund", Action: identity.ReadOrganization, MenuPath: "/checkouts",
		Live: []string{refundKind}, Load: d.loadRefund,
		Acts: []pages.Act{
			{
				Name: cancelRefundAct, Action: identity.CancelRefund, StepUp: pages.ActStepUp,
				FindDone: d.findCancelledRefund, Run: d.cancelRefund,
			},
			{
				Name: addressRefundAct, Action: identity.RefundCheckout, StepUp: pages.ActStepUp,
				Fields: []pages.Field{{
					Name: refundAddressName, BytesMax: 4 * refundAddressMax, Missing: "Enter where the refund goes.",
				}},
				Run: d.addressRefund,
			},
			{
				Name: claimLinkAct, Action: identity.RefundCheckout, StepUp: pages.ActStepUp, Run: d.issueClaimLink,
			},
		},
	}
}

func refundPath(r *pages.Request, refundID string) string { return r.Path("refunds", refundID) }

// refundActOf is the act that refunds a checkout. Rule PAGE-92.
func (d *dashboard) refundActOf() pages.Act {
	optional := func(name string, bytesMax int) pages.Field {
		return pages.Field{Name: name, BytesMax: bytesMax, Optional: true}
	}
	return pages.Act{
		Name: refundAct, Action: identity.RefundCheckout, StepUp: pages.ActStepUp, Keyed: true,
		Fields: []pages.Field{
			{Name: "mintId", BytesMax: wordBytesMax, Missing: "Choose the coin."},
			{Name: wholeName, BytesMax: wordBytesMax, Missing: "Choose how much is refunded."},
			optional("amount", amountBytesMax), optional(refundAddressName, 4*refundAddressMax),
			{Name: "feeMode", BytesMax: wordBytesMax, Missing: "Choose who pays the network."},
			optional("reason", noteBytesMax),
		},
		FindDone: d.findRequestedRefund, Run: d.requestRefund,
	}
}

// readRefundRequest reads the form of a refund. Errors: faults INVALID_REQUEST, INVALID_AMOUNT.
func readRefundRequest(r *pages.Request, c checkout.Checkout) (req checkout.RefundRequest, err error) {
	mintID, err := strconv.Atoi(r.Values["mintId"])
	i := slices.IndexFunc(c.Payments, func(p checkout.Payment) bool { return p.Mint != nil && p.Mint.ID == mintID })
	if err != nil || i < 0 {
		return req, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose a coin that was paid.").WithParam("mintId")
	}
	req = checkout.RefundRequest{
		CheckoutID: c.ID, MintID: &mintID, FeeMode: r.Values["feeMode"], IdempotencyKey: new(r.Key()), Actor: actor(r),
		ToAddress: resource.OptionalText(strings.TrimSpace(r.Values[refundAddressName])),
		Reason:    resource.OptionalText(strings.ReplaceAll(r.Values["reason"], "\r\n", "\n")),
	}
	switch kind := checkout.RefundKind(r.Values[wholeName]); kind {
	case checkout.FullRefund, checkout.OverpaidRefund:
		req.Kind = kind
	case checkout.AmountRefund:
		amount, err := request.ParseAmount(strings.TrimSpace(r.Values["amount"]), true, *c.Payments[i].Mint,
			fault.NothingWritten)
		if err != nil {
			return req, err
		}
		req.Amount = new(amount.String())
	default:
		return req, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose how much is refunded.").WithParam(wholeName)
	}
	return req, nil
}

// findRequestedRefund returns the page of the refund that the key of the form made. Rule PAGE-15.
func (d *dashboard) findRequestedRefund(r *pages.Request) (string, error) {
	made, isKnown, err := d.conf.Checkouts.FindRefundByKey(r.Context(), r.Session.OrgID, r.Key())
	if err != nil || !isKnown {
		return "", err
	}
	path := refundPath(r, made.ID)
	c, err := d.checkoutOf(r)
	if err != nil {
		return "", err
	}
	req, err := readRefundRequest(r, c)
	if err != nil || made.Differs(req) {
		return "", r.NewKeyConflict("the refund of "+made.Amount.Decimal(made.Mint.Decimals)+" "+made.Mint.Symbol, path)
	}
	return path, nil
}

func (d *dashboard) requestRefund(r *pages.Request) (string, error) {
	c, err := d.checkoutOf(r)
	if err != nil {
		return "", err
	}
	req, err := readRefundRequest(r, c)
	if err != nil {
		return "", err
	}
	if req.ToAddress == nil && d.conf.Checkouts.ClaimURL == nil {
		return "", newNoClaimPages().WithParam(refundAddressName)
	}
	made, claimKey, _, err := d.conf.Checkouts.RequestRefund(r.Context(), r.Session.OrgID, req)
	if err != nil {
		return "", sayLeft(err, c, *req.MintID)
	}
	if claimKey != "" {
		r.ShowOnce(claimLink(d.newClaimLink(r, made, claimKey, refundLinkTitle)))
		return "", nil
	}
	return refundPath(r, made.ID), nil
}

// sayLeft says in whole coins how much can be refunded, where the feature says it in atomic units.
func sayLeft(err error, c checkout.Checkout, mintID int) error {
	f := fault.Find(err)
	if f == nil || f.Code != fault.RefundExceedsPayment {
		return err
	}
	reason := "Nothing is left to refund in this coin."
	for _, left := range c.Refundable() {
		if left.Mint.ID == mintID {
			reason = "At most " + left.Amount.Decimal(left.Mint.Decimals) + " " + ui.EscapeForeign(left.Mint.Symbol) +
				" can be refunded, and of a surplus what is above the amount due."
		}
	}
	return fault.New(f.Kind, f.Code, f.Effect, "%s", reason).WithParam(f.Param)
}

func newNoClaimPages() *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"This installation has no pages on which a payer could say where the refund goes.").
		WithAdvice("Ask the payer for an address.")
}

// claimLinkView shows the link with which a payer claims a refund, once.
type claimLinkView struct {
	Title, RefundPath, URL string
	Figure, Symbol         string
	Expiry                 ui.Moment
}

func (d *dashboard) newClaimLink(r *pages.Request, made checkout.Refund, claimKey, title string) claimLinkView {
	return claimLinkView{
		Title: title, RefundPath: refundPath(r, made.ID), URL: d.conf.Checkouts.ClaimPage(made.ID, claimKey),
		Figure: made.Amount.Decimal(made.Mint.Decimals), Symbol: made.Mint.Symbol, Expiry: r.Moment(made.ExpiresAt),
	}
}

func (d *dashboard) refundOf(r *pages.Request) (checkout.Refund, error) {
	return d.conf.Checkouts.RefundByID(r.Context(), r.Session.OrgID, r.PathParam("refundId"))
}

// findCancelledRefund returns the page of a refund that is cancelled already.
func (d *dashboard) findCancelledRefund(r *pages.Request) (string, error) {
	refund, err := d.refundOf(r)
	if err != nil || refund.Status != checkout.RefundCancelled {
		return "", err
	}
	return refundPath(r, refund.ID), nil
}

func (d *dashboard) cancelRefund(r *pages.Request) (string, error) {
	refund, err := d.conf.Checkouts.CancelRefund(
		r.Context(), r.Session.OrgID, r.PathParam("refundId"), actor(r),
	)
	if err != nil {
		return "", err
	}
	return refundPath(r, refund.ID), nil
}

func (d *dashboard) addressRefund(r *pages.Request) (string, error) {
	refund, err := d.conf.Checkouts.GiveRefundAddress(
		r.Context(), r.Session.OrgID, r.PathParam("refundId"), r.Values[refundAddressName], actor(r),
	)
	if err != nil {
		return "", err
	}
	return refundPath(r, refund.ID), nil
}

// issueClaimLink makes another link with which the payer claims a refund. The one before opens nothing any more.
func (d *dashboard) issueClaimLink(r *pages.Request) (string, error) {
	if d.conf.Checkouts.ClaimURL == nil {
		return "", newNoClaimPages()
	}
	refund, claimKey, err := d.conf.Checkouts.ReissueRefundKey(
		r.Context(), r.Session.OrgID, r.PathParam("refundId"), actor(r),
	)
	if err != nil {
		return "", err
	}
	r.ShowOnce(claimLink(d.newClaimLink(r, refund, claimKey, newRefundLinkTitle)))
	return "", nil
}

// refundChip writes the status of a refund for people.
func refundChip(status checkout.RefundStatus) ui.Chip {
	switch status {
	case checkout.RefundAwaitingAddress:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for an address"}
	case checkout.RefundRequested:
		return ui.Chip{Kind: ui.Info, Word: "Payment requested"}
	case checkout.RefundSent:
		return ui.Chip{Kind: ui.Info, Word: "Being paid"}
	case checkout.RefundCompleted:
		return ui.Chip{Kind: ui.Good, Word: "Paid"}
	case checkout.RefundCancelled:
		return ui.Chip{Kind: ui.Quiet, Word: "Taken back"}
	case checkout.RefundExpired:
		return ui.Chip{Kind: ui.Quiet, Word: "Not claimed"}
	}
	return ui.Chip{}
}

// refundKindText says how much a refund was meant to be.
func refundKindText(kind checkout.RefundKind) string {
	switch kind {
	case checkout.FullRefund:
		return "all that was credited in this coin"
	case checkout.OverpaidRefund:
		return "what was paid above the amount due"
	}
	return "an amount"
}

// refundCauseText says why the service made a refund by itself.
func refundCauseText(cause outcome.Exception) string {
	switch cause {
	case outcome.Overpaid:
		return "The terms of the checkout give a surplus back."
	case outcome.Underpaid:
		return "The terms of the checkout give a part back when the time is over."
	case outcome.PaidLate:
		return "The terms of the checkout give late payments back."
	}
	return ""
}

// describeRefund says where the money of a refund is, and what happens next. It can be claimed until end. Rule PAGE-91.
func describeRefund(refund checkout.Refund, end string) swapNow {
	const isBack = "Its amount is in the balance of your checkout again."
	switch refund.Status {
	case checkout.RefundAwaitingAddress:
		owed := "Its amount left the balance of your checkout and is owed to the payer. Nothing is paid yet."
		if refund.Problem != "" {
			owed = "The last address was not paid, so its amount is owed to the payer as before."
		}
		outlook := "The payer says with the link of the refund where it goes."
		if !refund.IsClaimable {
			outlook = "No link was issued yet: the payer claims it on the page of the checkout, or you issue a link."
		}
		return swapNow{
			ui.Wait, owed, outlook + " If no one claims it until " + end + ", its amount returns to your balance.",
		}
	case checkout.RefundRequested:
		return swapNow{
			ui.Info, "It has an address. Its amount is owed to the payer, and nothing is paid yet.",
			"The payment is requested with every check of a withdrawal. While a check delays it, it is tried again.",
		}
	case checkout.RefundSent:
		return swapNow{
			ui.Info, "A withdrawal pays it. Its amount is held for this payment.",
			"It may wait for approval. If it ends without paying, its amount is owed again, and another address is " +
				"needed.",
		}
	case checkout.RefundCompleted:
		return swapNow{ui.Good, "The payer has it: the payment is final.", "Nothing undoes it."}
	case checkout.RefundCancelled:
		return swapNow{ui.Quiet, "It was taken back before a payment. " + isBack, "Its link opens nothing to claim."}
	}
	return swapNow{ui.Quiet, "No one claimed it in time. " + isBack, "Make another refund if the payer asks for it."}
}

// refundRow is a refund in a list.
type refundRow struct {
	Path, CheckoutPath      string
	Figure, Symbol, Network string
	Chip                    ui.Chip
	Problem                 string // "" for none
	Author                  string
	Made, Expiry            ui.Moment
	IsOpen                  bool // it can still expire
}

func newRefundRow(r *pages.Request, refund checkout.Refund, names people) refundRow {
	return refundRow{
		Path: refundPath(r, refund.ID), CheckoutPath: checkoutPath(r, refund.CheckoutID),
		Figure: refund.Amount.Decimal(refund.Mint.Decimals), Symbol: refund.Mint.Symbol,
		Network: networkName(refund.Mint.Chain), Chip: refundChip(refund.Status), Problem: refund.Problem,
		Author: names.nameOf(refund.Requester, r.Session), Made: r.Moment(refund.CreatedAt),
		Expiry: r.Moment(refund.ExpiresAt), IsOpen: refund.Status == checkout.RefundAwaitingAddress,
	}
}

// refundsView is what the list of refunds shows.
type refundsView struct {
	ListPath, CSVPath   string
	Tabs                []ui.Tab
	Statuses            []choice
	FromDay, ToDay      string
	IsFiltered          bool
	Rows                []refundRow
	FirstPath, NextPath string
	Calls               []string
}

func readRefundFilter(r *pages.Request) (f checkout.RefundFilter, err error) {
	f.Status = r.Query[refundStatusParameter.Name]
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

func (d *dashboard) loadRefunds(r *pages.Request) (templ.Component, error) {
	f, err := readRefundFilter(r)
	if err != nil {
		return nil, err
	}
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := d.conf.Checkouts.ListRefunds(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	view := refundsView{
		ListPath: r.PagePath(), CSVPath: r.CSVPath(), IsFiltered: f != (checkout.RefundFilter{}),
		FromDay: r.Query[fromDayParameter.Name], ToDay: r.Query[toDayParameter.Name],
		Calls: []string{
			d.callText("POST", "/checkouts/co_…/refunds", `{"amount":"OVERPAID","idempotencyKey":"refund-77"}`),
			d.callText("GET", "/refunds", ""),
		},
	}
	if view.Tabs, err = d.checkoutTabs(r, refundsTab); err != nil {
		return nil, err
	}
	for _, status := range checkout.RefundStatuses {
		view.Statuses = append(view.Statuses, choice{
			Value: string(status), Text: refundChip(status).Word, IsChosen: f.Status == string(status),
		})
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, refund := range found.Items {
		view.Rows = append(view.Rows, newRefundRow(r, refund, names))
	}
	return refundList(view), nil
}

func (d *dashboard) writeRefunds(r *pages.Request, w *kernel.StreamWriter) error {
	f, err := readRefundFilter(r)
	if err != nil {
		return err
	}
	return kernel.WriteTable(r.Context(), w, true, resource.RefundColumns,
		func(ctx context.Context, desc bool, row func(webhook.Refund) error) error {
			return d.conf.Checkouts.ForEachRefund(ctx, r.Session.OrgID, f, desc,
				func(found checkout.Refund) error { return row(wire.Refund(found)) })
		})
}

// refundPartRow is what a refund takes of a payment.
type refundPartRow struct{ Path, Figure, Symbol string }

// refundView is what the page of a refund shows.
type refundView struct {
	timelineView
	Path           string
	Network        string
	Now            swapNow
	Problem        string
	Parts          []refundPartRow
	WithdrawalPath string // "" before a withdrawal pays it
	CheckoutPath   string
	Form           ui.Form
	CanCancel      bool
	CanGive        bool // an address
	CanIssue       bool // a link
	HasLink        bool
	IsForOthers    bool // something could be done, and not by this person
	CancelText     string
}

func (d *dashboard) loadRefund(r *pages.Request) (templ.Component, error) {
	refund, err := d.refundOf(r)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	var log []audit.Row
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		logged, err := audit.List(ctx, tx, audit.Filter{OrgID: r.Session.OrgID, ResourceID: refund.ID},
			pagination.Page{Limit: refundStepsMax})
		log = logged.Items
		return err
	})
	if err != nil {
		return nil, err
	}
	view := refundView{
		timelineView: timelineView{
			ListPath: r.Path("refunds"), Kind: "Refund", ID: refund.ID,
			Figure: refund.Amount.Decimal(refund.Mint.Decimals), Symbol: refund.Mint.Symbol, HasNoValue: true,
			Chip: refundChip(refund.Status), Facts: checkoutRefundFacts(r, refund, names),
			Calls: []string{
				d.callText("GET", "/refunds/"+refund.ID, ""),
				d.callText("POST", "/refunds/"+refund.ID+"/claim-key", ""),
				d.callText("POST", "/refunds/"+refund.ID+"/cancel", ""),
			},
		},
		Path: refundPath(r, refund.ID), Network: networkName(refund.Mint.Chain),
		Now: describeRefund(refund, ui.FormatMoment(r.Moment(refund.ExpiresAt))),

		Problem: refund.Problem, CheckoutPath: checkoutPath(r, refund.CheckoutID), Form: r.Form,
		HasLink: refund.IsClaimable,
	}
	if refund.WithdrawalID != "" {
		view.WithdrawalPath = transactionPath(r, withdrawalKind, refund.WithdrawalID)
	}
	for _, part := range refund.Parts {
		view.Parts = append(view.Parts, refundPartRow{
			Path: transactionPath(r, depositKind, part.DepositID), Figure: part.Amount.Decimal(refund.Mint.Decimals),
			Symbol: refund.Mint.Symbol,
		})
	}
	for _, item := range log {
		view.addRefundStep(d, r, refund, item, names)
	}
	view.explainActs(r, d.conf.Checkouts.ClaimURL != nil, refund)
	view.finish(r, transactionRecords{})
	return refundOverview(view), nil
}

// explainActs says what the person can do about a refund. Rule PAGE-92.
func (v *refundView) explainActs(r *pages.Request, hasPages bool, refund checkout.Refund) {
	isWaiting := refund.Status == checkout.RefundAwaitingAddress && r.Now.Before(refund.ExpiresAt)
	isCancellable := refund.Status == checkout.RefundAwaitingAddress || refund.Status == checkout.RefundRequested
	v.CanCancel = isCancellable && r.IsAllowed(identity.CancelRefund)
	v.CanGive = isWaiting && r.IsAllowed(identity.RefundCheckout)
	v.CanIssue = v.CanGive && hasPages
	v.IsForOthers = isCancellable && !v.CanCancel
	v.CancelText = "Nothing was paid. Its amount returns to the balance of your checkout, and its link opens nothing " +
		"any more. A payer who waits for it has to ask you."
}

// checkoutRefundFacts are the terms, the times and the author of a refund.
func checkoutRefundFacts(r *pages.Request, refund checkout.Refund, names people) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Refund", Value: copiedText(refund.ID)},
		{Name: "Of", Value: pathLink(checkoutPath(r, refund.CheckoutID), "The checkout")},
		{Name: "Network", Value: ui.Text(networkName(refund.Mint.Chain))},
		{Name: "Meant to be", Value: ui.Text(refundKindText(refund.Kind))},
	}
	if refund.ToAddress != "" {
		source := "given by your organization, or typed by the payer"
		if refund.IsAddressProven {
			source = "proven by the payer with a signature"
		}
		facts = append(facts,
			ui.Fact{Name: "Goes to", Value: ui.Address(string(refund.ToAddress))},
			ui.Fact{Name: "The address was", Value: ui.Text(source)},
		)
	}
	fee := "your organization, so the payer receives the amount to the last unit"
	if refund.FeeMode == checkout.FeeDeducted {
		fee = "the payer, who receives the amount less the fee"
	}
	facts = append(facts,
		ui.Fact{Name: "The network is paid by", Value: ui.Text(fee)},
		ui.Fact{Name: "Addresses tried", Value: ui.Text(strconv.Itoa(refund.Attempt))},
		ui.Fact{Name: "Made by", Value: ui.Text(names.nameOf(refund.Requester, r.Session))},
		ui.Fact{Name: "Made", Value: ui.When(r.Moment(refund.CreatedAt))},
		ui.Fact{Name: "Changed", Value: ui.When(r.Moment(refund.UpdatedAt))},
		ui.Fact{Name: "Can be claimed until", Value: ui.When(r.Moment(refund.ExpiresAt))},
	)
	if text := refundCauseText(refund.Cause); text != "" {
		facts = append(facts, ui.Fact{Name: "Why", Value: ui.Text(text)})
	}
	if refund.CompletedAt != nil {
		facts = append(facts, ui.Fact{Name: "Paid", Value: ui.When(r.Moment(*refund.CompletedAt))})
	}
	if refund.Reason != nil {
		facts = append(facts, ui.Fact{Name: "Reason, in your words", Value: ui.Foreign(*refund.Reason)})
	}
	return append(facts, requestFacts(resource.OptionalText(refund.IdempotencyKey), nil, nil)...)
}

// addRefundStep adds what an entry of the log says about a refund.
func (v *refundView) addRefundStep(
	d *dashboard, r *pages.Request, refund checkout.Refund, item audit.Row, names people,
) {
	var detail struct {
		ToAddress  string `json:"toAddress"`
		Withdrawal string `json:"withdrawal"`
		Problem    string `json:"why"`
		IsProven   bool   `json:"proven"`
	}
	_ = json.Unmarshal(item.Detail, &detail) // What is missing is not shown.
	step := timelineStep{Text: "By " + names.nameOf(item.Actor, r.Session)}
	if item.Actor == audit.System("payer") {
		step.Text = "By the payer, on a page"
	}
	switch item.Action {
	case "refund.requested":
		step.Title = "Made: the amount left the balance of your checkout"
	case "refund.addressed":
		step.Title = "It got an address"
		if detail.IsProven {
			step.Text += ", proven with a signature"
		}
	case "refund.sent":
		step.Title = "A withdrawal pays it"
	case "refund.returned":
		step.Title, step.Note = "The address was not paid: the amount is owed again", detail.Problem
	case "refund.key_replaced":
		step.Title = "It got a new link, and the one before became worthless"
	case "refund.completed":
		step.Title, step.Hash = "Paid: the payment is final", string(refund.Tx)
		step.ExplorerURL = d.explorerURL(refund.Mint.Chain, refund.Tx)
	case "refund.cancelled":
		step.Title = "Taken back: the amount is in the balance of your checkout"
	case "refund.expired":
		step.Title = "Not claimed in time: the amount is in the balance of your checkout"
	default:
		return
	}
	if detail.ToAddress != "" {
		step.Facts = append(step.Facts, ui.Fact{Name: "Address", Value: ui.Address(detail.ToAddress)})
	}
	if detail.Withdrawal != "" {
		step.Facts = append(step.Facts, ui.Fact{
			Name: "Withdrawal", Value: pathLink(transactionPath(r, withdrawalKind, detail.Withdrawal), "Show it"),
		})
	}
	v.addStep(r, &item.RecordedAt, step)
}

// refundForm is the form of a refund on the page of a checkout.
type refundForm struct {
	Act, Path, Key string
	Form           ui.Form
	Mints          optionInput
	Extent         optionInput
	Fee            optionInput
	HasPages       bool
}

// newRefundForm makes the form of a refund; ok is false if nothing can be refunded.
func (d *dashboard) newRefundForm(r *pages.Request, c checkout.Checkout) (form refundForm, ok bool) {
	form = refundForm{
		Act: refundAct, Path: checkoutPath(r, c.ID), Key: r.FormKey(refundAct), Form: r.Form,
		HasPages: d.conf.Checkouts.ClaimURL != nil,
		Mints:    optionInput{Act: refundAct, Name: "mintId", Label: "Coin"},
		Extent: optionInput{Act: refundAct, Name: wholeName, Label: "How much", Options: []option{
			{string(checkout.FullRefund), "all that is left in this coin"},
		}},
		Fee: optionInput{
			Act: refundAct, Name: "feeMode", Label: "Who pays the network",
			Hint: "Only of the native coin of a network can the fee be deducted.",
			Options: []option{
				{checkout.FeeOrganization, "you: the payer receives the amount to the last unit"},
				{checkout.FeeDeducted, "the payer: the fee is deducted from the amount"},
			},
		},
	}
	if !c.Surplus().IsZero() {
		form.Extent.Options = append(form.Extent.Options,
			option{string(checkout.OverpaidRefund), "what was paid above the amount due"})
	}
	form.Extent.Options = append(form.Extent.Options, option{string(checkout.AmountRefund), "the amount below"})
	for _, left := range c.Refundable() {
		figure := left.Amount.Decimal(left.Mint.Decimals)
		form.Mints.Options = append(form.Mints.Options, option{
			strconv.Itoa(left.Mint.ID),
			figure + " " + ui.EscapeForeign(left.Mint.Symbol) + " on " + networkName(left.Mint.Chain),
		})
	}
	return form, len(form.Mints.Options) > 0
}

// loadRefundsOf returns the newest refunds of a checkout.
func (d *dashboard) loadRefundsOf(
	r *pages.Request, c checkout.Checkout, names people,
) (rows []refundRow, hasMore bool, err error) {
	found, err := d.conf.Checkouts.ListRefunds(r.Context(), r.Session.OrgID,
		checkout.RefundFilter{CheckoutID: c.ID}, pagination.Page{Limit: shownRefundsMax, Desc: true})
	if err != nil {
		return nil, false, err
	}
	for _, refund := range found.Items {
		rows = append(rows, newRefundRow(r, refund, names))
	}
	return rows, found.NextCursor != nil, nil
}

// refundAddressHint says what becomes of a refund without an address.
func refundAddressHint(hasPages bool) string {
	if !hasPages {
		return "Ask the payer for it. This installation has no pages on which payers say it."
	}
	return "Empty: you get a link, with which the payer says where it goes. Otherwise ask the payer for the address."
}
