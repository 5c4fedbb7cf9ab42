package dashboard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// The names of the acts of the page of a swap of the organization's own money, besides approveAct.
const (
	rejectSwapAct = "reject"
	cancelSwapAct = "cancel"
)

// noteMax is how many characters the feature takes of a note about a swap.
const noteMax = 1000

var ownSwapStatusParameter = kernel.Parameter{
	Name: "status", Kind: kernel.WordParameter, Enum: resource.OrganizationSwapStatuses,
}

// swapsToApprove selects the swaps of the organization's own money that wait for a person.
var swapsToApprove = swap.OrganizationFilter{AwaitingApproval: true}

// ownSwapsPage lists the swaps of the organization's own money.
func (d *dashboard) ownSwapsPage() pages.Page {
	return pages.Page{
		Path: "/organization-swaps", Title: "Swaps of your own money", Action: identity.ReadOrganization,
		MenuPath: "/swaps", Live: []string{"SWAP"},
		Query: []kernel.Parameter{
			pages.CursorParameter, ownSwapStatusParameter, productParameter, swapKeyParameter,
		},
		Load: d.loadOwnSwaps, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			return d.writeOwnSwaps(r, w, readOwnSwapFilter(r))
		},
	}
}

// ownSwapsToApprovePage lists the swaps of the organization's own money that wait for a person.
func (d *dashboard) ownSwapsToApprovePage() pages.Page {
	return pages.Page{
		Path: "/approvals/organization-swaps", Title: "Own swaps", Action: identity.ReadOrganization,
		Live:  []string{"SWAP"},
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadOwnSwapsToApprove, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			return d.writeOwnSwaps(r, w, swapsToApprove)
		},
	}
}

// ownSwapPage shows one swap of the organization's own money with everything that happened to it, and takes
// the decision about it. Rules PAGE-78 and PAGE-79.
func (d *dashboard) ownSwapPage() pages.Page {
	return pages.Page{
		Path: "/organization-swaps/{swapId}", Title: "Swap of your own money", Action: identity.ReadOrganization,
		MenuPath: "/swaps", Live: []string{"SWAP", "WITHDRAWAL"}, LiveOfAll: true, Load: d.loadOwnSwap,
		Acts: []pages.Act{
			{
				Name: approveAct, Action: identity.DecideWithdrawal, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{{Name: "digest", BytesMax: digestBytes, Missing: "Open the page again."}},
				FindDone: d.findSwapDecision, Run: d.approveOwnSwap,
			},
			{
				Name: signAct, Action: identity.DecideWithdrawal,
				Fields: approverpages.SignatureFields(
					pages.Field{Name: "digest", BytesMax: digestBytes, Missing: "Open the page again."},
				),
				FindDone: d.findSwapDecision, Run: d.signOwnSwap,
			},
			{
				Name: rejectSwapAct, Action: identity.DecideWithdrawal, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{{Name: "reason", BytesMax: noteBytesMax, Missing: "Enter why."}},
				FindDone: d.findSwapEnd, Run: d.rejectOwnSwap,
			},
			{
				Name: cancelSwapAct, Action: identity.WithdrawOwnMoney, StepUp: pages.ActStepUp,
				FindDone: d.findSwapEnd, Run: d.cancelOwnSwap,
			},
		},
	}
}

func ownSwapPath(r *pages.Request, swapID string) string { return r.Path("organization-swaps", swapID) }

func readOwnSwapFilter(r *pages.Request) swap.OrganizationFilter {
	return swap.OrganizationFilter{
		Status: r.Query[ownSwapStatusParameter.Name], Product: r.Query[productParameter.Name],
		IdempotencyKey: r.Query[swapKeyParameter.Name],
	}
}

// ownSwapRow is a swap of the organization's own money in a list.
type ownSwapRow struct {
	swapRow
	Product, Address              string
	ApprovalsGiven, ApprovalsNeed string
}

