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
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// logBuffer is a log that the test can read.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// newLoggingWorker is newWorker with a log.
func (b *testEnv) newLoggingWorker() *logBuffer {
	l := &logBuffer{}
	listeners := map[signer.Purpose]dispatch.Listener{
		signer.Payment: b.feature, signer.Sweep: b.feature, signer.GasTopUp: b.feature,
	}
	b.worker = dispatch.New(b.db, b.chain.ToChain(), b.signer, journal.RecordEntry, listeners, dispatch.Config{},
		slog.New(slog.NewTextHandler(l, nil)))
	return l
}

// bringToSlot takes an order to its slot and no further.
func (b *testEnv) bringToSlot(o dispatch.Order) {
	b.Helper()
	down := errors.New("no answer")
	b.newWorkerWith(
		&hookedSigner{Signer: b.signer, refuse: func(signer.SignRequest) error { return down }}, dispatch.Config{},
	)
	b.submitOrder(o)
	for range 2 {
		if _, err := b.worker.RunRound(b.ctx); err != nil && !errors.Is(err, down) {
			b.Fatal(err)
		}
	}
	b.wantStatus(o.ID, dispatch.Slotted)
	b.newWorker(dispatch.Config{})
}

func (b *testEnv) lastError(id string) (s string) {
	b.Helper()
	shown := b.loadView(id)
	return shown.LastError
}

// quoteMax returns the most that a transaction of a payment may cost at present.
func (b *testEnv) quoteMax(p chain.Payment) money.Amount {
	b.Helper()
	fees, err := b.chain.ToChain().Sender.Quote(b.ctx, p)
	b.must(err)
	most, err := fees.Max()
	b.must(err)
	return most
}

func limitedPolicy(most uint64) signpolicy.Chain {
	p := openPolicy()
	p.Unlimited = false
	p.FeeDayMax = money.Units(coin)
	p.Assets = map[chain.Address]signpolicy.Limit{sim.Address("USDC"): {
		PaymentMax: money.Units(most), OrganizationMax: money.Units(5000), OverallMax: money.Units(5000),
	}}
	return p
}

// H-78: an unsigned payment that the policy no longer allows has a slot that it may not use. A
// cancel takes the slot, the payment fails with the reason, and the orders behind it go on.
func TestAPaymentThatThePolicyNoLongerAllowsFillsItsSlotAndFails(t *testing.T) {
	t.Parallel()
	to := sim.Address("customer")
	for name, lower := range map[string]func(b *testEnv) signpolicy.Chain{
		"the limit of one payment": func(*testEnv) signpolicy.Chain { return limitedPolicy(399) },
		"the asset": func(*testEnv) signpolicy.Chain {
			p := limitedPolicy(1)
			p.Assets = map[chain.Address]signpolicy.Limit{"": {Unlimited: true}}
			return p
		},
		"the fee of one transaction": func(b *testEnv) signpolicy.Chain {
			p := limitedPolicy(1000)
			most := b.quoteMax(b.paymentOf(b.newOrder("x", to, 1)))
			var err error
			p.FeeMax, err = most.Sub(money.Units(1))
			b.must(err)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, limitedPolicy(1000))
			b.fundWallet(b.treasury, coin, 1000)
			b.bringToSlot(b.newOrder("wd_1", to, 400))
			b.restartWithPolicy(lower(b))
			b.runRounds()
			b.wantStatus("wd_1", dispatch.Broadcast)
			if len(b.feature.lines) != 0 {
				t.Errorf("the feature heard %v, want nothing: no payment is out", b.feature.lines)
			}
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("wd_1", dispatch.Failed)
			if want := []string{"ended wd_1 paid=false cancelled=true refused"}; !slices.Equal(b.feature.lines, want) {
				t.Errorf("the feature heard %v, want %v", b.feature.lines, want)
			}
			if n := b.queryCount(
				`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1' AND act = 'PAY' AND raw IS NULL`,
			); n != 1 {
				t.Errorf("got %d payments without a signature, want the one that was refused", n)
			}
			if n := b.queryCount(
				`SELECT count(*) FROM signer_journal WHERE convert_from(body, 'UTF8') LIKE '%"act":"CANCEL"%'`,
			); n != 1 {
				t.Errorf("got %d cancels in the journal, want 1", n)
			}
			if n := b.queryCount(
				`SELECT count(*) FROM audit_log WHERE resource_id = 'wd_1' AND action = 'order.replaced' AND detail->>'why' LIKE 'signer refuses%'`,
			); n != 1 {
				t.Errorf("got %d audit rows with the signer's words, want 1", n)
			}
			if said := b.lastError("wd_1"); !strings.Contains(said, "signer refuses") {
				t.Errorf("the order says %q, want the signer's words", said)
			}
			b.wantReceived(to, 0)
			b.checkBooks(b.treasury)

			b.restartWithPolicy(limitedPolicy(1000))
			b.submitOrder(b.newOrder("wd_2", to, 300))
			b.runRounds()
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("wd_2", dispatch.Paid)
			b.wantReceived(to, 300)
			b.checkBooks(b.treasury)
		})
	}
}

