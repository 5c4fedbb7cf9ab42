package crashes

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// batchProduct is the product whose balance pays batches.
const batchProduct = "BATCH_PAYOUT"

// Statuses of a batch that a scene waits for.
const (
	batchWaits      = "AWAITING_APPROVAL"
	batchPaid       = "PROCESSING"
	batchPartlyPaid = "PARTIALLY_COMPLETED"
)

// batchRows is how many rows of a batch are paid, unless someone stops it. longBatchRows is one more than become
// withdrawals in one transaction; each of them pays little.
const (
	batchRows     = 3
	longBatchRows = 201
	longRowUnits  = 20_000
)

// batchRun is a batch payout that is made by commands: a list with payees of its own and one row to an address of ours,
// which is left out.
type batchRun struct {
	key, file, id, hash string
	rows                []batchRow
	funded              *big.Int
}

// batchRow is a row of a list, and what became of it.
type batchRow struct {
	payee                    string
	units                    *big.Int
	withdrawalID, status, tx string
	withdrawals              int
}

// claims returns what the oracle has to find: each payee received the amount once, or nothing.
func (b *batchRun) claims(asset string) (claims []oracle.Claim) {
	for n, r := range b.rows {
		claims = append(claims, oracle.Claim{
			ID: fmt.Sprintf("row %d of %s", n+1, b.id), Asset: asset, To: r.payee, Amount: r.units, Tx: r.tx,
			Paid: r.status == paid,
		})
	}
	return claims
}

// paidUnits returns what the batch has paid.
func (b *batchRun) paidUnits() *big.Int {
	sum := new(big.Int)
	for _, r := range b.rows {
		if r.status == paid {
			sum.Add(sum, r.units)
		}
	}
	return sum
}

// prepareBatch gives the product the sum of a list, and writes the list to a file. There is a second person afterwards,
// and the chain is ready for rows that share a transaction.
func (s *cellRun) prepareBatch(ctx context.Context) (*batchRun, error) {
	err := errors.Join(s.addApprover(ctx), s.net.prepareGroups(ctx, s.scenario), s.net.topUpFees(ctx, s.scenario))
	if err != nil {
		return nil, err
	}
	rows, units := batchRows, int64(paymentUnits)
	if s.point.name == "B06" {
		rows, units = longBatchRows, longRowUnits
	}
	b := &batchRun{key: s.name, file: filepath.Join(s.dir, s.name+".csv"), funded: new(big.Int)}
	var treasury string
	err = s.queryRow(ctx, `
		SELECT address FROM wallets WHERE family = $1 AND purpose = 'TREASURY' ORDER BY wallet_id LIMIT 1`,
		[]any{s.site.chain.Family()}, &treasury)
	if err != nil {
		return nil, err
	}
	var list strings.Builder
	list.WriteString("reference,mintId,toAddress,amount\n")
	for n := range rows {
		r := batchRow{
			payee: s.net.unusedAddress(fmt.Appendf(nil, "%s%s row %d", s.dir, s.name, n)),
			units: big.NewInt(units + int64(n)),
		}
		b.rows = append(b.rows, r)
		b.funded.Add(b.funded, r.units)
		fmt.Fprintf(&list, "%s row %d,%d,%s,%s\n", s.name, n+1, s.mint.ID, r.payee, r.units)
	}
	fmt.Fprintf(&list, "%s our own,%d,%s,%d\n", s.name, s.mint.ID, treasury, units)
	b.funded.Add(b.funded, big.NewInt(units))
	if err := os.WriteFile(b.file, []byte(list.String()), 0o600); err != nil {
		return nil, err
	}
	var payees []string
	for _, r := range b.rows {
		payees = append(payees, r.payee)
	}
	if err := s.net.preparePayees(ctx, s.contractAddress(), payees); err != nil {
		return nil, err
	}
	status, err := s.callAPI(ctx, http.MethodPost, "/transfers", map[string]any{
		"idempotencyKey": s.name, "mintId": s.mint.ID, "amount": b.funded.String(),
		"from": map[string]string{"customerId": richCustomer}, "to": map[string]string{"product": batchProduct},
	}, nil)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("POST /transfers to the product: got %d, want 201", status)
	}
	if err != nil {
		return nil, err
	}
	s.transferredOut.Add(s.transferredOut, b.funded)
	s.batches = append(s.batches, b)
	if s.net.paymentsPerTx() > 1 {
		s.startAsync(func() error { return s.releaseRows(ctx, b) })
	}
	return b, nil
}

