package dispatch_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// told is a log that can be read.
type told struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *told) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }

func (l *told) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// newLoudDesk is newDesk with a log.
func (b *bench) newLoudDesk() *told {
	l := &told{}
	b.desk = dispatch.New(b.db, b.chain.Configured(), b.signer, mirror.Record, map[signer.Purpose]dispatch.Listener{
		signer.Payment: b.feature, signer.Sweep: b.feature, signer.Gas: b.feature,
	}, dispatch.Config{}, slog.New(slog.NewTextHandler(l, nil)))
	return l
}

// slotted brings an order to its slot and no further.
func (b *bench) slotted(o dispatch.Order) {
	b.Helper()
	down := errors.New("no answer")
	b.newDeskWith(&meddler{Signer: b.signer, refuse: func(signer.SignRequest) error { return down }}, dispatch.Config{})
	b.place(o)
	for range 2 {
		if _, err := b.desk.Round(b.ctx); err != nil && !errors.Is(err, down) {
			b.Fatal(err)
		}
	}
	b.wantStatus(o.ID, dispatch.Slotted)
	b.newDesk(dispatch.Config{})
}

func (b *bench) said(id string) (s string) {
	b.Helper()
	shown := b.show(id)
	return shown.Said
}

// most is what the dearest transaction of a payment may cost as things stand.
func (b *bench) most(p chain.Payment) money.Amount {
	b.Helper()
	fees, err := b.chain.Configured().Sender.Quote(b.ctx, p)
	b.must(err)
	most, err := fees.Max()
	b.must(err)
	return most
}

func limited(most uint64) local.ChainPolicy {
	p := open()
	p.Unlimited = false
	p.FeeDayMax = money.Units(coin)
	p.Assets = map[chain.Address]local.Limit{sim.Address("USDC"): {PaymentMax: money.Units(most), OrganizationMax: money.Units(5000), OverallMax: money.Units(5000)}}
	return p
}

// H-78: what the policy does not allow any more, and was never signed, has a slot that
// it may not pay from. The slot is filled, the payment fails with the reason, and what
// stands behind it goes on.
func TestAPaymentThatThePolicyNoLongerAllowsFillsItsSlotAndFails(t *testing.T) {
	t.Parallel()
	to := sim.Address("customer")
	for name, lower := range map[string]func(b *bench) local.ChainPolicy{
		"the limit of one payment": func(*bench) local.ChainPolicy { return limited(399) },
		"the asset": func(*bench) local.ChainPolicy {
			p := limited(1)
			p.Assets = map[chain.Address]local.Limit{"": {Unlimited: true}}
			return p
		},
		"the fee of one transaction": func(b *bench) local.ChainPolicy {
			p := limited(1000)
			most := b.most(b.paid(b.order("x", to, 1)))
			var err error
			p.FeeMax, err = most.Sub(money.Units(1))
			b.must(err)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, limited(1000))
			b.give(b.treasury, coin, 1000)
			b.slotted(b.order("wd_1", to, 400))
			b.policy(lower(b))
			b.round()
			b.wantStatus("wd_1", dispatch.Broadcast)
			if len(b.feature.said) != 0 {
				t.Errorf("the feature heard %v, want nothing: no payment is out", b.feature.said)
			}
			b.mine(6)
			b.round()
			b.wantStatus("wd_1", dispatch.Failed)
			if want := []string{"ended wd_1 paid=false cancelled=true refused"}; !slices.Equal(b.feature.said, want) {
				t.Errorf("the feature heard %v, want %v", b.feature.said, want)
			}
			if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1' AND act = 'PAY' AND raw IS NULL`); n != 1 {
				t.Errorf("got %d payments without a signature, want the one that was refused", n)
			}
			if n := b.count(`SELECT count(*) FROM signer_journal WHERE convert_from(body, 'UTF8') LIKE '%"act":"CANCEL"%'`); n != 1 {
				t.Errorf("got %d cancels in the journal, want 1", n)
			}
			if n := b.count(`SELECT count(*) FROM audit_log WHERE resource_id = 'wd_1' AND action = 'order.replaced' AND detail->>'why' LIKE 'signer refuses%'`); n != 1 {
				t.Errorf("got %d audit rows with the signer's words, want 1", n)
			}
			if said := b.said("wd_1"); !strings.Contains(said, "signer refuses") {
				t.Errorf("the order says %q, want the signer's words", said)
			}
			b.received(to, 0)
			b.agree(b.treasury)

			b.policy(limited(1000))
			b.place(b.order("wd_2", to, 300))
			b.round()
			b.mine(6)
			b.round()
			b.wantStatus("wd_2", dispatch.Paid)
			b.received(to, 300)
			b.agree(b.treasury)
		})
	}
}

func TestACancelThatIsRefusedAsWellWaitsInSight(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.slotted(b.order("wd_1", to, 400))
	p := open()
	p.FeeMax = money.Units(1)
	b.policy(p)
	log := b.newLoudDesk()
	for range 20 {
		b.round()
		b.clock.move(time.Second)
	}
	b.wantStatus("wd_1", dispatch.Slotted)
	attempts := func(want int) {
		t.Helper()
		if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1'`); n != want {
			t.Errorf("got %d transactions, want %d", n, want)
		}
	}
	attempts(2) // the payment and its cancel, neither signed
	if n := log.count("nothing behind it goes out"); n != 1 {
		t.Errorf("got %d alarms in 20 seconds, want 1", n)
	}
	if said := b.said("wd_1"); !strings.Contains(said, "feeMax") {
		t.Errorf("the order says %q, want what the signer asks for", said)
	}
	// A cheaper market makes a cheaper cancel, and a policy that allows it lets it go.
	b.chain.SetBaseFee(1)
	b.chain.MineEmpty(1)
	b.clock.move(2 * time.Minute)
	b.round()
	attempts(3)
	if n := log.count("nothing behind it goes out"); n != 2 {
		t.Errorf("got %d alarms after two minutes, want 2", n)
	}
	b.policy(open())
	b.round()
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Failed)
	b.received(to, 0)
	b.agree(b.treasury)
}

