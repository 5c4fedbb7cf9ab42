package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// allowanceRowsMin is the number of waiting rows of a batch from which an allowance is worth its fee: it
// costs less than two payments save.
const allowanceRowsMin = 3

// lackingAllowance is a token of a treasury in which a batch pays rows that wait.
type lackingAllowance struct {
	OrgID, WalletID string
	MintID          int
	Contract        chain.Address
}

func (l lackingAllowance) key() string { return fmt.Sprint("allowance ", l.WalletID, " ", l.MintID) }

// planAllowances lets the payout contract move the tokens in which batches wait to be paid. The service does so once
// for a treasury and a token. After that a person decides: an allowance that was revoked does not come back
// with the next batch. An allowance that the chain has already, for example in a restored database,
// costs nothing. Rule BP-25.
func (s *Sweeper) planAllowances(ctx context.Context) (made int, err error) {
	if s.chain.PayoutContract == nil {
		return 0, nil
	}
	var found []lackingAllowance
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT DISTINCT o.org_id, o.wallet_id, o.mint_id, o.contract FROM dispatch_orders o
			WHERE o.chain = $1 AND o.status = 'QUEUED' AND o.batch IS NOT NULL AND o.contract <> ''
				AND NOT EXISTS (SELECT FROM payout_allowances a
					WHERE (a.wallet_id, a.chain, a.mint_id) = (o.wallet_id, o.chain, o.mint_id))
			GROUP BY o.org_id, o.wallet_id, o.mint_id, o.contract, o.batch->>'batchId'
			HAVING count(*) >= $2
			ORDER BY 2, 3`, s.chain.Name, allowanceRowsMin)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[lackingAllowance])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find the allowances that batches lack: %w", err)
	}
	now := s.db.Clock()()
	found = slices.DeleteFunc(found, func(l lackingAllowance) bool { return !s.isDue(l.key(), now) })
	if len(found) == 0 {
		return 0, nil
	}
	isDeployed, err := s.chain.PayoutContract.IsDeployed(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, l := range found {
		// Without the contract, or with the allowance, there is nothing to do until something changes.
		s.postpone(l.key(), lookInterval)
		if !isDeployed {
			continue
		}
		isMade, err := s.openAllowance(ctx, l)
		if err != nil {
			errs = append(errs, fmt.Errorf("allowance of wallet %s for mint %d: %w", l.WalletID, l.MintID, err))
		}
		if isMade {
			made++
		}
	}
	return made, errors.Join(errs...)
}

// openAllowance submits the order that grants an allowance, unless the chain has one.
func (s *Sweeper) openAllowance(ctx context.Context, l lackingAllowance) (bool, error) {
	treasury, err := s.wallets.Treasury(ctx, l.OrgID, s.chain.Name.Family())
	if err != nil {
		return false, fmt.Errorf("treasury of %s: %w", l.OrgID, err)
	}
	if treasury.ID != l.WalletID {
		return false, fmt.Errorf("rows of a batch are paid from wallet %s, which is not the treasury", l.WalletID)
	}
	allowed, err := s.chain.PayoutContract.Allowance(ctx, treasury.Address, l.Contract)
	if err != nil || !allowed.IsZero() {
		return false, err
	}
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return submit(ctx, tx, s.allowanceOrder(tx, treasury, l.MintID, l.Contract, signer.GrantAllowance,
			dispatch.TriggerDemand))
	})
	if pg.ViolatesConstraint(err, "payout_allowances_one_open") {
		return false, nil // another planner was first
	}
	if err != nil {
		return false, err
	}
	s.log.Info("allowance of the payout contract planned", "wallet", l.WalletID, "mint", l.MintID)
	return true, nil
}

// allowanceOrder returns the order that changes an allowance.
func (s *Sweeper) allowanceOrder(
	tx pg.Tx, treasury wallet.Wallet, mintID int, contract chain.Address, purpose signer.Purpose,
	trigger dispatch.Trigger,
) dispatch.Order {
	return dispatch.Order{
		ID: id.New("al", tx.Now), OrgID: treasury.OrgID, Purpose: purpose, Chain: s.chain.Name, WalletID: treasury.ID,
		To: s.chain.PayoutContract.Address(), MintID: mintID, Contract: contract, Trigger: trigger,
	}
}

// SetAllowance has the payout contract allowed to move a token of an organization's treasury, or no longer
// allowed to. It returns the id of the order, which the running service carries out. Payments that share a
// transaction under way are not affected if they are mined first; otherwise they fail as a whole, and their amounts
// come back. Rule BP-25.
func (s *Sweeper) SetAllowance(
	ctx context.Context, orgID string, m mint.Mint, isGranted bool, actor audit.Actor,
) (orderID string, err error) {
	contract := s.chain.PayoutContract
	switch {
	case contract == nil:
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"No payout contract is used on %s.", s.chain.Name)
	case m.Chain != s.chain.Name || m.Contract == "":
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Mint %d is no token on %s.", m.ID, s.chain.Name)
	}
	if isGranted {
		isDeployed, err := contract.IsDeployed(ctx)
		if err != nil {
			return "", err
		}
		if !isDeployed {
			return "", fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The payout contract is not deployed on %s: its address %s has no code, or other code.", s.chain.Name,
				contract.Address()).WithAdvice("Deploy the contract first.")
		}
	}
	treasury, err := s.wallets.Treasury(ctx, orgID, s.chain.Name.Family())
	if err != nil {
		return "", fmt.Errorf("treasury of %s: %w", orgID, err)
	}
	purpose := signer.RevokeAllowance
	if isGranted {
		purpose = signer.GrantAllowance
	}
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		o := s.allowanceOrder(tx, treasury, m.ID, m.Contract, purpose, dispatch.TriggerPerson)
		orderID = o.ID
		if err := submit(ctx, tx, o); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Actor: actor, Action: "allowance.requested", ResourceKind: "order", ResourceID: o.ID,
			Detail: map[string]any{
				"chain": s.chain.Name, "mint": m.ID, "contract": contract.Address(), "granted": isGranted,
			},
		})
	})
	if pg.ViolatesConstraint(err, "payout_allowances_one_open") {
		return "", fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Another change of this allowance has not ended.").WithAdvice("Wait until its order has ended.")
	}
	return orderID, err
}

// Allowance is the last change of what the payout contract may move of a treasury in a token. Only the chain says what
// it may move.
type Allowance struct {
	ID        string
	OrgID     string
	Chain     chain.Name
	MintID    int
	IsGranted bool // otherwise it was revoked
	Status    string
	CreatedAt time.Time
}

// ListAllowances returns the last change of each allowance that did not fail, by organization, chain and mint.
func ListAllowances(ctx context.Context, tx pg.Tx) ([]Allowance, error) {
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT ON (org_id, chain, mint_id) allowance_id, org_id, chain, mint_id, is_granted, status, created_at
		FROM payout_allowances WHERE status NOT IN ('FAILED', 'REFUSED')
		ORDER BY org_id, chain, mint_id, created_at DESC, allowance_id DESC`)
	if err != nil {
		return nil, fmt.Errorf("list allowances: %w", err)
	}
	allowances, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Allowance])
	if err != nil {
		return nil, fmt.Errorf("list allowances: %w", err)
	}
	return allowances, nil
}
