package deposit

import (
	"testing"

	"github.com/cofferpay/coffer/internal/states"
	"github.com/cofferpay/coffer/webhook"
)

func TestTheStatesAreDrawnAsTheTableSays(t *testing.T) {
	t.Parallel()
	var moves []states.Move
	for _, m := range transitions {
		moves = append(moves, states.Move{From: string(m.from), To: string(m.to), Cause: m.when, Event: drawn(m.event)})
	}
	states.Drawn(t, "states.md", "a deposit", moves)
}

// drawn is the event of a customer's deposit and that of an organization's.
func drawn(t webhook.Type) string {
	if t == "" {
		return ""
	}
	if own := organizations[t]; own != "" {
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
		if !reached || action[s] == "" {
			t.Errorf("%s: got reached %v, audited as %q, want both", s, reached, action[s])
		}
	}
}
