package apikey_test

import (
	"context"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

func (k *keyring) member(email string, roles ...identity.Role) member.Member {
	k.t.Helper()
	var m member.Member
	err := k.db.InSystem(k.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		m, err = member.Add(ctx, tx, audit.System("test"), k.org, email, "Ada", roles...)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return m
}

// A member with the right makes, rolls and deletes keys, and no other member does. The right is looked at again
// in the transaction. Rule PAGE-20.
func TestAMemberManagesKeys(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, true)
	admin, dev := k.member("admin@example.com", identity.Admin), k.member("dev@example.com", identity.Developer)
	wanted := apikey.NewKey{Name: "reporting", Scope: identity.ScopeRead, FormID: "frm_1"}
	_, _, err := apikey.Create(t.Context(), k.db, apikey.ForMember(dev), wanted)
	if !fault.HasCode(err, fault.ScopeMissing) {
		t.Errorf("a developer makes a key: got %v, want %s", err, fault.ScopeMissing)
	}
	made, _, err := apikey.Create(t.Context(), k.db, apikey.ForMember(admin), wanted)
	if err != nil {
		t.Fatal(err)
	}
	// The same form makes no second key. Rule PAGE-21.
	_, _, err = apikey.Create(t.Context(), k.db, apikey.ForMember(admin), wanted)
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("the form again: got %v, want %s", err, fault.InvalidState)
	}
	if got := len(k.list()); got != 2 {
		t.Errorf("got %d keys, want the main one and one more", got)
	}
	rolled, value, err := apikey.RollAsSeen(t.Context(), k.db, apikey.ForMember(admin), apikey.MainID, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.refused("the old value of the main key", k.main)
	if _, err := k.admit(value); err != nil {
		t.Errorf("the new value: got %v", err)
	}
	for name, keyID := range map[string]string{"the main key": apikey.MainID, "a further key": made.ID} {
		seen := rolled.RolledAt
		if keyID == made.ID {
			seen = nil
		}
		if _, _, err := apikey.RollAsSeen(
			t.Context(), k.db, apikey.ForMember(dev), keyID, 0, seen,
		); !fault.HasCode(err, fault.ScopeMissing) {
			t.Errorf("%s: a developer: got %v, want %s", name, err, fault.ScopeMissing)
		}
		// Two at once, with pages of the same moment, roll it once.
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, _, errs[i] = apikey.RollAsSeen(t.Context(), k.db, apikey.ForMember(admin), keyID, 0, seen)
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("%s: got %v and %v, want one roll and one refusal", name, errs[0], errs[1])
		}
	}
	k.exec(`UPDATE people SET roles = '{VIEWER}'`)
	err = apikey.Delete(t.Context(), k.db, apikey.ForMember(admin), made.ID)
	if !fault.HasCode(err, fault.ScopeMissing) {
		t.Errorf("without the right any more: got %v, want %s", err, fault.ScopeMissing)
	}
	k.exec(`UPDATE people SET roles = '{ADMIN}'`)
	if err := apikey.Delete(t.Context(), k.db, apikey.ForMember(admin), made.ID); err != nil {
		t.Error(err)
	}
	if apikey.ForMember(admin).IsAllowed(identity.RequestWithdrawal) ||
		apikey.ForMember(dev).IsAllowed(identity.ManageKeys) {
		t.Error("a member may do with keys what only a key or a manager does")
	}
}
