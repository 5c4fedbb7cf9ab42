package payerpages

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var placeholder = regexp.MustCompile(`\{\w+\}`)

// listPlaceholders returns the placeholders of a text, sorted, each as often as it stands there.
func listPlaceholders(text string) []string {
	found := placeholder.FindAllString(text, -1)
	slices.Sort(found)
	return found
}

// Every language has exactly the texts of English, none of them empty, and each has the placeholders of the English
// one. A text that is the English one word for word was not translated. Rule CO-48.
func TestEveryLanguageIsComplete(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("catalogue/*.json")
	if err != nil || len(files) != len(languages) || len(languages) != 8 {
		t.Fatalf("got %d files for %d languages: %v", len(files), len(languages), err)
	}
	english := languages[0].texts
	// Texts that are the same words in other languages, or have none.
	alike := map[string]bool{
		"order.quantity": true, "page.title": true, "order.total": true, "payments.hash": true, "pay.memo": true,
	}
	for _, l := range languages {
		for _, problem := range compareTexts(english, l.texts) {
			t.Errorf("%s: %s", l.tag, problem)
		}
		if l == languages[0] {
			continue
		}
		for key, text := range l.texts {
			if text == english[key] && !alike[key] {
				t.Errorf("%s: %q is not translated: %q", l.tag, key, text)
			}
		}
	}
	// The comparison finds what it is for.
	for _, broken := range []map[string]string{
		{},
		{"a": "x {n}", "b": "y", "c": "z"},
		{"a": "x", "b": "y"},
		{"a": "x {n} {n}", "b": "y"},
		{"a": "x {n}", "b": ""},
	} {
		if len(compareTexts(map[string]string{"a": "x {n}", "b": "y"}, broken)) == 0 {
			t.Errorf("got no problem of %v", broken)
		}
	}
}

func compareTexts(english, texts map[string]string) (problems []string) {
	for _, key := range slices.Sorted(maps.Keys(english)) {
		text, ok := texts[key]
		switch {
		case !ok:
			problems = append(problems, key+" is missing")
		case strings.TrimSpace(text) == "" || text != strings.TrimSpace(text):
			problems = append(problems, key+" is empty, or has space at an end")
		case !utf8.ValidString(text) || strings.ContainsAny(text, "<>"):
			problems = append(problems, key+" has markup")
		case !slices.Equal(listPlaceholders(text), listPlaceholders(english[key])):
			problems = append(problems, key+" has other placeholders")
		}
	}
	for key := range texts {
		if _, ok := english[key]; !ok {
			problems = append(problems, key+" is no text of the pages")
		}
	}
	return problems
}

// No file of texts has a key twice: the decoder would keep the second and say nothing.
func TestNoTextStandsTwice(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		raw, err := catalogueFiles.ReadFile("catalogue/" + l.tag + ".json")
		if err != nil {
			t.Fatal(err)
		}
		keys := 0
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		for {
			token, err := decoder.Token()
			if err != nil {
				break
			}
			if _, ok := token.(string); ok {
				keys++
			}
		}
		if keys != 2*len(l.texts) {
			t.Errorf("%s: got %d texts in the file, want %d", l.tag, keys/2, len(l.texts))
		}
	}
}

// Every text is used, and every text that the sources name exists.
func TestEveryTextIsUsedAndEveryNamedTextExists(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, pattern := range []string{"*.go", "*.templ"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_templ.go") {
				continue
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(raw)
		}
	}
	// These are named with a value of a type behind the point, or with ".text" behind a key.
	var named []string
	for _, r := range []Unavailability{Paused, Unpriced, BelowMinimum, TooCostly} {
		named = append(named, "reason."+string(r))
	}
	for _, p := range listWalletProblems() {
		named = append(named, "solana."+string(p))
	}
	for _, name := range caseNames {
		named = append(named, "cases."+name)
	}
	for _, s := range listPaymentStatuses() {
		named = append(named, "payment."+string(s))
	}
	for _, o := range listOutcomes() {
		named = append(named, "find."+string(o), "find."+string(o)+".text")
	}
	for _, state := range []string{
		string(LinkPaused), string(LinkEnded), string(LinkExpired), string(LinkSoldOut), string(LinkUnavailable),
		string(LimitProblem),
	} {
		named = append(named, "link."+state, "link."+state+".text")
	}
	for _, k := range []ProblemKind{NonceProblem, NonceUsedProblem, QuantityProblem, PriceProblem} {
		named = append(named, "link.problem."+string(k))
	}
	for _, state := range []RefundState{
		RefundWaits, RefundRequested, RefundChecked, RefundSent, RefundCompleted, RefundCancelled, RefundExpired,
	} {
		named = append(named, "refund."+string(state), "refund."+string(state)+".text")
	}
	for _, p := range []RefundProblem{
		RiskRefundProblem, FailedRefundProblem, EndedRefundProblem, AddressRefundProblem,
	} {
		named = append(named, "refund.problem."+string(p))
	}
	for _, refusal := range []RefundRefusal{
		AddressInvalid, AddressOfExchange, AddressShared, AddressOfSender, ProofWrong, ProofExpired, ProofImpossible,
		ProofUndeployed, NetworkUnavailable,
	} {
		named = append(named, "refund.refused."+string(refusal))
	}
	for key := range languages[0].texts {
		heading := strings.TrimSuffix(key, ".text")
		isUsed := strings.Contains(sources.String(), `"`+key+`"`) || slices.Contains(named, key) ||
			heading != key && strings.Contains(sources.String(), `"`+heading+`"`)
		if !isUsed {
			t.Errorf("%s: no page has this text", key)
		}
	}
	call := regexp.MustCompile(`(?:text|say|note|split)\((?:(?:good|wait|bad), )?"([a-zA-Z]+(?:\.\w+)*)"[,)]`)
	for _, found := range call.FindAllStringSubmatch(sources.String(), -1) {
		named = append(named, found[1])
	}
	if len(named) < 80 {
		t.Errorf("found %d names of texts, want all", len(named))
	}
	for _, key := range named {
		if languages[0].texts[key] == "" {
			t.Errorf("%s: the pages name this text, and no language has it", key)
		}
	}
}

