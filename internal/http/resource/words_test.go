package resource

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
)

func TestTheInterfaceHasWordsForEveryRefusal(t *testing.T) {
	t.Parallel()
	if effects, steps, codes := Words.Missing(); len(effects)+len(steps)+len(codes) > 0 {
		t.Errorf("got no words for the effects %v, the steps %v and the codes %v", effects, steps, codes)
	}
	for _, code := range fault.Codes {
		f := fault.New(fault.Conflict, code, fault.NothingWritten, "It was refused.")
		got := Words.Sentences(f)
		if !strings.HasPrefix(got, "It was refused. "+Words.Effects[fault.NothingWritten]+" ") ||
			!strings.HasSuffix(got, Words.Codes[code]) {
			t.Errorf("%s: got %q, want the reason, the effect and the advice for the code", code, got)
		}
	}
}
