package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/clock"
	"github.com/cofferpay/coffer/internal/signer/local"
)

// SignerTime is the state of the signer's clock.
type SignerTime = clock.Status

// SignerClock returns the state of a stopped signer's clock. It opens the signer itself, which
// locks the journal.
func SignerClock(conf Config) (status SignerTime, err error) {
	err = withSigner(conf, func(s *local.Signer) error {
		status = s.ClockStatus()
		return nil
	})
	return status, err
}

// ConfirmSignerClock journals that a person at the signer's host confirms its clock. statedTime is
// the time that they read elsewhere. The signer has to be stopped. status is the state of the clock
// before.
func ConfirmSignerClock(
	conf Config, statedTime time.Time, reason string,
) (status SignerTime, e signer.Entry, err error) {
	err = withSigner(conf, func(s *local.Signer) (err error) {
		status = s.ClockStatus()
		e, err = s.ConfirmClock(statedTime, reason)
		return err
	})
	return status, e, err
}

func withSigner(conf Config, use func(*local.Signer) error) error {
	seed, signerConf, err := openSeed(conf)
	if err != nil {
		return err
	}
	s, err := local.Open(signerConf, seed)
	if err != nil {
		return fmt.Errorf("signer.journal: %w", err)
	}
	return errors.Join(use(s), s.Close())
}
