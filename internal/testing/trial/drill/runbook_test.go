package drill

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A drill runs every command that the runbooks tell a person to type: each command of ours and of
// PostgreSQL, with each of its options.
func TestTheCommandsOfTheRunbookAreThoseOfTheDrills(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	played := func(words ...string) bool {
		return strings.Contains(source.String(), `"`+strings.Join(words, `", "`)+`"`)
	}
	var book []byte
	for _, name := range []string{"restore", "approvers"} {
		text, err := os.ReadFile("../../../../docs/runbooks/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		book = append(book, text...)
	}
	lines := regexp.MustCompile(
		`(?m)^ {4,}(coffer|pg_\w+|initdb|psql|createdb) (.*)$`,
	).FindAllStringSubmatch(string(book), -1)
	if len(lines) < 15 {
		t.Fatalf("got %d commands in the runbooks, want them all", len(lines))
	}
	for _, line := range lines {
		text, _, _ := strings.Cut(line[2], " #")
		words := strings.Fields(text)
		var verb []string
		if line[1] != "coffer" {
			verb = []string{line[1]}
		} else {
			for len(words) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[0]) {
				verb, words = append(verb, words[0]), words[1:]
			}
		}
		if !played(verb...) {
			t.Errorf("%s: no drill runs %v", line[0], verb)
		}
		for _, word := range words {
			if strings.HasPrefix(word, "--") && !played(word) {
				t.Errorf("%s: no drill uses %s", line[0], word)
			}
		}
	}
}
