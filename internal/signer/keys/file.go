package keys

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	fileBytesMax       = 64 << 10
	fileVersion        = 1
	backupVersion      = 1
	passphraseBytesMin = 12
)

// scryptLogN makes each guess of a passphrase take about a second. Tests lower it.
var scryptLogN = 18

// Files are the paths of the parts of an installation's secret. Key and KEK belong on different
// disks or into different hands: neither is of use without the other.
type Files struct {
	Key    string // the sealed seed
	KEK    string // the key that seals it, see package seal
	Attest string // the public key that address proofs are checked with; not secret
}

// SeedInfo is the public information about a seed.
type SeedInfo struct {
	AttestKey ed25519.PublicKey
	CreatedAt time.Time
}

// keyFile is the contents of Files.Key.
type keyFile struct {
	Version   int       `json:"version"`
	AttestKey string    `json:"attestKey"` // hex; also binds the sealed value to this file
	CreatedAt time.Time `json:"createdAt"`
	Sealed    []byte    `json:"sealed"`
}

func (k keyFile) sealBinding() seal.Binding {
	return seal.Binding{Kind: "signer_seed", ID: k.AttestKey, Version: k.Version}
}

// CreateSeed makes a seed and writes the files. It replaces none: the error is then fs.ErrExist. It
// uses a KEK that exists. The caller backs the seed up before any money arrives.
func CreateSeed(f Files, now time.Time) (SeedInfo, error) {
	s, err := NewSeed()
	if err != nil {
		return SeedInfo{}, err
	}
	return writeFiles(f, s, now)
}

func writeFiles(f Files, s Seed, created time.Time) (SeedInfo, error) {
	for _, path := range []string{f.Key, f.Attest} {
		if _, err := os.Lstat(path); err == nil {
			return SeedInfo{},
				fmt.Errorf("create %s: %w: this command never replaces it; move it away first if its seed is not "+
					"needed any more",
					path, fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return SeedInfo{}, fmt.Errorf("look for %s: %w", path, err)
		}
	}
	if err := seal.CreateKeyset(f.KEK); err != nil && !errors.Is(err, fs.ErrExist) {
		return SeedInfo{}, fmt.Errorf("create %s: %w", f.KEK, err)
	}
	kek, err := seal.OpenKeyset(f.KEK)
	if err != nil {
		return SeedInfo{}, err
	}
	public := s.AttestKey().PublicKey()
	k := keyFile{
		Version: fileVersion, AttestKey: hex.EncodeToString(public),
		CreatedAt: created.UTC().Truncate(time.Second),
	}
	if k.Sealed, err = kek.Seal(s.secret().entropy[:], k.sealBinding()); err != nil {
		return SeedInfo{}, err
	}
	contents, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return SeedInfo{}, fmt.Errorf("write %s: %w", f.Key, err)
	}
	if err := CreateFile(f.Key, append(contents, '\n'), 0o600); err != nil {
		return SeedInfo{}, err
	}
	if _, err := OpenSeed(f); err != nil {
		return SeedInfo{}, fmt.Errorf("read the written file back: %w", err)
	}
	return SeedInfo{public, k.CreatedAt}, PublishAttestKey(f)
}

// OpenSeed reads the seed.
func OpenSeed(f Files) (Seed, error) {
	k, _, err := readKeyFile(f)
	if err != nil {
		return Seed{}, err
	}
	kek, err := seal.OpenKeyset(f.KEK)
	if err != nil {
		return Seed{}, err
	}
	entropy, err := kek.Unseal(k.Sealed, k.sealBinding())
	if err != nil || len(entropy) != entropyBytes {
		return Seed{}, fmt.Errorf("open %s with %s: %w: they do not belong together, or one is damaged", f.Key, f.KEK,
			seal.ErrUnsealed)
	}
	s, err := fromEntropy([entropyBytes]byte(entropy))
	if err != nil {
		return Seed{}, err
	}
	if hex.EncodeToString(s.AttestKey().PublicKey()) != k.AttestKey {
		return Seed{}, fmt.Errorf("%s has the seed of another attestation key than it says", f.Key)
	}
	return s, nil
}

