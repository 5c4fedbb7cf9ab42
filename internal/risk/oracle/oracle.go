// Package oracle reads the contract of sanctioned addresses that Chainalysis maintains on chains of
// the EVM family.
//
// It needs no key, and is not sufficient as the only provider: it knows only listed addresses of
// that family, and is updated late. A chain without the contract, or a node that is behind, never
// counts as the answer "not sanctioned".
package oracle

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/risk"
)

// Name is the name of the provider in the API.
const Name = "SANCTIONS_ORACLE"

// The contract has one address on most chains, and another on Base.
const (
	DefaultContract = "0x40C57923924B5c5c5455c48D93317139ADDaC8fb"
	BaseContract    = "0x3A91A31cB3dC49b4db9Ce721F50a9D076c8D739B"
)

// headAgeMax is how far behind a node may be.
const headAgeMax = 15 * time.Minute

// selector is the function selector of isSanctioned(address).
var selector = []byte{0xdf, 0x59, 0x2f, 0x7d}

const (
	wordBytes    = 32
	addressBytes = 20
)

// Feed is the contract on one chain.
type Feed struct {
	Caller   chain.ContractCaller
	Contract chain.Address
}

// Screener asks the contract on the subject's chain.
type Screener struct {
	Feeds map[chain.Name]Feed
	Clock func() time.Time // nil means the system's clock
}

// Name returns SANCTIONS_ORACLE.
func (Screener) Name() string { return Name }

// Covers reports whether the chain has the contract.
func (s Screener) Covers(ch chain.Name) bool { _, ok := s.Feeds[ch]; return ok }

// Screen asks whether an address is sanctioned. It is SEVERE if one node says so. It is NONE if all
// nodes that answer say no, and a quorum answers.
func (s Screener) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	feed, ok := s.Feeds[subject.Chain]
	if !ok {
		return risk.Verdict{}, risk.NotRetryable("there is no contract on %s", risk.SanitizeText(string(subject.Chain)))
	}
	data, err := encodeCall(subject.Address)
	if err != nil {
		return risk.Verdict{}, risk.NotRetryable("%w", err)
	}
	answers, err := feed.Caller.Call(ctx, feed.Contract, data)
	if err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	now := time.Now()
	if s.Clock != nil {
		now = s.Clock()
	}
	if len(answers) == 0 {
		return risk.Verdict{}, risk.Unavailable("no node answered")
	}
	v := risk.Verdict{Provider: Name, Severity: risk.None, IsKnown: true, Direct: true, GivenAt: now}
	type nodeAnswer struct {
		Block  uint64 `json:"block"`
		Hash   string `json:"hash"`
		Listed bool   `json:"listed"`
	}
	var nodeAnswers []nodeAnswer
	var staleErr error
	for _, a := range answers {
		listed, err := decodeBool(a.Data)
		if err != nil {
			return risk.Verdict{}, risk.Unavailable("%s on %s: %w", feed.Contract, subject.Chain, err)
		}
		nodeAnswers = append(nodeAnswers, nodeAnswer{a.At.Height, a.At.Hash, listed})
		if listed {
			v.Severity, v.Categories, v.Entity = risk.Severe, []string{"SANCTIONS"}, "on the sanctions oracle"
		}
		if age := now.Sub(a.At.Time); age > headAgeMax || age < -headAgeMax {
			staleErr = risk.Unavailable("a node of %s is at a block of %s", subject.Chain,
				a.At.Time.UTC().Format(time.RFC3339))
		}
	}
	if v.Severity == risk.None && staleErr != nil {
		return risk.Verdict{}, staleErr
	}
	v.Reference = fmt.Sprintf("%s on %s at block %d", feed.Contract, subject.Chain, answers[0].At.Height)
	if v.Raw, err = json.Marshal(nodeAnswers); err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	return v, nil
}

// encodeCall encodes the call of the contract.
func encodeCall(address chain.Address) ([]byte, error) {
	text := risk.CanonicalAddress(string(address))
	if len(text) != 2+2*addressBytes || text[:2] != "0x" {
		return nil, fmt.Errorf("not an address of the EVM family")
	}
	raw, err := hex.DecodeString(text[2:])
	if err != nil {
		return nil, fmt.Errorf("not an address of the EVM family")
	}
	return slices.Concat(selector, make([]byte, wordBytes-addressBytes), raw), nil
}

// decodeBool decodes one word, which must be exactly true or false.
func decodeBool(data []byte) (bool, error) {
	if len(data) != wordBytes {
		return false, fmt.Errorf("an answer of %d bytes: the contract does not exist", len(data))
	}
	for _, b := range data[:wordBytes-1] {
		if b != 0 {
			return false, fmt.Errorf("an answer that is neither yes nor no")
		}
	}
	switch data[wordBytes-1] {
	case 0:
		return false, nil
	case 1:
		return true, nil
	}
	return false, fmt.Errorf("an answer that is neither yes nor no")
}
