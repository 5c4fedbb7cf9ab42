package document

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// sample is an invoice with every kind of text that one can have.
func sample() Invoice {
	return Invoice{
		Number: "INV-2026-0042", Kind: KindInvoice, Month: "2026-01",
		Issued: time.Date(2026, 2, 3, 6, 0, 0, 0, time.UTC),
		Seller: Party{
			Name: "Coffer Payments GmbH", Address: []string{"Lange Straße 17", "60311 Frankfurt am Main", "Germany"},
			TaxID: "DE 123456789", Email: "billing@coffer.example",
		},
		Buyer: Party{
			Name:    "شركة النور للتجارة (دبي) 2026",
			Address: []string{"شارع الشيخ زايد 12", "دبي", "株式会社青空商事", "Ελλάδα, Łódź, Đà Nẵng", "Киев"},
			TaxID:   "TRN 100-234", Email: "accounts@noor.example",
		},
		Sections: []Section{
			{
				NetworkFees, "ETHEREUM", "ETH", 2, money.MustParse("1234567890123456789"), 18, "3703.703670370370367",
				"3703.70",
			},
			{NetworkFees, "SOLANA", "SOL", 1, money.MustParse("5000"), 9, "0.00075", "0.00"},
			{SwapFees, "POLYGON", "USDC", 1, money.MustParse("99125000"), 6, "99.115087500000000000", "99.12"},
		},
		Subtotal: money.MustParseUSD("3802.82"), Tax: money.MustParseUSD("722.54"),
		Total: money.MustParseUSD("4525.36"), TaxRateBps: 1900,
		TaxNote: "Reverse charge: the recipient is liable for the tax.", Language: english,
	}
}

func correction() Invoice {
	i := sample()
	i.Kind, i.Number, i.Corrects, i.Language = KindCreditNote, "CRN-2026-0007", "INV-2026-0042", "ja"
	i.Sections = i.Sections[2:]
	i.Subtotal, i.Tax = money.MustParseUSD("99.12"), money.MustParseUSD("0")
	i.Total, i.TaxRateBps, i.TaxNote = money.MustParseUSD("99.12"), 0, ""
	return i
}

func sampleLines() []Line {
	moment := time.Date(2026, 1, 31, 23, 59, 59, 999_000_000, time.UTC)
	return []Line{
		{
			"fee_1", NetworkFees, "LEDGER", "ltr_1", moment, "0xab", "ETHEREUM", "ETH", "1.5",
			"4500.000000000000000001",
			"3000.000000000000000001", "median", moment.Add(-4 * time.Minute),
		},
		{
			"fee_2", NetworkFees, "LEDGER", "ltr_2", moment, "0xcd", "ETHEREUM", "ETH", "-0.265432109876543211",
			"-796.296329629629633", "3000", "median", moment.Add(-time.Minute),
		},
		{
			"fee_3", NetworkFees, "LEDGER", "ltr_3", moment, "5Hh\"x,", "SOLANA", "=SOL", "0.000005", "0.00075", "150",
			"a\nb", moment,
		},
		{
			"fee_4", SwapFees, "SWAP", "swp_1", moment, "", "POLYGON", "USDC", "99.125", "99.1150875", "0.9999", "@x",
			time.Time{},
		},
	}
}

