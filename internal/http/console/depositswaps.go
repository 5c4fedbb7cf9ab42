package console

import (
	"context"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// depositSwapsPage lists the deposit swaps of all organizations. Rule PAGE-80.
func (c *console) depositSwapsPage() pages.Page {
	return pages.Page{
		Path: "/deposit-swaps", Title: "Deposit swaps", Action: identity.ReadInstallation, Group: moneyGroup,
		Icon: "swap",
		Query: []kernel.Parameter{
			pages.CursorParameter, textFilter("status"), textFilter("provider"), textFilter("organizationId"),
			textFilter("customerId"),
		},
		Live: []string{"DEPOSIT_SWAP"}, Load: c.loadDepositSwaps, WriteCSV: c.writeDepositSwaps,
	}
}

// depositSwapPage shows one deposit swap with who paid for it, as far as that is known. Rule PAGE-80.
func (c *console) depositSwapPage() pages.Page {
	return pages.Page{
		Path: "/deposit-swaps/{depositSwapId}", Title: "Deposit swap", Action: identity.ReadInstallation,
		Live: []string{"DEPOSIT_SWAP"}, Load: c.loadDepositSwap,
	}
}

func (c *console) listDepositSwaps(
	r *pages.Request, p pagination.Page,
) (pagination.Result[depositswap.DepositSwap], error) {
	return c.conf.DepositSwaps.ListAll(r.Context(), depositswap.OperatorFilter{
		Filter: depositswap.Filter{CustomerID: r.Query["customerId"], Status: r.Query["status"]},
		OrgID:  r.Query["organizationId"], Provider: r.Query["provider"],
	}, p)
}

func (c *console) loadDepositSwaps(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listDepositSwaps(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	states := []option{{"", "All"}}
	for _, status := range depositswap.Statuses {
		states = append(states, option{string(status), depositSwapChip(status).Word})
	}
	view := listView{
		Path: r.Path("deposit-swaps"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r,
			filter{Name: "status", Label: "State", Options: states},
			filter{Name: "provider", Label: "Provider"},
			filter{Name: "organizationId", Label: "Organization"},
			filter{Name: "customerId", Label: "Customer"}),
		Table: table{Caption: "Deposit swaps", Columns: []column{
			{Title: "State"},
			{Title: "To pay", IsNumber: true},
			{Title: "Arrived", IsNumber: true},
			{Title: "Organization"},
			{Title: "Requested"},
			{Title: "Open", IsUnseen: true},
		}},
	}
	for _, s := range found.Items {
		arrived := nothing("nothing")
		if s.AmountOut != nil {
			arrived = pair(amountOfMint(s.To, *s.AmountOut), ui.Text(networkName(s.To.Chain)))
		}
		view.Table.addRow(
			pair(ui.StateChip(depositSwapChip(s.Status)), ui.Code(s.Provider)),
			pair(amountToPay(s), ui.Foreign(networkName(s.Token.Chain))), arrived,
			pair(link(r.Path("organizations", s.OrgID), names.nameOf(s.OrgID)), ui.Foreign(s.CustomerID)),
			ui.When(r.Moment(s.CreatedAt)), openLink(r.Path("deposit-swaps", s.ID), "Open", s.ID),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return depositSwapsList(view), nil
}

// providerAddress shows the address that the customer pays, unless no key verifies it any more.
func providerAddress(s depositswap.DepositSwap) templ.Component {
	if s.DepositAddress == "" {
		return ui.Text("withheld: no key of its provider verifies it")
	}
	return ui.Address(ui.EscapeForeign(s.DepositAddress))
}

// amountToPay shows what the customer was asked to pay.
func amountToPay(s depositswap.DepositSwap) templ.Component {
	if s.AmountIn == nil {
		return ui.Foreign("any amount of " + s.Token.Symbol)
	}
	return ui.Amount(s.AmountIn.Decimal(s.Token.Decimals), s.Token.Symbol)
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

var depositSwapColumns = []kernel.Column[depositswap.DepositSwap]{
	{Name: "depositSwapId", Cell: func(s depositswap.DepositSwap) string { return s.ID }},
	{Name: "organizationId", Cell: func(s depositswap.DepositSwap) string { return s.OrgID }},
	{Name: "customerId", Cell: func(s depositswap.DepositSwap) string { return s.CustomerID }},
	{Name: "createdAt", Cell: func(s depositswap.DepositSwap) string { return webhook.At(s.CreatedAt).String() }},
	{Name: "status", Cell: func(s depositswap.DepositSwap) string { return string(s.Status) }},
	{Name: "provider", Cell: func(s depositswap.DepositSwap) string { return s.Provider }},
	{Name: "originTokenId", Cell: func(s depositswap.DepositSwap) string { return s.Token.ID }},
	{Name: "depositAddress", Cell: func(s depositswap.DepositSwap) string { return s.DepositAddress }},
	{Name: "amountOut", Cell: func(s depositswap.DepositSwap) string {
		if s.AmountOut == nil {
			return ""
		}
		return s.AmountOut.String()
	}},
	{Name: "originTxHash", Cell: func(s depositswap.DepositSwap) string { return textOrEmpty(s.OriginTxHash) }},
	{Name: "destinationTxHash", Cell: func(s depositswap.DepositSwap) string {
		return textOrEmpty(s.DestinationTxHash)
	}},
}

func (c *console) writeDepositSwaps(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, depositSwapColumns, eachOf(
		func(p pagination.Page) (pagination.Result[depositswap.DepositSwap], error) {
			return c.listDepositSwaps(r, p)
		}))
}

// depositSwapView is what the page of a deposit swap shows.
type depositSwapView struct {
	Title         string
	Chip          ui.Chip
	Facts, Payers []ui.Fact
	PayerText     string
	Steps         table
	Deposits      table
}

func (c *console) loadDepositSwap(r *pages.Request) (templ.Component, error) {
	s, err := c.conf.DepositSwaps.ByIDForOperator(r.Context(), r.PathParam("depositSwapId"))
	if err != nil {
		return nil, err
	}
	organizations, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	var names holders
	var entries []audit.Row
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if names, err = loadHolders(ctx, tx); err != nil {
			return err
		}
		entries, err = audit.ListNewest(ctx, tx, s.ID, 0, rowsMax)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := depositSwapView{
		Title: "Deposit swap of " + ui.EscapeForeign(s.Token.Symbol) + " on " +
			ui.EscapeForeign(networkName(s.Token.Chain)),
		Chip: depositSwapChip(s.Status), Facts: depositSwapFacts(r, s, organizations),
		Steps: tableOfSteps(r, entries, names, "deposit_swap."),
		Deposits: table{Caption: "Deposits", Columns: []column{
			{Title: "Deposit"}, {Title: "Open", IsUnseen: true},
		}},
	}
	for _, depositID := range s.DepositIDs[:min(len(s.DepositIDs), rowsMax)] {
		view.Deposits.addRow(ui.Code(depositID), openLink(r.Path("flagged", depositID), "Open", depositID))
	}
	payers, source := s.Payers()
	for _, payer := range payers[:min(len(payers), rowsMax)] {
		view.Payers = append(view.Payers, ui.Fact{Name: "Payer", Value: ui.Address(ui.EscapeForeign(string(payer)))})
	}
	view.PayerText = payerText(source)
	return depositSwapOverview(view), nil
}

// payerText says how it is known who paid the provider.
func payerText(source depositswap.PayerSource) string {
	switch source {
	case depositswap.OwnNode:
		return "By a final block of a chain that this installation reads. Screening asks about these addresses."
	case depositswap.ProviderSay:
		return "The provider says so: this installation does not read the chain. Screening asks about these addresses."
	}
	return "Not known. Screening treats what arrives like a deposit of an unknown sender."
}

func depositSwapFacts(r *pages.Request, s depositswap.DepositSwap, names orgNames) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Deposit swap", Value: ui.Code(s.ID)},
		{Name: "Organization", Value: link(r.Path("organizations", s.OrgID), names.nameOf(s.OrgID))},
		{Name: "Customer", Value: ui.Foreign(s.CustomerID)},
		{Name: "Token to pay", Value: pair(ui.Foreign(s.Token.Symbol), ui.Code(ui.EscapeForeign(s.Token.ID)))},
		{Name: "To pay", Value: amountToPay(s)},
		{Name: "Credited in", Value: pair(ui.Foreign(s.To.Symbol), ui.Text(networkName(s.To.Chain)))},
		{Name: "Offer", Value: amountOfMint(s.To, s.EstimatedOut)},
		{Name: "At least", Value: amountOfMint(s.To, s.MinOut)},
		{Name: "Provider", Value: link(r.Path("swap-providers", s.Provider), s.Provider)},
		{Name: "Address of the provider", Value: providerAddress(s)},
		{Name: "Refund address of the payer", Value: ui.Address(ui.EscapeForeign(s.RefundAddress))},
		{Name: "Requested", Value: ui.When(r.Moment(s.CreatedAt))},
		{Name: "Takes payments until", Value: ui.When(r.Moment(s.ExpiresAt))},
	}
	for _, number := range []struct {
		name   string
		amount *money.Amount
	}{
		{"Paid, as our node saw it", s.Received},
		{"Sent back, as our node saw it", s.Refunded},
	} {
		if number.amount != nil {
			facts = append(facts, ui.Fact{
				Name: number.name, Value: ui.Amount(number.amount.Decimal(s.Token.Decimals), s.Token.Symbol),
			})
		}
	}
	if s.AmountOut != nil {
		facts = append(facts, ui.Fact{Name: "Arrived, by final blocks", Value: amountOfMint(s.To, *s.AmountOut)})
	}
	for _, tx := range []struct {
		name string
		hash *chain.TxHash
	}{
		{"Payment of the customer", s.OriginTxHash},
		{"Delivery", s.DestinationTxHash},
	} {
		if tx.hash != nil {
			facts = append(facts, ui.Fact{Name: tx.name, Value: ui.Address(ui.EscapeForeign(string(*tx.hash)))})
		}
	}
	if s.FailureReason != nil {
		facts = append(facts, ui.Fact{Name: "Reason, in the provider's words", Value: ui.Foreign(*s.FailureReason)})
	}
	return facts
}
