package cli_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The commands of the guide read the valid key: after a roll at the terminal, after one through the
// operators' interface, and after a restart.
func TestARolledKeyStandsInTheDescription(t *testing.T) {
	t.Parallel()
	opts := localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), StateDir: filepath.Join(t.TempDir(), "world"),
		BlockTime: 250 * time.Millisecond, Calm: true, Log: slog.New(slog.DiscardHandler),
	}
	known := map[string]bool{}
	valid := func(when string, info localworld.Info) {
		t.Helper()
		if known[info.APIKey] {
			t.Errorf("%s: the description has the same API key as before", when)
		}
		known[info.APIKey] = true
		request(t, http.MethodGet, info.BaseURL+"/mints", "x-api-key", info.APIKey, http.StatusOK, nil)
		request(t, http.MethodGet, info.OperatorURL+"/v1/organizations", "x-operator-key", info.Operator.APIKey,
			http.StatusOK, nil)
	}
	described := func() localworld.Info {
		t.Helper()
		info, err := localworld.ReadInfo(opts.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	coffer := func(args ...string) {
		t.Helper()
		var out, err bytes.Buffer
		if code := cli.Run(t.Context(), append(args, "--config", described().Config), &out, &err); code != 0 ||
			!strings.Contains(out.String(), localworld.InfoFile) {
			t.Fatalf("coffer %v: got %d %q %q, want that %s has the key", args, code, out.String(), err.String(),
				localworld.InfoFile)
		}
	}
	w, err := localworld.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	valid("at first", described())
	coffer("key", "roll", w.Info.OrganizationID)
	valid("rolled at the terminal", described())
	coffer("operator", "key", "roll", "local operator")
	before := described()
	var rolled struct{ APIKey string }
	request(t, http.MethodPost, before.OperatorURL+"/v1/organizations/"+before.OrganizationID+"/api-key/roll",
		"x-operator-key", before.Operator.APIKey, http.StatusCreated, &rolled)
	last := described()
	valid("rolled by an operator", last)
	if last.APIKey != rolled.APIKey {
		t.Error("the description has another key than the answer")
	}
	request(t, http.MethodPost, last.BaseURL+"/api-keys/key_main/roll", "x-api-key", last.APIKey, http.StatusCreated,
		&rolled)
	last = described()
	valid("rolled by its organization", last)
	if last.APIKey != rolled.APIKey {
		t.Error("the description has another key than the answer to the organization")
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if w, err = localworld.Start(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	delete(known, last.APIKey)
	valid("after a restart", described())
}

// request makes a call, checks the status and reads the answer.
func request(t *testing.T, method, url, header, key string, want int, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(header, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		t.Fatalf("%s %s: got %d, want %d", method, url, resp.StatusCode, want)
	}
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
}
