package deposit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// The methods below handle the orders that send flagged deposits away. The id of an order is that
// of its resolution.

// OnBroadcast implements dispatch.Listener. It records the hash of the transaction.
func (s *Service) OnBroadcast(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	_, err := tx.Exec(
		ctx, `UPDATE deposit_resolutions SET tx_hash = $2 WHERE resolution_id = $1 AND status IN ('OPEN', 'STUCK')`,
		o.ID, hash,
	)
	if err != nil {
		return fmt.Errorf("resolution %s is in progress: %w", o.ID, err)
	}
	return nil
}

// OnIncluded implements dispatch.Listener. It changes nothing, because only a final transfer is
// announced.
func (s *Service) OnIncluded(context.Context, pg.Tx, dispatch.Order, chain.TxHash) error {
	return nil
}

// OnEnded implements dispatch.Listener. It resolves the deposit when its transfer is final. If the
// transfer failed on the chain, it marks the deposit RESOLUTION_STUCK for the operator.
// Rule DEP-31.
func (s *Service) OnEnded(
	ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End,
) ([]ledger.Posting, error) {
	d, res, status, err := lockByResolution(ctx, tx, o.ID)
	if err != nil {
		return nil, err
	}
	after := d
	if !e.Paid {
		after.status = ResolutionStuck
		if err := endResolution(ctx, tx, o.ID, status, "STUCK", e.Hash, e.Fee, "", ""); err != nil {
			return nil, err
		}
		if d.status != after.status {
			if err := s.applyChanges(ctx, tx, change{d, after}); err != nil {
				return nil, err
			}
		}
		s.Log.Error(
			"deposit: a resolution failed on the chain; the operator has to complete it", "deposit", d.id,
			"resolution", o.ID, "hash", string(e.Hash),
		)
		return nil, recordAudit(ctx, tx, []audit.Entry{newTransferEntry(after, o.ID, e.Hash)})
	}
	after.status = Rejected
	if res.decision == decisionRedirected {
		after.status = Redirected
	}
	if err := endResolution(ctx, tx, o.ID, status, "DONE", e.Hash, e.Fee, "", ""); err != nil {
		return nil, err
	}
	if err := s.applyChanges(ctx, tx, change{d, after}); err != nil {
		return nil, err
	}
	postings := []ledger.Posting{newReleasePosting(after)}
	if !res.feeKept.IsZero() {
		// The sender of the deposit paid the fee. It is credited to the organization, which is
		// billed for the network's fee. EndMovements takes it from what the address holds.
		postings = append(postings, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.DepositFee, ID: d.id},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Custody},
				Credit: ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Product, Subject: "CUSTODIAL"},
				Amount: res.feeKept,
			}},
		})
	}
	eventType := event.CustomerDepositRejected
	if after.status == Redirected {
		eventType = event.CustomerDepositRedirected
	}
	failpoint.Hit("F07")
	if err := s.publishDecision(ctx, tx, after, eventType); err != nil {
		return nil, err
	}
	return postings, recordAudit(ctx, tx, []audit.Entry{newTransferEntry(after, o.ID, e.Hash)})
}

// EndMovements implements dispatch.FundsListener: the fee that the sender of the deposit paid is not
// held any more.
func (s *Service) EndMovements(
	ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End,
) ([]wallet.Movement, error) {
	if !e.Paid {
		return nil, nil
	}
	d, res, _, err := lockByResolution(ctx, tx, o.ID)
	if err != nil || res.feeKept.IsZero() {
		return nil, err
	}
	return []wallet.Movement{{
		WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Held, Minus: res.feeKept,
	}}, nil
}

