package dashboard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
)

// The names of the acts about a checkout.
const (
	cancelCheckoutAct = "cancel"
	acceptCheckoutAct = "accept"
)

// Bounds of what the page of a checkout shows one by one.
const (
	checkoutStepsMax   = 200
	shownPaymentsMax   = 50
	shownQuotesMax     = 10
	acceptReasonMax    = 1000 // characters; package checkout says so too
	shownReferenceName = "Key that names the checkout in a payment to it"
)

// checkoutPage shows a checkout with everything that happened to it, and takes a decision about it. Rules PAGE-84 and
// PAGE-85.
func (d *dashboard) checkoutPage() pages.Page {
	return pages.Page{
		Path: "/checkouts/{checkoutId}", Title: "Checkout", Action: identity.ReadOrganization,
		Live: []string{checkoutKind}, Load: d.loadCheckout,
		Acts: []pages.Act{
			{
				Name: cancelCheckoutAct, Action: identity.ManageCheckouts, StepUp: pages.SudoStepUp,
				FindDone: d.findCheckoutIn(outcome.Cancelled), Run: d.cancelCheckout,
			},
			{
				Name: acceptCheckoutAct, Action: identity.DecideCheckout, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{{Name: "reason", BytesMax: noteBytesMax, Missing: "Enter why it is enough."}},
				FindDone: d.findCheckoutIn(outcome.Completed), Run: d.acceptCheckout,
			},
			d.refundActOf(),
		},
	}
}

func (d *dashboard) checkoutOf(r *pages.Request) (checkout.Checkout, error) {
	return d.conf.Checkouts.CheckoutByID(r.Context(), r.Session.OrgID, r.PathParam("checkoutId"))
}

// findCheckoutIn returns the page of a checkout that has a status already.
func (d *dashboard) findCheckoutIn(status outcome.Status) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		c, err := d.checkoutOf(r)
		if err != nil || c.Status != status {
			return "", err
		}
		return checkoutPath(r, c.ID), nil
	}
}

func (d *dashboard) cancelCheckout(r *pages.Request) (string, error) {
	c, err := d.conf.Checkouts.CancelCheckout(r.Context(), r.Session.OrgID, r.PathParam("checkoutId"), actor(r))
	if err != nil {
		return "", err
	}
	return checkoutPath(r, c.ID), nil
}

func (d *dashboard) acceptCheckout(r *pages.Request) (string, error) {
	reason := strings.ReplaceAll(r.Values["reason"], "\r\n", "\n")
	c, err := d.conf.Checkouts.AcceptCheckout(
		r.Context(), r.Session.OrgID, r.PathParam("checkoutId"), reason, actor(r),
	)
	if err != nil {
		return "", err
	}
	return checkoutPath(r, c.ID), nil
}

// lineItemRow is a position of a checkout.
type lineItemRow struct {
	Name, ProductPath   string // the path is "" for something that is no product
	Quantity, UnitPrice string
}

// quoteRow is a quote of an option.
type quoteRow struct {
	Figure, Symbol   string
	Covers, Currency string
	Rate             string
	Source           string
	Priced           ui.Moment
	Begin, End       ui.Moment
}

// optionRow is an opened option.
type optionRow struct {
	Symbol, Network string
	Facts           []ui.Fact
	Quotes          []quoteRow // the newest first
	OlderQuotes     string     // how many more there are; "" for none
}

// paymentRow is what arrived for a checkout.
type paymentRow struct {
	Path                    string // of its deposit, or of the decision about it
	Figure, Symbol, Network string
	Counted, Currency       string // Counted is "" until it is valued
	CountedText             string // whether it counts
	Rate, Source            string
	Moment                  ui.Moment
	TimeText                string
	Chip                    ui.Chip
	Meaning                 string
}

// checkoutView is what the page of a checkout shows.
type checkoutView struct {
	timelineView
	Path                 string
	Currency             string
	Exceptions           []ui.Chip
	Now                  swapNow
	PageURL              string // "" without pages for payers
	Items                []lineItemRow
	Amounts, Terms       []ui.Fact
	Options              []optionRow
	Payments             []paymentRow
	MorePayments         string // how many more there are; "" for none
	Form                 ui.Form
	CanCancel, CanAccept bool
	AcceptText           string // what accepting does
	WhyNot               string // why it cannot be accepted yet; "" if nothing prevents it
	FlaggedPath          string // of the flagged deposit that comes first
	Refunds              []refundRow
	HasMoreRefunds       bool
	RefundsPath          string
	RefundProblem        string // why the terms give something back that is not given back; "" for nothing
	CanRefund            bool
	RefundForm           refundForm
	NoRefundText         string // who else can refund it; "" for nothing
}

