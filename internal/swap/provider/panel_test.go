package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

var (
	bitcoin = Token{Chain: chain.Bitcoin}
	tether  = Token{Chain: chain.Ethereum, Contract: "0xdac17f958d2ee523a2206206994597c13d831ec7"}
	silent  = slog.New(slog.DiscardHandler)
)

// fakeProvider answers as a test says.
type fakeProvider struct {
	name   string
	assets []Asset
	calls  atomic.Int64
	mu     sync.Mutex
	quote  func(ctx context.Context, ask Ask) (Offer, error)
	status func() (Report, error)
}

func (f *fakeProvider) Name() string { return f.name }

func (f *fakeProvider) Assets(context.Context) ([]Asset, error) {
	if f.assets == nil {
		return nil, Unavailable("no list")
	}
	return f.assets, nil
}

func (f *fakeProvider) Quote(ctx context.Context, ask Ask) (Offer, error) {
	f.calls.Add(1)
	f.mu.Lock()
	quote := f.quote
	f.mu.Unlock()
	return quote(ctx, ask)
}

func (f *fakeProvider) answer(quote func(ctx context.Context, ask Ask) (Offer, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quote = quote
}

func (f *fakeProvider) Status(context.Context, Ref, chain.TxHash) (Report, error) {
	return f.status()
}

var pair = []Asset{
	{Token: bitcoin, ID: "btc", Accepts: true, Delivers: true, AcceptsAny: true},
	{Token: tether, ID: "usdt", Accepts: true, Delivers: true, AcceptsAny: true},
}

func newFake(name string, quote func(ctx context.Context, ask Ask) (Offer, error)) *fakeProvider {
	return &fakeProvider{name: name, assets: pair, quote: quote}
}

// offers returns an answer with an amount and a least amount.
func offers(name string, out, least uint64) func(context.Context, Ask) (Offer, error) {
	return func(_ context.Context, ask Ask) (Offer, error) {
		offer := Offer{
			Provider: name, AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn, AmountOut: money.Units(out),
			MinAmountOut: money.Units(least),
		}
		if ask.IsFirm {
			offer.Raw, offer.Signed = []byte("{}"), signedquote.Quote{DepositAddress: "bc1q"}
		}
		return offer, nil
	}
}

func fails(err error) func(context.Context, Ask) (Offer, error) {
	return func(context.Context, Ask) (Offer, error) { return Offer{}, err }
}

func hangs(ctx context.Context, _ Ask) (Offer, error) {
	<-ctx.Done()
	return Offer{}, Unavailable("no answer: %w", ctx.Err())
}

// memorySuspensions keeps suspensions.
type memorySuspensions struct {
	mu      sync.Mutex
	names   []string
	reasons []string
	err     error
}

func (s *memorySuspensions) ListSuspended(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names), s.err
}

func (s *memorySuspensions) Suspend(_ context.Context, name, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.names, s.reasons = append(s.names, name), append(s.reasons, reason)
	return nil
}

func newTestPanel(suspensions Suspensions, fakes ...*fakeProvider) *Panel {
	var members []Member
	for _, f := range fakes {
		members = append(members, Member{Provider: f})
	}
	return NewPanel(members, suspensions, nil, silent)
}

func newAsk() Ask {
	return Ask{
		Origin: bitcoin, Destination: tether, AmountIn: money.Units(10_000), Recipient: "0x1", RefundTo: "bc1q",
		SlippageBps: 100, Deadline: time.Date(2026, 6, 23, 19, 0, 0, 0, time.UTC), MinAmountOut: money.Units(900),
	}
}

