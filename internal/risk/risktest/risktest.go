// Package risktest provides screeners with the behavior that a test needs: they answer, are down,
// hang, return invalid data, or recover at the second or third try.
//
// It uses no network, and its context ends every wait. It leaves nothing behind.
package risktest

import (
	"context"
	"errors"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/risk"
)

// Behavior is how a provider behaves, and the result that follows from it.
type Behavior struct {
	Name string
	// Result is the severity after all tries, UNKNOWN for an unknown address; "" if there is no
	// answer.
	Result risk.Severity
	screen func(ctx context.Context, name string, try int) (risk.Verdict, error)
}

// HasAnswer reports whether the behavior leads to an answer.
func (w Behavior) HasAnswer() bool { return w.Result != "" }

var errServer = errors.New("status 503")

func newVerdict(name string, s risk.Severity) risk.Verdict {
	return risk.Verdict{Provider: name, Severity: s, IsKnown: s != risk.Unknown, GivenAt: time.Now()}
}

func answersWith(s risk.Severity) func(context.Context, string, int) (risk.Verdict, error) {
	return func(_ context.Context, name string, _ int) (risk.Verdict, error) { return newVerdict(name, s), nil }
}

func recoversAt(firstSuccess int) func(context.Context, string, int) (risk.Verdict, error) {
	return func(_ context.Context, name string, try int) (risk.Verdict, error) {
		if try < firstSuccess {
			return risk.Verdict{}, errServer
		}
		return newVerdict(name, risk.Low), nil
	}
}

// Behaviors lists all behaviors.
var Behaviors = []Behavior{
	{"LOW", risk.Low, answersWith(risk.Low)},
	{"SEVERE", risk.Severe, answersWith(risk.Severe)},
	{"does not know it", risk.Unknown, answersWith(risk.Unknown)},
	{"refuses the key", "", func(context.Context, string, int) (risk.Verdict, error) {
		return risk.Verdict{}, risk.NotRetryable("status 403")
	}},
	{"is down", "", func(context.Context, string, int) (risk.Verdict, error) { return risk.Verdict{}, errServer }},
	{"hangs", "", func(ctx context.Context, _ string, _ int) (risk.Verdict, error) {
		<-ctx.Done()
		return risk.Verdict{}, ctx.Err()
	}},
	{"answers when its time is over", "", func(ctx context.Context, name string, _ int) (risk.Verdict, error) {
		<-ctx.Done()
		return risk.Verdict{}, errors.Join(ctx.Err(), errors.New(name+" says LOW, too late"))
	}},
	{"talks nonsense", "", func(_ context.Context, name string, _ int) (risk.Verdict, error) {
		v := newVerdict(name, "Lowish")
		return v, nil
	}},
	{"says nothing", "", func(context.Context, string, int) (risk.Verdict, error) { return risk.Verdict{}, nil }},
	{"breaks", "", func(context.Context, string, int) (risk.Verdict, error) { panic("out of range") }},
	{"comes back at the second try", risk.Low, recoversAt(2)},
	{"comes back at the third try", risk.Low, recoversAt(3)},
	{"would come back at the fourth try", "", recoversAt(4)},
}

// Provider behaves in one way. It serves one question.
type Provider struct {
	ProviderName string
	Behavior     Behavior
	tries        int
}

var _ risk.Screener = (*Provider)(nil)

// Name implements risk.Screener.
func (p *Provider) Name() string { return p.ProviderName }

// Covers implements risk.Screener.
func (p *Provider) Covers(chain.Name) bool { return true }

// Screen implements risk.Screener. Its tries must not be concurrent.
func (p *Provider) Screen(ctx context.Context, _ risk.Subject) (risk.Verdict, error) {
	p.tries++
	return p.Behavior.screen(ctx, p.ProviderName, p.tries)
}
