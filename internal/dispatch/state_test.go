package dispatch

import (
	"testing"

	"github.com/cofferpay/coffer/internal/testing/statediagram"
)

func TestStatesAreDrawnFromTheTable(t *testing.T) {
	t.Parallel()
	moves := []statediagram.Transition{{To: string(Queued), Cause: "placed by its feature"}}
	for _, m := range transitions {
		moves = append(moves, statediagram.Transition{From: string(m.From), To: string(m.To), Cause: m.Cause})
	}
	statediagram.CheckDiagram(t, "states.md", "an order", moves)
}
