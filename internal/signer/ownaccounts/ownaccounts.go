// Package ownaccounts checks the intents that create accounts of an organization on Solana: the nonce accounts of a
// treasury, and the token accounts of the address that checkouts share.
//
// Both spend rent of the treasury, so neither leaves a choice. The address of a nonce account follows from the treasury
// and a number. The address of a token account follows from a wallet, which the caller of this package derives, and
// from a token, which the policy names. Such an account is never closed, so its rent is paid once. The package knows no
// key and no journal.
package ownaccounts

import (
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
)

// CheckNonceAccount checks that an intent creates one of the treasury's own nonce accounts, with exactly its minimum
// balance. This is the only purpose that moves money to an address that is no wallet, so it leaves no choice.
func CheckNonceAccount(intent signer.Intent, treasury chain.Address, policy signpolicy.Chain) error {
	kind := intent.Kind()
	var minBalance, cost money.Amount
	family, ok := txcodec.Find(intent.From.Family).(txcodec.NonceAccounts)
	if ok {
		minBalance, cost, ok = family.NonceAccountCost(treasury, intent.To)
	}
	switch {
	case !kind.Source.Includes(intent.From):
		return signer.Refuse(signer.RefusedWallet, kind.WalletRule, intent.ID, intent.From.Purpose)
	case intent.ToWallet != nil || intent.Contract != "" || !ok:
		return signer.Refuse(signer.RefusedDestination,
			"%s is not a nonce account of the treasury that intent %s names", intent.To, intent.ID)
	case intent.Amount != minBalance:
		return signer.Refuse(signer.RefusedDestination, "a nonce account on %s has %v, and intent %s gives it %v",
			intent.Chain, minBalance, intent.ID, intent.Amount)
	case policy.FeeMax.Less(cost): // before it has a slot in which nothing could be signed
		return signer.Refuse(signer.PolicyLimit, "a nonce account on %s costs %v, and the policy's feeMax is %v",
			intent.Chain, cost, policy.FeeMax)
	}
	return nil
}

// CheckTokenAccount checks that an intent creates an account for a token of the policy, which a treasury pays and the
// address that checkouts share owns. The caller checks that the wallet is of the same organization and has the address.
// Rule CO-137.
func CheckTokenAccount(intent signer.Intent, policy signpolicy.Chain) error {
	kind := intent.Kind()
	family, hasAccounts := txcodec.Find(intent.From.Family).(txcodec.TokenAccounts)
	_, isAllowed := policy.AssetLimit(intent.Contract)
	switch {
	// Another subject would be another wallet, with another rent.
	case !kind.Source.Includes(intent.From) || intent.ToWallet == nil ||
		intent.ToWallet.Purpose != signer.SharedPurpose || intent.ToWallet.Subject != signer.SharedSubject:
		return signer.Refuse(signer.RefusedDestination, kind.WalletRule, intent.ID, intent.From.Purpose)
	case intent.Payer != nil:
		return signer.Refuse(signer.RefusedWallet, "the treasury of creation %s pays its fee itself", intent.ID)
	case !hasAccounts || intent.Contract == "":
		return signer.Refuse(signer.RefusedDestination, "creation %s names no token account, which %s has", intent.ID,
			chain.Solana)
	case !isAllowed:
		return signer.Refuse(signer.PolicyLimit, "creation %s is for token %s on %s, which the policy does not name",
			intent.ID, intent.Contract, intent.Chain)
	case policy.FeeMax.Less(family.TokenAccountCost()): // before it has a slot in which nothing could be signed
		return signer.Refuse(signer.PolicyLimit, "a token account on %s costs %v, and the policy's feeMax is %v",
			intent.Chain, family.TokenAccountCost(), policy.FeeMax)
	}
	return nil
}
