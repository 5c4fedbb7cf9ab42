package deposit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

// wait is how many blocks above the old tip the tests wait for a deposit.
const wait = 2

// newReorgEnv returns an environment whose walker notifies the service of breaks.
func newReorgEnv(t *testing.T) *testEnv {
	t.Helper()
	w := newTestEnv(t)
	w.w = w.reorgWalker()
	return w
}

func (w *testEnv) reorgWalker(more ...finality.Listener) *scan.Walker {
	start := uint64(0)
	return scan.New(w.db, scan.Config{
		Chain: chain.Ethereum, Reader: w.c, Start: &start,
		FinalityListeners: append([]finality.Listener{w.service}, more...),
	}, w.service, slog.New(slog.DiscardHandler))
}

// partChain walks until the walker detects that finality broke.
func (w *testEnv) partChain(t *testing.T) {
	t.Helper()
	for {
		moved, err := w.w.StepFinal(t.Context())
		if errors.Is(err, scan.ErrFinalityBroken) {
			return
		}
		if err != nil || !moved {
			t.Fatalf("got %v, %v, want ErrFinalityBroken", moved, err)
		}
	}
}

func (w *testEnv) repointChain(t *testing.T) finality.Break {
	t.Helper()
	p, err := w.w.FindFork(t.Context())
	if err != nil {
		t.Fatalf("Parting: %v", err)
	}
	b, err := w.w.Repoint(t.Context(), p, wait, audit.Operator("op"))
	if err != nil {
		t.Fatalf("Repoint: %v", err)
	}
	return b
}

func (w *testEnv) settleReorgs(t *testing.T) {
	t.Helper()
	if err := w.service.SettleReorgs(t.Context()); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

// listFrozen returns the scopes and sources of the active freezes.
func (w *testEnv) listFrozen(t *testing.T) (all []string) {
	t.Helper()
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		standing, err := freeze.List(ctx, tx)
		for _, f := range standing {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", f.Source, f.Scope, f.Chain, f.CustomerID)))
		}
		slices.Sort(all)
		return err
	})
	return all
}

func (w *testEnv) wantFrozen(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := w.listFrozen(t); !slices.Equal(got, want) {
		t.Errorf("frozen: got %q, want %q", got, want)
	}
}

// wantLoss checks the loss of a mint in the ledger.
func (w *testEnv) wantLoss(t *testing.T, mintID int, want int64) {
	t.Helper()
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Sum(ctx, tx, ledger.Account{OrgID: w.org, MintID: mintID, Kind: ledger.ReorgLoss})
		if err == nil && got.Int64() != -want {
			t.Errorf("lost: got %v, want %d", got, -want)
		}
		return err
	})
}

// checkBooks compares the ledger and the address funds with one another.
func (w *testEnv) checkBooks(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"mints whose addresses hold other than the books own": `
			SELECT count(*) FROM
				(SELECT t.mint_id, sum(CASE a.account_id WHEN t.debit_account THEN t.amount ELSE -t.amount END) AS owned
				 FROM ledger_transfers t JOIN ledger_accounts a ON a.account_id IN (t.debit_account, t.credit_account)
				 WHERE a.kind = 'CUSTODY' GROUP BY 1) b
			FULL JOIN (SELECT mint_id, sum(credited - swept + gas) AS holds FROM address_funds GROUP BY 1) f USING (mint_id)
			WHERE coalesce(owned, 0) <> coalesce(holds, 0)`,
		"deposits that were not posted as they are": `
			SELECT count(*) FROM deposits d WHERE
				(SELECT coalesce(sum(amount), 0) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT' AND cause_id = d.deposit_id)
					<> CASE WHEN d.status IN ('CREDITED', 'REVERSED') THEN d.amount ELSE 0 END
				OR (SELECT coalesce(sum(amount), 0) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_REVERSAL' AND cause_id = d.deposit_id)
					<> CASE WHEN d.status = 'REVERSED' OR d.lost_at IS NOT NULL THEN d.amount ELSE 0 END`,
		"deposits that stand on a dead proof": `
			SELECT count(*) FROM deposits d WHERE d.proof_id IS NOT NULL AND (d.chain_status = 'REORGED')
				= EXISTS (SELECT FROM finality_live p WHERE (p.proof_id, p.height, p.hash) = (d.proof_id, d.height, d.block_hash))`,
		"heights with two live proofs": `
			SELECT count(*) FROM (SELECT FROM finality_live GROUP BY chain, height HAVING count(*) > 1) x`,
	} {
		if n := w.queryCount(t, sql); n != 0 {
			t.Errorf("got %d %s, want none", n, what)
		}
	}
}

