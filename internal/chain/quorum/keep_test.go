package quorum

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

// keeper is a provider that keeps what it gave.
type keeper struct {
	name, hash   string
	contradicted int
	heads        chain.Heads
}

func (k *keeper) String() string              { return k.name }
func (k *keeper) KeepHeads(heads chain.Heads) { k.heads = heads }
func (k *keeper) KeepContradiction()          { k.contradicted++ }

// A provider that gives another final block than the quorum is told, and so is each one while no quorum agrees.
// Rule PAGE-70.
func TestAProviderThatContradictsIsTold(t *testing.T) {
	t.Parallel()
	vote := func(_ context.Context, k *keeper) (Vote[string], error) { return Vote[string]{true, k.hash}, nil }
	one, two, liar := &keeper{name: "1", hash: "a"}, &keeper{name: "2", hash: "a"}, &keeper{name: "3", hash: "b"}
	said := tally[*keeper, string]{votes: map[string][]*keeper{}}
	for _, k := range []*keeper{one, two, liar} {
		said.addVote(Answer[*keeper, Vote[string]]{k, Vote[string]{true, k.hash}, nil})
	}
	_, winners := said.findWinner()
	said.keepContradictions(winners)
	if liar.contradicted != 1 {
		t.Errorf("got %d contradictions of the liar, want 1", liar.contradicted)
	}
	if hash, _, err := AgreeOnHash(t.Context(), []*keeper{one, two, liar}, 2, vote); err != nil || hash != "a" {
		t.Fatalf("got %s, %v, want a", hash, err)
	}
	if one.contradicted+two.contradicted != 0 {
		t.Error("a provider of the quorum counts as one that contradicts it")
	}
	if _, _, err := AgreeOnHash(t.Context(), []*keeper{one, liar}, 1, vote); err == nil {
		t.Fatal("one against one agreed")
	}
	if one.contradicted != 1 || liar.contradicted < 2 {
		t.Errorf("got %d and %d contradictions, want both told", one.contradicted, liar.contradicted)
	}
	_, err := AgreeOnHeads(t.Context(), []*keeper{one, two}, 2, func(context.Context, *keeper) (chain.Heads, error) {
		return chain.Heads{Latest: chain.Block{Height: 7}, Final: chain.Block{Height: 4}}, nil
	})
	if err != nil || one.heads.Latest.Height != 7 || two.heads.Final.Height != 4 {
		t.Errorf("got %+v and %+v, %v, want the heights kept", one.heads, two.heads, err)
	}
}
