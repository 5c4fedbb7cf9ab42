package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// SwapRequest is the body of POST /customer-swap. Its key is in the body alone. Rule SWAP-61.
type SwapRequest struct {
	IdempotencyKey string             `json:"idempotencyKey" doc:"Your name for this swap: 1 to 255 printable ASCII characters without a space, one for each swap that you intend and not for each attempt. It never expires. The header Idempotency-Key is not read." pattern:"^[!-~]{1,255}$" example:"swap-7781"`
	CustomerID     string             `json:"customerId"`
	FromMintID     int                `json:"fromMintId"`
	ToMintID       int                `json:"toMintId"`
	AmountIn       string             `json:"amountIn" doc:"The amount that the customer gives, in atomic units of the source mint. ASCII digits without sign, exponent and leading zero." bounds:"minLength=1" example:"1000000000"`
	CustomerEmail  *string            `json:"customerEmail,omitempty" doc:"The customer's e-mail, for a customer who does not exist yet. Such a customer has no balance to swap, so it never changes anything." bounds:"maxLength=254" example:"a@example.com"`
	MinAmountOut   *string            `json:"minAmountOut,omitempty" doc:"The least amount that you accept, in atomic units of the destination mint. If no provider offers at least this much, the request is refused with 422 QUOTE_REJECTED." bounds:"minLength=1" example:"147000000"`
	SlippageBps    *int               `json:"slippageBps,omitempty"`
	Metadata       *map[string]string `json:"metadata,omitempty" bounds:"maxProperties=20"`
}

// SwapQuoteRequest is the body of POST /customer-swap/quote.
type SwapQuoteRequest struct {
	CustomerID  *string `json:"customerId,omitempty" doc:"Your own id of the customer. The balance of the customer is not looked at." bounds:"minLength=1,maxLength=128" example:"user_42"`
	FromMintID  int     `json:"fromMintId"`
	ToMintID    int     `json:"toMintId"`
	AmountIn    string  `json:"amountIn" doc:"The amount to swap, in atomic units of the source mint." bounds:"minLength=1" example:"1000000000"`
	SlippageBps *int    `json:"slippageBps,omitempty"`
}

// SwapQuote is what a swap would bring.
type SwapQuote struct {
	EstimatedAmountOut   string       `json:"estimatedAmountOut" doc:"What would be received, in atomic units of the destination mint: the offer of the provider less its fees and the cost of the delivery." form:"amount"`
	MinAmountOut         string       `json:"minAmountOut" doc:"The least amount that the offer allows the provider to deliver, in atomic units of the destination mint." form:"amount"`
	EstimatedTimeSeconds *int         `json:"estimatedTimeSeconds"`
	FeeAmount            string       `json:"feeAmount"`
	FeeBps               int          `json:"feeBps"`
	USDValue             *string      `json:"usdValue" doc:"The value of amountIn in dollars, for display; null when there is no recent price." pattern:"^[0-9]+\\.[0-9]{2}$" example:"149.80"`
	QuotedAt             webhook.Time `json:"quotedAt" doc:"When the provider was asked."`
	Provider             string       `json:"provider" doc:"The swap provider with the best offer. Providers may be added without notice." example:"ONE_CLICK"`
	Rate                 string       `json:"rate" doc:"Whole tokens of the destination mint for one whole token of the source mint, by estimatedAmountOut." form:"decimal" example:"149.25"`
	PriceImpactBps       *int         `json:"priceImpactBps" doc:"How much estimatedAmountOut is below the price of other sources, in basis points; null when there is no such price." example:"37"`
}

var (
	replayedSwapHeader = kernel.Header{
		Name: "Idempotent-Replayed",
		Text: "true when the key was known: the call did nothing and returns the swap as it is now.",
	}
	differHeader = kernel.Header{
		Name: "Idempotency-Parameters-Differ",
		Text: "true when the key was known and the request has other parameters than the one that made the swap, or " +
			"cannot be read. customerEmail and metadata are no parameters.",
	}
)

