package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	shownItemsMax = 50 // rows on one page
	// payoutLogMax bounds what the page reads of the log: each row that is never paid has an entry.
	payoutLogMax = 2 * rowfile.RowsMax
	// shownWarningsMax bounds the warnings of one kind that need no tick.
	shownWarningsMax = 20
)

// The parameters of the page: the parts of its two lists, and the rows that are shown.
var (
	itemsPartParameter = kernel.Parameter{Name: "rows", Kind: kernel.NumberParameter, Max: rowfile.RowsMax}
	badPartParameter   = kernel.Parameter{Name: "unreadable", Kind: kernel.NumberParameter, Max: rowfile.RowsMax}
	itemStateParameter = kernel.Parameter{
		Name: "state", Kind: kernel.WordParameter, Enum: []string{
			string(waitingItem), string(sentItem), string(paidItem), string(unpaidItem), string(excludedItem),
		},
	}
)

// payoutPage shows a batch payout with its rows and what happened to it, and takes the decisions about it. Rules
// PAGE-102, PAGE-103 and PAGE-104.
func (d *dashboard) payoutPage() pages.Page {
	return pages.Page{
		Path: "/payouts/{batchId}", Title: "Payout", Action: identity.ReadOrganization,
		Live: []string{payoutKind, "WITHDRAWAL"}, LiveOfAll: true,
		Query: []kernel.Parameter{itemsPartParameter, badPartParameter, itemStateParameter},
		Load:  d.loadPayout, Acts: d.payoutActs(),
		WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			return d.conf.Payouts.WriteCSV(r.Context(), r.Session.OrgID, payoutID(r), w)
		},
	}
}

// payoutStage is a step of a payout on its way to its payment.
type payoutStage int

// The steps.
const (
	uploadStage payoutStage = iota
	checkStage
	reviewStage
	approvalStage
	paymentStage // no step: all of them are done
)

// payoutStageTitles name the steps.
var payoutStageTitles = []string{"Upload", "Check the rows", "Review and submit", "Approval by another person"}

// findStage returns the step at which a batch payout is.
func findStage(b payout.Batch) payoutStage {
	switch {
	case b.Status == payout.Draft && b.BadRows > 0 && b.Header.Mode == contenthash.Strict:
		return checkStage
	case b.Status == payout.Draft:
		return reviewStage
	case b.Status == payout.Validating, b.Status == payout.AwaitingApproval:
		return approvalStage
	}
	return paymentStage
}

// itemGroup says what became of a row, as the counts of a batch payout do.
type itemGroup string

// The groups of rows.
const (
	waitingItem  itemGroup = "WAITING"
	sentItem     itemGroup = "ON_THE_WAY"
	paidItem     itemGroup = "PAID"
	unpaidItem   itemGroup = "NOT_PAID"
	excludedItem itemGroup = "LEFT_OUT"
)

func (g itemGroup) text() string {
	switch g {
	case waitingItem:
		return "Waiting"
	case sentItem:
		return "On their way"
	case paidItem:
		return "Paid"
	case unpaidItem:
		return "Not paid"
	case excludedItem:
		return "Left out"
	}
	return ""
}

func groupOfItem(i payout.Item) itemGroup {
	switch status := withdrawal.Status(i.WithdrawalStatus); {
	case !i.IsIncluded:
		return excludedItem
	case i.Refused != "", status == withdrawal.Failed, status == withdrawal.Rejected, status == withdrawal.Cancelled:
		return unpaidItem
	case status == withdrawal.Completed:
		return paidItem
	case status == withdrawal.Processing, status == withdrawal.Broadcast:
		return sentItem
	}
	return waitingItem
}

// itemChip writes what became of a row for people.
func itemChip(b payout.Batch, i payout.Item) ui.Chip {
	switch state := i.State(); state {
	case payout.RowExcluded:
		return ui.Chip{Kind: ui.Quiet, Word: "Left out"}
	case payout.RowRefused:
		return ui.Chip{Kind: ui.Bad, Word: "Never paid"}
	case payout.RowWaiting:
		switch {
		case b.EndedAt != nil:
			return ui.Chip{Kind: ui.Quiet, Word: "Not paid"}
		case b.Status == payout.Draft:
			return ui.Chip{Kind: ui.Quiet, Word: "Readable"}
		}
		return ui.Chip{Kind: ui.Wait, Word: "Waits"}
	default:
		return withdrawalChip(withdrawal.Status(state))
	}
}

