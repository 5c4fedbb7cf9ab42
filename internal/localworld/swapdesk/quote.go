package swapdesk

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"time"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/money"
)

const (
	// timeFormat is how 1Click writes times.
	timeFormat = "2006-01-02T15:04:05.000Z"
	// estimateSeconds is how long the desk says that a swap takes.
	estimateSeconds = 10
	bpsMax          = 10_000
	// priceDecimals are the fraction digits of a price.
	priceDecimals = 18
)

var (
	feeUSD    = money.MustParseUSD("0.25") // of a refund and of a withdrawal
	outputUSD = money.MustParseUSD("1.00") // the least output
	dollar    = Asset{Decimals: priceDecimals, Price: money.MustParseUSD("1.00")}
)

// quoteRequest is the body of POST /v0/quote, with the members that the desk serves.
type quoteRequest struct {
	Dry                         *bool           `json:"dry"`
	DepositMode                 string          `json:"depositMode"`
	SwapType                    string          `json:"swapType"`
	SlippageTolerance           json.Number     `json:"slippageTolerance"`
	OriginAsset                 string          `json:"originAsset"`
	DepositType                 string          `json:"depositType"`
	DestinationAsset            string          `json:"destinationAsset"`
	Amount                      string          `json:"amount"`
	RefundTo                    string          `json:"refundTo"`
	RefundType                  string          `json:"refundType"`
	Recipient                   string          `json:"recipient"`
	RecipientType               string          `json:"recipientType"`
	Deadline                    string          `json:"deadline"`
	QuoteWaitingTimeMs          json.Number     `json:"quoteWaitingTimeMs,omitempty"`
	Referral                    string          `json:"referral,omitempty"`
	AppFees                     json.RawMessage `json:"appFees,omitempty"`
	VirtualChainRecipient       string          `json:"virtualChainRecipient,omitempty"`
	VirtualChainRefundRecipient string          `json:"virtualChainRefundRecipient,omitempty"`
	CustomRecipientMsg          string          `json:"customRecipientMsg,omitempty"`
}

// quoteTerms are the member quote of the answer.
type quoteTerms struct {
	AmountIn           string `json:"amountIn"`
	AmountInFormatted  string `json:"amountInFormatted"`
	AmountInUsd        string `json:"amountInUsd"`
	MinAmountIn        string `json:"minAmountIn"`
	AmountOut          string `json:"amountOut"`
	AmountOutFormatted string `json:"amountOutFormatted"`
	AmountOutUsd       string `json:"amountOutUsd"`
	MinAmountOut       string `json:"minAmountOut"`
	TimeEstimate       int    `json:"timeEstimate"`
	RefundFee          string `json:"refundFee"`
	WithdrawFee        string `json:"withdrawFee"`
	Deadline           string `json:"deadline,omitempty"`
	TimeWhenInactive   string `json:"timeWhenInactive,omitempty"`
	DepositAddress     string `json:"depositAddress,omitempty"`
}

// answer is the answer to a request for a quote.
type answer struct {
	CorrelationID string         `json:"correlationId"`
	Timestamp     string         `json:"timestamp"`
	Signature     string         `json:"signature"`
	QuoteRequest  map[string]any `json:"quoteRequest"`
	Quote         quoteTerms     `json:"quote"`
}

// refused is a 400 of the API.
type refused string

// Error returns the message.
func (r refused) Error() string { return string(r) }

// terms are a request that was checked.
type terms struct {
	request             quoteRequest
	origin, destination Asset
	amount              money.Amount
	slippageBps         uint64
	deadline            time.Time
}

