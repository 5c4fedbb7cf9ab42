package dashboard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// restoreAct is the name of the act that gives what came back of a failed swap to its customer.
const restoreAct = "restore"

// swapStepsMax bounds what the page of a swap shows of the log.
const swapStepsMax = 200

// Filters of the list of swaps.
var (
	swapStatusParameter = kernel.Parameter{Name: "status", Kind: kernel.WordParameter, Enum: resource.SwapStatuses}
	swapKeyParameter    = kernel.Parameter{Name: "idempotencyKey", Kind: kernel.TextParameter, Max: 255}
)

// swapsToRestore selects the failed swaps of which something came back that the customer does not have.
var swapsToRestore = swap.Filter{ToRestore: true}

// swapsPage lists the swaps of the customers.
func (d *dashboard) swapsPage() pages.Page {
	return pages.Page{
		Path: "/swaps", Title: "Swaps", Action: identity.ReadOrganization, Live: []string{"SWAP"},
		Group: "", Icon: "swap", Shortcut: "s",
		Query: []kernel.Parameter{
			pages.CursorParameter, swapStatusParameter, resource.CustomerFilter, swapKeyParameter,
		},
		Load: d.loadSwaps, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			return d.writeSwaps(r, w, readSwapFilter(r))
		},
	}
}

// restorePage lists the failed swaps that wait for a person to restore them.
func (d *dashboard) restorePage() pages.Page {
	return pages.Page{
		Path: "/approvals/swaps", Title: "Failed swaps", Action: identity.ReadOrganization, Live: []string{"SWAP"},
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadSwapsToRestore, WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			return d.writeSwaps(r, w, swapsToRestore)
		},
	}
}

// swapPage shows one swap with everything that happened to it, and restores it. Rule PAGE-75.
func (d *dashboard) swapPage() pages.Page {
	return pages.Page{
		Path: "/swaps/{swapId}", Title: "Swap", Action: identity.ReadOrganization, Live: []string{"SWAP"},
		Load: d.loadSwap,
		Acts: []pages.Act{{
			Name: restoreAct, Action: identity.RestoreSwap, StepUp: pages.ActStepUp,
			FindDone: d.findRestoredSwap, Run: d.restoreSwap,
		}},
	}
}

func swapPath(r *pages.Request, swapID string) string { return r.Path("swaps", swapID) }

func readSwapFilter(r *pages.Request) swap.Filter {
	return swap.Filter{
		CustomerID: r.Query[resource.CustomerFilter.Name], Status: r.Query[swapStatusParameter.Name],
		IdempotencyKey: r.Query[swapKeyParameter.Name],
	}
}

// swapRow is a swap in a list.
type swapRow struct {
	Path                             string
	Chip                             ui.Chip
	RefundText                       string
	Figure, Symbol, Network, Dollars string
	OutFigure, OutSymbol, OutNetwork string
	HasArrived                       bool // the figure is what arrived, and no estimate
	BackFigure                       string
	Customer                         string
	Made                             ui.Moment
}

// swapsView is what both lists show.
type swapsView struct {
	ListPath, CSVPath   string
	Tabs                []ui.Tab
	Statuses            []choice
	CustomerID, Key     string
	IsFiltered          bool
	Rows                []swapRow
	FirstPath, NextPath string
}

func (d *dashboard) listSwaps(r *pages.Request, f swap.Filter) (view swapsView, err error) {
	p, err := r.ReadPage()
	if err != nil {
		return view, err
	}
	found, err := d.conf.Swaps.List(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return view, err
	}
	view = swapsView{ListPath: r.Path("swaps"), CSVPath: r.CSVPath()}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, w := range found.Items {
		view.Rows = append(view.Rows, newSwapRow(r, w))
	}
	view.Tabs = approvalTabs(r, r.Title(), countText(len(view.Rows), found.NextCursor != nil))
	return view, nil
}

