package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The running service folds a difference that a posting left.
func TestTheServiceFoldsTheTotals(t *testing.T) {
	t.Parallel()
	conf, d := onThisMachine(t, anviltest.Start(t, anvil.Config{BlockTime: 100 * time.Millisecond, SlotsInEpoch: 1})),
		pgtest.NewDatabase(t)
	conf.Database.URL = d.URL
	a, err := New(t.Context(), conf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := org.Create(t.Context(), a.DB(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(
		t.Context(), `INSERT INTO organization_total_changes (org_id, mint_id, available) VALUES ($1, 1, 5)`, made.ID,
	); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	pgtest.Eventually(t, func() bool {
		var total string
		err := conn.QueryRow(t.Context(), `
			SELECT coalesce((SELECT available FROM organization_totals WHERE org_id = $1), 0) || ' and ' || (SELECT count(*) FROM organization_total_changes)`,
			made.ID).Scan(&total)
		if err != nil {
			t.Fatal(err)
		}
		return total == "5 and 0"
	}, "the difference is folded")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
