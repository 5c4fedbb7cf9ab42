package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// ProductRequest is the body of POST /products.
type ProductRequest struct {
	Name                     string            `json:"name" doc:"The name, for payers: 1 to 200 characters without control or bidirectional ones." bounds:"minLength=1,maxLength=200" example:"Gold plan"`
	Description              *string           `json:"description,omitempty" doc:"The description, for payers: up to 2,000 characters, with line breaks." bounds:"minLength=1,maxLength=2000" example:"1 month"`
	ImageURL                 *string           `json:"imageUrl,omitempty" doc:"The address of an image: PNG, JPEG or WebP, at most 2 MB and 4,096 points on each side. It is fetched once by this call, without following a redirect." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/gold.png"`
	PriceType                string            `json:"priceType"`
	Currency                 *string           `json:"currency,omitempty" doc:"The currency of the prices: USD, or the symbol of one of acceptedMintIds; USD if it is left out." bounds:"minLength=1,maxLength=64" example:"USD"`
	Price                    *string           `json:"price,omitempty" doc:"The price of one piece, which a FIXED product needs: above zero, at most 18 digits, two after the point for USD and those of the mint otherwise." bounds:"minLength=1" example:"49.99"`
	MinPrice                 *string           `json:"minPrice,omitempty" doc:"The lowest price that the payer can choose, which an OPEN product needs. It has the form of price." bounds:"minLength=1"`
	MaxPrice                 *string           `json:"maxPrice,omitempty" doc:"The highest price that the payer can choose, which an OPEN product needs. It has the form of price." bounds:"minLength=1"`
	AcceptedMintIDs          []int             `json:"acceptedMintIds" bounds:"minItems=1,maxItems=200"`
	SettlementMintID         *int              `json:"settlementMintId,omitempty" bounds:"minimum=1"`
	MaxQuantity              *int              `json:"maxQuantity,omitempty" doc:"How many pieces one checkout may have; 1 if it is left out." bounds:"minimum=1,maximum=1000" example:"10"`
	UnderpaymentToleranceBps *int              `json:"underpaymentToleranceBps,omitempty" doc:"How much less than the amount due counts as paid, in basis points; 50 if it is left out." bounds:"minimum=0,maximum=1000" example:"50"`
	OverpaymentPolicy        *string           `json:"overpaymentPolicy,omitempty" doc:"What happens to a surplus; CREDIT if it is left out." enum:"CREDIT,REFUND_LINK" example:"CREDIT"`
	LatePaymentPolicy        *string           `json:"latePaymentPolicy,omitempty" doc:"What happens to a payment after the time for it; ACCEPT_IF_WITHIN_TOLERANCE if it is left out." enum:"ACCEPT_IF_WITHIN_TOLERANCE,HOLD,REFUND_LINK" example:"ACCEPT_IF_WITHIN_TOLERANCE"`
	SuccessURL               *string           `json:"successUrl,omitempty" doc:"Where the payer is led after the payment: https, in ASCII, without a user name." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/thanks"`
	CancelURL                *string           `json:"cancelUrl,omitempty" doc:"Where the payer is led who gives up. It has the form of successUrl." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/cart"`
	OnePerReference          *bool             `json:"onePerReference,omitempty" doc:"Whether one reference of yours, such as the number of an order, is paid once; false if it is left out."`
	Metadata                 map[string]string `json:"metadata,omitempty" doc:"Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500." bounds:"maxProperties=20"`
	IdempotencyKey           *string           `json:"idempotencyKey,omitempty" doc:"Your name for this product: 1 to 255 printable ASCII characters without a space. It never expires. Without it every call makes another one." pattern:"^[!-~]{1,255}$" example:"product-gold"`
}

