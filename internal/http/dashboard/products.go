package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// The names of the acts about products.
const (
	createProductAct    = "create"
	changeProductAct    = "change"
	archiveProductAct   = "archive"
	unarchiveProductAct = "unarchive"
)

// Bounds of what a field takes. Package checkout says what is too long.
const (
	productNameBytesMax = 1 << 10
	productTextBytesMax = 12 << 10
	priceBytesMax       = 64
	productMetadataMax  = 24 << 10
)

const acceptedName = "acceptedMintIds"

// productFields are the fields that describe a product. Each token is a box.
func productFields(first ...pages.Field) []pages.Field {
	optional := func(name string, bytesMax int) pages.Field {
		return pages.Field{Name: name, BytesMax: bytesMax, Optional: true}
	}
	return append(first,
		pages.Field{Name: "name", BytesMax: productNameBytesMax, Missing: "Give the product a name."},
		optional("description", productTextBytesMax),
		optional("imageUrl", 2*urlBytesMax),
		pages.Field{Name: "priceType", BytesMax: wordBytesMax, Missing: "Choose how the price is made."},
		pages.Field{Name: "currency", BytesMax: productNameBytesMax, Missing: "Choose a currency."},
		optional("price", priceBytesMax), optional("minPrice", priceBytesMax), optional("maxPrice", priceBytesMax),
		pages.Field{
			Name: acceptedName, BytesMax: productTextBytesMax, HasBoxes: true, Missing: "Tick at least one token.",
		},
		optional("settlementMintId", wordBytesMax),
		pages.Field{Name: "maxQuantity", BytesMax: wordBytesMax, Missing: "Give the most pieces of one checkout."},
		pages.Field{
			Name: "underpaymentToleranceBps", BytesMax: wordBytesMax, Missing: "Give a tolerance, or 0 for none.",
		},
		pages.Field{Name: "overpaymentPolicy", BytesMax: wordBytesMax, Missing: "Choose what happens to a surplus."},
		pages.Field{Name: "latePaymentPolicy", BytesMax: wordBytesMax, Missing: "Choose what a late payment does."},
		optional("successUrl", 2*urlBytesMax), optional("cancelUrl", 2*urlBytesMax),
		pages.Field{Name: "onePerReference", BytesMax: wordBytesMax, Optional: true, Checkbox: true},
		optional("metadata", productMetadataMax),
	)
}

var productStatusParameter = kernel.Parameter{
	Name: "status", Kind: kernel.WordParameter, Enum: resource.ProductStatuses,
}

// productsPage lists the products that are for sale, or the archived ones.
func (d *dashboard) productsPage() pages.Page {
	return pages.Page{
		Path: "/products", Title: "Products", Action: identity.ReadOrganization, Group: "", Icon: "product",
		Shortcut: "p", Live: []string{"PRODUCT"},
		Query: []kernel.Parameter{pages.CursorParameter, productStatusParameter},
		Load:  d.loadProducts, WriteCSV: d.writeProducts,
	}
}

// productFormPage makes a product. Rule PAGE-81.
func (d *dashboard) productFormPage() pages.Page {
	return pages.Page{
		Path: "/products/new", Title: "New product", Action: identity.ManageProducts, Load: d.loadProductForm,
		Acts: []pages.Act{{
			Name: createProductAct, Action: identity.ManageProducts, StepUp: pages.SudoStepUp, Keyed: true,
			Fields: productFields(), FindDone: d.findCreatedProduct, Run: d.createProduct,
		}},
	}
}

