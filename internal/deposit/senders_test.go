package deposit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
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

// manySenders returns more senders than providers are asked about.
func manySenders(o *fakeScreener) (all []chain.Address) {
	for i := range risk.SendersMax + 1 {
		a := sim.Address(fmt.Sprint("one of many ", i))
		o.setSeverity(a, risk.None)
		all = append(all, a)
	}
	return all
}

// Rule RISK-14. If a sender of a deposit is unknown, or there are too many senders, no provider is
// asked. A deposit that would have to be screened is flagged at once, and only the operator
// redirects it.
func TestADepositOfUnnamedSendersIsHeld(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*fakeScreener) []chain.Address{
		"unnamed": func(*fakeScreener) []chain.Address { return nil }, "too many": manySenders,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantHeldWithoutSender(t, of)
		})
	}
}

func wantHeldWithoutSender(t *testing.T, of func(*fakeScreener) []chain.Address) {
	w, o := newScreenedEnv(t)
	o.setSeverity("", risk.None) // without an address to ask about it must not pass
	from := of(o)
	several := func(units uint64) sim.Move {
		return sim.Move{Contract: usdcAt, To: alice, Amount: money.Units(units), MultiSender: true, Senders: from}
	}
	w.c.SubmitTx(payer, several(100)) // worth too little
	w.c.Mine(4)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 100, 1)
	w.c.SubmitTx(payer, several(700))
	w.c.Mine(4)
	w.walkBlocks(t)
	balance := func(want uint64) {
		t.Helper()
		if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(want) {
			t.Errorf("got a balance of %v, want %d", got, want)
		}
	}
	balance(100)
	got := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 || len(got[0].FromAddresses) != 0 || got[0].ReturnAddressRisk == nil ||
		*got[0].ReturnAddressRisk != "MULTIPLE_INPUTS" {
		t.Fatalf("got %+v, want one that is held, from nobody", got)
	}
	if code := got[0].FlagReason.Code; code != risk.ReasonUnavailable || *got[0].RiskOfFunds != string(risk.Unknown) {
		t.Errorf("got %s, risk %s, want %s", code, *got[0].RiskOfFunds, risk.ReasonUnavailable)
	}
	if o.n != 0 {
		t.Errorf("asked %d times about nobody, want never", o.n)
	}
	refusedForWantOfASender(t, w, got[0].DepositID)
	if _, err := w.service.Approve(t.Context(), got[0].DepositID, operatorActor(), ""); err != nil {
		t.Fatal(err)
	}
	balance(800)
}

// refusedForWantOfASender checks that both refusals of a reject say what to do: the organization
// asks the operator, and the operator uses another call. Rule RISK-14.
func refusedForWantOfASender(t *testing.T, w *testEnv, id string) {
	t.Helper()
	_, err := w.service.Reject(t.Context(), id, deposit.Actor{Actor: audit.User("usr_1"), OrgID: w.org}, "")
	if !fault.HasCode(err, fault.OperatorOnly) {
		t.Errorf("the organization sends it back: got %v, want %s", err, fault.OperatorOnly)
	}
	_, err = w.service.Reject(t.Context(), id, operatorActor(), "")
	f := fault.Find(err)
	if f == nil || f.Kind != fault.Conflict || f.Code != fault.InvalidState || f.Extra["currentStatus"] != "FLAGGED" ||
		f.Step != fault.RedirectDeposit || strings.Contains(f.Advice, "Ask the operator") {
		t.Errorf("the operator sends it back: got %v, want %s that names /redirect", err, fault.InvalidState)
	}
}

