package console

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/webhook"
)

// orderStatuses are the states of open orders, those first that need a person.
var orderStatuses = []dispatch.Status{
	dispatch.Stuck, dispatch.Queued, dispatch.Slotted, dispatch.Signed, dispatch.Broadcast,
}

// openOrdersMax bounds the orders that the page reads.
const openOrdersMax = 500

// ordersPage lists the orders that have not ended.
func (c *console) ordersPage() pages.Page {
	return pages.Page{
		Path: "/orders", Title: "Open orders", Action: identity.ReadInstallation, Group: networkGroup, Icon: "wait",
		Query: []kernel.Parameter{textFilter("status"), textFilter("chain"), textFilter("walletId")},
		Live:  []string{"DEPOSIT", "WITHDRAWAL", "order"},
		Load:  c.loadOrders, WriteCSV: c.writeOrders,
	}
}

func (c *console) listOrders(r *pages.Request) (
	open []dispatch.OrderView, isCut bool, mints mint.Catalogue, err error,
) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if open, isCut, err = dispatch.ListOpen(ctx, tx, openOrdersMax); err != nil {
			return err
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	open = slices.DeleteFunc(open, func(o dispatch.OrderView) bool {
		status, name, wallet := r.Query["status"], r.Query["chain"], r.Query["walletId"]
		return status != "" && status != string(o.Status) || name != "" && name != string(o.Chain) ||
			wallet != "" && wallet != o.WalletID
	})
	return open, isCut, mints, err
}

func (c *console) loadOrders(r *pages.Request) (templ.Component, error) {
	open, isCut, mints, err := c.listOrders(r)
	if err != nil {
		return nil, err
	}
	states := []option{{"", "All"}}
	for _, status := range orderStatuses {
		states = append(states, option{string(status), orderChip(status).Word})
	}
	view := listView{
		Path: r.Path("orders"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r,
			filter{Name: "status", Label: "State", Options: states},
			filter{
				Name: "chain", Label: "Network",
				Options: append([]option{{"", "All"}}, chainOptions(c.chainNames())...),
			},
			filter{Name: "walletId", Label: "Wallet"}),
		Table: table{Caption: "Open orders", Columns: []column{
			{Title: "State"},
			{Title: "Amount", IsNumber: true},
			{Title: "From"},
			{Title: "Slot"},
			{Title: "Waits for"},
			{Title: "Made"},
			{Title: "Open", IsUnseen: true},
		}},
	}
	for _, o := range open {
		view.Table.addRow(
			ui.StateChip(orderChip(o.Status)), pair(amountOf(mints, o.MintID, o.Amount), ui.Text(wordOf(o.Purpose))),
			pair(ui.ShortAddress(string(o.Address)), ui.Text(networkName(o.Chain))),
			codeOrNothing(slotText(o), "none yet"),
			ui.Foreign(o.DescribeWait()), ui.When(r.Moment(o.CreatedAt)),
			openLink(r.Path("orders", o.ID), "Open", o.ID),
		)
	}
	return ordersList(view, isCut), nil
}

func slotText(o dispatch.OrderView) string {
	switch {
	case o.ChainSlot == nil:
		return ""
	case o.ChainSlot.Key != "":
		return o.ChainSlot.Key
	}
	return strconv.FormatUint(o.ChainSlot.Nonce, 10)
}

var orderColumns = []kernel.Column[dispatch.OrderView]{
	{Name: "orderId", Cell: func(o dispatch.OrderView) string { return o.ID }},
	{Name: "organizationId", Cell: func(o dispatch.OrderView) string { return o.OrgID }},
	{Name: "purpose", Cell: func(o dispatch.OrderView) string { return string(o.Purpose) }},
	{Name: "chain", Cell: func(o dispatch.OrderView) string { return string(o.Chain) }},
	{Name: "walletId", Cell: func(o dispatch.OrderView) string { return o.WalletID }},
	{Name: "mintId", Cell: func(o dispatch.OrderView) string { return strconv.Itoa(o.MintID) }},
	{Name: "amount", Cell: func(o dispatch.OrderView) string { return o.Amount.String() }},
	{Name: "status", Cell: func(o dispatch.OrderView) string { return string(o.Status) }},
	{Name: "waitsFor", Cell: func(o dispatch.OrderView) string { return o.DescribeWait() }},
	{Name: "createdAt", Cell: func(o dispatch.OrderView) string { return webhook.At(o.CreatedAt).String() }},
	{Name: "txHash", Cell: func(o dispatch.OrderView) string { return string(o.Hash) }},
}

func (c *console) writeOrders(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, false, orderColumns,
		func(_ context.Context, _ bool, row func(dispatch.OrderView) error) error {
			open, _, _, err := c.listOrders(r)
			if err != nil {
				return err
			}
			for _, o := range open {
				if err := row(o); err != nil {
					return err
				}
			}
			return nil
		})
}

