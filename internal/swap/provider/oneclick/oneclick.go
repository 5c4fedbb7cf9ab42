// Package oneclick asks NEAR Intents 1Click for swaps.
//
// It follows the provider's SDK of June 2026 and is tested on its samples and on hand-written answers; it was
// never tried against the live service. An answer with an undocumented member, status or form is no answer. No
// offer leaves this package as firm unless a pinned key signed it with exactly the terms of the question. A
// report has no amounts, because nothing signs them.
package oneclick

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// Name is the name of the provider in the API.
const Name = "ONE_CLICK"

// URL is the address of the service.
const URL = "https://1click.chaindefuser.com"

// Key is the key with which the provider signs, as its SDK publishes it.
const Key = "ed25519:reYaWhvwu8Jzo3WUM3zhn6VrhuMEF4eADL17qtRVifc"

// AnswerBytesMax bounds an answer. The longest is the list of tokens.
const AnswerBytesMax = 4 << 20

const (
	timeForm    = "2006-01-02T15:04:05.000Z"
	estimateMax = 7 * 24 * time.Hour
)

// Provider is the client of the service.
type Provider struct {
	client *httpjson.Client
	key    seal.Secret // of the account; without it the provider takes a fee
	keys   []ed25519.PublicKey
	assets provider.AssetCache
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Verifier = (*Provider)(nil)
)

// New makes a client. keys are the pinned ones. pins name the id of an asset where the list has several for one
// token. hidesLocal leaves out the assets of a local world.
func New(
	client *httpjson.Client, key seal.Secret, keys []ed25519.PublicKey, pins map[provider.Token]string,
	hidesLocal bool,
) *Provider {
	p := &Provider{client: client, key: key, keys: keys}
	p.assets.Fetch = func(ctx context.Context) ([]provider.Asset, error) {
		reply, err := p.send(ctx, http.MethodGet, "/v0/tokens", nil)
		if err != nil {
			return nil, err
		}
		if !reply.HasStatus(http.StatusOK) {
			return nil, provider.Unavailable("%w", reply.UnexpectedStatus())
		}
		return decodeAssets(reply, pins, hidesLocal)
	}
	return p
}

// Name returns ONE_CLICK.
func (*Provider) Name() string { return Name }

// Assets returns what the provider swaps. Error: provider.ErrUnavailable.
func (p *Provider) Assets(ctx context.Context) ([]provider.Asset, error) { return p.assets.Assets(ctx) }

// VerifyQuote verifies a firm quote with the pinned keys.
func (p *Provider) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	q, err := signedquote.VerifyOneClick(raw, p.keys)
	return q, provider.CheckSigned(err)
}

// send sends a request. Error: provider.ErrUnavailable.
func (p *Provider) send(ctx context.Context, method, path string, body any) (httpjson.Reply, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return httpjson.Reply{}, provider.Unavailable("the request: %w", err)
		}
	}
	header := http.Header{}
	if !p.key.IsEmpty() {
		header.Set("Authorization", "Bearer "+p.key.Reveal())
	}
	reply, err := p.client.SendRequest(ctx, method, path, header, text)
	if err != nil {
		return reply, provider.Unavailable("%w", err)
	}
	return reply, nil
}

// quoteRequest is a request for a quote, and the part of an answer that repeats it.
type quoteRequest struct {
	Dry               bool   `json:"dry"`
	DepositMode       string `json:"depositMode"`
	SwapType          string `json:"swapType"`
	SlippageTolerance int    `json:"slippageTolerance"`
	OriginAsset       string `json:"originAsset"`
	DepositType       string `json:"depositType"`
	DestinationAsset  string `json:"destinationAsset"`
	Amount            string `json:"amount"`
	RefundTo          string `json:"refundTo"`
	RefundType        string `json:"refundType"`
	Recipient         string `json:"recipient"`
	RecipientType     string `json:"recipientType"`
	Deadline          string `json:"deadline"`
}

func newRequest(ask provider.Ask, origin, destination provider.Asset) quoteRequest {
	r := quoteRequest{
		Dry: !ask.IsFirm, DepositMode: "SIMPLE", SwapType: "EXACT_INPUT", SlippageTolerance: ask.SlippageBps,
		OriginAsset: origin.ID, DepositType: "ORIGIN_CHAIN", DestinationAsset: destination.ID,
		Amount: ask.AmountIn.String(), RefundTo: string(ask.RefundTo), RefundType: "ORIGIN_CHAIN",
		Recipient: string(ask.Recipient), RecipientType: "DESTINATION_CHAIN",
		Deadline: ask.Deadline.UTC().Format(timeForm),
	}
	if ask.IsFlexible {
		r.SwapType = "FLEX_INPUT"
	}
	return r
}

