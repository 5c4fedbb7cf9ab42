package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// short is a chain on which a payment is tried out with its fee, which the payer lacks.
type short struct {
	chain.Sender
	fee money.Amount
}

func (s short) Quote(context.Context, ...chain.Payment) (chain.Fees, error) {
	return chain.Fees{}, &chain.FeeShortError{Fee: s.fee}
}

func TestAPaymentWhoseFeeThePayerLacksWaitsForGasByTheBooks(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin/2, 100)
	b.place(b.order("wd_1", sim.Address("contract"), 50))
	ch := b.chain.Configured()
	look := func(fee uint64) dispatch.Want {
		ch.Sender = short{b.chain.Configured().Sender, money.Units(fee)}
		b.desk = dispatch.New(b.db, ch, b.signer, mirror.Record, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(slog.DiscardHandler))
		b.clock.move(time.Minute)
		b.round()
		b.wantStatus("wd_1", dispatch.Queued)
		_, want := b.status("wd_1")
		return dispatch.Want(want)
	}
	if got := look(coin); got != dispatch.WantGas {
		t.Errorf("a fee above what the books have: got %q, want GAS", got)
	}
	if got := b.word(`SELECT short_by::text FROM dispatch_orders WHERE order_id = 'wd_1'`); got != "500000000000000000" {
		t.Errorf("got %s missing, want the difference", got)
	}
	if got := look(coin / 4); got != dispatch.WantChain {
		t.Errorf("a fee that the books have: got %q, want CHAIN, and nothing brought", got)
	}
}