// releaseRows releases the payments of a batch once each row that is to be paid has one, or no further row gets one.
// Until then they wait, so that a scene decides which payments are sent together.
func (s *cellRun) releaseRows(ctx context.Context, b *batchRun) error {
	err := waitUntil(ctx, "the rows have their payments", drainMax, func(ctx context.Context) (bool, error) {
		var isReady bool
		err := s.queryRow(ctx, `
			SELECT coalesce(bool_or(b.stopped_at IS NOT NULL OR b.ended_at IS NOT NULL OR (
				SELECT count(*) FROM withdrawals w WHERE w.batch_id = b.batch_id) >= $2), false)
			FROM payout_batches b WHERE b.idempotency_key = $1`, []any{b.key, len(b.rows)}, &isReady)
		return isReady, err
	})
	if err != nil {
		return err
	}
	return s.net.releasePayments(ctx, s.scenario)
}

// readBatch reads the status of a batch; it is "" before there is one.
func (s *cellRun) readBatch(ctx context.Context, b *batchRun) (status string, err error) {
	err = s.queryRow(ctx, `
		SELECT coalesce(max(batch_id), ''), coalesce(max('sha256:' || encode(content_hash, 'hex')), ''),
			coalesce(max(status), '')
		FROM payout_batches WHERE idempotency_key = $1`, []any{b.key}, &b.id, &b.hash, &status)
	return status, err
}

// waitBatch waits until a batch has one of some statuses.
func (s *cellRun) waitBatch(ctx context.Context, b *batchRun, statuses ...string) error {
	condition := fmt.Sprintf("the batch is %v", statuses)
	return waitUntil(ctx, condition, drainMax, func(ctx context.Context) (bool, error) {
		status, err := s.readBatch(ctx, b)
		if err == nil && !slices.Contains(statuses, status) {
			err = fmt.Errorf("it is %q", status)
		}
		return err == nil, err
	})
}

// batchStep is one command of the life of a batch.
type batchStep struct {
	start func() (*process, error)
	isIn  []string // the statuses in which the command has nothing left to do
}

// batchSteps returns the commands of a batch, in their order.
func (s *cellRun) batchSteps(b *batchRun) (create, submit, approve batchStep) {
	ended := []string{paid, batchPartlyPaid, failed, recalled}
	approved := append([]string{batchPaid}, ended...)
	submitted := append([]string{"VALIDATING", batchWaits}, approved...)
	create = batchStep{
		start: func() (*process, error) {
			return s.startCommand("payouts", "create", "--as", s.ownerEmail(), "--partial", "--key", b.key, b.file)
		},
		isIn: append([]string{"DRAFT"}, submitted...),
	}
	submit = batchStep{
		start: func() (*process, error) {
			return s.startCommand("payouts", "submit", "--as", s.ownerEmail(), "--hash", b.hash, b.id)
		},
		isIn: submitted,
	}
	approve = batchStep{
		start: func() (*process, error) {
			return s.startCommand("payouts", "approve", "--as", secondApprover, "--hash", b.hash, b.id)
		},
		isIn: approved,
	}
	return create, submit, approve
}

// runStep repeats a command until the batch is in a state in which it has nothing left to do.
func (s *cellRun) runStep(ctx context.Context, b *batchRun, step batchStep) error {
	return waitUntil(ctx, fmt.Sprintf("the batch is %v", step.isIn), sceneMax, func(ctx context.Context) (bool, error) {
		if status, err := s.readBatch(ctx, b); err != nil || slices.Contains(step.isIn, status) {
			return err == nil, err
		}
		c, err := step.start()
		if err != nil {
			return false, err
		}
		<-c.exited
		if c.err() != nil {
			return false, fmt.Errorf("it said %s", c.log)
		}
		return false, nil
	})
}

