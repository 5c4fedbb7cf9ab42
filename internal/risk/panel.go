package risk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/cofferpay/coffer/internal/chain"
)

// How a provider is asked, unless its member says otherwise.
const (
	tryTimeout = 5 * time.Second
	triesMax   = 3
	askTimeout = 30 * time.Second // of all tries of one provider, waits included
	pauseFirst = 500 * time.Millisecond
)

// Member is one provider of a panel.
type Member struct {
	Screener Screener
	// Keep is how long an answer may be used again; 0: each time anew.
	Keep time.Duration
	// Limit bounds how often it is asked by this process; nil: no bound. A request
	// that would have to wait beyond its time is unavailable.
	Limit *rate.Limiter
}

// Panel asks several providers at once. The highest severity wins.
type Panel struct {
	Members []Member
	// Quorum is how many must answer; 0: all that know addresses of the chain.
	Quorum int
	// Answers keeps what they say; nil: nothing is kept and nothing used again.
	Answers *Answers
	Clock   func() time.Time // nil: the system's
	Log     *slog.Logger     // nil: the default

	// For tests; 0 are the constants above.
	tryTimeout, askTimeout, pause time.Duration
}

var _ Screener = (*Panel)(nil)

// Name is what stands for all of them where a single name is wanted.
func (p *Panel) Name() string { return "PANEL" }

// Covers tells whether enough members know addresses of a chain.
func (p *Panel) Covers(ch chain.Name) bool {
	n := len(p.covering(ch))
	return n > 0 && n >= p.Quorum
}

// Anew is a panel of the same members, under the same limits, that uses no answer again.
func (p *Panel) Anew() *Panel {
	out := *p
	out.Members = slices.Clone(p.Members)
	for i := range out.Members {
		out.Members[i].Keep = 0
	}
	return &out
}

func (p *Panel) covering(ch chain.Name) (all []Member) {
	for _, m := range p.Members {
		if m.Screener.Covers(ch) {
			all = append(all, m)
		}
	}
	return all
}

func (p *Panel) now() time.Time {
	if p.Clock != nil {
		return p.Clock()
	}
	return time.Now()
}

// said is what came of asking one member.
type said struct {
	verdict Verdict
	err     error
}

// Screen asks all members that know addresses of the chain, and waits for all of
// them. Error: ErrUnavailable when fewer answered than have to; the verdict then holds
// what the others said.
func (p *Panel) Screen(ctx context.Context, s Subject) (Verdict, error) {
	members := p.covering(s.Chain)
	needed := p.Quorum
	if needed <= 0 {
		needed = len(members)
	}
	if len(members) == 0 || len(members) < needed {
		return Verdict{}, Unavailable("%d providers that know addresses of %s are configured, %d are needed", len(members), Text(string(s.Chain)), max(needed, 1))
	}
	if s.Address == "" {
		return Verdict{}, Unavailable("nobody is known who could be asked about")
	}
	start := p.now()
	answers := make(chan int, len(members))
	all := make([]said, len(members))
	for i, m := range members {
		go func() {
			all[i].verdict, all[i].err = p.ask(ctx, m, s)
			answers <- i
		}()
	}
	for range members {
		<-answers
	}
	v, err := combine(members, all, needed)
	v.Latency = p.now().Sub(start)
	return v, err
}

// combine makes one verdict of all.
func combine(members []Member, all []said, needed int) (Verdict, error) {
	var out Verdict
	var of []Verdict
	var missing []Missing
	for i, a := range all {
		name := members[i].Screener.Name()
		if a.err != nil {
			missing = append(missing, Missing{name, Text(a.err.Error())})
			continue
		}
		of = append(of, a.verdict)
		if len(of) == 1 || worse(a.verdict, out) {
			out = a.verdict
		}
	}
	known := !slices.ContainsFunc(of, func(v Verdict) bool { return !v.Known })
	if len(all) > 1 {
		out.Of = of
	}
	out.Known, out.Missing = known && len(of) > 0, missing
	for _, v := range of { // an old answer of one makes the whole as old
		if v.At.Before(out.At) {
			out.At = v.At
		}
		out.Cached = out.Cached || v.Cached
	}
	if len(of) < needed {
		reasons := make([]string, len(missing))
		for i, m := range missing {
			reasons[i] = m.Provider + ": " + m.Reason
		}
		return out, Unavailable("%d of %d providers answered, %d have to: %s", len(of), len(all), needed, strings.Join(reasons, "; "))
	}
	return out, nil
}

