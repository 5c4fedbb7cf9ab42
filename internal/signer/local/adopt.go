package local

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/adopt"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// AdoptJournal makes a journal that continues a lost one, from the database's copy of its entries
// and from what the chains report. It is a deliberate act of the operator, with no other process
// running, and refuses to replace a file.
//
// It is safe because the database commits an order's slot and whole payload before they are signed.
// What the lost journal knew and the copy lacks is therefore requested again and answered with the
// same bytes. That holds for the database that the lost journal worked with, not for an older
// backup of it. A chain whose nonce is past every copied slot reveals an older backup, and the
// adoption is refused.
//
// The copy comes from the database, which this signer does not trust:
//   - every address is derived again
//   - every intent has to be allowed (limits apart)
//   - every signature has to come out the same
func AdoptJournal(conf Config, seed keys.Seed, copied []signer.Entry, reported []adopt.ChainNonce) error {
	if err := conf.Policy.Validate(); err != nil {
		return err
	}
	contents, err := rebuildJournal(conf, seed, copied, reported)
	if err != nil {
		return fmt.Errorf("adopt a lost journal: %w", err)
	}
	return keys.CreateFile(conf.Journal, contents, 0o600)
}

func rebuildJournal(
	conf Config, seed keys.Seed, copied []signer.Entry, reported []adopt.ChainNonce,
) ([]byte, error) {
	engine := conf.newEngine(seed)
	lost, err := adopt.ReadCopy(copied, seed.AttestKey().PublicKey())
	if err != nil {
		return nil, err
	}
	contents, err := lost.Continue(conf.currentTime(), engine.Recheck, engine.Apply)
	if err != nil {
		return nil, err
	}
	return contents, lost.CheckNonces(reported)
}
