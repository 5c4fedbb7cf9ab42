package deposit

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// WaitingRedirect is a redirect that waits for signatures of operators, in a list.
type WaitingRedirect struct {
	ReturnRequest
	DepositID, OrgID string
	MintID           *int // nil for an unknown token
}

// ListWaitingRedirects returns the redirects of all organizations that wait for signatures, the oldest first, and at
// most limit of them, in a system transaction. SignedBy is as the rows say: LoadRedirect checks the signatures.
func ListWaitingRedirects(ctx context.Context, tx pg.Tx, limit int) ([]WaitingRedirect, error) {
	rows, err := tx.Query(ctx, `
		SELECT q.deposit_id, q.org_id, d.mint_id, q.request_id, q.reason, q.reference, q.to_address, q.sent, q.fee_kept,
			q.asked_by_kind, q.asked_by, q.asked_at, ARRAY(
				SELECT g.approver_kind || ' ' || g.approver_id FROM return_signatures g
				WHERE g.request_id = q.request_id AND g.not_after > $1 GROUP BY 1 ORDER BY min(g.at), 1)
		FROM return_requests q JOIN deposits d ON d.deposit_id = q.deposit_id
		WHERE q.status = 'OPEN' AND q.decision = 'REDIRECTED' ORDER BY q.asked_at, q.request_id LIMIT $2`,
		tx.Now.Add(signatureMargin), limit)
	if err != nil {
		return nil, fmt.Errorf("list the redirects that wait for signatures: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w WaitingRedirect, err error) {
		var signedBy []string
		err = row.Scan(&w.DepositID, &w.OrgID, &w.MintID, &w.ID, &w.Reason, &w.Reference, &w.ToAddress, &w.Amount,
			&w.FeeKept, &w.AskedBy.Kind, &w.AskedBy.ID, &w.AskedAt, &signedBy)
		for _, person := range signedBy {
			kind, personID, _ := strings.Cut(person, " ")
			w.SignedBy = append(w.SignedBy, audit.Actor{Kind: kind, ID: personID})
		}
		w.IsRedirect = true
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the redirects that wait for signatures: %w", err)
	}
	return found, nil
}
