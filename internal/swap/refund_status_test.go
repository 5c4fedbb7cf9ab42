package swap

import (
	"testing"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// Rule SWAP-50.
func TestTheRefundStatusFollowsFromWhatCameBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                      string
		refunded, restored, short uint64
		said                      provider.RefundReport
		want                      RefundStatus
	}{
		{"nothing is said", 0, 0, 0, provider.RefundNone, RefundNone},
		{"a refund is announced", 0, 0, 0, provider.RefundPending, RefundPending},
		{"there will be none", 0, 0, 0, provider.RefundUnavailable, RefundUnavailable},
		{"a person decides", 0, 0, 0, provider.RefundManual, RefundManual},
		{"a part came back", 60, 0, 0, provider.RefundNone, RefundPartial},
		{"blocks count more than words", 60, 0, 0, provider.RefundUnavailable, RefundPartial},
		{"all came back", 100, 0, 0, provider.RefundPending, RefundComplete},
		{"all but what the provider keeps", 97, 0, 3, provider.RefundNone, RefundComplete},
		{"the customer has it", 97, 97, 3, provider.RefundNone, RefundRestored},
		{"the customer has the part that came back", 60, 60, 0, provider.RefundNone, RefundRestored},
		{"more came back than was restored", 90, 60, 0, provider.RefundNone, RefundPartial},
	} {
		w := Swap{
			AmountIn: money.Units(100), Refunded: money.Units(c.refunded), Restored: money.Units(c.restored),
			Short: money.Units(c.short), RefundReport: c.said,
		}
		if got := w.RefundStatus(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if got := w.RefundedAmount(); (got == nil) != (c.refunded == 0) || got != nil && *got != w.Refunded {
			t.Errorf("%s: got %v refunded, want %d or nil", c.name, got, c.refunded)
		}
	}
}
