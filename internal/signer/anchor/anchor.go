// Package anchor keeps the signed heads of the audit log in a file next to the signer's journal, one
// a line, where no database backup rolls them back.
//
// It never signs a head that goes back, and never acknowledges one that is not on disk. The database
// is older than the anchors, or rows were changed, when it has another head.
//
// A crash leaves whole anchors that the caller may not know, or a torn last line that was never
// acknowledged and that is cut off.
package anchor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/syntax"
)

const (
	lineBytesMax = 1 << 20 // one anchor in the file
	anchorsMax   = 1000    // anchors in one answer
)

// Path returns the path of the audit log's anchors next to a journal.
func Path(journal string) string { return journal + ".anchors" }

// Key signs the anchors, as the attestation key does.
type Key interface {
	SignAnchor(a signer.Anchor) []byte
	PublicKey() ed25519.PublicKey
}

// File is the open file: one anchor per line, each following the one before. The lock of the journal
// protects it too.
type File struct {
	file *os.File
	key  Key
	now  func() time.Time // the time by which anchors are signed

	mu         sync.Mutex
	last       signer.Anchor
	endOffsets []int64 // endOffsets[n-1] is where anchor n ends in the file
	failure    error   // a failed write: the contents of the file are unknown
}

// Open checks all anchors of a journal, and creates the file if there is none. A last
// line without its end was never acknowledged and is cut off.
func Open(journal string, key Key, now func() time.Time) (_ *File, err error) {
	path := Path(journal)
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
		return nil, fmt.Errorf("read the state of the anchors of the audit log: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read or write the anchors %s: chmod 600 %s", path, path)
	}
	a := &File{file: f, key: key, now: now}
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
			return nil, fmt.Errorf("%s: %w: byte %d: %v", path, errDamaged, offset, err)
		}
		anchor, err := parseAnchor(line)
		if err == nil {
			err = anchor.VerifyAfter(a.last)
		}
		if err == nil {
			err = anchor.VerifySignature(key.PublicKey())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: line %d: %v", path, errDamaged, len(a.endOffsets)+1, err)
		}
		a.last = anchor
		offset += int64(len(line))
		a.endOffsets = append(a.endOffsets, offset)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("sync the anchors of the audit log: %w", err)
	}
	return a, syncDir(filepath.Dir(path))
}

var errDamaged = errors.New("the anchors of the audit log are damaged: restore the file from a copy; " +
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

func parseAnchor(line []byte) (a signer.Anchor, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, err
	}
	if !bytes.Equal(encodeLine(a), line) {
		return a, errors.New("it does not have the form in which the signer writes it")
	}
	return a, nil
}

func encodeLine(a signer.Anchor) []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("anchor: cannot encode an anchor: %v", err))
	}
	return append(b, '\n')
}

// signAnchor signs an audit head after the last anchor and waits until it is on disk. a.mu is held.
func (a *File) signAnchor(m signer.AuditHead, reason string) (signer.Anchor, error) {
	anchor := signer.Anchor{
		AuditHead: m, Number: a.last.Number + 1, SignedAt: signer.FormatTime(a.now()), Reason: reason,
	}
	if a.last.Number > 0 {
		anchor.Prev = a.last.ComputeHash()
	}
	anchor.Signature = a.key.SignAnchor(anchor)
	return anchor, a.appendAnchor(anchor)
}

// appendAnchor appends an anchor and waits until it is on disk. a.mu is held.
func (a *File) appendAnchor(anchor signer.Anchor) error {
	if a.failure != nil {
		return a.failure
	}
	line := encodeLine(anchor)
	_, err := a.file.Write(line)
	if err == nil {
		err = a.file.Sync()
	}
	if err != nil {
		a.failure = fmt.Errorf("write the anchors of the audit log: %w; the signer signs none until it is started "+
			"again",
			err)
		return a.failure
	}
	end := int64(len(line))
	if len(a.endOffsets) > 0 {
		end += a.endOffsets[len(a.endOffsets)-1]
	}
	a.last, a.endOffsets = anchor, append(a.endOffsets, end)
	return nil
}

// Close waits for a write in progress and closes the file. atFirst runs before that, unless the file
// was closed or failed before.
func (a *File) Close(atFirst func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure == nil {
		a.failure = errors.New("the signer is closed")
		atFirst()
	}
	return a.file.Close()
}