// checkRequest checks a request as the API does. The caller holds the lock.
func (d *Server) checkRequest(r quoteRequest, now time.Time) (t terms, err error) {
	t.request = r
	var hasOrigin, hasDestination bool
	t.origin, hasOrigin = d.asset(r.OriginAsset)
	t.destination, hasDestination = d.asset(r.DestinationAsset)
	slippage, slippageErr := r.SlippageTolerance.Int64()
	switch {
	case r.Dry == nil:
		return t, refused("dry must be a boolean value")
	case r.SwapType != "EXACT_INPUT" && r.SwapType != "FLEX_INPUT":
		return t, refused("swapType must be one of EXACT_INPUT, FLEX_INPUT at the local provider")
	case r.DepositMode != "" && r.DepositMode != "SIMPLE":
		return t, refused("depositMode must be SIMPLE at the local provider")
	case r.DepositType != "ORIGIN_CHAIN" || r.RefundType != "ORIGIN_CHAIN" || r.RecipientType != "DESTINATION_CHAIN":
		return t, refused("depositType, refundType and recipientType must name the chains at the local provider")
	case r.VirtualChainRecipient != "" || r.VirtualChainRefundRecipient != "" || r.CustomRecipientMsg != "":
		return t, refused("virtual chains and messages are not available at the local provider")
	case !hasOrigin || !hasDestination:
		return t, refused("tokenIn or tokenOut is not supported")
	case t.origin.ID() == t.destination.ID():
		return t, refused("originAsset and destinationAsset must differ")
	case slippageErr != nil || slippage < 0 || slippage > bpsMax:
		return t, refused("slippageTolerance must be a number from 0 to 10000")
	}
	t.slippageBps = uint64(slippage)
	if t.amount, err = money.Parse(r.Amount); err != nil || t.amount.IsZero() {
		return t, refused("amount must be a positive integer")
	}
	if t.deadline, err = time.Parse(time.RFC3339, r.Deadline); err != nil || !t.deadline.After(now) {
		return t, refused("deadline must be a time in the future")
	}
	if err := d.chains[t.origin.Chain].CheckAddress(r.RefundTo); err != nil {
		return t, refused("refundTo is not valid")
	}
	if err := d.chains[t.destination.Chain].CheckAddress(r.Recipient); err != nil {
		return t, refused("recipient is not valid")
	}
	return t, nil
}

// asset returns an asset with its present price. The caller holds the lock.
func (d *Server) asset(id string) (Asset, bool) {
	a, isKnown := d.assets[id]
	if price, isSet := d.settings.Prices[id]; isSet {
		a.Price = price
	}
	return a, isKnown
}

// priceQuote computes the terms of a quote. Its amounts are net of the withdrawal's fee.
func (d *Server) priceQuote(t terms, mode Mode) (s swap, q quoteTerms, err error) {
	withdrawFee := d.convertAmount(dollars(feeUSD), dollar, t.destination)
	s = swap{
		Origin: t.origin, Destination: t.destination, AmountIn: t.amount, MinAmountIn: t.amount,
		IsFlexible: t.request.SwapType == "FLEX_INPUT", Phase: phaseWaiting,
		RefundFee: d.convertAmount(dollars(feeUSD), dollar, t.origin),
		Recipient: t.request.Recipient, RefundTo: t.request.RefundTo, RefundsFrom: t.deadline,
		Deadline: t.deadline.Add(d.cfg.DepositWindow),
	}
	if window := d.settings.DepositWindow; window != nil {
		s.Deadline = t.deadline.Add(time.Duration(*window))
	}
	if s.IsFlexible {
		s.MinAmountIn = atLeastOne(scaleBps(t.amount, bpsMax-t.slippageBps))
	}
	gross := scaleBps(d.convertAmount(t.amount, t.origin, t.destination), bpsMax-d.cfg.SpreadBps)
	if mode == ModePrice {
		gross = scaleBps(gross, bpsMax*4/5)
	}
	s.AmountOut = money.SubOrZero(gross, withdrawFee)
	if s.AmountOut.Less(d.convertAmount(dollars(outputUSD), dollar, t.destination)) {
		minAmount := d.convertAmount(sumAmounts(dollars(outputUSD), dollars(outputUSD)), dollar, t.origin)
		return s, q, refused("Amount is too low for bridge, try at least " + minAmount.String())
	}
	s.MinAmountOut = atLeastOne(scaleBps(s.AmountOut, bpsMax-t.slippageBps))
	q = quoteTerms{
		AmountIn: s.AmountIn.String(), AmountInFormatted: s.AmountIn.Decimal(t.origin.Decimals),
		AmountInUsd: formatValue(s.AmountIn, t.origin), MinAmountIn: s.MinAmountIn.String(),
		AmountOut: s.AmountOut.String(), AmountOutFormatted: s.AmountOut.Decimal(t.destination.Decimals),
		AmountOutUsd: formatValue(s.AmountOut, t.destination), MinAmountOut: s.MinAmountOut.String(),
		TimeEstimate: estimateSeconds, RefundFee: s.RefundFee.String(), WithdrawFee: withdrawFee.String(),
	}
	return s, q, nil
}