func TestTheBestOfferIsTheHighestThatTheCallerAccepts(t *testing.T) {
	t.Parallel()
	timedOut := Unavailable("%w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		first, second func(context.Context, Ask) (Offer, error)
		want          string // the order of the offers
		outcome       Outcome
		message       string
	}{
		"the higher one":            {offers("A", 1000, 990), offers("B", 1001, 991), "B A", "", ""},
		"two that are equal":        {offers("A", 1000, 990), offers("B", 1000, 995), "A B", "", ""},
		"exactly the least":         {offers("A", 909, 900), fails(errOpen), "A", "", ""},
		"higher, but less at least": {offers("A", 908, 899), offers("B", 905, 904), "B", "", ""},
		"one refuses":               {fails(Refused("A", "too low")), offers("B", 1000, 990), "B", "", ""},
		"both refuse": {
			fails(Refused("A", "too low")), fails(Refused("B", "no route")), "", Rejected, "A too low",
		},
		"only the second refuses": {fails(ErrNotServed), fails(Refused("B", "no route")), "", Rejected, "B no route"},
		"both are too low":        {offers("A", 900, 898), offers("B", 900, 899), "", Rejected, "B "},
		"too low and a refusal":   {fails(Refused("A", "no")), offers("B", 900, 899), "", Rejected, "B "},
		"a refusal and silence":   {fails(Refused("A", "too low")), fails(errOpen), "", TimedOut, ""},
		"too low and silence":     {offers("A", 900, 899), fails(Malformed("x")), "", TimedOut, ""},
		"both are silent":         {fails(timedOut), fails(Malformed("x")), "", TimedOut, ""},
		"one is not understood":   {fails(Malformed("x")), fails(Unavailable("503")), "", NotUnderstood, ""},
		"both are unavailable":    {fails(Unavailable("503")), fails(errors.New("reset")), "", NotReachable, ""},
		"neither serves it":       {fails(ErrNotServed), fails(ErrNotServed), "", NoProvider, ""},
		"an adapter panics": {
			func(context.Context, Ask) (Offer, error) { panic("out of range") }, offers("B", 1000, 990), "B", "", "",
		},
		"both adapters panic": {
			func(context.Context, Ask) (Offer, error) { panic("out of range") },
			func(context.Context, Ask) (Offer, error) { panic("out of range") }, "", NotUnderstood, "",
		},
		"under another name":           {offers("C", 1000, 990), offers("B", 950, 941), "B", "", ""},
		"more slippage than was asked": {offers("A", 1100, 950), offers("B", 950, 941), "B", "", ""},
		"a quote for another amount": {func(ctx context.Context, a Ask) (Offer, error) {
			a.AmountIn = money.Units(1)
			return offers("A", 2000, 1980)(ctx, a)
		}, offers("B", 950, 941), "B", "", ""},
		"a firm quote for a dry one": {func(ctx context.Context, a Ask) (Offer, error) {
			a.IsFirm = true
			return offers("A", 2000, 1980)(ctx, a)
		}, offers("B", 950, 941), "B", "", ""},
		"a dry quote that is distrusted": {fails(ErrUntrusted), fails(Refused("B", "no")), "", TimedOut, ""},
	} {
		p := newTestPanel(&memorySuspensions{}, newFake("A", c.first), newFake("B", c.second))
		got, err := p.Compare(t.Context(), newAsk())
		var names []string
		for _, o := range got {
			names = append(names, o.Provider)
		}
		var none *NoOfferError
		switch {
		case c.outcome == "" && (err != nil || strings.Join(names, " ") != c.want):
			t.Errorf("%s: got %v and %v, want %s", name, names, err, c.want)
		case c.outcome != "" && (!errors.As(err, &none) || none.Outcome != c.outcome || len(none.Reasons) != 2 ||
			c.outcome == Rejected && none.Provider+" "+none.Message != c.message ||
			c.outcome != Rejected && none.Provider+none.Message != ""):
			t.Errorf("%s: got %v and %+v, want %s %q", name, names, err, c.outcome, c.message)
		}
	}
}

func TestASilentProviderDoesNotHoldTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestPanel(&memorySuspensions{}, newFake("A", hangs), newFake("B", offers("B", 1000, 990)))
		start := time.Now()
		got, err := p.Compare(t.Context(), newAsk())
		if err != nil || len(got) != 1 || time.Since(start) != 3*time.Second {
			t.Errorf("got %v and %v after %s, want the offer of the other after 3 s", got, err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Compare(ctx, newAsk()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the caller's time", err)
		}
		synctest.Wait()
		<-time.After(10 * time.Second)
	})
}

func TestOnlyAProviderThatServesThePairIsAsked(t *testing.T) {
	t.Parallel()
	unknown, oneWay := newFake("A", offers("A", 1000, 990)), newFake("B", offers("B", 1000, 990))
	unknown.assets = pair[:1]
	oneWay.assets = []Asset{{Token: bitcoin, ID: "btc", Delivers: true}, pair[1]}
	noList := newFake("C", offers("C", 1000, 990))
	noList.assets = nil
	refusing := newFake("D", fails(Refused("D", "no")))
	p := newTestPanel(&memorySuspensions{}, unknown, oneWay, refusing)
	var none *NoOfferError
	if _, err := p.Compare(t.Context(), newAsk()); !errors.As(err, &none) || none.Outcome != Rejected {
		t.Errorf("got %v, want the refusal of the one that serves the pair", err)
	}
	// A provider whose assets are not known might serve it.
	p = newTestPanel(&memorySuspensions{}, noList, refusing)
	if _, err := p.Compare(t.Context(), newAsk()); !errors.As(err, &none) || none.Outcome != TimedOut {
		t.Errorf("got %v, want no refusal while a provider may serve the pair", err)
	}
	if n := unknown.calls.Load() + oneWay.calls.Load() + noList.calls.Load(); n != 0 {
		t.Errorf("got %d questions, want none", n)
	}
	for name, change := range map[string]func(*Ask){
		"no amount": func(a *Ask) { a.AmountIn = money.Zero },
		"itself": func(a *Ask) {
			a.Origin = Token{tether.Chain, chain.Address(strings.ToUpper(string(tether.Contract)))}
		},
		"no recipient":  func(a *Ask) { a.Recipient = "" },
		"no refund":     func(a *Ask) { a.RefundTo = "" },
		"no deadline":   func(a *Ask) { a.Deadline = time.Time{} },
		"all of it":     func(a *Ask) { a.SlippageBps = 10_001 },
		"less than all": func(a *Ask) { a.SlippageBps = -1 },
		"no chain":      func(a *Ask) { a.Origin.Chain = "" },
	} {
		ask := newAsk()
		change(&ask)
		if got, err := p.Compare(t.Context(), ask); err == nil || errors.As(err, &none) {
			t.Errorf("%s: got %v and %v, want the question refused", name, got, err)
		}
		if got, err := p.Firm(t.Context(), "D", ask); err == nil || isRefusal(err) {
			t.Errorf("%s: got %v and %v, want the question refused", name, got, err)
		}
	}
}

