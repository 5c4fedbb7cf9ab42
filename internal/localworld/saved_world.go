package localworld

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

// savedWorld is what a kept world remembers from its previous start.
type savedWorld struct {
	OrganizationID string `json:"organizationId"`
	APIKey         string `json:"apiKey"`
	OperatorKey    string `json:"operatorKey"`
	Users          []User `json:"users"`
	Operators      []User `json:"operators"`
	Description    string `json:"description"` // path of InfoFile while the world runs
}

// savedWorldFile returns the path of savedWorld's file, which is in the world's folder like the
// configuration file.
func savedWorldFile(dir string) string { return filepath.Join(dir, "world.json") }

func readSavedWorld(path string) (k savedWorld, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(b, &k); err != nil {
		return k, fmt.Errorf("read %s: %w", path, err)
	}
	return k, nil
}

func (k savedWorld) writeFile(path string) error {
	b, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replaceFile(path, b)
}

// replaceFile replaces a file atomically. Only its owner can read it.
func replaceFile(path string, b []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // creates it with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = temp.Write(b)
	if err := errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(temp.Name())))
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}

// SaveAPIKey stores an organization's new API key in the description and the saved state of a local
// world, so that the commands of the guide still work. config is the configuration file with which
// the key was rolled. stored is false if that file belongs to no local world, or if the world was
// made with another organization.
func SaveAPIKey(config, org string, key seal.Secret) (stored bool, err error) {
	return replaceSavedKey(config, func(k *savedWorld) bool {
		if k.OrganizationID != org {
			return false
		}
		k.APIKey = key.Reveal()
		return true
	})
}

// SaveOperatorKey is SaveAPIKey for the operator's key with which the world was made; name is the
// key's name.
func SaveOperatorKey(config, name string, key seal.Secret) (stored bool, err error) {
	return replaceSavedKey(config, func(k *savedWorld) bool {
		if name != operatorName {
			return false
		}
		k.OperatorKey = key.Reveal()
		return true
	})
}

func replaceSavedKey(config string, set func(*savedWorld) bool) (stored bool, err error) {
	path := savedWorldFile(filepath.Dir(config))
	k, err := readSavedWorld(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !set(&k) {
		return false, err
	}
	if err := k.writeFile(path); err != nil {
		return false, err
	}
	dir := filepath.Dir(filepath.Dir(k.Description))
	info, err := ReadInfo(dir)
	if err != nil {
		return false, err
	}
	if info.Config != config { // another world runs there now
		return false, nil
	}
	info.APIKey, info.Operator.APIKey = k.APIKey, k.OperatorKey
	return true, info.writeFile(dir)
}
