package cli_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// readPage returns a page of a payer.
func readPage(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %d, %v", address, got.StatusCode, err)
	}
	return string(body)
}

// Each scenario of a payer leads to what it says, on a real chain, and so does its button on the page. "late" waits for
// the end of a checkout, so it is not played here. Rule CO-124.
func TestAPayerPaysAsTheScenarioSays(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
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
	pressed := sell()
	page := w.Info.CheckoutURL + "/c/" + pressed
	if got := readPage(t, page); len(localworld.PayScenarios) < 10 {
		t.Errorf("got %d scenarios, want all", len(localworld.PayScenarios))
	} else {
		for _, s := range localworld.PayScenarios {
			if !strings.Contains(got, `name="case" value="`+s.Name+`"`) {
				t.Errorf("got a page without a button for %s", s.Name)
			}
		}
	}
	answer, err := http.PostForm(page+"/cases", url.Values{"mint": {"1"}, "case": {"over"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("got %d and %v for a button, want the page of the checkout", answer.StatusCode, err)
	}
	until(t, "a button plays a payer who pays too much", func() bool {
		c, err := api.GetCheckout(ctx, pressed)
		return err == nil && c.Status == "COMPLETED" && c.Exception == "OVERPAID"
	})
	if c, err := api.GetCheckout(ctx, checkoutID); err != nil || len(c.Payments) != 0 {
		t.Errorf("got %d payments and %v after refusals, want none", len(c.Payments), err)
	}
}
