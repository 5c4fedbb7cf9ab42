package risk_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/risk/risktest"
)

// Rule RISK-13.
func TestAnswersThatSomethingRefersToStay(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	owner := pgtest.OwnerPool(t, db)
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := seal.CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(ctx, sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	// No row of deposits is needed here: what refers to them is not checked.
	exec(
		`ALTER TABLE deposit_decisions DROP CONSTRAINT deposit_decisions_org_id_fkey, DROP CONSTRAINT deposit_decisions_deposit_id_fkey`,
	)
	exec(`ALTER TABLE withdrawal_decisions DISABLE TRIGGER withdrawal_decisions_withdrawal`)
	exec(`ALTER TABLE sender_verdicts DROP CONSTRAINT sender_verdicts_org_id_fkey`)
	answer := func(of string) (*risk.Answer, []string) {
		t.Helper()
		panel := &risk.Panel{Answers: &risk.AnswerStore{DB: db, Seal: keys}, Log: slog.New(slog.DiscardHandler)}
		for _, name := range []string{"A", "B"} {
			panel.Members = append(panel.Members,
				risk.Member{Screener: &risktest.Provider{ProviderName: name, Behavior: risktest.Behaviors[0]}})
		}
		a := risk.Policy{Providers: panel}.ScreenProviders(ctx,
			risk.Subject{Chain: chain.Ethereum, Address: chain.Address(of), Direction: risk.Incoming})
		if a.Unavailable != "" || len(a.Verdict.Parts) != 2 {
			t.Fatalf("got %+v, want both answers", a)
		}
		return a, []string{a.Verdict.Parts[0].AnswerID, a.Verdict.Parts[1].AnswerID}
	}
	there := func() map[string]bool {
		t.Helper()
		rows, err := owner.Query(ctx, `SELECT answer_id FROM risk_answers`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		all := map[string]bool{}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			all[id] = true
		}
		return all
	}

	want := map[string]bool{}
	keep := func(ids []string, stays bool) {
		for _, id := range ids {
			want[id] = stays
		}
	}
	a, ids := answer("0xdeposit")
	exec(`INSERT INTO deposit_decisions (org_id, deposit_id, at, outcome, record) VALUES ('o', 'd', now(), 'FLAG', $1)`,
		risk.DepositRecord{Case: risk.DepositCase{Answer: a}})
	keep(ids, true)
	a, ids = answer("0xlists")
	exec(
		`INSERT INTO deposit_decisions (org_id, deposit_id, at, outcome, record) VALUES ('o', 'd', now(), 'CREDIT', $1)`,
		risk.DepositRecord{Case: risk.DepositCase{Lists: a}},
	)
	keep(ids, true)
	a, ids = answer("0xwithdrawal")
	exec(`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind, actor_id, risk)
		VALUES ('o', 'w', now(), 'REQUESTED', 'PROCESSING', '{}', '[]', 'SYSTEM', 's', $1)`,
		risk.WithdrawalRecord{Case: risk.WithdrawalCase{Answer: a}})
	keep(ids, true)
	a, ids = answer("0xsender")
	exec(`INSERT INTO sender_verdicts (org_id, chain, address, at, severity, provider, categories, given_at, above, credited, alert, record)
		VALUES ('o', 'c', 'a', now(), 'LOW', 'A', '{}', now(), false, false, false, $1)`, a)
	keep(ids, true)
	_, old := answer("0xbefore")
	exec(`UPDATE risk_answers SET kept_at = NULL WHERE answer_id = ANY ($1)`, old)
	keep(old, true)
	_, ids = answer("0xnobody")
	keep(ids, false)
	exec(`UPDATE risk_answers SET kept_at = kept_at - interval '31 days'`)
	_, young := answer("0xyoung")
	keep(young, true)

	for range 2 {
		if err := risk.PruneAnswers(ctx, db, 30*24*time.Hour); err != nil {
			t.Fatalf("Retire: %v", err)
		}
		got := there()
		for id, stays := range want {
			if got[id] != stays {
				t.Errorf("answer %s: got it kept %t, want %t", id, got[id], stays)
			}
		}
	}

	// The database refuses to delete them, even by a faulty program.
	for id, stays := range want {
		err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM risk_answers WHERE answer_id = $1`, id)
			return err
		})
		if stays != pg.ViolatesConstraint(err, "risk_answers_used_stay") {
			t.Errorf("delete %s: got %v, want it refused %t", id, err, stays)
		}
	}
	if err := risk.PruneAnswers(ctx, db, 0); err != nil { // as many as it may: the young ones stay
		t.Fatalf("Retire: %v", err)
	}
	if got := there(); !got[young[0]] || !got[young[1]] {
		t.Errorf("got %v, want what may be used again kept", got)
	}
}
