package app

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/verify"
)

// onBitcoin returns the configuration of a service on a Bitcoin node and a database of this
// machine.
func onBitcoin(t *testing.T, node *btcd.Node) Config {
	t.Helper()
	endpoint, err := url.Parse(node.URL)
	if err != nil {
		t.Fatal(err)
	}
	endpoint.User = url.UserPassword(btcd.User, node.Password)
	c := DefaultConfig()
	c.Network = chain.Local
	c.Database.URL, c.Database.MaxConns = pgtest.NewDatabase(t).URL, 8
	c.API.Listen, c.Ops.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Keys, c.Signer = KeyFiles(filepath.Join(t.TempDir(), "keys"))
	if err := CreateKeys(c.Keys, c.Signer); err != nil {
		t.Fatal(err)
	}
	write(
		t, c.Signer.Policy,
		`{"chains": {"BITCOIN": {"signerId": "`+chaincfg.RegressionNetParams.GenesisHash.String()+`", "feeMax": "200000", "gasMax": "200000", "unlimited": true}}}`,
	)
	c.Chains = map[chain.Name]Chain{chain.Bitcoin: {
		Endpoints: []string{endpoint.String()}, Agree: 1, StartHeight: btcd.Maturity, CostMax: "200000", MergeFrom: 4,
	}}
	c.Mints = []Mint{{
		ID: 8, Chain: chain.Bitcoin, Symbol: "BTC", Name: "Bitcoin", Decimals: 8, MinDeposit: "10000",
		MinWithdraw:    "10000",
		DepositEnabled: true, WithdrawEnabled: true, ConfirmationsRequired: 3, Finality: "DEPTH",
	}}
	tenth := Duration(100 * time.Millisecond)
	c.Intervals.Scan, c.Intervals.Dispatch, c.Intervals.Sweep = tenth, tenth, tenth
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// startService runs the service until stop is called, or the test ends.
func startService(t *testing.T, c Config) (a *App, stop func()) {
	t.Helper()
	a, err := New(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	t.Cleanup(stop)
	if err := a.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, stop
}

// Rule COIN-8: the service as coffer serve runs it consolidates small UTXOs.
func TestTheServiceConsolidatesSmallOutputs(t *testing.T) {
	t.Parallel()
	node := btcdtest.Start(t, btcd.Config{BlockTime: 200 * time.Millisecond})
	conf := onBitcoin(t, node)
	// After a look at a treasury whose outputs are not worth a consolidation, the next look follows
	// ten minutes later. The service that receives the outputs one after the other therefore does
	// not look.
	receives := conf
	receives.Chains = maps.Clone(conf.Chains)
	bitcoin := conf.Chains[chain.Bitcoin]
	bitcoin.MergeFrom = 100
	receives.Chains[chain.Bitcoin] = bitcoin
	a, stop := startService(t, receives)
	created, key, err := org.Create(t.Context(), a.DB(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	treasury, err := a.Wallets.Treasury(t.Context(), created.ID, chain.BitcoinFamily)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.PayAddress(t.Context(), treasury.Address, 1_000_000); err != nil {
		t.Fatal(err)
	}
	const customers, small = 6, 20_000
	for i := range customers {
		body, err := json.Marshal(map[string]any{"mintId": 8, "customerId": "user_" + string(rune('a'+i))})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+a.apiListener.Addr().String()+"/v1/deposit", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-key", key.Reveal())
		req.Header.Set("content-type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var given struct{ Address chain.Address }
		err = json.NewDecoder(resp.Body).Decode(&given)
		resp.Body.Close()
		if err != nil || given.Address == "" {
			t.Fatalf("POST /deposit: got %d, %v, want an address", resp.StatusCode, err)
		}
		if _, err := node.PayAddress(t.Context(), given.Address, small); err != nil {
			t.Fatal(err)
		}
	}

	look := func(sql string) (n int) {
		t.Helper()
		if err := a.DB().ReadSystem(
			t.Context(), func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql).Scan(&n) },
		); err != nil {
			t.Fatal(err)
		}
		return n
	}
	pgtest.Eventually(
		t, func() bool { return look(`SELECT count(*) FROM deposits WHERE status = 'CREDITED'`) == customers+1 },
		"all deposits are credited",
	)
	stop()
	a, _ = startService(t, conf)
	pgtest.Eventually(t, func() bool { return look(`SELECT count(*) FROM consolidations WHERE status = 'DONE'`) == 1 },
		"small coins are consolidated")
	if n := look(`SELECT count(*) FROM utxos WHERE status = 'SPENT' AND amount = 20000`); n != customers {
		t.Errorf("got %d coins spent, want the %d small ones", n, customers)
	}
	if n := look(
		`SELECT count(*) FROM utxos JOIN consolidations ON change_of = consolidation_id WHERE utxos.status = 'FREE' AND amount > 110000`,
	); n != 1 {
		t.Errorf("got %d large coins of the consolidation, want one", n)
	}
	if r, err := verify.RunChecks(t.Context(), a.DB()); err != nil || !r.IsIntact() {
		t.Errorf("the books: got %+v %v, want them to add up", r.Breaches, err)
	}
	if r, err := verify.CompareWithChains(t.Context(), a.DB(), a.Chains); err != nil || !r.IsIntact() {
		t.Errorf("the chain: got %+v %v, want it to agree", r.Breaches, err)
	}
}
