package cli_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// writeDualControlConfig writes a configuration with dual control beside that of a world, and
// returns its path.
func writeDualControlConfig(t *testing.T, config string) string {
	t.Helper()
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?m)^\[operator\]$`)
	if !section.Match(text) {
		t.Fatalf("%s has no section of the operator", config)
	}
	path := filepath.Join(filepath.Dir(config), "eyes.toml")
	text = section.ReplaceAll(text, []byte("[operator]\nfour_eyes = true"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The operator's commands, as a person types them, on a running world. Rule OP-9.
func TestTheOperatorsCommandsDoAsTheirScriptSays(t *testing.T) {
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
	list, err := filepath.Abs(filepath.Join("..", "risk", "ofac", "testdata", "sdn_advanced.xml"))
	if err != nil {
		t.Fatal(err)
	}
	eyes := writeDualControlConfig(t, w.Info.Config)
	id, frozen := regexp.MustCompile(`org_[0-9A-Z]{26}`), regexp.MustCompile(`frz_[0-9A-Z]{26}`)
	listed := regexp.MustCompile(`wla_[0-9A-Z]{26}`)
	// A group of its own, so that the world lives until the scripts have ended.
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata/world",
			Setup: func(e *testscript.Env) error {
				e.Setenv("COFFER_CONFIG", w.Info.Config)
				e.Setenv("LIST", list)
				e.Setenv("EYES", eyes)
				return nil
			},
			Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
				// second remembers the organization that was just created.
				"second": func(ts *testscript.TestScript, _ bool, _ []string) {
					ts.Setenv("SECOND", id.FindString(ts.ReadFile("stdout")))
				},
				// unlisted removes the address last reported from the whitelist.
				"unlisted": func(ts *testscript.TestScript, _ bool, _ []string) {
					ts.Check(ts.Exec("coffer", "whitelist", "remove", listed.FindString(ts.ReadFile("stdout")), "--org",
						ts.Getenv("SECOND")))
				},
				// lifted lifts the freeze last reported.
				"lifted": func(ts *testscript.TestScript, _ bool, _ []string) {
					ts.Check(ts.Exec("coffer", "freezes", "lift", frozen.FindString(ts.ReadFile("stdout"))))
				},
			},
		})
	})
	flaggedDeposits(t, w)
	anEmptyTreasury(t, w)
}

// anEmptyTreasury checks what the command says when an empty treasury has to pay: how much, of
// what, to which address and why.
func anEmptyTreasury(t *testing.T, w *localworld.World) {
	t.Helper()
	ask := func(base, header, key, method, path string, body, into any) int {
		t.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, key)
		r.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		if err := json.NewDecoder(got.Body).Decode(into); err != nil {
			t.Fatalf("%s %s: got %v and %v", method, path, got.StatusCode, err)
		}
		return got.StatusCode
	}
	var made struct{ OrganizationID, APIKey string }
	desk := w.Info.OperatorURL + "/v1"
	if got := ask(
		desk, "x-operator-key", w.Info.APIKey, "POST", "/organizations", map[string]string{"name": "Third"}, &made,
	); got != 401 {
		t.Errorf("an organization's key: got %v, want 401", got)
	}
	if got := ask(
		desk, "x-operator-key", w.Info.Operator.APIKey, "POST", "/organizations", map[string]string{"name": "Third"},
		&made,
	); got != 201 || made.APIKey == "" {
		t.Fatalf("got %v %+v, want an organization with its key", got, made)
	}
	call := func(method, path string, body, into any) int {
		t.Helper()
		return ask(w.Info.BaseURL, "x-api-key", made.APIKey, method, path, body, into)
	}
	var given struct{ Address string }
	call("POST", "/deposit", map[string]any{"mintId": 1, "customerId": "c"}, &given)
	if _, err := w.Info.SendFromFaucet(
		t.Context(), w.Info.Mints[0], common.HexToAddress(given.Address), big.NewInt(250_000_000),
	); err != nil {
		t.Fatal(err)
	}
	until(t, "the deposit is credited", func() bool {
		var b struct{ Data []struct{ Available string } }
		call("GET", "/customers/c/balances", nil, &b)
		return len(b.Data) == 1 && b.Data[0].Available == "250000000"
	})
	// The highest fee that the chain may have: a transaction promises the most that it may cost.
	eth, err := ethclient.DialContext(t.Context(), w.Info.Chains["ETHEREUM"].RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	defer eth.Close()
	// What is promised is twice the price of the last block, and at most the cap. At nine tenths of the cap
	// the promise stays the cap for some empty blocks, each of which lowers the price by an eighth. Otherwise
	// the command might ask for less than the payment needs when it is made.
	base := big.NewInt(450_000_000_000)
	dear := func() {
		t.Helper()
		if err := w.EthereumNode().SetNextBlockBaseFee(t.Context(), base); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the chain is dear", func() bool {
		dear()
		head, err := eth.HeaderByNumber(t.Context(), nil)
		return err == nil && head.BaseFee.Cmp(base) == 0
	})
	// At that price one payment may cost more than the limit of a customer's costs in a day.
	if got := ask(
		desk, "x-operator-key", w.Info.Operator.APIKey, "PATCH", "/organizations/"+made.OrganizationID+"/settings",
		map[string]any{"customerFeeDayUsd": nil}, &struct{}{},
	); got != 200 {
		t.Fatalf("lift the limit of a customer's costs: got %v", got)
	}
	var paid struct{ WithdrawalID, Status, Error string }
	if got := call("POST", "/withdraw", map[string]any{
		"mintId":     1,
		"customerId": "c", "amount": "100000000", "toAddress": "0x1111111111111111111111111111111111111111",
	}, &paid); got != 202 || paid.Status != "PROCESSING" {
		t.Fatalf("got %v %+v, want it on its way", got, paid)
	}
	// The operator sends what the command asks for, exactly and once, and does nothing else.
	type asked struct{ Cause, Symbol, Amount, Why string }
	var address string
	var needs []asked
	until(t, "the command asks for what the treasury lacks", func() bool {
		dear()
		var out, errs bytes.Buffer
		if code := cli.Run(
			t.Context(), []string{"wallets", "--json", "--config", w.Info.Config}, &out, &errs,
		); code != 0 {
			t.Fatalf("coffer wallets: got %d %s", code, errs.String())
		}
		var all []struct {
			OrganizationID, Address string
			Needs                   []asked
		}
		if err := json.Unmarshal(out.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		for _, at := range all {
			if at.OrganizationID == made.OrganizationID {
				address, needs = at.Address, at.Needs
			}
		}
		return len(needs) > 0
	})
	if len(needs) != 1 || needs[0].Symbol != "ETH" || needs[0].Why == "" || !common.IsHexAddress(address) {
		t.Fatalf("got the needs %+v of %q, want gas for an address and why", needs, address)
	}
	amount, ok := new(big.Int).SetString(needs[0].Amount, 10)
	if !ok || amount.Sign() == 0 {
		t.Fatalf("got the need %+v, want an amount", needs[0])
	}
	coin := slices.IndexFunc(w.Info.Mints, func(m localworld.Mint) bool { return m.Symbol == "ETH" })
	if _, err := w.Info.SendFromFaucet(
		t.Context(), w.Info.Mints[coin], common.HexToAddress(address), amount,
	); err != nil {
		t.Fatal(err)
	}
	until(t, "the withdrawal is completed", func() bool {
		dear()
		call("GET", "/withdrawals/"+paid.WithdrawalID, nil, &paid)
		return paid.Status == "COMPLETED"
	})
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Minute) // against a hang: a busy machine is slow
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}
