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

// reasonBytesMax bounds the reason why a chain was restarted.
const reasonBytesMax = 500

// AnchorsPath returns the path of the audit log's anchors next to a journal.
func AnchorsPath(journal string) string { return journal + ".anchors" }

// anchorFile is the open file: one anchor per line, each following the one before. The lock of the
// journal protects it too.
type anchorFile struct {
	file *os.File

	mu         sync.Mutex
	last       signer.Anchor
	endOffsets []int64 // endOffsets[n-1] is where anchor n ends in the file
	failure    error   // a failed write: the contents of the file are unknown
}

// openAnchorFile checks all anchors of a journal, and creates the file if there is none. A last
// line without its end was never acknowledged and is cut off.
func openAnchorFile(journal string, key keys.AttestKey) (_ *anchorFile, err error) {
	path := AnchorsPath(journal)
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
	a := &anchorFile{file: f}
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
			return nil, fmt.Errorf("%s: %w: byte %d: %v", path, errAnchorsDamaged, offset, err)
		}
		anchor, err := parseAnchor(line)
		if err == nil {
			err = anchor.VerifyAfter(a.last)
		}
		if err == nil {
			err = anchor.VerifySignature(key.PublicKey())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: line %d: %v", path, errAnchorsDamaged, len(a.endOffsets)+1, err)
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

var errAnchorsDamaged = errors.New("the anchors of the audit log are damaged: restore the file from a copy; " +
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
	if !bytes.Equal(append(mustJSON(a), '\n'), line) {
		return a, errors.New("it does not have the form in which the signer writes it")
	}
	return a, nil
}

// signAnchor signs an audit head after the last anchor and waits until it is on disk. a.mu is held.
func (a *anchorFile) signAnchor(
	m signer.AuditHead, reason string, signedAt time.Time, key keys.AttestKey,
) (signer.Anchor, error) {
	anchor := signer.Anchor{AuditHead: m, Number: a.last.Number + 1, SignedAt: formatTime(signedAt), Reason: reason}
	if a.last.Number > 0 {
		anchor.Prev = a.last.ComputeHash()
	}
	anchor.Signature = key.SignAnchor(anchor)
	return anchor, a.appendAnchor(anchor)
}

// appendAnchor appends an anchor and waits until it is on disk. a.mu is held.
func (a *anchorFile) appendAnchor(anchor signer.Anchor) error {
	if a.failure != nil {
		return a.failure
	}
	line := append(mustJSON(anchor), '\n')
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

// SignAnchor signs the head of the audit log's hash chain. Rule AUDIT-3.
func (s *Signer) SignAnchor(ctx context.Context, r signer.AnchorRequest) (signer.Anchor, error) {
	if err := ctx.Err(); err != nil {
		return signer.Anchor{}, err
	}
	if refusal := checkAuditHead(r.AuditHead); refusal != nil {
		return signer.Anchor{}, refusal
	}
	a := s.anchors
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last.Number == 0 {
		if r.Previous != nil {
			return signer.Anchor{}, refuse(signer.RefusedAnchor,
				"the database has an anchor at %d and this signer has signed none: the file %s was lost or "+
					"exchanged, restore it from a copy",
				r.Previous.Position, a.file.Name())
		}
		return a.signAnchor(r.AuditHead, "", s.conf.currentTime(), s.attestKey)
	}
	if r.AuditHead == a.last.AuditHead {
		return a.last, nil
	}
	last := a.last
	switch {
	case r.Chain != last.Chain:
		return signer.Anchor{}, refuse(signer.RefusedAnchor, "the last anchor is of chain %s, and this is %s",
			last.Chain, r.Chain)
	case r.Position < last.Position:
		return signer.Anchor{}, refuse(signer.RefusedAnchor,
			"the audit log had %d rows at %s and this mark has %d: the database is older than the anchors, or rows "+
				"were removed",
			last.Position, last.SignedAt, r.Position)
	case r.Position == last.Position:
		return signer.Anchor{}, refuse(signer.RefusedAnchor,
			"the audit log had the hash %s at %d, at %s, and this mark has %s: rows were changed", last.Hash,
			last.Position, last.SignedAt, r.Hash)
	case r.Previous == nil || *r.Previous != last.AuditHead:
		return signer.Anchor{}, refuse(signer.RefusedAnchor,
			"the last anchor is of %d with the hash %s, at %s, and the request continues the chain from another row",
			last.Position, last.Hash, last.SignedAt)
	}
	return a.signAnchor(r.AuditHead, "", s.conf.currentTime(), s.attestKey)
}

// RestartAnchors lets the audit log's chain restart after one of its anchors, or from its
// beginning, position 0. An operator does this on the host, never over the network, when the
// database was restored from a backup that is older than the last anchor. The anchors of the lost
// part stay in the file and no longer count. Rule AUDIT-4.
func (s *Signer) RestartAnchors(m signer.AuditHead, reason string) (signer.Anchor, error) {
	if refusal := checkAuditHead(m); refusal != nil {
		return signer.Anchor{}, refusal
	}
	if reason == "" || len(reason) > reasonBytesMax || !utf8.ValidString(reason) {
		return signer.Anchor{}, refuse(signer.RefusedMalformed, "because: give a reason of 1 to %d bytes of UTF-8",
			reasonBytesMax)
	}
	found := m.Position == 0
	for lastNumber := uint64(0); !found; {
		page, err := s.AnchorsAfter(context.Background(), lastNumber, entriesMax)
		if err != nil {
			return signer.Anchor{}, err
		}
		if len(page) == 0 {
			return signer.Anchor{}, refuse(signer.RefusedAnchor,
				"no anchor of %d with the hash %s was signed, so the chain cannot begin again there",
				m.Position, m.Hash)
		}
		found = slices.ContainsFunc(page, func(a signer.Anchor) bool { return a.AuditHead == m })
		lastNumber = page[len(page)-1].Number
	}
	a := s.anchors
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.signAnchor(m, reason, s.conf.currentTime(), s.attestKey)
}

// RestoreAnchors restores the anchors that the file has lost from the database's copy. Each has to
// be signed by this signer and to follow the one before. It returns their number.
func (s *Signer) RestoreAnchors(copied []signer.Anchor) (restored int, err error) {
	a := s.anchors
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, anchor := range copied {
		if anchor.Number <= a.last.Number {
			continue
		}
		if err := errors.Join(anchor.VerifySignature(s.attestKey.PublicKey()), anchor.VerifyAfter(a.last)); err != nil {
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
func (s *Signer) AnchorsAfter(ctx context.Context, afterNumber uint64, limit int) ([]signer.Anchor, error) {
	if limit <= 0 || limit > entriesMax {
		limit = entriesMax
	}
	a := s.anchors
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
			err = anchor.VerifySignature(s.attestKey.PublicKey())
		}
		if err != nil {
			return nil, fmt.Errorf("%w: anchor %d: %v", errAnchorsDamaged, n+1, err)
		}
		result = append(result, anchor)
	}
	return result, nil
}

func checkAuditHead(m signer.AuditHead) *signer.Refusal {
	sum, err := hex.DecodeString(m.Hash)
	switch {
	case !isValidWord(m.Chain):
		return refuse(signer.RefusedMalformed, "chain: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case err != nil || len(sum) != 32 || hex.EncodeToString(sum) != m.Hash:
		return refuse(signer.RefusedMalformed, "hash: give 64 hexadecimal digits, in lower case")
	case m.Position > 1<<62:
		return refuse(signer.RefusedMalformed, "position: is larger than any possible position")
	}
	return nil
}
