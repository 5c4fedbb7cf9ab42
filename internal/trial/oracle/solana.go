package oracle

import (
	"context"
	"fmt"
	"math/big"
)

// rentOfTokenAccount is what a new token account without extensions has to hold, in
// lamports: a fee of who makes it, and no payment to its owner.
const rentOfTokenAccount = 2_039_280

// Solana is a Solana chain, and its history from some slot on. It believes the
// balances that each transaction had before and after, and reads no instruction.
type Solana struct {
	History
	next uint64 // the slot to read on from
}

// OpenSolana prepares to read the Solana chain at a JSON-RPC URL from a slot on. Every
// slot from there on has to have its block, as a local chain's have; there are no forks.
func OpenSolana(url string, from uint64) *Solana {
	return &Solana{History{node: node{url}, written: func(s string) string { return s }}, from}
}

type solanaBlock struct {
	Blockhash    string
	Transactions []struct {
		Transaction struct {
			Signatures []string
			Message    struct{ AccountKeys []string }
		}
		Meta struct {
			Err                                 any
			Fee                                 int64
			PreBalances, PostBalances           []int64
			PreTokenBalances, PostTokenBalances []solanaTokens
			LoadedAddresses                     struct{ Writable, Readonly []string }
		}
	}
}

type solanaTokens struct {
	AccountIndex  int
	Mint, Owner   string
	UITokenAmount struct{ Amount string }
}

// Walk reads on to the newest block. It returns the slot that it stands at.
func (c *Solana) Walk(ctx context.Context) (slot uint64, err error) {
	commitment := map[string]any{"commitment": "confirmed"}
	var newest uint64
	if err := c.call(ctx, &newest, "getSlot", commitment); err != nil {
		return 0, err
	}
	commitment["encoding"], commitment["transactionDetails"] = "json", "full"
	commitment["maxSupportedTransactionVersion"], commitment["rewards"] = 0, false
	for ; c.next <= newest; c.next++ {
		var b solanaBlock
		if err := c.call(ctx, &b, "getBlock", c.next, commitment); err != nil {
			return 0, fmt.Errorf("slot %d: %w", c.next, err)
		}
		read, err := readSolana(c.next, b)
		if err != nil {
			return 0, fmt.Errorf("slot %d: %w", c.next, err)
		}
		c.blocks = append(c.blocks, read)
	}
	return newest, nil
}

func readSolana(slot uint64, b solanaBlock) (block, error) {
	out := block{hash: b.Blockhash}
	for _, t := range b.Transactions {
		m := t.Meta
		accounts := append(append(t.Transaction.Message.AccountKeys, m.LoadedAddresses.Writable...), m.LoadedAddresses.Readonly...)
		if len(t.Transaction.Signatures) == 0 || len(accounts) == 0 || len(m.PreBalances) != len(accounts) || len(m.PostBalances) != len(accounts) {
			return out, fmt.Errorf("a transaction of %d accounts has %d balances before and %d after", len(accounts), len(m.PreBalances), len(m.PostBalances))
		}
		s := Sent{Hash: t.Transaction.Signatures[0], Block: slot, From: accounts[0], Succeeded: m.Err == nil, Fee: big.NewInt(m.Fee)}
		out.sent = append(out.sent, s)
		if !s.Succeeded {
			continue
		}
		changes := map[string]holders{}
		owner := map[int]string{}
		for sign, side := range map[int64][]solanaTokens{-1: m.PreTokenBalances, 1: m.PostTokenBalances} {
			for _, is := range side {
				amount, ok := new(big.Int).SetString(is.UITokenAmount.Amount, 10)
				if !ok || is.AccountIndex >= len(accounts) {
					return out, fmt.Errorf("%s: account %d has %q of %s", s.Hash, is.AccountIndex, is.UITokenAmount.Amount, is.Mint)
				}
				of(changes, is.Mint).add(is.Owner, amount.Mul(amount, big.NewInt(sign)))
				owner[is.AccountIndex] = is.Owner
			}
		}
		for i, who := range accounts {
			change := m.PostBalances[i] - m.PreBalances[i]
			if holder, tokens := owner[i]; tokens {
				who = holder
				switch {
				case m.PreBalances[i] == 0 && change >= rentOfTokenAccount:
					change -= rentOfTokenAccount
				case m.PostBalances[i] == 0:
					change += rentOfTokenAccount
				}
			}
			of(changes, "").add(who, big.NewInt(change))
		}
		for asset, h := range changes {
			out.movements = append(out.movements, h.movements(s, asset)...)
		}
	}
	return out, nil
}

// holders are the changes of what each has of an asset in a transaction.
type holders map[string]*big.Int

func of(all map[string]holders, asset string) holders {
	if all[asset] == nil {
		all[asset] = holders{}
	}
	return all[asset]
}

func (h holders) add(who string, change *big.Int) {
	if h[who] == nil {
		h[who] = new(big.Int)
	}
	h[who].Add(h[who], change)
}

// movements are from who lost most to each who got something. What is lost beyond that
// went to nobody: it is a fee.
func (h holders) movements(s Sent, asset string) (out []Movement) {
	from := ""
	for who, change := range h {
		if change.Sign() < 0 && (from == "" || change.Cmp(h[from]) < 0) {
			from = who
		}
	}
	for who, change := range h {
		if change.Sign() > 0 {
			out = append(out, Movement{Tx: s.Hash, Block: s.Block, Asset: asset, From: from, To: who, Amount: change})
		}
	}
	return out
}

// Holds is what an address has of a token now, in all of its token accounts, asked of
// the chain's state and not of its movements.
func (c *Solana) Holds(ctx context.Context, mint, owner string) (*big.Int, error) {
	var answer struct {
		Value []struct {
			Account struct {
				Data struct {
					Parsed struct {
						Info struct{ TokenAmount struct{ Amount string } }
					}
				}
			}
		}
	}
	err := c.call(ctx, &answer, "getTokenAccountsByOwner", owner, map[string]string{"mint": mint},
		map[string]string{"encoding": "jsonParsed", "commitment": "confirmed"})
	if err != nil {
		return nil, err
	}
	sum := new(big.Int)
	for _, a := range answer.Value {
		text := a.Account.Data.Parsed.Info.TokenAmount.Amount
		amount, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return nil, fmt.Errorf("%s has %q of %s", owner, text, mint)
		}
		sum.Add(sum, amount)
	}
	return sum, nil
}
