package anvil_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
)

// These tests change the environment and the working directory, so they do not run in parallel with
// others.

func TestFindTakesWhatTheEnvironmentNames(t *testing.T) {
	program := filepath.Join(t.TempDir(), "my-anvil")
	t.Setenv("COFFER_ANVIL", program)
	if _, err := anvil.Find(); err == nil || !strings.Contains(err.Error(), "COFFER_ANVIL") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := anvil.Find(); got != program || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, program)
	}
}

func TestFindLooksUpwardThenInPathThenSaysWhatToDo(t *testing.T) {
	tree := t.TempDir()
	below := filepath.Join(tree, "some", "where")
	bin := filepath.Join(tree, "localchain", "node_modules", "@foundry-rs", "anvil-linux-amd64", "bin")
	elsewhere := t.TempDir()
	for _, dir := range []string{below, bin} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("COFFER_ANVIL", "")
	t.Setenv("PATH", elsewhere)
	t.Chdir(below)
	if _, err := anvil.Find(); err == nil || !strings.Contains(err.Error(), "scripts/setup") {
		t.Errorf("got %v, want an error that says what to run", err)
	}
	for _, program := range []string{filepath.Join(elsewhere, "anvil"), filepath.Join(bin, "anvil")} {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got, err := anvil.Find(); got != program || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, program)
		}
	}
}
