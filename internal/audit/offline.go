package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

const (
	lineBytesMax   = 16 << 20
	anchorsKeptMax = 20_000_000 // of a file of anchors: one a minute for some decades
)

// Findings are what an export was found to be.
type Findings struct {
	Chain    string
	At       string // when it was exported
	Rows     int64  // that stand in the chain, up to the first break
	Last     string // when the last of them was written
	Unsealed int64  // rows that had no place in the chain yet

	Anchored  int64  // rows that an anchor stands for
	Anchors   int    // that agree with the chain
	LastMark  string // when the last of them was signed
	Restarts  []signer.Anchor
	NoAnchors bool // none were given: what was cut off the end, or made anew, does not show

	Broken []string // the first break of the chain, and every anchor that contradicts; nothing when all is intact
}

// Intact tells whether nothing was found.
func (f Findings) Intact() bool { return len(f.Broken) == 0 }

// ReadAnchors reads the file in which the signer keeps its anchors, and checks each
// signature and that none is missing between two of them.
func ReadAnchors(from io.Reader, key ed25519.PublicKey) ([]signer.Anchor, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 1<<16), lineBytesMax)
	var all []signer.Anchor
	var before signer.Anchor
	for lines.Scan() {
		var a signer.Anchor
		if err := exactly(lines.Bytes(), &a); err != nil {
			return all, fmt.Errorf("line %d of the anchors: %w", len(all)+1, err)
		}
		if err := a.Check(key); err != nil {
			return all, fmt.Errorf("line %d of the anchors: %w", len(all)+1, err)
		}
		if err := a.Follow(before); err != nil {
			return all, fmt.Errorf("line %d of the anchors: %w", len(all)+1, err)
		}
		if len(all) >= anchorsKeptMax {
			return all, errors.New("there are more anchors than can be")
		}
		all, before = append(all, a), a
	}
	if err := lines.Err(); err != nil {
		return all, fmt.Errorf("read the anchors: %w", err)
	}
	return all, nil
}

func exactly(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value in a line")
	}
	return nil
}

// Check reads an export without a database and tells what is intact, or the first
// place that is broken. With anchors, given as ReadAnchors read them, it also sees what
// a chain alone cannot tell: an end that was cut off, and a chain that was made anew.
// An error means that it could not be read to the end.
func Check(export io.Reader, anchors []signer.Anchor, given bool) (Findings, error) {
	f := Findings{NoAnchors: !given}
	lines := bufio.NewScanner(export)
	lines.Buffer(make([]byte, 1<<16), lineBytesMax)
	if !lines.Scan() {
		return f, errors.Join(errors.New("the export is empty"), lines.Err())
	}
	var h Header
	if err := exactly(lines.Bytes(), &h); err != nil {
		return f, fmt.Errorf("the first line is not that of an export: %w", err)
	}
	exported, err := time.Parse(time.RFC3339Nano, h.At)
	if h.Format != exportFormat || err != nil {
		return f, fmt.Errorf("the first line is not that of an export in the form %s", exportFormat)
	}
	f.Chain, f.At = h.Chain, h.At

	due := map[uint64]signer.Anchor{}
	var last signer.Anchor
	for _, a := range signer.Standing(anchors) {
		if a.Because != "" {
			f.Restarts = append(f.Restarts, a)
		}
		due[a.Position], last = a, a
	}
	if last.Number > 0 && last.Chain != h.Chain {
		f.broken("the chain is %s, and the anchors are of %s: this is the log of another database", h.Chain, last.Chain)
	}

	at, position, ended := begin(h.Chain), int64(0), false
	follow := func() {
		a, ok := due[uint64(position)]
		if !ok || a.Chain != h.Chain {
			return
		}
		if a.Hash != at.String() {
			f.broken("row %d is not what it was: the signer signed %s at %s, and the chain has %s. Rows up to there were changed and the chain was made anew.", position, a.Hash, a.At, at)
			return
		}
		f.Anchored, f.LastMark = position, a.At
		f.Anchors++
	}
	follow()
	for f.Intact() && lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte(`{"end":`)) {
			var t trailer
			if err := exactly(lines.Bytes(), &t); err != nil {
				return f, fmt.Errorf("the last line of the export: %w", err)
			}
			f.Unsealed, ended = t.Unsealed, true
			if lines.Scan() {
				f.broken("something stands behind the last line of the export")
			}
			break
		}
		var l Line
		if err := exactly(lines.Bytes(), &l); err != nil {
			f.broken("the line behind row %d cannot be read: %v", position, err)
			break
		}
		if why := l.wrong(position+1, at); why != "" {
			f.broken("%s", why)
			break
		}
		position++
		at, _ = parseHash(l.Hash)
		f.Rows, f.Last = position, l.At
		follow()
	}
	if err := lines.Err(); err != nil {
		return f, fmt.Errorf("read the export behind row %d: %w", position, err)
	}
	if !f.Intact() {
		return f, nil
	}
	if !ended {
		f.broken("the export ends behind row %d without its last line: it was cut off on the way, or by somebody", position)
	} else if position != h.Position || at.String() != h.Hash {
		f.broken("the chain ended at row %d with the hash %s when it was exported, and the export ends at %d with %s: rows at the end were taken away", h.Position, h.Hash, position, at)
	}
	for _, a := range signer.Standing(anchors) {
		// What was signed after the export may well be longer.
		signed, err := time.Parse(time.RFC3339Nano, a.At)
		if a.Chain == h.Chain && int64(a.Position) > position && (err != nil || !signed.After(exported)) {
			f.broken("the log had %d rows when the signer signed it, at %s, and has %d: the rows at its end were taken away, or the database was restored from a backup that is older than that", a.Position, a.At, position)
			break
		}
	}
	return f, nil
}

