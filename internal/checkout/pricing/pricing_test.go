package pricing

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

const trials = 20_000

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func usd(text string) money.USD { return money.MustParseUSD(text) }

func rate(price, currencyPrice string) Rate {
	return Rate{Price: usd(price), CurrencyPrice: usd(currencyPrice), Source: "test", PricedAt: start}
}

// The texts of values are exact and read back, and dollars show their cents.
func TestAValueIsWrittenExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, currency, shown string }{
		{"0", USD, "0.00"},
		{"49.9", USD, "49.90"},
		{"49.99", USD, "49.99"},
		{"49.990000000000000001", USD, "49.990000000000000001"},
		{"0.000000000000000001", "ETH", "0.000000000000000001"},
		{"99999999999999999999.999999999999999999", "ETH", "99999999999999999999.999999999999999999"},
	} {
		v, err := Read(c.text)
		if err != nil || v.Text() != c.text || v.Show(c.currency) != c.shown {
			t.Errorf("%s: got %s and %s (%v)", c.text, v.Text(), v.Show(c.currency), err)
		}
		numeric, err := v.NumericValue()
		var stored Value
		if err != nil || stored.ScanNumeric(numeric) != nil || stored != v {
			t.Errorf("%s: stored as %s (%v)", c.text, stored.Text(), err)
		}
	}
}

// A person's price has at most 18 digits, and a value never leaves what a column of numeric(38,18) stores.
func TestAValueStaysInItsRange(t *testing.T) {
	t.Parallel()
	if _, err := Parse("1234567890123456.789", 18); !errors.Is(err, money.ErrRange) {
		t.Errorf("a price of 19 digits: got %v", err)
	}
	if _, err := Parse("1.234", 2); !errors.Is(err, money.ErrFraction) {
		t.Errorf("three digits of cents: got %v", err)
	}
	if _, err := Read("100000000000000000000"); !errors.Is(err, money.ErrRange) {
		t.Errorf("21 digits before the point: got %v", err)
	}
	last := MustRead("0.000000000000000001")
	if _, err := ValueMax.Add(last); !errors.Is(err, money.ErrRange) {
		t.Errorf("above the greatest value: got %v", err)
	}
	if _, err := ValueMax.Mul(2); !errors.Is(err, money.ErrRange) {
		t.Errorf("twice the greatest value: got %v", err)
	}
	if _, err := (Value{}).Sub(last); !errors.Is(err, money.ErrNegative) {
		t.Errorf("below zero: got %v", err)
	}
	if got := SubOrZero(last, ValueMax); !got.IsZero() {
		t.Errorf("below zero, or zero: got %s", got.Text())
	}
	if got, err := MustRead("49.99").Mul(3); err != nil || got.Text() != "149.97" {
		t.Errorf("three times 49.99: got %s (%v)", got.Text(), err)
	}
}

// An amount pays what rests, rounded up to a step of at most a tenth of a cent, and not below the minimum.
func TestAnAmountCanBeTypedAndPaysWhatRests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		rest     string
		decimals int
		rate     Rate
		minimum  string
		want     string
	}{
		{"a pegged coin shows the cents", "49.99", 6, rate("1", "1"), "0", "49990000"},
		{"a pegged coin rounds up to a tenth of a cent", "49.9901", 6, rate("1", "1"), "0", "49991000"},
		{"its own symbol is exact", "49.99", 6, SameCurrency(start), "0", "49990000"},
		{"its own symbol has no step", "0.123457", 6, SameCurrency(start), "0", "123457"},
		{"its own symbol, more digits than the mint: up", "0.1234561", 6, SameCurrency(start), "0", "123457"},
		{"bitcoin in dollars: a satoshi is below a tenth of a cent", "49.99", 8, rate("60000", "1"), "0", "83317"},
		{
			"bitcoin at a million: a satoshi is a cent, so the step is one unit", "49.99", 8, rate("1000000", "1"), "0",
			"4999",
		},
		{"ether in dollars: steps of 10^-7", "49.99", 18, rate("3000", "1"), "0", "16663400000000000"},
		{"ether at exactly one step", "3", 18, rate("3000", "1"), "0", "1000000000000000"},
		{"a coin of few decimals", "49.99", 0, rate("3", "1"), "0", "17"},
		{"a cheap coin: the step is many tokens", "49.99", 5, rate("0.00002", "1"), "0", "249950000000"},
		{"dollars of a coin for a due in another one", "0.5", 6, rate("1", "3000"), "0", "1500000000"},
		{"never below the minimum", "0.01", 6, rate("1", "1"), "1000000", "1000000"},
		{"a minimum between two steps: up", "0.01", 6, rate("1", "1"), "1000001", "1001000"},
		{"a minimum in its own symbol", "0.01", 6, SameCurrency(start), "1000001", "1000001"},
	} {
		got, err := AmountFor(MustRead(c.rest), c.decimals, c.rate, money.MustParse(c.minimum))
		if err != nil || got.String() != c.want {
			t.Errorf("%s: got %s, want %s (%v)", c.name, got, c.want, err)
		}
	}
}

