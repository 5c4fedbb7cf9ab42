// Package servicetest compares what the chains offer with the loops that use it. A chain once
// offered consolidations, and the service ran no loop that made any.
package servicetest

import (
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
)

// Capability is something that only some chains offer: a field of chain.Chain that may be empty, or
// an interface that its Reader implements in addition.
type Capability struct {
	Name string // the field or the interface
	// IsOffered reports whether a chain offers it.
	IsOffered func(ch chain.Chain) bool
	// Loops are the names of the loops that use it. It is empty if requests alone use it.
	Loops []string
}

// Capabilities lists all of them. Its test finds one that is missing, and one whose loops do not
// mention it.
var Capabilities = []Capability{
	{"UTXO", func(ch chain.Chain) bool { return ch.UTXO != nil }, []string{"dispatch"}},
	{"Consolidator", func(ch chain.Chain) bool { return ch.Consolidator != nil }, []string{"sweep", "dispatch"}},
	{"NonceAccounts", func(ch chain.Chain) bool { return ch.NonceAccounts != nil }, []string{"sweep", "dispatch"}},
	{"SlotProver", func(ch chain.Chain) bool { return ch.SlotProver != nil }, []string{"dispatch"}},
	{"TokenAccounts", func(ch chain.Chain) bool { return ch.TokenAccounts != nil }, []string{"sweep"}},
	{"PayoutContract", func(ch chain.Chain) bool { return ch.PayoutContract != nil }, []string{"sweep", "dispatch"}},
	{"PayeeAccounts", func(ch chain.Chain) bool { return ch.PayeeAccounts != nil }, []string{"dispatch"}},
	{"Memos", func(ch chain.Chain) bool { return ch.Memos != nil }, []string{"memos"}},
	{"Tiers", func(ch chain.Chain) bool { return len(ch.Tiers) > 0 }, []string{"scan", "deposit"}},
	// A withdrawal and the return of a deposit ask for it when a person requests them.
	{"MinPayment", func(ch chain.Chain) bool { return ch.MinPayment != nil }, nil},
	{"TokenInspector", offersReader[chain.TokenInspector], []string{"scan"}},
	{"Tracer", offersReader[chain.Tracer], []string{"scan"}},
	{"TxLocator", offersReader[chain.TxLocator], []string{"deposit swaps"}},
	// A page asks for one when a payer pays with a wallet.
	{"PaymentRequests", offersReader[chain.PaymentRequests], nil},
	// The sources of prices and the oracle of sanctions call contracts.
	{"ContractCaller", offersReader[chain.ContractCaller], nil},
	// A payer who claims a refund signs with a contract.
	{"SignatureChecker", offersReader[chain.SignatureChecker], nil},
}

func offersReader[T any](ch chain.Chain) bool {
	_, ok := ch.Reader.(T)
	return ok
}

// chainLoops are the loops that every chain needs.
var chainLoops = []string{"scan", "dispatch"}

// MissingLoops says which loops a chain needs that are not among the names. A name has the form of
// service.Loop, or it is the same without the chain.
func MissingLoops(ch chain.Chain, names []string) (missing []string) {
	isThere := func(loop string) bool {
		return slices.Contains(names, loop) || slices.Contains(names, loop+" "+string(ch.Name))
	}
	for _, loop := range chainLoops {
		if !isThere(loop) {
			missing = append(missing, fmt.Sprintf("%s needs the loop %q", ch.Name, loop))
		}
	}
	for _, c := range Capabilities {
		if !c.IsOffered(ch) {
			continue
		}
		for _, loop := range c.Loops {
			if !isThere(loop) {
				missing = append(missing, fmt.Sprintf("%s offers %s, which the loop %q uses", ch.Name, c.Name, loop))
			}
		}
	}
	return missing
}