func TestASuspendedProviderGetsNoNewSwaps(t *testing.T) {
	t.Parallel()
	suspensions := &memorySuspensions{}
	a, b := newFake("A", offers("A", 1000, 990)), newFake("B", offers("B", 999, 990))
	p := newTestPanel(suspensions, a, b)
	suspensions.names = []string{"A"}
	got, err := p.Compare(t.Context(), newAsk())
	if err != nil || len(got) != 1 || got[0].Provider != "B" || a.calls.Load() != 0 {
		t.Errorf("got %v and %v, want the offer of the other one", got, err)
	}
	if _, err := p.Firm(t.Context(), "A", newAsk()); !errors.Is(err, ErrNotServed) || a.calls.Load() != 0 {
		t.Errorf("got %v, want no firm quote", err)
	}
	a.status = func() (Report, error) { return Report{Word: "its own"}, nil }
	if r, err := p.Status(t.Context(), "A", Ref{}, ""); err != nil || r.Word != "its own" {
		t.Errorf("got %v and %v of a suspended provider, whose open swaps have to be followed", r, err)
	}
	a.status = func() (Report, error) { panic("out of range") }
	if _, err := p.Status(t.Context(), "A", Ref{}, ""); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v of an adapter that panics, want an answer that is not understood", err)
	}
	if _, err := p.Status(t.Context(), "C", Ref{}, ""); !errors.Is(err, ErrNotServed) {
		t.Errorf("got %v of a provider that no configuration names, want that it is not served", err)
	}
	// Its silence does not stand against the refusal of the others.
	b.answer(fails(Refused("B", "no")))
	ask := newAsk()
	ask.AmountIn = money.Units(1)
	var none *NoOfferError
	if _, err := p.Compare(t.Context(), ask); !errors.As(err, &none) || none.Outcome != Rejected {
		t.Errorf("got %v, want a refusal", err)
	}
	suspensions.names = []string{"A", "B"}
	if _, err := p.Compare(t.Context(), newAsk()); !errors.As(err, &none) || none.Outcome != NoProvider {
		t.Errorf("got %v, want no provider", err)
	}
	// Where suspensions cannot be read, no provider is asked.
	before := b.calls.Load()
	suspensions.err = errors.New("no database")
	if _, err := p.Compare(t.Context(), newAsk()); err == nil || errors.As(err, &none) {
		t.Errorf("got %v, want the failure itself", err)
	}
	if _, err := p.Firm(t.Context(), "B", newAsk()); err == nil || b.calls.Load() != before {
		t.Errorf("got %v, want the failure itself", err)
	}
}