func TestACancelThatIsRefusedAsWellWaitsInSight(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.bringToSlot(b.newOrder("wd_1", to, 400))
	p := openPolicy()
	p.FeeMax = money.Units(1)
	b.restartWithPolicy(p)
	log := b.newLoggingWorker()
	for range 20 {
		b.runRounds()
		b.clock.advance(time.Second)
	}
	b.wantStatus("wd_1", dispatch.Slotted)
	attempts := func(want int) {
		t.Helper()
		if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1'`); n != want {
			t.Errorf("got %d transactions, want %d", n, want)
		}
	}
	attempts(2) // the payment and its cancel, neither signed
	if n := log.count("later transactions of this wallet wait"); n != 1 {
		t.Errorf("got %d alarms in 20 seconds, want 1", n)
	}
	if said := b.lastError("wd_1"); !strings.Contains(said, "feeMax") {
		t.Errorf("the order says %q, want what the signer asks for", said)
	}
	// Lower fees make a cheaper cancel, and a policy that allows it lets it pass.
	b.chain.SetBaseFee(1)
	b.chain.MineEmpty(1)
	b.clock.advance(2 * time.Minute)
	b.runRounds()
	attempts(3)
	if n := log.count("later transactions of this wallet wait"); n != 2 {
		t.Errorf("got %d alarms after two minutes, want 2", n)
	}
	b.restartWithPolicy(openPolicy())
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Failed)
	b.wantReceived(to, 0)
	b.checkBooks(b.treasury)
}

// A wallet that has used its fee limit of the day waits and reports that; no payment fails.
func TestTheFeesOfADayHoldPaymentsUpAndFailNone(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	one := b.quoteMax(b.paymentOf(b.newOrder("x", to, 1)))
	p := openPolicy()
	p.FeeMax, p.FeeDayMax = one, one
	b.restartWithPolicy(p)
	log := b.newLoggingWorker()
	b.submitOrder(b.newOrder("wd_1", to, 100))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.submitOrder(b.newOrder("wd_2", to, 200))
	for range 3 {
		b.runRounds()
		b.clock.advance(10 * time.Second)
	}
	if s, waits := b.orderStatus("wd_2"); s != dispatch.Queued || waits != string(dispatch.WaitFeeLimit) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FEE_LIMIT", s, waits)
	}
	if log.count("no more on fees today") == 0 || !strings.Contains(b.lastError("wd_2"), "feeDayMax") {
		t.Errorf("the order says %q, want an alarm and what to do", b.lastError("wd_2"))
	}
	// With a part of the limit left, the order gets a slot and waits in it.
	p.FeeDayMax, _ = one.Add(money.Units(1))
	b.restartWithPolicy(p)
	b.clock.advance(time.Minute)
	for range 3 {
		b.runRounds()
		b.clock.advance(time.Minute)
	}
	b.wantStatus("wd_2", dispatch.Slotted)
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_2'`); n != 1 ||
		!strings.Contains(b.lastError("wd_2"), signer.FeeLimit) {
		t.Errorf(
			"got %d transactions and %q, want the payment alone, waiting for %s", n, b.lastError("wd_2"),
			signer.FeeLimit,
		)
	}
	b.mineAndProve(6)
	b.clock.advance(24 * time.Hour)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_2", dispatch.Paid)
	if said := b.lastError("wd_2"); said != "" {
		t.Errorf("the order still says %q", said)
	}
	b.wantReceived(to, 300)
	b.checkBooks(b.treasury)
}

