package app

import (
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/price/chainlink"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/service"
)

// Two small contracts in EVM bytecode, because they do almost nothing.
const (
	// isSanctioned(address) returns the slot of that address; any other call sets it.
	sanctionsCode = "60003560e01c" + "63df592f7d14601657" + "600160043555" + "00" + "5b60043554600052" + "60206000f3"
	// latestRoundData() returns slots 0 to 4, decimals() slot 5; any other call (slot, value) sets
	// one.
	feedCode = "60003560e01c" + "8063feaf968c14602157" + "63313ce56714604557" + "602435600435" + "5500" +
		"5b" + "600054600052" + "600154602052" + "600254604052" + "600354606052" + "600454608052" + "60a06000f3" +
		"5b600554600052" + "60206000f3"
)

// deployed puts code on the chain as a transaction that creates a contract.
func deployed(t *testing.T, n *anvil.Node, code string) common.Address {
	t.Helper()
	runtime, err := hex.DecodeString(code)
	if err != nil {
		t.Fatal(err)
	}
	creation := append([]byte{0x60, byte(len(runtime)), 0x80, 0x60, 11, 0x60, 0, 0x39, 0x60, 0, 0xf3}, runtime...)
	hash, err := n.SendTx(t.Context(), nil, nil, creation)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := n.WaitReceipt(t.Context(), hash)
	if err != nil || receipt.Status != 1 {
		t.Fatalf("got %+v %v, want a contract", receipt, err)
	}
	return receipt.ContractAddress
}

func data(t *testing.T, numbers ...any) []byte {
	t.Helper()
	out := []byte{0xff, 0xff, 0xff, 0xff}
	for _, n := range numbers {
		word := make([]byte, 32)
		switch n := n.(type) {
		case int64:
			v := big.NewInt(n)
			if n < 0 {
				v.Add(v, new(big.Int).Lsh(big.NewInt(1), 256))
			}
			v.FillBytes(word)
		case common.Address:
			copy(word[12:], n[:])
		}
		out = append(out, word...)
	}
	return out
}

