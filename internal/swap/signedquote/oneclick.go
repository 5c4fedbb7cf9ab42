package signedquote

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/money"
)

const (
	oneClickKeyPrefix = "ed25519:"
	oneClickBytesMax  = 64 << 10 // of an answer that is read at all
	// textBytesMax bounds one signed text.
	textBytesMax = 1000
	// numberMax is the largest integer that every JSON library keeps exactly.
	numberMax = 1 << 53
)

// ParseOneClickKey reads a key as the provider publishes it: ed25519: and base58.
func ParseOneClickKey(text string) (ed25519.PublicKey, error) {
	raw, err := decodeOneClick(text, ed25519.PublicKeySize)
	if err != nil {
		return nil, fmt.Errorf("the key %q: %w", text, err)
	}
	return raw, nil
}

func decodeOneClick(text string, size int) ([]byte, error) {
	encoded, hasPrefix := strings.CutPrefix(text, oneClickKeyPrefix)
	if !hasPrefix {
		return nil, fmt.Errorf("it does not begin with %s", oneClickKeyPrefix)
	}
	raw, err := base58.Decode(encoded)
	if err != nil {
		return nil, err
	}
	if len(raw) != size {
		return nil, fmt.Errorf("it has %d bytes, not %d", len(raw), size)
	}
	return raw, nil
}

// oneClickAnswer is the answer to a request for a quote, with the members that the signature covers. The
// form is that of the provider's SDK, of June 2026.
type oneClickAnswer struct {
	Timestamp    string
	Signature    string
	QuoteRequest oneClickRequest
	Quote        oneClickQuote
}

type oneClickRequest struct {
	Dry                         *bool
	SwapType                    string
	SlippageTolerance           json.Number
	OriginAsset                 string
	DepositType                 string
	DestinationAsset            string
	Amount                      string
	RefundTo                    string
	RefundType                  string
	Recipient                   string
	RecipientType               string
	Deadline                    string
	QuoteWaitingTimeMs          json.Number
	Referral                    string
	VirtualChainRecipient       string
	VirtualChainRefundRecipient string
	CustomRecipientMsg          string
}

type oneClickQuote struct {
	AmountIn                    string
	AmountInFormatted           string
	AmountInUsd                 string
	MinAmountIn                 string
	AmountOut                   string
	AmountOutFormatted          string
	AmountOutUsd                string
	MinAmountOut                string
	DepositAddress              string
	DepositMemo                 string
	Deadline                    string
	TimeWhenInactive            string
	TimeEstimate                json.Number
	RefundFee                   string
	WithdrawFee                 string
	VirtualChainRecipient       string
	VirtualChainRefundRecipient string
	CustomRecipientMsg          string
}

// VerifyOneClick verifies an answer of 1Click to a request for a firm quote, as it came. It returns what the
// provider signed. Errors: ErrMalformed, ErrUnsigned.
//
// The signature does not cover the deadline that was asked for, but the one of the answer, and neither the
// fees of an app nor the mode of the deposit: a memo shows the latter.
func VerifyOneClick(raw []byte, keys []ed25519.PublicKey) (Quote, error) {
	a, err := readOneClick(raw)
	if err != nil {
		return Quote{}, err
	}
	message, err := a.message()
	if err != nil {
		return Quote{}, err
	}
	signature, err := decodeOneClick(a.Signature, ed25519.SignatureSize)
	if err != nil {
		return Quote{}, fmt.Errorf("%w: its signature: %w", ErrUnsigned, err)
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, signature) {
			return a.quote()
		}
	}
	return Quote{}, ErrUnsigned
}

// ReadOneClick reads an answer that was verified before, such as one of the signer's journal, whatever keys the
// provider has now. Error: ErrMalformed.
func ReadOneClick(raw []byte) (Quote, error) {
	a, err := readOneClick(raw)
	if err != nil {
		return Quote{}, err
	}
	return a.quote()
}

func readOneClick(raw []byte) (a oneClickAnswer, err error) {
	if len(raw) > oneClickBytesMax {
		return a, fmt.Errorf("%w: %d bytes", ErrMalformed, len(raw))
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&a); err != nil {
		return a, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return a, fmt.Errorf("%w: more than one JSON value", ErrMalformed)
	}
	if a.QuoteRequest.Dry == nil || *a.QuoteRequest.Dry {
		return a, fmt.Errorf("%w: a dry quote has no deposit address", ErrMalformed)
	}
	return a, nil
}