func each(lines []Line) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func render(t testing.TB, i Invoice, form string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch form {
	case "html":
		err = i.HTML(&b)
	case "pdf":
		err = i.PDF(&b)
	case "csv":
		err = WriteCSV(&b, i, each(sampleLines()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The files of testdata were made by another process. COFFER_UPDATE=1 writes them.
func TestEveryProcessRendersTheSameBytes(t *testing.T) {
	t.Parallel()
	sums := ""
	for _, c := range []struct {
		name    string
		invoice Invoice
		forms   []string
	}{
		{"invoice", sample(), []string{"html", "pdf", "csv"}},
		{"credit-note", correction(), []string{"html", "pdf"}},
	} {
		frozen, err := json.MarshalIndent(c.invoice, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, c.name+".json", append(frozen, '\n'))
		var thawed Invoice
		if err := json.Unmarshal(frozen, &thawed); err != nil || !reflect.DeepEqual(thawed, c.invoice) {
			t.Fatalf("%s: got %+v, %v, want the data that were frozen", c.name, thawed, err)
		}
		for _, form := range c.forms {
			got := render(t, thawed, form)
			compare(t, c.name+"."+form, got)
			sum := sha256.Sum256(got)
			sums += hex.EncodeToString(sum[:]) + "  " + c.name + "." + form + "\n"
		}
	}
	compare(t, "sums.txt", []byte(sums))
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("COFFER_UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got other bytes than the committed ones: issued documents would change", name)
	}
}

func TestEveryRenderingIsTheSame(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"html", "pdf", "csv"} {
		want := render(t, sample(), form)
		var done sync.WaitGroup
		for range 20 {
			done.Go(func() {
				if got := render(t, sample(), form); !bytes.Equal(got, want) {
					t.Errorf("%s: got other bytes than the first time", form)
				}
			})
		}
		done.Wait()
	}
}

func TestATimeZoneChangesNothing(t *testing.T) {
	t.Parallel()
	i := sample()
	i.Issued = i.Issued.In(time.FixedZone("", 14*3600))
	for _, form := range []string{"html", "pdf"} {
		if !bytes.Equal(render(t, i, form), render(t, sample(), form)) {
			t.Errorf("%s: got other bytes for the same moment in another zone", form)
		}
	}
}

func TestFiguresArePrintedAsTheyWereFrozen(t *testing.T) {
	t.Parallel()
	page, file := string(render(t, sample(), "html")), textOf(t, render(t, sample(), "pdf"))
	for _, figure := range []string{
		"1.234567890123456789 ETH", "3703.703670370370367", "3703.70", "0.000005 SOL", "0.00075", "0.00",
		"99.125 USDC", "99.115087500000000000", "99.12", "3802.82 USD", "722.54 USD", "4525.36 USD", "Tax (19%)",
		"2026-02-03", "2026-01", "INV-2026-0042",
	} {
		if !strings.Contains(page, figure) {
			t.Errorf("HTML: got no %q", figure)
		}
		if !strings.Contains(file, figure) {
			t.Errorf("PDF: got no %q", figure)
		}
	}
}

func TestTheTaxRateIsExact(t *testing.T) {
	t.Parallel()
	for bps, want := range map[int]string{0: "0", 1: "0.01", 770: "7.7", 1900: "19", 1925: "19.25", 10000: "100"} {
		if got := (Invoice{TaxRateBps: bps}).ratePercent(); got != want {
			t.Errorf("%d: got %s, want %s", bps, got, want)
		}
	}
}

func TestACreditNoteNamesWhatItCorrects(t *testing.T) {
	t.Parallel()
	i := correction()
	i.Language = english
	for form, text := range map[string]string{
		"html": string(render(t, i, "html")), "pdf": textOf(t, render(t, i, "pdf")),
	} {
		for _, want := range []string{
			"Credit note", "CRN-2026-0007", "Corrects invoice", "INV-2026-0042", "Total credited",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: got no %q", form, want)
			}
		}
	}
}

func TestDataWithoutADocumentAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Invoice){
		"kind":     func(i *Invoice) { i.Kind = "RECEIPT" },
		"number":   func(i *Invoice) { i.Number = "" },
		"time":     func(i *Invoice) { i.Issued = time.Time{} },
		"corrects": func(i *Invoice) { i.Kind = KindCreditNote },
		"rate":     func(i *Invoice) { i.TaxRateBps = -1 },
		"cents":    func(i *Invoice) { i.Total = money.MustParseUSD("0.001") },
		"decimals": func(i *Invoice) { i.Sections[0].Decimals = -1 },
	} {
		i := sample()
		change(&i)
		var b bytes.Buffer
		errs := []error{i.HTML(&b), i.PDF(&b), WriteCSV(&b, i, each(sampleLines()))}
		if slices.Contains(errs, nil) || b.Len() > 0 {
			t.Errorf("%s: got %v and %d bytes, want refusals", name, errs, b.Len())
		}
	}
}

