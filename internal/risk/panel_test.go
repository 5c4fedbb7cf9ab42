package risk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// scripted answers what a test sets.
type scripted struct {
	name   string
	chains []chain.Name // nil: all
	asked  atomic.Int64
	answer func(ctx context.Context, try int64) (Verdict, error)
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Covers(ch chain.Name) bool {
	for _, c := range s.chains {
		if c == ch {
			return true
		}
	}
	return s.chains == nil
}

func (s *scripted) Screen(ctx context.Context, _ Subject) (Verdict, error) {
	return s.answer(ctx, s.asked.Add(1))
}

func says(name string, severity Severity) *scripted {
	return &scripted{name: name, answer: func(context.Context, int64) (Verdict, error) {
		return Verdict{
			Provider: name, Severity: severity, IsKnown: severity != Unknown, GivenAt: time.Now(),
			Raw: json.RawMessage(`{"of":"` + name + `"}`),
		}, nil
	}}
}

func fails(name string, err error) *scripted {
	return &scripted{name: name, answer: func(context.Context, int64) (Verdict, error) { return Verdict{}, err }}
}

func panelOf(all ...*scripted) *Panel {
	p := &Panel{Log: slog.New(slog.DiscardHandler)}
	for _, s := range all {
		p.Members = append(p.Members, Member{Screener: s})
	}
	return p
}

var sender = Subject{Chain: chain.Ethereum, Address: "0x098B716B8Aaf21512996dC57EB0615e2383E2f96", Direction: Incoming}

// Rule RISK-8.
func TestTheHighestSeverityOfSeveralCounts(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		panel       *Panel
		quorum      int
		unavailable bool
		severity    Severity
		known       bool
		provider    string
	}{
		"one":               {panelOf(says("A", Low)), 0, false, Low, true, "A"},
		"the higher":        {panelOf(says("A", Low), says("B", High)), 0, false, High, true, "B"},
		"the higher first":  {panelOf(says("A", Severe), says("B", None)), 0, false, Severe, true, "A"},
		"one does not know": {panelOf(says("A", Unknown), says("B", Low)), 0, false, Low, false, "B"},
		"nobody knows": {
			panelOf(says("A", Unknown), says("B", Unknown)), 0, false, Unknown, false, "A",
		},
		"one is down":                 {panelOf(says("A", Severe), fails("B", down)), 0, true, Severe, true, "A"},
		"one is down, one is enough":  {panelOf(says("A", Low), fails("B", down)), 1, false, Low, true, "A"},
		"one is down, two are needed": {panelOf(says("A", Low), fails("B", down)), 2, true, Low, true, "A"},
		"all are down":                {panelOf(fails("A", down), fails("B", down)), 1, true, "", false, ""},
		"nobody":                      {panelOf(), 0, true, "", false, ""},
		"more needed than there are":  {panelOf(says("A", Low)), 2, true, "", false, ""},
		"nobody knows the chain": {
			panelOf(&scripted{name: "A", chains: []chain.Name{chain.Bitcoin}}), 0, true, "", false, "",
		},
		"who does not know is not asked": {
			panelOf(&scripted{name: "A", chains: []chain.Name{chain.Bitcoin}}, says("B", Low)), 0, false, Low, true,
			"B",
		},
		"who does not know does not help": {
			panelOf(&scripted{name: "A", chains: []chain.Name{chain.Bitcoin}}, says("B", Low)), 2, true, "", false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c.panel.Quorum = c.quorum
				got, err := c.panel.Screen(t.Context(), sender)
				if errors.Is(err, ErrUnavailable) != c.unavailable || (err != nil) != c.unavailable {
					t.Errorf("got %v, want unavailable %t", err, c.unavailable)
				}
				if got.Severity != c.severity || got.IsKnown != c.known || got.Provider != c.provider {
					t.Errorf("got %s %t by %s, want %s %t by %s", got.Severity, got.IsKnown, got.Provider, c.severity,
						c.known, c.provider)
				}
			})
		})
	}
}

