package member_test

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Rules WD-56, DEP-55, OW-7.
func TestOnlyOwnersAdminsAndApproversApprove(t *testing.T) {
	t.Parallel()
	for role, want := range map[identity.Role]bool{
		identity.Owner: true, identity.Admin: true, identity.Approver: true,
		identity.Finance: false, identity.Developer: false, identity.Viewer: false, "": false,
	} {
		if got := (member.Member{Roles: []identity.Role{role}}).IsAllowed(identity.DecideWithdrawal); got != want {
			t.Errorf("%s: got %v, want %v", role, got, want)
		}
	}
	for role, want := range map[identity.Role]bool{
		identity.Owner: true, identity.Admin: true, identity.Finance: true,
		identity.Approver: false, identity.Developer: false, identity.Viewer: false, "": false,
	} {
		if got := (member.Member{Roles: []identity.Role{role}}).IsAllowed(identity.WithdrawOwnMoney); got != want {
			t.Errorf("%s asks for the organization's money: got %v, want %v", role, got, want)
		}
	}
	if (member.Member{Roles: []identity.Role{identity.Owner}}).IsAllowed(identity.RequestWithdrawal) {
		t.Error("an owner may do what only an API key does")
	}
}

func TestAPersonBelongsToOneOrganization(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	a, _, err := org.Create(ctx, db, "A")
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := org.Create(ctx, db, "B")
	if err != nil {
		t.Fatal(err)
	}
	add := func(org, email string, roles ...identity.Role) error {
		return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := member.Add(ctx, tx, audit.Operator("op"), org, email, "Ann", roles...)
			return err
		})
	}
	if err := add(a.ID, "Ann@Example.com", identity.Owner, identity.Approver); err != nil {
		t.Fatal(err)
	}
	for _, email := range []string{"\uff41nn@example.com", "ann\u200d@example.com", "\u0130nn@example.com"} {
		if err := add(b.ID, email, identity.Owner); !fault.HasCode(err, fault.InvalidRequest) {
			t.Errorf("%+q: got %v, want %v", email, err, fault.InvalidRequest)
		}
		err := db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := member.ByEmail(ctx, tx, email)
			return err
		})
		if !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("looking for %+q: got %v, want %v", email, err, fault.CodeNotFound)
		}
	}
	if err := add(b.ID, "bob@example.com", identity.Viewer); err != nil {
		t.Fatal(err)
	}
	if err := add(a.ID, "ANN@example.com", identity.Viewer); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v, want %v", err, fault.InvalidState)
	}
	for _, roles := range [][]identity.Role{nil, {"KING"}} {
		if err := add(a.ID, "carl@example.com", roles...); !fault.HasCode(err, fault.InvalidRequest) {
			t.Errorf("%v: got %v, want %v", roles, err, fault.InvalidRequest)
		}
	}
	if err := add(a.ID, "carl", identity.Viewer); !fault.HasCode(err, fault.InvalidRequest) {
		t.Errorf("got %v, want %v", err, fault.InvalidRequest)
	}
	err = db.ReadOrg(ctx, a.ID, func(ctx context.Context, tx pg.Tx) error {
		p, err := member.ByEmail(ctx, tx, "aNN@example.com")
		if err != nil {
			return err
		}
		if p.OrgID != a.ID || !p.IsAllowed(identity.DecideWithdrawal) || len(p.Roles) != 2 {
			t.Errorf("got %+v, want the owner and approver of A", p)
		}
		if _, err := member.ByEmail(ctx, tx, "bob@example.com"); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("got %v, want %v", err, fault.CodeNotFound)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
