package localworld_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"
	"github.com/tyler-smith/go-bip39"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/webhook"
)

// I-43: no secret is ever in the log, in an answer, in a webhook or in a table. The one answer that
// shows a webhook's secret is left out.
func TestNoSecretIsToldAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logFile := filepath.Join(dir, "log")
	wrapped := filepath.Join(dir, "logged")
	script := "#!/bin/sh\nexec " + buildProgram(t) + " \"$@\" 2>>" + logFile + "\n"
	if err := os.WriteFile(wrapped, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	n := buildScenario(t, localworld.Options{Program: wrapped, Log: slog.New(slog.DiscardHandler)})
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
	if err := n.KillService(); err != nil {
		t.Fatal(err)
	}
	if err := n.RestartService(n.ctx); err != nil {
		t.Fatal(err)
	}

	canaries := map[string]string{"API key": n.Info.APIKey}
	login, err := url.Parse(n.Info.Database.URL)
	if err != nil {
		t.Fatal(err)
	}
	canaries["database password"], _ = login.User.Password()
	folder := filepath.Join(filepath.Dir(n.Info.Config), "keys")
	for _, name := range []string{"cursor.key", "webhook.key", "seal.key", "seed.key"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(
			string(text), func(r rune) bool { return strings.ContainsRune(" \n\"{}[],:", r) },
		) {
			if len(word) >= 32 && !strings.Contains(word, "googleapis") {
				canaries[name] = word
			}
		}
	}
	canaries["seed's words"] = seedWords(t, folder)
	entropy, err := bip39.EntropyFromMnemonic(canaries["seed's words"])
	if err != nil {
		t.Fatal("the words of the seed are not the words of a seed")
	}
	canaries["seed"] = string(entropy)

	// Every second webhook succeeds; the others fail.
	var sent webhookInbox
	receiver := httptest.NewServer(&sent)
	t.Cleanup(receiver.Close)
	var endpoint struct{ Secret string }
	if status := n.call(
		http.MethodPost, "/webhook-endpoints", map[string]any{"url": receiver.URL}, &endpoint,
	); status != http.StatusCreated {
		t.Fatalf("POST /webhook-endpoints: got %d, want 201", status)
	}
	canaries["webhook secret"] = endpoint.Secret
	for _, name := range []string{
		"API key", "database password", "webhook secret", "cursor.key", "webhook.key", "seal.key", "seed.key",
		"seed's words", "seed",
	} {
		if len(canaries[name]) < 8 {
			t.Fatalf("%s: got no canary", name)
		}
	}

	n.payIn("user_1", "USDC", 1_000_000_000)
	m := n.mintBySymbol("USDC")
	var w webhook.Withdrawal
	to := common.BytesToAddress([]byte("canary receiver"))
	body := map[string]any{
		"mintId": m.ID, "customerId": "user_1", "amount": "100000000", "toAddress": to.Hex(),
		"idempotencyKey": "canary",
	}
	if status := n.call(http.MethodPost, "/withdraw", body, &w); status != http.StatusAccepted {
		t.Fatalf("POST /withdraw: got %d, want 202", status)
	}
	n.waitCompleted(w.WithdrawalID)
	if got := n.chainBalance(m, to); got.Cmp(big.NewInt(100_000_000)) != 0 {
		t.Errorf("the receiver has %v, want 100000000", got)
	}

	for sent.countReceived() < 2 {
		n.pause(fmt.Errorf("%d webhooks came", sent.countReceived()))
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
	for _, path := range []string{
		"/mints", "/deposits", "/withdrawals", "/customers", "/customers/user_1/balances", "/webhook-endpoints",
		"/events", "/nothing",
	} {
		ask(http.MethodGet, path, n.Info.APIKey, "")
		ask(http.MethodGet, path, n.Info.APIKey+"x", "")
	}
	for _, refused := range []string{
		`{`, `{"mintId":1,"customerId":"user_1","amount":"1e9","toAddress":"x"}`,
		`{"apiKey":"` + n.Info.APIKey[:8] + `"}`,
	} {
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
	tables := n.dumpTables()
	for where, text := range map[string]string{
		"the log": string(log), "the answers": told.String(), "the webhooks": sent.joinReceived(), "the tables": tables,
	} {
		if len(text) < 1000 {
			t.Errorf("%s: got only %d bytes to look through", where, len(text))
		}
		for name, secret := range canaries {
			for form, written := range secretForms(secret) {
				if strings.Contains(text, written) {
					t.Errorf("%s: the %s is in it, %s", where, name, form)
				}
			}
		}
	}
	if !strings.Contains(tables, w.WithdrawalID) {
		t.Error("the tables: the withdrawal is not in what was looked through")
	}
}

// secretForms returns the forms in which a text may contain a secret.
func secretForms(secret string) map[string]string {
	out := map[string]string{
		"as it is":  secret,
		"in hex":    hex.EncodeToString([]byte(secret)),
		"in base64": base64.RawStdEncoding.EncodeToString([]byte(secret)),
	}
	bare := strings.TrimPrefix(secret, "whsec_")
	if b, err := hex.DecodeString(bare); err == nil {
		out["as bytes of its hex"] = string(b)
	}
	if b, err := base64.StdEncoding.DecodeString(bare); err == nil {
		out["as bytes of its base64"], out["as bytes of its base64 in hex"] = string(b), hex.EncodeToString(b)
	}
	return out
}

// seedWords returns the words of the seed in a folder of keys. It reads them from a backup, as an
// operator does.
func seedWords(t *testing.T, dir string) string {
	t.Helper()
	own, sign := app.KeyFiles(dir)
	who, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "seed.age")
	files := keys.Files{Key: sign.Seed, KEK: sign.Wrap, Attest: own.Attest}
	if err := keys.BackupSeed(files, keys.BackupRecipient{Recipient: who.Recipient().String()}, path); err != nil {
		t.Fatal(err)
	}
	sealed, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	plain, err := age.Decrypt(armor.NewReader(sealed), who)
	if err != nil {
		t.Fatal(err)
	}
	var backup struct{ Words string }
	if err := json.NewDecoder(plain).Decode(&backup); err != nil {
		t.Fatal(err)
	}
	return backup.Words
}

// webhookInbox receives webhooks and stores them. It refuses the first one and every second one
// after it.
type webhookInbox struct {
	mu   sync.Mutex
	seen int
	all  strings.Builder
}

func (i *webhookInbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// A write to a strings.Builder does not fail; a body that was cut short is stored as it is.
	_ = r.Header.Write(&i.all)
	_, _ = io.Copy(&i.all, r.Body)
	if i.seen++; i.seen%2 == 1 {
		w.WriteHeader(http.StatusBadGateway)
	}
}

func (i *webhookInbox) countReceived() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen
}

func (i *webhookInbox) joinReceived() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.all.String()
}

// dumpTables returns every row of every table as text, and binary columns also as their bytes.
func (n *scenario) dumpTables() string {
	n.Helper()
	conn, err := pgx.Connect(n.ctx, n.SuperURL())
	if err != nil {
		n.Fatal(err)
	}
	defer conn.Close(n.ctx)
	rows, err := conn.Query(n.ctx, `
		SELECT oid::regclass::text FROM pg_class
		WHERE relkind IN ('r', 'm') AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`)
	if err != nil {
		n.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		n.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		rows, err := conn.Query(n.ctx, "SELECT r.*, r::text FROM "+name+" r")
		if err != nil {
			n.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				n.Fatal(err)
			}
			for _, v := range values {
				switch v := v.(type) {
				case []byte:
					all.Write(v)
				case string:
					all.WriteString(v)
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
