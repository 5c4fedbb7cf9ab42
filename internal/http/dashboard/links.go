package dashboard

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// linkKind names payment links among the resources of the audit log.
const linkKind = "PAYMENT_LINK"

// The names of the acts about payment links.
const (
	createLinkAct = "create"
	changeLinkAct = "change"
	pauseLinkAct  = "pause"
	resumeLinkAct = "resume"
	endLinkAct    = "end"
)

const (
	soldName          = "productIds"
	linkTextBytesMax  = 6 << 10
	soldBytesMax      = 2 << 10
	posterSuffix      = "/poster.svg"
	shownSalesMax     = 10
	linkChoicesMax    = 200 // products that the form offers
	linkExpiryMissing = "Write a time such as 2026-01-31T12:00Z, or nothing."
)

// linkTermFields are the fields that can be changed later.
func linkTermFields(first ...pages.Field) []pages.Field {
	optional := func(name string, bytesMax int) pages.Field {
		return pages.Field{Name: name, BytesMax: bytesMax, Optional: true}
	}
	return append(first,
		optional("maxCompleted", wordBytesMax), optional("expiresAt", wordBytesMax),
		optional("afterText", linkTextBytesMax), optional("successUrl", 2*urlBytesMax),
	)
}

var linkStatusParameter = kernel.Parameter{Name: "status", Kind: kernel.WordParameter, Enum: resource.LinkStatuses}

// linksPage lists the payment links of one status. Rule PAGE-89.
func (d *dashboard) linksPage() pages.Page {
	return pages.Page{
		Path: "/payment-links", Title: "Payment links", Action: identity.ReadOrganization, Group: "", Icon: "link",
		Shortcut: "y", Live: []string{linkKind},
		Query: []kernel.Parameter{pages.CursorParameter, linkStatusParameter},
		Load:  d.loadLinks, WriteCSV: d.writeLinks,
	}
}

// linkFormPage makes a payment link. Rule PAGE-89.
func (d *dashboard) linkFormPage() pages.Page {
	return pages.Page{
		Path: "/payment-links/new", Title: "New payment link", Action: identity.ManageProducts, Load: d.loadLinkForm,
		Acts: []pages.Act{{
			Name: createLinkAct, Action: identity.ManageProducts, StepUp: pages.SudoStepUp, Keyed: true,
			Fields: linkTermFields(
				pages.Field{
					Name: soldName, BytesMax: soldBytesMax, HasBoxes: true, Missing: "Tick at least one product.",
				},
				pages.Field{Name: "slug", BytesMax: wordBytesMax, Optional: true},
				pages.Field{Name: "quantity", BytesMax: wordBytesMax, Optional: true},
			),
			FindDone: d.findCreatedLink, Run: d.createLink,
		}},
	}
}

// linkPage shows a payment link with what can be done about it. Rule PAGE-89.
func (d *dashboard) linkPage() pages.Page {
	setStatus := func(name string, set func(context.Context, *pages.Request) (checkout.Link, error)) pages.Act {
		return pages.Act{
			Name: name, Action: identity.ManageProducts, StepUp: pages.SudoStepUp,
			Run: func(r *pages.Request) (string, error) {
				l, err := set(r.Context(), r)
				return linkPath(r, l.ID), err
			},
		}
	}
	return pages.Page{
		Path: "/payment-links/{linkId}", Title: "Payment link", Action: identity.ReadOrganization,
		Live: []string{linkKind, checkoutKind}, Load: d.loadLink,
		Acts: []pages.Act{
			{
				Name: changeLinkAct, Action: identity.ManageProducts, StepUp: pages.SudoStepUp,
				Fields: linkTermFields(seenField), Run: d.changeLink,
			},
			setStatus(pauseLinkAct, func(ctx context.Context, r *pages.Request) (checkout.Link, error) {
				return d.conf.Checkouts.PauseLink(ctx, r.Session.OrgID, r.PathParam("linkId"), actor(r))
			}),
			setStatus(resumeLinkAct, func(ctx context.Context, r *pages.Request) (checkout.Link, error) {
				return d.conf.Checkouts.ResumeLink(ctx, r.Session.OrgID, r.PathParam("linkId"), actor(r))
			}),
			setStatus(endLinkAct, func(ctx context.Context, r *pages.Request) (checkout.Link, error) {
				return d.conf.Checkouts.EndLink(ctx, r.Session.OrgID, r.PathParam("linkId"), actor(r))
			}),
		},
	}
}

