package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

var _ dispatch.Restorer = (*Service)(nil)

// Restored implements dispatch.Restorer: the row of a payment that the signer
// remembers and the database does not, with its hold. What the customer's restored
// balance lacks for the hold is owed, until deposits that are found again pay it:
// the hold itself is always whole, so the payment ends like any other.
//
// A payment that was never signed waits for a person: nothing of it is out, and it may
// have been taken back after the backup was made.
func (s *Service) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return nil, err
	}
	left := map[ledger.Account]money.Amount{}
	var postings []ledger.Posting
	for _, o := range orders {
		if o.Voided {
			// Its hold stays until a person removes it.
			if err := s.Refused(ctx, tx, o.Order, &signer.Refusal{Code: signer.RefusedVoid, Message: dispatch.VoidedSince}); err != nil {
				return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
			}
			continue
		}
		known, err := s.known(ctx, tx, o)
		if err != nil {
			return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
		}
		if known {
			continue
		}
		m, ok := mints.ByID(o.MintID)
		if !ok || m.Chain != o.Chain || m.Contract != o.Contract {
			return nil, fmt.Errorf("restore withdrawal %s: mint %d is not what the journal paid with: configure it as it was", o.ID, o.MintID)
		}
		of := owner{customerID: o.CustomerID, product: o.Product, listedID: o.WhitelistedID}
		if of.product == "" {
			if _, _, err := customer.Ensure(ctx, tx, o.OrgID, o.CustomerID, ""); err != nil {
				return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
			}
		}
		from := of.spends(o.OrgID, o.MintID)
		if _, read := left[from]; !read {
			if left[from], err = ledger.Balance(ctx, tx, from); err != nil {
				return nil, err
			}
		}
		amount, err := o.Amount.Add(o.FeeDeducted)
		if err != nil {
			return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
		}
		owed := less(amount, left[from])
		left[from] = less(left[from], amount)
		if err := s.insertRestored(ctx, tx, o, of, m, amount, owed); err != nil {
			return nil, fmt.Errorf("restore withdrawal %s: %w", o.ID, err)
		}
		if !owed.IsZero() {
			postings = append(postings, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Restore, ID: o.ID},
				Legs:  []ledger.Leg{{Debit: debt(from), Credit: from, Amount: owed}},
			})
		}
		postings = append(postings, hold(o.OrgID, o.ID, of, o.MintID, amount))
	}
	return postings, nil
}

// debt is the account of what a customer, or a product, owes for restored payments.
func debt(of ledger.Account) ledger.Account {
	if of.Kind == ledger.Product {
		of.Kind = ledger.ProductRestored
	} else {
		of.Kind = ledger.Restored
	}
	return of
}

// known brings a row that the backup has up to its order. It has its hold already.
func (s *Service) known(ctx context.Context, tx pg.Tx, o dispatch.Restored) (bool, error) {
	var status Status
	err := tx.QueryRow(ctx, `SELECT status FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2 FOR UPDATE`, o.OrgID, o.ID).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		if !o.New {
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
		// It was approved after the backup was made; by whom, nobody knows here.
		if err := become(ctx, tx, o.OrgID, o.ID, AwaitingApproval, Processing, "approved_at = $5, fee_deducted = coalesce(fee_deducted, $6)",
			tx.Now, deductedBy(o)); err != nil {
			return false, err
		}
		w, err := Object(ctx, tx, o.OrgID, o.ID)
		if err != nil {
			return false, err
		}
		if err := tell(ctx, tx, o.OrgID, move(AwaitingApproval, Processing), w); err != nil {
			return false, err
		}
		return true, remember(ctx, tx, o.OrgID, Decided{
			withdrawalID: o.ID, Act: Approved, Status: Processing, Note: "the signer has signed it since this backup was made", Actor: restorer,
		}, "withdrawal.approved", map[string]any{"restored": true})
	}
	return false, fmt.Errorf("it is %s here, and the signer has signed or admitted it since", status)
}