// A slot that the journal gave to another intent shows that the database is older than the journal.
// Nothing is sent at all.
func TestASlotThatTheJournalGaveToAnotherFreezesEverything(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	lost := signer.Intent{
		ID: "wd_lost", Purpose: signer.Payment, Chain: chain.Ethereum, From: b.treasury.Ref(), To: to,
		Contract: b.token, Amount: money.Units(7),
		CustomerID: "ann", MintID: usdc,
	}
	_, err := b.signer.AdmitIntent(b.ctx, lost)
	b.must(err)
	_, err = b.signer.Sign(b.ctx, signer.SignRequest{
		IntentID: lost.ID, Act: signer.Pay,
		Payload: signertest.IntentPayload(t, lost, b.treasury.Address, 0, signertest.UsualFees()),
	})
	b.must(err)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	for range 3 {
		b.runRounds()
		b.clock.advance(time.Minute)
	}
	b.wantStatus("wd_1", dispatch.Slotted)
	if n := b.queryCount(
		`SELECT count(*) FROM freezes WHERE scope = 'ALL' AND source = 'SIGNER' AND reason LIKE '%wd_lost%signer import%'`,
	); n != 1 {
		t.Errorf("got %d freezes that name the other order and what to do, want 1", n)
	}
	if n := len(b.chain.Mempool()); n != 0 {
		t.Errorf("got %d transactions out, want none", n)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d transactions, want the refused one alone: its slot is not ours to fill", n)
	}
}

// H-75: fees are a thousand times higher than when a payment was signed. It is replaced in its slot
// up to the cap. There it waits visibly, and it is paid when fees fall.
func TestFeesThatSpikeAreFollowedUpToTheCapAndThenWaitedFor(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	log := b.newLoggingWorker()
	b.chain.SetBaseFee(1_000_000_000_000)
	b.chain.MineEmpty(1)
	for range 120 {
		b.clock.advance(time.Minute)
		b.runRounds()
	}
	b.wantStatus("wd_1", dispatch.Broadcast)
	shown := b.loadView("wd_1")
	if len(shown.Transactions) < 3 {
		t.Errorf("got %d transactions, want it replaced again and again", len(shown.Transactions))
	}
	if _, ok, err := b.chain.Bump(b.ctx, shown.Transactions[len(shown.Transactions)-1].Fees); ok || err != nil {
		t.Errorf("got %v %v, want the last one at the cap", ok, err)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Errorf("got %d slots, want 1", n)
	}
	if log.count("its fee is at its limit") == 0 || !strings.Contains(shown.DescribeWait(), "cap") {
		t.Errorf("it waits for %q, want the cap named and an alarm", shown.DescribeWait())
	}
	b.chain.SetBaseFee(1)
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
	if n := b.queryCount(
		`SELECT count(*) FROM dispatch_attempts WHERE replace_reason = 'FEE'`,
	); n != len(shown.Transactions)-1 {
		t.Errorf("got %d replacements for their fee, want %d", n, len(shown.Transactions)-1)
	}
}

// paymentOf returns the chain payment of an order of the treasury.
func (b *testEnv) paymentOf(o dispatch.Order) chain.Payment {
	return chain.Payment{From: b.treasury.Address, To: o.To, Contract: o.Contract, Amount: o.Amount}
}