// orderChip writes the status of an order for people.
func orderChip(status dispatch.Status) ui.Chip {
	switch status {
	case dispatch.Queued:
		return ui.Chip{Kind: ui.Wait, Word: "In the queue"}
	case dispatch.Refused:
		return ui.Chip{Kind: ui.Wait, Word: "Refused by the signer"}
	case dispatch.Recalled:
		return ui.Chip{Kind: ui.Quiet, Word: "Recalled"}
	case dispatch.Slotted:
		return ui.Chip{Kind: ui.Info, Word: "Has a slot"}
	case dispatch.Signed:
		return ui.Chip{Kind: ui.Info, Word: "Signed"}
	case dispatch.Broadcast:
		return ui.Chip{Kind: ui.Info, Word: "Sent, not final"}
	case dispatch.Stuck:
		return ui.Chip{Kind: ui.Bad, Word: "Stuck"}
	case dispatch.Paid:
		return ui.Chip{Kind: ui.Good, Word: "Paid"}
	case dispatch.Failed:
		return ui.Chip{Kind: ui.Bad, Word: "Failed"}
	}
	return ui.Chip{}
}

// orderPage shows one order with its transactions, and has its one safe act. Both acts pay the same
// payees the same amounts, or change nothing. Rule PAGE-43.
func (c *console) orderPage() pages.Page {
	return pages.Page{
		Path: "/orders/{orderId}", Title: "Order", Action: identity.ReadInstallation, Load: c.loadOrderPage,
		Live: []string{"WITHDRAWAL", "order"},
		Acts: []pages.Act{
			{
				Name: "raise-fee", Action: identity.AdvanceOrder, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{{Name: "version", BytesMax: idBytesMax, Missing: "Open the page again."}},
				FindDone: c.findReplaced,
				Run: func(r *pages.Request) (string, error) {
					return c.withWorker(r, func(o dispatch.OrderView, worker *dispatch.Worker) error {
						version, err := strconv.Atoi(r.Values["version"])
						if err == nil {
							_, err = worker.BumpFee(r.Context(), o.ID, version, actor(r))
						}
						return err
					})
				},
			},
			{
				Name: "resolve", Action: identity.AdvanceOrder, StepUp: pages.ActStepUp,
				FindDone: func(r *pages.Request) (string, error) {
					o, err := c.loadOrder(r)
					if err != nil || o.Status == dispatch.Stuck {
						return "", err
					}
					return r.Path("orders", o.ID), nil
				},
				Run: func(r *pages.Request) (string, error) {
					return c.withWorker(r, func(o dispatch.OrderView, worker *dispatch.Worker) error {
						_, err := worker.ResolveStuck(r.Context(), o.ID, actor(r), false)
						return err
					})
				},
			},
		},
	}
}

// findReplaced returns the page of an order that has another newest transaction than the one that the
// operator saw: a second click, an old tab and a slower colleague raise no fee twice.
func (c *console) findReplaced(r *pages.Request) (string, error) {
	o, err := c.loadOrder(r)
	if err != nil || newestVersion(o) == r.Values["version"] {
		return "", err
	}
	return r.Path("orders", o.ID), nil
}

func newestVersion(o dispatch.OrderView) string {
	newest := 0
	for _, t := range o.Transactions {
		newest = max(newest, t.Version)
	}
	return strconv.Itoa(newest)
}

func (c *console) loadOrder(r *pages.Request) (o dispatch.OrderView, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		o, err = dispatch.LoadView(ctx, tx, r.PathParam("orderId"))
		return err
	})
	return o, err
}

func (c *console) withWorker(
	r *pages.Request, act func(o dispatch.OrderView, worker *dispatch.Worker) error,
) (string, error) {
	o, err := c.loadOrder(r)
	if err != nil {
		return "", err
	}
	worker := c.conf.Worker(o.Chain)
	if worker == nil {
		return "", fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"The chain of this order does not run in this process.").
			WithAdvice("Use the terminal of the installation.")
	}
	return r.Path("orders", o.ID), act(o, worker)
}

// orderView is what the page of an order shows.
type orderView struct {
	ID, WaitText string
	Chip         ui.Chip
	Facts        []ui.Fact
	Transactions table
	ByHand       table // what operators did about it
	Act          *actView
	WhyNot       string
	Form         ui.Form
	IsOpen       bool // its blocks have no row in the audit log
}

