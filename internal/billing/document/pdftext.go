package document

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// width is that of a glyph in hundredths of a point. drawn returns the character and the face that draw it.
func (g glyph) width(look style) int {
	r, f := g.drawn(look)
	return f.widths[r] * look.size / widthUnits
}

func (g glyph) drawn(look style) (rune, *face) {
	if f := findFace(g.shown, look.isBold); f != nil {
		return g.shown, f
	}
	return replacement, findFace(replacement, look.isBold)
}

// isMissing reports whether no font has a character. Its replacement says in the file what was written, for
// searching, copying and reading aloud. Forms of Arabic need no such text: readers of PDF files know the letters.
func (g glyph) isMissing(look style) bool { return findFace(g.shown, look.isBold) == nil }

// wrap breaks a text into lines of at most width. It breaks at spaces, between ideographs, and in the middle of a
// word that is longer than a line.
func (s *sheet) wrap(look style, text string, width int) block {
	b := block{style: look, isRTL: isRightToLeft(text)}
	glyphs := shape(text)
	start, used, breakAt := 0, 0, -1
	for n := 0; n < len(glyphs); n++ {
		g := glyphs[n]
		advance := g.width(look)
		if used+advance > width && n > start && g.shown != ' ' {
			end := n
			if breakAt > start {
				end = breakAt
			}
			b.lines = append(b.lines, trimSpaces(glyphs[start:end]))
			start, used, breakAt = end, 0, -1
			for start < n && glyphs[start].shown == ' ' {
				start++
			}
			for _, moved := range glyphs[start:n] {
				used += moved.width(look)
			}
		}
		used += advance
		if g.shown == ' ' || isIdeograph(g.shown) {
			breakAt = n + 1
		}
	}
	b.lines = append(b.lines, trimSpaces(glyphs[start:]))
	return b
}

func trimSpaces(line []glyph) []glyph {
	for len(line) > 0 && line[len(line)-1].shown == ' ' {
		line = line[:len(line)-1]
	}
	return line
}

// isIdeograph reports whether a line may end behind a character without a space.
func isIdeograph(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r < 0x3040 ||
		r >= 0xff00 && r < 0xff60
}

// drawLine draws one line of a block into a column and moves below it.
func (s *sheet) drawLine(c column, b block, line []glyph) {
	total := 0
	for _, g := range line {
		total += g.width(b.style)
	}
	x := margin + c.x
	if c.isEnd {
		x += c.width - total
	}
	if s.words.IsRTL {
		x = pageWidth - margin - c.x - c.width
		if !c.isEnd {
			x += c.width - total
		}
	}
	baseline := s.y + b.style.size*110/100
	s.y += b.style.leading()
	drawn := reorder(line, b.isRTL)
	s.file.SetTextColor(int(b.style.color), int(b.style.color), int(b.style.color))
	for start := 0; start < len(drawn); {
		_, f := drawn[start].drawn(b.style)
		isMissing := drawn[start].isMissing(b.style)
		var run strings.Builder
		end, advance := start, 0
		for ; end < len(drawn); end++ {
			r, runFace := drawn[end].drawn(b.style)
			if runFace != f || isMissing != drawn[end].isMissing(b.style) || isMissing && end > start {
				break
			}
			run.WriteRune(r)
			advance += drawn[end].width(b.style)
		}
		if isMissing {
			s.hasMissing = true
			s.file.RawWriteStr("/Span <</ActualText <" + hexText(drawn[start].source) + ">>> BDC\n")
		}
		s.drawRun(f, b.style, x, baseline, run.String())
		if isMissing {
			s.file.RawWriteStr("EMC\n")
		}
		x += advance
		start = end
	}
}

// drawRun draws text of one face.
func (s *sheet) drawRun(f *face, look style, x, baseline int, text string) {
	weight := ""
	if f.isBold {
		weight = "B"
	}
	if key := f.family + weight; !s.added[key] {
		s.file.AddUTF8FontFromBytes(f.family, weight, f.copyFile())
		s.added[key] = true
	}
	if key := fmt.Sprint(f.family, weight, look.size); key != s.current {
		s.file.SetFont(f.family, weight, points(look.size))
		s.current = key
	}
	isStroked := look.isBold && !f.isBold
	if isStroked {
		s.file.SetDrawColor(int(look.color), int(look.color), int(look.color))
		s.file.SetLineWidth(points(look.size / 40))
		s.file.SetTextRenderingMode(2)
	}
	s.file.Text(points(x), points(baseline), text)
	if isStroked {
		s.file.SetTextRenderingMode(0)
	}
}

// hexText writes a text as PDF has it in a hexadecimal string: UTF-16 with its mark.
func hexText(s string) string {
	var b strings.Builder
	b.WriteString("FEFF")
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, "%04X", unit)
	}
	return b.String()
}