func linkPath(r *pages.Request, linkID string) string { return r.Path("payment-links", linkID) }

// linkChip writes the status of a payment link for people, or what stops it besides.
func linkChip(l checkout.Link, now time.Time) ui.Chip {
	switch l.StateAt(now) {
	case checkout.LinkIsEnded:
		return ui.Chip{Kind: ui.Quiet, Word: "Ended"}
	case checkout.LinkIsExpired:
		return ui.Chip{Kind: ui.Quiet, Word: "Expired"}
	case checkout.LinkIsSoldOut:
		return ui.Chip{Kind: ui.Quiet, Word: "Sold out"}
	case checkout.LinkIsPaused:
		return ui.Chip{Kind: ui.Wait, Word: "Paused"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Selling"}
}

// soldText writes how often a payment link has sold.
func soldText(l checkout.Link) string {
	if l.MaxCompleted == nil {
		return strconv.Itoa(l.CompletedCount)
	}
	return strconv.Itoa(l.CompletedCount) + " of " + strconv.Itoa(*l.MaxCompleted)
}

// linkRow is a payment link in the list.
type linkRow struct {
	Path, Name, MoreNames string
	Slug, Sold            string
	Chip                  ui.Chip
	Changed               ui.Moment
}

// linksView is what the list shows.
type linksView struct {
	Tabs                []ui.Tab
	CSVPath, NewPath    string
	Status              checkout.LinkStatus
	Rows                []linkRow
	FirstPath, NextPath string
	Calls               []string
}

// readLinkFilter returns the status of the tab: the active links stand on the first one.
func readLinkFilter(r *pages.Request) checkout.LinkFilter {
	status := r.Query[linkStatusParameter.Name]
	if status == "" {
		status = string(checkout.LinkActive)
	}
	return checkout.LinkFilter{Status: status}
}

func (d *dashboard) loadLinks(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	f := readLinkFilter(r)
	found, err := d.conf.Checkouts.ListLinks(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return nil, err
	}
	names, err := d.nameProducts(r, found.Items)
	if err != nil {
		return nil, err
	}
	view := linksView{
		CSVPath: r.CSVPath(), Status: checkout.LinkStatus(f.Status),
		Calls: []string{
			d.callText("POST", "/payment-links",
				`{"lineItems":[{"productId":"prod_…","quantity":1}],"slug":"gold-2026"}`),
			d.callText("GET", "/payment-links", ""),
		},
	}
	for _, tab := range []struct {
		title  string
		status checkout.LinkStatus
	}{{"Active", checkout.LinkActive}, {"Paused", checkout.LinkPaused}, {"Ended", checkout.LinkEnded}} {
		path := r.Path("payment-links")
		if tab.status != checkout.LinkActive {
			path = r.FilterPath(linkStatusParameter.Name, string(tab.status))
		}
		view.Tabs = append(view.Tabs, ui.Tab{Title: tab.title, Path: path, Current: view.Status == tab.status})
	}
	if r.IsAllowed(identity.ManageProducts) {
		view.NewPath = r.Path("payment-links", "new")
	}
	for _, l := range found.Items {
		row := linkRow{
			Path: linkPath(r, l.ID), Name: names[l.Items[0].ProductID], Slug: l.Slug, Sold: soldText(l),
			Chip: linkChip(l, r.Now), Changed: r.Moment(l.UpdatedAt),
		}
		if rest := len(l.Items) - 1; rest > 0 {
			row.MoreNames = "and " + strconv.Itoa(rest) + " more"
		}
		view.Rows = append(view.Rows, row)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return linkList(view), nil
}

// nameProducts returns the names of the products that some links sell.
func (d *dashboard) nameProducts(r *pages.Request, links []checkout.Link) (names map[string]string, err error) {
	var ids []string
	for _, l := range links {
		for _, item := range l.Items {
			ids = append(ids, item.ProductID)
		}
	}
	return d.conf.Checkouts.ProductNames(r.Context(), r.Session.OrgID, ids)
}

func (d *dashboard) writeLinks(r *pages.Request, w *kernel.StreamWriter) error {
	f := readLinkFilter(r)
	return kernel.WriteTable(r.Context(), w, true, resource.LinkColumns,
		func(ctx context.Context, desc bool, row func(webhook.PaymentLink) error) error {
			return d.conf.Checkouts.ForEachLink(ctx, r.Session.OrgID, f, desc,
				func(l checkout.Link) error { return row(wire.PaymentLink(l)) })
		})
}

// productBox is the box of a product that a payment link can sell.
type productBox struct {
	Value, Name               string
	Price, MaxPrice, Currency string
	IsTicked                  bool
}

// linkForm is the form of a payment link.
type linkForm struct {
	Act, Path, Button string
	Form              ui.Form
	Key               string // of a new link
	Version           string // of a known one
	Products          []productBox
	ProductsPath      string
	AfterText         ui.AreaInput
}

func newLinkForm(r *pages.Request, act string, values map[string]string) linkForm {
	return linkForm{
		Act: act, Form: ui.Filled(r.Form, act, values),
		AfterText: ui.AreaInput{
			Act: act, Name: "afterText", Label: "Text after the payment", Text: values["afterText"],
			Hint: "The payer reads it on the page of the completed checkout.",
		},
	}
}

func (d *dashboard) loadLinkForm(r *pages.Request) (templ.Component, error) {
	form := newLinkForm(r, createLinkAct, map[string]string{soldName: "", "quantity": "1"})
	form.Path, form.Button = r.Path("payment-links", "new", createLinkAct), "Create the payment link"
	form.Key, form.ProductsPath = r.FormKey(createLinkAct), r.Path("products", "new")
	found, err := d.conf.Checkouts.List(r.Context(), r.Session.OrgID, checkout.Filter{Status: string(checkout.Active)},
		pagination.Page{Limit: linkChoicesMax, Desc: true})
	if err != nil {
		return nil, err
	}
	ticked := strings.Split(form.Form.Value(createLinkAct, soldName), ",")
	for _, p := range found.Items {
		box := productBox{Value: p.ID, Name: p.Name, Currency: p.Currency, IsTicked: slices.Contains(ticked, p.ID)}
		box.Price, box.MaxPrice = productPrices(p)
		form.Products = append(form.Products, box)
	}
	return linkFormView(r.Path("payment-links"), form), nil
}

// linkTerms are the fields that can be changed later, as they were read.
type linkTerms struct {
	maxCompleted          *int
	expiresAt             *time.Time
	afterText, successURL *string
}

// readLinkTerms reads the fields of a payment link. Package checkout checks what they say.
func readLinkTerms(r *pages.Request) (t linkTerms, err error) {
	if t.maxCompleted, err = readOptionalNumber(r, "maxCompleted"); err != nil {
		return t, err
	}
	if text := r.Values["expiresAt"]; text != "" {
		expiresAt, err := readLinkTime(text)
		if err != nil {
			return t, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", linkExpiryMissing).
				WithParam("expiresAt")
		}
		t.expiresAt = &expiresAt
	}
	t.afterText = resource.OptionalText(strings.ReplaceAll(r.Values["afterText"], "\r\n", "\n"))
	t.successURL = resource.OptionalText(r.Values["successUrl"])
	return t, nil
}

// readLinkTime reads a time as the form shows it, and as programs write it.
func readLinkTime(text string) (moment time.Time, err error) {
	for _, layout := range []string{shownLinkTime, time.RFC3339, time.DateOnly} {
		if moment, err = time.Parse(layout, text); err == nil {
			return moment, nil
		}
	}
	return moment, err
}

// shownLinkTime is how the form shows a time.
const shownLinkTime = "2006-01-02T15:04Z"

// readOptionalNumber reads a field with a whole number, and nil for an empty one.
func readOptionalNumber(r *pages.Request, name string) (*int, error) {
	text := r.Values[name]
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "Give a whole number.").
			WithParam(name)
	}
	return &n, nil
}

func readLinkRequest(r *pages.Request) (req checkout.LinkRequest, err error) {
	t, err := readLinkTerms(r)
	if err != nil {
		return req, err
	}
	quantity, err := readOptionalNumber(r, "quantity")
	if err != nil {
		return req, err
	}
	req = checkout.LinkRequest{
		Slug: resource.OptionalText(r.Values["slug"]), MaxCompleted: t.maxCompleted, ExpiresAt: t.expiresAt,
		AfterText: t.afterText, SuccessURL: t.successURL, IdempotencyKey: new(r.Key()), Actor: actor(r),
	}
	for _, productID := range r.ListTicked(soldName) {
		req.Items = append(req.Items, checkout.LinkItem{ProductID: productID, Quantity: quantity})
	}
	return req, nil
}

// nameField puts what is wrong with the items at the field of the form that says it.
func nameField(err error) error {
	f := fault.Find(err)
	if f == nil || f.Param != "lineItems" && f.Param != "productId" {
		return err
	}
	if f.Code == fault.CodeNotFound {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "Choose products of the list.").
			WithParam(soldName)
	}
	f.Param = soldName
	return err
}

