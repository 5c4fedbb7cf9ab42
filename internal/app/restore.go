package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
)

// ImportJournal brings a database that was restored from a backup up to date with the signer's
// journal: see journal.RestoreDatabase. No other process of the installation may run. A rehearsal
// writes nothing. The service can be started after it returns without an error.
func ImportJournal(
	ctx context.Context, conf Config, log *slog.Logger, actor audit.Actor, rehearse bool,
) (report journal.RestoreReport, err error) {
	sign, attest, closeSigner, err := OpenSigner(conf)
	if err != nil {
		return report, err
	}
	service := newApp(conf, log, closeSigner)
	defer func() { err = errors.Join(err, service.Close()) }()
	if err := service.openCore(ctx, sign, attest); err != nil {
		return report, err
	}
	mints, err := conf.mintCatalogue(service.Chains)
	if err != nil {
		return report, err
	}
	if err := mint.Sync(ctx, service.parts.DB, mints); err != nil {
		return report, err
	}
	report, err = journal.RestoreDatabase(ctx, service.parts.DB, service.parts.Signer, service.Wallets,
		service.NewRestorer(actor), rehearse)
	if rehearse && errors.Is(err, journal.ErrRehearsed) {
		err = nil
	}
	if err != nil {
		return report, fmt.Errorf("import the signer's journal: %w", err)
	}
	if !rehearse {
		// All that are lost, also of an import whose process ended here.
		err = service.Checkouts.RestoreOptions(ctx, time.Time{})
	}
	return report, err
}
