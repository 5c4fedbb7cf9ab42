// Package swapterms compares a payment to a swap provider with what the provider signed, and both with the
// signer's policy.
//
// It is pure: it knows no key and no journal. The caller derives the addresses that a quote has to name. A quote
// that passes is not paid by that alone: package rules asks for the deposit address and the limits.
package swapterms

import (
	"crypto/sha256"
	"math/big"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// basisPoints is the whole amount in basis points.
const basisPoints = 10_000

// Refuse returns the refusal of a payment to a swap provider, with a formatted sentence about it.
func Refuse(intent signer.Intent, format string, args ...any) *signer.Refusal {
	return signer.Refuse(signer.RefusedSignedQuote, "swap payment %s "+format, append([]any{intent.ID}, args...)...)
}

// Quote is a verified quote of a payment.
type Quote struct {
	intent signer.Intent
	swaps  signpolicy.Swaps
	signed signedquote.Quote
	// The provider's names of the payment's assets, by the policy.
	originAsset, destinationAsset string
}

// Verify verifies the signed quote of a payment with the keys of the policy, and returns it.
func Verify(intent signer.Intent, swaps signpolicy.Swaps) (q Quote, refusal *signer.Refusal) {
	q = Quote{intent: intent, swaps: swaps}
	terms := intent.Swap
	provider, isNamed := swaps.Providers[terms.Provider]
	if !isNamed {
		return q, signer.Refuse(signer.RefusedNotConfigured,
			"the policy does not name swap provider %q: add it under swaps.providers", terms.Provider)
	}
	if provider.Scheme != terms.Scheme {
		return q, Refuse(intent, "has a quote of scheme %q, and %s signs with %q", terms.Scheme, terms.Provider,
			provider.Scheme)
	}
	var err error
	if q.signed, err = provider.VerifyQuote(terms.SignedQuote); err != nil {
		return q, Refuse(intent, "has a quote that %s did not sign: %v", terms.Provider, err)
	}
	var hasOrigin, hasDestination bool
	q.originAsset, hasOrigin = provider.AssetID(intent.Chain, intent.Contract)
	q.destinationAsset, hasDestination = provider.AssetID(terms.ToChain, terms.ToContract)
	if !hasOrigin || !hasDestination {
		missing := signpolicy.TokenKey(terms.ToChain, terms.ToContract)
		if !hasOrigin {
			missing = signpolicy.TokenKey(intent.Chain, intent.Contract)
		}
		return q, signer.Refuse(signer.RefusedNotConfigured,
			"the policy has no asset of %s for %s: add it under swaps.providers.%s.assets", terms.Provider, missing,
			terms.Provider)
	}
	return q, nil
}

// CheckWallet refuses a wallet that is not the one of a swap for a purpose on a chain.
func CheckWallet(intent signer.Intent, w signer.WalletRef, purpose string, name chain.Name) *signer.Refusal {
	if w.Purpose != purpose || w.Subject != intent.ID || w.OrgID != intent.From.OrgID || w.Family != name.Family() ||
		w.Form != chain.Usual {
		return Refuse(intent, "names a wallet for %s of %q that is not its own for %s on %s", w.Purpose, w.Subject,
			purpose, name)
	}
	return nil
}

// Check compares the quote with the payment and the policy. recipient and refundTo are the addresses of the
// swap's wallets. The present time is no part of it.
func (q Quote) Check(recipient, refundTo chain.Address) *signer.Refusal {
	intent, terms, signed := q.intent, q.intent.Swap, q.signed
	if foldAddress(intent.Chain, signed.DepositAddress) != foldAddress(intent.Chain, string(intent.To)) {
		return Refuse(intent, "goes to %s, and the deposit address of its quote is %s", intent.To,
			signed.DepositAddress)
	}
	signed.Recipient = foldAddress(terms.ToChain, signed.Recipient)
	signed.RefundTo = nil
	for _, address := range q.signed.RefundTo {
		signed.RefundTo = append(signed.RefundTo, foldAddress(intent.Chain, address))
	}
	err := signed.CheckTerms(signedquote.Terms{
		OriginAsset: q.originAsset, DestinationAsset: q.destinationAsset, AmountIn: intent.Amount,
		Recipient: foldAddress(terms.ToChain, string(recipient)), RefundTo: foldAddress(intent.Chain, string(refundTo)),
		SlippageBpsMax: q.swaps.EffectiveSlippageBps(),
	})
	if err != nil {
		return Refuse(intent, "is not what its quote is for: %v", err)
	}
	if refusal := q.checkValue(); refusal != nil {
		return refusal
	}
	return q.checkWindow()
}

// foldAddress returns an address in the form in which it is compared: the case of letters is no part of an
// address of the EVM.
func foldAddress(name chain.Name, address string) string {
	if name.Family() == chain.EVM {
		return strings.ToLower(address)
	}
	return address
}

// checkValue checks what a swap brings at the minimum, and what it loses by the dollar values of its quote.
func (q Quote) checkValue() *signer.Refusal {
	intent, terms, lossMax := q.intent, q.intent.Swap, q.swaps.EffectiveLossBps()
	switch {
	case terms.MinOut.IsZero():
		return Refuse(intent, "accepts nothing for %v", intent.Amount)
	case q.signed.MinAmountOut.Less(terms.MinOut):
		return Refuse(intent, "accepts %v or more, and its quote may bring %v", terms.MinOut, q.signed.MinAmountOut)
	case terms.EstimatedOut.Less(terms.MinOut):
		return Refuse(intent, "accepts %v or more, and expects %v", terms.MinOut, terms.EstimatedOut)
	case losesMore(q.signed.AmountInUSD, q.signed.AmountOutUSD, lossMax):
		return Refuse(intent, "turns %s dollars into %s by its quote, and the policy's lossBpsMax is %d",
			q.signed.AmountInUSD, q.signed.AmountOutUSD, lossMax)
	}
	return nil
}

// losesMore reports whether the second of two values is less than the first by more than so many basis points.
// It is false if one of them is not known.
func losesMore(valueIn, valueOut money.USD, lossBpsMax int) bool {
	input, hasInput := new(big.Rat).SetString(valueIn.String())
	output, hasOutput := new(big.Rat).SetString(valueOut.String())
	if !hasInput || !hasOutput || input.Sign() == 0 || output.Sign() == 0 {
		return false
	}
	minimum := input.Mul(input, big.NewRat(int64(basisPoints-lossBpsMax), basisPoints))
	return output.Cmp(minimum) < 0
}

// payByOf returns the time after which a payment to a swap provider is not signed. Package syntax has checked
// its form; a text of another form is a time that is over.
func payByOf(intent signer.Intent) time.Time {
	payBy, err := time.Parse(time.RFC3339Nano, intent.Swap.PayBy)
	if err != nil {
		return time.Time{}
	}
	return payBy
}

// checkWindow checks the time by which a payment is signed against the times of its quote.
func (q Quote) checkWindow() *signer.Refusal {
	payBy, window := payByOf(q.intent), q.swaps.PayWindow()
	switch {
	case !payBy.Before(q.signed.Deadline):
		return Refuse(q.intent, "may be signed until %s, and the provider takes no payment after %s",
			q.intent.Swap.PayBy, signer.FormatTime(q.signed.Deadline))
	case !q.signed.SignedAt.IsZero() && payBy.After(q.signed.SignedAt.Add(window)):
		return Refuse(q.intent, "may be signed until %s, more than %s after its quote of %s", q.intent.Swap.PayBy,
			window, signer.FormatTime(q.signed.SignedAt))
	}
	return nil
}

// CheckPayBy checks the time by which an intent is signed against the present time, if it pays a swap provider.
// The signed time of a quote may be a later one, so the window counts from now as well.
func CheckPayBy(intent signer.Intent, swaps signpolicy.Swaps, now time.Time) *signer.Refusal {
	if refusal := CheckNotLate(intent, now); refusal != nil {
		return refusal
	}
	if window := swaps.PayWindow(); intent.Swap != nil && payByOf(intent).After(now.Add(window)) {
		return Refuse(intent, "may be signed until %s, more than %s from now", intent.Swap.PayBy, window)
	}
	return nil
}

// CheckNotLate refuses a payment to a swap provider whose time is over.
func CheckNotLate(intent signer.Intent, now time.Time) *signer.Refusal {
	if intent.Swap == nil || now.Before(payByOf(intent)) {
		return nil
	}
	return signer.Refuse(signer.RefusedLate, "swap payment %s had to be signed by %s: it is not made any more",
		intent.ID, intent.Swap.PayBy)
}

// Condense replaces the signed quote of an intent by its hash. That is all that an index of intents compares, and
// a quote is long.
func Condense(intent signer.Intent) signer.Intent {
	if intent.Swap == nil {
		return intent
	}
	terms := *intent.Swap
	sum := sha256.Sum256(terms.SignedQuote)
	terms.SignedQuote = sum[:]
	intent.Swap = &terms
	return intent
}
