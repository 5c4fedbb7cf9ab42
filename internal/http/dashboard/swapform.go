package dashboard

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/swap"
)

const (
	balanceBytesMax = 40 // of a product and a mint, such as CUSTODIAL:7
	mintBytesMax    = 10
)

// The parameters of the page that shows a quote and asks for the second factor.
var (
	balanceParameter = kernel.Parameter{Name: "balance", Kind: kernel.TextParameter, Max: balanceBytesMax}
	toMintParameter  = kernel.Parameter{Name: "toMint", Kind: kernel.TextParameter, Max: mintBytesMax}
)

// swapFormPage takes what is swapped of the organization's own money, and where it goes.
func (d *dashboard) swapFormPage() pages.Page {
	return pages.Page{
		Path: "/organization-swaps/new", Title: "Swap your own money", Action: identity.WithdrawOwnMoney,
		MenuPath: "/swaps", Load: d.loadSwapForm,
		Query: []kernel.Parameter{balanceParameter, toMintParameter, toParameter, amountParameter},
		Acts: []pages.Act{{
			Name: continueAct,
			Fields: []pages.Field{
				{Name: "balance", BytesMax: balanceBytesMax, Missing: "Choose a balance."},
				{Name: "toMint", BytesMax: mintBytesMax, Missing: "Choose a token."},
				{Name: "to", BytesMax: entryBytesMax, Checkbox: true, Missing: "Choose a Withdraw Address."},
				{Name: "amount", BytesMax: amountBytesMax, Missing: "Enter an amount."},
			},
			Run: d.continueSwap,
		}},
	}
}

// swapConfirmPage shows the offer and the whole swap, and requests it. Rule PAGE-78.
func (d *dashboard) swapConfirmPage() pages.Page {
	const missing = "Open the page again."
	return pages.Page{
		Path: "/organization-swaps/confirm", Title: "Confirm a swap", Action: identity.WithdrawOwnMoney,
		MenuPath: "/swaps", Load: d.loadSwapConfirm,
		Query: []kernel.Parameter{balanceParameter, toMintParameter, toParameter, amountParameter},
		Acts: []pages.Act{{
			Name: requestAct, Action: identity.WithdrawOwnMoney, StepUp: pages.ActStepUp, Keyed: true,
			Fields: []pages.Field{
				{Name: "shownBalance", BytesMax: balanceBytesMax, Missing: missing},
				{Name: "shownToMint", BytesMax: mintBytesMax, Missing: missing},
				{Name: "shownTo", BytesMax: entryBytesMax, Missing: missing},
				{Name: "shownAmount", BytesMax: amountBytesMax, Missing: missing},
				{Name: "shownLeast", BytesMax: amountBytesMax, Missing: missing},
			},
			FindDone: d.findRequestedSwap, Run: d.requestOwnSwap,
		}},
	}
}

// typedSwap is what a person chose, as the fields have it.
type typedSwap struct{ balance, toMint, entryID, amount string }

// readTypedSwap returns what the page is about: of its path, or of the form that was sent.
func readTypedSwap(r *pages.Request) typedSwap {
	if r.Values != nil {
		return typedSwap{
			r.Values["shownBalance"], r.Values["shownToMint"], r.Values["shownTo"], r.Values["shownAmount"],
		}
	}
	return typedSwap{
		r.Query[balanceParameter.Name], r.Query[toMintParameter.Name], r.Query[toParameter.Name],
		r.Query[amountParameter.Name],
	}
}

func (t typedSwap) isWhole() bool {
	return t.balance != "" && t.toMint != "" && t.entryID != "" && t.amount != ""
}

func (t typedSwap) query() string {
	return "?" + url.Values{
		balanceParameter.Name: {t.balance}, toMintParameter.Name: {t.toMint}, toParameter.Name: {t.entryID},
		amountParameter.Name: {t.amount},
	}.Encode()
}

// chosenSwap is what a person chose, as the database has it.
type chosenSwap struct {
	balance  report.ProductBalance
	received mint.Mint
	entry    whitelist.Entry
	amount   money.Amount
	settings org.Settings
}

