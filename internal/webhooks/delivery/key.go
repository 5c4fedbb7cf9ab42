package delivery

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferpay/coffer/webhook"
)

// CreateKey creates the installation's signing key in a file that only its owner may read, as one
// line whsk_…. It never replaces a file: the error is then fs.ErrExist. Every process of an
// installation uses a copy of the same file. The holder of the key can sign messages of the
// installation, but cannot make a payment with it.
func CreateKey(path string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("create the webhook signing key: %w", err)
	}
	// The file gets its name only when it is complete and on disk.
	fresh, err := os.CreateTemp(filepath.Dir(path), ".webhook-key-") // Mode 0600.
	if err != nil {
		return fmt.Errorf("create the webhook signing key's file: %w", err)
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.WriteString("whsk_" + base64.StdEncoding.EncodeToString(private.Seed()) + "\n")
	if err := errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return fmt.Errorf("write the webhook signing key's file: %w", err)
	}
	if err := os.Link(fresh.Name(), path); err != nil {
		return fmt.Errorf("create the webhook signing key's file: %w", err)
	}
	return nil
}

// OpenKey reads a file of CreateKey. It refuses a file that other users may read or write.
func OpenKey(path string) (webhook.Key, error) {
	info, err := os.Stat(path)
	if err != nil {
		return webhook.Key{}, fmt.Errorf("open the webhook signing key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return webhook.Key{}, fmt.Errorf("the webhook signing key %s has mode %#o, so others can read or write it: "+
			"chmod 600",
			path, info.Mode().Perm())
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return webhook.Key{}, fmt.Errorf("read the webhook signing key: %w", err)
	}
	text := strings.TrimSuffix(string(content), "\n")
	key, err := webhook.ParseKey(text)
	if err != nil || !strings.HasPrefix(text, "whsk_") {
		return webhook.Key{}, fmt.Errorf("the file %s contains no webhook signing key (whsk_…)", path)
	}
	return key, nil
}

// OpenOrCreateKey does what OpenKey does, and creates the file if there is none.
func OpenOrCreateKey(path string) (webhook.Key, error) {
	if err := CreateKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return webhook.Key{}, err
	}
	return OpenKey(path)
}
