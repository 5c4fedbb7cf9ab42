// Package signpolicy reads the signer's policy: what a person at its host allows, independently of
// the service. What it does not name is refused. An absent setting never means more than it says
// here, and a main network has no setting without a limit.
package signpolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
	"github.com/cofferpay/coffer/internal/signer/window"
)

// Policy is what the signer allows, independently of the caller. What it does not name is refused.
type Policy struct {
	Chains map[chain.Name]Chain `json:"chains"`
	// WhitelistCoolingOff is the time after its endorsement during which a whitelisted address may
	// not be paid, such as "24h" or "0s". If absent, it is a day. It is the signer's own setting:
	// an attacker with control of the server cannot shorten it.
	WhitelistCoolingOff string `json:"whitelistCoolingOff,omitempty"`
	// Swaps are the swap providers that may be paid. If absent, none may.
	Swaps *Swaps `json:"swaps,omitempty"`
}

const (
	coolingOffDefault = 24 * time.Hour
	coolingOffMax     = 30 * 24 * time.Hour
)

// CoolingOff returns WhitelistCoolingOff of a policy that was validated.
func (p Policy) CoolingOff() time.Duration {
	if p.WhitelistCoolingOff == "" {
		return coolingOffDefault
	}
	d, err := time.ParseDuration(p.WhitelistCoolingOff)
	if err != nil {
		return coolingOffMax
	}
	return d
}

// Chain is the policy of one chain.
type Chain struct {
	// SignerID is the network that payloads have to be for: on EVM the chain id in decimal,
	// elsewhere the hash of the first block.
	SignerID string `json:"signerId"`
	// FeeMax is the most that one transaction may cost, in native units. The fees that dispatch may
	// propose have to stay below it: a payload above it is refused after its slot is taken.
	FeeMax money.Amount `json:"feeMax"`
	// FeeDayMax is the most that all transactions of one wallet that were signed in 24 hours may
	// cost together, in native units. A slot counts with its most expensive transaction. If absent,
	// it is feeDayDefault times FeeMax, or no limit where Unlimited is set.
	FeeDayMax money.Amount `json:"feeDayMax,omitzero"`
	// ConsolidationRateMax is the most that a consolidation may cost per thousand virtual bytes, in
	// native units, independently of FeeMax: it pays no one and can wait. If absent, it is
	// consolidationRateDefault.
	ConsolidationRateMax money.Amount `json:"mergeRateMax,omitzero"`
	// GasMax is the most that one gas top-up may carry, in native units.
	GasMax money.Amount `json:"gasMax"`
	// Assets are the limits of payments by contract, "" for the native coin.
	Assets map[chain.Address]Limit `json:"assets"`
	// UnapprovedBatches bound the rows of batches that no person approved, by contract, "" for the native coin. Of an
	// asset that it does not name no such row is paid, also where Unlimited is set. The limits of Assets count them, too.
	UnapprovedBatches map[chain.Address]UnapprovedLimit `json:"unapprovedBatches,omitempty"`
	// Unlimited removes the limits of payments for every asset that Assets does not name, and of
	// fees. It is for local chains and test networks.
	Unlimited bool `json:"unlimited,omitempty"`
}

// feeDayDefault is how many transactions of the highest fee a wallet may sign in a day. Usual
// transactions cost a small part of that.
const feeDayDefault = 100

// consolidationRateDefault is what payments cost in usual times: a consolidation that costs more
// saves nothing.
const consolidationRateDefault = 10_000

// EffectiveConsolidationRate returns ConsolidationRateMax, or its default if it is absent.
func (c Chain) EffectiveConsolidationRate() money.Amount {
	if c.ConsolidationRateMax.IsZero() {
		return money.Units(consolidationRateDefault)
	}
	return c.ConsolidationRateMax
}

// Limit bounds payments of one asset, in atomic units.
type Limit struct {
	PaymentMax      money.Amount `json:"paymentMax"`      // one payment
	OrganizationMax money.Amount `json:"organizationMax"` // all payments of an organization in 24 hours
	OverallMax      money.Amount `json:"overallMax"`      // all payments of the installation in 24 hours
	// Unlimited says that this asset has no limit; the three limits must then be absent. It is for
	// local chains and test networks.
	Unlimited bool `json:"unlimited,omitempty"`
}

// UnapprovedLimit bounds what batches pay of one asset without an approval of a person, in atomic units.
type UnapprovedLimit struct {
	BatchMax money.Amount `json:"batchMax"` // one batch, all its rows together
	DayMax   money.Amount `json:"dayMax"`   // all such rows of the installation in 24 hours
}

// Parse reads a policy from a file's contents. Unknown and repeated members are errors.
// Errors of the contents are reported together.
func Parse(b []byte) (Policy, error) {
	var p Policy
	if err := json.Unmarshal(b, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, fmt.Errorf("read the signer's policy: %w", err)
	}
	return p, p.Validate()
}