// ownSwapsView is what both lists show.
type ownSwapsView struct {
	ListPath, CSVPath   string
	FormPath            string // of the form that requests a swap; "" where the person or a setting rules it out
	IsOff               bool   // swaps of the organization's own money are switched off
	Tabs                []ui.Tab
	Statuses, Products  []choice
	Key                 string
	IsFiltered          bool
	Rows                []ownSwapRow
	FirstPath, NextPath string
}

// readSettings returns the settings of the organization of a request.
func (d *dashboard) readSettings(r *pages.Request) (settings org.Settings, err error) {
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		settings, err = org.SettingsOf(ctx, tx, r.Session.OrgID)
		return err
	})
	return settings, err
}

func (d *dashboard) loadOwnSwaps(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	settings, err := d.readSettings(r)
	if err != nil {
		return nil, err
	}
	f := readOwnSwapFilter(r)
	found, err := d.conf.Swaps.ListOrganization(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return nil, err
	}
	view := ownSwapsView{
		ListPath: r.Path("organization-swaps"), CSVPath: r.CSVPath(), IsOff: !settings.OrganizationSwapsEnabled,
		Tabs: swapTabs(r, "Your own money"), Key: f.IdempotencyKey, IsFiltered: f != (swap.OrganizationFilter{}),
	}
	if !view.IsOff && r.IsAllowed(identity.WithdrawOwnMoney) {
		view.FormPath = r.Path("organization-swaps", "new")
	}
	for _, status := range resource.OrganizationSwapStatuses {
		view.Statuses = append(view.Statuses, choice{
			Value: status, Text: swapChip(swap.Status(status)).Word, IsChosen: f.Status == status,
		})
	}
	for _, product := range productParameter.Enum {
		view.Products = append(view.Products, choice{
			Value: product, Text: productName(product), IsChosen: f.Product == product,
		})
	}
	for _, w := range found.Items {
		view.Rows = append(view.Rows, newOwnSwapRow(r, w))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return ownSwapsList(view), nil
}

func (d *dashboard) loadOwnSwapsToApprove(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	p.Desc = false // What waits longest comes first.
	found, err := d.conf.Swaps.ListOrganization(r.Context(), r.Session.OrgID, swapsToApprove, p)
	if err != nil {
		return nil, err
	}
	view := ownSwapsView{CSVPath: r.CSVPath()}
	for _, w := range found.Items {
		view.Rows = append(view.Rows, newOwnSwapRow(r, w))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	view.Tabs = approvalTabs(r, r.Title(), countText(len(view.Rows), found.NextCursor != nil))
	return ownSwapsToApproveList(view), nil
}

func newOwnSwapRow(r *pages.Request, w swap.Swap) ownSwapRow {
	row := ownSwapRow{
		swapRow: newSwapRow(r, w), Product: productName(w.Product), Address: string(w.PayoutAddress),
		ApprovalsGiven: strconv.Itoa(w.ApprovalCount), ApprovalsNeed: strconv.Itoa(w.ApprovalsRequired),
	}
	row.Path, row.RefundText = ownSwapPath(r, w.ID), ""
	switch {
	case w.Status == swap.Processing && w.DeliveredAt != nil:
		row.Chip = ui.Chip{Kind: ui.Info, Word: "Being paid out"}
	case w.Status == swap.FailedStatus && w.AmountOut == nil:
		row.RefundText = refundText(w.RefundStatus())
	}
	return row
}

func (d *dashboard) writeOwnSwaps(r *pages.Request, w *kernel.StreamWriter, f swap.OrganizationFilter) error {
	return kernel.WriteTable(r.Context(), w, true, resource.OrganizationSwapColumns,
		func(ctx context.Context, desc bool, row func(webhook.OrganizationSwap) error) error {
			return d.conf.Swaps.ForEachOrganization(ctx, r.Session.OrgID, f, desc,
				func(w swap.Swap) error { return row(wire.OrganizationSwap(w)) })
		})
}

func (d *dashboard) loadOwnSwapOf(r *pages.Request) (swap.Swap, error) {
	return d.conf.Swaps.OrganizationByID(r.Context(), r.Session.OrgID, r.PathParam("swapId"))
}

// findSwapEnd returns the page of a swap that waits for no person any more.
func (d *dashboard) findSwapEnd(r *pages.Request) (string, error) {
	w, err := d.loadOwnSwapOf(r)
	if err != nil || w.Status == swap.AwaitingApproval {
		return "", err
	}
	return ownSwapPath(r, w.ID), nil
}

// findSwapDecision returns the page of a swap that does not wait for this person any more.
func (d *dashboard) findSwapDecision(r *pages.Request) (string, error) {
	w, err := d.loadOwnSwapOf(r)
	if err != nil || w.Status == swap.AwaitingApproval && !slices.Contains(w.Approvers, actor(r)) {
		return "", err
	}
	return ownSwapPath(r, w.ID), nil
}

// resultOfSwap returns the page of a swap that an act changed.
func resultOfSwap(r *pages.Request, w swap.Swap, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return ownSwapPath(r, w.ID), nil
}

func (d *dashboard) approveOwnSwap(r *pages.Request) (string, error) {
	w, err := d.conf.Swaps.ApproveOrganization(
		r.Context(), r.Session.OrgID, r.PathParam("swapId"), r.Values["digest"], r.Session.Member,
	)
	if err == nil {
		trace.LinkTo(r.Context(), w.ID) // Rule PAGE-65.
	}
	return resultOfSwap(r, w, err)
}

// signOwnSwap approves with the signature of the person's passkey over the words on the page. Rule PAGE-113.
func (d *dashboard) signOwnSwap(r *pages.Request) (string, error) {
	signature, err := approverpages.ReadSignature(r)
	if err != nil {
		return "", err
	}
	w, err := d.conf.Swaps.ApproveSigned(
		r.Context(), r.Session.OrgID, r.PathParam("swapId"), r.Values["digest"], r.Session.Member, &signature,
	)
	if err == nil {
		trace.LinkTo(r.Context(), w.ID) // Rule PAGE-65.
	}
	return resultOfSwap(r, w, err)
}

// addSwapSigner adds the words that the person signs, where the organization's rule asks for people.
func (d *dashboard) addSwapSigner(r *pages.Request, w swap.Swap, view *ownSwapView) error {
	if d.conf.Approvers == nil || !view.CanApprove {
		return nil
	}
	people, err := d.conf.Swaps.PeopleToSign(r.Context(), r.Session.OrgID, w.ID)
	if err != nil || people == 0 {
		return err
	}
	words := w.Statement(d.conf.Approvers.Context(
		approver.PersonName(actor(r)), approverpages.NewNotAfter(r, swapSignatureLasts)))
	view.Sign, err = d.approvers().NewSignerView(r, people, ui.SignView{
		Form: r.Form, Act: signAct, Path: view.Path + "/" + signAct, Words: approverpages.StatementWords(words),
		Hidden: []ui.Hidden{{Name: "digest", Value: view.Digest}},
		Button: "Sign and approve the swap of " + ui.GroupDigits(view.Figure) + " " + ui.EscapeForeign(view.Symbol),
	})
	return err
}

func (d *dashboard) rejectOwnSwap(r *pages.Request) (string, error) {
	w, err := d.conf.Swaps.RejectOrganization(
		r.Context(), r.Session.OrgID, r.PathParam("swapId"), r.Values["reason"], r.Session.Member,
	)
	return resultOfSwap(r, w, err)
}

func (d *dashboard) cancelOwnSwap(r *pages.Request) (string, error) {
	w, err := d.conf.Swaps.CancelOrganization(
		r.Context(), r.Session.OrgID, r.PathParam("swapId"), r.Session.Member,
	)
	return resultOfSwap(r, w, err)
}

// ownSwapView is what the page of a swap of the organization's own money shows.
type ownSwapView struct {
	timelineView
	Path                          string
	OutFigure, OutSymbol, OutWord string
	Now                           swapNow
	Words                         []ui.Fact // what people approve
	Digest, Fingerprint           string    // of the words; "" while no person has to approve them
	IsAwaiting                    bool
	ApprovalsText                 string
	CanApprove, CanReject         bool
	CanCancel                     bool
	WhyNot                        string                    // why this person cannot approve, or has to sign again
	Sign                          *approverpages.SignerView // in place of the second factor; nil: none is needed
	PayoutPath, PayoutFigure      string                    // of the withdrawal that pays the output; or ""
	PayoutChip                    ui.Chip
	Form                          ui.Form
}

func (d *dashboard) loadOwnSwap(r *pages.Request) (templ.Component, error) {
	w, err := d.loadOwnSwapOf(r)
	if err != nil {
		return nil, err
	}
	records, err := d.loadSwapRecords(r, w)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	entry, err := d.findEntry(r, w.WhitelistedID)
	if err != nil {
		return nil, err
	}
	row := newOwnSwapRow(r, w)
	view := ownSwapView{
		timelineView: timelineView{
			ListPath: r.Path("organization-swaps"), Kind: "Swap", ID: w.ID, Figure: row.Figure, Symbol: row.Symbol,
			Dollars: row.Dollars, Chip: row.Chip, Facts: d.ownSwapFacts(r, w, names),
			Calls: []string{d.callText("GET", "/organization-swap/"+w.ID, "")},
		},
		Path: row.Path, OutFigure: row.OutFigure, OutSymbol: row.OutSymbol, OutWord: "about",
		Words: payoutWords(r, w, entry), IsAwaiting: w.Status == swap.AwaitingApproval,
		ApprovalsText: row.ApprovalsGiven + " of " + row.ApprovalsNeed, Form: r.Form,
	}
	if row.HasArrived {
		view.OutWord = "received"
	}
	if view.IsAwaiting {
		if view.Digest, err = d.conf.Swaps.PayoutDigest(r.Context(), r.Session.OrgID, w.ID); err != nil {
			return nil, err
		}
		view.Fingerprint = view.Digest[:min(fingerprintDigits, len(view.Digest))]
		view.explainDecision(r, w)
		view.CanCancel = view.CanCancel && !d.isForApprovals()
		if err := d.addSwapSigner(r, w, &view); err != nil {
			return nil, err
		}
	}
	var payout *withdrawal.Withdrawal
	if w.PayoutID != nil {
		paid, err := d.conf.Withdrawals.ByID(r.Context(), r.Session.OrgID, *w.PayoutID)
		if err != nil {
			return nil, err
		}
		payout = &paid
		view.PayoutPath = transactionPath(r, withdrawalKind, paid.ID)
		view.PayoutFigure, view.PayoutChip = paid.Amount.Decimal(paid.Mint.Decimals), withdrawalChip(paid.Status)
	}
	view.Now = describeOwnSwap(r, w, payout)
	for _, item := range records.log {
		d.addOwnSwapStep(&view.timelineView, r, w, item, names)
	}
	for _, attempt := range records.attempts {
		view.addStep(r, attempt.SignedAt, timelineStep{
			Title: signedText(attempt), Text: replacementText(attempt.Reason), Hash: string(attempt.Hash),
			ExplorerURL: d.explorerURL(w.From.Chain, attempt.Hash),
		})
	}
	view.finish(r, records.transactionRecords)
	return ownSwapOverview(view), nil
}

// findEntry returns an entry of the organization's whitelist, and none where there is no such entry any more.
func (d *dashboard) findEntry(r *pages.Request, entryID string) (entry whitelist.Entry, err error) {
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		entry, err = d.conf.Whitelist.ByID(ctx, tx, r.Session.OrgID, entryID)
		return err
	})
	if fault.HasCode(err, fault.CodeNotFound) {
		return whitelist.Entry{}, nil
	}
	return entry, err
}

