package trm

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

const lazarus = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96"

var subject = risk.Subject{Chain: chain.Ethereum, Address: lazarus}

// of returns an answer with these indicators and entities.
func of(indicators, entities string) string {
	return `[{"accountExternalId":null,"address":"` + strings.ToLower(lazarus) + `","addressSubmitted":"` + lazarus +
		`","chain":"ethereum",
		"addressRiskIndicators":[` + indicators + `],"entities":[` + entities + `],"trmAppUrl":"https://my.trmlabs.com/address/x/eth"}]`
}

func indicates(level, kind string) string {
	return `{"category":"Sanctions","categoryId":"69","categoryRiskScoreLevel":` + level +
		`,"categoryRiskScoreLevelLabel":"L","incomingVolumeUsd":"0.00","outgoingVolumeUsd":"1.5","totalVolumeUsd":"1.5","riskType":"` + kind + `"}`
}

func is(level, name string) string {
	return `{"category":"Hacked or Stolen Funds","categoryId":"35","entity":` + name + `,"riskScoreLevel":` + level +
		`,"riskScoreLevelLabel":"L","trmAppUrl":"https://my.trmlabs.com/entities/x","trmUrn":"/entity/x"}`
}

func service(t *testing.T, status int, kind, body string) *httpjson.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		sent, _ := io.ReadAll(r.Body)
		if user != "k" || password != "k" && password != "" || r.Method != "POST" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s as %s", r.Method, user)
		}
		if want := `[{"address":"` + lazarus + `","chain":"ethereum"}]`; r.URL.Path == "/public/v2/screening/addresses" &&
			string(sent) != want {
			t.Errorf("got %s, want %s", sent, want)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	c, err := httpjson.NewClient(server.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestScreeningSaysWhatItWasAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body          string
		counterparty  int
		want          risk.Severity
		known, direct bool
		score         int // -1: none
		entity        string
	}{
		"nothing against it": {of("", ""), 100, risk.None, true, false, -1, ""},
		"it is severe": {
			of(indicates("15", "OWNERSHIP"), is("15", `"Lazarus Group"`)), 100, risk.Severe, true, true, 100,
			"Lazarus Group",
		},
		"an entity without a name": {of("", is("10", "null")), 100, risk.High, true, true, 66, ""},
		"the worst of several": {
			of(indicates("1", "OWNERSHIP")+","+indicates("5", "OWNERSHIP"), is("1", `"Some Exchange"`)), 100,
			risk.Medium, true, true, 33, "Some Exchange",
		},
		"the worst entity is named": {
			of("", is("1", `"Exchange"`)+","+is("15", `"Mixer"`)+","+is("5", `"Shop"`)), 100, risk.Severe, true, true,
			100, "Mixer",
		},
		"it dealt with severe": {
			of(indicates("15", "COUNTERPARTY"), ""), 100, risk.Severe, true, false, 100, "",
		},
		"dealings count half": {
			of(indicates("15", "COUNTERPARTY"), ""), 50, risk.Medium, true, false, 53, "",
		},
		"dealings count a little": {of(indicates("1", "COUNTERPARTY"), ""), 1, risk.Low, true, false, 6, ""},
		"dealings do not count": {
			of(indicates("15", "COUNTERPARTY"), ""), 0, risk.None, true, false, -1, "",
		},
		"what it is counts whole": {of(indicates("15", "OWNERSHIP"), ""), 0, risk.Severe, true, true, 100, ""},
		"it does not know":        {of("", is("0", "null")), 100, risk.Unknown, false, false, -1, ""},
		"it does not know all": {
			of(indicates("0", "OWNERSHIP")+","+indicates("10", "COUNTERPARTY"), ""), 100, risk.High, false, false, 66,
			"",
		},
		"a level that is written as 15.0": {
			of(indicates("15.0", "OWNERSHIP"), ""), 100, risk.Severe, true, true, 100, "",
		},
		"more than the level of an entity": {
			of(indicates("10", "OWNERSHIP"), is("5", `"A"`)), 100, risk.High, true, true, 66, "A",
		},
	} {
		s := Screening{
			Client: service(t, 201, "application/json", c.body), Key: seal.NewSecret("k"),
			CounterpartyPercent: c.counterparty,
		}
		v, err := s.Screen(t.Context(), subject)
		if err != nil || v.Severity != c.want || v.IsKnown != c.known || v.Direct != c.direct || v.Entity != c.entity ||
			(v.Score == nil) != (c.score < 0) || v.Score != nil && *v.Score != c.score {
			t.Errorf("%s: got %+v %v, want %s", name, v, err, c.want)
		}
	}
	s := Screening{
		Client: service(t, 200, "application/json", of("", "")), Key: seal.NewSecret("k"), EmptyPassword: true,
		CounterpartyPercent: 100,
	}
	if _, err := s.Screen(t.Context(), subject); err != nil {
		t.Errorf("without a password: got %v", err)
	}
}

