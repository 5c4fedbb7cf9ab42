// Package coinselect picks the coins that pay: branch and bound for a set that needs no
// change, and the lightest set, a knapsack and a single random draw for one that has it.
// Of what they find the least wasteful is taken, by the measure of Bitcoin Core: what
// the inputs cost now beyond what they would cost in usual times, and the change with
// its later spending, or what is left to the miner where there is none.
//
// It is pure, and it draws its random numbers from the order itself: the same order and
// the same coins give the same choice, in whatever order the coins come. It never takes
// a coin that costs more to spend than it is worth, nor more coins than a transaction of
// ours spends. Nothing is floating: amounts are counted in four thousandths of a
// satoshi, in which weight times rate is a whole number.
package coinselect

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

// Order is what has to be paid, and at what price. Rates are satoshi for a thousand
// virtual bytes.
type Order struct {
	Network  chain.Network
	Payments []chain.Payment
	Must     []chain.Coin // are spent, whatever they are worth
	Change   chain.Address
	Rate     uint64
	// Raised is what the transaction has to be able to pay later: out of its change, or at
	// once where it has none and nothing could raise it. Zero or less than Rate: Rate.
	Raised uint64
	// Usual is the rate of usual times, at which coins that are left now will be spent.
	Usual uint64
}

// Choice is what was chosen.
type Choice struct {
	Lease bitcointx.Lease
	Fees  chain.Fees // for bitcointx.Build, which makes with them what was reckoned here
	By    string     // the algorithm
	Waste int64      // in four thousandths of a satoshi
}

// unit is what a satoshi has of the numbers here: four thousand are a satoshi, so that a
// rate of one costs one for each of weight.
const unit = 4000

const (
	weightMax  = 400_000 // of what nodes pass on
	triesMax   = 100_000 // of branch and bound
	knapsacks  = 1000    // draws of the knapsack, and fewer where there are many coins
	knapsacked = 1_000_000
)

// A candidate is a coin that is worth its spending.
type candidate struct {
	chain.Coin
	worth  int64 // what it adds beyond its own cost, at the raised rate
	weight int64
}

// reckoning is an order in numbers.
type reckoning struct {
	Order
	paid    int64 // in units, less what those hold that must be spent
	bare    int64 // weight without change and the inputs that are chosen
	change  int64 // weight of the change
	dust    int64 // in units
	respend int64 // weight of spending the change
	room    int64 // weight that inputs may have
}

// target is what candidates have to be worth together. The weight is rounded up to whole
// bytes and the fee to whole satoshi, so there is room for both.
func (r *reckoning) target(withChange bool) int64 {
	weight, more := r.bare, int64(0)
	if withChange {
		weight, more = weight+r.change, r.dust
	}
	return r.paid + more + (weight+3)*int64(r.Raised) + unit - 1
}

// costOfChange is what change costs: its output now, and spending it later.
func (r *reckoning) costOfChange() int64 {
	return r.change*int64(r.Rate) + r.respend*int64(r.Usual)
}

// waste is what a set costs beyond usual times, and with its change or its excess.
func (r *reckoning) waste(set []candidate, withChange bool) int64 {
	var holds, weight int64
	for _, c := range set {
		amount, _ := c.Amount.Uint64()
		holds, weight = holds+int64(amount)*unit, weight+c.weight
	}
	w := weight * (int64(r.Rate) - int64(r.Usual))
	if withChange {
		return w + r.costOfChange()
	}
	return w + holds - r.paid - (r.bare+weight)*int64(r.Rate)
}

// Select chooses of coins as many as it takes beside those that must be spent, which may
// be none. Errors: *chain.ShortError, when all coins that are worth spending do
// not suffice, or as many of them as one transaction spends; a payment that nobody can
// make, such as dust.
func Select(o Order, from []chain.Coin) (Choice, error) {
	r, all, err := reckon(o, from)
	if err != nil {
		return Choice{}, err
	}
	seed := r.seed()
	best := Choice{Waste: math.MaxInt64}
	var coins int
	for _, a := range []struct {
		name   string
		change bool
		find   finder
	}{
		{"branch and bound", false, branchAndBound},
		{"lightest", true, lightest},
		{"knapsack", true, knapsack},
		{"single random draw", true, draw},
		{"nearly all", false, nearlyAll},
	} {
		if a.name == "nearly all" && best.By != "" {
			break // it is for what has no other way
		}
		set, ok := a.find(r, all, rand.New(rand.NewChaCha8(seed)))
		if !ok {
			continue
		}
		waste := r.waste(set, a.change)
		if waste > best.Waste || waste == best.Waste && len(set) >= coins {
			continue
		}
		c, err := r.make(set, a.change)
		if err != nil {
			return Choice{}, fmt.Errorf("%s: %w", a.name, err)
		}
		c.By, c.Waste, coins = a.name, waste, len(set)
		best = c
	}
	if best.By == "" {
		return Choice{}, r.short(all)
	}
	return best, nil
}