// checkoutRecords are what other features know about a checkout.
type checkoutRecords struct {
	transactionRecords
	log []audit.Row
}

func (d *dashboard) loadCheckoutRecords(r *pages.Request, c checkout.Checkout) (records checkoutRecords, err error) {
	org := r.Session.OrgID
	err = d.conf.DB.ReadOrg(r.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		if records.catalogue, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		if records.deliveries, err = delivery.ListResourceAttempts(ctx, tx, org, c.ID); err != nil {
			return err
		}
		logged, err := audit.List(ctx, tx, audit.Filter{OrgID: org, ResourceID: c.ID},
			pagination.Page{Limit: checkoutStepsMax})
		records.log = logged.Items
		return err
	})
	return records, err
}

func (d *dashboard) loadCheckout(r *pages.Request) (templ.Component, error) {
	c, err := d.checkoutOf(r)
	if err != nil {
		return nil, err
	}
	records, err := d.loadCheckoutRecords(r, c)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	view := checkoutView{
		timelineView: timelineView{
			ListPath: r.Path("checkouts"), Kind: "Checkout", ID: c.ID, Figure: c.AmountDue.Show(c.Currency),
			Symbol: c.Currency, Chip: checkoutChip(c.Status), Facts: checkoutFacts(r, c, names),
			Calls: []string{d.callText("GET", "/checkouts/"+c.ID, "")},
		},
		Path: checkoutPath(r, c.ID), Currency: c.Currency, Exceptions: exceptionChips(c),
		Now: describeCheckout(r, c), PageURL: c.URL, Amounts: checkoutAmounts(c),
		Terms: checkoutTerms(r, c, records.catalogue), Form: r.Form,
	}
	for _, item := range c.Items {
		row := lineItemRow{Name: item.Name, Quantity: strconv.Itoa(item.Quantity), UnitPrice: item.UnitPrice}
		if item.ProductID != "" {
			row.ProductPath = productPath(r, item.ProductID)
		}
		if price, err := checkout.ParsePrice(item.UnitPrice, pricing.Scale); err == nil {
			row.UnitPrice = price.Show(c.Currency)
		}
		view.Items = append(view.Items, row)
	}
	for _, o := range c.Options {
		view.Options = append(view.Options, newOptionRow(r, c, o))
	}
	for _, p := range c.Payments[:min(len(c.Payments), shownPaymentsMax)] {
		view.Payments = append(view.Payments, newPaymentRow(r, c, p))
		view.addPaymentStep(d, r, p)
	}
	if rest := len(c.Payments) - shownPaymentsMax; rest > 0 {
		view.MorePayments = countNoun("more payment", rest, false)
	}
	for _, item := range records.log {
		view.addLogStep(r, c, item, names, records.catalogue)
	}
	view.explainActs(r, c)
	if err := d.addRefunds(r, c, names, &view); err != nil {
		return nil, err
	}
	view.finish(r, records.transactionRecords)
	return checkoutOverview(view), nil
}

// addRefunds adds the refunds of a checkout, and the form of another one. Rules PAGE-91 and PAGE-92.
func (d *dashboard) addRefunds(r *pages.Request, c checkout.Checkout, names people, view *checkoutView) (err error) {
	if view.Refunds, view.HasMoreRefunds, err = d.loadRefundsOf(r, c, names); err != nil {
		return err
	}
	view.RefundsPath = r.Path("refunds")
	view.RefundProblem, err = d.conf.Checkouts.AutomaticRefundProblem(r.Context(), r.Session.OrgID, c.ID)
	if err != nil {
		return err
	}
	form, hasMoney := d.newRefundForm(r, c)
	switch {
	case !hasMoney:
	case r.IsAllowed(identity.RefundCheckout):
		view.CanRefund, view.RefundForm = true, form
	default:
		view.NoRefundText = "An owner, an admin or finance can give back what was paid."
	}
	return nil
}

