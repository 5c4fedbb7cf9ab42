package dashboard

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// The names of the acts of forms that lead to a second page, and of what that page does.
const (
	continueAct = "continue" // checks the form and leads to the page that asks for the second factor
	requestAct  = "request"
)

const (
	entryBytesMax  = 64
	flagBytesMax   = 16
	amountBytesMax = 120 // of the largest amount with all its decimals
)

// The parameters of the page that asks for the second factor.
var (
	toParameter     = kernel.Parameter{Name: "to", Kind: kernel.TextParameter, Max: entryBytesMax}
	amountParameter = kernel.Parameter{Name: "amount", Kind: kernel.TextParameter, Max: amountBytesMax}
	maxParameter    = kernel.Parameter{Name: "max", Kind: kernel.FlagParameter}
)

// ownFilter selects the withdrawals of the organization's own money.
var ownFilter = withdrawal.Filter{Type: webhook.OfOrganization}

// withdrawPage shows what can be withdrawn, and what was.
func (d *dashboard) withdrawPage() pages.Page {
	return pages.Page{
		Path: "/withdraw", Title: "Withdraw", Action: identity.WithdrawOwnMoney, Icon: "send", Shortcut: "w",
		Live:  []string{"WITHDRAWAL"},
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadWithdraw, WriteCSV: d.writeOwnWithdrawals,
	}
}

// withdrawFormPage takes address and amount of a withdrawal of one balance.
func (d *dashboard) withdrawFormPage() pages.Page {
	return pages.Page{
		Path: "/withdraw/{product}/{mintId}", Title: "Withdraw", Action: identity.WithdrawOwnMoney,
		Query: []kernel.Parameter{toParameter, amountParameter, maxParameter}, Load: d.loadWithdrawForm,
		Acts: []pages.Act{{
			Name: continueAct,
			Fields: []pages.Field{
				{Name: "to", BytesMax: entryBytesMax, Checkbox: true, Missing: "Choose a Withdraw Address."},
				{Name: "amount", BytesMax: amountBytesMax, Optional: true},
				{Name: "max", BytesMax: flagBytesMax, Optional: true, Checkbox: true},
				{Name: "filled", BytesMax: amountBytesMax, Optional: true},
			},
			Run: d.continueWithdrawal,
		}},
	}
}

// withdrawConfirmPage shows the whole withdrawal with every rule that looks at it, and requests it.
func (d *dashboard) withdrawConfirmPage() pages.Page {
	const missing = "Open the page again."
	return pages.Page{
		Path: "/withdraw/{product}/{mintId}/confirm", Title: "Confirm a withdrawal",
		Action: identity.WithdrawOwnMoney,
		Query:  []kernel.Parameter{toParameter, amountParameter, maxParameter}, Load: d.loadWithdrawConfirm,
		Acts: []pages.Act{{
			Name: requestAct, Action: identity.WithdrawOwnMoney, StepUp: pages.ActStepUp, Keyed: true,
			Fields: []pages.Field{
				{Name: "shownTo", BytesMax: entryBytesMax, Missing: missing},
				{Name: "shownAmount", BytesMax: amountBytesMax, Missing: missing},
				{Name: "shownMax", BytesMax: flagBytesMax, Optional: true},
			},
			FindDone: d.findRequested, Run: d.requestOwnWithdrawal,
		}},
	}
}

// entryRow is an address of the whitelist.
type entryRow struct {
	ID, Label, Address, Network string
	Chip                        ui.Chip
	UsableFrom                  ui.Moment
	IsCoolingOff                bool
}

// choiceRow is a balance from which a person can withdraw.
type choiceRow struct{ Path, Figure, Symbol, Network, Product, Dollars string }

// ownRow is a withdrawal of the organization's own money.
type ownRow struct {
	approvalRow
	Chip ui.Chip
}

// withdrawView is what the page shows.
type withdrawView struct {
	BalancesPath                 string
	Choices                      []choiceRow
	Entries                      []entryRow
	IsUsable                     bool // an entry of the whitelist can be paid now
	Rows                         []ownRow
	FirstPath, NextPath, CSVPath string
}

