package race

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
)

// How many batches are fought for.
const (
	batchesShort = 6
	batchesLong  = 60
)

// batchSum is what one batch takes.
const batchSum = 1_000_000 * batchRows * (batchRows + 1) / 2

// 64 workers in two processes submit, check, approve, pause, resume, stop and pay the same batches at the same time.
// Each key makes one batch, each batch needs two people besides its maker, each row is paid once or its amount is
// spendable again, and what is held is at every moment what the open rows take. Rules BP-5, BP-6, BP-11, BP-12 and
// BP-70.
func TestSixtyFourWorkersOfTwoProcessesPayBatchesOnce(t *testing.T) {
	t.Parallel()
	n := batchesShort
	if *forFlag > 0 {
		n = batchesLong
	}
	r, data, attest := newCheckoutRace(t)
	task := task{URL: data.URL, Org: r.org, Attest: attest, BatchRace: r.prepareBatches(n)}
	sum := result{Accepted: map[string]string{}, Decided: map[string]string{}, Resolved: map[string]string{}}
	began := time.Now()
	for _, got := range runBothProcesses(t, task) {
		sum.addResult(got)
	}
	took := time.Since(began)
	for _, w := range sum.Wrong {
		t.Error(w)
	}
	if sum.Deadlocks != 0 {
		t.Errorf("got %d deadlocks, want none", sum.Deadlocks)
	}
	for id := range sum.Resolved { // nothing has sent a payment so far
		r.must(r.Payouts.Expand(r.ctx, r.org, id))
	}
	r.drainBatches()
	paid, stopped := r.checkBatches(task.BatchRace.Batches, sum)
	grants, err := signer.NewGrantKey(task.BatchRace.GrantSeed)
	r.must(err)
	books, err := verify.RunChecks(r.ctx, r.Payouts.DB, verify.WithGrants(grants))
	r.must(err)
	if !books.IsIntact() {
		var b bytes.Buffer
		_, _ = books.WriteTo(&b)
		t.Errorf("the books: %s", b.String())
	}
	if *forFlag > 0 {
		fmt.Printf("race: %d batch payouts, %d workers in two processes: %d acts, %d refused, %d rows paid, "+
			"%d batches ended by a person, %d of them after their approval, %d looks, %d waits given up, in %v\n",
			n, 2*workers, sum.Requests, sum.Conflicts, paid, len(sum.Resolved), stopped, sum.Looks, sum.Vain,
			took.Round(time.Millisecond))
	}
}

// prepareBatches gives the product what all batches take, and makes them as drafts. Two people have to approve each.
func (r *checkoutRace) prepareBatches(n int) *batchTask {
	r.Helper()
	r.must(r.Payouts.DB.InSystem(r.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), r.org, org.Changes{
			"approvalQuorum": []byte("2"),
		})
		return err
	}))
	treasury, err := r.Wallets.Treasury(r.ctx, r.org, chain.EVM)
	r.must(err)
	product, err := r.Wallets.Address(r.ctx, signer.WalletRef{
		OrgID: r.org, Family: chain.EVM, Purpose: wallet.OrganizationDeposit, Subject: ledger.BatchProduct,
	})
	r.must(err)
	rich := sim.Address("rich")
	r.net.Mint(rich, signertest.Token, money.Units(1_000_000_000_000))
	r.net.Mint(rich, "", money.MustParse("100000000000000000000"))
	r.net.Pay(rich, treasury.Address, "", 50_000_000_000_000_000)
	r.net.Pay(rich, product.Address, signertest.Token, uint64(n)*batchSum)
	for range 100 {
		if !r.net.Balance(treasury.Address, signertest.Token).Less(money.Units(uint64(n) * batchSum)) {
			break
		}
		r.turn()
		r.extra.Add(int64(40 * time.Second))
	}
	for range 3 {
		r.turn()
	}
	made := &batchTask{GrantSeed: r.task.GrantSeed, Ahead: time.Duration(r.extra.Load())}
	for round := range n {
		key := fmt.Sprintf("batch-%d", round)
		b, err := r.Payouts.Create(r.ctx, r.org, payout.CreateRequest{
			Lines: newBatchList(round), Mode: contenthash.Partial, IdempotencyKey: &key, Actor: batchMaker,
		})
		r.must(err)
		made.Batches = append(made.Batches, b.ID)
	}
	return made
}

