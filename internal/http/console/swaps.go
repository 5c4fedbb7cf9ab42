package console

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/webhook"
)

// The acts of the page of a swap.
const (
	lookAct     = "look"
	failAct     = "fail"
	writeOffAct = "write-off"
)

// swapNoteBytesMax bounds the note of a decision about a swap, as the verbs do.
const swapNoteBytesMax = 1000

// claimsFilter leaves the swaps whose value is with a provider.
var claimsFilter = kernel.Parameter{Name: "openClaims", Kind: kernel.FlagParameter}

// kindFilter leaves the swaps of customers, or those of organizations' own money.
var kindFilter = kernel.Parameter{
	Name: "kind", Kind: kernel.WordParameter, Enum: []string{string(swap.CustomerSwap), string(swap.OrganizationSwap)},
}

// swapsPage lists the swaps of all organizations. Rule PAGE-80.
func (c *console) swapsPage() pages.Page {
	return pages.Page{
		Path: "/swaps", Title: "Swaps", Action: identity.ReadInstallation, Group: moneyGroup, Icon: "swap",
		Shortcut: "s",
		Query: []kernel.Parameter{
			pages.CursorParameter, claimsFilter, kindFilter, textFilter("status"), textFilter("provider"),
			textFilter("organizationId"),
			textFilter("customerId"),
		},
		Live: []string{"SWAP"}, Load: c.loadSwaps, WriteCSV: c.writeSwaps,
	}
}

// listSwaps reads a page of swaps. What a provider has had longest comes first among the open claims.
func (c *console) listSwaps(r *pages.Request, p pagination.Page) (pagination.Result[swap.Swap], error) {
	f := swap.OperatorFilter{
		Filter: swap.Filter{CustomerID: r.Query["customerId"], Status: r.Query["status"]},
		OrgID:  r.Query["organizationId"], Provider: r.Query["provider"], Kind: swap.Kind(r.Query[kindFilter.Name]),
	}
	if open := r.Query.FlagValue(claimsFilter.Name); open != nil && *open {
		f.OpenClaims, p.Desc = true, false
	}
	return c.conf.Swaps.ListAll(r.Context(), f, p)
}