func (d *dashboard) loadWithdraw(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := d.conf.Withdrawals.List(r.Context(), r.Session.OrgID, ownFilter, p)
	if err != nil {
		return nil, err
	}
	entries, err := d.loadWhitelist(r)
	if err != nil {
		return nil, err
	}
	view := withdrawView{BalancesPath: r.Path("balances"), CSVPath: r.CSVPath()}
	for _, e := range entries {
		view.Entries = append(view.Entries, newEntryRow(r, e))
		view.IsUsable = view.IsUsable || e.Status(r.Now) == whitelist.StatusUsable
	}
	if view.Choices, err = d.loadChoices(r); err != nil {
		return nil, err
	}
	for _, w := range found.Items {
		view.Rows = append(view.Rows, ownRow{newApprovalRow(r, w), withdrawalChip(w.Status)})
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return withdrawOverview(view), nil
}

// loadChoices returns the balances from which something can be withdrawn.
func (d *dashboard) loadChoices(r *pages.Request) (rows []choiceRow, err error) {
	var balances []report.ProductBalance
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		balances, err = report.LoadProductBalances(ctx, tx, r.Session.OrgID)
		return err
	})
	for _, b := range balances {
		if b.Available.IsZero() {
			continue
		}
		rows = append(rows, choiceRow{
			Path:   r.Path("withdraw", b.Product, strconv.Itoa(b.Mint.ID)),
			Figure: b.Available.Decimal(b.Mint.Decimals), Symbol: b.Mint.Symbol, Network: networkName(b.Mint.Chain),
			Product: productName(b.Product), Dollars: d.dollars(r.Context(), b.Mint, b.Available),
		})
	}
	return rows, err
}

// dollars writes the value of an amount, and "" without a price.
func (d *dashboard) dollars(ctx context.Context, m mint.Mint, a money.Amount) string {
	if value := report.USDValue(ctx, d.conf.Prices, m, a); value != nil {
		return value.Cents()
	}
	return ""
}

// loadWhitelist returns the entries of the organization's whitelist that were not removed.
func (d *dashboard) loadWhitelist(r *pages.Request) (entries []whitelist.Entry, err error) {
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		entries = nil
		p := pagination.Page{Limit: pagination.LimitMax}
		for {
			found, err := d.conf.Whitelist.List(ctx, tx, r.Session.OrgID, p)
			if err != nil {
				return err
			}
			for _, e := range found.Items {
				if e.RemovedAt == nil {
					entries = append(entries, e)
				}
			}
			if found.NextCursor == nil {
				return nil
			}
			p.Cursor = found.NextCursor
		}
	})
	return entries, err
}

func newEntryRow(r *pages.Request, e whitelist.Entry) entryRow {
	status := e.Status(r.Now)
	return entryRow{
		ID: e.ID, Label: e.Label, Address: string(e.Address), Network: networkName(e.Chain),
		Chip: entryChip(status), UsableFrom: r.Moment(e.UsableFrom),
		IsCoolingOff: status == whitelist.StatusCoolingOff,
	}
}

var ownColumns = append(slices.Clone(approvalColumns), kernel.Column[withdrawal.Withdrawal]{
	Name: "status", Cell: func(w withdrawal.Withdrawal) string { return string(w.Status) },
})

func (d *dashboard) writeOwnWithdrawals(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, ownColumns,
		func(ctx context.Context, desc bool, row func(withdrawal.Withdrawal) error) error {
			return d.conf.Withdrawals.ForEach(ctx, r.Session.OrgID, ownFilter, desc, row)
		})
}

// loadOwnBalance returns the organization's balance that the path names, and the catalogue.
func (d *dashboard) loadOwnBalance(r *pages.Request) (b report.ProductBalance, mints mint.Catalogue, err error) {
	mintID, err := strconv.Atoi(r.PathParam("mintId"))
	if err != nil || strconv.Itoa(mintID) != r.PathParam("mintId") {
		mintID = 0 // No mint has it.
	}
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		b, err = report.LoadProductBalance(ctx, tx, r.Session.OrgID, r.PathParam("product"), mintID)
		return err
	})
	return b, mints, err
}

