package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// contents reads every file of a folder.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = b
	}
	return out
}

func TestKeysAreCreatedOnceAndNeverReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	k, s := KeyFiles(dir)
	if err := CreateKeys(k, s); err != nil {
		t.Fatal(err)
	}
	first := contents(t, dir)
	for _, name := range []string{
		"seal.key", "attest.pub", "webhook.key", "cursor.key", "seed.sealed", "seed.key", "journal",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: got %v, want it made", name, err)
		}
	}
	for name := range first {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil ||
			name != "attest.pub" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got %v %v, want it for its owner alone", name, info.Mode(), err)
		}
	}
	if err := os.Remove(k.Cursor); err != nil {
		t.Fatal(err)
	}
	if err := CreateKeys(k, s); err != nil {
		t.Fatal(err)
	}
	second := contents(t, dir)
	for name, b := range first {
		if same := bytes.Equal(second[name], b); same == (name == "cursor.key") {
			t.Errorf("%s after the second call: got the same bytes %v, want only the missing one made anew", name, same)
		}
	}
	sign, _, closer, err := OpenSigner(Config{Keys: k, Signer: withPolicy(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	if head, err := sign.Head(t.Context()); err != nil || head.JournalID == "" {
		t.Errorf("got %+v %v, want a journal", head, err)
	}
	if err := closer(); err != nil {
		t.Error(err)
	}
}

func withPolicy(t *testing.T, s Signer) Signer {
	t.Helper()
	write(
		t, s.Policy,
		`{"chains": {"ETHEREUM": {"signerId": "31337", "feeMax": "1000000000000000000", "gasMax": "1", "unlimited": true}}}`,
	)
	return s
}

func TestASeedAndItsJournalBelongTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost func(Signer) string
		says string
	}{
		"the journal is lost": {func(s Signer) string { return s.Journal }, "restore the journal"},
		"the seed is lost":    {func(s Signer) string { return s.Seed }, "restore the seed"},
	} {
		dir := filepath.Join(t.TempDir(), "keys")
		k, s := KeyFiles(dir)
		if err := CreateKeys(k, s); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(c.lost(s)); err != nil {
			t.Fatal(err)
		}
		before := contents(t, dir)
		if err := CreateKeys(k, s); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
		after := contents(t, dir)
		if len(after) != len(before) {
			t.Errorf("%s: got %d files, want %d", name, len(after), len(before))
		}
		if _, _, _, err := OpenSigner(Config{Keys: k, Signer: withPolicy(t, s)}); err == nil {
			t.Errorf("%s: the signer opened", name)
		}
	}
}

func TestThePublicHalvesOfWebhookKeysAreKeptUntilAReceiverHasTheNewOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, s := KeyFiles(dir)
	if err := CreateKeys(k, s); err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(dir, webhookPublic)
	first, err := readWebhookPublic(public)
	if err != nil || len(first) != 1 {
		t.Fatalf("got %v %v, want one key", first, err)
	}
	if err := os.Rename(k.Webhook, k.Webhook+".former"); err != nil {
		t.Fatal(err)
	}
	if err := CreateKeys(k, s); err != nil {
		t.Fatal(err)
	}
	got, err := readWebhookPublic(public)
	if err != nil || len(got) != 2 || got[0] == first[0] || got[1] != first[0] {
		t.Errorf("got %v %v, want the new one before %v", got, err, first)
	}
	write(t, public, "whsk_secret\n")
	if _, err := readWebhookPublic(public); err == nil || !strings.Contains(err.Error(), "keys.webhook_public") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want a private key refused and not repeated", err)
	}
}
