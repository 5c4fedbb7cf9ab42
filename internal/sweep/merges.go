package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// planConsolidations has small coins of organizations become one while that costs little, on a chain
// where accounts are coins, and at the rate of payments where one waits for it: one order at
// a time for each treasury. Which coins they are is
// chosen with the slot; until then they pay whatever comes.
func (s *Sweeper) planConsolidations(ctx context.Context) (made int, err error) {
	if s.chain.Consolidator == nil {
		return 0, nil
	}
	minInputs, _ := s.chain.Consolidator.InputCounts()
	var native int
	var candidates []consolidationCandidate
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		candidates = candidates[:0]
		if err := tx.QueryRow(ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, s.chain.Name).Scan(&native); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT w.wallet_id, demand.waits FROM wallets w CROSS JOIN LATERAL (SELECT EXISTS (
				SELECT FROM dispatch_orders o WHERE o.chain = $1 AND o.wallet_id = w.wallet_id AND o.status = 'QUEUED' AND o.waiting_for = 'MERGE') AS waits) demand
			WHERE w.purpose = 'TREASURY' AND w.family = $2
				AND (demand.waits OR $4 = (SELECT count(*) FROM (SELECT FROM coins c WHERE c.org_id = w.org_id AND c.chain = $1 AND c.mint_id = $3 AND c.status = 'FREE' LIMIT $4) AS few))
				AND NOT EXISTS (SELECT FROM merges m WHERE m.wallet_id = w.wallet_id AND m.chain = $1 AND (m.status = 'OPEN' OR m.status = 'REFUSED' AND m.ended_at > $5))
			ORDER BY w.wallet_id`, s.chain.Name, s.chain.Name.Family(), native, minInputs, tx.Now.Add(-s.conf.RetryAfterFail))
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
		return 0, fmt.Errorf("find the treasuries of many coins: %w", err)
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
				err = errors.Join(err, fmt.Errorf("merge coins of treasury %s: %w", t.ID, e))
			}
		}
		if isPlanned {
			made++
		} else {
			s.postpone(t.ID)
		}
	}
	return made, err
}

// A treasury has many coins; demanded says that a payment waits until some are one.
type consolidationCandidate struct {
	wallet.Wallet
	isDemanded bool
}

// openConsolidation plans one for a treasury, unless its coins are not worth it now.
func (s *Sweeper) openConsolidation(ctx context.Context, t consolidationCandidate, native int, fees chain.Fees) (bool, error) {
	isWorth := false
	if t.isDemanded {
		var err error
		if fees, err = s.chain.Sender.TransferFees(ctx); err != nil {
			return false, err
		}
	}
	var changeRef signer.WalletRef
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if isWorth, err = dispatch.CanConsolidate(ctx, tx, s.chain, t.OrgID, native, fees, t.isDemanded); err != nil || !isWorth {
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
	// Before its order, as every address: one that nothing comes to is the next slot's.
	changeWallet, err := s.wallets.Address(ctx, changeRef)
	if err != nil {
		return false, err
	}
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := dispatch.Submit(ctx, tx, dispatch.Order{
			ID: orderID, OrgID: t.OrgID, Purpose: signer.Consolidate, Chain: s.chain.Name, WalletID: t.ID, ToWalletID: changeWallet.ID, To: changeWallet.Address,
			MintID: native, Amount: money.Zero,
		}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO merges (merge_id, org_id, chain, wallet_id, status, created_at)
			VALUES ($1, $2, $3, $4, 'OPEN', $5)`, orderID, t.OrgID, s.chain.Name, t.ID, tx.Now)
		return err
	})
	if pg.ViolatesConstraint(err, "merges_one_open") {
		return false, nil // somebody else plans at this moment
	}
	if err != nil {
		return false, err
	}
	s.log.Info("merge of coins planned", "treasury", t.ID, "order", orderID, "rate", fees.TipCap.String())
	return true, nil
}

// ConsolidationListener hears of the orders that make one coin of small ones.
type ConsolidationListener struct{ ignoreProgress }

var _ dispatch.Listener = ConsolidationListener{}

// OnEnded closes the merge. It moved nothing in the books but its fee.
func (ConsolidationListener) OnEnded(ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End) ([]ledger.Posting, error) {
	status := "DONE"
	if !e.Paid {
		status = "FAILED"
	}
	return nil, endConsolidation(ctx, tx, o.ID, status)
}

// OnRefused closes the merge: the next plan sees whether there is one to be made.
func (ConsolidationListener) OnRefused(ctx context.Context, tx pg.Tx, o dispatch.Order, _ *signer.Refusal) error {
	return endConsolidation(ctx, tx, o.ID, "REFUSED")
}

// OnRecalled closes the merge.
func (ConsolidationListener) OnRecalled(ctx context.Context, tx pg.Tx, o dispatch.Order, _ audit.Actor) error {
	return endConsolidation(ctx, tx, o.ID, "REFUSED")
}

func endConsolidation(ctx context.Context, tx pg.Tx, orderID, status string) error {
	tag, err := tx.Exec(ctx, `UPDATE merges SET status = $2, ended_at = $3 WHERE merge_id = $1 AND status = 'OPEN'`, orderID, status, tx.Now)
	return endError("merge "+orderID, tag, err)
}
