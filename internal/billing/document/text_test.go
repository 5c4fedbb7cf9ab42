package document

import (
	"bytes"
	"compress/zlib"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	marks := strings.Repeat("\u0323", 8)
	for text, want := range map[string]string{
		"": "", "a": "a", " a  b\t\n": "a b", "a\x00b": "a\ufffdb", "a\u202eb": "a\ufffdb", "a\u2067b": "a\ufffdb",
		"a\xffb": "a\ufffdb", "e\u0301": "é", "می\u200cخواهم": "می\u200cخواهم", "a\u200eb": "a\u200eb",
		"x" + marks: "x" + marks, "x" + marks + "\u0323\u0323\u0323y": "x" + marks + "\ufffdy",
		"a\u00adb": "a\ufffdb", "a\ufeffb": "a\ufffdb", "\ufdd0": "\ufffd", "\U0001fffe": "\ufffd", "🎌": "🎌",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, text := range hostile {
		f.Add(text[:min(len(text), 200)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := visible(text)
		if !utf8.ValidString(got) ||
			strings.ContainsAny(got, "\x00\n\r\t\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068") {
			t.Errorf("%q became %q", text, got)
		}
		if again := visible(got); again != got {
			t.Errorf("%q became %q, and then %q", text, got, again)
		}
		i := sample()
		setTexts(&i, text)
		if i.Number == "" {
			return
		}
		render(t, i, "html")
		render(t, i, "pdf")
	})
}

func draw(text string, isRTL bool) string {
	var b strings.Builder
	for _, g := range reorder(shape(text), isRTL) {
		b.WriteRune(g.shown)
	}
	return b.String()
}

// The letters of Hebrew have one form each, so that the order can be seen.
func TestTextIsDrawnInTheOrderOfItsDirection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		isRTL bool
		want  string
	}{
		{"abc 123", false, "abc 123"},
		{"אבג", false, "גבא"},
		{"אבג", true, "גבא"},
		{"car אבג 12 next", false, "car 12 גבא next"},
		{"אבג abc דה", true, "הד abc גבא"},
		{"אבג 12,345.60 דה", true, "הד 12,345.60 גבא"},
		{"אבג (דה)", true, "(הד) גבא"},
		{"(אבג)", false, "(גבא)"},
		{"אבג 100%", true, "100% גבא"},
		{"abc אבג", true, "גבא abc"},
		{"אבג, דה!", true, "!הד ,גבא"},
		{"אָב", true, "באָ"},
		{"INV-2026-01", true, "INV-2026-01"},
		{"2026-02-03", true, "2026-02-03"},
		{"4695.32 USD", false, "4695.32 USD"},
	} {
		if got := draw(c.text, c.isRTL); got != c.want {
			t.Errorf("%q, from right to left %v: got %q, want %q", c.text, c.isRTL, got, c.want)
		}
	}
}

func TestArabicLettersJoin(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"سلام":     "\ufeb3\ufefc\ufee1", // lam and alef are one glyph
		"لا":       "\ufefb",
		"ب":        "\ufe8f",
		"بب":       "\ufe91\ufe90",
		"ببب":      "\ufe91\ufe92\ufe90",
		"دب":       "\ufea9\ufe8f",
		"ءب":       "\ufe80\ufe8f",
		"بء":       "\ufe8f\ufe80",
		"بَب":      "\ufe91\u064e\ufe90",
		"ب ب":      "\ufe8f \ufe8f",
		"ب\u200cب": "\ufe8f\ufe8f",
		"ب\u200d":  "\ufe91",
		"پچگی":     "\ufb58\ufb7d\ufb95\ufbfd",
		"abc":      "abc",
	} {
		got := ""
		for _, g := range shape(text) {
			got += string(g.shown)
		}
		if got != want {
			t.Errorf("%q: got %+q, want %+q", text, got, want)
		}
	}
}

var streams = regexp.MustCompile(`(?s)/Filter /FlateDecode /Length \d+>>\nstream\n(.*?)\nendstream`)

// contentOf returns what a PDF file draws on its pages.
func contentOf(t testing.TB, file []byte) string {
	t.Helper()
	var content strings.Builder
	for _, m := range streams.FindAllSubmatch(file, -1) {
		unpacker, err := zlib.NewReader(bytes.NewReader(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(unpacker)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(" Tj ET")) {
			content.Write(text)
		}
	}
	if content.Len() == 0 {
		t.Fatal("got a file without text")
	}
	return content.String()
}

var drawnText = regexp.MustCompile(`(?s) Td \((.*?)\) Tj ET`)

// textOf returns the drawn texts of a PDF file, each on a line, with a line of several faces in parts.
func textOf(t testing.TB, file []byte) string {
	t.Helper()
	var b strings.Builder
	for _, m := range drawnText.FindAllStringSubmatch(contentOf(t, file), -1) {
		raw := strings.NewReplacer(`\\`, `\`, `\(`, "(", `\)`, ")", `\r`, "\r").Replace(m[1])
		if len(raw)%2 != 0 {
			t.Fatalf("got %q, which is no UTF-16", raw)
		}
		units := make([]uint16, len(raw)/2)
		for i := range units {
			units[i] = uint16(raw[2*i])<<8 | uint16(raw[2*i+1])
		}
		b.WriteString(string(utf16.Decode(units)) + "\n")
	}
	return b.String()
}