// playBatch plays a batch through the point: its creation, its submission, the checks of its rows, its approval, its
// withdrawals, or its end.
func playBatch(ctx context.Context, s *cellRun) error {
	b, err := s.prepareBatch(ctx)
	if err != nil {
		return err
	}
	create, submit, approve := s.batchSteps(b)
	for _, step := range []struct {
		batchStep
		points  []string
		reaches string
	}{
		{create, []string{"B01"}, "DRAFT"},
		{submit, []string{"B02", "B03", "B04"}, batchWaits},
		{approve, []string{"B05", "B06", "B07", "B08", "B09", "B10", "B12"}, ""},
	} {
		if !slices.Contains(step.points, s.point.name) {
			err = s.runStep(ctx, b, step.batchStep)
		} else if s.point.location == inCommand {
			err = errors.Join(s.playThroughCommand(ctx, step.start), s.runStep(ctx, b, step.batchStep))
		} else {
			err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
				return s.runStep(ctx, b, step.batchStep)
			})
		}
		if err == nil && step.reaches != "" {
			err = s.waitBatch(ctx, b, step.reaches)
		}
		if err != nil {
			return err
		}
	}
	return s.waitBatchEnd(ctx, b, paid)
}

// playRevertedBatch plays a group in which the token refuses one payee after it was signed: no row is paid.
func playRevertedBatch(ctx context.Context, s *cellRun) error {
	b, err := s.prepareBatch(ctx)
	if err != nil {
		return err
	}
	create, submit, approve := s.batchSteps(b)
	err = errors.Join(s.runStep(ctx, b, create), s.runStep(ctx, b, submit))
	if err == nil {
		err = s.waitBatch(ctx, b, batchWaits)
	}
	if err != nil {
		return err
	}
	release, err := s.holdAtFailpoint(ctx, "W14", func(ctx context.Context) error { return s.runStep(ctx, b, approve) })
	if err != nil {
		return err
	}
	if err := s.net.refuseRecipient(ctx, s.contractAddress(), b.rows[1].payee); err != nil {
		return err
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(context.Context) error { return release() })
	if err != nil {
		return err
	}
	return s.waitBatchEnd(ctx, b, failed)
}

