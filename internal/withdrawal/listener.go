package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Chain statuses of a withdrawal.
const (
	chainPending   = "PENDING"
	chainIncluded  = "INCLUDED"
	chainFinalized = "FINALIZED"
	chainReverted  = "REVERTED"
	chainReplaced  = "REPLACED"
)

// Failure reasons of a withdrawal.
const (
	failedReverted  = "REVERTED"  // the chain included the transaction and reverted the payment
	failedCancelled = "CANCELLED" // a cancel transaction took its slot
	// The signer's policy was tightened after the payment got its slot, and a cancel transaction
	// took the slot. The reason for approval has the same name.
	failedPolicy = string(ReasonPolicyLimit)
)

const resourceKind = "WITHDRAWAL"

// publishEvent records the event of a transition, if it has one. The caller holds the row lock.
// Rule WD-29.
func (s *Service) publishEvent(ctx context.Context, tx pg.Tx, org string, t transition, w Withdrawal) error {
	if t.Event == "" {
		return nil
	}
	_, err := s.Events.Record(ctx, tx, newEvent(org, t, w))
	return err
}

// newEvent returns the event of a transition that has one.
func newEvent(org string, t transition, w Withdrawal) event.Event {
	w.TravelRule = nil // it names people, and webhooks leave the installation
	e := event.Event{
		OrgID: org, Type: t.Event, ResourceKind: "withdrawal", ResourceID: w.ID, CustomerID: w.Owner.CustomerID(),
		Chain: string(w.Mint.Chain), Data: w,
	}
	if w.Owner.IsOrganization() {
		e.Type = orgEventTypes[t.Event]
	}
	return e
}

// orgEventTypes map the events of customers' withdrawals to those of the organization's own. These
// are extensions, so an endpoint that was made for customers' money does not receive them.
var orgEventTypes = map[event.Type]event.Type{
	event.CustomerWithdraw:                 event.OrganizationWithdraw,
	event.CustomerWithdrawAwaitingApproval: event.OrganizationWithdrawAwaitingApproval,
	event.CustomerWithdrawBlocked:          event.OrganizationWithdrawBlocked,
	event.CustomerWithdrawApproved:         event.OrganizationWithdrawApproved,
	event.CustomerWithdrawRejected:         event.OrganizationWithdrawRejected,
	event.CustomerWithdrawCancelled:        event.OrganizationWithdrawCancelled,
	event.CustomerWithdrawFailed:           event.OrganizationWithdrawFailed,
	event.CustomerWithdrawCompleted:        event.OrganizationWithdrawCompleted,
}

func (s *Service) advanceStatus(
	ctx context.Context, tx pg.Tx, org, withdrawalID string, from, to Status, set string, args ...any,
) error {
	w, err := s.changeStatus(ctx, tx, org, withdrawalID, from, to, set, args...)
	if err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: dispatchActor, Action: "withdrawal." + statusVerb(to), ResourceKind: resourceKind,
		ResourceID: withdrawalID,
		Detail:     outcomeDetail(w),
	})
}

func (s *Service) changeStatus(
	ctx context.Context, tx pg.Tx, org, withdrawalID string, from, to Status, set string, args ...any,
) (Withdrawal, error) {
	if err := setStatus(ctx, tx, org, withdrawalID, from, to, set, args...); err != nil {
		return Withdrawal{}, err
	}
	w, err := Load(ctx, tx, org, withdrawalID)
	if err != nil {
		return w, err
	}
	return w, s.publishEvent(ctx, tx, org, findTransition(from, to), w)
}

// dispatchActor is the actor of the status changes that dispatch reports.
var dispatchActor = audit.System("dispatch")

func outcomeDetail(w Withdrawal) map[string]any {
	return map[string]any{"txHash": w.TxHash, "failureReason": w.FailureReason, "approvalReasons": w.ApprovalReasons}
}

func statusVerb(to Status) string {
	switch to {
	case Broadcast:
		return "broadcast"
	case Completed:
		return "completed"
	case Failed:
		return "failed"
	}
	panic(fmt.Sprintf("withdrawal: an order cannot make a withdrawal %s", to))
}

