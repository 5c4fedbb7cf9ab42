package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// A chain of the Solana family has nonce accounts in place of numbered slots, a separate fee payer,
// and as many payments in a transaction as Config.PaymentsPerTx. Its bytes are the real ones. It
// has no rent and no programs, and it identifies a token account by its owner.
const (
	nonceAccounts   = 8 // that every account has from the beginning
	decimals        = 6 // of every token
	unitsPerPayment = 30_000
	priceFirst      = 10_000
	priceMax        = 5_000_000
)

func (c *Chain) isSolana() bool { return c.conf.Name.Family() == chain.SolanaFamily }

// SolanaAddress is Address in the form of that family. It has no key.
func SolanaAddress(name string) chain.Address {
	return solanatx.Canonical(sha256.Sum256([]byte("sim address " + name)))
}

// nonceValue returns the value of a nonce account. It changes each time that a transaction uses it,
// and it differs between forks.
func (s *state) nonceValue(account chain.Address) string {
	v, err := solanatx.NonceValueAfter(s.nonceParent(account))
	if err != nil {
		panic("sim: " + err.Error())
	}
	return v
}

// nonceParent returns the hash of the block from which the value of a nonce account follows.
func (s *state) nonceParent(account chain.Address) string {
	if b, ok := s.nonceParents[account]; ok {
		return b
	}
	return string(SolanaAddress("value of " + string(account)))
}

// isNext reports whether a transaction is the next one in its slot.
func (s *state) isNext(t *tx) bool {
	if t.nonceAccount != "" {
		return s.nonceValue(t.nonceAccount) == t.nonceValue
	}
	return s.nonces[t.from] == t.nonce
}

// isPast reports whether another transaction has used its slot.
func (s *state) isPast(t *tx) bool {
	if t.nonceAccount != "" {
		return s.nonceValue(t.nonceAccount) != t.nonceValue
	}
	return t.nonce < s.nonces[t.from]
}

// useSlot uses the slot of a transaction.
func (s *state) useSlot(t *tx, words ...any) {
	if t.nonceAccount == "" {
		s.nonces[t.from]++
		return
	}
	s.nonceParents[t.nonceAccount] = string(
		SolanaAddress(hashWords(append(words, string(t.nonceAccount), t.nonceValue)...)),
	)
	s.valueParents[s.nonceValue(t.nonceAccount)] = s.nonceParents[t.nonceAccount]
}

// haveSameSlot reports whether two transactions have the same slot.
func haveSameSlot(a, b *tx) bool {
	return a.from == b.from && a.nonceAccount == b.nonceAccount && a.nonceValue == b.nonceValue && a.nonce == b.nonce
}

// draftTx returns the transaction of payments without its fees.
func (c *Chain) draftTx(account chain.Address, slotKey string, ps []chain.Payment) (solanatx.Tx, error) {
	nonceAccount, value, err := solanatx.ParseSlotKey(slotKey)
	if err != nil {
		return solanatx.Tx{}, err
	}
	t := solanatx.Tx{
		Payer: account, NonceAccount: nonceAccount, NonceValue: value, Limit: unitsPerPayment * uint32(max(1, len(ps))),
		Price: priceFirst,
	}
	for _, p := range ps {
		if p.Payer != account && (p.Payer != "" || p.From != account) {
			return t, fmt.Errorf("%s does not pay for %s", account, p.From)
		}
		program, digits := chain.Address(""), uint8(0)
		if p.Contract != "" {
			program, digits = solanatx.TokenProgram, decimals
		}
		m, err := solanatx.NewMove(p, program, digits, false)
		if err != nil {
			return t, err
		}
		t.Moves = append(t.Moves, m)
	}
	return t, nil
}

// fittingCount returns how many of the payments fit into a packet.
func (c *Chain) fittingCount(ps []chain.Payment) int {
	for n := min(len(ps), c.conf.PaymentsPerTx); n > 1; n-- {
		payer := ps[0].Payer
		if payer == "" {
			payer = ps[0].From
		}
		t, err := c.draftTx(payer, solanatx.SlotKey(SolanaAddress("place"), string(SolanaAddress("value"))), ps[:n])
		if err == nil {
			_, err = t.Payload()
		}
		if err == nil {
			return n
		}
	}
	return min(1, len(ps))
}

