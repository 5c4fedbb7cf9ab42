package several

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
)

// WrongNetworkError is a provider of another network than the configured one.
type WrongNetworkError struct {
	Provider     string // its name
	Actual, Want string // what it has, and what it would have
}

// Error says what to do.
func (e *WrongNetworkError) Error() string {
	return fmt.Sprintf("%s is on %s, not %s: give the endpoint of the right network", e.Provider, e.Actual, e.Want)
}

// HandshakeAll greets all providers, and others beside them who do not count among those that
// have to agree. Error: one is of another network (WrongNetworkError), or fewer than agree
// answer (chain.ErrTooFewProviders).
func HandshakeAll[P any](ctx context.Context, providers []P, quorumSize int, handshake func(context.Context, P) error, uncounted ...P) error {
	targets := slices.Concat(providers, uncounted)
	var wrong, silent []error
	answered := 0
	for i, g := range AskAll(ctx, targets, len(targets), func(ctx context.Context, p P) (struct{}, error) { return struct{}{}, handshake(ctx, p) }) {
		switch {
		case g.Err == nil && i < len(providers):
			answered++
		case g.Err == nil:
		case errors.As(g.Err, new(*WrongNetworkError)):
			wrong = append(wrong, g.Err)
		default:
			silent = append(silent, g.Err)
		}
	}
	switch {
	case len(wrong) > 0:
		return errors.Join(append(wrong, silent...)...)
	case answered < quorumSize:
		return fmt.Errorf("%w: %w", chain.ErrTooFewProviders, errors.Join(silent...))
	}
	return nil
}

// AgreeOnHeads asks all providers at once. The final head is the highest that agree of them have
// reached; the latest is of the first one that answers. Error: fewer than agree answer.
func AgreeOnHeads[P any](ctx context.Context, providers []P, quorumSize int, readHeads func(context.Context, P) (chain.Heads, error)) (chain.Heads, error) {
	var answers []chain.Heads
	var errs []error
	for _, h := range AskAll(ctx, providers, quorumSize, readHeads) {
		if h.Err != nil {
			errs = append(errs, h.Err)
			continue
		}
		answers = append(answers, h.Value)
	}
	if len(answers) < quorumSize {
		return chain.Heads{}, errors.Join(errs...)
	}
	latest := answers[0].Latest
	slices.SortStableFunc(answers, func(x, y chain.Heads) int { return cmp.Compare(y.Final.Height, x.Final.Height) })
	return chain.Heads{Latest: latest, Final: answers[quorumSize-1].Final}, nil
}

// SendToAll gives a transaction to all providers at once. The answer is the best of theirs,
// with what each of them said.
func SendToAll[P fmt.Stringer](ctx context.Context, providers []P, send func(context.Context, P) (chain.Answer, error)) (chain.Answer, string) {
	best := chain.Unknown
	var texts []string
	for _, s := range AskAll(ctx, providers, 1, send) {
		if s.Value == chain.Accepted || best == chain.Unknown {
			best = s.Value
		}
		if s.Err != nil {
			texts = append(texts, TruncateAnswer(s.Err.Error()))
		} else {
			texts = append(texts, s.Provider.String()+": accepted")
		}
	}
	return best, strings.Join(texts, "; ")
}

// SearchAll has all providers look, and waits for every one: the one that finds something also
// has a block to read, and takes longer than those that have nothing. It gives what was
// found, in the order of the providers, how many found nothing, and what went wrong.
func SearchAll[P, T any](ctx context.Context, providers []P, look func(context.Context, P) (*T, error)) (found []*T, missing int, err error) {
	var errs []error
	for _, o := range AskAll(ctx, providers, len(providers), look) {
		switch {
		case o.Err != nil:
			errs = append(errs, o.Err)
		case o.Value != nil:
			found = append(found, o.Value)
		default:
			missing++
		}
	}
	return found, missing, errors.Join(errs...)
}

// AgreeOnOutcome is what became of transactions where no block proves it: agree providers have to
// give the same. Where fewer have it so far it is chain.ErrNotYet. Nil, nowhere, is only
// said when agree have looked and nobody has it.
func AgreeOnOutcome[P any](ctx context.Context, providers []P, quorumSize int, equal func(a, b *chain.Outcome) bool, look func(context.Context, P) (*chain.Outcome, error)) (*chain.Outcome, error) {
	found, missing, err := SearchAll(ctx, providers, look)
	differ := false
	for _, o := range found {
		votes := 0
		for _, candidate := range found {
			if equal(o, candidate) {
				votes++
			}
		}
		if votes >= quorumSize {
			return o, nil
		}
		differ = differ || votes < len(found)
	}
	switch {
	case differ:
		return nil, errors.Join(chain.ErrDisagreement, err)
	case len(found) > 0:
		return nil, errors.Join(fmt.Errorf("%d of the %d providers that have to agree have it: %w", len(found), quorumSize, chain.ErrNotYet), err)
	case missing >= quorumSize && !errors.Is(err, chain.ErrNotYet):
		return nil, nil
	case err == nil:
		err = chain.ErrNotYet // never nowhere
	}
	return nil, err
}
