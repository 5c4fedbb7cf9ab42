package apikey_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// keyring is an organization that calls with its main key.
type keyring struct {
	t    *testing.T
	db   *pg.DB
	org  string
	main seal.Secret
}

func newKeyring(t *testing.T, additional bool) *keyring {
	t.Helper()
	db := pgtest.New(t)
	o, main, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	k := &keyring{t, db, o.ID, main}
	if additional {
		k.allow(true)
	}
	return k
}

// allow switches additionalApiKeys.
func (k *keyring) allow(on bool) {
	k.t.Helper()
	allowKeys(k.t, k.db, k.org, on)
}

// allowKeys switches additionalApiKeys of an organization.
func allowKeys(t *testing.T, db *pg.DB, orgID string, on bool) {
	t.Helper()
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), orgID,
			org.Changes{"additionalApiKeys": fmt.Append(nil, on)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (k *keyring) admit(value seal.Secret) (apikey.Caller, error) {
	return apikey.NewAuthenticator(k.db).Authenticate(k.t.Context(), value.Reveal(), netip.Addr{})
}

// caller returns the main key as it was admitted.
func (k *keyring) caller() apikey.Caller {
	k.t.Helper()
	c, err := k.admit(k.main)
	if err != nil {
		k.t.Fatal(err)
	}
	return c
}

func (k *keyring) create(scope identity.Scope) (apikey.Key, seal.Secret) {
	k.t.Helper()
	made, value, err := apikey.Create(k.t.Context(), k.db, k.caller(), apikey.NewKey{Name: "reporting", Scope: scope})
	if err != nil {
		k.t.Fatal(err)
	}
	return made, value
}

func (k *keyring) list() []apikey.Key {
	k.t.Helper()
	var found pagination.Result[apikey.Key]
	err := k.db.ReadOrg(k.t.Context(), k.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = apikey.List(ctx, tx, k.org, pagination.Page{})
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return found.Items
}

// exec runs a statement as the owner of the database.
func (k *keyring) exec(sql string, args ...any) {
	k.t.Helper()
	if _, err := pgtest.OwnerPool(k.t, k.db).Exec(k.t.Context(), sql, args...); err != nil {
		k.t.Fatal(err)
	}
}

// refused checks that a value is refused like one that never existed.
func (k *keyring) refused(name string, value seal.Secret) {
	k.t.Helper()
	_, unknown := k.admit(seal.NewSecret("ck_" + strings.Repeat("A", 43)))
	got, err := k.admit(value)
	if f := fault.Find(err); got.OrgID != "" || f == nil || f.Code != fault.CodeUnauthorized ||
		f.Error() != fault.Find(unknown).Error() || f.Extra != nil || f.Details != nil {
		k.t.Errorf("%s: got %v %v, want %v", name, got, err, unknown)
	}
}

func (k *keyring) works(name string, value seal.Secret, keyID string) {
	k.t.Helper()
	if got, err := k.admit(value); err != nil || got.OrgID != k.org || got.KeyID != keyID {
		k.t.Errorf("%s: got %v %v, want %v", name, got, err, keyID)
	}
}

// Rules AUTH-1, KEY-1, KEY-4.
func TestAdditionalKeysWorkWhereTheOperatorAllowsThem(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, false)
	wanted := apikey.NewKey{Name: "reporting", Scope: identity.ScopeRead}
	if _, _, err := apikey.Create(t.Context(), k.db, k.caller(), wanted); !fault.HasCode(err, fault.FeatureDisabled) {
		t.Errorf("off: got %v, want %v", err, fault.FeatureDisabled)
	}
	if _, _, err := apikey.Roll(
		t.Context(), k.db, k.caller(), apikey.MainID, 60,
	); !fault.HasCode(err, fault.FeatureDisabled) {
		t.Errorf("an overlap: got %v, want %v", err, fault.FeatureDisabled)
	}
	k.allow(true)
	made, value := k.create(identity.ScopeRead)
	_, other := k.create(identity.ScopeFull)
	k.works("on", value, made.ID)
	former := k.main
	_, rolled, err := apikey.Roll(t.Context(), k.db, k.caller(), apikey.MainID, 3600)
	if err != nil {
		t.Fatal(err)
	}
	k.main = rolled
	k.works("the former value", former, apikey.MainID)

	k.allow(false)
	k.refused("off again", value)
	k.refused("off again, with every right", other)
	k.refused("the former value of the main key, off again", former)
	k.works("the main key", k.main, apikey.MainID)
	all := k.list()
	if len(all) != 3 {
		t.Errorf("off again: got %+v, want three keys", all)
	}
	for _, key := range all {
		if want := map[bool]apikey.Status{
			true: apikey.Active, false: apikey.Suspended,
		}[key.IsMain()]; key.Status != want || key.FormerEndsAt != nil {
			t.Errorf("off again: got %+v, want it %s without a former value", key, want)
		}
	}
	if _, _, err := apikey.Roll(
		t.Context(), k.db, k.caller(), made.ID, 0,
	); !fault.HasCode(err, fault.FeatureDisabled) {
		t.Errorf("roll of a suspended key: got %v, want %v", err, fault.FeatureDisabled)
	}
	k.allow(true)
	k.works("on again", value, made.ID)
	k.works("the former value, on again", former, apikey.MainID)

	k.exec(`ALTER TABLE additional_api_keys DISABLE TRIGGER additional_api_keys_keep`)
	k.exec(`UPDATE additional_api_keys SET expires_at = now() + interval '1 hour' WHERE key_id = $1`, made.ID)
	k.works("before it expires", value, made.ID)
	k.exec(`UPDATE additional_api_keys SET expires_at = now() WHERE key_id = $1`, made.ID)
	k.refused("expired", value)
	if _, _, err := apikey.Roll(t.Context(), k.db, k.caller(), made.ID, 0); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("roll of an expired key: got %v, want %v", err, fault.InvalidState)
	}
}

