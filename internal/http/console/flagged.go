package console

import (
	"context"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// flaggedPage lists the flagged deposits of all organizations.
func (c *console) flaggedPage() pages.Page {
	return pages.Page{
		Path: "/flagged", Title: "Flagged deposits", Action: identity.ReadInstallation, Group: moneyGroup,
		Icon: "bad", Shortcut: "f",
		Query: []kernel.Parameter{
			pages.CursorParameter, textFilter("status"), textFilter("organizationId"), textFilter("chain"),
		},
		Live: []string{"DEPOSIT"}, Load: c.loadFlagged, WriteCSV: c.writeFlagged,
	}
}

func (c *console) listFlagged(
	r *pages.Request, p pagination.Page,
) (found pagination.Result[deposit.OrgDeposit], err error) {
	f := deposit.Filter{IsFlagged: new(true), Status: r.Query["status"], Chain: r.Query["chain"]}
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.ListAcrossOrgs(ctx, tx, r.Query["organizationId"], f, p)
		return err
	})
	return found, err
}

// listView is what a list with filters shows.
type listView struct {
	Path, CSVPath       string
	Filters             []filter
	Table               table
	FirstPath, NextPath string
}

func (c *console) loadFlagged(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listFlagged(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := listView{
		Path: r.Path("flagged"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r,
			filter{Name: "status", Label: "State", Options: append([]option{{"", "All"}}, depositOptions()...)},
			filter{Name: "organizationId", Label: "Organization"},
			filter{
				Name: "chain", Label: "Network",
				Options: append([]option{{"", "All"}}, chainOptions(c.chainNames())...),
			}),
		Table: table{Caption: "Flagged deposits", Columns: []column{
			{Title: "State"},
			{Title: "Amount", IsNumber: true},
			{Title: "Organization"},
			{Title: "Sender"},
			{Title: "Severity"},
			{Title: "Detected"},
			{Title: "Open", IsUnseen: true},
		}},
	}
	for _, item := range found.Items {
		d := item.Deposit
		figure, symbol := depositAmount(d)
		view.Table.addRow(
			ui.StateChip(depositChip(d.Status)), pair(ui.Amount(figure, symbol), dollarsOf(d)),
			link(r.Path("organizations", item.OrgID), names.nameOf(item.OrgID)),
			pair(ui.ShortAddress(senderOf(d)), ui.Text(networkName(d.Chain))), ui.Text(wordOf(d.RiskOfFunds)),
			ui.When(r.Moment(d.CreatedAt)),
			openLink(r.Path("flagged", d.ID), "Open", figure+" "+ui.EscapeForeign(symbol)),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return flaggedList(view), nil
}

func depositOptions() []option {
	return []option{
		{string(deposit.Flagged), "Waits for a decision"},
		{string(deposit.ResolutionStuck), "Return is stuck"},
		{string(deposit.Rejecting), "Being returned"},
		{string(deposit.Redirecting), "Being redirected"},
		{string(deposit.Rejected), "Returned"},
		{string(deposit.Redirected), "Redirected"},
		{string(deposit.Credited), "Credited"},
	}
}

// orgNames are the names of organizations by id.
type orgNames map[string]string

func (n orgNames) nameOf(orgID string) string {
	if name := n[orgID]; name != "" {
		return ui.EscapeForeign(name)
	}
	return orgID
}

// loadOrgNames returns the names of all organizations.
func (c *console) loadOrgNames(r *pages.Request) (orgNames, error) {
	names := orgNames{}
	err := c.read(r, func(ctx context.Context, tx pg.Tx) error {
		found, err := org.ListAll(ctx, tx)
		for _, o := range found {
			names[o.ID] = o.Name
		}
		return err
	})
	return names, err
}

// depositAmount writes the amount of a deposit; of an unknown token in atomic units.
func depositAmount(d deposit.Deposit) (figure, symbol string) {
	if d.Mint == nil {
		return d.Amount.String(), "units"
	}
	return d.Amount.Decimal(d.Mint.Decimals), d.Mint.Symbol
}

func dollarsOf(d deposit.Deposit) templ.Component {
	if d.USDValue == nil {
		return ui.Dollars("")
	}
	return ui.Dollars(d.USDValue.Cents())
}

func senderOf(d deposit.Deposit) string {
	if len(d.FromAddresses) == 0 {
		return ""
	}
	return string(d.FromAddresses[0])
}

var flaggedColumns = []kernel.Column[deposit.OrgDeposit]{
	{Name: "depositId", Cell: func(o deposit.OrgDeposit) string { return o.Deposit.ID }},
	{Name: "organizationId", Cell: func(o deposit.OrgDeposit) string { return o.OrgID }},
	{Name: "createdAt", Cell: func(o deposit.OrgDeposit) string { return webhook.At(o.Deposit.CreatedAt).String() }},
	{Name: "customerId", Cell: func(o deposit.OrgDeposit) string { return textOrEmpty(o.Deposit.CustomerID) }},
	{Name: "chain", Cell: func(o deposit.OrgDeposit) string { return string(o.Deposit.Chain) }},
	{Name: "symbol", Cell: func(o deposit.OrgDeposit) string { _, symbol := depositAmount(o.Deposit); return symbol }},
	{Name: "amount", Cell: func(o deposit.OrgDeposit) string { return o.Deposit.Amount.String() }},
	{
		Name: "amountDecimal",
		Cell: func(o deposit.OrgDeposit) string { figure, _ := depositAmount(o.Deposit); return figure },
	},
	{Name: "status", Cell: func(o deposit.OrgDeposit) string { return string(o.Deposit.Status) }},
	{Name: "riskOfFunds", Cell: func(o deposit.OrgDeposit) string { return o.Deposit.RiskOfFunds }},
	{Name: "fromAddress", Cell: func(o deposit.OrgDeposit) string { return senderOf(o.Deposit) }},
	{Name: "txHash", Cell: func(o deposit.OrgDeposit) string { return string(o.Deposit.TxHash) }},
}

func (c *console) writeFlagged(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, flaggedColumns, eachOf(
		func(p pagination.Page) (pagination.Result[deposit.OrgDeposit], error) { return c.listFlagged(r, p) }))
}

// depositPage shows one flagged deposit and takes the decisions of an operator.
func (c *console) depositPage() pages.Page {
	note := noteField()
	decide := func(name string, action identity.Action, isDone func(deposit.Status) bool,
		resolve func(*deposit.Service, context.Context, string, deposit.Actor, string) (deposit.Deposit, error),
	) pages.Act {
		return pages.Act{
			Name: name, Action: action, StepUp: pages.ActStepUp, Fields: []pages.Field{note},
			FindDone: c.findDecided(isDone),
			Run: func(r *pages.Request) (string, error) {
				return depositResult(r, func() (deposit.Deposit, error) {
					return resolve(c.conf.Deposits, r.Context(), r.PathParam("depositId"), decider(r), r.Values["note"])
				})
			},
		}
	}
	isDecided := func(status deposit.Status) bool { return status != deposit.Flagged }
	isNotStuck := func(status deposit.Status) bool { return status != deposit.ResolutionStuck }
	return pages.Page{
		Path: "/flagged/{depositId}", Title: "Flagged deposit", Action: identity.ReadInstallation,
		Live: []string{"DEPOSIT"}, Load: c.loadDepositPage,
		Acts: append([]pages.Act{
			decide("approve", identity.DecideFlaggedDeposit, isDecided, (*deposit.Service).Approve),
			c.rejectAct(note, isDecided),
			decide("complete", identity.CompleteResolution, isNotStuck, (*deposit.Service).Complete),
			{
				Name: "rescreen", Action: identity.RescreenSender, StepUp: pages.SudoStepUp,
				FindDone: c.findDecided(isDecided),
				Run: func(r *pages.Request) (string, error) {
					return depositResult(r, func() (deposit.Deposit, error) {
						return c.conf.Rescreens.RescreenDeposit(r.Context(), r.PathParam("depositId"), decider(r))
					})
				},
			},
		}, c.redirectActs(note, isDecided)...),
	}
}

// riskField is the box that confirms a risky return. Its value is the risk that the page showed.
const riskField = "returnRisk"

// rejectAct returns a deposit to its sender. Where the return is risky the operator has to confirm the risk that
// the page showed. It is asked before the second factor, so a forgotten tick uses no code up. An operator may
// also return what an organization may not: from a swap service. Rule PAGE-71.
func (c *console) rejectAct(note pages.Field, isDecided func(deposit.Status) bool) pages.Act {
	return pages.Act{
		Name: "reject", Action: identity.DecideFlaggedDeposit, StepUp: pages.ActStepUp,
		Fields: []pages.Field{note, {Name: riskField, BytesMax: idBytesMax, Optional: true, Checkbox: true}},
		FindDone: func(r *pages.Request) (string, error) {
			_, d, err := c.loadDeposit(r)
			switch {
			case err != nil:
				return "", err
			case isDecided(d.Status):
				return r.Path("flagged", d.ID), nil
			case returnRiskText(d.ReturnAddressRisk) != "" && r.Values[riskField] != d.ReturnAddressRisk:
				return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.Undecided,
					"Confirm that you have read why the return is risky.").WithParam(riskField)
			}
			return "", nil
		},
		Run: func(r *pages.Request) (string, error) {
			return depositResult(r, func() (deposit.Deposit, error) {
				return c.conf.Deposits.AskReturn(r.Context(), r.PathParam("depositId"), decider(r), r.Values["note"])
			})
		},
	}
}

func depositResult(r *pages.Request, resolve func() (deposit.Deposit, error)) (string, error) {
	d, err := resolve()
	if err != nil {
		return "", err
	}
	return r.Path("flagged", d.ID), nil
}

// findDecided returns the page of a deposit for which an act has nothing to do any more.
func (c *console) findDecided(isDone func(deposit.Status) bool) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		_, d, err := c.loadDeposit(r)
		if err != nil || !isDone(d.Status) {
			return "", err
		}
		return r.Path("flagged", d.ID), nil
	}
}

