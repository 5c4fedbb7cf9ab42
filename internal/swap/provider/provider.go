// Package provider is the port to the services that swap one asset for another: what is asked of them, what
// they offer and report, and the panel that chooses between them.
//
// A provider is not trusted. Its offer counts only where it is signed and the signature was verified with
// pinned keys; its report about a swap is never proof that value moved. Nothing here credits, fails or pays a
// swap. No provider is asked inside a transaction. A crash leaves nothing: at most a provider made a deposit
// address that is never paid.
package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// Provider swaps assets. Its methods may be repeated after any error and are safe for concurrent use. The
// caller bounds the time. The errors are RefusedError, ErrNotServed, ErrUnavailable (ErrMalformed is one) and
// ErrUntrusted; a caller treats any other error as ErrUnavailable.
type Provider interface {
	// Name returns the provider's name in the API, such as ONE_CLICK.
	Name() string
	// Assets returns what the provider swaps. It may be a list of some minutes ago.
	Assets(ctx context.Context) ([]Asset, error)
	// Quote asks for an offer. A dry question leaves no state at the provider. The offer of a firm one has the
	// address to pay, is signed, and has exactly the terms of the question.
	Quote(ctx context.Context, ask Ask) (Offer, error)
	// Status asks what the provider says of a swap, and tells it the hash of the payment where that helps: it
	// may be empty. Reports are passed on as they come, also if they go backwards or contradict each other.
	Status(ctx context.Context, swap Ref, payment chain.TxHash) (Report, error)
}

// Verifier is a Provider whose signed quotes can be verified again when they are read from a database. It has
// no state and asks no one.
type Verifier interface {
	// VerifyQuote verifies a firm quote with the pinned keys. Errors: ErrUntrusted, ErrMalformed.
	VerifyQuote(raw []byte) (signedquote.Quote, error)
}

// Token is a coin of a chain, or a token by its contract. No token is known by its symbol.
type Token struct {
	// Chain may be one that no installation runs: deposit swaps take tokens of other chains.
	Chain    chain.Name
	Contract chain.Address // "" for the coin of the chain
}

// nativeName stands for the coin of a chain where a token is one text.
const nativeName = "native"

// String returns the chain and the contract, such as BITCOIN:native.
func (t Token) String() string {
	if t.Contract == "" {
		return string(t.Chain) + ":" + nativeName
	}
	return string(t.Chain) + ":" + string(t.Contract)
}

// ParseToken parses the text form of a token.
func ParseToken(text string) (Token, error) {
	name, contract, hasContract := strings.Cut(text, ":")
	if !hasContract || name == "" || contract == "" || name != strings.ToUpper(name) {
		return Token{}, fmt.Errorf("%q is not a token such as ETHEREUM:0xdac1… or BITCOIN:%s", CleanText(text),
			nativeName)
	}
	if contract == nativeName {
		contract = ""
	}
	return Token{Chain: chain.Name(name), Contract: chain.Address(contract)}.Canonical(), nil
}

// Canonical returns the form in which tokens are compared. The case of letters does not matter in a hexadecimal
// address, and matters in every other one.
func (t Token) Canonical() Token {
	if lower := strings.ToLower(string(t.Contract)); strings.HasPrefix(lower, "0x") &&
		strings.Trim(lower[2:], "0123456789abcdef") == "" {
		t.Contract = chain.Address(lower)
	}
	return t
}

// Asset is a token as a provider knows it.
type Asset struct {
	Token
	ID       string // as the provider names it, also in what it signs
	Symbol   string // for display only: any issuer can choose any symbol
	Decimals int
	// Accepts and Delivers say whether it can be paid to the provider, and by it. AcceptsAny says that an offer
	// for it may be paid with another amount than the quoted one.
	Accepts, Delivers, AcceptsAny bool
	// PriceUSD is what the provider says that a whole token is worth; zero: it does not say. It vouches for
	// nothing.
	PriceUSD money.USD
}

// FindAsset returns the asset of a token.
func FindAsset(assets []Asset, token Token) (Asset, bool) {
	token = token.Canonical()
	for _, a := range assets {
		if a.Token == token {
			return a, true
		}
	}
	return Asset{}, false
}

// FindPair returns the assets of a swap. Error: ErrNotServed.
func FindPair(assets []Asset, ask Ask) (origin, destination Asset, err error) {
	origin, hasOrigin := FindAsset(assets, ask.Origin)
	destination, hasDestination := FindAsset(assets, ask.Destination)
	switch {
	case !hasOrigin || !origin.Accepts:
		return origin, destination, fmt.Errorf("%w: it does not take %s", ErrNotServed, ask.Origin)
	case !hasDestination || !destination.Delivers:
		return origin, destination, fmt.Errorf("%w: it does not deliver %s", ErrNotServed, ask.Destination)
	case ask.IsFlexible && !origin.AcceptsAny:
		return origin, destination, fmt.Errorf("%w: it signs one amount of %s", ErrNotServed, ask.Origin)
	}
	return origin, destination, nil
}

// Ask is a question for an offer.
type Ask struct {
	// IsFirm asks for an address to pay. A dry question leaves no state.
	IsFirm bool
	// IsFlexible lets the payment have another amount than AmountIn.
	IsFlexible          bool
	Origin, Destination Token
	AmountIn            money.Amount
	// Recipient gets the output, and RefundTo gets the input back.
	Recipient, RefundTo chain.Address
	SlippageBps         int
	// MinAmountOut is the least that the caller accepts. No provider sees it: it would become the offer.
	MinAmountOut money.Amount
	// Deadline is when the provider begins to refund. It may sign another one, which counts.
	Deadline time.Time
	// Reference names the question in logs. No provider sees it.
	Reference string
}

