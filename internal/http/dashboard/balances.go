package dashboard

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/transfer"
)

// balancesPage shows the organization's own balances, by product and token.
func (d *dashboard) balancesPage() pages.Page {
	return pages.Page{
		Path: "/balances", Title: "Balances and transfers", Action: identity.ReadOrganization,
		Icon: "balance", Shortcut: "b", Live: []string{"DEPOSIT", "WITHDRAWAL", "TRANSFER"},
		Load: d.loadBalances, WriteCSV: d.writeBalances,
	}
}

// balancePage shows one balance with its deposit address, and begins a transfer.
func (d *dashboard) balancePage() pages.Page {
	return pages.Page{
		Path: "/balances/{product}/{mintId}", Title: "Balance", Action: identity.ReadOrganization,
		Query: []kernel.Parameter{toParameter, amountParameter}, Load: d.loadBalance,
		Acts: []pages.Act{{
			Name: continueAct, Action: identity.Transfer,
			Fields: []pages.Field{
				{Name: "to", BytesMax: entryBytesMax, Checkbox: true, Missing: "Choose where to."},
				{Name: "amount", BytesMax: amountBytesMax, Missing: "Enter an amount."},
			},
			Run: d.continueTransfer,
		}},
	}
}

// transferConfirmPage shows the whole transfer, and makes it.
func (d *dashboard) transferConfirmPage() pages.Page {
	const missing = "Open the page again."
	return pages.Page{
		Path: "/balances/{product}/{mintId}/transfer", Title: "Confirm a transfer", Action: identity.Transfer,
		Query: []kernel.Parameter{toParameter, amountParameter}, Load: d.loadTransferConfirm,
		Acts: []pages.Act{{
			Name: requestAct, Action: identity.Transfer, StepUp: pages.ActStepUp, Keyed: true,
			Fields: []pages.Field{
				{Name: "shownTo", BytesMax: entryBytesMax, Missing: missing},
				{Name: "shownAmount", BytesMax: amountBytesMax, Missing: missing},
			},
			FindDone: d.findTransfer, Run: d.requestTransfer,
		}},
	}
}

// balanceLine is the balance of one token in one product.
type balanceLine struct {
	Path                               string
	Symbol, Network, Dollars           string
	Total, Available, Pending, Arrives string // Pending and Arrives are "" for nothing
	HasAddress                         bool
}

// productBalances are the balances of one product.
type productBalances struct {
	Name string
	Rows []balanceLine
}

// balancesView is what the page shows.
type balancesView struct {
	Tabs         []ui.Tab
	Products     []productBalances
	WithdrawPath string // "" for a person who may not withdraw
	CSVPath      string
}

// balanceTabs are the tabs of Balances and transfers.
func balanceTabs(r *pages.Request, current string) []ui.Tab {
	tabs := []ui.Tab{
		{Title: "Balances", Path: r.Path("balances")},
		{Title: "Transfers", Path: r.Path("balances", "transfers")},
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Title == current
	}
	return tabs
}

// loadOwnBalances returns the organization's balances, and those of zero at which a deposit address
// receives. addresses has the addresses by product and mint.
func (d *dashboard) loadOwnBalances(
	ctx context.Context, tx pg.Tx, orgID string,
) (balances []report.ProductBalance, addresses map[balanceKey]deposit.ProductAddress, err error) {
	if balances, err = report.LoadProductBalances(ctx, tx, orgID); err != nil {
		return nil, nil, err
	}
	found, err := deposit.ListProductAddresses(ctx, tx, d.conf.Wallets, d.conf.Chains, orgID)
	if err != nil {
		return nil, nil, err
	}
	listed := map[balanceKey]bool{}
	for _, b := range balances {
		listed[balanceKey{b.Product, b.Mint.ID}] = true
	}
	addresses = map[balanceKey]deposit.ProductAddress{}
	for _, a := range found {
		key := balanceKey{a.Product, a.Mint.ID}
		addresses[key] = a
		if !listed[key] && a.IsOpen {
			balances = append(balances, report.ProductBalance{Product: a.Product, Mint: a.Mint})
		}
	}
	slices.SortStableFunc(balances, func(a, b report.ProductBalance) int { return cmp.Compare(a.Mint.ID, b.Mint.ID) })
	return balances, addresses, nil
}

// balanceKey names a balance of an organization.
type balanceKey struct {
	product string
	mintID  int
}