// Rule RISK-14. Each of several senders is screened, and the worst answer counts:
//   - above the threshold flags the deposit
//   - no answer about one of them lets it wait
//   - only if all are within the threshold is it credited
//
// The senders are recorded and shown, and the deposit is returned to none of them.
func TestTheWorstOfSeveralSendersCounts(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	var who []chain.Address
	for i := range 3 {
		who = append(who, sim.Address(fmt.Sprint("sender ", i)))
	}
	slices.Sort(who)
	from := func(of ...chain.Address) {
		t.Helper()
		w.c.SubmitTx(
			payer, sim.Move{Contract: usdcAt, To: alice, Amount: money.Units(700), MultiSender: true, Senders: of},
		)
		w.c.Mine(4)
		w.walkBlocks(t)
	}
	shown := func(status string, senders []chain.Address) (all []string) {
		t.Helper()
		got := w.listDeposits(t, deposit.Filter{Status: status})
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
	o.setSeverity(who[0], risk.Low)
	o.setSeverity(who[1], risk.Medium)

	from(who[1], who[0])
	w.wantCredited(t, usdc, 700, 1)
	if o.n != 2 || len(shown("CREDITED", who[:2])) != 1 {
		t.Errorf("asked %d times, want once about each of two", o.n)
	}

	from(who...) // no provider answers about one of them
	waits := shown("SCREENING", who)
	if len(waits) != 1 {
		t.Fatalf("got %v, want one that waits", waits)
	}
	o.setSeverity(who[2], risk.Unknown)
	anew := func() {
		t.Helper()
		if _, err := pgtest.OwnerPool(t, w.db).Exec(
			t.Context(), `UPDATE deposits SET screen_after = NULL WHERE status = 'SCREENING'`,
		); err != nil {
			t.Fatal(err)
		}
		w.creditAll(t)
	}
	anew()
	if got := shown("SCREENING", who); len(got) != 1 {
		t.Fatalf("with one of whom nothing is known: got %v, want it to wait", got)
	}
	o.list = map[chain.Address]bool{who[2]: true}
	o.setSeverity(who[2], risk.Severe)
	anew()
	held := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
	if len(shown("FLAGGED", who)) != 1 || *held[0].RiskOfFunds != "SEVERE" || !held[0].FlagReason.Sanctioned ||
		*held[0].ReturnAddressRisk != "MULTIPLE_INPUTS" {
		t.Fatalf("got %+v, want it held as of the sanctioned one among them", held)
	}
	id := held[0].DepositID
	refusedForWantOfASender(t, w, id)
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
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

	// Each sender is screened again, and the worst verdict is shown.
	r := w.newRescreener(o, deposit.RescreenConfig{})
	for range who {
		if !w.rescreenAll(t, r) {
			t.Fatal("got nobody asked about, want the senders of what is flagged")
		}
		w.execAsOwner(t, `UPDATE sender_watch SET next_at = now() + interval '1 day' WHERE next_at > now()`)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM sender_watch WHERE flagged`); n != len(who) {
		t.Errorf("got %d senders that are watched, want %d", n, len(who))
	}
	o.setSeverity(who[0], risk.High)
	o.setSeverity(who[2], risk.Low)
	d, err := r.RescreenDeposit(t.Context(), id, operatorActor())
	if err != nil || d.FreshScreening == nil || d.FreshScreening.Severity != "HIGH" {
		t.Errorf("got %+v, %v, want the worst of what is said now", d.FreshScreening, err)
	}
	if n := w.queryCount(t, `SELECT count(DISTINCT address) FROM sender_verdicts`); n != len(who) {
		t.Errorf("got verdicts about %d senders, want one about each of %d", n, len(who))
	}
	delete(o.says, who[1])
	if _, err := r.RescreenDeposit(t.Context(), id, operatorActor()); !fault.HasCode(err, fault.CodeUnavailable) {
		t.Errorf("with one of whom nobody says anything: got %v, want UNAVAILABLE", err)
	}
	// The senders cannot be changed without changing the flag.
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE deposits SET senders = senders[1:2] WHERE deposit_id = $1`, id,
	); err == nil {
		t.Error("got a sender of a flagged deposit taken away, want a refusal")
	}
	if _, err := w.service.Approve(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatal(err)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(1400) {
		t.Errorf("got a balance of %v, want 1400", got)
	}
}