// loadDeposit reads the deposit of the path and its organization.
func (c *console) loadDeposit(r *pages.Request) (owner org.Organization, d deposit.Deposit, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) error {
		ownerID, err := deposit.OwnerOf(ctx, tx, r.PathParam("depositId"))
		if err != nil {
			return err
		}
		if owner, err = org.ByID(ctx, tx, ownerID); err != nil {
			return err
		}
		d, err = deposit.Load(ctx, tx, ownerID, r.PathParam("depositId"))
		return err
	})
	return owner, d, err
}

// depositView is what the page of a deposit shows.
type depositView struct {
	Figure, Symbol, Dollars string
	Chip                    ui.Chip
	FlagFacts, DepositFacts []ui.Fact
	Attempts                []string
	RiskText                string
	Acts                    []actView
	Redirect                *redirectView // waits for signatures
	DecidedText             string
}

func (c *console) loadDepositPage(r *pages.Request) (templ.Component, error) {
	owner, d, err := c.loadDeposit(r)
	if err != nil {
		return nil, err
	}
	var names holders
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		names, err = loadHolders(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := depositView{
		Chip: depositChip(d.Status), FlagFacts: flagFacts(r, d), DepositFacts: depositFacts(r, owner, d),
		RiskText: c.riskText(d),
	}
	view.Figure, view.Symbol = depositAmount(d)
	if d.USDValue != nil {
		view.Dollars = d.USDValue.Cents()
	}
	for _, attempt := range d.ResolutionAttempts {
		view.Attempts = append(view.Attempts, wordOf(attempt.Action)+": "+attempt.Message)
	}
	if made := d.Resolution; made != nil {
		view.DecidedText = wordOf(made.Decision) + " by " + names.nameOf(made.DecidedBy) + ", " +
			ui.FormatAge(r.Moment(made.DecidedAt)) + "."
		view.FlagFacts = append(view.FlagFacts, resolutionFacts(made)...)
	}
	people := 0 // who sign a redirect
	if d.Status == deposit.Flagged {
		redirect, err := c.loadRedirect(r)
		if err != nil {
			return nil, err
		}
		if people = redirect.People; redirect.Request != nil {
			if view.Redirect, err = c.newRedirectView(r, names, redirect); err != nil {
				return nil, err
			}
			return depositOverview(view), nil
		}
		review, err := c.conf.Deposits.LoadReturn(r.Context(), owner.ID, d.ID)
		if err != nil {
			return nil, err
		}
		if q := review.Request; q != nil {
			view.FlagFacts = append(view.FlagFacts, ui.Fact{
				Name: "Return", Value: ui.Text("Asked for by " + names.nameOf(q.AskedBy) + ", " +
					ui.FormatAge(r.Moment(q.AskedAt)) + ". It waits for signatures of people of the organization."),
			})
		}
	}
	view.Acts = c.depositActs(r, d, people)
	return depositOverview(view), nil
}

// isReturnBlocked reports whether the installation returns nothing to the sender, who is on a list of sanctions.
func (c *console) isReturnBlocked(d deposit.Deposit) bool {
	return c.conf.Deposits.BlockSanctioned && d.FlagReason != nil && d.FlagReason.Sanctioned
}

// riskText says why a return is risky or blocked, and "" if it is neither.
func (c *console) riskText(d deposit.Deposit) string {
	if c.isReturnBlocked(d) {
		return "The sender is on a list of sanctions, and this installation returns nothing to such a sender. " +
			"Redirect it."
	}
	return returnRiskText(d.ReturnAddressRisk)
}

// depositActs are the acts that the state of a deposit allows. people is how many operators sign a redirect.
func (c *console) depositActs(r *pages.Request, d deposit.Deposit, people int) (acts []actView) {
	path := r.Path("flagged", d.ID)
	figure, symbol := depositAmount(d)
	amount := ui.GroupDigits(figure) + " " + ui.EscapeForeign(symbol)
	if d.Status == deposit.ResolutionStuck && r.IsAllowed(identity.CompleteResolution) {
		acts = append(acts, actView{
			Path: path, Act: "complete", Form: r.Form, Button: "Send " + amount + " again", TakesCode: true,
			IsPrimary: true,
			Text:      "It goes to the same address. Nothing is sent while an earlier transaction can still be final.",
			Inputs:    []ui.Input{noteInput("complete")},
		})
	}
	if d.Status != deposit.Flagged {
		return acts
	}
	if r.IsAllowed(identity.RedirectFlaggedDeposit) {
		acts = append(acts, newRedirectForm(r, path, amount, people))
	}
	if r.IsAllowed(identity.RescreenSender) {
		acts = append(acts, actView{
			Path: path, Act: "rescreen", Form: r.Form, Button: "Screen the sender again",
			Text: "It takes up to half a minute and decides nothing.",
		})
	}
	if r.IsAllowed(identity.DecideFlaggedDeposit) {
		if d.ReturnTo != "" && !c.isReturnBlocked(d) {
			acts = append(acts, newRejectForm(r, path, d))
		}
		acts = append(acts, actView{
			Path: path, Act: "approve", Form: r.Form, Button: "Approve " + amount, TakesCode: true,
			Text:   "An approval credits the customer at once. Normally the organization decides.",
			Inputs: []ui.Input{noteInput("approve")},
		})
	}
	return acts
}

// newRedirectForm is the form that sends a deposit to another address, or asks for it where operators sign.
func newRedirectForm(r *pages.Request, path, amount string, people int) actView {
	f := actView{
		Path: path, Act: "redirect", Form: r.Form, Button: "Redirect " + amount, TakesCode: true, IsDanger: true,
		Text: "The deposit goes to another address and does not come back.",
		Inputs: []ui.Input{
			{
				Act: "redirect", Name: "toAddress", Label: "Address", Type: "text", MaxLength: addressMax,
				Autocomplete: "off",
			},
			{
				Act: "redirect", Name: "reference", Label: "Reference of the case or order", Type: "text",
				MaxLength:    500,
				Autocomplete: "off",
			},
			noteInput("redirect"),
		},
		Choices: []choice{{Act: "redirect", Name: "reason", Label: "Reason", Options: []option{
			{deposit.ComplianceHold, "Compliance hold"}, {deposit.LawEnforcement, "Order of law enforcement"},
		}}},
	}
	if people > 0 {
		f.Button = "Ask for the redirect of " + amount
		f.Text += " " + approverWords.AskText(people) +
			" You are none of them, and nothing leaves before they have signed."
	}
	return f
}

// newRejectForm is the form that returns a deposit. It shows the whole address, and asks for a tick where the
// return is risky.
func newRejectForm(r *pages.Request, path string, d deposit.Deposit) actView {
	f := actView{
		Path: path, Act: "reject", Form: r.Form, Button: "Reject this deposit", TakesCode: true, IsDanger: true,
		Text:   "A rejection returns it to the sender.",
		Shown:  []ui.Fact{{Name: "It goes back to", Value: ui.Address(d.ReturnTo)}},
		Inputs: []ui.Input{noteInput("reject")},
	}
	if text := returnRiskText(d.ReturnAddressRisk); text != "" {
		f.Warning = text
		f.Ticks = []tick{{Name: riskField, Value: d.ReturnAddressRisk, Label: "Return it in spite of that"}}
	}
	return f
}

func depositFacts(r *pages.Request, owner org.Organization, d deposit.Deposit) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Organization", Value: link(r.Path("organizations", owner.ID), ui.EscapeForeign(owner.Name))},
		{Name: "Customer", Value: foreignOrNothing(textOrEmpty(d.CustomerID), wordOf(textOrEmpty(d.Product)))},
		{Name: "Network", Value: ui.Text(networkName(d.Chain))},
		{Name: "Received at", Value: ui.Address(string(d.Address))},
		{Name: "Transaction", Value: ui.Code(string(d.TxHash))},
		{Name: "Detected", Value: ui.When(r.Moment(d.CreatedAt))},
		{Name: "Deposit", Value: ui.Code(d.ID)},
	}
	if d.DepositSwapID != "" {
		facts = append(facts, ui.Fact{
			Name:  "Arrived for",
			Value: link(r.Path("deposit-swaps", d.DepositSwapID), "A deposit swap of this customer"),
		})
	}
	if d.CheckoutID != "" {
		facts = append(facts, ui.Fact{Name: "Checkout", Value: ui.Code(d.CheckoutID)})
	}
	if memo := textOrEmpty(d.Memo); memo != "" {
		facts = append(facts, ui.Fact{Name: "Memo of the payer", Value: ui.Foreign(memo)})
	}
	return facts
}

