package coingecko

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

func newFakeService(t *testing.T, status int, body string, look func(r *http.Request)) *httpjson.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v3/simple/price" || r.URL.RawQuery != "ids=ethereum%2Cusd-coin&vs_currencies=usd&include_last_updated_at=true" {
			t.Errorf("got %s", r.URL)
		}
		if look != nil {
			look(r)
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
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

var coins = map[int]string{1: "usd-coin", 4: "ethereum", 1001: "ethereum"}

func TestPricesAreReadWithoutLosingADigit(t *testing.T) {
	t.Parallel()
	c := Client{Client: newFakeService(t, 200, `{"ethereum":{"usd":3012.123456789012345678,"last_updated_at":1769860800},"usd-coin":{"usd":9.9981e-1,"last_updated_at":1769860801}}`, func(r *http.Request) {
		if r.Header.Get("x-cg-demo-api-key") != "k" || r.Header.Get("x-cg-pro-api-key") != "" {
			t.Errorf("got %v, want the demo key", r.Header)
		}
	}), Key: seal.NewSecret("k"), Coins: coins}
	got, err := c.FetchAll(t.Context())
	if err != nil || len(got) != 3 || got[4].Price != money.MustParseUSD("3012.123456789012345678") || got[1001].Price != got[4].Price || got[1].Price != money.MustParseUSD("0.99981") || !got[4].QuotedAt.Equal(time.Unix(1769860800, 0)) {
		t.Errorf("got %+v %v, want what was answered", got, err)
	}
	pro := Client{Client: newFakeService(t, 200, `{}`, func(r *http.Request) {
		if r.Header.Get("x-cg-pro-api-key") != "k" || r.Header.Get("x-cg-demo-api-key") != "" {
			t.Errorf("got %v, want the paid key", r.Header)
		}
	}), Key: seal.NewSecret("k"), Pro: true, Coins: coins}
	if got, err := pro.FetchAll(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("nothing priced: got %+v %v, want nothing", got, err)
	}
}

// Rule PRICE-1.
func TestWhatIsNoPriceIsMissing(t *testing.T) {
	t.Parallel()
	for coin, ok := range map[string]bool{
		`{"usd":3000,"last_updated_at":1769860800}`:  true,
		`{"usd":0,"last_updated_at":1769860800}`:     false,
		`{"usd":-3000,"last_updated_at":1769860800}`: false,
		`{"usd":null,"last_updated_at":1769860800}`:  false,
		`{"usd":3000}`:                                                         false,
		`{"usd":3000,"last_updated_at":null}`:                                  false,
		`{"usd":3000,"last_updated_at":0}`:                                     false,
		`{"usd":3000,"last_updated_at":1.5}`:                                   false,
		`{"usd":3000,"last_updated_at":99999999999999}`:                        false,
		`{"usd":"3000","last_updated_at":1769860800}`:                          false,
		`{"usd":1e40,"last_updated_at":1769860800}`:                            false,
		`{"usd":` + strings.Repeat("9", 70) + `,"last_updated_at":1769860800}`: false,
		`{"eur":3000,"last_updated_at":1769860800}`:                            false,
		`{"usd":3000,"last_updated_at":1769860800,"usd_24h_change":-99.9}`:     false,
		`[]`: false,
	} {
		c := Client{Client: newFakeService(t, 200, `{"ethereum":`+coin+`}`, nil), Coins: coins}
		got, _ := c.FetchAll(t.Context())
		if _, there := got[4]; there != ok {
			t.Errorf("%s: got %+v, want a price %t", coin, got, ok)
		}
	}
	for status, body := range map[int]string{200: `[]`, 429: `{"status":{"error_code":429}}`, 401: `{}`, 500: `{"ethereum":{"usd":3000,"last_updated_at":1769860800}}`} {
		if got, err := (Client{Client: newFakeService(t, status, body, nil), Coins: coins}).FetchAll(t.Context()); err == nil {
			t.Errorf("%d: got %+v, want an error", status, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"ethereum":{"usd":3012.12,"last_updated_at":1769860800}}`, `{"usd-coin":{"usd":1e-5,"last_updated_at":1}}`, `{}`, `[]`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := Client{Coins: coins}.decodeQuotes(httpjson.Reply{Status: 200, Body: body})
		for mintID, q := range got {
			if err != nil || q.Price == (money.USD{}) || q.QuotedAt.Unix() <= 0 || coins[mintID] == "" {
				t.Fatalf("%q: got %+v %v", body, got, err)
			}
		}
	})
}