// makeQuote answers a request. A firm quote is stored before it is answered. The caller holds the lock.
func (d *Server) makeQuote(t terms) (answer, error) {
	now := d.cfg.Now().UTC()
	isDry, behaviour := *t.request.Dry, Behaviour{Mode: ModeNone}
	if !isDry {
		var err error
		if behaviour, err = d.takeBehaviour(swapModes, callFirm, t.origin, t.destination); err != nil {
			return answer{}, err
		}
	}
	s, q, err := d.priceQuote(t, behaviour.Mode)
	if err != nil {
		return answer{}, err
	}
	a := answer{
		CorrelationID: newUUID(), Timestamp: now.Format(timeFormat), QuoteRequest: t.request.members(), Quote: q,
	}
	if isDry {
		return a, signAnswer(&a, d.key)
	}
	s.Behaviour, s.CorrelationID, s.UpdatedAt, s.Wallet = behaviour, a.CorrelationID, now, d.wallets+1
	s.DepositAddress = d.chains[t.origin.Chain].WalletAddress(s.Wallet)
	key := d.key
	switch behaviour.Mode {
	case ModeBadSignature:
		key = d.strangerKey()
	case ModeOtherRecipient:
		s.Recipient = d.chains[t.destination.Chain].WalletAddress(strangerWallet)
		a.QuoteRequest["recipient"] = s.Recipient
	case ModeOurAddress:
		s.DepositAddress = s.RefundTo
	case ModeOtherToken, ModeOtherChain, ModeRefundOther:
		if err := d.checkOther(s); err != nil {
			return answer{}, err
		}
	}
	a.Quote.DepositAddress = s.DepositAddress
	a.Quote.Deadline = s.Deadline.UTC().Format(timeFormat)
	a.Quote.TimeWhenInactive = a.Quote.Deadline
	if err := signAnswer(&a, key); err != nil {
		return answer{}, err
	}
	if behaviour.Mode == ModeOurAddress {
		return a, nil // the address is not the desk's, so nothing that comes there is a deposit
	}
	s.Answer = a
	if err := d.store.appendRecords(record{Swap: &s}); err != nil {
		return answer{}, err
	}
	d.addSwap(&s)
	return a, nil
}

// checkOther refuses a quote whose mode needs another asset where there is none.
func (d *Server) checkOther(s swap) error {
	isPossible := false
	switch s.Behaviour.Mode {
	case ModeOtherToken:
		isPossible = d.otherAsset(s.Destination).Chain != ""
	case ModeRefundOther:
		isPossible = d.otherAsset(s.Origin).Chain != ""
	case ModeOtherChain:
		_, _, isPossible = d.otherChain(s.Origin, s.Destination, s.Recipient, s.RefundTo)
	}
	if !isPossible {
		return refused(fmt.Sprintf("the local provider has no asset for the behaviour %s", s.Behaviour.Mode))
	}
	return nil
}

