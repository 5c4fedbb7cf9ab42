package service

import (
	"context"
	"errors"

	"github.com/cofferpay/coffer/internal/signer"
)

// noSigner is the signer of a process without one.
type noSigner struct{ signer.Signer }

// ErrNoSigner says that a wallet does not exist yet and that tools cannot create one.
var ErrNoSigner = errors.New("this command has no signer: start the service, which makes the wallet, and try again")

func (noSigner) IssueAddress(context.Context, signer.WalletRef) (signer.IssuedAddress, error) {
	return signer.IssuedAddress{}, ErrNoSigner
}

func (noSigner) VoidIntent(context.Context, signer.Void) (signer.Entry, error) {
	return signer.Entry{}, errors.New("this command has no signer: the running service asks it")
}