// A key with each scope, and the scope that each call needs. Rule KEY-2.
func TestAScopeHasThoseBelowIt(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	// They need READ, NO_MONEY_OUT, FULL and the main key. No key may take the last two.
	actions := []identity.Action{
		identity.ReadOrganization, identity.CancelWithdrawal, identity.RequestWithdrawal, identity.ManageKeys,
		identity.WithdrawOwnMoney, "",
	}
	for i, scope := range identity.Scopes {
		_, value := k.create(scope)
		c, err := k.admit(value)
		if err != nil {
			t.Fatal(err)
		}
		for j, action := range actions {
			if got, want := c.IsAllowed(action), j <= i; got != want {
				t.Errorf("%s for %q: got %v, want %v", scope, action, got, want)
			}
		}
	}
	for j, action := range actions {
		if got, want := k.caller().IsAllowed(action), j < 4; got != want {
			t.Errorf("the main key for %q: got %v, want %v", action, got, want)
		}
	}
}

// Rule KEY-5.
func TestAFormerValueWorksUntilItsOverlapEnds(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"additional", "main"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			k := newKeyring(t, true)
			id, first := apikey.MainID, k.main
			if field == "additional" {
				made, value := k.create(identity.ScopeRead)
				id, first = made.ID, value
			}
			roll := func(seconds int) (apikey.Key, seal.Secret, error) {
				rolled, value, err := apikey.Roll(t.Context(), k.db, k.caller(), id, seconds)
				if err == nil && field == "main" {
					k.main = value
				}
				return rolled, value, err
			}
			for _, seconds := range []int{-1, apikey.OverlapSecondsMax + 1} {
				if _, _, err := roll(seconds); !fault.HasCode(err, fault.InvalidRequest) {
					t.Errorf("%d seconds: got %v, want %v", seconds, err, fault.InvalidRequest)
				}
			}
			rolled, second, err := roll(apikey.OverlapSecondsMax)
			if err != nil {
				t.Fatal(err)
			}
			if rolled.ID != id || rolled.RolledAt == nil || rolled.FormerEndsAt == nil ||
				rolled.FormerEndsAt.Sub(*rolled.RolledAt) != apikey.OverlapSecondsMax*time.Second {
				t.Errorf("rolled: got %+v, want the same key with its former value for a day", rolled)
			}
			k.works("the former value", first, id)
			k.works("the new value", second, id)
			if _, _, err := roll(1); !fault.HasCode(err, fault.InvalidState) {
				t.Errorf("another overlap: got %v, want %v", err, fault.InvalidState)
			}
			k.works("the former value after a refusal", first, id)

			k.exec(`UPDATE api_keys SET ends_at = now() WHERE ends_at IS NOT NULL`)
			k.exec(`UPDATE additional_api_keys SET former_ends_at = now() WHERE former_ends_at IS NOT NULL`)
			k.refused("the overlap is over", first)
			k.works("the new value", second, id)
			_, third, err := roll(3600)
			if err != nil {
				t.Fatal(err)
			}
			k.works("the second value in its overlap", second, id)
			_, fourth, err := roll(0)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]seal.Secret{"first": first, "second": second, "third": third} {
				k.refused(name+" after a roll without an overlap", value)
			}
			k.works("the last value", fourth, id)
		})
	}
}