func flagFacts(r *pages.Request, d deposit.Deposit) []ui.Fact {
	facts := make([]ui.Fact, 0, len(d.FromAddresses))
	for _, sender := range d.FromAddresses {
		facts = append(facts, ui.Fact{Name: "Sender", Value: ui.Address(string(sender))})
	}
	facts = append(facts, ui.Fact{Name: "Severity", Value: ui.Text(wordOf(d.RiskOfFunds))})
	if reason := d.FlagReason; reason != nil {
		facts = append(facts, ui.Fact{
			Name: "Provider", Value: foreignOrNothing(textOrEmpty(reason.Provider), "none answered"),
		})
		if reason.Score != nil {
			facts = append(facts, ui.Fact{Name: "Score", Value: ui.Text(strconv.Itoa(*reason.Score) + " of 100")})
		}
		if reason.Entity != nil {
			facts = append(facts, ui.Fact{Name: "Entity", Value: ui.Foreign(*reason.Entity)})
		}
		if len(reason.Categories) > 0 {
			facts = append(facts, ui.Fact{Name: "Categories", Value: ui.Foreign(strings.Join(reason.Categories, ", "))})
		}
	}
	if fresh := d.FreshScreening; fresh != nil {
		facts = append(facts, ui.Fact{Name: "Screened again", Value: pair(
			ui.Text(wordOf(fresh.Severity)), ui.When(r.Moment(fresh.ScreenedAt)))})
	}
	return facts
}

