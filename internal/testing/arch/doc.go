// Package arch checks the architecture. Its tests parse the sources of the whole module and compare
// them with the tables in layers.go: the layer of each package, what it may import, and where keys,
// HTTP, floats and random numbers may appear. They also check that code cites each rule of the
// interface where it is kept, and a test where it is proven.
//
// Two tests read all texts of the repository. Each cited decision has an entry in
// docs/design/README.md, and links between pages lead to existing pages and headings. One test
// refuses names with words that docs/glossary.md retires. Another compares small words as names,
// long lines and vague words with the numbers in testdata.
//
// The package is not part of the program, and it runs no other command. A test that asks the go
// tool could be answered from the test cache although the sources have changed. Files that a test
// opens itself are part of the cache key. The package has no state, so a crash leaves nothing
// behind.
//
// A new package is one line in layers.go, a provider of risk, prices or swaps excepted: one line is for all.
package arch
