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

	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
)

// The address that is said is the one where the operator's coins are, and an
// organization that has no treasury yet is not given one by looking.
func TestWalletsSayWhereGasGoes(t *testing.T) {
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
	m := regexp.MustCompile(w.Info.OrganizationID + `  .*\n  ETHEREUM +(0x[0-9a-fA-F]{40})  gas [0-9.]+ ETH`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("got %q, want the treasury of %s", said, w.Info.OrganizationID)
	}
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