func (a *api) swapRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/customer-swap/quote", Name: "quoteCustomerSwap",
			Action: identity.QuoteSwap, Group: "Swaps",
			Summary: "Ask what a swap would bring",
			Text: "Asks the swap providers and returns the best offer. It stores nothing and holds nothing, so a " +
				"quote " +
				"has no id: send minAmountOut with POST /customer-swap to be safe from a worse offer. The balance of " +
				"the customer is not looked at.",
			CountsAsQuote: true,
			Retryable:     true,
			BeforeRead:    kernel.Check(a.checkSwapsEnabled),
			Answers:       []kernel.Success{{Status: http.StatusOK, Text: "The quote."}},
			Faults: []fault.Code{
				fault.SwapsDisabled, fault.CustomerFrozen, fault.OrganizationFrozen, fault.MintNotFound,
				fault.InvalidPair, fault.InvalidAmount, fault.WithdrawalsSuspended, fault.QuoteRejected,
				fault.ProviderError, fault.ProviderTimeout,
			},
			Handler: kernel.HandleBody(a.quoteSwap,
				SwapQuoteRequest{
					CustomerID: new("user_42"), FromMintID: 7, ToMintID: 1, AmountIn: "1000000000",
					SlippageBps: new(100),
				},
				exampleSwapQuote,
			),
		},
		{
			Method: http.MethodPost, Path: "/customer-swap", Name: "createCustomerSwap", Action: identity.RequestSwap,
			Group:   "Swaps",
			Summary: "Swap a customer's balance",
			Text: "Holds the amount and swaps it through the provider with the best offer. The delivery is credited " +
				"to " +
				"the same customer, and CUSTOMER_DEPOSIT announces it with swap. A swap that fails later announces " +
				"CUSTOMER_SWAP_FAILED instead; restore what comes back. A known key returns its swap as it is now, " +
				"whatever else the request has, also while swaps are switched off: the header " +
				"Idempotency-Parameters-Differ says if the parameters differ. Every other 4xx means that there is no " +
				"swap with this key; 401, 403 IP_NOT_ALLOWED and SCOPE_MISSING, and 429 say nothing about earlier " +
				"attempts. After a 5xx or no answer, repeat with the same key.",
			Answered:   kernel.AnswerKnown(a.answerKnownSwap),
			BeforeRead: kernel.Check(a.checkSwapsEnabled),
			Answers: []kernel.Success{{
				Status: http.StatusAccepted, Text: "The swap. For a known key, the swap as it is now.",
				Headers: []kernel.Header{replayedSwapHeader, differHeader},
			}},
			Faults: []fault.Code{
				fault.SwapsDisabled, fault.CustomerFrozen, fault.OrganizationFrozen, fault.MintNotFound,
				fault.InvalidPair, fault.InvalidAmount, fault.InsufficientBalance, fault.WithdrawalsSuspended,
				fault.QuoteRejected, fault.ProviderError, fault.ProviderTimeout,
			},
			Handler: kernel.HandleBody(a.createSwap,
				SwapRequest{
					IdempotencyKey: "swap-7781", CustomerID: "user_42", FromMintID: 7, ToMintID: 1,
					AmountIn: "1000000000", MinAmountOut: new("147000000"),
				},
				resource.ExampleSwap,
			),
		},
		{
			Method: http.MethodGet, Path: "/customer-swap/{swapId}", Name: "getCustomerSwap",
			Action: identity.ReadOrganization, Group: "Swaps",
			Summary: "Read a swap",
			Text: "One customer swap. The call works while swaps are switched off, and can be polled instead of " +
				"webhooks.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The swap."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getSwap, resource.ExampleSwap),
		},
		{
			Method: http.MethodGet, Path: "/customer-swaps", Name: "listCustomerSwaps",
			Action: identity.ReadOrganization, Group: "Swaps",
			Summary: "List swaps",
			Text:    "The organization's customer swaps. idempotencyKey selects the swap with this key." + csvText,
			Query: kernel.ListParameters(resource.CustomerFilter,
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.SwapStatuses,
					Text: "Only in this status.",
				},
				kernel.Parameter{
					Name: "idempotencyKey", Kind: kernel.TextParameter, Max: 255,
					Text: "Only the one with this key.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of swaps."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listSwaps, kernel.ExamplePage(resource.ExampleSwap)),
			Table:   kernel.ExportTable("customer-swaps", resource.SwapColumns, a.exportSwaps),
		},
		{
			Method: http.MethodPost, Path: "/customer-swap/{swapId}/restore", Name: "restoreCustomerSwap",
			Action: identity.RestoreSwap, Group: "Swaps",
			Summary: "Restore a failed swap",
			Text: "Moves what came back of a failed swap from inSwap to the available balance of its customer. A " +
				"repeated call moves what has come back since, and does nothing when there is nothing more. It works " +
				"while swaps are switched off and while the customer or the organization is frozen. While nothing " +
				"has " +
				"come back it is refused with 409 REFUND_NOT_RECEIVED, and POST /transfers can advance the amount " +
				"from " +
				"a balance of your own.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The swap, with restoredAt."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.RefundNotReceived, fault.InvalidState},
			Handler:   kernel.Handle(a.restoreSwap, exampleRestoredSwap),
		},
		{
			Method: http.MethodGet, Path: "/billing/fees", Name: "listFees",
			Action: identity.ReadOrganization, Group: "Swaps",
			Summary: "List the fees that you owe",
			Text: "One row for each completed swap and for each network fee. A fee of a swap is due at the " +
				"completion and never for a failed swap. No balance pays a fee: the operator bills it, see " +
				"GET /billing/invoices." + csvText,
			Query:   resource.FeeParameters(),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of fees."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listFees, kernel.ExamplePage(resource.ExampleFee)),
			Table:   kernel.ExportTable("fees", resource.FeeColumns, a.exportFees),
		},
	}
}