// playStoppedBatch plays a pause and a cancellation that wait for a batch whose rows are becoming withdrawals. What has
// its slot by then is paid, and nothing else is.
func playStoppedBatch(ctx context.Context, s *cellRun) error {
	b, err := s.prepareBatch(ctx)
	if err != nil {
		return err
	}
	create, submit, approve := s.batchSteps(b)
	err = errors.Join(s.runStep(ctx, b, create), s.runStep(ctx, b, submit))
	if err == nil {
		err = s.waitBatch(ctx, b, batchWaits)
	}
	if err != nil {
		return err
	}
	var rivals []*process
	s.atPoint = func(ctx context.Context) error {
		for _, verb := range []string{"pause", "cancel"} {
			rival, err := s.startCommand("payouts", verb, "--as", s.ownerEmail(), b.id)
			if err != nil {
				return err
			}
			rivals = append(rivals, rival)
			if err := s.waitLockWaiter(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		return s.runStep(ctx, b, approve)
	})
	for _, rival := range rivals {
		<-rival.exited
	}
	if err != nil {
		return err
	}
	// The fault may have ended either of them before it was done. A batch that is only paused waits for a person.
	err = waitUntil(ctx, "the cancellation has come through", sceneMax, func(ctx context.Context) (bool, error) {
		var isStopped bool
		err := s.queryRow(ctx, `
			SELECT stopped_at IS NOT NULL OR ended_at IS NOT NULL FROM payout_batches WHERE batch_id = $1`,
			[]any{b.id}, &isStopped)
		if err != nil || isStopped {
			return err == nil, err
		}
		c, err := s.startCommand("payouts", "cancel", "--as", s.ownerEmail(), b.id)
		if err != nil {
			return false, err
		}
		<-c.exited
		return false, c.err()
	})
	if err != nil {
		return err
	}
	return s.waitBatchEnd(ctx, b, paid, batchPartlyPaid, failed, recalled)
}

// waitBatchEnd waits until a batch has ended, and reads what became of each row. The commands, again, change nothing.
func (s *cellRun) waitBatchEnd(ctx context.Context, b *batchRun, statuses ...string) error {
	if err := errors.Join(s.waitAsync(ctx), s.waitBatch(ctx, b, statuses...)); err != nil {
		return err
	}
	for n := range b.rows {
		r := &b.rows[n]
		err := s.queryRow(ctx, `
			SELECT count(*), coalesce(max(withdrawal_id), ''), coalesce(max(status), ''), coalesce(max(tx_hash), '')
			FROM withdrawals WHERE org_id = $1 AND to_address = $2`, []any{s.world.Info.OrganizationID, r.payee},
			&r.withdrawals, &r.withdrawalID, &r.status, &r.tx)
		if err != nil {
			return err
		}
		if r.withdrawals > 1 {
			return fmt.Errorf("row %d of %s has %d withdrawals", n+1, b.id, r.withdrawals)
		}
	}
	if err := s.checkGroup(ctx, b); err != nil {
		return err
	}
	first := b.id
	create, _, approve := s.batchSteps(b)
	for _, step := range []batchStep{create, approve} {
		c, err := step.start()
		if err != nil {
			return err
		}
		<-c.exited
	}
	if err := s.waitBatch(ctx, b, statuses...); err != nil {
		return err
	}
	rowFailure := ""
	if slices.Equal(statuses, []string{failed}) {
		rowFailure = failed
	}
	var batches, unpaid int
	var held, balance string
	err := s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM payout_batches WHERE idempotency_key = $1),
			(SELECT count(*) FROM withdrawals WHERE batch_id = $2 AND status NOT IN ('COMPLETED', 'CANCELLED', $4)),
			(SELECT coalesce(sum(x.balance), 0)::text FROM ledger_accounts a JOIN ledger_balances x USING (account_id)
				WHERE a.kind = 'BATCH_HELD' AND a.mint_id = $3),
			(SELECT coalesce(sum(x.balance), 0)::text FROM ledger_accounts a JOIN ledger_balances x USING (account_id)
				WHERE a.kind = 'PRODUCT' AND a.subject = 'BATCH_PAYOUT' AND a.mint_id = $3)`,
		[]any{b.key, b.id, s.mint.ID, rowFailure}, &batches, &unpaid, &held, &balance)
	if err != nil {
		return err
	}
	want := new(big.Int)
	for _, run := range s.batches {
		want.Add(want, run.funded).Sub(want, run.paidUnits())
	}
	if batches != 1 || b.id != first || unpaid != 0 || held != "0" || balance != want.String() {
		return fmt.Errorf(
			"the key has %d batches, %d withdrawals ended in another way, %s is held and the product has %s, want "+
				"one, none, nothing and %s", batches, unpaid, held, balance, want)
	}
	return nil
}

// checkGroup checks that the rows of a batch had one transaction and ended in one way, once they had their slot before
// the fault. A group that reverted failed as a whole, with the proof of its block.
func (s *cellRun) checkGroup(ctx context.Context, b *batchRun) error {
	if !slices.Contains([]string{"B09", "B10", "B11"}, s.point.name) {
		return nil
	}
	var slots, txs, statuses, proven int
	err := s.queryRow(ctx, `
		SELECT count(DISTINCT coalesce(tx_lead_id, order_id)), count(DISTINCT tx_hash), count(DISTINCT status),
			count(proof_id)
		FROM dispatch_orders WHERE batch->>'batchId' = $1`, []any{b.id}, &slots, &txs, &statuses, &proven)
	if err == nil && (slots != 1 || txs != 1 || statuses != 1 || proven != len(b.rows)) {
		err = fmt.Errorf(
			"%d rows had %d slots and %d transactions, ended in %d ways and %d of them with a proof, want one of each "+
				"and all", len(b.rows), slots, txs, statuses, proven)
	}
	return err
}
