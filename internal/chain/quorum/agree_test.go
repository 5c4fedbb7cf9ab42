package quorum

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

var errSilent = errors.New("silent")

// answers is a question that every node answers with a word, or "!" for an error.
func answers(values map[node]string) func(context.Context, node) (string, error) {
	return func(_ context.Context, n node) (string, error) {
		if values[n] == "!" {
			return "", errSilent
		}
		return values[n], nil
	}
}

func equal(a, b string) bool { return a == b }

func TestOthersAreAskedUntilEnoughSayTheSame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said         string // of each node, in order
		agree, first int
		want         string
		err          error
	}{
		"the first":            {"aab", 2, 2, "a", nil},
		"a liar first":         {"baa", 2, 2, "a", nil},
		"one after the other":  {"b!aa", 2, 1, "a", nil},
		"nobody wins":          {"abc", 2, 2, "", chain.ErrDisagreement},
		"too few answer":       {"a!!", 2, 1, "", errSilent},
		"nobody answers":       {"!!!", 1, 3, "", errSilent},
		"fewer than must be":   {"a", 2, 1, "", chain.ErrNotYet},
		"nobody there is none": {"", 1, 1, "", chain.ErrNotYet},
	} {
		nodes, said := []node{"1", "2", "3", "4"}[:len(c.said)], map[node]string{}
		for i, n := range nodes {
			said[n] = c.said[i : i+1]
		}
		if got, err := AgreeOnAnswer(t.Context(), nodes, c.agree, c.first, equal, answers(said)); got != c.want ||
			!errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, c.want, c.err)
		}
	}
}

func TestATokenIsSilentWhenEnoughSaySo(t *testing.T) {
	t.Parallel()
	coin, token := chain.Holding{Address: "a"}, chain.Holding{Address: "a", Contract: "t"}
	five := []money.Amount{money.Units(5), money.Units(5)}
	mute := &chain.NoBalanceError{Holdings: []chain.Holding{token}, Reason: "reverted"}
	for name, c := range map[string]struct {
		said   []error // of each node; nil: five
		want   error
		silent bool
	}{
		"all give it":     {[]error{nil, nil}, nil, false},
		"enough are mute": {[]error{mute, nil, mute}, nil, true},
		"one is mute":     {[]error{mute, nil}, chain.ErrDisagreement, false},
		"one alone":       {[]error{mute, errSilent}, errSilent, false},
	} {
		nodes := []int{0, 1, 2}[:len(c.said)]
		got, err := AgreeOnBalances(t.Context(), nodes, 2, []chain.Holding{coin, token},
			func(_ context.Context, n int) ([]money.Amount, error) {
				return five, c.said[n]
			})
		var none *chain.NoBalanceError
		if errors.As(err, &none) != c.silent || c.silent && !slices.Equal(none.Holdings, mute.Holdings) {
			t.Errorf("%s: got %v, want a silent token: %v", name, err, c.silent)
		}
		if c.want == nil && !c.silent && !slices.Equal(got, five) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestNowhereIsNeverSaidTooEarly(t *testing.T) {
	t.Parallel()
	at := func(height uint64) *chain.Outcome { return &chain.Outcome{Tx: "x", Block: chain.Block{Height: height}} }
	type view struct {
		o   *chain.Outcome
		err error
	}
	for name, c := range map[string]struct {
		views  []view
		want   *chain.Outcome
		err    error
		failed bool
	}{
		"enough have it":        {[]view{{at(1), nil}, {}, {at(1), nil}}, at(1), nil, false},
		"too few have it":       {[]view{{at(1), nil}, {}, {}}, nil, chain.ErrNotYet, true},
		"they differ":           {[]view{{at(1), nil}, {at(2), nil}, {}}, nil, chain.ErrDisagreement, true},
		"enough have looked":    {[]view{{}, {}, {nil, errSilent}}, nil, nil, false},
		"too few have looked":   {[]view{{}, {nil, errSilent}, {nil, errSilent}}, nil, errSilent, true},
		"one has it in a block": {[]view{{}, {}, {nil, chain.ErrNotYet}}, nil, chain.ErrNotYet, true},
		"fewer than must agree": {[]view{{}}, nil, chain.ErrNotYet, true},
	} {
		nodes := []int{0, 1, 2}[:len(c.views)]
		got, err := AgreeOnOutcome(t.Context(), nodes, 2, func(a, b *chain.Outcome) bool {
			return *a == *b
		}, func(_ context.Context, n int) (*chain.Outcome, error) {
			return c.views[n].o, c.views[n].err
		})
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want || !errors.Is(err, c.err) ||
			(err != nil) != c.failed {
			t.Errorf("%s: got %v, %v, want %v, %v", name, got, err, c.want, c.err)
		}
	}
}

func TestEnoughHaveToBeGreeted(t *testing.T) {
	t.Parallel()
	wrong := &WrongNetworkError{"1", "chain 5", "1"}
	for name, c := range map[string]struct {
		said   []error // of two providers and an additional one
		failed error
	}{
		"all":                                {[]error{nil, nil, nil}, nil},
		"one is silent":                      {[]error{nil, errSilent, nil}, nil},
		"too few answer":                     {[]error{errSilent, errSilent, nil}, chain.ErrTooFewProviders},
		"the wrong network":                  {[]error{nil, nil, wrong}, wrong},
		"the wrong network, others are away": {[]error{errSilent, errSilent, wrong}, wrong},
		"one beside is silent":               {[]error{nil, nil, errSilent}, nil},
	} {
		err := HandshakeAll(t.Context(), []int{0, 1}, 1, func(_ context.Context, n int) error { return c.said[n] }, 2)
		if !errors.Is(err, c.failed) || errors.Is(err,
			chain.ErrTooFewProviders) != (c.failed == chain.ErrTooFewProviders) {
			t.Errorf("%s: got %v, want %v", name, err, c.failed)
		}
	}
}

func TestTheFinalHeadIsWhatEnoughHaveReached(t *testing.T) {
	t.Parallel()
	heads := func(_ context.Context, n int) (chain.Heads, error) {
		if n == 0 {
			return chain.Heads{}, errSilent
		}
		return chain.Heads{Latest: chain.Block{Height: uint64(10 * n)}, Final: chain.Block{Height: uint64(n)}}, nil
	}
	got, err := AgreeOnHeads(t.Context(), []int{2, 0, 3, 1}, 2, heads)
	if err != nil || got.Latest.Height != 20 || got.Final.Height != 2 {
		t.Errorf("got %+v, %v, want 20 of the first and 2 of the second highest", got, err)
	}
	if _, err := AgreeOnHeads(t.Context(), []int{0, 1}, 2, heads); !errors.Is(err, errSilent) {
		t.Errorf("too few: got %v, want why", err)
	}
}

func TestTheBestAnswerToATransactionCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ said, want chain.Answer }{
		{chain.Unknown, chain.Unknown}, {chain.Known, chain.Known}, {chain.Accepted, chain.Accepted},
	} {
		got, said := SendToAll(t.Context(), []node{"1", "2", "3"},
			func(_ context.Context, n node) (chain.Answer, error) {
				if n != "2" {
					return chain.Unknown, errSilent
				}
				return c.said, nil
			})
		if got != c.want || said != "silent; 2: accepted; silent" {
			t.Errorf("%v: got %v, %q", c.said, got, said)
		}
	}
}
