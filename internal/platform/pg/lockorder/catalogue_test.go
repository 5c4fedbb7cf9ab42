package lockorder_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg/lockorder"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// notOurs are the tables of libraries, whose statements pass no tracer. Jobs are repeated and cancelled in
// transactions of the service.
func notOurs(table string) bool {
	return table == "goose_db_version" || strings.HasPrefix(table, "river_") && table != "river_job"
}

func TestEveryTableHasAPlaceInTheLockOrder(t *testing.T) {
	t.Parallel()
	catalogue := readCatalogue(t)
	tables := slices.DeleteFunc(catalogue.Tables(), notOurs)
	if len(tables) < 60 {
		t.Fatalf("got %d tables, want those of the schema", len(tables))
	}
	for _, table := range tables {
		if lockorder.Coffer.Find(table) == nil {
			t.Errorf("table %s has no place: add it to coffer.go, where a transaction locks it", table)
		}
	}
	for _, name := range lockorder.Coffer.Names() {
		isTable := !strings.ContainsAny(name, " /")
		if isTable && !slices.Contains(tables, name) {
			t.Errorf("the lock order has %s, which is no table", name)
		}
	}
}

// Functions that only migrations call build statements from texts.
var calledByMigrations = []string{"coffer_tenant", "coffer_shared", "coffer_hide"}

func TestEveryFunctionOfTheSchemaIsUnderstood(t *testing.T) {
	t.Parallel()
	broken := readCatalogue(t).Broken()
	for name, err := range broken {
		if !slices.Contains(calledByMigrations, name) && !notOurs(name) {
			t.Errorf("what it locks is not known: %v", err)
		}
	}
	for _, name := range calledByMigrations {
		if broken[name] == nil {
			t.Errorf("%s is understood and needs no exception", name)
		}
	}
}

// The functions that lock rows, with what they lock. A function that is added or changed changes
// the list, and with it what the statements that fire it lock.
func TestTheFunctionsThatLockAreKnown(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"additional_api_keys_begin":  {"coffer/org/keys/"},
		"address_funds_total":        {"organization_total_changes"},
		"credit_notes_begin":         {"invoices"},
		"deposit_decisions_use":      {"risk_answer_uses"},
		"deposits_proof_live":        {"scan_cursors"},
		"dispatch_orders_proof_live": {"scan_cursors"},
		"events_number":              {"event_sequences", "events"},
		"events_record_first":        {"event_sequences", "events", "deliveries"},
		"fee_lines_bind":             {"invoice_sections"},
		"finality_breaks_next":       {"scan_cursors"},
		"finality_proofs_on_fork":    {"scan_cursors"},
		"fold_organization_totals":   {"organization_total_changes", "organization_totals"},
		"fresh_verdicts_use":         {"risk_answer_uses"},
		"ledger_move_balances":       {"ledger_balances"},
		"ledger_open_balances":       {"ledger_balances"},
		"ledger_transfers_total":     {"organization_total_changes"},
		"withdrawal_decisions_use":   {"risk_answer_uses"},
		"withdrawals_batch":          {"payout_batches"},
		"withdrawals_pay_out":        {"swaps"},
		"withdrawals_refund":         {"refunds"},
	}
	got := readCatalogue(t).Locking()
	for name, locks := range got {
		if !slices.Equal(locks, want[name]) {
			t.Errorf("function %s locks %q, want %q", name, locks, want[name])
		}
	}
	for name := range want {
		if got[name] == nil {
			t.Errorf("function %s locks nothing, want %q", name, want[name])
		}
	}
}

func readCatalogue(t *testing.T) *lockorder.Catalogue {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.NewDatabase(t).SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	catalogue, err := lockorder.ReadCatalogue(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return catalogue
}
