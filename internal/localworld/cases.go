package localworld

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// EquipService adds what only the service of a local world does: it saves rolled keys in the world's description, and
// its pages of payers play payers. It does nothing if the configuration file belongs to no local world.
func EquipService(service *app.App, config string, log *slog.Logger) error {
	saved, err := readSavedWorld(savedWorldFile(filepath.Dir(config)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	service.OnKeyRolled(func(ctx context.Context, org string, key seal.Secret) {
		if _, err := SaveAPIKey(config, org, key); err != nil {
			log.WarnContext(ctx, "the local world could not store a rolled key", "error", err)
		}
	})
	service.PlayPayers(payerCases{dir: filepath.Dir(filepath.Dir(saved.Description)), log: log})
	return nil
}

// payerCases plays the payers of PayScenarios for the pages on which payers pay.
type payerCases struct {
	dir string // in which the world was started
	log *slog.Logger
}

// List returns the names of the scenarios.
func (p payerCases) List() []string {
	names := make([]string, len(PayScenarios))
	for i, s := range PayScenarios {
		names[i] = s.Name
	}
	return names
}

// Play does what coffer local pay does.
func (p payerCases) Play(ctx context.Context, checkoutID string, mintID int, name string) error {
	info, err := ReadInfo(p.dir) // It has the key of now, which may have been rolled.
	if err != nil {
		return err
	}
	payer := Payer{Info: info, Report: func(format string, args ...any) {
		p.log.InfoContext(ctx, "a payer is played", "checkout", checkoutID, "case", name,
			"step", fmt.Sprintf(format, args...))
	}}
	_, err = payer.Pay(ctx, checkoutID, mintID, name)
	return err
}
