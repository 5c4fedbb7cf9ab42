package coinselect

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

// Addresses of BIP-173 and BIP-350.
const (
	segwit  chain.Address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
	taproot chain.Address = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"
	mainnet chain.Address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	payee   chain.Address = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
	change  chain.Address = "bc1qzx75saxz2gremj557ekvdlmqen7s6jv6yat7d4"
)

func coin(n int, amount uint64, holder chain.Address) chain.Output {
	return chain.Output{Outpoint: fmt.Sprintf("%064x:%d", n, n%7), Owner: holder, Amount: money.Units(amount)}
}

func order(rate, usual uint64, amounts ...uint64) Request {
	o := Request{Network: chain.Mainnet, Change: change, Rate: rate, UsualRate: usual}
	for _, a := range amounts {
		o.Payments = append(o.Payments, chain.Payment{To: payee, Amount: money.Units(a)})
	}
	return o
}

// purse returns some outputs of both kinds, often with amounts that are close to one another.
func purse(rnd *rand.Rand, n int) []chain.Output {
	var all []chain.Output
	for i := range n {
		holder := mainnet
		if rnd.IntN(3) == 0 {
			holder = taproot
		}
		amount := 300 + rnd.Uint64N(200)*500
		if rnd.IntN(4) == 0 {
			amount = rnd.Uint64N(3000)
		}
		if amount == 0 {
			amount = 1
		}
		all = append(all, coin(i, amount, holder))
	}
	return all
}

// checkSelection checks what is true of every selection.
func checkSelection(t *testing.T, o Request, from []chain.Output, c Selection) bitcointx.Tx {
	t.Helper()
	tx, err := bitcointx.Build(o.Network, c.SlotKey, o.Payments, c.Fees)
	if err != nil {
		t.Fatalf("%s: got %v, want what was chosen to be built", c.Algorithm, err)
	}
	for _, coin := range c.SlotKey.Inputs {
		if slices.Contains(o.Required, coin) {
			continue
		}
		if !slices.Contains(from, coin) {
			t.Errorf("%s: got coin %+v, want one of those that there are", c.Algorithm, coin)
		}
		n, _ := coin.Amount.Uint64()
		w, err := bitcointx.SpendWeight(o.Network, coin.Owner)
		if err != nil || n*unit <= uint64(w)*o.Rate {
			t.Errorf("%s: got a coin of %d, which costs %d to spend", c.Algorithm, n, uint64(w)*o.Rate/unit)
		}
	}
	for _, coin := range o.Required {
		if !slices.Contains(c.SlotKey.Inputs, coin) {
			t.Errorf("%s: got it without %+v, which must be spent", c.Algorithm, coin)
		}
	}
	fee, _ := tx.Fee().Uint64()
	if fee < bitcointx.FeeAtRate(tx.VirtualSize(), o.Rate) {
		t.Errorf("%s: got a fee of %d, want at least %d", c.Algorithm, fee,
			bitcointx.FeeAtRate(tx.VirtualSize(), o.Rate))
	}
	if c.Fees.NonGas != tx.Fee() || c.Fees.GasLimit != tx.VirtualSize() {
		t.Errorf("%s: got fees %+v, want those of %d bytes for %d", c.Algorithm, c.Fees, tx.VirtualSize(), fee)
	}
	if tx.ChangeAmount.IsZero() {
		raised := bitcointx.FeeAtRate(tx.VirtualSize(), max(o.RaisedRate, o.Rate))
		if r, _ := mustProblem(t, o, from); fee < raised ||
			c.Algorithm != "nearly all" && fee > raised+uint64(r.costOfChange())/unit+8 {
			t.Errorf("%s: got a fee of %d without change, want %d and no more than change costs", c.Algorithm, fee,
				raised)
		}
	} else if bitcointx.FeeAtRate(tx.VirtualSize(), o.Rate) != fee {
		t.Errorf("%s: got a fee of %d, want %d", c.Algorithm, fee, bitcointx.FeeAtRate(tx.VirtualSize(), o.Rate))
	} else if o.RaisedRate > o.Rate {
		if _, err := bitcointx.Build(o.Network, c.SlotKey, o.Payments, chain.Fees{
			TipCap: money.Units(o.RaisedRate),
			NonGas: money.Units(bitcointx.FeeAtRate(tx.VirtualSize(), o.RaisedRate)),
		}); err != nil {
			t.Errorf("%s: got %v, want its fee raised out of the change", c.Algorithm, err)
		}
	}
	return tx
}

func mustProblem(t *testing.T, o Request, from []chain.Output) (*problem, []candidate) {
	t.Helper()
	r, all, err := newProblem(o, from)
	if err != nil {
		t.Fatal(err)
	}
	return r, all
}

