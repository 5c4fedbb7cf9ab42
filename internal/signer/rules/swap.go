package rules

import (
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/limits"
	"github.com/cofferpay/coffer/internal/signer/swapterms"
)

// checkSwap checks that a payment to a swap provider goes where the provider signed, and that what it signed
// brings the output and a refund to wallets of the swap: an attacker with the server and the provider's genuine
// quotes moves value from us to us. The present time is no part of it. SWAP-R2 of docs/design/swaps.md.
func (eng *Engine) checkSwap(intent signer.Intent) error {
	quote, refusal := swapterms.Verify(intent, eng.conf.Policy.EffectiveSwaps())
	if refusal != nil {
		return refusal
	}
	recipient, err := eng.swapAddress(intent, intent.Swap.Delivery, signer.SwapDeliveryPurpose, intent.Swap.ToChain)
	if err != nil {
		return err
	}
	refundTo, err := eng.swapAddress(intent, intent.Swap.Refund, signer.SwapRefundPurpose, intent.Chain)
	if err != nil {
		return err
	}
	if refusal := quote.Check(recipient, refundTo); refusal != nil {
		return refusal
	}
	return eng.checkDepositAddress(intent)
}

// swapAddress derives the address of a wallet of a swap.
func (eng *Engine) swapAddress(
	intent signer.Intent, w signer.WalletRef, purpose string, name chain.Name,
) (chain.Address, error) {
	if refusal := swapterms.CheckWallet(intent, w, purpose, name); refusal != nil {
		return "", refusal
	}
	if !eng.index.isIssued(w) {
		return "", swapterms.Refuse(intent, "names a wallet for %s that was never issued", purpose)
	}
	key, err := eng.issuedKey(w, "a wallet of swap "+intent.ID)
	if err != nil {
		return "", err
	}
	return key.Address(), nil
}

// checkDepositAddress refuses an address of ours, a token's contract, and an address that an earlier intent
// named: a deposit address is paid once, SWAP-R3. The reverse is no rule: a person may withdraw to any address.
func (eng *Engine) checkDepositAddress(intent signer.Intent) error {
	if eng.index.isOwn(intent.Chain, intent.To) {
		return swapterms.Refuse(intent, "goes to %s, which is an address of this installation", intent.To)
	}
	if earlier, isPaid := eng.index.payees[familyAddress{intent.Chain.Family(), intent.To}]; isPaid {
		return swapterms.Refuse(intent, "goes to %s, which intent %s named before: a deposit address is paid once",
			intent.To, earlier)
	}
	if eng.conf.Policy.NamesContract(intent.Chain, intent.To) {
		return swapterms.Refuse(intent, "goes to %s, which is the contract of a token", intent.To)
	}
	return nil
}

// checkFirstSwapPayload checks the first payload that pays a provider. What was sent before may be replaced later.
func checkFirstSwapPayload(intent signer.Intent, reading Reading) *signer.Refusal {
	refusal := swapterms.CheckNotLate(intent, reading.Now)
	if refusal == nil && intent.Swap != nil && reading.Ahead > 0 {
		refusal = limits.RefuseUnconfirmed(reading.Ahead)
	}
	return refusal
}