// payoutItem is a row of a batch payout on its page.
type payoutItem struct {
	Path, Number, Line      string
	Figure, Symbol, Network string
	Address                 string
	Reference, Customer     string
	Chip                    ui.Chip
	Reason                  string // why it waits or was not paid; "" for none
	WithdrawalPath          string // "" while nothing pays it
	NeedsPerson             bool   // its withdrawal waits for people
	Hash, ExplorerURL       string
}

func (d *dashboard) newPayoutItem(r *pages.Request, b payout.Batch, i payout.Item, mints mint.Catalogue) payoutItem {
	item := payoutItem{
		Path: r.Path("payouts", b.ID, "rows", strconv.Itoa(i.Number)), Number: strconv.Itoa(i.Number),
		Line: strconv.Itoa(i.Line), Figure: i.Amount.String(), Symbol: "units", Network: networkName(i.Chain),
		Address: string(i.ToAddress), Reference: i.Reference, Customer: i.CustomerID, Chip: itemChip(b, i),
		Reason: i.Reason(), Hash: textOrEmpty(i.TxHash),
	}
	if m, isKnown := mints.ByID(i.MintID); isKnown {
		item.Figure, item.Symbol = i.Amount.Decimal(m.Decimals), m.Symbol
	}
	if i.WithdrawalID != "" {
		item.WithdrawalPath = transactionPath(r, withdrawalKind, i.WithdrawalID)
	}
	if i.WithdrawalStatus == string(withdrawal.AwaitingApproval) {
		item.NeedsPerson, item.WithdrawalPath = true, r.Path("approvals", "withdrawals", i.WithdrawalID)
		item.Reason = "A rule holds its payment until a person has looked at it."
	}
	if item.Hash != "" {
		item.ExplorerURL = d.explorerURL(i.Chain, chain.TxHash(item.Hash))
	}
	return item
}

// payoutTotal is what a batch payout pays of one coin, and what that costs.
type payoutTotal struct {
	payoutAmount
	RowsText   string
	Available  string // of the balance of batch payouts, for a draft; "" otherwise
	Missing    string // of it; "" for nothing
	Cost       templ.Component
	SharedCost templ.Component // what the network takes for rows that share transactions; nil where none can now
}

// canShare reports whether rows of a coin can share transactions.
func (v payoutView) canShare() bool {
	return slices.ContainsFunc(v.Totals, func(t payoutTotal) bool { return t.SharedCost != nil })
}

// warningGroup are the warnings of one kind that need no tick.
type warningGroup struct {
	Title    string
	Texts    []string
	MoreText string // how many more there are; "" for none
}

// tickRow is a row that a person has to look at and tick.
type tickRow struct {
	Number, Address, Text string
	IsTicked              bool
}

// listPart is the part of a long list that is shown.
type listPart struct {
	Text                string // which rows of how many
	FirstPath, NextPath string
}

// payoutView is what the page of a batch payout shows.
type payoutView struct {
	timelineView

	Path, RowsText     string
	Now                swapNow
	Problem            string
	Stage              payoutStage
	IsDraft            bool
	IsBegun, IsRunning bool
	Progress           payoutProgress
	Totals             []payoutTotal
	Words              []ui.Fact // what people approve
	Digest, HashText   string
	Bad                []badRow
	BadText            string
	BadPart            listPart
	Warnings           []warningGroup
	Ticks              []tickRow
	ExistingID         string // the batch of the same list that a refusal named
	ExistingPath       string
	Items              []payoutItem
	ItemsPart          listPart
	States             []choice
	IsFiltered         bool
	CSVPath            string
	Form               ui.Form
	RetryKey           string
	ApprovalsText      string
	WhyNot             string // why this person cannot approve or submit, or has to sign again
	FormPath           string // of a new payout; "" for a person who may not
	RetryOfPath        string

	CanSubmit, CanApprove, CanReject, CanCancel, CanPause, CanResume, CanRetry bool
	IsAwaiting                                                                 bool
	CancelText                                                                 string
	// Sign takes the place of the second factor of an approval; nil: no signature is needed.
	Sign *approverpages.SignerView
}