func listWalletProblems() []WalletProblem {
	return []WalletProblem{
		AccountProblem, ClosedProblem, OptionProblem, AmountProblem, FundsProblem, UnreadyProblem, NodeProblem,
	}
}

func listPaymentStatuses() []PaymentStatus {
	return []PaymentStatus{
		PaymentSeen, PaymentCredited, PaymentFlagged, PaymentReturned, PaymentOrphaned, PaymentReversed,
		PaymentUnusable,
	}
}

func listOutcomes() []Outcome {
	return []Outcome{
		FoundPayment, FoundWrongCoin, FoundWrongNetwork, FoundFailed, FoundPending, FoundElsewhere, FoundNowhere,
		FoundUnclear,
	}
}

// A payer reads the language of the address, or else the best one of the browser, or else English. Rule CO-48.
func TestTheLanguageIsThatOfThePayer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, header, want string }{
		{"", "", "en"},
		{"", "de", "de"},
		{"", "de-AT,en;q=0.5", "de"},
		{"", "pt", "pt-BR"},
		{"", "pt-PT", "pt-BR"},
		{"", "zh-CN", "zh-Hans"},
		{"", "zh", "zh-Hans"},
		{"", "ar-EG", "ar"},
		{"", "ja;q=0.9,fr;q=0.8", "ja"},
		{"", "sw,es;q=0.3", "es"},
		{"", "sw", "en"},
		{"", "en-GB,de;q=0.9", "en"},
		{"lang=ar", "de", "ar"},
		{"lang=xx", "de", "de"},
		{"lang=EN", "de", "de"},
		{"", ";;;q=", "en"},
		{"", strings.Repeat("de,", 400), "en"},
		{"%zz", "fr", "fr"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/c/x", nil)
		r.URL.RawQuery = c.query
		r.Header.Set("Accept-Language", c.header)
		got, isNamed := chooseLanguage(r)
		if got.tag != c.want || isNamed != (c.query == "lang=ar") {
			t.Errorf("%q, %.20q: got %s, named %v, want %s", c.query, c.header, got.tag, isNamed, c.want)
		}
	}
}

// A value keeps its own direction in a text that runs from right to left.
func TestAValueKeepsItsDirection(t *testing.T) {
	t.Parallel()
	arabic := languages[slices.IndexFunc(languages, func(l *translation) bool { return l.tag == "ar" })]
	if got := arabic.text("pay.rate", "rate", "1 ETH"); got != "السعر: \u20681 ETH\u2069" {
		t.Errorf("got %q, want the value isolated", got)
	}
	if got := languages[0].text("pay.rate", "rate", "1 ETH"); got != "Rate: 1 ETH" {
		t.Errorf("got %q, want the value alone", got)
	}
}

// A name that a shop chose is shown in its own script, without what hides, turns or covers texts. Rule CO-42.
func TestNamesAreShownWithoutTricks(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Café Zürich":                     "Café Zürich",
		"喫茶店 میز\u200cها":                 "喫茶店 میز\u200cها",
		"Shop\u202egpj.exe\u202c":         "Shopgpj.exe",
		"a\u0000b\u200bc\ufeffd":          "abcd",
		"two\nlines\tand\u2028more":       "two lines and more",
		"z" + strings.Repeat("\u0301", 9): "z\u0301\u0301\u0301",
		"  edge  ":                        "edge",
		strings.Repeat("x", 5000):         strings.Repeat("x", nameRunesMax) + "…",
	} {
		if got := cleanName(name); got != want {
			t.Errorf("%.30q: got %.40q, want %.40q", name, got, want)
		}
	}
}
