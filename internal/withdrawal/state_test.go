package withdrawal

import (
	"testing"

	"github.com/cofferpay/coffer/internal/states"
)

func TestStatesAreDrawnFromTheTable(t *testing.T) {
	t.Parallel()
	var moves []states.Transition
	for _, m := range transitions {
		moves = append(
			moves,
			states.Transition{From: string(m.From), To: string(m.To), Cause: m.Cause, Event: string(m.Event)},
		)
	}
	states.CheckDiagram(t, "states.md", "a withdrawal", moves)
}
