package solana_test

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// Rule DEP-57, on a chain that executes the payments: the accounts that a payment only names come with the block,
// whether its message has them or a lookup table, and a false provider does not change those of a final block.
func TestAPaymentsReferencesComeWithTheBlock(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	to, fake := s.Account(t), s.Account(t)
	payer := surfpool.AddressOf(s.payer)
	named := func(kind chain.Kind, units uint64, references ...chain.Address) []surfpool.Instruction {
		ins := s.moves(kind, to, units)
		for _, r := range references {
			last := &ins[len(ins)-1]
			last.Accounts = append(last.Accounts, surfpool.Meta{Address: r})
		}
		return ins
	}
	coin, token, looked := s.Account(t), s.Account(t), s.Account(t)
	second := s.Account(t)
	table := s.Account(t)
	tabled := []chain.Address{looked, to}
	if err := s.node.PlaceLookupTable(t.Context(), table, tabled...); err != nil {
		t.Fatal(err)
	}
	s.Mine(t, 1)
	height := s.node.CurrentSlot()
	want := map[chain.TxHash][]chain.Address{
		s.do(t, named(chain.Native, 1_000_000, coin, second)...): {coin, second},
		s.do(t, named(chain.Token, 5, token)...):                 {token},
		s.send(t, surfpool.Transaction{
			Keys: []ed25519.PrivateKey{s.payer, s.stranger}, LookupTable: table, TableAddresses: tabled,
			Instructions: named(chain.Native, 2_000_000, looked),
		}): {looked},
	}
	failed := s.PayReverted(t, chain.Native, to, money.Units(3_000_000))
	s.Mine(t, 1)
	s.Finalize(t)
	check := func(what string, c chain.Contents, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for tx, references := range want {
			got := c.Mentioned[tx].Addresses()
			for _, r := range references {
				if !slices.Contains(got, r) {
					t.Errorf("%s, %s: got %v, want %s among them", what, tx, got, r)
				}
			}
			for _, moved := range []chain.Address{payer, to, surfpool.AddressOf(s.stranger), fake} {
				if kinds := transfersOf(c, tx); slices.Contains(got, moved) && !slices.Contains(kinds, chain.Token) {
					t.Errorf("%s, %s: got %v, want no account whose balance changed", what, tx, got)
				}
			}
		}
		if got := c.Mentioned[failed]; got != "" {
			t.Errorf("%s: a payment that failed: got %s, want nothing", what, got)
		}
	}
	c := s.open(t, 2)
	final, err := c.Final(t.Context(), height)
	check("final", final, err)
	recent, err := c.Recent(t.Context(), height)
	check("recent", recent, err)

	s.proxies[0].SetRule("getBlock", func(e *exchange) {
		e.SetResult(strings.ReplaceAll(string(e.Result), string(coin), string(fake)))
	})
	final, err = c.Final(t.Context(), height)
	check("one liar of three", final, err)
	lie, err := s.open(t, 1).Recent(t.Context(), height)
	if err != nil || !strings.Contains(joinMentioned(lie), string(fake)) {
		t.Errorf("got %v, %v, want the lie to be one that can be decoded", lie.Mentioned, err)
	}
}

// transfersOf returns the kinds of the transfers of a transaction.
func transfersOf(c chain.Contents, tx chain.TxHash) (kinds []chain.Kind) {
	for _, moved := range c.Transfers {
		if moved.Tx == tx {
			kinds = append(kinds, moved.Kind)
		}
	}
	return kinds
}

func joinMentioned(c chain.Contents) string {
	var b strings.Builder
	for _, list := range c.Mentioned {
		b.WriteString(string(list) + " ")
	}
	return b.String()
}
