package pagination

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
)

var (
	key   = []byte("a key of this test and of nothing else")
	place = Cursor{CreatedAt: time.Date(2026, 1, 31, 12, 0, 0, 123456000, time.UTC), ID: "user 42 – ünïcode"}
)

func TestCursorComesBack(t *testing.T) {
	t.Parallel()
	got, err := DecodeCursor(EncodeCursor(place, key, "org_1", "deposits"), key, "org_1", "deposits")
	if err != nil {
		t.Fatal(err)
	}
	if got != place {
		t.Errorf("got %v, want %v", got, place)
	}
}

// Rule LIST-1.
func TestTamperedCursorIsRefused(t *testing.T) {
	t.Parallel()
	good := EncodeCursor(place, key, "org_1", "deposits")
	raw, _ := base64.RawURLEncoding.DecodeString(good)
	for i := range raw {
		for bit := range 8 {
			bad := append([]byte(nil), raw...)
			bad[i] ^= 1 << bit
			if _, err := DecodeCursor(
				base64.RawURLEncoding.EncodeToString(bad), key, "org_1", "deposits",
			); !fault.HasCode(err, fault.InvalidCursor) {
				t.Fatalf("bit %d of byte %d flipped: got %v, want %v", bit, i, err, fault.InvalidCursor)
			}
		}
	}
	for name, bad := range map[string]string{
		"empty": "", "short": good[:4], "cut": good[:len(good)-1], "longer": good + "A", "padded": good + "=",
		"not base64": "!" + good[1:], "line break": good[:4] + "\n" + good[4:], "endless": strings.Repeat("A", 1<<20),
	} {
		if _, err := DecodeCursor(bad, key, "org_1", "deposits"); !fault.HasCode(err, fault.InvalidCursor) {
			t.Errorf("%s: got %v, want %v", name, err, fault.InvalidCursor)
		}
	}
}

func TestCursorContinuesOnlyItsOwnList(t *testing.T) {
	t.Parallel()
	good := EncodeCursor(place, key, "org_1", "deposits")
	for _, scope := range [][]string{
		{"org_2", "deposits"}, {"org_1", "withdrawals"}, {"org_1"}, {"org_1deposits"}, {"org_1", "deposits", ""}, nil,
	} {
		if _, err := DecodeCursor(good, key, scope...); !fault.HasCode(err, fault.InvalidCursor) {
			t.Errorf("scope %q: got %v, want %v", scope, err, fault.InvalidCursor)
		}
	}
	if _, err := DecodeCursor(
		good, []byte("another key"), "org_1", "deposits",
	); !fault.HasCode(err, fault.InvalidCursor) {
		t.Errorf("another key: got %v, want %v", err, fault.InvalidCursor)
	}
}

func TestQueryNumbersItsParameters(t *testing.T) {
	t.Parallel()
	sql, args := NewQuery("SELECT a FROM t WHERE org_id = ?", "o").AddCondition("s = ?", "S").
		BuildPage(Page{Limit: 2, Cursor: &place, Desc: true}, "created_at", "a")
	wantSQL := "SELECT a FROM t WHERE org_id = $1 AND (s = $2) AND ((created_at, a) < ($3, $4)) ORDER BY created_at " +
		"DESC, a DESC LIMIT 11"
	if sql != wantSQL {
		t.Errorf("got %v, want %v", sql, wantSQL)
	}
	if want := []any{"o", "S", place.CreatedAt, place.ID}; !reflect.DeepEqual(args, want) {
		t.Errorf("got %v, want %v", args, want)
	}
}

// The growth test of package api shows on PostgreSQL 18 that the bound costs reads.
func TestACursorReplacesTheBoundThatItImplies(t *testing.T) {
	t.Parallel()
	at := place.CreatedAt
	earlier, later, none := at.Add(-time.Hour), at.Add(time.Hour), time.Time{}
	for name, c := range map[string]struct {
		page          Page
		after, before time.Time
		want          string
		args          int
	}{
		"no cursor": {
			Page{},
			earlier, later,
			" AND (t > $2) AND (t < $3)", 3,
		},
		"ascending": {
			Page{Cursor: &place},
			earlier, later,
			" AND (t < $2) AND ((t, a) > ($3, $4))", 4,
		},
		"descending": {
			Page{Cursor: &place, Desc: true},
			earlier, later,
			" AND (t > $2) AND ((t, a) < ($3, $4))", 4,
		},
		"a cursor outside of its range": {
			Page{Cursor: &place},
			later, none,
			" AND (t > $2) AND ((t, a) > ($3, $4))", 4,
		},
		"a cursor at the end of a range": {
			Page{Cursor: &place, Desc: true},
			none, at,
			" AND (t < $2) AND ((t, a) < ($3, $4))", 4,
		},
	} {
		q := NewQuery("SELECT a FROM t WHERE o = ?", "o").SetTimeRange(c.after, c.before)
		sql, args := q.BuildPage(c.page, "t", "a")
		if !strings.HasPrefix(sql, "SELECT a FROM t WHERE o = $1"+c.want+" ORDER BY") || len(args) != c.args {
			t.Errorf("%s: got %s %v, want %s", name, sql, args, c.want)
		}
	}
	sql, args := NewQuery("SELECT a FROM t WHERE o = ?", "o").SetTimeRange(earlier, later).BuildAll(false, "t", "a")
	const want = "SELECT a FROM t WHERE o = $1 AND (t > $2) AND (t < $3) ORDER BY t ASC, a ASC"
	if sql != want || len(args) != 3 {
		t.Errorf("all: got %s %v, want %s", sql, args, want)
	}
}

