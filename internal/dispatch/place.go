package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// An order that makes a place is followed like every other but in one thing: what it sends
// names a recent block and is good for some minutes, so time may take it. Whether its slot
// is used says nothing then: a stranger may be there, and what is sent is mined all the
// same, fails, and pays its fee. So it ends on a transaction of its own in a final block
// alone, and there is never more than one that could still be mined.

// renew sends what makes a place and is in no block, and makes it again when it has
// lapsed: then it is in no block and never will be, nor is any before it.
func (d *Desk) renew(ctx context.Context, from wallet.Wallet, s slot) (busy bool, err error) {
	last := s.newest()
	if d.chain.Places != nil && !s.FundsPending && last.Raw != nil && last.SentAt != nil && d.db.Clock()().Sub(last.CreatedAt) >= d.conf.BumpAfter {
		if last.Fees.Until == 0 {
			return true, d.date(ctx, from, s)
		}
		lapsed, err := d.chain.Places.Lapsed(ctx, s.signed(), last.Fees.Until)
		if err != nil {
			if err := d.note(ctx, s, err.Error()); err != nil {
				return false, err
			}
		}
		if lapsed {
			return d.again(ctx, from, s)
		}
	}
	return d.push(ctx, from, s, false)
}

// again commits another transaction that makes the same place.
func (d *Desk) again(ctx context.Context, from wallet.Wallet, s slot) (bool, error) {
	fees, err := d.chain.Sender.Quote(ctx, s.payment(from.Address))
	if err != nil {
		d.alarm(ctx, s.ID, "a place cannot be made again as things stand", "order", s.ID, "wallet", from.ID, "why", err.Error())
		return false, d.note(ctx, s, err.Error())
	}
	err = d.attempt(ctx, from, s, signer.Pay, fees, reason{made: forLapse, by: dispatcher})
	if errors.Is(err, wallet.ErrShort) {
		d.alarm(ctx, s.ID, "a place cannot be made again: its wallet lacks the gas", "order", s.ID, "wallet", from.ID)
		return false, d.note(ctx, s, "its wallet lacks the gas to make the place again")
	}
	return err == nil, err
}

// date gives transactions that came from the signer's journal, which does not know for how
// long they are good, the time that one of now would have: they name an older block.
func (d *Desk) date(ctx context.Context, from wallet.Wallet, s slot) error {
	fees, err := d.chain.Sender.Quote(ctx, s.payment(from.Address))
	if err != nil {
		return d.note(ctx, s, err.Error())
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_attempts SET good_until = $2 WHERE order_id = $1 AND good_until IS NULL`, s.ID, int64(fees.Until))
		if err != nil {
			return fmt.Errorf("date the transactions of order %s: %w", s.ID, err)
		}
		return nil
	})
}