// estimateOwn returns the fee and the maximum of a withdrawal, or nil where the chain does not say.
func (d *dashboard) estimateOwn(
	r *pages.Request, b report.ProductBalance, entryID string,
) (*withdrawal.Estimate, error) {
	e, err := d.conf.Withdrawals.EstimateOrganization(r.Context(), r.Session.Member, b.Product, b.Mint.ID, entryID)
	if fault.Find(err) != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// feeText writes the most that the network takes for a withdrawal.
func feeText(e *withdrawal.Estimate, mints mint.Catalogue) templ.Component {
	if e == nil || e.NetworkFeeMintID == nil {
		return ui.Text("The chain does not say now")
	}
	native, _ := mints.ByID(*e.NetworkFeeMintID)
	dollars := ""
	if e.NetworkFeeUSD != nil {
		dollars = e.NetworkFeeUSD.Cents()
	}
	return feeWord(e.NetworkFee.Decimal(native.Decimals), native.Symbol, dollars)
}

// payerOfFee says from where the network fee is taken.
func payerOfFee(m mint.Mint) string {
	if m.Kind == mint.Native {
		return "Held on top, from the same balance"
	}
	return "Billed to your organization"
}

// withdrawFormView is what the form shows.
type withdrawFormView struct {
	ListPath, Path string
	Symbol         string
	Facts          []ui.Fact
	Entries        []entryRow // that can be paid on the network of the token
	Unusable       []entryRow // of that network, which cannot be paid now
	Network        string
	Form           ui.Form
	Filled         string // the amount that Max filled in
	HasMoney       bool
}

func (d *dashboard) loadWithdrawForm(r *pages.Request) (templ.Component, error) {
	b, mints, err := d.loadOwnBalance(r)
	if err != nil {
		return nil, err
	}
	entries, err := d.loadWhitelist(r)
	if err != nil {
		return nil, err
	}
	form := r.Form
	if form.Act == "" { // The page was not sent: what the path names is in the fields.
		entryID, amount, isMax := typedWithdrawal(r)
		form = ui.Form{Act: continueAct, Typed: map[string]string{"to": entryID, "amount": amount}}
		if isMax {
			form.Typed["filled"] = amount
		}
	}
	estimate, err := d.estimateOwn(r, b, "")
	if err != nil {
		return nil, err
	}
	view := withdrawFormView{
		ListPath: r.Path("withdraw"), Path: r.Path("withdraw", b.Product, strconv.Itoa(b.Mint.ID)),
		Symbol: b.Mint.Symbol, Network: networkName(b.Mint.Chain), Form: form,
		Filled: form.Value(continueAct, "filled"), HasMoney: !b.Available.IsZero(),
	}
	for _, e := range entries {
		switch {
		case e.Chain != b.Mint.Chain:
		case e.Status(r.Now) == whitelist.StatusUsable:
			view.Entries = append(view.Entries, newEntryRow(r, e))
		default:
			view.Unusable = append(view.Unusable, newEntryRow(r, e))
		}
	}
	view.Facts = []ui.Fact{
		{Name: "Token", Value: tokenWord(b.Mint.Symbol, b.Mint.ID, b.Mint.Decimals)},
		{Name: "Network", Value: ui.Text(view.Network)},
		{Name: "From", Value: ui.Text(productName(b.Product))},
		{Name: "Available", Value: valueWord(
			b.Available.Decimal(b.Mint.Decimals), b.Mint.Symbol, d.dollars(r.Context(), b.Mint, b.Available),
		)},
		{Name: "Network fee, at most", Value: feeText(estimate, mints)},
		{Name: "Who pays the fee", Value: ui.Text(payerOfFee(b.Mint))},
	}
	return withdrawForm(view), nil
}

// continueWithdrawal checks what a person typed, by the rules of the request, and leads to the page that
// shows it whole. Max leads back to the form with the amount. Nothing is written.
func (d *dashboard) continueWithdrawal(r *pages.Request) (string, error) {
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return "", err
	}
	entryID, amount := r.Values["to"], r.Values["amount"]
	path := []string{"withdraw", b.Product, strconv.Itoa(b.Mint.ID)}
	if r.Values["max"] != "" {
		maximum, err := d.findMax(r, b, entryID)
		if err != nil {
			return "", atAddressField(err)
		}
		return r.Path(path...) + withdrawalQuery(entryID, maximum.Decimal(b.Mint.Decimals), true), nil
	}
	if amount == "" {
		return "", fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingHeld,
			"Enter an amount, or press Max.").WithParam("amount")
	}
	isMax := amount == r.Values["filled"]
	_, err = d.conf.Withdrawals.PreviewOrganization(r.Context(), r.Session.Member, newOwnRequest(b, entryID, amount))
	// The fee of the network may have risen since Max filled the amount in. The next page shows the
	// new maximum.
	if err != nil && !(isMax && fault.HasCode(err, fault.InsufficientBalance)) {
		return "", atAddressField(err)
	}
	return r.Path(append(path, "confirm")...) + withdrawalQuery(entryID, amount, isMax), nil
}