func TestEveryLanguageHasEveryWordAndItsCharacters(t *testing.T) {
	t.Parallel()
	for language, w := range catalogue {
		value := reflect.ValueOf(w)
		for n := range value.NumField() {
			text := value.Field(n).String()
			if text == "" {
				t.Errorf("%s: got no %s", language, value.Type().Field(n).Name)
			}
			for _, g := range shape(text) {
				if value.Field(n).Kind() == reflect.String && (g.isMissing(plain) || g.isMissing(bold)) {
					t.Errorf("%s: no font has %q of %q", language, g.shown, text)
				}
			}
		}
		if !strings.Contains(w.Tax, "{rate}") || !strings.Contains(w.Page, "{page}") ||
			!strings.Contains(w.Page, "{pages}") {
			t.Errorf("%s: got %q and %q, want the places of figures", language, w.Tax, w.Page)
		}
		i := sample()
		i.Language, i.Buyer = language, i.Seller
		page := string(render(t, i, "html"))
		if !strings.Contains(page, `<html lang="`+language+`" dir="`+w.direction()+`">`) ||
			!strings.Contains(page, w.Subtotal) {
			t.Errorf("%s: got a page in another language", language)
		}
		if !bytes.Contains(render(t, i, "pdf"), []byte("/Lang ("+language+")")) {
			t.Errorf("%s: got a file in another language", language)
		}
	}
	i := sample()
	i.Language = "tlh"
	if !bytes.Equal(render(t, i, "html"), render(t, sample(), "html")) {
		t.Error("an unknown language: got another page than the English one")
	}
}

var resource = regexp.MustCompile(`(?i)(src=|href|url\(|@import|http:|https:|<link|<script|<img|<iframe|<object|<form)`)

func TestThePageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	page := string(render(t, sample(), "html"))
	if found := resource.FindAllString(page, -1); len(found) > 0 {
		t.Errorf("got %q, want a page without resources", found)
	}
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	if style != pageStyle || strings.Count(page, "<style") != 1 || strings.Contains(page, ` style="`) {
		t.Error("got a style that is not the one which the policy allows")
	}
	if !strings.Contains(PagePolicy, "default-src 'none'") || !strings.Contains(page, "Content-Security-Policy") {
		t.Errorf("got the policy %q", PagePolicy)
	}
}

// hostile are texts that try to be something else than text.
var hostile = map[string]string{
	"script":    `</title></style><script>alert(1)</script><img src=x onerror=alert(1)>`,
	"attribute": `" onmouseover="alert(1)" x='`,
	"entity":    `&lt;script&gt;&#0;`,
	"bidi":      "abc\u202eDSU 00.1\u202c \u2066x\u2069",
	"marks":     "a" + strings.Repeat("\u0301", 10_000) + "b",
	"breaks":    "first\r\nsecond\u2028third\u0085fourth\vfifth",
	"nul":       "a\x00b\x1b[31mc\x7f",
	"bytes":     "a\xff\xfe\xc0\x80b",
	"pdf":       `) Tj ET Q endstream endobj /JavaScript (x\) \ >> /AA /URI`,
	"xmp":       `<?xpacket end="w"?></rdf:li>]]>&`,
	"private":   "\ue000\U000f0000\U0001f38c\ufffe\ufeff\u200b\u00ad",
	"surrogate": string(rune(0xd800)),
	"template":  `{{ .Number }} {rate} {page} ${x}`,
	"wide":      strings.Repeat("W", 1000),
	"spaces":    strings.Repeat(" \t\u3000", 1000),
	"arabic":    strings.Repeat("سلام", 300),
	"han":       strings.Repeat("青空", 500),
}

var (
	stringsOfPages = regexp.MustCompile(`(?s)\((?:\\.|[^\\)])*\)|<[0-9A-F]+>|/[A-Za-z0-9]+`)
	operators      = regexp.MustCompile(`[A-Za-z*'"]+`)
)

func setTexts(i *Invoice, text string) {
	party := Party{Name: text, Address: []string{text, text}, TaxID: text, Email: text}
	i.Seller, i.Buyer, i.TaxNote, i.Number, i.Month, i.Corrects = party, party, text, text, text, text
	i.Sections = slices.Clone(i.Sections)
	for n := range i.Sections {
		i.Sections[n].Chain, i.Sections[n].Symbol, i.Sections[n].Kind = text, text, text
		i.Sections[n].USD, i.Sections[n].USDExact = text, text
	}
}

