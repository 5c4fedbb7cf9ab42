package evm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

var _ chain.SignatureChecker = (*adapter)(nil)

// isValidSignatureSelector begins every call of isValidSignature(bytes32,bytes), and the answer of a contract that
// accepts the signature (EIP-1271).
var isValidSignatureSelector = []byte{0x16, 0x26, 0xba, 0x7e}

const (
	wordBytes      = 32
	signatureStart = 2 * wordBytes // where the signature begins behind the digest and this offset
)

// signatureCall encodes the call of isValidSignature.
func signatureCall(digest [32]byte, signature []byte) []byte {
	word := func(n int) []byte {
		return binary.BigEndian.AppendUint64(make([]byte, wordBytes-8), uint64(n))
	}
	padding := make([]byte, (wordBytes-len(signature)%wordBytes)%wordBytes)
	return slices.Concat(isValidSignatureSelector, digest[:], word(signatureStart), word(len(signature)), signature,
		padding)
}

// isAccepted reports whether the answer of a contract is the one of EIP-1271: a whole word, so that a program which
// returns what it was given, as one at a reserved address does, accepts nothing.
func isAccepted(answer []byte) bool {
	return len(answer) >= wordBytes && bytes.Equal(answer[:wordBytes],
		append(bytes.Clone(isValidSignatureSelector), make([]byte, wordBytes-len(isValidSignatureSelector))...))
}

// IsContractSignature asks each provider in its own latest block, named by its hash, so that code and answer are of one
// block. Rule CO-141.
func (a *adapter) IsContractSignature(
	ctx context.Context, contract chain.Address, digest [32]byte, signature []byte,
) (bool, error) {
	address, err := evmtx.Bytes(contract)
	if err != nil {
		return false, fmt.Errorf("contract %s on %s: %w", contract, a.Name, err)
	}
	question := callArgs{To: address, Data: signatureCall(digest, signature)}
	isSigned, err := quorum.AgreeOnAnswer(ctx, a.providers, a.Quorum, a.Quorum,
		func(a, b bool) bool { return a == b },
		func(ctx context.Context, p *provider) (bool, error) {
			head, err := p.readHead(ctx, "latest")
			if err != nil {
				return false, err
			}
			block := blockByHash{common.HexToHash(head.Hash), true}
			var code *hexutil.Bytes
			if err := p.callMethod(ctx, &code, "eth_getCode", address, block); err != nil {
				return false, err
			}
			switch {
			case code == nil:
				return false, fmt.Errorf("%s: gave no code of %s", p.name, address)
			case len(*code) == 0:
				return false, nil
			}
			var answer *hexutil.Bytes
			err = p.callMethod(ctx, &answer, "eth_call", question, block)
			switch {
			case isExecutionError(err):
				return false, nil // Many contracts refuse a wrong signature by a revert.
			case err != nil:
				return false, err
			case answer == nil:
				return false, fmt.Errorf("%s: gave no answer of %s", p.name, address)
			}
			return isAccepted(*answer), nil
		})
	if err != nil {
		return false, fmt.Errorf("signature of contract %s on %s: %w", contract, a.Name, err)
	}
	return isSigned, nil
}
