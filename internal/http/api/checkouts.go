package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// CheckoutRequest is the body of POST /checkouts: lineItems, or productId, or name with price.
type CheckoutRequest struct {
	LineItems        []LineItemRequest `json:"lineItems,omitempty" doc:"The products that are sold, at most 50 positions of one currency. What all of them accept can be paid." bounds:"minItems=1,maxItems=50"`
	ProductID        *string           `json:"productId,omitempty" doc:"One product, instead of lineItems."`
	Quantity         *int              `json:"quantity,omitempty" doc:"How many pieces of productId; 1 if it is left out." bounds:"minimum=1,maximum=1000" example:"1"`
	UnitPrice        *string           `json:"unitPrice,omitempty" doc:"The price of one piece of productId that the payer chose. A product with an open price needs it, and no other has it." bounds:"minLength=1" example:"25.00"`
	Name             *string           `json:"name,omitempty" doc:"The name of something that is no product, for payers. It needs price." bounds:"minLength=1,maxLength=200" example:"Invoice 2026-77"`
	Price            *string           `json:"price,omitempty" doc:"The price of what name says, in the form of a product's price." bounds:"minLength=1" example:"120.00"`
	Currency         *string           `json:"currency,omitempty" doc:"The currency of price: USD, or the symbol of an accepted mint; USD if it is left out." bounds:"minLength=1,maxLength=64" example:"USD"`
	CustomerID       *string           `json:"customerId,omitempty" doc:"Your own name for the payer, in the form of a customer's id. It makes no customer, and no payer sees it." bounds:"minLength=1,maxLength=128" example:"user_42"`
	CustomerEmail    *string           `json:"customerEmail,omitempty" doc:"The payer's e-mail, for you. Nothing is sent to it." bounds:"minLength=1,maxLength=254" example:"ada@example.com"`
	Reference        *string           `json:"reference,omitempty" doc:"Your own reference, such as the number of an order." bounds:"minLength=1,maxLength=200" example:"order-77"`
	ExpiresInSeconds *int              `json:"expiresInSeconds,omitempty" doc:"For how many seconds it can be paid; 1800 if it is left out." bounds:"minimum=300,maximum=86400" example:"1800"`
	SuccessURL       *string           `json:"successUrl,omitempty" doc:"Where the payer is led after the payment; that of the first product with one if it is left out." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/thanks"`
	CancelURL        *string           `json:"cancelUrl,omitempty" doc:"Where the payer is led who gives up; that of the first product with one if it is left out." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/cart"`
	AcceptedMintIDs  []int             `json:"acceptedMintIds,omitempty" doc:"The mints in which it can be paid, in your order: some of those that the products accept. If it is left out, all of them; for something that is no product, all that take deposits." bounds:"minItems=1,maxItems=200"`
	OpenMintIDs      []int             `json:"openMintIds,omitempty" doc:"Accepted mints whose options are opened by this call. One that cannot be opened now stays without an address, and the checkout exists: POST /checkouts/{checkoutId}/options says why." bounds:"maxItems=20" example:"[1]"`
	OnePerReference  *bool             `json:"onePerReference,omitempty" doc:"Whether no other checkout of this reference can be open or paid; as the products say if it is left out. It needs reference."`
	Metadata         map[string]string `json:"metadata,omitempty" doc:"Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500." bounds:"maxProperties=20"`
	IdempotencyKey   *string           `json:"idempotencyKey,omitempty" doc:"Your name for this checkout: 1 to 255 printable ASCII characters without a space. It never expires. Without it every call makes another one." pattern:"^[!-~]{1,255}$" example:"checkout-77"`
}

// LineItemRequest is one position of a checkout.
type LineItemRequest struct {
	ProductID string  `json:"productId"`
	Quantity  *int    `json:"quantity,omitempty" doc:"How many pieces; 1 if it is left out." bounds:"minimum=1,maximum=1000" example:"1"`
	UnitPrice *string `json:"unitPrice,omitempty" doc:"The price of one piece that the payer chose. A product with an open price needs it, and no other has it." bounds:"minLength=1" example:"25.00"`
}

// OptionRequest is the body of POST /checkouts/{checkoutId}/options.
type OptionRequest struct {
	MintID int `json:"mintId" bounds:"minimum=1"`
}

