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

// A chain of the Solana family has places by name in place of numbers, a payer beside who
// pays the amount, and as many payments in a transaction as Config.Several. Its bytes are
// the real ones; it knows no rent, no program and no token account but by its owner.
const (
	places     = 8 // nonce accounts that every account has from the beginning
	decimals   = 6 // of every token
	unitsEach  = 30_000
	priceFirst = 10_000
	priceMost  = 5_000_000
)

func (c *Chain) leased() bool { return c.conf.Name.Family() == chain.SolanaFamily }

// SolanaAddress is Address in the form of that family. No key stands behind it.
func SolanaAddress(name string) chain.Address {
	return solanatx.Canonical(sha256.Sum256([]byte("sim address " + name)))
}

// value is what a nonce account has: another one each time that something takes it, and
// another one on another fork.
func (s *state) value(account chain.Address) string {
	v, err := solanatx.Durable(s.before(account))
	if err != nil {
		panic("sim: " + err.Error())
	}
	return v
}

// before is the hash of the block that the value of a nonce account follows from.
func (s *state) before(account chain.Address) string {
	if b, ok := s.values[account]; ok {
		return b
	}
	return string(SolanaAddress("value of " + string(account)))
}

// takes tells whether a transaction is the next in its place.
func (s *state) takes(t *tx) bool {
	if t.place != "" {
		return s.value(t.place) == t.value
	}
	return s.nonces[t.from] == t.nonce
}

// past tells whether its place is another transaction's.
func (s *state) past(t *tx) bool {
	if t.place != "" {
		return s.value(t.place) != t.value
	}
	return t.nonce < s.nonces[t.from]
}

// advance takes the place of a transaction.
func (s *state) advance(t *tx, words ...any) {
	if t.place == "" {
		s.nonces[t.from]++
		return
	}
	s.values[t.place] = string(SolanaAddress(digest(append(words, string(t.place), t.value)...)))
	s.proofs[s.value(t.place)] = s.values[t.place]
}

// rivals tells whether two transactions are for one place.
func rivals(a, b *tx) bool {
	return a.from == b.from && a.place == b.place && a.value == b.value && a.nonce == b.nonce
}

// draft is the transaction of payments without its fees.
func (c *Chain) draft(account chain.Address, lease string, ps []chain.Payment) (solanatx.Tx, error) {
	at, value, err := solanatx.ParseLease(lease)
	if err != nil {
		return solanatx.Tx{}, err
	}
	t := solanatx.Tx{Payer: account, NonceAccount: at, NonceValue: value, Limit: unitsEach * uint32(max(1, len(ps))), Price: priceFirst}
	for _, p := range ps {
		if p.Payer != account && (p.Payer != "" || p.From != account) {
			return t, fmt.Errorf("%s does not pay for %s", account, p.From)
		}
		program, digits := chain.Address(""), uint8(0)
		if p.Contract != "" {
			program, digits = solanatx.TokenProgram, decimals
		}
		m, err := solanatx.MoveOf(p, program, digits, false)
		if err != nil {
			return t, err
		}
		t.Moves = append(t.Moves, m)
	}
	return t, nil
}

// fitting is how many of payments fit into a packet.
func (c *Chain) fitting(ps []chain.Payment) int {
	for n := min(len(ps), c.conf.Several); n > 1; n-- {
		payer := ps[0].Payer
		if payer == "" {
			payer = ps[0].From
		}
		t, err := c.draft(payer, solanatx.Lease(SolanaAddress("place"), string(SolanaAddress("value"))), ps[:n])
		if err == nil {
			_, err = t.Payload()
		}
		if err == nil {
			return n
		}
	}
	return min(1, len(ps))
}

func (c *Chain) buildLeased(account chain.Address, s chain.Slot, f chain.Fees, ps []chain.Payment) ([]byte, error) {
	t, err := c.draft(account, s.Lease, ps)
	if err != nil {
		return nil, err
	}
	price, ok := f.TipCap.Uint64()
	if !ok || f.GasLimit > solanatx.LimitMax || len(ps) > c.conf.Several {
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

// offerLeased is fees of so many payments with signatures of so many.
func offerLeased(payments, signatures int) chain.Fees {
	limit := unitsEach * uint64(max(1, payments))
	return chain.Fees{
		GasLimit: limit, TipCap: money.Units(priceFirst),
		Beside: money.Units(limit*priceFirst/1_000_000 + solanatx.SignatureFee*uint64(signatures)),
	}
}

func bumpLeased(last chain.Fees) (chain.Fees, bool, error) {
	price, ok := last.TipCap.Uint64()
	if !ok || price >= priceMost {
		return chain.Fees{}, false, nil
	}
	more := min(price+price/2+1, priceMost)
	next := last
	next.TipCap = money.Units(more)
	cost := func(price uint64) uint64 { return (last.GasLimit*price + 999_999) / 1_000_000 }
	var err error
	next.Beside, err = last.Beside.Add(money.Units(cost(more) - cost(price)))
	return next, err == nil, err
}

func (c *Chain) decodeLeased(raw []byte) (*tx, error) {
	signed, hash, err := solanatx.DecodeSigned(raw)
	if err != nil {
		return nil, fmt.Errorf("not a transaction: %w", err)
	}
	t := &tx{
		hash: hash, from: signed.Payer, place: signed.NonceAccount, value: signed.NonceValue,
		gasLimit: uint64(signed.Limit), cap: money.Units(signed.Price), most: signed.MaxCost(),
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

// leases are the places of an account at two heights.
func (c *Chain) leases(a chain.Address, latest, final uint64) ([]chain.Lease, error) {
	var all []chain.Lease
	for n := range uint32(places) {
		at, err := solanatx.NonceAccount(a, n)
		if err != nil {
			return nil, err
		}
		all = append(all, chain.Lease{
			Latest: solanatx.Lease(at, c.blocks[latest].state.value(at)),
			Final:  solanatx.Lease(at, c.blocks[final].state.value(at)),
		})
	}
	return all, nil
}

// Proof is what proves a lease that is or was a place's, on whatever fork.
func (c *Chain) Proof(_ context.Context, _ chain.Address, lease string, known ...string) (string, error) {
	at, value, err := solanatx.ParseLease(lease)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range append(slices.Clone(known), string(SolanaAddress("value of "+string(at))), c.tip().state.proofs[value]) {
		if v, err := solanatx.Durable(b); err == nil && v == value {
			return b, nil
		}
	}
	return "", fmt.Errorf("nothing gave %s this value", at)
}
