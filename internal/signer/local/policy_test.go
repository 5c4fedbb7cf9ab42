package local_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

func TestTwoNamesForOneNetworkAreRefused(t *testing.T) {
	t.Parallel()
	of := func(id string) string {
		return `{"signerId": "` + id + `", "feeMax": "1", "gasMax": "1"}`
	}
	if _, err := signpolicy.Parse([]byte(`{"chains": {"BASE": ` + of("1") + `, "ETHEREUM": ` + of("1") +
		`}}`)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("got %v, want the second name refused", err)
	}
	if _, err := signpolicy.Parse([]byte(`{"chains": {"BASE": ` + of("8453") + `, "ETHEREUM": ` + of("1") +
		`}}`)); err != nil {
		t.Errorf("two networks: got %v, want no error", err)
	}
}

func TestAPolicyNamesOnlyChainsThatTheSignerHasKeysFor(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"TRON", "MOON"} {
		_, err := signpolicy.Parse([]byte(`{"chains": {"` + name +
			`": {"signerId": "0x2b6653dc", "feeMax": "1", "gasMax": "1"}}}`))
		if err == nil || !strings.Contains(err.Error(), "chains."+name+": this signer has no keys for it") {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

// The signer recognizes a main network by its own list, whatever the service claims to run.
func TestNothingIsUnlimitedOnAMainNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		chain, id string
		refused   bool
	}{
		{"ETHEREUM", "1", true},
		{"BASE", "8453", true},
		{"SOLANA", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", true},
		{"BITCOIN", "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f", true},
		{"ETHEREUM", "31337", false},
		{"ETHEREUM", "11155111", false},
		{"BITCOIN", "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206", false},
	} {
		for _, unlimited := range []string{`"unlimited": true`, `"assets": {"": {"unlimited": true}}`} {
			_, err := signpolicy.Parse([]byte(`{"chains": {"` + c.chain + `": {"signerId": "` + c.id +
				`", "feeMax": "1", "gasMax": "1", ` + unlimited + `}}}`))
			if (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "unlimited") {
				t.Errorf("%s %s with %s: got %v, want it refused: %v", c.chain, c.id, unlimited, err, c.refused)
			}
		}
	}
}

// A journal from before the rule about keys may have a key twice. It opens, its admitted intents
// are signed, and no third payment gets the key.
func TestAJournalWithAKeyTwiceOpensAndPaysNoThird(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	first, second, third := payment("wd_1", 1), payment("wd_2", 1), payment("wd_3", 1)
	first.IdempotencyKeyHash, third.IdempotencyKeyHash = "aa", "aa"
	second.IdempotencyKeyHash = "bb"
	pay(t, s, first, 0)
	if _, err := s.AdmitIntent(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	in.rewrite(t, `"idempotencyKeyHash":"bb"`, `"idempotencyKeyHash":"aa"`)

	s = in.open(t)
	second.IdempotencyKeyHash = "aa"
	pay(t, s, second, 1)
	var no *signer.Refusal
	if _, err := s.AdmitIntent(t.Context(), third); !errors.As(err, &no) || no.Code != signer.RefusedKey ||
		!strings.Contains(no.Message, "wd_1") {
		t.Errorf("got %v, want a refusal %s that names wd_1", err, signer.RefusedKey)
	}
}

// rewrite replaces text in a journal and computes its hashes anew.
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
		e.Hash = e.ComputeHash()
		prev = e.Head()
		out = append(append(out, marshal(t, e)...), '\n')
	}
	return out
}
