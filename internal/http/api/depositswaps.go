package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// DepositSwapToken is a token that a customer can pay a deposit swap in.
type DepositSwapToken struct {
	OriginTokenID   string  `json:"originTokenId"`
	Chain           string  `json:"chain" doc:"The chain of the token. It may be a chain that this service has no mints on." example:"ETHEREUM"`
	Symbol          string  `json:"symbol" doc:"The symbol, for people. It identifies nothing: two tokens may share it." example:"DAI"`
	Decimals        int     `json:"decimals"`
	ContractAddress *string `json:"contractAddress"`
	MinAmount       *string `json:"minAmount" doc:"The least amount that a provider takes, in atomic units of the token; null if none says so." form:"amount"`
}

// DepositSwapTokens are the tokens that a customer can pay deposit swaps in.
type DepositSwapTokens struct {
	Data []DepositSwapToken `json:"data"`
}

// DepositSwapQuoteRequest is the body of POST /deposit-swap/quote.
type DepositSwapQuoteRequest struct {
	OriginTokenID string  `json:"originTokenId" bounds:"minLength=1,maxLength=255"`
	AmountIn      *string `json:"amountIn,omitempty" doc:"The amount that the customer would pay, in atomic units of the token. Without it the quote is about 100 dollars of the token." bounds:"minLength=1" example:"25000000000000000000"`
}

// DepositSwapQuote is what a deposit swap would bring.
type DepositSwapQuote struct {
	OriginTokenID        string       `json:"originTokenId"`
	ToMintID             int          `json:"toMintId" doc:"The mint in which the customer would be credited." bounds:"minimum=1" example:"1"`
	AmountIn             string       `json:"amountIn" doc:"The amount of the quote, in atomic units of the token." form:"amount"`
	EstimatedAmountOut   string       `json:"estimatedAmountOut" doc:"What the customer would be credited, in atomic units of toMintId: the offer of the provider less its fees." form:"amount"`
	MinAmountOut         string       `json:"minAmountOut" doc:"The least amount that the offer allows the provider to deliver, in atomic units of toMintId." form:"amount"`
	EstimatedTimeSeconds *int         `json:"estimatedTimeSeconds"`
	FeeAmount            string       `json:"feeAmount" doc:"Always 0: there is no fee of the platform on a deposit swap." form:"amount"`
	FeeBps               int          `json:"feeBps" doc:"Always 0."`
	USDValue             *string      `json:"usdValue" doc:"The value of estimatedAmountOut in dollars, for display; null when there is no recent price." pattern:"^[0-9]+\\.[0-9]{2}$" example:"24.93"`
	QuotedAt             webhook.Time `json:"quotedAt" doc:"When the provider was asked."`
	Provider             string       `json:"provider" doc:"The swap provider with the best offer. Providers may be added without notice." example:"ONE_CLICK"`
	Rate                 string       `json:"rate" doc:"Whole tokens of toMintId for one whole token, by estimatedAmountOut." form:"decimal" example:"0.9972"`
}

