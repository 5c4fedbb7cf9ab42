package chainalysis

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

const lazarus = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96"

var subject = risk.Subject{Chain: chain.Ethereum, Address: lazarus}

const severe = `{"address":"0x098b716b8aaf21512996dc57eb0615e2383e2f96","risk":"Severe","riskReason":"Identified as Sanctioned Entity",
	"cluster":{"name":"Lazarus Group","category":"sanctioned entity"},"addressType":"PRIVATE_WALLET","status":"COMPLETE","poolMetadata":null,
	"addressIdentifications":[{"name":"SANCTIONS: OFAC SDN Lazarus Group","category":"sanctions","description":"d","url":"https://home.treasury.gov/"}],
	"exposures":[{"category":"stolen funds","value":19829.5}],
	"triggers":[{"category":"mixing","percentage":12.5,"message":"m","ruleTriggered":{"risk":"High","minThreshold":1,"maxThreshold":2.5,"exposureType":"INDIRECT","direction":"OUTGOING"}}]}`

// service answers like the two documented calls.
func service(t *testing.T, get func(w http.ResponseWriter)) *httpjson.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Token") != "k" && r.Header.Get("X-API-Key") != "k":
			answer(w, 401, `{"message":"unauthorized"}`)
		case r.Method == "POST" && r.URL.Path == "/api/risk/v2/entities":
			body, _ := io.ReadAll(r.Body)
			if string(body) != `{"address":"`+lazarus+`"}` {
				t.Errorf("got %s, want the address", body)
			}
			answer(w, 201, `{"address":"`+lazarus+`"}`)
		case r.Method == "GET" && (r.URL.Path == "/api/risk/v2/entities/"+lazarus ||
			r.URL.Path == "/api/v1/address/"+lazarus):
			get(w)
		default:
			t.Errorf("got %s %s", r.Method, r.URL)
			answer(w, 404, `{}`)
		}
	}))
	t.Cleanup(server.Close)
	c, err := httpjson.NewClient(server.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func TestScreeningSaysWhatItWasAnswered(t *testing.T) {
	t.Parallel()
	c := service(t, func(w http.ResponseWriter) { answer(w, 200, severe) })
	v, err := Screening{c, seal.NewSecret("k")}.Screen(t.Context(), subject)
	if err != nil || v.Severity != risk.Severe || !v.IsKnown || !v.Direct || v.Entity != "Lazarus Group" ||
		!slices.Equal(
			v.Categories, []string{"sanctioned entity", "mixing", "sanctions"},
		) || !slices.Equal(v.OwnerCategories, []string{"sanctioned entity", "sanctions"}) ||
		v.Provider != ScreeningName {
		t.Errorf("got %+v %v, want what was answered", v, err)
	}
	for level, want := range map[string]risk.Severity{
		"Severe": risk.Severe, "High": risk.High, "Medium": risk.Medium, "Low": risk.Low,
	} {
		c := service(t, func(w http.ResponseWriter) { answer(w, 200, `{"address":"`+lazarus+`","risk":"`+level+`"}`) })
		if v, err := (Screening{c, seal.NewSecret("k")}).Screen(t.Context(), subject); err != nil ||
			v.Severity != want || !v.IsKnown {
			t.Errorf("%s: got %+v %v, want %s", level, v, err, want)
		}
	}
	unknown := service(t, func(w http.ResponseWriter) { answer(w, 404, `{"message":"not found"}`) })
	if v, err := (Screening{unknown, seal.NewSecret("k")}).Screen(t.Context(), subject); err != nil ||
		v.Severity != risk.Unknown || v.IsKnown {
		t.Errorf("404: got %+v %v, want UNKNOWN", v, err)
	}
}

// Rule RISK-4.
func TestWhatIsNoAnswerOfScreeningIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing":              `{}`,
		"null":                 `null`,
		"a list":               `[]`,
		"another address":      strings.Replace(severe, "0x098b", "0x198b", 1),
		"no address":           `{"risk":"Low"}`,
		"no risk":              `{"address":"` + lazarus + `"}`,
		"risk of null":         `{"address":"` + lazarus + `","risk":null}`,
		"another level":        `{"address":"` + lazarus + `","risk":"None"}`,
		"small letters":        `{"address":"` + lazarus + `","risk":"low"}`,
		"a number":             `{"address":"` + lazarus + `","risk":1}`,
		"still being worked":   `{"address":"` + lazarus + `","risk":"Low","status":"PENDING"}`,
		"a member of tomorrow": `{"address":"` + lazarus + `","risk":"Low","riskV3":"Severe"}`,
		"a message":            `{"message":"Too many requests"}`,
	} {
		c := service(t, func(w http.ResponseWriter) { answer(w, 200, body) })
		if v, err := (Screening{c, seal.NewSecret("k")}).Screen(t.Context(), subject); !errors.Is(
			err, risk.ErrUnavailable,
		) {
			t.Errorf("%s: got %+v %v, want unavailable", name, v, err)
		}
	}
	for name, get := range map[string]func(w http.ResponseWriter){
		"HTML at the edge": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(403)
			_, _ = w.Write([]byte("<html>"))
		},
		"HTML that is not found": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(404)
		},
		"202": func(w http.ResponseWriter) { answer(w, 202, severe) },
		"429": func(w http.ResponseWriter) { answer(w, 429, `{"message":"slow"}`) },
		"500": func(w http.ResponseWriter) { answer(w, 500, severe) },
	} {
		c := service(t, get)
		if v, err := (Screening{c, seal.NewSecret("k")}).Screen(t.Context(), subject); !errors.Is(
			err, risk.ErrUnavailable,
		) {
			t.Errorf("%s: got %+v %v, want unavailable", name, v, err)
		}
		if v, err := (Sanctions{c, seal.NewSecret("k")}).Screen(t.Context(), subject); !errors.Is(
			err, risk.ErrUnavailable,
		) {
			t.Errorf("%s, sanctions: got %+v %v, want unavailable", name, v, err)
		}
	}
	c := service(t, func(w http.ResponseWriter) { answer(w, 200, severe) })
	if _, err := (Screening{c, seal.NewSecret("wrong")}).Screen(t.Context(), subject); !errors.Is(
		err, risk.ErrUnavailable,
	) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong key: got %v, want unavailable, without the key", err)
	}
}

func TestTheFreeListSaysOnOrOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want risk.Severity // "": unavailable
	}{
		"on it": {
			`{"identifications":[{"category":"sanctions","name":"SANCTIONS: OFAC SDN Lazarus Group","description":"d","url":"https://home.treasury.gov/"}]}`,
			risk.Severe,
		},
		"on it somehow": {`{"identifications":[{}]}`, risk.Severe},
		"not on it":     {`{"identifications":[]}`, risk.None},
		"null":          {`{"identifications":null}`, ""},
		"nothing":       {`{}`, ""},
		"an error":      {`{"message":"Forbidden"}`, ""},
		"more":          {`{"identifications":[],"sanctioned":true}`, ""},
		"another type":  {`{"identifications":{}}`, ""},
	} {
		client := service(t, func(w http.ResponseWriter) { answer(w, 200, c.body) })
		v, err := Sanctions{client, seal.NewSecret("k")}.Screen(t.Context(), subject)
		if c.want == "" && !errors.Is(err, risk.ErrUnavailable) ||
			c.want != "" && (err != nil || v.Severity != c.want || !v.IsKnown) {
			t.Errorf("%s: got %+v %v, want %q", name, v, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		severe, `{"identifications":[]}`, `{"identifications":[{"category":"x"}]}`,
		`{"address":"` + lazarus + `","risk":"Low"}`, `null`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reply := httpjson.Reply{Status: 200, Body: body}
		if v, err := decodeEntity(reply, subject, risk.Verdict{Provider: ScreeningName}); err == nil {
			if v.Severity == risk.None || !v.IsKnown || !strings.Contains(strings.ToLower(string(body)), "address") {
				t.Fatalf("%q: got %+v", body, v)
			}
		}
		if v, err := decodeSanctions(reply); err == nil && v.Severity != risk.None && v.Severity != risk.Severe {
			t.Fatalf("%q: got %+v", body, v)
		}
	})
}
