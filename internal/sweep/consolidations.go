package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// planConsolidations plans consolidations of small outputs on UTXO chains, one open order per
// treasury. It plans them while fees are low, and at the fee rate of payments if a payment waits
// for one. The outputs are chosen with the slot; until then any payment may spend them.
// Rule COIN-8.
func (s *Sweeper) planConsolidations(ctx context.Context) (made int, err error) {
	if s.chain.Consolidator == nil {
		return 0, nil
	}
	minInputs, _ := s.chain.Consolidator.InputCounts()
	var native int
	var candidates []consolidationCandidate
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		candidates = candidates[:0]
		if err := tx.QueryRow(
			ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, s.chain.Name,
		).Scan(&native); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT w.wallet_id, demand.waits FROM wallets w CROSS JOIN LATERAL (SELECT EXISTS (
				SELECT FROM dispatch_orders o WHERE o.chain = $1 AND o.wallet_id = w.wallet_id AND o.status = 'QUEUED' AND o.waiting_for = ANY ($6)) AS waits) demand
			WHERE w.purpose = 'TREASURY' AND w.family = $2
				AND (demand.waits OR $4 = (SELECT count(*) FROM (SELECT FROM utxos c WHERE c.org_id = w.org_id AND c.chain = $1 AND c.mint_id = $3 AND c.status = 'FREE' LIMIT $4) AS few))
				AND NOT EXISTS (SELECT FROM consolidations m WHERE m.wallet_id = w.wallet_id AND m.chain = $1 AND (m.status = 'OPEN' OR m.status = 'REFUSED' AND m.ended_at > $5))
			ORDER BY w.wallet_id`,
			s.chain.Name, s.chain.Name.Family(), native, minInputs, tx.Now.Add(-s.conf.RetryAfterFail),
			dispatch.ReasonsOf(dispatch.RemedyConsolidation))
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			ID    string
			Waits bool
		}])
		if err != nil {
			return err
		}
		for _, f := range found {
			if !f.Waits && !s.isDue(f.ID, tx.Now) || len(candidates) == s.conf.PlanMax {
				continue
			}
			w, err := wallet.ByID(ctx, tx, f.ID)
			if err != nil {
				return err
			}
			candidates = append(candidates, consolidationCandidate{w, f.Waits})
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("find the treasuries with many outputs: %w", err)
	}
	if len(candidates) == 0 {
		return 0, nil
	}
	fees, isLow, err := s.chain.Consolidator.QuoteConsolidation(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range candidates {
		isPlanned := false
		if isLow || t.isDemanded {
			var e error
			if isPlanned, e = s.openConsolidation(ctx, t, native, fees); e != nil {
				err = errors.Join(err, fmt.Errorf("consolidate outputs of treasury %s: %w", t.ID, e))
			}
		}
		if isPlanned {
			made++
		} else {
			s.postpone(t.ID, s.conf.RetryAfterFail)
		}
	}
	return made, err
}

// consolidationCandidate is a treasury with many outputs. isDemanded says that a payment waits for
// a consolidation.
type consolidationCandidate struct {
	wallet.Wallet
	isDemanded bool
}

// openConsolidation plans a consolidation for a treasury, unless its outputs are not worth it now.
func (s *Sweeper) openConsolidation(
	ctx context.Context, t consolidationCandidate, native int, fees chain.Fees,
) (bool, error) {
	isWorth, trigger := false, dispatch.TriggerValue
	if t.isDemanded {
		trigger = dispatch.TriggerDemand
		var err error
		if fees, err = s.chain.Sender.TransferFees(ctx); err != nil {
			return false, err
		}
	}
	var changeRef signer.WalletRef
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if isWorth, err = dispatch.CanConsolidate(ctx, tx, s.chain, t.OrgID, native, fees, t.isDemanded); err != nil ||
			!isWorth {
			return err
		}
		changeRef, err = dispatch.NextChangeWallet(ctx, tx, s.chain.Name, t.OrgID)
		return err
	})
	if err != nil || !isWorth {
		return false, err
	}
	if err := s.wallets.VerifyAttestation(t.Wallet); err != nil {
		return false, err
	}
	orderID := id.New("merge", s.db.Clock()())
	// The address is issued before the order, like every address. If no output arrives there, the
	// next slot takes it.
	changeWallet, err := s.wallets.Address(ctx, changeRef)
	if err != nil {
		return false, err
	}
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return submit(ctx, tx, dispatch.Order{
			ID: orderID, OrgID: t.OrgID, Purpose: signer.Consolidate, Chain: s.chain.Name, WalletID: t.ID,
			ToWalletID: changeWallet.ID, To: changeWallet.Address,
			MintID: native, Amount: money.Zero, Trigger: trigger,
		})
	})
	if pg.ViolatesConstraint(err, "consolidations_one_open") {
		return false, nil // another planner was first
	}
	if err != nil {
		return false, err
	}
	s.log.Info("consolidation planned", "treasury", t.ID, "order", orderID, "rate", fees.TipCap.String())
	return true, nil
}