func (d *dashboard) loadSwaps(r *pages.Request) (templ.Component, error) {
	f := readSwapFilter(r)
	view, err := d.listSwaps(r, f)
	if err != nil {
		return nil, err
	}
	view.Tabs = swapTabs(r, "Swaps of customers")
	view.CustomerID, view.Key, view.IsFiltered = f.CustomerID, f.IdempotencyKey, f != (swap.Filter{})
	for _, status := range swap.Statuses {
		view.Statuses = append(view.Statuses, choice{
			Value: string(status), Text: swapChip(status).Word, IsChosen: f.Status == string(status),
		})
	}
	return swapsList(view), nil
}

func (d *dashboard) loadSwapsToRestore(r *pages.Request) (templ.Component, error) {
	view, err := d.listSwaps(r, swapsToRestore)
	if err != nil {
		return nil, err
	}
	return swapsToRestoreList(view), nil
}

func newSwapRow(r *pages.Request, w swap.Swap) swapRow {
	row := swapRow{
		Path: swapPath(r, w.ID), Chip: swapChip(w.Status), RefundText: refundText(w.RefundStatus()),
		Figure: w.AmountIn.Decimal(w.From.Decimals), Symbol: w.From.Symbol, Network: networkName(w.From.Chain),
		OutFigure: w.EstimatedOut.Decimal(w.To.Decimals), OutSymbol: w.To.Symbol, OutNetwork: networkName(w.To.Chain),
		BackFigure: money.SubOrZero(w.Refunded, w.Restored).Decimal(w.From.Decimals),
		Customer:   w.CustomerID, Made: r.Moment(w.CreatedAt),
	}
	if w.USDValue != nil {
		row.Dollars = w.USDValue.Cents()
	}
	if w.AmountOut != nil {
		row.OutFigure, row.HasArrived = w.AmountOut.Decimal(w.To.Decimals), true
	}
	return row
}

func (d *dashboard) writeSwaps(r *pages.Request, w *kernel.StreamWriter, f swap.Filter) error {
	return kernel.WriteTable(r.Context(), w, true, resource.SwapColumns,
		func(ctx context.Context, desc bool, row func(webhook.CustomerSwap) error) error {
			return d.conf.Swaps.ForEach(ctx, r.Session.OrgID, f, desc,
				func(w swap.Swap) error { return row(wire.CustomerSwap(w)) })
		})
}

// swapLine is a swap among the transactions of a customer.
func swapLine(r *pages.Request, w swap.Swap) transactionRow {
	return transactionRow{
		Path: swapPath(r, w.ID), ID: w.ID, Kind: "Swap to " + ui.EscapeForeign(w.To.Symbol),
		Figure: w.AmountIn.Decimal(w.From.Decimals), Symbol: w.From.Symbol, Network: networkName(w.From.Chain),
		Chip: swapChip(w.Status), Made: r.Moment(w.CreatedAt), createdAt: w.CreatedAt,
	}
}

func (d *dashboard) loadSwapOf(r *pages.Request) (swap.Swap, error) {
	return d.conf.Swaps.ByID(r.Context(), r.Session.OrgID, r.PathParam("swapId"))
}

// findRestoredSwap returns the page of a swap of which the customer has everything that came back: a second click,
// an old tab and a slower colleague restore nothing. Rule PAGE-75.
func (d *dashboard) findRestoredSwap(r *pages.Request) (string, error) {
	w, err := d.loadSwapOf(r)
	if err != nil || w.Refunded.IsZero() || w.Refunded != w.Restored {
		return "", err
	}
	return swapPath(r, w.ID), nil
}

func (d *dashboard) restoreSwap(r *pages.Request) (string, error) {
	w, err := d.conf.Swaps.Restore(r.Context(), r.Session.OrgID, r.PathParam("swapId"), actor(r))
	if err != nil {
		return "", err
	}
	return swapPath(r, w.ID), nil
}

// swapView is what the page of a swap shows.
type swapView struct {
	timelineView
	Path                   string
	OutFigure, OutSymbol   string
	OutWord                string // what the figure is
	Now                    swapNow
	Form                   ui.Form
	CanRestore             bool
	BackFigure, BackSymbol string // what can be restored; "" for nothing
}

// swapNow says in words where the money of a swap is, and what happens next.
type swapNow struct {
	Kind                  ui.ChipKind
	Whereabouts, NextStep string
}