// wrong tells why a line is not the row that is due behind a hash, or "".
func (l Line) wrong(due int64, before Hash) string {
	switch {
	case l.Position > due:
		return fmt.Sprintf("rows %d to %d are missing from the chain", due, l.Position-1)
	case l.Position < due:
		return fmt.Sprintf("row %d stands where %d is due: the order was changed", l.Position, due)
	case l.Missing:
		return fmt.Sprintf("row %d (id %d) was deleted from the log: its place in the chain is there", due, l.AuditID)
	}
	if _, err := parseHash(l.Hash); err != nil {
		return fmt.Sprintf("row %d (id %d): %v", due, l.AuditID, err)
	}
	if sum := l.next(before); sum.String() != l.Hash {
		return fmt.Sprintf("row %d (id %d, %s of %s %s) was altered or moved: it has the hash %s and should have %s", due, l.AuditID, l.Action, l.ResourceKind, l.ResourceID, l.Hash, sum)
	}
	return ""
}

func (f *Findings) broken(format string, args ...any) {
	f.Broken = append(f.Broken, fmt.Sprintf(format, args...))
}

// WriteTo writes the findings for a person.
func (f Findings) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "audit log %s as of %s\n", f.Chain, f.At)
	fmt.Fprintf(&b, "  rows      %d in the chain", f.Rows)
	if f.Last != "" {
		fmt.Fprintf(&b, ", the last of %s", f.Last)
	}
	if f.Unsealed > 0 {
		fmt.Fprintf(&b, "; %d more had no place yet", f.Unsealed)
	}
	fmt.Fprintln(&b)
	switch {
	case f.NoAnchors:
		fmt.Fprintln(&b, "  anchors   none given: an end that was cut off, or a chain that was made anew, does not show. Give --anchors.")
	case f.Anchors == 0:
		fmt.Fprintln(&b, "  anchors   none of this chain")
	default:
		fmt.Fprintf(&b, "  anchors   %d agree, the last signed at %s for %d rows\n", f.Anchors, f.LastMark, f.Anchored)
	}
	for _, r := range f.Restarts {
		fmt.Fprintf(&b, "  begun again at row %d by an operator, at %s: %s\n", r.Position, r.At, r.Because)
	}
	for _, what := range f.Broken {
		fmt.Fprintf(&b, "BROKEN: %s\n", what)
	}
	if f.Intact() {
		fmt.Fprintln(&b, "intact")
	}
	return b.WriteTo(w)
}
