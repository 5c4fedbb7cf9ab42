package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

const (
	smallUnits = 1_000_000     // too little for a sweep
	largeUnits = 5_000_000_000 // enough for a sweep
	sceneMax   = 5 * time.Minute
)

// playPayment plays a payment through the point.
func playPayment(ctx context.Context, s *cellRun) error {
	ps := s.newPayments()
	if err := s.playThrough(ctx, s.point.sourceName(), s.startPayments(ps...)); err != nil {
		return err
	}
	return s.waitPaymentsEnd(ctx, ps, paid)
}

// playTransfer plays a transfer through the point, to a new customer. The same key returns the same
// transfer, whichever of its callers created it.
func playTransfer(ctx context.Context, s *cellRun) error {
	recipient := "user_" + s.name
	body := map[string]any{
		"idempotencyKey": s.name, "mintId": s.mint.ID, "amount": fmt.Sprint(paymentUnits),
		"from": map[string]string{"customerId": richCustomer}, "to": map[string]string{"customerId": recipient},
	}
	var made webhook.Transfer
	ask := func(ctx context.Context) error {
		status, err := s.callAPI(ctx, http.MethodPost, "/transfers", body, &made)
		if err == nil && status != http.StatusCreated {
			err = fmt.Errorf("POST /transfers: got %d, want 201", status)
		}
		return err
	}
	err := s.playThrough(ctx, s.point.name, func(ctx context.Context) error {
		s.startAsync(func() error { return ask(ctx) })
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	first := made.TransferID
	if err := ask(ctx); err != nil {
		return err
	}
	if made.TransferID != first {
		return fmt.Errorf("the same key got %s and then %s", first, made.TransferID)
	}
	s.transferredOut.Add(s.transferredOut, big.NewInt(paymentUnits))
	return s.checkBalance(ctx, recipient, big.NewInt(paymentUnits))
}

// playProviderFault plays a payment whose provider hides what it does.
func playProviderFault(ctx context.Context, s *cellRun) error {
	ps := s.newPayments()
	if err := s.playAtProvider(ctx, providerFault(s.point.name), s.startPayments(ps...)); err != nil {
		return err
	}
	return s.waitPaymentsEnd(ctx, ps, paid)
}

// playAtProvider plays the fault while the provider of the chain hides what it does with a transaction that
// begin leads to.
func (s *cellRun) playAtProvider(ctx context.Context, hidden providerFault, begin func(context.Context) error) error {
	reached, restore := s.provider.armFault(hidden)
	defer restore()
	if err := begin(ctx); err != nil {
		return err
	}
	select {
	case <-reached:
	case <-time.After(reachMax):
		return errors.New("nothing was sent")
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.inflictFault(ctx, func() error { restore(); return nil })
}

// waitBroadcast waits until the newest version of a payment, at least the versions-th, was sent.
func (s *cellRun) waitBroadcast(ctx context.Context, p *payment, versions int) error {
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	return s.waitOrderBroadcast(
		ctx, versions, func(ctx context.Context) (string, error) { return s.findTxLead(ctx, p) },
	)
}

// waitOrderBroadcast waits until the newest version of an order, at least the versions-th, was sent. The order
// of a payment that shares a transaction may still change.
func (s *cellRun) waitOrderBroadcast(
	ctx context.Context, versions int, findOrder func(ctx context.Context) (string, error),
) error {
	return waitUntil(ctx, fmt.Sprintf("version %d is out", versions), sceneMax,
		func(ctx context.Context) (bool, error) {
			lead, err := findOrder(ctx)
			if err != nil {
				return false, err
			}
			var n int
			var answers string
			err = s.queryRow(ctx, `
			SELECT count(*) FILTER (WHERE a.last_answer ~ 'accepted|already (imported|have)' AND o.status = 'BROADCAST'),
			       coalesce(string_agg(a.version || ' at ' || a.fee_cap || ': ' || coalesce(a.last_answer, ''), '; '), '')
			FROM dispatch_attempts a JOIN dispatch_orders o USING (order_id) WHERE order_id = $1`,
				[]any{lead}, &n, &answers)
			if err == nil && n < versions {
				err = errors.New(answers)
			}
			return err == nil, err
		})
}

// holdBroadcasts holds what is sent in the mempool; releaseBroadcasts ends that.
func (s *cellRun) holdBroadcasts() { s.net.holdPool(s.scenario, true) }

func (s *cellRun) releaseBroadcasts(context.Context) error {
	s.net.holdPool(s.scenario, false)
	return nil
}

// leaveWaiting requests payments and leaves them in the mempool.
func (s *cellRun) leaveWaiting(ctx context.Context, ps payments) error {
	s.holdBroadcasts()
	if err := s.startPayments(ps...)(ctx); err != nil {
		return err
	}
	return s.waitBroadcast(ctx, ps[0], 1)
}

// playReplacement plays a payment that waits in the mempool until a fee bump.
func playReplacement(ctx context.Context, s *cellRun) error {
	ps := s.newPayments()
	s.afterFault = s.releaseBroadcasts
	err := s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error { return s.leaveWaiting(ctx, ps) })
	if err != nil {
		return err
	}
	return s.waitPaymentsEnd(ctx, ps, paid)
}

// playOlderVersion mines the first version after the second was sent.
func playOlderVersion(ctx context.Context, s *cellRun) error {
	ps := s.newPayments()
	if err := s.leaveWaiting(ctx, ps); err != nil {
		return err
	}
	if err := s.waitBroadcast(ctx, ps[0], 2); err != nil {
		return err
	}
	s.provider.setDown(true)
	defer s.provider.setDown(false)
	lead, err := s.findTxLead(ctx, ps[0])
	if err != nil {
		return err
	}
	older, err := s.mineFirstVersion(ctx, lead)
	if err != nil {
		return err
	}
	s.afterFault = func(ctx context.Context) error { s.provider.setDown(false); return s.releaseBroadcasts(ctx) }
	if err := s.inflictOutside(ctx); err != nil {
		return err
	}
	if err := s.waitPaymentsEnd(ctx, ps, paid); err != nil {
		return err
	}
	for _, p := range ps {
		if p.current.TxHash == nil || *p.current.TxHash != older {
			return fmt.Errorf("the older version %s was mined, and the withdrawal names %v", older, p.current.TxHash)
		}
	}
	return nil
}

// mineFirstVersion mines the first version of an order's transaction, and not its newest one. It returns its hash.
func (s *cellRun) mineFirstVersion(ctx context.Context, orderID string) (older string, err error) {
	var newer string
	var raw []byte
	err = s.queryRow(ctx, `
		SELECT a.tx_hash, a.raw, (SELECT tx_hash FROM dispatch_attempts b WHERE b.order_id = a.order_id AND b.raw IS NOT NULL ORDER BY version DESC LIMIT 1)
		FROM dispatch_attempts a WHERE order_id = $1 AND version = 1`, []any{orderID}, &older, &raw, &newer)
	if err != nil {
		return "", err
	}
	return older, s.net.mineInstead(ctx, raw, newer)
}

// playForkedPayment plays a payment in a block that a fork removes.
func playForkedPayment(ctx context.Context, s *cellRun) error {
	ps := s.newPayments()
	if err := s.leaveWaiting(ctx, ps); err != nil {
		return err
	}
	s.atPoint = func(ctx context.Context) error { return s.net.forkBlock(ctx) }
	s.afterFault = s.releaseBroadcasts
	err := s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error { return s.net.mineBlock(ctx) })
	if err != nil {
		return err
	}
	return s.waitPaymentsEnd(ctx, ps, paid)
}

// playRevertedPayment plays a payment that the token refuses after it was signed.
func playRevertedPayment(ctx context.Context, s *cellRun) error {
	p := s.newPayment()
	release, err := s.holdAtFailpoint(ctx, "W14", s.startPayments(p))
	if err != nil {
		return err
	}
	if err := s.net.refuseRecipient(ctx, s.contractAddress(), p.recipient); err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.name, func(context.Context) error { return release() }); err != nil {
		return err
	}
	return s.waitPaymentEnd(ctx, p, failed)
}

