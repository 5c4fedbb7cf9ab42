package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// planTopUps sends gas from the treasury to the addresses whose sweeps wait for it. A treasury that
// lacks gas itself waits for the operator; its own orders show that.
func (s *Sweeper) planTopUps(ctx context.Context) (made int, err error) {
	var (
		underfunded []dispatch.UnderfundedOrder
		native      int
	)
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if underfunded, err = dispatch.ListUnderfunded(
			ctx, tx, s.chain.Name, dispatch.RemedyTopUp, s.conf.PlanMax,
		); err != nil || len(underfunded) == 0 {
			return err
		}
		return tx.QueryRow(
			ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, s.chain.Name,
		).Scan(&native)
	})
	if err != nil {
		return 0, fmt.Errorf("find the sweeps that wait for gas: %w", err)
	}
	for _, o := range underfunded {
		if !o.TakesToppedUpGas() {
			continue // the treasury itself lacks the gas
		}
		opened, e := s.openTopUp(ctx, o, native)
		if e != nil { // the others need not wait for it
			err = errors.Join(err, fmt.Errorf("top up %s: %w", o.WalletID, e))
		}
		if opened {
			made++
		}
	}
	return made, err
}

func (s *Sweeper) openTopUp(ctx context.Context, o dispatch.UnderfundedOrder, native int) (bool, error) {
	treasury, err := s.wallets.Treasury(ctx, o.OrgID, s.chain.Name.Family())
	if err != nil {
		return false, err
	}
	amount, err := s.topUpAmount(ctx, o.Missing)
	if err != nil {
		return false, err
	}
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// After a recent failure, the same request would only make rows. An open top-up would
		// violate the index as well, except for a restored one. But that would happen only after
		// rows were written, at every plan while the gas is on its way.
		var hasRecent bool
		if err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM gas_top_ups WHERE wallet_id = $1 AND chain = $2
				AND (status = 'OPEN' OR status = 'FAILED' AND ended_at > $3))`,
			o.WalletID, s.chain.Name, tx.Now.Add(-s.conf.RetryAfterFail)).Scan(&hasRecent); err != nil {
			return fmt.Errorf("read the last top-ups: %w", err)
		}
		if hasRecent {
			return errNoTopUp
		}
		toWallet, err := wallet.ByID(ctx, tx, o.WalletID)
		if err != nil {
			return err
		}
		if err := s.wallets.VerifyAttestation(toWallet); err != nil {
			return err
		}
		if err := submit(ctx, tx, dispatch.Order{
			ID: id.New("gas", tx.Now), OrgID: o.OrgID, Purpose: signer.GasTopUp, Chain: s.chain.Name,
			WalletID: treasury.ID, ToWalletID: toWallet.ID, To: toWallet.Address,
			MintID: native, Amount: amount, Trigger: dispatch.TriggerDemand,
		}); err != nil {
			return err
		}
		// Checked while no other top-up can be open any more: the previous one may have ended since
		// the sweep was found short of gas.
		isShort, err := dispatch.NeedsRemedy(ctx, tx, o.ID, dispatch.RemedyTopUp)
		if err == nil && !isShort {
			err = errNoTopUp
		}
		return err
	})
	if pg.ViolatesConstraint(err, "gas_top_ups_one_open") || errors.Is(err, errNoTopUp) {
		return false, nil // one is on its way, has arrived, or failed recently
	}
	if err != nil {
		return false, err
	}
	s.log.Info("gas top-up planned", "wallet", o.WalletID, "amount", amount.String(), "for", o.ID)
	return true, nil
}

// errNoTopUp rolls back a top-up that is not needed at present.
var errNoTopUp = errors.New("no top-up now")

// topUpAmount returns what an address gets: what it lacks, but at least the present cost of a
// transfer, plus the margin.
func (s *Sweeper) topUpAmount(ctx context.Context, amount money.Amount) (money.Amount, error) {
	usualCost, err := s.transferCost(ctx)
	if err != nil {
		return money.Zero, err
	}
	if amount.Less(usualCost) {
		amount = usualCost
	}
	margin, err := amount.Bps(s.conf.GasMarginBps)
	if err != nil {
		return money.Zero, err
	}
	return amount.Add(margin)
}

// TopUpListener handles the orders of top-ups.
type TopUpListener struct{ Listener }

// OnEnded makes the sweep that waits for the top-up due.
func (TopUpListener) OnEnded(
	ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End,
) ([]ledger.Posting, error) {
	if !e.Paid {
		return nil, nil
	}
	return nil, dispatch.EndWaits(ctx, tx, o.ToWalletID, o.Chain, dispatch.RemedyTopUp)
}
