package surfacetest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

// FuzzWithdraw promises that no body is answered with an internal error or with something that the
// document does not have.
func FuzzWithdraw(f *testing.F) {
	for _, seed := range []string{
		`{"mintId":1,"customerId":"alice","amount":"10","toAddress":"` + stranger + `"}`,
		`{"mintId":1,"customerId":"alice","amount":"0.00001","useDecimal":true,"toAddress":"` + stranger +
			`","idempotencyKey":"k","reference":"r","metadata":{"a":"b"}}`,
		`{"mintId":2,"customerId":"\u0000","amount":"1","toAddress":"\u0000"}`,
		`{"mintId":2147483648,"customerId":"a","amount":"115792089237316195423570985008687907853269984665640564039457584007913129639935","toAddress":"0x"}`,
	} {
		f.Add([]byte(seed))
	}
	h := newTestEnv(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		mine := *h
		mine.t = t
		if got := mine.call(h.one, "POST", "/withdraw", string(body)); got.status != 202 &&
			(got.status < 400 || got.status > 499) {
			t.Errorf("got %v %s, want a withdrawal or a refusal", got.status, got.raw)
		}
	})
}

// FuzzQuery promises the same for a query.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"",
		"limit=5&order=asc", "status=FAILED&customerId=%00", "cursor=AQAA", "createdAfter=2026-01-31T12:00:00Z",
		"a=1;b=2", "limit=%ff",
	} {
		f.Add(seed)
	}
	h := newTestEnv(f)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", h.server.URL+kernel.PathPrefix+"/withdrawals", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = strings.Map(func(c rune) rune {
			if c <= ' ' || c >= 0x7f || c == '#' {
				return -1 // the client would not send it
			}
			return c
		}, text)
		r.Header.Set("x-api-key", h.one.key)
		mine := *h
		mine.t = t
		if got := mine.send(r); got.status != 200 && got.status != 400 {
			t.Errorf("got %v %s, want a list or a refusal", got.status, got.raw)
		}
	})
}
