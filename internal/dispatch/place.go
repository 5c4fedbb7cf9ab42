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

// followExpiring sends what makes a place and is in no block, and makes it again when it has
// lapsed: then it is in no block and never will be, nor is any before it.
func (d *Worker) followExpiring(ctx context.Context, payer wallet.Wallet, s slot) (busy bool, err error) {
	last := s.newestAttempt()
	if d.chain.NonceAccounts != nil && !s.FundsPending && last.Raw != nil && last.SentAt != nil && d.db.Clock()().Sub(last.CreatedAt) >= d.conf.BumpAfter {
		if last.Fees.LastValidBlock == 0 {
			return true, d.setExpiry(ctx, payer, s)
		}
		expired, err := d.chain.NonceAccounts.Expired(ctx, s.signedHashes(), last.Fees.LastValidBlock)
		if err != nil {
			if err := d.noteError(ctx, s, err.Error()); err != nil {
				return false, err
			}
		}
		if expired {
			return d.recreate(ctx, payer, s)
		}
	}
	return d.resendOrBump(ctx, payer, s, false)
}

// recreate commits another transaction that makes the same place.
func (d *Worker) recreate(ctx context.Context, payer wallet.Wallet, s slot) (bool, error) {
	fees, err := d.chain.Sender.Quote(ctx, s.chainPayment(payer.Address))
	if err != nil {
		d.raiseAlarm(ctx, s.ID, "a place cannot be made again as things stand", "order", s.ID, "wallet", payer.ID, "why", err.Error())
		return false, d.noteError(ctx, s, err.Error())
	}
	err = d.commitAttempt(ctx, payer, s, signer.Pay, fees, replacementRequest{reason: reasonExpired, actor: systemActor})
	if errors.Is(err, wallet.ErrInsufficient) {
		d.raiseAlarm(ctx, s.ID, "a place cannot be made again: its wallet lacks the gas", "order", s.ID, "wallet", payer.ID)
		return false, d.noteError(ctx, s, "its wallet lacks the gas to make the place again")
	}
	return err == nil, err
}

// setExpiry gives transactions that came from the signer's journal, which does not know for how
// long they are good, the time that one of now would have: they name an older block.
func (d *Worker) setExpiry(ctx context.Context, payer wallet.Wallet, s slot) error {
	fees, err := d.chain.Sender.Quote(ctx, s.chainPayment(payer.Address))
	if err != nil {
		return d.noteError(ctx, s, err.Error())
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_attempts SET good_until = $2 WHERE order_id = $1 AND good_until IS NULL`, s.ID, int64(fees.LastValidBlock))
		if err != nil {
			return fmt.Errorf("date the transactions of order %s: %w", s.ID, err)
		}
		return nil
	})
}
