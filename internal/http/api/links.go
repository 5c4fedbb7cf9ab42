package api

import (
	"context"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// LinkRequest is the body of POST /payment-links.
type LinkRequest struct {
	LineItems      []LinkItemRequest `json:"lineItems" doc:"What it sells: up to 20 products of one currency that accept a mint in common, each once." bounds:"minItems=1,maxItems=20"`
	Slug           *string           `json:"slug,omitempty" doc:"The end of the address: 4 to 40 of a-z, 0-9 and the hyphen, which is neither first nor last. It is unique in the installation. Left out: 22 random letters and digits." pattern:"^[a-z0-9][a-z0-9-]{2,38}[a-z0-9]$" example:"gold-2026"`
	MaxCompleted   *int              `json:"maxCompleted,omitempty" doc:"After so many sales it sells nothing more; left out: no limit." bounds:"minimum=1,maximum=1000000" example:"100"`
	ExpiresAt      *string           `json:"expiresAt,omitempty" doc:"From when on it sells nothing: a time in the future; left out: never." format:"date-time" example:"2036-01-31T12:00:00.000Z"`
	AfterText      *string           `json:"afterText,omitempty" doc:"What a payer reads on the page of a completed checkout: up to 1,000 characters, with line breaks." bounds:"minLength=1,maxLength=1000" example:"Your ticket comes by mail."`
	SuccessURL     *string           `json:"successUrl,omitempty" doc:"Where the payer is led after the payment: https, in ASCII, without a user name. Left out: where the products lead." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/thanks"`
	IdempotencyKey *string           `json:"idempotencyKey,omitempty" doc:"Your name for this payment link: 1 to 255 printable ASCII characters without a space. It never expires. Without it every call makes another one." pattern:"^[!-~]{1,255}$" example:"link-gold"`
}

// LinkItemRequest is one product of a payment link.
type LinkItemRequest struct {
	ProductID   string `json:"productId"`
	Quantity    *int   `json:"quantity,omitempty" doc:"How many pieces one checkout has; left out: the payer chooses." bounds:"minimum=1,maximum=1000" example:"1"`
	QuantityMin *int   `json:"quantityMin,omitempty" doc:"The least quantity that the payer can choose; 1 if it is left out." bounds:"minimum=1,maximum=1000"`
	QuantityMax *int   `json:"quantityMax,omitempty" doc:"The greatest quantity that the payer can choose; that of the product if it is left out." bounds:"minimum=1,maximum=1000"`
}

// LinkChange is the body of PATCH /payment-links/{linkId}. null removes what a payment link need not have.
type LinkChange struct {
	MaxCompleted *int    `json:"maxCompleted,omitempty" doc:"The new limit of sales; null for none." bounds:"minimum=1,maximum=1000000" example:"200"`
	ExpiresAt    *string `json:"expiresAt,omitempty" doc:"The new end, in the future; null for none." format:"date-time" example:"2036-01-31T12:00:00.000Z"`
	AfterText    *string `json:"afterText,omitempty" doc:"The new text after the payment; null for none." bounds:"minLength=1,maxLength=1000" example:"Your ticket comes by mail."`
	SuccessURL   *string `json:"successUrl,omitempty" doc:"Where the payer is led after the payment; null for where the products lead." bounds:"minLength=1,maxLength=2048" example:"https://shop.example.com/thanks"`
}

var replayedLinkHeader = kernel.Header{
	Name: "Idempotent-Replayed",
	Text: "true when the key was known: the call did nothing and returns the payment link as it is now.",
}

// linkRoutes are the calls about payment links. Rules CO-60, CO-65 and CO-66.
func (a *api) linkRoutes() []kernel.Route {
	faults := []fault.Code{fault.CodeNotFound, fault.InvalidState}
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/payment-links", Name: "createPaymentLink",
			Action: identity.ManageProducts, Group: "Payment links",
			Summary: "Make a payment link",
			Text: "Makes a public page that sells products: everyone who has its address buys there, and each " +
				"purchase is a checkout with linkId. Its poster is at url followed by /poster.svg. It makes no " +
				"checkout by itself, moves no money and sends no event. With an idempotencyKey the same request " +
				"returns the same payment link as it is now, and the same key with other parameters is refused " +
				"with 409 IDEMPOTENCY_CONFLICT. A key never expires. Without a key every call makes another one. " +
				"After a 5xx or no answer, repeat with the same key.",
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Answered: kernel.AnswerKnown(a.answerKnownLink),
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The payment link. For a known key, the payment link as it is now.",
				Headers: []kernel.Header{replayedLinkHeader},
			}},
			Faults: []fault.Code{
				fault.IdempotencyKeyMismatch, fault.IdempotencyConflict, fault.InvalidAmount, fault.CodeNotFound,
				fault.ProductArchived,
			},
			Handler: kernel.HandleBody(a.createLink,
				LinkRequest{
					LineItems: []LinkItemRequest{{ProductID: resource.ExampleProduct.ProductID, QuantityMax: new(5)}},
					Slug:      new("gold-2026"), MaxCompleted: new(100), IdempotencyKey: new("link-gold"),
				},
				resource.ExampleLink,
			),
		},
		{
			Method: http.MethodGet, Path: "/payment-links", Name: "listPaymentLinks",
			Action: identity.ReadOrganization, Group: "Payment links",
			Summary: "List payment links",
			Text:    "The organization's payment links, ended ones included." + csvText,
			Query: kernel.ListParameters(kernel.Parameter{
				Name: "status", Kind: kernel.WordParameter, Enum: resource.LinkStatuses, Text: "Only in this status.",
			}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of payment links."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listLinks, kernel.ExamplePage(resource.ExampleLink)),
			Table:   kernel.ExportTable("payment-links", resource.LinkColumns, a.exportLinks),
		},
		{
			Method: http.MethodGet, Path: "/payment-links/{linkId}", Name: "getPaymentLink",
			Action: identity.ReadOrganization, Group: "Payment links",
			Summary: "Read a payment link", Text: "One payment link, with the number of its sales.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The payment link."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getLink, resource.ExampleLink),
		},
		{
			Method: http.MethodPatch, Path: "/payment-links/{linkId}", Name: "updatePaymentLink",
			Action: identity.ManageProducts, Group: "Payment links",
			Summary: "Change a payment link",
			Text: "Replaces the fields that the body names, unless the payment link is ended. null removes them. Its " +
				"address and what it sells never change. Checkouts that exist keep their terms.",
			Before:  kernel.Check(refuseLinkStatus),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The payment link."}},
			Faults:  append([]fault.Code{fault.StatusNotPatchable}, faults...),
			Handler: kernel.HandleBody(a.updateLink, LinkChange{MaxCompleted: new(200)}, resource.ExampleLink),
		},
		{
			Method: http.MethodPost, Path: "/payment-links/{linkId}/pause", Name: "pausePaymentLink",
			Action: identity.ManageProducts, Group: "Payment links",
			Summary: "Pause a payment link",
			Text: "It sells nothing until it is resumed. A paused one stays as it is. Checkouts that exist are not " +
				"affected.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The paused payment link."}},
			Faults:    faults, Handler: kernel.Handle(a.pauseLink, linkExample(checkout.LinkPaused)),
		},
		{
			Method: http.MethodPost, Path: "/payment-links/{linkId}/resume", Name: "resumePaymentLink",
			Action: identity.ManageProducts, Group: "Payment links",
			Summary:   "Resume a payment link",
			Text:      "It sells again. An active one stays as it is.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The active payment link."}},
			Faults:    faults, Handler: kernel.Handle(a.resumeLink, resource.ExampleLink),
		},
		{
			Method: http.MethodPost, Path: "/payment-links/{linkId}/end", Name: "endPaymentLink",
			Action: identity.ManageProducts, Group: "Payment links",
			Summary: "End a payment link",
			Text: "It sells nothing, for good: no call makes it active again, and no other payment link gets its " +
				"address. An ended one stays as it is. Checkouts that exist are not affected.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The ended payment link."}},
			Faults:    []fault.Code{fault.CodeNotFound},
			Handler:   kernel.Handle(a.endLink, linkExample(checkout.LinkEnded)),
		},
	}
}

