package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/wallet"
)

// together is a bench on a chain whose transactions make several payments.
func together(t *testing.T) *bench {
	t.Helper()
	b := newBenchOn(t, local.ChainPolicy{
		SignerID: string(sim.SolanaAddress("network")), FeeMax: money.Units(coin), GasMax: money.Units(coin), Unlimited: true,
	}, sim.Config{Name: chain.Solana, Several: 8})
	b.give(b.treasury, coin, 1000)
	b.mine(4)
	return b
}

func payee(id string) chain.Address { return sim.SolanaAddress(id) }

// three places three payments that may go together.
func (b *bench) three() {
	b.Helper()
	for i, customer := range []string{"ann", "bob", "eve"} {
		o := b.order(fmt.Sprintf("wd_%d", i+1), payee(fmt.Sprintf("wd_%d", i+1)), uint64(100*(i+1)))
		o.CustomerID = customer
		b.place(o)
	}
}

func (b *bench) all(want dispatch.Status) {
	b.Helper()
	for _, id := range []string{"wd_1", "wd_2", "wd_3"} {
		b.wantStatus(id, want)
	}
}

// once finds each of three payments made, by one slot, and the books agree.
func (b *bench) once(attempts int) {
	b.Helper()
	for i := range uint64(3) {
		b.received(payee(fmt.Sprintf("wd_%d", i+1)), 100*(i+1))
	}
	b.one(attempts)
}

// one finds one slot with so many transactions, and its fee divided.
func (b *bench) one(attempts int) {
	b.Helper()
	if n := b.count(`SELECT count(*) FROM dispatch_slots WHERE order_id = 'wd_1' AND orders = 3`); n != 1 || b.count(`SELECT count(*) FROM dispatch_slots`) != 1 {
		b.Errorf("got %d slots of three led by wd_1, want that one alone", n)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_attempts`); n != attempts {
		b.Errorf("got %d transactions, want %d", n, attempts)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_orders l JOIN dispatch_orders r ON r.rides_id = l.order_id AND r.tx_hash = l.tx_hash AND r.fee <= l.fee AND l.fee < r.fee + 3`); n != 2 {
		b.Errorf("got %d orders that share their lead's transaction and its fee evenly, want 2", n)
	}
	b.agree(b.treasury)
}

func TestOrdersShareASlotAndEndTogether(t *testing.T) {
	t.Parallel()
	b := together(t)
	b.three()
	b.round()
	b.all(dispatch.Broadcast)
	if f := b.funds(b.treasury, usdc); f.Reserved != money.Units(600) {
		t.Errorf("reserved while they are out: got %v, want 600", f.Reserved)
	}
	b.mine(1)
	b.round()
	b.all(dispatch.Broadcast)
	b.mine(5)
	b.round()
	b.all(dispatch.Paid)
	b.once(1)
	for _, sql := range []string{
		`UPDATE dispatch_orders SET rides_id = NULL WHERE order_id = 'wd_2'`,
		`UPDATE dispatch_slots SET orders = 2`,
	} {
		if _, err := pgtest.Owner(t, b.db).Exec(b.ctx, sql); !pg.Violates(err, "dispatch_orders_rides_fixed") && !pg.Violates(err, "dispatch_slots_orders_fixed") {
			t.Errorf("%s: got %v, want a refusal", sql, err)
		}
	}
}

func TestOneThatWouldRevertHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := together(t)
	b.chain.Refuse(b.token, payee("wd_2"), "blacklisted")
	b.three()
	b.round()
	b.wantStatus("wd_2", dispatch.Refused)
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_3", dispatch.Paid)
	b.received(payee("wd_2"), 0)
	b.agree(b.treasury)
}

func TestWhoIsFrozenBeforeTheSlotWaitsAlone(t *testing.T) {
	t.Parallel()
	b := together(t)
	b.stop(freeze.Freeze{Scope: freeze.Customer, OrgID: b.org, CustomerID: "bob", Source: freeze.ByOperator})
	b.three()
	b.round()
	b.wantStatus("wd_2", dispatch.Queued)
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_3", dispatch.Paid)
	b.wantStatus("wd_2", dispatch.Queued)
}

// nearly is a signer whose answer is lost.
type nearly struct {
	signer.Signer
	lost bool
}

func (s *nearly) Sign(ctx context.Context, r signer.SignRequest) (signer.Signed, error) {
	signed, err := s.Signer.Sign(ctx, r)
	if s.lost && err == nil {
		return signer.Signed{}, errors.New("connection reset")
	}
	return signed, err
}