func readKeyFile(f Files) (keyFile, SeedInfo, error) {
	var k keyFile
	contents, err := readPrivateFile(f.Key)
	if err != nil {
		return k, SeedInfo{}, err
	}
	d := json.NewDecoder(bytes.NewReader(contents))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil || k.Version != fileVersion {
		return k, SeedInfo{}, fmt.Errorf("%s is not a key file of this version", f.Key)
	}
	public, err := parsePublicKey(k.AttestKey)
	if err != nil {
		return k, SeedInfo{}, fmt.Errorf("read %s: %w", f.Key, err)
	}
	return k, SeedInfo{public, k.CreatedAt}, nil
}

// ReadInfo returns the public information, without the KEK.
func ReadInfo(f Files) (SeedInfo, error) {
	_, info, err := readKeyFile(f)
	return info, err
}

// PublishAttestKey writes the public key file if it is missing, and refuses one that belongs to
// another seed.
func PublishAttestKey(f Files) error {
	info, err := ReadInfo(f)
	if err != nil {
		return err
	}
	existing, err := ReadAttestKey(f.Attest)
	if errors.Is(err, fs.ErrNotExist) {
		return CreateFile(f.Attest, []byte(hex.EncodeToString(info.AttestKey)+"\n"), 0o644)
	}
	if err != nil {
		return err
	}
	if !existing.Equal(info.AttestKey) {
		return fmt.Errorf("%s is the public key of another seed than %s", f.Attest, f.Key)
	}
	return nil
}

// ReadAttestKey reads a public key file, for processes that check address proofs.
func ReadAttestKey(path string) (ed25519.PublicKey, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the attestation public key: %w", err)
	}
	defer file.Close()
	contents, err := io.ReadAll(io.LimitReader(file, fileBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	public, err := parsePublicKey(strings.TrimSpace(string(contents)))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return public, nil
}

func parsePublicKey(s string) (ed25519.PublicKey, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("an attestation public key is %d hexadecimal digits", 2*ed25519.PublicKeySize)
	}
	return b, nil
}

// BackupRecipient says who can open a backup: the owner of an age identity, or the holder of a
// passphrase. One of the two is set.
type BackupRecipient struct {
	Recipient  string // age1…
	Passphrase seal.Secret
}

// BackupIdentity opens a backup. One of the two fields is set.
type BackupIdentity struct {
	Identity   seal.Secret // AGE-SECRET-KEY-1…
	Passphrase seal.Secret
}

// backupContents is the decrypted contents. The words suffice for recovery, so a person with the
// age program and any wallet program does not need this one.
type backupContents struct {
	Version   int       `json:"version"`
	Words     string    `json:"words"`
	AttestKey string    `json:"attestKey"`
	CreatedAt time.Time `json:"createdAt"`
}

// BackupSeed writes the seed to a new file, encrypted with age and armoured. It does not include
// the journal, which changes with every payment and is copied by other means.
func BackupSeed(f Files, target BackupRecipient, path string) error {
	s, err := OpenSeed(f)
	if err != nil {
		return err
	}
	k, _, err := readKeyFile(f)
	if err != nil {
		return err
	}
	var recipient age.Recipient
	var byPhrase *age.ScryptRecipient
	switch {
	case (target.Recipient == "") == target.Passphrase.IsEmpty():
		return errors.New("give either an age recipient or a passphrase for the backup")
	case target.Recipient != "":
		if recipient, err = age.ParseX25519Recipient(target.Recipient); err != nil {
			return fmt.Errorf("read the age recipient: %w", err)
		}
	case len(target.Passphrase.Reveal()) < passphraseBytesMin:
		return fmt.Errorf("the passphrase of a backup needs at least %d characters", passphraseBytesMin)
	default:
		if byPhrase, err = age.NewScryptRecipient(target.Passphrase.Reveal()); err != nil {
			return errors.New("the passphrase of the backup is not usable")
		}
		byPhrase.SetWorkFactor(scryptLogN)
		recipient = byPhrase
	}
	plain, err := json.Marshal(backupContents{backupVersion, s.mnemonic(), k.AttestKey, k.CreatedAt})
	if err != nil {
		return errors.New("the backup could not be written out")
	}
	var encrypted bytes.Buffer
	armoured := armor.NewWriter(&encrypted)
	w, err := age.Encrypt(armoured, recipient)
	if err != nil {
		return fmt.Errorf("encrypt the backup: %w", err)
	}
	_, err = w.Write(plain)
	if err := errors.Join(err, w.Close(), armoured.Close()); err != nil {
		return fmt.Errorf("encrypt the backup: %w", err)
	}
	return CreateFile(path, encrypted.Bytes(), 0o600)
}