// explainActs says what the person can do about a checkout, and what that does. Rule PAGE-85.
func (v *checkoutView) explainActs(r *pages.Request, c checkout.Checkout) {
	payments := make([]outcome.Payment, len(c.Payments))
	hasCredited, hasOtherCoin := false, false
	for i, p := range c.Payments {
		payments[i] = outcome.Payment{Status: p.Status}
		if p.Status == outcome.PaymentCredited {
			hasCredited, hasOtherCoin = true, hasOtherCoin || !p.IsAccepted
		}
		if p.Status == outcome.PaymentFlagged && v.FlaggedPath == "" {
			v.FlaggedPath = r.Path("approvals", "deposits", p.DepositID)
		}
	}
	v.CanCancel = r.IsAllowed(identity.ManageCheckouts) && outcome.CanCancel(c.Status, payments)
	if c.Status == outcome.Completed || !hasCredited {
		return
	}
	switch {
	case v.FlaggedPath != "":
		v.WhyNot = "Screening holds a payment. Decide about this deposit first."
	case r.IsAllowed(identity.DecideCheckout):
		v.CanAccept = true
		v.AcceptText = "It completes the checkout with what is credited: " + c.Counted.Show(c.Currency) +
			" counts until now, and " + c.AmountDue.Show(c.Currency) + " " + ui.EscapeForeign(c.Currency) + " is due. "
		if hasOtherCoin {
			v.AcceptText += "What was paid in another coin counts for nothing, and you accept it all the same. "
		}
		isRefunded := func(p checkout.Payment) bool { return !p.Refunding.IsZero() || !p.Refunded.IsZero() }
		if slices.ContainsFunc(c.Payments, isRefunded) {
			v.AcceptText += "It counts also what a refund gives back, or will give back. "
		}
		v.AcceptText += "Late payments count then, too. Your backend hears that the sale is paid, and may deliver. " +
			"No money moves: it is in your balance already. Nothing undoes it."
	default:
		v.WhyNot = "An owner, an admin or finance can accept what was paid."
	}
}

// checkoutAmounts are the sums of a checkout.
func checkoutAmounts(c checkout.Checkout) []ui.Fact {
	amount := func(p checkout.Price) templ.Component { return ui.Amount(p.Show(c.Currency), c.Currency) }
	stillDue := c.Remaining()
	if c.Status == outcome.Completed || c.SeenSum.Cmp(c.Need) >= 0 {
		stillDue = checkout.Price{}
	}
	facts := []ui.Fact{
		{Name: "Due", Value: amount(c.AmountDue)},
		{Name: "Counts as paid from", Value: amount(c.Need)},
		{Name: "Seen in blocks", Value: amount(c.SeenSum)},
		{Name: "Credited", Value: amount(c.Counted)},
		{Name: "Still due", Value: amount(stillDue)},
	}
	if surplus := c.Surplus(); !surplus.IsZero() {
		facts = append(facts, ui.Fact{Name: "Surplus", Value: amount(surplus)})
	}
	return facts
}

// checkoutTerms are what the payer agreed to.
func checkoutTerms(r *pages.Request, c checkout.Checkout, mints mint.Catalogue) []ui.Fact {
	var accepted []string
	for _, mintID := range c.AcceptedMintIDs {
		if m, isKnown := mints.ByID(mintID); isKnown {
			accepted = append(accepted, ui.EscapeForeign(m.Symbol)+" on "+networkName(m.Chain))
		}
	}
	tolerance := strconv.Itoa(c.UnderBps) + " basis points"
	if c.Currency == checkout.USD && !isZeroUSD(c.UnderUSD.Cents()) {
		tolerance += ", or up to $" + c.UnderUSD.Cents()
	}
	facts := []ui.Fact{
		{Name: "Paid in", Value: ui.Text(strings.Join(accepted, ", "))},
		{Name: "Counts as paid with less by", Value: ui.Text(tolerance)},
		{Name: "A surplus", Value: ui.Text(policyText(c.OverPolicy))},
		{Name: "A late payment", Value: ui.Text(policyText(c.LatePolicy))},
		{
			Name:  "Collecting a payment costs at most",
			Value: ui.Text(strconv.Itoa(c.CostMaxBps) + " basis points of the amount due"),
		},
		{Name: "One reference is paid", Value: ui.Text(onceText(c.OnePerReference))},
		{Name: "In time until", Value: ui.When(r.Moment(c.ExpiresAt))},
	}
	for _, link := range []struct {
		name string
		url  *string
	}{{"After the payment", c.SuccessURL}, {"After giving up", c.CancelURL}} {
		if link.url != nil {
			facts = append(facts, ui.Fact{Name: link.name, Value: ui.Foreign(*link.url)})
		}
	}
	return facts
}

func isZeroUSD(cents string) bool { return strings.Trim(cents, "0.") == "" }

