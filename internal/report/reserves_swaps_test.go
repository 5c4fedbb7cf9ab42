package report_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// addSwap adds a swap of 100 units of mint 1 that the first organization made in a month of 2026.
func (h *testEnv) addSwap(id, provider, status string, month, refunded, short int, isPaid bool) {
	h.t.Helper()
	h.write(fmt.Sprintf(`
		INSERT INTO swaps (
			swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id, to_mint_id,
			from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address,
			delivery_wallet_id, refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status, refunded,
			short, short_count, amount_out, origin_tx_hash, destination_tx_hash, completed_at,
			failed_at, failure_reason, paid_at, created_at, updated_at)
		SELECT '%[1]s', $ONE, 'ann', '%[1]s', encode(sha256('%[1]s'), 'hex'), '', 1, 2,
			'ETHEREUM', 'ETHEREUM', 100, 1, 1, '%[2]s', '%[1]s',
			'%[1]s to', '%[1]s back', day, day, 0, 0, '%[3]s', %[5]d,
			%[6]d, sign(%[6]d), CASE WHEN ends THEN 1 END, CASE WHEN ends THEN 'x' END, CASE WHEN ends THEN 'x' END,
			CASE WHEN ends THEN day END, CASE WHEN fails THEN day END, CASE WHEN fails THEN 'UNKNOWN' END,
			CASE WHEN %[7]t THEN day END, day, day
		FROM (SELECT make_timestamptz(2026, %[4]d, 1, 0, 0, 0, 'UTC') AS day, '%[3]s' = 'COMPLETED' AS ends,
			'%[3]s' = 'FAILED' AS fails) s`, id, provider, status, month, refunded, short, isPaid))
}

// What providers have is counted beside what the addresses hold. Only open claims, debts to providers and
// refunds that the chain took back have a part in it.
func TestReservesCountWhatIsInSwapsAndAtProviders(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.addSwap("cs_open", "ONE_CLICK", "PROCESSING", 3, 0, 0, true)
	h.addSwap("cs_partly", "ONE_CLICK", "FAILED", 2, 40, 10, true)
	h.addSwap("cs_ended", "ONE_CLICK", "COMPLETED", 1, 0, 0, true)
	h.addSwap("cs_unpaid", "ONE_CLICK", "FAILED", 1, 100, 0, false)
	h.addSwap("cs_early", "RELAY", "COMPLETED", 4, 0, 0, false) // delivered before our payment is final
	h.write(`
		INSERT INTO deposits (
			deposit_id, org_id, wallet_id, purpose, customer_id, swap_id, arrival_role, is_hidden, mint_id,
			chain, contract, amount, address, from_address, tx_hash, kind, position, log_index, height, block_hash,
			proof_id, status, chain_status, created_at, credited_at, reversed_at, taken_back)
		VALUES ('dep_1', $ONE, 'adr_x', 'SWAP_REFUND', 'ann', 'cs_partly', 'REFUND', true, 1,
			'ETHEREUM', '0x1', 40, '0xa', '0xb', '0xc', 'TOKEN', '1', 1, 1, 'h', 1,
			'REVERSED', 'REORGED', '2026-02-01Z', '2026-02-01Z', '2026-02-02Z', 40)`)
	h.write(`
		INSERT INTO organization_totals (org_id, mint_id, available, withdrawing, in_swap, addresses, treasuries, dust)
		VALUES ($ONE, 1, 40, 0, 150, 100, 0, 0)`)
	load := func(org string) (found []report.Reserve) {
		t.Helper()
		err := h.db.Snapshot(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = report.LoadReserves(ctx, tx, org)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, org := range []string{"", h.one} {
		found := load(org)
		if len(found) != 1 || len(found[0].AtProviders) != 2 {
			t.Fatalf("got %+v, want one mint and two providers", found)
		}
		r := found[0]
		if r.InSwap != money.Units(150) || r.Difference != "0" {
			t.Errorf("got %v in swaps and a difference of %s, want 150 and none", r.InSwap, r.Difference)
		}
		if owed, err := r.SumLiabilities(); err != nil || owed != money.Units(190) {
			t.Errorf("liabilities: got %v, %v, want 190", owed, err)
		}
		paid, early := r.AtProviders[0], r.AtProviders[1]
		if paid.Provider != "ONE_CLICK" || paid.Amount != "190" || paid.OldestAt == nil ||
			paid.OldestAt.Month().String() != "February" {
			t.Errorf("got %+v, want 190 at ONE_CLICK, the oldest of February", paid)
		}
		if early.Provider != "RELAY" || early.Amount != "-100" || early.OldestAt != nil {
			t.Errorf("got %+v, want a debt of 100 to RELAY", early)
		}
	}
	if found := load(h.two); len(found) != 0 {
		t.Errorf("another organization: got %+v, want nothing", found)
	}
}
