package freeze_test

import (
	"context"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func activeScope(t *testing.T, db *pg.DB, of freeze.Target) (got string) {
	t.Helper()
	err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Active(ctx, tx, of)
		if err == nil && f != nil {
			got = string(f.Scope)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAFreezeStopsWhatItNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	mine := freeze.Target{OrgID: o.ID, CustomerID: "ann", Chain: chain.Ethereum, WalletID: "we_1"}
	for name, c := range map[string]struct {
		freeze freeze.Freeze
		frees  []freeze.Target
	}{
		"all": {freeze.Freeze{Scope: freeze.ScopeAll, Source: freeze.SourceVerify}, nil},
		"chain": {
			freeze.Freeze{Scope: freeze.ScopeChain, Chain: chain.Ethereum, Source: freeze.SourceFinality},
			[]freeze.Target{{Chain: chain.Base}, {OrgID: o.ID}},
		},
		"organization": {
			freeze.Freeze{Scope: freeze.ScopeOrganization, OrgID: o.ID, Source: freeze.SourceOperator},
			[]freeze.Target{{OrgID: "org_b", CustomerID: "ann"}, {Chain: chain.Ethereum}},
		},
		"customer": {freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: o.ID, CustomerID: "ann",
			Source: freeze.SourceOrganization,
		}, []freeze.Target{
			{OrgID: o.ID, CustomerID: "bob"}, {OrgID: "org_b", CustomerID: "ann"}, {OrgID: o.ID},
		}},
		"wallet": {freeze.Freeze{
			Scope: freeze.ScopeWallet, WalletID: "we_1", Chain: chain.Ethereum,
			Source: freeze.SourceDispatch,
		}, []freeze.Target{
			{WalletID: "we_2", Chain: chain.Ethereum}, {WalletID: "we_1", Chain: chain.Base},
		}},
	} {
		c.freeze.Reason = "because of " + name
		c.freeze.Actor = audit.Operator("op")
		put := func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, c.freeze) }
		var wg sync.WaitGroup
		for range 4 { // at the same time, and there is still one freeze
			wg.Go(func() {
				if err := db.InSystem(ctx, put); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := activeScope(t, db, mine); got != string(c.freeze.Scope) {
			t.Errorf("%s: got %q, want %q", name, got, c.freeze.Scope)
		}
		for _, of := range c.frees {
			if got := activeScope(t, db, of); got != "" {
				t.Errorf("%s: %+v is stopped by %q, want it free", name, of, got)
			}
		}
		err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			all, err := freeze.List(ctx, tx)
			if err != nil {
				return err
			}
			if len(all) != 1 || all[0].Reason != c.freeze.Reason {
				t.Fatalf("%s: got %+v, want one freeze", name, all)
			}
			if err := freeze.Lift(ctx, tx, all[0].ID, audit.Operator("op")); err != nil {
				return err
			}
			if err := freeze.Lift(ctx, tx, all[0].ID, audit.Operator("op")); !fault.HasCode(err, fault.InvalidState) {
				t.Errorf("%s: got %v, want %v", name, err, fault.InvalidState)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := activeScope(t, db, mine); got != "" {
			t.Errorf("%s after it was lifted: got %q, want it free", name, got)
		}
	}
}

func TestLiftingOneSourceLeavesTheOthers(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, source := range []freeze.Source{freeze.SourceVerify, freeze.SourceOperator} {
			if err := freeze.Create(
				ctx, tx,
				freeze.Freeze{Scope: freeze.ScopeAll, Source: source, Reason: "test", Actor: audit.Operator("op")},
			); err != nil {
				return err
			}
		}
		all, err := freeze.List(ctx, tx)
		if err != nil {
			return err
		}
		if len(all) != 2 {
			t.Fatalf("got %d freezes, want 2", len(all))
		}
		if err := freeze.Lift(ctx, tx, "frz_none", audit.Operator("op")); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("got %v, want %v", err, fault.CodeNotFound)
		}
		return freeze.Lift(ctx, tx, all[0].ID, audit.Operator("op"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := activeScope(t, db, freeze.Target{}); got != "ALL" {
		t.Errorf("got %q, want ALL", got)
	}
}

func TestAnOrganizationFreezesOnlyItself(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []freeze.Freeze{{Scope: freeze.ScopeAll}, {Scope: freeze.ScopeChain, Chain: chain.Ethereum}} {
		f.Source, f.Reason, f.Actor = freeze.SourceOrganization, "test", audit.APIKey(o.ID)
		err := db.InOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) })
		if err == nil {
			t.Errorf("%s: an organization froze everybody", f.Scope)
		}
	}
}

func TestAnOrganizationSeesItsOwnFreezesAndThoseOfEverybody(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	var orgs [2]string
	for i := range orgs {
		o, _, err := org.Create(ctx, db, "Acme")
		if err != nil {
			t.Fatal(err)
		}
		orgs[i] = o.ID
	}
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, f := range []freeze.Freeze{
			{Scope: freeze.ScopeOrganization, OrgID: orgs[0], Reason: "own"},
			{Scope: freeze.ScopeCustomer, OrgID: orgs[1], CustomerID: "ann", Reason: "another's"},
			{Scope: freeze.ScopeChain, Chain: chain.Ethereum, Reason: "everybody's"},
		} {
			f.Source, f.Actor = freeze.SourceOperator, audit.Operator("op")
			if err := freeze.Create(ctx, tx, f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = db.ReadOrg(ctx, orgs[0], func(ctx context.Context, tx pg.Tx) error {
		found, err := freeze.List(ctx, tx)
		for _, f := range found {
			seen[f.Reason] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || !seen["own"] || !seen["everybody's"] {
		t.Errorf("got %v, want its own and everybody's", seen)
	}
}