// Rule RISK-4.
func TestWhatIsNoAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		kind, body string
	}{
		"another address":       {200, "application/json", strings.Replace(of("", ""), "0x098b", "0x198b", 1)},
		"another was submitted": {200, "application/json", strings.Replace(of("", ""), "0x098B", "0x198B", 1)},
		"another chain":         {200, "application/json", strings.Replace(of("", ""), `"ethereum"`, `"polygon"`, 1)},
		"no chain":              {200, "application/json", strings.Replace(of("", ""), `"chain":"ethereum",`, ``, 1)},
		"no answers":            {200, "application/json", `[]`},
		"two answers": {
			200, "application/json", `[` + strings.Trim(of("", ""), "[]") + `,` + strings.Trim(of("", ""), "[]") + `]`,
		},
		"null":      {200, "application/json", `null`},
		"an object": {200, "application/json", `{}`},
		"no indicators": {200, "application/json", strings.Replace(of("", ""), `"addressRiskIndicators":[]`,
			`"addressRiskIndicators":null`, 1)},
		"no entities":             {200, "application/json", strings.Replace(of("", ""), `,"entities":[]`, ``, 1)},
		"a level of 7":            {200, "application/json", of(indicates("7", "OWNERSHIP"), "")},
		"a level of -1":           {200, "application/json", of(indicates("-1", "OWNERSHIP"), "")},
		"a level with a fraction": {200, "application/json", of(indicates("14.9", "OWNERSHIP"), "")},
		"a level as text":         {200, "application/json", of(indicates(`"15"`, "OWNERSHIP"), "")},
		"a level of null":         {200, "application/json", of(indicates("null", "OWNERSHIP"), "")},
		"another kind":            {200, "application/json", of(indicates("1", "BEHAVIORAL"), "")},
		"a member of tomorrow": {200, "application/json", strings.Replace(of("", ""), `"trmAppUrl"`,
			`"riskScoreV3":15,"trmAppUrl"`, 1)},
		"400":                {400, "application/json", `{"code":400,"name":"BadRequest"}`},
		"401":                {401, "application/json", `{"code":401}`},
		"429":                {429, "application/json", `{"code":429}`},
		"500 with an answer": {500, "application/json", of("", "")},
		"202 with an answer": {202, "application/json", of("", "")},
		"HTML":               {200, "text/html", of("", "")},
	} {
		s := Screening{Client: service(t, c.status, c.kind, c.body), Key: seal.NewSecret("k"), CounterpartyPercent: 100}
		if v, err := s.Screen(t.Context(), subject); !errors.Is(err, risk.ErrUnavailable) {
			t.Errorf("%s: got %+v %v, want unavailable", name, v, err)
		}
	}
	s := Screening{Client: service(t, 200, "application/json", of("", "")), Key: seal.NewSecret("k")}
	if _, err := s.Screen(
		t.Context(), risk.Subject{Chain: "DOGECOIN", Address: lazarus},
	); !errors.Is(err, risk.ErrUnavailable) || s.Covers("DOGECOIN") {
		t.Errorf("another chain: got %v, want unavailable", err)
	}
}

func TestTheFreeListSaysOnOrOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want risk.Severity // "": unavailable
	}{
		"on it":           {`[{"address":"` + lazarus + `","isSanctioned":true}]`, risk.Severe},
		"not on it":       {`[{"address":"` + strings.ToLower(lazarus) + `","isSanctioned":false}]`, risk.None},
		"another address": {`[{"address":"0x198B716B8Aaf21512996dC57EB0615e2383E2f96","isSanctioned":false}]`, ""},
		"no word":         {`[{"address":"` + lazarus + `"}]`, ""},
		"null":            {`[{"address":"` + lazarus + `","isSanctioned":null}]`, ""},
		"a text":          {`[{"address":"` + lazarus + `","isSanctioned":"false"}]`, ""},
		"nobody":          {`[]`, ""},
		"two": {
			`[{"address":"` + lazarus + `","isSanctioned":false},{"address":"` + lazarus + `","isSanctioned":true}]`,
			"",
		},
		"more": {`[{"address":"` + lazarus + `","isSanctioned":false,"lists":["OFAC"]}]`, ""},
	} {
		v, err := Sanctions{service(t, 201, "application/json", c.body), seal.NewSecret("k")}.Screen(t.Context(),
			subject)
		if c.want == "" && !errors.Is(err, risk.ErrUnavailable) ||
			c.want != "" && (err != nil || v.Severity != c.want || !v.IsKnown) {
			t.Errorf("%s: got %+v %v, want %q", name, v, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		of("", ""), of(indicates("15", "OWNERSHIP"), is("15", `"A"`)), of(indicates("0", "COUNTERPARTY"), ""),
		`[{"address":"` + lazarus + `","isSanctioned":false}]`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reply := httpjson.Reply{Status: 200, Body: body}
		if v, err := (Screening{CounterpartyPercent: 100}).decodeScreening(reply, subject); err == nil {
			named := strings.Contains(strings.ToLower(string(body)), strings.ToLower(lazarus[2:])) ||
				strings.Contains(string(body), `\u`)
			if !named || v.IsKnown == (v.Severity == risk.Unknown) && v.IsKnown ||
				v.Score != nil && (*v.Score < 1 || *v.Score > 100) {
				t.Fatalf("%q: got %+v", body, v)
			}
		}
		if v, err := decodeSanctions(reply, subject); err == nil && v.Severity != risk.None &&
			v.Severity != risk.Severe {
			t.Fatalf("%q: got %+v", body, v)
		}
	})
}