// swapRecords are what other features know about a swap.
type swapRecords struct {
	transactionRecords
	log []audit.Row
}

func (d *dashboard) loadSwapRecords(r *pages.Request, w swap.Swap) (records swapRecords, err error) {
	org := r.Session.OrgID
	err = d.conf.DB.ReadOrg(r.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		records = swapRecords{}
		if records.entries, err = listSwapEntries(ctx, tx, org, w); err != nil {
			return err
		}
		if records.deliveries, err = delivery.ListResourceAttempts(ctx, tx, org, w.ID); err != nil {
			return err
		}
		if records.attempts, err = dispatch.ListAttempts(ctx, tx, org, w.ID); err != nil {
			return err
		}
		entries := audit.Filter{OrgID: org, ResourceID: w.ID}
		logged, err := audit.List(ctx, tx, entries, pagination.Page{Limit: swapStepsMax})
		if err != nil {
			return err
		}
		records.log = logged.Items
		records.catalogue, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	return records, err
}

// listSwapEntries returns what a swap moved in the balances that the interface shows. Each time that something
// was restored or written off is a cause of its own, numbered from 1.
func listSwapEntries(ctx context.Context, tx pg.Tx, org string, w swap.Swap) ([]ledger.Entry, error) {
	single := []ledger.CauseKind{ledger.SwapHold, ledger.SwapEnd}
	entries, err := ledger.ListEntriesOf(ctx, tx, org, w.ID, single, visibleKinds)
	if err != nil || w.Restored.IsZero() && w.Short.IsZero() {
		return entries, err
	}
	repeated := []ledger.CauseKind{ledger.SwapRestore, ledger.SwapShort}
	for n := 1; n <= swapStepsMax; n++ {
		found, err := ledger.ListEntriesOf(ctx, tx, org, w.ID+"/"+strconv.Itoa(n), repeated, visibleKinds)
		if err != nil || len(found) == 0 {
			return entries, err
		}
		entries = append(entries, found...)
	}
	return entries, nil
}

func (d *dashboard) loadSwap(r *pages.Request) (templ.Component, error) {
	w, err := d.loadSwapOf(r)
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
	row := newSwapRow(r, w)
	view := swapView{
		timelineView: timelineView{
			ListPath: r.Path("swaps"), Kind: "Swap", ID: w.ID, Figure: row.Figure, Symbol: row.Symbol,
			Dollars: row.Dollars,
			Chip:    row.Chip, Facts: d.swapFacts(r, w, row), Calls: d.swapCalls(w),
		},
		Path: row.Path, OutFigure: row.OutFigure, OutSymbol: row.OutSymbol, OutWord: "about", Form: r.Form,
		Now: describeSwap(r, w), CanRestore: r.IsAllowed(identity.RestoreSwap), BackSymbol: w.From.Symbol,
	}
	if row.HasArrived {
		view.OutWord = "received"
	}
	if returned := money.SubOrZero(w.Refunded, w.Restored); w.Status == swap.FailedStatus && !returned.IsZero() {
		view.BackFigure = returned.Decimal(w.From.Decimals)
	}
	for _, item := range records.log {
		d.addSwapStep(&view.timelineView, r, w, item, names)
	}
	for _, attempt := range records.attempts {
		view.addStep(r, attempt.SignedAt, timelineStep{
			Title: signedText(attempt), Text: replacementText(attempt.Reason), Hash: string(attempt.Hash),
			ExplorerURL: d.explorerURL(w.From.Chain, attempt.Hash),
		})
	}
	view.finish(r, records.transactionRecords)
	return swapOverview(view), nil
}

// swapCalls are the calls of the interface that show a swap and restore it.
func (d *dashboard) swapCalls(w swap.Swap) []string {
	calls := []string{d.callText("GET", "/customer-swap/"+w.ID, "")}
	if w.Status == swap.FailedStatus && w.Refunded != w.Restored {
		calls = append(calls, d.callText("POST", "/customer-swap/"+w.ID+"/restore", ""))
	}
	return calls
}

// swapDetail is what the log has of a step of a swap.
type swapDetail struct {
	OriginTxHash      chain.TxHash  `json:"originTxHash"`
	DestinationTxHash chain.TxHash  `json:"destinationTxHash"`
	AmountOut         *money.Amount `json:"amountOut"`
	Refunded          *money.Amount `json:"refunded"`
	Restored          any           `json:"restored"` // an amount, or that the row came from the signer's journal
	Amount            *money.Amount `json:"amount"`
	Note              string        `json:"note"`
	Word              string        `json:"word"`
}

// addSwapStep adds what an entry of the log says about a swap. An entry about an arrival that the swap does not
// expect is none: it is decided by the operator, and changes nothing of the swap.
func (d *dashboard) addSwapStep(
	view *timelineView, r *pages.Request, w swap.Swap, item audit.Row, names people,
) {
	var detail swapDetail
	_ = json.Unmarshal(item.Detail, &detail) // What is missing is not shown.
	factOf := func(name string, amount *money.Amount) []ui.Fact {
		if amount == nil {
			return nil
		}
		return []ui.Fact{{Name: name, Value: amountOf(&w.From, *amount)}}
	}
	step := timelineStep{}
	switch item.Action {
	case "swap.requested":
		step.Title, step.Text = "Requested, and the amount is held", "By "+names.nameOf(item.Actor, r.Session)
		step.Facts = []ui.Fact{
			{Name: "Offer", Value: amountOf(&w.To, w.EstimatedOut)},
			{Name: "At least", Value: amountOf(&w.To, w.MinOut)},
		}
	case "swap.depositing":
		step.Title, step.Hash = "The payment to the provider was sent", string(detail.OriginTxHash)
		step.ExplorerURL = d.explorerURL(w.From.Chain, detail.OriginTxHash)
	case "swap.paid":
		step.Title = "The payment is final"
		step.Text = "The provider has the money, and has to deliver or to give it back"
		step.Hash, step.ExplorerURL = string(detail.OriginTxHash), d.explorerURL(w.From.Chain, detail.OriginTxHash)
	case "swap.processing":
		step.Title, step.Note = "The provider says that it works on it", detail.Word
	case "swap.delayed":
		step.Title = "It takes longer than usual"
	case "swap.ending":
		step.Title = "It ends without a payment"
	case "swap.completed":
		step.Title = "Delivered, and credited to the customer"
		step.Hash = string(detail.DestinationTxHash)
		step.ExplorerURL = d.explorerURL(w.To.Chain, detail.DestinationTxHash)
		if detail.AmountOut != nil {
			step.Facts = []ui.Fact{{Name: "Received", Value: amountOf(&w.To, *detail.AmountOut)}}
		}
	case "swap.failed":
		step.Title = "Failed"
		if w.FailureReason != nil {
			step.Text = failureText(swap.FailureReason(*w.FailureReason))
		}
	case "swap.refunded":
		step.Title, step.Facts = "Something came back", factOf("Came back in all", detail.Refunded)
		if w.RefundTxHash != nil {
			step.Hash, step.ExplorerURL = string(*w.RefundTxHash), d.explorerURL(w.From.Chain, *w.RefundTxHash)
		}
	case "swap.restored":
		step.Title = "Restored to the customer"
		step.Text = "By " + names.nameOf(item.Actor, r.Session)
	case "swap.written_off":
		step.Title, step.Facts = "The operator of this service gave up the rest", factOf("Given up", detail.Amount)
		step.Note = detail.Note
	case "swap.collected":
		step.Title = "A part of what the restored balance lacked was taken"
	default:
		return
	}
	view.addStep(r, &item.RecordedAt, step)
}

func (d *dashboard) swapFacts(r *pages.Request, w swap.Swap, row swapRow) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Swap", Value: copiedText(w.ID)},
		{Name: "Customer", Value: foreignLink(r.Path("customers", w.CustomerID), w.CustomerID)},
		{Name: "From", Value: networkAmount(row.Figure, row.Symbol, row.Network)},
		{Name: "Offer", Value: networkAmount(w.EstimatedOut.Decimal(w.To.Decimals), w.To.Symbol, row.OutNetwork)},
		{Name: "At least", Value: amountOf(&w.To, w.MinOut)},
	}
	if w.AmountOut != nil {
		facts = append(facts, ui.Fact{Name: "Received", Value: amountOf(&w.To, *w.AmountOut)})
	}
	facts = append(facts,
		ui.Fact{Name: "Provider", Value: ui.Code(w.Provider)},
		ui.Fact{Name: "Fee, billed later", Value: feeOfSwap(w)},
	)
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
	if w.DepositID != nil {
		facts = append(facts, ui.Fact{
			Name:  "Deposit",
			Value: pathLink(transactionPath(r, depositKind, *w.DepositID), "Show the deposit of the delivery"),
		})
	}
	if w.Status == swap.FailedStatus {
		facts = append(facts, refundFacts(w)...)
	}
	return append(facts, requestFacts(resource.OptionalText(w.IdempotencyKey), nil, w.Metadata)...)
}

