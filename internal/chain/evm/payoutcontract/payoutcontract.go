// Package payoutcontract has the contract that pays several payees a token of its caller in one transaction. Its
// source is Payouts.sol, and `make generate` writes payouts.json from it.
//
// The contract is deployed with CREATE2 by the deployer that every chain has at one address. So its address follows
// from its code, is the same on every chain, and needs no configuration: what stands there is this contract or nothing.
// The contract has no owner and no storage, takes no coin and never holds a token. Rule BP-21.
//
// The package is pure. It sends nothing and knows no key.
package payoutcontract

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
)

//go:embed payouts.json
var compiledJSON []byte

type artifact struct {
	InitCode    hexutil.Bytes `json:"initCode"`
	RuntimeCode hexutil.Bytes `json:"runtimeCode"`
}

// compiled is part of the program. If it cannot be read, the build is defective, and no caller could handle that.
var compiled = func() (loaded artifact) {
	if err := json.Unmarshal(compiledJSON, &loaded); err != nil {
		panic(fmt.Sprintf("payouts.json is damaged: %v", err))
	}
	return loaded
}()

// Deployer is the contract that deploys by CREATE2. It stands at this address on every chain of the service.
// Who deploys makes no difference, because nothing but the code decides about the address.
var Deployer = common.HexToAddress("0x4e59b44847b379578588920cA78FbF26c0B4956C")

// salt is the salt of the deployment. Another one would be another address.
var salt [32]byte

// Address is the address of the contract on every chain.
var Address = crypto.CreateAddress2(Deployer, salt, crypto.Keccak256(compiled.InitCode))

// PaySelector begins every call of pay(address,bytes32[]).
var PaySelector = [4]byte(crypto.Keccak256([]byte("pay(address,bytes32[])"))[:4])

// DeploymentData returns the data of the transaction to Deployer that deploys the contract. Any account may send it.
func DeploymentData() []byte { return append(bytes.Clone(salt[:]), compiled.InitCode...) }

// RuntimeCode returns the code that stands at Address once the contract is deployed.
func RuntimeCode() []byte { return bytes.Clone(compiled.RuntimeCode) }

// IsRuntimeCode reports whether code is exactly that of the contract.
func IsRuntimeCode(code []byte) bool { return bytes.Equal(code, compiled.RuntimeCode) }
