package webhook_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// A receiver: it reads the raw body, verifies it, drops known events, and credits its user when a
// deposit is credited and not flagged.
func Example() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // given once, when the endpoint was created
	seen := map[string]bool{}                               // a table with a unique key in a real receiver

	receiver := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		if err := webhook.Verify(body, r.Header, secret, webhook.DefaultTolerance); err != nil {
			http.Error(w, "not from Coffer", http.StatusUnauthorized)
			return
		}
		var event webhook.Envelope
		if err := json.Unmarshal(body, &event); err != nil {
			http.Error(w, "not an event", http.StatusBadRequest)
			return
		}
		if seen[event.ID] {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		switch event.Type {
		case webhook.CustomerDeposit, webhook.CustomerDepositApproved:
			var deposit webhook.Deposit
			if err := json.Unmarshal(event.Data, &deposit); err != nil {
				http.Error(w, "not a deposit", http.StatusBadRequest)
				return
			}
			if event.Type == webhook.CustomerDepositApproved || !deposit.IsFlagged {
				fmt.Printf("credit %s with %s %s\n", *deposit.CustomerID, *deposit.AmountDecimal, deposit.Mint.Symbol)
			}
		}
		seen[event.ID] = true
		w.WriteHeader(http.StatusNoContent)
	}

	// A delivery of Coffer, sent twice.
	body := `{"id":"evt_1","type":"CUSTOMER_DEPOSIT","timestamp":"2026-01-31T12:00:00.000Z","sequence":1,
		"data":{"customerId":"user_42","amountDecimal":"5","isFlagged":false,"createdAt":"2026-01-31T12:00:00.000Z",
		"mint":{"id":1,"symbol":"USDC","decimals":6}}}`
	key, err := webhook.ParseKey(secret)
	if err != nil {
		panic(err)
	}
	for range 2 {
		now := time.Now()
		signature, err := webhook.Sign("evt_1", now, []byte(body), key)
		if err != nil {
			panic(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body))
		r.Header.Set(webhook.HeaderID, "evt_1")
		r.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
		r.Header.Set(webhook.HeaderSignature, signature)
		w := httptest.NewRecorder()
		receiver(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// credit user_42 with 5 USDC
	// 204
	// 204
}

// With the installation's public keys a receiver stores no secret. It fetches them from
// /.well-known/webhook-keys, and again when none of them matches.
func ExampleVerifyAny() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"keys":["whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="]}`)
	}))
	defer service.Close()
	answer, err := http.Get(service.URL + "/.well-known/webhook-keys")
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	var published struct {
		Keys []string `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&published); err != nil {
		panic(err)
	}

	// A delivery: the body, and the headers with the signature.
	body := []byte(`{"id":"evt_1","type":"CUSTOMER_DEPOSIT"}`)
	key, err := webhook.ParseKey("whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
	if err != nil {
		panic(err)
	}
	now := time.Now()
	signature, err := webhook.Sign("evt_1", now, body, key)
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	header.Set(webhook.HeaderID, "evt_1")
	header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(webhook.HeaderSignature, signature)

	fmt.Println(webhook.VerifyAny(body, header, published.Keys, webhook.DefaultTolerance))
	fmt.Println(webhook.VerifyAny([]byte(`{"id":"evt_1","type":"CUSTOMER_WITHDRAW"}`), header, published.Keys, webhook.DefaultTolerance) != nil)
	// Output:
	// <nil>
	// true
}

// A sample of every event is available, to test a receiver without a service.
func ExampleSample() {
	data, ok := webhook.Sample(webhook.CustomerDeposit)
	deposit := data.(webhook.Deposit)
	fmt.Println(ok, deposit.Status, *deposit.AmountDecimal, deposit.Mint.Symbol)
	// Output: true CREDITED 5 USDC
}