type quoteAnswer struct {
	CorrelationID *string      `json:"correlationId"`
	Timestamp     *string      `json:"timestamp"`
	Signature     *string      `json:"signature"`
	QuoteRequest  *repeated    `json:"quoteRequest"`
	Quote         *quotedTerms `json:"quote"`
}

// repeated is the request as the answer has it, with the members that the provider adds.
type repeated struct {
	quoteRequest
	Confidentiality             jsontext.Value `json:"confidentiality"`
	QuoteWaitingTimeMs          jsontext.Value `json:"quoteWaitingTimeMs"`
	Referral                    jsontext.Value `json:"referral"`
	Rebates                     jsontext.Value `json:"rebates"`
	AppFees                     jsontext.Value `json:"appFees"`
	ConnectedWallets            jsontext.Value `json:"connectedWallets"`
	SessionID                   jsontext.Value `json:"sessionId"`
	VirtualChainRecipient       *string        `json:"virtualChainRecipient"`
	VirtualChainRefundRecipient *string        `json:"virtualChainRefundRecipient"`
	CustomRecipientMsg          *string        `json:"customRecipientMsg"`
}

type quotedTerms struct {
	DepositAddress              *string          `json:"depositAddress"`
	DepositMemo                 *string          `json:"depositMemo"`
	AmountIn                    *money.Amount    `json:"amountIn"`
	AmountInFormatted           *string          `json:"amountInFormatted"`
	AmountInUSD                 *string          `json:"amountInUsd"`
	MinAmountIn                 *money.Amount    `json:"minAmountIn"`
	AmountOut                   *money.Amount    `json:"amountOut"`
	AmountOutFormatted          *string          `json:"amountOutFormatted"`
	AmountOutUSD                *string          `json:"amountOutUsd"`
	MinAmountOut                *money.Amount    `json:"minAmountOut"`
	Deadline                    *string          `json:"deadline"`
	TimeWhenInactive            *string          `json:"timeWhenInactive"`
	TimeEstimate                *httpjson.Number `json:"timeEstimate"`
	RefundFee                   *money.Amount    `json:"refundFee"`
	WithdrawFee                 *string          `json:"withdrawFee"`
	VirtualChainRecipient       *string          `json:"virtualChainRecipient"`
	VirtualChainRefundRecipient *string          `json:"virtualChainRefundRecipient"`
	CustomRecipientMsg          *string          `json:"customRecipientMsg"`
}

// Quote asks for an offer.
func (p *Provider) Quote(ctx context.Context, ask provider.Ask) (provider.Offer, error) {
	assets, err := p.Assets(ctx)
	if err != nil {
		return provider.Offer{}, err
	}
	origin, destination, err := provider.FindPair(assets, ask)
	if err != nil {
		return provider.Offer{}, err
	}
	request := newRequest(ask, origin, destination)
	reply, err := p.send(ctx, http.MethodPost, "/v0/quote", request)
	if err != nil {
		return provider.Offer{}, err
	}
	if reply.HasStatus(http.StatusBadRequest) {
		return provider.Offer{}, decodeRefusal(reply)
	}
	if !reply.HasStatus(http.StatusOK, http.StatusCreated) {
		return provider.Offer{}, provider.Unavailable("%w", reply.UnexpectedStatus())
	}
	var answer quoteAnswer
	if err := decode(reply, &answer); err != nil {
		return provider.Offer{}, err
	}
	var offer provider.Offer
	if ask.IsFirm {
		offer, err = p.firmOffer(reply.Body, request, ask)
	} else {
		offer, err = answer.dryOffer(request)
	}
	if err != nil {
		return provider.Offer{}, err
	}
	if err := offer.CheckAmounts(ask); err != nil {
		return provider.Offer{}, err
	}
	return offer, nil
}

// firmOffer verifies the answer to a firm question. What it returns stands in the signed part alone.
func (p *Provider) firmOffer(raw []byte, request quoteRequest, ask provider.Ask) (provider.Offer, error) {
	q, err := signedquote.VerifyOneClick(raw, p.keys)
	if err == nil {
		err = q.CheckTerms(signedquote.Terms{
			IsFlexible: ask.IsFlexible, OriginAsset: request.OriginAsset, DestinationAsset: request.DestinationAsset,
			AmountIn: ask.AmountIn, Recipient: request.Recipient, RefundTo: request.RefundTo,
			SlippageBpsMax: ask.SlippageBps,
		})
	}
	if err := provider.CheckSigned(err); err != nil {
		return provider.Offer{}, err
	}
	return provider.NewFirmOffer(Name, raw, q), nil
}

