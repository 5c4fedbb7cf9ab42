package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

var _ dispatch.RestoreListener = (*Service)(nil)

// OnRestored implements dispatch.RestoreListener. It creates the row and the hold of a payment that
// the signer's journal has and the database lacks. The hold is always whole, so the payment ends
// like any other. What the customer's restored balance lacks for the hold becomes a debt, which
// deposits pay once they are found again.
//
// A payment that was never signed waits for approval: nothing of it was sent, and it may have been
// taken back after the backup was made.
func (s *Service) OnRestored(ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder) ([]ledger.Posting, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, err
	}
	latestIDs := latestOfRefunds(orders)
	balances := map[ledger.Account]money.Amount{}
	var postings []ledger.Posting
	for _, o := range orders {
		if o.Voided {
			// Its hold stays until a person removes it.
			if err := s.OnRefused(
				ctx, tx, o.Order,
				&signer.Refusal{Code: signer.RefusedVoid, Message: dispatch.VoidedAfterBackup},
			); err != nil {
				return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
			}
			continue
		}
		exists, err := s.reconcileRestored(ctx, tx, o)
		if err != nil {
			return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
		}
		if exists {
			continue
		}
		m, ok := mints.ByID(o.MintID)
		if !ok || m.Chain != o.Chain || m.Contract != o.Contract {
			return nil, fmt.Errorf(
				"restore withdrawal %s: mint %d differs from the mint in the journal: configure it as it was",
				o.ID, o.MintID,
			)
		}
		payer := ledger.OwnerOf(o.CustomerID, o.Product)
		if o.Refund != nil && latestIDs[o.Refund.RefundID] == o.ID && s.Refunds != nil {
			isOwed, err := s.Refunds.RestoreRefund(ctx, tx, RestoredRefund{
				OrgID: o.OrgID, RefundID: o.Refund.RefundID, KeyHash: o.KeyHash, MintID: o.MintID, ToAddress: o.To,
				Amount: o.Amount, FeeDeducted: o.FeeDeducted,
			})
			if err != nil {
				return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
			}
			if isOwed {
				payer = ledger.RefundOwner()
			}
		}
		if o.Batch != nil {
			isHeld, err := isHeldForRow(ctx, tx, o)
			if err != nil {
				return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
			}
			if isHeld {
				payer = ledger.BatchOwner()
			}
		}
		if !payer.IsOrganization() {
			if _, _, err := customer.Ensure(ctx, tx, o.OrgID, o.CustomerID, ""); err != nil {
				return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
			}
		}
		account := payer.SpendingAccount(o.OrgID, o.MintID)
		if _, isLoaded := balances[account]; !isLoaded {
			if balances[account], err = ledger.Balance(ctx, tx, account); err != nil {
				return nil, err
			}
		}
		amount, err := o.Amount.Add(o.FeeDeducted)
		if err != nil {
			return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
		}
		owed := money.SubOrZero(amount, balances[account])
		balances[account] = money.SubOrZero(balances[account], amount)
		if err := s.insertRestored(ctx, tx, o, payer, m, amount, owed); err != nil {
			return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
		}
		if !owed.IsZero() {
			postings = append(postings, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Restore, ID: o.ID},
				Legs:  []ledger.Leg{{Debit: payer.DebtAccount(o.OrgID, o.MintID), Credit: account, Amount: owed}},
			})
		}
		postings = append(postings, newHoldPosting(o.OrgID, o.ID, payer, o.MintID, amount))
	}
	return postings, nil
}

