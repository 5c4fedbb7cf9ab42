package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// What a person may do about an order that has a slot. Each act is a transaction that
// is committed to the slot, or an end that a proven block shows; the running service
// signs and sends. A refusal is a fault that says what became of the money.

// at reads an order with its slot. Errors: faults NOT_FOUND, INVALID_STATE.
func (d *Desk) at(ctx context.Context, orderID string) (s slot, from wallet.Wallet, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var name chain.Name
		var status Status
		var walletID string
		err := tx.QueryRow(ctx, `SELECT chain, status, wallet_id FROM dispatch_orders WHERE order_id = $1`, orderID).Scan(&name, &status, &walletID)
		if errors.Is(err, pgx.ErrNoRows) {
			return unknownOrder(orderID)
		}
		if err != nil {
			return err
		}
		if name != d.chain.Name {
			return fmt.Errorf("order %s is on %s, and this is the desk of %s", orderID, name, d.chain.Name)
		}
		slots, err := slotsBy(ctx, tx, selectSlots+` WHERE o.order_id = $1`, orderID)
		if err != nil {
			return err
		}
		if len(slots) == 0 {
			return fault.New(fault.Conflict, fault.InvalidState,
				"Order %s is %s and has no slot: nothing of it is signed, nothing is out, and nothing was changed. "+
					"`coffer dispatch show %s` says what it waits for.", orderID, status, orderID)
		}
		s = slots[0]
		from, err = wallet.ByID(ctx, tx, walletID)
		return err
	})
	if err != nil && fault.Of(err) == nil {
		err = fmt.Errorf("read order %s: %w", orderID, err)
	}
	return s, from, err
}

// ended is the refusal of whoever comes too late, or nil.
func (s slot) ended() error {
	switch s.Status {
	case Paid:
		return fault.New(fault.Conflict, fault.InvalidState, "Order %s is PAID: its payment is final on the chain and cannot be changed. Nothing was done.", s.ID)
	case Failed:
		return fault.New(fault.Conflict, fault.InvalidState, "Order %s is FAILED: its slot is used, nobody was paid, and its amount was given back. Nothing was done.", s.ID)
	case Stuck:
		return fault.New(fault.Conflict, fault.InvalidState,
			"Order %s is STUCK: its transaction is final, so it cannot be replaced. Nothing was done and its amount is still held. `coffer dispatch resolve %s` looks on the chain for what it did.", s.ID, s.ID)
	}
	if s.FundsPending {
		return fault.New(fault.Conflict, fault.InvalidState,
			"Order %s was restored from the signer's journal and its funds are still to be found again. Nothing was done; its transaction is sent and followed as it is. Try again when `coffer dispatch show %s` no longer says so.", s.ID, s.ID)
	}
	return nil
}

// replaceable is the refusal of whoever wants another transaction where only time makes
// one, or nil.
func (s slot) replaceable() error {
	if s.Purpose != signer.Place {
		return nil
	}
	return fault.New(fault.Conflict, fault.InvalidState,
		"Order %s makes a place of its wallet on the chain: it has no fee to raise, and nothing can take its slot instead. Nothing was done. "+
			"What is out is good for some minutes; when it was not mined by then the service makes another by itself.", s.ID)
}

// refusal says why a transaction could not be added to a slot.
func (s slot) refusal(err error) error {
	switch {
	case errors.Is(err, errCapped):
		return fault.New(fault.Unprocessable, fault.InvalidState,
			"The fee of order %s is %v a gas and may not be raised further: fee_cap of its chain, or the maxNetworkFee of its request, forbids it. Nothing was done; what is out stays out and can still be mined. "+
				"Wait for the fees of the chain to fall, or raise fee_cap, and feeMax of the signer's policy with it.", s.ID, s.newest().Fees.FeeCap)
	case errors.Is(err, wallet.ErrShort):
		return fault.New(fault.Unprocessable, fault.InsufficientBalance,
			"The wallet of order %s lacks the gas for a dearer transaction. Nothing was done; what is out stays out and can still be mined. "+
				"Send native coin to it: `coffer wallets` shows where.", s.ID)
	case errors.Is(err, errLost):
		return fault.New(fault.Conflict, fault.InvalidState,
			"Order %s moved on while it was looked at. This call did nothing. Look again with `coffer dispatch show %s`.", s.ID, s.ID)
	}
	return err
}