func TestNamesAreTextAndNeverMarkup(t *testing.T) {
	t.Parallel()
	harmless := sample()
	setTexts(&harmless, "x")
	tags := bytes.Count(render(t, harmless, "html"), []byte("<"))
	for name, text := range hostile {
		i := sample()
		setTexts(&i, text)
		page, file := render(t, i, "html"), render(t, i, "pdf")
		want := tags
		if visible(text) == "" {
			want = 0 // a page leaves out what is empty
		}
		if got := bytes.Count(page, []byte("<")); got != want && want > 0 {
			t.Errorf("%s: got %d tags, want %d", name, got, want)
		}
		for _, r := range string(page) {
			if r != '\n' && isUnprintable(r) && r != replacement {
				t.Errorf("%s: HTML: got the character %U", name, r)
				break
			}
		}
		for _, operator := range operators.FindAllString(stringsOfPages.ReplaceAllString(contentOf(t, file), ""), -1) {
			if !slices.Contains(strings.Fields("BT ET Td Tj Tf Tr q Q g rg G RG w m l S J j BDC EMC"), operator) {
				t.Errorf("%s: PDF: got the operator %s, want text and rules alone", name, operator)
			}
		}
		for _, action := range []string{"/JavaScript", "/OpenAction", "/AA", "/URI", "/Launch", "endobj /"} {
			if bytes.Contains(file, []byte(action)) {
				t.Errorf("%s: PDF: got %s", name, action)
			}
		}
		if strings.ContainsAny(textOf(t, file), "\x00\r\x1b\u202e\u2066") {
			t.Errorf("%s: PDF: got a control", name)
		}
	}
}

func TestTextOfAnyLengthStaysInItsColumn(t *testing.T) {
	t.Parallel()
	s := newSheet(sample())
	for name, text := range hostile {
		text = visible(text)
		for _, width := range []int{4600, 11000, contentWidth} {
			b := s.wrap(plain, text, width)
			written := ""
			for _, line := range b.lines {
				total := 0
				for _, g := range line {
					total += g.width(plain)
					written += g.source
				}
				if total > width {
					t.Errorf("%s: got a line of %d in a column of %d", name, total, width)
				}
			}
			want := strings.Map(func(r rune) rune {
				if hasNoWidth(r) || r == ' ' {
					return -1
				}
				return r
			}, text)
			if got := strings.ReplaceAll(written, " ", ""); got != want {
				t.Errorf("%s: got %.80q, want every character of %.80q", name, got, want)
			}
		}
	}
}

func TestACharacterWithoutAFontIsVisiblyReplaced(t *testing.T) {
	t.Parallel()
	i := sample()
	if text := textOf(t, render(t, i, "pdf")); strings.ContainsRune(text, replacement) {
		t.Error("got a replacement in a text that the fonts have")
	}
	i.Buyer.Name = "Flag 🎌 Ltd"
	file := render(t, i, "pdf")
	text := textOf(t, file)
	if !strings.Contains(text, "Flag ") || !strings.ContainsRune(text, replacement) ||
		!strings.Contains(text, "The HTML page has all characters.") {
		t.Error("got no replacement, or no note about it")
	}
	if !strings.Contains(contentOf(t, file), "/ActualText <"+hexText("🎌")+">") {
		t.Error("got a file that forgets the character")
	}
	if !strings.Contains(string(render(t, i, "html")), "Flag 🎌 Ltd") {
		t.Error("got a page without the character")
	}
}

func TestAPDFFileIsFitForAnArchive(t *testing.T) {
	t.Parallel()
	file := string(render(t, sample(), "pdf"))
	for _, want := range []string{
		"/Lang (en)", "/Metadata ", "/OutputIntents [", "/FontFile2 ", "/ToUnicode ", "/CreationDate ",
		"D:20260203060000",
		"<xmp:CreateDate>2026-02-03T06:00:00Z</xmp:CreateDate>",
		`<rdf:li xml:lang="x-default">Invoice INV-2026-0042</rdf:li>`,
	} {
		if !strings.Contains(file, want) {
			t.Errorf("got no %q", want)
		}
	}
	if strings.Contains(file, "/Type1") || strings.Contains(file, "Helvetica") {
		t.Error("got a font that is not in the file")
	}
}

func TestManySectionsContinueOnFurtherPages(t *testing.T) {
	t.Parallel()
	i := sample()
	for len(i.Sections) < 200 {
		i.Sections = append(i.Sections, i.Sections[1])
	}
	text := textOf(t, render(t, i, "pdf"))
	pages := strings.Count(text, "Exact USD")
	if pages < 5 || !strings.Contains(text, fmt.Sprintf("Page 1 of %d", pages)) ||
		strings.Count(text, "0.000005 SOL") != 198 {
		t.Errorf("got %d heads of tables and %d sections, want a head on each page and all sections", pages,
			strings.Count(text, "0.000005 SOL"))
	}
}