// AcceptRequest is the body of POST /checkouts/{checkoutId}/accept.
type AcceptRequest struct {
	Reason string `json:"reason" doc:"Why what was paid is enough: 1 to 1,000 characters. It is kept with the checkout and in the audit log." bounds:"minLength=1,maxLength=1000" example:"The payer sent the rest in cash."`
}

var replayedCheckoutHeader = kernel.Header{
	Name: "Idempotent-Replayed",
	Text: "true when the key was known: the call made no other checkout and returns the checkout as it is now.",
}

// checkoutRoutes are the calls about checkouts. Rules CO-25 to CO-28.
func (a *api) checkoutRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/checkouts", Name: "createCheckout",
			Action: identity.ManageCheckouts, Group: "Checkouts",
			Summary: "Make a checkout",
			Text: "Makes a checkout of lineItems, of one productId, or of a name with a price. It keeps the names, " +
				"prices and terms of the moment, moves no money and sends no event. Lead the payer to url, or open " +
				"an option and show its address yourself. With an idempotencyKey the same request returns the same " +
				"checkout as it is now, and the same key with other parameters is refused with 409 " +
				"IDEMPOTENCY_CONFLICT; customerEmail and metadata are no parameters. A key never expires. Without a " +
				"key every call makes another checkout. After a 5xx or no answer, repeat with the same key: that " +
				"also opens what openMintIds names and the first call did not open.",
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Answered: kernel.AnswerKnown(a.answerKnownCheckout),
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The checkout. For a known key, the checkout as it is now.",
				Headers: []kernel.Header{replayedCheckoutHeader},
			}},
			Faults: []fault.Code{
				fault.IdempotencyKeyMismatch, fault.IdempotencyConflict, fault.InvalidAmount, fault.MintNotFound,
				fault.CodeNotFound, fault.ProductArchived, fault.ReferencePaid,
			},
			Handler: kernel.HandleBody(a.createCheckout,
				CheckoutRequest{
					LineItems: []LineItemRequest{{ProductID: resource.ExampleProduct.ProductID, Quantity: new(1)}},
					Reference: new("order-77"), OpenMintIDs: []int{1}, IdempotencyKey: new("checkout-77"),
				},
				resource.ExampleCheckout,
			),
		},
		{
			Method: http.MethodGet, Path: "/checkouts", Name: "listCheckouts",
			Action: identity.ReadOrganization, Group: "Checkouts",
			Summary: "List checkouts",
			Text: "The organization's checkouts. exception=UNDERPAID and the other exceptions list those that a " +
				"person may have to look at. The table has no options, no payments and no refund." + csvText,
			Query: kernel.ListParameters(
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.CheckoutStatuses,
					Text: "Only in this status.",
				},
				kernel.Parameter{
					Name: "exception", Kind: kernel.WordParameter, Enum: resource.CheckoutExceptions,
					Text: "Only with this exception, which may be one of several.",
				},
				kernel.Parameter{
					Name: "customerId", Kind: kernel.TextParameter, Max: 128,
					Text: "Only of this payer, compared byte for byte.",
				},
				kernel.Parameter{
					Name: "reference", Kind: kernel.TextParameter, Max: 200, Text: "Only with this reference of yours.",
				},
				kernel.Parameter{
					Name: "linkId", Kind: kernel.TextParameter, Max: 40, Text: "Only of this payment link.",
				},
			),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of checkouts."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listCheckouts, kernel.ExamplePage(resource.ExampleCheckout)),
			Table:   kernel.ExportTable("checkouts", resource.CheckoutColumns, a.exportCheckouts),
		},
		{
			Method: http.MethodGet, Path: "/checkouts/{checkoutId}", Name: "getCheckout",
			Action: identity.ReadOrganization, Group: "Checkouts",
			Summary: "Read a checkout",
			Text: "One checkout with its opened options, its payments and its newest refund. While it is OPEN, an " +
				"opened option whose rate is over, or is for another amount, gets a new one.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The checkout."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getCheckout, resource.ExampleCheckout),
		},
		{
			Method: http.MethodGet, Path: "/checkouts/{checkoutId}/receipt", Name: "getCheckoutReceipt",
			Action: identity.ReadOrganization, Group: "Checkouts",
			Summary: "Read the receipt of a checkout",
			Text: "The receipt of a completed checkout: what was sold, what was paid for it, and in which " +
				"transactions, signed with the key of webhooks. It names neither the customer nor the reference. " +
				"The payer has the same file on the page. webhook.VerifyReceipt and coffer receipt verify check it " +
				"without a call.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The signed receipt."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.CodeUnavailable},
			Handler: kernel.Handle(a.getCheckoutReceipt, ReceiptFile{
				Receipt: "eyJ0eXBlIjoiUkVDRUlQVCIs…", Signature: "mSvw…Bg==", KeyID: "4f6c0a1b2c3d4e5f",
			}),
		},
		{
			Method: http.MethodPost, Path: "/checkouts/{checkoutId}/options", Name: "openCheckoutOption",
			Action: identity.ManageCheckouts, Group: "Checkouts",
			Summary: "Open an option of a checkout",
			Text: "Issues the address of this checkout for an accepted mint and quotes the amount. The address " +
				"belongs to this checkout permanently; the EVM chains share one. An opened option keeps its address, " +
				"and its rate is renewed if it is over. A shop that shows the address itself checks addressProof " +
				"first.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The option."}},
			Faults: []fault.Code{
				fault.CodeNotFound, fault.InvalidState, fault.MintNotFound, fault.OptionUnavailable,
			},
			Handler: kernel.HandleBody(a.openCheckoutOption, OptionRequest{MintID: 1},
				resource.ExampleCheckout.PaymentOptions[0]),
		},
		{
			Method: http.MethodPost, Path: "/checkouts/{checkoutId}/cancel", Name: "cancelCheckout",
			Action: identity.ManageCheckouts, Group: "Checkouts",
			Summary: "Cancel a checkout",
			Text: "Ends an OPEN checkout for which no payment was seen. A cancelled one stays as it is. What arrives " +
				"later is credited to your product CHECKOUT and counts as late, and only a person accepts it.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The cancelled checkout."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler:   kernel.Handle(a.cancelCheckout, cancelledExample()),
		},
		{
			Method: http.MethodPost, Path: "/checkouts/{checkoutId}/accept", Name: "acceptCheckout",
			Action: identity.DecideCheckout, Group: "Checkouts",
			Summary: "Accept what was paid",
			Text: "Completes a checkout with what is credited: it is enough, in time and in the right coin by your " +
				"decision. Something has to be credited, and nothing flagged. It moves no money and sends " +
				"CHECKOUT_COMPLETED. A completed checkout stays as it is.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The completed checkout."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ReferencePaid},
			Handler: kernel.HandleBody(a.acceptCheckout, AcceptRequest{Reason: "The payer sent the rest in cash."},
				acceptedExample()),
		},
	}
}

