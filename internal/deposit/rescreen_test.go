package deposit_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

func (w *testEnv) newRescreener(of risk.Screener, conf deposit.RescreenConfig) *deposit.Rescreener {
	return deposit.NewRescreener(
		w.db, risk.Policy{Providers: of, UnknownAs: risk.TreatUnknownAsHold}, conf, slog.New(slog.DiscardHandler),
	)
}

func (w *testEnv) execAsOwner(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// rescreenAll makes every sender due and asks about one.
func (w *testEnv) rescreenAll(t *testing.T, r *deposit.Rescreener) bool {
	t.Helper()
	w.execAsOwner(t, `UPDATE sender_watch_lease SET enrolled_at = NULL`)
	if _, err := r.RescreenNext(t.Context()); err != nil {
		t.Fatalf("look for senders: %v", err)
	}
	w.execAsOwner(t, `UPDATE sender_watch SET next_at = now() - interval '1 second'`)
	asked, err := r.RescreenNext(t.Context())
	if err != nil {
		t.Fatalf("Step: %v", err)
	}
	return asked
}

// dumpMoney returns all rows that deposits have written, as one text.
func (w *testEnv) dumpMoney(t *testing.T) (text string) {
	t.Helper()
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT concat((SELECT jsonb_agg(to_jsonb(d) ORDER BY deposit_id) FROM deposits d), (SELECT jsonb_agg(to_jsonb(b) ORDER BY account_id) FROM ledger_balances b),
				(SELECT jsonb_agg(to_jsonb(f) ORDER BY wallet_id, mint_id) FROM address_funds f), (SELECT jsonb_agg(to_jsonb(d) ORDER BY decision_id) FROM deposit_decisions d),
				(SELECT jsonb_agg(to_jsonb(r) ORDER BY resolution_id) FROM deposit_resolutions r), (SELECT count(*) FROM events), (SELECT count(*) FROM dispatch_orders))`).Scan(&text)
	})
	return text
}

// Rules RISK-11 and RISK-12.
func TestASenderThatTurnsBadIsToldAndNothingElseChanges(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	other := sim.Address("nobody asks about it")
	w.c.Mint(other, "", money.Units(1_000_000_000))
	w.c.Mint(other, usdcAt, money.Units(1000))
	w.c.Pay(payer, alice, usdcAt, 500)
	w.c.Pay(other, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkBlocks(t)
	before := w.dumpMoney(t)
	r := w.newRescreener(o, deposit.RescreenConfig{})
	if asked, err := r.RescreenNext(t.Context()); err != nil || asked {
		t.Fatalf("the first day: got %v, %v, want nobody asked about, for the answer is new", asked, err)
	}
	if n := w.queryCount(
		t,
		`SELECT count(*) FROM sender_watch WHERE address = $1 AND credited AND next_at > now() + interval '23 hours'`,
		payer,
	); n != 1 {
		t.Fatalf("got %d senders that wait for their day, want the one that was asked about", n)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM sender_watch`); n != 1 {
		t.Errorf("got %d senders, want none of what nobody was asked about", n)
	}
	for _, turn := range []struct {
		severity     risk.Severity
		rows, alerts int
		because      string
	}{
		{risk.Low, 0, 0, "nothing is new"},
		{risk.Medium, 0, 0, "the threshold itself is not above it"},
		{risk.High, 1, 1, "it is above now"},
		{risk.High, 1, 1, "it was told"},
		{risk.Severe, 2, 2, "it is worse"},
		{risk.Low, 3, 2, "it is over"},
		{risk.Severe, 4, 3, "it is there again"},
	} {
		o.setSeverity(payer, turn.severity)
		if !w.rescreenAll(t, r) {
			t.Fatalf("%s: got nobody asked about", turn.severity)
		}
		rows, alerts := w.queryCount(t, `SELECT count(*) FROM sender_verdicts`),
			w.queryCount(t, `SELECT count(*) FROM sender_verdicts WHERE alert`)
		told := w.queryCount(t, `SELECT count(*) FROM audit_log WHERE action = 'sender.above_threshold'`)
		if rows != turn.rows || alerts != turn.alerts || told != turn.alerts {
			t.Errorf(
				"%s: got %d rows, %d alerts, %d told, want %d and %d: %s", turn.severity, rows, alerts, told,
				turn.rows, turn.alerts, turn.because,
			)
		}
	}
	if got := w.dumpMoney(t); got != before {
		t.Errorf(
			"got the deposits, the books, the funds or the events changed:\n%s\nwant them as they were:\n%s", got,
			before,
		)
	}
	w.execAsOwner(t, `ALTER TABLE deposits DISABLE TRIGGER deposits_as_inserted`)
	w.execAsOwner(t, `UPDATE deposits SET created_at = created_at - interval '31 days'`)
	if w.rescreenAll(t, r) {
		t.Errorf("after 31 days: got somebody asked about, want the sender forgotten")
	}
}

