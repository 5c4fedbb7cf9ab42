// Package relay asks Relay for swaps through strict deposit addresses.
//
// It follows the provider's documentation of August 2026 and is tested on its samples and on hand-written
// answers; it was never tried against the live service. An answer with an undocumented member, status or form is
// no answer. No offer leaves this package as firm unless a pinned solver signed the order with exactly the terms
// of the question, and the deposit address follows from the order. A report has no amounts, because nothing
// signs them.
package relay

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
const Name = "RELAY"

// URL is the address of the service.
const URL = "https://api.relay.link"

// AnswerBytesMax bounds an answer, which is signed up to this length.
const AnswerBytesMax = 256 << 10

const estimateMax = 7 * 24 * time.Hour

// Chain is a chain as Relay knows it.
type Chain struct {
	ID   int64  // in requests
	Name string // in orders
	signedquote.RelayChain
	// Native is the address that stands for the coin of the chain.
	Native string
}

// currency is a token with the address that requests and orders have for it.
type currency struct {
	chain   Chain
	address string
}

// Provider is the client of the service.
type Provider struct {
	client     *httpjson.Client
	key        seal.Secret // of the account; it only raises limits
	pins       signedquote.RelayPins
	assets     []provider.Asset
	currencies map[provider.Token]currency
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Verifier = (*Provider)(nil)
)

// Name returns RELAY.
func (*Provider) Name() string { return Name }

// Assets returns the configured currencies.
func (p *Provider) Assets(context.Context) ([]provider.Asset, error) { return p.assets, nil }

// VerifyQuote verifies an order with the pinned solvers and contracts.
func (p *Provider) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	q, err := signedquote.VerifyRelay(raw, p.pins)
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
		header.Set("x-api-key", p.key.Reveal())
	}
	reply, err := p.client.SendRequest(ctx, method, path, header, text)
	if err != nil {
		return reply, provider.Unavailable("%w", err)
	}
	return reply, nil
}

type quoteRequest struct {
	User                string `json:"user"`
	Recipient           string `json:"recipient"`
	OriginChainID       int64  `json:"originChainId"`
	OriginCurrency      string `json:"originCurrency"`
	DestinationChainID  int64  `json:"destinationChainId"`
	DestinationCurrency string `json:"destinationCurrency"`
	Amount              string `json:"amount"`
	TradeType           string `json:"tradeType"`
	RefundTo            string `json:"refundTo"`
	SlippageTolerance   string `json:"slippageTolerance"`
	UseDepositAddress   bool   `json:"useDepositAddress,omitzero"`
	Strict              bool   `json:"strict,omitzero"`
	IncludeProtocolData bool   `json:"includeProtocolData,omitzero"`
}

type quoteAnswer struct {
	Steps    *[]step        `json:"steps"`
	Fees     jsontext.Value `json:"fees"`
	Details  *details       `json:"details"`
	Protocol *struct {
		V2 *struct {
			OrderID        *string        `json:"orderId"`
			OrderData      jsontext.Value `json:"orderData"`
			OrderSignature *string        `json:"orderSignature"`
			HubType        *string        `json:"hubType"`
			PaymentDetails jsontext.Value `json:"paymentDetails"`
		} `json:"v2"`
	} `json:"protocol"`
}

type step struct {
	ID             *string        `json:"id"`
	Action         jsontext.Value `json:"action"`
	Description    jsontext.Value `json:"description"`
	Kind           *string        `json:"kind"`
	Items          jsontext.Value `json:"items"`
	RequestID      *string        `json:"requestId"`
	DepositAddress *string        `json:"depositAddress"`
}