func pointerTo[T any](v T) *T { return &v }

// playCancel cancels a payment in the mempool: it ends either way, and in only one.
func playCancel(ctx context.Context, s *cellRun) error {
	ps := s.newPayments()
	if err := s.leaveWaiting(ctx, ps); err != nil {
		return err
	}
	s.afterFault = s.releaseBroadcasts
	err := s.playThrough(
		ctx, s.point.sourceName(),
		func(ctx context.Context) error { return s.cancelOrder(ctx, ps[0].created.WithdrawalID) },
	)
	if err != nil {
		return err
	}
	return s.waitPaymentsEnd(ctx, ps, paid, failed)
}

// cancelOrder cancels an order as the operator.
func (s *cellRun) cancelOrder(ctx context.Context, orderID string) error {
	worker := s.tools.DispatchWorker(s.site.chain)
	return waitUntil(ctx, "the cancel is ordered", sceneMax, func(ctx context.Context) (bool, error) {
		return worker.CancelOrder(ctx, orderID, audit.Operator("trial"))
	})
}

// waitCancelSent waits until the providers have the cancel transaction of an order's slot.
func (s *cellRun) waitCancelSent(ctx context.Context, orderID string) error {
	return waitUntil(ctx, "the cancel is out", sceneMax, func(ctx context.Context) (bool, error) {
		var n int
		err := s.queryRow(
			ctx,
			`SELECT count(*) FROM dispatch_attempts WHERE order_id = $1 AND act = 'CANCEL' AND last_answer ~ 'accepted|already'`,
			[]any{orderID}, &n,
		)
		return n > 0, err
	})
}