// ProductChange is the body of PATCH /products/{productId}. null removes what a product need not have.
type ProductChange struct {
	Name                     string            `json:"name,omitempty" doc:"The new name, for payers." bounds:"minLength=1,maxLength=200" example:"Gold plan"`
	Description              *string           `json:"description,omitempty" doc:"The new description; null for none." bounds:"minLength=1,maxLength=2000" example:"1 month"`
	ImageURL                 *string           `json:"imageUrl,omitempty" doc:"The address of a new image, which is fetched once by this call; null for none. Only a change with this field fetches." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/gold.png"`
	PriceType                string            `json:"priceType,omitempty"`
	Currency                 string            `json:"currency,omitempty" bounds:"minLength=1,maxLength=64"`
	Price                    *string           `json:"price,omitempty" doc:"The new price; null for a product that becomes OPEN." bounds:"minLength=1" example:"49.99"`
	MinPrice                 *string           `json:"minPrice,omitempty" doc:"The new lowest price; null for a product that becomes FIXED." bounds:"minLength=1"`
	MaxPrice                 *string           `json:"maxPrice,omitempty" doc:"The new highest price; null for a product that becomes FIXED." bounds:"minLength=1"`
	AcceptedMintIDs          []int             `json:"acceptedMintIds,omitempty" bounds:"minItems=1,maxItems=200"`
	SettlementMintID         *int              `json:"settlementMintId,omitempty" bounds:"minimum=1"`
	MaxQuantity              int               `json:"maxQuantity,omitempty"`
	UnderpaymentToleranceBps int               `json:"underpaymentToleranceBps,omitempty"`
	OverpaymentPolicy        string            `json:"overpaymentPolicy,omitempty"`
	LatePaymentPolicy        string            `json:"latePaymentPolicy,omitempty"`
	SuccessURL               *string           `json:"successUrl,omitempty" doc:"Where the payer is led after the payment; null for nowhere." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/thanks"`
	CancelURL                *string           `json:"cancelUrl,omitempty" doc:"Where the payer is led who gives up; null for nowhere." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/cart"`
	OnePerReference          bool              `json:"onePerReference,omitempty"`
	Metadata                 map[string]string `json:"metadata,omitempty" doc:"Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40 characters, values of up to 500." bounds:"maxProperties=20"`
}

var replayedProductHeader = kernel.Header{
	Name: "Idempotent-Replayed",
	Text: "true when the key was known: the call did nothing and returns the product as it is now.",
}

// productRoutes are the calls about products. Rule PROD-11.
func (a *api) productRoutes() []kernel.Route {
	faults := []fault.Code{fault.InvalidAmount, fault.MintNotFound}
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/products", Name: "createProduct",
			Action: identity.ManageProducts, Group: "Products",
			Summary: "Make a product",
			Text: "Makes a product that is for sale. It makes no link to a checkout, moves no money and sends no " +
				"event. An imageUrl is fetched once by this call. With an idempotencyKey the same request returns " +
				"the same product as it is now, and the same key with other parameters is refused with 409 " +
				"IDEMPOTENCY_CONFLICT; metadata is no parameter. A key never expires. Without a key every call makes " +
				"another product. After a 5xx or no answer, repeat with the same key.",
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Answered: kernel.AnswerKnown(a.answerKnownProduct),
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The product. For a known key, the product as it is now.",
				Headers: []kernel.Header{replayedProductHeader},
			}},
			Faults: append([]fault.Code{fault.IdempotencyKeyMismatch, fault.IdempotencyConflict}, faults...),
			Handler: kernel.HandleBody(a.createProduct,
				ProductRequest{
					Name: "Gold plan", Description: new("1 month"), PriceType: checkout.FixedPrice, Price: new("49.99"),
					AcceptedMintIDs: []int{1, 2}, MaxQuantity: new(10),
					SuccessURL: resource.ExampleProduct.SuccessURL, IdempotencyKey: new("product-gold"),
				},
				resource.ExampleProduct,
			),
		},
		{
			Method: http.MethodGet, Path: "/products", Name: "listProducts",
			Action: identity.ReadOrganization, Group: "Products",
			Summary: "List products",
			Text:    "The organization's products, archived ones included." + csvText,
			Query: kernel.ListParameters(kernel.Parameter{
				Name: "status", Kind: kernel.WordParameter, Enum: resource.ProductStatuses,
				Text: "Only in this status.",
			}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of products."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listProducts, kernel.ExamplePage(resource.ExampleProduct)),
			Table:   kernel.ExportTable("products", resource.ProductColumns, a.exportProducts),
		},
		{
			Method: http.MethodGet, Path: "/products/{productId}", Name: "getProduct",
			Action: identity.ReadOrganization, Group: "Products",
			Summary: "Read a product", Text: "One product.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The product."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getProduct, resource.ExampleProduct),
		},
		{
			Method: http.MethodPatch, Path: "/products/{productId}", Name: "updateProduct",
			Action: identity.ManageProducts, Group: "Products",
			Summary: "Change a product",
			Text: "Replaces the fields that the body names, of an active or an archived product. null removes a " +
				"description, an image, a settlement mint or a URL, and the prices that the other priceType has no " +
				"use for. The result is checked as a whole: to make a FIXED product OPEN, send priceType, price " +
				"null, minPrice and maxPrice together. Checkouts that exist keep what they were made of.",
			Before:  kernel.Check(refuseStatus),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The product."}},
			Faults:  append([]fault.Code{fault.StatusNotPatchable, fault.CodeNotFound}, faults...),
			Handler: kernel.HandleBody(a.updateProduct,
				ProductChange{Price: new("59.99"), MaxQuantity: 5}, resource.ExampleProduct),
		},
		{
			Method: http.MethodDelete, Path: "/products/{productId}", Name: "archiveProduct",
			Action: identity.ManageProducts, Group: "Products",
			Summary: "Archive a product",
			Text: "Takes the product off sale. It is not deleted: it is read and changed as before. An archived " +
				"product stays as it is. Checkouts that exist are not affected.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The archived product."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.archiveProduct, archivedExample()),
		},
		{
			Method: http.MethodPost, Path: "/products/{productId}/unarchive", Name: "unarchiveProduct",
			Action: identity.ManageProducts, Group: "Products",
			Summary: "Put an archived product on sale again",
			Text: "Makes the product ACTIVE. An active product stays as it is. Checkouts that exist are not " +
				"affected, and no event is sent.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The active product."}},
			Faults:    []fault.Code{fault.CodeNotFound},
			Handler:   kernel.Handle(a.unarchiveProduct, resource.ExampleProduct),
		},
	}
}

