// Package coinselect selects the outputs that pay: branch and bound for a set that needs no change,
// and the lightest set, a knapsack and a single random draw for one with change. Of their results
// it takes the least wasteful, by the measure of Bitcoin Core. That measure is what the inputs cost
// now beyond their cost in usual times, plus the change with its later spending, or what the miner
// gets where there is no change.
//
// It is pure, and it derives its random numbers from the request itself: the same request and the
// same outputs give the same selection, in every order of the outputs. It never takes an output
// that costs more to spend than it is worth, nor more inputs than a transaction of Coffer has. It
// uses no floating point: amounts are counted in four thousandths of a satoshi, in which weight
// times rate is a whole number.
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

// Request says what has to be paid, and at what rates. Rates are in satoshi per thousand virtual
// bytes.
type Request struct {
	Network  chain.Network
	Payments []chain.Payment
	Required []chain.Output // spent in every case
	Change   chain.Address
	Rate     uint64
	// RaisedRate is the rate that the transaction has to be able to pay later: out of its change,
	// or at once where it has no change that could pay it. Zero or less than Rate: Rate.
	RaisedRate uint64
	// UsualRate is the rate of usual times, at which outputs that are not spent now will be spent.
	UsualRate uint64
}

// Selection is the result of a selection.
type Selection struct {
	SlotKey   bitcointx.SlotKey
	Fees      chain.Fees // for bitcointx.Build, which makes the computed transaction with them
	Algorithm string     // the name of the algorithm
	Waste     int64      // in four thousandths of a satoshi
}

// unit is the number of these units in a satoshi: with four thousand, a rate of one costs one per
// unit of weight.
const unit = 4000

const (
	weightMax        = 400_000 // of what nodes relay
	triesMax         = 100_000 // of branch and bound
	knapsackDraws    = 1000    // draws of the knapsack; fewer with many outputs
	knapsackStepsMax = 1_000_000
)

// candidate is an output that is worth spending.
type candidate struct {
	chain.Output
	effectiveValue int64 // its value less its own cost at the raised rate
	weight         int64
}

// problem is a request in numbers.
type problem struct {
	Request
	paid              int64 // in units, less the value of the required outputs
	baseWeight        int64 // weight without change and without the selected inputs
	changeWeight      int64 // weight of the change
	dust              int64 // in units
	changeSpendWeight int64 // weight of spending the change
	weightLeft        int64 // weight that inputs may have
}

// targetValue returns what the candidates have to be worth together. The weight is rounded up to
// whole bytes and the fee to whole satoshi, so there is room for both.
func (r *problem) targetValue(withChange bool) int64 {
	weight, minChange := r.baseWeight, int64(0)
	if withChange {
		weight, minChange = weight+r.changeWeight, r.dust
	}
	return r.paid + minChange + (weight+3)*int64(r.RaisedRate) + unit - 1
}

// costOfChange returns the cost of change: its output now, and spending it later.
func (r *problem) costOfChange() int64 {
	return r.changeWeight*int64(r.Rate) + r.changeSpendWeight*int64(r.UsualRate)
}

// computeWaste returns what a set costs beyond usual times, plus its change or its excess.
func (r *problem) computeWaste(set []candidate, withChange bool) int64 {
	var inputValue, weight int64
	for _, c := range set {
		amount, _ := c.Amount.Uint64()
		inputValue, weight = inputValue+int64(amount)*unit, weight+c.weight
	}
	w := weight * (int64(r.Rate) - int64(r.UsualRate))
	if withChange {
		return w + r.costOfChange()
	}
	return w + inputValue - r.paid - (r.baseWeight+weight)*int64(r.Rate)
}

// Select selects as many outputs as needed in addition to the required ones, which may be none.
// Errors: *chain.InsufficientOutputsError if all outputs that are worth spending do not suffice, or
// as many of them as one transaction spends; a payment that is impossible, such as dust.
func Select(o Request, available []chain.Output) (Selection, error) {
	r, candidates, err := newProblem(o, available)
	if err != nil {
		return Selection{}, err
	}
	seed := r.deriveSeed()
	best := Selection{Waste: math.MaxInt64}
	var coins int
	for _, a := range []struct {
		name   string
		change bool
		find   finder
	}{
		{"branch and bound", false, branchAndBound},
		{"lightest", true, selectLightest},
		{"knapsack", true, selectKnapsack},
		{"single random draw", true, selectRandom},
		{"nearly all", false, selectChangeless},
	} {
		if a.name == "nearly all" && best.Algorithm != "" {
			break // it is only for cases that no other algorithm solves
		}
		set, ok := a.find(r, candidates, rand.New(rand.NewChaCha8(seed)))
		if !ok {
			continue
		}
		waste := r.computeWaste(set, a.change)
		if waste > best.Waste || waste == best.Waste && len(set) >= coins {
			continue
		}
		c, err := r.buildSelection(set, a.change)
		if err != nil {
			return Selection{}, fmt.Errorf("%s: %w", a.name, err)
		}
		c.Algorithm, c.Waste, coins = a.name, waste, len(set)
		best = c
	}
	if best.Algorithm == "" {
		return Selection{}, r.newShortfall(candidates)
	}
	return best, nil
}