func (d *dashboard) loadBalances(r *pages.Request) (templ.Component, error) {
	var balances []report.ProductBalance
	var addresses map[balanceKey]deposit.ProductAddress
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		balances, addresses, err = d.loadOwnBalances(ctx, tx, r.Session.OrgID)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := balancesView{Tabs: balanceTabs(r, "Balances"), CSVPath: r.CSVPath()}
	if r.IsAllowed(identity.WithdrawOwnMoney) {
		view.WithdrawPath = r.Path("withdraw")
	}
	for _, product := range ledger.Products {
		part := productBalances{Name: productName(product)}
		for _, b := range balances {
			_, hasAddress := addresses[balanceKey{b.Product, b.Mint.ID}]
			isUsed := !b.Total.IsZero() || !b.PendingDeposit.IsZero() || hasAddress
			if b.Product != product || !isUsed {
				continue
			}
			line := balanceLine{
				Path:   r.Path("balances", b.Product, strconv.Itoa(b.Mint.ID)),
				Symbol: b.Mint.Symbol, Network: networkName(b.Mint.Chain), HasAddress: hasAddress,
				Total: b.Total.Decimal(b.Mint.Decimals), Available: b.Available.Decimal(b.Mint.Decimals),
				Pending: decimalOrEmpty(b.Pending, b.Mint.Decimals),
				Arrives: decimalOrEmpty(b.PendingDeposit, b.Mint.Decimals),
				Dollars: d.dollars(r.Context(), b.Mint, b.Total),
			}
			part.Rows = append(part.Rows, line)
		}
		view.Products = append(view.Products, part)
	}
	return balancesOverview(view), nil
}

func decimalOrEmpty(a money.Amount, decimals int) string {
	if a.IsZero() {
		return ""
	}
	return a.Decimal(decimals)
}

func (d *dashboard) writeBalances(r *pages.Request, w *kernel.StreamWriter) error {
	usdValue := func(b report.ProductBalance) string { return d.dollars(r.Context(), b.Mint, b.Total) }
	columns := append(slices.Clone(balanceColumns),
		kernel.Column[report.ProductBalance]{Name: "usdValue", Cell: usdValue})
	return kernel.WriteTable(r.Context(), w, false, columns,
		func(ctx context.Context, _ bool, row func(report.ProductBalance) error) error {
			var balances []report.ProductBalance
			err := d.conf.DB.ReadOrg(ctx, r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
				balances, err = report.LoadProductBalances(ctx, tx, r.Session.OrgID)
				return err
			})
			if err != nil {
				return err
			}
			for _, b := range balances {
				if err := row(b); err != nil {
					return err
				}
			}
			return nil
		})
}

// balanceColumns have the names of the interface.
var balanceColumns = []kernel.Column[report.ProductBalance]{
	{Name: "product", Cell: func(b report.ProductBalance) string { return b.Product }},
	{Name: "mintId", Cell: func(b report.ProductBalance) string { return strconv.Itoa(b.Mint.ID) }},
	{Name: "symbol", Cell: func(b report.ProductBalance) string { return b.Mint.Symbol }},
	{Name: "chain", Cell: func(b report.ProductBalance) string { return string(b.Mint.Chain) }},
	{Name: "available", Cell: func(b report.ProductBalance) string { return b.Available.String() }},
	{Name: "pending", Cell: func(b report.ProductBalance) string { return b.Pending.String() }},
	{Name: "pendingDeposit", Cell: func(b report.ProductBalance) string { return b.PendingDeposit.String() }},
	{Name: "total", Cell: func(b report.ProductBalance) string { return b.Total.String() }},
	{Name: "owedToCustomers", Cell: func(b report.ProductBalance) string {
		if b.Product != "CUSTODIAL" {
			return ""
		}
		return b.Owed.String()
	}},
}

// productChoice is a product that a transfer can go to.
type productChoice struct{ Value, Name string }

// balanceView is what the page of one balance shows.
type balanceView struct {
	ListPath, Path, WithdrawPath string
	SwapPath                     string // of the form that swaps the balance; "" where it is not possible
	Title                        string
	Facts                        []ui.Fact
	Address, QRPath, QRBox       string // "" where no address was created
	AddressText                  string
	Choices                      []productChoice
	CanTransfer, HasMoney        bool
	Form                         ui.Form
}