func (c *console) loadOrderPage(r *pages.Request) (templ.Component, error) {
	o, err := c.loadOrder(r)
	if err != nil {
		return nil, err
	}
	var mints mint.Catalogue
	var names holders
	var entries []audit.Row
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		if names, err = loadHolders(ctx, tx); err != nil {
			return err
		}
		entries, err = audit.ListNewest(ctx, tx, o.ID, 0, rowsMax)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := orderView{
		ID: o.ID, Form: r.Form, IsOpen: o.EndedAt == nil, WaitText: o.DescribeWait(),
		Chip: orderChip(o.Status), Facts: orderFacts(r, o, mints),
		Transactions: table{
			Caption: "Transactions", Columns: textColumns("Version", "Does", "Made for", "Hash", "Made", "Sent last"),
		},
	}
	for _, t := range o.Transactions {
		view.Transactions.addRow(ui.Text(strconv.Itoa(t.Version)), ui.Text(wordOf(t.Act)), ui.Text(
			reasonOfTransaction(t.Reason),
		),
			codeOrNothing(
				string(t.Hash), "not signed",
			), ui.When(r.Moment(t.CreatedAt)), whenOrNothing(r, t.LastSentAt, "never"))
	}
	view.ByHand = table{Caption: "By hand", Columns: textColumns("What", "Who", "When")}
	for _, e := range entries {
		if e.Actor.Kind == operatorKind {
			view.ByHand.addRow(
				ui.Text(orderActText(e)), ui.Foreign(names.nameOf(e.Actor)), ui.When(r.Moment(e.RecordedAt)),
			)
		}
	}
	view.addAct(r, o)
	return orderOverview(view), nil
}

// orderActText writes what an operator did about an order.
func orderActText(e audit.Row) string {
	switch e.Action {
	case "order.replaced":
		var detail struct {
			Act signer.Act `json:"act"`
		}
		if json.Unmarshal(e.Detail, &detail) == nil && detail.Act == signer.Cancel {
			return "Cancels it"
		}
		return "Raised the fee"
	case "order.resolved":
		return "Resolved it by the chain"
	case "order.decided":
		return "Decided what happened on the chain"
	case "order.withdrawn":
		return "Withdrew it"
	}
	return e.Action
}

func reasonOfTransaction(reason string) string {
	switch reason {
	case "FEE":
		return "a higher fee"
	case "OPERATOR":
		return "an operator"
	case "REFUSAL":
		return "a refusal, or the end of its time"
	case "LAPSE":
		return "the end of an earlier one"
	}
	return "the order"
}

func orderFacts(r *pages.Request, o dispatch.OrderView, mints mint.Catalogue) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Amount", Value: amountOf(mints, o.MintID, o.Amount)},
		{Name: "To", Value: ui.Address(string(o.To))},
		{Name: "From", Value: ui.Address(string(o.Address))},
		{Name: "Network", Value: ui.Text(networkName(o.Chain))},
		{Name: "Purpose", Value: ui.Text(wordOf(o.Purpose))},
		{Name: "Organization", Value: link(r.Path("organizations", o.OrgID), o.OrgID)},
		{Name: "Slot", Value: codeOrNothing(slotText(o), "none: nothing is signed and nothing was sent")},
		{Name: "Made", Value: ui.When(r.Moment(o.CreatedAt))},
		{Name: "Ended", Value: whenOrNothing(r, o.EndedAt, "no")},
	}
	if o.Fee != nil {
		facts = append(facts, ui.Fact{Name: "Cost", Value: nativeAmount(mints, o.Chain, *o.Fee)})
	}
	if o.LastError != "" {
		facts = append(facts, ui.Fact{Name: "Last error", Value: ui.Foreign(o.LastError)})
	}
	if o.ProviderAnswer != "" {
		facts = append(facts, ui.Fact{Name: "Answer of the providers", Value: ui.Foreign(o.ProviderAnswer)})
	}
	if len(o.TxMemberIDs) > 0 {
		facts = append(
			facts, ui.Fact{Name: "In one transaction with", Value: ui.Code(strings.Join(o.TxMemberIDs, ", "))},
		)
	}
	return facts
}

func nativeAmount(mints mint.Catalogue, name chain.Name, amount money.Amount) templ.Component {
	if m, ok := mints.Native(name); ok {
		return ui.Amount(amount.Decimal(m.Decimals), m.Symbol)
	}
	return ui.Amount(amount.String(), "units")
}

// addAct adds the one safe act of the order's state.
func (v *orderView) addAct(r *pages.Request, o dispatch.OrderView) {
	if !r.IsAllowed(identity.AdvanceOrder) {
		v.WhyNot = "Your role shows this order and does not act on it."
		return
	}
	path := r.Path("orders", o.ID)
	switch o.Status {
	case dispatch.Slotted, dispatch.Signed, dispatch.Broadcast:
		v.Act = &actView{
			Path: path, Act: "raise-fee", Form: r.Form, Button: "Raise the fee", TakesCode: true, IsPrimary: true,
			Text: "The service signs the same payment again with a higher fee, in the same slot. One of the two can " +
				"be mined, never both.",
			Hidden: []hiddenField{{"version", newestVersion(o)}},
		}
	case dispatch.Stuck:
		v.Act = &actView{
			Path: path, Act: "resolve", Form: r.Form, Button: "Resolve by what the chain proves", TakesCode: true,
			IsPrimary: true,
			Text: "The providers are asked for the balances around its final block. It is paid or failed " +
				"only if they " +
				"prove it; otherwise it stays stuck, and its amount stays held.",
		}
	default:
		v.WhyNot = "There is nothing to do by hand in this state."
	}
}