func resolutionFacts(made *deposit.Resolution) (facts []ui.Fact) {
	if made.ToAddress != nil {
		facts = append(facts, ui.Fact{Name: "Sent to", Value: ui.Address(string(*made.ToAddress))})
	}
	if made.TxHash != nil {
		facts = append(facts, ui.Fact{Name: "Its transaction", Value: ui.Code(string(*made.TxHash))})
	}
	for _, item := range []struct {
		name string
		text *string
	}{{"Reason", made.Reason}, {"Reference", made.Reference}, {"Note", made.Note}} {
		if text := textOrEmpty(item.text); text != "" {
			facts = append(facts, ui.Fact{Name: item.name, Value: ui.Foreign(text)})
		}
	}
	return facts
}

// returnRiskText says why it is risky to return a deposit, and "" if it is not.
func returnRiskText(risk string) string {
	switch risk {
	case "MULTIPLE_INPUTS":
		return "There is no single sender, so it cannot be rejected. Redirect it."
	case "CONTRACT":
		return "The sender is a contract. Money that is returned to it may be lost."
	case "KNOWN_EXCHANGE":
		return "The sender is an exchange. It may not know whose money it gets back."
	case "SWAP_SOLVER":
		return "The sender is a swap service, so the organization cannot reject it. A return pays the service, not " +
			"the owner."
	}
	return ""
}

