package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// closeInterval is the pause between two searches through all addresses. A search is a heavy query.
const closeInterval = time.Hour

// idleAccount is an address at which no unit of a token has arrived for long, by Coffer's rows. The
// chain decides whether the address has a token account and whether that is empty.
type idleAccount struct {
	WalletID string
	MintID   int
	OrgID    string
	Address  chain.Address
	Contract chain.Address
}

// selectIdle selects the addresses and tokens for which all of this holds:
//
//   - the address is no treasury, and not one that checkouts share: wallets pay there only while its accounts exist
//     (rule CO-138);
//   - everything that arrived was swept, at least CloseAfter ago;
//   - no deposit arrived and no sweep began within CloseAfter;
//   - nothing is open, held, reserved or undecided;
//   - no close is open, none failed within CloseAfter, and none succeeded since the last sweep.
const selectIdle = `
	SELECT f.wallet_id, f.mint_id, f.org_id, w.address, m.contract
	FROM address_funds f
	JOIN wallets w ON w.wallet_id = f.wallet_id AND w.purpose NOT IN ('TREASURY', 'CHECKOUT_SHARED')
	JOIN mints m ON m.mint_id = f.mint_id AND m.chain = $1 AND m.contract <> '' AND m.quarantined_at IS NULL
	CROSS JOIN LATERAL (SELECT max(s.ended_at) AS swept_at FROM sweeps s
		WHERE s.wallet_id = f.wallet_id AND s.mint_id = f.mint_id AND s.status = 'DONE') last
	WHERE f.credited = f.swept AND f.held = 0 AND f.reserved = 0 AND f.dust = 0 AND last.swept_at <= $2
	  AND NOT EXISTS (SELECT FROM sweeps s WHERE s.wallet_id = f.wallet_id AND s.mint_id = f.mint_id AND (s.status = 'OPEN' OR s.created_at > $2))
	  AND NOT EXISTS (SELECT FROM deposits d WHERE d.wallet_id = f.wallet_id AND d.mint_id = f.mint_id
		AND (d.created_at > $2 OR d.status NOT IN ('CREDITED', 'REVERSED', 'ORPHANED', 'UNSUPPORTED', 'REJECTED', 'REDIRECTED')))
	  AND NOT EXISTS (SELECT FROM closes c WHERE c.wallet_id = f.wallet_id AND c.mint_id = f.mint_id
		AND (c.status = 'OPEN' OR c.ended_at > CASE c.status WHEN 'DONE' THEN last.swept_at ELSE $2 END))`

// planCloses plans the closes of idle token accounts. Each plan goes through a part of the
// addresses until all were visited, and starts over after a pause.
func (s *Sweeper) planCloses(ctx context.Context) (made int, err error) {
	if s.chain.TokenAccounts == nil || s.conf.CloseAfter <= 0 {
		return 0, nil
	}
	if err := s.recallCloses(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	cursor, isDue := s.closeCursor, !s.db.Clock()().Before(s.nextCloseAt)
	s.mu.Unlock()
	if !isDue {
		return 0, nil
	}
	var found []idleAccount
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx,
			selectIdle+` AND (f.wallet_id, f.mint_id) > ($3, $4) ORDER BY f.wallet_id, f.mint_id LIMIT $5`,
			s.chain.Name, tx.Now.Add(-s.conf.CloseAfter), cursor.WalletID, cursor.MintID, s.conf.PlanMax)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[idleAccount])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find the idle token accounts: %w", err)
	}
	if len(found) > 0 {
		holdings := make([]chain.Holding, len(found))
		for i, f := range found {
			holdings[i] = chain.Holding{Address: f.Address, Contract: f.Contract}
		}
		rents, err := s.chain.TokenAccounts.ReclaimableRent(ctx, holdings)
		if err != nil {
			return 0, err
		}
		var errs []error
		for i, f := range found {
			if rents[i].IsZero() {
				continue
			}
			opened, err := s.openClose(ctx, f, rents[i])
			errs = append(errs, err)
			if opened {
				made++
			}
		}
		if err := errors.Join(errs...); err != nil {
			return made, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(found) < s.conf.PlanMax {
		s.closeCursor, s.nextCloseAt = idleAccount{}, s.db.Clock()().Add(min(closeInterval, s.conf.CloseAfter))
	} else {
		s.closeCursor = found[len(found)-1]
	}
	return made, nil
}

// openClose submits the order of a close, unless something arrived or began meanwhile.
func (s *Sweeper) openClose(ctx context.Context, f idleAccount, rent money.Amount) (bool, error) {
	treasury, err := s.wallets.Treasury(ctx, f.OrgID, s.chain.Name.Family())
	if err != nil {
		return false, fmt.Errorf("treasury of %s: %w", f.OrgID, err)
	}
	isIdle := false
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT EXISTS (`+selectIdle+` AND f.wallet_id = $3 AND f.mint_id = $4)`,
			s.chain.Name, tx.Now.Add(-s.conf.CloseAfter), f.WalletID, f.MintID).Scan(&isIdle)
		if err != nil || !isIdle {
			return err
		}
		fromWallet, err := wallet.ByID(ctx, tx, f.WalletID)
		if err != nil {
			return err
		}
		if err := s.wallets.VerifyAttestation(fromWallet); err != nil {
			return err
		}
		return submit(ctx, tx, dispatch.Order{
			ID: id.New("cl", tx.Now), OrgID: f.OrgID, Purpose: signer.CloseTokenAccount, Chain: s.chain.Name,
			WalletID: treasury.ID, FromWalletID: fromWallet.ID, ToWalletID: treasury.ID, To: treasury.Address,
			MintID: f.MintID, Contract: f.Contract, Amount: rent, Trigger: dispatch.TriggerValue,
		})
	})
	if pg.ViolatesConstraint(err, "closes_one_open") {
		return false, nil // another planner was first
	}
	if err != nil {
		return false, fmt.Errorf("close the account of %s in mint %d: %w", f.WalletID, f.MintID, err)
	}
	if isIdle {
		s.log.Info("close planned", "wallet", f.WalletID, "mint", f.MintID, "amount", rent.String())
	}
	return isIdle, nil
}

// recallCloses recalls closes without a slot if something arrived meanwhile or the chain would
// refuse them. In both cases the account is in use, even if it is empty again.
func (s *Sweeper) recallCloses(ctx context.Context) error {
	var closeIDs []string
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT c.close_id FROM closes c JOIN dispatch_orders o ON o.order_id = c.close_id
			WHERE c.chain = $1 AND c.status = 'OPEN' AND o.status = 'QUEUED'
				AND (o.waiting_for = ANY ($4) AND c.created_at <= $2
					OR EXISTS (SELECT FROM deposits d WHERE d.wallet_id = c.wallet_id AND d.mint_id = c.mint_id AND d.created_at >= c.created_at))
			ORDER BY c.close_id LIMIT $3`,
			s.chain.Name, tx.Now.Add(-s.conf.RetryAfterFail), s.conf.PlanMax, dispatch.ReasonsNotOnTheirWay())
		if err != nil {
			return err
		}
		closeIDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("find the closes that are abandoned: %w", err)
	}
	for _, closeID := range closeIDs {
		err := s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := dispatch.Recall(ctx, tx, closeID) // false: it has a slot by now, which ends it
			return err
		})
		if err != nil {
			return fmt.Errorf("abandon close %s: %w", closeID, err)
		}
		s.log.Info("close abandoned: its account is in use", "close", closeID)
	}
	return nil
}
