package verify_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/verify"
)

func TestAnAlteredOrSwappedAddressIsFoundWithoutBeingUsed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for i := range 3 {
		s.address(fmt.Sprint("customer ", i))
	}
	owner := pgtest.OwnerPool(t, s.db)
	for name, c := range map[string]struct {
		do, undo string
		want     int
	}{
		"untouched": {`SELECT 1`, `SELECT 1`, 0},
		"one character": {
			`UPDATE wallets SET address = overlay(address placing 'x' from 5 for 1) WHERE subject = 'customer 1'`,
			`UPDATE wallets SET address = kept.address FROM kept WHERE kept.wallet_id = wallets.wallet_id`, 1,
		},
		"two swapped": {
			`UPDATE wallets w SET address = 'later ' || subject WHERE subject <> 'customer 0';
			 UPDATE wallets w SET address = k.address FROM kept k
			 WHERE (w.subject, k.subject) IN (('customer 1', 'customer 2'), ('customer 2', 'customer 1'))`,
			`UPDATE wallets SET address = wallet_id; UPDATE wallets SET address = kept.address FROM kept WHERE kept.wallet_id = wallets.wallet_id`, 2,
		},
		"a byte of a proof": {
			`UPDATE wallets SET proof = set_byte(proof, 3, 255 - get_byte(proof, 3)) WHERE subject = 'customer 2'`,
			`UPDATE wallets SET proof = kept.proof FROM kept WHERE kept.wallet_id = wallets.wallet_id`, 1,
		},
		"another customer": {
			`UPDATE wallets SET subject = 'mallory' WHERE subject = 'customer 0'`,
			`UPDATE wallets SET subject = 'customer 0' WHERE subject = 'mallory'`, 1,
		},
	} {
		for _, sql := range []string{`CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM wallets`, c.do} {
			if _, err := owner.Exec(s.ctx, sql); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		r, err := verify.CheckAddressesAndFreeze(s.ctx, s.db, s.book, slog.New(slog.DiscardHandler))
		s.must(err)
		if len(r.Breaches) != c.want || r.Outcomes[0].Breaches != c.want {
			t.Errorf("%s: got %+v, want %d breaches", name, r.Breaches, c.want)
		}
		var stopped []freeze.Freeze
		s.must(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			if stopped, err = freeze.List(ctx, tx); err != nil {
				return err
			}
			for _, f := range stopped {
				if _, err := freeze.LiftByOperator(ctx, tx, f.ID, audit.Operator("the test")); err != nil {
					return err
				}
			}
			return nil
		}))
		if all := len(stopped) == 1 && stopped[0].Scope == freeze.ScopeAll; all != (c.want > 0) {
			t.Errorf("%s: got %+v, want everything stopped: %v", name, stopped, c.want > 0)
		}
		if _, err := owner.Exec(s.ctx, c.undo); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
