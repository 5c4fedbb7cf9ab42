package dispatch_test

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// quiet is a feature that lacks nothing after a restore.
type quiet struct{ told []dispatch.Restored }

func (q *quiet) Restored(_ context.Context, _ pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	q.told = orders
	return nil, nil
}

// A backup of before the slot meets a journal that has the signature: the three are in
// the slot that they were signed in, and never in another.
func TestOrdersThatWereSignedTogetherAreRestoredTogether(t *testing.T) {
	t.Parallel()
	b := together(t)
	b.three()
	var payments []chain.Payment
	var with []string
	var remembered []mirror.Remembered
	for i, id := range []string{"wd_1", "wd_2", "wd_3"} {
		amount := money.Units(uint64(100 * (i + 1)))
		intent := signer.Intent{
			ID: id, Purpose: signer.Payment, Chain: b.name, From: b.treasury.Ref(), To: payee(id), Contract: b.token,
			Amount: amount, CustomerID: []string{"ann", "bob", "eve"}[i], MintID: usdc,
		}
		_, err := b.signer.Admit(b.ctx, intent)
		b.must(err)
		payments = append(payments, chain.Payment{From: b.treasury.Address, To: payee(id), Contract: b.token, Amount: amount})
		r := mirror.Remembered{ID: id, Intent: &intent, At: b.clock.now()}
		if i > 0 {
			with, r.Rides = append(with, id), "wd_1"
		}
		remembered = append(remembered, r)
	}
	account, err := b.chain.Account(b.ctx, b.treasury.Address)
	b.must(err)
	fees, err := b.chain.Quote(b.ctx, payments...)
	b.must(err)
	at := chain.Slot{Lease: account.Leases[0].Final}
	payload, err := b.chain.Build(b.treasury.Address, at, fees, payments...)
	b.must(err)
	proof, err := b.chain.Proof(b.ctx, b.treasury.Address, at.Lease)
	b.must(err)
	signed, err := b.signer.Sign(b.ctx, signer.SignRequest{IntentID: "wd_1", With: with, Slot: at, Act: signer.Pay, Payload: payload, Proof: proof})
	b.must(err)
	remembered[0].Signed = []mirror.Signature{{
		SignBody: signer.SignBody{IntentID: "wd_1", With: with, Slot: at, Act: signer.Pay, Payload: payload, Hash: signed.Hash, Proof: proof},
		At:       b.clock.now(), Raw: signed.Raw,
	}}
	feature := &quiet{}
	journal := dispatch.Journal{
		Features: map[signer.Purpose]dispatch.Restorer{signer.Payment: feature},
		FeesOf: func(_ chain.Name, payload []byte) (chain.Fees, error) {
			tx, err := solanatx.Decode(payload)
			return chain.Fees{GasLimit: uint64(tx.Limit), TipCap: money.Units(tx.Price), Beside: tx.MaxCost()}, err
		},
	}
	for range 2 { // the second time nothing is missing
		b.system(func(ctx context.Context, tx pg.Tx) error { return journal.Restore(ctx, tx, remembered) })
		b.all(dispatch.Signed)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_orders WHERE funds_pending`); n != 3 {
		t.Errorf("got %d orders whose funds are to be found again, want 3", n)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_slots WHERE proof = $1`, proof); n != 1 {
		t.Errorf("got %d slots with the proof that the journal has, want 1", n)
	}
	b.round()
	b.mine(6)
	b.round()
	b.all(dispatch.Paid)
	b.once(1)
}
