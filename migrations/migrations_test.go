package migrations

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
)

var (
	comments = regexp.MustCompile(`--[^\n]*`)
	creates  = regexp.MustCompile(`(?i)CREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)`)
	onTable  = regexp.MustCompile(
		`(?i)(?:ALTER TABLE (?:ONLY )?|CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?[a-z_]+ ON )([a-z_]+)([^;]*)`,
	)
	holds = regexp.MustCompile(
		`(?i)SET NOT NULL|ALTER COLUMN [a-z_]+ (?:SET DATA )?TYPE|^\s*DROP \w+\s*(?:,|;|$)|\bDROP (?:COLUMN|TABLE)\b|RENAME`,
	)
	checks = regexp.MustCompile(`(?is)ADD CONSTRAINT.*(?:CHECK|FOREIGN KEY)`)
	drops  = regexp.MustCompile(`(?i)DROP (?:TABLE|COLUMN|VIEW|FUNCTION)`)
)

// unkind returns what in a step locks a table of the service for long, or removes what the version
// before still reads.
func unkind(sql string) (all []string) {
	sql = comments.ReplaceAllString(sql, "")
	own := map[string]bool{}
	for _, m := range creates.FindAllStringSubmatch(sql, -1) {
		own[m[1]] = true
	}
	for _, m := range onTable.FindAllStringSubmatch(sql, -1) {
		table, rest := m[1], m[2]
		switch {
		case own[table]:
		case strings.HasPrefix(strings.ToUpper(m[0]), "CREATE"):
			all = append(all, "an index on "+table+" without CONCURRENTLY: writers wait until it is built")
		case holds.MatchString(rest):
			all = append(
				all, "ALTER TABLE "+table+rest+": reads the whole table, or takes away what the older program uses",
			)
		case checks.MatchString(rest) && !strings.Contains(strings.ToUpper(rest), "NOT VALID"):
			all = append(
				all, "a constraint on "+table+" without NOT VALID: reads the whole table; validate it in the next step",
			)
		}
	}
	for _, m := range drops.FindAllString(sql, -1) {
		all = append(all, m+": the program of the version before may still use it")
	}
	return all
}

func TestStepsAreKindToALiveHouse(t *testing.T) {
	t.Parallel()
	for _, name := range names() {
		version, err := goose.NumericComponent(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if version < FirstLater {
			continue // made for an empty database
		}
		for _, what := range unkind(string(text)) {
			t.Errorf("%s: got %s", name, what)
		}
	}
}

func TestWhatIsUnkindIsSeen(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]int{
		"CREATE TABLE a (b int); CREATE INDEX c ON a (b); ALTER TABLE a ADD CONSTRAINT d CHECK (b > 0);": 0,
		"CREATE INDEX c ON deposits (b);":                                         1,
		"CREATE INDEX CONCURRENTLY c ON deposits (b);":                            0,
		"ALTER TABLE deposits ADD COLUMN note text;":                              0,
		"ALTER TABLE deposits ALTER COLUMN note SET NOT NULL;":                    1,
		"ALTER TABLE deposits ALTER COLUMN note TYPE bigint;":                     1,
		"ALTER TABLE deposits ADD CONSTRAINT x CHECK (amount > 0);":               1,
		"ALTER TABLE deposits ADD CONSTRAINT x CHECK (amount > 0) NOT VALID;":     0,
		"ALTER TABLE deposits\n\tADD CONSTRAINT x FOREIGN KEY (a) REFERENCES b;":  1,
		"DROP TABLE deposits;":                                                    1,
		"-- DROP TABLE deposits;\nCREATE VIEW v AS SELECT 1;":                     0,
		"ALTER TABLE deposits DROP note;":                                         1,
		"ALTER TABLE deposits DROP CONSTRAINT x, DROP CONSTRAINT y;":              0,
		"ALTER TABLE deposits RENAME COLUMN a TO b;":                              1,
		"CREATE UNIQUE INDEX c ON deposits (b);\nCREATE INDEX d ON deposits (e);": 2,
	} {
		if got := unkind(sql); len(got) != want {
			t.Errorf("%s: got %q, want %d complaints", sql, got, want)
		}
	}
}