func cancelledExample() webhook.Checkout {
	c := resource.ExampleCheckout
	c.Status, c.CancelledAt = "CANCELLED", &resource.ExampleAt
	c.PaymentOptions = slices.Clone(c.PaymentOptions)
	c.PaymentOptions[0].PaymentURI = nil
	return c
}

func acceptedExample() webhook.Checkout {
	c, _ := webhook.Sample(webhook.CheckoutCompleted)
	accepted := c.(webhook.Checkout)
	p := accepted.Payments[0]
	p.Amount, p.Value, p.USDValue = "40000000", new("40.00"), new("40.00")
	accepted.Payments = webhook.List[webhook.CheckoutPayment]{p}
	accepted.AmountPaid, accepted.AmountPaidUSD = "40.00", new("40.00")
	accepted.AcceptedBy = &webhook.Actor{Type: "API_KEY", ID: resource.ExampleOrganizationID}
	accepted.AcceptReason = new("The payer sent the rest in cash.")
	return accepted
}

// readCheckout translates the body of POST /checkouts. Error: fault INVALID_REQUEST, if it does not say in exactly one
// way what is sold.
func readCheckout(c *call, body CheckoutRequest) (checkout.CheckoutRequest, error) {
	r := checkout.CheckoutRequest{
		CustomerID: body.CustomerID, CustomerEmail: body.CustomerEmail, Reference: body.Reference,
		ExpiresIn: body.ExpiresInSeconds, SuccessURL: body.SuccessURL, CancelURL: body.CancelURL,
		AcceptedMintIDs: body.AcceptedMintIDs, OpenMintIDs: body.OpenMintIDs, OnePerReference: body.OnePerReference,
		Metadata: body.Metadata, IdempotencyKey: body.IdempotencyKey, Actor: c.Caller.Actor(),
	}
	refuse := func(param, sentence string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", sentence).WithParam(param)
	}
	const oneOf = "A checkout sells lineItems, or productId, or name with price: name exactly one of them."
	switch {
	case len(body.LineItems) > 0 && (body.ProductID != nil || body.Name != nil):
		return r, refuse("lineItems", oneOf)
	case body.ProductID != nil && body.Name != nil:
		return r, refuse("productId", oneOf)
	case len(body.LineItems) == 0 && body.ProductID == nil && body.Name == nil:
		return r, refuse("lineItems", oneOf)
	case body.ProductID == nil && body.Quantity != nil:
		return r, refuse("quantity", "quantity belongs to productId; each of lineItems has its own.")
	case body.ProductID == nil && body.UnitPrice != nil:
		return r, refuse("unitPrice", "unitPrice belongs to productId; each of lineItems has its own.")
	case body.Name == nil && body.Price != nil:
		return r, refuse("price", "price belongs to name; a product has its own price.")
	case body.Name == nil && body.Currency != nil:
		return r, refuse("currency", "currency belongs to name; a product has its own currency.")
	case body.Name != nil && body.Price == nil:
		return r, refuse("price", "What name says needs price.")
	}
	items := body.LineItems
	if body.ProductID != nil {
		items = []LineItemRequest{{ProductID: *body.ProductID, Quantity: body.Quantity, UnitPrice: body.UnitPrice}}
	}
	for _, item := range items {
		quantity := 1
		replaceGiven(&quantity, item.Quantity)
		r.Items = append(r.Items, checkout.ItemRequest{
			ProductID: item.ProductID, Quantity: quantity, UnitPrice: item.UnitPrice,
		})
	}
	if body.Name != nil {
		r.AdHoc = &checkout.AdHocItem{Name: *body.Name, Price: *body.Price}
		replaceGiven(&r.AdHoc.Currency, body.Currency)
	}
	return r, nil
}