func feeOfSwap(w swap.Swap) templ.Component {
	if w.FeeAmount.IsZero() {
		return ui.Text("none")
	}
	return amountOf(&w.From, w.FeeAmount)
}

// refundFacts are the numbers of a failed swap.
func refundFacts(w swap.Swap) (facts []ui.Fact) {
	if w.FailureReason != nil {
		facts = append(facts, ui.Fact{Name: "Why it failed", Value: reasonWithCode(
			failureText(swap.FailureReason(*w.FailureReason)), *w.FailureReason)})
	}
	if w.FailureMessage != nil && *w.FailureMessage != "" {
		facts = append(facts, ui.Fact{Name: "Message", Value: ui.Foreign(*w.FailureMessage)})
	}
	for _, number := range []struct {
		name   string
		amount money.Amount
	}{
		{"Came back", w.Refunded},
		{"Restored", w.Restored},
		{"Kept by the provider", w.Short},
		{"Still with the provider", w.OpenClaim()},
	} {
		if !number.amount.IsZero() {
			facts = append(facts, ui.Fact{Name: number.name, Value: amountOf(&w.From, number.amount)})
		}
	}
	return facts
}

// describeSwap says where the money of a swap is, and what happens next. Rule PAGE-74.
func describeSwap(r *pages.Request, w swap.Swap) swapNow {
	heldAmount := ui.GroupDigits(w.AmountIn.Decimal(w.From.Decimals)) + " " + ui.EscapeForeign(w.From.Symbol)
	switch w.Status {
	case swap.Pending:
		return swapNow{
			ui.Info, "The money is still here: " + heldAmount + " are held in the customer's balance.",
			"The provider is paid by " + ui.FormatMoment(r.Moment(w.PayBy)) + ". If it is not paid until then, " +
				"the swap " +
				"fails and the amount can be restored at once.",
		}
	case swap.Depositing:
		return swapNow{
			ui.Info, "The money is on its way to the provider.",
			"When the block of the payment is final, the provider has to deliver or to give it back.",
		}
	case swap.Processing:
		return describeProcessing(w)
	case swap.Completed:
		return swapNow{ui.Good, "The customer has what the provider delivered.", "Nothing is left to do."}
	}
	return describeFailed(w)
}

