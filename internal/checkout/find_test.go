package checkout

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/schema"
)

// The list of what waits for a person is read by its index, which serves only the very condition that it has. Rules
// PAGE-73 and PAGE-86.
func TestTheIndexOfDecisionsHasTheConditionOfTheList(t *testing.T) {
	t.Parallel()
	text, err := schema.Files.ReadFile("26_checkouts.sql")
	if err != nil {
		t.Fatal(err)
	}
	plain := func(sql string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(sql, "c.", "")), " ")
	}
	_, index, isThere := strings.Cut(string(text), "CREATE INDEX checkouts_undecided ")
	_, condition, _ := strings.Cut(index, " WHERE ")
	condition, _, _ = strings.Cut(condition, ";")
	if want := plain(needsDecision); !isThere || plain(condition) != want {
		t.Errorf("got the index\n%s\nwant the condition\n%s", plain(condition), want)
	}
}
