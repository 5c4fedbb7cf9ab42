// Package seal protects secrets: values that never print, and ciphertext for the database that a
// copy of the database alone does not open.
//
// A sealed value is bound to its place. So one row's ciphertext opens in no other row, and a former
// version does not open in place of the present one. No key is in the database, and no key file is
// readable by other users. A crash leaves a complete key file or none. The loss of the key file
// loses everything that is sealed with it.
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
	bindingVersion = 1       // increases when encodeBinding changes
)

// ErrUnsealed is the error of every failure to open: another key, another place, damage. It does
// not say which one, because an attacker would be the one to ask.
var ErrUnsealed = errors.New("cannot decrypt the sealed value here")

// Binding is the place of a sealed value. All of it must be known again to open the value.
type Binding struct {
	Org     string // organization, or "" for the operator's own
	Kind    string // kind of the value, for example "webhook_secret"
	ID      string // id of its object
	Version int    // increases with every change of the value
}

// encodeBinding encodes a place. No two places have the same bytes.
func (p Binding) encodeBinding() []byte {
	b := []byte{bindingVersion}
	for _, part := range []string{service, p.Org, p.Kind, p.ID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return binary.BigEndian.AppendUint64(b, uint64(p.Version))
}

// Keyset seals and unseals. It is safe for concurrent use.
type Keyset struct{ envelope tink.AEAD }

// CreateKeyset makes a new key in a file that only its owner may read. It never replaces a file:
// the error is then fs.ErrExist.
func CreateKeyset(path string) error {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return fmt.Errorf("create a key: %w", err)
	}
	var content bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&content)); err != nil {
		return fmt.Errorf("write out the key: %w", err)
	}
	// The file gets its name only when it is complete and on disk.
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

// OpenKeyset reads a key file. It refuses a file that other users may read or write.
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
		return nil, fmt.Errorf(
			"the key file %s has mode %#o, so others can read or write it: chmod 600", path, info.Mode().Perm(),
		)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(io.LimitReader(file, keyBytesMax)))
	if err != nil {
		// The reader's own error could quote the file.
		return nil, fmt.Errorf("the key file %s contains no key", path)
	}
	key, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use the key of %s: %w", path, err)
	}
	return &Keyset{aead.NewKMSEnvelopeAEAD2(aead.AES256GCMKeyTemplate(), key)}, nil
}

// Seal encrypts with a key that is made for this value, which the key of the file encrypts.
func (k *Keyset) Seal(plaintext []byte, binding Binding) ([]byte, error) {
	if len(plaintext) > bytesMax {
		return nil, fmt.Errorf(
			"seal %s %s: %d bytes are more than %d", binding.Kind, binding.ID, len(plaintext), bytesMax,
		)
	}
	sealed, err := k.envelope.Encrypt(plaintext, binding.encodeBinding())
	if err != nil {
		return nil, fmt.Errorf("seal %s %s: %w", binding.Kind, binding.ID, err)
	}
	return sealed, nil
}

// Unseal decrypts a value that Seal made for the same place. Errors: ErrUnsealed.
func (k *Keyset) Unseal(sealed []byte, binding Binding) ([]byte, error) {
	plaintext, err := k.envelope.Decrypt(sealed, binding.encodeBinding())
	if err != nil {
		return nil, fmt.Errorf("unseal %s %s: %w", binding.Kind, binding.ID, ErrUnsealed)
	}
	return plaintext, nil
}