func (d *dashboard) loadPayout(r *pages.Request) (templ.Component, error) {
	b, err := d.payoutOf(r)
	if err != nil {
		return nil, err
	}
	items, err := d.conf.Payouts.Items(r.Context(), r.Session.OrgID, b.ID)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	mints, err := d.loadMints(r)
	if err != nil {
		return nil, err
	}
	log, err := d.loadPayoutLog(r, b)
	if err != nil {
		return nil, err
	}
	view := payoutView{
		timelineView: timelineView{
			ListPath: r.Path("payouts"), Kind: "Payout", ID: b.ID, Chip: batchChip(b), HasNoValue: true,
			Facts: payoutFacts(r, b, names),
			Calls: []string{
				d.callText("GET", "/batch-payouts/"+b.ID, ""), d.callText("GET", "/batch-payouts/"+b.ID+"/items", ""),
			},
		},
		Path: payoutPath(r, b.ID), RowsText: countRows(b.Header.Rows), Now: describeBatch(b), Problem: b.Problem,
		Stage: findStage(b), IsDraft: b.Status == payout.Draft, IsBegun: b.ApprovedAt != nil,
		IsRunning: b.Status == payout.Processing || b.Status == payout.Validating, Progress: newPayoutProgress(b),
		Words: d.batchWords(r, b, mints), Digest: payoutDigest(b.ContentHash), HashText: b.ContentHash.String(),
		CSVPath: r.PagePath() + ".csv", Form: r.Form, RetryKey: r.FormKey(retryPayoutAct),
		ApprovalsText: strconv.Itoa(b.Approvals) + " of " + strconv.Itoa(b.Required),
		IsAwaiting:    b.Status == payout.AwaitingApproval,
	}
	if r.CSVPath() == "" {
		view.CSVPath = ""
	}
	if b.RetryOf != "" {
		view.RetryOfPath = payoutPath(r, b.RetryOf)
	}
	view.ExistingID = r.Form.Value(submitPayoutAct, existingName)
	if view.ExistingID == "" && b.Status == payout.Draft {
		view.ExistingID, err = d.conf.Payouts.EarlierSubmission(r.Context(), r.Session.OrgID, b.ID)
		if err != nil {
			return nil, err
		}
	}
	if view.ExistingID != "" {
		view.ExistingPath = payoutPath(r, view.ExistingID)
	}
	if view.Totals, err = d.loadPayoutTotals(r, b, items, mints); err != nil {
		return nil, err
	}
	if err := d.addBadRows(r, &view, b); err != nil {
		return nil, err
	}
	if err := d.addWarnings(r, &view, b, items); err != nil {
		return nil, err
	}
	d.addItems(r, &view, b, items, mints)
	view.explainActs(r, b, log)
	if d.isForApprovals() {
		view.CanSubmit, view.CanCancel, view.CanPause, view.CanResume, view.CanRetry = false, false, false, false, false
		view.FormPath = ""
	}
	if view.CanApprove {
		if err := d.addBatchSigner(r, &view, b); err != nil {
			return nil, err
		}
	}
	for _, entry := range log.entries {
		view.addPayoutStep(r, entry, names)
	}
	view.addRefusedStep(r, log)
	view.finish(r, transactionRecords{})
	return payoutOverview(view), nil
}

// addBatchSigner has a passkey approve the batch where the organization's rule asks for people.
func (d *dashboard) addBatchSigner(r *pages.Request, view *payoutView, b payout.Batch) error {
	if d.conf.Approvers == nil {
		return nil
	}
	people, err := d.conf.Payouts.PeopleToSign(r.Context(), r.Session.OrgID, b.ID)
	if err != nil || people == 0 {
		return err
	}
	words := signer.BatchStatement(b.Header,
		d.conf.Approvers.Context(approver.PersonName(actor(r)),
			approverpages.NewNotAfter(r, approverpages.SignatureLasts)))
	view.Sign, err = d.approvers().NewSignerView(r, people, ui.SignView{
		Form: r.Form, Act: signAct, Path: view.Path + "/" + signAct, Words: approverpages.StatementWords(words),
		Hidden: []ui.Hidden{{Name: "digest", Value: view.Digest}}, Button: "Sign and approve " + view.RowsText,
	})
	return err
}

