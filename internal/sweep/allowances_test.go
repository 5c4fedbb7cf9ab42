package sweep_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/sweep"
)

// fakePayouts is a payout contract that answers as it is told.
type fakePayouts struct {
	isDeployed bool
	allowed    money.Amount
}

func (*fakePayouts) Address() chain.Address { return sim.Address("payouts") }

func (f *fakePayouts) IsDeployed(context.Context) (bool, error) { return f.isDeployed, nil }

func (f *fakePayouts) Allowance(context.Context, chain.Address, chain.Address) (money.Amount, error) {
	return f.allowed, nil
}

// The service grants an allowance once for a treasury and a token, and only where enough rows of one batch wait. What a
// person revoked does not come back with the next batch. Rule BP-25.
func TestAnAllowanceIsGrantedOnceAndStaysRevoked(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	contract, ch := &fakePayouts{}, y.chain.ToChain()
	ch.PayoutContract = contract
	sweeper := sweep.New(
		y.db, ch, y.wallets, price.Fixed{Clock: func() time.Time { return y.now }}, sweep.Config{},
		slog.New(slog.DiscardHandler),
	)
	treasury, err := y.wallets.Treasury(y.ctx, y.org, chain.EVM)
	y.must(err)
	owner := pgtest.Superuser(t, y.db)
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(y.ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SET session_replication_role = replica`)
	rows := 0
	addRow := func(batchID string) {
		rows++
		exec(`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract,
				amount, product, status, attempt_after, created_at, batch)
			VALUES ($1, $2, 'PAYMENT', 'ETHEREUM', $3, $1, $4, $5, 1, 'BATCH_PAYOUT', 'QUEUED', $6, $6,
				jsonb_build_object('batchId', $7::text, 'row', $8::int, 'contentHash', $9::text))`,
			fmt.Sprint("wd_", rows), y.org, treasury.ID, usdc, signertest.Token, y.now, batchID, rows,
			"sha256:"+strings.Repeat("0", 64))
	}
	want := func(name string, orders int) {
		t.Helper()
		y.now = y.now.Add(time.Hour)
		_, err := sweeper.Plan(y.ctx)
		y.must(err)
		var got int
		y.must(owner.QueryRow(y.ctx, `SELECT count(*) FROM payout_allowances WHERE trigger = 'DEMAND'`).Scan(&got))
		if got != orders {
			t.Errorf("%s: got %d allowances, want %d", name, got, orders)
		}
	}
	for _, batchID := range []string{"bp_1", "bp_1", "bp_2"} {
		addRow(batchID)
	}
	contract.isDeployed = true
	want("two rows of a batch wait", 0)
	addRow("bp_1")
	contract.isDeployed = false
	want("the contract is not there", 0)
	contract.isDeployed, contract.allowed = true, money.Units(1)
	want("the chain has an allowance", 0)
	contract.allowed = money.Zero
	want("three rows of a batch wait", 1)
	want("it is on its way", 1)

	token := mint.Mint{ID: usdc, Chain: chain.Ethereum, Contract: signertest.Token}
	_, err = sweeper.SetAllowance(y.ctx, y.org, token, false, audit.Operator("op"))
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("a change while another one is open: got %v", err)
	}
	end := func() {
		exec(`UPDATE dispatch_orders SET status = 'PAID', ended_at = $1, tx_hash = order_id, fee = 1, proof_id = 1
			WHERE purpose IN ('ALLOWANCE', 'REVOCATION') AND status = 'QUEUED'`, y.now)
	}
	end()
	y.now = y.now.Add(time.Second)
	_, err = sweeper.SetAllowance(y.ctx, y.org, token, false, audit.Operator("op"))
	y.must(err)
	end()
	want("a person revoked it", 1)
	var last []sweep.Allowance
	y.must(y.db.ReadSystem(y.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		last, err = sweep.ListAllowances(ctx, tx)
		return err
	}))
	if len(last) != 1 || last[0].IsGranted {
		t.Errorf("got %+v, want one that is revoked", last)
	}
}