// least returns the lowest waste of all sets, by trying each.
func least(r *problem, all []candidate) (best int64, ok bool) {
	best = math.MaxInt64
	for set := uint(0); set < 1<<len(all); set++ {
		var chosen []candidate
		var worth int64
		for i, c := range all {
			if set>>i&1 == 1 {
				chosen, worth = append(chosen, c), worth+c.effectiveValue
			}
		}
		if worth >= r.targetValue(true) {
			best = min(best, r.computeWaste(chosen, true))
		}
		if worth >= r.targetValue(false) && worth <= r.targetValue(false)+r.costOfChange() {
			best = min(best, r.computeWaste(chosen, false))
		}
	}
	return best, best != math.MaxInt64
}

func TestTheChoiceWastesLeast(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	by := map[string]int{}
	for n := range 250 {
		usual := 1000 + rnd.Uint64N(10_000)
		from := purse(rnd, 1+rnd.IntN(10))
		o := order(usual+rnd.Uint64N(20_000), usual, 1000+rnd.Uint64N(150)*1000)
		if n%5 == 1 {
			o.Required = []chain.Output{coin(5000, 400+rnd.Uint64N(200_000), taproot), coin(5001, 200, mainnet)}
		}
		if n%3 == 0 {
			// An amount that some of the outputs pay exactly, except for the last digits.
			var sum uint64
			r, all, err := newProblem(o, from)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all[:len(all)/2] {
				sum += uint64(c.effectiveValue) / unit
			}
			if cost := uint64(r.targetValue(false)-r.paid)/unit + rnd.Uint64N(200); sum > cost+1000 {
				o.Payments[0].Amount = money.Units(sum - cost)
			}
		}
		r, all := mustProblem(t, o, from)
		want, ok := least(r, all)
		c, err := Select(o, from)
		var short *chain.InsufficientOutputsError
		switch {
		case err == nil:
			checkSelection(t, o, from, c)
			by[c.Algorithm]++
			if ok && c.Waste != want {
				t.Errorf("%d: got a waste of %d by %s, want %d", n, c.Waste, c.Algorithm, want)
			}
			if !ok && c.Algorithm != "nearly all" {
				t.Errorf("%d: got %s where nothing but nearly all does", n, c.Algorithm)
			}
		case !errors.As(err, &short):
			t.Errorf("%d: got %v, want a choice or what is missing", n, err)
		case ok:
			t.Errorf("%d: got %v, want a choice", n, err)
		case true:
			// The reported shortfall is exact: with so much more the selection succeeds.
			by["short"]++
			more := append(slices.Clone(from), coin(9999, 1_000_000, mainnet))
			by, _ := short.Missing.Uint64()
			cost, _ := bitcointx.SpendWeight(chain.Mainnet, mainnet)
			more[len(more)-1].Amount = money.Units(by + (uint64(cost)*o.Rate+unit-1)/unit)
			if _, err := Select(o, more); err != nil {
				t.Errorf("%d: with %d more: got %v, want it to do", n, by, err)
			}
			more[len(more)-1].Amount = money.Units(by + uint64(cost)*o.Rate/unit - 5)
			if _, err := Select(o, more); err == nil {
				t.Errorf("%d: with less than %d more: got it chosen", n, by)
			}
		}
	}
	for _, a := range []string{"branch and bound", "lightest", "short"} {
		if by[a] == 0 {
			t.Errorf("got no choice by %s in %v", a, by)
		}
	}
}

// Each algorithm by itself, also while spending now is cheap.
func TestEveryAlgorithmKeepsToTheOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	for n := range 200 {
		from := purse(rnd, 1+rnd.IntN(60))
		o := order(1000+rnd.Uint64N(20_000), 1000+rnd.Uint64N(20_000), 1000+rnd.Uint64N(300_000), 5000)
		o.RaisedRate = o.Rate + rnd.Uint64N(o.Rate)
		if n%3 == 0 {
			o.Required = []chain.Output{coin(5000, 1+rnd.Uint64N(400_000), mainnet)}
		}
		r, all := mustProblem(t, o, from)
		for name, find := range map[string]finder{
			"branch and bound": branchAndBound, "lightest": selectLightest, "knapsack": selectKnapsack,
			"single random draw": selectRandom, "nearly all": selectChangeless,
		} {
			withChange := name != "branch and bound" && name != "nearly all"
			set, ok := find(r, all, rand.New(rand.NewPCG(uint64(n), 1)))
			var worth, sum int64
			for _, c := range all {
				sum += c.effectiveValue
			}
			for _, c := range set {
				worth += c.effectiveValue
			}
			if !ok {
				if name != "branch and bound" && sum >= r.targetValue(withChange) {
					t.Errorf("%d: %s: got nothing, want what there is enough for", n, name)
				}
				continue
			}
			if worth < r.targetValue(withChange) {
				t.Errorf("%d: %s: got %d, want at least %d", n, name, worth, r.targetValue(withChange))
			}
			c, err := r.buildSelection(set, withChange)
			if err != nil {
				t.Fatal(err)
			}
			c.Algorithm = name
			checkSelection(t, o, from, c)
		}
		// The same outputs in another order give the same selection.
		a, errA := Select(o, from)
		rnd.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		b, errB := Select(o, from)
		if (errA == nil) != (errB == nil) || a.SlotKey.String() != b.SlotKey.String() || a.Fees != b.Fees {
			t.Errorf("%d: got %+v (%v), then %+v (%v)", n, a, errA, b, errB)
		}
	}
}