// OnRefused implements dispatch.Listener. It makes the deposit FLAGGED again: no part of the
// attempt reached the chain. It records the failed attempt. Rules DEP-32 and DEP-45.
func (s *Service) OnRefused(ctx context.Context, tx pg.Tx, o dispatch.Order, refusal *signer.Refusal) error {
	d, res, status, err := lockByResolution(ctx, tx, o.ID)
	if err != nil {
		return err
	}
	if status != "OPEN" {
		return fmt.Errorf("resolution %s is %s and its order was refused", o.ID, status)
	}
	after := d
	after.status = Flagged
	if err := endResolution(
		ctx, tx, o.ID, status, "FAILED", "", money.Zero, refusal.Code, refusal.Message,
	); err != nil {
		return err
	}
	if err := s.applyChanges(ctx, tx, change{d, after}); err != nil {
		return err
	}
	if d.chain.IsUTXO() {
		if err := utxo.UnassignHeld(ctx, tx, o.ID); err != nil {
			return err
		}
	}
	if err := wallet.MoveFunds(ctx, tx,
		wallet.Movement{
			WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Reserved, Minus: res.sent,
		},
		wallet.Movement{
			WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Held, Plus: res.sent,
		}); err != nil {
		return err
	}
	e := newTransferEntry(after, o.ID, "")
	e.Action = "deposit.resolution_failed"
	failpoint.Hit("F06")
	return recordAudit(ctx, tx, []audit.Entry{e})
}

// OnRecalled implements dispatch.Listener. It makes the deposit FLAGGED again: a person ended the
// transfer before anything was signed. Another decision is possible. Rule DEP-45.
func (s *Service) OnRecalled(ctx context.Context, tx pg.Tx, o dispatch.Order, actor audit.Actor) error {
	return s.OnRefused(
		ctx, tx, o,
		&signer.Refusal{
			Code: "WITHDRAWN", Message: "ended by " + actor.ID + " before it had a slot; nothing was signed",
		},
	)
}

// voidRefused has the signer void earlier decisions about a flagged deposit whose orders got no
// slot. Without that, the earlier grant would let the signer pay it in addition to the new
// decision. Error: UNAVAILABLE if the signer does not answer. Rule DEP-50.
func (s *Service) voidRefused(ctx context.Context, d storedDeposit) error {
	if d.status != Flagged {
		return nil
	}
	var orderIDs []string
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT o.order_id FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
			WHERE r.deposit_id = $1 AND r.status = 'FAILED' AND o.status IN ('REFUSED', 'WITHDRAWN')
				AND NOT EXISTS (SELECT FROM dispatch_voids v WHERE v.order_id = o.order_id AND v.journal_seq IS NOT NULL) ORDER BY o.order_id`, d.id)
		if err != nil {
			return err
		}
		if orderIDs, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		for _, orderID := range orderIDs {
			if _, err := dispatch.Recall(ctx, tx, orderID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for earlier decisions about deposit %s: %w", d.id, err)
	}
	for _, orderID := range orderIDs {
		if err := s.Voider.FinishVoid(ctx, orderID); err != nil {
			s.Log.Warn(
				"deposit: the signer has not voided the earlier decision", "deposit", d.id,
				"resolution", orderID, "error", err,
			)
			return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Undecided,
				"The signer first has to void the earlier decision about this deposit, and it does not "+
					"answer now.").
				WithAdvice("Ask again later.")
		}
	}
	return nil
}

// OnVoided implements dispatch.VoidListener. It changes nothing, because the deposit is FLAGGED
// already.
func (s *Service) OnVoided(context.Context, pg.Tx, string, string) error { return nil }

// OnRestored implements dispatch.RestoreListener.
//   - A resolution that the database has continues.
//   - A resolution that only the journal has is attached to the flagged deposit whose money it
//     sends. If two deposits are alike in
//
// wallet, mint, amount and sender, either is correct.
//   - Such a resolution is a redirect unless it paid the sender.
//   - Without a flagged deposit the resolution cannot be restored: the backup is older than the
//     flag.
//
// The amount that was sent away would be found on the chain once more and could be credited.
// OnRestored then returns an error.
func (s *Service) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	for _, o := range orders {
		if o.Voided {
			if err := s.OnRefused(
				ctx, tx, o.Order, &signer.Refusal{Code: signer.RefusedVoid, Message: dispatch.VoidedAfterBackup},
			); err != nil {
				return nil, err
			}
			continue
		}
		if !o.IsNew {
			continue
		}
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits WHERE org_id = $1 AND chain = $2 AND wallet_id = $3 AND mint_id = $4 AND status = 'FLAGGED'
				AND chain_status = 'FINALIZED' AND (amount = $5 OR amount > $5 AND contract = '')
			ORDER BY deposit_id = (SELECT q.deposit_id FROM return_requests q WHERE q.request_id = $7) DESC NULLS LAST,
				(return_to = $6) DESC, amount, deposit_id LIMIT 1 FOR UPDATE`,
			o.OrgID, o.Chain, o.SourceWalletID(), o.MintID, o.Amount, o.To, o.ID)
		if err != nil {
			return nil, fmt.Errorf("look for the deposit of return %s: %w", o.ID, err)
		}
		d, err := pgx.CollectExactlyOneRow(rows, scanDeposit)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf(
				"the signer's journal has the return %s of a flagged deposit (%v of mint %d to %s), and this "+
					"database has no such flagged deposit: restore a backup from after the deposit was flagged; see "+
					"docs/runbooks/restore.md", o.ID, o.Amount,
				o.MintID, o.To)
		}
		if err != nil {
			return nil, fmt.Errorf("look for the deposit of return %s: %w", o.ID, err)
		}
		if err := s.restoreResolution(ctx, tx, d, o); err != nil {
			return nil, fmt.Errorf("restore resolution %s: %w", o.ID, err)
		}
	}
	return nil, nil
}