// A finder is an algorithm; ok is false when it finds no set. The empty one will do where
// what must be spent is enough.
type finder func(*reckoning, []candidate, *rand.Rand) (set []candidate, ok bool)

// seed is of the order alone: two orders never have the same change.
func (r *reckoning) seed() [32]byte {
	b := fmt.Appendf(nil, "%s %d %d", r.Change, r.Rate, r.Raised)
	for _, p := range r.Payments {
		b = fmt.Appendf(b, " %s %v", p.To, p.Amount)
	}
	return sha256.Sum256(b)
}

// supply is all the satoshi that there will ever be.
const supply = 21_000_000 * 1_0000_0000

func reckon(o Order, from []chain.Coin) (*reckoning, []candidate, error) {
	o.Raised = max(o.Raised, o.Rate)
	if o.Rate == 0 || o.Raised > bitcointx.RateMax || o.Usual > bitcointx.RateMax {
		return nil, nil, fmt.Errorf("select coins: rates of %d, %d and %d are not 1 to %d", o.Rate, o.Raised, o.Usual, bitcointx.RateMax)
	}
	if len(o.Payments) == 0 {
		return nil, nil, errors.New("select coins: nothing is to be paid")
	}
	r := &reckoning{Order: o, bare: bitcointx.EmptyWeight}
	paid := uint64(0)
	for i, p := range o.Payments {
		w, err := bitcointx.PayWeight(o.Network, p.To)
		if err != nil {
			return nil, nil, fmt.Errorf("select coins: payment %d: %w", i, err)
		}
		r.bare += int64(w)
		n, ok := p.Amount.Uint64()
		if !ok || n > supply-paid {
			return nil, nil, &chain.ShortError{By: p.Amount}
		}
		paid += n
	}
	r.paid = int64(paid) * unit
	script, err := bitcointx.Script(o.Network, o.Change)
	if err != nil {
		return nil, nil, fmt.Errorf("select coins: change: %w", err)
	}
	dust, _ := bitcointx.Dust(script).Uint64()
	r.dust = int64(dust) * unit
	change, err := bitcointx.PayWeight(o.Network, o.Change)
	if err != nil {
		return nil, nil, fmt.Errorf("select coins: change: %w", err)
	}
	respend, err := bitcointx.SpendWeight(o.Network, o.Change)
	if err != nil {
		return nil, nil, fmt.Errorf("select coins: change: %w", err)
	}
	r.change, r.respend = int64(change), int64(respend)
	r.room = weightMax - r.bare - r.change

	var all []candidate
	sum := uint64(0)
	for i, c := range slices.Concat(o.Must, from) {
		n, ok := c.Amount.Uint64()
		if !ok || n > supply-sum {
			return nil, nil, fmt.Errorf("select coins: with %s they hold more than there is", c.Outpoint)
		}
		sum += n
		weight, err := bitcointx.SpendWeight(o.Network, c.Holder)
		if err != nil {
			return nil, nil, fmt.Errorf("select coins: %s: %w", c.Outpoint, err)
		}
		if i < len(o.Must) {
			r.paid, r.bare, r.room = r.paid-int64(n)*unit, r.bare+int64(weight), r.room-int64(weight)
			continue
		}
		if worth := int64(n)*unit - int64(weight)*int64(r.Raised); worth > 0 {
			all = append(all, candidate{c, worth, int64(weight)})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.weight, b.weight), cmp.Compare(a.Outpoint, b.Outpoint))
	})
	names := make(map[string]bool, len(all)+len(o.Must))
	for _, c := range o.Must {
		if names[c.Outpoint] {
			return nil, nil, fmt.Errorf("select coins: %s is there twice", c.Outpoint)
		}
		names[c.Outpoint] = true
	}
	for _, c := range all {
		if names[c.Outpoint] {
			return nil, nil, fmt.Errorf("select coins: %s is there twice", c.Outpoint)
		}
		names[c.Outpoint] = true
	}
	return r, all, nil
}

