package outcome

import (
	"testing"

	"github.com/cofferpay/coffer/internal/testing/statediagram"
)

// The drawing is the table.
func TestTheStatesAreDrawn(t *testing.T) {
	t.Parallel()
	var moves []statediagram.Transition
	for _, tr := range transitions {
		moves = append(moves, statediagram.Transition{
			From: string(tr.From), To: string(tr.To), Cause: tr.Cause, Event: tr.Event,
		})
	}
	statediagram.CheckDiagram(t, "states.md", "a checkout", moves)
}

// Nothing leaves COMPLETED, everything else can still become it, and a new checkout is open.
func TestEveryCheckoutCanStillBeCompletedAndNoneIsUncompleted(t *testing.T) {
	t.Parallel()
	for _, from := range Statuses {
		if got := IsTransition(from, Completed); got != (from != Completed) {
			t.Errorf("%s can be completed: %v", from, got)
		}
		if IsTransition(Completed, from) {
			t.Errorf("COMPLETED can become %s", from)
		}
		if got := IsTransition("", from); got != (from == Open) {
			t.Errorf("a new checkout can be %s: %v", from, got)
		}
	}
}