// postLedger posts an amount between two accounts. Customer accounts are alice's.
func (w *testEnv) postLedger(
	t *testing.T, kind ledger.CauseKind, id string, debit, credit ledger.Kind, mintID int, units uint64,
) {
	t.Helper()
	w.postOf(t, "alice", kind, id, debit, credit, mintID, units)
}

// postOf is postLedger for another customer.
func (w *testEnv) postOf(
	t *testing.T, customerID string, kind ledger.CauseKind, id string, debit, credit ledger.Kind, mintID int,
	units uint64,
) {
	t.Helper()
	subject := func(k ledger.Kind) string {
		if k == ledger.Customer || k == ledger.Withdrawing {
			return customerID
		}
		return ""
	}
	// The trigger that checks the cause belongs to another package and is disabled here.
	owner := pgtest.OwnerPool(t, w.db)
	if _, err := owner.Exec(
		t.Context(), `ALTER TABLE ledger_transfers DISABLE TRIGGER ledger_transfers_of_cause`,
	); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := owner.Exec(
			t.Context(), `ALTER TABLE ledger_transfers ENABLE TRIGGER ledger_transfers_of_cause`,
		); err != nil {
			t.Fatal(err)
		}
	}()
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return ledger.Post(ctx, tx, ledger.Posting{Cause: ledger.Cause{Kind: kind, ID: id}, Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: w.org, MintID: mintID, Kind: debit, Subject: subject(debit)},
			Credit: ledger.Account{OrgID: w.org, MintID: mintID, Kind: credit, Subject: subject(credit)},
			Amount: money.Units(units),
		}}})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *testEnv) countEvents(t *testing.T, kind string) int {
	t.Helper()
	return w.queryCount(t, `SELECT count(*) FROM events WHERE type = $1`, kind)
}

// newCreditedEnv returns an environment with alice credited with 100 USDC at height 1, and five
// more final blocks above it.
func newCreditedEnv(t *testing.T) *testEnv {
	t.Helper()
	w := newReorgEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(9)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 100, 1)
	return w
}

// Rules DEP-11 and DEP-20.
func TestABreakBelowACreditFreezesTheCustomerAtOnce(t *testing.T) {
	t.Parallel()
	w := newCreditedEnv(t)
	w.c.Pay(payer, bob, usdcAt, 50)
	w.c.Mine(5)
	w.walkBlocks(t)
	w.c.Fork(7) // bob's is no longer in the final chain, alice's is
	w.c.Mine(9)
	for range 3 {
		w.partChain(t)
	}
	w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY CUSTOMER bob")
	w.settleReorgs(t)
	w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY CUSTOMER bob")
	if got := w.loadBalance(t, ledger.Customer, "bob", usdc); got != money.Units(50) {
		t.Errorf("before a decision: got %v, want 50 untouched", got)
	}
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		if err != nil {
			return err
		}
		for _, f := range all {
			if f.Scope == freeze.ScopeChain {
				return freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return nil
	})
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("lift the chain's freeze: got %v, want it refused while nobody has decided", err)
	}
}