// balanceValue names a balance in a field.
func balanceValue(b report.ProductBalance) string { return b.Product + ":" + strconv.Itoa(b.Mint.ID) }

// findMint returns the mint of a number as the pages write it. Error: fault MINT_NOT_FOUND.
func findMint(mints mint.Catalogue, text, field string) (mint.Mint, error) {
	mintID, err := strconv.Atoi(text)
	m, isKnown := mints.ByID(mintID)
	if err != nil || !isKnown || strconv.Itoa(mintID) != text {
		return mint.Mint{}, fault.New(fault.Invalid, fault.MintNotFound, fault.NothingHeld,
			"There is no such token.").WithStep(fault.ListMints).WithParam(field)
	}
	return m, nil
}

// loadChosen reads what a person chose. Errors: faults at the field of the form.
func (d *dashboard) loadChosen(r *pages.Request, t typedSwap) (c chosenSwap, err error) {
	product, mintText, _ := strings.Cut(t.balance, ":")
	if !slices.Contains(ledger.Products, product) {
		return c, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"There is no such balance.").WithParam("balance")
	}
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		m, err := findMint(mints, mintText, "balance")
		if err != nil {
			return err
		}
		if c.balance, err = report.LoadProductBalance(ctx, tx, r.Session.OrgID, product, m.ID); err != nil {
			return err
		}
		if c.received, err = findMint(mints, t.toMint, "toMint"); err != nil {
			return err
		}
		if c.entry, err = d.conf.Whitelist.ByID(ctx, tx, r.Session.OrgID, t.entryID); err != nil {
			return err
		}
		c.settings, err = org.SettingsOf(ctx, tx, r.Session.OrgID)
		return err
	})
	if err != nil {
		return c, err
	}
	if c.entry.Chain != c.received.Chain {
		return c, fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld,
			"This address is on %s, and %s arrives on %s.", networkName(c.entry.Chain),
			ui.EscapeForeign(c.received.Symbol), networkName(c.received.Chain)).WithParam("to")
	}
	c.amount, err = request.ParseAmount(t.amount, true, c.balance.Mint, fault.NothingHeld)
	return c, err
}

// swapFormView is what the form shows.
type swapFormView struct {
	ListPath, Path string
	IsOff          bool // swaps of the organization's own money are switched off
	Balances       optionInput
	Received       optionInput
	Entries        []entryRow // that can be paid now
	HasTokens      bool       // the organization has a token that can be swapped
	Form           ui.Form
}

func (d *dashboard) loadSwapForm(r *pages.Request) (templ.Component, error) {
	settings, err := d.readSettings(r)
	if err != nil {
		return nil, err
	}
	view := swapFormView{
		ListPath: r.Path("organization-swaps"), Path: r.Path("organization-swaps", "new"),
		IsOff: !settings.OrganizationSwapsEnabled, Form: r.Form,
		Balances: optionInput{
			Act: continueAct, Name: "balance", Label: "From",
			Hint: "A balance of your organization with a token that can be swapped, and what is available.",
		},
		Received: optionInput{
			Act: continueAct, Name: "toMint", Label: "Token to receive",
			Hint: "It arrives at the address on the network of the token.",
		},
	}
	if view.Form.Act == "" { // The page was not sent: what the path names is in the fields.
		t := readTypedSwap(r)
		view.Form = ui.Form{Act: continueAct, Typed: map[string]string{
			"balance": t.balance, "toMint": t.toMint, "to": t.entryID, "amount": t.amount,
		}}
	}
	if err := d.addSwapChoices(r, &view, settings); err != nil {
		return nil, err
	}
	entries, err := d.loadWhitelist(r)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Status(r.Now) == whitelist.StatusUsable {
			view.Entries = append(view.Entries, newEntryRow(r, e))
		}
	}
	return swapForm(view), nil
}

