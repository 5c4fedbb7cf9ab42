package cli

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	findProgram = func() (string, error) { return exec.LookPath("coffer") }
	testscript.Main(m, map[string]func(){
		"coffer": func() { os.Exit(Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// The commands as a person types them, in folders of their own.
func TestTheCommandLineDoesAsItsScriptsSay(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
