package dashboard

import (
	"context"
	"encoding/json"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// shownDepositsMax bounds the deposits of a deposit swap that its page shows one by one.
const shownDepositsMax = 20

var depositSwapStatusParameter = kernel.Parameter{
	Name: "status", Kind: kernel.WordParameter, Enum: resource.DepositSwapStatuses,
}

// depositSwapsPage lists the deposit swaps of the customers.
func (d *dashboard) depositSwapsPage() pages.Page {
	return pages.Page{
		Path: "/deposit-swaps", Title: "Deposit swaps", Action: identity.ReadOrganization,
		MenuPath: "/swaps", Live: []string{"DEPOSIT_SWAP"},
		Query: []kernel.Parameter{
			pages.CursorParameter, depositSwapStatusParameter, resource.CustomerFilter, swapKeyParameter,
		},
		Load: d.loadDepositSwaps, WriteCSV: d.writeDepositSwaps,
	}
}

// depositSwapPage shows one deposit swap with what arrived for it. Rule PAGE-77.
func (d *dashboard) depositSwapPage() pages.Page {
	return pages.Page{
		Path: "/deposit-swaps/{depositSwapId}", Title: "Deposit swap", Action: identity.ReadOrganization,
		MenuPath: "/swaps", Live: []string{"DEPOSIT_SWAP", "DEPOSIT"}, LiveOfAll: true, Load: d.loadDepositSwap,
	}
}

func depositSwapPath(r *pages.Request, depositSwapID string) string {
	return r.Path("deposit-swaps", depositSwapID)
}

// swapTabs are the tabs of Swaps.
func swapTabs(r *pages.Request, current string) []ui.Tab {
	tabs := []ui.Tab{
		{Title: "Swaps of customers", Path: r.Path("swaps")},
		{Title: "Deposit swaps", Path: r.Path("deposit-swaps")},
		{Title: "Your own money", Path: r.Path("organization-swaps")},
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Title == current
	}
	return tabs
}

// depositSwapRow is a deposit swap in a list.
type depositSwapRow struct {
	Path                 string
	Chip                 ui.Chip
	Figure               string // of the request; "" if it names no amount
	Symbol, Network      string // of a token that a stranger named
	OutFigure, OutSymbol string
	HasArrived           bool // the figure is what arrived, and no estimate
	Customer             string
	Made                 ui.Moment
	OutNetwork           string
}

// depositSwapsView is what the list shows.
type depositSwapsView struct {
	ListPath, CSVPath   string
	Tabs                []ui.Tab
	Statuses            []choice
	CustomerID, Key     string
	IsFiltered          bool
	Rows                []depositSwapRow
	FirstPath, NextPath string
	Calls               []string
}

func readDepositSwapFilter(r *pages.Request) depositswap.Filter {
	return depositswap.Filter{
		CustomerID: r.Query[resource.CustomerFilter.Name], Status: r.Query[depositSwapStatusParameter.Name],
		IdempotencyKey: r.Query[swapKeyParameter.Name],
	}
}

func (d *dashboard) loadDepositSwaps(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	f := readDepositSwapFilter(r)
	found, err := d.conf.DepositSwaps.List(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return nil, err
	}
	view := depositSwapsView{
		ListPath: r.Path("deposit-swaps"), CSVPath: r.CSVPath(), Tabs: swapTabs(r, "Deposit swaps"),
		CustomerID: f.CustomerID, Key: f.IdempotencyKey, IsFiltered: f != (depositswap.Filter{}),
		Calls: []string{
			d.callText("GET", "/deposit-swap/tokens", ""),
			d.callText("POST", "/deposit-swap", `{"customerId":"user_42","originTokenId":"…","refundAddress":"…"}`),
		},
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, status := range depositswap.Statuses {
		view.Statuses = append(view.Statuses, choice{
			Value: string(status), Text: depositSwapChip(status).Word, IsChosen: f.Status == string(status),
		})
	}
	for _, s := range found.Items {
		view.Rows = append(view.Rows, newDepositSwapRow(r, s))
	}
	return depositSwapsList(view), nil
}

func newDepositSwapRow(r *pages.Request, s depositswap.DepositSwap) depositSwapRow {
	row := depositSwapRow{
		Path: depositSwapPath(r, s.ID), Chip: depositSwapChip(s.Status), Symbol: s.Token.Symbol,
		Network:   ui.EscapeForeign(networkName(s.Token.Chain)),
		OutFigure: s.EstimatedOut.Decimal(s.To.Decimals), OutSymbol: s.To.Symbol, OutNetwork: networkName(s.To.Chain),
		Customer: s.CustomerID, Made: r.Moment(s.CreatedAt),
	}
	if s.AmountIn != nil {
		row.Figure = s.AmountIn.Decimal(s.Token.Decimals)
	}
	if s.AmountOut != nil {
		row.OutFigure, row.HasArrived = s.AmountOut.Decimal(s.To.Decimals), true
	}
	return row
}

func (d *dashboard) writeDepositSwaps(r *pages.Request, w *kernel.StreamWriter) error {
	f := readDepositSwapFilter(r)
	return kernel.WriteTable(r.Context(), w, true, resource.DepositSwapColumns,
		func(ctx context.Context, desc bool, row func(webhook.DepositSwap) error) error {
			return d.conf.DepositSwaps.ForEach(ctx, r.Session.OrgID, f, desc,
				func(s depositswap.DepositSwap) error { return row(wire.DepositSwap(s)) })
		})
}

// depositSwapView is what the page of a deposit swap shows.
type depositSwapView struct {
	timelineView
	TokenText            string // the token that the customer pays
	OutFigure, OutSymbol string
	OutWord              string // what the figure is
	Now                  swapNow
	Address              string // of the provider; "" once it takes no payment any more
	NetworkText          string
	Deadline             ui.Moment // of a payment
	Deposits             []transactionRow
	MoreDeposits         string // how many more there are; "" for none
}

// depositSwapRecords are what other features know about a deposit swap.
type depositSwapRecords struct {
	transactionRecords
	log      []audit.Row
	deposits []deposit.Deposit
}

func (d *dashboard) loadDepositSwapRecords(
	r *pages.Request, s depositswap.DepositSwap,
) (records depositSwapRecords, err error) {
	org := r.Session.OrgID
	err = d.conf.DB.ReadOrg(r.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		records = depositSwapRecords{}
		for _, depositID := range s.DepositIDs[:min(len(s.DepositIDs), shownDepositsMax)] {
			item, err := deposit.Load(ctx, tx, org, depositID)
			if fault.HasCode(err, fault.CodeNotFound) {
				continue // It left the chain meanwhile.
			}
			if err != nil {
				return err
			}
			records.deposits = append(records.deposits, item)
		}
		if records.deliveries, err = delivery.ListResourceAttempts(ctx, tx, org, s.ID); err != nil {
			return err
		}
		entries := audit.Filter{OrgID: org, ResourceID: s.ID}
		logged, err := audit.List(ctx, tx, entries, pagination.Page{Limit: swapStepsMax})
		records.log = logged.Items
		return err
	})
	return records, err
}

func (d *dashboard) loadDepositSwap(r *pages.Request) (templ.Component, error) {
	s, err := d.conf.DepositSwaps.ByID(r.Context(), r.Session.OrgID, r.PathParam("depositSwapId"))
	if err != nil {
		return nil, err
	}
	records, err := d.loadDepositSwapRecords(r, s)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	row := newDepositSwapRow(r, s)
	view := depositSwapView{
		timelineView: timelineView{
			ListPath: r.Path("deposit-swaps"), Kind: "Deposit swap", ID: s.ID, Figure: row.Figure, Symbol: row.Symbol,
			Chip: row.Chip, Facts: d.depositSwapFacts(r, s, row),
			Calls: []string{d.callText("GET", "/deposit-swap/"+s.ID, "")},
		},
		TokenText: ui.EscapeForeign(row.Symbol) + " on " + row.Network, OutFigure: row.OutFigure,
		OutSymbol: row.OutSymbol, OutWord: "about", Now: describeDepositSwap(s), NetworkText: row.Network,
		Deadline: r.Moment(s.ExpiresAt),
	}
	if row.HasArrived {
		view.OutWord = "received"
	}
	if r.Now.Before(s.ExpiresAt) {
		view.Address = s.DepositAddress
	}
	for _, item := range records.deposits {
		line := depositLine(r, item)
		line.Kind = depositKind.singular()
		view.Deposits = append(view.Deposits, line)
	}
	if rest := len(s.DepositIDs) - shownDepositsMax; rest > 0 {
		view.MoreDeposits = countNoun("more deposit", rest, false)
	}
	for _, item := range records.log {
		d.addDepositSwapStep(&view.timelineView, r, s, item, names)
	}
	for _, item := range records.deposits {
		view.addStep(r, &item.CreatedAt, timelineStep{
			Title: "The provider's payment was seen", Text: "It is a deposit of the customer",
			Hash: string(item.TxHash), ExplorerURL: d.explorerURL(item.Chain, item.TxHash),
			Facts: []ui.Fact{{Name: "Deposit", Value: pathLink(transactionPath(r, depositKind, item.ID), "Show it")}},
		})
		view.addStep(r, item.CreditedAt, timelineStep{
			Title: "A deposit was credited",
			Facts: []ui.Fact{{Name: "Amount", Value: amountOf(item.Mint, item.Amount)}},
		})
	}
	view.finish(r, records.transactionRecords)
	return depositSwapOverview(view), nil
}

// addDepositSwapStep adds what an entry of the log says about a deposit swap.
func (d *dashboard) addDepositSwapStep(
	view *timelineView, r *pages.Request, s depositswap.DepositSwap, item audit.Row, names people,
) {
	var detail struct {
		Word      string        `json:"word"`
		AmountOut *money.Amount `json:"amountOut"`
	}
	_ = json.Unmarshal(item.Detail, &detail) // What is missing is not shown.
	step := timelineStep{}
	switch item.Action {
	case "deposit_swap.requested":
		step.Title, step.Text = "Requested", "By "+names.nameOf(item.Actor, r.Session)
		step.Facts = []ui.Fact{
			{Name: "Offer", Value: amountOf(&s.To, s.EstimatedOut)},
			{Name: "At least", Value: amountOf(&s.To, s.MinOut)},
		}
	case "deposit_swap.reported":
		step.Title, step.Note = "The provider reported something new", detail.Word
	case "deposit_swap.completed":
		step.Title, step.Text = "Completed", "A final block has the payment of the provider"
		if detail.AmountOut != nil {
			step.Facts = []ui.Fact{{Name: "Arrived until then", Value: amountOf(&s.To, *detail.AmountOut)}}
		}
	default:
		return
	}
	view.addStep(r, &item.RecordedAt, step)
}

func (d *dashboard) depositSwapFacts(r *pages.Request, s depositswap.DepositSwap, row depositSwapRow) []ui.Fact {
	tokenAmount := func(a money.Amount) templ.Component {
		return ui.Amount(a.Decimal(s.Token.Decimals), s.Token.Symbol)
	}
	asked := ui.Text("The customer chooses it")
	if s.AmountIn != nil {
		asked = tokenAmount(*s.AmountIn)
	}
	facts := []ui.Fact{
		{Name: "Deposit swap", Value: copiedText(s.ID)},
		{Name: "Customer", Value: foreignLink(r.Path("customers", s.CustomerID), s.CustomerID)},
		{Name: "Token to pay", Value: foreignToken(s.Token.Symbol, row.Network, s.Token.ID)},
		{Name: "Amount to pay", Value: asked},
		{Name: "Credited in", Value: foreignToken(s.To.Symbol, row.OutNetwork, "")},
		{Name: "Offer", Value: amountOf(&s.To, s.EstimatedOut)},
		{Name: "At least", Value: amountOf(&s.To, s.MinOut)},
		{Name: "Refund address of the payer", Value: ui.Address(ui.EscapeForeign(s.RefundAddress))},
		{Name: "Takes payments until", Value: ui.When(r.Moment(s.ExpiresAt))},
		{Name: "Provider", Value: ui.Code(s.Provider)},
	}
	if !r.Now.Before(s.ExpiresAt) && s.DepositAddress != "" {
		facts = append(facts, ui.Fact{
			Name:  "Address of the provider, not to be paid any more",
			Value: ui.Address(ui.EscapeForeign(s.DepositAddress)),
		})
	}
	for _, number := range []struct {
		name   string
		amount *money.Amount
	}{
		{"Paid, as our node saw it", s.Received},
		{"Sent back, as our node saw it", s.Refunded},
	} {
		if number.amount != nil {
			facts = append(facts, ui.Fact{Name: number.name, Value: tokenAmount(*number.amount)})
		}
	}
	if s.AmountOut != nil {
		facts = append(facts, ui.Fact{Name: "Arrived", Value: amountOf(&s.To, *s.AmountOut)})
	}
	for _, tx := range []struct {
		name    string
		hash    *chain.TxHash
		network chain.Name
	}{
		{"Payment of the customer", s.OriginTxHash, s.Token.Chain},
		{"Delivery", s.DestinationTxHash, s.To.Chain},
	} {
		if tx.hash != nil {
			hash := chain.TxHash(ui.EscapeForeign(string(*tx.hash)))
			facts = append(facts, ui.Fact{
				Name: tx.name, Value: chainTransaction(string(hash), d.explorerURL(tx.network, hash)),
			})
		}
	}
	if s.FailureReason != nil {
		facts = append(facts, ui.Fact{Name: "Reason, in the provider's words", Value: ui.Foreign(*s.FailureReason)})
	}
	return append(facts, requestFacts(resource.OptionalText(s.IdempotencyKey), nil, nil)...)
}

// describeDepositSwap says what is known of the payment of a customer, and what happens next. Rule PAGE-77.
func describeDepositSwap(s depositswap.DepositSwap) swapNow {
	switch s.Status {
	case depositswap.AwaitingDeposit:
		return swapNow{
			ui.Info, "The provider has seen no payment yet.",
			"The customer pays the address of the provider. What the provider then pays becomes a deposit " +
				"of the customer.",
		}
	case depositswap.Underpaid:
		return swapNow{
			ui.Wait, "The provider says that the payment is too small.",
			"The customer pays the rest to the same address, or the provider sends it back to the refund address.",
		}
	case depositswap.Processing:
		return swapNow{
			ui.Info, "The provider has a payment.",
			"It pays a wallet that belongs to this deposit swap alone. What arrives is credited when its block " +
				"is final.",
		}
	case depositswap.Completed:
		return swapNow{
			ui.Good, "The provider's payment arrived and is a deposit of the customer.",
			"A second payment to the same address would become another deposit.",
		}
	case depositswap.Refunded:
		return swapNow{
			ui.Quiet, "The provider says that it sent the money back to the refund address.",
			"The money was never here. If something arrives all the same, it becomes a deposit of the customer.",
		}
	case depositswap.Failed:
		return swapNow{
			ui.Bad, "The provider says that it failed.",
			"The money was never here: the payer has to ask the provider. If something arrives all the same, it " +
				"becomes a deposit of the customer.",
		}
	}
	return swapNow{
		ui.Quiet, "The time for a payment is over, and none was seen.",
		"Make a new deposit swap for the customer. If something arrives all the same, it becomes a deposit " +
			"of the customer.",
	}
}

// depositSwapChip writes the status of a deposit swap for people.
func depositSwapChip(status depositswap.Status) ui.Chip {
	switch status {
	case depositswap.AwaitingDeposit:
		return ui.Chip{Kind: ui.Info, Word: "Waits for a payment"}
	case depositswap.Underpaid:
		return ui.Chip{Kind: ui.Wait, Word: "Paid too little"}
	case depositswap.Processing:
		return ui.Chip{Kind: ui.Info, Word: "With the provider"}
	case depositswap.Completed:
		return ui.Chip{Kind: ui.Good, Word: "Arrived"}
	case depositswap.Refunded:
		return ui.Chip{Kind: ui.Quiet, Word: "Sent back by the provider"}
	case depositswap.Failed:
		return ui.Chip{Kind: ui.Bad, Word: "Failed"}
	case depositswap.Expired:
		return ui.Chip{Kind: ui.Quiet, Word: "Not paid in time"}
	}
	return ui.Chip{}
}