// Rule KEY-5.
func TestTheOperatorsRollEndsEveryValue(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	first := k.main
	_, second, err := apikey.Roll(t.Context(), k.db, k.caller(), apikey.MainID, 3600)
	if err != nil {
		t.Fatal(err)
	}
	third, err := org.RollKey(t.Context(), k.db, audit.Operator("op"), k.org)
	if err != nil {
		t.Fatal(err)
	}
	k.refused("first", first)
	k.refused("second", second)
	k.works("third", third, apikey.MainID)
}

// Rule KEY-6.
func TestAKeyThatWasDeletedOrRevokedNeverWorksAgain(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	ctx, actor := t.Context(), audit.Operator("op")
	deleted, first := k.create(identity.ScopeFull)
	_, second, err := apikey.Roll(ctx, k.db, k.caller(), deleted.ID, 3600)
	if err != nil {
		t.Fatal(err)
	}
	if err := apikey.Delete(ctx, k.db, k.caller(), deleted.ID); err != nil {
		t.Fatal(err)
	}
	k.refused("deleted", second)
	k.refused("deleted, the former value", first)
	revoked, value := k.create(identity.ScopeFull)
	if err := org.RevokeKey(ctx, k.db, actor, k.org, revoked.ID); err != nil {
		t.Fatal(err)
	}
	k.refused("revoked", value)
	for _, gone := range []string{deleted.ID, revoked.ID, "key_01J9ZW3M8Q4S5T6V7W8X9YZABC", "key_", "", "\x00"} {
		_, _, rolling := apikey.Roll(ctx, k.db, k.caller(), gone, 0)
		for verb, err := range map[string]error{
			"roll": rolling, "delete": apikey.Delete(ctx, k.db, k.caller(), gone),
			"revoke": org.RevokeKey(ctx, k.db, actor, k.org, gone),
		} {
			if !fault.HasCode(err, fault.CodeNotFound) {
				t.Errorf("%s %q: got %v, want %v", verb, gone, err, fault.CodeNotFound)
			}
		}
	}
	if err := apikey.Delete(ctx, k.db, k.caller(), apikey.MainID); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("the main key: got %v, want %v", err, fault.InvalidState)
	}
	// A key of another organization is not found.
	other, main, err := org.Create(ctx, k.db, "Other")
	if err != nil {
		t.Fatal(err)
	}
	mine, value := k.create(identity.ScopeRead)
	stranger := (&keyring{t, k.db, other.ID, main}).caller()
	allowKeys(t, k.db, other.ID, true)
	if err := apikey.Delete(ctx, k.db, stranger, mine.ID); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("another organization deletes: got %v, want %v", err, fault.CodeNotFound)
	}
	if _, _, err := apikey.Roll(ctx, k.db, stranger, mine.ID, 0); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("another organization rolls: got %v, want %v", err, fault.CodeNotFound)
	}
	k.works("after another organization", value, mine.ID)

	if err := org.RevokeKey(ctx, k.db, actor, k.org, apikey.MainID); err != nil {
		t.Fatal(err)
	}
	k.refused("the revoked main key", k.main)
	if err := org.RevokeKey(ctx, k.db, actor, k.org, apikey.MainID); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("twice: got %v, want %v", err, fault.InvalidState)
	}
	again, err := org.RollKey(ctx, k.db, actor, k.org)
	if err != nil {
		t.Fatal(err)
	}
	k.works("rolled after it was revoked", again, apikey.MainID)
}