// Rule RISK-12.
func TestAFreshVerdictStandsBesideTheOldOneAndDecidesNothing(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	old := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})[0]
	if old.FreshScreening != nil {
		t.Errorf("got %+v, want nothing before anybody asked again", old.FreshScreening)
	}
	before := w.dumpMoney(t)
	r := w.newRescreener(o, deposit.RescreenConfig{})
	o.setSeverity(payer, risk.Low)
	d, err := r.RescreenDeposit(t.Context(), id, operatorActor())
	if err != nil {
		t.Fatalf("Now: %v", err)
	}
	if f := d.FreshScreening; f == nil || f.Severity != "LOW" || f.Provider != "OPINIONS" || *f.Score != 90 ||
		d.Status != "FLAGGED" ||
		d.RiskOfFunds != "SEVERE" || *d.Screening.Severity != "SEVERE" || *d.FlagReason.Severity != "SEVERE" {
		t.Errorf("got %+v of %+v, want the new one beside what flagged it", d.FreshScreening, d)
	}
	o.setSeverity(payer, risk.High)
	if !w.rescreenAll(t, r) {
		t.Fatal("got nobody asked about, want the sender of what is flagged")
	}
	if f := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})[0].FreshScreening; f == nil || f.Severity != "HIGH" {
		t.Errorf("got %+v, want what was said last", f)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM sender_verdicts WHERE alert`); n != 0 {
		t.Errorf("got %d alerts about what is held anyhow, want none", n)
	}
	o.mu.Lock()
	delete(o.says, payer)
	o.mu.Unlock()
	var f *fault.Fault
	if _, err := r.RescreenDeposit(t.Context(), id, operatorActor()); !errors.As(err, &f) ||
		f.Code != fault.CodeUnavailable {
		t.Errorf("nobody answers: got %v, want UNAVAILABLE", err)
	}
	if f := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})[0].FreshScreening; f == nil || f.Severity != "HIGH" {
		t.Errorf("got %+v, want what was said before", f)
	}
	if got := w.dumpMoney(t); got != before {
		t.Errorf(
			"got the deposits, the books, the funds or the events changed:\n%s\nwant them as they were:\n%s", got,
			before,
		)
	}
	if _, err := r.RescreenDeposit(
		t.Context(), id, deposit.Actor{Actor: audit.User("usr_2"), OrgID: "org_of_somebody_else"},
	); !errors.As(err, &f) ||
		f.Code != fault.CodeNotFound {
		t.Errorf("another organization: got %v, want NOT_FOUND", err)
	}
	if _, err := w.service.Approve(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatalf("Approve: %v", err)
	}
	if _, err := r.RescreenDeposit(t.Context(), id, operatorActor()); !errors.As(err, &f) ||
		f.Code != fault.DepositNotFlagged {
		t.Errorf("once it is decided: got %v, want DEPOSIT_NOT_FLAGGED", err)
	}
	next := w.flagDeposit(t, o, 600)
	o.setSeverity(payer, risk.Medium)
	if d, err := r.RescreenDeposit(t.Context(), next, operatorActor()); err != nil ||
		d.FreshScreening.Severity != "MEDIUM" {
		t.Fatalf("the next one: got %+v, %v, want what is said now", d.FreshScreening, err)
	}
	if f := w.listDeposits(t, deposit.Filter{Status: "CREDITED"})[0].FreshScreening; f == nil || f.Severity != "HIGH" {
		t.Errorf("got %+v, want what was known when it was decided", f)
	}
}

// hangingScreener is a provider that signals each question and answers only when it is released.
type hangingScreener struct {
	*fakeScreener
	asked, let chan struct{}
}

func (h hangingScreener) Screen(ctx context.Context, s risk.Subject) (risk.Verdict, error) {
	h.asked <- struct{}{}
	select {
	case <-h.let:
	case <-ctx.Done():
		return risk.Verdict{}, ctx.Err()
	}
	return h.fakeScreener.Screen(ctx, s)
}

// Rule RISK-12.
func TestNoDecisionWaitsForAFreshVerdict(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	slow := hangingScreener{o, make(chan struct{}), make(chan struct{})}
	r := w.newRescreener(slow, deposit.RescreenConfig{})
	done := make(chan error, 1)
	go func() {
		_, err := r.RescreenDeposit(t.Context(), id, operatorActor())
		done <- err
	}()
	<-slow.asked
	d, err := w.service.Approve(t.Context(), id, operatorActor(), "") // it would wait without end
	if err != nil || d.Status != "CREDITED" {
		t.Fatalf("Approve while a provider hangs: got %s, %v, want it credited", d.Status, err)
	}
	close(slow.let)
	if err := <-done; err != nil {
		t.Errorf("the question: got %v, want its answer", err)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(500) {
		t.Errorf("alice: got %v, want 500", got)
	}
}

// Rule RISK-11.
func TestOneProcessAsksAtATimeAndAnotherGoesOn(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	w.c.Pay(payer, alice, usdcAt, 500)
	w.c.Mine(4)
	w.walkBlocks(t)
	slow := hangingScreener{o, make(chan struct{}), make(chan struct{})}
	first, second := w.newRescreener(slow, deposit.RescreenConfig{}), w.newRescreener(o, deposit.RescreenConfig{})
	if _, err := first.RescreenNext(t.Context()); err != nil {
		t.Fatalf("the first takes the turn: %v", err)
	}
	w.execAsOwner(t, `UPDATE sender_watch SET next_at = now() - interval '1 second'`)
	ctx, die := context.WithCancel(t.Context())
	died := make(chan bool, 1)
	go func() {
		asked, _ := first.RescreenNext(ctx)
		died <- asked
	}()
	<-slow.asked
	if asked, err := second.RescreenNext(t.Context()); err != nil || asked {
		t.Errorf("while the first asks: got %v, %v, want nobody else to", asked, err)
	}
	die()
	if <-died {
		t.Error("got an answer of a process that died, want none")
	}
	if asked, err := second.RescreenNext(t.Context()); err != nil || asked {
		t.Errorf("while its turn lasts: got %v, %v, want nobody else to", asked, err)
	}
	w.execAsOwner(t, `UPDATE sender_watch_lease SET until = now() - interval '1 second'`)
	o.setSeverity(payer, risk.Severe)
	if asked, err := second.RescreenNext(t.Context()); err != nil || !asked {
		t.Errorf("once it ran out: got %v, %v, want the second to ask", asked, err)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM sender_verdicts WHERE alert`); n != 1 {
		t.Errorf("got %d alerts, want one", n)
	}
	if asked, err := first.RescreenNext(t.Context()); err != nil || asked {
		t.Errorf("the first again: got %v, %v, want its turn gone", asked, err)
	}
}