// Bump commits a transaction with a higher fee to an order's slot: same payee, same
// amount, same nonce. Either is mined, never both. Errors: faults NOT_FOUND,
// INVALID_STATE, INSUFFICIENT_BALANCE (of gas).
func (d *Desk) Bump(ctx context.Context, orderID string, by audit.Actor) (chain.Fees, error) {
	s, from, err := d.at(ctx, orderID)
	if err != nil {
		return chain.Fees{}, err
	}
	if err := s.ended(); err != nil {
		return chain.Fees{}, err
	}
	if err := s.replaceable(); err != nil {
		return chain.Fees{}, err
	}
	if s.newest().Raw == nil {
		return chain.Fees{}, fault.New(fault.Conflict, fault.InvalidState,
			"The newest transaction of order %s is not signed yet, so there is nothing to replace. Nothing was done. `coffer dispatch show %s` says what it waits for.", s.ID, s.ID)
	}
	if err := d.raise(ctx, from, s, s.newest().Act, reason{made: forOperator, by: by}); err != nil {
		return chain.Fees{}, s.refusal(err)
	}
	s, _, err = d.at(ctx, orderID)
	return s.newest().Fees, err
}

// Cancel fills an order's slot with a transfer of nothing to itself, priced to
// replace what waits there. The order has failed only once that is final; until
// then either may still be mined. It is false for an order without a slot, which is
// taken back by its feature instead, and for one that has ended. Errors: as Bump.
func (d *Desk) Cancel(ctx context.Context, orderID string, by audit.Actor) (bool, error) {
	s, from, err := d.at(ctx, orderID)
	if fault.Is(err, fault.InvalidState) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch s.Status {
	case Slotted, Signed, Broadcast:
	default:
		return false, nil
	}
	if s.newest().Act == signer.Cancel {
		return true, nil
	}
	if err := s.ended(); err != nil {
		return false, err
	}
	if err := s.replaceable(); err != nil {
		return false, err
	}
	because := reason{made: forOperator, by: by}
	if len(s.signed()) > 0 {
		err = d.raise(ctx, from, s, signer.Cancel, because)
	} else {
		var fees chain.Fees
		if fees, err = d.chain.Sender.Quote(ctx, chain.Payment{From: from.Address, To: from.Address}); err != nil {
			return false, fmt.Errorf("price a cancel of order %s: %w", orderID, err)
		}
		err = d.attempt(ctx, from, s, signer.Cancel, fees, because)
	}
	if err != nil {
		return false, s.refusal(err)
	}
	return true, nil
}

