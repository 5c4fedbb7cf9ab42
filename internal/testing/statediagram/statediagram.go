// Package statediagram draws the transition tables of features, so that the diagram that a newcomer reads
// is the table that the code obeys. Only tests use it.
package statediagram

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Transition is a row of a transition table. From is "" for the first state, and Event is the event
// that the organization gets, or "".
type Transition struct{ From, To, Cause, Event string }

// CheckDiagram checks that file shows the moves of the object that title names. With
// COFFER_UPDATE=1 in the environment it writes the file instead.
func CheckDiagram(t *testing.T, file, title string, moves []Transition) {
	t.Helper()
	want := renderDiagram(title, moves)
	if os.Getenv("COFFER_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the table says: run make generate and commit it (%v)", file, err)
	}
}

func renderDiagram(title string, moves []Transition) string {
	var b strings.Builder
	fmt.Fprintf(
		&b, "# The states of %s\n\nDrawn from the table in state.go by its test.\n\n```mermaid\nstateDiagram-v2\n",
		title,
	)
	hasExit := map[string]bool{}
	for _, m := range moves {
		hasExit[m.From] = true
	}
	ended := map[string]bool{}
	for _, m := range moves {
		from := m.From
		if from == "" {
			from = "[*]"
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", from, m.To, m.Cause)
		if !hasExit[m.To] && !ended[m.To] {
			ended[m.To] = true
			fmt.Fprintf(&b, "    %s --> [*]\n", m.To)
		}
	}
	b.WriteString("```\n\n| From | To | When | Event |\n|---|---|---|---|\n")
	for _, m := range moves {
		from, event := "`"+m.From+"`", "`"+m.Event+"`"
		if m.From == "" {
			from = ""
		}
		if m.Event == "" {
			event = ""
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", from, m.To, m.Cause, event)
	}
	return b.String()
}
