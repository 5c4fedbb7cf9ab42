package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

var shell = audit.Operator("cli")

// Rule OP-1.
func TestOnlyALiveOperatorKeyOpens(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	ann, key, err := operator.CreateKey(ctx, db, shell, " ann ")
	if err != nil {
		t.Fatal(err)
	}
	if len(key.Reveal()) != 47 || !strings.HasPrefix(key.Reveal(), "cok_") || ann.Name != "ann" {
		t.Errorf("got %d characters of %q, want cok_ and 43 characters", len(key.Reveal()), ann.Name)
	}
	if _, _, err := operator.CreateKey(ctx, db, shell, "bob"); err != nil {
		t.Fatal(err)
	}
	if got, err := operator.Authenticate(ctx, db, key.Reveal()); err != nil || got.ID != ann.ID || got.Name != "ann" {
		t.Errorf("got %+v %v, want ann", got, err)
	}
	second, rolled, err := operator.RollKey(ctx, db, shell, "ann")
	if err != nil || second.Name != "ann" || second.ID == ann.ID {
		t.Fatalf("rolled: got %+v %v, want another key of ann's", second, err)
	}
	if got, err := operator.Authenticate(ctx, db, rolled.Reveal()); err != nil || got.ID != second.ID {
		t.Errorf("got %+v %v, want %v", got, err, second.ID)
	}
	// Missing, malformed, unknown and revoked are one refusal, word for word.
	var first *fault.Fault
	for _, presented := range []string{
		"",
		"cok_", key.Reveal(), rolled.Reveal() + "\n", " " + rolled.Reveal(), rolled.Reveal()[:46],
		"cok_" + strings.Repeat("A", 43), strings.Repeat("x", 1<<20), "\x00\xff",
	} {
		got, err := operator.Authenticate(ctx, db, presented)
		f := fault.Find(err)
		if got.ID != "" || f == nil || f.Code != fault.CodeUnauthorized {
			t.Errorf("%.50q: got %v %v, want %v", presented, got, err, fault.CodeUnauthorized)
			continue
		}
		if first == nil {
			first = f
		}
		if f.Error() != first.Error() || f.Kind != first.Kind || f.Details != nil || f.Extra != nil {
			t.Errorf("%.50q: got %v, want %v", presented, f, first)
		}
	}
	if got, err := operator.RevokeKey(ctx, db, shell, second.ID); err != nil || got.RevokedAt == nil {
		t.Errorf("revoked: got %+v %v", got, err)
	}
	if _, err := operator.Authenticate(ctx, db, rolled.Reveal()); !fault.HasCode(err, fault.CodeUnauthorized) {
		t.Errorf("revoked: got %v, want %v", err, fault.CodeUnauthorized)
	}
	var all []operator.Key
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		all, err = operator.ListKeys(ctx, tx)
		return err
	})
	if err != nil || len(all) != 3 {
		t.Errorf("list: got %v %v, want 3", all, err)
	}
}

func TestAnOperatorKeyIsNowhereReadable(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	_, key, err := operator.CreateKey(ctx, db, shell, "ann")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprint(key) + fmt.Sprintf(
		"%v %+v %#v %s %q", key, key, key, key, key,
	) + string(encoded); strings.Contains(shown, key.Reveal()) {
		t.Error("the key prints")
	}
	var stored string
	if err := pgtest.OwnerPool(t, db).QueryRow(
		ctx, `SELECT string_agg(k::text, '') || (SELECT string_agg(a::text, '') FROM audit_log a) FROM operator_keys k`,
	).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stored, key.Reveal()[4:]) {
		t.Error("the key is in the database")
	}
}

func TestNamesOfOperatorKeys(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	for _, name := range []string{"", "  ", strings.Repeat("a", 201), "a\x00b", "a\nb", "\xff", "opk_1"} {
		if _, _, err := operator.CreateKey(ctx, db, shell, name); !fault.HasCode(err, fault.InvalidRequest) {
			t.Errorf("%q: got %v, want %v", name, err, fault.InvalidRequest)
		}
	}
	if _, _, err := operator.CreateKey(ctx, db, shell, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := operator.CreateKey(ctx, db, shell, "ann"); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("twice: got %v, want %v", err, fault.InvalidState)
	}
	for _, idOrName := range []string{"bob", "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"} {
		if _, _, err := operator.RollKey(ctx, db, shell, idOrName); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("roll %s: got %v, want %v", idOrName, err, fault.CodeNotFound)
		}
		if _, err := operator.RevokeKey(ctx, db, shell, idOrName); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("revoke %s: got %v, want %v", idOrName, err, fault.CodeNotFound)
		}
	}
}

// After concurrent rolls exactly one key is live, and it works.
func TestOneOperatorKeyIsLiveWhoeverRolls(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	if _, _, err := operator.CreateKey(ctx, db, shell, "ann"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var keys []string
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, key, err := operator.RollKey(ctx, db, shell, "ann")
			if err != nil && !fault.HasCode(err, fault.CodeNotFound) && !fault.HasCode(err, fault.InvalidState) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				keys = append(keys, key.Reveal())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	open := 0
	for _, key := range keys {
		if _, err := operator.Authenticate(ctx, db, key); err == nil {
			open++
		}
	}
	if open != 1 {
		t.Errorf("got %d of %d keys that open, want 1", open, len(keys))
	}
}