// members returns the request as the answer repeats it.
func (r quoteRequest) members() map[string]any {
	members := map[string]any{
		"dry": *r.Dry, "depositMode": "SIMPLE", "swapType": r.SwapType, "slippageTolerance": r.SlippageTolerance,
		"originAsset": r.OriginAsset, "depositType": r.DepositType, "destinationAsset": r.DestinationAsset,
		"amount": r.Amount, "refundTo": r.RefundTo, "refundType": r.RefundType, "recipient": r.Recipient,
		"recipientType": r.RecipientType, "deadline": r.Deadline, "confidentiality": "public",
	}
	if r.QuoteWaitingTimeMs != "" {
		members["quoteWaitingTimeMs"] = r.QuoteWaitingTimeMs
	}
	if r.Referral != "" {
		members["referral"] = r.Referral
	}
	if len(r.AppFees) > 0 {
		members["appFees"] = r.AppFees
	}
	return members
}

// unsignedMembers are those of the request that the signature does not cover.
var unsignedMembers = []string{"depositMode", "confidentiality", "appFees"}

// signAnswer signs an answer as 1Click does: the base58 text of the hash of the sorted members of request
// and quote, where the quote's replace the request's of the same name. Empty members are absent.
func signAnswer(a *answer, key ed25519.PrivateKey) error {
	members := maps.Clone(a.QuoteRequest)
	for _, name := range unsignedMembers {
		delete(members, name)
	}
	if fmt.Sprint(members["quoteWaitingTimeMs"]) == "0" {
		delete(members, "quoteWaitingTimeMs")
	}
	raw, err := json.Marshal(a.Quote)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var q map[string]any
	if err := decoder.Decode(&q); err != nil {
		return err
	}
	if members["dry"] == true {
		for _, name := range []string{"timeEstimate", "refundFee", "withdrawFee"} {
			delete(q, name)
		}
	}
	maps.Copy(members, q)
	members["timestamp"] = a.Timestamp
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil { // sorts members
		return err
	}
	digest := sha256.Sum256(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	a.Signature = KeyPrefix + base58.Encode(ed25519.Sign(key, []byte(base58.Encode(digest[:]))))
	return nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// dollars returns a value as an amount of dollar.
func dollars(value money.USD) money.Amount { return priceUnits(value) }

func priceUnits(price money.USD) money.Amount {
	units, err := money.ParseDecimal(price.String(), priceDecimals)
	if err != nil {
		panic("swapdesk: a price that is no price: " + err.Error())
	}
	return units
}

// convertAmount returns what an amount of one asset is worth in another one, rounded down.
func (d *Server) convertAmount(amount money.Amount, from, to Asset) money.Amount {
	price := priceUnits(to.Price)
	if price.IsZero() {
		return money.Zero
	}
	value := new(big.Int).Mul(amount.Big(), priceUnits(from.Price).Big())
	value.Mul(value, powerOfTen(to.Decimals))
	return mustAmount(value.Div(value, new(big.Int).Mul(price.Big(), powerOfTen(from.Decimals))))
}

func powerOfTen(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func mustAmount(n *big.Int) money.Amount {
	amount, err := money.FromBig(n)
	if err != nil {
		return money.Zero // more than 2^256 units: no quote
	}
	return amount
}

// scaleAmount returns amount × numerator / denominator, rounded down.
func scaleAmount(amount, numerator, denominator money.Amount) money.Amount {
	product := new(big.Int).Mul(amount.Big(), numerator.Big())
	return mustAmount(product.Div(product, denominator.Big()))
}

func scaleBps(amount money.Amount, bps uint64) money.Amount {
	return scaleAmount(amount, money.Units(bps), money.Units(bpsMax))
}

// atLeastOne returns an amount, and one unit instead of none.
func atLeastOne(amount money.Amount) money.Amount {
	if amount.IsZero() {
		return money.Units(1)
	}
	return amount
}

// formatValue formats what an amount is worth, with the twelve digits that 1Click gives.
func formatValue(amount money.Amount, a Asset) string {
	value, err := money.ValueOf(amount, a.Decimals, a.Price)
	if err != nil {
		return "0"
	}
	micro := scaleAmount(priceUnits(value), money.Units(1), money.Units(1_000_000))
	return micro.Decimal(12)
}
