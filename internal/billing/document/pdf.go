package document

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/go-pdf/fpdf"
)

// The layout, in hundredths of a point. Whole numbers keep it the same on every processor.
const (
	pageWidth    = 59528 // A4
	pageHeight   = 84189
	margin       = 5400
	top          = 5600
	bottom       = 7000 // below which only the foot of a page stands
	contentWidth = pageWidth - 2*margin
	bodyTop      = top + 1400 // where later pages begin
)

// The sizes of letters, in hundredths of a point.
const (
	sizeTitle = 2400
	sizeName  = 1150
	sizeTotal = 1250
	sizeText  = 950
	sizeExact = 850
	sizeSmall = 800
)

// colorProfile says what the colors of a file are, as archives ask for.
//
//go:embed color/srgb2014.icc
var colorProfile []byte

// gray is the brightness of ink, from 0 to 255.
type gray int

const (
	black  gray = 17
	dim    gray = 90
	strong gray = 60
	pale   gray = 215
)

// style is how a text looks.
type style struct {
	size   int
	isBold bool
	color  gray
}

var (
	plain   = style{sizeText, false, black}
	bold    = style{sizeText, true, black}
	quiet   = style{sizeText, false, dim}
	small   = style{sizeSmall, false, dim}
	exact   = style{sizeExact, false, dim}
	heading = style{sizeTitle, true, black}
	name    = style{sizeName, true, black}
	figure  = style{sizeTotal, true, black}
)

// leading is the height of a line.
func (s style) leading() int { return s.size * 145 / 100 }

// block is text of one style in a column.
type block struct {
	style style
	lines [][]glyph
	isRTL bool // the direction of the text
}

// column is what a cell of a row shows. Its x counts from the side where lines begin.
type column struct {
	x, width int
	isEnd    bool // whether its lines end at the same place
	blocks   []block
}

// sheet draws the pages of a document.
type sheet struct {
	file       *fpdf.Fpdf
	words      words
	y          int // from the top
	isTable    bool
	head       func() // repeats the head of a table on a new page
	added      map[string]bool
	current    string
	hasMissing bool
}

// PDF writes the document as a PDF file with its own fonts. It has the sections and not the lines, which are in the
// table. A character that no font has is drawn as a replacement, with a note, and stays in the file as text.
func (i Invoice) PDF(w io.Writer) error {
	if err := i.check(); err != nil {
		return err
	}
	s := newSheet(i)
	s.drawTop(i)
	s.drawSections(i)
	s.drawSums(i)
	s.drawNotes(i)
	s.drawFeet(i)
	var text bytes.Buffer
	if err := s.file.Output(&text); err != nil {
		return fmt.Errorf("render document %s as PDF: %w", i.Number, err)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write document %s as PDF: %w", i.Number, err)
	}
	return nil
}

// newSheet begins a file. Its times are that of the document, and its parts are in a fixed order.
func newSheet(i Invoice) *sheet {
	file := fpdf.New("P", "pt", "A4", "")
	file.SetCatalogSort(true)
	file.SetCreationDate(i.Issued.UTC())
	file.SetModificationDate(i.Issued.UTC())
	file.SetProducer("Coffer", true)
	file.SetTitle(i.title(), true)
	file.SetAuthor(visible(i.Seller.Name), true)
	file.SetLang(i.language())
	file.SetXmpMetadata(i.metadata())
	file.AddOutputIntent(fpdf.OutputIntentType{
		SubtypeIdent: fpdf.OutputIntent_GTS_PDFA1, OutputConditionIdentifier: "sRGB", ICCProfile: colorProfile,
	})
	file.SetMargins(0, 0, 0)
	file.SetAutoPageBreak(false, 0)
	file.AddPage()
	return &sheet{file: file, words: findWords(i.Language), y: top, added: map[string]bool{}}
}

// metadata describes the file in XMP, from which archives read it. It is not compressed, so that a text in it must
// not look like the end of an object to a program that repairs broken files.
func (i Invoice) metadata() []byte {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "/", "&#47;", "end", "en&#100;").Replace
	issued := i.Issued.UTC().Format("2006-01-02T15:04:05Z")
	return []byte(`<?xpacket begin="` + "\ufeff" + `" id="W5M0MpCehiHzreSzNTczkc9d"?>` +
		`<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">` +
		`<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"` +
		` xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:pdf="http://ns.adobe.com/pdf/1.3/">` +
		`<dc:format>application/pdf</dc:format>` +
		`<dc:title><rdf:Alt><rdf:li xml:lang="x-default">` + escape(i.title()) + `</rdf:li></rdf:Alt></dc:title>` +
		`<dc:creator><rdf:Seq><rdf:li>` + escape(visible(i.Seller.Name)) + `</rdf:li></rdf:Seq></dc:creator>` +
		`<dc:language><rdf:Bag><rdf:li>` + i.language() + `</rdf:li></rdf:Bag></dc:language>` +
		`<pdf:Producer>Coffer</pdf:Producer>` +
		`<xmp:CreateDate>` + issued + `</xmp:CreateDate><xmp:ModifyDate>` + issued + `</xmp:ModifyDate>` +
		`</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="r"?>`)
}