// playMinedCancel cancels a payment in the mempool, and the cancel transaction is mined.
func playMinedCancel(ctx context.Context, s *cellRun) error {
	ps := s.newPayments()
	if err := s.leaveWaiting(ctx, ps); err != nil {
		return err
	}
	lead, err := s.findTxLead(ctx, ps[0])
	if err := errors.Join(err, s.cancelOrder(ctx, lead)); err != nil {
		return err
	}
	if err := s.waitCancelSent(ctx, lead); err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.releaseBroadcasts); err != nil {
		return err
	}
	return s.waitPaymentsEnd(ctx, ps, failed)
}

// playDeposit plays a deposit through the point.
func playDeposit(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(smallUnits)
	if err := s.createDepositAddress(ctx, d); err != nil {
		return err
	}
	if err := s.playThrough(
		ctx, s.point.sourceName(), func(ctx context.Context) error { return s.sendDeposit(ctx, d) },
	); err != nil {
		return err
	}
	if err := s.net.topUpFees(ctx, s.scenario); err != nil {
		return err
	}
	return s.waitCredited(ctx, d)
}

// playScreenedDeposit plays a deposit through the point whose sender is screened: it is above the
// thresholds that its organization has for that time.
func playScreenedDeposit(ctx context.Context, s *cellRun) error {
	if err := s.setThresholds(ctx, `"MEDIUM"`, `"0.01"`); err != nil {
		return err
	}
	return errors.Join(playDeposit(ctx, s), s.setThresholds(context.WithoutCancel(ctx), "null", "null"))
}

// setThresholds sets the thresholds as the operator does.
func (t *scenario) setThresholds(ctx context.Context, severity, usd string) error {
	return t.changeSettings(ctx, org.Changes{
		"screeningSeverityThreshold": json.RawMessage(severity), "screeningUsdThreshold": json.RawMessage(usd),
	})
}

// changeSettings changes settings of the organization as the operator does. The pool may have
// connections of a server that is gone, so it tries until it succeeds.
func (t *scenario) changeSettings(ctx context.Context, c org.Changes) error {
	return waitUntil(ctx, "the settings are changed", sceneMax, func(ctx context.Context) (bool, error) {
		err := t.tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := org.ChangeSettings(ctx, tx, audit.Operator("trial"), t.world.Info.OrganizationID, c)
			return err
		})
		return err == nil, err
	})
}

// waitCredited waits for the credit and compares the balance.
func (s *cellRun) waitCredited(ctx context.Context, d *deposit) error {
	if err := s.waitBooked(ctx, d); err != nil {
		return err
	}
	return s.checkBalance(ctx, d.customer, d.units)
}

// playRescan resets the walk to below a deposit while that is being credited.
func playRescan(ctx context.Context, s *cellRun) error {
	s.atPoint = func(ctx context.Context) error {
		var height uint64
		if err := s.queryRow(
			ctx, `SELECT height - 8 FROM scan_cursors WHERE chain = $1`, []any{s.site.chain}, &height,
		); err != nil {
			return err
		}
		return s.tools.Walker(s.site.chain).Rewind(ctx, height, audit.Operator("crash trial"))
	}
	return playScreenedDeposit(ctx, s)
}

