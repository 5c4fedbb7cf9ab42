package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// An order that creates a nonce account differs from every other order in one thing: its
// transaction names a recent block and expires after some minutes. Whether its slot is used says
// nothing then. Another account may exist at the address, and the transaction is still mined, fails
// and pays its fee. So the order ends only on a transaction of its own in a final block. At most
// one of its transactions can still be mined at any time.

// followExpiring rebuilds a creation that expired: it is in no block and never will be, and neither
// will any before it.
func (m durableNonce) followExpiring(ctx context.Context, payer wallet.Wallet, s slot) (busy bool, err error) {
	last := s.newestAttempt()
	if m.accounts != nil && !s.FundsPending && last.Raw != nil && last.SentAt != nil &&
		m.d.db.Clock()().Sub(last.CreatedAt) >= m.d.conf.BumpAfter {
		if last.Fees.LastValidBlock == 0 {
			return true, m.setExpiry(ctx, payer, s)
		}
		expired, err := m.accounts.Expired(ctx, s.signedHashes(), last.Fees.LastValidBlock)
		if err != nil {
			if err := m.d.noteError(ctx, s, err.Error()); err != nil {
				return false, err
			}
		}
		if expired {
			return m.recreate(ctx, payer, s)
		}
	}
	return m.d.resendOrBump(ctx, payer, s, false)
}

// recreate commits another transaction that creates the same nonce account.
func (m durableNonce) recreate(ctx context.Context, payer wallet.Wallet, s slot) (bool, error) {
	fees, err := m.d.chain.Sender.Quote(ctx, s.chainPayment(payer.Address))
	if err != nil {
		m.d.raiseAlarm(
			ctx, s.ID, "cannot create a nonce account again now", "order", s.ID, "wallet", payer.ID,
			"why", err.Error(),
		)
		return false, m.d.noteError(ctx, s, err.Error())
	}
	err = m.d.commitAttempt(ctx, payer, s, signer.Pay, fees, replacementRequest{
		reason: reasonExpired, actor: systemActor,
	})
	if errors.Is(err, wallet.ErrInsufficient) {
		m.d.raiseAlarm(
			ctx, s.ID, "cannot create a nonce account again: its wallet lacks the "+
				"gas", "order", s.ID, "wallet", payer.ID,
		)
		return false, m.d.noteError(ctx, s, "its wallet lacks the gas to create the nonce account again")
	}
	return err == nil, err
}

// setExpiry sets the expiry of transactions that were restored from the signer's journal, which
// does not record it. It takes the expiry of a transaction built now; that is safe, because the
// restored ones name an older block.
func (m durableNonce) setExpiry(ctx context.Context, payer wallet.Wallet, s slot) error {
	fees, err := m.d.chain.Sender.Quote(ctx, s.chainPayment(payer.Address))
	if err != nil {
		return m.d.noteError(ctx, s, err.Error())
	}
	return m.d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx, `UPDATE dispatch_attempts SET last_valid_block = $2 WHERE order_id = $1
				AND last_valid_block IS NULL`, s.ID,
			int64(fees.LastValidBlock),
		)
		if err != nil {
			return fmt.Errorf("set the expiry of the transactions of order %s: %w", s.ID, err)
		}
		return nil
	})
}

func (m durableNonce) checkCreatable(ctx context.Context, acct chain.Account, o Order) (free, taken bool, err error) {
	if m.accounts == nil {
		return m.nonceOnly.checkCreatable(ctx, acct, o)
	}
	chainSlot := chain.Slot{Key: string(o.To)}
	if latest, final := acct.IsUsed(chainSlot); latest || final {
		return false, final, nil
	}
	err = m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx,
			`SELECT EXISTS (SELECT FROM dispatch_slots WHERE chain = $1 AND md5(slot_key) = md5($2::text)
				AND slot_key = $2)`,
			o.Chain, chainSlot.Key,
		).Scan(&taken)
	})
	if err != nil {
		return false, false, fmt.Errorf("which nonce accounts on %s exist: %w", o.Chain, err)
	}
	return !taken, taken, nil
}