// checkoutFacts are the ids, the times and the backend's own words about a checkout.
func checkoutFacts(r *pages.Request, c checkout.Checkout, names people) []ui.Fact {
	facts := []ui.Fact{{Name: "Checkout", Value: copiedText(c.ID)}}
	for _, word := range []struct {
		name string
		text *string
	}{{"Customer, in your words", c.CustomerID}, {"E-mail of the payer", c.CustomerEmail}} {
		if word.text != nil {
			facts = append(facts, ui.Fact{Name: word.name, Value: ui.Foreign(*word.text)})
		}
	}
	facts = append(facts,
		ui.Fact{Name: "Made", Value: ui.When(r.Moment(c.CreatedAt))},
		ui.Fact{Name: "Changed", Value: ui.When(r.Moment(c.UpdatedAt))},
	)
	if c.CancelledAt != nil {
		facts = append(facts, ui.Fact{Name: "Cancelled", Value: ui.When(r.Moment(*c.CancelledAt))})
	}
	if c.CompletedAt != nil {
		facts = append(facts, ui.Fact{Name: "Completed", Value: ui.When(r.Moment(*c.CompletedAt))})
	}
	if c.DecidedBy != "" {
		kind, id, _ := strings.Cut(c.DecidedBy, " ")
		facts = append(facts,
			ui.Fact{Name: "Accepted by", Value: ui.Text(names.nameOf(audit.Actor{Kind: kind, ID: id}, r.Session))},
			ui.Fact{Name: "Because", Value: ui.Foreign(c.DecidedReason)},
		)
	}
	return append(facts, requestFacts(resource.OptionalText(c.IdempotencyKey), c.Reference, c.Metadata)...)
}

// newOptionRow writes an opened option.
func newOptionRow(r *pages.Request, c checkout.Checkout, o checkout.Option) optionRow {
	row := optionRow{
		Symbol: o.Mint.Symbol, Network: networkName(o.Mint.Chain),
		Facts: []ui.Fact{
			{Name: "Address of this checkout alone", Value: ui.Address(string(o.Wallet.Address))},
		},
	}
	if o.Shared != nil {
		row.Facts = append(row.Facts,
			ui.Fact{Name: "Address of all your checkouts", Value: ui.Address(string(o.Shared.Address))},
			ui.Fact{Name: shownReferenceName, Value: ui.Address(base58.Encode(o.Ref))},
		)
	}
	row.Facts = append(row.Facts, ui.Fact{Name: "Opened", Value: ui.When(r.Moment(o.OpenedAt))})
	for _, q := range slices.Backward(o.Quotes) {
		if len(row.Quotes) == shownQuotesMax {
			row.OlderQuotes = countNoun("older quote", len(o.Quotes)-shownQuotesMax, false)
			break
		}
		row.Quotes = append(row.Quotes, quoteRow{
			Figure: q.Amount.Decimal(o.Mint.Decimals), Symbol: o.Mint.Symbol, Covers: q.Covers.Show(c.Currency),
			Currency: c.Currency, Rate: rateText(q.Rate, o.Mint.Symbol, c.Currency), Source: sourceText(q.Rate.Source),
			Priced: r.Moment(q.Rate.PricedAt), Begin: r.Moment(q.ValidFrom), End: r.Moment(q.ExpiresAt),
		})
	}
	return row
}

// rateText writes a rate for people.
func rateText(rate pricing.Rate, symbol, currency string) string {
	if rate.Source == pricing.OwnSymbol {
		return "1 " + ui.EscapeForeign(symbol) + " is 1 " + ui.EscapeForeign(currency)
	}
	text := "1 " + ui.EscapeForeign(symbol) + " is $" + rate.Price.String()
	if currency != checkout.USD {
		text += ", 1 " + ui.EscapeForeign(currency) + " is $" + rate.CurrencyPrice.String()
	}
	return text
}

// sourceText names who said a price.
func sourceText(source string) string {
	if source == pricing.OwnSymbol {
		return "no price was needed"
	}
	return ui.EscapeForeign(source)
}