// Rules DEP-4, DEP-20 and DEP-21.
func TestADepositThatIsFoundAgainAfterABreakStaysAsItWas(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{9, 7} {
		w := newCreditedEnv(t)
		before := w.onlyDeposit(t)
		w.c.Fork(depth)
		w.c.MineEmpty(2)
		w.c.Mine(depth + 1)
		w.partChain(t)
		if depth == 9 {
			w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY CUSTOMER alice")
		}
		b := w.repointChain(t)
		if depth == 9 {
			if d := w.onlyDeposit(t); d.Status != "CREDITED" || d.ChainStatus != "REORGED" {
				t.Errorf("got %s, %s, want CREDITED, REORGED", d.Status, d.ChainStatus)
			}
			w.checkBooks(t)
		}
		w.walkFinal(t)
		w.settleReorgs(t)
		d := w.onlyDeposit(t)
		if d.DepositID != before.DepositID || d.Status != "CREDITED" || d.ChainStatus != "FINALIZED" ||
			depth == 9 && *d.BlockNumber != 3 {
			t.Errorf("got %+v, want the same deposit in its new block", d)
		}
		w.wantCredited(t, usdc, 100, 1)
		w.wantFrozen(t, "FINALITY CHAIN ETHEREUM")
		w.c.MineEmpty(int(b.SettleHeight))
		w.walkFinal(t)
		w.settleReorgs(t)
		w.wantCredited(t, usdc, 100, 1)
		w.checkBooks(t)
		w.liftFreezes(t)
		w.c.Pay(payer, bob, usdcAt, 70)
		w.c.Mine(4)
		w.walkBlocks(t)
		if got := w.loadBalance(t, ledger.Customer, "bob", usdc); got != money.Units(70) {
			t.Errorf("after the freeze is lifted: got %v, want 70", got)
		}
	}
}

// liftFreezes lifts the chain's freeze.
func (w *testEnv) liftFreezes(t *testing.T) {
	t.Helper()
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil && f.Scope == freeze.ScopeChain {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	})
	if err != nil {
		t.Fatalf("lift the chain's freeze: %v", err)
	}
}

// reorgAway removes alice's credited deposit by a fork, decides the break and settles it.
func (w *testEnv) reorgAway(t *testing.T) finality.Break {
	t.Helper()
	w.c.Fork(9, w.c.BlockAt(1).Transfers[0].Tx)
	w.c.MineEmpty(10)
	w.partChain(t)
	b := w.repointChain(t)
	w.walkFinal(t)
	w.settleReorgs(t)
	if d := w.onlyDeposit(t); d.Status != "CREDITED" || d.ChainStatus != "REORGED" {
		t.Errorf("before it is settled: got %s, %s, want CREDITED, REORGED", d.Status, d.ChainStatus)
	}
	w.c.MineEmpty(10)
	w.walkFinal(t)
	return b
}

// Rules DEP-20 and DEP-22.
func TestADepositThatTheNewForkDoesNotHaveIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		spent, held   uint64
		balance, lost uint64
	}{
		{"all of it there", 0, 0, 0, 0},
		{"half spent", 50, 0, 0, 50},
		{"half held", 0, 50, 0, 50},
		{"all spent", 100, 0, 0, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newCreditedEnv(t)
			if n := tt.spent + tt.held; n > 0 {
				w.postLedger(t, ledger.WithdrawalHold, "wd_1", ledger.Customer, ledger.Withdrawing, usdc, n)
			}
			if tt.spent > 0 {
				w.postLedger(t, ledger.WithdrawalEnd, "wd_1", ledger.Withdrawing, ledger.Custody, usdc, tt.spent)
			}
			w.reorgAway(t)
			w.settleReorgs(t)
			w.settleReorgs(t)
			d := w.onlyDeposit(t)
			if d.Status != "REVERSED" || d.ChainStatus != "REORGED" || d.CreditedAt == nil || d.Reversal == nil {
				t.Fatalf("got %+v, want it reversed", d)
			}
			if want := fmt.Sprint(tt.lost); d.Reversal.Loss != want || d.Reversal.TakenBack != fmt.Sprint(100-tt.lost) {
				t.Errorf("got %+v, want %s lost", d.Reversal, want)
			}
			if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(tt.balance) {
				t.Errorf("balance: got %v, want %d", got, tt.balance)
			}
			w.wantLoss(t, usdc, int64(tt.lost))
			if n := w.countEvents(t, "CUSTOMER_DEPOSIT_REVERSED"); n != 1 {
				t.Errorf("got %d events, want one", n)
			}
			if f := w.loadFunds(t, "adr_alice", usdc); !f.Credited.IsZero() || !f.Shortfall.IsZero() {
				t.Errorf("on the address: got %+v, want nothing, and nothing missing", f)
			}
			w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY CUSTOMER alice")
			w.liftFreezes(t)
			w.settleReorgs(t)
			w.wantFrozen(t, "FINALITY CUSTOMER alice")
			if tt.spent+tt.held == 0 {
				w.checkBooks(t)
			}
		})
	}
}

