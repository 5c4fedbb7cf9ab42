package dashboard

import (
	"context"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// flaggedFilter selects the deposits that wait for a decision.
var flaggedFilter = deposit.Filter{Status: string(deposit.Flagged)}

// flaggedPage lists the flagged deposits.
func (d *dashboard) flaggedPage() pages.Page {
	return pages.Page{
		Path: "/approvals/flagged", Title: "Flagged deposits", Action: identity.ReadOrganization,
		Live:  []string{"DEPOSIT"},
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadFlagged, WriteCSV: d.writeDeposits(flaggedFilter),
	}
}

// historyPage lists the flagged deposits that were decided, redirects too.
func (d *dashboard) historyPage() pages.Page {
	return pages.Page{
		Path: "/approvals/history", Title: "Resolution history", Action: identity.ReadOrganization,
		Live:  []string{"DEPOSIT"},
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadHistory, WriteCSV: d.writeDeposits(everFlaggedFilter),
	}
}

// everFlaggedFilter selects the deposits that screening ever flagged.
var everFlaggedFilter = deposit.Filter{IsFlagged: new(true)}

// depositRow is a flagged deposit in a list.
type depositRow struct {
	Path                      string
	Figure, Symbol, Dollars   string
	Network, Customer, Sender string
	Severity, Entity          string
	Chip                      ui.Chip
	Detected                  ui.Moment
	Decision, DecidedBy       string
	Decided                   ui.Moment
	Destination, TxHash       string
}

// depositsView is what both lists show.
type depositsView struct {
	Tabs                []ui.Tab
	Rows                []depositRow
	FirstPath, NextPath string
	CSVPath             string
}

func (d *dashboard) listDeposits(
	r *pages.Request, f deposit.Filter, isShown func(deposit.Deposit) bool,
) (view depositsView, err error) {
	p, err := r.ReadPage()
	if err != nil {
		return view, err
	}
	var found pagination.Result[deposit.Deposit]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.List(ctx, tx, r.Session.OrgID, f, p)
		return err
	})
	if err != nil {
		return view, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return view, err
	}
	for _, item := range found.Items {
		if isShown(item) {
			view.Rows = append(view.Rows, newDepositRow(r, item, names))
		}
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	view.CSVPath = r.CSVPath()
	view.Tabs = approvalTabs(r, r.Title(), countText(len(view.Rows), found.NextCursor != nil))
	return view, nil
}

func (d *dashboard) loadFlagged(r *pages.Request) (templ.Component, error) {
	view, err := d.listDeposits(r, flaggedFilter, func(deposit.Deposit) bool { return true })
	if err != nil {
		return nil, err
	}
	return flaggedList(view), nil
}

func (d *dashboard) loadHistory(r *pages.Request) (templ.Component, error) {
	view, err := d.listDeposits(r, everFlaggedFilter, func(item deposit.Deposit) bool { return item.Resolution != nil })
	if err != nil {
		return nil, err
	}
	return historyList(view), nil
}

func newDepositRow(r *pages.Request, item deposit.Deposit, names people) depositRow {
	row := depositRow{
		Path: r.Path("approvals", "deposits", item.ID), Network: networkName(item.Chain),
		Severity: item.RiskOfFunds, Chip: depositChip(item.Status), Detected: r.Moment(item.CreatedAt),
	}
	row.Figure, row.Symbol = depositAmount(item)
	if item.USDValue != nil {
		row.Dollars = item.USDValue.Cents()
	}
	if item.CustomerID != nil {
		row.Customer = *item.CustomerID
	} else if item.Product != nil {
		row.Customer = productName(*item.Product)
	}
	if len(item.FromAddresses) > 0 {
		row.Sender = string(item.FromAddresses[0])
	}
	if item.FlagReason != nil && item.FlagReason.Entity != nil {
		row.Entity = *item.FlagReason.Entity
	}
	if made := item.Resolution; made != nil {
		row.Decision, row.DecidedBy, row.Decided = decisionText(made.Decision),
			names.nameOf(made.DecidedBy, r.Session), r.Moment(made.DecidedAt)
		if made.ToAddress != nil {
			row.Destination = string(*made.ToAddress)
		}
		if made.TxHash != nil {
			row.TxHash = string(*made.TxHash)
		}
	}
	return row
}

