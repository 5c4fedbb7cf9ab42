package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// settled is a bench on which payments of 400 and 100 have ended as paid, eve's
// and bob's, and everything that was proven since is about to be taken back.
func settled(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	b.mine(4)
	for _, p := range []struct {
		id, customer string
		units        uint64
	}{{"wd_1", "eve", 400}, {"wd_2", "bob", 100}} {
		o := b.order(p.id, sim.Address(p.id), p.units)
		o.CustomerID = p.customer
		b.place(o)
		b.round() // one after the other, so that their nonces are in this order
	}
	return b
}

// took makes finality break below everything that ended. The new fork has none of
// it, unless keep says that it waits in the pool again.
func (b *bench) took(keep bool) {
	b.Helper()
	latest := b.chain.Latest().Height
	var dropped []chain.TxHash
	if !keep {
		for h := uint64(4); h <= latest; h++ {
			for _, m := range b.chain.At(h).Transfers {
				dropped = append(dropped, m.Tx)
			}
		}
	}
	tip := b.chain.At(b.proven)
	b.chain.Fork(int(latest-4), dropped...)
	at := b.chain.At(4)
	b.system(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
			SELECT $6, coalesce(max(fork), 0) + 1, $1, $2, $3, $4, $3, 'test', 'op', $5 FROM finality_breaks`,
			at.Height, at.Hash, tip.Height, tip.Hash, tx.Now, b.name)
		return err
	})
	b.proven = at.Height
	b.clock.move(time.Minute)
}

// remine is mine on the fork that was decided for.
func (b *bench) remine(n int) {
	b.Helper()
	b.chain.Mine(n)
	heads, err := b.chain.Heads(b.ctx)
	b.must(err)
	for ; b.proven < heads.Final.Height; b.proven++ {
		c, err := b.chain.Final(b.ctx, b.proven+1)
		b.must(err)
		b.system(func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, fork)
				SELECT $5, $1, $2, $3, $4, 1, 'sim', $4, coalesce(max(fork), 0) FROM finality_breaks`, c.Height, c.Hash, c.Parent, tx.Now, b.name)
			return err
		})
	}
	b.clock.move(time.Minute)
}

func (b *bench) wantQuestions(want int) {
	b.Helper()
	if n := b.count(`SELECT count(*) FROM dispatch_in_question`); n != want {
		b.Errorf("got %d orders in question, want %d", n, want)
	}
}

func (b *bench) wantWaits(id string, want dispatch.Want) {
	b.Helper()
	if _, waits := b.status(id); waits != string(want) {
		b.Errorf("order %s: got it waiting for %q, want %q", id, waits, want)
	}
}

