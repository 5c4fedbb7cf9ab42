package swap

import (
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
)

// The rules about pairs, as an answer names them.
const (
	ruleOtherCurrency = "a" // source and destination are different currencies
	ruleSolanaDollars = "b" // USDC and USDT are those of Solana
	ruleSwappable     = "c" // both mints are swappable for the organization
)

// pinnedToSolana are the symbols of the catalogue whose mint has to be on Solana. The symbol is that of
// a mint that a person put into the catalogue, not of a token on a chain.
var pinnedToSolana = []string{"USDC", "USDT"}

// IsSwappable reports whether an organization's customers can swap a mint. Rules MINT-2 and SWAP-3.
func (s *Service) IsSwappable(m mint.Mint, settings org.Settings) bool {
	return settings.CustomerSwapsEnabled && s.isOffered(m, settings)
}

// isOffered reports whether an organization lets a mint be swapped, by its customers and by its own people.
func (s *Service) isOffered(m mint.Mint, settings org.Settings) bool {
	return s.isServed(m) && followsSolanaRule(m) && slices.Contains(settings.SwappableMintIDs, m.ID)
}

// isServed reports whether the service can take part with a mint: its chain runs, it is not
// quarantined, and a delivery of it would be seen.
func (s *Service) isServed(m mint.Mint) bool {
	ch, isRunning := s.Chains[m.Chain]
	switch {
	case !isRunning || m.Quarantined:
		return false
	case m.Kind == mint.Native && m.Chain.Family() == chain.EVM:
		// A provider may pay a native coin by a contract, which only a tracing node shows.
		return ch.SeesInternal == nil || ch.SeesInternal()
	}
	return true
}

func followsSolanaRule(m mint.Mint) bool {
	return m.Chain == chain.Solana || !slices.Contains(pinnedToSolana, m.Symbol)
}

// checkPair applies the rules about pairs in their order. The switch of the kind of swap is checked before.
// Rule SWAP-3.
func (s *Service) checkPair(from, to mint.Mint, settings org.Settings) error {
	refuse := func(rule, format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidPair, fault.NothingHeld, format, args...).
			WithStep(fault.ListMints).WithDetail("rule", rule)
	}
	switch {
	case from.ID == to.ID || from.Symbol == to.Symbol:
		return refuse(ruleOtherCurrency, "A swap turns one currency into another one, and both mints are %s.",
			from.Symbol)
	case !followsSolanaRule(from):
		return refuse(ruleSolanaDollars, "%s is swapped only as its mint on Solana, and mint %d is on %s.", from.Symbol,
			from.ID, from.Chain)
	case !followsSolanaRule(to):
		return refuse(ruleSolanaDollars, "%s is swapped only as its mint on Solana, and mint %d is on %s.", to.Symbol,
			to.ID, to.Chain)
	}
	for _, m := range []mint.Mint{from, to} {
		if !s.isOffered(m, settings) {
			return refuse(ruleSwappable, "Mint %d (%s on %s) is not swappable for your organization.", m.ID, m.Symbol,
				m.Chain)
		}
	}
	return nil
}