// depositAmount writes the amount of a deposit; of an unknown token in atomic units.
func depositAmount(item deposit.Deposit) (figure, symbol string) {
	if item.Mint == nil {
		return item.Amount.String(), "units"
	}
	return item.Amount.Decimal(item.Mint.Decimals), item.Mint.Symbol
}

func decisionText(decision string) string {
	switch decision {
	case "APPROVED":
		return "Approved"
	case "REJECTED":
		return "Rejected"
	case "REDIRECTED":
		return "Redirected"
	}
	return decision
}

var depositColumns = []kernel.Column[deposit.Deposit]{
	{Name: "depositId", Cell: func(d deposit.Deposit) string { return d.ID }},
	{Name: "createdAt", Cell: func(d deposit.Deposit) string { return webhook.At(d.CreatedAt).String() }},
	{Name: "customerId", Cell: func(d deposit.Deposit) string { return textOrEmpty(d.CustomerID) }},
	{Name: "product", Cell: func(d deposit.Deposit) string { return textOrEmpty(d.Product) }},
	{Name: "chain", Cell: func(d deposit.Deposit) string { return string(d.Chain) }},
	{Name: "symbol", Cell: func(d deposit.Deposit) string { _, symbol := depositAmount(d); return symbol }},
	{Name: "amount", Cell: func(d deposit.Deposit) string { return d.Amount.String() }},
	{Name: "amountDecimal", Cell: func(d deposit.Deposit) string { figure, _ := depositAmount(d); return figure }},
	{Name: "status", Cell: func(d deposit.Deposit) string { return string(d.Status) }},
	{Name: "riskOfFunds", Cell: func(d deposit.Deposit) string { return d.RiskOfFunds }},
	{Name: "txHash", Cell: func(d deposit.Deposit) string { return string(d.TxHash) }},
	{Name: "decision", Cell: func(d deposit.Deposit) string {
		if d.Resolution == nil {
			return ""
		}
		return d.Resolution.Decision
	}},
	{Name: "decidedAt", Cell: func(d deposit.Deposit) string {
		if d.Resolution == nil {
			return ""
		}
		return webhook.At(d.Resolution.DecidedAt).String()
	}},
}

func textOrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (d *dashboard) writeDeposits(f deposit.Filter) func(*pages.Request, *kernel.StreamWriter) error {
	return func(r *pages.Request, w *kernel.StreamWriter) error {
		return kernel.WriteTable(r.Context(), w, true, depositColumns,
			func(ctx context.Context, desc bool, row func(deposit.Deposit) error) error {
				return d.conf.DB.SnapshotOrg(ctx, r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
					return deposit.ForEach(ctx, tx, r.Session.OrgID, f, desc, row)
				})
			})
	}
}

// The names of the acts about the return of a deposit to its sender, besides signAct.
const (
	rejectAct     = "reject"
	takeReturnAct = "withdraw" // ends a return that waits for signatures
)

// requestName is the field with the return that waits for signatures.
const requestName = "return"

// flaggedReviewPage shows one flagged deposit and takes the decision about it.
func (d *dashboard) flaggedReviewPage() pages.Page {
	note := pages.Field{Name: "note", BytesMax: noteBytesMax, Optional: true}
	request := pages.Field{Name: requestName, BytesMax: wordBytesMax, Missing: "Open the page again."}
	return pages.Page{
		Path: "/approvals/deposits/{depositId}", Title: "Review of a flagged deposit",
		Live:   []string{"DEPOSIT"},
		Action: identity.ReadOrganization, Load: d.loadFlaggedReview,
		Acts: []pages.Act{
			{
				Name: approveAct, Action: identity.DecideFlaggedDeposit, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{note},
				FindDone: d.findResolution, Run: d.resolveDeposit((*deposit.Service).Approve),
			},
			{
				Name: rejectAct, Action: identity.DecideFlaggedDeposit, StepUp: pages.ActStepUp,
				Fields: []pages.Field{
					note, {Name: "returnRisk", BytesMax: noteBytesMax, Optional: true, Checkbox: true},
				},
				FindDone: d.findResolutionOrRisk, Run: d.resolveDeposit((*deposit.Service).AskReturn),
			},
			{
				Name: signAct, Action: identity.DecideFlaggedDeposit, Fields: approverpages.SignatureFields(request),
				FindDone: d.findSignedReturn, Run: d.signReturn,
			},
			{
				Name: takeReturnAct, Action: identity.DecideFlaggedDeposit, StepUp: pages.ActStepUp,
				Fields: []pages.Field{request}, FindDone: d.findReturnEnd, Run: d.takeReturnBack,
			},
		},
	}
}

