package document

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"sync"
	"unicode"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// fontFiles has the fonts. fonts/subset.py says where they come from.
//
//go:embed fonts/*.ttf.gz
var fontFiles embed.FS

// widthUnits is the number of units of a width in an em. It is that of widths in a PDF file.
const widthUnits = 1000

// The families, as a PDF file names them.
const (
	sansFamily   = "notosans"
	arabicFamily = "notosansarabic"
	cjkFamily    = "droidsansfallback"
)

// face is a font with the widths of its characters.
type face struct {
	family string
	isBold bool
	file   []byte // a whole TrueType file, which stays as it is
	widths map[rune]int
}

// loadFace reads a font of this package, which is there and well-formed.
func loadFace(name, family string, isBold bool) func() *face {
	return sync.OnceValue(func() *face {
		f, err := readFace("fonts/"+name+".ttf.gz", family, isBold)
		if err != nil {
			panic(fmt.Sprintf("document: read the font %s: %v", name, err))
		}
		return f
	})
}

var (
	sansFaces = [2]func() *face{
		loadFace("noto-sans-regular", sansFamily, false), loadFace("noto-sans-bold", sansFamily, true),
	}
	arabicFaces = [2]func() *face{
		loadFace("noto-sans-arabic-regular", arabicFamily, false),
		loadFace("noto-sans-arabic-bold", arabicFamily, true),
	}
	// Droid Sans Fallback has one weight. A stroke makes its bold.
	cjkFaces = [2]func() *face{
		loadFace("droid-sans-fallback", cjkFamily, false), loadFace("droid-sans-fallback", cjkFamily, false),
	}
)

func readFace(name, family string, isBold bool) (*face, error) {
	packed, err := fontFiles.Open(name)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	unpacker, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	f := &face{family: family, isBold: isBold, widths: map[rune]int{}}
	if f.file, err = io.ReadAll(unpacker); err != nil {
		return nil, err
	}
	parsed, err := sfnt.Parse(f.file)
	if err != nil {
		return nil, err
	}
	var buffer sfnt.Buffer
	for r := rune(' '); r <= 0xfffd; r++ {
		index, err := parsed.GlyphIndex(&buffer, r)
		if err != nil {
			return nil, err
		}
		if index == 0 {
			continue
		}
		advance, err := parsed.GlyphAdvance(&buffer, index, fixed.I(widthUnits), font.HintingNone)
		if err != nil {
			return nil, err
		}
		f.widths[r] = advance.Round()
	}
	return f, nil
}

// copyFile returns a copy of the font for a PDF file. The library writes into what it is given.
func (f *face) copyFile() []byte { return bytes.Clone(f.file) }

func (f *face) hasGlyph(r rune) bool {
	_, ok := f.widths[r]
	return ok
}

// findFace returns the face that draws a character, or nil.
func findFace(r rune, isBold bool) *face {
	weight := 0
	if isBold {
		weight = 1
	}
	if f := sansFaces[weight](); f.hasGlyph(r) {
		return f
	}
	if r < 0x600 || r > 0xffff {
		return nil // before the first character of the other faces, and behind the last
	}
	if isArabic(r) {
		if f := arabicFaces[weight](); f.hasGlyph(r) {
			return f
		}
		return nil
	}
	if r < 0x1100 {
		return nil
	}
	if f := cjkFaces[weight](); f.hasGlyph(r) {
		return f
	}
	return nil
}

func isArabic(r rune) bool {
	return r >= 0x600 && r <= 0x77f || r >= 0xfb50 && r <= 0xfdff || r >= 0xfe70 && r <= 0xfefc ||
		unicode.Is(unicode.Arabic, r)
}