// checkSwapsEnabled refuses a quote or a new swap before anything of the request is read. Rule SWAP-2.
func (a *api) checkSwapsEnabled(c *call) error {
	return a.conf.Swaps.CheckEnabled(c.Context(), c.Caller.OrgID)
}

// answerKnownSwap looks up the key of a request. Nothing else of the body has to be right, because a
// refusal would say that the swap does not exist. Rule SWAP-1.
func (a *api) answerKnownSwap(c *call) (shown webhook.CustomerSwap, isKnown bool, err error) {
	w, isKnown, err := a.conf.Swaps.FindByKey(c.Context(), c.Caller.OrgID, c.TextMember("idempotencyKey"))
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body SwapRequest
	differs := c.DecodeBody(&body) != nil
	if !differs {
		differs = w.Differs(readSwap(c, body))
	}
	return replaySwap(c, w, differs), true, nil
}

// replaySwap answers with a swap that another request made.
func replaySwap(c *call, w swap.Swap, differs bool) webhook.CustomerSwap {
	trace.LinkTo(c.Context(), w.ID)
	c.AnswerHeader.Set("Idempotent-Replayed", "true")
	if differs {
		c.AnswerHeader.Set("Idempotency-Parameters-Differ", "true")
	}
	return wire.CustomerSwap(w)
}

// readSwap translates the body of a swap.
func readSwap(c *call, body SwapRequest) swap.Request {
	r := swap.Request{
		IdempotencyKey: body.IdempotencyKey, CustomerID: body.CustomerID, CustomerEmail: body.CustomerEmail,
		FromMintID: body.FromMintID, ToMintID: body.ToMintID, AmountIn: body.AmountIn,
		MinAmountOut: body.MinAmountOut, SlippageBps: body.SlippageBps, Actor: c.Caller.Actor(),
	}
	if body.Metadata != nil {
		r.Metadata = *body.Metadata
	}
	return r
}

func (a *api) createSwap(c *call, body SwapRequest) (webhook.CustomerSwap, error) {
	r := readSwap(c, body)
	w, isReplayed, err := a.conf.Swaps.Request(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.CustomerSwap{}, err
	}
	if isReplayed {
		return replaySwap(c, w, w.Differs(r)), nil
	}
	trace.LinkTo(c.Context(), w.ID)
	return wire.CustomerSwap(w), nil
}

