package deposit_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/webhook"
)

// wantEvents creates an endpoint of the organization for these events.
func (w *testEnv) wantEvents(t *testing.T, id, status string, events ...string) {
	t.Helper()
	_, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
		INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at, updated_at)
		VALUES ($1, $2, 'https://example.com', $3, $4, '', now(), now())`,
		id, w.org, append([]string{}, events...), status)
	if err != nil {
		t.Fatal(err)
	}
}

// eventTypes returns the types of the events of alice's deposits, in the order of their resource.
func (w *testEnv) eventTypes(t *testing.T) (types []string) {
	t.Helper()
	rows, err := pgtest.OwnerPool(t, w.db).Query(
		t.Context(), `SELECT type FROM events WHERE customer_id = 'alice' ORDER BY resource_id, resource_seq`,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		types = append(types, s)
	}
	return types
}

// Rule DEP-27.
func TestADepositThatIsSeenIsToldOnceAndBeforeItsCredit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.wantEvents(t, "we_1", "ENABLED", "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_SEEN")
	w.c.SubmitTx(payer, moveTo(alice, 100), moveTo(checkout, 100), moveTo(alice, 3))
	w.c.Mine(1)
	w.walkBlocks(t)
	w.walkBlocks(t)
	if got := w.eventTypes(t); !slices.Equal(got, []string{"CUSTOMER_DEPOSIT_SEEN"}) {
		t.Fatalf("seen: got %v, want it told once, and neither dust nor the organization's own", got)
	}
	var data []byte
	if err := pgtest.OwnerPool(t, w.db).QueryRow(t.Context(), `SELECT data FROM events`).Scan(&data); err != nil {
		t.Fatal(err)
	}
	var d webhook.Deposit
	if err := json.Unmarshal(data, &d); err != nil || d.Status != "CONFIRMING" || d.ChainStatus != "INCLUDED" ||
		d.CreditedAt != nil || *d.CustomerID != "alice" {
		t.Errorf("got %s %v, want a deposit that nobody can take for a credit", data, err)
	}
	// A fork removes the deposit and another block has it: it is the same deposit and was announced
	// already.
	w.c.Fork(1)
	w.c.MineEmpty(1)
	w.readHead(t)
	w.c.Mine(1)
	w.walkBlocks(t)
	if got := w.eventTypes(t); len(got) != 1 {
		t.Errorf("included again: got %v, want nothing new", got)
	}
	w.c.Mine(4)
	w.walkBlocks(t)
	if got := w.eventTypes(t); !slices.Equal(got, []string{"CUSTOMER_DEPOSIT_SEEN", "CUSTOMER_DEPOSIT"}) {
		t.Errorf("final: got %v, want the credit after it", got)
	}
}

// Rules DEP-9 and DEP-27.
func TestNothingTellsThatADepositThatWasSeenIsGone(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.wantEvents(t, "we_1", "PAUSED", "CUSTOMER_DEPOSIT_SEEN")
	hash := w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(1)
	w.walkBlocks(t)
	w.c.Fork(1, hash)
	w.c.MineEmpty(8)
	w.walkBlocks(t)
	if d := w.onlyDeposit(t); d.Status != "ORPHANED" {
		t.Errorf("got %s, want ORPHANED", d.Status)
	}
	if got := w.eventTypes(t); !slices.Equal(got, []string{"CUSTOMER_DEPOSIT_SEEN"}) {
		t.Errorf("got %v, want nothing after it was seen", got)
	}
}

// Rules DEP-27, EVT-7. An endpoint for every event receives this one too.
func TestADepositThatIsSeenIsToldToAnEndpointThatNamesAll(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.wantEvents(t, "we_1", "ENABLED", "*")
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(1)
	w.walkBlocks(t)
	if got := w.eventTypes(t); !slices.Equal(got, []string{"CUSTOMER_DEPOSIT_SEEN"}) {
		t.Errorf("got %v, want it told", got)
	}
}

// Rule DEP-27.
func TestWhatIsSeenIsWrittenOnlyWhereItIsWanted(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.wantEvents(t, "we_1", "ENABLED")
	w.wantEvents(t, "we_2", "ENABLED", "CUSTOMER_DEPOSIT")
	w.wantEvents(t, "we_3", "DISABLED_GONE", "CUSTOMER_DEPOSIT_SEEN")
	w.wantEvents(t, "we_4", "ENABLED", "CUSTOMER_DEPOSIT_SEEN")
	owner := pgtest.OwnerPool(t, w.db)
	if _, err := owner.Exec(
		t.Context(), `UPDATE webhook_endpoints SET deleted_at = now() WHERE endpoint_id = 'we_4'`,
	); err != nil {
		t.Fatal(err)
	}
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(1)
	w.walkBlocks(t)
	if got := w.eventTypes(t); len(got) != 0 {
		t.Errorf("got %v, want nothing for nobody", got)
	}
	// A deposit that is final when it is first seen is announced by its credit alone.
	w.wantEvents(t, "we_5", "ENABLED", "CUSTOMER_DEPOSIT_SEEN")
	w.c.Pay(payer, alice, usdcAt, 200)
	w.c.Mine(5)
	w.walkFinal(t)
	w.creditAll(t)
	if got := w.eventTypes(t); !slices.Equal(got, []string{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT"}) {
		t.Errorf("got %v, want two credits", got)
	}
}