func linkExample(status checkout.LinkStatus) webhook.PaymentLink {
	l := resource.ExampleLink
	if l.Status = string(status); status == checkout.LinkEnded {
		l.EndedAt = &resource.ExampleAt
	}
	return l
}

// readTimeOrNil reads a time that a body may leave out. Error: fault INVALID_REQUEST.
func readTimeOrNil(param string, text *string) (*time.Time, error) {
	if text == nil {
		return nil, nil
	}
	t, err := readTime(param, *text)
	if err != nil {
		return nil, err
	}
	return new(webhook.At(t).Time), nil
}

// readLink translates the body of POST /payment-links. Error: fault INVALID_REQUEST.
func readLink(c *call, body LinkRequest) (r checkout.LinkRequest, err error) {
	r = checkout.LinkRequest{
		Slug: body.Slug, MaxCompleted: body.MaxCompleted, AfterText: body.AfterText, SuccessURL: body.SuccessURL,
		IdempotencyKey: body.IdempotencyKey, Actor: c.Caller.Actor(),
	}
	for _, item := range body.LineItems {
		r.Items = append(r.Items, checkout.LinkItem(item))
	}
	r.ExpiresAt, err = readTimeOrNil("expiresAt", body.ExpiresAt)
	return r, err
}

// answerKnownLink looks the key of a request up, before anything else of it can refuse it. Rules CO-60, IDEM-5.
func (a *api) answerKnownLink(c *call) (shown webhook.PaymentLink, isKnown bool, err error) {
	key, err := idempotencyKey(c.Header, resource.OptionalText(c.TextMember("idempotencyKey")))
	if err != nil || key == nil {
		return shown, false, nil // createLink refuses two different keys
	}
	l, isKnown, err := a.conf.Checkouts.FindLinkByKey(c.Context(), c.Caller.OrgID, *key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body LinkRequest
	differs := c.DecodeBody(&body) != nil
	r, err := readLink(c, body)
	shown, err = replayLink(c, l, differs || err != nil || l.Differs(r))
	return shown, err == nil, err
}

// replayLink answers with a payment link that another request made.
func replayLink(c *call, l checkout.Link, differs bool) (webhook.PaymentLink, error) {
	if differs {
		return webhook.PaymentLink{}, newKeyConflict("payment link", l.ID)
	}
	c.AnswerHeader.Set("Idempotent-Replayed", "true")
	return wire.PaymentLink(l), nil
}

func (a *api) createLink(c *call, body LinkRequest) (webhook.PaymentLink, error) {
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.PaymentLink{}, err
	}
	body.IdempotencyKey = key
	r, err := readLink(c, body)
	if err != nil {
		return webhook.PaymentLink{}, err
	}
	l, isReplayed, err := a.conf.Checkouts.CreateLink(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.PaymentLink{}, err
	}
	if isReplayed {
		return replayLink(c, l, l.Differs(r))
	}
	return wire.PaymentLink(l), nil
}