// cutPart returns the bounds of a part of a list, and how it is shown.
func cutPart(r *pages.Request, parameter kernel.Parameter, total, partMax int) (start, end int, part listPart) {
	number, err := strconv.Atoi(r.Query[parameter.Name])
	last := max((total+partMax-1)/partMax, 1)
	if err != nil || number > last {
		number = 1
	}
	start, end = (number-1)*partMax, min(number*partMax, total)
	path := func(n int) string {
		query := url.Values{}
		for name, value := range r.Query {
			query.Set(name, value)
		}
		query.Set(parameter.Name, strconv.Itoa(n))
		return r.PagePath() + "?" + query.Encode() + "#" + parameter.Name
	}
	if number > 1 {
		part.FirstPath = path(1)
	}
	if number < last {
		part.NextPath = path(number + 1)
	}
	if last > 1 {
		grouped := func(n int) string { return ui.GroupDigits(strconv.Itoa(n)) }
		part.Text = fmt.Sprintf("%s to %s of %s", grouped(start+1), grouped(end), grouped(total))
	}
	return start, end, part
}

// addBadRows adds the rows of the list that cannot be read.
func (d *dashboard) addBadRows(r *pages.Request, view *payoutView, b payout.Batch) error {
	if b.BadRows == 0 {
		return nil
	}
	bad, err := d.conf.Payouts.BadRows(r.Context(), r.Session.OrgID, b.ID)
	if err != nil {
		return err
	}
	start, end, part := cutPart(r, badPartParameter, len(bad), shownBadRowsMax)
	for _, row := range bad[start:end] {
		view.Bad = append(view.Bad, newBadRow(row.Position, row.Fields, row.Problems))
	}
	view.BadPart, view.BadText = part, countRows(len(bad))+" cannot be read"
	return nil
}

// warningTitle names the warnings of a kind.
func warningTitle(kind payout.WarningKind) string {
	switch kind {
	case payout.DuplicateRow:
		return "The same address and amount twice"
	case payout.ReferenceSeen:
		return "A reference that was used before"
	case payout.LookAlike:
		return "An address that looks like another one"
	case payout.FirstPayment:
		return "An address that was never paid before"
	}
	return ""
}

// addWarnings adds what a person looks at before the submission or the approval.
func (d *dashboard) addWarnings(r *pages.Request, view *payoutView, b payout.Batch, items []payout.Item) error {
	if b.Status != payout.Draft && b.Status != payout.AwaitingApproval && b.Status != payout.Validating {
		return nil
	}
	warnings, err := d.conf.Payouts.Warnings(r.Context(), r.Session.OrgID, b.ID)
	if err != nil {
		return err
	}
	ticked := strings.Split(r.Form.Value(submitPayoutAct, tickedName), ",")
	counts := map[payout.WarningKind]int{}
	for _, w := range warnings {
		if !w.NeedsTick {
			counts[w.Kind]++
			continue
		}
		row := tickRow{
			Number: strconv.Itoa(w.Row), Text: ui.EscapeForeign(w.Text),
			IsTicked: w.IsTicked || slices.Contains(ticked, strconv.Itoa(w.Row)),
		}
		if w.Row >= 1 && w.Row <= len(items) {
			row.Address = string(items[w.Row-1].ToAddress)
		}
		view.Ticks = append(view.Ticks, row)
	}
	for _, kind := range []payout.WarningKind{payout.DuplicateRow, payout.ReferenceSeen, payout.FirstPayment} {
		if counts[kind] == 0 {
			continue
		}
		group := warningGroup{Title: warningTitle(kind) + ": " + countRows(counts[kind])}
		for _, w := range warnings {
			if w.Kind == kind && !w.NeedsTick && len(group.Texts) < shownWarningsMax {
				group.Texts = append(group.Texts, "Row "+strconv.Itoa(w.Row)+". "+ui.EscapeForeign(w.Text))
			}
		}
		if rest := counts[kind] - len(group.Texts); rest > 0 {
			group.MoreText = "and " + countRows(rest) + " more"
		}
		view.Warnings = append(view.Warnings, group)
	}
	return nil
}