type details struct {
	Operation           jsontext.Value   `json:"operation"`
	Sender              jsontext.Value   `json:"sender"`
	Recipient           *string          `json:"recipient"`
	CurrencyIn          *currencyAmount  `json:"currencyIn"`
	CurrencyOut         *currencyAmount  `json:"currencyOut"`
	RefundCurrency      jsontext.Value   `json:"refundCurrency"`
	TotalImpact         jsontext.Value   `json:"totalImpact"`
	SwapImpact          jsontext.Value   `json:"swapImpact"`
	ExpandedPriceImpact jsontext.Value   `json:"expandedPriceImpact"`
	Rate                jsontext.Value   `json:"rate"`
	SlippageTolerance   jsontext.Value   `json:"slippageTolerance"`
	TimeEstimate        *httpjson.Number `json:"timeEstimate"`
	UserBalance         jsontext.Value   `json:"userBalance"`
	IsFixedRate         jsontext.Value   `json:"isFixedRate"`
	Route               jsontext.Value   `json:"route"`
}

type currencyAmount struct {
	Currency *struct {
		ChainID  *int64         `json:"chainId"`
		Address  *string        `json:"address"`
		Symbol   jsontext.Value `json:"symbol"`
		Name     jsontext.Value `json:"name"`
		Decimals jsontext.Value `json:"decimals"`
		Metadata jsontext.Value `json:"metadata"`
	} `json:"currency"`
	Amount          *money.Amount  `json:"amount"`
	AmountFormatted jsontext.Value `json:"amountFormatted"`
	AmountUSD       jsontext.Value `json:"amountUsd"`
	MinimumAmount   *money.Amount  `json:"minimumAmount"`
}

// Quote asks for an offer. The provider has no signed quote for another amount than the one that was asked for,
// so flexible input is not served.
func (p *Provider) Quote(ctx context.Context, ask provider.Ask) (provider.Offer, error) {
	if _, _, err := provider.FindPair(p.assets, ask); err != nil {
		return provider.Offer{}, err
	}
	origin, destination := p.currencies[ask.Origin.Canonical()], p.currencies[ask.Destination.Canonical()]
	if strings.EqualFold(string(ask.RefundTo), origin.chain.Native) {
		// This address means to the provider that it looks for the sender by itself.
		return provider.Offer{}, fmt.Errorf("%w: it needs a refund address", provider.ErrNotServed)
	}
	reply, err := p.send(ctx, http.MethodPost, "/quote/v2", quoteRequest{
		User: string(ask.RefundTo), Recipient: string(ask.Recipient),
		OriginChainID: origin.chain.ID, OriginCurrency: origin.address,
		DestinationChainID: destination.chain.ID, DestinationCurrency: destination.address,
		Amount: ask.AmountIn.String(), TradeType: "EXACT_INPUT", RefundTo: string(ask.RefundTo),
		SlippageTolerance: strconv.Itoa(ask.SlippageBps),
		// Without a deposit address the provider keeps nothing that could be paid.
		UseDepositAddress: ask.IsFirm, Strict: ask.IsFirm, IncludeProtocolData: ask.IsFirm,
	})
	if err != nil {
		return provider.Offer{}, err
	}
	if !reply.HasStatus(http.StatusOK, http.StatusCreated) {
		return provider.Offer{}, decodeRefusal(reply)
	}
	var answer quoteAnswer
	if err := decode(reply, &answer); err != nil {
		return provider.Offer{}, err
	}
	offer, err := answer.dryOffer(ask, origin, destination)
	if err != nil && !ask.IsFirm {
		return provider.Offer{}, err
	}
	if ask.IsFirm {
		estimate := offer.Estimate
		if offer, err = p.firmOffer(reply.Body, answer, ask, origin, destination); err != nil {
			return provider.Offer{}, err
		}
		offer.Estimate = estimate
	}
	if err := offer.CheckAmounts(ask); err != nil {
		return provider.Offer{}, err
	}
	return offer, nil
}