// make builds what was chosen, so that what is said of it is what will be.
func (r *reckoning) make(set []candidate, withChange bool) (Choice, error) {
	coins := slices.Clone(r.Must)
	weight, left := r.bare, -r.paid/unit
	for _, c := range set {
		coins, weight = append(coins, c.Coin), weight+c.weight
		n, _ := c.Amount.Uint64()
		left += int64(n)
	}
	lease, err := bitcointx.NewLease(r.Network, coins, r.Change)
	if err != nil {
		return Choice{}, err
	}
	rate := r.Rate
	if !withChange {
		// All that is left is the fee, and the rate is what that gives: at it nothing is
		// left for change.
		size := bitcointx.Size(int(weight))
		rate = min(uint64(max(left, 1))*1000/size, bitcointx.RateMax)
	}
	fees, err := bitcointx.Fit(r.Network, lease, r.Payments, chain.Fees{TipCap: money.Units(rate)})
	return Choice{Lease: lease, Fees: fees}, err
}

// short says how much is missing, to the least that would do: without change.
func (r *reckoning) short(all []candidate) error {
	missing := r.target(false)
	most := max(0, bitcointx.InputsMax-len(r.Must))
	for _, c := range all[:min(len(all), most)] {
		missing -= c.worth
	}
	short := &chain.ShortError{By: money.Units(uint64(max(missing, 1)+unit-1) / unit)}
	if len(all) > most {
		short.More = true
		return fmt.Errorf("the %d largest of %d, as many as one transaction spends: %w", most, len(all), short)
	}
	return short
}

// fits tells whether one transaction can spend a set.
func (r *reckoning) fits(coins int, weight int64) bool {
	return coins+len(r.Must) <= bitcointx.InputsMax && weight <= r.room
}

// branchAndBound looks for the least wasteful set that needs no change: that is worth the
// target, and more by no more than change would cost. It tries coins from the largest on,
// with each and without, and gives up what cannot come to that any more.
func branchAndBound(r *reckoning, all []candidate, _ *rand.Rand) ([]candidate, bool) {
	target, most := r.target(false), r.target(false)+r.costOfChange()
	var left, value, weight, waste int64
	for _, c := range all {
		left += c.worth
	}
	var chosen, best []int
	bestWaste := int64(math.MaxInt64)
	perWeight := int64(r.Rate) - int64(r.Usual)
	for next, tries := 0, 0; tries < triesMax; tries, next = tries+1, next+1 {
		back := false
		switch {
		case value+left < target, value > most, perWeight > 0 && waste > bestWaste, !r.fits(len(chosen), weight):
			back = true
		case value >= target:
			if w := waste + value - target; w <= bestWaste {
				best, bestWaste = slices.Clone(chosen), w
			}
			back = true
		}
		if back {
			if len(chosen) == 0 {
				break
			}
			// Back to the last one that is in, which is left out now.
			last := chosen[len(chosen)-1]
			for next--; next > last; next-- {
				left += all[next].worth
			}
			c := all[last]
			value, weight, waste = value-c.worth, weight-c.weight, waste-c.weight*perWeight
			chosen = chosen[:len(chosen)-1]
			continue
		}
		if next == len(all) {
			break
		}
		c := all[next]
		left -= c.worth
		// Of coins that are alike, leaving out the first and taking the second is the same
		// as the other way round.
		if next > 0 && (len(chosen) == 0 || chosen[len(chosen)-1] != next-1) && c.worth == all[next-1].worth && c.weight == all[next-1].weight {
			continue
		}
		chosen = append(chosen, next)
		value, weight, waste = value+c.worth, weight+c.weight, waste+c.weight*perWeight
	}
	set := make([]candidate, len(best))
	for i, n := range best {
		set[i] = all[n]
	}
	return set, bestWaste != math.MaxInt64
}

// lightest is the set of least weight that is worth the target with change.
func lightest(r *reckoning, all []candidate, _ *rand.Rand) ([]candidate, bool) {
	return r.lightest(all, r.target(true))
}

