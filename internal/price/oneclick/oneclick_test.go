package oneclick

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
)

const (
	ether = `{"assetId":"nep141:eth.omft.near","decimals":18,"blockchain":"eth","symbol":"ETH","price":3012.5,"priceUpdatedAt":"2026-01-31T12:00:00.123Z","coingeckoId":"ethereum"}`
	usdc  = `{"assetId":"nep141:eth-0xa0b8.omft.near","decimals":6,"blockchain":"eth","symbol":"USDC","price":0.99981,"priceUpdatedAt":"2026-01-31T12:00:01Z","contractAddress":"0xa0b8"}`
	other = `{"assetId":"nep141:scam.near","decimals":18,"blockchain":"near","symbol":"ETH","price":0,"priceUpdatedAt":"never"}`
)

var assets = map[int]string{1: "nep141:eth-0xa0b8.omft.near", 4: "nep141:eth.omft.near"}

func newFakeService(t *testing.T, status int, body string) Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v0/tokens" || r.Method != "GET" {
			t.Errorf("got %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	c, err := httpjson.NewClient(server.URL, AnswerBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	return Client{c, assets}
}

func TestAPriceIsOfTheAssetThatIsConfigured(t *testing.T) {
	t.Parallel()
	got, err := newFakeService(t, 200, `[`+other+`,`+ether+`,`+usdc+`]`).FetchAll(t.Context())
	at := time.Date(2026, 1, 31, 12, 0, 0, 123_000_000, time.UTC)
	if err != nil || len(got) != 2 || got[4].Price != money.MustParseUSD("3012.5") || !got[4].QuotedAt.Equal(at) ||
		got[1].Price != money.MustParseUSD("0.99981") {
		t.Errorf("got %+v %v, want what was answered", got, err)
	}
}

// Rule PRICE-1.
func TestWhatIsNoListOfPricesIsAnError(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"an object":            `{"tokens":[` + ether + `]}`,
		"null":                 `null`,
		"two prices of one":    `[` + ether + `,` + ether + `]`,
		"a token without id":   `[` + ether + `,{"price":1}]`,
		"a price as text":      `[{"assetId":"nep141:eth.omft.near","price":"3012.5","priceUpdatedAt":"2026-01-31T12:00:00Z"}]`,
		"a member of tomorrow": `[{"assetId":"nep141:eth.omft.near","price":3012.5,"priceUpdatedAt":"2026-01-31T12:00:00Z","stale":true}]`,
	} {
		if got, err := newFakeService(t, 200, body).FetchAll(t.Context()); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
	if got, err := newFakeService(t, 503, `[`+ether+`]`).FetchAll(t.Context()); err == nil {
		t.Errorf("503: got %+v, want an error", got)
	}
	for name, body := range map[string]string{
		"a price of null": `[{"assetId":"nep141:eth.omft.near","price":null,"priceUpdatedAt":"2026-01-31T12:00:00Z"}]`,
		"a price of 0":    `[{"assetId":"nep141:eth.omft.near","price":0,"priceUpdatedAt":"2026-01-31T12:00:00Z"}]`,
		"a price below 0": `[{"assetId":"nep141:eth.omft.near","price":-1,"priceUpdatedAt":"2026-01-31T12:00:00Z"}]`,
		"no time":         `[{"assetId":"nep141:eth.omft.near","price":1}]`,
		"another time":    `[{"assetId":"nep141:eth.omft.near","price":1,"priceUpdatedAt":"yesterday"}]`,
		"nothing":         `[]`,
	} {
		if got, err := newFakeService(t, 200, body).FetchAll(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%s: got %+v %v, want no price", name, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`[` + ether + `,` + usdc + `,` + other + `]`, `[]`, `{}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := Client{Assets: assets}.decodeQuotes(httpjson.Reply{Status: 200, Body: body})
		for mintID, q := range got {
			if err != nil || q.Price == (money.USD{}) || assets[mintID] == "" {
				t.Fatalf("%q: got %+v %v", body, got, err)
			}
		}
	})
}