// finder is an algorithm; ok is false if it finds no set. The empty set is a result where the
// required outputs suffice.
type finder func(*problem, []candidate, *rand.Rand) (set []candidate, ok bool)

// deriveSeed derives the seed from the request alone: two requests never have the same change
// address.
func (r *problem) deriveSeed() [32]byte {
	b := fmt.Appendf(nil, "%s %d %d", r.Change, r.Rate, r.RaisedRate)
	for _, p := range r.Payments {
		b = fmt.Appendf(b, " %s %v", p.To, p.Amount)
	}
	return sha256.Sum256(b)
}

// satoshiSupply is the number of satoshi that can ever exist.
const satoshiSupply = 21_000_000 * 1_0000_0000

func newProblem(o Request, available []chain.Output) (*problem, []candidate, error) {
	o.RaisedRate = max(o.RaisedRate, o.Rate)
	if o.Rate == 0 || o.RaisedRate > bitcointx.RateMax || o.UsualRate > bitcointx.RateMax {
		return nil, nil, fmt.Errorf("select coins: rates of %d, %d and %d are not 1 to %d", o.Rate, o.RaisedRate,
			o.UsualRate, bitcointx.RateMax)
	}
	if len(o.Payments) == 0 {
		return nil, nil, errors.New("select coins: nothing is to be paid")
	}
	r := &problem{Request: o, baseWeight: bitcointx.EmptyWeight}
	paid := uint64(0)
	for i, p := range o.Payments {
		w, err := bitcointx.PayWeight(o.Network, p.To)
		if err != nil {
			return nil, nil, fmt.Errorf("select coins: payment %d: %w", i, err)
		}
		r.baseWeight += int64(w)
		n, ok := p.Amount.Uint64()
		if !ok || n > satoshiSupply-paid {
			return nil, nil, &chain.InsufficientOutputsError{Missing: p.Amount}
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
	r.changeWeight, r.changeSpendWeight = int64(change), int64(respend)
	r.weightLeft = weightMax - r.baseWeight - r.changeWeight

	var candidates []candidate
	sum := uint64(0)
	for i, c := range slices.Concat(o.Required, available) {
		n, ok := c.Amount.Uint64()
		if !ok || n > satoshiSupply-sum {
			return nil, nil, fmt.Errorf("select coins: with %s they hold more than there is", c.Outpoint)
		}
		sum += n
		weight, err := bitcointx.SpendWeight(o.Network, c.Owner)
		if err != nil {
			return nil, nil, fmt.Errorf("select coins: %s: %w", c.Outpoint, err)
		}
		if i < len(o.Required) {
			r.paid, r.baseWeight, r.weightLeft = r.paid-int64(n)*unit, r.baseWeight+int64(weight),
				r.weightLeft-int64(weight)
			continue
		}
		if worth := int64(n)*unit - int64(weight)*int64(r.RaisedRate); worth > 0 {
			candidates = append(candidates, candidate{c, worth, int64(weight)})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.effectiveValue, a.effectiveValue), cmp.Compare(a.weight, b.weight),
			cmp.Compare(a.Outpoint, b.Outpoint))
	})
	names := make(map[string]bool, len(candidates)+len(o.Required))
	for _, c := range o.Required {
		if names[c.Outpoint] {
			return nil, nil, fmt.Errorf("select coins: %s is there twice", c.Outpoint)
		}
		names[c.Outpoint] = true
	}
	for _, c := range candidates {
		if names[c.Outpoint] {
			return nil, nil, fmt.Errorf("select coins: %s is there twice", c.Outpoint)
		}
		names[c.Outpoint] = true
	}
	return r, candidates, nil
}

