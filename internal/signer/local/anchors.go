package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// becauseBytesMax bounds why a chain was let begin again.
const becauseBytesMax = 500

// AnchorsFile is where the anchors of the audit log are kept, beside a journal.
func AnchorsFile(journal string) string { return journal + ".anchors" }

// anchors is the open file: one anchor a line, each following the one before. The
// lock of the journal is its lock.
type anchors struct {
	file *os.File

	mu     sync.Mutex
	last   signer.Anchor
	ends   []int64 // ends[n-1] is where anchor n ends in the file
	broken error   // a failed write: nothing is known of the file any more
}

// openAnchors checks all anchors of a journal, and makes the file of one that has
// none. A last line without its end was never acknowledged and is cut off.
func openAnchors(journal string, key keys.AttestKey) (_ *anchors, err error) {
	path := AnchorsFile(journal)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the anchors of the audit log: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the anchors of the audit log: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the anchors %s may be read or written by others: chmod 600 %s", path, path)
	}
	a := &anchors{file: f}
	r := bufio.NewReaderSize(f, lineBytesMax)
	for offset := int64(0); ; {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				if err := f.Truncate(offset); err != nil {
					return nil, fmt.Errorf("cut off the torn last line of the anchors: %w", err)
				}
			}
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: byte %d: %v", path, errAnchors, offset, err)
		}
		one, err := readAnchor(line)
		if err == nil {
			err = one.Follow(a.last)
		}
		if err == nil {
			err = one.Check(key.Public())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: line %d: %v", path, errAnchors, len(a.ends)+1, err)
		}
		a.last = one
		offset += int64(len(line))
		a.ends = append(a.ends, offset)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("sync the anchors of the audit log: %w", err)
	}
	return a, syncDir(filepath.Dir(path))
}

var errAnchors = errors.New("the anchors of the audit log are damaged: restore the file from a copy; " +
	"the database has another one, table audit_anchors")

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the folder of the anchors: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the folder of the anchors: %w", err)
	}
	return nil
}

func readAnchor(line []byte) (a signer.Anchor, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, err
	}
	if !bytes.Equal(append(mustJSON(a), '\n'), line) {
		return a, errors.New("it is not in the form in which it was written")
	}
	return a, nil
}

// add signs a mark behind the last anchor and waits until it is on disk. a.mu is held.
func (a *anchors) add(m signer.Mark, because string, at time.Time, key keys.AttestKey) (signer.Anchor, error) {
	one := signer.Anchor{Mark: m, Number: a.last.Number + 1, At: stamp(at), Because: because}
	if a.last.Number > 0 {
		one.Prev = a.last.Sum()
	}
	one.Signature = key.Anchor(one)
	return one, a.write(one)
}

// write appends an anchor and waits until it is on disk. a.mu is held.
func (a *anchors) write(one signer.Anchor) error {
	if a.broken != nil {
		return a.broken
	}
	line := append(mustJSON(one), '\n')
	_, err := a.file.Write(line)
	if err == nil {
		err = a.file.Sync()
	}
	if err != nil {
		a.broken = fmt.Errorf("write the anchors of the audit log: %w; none is signed until the signer is started again", err)
		return a.broken
	}
	end := int64(len(line))
	if len(a.ends) > 0 {
		end += a.ends[len(a.ends)-1]
	}
	a.last, a.ends = one, append(a.ends, end)
	return nil
}

// Anchor signs where the chain of the audit log stands.
func (s *Signer) Anchor(ctx context.Context, r signer.AnchorRequest) (signer.Anchor, error) {
	if err := ctx.Err(); err != nil {
		return signer.Anchor{}, err
	}
	if no := checkMark(r.Mark); no != nil {
		return signer.Anchor{}, no
	}
	a := s.anchors
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last.Number == 0 {
		if r.After != nil {
			return signer.Anchor{}, refuse(signer.RefusedAnchor, "the database knows an anchor at %d and this signer has signed none: the file %s was lost or exchanged, restore it from a copy", r.After.Position, a.file.Name())
		}
		return a.add(r.Mark, "", s.conf.now(), s.attest)
	}
	if r.Mark == a.last.Mark {
		return a.last, nil
	}
	last := a.last
	switch {
	case r.Chain != last.Chain:
		return signer.Anchor{}, refuse(signer.RefusedAnchor, "the last anchor is of chain %s, and this is %s", last.Chain, r.Chain)
	case r.Position < last.Position:
		return signer.Anchor{}, refuse(signer.RefusedAnchor, "the audit log had %d rows at %s and this mark says %d: the database is older than the anchors, or rows were taken away", last.Position, last.At, r.Position)
	case r.Position == last.Position:
		return signer.Anchor{}, refuse(signer.RefusedAnchor, "the audit log had the hash %s at %d, at %s, and this mark says %s: rows were changed", last.Hash, last.Position, last.At, r.Hash)
	case r.After == nil || *r.After != last.Mark:
		return signer.Anchor{}, refuse(signer.RefusedAnchor, "the last anchor is of %d with the hash %s, at %s, and the chain is said to go on from something else", last.Position, last.Hash, last.At)
	}
	return a.add(r.Mark, "", s.conf.now(), s.attest)
}

