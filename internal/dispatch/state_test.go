package dispatch

import (
	"testing"

	"github.com/cofferpay/coffer/internal/states"
)

func TestStatesAreDrawnFromTheTable(t *testing.T) {
	t.Parallel()
	moves := []states.Move{{To: string(Queued), Cause: "placed by its feature"}}
	for _, m := range transitions {
		moves = append(moves, states.Move{From: string(m.From), To: string(m.To), Cause: m.Cause})
	}
	states.Drawn(t, "states.md", "an order", moves)
}
