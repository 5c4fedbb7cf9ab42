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
	Provider string // its name
	Is, Want string // what it has, and what it would have
}

// Error says what to do.
func (e *WrongNetworkError) Error() string {
	return fmt.Sprintf("%s is on %s, not %s: give the endpoint of the right network", e.Provider, e.Is, e.Want)
}

// Greet greets all providers, and others beside them who do not count among those that
// have to agree. Error: one is of another network (WrongNetworkError), or fewer than agree
// answer (chain.ErrSilent).
func Greet[P any](ctx context.Context, of []P, agree int, greet func(context.Context, P) error, beside ...P) error {
	all := slices.Concat(of, beside)
	var wrong, silent []error
	greeted := 0
	for i, g := range Ask(ctx, all, len(all), func(ctx context.Context, p P) (struct{}, error) { return struct{}{}, greet(ctx, p) }) {
		switch {
		case g.Err == nil && i < len(of):
			greeted++
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
	case greeted < agree:
		return fmt.Errorf("%w: %w", chain.ErrSilent, errors.Join(silent...))
	}
	return nil
}

// Heads asks all providers at once. The final head is the highest that agree of them have
// reached; the latest is of the first one that answers. Error: fewer than agree answer.
func Heads[P any](ctx context.Context, of []P, agree int, heads func(context.Context, P) (chain.Heads, error)) (chain.Heads, error) {
	var seen []chain.Heads
	var errs []error
	for _, h := range Ask(ctx, of, agree, heads) {
		if h.Err != nil {
			errs = append(errs, h.Err)
			continue
		}
		seen = append(seen, h.Value)
	}
	if len(seen) < agree {
		return chain.Heads{}, errors.Join(errs...)
	}
	latest := seen[0].Latest
	slices.SortStableFunc(seen, func(x, y chain.Heads) int { return cmp.Compare(y.Final.Height, x.Final.Height) })
	return chain.Heads{Latest: latest, Final: seen[agree-1].Final}, nil
}

// Send gives a transaction to all providers at once. The answer is the best of theirs,
// with what each of them said.
func Send[P fmt.Stringer](ctx context.Context, of []P, give func(context.Context, P) (chain.Answer, error)) (chain.Answer, string) {
	best := chain.Unknown
	var said []string
	for _, s := range Ask(ctx, of, 1, give) {
		if s.Value == chain.Accepted || best == chain.Unknown {
			best = s.Value
		}
		if s.Err != nil {
			said = append(said, Short(s.Err.Error()))
		} else {
			said = append(said, s.From.String()+": accepted")
		}
	}
	return best, strings.Join(said, "; ")
}

// Seen has all providers look, and waits for every one: the one that finds something also
// has a block to read, and takes longer than those that have nothing. It gives what was
// found, in the order of the providers, how many found nothing, and what went wrong.
func Seen[P, T any](ctx context.Context, of []P, look func(context.Context, P) (*T, error)) (found []*T, none int, err error) {
	var errs []error
	for _, o := range Ask(ctx, of, len(of), look) {
		switch {
		case o.Err != nil:
			errs = append(errs, o.Err)
		case o.Value != nil:
			found = append(found, o.Value)
		default:
			none++
		}
	}
	return found, none, errors.Join(errs...)
}

// Outcome is what became of transactions where no block proves it: agree providers have to
// give the same. Where fewer have it so far it is chain.ErrNotYet. Nil, nowhere, is only
// said when agree have looked and nobody has it.
func Outcome[P any](ctx context.Context, of []P, agree int, same func(a, b *chain.Outcome) bool, look func(context.Context, P) (*chain.Outcome, error)) (*chain.Outcome, error) {
	found, none, err := Seen(ctx, of, look)
	differ := false
	for _, o := range found {
		votes := 0
		for _, other := range found {
			if same(o, other) {
				votes++
			}
		}
		if votes >= agree {
			return o, nil
		}
		differ = differ || votes < len(found)
	}
	switch {
	case differ:
		return nil, errors.Join(chain.ErrDisagreement, err)
	case len(found) > 0:
		return nil, errors.Join(fmt.Errorf("%d of the %d providers that have to agree have it: %w", len(found), agree, chain.ErrNotYet), err)
	case none >= agree && !errors.Is(err, chain.ErrNotYet):
		return nil, nil
	case err == nil:
		err = chain.ErrNotYet // never nowhere
	}
	return nil, err
}
