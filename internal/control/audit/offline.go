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

// Findings is the result of checking an export.
type Findings struct {
	Chain      string
	ExportedAt string // when it was exported
	Rows       int64  // rows in the chain, up to the first break
	LastRowAt  string // when the last of them was written
	Unsealed   int64  // rows that had no position in the chain yet

	AnchoredRows int64  // rows that an anchor covers
	Anchors      int    // anchors that agree with the chain
	LastAnchorAt string // when the last of them was signed
	Restarts     []signer.Anchor
	Signatures   int64 // of people's passkeys that were verified
	// No attestation key was given, so that the passkeys could be anyone's.
	NoKey bool

	// No anchors were given, so a truncated end or a rebuilt chain cannot be detected.
	NoAnchors bool

	// The first break of the chain, and every anchor that contradicts it; empty if all is intact.
	Breaks []string
}

// IsIntact reports whether the check found no break.
func (f Findings) IsIntact() bool { return len(f.Breaks) == 0 }

// ReadAnchors reads the file in which the signer keeps its anchors. It checks each signature, and
// that no anchor is missing between two others.
func ReadAnchors(file io.Reader, key ed25519.PublicKey) ([]signer.Anchor, error) {
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<16), lineBytesMax)
	var anchors []signer.Anchor
	var previous signer.Anchor
	for lines.Scan() {
		var anchor signer.Anchor
		if err := decodeStrict(lines.Bytes(), &anchor); err != nil {
			return anchors, fmt.Errorf("line %d of the anchors: %w", len(anchors)+1, err)
		}
		if err := anchor.VerifySignature(key); err != nil {
			return anchors, fmt.Errorf("line %d of the anchors: %w", len(anchors)+1, err)
		}
		if err := anchor.VerifyAfter(previous); err != nil {
			return anchors, fmt.Errorf("line %d of the anchors: %w", len(anchors)+1, err)
		}
		if len(anchors) >= anchorsKeptMax {
			return anchors, errors.New("there are more anchors than possible")
		}
		anchors, previous = append(anchors, anchor), anchor
	}
	if err := lines.Err(); err != nil {
		return anchors, fmt.Errorf("read the anchors: %w", err)
	}
	return anchors, nil
}

func decodeStrict(line []byte, target any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value in a line")
	}
	return nil
}

// CheckExport reads an export without a database and returns whether it is intact, or its first
// break. With anchors from ReadAnchors it also detects what a chain alone cannot show: a truncated
// end and a rebuilt chain. It verifies the signatures of approvals, with the attestation key also whose passkeys they
// are; key is nil without it. An error means that the export could not be read to the end. Rules AUDIT-2 and SA-13.
func CheckExport(
	export io.Reader, anchors []signer.Anchor, hasAnchors bool, key ed25519.PublicKey,
) (Findings, error) {
	f := Findings{NoAnchors: !hasAnchors, NoKey: key == nil}
	signed := newSignedRows(key)
	lines := bufio.NewScanner(export)
	lines.Buffer(make([]byte, 1<<16), lineBytesMax)
	if !lines.Scan() {
		return f, errors.Join(errors.New("the export is empty"), lines.Err())
	}
	var h Header
	if err := decodeStrict(lines.Bytes(), &h); err != nil {
		return f, fmt.Errorf("the first line is not that of an export: %w", err)
	}
	exported, err := time.Parse(time.RFC3339Nano, h.ExportedAt)
	if h.Format != exportFormat || err != nil {
		return f, fmt.Errorf("the first line is not that of an export in the form %s", exportFormat)
	}
	f.Chain, f.ExportedAt = h.Chain, h.ExportedAt

	anchorAt := map[uint64]signer.Anchor{}
	var last signer.Anchor
	for _, anchor := range signer.EffectiveAnchors(anchors) {
		if anchor.Reason != "" {
			f.Restarts = append(f.Restarts, anchor)
		}
		anchorAt[anchor.Position], last = anchor, anchor
	}
	if last.Number > 0 && last.Chain != h.Chain {
		f.addBreak("the chain is %s, and the anchors are of %s: this is the log of another database", h.Chain,
			last.Chain)
	}

	head, position, ended := genesisHash(h.Chain), int64(0), false
	follow := func() {
		anchor, ok := anchorAt[uint64(position)]
		if !ok || anchor.Chain != h.Chain {
			return
		}
		if anchor.Hash != head.String() {
			f.addBreak(
				"row %d was changed: the signer signed %s at %s, and the chain has %s. Rows up to there were changed "+
					"and the chain was built again.",
				position, anchor.Hash, anchor.SignedAt, head,
			)
			return
		}
		f.AnchoredRows, f.LastAnchorAt = position, anchor.SignedAt
		f.Anchors++
	}
	follow()
	for f.IsIntact() && lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte(`{"end":`)) {
			var t trailer
			if err := decodeStrict(lines.Bytes(), &t); err != nil {
				return f, fmt.Errorf("the last line of the export: %w", err)
			}
			f.Unsealed, ended = t.Unsealed, true
			if lines.Scan() {
				f.addBreak("there is text after the last line of the export")
			}
			break
		}
		var l Line
		if err := decodeStrict(lines.Bytes(), &l); err != nil {
			f.addBreak("the line after row %d cannot be read: %v", position, err)
			break
		}
		if problem := l.describeBreak(position+1, head); problem != "" {
			f.addBreak("%s", problem)
			break
		}
		if problem := signed.follow(l); problem != "" {
			f.addBreak("%s", problem)
			break
		}
		f.Signatures = signed.count
		position++
		head, _ = parseHash(l.Hash)
		f.Rows, f.LastRowAt = position, l.RecordedAt
		follow()
	}
	if err := lines.Err(); err != nil {
		return f, fmt.Errorf("read the export after row %d: %w", position, err)
	}
	if !f.IsIntact() {
		return f, nil
	}
	if !ended {
		f.addBreak("the export ends after row %d without its last line: it is incomplete, or was cut",
			position)
	} else if position != h.Position || head.String() != h.Hash {
		f.addBreak(
			"the chain ended at row %d with the hash %s at the export, and the export ends at %d with %s: rows at "+
				"the end were removed",
			h.Position, h.Hash, position, head,
		)
	}
	for _, anchor := range signer.EffectiveAnchors(anchors) {
		// An anchor signed after the export may well cover a longer chain.
		signed, err := time.Parse(time.RFC3339Nano, anchor.SignedAt)
		if anchor.Chain == h.Chain && int64(anchor.Position) > position && (err != nil || !signed.After(exported)) {
			f.addBreak(
				"the log had %d rows when the signer signed it, at %s, and has %d: the rows at its end were removed, "+
					"or the database was restored from an older backup",
				anchor.Position, anchor.SignedAt, position,
			)
			break
		}
	}
	return f, nil
}

