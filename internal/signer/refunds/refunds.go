// Package refunds compares the refund of a checkout with the signer's own journal.
//
// A refund goes to the payer, whom no whitelist names. So it is admitted only for a checkout that could be paid: the
// journal has issued an address of that checkout, to that organization, on the family of chains on which the refund is
// paid. Every checkout that is paid has one, also if the payment went to an address that checkouts share. An attacker
// with the server can therefore invent no checkout, and the limits of payments bound what a refund may take. It knows
// no key: package signer has checked the MAC of the grant before, which covers refund and checkout.
package refunds

import "github.com/cofferpay/coffer/internal/signer"

// Check refuses a refund of a checkout that has no address in the journal. An intent that is no refund passes. The
// error is a *signer.Refusal. Rule CO-86.
func Check(intent signer.Intent, isIssued func(signer.WalletRef) bool) error {
	if intent.Refund == nil {
		return nil
	}
	w := signer.WalletRef{
		OrgID: intent.From.OrgID, Family: intent.From.Family, Purpose: signer.CheckoutPurpose,
		Subject: intent.Refund.CheckoutID,
	}
	for _, ref := range append(w.OtherForms(), w) {
		if isIssued(ref) {
			return nil
		}
	}
	return signer.Refuse(signer.RefusedWallet,
		"payment %s is refund %s of checkout %s, of which the journal has no address on %s", intent.ID,
		intent.Refund.RefundID, intent.Refund.CheckoutID, intent.Chain)
}