func (d *dashboard) loadDeposit(r *pages.Request) (item deposit.Deposit, err error) {
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		item, err = deposit.Load(ctx, tx, r.Session.OrgID, r.PathParam("depositId"))
		return err
	})
	return item, err
}

// findResolution returns the page of a deposit that does not wait for a decision any more.
func (d *dashboard) findResolution(r *pages.Request) (string, error) {
	item, err := d.loadDeposit(r)
	if err != nil || item.Status == deposit.Flagged {
		return "", err
	}
	return r.Path("approvals", "deposits", item.ID), nil
}

func (d *dashboard) resolveDeposit(
	resolve func(*deposit.Service, context.Context, string, deposit.Actor, string) (deposit.Deposit, error),
) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		item, err := resolve(d.conf.Deposits, r.Context(), r.PathParam("depositId"), decider(r), r.Values["note"])
		if err != nil {
			return "", err
		}
		return r.Path("approvals", "deposits", item.ID), nil
	}
}

// loadReturn returns what the rule asks of the return of a deposit, and the return that waits for signatures.
func (d *dashboard) loadReturn(r *pages.Request) (deposit.ReturnReview, error) {
	return d.conf.Deposits.LoadReturn(r.Context(), r.Session.OrgID, r.PathParam("depositId"))
}

// findSignedReturn returns the page of a deposit whose return does not wait for this person any more.
func (d *dashboard) findSignedReturn(r *pages.Request) (string, error) {
	review, err := d.loadReturn(r)
	switch {
	case err != nil:
		return "", err
	case review.Request == nil:
		return d.findResolution(r)
	case review.Request.IsSignedBy(actor(r)):
		return r.Path("approvals", "deposits", r.PathParam("depositId")), nil
	}
	return "", nil
}

// findReturnEnd returns the page of a deposit whose return does not wait for signatures any more.
func (d *dashboard) findReturnEnd(r *pages.Request) (string, error) {
	review, err := d.loadReturn(r)
	if err != nil || review.Request != nil && review.Request.ID == r.Values[requestName] {
		return "", err
	}
	return r.Path("approvals", "deposits", r.PathParam("depositId")), nil
}

// decider returns the person who decides about a flagged deposit.
func decider(r *pages.Request) deposit.Actor {
	return deposit.Actor{Actor: actor(r), Name: r.Session.Member.Name, OrgID: r.Session.OrgID}
}

// signReturn approves a return with the signature of the person's passkey over the words on the page. Rule PAGE-112.
func (d *dashboard) signReturn(r *pages.Request) (string, error) {
	signature, err := approverpages.ReadSignature(r)
	if err != nil {
		return "", err
	}
	item, err := d.conf.Deposits.SignReturn(
		r.Context(), r.PathParam("depositId"), r.Values[requestName], decider(r), signature,
	)
	if err != nil {
		return "", err
	}
	return r.Path("approvals", "deposits", item.ID), nil
}

func (d *dashboard) takeReturnBack(r *pages.Request) (string, error) {
	item, err := d.conf.Deposits.WithdrawReturn(
		r.Context(), r.PathParam("depositId"), r.Values[requestName], decider(r),
	)
	if err != nil {
		return "", err
	}
	return r.Path("approvals", "deposits", item.ID), nil
}

// findResolutionOrRisk is findResolution for a rejection. Where the return is risky, the person has to
// confirm the risk that the page showed. It is asked before the second factor, so a forgotten tick uses no
// code up.
func (d *dashboard) findResolutionOrRisk(r *pages.Request) (string, error) {
	item, err := d.loadDeposit(r)
	if err != nil {
		return "", err
	}
	if item.Status != deposit.Flagged {
		return r.Path("approvals", "deposits", item.ID), nil
	}
	review, err := d.loadReturn(r)
	if err != nil {
		return "", err
	}
	if review.Request != nil {
		return r.Path("approvals", "deposits", item.ID), nil
	}
	if returnRiskText(item.ReturnAddressRisk) != "" && r.Values["returnRisk"] != item.ReturnAddressRisk {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.Undecided,
			"Confirm that you have read why the return is risky.").WithParam("returnRisk")
	}
	return "", nil
}

