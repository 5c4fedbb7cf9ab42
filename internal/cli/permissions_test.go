package cli

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/cofferpay/coffer/internal/identity"
)

// A new command has to say what it does in the table of permissions, and is refused until then.
// Rule OP-12.
func TestEveryCommandIsAnActionThatATerminalMayTake(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commands{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, command := range parser.Model.Leaves(false) {
		names = append(names, command.Path())
		if err := checkPermission(command); err != nil {
			t.Errorf("%v: write the command into actionCommands", err)
		}
	}
	listed := 0
	for action, commands := range actionCommands {
		listed += len(commands)
		for _, name := range commands {
			if !slices.Contains(names, name) {
				t.Errorf("%s names the command %q, which does not exist", action, name)
			}
		}
	}
	if listed != len(names) {
		t.Errorf("got %d commands in actionCommands, want each of %d once", listed, len(names))
	}
	for _, action := range []identity.Action{identity.RequestWithdrawal, identity.ManageKeys, ""} {
		if identity.PermissionOf(action).AtTerminal() {
			t.Errorf("%q: a terminal may do what only an API key does, or what has no row", action)
		}
	}
}