// answerKnownCheckout looks the key of a request up, before anything else of it can refuse it. Rules CO-25, IDEM-5.
func (a *api) answerKnownCheckout(c *call) (shown webhook.Checkout, isKnown bool, err error) {
	key, err := idempotencyKey(c.Header, resource.OptionalText(c.TextMember("idempotencyKey")))
	if err != nil || key == nil {
		return shown, false, nil // createCheckout refuses two different keys
	}
	found, isKnown, err := a.conf.Checkouts.FindCheckoutByKey(c.Context(), c.Caller.OrgID, *key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body CheckoutRequest
	differs := c.DecodeBody(&body) != nil
	r, err := readCheckout(c, body)
	shown, err = a.replayCheckout(c, found, r, differs || err != nil || found.Differs(r))
	return shown, err == nil, err
}

// replayCheckout answers with a checkout that another request made. It opens what that request was to open and did not,
// for a key that may open options.
func (a *api) replayCheckout(
	c *call, found checkout.Checkout, r checkout.CheckoutRequest, differs bool,
) (webhook.Checkout, error) {
	if differs {
		return webhook.Checkout{}, newKeyConflict("checkout", found.ID)
	}
	c.AnswerHeader.Set("Idempotent-Replayed", "true")
	if c.Caller.IsAllowed(identity.ManageCheckouts) {
		found = a.conf.Checkouts.OpenNamed(c.Context(), found, r.OpenMintIDs)
	}
	return wire.Checkout(found), nil
}

func (a *api) createCheckout(c *call, body CheckoutRequest) (webhook.Checkout, error) {
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.Checkout{}, err
	}
	body.IdempotencyKey = key
	r, err := readCheckout(c, body)
	if err != nil {
		return webhook.Checkout{}, err
	}
	made, isReplayed, err := a.conf.Checkouts.CreateCheckout(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.Checkout{}, err
	}
	if isReplayed {
		return a.replayCheckout(c, made, r, made.Differs(r))
	}
	return wire.Checkout(a.conf.Checkouts.OpenNamed(c.Context(), made, r.OpenMintIDs)), nil
}