func describeProcessing(w swap.Swap) swapNow {
	if w.PaidAt == nil {
		return swapNow{
			ui.Info, "The money is with the provider, or on its way to it.",
			"The block of the payment is not final yet. The swap goes on meanwhile.",
		}
	}
	if w.DelayedAt != nil {
		return swapNow{
			ui.Wait, "The money is with the provider, for longer than usual.",
			"The operator of this service follows it. A swap does not fail because of its age: it ends when " +
				"the provider " +
				"delivers, or gives the money back.",
		}
	}
	return swapNow{
		ui.Info, "The money is with the provider.",
		"It delivers to a wallet that belongs to this swap alone, and the customer is credited when the block " +
			"is final.",
	}
}

func describeFailed(w swap.Swap) swapNow {
	amount := func(a money.Amount) string {
		return ui.GroupDigits(a.Decimal(w.From.Decimals)) + " " + ui.EscapeForeign(w.From.Symbol)
	}
	open := w.OpenClaim()
	rest := ""
	if !open.IsZero() {
		rest = " The provider still has " + amount(open) + ", which stays held until it comes back or is given up."
	} else if !w.Short.IsZero() {
		rest = " The provider kept " + amount(w.Short) + " for good."
	}
	returned := money.SubOrZero(w.Refunded, w.Restored)
	switch {
	case !returned.IsZero():
		return swapNow{
			ui.Wait, amount(returned) + " came back and is held for the customer." + rest,
			"Restore it: then the customer can use it again.",
		}
	case !w.Restored.IsZero():
		return swapNow{ui.Quiet, "The customer has " + amount(w.Restored) + " again." + rest, nextOfRefund(w, open)}
	case open.IsZero() && !w.Short.IsZero():
		return swapNow{
			ui.Bad, "The provider kept the money, and nothing came back." + rest,
			"You can pay the customer from a balance of your own, by a transfer.",
		}
	}
	return swapNow{ui.Bad, "The money is with the provider, which has not given it back." + rest, nextOfRefund(w, open)}
}

