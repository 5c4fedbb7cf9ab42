package withdrawal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
	treasury := f.treasury
	if !f.wasBlocked && treasury.ID == "" {
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
// balances are locked for no round trip. found are accounts that the transaction looked up. The requests are in the
// order in which a transaction takes their keys. Rule WD-2.
func (s *Service) writeAccepted(
	ctx context.Context, tx pg.Tx, b *pgx.Batch, org string, found ledger.KnownAccounts, accepted []*pendingRequest,
) error {
	rows := &pgx.Batch{}
	if err := s.queueRows(ctx, tx, rows, org, accepted); err != nil {
		return err
	}
	ids := make([]string, 0, len(accepted))
	for _, a := range accepted {
		ids = append(ids, a.withdrawalID)
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
	for _, a := range accepted {
		w, isRead := written[a.withdrawalID]
		if !isRead {
			return fmt.Errorf("withdrawal %s was inserted and cannot be read", a.withdrawalID)
		}
		a.created = w
	}
	return s.queueRecords(ctx, tx, b, org, found, accepted)
}

// queueRows queues the rows of withdrawals, their orders and the records of their decisions: a statement for each
// table, however many withdrawals there are.
func (s *Service) queueRows(ctx context.Context, tx pg.Tx, b *pgx.Batch, org string, accepted []*pendingRequest) error {
	rows := make([]storedWithdrawal, len(accepted))
	decisions := make([]DecisionRecord, 0, len(accepted))
	for i, a := range accepted {
		rows[i] = newStored(a.withdrawalID, a.decided, a.plan)
		decisions = append(decisions, DecisionRecord{
			withdrawalID: a.withdrawalID, Act: a.plan.Act, Status: a.plan.Status, Reasons: a.plan.Reasons,
			Gates: a.plan.Gates, Actor: a.decided.request.Actor, Risk: &a.plan.Screening,
		})
	}
	if err := s.queueWithdrawals(b, tx.Now, org, rows, accepted); err != nil {
		return err
	}
	proofs, err := s.loadRowProofs(ctx, tx, org, rows)
	if err != nil {
		return err
	}
	var orders []dispatch.Order
	for i, a := range accepted {
		row, f := rows[i], &a.decided
		if a.plan.Status != Processing {
			continue
		}
		order := s.newOrder(org, row, f.mint, a.treasury, 0, nil)
		switch {
		case row.batch != nil:
			order.Grant = s.makeBatchGrant(org, row, f.mint, proofs[*row.batch])
		case a.plan.IsCovered:
			order.Grant = s.coverGrant(org, row, *f, order.FeeDeducted)
		}
		orders = append(orders, order)
	}
	if err := dispatch.QueueNew(b, tx.Now, orders...); err != nil {
		return err
	}
	return queueDecisions(b, tx.Now, org, decisions)
}

// queueRecords queues the events and audit rows of withdrawals, and last their holds.
func (s *Service) queueRecords(
	ctx context.Context, tx pg.Tx, b *pgx.Batch, org string, found ledger.KnownAccounts, accepted []*pendingRequest,
) error {
	var events []event.Event
	entries := make([]audit.Entry, 0, len(accepted))
	holds := make([]ledger.Posting, 0, len(accepted))
	for _, a := range accepted {
		if err := s.askToSign(ctx, tx, org, a.created, a.decided.maker()); err != nil {
			return err
		}
		if t := findTransition("", a.plan.Status); t.Event != "" {
			events = append(events, newEvent(org, t, a.created))
		}
		action := "withdrawal.requested"
		if a.plan.Status == Blocked {
			action = "withdrawal.blocked"
		}
		entries = append(entries, audit.Entry{
			OrgID: org, Actor: a.decided.request.Actor, Action: action, ResourceKind: resourceKind,
			ResourceID: a.withdrawalID, Detail: a.plan.Decision,
		})
		if !a.plan.Hold.IsZero() {
			holds = append(holds, newHoldPosting(org, a.withdrawalID, a.decided.owner, a.decided.mint.ID, a.plan.Hold))
		}
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

const insertWithdrawals = `
	INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address,
		idempotency_key, request_digest, reference, metadata, status, requires_approval, approval_reasons,
		usd_value, created_at, fee_mode, fee_deducted, max_network_fee, travel_rule, screening,
		approvals_required, request_mac, product, whitelisted_address_id, cost_max, cost_rent, cost_price,
		charge_costs, charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price, refund_id,
		batch_id, batch_row, made_by)
	SELECT w.withdrawal_id, $1, nullif(w.customer_id, ''), w.mint_id, w.chain, w.amount, w.to_address,
		w.idempotency_key, w.request_digest, w.reference, w.metadata::jsonb, w.status, w.status = 'AWAITING_APPROVAL',
		CASE w.approval_reasons WHEN '' THEN '{}' ELSE string_to_array(w.approval_reasons, ' ') END,
		w.usd_value, $2, w.fee_mode, w.fee_deducted, w.max_network_fee, w.travel_rule::jsonb, w.screening::jsonb,
		w.approvals_required, w.request_mac, nullif(w.product, ''), nullif(w.whitelisted_address_id, ''),
		w.cost_max, w.cost_rent, w.cost_price,
		w.charge_costs, w.charge_rent, w.charge_held, w.charge_failure_max, w.charge_coin_price, w.charge_mint_price,
		nullif(w.refund_id, ''), nullif(w.batch_id, ''), w.batch_row, nullif(w.made_by, '')
	FROM unnest($3::text[], $4::text[], $5::int[], $6::text[], $7::numeric[], $8::text[],
		$9::text[], $10::bytea[], $11::text[], $12::text[], $13::text[], $14::text[],
		$15::numeric[], $16::text[], $17::numeric[], $18::numeric[], $19::text[], $20::text[],
		$21::smallint[], $22::bytea[], $23::text[], $24::text[], $25::numeric[], $26::numeric[], $27::numeric[],
		$28::text[], $29::numeric[], $30::numeric[], $31::numeric[], $32::numeric[], $33::numeric[],
		$34::text[], $35::text[], $36::int[], $37::text[]) WITH ORDINALITY
		AS w (withdrawal_id, customer_id, mint_id, chain, amount, to_address,
			idempotency_key, request_digest, reference, metadata, status, approval_reasons,
			usd_value, fee_mode, fee_deducted, max_network_fee, travel_rule, screening,
			approvals_required, request_mac, product, whitelisted_address_id, cost_max, cost_rent, cost_price,
			charge_costs, charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price,
			refund_id, batch_id, batch_row, made_by, nth)
	ORDER BY w.nth`

// queueWithdrawals queues the rows of requests that were accepted, in their order.
func (s *Service) queueWithdrawals(
	b *pgx.Batch, now time.Time, org string, rows []storedWithdrawal, accepted []*pendingRequest,
) error {
	n := len(rows)
	text := func() []string { return make([]string, n) }
	optional := func() []*string { return make([]*string, n) }
	units := func() []money.Amount { return make([]money.Amount, n) }
	optionalUnits := func() []*money.Amount { return make([]*money.Amount, n) }
	dollars := func() []*money.USD { return make([]*money.USD, n) }
	ids, customers, mints, chains, amounts, payees := text(), text(), make([]int, n), text(), units(), text()
	keys, digests, references, metadata := optional(), make([][]byte, n), optional(), text()
	statuses, reasons, values, feeModes := text(), text(), dollars(), text()
	deducted, feesMax, travelRules, screened := optionalUnits(), optionalUnits(), optional(), text()
	required, macs, products, listed := make([]int, n), make([][]byte, n), text(), text()
	costsMax, costRents, costPrices := optionalUnits(), optionalUnits(), dollars()
	charges, rents, held, failures := text(), units(), units(), optionalUnits()
	coinPrices, mintPrices := dollars(), dollars()
	refunds, batches, batchRows, makers := text(), text(), make([]*int, n), text()
	for i, row := range rows {
		f, p := &accepted[i].decided, &accepted[i].plan
		metadataMap := f.request.Metadata
		if metadataMap == nil {
			metadataMap = map[string]string{}
		}
		encoded, err := json.Marshal(metadataMap)
		if err != nil {
			return fmt.Errorf("write the metadata of withdrawal %s: %w", row.id, err)
		}
		shown, err := json.Marshal(newStoredScreening(p.Screening.Decision))
		if err != nil {
			return fmt.Errorf("write what screening said about %s: %w", row.id, err)
		}
		charge := p.Charge
		if p.Status == Blocked { // nothing is held, so nothing is charged
			charge.rent, charge.held, charge.failureMax = money.Zero, money.Zero, nil
		}
		ids[i], customers[i], mints[i], chains[i], amounts[i], payees[i] = row.id, f.owner.CustomerID(), f.mint.ID,
			string(f.mint.Chain), p.Amount, string(f.destination)
		keys[i], digests[i], references[i], metadata[i] = f.request.IdempotencyKey, f.digest, f.request.Reference,
			string(encoded)
		statuses[i], reasons[i], values[i] = string(p.Status), joinReasons(p.Reasons), f.usdValue
		feeModes[i], deducted[i], feesMax[i], travelRules[i] = f.feeMode(), p.DeductedFee, f.feeMax, f.travelRule
		screened[i], required[i], macs[i] = string(shown), p.Required,
			s.GrantKey.RequestMAC(row.signedTerms(org, f.mint), p.Required)
		products[i], listed[i] = f.owner.Product(), f.listedID
		costsMax[i], costRents[i], costPrices[i] = f.costs.costMax, f.costs.recordedRent(), f.costs.recordedPrice()
		charges[i], rents[i], held[i], failures[i] = string(f.charging.chargedCosts()), charge.rent, charge.held,
			charge.failureMax
		coinPrices[i], mintPrices[i] = charge.coinPrice, charge.mintPrice
		refunds[i], batches[i], batchRows[i], makers[i] = row.refundID(), row.batchID(), row.batchRow(), row.madeBy
	}
	b.Queue(insertWithdrawals,
		org, now, ids, customers, mints, chains, amounts, payees, keys, digests, references,
		metadata, statuses, reasons, values, feeModes, deducted, feesMax, travelRules, screened,
		required, macs, products, listed, costsMax, costRents, costPrices,
		charges, rents, held, failures, coinPrices, mintPrices, refunds, batches, batchRows, makers)
	return nil
}

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

// joinReasons returns reasons as insertWithdrawals takes them: a reason is one word.
func joinReasons(reasons []Reason) string {
	words := make([]string, 0, len(reasons))
	for _, r := range reasons {
		words = append(words, string(r))
	}
	return strings.Join(words, " ")
}

func newHoldPosting(org, withdrawalID string, payer ledger.Owner, mintID int, amount money.Amount) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalHold, ID: withdrawalID},
		Legs: []ledger.Leg{
			{Debit: payer.SpendingAccount(org, mintID), Credit: payer.HeldAccount(org, mintID), Amount: amount},
		},
	}
}
