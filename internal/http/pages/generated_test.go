package pages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed Go files are those that templ draws from the templates. COFFER_UPDATE=1 writes them.
func TestTheDrawnComponentsAreTheCommittedOnes(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	templates, err := filepath.Glob(filepath.Join(root, "internal", "*", "*", "*.templ"))
	if err != nil {
		t.Fatal(err)
	}
	nested, err := filepath.Glob(filepath.Join(root, "internal", "*", "*", "*", "*.templ"))
	if err != nil {
		t.Fatal(err)
	}
	if templates = append(templates, nested...); len(templates) < 3 {
		t.Fatalf("found %d templates, want all", len(templates))
	}
	for _, template := range templates {
		name, err := filepath.Rel(root, template)
		if err != nil {
			t.Fatal(err)
		}
		// The text has the name of the template as it is given, so the command runs at the root.
		command := exec.CommandContext(
			t.Context(), "go", "tool", "-modfile=tools/go.mod", "templ", "generate", "-f", name, "-stdout",
		)
		command.Dir = root
		var problems bytes.Buffer
		command.Stderr = &problems
		drawn, err := command.Output()
		if err != nil {
			t.Fatalf("draw %s: %v: %s", name, err, problems.String())
		}
		file := template[:len(template)-len(".templ")] + "_templ.go"
		if os.Getenv("COFFER_UPDATE") != "" {
			if err := os.WriteFile(file, drawn, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		committed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(drawn, committed) {
			t.Errorf("%s is not what templ draws from %s: run make generate", file, name)
		}
	}
}