// addSwapChoices adds the balances that can be swapped, and the tokens into which.
func (d *dashboard) addSwapChoices(r *pages.Request, view *swapFormView, settings org.Settings) error {
	return d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		view.Balances.Options = []option{{"", "Choose a balance"}}
		view.Received.Options = []option{{"", "Choose a token"}}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		balances, err := report.LoadProductBalances(ctx, tx, r.Session.OrgID)
		if err != nil {
			return err
		}
		for _, b := range balances {
			if b.Available.IsZero() || !slices.Contains(settings.SwappableMintIDs, b.Mint.ID) {
				continue
			}
			view.Balances.Options = append(view.Balances.Options, option{
				balanceValue(b), productName(b.Product) + ": " + ui.GroupDigits(b.Available.Decimal(b.Mint.Decimals)) +
					" " + ui.EscapeForeign(b.Mint.Symbol) + " on " + networkName(b.Mint.Chain),
			})
		}
		for _, mintID := range settings.SwappableMintIDs {
			if m, isKnown := mints.ByID(mintID); isKnown && !m.Quarantined {
				view.Received.Options = append(view.Received.Options, option{
					strconv.Itoa(m.ID), ui.EscapeForeign(m.Symbol) + " on " + networkName(m.Chain),
				})
			}
		}
		view.HasTokens = len(view.Balances.Options) > 1 && len(view.Received.Options) > 1
		return nil
	})
}

// continueSwap checks what a person typed, and leads to the page that shows the offer. Nothing is written.
func (d *dashboard) continueSwap(r *pages.Request) (string, error) {
	t := typedSwap{r.Values["balance"], r.Values["toMint"], r.Values["to"], r.Values["amount"]}
	c, err := d.loadChosen(r, t)
	if fault.HasCode(err, fault.CodeNotFound) {
		return "", fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld,
			"The output goes only to an address on your organization's whitelist, and this one is not on it.").
			WithParam("to")
	}
	if err != nil {
		return "", err
	}
	if c.balance.Available.Less(c.amount) {
		return "", fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
			"The available balance is smaller than the amount.").WithStep(fault.LookAtBalances).WithParam("amount")
	}
	return r.Path("organization-swaps", "confirm") + t.query(), nil
}

// sentSwap returns the request of a form that was sent, with its key. The least amount is the one that the
// page showed, so that no worse offer is taken.
func (d *dashboard) sentSwap(r *pages.Request) (request swap.OrganizationRequest, err error) {
	c, err := d.loadChosen(r, readTypedSwap(r))
	if err != nil {
		return request, err
	}
	return swap.OrganizationRequest{
		IdempotencyKey: r.Key(), Product: c.balance.Product, FromMintID: c.balance.Mint.ID, ToMintID: c.received.ID,
		AmountIn: c.amount.String(), MinAmountOut: new(r.Values["shownLeast"]), WhitelistedAddressID: c.entry.ID,
		Person: &r.Session.Member, Actor: actor(r),
	}, nil
}

// findRequestedSwap returns the page of the swap that the key of the form made. Rule PAGE-15.
func (d *dashboard) findRequestedSwap(r *pages.Request) (string, error) {
	made, isKnown, err := d.conf.Swaps.FindOrganizationByKey(r.Context(), r.Session.OrgID, r.Key())
	if err != nil || !isKnown {
		return "", err
	}
	path := ownSwapPath(r, made.ID)
	wanted, err := d.sentSwap(r)
	if err != nil && fault.Find(err) == nil {
		return "", err
	}
	if err != nil || made.DiffersOrganization(wanted) {
		return "", r.NewKeyConflict("a swap of "+made.AmountIn.Decimal(made.From.Decimals)+" "+
			ui.EscapeForeign(made.From.Symbol)+" ("+swapChip(made.Status).Word+")", path)
	}
	return path, nil
}

func (d *dashboard) requestOwnSwap(r *pages.Request) (string, error) {
	wanted, err := d.sentSwap(r)
	if err != nil {
		return "", err
	}
	w, _, err := d.conf.Swaps.RequestOrganization(r.Context(), r.Session.OrgID, wanted)
	if err != nil {
		return "", err
	}
	trace.LinkTo(r.Context(), w.ID)
	return ownSwapPath(r, w.ID), nil
}

