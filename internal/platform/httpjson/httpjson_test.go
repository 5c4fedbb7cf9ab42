package httpjson_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/httpjson"
)

func TestWhatIsNotAWholeJSONAnswerIsAnError(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter){
		"HTML":               func(w http.ResponseWriter) { said(w, 403, "text/html", "<html>Forbidden</html>") },
		"HTML that says 200": func(w http.ResponseWriter) { said(w, 200, "text/html", `{"a":1}`) },
		"no type":            func(w http.ResponseWriter) { said(w, 200, "", `{"a":1}`) },
		"plain text":         func(w http.ResponseWriter) { said(w, 200, "text/plain", `{"a":1}`) },
		"nothing":            func(w http.ResponseWriter) { said(w, 200, "application/json", ``) },
		"half":               func(w http.ResponseWriter) { said(w, 200, "application/json", `{"a":1`) },
		"two documents":      func(w http.ResponseWriter) { said(w, 200, "application/json", `{"a":1}{"a":1}`) },
		"the same twice":     func(w http.ResponseWriter) { said(w, 200, "application/json", `{"a":1,"a":2}`) },
		"no UTF-8":           func(w http.ResponseWriter) { said(w, 200, "application/json", "{\"a\":\"\xff\"}") },
		"too long": func(w http.ResponseWriter) {
			said(
				w, 200, "application/json", `"`+strings.Repeat("a", 300)+`"`,
			)
		},
		"cut off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			said(w, 200, "application/json", `{"a":1}`)
		},
		"a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.example.com")
			said(w, 302, "text/html", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
			defer server.Close()
			c, err := httpjson.NewClient(server.URL, 200)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.SendRequest(
				t.Context(), "GET", "/secret-in-path", http.Header{"Token": {"secret-in-header"}}, nil,
			); err == nil {
				t.Errorf("got %+v, want an error", got)
			} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), server.URL) {
				t.Errorf("got %v, want an error without a secret", err)
			}
		})
	}
}

func said(w http.ResponseWriter, status int, kind, body string) {
	w.Header()["Content-Type"] = []string{kind}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func TestNobodyThereIsAnErrorWithoutTheURL(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c, err := httpjson.NewClient(server.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SendRequest(t.Context(), "GET", "/secret", nil, nil); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without the path", err)
	}
}

func TestAKeyCrossesNoOpenNetwork(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{
		"https://api.example.com": true, "https://api.example.com/v1": true, "http://127.0.0.1:9": true,
		"http://[::1]:9": true, "http://localhost": true,
		"http://api.example.com": false, "http://127.0.0.1.example.com": false, "ftp://127.0.0.1": false, "": false,
		"api.example.com":                 false,
		"https://user:pw@api.example.com": false, "https://api.example.com?key=1": false,
		"https://api.example.com/#a": false,
	} {
		if _, err := httpjson.NewClient(base, 0); (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %t", base, err, ok)
		}
	}
}

func TestAMemberThatNobodyHasReadAboutIsAnError(t *testing.T) {
	t.Parallel()
	var into struct {
		A struct {
			B *httpjson.Number `json:"b"`
		} `json:"a"`
	}
	for body, c := range map[string]struct {
		ignore []string
		ok     bool
	}{
		`{"a":{"b":1}}`:             {nil, true},
		`{"a":{"b":1,"c":2}}`:       {nil, false},
		`{"a":{"b":1},"c":2}`:       {[]string{"d"}, false},
		`{"a":{"b":1,"c":2},"c":3}`: {[]string{"c"}, true},
		`{"a":{"B":1}}`:             {nil, false},
		`{"a":{"b":"1"}}`:           {nil, false},
		`{"a":[]}`:                  {nil, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { said(w, 200, "application/json; charset=utf-8", body) },
		))
		defer server.Close()
		client, err := httpjson.NewClient(server.URL, 0, c.ignore...)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := client.SendRequest(t.Context(), "GET", "/", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := reply.Decode(&into); (err == nil) != c.ok {
			t.Errorf("%s without %v: got %v, want ok %t", body, c.ignore, err, c.ok)
		}
	}
}

func TestANumberKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1": "1", "1e-8": "1/100000000", "0.1": "1/10", "-2.50": "-5/2", "1e99": "1" + strings.Repeat("0", 99),
		"1e100": "", "1e-100": "", "NaN": "", "": "", "0x10": "", strings.Repeat("1", 61): "",
	} {
		got, err := httpjson.Number(text).Rat()
		switch {
		case (err == nil) != (want != ""):
			t.Errorf("%s: got %v %v, want %q", text, got, err, want)
		case err == nil && got.RatString() != want:
			t.Errorf("%s: got %s, want %s", text, got.RatString(), want)
		}
	}
	for text, ok := range map[string]bool{"15": true, "15.0": true, "1.5e1": true, "1.5": false, "1e20": false} {
		if got, err := httpjson.Number(text).Int(); (err == nil) != ok || ok && got != 15 {
			t.Errorf("%s: got %d %v, want ok %t", text, got, err, ok)
		}
	}
}

func TestWhoSaysNoIsNotAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		400: true, 401: true, 403: true, 404: true, 408: false, 429: false, 500: false, 503: false,
	} {
		if got := httpjson.IsRefused(&httpjson.StatusError{Status: status}); got != want {
			t.Errorf("%d: got %t, want %t", status, got, want)
		}
	}
}
