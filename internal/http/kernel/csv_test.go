package kernel

import (
	"fmt"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
)

func TestTablesAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	var all ExportSlots
	var ends []func()
	take := func(org string, want bool) {
		t.Helper()
		done, err := all.Acquire(org)
		if (err == nil) != want || err != nil && !fault.HasCode(err, fault.CodeUnavailable) {
			t.Fatalf("%s: got %v, want a place: %v", org, err, want)
		}
		if err == nil {
			ends = append(ends, done)
		}
	}
	for range tablesPerOrgMax {
		take("one", true)
	}
	take("one", false)
	for i := range tablesMax - tablesPerOrgMax {
		take(fmt.Sprint("other", i), true)
	}
	take("late", false)
	for _, end := range ends {
		end()
		end() // again changes nothing
	}
	if all.total != 0 || len(all.perOrg) != 0 {
		t.Errorf("got %d and %v, want nothing left", all.total, all.perOrg)
	}
	take("late", true)
}
