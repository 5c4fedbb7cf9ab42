package evm_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
)

// A contract is asked about a signature as EIP-1271 says, and only its own word is a yes: no account without code, no
// program at a reserved address, no revert and no other answer. Rule CO-141.
func TestAContractSaysWhetherItSigned(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	checker := l.chain.Reader.(chain.SignatureChecker)
	digest := [32]byte(crypto.Keccak256([]byte("text")))
	// A contract that multiplies the word of EIP-1271 with what it finds in the call: its digest, and a signature of 35
	// bytes that begins with 0x0102, where the encoding puts them.
	signer := "7f" + hex.EncodeToString(digest[:]) + "600435" + "14" + // digest == calldata[4:36]
		"604435" + "6023" + "14" + "16" + // and calldata[68:100], the length, == 35
		"606435" + "60f0" + "1c" + "610102" + "14" + "16" + // and the first two bytes of calldata[100:132] == 0x0102
		"631626ba7e60e01b" + "02" + "600052" + "60206000f3"
	signature := append([]byte{1, 2}, make([]byte, 33)...)
	for name, c := range map[string]struct {
		address   chain.Address
		digest    [32]byte
		signature []byte
		want      bool
	}{
		"its own":                {l.deploy(t, signer), digest, signature, true},
		"of another text":        {l.deploy(t, signer), [32]byte{1}, signature, false},
		"another signature":      {l.deploy(t, signer), digest, make([]byte, 35), false},
		"a shorter one":          {l.deploy(t, signer), digest, signature[:34], false},
		"no signature":           {l.deploy(t, signer), digest, nil, false},
		"a revert":               {l.deploy(t, "60006000fd"), digest, signature, false},
		"nothing":                {l.deploy(t, "00"), digest, signature, false},
		"one":                    {l.deploy(t, "600160005260206000f3"), digest, signature, false},
		"the word without zeros": {l.deploy(t, "631626ba7e60e01b60ff1760005260206000f3"), digest, signature, false},
		"the word cut off":       {l.deploy(t, "631626ba7e60e01b60005260046000f3"), digest, signature, false},
		"what it was given":      {l.deploy(t, "366000600037366000f3"), digest, signature, false},
		// It returns what it is given, which would be the word of EIP-1271 for this digest. It has no code.
		"a reserved address": {"0x0000000000000000000000000000000000000004", [32]byte{}, signature, false},
		"an account":         {l.Account(t), digest, signature, false},
	} {
		got, err := checker.IsContractSignature(t.Context(), c.address, c.digest, c.signature)
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}

// What too few providers answer is unknown, and so is what they contradict each other about. Rule CO-141.
func TestAContractsSignatureIsNoOnesWordAlone(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	yes := s.deploy(t, "631626ba7e60e01b60005260206000f3")
	c := s.open(t, 2, nil)
	checker := c.Reader.(chain.SignatureChecker)
	check := func() (bool, error) {
		return checker.IsContractSignature(t.Context(), yes, [32]byte{}, []byte{1})
	}
	if got, err := check(); err != nil || !got {
		t.Fatalf("got %v, %v, want both to say yes", got, err)
	}
	for name, lie := range map[string]rule{
		"no":         func(e *exchange) { e.SetResult(`"0x"`) },
		"a revert":   func(e *exchange) { e.SetError(`{"code":3,"message":"execution reverted"}`) },
		"null":       func(e *exchange) { e.SetResult("null") },
		"pruned":     func(e *exchange) { e.SetError(`{"code":-32000,"message":"missing trie node"}`) },
		"gone":       func(e *exchange) { e.DropConnection() },
		"rate limit": func(e *exchange) { e.SetError(`{"code":-32005,"message":"limit exceeded"}`) },
	} {
		for _, method := range []string{"eth_call", "eth_getCode"} {
			if method == "eth_getCode" && name == "a revert" {
				continue // which says nothing about code
			}
			s.proxies[1].SetRule(method, lie)
			got, err := check()
			if err == nil || got {
				t.Errorf("%s of %s: got %v, %v, want that it is unknown", name, method, got, err)
			}
			if name == "no" && !errors.Is(err, chain.ErrDisagreement) {
				t.Errorf("%s of %s: got %v, want the disagreement", name, method, err)
			}
			s.proxies[1].SetRule(method, nil)
		}
	}
}
