package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
)

// WrongNetworkError says that a provider is on another network than the configured one.
type WrongNetworkError struct {
	Provider         string // its name
	Actual, Expected string // the provider's network and the configured one
}

// Error says what to do.
func (e *WrongNetworkError) Error() string {
	return fmt.Sprintf("%s is on %s, not %s: give the endpoint of the right network", e.Provider, e.Actual, e.Expected)
}

// HandshakeAll identifies all providers, and the uncounted ones, which do not count for the quorum.
// Error: one is on another network (WrongNetworkError), or fewer than the quorum answer
// (chain.ErrTooFewProviders).
func HandshakeAll[P any](
	ctx context.Context, providers []P, quorumSize int, handshake func(context.Context, P) error, uncounted ...P,
) error {
	targets := slices.Concat(providers, uncounted)
	var wrong, silent []error
	answered := 0
	for i, g := range AskAll(ctx, targets, len(targets),
		func(ctx context.Context, p P) (struct{}, error) { return struct{}{}, handshake(ctx, p) }) {
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

// AgreeOnHeads asks all providers at once. The final head is the highest that quorumSize of them
// have reached. The latest head is that of the first provider, in their order, that answers. Error:
// fewer than the quorum answer.
func AgreeOnHeads[P any](
	ctx context.Context, providers []P, quorumSize int, readHeads func(context.Context, P) (chain.Heads, error),
) (chain.Heads, error) {
	var answers []chain.Heads
	var errs []error
	for _, h := range AskAll(ctx, providers, quorumSize, readHeads) {
		if h.Err != nil {
			errs = append(errs, h.Err)
			continue
		}
		answers = append(answers, h.Value)
		if keeper, ok := any(h.Provider).(HeadKeeper); ok {
			keeper.KeepHeads(h.Value)
		}
	}
	if len(answers) < quorumSize {
		return chain.Heads{}, errors.Join(errs...)
	}
	latest := answers[0].Latest
	slices.SortStableFunc(answers, func(x, y chain.Heads) int { return cmp.Compare(y.Final.Height, x.Final.Height) })
	return chain.Heads{Latest: latest, Final: answers[quorumSize-1].Final}, nil
}

// SendToAll gives a transaction to all providers at once. It returns the best of their answers and
// the text of each.
func SendToAll[P fmt.Stringer](
	ctx context.Context, providers []P, send func(context.Context, P) (chain.Answer, error),
) (chain.Answer, string) {
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

// SearchAll has all providers search, and waits for every one. A provider that finds something also
// has to read a block, so it takes longer than those that find nothing. SearchAll returns the
// findings in the order of the providers, how many found nothing, and the errors.
func SearchAll[P, T any](
	ctx context.Context, providers []P, look func(context.Context, P) (*T, error),
) (found []*T, missing int, err error) {
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

// AgreeOnOutcome returns the outcome of transactions where no block proves it: quorumSize providers
// have to give the same. It returns chain.ErrNotYet while fewer have it. It returns nil, for "in no
// block", only if quorumSize providers have searched and none has it.
func AgreeOnOutcome[P any](
	ctx context.Context, providers []P, quorumSize int, equal func(a, b *chain.Outcome) bool, look func(context.Context,
		P) (*chain.Outcome, error),
) (*chain.Outcome, error) {
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
		return nil, errors.Join(fmt.Errorf("%d of the %d providers of the quorum have it: %w", len(found),
			quorumSize, chain.ErrNotYet), err)
	case missing >= quorumSize && !errors.Is(err, chain.ErrNotYet):
		return nil, nil
	case err == nil:
		err = chain.ErrNotYet // never nil without a quorum
	}
	return nil, err
}
