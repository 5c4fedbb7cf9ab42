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
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/networks"
	"github.com/cofferpay/coffer/internal/signer"
)

// window is how far back payments and fees count against a limit, by the journal's time.
const window = 24 * time.Hour

// Policy is what the signer allows, whoever asks. What it does not name is refused.
type Policy struct {
	Chains map[chain.Name]ChainPolicy `json:"chains"`
	// WhitelistCoolingOff is how long after its endorsement a whitelisted address may not
	// be paid, such as "24h" or "0s". Absent, it is a day. It is the signer's own: who
	// has the server cannot be quicker.
	WhitelistCoolingOff string `json:"whitelistCoolingOff,omitempty"`
}

const (
	coolingOffDefault = 24 * time.Hour
	coolingOffMax     = 30 * 24 * time.Hour
)

// coolingOff is WhitelistCoolingOff of a policy that was checked.
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
	// FeeMax is the most that one transaction may cost, in native units. The fees
	// that dispatch may propose have to stay below it: a payload above it is refused
	// when its slot is already taken.
	FeeMax money.Amount `json:"feeMax"`
	// FeeDayMax is the most that all transactions of one wallet which were signed in 24
	// hours may cost together, in native units: a slot counts with the dearest
	// transaction in it. Absent, it is feeDayDefault times FeeMax, or no limit where
	// Unlimited is set.
	FeeDayMax money.Amount `json:"feeDayMax,omitzero"`
	// MergeRateMax is the most that a merge of coins may cost for a thousand virtual bytes,
	// in native units, whatever FeeMax allows: it pays nobody and can wait. Absent, it is
	// mergeRateDefault.
	MergeRateMax money.Amount `json:"mergeRateMax,omitzero"`
	// GasMax is the most that one gas top-up may carry, in native units.
	GasMax money.Amount `json:"gasMax"`
	// Assets are the limits of payments by contract, "" for the native coin.
	Assets map[chain.Address]Limit `json:"assets"`
	// Unlimited lets payments of every asset that Assets does not name pass without
	// a limit, and any number of fees. It is for local chains and test networks.
	Unlimited bool `json:"unlimited,omitempty"`
}

// feeDayDefault is how many of the dearest transactions a wallet may sign in a day.
// Usual ones cost a small part of that.
const feeDayDefault = 100

// mergeRateDefault is what payments cost in usual times: a merge that costs more saves
// nothing.
const mergeRateDefault = 10_000

// MergeRate is MergeRateMax, or what holds where it is absent.
func (c ChainPolicy) MergeRate() money.Amount {
	if c.MergeRateMax.IsZero() {
		return money.Units(mergeRateDefault)
	}
	return c.MergeRateMax
}

// Limit bounds payments of one asset, in atomic units.
type Limit struct {
	PaymentMax      money.Amount `json:"paymentMax"`      // one payment
	OrganizationMax money.Amount `json:"organizationMax"` // all of an organization in 24 hours
	OverallMax      money.Amount `json:"overallMax"`      // all of the installation in 24 hours
	// Unlimited says that this asset has no limit; the three above must then be absent. It
	// is for local chains and test networks.
	Unlimited bool `json:"unlimited,omitempty"`
}

// ParsePolicy reads a policy of a file. Unknown and repeated members are errors, and
// all that is wrong with its contents is told at once.
func ParsePolicy(b []byte) (Policy, error) {
	var p Policy
	if err := json.Unmarshal(b, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, fmt.Errorf("read the signer's policy: %w", err)
	}
	return p, p.Check()
}

// Check tells everything that is wrong with a policy.
func (p Policy) Check() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf("signer policy: "+format, args...)) }
	if d, err := time.ParseDuration(p.WhitelistCoolingOff); p.WhitelistCoolingOff != "" && (err != nil || d < 0 || d > coolingOffMax) {
		complain("whitelistCoolingOff: got %q, want a duration from 0s to %s, such as 24h", p.WhitelistCoolingOff, coolingOffMax)
	}
	if len(p.Chains) == 0 {
		complain("chains: name at least one")
	}
	// Slots and limits are kept by the chain's name: two names for one network would
	// give one nonce of it to two intents.
	networks := map[string]chain.Name{}
	for _, name := range slices.Sorted(maps.Keys(p.Chains)) {
		c := p.Chains[name]
		if other, taken := networks[c.SignerID]; taken && c.SignerID != "" {
			complain("chains.%s.signerId: %s is the network of %s already", name, c.SignerID, other)
		}
		networks[c.SignerID] = name
		family, ok := families[name.Family()]
		if !ok {
			complain("chains.%s: this signer has no keys for it", name)
			continue
		}
		if err := family.network(c.SignerID); err != nil {
			complain("chains.%s.signerId: got %q, %w", name, c.SignerID, err)
		}
		if at := c.unlimited(); at != "" && mainNetwork(c.SignerID) {
			complain("chains.%s.%s: is for local chains and test networks, and signerId %s is a main network; set limits", name, at, c.SignerID)
		}
		if c.FeeMax.IsZero() {
			complain("chains.%s.feeMax: set the most that a transaction may cost, in native units", name)
		}
		if !c.FeeDayMax.IsZero() && c.FeeDayMax.Less(c.FeeMax) {
			complain("chains.%s.feeDayMax: %v is less than feeMax, what one transaction may cost", name, c.FeeDayMax)
		}
		for _, contract := range slices.Sorted(maps.Keys(c.Assets)) {
			l := c.Assets[contract]
			if contract != "" && !family.canonical(contract) {
				complain("chains.%s.assets: %q is no contract address in its canonical form", name, contract)
			}
			set := !l.PaymentMax.IsZero() || !l.OrganizationMax.IsZero() || !l.OverallMax.IsZero()
			whole := !l.PaymentMax.IsZero() && !l.OrganizationMax.IsZero() && !l.OverallMax.IsZero()
			if l.Unlimited && set || !l.Unlimited && !whole {
				complain("chains.%s.assets.%q: set paymentMax, organizationMax and overallMax, or unlimited alone", name, contract)
			}
		}
	}
	return errors.Join(errs...)
}