// Rules KEY-5, KEY-6.
func TestRollsAndADeleteAtOnceAgree(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	for round := range 12 {
		made, value := k.create(identity.ScopeFull)
		actor := k.caller()
		overlap := 3600 * (round % 2)
		deletes := round%3 == 0
		var mu sync.Mutex
		var values []seal.Secret
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 6 {
			wg.Go(func() {
				<-start
				_, rolled, err := apikey.Roll(t.Context(), k.db, actor, made.ID, overlap)
				switch {
				case err == nil:
					mu.Lock()
					values = append(values, rolled)
					mu.Unlock()
				case fault.HasCode(err, fault.InvalidState), deletes && fault.HasCode(err, fault.CodeNotFound):
				default:
					t.Errorf("roll: got %v", err)
				}
			})
		}
		if deletes {
			wg.Go(func() {
				<-start
				if err := apikey.Delete(t.Context(), k.db, actor, made.ID); err != nil {
					t.Errorf("delete: got %v", err)
				}
			})
		}
		close(start)
		wg.Wait()
		working := 0
		for _, v := range append(values, value) {
			if _, err := k.admit(v); err == nil {
				working++
			}
		}
		want := 1 + round%2 // the last value, and the first one in its overlap
		if deletes {
			want = 0
		} else if len(values) == 0 {
			t.Errorf("round %d: got no roll, want one at least", round)
		}
		if working != want {
			t.Errorf("round %d: got %d values that work after %d rolls, want %d", round, working, len(values), want)
		}
		if !deletes {
			if err := apikey.Delete(t.Context(), k.db, actor, made.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Two rolls that read the same value: a lock on the row is held until both wait for it. Rule KEY-5.
func TestOfTwoRollsThatSawTheSameValueOneIsDone(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	made, _ := k.create(identity.ScopeRead)
	owner := pgtest.OwnerPool(t, k.db)
	for _, keyID := range []string{made.ID, apikey.MainID} {
		actor := k.caller()
		held, err := owner.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, lock := range []string{`SELECT FROM additional_api_keys FOR UPDATE`, `SELECT FROM api_keys FOR UPDATE`} {
			if _, err := held.Exec(t.Context(), lock); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		var done, refused atomic.Int64
		for range 2 {
			wg.Go(func() {
				_, value, err := apikey.Roll(t.Context(), k.db, actor, keyID, 0)
				switch {
				case err == nil:
					done.Add(1)
					if keyID == apikey.MainID {
						k.main = value
					}
				case fault.HasCode(err, fault.InvalidState):
					refused.Add(1)
				default:
					t.Errorf("%s: got %v", keyID, err)
				}
			})
		}
		// On another connection, because a transaction caches the sessions that it first saw.
		for waiting := 0; waiting < 2; {
			err := owner.QueryRow(
				t.Context(),
				`SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`,
			).Scan(&waiting)
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := held.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if done.Load() != 1 || refused.Load() != 1 {
			t.Errorf("%s: got %d rolls and %d refusals, want one of each", keyID, done.Load(), refused.Load())
		}
	}
}

// Rule KEY-7.
func TestAnOrganizationHasABoundedNumberOfKeys(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	actor := k.caller()
	var made, refused atomic.Int64
	var wg sync.WaitGroup
	for range apikey.AdditionalMax + 10 {
		wg.Go(func() {
			_, _, err := apikey.Create(t.Context(), k.db, actor, apikey.NewKey{Name: "n", Scope: identity.ScopeRead})
			switch {
			case err == nil:
				made.Add(1)
			case fault.HasCode(err, fault.InvalidState):
				refused.Add(1)
			default:
				t.Errorf("got %v, want a key or %v", err, fault.InvalidState)
			}
		})
	}
	wg.Wait()
	if made.Load() != apikey.AdditionalMax || refused.Load() != 10 {
		t.Errorf("got %d keys and %d refusals, want %d and 10", made.Load(), refused.Load(), apikey.AdditionalMax)
	}
	// A roll adds no key, and a deleted or expired key makes room.
	all := slices.DeleteFunc(k.list(), apikey.Key.IsMain)
	if _, _, err := apikey.Roll(t.Context(), k.db, actor, all[0].ID, 3600); err != nil {
		t.Errorf("roll at the limit: got %v", err)
	}
	if err := apikey.Delete(t.Context(), k.db, actor, all[0].ID); err != nil {
		t.Fatal(err)
	}
	k.create(identity.ScopeRead)
	k.exec(`ALTER TABLE additional_api_keys DISABLE TRIGGER additional_api_keys_keep`)
	k.exec(`UPDATE additional_api_keys SET expires_at = now() WHERE key_id = $1`, all[1].ID)
	k.create(identity.ScopeRead)
	if _, _, err := apikey.Create(
		t.Context(), k.db, actor, apikey.NewKey{Name: "n", Scope: identity.ScopeRead},
	); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("one more: got %v, want %v", err, fault.InvalidState)
	}
}

// A leaked main key is rolled: a request that its holder began before creates no key after the
// roll. Rule KEY-3.
func TestAValueThatWasRolledManagesNoKeys(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	leaked := k.caller()
	kept, _ := k.create(identity.ScopeRead)
	var rolled atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !rolled.Load() {
				made, _, err := apikey.Create(
					t.Context(), k.db, leaked, apikey.NewKey{Name: "n", Scope: identity.ScopeFull},
				)
				if err != nil {
					if !fault.HasCode(err, fault.CodeUnauthorized) {
						t.Errorf("got %v, want a key or %v", err, fault.CodeUnauthorized)
					}
					return
				}
				if err := apikey.Delete(t.Context(), k.db, leaked, made.ID); err != nil &&
					!fault.HasCode(err, fault.CodeUnauthorized) {
					t.Errorf("delete: got %v", err)
				}
			}
		})
	}
	value, err := org.RollKey(t.Context(), k.db, audit.Operator("op"), k.org)
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(k.list())
	rolled.Store(true)
	wg.Wait()
	if after := fmt.Sprint(k.list()); after != before {
		t.Errorf("after the roll: got %v, want %v", after, before)
	}
	k.main = value
	_, _, creating := apikey.Create(t.Context(), k.db, leaked, apikey.NewKey{Name: "n", Scope: identity.ScopeFull})
	_, _, rolling := apikey.Roll(t.Context(), k.db, leaked, kept.ID, 0)
	for verb, err := range map[string]error{
		"create": creating, "roll": rolling, "delete": apikey.Delete(t.Context(), k.db, leaked, kept.ID),
	} {
		if !fault.HasCode(err, fault.CodeUnauthorized) {
			t.Errorf("%s: got %v, want %v", verb, err, fault.CodeUnauthorized)
		}
	}
	if _, _, err := apikey.Roll(
		t.Context(), k.db, leaked, apikey.MainID, 0,
	); !fault.HasCode(err, fault.CodeUnauthorized) {
		t.Errorf("roll of the main key: got %v, want %v", err, fault.CodeUnauthorized)
	}
}

// Rule KEY-8.
func TestTheLastUseIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	made, value := k.create(identity.ScopeRead)
	door := apikey.NewAuthenticator(k.db)
	use := func() {
		c, err := door.Authenticate(t.Context(), value.Reveal(), netip.Addr{})
		if err == nil {
			err = door.RecordUse(t.Context(), c)
		}
		if err != nil {
			t.Error(err)
		}
	}
	row := func() (version string) {
		t.Helper()
		if err := pgtest.OwnerPool(t, k.db).QueryRow(
			t.Context(), `SELECT coalesce(string_agg(xmin::text || last_used_at::text, ' '), '') FROM api_key_uses`,
		).Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	if got := row(); got != "" {
		t.Fatalf("before: got %v, want no use", got)
	}
	use()
	first := row()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(use)
	}
	wg.Wait()
	if got := row(); first == "" || got != first {
		t.Errorf("within a minute: got %v, want %v", got, first)
	}
	k.exec(`UPDATE api_key_uses SET last_used_at = now() - interval '61 seconds'`)
	before := row()
	use()
	if got := row(); got == before {
		t.Error("after a minute: got no write, want one")
	}
	for _, key := range k.list() {
		if used := key.LastUsedAt != nil; used != (key.ID == made.ID) {
			t.Errorf("%s: got used %v", key.ID, used)
		}
	}
	_, second, err := apikey.Roll(t.Context(), k.db, k.caller(), made.ID, 3600)
	if err != nil {
		t.Fatal(err)
	}
	value = second
	for _, key := range k.list() {
		if key.ID == made.ID && (key.LastUsedAt != nil || key.FormerLastUsedAt == nil) {
			t.Errorf("rolled: got %+v, want the use of the former value alone", key)
		}
	}
}

// Rules KEY-5, KEY-6, KEY-7.
func TestTheDatabaseKeepsKeysAsTheyWereMade(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	made, _ := k.create(identity.ScopeRead)
	if _, _, err := apikey.Roll(t.Context(), k.db, k.caller(), made.ID, 3600); err != nil {
		t.Fatal(err)
	}
	_, main, err := apikey.Roll(t.Context(), k.db, k.caller(), apikey.MainID, 3600)
	if err != nil {
		t.Fatal(err)
	}
	k.main = main
	insert := `INSERT INTO additional_api_keys (key_id, org_id, name, scope, hash, expires_at) SELECT 'key_' || n, org_id, 'n', 'READ', sha256(n::text::bytea), NULL::timestamptz FROM organizations, `
	for name, c := range map[string]struct{ sql, constraint string }{
		"a wider scope": {`UPDATE additional_api_keys SET scope = 'FULL'`, "additional_api_keys_fixed"},
		"no expiry": {
			`UPDATE additional_api_keys SET expires_at = now() + interval '1 year'`, "additional_api_keys_fixed",
		},
		"a value without a roll": {
			`UPDATE additional_api_keys SET hash = sha256('x')`, "additional_api_keys_fixed",
		},
		"a stranger's former value": {
			`UPDATE additional_api_keys SET hash = sha256('x'), rolls = rolls + 1, former_hash = sha256('y')`,
			"additional_api_keys_fixed",
		},
		"a longer overlap": {
			`UPDATE additional_api_keys SET former_ends_at = former_ends_at + interval '1 second'`,
			"additional_api_keys_fixed",
		},
		"an overlap of two days": {
			`UPDATE additional_api_keys SET hash = sha256('x'), rolls = rolls + 1, former_hash = hash, former_ends_at = now() + interval '2 days'`,
			"additional_api_keys_fixed",
		},
		"a deleted key": {
			`UPDATE additional_api_keys SET deleted_at = now(); UPDATE additional_api_keys SET deleted_at = NULL`,
			"additional_api_keys_fixed",
		},
		"no scope": {
			insert + `generate_series(1, 1) n; UPDATE additional_api_keys SET scope = 'ALL'`,
			"additional_api_keys_fixed",
		},
		"many at once": {insert + `generate_series(1, 20) n`, "additional_api_keys_most"},
		"one that is over": {
			`INSERT INTO additional_api_keys (key_id, org_id, name, scope, hash, expires_at) SELECT 'key_1', org_id, 'n', 'READ', sha256('x'), now() FROM organizations`,
			"additional_api_keys_ahead",
		},
		"two present main keys": {
			`INSERT INTO api_keys (org_id, hash, created_at) SELECT org_id, sha256('x'), now() FROM organizations`,
			"api_keys_one_live",
		},
		"two former main keys": {
			`UPDATE api_keys SET rolled_at = now(), ends_at = now() + interval '1 hour' WHERE rolled_at IS NULL`,
			"api_keys_one_former",
		},
		"a longer overlap, main": {
			`UPDATE api_keys SET ends_at = ends_at + interval '1 second' WHERE ends_at IS NOT NULL`, "api_keys_fixed",
		},
		"an overlap of two days,main": {
			`UPDATE api_keys SET ends_at = NULL; UPDATE api_keys SET rolled_at = now(), ends_at = now() + interval '2 days' WHERE rolled_at IS NULL`,
			"api_keys_fixed",
		},
		"an end without a roll": {
			`UPDATE api_keys SET ends_at = NULL; UPDATE api_keys SET ends_at = now() WHERE rolled_at IS NULL`,
			"api_keys_ends_when_rolled",
		},
	} {
		if _, err := pgtest.OwnerPool(t, k.db).Exec(t.Context(), c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %v", name, err, c.constraint)
		}
	}
	// The role of an organization's requests writes nothing of the main key.
	err = k.db.InOrg(t.Context(), k.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE api_keys SET rolled_at = now()`)
		return err
	})
	if err == nil {
		t.Error("the role of an organization rolled the main key")
	}
}

// Rule KEY-9.
func TestEveryChangeOfAKeyIsAudited(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	made, _ := k.create(identity.ScopeNoMoneyOut)
	if _, _, err := apikey.Roll(t.Context(), k.db, k.caller(), made.ID, 60); err != nil {
		t.Fatal(err)
	}
	if err := apikey.Delete(t.Context(), k.db, k.caller(), made.ID); err != nil {
		t.Fatal(err)
	}
	revoked, value := k.create(identity.ScopeRead)
	if c, err := k.admit(value); err != nil || c.Actor() != audit.AdditionalAPIKey(revoked.ID) {
		t.Errorf("got %v %v, want the key as actor", c.Actor(), err)
	}
	if err := org.RevokeKey(t.Context(), k.db, audit.Operator("op"), k.org, revoked.ID); err != nil {
		t.Fatal(err)
	}
	var got string
	err := pgtest.OwnerPool(t, k.db).QueryRow(t.Context(), `
		SELECT string_agg(action || ' ' || actor_kind || ' ' || actor_id || ' ' || (detail - 'expiresAt')::text, E'\n' ORDER BY audit_id)
		FROM audit_log WHERE resource_kind = 'API_KEY' AND org_id = $1`, k.org).Scan(&got)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`api_key.created API_KEY ORG {"name": "reporting", "scope": "NO_MONEY_OUT"}
api_key.rolled API_KEY ORG {"overlapSeconds": 60}
api_key.deleted API_KEY ORG {"name": "reporting"}
api_key.created API_KEY ORG {"name": "reporting", "scope": "READ"}
api_key.revoked OPERATOR op {"name": "reporting"}`, "ORG", k.org)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
