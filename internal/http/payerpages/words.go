package payerpages

import (
	"embed"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/language"
)

//go:embed catalogue
var catalogueFiles embed.FS

// languages are those of the pages, the first one for payers who read none of them. Rule CO-48.
var languages = loadLanguages(
	[]languageLine{
		{"en", "English", "ltr"},
		{"de", "Deutsch", "ltr"},
		{"fr", "Français", "ltr"},
		{"es", "Español", "ltr"},
		{"pt-BR", "Português (Brasil)", "ltr"},
		{"ja", "日本語", "ltr"},
		{"zh-Hans", "简体中文", "ltr"},
		{"ar", "العربية", "rtl"},
	},
)

type languageLine struct{ tag, name, direction string }

// translation is a language with its texts.
type translation struct {
	languageLine
	texts map[string]string
}

func loadLanguages(lines []languageLine) []*translation {
	loaded := make([]*translation, 0, len(lines))
	for _, line := range lines {
		raw, err := catalogueFiles.ReadFile("catalogue/" + line.tag + ".json")
		found := &translation{languageLine: line}
		if err == nil {
			err = json.Unmarshal(raw, &found.texts)
		}
		if err != nil {
			panic("payerpages: the texts of " + line.tag + ": " + err.Error())
		}
		loaded = append(loaded, found)
	}
	return loaded
}

var languageMatcher = newMatcher()

func newMatcher() language.Matcher {
	tags := make([]language.Tag, 0, len(languages))
	for _, l := range languages {
		tags = append(tags, language.MustParse(l.tag))
	}
	return language.NewMatcher(tags)
}

// languageParameter is the query parameter that chooses a language. There is no cookie that could remember it, so
// every link of a page has it.
const languageParameter = "lang"

// acceptLanguageMax bounds what is read of a header.
const acceptLanguageMax = 500

// chooseLanguage returns the language of a request: that of the address, or else the best one for the browser. It
// reports whether the address chose it.
func chooseLanguage(r *http.Request) (chosen *translation, isNamed bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil {
		for _, l := range languages {
			if l.tag == query.Get(languageParameter) {
				return l, true
			}
		}
	}
	accepted := r.Header.Get("Accept-Language")
	if accepted == "" || len(accepted) > acceptLanguageMax {
		return languages[0], false
	}
	tags, _, err := language.ParseAcceptLanguage(accepted)
	if err != nil {
		return languages[0], false
	}
	_, i, confidence := languageMatcher.Match(tags...)
	if confidence == language.No {
		return languages[0], false
	}
	return languages[i], false
}

// Marks around a value in a text of the other direction: FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE.
const (
	isolate    = "\u2068"
	endIsolate = "\u2069"
)

// text returns a text with its placeholders filled in. The values are pairs of a name and a value. In a language that
// runs from right to left each value keeps its own direction. A test finds every key that a text lacks.
func (l *translation) text(key string, values ...string) string {
	text := l.texts[key]
	for i := 0; i+1 < len(values); i += 2 {
		value := values[i+1]
		if l.direction == "rtl" {
			value = isolate + value + endIsolate
		}
		text = strings.ReplaceAll(text, "{"+values[i]+"}", value)
	}
	return text
}

// formatTime writes a time for a browser without scripts; the script writes it in the payer's time zone. Figures are
// the same in every language.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// Bounds of names that a shop chose.
const (
	nameRunesMax        = 120
	descriptionRunesMax = 2000
	marksMax            = 3 // marks over one letter
)

// cleanName writes a name that a shop chose for every payer: without what is invisible, turns the direction of the
// line, or covers other lines. Names of all scripts stay as they are.
func cleanName(name string) string { return cleanText(name, nameRunesMax) }

// cleanText does what cleanName does, for a text of another length.
func cleanText(name string, runesMax int) string {
	var out strings.Builder
	count, marks := 0, 0
	for _, r := range name {
		switch {
		case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
			if marks++; marks > marksMax {
				continue
			}
		case unicode.IsSpace(r):
			r, marks = ' ', 0
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			continue // The two joiners shape letters of some scripts.
		default:
			marks = 0
		}
		if count++; count > runesMax {
			out.WriteString("…")
			break
		}
		out.WriteRune(r)
	}
	return strings.TrimSpace(out.String())
}
