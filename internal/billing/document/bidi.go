package document

import (
	"slices"

	"golang.org/x/text/unicode/bidi"
)

// mirrors are the pairs whose forms change sides in text from right to left.
var mirrors = map[rune]rune{
	'(': ')', ')': '(', '[': ']', ']': '[', '{': '}', '}': '{', '<': '>', '>': '<', '«': '»', '»': '«',
	'‹': '›', '›': '‹',
}

// reorder returns the glyphs of a line from left to right. It is the Unicode Bidirectional Algorithm for text without
// explicit marks, which visible removes: the implicit rules W1 to N2, I1 to I2 and L1 to L4. isRTL is the direction of
// the paragraph.
func reorder(line []glyph, isRTL bool) []glyph {
	levels, top := resolveLevels(line, isRTL)
	if top == 0 {
		return line
	}
	result := slices.Clone(line)
	for i := range result {
		if mirror, ok := mirrors[result[i].shown]; ok && levels[i]%2 == 1 {
			result[i].shown = mirror
		}
	}
	for level := top; level > 0; level-- {
		for start := 0; start < len(levels); start++ {
			if levels[start] < level {
				continue
			}
			end := start
			for end < len(levels) && levels[end] >= level {
				end++
			}
			slices.Reverse(result[start:end])
			slices.Reverse(levels[start:end])
			start = end
		}
	}
	// A reversed combining mark stands before its letter, and fonts draw it onto what precedes it.
	for i := 0; i < len(result); i++ {
		end := i
		for end < len(result) && classOf(result[end].shown) == bidi.NSM {
			end++
		}
		if end > i && end < len(result) && result[i].isReversed(result[end]) {
			slices.Reverse(result[i : end+1])
		}
		i = max(i, end)
	}
	return result
}

// isReversed reports whether a mark stood after a letter when the line was written.
func (g glyph) isReversed(letter glyph) bool { return g.index > letter.index }

func classOf(r rune) bidi.Class {
	properties, _ := bidi.LookupRune(r)
	return properties.Class()
}

// isRightToLeft reports whether the first letter of a text is of a script from right to left.
func isRightToLeft(s string) bool {
	for _, r := range s {
		switch classOf(r) {
		case bidi.L:
			return false
		case bidi.R, bidi.AL:
			return true
		}
	}
	return false
}

// resolveLevels returns the embedding level of each glyph, and the highest one.
func resolveLevels(line []glyph, isRTL bool) (levels []int, top int) {
	base, embedding := 0, bidi.L
	if isRTL {
		base, embedding = 1, bidi.R
	}
	classes := make([]bidi.Class, len(line))
	hasRTL := isRTL
	for i, g := range line {
		classes[i] = classOf(g.shown)
		hasRTL = hasRTL || classes[i] == bidi.R || classes[i] == bidi.AL || classes[i] == bidi.AN
	}
	levels = make([]int, len(line))
	if !hasRTL {
		return levels, 0
	}
	resolveWeak(classes, embedding)
	resolveNeutral(classes, embedding)
	for i, class := range classes {
		levels[i] = base
		switch {
		case base == 0 && class == bidi.R:
			levels[i] = 1
		case base == 0 && (class == bidi.AN || class == bidi.EN):
			levels[i] = 2
		case base == 1 && class != bidi.R:
			levels[i] = 2
		}
		top = max(top, levels[i])
	}
	for i := len(line) - 1; i >= 0 && classOf(line[i].shown) == bidi.WS; i-- {
		levels[i] = base
	}
	return levels, top
}

// resolveWeak applies the rules W1 to W7: numbers, their signs and separators, and combining marks.
func resolveWeak(classes []bidi.Class, embedding bidi.Class) {
	previous, strong := embedding, embedding
	for i, class := range classes { // W1, W2 and W3
		if class == bidi.NSM {
			classes[i] = previous
		}
		previous = classes[i]
		switch classes[i] {
		case bidi.L, bidi.R, bidi.AL:
			strong = classes[i]
		case bidi.EN:
			if strong == bidi.AL {
				classes[i] = bidi.AN
			}
		}
	}
	for i := range classes {
		if classes[i] == bidi.AL {
			classes[i] = bidi.R
		}
	}
	for i := 1; i+1 < len(classes); i++ { // W4
		before, after := classes[i-1], classes[i+1]
		if before == after && (classes[i] == bidi.CS && (before == bidi.EN || before == bidi.AN) ||
			classes[i] == bidi.ES && before == bidi.EN) {
			classes[i] = before
		}
	}
	for i := 0; i < len(classes); i++ { // W5 and W6
		end := i
		for end < len(classes) && classes[end] == bidi.ET {
			end++
		}
		isByNumber := i > 0 && classes[i-1] == bidi.EN || end < len(classes) && classes[end] == bidi.EN
		for ; i < end; i++ {
			if classes[i] = bidi.ON; isByNumber {
				classes[i] = bidi.EN
			}
		}
		if i < len(classes) && (classes[i] == bidi.ES || classes[i] == bidi.CS) {
			classes[i] = bidi.ON
		}
	}
	strong = embedding
	for i, class := range classes { // W7
		switch class {
		case bidi.L, bidi.R:
			strong = class
		case bidi.EN:
			if strong == bidi.L {
				classes[i] = bidi.L
			}
		}
	}
}

// resolveNeutral applies the rules N1 and N2: spaces and signs go with their neighbours where both agree.
func resolveNeutral(classes []bidi.Class, embedding bidi.Class) {
	direction := func(i int) bidi.Class {
		switch {
		case i < 0 || i >= len(classes):
			return embedding
		case classes[i] == bidi.EN || classes[i] == bidi.AN:
			return bidi.R
		}
		return classes[i]
	}
	isNeutral := func(i int) bool {
		class := direction(i)
		return class != bidi.L && class != bidi.R
	}
	for i := 0; i < len(classes); i++ {
		end := i
		for end < len(classes) && isNeutral(end) {
			end++
		}
		resolved := embedding
		if before := direction(i - 1); end > i && before == direction(end) {
			resolved = before
		}
		for ; i < end; i++ {
			classes[i] = resolved
		}
	}
}