// RestoreSeed writes the files of a seed from its backup. Like CreateSeed it replaces none. The
// journal has to be restored as well before anything is signed.
func RestoreSeed(f Files, credential BackupIdentity, path string) (SeedInfo, error) {
	contents, err := readPrivateFile(path)
	if err != nil {
		return SeedInfo{}, err
	}
	var identity age.Identity
	switch {
	case credential.Identity.IsEmpty() == credential.Passphrase.IsEmpty():
		return SeedInfo{}, errors.New("give either the age identity or the passphrase of the backup")
	case !credential.Identity.IsEmpty():
		// The library's error could quote the identity.
		if identity, err = age.ParseX25519Identity(strings.TrimSpace(credential.Identity.Reveal())); err != nil {
			return SeedInfo{}, errors.New("this is not an age identity: it begins with AGE-SECRET-KEY-1")
		}
	default:
		if identity, err = age.NewScryptIdentity(credential.Passphrase.Reveal()); err != nil {
			return SeedInfo{}, errors.New("the passphrase of the backup is not usable")
		}
	}
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader(contents)), identity)
	if err != nil {
		return SeedInfo{}, fmt.Errorf("open the backup %s: it is damaged, or encrypted for another recipient", path)
	}
	plain, err := io.ReadAll(io.LimitReader(r, fileBytesMax))
	if err != nil {
		return SeedInfo{}, fmt.Errorf("open the backup %s: it is damaged", path)
	}
	var b backupContents
	if err := json.Unmarshal(plain, &b); err != nil || b.Version != backupVersion {
		return SeedInfo{}, fmt.Errorf("the backup %s is not of this version", path)
	}
	s, err := SeedFromWords(b.Words)
	if err != nil {
		return SeedInfo{}, fmt.Errorf("read the backup %s: %w", path, err)
	}
	if hex.EncodeToString(s.AttestKey().PublicKey()) != b.AttestKey {
		return SeedInfo{}, fmt.Errorf("the backup %s has the seed of another attestation key than it says", path)
	}
	// A seed is restored on a host that has no files yet.
	for _, file := range []string{f.Key, f.KEK, f.Attest} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return SeedInfo{}, fmt.Errorf("create the folder of the keys: %w", err)
		}
	}
	return writeFiles(f, s, b.CreatedAt)
}

// readPrivateFile reads a small file that no other user may read.
func readPrivateFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %v, so others can read or write it: chmod 600 %s", path, info.Mode(), path)
	}
	contents, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(contents) > fileBytesMax {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, fileBytesMax)
	}
	return contents, nil
}

// CreateFile writes a file whose name appears only when its contents are on disk. It replaces no
// file: the error is then fs.ErrExist.
func CreateFile(path string, contents []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	defer func() {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}()
	if _, err := f.Write(contents); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Chmod(mode); err != nil {
		return fmt.Errorf("set the mode of %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	// A link, unlike a rename, never replaces.
	if err := os.Link(f.Name(), path); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the directory of %s: %w", path, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync the directory of %s: %w", path, err)
	}
	return nil
}
