// Package seal keeps secrets: values that never print, and ciphertext for the database
// that a copy of the database alone does not open.
//
// A sealed value is bound to its place, so that one row's ciphertext opens in no other
// row and a former version not in place of the present one. What never happens here: a
// key in the database, a key file that others may read. What a crash leaves: a whole
// key file or none. Losing the key file loses everything sealed with it.
package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

const (
	service        = "coffer"
	keyBytesMax    = 64 << 10
	bytesMax       = 1 << 20 // of one sealed value, before sealing
	bindingVersion = 1       // raised when bind writes places in another way
)

// ErrUnsealed is every failure to open: another key, another place, damage. Which one
// it was is not told, because an attacker would be the one to ask.
var ErrUnsealed = errors.New("sealed value does not open here")

// Binding is where a sealed value belongs. All of it must be known again to open it.
type Binding struct {
	Org     string // organization, or empty for the operator's own
	Kind    string // what it is, for example "webhook_secret"
	ID      string // which one
	Version int    // raised with every change of the value
}

// encodeBinding writes a place so that no two places give the same bytes.
func (p Binding) encodeBinding() []byte {
	b := []byte{bindingVersion}
	for _, part := range []string{service, p.Org, p.Kind, p.ID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return binary.BigEndian.AppendUint64(b, uint64(p.Version))
}

// Keyset seals and unseals. Safe for concurrent use.
type Keyset struct{ envelope tink.AEAD }

// CreateKeyset makes a new key in a file that only its owner may read. It never replaces a
// file: the error is then fs.ErrExist.
func CreateKeyset(path string) error {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	var content bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&content)); err != nil {
		return fmt.Errorf("write out the key: %w", err)
	}
	// The file appears under its name only when it is whole and on disk.
	dir := filepath.Dir(path)
	fresh, err := os.CreateTemp(dir, ".key-") // Mode 0600.
	if err != nil {
		return fmt.Errorf("create the key file: %w", err)
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.Write(content.Bytes())
	if err := errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	if err := os.Link(fresh.Name(), path); err != nil {
		return fmt.Errorf("create the key file: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the key file's directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the key file's directory: %w", err)
	}
	return nil
}

// OpenKeyset reads a key file. It refuses one that others may read or write.
func OpenKeyset(path string) (*Keyset, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the key file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the key file %s is not a plain file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the key file %s has mode %#o and others may use it: chmod 600", path, info.Mode().Perm())
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(io.LimitReader(file, keyBytesMax)))
	if err != nil {
		// The reader's own words could quote the file.
		return nil, fmt.Errorf("the key file %s holds no key", path)
	}
	key, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use the key of %s: %w", path, err)
	}
	return &Keyset{aead.NewKMSEnvelopeAEAD2(aead.AES256GCMKeyTemplate(), key)}, nil
}

// Seal encrypts under a key of the value's own, which the key of the file wraps.
func (k *Keyset) Seal(plaintext []byte, binding Binding) ([]byte, error) {
	if len(plaintext) > bytesMax {
		return nil, fmt.Errorf("seal %s %s: %d bytes are more than %d", binding.Kind, binding.ID, len(plaintext), bytesMax)
	}
	sealed, err := k.envelope.Encrypt(plaintext, binding.encodeBinding())
	if err != nil {
		return nil, fmt.Errorf("seal %s %s: %w", binding.Kind, binding.ID, err)
	}
	return sealed, nil
}

// Unseal decrypts what Seal made for the same place. Errors: ErrUnsealed.
func (k *Keyset) Unseal(sealed []byte, binding Binding) ([]byte, error) {
	plaintext, err := k.envelope.Decrypt(sealed, binding.encodeBinding())
	if err != nil {
		return nil, fmt.Errorf("unseal %s %s: %w", binding.Kind, binding.ID, ErrUnsealed)
	}
	return plaintext, nil
}