// describeBreak returns why a line is not the row expected after a hash, or "".
func (l Line) describeBreak(expected int64, prevHash Hash) string {
	switch {
	case l.Position > expected:
		return fmt.Sprintf("rows %d to %d are missing from the chain", expected, l.Position-1)
	case l.Position < expected:
		return fmt.Sprintf("row %d is in the position of row %d: the order was changed", l.Position, expected)
	case l.Missing:
		return fmt.Sprintf("row %d (id %d) was deleted from the log: the chain still has its position", expected,
			l.AuditID)
	}
	if _, err := parseHash(l.Hash); err != nil {
		return fmt.Sprintf("row %d (id %d): %v", expected, l.AuditID, err)
	}
	if sum := l.chainHash(prevHash); sum.String() != l.Hash {
		return fmt.Sprintf("row %d (id %d, %s of %s %s) was altered or moved: it has the hash %s and should have %s",
			expected, l.AuditID, l.Action, l.ResourceKind, l.ResourceID, l.Hash, sum)
	}
	return ""
}

func (f *Findings) addBreak(format string, args ...any) {
	f.Breaks = append(f.Breaks, fmt.Sprintf(format, args...))
}

// WriteTo writes the findings as text for a person.
func (f Findings) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "audit log %s as of %s\n", f.Chain, f.ExportedAt)
	fmt.Fprintf(&b, "  rows      %d in the chain", f.Rows)
	if f.LastRowAt != "" {
		fmt.Fprintf(&b, ", the last of %s", f.LastRowAt)
	}
	if f.Unsealed > 0 {
		fmt.Fprintf(&b, "; %d more were not sealed yet", f.Unsealed)
	}
	fmt.Fprintln(&b)
	switch {
	case f.NoAnchors:
		fmt.Fprintln(
			&b,
			"  anchors   none given: the check cannot see that rows at the end are missing, or that the chain was "+
				"built again. Give --anchors.",
		)
	case f.Anchors == 0:
		fmt.Fprintln(&b, "  anchors   none of this chain")
	default:
		fmt.Fprintf(&b, "  anchors   %d agree, the last signed at %s for %d rows\n", f.Anchors, f.LastAnchorAt,
			f.AnchoredRows)
	}
	switch {
	case f.Signatures > 0 && f.NoKey:
		fmt.Fprintf(&b, "  signed    %d signatures of approvals are valid, and the passkeys could be anyone's. "+
			"Give --key.\n", f.Signatures)
	case f.Signatures > 0:
		fmt.Fprintf(&b, "  signed    %d signatures of approvals are valid, with passkeys that the signer recorded\n",
			f.Signatures)
	}
	for _, r := range f.Restarts {
		fmt.Fprintf(&b, "  begun again at row %d by an operator, at %s: %s\n", r.Position, r.SignedAt, r.Reason)
	}
	for _, text := range f.Breaks {
		fmt.Fprintf(&b, "BROKEN: %s\n", text)
	}
	if f.IsIntact() {
		fmt.Fprintln(&b, "intact")
	}
	return b.WriteTo(w)
}
