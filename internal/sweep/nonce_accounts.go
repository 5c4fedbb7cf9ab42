package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// NonceAccountsMax is the most nonce accounts of a treasury. It leaves some numbers for those whose
// address a foreign account has taken.
const NonceAccountsMax = 32

// lackingTreasury is a treasury that has fewer nonce accounts than it should.
type lackingTreasury struct {
	Treasury wallet.Wallet
	Planned  int // created or being created, by Coffer's rows
}

// planNonceAccounts plans the nonce accounts that treasuries lack, on a chain that has them. They
// are created before the first payment, because each is usable only when it is final.
func (s *Sweeper) planNonceAccounts(ctx context.Context) (made int, err error) {
	if s.chain.NonceAccounts == nil {
		return 0, nil
	}
	if err := s.ensureTreasuries(ctx); err != nil {
		return 0, err
	}
	var treasuries []lackingTreasury
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		treasuries = treasuries[:0]
		// A refused creation pauses: the signer's policy does not change by being asked.
		rows, err := tx.Query(ctx, `
			SELECT w.wallet_id, count(*) FILTER (WHERE p.status IN ('OPEN', 'DONE'))
			FROM wallets w LEFT JOIN nonce_accounts p ON p.wallet_id = w.wallet_id AND p.chain = $1
			WHERE w.purpose = 'TREASURY' AND w.family = $2
			GROUP BY w.wallet_id
			HAVING count(*) FILTER (WHERE p.status IN ('OPEN', 'DONE')) < $3
				AND coalesce(max(p.ended_at) FILTER (WHERE p.status = 'REFUSED'), '-infinity') <= $4
			ORDER BY w.wallet_id`,
			s.chain.Name, s.chain.Name.Family(), s.conf.NonceAccounts, tx.Now.Add(-s.conf.RetryAfterFail))
		if err != nil {
			return err
		}
		type found struct {
			WalletID string
			Kept     int
		}
		counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
		if err != nil {
			return err
		}
		for _, f := range counts {
			if !s.isDue(f.WalletID, tx.Now) || len(treasuries) == s.conf.PlanMax {
				continue
			}
			w, err := wallet.ByID(ctx, tx, f.WalletID)
			if err != nil {
				return err
			}
			treasuries = append(treasuries, lackingTreasury{w, f.Kept})
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("find the treasuries that lack nonce accounts: %w", err)
	}
	for _, l := range treasuries {
		n, e := s.planMissing(ctx, l)
		made += n
		if e != nil {
			err = errors.Join(err, fmt.Errorf("nonce accounts of treasury %s: %w", l.Treasury.ID, e))
		}
	}
	return made, err
}

