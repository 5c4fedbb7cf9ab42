package money

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// Rule AMT-1.
func TestParseReadsOnlyCanonicalWholeNumbers(t *testing.T) {
	t.Parallel()
	const top = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for _, c := range []struct {
		in   string
		want error
	}{
		{"0", nil},
		{"1", nil},
		{"5000000", nil},
		{top, nil},
		{"115792089237316195423570985008687907853269984665640564039457584007913129639936", ErrRange},
		{strings.Repeat("9", 78), ErrRange},
		{strings.Repeat("9", 1<<20), ErrRange},
		{"", ErrSyntax},
		{"-5", ErrSyntax},
		{"+5", ErrSyntax},
		{"-0", ErrSyntax},
		{"007", ErrSyntax},
		{"00", ErrSyntax},
		{"1.0", ErrSyntax},
		{"1e3", ErrSyntax},
		{"0x10", ErrSyntax},
		{" 1", ErrSyntax},
		{"1 ", ErrSyntax},
		{"1_000", ErrSyntax},
		{"1/2", ErrSyntax},
		{"٥", ErrSyntax},
		{"５", ErrSyntax},
		{"1\u200b2", ErrSyntax},
	} {
		got, err := Parse(c.in)
		if !errors.Is(err, c.want) {
			t.Errorf("Parse(%.40q): got %v, want %v", c.in, err, c.want)
		}
		if err == nil && got.String() != c.in {
			t.Errorf("Parse(%q).String(): got %v, want %v", c.in, got, c.in)
		}
	}
}

// Rule AMT-2.
func TestParseDecimalNeverRounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in       string
		decimals int
		want     string
		err      error
	}{
		{"5", 6, "5000000", nil},
		{"1.5", 6, "1500000", nil},
		{"0.000001", 6, "1", nil},
		{"0", 6, "0", nil},
		{"0.0", 6, "0", nil},
		{"1.0000001", 6, "", ErrFraction},
		{"1.0000000", 6, "", ErrFraction},
		{"1.0", 0, "", ErrFraction},
		{"1.", 6, "", ErrSyntax},
		{".5", 6, "", ErrSyntax},
		{"01.5", 6, "", ErrSyntax},
		{"1.5.5", 6, "", ErrSyntax},
		{"-1", 6, "", ErrSyntax},
		{"1,5", 6, "", ErrSyntax},
		{"1e2", 6, "", ErrSyntax},
		{strings.Repeat("9", 78), 18, "", ErrRange},
		{strings.Repeat("9", 1<<20), 18, "", ErrRange},
	} {
		got, err := ParseDecimal(c.in, c.decimals)
		if !errors.Is(err, c.err) {
			t.Errorf("ParseDecimal(%.40q, %d): got %v, want %v", c.in, c.decimals, err, c.err)
		}
		if err == nil && got.String() != c.want {
			t.Errorf("ParseDecimal(%q, %d): got %v, want %v", c.in, c.decimals, got, c.want)
		}
	}
}

func TestArithmeticRefusesToLeaveTheRange(t *testing.T) {
	t.Parallel()
	top := MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
	if _, err := top.Add(Units(1)); !errors.Is(err, ErrRange) {
		t.Errorf("top+1: got %v, want %v", err, ErrRange)
	}
	if _, err := Units(1).Sub(Units(2)); !errors.Is(err, ErrNegative) {
		t.Errorf("1-2: got %v, want %v", err, ErrNegative)
	}
	if _, err := top.Mul(2); !errors.Is(err, ErrRange) {
		t.Errorf("top*2: got %v, want %v", err, ErrRange)
	}
	if got, err := Units(999).Bps(25); err != nil || got != Units(2) {
		t.Errorf("25 bps of 999: got %v %v, want 2", got, err)
	}
	if got, err := top.Bps(10_000); err != nil || got != top {
		t.Errorf("all of the top: got %v %v, want %v", got, err, top)
	}
}