// explainDecision says what the person can do about a swap that waits.
func (v *ownSwapView) explainDecision(r *pages.Request, w swap.Swap) {
	end := w.ApprovableUntil()
	isRequester := w.Requester == actor(r)
	v.CanReject = r.IsAllowed(identity.DecideWithdrawal)
	v.CanApprove = v.CanReject
	v.CanCancel = r.IsAllowed(identity.WithdrawOwnMoney)
	switch {
	case end != nil && !r.Now.Before(*end):
		v.CanApprove, v.WhyNot = false, "The time for its approval is over. Cancel it, and make a new swap."
	case isRequester:
		v.CanApprove, v.WhyNot = false, "You requested this swap, so another person has to approve it."
	case !v.CanReject:
		v.WhyNot = "Your roles show this swap and do not decide about it."
	case slices.Contains(w.Approvers, actor(r)):
		v.CanApprove, v.WhyNot = false, "You approved it. Another person has to approve it, too."
	case slices.Contains(w.ToSignAgain, actor(r)):
		v.WhyNot = signAgainText
	}
}

// payoutWords are the words of a swap of the organization's own money and of the payment of what it brings:
// what an approver approves, whole and in a fixed order. They are the terms over which the service makes the
// approval's MAC. Rule PAGE-79.
func payoutWords(r *pages.Request, w swap.Swap, entry whitelist.Entry) []ui.Fact {
	facts := []ui.Fact{
		{
			Name: "Amount in", Word: "amountIn",
			Value: amountWord(w.AmountIn.Decimal(w.From.Decimals), w.From.Symbol, w.AmountIn.String()),
		},
		{Name: "From product", Word: "product", Value: ui.Text(productName(w.Product))},
		{
			Name: "Token given", Word: "fromMint",
			Value: mintWord(w.From.Symbol, networkName(w.From.Chain), w.From.ID, w.From.Decimals),
		},
		{
			Name: "Token received", Word: "toMint",
			Value: mintWord(w.To.Symbol, networkName(w.To.Chain), w.To.ID, w.To.Decimals),
		},
		{
			Name: "Least amount out", Word: "minOut",
			Value: amountWord(w.MinOut.Decimal(w.To.Decimals), w.To.Symbol, w.MinOut.String()),
		},
	}
	if entry.ID != "" {
		facts = append(facts, ui.Fact{Name: "Label of the address", Word: "label", Value: ui.Foreign(entry.Label)})
	}
	facts = append(facts, ui.Fact{Name: "Paid to", Word: "to", Value: ui.Address(string(w.PayoutAddress))})
	if w.PayoutMax != nil {
		facts = append(facts, ui.Fact{
			Name: "Paid out at most", Word: "maxOut",
			Value: amountWord(w.PayoutMax.Decimal(w.To.Decimals), w.To.Symbol, w.PayoutMax.String()),
		})
	}
	if w.PayoutUntil != nil {
		facts = append(facts, ui.Fact{Name: "Valid until", Word: "notAfter", Value: ui.When(r.Moment(*w.PayoutUntil))})
	}
	return append(facts,
		ui.Fact{Name: "Whitelist entry", Word: "whitelistEntry", Value: ui.Code(w.WhitelistedID)},
		ui.Fact{Name: "Act", Word: "act", Value: ui.Text("Approve a swap and the payment of what it brings")},
		ui.Fact{Name: "Organization", Word: "organization", Value: ui.Code(r.Session.OrgID)},
		ui.Fact{Name: "Swap", Word: "swap", Value: ui.Code(w.ID)},
	)
}