func (d *dashboard) loadSwapConfirm(r *pages.Request) (templ.Component, error) {
	typed := readTypedSwap(r)
	form := r.Path("organization-swaps", "new")
	if !typed.isWhole() { // An old link, or sign-in led back from a form.
		return pages.RedirectTo(form), nil
	}
	c, err := d.loadChosen(r, typed)
	if err != nil {
		return nil, err
	}
	paid, received := c.balance.Mint, c.received
	quote, err := d.conf.Swaps.QuoteOrganization(r.Context(), r.Session.OrgID, swap.OrganizationQuoteRequest{
		Product: c.balance.Product, FromMintID: paid.ID, ToMintID: received.ID, AmountIn: c.amount.String(),
	})
	refusal := fault.Find(err)
	if err != nil && refusal == nil {
		return nil, err
	}
	if refusal == nil && c.balance.Available.Less(c.amount) {
		refusal = fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
			"The available balance is smaller than the amount.")
	}
	view := confirmView{
		BackPath: form + typed.query(), BackText: "Change it", Path: r.Path("organization-swaps", "confirm"),
		Title: "Swap", Figure: c.amount.Decimal(paid.Decimals), Symbol: paid.Symbol,
		Dollars: d.dollars(r.Context(), paid, c.amount),
		Key:     r.FormKey(requestAct), Form: r.Form,
	}
	view.Button = "Swap " + ui.GroupDigits(view.Figure) + " " + ui.EscapeForeign(view.Symbol)
	leastOut := money.Zero
	if refusal == nil {
		leastOut = leastShown(r, quote.MinOut)
		view.Facts = quoteFacts(c, quote)
	}
	view.Words = wordsOfSwap(r, c, leastOut)
	view.Hidden = []hiddenInput{
		{"shownBalance", typed.balance},
		{"shownToMint", typed.toMint},
		{"shownTo", typed.entryID},
		{"shownAmount", typed.amount},
		{"shownLeast", leastOut.String()},
	}
	view.Unusual = unusualOfSwap(quote, refusal)
	view.explainSwap(c, quote, refusal)
	return confirmOwnMoney(view), nil
}

// leastShown returns the least amount that the page shows: that of the offer. A form that was refused keeps its
// own, unless the present offer is worse.
func leastShown(r *pages.Request, offered money.Amount) money.Amount {
	if sent, err := money.Parse(r.Values["shownLeast"]); err == nil && !sent.IsZero() && !offered.Less(sent) {
		return sent
	}
	return offered
}

// quoteFacts are what the best offer says.
func quoteFacts(c chosenSwap, quote swap.Quote) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Offer, about", Value: amountOf(&c.received, quote.EstimatedOut)},
		{Name: "Rate", Value: ui.Text("1 " + ui.EscapeForeign(c.balance.Mint.Symbol) + " for " +
			ui.GroupDigits(quote.Rate) + " " + ui.EscapeForeign(c.received.Symbol))},
		{Name: "Provider", Value: ui.Code(quote.Provider)},
	}
	if quote.EstimatedSeconds != nil {
		took := time.Duration(*quote.EstimatedSeconds) * time.Second
		facts = append(facts, ui.Fact{Name: "Expected to take", Value: ui.Text("About " + took.String())})
	}
	if quote.PriceImpactBps != nil {
		facts = append(facts, ui.Fact{
			Name: "Below the second price", Value: ui.Text(percentText(*quote.PriceImpactBps)),
		})
	}
	return append(facts,
		ui.Fact{Name: "Label of the address", Value: ui.Foreign(c.entry.Label)},
		ui.Fact{Name: "Available now", Value: amountOf(&c.balance.Mint, c.balance.Available)},
		ui.Fact{Name: "Network fee of the payment", Value: ui.Text(feeOfPayout(c.received))},
	)
}

