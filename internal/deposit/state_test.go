package deposit

import (
	"testing"

	"github.com/cofferpay/coffer/internal/testing/statediagram"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

func TestTheStatesAreDrawnAsTheTableSays(t *testing.T) {
	t.Parallel()
	var moves []statediagram.Transition
	for _, m := range transitions {
		moves = append(moves, statediagram.Transition{
			From: string(m.from), To: string(m.to), Cause: m.trigger, Event: describeEvent(m.event),
		})
	}
	statediagram.CheckDiagram(t, "states.md", "a deposit", moves)
}

// describeEvent returns the event of a customer's deposit and that of an organization's.
func describeEvent(t event.Type) string {
	if t == "" {
		return ""
	}
	if own := orgEventTypes[t]; own != "" {
		return string(t) + "` or `" + string(own)
	}
	return string(t)
}

func TestEveryStateIsReachedAndEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	for _, s := range []Status{Confirming, Screening, Credited, Reversed, Orphaned, Unsupported, BelowMinimum} {
		reached := false
		for _, m := range transitions {
			reached = reached || m.to == s
		}
		if !reached || auditActions[s] == "" {
			t.Errorf("%s: got reached %v, audited as %q, want both", s, reached, auditActions[s])
		}
	}
}