// DepositSwapRequest is the body of POST /deposit-swap.
type DepositSwapRequest struct {
	CustomerID     string  `json:"customerId"`
	OriginTokenID  string  `json:"originTokenId" bounds:"minLength=1,maxLength=255"`
	AmountIn       *string `json:"amountIn,omitempty" doc:"The amount that the customer means to pay, in atomic units of the token. It binds no one: another amount is swapped, too. Without it the estimate is of about 100 dollars." bounds:"minLength=1" example:"25000000000000000000"`
	RefundAddress  string  `json:"refundAddress" doc:"An address of the customer on the chain of the token, to which the provider sends back what it does not swap. Ask your customer for it: an exchange may not credit what comes back." bounds:"minLength=1,maxLength=128" example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	CustomerEmail  *string `json:"customerEmail,omitempty" doc:"The customer's e-mail. This call sets it while none is known, and never changes it." bounds:"minLength=3,maxLength=254" example:"a@example.com"`
	IdempotencyKey *string `json:"idempotencyKey,omitempty" doc:"Your name for this deposit swap: 1 to 255 printable ASCII characters without a space. It never expires. Without it every call makes another one." pattern:"^[!-~]{1,255}$" example:"topup-55"`
}

var replayedDepositSwapHeader = kernel.Header{
	Name: "Idempotent-Replayed",
	Text: "true when the key was known: the call did nothing and returns the deposit swap as it is now.",
}

func (a *api) depositSwapRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/deposit-swap/tokens", Name: "listDepositSwapTokens",
			Action: identity.ReadOrganization, Group: "Deposit swaps",
			Summary: "List the tokens of deposit swaps",
			Text: "What a customer can pay in, by chain and symbol: the tokens that a healthy swap provider takes " +
				"for the USDC that this service credits. The list changes with the providers.",
			Query: []kernel.Parameter{
				{
					Name: "chain", Kind: kernel.TextParameter, Max: 64,
					Text: "Only on this chain, in any case of letters. It may be a chain without mints.",
				},
				{
					Name: "search", Kind: kernel.TextParameter, Max: 128,
					Text: "Only tokens with this text in the symbol or the contract, in any case of letters.",
				},
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The tokens."}},
			Handler: kernel.Handle(a.listDepositSwapTokens,
				DepositSwapTokens{Data: []DepositSwapToken{exampleDepositSwapToken}}),
		},
		{
			Method: http.MethodPost, Path: "/deposit-swap/quote", Name: "quoteDepositSwap",
			Action: identity.QuoteSwap, Group: "Deposit swaps",
			Summary: "Ask what a deposit swap would bring",
			Text: "Asks the swap providers and returns the best offer. It stores nothing and binds no one: the " +
				"amount that arrives is swapped at the price of its time.",
			CountsAsQuote: true,
			Retryable:     true,
			Answers:       []kernel.Success{{Status: http.StatusOK, Text: "The quote."}},
			Faults: []fault.Code{
				fault.InvalidAmount, fault.OrganizationFrozen, fault.DepositsSuspended, fault.QuoteRejected,
				fault.ProviderError, fault.ProviderTimeout,
			},
			Handler: kernel.HandleBody(a.quoteDepositSwap,
				DepositSwapQuoteRequest{
					OriginTokenID: exampleDepositSwapToken.OriginTokenID, AmountIn: new("25000000000000000000"),
				},
				exampleDepositSwapQuote,
			),
		},
		{
			Method: http.MethodPost, Path: "/deposit-swap", Name: "createDepositSwap",
			Action: identity.CreateDepositAddress, Group: "Deposit swaps",
			Summary: "Let a customer pay in another token",
			Text: "Returns an address of a swap provider that the customer pays until expiresAt. What arrives is " +
				"swapped and credited in USDC, and CUSTOMER_DEPOSIT with source DEPOSIT_SWAP and depositSwapId " +
				"announces it, once for each deposit. The first call for a customer creates the customer. With an " +
				"idempotencyKey the same request returns the same deposit swap as it is now, and the same key with " +
				"other parameters is refused with 409 IDEMPOTENCY_CONFLICT; customerEmail is no parameter. A key " +
				"never expires. Without a key every call makes another address. Nothing of the customer's or of " +
				"yours is held by this call, and no refusal of it affects money. After a 5xx or no answer, repeat " +
				"with the same key.",
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Answered: kernel.AnswerKnown(a.answerKnownDepositSwap),
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The deposit swap. For a known key, the deposit swap as it is now.",
				Headers: []kernel.Header{replayedDepositSwapHeader, warningHeader},
			}},
			Faults: []fault.Code{
				fault.InvalidAmount, fault.InvalidAddress, fault.IdempotencyKeyMismatch, fault.IdempotencyConflict,
				fault.CustomerFrozen, fault.OrganizationFrozen, fault.DepositsSuspended, fault.DestinationNotAllowed,
				fault.QuoteRejected, fault.ProviderError, fault.ProviderTimeout,
			},
			Handler: kernel.HandleBody(a.createDepositSwap,
				DepositSwapRequest{
					CustomerID: "user_42", OriginTokenID: exampleDepositSwapToken.OriginTokenID,
					AmountIn: new("25000000000000000000"), RefundAddress: resource.ExampleDestination,
					IdempotencyKey: new("topup-55"),
				},
				resource.ExampleDepositSwap,
			),
		},
		{
			Method: http.MethodGet, Path: "/deposit-swap/{depositSwapId}", Name: "getDepositSwap",
			Action: identity.ReadOrganization, Group: "Deposit swaps",
			Summary: "Read a deposit swap",
			Text: "One deposit swap. Its status informs and credits nothing: credit your user by the events of the " +
				"deposits.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The deposit swap."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getDepositSwap, resource.ExampleDepositSwap),
		},
		{
			Method: http.MethodGet, Path: "/deposit-swaps", Name: "listDepositSwaps",
			Action: identity.ReadOrganization, Group: "Deposit swaps",
			Summary: "List deposit swaps",
			Text: "The organization's deposit swaps. idempotencyKey selects the deposit swap with this key." +
				csvText,
			Query: kernel.ListParameters(resource.CustomerFilter,
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.DepositSwapStatuses,
					Text: "Only in this status.",
				},
				kernel.Parameter{
					Name: "idempotencyKey", Kind: kernel.TextParameter, Max: 255,
					Text: "Only the one with this key.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of deposit swaps."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listDepositSwaps, kernel.ExamplePage(resource.ExampleDepositSwap)),
			Table:   kernel.ExportTable("deposit-swaps", resource.DepositSwapColumns, a.exportDepositSwaps),
		},
	}
}

func showDepositSwapToken(t depositswap.Token) DepositSwapToken {
	shown := DepositSwapToken{
		OriginTokenID: t.ID, Chain: string(t.Chain), Symbol: t.Symbol, Decimals: t.Decimals,
		ContractAddress: resource.OptionalText(string(t.Contract)),
	}
	if t.MinAmount != nil {
		shown.MinAmount = new(t.MinAmount.String())
	}
	return shown
}

func (a *api) listDepositSwapTokens(c *call) (DepositSwapTokens, error) {
	shown := DepositSwapTokens{Data: []DepositSwapToken{}}
	found, err := a.conf.DepositSwaps.ListTokens(c.Context(),
		depositswap.TokenFilter{Chain: c.Query["chain"], Search: c.Query["search"]})
	for _, t := range found {
		shown.Data = append(shown.Data, showDepositSwapToken(t))
	}
	return shown, err
}

func (a *api) quoteDepositSwap(c *call, body DepositSwapQuoteRequest) (DepositSwapQuote, error) {
	q, err := a.conf.DepositSwaps.Quote(c.Context(), c.Caller.OrgID, depositswap.QuoteRequest(body))
	if err != nil {
		return DepositSwapQuote{}, err
	}
	shown := DepositSwapQuote{
		OriginTokenID: q.Token.ID, ToMintID: q.To.ID, AmountIn: q.AmountIn.String(),
		EstimatedAmountOut: q.EstimatedOut.String(), MinAmountOut: q.MinOut.String(),
		EstimatedTimeSeconds: q.EstimatedSeconds, FeeAmount: "0", QuotedAt: webhook.At(q.QuotedAt),
		Provider: q.Provider, Rate: q.Rate,
	}
	if q.USDValue != nil {
		shown.USDValue = new(q.USDValue.Cents())
	}
	return shown, nil
}

// answerKnownDepositSwap looks the key of a request up, before anything else of it can refuse it: a refusal
// would say that there is no deposit swap with the key. Rules DSW-4, IDEM-5.
func (a *api) answerKnownDepositSwap(c *call) (shown webhook.DepositSwap, isKnown bool, err error) {
	key, err := idempotencyKey(c.Header, resource.OptionalText(c.TextMember("idempotencyKey")))
	if err != nil || key == nil {
		return shown, false, nil // createDepositSwap refuses two different keys
	}
	d, isKnown, err := a.conf.DepositSwaps.FindByKey(c.Context(), c.Caller.OrgID, *key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body DepositSwapRequest
	differs := c.DecodeBody(&body) != nil
	if !differs {
		body.IdempotencyKey = key
		differs = d.Differs(a.readDepositSwap(c, body))
	}
	shown, err = replayDepositSwap(c, d, differs)
	return shown, err == nil, err
}

// replayDepositSwap answers with a deposit swap that another request made.
func replayDepositSwap(c *call, d depositswap.DepositSwap, differs bool) (webhook.DepositSwap, error) {
	trace.LinkTo(c.Context(), d.ID)
	if differs {
		return webhook.DepositSwap{}, newKeyConflict("deposit swap", d.ID)
	}
	c.AnswerHeader.Set("Idempotent-Replayed", "true")
	return wire.DepositSwap(d), nil
}

// newKeyConflict refuses a request whose key made something with other parameters.
func newKeyConflict(subject, existingID string) error {
	return fault.New(fault.Conflict, fault.IdempotencyConflict, fault.NothingHeld,
		"This idempotencyKey belongs to another %s.", subject).
		WithAdvice("Use a new key for a new one.").
		WithParam("idempotencyKey").WithExtra("existingId", existingID)
}

// readDepositSwap translates the body of a deposit swap.
func (a *api) readDepositSwap(c *call, body DepositSwapRequest) depositswap.Request {
	return depositswap.Request{
		IdempotencyKey: body.IdempotencyKey, CustomerID: body.CustomerID, OriginTokenID: body.OriginTokenID,
		AmountIn: body.AmountIn, RefundAddress: body.RefundAddress, CustomerEmail: body.CustomerEmail,
		// As with POST /deposit: a key that may not change an e-mail can set only an untrusted one.
		UntrustedEmail: !c.Caller.IsAllowed(identity.SetCustomerEmail),
		Actor:          c.Caller.Actor(),
	}
}

func (a *api) createDepositSwap(c *call, body DepositSwapRequest) (webhook.DepositSwap, error) {
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.DepositSwap{}, err
	}
	body.IdempotencyKey = key
	r := a.readDepositSwap(c, body)
	d, isReplayed, isEmailIgnored, err := a.conf.DepositSwaps.Request(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.DepositSwap{}, err
	}
	if isReplayed {
		return replayDepositSwap(c, d, d.Differs(r))
	}
	trace.LinkTo(c.Context(), d.ID)
	if isEmailIgnored {
		c.AnswerHeader.Set("Warning", "customerEmail ignored")
	}
	return wire.DepositSwap(d), nil
}

func (a *api) getDepositSwap(c *call) (webhook.DepositSwap, error) {
	d, err := a.conf.DepositSwaps.ByID(c.Context(), c.Caller.OrgID, c.PathParam("depositSwapId"))
	if err != nil {
		return webhook.DepositSwap{}, err
	}
	return wire.DepositSwap(d), nil
}

func depositSwapFilter(c *call) depositswap.Filter {
	return depositswap.Filter{
		CustomerID: c.Query["customerId"], Status: c.Query["status"], IdempotencyKey: c.Query["idempotencyKey"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) listDepositSwaps(c *call) (kernel.Page[webhook.DepositSwap], error) {
	const list = "deposit-swaps"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[webhook.DepositSwap]{}, err
	}
	found, err := a.conf.DepositSwaps.List(c.Context(), c.Caller.OrgID, depositSwapFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.DepositSwap]{}, err
	}
	return kernel.NewPage(c.Request, list, found, wire.DepositSwap), nil
}

func (a *api) exportDepositSwaps(c *call) (kernel.Rows[webhook.DepositSwap], error) {
	return func(ctx context.Context, desc bool, row func(webhook.DepositSwap) error) error {
		return a.conf.DepositSwaps.ForEach(ctx, c.Caller.OrgID, depositSwapFilter(c), desc,
			func(d depositswap.DepositSwap) error { return row(wire.DepositSwap(d)) })
	}, nil
}

var (
	exampleDepositSwapToken = DepositSwapToken{
		OriginTokenID: resource.ExampleDepositSwap.OriginTokenID, Chain: string(chain.Ethereum), Symbol: "DAI",
		Decimals: 18, ContractAddress: new("0x6B175474E89094C44Da98b954EedeAC495271d0F"),
		MinAmount: new("1000000000000000000"),
	}
	exampleDepositSwapQuote = DepositSwapQuote{
		OriginTokenID: resource.ExampleDepositSwap.OriginTokenID, ToMintID: 1, AmountIn: "25000000000000000000",
		EstimatedAmountOut: "24930000", MinAmountOut: "24680000", EstimatedTimeSeconds: new(60), FeeAmount: "0",
		USDValue: new("24.93"), QuotedAt: resource.ExampleAt, Provider: "ONE_CLICK", Rate: "0.9972",
	}
)
