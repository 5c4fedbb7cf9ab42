// Package part spreads the cases of long exhaustive tests over several days, so that each run of the tests plays a part
// of them and a few days play all. The Makefile's PARTS=all plays all at once.
package part

import (
	"os"
	"testing"
	"time"
)

// AllEnv is the variable that plays every case if it is "all".
const AllEnv = "COFFER_PARTS"

// OfToday returns the cases that a run plays today, in UTC: every case belongs to one of the parts, and the parts take
// turns by the day. It logs which part it is.
func OfToday[T any](t testing.TB, cases []T, parts int) []T {
	t.Helper()
	today, isAll := Today(parts)
	if isAll {
		return cases
	}
	t.Logf("plays part %d of %d; %s=all plays all", today+1, parts, AllEnv)
	return choose(cases, today, parts)
}

// Today returns which of so many parts is played today, in UTC, counted from 0, or that all are.
func Today(parts int) (part int, isAll bool) {
	if os.Getenv(AllEnv) == "all" {
		return 0, true
	}
	return int(time.Now().UTC().Unix()/(24*60*60)) % parts, false
}

func choose[T any](cases []T, day, parts int) (chosen []T) {
	for i, c := range cases {
		if i%parts == day%parts {
			chosen = append(chosen, c)
		}
	}
	return chosen
}