// ownSwapFacts are the facts that are not words of what people approve.
func (d *dashboard) ownSwapFacts(r *pages.Request, w swap.Swap, names people) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Swap", Value: copiedText(w.ID)},
		{Name: "Requested by", Value: ui.Text(names.nameOf(w.Requester, r.Session))},
		{Name: "Offer", Value: networkAmount(
			w.EstimatedOut.Decimal(w.To.Decimals), w.To.Symbol, networkName(w.To.Chain),
		)},
	}
	for _, approver := range w.Approvers {
		facts = append(facts, ui.Fact{Name: "Approved by", Value: ui.Text(names.nameOf(approver, r.Session))})
	}
	if w.RejectedNote != nil {
		facts = append(facts, ui.Fact{Name: "Why it was rejected", Value: ui.Foreign(*w.RejectedNote)})
	}
	if w.AmountOut != nil {
		facts = append(facts, ui.Fact{Name: "Received", Value: amountOf(&w.To, *w.AmountOut)})
	}
	if w.Provider != "" {
		facts = append(facts, ui.Fact{Name: "Provider", Value: ui.Code(w.Provider)})
	}
	for _, tx := range []struct {
		name    string
		hash    *chain.TxHash
		network chain.Name
	}{
		{"Payment to the provider", w.OriginTxHash, w.From.Chain},
		{"Delivery", w.DestinationTxHash, w.To.Chain},
		{"Refund", w.RefundTxHash, w.From.Chain},
	} {
		if tx.hash != nil {
			facts = append(facts, ui.Fact{
				Name: tx.name, Value: chainTransaction(string(*tx.hash), d.explorerURL(tx.network, *tx.hash)),
			})
		}
	}
	if w.Status == swap.FailedStatus {
		facts = append(facts, refundFacts(w)...)
	}
	return append(facts, requestFacts(resource.OptionalText(w.IdempotencyKey), nil, nil)...)
}

