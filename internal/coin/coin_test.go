package coin

import (
	"testing"

	"github.com/cofferpay/coffer/internal/states"
)

func TestStatesAreDrawnFromTheTable(t *testing.T) {
	t.Parallel()
	moves := []states.Move{{To: string(Held), Cause: "its block is final"}, {To: string(Free), Cause: "its block is final, and its deposit is credited with it"}}
	for _, m := range transitions {
		moves = append(moves, states.Move{From: string(m.From), To: string(m.To), Cause: m.Cause})
	}
	states.Drawn(t, "states.md", "a coin", moves)
}
