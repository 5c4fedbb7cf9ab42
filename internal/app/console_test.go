package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

// An origin at which the console would not work is refused at the start, with the fix. So is a console
// without the operators' listener. Rule PAGE-40.
func TestAnOriginAtWhichTheConsoleDoesNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	const listen = "127.0.0.1:8081"
	for _, c := range []struct {
		conf                 Console
		listen, setting, fix string // "" for a sound one
	}{
		{Console{}, "", "", ""},
		{Console{Origin: "https://ops.example.com"}, listen, "", ""},
		{Console{Origin: "http://localhost:8081"}, listen, "", ""},
		{Console{Origin: "https://ops.example.com", Domain: "example.com"}, listen, "", ""},
		{Console{Origin: "https://ops.example.com"}, "", "operator.listen", "set it to an address"},
		{Console{Origin: "https://203.0.113.7"}, listen, "console.origin", "give it a host name"},
		{Console{Origin: "http://127.0.0.1:8081"}, listen, "console.origin", "use http://localhost"},
		{Console{Origin: "http://ops.example.com"}, listen, "console.origin", "use https"},
		{
			Console{Origin: "https://ops.example.com", Domain: "other.com"},
			listen, "console.origin",
			`use "ops.example.com"`,
		},
		{Console{Domain: "example.com"}, listen, "console.origin", "set it, or remove the site"},
	} {
		var errs configErrors
		c.conf.checkConsole(c.listen, &errs)
		err := errs.joinProblems()
		switch {
		case c.fix == "" && err != nil:
			t.Errorf("%+v: got %v, want no problem", c.conf, err)
		case c.fix != "" && (err == nil || !strings.Contains(err.Error(), c.fix) ||
			!strings.Contains(err.Error(), c.setting)):
			t.Errorf("%+v: got %v, want the setting %s and %q", c.conf, err, c.setting, c.fix)
		}
	}
}

// The pages have their paths, the root leads to them, and the interface keeps every other path.
// Rule PAGE-40.
func TestTheRootOfTheOperatorsListenerLeadsToTheConsole(t *testing.T) {
	t.Parallel()
	answer := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	handler := splitConsole(answer("pages"), answer("interface"))
	for _, c := range []struct{ method, path, body, location string }{
		{http.MethodGet, "/console", "pages", ""},
		{http.MethodGet, "/console/jobs", "pages", ""},
		{http.MethodPost, "/console/jobs/retry", "pages", ""},
		{http.MethodGet, "/v1/organizations", "interface", ""},
		{http.MethodGet, "/openapi.json", "interface", ""},
		{http.MethodGet, "/consoles", "interface", ""},
		{http.MethodPost, "/", "interface", ""},
		{http.MethodGet, "/", "", "/console"},
	} {
		got := httptest.NewRecorder()
		handler.ServeHTTP(got, httptest.NewRequest(c.method, c.path, nil))
		if location := got.Header().Get("Location"); location != c.location ||
			c.location == "" && got.Body.String() != c.body {
			t.Errorf("%s %s: got %q and the location %q, want %q and %q", c.method, c.path, got.Body, location, c.body,
				c.location)
		}
	}
}

// One follower of the audit log serves the pages of both sides, also where one side alone has pages, and a
// service without pages has none. Rule PAGE-47.
func TestOneFollowerServesBothSides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dashboard, console string
		want               int
	}{
		"no pages":      {"", "", 0},
		"the dashboard": {"http://localhost:8080", "", 1},
		"the console":   {"", "http://localhost:8081", 1},
		"both":          {"http://localhost:8080", "http://localhost:8081", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := onCatalogue(t, chain.Testnet)
			conf.Dashboard.Origin, conf.Console.Origin = c.dashboard, c.console
			a := openWith(t, conf, RoleAPI)
			sealed, err := a.openSeal()
			if err != nil {
				t.Fatal(err)
			}
			a.parts.Seal = sealed
			key := []byte("the key of the cursors of this test")
			if err := a.wireDashboard(key, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := a.wireConsole(key, nil, nil, nil); err != nil {
				t.Fatal(err)
			}
			loops := 0
			for _, l := range a.loops {
				if l.Name == "live updates" {
					loops++
				}
			}
			if loops != c.want || (a.changes != nil) != (c.want > 0) {
				t.Errorf("got %d followers, want %d", loops, c.want)
			}
		})
	}
}
