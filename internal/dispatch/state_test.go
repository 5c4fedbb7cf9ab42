package dispatch

import (
	"testing"

	"github.com/cofferpay/coffer/internal/states"
)

func TestStatesAreDrawnFromTheTable(t *testing.T) {
	t.Parallel()
	moves := []states.Transition{{To: string(Queued), Cause: "placed by its feature"}}
	for _, m := range transitions {
		moves = append(moves, states.Transition{From: string(m.From), To: string(m.To), Cause: m.Cause})
	}
	states.CheckDiagram(t, "states.md", "an order", moves)
}
