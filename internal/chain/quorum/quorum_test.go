package quorum

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

type node string

func (n node) String() string { return string(n) }

func TestATallyNeedsAMajorityOfThoseWhoSpoke(t *testing.T) {
	t.Parallel()
	one := tally[node, string]{votes: map[string][]node{}}
	for _, v := range []struct {
		hash    string
		final   bool
		err     error
		votes   int
		against int
	}{
		{"a", true, nil, 1, 0},
		{"b", false, nil, 1, 0}, // not final there: no vote
		{"a", true, nil, 2, 0},
		{"b", true, nil, 2, 1},
		{"b", false, errors.New("silent"), 2, 1},
	} {
		one.addVote(Answer[node, Vote[string]]{"p", Vote[string]{v.final, v.hash}, v.err})
		if hash, by := one.findWinner(); hash != "a" || len(by) != v.votes || one.countAgainst(by) != v.against {
			t.Errorf("got %s with %d against %d, want a with %d against %d", hash, len(by), one.countAgainst(by),
				v.votes, v.against)
		}
	}
}

func TestWhatIsFinalIsAgreedUpon(t *testing.T) {
	t.Parallel()
	silent := errors.New("silent")
	for name, c := range map[string]struct {
		votes map[node]string // "" not final there, "!" an error
		agree int
		want  string
		err   error
	}{
		"all":                  {map[node]string{"1": "a", "2": "a", "3": "a"}, 2, "a", nil},
		"enough":               {map[node]string{"1": "a", "2": "a", "3": "!"}, 2, "a", nil},
		"a liar among three":   {map[node]string{"1": "a", "2": "a", "3": "b"}, 2, "a", nil},
		"one against one":      {map[node]string{"1": "a", "2": "b"}, 1, "", chain.ErrDisagreement},
		"two against two":      {map[node]string{"1": "a", "2": "b", "3": "a", "4": "b"}, 2, "", chain.ErrDisagreement},
		"too few are there":    {map[node]string{"1": "a", "2": "", "3": ""}, 2, "", chain.ErrNotYet},
		"too few who answered": {map[node]string{"1": "a", "2": "!", "3": "!"}, 2, "", silent},
	} {
		got, by, err := AgreeOnHash(t.Context(), []node{"1", "2", "3", "4"}[:len(c.votes)], c.agree,
			func(_ context.Context, n node) (Vote[string], error) {
				if c.votes[n] == "!" {
					return Vote[string]{}, silent
				}
				return Vote[string]{c.votes[n] != "", c.votes[n]}, nil
			})
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (len(by) >= c.agree) {
			t.Errorf("%s: got %q by %v, %v, want %q, %v", name, got, by, err, c.want, c.err)
		}
	}
}

func TestOneThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		answers := AskAll(t.Context(), []node{"hangs", "says"}, 1, func(ctx context.Context, n node) (string, error) {
			if n == "hangs" {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "yes", nil
		})
		if answers[1].Value != "yes" || answers[0].Err == nil || time.Since(began) != graceAfterQuorum {
			t.Errorf("got %+v after %v, want one answer after %v", answers, time.Since(began), graceAfterQuorum)
		}
	})
}

func TestTheFirstThatAnswersIsTaken(t *testing.T) {
	t.Parallel()
	providers := Rotate([]node{"1", "2", "3"}, 7)
	if !slices.Equal(providers, []node{"2", "3", "1"}) {
		t.Errorf("from the second: got %v", providers)
	}
	var asked []node
	got, err := FirstAnswer(t.Context(), providers, func(_ context.Context, n node) (node, error) {
		asked = append(asked, n)
		if n == "2" {
			return "", errors.New("silent")
		}
		return n, nil
	})
	if err != nil || got != "3" || len(asked) != 2 {
		t.Errorf("got %s, %v of %v, want the second that was asked", got, err, asked)
	}
}
