package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Rules DEP-11, DEP-20 and DEP-22: a person decides while the service runs.
func TestAPersonDecidesAboutABrokenFinalityWhileTheServiceRuns(t *testing.T) {
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
	command := func(args ...string) (int, string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), append(args, "--config", w.Info.Config), &out, &errs)
		return code, out.String(), errs.String()
	}
	coffer := func(args ...string) string {
		t.Helper()
		code, out, errs := command(args...)
		if code != 0 {
			t.Fatalf("coffer %v: got %d %s", args, code, errs)
		}
		return out
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		late := time.After(2 * time.Minute)
		for !holds() {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("%s: never", what)
			}
		}
	}
	call := func(method, path, body string, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, w.Info.BaseURL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-key", w.Info.APIKey)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 300 {
			t.Fatalf("%s %s: got %d %s %v", method, path, res.StatusCode, text, err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	status := func() (status, chainStatus string) {
		t.Helper()
		var list struct {
			Data []struct{ Status, ChainStatus string }
		}
		call("GET", "/deposits?customerId=eve", "", &list)
		if len(list.Data) == 0 {
			return "", ""
		}
		return list.Data[0].Status, list.Data[0].ChainStatus
	}
	at := slices.IndexFunc(w.Info.Mints, func(m localworld.Mint) bool {
		return m.Symbol == "USDC" && m.Chain == "ETHEREUM"
	})
	usdc := w.Info.Mints[at]
	var given struct{ Address string }
	call("POST", "/deposit", fmt.Sprintf(`{"mintId": %d, "customerId": "eve"}`, usdc.ID), &given)
	if said := coffer("freezes", "list"); !strings.Contains(said, "Nothing is frozen") {
		t.Errorf("got %q, want nothing frozen", said)
	}
	if code, _, said := command("chain", "repoint", "ETHEREUM"); code == 0 ||
		!strings.Contains(said, "There is nothing to decide") {
		t.Errorf("got %d %q, want nothing to decide", code, said)
	}
	node, err := rpc.DialContext(t.Context(), w.Info.Chains["ETHEREUM"].RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	height := func() uint64 {
		t.Helper()
		n, err := ethclient.NewClient(node).BlockNumber(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if said := coffer("chain", "traces", "ETHEREUM"); !strings.Contains(said, "0 still to be traced") {
		t.Errorf("got %q, want nothing to be traced", said)
	}
	before := height()
	paid, err := w.Info.SendFromFaucet(t.Context(), usdc, common.HexToAddress(given.Address), big.NewInt(250_000_000))
	if err != nil {
		t.Fatal(err)
	}
	until("credited", func() bool { s, _ := status(); return s == "CREDITED" })
	// A block that comes between the look at the height and the reorganization makes the latter too short by one.
	until("the payment gone from the chain", func() bool {
		if err := node.CallContext(t.Context(), nil, "anvil_reorg", height()-before, []any{}); err != nil {
			t.Fatal(err)
		}
		_, err := ethclient.NewClient(node).TransactionReceipt(t.Context(), paid)
		return errors.Is(err, ethereum.NotFound)
	})
	until("the customer frozen", func() bool {
		return strings.Contains(coffer("freezes", "list"), "CUSTOMER  eve of ")
	})
	said := coffer("chain", "repoint", "ETHEREUM", "--wait", "2")
	if !strings.Contains(said, "250 USDC  of eve") || !strings.Contains(said, "Nothing was changed") {
		t.Errorf("got %q, want eve's deposit and nothing changed", said)
	}
	if _, c := status(); c != "FINALIZED" {
		t.Errorf("got %s after a look, want nothing changed", c)
	}
	freeze := regexp.MustCompile(`(frz_\S+)  CHAIN  ETHEREUM by FINALITY`).FindStringSubmatch(coffer("freezes", "list"))
	if freeze == nil {
		t.Fatal("the chain is not frozen")
	}
	if code, _, said := command("freezes", "lift", freeze[1]); code == 0 ||
		!strings.Contains(said, "nobody has decided") {
		t.Errorf("got %d %q, want it refused", code, said)
	}
	said = coffer("chain", "repoint", "ETHEREUM", "--wait", "2", "--yes")
	if !strings.Contains(said, "Done.") {
		t.Errorf("got %q", said)
	}
	db, err := pgx.Connect(t.Context(), w.Info.Database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	if _, err := db.Exec(t.Context(), `SET ROLE coffer_reader`); err != nil {
		t.Fatal(err)
	}
	var told int
	if err := db.QueryRow(t.Context(),
		`SELECT count(*) FROM audit_log WHERE (actor_kind, actor_id, action, resource_kind, resource_id) = ('OPERATOR', 'cli', $1, 'CHAIN', 'ETHEREUM')`,
		"chain.repointed").Scan(&told); err != nil || told != 1 {
		t.Errorf("got %d rows of the decision in the audit log %v, want one", told, err)
	}
	books := func(when string) {
		t.Helper()
		_, said, _ := command("verify")
		if m := regexp.MustCompile(`!  I-(09|10|13|14|36)\S* .*`).FindString(said); m != "" ||
			!strings.Contains(said, "books") {
			t.Errorf("%s: got %q of %q, want no breach of what was credited", when, m, said)
		}
	}
	books("in question")
	until("reversed", func() bool { s, _ := status(); return s == "REVERSED" })
	said = coffer("chain", "breaks", "ETHEREUM")
	if !strings.Contains(said, "break 1") || !strings.Contains(said, "reversed  dep_") ||
		!strings.Contains(said, "open      nothing") {
		t.Errorf("got %q, want the break, the reversal and nothing open", said)
	}
	books("reversed")
	coffer("freezes", "lift", freeze[1])
	if said := coffer("freezes", "list"); strings.Contains(said, "CHAIN  ETHEREUM") ||
		!strings.Contains(said, "CUSTOMER  eve of ") {
		t.Errorf("got %q, want the customer frozen and the chain not", said)
	}
}
