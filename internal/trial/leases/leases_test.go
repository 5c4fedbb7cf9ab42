package leases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/pg"
)

const (
	made  = `SELECT string_agg(status, ' ' ORDER BY created_at, place_id) FROM places`
	tries = `SELECT string_agg(act || coalesce(' ' || made_for, ''), ', ' ORDER BY version) FROM dispatch_attempts WHERE order_id = $1`
	state = `SELECT concat_ws(' ', status, waiting_for) FROM dispatch_orders WHERE order_id = $1`
	cost  = solanatx.NonceRent + solanatx.SignatureFee // of a place
)

// Everything that leaves an organization on Solana, from an empty treasury on.
func TestATreasuryMakesItsPlacesAndPaysFromThem(t *testing.T) {
	t.Parallel()
	w := open(t, 2)
	w.work()
	w.want("places without coin", "OPEN OPEN", made)
	w.want("what they wait for", "GAS GAS", `SELECT string_agg(waiting_for, ' ') FROM dispatch_orders`)
	var err error
	w.treasury, err = w.Book.Treasury(w.ctx, w.org, chain.SolanaFamily)
	w.must(err)
	const funded = surfpool.LamportsPerSOL
	_, err = w.node.Pay(w.ctx, w.treasury.Address, funded)
	w.must(err)
	w.settle()
	w.settle()
	w.want("places", "DONE DONE", made)
	if got, want := w.holds(w.treasury.Address, sol), uint64(funded-2*cost); got != want {
		t.Errorf("the treasury holds %d, want %d: the rent and the fee of two places are gone", got, want)
	}
	w.sound()

	t.Run("the treasury pays for what is swept", func(t *testing.T) {
		w.T = t
		_, err = w.node.Pay(w.ctx, w.ann.Address, 2*surfpool.LamportsPerSOL)
		w.must(err)
		_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 1_000_000_000)
		w.must(err)
		w.settle()
		w.settle()
		w.want("sweeps", "DONE DONE", `SELECT string_agg(status, ' ') FROM sweeps`)
		if c, d := w.holds(w.ann.Address, sol), w.holds(w.ann.Address, usdc); c != 0 || d != 0 {
			t.Errorf("got %d lamports and %d units left, want none: no customer pays a fee", c, d)
		}
		w.sound()
	})
	t.Run("a payment makes the token account that is missing", func(t *testing.T) {
		w.T = t
		one, coins := w.ask(sol, 500_000_000)
		two, tokens := w.ask(usdc, 250_000_000)
		w.settle()
		w.want("coins", "PAID", state, one)
		w.want("tokens", "PAID", state, two)
		if c, d := w.holds(coins, sol), w.holds(tokens, usdc); c != 500_000_000 || d != 250_000_000 {
			t.Errorf("got %d lamports and %d units, want 500000000 and 250000000", c, d)
		}
		w.sound()
	})
	t.Run("more payments than places wait and go on", func(t *testing.T) {
		w.T = t
		var all []chain.Address
		for range 5 {
			_, to := w.ask(usdc, 1_000_000)
			all = append(all, to)
		}
		w.work()
		w.want("at once", "2 3", `SELECT concat_ws(' ', count(*) FILTER (WHERE status = 'BROADCAST'), count(*) FILTER (WHERE status = 'QUEUED' AND waiting_for = 'SLOT'))
			FROM dispatch_orders WHERE status IN ('QUEUED', 'BROADCAST')`)
		for range 3 {
			w.settle()
		}
		for _, to := range all {
			if got := w.holds(to, usdc); got != 1_000_000 {
				t.Errorf("got %d units paid, want 1000000", got)
			}
		}
		w.sound()
	})
	t.Run("what is replaced and cancelled stays in its place", func(t *testing.T) {
		w.T = t
		w.fate.silent = true
		paid, to := w.ask(usdc, 2_000_000)
		not, nobody := w.ask(usdc, 3_000_000)
		w.work()
		w.pass(2 * time.Minute)
		w.work()
		if ok, err := w.Out.Cancel(w.ctx, not, audit.System("test")); err != nil || !ok {
			t.Fatalf("Cancel: got %v, %v, want it cancelled", ok, err)
		}
		w.work()
		w.want("one", "PAY, PAY FEE", tries, paid)
		w.want("two", "PAY, PAY FEE, CANCEL OPERATOR", tries, not)
		w.fate.silent = false
		w.settle()
		w.want("one", "PAID", state, paid)
		w.want("two", "FAILED", state, not)
		if a, b := w.holds(to, usdc), w.holds(nobody, usdc); a != 2_000_000 || b != 0 {
			t.Errorf("got %d and %d units paid, want 2000000 and none", a, b)
		}
		w.sound()
	})
	t.Run("a lost answer ends in one payment", func(t *testing.T) {
		w.T = t
		w.fate.lost = true
		id, to := w.ask(sol, 100_000_000)
		w.work()
		w.want("before a block", "SIGNED", state, id)
		w.work()
		w.fate.lost = false
		w.settle()
		w.want("in the end", "PAID", state, id)
		if got := w.holds(to, sol); got != 100_000_000 {
			t.Errorf("got %d lamports paid, want 100000000", got)
		}
		w.sound()
	})
	t.Run("a place is paid for once wherever the service dies", func(t *testing.T) {
		w.T = t
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				before := w.holds(w.treasury.Address, sol)
				w.places++
				w.start()
				w.fate.at, w.fate.after = at, after
				for range 3 {
					w.pass(5 * time.Second)
					if w.turn() != nil || w.fate.dead {
						break
					}
					w.mine(surfpool.Finality + 1)
				}
				died, calls := w.fate.dead, strings.Join(w.fate.calls, " ")
				w.start()
				w.settle()
				what := fmt.Sprintf("dead at call %d (after: %v) of %s", at, after, calls)
				w.want(what, strings.TrimSpace(strings.Repeat("DONE ", w.places)), made)
				if got := w.holds(w.treasury.Address, sol); before-got != cost {
					t.Errorf("%s: got %d lamports gone, want %d", what, before-got, cost)
				}
				if !died {
					if at < 6 {
						t.Errorf("%s: got it done in so few calls, want all of them met", what)
					}
					break
				}
			}
		}
		w.sound()
	})
	t.Run("what has lapsed is made again and paid for once", func(t *testing.T) {
		w.T = t
		before := w.holds(w.treasury.Address, sol)
		w.places++
		w.start()
		w.fate.silent = true
		w.work()
		id := w.text(`SELECT place_id FROM places WHERE status = 'OPEN'`)
		w.want("sent to nobody", "SIGNED", state, id)
		w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error { // as a restore leaves it
			_, err := tx.Exec(ctx, `UPDATE dispatch_attempts SET good_until = NULL WHERE order_id = $1`, id)
			return err
		}))
		w.pass(2 * time.Minute)
		w.work()
		w.want("while it could be mined", "PAY", tries, id)
		w.mine(longAgo)
		w.work()
		w.work()
		w.want("when it cannot", "PAY, PAY LAPSE", tries, id)
		var old []byte
		w.must(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `SELECT raw FROM dispatch_attempts WHERE order_id = $1 AND version = 1`, id).Scan(&old)
		}))
		if _, err := w.node.SendRaw(w.ctx, old); err != nil {
			t.Logf("the node does not take what is too old: %v", err)
		}
		w.fate.silent = false
		w.settle()
		w.want("in the end", "PAID", state, id)
		if got := w.holds(w.treasury.Address, sol); before-got != cost {
			t.Errorf("got %d lamports gone, want %d", before-got, cost)
		}
		w.sound()
	})
	t.Run("a stranger's coin costs a number and no more", func(t *testing.T) {
		w.T = t
		gift := func(n int) {
			t.Helper()
			p, err := w.far.Places.Place(w.treasury.Address, n)
			w.must(err)
			_, err = w.node.Pay(w.ctx, p.To, 1_000_000)
			w.must(err)
		}
		next := w.number(`SELECT count(*) FROM places`)
		gift(next) // before it is planned
		w.mine(1)
		w.places++
		w.start()
		w.fate.silent = true
		w.work()
		gift(next + 1) // when it is signed
		w.fate.silent = false
		before := w.holds(w.treasury.Address, sol)
		w.settle()
		w.settle()
		w.want("the signed one", "FAILED", `SELECT status FROM places ORDER BY created_at DESC, place_id DESC OFFSET 1 LIMIT 1`)
		w.want("the next", "DONE", `SELECT status FROM places ORDER BY created_at DESC, place_id DESC LIMIT 1`)
		if got := w.holds(w.treasury.Address, sol); before-got != cost+solanatx.SignatureFee {
			t.Errorf("got %d lamports gone, want a place and the fee of one in vain", before-got)
		}
		w.want("frozen", "0", `SELECT count(*) FROM freezes`)
		w.places++ // and one that waits in the queue
		w.start()
		w.must(w.sweeps())
		gift(next + 3)
		w.mine(1)
		w.settle()
		w.settle()
		w.want("the queued one", "FAILED", `SELECT status FROM places ORDER BY created_at DESC, place_id DESC OFFSET 1 LIMIT 1`)
		w.want("the next", "DONE", `SELECT status FROM places ORDER BY created_at DESC, place_id DESC LIMIT 1`)
		w.sound()
	})
	t.Run("several deposits are swept by one transaction", func(t *testing.T) {
		w.T = t
		ended := w.number(`SELECT count(*) FROM sweeps WHERE status = 'DONE'`)
		before := w.holds(w.treasury.Address, sol)
		for i, name := range []string{"bob", "cid", "dan", "eve", "fay"} {
			of := w.customer(name)
			var err error
			if i < 3 {
				_, err = w.node.PayToken(w.ctx, surfpool.USDC, of.Address, 70_000_000)
			} else {
				_, err = w.node.Pay(w.ctx, of.Address, surfpool.LamportsPerSOL)
			}
			w.must(err)
		}
		// All of them are planned before the desk looks.
		w.mine(surfpool.Finality + 1)
		w.settle()
		w.settle()
		if got := w.number(`SELECT count(*) FROM sweeps WHERE status = 'DONE'`) - ended; got != 5 {
			t.Fatalf("got %d sweeps done, want 5", got)
		}
		w.want("their slots", "1 5", `SELECT concat_ws(' ', count(*), sum(orders)) FROM dispatch_slots
			WHERE order_id IN (SELECT sweep_id FROM sweeps ORDER BY created_at DESC LIMIT 5)`)
		w.want("nobody topped the treasury up", "0", `SELECT count(*) FROM deposits d JOIN wallets w USING (wallet_id)
			WHERE w.purpose = 'TREASURY' AND d.tx_hash IN (SELECT a.tx_hash FROM dispatch_attempts a JOIN sweeps s ON s.sweep_id = a.order_id)`)
		spent := before + 2*surfpool.LamportsPerSOL - w.holds(w.treasury.Address, sol)
		t.Logf("five deposits swept for %d lamports, %d each", spent, spent/5)
		if most := uint64(6*solanatx.SignatureFee + 1_000); spent > most {
			t.Errorf("got %d lamports gone, want six signatures and little else, %d", spent, most)
		}
		w.sound()
	})
	t.Run("whoever else takes our place has our key", func(t *testing.T) {
		w.T = t
		w.fate.silent = true
		id, _ := w.ask(sol, 100_000_000)
		w.work()
		at, value, err := solanatx.ParseLease(w.text(`SELECT lease FROM dispatch_slots WHERE order_id = $1`, id))
		w.must(err)
		payload, err := solanatx.Tx{Payer: w.treasury.Address, NonceAccount: at, NonceValue: value, Limit: 10_000}.Payload()
		w.must(err)
		raw, _, err := solanatx.Attach(payload, w.key(w.treasury).SignMessage(payload))
		w.must(err)
		_, err = w.node.SendRaw(w.ctx, raw)
		w.must(err)
		w.mine(surfpool.Finality + 1)
		w.work()
		w.want("at first", "0", `SELECT count(*) FROM freezes`)
		w.pass(2 * time.Minute)
		w.work()
		w.want("when it stays so", w.treasury.ID, `SELECT wallet_id FROM freezes WHERE scope = 'WALLET'`)
	})
}
