package cli_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
)

// The whole story, from the first address to the last check, on a real chain
// with a block a second.
func TestTheTourHolds(t *testing.T) {
	t.Parallel()
	w, err := localworld.Start(t.Context(), localworld.Options{Dir: t.TempDir(), BlockTime: time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := cli.Tour(t.Context(), t.Output(), w.Info); err != nil {
		t.Error(err)
	}
}