func (c *console) loadSwaps(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listSwaps(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	states := []option{{"", "All"}}
	for _, status := range swap.OrganizationStatuses {
		states = append(states, option{string(status), swapChip(status).Word})
	}
	view := listView{
		Path: r.Path("swaps"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r,
			filter{Name: claimsFilter.Name, Label: "Value", Options: []option{
				{"", "All"}, {"true", "With a provider"},
			}},
			filter{Name: kindFilter.Name, Label: "Kind", Options: []option{
				{"", "All"},
				{string(swap.CustomerSwap), kindText(swap.CustomerSwap)},
				{string(swap.OrganizationSwap), kindText(swap.OrganizationSwap)},
			}},
			filter{Name: "status", Label: "State", Options: states},
			filter{Name: "provider", Label: "Provider"},
			filter{Name: "organizationId", Label: "Organization"},
			filter{Name: "customerId", Label: "Customer"}),
		Table: table{Caption: "Swaps", Columns: []column{
			{Title: "State"},
			{Title: "From", IsNumber: true},
			{Title: "To", IsNumber: true},
			{Title: "With the provider", IsNumber: true},
			{Title: "Of"},
			{Title: "Paid"},
			{Title: "Open", IsUnseen: true},
		}},
	}
	for _, w := range found.Items {
		claim := nothing("nothing")
		if open := w.OpenClaim(); !open.IsZero() {
			claim = pair(amountOfMint(w.From, open), ui.Code(w.Provider))
		}
		view.Table.addRow(
			pair(ui.StateChip(swapChip(w.Status)), ui.Text(refundWord(w))),
			pair(amountOfMint(w.From, w.AmountIn), ui.Text(networkName(w.From.Chain))),
			pair(amountOfMint(w.To, outOf(w)), ui.Text(networkName(w.To.Chain))), claim,
			pair(link(r.Path("organizations", w.OrgID), names.nameOf(w.OrgID)), ownerOfSwap(w)),
			whenOrNothing(r, w.PaidAt, "not final"), openLink(r.Path("swaps", w.ID), "Open", w.ID),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return swapsList(view), nil
}

// kindText names a kind of swaps.
func kindText(kind swap.Kind) string {
	if kind == swap.OrganizationSwap {
		return "Of an organization"
	}
	return "Of a customer"
}

// ownerOfSwap names the customer, or the product of the organization's own money.
func ownerOfSwap(w swap.Swap) templ.Component {
	if w.Kind == swap.OrganizationSwap {
		return ui.Text("Its own money, " + wordOf(w.Product))
	}
	return ui.Foreign(w.CustomerID)
}

// outOf returns what arrived, and before that the offer.
func outOf(w swap.Swap) money.Amount {
	if w.AmountOut != nil {
		return *w.AmountOut
	}
	return w.EstimatedOut
}

func amountOfMint(m mint.Mint, amount money.Amount) templ.Component {
	return ui.Amount(amount.Decimal(m.Decimals), m.Symbol)
}

// refundWord says how far the refund of a failed swap has come.
func refundWord(w swap.Swap) string {
	if status := w.RefundStatus(); w.Status == swap.FailedStatus {
		return "Refund: " + strings.ToLower(wordOf(status))
	}
	return ""
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

var swapColumns = []kernel.Column[swap.Swap]{
	{Name: "swapId", Cell: func(w swap.Swap) string { return w.ID }},
	{Name: "organizationId", Cell: func(w swap.Swap) string { return w.OrgID }},
	{Name: "kind", Cell: func(w swap.Swap) string { return string(w.Kind) }},
	{Name: "customerId", Cell: func(w swap.Swap) string { return w.CustomerID }},
	{Name: "product", Cell: func(w swap.Swap) string { return w.Product }},
	{Name: "createdAt", Cell: func(w swap.Swap) string { return webhook.At(w.CreatedAt).String() }},
	{Name: "status", Cell: func(w swap.Swap) string { return string(w.Status) }},
	{Name: "provider", Cell: func(w swap.Swap) string { return w.Provider }},
	{Name: "fromMintId", Cell: func(w swap.Swap) string { return strconv.Itoa(w.From.ID) }},
	{Name: "toMintId", Cell: func(w swap.Swap) string { return strconv.Itoa(w.To.ID) }},
	{Name: "amountIn", Cell: func(w swap.Swap) string { return w.AmountIn.String() }},
	{Name: "openClaim", Cell: func(w swap.Swap) string { return w.OpenClaim().String() }},
	{Name: "refunded", Cell: func(w swap.Swap) string { return w.Refunded.String() }},
	{Name: "restored", Cell: func(w swap.Swap) string { return w.Restored.String() }},
	{Name: "writtenOff", Cell: func(w swap.Swap) string { return w.Short.String() }},
	{Name: "paidAt", Cell: func(w swap.Swap) string {
		if w.PaidAt == nil {
			return ""
		}
		return webhook.At(*w.PaidAt).String()
	}},
	{Name: "originTxHash", Cell: func(w swap.Swap) string { return textOrEmpty(w.OriginTxHash) }},
	{Name: "destinationTxHash", Cell: func(w swap.Swap) string { return textOrEmpty(w.DestinationTxHash) }},
	{Name: "refundTxHash", Cell: func(w swap.Swap) string { return textOrEmpty(w.RefundTxHash) }},
}

func (c *console) writeSwaps(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, swapColumns, eachOf(
		func(p pagination.Page) (pagination.Result[swap.Swap], error) { return c.listSwaps(r, p) }))
}

// swapPage shows one swap with what its provider said, what arrived, and what to tell the provider, and takes
// what an operator decides about it. Rule PAGE-76.
func (c *console) swapPage() pages.Page {
	note := pages.Field{Name: "note", BytesMax: swapNoteBytesMax, Missing: "Enter why."}
	return pages.Page{
		Path: "/swaps/{swapId}", Title: "Swap", Action: identity.ReadInstallation, Live: []string{"SWAP"},
		Load: c.loadSwap,
		Acts: []pages.Act{
			{
				Name: lookAct, Action: identity.LookAtSwap, StepUp: pages.SudoStepUp,
				Run: func(r *pages.Request) (string, error) {
					return swapResult(r, func() (swap.Swap, error) {
						return c.conf.Swaps.LookNow(r.Context(), r.PathParam("swapId"), actor(r))
					})
				},
			},
			{
				Name: failAct, Action: identity.FailSwap, StepUp: pages.ActStepUp, Fields: []pages.Field{note},
				FindDone: c.findSwap(hasEnded),
				Run: func(r *pages.Request) (string, error) {
					return swapResult(r, func() (swap.Swap, error) {
						return c.conf.Swaps.Fail(r.Context(), r.PathParam("swapId"), r.Values["note"], actor(r))
					})
				},
			},
			{
				Name: writeOffAct, Action: identity.WriteOffSwap, StepUp: pages.ActStepUp, Fields: []pages.Field{note},
				FindDone: c.findSwap(func(w swap.Swap) bool {
					return w.Status == swap.FailedStatus && w.OpenClaim().IsZero()
				}),
				Run: c.writeOff,
			},
		},
	}
}

func swapResult(r *pages.Request, act func() (swap.Swap, error)) (string, error) {
	w, err := act()
	if err != nil {
		return "", err
	}
	return r.Path("swaps", w.ID), nil
}

// findSwap returns the page of a swap for which an act has nothing to do any more.
func (c *console) findSwap(isDone func(swap.Swap) bool) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		d, err := c.conf.Swaps.ByIDForOperator(r.Context(), r.PathParam("swapId"))
		if err != nil || !isDone(d.Swap) {
			return "", err
		}
		return r.Path("swaps", d.ID), nil
	}
}

// writeOff gives up a claim, or leads to the change request that waits for a second operator.
func (c *console) writeOff(r *pages.Request) (string, error) {
	var outcome swap.WriteOffOutcome
	err := c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = c.conf.Swaps.RequestWriteOff(
			ctx, tx, holder(r), c.conf.FourEyes, r.PathParam("swapId"), r.Values["note"],
		)
		return err
	})
	switch {
	case err != nil:
		return "", err
	case outcome.PendingChange != nil:
		return r.Path("changes", outcome.PendingChange.ID), nil
	}
	return r.Path("swaps", outcome.Swap.ID), nil
}

