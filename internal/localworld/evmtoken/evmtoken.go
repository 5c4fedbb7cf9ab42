// Package evmtoken has the compiled contracts of the local Ethereum chain: the tokens of the local
// world, tokens that misbehave in the ways of real tokens, and a contract that pays in indirect
// ways. Their sources are in localchain/contracts. `make generate` writes contracts.json from them,
// and a test of this package fails if the two differ.
//
// The package builds and reads call data and never uses a network or a key. It has no state, so a
// crash leaves no trace.
package evmtoken

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// Contract is one of the compiled contracts, by its name in the sources.
type Contract string

// The contracts. Constructors of tokens take (name, symbol string, decimals uint8). Only FiatToken
// takes nothing, since Proxy initializes it.
const (
	Token     Contract = "Token"     // nothing unusual
	FiatToken Contract = "FiatToken" // like USDC: blacklist, pause; the implementation of Proxy
	Proxy     Contract = "Proxy"     // (implementation, admin address, call []byte)
	Tether    Contract = "Tether"    // like USDT: its calls return nothing

	FeeToken      Contract = "FeeToken"      // one percent of a transfer does not arrive
	FalseToken    Contract = "FalseToken"    // returns false where others revert, or after a successful transfer
	LyingToken    Contract = "LyingToken"    // its events describe transfers that did not happen
	RebasingToken Contract = "RebasingToken" // balances change without a transfer

	Alias   Contract = "Alias"   // a second address of a token (token address)
	Batch   Contract = "Batch"   // pays many: by inner calls, by reverted calls, by selfdestruct
	Refuser Contract = "Refuser" // refuses native coin unless told otherwise
)

//go:embed contracts.json
var compiledJSON []byte

type artifact struct {
	ABI      abi.ABI       `json:"abi"`
	Bytecode hexutil.Bytes `json:"bytecode"`
}

type artifacts struct {
	Compiler  string                `json:"compiler"`
	Sources   string                `json:"sources"`
	Contracts map[Contract]artifact `json:"contracts"`
}

// The file is part of the program. If it cannot be read, the build is defective, and no caller
// could handle that.
var compiled = sync.OnceValue(func() artifacts {
	var loaded artifacts
	if err := json.Unmarshal(compiledJSON, &loaded); err != nil {
		panic(fmt.Sprintf("contracts.json is damaged: %v", err))
	}
	return loaded
})

func (c Contract) loadArtifact() artifact {
	a, ok := compiled().Contracts[c]
	if !ok {
		panic(fmt.Sprintf("no contract is called %s", string(c)))
	}
	return a
}

// ABI returns the interface of the contract.
func (c Contract) ABI() abi.ABI { return c.loadArtifact().ABI }

// CreationData returns the data of the transaction that creates the contract. It panics if args do
// not match the constructor, which is a mistake in the calling code.
func (c Contract) CreationData(args ...any) []byte {
	packed, err := c.loadArtifact().ABI.Pack("", args...)
	if err != nil {
		panic(fmt.Sprintf("the constructor of %s does not take %v: %v", string(c), args, err))
	}
	return append(bytes.Clone(c.loadArtifact().Bytecode), packed...)
}

// CallData returns the data of a call of method. It panics if the method does not exist or does not
// take args.
func (c Contract) CallData(method string, args ...any) []byte {
	packed, err := c.loadArtifact().ABI.Pack(method, args...)
	if err != nil {
		panic(fmt.Sprintf("%s.%s does not take %v: %v", string(c), method, args, err))
	}
	return packed
}

// DecodeAnswer decodes what a call of method returned. It returns an error if the answer does not
// match the declaration of the method.
func (c Contract) DecodeAnswer(method string, data []byte) ([]any, error) {
	values, err := c.loadArtifact().ABI.Unpack(method, data)
	if err != nil {
		return nil, fmt.Errorf("decode the answer of %s.%s: %w", string(c), method, err)
	}
	return values, nil
}
