package local_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
)

func TestTwoNamesForOneNetworkAreRefused(t *testing.T) {
	t.Parallel()
	of := func(id string) string {
		return `{"signerId": "` + id + `", "feeMax": "1", "gasMax": "1", "unlimited": true}`
	}
	if _, err := local.ParsePolicy([]byte(`{"chains": {"BASE": ` + of("1") + `, "ETHEREUM": ` + of("1") + `}}`)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("got %v, want the second name refused", err)
	}
	if _, err := local.ParsePolicy([]byte(`{"chains": {"BASE": ` + of("8453") + `, "ETHEREUM": ` + of("1") + `}}`)); err != nil {
		t.Errorf("two networks: got %v, want no error", err)
	}
}

// A journal of before the rule of keys may have one twice: it opens, what it admitted
// is signed, and no third payment gets the key.
func TestAJournalWithAKeyTwiceOpensAndPaysNoThird(t *testing.T) {
	t.Parallel()
	in := install(t, t.TempDir())
	s := in.open(t)
	first, second, third := payment("wd_1", 1), payment("wd_2", 1), payment("wd_3", 1)
	first.IdempotencyKeyHash, third.IdempotencyKeyHash = "aa", "aa"
	second.IdempotencyKeyHash = "bb"
	pay(t, s, first, 0)
	if _, err := s.Admit(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	in.rewrite(t, `"idempotencyKeyHash":"bb"`, `"idempotencyKeyHash":"aa"`)

	s = in.open(t)
	second.IdempotencyKeyHash = "aa"
	pay(t, s, second, 1)
	var no *signer.Refusal
	if _, err := s.Admit(t.Context(), third); !errors.As(err, &no) || no.Code != signer.RefusedKey || !strings.Contains(no.Message, "wd_1") {
		t.Errorf("got %v, want a refusal %s that names wd_1", err, signer.RefusedKey)
	}
}

// rewrite changes the words of a journal and computes its hashes anew.
func (in *installation) rewrite(t *testing.T, old, replacement string) {
	t.Helper()
	in.write(t, rewritten(t, in.read(t), old, replacement))
}

func rewritten(t *testing.T, journal []byte, old, replacement string) (out []byte) {
	t.Helper()
	var prev signer.Head
	for line := range strings.Lines(string(journal)) {
		var e signer.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		e.Body = json.RawMessage(strings.ReplaceAll(string(e.Body), old, replacement))
		e.Prev = prev.Hash
		e.Hash = e.Sum()
		prev = e.Head()
		out = append(append(out, marshal(t, e)...), '\n')
	}
	return out
}
