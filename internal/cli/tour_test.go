package cli_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bitcoin58 "github.com/btcsuite/btcd/address/v2/base58"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The whole tour, from the first address to the last check, on the three real chains of make run. Rule BP-81.
func TestTheTourHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, err := exec.LookPath("coffer") // this test as the program, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	w, err := localworld.Start(t.Context(), localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: dir, Chains: localworld.AllChains,
		BlockTime: 300 * time.Millisecond, Calm: true, QuickBlocks: true, Program: program, PayoutContract: true,
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
	depositBefore(t, w.Info)
	if err := cli.Tour(t.Context(), t.Output(), w.Info); err != nil {
		t.Error(err)
	}
	t.Run("the tour leaves no webhook endpoint", func(t *testing.T) {
		var left struct{ Data []struct{ EndpointID string } }
		request(t, http.MethodGet, w.Info.BaseURL+"/webhook-endpoints", "x-api-key", w.Info.APIKey, http.StatusOK,
			&left)
		if len(left.Data) != 0 {
			t.Errorf("got %+v, want none", left.Data)
		}
	})
	t.Run("the audit log has who decided about a swap", func(t *testing.T) {
		conf, err := app.ReadConfig(w.Info.Config)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := app.OpenTools(t.Context(), conf, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer tools.Close()
		for _, action := range []string{"swap.approved", "swap.rejected"} {
			var people int
			if err := tools.DB().ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				return tx.QueryRow(ctx, `SELECT count(DISTINCT actor_id) FROM audit_log
					WHERE action = $1 AND actor_kind = 'USER'`, action).Scan(&people)
			}); err != nil || people != 1 {
				t.Errorf("%s: got %d people %v, want the one who decided", action, people, err)
			}
		}
	})
	t.Run("what programs outside need stands in the description", func(t *testing.T) { described(t, w.Info) })
	t.Run("the list of the description can be read as it is, and names three chains", func(t *testing.T) {
		for _, args := range [][]string{
			{"check"}, {"check", "--decimal"}, {"create", "--decimal", "--as", w.Info.Users[0].Email},
		} {
			var printed bytes.Buffer
			args = append([]string{"payouts"}, append(args, w.Info.PayoutTemplate, "--config", w.Info.Config)...)
			if code := cli.Run(t.Context(), args, &printed, &printed); code != 0 {
				t.Errorf("coffer %v: got %d, %s", args, code, printed.String())
			}
		}
		list, err := os.ReadFile(w.Info.PayoutTemplate)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(list)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		chains := map[string]bool{}
		for _, row := range rows[1:] {
			for _, m := range w.Info.Mints {
				if strconv.Itoa(m.ID) == row[slices.Index(rows[0], "mintId")] {
					chains[m.Chain] = true
				}
			}
		}
		if len(chains) != 3 || w.Info.PayoutContracts["ETHEREUM"] != payoutcontract.Address.Hex() {
			t.Errorf("got rows on %v, and the contract on %v", chains, w.Info.PayoutContracts)
		}
	})
	t.Run("a command kills the service, and it answers again", func(t *testing.T) {
		var printed bytes.Buffer
		if code := cli.Run(
			t.Context(), []string{"local", "trigger", "crash", "--dir", dir}, &printed, &printed,
		); code != 0 || !strings.Contains(printed.String(), " was killed, and process ") {
			t.Errorf("got %d, %s", code, printed.String())
		}
		request(t, http.MethodGet, w.Info.BaseURL+"/mints", "x-api-key", w.Info.APIKey, http.StatusOK, nil)
	})
	t.Run("what a person mistyped is not sent", func(t *testing.T) {
		for id, to := range map[int]string{
			1: w.Info.OrganizationID, 7: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1",
			5: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", 8: "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
		} {
			i := slices.IndexFunc(w.Info.Mints, func(m localworld.Mint) bool { return m.ID == id })
			if hash, err := w.Info.PayAddress(t.Context(), w.Info.Mints[i], to, big.NewInt(1000)); err == nil {
				t.Errorf("mint %d to %s: got %s, want an error", id, to, hash)
			}
		}
	})
}

// depositBefore makes a customer's deposit before the tour: an event whose webhook the tour never
// receives.
func depositBefore(t *testing.T, info localworld.Info) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, info.BaseURL+"/deposit",
		strings.NewReader(`{"mintId": 1, "customerId": "earlier"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", info.APIKey)
	req.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var deposit struct{ Address string }
	if err := json.NewDecoder(resp.Body).Decode(&deposit); err != nil || deposit.Address == "" {
		t.Fatalf("POST /deposit: got %d, %+v (%v)", resp.StatusCode, deposit, err)
	}
	usdc := slices.IndexFunc(info.Mints, func(m localworld.Mint) bool { return m.ID == 1 })
	if _, err := info.PayAddress(t.Context(), info.Mints[usdc], deposit.Address, big.NewInt(5_000_000)); err != nil {
		t.Fatal(err)
	}
	for {
		var feed struct{ Data []struct{ Type string } }
		request(t, http.MethodGet, info.BaseURL+"/events", "x-api-key", info.APIKey, http.StatusOK, &feed)
		if len(feed.Data) > 0 {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the deposit before the tour was not credited")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// described checks what a test outside this repository needs to play the customer.
func described(t *testing.T, info localworld.Info) {
	solana, bitcoin := info.Chains["SOLANA"], info.Chains["BITCOIN"]
	if key, err := base58.Decode(solana.FaucetKey); err != nil || len(key) != 64 || solana.RPCURL == "" ||
		solana.WSURL == "" || solana.ChainID != 0 {
		t.Errorf("SOLANA: got %+v (%v), want its RPC and a secret of 64 bytes", solana, err)
	}
	if key, version, err := bitcoin58.CheckDecode(bitcoin.FaucetKey); err != nil ||
		version != chaincfg.RegressionNetParams.PrivateKeyID || len(key) != 33 ||
		bitcoin.RPCURL == "" || bitcoin.User == "" || bitcoin.Password == "" {
		t.Errorf("BITCOIN: got %+v (%v), want its RPC with user and password, and a key in WIF", bitcoin, err)
	}
	// The local chains have at the real addresses what the catalogue has there.
	solanas, _ := catalogue.Find(chain.Mainnet, chain.Solana)
	for _, m := range solanas.Mints {
		if m.Contract != "" && !slices.ContainsFunc(info.Mints, func(l localworld.Mint) bool {
			return l.Chain == "SOLANA" && l.Symbol == m.Symbol && l.ContractAddress != nil &&
				*l.ContractAddress == string(m.Contract) && l.Decimals == m.Decimals
		}) {
			t.Errorf("%s of the catalogue: got none at %s in the local world", m.Symbol, m.Contract)
		}
	}
}