// swapView is what the page of a swap shows.
type swapView struct {
	ID, Figure, Symbol    string
	Chip                  ui.Chip
	Whereabouts, NextStep string
	Kind                  ui.ChipKind
	Facts, ToTell         []ui.Fact
	Steps                 table
	Reports, Arrivals     table
	PendingPath           string // of the change request that writes the claim off; "" for none
	Acts                  []actView
	WhyNot                string
	Form                  ui.Form
}

func (c *console) loadSwap(r *pages.Request) (templ.Component, error) {
	d, err := c.conf.Swaps.ByIDForOperator(r.Context(), r.PathParam("swapId"))
	if err != nil {
		return nil, err
	}
	organizations, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	var names holders
	var entries []audit.Row
	var waiting []changerequest.Request
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if names, err = loadHolders(ctx, tx); err != nil {
			return err
		}
		if waiting, err = changerequest.ListPending(ctx, tx, d.OrgID); err != nil {
			return err
		}
		entries, err = audit.ListNewest(ctx, tx, d.ID, 0, rowsMax)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := swapView{
		ID: d.ID, Figure: d.AmountIn.Decimal(d.From.Decimals), Symbol: d.From.Symbol, Chip: swapChip(d.Status),
		Form:  r.Form,
		Facts: swapFacts(r, d.Swap, organizations), ToTell: factsToTell(d),
		Steps:    stepsOfSwap(r, entries, names),
		Reports:  tableOfReports(r, d.Reports),
		Arrivals: tableOfArrivals(r, d.Arrivals),
	}
	view.Kind, view.Whereabouts, view.NextStep = describeSwap(d)
	for _, request := range waiting {
		if request.Kind == changerequest.SwapWriteOff && textOfValue(request.Wanted["swapId"]) == d.ID {
			view.PendingPath = r.Path("changes", request.ID)
		}
	}
	view.addActs(r, d.Swap)
	return swapOverview(view), nil
}

