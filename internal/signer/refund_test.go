package signer_test

import (
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// The grant of a refund is of this refund and this checkout alone. Rule CO-86.
func TestAGrantCoversTheRefund(t *testing.T) {
	t.Parallel()
	key := newGrantKey(t, 7)
	intent := signer.Intent{
		ID: "wd_1", Purpose: signer.Payment, Chain: chain.Base, Amount: money.Units(990), MintID: 2,
		To:      "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		From:    signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: signer.TreasuryPurpose},
		Product: "CHECKOUT", Refund: &signer.RefundOf{RefundID: "ref_1", CheckoutID: "co_1"},
	}
	intent.Grant = key.MakeGrant(termsOf(intent), money.Zero, 0, 0, nil)
	if refusal := key.CheckGrant(intent); refusal != nil {
		t.Fatalf("got %v, want the grant to hold", refusal)
	}
	for name, refund := range map[string]*signer.RefundOf{
		"another refund":    {RefundID: "ref_2", CheckoutID: "co_1"},
		"another checkout":  {RefundID: "ref_1", CheckoutID: "co_2"},
		"the words swapped": {RefundID: "co_1", CheckoutID: "ref_1"},
		"no refund":         nil,
	} {
		other := intent
		other.Refund = refund
		if refusal := key.CheckGrant(other); refusal == nil || refusal.Code != signer.RefusedGrant {
			t.Errorf("%s: got %v, want %s", name, refusal, signer.RefusedGrant)
		}
		if other.HasSameWords(intent) {
			t.Errorf("%s: is the same intent", name)
		}
	}
}
