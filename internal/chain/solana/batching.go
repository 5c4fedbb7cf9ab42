package solana

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// BatchSize counts payments that go together, from the first. A batch has as many as a packet holds, which is full long
// before the compute units of a transaction are used. It is one of these:
//
//   - payments to the account that pays for them, which are sweeps, or closes. No two of them take one coin from one
//     account. The packet also has a signature for each and the token accounts that may have to be created.
//   - payments of that account to others, in one coin, see isShareable. The caller decides whose may share a
//     transaction: one payee can freeze, close or hand over a token account at any moment, which fails the payments of
//     all.
func (c *Client) BatchSize(ps []chain.Payment) int {
	n := 0
	for n < len(ps) && canFollow(ps[:n], ps[n]) && c.fitsPacket(ps[:n+1]) {
		n++
	}
	return max(1, min(n, len(ps)))
}

// canFollow reports whether a payment belongs to a batch behind those that are in it.
func canFollow(batch []chain.Payment, p chain.Payment) bool {
	if len(batch) > 0 && feePayer(p) != feePayer(batch[0]) {
		return false
	}
	if isShareable(p) {
		return len(batch) == 0 || isShareable(batch[0]) && p.Contract == batch[0].Contract
	}
	return isIncoming(p) && !slices.ContainsFunc(batch, func(q chain.Payment) bool {
		return isShareable(q) || q.ClosesTokenAccount != p.ClosesTokenAccount ||
			q.From == p.From && q.Contract == p.Contract
	})
}

// isIncoming reports whether a payment goes from another account to the account that pays for it.
func isIncoming(p chain.Payment) bool {
	return !p.CreatesNonceAccount && !p.CreatesTokenAccount && p.From != p.Payer && p.To == p.Payer &&
		!p.Amount.IsZero()
}

// isShareable reports whether an account that pays its own fee makes a payment to another one that it may make
// together with others. A payment of SOL is at least the minimum of an account: a payee who empties the account in the
// meantime then fails no other payment. Rule BP-40.
func isShareable(p chain.Payment) bool {
	return !p.CreatesNonceAccount && !p.CreatesTokenAccount && !p.ClosesTokenAccount && feePayer(p) == p.From &&
		p.To != p.From && !p.Amount.IsZero() && (p.Contract != "" || !p.Amount.Less(money.Units(solanatx.WalletRent)))
}

// CanShare implements chain.PayeeAccounts. The payee of a token has an account for it, owns it and can use it. A
// payment of SOL needs no look at its payee. Rule BP-42.
func (c *Client) CanShare(ctx context.Context, ps []chain.Payment) ([]bool, error) {
	canShare := make([]bool, len(ps))
	q := accountBatch{positions: map[chain.Address]int{}}
	targets := make([]chain.Address, len(ps))
	for i, p := range ps {
		if canShare[i] = isShareable(p); !canShare[i] || p.Contract == "" {
			continue
		}
		m, err := c.configuredMint(p.Contract)
		if err == nil {
			targets[i], err = solanatx.AssociatedAccount(p.To, p.Contract, m.Program)
		}
		if canShare[i] = err == nil; err == nil {
			q.addAddress(targets[i])
		}
	}
	var found []*account
	for part := range slices.Chunk(q.addresses, accountsPerCall) {
		got, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
			func(ctx context.Context, p *provider) ([]*account, error) {
				return p.readAccounts(ctx, part, confirmed)
			})
		if err != nil {
			return nil, fmt.Errorf("payees' accounts on %s: %w", chain.Solana, err)
		}
		found = append(found, got...)
	}
	for i, p := range ps {
		if targets[i] != "" && canShare[i] {
			_, isThere, err := c.Mints[p.Contract].readHolding(p.Contract, p.To, found[q.positions[targets[i]]],
				chain.CausePayee)
			canShare[i] = isThere && err == nil
		}
	}
	return canShare, nil
}

var _ chain.PayeeAccounts = (*Client)(nil)

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
	if err == nil && !makesOnly(ps) {
		t, err = withTokenAccounts(t, ps)
	}
	if err == nil {
		_, err = t.Payload()
	}
	return err == nil
}

// makesOnly reports whether a transaction makes several payments to others, and so creates no account for any of them:
// its rent is four hundred times the signature that a batch saves. Rule BP-44.
func makesOnly(ps []chain.Payment) bool { return len(ps) > 1 && isShareable(ps[0]) }

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
