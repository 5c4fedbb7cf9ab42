package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// lookInterval is the pause between two questions to the chain about an account that it lacked.
const lookInterval = time.Minute

// lackingAccount is a token that checkouts are paid in at a shared address, whose account there is not known to exist.
type lackingAccount struct {
	WalletID, OrgID string
	MintID          int
	Address         chain.Address
	Contract        chain.Address
	OpenID          string // its creation that has not ended; "" for none
	IsCreated       bool   // the newest creation has ended well, so the chain is asked at once
	IsPaused        bool   // a creation ended not long ago
}

func (l lackingAccount) key() string { return fmt.Sprint(l.WalletID, " ", l.MintID) }

// selectLacking selects the tokens of opened options at shared addresses that have no row in token_accounts. Each
// further creation in a row doubles the pause after it, up to retryFactorMax, because a signer's policy or a token may
// refuse it permanently.
const selectLacking = `
	SELECT w.wallet_id, w.org_id, m.mint_id, w.address, m.contract, coalesce(c.open_id, ''),
		coalesce(c.is_created, false),
		coalesce(c.ended_at + $4::bigint * least(2 ^ least(c.ended - 1, 30), $5::bigint)
			* interval '1 microsecond' > $3, false)
	FROM wallets w
	JOIN mints m ON m.chain = $1 AND m.contract <> '' AND m.deposit_enabled AND m.quarantined_at IS NULL
	CROSS JOIN LATERAL (
		SELECT min(t.creation_id) FILTER (WHERE t.status = 'OPEN') AS open_id, max(t.ended_at) AS ended_at,
			count(t.ended_at) AS ended, (array_agg(t.status ORDER BY t.created_at DESC))[1] = 'DONE' AS is_created
		FROM token_account_creations t WHERE t.wallet_id = w.wallet_id AND t.mint_id = m.mint_id) c
	WHERE w.purpose = 'CHECKOUT_SHARED' AND w.family = $2
	  AND NOT EXISTS (SELECT FROM token_accounts a WHERE a.wallet_id = w.wallet_id AND a.mint_id = m.mint_id)
	  AND EXISTS (SELECT FROM checkout_options o WHERE o.shared_wallet_id = w.wallet_id AND o.mint_id = m.mint_id)
	ORDER BY w.wallet_id, m.mint_id`

// planTokenAccounts finds the token accounts that shared addresses lack. The chain is asked first: an account that
// exists is recorded, also if another person created it, and costs nothing. The treasury pays for one that is missing.
// Only the chain says that an account exists, so a crash or a restored backup leaves nothing to repair.
// Rules CO-136 and CO-138.
func (s *Sweeper) planTokenAccounts(ctx context.Context) (made int, err error) {
	if s.chain.TokenAccounts == nil {
		return 0, nil
	}
	var found []lackingAccount
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectLacking, s.chain.Name, s.chain.Name.Family(), tx.Now,
			s.conf.RetryAfterFail.Microseconds(), retryFactorMax)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[lackingAccount])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find the token accounts that shared addresses lack: %w", err)
	}
	now := s.db.Clock()()
	var asked []lackingAccount
	var holdings []chain.Holding
	for _, l := range found {
		if len(asked) < s.conf.PlanMax && (l.IsCreated || s.isDue(l.key(), now)) {
			asked = append(asked, l)
			holdings = append(holdings, chain.Holding{Address: l.Address, Contract: l.Contract})
		}
	}
	if len(asked) == 0 {
		return 0, nil
	}
	exists, err := s.chain.TokenAccounts.Existing(ctx, holdings)
	if err != nil {
		return 0, err
	}
	var errs []error
	for i, l := range asked {
		isMade := false
		switch {
		case exists[i]:
			isMade, err = s.recordAccount(ctx, l)
		case l.OpenID == "" && !l.IsPaused:
			isMade, err = s.openCreation(ctx, l)
		}
		if !exists[i] {
			s.postpone(l.key(), lookInterval)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("token account of wallet %s for mint %d: %w", l.WalletID, l.MintID, err))
		}
		err = nil
		if isMade {
			made++
		}
	}
	return made, errors.Join(errs...)
}

// recordAccount records that an account exists, and recalls a creation that has no slot yet.
func (s *Sweeper) recordAccount(ctx context.Context, l lackingAccount) (isNew bool, err error) {
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if l.OpenID != "" {
			// false: it has a slot by now. Its transaction changes nothing and ends it.
			if _, err := dispatch.Recall(ctx, tx, l.OpenID); err != nil {
				return err
			}
		}
		if err := s.verifyShared(ctx, tx, l); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO token_accounts (wallet_id, mint_id, org_id, found_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (wallet_id, mint_id) DO NOTHING`, l.WalletID, l.MintID, l.OrgID, tx.Now)
		isNew = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return false, err
	}
	if isNew {
		s.log.Info("token account found", "wallet", l.WalletID, "mint", l.MintID, "created", l.IsCreated)
	}
	return isNew, nil
}

// verifyShared verifies that a row has the shared address that the signer derived: another address would be another
// person's.
func (s *Sweeper) verifyShared(ctx context.Context, tx pg.Tx, l lackingAccount) error {
	w, err := wallet.ByID(ctx, tx, l.WalletID)
	if err != nil {
		return err
	}
	if w.Address != l.Address || w.Purpose != wallet.CheckoutShared {
		return fmt.Errorf("wallet %s is no shared address: %w", w.ID, wallet.ErrProof)
	}
	return s.wallets.VerifyAttestation(w)
}

// openCreation submits the order that creates an account, unless it became known meanwhile.
func (s *Sweeper) openCreation(ctx context.Context, l lackingAccount) (bool, error) {
	treasury, err := s.wallets.Treasury(ctx, l.OrgID, s.chain.Name.Family())
	if err != nil {
		return false, fmt.Errorf("treasury of %s: %w", l.OrgID, err)
	}
	isKnown := false
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM token_accounts WHERE wallet_id = $1 AND mint_id = $2)`,
			l.WalletID, l.MintID).Scan(&isKnown)
		if err != nil || isKnown {
			return err
		}
		if err := s.verifyShared(ctx, tx, l); err != nil {
			return err
		}
		return submit(ctx, tx, dispatch.Order{
			ID: id.New("ta", tx.Now), OrgID: l.OrgID, Purpose: signer.CreateTokenAccount, Chain: s.chain.Name,
			WalletID: treasury.ID, ToWalletID: l.WalletID, To: l.Address, MintID: l.MintID, Contract: l.Contract,
			Trigger: dispatch.TriggerDemand,
		})
	})
	if pg.ViolatesConstraint(err, "token_accounts_one_open") {
		return false, nil // another planner was first
	}
	if err != nil || isKnown {
		return false, err
	}
	s.log.Info("creation of a token account planned", "wallet", l.WalletID, "mint", l.MintID)
	return true, nil
}
