package oracle

import (
	"context"
	"fmt"
	"math/big"
)

// rentOfTokenAccount is the minimum balance of a new token account without extensions, in lamports.
// It is a cost of the account that creates it, and no payment to the owner.
const rentOfTokenAccount = 2_039_280

// Solana is a Solana chain, with its history from one slot on. It believes the balances before and
// after each transaction, and reads no instruction.
type Solana struct {
	History
	nextSlot uint64 // the slot to read on from
}

// OpenSolana prepares to read the Solana chain at a JSON-RPC URL from a slot on. Every later slot
// must have its block, as on a local chain; there are no forks.
func OpenSolana(url string, first uint64) *Solana {
	return &Solana{History{node: node{url}, normalize: func(s string) string { return s }}, first}
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

// Walk reads up to the newest block. It returns the slot that it reached.
func (c *Solana) Walk(ctx context.Context) (slot uint64, err error) {
	commitment := map[string]any{"commitment": "confirmed"}
	var newest uint64
	if err := c.callRPC(ctx, &newest, "getSlot", commitment); err != nil {
		return 0, err
	}
	commitment["encoding"], commitment["transactionDetails"] = "json", "full"
	commitment["maxSupportedTransactionVersion"], commitment["rewards"] = 0, false
	for ; c.nextSlot <= newest; c.nextSlot++ {
		var b solanaBlock
		if err := c.callRPC(ctx, &b, "getBlock", c.nextSlot, commitment); err != nil {
			return 0, fmt.Errorf("slot %d: %w", c.nextSlot, err)
		}
		read, err := readSolana(c.nextSlot, b)
		if err != nil {
			return 0, fmt.Errorf("slot %d: %w", c.nextSlot, err)
		}
		c.blocks = append(c.blocks, read)
	}
	return newest, nil
}

func readSolana(slot uint64, b solanaBlock) (block, error) {
	result := block{hash: b.Blockhash}
	for _, t := range b.Transactions {
		m := t.Meta
		accounts := append(
			append(t.Transaction.Message.AccountKeys, m.LoadedAddresses.Writable...), m.LoadedAddresses.Readonly...,
		)
		if len(t.Transaction.Signatures) == 0 || len(accounts) == 0 || len(m.PreBalances) != len(accounts) ||
			len(m.PostBalances) != len(accounts) {
			return result, fmt.Errorf(
				"a transaction of %d accounts has %d balances before and %d after", len(accounts), len(m.PreBalances),
				len(m.PostBalances),
			)
		}
		s := Sent{
			Hash: t.Transaction.Signatures[0], Block: slot, From: accounts[0], Succeeded: m.Err == nil,
			Fee: big.NewInt(m.Fee),
		}
		result.sent = append(result.sent, s)
		if !s.Succeeded {
			continue
		}
		changes := map[string]holders{}
		owner := map[int]string{}
		for sign, side := range map[int64][]solanaTokens{-1: m.PreTokenBalances, 1: m.PostTokenBalances} {
			for _, balance := range side {
				amount, ok := new(big.Int).SetString(balance.UITokenAmount.Amount, 10)
				if !ok || balance.AccountIndex >= len(accounts) {
					return result, fmt.Errorf(
						"%s: account %d has %q of %s", s.Hash, balance.AccountIndex, balance.UITokenAmount.Amount,
						balance.Mint,
					)
				}
				holdersOf(changes, balance.Mint).addChange(balance.Owner, amount.Mul(amount, big.NewInt(sign)))
				owner[balance.AccountIndex] = balance.Owner
			}
		}
		for i, account := range accounts {
			change := m.PostBalances[i] - m.PreBalances[i]
			if holder, tokens := owner[i]; tokens {
				account = holder
				switch {
				case m.PreBalances[i] == 0 && change >= rentOfTokenAccount:
					change -= rentOfTokenAccount
				case m.PostBalances[i] == 0:
					change += rentOfTokenAccount
				}
			}
			holdersOf(changes, "").addChange(account, big.NewInt(change))
		}
		for asset, h := range changes {
			result.movements = append(result.movements, h.listMovements(s, asset)...)
		}
	}
	return result, nil
}

// holders has the change of each holder's balance of an asset in a transaction.
type holders map[string]*big.Int

func holdersOf(byAsset map[string]holders, asset string) holders {
	if byAsset[asset] == nil {
		byAsset[asset] = holders{}
	}
	return byAsset[asset]
}

func (h holders) addChange(holder string, change *big.Int) {
	if h[holder] == nil {
		h[holder] = new(big.Int)
	}
	h[holder].Add(h[holder], change)
}

// listMovements returns movements from the holder that lost most to each holder that gained. What
// was lost in addition went to no holder: it is a fee.
func (h holders) listMovements(s Sent, asset string) (movements []Movement) {
	payer := ""
	for holder, change := range h {
		if change.Sign() < 0 && (payer == "" || change.Cmp(h[payer]) < 0) {
			payer = holder
		}
	}
	for holder, change := range h {
		if change.Sign() > 0 {
			movements = append(movements, Movement{
				Tx: s.Hash, Block: s.Block, Asset: asset, From: payer, To: holder, Amount: change,
			})
		}
	}
	return movements
}

// Holds returns the present balance of an address in a token, in all of its token accounts. It asks
// the chain's state and not the movements.
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
	err := c.callRPC(ctx, &answer, "getTokenAccountsByOwner", owner, map[string]string{"mint": mint},
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
