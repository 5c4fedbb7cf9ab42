package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// createWithdrawal decides and writes. The decision that counts is made on what the writing
// transaction sees. Before an organization's first payment, and where screening is configured, a
// decision without writing comes first. So no refused request creates the treasury's wallet.
func (s *Service) createWithdrawal(ctx context.Context, org string, f Facts) (Withdrawal, error) {
	var empty Withdrawal
	if err := s.loadExternalFacts(ctx, org, &f, f.deductsFee || f.feeMax != nil); err != nil {
		return empty, err
	}
	if f.payerAddress == "" || s.Risk.Configured() {
		_, plan, rejection, err := s.decideUnwritten(ctx, org, &f)
		if err != nil {
			return empty, err
		}
		if rejection != nil {
			return empty, rejection.Err
		}
		f.wasBlocked = plan.Status == Blocked
	}
	var treasury wallet.Wallet
	if !f.wasBlocked {
		var err error
		if treasury, err = s.loadTreasury(ctx, org, f.mint.Chain); err != nil {
			return empty, err
		}
	}

	failpoint.Hit("W02")
	withdrawalID := id.New("wd", s.DB.Clock()())
	if f.request.refund != nil {
		withdrawalID = f.request.refund.withdrawalID(org)
	}
	if b := f.request.batch; b != nil {
		withdrawalID = signer.BatchWithdrawalID(org, b.Row.BatchID, b.Row.Row)
	}
	created, err := s.accept(ctx, org, &pendingRequest{withdrawalID: withdrawalID, facts: f, treasury: treasury})
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return empty, newInsufficient(f.owner, f.mint)
	// Rule IDEM-7.
	case errors.Is(err, pg.ErrCommitUnknown):
		// The row exists or it does not. Coffer chose its id, so a read tells.
		if found, lookErr := s.loadAnswer(ctx, org, withdrawalID); lookErr == nil ||
			fault.HasCode(lookErr, fault.WithdrawalRiskBlocked) {
			return found, lookErr
		}
		return empty, fmt.Errorf("withdrawal %s: %w", withdrawalID, err)
	case err != nil:
		return empty, err
	}
	failpoint.Hit("W04")
	if created.Status == Blocked {
		return s.loadAnswer(ctx, org, withdrawalID)
	}
	return created, nil
}

// decideUnwritten decides without writing, for a preview and before a request is written. It
// screens the destination when no gate refuses the request, and stores the providers' answer in f.
// No transaction is open during the screening. evaluated are the facts of the decision.
func (s *Service) decideUnwritten(
	ctx context.Context, org string, f *Facts,
) (evaluated Facts, plan Plan, rejection *Rejection, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		evaluated = *f
		return s.loadFacts(ctx, tx, org, &evaluated)
	})
	if err != nil {
		return evaluated, plan, nil, err
	}
	if plan, rejection = Decide(evaluated); plan.ScreenFirst {
		f.screening.Case.Answer = s.Risk.ScreenProviders(ctx, f.screening.Case.Subject)
		evaluated.screening.Case.Answer = f.screening.Case.Answer
		plan, rejection = Decide(evaluated)
	}
	return evaluated, plan, rejection, nil
}

func (s *Service) loadTreasury(ctx context.Context, org string, name chain.Name) (wallet.Wallet, error) {
	w, err := s.Wallets.Address(ctx, signer.WalletRef{OrgID: org, Family: name.Family(), Purpose: wallet.Treasury})
	if err != nil {
		return w, fmt.Errorf("treasury of %s on %s: %w", org, name, err)
	}
	return w, nil
}

// acceptAlone decides about one request and writes it, in a transaction of its own.
func (s *Service) acceptAlone(ctx context.Context, org string, p *pendingRequest) (Withdrawal, error) {
	readNothing := func(*pgx.Batch) {}
	err := s.DB.InOrgPipelined(ctx, org, readNothing, func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
		p.decided = p.facts
		if err := s.loadFacts(ctx, tx, org, &p.decided); err != nil {
			return err
		}
		var rejection *Rejection
		if p.plan, rejection = Decide(p.decided); rejection != nil {
			return rejection.Err
		}
		if err := s.writeAccepted(ctx, tx, b, org, nil, []*pendingRequest{p}); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("W03")
		return nil
	})
	if err != nil {
		return Withdrawal{}, ledger.MapRefusal(err)
	}
	failpoint.Hit("W03")
	return p.created, nil
}