// Rule DEP-23.
func TestWhatAHoldGivesBackToAFrozenCustomerIsTakenForTheLoss(t *testing.T) {
	t.Parallel()
	for _, lifted := range []bool{false, true} {
		w := newCreditedEnv(t)
		w.postLedger(t, ledger.WithdrawalHold, "wd_1", ledger.Customer, ledger.Withdrawing, usdc, 60)
		w.reorgAway(t)
		w.settleReorgs(t)
		w.wantLoss(t, usdc, 60)
		if lifted {
			err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				all, err := freeze.List(ctx, tx)
				for _, f := range all {
					if err == nil && f.Scope == freeze.ScopeCustomer {
						err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		w.postLedger(t, ledger.WithdrawalEnd, "wd_1", ledger.Withdrawing, ledger.Customer, usdc, 60)
		w.settleReorgs(t)
		w.settleReorgs(t)
		want, lost := money.Zero, int64(0)
		if lifted {
			want, lost = money.Units(60), 60
		}
		if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != want {
			t.Errorf("lifted %v: got %v, want %v", lifted, got, want)
		}
		w.wantLoss(t, usdc, lost)
		if d := w.onlyDeposit(t); d.Reversal.Loss != fmt.Sprint(lost) {
			t.Errorf("lifted %v: got %+v, want %d lost", lifted, d.Reversal, lost)
		}
		if !lifted {
			pgtest.ExpectLockException(t, w.db, "deposit.Service.claimLoss")
		}
	}
}

// Rule DEP-22: crash point S08, the ledger's side of it.
func TestWhatWasSweptBeforeItWasTakenBackIsMissingUntilMoneyArrives(t *testing.T) {
	t.Parallel()
	w := newCreditedEnv(t)
	move := func(m ...wallet.Movement) {
		t.Helper()
		err := w.db.InSystem(
			t.Context(), func(ctx context.Context, tx pg.Tx) error { return wallet.MoveFunds(ctx, tx, m...) },
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(id string, part wallet.Part, plus, minus uint64) wallet.Movement {
		return wallet.Movement{
			WalletID: id, OrgID: w.org, MintID: usdc, Part: part, Plus: money.Units(plus), Minus: money.Units(minus),
		}
	}
	move(at("adr_alice", wallet.Swept, 100, 0), at("adr_treasury", wallet.Credited, 100, 0))
	w.reorgAway(t)
	w.settleReorgs(t)
	if d := w.onlyDeposit(t); d.Status != "REVERSED" || d.Reversal.Loss != "0" {
		t.Fatalf("got %+v, want it reversed whole: the customer had it", d)
	}
	if f := w.loadFunds(t, "adr_alice", usdc); f.Shortfall != money.Units(100) || !f.Spendable().IsZero() {
		t.Errorf("got %+v, want 100 missing", f)
	}
	var missing []finality.Shortfall
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) (err error) {
		missing, err = finality.ListShortfalls(ctx, tx, chain.Ethereum)
		return err
	})
	if len(missing) != 1 || missing[0].Open != "100" || missing[0].WalletID != "adr_alice" {
		t.Errorf("got %+v, want alice's address listed", missing)
	}
	// A part of the shortfall arrives, then more than the rest.
	move(at("adr_alice", wallet.Credited, 30, 0))
	if f := w.loadFunds(t, "adr_alice", usdc); f.Shortfall != money.Units(70) || !f.Spendable().IsZero() {
		t.Errorf("got %+v, want 70 missing", f)
	}
	move(at("adr_alice", wallet.Credited, 80, 0))
	if f := w.loadFunds(t, "adr_alice", usdc); !f.Shortfall.IsZero() || f.Spendable() != money.Units(10) {
		t.Errorf("got %+v, want nothing missing and 10 to spend", f)
	}
	// A reservation never increases the shortfall.
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return wallet.MoveFunds(ctx, tx, at("adr_alice", wallet.Reserved, 11, 0))
	})
	if !errors.Is(err, wallet.ErrInsufficient) {
		t.Errorf("promise more than is there: got %v, want ErrShort", err)
	}
}

// Rule DEP-21: a deposit that arrives again after its reversal is another deposit.
func TestADepositThatComesBackAfterItsReversalIsCreditedAnew(t *testing.T) {
	t.Parallel()
	w := newCreditedEnv(t)
	lost := w.c.BlockAt(1).Transfers[0].Tx
	w.reorgAway(t)
	w.settleReorgs(t)
	first := w.onlyDeposit(t).DepositID
	w.liftFreezes(t)
	w.c.ResubmitTx(lost, payer, moveTo(alice, 100))
	w.c.Mine(4)
	w.walkBlocks(t)
	all := w.listDeposits(t, deposit.Filter{Status: "CREDITED"})
	if len(all) != 1 || all[0].DepositID == first || all[0].TxHash != string(lost) {
		t.Fatalf("got %+v, want one credited anew under another id", all)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(100) {
		t.Errorf("got %v, want 100", got)
	}
	if n := w.countEvents(t, "CUSTOMER_DEPOSIT"); n != 2 {
		t.Errorf("got %d credits told, want 2", n)
	}
	w.checkBooks(t)
}

// Rule DEP-21: with another amount it is another deposit.
func TestWhatTheNewForkPaysOtherwiseIsAnotherDeposit(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func() (to chain.Address, units uint64){
		"another amount":    func() (chain.Address, uint64) { return alice, 40 },
		"another recipient": func() (chain.Address, uint64) { return bob, 100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCreditedEnv(t)
			hash := w.c.BlockAt(1).Transfers[0].Tx
			to, units := move()
			w.c.Fork(9)
			w.c.DropTx(hash)
			w.c.ResubmitTx(hash, payer, moveTo(to, units))
			w.c.Mine(10)
			w.partChain(t)
			w.repointChain(t)
			w.c.MineEmpty(10)
			w.walkFinal(t)
			w.readHead(t)
			w.settleReorgs(t)
			w.checkBooks(t)
			w.liftFreezes(t)
			w.creditAll(t)
			want := map[string]uint64{"alice": 0, "bob": 0}
			if to == alice {
				want["alice"] = units
			} else {
				want["bob"] = units
			}
			for who, n := range want {
				if got := w.loadBalance(t, ledger.Customer, who, usdc); got != money.Units(n) {
					t.Errorf("%s: got %v, want %d", who, got, n)
				}
			}
			w.checkBooks(t)
		})
	}
}

// Rules DEP-20 and DEP-21: a deposit that was not credited is as if it had never been final.
func TestWhatWasFinalAndNotCreditedIsOrphanedByABreak(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	w.c.Pay(payer, alice, usdcAt, 9) // dust
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Pay(payer, treasury, "", 500)
	w.c.Mine(9)
	w.wantWaiting(t) // nothing is credited yet
	if f := w.loadFunds(t, "adr_alice", usdc); f.Dust != money.Units(9) {
		t.Fatalf("got %+v, want 9 of dust", f)
	}
	w.c.Fork(9)
	w.c.Mine(10)
	w.partChain(t)
	if n, err := w.service.CreditWaiting(t.Context()); n != 0 || err != nil {
		t.Errorf("got %d credited and %v on a chain that parted, want none", n, err)
	}
	w.repointChain(t)
	if n := w.queryCount(t, `SELECT count(*) FROM deposits WHERE status = 'ORPHANED' AND proof_id IS NULL`); n != 3 {
		t.Errorf("got %d orphaned, want 3", n)
	}
	if f := w.loadFunds(t, "adr_alice", usdc); !f.Dust.IsZero() {
		t.Errorf("got %+v, want the dust moved back", f)
	}
	w.c.MineEmpty(10)
	w.wantWaiting(t)
	w.settleReorgs(t)
	w.liftFreezes(t)
	w.creditAll(t)
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(100) ||
		w.countEvents(t, "CUSTOMER_DEPOSIT") != 1 {
		t.Errorf("got %v, want 100 and one event", got)
	}
	if got := w.loadBalance(t, ledger.Gas, "", eth); got != money.Units(500) {
		t.Errorf("gas: got %v, want 500", got)
	}
	w.checkBooks(t)
}

// Rule DEP-22, for the operator's native coin.
func TestWhatATreasuryReceivedIsTakenBackToo(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	gas := w.c.Pay(payer, treasury, "", 500)
	odd := w.c.Pay(payer, treasury, usdcAt, 70)
	w.c.Mine(9)
	w.walkBlocks(t)
	// 200 of the gas were paid as fees.
	w.postLedger(t, ledger.NetworkFee, "wd_1", ledger.Gas, ledger.Custody, eth, 200)
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return wallet.MoveFunds(
			ctx, tx,
			wallet.Movement{
				WalletID: "adr_treasury", OrgID: w.org, MintID: eth, Part: wallet.Gas, Minus: money.Units(200),
			},
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.c.Fork(9, gas, odd)
	w.c.MineEmpty(10)
	w.partChain(t)
	w.repointChain(t)
	w.c.MineEmpty(10)
	w.walkFinal(t)
	w.settleReorgs(t)
	for kind, mintID := range map[ledger.Kind]int{ledger.Gas: eth, ledger.Suspense: usdc} {
		if got := w.loadBalance(t, kind, "", mintID); !got.IsZero() {
			t.Errorf("%s: got %v, want nothing", kind, got)
		}
	}
	w.wantLoss(t, eth, 200)
	w.wantLoss(t, usdc, 0)
	if f := w.loadFunds(t, "adr_treasury", eth); f.GasShortfall != money.Units(200) || !f.GasSpendable().IsZero() {
		t.Errorf("got %+v, want 200 of gas missing", f)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("got %d events, want none: it is nobody's customer's", n)
	}
	w.liftFreezes(t)
	w.c.Pay(payer, treasury, "", 300)
	w.c.Mine(4)
	w.walkBlocks(t)
	if f := w.loadFunds(t, "adr_treasury", eth); !f.GasShortfall.IsZero() || f.GasSpendable() != money.Units(100) {
		t.Errorf("got %+v, want 100 of gas and nothing missing", f)
	}
}

// Rule DEP-20: a second break below the first one, before that was settled.
func TestASecondBreakBelowTheFirstIsDecidedLikeTheFirst(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{true, false} {
		w := newReorgEnv(t)
		w.c.Mine(3)
		first := w.c.Pay(payer, alice, usdcAt, 100)
		w.c.Mine(4)
		second := w.c.Pay(payer, alice, usdcAt, 30)
		w.c.Mine(6)
		w.walkBlocks(t)
		w.wantCredited(t, usdc, 130, 2)
		w.c.Fork(6, second)
		w.c.MineEmpty(7)
		w.partChain(t)
		one := w.repointChain(t)
		w.c.MineEmpty(2)
		w.walkFinal(t)
		w.settleReorgs(t)
		// Now the blocks below that fork are replaced too.
		dropped := []chain.TxHash{first}
		if back {
			dropped = nil
		}
		w.c.Fork(int(w.c.Latest().Height)-2, dropped...)
		w.c.Mine(16)
		w.partChain(t)
		two := w.repointChain(t)
		if two.Fork != one.Fork+1 || two.Ancestor.Height >= one.Ancestor.Height {
			t.Errorf(
				"got fork %d above %d after fork %d above %d, want the next one below it", two.Fork,
				two.Ancestor.Height, one.Fork, one.Ancestor.Height,
			)
		}
		w.walkFinal(t)
		w.c.MineEmpty(20)
		w.walkFinal(t)
		w.settleReorgs(t)
		want := uint64(0)
		if back {
			want = 100
		}
		if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(want) {
			t.Errorf("the first back %v: got %v, want %d", back, got, want)
		}
		if n := w.queryCount(
			t, `SELECT count(*) FROM deposits WHERE chain_status = 'REORGED' AND status = 'CREDITED'`,
		); n != 0 {
			t.Errorf("got %d in question, want none", n)
		}
		w.checkBooks(t)
		w.liftFreezes(t)
	}
}

// Rule DEP-20: the chain returns by itself before a person decided.
func TestAChainThatComesBackByItselfLosesNothing(t *testing.T) {
	t.Parallel()
	w := newCreditedEnv(t)
	w.c.Provider(0).LieHash(w.c.Latest().Height-3, true)
	w.partChain(t)
	w.wantFrozen(t, "FINALITY CHAIN ETHEREUM")
	w.c.Provider(0).LieHash(w.c.Latest().Height-3, false)
	if _, err := w.w.FindFork(t.Context()); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("Parting: got %v, want nothing to decide", err)
	}
	w.c.MineEmpty(2)
	w.walkFinal(t)
	w.settleReorgs(t)
	w.wantCredited(t, usdc, 100, 1)
	w.liftFreezes(t)
}

// failingListener is a finality listener that fails.
type failingListener struct{ left int }

func (f *failingListener) OnForked(context.Context, pg.Tx, chain.Name, uint64) error { return nil }

func (f *failingListener) OnBroken(context.Context, pg.Tx, finality.Break) error {
	if f.left--; f.left >= 0 {
		return errors.New("the connection is gone")
	}
	return nil
}

// Rule DEP-20: a decision is complete or absent, and of two decisions one counts.
func TestADecisionIsWholeAndCountsOnce(t *testing.T) {
	t.Parallel()
	w := newCreditedEnv(t)
	w.c.Fork(9, w.c.BlockAt(1).Transfers[0].Tx)
	w.c.MineEmpty(10)
	w.partChain(t)
	broken := w.reorgWalker(&failingListener{left: 1})
	p, err := broken.FindFork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Repoint(t.Context(), p, wait, audit.Operator("op")); err == nil {
		t.Fatal("got no error, want the failure")
	}
	if d := w.onlyDeposit(t); d.ChainStatus != "FINALIZED" ||
		w.queryCount(t, `SELECT count(*) FROM finality_breaks`) != 0 {
		t.Errorf("got %s after a failure, want nothing changed", d.ChainStatus)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range 4 {
		wg.Go(func() {
			_, err := w.reorgWalker().Repoint(t.Context(), p, wait, audit.Operator("op"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done++
			case !fault.HasCode(err, fault.InvalidState):
				t.Errorf("got %v, want the others refused", err)
			}
		})
	}
	wg.Wait()
	if n := w.queryCount(t, `SELECT count(*) FROM finality_breaks`); done != 1 || n != 1 {
		t.Errorf("got %d decisions and %d rows, want one", done, n)
	}
	// Two processes walk and settle at the same time.
	other := w.reorgWalker()
	for range 30 {
		for _, walker := range []*scan.Walker{w.w, other} {
			wg.Go(func() { _, _ = walker.StepFinal(t.Context()) })
		}
		wg.Wait()
	}
	w.c.MineEmpty(10)
	w.walkFinal(t)
	for range 4 {
		wg.Go(func() {
			if err := w.service.SettleReorgs(t.Context()); err != nil {
				t.Errorf("Settle: %v", err)
			}
		})
	}
	wg.Wait()
	if n := w.queryCount(t, `SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_REVERSAL'`); n != 1 {
		t.Errorf("got %d legs, want one", n)
	}
	if n := w.countEvents(t, "CUSTOMER_DEPOSIT_REVERSED"); n != 1 {
		t.Errorf("got %d events, want one", n)
	}
	w.checkBooks(t)
}

// Rule DEP-22: without its event there is no reversal.
func TestAReversalAndItsEventAreOneTransaction(t *testing.T) {
	t.Parallel()
	w := newCreditedEnv(t)
	w.reorgAway(t)
	owner := pgtest.OwnerPool(t, w.db)
	exec := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE events ADD CONSTRAINT events_full CHECK (false) NOT VALID`)
	if n, err := w.service.ReverseReorged(t.Context()); n != 0 || err == nil {
		t.Errorf("got %d reversed and %v, want none and the reason", n, err)
	}
	w.wantCredited(t, usdc, 100, 1)
	exec(`ALTER TABLE events DROP CONSTRAINT events_full`)
	if n, err := w.service.ReverseReorged(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d reversed and %v, want one", n, err)
	}
}

// Rules DEP-3 and DEP-20, enforced by the tables alone.
func TestTheTableItselfRefusesWhatStandsOnADeadProof(t *testing.T) {
	t.Parallel()
	w := newCreditedEnv(t)
	w.c.Pay(payer, alice, usdcAt, 200)
	w.c.Mine(4)
	w.wantWaiting(t) // SCREENING, not credited
	owner := pgtest.OwnerPool(t, w.db)
	refused := func(name, constraint, sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); !pg.ViolatesConstraint(err, constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, constraint)
		}
	}
	const credit = `UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE status = 'SCREENING'`
	refused("a reversal on a live proof", "deposits_terminal",
		`UPDATE deposits SET status = 'REVERSED', reversed_at = now(), taken_back = 0, chain_status = 'REORGED' WHERE status = 'CREDITED'`)
	w.c.Fork(13)
	w.c.Mine(14)
	w.partChain(t)
	refused("a credit while nobody has decided", "deposits_proof_live", credit)
	// This writes the break without notifying the deposits.
	if _, err := owner.Exec(t.Context(),
		`INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
		SELECT chain, 1, 0, parent, 10, 'x', 20, '', '', now() FROM finality_live WHERE height = 1`); err != nil {
		t.Fatal(err)
	}
	refused("a credit on a dead proof", "deposits_proof_live", credit)
	refused("a reversal in haste", "deposits_reversed_in_time",
		`UPDATE deposits SET status = 'REVERSED', reversed_at = now(), taken_back = 0, chain_status = 'REORGED' WHERE status = 'CREDITED'`)
	refused("a proof of the fork that is gone", "finality_proofs_on_fork",
		`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at) VALUES ('ETHEREUM', 99, 'x', 'y', now(), 1, '', now())`)
	refused("a break that skips one", "finality_breaks_next",
		`INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
			VALUES ('ETHEREUM', 3, 0, 'x', 10, 'x', 20, '', '', now())`)
	refused("a break above what was never walked", "finality_breaks_ancestor",
		`INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
			VALUES ('ETHEREUM', 2, 0, 'x', 10, 'x', 20, '', '', now())`)
	refused(
		"another time of credit",
		"deposits_terminal", `UPDATE deposits SET credited_at = now() - interval '1 day' WHERE status = 'CREDITED'`,
	)
	refused(
		"the chain let go",
		"freezes_settled", `UPDATE freezes SET lifted_at = now(), lifted_by = 'x' WHERE scope = 'CHAIN'`,
	)
}

// A break waits for transactions that credit, and later ones see it.
func TestACreditAndABreakDoNotMissEachOther(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	for round := range 5 {
		w.c.Pay(payer, alice, usdcAt, 100)
		w.c.Mine(6)
		w.walkFinal(t)
		w.c.Fork(5, w.c.Mempool()...)
		w.c.MineEmpty(7)
		w.partChain(t)
		p, err := w.w.FindFork(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The credit behaves as if it had passed the check for the freeze before the freeze was
		// created.
		owner := pgtest.OwnerPool(t, w.db)
		if _, err := owner.Exec(t.Context(), `UPDATE scan_cursors SET forked_above = NULL`); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = owner.Exec(
				t.Context(), `UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE status = 'SCREENING'`,
			)
		})
		wg.Go(func() {
			if _, err := w.w.Repoint(t.Context(), p, wait, audit.Operator("op")); err != nil {
				t.Errorf("Repoint: %v", err)
			}
		})
		wg.Wait()
		if n := w.queryCount(t,
			`SELECT count(*) FROM deposits d WHERE d.status = 'CREDITED' AND d.chain_status = 'FINALIZED'
			AND NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = d.proof_id)`); n != 0 {
			t.Fatalf("round %d: got %d credited on a dead proof, want none", round, n)
		}
		if n := w.queryCount(
			t, `SELECT count(*) FROM deposits d WHERE d.status = 'CREDITED' AND d.chain_status = 'REORGED'`,
		); n > 0 {
			w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY CUSTOMER alice")
			return // it was credited first and is in question: the race ended the other way
		}
		w.walkFinal(t)
	}
}

// moveTo returns a movement of USDC.
func moveTo(to chain.Address, units uint64) sim.Move {
	return sim.Move{Contract: usdcAt, To: to, Amount: money.Units(units)}
}