// canonical collects members and writes them as the provider's stringify does: sorted, without spaces.
type canonical struct {
	members map[string]string
	err     error
}

// text adds a text that is always there.
func (c *canonical) text(name, value string) {
	if c.err != nil {
		return
	}
	if value == "" || len(value) > textBytesMax {
		c.err = fmt.Errorf("%w: %s has %d characters", ErrMalformed, name, len(value))
		return
	}
	for _, r := range value {
		// Libraries of JSON differ in how they escape anything else.
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			c.err = fmt.Errorf("%w: %s has the character %q", ErrMalformed, name, r)
			return
		}
	}
	c.members[name] = `"` + value + `"`
}

// optional adds a text that is absent when it is empty.
func (c *canonical) optional(name, value string) {
	if value != "" {
		c.text(name, value)
	}
}

// number adds a whole number.
func (c *canonical) number(name string, value json.Number) {
	if c.err != nil {
		return
	}
	n, err := strconv.ParseInt(value.String(), 10, 64)
	if err != nil || n < 0 || n > numberMax || strconv.FormatInt(n, 10) != value.String() {
		c.err = fmt.Errorf("%w: %s is %q, not a whole number", ErrMalformed, name, value)
		return
	}
	c.members[name] = value.String()
}

// optionalNumber adds a whole number that is absent when it is zero.
func (c *canonical) optionalNumber(name string, value json.Number) {
	if value != "" && value != "0" {
		c.number(name, value)
	}
}

func (c *canonical) bytes() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(c.members)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":` + c.members[name])
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// message returns the signed text. The members of the quote replace those of the request that have the same
// name, as the spread of the provider's SDK does.
func (a oneClickAnswer) message() ([]byte, error) {
	c := &canonical{members: map[string]string{"dry": "false"}}
	r, q := a.QuoteRequest, a.Quote
	c.text("swapType", r.SwapType)
	c.number("slippageTolerance", r.SlippageTolerance)
	c.text("originAsset", r.OriginAsset)
	c.text("depositType", r.DepositType)
	c.text("destinationAsset", r.DestinationAsset)
	c.text("amount", r.Amount)
	c.text("refundTo", r.RefundTo)
	c.text("refundType", r.RefundType)
	c.text("recipient", r.Recipient)
	c.text("recipientType", r.RecipientType)
	c.text("deadline", r.Deadline)
	c.optionalNumber("quoteWaitingTimeMs", r.QuoteWaitingTimeMs)
	c.optional("referral", r.Referral)
	c.optional("virtualChainRecipient", r.VirtualChainRecipient)
	c.optional("virtualChainRefundRecipient", r.VirtualChainRefundRecipient)
	c.optional("customRecipientMsg", r.CustomRecipientMsg)

	c.text("amountIn", q.AmountIn)
	c.text("amountInFormatted", q.AmountInFormatted)
	c.text("amountInUsd", q.AmountInUsd)
	c.text("minAmountIn", q.MinAmountIn)
	c.text("amountOut", q.AmountOut)
	c.text("amountOutFormatted", q.AmountOutFormatted)
	c.text("amountOutUsd", q.AmountOutUsd)
	c.text("minAmountOut", q.MinAmountOut)
	c.optional("depositAddress", q.DepositAddress)
	c.optional("depositMemo", q.DepositMemo)
	c.optional("deadline", q.Deadline)
	c.optional("timeWhenInactive", q.TimeWhenInactive)
	c.optionalNumber("timeEstimate", q.TimeEstimate)
	c.optional("refundFee", q.RefundFee)
	c.optional("withdrawFee", q.WithdrawFee)
	c.optional("virtualChainRecipient", q.VirtualChainRecipient)
	c.optional("virtualChainRefundRecipient", q.VirtualChainRefundRecipient)
	c.optional("customRecipientMsg", q.CustomRecipientMsg)

	c.text("timestamp", a.Timestamp)
	text, err := c.bytes()
	if err != nil {
		return nil, err
	}
	return digestText(text), nil
}

