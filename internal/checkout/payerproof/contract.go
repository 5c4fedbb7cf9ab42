package payerproof

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
)

// contractBytesMax bounds what a contract is given as a signature: one of twenty-four owners has as much.
const contractBytesMax = 1600

// undeployedSuffix ends a signature of a contract that is not on its chain yet (EIP-6492).
var undeployedSuffix = bytes.Repeat([]byte{0x64, 0x92}, 16)

// ContractQuestion is what a contract of an EVM chain is asked about a signature that is not one of a key (EIP-1271).
type ContractQuestion struct {
	Digest    [32]byte // of the text
	Signature []byte
	// IsUndeployed says that the wallet wrapped the signature, because its contract is not on the chain yet
	// (EIP-6492). Such a signature is checked by running what it brings along, which the service does of no one. A
	// contract that has paid is on its chain, so no payer needs it.
	IsUndeployed bool
}

// AskContract returns what a contract is asked about a signature in hexadecimal. isWellFormed is false for a text that
// no contract has to be asked about. Rule CO-140.
func AskContract(text, signature string) (question ContractQuestion, isWellFormed bool) {
	digits := strings.TrimPrefix(strings.TrimSpace(signature), "0x")
	if len(digits) > 2*contractBytesMax {
		return question, false
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return question, false
	}
	return ContractQuestion{
		Digest: [32]byte(digestEVM(text)), Signature: raw, IsUndeployed: bytes.HasSuffix(raw, undeployedSuffix),
	}, true
}

// digestEVM returns what personal_sign signs for a text (EIP-191).
func digestEVM(text string) []byte {
	return crypto.Keccak256(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(text), text))
}
