package solana

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// BatchSize counts payments to the account that pays for them, which are sweeps. A batch has as
// many as a packet holds with a signature for each and with the token accounts that may have to be
// created for them. A packet is full long before the compute units of a transaction are used. No
// two of them take one coin from one account.
//
// A payment to another payee goes alone. The rent of a payee's token account is four hundred times
// the signature that a batch would save. The fee of a transaction is divided evenly, so customers
// would pay for the payees of others. A payee can also freeze, close or hand over that account at
// any moment, which would fail the payments of all.
//
// Closes are batched in the same way, and with nothing else. If a token arrives at one of the
// accounts in the meantime, that close is tried again by itself.
func (c *Client) BatchSize(ps []chain.Payment) int {
	n := 0
	for n < len(ps) && isIncoming(ps[n]) && ps[n].ClosesTokenAccount == ps[0].ClosesTokenAccount &&
		feePayer(ps[n]) == feePayer(ps[0]) && !slices.ContainsFunc(ps[:n], func(p chain.Payment) bool {
		return p.From == ps[n].From && p.Contract == ps[n].Contract
	}) && c.fitsPacket(ps[:n+1]) {
		n++
	}
	return max(1, n)
}

// isIncoming reports whether a payment goes from another account to the account that pays for it.
func isIncoming(p chain.Payment) bool {
	return !p.CreatesNonceAccount && !p.CreatesTokenAccount && p.From != p.Payer && p.To == p.Payer &&
		!p.Amount.IsZero()
}

// fitsPacket reports whether payments fit in a packet. Other nonce accounts and fees never make the
// transaction longer.
func (c *Client) fitsPacket(ps []chain.Payment) bool {
	payer := feePayer(ps[0])
	nonceAccount, err := solanatx.NonceAccount(payer, 0)
	t := solanatx.Tx{Payer: payer, NonceAccount: nonceAccount, NonceValue: string(payer), Limit: solanatx.LimitMax}
	for _, p := range ps {
		if err == nil {
			err = c.addPayment(&t, p)
		}
	}
	if err == nil {
		t, err = withTokenAccounts(t, ps)
	}
	if err == nil {
		_, err = t.Payload()
	}
	return err == nil
}

// checkBatch returns an error for several payments that do not go together.
func (c *Client) checkBatch(ps []chain.Payment) error {
	if n := c.BatchSize(ps); len(ps) > 1 && n < len(ps) {
		return fmt.Errorf("%d payments, and one transaction makes the first %d of them", len(ps), n)
	}
	return nil
}

// namePayment adds the number of the payment to a refusal of several; i is -1 if it is unknown.
func namePayment(total, i int, err error) error {
	var reverted *chain.RevertedError
	if total < 2 || i < 0 || !errors.As(err, &reverted) {
		return err
	}
	return newRefusal(reverted.Cause, "payment %d of %d: %s", i+1, total, reverted.Reason)
}

// failedMove returns the index of the move at which a transaction failed, as the chain reports it,
// or -1. signers are those of its payload, which come first among its accounts.
func failedMove(t solanatx.Tx, signers []chain.Address, failure json.RawMessage) int {
	var detail struct {
		Instruction []json.RawMessage `json:"InstructionError"`
		Rent        struct {
			Account *int `json:"account_index"`
		} `json:"InsufficientFundsForRent"`
	}
	if json.Unmarshal(failure, &detail) != nil {
		return -1
	}
	if position := detail.Rent.Account; position != nil {
		return slices.IndexFunc(t.Moves, func(m solanatx.Move) bool {
			return m.Mint == "" && *position >= 0 && *position < len(signers) && m.From == signers[*position]
		})
	}
	var position int
	if len(detail.Instruction) != 2 || json.Unmarshal(detail.Instruction[0], &position) != nil {
		return -1
	}
	position -= 3 // the nonce and the budget
	for i, m := range t.Moves {
		if m.Owner != "" {
			position--
		}
		if position <= 0 {
			return i
		}
		position--
	}
	return -1
}

// makesAll reports whether a successful transaction makes exactly these payments, and what it cost
// its payer. A payee of several payments shows only their sum, and the payer of fee and rent may
// receive in the same coin. So makesAll compares the balance change of every account in it, in each
// coin, with the payments.
func (t *tx) makesAll(ps []chain.Payment) (paid bool, cost money.Amount, err error) {
	want := map[chain.Holding]*big.Int{}
	add := func(address, contract chain.Address, n *big.Int) {
		h := chain.Holding{Address: address, Contract: contract}
		if want[h] == nil {
			want[h] = new(big.Int)
		}
		want[h].Add(want[h], n)
	}
	for _, p := range ps {
		add(p.To, p.Contract, p.Amount.Big())
		add(p.From, p.Contract, new(big.Int).Neg(p.Amount.Big()))
	}
	// The growth of token accounts is rent, except for what other token accounts lost.
	rent := new(big.Int)
	for i := range t.accounts {
		if t.isToken[i] {
			rent.Add(rent, t.lamportDelta(i))
		}
	}
	if rent.Sign() < 0 { // no payment of Coffer closes a token account
		return false, money.Units(t.paid), nil
	}
	charged := new(big.Int).Add(rent, new(big.Int).SetUint64(t.paid))
	add(chain.Address(t.accounts[0]), "", new(big.Int).Neg(charged))
	if cost, err = money.FromBig(charged); err != nil {
		return false, money.Zero, err
	}
	for i, a := range t.accounts {
		if h := (chain.Holding{Address: chain.Address(a)}); want[h] == nil && !t.isToken[i] {
			want[h] = new(big.Int)
		}
	}
	for _, list := range [2][]holding{t.preTokens, t.postTokens} {
		for i := range list {
			if h := (chain.Holding{
				Address:  chain.Address(list[i].owner),
				Contract: chain.Address(list[i].mint),
			}); want[h] == nil {
				want[h] = new(big.Int)
			}
		}
	}
	for h, n := range want {
		if t.holdingDelta(h).Cmp(n) != 0 {
			return false, cost, nil
		}
	}
	return true, cost, nil
}

// lamportDelta returns how many more lamports an account holds afterwards.
func (t *tx) lamportDelta(i int) *big.Int {
	return new(big.Int).Sub(new(big.Int).SetUint64(t.post[i]), new(big.Int).SetUint64(t.pre[i]))
}

// holdingDelta returns how much more an owner holds; lamports count on the address alone.
func (t *tx) holdingDelta(h chain.Holding) *big.Int {
	sum := new(big.Int)
	if h.Contract == "" {
		for i, a := range t.accounts {
			if string(a) == string(h.Address) {
				sum.Add(sum, t.lamportDelta(i))
			}
		}
		return sum
	}
	addUnits := func(list []holding, add func(z, x, y *big.Int) *big.Int) {
		for i := range list {
			if l := &list[i]; string(l.owner) == string(h.Address) && string(l.mint) == string(h.Contract) {
				add(sum, sum, new(big.Int).SetUint64(l.units))
			}
		}
	}
	addUnits(t.postTokens, (*big.Int).Add)
	addUnits(t.preTokens, (*big.Int).Sub)
	return sum
}
