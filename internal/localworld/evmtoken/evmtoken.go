// Package evmtoken holds the contracts of the local Ethereum chain, compiled:
// the tokens that the local world offers, ones that misbehave in the ways that
// real tokens do, and a contract that pays in roundabout ways. Their sources
// are in localchain/contracts; `make generate` writes contracts.json from them
// and a test of this package fails when the two have drifted apart.
//
// It builds and reads call data and never touches a network or a key. It keeps
// no state, so a crash leaves nothing behind.
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

// A Contract is one of the compiled contracts, by its name in the sources.
type Contract string

// The contracts. Tokens take (name, symbol string, decimals uint8) when they
// are created, except FiatToken, which Proxy initializes.
const (
	Token     Contract = "Token"     // nothing unusual
	FiatToken Contract = "FiatToken" // like USDC: blacklist, pause; stands behind Proxy
	Proxy     Contract = "Proxy"     // (implementation, admin address, call []byte)
	Tether    Contract = "Tether"    // like USDT: its calls return nothing

	FeeToken      Contract = "FeeToken"      // one percent of a transfer does not arrive
	FalseToken    Contract = "FalseToken"    // answers false where others revert, or where it did transfer
	LyingToken    Contract = "LyingToken"    // its events say what did not happen
	RebasingToken Contract = "RebasingToken" // balances change without a transfer

	Alias   Contract = "Alias"   // a second address of one token (token address)
	Batch   Contract = "Batch"   // pays many, by inner calls, undone, by selfdestruct
	Refuser Contract = "Refuser" // takes no coin unless told to
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

// The file is part of the program: one that cannot be read is a defect of the
// build, not something that a caller could handle.
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

// ABI is the interface of the contract.
func (c Contract) ABI() abi.ABI { return c.loadArtifact().ABI }

// CreationData is the data of the transaction that creates the contract. It panics
// when args are not what the constructor takes, which is a mistake in the code
// that calls it.
func (c Contract) CreationData(args ...any) []byte {
	packed, err := c.loadArtifact().ABI.Pack("", args...)
	if err != nil {
		panic(fmt.Sprintf("the constructor of %s does not take %v: %v", string(c), args, err))
	}
	return append(bytes.Clone(c.loadArtifact().Bytecode), packed...)
}

// CallData is the data of a call of method. It panics when there is no such method
// or it does not take args.
func (c Contract) CallData(method string, args ...any) []byte {
	packed, err := c.loadArtifact().ABI.Pack(method, args...)
	if err != nil {
		panic(fmt.Sprintf("%s.%s does not take %v: %v", string(c), method, args, err))
	}
	return packed
}

// DecodeAnswer decodes what a call of method returned. The error says that the
// answer does not have the shape that the method declares.
func (c Contract) DecodeAnswer(method string, data []byte) ([]any, error) {
	values, err := c.loadArtifact().ABI.Unpack(method, data)
	if err != nil {
		return nil, fmt.Errorf("decode the answer of %s.%s: %w", string(c), method, err)
	}
	return values, nil
}