func TestAnUntrustedQuoteSuspendsItsProviderAtOnce(t *testing.T) {
	t.Parallel()
	suspensions := &memorySuspensions{}
	forged := CheckSigned(fmt.Errorf("%w: the recipient", signedquote.ErrOtherTerms))
	a := newFake("A", func(ctx context.Context, ask Ask) (Offer, error) {
		if ask.IsFirm {
			return Offer{}, forged
		}
		return offers("A", 1000, 990)(ctx, ask)
	})
	p := newTestPanel(suspensions, a, newFake("B", offers("B", 999, 990)))
	// The suspension is not stored, and holds in this process.
	p.suspensions = failingSuspensions{suspensions}
	if _, err := p.Firm(t.Context(), "A", newAsk()); !errors.Is(err, ErrUntrusted) {
		t.Fatalf("got %v, want the quote not trusted", err)
	}
	got, err := p.Compare(t.Context(), newAsk())
	if err != nil || len(got) != 1 || got[0].Provider != "B" {
		t.Errorf("got %v and %v, want the offer of the other one", got, err)
	}
	if _, err := p.Firm(t.Context(), "A", newAsk()); !errors.Is(err, ErrNotServed) || a.calls.Load() != 1 {
		t.Errorf("got %v after %d questions, want no further question", err, a.calls.Load())
	}
	// It is stored as soon as that is possible, once.
	p.suspensions = suspensions
	for range 2 {
		if _, err := p.Compare(t.Context(), newAsk()); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(suspensions.names, []string{"A"}) || !strings.Contains(suspensions.reasons[0], "the recipient") {
		t.Errorf("got %v for %v, want one suspension with its reason", suspensions.names, suspensions.reasons)
	}
	// A person lifts it.
	suspensions.names = nil
	if got, err := p.Compare(t.Context(), newAsk()); err != nil || len(got) != 2 {
		t.Errorf("got %v and %v, want both", got, err)
	}
}

type failingSuspensions struct{ *memorySuspensions }

func (failingSuspensions) Suspend(context.Context, string, string) error {
	return errors.New("no database")
}

func TestAFirmQuoteIsAtLeastWhatTheCallerAccepts(t *testing.T) {
	t.Parallel()
	p := newTestPanel(&memorySuspensions{}, newFake("A", offers("A", 909, 900)))
	ask := newAsk()
	offer, err := p.Firm(t.Context(), "A", ask)
	if err != nil || !offer.IsFirm() {
		t.Errorf("got %+v and %v, want an offer", offer, err)
	}
	ask.MinAmountOut = money.Units(901)
	var none *NoOfferError
	if offer, err := p.Firm(t.Context(), "A", ask); !errors.As(err, &none) || none.Outcome != Rejected {
		t.Errorf("got %+v and %v, want it rejected", offer, err)
	}
	if _, err := p.Firm(t.Context(), "Z", ask); !errors.Is(err, ErrNotServed) {
		t.Errorf("got %v, want no such provider", err)
	}
}

func TestTheSameDryQuoteIsSharedForThreeSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFake("A", func(ctx context.Context, ask Ask) (Offer, error) {
			<-time.After(time.Second)
			return offers("A", 1000, 990)(ctx, ask)
		})
		p := newTestPanel(&memorySuspensions{}, a)
		compare := func(ask Ask, isWanted bool) {
			t.Helper()
			if got, err := p.Compare(t.Context(), ask); (err == nil && len(got) == 1) != isWanted {
				t.Errorf("got %v and %v, want an offer: %t", got, err, isWanted)
			}
		}
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				ask := newAsk()
				// Neither the caller's name, time nor least amount make another question.
				ask.Reference, ask.Deadline = fmt.Sprint(i), ask.Deadline.Add(time.Duration(i))
				ask.MinAmountOut = money.Units(uint64(i))
				ask.Destination.Contract = chain.Address(strings.ToUpper(string(tether.Contract)))
				ask.Destination.Contract = "0x" + ask.Destination.Contract[2:]
				compare(ask, true)
			})
		}
		wg.Wait()
		<-time.After(3*time.Second - 1)
		compare(newAsk(), true)
		if n := a.calls.Load(); n != 1 {
			t.Errorf("got %d questions, want one", n)
		}
		ask := newAsk()
		ask.MinAmountOut = money.Units(991)
		compare(ask, false)
		<-time.After(1)
		compare(newAsk(), true)
		for i, change := range []func(*Ask){
			func(a *Ask) { a.AmountIn = money.Units(10_001) }, func(a *Ask) { a.Recipient = "0x2" },
			func(a *Ask) { a.RefundTo = "bc1p" }, func(a *Ask) { a.SlippageBps = 101 },
			func(a *Ask) { a.IsFlexible = true },
			func(a *Ask) { a.Origin, a.Destination = a.Destination, a.Origin },
		} {
			ask := newAsk()
			change(&ask)
			compare(ask, true)
			if n := a.calls.Load(); n != int64(3+i) {
				t.Errorf("got %d questions, want %d: it is another question", n, 3+i)
			}
		}
		// A refusal is shared, and what is no answer only with those who wait for it.
		for _, c := range []struct {
			err  error
			want int64
		}{{Refused("A", "no"), 1}, {Unavailable("503"), 3}} {
			<-time.After(time.Minute)
			a.answer(fails(c.err))
			before := a.calls.Load()
			for range 3 {
				compare(newAsk(), false)
			}
			if n := a.calls.Load() - before; n != c.want {
				t.Errorf("%v: got %d questions, want %d", c.err, n, c.want)
			}
		}
	})
}

func TestACallerThatGivesUpLeavesTheAnswerToTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFake("A", func(ctx context.Context, ask Ask) (Offer, error) {
			select {
			case <-ctx.Done():
				return Offer{}, ctx.Err()
			case <-time.After(time.Second):
				return offers("A", 1000, 990)(ctx, ask)
			}
		})
		p := newTestPanel(&memorySuspensions{}, a)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := p.Compare(ctx, newAsk()); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the caller's end", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if got, err := p.Compare(t.Context(), newAsk()); err != nil || len(got) != 1 {
				t.Errorf("got %v and %v, want the offer", got, err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if n := a.calls.Load(); n != 1 {
			t.Errorf("got %d questions, want one", n)
		}
	})
}