func TestTheTableIsStrictAndHasNoFormula(t *testing.T) {
	t.Parallel()
	text := string(render(t, sample(), "csv"))
	if strings.Count(text, "\r\n") != 5 || strings.Count(text, "\n") != 5 || !strings.HasSuffix(text, "\r\n") {
		t.Errorf("got %q, want five records that end with CRLF", text)
	}
	reader := csv.NewReader(strings.NewReader(text))
	records, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{
			"number", "month", "feeLineId", "kind", "sourceKind", "sourceId", "incurredAt", "txHash", "chain", "symbol",
			"amount", "usdExact", "price", "priceSource", "pricedAt",
		},
		{
			"INV-2026-0042", "2026-01", "fee_1", "NETWORK_FEES", "LEDGER", "ltr_1", "2026-01-31T23:59:59.999Z", "0xab",
			"ETHEREUM", "ETH", "1.5", "4500.000000000000000001", "3000.000000000000000001", "median",
			"2026-01-31T23:55:59.999Z",
		},
		{
			"INV-2026-0042", "2026-01", "fee_2", "NETWORK_FEES", "LEDGER", "ltr_2", "2026-01-31T23:59:59.999Z", "0xcd",
			"ETHEREUM", "ETH", "-0.265432109876543211", "-796.296329629629633", "3000", "median",
			"2026-01-31T23:58:59.999Z",
		},
		{
			"INV-2026-0042", "2026-01", "fee_3", "NETWORK_FEES", "LEDGER", "ltr_3", "2026-01-31T23:59:59.999Z",
			"5Hh\"x,", "SOLANA", "'=SOL", "0.000005", "0.00075", "150", "a b", "2026-01-31T23:59:59.999Z",
		},
		{
			"INV-2026-0042", "2026-01", "fee_4", "SWAP_FEES", "SWAP", "swp_1", "2026-01-31T23:59:59.999Z", "",
			"POLYGON", "USDC", "99.125", "99.1150875", "0.9999", "'@x", "",
		},
	}
	if !reflect.DeepEqual(records, want) {
		t.Errorf("got %q, want %q", records, want)
	}
	for cell, want := range map[string]string{
		"-1": "-1", "-1.5": "-1.5", "-1+1": "'-1+1", "-": "'-", "+1": "'+1", "-1\n": "'-1", "=1": "'=1",
		"\x00=1": "\ufffd=1",
		"-.5":    "'-.5", "-1e5": "'-1e5", "\t=1": "'=1",
	} {
		if got := escapeCell(cell); got != want {
			t.Errorf("%q: got %q, want %q", cell, got, want)
		}
	}
}

func TestAnIncompleteTableIsAnError(t *testing.T) {
	t.Parallel()
	lines := sampleLines()
	for name, given := range map[string][]Line{"less": lines[:3], "more": append(lines, lines[0])} {
		if err := WriteCSV(&bytes.Buffer{}, sample(), each(given)); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	broken := errors.New("connection lost")
	err := WriteCSV(&bytes.Buffer{}, sample(), func(yield func(Line, error) bool) {
		_ = yield(lines[0], nil) && yield(Line{}, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

type brokenWriter struct{}

var errBroken = errors.New("reader gone")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestAReaderThatIsGoneIsAnError(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"html": sample().HTML(brokenWriter{}), "pdf": sample().PDF(brokenWriter{}),
		"csv": WriteCSV(brokenWriter{}, sample(), each(sampleLines())),
	} {
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v, want %v", name, err, errBroken)
		}
	}
}

// manyLines is an invoice of 100,000 lines in 25 sections.
func manyLines() (Invoice, iter.Seq2[Line, error]) {
	const lineCount, sectionCount = 100_000, 25
	i := sample()
	i.Sections = nil
	for range sectionCount {
		i.Sections = append(i.Sections, Section{
			NetworkFees, "SOLANA", "SOL", lineCount / sectionCount, money.Units(20_000_000), 9, "3", "3.00",
		})
	}
	line := sampleLines()[0]
	return i, func(yield func(Line, error) bool) {
		for range lineCount {
			if !yield(line, nil) {
				return
			}
		}
	}
}

func BenchmarkRender(b *testing.B) {
	i, lines := manyLines()
	b.Run("html", func(b *testing.B) {
		for b.Loop() {
			render(b, i, "html")
		}
	})
	b.Run("pdf", func(b *testing.B) {
		for b.Loop() {
			render(b, i, "pdf")
		}
	})
	b.Run("csv", func(b *testing.B) {
		for b.Loop() {
			if err := WriteCSV(&bytes.Buffer{}, i, lines); err != nil {
				b.Fatal(err)
			}
		}
	})
}
