package localworld

import (
	"context"
	"fmt"
	"log/slog"
)

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
