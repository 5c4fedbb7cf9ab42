package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/testing/trial/commit"
)

// keptResults are the defects that the tests of one commit have caught, in a file that every
// verdict is added to at once. Safe for concurrent use.
type keptResults struct {
	root, commit string // commit is empty when the work tree is of no commit: nothing is kept

	mu     sync.Mutex
	file   *os.File
	caught map[string]keptLine // by the hash of the defect
}

// keptLine is one line of the file.
type keptLine struct {
	Name         string    `json:"name"`
	Hash         string    `json:"hash"`
	Finder       string    `json:"finder"`
	Milliseconds int64     `json:"milliseconds"`
	PlantedAt    time.Time `json:"plantedAt"`
}

func openKept(ctx context.Context, root string) (*keptResults, error) {
	k := &keptResults{root: root, caught: map[string]keptLine{}}
	id, err := commit.Find(ctx, root)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: a run that is cut starts again from the beginning: %v\n", err)
		return k, nil
	}
	k.commit = id
	name := filepath.Join(commit.Dir(root, id), "mutants.jsonl")
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var l keptLine
		if json.Unmarshal(line, &l) == nil { // an interrupted write leaves a part of a line
			k.caught[l.Hash] = l
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	if k.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		_, err = k.file.WriteString("\n")
	}
	return k, err
}

// find returns the result of an earlier run of this commit that caught the defect.
func (k *keptResults) find(d defect) (result, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.caught[d.contentHash()]
	if !ok {
		return result{}, false
	}
	took := time.Duration(l.Milliseconds) * time.Millisecond
	return result{defect: d, finder: l.Finder, took: took, plantedAt: l.PlantedAt}, true
}

// add keeps a result when a test has caught the defect. What no test caught is planted again.
func (k *keptResults) add(ctx context.Context, r result) error {
	if k.commit == "" || !r.isCaught() {
		return nil
	}
	if now, err := commit.Find(ctx, k.root); err != nil || now != k.commit {
		return fmt.Errorf("the work tree changed since the run began, at commit %s", k.commit)
	}
	l := keptLine{
		Name: r.name, Hash: r.contentHash(), Finder: r.finder,
		Milliseconds: r.took.Milliseconds(), PlantedAt: r.plantedAt,
	}
	line, err := json.Marshal(l)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("keep the result of %s: %w", r.name, err)
	}
	k.caught[l.Hash] = l
	return nil
}

func (k *keptResults) close() {
	if k.file != nil {
		_ = k.file.Close() // every line was written at once
	}
}
