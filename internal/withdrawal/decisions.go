package withdrawal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// Act is what was decided about a withdrawal.
type Act string

// The acts.
const (
	ActRequested       Act = "REQUESTED"        // the gates let it in, or had it wait
	ActApprovalAdded   Act = "APPROVAL_ADDED"   // a person approves, and it needs more of them
	ActApproved        Act = "APPROVED"         // a person let it go
	ActApprovalRefused Act = "APPROVAL_REFUSED" // a person would have let it go, and what was asked again says no
	ActReturned        Act = "RETURNED"         // the signer or the chain sent it back to a person
	ActRemoved         Act = "REMOVED"          // a person ended it
	ActCancelled       Act = "CANCELLED"        // the organization took it back
)

// DecisionRecord is one decision in the record of a withdrawal: what was decided, by whom,
// and what every rule said that was asked. Nobody can change it.
type DecisionRecord struct {
	DecidedAt time.Time
	Act       Act
	Status    Status   // what the withdrawal became by it
	Reasons   []Reason // why it waits for a person, when it does
	Gates     []Step
	Note      string // what the person wrote or the signer said, or ""
	// Risk is what the gate of risk was decided by; nil where it was not asked.
	Risk  *risk.WithdrawalRecord
	Actor audit.Actor

	withdrawalID string
}

// recordDecision writes a decision and its audit row, in the transaction of the decision.
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
		OrgID: org, Actor: d.Actor, Action: action, ResourceKind: resourceKind, ResourceID: d.withdrawalID, Detail: detail,
	})
}

// ListDecisions are what was decided about a withdrawal, oldest first. One that was made
// before there was this record shows what its gates said, without who asked. Error:
// fault NOT_FOUND.
func (s *Service) ListDecisions(ctx context.Context, org, withdrawalID string) (records []DecisionRecord, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if _, err := loadRow(ctx, tx, org, withdrawalID); err != nil {
			return err
		}
		// The row of before has its gates under a member of what was decided.
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
			err = row.Scan(&n, &d.DecidedAt, &d.Act, &d.Status, &d.Reasons, &d.Gates, &d.Note, &d.Actor.Kind, &d.Actor.ID, &d.Risk)
			return d, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decisions on withdrawal %s: %w", withdrawalID, err)
	}
	return records, nil
}