func (s *sheet) drawTop(i Invoice) {
	w := s.words
	s.drawRow(column{width: contentWidth, blocks: []block{s.wrap(heading, i.heading(w), contentWidth)}})
	s.y += 1000
	facts := i.facts(w)
	const gap = 1600
	width := (contentWidth - gap*3) / 4
	row := make([]column, len(facts))
	for n, f := range facts {
		row[n] = column{x: n * (width + gap), width: width, blocks: []block{
			s.wrap(small, f.Label, width), s.wrap(bold, f.Value, width),
		}}
	}
	s.drawRow(row...)
	s.y += 2400
	half := (contentWidth - 2*gap) / 2
	s.drawRow(
		column{width: half, blocks: s.party(w.Seller, i.Seller, half)},
		column{x: half + 2*gap, width: half, blocks: s.party(w.Buyer, i.Buyer, half)},
	)
	s.y += 3000
}

func (s *sheet) party(label string, p Party, width int) []block {
	blocks := []block{s.wrap(small, label, width), s.wrap(name, visible(p.Name), width)}
	for _, line := range p.Address {
		blocks = append(blocks, s.wrap(plain, visible(line), width))
	}
	if taxID := visible(p.TaxID); taxID != "" {
		blocks = append(blocks, s.wrap(quiet, s.words.TaxID+" "+taxID, width))
	}
	if email := visible(p.Email); email != "" {
		blocks = append(blocks, s.wrap(quiet, email, width))
	}
	return blocks
}

// tableColumns are the columns of the table of sections.
var tableColumns = []column{
	{x: 0, width: 11000},
	{x: 11400, width: 4600, isEnd: true},
	{x: 16600, width: 13000, isEnd: true},
	{x: 30400, width: 11400, isEnd: true},
	{x: 42600, width: contentWidth - 42600, isEnd: true},
}

func (s *sheet) drawSections(i Invoice) {
	w := s.words
	s.head = func() {
		row := make([]column, len(tableColumns))
		for n, text := range w.tableHeads() {
			row[n] = tableColumns[n]
			row[n].blocks = []block{s.wrap(small, text, row[n].width)}
		}
		s.drawRow(row...)
		s.y += 300
		s.drawRule(0, strong, 80)
		s.y += 700
	}
	s.ensure(6000)
	s.head()
	s.isTable = true
	for _, section := range i.Sections {
		row := make([]column, len(tableColumns))
		copy(row, tableColumns)
		text := func(n int, look style, value string) block { return s.wrap(look, value, row[n].width) }
		row[0].blocks = []block{text(0, bold, section.kindText(w))}
		if chain := visible(section.Chain); chain != "" {
			row[0].blocks = append(row[0].blocks, text(0, small, chain))
		}
		row[1].blocks = []block{text(1, plain, strconv.Itoa(section.Lines))}
		row[2].blocks = []block{text(2, plain, section.amount())}
		row[3].blocks = []block{text(3, exact, visible(section.USDExact))}
		row[4].blocks = []block{text(4, plain, visible(section.USD))}
		s.drawRow(row...)
		s.y += 500
		s.drawRule(0, pale, 50)
		s.y += 700
	}
	s.isTable = false
	s.y += 900
}

func (s *sheet) drawSums(i Invoice) {
	w := s.words
	const left = 24000
	label, value := column{x: left, width: 14000}, column{x: left, width: contentWidth - left, isEnd: true}
	value.x, value.width = left+14400, contentWidth-left-14400
	draw := func(look style, text, cents string) {
		label.blocks = []block{s.wrap(look, text, label.width)}
		value.blocks = []block{s.wrap(look, cents+" USD", value.width)}
		s.drawRow(label, value)
	}
	s.ensure(8000)
	draw(plain, w.Subtotal, i.Subtotal.Cents())
	s.y += 300
	draw(plain, i.taxLabel(w), i.Tax.Cents())
	s.y += 600
	s.drawRule(left, strong, 80)
	s.y += 700
	draw(figure, i.totalLabel(w), i.Total.Cents())
	s.y += 2600
}