// newPaymentRow writes a payment.
func newPaymentRow(r *pages.Request, c checkout.Checkout, p checkout.Payment) paymentRow {
	row := paymentRow{
		Path: transactionPath(r, depositKind, p.DepositID), Figure: p.Amount.String(), Symbol: "units",
		Network: networkName(p.Chain), Currency: c.Currency, Moment: r.Moment(p.SeenAt), TimeText: "seen",
		Chip: paymentChip(p.Status), Meaning: describePayment(c, p),
	}
	if p.Status == outcome.PaymentFlagged {
		row.Path = r.Path("approvals", "deposits", p.DepositID)
	}
	if p.Mint != nil {
		row.Figure, row.Symbol = p.Amount.Decimal(p.Mint.Decimals), p.Mint.Symbol
	}
	if p.Counted == nil {
		return row
	}
	row.Counted, row.CountedText = p.Counted.Show(c.Currency), "worth"
	if p.Counts {
		row.CountedText = "counts"
	}
	row.Moment, row.TimeText = r.Moment(p.Moment), "late"
	if p.IsInTime {
		row.TimeText = "in time"
	}
	row.Rate, row.Source = rateText(*p.Rate, row.Symbol, c.Currency), sourceText(p.Rate.Source)
	if p.QuoteSeq == nil && p.Rate.Source != pricing.OwnSymbol {
		row.Source += ", the price of the market"
	} else if p.QuoteSeq != nil {
		row.Source += ", quote " + strconv.Itoa(*p.QuoteSeq)
	}
	return row
}

// addPaymentStep adds that a payment was seen.
func (v *checkoutView) addPaymentStep(d *dashboard, r *pages.Request, p checkout.Payment) {
	v.addStep(r, &p.SeenAt, timelineStep{
		Title: "A payment was seen", Text: "In block " + strconv.FormatUint(p.Height, 10), Hash: string(p.Tx),
		ExplorerURL: d.explorerURL(p.Chain, p.Tx),
		Facts: []ui.Fact{
			{Name: "Amount", Value: amountOf(p.Mint, p.Amount)},
			{Name: "Deposit", Value: pathLink(transactionPath(r, depositKind, p.DepositID), "Show it")},
		},
	})
}

// addLogStep adds what an entry of the log says about a checkout.
func (v *checkoutView) addLogStep(
	r *pages.Request, c checkout.Checkout, item audit.Row, names people, mints mint.Catalogue,
) {
	var detail struct {
		Before     outcome.Status      `json:"from"`
		After      outcome.Status      `json:"to"`
		Exceptions []outcome.Exception `json:"exceptions"`
		Counted    string              `json:"counted"`
		Reason     string              `json:"reason"`
		Problem    string              `json:"why"`
		MintID     int                 `json:"mintId"`
		Address    string              `json:"address"`
	}
	_ = json.Unmarshal(item.Detail, &detail) // What is missing is not shown.
	author := "By " + names.nameOf(item.Actor, r.Session)
	step := timelineStep{}
	switch item.Action {
	case "checkout.created":
		step.Title, step.Text = "Made", author
	case "checkout.option_opened":
		step.Title, step.Text = "A way to pay was opened", ""
		if m, isKnown := mints.ByID(detail.MintID); isKnown {
			step.Text = ui.EscapeForeign(m.Symbol) + " on " + networkName(m.Chain)
		}
		if detail.Address != "" {
			step.Facts = []ui.Fact{{Name: "Address", Value: ui.Address(detail.Address)}}
		}
	case "checkout.changed":
		step.Title = "Nothing about it is unusual any more"
		if len(detail.Exceptions) > 0 {
			step.Title = "Something unusual was noticed"
		}
		if detail.Before != detail.After {
			step.Title = "Became: " + checkoutChip(detail.After).Word
		}
		if item.Actor.Kind == "USER" || item.Actor.Kind == "API_KEY" {
			step.Title, step.Text, step.Note = "What was paid was accepted", author, detail.Reason
		}
		for _, e := range detail.Exceptions {
			step.Facts = append(step.Facts, ui.Fact{Name: "Unusual", Value: ui.Text(exceptionChip(e).Word)})
		}
		if counted, err := checkout.ParsePrice(detail.Counted, pricing.Scale); err == nil {
			step.Facts = append(step.Facts, ui.Fact{
				Name: "Credited until then", Value: ui.Amount(counted.Show(c.Currency), c.Currency),
			})
		}
	case "checkout.payment_assigned":
		step.Title, step.Text = "A payment that named no checkout was given to it", author
	case "checkout.cancelled":
		step.Title, step.Text = "Cancelled", author
	case "checkout.refund_kept":
		step.Title, step.Note = "Something was not given back by itself", detail.Problem
	case "checkout.refund_delayed":
		step.Title, step.Note = "A refund waits", detail.Problem
	default:
		return
	}
	v.addStep(r, &item.RecordedAt, step)
}