// reconcileRestored updates a row of the backup to the state of its order. The row has its hold
// already.
func (s *Service) reconcileRestored(ctx context.Context, tx pg.Tx, o dispatch.RestoredOrder) (bool, error) {
	var status Status
	err := tx.QueryRow(
		ctx, `SELECT status FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2 FOR UPDATE`, o.OrgID,
		o.ID,
	).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		if !o.IsNew {
			return false, errors.New("the database has its order and not its row")
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case !o.Signed && status == AwaitingApproval, o.Signed && (status == Processing || status == Broadcast):
		return true, nil
	case o.Signed && status == AwaitingApproval:
		// It was approved after the backup was made; the approver is not known here.
		if err := setStatus(ctx, tx, o.OrgID, o.ID, AwaitingApproval, Processing,
			"approved_at = $5, fee_deducted = coalesce(fee_deducted, $6)",
			tx.Now, deductedFee(o)); err != nil {
			return false, err
		}
		w, err := Load(ctx, tx, o.OrgID, o.ID)
		if err != nil {
			return false, err
		}
		if err := s.publishEvent(ctx, tx, o.OrgID, findTransition(AwaitingApproval, Processing), w); err != nil {
			return false, err
		}
		return true, recordDecision(ctx, tx, o.OrgID, DecisionRecord{
			withdrawalID: o.ID, Act: ActApproved, Status: Processing,
			Note: "the signer has signed it since the backup", Actor: restoreActor,
		}, "withdrawal.approved", map[string]any{"restored": true})
	}
	return false, fmt.Errorf("it is %s here, and the signer has signed or admitted it since", status)
}

func (s *Service) insertRestored(
	ctx context.Context, tx pg.Tx, o dispatch.RestoredOrder, payer ledger.Owner, m mint.Mint, amount,
	owed money.Amount,
) error {
	status, reasons := Processing, []Reason{}
	if !o.Signed {
		status, reasons = AwaitingApproval, []Reason{ReasonRestored}
	}
	var key *string
	if o.KeyHash != "" {
		key = &o.KeyHash
	}
	p := parsed{mint: m, amount: amount, destination: o.To, deductsFee: !o.FeeDeducted.IsZero()}
	restored := storedWithdrawal{
		id: o.ID, owner: payer, listedID: o.WhitelistedID, mintID: o.MintID, chain: o.Chain, amount: amount,
		toAddress: o.To, deductsFee: p.deductsFee, feeMax: o.FeeMax,
	}
	if payer.IsRefund() {
		restored.refund = o.Refund
	}
	if payer.IsBatch() {
		restored.batch = o.Batch
	}
	quorum := 0
	if !o.Signed {
		settings, err := org.SettingsOf(ctx, tx, o.OrgID)
		if err != nil {
			return err
		}
		quorum = settings.ApprovalQuorum
	}
	wantDigest := requestDigest(Request{CustomerID: o.CustomerID}, p)
	switch {
	case o.Refund != nil:
		wantDigest = refundDigest(o.Refund.RefundID, m.ID, o.To, amount)
	case o.Batch != nil:
		wantDigest = batchDigest(*o.Batch, m.ID, o.To, amount)
	case payer.IsOrganization():
		wantDigest = orgRequestDigest(payer, o.WhitelistedID, m.ID, o.Amount.String())
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest,
			status, requires_approval, approval_reasons, created_at, restored_at, restored_key_hash, owed, fee_mode, fee_deducted, max_network_fee,
			approvals_required, request_mac, product, whitelisted_address_id, refund_id, batch_id, batch_row)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, nullif($21, ''), nullif($22, ''), nullif($23, ''), nullif($24, ''), $25)`,
		o.ID, o.OrgID, payer.CustomerID(), o.MintID, o.Chain, amount, o.To, wantDigest,
		status, !o.Signed, reasons, o.CreatedAt, tx.Now, key, owed, p.feeMode(), deductedFee(o), o.FeeMax, quorum,
		s.GrantKey.RequestMAC(restored.signedTerms(o.OrgID, m), quorum),
		payer.Product(), o.WhitelistedID, restored.refundID(), restored.batchID(), restored.batchRow())
	if pg.ViolatesConstraint(err, "withdrawals_key_hash_unique") {
		return fmt.Errorf("its idempotency key belongs to another withdrawal, which this database made after the "+
			"restore: restore the backup again and run nothing on it before the import: %w", err)
	}
	if err != nil {
		return err
	}
	w, err := Load(ctx, tx, o.OrgID, o.ID)
	if err != nil {
		return err
	}
	if err := s.publishEvent(ctx, tx, o.OrgID, findTransition("", status), w); err != nil {
		return err
	}
	return recordDecision(ctx, tx, o.OrgID, DecisionRecord{
		withdrawalID: o.ID, Act: ActRequested, Status: status, Reasons: reasons,
		Note:  "restored from the signer's journal; the record of its rules was lost with the database",
		Actor: restoreActor,
	}, "withdrawal.requested", map[string]any{"restored": true, "signed": o.Signed, "owed": owed})
}

// restoreActor is the actor of restored rows.
var restoreActor = audit.System("restore")

func deductedFee(o dispatch.RestoredOrder) *money.Amount {
	if o.FeeDeducted.IsZero() {
		return nil
	}
	return &o.FeeDeducted
}

const (
	collectBatchMax = 500
	collectPause    = time.Second
)

// RunCollectOwed runs CollectOwed until ctx ends. Any number of processes may run it.
func (s *Service) RunCollectOwed(ctx context.Context, log *slog.Logger) error {
	for {
		if _, err := s.CollectOwed(ctx); err != nil && ctx.Err() == nil {
			log.Warn("cannot collect debts of restored payments", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(collectPause):
		}
	}
}

// CollectOwed takes from customers and products what they owe for restored payments, as far as
// their balances suffice. It returns the number of withdrawals whose debt it reduced. Without a
// restore it finds nothing.
func (s *Service) CollectOwed(ctx context.Context) (n int, err error) {
	type owing struct{ Org, ID string }
	var owings []owing
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT org_id, withdrawal_id FROM withdrawals w
			WHERE owed > 0 AND EXISTS (
				SELECT FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
				WHERE a.org_id = w.org_id AND a.mint_id = w.mint_id AND b.balance > 0
					AND (a.kind, a.subject) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id)))
			ORDER BY created_at, withdrawal_id LIMIT $1`, collectBatchMax)
		if err != nil {
			return err
		}
		owings, err = pgx.CollectRows(rows, pgx.RowToStructByPos[owing])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for debts: %w", err)
	}
	for _, o := range owings {
		isCollected := false
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			isCollected, err = collectOwed(ctx, tx, o.Org, o.ID)
			return err
		})
		if errors.Is(err, ledger.ErrOverdraft) {
			continue // a concurrent payment spent the balance; the next run tries again
		}
		if err != nil {
			return n, fmt.Errorf("collect for withdrawal %s: %w", o.ID, err)
		}
		if isCollected {
			n++
		}
	}
	return n, nil
}