func archivedExample() webhook.Product {
	p := resource.ExampleProduct
	p.Status, p.ArchivedAt = string(checkout.Archived), &resource.ExampleAt
	return p
}

// readProduct translates the body of POST /products.
func readProduct(c *call, body ProductRequest) checkout.Request {
	d := checkout.NewDraft()
	d.Name, d.Description, d.ImageURL, d.PriceType = body.Name, body.Description, body.ImageURL, body.PriceType
	d.Price, d.MinPrice, d.MaxPrice = body.Price, body.MinPrice, body.MaxPrice
	d.AcceptedMintIDs, d.SettlementMintID = body.AcceptedMintIDs, body.SettlementMintID
	d.SuccessURL, d.CancelURL, d.Metadata = body.SuccessURL, body.CancelURL, body.Metadata
	replaceGiven(&d.Currency, body.Currency)
	replaceGiven(&d.MaxQuantity, body.MaxQuantity)
	replaceGiven(&d.UnderpaymentToleranceBps, body.UnderpaymentToleranceBps)
	replaceGiven(&d.OverpaymentPolicy, body.OverpaymentPolicy)
	replaceGiven(&d.LatePaymentPolicy, body.LatePaymentPolicy)
	replaceGiven(&d.OnePerReference, body.OnePerReference)
	return checkout.Request{Draft: d, IdempotencyKey: body.IdempotencyKey, Actor: c.Caller.Actor()}
}

func replaceGiven[T any](target *T, value *T) {
	if value != nil {
		*target = *value
	}
}

// answerKnownProduct looks the key of a request up, before anything else of it can refuse it. Rules PROD-1, IDEM-5.
func (a *api) answerKnownProduct(c *call) (shown webhook.Product, isKnown bool, err error) {
	key, err := idempotencyKey(c.Header, resource.OptionalText(c.TextMember("idempotencyKey")))
	if err != nil || key == nil {
		return shown, false, nil // createProduct refuses two different keys
	}
	p, isKnown, err := a.conf.Checkouts.FindByKey(c.Context(), c.Caller.OrgID, *key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body ProductRequest
	differs := c.DecodeBody(&body) != nil || p.Differs(readProduct(c, body))
	shown, err = replayProduct(c, p, differs)
	return shown, err == nil, err
}

// replayProduct answers with a product that another request made.
func replayProduct(c *call, p checkout.Product, differs bool) (webhook.Product, error) {
	if differs {
		return webhook.Product{}, newKeyConflict("product", p.ID)
	}
	c.AnswerHeader.Set("Idempotent-Replayed", "true")
	return wire.Product(p), nil
}

func (a *api) createProduct(c *call, body ProductRequest) (webhook.Product, error) {
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.Product{}, err
	}
	body.IdempotencyKey = key
	r := readProduct(c, body)
	p, isReplayed, err := a.conf.Checkouts.Create(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.Product{}, err
	}
	if isReplayed {
		return replayProduct(c, p, p.Differs(r))
	}
	return wire.Product(p), nil
}

