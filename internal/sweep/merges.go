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

// merges has small coins of organizations become one while that costs little, on a chain
// where accounts are coins, and at the rate of payments where one waits for it: one order at
// a time for each treasury. Which coins they are is
// chosen with the slot; until then they pay whatever comes.
func (s *Sweeper) merges(ctx context.Context) (made int, err error) {
	if s.chain.Merges == nil {
		return 0, nil
	}
	least, _ := s.chain.Merges.Bounds()
	var native int
	var many []treasury
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		many = many[:0]
		if err := tx.QueryRow(ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, s.chain.Name).Scan(&native); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT w.wallet_id, demand.waits FROM wallets w CROSS JOIN LATERAL (SELECT EXISTS (
				SELECT FROM dispatch_orders o WHERE o.chain = $1 AND o.wallet_id = w.wallet_id AND o.status = 'QUEUED' AND o.waiting_for = 'MERGE') AS waits) demand
			WHERE w.purpose = 'TREASURY' AND w.family = $2
				AND (demand.waits OR $4 = (SELECT count(*) FROM (SELECT FROM coins c WHERE c.org_id = w.org_id AND c.chain = $1 AND c.mint_id = $3 AND c.status = 'FREE' LIMIT $4) AS few))
				AND NOT EXISTS (SELECT FROM merges m WHERE m.wallet_id = w.wallet_id AND m.chain = $1 AND (m.status = 'OPEN' OR m.status = 'REFUSED' AND m.ended_at > $5))
			ORDER BY w.wallet_id`, s.chain.Name, s.chain.Name.Family(), native, least, tx.Now.Add(-s.conf.RestAfterFail))
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
			if !f.Waits && !s.due(f.ID, tx.Now) || len(many) == s.conf.PlanMax {
				continue
			}
			w, err := wallet.ByID(ctx, tx, f.ID)
			if err != nil {
				return err
			}
			many = append(many, treasury{w, f.Waits})
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("find the treasuries of many coins: %w", err)
	}
	if len(many) == 0 {
		return 0, nil
	}
	price, low, err := s.chain.Merges.Price(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range many {
		planned := false
		if low || t.demanded {
			var e error
			if planned, e = s.merge(ctx, t, native, price); e != nil {
				err = errors.Join(err, fmt.Errorf("merge coins of treasury %s: %w", t.ID, e))
			}
		}
		if planned {
			made++
		} else {
			s.rest(t.ID)
		}
	}
	return made, err
}

// A treasury has many coins; demanded says that a payment waits until some are one.
type treasury struct {
	wallet.Wallet
	demanded bool
}

// merge plans one for a treasury, unless its coins are not worth it now.
func (s *Sweeper) merge(ctx context.Context, t treasury, native int, price chain.Fees) (bool, error) {
	worth := false
	if t.demanded {
		var err error
		if price, err = s.chain.Sender.TransferFees(ctx); err != nil {
			return false, err
		}
	}
	var back signer.WalletRef
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if worth, err = dispatch.Merges(ctx, tx, s.chain, t.OrgID, native, price, t.demanded); err != nil || !worth {
			return err
		}
		back, err = dispatch.NextRest(ctx, tx, s.chain.Name, t.OrgID)
		return err
	})
	if err != nil || !worth {
		return false, err
	}
	if err := s.book.Prove(t.Wallet); err != nil {
		return false, err
	}
	mergeID := id.New("merge", s.db.Clock()())
	// Before its order, as every address: one that nothing comes to is the next slot's.
	to, err := s.book.Address(ctx, back)
	if err != nil {
		return false, err
	}
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := dispatch.Place(ctx, tx, dispatch.Order{
			ID: mergeID, OrgID: t.OrgID, Purpose: signer.Merge, Chain: s.chain.Name, WalletID: t.ID, ToWalletID: to.ID, To: to.Address,
			MintID: native, Amount: money.Zero,
		}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO merges (merge_id, org_id, chain, wallet_id, status, created_at)
			VALUES ($1, $2, $3, $4, 'OPEN', $5)`, mergeID, t.OrgID, s.chain.Name, t.ID, tx.Now)
		return err
	})
	if pg.Violates(err, "merges_one_open") {
		return false, nil // somebody else plans at this moment
	}
	if err != nil {
		return false, err
	}
	s.log.Info("merge of coins planned", "treasury", t.ID, "order", mergeID, "rate", price.TipCap.String())
	return true, nil
}

// Merges hears of the orders that make one coin of small ones.
type Merges struct{ untold }

var _ dispatch.Listener = Merges{}

// Ended closes the merge. It moved nothing in the books but its fee.
func (Merges) Ended(ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End) ([]ledger.Posting, error) {
	to := "DONE"
	if !e.Paid {
		to = "FAILED"
	}
	return nil, endMerge(ctx, tx, o.ID, to)
}

// Refused closes the merge: the next plan sees whether there is one to be made.
func (Merges) Refused(ctx context.Context, tx pg.Tx, o dispatch.Order, _ *signer.Refusal) error {
	return endMerge(ctx, tx, o.ID, "REFUSED")
}

// Withdrawn closes the merge.
func (Merges) Withdrawn(ctx context.Context, tx pg.Tx, o dispatch.Order, _ audit.Actor) error {
	return endMerge(ctx, tx, o.ID, "REFUSED")
}

func endMerge(ctx context.Context, tx pg.Tx, mergeID, to string) error {
	tag, err := tx.Exec(ctx, `UPDATE merges SET status = $2, ended_at = $3 WHERE merge_id = $1 AND status = 'OPEN'`, mergeID, to, tx.Now)
	return ended("merge "+mergeID, tag, err)
}