// The change would be too small, and the excess is too large for a set without change.
func TestWhatCannotComeBackIsTheMiners(t *testing.T) {
	t.Parallel()
	from := []chain.Output{coin(1, 100_000, mainnet)}
	o := order(1000, 1, 1000)
	r, _ := mustProblem(t, o, from)
	o.Payments[0].Amount = money.Units(100_000 - uint64(r.targetValue(false)-r.paid)/unit - 68 - 250)
	c, err := Select(o, from)
	if err != nil || c.Algorithm != "nearly all" {
		t.Fatalf("got %+v, %v, want nearly all", c, err)
	}
	if tx := checkSelection(t, o, from, c); !tx.ChangeAmount.IsZero() {
		t.Errorf("got %v back, want nothing", tx.ChangeAmount)
	}
}

func TestNoMoreOutputsAreTakenThanATransactionSpends(t *testing.T) {
	t.Parallel()
	var from []chain.Output
	for i := range 1000 {
		from = append(from, coin(i, 10_000+uint64(i), mainnet))
	}
	o := order(1000, 20_000, 1_900_000)
	c, err := Select(o, from)
	if err != nil {
		t.Fatal(err)
	}
	if tx := checkSelection(t, o, from, c); len(tx.SlotKey.Inputs) > bitcointx.InputsMax {
		t.Errorf("got %d coins, want at most %d", len(tx.SlotKey.Inputs), bitcointx.InputsMax)
	}
	var short *chain.InsufficientOutputsError
	must := order(1000, 20_000, 190_000)
	must.Required = from[:150]
	if c, err := Select(must, from[150:]); err != nil || len(c.SlotKey.Inputs) != 150 {
		t.Errorf("with 150 that must: got %d coins, %v, want those alone", len(c.SlotKey.Inputs), err)
	}
	must.Required = append(slices.Clone(from[:200]), coin(5000, 5_000_000, mainnet))
	if c, err := Select(must, nil); err == nil {
		t.Errorf("with 201 that must: got %+v, want an error", c)
	}
	if c, err := Select(order(1000, 20_000, 2_300_000), from); !errors.As(err, &short) || short.Missing.IsZero() {
		t.Errorf("more than so many hold: got %+v, %v, want what is missing", c, err)
	}
}

func TestAnOrderThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	good := []chain.Output{coin(1, 100_000, mainnet)}
	for name, c := range map[string]struct {
		o    Request
		from []chain.Output
	}{
		"nothing to pay":       {order(1000, 1000), good},
		"for nothing":          {order(0, 1000, 5000), good},
		"at no rate":           {order(bitcointx.RateMax+1, 1000, 5000), good},
		"of dust":              {order(1000, 1000, 100), good},
		"a coin twice":         {order(1000, 1000, 5000), append(good, good...)},
		"one that must, twice": {func() Request { o := order(1000, 1000, 5000); o.Required = good; return o }(), good},
		"another network's":    {order(1000, 1000, 5000), []chain.Output{coin(1, 100_000, segwit)}},
		"one that has no key":  {order(1000, 1000, 5000), []chain.Output{coin(1, 100_000, payee)}},
		"more than the balance": {
			order(1000, 1000, 5000),
			[]chain.Output{coin(1, satoshiSupply, mainnet), coin(2, 1, mainnet)},
		},
		"no change": {
			Request{Network: chain.Mainnet, Payments: order(1, 1, 5000).Payments, Rate: 1000},
			good,
		},
		"more than all": {order(1000, 1000, satoshiSupply, satoshiSupply), good},
	} {
		if got, err := Select(c.o, c.from); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
	if bits.Len64(uint64(satoshiSupply)*unit) > 63 {
		t.Error("all there is does not fit into the numbers here")
	}
}

func BenchmarkSelectOfTenThousandCoins(b *testing.B) {
	rnd := rand.New(rand.NewPCG(7, 8))
	var from []chain.Output
	for i := range 10_000 {
		holder := mainnet
		if i%3 == 0 {
			holder = taproot
		}
		from = append(from, coin(i, 1000+rnd.Uint64N(5_000_000), holder))
	}
	o := order(12_000, 10_000, 40_000_000, 3_000_000)
	o.RaisedRate = 18_000
	for b.Loop() {
		if _, err := Select(o, from); err != nil {
			b.Fatal(err)
		}
	}
}
