package dispatch_test

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// restoreRecorder is a feature that lacks nothing after a restore.
type restoreRecorder struct{ orders []dispatch.RestoredOrder }

func (q *restoreRecorder) OnRestored(
	_ context.Context, _ pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	q.orders = orders
	return nil, nil
}

// A backup from before the slot meets a journal that has the signature. The three orders are in the
// slot that they were signed in, and never in another.
func TestOrdersThatWereSignedTogetherAreRestoredTogether(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.submitThree()
	var payments []chain.Payment
	var with []string
	var remembered []journal.Intent
	for i, id := range []string{"wd_1", "wd_2", "wd_3"} {
		amount := money.Units(uint64(100 * (i + 1)))
		intent := signer.Intent{
			ID: id, Purpose: signer.Payment, Chain: b.name, From: b.treasury.Ref(), To: payeeAddress(id),
			Contract: b.token,
			Amount:   amount, CustomerID: []string{"ann", "bob", "eve"}[i], MintID: usdc,
		}
		_, err := b.signer.AdmitIntent(b.ctx, asRow(intent))
		b.must(err)
		payments = append(payments, chain.Payment{
			From: b.treasury.Address, To: payeeAddress(id), Contract: b.token, Amount: amount,
		})
		r := journal.Intent{ID: id, Intent: &intent, AdmittedAt: b.clock.now()}
		if i > 0 {
			with, r.TxLeadID = append(with, id), "wd_1"
		}
		remembered = append(remembered, r)
	}
	account, err := b.chain.Account(b.ctx, b.treasury.Address)
	b.must(err)
	fees, err := b.chain.Quote(b.ctx, payments...)
	b.must(err)
	at := chain.Slot{Key: account.Slots[0].Final}
	payload, err := b.chain.Build(b.treasury.Address, at, fees, payments...)
	b.must(err)
	proof, err := b.chain.ProveSlot(b.ctx, b.treasury.Address, at.Key)
	b.must(err)
	signed, err := b.signer.Sign(b.ctx, signer.SignRequest{
		IntentID: "wd_1", TxMemberIDs: with, Slot: at, Act: signer.Pay, Payload: payload, Proof: proof,
	})
	b.must(err)
	remembered[0].Signed = []journal.Signature{{
		SignBody: signer.SignBody{
			IntentID: "wd_1", TxMemberIDs: with, Slot: at, Act: signer.Pay, Payload: payload, Hash: signed.Hash,
			Proof: proof,
		},
		SignedAt: b.clock.now(), Raw: signed.Raw,
	}}
	feature := &restoreRecorder{}
	restorer := dispatch.JournalRestorer{
		Features: map[signer.Purpose]dispatch.RestoreListener{signer.Payment: feature},
		ReadFees: func(_ chain.Name, payload []byte) (chain.Fees, error) {
			tx, err := solanatx.Decode(payload)
			return chain.Fees{GasLimit: uint64(tx.Limit), TipCap: money.Units(tx.Price), NonGas: tx.MaxCost()}, err
		},
	}
	for range 2 { // the second time nothing is missing
		b.inSystem(func(ctx context.Context, tx pg.Tx) error { return restorer.Restore(ctx, tx, remembered) })
		b.wantAll(dispatch.Signed)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_orders WHERE funds_pending`); n != 3 {
		t.Errorf("got %d orders whose funds are to be found again, want 3", n)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots WHERE proof = $1`, proof); n != 1 {
		t.Errorf("got %d slots with the proof that the journal has, want 1", n)
	}
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantAll(dispatch.Paid)
	b.wantPaidOnce(1)
}
