package local_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/anchor"
	"github.com/cofferpay/coffer/internal/signer/local"
)

func auditHeadAt(position uint64) signer.AuditHead {
	return signer.AuditHead{Chain: "aud_1", Position: position, Hash: strings.Repeat(string(rune('0'+position%10)), 64)}
}

// newAnchored returns an installation with anchors 1, 2 and 3.
func newAnchored(t *testing.T) (*installation, []signer.Anchor) {
	t.Helper()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	var all []signer.Anchor
	var after *signer.AuditHead
	for i := uint64(1); i <= 3; i++ {
		m := auditHeadAt(i)
		a, err := s.SignAnchor(t.Context(), signer.AnchorRequest{AuditHead: m, Previous: after})
		if err != nil {
			t.Fatal(err)
		}
		all, after = append(all, a), &m
	}
	closeSigner(t, s)
	return in, all
}

func TestAnchorsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	in, all := newAnchored(t)
	file := anchor.Path(in.conf.Journal)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v, want mode 0600", info.Mode(), err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for name, c := range map[string]struct {
		text []byte
		want int // number of anchors; -1: the file is damaged
	}{
		"as it was":              {whole, 3},
		"a torn line":            {append(bytes.Clone(whole), `{"chain":"aud_1","pos`...), 3},
		"a torn last line":       {whole[:len(whole)-1], 2},
		"none, as before":        {nil, 0},
		"without the first":      {bytes.Join(lines[1:], nil), -1},
		"without the second":     {bytes.Join([][]byte{lines[0], lines[2]}, nil), -1},
		"another order":          {bytes.Join([][]byte{lines[1], lines[0], lines[2]}, nil), -1},
		"a word changed":         {bytes.Replace(whole, []byte(`"position":2`), []byte(`"position":4`), 1), -1},
		"another form":           {bytes.Replace(whole, []byte(`"position":2`), []byte(`"position": 2`), 1), -1},
		"a member more":          {bytes.Replace(whole, []byte(`"position":2`), []byte(`"x":1,"position":2`), 1), -1},
		"nothing in it but ends": {[]byte("\n\n"), -1},
	} {
		if err := os.WriteFile(file, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := local.Open(in.conf, in.seed)
		if c.want < 0 {
			if err == nil || !strings.Contains(err.Error(), "anchors of the audit log are damaged") {
				t.Errorf("%s: got %v, want it refused", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := s.AnchorsAfter(t.Context(), 0, 0)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: got %d anchors %v, want %d", name, len(got), err, c.want)
		}
		if c.want > 0 {
			// It continues from its latest anchor and from no other.
			after, back := auditHeadAt(uint64(c.want)), auditHeadAt(uint64(c.want-1))
			if _, err := s.SignAnchor(t.Context(),
				signer.AnchorRequest{AuditHead: auditHeadAt(9), Previous: &back}); err == nil {
				t.Errorf("%s: it goes on from what is not the last", name)
			}
			if a, err := s.SignAnchor(t.Context(), signer.AnchorRequest{
				AuditHead: auditHeadAt(9),
				Previous:  &after,
			}); err != nil || a.Number != uint64(c.want+1) {
				t.Errorf("%s: got %+v %v, want the next", name, a, err)
			}
		}
		closeSigner(t, s)
	}
	// Lost anchors are restored from a copy, if the signer made them.
	if err := os.WriteFile(file, lines[0], 0o600); err != nil {
		t.Fatal(err)
	}
	s := in.open(t)
	forged := append([]signer.Anchor{}, all...)
	forged[1].Hash = strings.Repeat("f", 64)
	if n, err := s.RestoreAnchors(forged); err == nil || n != 0 {
		t.Errorf("forged: got %d %v, want none", n, err)
	}
	if n, err := s.RestoreAnchors(all[2:]); err == nil || n != 0 {
		t.Errorf("with a gap: got %d %v, want none", n, err)
	}
	if n, err := s.RestoreAnchors(all); err != nil || n != 2 {
		t.Errorf("got %d %v, want two", n, err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	if _, err := local.Open(in.conf, in.seed); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v, want a file that others may read refused", err)
	}
}
