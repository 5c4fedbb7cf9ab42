package utxo

import (
	"testing"

	"github.com/cofferpay/coffer/internal/testing/statediagram"
)

func TestStatesAreDrawnFromTheTable(t *testing.T) {
	t.Parallel()
	moves := []statediagram.Transition{{To: string(Held), Cause: "its block is final"}, {
		To: string(Free), Cause: "its block is final, and its deposit is credited with it",
	}}
	for _, m := range transitions {
		moves = append(moves, statediagram.Transition{From: string(m.From), To: string(m.To), Cause: m.Cause})
	}
	statediagram.CheckDiagram(t, "states.md", "a coin", moves)
}
