package withdrawal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// Act names a decision about a withdrawal.
type Act string

// Acts in the record of a withdrawal.
const (
	ActRequested       Act = "REQUESTED"        // the gates accepted or held it
	ActApprovalAdded   Act = "APPROVAL_ADDED"   // a person approved it, and more approvals are required
	ActApproved        Act = "APPROVED"         // it was approved and let go
	ActApprovalRefused Act = "APPROVAL_REFUSED" // a person approved it, and a repeated check refused
	ActReturned        Act = "RETURNED"         // the signer or the chain returned it for approval
	ActRemoved         Act = "REMOVED"          // a person removed it
	ActCancelled       Act = "CANCELLED"        // the organization cancelled it
)

// DecisionRecord is one decision about a withdrawal: the act, the actor and the result of every
// gate that ran. Records never change.
type DecisionRecord struct {
	DecidedAt time.Time
	Act       Act
	Status    Status   // the withdrawal's status after the decision
	Reasons   []Reason // why it waits for approval, if it does
	Gates     []Step
	Note      string // the person's note or the signer's message, or ""
	// Risk holds the input of the risk gate; nil if the gate did not run.
	Risk  *risk.WithdrawalRecord
	Actor audit.Actor

	withdrawalID string
}

// recordDecision writes a decision and its audit row, in the transaction of the decision.
// Rule WD-25.
func recordDecision(ctx context.Context, tx pg.Tx, org string, d DecisionRecord, action string, detail any) error {
	b := &pgx.Batch{}
	if err := queueDecisions(b, tx.Now, org, []DecisionRecord{d}); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("record the decision on %s: %w", d.withdrawalID, err)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: d.Actor, Action: action, ResourceKind: resourceKind, ResourceID: d.withdrawalID,
		Detail: detail,
	})
}

// queueDecisions queues the records of decisions in their order.
func queueDecisions(b *pgx.Batch, now time.Time, org string, records []DecisionRecord) error {
	n := len(records)
	ids, acts, statuses, reasons, gates := make([]string, n), make([]string, n), make([]string, n), make([]string, n),
		make([]string, n)
	notes, kinds, actors := make([]string, n), make([]string, n), make([]string, n)
	screened := make([]*string, n)
	for i, d := range records {
		if d.Gates == nil {
			d.Gates = []Step{}
		}
		if d.Reasons == nil {
			d.Reasons = []Reason{}
		}
		ids[i], acts[i], statuses[i], notes[i], kinds[i], actors[i] = d.withdrawalID, string(d.Act), string(d.Status),
			d.Note, string(d.Actor.Kind), d.Actor.ID
		for _, c := range []struct {
			value any
			text  func(string)
		}{
			{d.Reasons, func(s string) { reasons[i] = s }},
			{d.Gates, func(s string) { gates[i] = s }},
		} {
			text, err := json.Marshal(c.value)
			if err != nil {
				return fmt.Errorf("record the decision on %s: %w", d.withdrawalID, err)
			}
			c.text(string(text))
		}
		if d.Risk != nil {
			text, err := json.Marshal(d.Risk)
			if err != nil {
				return fmt.Errorf("record what screening said about %s: %w", d.withdrawalID, err)
			}
			screened[i] = new(string(text))
		}
	}
	b.Queue(`
		INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind,
			actor_id, risk)
		SELECT $1, d.id, $2, d.act, d.status, ARRAY(SELECT jsonb_array_elements_text(d.reasons::jsonb)), d.gates::jsonb,
			nullif(d.note, ''), d.actor_kind, d.actor_id, d.risk::jsonb
		FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
			$11::text[]) WITH ORDINALITY AS d (id, act, status, reasons, gates, note, actor_kind, actor_id, risk, nth)
		ORDER BY d.nth`,
		org, now, ids, acts, statuses, reasons, gates, notes, kinds, actors, screened)
	return nil
}

// ListDecisions returns the decisions about a withdrawal, oldest first. A withdrawal that is older
// than this record shows what its gates said, without the actor. Error: fault NOT_FOUND.
func (s *Service) ListDecisions(ctx context.Context, org, withdrawalID string) (records []DecisionRecord, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if _, err := loadRow(ctx, tx, org, withdrawalID); err != nil {
			return err
		}
		// An older row keeps its gates in a member of its column decision.
		rows, err := tx.Query(ctx, `
			SELECT 0 AS n, created_at, 'REQUESTED', coalesce(decision->>'status', status),
				ARRAY(SELECT jsonb_array_elements_text(coalesce(decision->'reasons', '[]'))), coalesce(decision->'gates', '[]'), '', '', '', NULL::jsonb
			FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2 AND decision IS NOT NULL
			UNION ALL
			SELECT decision_id, at, act, status, reasons, gates, coalesce(note, ''), actor_kind, actor_id, risk
			FROM withdrawal_decisions WHERE org_id = $1 AND withdrawal_id = $2
			ORDER BY n`, org, withdrawalID)
		if err != nil {
			return err
		}
		records, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d DecisionRecord, err error) {
			var n int64
			err = row.Scan(
				&n, &d.DecidedAt, &d.Act, &d.Status, &d.Reasons, &d.Gates, &d.Note, &d.Actor.Kind, &d.Actor.ID,
				&d.Risk,
			)
			return d, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decisions on withdrawal %s: %w", withdrawalID, err)
	}
	return records, nil
}
