package document

// glyph is one character as it is drawn.
type glyph struct {
	shown  rune
	source string // what was written, of which shown is a form
	index  int    // its place in the text
}

// forms are the forms of an Arabic letter: alone, at the end, at the beginning and in the middle of a word. A letter
// that does not join the next one has only the first two.
type forms [4]rune

const (
	alone = iota
	final
	initial
	medial
)

// joining has the letters of Arabic, Persian and Urdu with the code points of their forms, which fonts have without
// tables of layout.
var joining = makeJoining()

func makeJoining() map[rune]forms {
	letters := map[rune]forms{}
	// In the block of forms, each letter has two or four of them, in a row.
	first := rune(0xfe80)
	for _, entry := range []struct {
		letter rune
		count  rune
	}{
		{0x621, 1},
		{0x622, 2},
		{0x623, 2},
		{0x624, 2},
		{0x625, 2},
		{0x626, 4},
		{0x627, 2},
		{0x628, 4},
		{0x629, 2},
		{0x62a, 4},
		{0x62b, 4},
		{0x62c, 4},
		{0x62d, 4},
		{0x62e, 4},
		{0x62f, 2},
		{0x630, 2},
		{0x631, 2},
		{0x632, 2},
		{0x633, 4},
		{0x634, 4},
		{0x635, 4},
		{0x636, 4},
		{0x637, 4},
		{0x638, 4},
		{0x639, 4},
		{0x63a, 4},
		{0x641, 4},
		{0x642, 4},
		{0x643, 4},
		{0x644, 4},
		{0x645, 4},
		{0x646, 4},
		{0x647, 4},
		{0x648, 2},
		{0x649, 2},
		{0x64a, 4},
	} {
		letters[entry.letter] = sequence(first, entry.count)
		first += entry.count
	}
	for letter, first := range map[rune]rune{
		0x67e: 0xfb56, 0x67a: 0xfb5e, 0x679: 0xfb66, 0x6a4: 0xfb6a, 0x686: 0xfb7a, 0x6a9: 0xfb8e, 0x6af: 0xfb92,
		0x6be: 0xfbaa, 0x6c1: 0xfba6, 0x6cc: 0xfbfc,
	} {
		letters[letter] = sequence(first, 4)
	}
	for letter, first := range map[rune]rune{
		0x688: 0xfb88, 0x691: 0xfb8c, 0x698: 0xfb8a, 0x6ba: 0xfb9e, 0x6c0: 0xfba4, 0x6d2: 0xfbae, 0x6d3: 0xfbb0,
	} {
		letters[letter] = sequence(first, 2)
	}
	letters[0x640] = forms{0x640, 0x640, 0x640, 0x640} // tatweel
	return letters
}

func sequence(first, count rune) (f forms) {
	for i := range min(count, 4) {
		f[i] = first + i
	}
	return f
}

const lam = 0x644

// lamAlef has the two forms of lam with the alef that follows it, alone and at the end of a word.
var lamAlef = map[rune][2]rune{
	0x622: {0xfef5, 0xfef6}, 0x623: {0xfef7, 0xfef8}, 0x625: {0xfef9, 0xfefa}, 0x627: {0xfefb, 0xfefc},
}

// shape returns the glyphs of a text in the order in which it is written. Arabic letters get the forms that join
// them; a mark between two letters does not part them, and a zero-width non-joiner does.
func shape(s string) []glyph {
	letters := []rune(s)
	glyphs := make([]glyph, 0, len(letters))
	joinsBefore := false // whether the letter before joins this one
	for i := 0; i < len(letters); i++ {
		r := letters[i]
		f, isJoining := joining[r]
		switch {
		case isJoining:
		case r == '\u200d': // a joiner is a letter without a form
			joinsBefore = true
			continue
		case classOf(r) == classOf('\u0301') || r == '\u200e' || r == '\u200f':
			if !hasNoWidth(r) {
				glyphs = append(glyphs, glyph{shown: r, source: string(r), index: i})
			}
			continue
		default:
			joinsBefore = false
			if !hasNoWidth(r) {
				glyphs = append(glyphs, glyph{shown: r, source: string(r), index: i})
			}
			continue
		}
		following, index := nextLetter(letters, i)
		_, joinsAfter := joining[following]
		joinsAfter = (joinsAfter && following != 0x621 || following == '\u200d') && f[initial] != 0
		if pair, ok := lamAlef[following]; ok && r == lam && index == i+1 {
			shown := pair[0]
			if joinsBefore {
				shown = pair[1]
			}
			glyphs = append(glyphs, glyph{shown: shown, source: string(letters[i : i+2]), index: i})
			joinsBefore = false
			i++
			continue
		}
		form := alone
		switch {
		case joinsBefore && joinsAfter && f[medial] != 0:
			form = medial
		case joinsBefore && f[final] != 0:
			form = final
		case joinsAfter:
			form = initial
		}
		glyphs = append(glyphs, glyph{shown: f[form], source: string(r), index: i})
		joinsBefore = joinsAfter
	}
	return glyphs
}

// nextLetter returns the letter after letters[i] that is no mark, and its index.
func nextLetter(letters []rune, i int) (letter rune, index int) {
	for index = i + 1; index < len(letters); index++ {
		if classOf(letters[index]) != classOf('\u0301') {
			return letters[index], index
		}
	}
	return 0, index
}
