package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/signer/keys"
	signerlocal "github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// The clock of a signer that was stopped for three days is confirmed at its host. A running signer
// refuses a confirmation.
func TestAPersonConfirmsTheClockOfAStoppedSigner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, sign := app.KeyFiles(dir)
	if err := app.CreateKeys(own, sign); err != nil {
		t.Fatal(err)
	}
	policy := `{"chains": {"ETHEREUM": {"signerId": "1", "feeMax": "10", "gasMax": "1"}}}`
	if err := os.WriteFile(sign.Policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	seed, err := keys.OpenSeed(keys.Files{Key: sign.Seed, KEK: sign.Wrap, Attest: own.Attest})
	if err != nil {
		t.Fatal(err)
	}
	read, err := signpolicy.Parse([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	then := signerlocal.Config{Journal: sign.Journal, Policy: read, Clock: func() time.Time {
		return time.Now().Add(-72 * time.Hour)
	}}
	if err := os.Remove(sign.Journal); err != nil {
		t.Fatal(err)
	}
	if err := signerlocal.CreateJournal(then, seed); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "signer.toml")
	if err := os.WriteFile(file, []byte(
		"[keys]\nattest = \"attest.pub\"\napprovals = \"approvals.key\"\n[signer]\nseed = \"seed.sealed\"\nwrap = "+
			"\"seed.key\"\njournal = \"journal\"\npolicy = \"policy.json\"\n",
	), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15:04Z07:00") }
	step := func(ok bool, want string, args ...string) {
		t.Helper()
		code, out, text := run(t, append([]string{"signer", "clock"}, append(args, "--config", file)...)...)
		if (code == 0) != ok || !strings.Contains(out+text, want) {
			t.Errorf("%s: got %d, %s%s, want %q", args, code, out, text, want)
		}
	}
	running, err := signerlocal.Open(then, seed)
	if err != nil {
		t.Fatal(err)
	}
	step(false, "another signer has the journal open", "confirm", at(0), "--because", "why")
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	step(true, "ahead of the time that the signer has seen pass")
	step(false, "set the clock first", "confirm", at(-time.Hour), "--because", "why")
	step(true, "Confirmed in entry 2 of the journal", "confirm", at(0), "--because", "it was stopped")
	step(true, "They agree")
	step(false, "nothing to confirm", "confirm", at(0), "--because", "again")
}