// depositChip writes the status of a deposit for people.
func depositChip(status deposit.Status) ui.Chip {
	switch status {
	case deposit.Confirming:
		return ui.Chip{Kind: ui.Info, Word: "Confirming"}
	case deposit.Screening:
		return ui.Chip{Kind: ui.Info, Word: "Being screened"}
	case deposit.Credited:
		return ui.Chip{Kind: ui.Good, Word: "Credited"}
	case deposit.Reversed:
		return ui.Chip{Kind: ui.Bad, Word: "Taken back"}
	case deposit.Orphaned:
		return ui.Chip{Kind: ui.Quiet, Word: "No longer on the chain"}
	case deposit.Unsupported:
		return ui.Chip{Kind: ui.Quiet, Word: "Unknown token"}
	case deposit.BelowMinimum:
		return ui.Chip{Kind: ui.Quiet, Word: "Below the minimum"}
	case deposit.Flagged:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for a decision"}
	case deposit.Rejecting:
		return ui.Chip{Kind: ui.Info, Word: "Being returned"}
	case deposit.Redirecting:
		return ui.Chip{Kind: ui.Info, Word: "Being redirected"}
	case deposit.ResolutionStuck:
		return ui.Chip{Kind: ui.Bad, Word: "Return is stuck"}
	case deposit.Rejected:
		return ui.Chip{Kind: ui.Good, Word: "Returned"}
	case deposit.Redirected:
		return ui.Chip{Kind: ui.Good, Word: "Redirected"}
	}
	return ui.Chip{}
}

// networkName writes a chain for people.
func networkName(name chain.Name) string {
	if name == chain.BSC {
		return "BNB Smart Chain"
	}
	return wordOf(name)
}