// OnBroadcast implements dispatch.Listener. A second hash in the same slot replaces the first
// without another event: the organization already has the event of the broadcast. Rule WD-8.
func (s *Service) OnBroadcast(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	err := s.advanceStatus(ctx, tx, o.OrgID, o.ID, Processing, Broadcast,
		"tx_hash = $5, broadcast_at = $6, chain_status = $7", hash, tx.Now, chainPending)
	if errors.Is(err, errLostRace) {
		return s.updateChainStatus(ctx, tx, o, hash, chainPending)
	}
	return err
}

// OnIncluded implements dispatch.Listener.
func (s *Service) OnIncluded(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	return s.updateChainStatus(ctx, tx, o, hash, chainIncluded)
}

// updateChainStatus stores the chain status and the hash of a withdrawal that is broadcast.
func (s *Service) updateChainStatus(
	ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash, chainStatus string,
) error {
	_, err := tx.Exec(ctx, `
		UPDATE withdrawals SET chain_status = $4, tx_hash = $3,
			replaced_tx_hashes = `+replacedHashesExpr+`
		WHERE org_id = $1 AND withdrawal_id = $2 AND status = 'BROADCAST'`, o.OrgID, o.ID, hash, chainStatus)
	if err != nil {
		return fmt.Errorf("withdrawal %s is %s: %w", o.ID, chainStatus, err)
	}
	return nil
}

// replacedHashesExpr computes the list of replaced hashes once $3 is the current one.
const replacedHashesExpr = `CASE
	WHEN tx_hash = $3 THEN replaced_tx_hashes
	ELSE array_append(array_remove(array_remove(replaced_tx_hashes, $3), tx_hash), tx_hash) END`

// OnEnded implements dispatch.Listener. It settles the hold of a payment that is proven, and
// releases the hold when it is proven that the slot was used without paying. Rule WD-9.
func (s *Service) OnEnded(ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End) ([]ledger.Posting, error) {
	r, err := loadRow(ctx, tx, o.OrgID, o.ID)
	if err != nil {
		return nil, err
	}
	charged, cost, err := s.finalCharge(ctx, tx, r, e)
	if err != nil {
		return nil, err
	}
	r.charged = charged
	postings := newChargePostings(o.OrgID, r, charged)
	if e.Paid {
		if r.status == Processing {
			// No provider confirmed the broadcast, and the chain has the payment. The organization
			// receives the event of the broadcast before that of the end.
			if err := s.OnBroadcast(ctx, tx, o, e.Hash); err != nil {
				return nil, err
			}
		}
		err := s.finishWithdrawal(ctx, tx, o, e, Broadcast, Completed, chainFinalized, "", charged, cost)
		postings = append(
			append(postings, newChargeReturnPostings(o.OrgID, r, charged)...),
			newKeptFeePostings(o.OrgID, r)...,
		)
		return append(postings, newSettlementPosting(o.OrgID, r)), err
	}
	chainStatus, reason := chainReverted, failedReverted
	if e.Cancelled {
		chainStatus, reason = chainReplaced, failedCancelled
	}
	if e.Refused {
		reason = failedPolicy
	}
	from := Processing
	if r.status == Broadcast {
		from = Broadcast
	}
	err = s.finishWithdrawal(ctx, tx, o, e, from, Failed, chainStatus, reason, charged, cost)
	return append(postings, newReleasePostings(o.OrgID, r)...), err
}

func (s *Service) finishWithdrawal(
	ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End, from, to Status, chainStatus,
	reason string, charged, cost money.Amount,
) error {
	replacedHashes := make([]string, 0, len(e.Replaced))
	for _, h := range e.Replaced {
		replacedHashes = append(replacedHashes, string(h))
	}
	return s.advanceStatus(ctx, tx, o.OrgID, o.ID, from, to, `
		tx_hash = $5, replaced_tx_hashes = $6, chain_status = $7, network_fee = $8, completed_at = $9, failure_reason = nullif($10, ''), charged = $11, charge_cost = $12`,
		e.Hash, replacedHashes, chainStatus, e.Fee, tx.Now, reason, charged, cost)
}