// Rule RISK-4.
func TestNonsenseIsNoAnswer(t *testing.T) {
	t.Parallel()
	hundred, more := 100, 101
	good := Verdict{Provider: "A", Severity: Low, IsKnown: true, Score: &hundred, GivenAt: noon}
	for name, change := range map[string]func(*Verdict){
		"good":                  nil,
		"nothing":               func(v *Verdict) { *v = Verdict{} },
		"no severity":           func(v *Verdict) { v.Severity = "" },
		"another severity":      func(v *Verdict) { v.Severity = "Low" },
		"unknown that is known": func(v *Verdict) { v.Severity = Unknown },
		"a score of 101":        func(v *Verdict) { v.Score = &more },
		"no time":               func(v *Verdict) { v.GivenAt = time.Time{} },
		"another's name":        func(v *Verdict) { v.Provider = "B" },
		"a panic":               func(*Verdict) { panic("out of range") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := panelOf(&scripted{name: "A", answer: func(context.Context, int64) (Verdict, error) {
					v := good
					if change != nil {
						change(&v)
					}
					return v, nil
				}})
				if _, err := p.Screen(t.Context(), sender); errors.Is(err, ErrUnavailable) != (change != nil) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestAProviderIsAskedThreeTimesWithinItsTime(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy")
	for name, c := range map[string]struct {
		answer func(ctx context.Context, try int64) (Verdict, error)
		tries  int64
		ok     bool
		within time.Duration
	}{
		"third time lucky": {func(_ context.Context, try int64) (Verdict, error) {
			if try < 3 {
				return Verdict{}, busy
			}
			return Verdict{Provider: "A", Severity: None, IsKnown: true, GivenAt: time.Now()}, nil
		}, 3, true, 3 * time.Second},
		"never": {func(context.Context, int64) (Verdict, error) { return Verdict{}, busy }, 3, false, 3 * time.Second},
		"it hangs": {func(ctx context.Context, _ int64) (Verdict, error) {
			<-ctx.Done()
			return Verdict{}, ctx.Err()
		}, 3, false, 18 * time.Second},
		"it refuses the key": {
			func(context.Context, int64) (Verdict, error) { return Verdict{}, NotRetryable("401") }, 1, false,
			time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{name: "A", answer: c.answer}
				start := time.Now()
				_, err := panelOf(s).Screen(t.Context(), sender)
				if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrUnavailable) || s.asked.Load() != c.tries ||
					time.Since(start) > c.within {
					t.Errorf("got %v after %d tries and %v, want ok %t, %d tries, at most %v", err, s.asked.Load(),
						time.Since(start), c.ok, c.tries, c.within)
				}
			})
		})
	}
}

func TestAProviderIsNotAskedMoreOftenThanItAllows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := panelOf(says("A", None))
		p.Members[0].Limit = rate.NewLimiter(rate.Every(time.Minute), 1)
		if _, err := p.Screen(t.Context(), sender); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Screen(t.Context(), sender); !errors.Is(err, ErrUnavailable) {
			t.Errorf("at once again: got %v, want unavailable", err)
		}
		<-time.After(time.Minute) // of the bubble
		if _, err := p.Screen(t.Context(), sender); err != nil {
			t.Errorf("a minute later: got %v, want an answer", err)
		}
	})
}

