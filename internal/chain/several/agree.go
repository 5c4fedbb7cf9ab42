package several

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// SaidBytesMax is how much of what strangers say is passed on.
const SaidBytesMax = 300

// Short bounds what strangers say.
func Short(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), SaidBytesMax)], "")
}

// Same asks so many providers at once, then the others one after the other, until agree
// give the same answer. Errors: chain.ErrDisagreement where answers differ and none has
// won, beside what went wrong.
func Same[P, T any](ctx context.Context, of []P, agree, first int, same func(a, b T) bool, question func(context.Context, P) (T, error)) (T, error) {
	var said []T
	var votes []int
	var errs []error
	for n := first; len(of) > 0; n = 1 {
		asked := of[:min(n, len(of))]
		of = of[len(asked):]
		for _, a := range Ask(ctx, asked, len(asked), question) {
			if a.Err != nil {
				errs = append(errs, a.Err)
				continue
			}
			i := slices.IndexFunc(said, func(s T) bool { return same(s, a.Value) })
			if i < 0 {
				i, said, votes = len(said), append(said, a.Value), append(votes, 0)
			}
			if votes[i]++; votes[i] >= agree {
				return said[i], nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		err = chain.ErrNotYet
	}
	switch {
	case len(said) > 1:
		err = errors.Join(fmt.Errorf("%d different answers: %w", len(said), chain.ErrDisagreement), errors.Join(errs...))
	case len(said) == 1:
		err = fmt.Errorf("%d of the %d providers that have to agree gave it: %w", votes[0], agree, err)
	}
	var none T
	return none, err
}

// Balances asks one provider after the other until agree give the same balances. One that
// answers with a *chain.SilentError says that a token gives none; that is the answer, for
// those of which agree say so. Errors: as of Same.
func Balances[P any](ctx context.Context, of []P, agree int, holdings []chain.Holding, ask func(context.Context, P) ([]money.Amount, error)) ([]money.Amount, error) {
	mute := map[chain.Holding]int{} // how many said that the token gives none
	silent := &chain.SilentError{}
	answered := false
	amounts, err := Same(ctx, of, agree, 1, slices.Equal[[]money.Amount], func(ctx context.Context, p P) ([]money.Amount, error) {
		amounts, err := ask(ctx, p)
		answered = answered || err == nil
		var none *chain.SilentError
		if errors.As(err, &none) {
			silent.Reason = none.Reason
			for _, h := range none.Of {
				mute[h]++
			}
			// In words only: one provider's must not pass for the agreed answer.
			err = errors.New(err.Error())
		}
		return amounts, err
	})
	if err == nil {
		return amounts, nil
	}
	for _, h := range holdings {
		if mute[h] >= agree && !slices.Contains(silent.Of, h) {
			silent.Of = append(silent.Of, h)
		}
	}
	switch {
	case len(silent.Of) > 0:
		err = silent
	case answered && len(mute) > 0:
		err = errors.Join(chain.ErrDisagreement, err)
	}
	return nil, err
}

// Contents are what agree providers say is in a block, with how many did. As many are
// asked at once, first those who voted for its hash; the others only when those do not say
// the same: who gives the contents gives the hash again. Errors: as of Same.
func Contents[P comparable](ctx context.Context, of, by []P, agree int, read func(context.Context, P) (chain.Contents, error)) (chain.Contents, error) {
	for _, p := range of {
		if !slices.Contains(by, p) {
			by = append(by, p)
		}
	}
	got, err := Same(ctx, by, agree, agree, func(a, b chain.Contents) bool {
		return slices.Equal(a.Transfers, b.Transfers) && slices.Equal(a.Fees, b.Fees)
	}, read)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("what is in it: %w", err)
	}
	got.Providers = agree
	return got, nil
}
