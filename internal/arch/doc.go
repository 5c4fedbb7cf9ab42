// Package arch checks the structure of the module. Its tests parse the
// sources of the whole module and compare what they find with the tables in
// layers.go: the layer of each package, what it may import, where keys,
// HTTP, floats and random numbers may appear, and whether the rules of the
// interface and the tests that prove them name each other. Two tests read all
// texts of the repository: each decision that is cited has an entry in
// docs/design/README.md, and links between pages lead to pages and headings.
// One test refuses names with words that docs/glossary.md retires. Another compares
// small words as names, long lines and vague words with the numbers in testdata.
//
// Nothing here runs in the program, and nothing here runs another command: a
// test that asks the go tool could be answered from the test cache although
// the sources have changed, while files that a test opens itself are part of
// the cache key. There is no state, so a crash leaves nothing behind.
//
// A new package is one line in layers.go.
package arch