// nextOfRefund says what happens to the rest of a failed swap.
func nextOfRefund(w swap.Swap, open money.Amount) string {
	if open.IsZero() {
		return "Nothing is left to do."
	}
	switch swap.RefundStatus(w.RefundReport) {
	case swap.RefundUnavailable:
		return "The provider says that it gives nothing back. The operator of this service talks to it."
	case swap.RefundManual:
		return "A person at the provider decides about it. The operator of this service talks to the provider."
	}
	return "What comes back is announced by CUSTOMER_SWAP_REFUNDED and stands under Transactions to approve."
}

// swapChip writes the status of a swap for people.
func swapChip(status swap.Status) ui.Chip {
	switch status {
	case swap.AwaitingApproval:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for approval"}
	case swap.Rejected:
		return ui.Chip{Kind: ui.Quiet, Word: "Rejected"}
	case swap.CancelledStatus:
		return ui.Chip{Kind: ui.Quiet, Word: "Cancelled"}
	case swap.Pending:
		return ui.Chip{Kind: ui.Info, Word: "Not paid yet"}
	case swap.Depositing:
		return ui.Chip{Kind: ui.Info, Word: "Payment on its way"}
	case swap.Processing:
		return ui.Chip{Kind: ui.Info, Word: "With the provider"}
	case swap.Completed:
		return ui.Chip{Kind: ui.Good, Word: "Completed"}
	case swap.FailedStatus:
		return ui.Chip{Kind: ui.Bad, Word: "Failed"}
	}
	return ui.Chip{}
}

// refundText says how far the refund of a swap has come; "" where there is none.
func refundText(status swap.RefundStatus) string {
	switch status {
	case swap.RefundPending:
		return "Refund expected"
	case swap.RefundPartial:
		return "A part came back"
	case swap.RefundComplete:
		return "Came back, not restored"
	case swap.RefundRestored:
		return "Restored"
	case swap.RefundUnavailable:
		return "No refund, says the provider"
	case swap.RefundManual:
		return "A person at the provider decides"
	}
	return ""
}

// failureText says why a swap failed.
func failureText(reason swap.FailureReason) string {
	switch reason {
	case swap.DeadlineExpired:
		return "The provider was not paid in time"
	case swap.OriginTxFailed:
		return "The payment to the provider was not made"
	case swap.ProviderRefunded:
		return "The provider gave the money back"
	case swap.ProviderFailed:
		return "The provider says that it failed"
	case swap.ProviderCompliance:
		return "A person at the provider holds it"
	case swap.NoLiquidity:
		return "No provider made an offer in time"
	case swap.DestinationUnavailable:
		return "What it brought could not be paid to the address"
	case swap.UnknownFailure:
		return "The operator of this service ended it"
	}
	return ""
}

// sortRecent puts transactions in the order of the newest first and keeps a few.
func sortRecent(rows []transactionRow) []transactionRow {
	slices.SortStableFunc(rows, func(a, b transactionRow) int { return b.createdAt.Compare(a.createdAt) })
	return rows[:min(len(rows), recentTransactionsMax)]
}