// hashes are the transactions that ended the two payments, by nonce.
func (b *bench) hashes() (ended []chain.TxHash) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT array_agg(tx_hash ORDER BY order_id) FROM dispatch_orders WHERE status IN ('PAID', 'FAILED')`).Scan(&ended)
	}))
	return ended
}

func (b *bench) stop(f freeze.Freeze) {
	b.Helper()
	f.Reason = "test"
	b.system(func(ctx context.Context, tx pg.Tx) error { return freeze.Put(ctx, tx, f) })
}

func (b *bench) letGo() {
	b.Helper()
	b.system(func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	})
	b.clock.move(time.Minute)
}

// Rule WD-18.
func TestWhatABrokenFinalityTookBackGoesOutAgainAsTheSameBytes(t *testing.T) {
	t.Parallel()
	for name, baseFee := range map[string]uint64{"at the same fee": 1_000_000_000, "cheaper": 500_000_000, "dearer": 1_700_000_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := settled(t)
			b.mine(6)
			b.round()
			b.agree(b.treasury)
			was, said := b.hashes(), fmt.Sprint(b.feature.said)
			b.stop(freeze.Freeze{Scope: freeze.Chain, Chain: chain.Ethereum, Source: freeze.ByFinality})
			b.place(b.order("wd_3", sim.Address("wd_3"), 50))
			b.took(false)
			b.round()
			b.wantQuestions(2)
			b.wantWaits("wd_1", dispatch.WantFreeze)
			if n := len(b.chain.Pool()); n != 0 {
				t.Fatalf("got %d sent while the chain is frozen, want none", n)
			}
			b.letGo()
			b.round()
			if got := b.chain.Pool(); fmt.Sprint(got) != fmt.Sprint(was) {
				t.Fatalf("got %v sent, want %v", got, was)
			}
			if s, _ := b.status("wd_3"); s != dispatch.Queued {
				t.Errorf("got %s, want a new payment to wait for the earlier nonces", s)
			}
			b.chain.SetBaseFee(baseFee)
			b.remine(1)
			b.round()
			b.wantQuestions(2) // in a block, not final
			b.remine(6)
			b.round()
			b.wantQuestions(0)
			if fmt.Sprint(b.feature.said) != said && fmt.Sprint(b.feature.said) != said[:len(said)-1]+" broadcast wd_3]" {
				t.Errorf("the feature heard %v, want nothing more than %s", b.feature.said, said)
			}
			b.clock.move(time.Minute)
			b.round()
			b.remine(6)
			b.round()
			b.wantStatus("wd_3", dispatch.Paid)
			for id, units := range map[string]uint64{"wd_1": 400, "wd_2": 100, "wd_3": 50} {
				b.received(sim.Address(id), units)
			}
			b.agree(b.treasury)
			want := 2 * 3
			if baseFee != 1_000_000_000 {
				want += 2 * 2
			}
			if n := b.count(`SELECT count(*) FROM ledger_transfers WHERE cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE')`); n != want {
				t.Errorf("got %d postings of fees, want %d", n, want)
			}
			if n := b.count(`SELECT sum(CASE a.kind WHEN 'GAS' THEN t.amount ELSE -t.amount END) - (SELECT sum(fee) FROM dispatch_orders)
				FROM ledger_transfers t JOIN ledger_accounts a ON a.account_id = t.debit_account
				WHERE cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE') AND a.kind IN ('GAS', 'CUSTODY')`); n != 0 {
				t.Errorf("got %d posted beside the fees of the orders, want nothing", n)
			}
			if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE order_id <> 'wd_3'`); n != 2 {
				t.Errorf("got %d transactions, want the same bytes each time", n)
			}
		})
	}
}

// Rule WD-19: the fork may have taken the very deposit that the payment was made of.
func TestAPaymentOfAFrozenCustomerIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := settled(t)
	b.mine(6)
	b.round()
	was := b.hashes()
	b.took(false)
	b.stop(freeze.Freeze{Scope: freeze.Customer, OrgID: b.org, CustomerID: "eve", Source: freeze.ByFinality})
	for range 3 {
		b.round()
		b.clock.move(time.Minute)
	}
	if n := len(b.chain.Pool()); n != 0 {
		t.Fatalf("got %d sent, want none", n)
	}
	b.wantWaits("wd_1", dispatch.WantFreeze)
	b.wantWaits("wd_2", dispatch.WantEarlier)
	b.letGo()
	b.round()
	if got := b.chain.Pool(); fmt.Sprint(got) != fmt.Sprint(was) {
		t.Errorf("got %v sent once the person let go, want %v", got, was)
	}
}

// Rule WD-18: nobody has decided yet, and the blocks may come back.
func TestNothingIsSentAgainWhileAChainHasParted(t *testing.T) {
	t.Parallel()
	b := settled(t)
	b.mine(6)
	b.round()
	b.took(false)
	b.system(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO scan_cursors (chain, height, hash, updated_at, parted_above) VALUES ('ETHEREUM', 4, 'h', $1, 2)`, tx.Now)
		return err
	})
	b.round()
	if n := len(b.chain.Pool()); n != 0 {
		t.Errorf("got %d sent, want none", n)
	}
	b.wantWaits("wd_1", dispatch.WantNothing)
}

