package elliptic

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

const lazarus = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96"

var (
	subject = risk.Subject{Chain: chain.Ethereum, Address: lazarus}
	secret  = base64.StdEncoding.EncodeToString([]byte("the secret of the vendor"))
	at      = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
)

func of(score, clusters string) string {
	return `{"id":"1","type":"wallet_exposure","subject":{"asset":"holistic","blockchain":"holistic","type":"address","hash":"` + lazarus + `"},
		"risk_score":` + score + `,"risk_score_detail":{"source":` + score + `,"destination":null},"cluster_entities":[` + clusters + `],
		"evaluation_detail":{"source":[{"rule_id":"r","rule_name":"Sanctions","risk_score":10,"matched_elements":[],"rule_type":"exposure"}],"destination":[]},
		"contributions":{},"process_status":"complete","workflow_status":"active","screening_id":"scr_1","customer_reference":"` + strings.ToLower(lazarus) + `"}`
}

func service(t *testing.T, status int, body string) Screener {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte("the secret of the vendor"))
		mac.Write([]byte(r.Header.Get("x-access-timestamp") + "POST/v2/wallet/synchronous" + string(sent)))
		if r.URL.Path != "/v2/wallet/synchronous" || r.Header.Get("x-access-key") != "k" ||
			r.Header.Get("x-access-sign") != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			t.Errorf("got %s with signature %s, want that of the bytes", r.URL.Path, r.Header.Get("x-access-sign"))
		}
		want := `{"subject":{"asset":"holistic","blockchain":"holistic","type":"address","hash":"` + lazarus +
			`"},"type":"wallet_exposure","customer_reference":"` + strings.ToLower(lazarus) + `"}`
		if string(sent) != want {
			t.Errorf("got %s, want %s", sent, want)
		}
		if stamp := r.Header.Get("x-access-timestamp"); stamp != "1769860800" && stamp != "1769860800000" {
			t.Errorf("got a time of %s", stamp)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	c, err := httpjson.NewClient(server.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	return Screener{
		Client: c, Key: seal.NewSecret("k"), Secret: seal.NewSecret(secret), Thresholds: DefaultThresholds,
		Clock: func() time.Time { return at },
	}
}

func TestAScoreIsCutIntoSeverities(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		want  risk.Severity
		score int
	}{
		"0": {risk.None, 0}, "0.0": {risk.None, 0}, "0.001": {risk.Low, 1}, "1.999": {risk.Low, 20},
		"2": {risk.Medium, 20}, "4.99": {risk.Medium, 50},
		"5": {risk.High, 50}, "7.9999999999": {risk.High, 80}, "8": {risk.Severe, 80}, "10": {risk.Severe, 100},
		"1e1": {risk.Severe, 100},
	} {
		v, err := service(t, 200, of(text, "")).Screen(t.Context(), subject)
		if err != nil || v.Severity != c.want || !v.IsKnown || v.Score == nil || *v.Score != c.score ||
			v.Reference != "scr_1" {
			t.Errorf("%s: got %+v %v, want %s and %d", text, v, err, c.want, c.score)
		}
	}
	s := service(t, 200, of(
		"6",
		`{"name":"A","category":"Exchange","is_primary_entity":false,"is_vasp":true,"is_after_sanction_date":null},{"name":"Lazarus","category":"Sanctions","is_primary_entity":true,"is_vasp":false,"is_after_sanction_date":true}`,
	))
	s.Thresholds, s.Milliseconds = Thresholds{big.NewRat(1, 1), big.NewRat(3, 1), big.NewRat(6, 1)}, true
	if v, err := s.Screen(t.Context(), subject); err != nil || v.Severity != risk.Severe || v.Entity != "Lazarus" ||
		!v.Direct || len(v.Categories) != 2 {
		t.Errorf("other cuts: got %+v %v, want SEVERE", v, err)
	}
	for _, bad := range []Thresholds{
		{big.NewRat(0, 1), big.NewRat(3, 1), big.NewRat(6, 1)},
		{big.NewRat(3, 1), big.NewRat(3, 1), big.NewRat(6, 1)},
		{big.NewRat(1, 1), big.NewRat(7, 1), big.NewRat(6, 1)},
		{big.NewRat(1, 1), big.NewRat(3, 1), big.NewRat(11, 1)},
	} {
		if bad.Validate() == nil {
			t.Errorf("%v: got no error, want one", bad)
		}
	}
	if err := DefaultThresholds.Validate(); err != nil {
		t.Error(err)
	}
}

