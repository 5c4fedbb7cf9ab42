// Package quorum queries several providers of one chain and compares their answers. It holds what
// the adapters have in common: which providers are asked, how long slow ones are waited for, and
// when a quorum agrees on a final block, its contents, balances and the outcome of a payment.
//
// It knows no chain and makes no request itself; a question is a function of the adapter. It keeps
// no answer, so a crash leaves nothing.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

// graceAfterQuorum is how long the other providers may take once a quorum has answered.
const graceAfterQuorum = 2 * time.Second

// Answer is what one provider answered.
type Answer[P, T any] struct {
	Provider P
	Value    T
	Err      error
}

// AskAll puts a question to all providers at once and returns their answers in the order of the
// providers. Once quorumSize providers have answered, the others have graceAfterQuorum left: one
// that hangs must not delay what the others can settle.
func AskAll[P, T any](
	ctx context.Context, providers []P, quorumSize int, question func(context.Context, P) (T, error),
) []Answer[P, T] {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type numbered struct {
		i int
		Answer[P, T]
	}
	results := make(chan numbered, len(providers))
	for i, p := range providers {
		go func() {
			v, err := question(ctx, p)
			results <- numbered{i, Answer[P, T]{p, v, err}}
		}()
	}
	answers := make([]Answer[P, T], len(providers))
	var timeout <-chan time.Time
	for got := 0; got < len(providers); {
		select {
		case n := <-results:
			answers[n.i] = n.Answer
			got++
			if n.Err == nil {
				if quorumSize--; quorumSize == 0 {
					timeout = time.After(graceAfterQuorum)
				}
			}
		case <-timeout:
			cancel()
		}
	}
	return answers
}

// FirstAnswer puts a question to one provider after the other until one answers. Error: the errors
// of all that were asked.
func FirstAnswer[P, T any](
	ctx context.Context, providers []P, question func(context.Context, P) (T, error),
) (T, error) {
	var errs []error
	for _, p := range providers {
		v, err := question(ctx, p)
		if err == nil {
			return v, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	var zero T
	return zero, errors.Join(errs...)
}

// Rotate returns the providers beginning with the one at a number, which may be any number.
func Rotate[P any](providers []P, start uint32) []P {
	n := int(start % uint32(len(providers)))
	return slices.Concat(providers[n:], providers[:n])
}

// Vote is what a provider has at a height.
type Vote[H any] struct {
	Final bool // the provider calls the height final
	Hash  H
}

// Provider is a provider with a printable name, which holds no secret.
type Provider interface {
	comparable
	String() string
}

// HeadKeeper is a provider that keeps the heights that it gave, for people.
type HeadKeeper interface{ KeepHeads(heads chain.Heads) }

// ContradictionKeeper is a provider that keeps when it contradicted the quorum about a final block, for people.
type ContradictionKeeper interface{ KeepContradiction() }

// AgreeOnHash returns the hash that at least quorumSize providers call final, and more than any
// other hash, with those providers. It does not wait for answers that could not change that.
// Errors: chain.ErrDisagreement if several hashes are called final and none has won,
// chain.ErrNotYet if too few providers call any final, otherwise the providers' errors.
func AgreeOnHash[P Provider, H comparable](
	ctx context.Context, providers []P, quorumSize int, vote func(context.Context, P) (Vote[H], error),
) (H, []P, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan Answer[P, Vote[H]], len(providers))
	for _, p := range providers {
		go func() {
			s, err := vote(ctx, p)
			answers <- Answer[P, Vote[H]]{p, s, err}
		}()
	}
	t := tally[P, H]{votes: map[H][]P{}}
	for open := len(providers) - 1; open >= 0; open-- {
		t.addVote(<-answers)
		if hash, voters := t.findWinner(); len(voters) >= quorumSize && len(voters) > t.countAgainst(voters)+open {
			t.keepContradictions(voters)
			return hash, voters, nil
		}
	}
	var zero H
	switch {
	case len(t.votes) > 1:
		t.keepContradictions(nil)
		return zero, nil, fmt.Errorf("%s: %w", t, chain.ErrDisagreement)
	case t.final+len(t.errs) < quorumSize:
		return zero, nil, chain.ErrNotYet
	}
	return zero, nil, errors.Join(t.errs...)
}

// tally counts the votes of providers at a height.
type tally[P Provider, H comparable] struct {
	votes map[H][]P
	final int // number of all votes
	errs  []error
}

func (t *tally[P, H]) addVote(a Answer[P, Vote[H]]) {
	switch {
	case a.Err != nil:
		t.errs = append(t.errs, a.Err)
	case a.Value.Final:
		t.votes[a.Value.Hash] = append(t.votes[a.Value.Hash], a.Provider)
		t.final++
	}
}

func (t *tally[P, H]) findWinner() (hash H, voters []P) {
	for h, v := range t.votes {
		if len(v) > len(voters) {
			hash, voters = h, v
		}
	}
	return hash, voters
}

func (t *tally[P, H]) countAgainst(voters []P) int { return t.final - len(voters) }

// keepContradictions tells the providers that voted for another hash than the winners. Without a winner each of
// them contradicts another one.
func (t *tally[P, H]) keepContradictions(winners []P) {
	for _, voters := range t.votes {
		for _, p := range voters {
			if keeper, ok := any(p).(ContradictionKeeper); ok && !slices.Contains(winners, p) {
				keeper.KeepContradiction()
			}
		}
	}
}

// String says which provider voted for which hash.
func (t tally[P, H]) String() string {
	var lines []string
	for h, v := range t.votes {
		for _, p := range v {
			lines = append(lines, fmt.Sprintf("%s has %v", p, h))
		}
	}
	return strings.Join(lines, ", ")
}
