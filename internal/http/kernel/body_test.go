package kernel

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cofferpay/coffer/internal/fault"
)

// payment and endpoint have every kind of field that a body of a surface has.
type (
	payment struct {
		MintID          int                `json:"mintId"`
		CustomerID      string             `json:"customerId"`
		Amount          string             `json:"amount"`
		ToAddress       string             `json:"toAddress"`
		UseDecimal      bool               `json:"useDecimal,omitempty"`
		RequireApproval bool               `json:"requireApproval,omitempty"`
		IdempotencyKey  *string            `json:"idempotencyKey,omitempty"`
		Memo            *string            `json:"memo,omitempty"`
		Metadata        *map[string]string `json:"metadata,omitempty"`
		TravelRule      *json.RawMessage   `json:"travelRule,omitempty"`
	}
	endpoint struct {
		URL     string    `json:"url"`
		Events  *[]string `json:"events,omitempty"`
		Filters *filters  `json:"filters,omitempty"`
	}
	filters struct {
		Chain *string `json:"chain,omitempty"`
	}
)

// FuzzDecode promises that no body makes decoding panic or fail with anything but a refusal. What
// it accepts means one thing: printed and decoded again it is the same request.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"mintId":1,"customerId":"a","amount":"1","toAddress":"0x"}`,
		`{"mintId":1,"customerId":"a","amount":"1","toAddress":"0x","useDecimal":true,"requireApproval":false,"metadata":{"a":"b"},"memo":null}`,
		`{"mintId":1.0,"Amount":"1"}`, `{"amount":1}`, `[]`, `null`, ``, `{"a":1,"a":2}`, "\xef\xbb\xbf{}",
		`{"metadata":{"a":null}}`, `{"idempotencyKey":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var first payment
		if err := decodeBody(body, &first); err != nil {
			if got := fault.Find(err); got == nil {
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
		var again payment
		if err := decodeBody(printed, &again); err != nil {
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
		var got endpoint
		if err := decodeBody(body, &got); err != nil && fault.Find(err) == nil {
			t.Fatalf("got %v, want a refusal", err)
		}
	})
}

// A body that the network lost is refused also where it may be left out: what it would have said is
// not known.
func TestABodyThatDidNotArriveIsNoMissingBody(t *testing.T) {
	t.Parallel()
	for _, optional := range []bool{false, true} {
		for _, arrived := range []string{"", `{"note":`} {
			lost := io.MultiReader(strings.NewReader(arrived), iotest.ErrReader(io.ErrUnexpectedEOF))
			r := httptest.NewRequest(http.MethodPost, "/", lost)
			r.Header.Set("Content-Type", "application/json")
			body, err := Route{Optional: optional}.readBody(httptest.NewRecorder(), r)
			if !fault.HasCode(err, fault.InvalidJSON) {
				t.Errorf("%q of an optional (%v) body: got %q and %v, want it refused", arrived, optional, body, err)
			}
		}
	}
}
