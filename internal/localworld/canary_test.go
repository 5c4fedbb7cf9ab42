package localworld_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/webhook"
)

// I-43: whatever happens, no secret is in the log, in an answer, or in a table.
// The one answer that shows a webhook's secret is left out.
func TestNoSecretIsToldAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logFile := filepath.Join(dir, "log")
	wrapped := filepath.Join(dir, "logged")
	script := "#!/bin/sh\nexec " + program(t) + " \"$@\" 2>>" + logFile + "\n"
	if err := os.WriteFile(wrapped, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	n := buildTown(t, localworld.Options{Program: wrapped, Log: slog.New(slog.DiscardHandler)})
	conf, err := os.ReadFile(n.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	loud := strings.Replace(string(conf), "'info'", "'debug'", 1)
	if loud == string(conf) {
		t.Fatal("the configuration has no log level to raise")
	}
	if err := os.WriteFile(n.Info.Config, []byte(loud), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.Restart(n.ctx); err != nil {
		t.Fatal(err)
	}

	canaries := map[string]string{"API key": n.Info.APIKey}
	login, err := url.Parse(n.Info.Database.URL)
	if err != nil {
		t.Fatal(err)
	}
	canaries["database password"], _ = login.User.Password()
	keys := filepath.Join(filepath.Dir(n.Info.Config), "keys")
	for _, name := range []string{"cursor.key", "webhook.key", "seal.key", "seed.key"} {
		text, err := os.ReadFile(filepath.Join(keys, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \n\"{}[],:", r) }) {
			if len(word) >= 32 && !strings.Contains(word, "googleapis") {
				canaries[name] = word
			}
		}
	}

	// Webhooks that are taken and webhooks that fail.
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(refusing.Close)
	var endpoint struct{ Secret string }
	if status := n.call(http.MethodPost, "/webhook-endpoints", map[string]any{"url": refusing.URL}, &endpoint); status != http.StatusCreated {
		t.Fatalf("POST /webhook-endpoints: got %d, want 201", status)
	}
	canaries["webhook secret"] = endpoint.Secret
	for _, name := range []string{"API key", "database password", "webhook secret", "cursor.key", "webhook.key", "seal.key", "seed.key"} {
		if len(canaries[name]) < 8 {
			t.Fatalf("%s: got no canary", name)
		}
	}

	n.payIn("user_1", "USDC", 1_000_000_000)
	m := n.mint("USDC")
	var w webhook.Withdrawal
	to := common.BytesToAddress([]byte("canary receiver"))
	body := map[string]any{"mintId": m.ID, "customerId": "user_1", "amount": "100000000", "toAddress": to.Hex(), "idempotencyKey": "canary"}
	if status := n.call(http.MethodPost, "/withdraw", body, &w); status != http.StatusAccepted {
		t.Fatalf("POST /withdraw: got %d, want 202", status)
	}
	n.completed(w.WithdrawalID)
	if got := n.has(m, to); got.Cmp(big.NewInt(100_000_000)) != 0 {
		t.Errorf("the receiver has %v, want 100000000", got)
	}

	var told strings.Builder
	ask := func(method, path, key, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(n.ctx, method, n.Info.BaseURL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-key", key)
		req.Header.Set("content-type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := resp.Header.Write(&told); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&told, resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/mints", "/deposits", "/withdrawals", "/customers", "/customers/user_1/balances", "/webhook-endpoints", "/events", "/nothing"} {
		ask(http.MethodGet, path, n.Info.APIKey, "")
		ask(http.MethodGet, path, n.Info.APIKey+"x", "")
	}
	for _, refused := range []string{`{`, `{"mintId":1,"customerId":"user_1","amount":"1e9","toAddress":"x"}`, `{"apiKey":"` + n.Info.APIKey[:8] + `"}`} {
		ask(http.MethodPost, "/withdraw", n.Info.APIKey, refused)
		ask(http.MethodPost, "/webhook-endpoints", n.Info.APIKey, refused)
	}
	for _, path := range []string{"/readyz", "/healthz"} {
		resp, err := http.Get(n.Info.OpsURL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(&told, resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
	}

	log, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	tables := n.tables()
	for where, text := range map[string]string{"the log": string(log), "the answers": told.String(), "the tables": tables} {
		if len(text) < 1000 {
			t.Errorf("%s: got only %d bytes to look through", where, len(text))
		}
		for name, secret := range canaries {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the %s is in it", where, name)
			}
		}
	}
	if !strings.Contains(tables, w.WithdrawalID) {
		t.Error("the tables: the withdrawal is not in what was looked through")
	}
}

// tables is every row of every table, bytes as text where they are text.
func (n *town) tables() string {
	n.Helper()
	conf, err := pgx.ParseConfig(n.Info.Database.URL)
	if err != nil {
		n.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(n.ctx, conf)
	if err != nil {
		n.Fatal(err)
	}
	defer conn.Close(n.ctx)
	if _, err := conn.Exec(n.ctx, "SET ROLE coffer_reader"); err != nil {
		n.Fatal(err)
	}
	rows, err := conn.Query(n.ctx, `
		SELECT oid::regclass::text FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND has_table_privilege(oid, 'SELECT')`)
	if err != nil {
		n.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		n.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		rows, err := conn.Query(n.ctx, "SELECT * FROM "+name)
		if err != nil {
			n.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				n.Fatal(err)
			}
			for _, v := range values {
				if b, ok := v.([]byte); ok {
					all.Write(b)
				} else if b, err := json.Marshal(v); err == nil {
					all.Write(b)
				}
				all.WriteByte('\n')
			}
		}
		if err := rows.Err(); err != nil {
			n.Fatal(err)
		}
	}
	return all.String()
}