// refuseLinkStatus refuses a change that names the status, before it would be an unknown field. Rule CO-65.
func refuseLinkStatus(c *call) error {
	if !c.HasMember("status") {
		return nil
	}
	return fault.New(fault.Invalid, fault.StatusNotPatchable, fault.NothingWritten,
		"A change leaves the status of a payment link as it is.").
		WithAdvice("Pause, resume or end it with the call for it.").WithParam("status")
}

func (a *api) updateLink(c *call, body LinkChange) (webhook.PaymentLink, error) {
	expiresAt, err := readTimeOrNil("expiresAt", body.ExpiresAt)
	if err != nil {
		return webhook.PaymentLink{}, err
	}
	ch := checkout.LinkChange{
		MaxCompleted: nullable(c, "maxCompleted", body.MaxCompleted), ExpiresAt: nullable(c, "expiresAt", expiresAt),
		AfterText: nullable(c, "afterText", body.AfterText), SuccessURL: nullable(c, "successUrl", body.SuccessURL),
	}
	return showLink(a.conf.Checkouts.PatchLink(
		c.Context(), c.Caller.OrgID, c.PathParam("linkId"), c.Caller.Actor(), ch,
	))
}

func showLink(l checkout.Link, err error) (webhook.PaymentLink, error) {
	if err != nil {
		return webhook.PaymentLink{}, err
	}
	return wire.PaymentLink(l), nil
}

func (a *api) pauseLink(c *call) (webhook.PaymentLink, error) {
	return showLink(a.conf.Checkouts.PauseLink(c.Context(), c.Caller.OrgID, c.PathParam("linkId"), c.Caller.Actor()))
}

func (a *api) resumeLink(c *call) (webhook.PaymentLink, error) {
	return showLink(a.conf.Checkouts.ResumeLink(c.Context(), c.Caller.OrgID, c.PathParam("linkId"), c.Caller.Actor()))
}

func (a *api) endLink(c *call) (webhook.PaymentLink, error) {
	return showLink(a.conf.Checkouts.EndLink(c.Context(), c.Caller.OrgID, c.PathParam("linkId"), c.Caller.Actor()))
}

func (a *api) getLink(c *call) (webhook.PaymentLink, error) {
	return showLink(a.conf.Checkouts.LinkByID(c.Context(), c.Caller.OrgID, c.PathParam("linkId")))
}

func linkFilter(c *call) checkout.LinkFilter {
	return checkout.LinkFilter{
		Status: c.Query["status"], CreatedAfter: c.Query.TimeOrZero("createdAfter"),
		CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) listLinks(c *call) (kernel.Page[webhook.PaymentLink], error) {
	const list = "payment-links"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[webhook.PaymentLink]{}, err
	}
	found, err := a.conf.Checkouts.ListLinks(c.Context(), c.Caller.OrgID, linkFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.PaymentLink]{}, err
	}
	return kernel.NewPage(c.Request, list, found, wire.PaymentLink), nil
}

func (a *api) exportLinks(c *call) (kernel.Rows[webhook.PaymentLink], error) {
	return func(ctx context.Context, desc bool, row func(webhook.PaymentLink) error) error {
		return a.conf.Checkouts.ForEachLink(ctx, c.Caller.OrgID, linkFilter(c), desc, func(l checkout.Link) error {
			return row(wire.PaymentLink(l))
		})
	}, nil
}
