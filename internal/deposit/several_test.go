package deposit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

// crowd are more senders than somebody is asked about.
func crowd(o *opinions) (all []chain.Address) {
	for i := range risk.SendersMax + 1 {
		a := sim.Address(fmt.Sprint("one of many ", i))
		o.set(a, risk.None)
		all = append(all, a)
	}
	return all
}

// Where a sender of a deposit cannot be named, or they are too many, no provider is asked;
// what would have to be screened is held at once, and only the operator says where it
// goes. Rule RISK-14.
func TestADepositOfUnnamedSendersIsHeld(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*opinions) []chain.Address{"unnamed": func(*opinions) []chain.Address { return nil }, "too many": crowd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heldOfNobody(t, of)
		})
	}
}

func heldOfNobody(t *testing.T, of func(*opinions) []chain.Address) {
	w, o := thresholds(t)
	o.set("", risk.None) // who would be asked about no address would let it pass
	from := of(o)
	several := func(units uint64) sim.Move {
		return sim.Move{Contract: usdcAt, To: alice, Amount: money.Units(units), Several: true, Senders: from}
	}
	w.c.Do(payer, several(100)) // of no worth
	w.c.Mine(4)
	w.walk(t)
	w.credited(t, usdc, 100, 1)
	w.c.Do(payer, several(700))
	w.c.Mine(4)
	w.walk(t)
	balance := func(want uint64) {
		t.Helper()
		if got := w.balance(t, ledger.Customer, "alice", usdc); got != money.Units(want) {
			t.Errorf("got a balance of %v, want %d", got, want)
		}
	}
	balance(100)
	got := w.list(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 || len(got[0].FromAddresses) != 0 || got[0].ReturnAddressRisk == nil || *got[0].ReturnAddressRisk != "MULTIPLE_INPUTS" {
		t.Fatalf("got %+v, want one that is held, from nobody", got)
	}
	if code := got[0].FlagReason.Code; code != risk.ReasonUnavailable || *got[0].RiskOfFunds != string(risk.Unknown) {
		t.Errorf("got %s, risk %s, want %s", code, *got[0].RiskOfFunds, risk.ReasonUnavailable)
	}
	if o.n != 0 {
		t.Errorf("asked %d times about nobody, want never", o.n)
	}
	refusedForWantOfASender(t, w, got[0].DepositID)
	if _, err := w.resolutions().Approve(t.Context(), got[0].DepositID, operator(), ""); err != nil {
		t.Fatal(err)
	}
	balance(800)
}

// The organization needs the operator; the operator is told what to call instead. Rule RISK-14.
func refusedForWantOfASender(t *testing.T, w *world, id string) {
	t.Helper()
	_, err := w.resolutions().Reject(t.Context(), id, deposit.Decider{Actor: audit.User("usr_1"), OrgID: w.org}, "")
	if !fault.Is(err, fault.OperatorOnly) {
		t.Errorf("the organization sends it back: got %v, want %s", err, fault.OperatorOnly)
	}
	_, err = w.resolutions().Reject(t.Context(), id, operator(), "")
	f := fault.Of(err)
	if f == nil || f.Kind != fault.Conflict || f.Code != fault.InvalidState || f.Extra["currentStatus"] != "FLAGGED" ||
		!strings.Contains(f.Message, "/redirect") || strings.Contains(f.Message, "Ask the operator") {
		t.Errorf("the operator sends it back: got %v, want %s that names /redirect", err, fault.InvalidState)
	}
}

// Each of several senders is asked about, and the worst answer counts: above the threshold
// holds the deposit, silence about one of them has it wait, and only when all of them are
// within it is credited. Whom it came from is kept and shown, and goes back to nobody.
// Rule RISK-14.
func TestTheWorstOfSeveralSendersCounts(t *testing.T) {
	t.Parallel()
	w, o := thresholds(t)
	var who []chain.Address
	for i := range 3 {
		who = append(who, sim.Address(fmt.Sprint("sender ", i)))
	}
	slices.Sort(who)
	from := func(of ...chain.Address) {
		t.Helper()
		w.c.Do(payer, sim.Move{Contract: usdcAt, To: alice, Amount: money.Units(700), Several: true, Senders: of})
		w.c.Mine(4)
		w.walk(t)
	}
	shown := func(status string, senders []chain.Address) (all []string) {
		t.Helper()
		got := w.list(t, deposit.Filter{Status: status})
		for _, d := range got {
			want := make([]string, len(senders))
			for i, a := range senders {
				want[i] = string(a)
			}
			if !slices.Equal(d.FromAddresses, want) {
				t.Errorf("%s: got it from %v, want it from %v", status, d.FromAddresses, want)
			}
			all = append(all, d.DepositID)
		}
		return all
	}
	o.set(who[0], risk.Low)
	o.set(who[1], risk.Medium)

	from(who[1], who[0])
	w.credited(t, usdc, 700, 1)
	if o.n != 2 || len(shown("CREDITED", who[:2])) != 1 {
		t.Errorf("asked %d times, want once about each of two", o.n)
	}

	from(who...) // nobody answers about one of them
	waits := shown("SCREENING", who)
	if len(waits) != 1 {
		t.Fatalf("got %v, want one that waits", waits)
	}
	o.set(who[2], risk.Unknown)
	anew := func() {
		t.Helper()
		if _, err := pgtest.Owner(t, w.db).Exec(t.Context(), `UPDATE deposits SET screen_after = NULL WHERE status = 'SCREENING'`); err != nil {
			t.Fatal(err)
		}
		w.credit(t)
	}
	anew()
	if got := shown("SCREENING", who); len(got) != 1 {
		t.Fatalf("with one of whom nothing is known: got %v, want it to wait", got)
	}
	o.list = map[chain.Address]bool{who[2]: true}
	o.set(who[2], risk.Severe)
	anew()
	held := w.list(t, deposit.Filter{Status: "FLAGGED"})
	if len(shown("FLAGGED", who)) != 1 || *held[0].RiskOfFunds != "SEVERE" || !held[0].FlagReason.Sanctioned || *held[0].ReturnAddressRisk != "MULTIPLE_INPUTS" {
		t.Fatalf("got %+v, want it held as of the sanctioned one among them", held)
	}
	id := held[0].DepositID
	refusedForWantOfASender(t, w, id)
	w.read(t, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT record FROM deposit_decisions ORDER BY decision_id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r json.RawMessage
			if err := rows.Scan(&r); err != nil {
				return err
			}
			if _, err := risk.ReplayDeposit(r); err != nil {
				t.Errorf("replay %s: %v", r, err)
			}
		}
		return rows.Err()
	})

	// Each of them is asked about again, and what is worst is shown.
	r := w.rescreener(o, deposit.RescreenConfig{})
	for range who {
		if !w.again(t, r) {
			t.Fatal("got nobody asked about, want the senders of what is flagged")
		}
		w.owner(t, `UPDATE sender_watch SET next_at = now() + interval '1 day' WHERE next_at > now()`)
	}
	if n := w.count(t, `SELECT count(*) FROM sender_watch WHERE flagged`); n != len(who) {
		t.Errorf("got %d senders that are watched, want %d", n, len(who))
	}
	o.set(who[0], risk.High)
	o.set(who[2], risk.Low)
	d, err := r.Now(t.Context(), id, operator())
	if err != nil || d.FreshScreening == nil || d.FreshScreening.Severity != "HIGH" {
		t.Errorf("got %+v, %v, want the worst of what is said now", d.FreshScreening, err)
	}
	if n := w.count(t, `SELECT count(DISTINCT address) FROM sender_verdicts`); n != len(who) {
		t.Errorf("got verdicts about %d senders, want one about each of %d", n, len(who))
	}
	delete(o.says, who[1])
	if _, err := r.Now(t.Context(), id, operator()); !fault.Is(err, fault.CodeUnavailable) {
		t.Errorf("with one of whom nobody says anything: got %v, want UNAVAILABLE", err)
	}
	// Whom it came from cannot be changed beside its flag.
	if _, err := pgtest.Owner(t, w.db).Exec(t.Context(), `UPDATE deposits SET senders = senders[1:2] WHERE deposit_id = $1`, id); err == nil {
		t.Error("got a sender of a flagged deposit taken away, want a refusal")
	}
	if _, err := w.resolutions().Approve(t.Context(), id, operator(), ""); err != nil {
		t.Fatal(err)
	}
	if got := w.balance(t, ledger.Customer, "alice", usdc); got != money.Units(1400) {
		t.Errorf("got a balance of %v, want 1400", got)
	}
}
