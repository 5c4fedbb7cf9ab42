package cli_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Each scenario of a payer leads to what it says, on a real chain. "late" waits for the end of a checkout, so it is not
// played here.
func TestAPayerPaysAsTheScenarioSays(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir := t.TempDir()
	w, err := localworld.Start(ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: dir, BlockTime: 300 * time.Millisecond, Calm: true,
		WithoutSwaps: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := client.New(w.Info.BaseURL, w.Info.APIKey)
	if err != nil {
		t.Fatal(err)
	}
	const usdc, eth = 1, 4
	sell := func() string {
		t.Helper()
		c, err := api.CreateCheckout(ctx, client.CheckoutRequest{
			Name: "Gold plan", Price: "25", AcceptedMintIDs: []int{usdc, eth},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c.CheckoutID
	}
	pay := func(checkoutID, scenario string) (code int, out, errs string) {
		var output, problems bytes.Buffer
		code = cli.Run(ctx, []string{
			"local", "pay", checkoutID, "--scenario", scenario, "--mint", "1", "--dir", dir,
		}, &output, &problems)
		return code, output.String(), problems.String()
	}
	for scenario, want := range map[string]struct{ status, exception string }{
		"exact": {"COMPLETED", "NONE"}, "under": {"OPEN", "UNDERPAID"}, "over": {"COMPLETED", "OVERPAID"},
		"twice": {"COMPLETED", "OVERPAID"}, "wrong-token": {"OPEN", "WRONG_TOKEN"}, "below-minimum": {"OPEN", "NONE"},
		"flagged": {"OPEN", "FLAGGED"}, "reorged": {"OPEN", "NONE"},
	} {
		checkoutID := sell()
		code, out, errs := pay(checkoutID, scenario)
		if code != 0 || !strings.Contains(out, "The payer ") || !strings.Contains(out, checkoutID+" is ") {
			t.Errorf("%s: got %d %s%s, want what the payer did", scenario, code, out, errs)
			continue
		}
		until(t, scenario+" becomes "+want.status+" with "+want.exception, func() bool {
			c, err := api.GetCheckout(ctx, checkoutID)
			return err == nil && c.Status == want.status && c.Exception == want.exception
		})
	}
	checkoutID := sell()
	for scenario, want := range map[string]string{
		"other-network": "one EVM chain", "generous": "name one of exact",
	} {
		if code, out, errs := pay(checkoutID, scenario); code == 0 || !strings.Contains(errs, want) ||
			!strings.Contains(errs, "Nothing was sent") {
			t.Errorf("%s: got %d %s%s, want %q and that nothing was sent", scenario, code, out, errs, want)
		}
	}
	if c, err := api.GetCheckout(ctx, checkoutID); err != nil || len(c.Payments) != 0 {
		t.Errorf("got %d payments and %v after refusals, want none", len(c.Payments), err)
	}
}
