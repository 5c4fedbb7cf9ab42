package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/cofferpay/coffer/client"
)

// A payment as a backend makes it: the backend has stored the key before, and every ending has its
// own consequence.
func Example() {
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, // repeated, with the same key
		func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"withdrawalId":"wd_1","status":"PROCESSING","createdAt":"2026-01-31T12:00:00.000Z"}`)
		},
		func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(
				w,
				`{"error":"The balance is smaller than the amount.","code":"INSUFFICIENT_BALANCE","requestId":"req_1","retryable":false}`,
			)
		},
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answers[0](w)
		answers = answers[1:]
	}))
	defer service.Close()

	coffer, err := client.New(service.URL+"/v1", "ck_example")
	if err != nil {
		panic(err)
	}
	amount, err := client.Units("12.5", 6)
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"payout-991", "payout-992"} {
		w, err := coffer.CreateWithdrawal(context.Background(), client.WithdrawRequest{
			MintID: 1, CustomerID: "user_42", Amount: amount,
			ToAddress: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F", IdempotencyKey: key,
		})
		switch {
		case err == nil:
			fmt.Println(key, "is", w.Status)
		case errors.Is(err, client.ErrOutcomeUnknown):
			fmt.Println(key, "stays open and is repeated later")
		case errors.Is(err, client.InsufficientBalance):
			fmt.Println(key, "is not paid: the balance is too small")
		default:
			fmt.Println(key, "is not paid:", err)
		}
	}
	// Output:
	// payout-991 is PROCESSING
	// payout-992 is not paid: the balance is too small
}