func (s *sheet) drawNotes(i Invoice) {
	for n, note := range i.notes(s.words) {
		look := small
		if n == 0 && visible(i.TaxNote) != "" {
			look = plain
		}
		s.drawRow(column{width: contentWidth, blocks: []block{s.wrap(look, note, contentWidth)}})
		s.y += 250
	}
	if s.hasMissing {
		s.drawRow(column{width: contentWidth, blocks: []block{s.wrap(small, s.words.Missing, contentWidth)}})
	}
}

// drawFeet draws the foot of every page, now that their number is known.
func (s *sheet) drawFeet(i Invoice) {
	pages := s.file.PageCount()
	for page := 1; page <= pages; page++ {
		s.file.SetPage(page)
		s.current = ""
		s.y = pageHeight - 4600
		s.drawRule(0, pale, 50)
		s.y += 500
		count := strings.NewReplacer("{page}", strconv.Itoa(page), "{pages}", strconv.Itoa(pages)).
			Replace(s.words.Page)
		foot := s.wrap(small, i.title()+" · "+visible(i.Seller.Name), contentWidth-13000)
		if len(foot.lines) > 1 {
			rest := glyph{shown: '…', source: "…", index: len(foot.lines[0])}
			foot.lines[0] = append(slices.Clone(foot.lines[0]), rest)
		}
		y := s.y
		s.drawLine(column{width: contentWidth - 12000}, foot, foot.lines[0])
		s.y = y
		number := s.wrap(small, count, 11000)
		s.drawLine(column{x: contentWidth - 11000, width: 11000, isEnd: true}, number, number.lines[0])
	}
}

// ensure begins a page if less than height is left of this one.
func (s *sheet) ensure(height int) {
	if s.y+height > pageHeight-bottom {
		s.addPage()
	}
}

func (s *sheet) addPage() {
	s.file.AddPage()
	s.y, s.current = top, ""
	if s.isTable {
		s.isTable = false
		s.head()
		s.isTable = true
	}
}

// drawRow draws columns beside each other. A row stays on one page if a page has room for it; otherwise it goes on
// on the next one, line by line.
func (s *sheet) drawRow(row ...column) {
	height := 0
	for _, c := range row {
		height = max(height, c.height())
	}
	if height <= pageHeight-bottom-bodyTop {
		s.ensure(height)
	}
	start := s.y
	drawn := make([]int, len(row)) // how many lines of each column are drawn
	for {
		// The column that has come least far draws its next line, so that all go to a new page together.
		chosen, y := -1, 0
		for n, c := range row {
			if line := c.line(drawn[n]); line != nil && (chosen < 0 || start+c.offset(drawn[n]) < y) {
				chosen, y = n, start+c.offset(drawn[n])
			}
		}
		if chosen < 0 {
			break
		}
		c := row[chosen]
		b := c.line(drawn[chosen])
		if y+b.style.leading() > pageHeight-bottom {
			s.addPage()
			start = s.y - c.offset(drawn[chosen])
			y = s.y
		}
		s.y = y
		s.drawLine(c, *b, b.lines[0])
		drawn[chosen]++
	}
	s.y = start + height
}

// height is that of all lines of a column.
func (c column) height() int {
	total := 0
	for _, b := range c.blocks {
		total += len(b.lines) * b.style.leading()
	}
	return total
}

// line returns a line of a column as a block of its own, or nil behind the last one.
func (c column) line(n int) *block {
	for _, b := range c.blocks {
		if n < len(b.lines) {
			return &block{style: b.style, isRTL: b.isRTL, lines: b.lines[n : n+1]}
		}
		n -= len(b.lines)
	}
	return nil
}

// offset is how far below the first line of a column a line begins.
func (c column) offset(n int) int {
	total := 0
	for _, b := range c.blocks {
		lines := min(n, len(b.lines))
		total += lines * b.style.leading()
		n -= lines
	}
	return total
}

// drawRule draws a line across the page, from a column on.
func (s *sheet) drawRule(x int, color gray, width int) {
	s.file.SetDrawColor(int(color), int(color), int(color))
	s.file.SetLineWidth(points(width))
	left, right := margin+x, pageWidth-margin
	if s.words.IsRTL {
		left, right = margin, pageWidth-margin-x
	}
	s.file.Line(points(left), points(s.y), points(right), points(s.y))
}

func points(hundredths int) float64 { return float64(hundredths) / 100 }
