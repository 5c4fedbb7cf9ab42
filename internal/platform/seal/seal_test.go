package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASecretNeverPrints(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	s := NewSecret(text)
	type config struct {
		Key  Secret
		Keys []Secret
		Ptr  *Secret
	}
	// fmt calls no method on values in unexported fields.
	type hidden struct {
		key  Secret
		ptr  *Secret
		deep struct{ keys map[string]Secret }
	}
	c := config{s, []Secret{s}, &s}
	h := hidden{key: s, ptr: &s}
	h.deep.keys = map[string]Secret{"a": s}
	printed := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s", "%T"} {
		printed[verb] = fmt.Sprintf(verb, s) + fmt.Sprintf(verb, &s) + fmt.Sprintf(verb, c) + fmt.Sprintf(
			verb, []any{s, c},
		) +
			fmt.Sprintf(verb, h) + fmt.Sprintf(verb, &h) + fmt.Sprintf(verb, []hidden{h})
	}
	printed["print"] = fmt.Sprint(s, c) + fmt.Sprintln(s)
	printed["error"] = fmt.Errorf("with %v", s).Error()
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"slog text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"slog json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(handler(&b)).Info("x", "secret", s, "config", c, "pointer", &s, "hidden", h)
		printed[name] = b.String()
	}
	encoded, err := json.Marshal(map[string]any{"a": s, "b": c, "c": h})
	if err != nil {
		t.Fatal(err)
	}
	printed["json"] = string(encoded)
	for how, got := range printed {
		hex := fmt.Sprintf("%x", text)
		if strings.Contains(got, text) || strings.Contains(strings.ToLower(got), hex) {
			t.Errorf("%s: got %s, want it masked", how, got)
		}
	}
	if got := fmt.Sprint(s); got != "***" {
		t.Errorf("got %s, want ***", got)
	}
	if s.Reveal() != text {
		t.Errorf("Reveal: got %s, want %s", s.Reveal(), text)
	}
}

func TestASecretIsReadAndCompared(t *testing.T) {
	t.Parallel()
	var c struct{ Key Secret }
	if err := json.Unmarshal([]byte(`{"Key":"abc"}`), &c); err != nil {
		t.Fatal(err)
	}
	if !c.Key.Equal(NewSecret("abc")) || c.Key.Equal(NewSecret("abd")) || c.Key.Equal(NewSecret("ab")) ||
		c.Key.Equal(Secret{}) {
		t.Error("got a wrong comparison")
	}
	if c.Key.IsEmpty() || !(Secret{}).IsEmpty() {
		t.Error("got a wrong Empty")
	}
}

func TestASealedValueOpensOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	keys := create(t)
	place := Binding{Org: "org_1", Kind: "webhook_secret", ID: "we_1", Version: 3}
	plaintext := []byte("the secret")
	sealed, err := keys.Seal(plaintext, place)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, plaintext) {
		t.Error("got the plaintext in the ciphertext")
	}
	got, err := keys.Unseal(sealed, place)
	if err != nil || !bytes.Equal(got, plaintext) {
		t.Errorf("got %q, %v, want %q", got, err, plaintext)
	}
	again, err := keys.Seal(plaintext, place)
	if err != nil || bytes.Equal(again, sealed) {
		t.Errorf("sealed twice: got the same bytes (%v), want others", err)
	}
	for name, other := range map[string]Binding{
		"organization": {Org: "org_2", Kind: "webhook_secret", ID: "we_1", Version: 3},
		"kind":         {Org: "org_1", Kind: "api_key", ID: "we_1", Version: 3},
		"id":           {Org: "org_1", Kind: "webhook_secret", ID: "we_2", Version: 3},
		"version":      {Org: "org_1", Kind: "webhook_secret", ID: "we_1", Version: 2},
		"moved border": {Org: "org_1w", Kind: "ebhook_secret", ID: "we_1", Version: 3},
		"nothing":      {},
	} {
		if got, err := keys.Unseal(sealed, other); !errors.Is(err, ErrUnsealed) || got != nil {
			t.Errorf("other %s: got %q, %v, want ErrUnsealed", name, got, err)
		}
	}
	if got, err := create(t).Unseal(sealed, place); !errors.Is(err, ErrUnsealed) {
		t.Errorf("other key: got %q, %v, want ErrUnsealed", got, err)
	}
}

func TestADamagedValueDoesNotOpen(t *testing.T) {
	t.Parallel()
	keys := create(t)
	place := Binding{Org: "org_1", Kind: "k", ID: "1"}
	sealed, err := keys.Seal([]byte("the secret"), place)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		damaged := bytes.Clone(sealed)
		damaged[i] ^= 1
		if got, err := keys.Unseal(damaged, place); !errors.Is(err, ErrUnsealed) {
			t.Fatalf("bit of byte %d turned: got %q, %v, want ErrUnsealed", i, got, err)
		}
		if got, err := keys.Unseal(sealed[:i], place); !errors.Is(err, ErrUnsealed) {
			t.Fatalf("cut at %d: got %q, %v, want ErrUnsealed", i, got, err)
		}
	}
	if _, err := keys.Seal(make([]byte, bytesMax+1), place); err == nil {
		t.Error("too long: got no error, want one")
	}
}

func TestTheKeyFileIsPrivateAndNeverReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("got mode %#o, want 0600", got)
	}
	if err := CreateKeyset(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created again: got %v, want fs.ErrExist", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("created again: got another file (%v), want the same", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %d files, %v, want 1", len(entries), err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKeyset(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %#o: got %v, want a refusal", mode, err)
		}
	}
}

func TestABrokenKeyFileIsNotQuoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "seal.key")
	if err := os.WriteFile(path, []byte(`{"key": "hunter2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyset(path); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error without the content", err)
	}
	if _, err := OpenKeyset(dir); err == nil {
		t.Error("a directory: got no error, want one")
	}
	if _, err := OpenKeyset(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want fs.ErrNotExist", err)
	}
}

func create(t *testing.T) *Keyset {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	keys, err := OpenKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
