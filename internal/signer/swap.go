package signer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// SwapTerms is what a payment to a swap provider buys. The grant covers every field, and the journal
// has them all, so that a restored database gets its swaps back.
type SwapTerms struct {
	Provider string             `json:"provider"` // such as ONE_CLICK
	Scheme   signedquote.Scheme `json:"scheme"`
	// SignedQuote is what the provider signed, as it came. The signer verifies it with the keys of
	// its own policy.
	SignedQuote []byte `json:"signedQuote"`
	// Delivery and Refund are the wallets at which the output and a refund arrive. Their subject is
	// the id of the swap.
	Delivery WalletRef `json:"delivery"`
	Refund   WalletRef `json:"refund"`
	// The asset that the swap buys.
	ToMintID   int           `json:"toMintId"`
	ToChain    chain.Name    `json:"toChain"`
	ToContract chain.Address `json:"toContract,omitempty"` // "" for the native coin
	// EstimatedOut and MinOut are what is expected and the least that is accepted, in atomic units of
	// that asset.
	EstimatedOut money.Amount `json:"estimatedOut"`
	MinOut       money.Amount `json:"minOut"`
	// PayBy is the time after which the payment is not signed any more, see FormatMicros.
	PayBy string `json:"payBy"`
}

// Equal reports whether two terms have the same fields. Either may be nil.
func (t *SwapTerms) Equal(o *SwapTerms) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Provider == o.Provider && t.Scheme == o.Scheme && bytes.Equal(t.SignedQuote, o.SignedQuote) &&
		t.Delivery == o.Delivery && t.Refund == o.Refund && t.ToMintID == o.ToMintID && t.ToChain == o.ToChain &&
		t.ToContract == o.ToContract && t.EstimatedOut == o.EstimatedOut && t.MinOut == o.MinOut && t.PayBy == o.PayBy
}

// words returns the fields as a grant covers them.
func (t *SwapTerms) words() []string {
	sum := sha256.Sum256(t.SignedQuote)
	words := []string{t.Provider, string(t.Scheme), hex.EncodeToString(sum[:])}
	for _, w := range []WalletRef{t.Delivery, t.Refund} {
		words = append(words, w.OrgID, string(w.Family), w.Purpose, w.Subject, string(w.Form))
	}
	return append(words, strconv.Itoa(t.ToMintID), string(t.ToChain), string(t.ToContract), t.EstimatedOut.String(),
		t.MinOut.String(), t.PayBy)
}