// writeAccepted writes the plans of requests: rows, holds, orders, events and decision records, in one transaction.
// The rows are written at once and read back. The posting comes last and is queued, to be sent with the COMMIT: the
// balances are locked for no round trip. found are accounts that the transaction looked up. Rule WD-2.
func (s *Service) writeAccepted(
	ctx context.Context, tx pg.Tx, b *pgx.Batch, org string, found ledger.KnownAccounts, accepted []*pendingRequest,
) error {
	// The rows with the keys come before the balances. A request that waits for a key may wait for a
	// transaction that has that row and wants the balance, as endWithdrawal does.
	sortByKey(accepted)
	rows := &pgx.Batch{}
	var orders []dispatch.Order
	holds := make([]ledger.Posting, 0, len(accepted))
	decisions := make([]DecisionRecord, 0, len(accepted))
	ids := make([]string, 0, len(accepted))
	for _, a := range accepted {
		f, p := a.decided, a.plan
		row := newStored(a.withdrawalID, f, p)
		rows.Queue(insertWithdrawal, s.insertArgs(tx.Now, org, row, f, p)...)
		if !p.Hold.IsZero() {
			holds = append(holds, newHoldPosting(org, row.id, f.owner, f.mint.ID, p.Hold))
		}
		if p.Status == Processing {
			order := s.newOrder(org, row, f.mint, a.treasury, 0, nil)
			if p.IsCovered {
				order.Grant = s.coverGrant(org, row, f, order.FeeDeducted)
			}
			if row.batch != nil {
				var err error
				if order.Grant, err = s.batchOrderGrant(ctx, tx, org, row, f.mint); err != nil {
					return err
				}
			}
			orders = append(orders, order)
		}
		decisions = append(decisions, DecisionRecord{
			withdrawalID: row.id, Act: p.Act, Status: p.Status, Reasons: p.Reasons, Gates: p.Gates,
			Actor: f.request.Actor, Risk: &p.Screening,
		})
		ids = append(ids, row.id)
	}
	for _, order := range orders {
		dispatch.QueueNew(rows, tx.Now, order)
	}
	if err := queueDecisions(rows, tx.Now, org, decisions); err != nil {
		return err
	}
	written := map[string]Withdrawal{}
	rows.Queue(selectWritten, org, ids).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanWithdrawal)
		for _, w := range found {
			written[w.ID] = w
		}
		return err
	})
	if err := tx.SendBatch(ctx, rows).Close(); err != nil {
		return fmt.Errorf("insert %d withdrawals, %s first: %w", len(ids), ids[0], err)
	}
	var events []event.Event
	entries := make([]audit.Entry, 0, len(accepted))
	for _, a := range accepted {
		w, isRead := written[a.withdrawalID]
		if !isRead {
			return fmt.Errorf("withdrawal %s was inserted and cannot be read", a.withdrawalID)
		}
		a.created = w
		if err := s.askToSign(ctx, tx, org, w, a.decided.maker()); err != nil {
			return err
		}
		if t := findTransition("", a.plan.Status); t.Event != "" {
			events = append(events, newEvent(org, t, w))
		}
		action := "withdrawal.requested"
		if a.plan.Status == Blocked {
			action = "withdrawal.blocked"
		}
		entries = append(entries, audit.Entry{
			OrgID: org, Actor: a.decided.request.Actor, Action: action, ResourceKind: resourceKind, ResourceID: w.ID,
			Detail: a.plan.Decision,
		})
	}
	if len(events) > 0 {
		if err := s.Events.QueueFirst(b, tx.Now, events...); err != nil {
			return err
		}
	}
	if err := audit.QueueEntries(b, tx.Now, entries...); err != nil {
		return err
	}
	if len(holds) == 0 {
		return nil
	}
	return ledger.QueueKnown(b, tx.Now, found, holds...)
}

// selectWritten reads withdrawals by their ids.
var selectWritten = selectColumns + `
	FROM unnest($2::text[]) AS k (id)
	CROSS JOIN LATERAL (SELECT * FROM withdrawals WHERE org_id = $1 AND ` + pg.ByKey("withdrawal_id", "k.id") + `) w
	JOIN mints m ON m.mint_id = w.mint_id`

const insertWithdrawal = `
	INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address,
		idempotency_key, request_digest, reference, metadata, status, requires_approval, approval_reasons,
		usd_value, created_at, fee_mode, fee_deducted, max_network_fee, travel_rule, screening, approvals_required, request_mac,
		product, whitelisted_address_id, cost_max, cost_rent, cost_price,
		charge_costs, charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price, refund_id,
		batch_id, batch_row, made_by)
	VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, nullif($24, ''), nullif($25, ''), $26, $27, $28,
		$29, $30, $31, $32, $33, $34, nullif($35, ''), nullif($36, ''), $37, nullif($38, ''))`

// newStored returns the terms of a withdrawal that is about to be written.
func newStored(withdrawalID string, f Facts, p Plan) storedWithdrawal {
	row := storedWithdrawal{
		id: withdrawalID, owner: f.owner, listedID: f.listedID, mintID: f.mint.ID, chain: f.mint.Chain,
		amount: p.Amount, toAddress: f.destination, key: f.request.IdempotencyKey, deductsFee: f.deductsFee,
		deductedFee: p.DeductedFee, feeMax: f.feeMax, refund: f.request.refund.signed(),
	}
	if f.request.batch != nil {
		row.batch = &f.request.batch.Row
	}
	row.madeBy = f.maker()
	return row
}

// insertArgs returns the arguments of insertWithdrawal.
func (s *Service) insertArgs(now time.Time, org string, row storedWithdrawal, f Facts, p Plan) []any {
	metadata := f.request.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	charge := p.Charge
	if p.Status == Blocked { // nothing is held, so nothing is charged
		charge.rent, charge.held, charge.failureMax = money.Zero, money.Zero, nil
	}
	return []any{
		row.id, org, f.owner.CustomerID(), f.mint.ID, f.mint.Chain, p.Amount, f.destination,
		f.request.IdempotencyKey, f.digest, f.request.Reference, metadata, p.Status, p.Status == AwaitingApproval,
		p.Reasons, f.usdValue, now, f.feeMode(), p.DeductedFee, f.feeMax, f.travelRule,
		newStoredScreening(p.Screening.Decision),
		p.Required, s.GrantKey.RequestMAC(row.signedTerms(org, f.mint), p.Required),
		f.owner.Product(), f.listedID, f.costs.costMax, f.costs.recordedRent(), f.costs.recordedPrice(),
		f.charging.chargedCosts(), charge.rent, charge.held, charge.failureMax, charge.coinPrice, charge.mintPrice,
		row.refundID(), row.batchID(), row.batchRow(), row.madeBy,
	}
}

func newHoldPosting(org, withdrawalID string, payer ledger.Owner, mintID int, amount money.Amount) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalHold, ID: withdrawalID},
		Legs: []ledger.Leg{
			{Debit: payer.SpendingAccount(org, mintID), Credit: payer.HeldAccount(org, mintID), Amount: amount},
		},
	}
}
