package verify

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/pg"
)

// What the role of the system could undo with one statement, on the house where
// everything has happened once.
func TestTheTablesKeepWhatTheProgramKeeps(t *testing.T) {
	t.Parallel()
	h := build(t)
	for name, c := range map[string]struct{ sql, constraint string }{
		"a deposit on the proof of another block": {`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount,
				address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, created_at)
			SELECT 'dep_lie', org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount, address, from_address, 'tx_lie', kind, position,
				log_index, 99, 'h99', proof_id, 'SCREENING', chain_status, created_at FROM deposits WHERE deposit_id = 'dep_waits'`, "deposits_proof"},
		"a final deposit of another mint":   {`UPDATE deposits SET mint_id = 2 WHERE deposit_id = 'dep_waits'`, "deposits_final_fixed"},
		"an order of another customer":      {`UPDATE dispatch_orders SET customer_id = NULL WHERE order_id = 'wd_queued'`, "dispatch_orders_payment_fixed"},
		"another fee after the end":         {`UPDATE dispatch_orders SET fee = fee + 1 WHERE order_id = 'wd_paid'`, "dispatch_orders_end_fixed"},
		"a slot moved to a free nonce":      {`UPDATE dispatch_slots SET nonce = 900 WHERE order_id = 'wd_out'`, "dispatch_slots_fixed"},
		"a slot that gives its gas back":    {`UPDATE dispatch_slots SET gas_reserved = 0 WHERE order_id = 'wd_out'`, "dispatch_slots_fixed"},
		"a slot on another wallet":          {`INSERT INTO dispatch_slots SELECT 'we_dep', chain, 901, org_id, order_id, 0, created_at FROM dispatch_orders WHERE order_id = 'wd_queued'`, "dispatch_slots_wallet"},
		"nonces that begin again":           {`UPDATE dispatch_accounts SET next_nonce = 0`, "dispatch_accounts_forward"},
		"an open sweep of less":             {`UPDATE sweeps SET amount = 1 WHERE sweep_id = 'sw_open'`, "sweeps_fixed"},
		"a sweep that is open again":        {`UPDATE sweeps SET status = 'FAILED' WHERE sweep_id = 'sw_done'`, "sweeps_terminal"},
		"a top-up that is open again":       {`UPDATE gas_top_ups SET status = 'FAILED' WHERE top_up_id = 'gas_done'`, "gas_top_ups_fixed"},
		"a top-up of more than was ordered": {`UPDATE gas_top_ups SET amount = amount + 1 WHERE top_up_id = 'gas_open'`, "gas_top_ups_fixed"},
	} {
		err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, c.sql)
			return err
		})
		if !pg.Violates(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
}