func showCheckout(c checkout.Checkout, err error) (webhook.Checkout, error) {
	if err != nil {
		return webhook.Checkout{}, err
	}
	return wire.Checkout(c), nil
}

// ReceiptFile is a signed receipt.
type ReceiptFile struct {
	Receipt   string `json:"receipt" doc:"The signed text, in base64url: JSON."`
	Signature string `json:"signature" doc:"The ed25519 signature over it, in base64url."`
	KeyID     string `json:"keyId" doc:"A short name of the key that signed it."`
}

func (a *api) getCheckoutReceipt(c *call) (file ReceiptFile, err error) {
	r, err := a.conf.Checkouts.ReceiptByID(c.Context(), c.Caller.OrgID, c.PathParam("checkoutId"))
	if err != nil {
		return file, err
	}
	if !a.conf.Receipts.CanSign() {
		return file, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.ReadOnly,
			"This process has no private key of webhooks and signs no receipt.").
			WithAdvice("Ask the operator to serve this call from a process that has it.")
	}
	signed, err := a.conf.Receipts.Receipt(wire.Receipt(r, a.conf.Environment, a.conf.DB.Clock()()))
	if err == nil {
		err = json.Unmarshal(signed, &file)
	}
	if err != nil {
		return ReceiptFile{}, fmt.Errorf("sign the receipt of checkout %s: %w", r.Checkout.ID, err)
	}
	return file, nil
}

func (a *api) getCheckout(c *call) (webhook.Checkout, error) {
	found, err := a.conf.Checkouts.CheckoutByID(c.Context(), c.Caller.OrgID, c.PathParam("checkoutId"))
	if err != nil {
		return webhook.Checkout{}, err
	}
	return showCheckout(a.conf.Checkouts.Refresh(c.Context(), found))
}

func (a *api) openCheckoutOption(c *call, body OptionRequest) (webhook.PaymentOption, error) {
	opened, err := a.conf.Checkouts.OpenOption(c.Context(), c.Caller.OrgID, c.PathParam("checkoutId"), body.MintID)
	if err != nil {
		return webhook.PaymentOption{}, err
	}
	return wire.PaymentOption(opened, body.MintID), nil
}

func (a *api) cancelCheckout(c *call) (webhook.Checkout, error) {
	return showCheckout(a.conf.Checkouts.CancelCheckout(
		c.Context(), c.Caller.OrgID, c.PathParam("checkoutId"), c.Caller.Actor(),
	))
}

func (a *api) acceptCheckout(c *call, body AcceptRequest) (webhook.Checkout, error) {
	return showCheckout(a.conf.Checkouts.AcceptCheckout(
		c.Context(), c.Caller.OrgID, c.PathParam("checkoutId"), body.Reason, c.Caller.Actor(),
	))
}

func checkoutFilter(c *call) checkout.CheckoutFilter {
	return checkout.CheckoutFilter{
		Status: c.Query["status"], Exception: c.Query["exception"], CustomerID: c.Query["customerId"],
		Reference: c.Query["reference"], LinkID: c.Query["linkId"], CreatedAfter: c.Query.TimeOrZero("createdAfter"),
		CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) listCheckouts(c *call) (kernel.Page[webhook.Checkout], error) {
	const list = "checkouts"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[webhook.Checkout]{}, err
	}
	found, err := a.conf.Checkouts.ListCheckouts(c.Context(), c.Caller.OrgID, checkoutFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.Checkout]{}, err
	}
	return kernel.NewPage(c.Request, list, found, wire.Checkout), nil
}

func (a *api) exportCheckouts(c *call) (kernel.Rows[webhook.Checkout], error) {
	return func(ctx context.Context, desc bool, row func(webhook.Checkout) error) error {
		return a.conf.Checkouts.ForEachCheckout(ctx, c.Caller.OrgID, checkoutFilter(c), desc,
			func(found checkout.Checkout) error { return row(wire.Checkout(found)) })
	}, nil
}
