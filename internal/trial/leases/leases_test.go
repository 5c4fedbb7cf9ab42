package leases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/wallet"
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
		for _, sql := range []string{ // as a restore leaves it
			`ALTER TABLE dispatch_attempts DISABLE TRIGGER dispatch_attempts_written_once`,
			`UPDATE dispatch_attempts SET good_until = NULL WHERE order_id = '` + id + `'`,
			`ALTER TABLE dispatch_attempts ENABLE TRIGGER dispatch_attempts_written_once`,
		} {
			_, err := pgtest.Owner(t, w.db).Exec(w.ctx, sql)
			w.must(err)
		}
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
	t.Run("a stranger's coin keeps no place from being made, and is none of what we paid", func(t *testing.T) {
		w.T = t
		gift := func(n int) {
			t.Helper()
			p, err := w.far.Places.Place(w.treasury.Address, n)
			w.must(err)
			_, err = w.node.Pay(w.ctx, p.To, surfpool.LamportsPerSOL)
			w.must(err)
		}
		for n := range solana.NonceAccountsMax { // wherever one could still be
			if n >= w.places {
				gift(n)
			}
		}
		w.mine(1)
		before := w.holds(w.treasury.Address, sol)
		w.places += 2
		w.start()
		w.settle()
		w.settle()
		w.want("where coin was", strings.TrimSpace(strings.Repeat("DONE ", w.places)), made)
		w.places++
		w.start()
		w.fate.silent = true
		w.work()
		gift(w.places - 1) // when it is signed
		w.fate.silent = false
		w.settle()
		w.settle()
		w.want("where coin came", strings.TrimSpace(strings.Repeat("DONE ", w.places)), made)
		if got := w.holds(w.treasury.Address, sol); before-got != 3*cost {
			t.Errorf("got %d lamports gone, want %d: what a stranger gave is not what we paid", before-got, 3*cost)
		}
		w.want("frozen", "0", `SELECT count(*) FROM freezes`)
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
	t.Run("what lies in idle accounts comes home", func(t *testing.T) {
		w.T = t
		const month = 30 * 24 * time.Hour
		closes := `SELECT concat_ws(' ', count(*) FILTER (WHERE status = 'DONE'), count(*) FILTER (WHERE status = 'FAILED'), count(*) FILTER (WHERE status = 'OPEN')) FROM closes`
		account := func(of wallet.Wallet) bool {
			t.Helper()
			at, err := solanatx.AssociatedAccount(of.Address, surfpool.USDC, solanatx.TokenProgram)
			w.must(err)
			return w.holds(at, sol) > 0
		}
		idle := []wallet.Wallet{w.ann, w.customers[1], w.customers[2], w.customers[3]} // what they got of it was swept
		w.closeAfter = month
		w.start()
		w.pass(month - time.Hour)
		w.settle()
		w.want("too early", "0 0 0", closes)
		w.pass(2 * time.Hour)
		before := w.holds(w.treasury.Address, sol)
		w.settle()
		w.settle()
		w.want("in time", "4 0 0", closes)
		w.want("in one transaction", "1 4", `SELECT concat_ws(' ', count(*), sum(orders)) FROM dispatch_slots WHERE order_id IN (SELECT close_id FROM closes)`)
		for _, of := range idle {
			if account(of) {
				t.Errorf("%s: got an account still, want it closed", of.Subject)
			}
		}
		came, fee := w.holds(w.treasury.Address, sol)-before, uint64(w.number(`SELECT sum(fee) FROM dispatch_orders WHERE purpose = 'CLOSE'`))
		if want := 4*solanatx.TokenAccountRent - fee; came != want || fee < 5*solanatx.SignatureFee {
			t.Errorf("got %d lamports home for a fee of %d, want %d", came, fee, want)
		}
		w.want("in the books as gas", fmt.Sprint(4*solanatx.TokenAccountRent), `SELECT sum(amount) FROM deposits
			WHERE status = 'CREDITED' AND tx_hash IN (SELECT tx_hash FROM dispatch_orders WHERE purpose = 'CLOSE')`)
		w.sound()

		// A customer is paid again: the payer makes the account, and nothing is missing.
		_, err := w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 50_000_000)
		w.must(err)
		w.settle()
		w.settle()
		w.want("swept again", "DONE", `SELECT status FROM sweeps WHERE wallet_id = $1 AND mint_id = 1 ORDER BY created_at DESC LIMIT 1`, w.ann.ID)
		w.sound()

		// Something comes when its close is planned: nothing is lost.
		w.pass(month + time.Hour)
		w.must(w.sweeps())
		w.want("planned again", "4 0 1", closes)
		_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 60_000_000)
		w.must(err)
		w.mine(1)
		w.work()
		w.want("with something in it", "WITHDRAWN", `SELECT status FROM dispatch_orders WHERE purpose = 'CLOSE' ORDER BY created_at DESC LIMIT 1`)
		w.mine(surfpool.Finality + 1)
		w.settle()
		w.settle()
		w.want("given up", "4 1 0", closes)
		if got := w.holds(w.ann.Address, usdc); got != 0 || !account(w.ann) {
			t.Errorf("got %d units left, want all of them swept and the account there", got)
		}
		w.sound()
		// Something comes when its close is signed: the chain refuses, for a fee.
		w.pass(month + time.Hour)
		w.fate.silent = true
		w.work()
		w.want("signed", "4 1 1", closes)
		_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 70_000_000)
		w.must(err)
		w.fate.silent = false
		w.work()
		last := `SELECT %s FROM dispatch_orders o JOIN dispatch_slots s USING (order_id) WHERE purpose = 'CLOSE' ORDER BY o.created_at DESC LIMIT 1`
		w.must(w.node.AfterFailure(w.ctx, chain.TxHash(w.text(fmt.Sprintf(last, "tx_hash"))), w.text(fmt.Sprintf(last, "lease"))))
		w.settle()
		w.settle()
		w.want("refused by the chain", "4 2 0", closes)
		w.want("its fee", "true", fmt.Sprintf(last, "fee >= 10000 AND o.status = 'FAILED'"))
		if got := w.holds(w.ann.Address, usdc); got != 0 || !account(w.ann) {
			t.Errorf("got %d units left, want all of them swept and the account there", got)
		}
		w.sound()

		// Made again from the signer's journal: what was never signed closed nothing.
		w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			for _, signed := range []bool{false, true} {
				o := dispatch.Order{
					ID: fmt.Sprint("cl_signed_", signed), OrgID: w.org, Purpose: signer.Close, Chain: chain.Solana, WalletID: w.treasury.ID, FromID: w.ann.ID,
					ToWalletID: w.treasury.ID, To: w.treasury.Address, MintID: usdc, Contract: surfpool.USDC, Amount: money.Units(1), CreatedAt: tx.Now,
				}
				if err := dispatch.Place(ctx, tx, o); err != nil {
					return err
				}
				if !signed {
					if _, err := dispatch.Withdraw(ctx, tx, o.ID); err != nil {
						return err
					}
				}
				if _, err := (sweep.Closes{}).Restored(ctx, tx, []dispatch.Restored{{Order: o, New: true, Signed: signed}}); err != nil {
					return err
				}
			}
			return nil
		}))
		w.settle()
		w.settle()
		w.want("restored", "FAILED DONE", `SELECT string_agg(status, ' ' ORDER BY close_id) FROM closes WHERE restored`)
		w.sound()
		w.closeAfter = 0
		w.start()
		w.want("frozen", "", `SELECT string_agg(reason, '; ') FROM freezes`)
	})
	standing := `SELECT count(*) FROM freezes WHERE lifted_at IS NULL`
	t.Run("whoever else takes an idle place has our key", func(t *testing.T) {
		w.T = t
		used := `SELECT split_part(lease, ' ', 1) FROM dispatch_slots WHERE order_id = $1`
		acct, err := w.far.Sender.Account(w.ctx, w.treasury.Address)
		w.must(err)
		first, _, err := solanatx.ParseLease(acct.Leases[0].Final)
		w.must(err)
		w.pass(2 * time.Minute)
		w.work()
		// A stranger may name a place, which takes a fee and no key of ours.
		_, err = w.node.Pay(w.ctx, first, 1_000_000)
		w.must(err)
		paid, _ := w.ask(sol, 100_000_000)
		w.settle()
		w.want("the place of a payment", string(first), used, paid)
		w.pass(2 * time.Minute)
		w.work()
		w.want("after a stranger and a payment of ours", "0", standing)

		acct, err = w.far.Sender.Account(w.ctx, w.treasury.Address)
		w.must(err)
		at, value, err := solanatx.ParseLease(acct.Leases[0].Final)
		w.must(err)
		thief := w.take(at, value)
		w.work()
		w.want("before it is final", "0", standing)
		w.mine(surfpool.Finality + 1)
		w.pass(2 * time.Minute)
		w.work()
		w.want("when it is", w.treasury.ID+" "+string(thief), `SELECT wallet_id || ' ' || substring(reason FROM '[1-9A-HJ-NP-Za-km-z]{80,}') FROM freezes WHERE lifted_at IS NULL`)
		for _, started := range []bool{false, true} {
			w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
				all, err := freeze.List(ctx, tx)
				for _, f := range all {
					if err := freeze.Lift(ctx, tx, f.ID, audit.System("test")); err != nil {
						return err
					}
				}
				return err
			}))
			if started {
				w.start()
			}
			paid, _ := w.ask(sol, 100_000_000)
			w.settle()
			w.want("a payment when a person has seen it", "PAID", state, paid)
			if got := w.text(used, paid); got == string(at) {
				t.Errorf("started anew (%v): got a payment in place %s, want that left out", started, got)
			}
			w.pass(2 * time.Minute)
			w.work()
			w.want("frozen again", "0", standing)
		}
	})
	t.Run("whoever else takes our place has our key", func(t *testing.T) {
		w.T = t
		w.fate.silent = true
		id, _ := w.ask(sol, 100_000_000)
		w.work()
		at, value, err := solanatx.ParseLease(w.text(`SELECT lease FROM dispatch_slots WHERE order_id = $1`, id))
		w.must(err)
		w.take(at, value)
		w.mine(surfpool.Finality + 1)
		w.work()
		w.want("at first", "0", standing)
		w.pass(2 * time.Minute)
		w.work()
		w.want("when it stays so", w.treasury.ID, `SELECT wallet_id FROM freezes WHERE scope = 'WALLET' AND lifted_at IS NULL`)
	})
}