func (d *dashboard) loadBalance(r *pages.Request) (templ.Component, error) {
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return nil, err
	}
	var addresses map[balanceKey]deposit.ProductAddress
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		_, addresses, err = d.loadOwnBalances(ctx, tx, r.Session.OrgID)
		return err
	})
	if err != nil {
		return nil, err
	}
	form := r.Form
	if form.Act == "" {
		payee, amount, _ := typedWithdrawal(r)
		form = ui.Form{Act: continueAct, Typed: map[string]string{"to": payee, "amount": amount}}
	}
	amountOf := func(a money.Amount) templ.Component { return ui.Amount(a.Decimal(b.Mint.Decimals), b.Mint.Symbol) }
	mintID := strconv.Itoa(b.Mint.ID)
	view := balanceView{
		ListPath: r.Path("balances"), Path: r.Path("balances", b.Product, mintID),
		Title: productName(b.Product) + ", " + ui.EscapeForeign(b.Mint.Symbol) + " on " + networkName(b.Mint.Chain),
		Facts: []ui.Fact{
			{Name: "Token", Value: tokenWord(b.Mint.Symbol, b.Mint.ID, b.Mint.Decimals)},
			{Name: "Network", Value: ui.Text(networkName(b.Mint.Chain))},
			{Name: "Available", Value: valueWord(
				b.Available.Decimal(b.Mint.Decimals), b.Mint.Symbol, d.dollars(r.Context(), b.Mint, b.Available),
			)},
			{Name: "Held for payments and swaps", Value: amountOf(b.Pending)},
			{Name: "Arriving, not credited", Value: amountOf(b.PendingDeposit)},
			{Name: "Total", Value: amountOf(b.Total)},
		},
		CanTransfer: r.IsAllowed(identity.Transfer), HasMoney: !b.Available.IsZero(), Form: form,
	}
	if b.Product == "CUSTODIAL" {
		view.Facts = append(view.Facts, ui.Fact{Name: "Owed to customers, not yours", Value: amountOf(b.Owed)})
	}
	if r.IsAllowed(identity.WithdrawOwnMoney) && view.HasMoney {
		view.WithdrawPath = r.Path("withdraw", b.Product, mintID)
	}
	if view.WithdrawPath != "" {
		settings, err := d.readSettings(r)
		if err != nil {
			return nil, err
		}
		if settings.OrganizationSwapsEnabled && slices.Contains(settings.SwappableMintIDs, b.Mint.ID) {
			view.SwapPath = r.Path("organization-swaps", "new") + "?" +
				url.Values{balanceParameter.Name: {balanceValue(b)}}.Encode()
		}
	}
	for _, product := range ledger.Products {
		if product != b.Product {
			view.Choices = append(view.Choices, productChoice{product, productName(product)})
		}
	}
	if a, isIssued := addresses[balanceKey{b.Product, b.Mint.ID}]; isIssued {
		view.Address = string(a.Address)
		if view.QRPath, view.QRBox, err = ui.EncodeQR(a.PaymentURI); err != nil {
			return nil, err
		}
		view.AddressText = "Send at least " + ui.GroupDigits(b.Mint.MinDeposit.Decimal(b.Mint.Decimals)) + " " +
			ui.EscapeForeign(b.Mint.Symbol) + ", and on " + networkName(b.Mint.Chain) + " only."
		if !a.IsOpen {
			view.AddressText = "New deposit addresses of this token are switched off now. " +
				"What arrives here still counts."
		}
	}
	return balanceDetail(view), nil
}

func newTransferRequest(r *pages.Request, b report.ProductBalance, payee, amount string) transfer.Request {
	return transfer.Request{
		MintID: b.Mint.ID, Amount: amount, UseDecimal: true, From: transfer.Party{Product: &b.Product},
		To: transfer.Party{Product: &payee}, IdempotencyKey: r.Key(), Actor: actor(r),
	}
}

// continueTransfer checks what a person typed, by the rules of the request, and leads to the page that
// shows it whole. Nothing is written.
func (d *dashboard) continueTransfer(r *pages.Request) (string, error) {
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return "", err
	}
	payee, amount := r.Values["to"], r.Values["amount"]
	err = d.conf.Transfers.Preview(r.Context(), r.Session.OrgID, newTransferRequest(r, b, payee, amount))
	if f := fault.Find(err); f != nil && f.Param == "to.product" {
		return "", f.WithParam("to")
	}
	if err != nil {
		return "", err
	}
	path := r.Path("balances", b.Product, strconv.Itoa(b.Mint.ID), "transfer")
	return path + withdrawalQuery(payee, amount, false), nil
}

// findTransfer returns the page of the transfer that the key of the form made. Rule PAGE-15.
func (d *dashboard) findTransfer(r *pages.Request) (string, error) {
	found, err := d.conf.Transfers.List(
		r.Context(), r.Session.OrgID, transfer.Filter{IdempotencyKey: r.Key()}, firstOfList,
	)
	if err != nil || len(found.Items) == 0 {
		return "", err
	}
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return "", err
	}
	made := found.Items[0]
	path := transactionPath(r, transferKind, made.ID)
	// The feature compares the request with the one that has the key. It writes nothing.
	err = d.conf.Transfers.Preview(
		r.Context(), r.Session.OrgID, newTransferRequest(r, b, r.Values["shownTo"], r.Values["shownAmount"]),
	)
	if fault.HasCode(err, fault.IdempotencyConflict) {
		return "", r.NewKeyConflict("a transfer of "+made.Amount.Decimal(made.Mint.Decimals)+" "+
			ui.EscapeForeign(made.Mint.Symbol)+" from "+partyName(made.From)+" to "+partyName(made.To), path)
	}
	return path, nil
}