// playTwoWalkers runs a second service: one walks, the other waits until the first dies.
func playTwoWalkers(ctx context.Context, s *cellRun) error {
	if err := s.startSecond(ctx); err != nil {
		return err
	}
	err := playDeposit(ctx, s)
	if err == nil {
		err = s.waitDrained(ctx, drainMax)
	}
	return errors.Join(err, s.endSecond())
}

// showDeposit makes a deposit in the newest block, waits until it is shown as not final, and
// returns its transaction's bytes.
func (s *cellRun) showDeposit(ctx context.Context, d *deposit) ([]byte, error) {
	if err := s.createDepositAddress(ctx, d); err != nil {
		return nil, err
	}
	s.holdBroadcasts()
	if err := s.sendDeposit(ctx, d); err != nil {
		return nil, err
	}
	if err := s.net.mineBlock(ctx); err != nil {
		return nil, err
	}
	if err := s.waitShown(ctx, d, "CONFIRMING"); err != nil {
		return nil, err
	}
	return s.net.rawTransaction(ctx, d.tx)
}

func (s *cellRun) waitShown(ctx context.Context, d *deposit, status string) error {
	return waitUntil(ctx, "the deposit is "+status, sceneMax, func(ctx context.Context) (bool, error) {
		var current string
		err := s.queryRow(
			ctx, `SELECT coalesce(string_agg(status, ','), '') FROM deposits WHERE customer_id = $1`, []any{d.customer},
			&current,
		)
		if err == nil && current != status {
			err = fmt.Errorf("it is %q", current)
		}
		return err == nil, err
	})
}

// playForkedDeposit plays a deposit that a fork removes and that is mined again.
func playForkedDeposit(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(smallUnits)
	raw, err := s.showDeposit(ctx, d)
	if err != nil {
		return err
	}
	s.afterFault = func(ctx context.Context) error {
		return errors.Join(s.net.resendTransaction(ctx, raw), s.releaseBroadcasts(ctx))
	}
	err = s.playThrough(ctx, s.point.name, func(ctx context.Context) error { return s.net.forkBlock(ctx) })
	if err != nil {
		return err
	}
	return s.waitCredited(ctx, d)
}

// playReincludedDeposit plays a deposit that is in another block, at another position, after a
// fork.
func playReincludedDeposit(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(smallUnits)
	raw, err := s.showDeposit(ctx, d)
	if err != nil {
		return err
	}
	if err := s.net.forkBlock(ctx); err != nil {
		return err
	}
	if err := s.waitShown(ctx, d, "ORPHANED"); err != nil {
		return err
	}
	s.afterFault = s.releaseBroadcasts
	err = s.playThrough(ctx, s.point.name, func(ctx context.Context) error {
		return s.net.forkBlock(ctx, raw)
	})
	if err != nil {
		return err
	}
	return s.waitCredited(ctx, d)
}

// playUndecodableBlock plays a block whose receipts are invalid for a while: the walk waits before
// it, also during the fault, and does not skip it.
func playUndecodableBlock(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(smallUnits)
	if err := s.createDepositAddress(ctx, d); err != nil {
		return err
	}
	s.provider.corruptBlocks(d.address)
	defer s.provider.corruptBlocks("")
	if err := s.sendDeposit(ctx, d); err != nil {
		return err
	}
	block, err := s.net.waitHeight(ctx, d.tx)
	if err != nil {
		return err
	}
	standing := func() error {
		return waitUntil(ctx, "the walk stands before the block", sceneMax, func(ctx context.Context) (bool, error) {
			head, lag, err := s.net.readHead(ctx)
			if err != nil {
				return false, err
			}
			var height uint64
			if err := s.queryRow(
				ctx, `SELECT height FROM scan_cursors WHERE chain = $1`, []any{s.site.chain}, &height,
			); err != nil {
				return false, err
			}
			if height >= block {
				return false, fmt.Errorf("it went over block %d to %d", block, height)
			}
			return head > block+2*lag && height == block-1, nil
		})
	}
	if err := standing(); err != nil {
		return err
	}
	if err := s.inflictOutside(ctx); err != nil {
		return err
	}
	if err := standing(); err != nil {
		return err
	}
	s.provider.corruptBlocks("")
	return s.waitCredited(ctx, d)
}