// ensureTreasuries issues the treasuries that organizations lack. A treasury needs its nonce
// accounts before the first payment is requested.
func (s *Sweeper) ensureTreasuries(ctx context.Context) error {
	var orgIDs []string
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT org_id FROM organizations o
			WHERE NOT EXISTS (SELECT FROM wallets w WHERE w.org_id = o.org_id AND w.family = $1 AND w.purpose = 'TREASURY')
			ORDER BY org_id LIMIT $2`, s.chain.Name.Family(), s.conf.PlanMax)
		if err != nil {
			return err
		}
		orgIDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("find the organizations without a treasury: %w", err)
	}
	for _, org := range orgIDs {
		if _, err := s.wallets.Treasury(ctx, org, s.chain.Name.Family()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sweeper) isDue(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.retryAt[key])
}

// postpone delays the next check of what a key names. A check of a treasury asks the chain about 64 accounts.
func (s *Sweeper) postpone(key string, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retryAt[key] = s.db.Clock()().Add(pause)
}

// planMissing plans the nonce accounts that a treasury lacks, judged by the chain: rows may have
// been lost, and an account on the chain is usable without one. It tries the numbers from the
// lowest. A number whose address another account has taken is never used.
func (s *Sweeper) planMissing(ctx context.Context, l lackingTreasury) (made int, err error) {
	t := l.Treasury
	if err := s.wallets.VerifyAttestation(t); err != nil {
		return 0, err
	}
	acct, err := s.chain.Sender.Account(ctx, t.Address)
	if err != nil {
		return 0, err
	}
	onChain := 0
	for _, slot := range acct.Slots {
		if slot.Latest != "" {
			onChain++
		}
	}
	var statuses map[chain.Address]string
	if err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		statuses, err = loadNonceAccounts(ctx, tx, t.ID, s.chain.Name)
		return err
	}); err != nil {
		return 0, err
	}
	pending := 0
	for address, status := range statuses {
		if _, isFinal := acct.IsUsed(chain.Slot{Key: string(address)}); status == "OPEN" && !isFinal {
			pending++
		}
	}
	missing := min(s.conf.NonceAccounts-l.Planned, s.conf.NonceAccounts-onChain-pending)
	for n := 0; made < missing; n++ {
		p, err := s.chain.NonceAccounts.Creation(t.Address, n)
		if err != nil {
			s.postpone(t.ID, s.conf.RetryAfterFail)
			s.log.Error(
				"a treasury has fewer nonce accounts than it should, and no number is left for another one",
				"treasury", t.ID,
				"lacks", missing-made,
			)
			return made, nil
		}
		if status := statuses[p.To]; status == "OPEN" || status == "DONE" {
			continue
		}
		if isLatest, isFinal := acct.IsUsed(chain.Slot{Key: string(p.To)}); isLatest || isFinal {
			s.log.Warn(
				"a number is left out: the address of its nonce account is in use", "treasury", t.ID, "number", n,
				"at", string(p.To),
			)
			continue
		}
		if statuses[p.To] == "FAILED" {
			continue
		}
		ok, err := s.openNonceAccount(ctx, t, p)
		if err != nil {
			return made, err
		}
		if !ok {
			return made, nil // another planner was first
		}
		made++
		s.log.Info("nonce account planned", "treasury", t.ID, "number", n, "at", string(p.To))
	}
	if missing <= 0 {
		s.postpone(t.ID, s.conf.RetryAfterFail)
	}
	return made, nil
}

// loadNonceAccounts returns the addresses and statuses of a treasury's nonce accounts, including
// failed creations and without refused ones.
func loadNonceAccounts(
	ctx context.Context, tx pg.Tx, walletID string, name chain.Name,
) (map[chain.Address]string, error) {
	rows, err := tx.Query(
		ctx, `SELECT address, status FROM nonce_accounts WHERE wallet_id = $1 AND chain = $2
			AND status <> 'REFUSED'`, walletID,
		name,
	)
	if err != nil {
		return nil, fmt.Errorf("read the nonce accounts of treasury %s: %w", walletID, err)
	}
	type row struct {
		At     chain.Address
		Status string
	}
	accounts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("read the nonce accounts of treasury %s: %w", walletID, err)
	}
	statuses := map[chain.Address]string{}
	for r := range slices.Values(accounts) {
		statuses[r.At] = r.Status
	}
	return statuses, nil
}

// openNonceAccount submits the order that creates a nonce account. It returns false if one has the
// address already.
func (s *Sweeper) openNonceAccount(ctx context.Context, t wallet.Wallet, p chain.Payment) (bool, error) {
	err := s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var native int
		if err := tx.QueryRow(
			ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, s.chain.Name,
		).Scan(&native); err != nil {
			return fmt.Errorf("native coin of %s: %w", s.chain.Name, err)
		}
		return submit(ctx, tx, dispatch.Order{
			ID: id.New("place", tx.Now), OrgID: t.OrgID, Purpose: signer.CreateNonceAccount, Chain: s.chain.Name,
			WalletID: t.ID, To: p.To, MintID: native, Amount: p.Amount, Trigger: dispatch.TriggerDemand,
		})
	})
	if pg.ViolatesConstraint(err, "nonce_accounts_address_once") {
		return false, nil
	}
	return err == nil, err
}

// NonceAccountListener handles the orders that create nonce accounts.
type NonceAccountListener struct{ Listener }

// OnEnded makes the orders due that wait for a slot. The fee of the order includes the rent that
// stays in the account.
func (NonceAccountListener) OnEnded(
	ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End,
) ([]ledger.Posting, error) {
	if !e.Paid {
		return nil, nil
	}
	return nil, dispatch.EndWaits(ctx, tx, o.WalletID, o.Chain, dispatch.RemedyNonceAccount)
}