// withdrawalQuery returns the query of a page with address and amount. isMax says that Max filled the
// amount in.
func withdrawalQuery(entryID, amount string, isMax bool) string {
	query := url.Values{toParameter.Name: {entryID}, amountParameter.Name: {amount}}
	if isMax {
		query.Set(maxParameter.Name, "true")
	}
	return "?" + query.Encode()
}

// findMax returns the most that a withdrawal to an address can pay now. Rule PAGE-17.
func (d *dashboard) findMax(r *pages.Request, b report.ProductBalance, entryID string) (money.Amount, error) {
	e, err := d.conf.Withdrawals.EstimateOrganization(r.Context(), r.Session.Member, b.Product, b.Mint.ID, entryID)
	if err != nil {
		return money.Zero, err
	}
	if e.MaxAmount.IsZero() {
		return money.Zero, fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
			"Nothing can be withdrawn of this balance now: it is empty, or the network fee takes all of it.").
			WithParam("amount")
	}
	return *e.MaxAmount, nil
}

// atAddressField moves a refusal about a field of the interface to the field of the form.
func atAddressField(err error) error {
	if f := fault.Find(err); f != nil && f.Param == "whitelistedAddressId" {
		return f.WithParam("to")
	}
	return err
}

func newOwnRequest(b report.ProductBalance, entryID, amount string) withdrawal.OrganizationRequest {
	return withdrawal.OrganizationRequest{
		Product: b.Product, MintID: b.Mint.ID, WhitelistedAddressID: entryID, Amount: amount, UseDecimal: true,
	}
}

// sentRequest returns the request of a form that was sent, with its key.
func sentRequest(r *pages.Request, b report.ProductBalance) withdrawal.OrganizationRequest {
	wanted := newOwnRequest(b, r.Values["shownTo"], r.Values["shownAmount"])
	wanted.IdempotencyKey = new(r.Key())
	return wanted
}

// findRequested returns the page of the withdrawal that the key of the form made. Rule PAGE-15.
func (d *dashboard) findRequested(r *pages.Request) (string, error) {
	found, err := d.conf.Withdrawals.List(
		r.Context(), r.Session.OrgID, withdrawal.Filter{IdempotencyKey: r.Key()}, firstOfList,
	)
	if err != nil || len(found.Items) == 0 {
		return "", err
	}
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return "", err
	}
	made := found.Items[0]
	path := r.Path("approvals", "withdrawals", made.ID)
	// The feature compares the request with the one that has the key. It writes nothing.
	_, err = d.conf.Withdrawals.PreviewOrganization(r.Context(), r.Session.Member, sentRequest(r, b))
	if fault.HasCode(err, fault.IdempotencyConflict) {
		return "", r.NewKeyConflict("a withdrawal of "+made.Amount.Decimal(made.Mint.Decimals)+" "+
			ui.EscapeForeign(made.Mint.Symbol)+" ("+withdrawalChip(made.Status).Word+")", path)
	}
	return path, nil
}