// digestText returns what is signed of a canonical text: the letters of its hash.
func digestText(text []byte) []byte {
	sum := sha256.Sum256(text)
	return []byte(base58.Encode(sum[:]))
}

// quote returns what a verified answer promises. It refuses what goes beyond a plain transfer on both chains.
func (a oneClickAnswer) quote() (Quote, error) {
	r, q := a.QuoteRequest, a.Quote
	for _, text := range []string{
		r.VirtualChainRecipient, r.VirtualChainRefundRecipient, r.CustomRecipientMsg,
		q.VirtualChainRecipient, q.VirtualChainRefundRecipient, q.CustomRecipientMsg,
	} {
		if text != "" {
			return Quote{}, fmt.Errorf("%w: a virtual chain or a message, %q", ErrMalformed, text)
		}
	}
	if r.DepositType != "ORIGIN_CHAIN" || r.RefundType != "ORIGIN_CHAIN" || r.RecipientType != "DESTINATION_CHAIN" {
		return Quote{}, fmt.Errorf("%w: it does not go from chain to chain", ErrMalformed)
	}
	if r.SwapType != "EXACT_INPUT" && r.SwapType != "FLEX_INPUT" {
		return Quote{}, fmt.Errorf("%w: the kind of swap %q", ErrMalformed, r.SwapType)
	}
	result := Quote{
		Scheme: OneClickV0, IsFlexible: r.SwapType == "FLEX_INPUT",
		DepositAddress: q.DepositAddress, DepositMemo: q.DepositMemo,
		OriginAsset: r.OriginAsset, DestinationAsset: r.DestinationAsset,
		Recipient: r.Recipient, RefundTo: []string{r.RefundTo},
	}
	var p parser
	result.AmountIn = p.amount("amountIn", q.AmountIn)
	result.MinAmountIn = p.amount("minAmountIn", q.MinAmountIn)
	result.AmountOut = p.amount("amountOut", q.AmountOut)
	result.MinAmountOut = p.amount("minAmountOut", q.MinAmountOut)
	if q.RefundFee != "" {
		result.RefundFee = p.amount("refundFee", q.RefundFee)
	}
	result.AmountInUSD = p.dollars("amountInUsd", q.AmountInUsd)
	result.AmountOutUSD = p.dollars("amountOutUsd", q.AmountOutUsd)
	result.SlippageBps = int(p.number("slippageTolerance", r.SlippageTolerance))
	result.Estimate = time.Duration(p.number("timeEstimate", q.TimeEstimate)) * time.Second
	result.SignedAt = p.time("timestamp", a.Timestamp)
	// The deadline that counts is the one of the answer, and a deposit after the address went inactive is slow.
	result.Deadline = p.time("deadline", q.Deadline)
	if q.TimeWhenInactive != "" {
		if inactive := p.time("timeWhenInactive", q.TimeWhenInactive); inactive.Before(result.Deadline) {
			result.Deadline = inactive
		}
	}
	if asked := p.amount("amount", r.Amount); !result.IsFlexible && asked != result.AmountIn {
		return Quote{}, fmt.Errorf("%w: an amount in of %s for the amount %s", ErrMalformed, q.AmountIn, r.Amount)
	}
	if p.err != nil {
		return Quote{}, p.err
	}
	return result, result.check()
}

// parser keeps the first error of several values.
type parser struct{ err error }

func (p *parser) fail(name, text string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s is %q", ErrMalformed, name, text)
	}
}

func (p *parser) amount(name, text string) money.Amount {
	amount, err := money.Parse(text)
	if err != nil {
		p.fail(name, text)
	}
	return amount
}

func (p *parser) dollars(name, text string) money.USD {
	value, err := parseDollars(text)
	if err != nil {
		p.fail(name, text)
	}
	return value
}

func (p *parser) number(name string, n json.Number) int64 {
	if n == "" {
		return 0
	}
	value, err := strconv.ParseInt(n.String(), 10, 32)
	if err != nil {
		p.fail(name, n.String())
	}
	return value
}

func (p *parser) time(name, text string) time.Time {
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.fail(name, text)
	}
	return moment.UTC()
}
