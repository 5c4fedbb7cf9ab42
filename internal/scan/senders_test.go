package scan_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/scan"
)

// asked records the transfers whose senders were asked for.
type asked struct {
	chain.Reader
	to []chain.Address
}

func (r *asked) Senders(ctx context.Context, at chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	for _, t := range of {
		r.to = append(r.to, t.To)
	}
	return r.Reader.Senders(ctx, at, of)
}

// Neither walk asks for the senders of transfers to other addresses.
func TestWhoSentIsAskedForOurMovementsAlone(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	w.c.Mint(ours2, usdcAt, money.Units(500))
	w.c.Pay(payer, sim.Address("a stranger"), usdcAt, 100)
	w.c.Pay(payer, ours, usdcAt, 200)
	w.c.Pay(ours2, sim.Address("a stranger"), usdcAt, 100)
	w.c.Mine(4)
	r := &asked{Reader: w.c}
	start := uint64(0)
	walker := scan.New(
		w.db, scan.Config{Chain: chain.Ethereum, Reader: r, Start: &start}, w.listener, slog.New(slog.DiscardHandler),
	)
	for range 3 {
		if _, err := walker.StepFinal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(r.to, []chain.Address{ours}) {
		t.Errorf("final walk: got those of %v asked, want those of %s", r.to, ours)
	}
	r.to = nil
	for moved := true; moved; {
		var err error
		if moved, err = walker.StepHead(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if slices.ContainsFunc(r.to, func(a chain.Address) bool { return a != ours }) {
		t.Errorf("head walk: got those of %v asked, want those of %s", r.to, ours)
	}
}

// A block is read again if the senders of our arrivals are unknown. Its arrivals do not become
// deposits without senders, and the block is not skipped.
func TestABlockWaitsUntilItsSendersAreTold(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{Providers: 1, Quorum: 1}, 0)
	w.c.Mine(5)
	w.walkFinal(t)
	w.walkHead(t)
	one, two := min(ours2, treasury), max(ours2, treasury)
	stranger := sim.Address("a stranger")
	w.c.SubmitTx(payer,
		sim.Move{
			Contract: usdcAt, To: ours, Amount: money.Units(11), MultiSender: true,
			Senders: []chain.Address{two, one, two},
		},
		sim.Move{
			Contract: usdcAt, To: ours, Amount: money.Units(12), MultiSender: true,
			Senders: []chain.Address{two, stranger},
		},
		sim.Move{Contract: usdcAt, To: ours, Amount: money.Units(13), MultiSender: true},
		sim.Move{Contract: usdcAt, To: ours, Amount: money.Units(14), MultiSender: true, Senders: []chain.Address{one}},
		sim.Move{
			Contract: usdcAt, To: ours, Amount: money.Units(15), MultiSender: true, Senders: []chain.Address{stranger},
		})
	w.c.Mine(4)
	w.c.Provider(0).HideSenders(true)
	for moved := true; moved; {
		moved, _ = w.w.StepFinal(t.Context()) // the blocks without it
	}
	before, _ := w.cursor(t)
	for range 3 {
		if _, err := w.w.StepFinal(t.Context()); err == nil {
			t.Fatal("final walk: got no error, want to hear that nobody tells who sent it")
		}
		if _, err := w.w.StepHead(t.Context()); err == nil {
			t.Fatal("head walk: got no error, want to hear that nobody tells who sent it")
		}
	}
	if height, _ := w.cursor(t); height != before || len(w.listener.found) != 0 {
		t.Errorf("got the cursor at %d and %v found, want it at %d and nothing", height, w.listener.found, before)
	}
	w.c.Provider(0).HideSenders(false)
	w.walkHead(t)
	w.walkFinal(t)
	for i, want := range []struct {
		senders []chain.Address
		from    chain.Address
		ours    bool
	}{
		{[]chain.Address{one, two}, "", true},
		{[]chain.Address{min(two, stranger), max(two, stranger)}, "", false},
		{nil, "", false},
		{[]chain.Address{one}, one, true},
		{[]chain.Address{stranger}, stranger, false},
	} {
		if len(w.listener.found) <= i {
			t.Fatalf("got %d movements, want five", len(w.listener.found))
		}
		got := w.listener.found[i]
		if got.Amount != money.Units(uint64(11+i)) || !slices.Equal(got.Senders, want.senders) ||
			got.From != want.from || got.FromOwnWallets != want.ours {
			t.Errorf("got %+v, want it from %v, ours: %t", got, want.senders, want.ours)
		}
	}
}
