package pages

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
)

// The pages have sentences of their own for each refusal, and none of them names a call of the interface,
// a field of JSON or a command.
func TestThePagesHaveWordsForEveryRefusal(t *testing.T) {
	t.Parallel()
	if effects, steps, codes := words.Missing(); len(effects)+len(steps)+len(codes) > 0 {
		t.Errorf("got no words for the effects %v, the steps %v and the codes %v", effects, steps, codes)
	}
	var texts []string
	for _, code := range fault.Codes {
		if headings[code] == "" {
			t.Errorf("%s has no heading", code)
		}
		texts = append(texts, headings[code], words.Codes[code])
	}
	for _, text := range words.Effects {
		texts = append(texts, text)
	}
	for _, text := range words.Steps {
		texts = append(texts, text)
	}
	for _, text := range texts {
		for _, foreign := range []string{"GET ", "POST ", "PATCH", "idempotencyKey", "JSON", "requestId", "coffer "} {
			if strings.Contains(text, foreign) {
				t.Errorf("%q has %q, which a user of pages does not know", text, foreign)
			}
		}
	}
}
