package payoutcontract_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
)

// The signers of every installation derive the address from the code, so another code is another contract, which no
// signer knows and no treasury has allowed anything. Rule BP-21.
func TestTheContractIsTheOneThatSignersKnow(t *testing.T) {
	t.Parallel()
	digest := sha256.Sum256(payoutcontract.RuntimeCode())
	if got := hex.EncodeToString(digest[:]); got != runtimeCodeHash {
		t.Errorf("the code has hash %s, want %s", got, runtimeCodeHash)
	}
	if got := payoutcontract.Address.Hex(); got != address {
		t.Errorf("the address is %s, want %s", got, address)
	}
}

const (
	runtimeCodeHash = "f0f3256f05c6ecd11b87ebf623e8072c730af7cb87fe8c74376be0751bebc6e3"
	address         = "0xAC80fF4F62b4684478A1F90779c86326034a01c0"
)