func sealing(t *testing.T) *seal.Keyset {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := seal.CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Rule RISK-11.
func TestWhoAsksAgainGetsANewAnswer(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	s := says("A", Low)
	p := panelOf(s)
	p.Members[0].TTL, p.Answers = time.Hour, &AnswerStore{db, sealing(t)}
	usual := Policy{Providers: p, Lists: p}
	usual.ScreenProviders(ctx, sender)
	if a := usual.ScreenProviders(ctx, sender); !a.Verdict.Cached {
		t.Errorf("got %+v, want the answer of before", a.Verdict)
	}
	for what, ask := range map[string]func(context.Context, Subject) *Answer{
		"providers": usual.WithoutCache().ScreenProviders, "lists": usual.WithoutCache().ScreenLists,
	} {
		before := s.asked.Load()
		if a := ask(ctx, sender); a.Verdict.Cached || s.asked.Load() != before+1 || a.Verdict.AnswerID == "" {
			t.Errorf("%s: got %+v, want a new answer that is kept", what, a.Verdict)
		}
	}
	if p.Members[0].TTL != time.Hour || Policy.WithoutCache(Policy{}).Configured() {
		t.Error("got the policy changed, want it as it was")
	}
}

// Rule RISK-9.
func TestAnAnswerIsUsedAgainForAWhileAndSaysSo(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	s := says("A", High)
	now := time.Now()
	p := panelOf(s)
	p.Members[0].TTL = time.Hour
	p.Answers, p.Clock = &AnswerStore{db, sealing(t)}, func() time.Time { return now }
	first, err := p.Screen(ctx, sender)
	if err != nil || first.Cached || first.AnswerID == "" {
		t.Fatalf("got %+v %v, want a new answer that is kept", first, err)
	}
	now = now.Add(30 * time.Minute)
	other := sender
	other.Address = "0x098b716b8aaf21512996dc57eb0615e2383e2f96" // the same with other capitals
	again, err := p.Screen(ctx, other)
	if err != nil || !again.Cached || !again.GivenAt.Equal(first.GivenAt) || again.Severity != High ||
		again.AnswerID != first.AnswerID || s.asked.Load() != 1 {
		t.Errorf("got %+v %v after %d questions, want the answer of %v", again, err, s.asked.Load(), first.GivenAt)
	}
	raw, err := p.Answers.LoadRaw(ctx, first.AnswerID)
	if err != nil || string(raw) != `{"of":"A"}` {
		t.Errorf("got %s %v, want the provider's own words", raw, err)
	}
	for name, subject := range map[string]Subject{
		"another chain":   {Chain: chain.Base, Address: sender.Address},
		"another address": {Chain: chain.Ethereum, Address: "0x198B716B8Aaf21512996dC57EB0615e2383E2f96"},
	} {
		before := s.asked.Load()
		if v, err := p.Screen(ctx, subject); err != nil || v.Cached || s.asked.Load() != before+1 {
			t.Errorf("%s: got cached %t %v, want it asked", name, v.Cached, err)
		}
	}
	now = now.Add(31 * time.Minute)
	before := s.asked.Load()
	if v, err := p.Screen(ctx, sender); err != nil || v.Cached || s.asked.Load() != before+1 {
		t.Errorf("after its time: got cached %t %v, want it asked", v.Cached, err)
	}
	var sealed []byte
	look := func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT sealed FROM risk_answers LIMIT 1`).Scan(&sealed)
	}
	if err := db.ReadSystem(ctx, look); err != nil || bytes.Contains(sealed, []byte("HIGH")) {
		t.Errorf("got an answer that can be read in the database (%v), want it sealed", err)
	}
}

// Rule RISK-9.
func TestAnErrorIsNeverKept(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	s := &scripted{name: "A"}
	s.answer = func(_ context.Context, try int64) (Verdict, error) {
		if try == 1 {
			return Verdict{Provider: "A", Severity: None, IsKnown: true, GivenAt: time.Now()}, NotRetryable("busy")
		}
		return Verdict{Provider: "A", Severity: Severe, IsKnown: true, GivenAt: time.Now()}, nil
	}
	p := panelOf(s)
	p.Members[0].TTL, p.Answers = time.Hour, &AnswerStore{db, sealing(t)}
	if _, err := p.Screen(ctx, sender); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	if v, err := p.Screen(ctx, sender); err != nil || v.Severity != Severe || v.Cached {
		t.Errorf("got %+v %v, want it asked again", v, err)
	}
}

// Rule RISK-9.
func TestAnAnswerThatWasChangedIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"another address's":    `UPDATE risk_answers SET address = '0x098b716b8aaf21512996dc57eb0615e2383e2f96' WHERE address <> '0x098b716b8aaf21512996dc57eb0615e2383e2f96'`,
		"another provider's":   `UPDATE risk_answers SET provider = 'A', address = '0x098b716b8aaf21512996dc57eb0615e2383e2f96'`,
		"another key's":        `UPDATE risk_answers SET answer_id = 'ans_x', address = '0x098b716b8aaf21512996dc57eb0615e2383e2f96'`,
		"some bytes":           `UPDATE risk_answers SET sealed = '\x00', address = '0x098b716b8aaf21512996dc57eb0615e2383e2f96'`,
		"only half of what is": `UPDATE risk_answers SET sealed = substr(sealed, 1, length(sealed) / 2), address = '0x098b716b8aaf21512996dc57eb0615e2383e2f96'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, ctx := pgtest.New(t), t.Context()
			clean, bad := says("A", None), says("A", Severe)
			p := panelOf(clean)
			p.Members[0].TTL, p.Answers = time.Hour, &AnswerStore{db, sealing(t)}
			other := sender
			other.Address = "0x198B716B8Aaf21512996dC57EB0615e2383E2f96"
			if strings.Contains(sql, "provider =") {
				clean.name, p.Members[0].Screener = "B", says("B", None)
			}
			if _, err := p.Screen(ctx, other); err != nil {
				t.Fatal(err)
			}
			if _, err := pgtest.OwnerPool(t, db).Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
			p.Members[0].Screener = bad
			if v, err := p.Screen(ctx, sender); err != nil || v.Severity != Severe || v.Cached {
				t.Errorf("got %+v %v, want it asked again", v, err)
			}
		})
	}
}