// An owner whom the provider calls a virtual asset service provider holds coins of customers. Rule CO-97.
func TestAVASPThatOwnsTheAddressIsAnExchange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		category, isOwner, isVASP string
		want                      bool
	}{
		{"Custodian", "true", "true", true},
		{"Exchange", "true", "null", true},
		{"Exchange", "false", "true", false},
		{"Wallet", "true", "false", false},
	} {
		cluster := `{"name":"A","category":"` + c.category + `","is_primary_entity":` + c.isOwner +
			`,"is_vasp":` + c.isVASP + `,"is_after_sanction_date":null}`
		v, err := service(t, 200, of("0", cluster)).Screen(t.Context(), subject)
		if err != nil || v.IsExchange() != c.want {
			t.Errorf("%s: got %v %v, want %v", cluster, v.IsExchange(), err, c.want)
		}
	}
}

func TestNoScoreIsUnknown(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Screener{
		"a score of null": service(t, 200, of("null", "")),
		"on no chain yet": service(t, 404, `{"name":"NotInBlockchain"}`),
	} {
		if v, err := s.Screen(t.Context(), subject); err != nil || v.Severity != risk.Unknown || v.IsKnown {
			t.Errorf("%s: got %+v %v, want UNKNOWN", name, v, err)
		}
	}
}

// Rule RISK-4.
func TestWhatIsNoAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"nothing":              {200, `{}`},
		"null":                 {200, `null`},
		"no score":             {200, strings.Replace(of("1", ""), `"risk_score":1,`, ``, 1)},
		"a score of 11":        {200, of("11", "")},
		"a score below 0":      {200, of("-1", "")},
		"a score as text":      {200, of(`"1"`, "")},
		"a score that is true": {200, of("true", "")},
		"many digits":          {200, of("0."+strings.Repeat("0", 70)+"1", "")},
		"running":              {200, strings.Replace(of("1", ""), "complete", "running", 1)},
		"error":                {200, strings.Replace(of("1", ""), "complete", "error", 1)},
		"no status":            {200, strings.Replace(of("1", ""), `"process_status":"complete",`, ``, 1)},
		"an error beside it": {200, strings.Replace(of("1", ""), `"contributions"`,
			`"error":{"message":"m"},"contributions"`, 1)},
		"another address": {200, strings.Replace(of("1", ""), `"hash":"0x098B`, `"hash":"0x198B`, 1)},
		"another reference": {200, strings.Replace(of("1", ""), `"customer_reference":"0x098b`,
			`"customer_reference":"0x198b`, 1)},
		"a member of tomorrow": {200, strings.Replace(of("1", ""), `"contributions"`,
			`"risk_score_v3":10,"contributions"`, 1)},
		"202": {202, of("1", "")},
		"401": {401, `{"message":"Unauthorized"}`},
		"500": {500, of("1", "")},
	} {
		if v, err := service(t, c.status, c.body).Screen(t.Context(), subject); !errors.Is(err, risk.ErrUnavailable) {
			t.Errorf("%s: got %+v %v, want unavailable", name, v, err)
		}
	}
	s := service(t, 200, of("1", ""))
	s.Secret = seal.NewSecret("not base64!")
	if _, err := s.Screen(t.Context(), subject); !errors.Is(err, risk.ErrUnavailable) ||
		strings.Contains(err.Error(), "base64!") {
		t.Errorf("another secret: got %v, want unavailable", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		of("1.5", ""), of("null", ""), of("10", `{"name":"A","category":"B","is_primary_entity":true}`),
		`{"risk_score":0,"process_status":"complete"}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := Screener{Thresholds: DefaultThresholds}.decodeExposure(httpjson.Reply{Status: 200, Body: body},
			subject)
		if err == nil && (v.IsKnown == (v.Severity == risk.Unknown) || v.Score != nil && (*v.Score < 0 ||
			*v.Score > 100) || (v.Score == nil) == v.IsKnown) {
			t.Fatalf("%q: got %+v", body, v)
		}
	})
}
