package ofac

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

const lazarus = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96"

func extract(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sdn_advanced.xml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAListIsReadWithItsDateItsNamesAndItsAddresses(t *testing.T) {
	t.Parallel()
	l, err := ReadList(strings.NewReader(extract(t)))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 28, 0, 0, 0, 0, time.UTC); !l.Published.Equal(want) || len(l.Unreadable) != 0 {
		t.Errorf("got a list of %v with %q, want of %v", l.Published, l.Unreadable, want)
	}
	want := []Entry{
		{lazarus, "ETH", "25307", "LAZARUS GROUP"},
		{"0xa0e1c89Ef1a489c9C7dE96311eD5Ce5D32c20E4B", "ETH", "25307", "LAZARUS GROUP"},
		{"149w62rY42aZBox8fGcmqNsXUzSStKeq8C", "BTC", "25292", "KHORASHADIZADEH Ali"},
		{"BC1QAR0SRRR7XFKVY5L643LYDNW9RE59GTZZWF5MDQ", "BTC", "44001", "A COMPANY & SONS OF AN EXTRACT"},
		{"TN3W4H6rK2ce4vX9YnFQHwKENnHjoxb3m9", "TRX", "44001", "A COMPANY & SONS OF AN EXTRACT"},
		{"TN3W4H6rK2ce4vX9YnFQHwKENnHjoxb3m9", "USDT", "44001", "A COMPANY & SONS OF AN EXTRACT"},
	}
	if !slices.Equal(l.Entries, want) {
		t.Errorf("got %+v, want %+v", l.Entries, want)
	}
}

func TestAFileThatIsNoWholeListIsRefused(t *testing.T) {
	t.Parallel()
	whole := extract(t)
	with := func(old, text string) string {
		t.Helper()
		if !strings.Contains(whole, old) {
			t.Fatalf("no %q in the extract", old)
		}
		return strings.Replace(whole, old, text, 1)
	}
	for name, text := range map[string]string{
		"nothing":                 "",
		"a page":                  "<!DOCTYPE html><html><body>Access denied</body></html>",
		"another root":            "<sdnList><sdnEntry/></sdnList>",
		"JSON":                    "{}",
		"without its end":         whole[:len(whole)-20],
		"cut at an address":       whole[:strings.Index(whole, "149w62")],
		"no date":                 with("<DateOfIssue", "<Other"),
		"a date that is none":     with("<Day>28</Day>", "<Day>31</Day>") + "",
		"a date without its day":  with("<Day>28</Day>", ""),
		"no kinds of addresses":   strings.ReplaceAll(whole, "Digital Currency Address", "Website"),
		"another kind of address": with("Digital Currency Address - ARB", "Digital Currency Addresses (ARB)"),
		"no addresses": strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(
			strings.ReplaceAll(whole, `FeatureTypeID="344"`, `FeatureTypeID="8"`), `FeatureTypeID="345"`,
			`FeatureTypeID="8"`,
		), `FeatureTypeID="887"`, `FeatureTypeID="8"`), `FeatureTypeID="992"`, `FeatureTypeID="8"`),
		"an address without a text": with("0x098B716B8Aaf21512996dC57EB0615e2383E2f96", " "),
		"a document type":           with(`<?xml version="1.0" encoding="utf-8"?>`, `<!DOCTYPE s [<!ENTITY a "b">]>`),
		"an entity of its own":      with("LAZARUS GROUP", "&lazarus;"),
		"two lists":                 whole + strings.TrimPrefix(whole, `<?xml version="1.0" encoding="utf-8"?>`),
		"very deep": with("<Locations>",
			"<Locations>"+strings.Repeat("<a>", 100)+strings.Repeat("</a>", 100)),
		"very deep in a party": with("<Comment/>", strings.Repeat("<a>", 100)+strings.Repeat("</a>", 100)),
		"no UTF-8":             with("LAZARUS", "LAZ\xffRUS"),
		"another encoding":     with("utf-8", "utf-16"),
	} {
		if name == "a date that is none" {
			text = strings.Replace(text, "<Month>1</Month>", "<Month>2</Month>", 1)
		}
		if l, err := ReadList(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %d addresses, want an error", name, len(l.Entries))
		}
	}
	if l, err := ReadList(strings.NewReader(with("149w62rY42aZBox8fGcmqNsXUzSStKeq8C", "149w62 rY42"))); err != nil ||
		len(l.Unreadable) != 1 {
		t.Errorf("an odd address: got %q %v, want it told", l.Unreadable, err)
	}
	if _, err := ReadList(io.MultiReader(strings.NewReader(whole[:1000]), broken{})); err == nil {
		t.Error("a disk that fails: got no error, want one")
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

func store(t *testing.T, now time.Time) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := seal.CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Store{pgtest.NewWithClock(t, func() time.Time { return now }), keys}
}

