package api

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
)

// FuzzDecode promises that no body makes decoding panic or fail with anything
// but a refusal, and that what it accepts means one thing: printed again and
// read again it is the same request.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"mintId":1,"customerId":"a","amount":"1","toAddress":"0x"}`,
		`{"mintId":1,"customerId":"a","amount":"1","toAddress":"0x","useDecimal":true,"requireApproval":false,"metadata":{"a":"b"},"memo":null}`,
		`{"mintId":1.0,"Amount":"1"}`, `{"amount":1}`, `[]`, `null`, ``, `{"a":1,"a":2}`, "\xef\xbb\xbf{}", `{"metadata":{"a":null}}`, `{"idempotencyKey":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var first WithdrawRequest
		if err := decode(body, &first); err != nil {
			if got := fault.Of(err); got == nil || got.Message == "" {
				t.Fatalf("got %v, want a refusal", err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q was accepted and is no JSON", body)
		}
		printed, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		var again WithdrawRequest
		if err := decode(printed, &again); err != nil {
			t.Fatalf("%s came from an accepted body: got %v", printed, err)
		}
		if !reflect.DeepEqual(first, again) {
			t.Fatalf("got %+v, want %+v", again, first)
		}
	})
}

// FuzzDecodeEndpoint is FuzzDecode for a body with a list.
func FuzzDecodeEndpoint(f *testing.F) {
	f.Add([]byte(`{"url":"https://example.com","events":["CUSTOMER_DEPOSIT"],"description":"x"}`))
	f.Add([]byte(`{"url":"","events":[null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got EndpointRequest
		if err := decode(body, &got); err != nil && fault.Of(err) == nil {
			t.Fatalf("got %v, want a refusal", err)
		}
	})
}