// Rule RISK-9.
func TestAnOldAnswerIsNotMadeYoungInTheDatabase(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	now := time.Now()
	p := panelOf(says("A", None))
	p.Members[0].TTL, p.Answers, p.Clock = time.Hour, &AnswerStore{db, sealing(t)}, func() time.Time { return now }
	if _, err := p.Screen(ctx, sender); err != nil {
		t.Fatal(err)
	}
	for _, later := range []string{"2 hours", "10 years"} {
		if _, err := pgtest.OwnerPool(t, db).Exec(
			ctx, `UPDATE risk_answers SET given_at = now() + $1::interval`, later,
		); err != nil {
			t.Fatal(err)
		}
		now = time.Now().Add(2 * time.Hour)
		p.Members[0].Screener = says("A", Severe)
		if v, err := p.Screen(ctx, sender); err != nil || v.Severity != Severe || v.Cached {
			t.Errorf("%s later: got %+v %v, want it asked again", later, v, err)
		}
	}
}

// readers are chains of two families, with their address codecs alone.
var readers = chain.Chains{
	chain.Ethereum: {Name: chain.Ethereum, AddressCodec: evmtx.AddressCodec{ChainID: 1}},
	chain.Bitcoin:  {Name: chain.Bitcoin, AddressCodec: bitcointx.AddressCodec{Network: chain.Mainnet}},
	chain.Solana:   {Name: chain.Solana, AddressCodec: solanatx.AddressCodec{}},
}

// Rule RISK-15.
func TestTheLocalListTakesNoMistypedAddress(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	put := func(address string) error {
		return db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := SetLocalEntry(ctx, tx, readers, audit.Operator("op"),
				LocalListEntry{Address: address, Severity: Severe})
			return err
		})
	}
	for _, address := range []string{
		"nonsense", "a", strings.Repeat("a", 200),
		"0x098B716B8Aaf21512996dC57EB0615e2383E2f9",     // one digit too few
		"0x098B716B8Aaf21512996dC57EB0615e2383E2F96",    // one letter with the wrong case, so the checksum is wrong
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",            // a wrong checksum
		"tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx",    // of another network
		"TNPeeaaFB7K9cmo4uQpcU32zGK8G1NYqeL",            // of a chain that is not configured
		"EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1vX", // a letter too many
	} {
		if err := put(address); !fault.HasCode(err, fault.InvalidAddress) {
			t.Errorf("%s: got %v, want %s", address, err, fault.InvalidAddress)
		}
	}
	for _, address := range []string{
		"0x098B716B8Aaf21512996dC57EB0615e2383E2f96", "0x098b716b8aaf21512996dc57eb0615e2383e2f96",
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
		"9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM",
	} {
		if err := put(address); err != nil {
			t.Errorf("%s: got %v, want it on the list", address, err)
		}
	}
}

