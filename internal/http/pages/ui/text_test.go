package ui

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestForeignTextIsPrintableASCIIAndUnambiguous(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"alice":               "alice",
		"Аlice":               `\u{410}lice`,
		"a\u202eb":            `a\u{202e}b`,
		`\u{202e}`:            `\u{5c}u{202e}`,
		"line\nbreak\x00":     `line\u{a}break\u{0}`,
		"😀":                   `\u{1f600}`,
		"<script>&\"'":        "<script>&\"'",
		"no\u00a0break\u200b": `no\u{a0}break\u{200b}`,
	} {
		if got := EscapeForeign(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		first, second := rapid.String().Draw(r, "first"), rapid.String().Draw(r, "second")
		got := EscapeForeign(first)
		if strings.ContainsFunc(got, func(c rune) bool { return c < ' ' || c > '~' }) {
			r.Fatalf("%q: got %q, which has another character than printable ASCII", first, got)
		}
		if first != second && got == EscapeForeign(second) {
			r.Fatalf("%q and %q look the same: %q", first, second, got)
		}
	})
}

func TestAnAddressIsShownWhole(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU",
		"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", "abc", "",
	} {
		groups := SplitAddress(address)
		joined, strong := "", 0
		for _, group := range groups {
			joined += group.Text
			if group.IsStrong {
				strong++
			}
			if group.Text != "0x" && len(group.Text) > 4 {
				t.Errorf("%s: got the group %q, want at most four letters", address, group.Text)
			}
		}
		if joined != address {
			t.Errorf("got %q of all groups, want %q", joined, address)
		}
		if len(address) > 20 && strong != 4 {
			t.Errorf("%s: got %d strong groups, want two at each end", address, strong)
		}
	}
}

// A person reads an account that has a name as a word.
func TestAnAddressThatIsANameIsOneGroup(t *testing.T) {
	t.Parallel()
	const name = "refunds-of.customer_42.near"
	if got := SplitAddress(name); len(got) != 1 || got[0] != (AddressGroup{Text: name, IsStrong: true}) {
		t.Errorf("got %+v, want one group", got)
	}
}

func TestDigitsAreGroupedByASpaceThatDoesNotBreak(t *testing.T) {
	t.Parallel()
	for figure, want := range map[string]string{
		"0": "0", "999": "999", "1000": "1\u202f000", "12500.5": "12\u202f500.5", "1234567": "1\u202f234\u202f567",
		"0.000001": "0.000001",
	} {
		if got := GroupDigits(figure); got != want {
			t.Errorf("%s: got %q, want %q", figure, got, want)
		}
	}
}

func TestAgesAreInWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]string{
		0: "just now", 59 * time.Second: "59 seconds ago", time.Minute: "1 minute ago", 3 * time.Hour: "3 hours ago",
		47 * time.Hour: "47 hours ago", 72 * time.Hour: "3 days ago", -time.Hour: "in 1 hour",
	} {
		if got := FormatAge(Moment{Time: now.Add(-age), Now: now}); got != want {
			t.Errorf("%s: got %q, want %q", age, got, want)
		}
	}
}

// A time stands in the reader's zone with UTC next to it, with the day where the days differ. Rule PAGE-33.
func TestATimeStandsInTheReadersZone(t *testing.T) {
	t.Parallel()
	moment := time.Date(2027, 1, 5, 23, 30, 0, 0, time.UTC)
	for zone, want := range map[string]string{
		"":                 "5 Jan 2027, 23:30 UTC",
		"UTC":              "5 Jan 2027, 23:30 UTC",
		"Europe/London":    "5 Jan 2027, 23:30 UTC",
		"America/New_York": "5 Jan 2027, 18:30 EST (23:30 UTC)",
		"Europe/Berlin":    "6 Jan 2027, 00:30 CET (5 Jan, 23:30 UTC)",
	} {
		m := Moment{Time: moment, Now: moment}
		if zone != "" {
			var err error
			if m.Zone, err = time.LoadLocation(zone); err != nil {
				t.Fatal(err)
			}
		}
		if got := FormatMoment(m); got != want {
			t.Errorf("%s: got %q, want %q", zone, got, want)
		}
	}
}