// Rule WD-20: another outcome than the one in the books is never settled.
func TestAnotherOutcomeAfterABreakIsLeftToAPerson(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep bool
		do   func(b *bench, versions [][]byte)
	}{
		"it reverts now":        {true, func(b *bench, _ [][]byte) { b.chain.Refuse(b.token, sim.Address("wd_1"), "blacklisted") }},
		"another of its nonce":  {false, func(b *bench, v [][]byte) { b.chain.Send(b.ctx, v[0]) }},
		"somebody else's nonce": {false, func(b *bench, _ [][]byte) { b.chain.Foreign(b.treasury.Address) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, open())
			b.give(b.treasury, coin, 1000)
			b.mine(4)
			b.place(b.order("wd_1", sim.Address("wd_1"), 400))
			b.round()
			b.clock.move(2 * time.Minute)
			b.round() // a second version, at a higher fee
			b.mine(6)
			b.round()
			b.wantStatus("wd_1", dispatch.Paid)
			var versions [][]byte
			b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
				return tx.QueryRow(ctx, `SELECT array_agg(raw ORDER BY version) FROM dispatch_attempts`).Scan(&versions)
			}))
			books := func() int {
				return b.count(`SELECT count(*) + coalesce(sum(leg), 0) FROM ledger_transfers`) + b.count(`SELECT sum(credited - swept) FROM address_funds`)
			}
			before, said := books(), fmt.Sprint(b.feature.said)
			b.took(c.keep)
			c.do(b, versions)
			b.remine(6)
			for range 3 {
				b.round()
				b.clock.move(time.Minute)
			}
			b.wantWaits("wd_1", dispatch.WantPerson)
			if n := b.count(`SELECT count(*) FROM freezes WHERE scope = 'WALLET' AND lifted_at IS NULL`); n != 1 {
				t.Errorf("got %d freezes of its wallet, want one", n)
			}
			b.letGo()
			b.round()
			if n := b.count(`SELECT count(*) FROM freezes WHERE lifted_at IS NULL`); n != 0 {
				t.Errorf("got %d freezes after a person lifted it, want none", n)
			}
			b.wantStatus("wd_1", dispatch.Paid)
			b.wantQuestions(1)
			if after := books(); after != before || fmt.Sprint(b.feature.said) != said {
				t.Errorf("got the books at %d and %v, want %d and %s", after, b.feature.said, before, said)
			}
		})
	}
}

// Rule WD-20: what was given back is not paid as well.
func TestAPaymentThatFailedIsNotSentAgainWhereItWouldPay(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	b.mine(4)
	b.place(b.order("wd_1", sim.Address("wd_1"), 400))
	b.round()
	b.chain.Refuse(b.token, sim.Address("wd_1"), "blacklisted")
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Failed)
	was := b.hashes()
	b.took(false)
	b.chain.Refuse(b.token, sim.Address("wd_1"), "")
	for _, h := range was {
		b.chain.Forget(h)
	}
	b.round()
	if n := len(b.chain.Pool()); n != 0 {
		t.Fatalf("got %d sent, want none", n)
	}
	b.wantWaits("wd_1", dispatch.WantSimulation)
	b.chain.Refuse(b.token, sim.Address("wd_1"), "blacklisted")
	b.clock.move(time.Minute)
	b.round()
	b.remine(6)
	b.round()
	b.wantQuestions(0)
	b.received(sim.Address("wd_1"), 0)
	b.agree(b.treasury)
}

// lastWords is a chain that takes bytes, and the process ends before it hears so.
type lastWords struct {
	chain.Sender
	die context.CancelFunc
}

func (d lastWords) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	defer d.die()
	return d.Sender.Send(ctx, raw)
}

