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
	if d.Gates == nil {
		d.Gates = []Step{}
	}
	if d.Reasons == nil {
		d.Reasons = []Reason{}
	}
	gates, err := json.Marshal(d.Gates)
	if err != nil {
		return fmt.Errorf("record the decision on %s: %w", d.withdrawalID, err)
	}
	var screened []byte
	if d.Risk != nil {
		if screened, err = json.Marshal(d.Risk); err != nil {
			return fmt.Errorf("record what screening said about %s: %w", d.withdrawalID, err)
		}
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind, actor_id, risk)
		VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, ''), $9, $10, $11)`,
		org, d.withdrawalID, tx.Now, d.Act, d.Status, d.Reasons, gates, d.Note, d.Actor.Kind, d.Actor.ID, screened)
	if err != nil {
		return fmt.Errorf("record the decision on %s: %w", d.withdrawalID, err)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: d.Actor, Action: action, ResourceKind: resourceKind, ResourceID: d.withdrawalID,
		Detail: detail,
	})
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
