package withdrawal

import (
	"testing"

	"github.com/cofferpay/coffer/internal/testing/statediagram"
)

func TestStatesAreDrawnFromTheTable(t *testing.T) {
	t.Parallel()
	var moves []statediagram.Transition
	for _, m := range transitions {
		moves = append(
			moves,
			statediagram.Transition{From: string(m.From), To: string(m.To), Cause: m.Cause, Event: string(m.Event)},
		)
	}
	statediagram.CheckDiagram(t, "states.md", "a withdrawal", moves)
}