func (s *Service) insertRestored(ctx context.Context, tx pg.Tx, o dispatch.Restored, of owner, m mint.Mint, amount, owed money.Amount) error {
	status, reasons := Processing, []Reason{}
	if !o.Signed {
		status, reasons = AwaitingApproval, []Reason{ReasonRestored}
	}
	var key *string
	if o.KeyHash != "" {
		key = &o.KeyHash
	}
	p := parsed{mint: m, amount: amount, to: o.To, deducts: !o.FeeDeducted.IsZero()}
	restored := row{id: o.ID, owner: of, mintID: o.MintID, chain: o.Chain, amount: amount, to: o.To, deducts: p.deducts, feeMax: o.FeeMax}
	quorum := 0
	if !o.Signed {
		settings, err := org.SettingsOf(ctx, tx, o.OrgID)
		if err != nil {
			return err
		}
		quorum = settings.ApprovalQuorum
	}
	asked := digest(Request{CustomerID: o.CustomerID}, p)
	if of.product != "" {
		asked = ownDigest(of, m.ID, o.Amount.String())
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest,
			status, requires_approval, approval_reasons, created_at, restored_at, restored_key_hash, owed, fee_mode, fee_deducted, max_network_fee,
			approvals_required, request_mac, product, whitelisted_address_id)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, nullif($21, ''), nullif($22, ''))`,
		o.ID, o.OrgID, of.customerID, o.MintID, o.Chain, amount, o.To, asked,
		status, !o.Signed, reasons, o.CreatedAt, tx.Now, key, owed, p.feeMode(), deductedBy(o), o.FeeMax, quorum, s.Grants.Request(restored.terms(o.OrgID, m), quorum),
		of.product, of.listedID)
	if pg.Violates(err, "withdrawals_key_hash_unique") {
		return fmt.Errorf("its idempotency key belongs to another withdrawal, which this database made after it was restored: "+
			"restore the backup once more and let nothing run on it before the import: %w", err)
	}
	if err != nil {
		return err
	}
	w, err := Object(ctx, tx, o.OrgID, o.ID)
	if err != nil {
		return err
	}
	if err := tell(ctx, tx, o.OrgID, move("", status), w); err != nil {
		return err
	}
	return remember(ctx, tx, o.OrgID, Decided{
		withdrawalID: o.ID, Act: Requested, Status: status, Reasons: reasons, Note: "restored from the signer's journal; its gates were asked by a database that is lost", Actor: restorer,
	}, "withdrawal.requested", map[string]any{"restored": true, "signed": o.Signed, "owed": owed})
}

// restorer is who makes rows again.
var restorer = audit.System("restore")

func deductedBy(o dispatch.Restored) *money.Amount {
	if o.FeeDeducted.IsZero() {
		return nil
	}
	return &o.FeeDeducted
}

// owedBy is what a customer, or a product, owes of a mint for restored payments. It stands against
// the balance: only Restored makes it more, while nothing else runs, and Collect takes
// both in one transaction, so that an older answer is never too small.
func owedBy(ctx context.Context, tx pg.Tx, org string, o owner, mintID int) (owed money.Amount, err error) {
	sql, of := `
		SELECT coalesce(sum(owed), 0) FROM withdrawals
		WHERE org_id = $1 AND customer_id = $2 AND mint_id = $3 AND owed > 0`, o.customerID
	if o.product != "" {
		sql, of = `
		SELECT coalesce(sum(owed), 0) FROM withdrawals
		WHERE org_id = $1 AND product = $2 AND mint_id = $3 AND owed > 0`, o.product
	}
	if err = tx.QueryRow(ctx, sql, org, of, mintID).Scan(&owed); err != nil {
		return owed, fmt.Errorf("what a customer or product of %s owes: %w", org, err)
	}
	return owed, nil
}

const (
	collectMax   = 500
	collectPause = time.Second
)

// RunCollect collects until ctx ends. Any number of processes may run it.
func (s *Service) RunCollect(ctx context.Context, log *slog.Logger) error {
	for {
		if _, err := s.Collect(ctx); err != nil && ctx.Err() == nil {
			log.Warn("what restored payments are owed could not be collected", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(collectPause):
		}
	}
}

// Collect takes from customers and products what they owe for restored payments, as far as their
// balances go, and says from how many withdrawals it took something off. Without a
// restore there is nothing to look at.
func (s *Service) Collect(ctx context.Context) (n int, err error) {
	type owing struct{ Org, ID string }
	var all []owing
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT org_id, withdrawal_id FROM withdrawals w
			WHERE owed > 0 AND EXISTS (
				SELECT FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
				WHERE a.org_id = w.org_id AND a.mint_id = w.mint_id AND b.balance > 0
					AND (a.kind, a.subject) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id)))
			ORDER BY created_at, withdrawal_id LIMIT $1`, collectMax)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[owing])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for what is owed: %w", err)
	}
	for _, o := range all {
		took := false
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			took, err = collect(ctx, tx, o.Org, o.ID)
			return err
		})
		if errors.Is(err, ledger.ErrOverdraft) {
			continue // somebody was quicker; next time
		}
		if err != nil {
			return n, fmt.Errorf("collect for withdrawal %s: %w", o.ID, err)
		}
		if took {
			n++
		}
	}
	return n, nil
}

func collect(ctx context.Context, tx pg.Tx, org, withdrawalID string) (bool, error) {
	var owed money.Amount
	var takings int
	var of owner
	var mintID int
	err := tx.QueryRow(ctx, `
		SELECT owed, takings, coalesce(customer_id, ''), coalesce(product, ''), mint_id FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2 FOR UPDATE`,
		org, withdrawalID).Scan(&owed, &takings, &of.customerID, &of.product, &mintID)
	if err != nil {
		return false, err
	}
	from := of.spends(org, mintID)
	balance, err := ledger.Balance(ctx, tx, from)
	if err != nil {
		return false, err
	}
	take := less(owed, less(owed, balance))
	if take.IsZero() {
		return false, nil
	}
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET owed = owed - $3, takings = takings + 1
		WHERE org_id = $1 AND withdrawal_id = $2 AND owed = $4 AND takings = $5`, org, withdrawalID, take, owed, takings)
	if err != nil {
		return false, err
	}
	if tag.RowsAffected() != 1 {
		return false, errLost
	}
	err = ledger.Post(ctx, tx, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.Restore, ID: fmt.Sprintf("%s/%d", withdrawalID, takings+1)},
		Legs:  []ledger.Leg{{Debit: from, Credit: debt(from), Amount: take}},
	})
	if err != nil {
		return false, err
	}
	return true, audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: restorer, Action: "withdrawal.collected", ResourceKind: resourceKind, ResourceID: withdrawalID,
		Detail: map[string]any{"taken": take, "owed": less(owed, take)},
	})
}