// worse tells whether a has a higher severity; what is known is worse than what is not.
func worse(a, than Verdict) bool {
	rank := func(v Verdict) int { return slices.Index(Severities, v.Severity) }
	return rank(a) > rank(than)
}

// ask is one member's answer: one that is kept and still good, or a new one.
func (p *Panel) ask(ctx context.Context, m Member, s Subject) (v Verdict, err error) {
	name := m.Screener.Name()
	defer func() { // an adapter that panics on what a stranger sent is one that did not answer
		if r := recover(); r != nil {
			v, err = Verdict{}, Unavailable("could not be understood")
			p.log().LogAttrs(ctx, slog.LevelError, "a provider's adapter broke", slog.String("provider", name), slog.Any("panic", r))
		}
	}()
	if m.Keep > 0 && p.Answers != nil {
		switch kept, ok, err := p.Answers.latest(ctx, name, s, p.now().Add(-m.Keep)); {
		case err != nil: // what cannot be read is asked again
			p.log().LogAttrs(ctx, slog.LevelWarn, "a kept answer of a provider cannot be used", slog.String("provider", name), slog.Any("error", err))
		case ok:
			return kept, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, or(p.askTimeout, askTimeout))
	defer cancel()
	pause := or(p.pause, pauseFirst)
	for try := 1; ; try++ {
		v, err = p.once(ctx, m, s)
		if err == nil || try == triesMax || errors.Is(err, errFinal) {
			break
		}
		select {
		case <-ctx.Done():
			err = Unavailable("no answer within its time: %w", err)
			p.told(name, s, err)
			return Verdict{}, err
		case <-time.After(pause):
			pause *= 4
		}
	}
	if err != nil {
		p.told(name, s, err)
		return Verdict{}, err
	}
	if p.Answers != nil {
		// A decision that cannot be shown later is none.
		if err := p.Answers.keep(context.WithoutCancel(ctx), s, &v); err != nil {
			return Verdict{}, Unavailable("its answer was not kept: %w", err)
		}
	}
	return v, nil
}

// told logs a provider that gave no answer: somebody should look today, for deposits
// and withdrawals wait.
func (p *Panel) told(provider string, s Subject, err error) {
	p.log().LogAttrs(context.Background(), slog.LevelWarn, "a provider gave no answer", slog.String("provider", provider),
		slog.String("chain", string(s.Chain)), slog.String("direction", string(s.Direction)), slog.Any("error", err))
}

// once asks one time.
func (p *Panel) once(ctx context.Context, m Member, s Subject) (Verdict, error) {
	if m.Limit != nil {
		if err := m.Limit.Wait(ctx); err != nil {
			return Verdict{}, Unavailable("asked too often: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, or(p.tryTimeout, tryTimeout))
	defer cancel()
	start := p.now()
	v, err := m.Screener.Screen(ctx, s)
	if err == nil {
		v.tidy()
		v.Cached, v.AnswerID, v.Latency = false, "", p.now().Sub(start)
		err = v.check()
		if err == nil && v.Provider != m.Screener.Name() {
			err = fmt.Errorf("it answers as %s", v.Provider)
		}
	}
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, ErrUnavailable):
		return Verdict{}, err
	}
	return Verdict{}, Unavailable("%w", err)
}

// errFinal says that the same question gets the same answer now.
var errFinal = errors.New("not asked again")

// Final makes an ErrUnavailable that is not asked again at once, such as a key that is
// refused.
func Final(format string, args ...any) error {
	return fmt.Errorf("%w, %w: %w", ErrUnavailable, errFinal, fmt.Errorf(format, args...))
}

func (p *Panel) log() *slog.Logger {
	if p.Log != nil {
		return p.Log
	}
	return slog.Default()
}

func or(v, otherwise time.Duration) time.Duration {
	if v > 0 {
		return v
	}
	return otherwise
}