// playSweep plays a deposit that is worth a sweep, which needs gas first.
func playSweep(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(largeUnits)
	if err := s.createDepositAddress(ctx, d); err != nil {
		return err
	}
	if err := s.playThrough(
		ctx, s.point.name, func(ctx context.Context) error { return s.sendDeposit(ctx, d) },
	); err != nil {
		return err
	}
	if err := s.waitCredited(ctx, d); err != nil {
		return err
	}
	return s.waitSwept(ctx, d)
}

// waitSwept waits until the chain shows an empty deposit address.
func (t *scenario) waitSwept(ctx context.Context, d *deposit) error {
	return waitUntil(ctx, "the address is swept", drainMax, func(ctx context.Context) (bool, error) {
		left, err := t.net.readBalance(ctx, t.contractAddress(), d.address)
		if err == nil && left.Sign() != 0 {
			err = fmt.Errorf("it holds %s", left)
		}
		return err == nil, err
	})
}

// playSecondDeposit pays a second deposit to the same address while the sweep of the first is about
// to be signed.
func playSecondDeposit(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(largeUnits)
	if err := s.createDepositAddress(ctx, d); err != nil {
		return err
	}
	s.atPoint = func(ctx context.Context) error {
		if err := s.sendDeposit(ctx, d); err != nil {
			return err
		}
		d.creditedCount = 2
		return s.waitBooked(ctx, d)
	}
	if err := s.playThrough(
		ctx, s.point.name, func(ctx context.Context) error { return s.sendDeposit(ctx, d) },
	); err != nil {
		return err
	}
	if err := s.waitBooked(ctx, d); err != nil {
		return err
	}
	if err := s.checkBalance(ctx, d.customer, new(big.Int).Mul(d.units, big.NewInt(2))); err != nil {
		return err
	}
	return s.waitSwept(ctx, d)
}

// playDeletedEndpoint deletes an endpoint that has failed once: nothing more is sent to it.
func playDeletedEndpoint(ctx context.Context, s *cellRun) error {
	var hook struct{ EndpointID, Secret string }
	path := "/gone-" + s.name
	s.receiver.expectPath(path, "", true)
	status, err := s.callAPI(ctx, http.MethodPost, "/webhook-endpoints", map[string]any{
		"url": s.receiver.url + path, "events": []webhook.Type{webhook.CustomerWithdraw},
	}, &hook)
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("register a second webhook: %d %w", status, err)
	}
	s.receiver.expectPath(path, hook.Secret, true)
	p := s.newPayment()
	if err := s.startPayments(p)(ctx); err != nil {
		return err
	}
	err = waitUntil(
		ctx, "the second webhook was tried", reachMax,
		func(context.Context) (bool, error) { return s.receiver.countPosts(path) > 0, nil },
	)
	if err != nil {
		return err
	}
	if _, err := s.callAPI(ctx, http.MethodDelete, "/webhook-endpoints/"+hook.EndpointID, nil, nil); err != nil {
		return err
	}
	if err := s.inflictOutside(ctx); err != nil {
		return err
	}
	if err := s.waitPaymentEnd(ctx, p, paid); err != nil {
		return err
	}
	if n := s.receiver.countPosts(path); n != 1 {
		return fmt.Errorf("the deleted endpoint got %d posts, want the one before", n)
	}
	return nil
}

// playExpiredLease stops the service with a delivery that was answered and not recorded, for longer
// than its lease. The second service delivers again, with the same body, and the first one's record
// comes too late to count.
func playExpiredLease(ctx context.Context, s *cellRun) error {
	s.stopDuration = leaseAndMore
	p := s.newPayment()
	if err := s.playThrough(ctx, s.point.sourceName(), s.startPayments(p)); err != nil {
		return err
	}
	if err := s.waitPaymentEnd(ctx, p, paid); err != nil {
		return err
	}
	for _, eventID := range []webhook.Type{webhook.CustomerWithdraw} {
		var attempts int
		err := s.queryRow(ctx,
			`SELECT coalesce(max(attempts), 0) FROM deliveries d JOIN events e USING (event_id) WHERE e.resource_id = $1 AND e.type = $2`,
			[]any{p.created.WithdrawalID, string(eventID)}, &attempts)
		if err != nil {
			return err
		}
		if attempts != 1 {
			return fmt.Errorf("%d attempts were recorded, want the one of who held the lease last", attempts)
		}
	}
	return nil
}