func (d *dashboard) requestOwnWithdrawal(r *pages.Request) (string, error) {
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return "", err
	}
	w, _, err := d.conf.Withdrawals.RequestOrganization(r.Context(), r.Session.Member, sentRequest(r, b))
	if err != nil {
		return "", err
	}
	trace.LinkTo(r.Context(), w.ID)
	return r.Path("approvals", "withdrawals", w.ID), nil
}

// confirmView is what the page of a decision about the organization's own money shows.
type confirmView struct {
	BackPath, BackText, Path string
	Title, Figure, Symbol    string
	Dollars                  string
	Unusual                  []string
	Words, Facts             []ui.Fact
	Gates                    []gateRow
	OutcomeKind              ui.ChipKind
	OutcomeTitle             string
	OutcomeText              string
	CanRequest               bool
	Button                   string
	Hidden                   []hiddenInput
	Key                      string
	Form                     ui.Form
}

// hiddenInput is a value that the page showed and that its form carries.
type hiddenInput struct{ Name, Value string }

// typedWithdrawal returns address and amount of the page: of the path, or of the form that was sent.
func typedWithdrawal(r *pages.Request) (entryID, amount string, isMax bool) {
	if r.Values != nil {
		return r.Values["shownTo"], r.Values["shownAmount"], r.Values["shownMax"] == "true"
	}
	flag := r.Query.FlagValue(maxParameter.Name)
	return r.Query[toParameter.Name], r.Query[amountParameter.Name], flag != nil && *flag
}

func (d *dashboard) loadWithdrawConfirm(r *pages.Request) (templ.Component, error) {
	b, mints, err := d.loadOwnBalance(r)
	if err != nil {
		return nil, err
	}
	entryID, text, isMax := typedWithdrawal(r)
	form := r.Path("withdraw", b.Product, strconv.Itoa(b.Mint.ID))
	if entryID == "" || text == "" { // An old link, or sign-in led back from a form.
		return pages.RedirectTo(form), nil
	}
	var entry whitelist.Entry
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		entry, err = d.conf.Whitelist.ByID(ctx, tx, r.Session.OrgID, entryID)
		return err
	})
	if err != nil {
		return nil, err
	}
	preview, err := d.conf.Withdrawals.PreviewOrganization(
		r.Context(), r.Session.Member, newOwnRequest(b, entryID, text),
	)
	if isMax && fault.HasCode(err, fault.InsufficientBalance) {
		maximum, maxErr := d.findMax(r, b, entryID)
		if maxErr == nil {
			text = maximum.Decimal(b.Mint.Decimals)
			preview, err = d.conf.Withdrawals.PreviewOrganization(
				r.Context(), r.Session.Member, newOwnRequest(b, entryID, text),
			)
		}
	}
	refusal := fault.Find(err)
	if err != nil && refusal == nil {
		return nil, err
	}
	amount, err := request.ParseAmount(text, true, b.Mint, fault.NothingHeld)
	if err != nil {
		return nil, err
	}
	estimate, err := d.estimateOwn(r, b, entryID)
	if err != nil {
		return nil, err
	}
	view := confirmView{
		BackPath: form + withdrawalQuery(entryID, text, isMax), BackText: "Change it",
		Path: form + "/confirm", Title: "Withdraw",
		Figure: amount.Decimal(b.Mint.Decimals), Symbol: b.Mint.Symbol,
		Dollars: d.dollars(r.Context(), b.Mint, amount),
		Words:   ownWords(r, b, entry, amount),
		Facts: []ui.Fact{
			{Name: "Label", Value: ui.Foreign(entry.Label)},
			{Name: "Network fee, at most", Value: feeText(estimate, mints)},
			{Name: "Available now", Value: ui.Amount(b.Available.Decimal(b.Mint.Decimals), b.Mint.Symbol)},
		},
		Hidden: []hiddenInput{{"shownTo", entryID}, {"shownAmount", text}, {"shownMax", strconv.FormatBool(isMax)}},
		Key:    r.FormKey(requestAct), Form: r.Form,
	}
	view.Button = "Withdraw " + ui.GroupDigits(view.Figure) + " " + ui.EscapeForeign(view.Symbol)
	steps := preview.Gates
	if refusal != nil {
		steps = withdrawal.RefusedSteps(refusal)
	}
	view.Gates = newGateRows(b.Mint, steps)
	view.Unusual = unusualOwnFacts(steps, view.Dollars == "")
	view.explainOutcome(preview, refusal)
	return confirmOwnMoney(view), nil
}