func TestTheBreakerOpensAfterFiveFailuresInAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFake("A", fails(Unavailable("503")))
		p := newTestPanel(&memorySuspensions{}, a)
		n := uint64(0)
		// Each question is another one, so that none is shared.
		ask := func() error {
			n++
			question := newAsk()
			question.AmountIn = money.Units(n)
			_, err := p.Compare(t.Context(), question)
			return err
		}
		fail := func(times int) {
			t.Helper()
			for range times {
				before := a.calls.Load()
				if err := ask(); err == nil || a.calls.Load() != before+1 {
					t.Fatalf("got %v after %d questions, want one that fails", err, a.calls.Load()-before)
				}
			}
		}
		expectClosed := func(after time.Duration) {
			t.Helper()
			before := a.calls.Load()
			var none *NoOfferError
			if err := ask(); !errors.As(err, &none) || none.Outcome != NotReachable || a.calls.Load() != before {
				t.Fatalf("after %s: got %v, want no question", after, err)
			}
		}
		fail(4)
		<-time.After(time.Minute + 1)
		fail(4) // the first four are too old
		a.answer(offers("A", 1000, 990))
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		a.answer(fails(Refused("A", "no")))
		for range 10 { // a refusal is an answer
			if err := ask(); !strings.Contains(err.Error(), string(Rejected)) {
				t.Fatal(err)
			}
		}
		if h := p.ListHealth(); len(h) != 1 || h[0].Provider != "A" || !h[0].OpenSince.IsZero() {
			t.Errorf("got %v, want it closed", h)
		}
		a.answer(fails(Malformed("a page")))
		opened := time.Now()
		fail(1) // the fifth
		if h := p.ListHealth(); !h[0].OpenSince.Equal(opened) {
			t.Errorf("got %v, want it open since %s", h, opened)
		}
		for _, pause := range []time.Duration{
			30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute,
			10 * time.Minute,
		} {
			expectClosed(pause)
			<-time.After(pause - 1)
			expectClosed(pause)
			<-time.After(1)
			fail(1) // the trial
		}
		// While a trial is under way there is no second one, and one that was given up is tried again.
		<-time.After(10 * time.Minute)
		release := make(chan struct{})
		a.answer(func(ctx context.Context, ask Ask) (Offer, error) {
			<-release
			return offers("A", 1000, 990)(ctx, ask)
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := ask(); err != nil {
				t.Errorf("the trial: %v", err)
			}
		})
		synctest.Wait()
		if _, err := p.Firm(t.Context(), "A", newAsk()); !errors.Is(err, errOpen) {
			t.Errorf("got %v, want no second trial", err)
		}
		close(release)
		wg.Wait()
		a.answer(offers("A", 1000, 990))
		for range 3 {
			if err := ask(); err != nil {
				t.Errorf("got %v, want it closed again", err)
			}
		}
		// A success forgot the old failures, and the pause begins anew.
		a.answer(fails(Unavailable("503")))
		fail(5)
		expectClosed(0)
		<-time.After(30 * time.Second)
		fail(1)
	})
}

func TestATrialThatTheCallerGaveUpIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFake("A", fails(Unavailable("503")))
		p := newTestPanel(&memorySuspensions{}, a)
		for range 5 {
			if _, err := p.Firm(t.Context(), "A", newAsk()); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
		}
		<-time.After(30 * time.Second)
		a.answer(hangs)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = p.Firm(ctx, "A", newAsk()) })
		synctest.Wait()
		cancel()
		wg.Wait()
		a.answer(offers("A", 1000, 990))
		if _, err := p.Firm(t.Context(), "A", newAsk()); err != nil {
			t.Errorf("got %v, want the next trial at once", err)
		}
	})
}