func (d *dashboard) requestTransfer(r *pages.Request) (string, error) {
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return "", err
	}
	outcome, err := d.conf.Transfers.Request(r.Context(), r.Session.OrgID,
		newTransferRequest(r, b, r.Values["shownTo"], r.Values["shownAmount"]))
	if err != nil {
		return "", err
	}
	trace.LinkTo(r.Context(), outcome.Transfer.ID)
	return transactionPath(r, transferKind, outcome.Transfer.ID), nil
}

// loadTransferConfirm shows a transfer with what the request would answer. Rule PAGE-19.
func (d *dashboard) loadTransferConfirm(r *pages.Request) (templ.Component, error) {
	b, _, err := d.loadOwnBalance(r)
	if err != nil {
		return nil, err
	}
	payee, text, _ := typedWithdrawal(r)
	balance := r.Path("balances", b.Product, strconv.Itoa(b.Mint.ID))
	if payee == "" || text == "" { // An old link, or sign-in led back from a form.
		return pages.RedirectTo(balance), nil
	}
	amount, err := request.ParseAmount(text, true, b.Mint, fault.NothingWritten)
	if err != nil {
		return nil, err
	}
	previewed := newTransferRequest(r, b, payee, text)
	previewed.IdempotencyKey = "" // The key of a refused form may have made the transfer.
	refusal := d.conf.Transfers.Preview(r.Context(), r.Session.OrgID, previewed)
	if refusal != nil && fault.Find(refusal) == nil {
		return nil, refusal
	}
	if !slices.Contains(ledger.Products, payee) {
		return nil, refusal
	}
	view := confirmView{
		BackPath: balance + withdrawalQuery(payee, text, false), BackText: "Change it", Path: balance + "/transfer",
		Title: "Transfer", Figure: amount.Decimal(b.Mint.Decimals), Symbol: b.Mint.Symbol,
		Dollars: d.dollars(r.Context(), b.Mint, amount),
		Words: []ui.Fact{
			{Name: "Amount", Word: "amount", Value: amountWord(
				amount.Decimal(b.Mint.Decimals), b.Mint.Symbol, amount.String(),
			)},
			{Name: "Token", Word: "token", Value: tokenWord(b.Mint.Symbol, b.Mint.ID, b.Mint.Decimals)},
			{Name: "Network", Word: "network", Value: ui.Text(networkName(b.Mint.Chain))},
			{Name: "From", Word: "from", Value: ui.Text(productName(b.Product))},
			{Name: "To", Word: "to", Value: ui.Text(productName(payee))},
			{Name: "Organization", Word: "organization", Value: ui.Code(r.Session.OrgID)},
		},
		Facts: []ui.Fact{
			{Name: "Available now", Value: ui.Amount(b.Available.Decimal(b.Mint.Decimals), b.Mint.Symbol)},
		},
		Hidden: []hiddenInput{{"shownTo", payee}, {"shownAmount", text}},
		Key:    r.FormKey(requestAct), Form: r.Form,
	}
	view.Button = "Transfer " + ui.GroupDigits(view.Figure) + " " + ui.EscapeForeign(view.Symbol)
	if f := fault.Find(refusal); f != nil {
		view.OutcomeKind, view.OutcomeTitle = ui.Bad, "It would be refused"
		view.OutcomeText = f.Reason + " Nothing was moved."
		return confirmOwnMoney(view), nil
	}
	if remaining, err := b.Available.Sub(amount); err == nil {
		view.Facts = append(view.Facts, ui.Fact{
			Name: "Available afterwards", Value: ui.Amount(remaining.Decimal(b.Mint.Decimals), b.Mint.Symbol),
		})
	}
	view.CanRequest, view.OutcomeKind, view.OutcomeTitle = true, ui.Info, "It moves at once"
	view.OutcomeText = "The money stays in your organization, and no fee is taken. A second transfer moves it back."
	return confirmOwnMoney(view), nil
}

// transferQuery returns the path of the list of transfers of a product.
func transferQuery(r *pages.Request, product string) string {
	if product == "" {
		return r.Path("balances", "transfers")
	}
	return r.Path("balances", "transfers") + "?" + url.Values{"product": {product}}.Encode()
}