// The oracle and the feeds are read from contracts on a chain, through the adapter that
// everything else uses.
func TestContractsOnAChainSayWhoIsSanctionedAndWhatItCosts(t *testing.T) {
	t.Parallel()
	n, ctx := anviltest.Start(t, anvil.Config{}), t.Context()
	list, feed := deployed(t, n, sanctionsCode), deployed(t, n, feedCode)
	ch, err := evm.New(ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{n.URL},
		Quorum: 1,
		FeeCap: money.MustParse("500000000000"), TipCap: money.MustParse("3000000000"),
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &App{parts: service.Parts{Chains: chain.Chains{chain.Ethereum: ch}}, log: slog.New(slog.DiscardHandler)}
	a.conf.Prices = Prices{MaxAge: Duration(5 * time.Minute)}
	a.conf.Prices.Chainlink = chainlink.Config{
		"4": {Chain: chain.Ethereum, Contract: feed.Hex(), Heartbeat: Duration(time.Hour)},
	}
	a.conf.Risk.Oracle.Contracts = map[string]string{"ETHEREUM": list.Hex()}

	bad := common.HexToAddress("0x098B716B8Aaf21512996dC57EB0615e2383E2f96")
	screened := func(contract common.Address) (risk.Verdict, error) {
		t.Helper()
		a.conf.Risk.Oracle.Contracts["ETHEREUM"] = contract.Hex()
		m, err := a.conf.Risk.openMember("oracle", risk.VendorEnv{ContractCaller: a.contractCaller})
		if err != nil {
			t.Fatal(err)
		}
		return m.Screener.Screen(ctx, risk.Subject{Chain: chain.Ethereum, Address: chain.Address(bad.Hex())})
	}
	if v, err := screened(list); err != nil || v.Severity != risk.None {
		t.Errorf("not on the oracle: got %+v %v, want NONE", v, err)
	}
	if _, err := n.SendAndWait(ctx, list, nil, data(t, bad)); err != nil {
		t.Fatal(err)
	}
	if v, err := screened(list); err != nil || v.Severity != risk.Severe {
		t.Errorf("on the oracle: got %+v %v, want SEVERE", v, err)
	}
	if v, err := screened(
		common.HexToAddress("0x40C57923924B5c5c5455c48D93317139ADDaC8fb"),
	); !errors.Is(err, risk.ErrUnavailable) {
		t.Errorf("where there is no contract: got %+v %v, want unavailable", v, err)
	}
	if v, err := screened(feed); !errors.Is(err, risk.ErrUnavailable) && v.Severity != risk.None {
		t.Errorf("another contract: got %+v %v", v, err)
	}

	set := func(slot, value int64) {
		t.Helper()
		if _, err := n.SendAndWait(ctx, feed, nil, data(t, slot, value)); err != nil {
			t.Fatal(err)
		}
	}
	asked := func() (price.Quote, error) {
		t.Helper()
		if err := a.openPrices(); err != nil {
			t.Fatal(err)
		}
		return a.parts.Prices.USD(ctx, 4)
	}
	if q, err := asked(); !errors.Is(err, price.ErrUnavailable) {
		t.Errorf("a feed that was never written: got %+v %v, want unavailable", q, err)
	}
	now := time.Now().Unix()
	for slot, value := range []int64{7, 301234560000, now - 60, now - 60, 7, 8} {
		set(int64(slot), value)
	}
	if q, err := asked(); err != nil || q.Price != money.MustParseUSD("3012.3456") || q.Source != "CHAINLINK" {
		t.Errorf("got %+v %v, want 3012.3456", q, err)
	}
	for name, change := range map[string][2]int64{
		"below zero": {1, -5},
		"zero":       {1, 0}, "not complete": {3, 0}, "too old": {3, now - 7200}, "of an earlier round": {4, 6},
	} {
		before := map[int64]int64{1: 301234560000, 3: now - 60, 4: 7}[change[0]]
		set(change[0], change[1])
		if q, err := asked(); !errors.Is(err, price.ErrUnavailable) {
			t.Errorf("%s: got %+v %v, want unavailable", name, q, err)
		}
		set(change[0], before)
	}
}

// The configured provider is asked, with its key, and its answer counts.
func TestAConfigurationIsWhoScreens(t *testing.T) {
	t.Parallel()
	var paths []string
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		paths = append(paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-API-Key")+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(
			`{"identifications":[{"category":"sanctions","name":"SANCTIONS: OFAC SDN","description":"","url":""}]}`,
		))
	}))
	defer vendor.Close()
	dir := t.TempDir()
	if err := seal.CreateKeyset(filepath.Join(dir, "seal.key")); err != nil {
		t.Fatal(err)
	}
	a := &App{parts: service.Parts{DB: pgtest.New(t)}, log: slog.New(slog.DiscardHandler)}
	a.conf.Keys.Seal = filepath.Join(dir, "seal.key")
	a.conf.Risk = Risk{
		Providers: []string{"ofac", "chainalysis_sanctions"}, SanctionsFloor: "ON", UnknownSeverity: "LOW", Quorum: 1,
	}
	a.conf.Risk.ChainalysisSanctions.Service = risk.Service{URL: vendor.URL, Key: seal.NewSecret("the key")}
	if err := a.openRisk(); err != nil {
		t.Fatal(err)
	}
	p := a.ScreeningPolicy()
	if !p.Configured() || p.Lists == nil || !p.SanctionsFloor || p.UnknownAs != risk.TreatUnknownAsLow ||
		p.Grace != 15*time.Minute {
		t.Errorf("got %+v, want what is configured", p)
	}
	subject := risk.Subject{
		Chain: chain.Bitcoin, Address: "149w62rY42aZBox8fGcmqNsXUzSStKeq8C", Direction: risk.Outgoing,
	}
	for range 2 { // the second time from the cache
		got := p.DecideDestination(t.Context(), risk.WithdrawalCase{Subject: subject, Now: time.Now()})
		if got.Decision.Outcome != risk.Block || got.Decision.Verdict.Provider != "CHAINALYSIS_SANCTIONS" ||
			len(got.Case.Answer.Verdict.Missing) != 1 {
			t.Errorf("got %+v, want it blocked by the one that answers", got)
		}
	}
	if want := []string{"GET /api/v1/address/149w62rY42aZBox8fGcmqNsXUzSStKeq8C the key "}; !slices.Equal(paths, want) {
		t.Errorf("got %q, want one question", paths)
	}
	if _, _, err := a.ImportSanctions(
		t.Context(), audit.Operator("op"), filepath.Join("..", "risk", "ofac", "testdata", "sdn_advanced.xml"), false,
	); err != nil {
		t.Fatal(err)
	}
	list, ageMax, err := a.SanctionsList(t.Context())
	if err != nil || len(list.Entries) != 6 || ageMax != 14*24*time.Hour {
		t.Errorf("got %d addresses, %v, %v, want the list", len(list.Entries), ageMax, err)
	}
}