// SlippageBpsMax is all of the amount.
const SlippageBpsMax = 10_000

// Validate refuses a question that no caller may ask.
func (a Ask) Validate() error {
	switch {
	case a.Origin.Chain == "" || a.Destination.Chain == "":
		return errors.New("a swap without its chains")
	case a.Origin.Canonical() == a.Destination.Canonical():
		return fmt.Errorf("a swap of %s for itself", a.Origin)
	case a.AmountIn.IsZero():
		return errors.New("a swap of nothing")
	case a.Recipient == "" || a.RefundTo == "":
		return errors.New("a swap without its addresses")
	case a.SlippageBps < 0 || a.SlippageBps > SlippageBpsMax:
		return fmt.Errorf("a slippage of %d basis points", a.SlippageBps)
	case a.Deadline.IsZero():
		return errors.New("a swap without a deadline")
	}
	return nil
}

// Offer is a provider's answer to a question.
type Offer struct {
	Provider                string
	AmountIn, MinAmountIn   money.Amount
	AmountOut, MinAmountOut money.Amount
	// RefundFee is what the provider keeps of a refund, as far as it says so.
	RefundFee money.Amount
	// The dollar values of the provider. Zero: it gives none. They vouch for nothing.
	AmountInUSD, AmountOutUSD money.USD
	// Estimate is how long the provider expects the swap to take; zero: it does not say.
	Estimate time.Duration
	// Signed is what the provider signed of a firm offer, verified. A dry offer has none.
	Signed signedquote.Quote
	// Raw is the signed answer as it came: what the signer verifies again.
	Raw []byte
}

// IsFirm reports whether the offer is signed and has an address to pay.
func (o Offer) IsFirm() bool { return len(o.Raw) > 0 }

// NewFirmOffer returns the offer of a verified quote.
func NewFirmOffer(name string, raw []byte, q signedquote.Quote) Offer {
	return Offer{
		Provider: name, AmountIn: q.AmountIn, MinAmountIn: q.MinAmountIn, AmountOut: q.AmountOut,
		MinAmountOut: q.MinAmountOut, RefundFee: q.RefundFee, AmountInUSD: q.AmountInUSD,
		AmountOutUSD: q.AmountOutUSD, Estimate: q.Estimate, Signed: q, Raw: raw,
	}
}

// CheckAmounts compares an offer with its question. Error: ErrMalformed.
//
// The least amount has to follow from the slippage that was asked for: a provider could otherwise promise
// nothing, with a slippage that looks small.
func (o Offer) CheckAmounts(ask Ask) error {
	switch {
	case !ask.IsFlexible && (o.AmountIn != ask.AmountIn || o.MinAmountIn != ask.AmountIn):
		return Malformed("an amount in of %s to %s for %s", o.MinAmountIn, o.AmountIn, ask.AmountIn)
	case o.AmountIn.IsZero() || o.MinAmountIn.IsZero() || o.AmountOut.IsZero() || o.MinAmountOut.IsZero():
		return Malformed("an amount is zero")
	case o.AmountIn.Less(o.MinAmountIn) || o.AmountOut.Less(o.MinAmountOut):
		return Malformed("an amount is less than its minimum")
	}
	floor, err := o.AmountOut.Bps(uint64(SlippageBpsMax - ask.SlippageBps))
	if err != nil {
		return Malformed("an amount out of %s", o.AmountOut)
	}
	if o.MinAmountOut.Less(floor) {
		return Malformed("at least %s of %s, with a slippage of %d basis points", o.MinAmountOut, o.AmountOut,
			ask.SlippageBps)
	}
	return nil
}

// Ref names a swap at its provider: by the address that was paid, and by the signed quote with that address.
type Ref struct {
	DepositAddress string
	SignedQuote    []byte
}

// Status is where a swap is, by its provider.
type Status string

// The statuses. None of them proves anything, and none is final: a provider was seen to go back to WAITING
// right before SUCCESS, and to report SUCCESS for a swap that it refunded.
const (
	Waiting    Status = "WAITING"    // the provider sees no payment, or has not confirmed it
	Incomplete Status = "INCOMPLETE" // the payment was too small
	Processing Status = "PROCESSING"
	Success    Status = "SUCCESS"
	Refunded   Status = "REFUNDED"
	Failed     Status = "FAILED"
)

// Statuses lists all statuses.
var Statuses = []Status{Waiting, Incomplete, Processing, Success, Refunded, Failed}

// RefundReport is what a provider says of a refund.
type RefundReport string

// The reports of a refund.
const (
	RefundNone        RefundReport = "NONE"        // nothing is said of one
	RefundPending     RefundReport = "PENDING"     // it is announced or sent
	RefundUnavailable RefundReport = "UNAVAILABLE" // there will be none
	RefundManual      RefundReport = "MANUAL"      // a person at the provider decides
)

// Report is what a provider says of a swap. It has no amounts: nothing signs them, and the chain has them.
type Report struct {
	Provider string
	Status   Status
	Word     string // the provider's own status
	Refund   RefundReport
	// The transactions that the provider names: the payment to it, its delivery, and its refund.
	OriginTxs, DestinationTxs, RefundTxs []chain.TxHash
	// Payers are who paid, if the provider says so. It is its word, like everything here.
	Payers    []chain.Address
	Reason    string // why it failed or was refunded, in the provider's words, cleaned
	UpdatedAt time.Time
	Raw       []byte // the answer as it came, which is only stored sealed
}
