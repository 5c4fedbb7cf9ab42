package console

import (
	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/webhook"
)

// openStrays leaves the stray arrivals about which no person has decided.
var openStrays = kernel.Parameter{Name: "open", Kind: kernel.FlagParameter}

// arrivalsPage lists the arrivals at wallets of swaps that no open swap expects.
func (c *console) arrivalsPage() pages.Page {
	return pages.Page{
		Path: "/swap-arrivals", Title: "Stray arrivals", Action: identity.ReadInstallation, Group: moneyGroup,
		Icon:  "info",
		Query: []kernel.Parameter{pages.CursorParameter, openStrays},
		Live:  []string{"SWAP"}, Load: c.loadArrivals, WriteCSV: c.writeArrivals,
	}
}

func (c *console) listStrays(r *pages.Request, p pagination.Page) (pagination.Result[swap.Arrival], error) {
	open := r.Query.FlagValue(openStrays.Name)
	return c.conf.Swaps.ListStrays(r.Context(), open != nil && *open, p)
}

func (c *console) loadArrivals(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listStrays(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := listView{
		Path: r.Path("swap-arrivals"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r, filter{Name: openStrays.Name, Label: "State", Options: []option{
			{"", "All"}, {"true", "Waits for a decision"},
		}}),
		Table: table{Caption: "Stray arrivals", Columns: []column{
			{Title: "State"},
			{Title: "Amount", IsNumber: true},
			{Title: "Organization"},
			{Title: "Swap"},
			{Title: "Arrived"},
			{Title: "Open", IsUnseen: true},
		}},
	}
	for _, a := range found.Items {
		view.Table.addRow(
			pair(ui.StateChip(strayChip(a.Decision)), ui.Text(strayText(a.Reason))),
			pair(amountOfArrival(a), ui.Text(networkName(a.Chain))),
			pair(
				link(r.Path("organizations", a.OrgID), names.nameOf(a.OrgID)),
				ownerOfArrival(a, "no customer"),
			),
			swapOfArrival(r, a), ui.When(r.Moment(a.CreatedAt)),
			openLink(r.Path("swap-arrivals", a.DepositID), "Open", a.DepositID),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return arrivalsList(view), nil
}

func amountOfArrival(a swap.Arrival) templ.Component {
	return ui.Amount(a.Amount.Decimal(a.Decimals), a.Symbol)
}

// hasOwner reports whether this database has the swap of an arrival, which says to whom it can be credited.
func hasOwner(a swap.Arrival) bool { return a.CustomerID != "" || a.Product != "" }

// ownerOfArrival names to whom an arrival can be credited.
func ownerOfArrival(a swap.Arrival, absent string) templ.Component {
	if a.Product != "" {
		return ui.Text("Its own money, " + wordOf(a.Product))
	}
	return foreignOrNothing(a.CustomerID, absent)
}

// swapOfArrival leads to the swap of an arrival, if this database has it.
func swapOfArrival(r *pages.Request, a swap.Arrival) templ.Component {
	if !hasOwner(a) {
		return nothing("not known here")
	}
	return link(r.Path("swaps", a.SwapID), "Show the swap")
}

// strayChip writes what a person decided about a stray arrival.
func strayChip(decision *string) ui.Chip {
	switch swap.ArrivalDecision(textOrEmpty(decision)) {
	case swap.CreditArrival:
		return ui.Chip{Kind: ui.Good, Word: "Credited"}
	case swap.KeepArrival:
		return ui.Chip{Kind: ui.Quiet, Word: "Kept in suspense"}
	}
	return ui.Chip{Kind: ui.Wait, Word: "Waits for a decision"}
}

// strayText says why no open swap expects an arrival.
func strayText(reason swap.StrayReason) string {
	switch reason {
	case swap.NoSwap:
		return "This database has no such swap"
	case swap.OtherAsset:
		return "Another token than expected"
	case swap.TooMuch:
		return "Far more than expected"
	case swap.AfterEnd:
		return "After the end of the swap"
	case swap.WithoutPaid:
		return "A refund of what was never paid"
	case swap.TooSmall:
		return "Far too little for a refund"
	}
	return ""
}

// strayAdvice says what to do about a stray arrival first.
func strayAdvice(reason swap.StrayReason) string {
	switch reason {
	case swap.NoSwap:
		return "Restore the database from the signer's journal first. Without its swap it can only be kept."
	case swap.OtherAsset:
		return "Ask the provider first: it may be another customer's."
	case swap.TooMuch:
		return "Ask the provider first: the rest is mostly another customer's."
	case swap.AfterEnd:
		return "Credit it if the provider confirms that it belongs to this swap, and the organization has not " +
			"paid the " +
			"customer meanwhile."
	case swap.WithoutPaid:
		return "Keep it until the provider explains it."
	case swap.TooSmall:
		return "Credit it if the provider confirms that it is a part of the refund. Anyone can send so little."
	}
	return ""
}

var arrivalColumns = []kernel.Column[swap.Arrival]{
	{Name: "depositId", Cell: func(a swap.Arrival) string { return a.DepositID }},
	{Name: "organizationId", Cell: func(a swap.Arrival) string { return a.OrgID }},
	{Name: "swapId", Cell: func(a swap.Arrival) string { return a.SwapID }},
	{Name: "customerId", Cell: func(a swap.Arrival) string { return a.CustomerID }},
	{Name: "product", Cell: func(a swap.Arrival) string { return a.Product }},
	{Name: "strayReason", Cell: func(a swap.Arrival) string { return string(a.Reason) }},
	{Name: "symbol", Cell: func(a swap.Arrival) string { return a.Symbol }},
	{Name: "chain", Cell: func(a swap.Arrival) string { return string(a.Chain) }},
	{Name: "amount", Cell: func(a swap.Arrival) string { return a.Amount.String() }},
	{Name: "txHash", Cell: func(a swap.Arrival) string { return string(a.TxHash) }},
	{Name: "createdAt", Cell: func(a swap.Arrival) string { return webhook.At(a.CreatedAt).String() }},
	{Name: "decision", Cell: func(a swap.Arrival) string { return textOrEmpty(a.Decision) }},
	{Name: "note", Cell: func(a swap.Arrival) string { return textOrEmpty(a.Note) }},
}

func (c *console) writeArrivals(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, arrivalColumns, eachOf(
		func(p pagination.Page) (pagination.Result[swap.Arrival], error) { return c.listStrays(r, p) }))
}

// arrivalPage shows one stray arrival and takes the decision about it, once. Rule PAGE-76.
func (c *console) arrivalPage() pages.Page {
	decide := func(name string, decision swap.ArrivalDecision) pages.Act {
		return pages.Act{
			Name: name, Action: identity.DecideSwapArrival, StepUp: pages.ActStepUp,
			Fields: []pages.Field{{Name: "note", BytesMax: swapNoteBytesMax, Missing: "Enter why."}},
			FindDone: func(r *pages.Request) (string, error) {
				a, err := c.loadArrivalOf(r)
				if err != nil || a.Decision == nil {
					return "", err
				}
				return r.Path("swap-arrivals", a.DepositID), nil
			},
			Run: func(r *pages.Request) (string, error) {
				a, err := c.conf.Swaps.DecideArrival(
					r.Context(), r.PathParam("depositId"), decision, r.Values["note"], actor(r),
				)
				if err != nil {
					return "", err
				}
				return r.Path("swap-arrivals", a.DepositID), nil
			},
		}
	}
	return pages.Page{
		Path: "/swap-arrivals/{depositId}", Title: "Stray arrival", Action: identity.ReadInstallation,
		Live: []string{"SWAP"}, LiveOfAll: true, Load: c.loadArrival,
		Acts: []pages.Act{decide("credit", swap.CreditArrival), decide("keep", swap.KeepArrival)},
	}
}

func (c *console) loadArrivalOf(r *pages.Request) (swap.Arrival, error) {
	return c.conf.Swaps.StrayByID(r.Context(), r.PathParam("depositId"))
}

// arrivalView is what the page of a stray arrival shows.
type arrivalView struct {
	Figure, Symbol string
	Chip           ui.Chip
	Reason, Advice string
	Facts          []ui.Fact
	Acts           []actView
	WhyNot         string
	Form           ui.Form
}

func (c *console) loadArrival(r *pages.Request) (templ.Component, error) {
	a, err := c.loadArrivalOf(r)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := arrivalView{
		Figure: a.Amount.Decimal(a.Decimals), Symbol: a.Symbol, Chip: strayChip(a.Decision), Form: r.Form,
		Reason: strayText(a.Reason), Advice: strayAdvice(a.Reason),
		Facts: []ui.Fact{
			{Name: "Organization", Value: link(r.Path("organizations", a.OrgID), names.nameOf(a.OrgID))},
			{Name: "Swap of", Value: ownerOfArrival(a, "not known here")},
			{Name: "Swap", Value: pair(ui.Code(a.SwapID), swapOfArrival(r, a))},
			{Name: "Network", Value: ui.Text(networkName(a.Chain))},
			{Name: "Arrived at", Value: ui.Address(string(a.Address))},
			{Name: "Transaction", Value: ui.Address(string(a.TxHash))},
			{Name: "Arrived", Value: ui.When(r.Moment(a.CreatedAt))},
			{Name: "Deposit", Value: ui.Code(a.DepositID)},
		},
	}
	if a.Decision != nil {
		view.Facts = append(view.Facts,
			ui.Fact{Name: "Decided by", Value: ui.Foreign(textOrEmpty(a.DecidedBy))},
			ui.Fact{Name: "Decided", Value: whenOrNothing(r, a.DecidedAt, "no")},
			ui.Fact{Name: "Note", Value: ui.Foreign(textOrEmpty(a.Note))},
		)
		view.Advice = ""
	}
	view.addActs(r, a)
	return arrivalOverview(view), nil
}

func (v *arrivalView) addActs(r *pages.Request, a swap.Arrival) {
	switch {
	case a.Decision != nil:
		v.WhyNot = "It is decided."
		return
	case !r.IsAllowed(identity.DecideSwapArrival):
		v.WhyNot = "Your role shows this arrival and does not decide about it."
		return
	}
	path, amount := r.Path("swap-arrivals", a.DepositID), ui.GroupDigits(v.Figure)+" "+ui.EscapeForeign(a.Symbol)
	note := func(act string) []ui.Input {
		return []ui.Input{{
			Act: act, Name: "note", Label: "Why", Type: "text", MaxLength: swapNoteBytesMax, Autocomplete: "off",
			Hint: "Other operators see it, and the organization.",
		}}
	}
	if hasOwner(a) {
		receiver := "The customer of the swap gets it"
		if a.Product != "" {
			receiver = "The product " + wordOf(a.Product) + " of the organization gets it"
		}
		v.Acts = append(v.Acts, actView{
			Path: path, Act: "credit", Form: r.Form, Button: "Credit " + amount, TakesCode: true, IsPrimary: true,
			Text: receiver + ", and the organization hears of a deposit. Of a failed swap of which " +
				"nothing came back, it also ends the claim on the provider.",
			Inputs: note("credit"),
		})
	}
	v.Acts = append(v.Acts, actView{
		Path: path, Act: "keep", Form: r.Form, Button: "Keep it in suspense", TakesCode: true,
		Text: "It belongs to no balance, for good.", Inputs: note("keep"),
	})
}