// feeOfPayout says who pays the network fee of the payment to the address.
func feeOfPayout(received mint.Mint) string {
	if received.Kind == mint.Native {
		return "Taken from what arrives"
	}
	return "Billed to your organization"
}

// percentText writes basis points as percent.
func percentText(bps int) string {
	sign := ""
	if bps < 0 {
		sign, bps = "-", -bps
	}
	text := sign + strconv.Itoa(bps/100)
	if rest := bps % 100; rest > 0 {
		text += "." + strings.TrimRight(string([]byte{'0' + byte(rest/10), '0' + byte(rest%10)}), "0")
	}
	return text + " %"
}

// unusualOfSwap says what deserves attention before anything else.
func unusualOfSwap(quote swap.Quote, refusal *fault.Fault) (facts []string) {
	if refusal != nil {
		return nil
	}
	if quote.PriceImpactBps == nil {
		facts = append(facts, "There is no second price, so the offer of the provider is compared with nothing.")
	}
	if quote.USDValue == nil {
		facts = append(facts, "There is no price, so its value in dollars is not known.")
	}
	return facts
}

// explainSwap says what pressing the button would do. What would be refused has no button. Rule PAGE-16.
func (v *confirmView) explainSwap(c chosenSwap, quote swap.Quote, refusal *fault.Fault) {
	switch {
	case refusal != nil && refusal.Code == fault.OrgSwapsDisabled:
		v.OutcomeKind, v.OutcomeTitle = ui.Quiet, "Swaps of your own money are switched off"
		v.OutcomeText = "The operator of this service switches them on. Nothing was held and nothing was sent."
	case refusal != nil:
		v.OutcomeKind, v.OutcomeTitle = ui.Bad, "It would be refused"
		v.OutcomeText = strings.TrimSpace(refusal.Reason+" "+refusal.Advice) + " Nothing was held and nothing was sent."
	case swap.NeedsApproval(c.settings, quote.USDValue):
		v.CanRequest, v.OutcomeKind, v.OutcomeTitle = true, ui.Wait, "It will wait for another person"
		v.OutcomeText = "Above your threshold in dollars, or no price to compare with it. Its amount is held " +
			"meanwhile. You cannot approve it yourself."
	default:
		v.CanRequest, v.OutcomeKind, v.OutcomeTitle = true, ui.Info, "A provider will be paid at once"
		v.OutcomeText = "No rule holds it for another person. What the provider delivers is then paid to the address " +
			"like any withdrawal, under all its rules."
	}
}

// wordsOfSwap are the words of a swap of the organization's own money that is not requested yet, in the order of
// the page of a decision.
func wordsOfSwap(r *pages.Request, c chosenSwap, leastOut money.Amount) []ui.Fact {
	paid, received := c.balance.Mint, c.received
	facts := []ui.Fact{
		{
			Name: "Amount in", Word: "amountIn",
			Value: amountWord(c.amount.Decimal(paid.Decimals), paid.Symbol, c.amount.String()),
		},
		{Name: "From product", Word: "product", Value: ui.Text(productName(c.balance.Product))},
		{
			Name: "Token given", Word: "fromMint",
			Value: mintWord(paid.Symbol, networkName(paid.Chain), paid.ID, paid.Decimals),
		},
		{
			Name: "Token received", Word: "toMint",
			Value: mintWord(received.Symbol, networkName(received.Chain), received.ID, received.Decimals),
		},
	}
	if !leastOut.IsZero() {
		facts = append(facts, ui.Fact{
			Name: "Least amount out", Word: "minOut",
			Value: amountWord(leastOut.Decimal(received.Decimals), received.Symbol, leastOut.String()),
		})
	}
	return append(facts,
		ui.Fact{Name: "Withdraw Address", Word: "to", Value: ui.Address(string(c.entry.Address))},
		ui.Fact{Name: "Whitelist entry", Word: "whitelistEntry", Value: ui.Code(c.entry.ID)},
		ui.Fact{Name: "Organization", Word: "organization", Value: ui.Code(r.Session.OrgID)},
	)
}
