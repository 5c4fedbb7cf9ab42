package checkout

import (
	"testing"

	"github.com/cofferpay/coffer/internal/testing/statediagram"
)

// The drawing is the table. Rule CO-83.
func TestTheStatesOfARefundAreDrawn(t *testing.T) {
	t.Parallel()
	var moves []statediagram.Transition
	for _, tr := range refundTransitions {
		moves = append(moves, statediagram.Transition{
			From: string(tr.From), To: string(tr.To), Cause: tr.Cause, Event: tr.Event,
		})
	}
	statediagram.CheckDiagram(t, "refund_states.md", "a refund", moves)
}

// Once it is paid, cancelled or expired, a refund stays so. A payment that is sent is never cancelled from here.
func TestARefundEndsOnce(t *testing.T) {
	t.Parallel()
	for _, from := range RefundStatuses {
		for _, next := range RefundStatuses {
			if !from.isOpen() && isRefundTransition(from, next) {
				t.Errorf("%s can become %s", from, next)
			}
		}
		if isRefundTransition(from, RefundCompleted) != (from == RefundSent) {
			t.Errorf("%s can be completed", from)
		}
	}
	if isRefundTransition(RefundSent, RefundCancelled) || isRefundTransition(RefundSent, RefundExpired) {
		t.Error("a refund that is sent can end without its payment")
	}
}
