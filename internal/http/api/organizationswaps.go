package api

import (
	"context"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// OrganizationSwapQuoteRequest is the body of POST /organization-swap/quote.
type OrganizationSwapQuoteRequest struct {
	Product     *string `json:"product,omitempty" doc:"The product whose balance would pay. The balance is not looked at."`
	FromMintID  int     `json:"fromMintId" doc:"The mint that the product gives." bounds:"minimum=1" example:"7"`
	ToMintID    int     `json:"toMintId" doc:"The mint that the whitelisted address receives." bounds:"minimum=1" example:"1"`
	AmountIn    string  `json:"amountIn" doc:"The amount to swap, in atomic units of the source mint." bounds:"minLength=1" example:"1000000000"`
	SlippageBps *int    `json:"slippageBps,omitempty"`
}

// OrganizationSwapRequest is the body of POST /organization-swap. Its key is in the body alone. Rule SWAP-61.
type OrganizationSwapRequest struct {
	IdempotencyKey       string  `json:"idempotencyKey" doc:"Your name for this swap: 1 to 255 printable ASCII characters without a space, one for each swap that you intend and not for each attempt. It never expires. The header Idempotency-Key is not read." pattern:"^[!-~]{1,255}$" example:"rebalance-12"`
	Product              *string `json:"product,omitempty" doc:"The product whose balance pays. CUSTODIAL if it is left out."`
	FromMintID           int     `json:"fromMintId" doc:"The mint that the product gives." bounds:"minimum=1" example:"7"`
	ToMintID             int     `json:"toMintId" doc:"The mint that the whitelisted address receives." bounds:"minimum=1" example:"1"`
	AmountIn             string  `json:"amountIn" doc:"The amount that the product gives, in atomic units of the source mint. ASCII digits without sign, exponent and leading zero." bounds:"minLength=1" example:"1000000000"`
	WhitelistedAddressID string  `json:"whitelistedAddressId" doc:"The entry of your whitelist that the output is paid to, on the chain of toMintId. GET /whitelisted-addresses lists them." bounds:"minLength=1,maxLength=64" example:"wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	MinAmountOut         *string `json:"minAmountOut,omitempty" doc:"The least amount that you accept, in atomic units of the destination mint. If no provider offers at least this much, the request is refused with 422 QUOTE_REJECTED." bounds:"minLength=1" example:"147000000"`
	SlippageBps          *int    `json:"slippageBps,omitempty"`
}

// WhitelistedAddress is an address to which the organization's own money may be paid out.
type WhitelistedAddress struct {
	WhitelistedAddressID string       `json:"whitelistedAddressId" doc:"The entry." example:"wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Chain                string       `json:"chain" doc:"The chain of the address."`
	Address              string       `json:"address"`
	Label                string       `json:"label" doc:"The owner of the address, for people." example:"Treasury account at the exchange"`
	Status               string       `json:"status" doc:"WAITING: the signer has not endorsed it yet. COOLING_OFF: not usable before usableFrom. USABLE. REFUSED: the signer refuses it; ask the operator of this service. REMOVED."`
	UsableFrom           webhook.Time `json:"usableFrom" doc:"From when it is usable."`
	CreatedAt            webhook.Time `json:"createdAt" doc:"When the operator added it."`
}

func (a *api) organizationSwapRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/organization-swap/quote", Name: "quoteOrganizationSwap",
			Action: identity.QuoteSwap, Group: "Organization swaps",
			Summary: "Ask what a swap of your own money would bring",
			Text: "Asks the swap providers and returns the best offer. It stores nothing and holds nothing: send " +
				"minAmountOut with POST /organization-swap to be safe from a worse offer. No balance is looked at.",
			CountsAsQuote: true,
			Retryable:     true,
			BeforeRead:    kernel.Check(a.checkOrganizationSwapsEnabled),
			Answers:       []kernel.Success{{Status: http.StatusOK, Text: "The quote."}},
			Faults: []fault.Code{
				fault.OrgSwapsDisabled, fault.OrganizationFrozen, fault.MintNotFound, fault.InvalidPair,
				fault.InvalidAmount, fault.WithdrawalsSuspended, fault.QuoteRejected, fault.ProviderError,
				fault.ProviderTimeout,
			},
			Handler: kernel.HandleBody(a.quoteOrganizationSwap,
				OrganizationSwapQuoteRequest{
					Product: new("CUSTODIAL"), FromMintID: 7, ToMintID: 1, AmountIn: "1000000000",
					SlippageBps: new(100),
				},
				exampleOrganizationQuote,
			),
		},
		{
			Method: http.MethodPost, Path: "/organization-swap", Name: "createOrganizationSwap",
			Action: identity.RequestSwap, Group: "Organization swaps",
			Summary: "Swap your own money and pay it out",
			Text: "Holds the amount of the product, swaps it through the provider with the best offer, and pays " +
				"what arrived to the whitelisted address, as a withdrawal of your organization. Above the threshold " +
				"of your organization the swap is AWAITING_APPROVAL until people approve it on the pages: their " +
				"approvals cover the withdrawal, too, within the terms of the swap and until payoutUntil. " +
				"ORGANIZATION_SWAP_COMPLETED or ORGANIZATION_SWAP_FAILED announces the end to endpoints that name " +
				"it. What comes back of a failed swap is in the product's balance again at once. A known key " +
				"returns its swap as it is now, also while these swaps are switched off; with other parameters it " +
				"is refused with 409 IDEMPOTENCY_CONFLICT. Every other 4xx means that there is no swap with this " +
				"key; 401, 403 IP_NOT_ALLOWED and SCOPE_MISSING, and 429 say nothing about earlier attempts. After " +
				"a 5xx or no answer, repeat with the same key.",
			Answered:   kernel.AnswerKnown(a.answerKnownOrganizationSwap),
			BeforeRead: kernel.Check(a.checkOrganizationSwapsEnabled),
			Answers: []kernel.Success{{
				Status: http.StatusAccepted, Text: "The swap. For a known key, the swap as it is now.",
				Headers: []kernel.Header{replayedSwapHeader},
			}},
			Faults: []fault.Code{
				fault.OrgSwapsDisabled, fault.OrganizationFrozen, fault.MintNotFound, fault.InvalidPair,
				fault.InvalidAmount, fault.IdempotencyConflict, fault.InsufficientBalance,
				fault.AddressNotWhitelisted, fault.WithdrawalsSuspended, fault.QuoteRejected, fault.ProviderError,
				fault.ProviderTimeout,
			},
			Handler: kernel.HandleBody(a.createOrganizationSwap,
				OrganizationSwapRequest{
					IdempotencyKey: "rebalance-12", Product: new("CUSTODIAL"), FromMintID: 7, ToMintID: 1,
					AmountIn: "1000000000", WhitelistedAddressID: resource.ExampleWhitelistedID,
					MinAmountOut: new("147000000"),
				},
				resource.ExampleOrganizationSwap,
			),
		},
		{
			Method: http.MethodGet, Path: "/organization-swap/{swapId}", Name: "getOrganizationSwap",
			Action: identity.ReadOrganization, Group: "Organization swaps",
			Summary: "Read a swap of your own money",
			Text: "One organization swap. The call works while these swaps are switched off, and can be polled " +
				"instead of webhooks.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The swap."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getOrganizationSwap, resource.ExampleOrganizationSwap),
		},
		{
			Method: http.MethodGet, Path: "/organization-swaps", Name: "listOrganizationSwaps",
			Action: identity.ReadOrganization, Group: "Organization swaps",
			Summary: "List swaps of your own money",
			Text:    "The organization's own swaps. idempotencyKey selects the swap with this key." + csvText,
			Query: kernel.ListParameters(
				kernel.Parameter{
					Name: "product", Kind: kernel.WordParameter, Enum: transfer.Products,
					Text: "Only of this product.",
				},
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.OrganizationSwapStatuses,
					Text: "Only in this status.",
				},
				kernel.Parameter{
					Name: "idempotencyKey", Kind: kernel.TextParameter, Max: 255,
					Text: "Only the one with this key.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of swaps."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listOrganizationSwaps, kernel.ExamplePage(resource.ExampleOrganizationSwap)),
			Table: kernel.ExportTable("organization-swaps", resource.OrganizationSwapColumns,
				a.exportOrganizationSwaps),
		},
		{
			Method: http.MethodGet, Path: "/whitelisted-addresses", Name: "listWhitelistedAddresses",
			Action: identity.ReadOrganization, Group: "Organization swaps",
			Summary: "List your whitelist",
			Text: "The addresses to which your organization's own money may be paid, including removed ones. Only " +
				"the operator of this service adds and removes them.",
			Query:   []kernel.Parameter{kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of addresses."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listWhitelisted, kernel.ExamplePage(exampleWhitelisted)),
		},
	}
}