// addItems adds the rows that the page shows.
func (d *dashboard) addItems(
	r *pages.Request, view *payoutView, b payout.Batch, items []payout.Item, mints mint.Catalogue,
) {
	wanted := itemGroup(r.Query[itemStateParameter.Name])
	view.IsFiltered = wanted != ""
	for _, word := range itemStateParameter.Enum {
		view.States = append(view.States, choice{
			Value: word, Text: itemGroup(word).text(), IsChosen: word == string(wanted),
		})
	}
	if view.IsFiltered {
		items = slices.DeleteFunc(slices.Clone(items), func(i payout.Item) bool { return groupOfItem(i) != wanted })
	}
	start, end, part := cutPart(r, itemsPartParameter, len(items), shownItemsMax)
	view.ItemsPart = part
	for _, i := range items[start:end] {
		view.Items = append(view.Items, d.newPayoutItem(r, b, i, mints))
	}
}

// loadPayoutTotals returns what a batch payout pays of each coin. For a draft it says what is available, and what the
// network takes for the payments one by one.
func (d *dashboard) loadPayoutTotals(
	r *pages.Request, b payout.Batch, items []payout.Item, mints mint.Catalogue,
) (totals []payoutTotal, err error) {
	isOpen := b.ApprovedAt == nil && b.EndedAt == nil
	var balances []report.ProductBalance
	if b.Status == payout.Draft {
		err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
			balances, err = report.LoadProductBalances(ctx, tx, r.Session.OrgID)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	rows := map[int]int{}
	for _, i := range items {
		if i.IsIncluded {
			rows[i.MintID]++
		}
	}
	for n, amount := range d.payoutAmounts(r.Context(), mints, b.Header.Totals) {
		sum := b.Header.Totals[n]
		total := payoutTotal{payoutAmount: amount, RowsText: countRows(rows[sum.MintID])}
		m, isKnown := mints.ByID(sum.MintID)
		if b.Status == payout.Draft && isKnown {
			available := money.Zero
			k := slices.IndexFunc(balances, func(p report.ProductBalance) bool {
				return p.Product == ledger.BatchProduct && p.Mint.ID == m.ID
			})
			if k >= 0 {
				available = balances[k].Available
			}
			total.Available = available.Decimal(m.Decimals)
			total.Missing = decimalOrEmpty(money.SubOrZero(sum.Amount, available), m.Decimals)
		}
		if isOpen && isKnown {
			if total.Cost, total.SharedCost, err = d.estimateRows(r, m, rows[m.ID], mints); err != nil {
				return nil, err
			}
		}
		totals = append(totals, total)
	}
	return totals, nil
}

// estimateRows writes the most that the network takes for the payments of rows: each in a transaction of its own, and
// together if rows of the coin can share transactions now. Rule BP-91.
func (d *dashboard) estimateRows(
	r *pages.Request, m mint.Mint, rows int, mints mint.Catalogue,
) (alone, shared templ.Component, err error) {
	unknown := ui.Text("The chain does not say now")
	e, err := d.conf.Withdrawals.EstimateOrganization(r.Context(), r.Session.Member, ledger.BatchProduct, m.ID, "")
	if fault.Find(err) != nil || err == nil && e.NetworkFeeMintID == nil {
		return unknown, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	fee, err := e.NetworkFee.Mul(uint64(rows))
	if err != nil {
		return unknown, nil, nil // no amount is as large
	}
	native, _ := mints.ByID(*e.NetworkFeeMintID)
	write := func(fee money.Amount) templ.Component {
		return feeWord(fee.Decimal(native.Decimals), native.Symbol, d.dollars(r.Context(), native, fee))
	}
	if fee, canShare := d.conf.Payouts.SharedFee(r.Context(), m, e.NetworkFee, rows); canShare {
		shared = write(fee)
	}
	return write(fee), shared, nil
}

// batchWords are the words of a batch payout: what an approver approves, whole and in a fixed order. They are the
// header of the batch, which the content hash covers.
func (d *dashboard) batchWords(r *pages.Request, b payout.Batch, mints mint.Catalogue) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Act", Word: "act", Value: ui.Text("Approve a batch payout")},
		{Name: "Organization", Word: "organization", Value: ui.Code(b.OrgID)},
		{Name: "Payout", Word: "batch", Value: copiedText(b.ID)},
		{Name: "If a row cannot be paid", Word: "mode", Value: ui.Text(modeText(b.Header.Mode))},
		{Name: "Rows", Word: "rows", Value: ui.Text(ui.GroupDigits(strconv.Itoa(b.Header.Rows)))},
		{Name: "Of them paid", Word: "included", Value: ui.Text(ui.GroupDigits(strconv.Itoa(b.Header.Included)))},
	}
	for _, t := range b.Header.Totals {
		m, _ := mints.ByID(t.MintID)
		facts = append(facts, ui.Fact{
			Name: "Sum on " + networkName(m.Chain), Word: "total" + strconv.Itoa(t.MintID),
			Value: amountWord(t.Amount.Decimal(m.Decimals), m.Symbol, t.Amount.String()),
		})
	}
	return append(facts, ui.Fact{Name: "Content hash", Word: "contentHash", Value: copiedText(b.ContentHash.String())})
}

