// Package quotetest makes what swap providers sign, with keys of the tests.
//
// It writes the signed texts by itself: a mistake of package signedquote does not repeat here. It has no fixed
// key, and a crash leaves nothing.
package quotetest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/money"
)

// timeFormat is how 1Click writes times.
const timeFormat = "2006-01-02T15:04:05.000Z"

// NewOneClickKey makes a key that signs quotes.
func NewOneClickKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// FormatOneClickKey returns the public half of a key as the provider publishes it.
func FormatOneClickKey(key ed25519.PrivateKey) string {
	return "ed25519:" + base58.Encode(key.Public().(ed25519.PublicKey))
}

// OneClick are the terms of a quote of 1Click.
type OneClick struct {
	DepositAddress, DepositMemo   string
	OriginAsset, DestinationAsset string
	AmountIn                      money.Amount
	MinAmountIn                   money.Amount // zero: AmountIn
	AmountOut, MinAmountOut       money.Amount
	AmountInUSD, AmountOutUSD     string // "": the provider gives no value
	Recipient, RefundTo           string
	RefundFee                     money.Amount
	SlippageBps                   int
	IsFlexible                    bool
	SignedAt, Deadline            time.Time
}

// Answer returns the answer to the request for the quote, not signed yet.
func (q OneClick) Answer() map[string]any {
	kind, minAmountIn := "EXACT_INPUT", q.AmountIn
	if q.IsFlexible {
		kind = "FLEX_INPUT"
	}
	if !q.MinAmountIn.IsZero() {
		minAmountIn = q.MinAmountIn
	}
	value := func(usd string) string {
		if usd == "" {
			return "0"
		}
		return usd
	}
	deadline := q.Deadline.UTC().Format(timeFormat)
	return map[string]any{
		"correlationId": "00000000-0000-4000-8000-000000000000",
		"timestamp":     q.SignedAt.UTC().Format(timeFormat),
		"quoteRequest": map[string]any{
			"dry": false, "depositMode": "SIMPLE", "swapType": kind, "slippageTolerance": q.SlippageBps,
			"originAsset": q.OriginAsset, "depositType": "ORIGIN_CHAIN", "destinationAsset": q.DestinationAsset,
			"amount": q.AmountIn.String(), "refundTo": q.RefundTo, "refundType": "ORIGIN_CHAIN",
			"recipient": q.Recipient, "recipientType": "DESTINATION_CHAIN", "deadline": deadline,
		},
		"quote": map[string]any{
			"amountIn": q.AmountIn.String(), "amountInFormatted": q.AmountIn.String(),
			"amountInUsd": value(q.AmountInUSD), "minAmountIn": minAmountIn.String(),
			"amountOut": q.AmountOut.String(), "amountOutFormatted": q.AmountOut.String(),
			"amountOutUsd": value(q.AmountOutUSD), "minAmountOut": q.MinAmountOut.String(),
			"depositAddress": q.DepositAddress, "depositMemo": q.DepositMemo, "deadline": deadline,
			"timeWhenInactive": deadline, "timeEstimate": 10, "refundFee": q.RefundFee.String(),
		},
	}
}

// Sign returns the answer, signed, as it comes from the provider.
func (q OneClick) Sign(t testing.TB, key ed25519.PrivateKey) []byte {
	t.Helper()
	return SignOneClick(t, key, q.Answer())
}

// SignOneClick signs an answer as the provider does, and returns it as it comes.
func SignOneClick(t testing.TB, key ed25519.PrivateKey, answer map[string]any) []byte {
	t.Helper()
	raw, err := EncodeOneClick(key, answer)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// EncodeOneClick is SignOneClick for a caller that is no test. encoding/json writes the canonical text,
// because it sorts the members of a map.
func EncodeOneClick(key ed25519.PrivateKey, answer map[string]any) ([]byte, error) {
	signed := map[string]any{"timestamp": answer["timestamp"]}
	for _, part := range []string{"quoteRequest", "quote"} {
		members, _ := answer[part].(map[string]any)
		for name, value := range members {
			if isSigned(name, value) {
				signed[name] = value
			}
		}
	}
	text, err := json.Marshal(signed)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	answer["signature"] = "ed25519:" + base58.Encode(ed25519.Sign(key, []byte(base58.Encode(sum[:]))))
	return json.Marshal(answer)
}

// isSigned reports whether the signature covers a member.
func isSigned(name string, value any) bool {
	switch name {
	case "depositMode", "confidentiality", "appFees":
		return false
	case "timeEstimate", "quoteWaitingTimeMs":
		return value != nil && fmt.Sprint(value) != "0"
	}
	return value != "" && value != nil
}
