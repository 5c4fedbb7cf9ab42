package nonceaccounts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	made  = `SELECT string_agg(status, ' ' ORDER BY created_at, nonce_account_id) FROM nonce_accounts`
	tries = `SELECT string_agg(act || coalesce(' ' || replace_reason, ''), ', ' ORDER BY version) FROM dispatch_attempts WHERE order_id = $1`
	state = `SELECT concat_ws(' ', status, waiting_for) FROM dispatch_orders WHERE order_id = $1`
	cost  = solanatx.NonceRent + solanatx.SignatureFee // of a nonce account
)

// Every outgoing payment of an organization on Solana, starting with an empty treasury.
func TestATreasuryCreatesItsNonceAccountsAndPaysFromThem(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, 2)
	w.mustRunAll()
	w.wantText("places without coin", "OPEN OPEN", made)
	w.wantText("what they wait for", "GAS GAS", `SELECT string_agg(waiting_for, ' ') FROM dispatch_orders`)
	var err error
	w.treasury, err = w.Wallets.Treasury(w.ctx, w.org, chain.SolanaFamily)
	w.mustSucceed(err)
	const funded = surfpool.LamportsPerSOL
	_, err = w.node.PayLamports(w.ctx, w.treasury.Address, funded)
	w.mustSucceed(err)
	w.settleAll()
	w.settleAll()
	w.wantText("places", "DONE DONE", made)
	if got, want := w.chainBalance(w.treasury.Address, sol), uint64(funded-2*cost); got != want {
		t.Errorf("the treasury holds %d, want %d: the rent and the fee of two places are gone", got, want)
	}
	w.checkBooks()

	t.Run("the treasury pays for what is swept", func(t *testing.T) {
		w.T = t
		_, err = w.node.PayLamports(w.ctx, w.ann.Address, 2*surfpool.LamportsPerSOL)
		w.mustSucceed(err)
		_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 1_000_000_000)
		w.mustSucceed(err)
		w.settleAll()
		w.settleAll()
		w.wantText("sweeps", "DONE DONE", `SELECT string_agg(status, ' ') FROM sweeps`)
		if c, d := w.chainBalance(w.ann.Address, sol), w.chainBalance(w.ann.Address, usdc); c != 0 || d != 0 {
			t.Errorf("got %d lamports and %d units left, want none: no customer pays a fee", c, d)
		}
		w.checkBooks()
	})
	t.Run("a payment makes the token account that is missing", func(t *testing.T) {
		w.T = t
		one, coins := w.requestWithdrawal(sol, 500_000_000)
		two, tokens := w.requestWithdrawal(usdc, 250_000_000)
		w.settleAll()
		w.wantText("coins", "PAID", state, one)
		w.wantText("tokens", "PAID", state, two)
		if c, d := w.chainBalance(coins, sol), w.chainBalance(tokens, usdc); c != 500_000_000 || d != 250_000_000 {
			t.Errorf("got %d lamports and %d units, want 500000000 and 250000000", c, d)
		}
		w.checkBooks()
	})
	t.Run("more payments than places wait and go on", func(t *testing.T) {
		w.T = t
		var all []chain.Address
		for range 5 {
			_, to := w.requestWithdrawal(usdc, 1_000_000)
			all = append(all, to)
		}
		w.mustRunAll()
		w.wantText("at once", "2 3",
			`SELECT concat_ws(' ', count(*) FILTER (WHERE status = 'BROADCAST'), count(*) FILTER (WHERE status = 'QUEUED' AND waiting_for = 'SLOT'))
			FROM dispatch_orders WHERE status IN ('QUEUED', 'BROADCAST')`)
		for range 3 {
			w.settleAll()
		}
		for _, to := range all {
			if got := w.chainBalance(to, usdc); got != 1_000_000 {
				t.Errorf("got %d units paid, want 1000000", got)
			}
		}
		w.checkBooks()
	})
	t.Run("what is replaced and cancelled stays in its place", func(t *testing.T) {
		w.T = t
		w.crashPlan.silent = true
		paid, to := w.requestWithdrawal(usdc, 2_000_000)
		not, nobody := w.requestWithdrawal(usdc, 3_000_000)
		w.mustRunAll()
		w.advanceClock(2 * time.Minute)
		w.mustRunAll()
		if ok, err := w.DispatchWorker.CancelOrder(w.ctx, not, audit.System("test")); err != nil || !ok {
			t.Fatalf("Cancel: got %v, %v, want it cancelled", ok, err)
		}
		w.mustRunAll()
		w.wantText("one", "PAY, PAY FEE", tries, paid)
		w.wantText("two", "PAY, PAY FEE, CANCEL OPERATOR", tries, not)
		w.crashPlan.silent = false
		w.settleAll()
		w.wantText("one", "PAID", state, paid)
		w.wantText("two", "FAILED", state, not)
		if a, b := w.chainBalance(to, usdc), w.chainBalance(nobody, usdc); a != 2_000_000 || b != 0 {
			t.Errorf("got %d and %d units paid, want 2000000 and none", a, b)
		}
		w.checkBooks()
	})
	t.Run("a lost answer ends in one payment", func(t *testing.T) {
		w.T = t
		w.crashPlan.lost = true
		id, to := w.requestWithdrawal(sol, 100_000_000)
		w.mustRunAll()
		w.wantText("before a block", "SIGNED", state, id)
		w.mustRunAll()
		w.crashPlan.lost = false
		w.settleAll()
		w.wantText("in the end", "PAID", state, id)
		if got := w.chainBalance(to, sol); got != 100_000_000 {
			t.Errorf("got %d lamports paid, want 100000000", got)
		}
		w.checkBooks()
	})
	t.Run("a place is paid for once wherever the service dies", func(t *testing.T) {
		w.T = t
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				before := w.chainBalance(w.treasury.Address, sol)
				w.nonceAccounts++
				w.startParts()
				w.crashPlan.at, w.crashPlan.after = at, after
				for range 3 {
					w.advanceClock(5 * time.Second)
					if w.runAllSteps() != nil || w.crashPlan.dead {
						break
					}
					w.mineBlocks(surfpool.Finality + 1)
				}
				died, calls := w.crashPlan.dead, strings.Join(w.crashPlan.calls, " ")
				w.startParts()
				w.settleAll()
				what := fmt.Sprintf("dead at call %d (after: %v) of %s", at, after, calls)
				w.wantText(what, strings.TrimSpace(strings.Repeat("DONE ", w.nonceAccounts)), made)
				if got := w.chainBalance(w.treasury.Address, sol); before-got != cost {
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
		w.checkBooks()
	})
	t.Run("what has lapsed is made again and paid for once", func(t *testing.T) {
		w.T = t
		before := w.chainBalance(w.treasury.Address, sol)
		w.nonceAccounts++
		w.startParts()
		w.crashPlan.silent = true
		w.mustRunAll()
		id := w.queryText(`SELECT nonce_account_id FROM nonce_accounts WHERE status = 'OPEN'`)
		w.wantText("sent to nobody", "SIGNED", state, id)
		for _, sql := range []string{ // the state after a restore
			`ALTER TABLE dispatch_attempts DISABLE TRIGGER dispatch_attempts_written_once`,
			`UPDATE dispatch_attempts SET last_valid_block = NULL WHERE order_id = '` + id + `'`,
			`ALTER TABLE dispatch_attempts ENABLE TRIGGER dispatch_attempts_written_once`,
		} {
			_, err := pgtest.OwnerPool(t, w.db).Exec(w.ctx, sql)
			w.mustSucceed(err)
		}
		w.advanceClock(2 * time.Minute)
		w.mustRunAll()
		w.wantText("while it could be mined", "PAY", tries, id)
		w.mineBlocks(longAgo)
		w.mustRunAll()
		w.mustRunAll()
		w.wantText("when it cannot", "PAY, PAY LAPSE", tries, id)
		var old []byte
		w.mustSucceed(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(
				ctx, `SELECT raw FROM dispatch_attempts WHERE order_id = $1 AND version = 1`, id,
			).Scan(&old)
		}))
		if _, err := w.node.SendRaw(w.ctx, old); err != nil {
			t.Logf("the node does not take what is too old: %v", err)
		}
		w.crashPlan.silent = false
		w.settleAll()
		w.wantText("in the end", "PAID", state, id)
		if got := w.chainBalance(w.treasury.Address, sol); before-got != cost {
			t.Errorf("got %d lamports gone, want %d", before-got, cost)
		}
		w.checkBooks()
	})
	t.Run("a stranger's coin keeps no place from being made, and is none of what we paid", func(t *testing.T) {
		w.T = t
		gift := func(n int) {
			t.Helper()
			p, err := w.chainConf.NonceAccounts.Creation(w.treasury.Address, n)
			w.mustSucceed(err)
			_, err = w.node.PayLamports(w.ctx, p.To, surfpool.LamportsPerSOL)
			w.mustSucceed(err)
		}
		for n := range solana.NonceAccountsMax { // wherever a nonce account could still be created
			if n >= w.nonceAccounts {
				gift(n)
			}
		}
		w.mineBlocks(1)
		before := w.chainBalance(w.treasury.Address, sol)
		w.nonceAccounts += 2
		w.startParts()
		w.settleAll()
		w.settleAll()
		w.wantText("where coin was", strings.TrimSpace(strings.Repeat("DONE ", w.nonceAccounts)), made)
		w.nonceAccounts++
		w.startParts()
		w.crashPlan.silent = true
		w.mustRunAll()
		gift(w.nonceAccounts - 1) // after it is signed
		w.crashPlan.silent = false
		w.settleAll()
		w.settleAll()
		w.wantText("where coin came", strings.TrimSpace(strings.Repeat("DONE ", w.nonceAccounts)), made)
		if got := w.chainBalance(w.treasury.Address, sol); before-got != 3*cost {
			t.Errorf("got %d lamports gone, want %d: what a stranger gave is not what we paid", before-got, 3*cost)
		}
		w.wantText("frozen", "0", `SELECT count(*) FROM freezes`)
		w.checkBooks()
	})
	t.Run("several deposits are swept by one transaction", func(t *testing.T) {
		w.T = t
		ended := w.queryNumber(`SELECT count(*) FROM sweeps WHERE status = 'DONE'`)
		before := w.chainBalance(w.treasury.Address, sol)
		for i, name := range []string{"bob", "cid", "dan", "eve", "fay"} {
			of := w.newCustomer(name)
			var err error
			if i < 3 {
				_, err = w.node.PayToken(w.ctx, surfpool.USDC, of.Address, 70_000_000)
			} else {
				_, err = w.node.PayLamports(w.ctx, of.Address, surfpool.LamportsPerSOL)
			}
			w.mustSucceed(err)
		}
		// All of them are planned before the worker looks.
		w.mineBlocks(surfpool.Finality + 1)
		w.settleAll()
		w.settleAll()
		if got := w.queryNumber(`SELECT count(*) FROM sweeps WHERE status = 'DONE'`) - ended; got != 5 {
			t.Fatalf("got %d sweeps done, want 5", got)
		}
		w.wantText("their slots", "1 5", `SELECT concat_ws(' ', count(*), sum(orders)) FROM dispatch_slots
			WHERE order_id IN (SELECT sweep_id FROM sweeps ORDER BY created_at DESC LIMIT 5)`)
		w.wantText("nobody topped the treasury up", "0",
			`SELECT count(*) FROM deposits d JOIN wallets w USING (wallet_id)
			WHERE w.purpose = 'TREASURY' AND d.tx_hash IN (SELECT a.tx_hash FROM dispatch_attempts a JOIN sweeps s ON s.sweep_id = a.order_id)`)
		spent := before + 2*surfpool.LamportsPerSOL - w.chainBalance(w.treasury.Address, sol)
		t.Logf("five deposits swept for %d lamports, %d each", spent, spent/5)
		if most := uint64(6*solanatx.SignatureFee + 1_000); spent > most {
			t.Errorf("got %d lamports gone, want six signatures and little else, %d", spent, most)
		}
		w.checkBooks()
	})
	t.Run("what lies in idle accounts comes home", func(t *testing.T) {
		w.T = t
		const month = 30 * 24 * time.Hour
		closes := `SELECT concat_ws(' ', count(*) FILTER (WHERE status = 'DONE'), count(*) FILTER (WHERE status = 'FAILED'), count(*) FILTER (WHERE status = 'OPEN')) FROM closes`
		account := func(of wallet.Wallet) bool {
			t.Helper()
			at, err := solanatx.AssociatedAccount(of.Address, surfpool.USDC, solanatx.TokenProgram)
			w.mustSucceed(err)
			return w.chainBalance(at, sol) > 0
		}
		// What they received of it was swept.
		idle := []wallet.Wallet{w.ann, w.customers[1], w.customers[2], w.customers[3]}
		w.closeAfter = month
		w.startParts()
		w.advanceClock(month - time.Hour)
		w.settleAll()
		w.wantText("too early", "0 0 0", closes)
		w.advanceClock(2 * time.Hour)
		before := w.chainBalance(w.treasury.Address, sol)
		w.settleAll()
		w.settleAll()
		w.wantText("in time", "4 0 0", closes)
		w.wantText(
			"in one transaction", "1 4",
			`SELECT concat_ws(' ', count(*), sum(orders)) FROM dispatch_slots WHERE order_id IN (SELECT close_id FROM closes)`,
		)
		for _, of := range idle {
			if account(of) {
				t.Errorf("%s: got an account still, want it closed", of.Subject)
			}
		}
		came, fee := w.chainBalance(w.treasury.Address, sol)-before, uint64(w.queryNumber(
			`SELECT sum(fee) FROM dispatch_orders WHERE purpose = 'CLOSE'`,
		))
		if want := 4*solanatx.TokenAccountRent - fee; came != want || fee < 5*solanatx.SignatureFee {
			t.Errorf("got %d lamports home for a fee of %d, want %d", came, fee, want)
		}
		w.wantText("in the books as gas", fmt.Sprint(4*solanatx.TokenAccountRent), `SELECT sum(amount) FROM deposits
			WHERE status = 'CREDITED' AND tx_hash IN (SELECT tx_hash FROM dispatch_orders WHERE purpose = 'CLOSE')`)
		w.checkBooks()

		// A customer is paid again: the payer creates the account, and nothing is missing.
		_, err := w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 50_000_000)
		w.mustSucceed(err)
		w.settleAll()
		w.settleAll()
		w.wantText(
			"swept again", "DONE",
			`SELECT status FROM sweeps WHERE wallet_id = $1 AND mint_id = 1 ORDER BY created_at DESC LIMIT 1`, w.ann.ID,
		)
		w.checkBooks()

		// A deposit arrives after its account's close is planned: nothing is lost.
		w.advanceClock(month + time.Hour)
		w.mustSucceed(w.planSweeps())
		w.wantText("planned again", "4 0 1", closes)
		_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 60_000_000)
		w.mustSucceed(err)
		w.mineBlocks(1)
		w.mustRunAll()
		w.wantText(
			"with something in it", "WITHDRAWN",
			`SELECT status FROM dispatch_orders WHERE purpose = 'CLOSE' ORDER BY created_at DESC LIMIT 1`,
		)
		w.mineBlocks(surfpool.Finality + 1)
		w.settleAll()
		w.settleAll()
		w.wantText("given up", "4 1 0", closes)
		if got := w.chainBalance(w.ann.Address, usdc); got != 0 || !account(w.ann) {
			t.Errorf("got %d units left, want all of them swept and the account there", got)
		}
		w.checkBooks()
		// A deposit arrives after its account's close is signed: the chain refuses the close, for a
		// fee.
		w.advanceClock(month + time.Hour)
		w.crashPlan.silent = true
		w.mustRunAll()
		w.wantText("signed", "4 1 1", closes)
		_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 70_000_000)
		w.mustSucceed(err)
		w.crashPlan.silent = false
		w.mustRunAll()
		last := `SELECT %s FROM dispatch_orders o JOIN dispatch_slots s USING (order_id) WHERE purpose = 'CLOSE' ORDER BY o.created_at DESC LIMIT 1`
		w.mustSucceed(w.node.AdvanceFailedNonce(
			w.ctx, chain.TxHash(w.queryText(fmt.Sprintf(last, "tx_hash"))), w.queryText(fmt.Sprintf(last, "slot_key")),
		))
		w.settleAll()
		w.settleAll()
		w.wantText("refused by the chain", "4 2 0", closes)
		w.wantText("its fee", "true", fmt.Sprintf(last, "fee >= 10000 AND o.status = 'FAILED'"))
		if got := w.chainBalance(w.ann.Address, usdc); got != 0 || !account(w.ann) {
			t.Errorf("got %d units left, want all of them swept and the account there", got)
		}
		w.checkBooks()

		// Restored from the signer's journal: a close that was never signed closed nothing.
		w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			for _, signed := range []bool{false, true} {
				o := dispatch.Order{
					ID: fmt.Sprint("cl_signed_", signed), OrgID: w.org, Purpose: signer.CloseTokenAccount,
					Chain: chain.Solana, WalletID: w.treasury.ID, FromWalletID: w.ann.ID,
					ToWalletID: w.treasury.ID, To: w.treasury.Address, MintID: usdc, Contract: surfpool.USDC,
					Amount: money.Units(1), CreatedAt: tx.Now, Trigger: dispatch.TriggerRestore,
				}
				if err := dispatch.Submit(ctx, tx, o); err != nil {
					return err
				}
				if !signed {
					if _, err := dispatch.Recall(ctx, tx, o.ID); err != nil {
						return err
					}
				}
				if _, err := (sweep.Listener{}).OnRestored(ctx, tx, []dispatch.RestoredOrder{{
					Order: o, IsNew: true, Signed: signed,
				}}); err != nil {
					return err
				}
			}
			return nil
		}))
		w.settleAll()
		w.settleAll()
		w.wantText(
			"restored", "FAILED DONE", `SELECT string_agg(status, ' ' ORDER BY close_id) FROM closes WHERE restored`,
		)
		w.checkBooks()
		w.closeAfter = 0
		w.startParts()
		w.wantText("frozen", "", `SELECT string_agg(reason, '; ') FROM freezes`)
	})
	t.Run("a wallet pays the address that checkouts share once the service has made its account", func(t *testing.T) {
		playTokenAccounts(t, w)
	})
	standing := `SELECT count(*) FROM freezes WHERE lifted_at IS NULL`
	t.Run("whoever else takes an idle place has our key", func(t *testing.T) {
		w.T = t
		used := `SELECT split_part(slot_key, ' ', 1) FROM dispatch_slots WHERE order_id = $1`
		acct, err := w.chainConf.Sender.Account(w.ctx, w.treasury.Address)
		w.mustSucceed(err)
		first, _, err := solanatx.ParseSlotKey(acct.Slots[0].Final)
		w.mustSucceed(err)
		w.advanceClock(2 * time.Minute)
		w.mustRunAll()
		// A stranger may name a nonce account, which costs a fee and needs no key of ours.
		_, err = w.node.PayLamports(w.ctx, first, 1_000_000)
		w.mustSucceed(err)
		paid, _ := w.requestWithdrawal(sol, 100_000_000)
		w.settleAll()
		w.wantText("the place of a payment", string(first), used, paid)
		w.advanceClock(2 * time.Minute)
		w.mustRunAll()
		w.wantText("after a stranger and a payment of ours", "0", standing)

		acct, err = w.chainConf.Sender.Account(w.ctx, w.treasury.Address)
		w.mustSucceed(err)
		at, value, err := solanatx.ParseSlotKey(acct.Slots[0].Final)
		w.mustSucceed(err)
		thief := w.useNonceAccount(at, value)
		w.mustRunAll()
		w.wantText("before it is final", "0", standing)
		w.mineBlocks(surfpool.Finality + 1)
		w.advanceClock(2 * time.Minute)
		w.mustRunAll()
		w.wantText(
			"when it is", w.treasury.ID+" "+string(thief),
			`SELECT wallet_id || ' ' || substring(reason FROM '[1-9A-HJ-NP-Za-km-z]{80,}') FROM freezes WHERE lifted_at IS NULL`,
		)
		for _, started := range []bool{false, true} {
			w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
				all, err := freeze.List(ctx, tx)
				for _, f := range all {
					if err := freeze.Lift(ctx, tx, f.ID, audit.System("test")); err != nil {
						return err
					}
				}
				return err
			}))
			if started {
				w.startParts()
			}
			paid, _ := w.requestWithdrawal(sol, 100_000_000)
			w.settleAll()
			w.wantText("a payment when a person has seen it", "PAID", state, paid)
			if got := w.queryText(used, paid); got == string(at) {
				t.Errorf("started anew (%v): got a payment in place %s, want that left out", started, got)
			}
			w.advanceClock(2 * time.Minute)
			w.mustRunAll()
			w.wantText("frozen again", "0", standing)
		}
	})
	t.Run("whoever else takes our place has our key", func(t *testing.T) {
		w.T = t
		w.crashPlan.silent = true
		id, _ := w.requestWithdrawal(sol, 100_000_000)
		w.mustRunAll()
		at, value, err := solanatx.ParseSlotKey(w.queryText(`SELECT slot_key FROM dispatch_slots
			WHERE order_id = $1`, id))
		w.mustSucceed(err)
		w.useNonceAccount(at, value)
		w.mineBlocks(surfpool.Finality + 1)
		w.mustRunAll()
		w.wantText("at first", "0", standing)
		w.advanceClock(2 * time.Minute)
		w.mustRunAll()
		w.wantText(
			"when it stays so", w.treasury.ID,
			`SELECT wallet_id FROM freezes WHERE scope = 'WALLET' AND lifted_at IS NULL`,
		)
	})
}