func TestASlotOfSeveralSurvivesEveryStep(t *testing.T) {
	t.Parallel()
	b := together(t)
	b.three()
	s := &nearly{Signer: b.signer, lost: true}
	b.newDeskWith(s, dispatch.Config{})
	for range 3 {
		_, _ = b.desk.Round(b.ctx) // the slot is there, and the journal has a signature that nobody knows
		b.all(dispatch.Slotted)
	}
	b.stop(freeze.Freeze{Scope: freeze.Customer, OrgID: b.org, CustomerID: "bob", Source: freeze.ByOperator}) // too late
	b.chain.Provider(0).LoseAnswers(true)
	b.newDesk(dispatch.Config{})
	b.round()
	b.all(dispatch.Signed)
	b.chain.Provider(0).LoseAnswers(false)
	b.clock.move(20 * time.Second)
	b.newDesk(dispatch.Config{})
	b.round()
	b.all(dispatch.Broadcast)
	b.mine(6)
	b.newDesk(dispatch.Config{})
	b.round()
	b.all(dispatch.Paid)
	b.once(1)
}

func TestAReplacementPaysTheSameAndACancelNobody(t *testing.T) {
	t.Parallel()
	for _, act := range []signer.Act{signer.Pay, signer.Cancel} {
		t.Run(string(act), func(t *testing.T) {
			t.Parallel()
			b := together(t)
			b.three()
			b.round()
			b.chain.MineEmpty(1)
			b.clock.move(time.Minute)
			if act == signer.Cancel {
				if ok, err := b.desk.Cancel(b.ctx, "wd_2", audit.Operator("test")); !ok || err != nil {
					t.Fatalf("got %v, %v, want a cancel", ok, err)
				}
			}
			b.round()
			b.mine(6)
			b.round()
			if act == signer.Pay {
				b.all(dispatch.Paid)
				b.once(2)
				return
			}
			b.all(dispatch.Failed)
			for _, id := range []string{"wd_1", "wd_2", "wd_3"} {
				b.received(payee(id), 0)
			}
			b.one(2)
		})
	}
}

func TestAForkTakesAllOfASlotAndGivesThemBack(t *testing.T) {
	t.Parallel()
	b := together(t)
	b.three()
	b.round()
	b.mine(6)
	b.round()
	b.all(dispatch.Paid)
	b.took(false)
	b.round()
	if n := len(b.chain.Pool()); n != 1 {
		t.Fatalf("the pool has %d transactions, want the same one again", n)
	}
	b.clock.move(time.Minute)
	b.remine(8)
	b.clock.move(time.Minute)
	b.round()
	if n := b.count(`SELECT count(*) FROM dispatch_in_question`); n != 0 {
		t.Errorf("got %d orders in question, want none", n)
	}
	b.all(dispatch.Paid)
	b.once(1)
}

// What contradicts itself on the chain stops all of its slot, and each is decided about
// by itself: by the balances of its block, or by a person's word.
func TestEachOfASlotThatIsStuckIsDecidedByItself(t *testing.T) {
	t.Parallel()
	b := together(t)
	on := b.chain.Configured()
	on.Sender = silentToken{on.Sender}
	listeners := map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}
	b.desk = dispatch.New(b.db, on, b.signer, mirror.Record, listeners, dispatch.Config{}, slog.New(slog.DiscardHandler))
	b.three()
	b.round()
	b.mine(6)
	b.round()
	b.all(dispatch.Stuck)
	b.must(dispatch.Decide(b.ctx, b.db, listeners, "wd_2", true, op, "seen on the chain"))
	b.wantStatus("wd_2", dispatch.Paid)
	b.wantStatus("wd_1", dispatch.Stuck)
	for _, id := range []string{"wd_3", "wd_1"} {
		if got, err := b.desk.Resolve(b.ctx, id, op, false); err != nil || got != dispatch.Paid {
			t.Fatalf("resolve %s: got %v, %v, want it paid", id, got, err)
		}
	}
	b.once(1)
}

// swept does to sweeps what their feature would.
type swept struct{ *heard }

func (swept) Ended(ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End) ([]ledger.Posting, error) {
	_, err := tx.Exec(ctx, `UPDATE sweeps SET status = 'DONE', ended_at = $2 WHERE sweep_id = $1 AND $3`, o.ID, tx.Now, e.Paid)
	return nil, err
}

// sweeps places three sweeps of deposit addresses, which are returned.
func (b *bench) sweeps() (from []wallet.Wallet) {
	b.Helper()
	b.sweepingDesk(b.signer)
	for i, customer := range []string{"ann", "bob", "eve"} {
		w, err := b.book.Address(b.ctx, signer.WalletRef{OrgID: b.org, Family: chain.SolanaFamily, Purpose: wallet.CustomerDeposit, Subject: customer})
		b.must(err)
		b.give(w, 0, uint64(100*(i+1)))
		o := dispatch.Order{
			ID: fmt.Sprintf("wd_%d", i+1), OrgID: b.org, Purpose: signer.Sweep, Chain: b.name, WalletID: b.treasury.ID, FromID: w.ID,
			ToWalletID: b.treasury.ID, To: b.treasury.Address, MintID: usdc, Contract: b.token, Amount: money.Units(uint64(100 * (i + 1))),
		}
		b.system(func(ctx context.Context, tx pg.Tx) error {
			if err := dispatch.Place(ctx, tx, o); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `
				INSERT INTO sweeps (sweep_id, org_id, chain, wallet_id, to_wallet_id, mint_id, amount, trigger, status, created_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, 'VALUE', 'OPEN', $8)`, o.ID, o.OrgID, o.Chain, w.ID, o.ToWalletID, o.MintID, o.Amount, tx.Now)
			if err != nil {
				return err
			}
			return wallet.Move(ctx, tx, wallet.Movement{WalletID: w.ID, OrgID: b.org, MintID: usdc, Part: wallet.Reserved, Plus: o.Amount})
		})
		from = append(from, w)
	}
	return from
}