// buildSelection fits the fees to the selected inputs, so that they are those of the later
// transaction.
func (r *problem) buildSelection(set []candidate, withChange bool) (Selection, error) {
	inputs := slices.Clone(r.Required)
	weight, left := r.baseWeight, -r.paid/unit
	for _, c := range set {
		inputs, weight = append(inputs, c.Output), weight+c.weight
		n, _ := c.Amount.Uint64()
		left += int64(n)
	}
	slotKey, err := bitcointx.NewSlotKey(r.Network, inputs, r.Change)
	if err != nil {
		return Selection{}, err
	}
	rate := r.Rate
	if !withChange {
		// The whole remainder is the fee, and the rate follows from it: at that rate nothing is
		// left for change.
		size := bitcointx.VirtualSize(int(weight))
		rate = min(uint64(max(left, 1))*1000/size, bitcointx.RateMax)
	}
	fees, err := bitcointx.FitFees(r.Network, slotKey, r.Payments, chain.Fees{TipCap: money.Units(rate)})
	return Selection{SlotKey: slotKey, Fees: fees}, err
}

// newShortfall returns how much is missing for the least sufficient sum: without change.
func (r *problem) newShortfall(candidates []candidate) error {
	missing := r.targetValue(false)
	countMax := max(0, bitcointx.InputsMax-len(r.Required))
	for _, c := range candidates[:min(len(candidates), countMax)] {
		missing -= c.effectiveValue
	}
	short := &chain.InsufficientOutputsError{Missing: money.Units(uint64(max(missing, 1)+unit-1) / unit)}
	if len(candidates) > countMax {
		short.TooManyInputs = true
		return fmt.Errorf("the %d largest of %d, the most that one transaction spends: %w", countMax, len(candidates),
			short)
	}
	return short
}

// isWithinLimits reports whether one transaction can spend a set.
func (r *problem) isWithinLimits(coins int, weight int64) bool {
	return coins+len(r.Required) <= bitcointx.InputsMax && weight <= r.weightLeft
}

// branchAndBound finds the least wasteful set that needs no change: one that is worth the target,
// and more by at most the cost of change. It tries candidates from the largest on, with each and
// without, and abandons branches that cannot reach that.
func branchAndBound(r *problem, candidates []candidate, _ *rand.Rand) ([]candidate, bool) {
	target, upper := r.targetValue(false), r.targetValue(false)+r.costOfChange()
	var left, value, weight, waste int64
	for _, c := range candidates {
		left += c.effectiveValue
	}
	var chosen, best []int
	bestWaste := int64(math.MaxInt64)
	perWeight := int64(r.Rate) - int64(r.UsualRate)
	for index, tries := 0, 0; tries < triesMax; tries, index = tries+1, index+1 {
		backtrack := false
		switch {
		case value+left < target, value > upper, perWeight > 0 && waste > bestWaste,
			!r.isWithinLimits(len(chosen), weight):
			backtrack = true
		case value >= target:
			if w := waste + value - target; w <= bestWaste {
				best, bestWaste = slices.Clone(chosen), w
			}
			backtrack = true
		}
		if backtrack {
			if len(chosen) == 0 {
				break
			}
			// Backtrack to the last included candidate, which is excluded now.
			last := chosen[len(chosen)-1]
			for index--; index > last; index-- {
				left += candidates[index].effectiveValue
			}
			c := candidates[last]
			value, weight, waste = value-c.effectiveValue, weight-c.weight, waste-c.weight*perWeight
			chosen = chosen[:len(chosen)-1]
			continue
		}
		if index == len(candidates) {
			break
		}
		c := candidates[index]
		left -= c.effectiveValue
		// For equal candidates, excluding the first and including the second is the same as the
		// reverse.
		if index > 0 && (len(chosen) == 0 || chosen[len(chosen)-1] != index-1) &&
			c.effectiveValue == candidates[index-1].effectiveValue && c.weight == candidates[index-1].weight {
			continue
		}
		chosen = append(chosen, index)
		value, weight, waste = value+c.effectiveValue, weight+c.weight, waste+c.weight*perWeight
	}
	set := make([]candidate, len(best))
	for i, n := range best {
		set[i] = candidates[n]
	}
	return set, bestWaste != math.MaxInt64
}

// selectLightest returns the set of least weight that is worth the target with change.
func selectLightest(r *problem, candidates []candidate, _ *rand.Rand) ([]candidate, bool) {
	return r.findLightest(candidates, r.targetValue(true))
}

// selectChangeless handles a remainder that is too small for change: the miner gets it.
func selectChangeless(r *problem, candidates []candidate, _ *rand.Rand) ([]candidate, bool) {
	return r.findLightest(candidates, r.targetValue(false))
}