// OnFeeChanged implements dispatch.FeeChangeListener. It publishes no event, because the payment is
// unchanged.
func (*Service) OnFeeChanged(ctx context.Context, tx pg.Tx, o dispatch.Order, fee money.Amount) error {
	_, err := tx.Exec(
		ctx, `UPDATE withdrawals SET network_fee = $3 WHERE org_id = $1 AND withdrawal_id = $2`, o.OrgID, o.ID,
		fee,
	)
	if err != nil {
		return fmt.Errorf("write the fee of withdrawal %s: %w", o.ID, err)
	}
	return nil
}

// ReviewOrder implements dispatch.Reviewer. When one of several payments to a destination fails,
// the payments without a slot that were submitted before the failure are stopped. Rule WD-51.
func (s *Service) ReviewOrder(ctx context.Context, tx pg.Tx, o dispatch.Order) (*signer.Refusal, error) {
	reason, err := s.checkDayLimit(ctx, tx, o)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		return &signer.Refusal{Code: dispatch.CustomerCostLimit, Message: reason}, nil
	}
	failed, failedAt, err := findFailedTo(ctx, tx, o.OrgID, o.Chain, o.To)
	if err != nil || failed == "" {
		return nil, err
	}
	var ordered time.Time
	err = tx.QueryRow(
		ctx,
		`SELECT coalesce(approved_at, created_at) FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2`,
		o.OrgID, o.ID,
	).Scan(&ordered)
	if err != nil {
		return nil, fmt.Errorf("read when withdrawal %s was ordered: %w", o.ID, err)
	}
	if !failedAt.After(ordered) {
		return nil, nil
	}
	return &signer.Refusal{
		Code: dispatch.PayeeFailed,
		Message: fmt.Sprintf(
			"the chain reverted %s to the same destination after this withdrawal was accepted", failed,
		),
	}, nil
}

// OnRefused implements dispatch.Listener. Before anything was journaled, the signer's policy
// refused the order, or the chain would refuse it because of the destination or the amount that
// would reach it. A person may approve it again later or end it. Rule WD-35.
func (s *Service) OnRefused(ctx context.Context, tx pg.Tx, o dispatch.Order, r *signer.Refusal) error {
	reason := ReasonPolicyLimit
	switch r.Code {
	case dispatch.PayeeRefused, dispatch.AmountRefused, dispatch.PayeeFailed:
		reason = ReasonDestinationAddress
	case dispatch.FeeRefused:
		reason = ReasonNetworkFee
	case signer.RefusedKey:
		reason = ReasonDuplicateKey
	case signer.RefusedVoid:
		reason = ReasonRestored
	case signer.RefusedSignature:
		reason = ReasonApprovalRule
	}
	required, err := s.returnedRequired(ctx, tx, o.OrgID, r)
	if err != nil {
		return err
	}
	w, err := s.changeStatus(ctx, tx, o.OrgID, o.ID, Processing, AwaitingApproval, `
		requires_approval = true, approved_at = NULL, approval_round = approval_round + 1,
		approvals_required = greatest(approvals_required, $6, (SELECT approval_quorum FROM organization_settings WHERE org_id = $1)),
		approval_reasons = array_append(array_remove(approval_reasons, $5), $5)`, reason, required)
	if err != nil {
		return err
	}
	if reason == ReasonApprovalRule {
		if err := s.askToSign(ctx, tx, o.OrgID, w, ""); err != nil {
			return err
		}
	}
	return recordDecision(ctx, tx, o.OrgID, DecisionRecord{
		withdrawalID: o.ID, Act: ActReturned, Status: AwaitingApproval, Reasons: []Reason{reason}, Note: r.Message,
		Actor: dispatchActor,
		Gates: []Step{
			{Gate: GateSigner, Result: ResultHold, Reason: reason, Inputs: map[string]string{"code": r.Code}},
		},
	}, "withdrawal.refused", outcomeDetail(w))
}

// endedByOperator is the note that the organization reads when the operator ended a withdrawal.
const endedByOperator = "The operator of this service ended it before the signer signed anything of it."

// OnRecalled implements dispatch.Listener: a person recalled the order, which had no slot. The
// withdrawal is removed, and its hold released, once the signer has voided it.
func (*Service) OnRecalled(ctx context.Context, tx pg.Tx, o dispatch.Order, actor audit.Actor) error {
	return setEndIntent(
		ctx, tx, o.OrgID, o.ID, Processing, endIntent{status: Rejected, note: endedByOperator, actor: actor},
	)
}