// drainBatches lets two people approve what waits, and every batch end.
func (r *checkoutRace) drainBatches() {
	r.Helper()
	for range 200 {
		open := r.texts(`SELECT batch_id FROM payout_batches WHERE ended_at IS NULL ORDER BY batch_id`)
		if len(open) == 0 {
			return
		}
		for _, id := range open {
			b, err := r.Payouts.ByID(r.ctx, r.org, id)
			r.must(err)
			switch {
			case b.Status == payout.Draft:
				_, err = r.Payouts.Submit(r.ctx, r.org, id, payout.SubmitRequest{
					ContentHash: b.ContentHash, Actor: batchMaker,
				})
			case b.Status == payout.AwaitingApproval:
				for _, person := range batchApprovers {
					_, err = r.Payouts.Approve(r.ctx, r.org, id, b.ContentHash, person)
					if fault.HasCode(err, fault.InvalidState) { // this person has approved before
						err = nil
					}
				}
			case b.PausedAt != nil && b.StoppedAt == nil:
				_, err = r.Payouts.Resume(r.ctx, r.org, id, batchMaker)
			}
			r.must(err)
		}
		r.must(r.Payouts.WorkDue(r.ctx))
		r.turn()
		r.extra.Add(int64(40 * time.Second))
	}
	r.Fatalf("batches have no end: %v", r.texts(`SELECT b.status || ' ' || i.row_no || ' ' || coalesce(i.waits_for, '')
		|| ' ' || coalesce(w.status, '') || ' ' || coalesce(o.status, '') || ' ' || coalesce(o.last_error, '')
		FROM payout_batches b JOIN payout_items i USING (batch_id)
		LEFT JOIN withdrawals w ON w.batch_id = i.batch_id AND w.batch_row = i.row_no
		LEFT JOIN dispatch_orders o ON o.order_id = w.withdrawal_id WHERE b.ended_at IS NULL LIMIT 8`))
}

// checkBatches compares what the workers were told with the tables and the chain, and returns how many rows were paid,
// and how many batches were cancelled after their approval.
func (r *checkoutRace) checkBatches(batches []string, sum result) (paid, stopped int) {
	r.Helper()
	for what, sql := range map[string]string{
		"events that a batch has twice": `SELECT resource_id FROM events WHERE resource_kind = 'batch_payout'
			GROUP BY resource_id, type HAVING count(*) > 1`,
		"rows with two payments": `SELECT batch_id FROM withdrawals WHERE batch_id IS NOT NULL
			GROUP BY batch_id, batch_row HAVING count(*) > 1`,
		"paid batches without two approvals": `SELECT b.batch_id FROM payout_batches b WHERE b.approved_at IS NOT NULL
			AND (SELECT count(*) FROM payout_approvals a WHERE a.batch_id = b.batch_id
				AND a.approver_id <> b.maker_id) <> 2`,
		"payments of batches that were not approved": `SELECT b.batch_id FROM payout_batches b
			JOIN withdrawals w USING (batch_id) WHERE b.approved_at IS NULL`,
		"batches whose payments ended otherwise than they did": `SELECT b.batch_id FROM payout_batches b
			WHERE (b.status = 'COMPLETED') <> ((SELECT count(*) FROM withdrawals w WHERE w.batch_id = b.batch_id
				AND w.status = 'COMPLETED') = b.row_count)`,
	} {
		if found := r.texts(sql); len(found) != 0 {
			r.Errorf("got %d %s, want none", len(found), what)
		}
	}
	left := uint64(len(batches)) * batchSum
	for round, id := range batches {
		b, err := r.Payouts.ByID(r.ctx, r.org, id)
		r.must(err)
		if round%3 == 0 && b.Status != payout.Completed {
			r.Errorf("no one stopped batch %d, and it is %s", round, b.Status)
		}
		if verdict := sum.Resolved[id]; verdict != "" && (string(b.Status) != verdict || b.Counts.Paid > 0) {
			r.Errorf("batch %d was %s before anything was sent, and is %s with %d rows paid", round, verdict, b.Status,
				b.Counts.Paid)
		}
		if b.Status == payout.Cancelled && b.ApprovedAt != nil {
			stopped++
		}
		items, err := r.Payouts.Items(r.ctx, r.org, id)
		r.must(err)
		for _, i := range items {
			want := money.Zero
			if i.WithdrawalStatus == "COMPLETED" {
				want = i.Amount
				paid++
				left -= 1_000_000 * uint64(i.Number)
			}
			if got := r.net.Received(batchPayee(round, i.Number), signertest.Token); got != want {
				r.Errorf("row %d of batch %d, %s, received %v, want %v", i.Number, round, i.WithdrawalStatus, got, want)
			}
		}
	}
	balances := r.texts(`
		SELECT a.kind || ' ' || b.balance FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
		WHERE a.kind IN ('BATCH_HELD', 'PRODUCT_WITHDRAWING', 'PRODUCT') AND a.subject = 'BATCH_PAYOUT'
			AND b.balance <> 0 ORDER BY 1`)
	want := fmt.Sprintf("PRODUCT %d", left)
	if left == 0 && len(balances) != 0 || left > 0 && (len(balances) != 1 || balances[0] != want) {
		r.Errorf("the product has %v, want %s alone", balances, want)
	}
	if sum.Requests == 0 || sum.Looks == 0 || paid == 0 || stopped == 0 || len(sum.Accepted) != len(batches) {
		r.Errorf("some workers did nothing: %s", encodeJSON(sum))
	}
	return paid, stopped
}