// modeText writes what becomes of a batch payout of which a row cannot be paid.
func modeText(mode contenthash.Mode) string {
	if mode == contenthash.Partial {
		return "It is left out, and the others are paid (PARTIAL)"
	}
	return "Nothing is paid (STRICT)"
}

func payoutFacts(r *pages.Request, b payout.Batch, names people) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Made by", Value: ui.Text(names.nameOf(b.Maker, r.Session))},
		{Name: "Made", Value: ui.When(r.Moment(b.CreatedAt))},
	}
	if b.Submitter != nil {
		facts = append(facts, ui.Fact{Name: "Submitted by", Value: ui.Text(names.nameOf(*b.Submitter, r.Session))})
	}
	if b.AutoBelow != nil {
		facts = append(facts, ui.Fact{
			Name: "Approvals", Value: ui.Text("No person needed: below " + b.AutoBelow.String() + " USD"),
		})
	}
	if b.Required > 0 {
		facts = append(facts, ui.Fact{
			Name: "Approvals", Value: ui.Text(strconv.Itoa(b.Approvals) + " of " + strconv.Itoa(b.Required)),
		})
	}
	if b.RetryOf != "" {
		facts = append(facts, ui.Fact{
			Name: "Pays again", Value: pathLink(payoutPath(r, b.RetryOf), "The unpaid rows of an earlier payout"),
		})
	}
	if b.DuplicateOf != "" {
		facts = append(facts, ui.Fact{
			Name: "Same list as", Value: pathLink(payoutPath(r, b.DuplicateOf), "A payout that was submitted before"),
		})
	}
	return append(facts, requestFacts(resource.OptionalText(textOrEmpty(b.IdempotencyKey)), nil, nil)...)
}