// findCreatedLink returns the page of the payment link that the key of the form made. Rule PAGE-15.
func (d *dashboard) findCreatedLink(r *pages.Request) (string, error) {
	made, isKnown, err := d.conf.Checkouts.FindLinkByKey(r.Context(), r.Session.OrgID, r.Key())
	if err != nil || !isKnown {
		return "", err
	}
	path := linkPath(r, made.ID)
	req, err := readLinkRequest(r)
	if err != nil || made.Differs(req) {
		return "", r.NewKeyConflict("the payment link "+made.Slug, path)
	}
	return path, nil
}

func (d *dashboard) createLink(r *pages.Request) (string, error) {
	req, err := readLinkRequest(r)
	if err != nil {
		return "", err
	}
	made, _, err := d.conf.Checkouts.CreateLink(r.Context(), r.Session.OrgID, req)
	if err != nil {
		return "", nameField(err)
	}
	return linkPath(r, made.ID), nil
}

// changeLink replaces what can be changed of a payment link, unless it changed since it was opened. An end that is over
// stays as long as it is not changed. Rule PAGE-21.
func (d *dashboard) changeLink(r *pages.Request) (string, error) {
	seenVersion, err := strconv.ParseInt(r.Values[seenName], 10, 64)
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.")
	}
	t, err := readLinkTerms(r)
	if err != nil {
		return "", err
	}
	before, err := d.conf.Checkouts.LinkByID(r.Context(), r.Session.OrgID, r.PathParam("linkId"))
	if err != nil {
		return "", err
	}
	ch := checkout.LinkChange{
		MaxCompleted: checkout.Nullable[int]{IsNamed: true, Value: t.maxCompleted},
		AfterText:    checkout.Nullable[string]{IsNamed: true, Value: t.afterText},
		SuccessURL:   checkout.Nullable[string]{IsNamed: true, Value: t.successURL}, SeenVersion: &seenVersion,
	}
	if r.Values["expiresAt"] != writeLinkTime(before.ExpiresAt) {
		ch.ExpiresAt = checkout.Nullable[time.Time]{IsNamed: true, Value: t.expiresAt}
	}
	after, err := d.conf.Checkouts.PatchLink(r.Context(), r.Session.OrgID, before.ID, actor(r), ch)
	if err != nil {
		return "", err
	}
	return linkPath(r, after.ID), nil
}

func writeLinkTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(shownLinkTime)
}

// linkView is what the page of a payment link shows.
type linkView struct {
	ListPath, Path string
	Name           string
	Chip           ui.Chip
	PosterURL      string // "" without pages
	URL            string
	Facts          []ui.Fact
	Items          []ui.Fact
	Sales          []checkoutRow
	HasMoreSales   bool
	CanManage      bool
	IsPaused       bool
	IsEnded        bool
	Form           ui.Form
	Change         linkForm
	Calls          []string
}

func (d *dashboard) loadLink(r *pages.Request) (templ.Component, error) {
	l, err := d.conf.Checkouts.LinkByID(r.Context(), r.Session.OrgID, r.PathParam("linkId"))
	if err != nil {
		return nil, err
	}
	names, err := d.nameProducts(r, []checkout.Link{l})
	if err != nil {
		return nil, err
	}
	sales, err := d.conf.Checkouts.ListCheckouts(r.Context(), r.Session.OrgID, checkout.CheckoutFilter{LinkID: l.ID},
		pagination.Page{Limit: shownSalesMax, Desc: true})
	if err != nil {
		return nil, err
	}
	view := linkView{
		ListPath: r.Path("payment-links"), Path: linkPath(r, l.ID), Name: names[l.Items[0].ProductID],
		Chip: linkChip(l, r.Now), URL: l.URL, Facts: linkFacts(r, l), CanManage: r.IsAllowed(identity.ManageProducts),
		IsPaused: l.Status == checkout.LinkPaused, IsEnded: l.Status == checkout.LinkEnded, Form: r.Form,
		HasMoreSales: sales.NextCursor != nil,
		Calls: []string{
			d.callText("GET", "/payment-links/"+l.ID, ""), d.callText("GET", "/checkouts?linkId="+l.ID, ""),
			d.callText("POST", "/payment-links/"+l.ID+"/pause", ""),
		},
	}
	if l.URL != "" && !view.IsEnded {
		view.PosterURL = l.URL + posterSuffix
	}
	for _, item := range l.Items {
		view.Items = append(view.Items, ui.Fact{
			Name:  quantityText(item),
			Value: linkedProduct(r.Path("products", item.ProductID), names[item.ProductID]),
		})
	}
	for _, c := range sales.Items {
		view.Sales = append(view.Sales, newCheckoutRow(r, c))
	}
	values := map[string]string{
		"expiresAt": writeLinkTime(l.ExpiresAt), "afterText": textOrEmpty(l.AfterText),
		"successUrl": textOrEmpty(l.SuccessURL), "maxCompleted": "",
	}
	if l.MaxCompleted != nil {
		values["maxCompleted"] = strconv.Itoa(*l.MaxCompleted)
	}
	view.Change = newLinkForm(r, changeLinkAct, values)
	view.Change.Path, view.Change.Button = view.Path+"/"+changeLinkAct, "Save the changes"
	view.Change.Version = strconv.FormatInt(l.Version, 10)
	if typed := r.Form.Value(changeLinkAct, seenName); typed != "" {
		view.Change.Version = typed // What changed meanwhile is not overwritten by a second try, either.
	}
	return linkDetail(view), nil
}