// ownSwapDetail is what the log has of a step of an organization's swap, besides what it has of a customer's.
type ownSwapDetail struct {
	AmountOut         *money.Amount `json:"amountOut"`
	DestinationTxHash chain.TxHash  `json:"destinationTxHash"`
	Provider          string        `json:"provider"`
	Note              string        `json:"note"`
}

// addOwnSwapStep adds what an entry of the log says about a swap of the organization's own money.
func (d *dashboard) addOwnSwapStep(
	view *timelineView, r *pages.Request, w swap.Swap, item audit.Row, names people,
) {
	var detail ownSwapDetail
	_ = json.Unmarshal(item.Detail, &detail) // What is missing is not shown.
	byActor := "By " + names.nameOf(item.Actor, r.Session)
	step := timelineStep{}
	switch item.Action {
	case "swap.approval_added":
		step.Title, step.Text = "Approved, and another approval is needed", byActor
	case "swap.approved":
		step.Title, step.Text = "Approved and let go", byActor
	case "swap.rejected":
		step.Title, step.Text, step.Note = "Rejected, and the amount is available again", byActor, detail.Note
	case "swap.cancelled":
		step.Title, step.Text = "Cancelled, and the amount is available again", byActor
	case "swap.offered":
		step.Title = "A provider made a firm offer"
		step.Facts = []ui.Fact{{Name: "Provider", Value: ui.Foreign(detail.Provider)}}
	case "swap.delivered":
		step.Title = "Delivered, and credited to your product"
		step.Hash = string(detail.DestinationTxHash)
		step.ExplorerURL = d.explorerURL(w.To.Chain, detail.DestinationTxHash)
		if detail.AmountOut != nil {
			step.Facts = []ui.Fact{{Name: "Received", Value: amountOf(&w.To, *detail.AmountOut)}}
		}
	case "swap.payout_requested":
		step.Title, step.Text = "Its payment to the address was requested", "As a withdrawal of your product"
	case "swap.completed":
		step.Title, step.Text = "Completed", "The payment to the address is final"
	case "swap.restored":
		step.Title = "Put back into your product"
	default:
		d.addSwapStep(view, r, w, item, names)
		return
	}
	view.addStep(r, &item.RecordedAt, step)
}