// textOfValue returns the text of a value of a change request; "" for one that is no text.
func textOfValue(value json.RawMessage) (text string) {
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

// hasEnded reports whether no operator has to end a swap any more.
func hasEnded(w swap.Swap) bool {
	switch w.Status {
	case swap.FailedStatus, swap.Completed, swap.Rejected, swap.CancelledStatus:
		return true
	}
	return false
}

// describeSwap says where the money of a swap is, and what an operator looks at next.
func describeSwap(d swap.Detail) (kind ui.ChipKind, whereabouts, nextStep string) {
	open := !d.OpenClaim().IsZero()
	last := ""
	if len(d.Reports) > 0 {
		last = string(d.Reports[len(d.Reports)-1].Status)
	}
	switch d.Status {
	case swap.AwaitingApproval:
		return ui.Wait, "The money is still here", "People of the organization approve or reject it. No provider " +
			"knows of it yet."
	case swap.Rejected, swap.CancelledStatus:
		return ui.Quiet, "The money is available to the organization", "Nothing is left to do."
	case swap.Pending:
		if d.Provider == "" {
			return ui.Info, "The money is still here", "It is approved, and a provider is asked for a firm offer. " +
				"Without one in time it fails by itself."
		}
		return ui.Info, "The money is still here", "The payment waits for gas, the signer or a freeze. The " +
			"page of its order " +
			"says for what. After its last moment it is not signed any more, and the swap fails by itself."
	case swap.Depositing:
		return ui.Info, "The money is on its way to the provider", "The payment is sent and not final. The " +
			"page of its " +
			"order has the transaction."
	case swap.Completed:
		if d.Kind == swap.OrganizationSwap {
			return ui.Good, "The whitelisted address has what the provider delivered", "Nothing is left to do."
		}
		return ui.Good, "The customer has what the provider delivered", "Nothing is left to do."
	case swap.FailedStatus:
		if d.AmountOut != nil {
			return ui.Wait, "It was delivered and not paid out", "The organization has it in its product, and " +
				"withdraws it to another address of its whitelist."
		}
		if open {
			return ui.Bad, "The provider still has money of a failed swap", "Ask it for a refund to the " +
				"address below. What " +
				"arrives there is counted. Write the claim off only when you are sure that nothing comes back."
		}
		if d.Refunded != d.Restored {
			return ui.Wait, "What came back is held for the customer", "The organization restores it."
		}
		return ui.Quiet, "Nothing is open", "Nothing is left to do."
	}
	if d.DeliveredAt != nil {
		return ui.Info, "What the provider delivered is paid out by a withdrawal", "The withdrawal waits like " +
			"any other: its page says for what."
	}
	switch last {
	case "", "WAITING", "INCOMPLETE":
		return ui.Wait, "The money is with the provider, which does not see all of it", "Send it the hash of " +
			"the payment. " +
			"Never pay its address again."
	case "SUCCESS":
		return ui.Wait, "The provider says that it delivered", "Compare the hashes that it names with the " +
			"delivery address " +
			"in an explorer. An arrival there is credited when it is final: look whether the scan of that chain runs."
	case "REFUNDED", "FAILED":
		return ui.Wait, "The provider says that it failed", "The swap fails when the provider says so twice, " +
			"and what came " +
			"back is final."
	}
	return ui.Info, "The money is with the provider, which works on it", "Wait until its deadline."
}

func swapFacts(r *pages.Request, w swap.Swap, names orgNames) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Swap", Value: ui.Code(w.ID)},
		{Name: "Organization", Value: link(r.Path("organizations", w.OrgID), names.nameOf(w.OrgID))},
		{Name: "Kind", Value: ui.Text(kindText(w.Kind))},
		{Name: "Of", Value: ownerOfSwap(w)},
		{Name: "From", Value: pair(amountOfMint(w.From, w.AmountIn), ui.Text(networkName(w.From.Chain)))},
		{Name: "Offer", Value: pair(amountOfMint(w.To, w.EstimatedOut), ui.Text(networkName(w.To.Chain)))},
		{Name: "At least", Value: amountOfMint(w.To, w.MinOut)},
		{Name: "Requested", Value: ui.When(r.Moment(w.CreatedAt))},
		{Name: "Paid, by a final block", Value: whenOrNothing(r, w.PaidAt, "no")},
		{Name: "Looked at next", Value: whenOrNothing(r, w.LookAt, "nothing is expected")},
	}
	if w.Provider != "" {
		facts = append(facts,
			ui.Fact{Name: "Provider", Value: link(r.Path("swap-providers", w.Provider), w.Provider)},
			ui.Fact{Name: "Payment", Value: link(r.Path("orders", w.ID), "Show its order")},
			ui.Fact{Name: "Last moment to pay", Value: ui.When(r.Moment(w.PayBy))},
			ui.Fact{Name: "Deadline of the provider", Value: ui.When(r.Moment(w.ExpiresAt))},
		)
	}
	if w.Kind == swap.OrganizationSwap {
		facts = append(facts,
			ui.Fact{Name: "Paid out to", Value: ui.Address(string(w.PayoutAddress))},
			ui.Fact{Name: "Whitelist entry", Value: ui.Code(w.WhitelistedID)},
			ui.Fact{Name: "Approvals", Value: ui.Text(
				strconv.Itoa(w.ApprovalCount) + " of " + strconv.Itoa(w.ApprovalsRequired),
			)},
		)
	}
	if w.PayoutID != nil {
		facts = append(facts, ui.Fact{
			Name:  "Payment to the address",
			Value: link(r.Path("withdrawals", w.OrgID, *w.PayoutID), "Show the withdrawal"),
		})
	}
	if w.AmountOut != nil {
		facts = append(facts, ui.Fact{Name: "Delivered", Value: amountOfMint(w.To, *w.AmountOut)})
	}
	if w.FailureReason != nil {
		facts = append(facts, ui.Fact{Name: "Why it failed", Value: ui.Code(*w.FailureReason)})
	}
	for _, number := range []struct {
		name   string
		amount money.Amount
	}{
		{"With the provider", w.OpenClaim()},
		{"Came back", w.Refunded},
		{"Restored", w.Restored},
		{"Kept by the provider", w.Short},
	} {
		if !number.amount.IsZero() {
			facts = append(facts, ui.Fact{Name: number.name, Value: amountOfMint(w.From, number.amount)})
		}
	}
	return facts
}

