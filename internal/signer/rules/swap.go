package rules

import (
	"crypto/sha256"
	"math/big"
	"slices"
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

func refuseSwap(intent signer.Intent, format string, args ...any) *signer.Refusal {
	return signer.Refuse(signer.RefusedSignedQuote, "swap payment %s "+format, append([]any{intent.ID}, args...)...)
}

// checkSwap checks that a payment to a swap provider goes where the provider signed, and that what it signed
// brings the output and a refund to wallets of the swap: an attacker with the server and the provider's genuine
// quotes moves value from us to us. The present time is no part of it. Rules SWAP-R2 and SWAP-R3.
func (eng *Engine) checkSwap(intent signer.Intent) error {
	terms, swaps := intent.Swap, eng.conf.Policy.EffectiveSwaps()
	provider, isNamed := swaps.Providers[terms.Provider]
	if !isNamed {
		return signer.Refuse(signer.RefusedNotConfigured,
			"the policy does not name swap provider %q: add it under swaps.providers", terms.Provider)
	}
	if provider.Scheme != terms.Scheme {
		return refuseSwap(intent, "has a quote of scheme %q, and %s signs with %q", terms.Scheme, terms.Provider,
			provider.Scheme)
	}
	quote, err := provider.VerifyQuote(terms.SignedQuote)
	if err != nil {
		return refuseSwap(intent, "has a quote that %s did not sign: %v", terms.Provider, err)
	}
	asked, err := eng.swapQuestion(intent, swaps, provider)
	if err != nil {
		return err
	}
	if foldAddress(intent.Chain, quote.DepositAddress) != foldAddress(intent.Chain, string(intent.To)) {
		return refuseSwap(intent, "goes to %s, and the deposit address of its quote is %s", intent.To,
			quote.DepositAddress)
	}
	quote.Recipient = foldAddress(terms.ToChain, quote.Recipient)
	for n, refundTo := range quote.RefundTo {
		quote.RefundTo[n] = foldAddress(intent.Chain, refundTo)
	}
	if err := quote.CheckTerms(asked); err != nil {
		return refuseSwap(intent, "is not what its quote is for: %v", err)
	}
	if err := checkSwapValue(intent, swaps, quote); err != nil {
		return err
	}
	if err := checkSwapWindow(intent, swaps, quote); err != nil {
		return err
	}
	return eng.checkDepositAddress(intent)
}

// swapQuestion returns the terms that the quote of a payment has to have. Its addresses are those of keys that
// the signer derives.
func (eng *Engine) swapQuestion(
	intent signer.Intent, swaps signpolicy.Swaps, provider signpolicy.SwapProvider,
) (asked signedquote.Terms, err error) {
	terms := intent.Swap
	origin, hasOrigin := provider.AssetID(intent.Chain, intent.Contract)
	destination, hasDestination := provider.AssetID(terms.ToChain, terms.ToContract)
	for _, token := range []struct {
		key     string
		isNamed bool
	}{
		{signpolicy.TokenKey(intent.Chain, intent.Contract), hasOrigin},
		{signpolicy.TokenKey(terms.ToChain, terms.ToContract), hasDestination},
	} {
		if !token.isNamed {
			return asked, signer.Refuse(signer.RefusedNotConfigured,
				"the policy has no asset of %s for %s: add it under swaps.providers.%s.assets", terms.Provider,
				token.key, terms.Provider)
		}
	}
	recipient, err := eng.swapAddress(intent, terms.Delivery, signer.SwapDeliveryPurpose, terms.ToChain)
	if err != nil {
		return asked, err
	}
	refundTo, err := eng.swapAddress(intent, terms.Refund, signer.SwapRefundPurpose, intent.Chain)
	if err != nil {
		return asked, err
	}
	return signedquote.Terms{
		OriginAsset: origin, DestinationAsset: destination, AmountIn: intent.Amount, Recipient: recipient,
		RefundTo: refundTo, SlippageBpsMax: swaps.EffectiveSlippageBps(),
	}, nil
}

// swapAddress derives the address of a wallet of a swap, in the form in which addresses are compared.
func (eng *Engine) swapAddress(
	intent signer.Intent, w signer.WalletRef, purpose string, name chain.Name,
) (string, error) {
	switch {
	case w.Purpose != purpose || w.Subject != intent.ID || w.OrgID != intent.From.OrgID ||
		w.Family != name.Family() || w.Form != chain.Usual:
		return "", refuseSwap(intent, "names a wallet for %s of %q that is not its own for %s on %s", w.Purpose,
			w.Subject, purpose, name)
	case !eng.index.isIssued(w):
		return "", refuseSwap(intent, "names a wallet for %s that was never issued", purpose)
	}
	key, err := eng.issuedKey(w, "a wallet of swap "+intent.ID)
	if err != nil {
		return "", err
	}
	return foldAddress(name, string(key.Address())), nil
}

// foldAddress returns an address in the form in which it is compared: the case of letters is no part of an
// address of the EVM.
func foldAddress(name chain.Name, address string) string {
	if name.Family() == chain.EVM {
		return strings.ToLower(address)
	}
	return address
}

// checkSwapValue checks what a swap brings at least, and what it loses by the dollar values of its quote.
func checkSwapValue(intent signer.Intent, swaps signpolicy.Swaps, quote signedquote.Quote) error {
	terms := intent.Swap
	switch {
	case terms.MinOut.IsZero():
		return refuseSwap(intent, "accepts nothing for %v", intent.Amount)
	case quote.MinAmountOut.Less(terms.MinOut):
		return refuseSwap(intent, "accepts %v at least, and its quote may bring %v", terms.MinOut, quote.MinAmountOut)
	case terms.EstimatedOut.Less(terms.MinOut):
		return refuseSwap(intent, "accepts %v at least, and expects %v", terms.MinOut, terms.EstimatedOut)
	case losesMore(quote.AmountInUSD, quote.AmountOutUSD, swaps.EffectiveLossBps()):
		return refuseSwap(intent, "turns %s dollars into %s by its quote, and the policy's lossBpsMax is %d",
			quote.AmountInUSD, quote.AmountOutUSD, swaps.EffectiveLossBps())
	}
	return nil
}

// losesMore reports whether the second of two values is less than the first by more than so many basis points.
// It is false if one of them is not known.
func losesMore(valueIn, valueOut money.USD, lossBpsMax int) bool {
	in, hasIn := new(big.Rat).SetString(valueIn.String())
	out, hasOut := new(big.Rat).SetString(valueOut.String())
	if !hasIn || !hasOut || in.Sign() == 0 || out.Sign() == 0 {
		return false
	}
	least := in.Mul(in, big.NewRat(int64(basisPoints-lossBpsMax), basisPoints))
	return out.Cmp(least) < 0
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

// checkSwapWindow checks the time by which a payment is signed against the times of its quote.
func checkSwapWindow(intent signer.Intent, swaps signpolicy.Swaps, quote signedquote.Quote) error {
	payBy, window := payByOf(intent), swaps.PayWindow()
	switch {
	case !payBy.Before(quote.Deadline):
		return refuseSwap(intent, "may be signed until %s, and the provider takes no payment after %s",
			intent.Swap.PayBy, signer.FormatTime(quote.Deadline))
	case !quote.SignedAt.IsZero() && payBy.After(quote.SignedAt.Add(window)):
		return refuseSwap(intent, "may be signed until %s, more than %s after its quote of %s", intent.Swap.PayBy,
			window, signer.FormatTime(quote.SignedAt))
	}
	return nil
}

// checkPayBy checks the time by which a payment is signed against the present time. The signed time of a quote
// may be a later one, so the window counts from now as well.
func (eng *Engine) checkPayBy(intent signer.Intent, now time.Time) *signer.Refusal {
	if intent.Swap == nil {
		return nil
	}
	if refusal := checkNotLate(intent, now); refusal != nil {
		return refusal
	}
	if window := eng.conf.Policy.EffectiveSwaps().PayWindow(); payByOf(intent).After(now.Add(window)) {
		return refuseSwap(intent, "may be signed until %s, more than %s from now", intent.Swap.PayBy, window)
	}
	return nil
}

// checkNotLate refuses a payment to a swap provider whose time is over.
func checkNotLate(intent signer.Intent, now time.Time) *signer.Refusal {
	if now.Before(payByOf(intent)) {
		return nil
	}
	return signer.Refuse(signer.RefusedLate, "swap payment %s had to be signed by %s: it is not made any more",
		intent.ID, intent.Swap.PayBy)
}

// checkFirstSwapPayload checks the first payload that pays a provider. What was sent before may be replaced later.
func checkFirstSwapPayload(intent signer.Intent, reading Reading) *signer.Refusal {
	if intent.Swap == nil {
		return nil
	}
	if refusal := checkNotLate(intent, reading.Now); refusal != nil {
		return refusal
	}
	if reading.Ahead > 0 {
		return refuseUnconfirmed(reading.Ahead)
	}
	return nil
}

// checkDepositAddress refuses an address of ours, a token's contract, and an address that an earlier intent
// named: a deposit address is paid once. The reverse is no rule: a person may withdraw to any address.
func (eng *Engine) checkDepositAddress(intent signer.Intent) error {
	if eng.index.isOwn(intent.Chain, intent.To) {
		return refuseSwap(intent, "goes to %s, which is an address of this installation", intent.To)
	}
	if earlier, ok := eng.index.payees[payeeOf(intent)]; ok {
		return refuseSwap(intent, "goes to %s, which intent %s named before: a deposit address is paid once",
			intent.To, earlier)
	}
	if eng.isTokenContract(intent.Chain, intent.To) {
		return refuseSwap(intent, "goes to %s, which is the contract of a token", intent.To)
	}
	return nil
}

// isTokenContract reports whether the policy knows an address as a token's contract.
func (eng *Engine) isTokenContract(name chain.Name, address chain.Address) bool {
	if _, ok := eng.conf.Policy.Chains[name].Assets[address]; ok {
		return true
	}
	for _, provider := range eng.conf.Policy.EffectiveSwaps().Providers {
		if _, ok := provider.AssetID(name, address); ok {
			return true
		}
	}
	return false
}

// payeeOf returns the address that an intent pays, as the index has it: the chains of a family share addresses.
func payeeOf(intent signer.Intent) familyAddress {
	return familyAddress{intent.Chain.Family(), intent.To}
}

// condenseSwap replaces the signed quote of an intent by its hash. That is all that the index compares, and a
// quote is long.
func condenseSwap(intent signer.Intent) signer.Intent {
	if intent.Swap == nil {
		return intent
	}
	terms := *intent.Swap
	sum := sha256.Sum256(terms.SignedQuote)
	terms.SignedQuote = slices.Clone(sum[:])
	intent.Swap = &terms
	return intent
}
