package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// insufficientFeeSender is a chain that simulates a payment with its fee, which the payer lacks.
type insufficientFeeSender struct {
	chain.Sender
	fee money.Amount
}

func (s insufficientFeeSender) Quote(context.Context, ...chain.Payment) (chain.Fees, error) {
	return chain.Fees{}, &chain.InsufficientFeeError{Fee: s.fee}
}

func TestAPaymentWhoseFeeThePayerLacksWaitsForGasByTheBooks(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin/2, 100)
	b.submitOrder(b.newOrder("wd_1", sim.Address("contract"), 50))
	ch := b.chain.ToChain()
	look := func(fee uint64) dispatch.WaitReason {
		ch.Sender = insufficientFeeSender{b.chain.ToChain().Sender, money.Units(fee)}
		b.worker = dispatch.New(
			b.db, ch, b.signer, journal.RecordEntry, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
			dispatch.Config{}, slog.New(slog.DiscardHandler),
		)
		b.clock.advance(time.Minute)
		b.runRounds()
		b.wantStatus("wd_1", dispatch.Queued)
		_, want := b.orderStatus("wd_1")
		return dispatch.WaitReason(want)
	}
	if got := look(coin); got != dispatch.WaitGas {
		t.Errorf("a fee above what the books have: got %q, want GAS", got)
	}
	if got := b.queryText(
		`SELECT missing_amount::text FROM dispatch_orders WHERE order_id = 'wd_1'`,
	); got != "500000000000000000" {
		t.Errorf("got %s missing, want the difference", got)
	}
	if got := look(coin / 4); got != dispatch.WaitProviders {
		t.Errorf("a fee that the books have: got %q, want CHAIN, and nothing brought", got)
	}
}