// Unlimited names what in the policy has no limit; "" where everything has one.
func (p Policy) Unlimited() string {
	for _, name := range slices.Sorted(maps.Keys(p.Chains)) {
		if at := p.Chains[name].unlimited(); at != "" {
			return fmt.Sprintf("chains.%s.%s", name, at)
		}
	}
	return ""
}

func (c ChainPolicy) unlimited() string {
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

// mainNetwork tells whether a signerId is that of a main network which this program
// knows. Of any other network the configuration knows more: see Unlimited.
func mainNetwork(signerID string) bool {
	known, ok := networks.ByGenesis(signerID)
	if id, err := strconv.ParseUint(signerID, 10, 64); err == nil {
		known, ok = networks.ByChainID(id)
	}
	return ok && known.Network == chain.Mainnet
}

// limit is the limit of an asset; nil means none.
func (c ChainPolicy) limit(contract chain.Address) (*Limit, bool) {
	l, ok := c.Assets[contract]
	switch {
	case ok && !l.Unlimited:
		return &l, true
	case ok || c.Unlimited:
		return nil, true
	}
	return nil, false
}

// feeDay is what a wallet may spend on fees in a day; nil means no limit.
func (c ChainPolicy) feeDay() *money.Amount {
	most := c.FeeDayMax
	if most.IsZero() {
		if c.Unlimited {
			return nil
		}
		var err error
		if most, err = c.FeeMax.Mul(feeDayDefault); err != nil {
			most = amountMax
		}
	}
	return &most
}

// asset is what a limit is kept for.
type asset struct {
	chain    chain.Name
	contract chain.Address
	org      string // "" for all organizations together
}

// spent remembers the payments of one asset, or the fees of one wallet, in the window.
type spent struct {
	at     []time.Time
	amount []money.Amount
	total  money.Amount
}

// old is how many payments have left the window, and what they came to.
func (s *spent) old(now time.Time) (n int, sum money.Amount) {
	for n < len(s.at) && now.Sub(s.at[n]) >= window {
		var err error
		if sum, err = sum.Add(s.amount[n]); err != nil {
			panic("local: a part of a limit's total is more than any number")
		}
		n++
	}
	return n, sum
}

// in is what was paid within the window. It forgets nothing: a clock that is ahead
// for a moment would free limits for good.
func (s *spent) in(now time.Time) money.Amount {
	if s == nil {
		return money.Zero
	}
	_, sum := s.old(now)
	return less(s.total, sum)
}

func less(total, part money.Amount) money.Amount {
	rest, err := total.Sub(part)
	if err != nil {
		panic("local: a limit's total is less than its parts")
	}
	return rest
}

// limits are the sums of admitted payments. They are kept for every asset, with a
// limit or without, so that a limit that is set later counts what went before.
type limits map[asset]*spent

// outward tells whether an intent pays somebody else.
func outward(i signer.Intent) bool { return i.Purpose == signer.Payment || i.Purpose == signer.Return }

// take counts an admitted payment, and drops what has left the window by the time of
// its entry. A sum beyond 2^256 counts as 2^256-1: no limit can be above it.
func (l limits) take(i signer.Intent, at time.Time) {
	if !outward(i) {
		return
	}
	for _, a := range assets(i) {
		s := l[a]
		if s == nil {
			s = &spent{}
			l[a] = s
		}
		s.take(i.Amount, at)
	}
}

func (s *spent) take(amount money.Amount, at time.Time) {
	n, sum := s.old(at)
	s.at, s.amount, s.total = s.at[n:], s.amount[n:], less(s.total, sum)
	if room := less(amountMax, s.total); room.Less(amount) {
		amount = room
	}
	s.total, _ = s.total.Add(amount)
	s.at, s.amount = append(s.at, at), append(s.amount, amount)
}

var amountMax = money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")

func assets(i signer.Intent) [2]asset {
	return [2]asset{{i.Chain, i.Contract, i.From.OrgID}, {i.Chain, i.Contract, ""}}
}

// redate counts what is dated later than a confirmed time as made at that time, and nothing
// as made earlier than it was: a wrong clock had dropped what is within the window again.
func (x *index) redate(confirmed time.Time) {
	earlier := func(at time.Time) time.Time {
		if at.After(confirmed) {
			return confirmed
		}
		return at
	}
	x.adopted = earlier(x.adopted)
	for id, e := range x.endorsed {
		e.at = earlier(e.at)
		x.endorsed[id] = e
	}
	type taking struct {
		seq  uint64
		at   time.Time
		take func()
	}
	var all []taking
	x.limits, x.fees = limits{}, fees{}
	for _, i := range x.intents {
		i.at = earlier(i.at)
		if confirmed.Sub(i.at) < window {
			all = append(all, taking{i.seq, i.at, func() { x.limits.take(i.Intent, i.at) }})
		}
		of := account{x.wallets[i.Account()].address, i.Chain}
		for n := range i.fees {
			c := &i.fees[n]
			c.at = earlier(c.at)
			if confirmed.Sub(c.at) < window {
				all = append(all, taking{c.seq, c.at, func() { x.fees.take(of, c.fees, c.at) }})
			}
		}
	}
	slices.SortFunc(all, func(a, b taking) int { return cmp.Compare(a.seq, b.seq) })
	for _, t := range all {
		t.take()
	}
}

// account is what fees are counted for.
type account struct {
	from  chain.Address
	chain chain.Name
}

// fees are the sums of what signed transactions may cost. Like limits they are kept
// whether there is a limit or not.
type fees map[account]*spent

func (f fees) take(a account, fee money.Amount, at time.Time) {
	if f[a] == nil {
		f[a] = &spent{}
	}
	f[a].take(fee, at)
}

// allow asks whether a wallet may sign for so much more, without taking it.
func (f fees) allow(p ChainPolicy, a account, more money.Amount, now time.Time) *signer.Refusal {
	most := p.feeDay()
	if most == nil {
		return nil
	}
	before := f[a].in(now)
	if total, err := before.Add(more); err != nil || most.Less(total) {
		return refuse(signer.FeeLimit, "%s has signed for fees of %v on %s in 24 hours; %v more would pass feeDayMax of the policy, %v: "+
			"wait until the day has passed, or find out what spends so much and raise it", a.from, before, a.chain, more, *most)
	}
	return nil
}

// within asks of one payment whether the policy lets it pass as it stands now. What
// counts more than one was taken when it was admitted.
func (c ChainPolicy) within(i signer.Intent) *signer.Refusal {
	switch i.Purpose {
	case signer.Payment, signer.Return:
		limit, ok := c.limit(i.Contract)
		if !ok {
			return refuse(signer.PolicyLimit, "the policy has no limit for asset %q on %s any more", i.Contract, i.Chain)
		}
		if limit != nil && limit.PaymentMax.Less(i.Amount) {
			return refuse(signer.PolicyLimit, "one payment may be at most %v units of %q on %s now, this is %v", limit.PaymentMax, i.Contract, i.Chain, i.Amount)
		}
	case signer.Gas:
		if c.GasMax.Less(i.Amount) {
			return refuse(signer.PolicyLimit, "one gas top-up on %s may be at most %v now, this is %v", i.Chain, c.GasMax, i.Amount)
		}
	case signer.Sweep, signer.Close, signer.Place, signer.Merge: // what a place or a merge costs is a fee
	}
	return nil
}

// allow asks the limits for a payment, without taking them.
func (l limits) allow(p ChainPolicy, i signer.Intent, now time.Time) *signer.Refusal {
	limit, ok := p.limit(i.Contract)
	if !ok {
		return refuse(signer.RefusedNotConfigured,
			"the policy has no limit for asset %q on %s: add it under chains.%s.assets", i.Contract, i.Chain, i.Chain)
	}
	if limit == nil {
		return nil
	}
	if limit.PaymentMax.Less(i.Amount) {
		return refuse(signer.PolicyLimit, "one payment may be at most %v units of %q on %s, this is %v", limit.PaymentMax, i.Contract, i.Chain, i.Amount)
	}
	of := assets(i)
	for n, who := range []struct {
		name string
		most money.Amount
	}{{"organization " + i.From.OrgID, limit.OrganizationMax}, {"installation", limit.OverallMax}} {
		before := l[of[n]].in(now)
		if total, err := before.Add(i.Amount); err != nil || who.most.Less(total) {
			return refuse(signer.PolicyLimit, "the %s may pay at most %v units of %q on %s in 24 hours; this is %v on top of %v",
				who.name, who.most, i.Contract, i.Chain, i.Amount, before)
		}
	}
	return nil
}

func refuse(code, format string, args ...any) *signer.Refusal {
	return &signer.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
