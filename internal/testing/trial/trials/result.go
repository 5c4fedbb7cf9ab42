package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// outcomes of a suite.
const (
	passed   = "passed"
	failed   = "FAILED"
	brokeOff = "broke off" // it ended before its summary, so it has no result
)

// result is what a suite came to at one commit.
type result struct {
	Suite     string    `json:"suite"`
	Commit    string    `json:"commit"`
	Command   string    `json:"command"`
	IsWhole   bool      `json:"isWhole"`
	Outcome   string    `json:"outcome"`
	Summary   string    `json:"summary"`
	Seed      string    `json:"seed,omitempty"`
	StartedAt time.Time `json:"startedAt"`
	Seconds   int64     `json:"seconds"`
	Machine   string    `json:"machine"`
	Versions  string    `json:"versions"`
}

// answers says whether the result makes another run of the suite needless: it did the same work,
// or all that there is.
func (r result) answers(s suite) bool {
	if r.Outcome == brokeOff {
		return false
	}
	return r.IsWhole || r.Command == commandText(s)
}

// loadResult returns the result of a suite. ok is false when there is none.
func loadResult(dir, commit, name string) (r result, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return result{}, false, nil
	}
	if err != nil {
		return result{}, false, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return result{}, false, fmt.Errorf("%s.json in %s: %w", name, dir, err)
	}
	if r.Suite != name || r.Commit != commit {
		return result{}, false, fmt.Errorf("%s.json in %s is of suite %q and commit %q", name, dir, r.Suite, r.Commit)
	}
	return r, true, nil
}

// saveResult leaves the whole result or none, whenever a crash comes.
func saveResult(dir string, r result) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(dir, filepath.Join(dir, r.Suite+".json"), append(text, '\n'))
}

// writeWhole writes a file in dir and then moves it to its place.
func writeWhole(dir, name string, text []byte) (err error) {
	f, err := os.CreateTemp(dir, filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error that is returned says more
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
