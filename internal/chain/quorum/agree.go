package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// AnswerBytesMax is how much of a provider's text is passed on.
const AnswerBytesMax = 300

// TruncateAnswer bounds a provider's text.
func TruncateAnswer(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), AnswerBytesMax)], "")
}

// AgreeOnAnswer asks firstBatch providers at once, then the others one after the other, until
// quorumSize of them give the same answer. Errors: chain.ErrDisagreement if answers differ and none
// has won, in addition to the providers' errors.
func AgreeOnAnswer[P, T any](
	ctx context.Context, providers []P, quorumSize, firstBatch int, equal func(a,
		b T) bool, question func(context.Context, P) (T, error),
) (T, error) {
	var values []T
	var votes []int
	var errs []error
	for n := firstBatch; len(providers) > 0; n = 1 {
		batch := providers[:min(n, len(providers))]
		providers = providers[len(batch):]
		for _, a := range AskAll(ctx, batch, len(batch), question) {
			if a.Err != nil {
				errs = append(errs, a.Err)
				continue
			}
			i := slices.IndexFunc(values, func(s T) bool { return equal(s, a.Value) })
			if i < 0 {
				i, values, votes = len(values), append(values, a.Value), append(votes, 0)
			}
			if votes[i]++; votes[i] >= quorumSize {
				return values[i], nil
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
	case len(values) > 1:
		err = errors.Join(fmt.Errorf("%d different answers: %w", len(values), chain.ErrDisagreement),
			errors.Join(errs...))
	case len(values) == 1:
		err = fmt.Errorf("%d of the %d providers of the quorum gave it: %w", votes[0], quorumSize, err)
	}
	var zero T
	return zero, err
}

// AgreeOnBalances asks one provider after the other until quorumSize of them give the same
// balances. A provider that answers with a *chain.NoBalanceError says that a token gives none. That
// is the answer for those holdings for which quorumSize providers say so. Errors: as of
// AgreeOnAnswer.
func AgreeOnBalances[P any](
	ctx context.Context, providers []P, quorumSize int, holdings []chain.Holding, ask func(context.Context,
		P) ([]money.Amount, error),
) ([]money.Amount, error) {
	silentVotes := map[chain.Holding]int{} // how many providers said that the token gives none
	silent := &chain.NoBalanceError{}
	answered := false
	amounts, err := AgreeOnAnswer(ctx, providers, quorumSize, 1, slices.Equal[[]money.Amount],
		func(ctx context.Context, p P) ([]money.Amount, error) {
			amounts, err := ask(ctx, p)
			answered = answered || err == nil
			var noBalance *chain.NoBalanceError
			if errors.As(err, &noBalance) {
				silent.Reason = noBalance.Reason
				for _, h := range noBalance.Holdings {
					silentVotes[h]++
				}
				// As text only: one provider's error must not pass for the agreed answer.
				err = errors.New(err.Error())
			}
			return amounts, err
		})
	if err == nil {
		return amounts, nil
	}
	for _, h := range holdings {
		if silentVotes[h] >= quorumSize && !slices.Contains(silent.Holdings, h) {
			silent.Holdings = append(silent.Holdings, h)
		}
	}
	switch {
	case len(silent.Holdings) > 0:
		err = silent
	case answered && len(silentVotes) > 0:
		err = errors.Join(chain.ErrDisagreement, err)
	}
	return nil, err
}

// AgreeOnContents returns the contents of a block that quorumSize providers give, with their
// number. It asks that many at once, first those that voted for the block's hash. It asks the
// others only if those do not give the same contents: a provider that gives the contents gives the
// hash again. Errors: as of AgreeOnAnswer.
func AgreeOnContents[P comparable](
	ctx context.Context, providers, voters []P, quorumSize int, read func(context.Context, P) (chain.Contents, error),
) (chain.Contents, error) {
	for _, p := range providers {
		if !slices.Contains(voters, p) {
			voters = append(voters, p)
		}
	}
	got, err := AgreeOnAnswer(ctx, voters, quorumSize, quorumSize, func(a, b chain.Contents) bool {
		return slices.Equal(a.Transfers, b.Transfers) && slices.Equal(a.Fees, b.Fees) &&
			maps.Equal(a.Mentioned, b.Mentioned)
	}, read)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("what is in it: %w", err)
	}
	got.Providers = quorumSize
	return got, nil
}
