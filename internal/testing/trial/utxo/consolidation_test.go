package utxo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/wallet"
)

// merging is a chain that consolidates three outputs of up to a hundred units into one.
var merging = sim.Config{ConsolidationMin: 3, ConsolidationFeeMax: fee}

const consolidations = `SELECT coalesce(string_agg(m.status || ' ' || o.status, ', ' ORDER BY m.created_at, m.consolidation_id), '') FROM consolidations m JOIN dispatch_orders o ON o.order_id = m.consolidation_id`

func (h *testEnv) queryText(sql string, args ...any) (s string) {
	h.Helper()
	h.mustSucceed(pgtest.OwnerPool(h.T, h.db).QueryRow(h.ctx, sql, args...).Scan(&s))
	return s
}

func (h *testEnv) wantConsolidations(want string) {
	h.Helper()
	if got := h.queryText(consolidations); got != want {
		h.Errorf(
			"consolidations: got %q, want %q (%s)", got, want,
			h.queryText(
				`SELECT coalesce(string_agg(last_error, '; '), '') FROM dispatch_orders WHERE purpose = 'MERGE'`,
			),
		)
	}
}

// Rule COIN-8.
func TestSmallOutputsBecomeOneThatPays(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.depositOutputs(h.treasury, 1000)
	h.depositOutputs(h.alice, 20, 30)
	h.wantConsolidations("") // too few
	h.advanceClock(11 * time.Minute)
	h.depositOutputs(h.alice, 40, 3, 200)
	h.wantConsolidations("OPEN BROADCAST")
	// No dust, and only small outputs.
	h.wantOutputs("HELD 3", "RESERVED 20", "RESERVED 30", "RESERVED 40", "FREE 200", "FREE 1000")
	h.checkBooks()
	merge := h.queryText(`SELECT consolidation_id FROM consolidations`)
	h.advanceClock(2 * time.Hour)
	h.runAllSteps()
	if n := queryCount(h, `SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d transactions while nobody waits, want one", n)
	}
	if _, err := h.DispatchWorker.CancelOrder(
		h.ctx, merge, audit.Operator("trial"),
	); !fault.HasCode(err, fault.InvalidState) || !strings.Contains(err.Error(), "the same transaction again") {
		t.Errorf("a cancel: got %v, want it refused", err)
	}
	// A payment that needs other outputs does not cause a fee bump of the consolidation.
	waits := h.requestWithdrawal(290)
	h.runAllSteps()
	h.wantStatus(waits, "BROADCAST")
	h.advanceClock(2 * time.Hour)
	h.runAllSteps()
	if n := queryCount(h, `SELECT count(*) FROM dispatch_attempts WHERE order_id = $1`, merge); n != 1 {
		t.Errorf("got %d transactions of the merge while nobody waits for it, want one", n)
	}
	h.mineUntilFinal(4)
	h.wantStatus(waits, "PAID")
	h.wantConsolidations("DONE PAID")
	h.checkBooks()
	if n := queryCount(
		h, `SELECT count(*) FROM utxos WHERE change_of = $1 AND status = 'FREE' AND amount = 80`, merge,
	); n != 1 {
		t.Errorf("got %d coins of the merge, want one of 80", n)
	}
	if got := h.queryText(`SELECT fee::text FROM dispatch_orders WHERE order_id = $1`, merge); got != "10" {
		t.Errorf("got a fee of %s, want 10", got)
	}
	if n := queryCount(h, `SELECT count(*) FROM deposits`); n != 6 {
		t.Errorf("got %d deposits, want the six that came from outside", n)
	}
}

// Rule COIN-8. A payment waits for a consolidation only if it needs the outputs in it.
func TestAConsolidationThatAPaymentWaitsForIsRaised(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.depositOutputs(h.treasury, 150)
	h.depositOutputs(h.alice, 50, 40, 30)
	h.wantConsolidations("OPEN BROADCAST")
	merge := h.queryText(`SELECT consolidation_id FROM consolidations`)
	id := h.requestWithdrawal(90)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	second := h.requestWithdrawal(25)
	h.runAllSteps()
	h.wantStatus(second, "QUEUED COINS")
	h.advanceClock(2 * time.Hour)
	h.runAllSteps()
	if n := queryCount(
		h, `SELECT count(*) FROM dispatch_attempts WHERE order_id = $1 AND act = 'PAY'
			AND replace_reason = 'FEE'`, merge,
	); n == 0 {
		t.Error("the fee of a merge that a payment waits for is not raised")
	}
	for range 3 {
		h.mineUntilFinal(4)
	}
	h.wantStatus(id, "PAID")
	h.wantStatus(second, "PAID")
	h.wantConsolidations("DONE PAID")
	h.checkBooks()
}

// Rule COIN-8.
func TestNothingIsConsolidatedThatIsNotWorthItOrNotToBeTouched(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.net.SetBaseFee(fee + 1)
	h.depositOutputs(h.treasury, 1000)
	h.depositOutputs(h.alice, 40, 40, 10, fee+1) // two are worth it, and two do not pay for themselves
	h.depositOutputs(h.alice, 40)
	h.wantConsolidations("") // the rate is too high
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(
			ctx, tx, audit.Operator("trial"), h.org, org.Changes{"screeningUsdThreshold": json.RawMessage(`"1"`)},
		)
		return err
	}))
	h.severities[payer] = risk.Severe
	h.depositOutputs(h.alice, 60, 70)
	if n := queryCount(h, `SELECT count(*) FROM utxos WHERE status = 'HELD'`); n != 2 {
		t.Fatalf("got %d held coins, want the two that are flagged", n)
	}
	h.net.SetBaseFee(fee)
	h.wantConsolidations("")
	h.advanceClock(11 * time.Minute)
	h.runAllSteps()
	h.wantConsolidations("OPEN BROADCAST")
	h.wantOutputs(
		"FREE 10", "RESERVED 11", "RESERVED 40", "RESERVED 40", "RESERVED 40", "HELD 60", "HELD 70", "FREE 1000",
	)
	h.mineUntilFinal(4)
	h.wantConsolidations("DONE PAID")
	h.wantOutputs(
		"FREE 10", "SPENT 11", "SPENT 40", "SPENT 40", "SPENT 40", "HELD 60", "HELD 70", "FREE 121", "FREE 1000",
	)
	h.checkBooks()

	// Half of the outputs stay available for payments.
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeWallet, OrgID: h.org, WalletID: h.treasury.ID, Chain: chain.Bitcoin,
			Source: freeze.SourceOperator, Reason: "trial",
		})
	}))
	h.severities[payer] = risk.Low
	h.depositOutputs(h.alice, 80, 80, 80)
	h.advanceClock(11 * time.Minute)
	h.runAllSteps()
	h.wantConsolidations("DONE PAID")
	h.checkBooks()
}

// Rule COIN-8.
func TestAPaymentThatComesBeforeAConsolidationHasItsOutputsGoesFirst(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.net.SetBaseFee(fee + 1)
	h.depositOutputs(h.treasury, 1000)
	h.depositOutputs(h.alice, 50, 50, 50)
	h.net.SetBaseFee(fee)
	h.advanceClock(11 * time.Minute)
	if n, err := h.Sweeper.Plan(h.ctx); n != 1 || err != nil {
		t.Fatalf("plan: got %d, %v, want one merge", n, err)
	}
	if n, err := harness.New(h.plan).Sweeper.Plan(h.ctx); n != 0 || err != nil {
		t.Errorf("a second process: got %d, %v, want nothing planned beside it", n, err)
	}
	// Rule COIN-9. No other order gets the change wallet of the consolidation while that waits.
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		next, err := dispatch.NextChangeWallet(ctx, tx, chain.Bitcoin, h.org)
		if next.Subject != "2" {
			t.Errorf("the next slot's rest comes back to number %s, want 2", next.Subject)
		}
		return err
	}))
	id := h.requestWithdrawal(100)
	if _, err := h.DispatchWorker.RunRound(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.wantConsolidations("REFUSED REFUSED")
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	h.checkBooks()
	h.advanceClock(11 * time.Minute)
	h.runAllSteps()
	h.mineUntilFinal(4)
	h.mineUntilFinal(4)
	h.wantStatus(id, "PAID")
	h.checkBooks()

	// The rate was low when the consolidation was planned, and is high when the worker looks at it.
	h.depositOutputs(h.alice, 50, 50, 50)
	h.mineUntilFinal(4)
	h.net.SetBaseFee(fee + 1)
	h.depositOutputs(h.alice, 50, 50, 50)
	h.net.SetBaseFee(fee)
	h.advanceClock(11 * time.Minute)
	if n, err := h.Sweeper.Plan(h.ctx); n != 1 || err != nil {
		t.Fatalf("plan: got %d, %v, want one merge", n, err)
	}
	h.net.SetBaseFee(fee + 1)
	if _, err := h.DispatchWorker.RunRound(h.ctx); err != nil {
		t.Fatal(err)
	}
	if got := h.queryText(consolidations); !strings.HasSuffix(got, "REFUSED REFUSED") {
		t.Errorf("consolidations: got %q, want the last one given up", got)
	}
	h.checkBooks()
}

// Rules COIN-4 and COIN-8.
func TestAConsolidationAndPaymentsThatWantItsOutputsAtOnceShareNone(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.depositOutputs(h.treasury, 300)
	var ids []string
	for round := range 4 {
		for range 4 {
			h.net.Pay(payer, h.alice.Address, "", 50)
		}
		h.net.Mine(4)
		for range 2 { // found and credited, and nothing more
			for _, s := range h.ListSteps(nil) {
				h.mustSucceed(s.Run(h.ctx))
				if s.Name == "credits" {
					break
				}
			}
		}
		h.advanceClock(11 * time.Minute)
		other := harness.New(h.plan)
		if _, err := other.Sweeper.Plan(h.ctx); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := other.DispatchWorker.RunRound(h.ctx); err != nil {
				t.Errorf("round: %v", err)
			}
		})
		if round%2 == 1 {
			ids = append(ids, h.requestWithdrawal(60))
		}
		wg.Go(func() {
			if _, err := h.DispatchWorker.RunRound(h.ctx); err != nil {
				t.Errorf("round: %v", err)
			}
		})
		wg.Wait()
		h.checkBooks()
		h.runAllSteps()
		h.mineUntilFinal(4)
	}
	for range 3 {
		h.mineUntilFinal(4)
	}
	for _, id := range ids {
		h.wantStatus(id, "PAID")
	}
	h.checkBooks()
}

// crashPlan says at which of its calls a service dies, and whether before or after the call.
type crashPlan struct {
	mu    sync.Mutex
	at, n int
	after bool
	dead  bool
}

var errDead = errors.New("the service is dead")

func (f *crashPlan) runCall(do func() error) error {
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

type crashingSigner struct {
	signer.Signer
	*crashPlan
}

func (m crashingSigner) IssueAddress(ctx context.Context, w signer.WalletRef) (out signer.IssuedAddress, err error) {
	err = m.runCall(func() (err error) { out, err = m.Signer.IssueAddress(ctx, w); return err })
	return out, err
}

func (m crashingSigner) AdmitIntent(ctx context.Context, i signer.Intent) (out signer.Entry, err error) {
	err = m.runCall(func() (err error) { out, err = m.Signer.AdmitIntent(ctx, i); return err })
	return out, err
}

func (m crashingSigner) Sign(ctx context.Context, r signer.SignRequest) (out signer.SignedTx, err error) {
	err = m.runCall(func() (err error) { out, err = m.Signer.Sign(ctx, r); return err })
	return out, err
}

type crashingSender struct {
	chain.Sender
	*crashPlan
}

func (m crashingSender) Send(ctx context.Context, raw []byte) (a chain.Answer, words string) {
	if err := m.runCall(func() error { a, words = m.Sender.Send(ctx, raw); return nil }); err != nil {
		return chain.Unknown, err.Error()
	}
	return a, words
}

func (m crashingSender) Account(
	ctx context.Context, of chain.Address, open ...chain.Slot,
) (out chain.Account, err error) {
	err = m.runCall(func() (err error) { out, err = m.Sender.Account(ctx, of, open...); return err })
	return out, err
}

func (m crashingSender) Outcome(
	ctx context.Context, txs []chain.TxHash, ps ...chain.Payment,
) (out *chain.Outcome, err error) {
	err = m.runCall(func() (err error) { out, err = m.Sender.Outcome(ctx, txs, ps...); return err })
	return out, err
}

// Rule COIN-8. After a service dies in the middle of a call, the next one starts without its
// memory.
func TestAConsolidationIsMadeOnceWhereverTheServiceDies(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.depositOutputs(h.treasury, 5000)
	done := 0
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			for range 3 {
				h.net.Pay(payer, h.alice.Address, "", 60)
			}
			h.net.Mine(4)
			f := &crashPlan{at: at, after: after}
			plan := h.plan
			plan.Signer = crashingSigner{plan.Signer, f}
			plan.Chain.Sender = crashingSender{plan.Chain.Sender, f}
			mortal := harness.New(plan)
			h.advanceClock(11 * time.Minute)
			for range 4 {
				h.advanceClock(3 * time.Second)
				for _, s := range mortal.ListSteps(nil) {
					_ = s.Run(h.ctx) // the next service continues what fails
				}
				h.net.Mine(2)
			}
			for range 3 {
				h.mineUntilFinal(4)
			}
			done++
			what := fmt.Sprintf("dead at call %d (after: %v)", at, after)
			if got := queryCount(h, `SELECT count(*) FROM consolidations WHERE status = 'DONE'`); got != done {
				t.Fatalf("%s: got %d consolidations, want %d: %s", what, got, done, h.queryText(consolidations))
			}
			if got, want := h.queryText(`SELECT sum(amount)::text FROM utxos WHERE status = 'FREE'`),
				fmt.Sprint(5000+done*(3*60-fee)); got != want {
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
	h.checkBooks()
}

// Rules COIN-3 and COIN-8.
func TestAConsolidationIsProvenAgainAfterABrokenFinality(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.depositOutputs(h.treasury, 1000)
	h.depositOutputs(h.alice, 50, 50, 50)
	h.mineUntilFinal(4)
	h.wantConsolidations("DONE PAID")
	h.wantOutputs("SPENT 50", "SPENT 50", "SPENT 50", "FREE 140", "FREE 1000")
	h.net.Fork(4)
	h.net.MineEmpty(8)
	for {
		moved, err := h.Walker.StepFinal(h.ctx)
		if errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
		if h.mustSucceed(err); !moved {
			t.Fatal("the walk does not see that finality broke")
		}
	}
	at, err := h.Walker.FindFork(h.ctx)
	h.mustSucceed(err)
	_, err = h.Walker.Repoint(h.ctx, at, 2, audit.Operator("op"))
	h.mustSucceed(err)
	h.wantOutputs("SPENT 50", "SPENT 50", "SPENT 50", "GONE 140", "FREE 1000")
	for range 3 {
		h.mineUntilFinal(4)
	}
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	}))
	for range 3 {
		h.mineUntilFinal(4)
	}
	h.wantConsolidations("DONE PAID")
	h.wantOutputs("SPENT 50", "SPENT 50", "SPENT 50", "FREE 140", "FREE 1000")
	if n := queryCount(h, `SELECT count(*) FROM dispatch_reorged`); n != 0 {
		t.Errorf("got %d orders in question, want it proven again", n)
	}
	h.checkBooks()
}

// Rules COIN-6 and COIN-8.
func TestARestoredConsolidationHasItsOutputsAndEnds(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.net.SetBaseFee(fee + 1)
	h.depositOutputs(h.treasury, 1000)
	h.depositOutputs(h.alice, 50, 60)
	pool := h.plan.Chain.UTXO
	journal := dispatch.JournalRestorer{
		Features:   map[signer.Purpose]dispatch.RestoreListener{signer.Consolidate: sweep.Listener{}},
		ReadFees:   func(chain.Name, []byte) (chain.Fees, error) { return chain.Fees{NonGas: money.Units(fee)}, nil },
		ReadInputs: func(_ chain.Name, slotKey string) ([]chain.Output, error) { return pool.Inputs(slotKey) },
	}
	const id, never = "merge_01ARZ3NDEKTSV4RRFFQ69G5FAV", "merge_01ARZ3NDEKTSV4RRFFQ69G5FAW"
	remembered := func(id, number string) (mirror.JournaledIntent, wallet.Wallet) {
		to, err := h.Wallets.Address(h.ctx, signer.WalletRef{
			OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: number,
		})
		h.mustSucceed(err)
		ref := to.Ref()
		return mirror.JournaledIntent{ID: id, AdmittedAt: h.readClock(), Intent: &signer.Intent{
			ID: id, Purpose: signer.Consolidate, Chain: chain.Bitcoin, From: h.treasury.Ref(), To: to.Address,
			ToWallet: &ref, MintID: btc,
		}}, to
	}
	signed, to := remembered(id, "1")
	unsigned, _ := remembered(never, "2")
	var slotKey strings.Builder
	for _, c := range strings.Split(
		h.queryText(`SELECT string_agg(outpoint || ':' || amount, ' ') FROM utxos WHERE amount < 100`), " ",
	) {
		fmt.Fprintf(&slotKey, "%s:%s ", c, h.alice.Address)
	}
	at := chain.Slot{Key: slotKey.String() + string(to.Address)}
	payload, err := h.plan.Chain.Sender.Build(h.treasury.Address, at, chain.Fees{NonGas: money.Units(fee)})
	h.mustSucceed(err)
	raw, hash := sim.SignPayload(payload)
	signed.Signed = []mirror.Signature{{
		SignBody: signer.SignBody{IntentID: id, Slot: at, Act: signer.Pay, Payload: payload, Hash: hash},
		SignedAt: h.readClock(), Raw: raw,
	}}
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return journal.Restore(ctx, tx, []mirror.JournaledIntent{signed, unsigned})
	}))
	h.wantConsolidations("OPEN SIGNED, REFUSED REFUSED")
	h.wantOutputs("RESERVED 50", "RESERVED 60", "FREE 1000")
	h.net.SetBaseFee(fee)
	h.runAllSteps()
	h.mineUntilFinal(4)
	h.mineUntilFinal(4)
	h.wantStatus(id, "PAID")
	h.wantOutputs("SPENT 50", "SPENT 60", "FREE 100", "FREE 1000")
	h.checkBooks()
}

// Rule COIN-8, on a real chain with the real signer.
func TestOnARealChainThirtySmallDepositsBecomeOneOutputThatPays(t *testing.T) {
	t.Parallel()
	n := newBtcdEnvWith(t, bitcoin.Config{})
	_, err := n.MineBlocks(n.ctx, 30) // for a faucet with enough outputs
	n.mustSucceed(err)
	n.payWallet(n.treasury, 700_000)
	for range 30 {
		n.payWallet(n.alice, 20_000)
	}
	n.finalizeAll()
	n.wantConsolidations("OPEN BROADCAST")
	merge := n.queryText(`SELECT consolidation_id FROM consolidations`)
	if got := n.spentAmounts(merge); len(got) != 30 {
		t.Fatalf("the merge spends %v, want the thirty deposits", got)
	}
	n.checkBooks()
	n.finalizeAll()
	n.wantConsolidations("DONE PAID")
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM utxos WHERE change_of = $1 AND status = 'FREE'`, merge,
	); got != 1 {
		t.Fatalf("got %d coins of the merge, want one", got)
	}
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM utxos WHERE order_id = $1 AND status = 'SPENT'`, merge,
	); got != 30 {
		t.Errorf("got %d spent coins, want thirty", got)
	}
	// 30 inputs and one output weigh 30·272 + 42 + 124, which is 2082 virtual bytes, at a satoshi each.
	if got := n.queryText(`SELECT fee::text FROM dispatch_orders WHERE order_id = $1`, merge); got != "2082" {
		t.Errorf("got a fee of %s, want 2082", got)
	}
	n.checkBooks()
	one, two := newPayee(t), newPayee(t)
	first, second := n.requestWithdrawalTo(300_000, one), n.requestWithdrawalTo(250_000, two)
	for range 3 {
		n.runAllSteps()
		n.finalizeAll()
	}
	n.wantStatus(first, "PAID")
	n.wantStatus(second, "PAID")
	last := n.requestWithdrawalTo(45_000, newPayee(t))
	n.runAllSteps()
	n.finalizeAll()
	n.wantStatus(last, "PAID")
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM utxos WHERE change_of = $1 AND status = 'SPENT'`, merge,
	); got != 1 {
		t.Errorf("got %d, want the consolidated output spent by a payment", got)
	}
	n.checkBooks()
}

// Rule COIN-8.
func TestOnARealChainNothingIsConsolidatedAtAHighRate(t *testing.T) {
	t.Parallel()
	n := newBtcdEnvWith(t, bitcoin.Config{RateMin: 3000, ConsolidationMin: 3})
	n.payWallet(n.treasury, 700_000)
	for range 4 {
		n.payWallet(n.alice, 20_000)
	}
	n.finalizeAll()
	n.advanceClock(time.Hour)
	n.runAllSteps()
	n.wantConsolidations("")
	n.checkBooks()
}