// dryOffer returns the offer of a dry answer, which is compared with the question like a firm one. Its
// signature is not verified: it commits the provider to nothing.
func (a quoteAnswer) dryOffer(request quoteRequest) (provider.Offer, error) {
	if a.QuoteRequest == nil || a.Quote == nil {
		return provider.Offer{}, provider.Malformed("a quote without its terms")
	}
	got, q := a.QuoteRequest.quoteRequest, a.Quote
	// The provider may write the same time in another form, or leave out the usual mode.
	got.Deadline = request.Deadline
	if got.DepositMode == "" {
		got.DepositMode = request.DepositMode
	}
	if got != request {
		return provider.Offer{}, provider.Malformed("a dry quote with other terms")
	}
	if hasText(q.DepositAddress) || hasText(q.DepositMemo) {
		return provider.Offer{}, provider.Malformed("a dry quote with a deposit address")
	}
	if q.AmountIn == nil || q.MinAmountIn == nil || q.AmountOut == nil || q.MinAmountOut == nil {
		return provider.Offer{}, provider.Malformed("a quote without an amount")
	}
	offer := provider.Offer{
		Provider: Name, AmountIn: *q.AmountIn, MinAmountIn: *q.MinAmountIn, AmountOut: *q.AmountOut,
		MinAmountOut: *q.MinAmountOut,
	}
	if q.RefundFee != nil {
		offer.RefundFee = *q.RefundFee
	}
	if q.TimeEstimate != nil {
		seconds, err := q.TimeEstimate.Int()
		if err != nil || seconds < 0 || time.Duration(seconds)*time.Second > estimateMax {
			return provider.Offer{}, provider.Malformed("an estimate of %s seconds", *q.TimeEstimate)
		}
		offer.Estimate = time.Duration(seconds) * time.Second
	}
	return offer, nil
}

func hasText(text *string) bool { return text != nil && *text != "" }

// decode decodes an answer. Error: provider.ErrMalformed.
func decode(reply httpjson.Reply, target any) error {
	if reply.Body.Kind() != '{' {
		return provider.Malformed("not an object")
	}
	if err := reply.Decode(target); err != nil {
		return provider.Malformed("%w", err)
	}
	return nil
}

// decodeRefusal returns the refusal of an answer with status 400.
func decodeRefusal(reply httpjson.Reply) error {
	var answer struct {
		Message       *string        `json:"message"`
		CorrelationID jsontext.Value `json:"correlationId"`
		Timestamp     jsontext.Value `json:"timestamp"`
		Path          jsontext.Value `json:"path"`
		StatusCode    jsontext.Value `json:"statusCode"`
		Error         jsontext.Value `json:"error"`
	}
	if err := decode(reply, &answer); err != nil {
		return err
	}
	if answer.Message == nil {
		return provider.Malformed("a refusal without its message")
	}
	return provider.Refused(Name, *answer.Message)
}

type statusAnswer struct {
	CorrelationID *string        `json:"correlationId"`
	QuoteResponse jsontext.Value `json:"quoteResponse"`
	Status        *string        `json:"status"`
	UpdatedAt     *time.Time     `json:"updatedAt"`
	SwapDetails   *swapDetails   `json:"swapDetails"`
}

// swapDetails has the members of a report. The amounts are read by nothing: no key signs them.
type swapDetails struct {
	IntentHashes             jsontext.Value `json:"intentHashes"`
	NearTxHashes             jsontext.Value `json:"nearTxHashes"`
	AmountIn                 jsontext.Value `json:"amountIn"`
	AmountInFormatted        jsontext.Value `json:"amountInFormatted"`
	AmountInUSD              jsontext.Value `json:"amountInUsd"`
	AmountOut                jsontext.Value `json:"amountOut"`
	AmountOutFormatted       jsontext.Value `json:"amountOutFormatted"`
	AmountOutUSD             jsontext.Value `json:"amountOutUsd"`
	Slippage                 jsontext.Value `json:"slippage"`
	OriginChainTxHashes      []transaction  `json:"originChainTxHashes"`
	DestinationChainTxHashes []transaction  `json:"destinationChainTxHashes"`
	RefundedAmount           jsontext.Value `json:"refundedAmount"`
	RefundedAmountFormatted  jsontext.Value `json:"refundedAmountFormatted"`
	RefundedAmountUSD        jsontext.Value `json:"refundedAmountUsd"`
	RefundReason             *string        `json:"refundReason"`
	DepositedAmount          jsontext.Value `json:"depositedAmount"`
	DepositedAmountFormatted jsontext.Value `json:"depositedAmountFormatted"`
	DepositedAmountUSD       jsontext.Value `json:"depositedAmountUsd"`
	WithdrawFee              jsontext.Value `json:"withdrawFee"`
	Referral                 jsontext.Value `json:"referral"`
}

