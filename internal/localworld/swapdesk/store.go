package swapdesk

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cofferpay/coffer/internal/chain"
)

// identity is what makes a desk the same one after a restart.
type identity struct {
	Seed Seed `json:"seed"` // of its wallets
	Key  Seed `json:"key"`  // of its quotes
}

// cursor is the last block of a chain that was read.
type cursor struct {
	Chain  chain.Name `json:"chain"`
	Height uint64     `json:"height"`
}

// record is a line of the state file: one of its members. A later record of the same thing replaces it.
type record struct {
	Identity *identity `json:"identity,omitempty"`
	Swap     *swap     `json:"swap,omitempty"`
	Cursor   *cursor   `json:"cursor,omitempty"`
	Settings *settings `json:"settings,omitempty"`
}

// store appends records to the state file. A line is whole or absent: a crash in the middle of a line leaves
// one without an end, which the next start removes.
type store struct {
	file *os.File
	err  error // why a record could not be written; nothing is written or done after it
}

// openStore reads the state file, or makes it with a new identity, and writes it anew without replaced
// records.
func openStore(path string, restore func(record)) (*store, identity, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, identity{}, fmt.Errorf("read the swap provider's state: %w", err)
	}
	stored, records, err := readRecords(text)
	if err != nil {
		return nil, identity{}, fmt.Errorf("read %s: %w", path, err)
	}
	if stored == nil {
		stored = new(identity)
		_, _ = rand.Read(stored.Seed[:]) // never returns an error
		_, _ = rand.Read(stored.Key[:])
	}
	lines, err := encodeRecords(append([]record{{Identity: stored}}, records...))
	if err != nil {
		return nil, identity{}, err
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, lines, 0o600); err != nil {
		return nil, identity{}, fmt.Errorf("write the swap provider's state: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, identity{}, fmt.Errorf("write the swap provider's state: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, identity{}, fmt.Errorf("open the swap provider's state: %w", err)
	}
	for _, r := range records {
		restore(r)
	}
	return &store{file: file}, *stored, nil
}

// readRecords returns the newest record of everything, in the order of the oldest ones.
func readRecords(text []byte) (stored *identity, records []record, err error) {
	indexes := map[string]int{}
	lines := bytes.Split(text, []byte("\n"))
	for number, line := range lines[:len(lines)-1] { // the last one has no end
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", number+1, err)
		}
		key := ""
		switch {
		case r.Identity != nil:
			stored = r.Identity
			continue
		case r.Swap != nil:
			key = "swap " + r.Swap.DepositAddress
		case r.Cursor != nil:
			key = "cursor " + string(r.Cursor.Chain)
		}
		if index, isKnown := indexes[key]; isKnown {
			records[index] = r
			continue
		}
		indexes[key] = len(records)
		records = append(records, r)
	}
	return stored, records, nil
}

func encodeRecords(records []record) ([]byte, error) {
	var lines bytes.Buffer
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode the swap provider's state: %w", err)
		}
		lines.Write(append(line, '\n'))
	}
	return lines.Bytes(), nil
}

// appendRecords writes records in one write. The desk acts on them only after it.
func (s *store) appendRecords(records ...record) error {
	if s.err != nil {
		return s.err
	}
	lines, err := encodeRecords(records)
	if err == nil {
		_, err = s.file.Write(lines)
	}
	if err != nil {
		// Memory is ahead of the file now.
		s.err = fmt.Errorf("write the swap provider's state: %w", err)
	}
	return s.err
}

func (s *store) closeFile() error { return s.file.Close() }