// returnRiskText says why it is risky to return a deposit, and "" if it is not.
func returnRiskText(risk string) string {
	switch risk {
	case "MULTIPLE_INPUTS":
		return "There is no single sender. Only the operator of this service can return it."
	case "CONTRACT":
		return "The sender is a contract. Money that is returned to it may be lost."
	case "KNOWN_EXCHANGE":
		return "The sender is an exchange. It may not know whose money it gets back."
	case "SWAP_SOLVER":
		return "The sender is a swap service. Only the operator of this service can return it."
	}
	return ""
}

// flaggedView is what the page of a flagged deposit shows.
type flaggedView struct {
	ListPath, Path          string
	Figure, Symbol, Dollars string
	Chip                    ui.Chip
	FlagFacts, DepositFacts []ui.Fact
	Attempts                []stepRow
	Form                    ui.Form
	CanDecide               bool
	ReturnRisk, RiskText    string
	DecidedText             string
	PeopleText              string      // how many people sign a return by the rule; "" without one
	Return                  *returnView // waits for signatures; nil: no one has asked for it
}

// returnView is a return that waits for signatures.
type returnView struct {
	RequestID, AskedText, SignedText string
	Sign                             *approverpages.SignerView // nil: this person does not sign it
	WhyNot                           string                    // why not
}

// addReturn adds what the organization's rule asks of a return.
func (d *dashboard) addReturn(r *pages.Request, names people, view *flaggedView) error {
	review, err := d.loadReturn(r)
	if err != nil {
		return err
	}
	if review.People > 0 {
		view.PeopleText = approverpages.CountSigners(review.People)
	}
	q := review.Request
	if q == nil {
		return nil
	}
	view.Return = &returnView{
		RequestID: q.ID,
		AskedText: "Asked for by " + names.nameOf(q.AskedBy, r.Session) + ", " +
			ui.FormatAge(r.Moment(q.AskedAt)) + ".",
		SignedText: strconv.Itoa(len(q.SignedBy)) + " of " + strconv.Itoa(max(review.People, 1)) +
			" signatures are there.",
	}
	switch {
	case q.AskedBy == actor(r):
		view.Return.WhyNot = "You asked for this return, so another person signs it."
		return nil
	case q.IsSignedBy(actor(r)):
		view.Return.WhyNot = "You signed it. Another person has to sign it, too."
		return nil
	case review.NoWords != nil:
		view.Return.WhyNot = review.NoWords.Reason
		return nil
	}
	view.Return.Sign, err = d.approvers().NewSignerView(r, max(review.People, 1), ui.SignView{
		Form: r.Form, Act: signAct, Path: view.Path + "/" + signAct,
		Words:  approverpages.WordsOf(r, actor(r), review.Statement),
		Hidden: []ui.Hidden{{Name: requestName, Value: q.ID}},
		Button: "Sign and return this deposit", IsDanger: true,
	})
	return err
}

func (d *dashboard) loadFlaggedReview(r *pages.Request) (templ.Component, error) {
	item, err := d.loadDeposit(r)
	if err != nil {
		return nil, err
	}
	if !item.IsFlagged {
		return nil, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"Screening did not flag this deposit.").WithStep(fault.ListFlaggedDeposits)
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	row := newDepositRow(r, item, names)
	view := flaggedView{
		ListPath: r.Path("approvals", "flagged"), Path: row.Path, Figure: row.Figure, Symbol: row.Symbol,
		Dollars: row.Dollars, Chip: row.Chip, Form: r.Form,
		CanDecide:  item.Status == deposit.Flagged && r.IsAllowed(identity.DecideFlaggedDeposit),
		ReturnRisk: item.ReturnAddressRisk, RiskText: returnRiskText(item.ReturnAddressRisk),
		FlagFacts: whyFlagged(r, item), DepositFacts: aboutDeposit(r, item, row),
	}
	if row.Decision != "" {
		view.DecidedText = row.Decision + " by " + row.DecidedBy + ", " + ui.FormatAge(row.Decided) + "."
	}
	for _, attempt := range item.ResolutionAttempts {
		view.Attempts = append(view.Attempts, stepRow{
			Title: "An attempt that failed before anything was sent", Name: decisionText(attempt.Action),
			Note: attempt.Message, Moment: r.Moment(attempt.EndedAt),
		})
	}
	if view.CanDecide {
		if err := d.addReturn(r, names, &view); err != nil {
			return nil, err
		}
	}
	return reviewOfDeposit(view), nil
}

