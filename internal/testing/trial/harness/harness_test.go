package harness

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/service/servicetest"
)

// The trials take the steps of the service one by one. A step that they take and the service does
// not would be proven and never run, as the consolidation of UTXOs once was. The service is that of
// the local world, with real nodes.
func TestTheServiceTakesEveryStepOnEveryChain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	w, err := localworld.Start(ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), Chains: localworld.AllChains, WithoutService: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	conf, err := app.ReadConfig(w.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	loops := a.LoopNames()
	for _, ch := range a.Chains {
		for _, missing := range servicetest.MissingLoops(ch, loops) {
			t.Errorf("%s; it runs %q", missing, loops)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	families := map[chain.Family]bool{}
	for name := range conf.Chains {
		families[name.Family()] = true
		for _, step := range new(Harness).ListSteps(nil) {
			if !slices.Contains(loops, step.Loop) && !slices.Contains(loops, step.Loop+" "+string(name)) {
				t.Errorf(
					"%s: the trials take the step %q, and no loop %q of the service does: wire it in "+
						"internal/service; it runs %q",
					name, step.Name, step.Loop, loops,
				)
			}
		}
	}
	if len(families) != 3 {
		t.Errorf("got the families %v, want all three", families)
	}
}