func TestScanNumericAppliesTheExponent(t *testing.T) {
	t.Parallel()
	var a Amount
	if err := a.ScanNumeric(pgtype.Numeric{Int: big.NewInt(100), Exp: 4, Valid: true}); err != nil ||
		a != Units(1_000_000) {
		t.Errorf("100e4: got %v %v, want 1000000", a, err)
	}
	if err := a.ScanNumeric(pgtype.Numeric{Int: big.NewInt(1500), Exp: -2, Valid: true}); err != nil || a != Units(15) {
		t.Errorf("1500e-2: got %v %v, want 15", a, err)
	}
	for name, v := range map[string]pgtype.Numeric{
		"fraction": {Int: big.NewInt(15), Exp: -1, Valid: true},
		"null":     {},
		"nan":      {NaN: true, Valid: true},
		"negative": {Int: big.NewInt(-1), Valid: true},
	} {
		if err := a.ScanNumeric(v); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func TestUSDKeepsThresholdsExact(t *testing.T) {
	t.Parallel()
	v, err := ValueOf(Units(5_000_000), 6, MustParseUSD("1"))
	if err != nil || v.Cents() != "5.00" {
		t.Errorf("5 USDC: got %v %v, want 5.00", v.Cents(), err)
	}
	// One unit above ten thousand dollars is above the threshold of ten thousand.
	v, err = ValueOf(Units(10_000_000_001), 6, MustParseUSD("1"))
	if err != nil || v.Cmp(MustParseUSD("10000")) <= 0 {
		t.Errorf("10000.000001: got %v %v, want above 10000", v, err)
	}
	if got := MustParseUSD("0.005").Cents(); got != "0.01" {
		t.Errorf("half a cent: got %v, want 0.01", got)
	}
	for _, bad := range []string{"", "-1", "1e3", "1.", strings.Repeat("9", 19)} {
		if _, err := ParseUSD(bad); err == nil {
			t.Errorf("ParseUSD(%q): got no error, want one", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0", "1", "007", "1.5", "-1", "٥"} {
		f.Add(s, uint8(6))
	}
	f.Fuzz(func(t *testing.T, s string, decimals uint8) {
		if a, err := Parse(s); err == nil && a.String() != s {
			t.Errorf("Parse(%q) printed %q", s, a)
		}
		d := int(decimals % 31)
		a, err := ParseDecimal(s, d)
		if err != nil {
			return
		}
		b, err := ParseDecimal(a.Decimal(d), d)
		if err != nil || a != b {
			t.Errorf("ParseDecimal(%q, %d): %v, round trip %v %v", s, d, a, b, err)
		}
	})
}

func TestEveryAmountIsReadFromTheDatabaseToTheLastDigit(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"9007199254740993", // the first that a float64 cannot represent
		"1000000000000000001",
		"115792089237316195423570985008687907853269984665640564039457584007913129639935",
	} {
		n, _ := new(big.Int).SetString(s, 10)
		var a Amount
		if err := a.ScanNumeric(pgtype.Numeric{Int: n, Valid: true}); err != nil || a.String() != s {
			t.Errorf("got %v %v, want %s", a, err, s)
		}
	}
}

func TestAValueIsRoundedUpSoThatNoThresholdIsMissed(t *testing.T) {
	t.Parallel()
	least := MustParseUSD("0.000000000000000001")
	// Half of the smallest value, and a third more than a dollar.
	if v, err := ValueOf(Units(1), 18, MustParseUSD("0.5")); err != nil || v != least {
		t.Errorf("got %v %v, want %v", v, err, least)
	}
	if v, err := ValueOf(Units(1), 1, MustParseUSD("10.000000000000000003")); err != nil ||
		v.Cmp(MustParseUSD("1")) <= 0 {
		t.Errorf("got %v %v, want above 1", v, err)
	}
}

func TestConvertRoundsUpAndNeverOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		units         string
		from          int
		price         string
		to            int
		toPrice, want string
	}{
		{"0", 18, "3000", 6, "1", "0"},
		{"1", 18, "3000", 6, "1", "1"},
		{"2039280", 9, "200", 6, "1", "407856"},
		{"100000000000", 18, "3000", 6, "1", "300"},
		{"100000000001", 18, "3000", 6, "1", "301"},
		{"1", 0, "1", 18, "0.000000000000000001", "1000000000000000000000000000000000000"},
	} {
		got, err := Convert(MustParse(c.units), c.from, MustParseUSD(c.price), c.to, MustParseUSD(c.toPrice))
		if err != nil || got.String() != c.want {
			t.Errorf(
				"%s of %d decimals at %s in %d decimals at %s: got %v %v, want %s", c.units, c.from, c.price,
				c.to, c.toPrice, got, err, c.want,
			)
		}
	}
	if _, err := Convert(Units(1), 0, MustParseUSD("1"), 0, USD{}); !errors.Is(err, ErrRange) {
		t.Errorf("into something without a value: got %v, want %v", err, ErrRange)
	}
	if _, err := Convert(
		MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935"), 0,
		MustParseUSD("2"), 0, MustParseUSD("1"),
	); !errors.Is(err, ErrRange) {
		t.Errorf("twice the most: got %v, want %v", err, ErrRange)
	}
}
