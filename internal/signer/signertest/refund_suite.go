package signertest

import (
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// CheckoutWallet returns the reference of a checkout's wallet.
func CheckoutWallet(org, checkoutID string) signer.WalletRef {
	return signer.WalletRef{OrgID: org, Family: chain.EVM, Purpose: signer.CheckoutPurpose, Subject: checkoutID}
}

// NewRefund returns the payment of a refund of a checkout.
func NewRefund(id, checkoutID string) signer.Intent {
	intent := newPayment(id)
	intent.CustomerID, intent.Product = "", "CHECKOUT"
	intent.Refund = &signer.RefundOf{RefundID: "ref_1", CheckoutID: checkoutID}
	return intent
}

// paysRefunds: a refund goes to an address that no endorsement names, and only of a checkout that the journal knows.
func paysRefunds(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	EndorseAddress(t, s, org, "wla_1", Stranger)
	IssueAddress(t, s, CheckoutWallet(org, "co_1"))
	IssueAddress(t, s, CheckoutWallet(otherOrg, "co_2"))
	IssueAddress(t, s, Deposit(org, "co_3")) // a customer may be called like a checkout
	ownAddress := IssueAddress(t, s, CheckoutWallet(org, "co_4"))
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		code   string
	}{
		"of an unknown checkout":  {func(i *signer.Intent) { i.Refund.CheckoutID = "co_9" }, signer.RefusedWallet},
		"of another's checkout":   {func(i *signer.Intent) { i.Refund.CheckoutID = "co_2" }, signer.RefusedWallet},
		"of a customer's deposit": {func(i *signer.Intent) { i.Refund.CheckoutID = "co_3" }, signer.RefusedWallet},
		"without a checkout":      {func(i *signer.Intent) { i.Refund.CheckoutID = "" }, signer.RefusedMalformed},
		"without its id":          {func(i *signer.Intent) { i.Refund.RefundID = "" }, signer.RefusedMalformed},
		"with a long id": {func(i *signer.Intent) {
			i.Refund.RefundID = strings.Repeat("r", 129)
		}, signer.RefusedMalformed},
		"that says nothing of it": {func(i *signer.Intent) { i.Refund = nil }, signer.RefusedMalformed},
		"of a customer, too":      {func(i *signer.Intent) { i.CustomerID = "alice" }, signer.RefusedMalformed},
		"of a customer instead": {func(i *signer.Intent) {
			i.CustomerID, i.Product = "alice", ""
		}, signer.RefusedMalformed},
		"to an entry, too":   {func(i *signer.Intent) { i.WhitelistedID = "wla_1" }, signer.RefusedMalformed},
		"of another product": {func(i *signer.Intent) { i.Product = "CUSTODIAL" }, signer.RefusedMalformed},
		"without a product":  {func(i *signer.Intent) { i.Product = "" }, signer.RefusedMalformed},
		"to our own address": {func(i *signer.Intent) { i.To = ownAddress }, signer.RefusedDestination},
		"of another organization's treasury": {
			func(i *signer.Intent) { i.From = Treasury(otherOrg) }, signer.RefusedWallet,
		},
		"as a return": {func(i *signer.Intent) {
			i.Purpose, i.From = signer.Return, CheckoutWallet(org, "co_1")
		}, signer.RefusedMalformed},
	} {
		intent := NewRefund("wd_bad", "co_1")
		c.change(&intent)
		_, err := s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, "a refund "+name, err, c.code)
	}

	refund := NewRefund("wd_1", "co_1")
	entry := admitIntent(t, s, refund)
	var r signer.Record
	if err := json.Unmarshal(entry.Body, &r); err != nil || !r.Admit.Refund.Equal(refund.Refund) {
		t.Errorf("got %s, %v, want the refund in the journal", entry.Body, err)
	}
	if repeated := admitIntent(t, s, NewRefund("wd_1", "co_1")); repeated.Hash != entry.Hash {
		t.Errorf("the refund again: got entry %d, want %d", repeated.Seq, entry.Seq)
	}
	changed := NewRefund("wd_1", "co_1")
	changed.Refund.RefundID = "ref_2"
	_, err := s.AdmitIntent(t.Context(), changed)
	wantRefusal(t, "the payment as another refund", err, signer.RefusedIntent)
	repeated := NewRefund("wd_2", "co_1")
	repeated.IdempotencyKeyHash = refund.IdempotencyKeyHash
	_, err = s.AdmitIntent(t.Context(), repeated)
	wantRefusal(t, "a second payment of the attempt", err, signer.RefusedKey)
	_, err = s.Sign(t.Context(), signer.SignRequest{
		IntentID: "wd_1", Slot: signer.Slot{Nonce: 0}, Act: signer.Pay,
		Payload: IntentPayload(t, refund, pays, 0, UsualFees()),
	})
	if err != nil {
		t.Errorf("sign the refund: got %v", err)
	}
	large := NewRefund("wd_3", "co_1")
	large.Contract, large.Amount, large.MintID = LimitedToken, money.Units(1_000_000), 3
	_, err = s.AdmitIntent(t.Context(), large)
	wantRefusal(t, "a refund above the limits of payments", err, signer.PolicyLimit)
}
