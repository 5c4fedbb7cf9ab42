// Package signedquote reads and verifies what a swap provider signed: that a payment to its deposit address
// ends as another asset at our delivery address, or comes back to our refund address.
//
// It is pure. The service checks a quote before it makes a swap of it, and the signer checks the same bytes by
// itself before it pays: each with the keys of its own configuration. A quote is a promise, and no proof that
// anything arrives: only a final block is.
package signedquote

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// Scheme says how a provider signs.
type Scheme string

// The schemes.
const (
	OneClickV0   Scheme = "ONE_CLICK_V0"   // ed25519 over the canonical quote of NEAR Intents 1Click
	RelayOrderV1 Scheme = "RELAY_ORDER_V1" // an order of Relay by its EIP-712 hash, signed by its solver
)

// The reasons why a quote cannot be used.
var (
	// ErrMalformed: the bytes have not the form of the scheme. The provider counts as unavailable.
	ErrMalformed = errors.New("the quote has not the form of its scheme")
	// ErrUnsigned: no pinned key signed this quote. It is not paid, and a person has to look at the provider.
	ErrUnsigned = errors.New("no pinned key of the provider signed the quote")
	// ErrOtherTerms: the provider signed something else than what was asked for. It may be a genuine quote of
	// another customer of the provider.
	ErrOtherTerms = errors.New("the signed quote has other terms")
)

// Quote is what the provider signed, with no member that its signature does not cover.
type Quote struct {
	Scheme Scheme
	// IsFlexible says that the provider accepts another amount than the quoted one, from MinAmountIn up.
	IsFlexible bool
	// The address to pay, and the memo that a payment needs there. A quote that asks for a memo is never paid.
	DepositAddress, DepositMemo string
	// The assets as the provider names them.
	OriginAsset, DestinationAsset string
	// Amounts in atomic units: of the origin asset, and of the destination asset.
	AmountIn, MinAmountIn   money.Amount
	AmountOut, MinAmountOut money.Amount
	// Where the provider sends the output, and where it sends the input back.
	Recipient string
	RefundTo  []string
	// RefundFee is what the provider keeps of a refund, in units of the origin asset.
	RefundFee money.Amount
	// The dollar values that the provider gives. Zero: it gives none. They vouch for nothing.
	AmountInUSD, AmountOutUSD money.USD
	SlippageBps               int
	SignedAt                  time.Time // zero: the scheme signs no time
	Deadline                  time.Time // the provider takes no payment after it
	// Estimate is how long the provider expects the swap to take; zero: it does not say.
	Estimate time.Duration
}

// Terms are what a caller asked a provider for. A genuine quote is worth nothing until it has these terms:
// an attacker between the provider and us could put a quote for another recipient in its place.
type Terms struct {
	IsFlexible                    bool
	OriginAsset, DestinationAsset string
	AmountIn                      money.Amount // not compared for a flexible quote
	Recipient, RefundTo           string
	SlippageBpsMax                int
}

// CheckTerms compares a verified quote with what was asked for. Error: ErrOtherTerms, with the term that
// differs.
func (q Quote) CheckTerms(want Terms) error {
	differs := func(term string, got, wanted any) error {
		return fmt.Errorf("%w: %s is %v, not %v", ErrOtherTerms, term, got, wanted)
	}
	switch {
	case q.IsFlexible != want.IsFlexible:
		return differs("flexible input", q.IsFlexible, want.IsFlexible)
	case q.OriginAsset != want.OriginAsset:
		return differs("the origin asset", q.OriginAsset, want.OriginAsset)
	case q.DestinationAsset != want.DestinationAsset:
		return differs("the destination asset", q.DestinationAsset, want.DestinationAsset)
	case !want.IsFlexible && q.AmountIn != want.AmountIn:
		return differs("the amount in", q.AmountIn, want.AmountIn)
	case !want.IsFlexible && q.MinAmountIn != want.AmountIn:
		return differs("the least amount in", q.MinAmountIn, want.AmountIn)
	case q.Recipient != want.Recipient:
		return differs("the recipient", q.Recipient, want.Recipient)
	case q.SlippageBps > want.SlippageBpsMax:
		return differs("the slippage in basis points", q.SlippageBps, want.SlippageBpsMax)
	case q.DepositMemo != "":
		return differs("the memo", q.DepositMemo, "empty")
	}
	for _, refundTo := range q.RefundTo {
		if refundTo != want.RefundTo {
			return differs("a refund address", refundTo, want.RefundTo)
		}
	}
	if len(q.RefundTo) == 0 {
		return differs("the refund address", "missing", want.RefundTo)
	}
	return nil
}

// check refuses a quote that contradicts itself.
func (q Quote) check() error {
	switch {
	case q.DepositAddress == "":
		return fmt.Errorf("%w: no deposit address", ErrMalformed)
	case q.DepositAddress == q.Recipient:
		return fmt.Errorf("%w: its recipient is its deposit address", ErrMalformed)
	case q.AmountIn.IsZero(), q.MinAmountIn.IsZero(), q.AmountOut.IsZero(), q.MinAmountOut.IsZero():
		return fmt.Errorf("%w: an amount is zero", ErrMalformed)
	case q.AmountIn.Less(q.MinAmountIn), q.AmountOut.Less(q.MinAmountOut):
		return fmt.Errorf("%w: an amount is less than its minimum", ErrMalformed)
	case q.SlippageBps < 0 || q.SlippageBps > 10_000:
		return fmt.Errorf("%w: a slippage of %d basis points", ErrMalformed, q.SlippageBps)
	case q.Deadline.IsZero():
		return fmt.Errorf("%w: no deadline", ErrMalformed)
	}
	return nil
}

// parseDollars reads a dollar value of a provider, which may have more digits than ours, and cuts it there: it
// vouches for nothing.
func parseDollars(text string) (money.USD, error) {
	whole, fraction, hasPoint := strings.Cut(text, ".")
	if hasPoint && len(fraction) > 18 {
		text = whole + "." + fraction[:18]
	}
	return money.ParseUSD(text)
}