// findLightest returns the set of least weight that is worth a target. Candidates have one of two
// weights, so it takes the largest of each and tries the numbers of both.
func (r *problem) findLightest(candidates []candidate, target int64) ([]candidate, bool) {
	var a, b []candidate
	for _, c := range candidates {
		if c.weight == candidates[0].weight {
			a = append(a, c)
		} else {
			b = append(b, c)
		}
	}
	// As many of a as possible, and of b as few as needed; then one less of a each time.
	n, m := min(len(a), max(0, bitcointx.InputsMax-len(r.Required))), 0
	var value, weight int64
	for _, c := range a[:n] {
		value, weight = value+c.effectiveValue, weight+c.weight
	}
	bestN, bestM, bestWeight := -1, -1, int64(math.MaxInt64)
	for ; n >= 0; n-- {
		for value < target && m < len(b) {
			value, weight, m = value+b[m].effectiveValue, weight+b[m].weight, m+1
		}
		if value >= target && r.isWithinLimits(n+m, weight) && weight < bestWeight {
			bestN, bestM, bestWeight = n, m, weight
		}
		if n > 0 {
			value, weight = value-a[n-1].effectiveValue, weight-a[n-1].weight
		}
	}
	if bestN < 0 {
		return nil, false
	}
	return slices.Concat(a[:bestN], b[:bestM]), true
}

// selectKnapsack draws random sets and keeps the one that exceeds the target by the least, so that
// the change is small. It takes a single output that suffices alone if no set is closer.
func selectKnapsack(r *problem, candidates []candidate, rnd *rand.Rand) ([]candidate, bool) {
	target := r.targetValue(true)
	if target <= 0 {
		return nil, r.isWithinLimits(0, 0)
	}
	var smaller []candidate
	var larger *candidate
	var sum int64
	for i, c := range candidates {
		switch {
		case c.effectiveValue < target:
			smaller, sum = append(smaller, c), sum+c.effectiveValue
		default:
			larger = &candidates[i] // candidates are ordered from the largest
		}
	}
	var best []candidate
	bestValue := int64(math.MaxInt64)
	if larger != nil && r.isWithinLimits(1, larger.weight) {
		best, bestValue = []candidate{*larger}, larger.effectiveValue
	}
	if sum < target {
		return best, best != nil
	}
	isIn := make([]bool, len(smaller))
	for range min(knapsackDraws, knapsackStepsMax/len(smaller)+1) {
		clear(isIn)
		var value, weight int64
		count := 0
		// First each at random, then the excluded ones, until the sum suffices. The excess is
		// removed again, to continue with smaller outputs.
		for pass := range 2 {
			for i, c := range smaller {
				if pass == 0 && rnd.Uint64()&1 == 0 || pass == 1 && isIn[i] {
					continue
				}
				isIn[i], value, weight, count = true, value+c.effectiveValue, weight+c.weight, count+1
				if value < target {
					if count >= bitcointx.InputsMax {
						break
					}
					continue
				}
				if value < bestValue && r.isWithinLimits(count, weight) {
					best, bestValue = best[:0:0], value
					for j, included := range isIn {
						if included {
							best = append(best, smaller[j])
						}
					}
				}
				isIn[i], value, weight, count = false, value-c.effectiveValue, weight-c.weight, count-1
			}
		}
	}
	return best, best != nil
}

// selectRandom takes outputs at random until they suffice. If they become too many it drops the
// smallest.
func selectRandom(r *problem, candidates []candidate, rnd *rand.Rand) ([]candidate, bool) {
	target := r.targetValue(true)
	if target <= 0 {
		return nil, r.isWithinLimits(0, 0)
	}
	order := rnd.Perm(len(candidates))
	var set []int // indexes of candidates, from the smallest output on: the reverse order of the candidates
	var value, weight int64
	for _, n := range order {
		position, _ := slices.BinarySearchFunc(set, n, func(a, b int) int { return cmp.Compare(b, a) })
		set = slices.Insert(set, position, n)
		value, weight = value+candidates[n].effectiveValue, weight+candidates[n].weight
		for !r.isWithinLimits(len(set), weight) {
			c := candidates[set[0]]
			value, weight, set = value-c.effectiveValue, weight-c.weight, set[1:]
		}
		if value >= target {
			out := make([]candidate, len(set))
			for i, k := range set {
				out[i] = candidates[k]
			}
			return out, true
		}
	}
	return nil, false
}
