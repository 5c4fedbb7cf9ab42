package payerpages

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
)

// showPoster serves a page for a printer: what is sold, and the QR code of the address. It stands by itself: no script,
// no style and no font of it is loaded. Rule CO-67.
func (s *server) showPoster(r *request) error {
	view, err := s.conf.Links.Link(r.Context(), r.slug)
	if err != nil {
		return err
	}
	if view.State == LinkEnded || view.URL == "" {
		return errNoPage
	}
	picture, box, err := ui.EncodeQR(view.URL)
	if err != nil {
		return err
	}
	p := newLinkPage(r, view, nil)
	var body bytes.Buffer
	if err := posterSVG(newPoster(p, picture, box)).Render(r.Context(), &body); err != nil {
		return err
	}
	h := r.w.Header()
	h.Set("Content-Type", "image/svg+xml; charset=utf-8")
	h.Set("Content-Security-Policy", imagePolicy)
	h.Set("Content-Language", r.language.tag)
	h.Set("Vary", "Accept-Language")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(body.Bytes()) // The browser is gone.
	}
	return nil
}

// poster is a sheet of A4. Its lengths are tenths of a millimeter.
type poster struct {
	Language     *translation
	Lines        []posterLine
	Picture, Box string
	QRTitle      string
}

// posterLine is one line of text in the middle of the sheet.
type posterLine struct {
	Text                             string
	Y, Size                          int
	Weight, Color, Direction, Family string
}

// The lengths of a poster, and the widths of letters in hundredths of their size.
const (
	posterWidth      = 1700 // between the margins
	posterShopY      = 300
	posterShopSize   = 90
	posterNameY      = 520
	posterNameSize   = 150
	posterLineHeight = 180
	posterNameLines  = 3
	posterPriceSize  = 110
	posterScanY      = 2620
	posterScanSize   = 100
	posterURLY       = 2770
	posterURLSize    = 70

	letterWidth     = 56
	monospacedWidth = 61

	posterFamily     = "system-ui, sans-serif"
	posterURLFamily  = "ui-monospace, monospace"
	posterColor      = "#12161d"
	posterQuietColor = "#4b5360"
)

func newPoster(p *linkPage, picture, box string) poster {
	sheet := poster{
		Language: p.language, Picture: picture, Box: box, QRTitle: p.text("link.qr", "url", p.URL),
	}
	line := func(text string, y, size int) posterLine {
		return posterLine{
			Text: text, Y: y, Size: size, Weight: "400", Color: posterColor, Direction: p.language.direction,
			Family: posterFamily,
		}
	}
	shop := line(wrapText(p.Shop, lettersIn(posterShopSize), 1)[0], posterShopY, posterShopSize)
	shop.Color = posterQuietColor
	sheet.Lines = append(sheet.Lines, shop)
	y := posterNameY
	for _, text := range wrapText(p.title(), lettersIn(posterNameSize), posterNameLines) {
		name := line(text, y, posterNameSize)
		name.Weight = "700"
		sheet.Lines, y = append(sheet.Lines, name), y+posterLineHeight
	}
	if len(p.Goods) == 1 {
		text := strings.ReplaceAll(p.priceText(p.Goods[0].LinkItem), "\u00a0", " ")
		sheet.Lines = append(sheet.Lines, line(wrapText(text, lettersIn(posterPriceSize), 1)[0], y, posterPriceSize))
	}
	scan := line(p.text("link.scan"), posterScanY, posterScanSize)
	scan.Weight = "700"
	// An address is one line, whatever its length.
	size := min(posterURLSize, posterWidth*100/(monospacedWidth*max(1, len(p.URL))))
	address := line(p.URL, posterURLY, size)
	address.Family, address.Direction = posterURLFamily, "ltr"
	sheet.Lines = append(sheet.Lines, scan, address)
	return sheet
}

// lettersIn returns how many letters of a size fit into a line.
func lettersIn(size int) int { return posterWidth * 100 / (size * letterWidth) }

// Between these are the letters of East Asian scripts, which are as wide as two.
const wideFirst, wideLast = '\u2e80', '\uffe6'

// wrapText breaks a text into lines of so many letters at most, a wide one counting for two. What is too long ends
// with an ellipsis. There is at least one line.
func wrapText(text string, lettersMax, linesMax int) []string {
	lines, line, width := []string{}, []rune{}, 0
	end := func() {
		lines, line, width = append(lines, strings.TrimSpace(string(line))), nil, 0
	}
	for _, r := range text {
		letters := 1
		switch {
		case r >= wideFirst && r <= wideLast:
			letters = 2
		case unicode.In(r, unicode.Mn, unicode.Me):
			letters = 0
		}
		if width+letters > lettersMax {
			// A word that fits into the next line goes there as a whole.
			rest := []rune{}
			if i := lastSpace(line); i > 0 && r != ' ' {
				rest, line = slices.Clone(line[i+1:]), line[:i]
			}
			end()
			line = rest
			width = len(rest)
		}
		line, width = append(line, r), width+letters
	}
	if len(line) > 0 || len(lines) == 0 {
		end()
	}
	if len(lines) > linesMax {
		lines = lines[:linesMax]
		lines[linesMax-1] += "…"
	}
	return lines
}

func lastSpace(line []rune) int {
	for i := len(line) - 1; i >= 0; i-- {
		if line[i] == ' ' {
			return i
		}
	}
	return -1
}