func collectOwed(ctx context.Context, tx pg.Tx, org, withdrawalID string) (bool, error) {
	var owed money.Amount
	var takings int
	var customerID, product string
	var mintID int
	err := tx.QueryRow(ctx, `
		SELECT owed, collections, coalesce(customer_id, ''), coalesce(product, ''), mint_id FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2 FOR UPDATE`,
		org, withdrawalID).Scan(&owed, &takings, &customerID, &product, &mintID)
	if err != nil {
		return false, err
	}
	payer := ledger.OwnerOf(customerID, product)
	account := payer.SpendingAccount(org, mintID)
	balance, err := ledger.Balance(ctx, tx, account)
	if err != nil {
		return false, err
	}
	amount := money.SubOrZero(owed, money.SubOrZero(owed, balance))
	if amount.IsZero() {
		return false, nil
	}
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET owed = owed - $3, collections = collections + 1
		WHERE org_id = $1 AND withdrawal_id = $2 AND owed = $4 AND collections = $5`,
		org, withdrawalID, amount, owed, takings)
	if err != nil {
		return false, err
	}
	if tag.RowsAffected() != 1 {
		return false, errLostRace
	}
	err = ledger.Post(ctx, tx, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.Restore, ID: fmt.Sprintf("%s/%d", withdrawalID, takings+1)},
		Legs:  []ledger.Leg{{Debit: account, Credit: payer.DebtAccount(org, mintID), Amount: amount}},
	})
	if err != nil {
		return false, err
	}
	return true, audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: restoreActor, Action: "withdrawal.collected", ResourceKind: resourceKind,
		ResourceID: withdrawalID,
		Detail:     map[string]any{"taken": amount, "owed": money.SubOrZero(owed, amount)},
	})
}
