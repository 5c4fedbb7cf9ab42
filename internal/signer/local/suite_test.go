package local_test

import (
	"crypto/ed25519"
	"testing"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

func TestLocalKeepsThePromisesOfASigner(t *testing.T) {
	t.Parallel()
	signertest.RunSuite(t, func(t *testing.T) (signer.Signer, ed25519.PublicKey) {
		return signertest.Open(t, signertest.NewPolicy(), nil)
	})
}