// firmOffer verifies the answer to a firm question. What it returns stands in the signed order alone.
func (p *Provider) firmOffer(
	raw []byte, answer quoteAnswer, ask provider.Ask, origin, destination currency,
) (provider.Offer, error) {
	if _, err := answer.requestID(); err != nil {
		return provider.Offer{}, err
	}
	q, err := signedquote.VerifyRelay(raw, p.pins)
	if err == nil {
		// An order has its addresses as bytes, so the case of letters is not signed.
		terms := signedquote.Terms{
			OriginAsset: origin.asset(), DestinationAsset: destination.asset(), AmountIn: ask.AmountIn,
			Recipient:      matchCase(q.Recipient, string(ask.Recipient), destination.chain),
			SlippageBpsMax: ask.SlippageBps,
		}
		q.RefundTo, terms.RefundTo = matchRefunds(q.RefundTo, string(ask.RefundTo)), string(ask.RefundTo)
		err = q.CheckTerms(terms)
	}
	if err := provider.CheckSigned(err); err != nil {
		return provider.Offer{}, err
	}
	return provider.NewFirmOffer(Name, raw, q), nil
}

// asset returns the name of a currency in signed orders.
func (c currency) asset() string { return c.chain.Name + ":" + c.address }

// matchCase returns the signed form of an address that was asked for, if they are the same on that chain.
func matchCase(signed, asked string, ch Chain) string {
	if ch.VM == signedquote.RelayEthereum && strings.EqualFold(signed, asked) {
		return signed
	}
	return asked
}

// matchRefunds returns refund addresses in the form that was asked for, where they are the same. An order may
// refund on both chains, and only the addresses of the EVM are the same on several.
func matchRefunds(signed []string, asked string) []string {
	refunds := make([]string, len(signed))
	for i, address := range signed {
		refunds[i] = address
		if strings.HasPrefix(asked, "0x") && strings.EqualFold(address, asked) {
			refunds[i] = asked
		}
	}
	return refunds
}

// requestID returns the name of the swap at the provider.
func (a quoteAnswer) requestID() (string, error) {
	if a.Steps == nil || len(*a.Steps) != 1 {
		return "", provider.Malformed("an answer without its one step")
	}
	s := (*a.Steps)[0]
	if s.ID == nil || *s.ID != "deposit" || s.Kind == nil || *s.Kind != "transaction" {
		return "", provider.Malformed("a step that is no payment")
	}
	if s.RequestID == nil || !isRequestID(*s.RequestID) {
		return "", provider.Malformed("a step without the id of its request")
	}
	return *s.RequestID, nil
}

const requestIDLength = 66

func isRequestID(id string) bool {
	return len(id) == requestIDLength && strings.HasPrefix(id, "0x") && strings.Trim(id[2:], "0123456789abcdef") == ""
}

// dryOffer returns the offer that an answer describes. No signature covers it.
func (a quoteAnswer) dryOffer(ask provider.Ask, origin, destination currency) (provider.Offer, error) {
	d := a.Details
	if a.Steps == nil || d == nil || d.CurrencyIn == nil || d.CurrencyOut == nil {
		return provider.Offer{}, provider.Malformed("an answer without its details")
	}
	offer := provider.Offer{Provider: Name}
	if d.TimeEstimate != nil {
		seconds, err := d.TimeEstimate.Int()
		if err != nil || seconds < 0 || time.Duration(seconds)*time.Second > estimateMax {
			return provider.Offer{}, provider.Malformed("an estimate of %s seconds", *d.TimeEstimate)
		}
		offer.Estimate = time.Duration(seconds) * time.Second
	}
	paid, delivered := d.CurrencyIn, d.CurrencyOut
	switch {
	case !paid.isOf(origin) || !delivered.isOf(destination):
		return offer, provider.Malformed("an answer about other currencies")
	case d.Recipient == nil || matchCase(*d.Recipient, string(ask.Recipient), destination.chain) != *d.Recipient:
		return offer, provider.Malformed("an answer with another recipient")
	case paid.Amount == nil || delivered.Amount == nil || delivered.MinimumAmount == nil:
		return offer, provider.Malformed("an answer without an amount")
	}
	for _, s := range *a.Steps {
		if s.DepositAddress != nil && *s.DepositAddress != "" && !ask.IsFirm {
			return offer, provider.Malformed("a dry quote with a deposit address")
		}
	}
	offer.AmountIn, offer.MinAmountIn = *paid.Amount, *paid.Amount
	offer.AmountOut, offer.MinAmountOut = *delivered.Amount, *delivered.MinimumAmount
	return offer, nil
}