// checkOrganizationSwapsEnabled refuses a quote or a new swap before anything of the request is read.
// Rule SWAP-32.
func (a *api) checkOrganizationSwapsEnabled(c *call) error {
	return a.conf.Swaps.CheckOrganizationEnabled(c.Context(), c.Caller.OrgID)
}

// answerKnownOrganizationSwap looks the key of a request up, before anything else of it can refuse it.
// Rule SWAP-31.
func (a *api) answerKnownOrganizationSwap(c *call) (shown webhook.OrganizationSwap, isKnown bool, err error) {
	key := c.TextMember("idempotencyKey")
	w, isKnown, err := a.conf.Swaps.FindOrganizationByKey(c.Context(), c.Caller.OrgID, key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body OrganizationSwapRequest
	differs := c.DecodeBody(&body) != nil
	if !differs {
		differs = w.DiffersOrganization(readOrganizationSwap(c, body))
	}
	shown, err = replayOrganizationSwap(c, w, differs)
	return shown, err == nil, err
}

// replayOrganizationSwap answers with a swap that another request made.
func replayOrganizationSwap(c *call, w swap.Swap, differs bool) (webhook.OrganizationSwap, error) {
	trace.LinkTo(c.Context(), w.ID)
	if differs {
		return webhook.OrganizationSwap{}, newKeyConflict("swap", w.ID)
	}
	c.AnswerHeader.Set("Idempotent-Replayed", "true")
	return wire.OrganizationSwap(w), nil
}

// readOrganizationSwap translates the body of an organization's swap.
func readOrganizationSwap(c *call, body OrganizationSwapRequest) swap.OrganizationRequest {
	r := swap.OrganizationRequest{
		IdempotencyKey: body.IdempotencyKey, FromMintID: body.FromMintID, ToMintID: body.ToMintID,
		AmountIn: body.AmountIn, MinAmountOut: body.MinAmountOut, SlippageBps: body.SlippageBps,
		WhitelistedAddressID: body.WhitelistedAddressID, Actor: c.Caller.Actor(),
	}
	if body.Product != nil {
		r.Product = *body.Product
	}
	return r
}

// createOrganizationSwap makes a swap for a program. Rules SWAP-33, SWAP-34 and OW-1.
func (a *api) createOrganizationSwap(c *call, body OrganizationSwapRequest) (webhook.OrganizationSwap, error) {
	if body.Product != nil && *body.Product == "" { // it would count as left out
		return webhook.OrganizationSwap{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"The product is empty.").
			WithAdvice("Name the product whose balance pays, or leave it out for CUSTODIAL.").WithParam("product")
	}
	r := readOrganizationSwap(c, body)
	w, isReplayed, err := a.conf.Swaps.RequestOrganization(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.OrganizationSwap{}, err
	}
	if isReplayed {
		return replayOrganizationSwap(c, w, w.DiffersOrganization(r))
	}
	trace.LinkTo(c.Context(), w.ID)
	return wire.OrganizationSwap(w), nil
}

func (a *api) quoteOrganizationSwap(c *call, body OrganizationSwapQuoteRequest) (SwapQuote, error) {
	r := swap.OrganizationQuoteRequest{
		FromMintID: body.FromMintID, ToMintID: body.ToMintID, AmountIn: body.AmountIn, SlippageBps: body.SlippageBps,
	}
	if body.Product != nil {
		r.Product = *body.Product
	}
	q, err := a.conf.Swaps.QuoteOrganization(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return SwapQuote{}, err
	}
	return showSwapQuote(q), nil
}

func (a *api) getOrganizationSwap(c *call) (webhook.OrganizationSwap, error) {
	w, err := a.conf.Swaps.OrganizationByID(c.Context(), c.Caller.OrgID, c.PathParam("swapId"))
	if err != nil {
		return webhook.OrganizationSwap{}, err
	}
	return wire.OrganizationSwap(w), nil
}

func organizationSwapFilter(c *call) swap.OrganizationFilter {
	return swap.OrganizationFilter{
		Product: c.Query["product"], Status: c.Query["status"], IdempotencyKey: c.Query["idempotencyKey"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) listOrganizationSwaps(c *call) (kernel.Page[webhook.OrganizationSwap], error) {
	const list = "organization-swaps"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[webhook.OrganizationSwap]{}, err
	}
	found, err := a.conf.Swaps.ListOrganization(c.Context(), c.Caller.OrgID, organizationSwapFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.OrganizationSwap]{}, err
	}
	return kernel.NewPage(c.Request, list, found, wire.OrganizationSwap), nil
}

func (a *api) exportOrganizationSwaps(c *call) (kernel.Rows[webhook.OrganizationSwap], error) {
	return func(ctx context.Context, desc bool, row func(webhook.OrganizationSwap) error) error {
		return a.conf.Swaps.ForEachOrganization(ctx, c.Caller.OrgID, organizationSwapFilter(c), desc,
			func(w swap.Swap) error { return row(wire.OrganizationSwap(w)) })
	}, nil
}

func showWhitelisted(e whitelist.Entry, current time.Time) WhitelistedAddress {
	return WhitelistedAddress{
		WhitelistedAddressID: e.ID, Chain: string(e.Chain), Address: string(e.Address), Label: e.Label,
		Status: string(e.Status(current)), UsableFrom: webhook.At(e.UsableFrom), CreatedAt: webhook.At(e.CreatedAt),
	}
}

// listWhitelisted shows an organization its own whitelist. Rule SWAP-39.
func (a *api) listWhitelisted(c *call) (kernel.Page[WhitelistedAddress], error) {
	const list = "whitelisted-addresses"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[WhitelistedAddress]{}, err
	}
	var found pagination.Result[whitelist.Entry]
	var current time.Time
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		current = tx.Now
		found, err = a.conf.Whitelist.List(ctx, tx, c.Caller.OrgID, p)
		return err
	})
	if err != nil {
		return kernel.Page[WhitelistedAddress]{}, err
	}
	return kernel.NewPage(c.Request, list, found,
		func(e whitelist.Entry) WhitelistedAddress { return showWhitelisted(e, current) }), nil
}

var (
	exampleOrganizationQuote = func() SwapQuote {
		q := exampleSwapQuote
		q.FeeAmount, q.FeeBps = "0", 0
		return q
	}()
	exampleWhitelisted = WhitelistedAddress{
		WhitelistedAddressID: resource.ExampleWhitelistedID, Chain: "ETHEREUM", Address: resource.ExampleHolder,
		Label: "Treasury account at the exchange", Status: string(whitelist.StatusUsable),
		UsableFrom: resource.ExampleAt, CreatedAt: resource.ExampleAt,
	}
)