// quantityText says how many pieces a payer buys.
func quantityText(item checkout.LinkItem) string {
	switch {
	case item.Quantity != nil:
		return strconv.Itoa(*item.Quantity) + " of"
	case item.QuantityMin == nil && item.QuantityMax == nil:
		return "As many as the payer chooses of"
	case item.QuantityMax == nil:
		return strconv.Itoa(*item.QuantityMin) + " or more of"
	case item.QuantityMin == nil:
		return "Up to " + strconv.Itoa(*item.QuantityMax) + " of"
	}
	return strconv.Itoa(*item.QuantityMin) + " to " + strconv.Itoa(*item.QuantityMax) + " of"
}

func linkFacts(r *pages.Request, l checkout.Link) []ui.Fact {
	facts := []ui.Fact{{Name: "Payment link", Value: copiedText(l.ID)}}
	if l.URL != "" {
		facts = append(facts, ui.Fact{Name: "Address", Value: copiedText(l.URL)})
	}
	facts = append(facts, ui.Fact{Name: "Sold", Value: ui.Text(soldText(l))})
	if l.ExpiresAt != nil {
		facts = append(facts, ui.Fact{Name: "Sells until", Value: ui.When(r.Moment(*l.ExpiresAt))})
	}
	if l.AfterText != nil {
		facts = append(facts, ui.Fact{Name: "After the payment", Value: productText(*l.AfterText)})
	}
	if l.SuccessURL != nil {
		facts = append(facts, ui.Fact{Name: "Leads to", Value: ui.Foreign(*l.SuccessURL)})
	}
	facts = append(facts,
		ui.Fact{Name: "Created", Value: ui.When(r.Moment(l.CreatedAt))},
		ui.Fact{Name: "Changed", Value: ui.When(r.Moment(l.UpdatedAt))},
	)
	if l.EndedAt != nil {
		facts = append(facts, ui.Fact{Name: "Ended", Value: ui.When(r.Moment(*l.EndedAt))})
	}
	return append(facts, requestFacts(resource.OptionalText(l.IdempotencyKey), nil, nil)...)
}