func TestTheLocalListSaysWhatWasPutOnIt(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	score := 98
	const listed, silent, odd = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96",
		"0x198b716b8aaf21512996dc57eb0615e2383e2f96", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, e := range []LocalListEntry{
			{Address: listed, Severity: Low},
			{
				Address: strings.ToLower(listed), Severity: Severe, Score: &score, Entity: "OFAC SDN: Lazarus",
				Categories: []string{"SANCTIONS"},
			},
			{Address: silent, Outage: true},
			{Address: odd, Severity: Unknown},
		} {
			if _, err := SetLocalEntry(ctx, tx, readers, audit.Operator("op"), e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &Panel{Members: []Member{{Screener: LocalScreener{db}}}}
	ask := func(address string) (Verdict, error) {
		return p.Screen(ctx, Subject{Chain: chain.Ethereum, Address: chain.Address(address)})
	}
	if v, err := ask("0x00000000000000000000000000000000000000aa"); err != nil || v.Severity != Low || !v.IsKnown ||
		v.Provider != LocalName {
		t.Errorf("a fresh sender: got %+v %v, want LOW", v, err)
	}
	if v, err := ask(listed); err != nil || v.Severity != Severe || *v.Score != 98 || v.Entity != "OFAC SDN: Lazarus" ||
		len(v.Categories) != 1 {
		t.Errorf("a listed one: got %+v %v, want what the list says", v, err)
	}
	if v, err := ask(odd); err != nil || v.Severity != Unknown || v.IsKnown {
		t.Errorf("an unknown one: got %+v %v, want it unknown", v, err)
	}
	if _, err := ask(silent); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an outage: got %v, want unavailable", err)
	}
	var all pagination.Result[LocalListEntry]
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		all, err = ListLocalEntries(ctx, tx, pagination.Page{})
		return err
	})
	if err != nil || len(all.Items) != 3 {
		t.Errorf("got %d entries %v, want 3", len(all.Items), err)
	}
	clear := func(address string) error {
		return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := DeleteLocalEntry(ctx, tx, audit.Operator("op"), address)
			return err
		})
	}
	if err := clear(silent); err != nil {
		t.Error(err)
	}
	if err := clear(silent); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("cleared twice: got %v, want NOT_FOUND", err)
	}
	if v, err := ask(silent); err != nil || v.Severity != Low {
		t.Errorf("after the outage: got %+v %v, want LOW", v, err)
	}
}

func TestTheLocalListRefusesWhatSaysNothing(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	low, high := -1, 101
	for name, e := range map[string]LocalListEntry{
		"no address":         {Severity: Low},
		"a space":            {Address: "0x 1", Severity: Low},
		"a long address":     {Address: strings.Repeat("a", 201), Severity: Low},
		"a control":          {Address: "a\x00b", Severity: Low},
		"no severity":        {Address: "a"},
		"another severity":   {Address: "a", Severity: "low"},
		"a score below":      {Address: "a", Severity: Low, Score: &low},
		"a score above":      {Address: "a", Severity: Low, Score: &high},
		"outage and more":    {Address: "a", Outage: true, Severity: Low},
		"outage, categories": {Address: "a", Outage: true, Categories: []string{"x"}},
		"a long entity":      {Address: "a", Severity: Low, Entity: strings.Repeat("a", 201)},
		"a hidden entity":    {Address: "a", Severity: Low, Entity: "a\u202eb"},
		"an empty category":  {Address: "a", Severity: Low, Categories: []string{""}},
		"many categories":    {Address: "a", Severity: Low, Categories: strings.Split(strings.Repeat("a,", 21), ",")},
	} {
		err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := SetLocalEntry(ctx, tx, readers, audit.Operator("op"), e)
			return err
		})
		if !fault.HasCode(err, fault.InvalidRequest) {
			t.Errorf("%s: got %v, want INVALID_REQUEST", name, err)
		}
	}
}
