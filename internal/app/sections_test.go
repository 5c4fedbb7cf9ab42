package app

import (
	"os"
	"path/filepath"
	"testing"
)

// The sections of risk providers, price sources and swap providers are written as they were read, with their
// comments, in one order.
func TestTheSectionsOfProvidersAndSourcesKeepTheirForm(t *testing.T) {
	t.Parallel()
	golden := filepath.Join("testdata", "sections.toml")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := decodeFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "written.toml")
	if err := WriteConfig(written, conf); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("COFFER_UPDATE") != "" {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
