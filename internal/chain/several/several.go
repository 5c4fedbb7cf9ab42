// Package several asks several providers of one chain and weighs what they say. It is
// what the adapters have in common: who is asked, how long the slow ones are waited
// for, and when enough agree on a final block, on what is in it, on balances and on what
// became of a payment.
//
// It knows no chain and makes no request itself; what is asked is a function of the
// adapter. No answer is kept, so a crash leaves nothing.
package several

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

// graceAfterEnough is how long the others may take once enough have answered.
const graceAfterEnough = 2 * time.Second

// Answer is what one provider said.
type Answer[P, T any] struct {
	From  P
	Value T
	Err   error
}

// Ask puts a question to all providers at once and gives their answers in the
// order of the providers. Once enough have answered, the others have a moment
// left: one that hangs must not hold up what the rest could settle.
func Ask[P, T any](ctx context.Context, of []P, enough int, question func(context.Context, P) (T, error)) []Answer[P, T] {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type numbered struct {
		i int
		Answer[P, T]
	}
	said := make(chan numbered, len(of))
	for i, p := range of {
		go func() {
			v, err := question(ctx, p)
			said <- numbered{i, Answer[P, T]{p, v, err}}
		}()
	}
	answers := make([]Answer[P, T], len(of))
	var late <-chan time.Time
	for got := 0; got < len(of); {
		select {
		case n := <-said:
			answers[n.i] = n.Answer
			got++
			if n.Err == nil {
				if enough--; enough == 0 {
					late = time.After(graceAfterEnough)
				}
			}
		case <-late:
			cancel()
		}
	}
	return answers
}

// First puts a question to one provider after the other until one answers.
func First[P, T any](ctx context.Context, of []P, question func(context.Context, P) (T, error)) (T, error) {
	var errs []error
	for _, p := range of {
		v, err := question(ctx, p)
		if err == nil {
			return v, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	var none T
	return none, errors.Join(errs...)
}

// From is the providers beginning with the one at a number, which may be any.
func From[P any](of []P, at uint32) []P {
	n := int(at % uint32(len(of)))
	return slices.Concat(of[n:], of[:n])
}

// Sighting is what a provider has at a height.
type Sighting[H any] struct {
	Final bool // it calls the height final
	Hash  H
}

// Provider is one whose name may be told: it holds no secret.
type Provider interface {
	comparable
	String() string
}

// Agreed is the hash that at least agree providers call final, and more than call any
// other so, with those providers. It does not wait for answers that could not change
// that. Errors: chain.ErrDisagreement where several are called final and none has won,
// chain.ErrNotYet where too few call any final, else what went wrong.
func Agreed[P Provider, H comparable](ctx context.Context, of []P, agree int, sight func(context.Context, P) (Sighting[H], error)) (H, []P, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan Answer[P, Sighting[H]], len(of))
	for _, p := range of {
		go func() {
			s, err := sight(ctx, p)
			answers <- Answer[P, Sighting[H]]{p, s, err}
		}()
	}
	t := tally[P, H]{votes: map[H][]P{}}
	for open := len(of) - 1; open >= 0; open-- {
		t.add(<-answers)
		if hash, by := t.winner(); len(by) >= agree && len(by) > t.against(by)+open {
			return hash, by, nil
		}
	}
	var none H
	switch {
	case len(t.votes) > 1:
		return none, nil, fmt.Errorf("%s: %w", t, chain.ErrDisagreement)
	case t.final+len(t.errs) < agree:
		return none, nil, chain.ErrNotYet
	}
	return none, nil, errors.Join(t.errs...)
}

// A tally is how providers voted on a height.
type tally[P Provider, H comparable] struct {
	votes map[H][]P
	final int // votes in all
	errs  []error
}

func (t *tally[P, H]) add(a Answer[P, Sighting[H]]) {
	switch {
	case a.Err != nil:
		t.errs = append(t.errs, a.Err)
	case a.Value.Final:
		t.votes[a.Value.Hash] = append(t.votes[a.Value.Hash], a.From)
		t.final++
	}
}

func (t *tally[P, H]) winner() (hash H, by []P) {
	for h, v := range t.votes {
		if len(v) > len(by) {
			hash, by = h, v
		}
	}
	return hash, by
}

func (t *tally[P, H]) against(by []P) int { return t.final - len(by) }

// String says who voted for what.
func (t tally[P, H]) String() string {
	var said []string
	for h, v := range t.votes {
		for _, p := range v {
			said = append(said, fmt.Sprintf("%s has %v", p, h))
		}
	}
	return strings.Join(said, ", ")
}