// describeOwnSwap says where the money of a swap of the organization's own is, and what happens next.
// Rule PAGE-78.
func describeOwnSwap(r *pages.Request, w swap.Swap, payout *withdrawal.Withdrawal) swapNow {
	product := productName(w.Product)
	heldAmount := ui.GroupDigits(w.AmountIn.Decimal(w.From.Decimals)) + " " + ui.EscapeForeign(w.From.Symbol)
	switch w.Status {
	case swap.AwaitingApproval:
		step := "Another person of your organization approves or rejects it."
		if end := w.ApprovableUntil(); end != nil {
			step = "Another person of your organization approves it by " + ui.FormatMoment(r.Moment(*end)) +
				", or rejects it. Afterwards it can only be cancelled."
		}
		return swapNow{ui.Wait, "It waits for approval: " + heldAmount + " are held in " + product + ".", step}
	case swap.Rejected:
		return swapNow{
			ui.Quiet, "A person rejected it. The money is available in " + product + ".", "Nothing is left to do.",
		}
	case swap.CancelledStatus:
		return swapNow{
			ui.Quiet, "It was cancelled. The money is available in " + product + ".", "Nothing is left to do.",
		}
	case swap.Pending:
		step := "A provider is asked for a firm offer. If none makes one in time, the swap fails and the money is " +
			"available again."
		if w.Provider != "" {
			step = "The provider is paid by " + ui.FormatMoment(r.Moment(w.PayBy)) + ". If it is not paid until " +
				"then, the swap fails and the money is available again."
		}
		return swapNow{ui.Info, "The money is still here: " + heldAmount + " are held in " + product + ".", step}
	case swap.Depositing:
		return swapNow{
			ui.Info, "The money is on its way to the provider.",
			"When the block of the payment is final, the provider has to deliver or to give it back.",
		}
	case swap.Processing:
		if w.DeliveredAt == nil {
			now := describeProcessing(w)
			if w.PaidAt != nil && w.DelayedAt == nil {
				now.NextStep = "It delivers to a wallet that belongs to this swap alone. What arrives is paid to " +
					"the address."
			}
			return now
		}
		return describePayout(product, payout)
	case swap.Completed:
		return swapNow{ui.Good, "The address has what the provider delivered.", "Nothing is left to do."}
	}
	return describeFailedOwnSwap(product, w)
}