// explainOutcome says what pressing the button would do. What would be refused or blocked has no button.
// Rule PAGE-16.
func (v *confirmView) explainOutcome(preview withdrawal.Preview, refusal *fault.Fault) {
	switch {
	case refusal != nil:
		v.OutcomeKind, v.OutcomeTitle = ui.Bad, "It would be refused"
		v.OutcomeText = strings.TrimSpace(refusal.Reason+" "+refusal.Advice) + " Nothing was held and nothing was sent."
	case preview.WouldBe == withdrawal.Blocked:
		v.OutcomeKind, v.OutcomeTitle = ui.Bad, "Risk screening blocks this address"
		v.OutcomeText = "Nothing was held and nothing was sent. Choose another address, or ask the operator of this " +
			"service."
	case preview.WouldBe == withdrawal.AwaitingApproval:
		v.CanRequest, v.OutcomeKind, v.OutcomeTitle = true, ui.Wait, "It will wait for another person"
		for i, reason := range preview.Reasons {
			if i > 0 {
				v.OutcomeText += " "
			}
			v.OutcomeText += reasonText(reason) + "."
		}
		v.OutcomeText += " Its amount is held meanwhile. You cannot approve it yourself."
	default:
		v.CanRequest, v.OutcomeKind, v.OutcomeTitle = true, ui.Info, "It will be paid at once"
		v.OutcomeText = "No rule holds it for another person."
	}
}

// unusualOwnFacts says what deserves attention before anything else.
func unusualOwnFacts(steps []withdrawal.Step, lacksPrice bool) (facts []string) {
	for _, step := range steps {
		if step.Gate != withdrawal.GateDestination {
			continue
		}
		if resembled := step.Inputs["resembles"]; resembled != "" {
			facts = append(facts, "The address looks like "+resembled+", which is known, and it is another one.")
		}
		if step.Inputs["failedWithdrawalId"] != "" {
			facts = append(facts, "An earlier payment to this address failed because of the address.")
		}
	}
	if lacksPrice {
		facts = append(facts, "There is no price, so its value in dollars is not known.")
	}
	return facts
}

// ownWords are the words of a withdrawal of the organization's own money that is not requested yet, in
// the order of the page of a decision.
func ownWords(r *pages.Request, b report.ProductBalance, entry whitelist.Entry, amount money.Amount) []ui.Fact {
	facts := []ui.Fact{
		{
			Name: "Amount", Word: "amount",
			Value: amountWord(amount.Decimal(b.Mint.Decimals), b.Mint.Symbol, amount.String()),
		},
		{Name: "Withdraw Address", Word: "to", Value: ui.Address(string(entry.Address))},
		{Name: "Network", Word: "network", Value: ui.Text(networkName(b.Mint.Chain))},
		{Name: "Token", Word: "token", Value: tokenWord(b.Mint.Symbol, b.Mint.ID, b.Mint.Decimals)},
	}
	if contract := string(b.Mint.Contract); contract != "" {
		facts = append(facts, ui.Fact{Name: "Contract", Word: "contract", Value: ui.Address(contract)})
	}
	return append(facts,
		ui.Fact{Name: "Network fee", Word: "feeMode", Value: ui.Text(payerOfFee(b.Mint))},
		ui.Fact{Name: "From", Word: "product", Value: ui.Text(productName(b.Product))},
		ui.Fact{Name: "Whitelist entry", Word: "whitelistEntry", Value: ui.Code(entry.ID)},
		ui.Fact{Name: "Organization", Word: "organization", Value: ui.Code(r.Session.OrgID)},
	)
}
