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

// payWithoutSlot asks for a payment while the providers are away, and waits until its order
// waits for them. The order has a grant and no slot, so people can take the payment back.
func (s *stage) payWithoutSlot(ctx context.Context) (*payment, error) {
	s.provider.away(true)
	p := s.newPayment()
	if err := errors.Join(s.pay(p)(ctx), s.returned(ctx)); err != nil {
		return p, err
	}
	return p, s.lacksSlot(ctx, p.made.WithdrawalID)
}

// lacksSlot waits until dispatch has written down what an order waits for.
func (s *stage) lacksSlot(ctx context.Context, orderID string) error {
	return until(ctx, "the order waits without a slot", sceneMax, func(ctx context.Context) (bool, error) {
		var status, lacks string
		err := s.query(ctx, `SELECT status, coalesce(waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, []any{orderID}, &status, &lacks)
		if err == nil && (status != "QUEUED" || lacks == "") {
			err = fmt.Errorf("it is %s and waits for %q", status, lacks)
		}
		return err == nil, err
	})
}

// takenBack is a payment that its organization takes back through the point. The providers
// answer again once the fault has happened, so a payment that was not void would go out.
func takenBack(ctx context.Context, s *stage) error {
	defer s.provider.away(false)
	s.meanwhile = func(context.Context) error { s.provider.away(false); return nil }
	p, err := s.payWithoutSlot(ctx)
	if err != nil {
		return err
	}
	err = s.through(ctx, s.point.place(), func(ctx context.Context) error {
		s.together(func() error { return s.takeBack(ctx, p) })
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(s.completed(ctx, p, recalled), s.voided(ctx, p))
}

// takeBack cancels a payment through the API until it is answered. A repetition of a cancel
// that is done is answered 409.
func (s *stage) takeBack(ctx context.Context, p *payment) error {
	status, err := s.call(ctx, http.MethodPost, "/withdrawals/"+p.made.WithdrawalID+"/cancel", map[string]any{}, nil)
	if err == nil && status != http.StatusOK && status != http.StatusConflict {
		err = fmt.Errorf("POST /withdrawals/%s/cancel: got %d, want 200 or 409", p.made.WithdrawalID, status)
	}
	return err
}

// operatorEnds is a payment that the operator ends with a command, which dies or is cut off.
// The service has it voided.
func operatorEnds(ctx context.Context, s *stage) error {
	defer s.provider.away(false)
	p, err := s.payWithoutSlot(ctx)
	if err != nil {
		return err
	}
	if err := s.endByCommand(ctx, p.made.WithdrawalID); err != nil {
		return err
	}
	s.provider.away(false)
	return errors.Join(s.completed(ctx, p, removed), s.voided(ctx, p))
}

// endByCommand has the operator end an order that has no slot, through the point, and again
// until it is ended.
func (s *stage) endByCommand(ctx context.Context, orderID string) error {
	end := func() (*process, error) { return s.command("dispatch", "cancel", orderID) }
	if err := s.commanded(ctx, end); err != nil {
		return err
	}
	return until(ctx, "the order is ended", sceneMax, func(ctx context.Context) (bool, error) {
		var status string
		err := s.query(ctx, `SELECT status FROM dispatch_orders WHERE order_id = $1`, []any{orderID}, &status)
		if err != nil || status == "WITHDRAWN" {
			return err == nil, err
		}
		again, err := end()
		if err != nil {
			return false, err
		}
		<-again.done
		return false, again.err()
	})
}

// operatorEndsReturn is a return that the operator ends with a command, which dies or is cut
// off. The deposit is in the queue again, and is sent back with the next decision, once.
func operatorEndsReturn(ctx context.Context, s *stage) error {
	defer s.provider.away(false)
	d, sender, err := s.ofStranger(ctx, smallUnits)
	if err != nil {
		return err
	}
	depositID, err := s.flagged(ctx, d)
	if err := errors.Join(err, s.drained(ctx, drainMax)); err != nil {
		return err
	}
	s.provider.away(true)
	if err := s.decide(ctx, depositID, "reject"); err != nil {
		return err
	}
	var orderID string
	err = s.query(ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'OPEN'`, []any{depositID}, &orderID)
	if err := errors.Join(err, s.lacksSlot(ctx, orderID)); err != nil {
		return err
	}
	if err := s.endByCommand(ctx, orderID); err != nil {
		return err
	}
	s.provider.away(false)
	if err := errors.Join(s.becomes(ctx, depositID, "FLAGGED"), s.decide(ctx, depositID, "reject")); err != nil {
		return err
	}
	return errors.Join(s.away(ctx, d, depositID, "REJECTED", sender, new(big.Int)), s.refusedBySigner(ctx, orderID))
}

// voided checks the end of a payment that was taken back: it was decided about once, its
// hold is released once, and nothing of it is paid afterwards.
func (s *stage) voided(ctx context.Context, p *payment) error {
	var held, released, slots int
	err := s.query(ctx, `
		SELECT count(*) FILTER (WHERE cause_kind = 'WITHDRAWAL_HOLD'), count(*) FILTER (WHERE cause_kind = 'WITHDRAWAL_END'),
			(SELECT count(*) FROM dispatch_slots WHERE order_id = $1)
		FROM ledger_transfers WHERE cause_id = $1`, []any{p.made.WithdrawalID}, &held, &released, &slots)
	if err == nil && (held != 1 || released != 1 || slots != 0) {
		err = fmt.Errorf("%s has %d holds, %d releases and %d slots, want one, one and none", p.made.WithdrawalID, held, released, slots)
	}
	if err := errors.Join(err, s.decidedOnce(ctx, p), s.refusedBySigner(ctx, p.made.WithdrawalID)); err != nil {
		return err
	}
	// A payment that is asked for later is paid, so dispatch has been through its queue since.
	next := s.payment(s.name + "-next")
	if err := s.pay(next)(ctx); err != nil {
		return err
	}
	return s.completed(ctx, next, paid)
}

// refusedBySigner checks that the signer has voided an order with one entry of its journal,
// and refuses to admit it with the grant that it had.
func (s *stage) refusedBySigner(ctx context.Context, orderID string) error {
	i := signer.Intent{ID: orderID}
	var status string
	var entries int
	err := s.query(ctx, `
		SELECT o.status, (SELECT count(*) FROM signer_journal WHERE convert_from(body, 'UTF8')::jsonb -> 'void' ->> 'id' = o.order_id),
			o.purpose, o.chain, w.org_id, w.family, w.purpose, w.subject, w.form, coalesce(o.customer_id, ''), o.to_address, o.contract, o.amount, o.mint_id, o.key_hash, o.fee_deducted, o.authority
		FROM dispatch_orders o JOIN wallets w USING (wallet_id)
		WHERE o.order_id = $1 AND EXISTS (SELECT FROM dispatch_voids v WHERE v.order_id = o.order_id AND v.journal_seq IS NOT NULL)`, []any{orderID},
		&status, &entries, &i.Purpose, &i.Chain, &i.From.OrgID, &i.From.Family, &i.From.Purpose, &i.From.Subject, &i.From.Form,
		&i.CustomerID, &i.To, &i.Contract, &i.Amount, &i.MintID, &i.IdempotencyKeyHash, &i.FeeDeducted, &i.Grant)
	if err != nil {
		return fmt.Errorf("the void of %s: %w", orderID, err)
	}
	if status != "WITHDRAWN" || entries != 1 {
		return fmt.Errorf("%s is %s and the journal voids it %d times, want WITHDRAWN and once", orderID, status, entries)
	}
	_, err = remote.Dial(s.socket).Admit(ctx, i)
	var no *signer.Refusal
	if !errors.As(err, &no) || no.Code != signer.RefusedVoid {
		return fmt.Errorf("the signer is asked for %s, which is void: got %w, want %s", orderID, orClean(err), signer.RefusedVoid)
	}
	return nil
}
