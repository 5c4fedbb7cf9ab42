package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/caller"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The triggers on a real chain: a payout that fails, a reorganization, and a provider that is down
// and returns; and the lists in which a person finds the results.
func TestTheTriggersCauseWhatTheySay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	dir := t.TempDir()
	w, err := localworld.Start(ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: dir, OutageProxies: true,
		BlockTime: 300 * time.Millisecond, Calm: true,
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
	coffer := func(want string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Run(ctx, args, &out, &errs); code != 0 || !strings.Contains(out.String(), want) {
			t.Fatalf("coffer %v: got %d %s%s, want %q", args, code, out.String(), errs.String(), want)
		}
		return out.String()
	}
	trigger := func(want string, args ...string) string {
		t.Helper()
		return coffer(want, append([]string{"local", "trigger"}, append(args, "--dir", dir)...)...)
	}
	list := func(want string, args ...string) string {
		t.Helper()
		return coffer(want, append(args, "--config", w.Info.Config)...)
	}
	api, err := client.New(w.Info.BaseURL, w.Info.APIKey)
	if err != nil {
		t.Fatal(err)
	}

	made := trigger(" is FAILED: REVERTED", "failed-payout", "--customer", "ann")
	// On a slow machine a payment may be in a block before its destination refuses. Then the trigger makes another one.
	want := fmt.Sprint(10_000_000_000_000_000 - 1_000_000_000_000_000*strings.Count(made, "another payment is made"))
	balances, err := api.ListCustomerBalances(ctx, "ann")
	if err != nil || len(balances.Data) != 1 || balances.Data[0].Available != want {
		t.Errorf("after a failed payout: got %+v %v, want %s: all of the deposit but what was paid", balances.Data, err,
			want)
	}
	list("FAILED: REVERTED", "withdrawals", "list", "--customer", "ann")
	list("There is no such withdrawal.", "withdrawals", "list", "--customer", "bob")
	// The service numbers an event a moment after it was written; until then no list has it.
	until(t, "the failed withdrawal is told", func() bool {
		return strings.Contains(list("", "events", "list"), "CUSTOMER_WITHDRAW_FAILED  0.001 ETH on ETHEREUM of ann")
	})
	list(`"type":"CUSTOMER_DEPOSIT"`, "events", "list", "--type", "customer_deposit", "--json")
	list("ann", "customers", "list")

	trigger(" is ORPHANED", "reorg", "--customer", "bob")
	list("ORPHANED", "deposits", "list", "--customer", "bob")
	if got := list("CREDITED", "deposits", "list"); !strings.Contains(got, "ORPHANED") {
		t.Errorf("deposits list: got %s, want both", got)
	}
	if got := list(
		"There are more than these 1", "deposits", "list", "--limit", "1",
	); strings.Contains(got, "CREDITED") {
		t.Errorf("deposits list --limit 1: got %s, want the newest alone", got)
	}
	list(`"status":"ORPHANED"`, "deposits", "list", "--status", "orphaned", "--json")

	trigger("does not answer until", "outage", "--for", "1h")
	calls := caller.Caller{
		T: t, Ctx: ctx, Key: w.Info.APIKey, Base: func() string { return w.Info.BaseURL },
		Log: func() string { return "" },
	}
	eth := w.Info.Mints[3]
	estimate := []byte(
		`{"mintId":4,"customerId":"ann","amount":"1000000000000000","toAddress":"0x00000000000000000000000000000000000c0ffe"}`,
	)
	for status := 0; status != http.StatusServiceUnavailable; {
		var answer map[string]any
		if status, err = calls.CallOnce(http.MethodPost, "/withdraw/estimate", estimate, &answer); err != nil {
			t.Fatal(err)
		}
		if status != http.StatusServiceUnavailable {
			calls.WaitRetry(nil)
		}
	}
	address, err := api.CreateDepositAddress(ctx, client.DepositRequest{MintID: eth.ID, CustomerID: "eve"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Info.SendFromFaucet(ctx, eth, common.HexToAddress(address.Address), big.NewInt(1e15)); err != nil {
		t.Fatal(err)
	}
	list("There is no such deposit.", "deposits", "list", "--customer", "eve")
	trigger("answers again", "outage", "--end")
	calls.WaitCredited("eve", false)
}
