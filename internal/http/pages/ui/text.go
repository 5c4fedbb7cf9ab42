package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// narrowSpace is U+202F, a space at which no line breaks.
const narrowSpace = "\u202f"

// EscapeForeign writes a text that a stranger chose for a page of a decision: everything except
// printable ASCII becomes \u{…}. So no character is hidden, turns the direction of the line or looks like
// another. The backslash is escaped, too, so an escape cannot be written by hand. Rule PAGE-4.
func EscapeForeign(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r < ' ' || r > '~' || r == '\\' {
			fmt.Fprintf(&out, `\u{%x}`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// digitsInGroup is the length of a group of digits.
const digitsInGroup = 3

// GroupDigits groups the digits of a decimal figure before its point by U+202F. A minus sign stays before them.
func GroupDigits(figure string) string {
	digits, isNegative := strings.CutPrefix(figure, "-")
	whole, fraction, hasFraction := strings.Cut(digits, ".")
	var out strings.Builder
	if isNegative {
		out.WriteByte('-')
	}
	for i, digit := range []byte(whole) {
		if i > 0 && (len(whole)-i)%digitsInGroup == 0 {
			out.WriteString(narrowSpace)
		}
		out.WriteByte(digit)
	}
	if hasFraction {
		out.WriteString("." + fraction)
	}
	return out.String()
}

// FormatDollars writes dollars for people, with a minus sign before the sign of the currency.
func FormatDollars(figure string) string {
	if digits, isNegative := strings.CutPrefix(figure, "-"); isNegative {
		return "-$" + GroupDigits(digits)
	}
	return "$" + GroupDigits(figure)
}

// AddressGroup is a part of an address. A strong one is among those that a person compares first.
type AddressGroup struct {
	Text     string
	IsStrong bool
}

const (
	lettersInGroup = 4
	strongGroups   = 2 // at each end
)

// SplitAddress splits an address into groups of four. The prefix 0x is a group of its own. An address that is a
// name, such as refunds.near, is one group. The groups joined are the address.
func SplitAddress(address string) []AddressGroup {
	if strings.Contains(address, ".") {
		return []AddressGroup{{Text: address, IsStrong: true}}
	}
	var groups []AddressGroup
	if digits, ok := strings.CutPrefix(address, "0x"); ok {
		groups = append(groups, AddressGroup{Text: "0x"})
		address = digits
	}
	count := (len(address) + lettersInGroup - 1) / lettersInGroup
	for i := range count {
		end := min(len(address), (i+1)*lettersInGroup)
		groups = append(groups, AddressGroup{
			Text:     address[i*lettersInGroup : end],
			IsStrong: i < strongGroups || i >= count-strongGroups,
		})
	}
	return groups
}

// ShortenAddress returns the beginning and the end of an address, for lists. A page of a decision shows
// the whole address.
func ShortenAddress(address string) string {
	const ends = 6
	if len(address) <= 2*ends+1 {
		return address
	}
	return address[:ends+2] + "…" + address[len(address)-ends:]
}

// FormatTime writes a time in UTC for people.
func FormatTime(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

// FormatMoment writes a time for people: in the zone of the reader with UTC after it. Rule
// PAGE-33.
func FormatMoment(m Moment) string {
	first, second := splitMoment(m)
	if second == "" {
		return first
	}
	return first + " (" + second + ")"
}

// splitMoment writes a time in the zone of the reader and in UTC. The second text is "" where both are the
// same, and has the day where the days differ.
func splitMoment(m Moment) (zoned, utc string) {
	if m.Zone == nil {
		return FormatTime(m.Time), ""
	}
	local := m.Time.In(m.Zone)
	if _, offset := local.Zone(); offset == 0 {
		return FormatTime(m.Time), ""
	}
	layout := "15:04 UTC"
	if local.Format(time.DateOnly) != m.Time.UTC().Format(time.DateOnly) {
		layout = "2 Jan, 15:04 UTC"
	}
	return local.Format("2 Jan 2006, 15:04 MST"), m.Time.UTC().Format(layout)
}

// FormatAge says how long before now a time was. The script of the kit continues it in the browser with
// the same words.
func FormatAge(m Moment) string {
	seconds := int64(m.Now.Sub(m.Time) / time.Second)
	if seconds < 0 {
		return "in " + formatSpan(-seconds)
	}
	if seconds < nowSeconds {
		return "just now"
	}
	return formatSpan(seconds) + " ago"
}

const (
	nowSeconds    = 10
	minuteSeconds = 60
	hourSeconds   = 60 * minuteSeconds
	daySeconds    = 24 * hourSeconds
)

func formatSpan(seconds int64) string {
	switch {
	case seconds < minuteSeconds:
		return FormatCount(int(seconds), "second")
	case seconds < hourSeconds:
		return FormatCount(int(seconds/minuteSeconds), "minute")
	case seconds < 2*daySeconds:
		return FormatCount(int(seconds/hourSeconds), "hour")
	}
	return FormatCount(int(seconds/daySeconds), "day")
}

// FormatCount writes a number with its noun, in the plural unless it is one.
func FormatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