func whyFlagged(r *pages.Request, item deposit.Deposit) []ui.Fact {
	facts := []ui.Fact{{Name: "Severity", Value: severityChip(item.RiskOfFunds)}}
	if reason := item.FlagReason; reason != nil {
		if reason.Score != nil {
			facts = append(facts, ui.Fact{Name: "Score", Value: ui.Text(strconv.Itoa(*reason.Score))})
		}
		if reason.Entity != nil {
			facts = append(facts, ui.Fact{Name: "Entity", Value: ui.Foreign(*reason.Entity)})
		}
		if len(reason.Categories) > 0 {
			facts = append(facts, ui.Fact{Name: "Categories", Value: ui.Foreign(strings.Join(reason.Categories, ", "))})
		}
		if reason.Provider != nil {
			facts = append(facts, ui.Fact{Name: "Said by", Value: ui.Foreign(*reason.Provider)})
		}
	}
	if fresh := item.FreshScreening; fresh != nil {
		facts = append(facts,
			ui.Fact{Name: "Screened again", Value: severityChip(fresh.Severity)},
			ui.Fact{Name: "Latest verdict", Value: ui.When(r.Moment(fresh.ScreenedAt))},
		)
	}
	return facts
}

func aboutDeposit(r *pages.Request, item deposit.Deposit, row depositRow) []ui.Fact {
	facts := []ui.Fact{{Name: "Customer", Value: ui.Foreign(row.Customer)}}
	for _, sender := range item.FromAddresses {
		facts = append(facts, ui.Fact{Name: "Sender", Value: ui.Address(string(sender))})
	}
	facts = append(facts,
		ui.Fact{Name: "Arrived at", Value: ui.Address(string(item.Address))},
		ui.Fact{Name: "Network", Value: ui.Text(row.Network)},
		ui.Fact{Name: "Transaction", Value: ui.Address(string(item.TxHash))},
		ui.Fact{Name: "Seen", Value: ui.When(r.Moment(item.CreatedAt))},
		ui.Fact{
			Name: "All of its steps", Value: pathLink(transactionPath(r, depositKind, item.ID), "Show the timeline"),
		},
	)
	if item.DepositSwapID != "" {
		facts = append(facts, depositSwapFact(r, item.DepositSwapID))
	}
	if item.CheckoutID != "" {
		facts = append(facts, ui.Fact{Name: "Checkout", Value: copiedText(item.CheckoutID)})
	}
	if item.Memo != nil {
		facts = append(facts, ui.Fact{Name: "Memo of the payer", Value: ui.Foreign(*item.Memo)})
	}
	if made := item.Resolution; made != nil {
		facts = append(facts,
			ui.Fact{Name: "Decision", Value: ui.Text(row.Decision + " by " + row.DecidedBy)},
			ui.Fact{Name: "Decided", Value: ui.When(row.Decided)},
		)
		if made.Note != nil {
			facts = append(facts, ui.Fact{Name: "Note", Value: ui.Foreign(*made.Note)})
		}
		if row.Destination != "" {
			facts = append(facts, ui.Fact{Name: "Sent to", Value: ui.Address(row.Destination)})
		}
		if row.TxHash != "" {
			facts = append(facts, ui.Fact{Name: "Transaction of the return", Value: ui.Address(row.TxHash)})
		}
	}
	return facts
}

func severityChip(severity string) templ.Component {
	chip := ui.Chip{Kind: ui.Quiet, Word: "Unknown"}
	switch severity {
	case "NONE", "LOW":
		chip = ui.Chip{Kind: ui.Good, Word: "Low"}
	case "MEDIUM":
		chip = ui.Chip{Kind: ui.Wait, Word: "Medium"}
	case "HIGH":
		chip = ui.Chip{Kind: ui.Bad, Word: "High"}
	case "SEVERE":
		chip = ui.Chip{Kind: ui.Bad, Word: "Severe"}
	}
	return ui.StateChip(chip)
}