func TestALateAnswerChangesNoOpenBreaker(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 23, 12, 0, 0, 0, time.UTC)
	var b breaker
	late, _ := b.start(now)
	lateFailure, _ := b.start(now)
	for range breakerFailures {
		done, isAllowed := b.start(now)
		if !isAllowed {
			t.Fatal("it is open too early")
		}
		done(now, failed)
	}
	late(now, answered)
	lateFailure(now.Add(10*time.Second), failed)
	if _, isAllowed := b.start(now.Add(pauseFirst - 1)); isAllowed {
		t.Error("an answer to an old question closed the breaker")
	}
	done, isAllowed := b.start(now.Add(pauseFirst))
	if !isAllowed {
		t.Fatal("an old failure made the pause longer")
	}
	done(now.Add(pauseFirst), answered)
	if !b.openSince().IsZero() {
		t.Error("a trial that succeeds does not close it")
	}
}

func TestTheBudgetKeepsAShareForFirmQuotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFake("A", offers("A", 1000, 990))
		p := NewPanel([]Member{{Provider: a, QuotesPerMinute: 50}}, &memorySuspensions{}, nil, silent)
		dry := func(n int) error {
			ask := newAsk()
			ask.AmountIn = money.Units(uint64(n + 1))
			_, err := p.Compare(t.Context(), ask)
			return err
		}
		for i := range 37 {
			if err := dry(i); err != nil {
				t.Fatalf("question %d: %v", i, err)
			}
		}
		var none *NoOfferError
		if err := dry(37); !errors.As(err, &none) || none.Outcome != NotReachable {
			t.Errorf("got %v, want the budget kept", err)
		}
		// A question that is shared costs nothing.
		if err := dry(0); err != nil {
			t.Error(err)
		}
		for range 13 {
			if _, err := p.Firm(t.Context(), "A", newAsk()); err != nil {
				t.Error(err)
			}
		}
		if _, err := p.Firm(t.Context(), "A", newAsk()); !errors.Is(err, errBudget) || a.calls.Load() != 50 {
			t.Errorf("got %v after %d questions, want no more than 50", err, a.calls.Load())
		}
		if h := p.ListHealth(); !h[0].OpenSince.IsZero() {
			t.Error("a budget that is used up opened the breaker")
		}
		<-time.After(time.Minute - 1)
		if _, err := p.Firm(t.Context(), "A", newAsk()); !errors.Is(err, errBudget) {
			t.Errorf("got %v, want none before a minute is over", err)
		}
		<-time.After(1)
		if err := dry(38); err != nil {
			t.Errorf("got %v, want a new budget", err)
		}
	})
}

func TestAssetsAreKeptWhileTheProviderIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var isDown atomic.Bool
		cache := &AssetCache{Fetch: func(context.Context) ([]Asset, error) {
			calls.Add(1)
			<-time.After(time.Second)
			if isDown.Load() {
				return nil, Unavailable("503")
			}
			return pair, nil
		}}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got, err := cache.Assets(t.Context()); err != nil || len(got) != 2 {
					t.Errorf("got %v and %v, want the list", got, err)
				}
			})
		}
		wg.Wait()
		<-time.After(10*time.Minute - 1)
		if _, err := cache.Assets(t.Context()); err != nil || calls.Load() != 1 {
			t.Errorf("got %v after %d requests, want one for ten minutes", err, calls.Load())
		}
		isDown.Store(true)
		<-time.After(1)
		for range 3 {
			if got, err := cache.Assets(t.Context()); err != nil || len(got) != 2 {
				t.Errorf("got %v and %v, want the old list", got, err)
			}
		}
		if calls.Load() != 2 {
			t.Errorf("got %d requests, want one in ten seconds", calls.Load())
		}
		<-time.After(24 * time.Hour)
		for range 2 {
			if got, err := cache.Assets(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v and %v, want no list of yesterday", got, err)
			}
		}
		isDown.Store(false)
		<-time.After(10 * time.Second)
		if got, err := cache.Assets(t.Context()); err != nil || len(got) != 2 {
			t.Errorf("got %v and %v, want the list", got, err)
		}
		empty := &AssetCache{Fetch: func(ctx context.Context) ([]Asset, error) { <-ctx.Done(); return nil, ctx.Err() }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := empty.Assets(ctx); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the caller's time", err)
		}
		<-time.After(time.Minute)
	})
}