// describePayout says how far the payment of a delivered output has come.
func describePayout(product string, payout *withdrawal.Withdrawal) swapNow {
	switch {
	case payout == nil:
		return swapNow{
			ui.Info, "What the provider delivered is in " + product + ".",
			"Its payment to the address is requested next.",
		}
	case payout.Status == withdrawal.AwaitingApproval:
		return swapNow{
			ui.Wait, "What the provider delivered is held in " + product + " for its payment.",
			"The payment waits for a person like any withdrawal: the approvals of the swap do not cover it. It " +
				"stands under Transactions to approve.",
		}
	}
	return swapNow{
		ui.Info, "What the provider delivered is held in " + product + " for its payment.",
		"The withdrawal pays it to the address. The swap is completed when that block is final.",
	}
}

// describeFailedOwnSwap says where the money of a failed swap is.
func describeFailedOwnSwap(product string, w swap.Swap) swapNow {
	amount := func(a money.Amount) string {
		return ui.GroupDigits(a.Decimal(w.From.Decimals)) + " " + ui.EscapeForeign(w.From.Symbol)
	}
	if w.AmountOut != nil {
		return swapNow{
			ui.Wait, "It was swapped and not paid out: " + ui.GroupDigits(w.AmountOut.Decimal(w.To.Decimals)) + " " +
				ui.EscapeForeign(w.To.Symbol) + " are available in " + product + ".",
			"Withdraw it to another address of the whitelist, or keep it.",
		}
	}
	open := w.OpenClaim()
	rest := ""
	if !open.IsZero() {
		rest = " The provider still has " + amount(open) + ", which stays held until it comes back or is given up."
	} else if !w.Short.IsZero() {
		rest = " The provider kept " + amount(w.Short) + " for good."
	}
	step := "Nothing is left to do."
	if !open.IsZero() {
		step = "What comes back is put into " + product + " at once."
		switch swap.RefundStatus(w.RefundReport) {
		case swap.RefundUnavailable, swap.RefundManual:
			step = nextOfRefund(w, open)
		}
	}
	if !w.Restored.IsZero() {
		return swapNow{ui.Quiet, amount(w.Restored) + " are available in " + product + " again." + rest, step}
	}
	return swapNow{ui.Bad, "The money is with the provider, which has not given it back." + rest, step}
}