func (a *currencyAmount) isOf(c currency) bool {
	return a.Currency != nil && a.Currency.ChainID != nil && *a.Currency.ChainID == c.chain.ID &&
		a.Currency.Address != nil && matchCase(*a.Currency.Address, c.address, c.chain) == *a.Currency.Address
}

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

// refusals are the documented codes that refuse this swap. The other codes are about the service or about our
// account, and would not stand after some time.
var refusals = map[string]bool{
	"AMOUNT_TOO_LOW": true, "CHAIN_DISABLED": true, "INSUFFICIENT_LIQUIDITY": true, "INVALID_ADDRESS": true,
	"INVALID_INPUT_CURRENCY": true, "INVALID_OUTPUT_CURRENCY": true, "INVALID_RECIPIENT": true,
	"INVALID_SLIPPAGE_TOLERANCE": true, "NO_INTERNAL_SWAP_ROUTES_FOUND": true, "NO_QUOTES": true,
	"NO_SWAP_ROUTES_FOUND": true, "ROUTE_TEMPORARILY_RESTRICTED": true, "SANCTIONED_CURRENCY": true,
	"SANCTIONED_WALLET_ADDRESS": true, "SWAP_IMPACT_TOO_HIGH": true, "UNSUPPORTED_CHAIN": true,
	"UNSUPPORTED_CURRENCY": true, "UNSUPPORTED_EXECUTION_TYPE": true, "UNSUPPORTED_ROUTE": true,
}

// decodeRefusal returns the error of an answer with another status than 200.
func decodeRefusal(reply httpjson.Reply) error {
	if reply.Status < http.StatusBadRequest || reply.Status >= http.StatusInternalServerError ||
		reply.HasStatus(http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests) {
		return provider.Unavailable("%w", reply.UnexpectedStatus())
	}
	var answer struct {
		Message   *string        `json:"message"`
		ErrorCode *string        `json:"errorCode"`
		ErrorData jsontext.Value `json:"errorData"`
		RequestID jsontext.Value `json:"requestId"`
	}
	if err := decode(reply, &answer); err != nil {
		return err
	}
	if answer.Message == nil || answer.ErrorCode == nil {
		return provider.Malformed("a refusal without its message or code")
	}
	if !refusals[*answer.ErrorCode] {
		return provider.Unavailable("it answers %s", provider.CleanText(*answer.ErrorCode))
	}
	return provider.Refused(Name, *answer.Message)
}

// Status asks what the provider says of a swap. It does not take the hash of the payment.
func (p *Provider) Status(ctx context.Context, swap provider.Ref, _ chain.TxHash) (provider.Report, error) {
	id, err := findRequestID(swap)
	if err != nil {
		return provider.Report{}, err
	}
	reply, err := p.send(ctx, http.MethodGet, "/intents/status/v3?requestId="+url.QueryEscape(id), nil)
	if err != nil {
		return provider.Report{}, err
	}
	if !reply.HasStatus(http.StatusOK) {
		return provider.Report{}, provider.Unavailable("%w", reply.UnexpectedStatus())
	}
	return decodeReport(reply)
}