// A payment counts exactly, rounded down at the 18th digit.
func TestAPaymentCountsExactlyRoundedDown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, amount string
		decimals     int
		rate         Rate
		want         string
	}{
		{"pegged", "49990000", 6, rate("1", "1"), "49.99"},
		{"its own symbol", "1", 18, SameCurrency(start), "0.000000000000000001"},
		{"ether in dollars", "16663400000000000", 18, rate("3000", "1"), "49.9902"},
		{"a third is rounded down", "1", 0, rate("1", "3"), "0.333333333333333333"},
		{"two thirds are rounded down", "2", 0, rate("1", "3"), "0.666666666666666666"},
		{"less than the last digit", "1", 18, rate("0.1", "1"), "0"},
		{"more decimals than a value", "19", 19, rate("1", "1"), "0.000000000000000001"},
	} {
		got, err := Counted(money.MustParse(c.amount), c.decimals, c.rate)
		if err != nil || got.Text() != c.want {
			t.Errorf("%s: got %s, want %s (%v)", c.name, got.Text(), c.want, err)
		}
	}
}

// Without a price nothing is calculated, and what cannot be stored is refused.
func TestNoPriceIsGuessed(t *testing.T) {
	t.Parallel()
	for _, r := range []Rate{{}, {Price: usd("1")}, {CurrencyPrice: usd("1")}} {
		if _, err := AmountFor(MustRead("1"), 6, r, money.Zero); !errors.Is(err, ErrNoPrice) {
			t.Errorf("an amount at %v: got %v", r, err)
		}
		if _, err := Counted(money.Units(1), 6, r); !errors.Is(err, ErrNoPrice) {
			t.Errorf("a value at %v: got %v", r, err)
		}
	}
	if _, err := Counted(money.MustParse(strings.Repeat("9", 40)), 0, rate("1", "1")); !errors.Is(err, money.ErrRange) {
		t.Errorf("a value that no column has: got %v", err)
	}
	if _, err := AmountFor(ValueMax, 60, rate("1", "1"), money.Zero); !errors.Is(err, money.ErrRange) {
		t.Errorf("an amount that no mint has: got %v", err)
	}
}

func randomUSD(r *rand.Rand) money.USD {
	digits := new(big.Int).SetUint64(1 + r.Uint64N(1_000_000_000))
	digits.Mul(digits, powerOfTen(r.IntN(15)))
	return usd(money.MustParse(digits.String()).Decimal(Scale))
}

func randomValue(r *rand.Rand) Value {
	n := new(big.Int).SetUint64(1 + r.Uint64N(1_000_000_000))
	n.Mul(n, powerOfTen(r.IntN(15)))
	v, err := fromBig(n.Add(n, new(big.Int).SetUint64(r.Uint64N(1000))))
	if err != nil {
		panic(err)
	}
	return v
}

// The amount of a quote counts at least what it was quoted for, and without a minimum one step less does not.
func TestTheAmountOfAQuoteCountsAtLeastWhatRests(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range trials {
		rest, decimals := randomValue(random), random.IntN(20)
		r := Rate{Price: randomUSD(random), CurrencyPrice: randomUSD(random), Source: "test"}
		if random.IntN(3) == 0 {
			r = SameCurrency(start)
		}
		minimum := money.Units([]uint64{0, 1, 999, 1_000_001}[random.IntN(4)])
		amount, err := AmountFor(rest, decimals, r, minimum)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := Counted(amount, decimals, r)
		if errors.Is(err, money.ErrRange) {
			continue // the minimum of a mint that is dearer than anything
		}
		if err != nil || counted.Cmp(rest) < 0 || amount.Less(minimum) {
			t.Fatalf("%s at %+v with %d decimals: %s units count %s (%v)", rest.Text(), r, decimals, amount,
				counted.Text(), err)
		}
		if !minimum.IsZero() {
			continue
		}
		step, err := money.FromBig(r.step(decimals))
		if err != nil {
			t.Fatal(err)
		}
		less, err := amount.Sub(step)
		if err != nil {
			t.Fatal(err)
		}
		if before, err := Counted(less, decimals, r); err != nil || before.Cmp(rest) >= 0 {
			t.Fatalf("%s at %+v with %d decimals: one step less than %s still counts %s (%v)", rest.Text(), r, decimals,
				amount, before.Text(), err)
		}
	}
}

