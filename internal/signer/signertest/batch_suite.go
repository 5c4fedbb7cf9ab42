package signertest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer"
)

// NewBatchRow returns the payment of a row of a batch. Its content hash covers nothing: a signer without a key of
// grants asks for no proof.
func NewBatchRow(batchID string, row int) signer.Intent {
	intent := newPayment(signer.BatchWithdrawalID(org, batchID, row))
	intent.CustomerID, intent.Product = "", signer.BatchProduct
	intent.Batch = &signer.BatchRow{BatchID: batchID, Row: row}
	copy(intent.Batch.ContentHash[:], bytes.Repeat([]byte{7}, len(contenthash.Hash{})))
	return intent
}

// paysBatches: a row of a batch goes to an address that no endorsement names, and is no other kind of payment.
func paysBatches(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	EndorseAddress(t, s, org, "wla_1", Stranger)
	ownAddress := IssueAddress(t, s, Deposit(org, "alice"))
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		code   string
	}{
		"of row 0":        {func(i *signer.Intent) { i.Batch.Row = 0 }, signer.RefusedMalformed},
		"of a row beyond": {func(i *signer.Intent) { i.Batch.Row = 5001 }, signer.RefusedMalformed},
		"of no batch":     {func(i *signer.Intent) { i.Batch.BatchID = "" }, signer.RefusedMalformed},
		"of a long id": {func(i *signer.Intent) {
			i.Batch.BatchID = strings.Repeat("b", 129)
		}, signer.RefusedMalformed},
		"that says nothing":  {func(i *signer.Intent) { i.Batch = nil }, signer.RefusedMalformed},
		"of a customer, too": {func(i *signer.Intent) { i.CustomerID = "alice" }, signer.RefusedMalformed},
		"of another product": {func(i *signer.Intent) { i.Product = "CUSTODIAL" }, signer.RefusedMalformed},
		"of no product":      {func(i *signer.Intent) { i.Product = "" }, signer.RefusedMalformed},
		"to an entry, too":   {func(i *signer.Intent) { i.WhitelistedID = "wla_1" }, signer.RefusedMalformed},
		"to our own address": {func(i *signer.Intent) { i.To = ownAddress }, signer.RefusedDestination},
		"that is a refund, too": {func(i *signer.Intent) {
			i.Refund = &signer.RefundOf{RefundID: "ref_1", CheckoutID: "co_1"}
		}, signer.RefusedMalformed},
	} {
		intent := NewBatchRow("bp_1", 1)
		c.change(&intent)
		_, err := s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, "a row "+name, err, c.code)
	}
	row := NewBatchRow("bp_1", 1)
	entry := admitIntent(t, s, row)
	var r signer.Record
	if err := json.Unmarshal(entry.Body, &r); err != nil || !r.Admit.Batch.Equal(row.Batch) {
		t.Errorf("got %s, %v, want the row in the journal", entry.Body, err)
	}
	if repeated := admitIntent(t, s, NewBatchRow("bp_1", 1)); repeated.Hash != entry.Hash {
		t.Errorf("the row again: got entry %d, want %d", repeated.Seq, entry.Seq)
	}
	changed := NewBatchRow("bp_1", 1)
	changed.Batch.ContentHash[0] ^= 1
	_, err := s.AdmitIntent(t.Context(), changed)
	wantRefusal(t, "the row under another hash", err, signer.RefusedIntent)
	if _, err := s.Sign(t.Context(), signer.SignRequest{
		IntentID: row.ID, Slot: signer.Slot{Nonce: 0}, Act: signer.Pay,
		Payload: IntentPayload(t, row, pays, 0, UsualFees()),
	}); err != nil {
		t.Errorf("sign the row: got %v", err)
	}
}
