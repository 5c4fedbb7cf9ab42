package crashes

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/remote"
)

// payWithoutSlot requests a payment while the providers are unreachable, and waits until its order
// waits for them. The order has a grant and no slot, so people can cancel the payment.
func (s *cellRun) payWithoutSlot(ctx context.Context) (*payment, error) {
	s.provider.setDown(true)
	p := s.newPayment()
	if err := errors.Join(s.startPayments(p)(ctx), s.waitAsync(ctx)); err != nil {
		return p, err
	}
	return p, s.waitWithoutSlot(ctx, p.created.WithdrawalID)
}

// waitWithoutSlot waits until dispatch has recorded the wait reason of an order.
func (s *cellRun) waitWithoutSlot(ctx context.Context, orderID string) error {
	return waitUntil(ctx, "the order waits without a slot", sceneMax, func(ctx context.Context) (bool, error) {
		var status, lacks string
		err := s.queryRow(
			ctx, `SELECT status, coalesce(waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, []any{orderID},
			&status, &lacks,
		)
		if err == nil && (status != "QUEUED" || lacks == "") {
			err = fmt.Errorf("it is %s and waits for %q", status, lacks)
		}
		return err == nil, err
	})
}

// playRecall plays a payment that its organization cancels through the point. The providers answer
// again after the fault, so a payment without a void would go out.
func playRecall(ctx context.Context, s *cellRun) error {
	defer s.provider.setDown(false)
	s.afterFault = func(context.Context) error { s.provider.setDown(false); return nil }
	p, err := s.payWithoutSlot(ctx)
	if err != nil {
		return err
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return s.recallPayment(ctx, p) })
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(s.waitPaymentEnd(ctx, p, recalled), s.checkVoided(ctx, p))
}

// recallPayment cancels a payment through the API until it is answered. A repetition of a completed
// cancel is answered 409.
func (s *cellRun) recallPayment(ctx context.Context, p *payment) error {
	status, err := s.callAPI(
		ctx, http.MethodPost, "/withdrawals/"+p.created.WithdrawalID+"/cancel", map[string]any{}, nil,
	)
	if err == nil && status != http.StatusOK && status != http.StatusConflict {
		err = fmt.Errorf("POST /withdrawals/%s/cancel: got %d, want 200 or 409", p.created.WithdrawalID, status)
	}
	return err
}

// playOperatorEnd plays a payment that the operator ends with a command. The command dies or loses
// its connection, and the service voids the payment.
func playOperatorEnd(ctx context.Context, s *cellRun) error {
	defer s.provider.setDown(false)
	p, err := s.payWithoutSlot(ctx)
	if err != nil {
		return err
	}
	if err := s.endByCommand(ctx, p.created.WithdrawalID); err != nil {
		return err
	}
	s.provider.setDown(false)
	return errors.Join(s.waitPaymentEnd(ctx, p, removed), s.checkVoided(ctx, p))
}

// endByCommand ends an order without a slot with the operator's command, through the point, and
// repeats it until the order has ended.
func (s *cellRun) endByCommand(ctx context.Context, orderID string) error {
	end := func() (*process, error) { return s.startCommand("dispatch", "cancel", orderID) }
	if err := s.playThroughCommand(ctx, end); err != nil {
		return err
	}
	return waitUntil(ctx, "the order is ended", sceneMax, func(ctx context.Context) (bool, error) {
		var status string
		err := s.queryRow(ctx, `SELECT status FROM dispatch_orders WHERE order_id = $1`, []any{orderID}, &status)
		if err != nil || status == "WITHDRAWN" {
			return err == nil, err
		}
		repeated, err := end()
		if err != nil {
			return false, err
		}
		<-repeated.exited
		return false, repeated.err()
	})
}

// playOperatorReturnEnd plays a return that the operator ends with a command, which dies or loses
// its connection. The deposit is in the queue again, and the next decision returns it, once.
func playOperatorReturnEnd(ctx context.Context, s *cellRun) error {
	defer s.provider.setDown(false)
	d, sender, err := s.newStrangerDeposit(ctx, smallUnits)
	if err != nil {
		return err
	}
	depositID, err := s.flagDeposit(ctx, d)
	if err := errors.Join(err, s.waitDrained(ctx, drainMax)); err != nil {
		return err
	}
	s.provider.setDown(true)
	if err := s.decideDeposit(ctx, depositID, "reject"); err != nil {
		return err
	}
	var orderID string
	err = s.queryRow(
		ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'OPEN'`,
		[]any{depositID}, &orderID,
	)
	if err := errors.Join(err, s.waitWithoutSlot(ctx, orderID)); err != nil {
		return err
	}
	if err := s.endByCommand(ctx, orderID); err != nil {
		return err
	}
	s.provider.setDown(false)
	if err := errors.Join(
		s.waitDepositStatus(ctx, depositID, "FLAGGED"), s.decideDeposit(ctx, depositID, "reject"),
	); err != nil {
		return err
	}
	return errors.Join(
		s.waitSentAway(ctx, d, depositID, "REJECTED", sender, new(big.Int)), s.checkSignerRefuses(ctx, orderID),
	)
}

// checkVoided checks the end of a cancelled payment: one decision ended it, its hold is released
// once, and nothing of it is paid afterwards.
func (s *cellRun) checkVoided(ctx context.Context, p *payment) error {
	var held, released, slots int
	err := s.queryRow(ctx, `
		SELECT count(*) FILTER (WHERE cause_kind = 'WITHDRAWAL_HOLD'), count(*) FILTER (WHERE cause_kind = 'WITHDRAWAL_END'),
			(SELECT count(*) FROM dispatch_slots WHERE order_id = $1)
		FROM ledger_transfers WHERE cause_id = $1`, []any{p.created.WithdrawalID}, &held, &released, &slots)
	if err == nil && (held != 1 || released != 1 || slots != 0) {
		err = fmt.Errorf(
			"%s has %d holds, %d releases and %d slots, want one, one and none", p.created.WithdrawalID, held, released,
			slots,
		)
	}
	if err := errors.Join(
		err, s.checkDecidedOnce(ctx, p), s.checkSignerRefuses(ctx, p.created.WithdrawalID),
	); err != nil {
		return err
	}
	// A later payment is paid, so dispatch has walked its queue since.
	nextPayment := s.addPayment(s.name + "-next")
	if err := s.startPayments(nextPayment)(ctx); err != nil {
		return err
	}
	return s.waitPaymentEnd(ctx, nextPayment, paid)
}

// checkSignerRefuses checks that the signer has voided an order with one entry of its journal, and
// refuses to admit the order's grant.
func (s *cellRun) checkSignerRefuses(ctx context.Context, orderID string) error {
	i := signer.Intent{ID: orderID}
	var status string
	var entries int
	err := s.queryRow(ctx, `
		SELECT o.status, (SELECT count(*) FROM signer_journal WHERE convert_from(body, 'UTF8')::jsonb -> 'void' ->> 'id' = o.order_id),
			o.purpose, o.chain, w.org_id, w.family, w.purpose, w.subject, w.form, coalesce(o.customer_id, ''), o.to_address, o.contract, o.amount, o.mint_id, o.key_hash, o.fee_deducted, o.authority
		FROM dispatch_orders o JOIN wallets w USING (wallet_id)
		WHERE o.order_id = $1 AND EXISTS (SELECT FROM dispatch_voids v WHERE v.order_id = o.order_id AND v.journal_seq IS NOT NULL)`,
		[]any{orderID},
		&status, &entries, &i.Purpose, &i.Chain, &i.From.OrgID, &i.From.Family, &i.From.Purpose, &i.From.Subject,
		&i.From.Form,
		&i.CustomerID, &i.To, &i.Contract, &i.Amount, &i.MintID, &i.IdempotencyKeyHash, &i.FeeDeducted, &i.Grant)
	if err != nil {
		return fmt.Errorf("the void of %s: %w", orderID, err)
	}
	if status != "WITHDRAWN" || entries != 1 {
		return fmt.Errorf(
			"%s is %s and the journal voids it %d times, want WITHDRAWN and once", orderID, status, entries,
		)
	}
	_, err = remote.DialSocket(s.socket).AdmitIntent(ctx, i)
	var refusal *signer.Refusal
	if !errors.As(err, &refusal) || refusal.Code != signer.RefusedVoid {
		return fmt.Errorf(
			"the signer is asked for %s, which is void: got %w, want %s", orderID, orClean(err), signer.RefusedVoid,
		)
	}
	return nil
}