func TestCutKnowsWhetherMoreFollows(t *testing.T) {
	t.Parallel()
	at := func(s string) Cursor { return Cursor{ID: s} }
	if got := CutPage(Page{Limit: 2}, []string{"a", "b"}, at); got.NextCursor != nil || len(got.Items) != 2 {
		t.Errorf("got %v, want two items and no more", got)
	}
	got := CutPage(Page{Limit: 2}, []string{"a", "b", "c"}, at)
	if got.NextCursor == nil || got.NextCursor.ID != "b" || len(got.Items) != 2 {
		t.Errorf("got %v, want two items and the place of b", got)
	}
}

func TestAStatementReadsAtLeastOneRowMoreThanItsPageHas(t *testing.T) {
	t.Parallel()
	statements := map[string]bool{}
	for limit := -1; limit <= LimitMax+1; limit++ {
		p := Page{Limit: limit}
		rows, err := strconv.Atoi(p.LimitSQL())
		if err != nil || rows <= p.effectiveLimit() || rows > LimitMax+1 {
			t.Errorf(
				"limit %d: the statement reads %s rows, want more than %d", limit, p.LimitSQL(), p.effectiveLimit(),
			)
		}
		statements[p.LimitSQL()] = true
	}
	if len(statements) > 5 {
		t.Errorf("got %d statements for one list, want at most 5", len(statements))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(EncodeCursor(place, key))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := DecodeCursor(s, key); err == nil && EncodeCursor(c, key) != s {
			t.Errorf("%q was taken for %v, which is written otherwise", s, c)
		}
	})
}

func TestAPageOfSeveralConditionsReadsEachByItself(t *testing.T) {
	t.Parallel()
	p := Page{Limit: 2, Cursor: &Cursor{CreatedAt: time.Unix(1, 0), ID: "x"}}
	sql, args := NewQuery(
		"SELECT * FROM t WHERE t.o = ?", "org",
	).Either("ann", "t.a = ?", "t.b = ?").BuildPage(p, "t.at", "t.id")
	const part = "(SELECT * FROM t WHERE t.o = $1 AND ((t.at, t.id) > ($3, $4)) AND (t.%s = $2) ORDER BY t.at ASC, " +
		"t.id ASC LIMIT 11)"
	want := "SELECT found.* FROM (" + fmt.Sprintf(part, "a") + " UNION ALL " + fmt.Sprintf(part, "b") + ") AS found ORDER BY found.at ASC, found.id ASC LIMIT 11"
	if sql != want || len(args) != 4 {
		t.Errorf("either:\n got %s %v\nwant %s", sql, args, want)
	}
	sql, args = NewQuery("SELECT * FROM t WHERE t.o = ?", "org").Among("t.m", "?::int[]", []int{1, 2}).BuildPage(
		Page{Limit: 2, Desc: true}, "t.at", "t.id",
	)
	want = "SELECT found.* FROM unnest($2::int[]) AS chosen (value) CROSS JOIN LATERAL ((SELECT * FROM t WHERE t.o = " +
		"$1 AND (true) AND t.m = chosen.value" +
		" ORDER BY t.at DESC, t.id DESC LIMIT 11)) AS found ORDER BY found.at DESC, found.id DESC LIMIT 11"
	if sql != want || len(args) != 2 {
		t.Errorf("among:\n got %s %v\nwant %s", sql, args, want)
	}
	// BuildAll reads all of them at once.
	sql, _ = NewQuery(
		"SELECT * FROM t WHERE t.o = ?", "org",
	).Either("ann", "t.a = ?", "t.b = ?").Among("t.m", "?::int[]", []int{1}).BuildAll(false, "t.at", "t.id")
	if want = "SELECT * FROM t WHERE t.o = $1 AND (t.a = $2 OR t.b = $2) AND t.m = ANY ($3::int[]) ORDER BY t.at " +
		"ASC, t.id ASC"; sql != want {
		t.Errorf("whole:\n got %s\nwant %s", sql, want)
	}
}