// factsToTell are what the provider needs to find a swap, and where it may send.
func factsToTell(d swap.Detail) []ui.Fact {
	if d.ProviderAddress == "" {
		return nil // No provider knows of it.
	}
	facts := []ui.Fact{
		{Name: "Its deposit address", Value: ui.Address(d.ProviderAddress)},
		{Name: "Our payment", Value: pair(amountOfMint(d.From, d.AmountIn), ui.Text(networkName(d.From.Chain)))},
	}
	if d.OriginTxHash != nil {
		facts = append(facts, ui.Fact{Name: "Hash of our payment", Value: ui.Address(string(*d.OriginTxHash))})
	}
	return append(facts,
		ui.Fact{Name: "Deliver to", Value: ui.Address(string(d.DeliveryAddress))},
		ui.Fact{Name: "Refund to", Value: ui.Address(string(d.RefundAddress))},
	)
}

// stepsOfSwap is what the log has of a swap, the newest first.
func stepsOfSwap(r *pages.Request, entries []audit.Row, names holders) table {
	return tableOfSteps(r, entries, names, "swap.")
}

// tableOfSteps is what the log has of a thing whose entries begin with a prefix, the newest first.
func tableOfSteps(r *pages.Request, entries []audit.Row, names holders, prefix string) table {
	t := table{Caption: "What happened", Columns: textColumns("What", "Who", "When")}
	for _, e := range entries {
		var detail struct {
			Note   string `json:"note"`
			Reason string `json:"reason"`
			Word   string `json:"word"`
		}
		_ = json.Unmarshal(e.Detail, &detail) // What is missing is not shown.
		title := ui.Text(wordOf(strings.TrimPrefix(e.Action, prefix)))
		switch {
		case detail.Note != "":
			title = pair(title, ui.Foreign(detail.Note))
		case detail.Reason != "":
			title = pair(title, ui.Foreign(detail.Reason))
		case detail.Word != "":
			title = pair(title, ui.Foreign(detail.Word))
		}
		t.addRow(title, ui.Foreign(names.nameOf(e.Actor)), ui.When(r.Moment(e.RecordedAt)))
	}
	return t
}