// productPage shows a product with what can be done about it. Rule PAGE-81.
func (d *dashboard) productPage() pages.Page {
	setStatus := func(
		name string, set func(context.Context, *pages.Request) (checkout.Product, error),
	) pages.Act {
		return pages.Act{
			Name: name, Action: identity.ManageProducts, StepUp: pages.SudoStepUp,
			Run: func(r *pages.Request) (string, error) {
				p, err := set(r.Context(), r)
				return productPath(r, p.ID), err
			},
		}
	}
	return pages.Page{
		Path: "/products/{productId}", Title: "Product", Action: identity.ReadOrganization, Live: []string{"PRODUCT"},
		Load: d.loadProduct, LoadImage: d.loadProductImage,
		Acts: []pages.Act{
			{
				Name: changeProductAct, Action: identity.ManageProducts, StepUp: pages.SudoStepUp,
				Fields: productFields(seenField), Run: d.changeProduct,
			},
			setStatus(archiveProductAct, func(ctx context.Context, r *pages.Request) (checkout.Product, error) {
				return d.conf.Checkouts.Archive(ctx, r.Session.OrgID, r.PathParam("productId"), actor(r))
			}),
			setStatus(unarchiveProductAct, func(ctx context.Context, r *pages.Request) (checkout.Product, error) {
				return d.conf.Checkouts.Unarchive(ctx, r.Session.OrgID, r.PathParam("productId"), actor(r))
			}),
		},
	}
}

func productPath(r *pages.Request, productID string) string { return r.Path("products", productID) }

// productRow is a product in the list.
type productRow struct {
	Path, Name      string
	Price, MaxPrice string // MaxPrice is "" for a fixed price
	Currency        string
	PaidIn          []string // symbols
	MorePaidIn      string   // how many more there are; "" for none
	Changed         ui.Moment
}

// productsView is what the list shows.
type productsView struct {
	Tabs                []ui.Tab
	CSVPath, NewPath    string
	IsArchive           bool
	Rows                []productRow
	FirstPath, NextPath string
	Calls               []string
}

// readProductFilter returns the status of the tab: the products for sale stand on the first one.
func readProductFilter(r *pages.Request) checkout.Filter {
	status := r.Query[productStatusParameter.Name]
	if status == "" {
		status = string(checkout.Active)
	}
	return checkout.Filter{Status: status}
}