func TestATokenIsOneText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Token{
		"BITCOIN:native": {Chain: "BITCOIN"}, "ETHEREUM:0xDAC1": {"ETHEREUM", "0xdac1"},
		"SOLANA:EPjF": {"SOLANA", "EPjF"}, "TON:0xyz": {"TON", "0xyz"},
	} {
		got, err := ParseToken(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v and %v, want %v", text, got, err, want)
		}
		if again, err := ParseToken(got.String()); err != nil || again != got {
			t.Errorf("%s: got %v from its text, want it again", text, again)
		}
	}
	for _, text := range []string{"", "native", ":native", "BITCOIN:", "bitcoin:native", "BITCOIN"} {
		if got, err := ParseToken(text); err == nil {
			t.Errorf("%q: got %v, want no token", text, got)
		}
	}
}

// verifyingProvider is a fakeProvider whose quotes can be verified again.
type verifyingProvider struct {
	*fakeProvider
	err error
}

func (v verifyingProvider) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	return signedquote.Quote{DepositAddress: string(raw)}, v.err
}

// A quote that was stored is verified by the provider that made it, also while that is suspended, and by no other.
func TestAStoredQuoteIsVerifiedByItsProvider(t *testing.T) {
	t.Parallel()
	a, b := newFake("A", nil), newFake("B", nil)
	suspensions := &memorySuspensions{}
	p := NewPanel([]Member{{Provider: verifyingProvider{a, nil}}, {Provider: b}}, suspensions, nil, silent)
	p.SuspendFor(t.Context(), "A", "cs_1", ErrUntrusted)
	if q, err := p.VerifyQuote("A", []byte("x")); err != nil || q.DepositAddress != "x" {
		t.Errorf("got %+v and %v, want the quote", q, err)
	}
	for _, name := range []string{"B", "C"} {
		if _, err := p.VerifyQuote(name, []byte("x")); !errors.Is(err, ErrNotServed) {
			t.Errorf("%s: got %v, want that it cannot be verified", name, err)
		}
	}
}

// The tokens are the union of what healthy providers take in any amount for what they deliver.
func TestTheAssetsAreThoseOfHealthyProviders(t *testing.T) {
	t.Parallel()
	other := Token{Chain: "NEAR"}
	withOther := append(slices.Clone(pair), Asset{Token: other, ID: "near", Accepts: true, AcceptsAny: true},
		Asset{Token: Token{Chain: "TON"}, ID: "ton", Accepts: true}) // one amount alone
	a, b := newFake("A", nil), newFake("B", nil)
	b.assets = withOther
	list := func(p *Panel) (names []string, err error) {
		assets, err := p.ListAssets(t.Context(), tether)
		for _, asset := range assets {
			names = append(names, asset.Token.String())
		}
		return names, err
	}
	p := newTestPanel(&memorySuspensions{}, a, b)
	if got, err := list(p); err != nil || !slices.Equal(got, []string{bitcoin.String(), "NEAR:native"}) {
		t.Errorf("got %v and %v, want those of both", got, err)
	}
	p.SuspendFor(t.Context(), "B", "ds_1", ErrUntrusted)
	if got, err := list(p); err != nil || !slices.Equal(got, []string{bitcoin.String()}) {
		t.Errorf("got %v and %v, want those of the one that is not suspended", got, err)
	}
	a.assets = nil
	if _, err := list(p); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want that no provider answers", err)
	}
}