// Validate returns everything that is wrong with a policy.
func (p Policy) Validate() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf("signer policy: "+format, args...)) }
	if d, err := time.ParseDuration(p.WhitelistCoolingOff); p.WhitelistCoolingOff != "" &&
		(err != nil || d < 0 || d > coolingOffMax) {
		complain("whitelistCoolingOff: got %q, want a duration from 0s to %s, such as 24h", p.WhitelistCoolingOff,
			coolingOffMax)
	}
	if len(p.Chains) == 0 {
		complain("chains: name at least one")
	}
	// Slots and limits are kept by the chain's name. Two names for one network would give one nonce
	// of it to two intents.
	namesBySignerID := map[string]chain.Name{}
	for _, name := range slices.Sorted(maps.Keys(p.Chains)) {
		c := p.Chains[name]
		if taker, taken := namesBySignerID[c.SignerID]; taken && c.SignerID != "" {
			complain("chains.%s.signerId: %s is already the network of %s", name, c.SignerID, taker)
		}
		namesBySignerID[c.SignerID] = name
		family := txcodec.Find(name.Family())
		if family == nil {
			complain("chains.%s: this signer has no keys for it", name)
			continue
		}
		if err := family.CheckSignerID(c.SignerID); err != nil {
			complain("chains.%s.signerId: got %q, %w", name, c.SignerID, err)
		}
		if setting := c.unlimitedSetting(); setting != "" && isMainNetwork(c.SignerID) {
			complain("chains.%s.%s: is for local chains and test networks, and signerId %s is a main network; "+
				"set limits", name, setting, c.SignerID)
		}
		if c.FeeMax.IsZero() {
			complain("chains.%s.feeMax: set the most that a transaction may cost, in native units", name)
		}
		if !c.FeeDayMax.IsZero() && c.FeeDayMax.Less(c.FeeMax) {
			complain("chains.%s.feeDayMax: %v is less than feeMax, what one transaction may cost", name, c.FeeDayMax)
		}
		for _, contract := range slices.Sorted(maps.Keys(c.Assets)) {
			l := c.Assets[contract]
			if contract != "" && !family.IsCanonical(contract) {
				complain("chains.%s.assets: %q is not a contract address in its canonical form", name, contract)
			}
			if !l.isComplete() {
				complain("chains.%s.assets.%q: set paymentMax, organizationMax and overallMax, or unlimited alone",
					name, contract)
			}
		}
		for _, contract := range slices.Sorted(maps.Keys(c.UnapprovedBatches)) {
			l := c.UnapprovedBatches[contract]
			if contract != "" && !family.IsCanonical(contract) {
				complain("chains.%s.unapprovedBatches: %q is not a contract address in its canonical form", name, contract)
			}
			if _, isAllowed := c.AssetLimit(contract); !isAllowed {
				complain("chains.%s.unapprovedBatches.%q: assets does not name it, so nothing of it is paid", name, contract)
			}
			if l.BatchMax.IsZero() || l.DayMax.Less(l.BatchMax) {
				complain("chains.%s.unapprovedBatches.%q: set batchMax, and a dayMax that is not below it", name, contract)
			}
		}
	}
	if p.Swaps != nil {
		p.Swaps.validate(p.Chains, complaints(complain).aboutPart("swaps."))
	}
	return errors.Join(errs...)
}

// isComplete reports whether a limit has all three amounts, or says that there is none.
func (l Limit) isComplete() bool {
	someSet := !l.PaymentMax.IsZero() || !l.OrganizationMax.IsZero() || !l.OverallMax.IsZero()
	allSet := !l.PaymentMax.IsZero() && !l.OrganizationMax.IsZero() && !l.OverallMax.IsZero()
	return l.Unlimited && !someSet || !l.Unlimited && allSet
}

// UnlimitedSetting returns the setting of the policy that removes a limit; "" if there is none.
func (p Policy) UnlimitedSetting() string {
	for _, name := range slices.Sorted(maps.Keys(p.Chains)) {
		if setting := p.Chains[name].unlimitedSetting(); setting != "" {
			return fmt.Sprintf("chains.%s.%s", name, setting)
		}
	}
	return p.EffectiveSwaps().unlimitedSetting()
}

func (c Chain) unlimitedSetting() string {
	if c.Unlimited {
		return "unlimited"
	}
	for _, contract := range slices.Sorted(maps.Keys(c.Assets)) {
		if c.Assets[contract].Unlimited {
			return fmt.Sprintf("assets.%q.unlimited", contract)
		}
	}
	return ""
}

// isMainNetwork reports whether a signerId is that of a main network which this program knows. For
// other networks the configuration decides: see Unlimited.
func isMainNetwork(signerID string) bool {
	network, ok := catalogue.ByGenesis(signerID)
	if id, err := strconv.ParseUint(signerID, 10, 64); err == nil {
		network, ok = catalogue.ByChainID(id)
	}
	return ok && network.Network == chain.Mainnet
}

// AssetLimit returns the limit of an asset; nil means that it has none. The second result is false
// if the policy does not allow the asset.
func (c Chain) AssetLimit(contract chain.Address) (*Limit, bool) {
	l, ok := c.Assets[contract]
	switch {
	case ok && !l.Unlimited:
		return &l, true
	case ok || c.Unlimited:
		return nil, true
	}
	return nil, false
}

// FeeDayLimit returns what a wallet may spend on fees in a day; nil means no limit.
func (c Chain) FeeDayLimit() *money.Amount {
	limit := c.FeeDayMax
	if limit.IsZero() {
		if c.Unlimited {
			return nil
		}
		var err error
		if limit, err = c.FeeMax.Mul(feeDayDefault); err != nil {
			limit = window.AmountMax
		}
	}
	return &limit
}
