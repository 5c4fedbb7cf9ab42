package cli

import (
	"encoding/json"
	"testing"

	"github.com/cofferpay/coffer/webhook"
)

// A line about a checkout says how much is paid of how much, and has no address that allows the payer's actions.
func TestAnEventOfACheckoutIsOneLine(t *testing.T) {
	t.Parallel()
	for eventType, want := range map[webhook.Type]string{
		webhook.CheckoutCompleted: "49.99 of 49.99 USD paid, COMPLETED, reference order-77  " +
			"co_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		webhook.CheckoutException: "60.00 of 49.99 USD paid, COMPLETED, reference order-77, OVERPAID  " +
			"co_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	} {
		sample, _ := webhook.Sample(eventType)
		data, err := json.Marshal(sample)
		if err != nil {
			t.Fatal(err)
		}
		got, err := formatEvent(webhook.Envelope{ID: "evt_1", Type: eventType, Data: data})
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", eventType, got, err, want)
		}
	}
}