func (a *api) quoteSwap(c *call, body SwapQuoteRequest) (SwapQuote, error) {
	q, err := a.conf.Swaps.Quote(c.Context(), c.Caller.OrgID, swap.QuoteRequest(body))
	if err != nil {
		return SwapQuote{}, err
	}
	return showSwapQuote(q), nil
}

func showSwapQuote(q swap.Quote) SwapQuote {
	shown := SwapQuote{
		EstimatedAmountOut: q.EstimatedOut.String(), MinAmountOut: q.MinOut.String(),
		EstimatedTimeSeconds: q.EstimatedSeconds, FeeAmount: q.FeeAmount.String(), FeeBps: q.FeeBps,
		QuotedAt: webhook.At(q.QuotedAt), Provider: q.Provider, Rate: q.Rate, PriceImpactBps: q.PriceImpactBps,
	}
	if q.USDValue != nil {
		shown.USDValue = new(q.USDValue.Cents())
	}
	return shown
}

func (a *api) restoreSwap(c *call) (webhook.CustomerSwap, error) {
	w, err := a.conf.Swaps.Restore(c.Context(), c.Caller.OrgID, c.PathParam("swapId"), c.Caller.Actor())
	if err != nil {
		return webhook.CustomerSwap{}, err
	}
	return wire.CustomerSwap(w), nil
}

func swapFilter(c *call) swap.Filter {
	return swap.Filter{
		CustomerID: c.Query["customerId"], Status: c.Query["status"], IdempotencyKey: c.Query["idempotencyKey"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) exportSwaps(c *call) (kernel.Rows[webhook.CustomerSwap], error) {
	return func(ctx context.Context, desc bool, row func(webhook.CustomerSwap) error) error {
		return a.conf.Swaps.ForEach(ctx, c.Caller.OrgID, swapFilter(c), desc,
			func(w swap.Swap) error { return row(wire.CustomerSwap(w)) })
	}, nil
}

func (a *api) listSwaps(c *call) (kernel.Page[webhook.CustomerSwap], error) {
	p, err := c.ReadPage("customer-swaps")
	if err != nil {
		return kernel.Page[webhook.CustomerSwap]{}, err
	}
	found, err := a.conf.Swaps.List(c.Context(), c.Caller.OrgID, swapFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.CustomerSwap]{}, err
	}
	return kernel.NewPage(c.Request, "customer-swaps", found, wire.CustomerSwap), nil
}

func (a *api) getSwap(c *call) (webhook.CustomerSwap, error) {
	w, err := a.conf.Swaps.ByID(c.Context(), c.Caller.OrgID, c.PathParam("swapId"))
	if err != nil {
		return webhook.CustomerSwap{}, err
	}
	return wire.CustomerSwap(w), nil
}

func (a *api) listFees(c *call) (kernel.Page[resource.FeeLine], error) {
	f, err := resource.ReadFeeFilter(c.Query, c.Caller.OrgID)
	if err != nil {
		return kernel.Page[resource.FeeLine]{}, err
	}
	p, err := c.ReadPage("fees")
	if err != nil {
		return kernel.Page[resource.FeeLine]{}, err
	}
	var found pagination.Result[fee.Line]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = fee.List(ctx, tx, f, p)
		return err
	})
	if err != nil {
		return kernel.Page[resource.FeeLine]{}, err
	}
	return kernel.NewPage(c.Request, "fees", found, resource.ShowFee), nil
}

func (a *api) exportFees(c *call) (kernel.Rows[resource.FeeLine], error) {
	f, err := resource.ReadFeeFilter(c.Query, c.Caller.OrgID)
	if err != nil {
		return nil, err
	}
	return snapshotRows(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(resource.FeeLine) error) error {
		return fee.ForEach(ctx, tx, f, desc, func(l fee.Line) error { return row(resource.ShowFee(l)) })
	}), nil
}
