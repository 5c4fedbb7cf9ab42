package org_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func TestSettingsAreKeptAndAudited(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	limit := money.MustParseUSD("10000.50")
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), o.ID, &limit); err != nil {
			return err
		}
		if err := org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), o.ID, nil); err != nil {
			return err
		}
		if err := org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), o.ID, &limit); err != nil {
			return err
		}
		return org.SetRequireWithdrawIdempotency(ctx, tx, audit.Operator("op"), o.ID, true)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
		s, err := org.SettingsOf(ctx, tx, o.ID)
		if err != nil {
			return err
		}
		if s.CustomerWithdrawUSDThreshold == nil || *s.CustomerWithdrawUSDThreshold != limit ||
			!s.RequireWithdrawIdempotency {
			t.Errorf("got %+v, want the threshold of 10000.50 and the idempotency", s)
		}
		rows, err := audit.List(ctx, tx, audit.Filter{Action: "settings.changed"}, pagination.Page{})
		if err != nil {
			return err
		}
		if len(rows.Items) != 4 || !strings.Contains(string(rows.Items[1].Detail), `"from": "10000.5"`) {
			t.Errorf("got %+v, want four rows, the second from 10000.5", rows.Items)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), "org_none", &limit)
	})
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("got %v, want %v", err, fault.CodeNotFound)
	}
}