func (c *Chain) buildSolana(account chain.Address, s chain.Slot, f chain.Fees, ps []chain.Payment) ([]byte, error) {
	t, err := c.draftTx(account, s.Key, ps)
	if err != nil {
		return nil, err
	}
	price, ok := f.TipCap.Uint64()
	if !ok || f.GasLimit > solanatx.LimitMax || len(ps) > c.conf.PaymentsPerTx {
		return nil, errors.New("fees or payments beyond those of the chain")
	}
	t.Limit, t.Price = uint32(f.GasLimit), price
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range ps {
		c.owners[t.Moves[i].To] = p.To
	}
	return t.Payload()
}

// solanaFees returns the fees of so many payments with so many signatures.
func solanaFees(payments, signatures int) chain.Fees {
	limit := unitsPerPayment * uint64(max(1, payments))
	return chain.Fees{
		GasLimit: limit, TipCap: money.Units(priceFirst),
		NonGas: money.Units(limit*priceFirst/1_000_000 + solanatx.SignatureFee*uint64(signatures)),
	}
}

func bumpSolana(last chain.Fees) (chain.Fees, bool, error) {
	price, ok := last.TipCap.Uint64()
	if !ok || price >= priceMax {
		return chain.Fees{}, false, nil
	}
	higher := min(price+price/2+1, priceMax)
	bumped := last
	bumped.TipCap = money.Units(higher)
	cost := func(price uint64) uint64 { return (last.GasLimit*price + 999_999) / 1_000_000 }
	var err error
	bumped.NonGas, err = last.NonGas.Add(money.Units(cost(higher) - cost(price)))
	return bumped, err == nil, err
}

func (c *Chain) decodeSolana(raw []byte) (*tx, error) {
	signed, hash, err := solanatx.DecodeSigned(raw)
	if err != nil {
		return nil, fmt.Errorf("not a transaction: %w", err)
	}
	t := &tx{
		hash: hash, from: signed.Payer, nonceAccount: signed.NonceAccount, nonceValue: signed.NonceValue,
		gasLimit: uint64(signed.Limit), feeCap: money.Units(signed.Price), costMax: signed.MaxCost(),
	}
	for _, m := range signed.Moves {
		move := Move{Kind: chain.Native, From: m.From, To: m.To, Contract: m.Mint, Amount: m.Amount}
		if m.Mint != "" {
			move.Kind = chain.Token
			if move.To = c.owners[m.To]; move.To == "" {
				return nil, fmt.Errorf("nobody knows whose token account %s is", m.To)
			}
		}
		t.moves = append(t.moves, move)
	}
	return t, nil
}

// slotStates returns the slots of an account at two heights.
func (c *Chain) slotStates(a chain.Address, latest, final uint64) ([]chain.SlotState, error) {
	var states []chain.SlotState
	for n := range uint32(nonceAccounts) {
		nonceAccount, err := solanatx.NonceAccount(a, n)
		if err != nil {
			return nil, err
		}
		states = append(states, chain.SlotState{
			Latest: solanatx.SlotKey(nonceAccount, c.blocks[latest].state.nonceValue(nonceAccount)),
			Final:  solanatx.SlotKey(nonceAccount, c.blocks[final].state.nonceValue(nonceAccount)),
		})
	}
	return states, nil
}

// ProveSlot returns the block hash from which the nonce value of a slot key follows. The nonce
// account has that value, or had it, on any fork.
func (c *Chain) ProveSlot(_ context.Context, _ chain.Address, slotKey string, candidates ...string) (string, error) {
	nonceAccount, value, err := solanatx.ParseSlotKey(slotKey)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range append(
		slices.Clone(candidates), string(SolanaAddress("value of "+string(nonceAccount))),
		c.tipBlock().state.valueParents[value],
	) {
		if v, err := solanatx.NonceValueAfter(b); err == nil && v == value {
			return b, nil
		}
	}
	return "", fmt.Errorf("nothing gave %s this value", nonceAccount)
}