func (b *bench) sweepingDesk(s signer.Signer) {
	b.desk = dispatch.New(b.db, b.chain.Configured(), s, mirror.Record, map[signer.Purpose]dispatch.Listener{signer.Sweep: swept{b.feature}},
		dispatch.Config{}, slog.New(slog.DiscardHandler))
}

// Several deposit addresses are emptied by one transaction that the treasury pays for.
func TestSweepsOfSeveralAddressesAreOneTransaction(t *testing.T) {
	t.Parallel()
	b := together(t)
	b.sweeps()
	b.round()
	b.all(dispatch.Broadcast)
	b.mine(6)
	b.round()
	b.all(dispatch.Paid)
	b.one(1)
	if got := b.chain.Balance(b.treasury.Address, b.token); got != money.Units(1600) {
		t.Errorf("the treasury has %v, want 1600", got)
	}
}

// Rule WD-39. The transaction takes from each of them.
func TestAFreezeOfAnyAddressInASlotStopsItsTransaction(t *testing.T) {
	t.Parallel()
	b := together(t)
	from := b.sweeps()
	b.sweepingDesk(&nearly{Signer: b.signer, lost: true})
	_, _ = b.desk.Round(b.ctx)
	b.all(dispatch.Slotted)
	b.sweepingDesk(b.signer)
	frozen := freeze.Freeze{Scope: freeze.Wallet, OrgID: b.org, WalletID: from[2].ID, Chain: b.name, Source: freeze.ByOperator}
	b.stop(frozen)
	for range 2 {
		b.round()
		b.clock.move(time.Minute)
	}
	b.all(dispatch.Slotted)
	if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE raw IS NOT NULL`); n != 0 {
		t.Error("it was signed")
	}
	b.letGo()
	b.chain.Provider(0).RefuseSend("too many requests")
	_, _ = b.desk.Round(b.ctx)
	b.all(dispatch.Signed)
	b.chain.Provider(0).RefuseSend("")
	b.stop(frozen)
	for range 2 {
		b.round()
		b.clock.move(time.Minute)
	}
	b.all(dispatch.Signed)
	if n := len(b.chain.Pool()); n != 0 {
		t.Error("it was sent")
	}
	b.letGo()
	b.round()
	b.mine(6)
	b.round()
	b.all(dispatch.Paid)
	if got := b.chain.Balance(b.treasury.Address, b.token); got != money.Units(1600) {
		t.Errorf("the treasury has %v, want 1600", got)
	}
}

// Rule WD-40. What a share of the fee can be at the most is what a customer's limit is
// compared with: more than that goes alone, and is refused where that is dearer still.
func TestACustomersLimitOnTheFeeIsComparedWithTheShare(t *testing.T) {
	t.Parallel()
	b := together(t)
	var ps []chain.Payment
	for _, id := range []string{"wd_1", "wd_2", "wd_3"} {
		ps = append(ps, chain.Payment{From: b.treasury.Address, To: payee(id), Contract: b.token, Amount: money.Units(100)})
	}
	fees, err := b.chain.Configured().Sender.Quote(b.ctx, ps...)
	b.must(err)
	whole, err := fees.Max()
	b.must(err)
	part := signer.Part(whole, len(ps))
	less, err := part.Sub(money.Units(1))
	b.must(err)
	for name, c := range map[string]struct {
		most money.Amount
		want dispatch.Status
		with int
	}{"enough": {part, dispatch.Broadcast, 3}, "one too few": {less, dispatch.Refused, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := together(t)
			for i, id := range []string{"wd_1", "wd_2", "wd_3"} {
				o := b.order(id, payee(id), 100)
				if i == 1 {
					o.FeeMax = &c.most
				}
				b.place(o)
			}
			b.round()
			b.wantStatus("wd_2", c.want)
			b.wantStatus("wd_1", dispatch.Broadcast)
			b.wantStatus("wd_3", dispatch.Broadcast)
			if n := b.count(`SELECT max(orders) FROM dispatch_slots`); c.want == dispatch.Broadcast && n != c.with {
				t.Errorf("got %d orders in a slot, want %d", n, c.with)
			}
			b.mine(6)
			b.round()
			if n := b.count(`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID' AND fee > $1 AND order_id = 'wd_2'`, c.most); n != 0 {
				t.Errorf("wd_2 has cost more than the %v that it allows", c.most)
			}
		})
	}
}