func imported(t *testing.T, s *Store) StoredList {
	t.Helper()
	l, err := ReadList(strings.NewReader(extract(t)))
	if err != nil {
		t.Fatal(err)
	}
	k, err := s.Import(t.Context(), audit.Operator("op"), l, false)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestWhoIsOnTheListIsSevereOnEveryChainOfTheForm(t *testing.T) {
	t.Parallel()
	s := store(t, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
	screener := &Screener{Store: s, AgeMax: AgeMaxDefault}
	ask := func(ch chain.Name, address string) (risk.Verdict, error) {
		return screener.Screen(t.Context(), risk.Subject{Chain: ch, Address: chain.Address(address)})
	}
	if _, err := ask(chain.Ethereum, lazarus); !errors.Is(err, risk.ErrUnavailable) {
		t.Errorf("without a list: got %v, want unavailable", err)
	}
	k := imported(t, s)
	for _, c := range []struct {
		chain   chain.Name
		address string
		want    risk.Severity
	}{
		{chain.Ethereum, lazarus, risk.Severe},
		{chain.Base, strings.ToLower(lazarus), risk.Severe},
		{chain.Polygon, "0x" + strings.ToUpper(lazarus[2:]), risk.Severe},
		{chain.Bitcoin, "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", risk.Severe},
		{chain.Tron, "TN3W4H6rK2ce4vX9YnFQHwKENnHjoxb3m9", risk.Severe},
		{chain.Bitcoin, "149W62rY42aZBox8fGcmqNsXUzSStKeq8C", risk.None},
		{chain.Ethereum, "0x198B716B8Aaf21512996dC57EB0615e2383E2f96", risk.None},
	} {
		v, err := ask(c.chain, c.address)
		if err != nil || v.Severity != c.want || !v.IsKnown || !strings.Contains(v.Reference, k.ID) ||
			!strings.Contains(v.Reference, "2026-01-28") {
			t.Errorf("%s on %s: got %+v %v, want %s", c.address, c.chain, v, err, c.want)
		}
		if c.address == lazarus && (v.Entity != "OFAC SDN 25307: LAZARUS GROUP" || !v.Direct) {
			t.Errorf("got %+v, want who it is", v)
		}
	}
}

// Rule RISK-4.
func TestAListThatIsTooOldIsNoAnswer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 11, 0, 0, 0, 0, time.UTC) // 14 days after
	s := store(t, now)
	imported(t, s)
	clean := risk.Subject{Chain: chain.Ethereum, Address: "0x198B716B8Aaf21512996dC57EB0615e2383E2f96"}
	if v, err := (&Screener{Store: s, AgeMax: AgeMaxDefault}).Screen(t.Context(), clean); err != nil ||
		v.Severity != risk.None {
		t.Errorf("just young enough: got %+v %v, want NONE", v, err)
	}
	old := &Screener{Store: s, AgeMax: AgeMaxDefault - time.Second}
	if _, err := old.Screen(t.Context(), clean); !errors.Is(err, risk.ErrUnavailable) ||
		!strings.Contains(err.Error(), "coffer risk import") {
		t.Errorf("too old: got %v, want unavailable with what to do", err)
	}
	if v, err := old.Screen(t.Context(), risk.Subject{Chain: chain.Ethereum, Address: lazarus}); err != nil ||
		v.Severity != risk.Severe {
		t.Errorf("on an old list: got %+v %v, want SEVERE", v, err)
	}
}

func TestAnOlderOrAShrunkListReplacesNone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	s := store(t, now)
	imported(t, s)
	l, err := ReadList(strings.NewReader(extract(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(l *List)
		code   fault.Code // "": taken
		shrunk bool
	}{
		"the same again": {func(*List) {}, "", false},
		"older": {
			func(l *List) { l.Published = l.Published.Add(-24 * time.Hour) }, fault.InvalidState, true,
		},
		"of next year":       {func(l *List) { l.Published = now.AddDate(1, 0, 0) }, fault.InvalidRequest, true},
		"less than half":     {func(l *List) { l.Entries = l.Entries[:2] }, fault.InvalidState, false},
		"less than half, so": {func(l *List) { l.Entries = l.Entries[:2] }, "", true},
	} {
		changed := l
		changed.Entries = slices.Clone(l.Entries)
		c.change(&changed)
		// Each on a list that has them all.
		one := store(t, now)
		imported(t, one)
		_, err := one.Import(t.Context(), audit.Operator("op"), changed, c.shrunk)
		if (err == nil) != (c.code == "") || err != nil && !fault.HasCode(err, c.code) {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
	}
}

// Rule RISK-9.
func TestAListThatWasChangedInTheDatabaseIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"some bytes":     `UPDATE sanctions_lists SET sealed = ARRAY['\x00'::bytea]`,
		"a part twice":   `UPDATE sanctions_lists SET sealed = sealed || sealed`,
		"another's id":   `UPDATE sanctions_lists SET list_id = 'slt_x'`,
		"all of it gone": `DELETE FROM sanctions_lists`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
			imported(t, s)
			if _, err := pgtest.OwnerPool(t, s.DB).Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			subject := risk.Subject{Chain: chain.Ethereum, Address: "0x198B716B8Aaf21512996dC57EB0615e2383E2f96"}
			if v, err := (&Screener{Store: s, AgeMax: AgeMaxDefault}).Screen(
				context.WithoutCancel(t.Context()), subject,
			); !errors.Is(err, risk.ErrUnavailable) {
				t.Errorf("got %+v %v, want unavailable", v, err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	whole := extract(f)
	f.Add([]byte(whole))
	f.Add([]byte(whole[:3000]))
	f.Add([]byte(
		`<Sanctions><DateOfIssue><Year>2026</Year><Month>1</Month><Day>2</Day></DateOfIssue><FeatureType ID="1">Digital Currency Address - XBT</FeatureType><DistinctParty><Feature FeatureTypeID="1"><FeatureVersion><VersionDetail>a</VersionDetail></FeatureVersion></Feature></DistinctParty></Sanctions>`,
	))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ReadList(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		if l.Published.IsZero() || len(l.Entries) == 0 || !strings.Contains(string(text), "Sanctions") {
			t.Fatalf("%q: got %+v", text, l)
		}
		for _, e := range l.Entries {
			if e.Address == "" || e.Currency == "" || e.Name == "" || len(e.Address) > addressMax {
				t.Fatalf("%q: got %+v", text, e)
			}
		}
	})
}