// A step is a power of ten that is worth at most a tenth of a cent, and ten times as much is worth more.
func TestAStepIsWorthATenthOfACentAtMost(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	bound := usd("0.001").Rat()
	for range trials {
		decimals := random.IntN(20)
		r := Rate{Price: randomUSD(random), CurrencyPrice: Par, Source: "test"}
		step := r.step(decimals)
		worth := new(big.Rat).SetFrac(step, powerOfTen(decimals))
		worth.Mul(worth, r.Price.Rat())
		isOne := step.Cmp(big.NewInt(1)) == 0
		tenTimes := new(big.Rat).Mul(worth, big.NewRat(10, 1))
		if !isOne && worth.Cmp(bound) > 0 || tenTimes.Cmp(bound) <= 0 {
			t.Fatalf("%s with %d decimals: the step %s is worth %s", r.Price, decimals, step, worth.FloatString(20))
		}
		if digits := step.String(); strings.Trim(digits, "0") != "1" || digits[0] != '1' {
			t.Fatalf("the step %s is no power of ten", digits)
		}
	}
}

// Parts count at most what the whole counts, and lose less than a unit of the 18th digit each.
func TestPartsCountWhatTheWholeCounts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	last := MustRead("0.000000000000000001")
	for range trials {
		decimals := random.IntN(20)
		r := Rate{Price: randomUSD(random), CurrencyPrice: randomUSD(random), Source: "test"}
		a, b := money.Units(random.Uint64N(1_000_000)), money.Units(random.Uint64N(1_000_000))
		whole, err := a.Add(b)
		if err != nil {
			t.Fatal(err)
		}
		var counted [3]Value
		isStored := true
		for i, amount := range []money.Amount{a, b, whole} {
			v, err := Counted(amount, decimals, r)
			if isStored = isStored && err == nil; err == nil {
				counted[i] = v
			} else if !errors.Is(err, money.ErrRange) {
				t.Fatal(err)
			}
		}
		if !isStored {
			continue
		}
		parts, err := counted[0].Add(counted[1])
		if err != nil {
			t.Fatal(err)
		}
		if lost, err := counted[2].Sub(parts); err != nil || lost.Cmp(last) > 0 {
			t.Fatalf("%s and %s at %+v: %s, together %s", a, b, r, parts.Text(), counted[2].Text())
		}
	}
}

// A pegged coin is offered within 50 basis points of a dollar.
func TestAPegHoldsWithinFiftyBasisPoints(t *testing.T) {
	t.Parallel()
	for price, want := range map[string]bool{
		"1": true, "0.995": true, "1.005": true, "0.994999999999999999": false, "1.005000000000000001": false,
		"0": false, "2": false,
	} {
		if got := AtPar(usd(price)); got != want {
			t.Errorf("%s: got %v", price, got)
		}
	}
}

// A rate is steady in the mint's own symbol, and between pegged coins and dollars.
func TestOnlyARateThatCannotMoveHoldsAsLongAsItsCheckout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		rate              Rate
		isPegged          bool
		isBitcoin         bool
		want, wantedAfter time.Duration
	}{
		{"own symbol", SameCurrency(start), false, false, 0, time.Minute},
		{"own symbol on Bitcoin", SameCurrency(start), false, true, 0, 30 * time.Minute},
		{"pegged in dollars", rate("1", "1"), true, false, 0, time.Minute},
		{"pegged, for a due in ether", rate("1", "3000"), true, false, 15 * time.Minute, time.Minute},
		{"volatile, and at a dollar by chance", rate("1", "1"), false, false, 15 * time.Minute, time.Minute},
		{"ether", rate("3000", "1"), false, false, 15 * time.Minute, time.Minute},
		{"Bitcoin", rate("60000", "1"), false, true, 30 * time.Minute, 30 * time.Minute},
	} {
		got := Validity(IsSteady(c.rate, c.isPegged), c.isBitcoin)
		if after := Grace(c.isBitcoin); got != c.want || after != c.wantedAfter {
			t.Errorf("%s: got %v and a grace of %v", c.name, got, after)
		}
	}
}

// The quote of a payment is the newest one whose time and grace contain its moment.
func TestTheNewestQuoteOfAMomentApplies(t *testing.T) {
	t.Parallel()
	minutes := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	quotes := []Quote{
		{Seq: 2, ValidFrom: minutes(15), ExpiresAt: minutes(30)},
		{Seq: 1, ValidFrom: start, ExpiresAt: minutes(15)},
		{Seq: 3, ValidFrom: minutes(20), ExpiresAt: minutes(35)},
	}
	for _, c := range []struct {
		name      string
		moment    time.Time
		want      int
		isInGrace bool
	}{
		{"before every quote", start.Add(-1), 0, false},
		{"the first moment", start, 1, false},
		{"the last moment of the first, when the second is valid", minutes(15), 2, false},
		{"two are valid", minutes(25), 3, false},
		{"the last moment", minutes(35), 3, false},
		{"in the grace", minutes(35).Add(1), 3, true},
		{"the last moment of the grace", minutes(36), 3, true},
		{"after the grace", minutes(36).Add(1), 0, false},
	} {
		q, isInGrace, ok := Choose(quotes, c.moment, time.Minute)
		if q.Seq != c.want || isInGrace != c.isInGrace || ok != (c.want > 0) {
			t.Errorf("%s: got quote %d, in grace %v, ok %v", c.name, q.Seq, isInGrace, ok)
		}
	}
	if q, _, ok := Choose(quotes[1:2], minutes(15).Add(30*time.Second), time.Minute); !ok || q.Seq != 1 {
		t.Errorf("a gap between two quotes is in the grace of the first: got %d", q.Seq)
	}
}

