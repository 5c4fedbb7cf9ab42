// Package ownaccounts checks the intents that pay no one and prepare payments. On Solana they create the nonce accounts
// of a treasury, and the token accounts of the address that checkouts share. On EVM chains they set what the payout
// contract may move of a treasury.
//
// The contract's address follows from its code, and the contract moves tokens of its caller only, so an allowance lets
// no one move anything. The accounts spend rent of the treasury, so neither leaves a choice. The address of a nonce
// account follows from the treasury and a number. The address of a token account follows from a wallet, which the
// caller of this package derives, and from a token, which the policy names. Such an account is never closed, so its
// rent is paid once. The package knows no key and no journal.
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

// CheckAllowance checks that an intent sets what the payout contract of a chain may move of a treasury: any amount of a
// token of the policy, or nothing any more. No other address is ever allowed anything. A token that the policy does not
// name any more can still be revoked. Rule BP-24.
func CheckAllowance(intent signer.Intent, policy signpolicy.Chain) error {
	kind := intent.Kind()
	family, hasContract := txcodec.Find(intent.From.Family).(txcodec.PayoutContract)
	_, isAllowed := policy.AssetLimit(intent.Contract)
	switch {
	case !kind.Source.Includes(intent.From):
		return signer.Refuse(signer.RefusedWallet, kind.WalletRule, intent.ID, intent.From.Purpose)
	case intent.Payer != nil:
		return signer.Refuse(signer.RefusedWallet, "the treasury of %s %s pays its fee itself", kind.Noun, intent.ID)
	case !hasContract || intent.ToWallet != nil || intent.To != family.PayoutContract():
		return signer.Refuse(signer.RefusedDestination, "%s %s is of %s, which is not the payout contract of %s",
			kind.Noun, intent.ID, intent.To, intent.Chain)
	case intent.Contract == "":
		return signer.Refuse(signer.RefusedDestination, "%s %s names no token", kind.Noun, intent.ID)
	case kind.GrantsAllowance && !isAllowed:
		return signer.Refuse(signer.PolicyLimit, "%s %s is for token %s on %s, which the policy does not name",
			kind.Noun, intent.ID, intent.Contract, intent.Chain)
	}
	return nil
}