// restoreResolution inserts the resolution of an order that only the journal has. It reserves no
// funds: they stay held until dispatch reserves them.
func (s *Service) restoreResolution(ctx context.Context, tx pg.Tx, d storedDeposit, o dispatch.RestoredOrder) error {
	decision, err := restoreReturnRequest(ctx, tx, o.ID)
	if err != nil {
		return err
	}
	after := d
	after.status = Rejecting
	if decision == "" {
		decision = decisionRejected
	}
	if string(o.To) != d.flag.returnTo || decision == decisionRedirected {
		after.status, decision = Redirecting, decisionRedirected
	}
	feeKept, err := d.amount.Sub(o.Amount)
	if err != nil {
		return err
	}
	status, verb := "OPEN", auditActions[after.status]
	// The order pays no one, and the deposit waits for another decision.
	if !o.Signed {
		status, verb = "FAILED", "resolution_failed"
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, reason, reference, note, decided_at,
			decided_by_kind, decided_by, chain, wallet_id, mint_id, to_address, sent, fee_kept, ended_at, failure, failure_message)
		VALUES ($1, $2, $3, $4, $5, CASE WHEN $4 = 'REDIRECTED' THEN $6 END, CASE WHEN $4 = 'REDIRECTED' THEN $1 END,
			'restored from the signer''s journal, which does not say who decided it', $7, 'OPERATOR', 'restore', $8, $9, $10, $11, $12, $13,
			CASE WHEN $5 = 'FAILED' THEN $14::timestamptz END, CASE WHEN $5 = 'FAILED' THEN 'RESTORED' END,
			CASE WHEN $5 = 'FAILED' THEN 'the journal has no signature of it: nothing has left' END)`,
		o.ID, d.orgID, d.id, decision, status, ComplianceHold, o.CreatedAt, d.chain, d.walletID, *d.mintID,
		string(o.To), o.Amount, feeKept, tx.Now)
	if err != nil {
		return err
	}
	if o.Signed {
		if err := s.applyChanges(ctx, tx, change{d, after}); err != nil {
			return err
		}
	} else {
		after = d
	}
	return recordAudit(ctx, tx, []audit.Entry{{
		OrgID: d.orgID, Actor: systemActor, Action: "deposit." + verb, ResourceKind: resourceKind, ResourceID: d.id,
		Detail: map[string]string{
			"resolution": o.ID, "toAddress": string(o.To), "amount": o.Amount.String(),
			"note": "restored from the signer's journal",
		},
	}})
}

// MarkOverdueStuck marks the resolutions as stuck whose transfer is not final an hour after its
// broadcast. The operator has to look at them. It returns how many it marked. Rule DEP-32.
func (s *Service) MarkOverdueStuck(ctx context.Context) (stuck int, err error) {
	type overdueReturn struct {
		ID    string
		Chain chain.Name
	}
	var overdue []overdueReturn
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT r.resolution_id, o.chain
			FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
			WHERE r.status = 'OPEN' AND o.broadcast_at <= $1 AND o.status IN ('BROADCAST', 'STUCK') ORDER BY r.resolution_id LIMIT 100`, tx.Now.Add(-stuckAfter))
		if err != nil {
			return err
		}
		overdue, err = pgx.CollectRows(rows, pgx.RowToStructByPos[overdueReturn])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for overdue resolutions: %w", err)
	}
	for _, late := range overdue {
		resID := late.ID
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			// The cursor, which the deposit's trigger holds, and then the order, as when it ends.
			if _, err := finality.LockForked(ctx, tx, late.Chain); err != nil {
				return err
			}
			if err := tx.QueryRow(
				ctx,
				`SELECT order_id FROM dispatch_orders WHERE order_id = $1 AND status IN ('BROADCAST', 'STUCK') FOR UPDATE`,
				resID,
			).Scan(new(string)); err != nil {
				return err
			}
			d, _, status, err := lockByResolution(ctx, tx, resID)
			if err != nil || status != "OPEN" {
				return err
			}
			after := d
			after.status = ResolutionStuck
			if err := endResolution(ctx, tx, resID, status, "STUCK", "", money.Zero, "", ""); err != nil {
				return err
			}
			if err := s.applyChanges(ctx, tx, change{d, after}); err != nil {
				return err
			}
			return recordAudit(ctx, tx, []audit.Entry{newTransferEntry(after, resID, "")})
		})
		if errors.Is(err, pgx.ErrNoRows) {
			continue // it ended meanwhile
		}
		if err != nil {
			return stuck, fmt.Errorf("mark resolution %s as stuck: %w", resID, err)
		}
		s.Log.Error("deposit: a resolution is overdue; the operator has to look at it", "resolution", resID)
		stuck++
	}
	return stuck, nil
}

