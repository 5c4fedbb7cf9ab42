package coins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/wallet"
)

// merging is a chain on which three coins of up to a hundred units become one.
var merging = sim.Config{MergeFrom: 3, MergeFee: fee}

const merges = `SELECT coalesce(string_agg(m.status || ' ' || o.status, ', ' ORDER BY m.created_at, m.merge_id), '') FROM merges m JOIN dispatch_orders o ON o.order_id = m.merge_id`

func (h *house) text(sql string, args ...any) (s string) {
	h.Helper()
	h.must(pgtest.Owner(h.T, h.db).QueryRow(h.ctx, sql, args...).Scan(&s))
	return s
}

func (h *house) merged(want string) {
	h.Helper()
	if got := h.text(merges); got != want {
		h.Errorf("merges: got %q, want %q (%s)", got, want, h.text(`SELECT coalesce(string_agg(last_error, '; '), '') FROM dispatch_orders WHERE purpose = 'MERGE'`))
	}
}

// Rule COIN-8.
func TestSmallCoinsBecomeOneThatPays(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.arrives(h.treasury, 1000)
	h.arrives(h.alice, 20, 30)
	h.merged("") // too few
	h.later(11 * time.Minute)
	h.arrives(h.alice, 40, 3, 200)
	h.merged("OPEN BROADCAST")
	h.coins("HELD 3", "RESERVED 20", "RESERVED 30", "RESERVED 40", "FREE 200", "FREE 1000") // no dust, and nothing that is not small
	h.sound()
	merge := h.text(`SELECT merge_id FROM merges`)
	h.later(2 * time.Hour)
	h.step()
	if n := count(h, `SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d transactions while nobody waits, want one", n)
	}
	if _, err := h.Out.Cancel(h.ctx, merge, audit.Operator("trial")); !fault.Is(err, fault.InvalidState) || !strings.Contains(err.Error(), "the same transaction again") {
		t.Errorf("a cancel: got %v, want it refused", err)
	}
	// A payment that needs its coins has its fee raised.
	waits := h.withdraw(290)
	h.step()
	h.want(waits, "BROADCAST")
	h.later(2 * time.Hour)
	h.step()
	if n := count(h, `SELECT count(*) FROM dispatch_attempts WHERE order_id = $1`, merge); n != 1 {
		t.Errorf("got %d transactions of the merge while nobody waits for it, want one", n)
	}
	h.mine(4)
	h.want(waits, "PAID")
	h.merged("DONE PAID")
	h.sound()
	if n := count(h, `SELECT count(*) FROM coins WHERE change_of = $1 AND status = 'FREE' AND amount = 80`, merge); n != 1 {
		t.Errorf("got %d coins of the merge, want one of 80", n)
	}
	if got := h.text(`SELECT fee::text FROM dispatch_orders WHERE order_id = $1`, merge); got != "10" {
		t.Errorf("got a fee of %s, want 10", got)
	}
	if n := count(h, `SELECT count(*) FROM deposits`); n != 6 {
		t.Errorf("got %d deposits, want the six that came from outside", n)
	}
}

// Rule COIN-8. Nobody waits for a merge unless it has the coins.
func TestAMergeThatSomebodyWaitsForIsRaised(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.arrives(h.treasury, 150)
	h.arrives(h.alice, 50, 40, 30)
	h.merged("OPEN BROADCAST")
	merge := h.text(`SELECT merge_id FROM merges`)
	id := h.withdraw(90)
	h.step()
	h.want(id, "BROADCAST")
	second := h.withdraw(25)
	h.step()
	h.want(second, "QUEUED COINS")
	h.later(2 * time.Hour)
	h.step()
	if n := count(h, `SELECT count(*) FROM dispatch_attempts WHERE order_id = $1 AND act = 'PAY' AND made_for = 'FEE'`, merge); n == 0 {
		t.Error("the fee of a merge that a payment waits for is not raised")
	}
	for range 3 {
		h.mine(4)
	}
	h.want(id, "PAID")
	h.want(second, "PAID")
	h.merged("DONE PAID")
	h.sound()
}

// Rule COIN-8.
func TestNothingIsMergedThatIsNotWorthItOrNotToBeTouched(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.net.SetBaseFee(fee + 1)
	h.arrives(h.treasury, 1000)
	h.arrives(h.alice, 40, 40, 10, fee+1) // two are worth it, and two do not pay for themselves
	h.arrives(h.alice, 40)
	h.merged("") // the rate is too high
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, audit.Operator("trial"), h.org, org.Changes{"screeningUsdThreshold": json.RawMessage(`"1"`)})
		return err
	}))
	h.says[payer] = risk.Severe
	h.arrives(h.alice, 60, 70)
	if n := count(h, `SELECT count(*) FROM coins WHERE status = 'HELD'`); n != 2 {
		t.Fatalf("got %d held coins, want the two that are flagged", n)
	}
	h.net.SetBaseFee(fee)
	h.merged("")
	h.later(11 * time.Minute)
	h.step()
	h.merged("OPEN BROADCAST")
	h.coins("FREE 10", "RESERVED 11", "RESERVED 40", "RESERVED 40", "RESERVED 40", "HELD 60", "HELD 70", "FREE 1000")
	h.mine(4)
	h.merged("DONE PAID")
	h.coins("FREE 10", "SPENT 11", "SPENT 40", "SPENT 40", "SPENT 40", "HELD 60", "HELD 70", "FREE 121", "FREE 1000")
	h.sound()

	// Half of what there is stays for payments.
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.Wallet, OrgID: h.org, WalletID: h.treasury.ID, Chain: chain.Bitcoin, Source: freeze.ByOperator, Reason: "trial"})
	}))
	h.says[payer] = risk.Low
	h.arrives(h.alice, 80, 80, 80)
	h.later(11 * time.Minute)
	h.step()
	h.merged("DONE PAID")
	h.sound()
}

// Rule COIN-8.
func TestAPaymentThatComesBeforeAMergeHasItsCoinsGoesFirst(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.net.SetBaseFee(fee + 1)
	h.arrives(h.treasury, 1000)
	h.arrives(h.alice, 50, 50, 50)
	h.net.SetBaseFee(fee)
	h.later(11 * time.Minute)
	if n, err := h.Sweeper.Plan(h.ctx); n != 1 || err != nil {
		t.Fatalf("plan: got %d, %v, want one merge", n, err)
	}
	if n, err := works.Wire(h.plan).Sweeper.Plan(h.ctx); n != 0 || err != nil {
		t.Errorf("a second process: got %d, %v, want nothing planned beside it", n, err)
	}
	// Rule COIN-9. The wallet that it is to have is nobody else's while it waits.
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		next, err := dispatch.NextRest(ctx, tx, chain.Bitcoin, h.org)
		if next.Subject != "2" {
			t.Errorf("the next slot's rest comes back to number %s, want 2", next.Subject)
		}
		return err
	}))
	id := h.withdraw(100)
	if _, err := h.Out.Round(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.merged("REFUSED REFUSED")
	h.step()
	h.want(id, "BROADCAST")
	h.sound()
	h.later(11 * time.Minute)
	h.step()
	h.mine(4)
	h.mine(4)
	h.want(id, "PAID")
	h.sound()

	// What was low when it was planned is not, when it is looked at.
	h.arrives(h.alice, 50, 50, 50)
	h.mine(4)
	h.net.SetBaseFee(fee + 1)
	h.arrives(h.alice, 50, 50, 50)
	h.net.SetBaseFee(fee)
	h.later(11 * time.Minute)
	if n, err := h.Sweeper.Plan(h.ctx); n != 1 || err != nil {
		t.Fatalf("plan: got %d, %v, want one merge", n, err)
	}
	h.net.SetBaseFee(fee + 1)
	if _, err := h.Out.Round(h.ctx); err != nil {
		t.Fatal(err)
	}
	if got := h.text(merges); !strings.HasSuffix(got, "REFUSED REFUSED") {
		t.Errorf("merges: got %q, want the last one given up", got)
	}
	h.sound()
}

// Rules COIN-4 and COIN-8.
func TestAMergeAndPaymentsThatWantItsCoinsAtOnceShareNone(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.arrives(h.treasury, 300)
	var ids []string
	for round := range 4 {
		for range 4 {
			h.net.Pay(payer, h.alice.Address, "", 50)
		}
		h.net.Mine(4)
		for range 2 { // found and credited, and nothing more
			for _, s := range h.Steps(nil) {
				h.must(s.Do(h.ctx))
				if s.Name == "credits" {
					break
				}
			}
		}
		h.later(11 * time.Minute)
		other := works.Wire(h.plan)
		if _, err := other.Sweeper.Plan(h.ctx); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := other.Out.Round(h.ctx); err != nil {
				t.Errorf("round: %v", err)
			}
		})
		if round%2 == 1 {
			ids = append(ids, h.withdraw(60))
		}
		wg.Go(func() {
			if _, err := h.Out.Round(h.ctx); err != nil {
				t.Errorf("round: %v", err)
			}
		})
		wg.Wait()
		h.sound()
		h.step()
		h.mine(4)
	}
	for range 3 {
		h.mine(4)
	}
	for _, id := range ids {
		h.want(id, "PAID")
	}
	h.sound()
}

// fate is what becomes of a service: it dies before or after one of the calls that it makes.
type fate struct {
	mu    sync.Mutex
	at, n int
	after bool
	dead  bool
}

var errDead = errors.New("the service is dead")

func (f *fate) meet(do func() error) error {
	f.mu.Lock()
	f.n++
	dies := f.n == f.at
	if f.dead || dies && !f.after {
		f.dead = true
		f.mu.Unlock()
		return errDead
	}
	f.mu.Unlock()
	err := do()
	if dies {
		f.mu.Lock()
		f.dead = true
		f.mu.Unlock()
		return errDead
	}
	return err
}

type mortalSigner struct {
	signer.Signer
	*fate
}

func (m mortalSigner) Issue(ctx context.Context, w signer.WalletRef) (out signer.Issued, err error) {
	err = m.meet(func() (err error) { out, err = m.Signer.Issue(ctx, w); return err })
	return out, err
}

func (m mortalSigner) Admit(ctx context.Context, i signer.Intent) (out signer.Entry, err error) {
	err = m.meet(func() (err error) { out, err = m.Signer.Admit(ctx, i); return err })
	return out, err
}

func (m mortalSigner) Sign(ctx context.Context, r signer.SignRequest) (out signer.Signed, err error) {
	err = m.meet(func() (err error) { out, err = m.Signer.Sign(ctx, r); return err })
	return out, err
}

type mortalSender struct {
	chain.Sender
	*fate
}

func (m mortalSender) Send(ctx context.Context, raw []byte) (a chain.Answer, words string) {
	if err := m.meet(func() error { a, words = m.Sender.Send(ctx, raw); return nil }); err != nil {
		return chain.Unknown, err.Error()
	}
	return a, words
}

func (m mortalSender) Account(ctx context.Context, of chain.Address, open ...chain.Slot) (out chain.Account, err error) {
	err = m.meet(func() (err error) { out, err = m.Sender.Account(ctx, of, open...); return err })
	return out, err
}

func (m mortalSender) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (out *chain.Outcome, err error) {
	err = m.meet(func() (err error) { out, err = m.Sender.Outcome(ctx, txs, ps...); return err })
	return out, err
}

// Rule COIN-8. Whoever dies with a call half done is followed by somebody who knows
// nothing of it.
func TestAMergeIsMadeOnceWhereverTheServiceDies(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.arrives(h.treasury, 5000)
	done := 0
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			for range 3 {
				h.net.Pay(payer, h.alice.Address, "", 60)
			}
			h.net.Mine(4)
			f := &fate{at: at, after: after}
			plan := h.plan
			plan.Signer = mortalSigner{plan.Signer, f}
			plan.Chain.Sender = mortalSender{plan.Chain.Sender, f}
			mortal := works.Wire(plan)
			h.later(11 * time.Minute)
			for range 4 {
				h.later(3 * time.Second)
				for _, s := range mortal.Steps(nil) {
					_ = s.Do(h.ctx) // what fails is carried on by who comes after
				}
				h.net.Mine(2)
			}
			for range 3 {
				h.mine(4)
			}
			done++
			what := fmt.Sprintf("dead at call %d (after: %v)", at, after)
			if got := count(h, `SELECT count(*) FROM merges WHERE status = 'DONE'`); got != done {
				t.Fatalf("%s: got %d merges, want %d: %s", what, got, done, h.text(merges))
			}
			if got, want := h.text(`SELECT sum(amount)::text FROM coins WHERE status = 'FREE'`), fmt.Sprint(5000+done*(3*60-fee)); got != want {
				t.Fatalf("%s: the free coins hold %s, want %s", what, got, want)
			}
			if !f.dead {
				if at < 6 {
					t.Errorf("%s: got it done in so few calls, want all of them met", what)
				}
				break
			}
		}
	}
	h.sound()
}

// Rules COIN-3 and COIN-8.
func TestAMergeIsProvenAgainAfterABrokenFinality(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.arrives(h.treasury, 1000)
	h.arrives(h.alice, 50, 50, 50)
	h.mine(4)
	h.merged("DONE PAID")
	h.coins("SPENT 50", "SPENT 50", "SPENT 50", "FREE 140", "FREE 1000")
	h.net.Fork(4)
	h.net.MineEmpty(8)
	for {
		moved, err := h.Walk.Final(h.ctx)
		if errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
		if h.must(err); !moved {
			t.Fatal("the walk does not see that finality broke")
		}
	}
	at, err := h.Walk.Parting(h.ctx)
	h.must(err)
	_, err = h.Walk.Repoint(h.ctx, at, 2, audit.Operator("op"))
	h.must(err)
	h.coins("SPENT 50", "SPENT 50", "SPENT 50", "GONE 140", "FREE 1000")
	for range 3 {
		h.mine(4)
	}
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	}))
	for range 3 {
		h.mine(4)
	}
	h.merged("DONE PAID")
	h.coins("SPENT 50", "SPENT 50", "SPENT 50", "FREE 140", "FREE 1000")
	if n := count(h, `SELECT count(*) FROM dispatch_in_question`); n != 0 {
		t.Errorf("got %d orders in question, want it proven again", n)
	}
	h.sound()
}

// Rules COIN-6 and COIN-8.
func TestARestoredMergeHasItsCoinsAndEnds(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.net.SetBaseFee(fee + 1)
	h.arrives(h.treasury, 1000)
	h.arrives(h.alice, 50, 60)
	pool := h.plan.Chain.Pool
	journal := dispatch.Journal{
		Features: map[signer.Purpose]dispatch.Restorer{signer.Merge: sweep.Merges{}},
		FeesOf:   func(chain.Name, []byte) (chain.Fees, error) { return chain.Fees{Beside: money.Units(fee)}, nil },
		Spends:   func(_ chain.Name, lease string) ([]chain.Coin, error) { return pool.Spends(lease) },
	}
	const id, never = "merge_01ARZ3NDEKTSV4RRFFQ69G5FAV", "merge_01ARZ3NDEKTSV4RRFFQ69G5FAW"
	remembered := func(id, number string) (mirror.Remembered, wallet.Wallet) {
		to, err := h.Book.Address(h.ctx, signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: number})
		h.must(err)
		ref := to.Ref()
		return mirror.Remembered{ID: id, At: h.clock(), Intent: &signer.Intent{
			ID: id, Purpose: signer.Merge, Chain: chain.Bitcoin, From: h.treasury.Ref(), To: to.Address, ToWallet: &ref, MintID: btc,
		}}, to
	}
	signed, to := remembered(id, "1")
	unsigned, _ := remembered(never, "2")
	var lease strings.Builder
	for _, c := range strings.Split(h.text(`SELECT string_agg(outpoint || ':' || amount, ' ') FROM coins WHERE amount < 100`), " ") {
		fmt.Fprintf(&lease, "%s:%s ", c, h.alice.Address)
	}
	at := chain.Slot{Lease: lease.String() + string(to.Address)}
	payload, err := h.plan.Chain.Sender.Build(h.treasury.Address, at, chain.Fees{Beside: money.Units(fee)})
	h.must(err)
	raw, hash := sim.Signed(payload)
	signed.Signed = []mirror.Signature{{SignBody: signer.SignBody{IntentID: id, Slot: at, Act: signer.Pay, Payload: payload, Hash: hash}, At: h.clock(), Raw: raw}}
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return journal.Restore(ctx, tx, []mirror.Remembered{signed, unsigned})
	}))
	h.merged("OPEN SIGNED, REFUSED REFUSED")
	h.coins("RESERVED 50", "RESERVED 60", "FREE 1000")
	h.net.SetBaseFee(fee)
	h.step()
	h.mine(4)
	h.mine(4)
	h.want(id, "PAID")
	h.coins("SPENT 50", "SPENT 60", "FREE 100", "FREE 1000")
	h.sound()
}

// Rule COIN-8, on a real chain with the real signer.
func TestOnARealChainThirtySmallDepositsBecomeOneCoinThatPays(t *testing.T) {
	t.Parallel()
	n := openNodeWith(t, bitcoin.Config{})
	_, err := n.Mine(n.ctx, 30) // for a faucet of so many coins
	n.must(err)
	n.pay(n.treasury, 700_000)
	for range 30 {
		n.pay(n.alice, 20_000)
	}
	n.final()
	n.merged("OPEN BROADCAST")
	merge := n.text(`SELECT merge_id FROM merges`)
	if got := n.spends(merge); len(got) != 30 {
		t.Fatalf("the merge spends %v, want the thirty deposits", got)
	}
	n.sound()
	n.final()
	n.merged("DONE PAID")
	if got := count(n.house, `SELECT count(*) FROM coins WHERE change_of = $1 AND status = 'FREE'`, merge); got != 1 {
		t.Fatalf("got %d coins of the merge, want one", got)
	}
	if got := count(n.house, `SELECT count(*) FROM coins WHERE order_id = $1 AND status = 'SPENT'`, merge); got != 30 {
		t.Errorf("got %d spent coins, want thirty", got)
	}
	// 30 inputs and one output weigh 30·272 + 42 + 124, which is 2082 virtual bytes, at a satoshi each.
	if got := n.text(`SELECT fee::text FROM dispatch_orders WHERE order_id = $1`, merge); got != "2082" {
		t.Errorf("got a fee of %s, want 2082", got)
	}
	n.sound()
	one, two := payee(t), payee(t)
	first, second := n.withdrawTo(300_000, one), n.withdrawTo(250_000, two)
	for range 3 {
		n.step()
		n.final()
	}
	n.want(first, "PAID")
	n.want(second, "PAID")
	last := n.withdrawTo(45_000, payee(t))
	n.step()
	n.final()
	n.want(last, "PAID")
	if got := count(n.house, `SELECT count(*) FROM coins WHERE change_of = $1 AND status = 'SPENT'`, merge); got != 1 {
		t.Errorf("got %d, want the merged coin spent by a payment", got)
	}
	n.sound()
}

// Rule COIN-8.
func TestOnARealChainNothingIsMergedAtAHighRate(t *testing.T) {
	t.Parallel()
	n := openNodeWith(t, bitcoin.Config{RateMin: 3000, MergeFrom: 3})
	n.pay(n.treasury, 700_000)
	for range 4 {
		n.pay(n.alice, 20_000)
	}
	n.final()
	n.later(time.Hour)
	n.step()
	n.merged("")
	n.sound()
}