// nearlyAll is for what leaves too little to come back: that is the miner's then.
func nearlyAll(r *reckoning, all []candidate, _ *rand.Rand) ([]candidate, bool) {
	return r.lightest(all, r.target(false))
}

// lightest is the set of least weight that is worth a target. Coins have one of two
// weights, so it takes the largest of each and tries how many.
func (r *reckoning) lightest(all []candidate, target int64) ([]candidate, bool) {
	var a, b []candidate
	for _, c := range all {
		if c.weight == all[0].weight {
			a = append(a, c)
		} else {
			b = append(b, c)
		}
	}
	// As many of a as may be, and of b as few as are needed; then one of a less each time.
	n, m := min(len(a), max(0, bitcointx.InputsMax-len(r.Must))), 0
	var value, weight int64
	for _, c := range a[:n] {
		value, weight = value+c.worth, weight+c.weight
	}
	bestN, bestM, least := -1, -1, int64(math.MaxInt64)
	for ; n >= 0; n-- {
		for value < target && m < len(b) {
			value, weight, m = value+b[m].worth, weight+b[m].weight, m+1
		}
		if value >= target && r.fits(n+m, weight) && weight < least {
			bestN, bestM, least = n, m, weight
		}
		if n > 0 {
			value, weight = value-a[n-1].worth, weight-a[n-1].weight
		}
	}
	if bestN < 0 {
		return nil, false
	}
	return slices.Concat(a[:bestN], b[:bestM]), true
}

// knapsack draws sets of coins at random and keeps the one that is worth least above the
// target, so that little is left as change. One coin that is worth it alone is taken
// where none comes closer.
func knapsack(r *reckoning, all []candidate, rnd *rand.Rand) ([]candidate, bool) {
	target := r.target(true)
	if target <= 0 {
		return nil, r.fits(0, 0)
	}
	var smaller []candidate
	var larger *candidate
	var sum int64
	for i, c := range all {
		switch {
		case c.worth < target:
			smaller, sum = append(smaller, c), sum+c.worth
		default:
			larger = &all[i] // they come from the largest on
		}
	}
	var best []candidate
	bestValue := int64(math.MaxInt64)
	if larger != nil && r.fits(1, larger.weight) {
		best, bestValue = []candidate{*larger}, larger.worth
	}
	if sum < target {
		return best, best != nil
	}
	in := make([]bool, len(smaller))
	for range min(knapsacks, knapsacked/len(smaller)+1) {
		clear(in)
		var value, weight int64
		count := 0
		// First each at random, then those that are out, until it is enough. What is too
		// much is taken out again, to go on with smaller ones.
		for pass := range 2 {
			for i, c := range smaller {
				if pass == 0 && rnd.Uint64()&1 == 0 || pass == 1 && in[i] {
					continue
				}
				in[i], value, weight, count = true, value+c.worth, weight+c.weight, count+1
				if value < target {
					if count >= bitcointx.InputsMax {
						break
					}
					continue
				}
				if value < bestValue && r.fits(count, weight) {
					best, bestValue = best[:0:0], value
					for j, is := range in {
						if is {
							best = append(best, smaller[j])
						}
					}
				}
				in[i], value, weight, count = false, value-c.worth, weight-c.weight, count-1
			}
		}
	}
	return best, best != nil
}

// draw takes coins at random until they suffice. Where they become too many the smallest
// goes.
func draw(r *reckoning, all []candidate, rnd *rand.Rand) ([]candidate, bool) {
	target := r.target(true)
	if target <= 0 {
		return nil, r.fits(0, 0)
	}
	order := rnd.Perm(len(all))
	var set []int // places in all, from the smallest coin on: the order of all backwards
	var value, weight int64
	for _, n := range order {
		at, _ := slices.BinarySearchFunc(set, n, func(a, b int) int { return cmp.Compare(b, a) })
		set = slices.Insert(set, at, n)
		value, weight = value+all[n].worth, weight+all[n].weight
		for !r.fits(len(set), weight) {
			c := all[set[0]]
			value, weight, set = value-c.worth, weight-c.weight, set[1:]
		}
		if value >= target {
			out := make([]candidate, len(set))
			for i, k := range set {
				out[i] = all[k]
			}
			return out, true
		}
	}
	return nil, false
}
