package surfacetest

import (
	"compress/gzip"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

func docsServer(t *testing.T, face *kernel.Surface) *httptest.Server {
	t.Helper()
	open := *face
	open.CheckAddress = nil
	s := httptest.NewServer(kernel.New(&open, kernel.Config{
		DB: pgtest.New(t), CursorKey: []byte("a key"), BaseURL: "http://127.0.0.1/v1",
	}))
	t.Cleanup(s.Close)
	return s
}

func TestTheReferenceMayRunItsOwnFilesAlone(t *testing.T) {
	t.Parallel()
	for face, has := range map[*kernel.Surface][]string{
		organizations: {
			`"/withdraw"`,
			`"Coffer"`, "Webhooks done right", "# Testing against the local world", "# Error codes", "# Changelog",
		},
		operators: {`"/reserves"`, `"Coffer, for its operators"`, "The same at a terminal"},
	} {
		t.Run(face.Title, func(t *testing.T) {
			t.Parallel()
			ownFilesAlone(t, face, has)
		})
	}
}

// ownFilesAlone checks that the page of a surface and everything that it loads come from the
// service, and that its document contains has.
func ownFilesAlone(t *testing.T, face *kernel.Surface, has []string) {
	t.Helper()
	s := docsServer(t, face)
	get := func(path, accept string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", accept)
		got, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		from := io.Reader(got.Body)
		if got.Header.Get("Content-Encoding") == "gzip" {
			if from, err = gzip.NewReader(got.Body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(from)
		if err != nil || got.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %d, %v", path, got.StatusCode, err)
		}
		return got, string(text)
	}
	page, text := get("/docs", "identity")
	get("/docs/", "identity")
	policy := page.Header.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("got the policy %s, want %s in it", policy, want)
		}
	}
	for _, bad := range []string{"unsafe-eval", "http:", "https:", "*"} {
		if strings.Contains(policy, bad) {
			t.Errorf("got the policy %s, want no %s in it", policy, bad)
		}
	}
	if strings.Contains(text, "://") && !strings.Contains(text, "http://www.w3.org/2000/svg") {
		t.Errorf("got a page that names another host: %s", text)
	}
	packed, one := get("/docs/"+kernel.Renderer, "gzip")
	_, two := get("/docs/"+kernel.Renderer, "identity")
	if packed.Header.Get("Content-Encoding") != "gzip" || one != two || !strings.Contains(one, "createApiReference") {
		t.Errorf("got %s of %d and %d bytes, want the renderer both ways", packed.Header, len(one), len(two))
	}
	if !strings.Contains(text, "<title>"+template.HTMLEscapeString(face.Page)+"</title>") {
		t.Errorf("got %s, want the title %s", text, face.Page)
	}
	_, d := get("/docs/openapi.json", "identity")
	for _, want := range has {
		if !strings.Contains(d, want) {
			t.Errorf("got %.300s, want %s in it: the document with its guide", d, want)
		}
	}
}
