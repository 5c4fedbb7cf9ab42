package document

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// replacement stands for a character that is not printed.
	replacement = '\ufffd'
	// marksMax is how many combining marks may follow each other. Scripts need few; more of them draw over the
	// lines above.
	marksMax = 8
)

// visible returns a text as one line in which every character stands where it was written. Breaks and tabs become
// spaces. Controls, what reorders text, and bytes that are no UTF-8 become replacement characters, and so do the
// combining marks of a letter after the first ones.
func visible(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	marks, isSpace := 0, true
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		if unicode.IsSpace(r) {
			if !isSpace {
				b.WriteByte(' ')
			}
			marks, isSpace = 0, true
			continue
		}
		if unicode.In(r, unicode.Mn, unicode.Me) {
			if marks++; marks > marksMax+1 {
				continue
			}
			if marks > marksMax {
				r = replacement
			}
		} else {
			marks = 0
		}
		if isUnprintable(r) {
			r = replacement
		}
		b.WriteRune(r)
		isSpace = false
	}
	return norm.NFC.String(strings.TrimSuffix(b.String(), " "))
}

// isPlain reports whether a text has printable ASCII without spaces, as ids and figures do, and stays as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// isUnprintable reports whether a character has no form of its own and may change that of others. The joiners and
// the weak direction marks stay: names in Arabic and Persian have them, and they reorder no other text.
func isUnprintable(r rune) bool {
	switch {
	case r >= '\u200c' && r <= '\u200f', r == '\u061c':
		return false
	case unicode.In(r, unicode.Cc, unicode.Cs, unicode.Co, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
		return true
	case unicode.Is(unicode.Cf, r):
		return !unicode.In(r, unicode.Prepended_Concatenation_Mark)
	}
	return r == utf8.RuneError || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
}

// hasNoWidth reports whether a character only steers how its neighbours are drawn, so that a page skips it after
// shaping.
func hasNoWidth(r rune) bool {
	return r >= '\u200c' && r <= '\u200f' || r == '\u061c' || r == '\u034f' ||
		unicode.In(r, unicode.Variation_Selector)
}
