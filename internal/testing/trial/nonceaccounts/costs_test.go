package nonceaccounts

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Rule WD-53. A token account for a new wallet costs 2,039,280 lamports, which are 0.41 dollars
// here, and the payee may close it and keep them.
func TestTokenAccountsForNewWalletsAreLimitedByCustomer(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, 2)
	w.mustRunAll()
	var err error
	w.treasury, err = w.Wallets.Treasury(w.ctx, w.org, chain.SolanaFamily)
	w.mustSucceed(err)
	_, err = w.node.PayLamports(w.ctx, w.treasury.Address, surfpool.LamportsPerSOL)
	w.mustSucceed(err)
	_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 1_000_000_000)
	w.mustSucceed(err)
	for range 4 {
		w.settleAll()
	}
	w.Withdrawals.HasPriceSource = func(int) bool { return true }
	w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(
			ctx, tx, audit.Operator("op"), w.org, org.Changes{"customerFeeDayUsd": json.RawMessage(`"1.00"`)},
		)
		return err
	}))
	const status = `SELECT concat_ws(' ', status, nullif(array_to_string(approval_reasons, ','), '')) FROM withdrawals WHERE withdrawal_id = $1`
	for i, want := range []string{
		"COMPLETED", "COMPLETED", "AWAITING_APPROVAL POLICY_LIMIT", "AWAITING_APPROVAL POLICY_LIMIT",
	} {
		id, _ := w.requestWithdrawal(usdc, 10_000)
		w.settleAll()
		w.wantText(string(rune('1'+i))+". withdrawal", want, status, id)
	}
	w.wantText(
		"rent that was told beforehand", "2039280 2039280 2039280 2039280",
		`SELECT string_agg(cost_rent::text, ' ') FROM withdrawals`,
	)
	w.checkBooks()
}
