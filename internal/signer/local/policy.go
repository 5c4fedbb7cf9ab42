package local

import (
	"cmp"
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
	"github.com/cofferpay/coffer/internal/signer"
)

// limitWindow is the period in which payments and fees count against a limit, by the journal's
// time.
const limitWindow = 24 * time.Hour

// Policy is what the signer allows, independently of the caller. What it does not name is refused.
type Policy struct {
	Chains map[chain.Name]ChainPolicy `json:"chains"`
	// WhitelistCoolingOff is the time after its endorsement during which a whitelisted address may
	// not be paid, such as "24h" or "0s". If absent, it is a day. It is the signer's own setting:
	// an attacker with control of the server cannot shorten it.
	WhitelistCoolingOff string `json:"whitelistCoolingOff,omitempty"`
}

const (
	coolingOffDefault = 24 * time.Hour
	coolingOffMax     = 30 * 24 * time.Hour
)

// coolingOff returns WhitelistCoolingOff of a policy that was validated.
func (p Policy) coolingOff() time.Duration {
	if p.WhitelistCoolingOff == "" {
		return coolingOffDefault
	}
	d, err := time.ParseDuration(p.WhitelistCoolingOff)
	if err != nil {
		return coolingOffMax
	}
	return d
}

// ChainPolicy is the policy of one chain.
type ChainPolicy struct {
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
func (c ChainPolicy) EffectiveConsolidationRate() money.Amount {
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

// ParsePolicy reads a policy from a file's contents. Unknown and repeated members are errors.
// Errors of the contents are reported together.
func ParsePolicy(b []byte) (Policy, error) {
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
		family, ok := codecs[name.Family()]
		if !ok {
			complain("chains.%s: this signer has no keys for it", name)
			continue
		}
		if err := family.checkSignerID(c.SignerID); err != nil {
			complain("chains.%s.signerId: got %q, %w", name, c.SignerID, err)
		}
		if setting := c.unlimitedSetting(); setting != "" && isMainNetwork(c.SignerID) {
			complain("chains.%s.%s: is for local chains and test networks, and signerId %s is a main network; set limits",
				name, setting, c.SignerID)
		}
		if c.FeeMax.IsZero() {
			complain("chains.%s.feeMax: set the most that a transaction may cost, in native units", name)
		}
		if !c.FeeDayMax.IsZero() && c.FeeDayMax.Less(c.FeeMax) {
			complain("chains.%s.feeDayMax: %v is less than feeMax, what one transaction may cost", name, c.FeeDayMax)
		}
		for _, contract := range slices.Sorted(maps.Keys(c.Assets)) {
			l := c.Assets[contract]
			if contract != "" && !family.isCanonical(contract) {
				complain("chains.%s.assets: %q is not a contract address in its canonical form", name, contract)
			}
			someSet := !l.PaymentMax.IsZero() || !l.OrganizationMax.IsZero() || !l.OverallMax.IsZero()
			allSet := !l.PaymentMax.IsZero() && !l.OrganizationMax.IsZero() && !l.OverallMax.IsZero()
			if l.Unlimited && someSet || !l.Unlimited && !allSet {
				complain("chains.%s.assets.%q: set paymentMax, organizationMax and overallMax, or unlimited alone",
					name, contract)
			}
		}
	}
	return errors.Join(errs...)
}

// UnlimitedSetting returns the setting of the policy that removes a limit; "" if there is none.
func (p Policy) UnlimitedSetting() string {
	for _, name := range slices.Sorted(maps.Keys(p.Chains)) {
		if setting := p.Chains[name].unlimitedSetting(); setting != "" {
			return fmt.Sprintf("chains.%s.%s", name, setting)
		}
	}
	return ""
}

func (c ChainPolicy) unlimitedSetting() string {
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

// assetLimit returns the limit of an asset; nil means that it has none. The second result is false
// if the policy does not allow the asset.
func (c ChainPolicy) assetLimit(contract chain.Address) (*Limit, bool) {
	l, ok := c.Assets[contract]
	switch {
	case ok && !l.Unlimited:
		return &l, true
	case ok || c.Unlimited:
		return nil, true
	}
	return nil, false
}

// feeDayLimit returns what a wallet may spend on fees in a day; nil means no limit.
func (c ChainPolicy) feeDayLimit() *money.Amount {
	limit := c.FeeDayMax
	if limit.IsZero() {
		if c.Unlimited {
			return nil
		}
		var err error
		if limit, err = c.FeeMax.Mul(feeDayDefault); err != nil {
			limit = amountMax
		}
	}
	return &limit
}

// limitScope identifies a limit.
type limitScope struct {
	chain    chain.Name
	contract chain.Address
	org      string // "" for all organizations together
}

// windowTotal holds the payments of one asset, or the fees of one wallet, in the window.
type windowTotal struct {
	times   []time.Time
	amounts []money.Amount
	total   money.Amount
}

// sumExpired returns how many payments have left the window, and their sum.
func (s *windowTotal) sumExpired(now time.Time) (n int, sum money.Amount) {
	for n < len(s.times) && now.Sub(s.times[n]) >= limitWindow {
		var err error
		if sum, err = sum.Add(s.amounts[n]); err != nil {
			panic("local: a part of a limit's total is too large")
		}
		n++
	}
	return n, sum
}

// sumWithin returns the sum within the window. It drops nothing: a clock that is ahead for a moment
// would otherwise free limits permanently.
func (s *windowTotal) sumWithin(now time.Time) money.Amount {
	if s == nil {
		return money.Zero
	}
	_, sum := s.sumExpired(now)
	return mustSubtract(s.total, sum)
}

func mustSubtract(total, part money.Amount) money.Amount {
	remaining, err := total.Sub(part)
	if err != nil {
		panic("local: a limit's total is less than its parts")
	}
	return remaining
}

// paymentTotals holds the sums of admitted payments. They are kept for every asset, with or without
// a limit, so that a limit set later counts earlier payments.
type paymentTotals map[limitScope]*windowTotal

// isOutgoing reports whether an intent pays an address outside the installation.
func isOutgoing(intent signer.Intent) bool {
	return intent.Kind().Payee == signer.ToAnyone
}

// addPayment counts an admitted payment, and drops what has left the window by the time of its
// entry. A sum beyond 2^256 counts as 2^256-1: no limit can be above it.
func (l paymentTotals) addPayment(intent signer.Intent, paidAt time.Time) {
	if !isOutgoing(intent) {
		return
	}
	for _, scope := range limitScopes(intent) {
		total := l[scope]
		if total == nil {
			total = &windowTotal{}
			l[scope] = total
		}
		total.addAmount(intent.Amount, paidAt)
	}
}

func (s *windowTotal) addAmount(amount money.Amount, paidAt time.Time) {
	n, sum := s.sumExpired(paidAt)
	s.times, s.amounts, s.total = s.times[n:], s.amounts[n:], mustSubtract(s.total, sum)
	if room := mustSubtract(amountMax, s.total); room.Less(amount) {
		amount = room
	}
	s.total, _ = s.total.Add(amount)
	s.times, s.amounts = append(s.times, paidAt), append(s.amounts, amount)
}

var amountMax = money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")

func limitScopes(intent signer.Intent) [2]limitScope {
	return [2]limitScope{{intent.Chain, intent.Contract, intent.From.OrgID}, {intent.Chain, intent.Contract, ""}}
}

// redateEntries counts what is dated later than a confirmed time as made at that time, and rebuilds
// the totals. Nothing counts as made earlier than it was: a wrong clock had dropped what is now
// within the window again.
func (x *journalIndex) redateEntries(confirmed time.Time) {
	capTime := func(recordedAt time.Time) time.Time {
		if recordedAt.After(confirmed) {
			return confirmed
		}
		return recordedAt
	}
	x.adoptedAt = capTime(x.adoptedAt)
	for id, e := range x.endorsements {
		e.endorsedAt = capTime(e.endorsedAt)
		x.endorsements[id] = e
	}
	type taking struct {
		seq  uint64
		at   time.Time
		take func()
	}
	var takings []taking
	x.paymentTotals, x.feeTotals = paymentTotals{}, feeTotals{}
	for _, intent := range x.intents {
		intent.admittedAt = capTime(intent.admittedAt)
		if confirmed.Sub(intent.admittedAt) < limitWindow {
			takings = append(takings, taking{intent.seq, intent.admittedAt, func() {
				x.paymentTotals.addPayment(intent.Intent, intent.admittedAt)
			}})
		}
		payer := feeAccount{x.wallets[intent.Account()].address, intent.Chain}
		for n := range intent.charges {
			c := &intent.charges[n]
			c.chargedAt = capTime(c.chargedAt)
			if confirmed.Sub(c.chargedAt) < limitWindow {
				takings = append(takings, taking{c.seq, c.chargedAt, func() {
					x.feeTotals.addFee(payer, c.amount, c.chargedAt)
				}})
			}
		}
	}
	slices.SortFunc(takings, func(a, b taking) int { return cmp.Compare(a.seq, b.seq) })
	for _, t := range takings {
		t.take()
	}
}

// feeAccount identifies an account whose fees are counted.
type feeAccount struct {
	address chain.Address
	chain   chain.Name
}

// feeTotals holds the sums of what signed transactions may cost. Like paymentTotals they are kept
// with or without a limit.
type feeTotals map[feeAccount]*windowTotal

func (f feeTotals) addFee(account feeAccount, fee money.Amount, signedAt time.Time) {
	if f[account] == nil {
		f[account] = &windowTotal{}
	}
	f[account].addAmount(fee, signedAt)
}

// checkFee checks whether a wallet may sign for a further fee, without taking it.
func (f feeTotals) checkFee(p ChainPolicy, account feeAccount, added money.Amount, now time.Time) *signer.Refusal {
	limit := p.feeDayLimit()
	if limit == nil {
		return nil
	}
	spent := f[account].sumWithin(now)
	if total, err := spent.Add(added); err != nil || limit.Less(total) {
		return refuse(signer.FeeLimit,
			"%s has signed for fees of %v on %s in 24 hours; %v more would exceed feeDayMax of the policy, %v: wait "+
				"until the day has passed, or find out what spends so much and raise it", account.address, spent,
			account.chain, added, *limit)
	}
	return nil
}

// checkCurrent checks one payment against the present policy. The limits that cover more than one
// payment were taken when it was admitted.
func (c ChainPolicy) checkCurrent(intent signer.Intent) *signer.Refusal {
	switch {
	case isOutgoing(intent):
		limit, ok := c.assetLimit(intent.Contract)
		if !ok {
			return refuse(signer.PolicyLimit, "the policy has no limit for asset %q on %s any more", intent.Contract,
				intent.Chain)
		}
		if limit != nil && limit.PaymentMax.Less(intent.Amount) {
			return refuse(signer.PolicyLimit, "one payment may be at most %v units of %q on %s now; this is %v",
				limit.PaymentMax, intent.Contract, intent.Chain, intent.Amount)
		}
	case intent.Kind().PaysGas:
		if c.GasMax.Less(intent.Amount) {
			return refuse(signer.PolicyLimit, "one gas top-up on %s may be at most %v now; this is %v", intent.Chain,
				c.GasMax, intent.Amount)
		}
	}
	return nil // the cost of the others is a fee
}

// checkPayment checks a payment against the limits, without taking them.
func (l paymentTotals) checkPayment(p ChainPolicy, intent signer.Intent, now time.Time) *signer.Refusal {
	limit, ok := p.assetLimit(intent.Contract)
	if !ok {
		return refuse(signer.RefusedNotConfigured,
			"the policy has no limit for asset %q on %s: add it under chains.%s.assets", intent.Contract, intent.Chain,
			intent.Chain)
	}
	if limit == nil {
		return nil
	}
	if limit.PaymentMax.Less(intent.Amount) {
		return refuse(signer.PolicyLimit, "one payment may be at most %v units of %q on %s; this is %v",
			limit.PaymentMax, intent.Contract, intent.Chain, intent.Amount)
	}
	scopes := limitScopes(intent)
	for n, bound := range []struct {
		name string
		most money.Amount
	}{{"organization " + intent.From.OrgID, limit.OrganizationMax}, {"installation", limit.OverallMax}} {
		spent := l[scopes[n]].sumWithin(now)
		if total, err := spent.Add(intent.Amount); err != nil || bound.most.Less(total) {
			return refuse(signer.PolicyLimit,
				"the %s may pay at most %v units of %q on %s in 24 hours; this is %v on top of %v",
				bound.name, bound.most, intent.Contract, intent.Chain, intent.Amount, spent)
		}
	}
	return nil
}

func refuse(code, format string, args ...any) *signer.Refusal {
	return &signer.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