// Rule WD-18.
func TestACrashBetweenSendingAgainAndTheRowSendsNothingElse(t *testing.T) {
	t.Parallel()
	b := settled(t)
	b.mine(6)
	b.round()
	was := b.hashes()
	b.took(false)
	ctx, die := context.WithCancel(b.ctx)
	on := b.chain.Configured()
	on.Sender = lastWords{on.Sender, die}
	dead := dispatch.New(b.db, on, b.signer, mirror.Record, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(slog.DiscardHandler))
	if _, err := dead.Round(ctx); err == nil {
		t.Fatal("got no error, want the process to die")
	}
	if got := b.chain.Pool(); fmt.Sprint(got) != fmt.Sprint(was[:1]) {
		t.Fatalf("got %v out, want %v", got, was[:1])
	}
	for range 2 {
		b.clock.move(time.Minute)
		b.round()
	}
	if got := b.chain.Pool(); fmt.Sprint(got) != fmt.Sprint(was) {
		t.Errorf("got %v out, want %v", got, was)
	}
	b.chain.SetBaseFee(1_700_000_000)
	b.remine(6)
	// Two processes at once: what it costs more is posted once.
	other := dispatch.New(b.db, b.chain.Configured(), b.signer, mirror.Record, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	for _, d := range []*dispatch.Desk{b.desk, other} {
		wg.Go(func() {
			if _, err := d.Round(b.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.round()
	b.wantQuestions(0)
	b.agree(b.treasury)
	if n := b.count(`SELECT count(*) FROM ledger_transfers WHERE cause_id IN ('wd_1/1', 'wd_2/1')`); n != 4 {
		t.Errorf("got %d postings of what it has cost more, want 4", n)
	}
}

// Rule WD-18: it breaks a second time, below the first.
func TestASecondBreakAsksAgain(t *testing.T) {
	t.Parallel()
	b := settled(t)
	b.mine(6)
	b.round()
	was := b.hashes()
	for range 2 {
		b.took(false)
		b.wantQuestions(2)
		b.round()
		if got := b.chain.Pool(); fmt.Sprint(got) != fmt.Sprint(was) {
			t.Fatalf("got %v sent, want %v", got, was)
		}
		b.remine(6)
		b.round()
		b.wantQuestions(0)
		b.agree(b.treasury)
	}
}

// Rule WD-18.
func TestTheTableLetsAnEndBeProvenAgainInOneWayOnly(t *testing.T) {
	t.Parallel()
	b := settled(t)
	b.mine(6)
	b.round()
	refused := func(what, set string) {
		t.Helper()
		err := b.db.InSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE dispatch_orders SET `+set+` WHERE order_id = 'wd_1'`)
			return err
		})
		if !pg.Violates(err, "dispatch_orders_end_fixed") {
			t.Errorf("%s: got %v, want a violation of dispatch_orders_end_fixed", what, err)
		}
	}
	const alive = `proof_id = (SELECT max(proof_id) FROM finality_live)`
	refused("another proof while the first is alive", alive)
	dead := fmt.Sprintf("proof_id = %d", b.count(`SELECT max(proof_id) FROM finality_proofs`))
	b.took(false)
	b.remine(6)
	refused("another fee alone", `fee = fee + 1`)
	refused("another transaction", `tx_hash = '0xother', `+alive)
	refused("another proof that is dead", dead)
	refused("no proof", `proof_id = NULL`)
}

// A nonce that a fork took back is not somebody else's, however long ago it was
// first missed.
func TestANonceThatAForkTookBackIsMissedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	b.mine(4)
	b.place(b.order("wd_1", sim.Address("wd_1"), 400))
	b.round()
	for _, h := range b.chain.Pool() {
		b.chain.Forget(h)
	}
	b.chain.Foreign(b.treasury.Address)
	b.mine(6)
	b.round() // missed for the first time
	b.took(false)
	for _, h := range b.chain.Pool() {
		b.chain.Forget(h)
	}
	b.round()
	b.clock.move(time.Hour)
	b.chain.Foreign(b.treasury.Address)
	b.remine(6)
	b.round()
	if n := b.count(`SELECT count(*) FROM freezes`); n != 0 {
		t.Errorf("got %d freezes at once, want the nonce to be missed for a while first", n)
	}
}
