package cli_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/report"
)

// The printed address is the one with the operator's coins. Printing it does not create a treasury
// for an organization that has none.
func TestWalletsSayWhereGasGoes(t *testing.T) {
	t.Parallel()
	w, err := localworld.Start(t.Context(), localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), BlockTime: 300 * time.Millisecond, Calm: true,
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
	coffer := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), append(args, "--config", w.Info.Config), &out, &errs); code != 0 {
			t.Fatalf("coffer %v: got %d %s", args, code, errs.String())
		}
		return out.String()
	}
	coffer("org", "create", "Second")
	said := coffer("wallets")
	m := regexp.MustCompile(w.Info.OrganizationID + `  .*\n  ETHEREUM +(0x[0-9a-fA-F]{40})  gas [0-9.]+ ETH`).
		FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("got %q, want the treasury of %s", said, w.Info.OrganizationID)
	}
	aQuarantine(t, coffer, w.Info.Config)
	eth, err := ethclient.DialContext(t.Context(), w.Info.Chains["ETHEREUM"].RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	defer eth.Close()
	if has, err := eth.BalanceAt(t.Context(), common.HexToAddress(m[1]), nil); err != nil || has.Sign() == 0 {
		t.Errorf("%s: got %v and %v on the chain, want coins", m[1], has, err)
	}
	for range 2 {
		if said = coffer("wallets"); strings.Count(said, "  Second\n  ETHEREUM   no treasury yet") != 1 {
			t.Errorf("got %q, want the second organization without a treasury", said)
		}
	}
}

// Payments that share a transaction share its fee.
func TestCoinIsAskedForByTransactions(t *testing.T) {
	t.Parallel()
	const most = 200_000 // of a transaction, on a chain without gas
	cost := func(gas uint64) (money.Amount, error) { return money.Units(gas), nil }
	flat := func(uint64) (money.Amount, error) { return money.Units(most), nil }
	for name, c := range map[string]struct {
		cost       func(uint64) (money.Amount, error)
		on         chain.Name
		work       report.GasDemand
		have, want uint64
	}{
		"nothing waits": {flat, chain.Bitcoin, report.GasDemand{}, 0, most},
		"one payment":   {flat, chain.Bitcoin, report.GasDemand{Payments: 1}, 0, most},
		"as many as go together": {
			flat, chain.Bitcoin, report.GasDemand{Payments: dispatch.OrdersPerTxMax(chain.Bitcoin)}, 0, most,
		},
		"one more": {
			flat, chain.Bitcoin, report.GasDemand{Payments: dispatch.OrdersPerTxMax(chain.Bitcoin) + 1}, 0, 2 * most,
		},
		"what is there already": {
			flat, chain.Bitcoin, report.GasDemand{Payments: 130}, 150_000, 2*most - 150_000,
		},
		"more than enough is there": {flat, chain.Bitcoin, report.GasDemand{Payments: 130}, 3 * most, 0},
		"nothing is swept": {
			flat, chain.Bitcoin, report.GasDemand{Payments: 2, Sweeps: 2}, 0, most,
		},
		"each alone, on a chain of accounts": {cost, chain.Ethereum, report.GasDemand{Payments: 24}, 0, 24 * 100_000},
		"their sweeps, on a chain of accounts": {
			cost, chain.Ethereum, report.GasDemand{Payments: 2, Sweeps: 2}, 0, 2*100_000 + 2*171_000,
		},
	} {
		c.work.OrgID, c.work.Chain = "org_1", c.on
		got, err := cli.GasWanted(c.cost, "org_1", c.on, []report.GasDemand{c.work}, money.Units(c.have))
		if err != nil || got != money.Units(c.want) {
			t.Errorf("%s: got %v and %v, want %d", name, got, err, c.want)
		}
	}
}

// aQuarantine begins and ends one as an operator does.
func aQuarantine(t *testing.T, coffer func(args ...string) string, config string) {
	t.Helper()
	if said := coffer("mints"); !strings.Contains(said, "ETH on ETHEREUM") || strings.Contains(said, "quarantine") {
		t.Errorf("got %q, want the mints and none under quarantine", said)
	}
	for _, try := range []struct {
		verb, want string
		code       int
	}{
		{"quarantine", "is quarantined", 0},
		{"quarantine", "already", 1},
		{"release", "is released", 0},
		{"release", "is not quarantined", 1},
	} {
		var out, errs bytes.Buffer
		code := cli.Run(
			t.Context(), []string{"mints", try.verb, "2", "--because", "its events lie", "--config", config}, &out,
			&errs,
		)
		if said := out.String() + errs.String(); code != try.code || !strings.Contains(said, try.want) {
			t.Errorf("mints %s: got %d %q, want %d and %q", try.verb, code, said, try.code, try.want)
		}
		if said := coffer("mints"); strings.Contains(said, "its events lie") != (try.verb == "quarantine") {
			t.Errorf("after mints %s: got %q", try.verb, said)
		}
	}
}