// describeBatch says where the money of a batch payout is, and what happens next. Rule PAGE-104.
func describeBatch(b payout.Batch) swapNow {
	const isBack = "Its sum is in the balance of batch payouts again."
	switch b.Status {
	case payout.Draft:
		if findStage(b) == checkStage {
			return swapNow{
				ui.Bad, "Nothing is held. " + countRows(b.BadRows) + " of the list cannot be read.",
				"Every row is paid, or none. Correct these rows in your file and upload the whole list again.",
			}
		}
		return swapNow{
			ui.Info, "Nothing is held and nothing is paid yet.",
			"Submit it: its whole sum is then held, its rows are checked, and another person approves it.",
		}
	case payout.Validating:
		return swapNow{
			ui.Info, "Its sum is held, and nothing is paid yet.",
			"Each row is checked as its payment will be. Then it waits for the approval of another person, " +
				"unless the operator lets a payout of this value go without one.",
		}
	case payout.Invalid:
		return swapNow{ui.Bad, "A row cannot be paid, so nothing was paid. " + isBack, ""}
	case payout.AwaitingApproval:
		return swapNow{
			ui.Wait, "Its sum is held, and nothing is paid yet.",
			"Another person than its maker looks at the totals and the rows, and approves it as a whole.",
		}
	case payout.Processing:
		return describePaying(b)
	case payout.Completed:
		return swapNow{ui.Good, "Every row is paid, and each payment is final.", ""}
	case payout.PartiallyCompleted:
		return swapNow{
			ui.Wait, strconv.Itoa(b.Counts.Paid) + " of " + countRows(b.Header.Rows) + " are paid for good.",
			"The amounts of the other rows are in the balance of batch payouts. A new draft of them can be approved.",
		}
	case payout.Failed:
		return swapNow{ui.Bad, "No row was paid. " + isBack, "Each row says why. A new draft of them can be approved."}
	case payout.Rejected:
		return swapNow{ui.Quiet, "A person rejected it, and nothing was paid. " + isBack, ""}
	}
	if b.Submitter == nil {
		return swapNow{ui.Quiet, "It was taken back. Nothing was held and nothing was paid.", ""}
	}
	return swapNow{ui.Quiet, "It was taken back, and nothing was paid. " + isBack, ""}
}

// describePaying is describeBatch for one whose rows are being paid.
func describePaying(b payout.Batch) swapNow {
	switch {
	case b.StoppedAt != nil:
		return swapNow{
			ui.Wait, "It was cancelled while it was being paid.",
			"What is sent already is paid. Every other amount returns to the balance of batch payouts.",
		}
	case b.PausedAt != nil && b.PauseReason != "":
		return swapNow{
			ui.Wait, "The service paused it: " + ui.EscapeForeign(b.PauseReason),
			"What is sent already is paid. The other rows wait until a person resumes it.",
		}
	case b.PausedAt != nil:
		return swapNow{
			ui.Wait, "It is paused. What is sent already is paid, and the other rows wait.",
			"Resume it to pay them, or cancel it to have their amounts back.",
		}
	}
	return swapNow{
		ui.Info, "It is approved, and its rows are being paid.",
		"A row that has to wait says for what. This page changes by itself.",
	}
}

// payoutLog is what the audit log says about a batch payout.
type payoutLog struct {
	entries []audit.Row // without the rows that are never paid
	refused []audit.Row // these
}

// loadPayoutLog reads what people and the service did with a batch payout.
func (d *dashboard) loadPayoutLog(r *pages.Request, b payout.Batch) (log payoutLog, err error) {
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		found, err := audit.List(ctx, tx, audit.Filter{OrgID: r.Session.OrgID, ResourceID: b.ID},
			pagination.Page{Limit: payoutLogMax})
		log = payoutLog{}
		for _, entry := range found.Items {
			if entry.Action == "payout.row_refused" {
				log.refused = append(log.refused, entry)
			} else {
				log.entries = append(log.entries, entry)
			}
		}
		return err
	})
	return log, err
}

// findApproval reports whether the person of a request has approved it, and whether that counts: a signature with too
// little time left does not.
func (l payoutLog) findApproval(r *pages.Request) (isApproved, counts bool) {
	for _, entry := range l.entries {
		if entry.Action != "payout.approval_added" && entry.Action != "payout.approved" || entry.Actor != actor(r) {
			continue
		}
		var detail struct {
			Signed *struct {
				Signature signer.KeySignature `json:"signature"`
			} `json:"signed"`
		}
		isApproved = true
		if json.Unmarshal(entry.Detail, &detail) != nil || detail.Signed == nil ||
			approver.HasTimeLeft(&detail.Signed.Signature, r.Now, approver.SignatureMargin) {
			return true, true
		}
	}
	return isApproved, false
}