// Rule RISK-12: a recorded verdict never changes, and no other row depends on it.
func TestFreshVerdictsStandAloneInTheDatabase(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	if _, err := w.newRescreener(o, deposit.RescreenConfig{}).RescreenDeposit(
		t.Context(), id, operatorActor(),
	); err != nil {
		t.Fatalf("Now: %v", err)
	}
	for _, sql := range []string{
		`UPDATE sender_verdicts SET severity = 'NONE'`, `DELETE FROM sender_verdicts`, `TRUNCATE sender_verdicts`,
	} {
		err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if err == nil {
			t.Errorf("%s: got it done, want it refused", sql)
		}
		if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), sql); err == nil {
			t.Errorf("%s by the owner: got it done, want it refused", sql)
		}
	}
	for what, sql := range map[string]string{
		"constraints that refer to it": `SELECT count(*) FROM pg_constraint WHERE confrelid = ANY (ARRAY['sender_verdicts', 'sender_watch', 'sender_watch_lease']::regclass[])`,
		"functions that read it":       `SELECT count(*) FROM pg_proc WHERE prosrc ~ 'sender_(verdicts|watch)'`,
		"views that show it":           `SELECT count(*) FROM pg_views WHERE definition ~ 'sender_(verdicts|watch)'`,
	} {
		if n := w.queryCount(t, sql); n != 0 {
			t.Errorf("%s: got %d, want none", what, n)
		}
	}
}