// lockByResolution locks the deposit of a resolution. It returns the deposit, the resolution and
// the resolution's status.
func lockByResolution(
	ctx context.Context, tx pg.Tx, resID string,
) (d storedDeposit, res resolution, status string, err error) {
	var depositID string
	if err = tx.QueryRow(
		ctx, `SELECT deposit_id FROM deposit_resolutions WHERE resolution_id = $1`, resID,
	).Scan(&depositID); err != nil {
		return d, res, "", fmt.Errorf("read resolution %s: %w", resID, err)
	}
	if d, err = lockDeposit(ctx, tx, depositID); err != nil {
		return d, res, "", err
	}
	if res, err = loadResolution(ctx, tx, resID); err != nil {
		return d, res, "", err
	}
	return d, res, res.status, nil
}

// loadResolution reads and locks a resolution. Its deposit is locked.
func loadResolution(ctx context.Context, tx pg.Tx, resID string) (res resolution, err error) {
	err = tx.QueryRow(ctx, `
		SELECT resolution_id, decision, status, coalesce(reason, ''), coalesce(reference, ''), coalesce(to_address, ''), coalesce(sent, 0), fee_kept
		FROM deposit_resolutions WHERE resolution_id = $1 FOR UPDATE`, resID).
		Scan(&res.id, &res.decision, &res.status, &res.reason, &res.reference, &res.toAddress, &res.sent, &res.feeKept)
	if err != nil {
		return res, fmt.Errorf("read resolution %s: %w", resID, err)
	}
	return res, nil
}

// endResolution changes the status of a resolution by compare-and-swap. It fails if the status is
// not from.
func endResolution(
	ctx context.Context, tx pg.Tx, resID, from, to string, hash chain.TxHash, fee money.Amount, failure, message string,
) error {
	tag, err := tx.Exec(ctx, `
		UPDATE deposit_resolutions SET status = $3, tx_hash = coalesce(nullif($4, ''), tx_hash), network_fee = coalesce(nullif($5::numeric, 0), network_fee),
			failure = nullif($6, ''), failure_message = nullif($7, ''), ended_at = CASE WHEN $3 IN ('DONE', 'FAILED') THEN $8::timestamptz END
		WHERE resolution_id = $1 AND status = $2`, resID, from, to, string(hash), fee, failure, message, tx.Now)
	if err != nil {
		return fmt.Errorf("resolution %s from %s to %s: %w", resID, from, to, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("resolution %s is not %s any more", resID, from)
	}
	return nil
}

// newTransferEntry returns the audit entry of the outcome of a deposit's transfer.
func newTransferEntry(d storedDeposit, resID string, hash chain.TxHash) audit.Entry {
	return audit.Entry{
		OrgID: d.orgID, Actor: systemActor, Action: "deposit." + auditActions[d.status], ResourceKind: resourceKind,
		ResourceID: d.id,
		Detail:     map[string]string{"resolution": resID, "txHash": string(hash)},
	}
}
