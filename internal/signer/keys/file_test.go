package keys

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

func init() { scryptLogN = 10 }

var made = time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)

func files(t *testing.T) Files {
	t.Helper()
	dir := t.TempDir()
	return Files{
		Key: filepath.Join(dir, "seed"), KEK: filepath.Join(dir, "kek"),
		Attest: filepath.Join(dir, "attest.pub"),
	}
}

func create(t *testing.T, f Files) Seed {
	t.Helper()
	if _, err := CreateSeed(f, made); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSeed(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCreatedSeedIsReadBackAndSealed(t *testing.T) {
	t.Parallel()
	f := files(t)
	s := create(t, f)
	again, err := OpenSeed(f)
	if err != nil || *again.secret() != *s.secret() {
		t.Errorf("got %v, want the same seed", err)
	}
	info, err := ReadInfo(f)
	if err != nil || !info.AttestKey.Equal(s.AttestKey().PublicKey()) || !info.CreatedAt.Equal(made) {
		t.Errorf("Show: got %v, %v", info, err)
	}
	public, err := ReadAttestKey(f.Attest)
	if err != nil || !public.Equal(s.AttestKey().PublicKey()) {
		t.Errorf("public key file: got %x, %v, want %x", public, err, s.AttestKey().PublicKey())
	}
	for path, mode := range map[string]fs.FileMode{f.Key: 0o600, f.KEK: 0o600, f.Attest: 0o644} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: got %v, %v, want %v", path, info.Mode(), err, mode)
		}
		contents, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		assertSilent(t, string(contents), [][]byte{
			s.secret().entropy[:], s.secret().master[:],
			s.AttestKey().privateKey(),
		}, s.mnemonic())
	}
}

func TestNothingIsEverReplaced(t *testing.T) {
	t.Parallel()
	f := files(t)
	before := create(t, f)
	if _, err := CreateSeed(f, made); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create: got %v, want fs.ErrExist", err)
	}
	if after, err := OpenSeed(f); err != nil || *after.secret() != *before.secret() {
		t.Errorf("got %v, want the first seed", err)
	}
	moved := f
	moved.Key += "2"
	if _, err := CreateSeed(moved, made); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a Create beside another's public key: got %v, want fs.ErrExist", err)
	}
}

func TestOpenRefusesWhatDoesNotBelongTogether(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	edit := func(path, old, replacement string) {
		text := read(path)
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q", path, old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(text, old, replacement, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := files(t)
	otherSeed := create(t, other)
	for name, spoil := range map[string]func(*Files){
		"the KEK of another":     func(f *Files) { f.KEK = other.KEK },
		"no KEK":                 func(f *Files) { f.KEK += "x" },
		"no key file":            func(f *Files) { f.Key += "x" },
		"readable by others":     func(f *Files) { os.Chmod(f.Key, 0o644) },
		"KEK readable by others": func(f *Files) { os.Chmod(f.KEK, 0o640) },
		"another attestation key": func(f *Files) {
			edit(f.Key, read(f.Attest)[:64], hex.EncodeToString(otherSeed.AttestKey().PublicKey()))
		},
		"another version":             func(f *Files) { edit(f.Key, `"version": 1`, `"version": 2`) },
		"a member that nobody wrote":  func(f *Files) { edit(f.Key, `"version"`, `"words": "", "version"`) },
		"a damaged sealed value":      func(f *Files) { edit(f.Key, `"sealed": "`, `"sealed": "AAAA`) },
		"a public key instead of one": func(f *Files) { f.Key = f.Attest },
	} {
		f := files(t)
		create(t, f)
		spoil(&f)
		if _, err := OpenSeed(f); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	f := files(t)
	create(t, f)
	f.Attest = other.Attest
	if err := PublishAttestKey(f); err == nil {
		t.Error("the public key of another seed: got no error")
	}
	f.Attest += "2"
	if err := PublishAttestKey(f); err != nil {
		t.Error(err)
	}
	if public, err := ReadAttestKey(f.Attest); err != nil || len(public) == 0 {
		t.Errorf("got %x, %v, want it published again", public, err)
	}
}

func TestBackupIsRestoredElsewhere(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	phrase := seal.NewSecret("a phrase for the safe")
	for name, way := range map[string]struct {
		to     BackupRecipient
		from   BackupIdentity
		wrong  BackupIdentity
		secret string
	}{
		"recipient": {
			BackupRecipient{Recipient: identity.Recipient().String()},
			BackupIdentity{Identity: seal.NewSecret(identity.String() + "\n")},
			BackupIdentity{Identity: seal.NewSecret(stranger.String())},
			stranger.String(),
		},
		"passphrase": {
			BackupRecipient{Passphrase: phrase},
			BackupIdentity{Passphrase: phrase},
			BackupIdentity{Passphrase: seal.NewSecret("another phrase")},
			"another phrase",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := files(t), files(t)
			s := create(t, here)
			path := filepath.Join(t.TempDir(), "backup.age")
			if err := BackupSeed(here, way.to, path); err != nil {
				t.Fatal(err)
			}
			contents, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			assertSilent(t, string(contents), [][]byte{s.secret().entropy[:]}, s.mnemonic())
			if err := BackupSeed(here, way.to, path); !errors.Is(err, fs.ErrExist) {
				t.Errorf("over a file: got %v, want fs.ErrExist", err)
			}

			if _, err := RestoreSeed(there, way.wrong, path); err == nil || strings.Contains(err.Error(), way.secret) {
				t.Errorf("by somebody else: got %v, want an error without the secret", err)
			}
			info, err := RestoreSeed(there, way.from, path)
			if err != nil {
				t.Fatal(err)
			}
			back, err := OpenSeed(there)
			if err != nil || *back.secret() != *s.secret() || !info.AttestKey.Equal(s.AttestKey().PublicKey()) ||
				!info.CreatedAt.Equal(made) {
				t.Errorf("got %v, %v, want the same seed", info, err)
			}
			if _, err := RestoreSeed(there, way.from, path); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a second restore: got %v, want fs.ErrExist", err)
			}
			spoilt := strings.Replace(string(contents), "\n", "\nA", 3)
			if err := os.WriteFile(path, []byte(spoilt), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := RestoreSeed(files(t), way.from, path); err == nil {
				t.Error("a damaged backup: got no error")
			}
		})
	}
	f := files(t)
	create(t, f)
	for name, to := range map[string]BackupRecipient{
		"nobody": {}, "both": {Recipient: identity.Recipient().String(), Passphrase: phrase},
		"short": {Passphrase: seal.NewSecret("short")}, "no recipient": {Recipient: "age1nobody"},
	} {
		if err := BackupSeed(f, to, filepath.Join(t.TempDir(), "b")); err == nil {
			t.Errorf("backup to %s: got no error", name)
		}
	}
}