// A wallet that has spent its fees of the day waits and says so; no payment fails.
func TestTheFeesOfADayHoldPaymentsUpAndFailNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	one := b.most(b.paid(b.order("x", to, 1)))
	p := open()
	p.FeeMax, p.FeeDayMax = one, one
	b.policy(p)
	log := b.newLoudDesk()
	b.place(b.order("wd_1", to, 100))
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.place(b.order("wd_2", to, 200))
	for range 3 {
		b.round()
		b.clock.move(10 * time.Second)
	}
	if s, waits := b.status("wd_2"); s != dispatch.Queued || waits != string(dispatch.WantSigner) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for SIGNER", s, waits)
	}
	if log.count("nothing more on fees today") == 0 || !strings.Contains(b.said("wd_2"), "feeDayMax") {
		t.Errorf("the order says %q, want an alarm and what to do", b.said("wd_2"))
	}
	// With a part of the day left it gets a slot and waits in it.
	p.FeeDayMax, _ = one.Add(money.Units(1))
	b.policy(p)
	b.clock.move(time.Minute)
	for range 3 {
		b.round()
		b.clock.move(time.Minute)
	}
	b.wantStatus("wd_2", dispatch.Slotted)
	if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_2'`); n != 1 || !strings.Contains(b.said("wd_2"), signer.FeeLimit) {
		t.Errorf("got %d transactions and %q, want the payment alone, waiting for %s", n, b.said("wd_2"), signer.FeeLimit)
	}
	b.mine(6)
	b.clock.move(24 * time.Hour)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.mine(6)
	b.round()
	b.wantStatus("wd_2", dispatch.Paid)
	if said := b.said("wd_2"); said != "" {
		t.Errorf("the order still says %q", said)
	}
	b.received(to, 300)
	b.agree(b.treasury)
}

// A slot that the journal has given to another intent shows a database older than the
// journal: nothing goes out at all.
func TestASlotThatTheJournalGaveToAnotherFreezesEverything(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	lost := signer.Intent{
		ID: "wd_lost", Purpose: signer.Payment, Chain: chain.Ethereum, From: b.treasury.Ref(), To: to, Contract: b.token, Amount: money.Units(7),
		CustomerID: "ann", MintID: usdc,
	}
	_, err := b.signer.Admit(b.ctx, lost)
	b.must(err)
	_, err = b.signer.Sign(b.ctx, signer.SignRequest{
		IntentID: lost.ID, Act: signer.Pay, Payload: signertest.PayloadOf(t, lost, b.treasury.Address, 0, signertest.Fees()),
	})
	b.must(err)
	b.place(b.order("wd_1", to, 400))
	for range 3 {
		b.round()
		b.clock.move(time.Minute)
	}
	b.wantStatus("wd_1", dispatch.Slotted)
	if n := b.count(`SELECT count(*) FROM freezes WHERE scope = 'ALL' AND source = 'SIGNER' AND reason LIKE '%wd_lost%signer import%'`); n != 1 {
		t.Errorf("got %d freezes that name the other order and what to do, want 1", n)
	}
	if n := len(b.chain.Pool()); n != 0 {
		t.Errorf("got %d transactions out, want none", n)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d transactions, want the refused one alone: its slot is not ours to fill", n)
	}
}

// H-75: fees a thousand times higher than when a payment was signed. It is replaced in
// its slot up to the cap; there it waits, in sight, and is paid when they fall.
func TestFeesThatSpikeAreFollowedUpToTheCapAndThenWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.place(b.order("wd_1", to, 400))
	b.round()
	log := b.newLoudDesk()
	b.chain.SetBaseFee(1_000_000_000_000)
	b.chain.MineEmpty(1)
	for range 120 {
		b.clock.move(time.Minute)
		b.round()
	}
	b.wantStatus("wd_1", dispatch.Broadcast)
	shown := b.show("wd_1")
	if len(shown.Transactions) < 3 {
		t.Errorf("got %d transactions, want it replaced again and again", len(shown.Transactions))
	}
	if _, ok, err := b.chain.Bump(b.ctx, shown.Transactions[len(shown.Transactions)-1].Fees); ok || err != nil {
		t.Errorf("got %v %v, want the last one at the cap", ok, err)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Errorf("got %d slots, want 1", n)
	}
	if log.count("may not be raised further") == 0 || !strings.Contains(shown.WaitsFor(), "cap") {
		t.Errorf("it waits for %q, want the cap named and an alarm", shown.WaitsFor())
	}
	b.chain.SetBaseFee(1)
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
	if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE made_for = 'FEE'`); n != len(shown.Transactions)-1 {
		t.Errorf("got %d replacements for their fee, want %d", n, len(shown.Transactions)-1)
	}
}

// paid is what an order of the treasury asks of the chain.
func (b *bench) paid(o dispatch.Order) chain.Payment {
	return chain.Payment{From: b.treasury.Address, To: o.To, Contract: o.Contract, Amount: o.Amount}
}