// findRequestID returns the name of a swap at the provider, which stands in its quote beside what is signed.
func findRequestID(swap provider.Ref) (string, error) {
	var quoted struct {
		Steps []struct {
			RequestID string `json:"requestId"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(swap.SignedQuote, &quoted); err != nil || len(quoted.Steps) != 1 ||
		!isRequestID(quoted.Steps[0].RequestID) {
		return "", provider.Malformed("the quote of the swap has no id of its request")
	}
	return quoted.Steps[0].RequestID, nil
}

type statusAnswer struct {
	Status             *string          `json:"status"`
	Details            jsontext.Value   `json:"details"`
	InTxHashes         []string         `json:"inTxHashes"`
	TxHashes           []string         `json:"txHashes"`
	UpdatedAt          *httpjson.Number `json:"updatedAt"`
	OriginChainID      jsontext.Value   `json:"originChainId"`
	DestinationChainID jsontext.Value   `json:"destinationChainId"`
	FailReason         *string          `json:"failReason"`
	RefundFailReason   *string          `json:"refundFailReason"`
	DepositAddress     jsontext.Value   `json:"depositAddress"`
}

// statuses are the documented statuses.
var statuses = map[string]provider.Status{
	"waiting":    provider.Waiting,
	"depositing": provider.Waiting,
	"pending":    provider.Processing,
	"submitted":  provider.Processing,
	"delayed":    provider.Processing,
	"success":    provider.Success,
	"refund":     provider.Refunded,
	"failure":    provider.Failed,
}

// noReason stands where there is no reason.
const noReason = "N/A"

func decodeReport(reply httpjson.Reply) (provider.Report, error) {
	var answer statusAnswer
	if err := decode(reply, &answer); err != nil {
		return provider.Report{}, err
	}
	if answer.Status == nil {
		return provider.Report{}, provider.Malformed("a report without its status")
	}
	status, isKnown := statuses[*answer.Status]
	if !isKnown {
		return provider.Report{}, provider.Malformed("the status %q", provider.CleanText(*answer.Status))
	}
	report := provider.Report{
		Provider: Name, Status: status, Word: *answer.Status, Reason: readReason(answer.FailReason), Raw: reply.Body,
	}
	refundReason := readReason(answer.RefundFailReason)
	report.Refund = chooseRefund(status, report.Reason, refundReason)
	if refundReason != "" {
		report.Reason = strings.TrimPrefix(report.Reason+", "+refundReason, ", ")
	}
	var err error
	if report.UpdatedAt, err = readTime(answer.UpdatedAt); err != nil {
		return provider.Report{}, err
	}
	if report.OriginTxs, err = provider.ParseHashes(answer.InTxHashes); err != nil {
		return provider.Report{}, err
	}
	hashes, err := provider.ParseHashes(answer.TxHashes)
	if err != nil {
		return provider.Report{}, err
	}
	if status == provider.Refunded || status == provider.Failed {
		report.RefundTxs = hashes
	} else {
		report.DestinationTxs = hashes
	}
	report.Payers = readDepositor(answer.DepositAddress)
	return report, nil
}

// readDepositor returns who paid the deposit address, where the report says so. The member is documented for
// webhooks alone, so any other form of it names no one.
func readDepositor(text jsontext.Value) []chain.Address {
	var deposit struct {
		Depositor string `json:"depositor"`
	}
	if text.Kind() != '{' || json.Unmarshal(text, &deposit) != nil || deposit.Depositor == "" ||
		provider.CleanText(deposit.Depositor) != deposit.Depositor {
		return nil
	}
	return []chain.Address{chain.Address(deposit.Depositor)}
}

func readReason(reason *string) string {
	if reason == nil || *reason == noReason {
		return ""
	}
	return provider.CleanText(*reason)
}

// readTime reads a time in milliseconds.
func readTime(n *httpjson.Number) (time.Time, error) {
	if n == nil {
		return time.Time{}, provider.Malformed("a report without its time")
	}
	v, err := n.Rat()
	if err != nil || !v.IsInt() || !v.Num().IsInt64() || v.Num().Int64() <= 0 {
		return time.Time{}, provider.Malformed("the time %s", provider.CleanText(string(*n)))
	}
	return time.UnixMilli(v.Num().Int64()).UTC(), nil
}

// chooseRefund returns what a report says of a refund. A reason that is not known needs a person.
func chooseRefund(status provider.Status, reason, refundReason string) provider.RefundReport {
	switch {
	case status != provider.Refunded && status != provider.Failed:
		return provider.RefundNone
	case reason == "BLOCKED_WALLET":
		return provider.RefundManual
	case refundReason == "AMOUNT_TOO_LOW_TO_REFUND", refundReason == "NEGATIVE_NEW_AMOUNT_AFTER_FEES":
		return provider.RefundUnavailable
	case refundReason != "":
		return provider.RefundManual
	case status == provider.Refunded:
		return provider.RefundPending
	}
	return provider.RefundNone
}