// Resolve ends a stuck order by what the balances before and after its final block
// prove its transaction to have done. As many providers as must agree on a final
// block have to agree on them.
//
// The amount left our wallet and reached the payee: paid. Neither changed: failed, and
// the amount is given back. When the whole amount left and less arrived, as with a
// token that takes a part, a person may take it for paid, with short; only a payment,
// because a sweep counts what arrives. Everything else stays stuck. Errors: faults
// NOT_FOUND, INVALID_STATE, UNAVAILABLE.
func (d *Desk) Resolve(ctx context.Context, orderID string, by audit.Actor, short bool) (Status, error) {
	s, from, err := d.at(ctx, orderID)
	if err != nil {
		return "", err
	}
	if s.Status != Stuck {
		return "", fault.New(fault.Conflict, fault.InvalidState, "Order %s is %s. Only a STUCK order is resolved; nothing was done.", s.ID, s.Status)
	}
	stays := func(format string, args ...any) error {
		return fault.New(fault.Unprocessable, fault.InvalidState,
			"Order %s stays STUCK, its amount stays held, and nothing was booked: %s", s.ID, fmt.Sprintf(format, args...))
	}
	payment := s.payment(from.Address)
	out, err := d.chain.Sender.Outcome(ctx, s.signed(), payment)
	if err != nil {
		return "", fault.New(fault.Unavailable, fault.CodeUnavailable, "Order %s stays STUCK and nothing was booked: the providers do not answer for its transaction (%v). Try again.", s.ID, err)
	}
	if out == nil {
		return "", stays("the providers show none of its transactions in a block. Find out why before anything else.")
	}
	block := out.Block
	var proof int64
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT proof_id, parent FROM finality_live WHERE chain = $1 AND height = $2 AND hash = $3`,
			d.chain.Name, block.Height, block.Hash).Scan(&proof, &block.Parent)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", stays("block %d, which has its transaction %s, is not proven final. Wait for the walk of the chain, or decide about its broken finality first.", block.Height, out.Tx)
	}
	if err != nil {
		return "", fmt.Errorf("read the proof of order %s: %w", s.ID, err)
	}
	lost, gained, err := d.weigh(ctx, out.Tx, block, payment)
	if err != nil {
		return "", fault.New(fault.Unavailable, fault.CodeUnavailable, "Order %s stays STUCK and nothing was booked: its block %d cannot be weighed (%v). A provider that keeps old state is needed.", s.ID, block.Height, err)
	}
	amount, none := s.Amount.Big(), new(big.Int)
	e := End{Cancelled: s.attempt(out.Tx).Act == signer.Cancel, Hash: out.Tx, Fee: out.Fee, ProofID: proof, Block: block, Replaced: s.others(out.Tx)}
	switch whole := lost.Cmp(amount) == 0; {
	case whole && gained.Cmp(amount) == 0:
		e.Paid = true
	case lost.Cmp(none) == 0 && gained.Cmp(none) == 0:
	case whole && s.Purpose == signer.Payment && short:
		e.Paid = true
	case whole && s.Purpose == signer.Payment:
		return "", stays("all %v left the wallet, and the payee got %v. Settle the difference with the organization; the same with --short then books the payment as paid.", amount, gained)
	default:
		return "", stays("its transaction took %v from the wallet and brought the payee %v, and the order is for %v. No end of it would leave the books right; find out why, and --as paid or --as unpaid ends it as you find it.", lost, gained, amount)
	}
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if broken, err := finality.Hold(ctx, tx, s.Chain); err != nil {
			return err
		} else if broken {
			return fmt.Errorf("resolve order %s while the chain's finality is broken: %w", s.ID, errLost)
		}
		o, err := lockOrder(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		o.Status = Stuck // or another was first, and the swap says so
		if err := d.finish(ctx, tx, o, e); err != nil {
			return err
		}
		return rememberBy(ctx, tx, by, o, "resolved", map[string]any{"paid": e.Paid, "left": lost.String(), "arrived": gained.String(), "short": short})
	})
	if err != nil {
		return "", s.refusal(err)
	}
	if e.Paid {
		return Paid, nil
	}
	return Failed, nil
}

// weigh is what a transaction took from the payer and brought the payee, by their
// balances before and after its final block without what else moved in it.
func (d *Desk) weigh(ctx context.Context, hash chain.TxHash, block chain.Block, p chain.Payment) (lost, gained *big.Int, err error) {
	c, err := d.chain.Reader.Final(ctx, block.Height)
	if err != nil {
		return nil, nil, err
	}
	if c.Hash != block.Hash {
		return nil, nil, fmt.Errorf("it is %s now", c.Hash)
	}
	of := []chain.Holding{{Address: p.From, Contract: p.Contract}, {Address: p.To, Contract: p.Contract}}
	before, err := d.chain.Reader.Balances(ctx, chain.Block{Height: block.Height - 1, Hash: c.Parent}, of)
	if err != nil {
		return nil, nil, err
	}
	after, err := d.chain.Reader.Balances(ctx, c.Block, of)
	if err != nil {
		return nil, nil, err
	}
	change := func(n int) *big.Int {
		sum := new(big.Int).Sub(after[n].Big(), before[n].Big())
		for _, t := range c.Transfers {
			if t.Tx == hash || t.Contract != p.Contract {
				continue
			}
			if t.To == of[n].Address {
				sum.Sub(sum, t.Amount.Big())
			}
			if t.From == of[n].Address {
				sum.Add(sum, t.Amount.Big())
			}
		}
		if p.Contract == "" {
			for _, fee := range c.Fees {
				if fee.Payer == of[n].Address {
					sum.Add(sum, fee.Amount.Big())
				}
			}
		}
		return sum
	}
	return new(big.Int).Neg(change(0)), change(1), nil
}