type transaction struct {
	Hash        string         `json:"hash"`
	ExplorerURL jsontext.Value `json:"explorerUrl"`
}

// statuses are the documented statuses.
var statuses = map[string]provider.Status{
	pendingDeposit:       provider.Waiting,
	"KNOWN_DEPOSIT_TX":   provider.Waiting,
	"INCOMPLETE_DEPOSIT": provider.Incomplete,
	"PROCESSING":         provider.Processing,
	"SUCCESS":            provider.Success,
	"REFUNDED":           provider.Refunded,
	"FAILED":             provider.Failed,
}

const pendingDeposit = "PENDING_DEPOSIT"

// Status asks what the provider says of a swap. While it waits for the payment, it is told the hash: that makes
// it faster, and proves nothing.
func (p *Provider) Status(ctx context.Context, swap provider.Ref, payment chain.TxHash) (provider.Report, error) {
	reply, err := p.send(ctx, http.MethodGet, "/v0/status?depositAddress="+url.QueryEscape(swap.DepositAddress), nil)
	if err != nil {
		return provider.Report{}, err
	}
	if !reply.HasStatus(http.StatusOK) {
		return provider.Report{}, provider.Unavailable("%w", reply.UnexpectedStatus())
	}
	report, err := decodeReport(reply, swap)
	if err == nil && report.Word == pendingDeposit && payment != "" {
		// The report stands whatever the answer is: the next one shows whether it helped.
		_, _ = p.send(ctx, http.MethodPost, "/v0/deposit/submit", submitRequest{string(payment), swap.DepositAddress})
	}
	return report, err
}

type submitRequest struct {
	TxHash         string `json:"txHash"`
	DepositAddress string `json:"depositAddress"`
}

func decodeReport(reply httpjson.Reply, swap provider.Ref) (provider.Report, error) {
	var answer statusAnswer
	if err := decode(reply, &answer); err != nil {
		return provider.Report{}, err
	}
	var quoted struct {
		Quote struct {
			DepositAddress *string `json:"depositAddress"`
		} `json:"quote"`
	}
	switch err := json.Unmarshal(answer.QuoteResponse, &quoted); {
	case err != nil:
		return provider.Report{}, provider.Malformed("a report without its quote")
	case quoted.Quote.DepositAddress == nil || *quoted.Quote.DepositAddress != swap.DepositAddress:
		return provider.Report{}, provider.Malformed("a report of another swap")
	case answer.Status == nil || answer.SwapDetails == nil || answer.UpdatedAt == nil:
		return provider.Report{}, provider.Malformed("a report without its status, details or time")
	}
	status, isKnown := statuses[*answer.Status]
	if !isKnown {
		return provider.Report{}, provider.Malformed("the status %q", provider.CleanText(*answer.Status))
	}
	report := provider.Report{
		Provider: Name, Status: status, Word: *answer.Status, Refund: provider.RefundNone,
		UpdatedAt: answer.UpdatedAt.UTC(), Raw: reply.Body,
	}
	if status == provider.Refunded {
		report.Refund = provider.RefundPending
	}
	if reason := answer.SwapDetails.RefundReason; reason != nil {
		report.Reason = provider.CleanText(*reason)
	}
	var errOrigin, errDestination error
	report.OriginTxs, errOrigin = parseTransactions(answer.SwapDetails.OriginChainTxHashes)
	report.DestinationTxs, errDestination = parseTransactions(answer.SwapDetails.DestinationChainTxHashes)
	if err := errors.Join(errOrigin, errDestination); err != nil {
		return provider.Report{}, err
	}
	return report, nil
}

func parseTransactions(transactions []transaction) ([]chain.TxHash, error) {
	hashes := make([]string, len(transactions))
	for i, tx := range transactions {
		hashes[i] = tx.Hash
	}
	return provider.ParseHashes(hashes)
}