// refuseStatus refuses a change that names the status, before it would be an unknown field. Rule PROD-8.
func refuseStatus(c *call) error {
	if !c.HasMember("status") {
		return nil
	}
	return fault.New(fault.Invalid, fault.StatusNotPatchable, fault.NothingWritten,
		"A change leaves the status of a product as it is.").
		WithAdvice("Archive the product, or put it on sale again, with the call for it.").WithParam("status")
}

// named returns a value that the body has, and nil for one that it leaves out.
func named[T any](c *call, name string, value T) *T {
	if !c.HasMember(name) {
		return nil
	}
	return &value
}

func nullable[T any](c *call, name string, value *T) checkout.Nullable[T] {
	return checkout.Nullable[T]{IsNamed: c.HasMember(name), Value: value}
}

func (a *api) updateProduct(c *call, body ProductChange) (webhook.Product, error) {
	ch := checkout.Change{
		Name: named(c, "name", body.Name), Description: nullable(c, "description", body.Description),
		ImageURL: nullable(c, "imageUrl", body.ImageURL), PriceType: named(c, "priceType", body.PriceType),
		Currency: named(c, "currency", body.Currency), Price: nullable(c, "price", body.Price),
		MinPrice: nullable(c, "minPrice", body.MinPrice), MaxPrice: nullable(c, "maxPrice", body.MaxPrice),
		AcceptedMintIDs:          named(c, "acceptedMintIds", body.AcceptedMintIDs),
		SettlementMintID:         nullable(c, "settlementMintId", body.SettlementMintID),
		MaxQuantity:              named(c, "maxQuantity", body.MaxQuantity),
		UnderpaymentToleranceBps: named(c, "underpaymentToleranceBps", body.UnderpaymentToleranceBps),
		OverpaymentPolicy:        named(c, "overpaymentPolicy", body.OverpaymentPolicy),
		LatePaymentPolicy:        named(c, "latePaymentPolicy", body.LatePaymentPolicy),
		SuccessURL:               nullable(c, "successUrl", body.SuccessURL),
		CancelURL:                nullable(c, "cancelUrl", body.CancelURL),
		OnePerReference:          named(c, "onePerReference", body.OnePerReference),
		Metadata:                 named(c, "metadata", body.Metadata),
	}
	return showProduct(a.conf.Checkouts.Patch(
		c.Context(), c.Caller.OrgID, c.PathParam("productId"), c.Caller.Actor(), ch,
	))
}

func showProduct(p checkout.Product, err error) (webhook.Product, error) {
	if err != nil {
		return webhook.Product{}, err
	}
	return wire.Product(p), nil
}

func (a *api) archiveProduct(c *call) (webhook.Product, error) {
	return showProduct(a.conf.Checkouts.Archive(
		c.Context(), c.Caller.OrgID, c.PathParam("productId"), c.Caller.Actor(),
	))
}

func (a *api) unarchiveProduct(c *call) (webhook.Product, error) {
	return showProduct(a.conf.Checkouts.Unarchive(
		c.Context(), c.Caller.OrgID, c.PathParam("productId"), c.Caller.Actor(),
	))
}

func (a *api) getProduct(c *call) (webhook.Product, error) {
	return showProduct(a.conf.Checkouts.ByID(c.Context(), c.Caller.OrgID, c.PathParam("productId")))
}

func productFilter(c *call) checkout.Filter {
	return checkout.Filter{
		Status: c.Query["status"], CreatedAfter: c.Query.TimeOrZero("createdAfter"),
		CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) listProducts(c *call) (kernel.Page[webhook.Product], error) {
	const list = "products"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[webhook.Product]{}, err
	}
	found, err := a.conf.Checkouts.List(c.Context(), c.Caller.OrgID, productFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.Product]{}, err
	}
	return kernel.NewPage(c.Request, list, found, wire.Product), nil
}

func (a *api) exportProducts(c *call) (kernel.Rows[webhook.Product], error) {
	return func(ctx context.Context, desc bool, row func(webhook.Product) error) error {
		return a.conf.Checkouts.ForEach(ctx, c.Caller.OrgID, productFilter(c), desc, func(p checkout.Product) error {
			return row(wire.Product(p))
		})
	}, nil
}
