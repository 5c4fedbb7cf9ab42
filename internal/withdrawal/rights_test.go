package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The role of an organization inserts what a request has. What a restore or the chain says of a withdrawal
// would make a debt of its customer, or a payment that was never made.
func TestTheRoleOfAnOrganizationInsertsNothingButRequests(t *testing.T) {
	t.Parallel()
	const noPrivilege = "42501"
	h := newTestEnv(t)
	id := h.mustRequest(h.newRequest()).ID
	insert := func(column, value string) error {
		return h.DB.InOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, fmt.Sprintf(`
				INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address,
					request_digest, status, requires_approval, approval_reasons, created_at, %s)
				SELECT 'wd_x', org_id, customer_id, mint_id, chain, amount, to_address, request_digest, 'BLOCKED',
					false, '{}', created_at, %s
				FROM withdrawals WHERE withdrawal_id = $1`, column, value), id)
			return err
		})
	}
	for column, value := range map[string]string{
		"restored_at": "now()", "restored_key_hash": "'ab'", "owed": "1", "collections": "1", "tx_hash": "'0xab'",
		"chain_status": "'FINALIZED'", "network_fee": "1", "charged": "1", "charge_cost": "1", "approved_at": "now()",
		"broadcast_at": "now()", "completed_at": "now()", "end_status": "'REJECTED'", "approval_round": "1",
		"failure_reason": "'REVERTED'", "decision": "'{}'",
	} {
		var refused *pgconn.PgError
		if err := insert(column, value); !errors.As(err, &refused) || refused.Code != noPrivilege {
			t.Errorf("%s: got %v, want no privilege", column, err)
		}
	}
	if err := insert("reference", "'the rest of a request'"); err != nil {
		t.Errorf("a row of a request: %v", err)
	}
}