// addPayoutStep adds what an entry of the log says about a batch payout.
func (v *payoutView) addPayoutStep(r *pages.Request, entry audit.Row, names people) {
	var detail struct {
		Reason   string `json:"reason"`
		Rows     int    `json:"rows"`
		Paid     int    `json:"paid"`
		Excluded []int  `json:"excluded"`
	}
	_ = json.Unmarshal(entry.Detail, &detail) // What is missing is not shown.
	step := timelineStep{
		Title: payoutStepTitle(entry.Action), Text: "By " + names.nameOf(entry.Actor, r.Session), Note: detail.Reason,
	}
	if step.Title == "" {
		return
	}
	switch {
	case entry.Action == "payout.checked" && len(detail.Excluded) > 0:
		step.Text = "It leaves out " + countRows(len(detail.Excluded)) + " that cannot be paid, so it has another hash"
	case entry.Action == "payout.partially_completed":
		step.Text = strconv.Itoa(detail.Paid) + " of " + countRows(detail.Rows)
	}
	v.addStep(r, &entry.RecordedAt, step)
}

// payoutStepTitle says what an entry of the log means, and "" for one that is not shown.
func payoutStepTitle(action string) string {
	switch action {
	case "payout.created":
		return "Uploaded"
	case "payout.submitted":
		return "Submitted: its sum is held"
	case "payout.checked":
		return "Its rows are checked"
	case "payout.approval_added":
		return "Approved by a person, and needs another one"
	case "payout.approved":
		return "Approved: its rows are paid"
	case "payout.invalid":
		return "A row cannot be paid"
	case "payout.rejected":
		return "Rejected"
	case "payout.cancelled":
		return "Cancelled"
	case "payout.stopped":
		return "Cancelled while it was being paid"
	case "payout.paused":
		return "Paused"
	case "payout.resumed":
		return "Resumed"
	case "payout.completed":
		return "Every row is paid"
	case "payout.partially_completed":
		return "Ended, with a part of its rows paid"
	case "payout.failed":
		return "Ended without a payment"
	}
	return ""
}

// addRefusedStep adds one step for all rows that are never paid: each of them says why.
func (v *payoutView) addRefusedStep(r *pages.Request, log payoutLog) {
	if n := len(log.refused); n > 0 {
		v.addStep(r, &log.refused[n-1].RecordedAt, timelineStep{
			Title: countRows(n) + " got no payment", Text: "Their amounts are in the balance of batch payouts again",
		})
	}
}

// explainActs says what the person can do about a batch payout. Rule PAGE-103.
func (v *payoutView) explainActs(r *pages.Request, b payout.Batch, log payoutLog) {
	isMaker, isStopper := r.IsAllowed(identity.ManageBatchPayouts), r.IsAllowed(identity.StopBatchPayout)
	isDecider := r.IsAllowed(identity.DecideWithdrawal)
	isRunning := b.Status == payout.Processing && b.StoppedAt == nil
	v.CanSubmit = isMaker && v.Stage == reviewStage
	v.CanCancel = isStopper && b.EndedAt == nil && (b.Status != payout.Processing || isRunning)
	v.CanPause = isStopper && isRunning && b.PausedAt == nil
	v.CanResume = isMaker && isRunning && b.PausedAt != nil
	v.CanRetry = isMaker && b.EndedAt != nil && b.Counts.Paid < b.Header.Rows
	if isMaker {
		v.FormPath = r.Path("payouts", "new")
	}
	switch {
	case isRunning:
		v.CancelText = "What is sent already is paid. Every other amount returns to the balance of batch payouts."
	case b.Submitter != nil:
		v.CancelText = "Nothing of it is paid, and its sum returns to the balance."
	default:
		v.CancelText = "Nothing is held for it, and nothing is paid."
	}
	if b.Status != payout.AwaitingApproval {
		return
	}
	v.CanReject, v.CanApprove = isDecider, isDecider
	isApproved, counts := log.findApproval(r)
	switch {
	case b.Maker == actor(r):
		v.CanApprove, v.WhyNot = false, "You made this payout, so another person has to approve it."
	case b.Submitter != nil && *b.Submitter == actor(r):
		v.CanApprove, v.WhyNot = false, "You submitted this payout, so another person has to approve it."
	case !isDecider:
		v.WhyNot = "Your roles show this payout and do not decide about it."
	case counts:
		v.CanApprove, v.WhyNot = false, "You approved it. Another person has to approve it, too."
	case isApproved:
		v.WhyNot = signAgainText
	}
}