// tableOfReports is what the provider said of a swap, the newest first.
func tableOfReports(r *pages.Request, reports []swap.Report) table {
	t := table{Caption: "Reports of the provider", Columns: textColumns("Report", "Refund", "Transactions", "When")}
	for i := len(reports) - 1; i >= 0; i-- {
		report := reports[i]
		saying := pair(ui.Text(wordOf(report.Status)), ui.Foreign(report.Word))
		if report.Reason != "" {
			saying = pair(saying, ui.Foreign(report.Reason))
		}
		hashes := make([]templ.Component, 0, len(report.TxHashes))
		for _, hash := range report.TxHashes {
			hashes = append(hashes, ui.Address(hash))
		}
		named := nothing("none")
		if len(hashes) > 0 {
			named = join(hashes...)
		}
		t.addRow(saying, ui.Text(wordOf(report.Refund)), named, ui.When(r.Moment(report.CreatedAt)))
	}
	return t
}

// tableOfArrivals is what arrived at the wallets of a swap by final blocks.
func tableOfArrivals(r *pages.Request, arrivals []swap.Arrival) table {
	t := table{Caption: "Arrivals", Columns: []column{
		{Title: "What"},
		{Title: "Amount", IsNumber: true},
		{Title: "Transaction"},
		{Title: "Arrived"},
		{Title: "Open", IsUnseen: true},
	}}
	for _, a := range arrivals {
		title, open := ui.Text(wordOf(a.Role)), nothing("")
		if a.Role == string(swap.Stray) {
			title = pair(ui.StateChip(strayChip(a.Decision)), ui.Text(strayText(a.Reason)))
			open = openLink(r.Path("swap-arrivals", a.DepositID), "Open", a.DepositID)
		}
		t.addRow(title, pair(amountOfArrival(a), ui.Text(networkName(a.Chain))), ui.ShortAddress(string(a.TxHash)),
			ui.When(r.Moment(a.CreatedAt)), open)
	}
	return t
}

// addActs adds what the state of a swap lets an operator decide.
func (v *swapView) addActs(r *pages.Request, w swap.Swap) {
	path, note := r.Path("swaps", w.ID), func(act string) []ui.Input {
		return []ui.Input{{
			Act: act, Name: "note", Label: "Why", Type: "text", MaxLength: swapNoteBytesMax, Autocomplete: "off",
			Hint: "Other operators see it, and the organization.",
		}}
	}
	if !r.IsAllowed(identity.FailSwap) {
		v.WhyNot = "Your role shows this swap and does not act on it."
		return
	}
	if !hasEnded(w) || w.Status == swap.FailedStatus {
		v.Acts = append(v.Acts, actView{
			Path: path, Act: lookAct, Form: r.Form, Button: "Ask the provider now", IsPrimary: true,
			Text: "The service asks the provider at once. It decides nothing.",
		})
	}
	if w.Status == swap.Processing && w.PaidAt != nil && w.DeliveredAt == nil {
		v.Acts = append(v.Acts, actView{
			Path: path, Act: failAct, Form: r.Form, Button: "End it as failed", TakesCode: true, IsDanger: true,
			Text: "It is refused before the deadline of the provider, and while the provider may still take " +
				"its time. The " +
				"claim stays open: a refund that arrives later is counted, and a later delivery is a stray arrival.",
			Inputs: note(failAct),
		})
	}
	open := w.OpenClaim()
	if w.Status == swap.FailedStatus && w.AmountOut == nil && !open.IsZero() && v.PendingPath == "" {
		figure := ui.GroupDigits(open.Decimal(w.From.Decimals)) + " " + ui.EscapeForeign(w.From.Symbol)
		v.Acts = append(v.Acts, actView{
			Path: path, Act: writeOffAct, Form: r.Form, Button: "Write off " + figure, TakesCode: true, IsDanger: true,
			Text: "The claim ends, and the held amount ends with it: no balance gets anything, and " +
				"it cannot be " +
				"undone. With four eyes it waits for another operator.",
			Inputs: note(writeOffAct),
		})
	}
	if len(v.Acts) == 0 {
		v.WhyNot = "There is nothing to decide in this state."
	}
}