// In the grace the market applies once a token lost more than the guard, in the currency of the amount due.
func TestTheGraceIsNoFreeOption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		quoted, market Rate
		want           bool
	}{
		{"no move", rate("3000", "1"), rate("3000", "1"), false},
		{"for the merchant", rate("3000", "1"), rate("4000", "1"), false},
		{"one percent", rate("3000", "1"), rate("2970", "1"), false},
		{"more than one percent", rate("3000", "1"), rate("2969.999999999999999999", "1"), true},
		{"the currency rose as much as the coin fell", rate("1", "3000"), rate("1", "3040"), true},
		{"the currency and the coin fell alike", rate("3000", "2"), rate("1500", "1"), false},
	} {
		if got := GuardGrace(Quote{Rate: c.quoted}, c.market, RateGuardBps); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// A payment is judged by its block, but a block's time moves it neither past its first sight nor far before it, and a
// re-inclusion makes it no later.
func TestTheMomentOfAPaymentIsThatOfItsBlock(t *testing.T) {
	t.Parallel()
	sight := start
	for _, c := range []struct {
		name               string
		block, earlier     time.Time
		wasLive, isBitcoin bool
		want               time.Time
	}{
		{"the block's time", sight.Add(-time.Minute), time.Time{}, true, false, sight.Add(-time.Minute)},
		{"a block an hour ahead", sight.Add(time.Hour), time.Time{}, true, false, sight},
		{"a block an hour behind, live", sight.Add(-time.Hour), time.Time{}, true, false, sight.Add(-2 * time.Minute)},
		{
			"a block an hour behind, the walk had stopped", sight.Add(-time.Hour),
			time.Time{},
			false, false,
			sight.Add(-time.Hour),
		},
		{"Bitcoin, an hour behind", sight.Add(-time.Hour), time.Time{}, true, true, sight.Add(-time.Hour)},
		{"Bitcoin, three hours behind", sight.Add(-3 * time.Hour), time.Time{}, true, true, sight.Add(-2 * time.Hour)},
		{"no time of a block", time.Time{}, time.Time{}, false, false, sight},
		{"included again", sight, sight.Add(-time.Hour), true, false, sight.Add(-time.Hour)},
		{"an earlier block after all", sight.Add(-time.Minute), sight, true, false, sight.Add(-time.Minute)},
	} {
		if got := Moment(c.block, sight, c.earlier, c.wasLive, c.isBitcoin); !got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The need is the amount due less the greater tolerance, and never less than nine tenths of it.
func TestTheNeedIsAtLeastNineTenths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, due          string
		bps                int
		usd, currencyPrice string
		want               string
	}{
		{"no tolerance", "100", 0, "0", "1", "100"},
		{"basis points", "100", 50, "0", "1", "99.5"},
		{"dollars are more", "100", 50, "1", "1", "99"},
		{"basis points are more", "1000", 50, "1", "1", "995"},
		{"dollars of a coin", "1", 0, "30", "3000", "0.99"},
		{"dollars cannot give away a cheap product", "5", 50, "1", "1", "4.5"},
		{"no more than a tenth in basis points", "5", 5000, "0", "1", "4.5"},
		{"a currency without a price", "1", 50, "30", "0", "0.995"},
		{"a third is rounded up", "1", 0, "0.1", "3", "0.966666666666666667"},
		{"the last digit", "0.000000000000000001", 1000, "1", "1", "0.000000000000000001"},
	} {
		got := Need(MustRead(c.due), c.bps, usd(c.usd), usd(c.currencyPrice))
		if got.Text() != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got.Text(), c.want)
		}
	}
	random := rand.New(rand.NewPCG(7, 8))
	for range trials {
		due := randomValue(random)
		need := Need(due, random.IntN(10_001), randomUSD(random), randomUSD(random))
		bound := new(big.Rat).Mul(due.Rat(), big.NewRat(9, 10))
		if need.Rat().Cmp(bound) < 0 || need.Cmp(due) > 0 {
			t.Fatalf("%s: got a need of %s", due.Text(), need.Text())
		}
	}
}