// SignAnchor signs the head of the audit log's hash chain. Rule AUDIT-3.
func (a *File) SignAnchor(ctx context.Context, r signer.AnchorRequest) (signer.Anchor, error) {
	if err := ctx.Err(); err != nil {
		return signer.Anchor{}, err
	}
	if refusal := syntax.CheckAuditHead(r.AuditHead); refusal != nil {
		return signer.Anchor{}, refusal
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last.Number == 0 {
		if r.Previous != nil {
			return signer.Anchor{}, signer.Refuse(signer.RefusedAnchor,
				"the database has an anchor at %d and this signer has signed none: the file %s was lost or "+
					"exchanged, restore it from a copy",
				r.Previous.Position, a.file.Name())
		}
		return a.signAnchor(r.AuditHead, "")
	}
	if r.AuditHead == a.last.AuditHead {
		return a.last, nil
	}
	last := a.last
	switch {
	case r.Chain != last.Chain:
		return signer.Anchor{}, signer.Refuse(signer.RefusedAnchor, "the last anchor is of chain %s, and this is %s",
			last.Chain, r.Chain)
	case r.Position < last.Position:
		return signer.Anchor{}, signer.Refuse(signer.RefusedAnchor,
			"the audit log had %d rows at %s and this mark has %d: the database is older than the anchors, or rows "+
				"were removed",
			last.Position, last.SignedAt, r.Position)
	case r.Position == last.Position:
		return signer.Anchor{}, signer.Refuse(signer.RefusedAnchor,
			"the audit log had the hash %s at %d, at %s, and this mark has %s: rows were changed", last.Hash,
			last.Position, last.SignedAt, r.Hash)
	case r.Previous == nil || *r.Previous != last.AuditHead:
		return signer.Anchor{}, signer.Refuse(signer.RefusedAnchor,
			"the last anchor is of %d with the hash %s, at %s, and the request continues the chain from another row",
			last.Position, last.Hash, last.SignedAt)
	}
	return a.signAnchor(r.AuditHead, "")
}

// RestartAnchors lets the audit log's chain restart after one of its anchors, or from its
// beginning, position 0. An operator does this on the host, never over the network, when the
// database was restored from a backup that is older than the last anchor. The anchors of the lost
// part stay in the file and no longer count. Rule AUDIT-4.
func (a *File) RestartAnchors(m signer.AuditHead, reason string) (signer.Anchor, error) {
	if refusal := syntax.CheckAuditHead(m); refusal != nil {
		return signer.Anchor{}, refusal
	}
	if refusal := syntax.CheckReason(reason); refusal != nil {
		return signer.Anchor{}, refusal
	}
	found := m.Position == 0
	for lastNumber := uint64(0); !found; {
		page, err := a.AnchorsAfter(context.Background(), lastNumber, anchorsMax)
		if err != nil {
			return signer.Anchor{}, err
		}
		if len(page) == 0 {
			return signer.Anchor{}, signer.Refuse(signer.RefusedAnchor,
				"no anchor of %d with the hash %s was signed, so the chain cannot begin again there",
				m.Position, m.Hash)
		}
		found = slices.ContainsFunc(page, func(a signer.Anchor) bool { return a.AuditHead == m })
		lastNumber = page[len(page)-1].Number
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.signAnchor(m, reason)
}

// RestoreAnchors restores the anchors that the file has lost from the database's copy. Each has to
// be signed by this signer and to follow the one before. It returns their number.
func (a *File) RestoreAnchors(copied []signer.Anchor) (restored int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, anchor := range copied {
		if anchor.Number <= a.last.Number {
			continue
		}
		if err := errors.Join(anchor.VerifySignature(a.key.PublicKey()), anchor.VerifyAfter(a.last)); err != nil {
			return restored, fmt.Errorf("read the anchors of the audit log back: %w", err)
		}
		if err := a.appendAnchor(anchor); err != nil {
			return restored, err
		}
		restored++
	}
	return restored, nil
}

// AnchorsAfter returns the anchors on disk after a number, at most 1000.
func (a *File) AnchorsAfter(ctx context.Context, afterNumber uint64, limit int) ([]signer.Anchor, error) {
	if limit <= 0 || limit > anchorsMax {
		limit = anchorsMax
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != nil {
		return nil, a.failure
	}
	var result []signer.Anchor
	for n := afterNumber; n < uint64(len(a.endOffsets)) && len(result) < limit; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var start int64
		if n > 0 {
			start = a.endOffsets[n-1]
		}
		line := make([]byte, a.endOffsets[n]-start)
		if _, err := a.file.ReadAt(line, start); err != nil {
			return nil, fmt.Errorf("read anchor %d of the audit log: %w", n+1, err)
		}
		anchor, err := parseAnchor(line)
		if err == nil && anchor.Number != n+1 {
			err = errors.New("it has another number")
		}
		if err == nil {
			err = anchor.VerifySignature(a.key.PublicKey())
		}
		if err != nil {
			return nil, fmt.Errorf("%w: anchor %d: %v", errDamaged, n+1, err)
		}
		result = append(result, anchor)
	}
	return result, nil
}
