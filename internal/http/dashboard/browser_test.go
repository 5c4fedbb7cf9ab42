package dashboard

import (
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
)

// Each page of the table, in a light theme on a desk and in a dark one on a phone, is free of errors in a real
// browser, asks no other host for anything, is accessible, and is not wider than the screen. Each of its forms
// is sent to an act with exactly its fields. make pages looks at each page in every theme and width, and with
// scripts off. Rules PAGE-60 and PAGE-63.
func TestPagesInABrowserAreAccessibleAndQuiet(t *testing.T) {
	t.Parallel()
	n := 2
	if pagematrix.IsWhole() {
		n = fullList
	}
	pagematrix.Browse(t, newTestEnv(t).fill(n))
}