func (d *dashboard) loadProducts(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	f := readProductFilter(r)
	found, err := d.conf.Checkouts.List(r.Context(), r.Session.OrgID, f, p)
	if err != nil {
		return nil, err
	}
	mints, err := d.listTokens(r)
	if err != nil {
		return nil, err
	}
	isArchive := f.Status == string(checkout.Archived)
	view := productsView{
		Tabs: []ui.Tab{
			{Title: "Active", Path: r.Path("products"), Current: !isArchive},
			{
				Title: "Archived", Path: r.FilterPath(productStatusParameter.Name, string(checkout.Archived)),
				Current: isArchive,
			},
		},
		CSVPath: r.CSVPath(), IsArchive: isArchive,
		Calls: []string{
			d.callText("GET", "/products", ""),
			d.callText("POST", "/products",
				`{"name":"Gold plan","priceType":"FIXED","price":"49.99","acceptedMintIds":[1]}`),
		},
	}
	if r.IsAllowed(identity.ManageProducts) {
		view.NewPath = r.Path("products", "new")
	}
	for _, item := range found.Items {
		view.Rows = append(view.Rows, newProductRow(r, item, mints))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return productList(view), nil
}

// shownSymbolsMax bounds the tokens that a row of the list names.
const shownSymbolsMax = 3

func newProductRow(r *pages.Request, p checkout.Product, mints []mint.Mint) productRow {
	row := productRow{
		Path: productPath(r, p.ID), Name: p.Name, Currency: p.Currency, Changed: r.Moment(p.UpdatedAt),
	}
	row.Price, row.MaxPrice = productPrices(p)
	var symbols []string
	for _, m := range mints {
		if slices.Contains(p.AcceptedMintIDs, m.ID) && !slices.Contains(symbols, m.Symbol) {
			symbols = append(symbols, m.Symbol)
		}
	}
	row.PaidIn = symbols[:min(len(symbols), shownSymbolsMax)]
	if rest := len(symbols) - len(row.PaidIn); rest > 0 {
		row.MorePaidIn = "and " + strconv.Itoa(rest) + " more"
	}
	return row
}

// productPrices writes the price of a product, or both bounds of one that the payer chooses.
func productPrices(p checkout.Product) (price, maxPrice string) {
	if p.PriceType == checkout.OpenPrice {
		return p.MinPrice.Show(p.Currency), p.MaxPrice.Show(p.Currency)
	}
	return p.Price.Show(p.Currency), ""
}

func (d *dashboard) writeProducts(r *pages.Request, w *kernel.StreamWriter) error {
	f := readProductFilter(r)
	return kernel.WriteTable(r.Context(), w, true, resource.ProductColumns,
		func(ctx context.Context, desc bool, row func(webhook.Product) error) error {
			return d.conf.Checkouts.ForEach(ctx, r.Session.OrgID, f, desc,
				func(p checkout.Product) error { return row(wire.Product(p)) })
		})
}

// tokenBox is the box of a token that a product can be paid in.
type tokenBox struct {
	Value, Symbol, Network string
	IsTicked               bool
}

// productForm is the form that describes a product.
type productForm struct {
	Act, Path, Button string
	Form              ui.Form
	Key               string // of a new product
	Version           string // of a known one
	Types, Currencies optionInput
	Tokens            []tokenBox
	Settlement        optionInput
	Overpayment, Late optionInput
	Description       ui.AreaInput
	Metadata          ui.AreaInput
	IsOnePerReference bool
}

// newProductForm makes the form with the values of a draft.
func newProductForm(r *pages.Request, act string, draft checkout.Draft, mints []mint.Mint) (productForm, error) {
	metadata, err := writeMetadata(draft.Metadata)
	if err != nil {
		return productForm{}, err
	}
	settlement := ""
	if draft.SettlementMintID != nil {
		settlement = strconv.Itoa(*draft.SettlementMintID)
	}
	ticked := make([]string, len(draft.AcceptedMintIDs))
	for i, mintID := range draft.AcceptedMintIDs {
		ticked[i] = strconv.Itoa(mintID)
	}
	form := productForm{
		Act: act,
		Form: ui.Filled(r.Form, act, map[string]string{
			"name": draft.Name, "imageUrl": textOrEmpty(draft.ImageURL), "price": textOrEmpty(draft.Price),
			"minPrice": textOrEmpty(draft.MinPrice), "maxPrice": textOrEmpty(draft.MaxPrice),
			"description": textOrEmpty(draft.Description), "priceType": draft.PriceType, "currency": draft.Currency,
			acceptedName: strings.Join(ticked, ","), "settlementMintId": settlement,
			"maxQuantity":              strconv.Itoa(draft.MaxQuantity),
			"underpaymentToleranceBps": strconv.Itoa(draft.UnderpaymentToleranceBps),
			"overpaymentPolicy":        draft.OverpaymentPolicy, "latePaymentPolicy": draft.LatePaymentPolicy,
			"successUrl": textOrEmpty(draft.SuccessURL), "cancelUrl": textOrEmpty(draft.CancelURL),
			"onePerReference": tickValue(draft.OnePerReference), "metadata": metadata,
		}),
		Types: optionInput{Act: act, Name: "priceType", Label: "Price", Options: []option{
			{checkout.FixedPrice, "fixed"},
			{checkout.OpenPrice, "chosen by the payer between two bounds"},
		}},
		Currencies: optionInput{
			Act: act, Name: "currency", Label: "Currency of the price",
			Hint: "US dollars, or one of the tokens that you tick below.", Options: []option{{checkout.USD, "USD"}},
		},
		Settlement: optionInput{
			Act: act, Name: "settlementMintId", Label: "Settlement",
			Hint: "Reserved: what is paid stays the token that it is.", Options: []option{{"", "as it was paid"}},
		},
		Overpayment: optionInput{
			Act: act, Name: "overpaymentPolicy", Label: "If a payer pays too much", Options: []option{
				{checkout.CreditSurplus, "the surplus stays with you"},
				{checkout.RefundLinkSurplus, "a refund is made by itself, and the payer claims it"},
			},
		},
		Late: optionInput{Act: act, Name: "latePaymentPolicy", Label: "If a payment comes too late", Options: []option{
			{checkout.AcceptLate, "it counts if it is enough at the price of its moment"},
			{checkout.HoldLate, "a person decides"},
			{checkout.RefundLinkLate, "a refund is made by itself, also of a part, and the payer claims it"},
		}},
		Description: ui.AreaInput{Act: act, Name: "description", Label: "Description"},
		Metadata: ui.AreaInput{
			Act: act, Name: "metadata", Label: "Metadata",
			Hint: `Your own keys and values as JSON, such as {"sku": "G-1"}.`,
		},
		IsOnePerReference: draft.OnePerReference,
	}
	chosen := strings.Split(form.Form.Value(act, acceptedName), ",")
	isListed := func(o option) bool { return o.Value == form.Form.Value(act, "currency") }
	for _, m := range mints {
		value := strconv.Itoa(m.ID)
		isTicked := slices.Contains(chosen, value)
		if !isTicked && (!m.DepositEnabled || m.Quarantined) {
			continue
		}
		form.Tokens = append(form.Tokens, tokenBox{value, m.Symbol, networkName(m.Chain), isTicked})
		form.Settlement.Options = append(form.Settlement.Options, option{
			value, ui.EscapeForeign(m.Symbol) + " on " + networkName(m.Chain),
		})
		symbol := option{m.Symbol, ui.EscapeForeign(m.Symbol)}
		if !slices.Contains(form.Currencies.Options, symbol) {
			form.Currencies.Options = append(form.Currencies.Options, symbol)
		}
	}
	if current := form.Form.Value(act, "currency"); current != "" &&
		!slices.ContainsFunc(form.Currencies.Options, isListed) {
		form.Currencies.Options = append(form.Currencies.Options, option{current, ui.EscapeForeign(current)})
	}
	return form, nil
}

// writeMetadata writes metadata for its field, as a person would.
func writeMetadata(metadata map[string]string) (string, error) {
	if len(metadata) == 0 {
		return "", nil
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // The page escapes it.
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(metadata); err != nil {
		return "", fmt.Errorf("write the metadata of a product: %w", err)
	}
	return strings.TrimSpace(out.String()), nil
}

// shownDraft returns the terms of a product with prices as people write them.
func shownDraft(p checkout.Product) checkout.Draft {
	d := p.Draft()
	for _, price := range []struct {
		text  **string
		value *checkout.Price
	}{{&d.Price, p.Price}, {&d.MinPrice, p.MinPrice}, {&d.MaxPrice, p.MaxPrice}} {
		if price.value != nil {
			*price.text = new(price.value.Show(p.Currency))
		}
	}
	return d
}

// tickValue writes a box as a browser sends it.
func tickValue(isTicked bool) string {
	if isTicked {
		return "on"
	}
	return ""
}

func (d *dashboard) loadProductForm(r *pages.Request) (templ.Component, error) {
	mints, err := d.listTokens(r)
	if err != nil {
		return nil, err
	}
	draft := checkout.NewDraft()
	draft.PriceType = checkout.FixedPrice
	form, err := newProductForm(r, createProductAct, draft, mints)
	if err != nil {
		return nil, err
	}
	form.Path, form.Button = r.Path("products", "new", createProductAct), "Create the product"
	form.Key = r.FormKey(createProductAct)
	return productFormView(r.Path("products"), form), nil
}

// readDraft reads the form of a product. Package checkout checks what it says.
func readDraft(r *pages.Request) (checkout.Draft, error) {
	invalid := func(field, reason string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", reason).WithParam(field)
	}
	d := checkout.Draft{
		Name: r.Values["name"], PriceType: r.Values["priceType"], Currency: r.Values["currency"],
		Description: resource.OptionalText(strings.ReplaceAll(r.Values["description"], "\r\n", "\n")),
		ImageURL:    resource.OptionalText(r.Values["imageUrl"]),
		Price:       resource.OptionalText(r.Values["price"]), MinPrice: resource.OptionalText(r.Values["minPrice"]),
		MaxPrice: resource.OptionalText(r.Values["maxPrice"]), OverpaymentPolicy: r.Values["overpaymentPolicy"],
		LatePaymentPolicy: r.Values["latePaymentPolicy"], SuccessURL: resource.OptionalText(r.Values["successUrl"]),
		CancelURL: resource.OptionalText(r.Values["cancelUrl"]), OnePerReference: r.Values["onePerReference"] != "",
		Metadata: map[string]string{},
	}
	var err error
	for _, number := range []struct {
		field  string
		target *int
	}{{"maxQuantity", &d.MaxQuantity}, {"underpaymentToleranceBps", &d.UnderpaymentToleranceBps}} {
		if *number.target, err = strconv.Atoi(r.Values[number.field]); err != nil {
			return d, invalid(number.field, "Give a whole number.")
		}
	}
	for _, text := range r.ListTicked(acceptedName) {
		mintID, err := strconv.Atoi(text)
		if err != nil {
			return d, invalid(acceptedName, "Choose tokens of the list.")
		}
		d.AcceptedMintIDs = append(d.AcceptedMintIDs, mintID)
	}
	if text := r.Values["settlementMintId"]; text != "" {
		mintID, err := strconv.Atoi(text)
		if err != nil {
			return d, invalid("settlementMintId", "Choose a token of the list.")
		}
		d.SettlementMintID = &mintID
	}
	if text := r.Values["metadata"]; text != "" {
		if json.Unmarshal([]byte(text), &d.Metadata) != nil || d.Metadata == nil {
			return d, invalid("metadata", `Write a JSON object whose values are texts, such as {"sku": "G-1"}.`)
		}
	}
	return d, nil
}

// findCreatedProduct returns the page of the product that the key of the form made. Rule PAGE-15.
func (d *dashboard) findCreatedProduct(r *pages.Request) (string, error) {
	made, isKnown, err := d.conf.Checkouts.FindByKey(r.Context(), r.Session.OrgID, r.Key())
	if err != nil || !isKnown {
		return "", err
	}
	path := productPath(r, made.ID)
	draft, err := readDraft(r)
	if err != nil || made.Differs(checkout.Request{Draft: draft}) {
		return "", r.NewKeyConflict("the product "+made.Name, path)
	}
	return path, nil
}

func (d *dashboard) createProduct(r *pages.Request) (string, error) {
	draft, err := readDraft(r)
	if err != nil {
		return "", err
	}
	made, _, err := d.conf.Checkouts.Create(r.Context(), r.Session.OrgID, checkout.Request{
		Draft: draft, IdempotencyKey: new(r.Key()), Actor: actor(r),
	})
	if err != nil {
		return "", err
	}
	return productPath(r, made.ID), nil
}

// changeProduct replaces the terms of a product with those of the form, unless they changed since it was opened. The
// image is fetched only if its address is another one. Rule PAGE-21.
func (d *dashboard) changeProduct(r *pages.Request) (string, error) {
	seenVersion, err := strconv.ParseInt(r.Values[seenName], 10, 64)
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.")
	}
	draft, err := readDraft(r)
	if err != nil {
		return "", err
	}
	before, err := d.conf.Checkouts.ByID(r.Context(), r.Session.OrgID, r.PathParam("productId"))
	if err != nil {
		return "", err
	}
	ch := checkout.Replace(draft)
	ch.SeenVersion = &seenVersion
	ch.ImageURL.IsNamed = textOrEmpty(draft.ImageURL) != textOrEmpty(before.ImageURL)
	after, err := d.conf.Checkouts.Patch(r.Context(), r.Session.OrgID, before.ID, actor(r), ch)
	if err != nil {
		return "", err
	}
	return productPath(r, after.ID), nil
}

// productView is what the page of a product shows.
type productView struct {
	ListPath, Path       string
	Name                 string
	Chip                 ui.Chip
	ImagePath            string // "" without an image
	Facts                []ui.Fact
	CanManage, IsArchive bool
	Form                 ui.Form
	Change               productForm
	Calls                []string
}

func (d *dashboard) loadProduct(r *pages.Request) (templ.Component, error) {
	p, err := d.conf.Checkouts.ByID(r.Context(), r.Session.OrgID, r.PathParam("productId"))
	if err != nil {
		return nil, err
	}
	mints, err := d.listTokens(r)
	if err != nil {
		return nil, err
	}
	view := productView{
		ListPath: r.Path("products"), Path: productPath(r, p.ID), Name: p.Name, Chip: productChip(p.Status),
		Facts: productFacts(r, p, mints), CanManage: r.IsAllowed(identity.ManageProducts),
		IsArchive: p.Status == checkout.Archived, Form: r.Form,
		Calls: []string{
			d.callText("GET", "/products/"+p.ID, ""),
			d.callText("PATCH", "/products/"+p.ID, `{"maxQuantity":5}`),
		},
	}
	if p.ImageID != "" {
		view.ImagePath = view.Path + pages.ImageSuffix
	}
	if view.Change, err = newProductForm(r, changeProductAct, shownDraft(p), mints); err != nil {
		return nil, err
	}
	view.Change.Path, view.Change.Button = view.Path+"/"+changeProductAct, "Save the changes"
	view.Change.Version = strconv.FormatInt(p.Version, 10)
	if typed := r.Form.Value(changeProductAct, seenName); typed != "" {
		view.Change.Version = typed // What changed meanwhile is not overwritten by a second try, either.
	}
	return productDetail(view), nil
}

func (d *dashboard) loadProductImage(r *pages.Request) (mediaType string, content []byte, err error) {
	found, err := d.conf.Checkouts.ImageOf(r.Context(), r.Session.OrgID, r.PathParam("productId"))
	return found.MediaType, found.Content, err
}

func productFacts(r *pages.Request, p checkout.Product, mints []mint.Mint) []ui.Fact {
	price, maxPrice := productPrices(p)
	var accepted []string
	for _, m := range mints {
		if slices.Contains(p.AcceptedMintIDs, m.ID) {
			accepted = append(accepted, ui.EscapeForeign(m.Symbol)+" on "+networkName(m.Chain))
		}
	}
	facts := []ui.Fact{
		{Name: "Product", Value: copiedText(p.ID)},
		{Name: "Price", Value: priceText(price, maxPrice, p.Currency)},
		{Name: "Paid in", Value: ui.Text(strings.Join(accepted, ", "))},
		{Name: "Most pieces of one checkout", Value: ui.Text(strconv.Itoa(p.MaxQuantity))},
		{
			Name:  "Counts as paid with less by",
			Value: ui.Text(strconv.Itoa(p.UnderpaymentToleranceBps) + " basis points"),
		},
		{Name: "A surplus", Value: ui.Text(policyText(p.OverpaymentPolicy))},
		{Name: "A late payment", Value: ui.Text(policyText(p.LatePaymentPolicy))},
		{Name: "One reference is paid", Value: ui.Text(onceText(p.OnePerReference))},
	}
	for _, link := range []struct {
		name string
		url  *string
	}{
		{"Image from", p.ImageURL},
		{"After the payment", p.SuccessURL},
		{"After giving up", p.CancelURL},
	} {
		if link.url != nil {
			facts = append(facts, ui.Fact{Name: link.name, Value: ui.Foreign(*link.url)})
		}
	}
	if p.Description != nil {
		facts = append(facts, ui.Fact{Name: "Description", Value: productText(*p.Description)})
	}
	facts = append(facts,
		ui.Fact{Name: "Created", Value: ui.When(r.Moment(p.CreatedAt))},
		ui.Fact{Name: "Changed", Value: ui.When(r.Moment(p.UpdatedAt))},
	)
	if p.ArchivedAt != nil {
		facts = append(facts, ui.Fact{Name: "Archived", Value: ui.When(r.Moment(*p.ArchivedAt))})
	}
	return append(facts, requestFacts(resource.OptionalText(p.IdempotencyKey), nil, p.Metadata)...)
}

// policyText writes a policy of a product for people.
func policyText(policy string) string {
	switch policy {
	case checkout.CreditSurplus:
		return "stays with you"
	case checkout.RefundLinkSurplus:
		return "can be claimed by the payer"
	case checkout.AcceptLate:
		return "counts if it is enough at the price of its moment"
	case checkout.HoldLate:
		return "waits for a person"
	}
	return ""
}

func onceText(isOnce bool) string {
	if isOnce {
		return "once"
	}
	return "as often as payers like"
}

// productChip writes the status of a product for people.
func productChip(status checkout.Status) ui.Chip {
	if status == checkout.Archived {
		return ui.Chip{Kind: ui.Quiet, Word: "Archived"}
	}
	return ui.Chip{Kind: ui.Good, Word: "For sale"}
}