// Reanchor lets the chain of the audit log begin again behind one of its anchors, or
// from its beginning, position 0: what an operator does, and nobody over the wire, when
// the database was restored from a backup that is older than the last anchor. The
// anchors of what was lost stay in the file, and count no more.
func (s *Signer) Reanchor(m signer.Mark, because string) (signer.Anchor, error) {
	if no := checkMark(m); no != nil {
		return signer.Anchor{}, no
	}
	if because == "" || len(because) > becauseBytesMax || !utf8.ValidString(because) {
		return signer.Anchor{}, refuse(signer.RefusedMalformed, "because: say why in 1 to %d bytes of UTF-8", becauseBytesMax)
	}
	known := m.Position == 0
	for after := uint64(0); !known; {
		some, err := s.Anchors(context.Background(), after, entriesMax)
		if err != nil {
			return signer.Anchor{}, err
		}
		if len(some) == 0 {
			return signer.Anchor{}, refuse(signer.RefusedAnchor, "nothing was signed of %d with the hash %s, so nothing can begin again there", m.Position, m.Hash)
		}
		known = slices.ContainsFunc(some, func(a signer.Anchor) bool { return a.Mark == m })
		after = some[len(some)-1].Number
	}
	a := s.anchors
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.add(m, because, s.conf.now(), s.attest)
}

// Relearn takes back the anchors that the file has lost, from the copy of the database:
// each is signed by this signer, and follows the one before. It tells how many.
func (s *Signer) Relearn(copied []signer.Anchor) (taken int, err error) {
	a := s.anchors
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range copied {
		if one.Number <= a.last.Number {
			continue
		}
		if err := errors.Join(one.Check(s.attest.Public()), one.Follow(a.last)); err != nil {
			return taken, fmt.Errorf("take back the anchors of the audit log: %w", err)
		}
		if err := a.write(one); err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// Anchors are the anchors on disk after a number, at most 1000.
func (s *Signer) Anchors(ctx context.Context, after uint64, limit int) ([]signer.Anchor, error) {
	if limit <= 0 || limit > entriesMax {
		limit = entriesMax
	}
	a := s.anchors
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return nil, a.broken
	}
	var out []signer.Anchor
	for n := after; n < uint64(len(a.ends)) && len(out) < limit; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var start int64
		if n > 0 {
			start = a.ends[n-1]
		}
		line := make([]byte, a.ends[n]-start)
		if _, err := a.file.ReadAt(line, start); err != nil {
			return nil, fmt.Errorf("read anchor %d of the audit log: %w", n+1, err)
		}
		one, err := readAnchor(line)
		if err == nil && one.Number != n+1 {
			err = errors.New("it has another number")
		}
		if err == nil {
			err = one.Check(s.attest.Public())
		}
		if err != nil {
			return nil, fmt.Errorf("%w: anchor %d: %v", errAnchors, n+1, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func checkMark(m signer.Mark) *signer.Refusal {
	sum, err := hex.DecodeString(m.Hash)
	switch {
	case !word(m.Chain):
		return refuse(signer.RefusedMalformed, "chain: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case err != nil || len(sum) != 32 || hex.EncodeToString(sum) != m.Hash:
		return refuse(signer.RefusedMalformed, "hash: give 64 hexadecimal digits, in lower case")
	case m.Position > 1<<62:
		return refuse(signer.RefusedMalformed, "position: is more than there can be")
	}
	return nil
}
