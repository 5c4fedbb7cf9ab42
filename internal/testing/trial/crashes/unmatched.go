package crashes

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"

	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// payShared pays what the option of a sale asks for to the address that checkouts share, without the key of the
// checkout, and returns the unmatched deposit.
func (s *cellRun) payShared(ctx context.Context, w *sale) (depositID string, err error) {
	// The service creates the account of the shared address for a token when the first option is opened.
	err = waitUntil(ctx, "the shared address takes the token", sceneMax, func(ctx context.Context) (bool, error) {
		err := s.openSale(ctx, w)
		return w.option.SharedAddress != nil, err
	})
	if err != nil {
		return "", err
	}
	units, err := parseUnits(w.option.Amount)
	if err != nil {
		return "", err
	}
	tx, err := s.net.payUnits(ctx, s.scenario, *w.option.SharedAddress, units)
	if err != nil {
		return "", err
	}
	w.units = units
	s.deposited.Add(s.deposited, units)
	err = waitUntil(ctx, "the payment is unmatched", sceneMax, func(ctx context.Context) (bool, error) {
		err := s.queryRow(ctx, `
			SELECT coalesce(max(u.deposit_id), '') FROM checkout_unmatched u JOIN deposits d USING (deposit_id)
			WHERE d.tx_hash = $1 AND u.assigned_to IS NULL`, []any{tx}, &depositID)
		return depositID != "", err
	})
	return depositID, err
}

// assignPayment gives an unmatched payment to the checkout of a sale until it is answered. The same checkout again
// changes nothing.
func (s *cellRun) assignPayment(ctx context.Context, w *sale, depositID string) error {
	status, err := s.callAPI(ctx, http.MethodPost, "/unmatched-payments/"+depositID+"/assign",
		map[string]any{"checkoutId": w.created.CheckoutID}, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("assign %s to checkout %s: got %d, want 200", depositID, w.created.CheckoutID, status)
	}
	return err
}

// playAssignedPayment plays a payment that names no checkout and that a person assigns, while the blocks that follow
// change its status. It completes the checkout, to which it belongs once.
func playAssignedPayment(ctx context.Context, s *cellRun) error {
	w, err := s.beginSale(ctx)
	if err != nil {
		return err
	}
	depositID, err := s.payShared(ctx, w)
	if err != nil {
		return err
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return s.assignPayment(ctx, w, depositID) })
		return nil
	})
	if err := errors.Join(err, s.waitAsync(ctx), s.assignPayment(ctx, w, depositID)); err != nil {
		return err
	}
	second := s.newSale()
	second.body["idempotencyKey"], second.body["reference"] = s.name+"-other", "other order "+s.name
	if err := s.requestSale(ctx, second); err != nil {
		return err
	}
	status, err := s.callAPI(ctx, http.MethodPost, "/unmatched-payments/"+depositID+"/assign",
		map[string]any{"checkoutId": second.created.CheckoutID}, nil)
	if err == nil && status != http.StatusConflict {
		err = fmt.Errorf("assign %s to another checkout: got %d, want 409", depositID, status)
	}
	if err := errors.Join(err, s.waitSale(ctx, second, "OPEN"), s.waitSaleEnd(ctx, w, paid)); err != nil {
		return err
	}
	var rows, entries int
	err = s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM checkout_unmatched WHERE deposit_id = $1 AND assigned_to = $2),
			(SELECT count(*) FROM audit_log WHERE action = 'checkout.payment_assigned' AND detail ->> 'deposit' = $1)`,
		[]any{depositID, w.created.CheckoutID}, &rows, &entries)
	if err == nil && (rows != 1 || entries != 1) {
		err = fmt.Errorf("payment %s has %d assignments and %d rows in the audit log, want one each", depositID, rows,
			entries)
	}
	return err
}

// playRejectedPart plays the rejection of a flagged payment of a checkout whose other payment was given back. The
// flagged one goes back to its sender, and nothing is given back twice.
func playRejectedPart(ctx context.Context, s *cellRun) error {
	r, err := s.beginRefund(ctx)
	if err != nil {
		return err
	}
	r.body["toAddress"] = r.recipient
	if err := errors.Join(s.requestRefund(ctx, r), s.waitAddressedRefund(ctx, r)); err != nil {
		return err
	}
	d, sender, err := s.newStrangerDeposit(ctx, smallUnits)
	if err != nil {
		return err
	}
	d.address = *r.sale.option.Address
	depositID, err := s.flagPart(ctx, d, r.sale)
	if err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.startDeciding(depositID, "reject")); err != nil {
		return err
	}
	if err := errors.Join(s.waitAsync(ctx), s.decideDeposit(ctx, depositID, "reject")); err != nil {
		return err
	}
	if err := s.waitDepositStatus(ctx, depositID, "REJECTED"); err != nil {
		return err
	}
	var hash string
	err = s.queryRow(ctx, `SELECT tx_hash FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'DONE'`,
		[]any{depositID}, &hash)
	if err != nil {
		return err
	}
	s.sentAway = append(s.sentAway, oracle.Claim{
		ID: depositID, Asset: s.assetID(), To: sender, Amount: d.units, Paid: true, Tx: hash,
	})
	return errors.Join(s.checkResolvedOnce(ctx, depositID), s.waitReturnedPart(ctx, r, depositID, d.units),
		s.checkShopBalance(ctx))
}

// waitAddressedRefund waits until a refund is paid to the address that its request gave.
func (s *cellRun) waitAddressedRefund(ctx context.Context, r *saleRefund) error {
	err := waitUntil(ctx, "the refund is paid", drainMax, func(ctx context.Context) (bool, error) {
		_, err := s.callAPI(ctx, http.MethodGet, "/refunds/"+r.created.RefundID, nil, &r.current)
		if err == nil && (r.current.Status != paid || r.current.TxHash == nil) {
			err = fmt.Errorf("it is %s", r.current.Status)
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	r.sale.refunded = r.sale.units
	s.sentAway = append(s.sentAway, oracle.Claim{
		ID: r.current.RefundID, Asset: s.assetID(), To: r.recipient, Amount: r.sale.units, Tx: *r.current.TxHash,
		Paid: true,
	})
	return nil
}

// flagPart pays a checkout while every sender is above the threshold, and waits until the payment is flagged.
func (s *cellRun) flagPart(ctx context.Context, d *deposit, w *sale) (depositID string, err error) {
	if err := s.setThresholds(ctx, `"NONE"`, `"0.01"`); err != nil {
		return "", err
	}
	err = s.sendDeposit(ctx, d)
	if err == nil {
		err = waitUntil(ctx, "the payment is flagged", sceneMax, func(ctx context.Context) (bool, error) {
			err := s.queryRow(ctx, `
				SELECT coalesce(max(p.deposit_id), '') FROM checkout_payments p
				WHERE p.checkout_id = $1 AND p.told_status = 'FLAGGED'`, []any{w.created.CheckoutID}, &depositID)
			return depositID != "", err
		})
	}
	return depositID, errors.Join(err, s.setThresholds(context.WithoutCancel(ctx), "null", "null"))
}

// waitReturnedPart waits until a completed checkout knows that a payment went back to its sender. What was refunded of
// the other one stays as it was.
func (s *cellRun) waitReturnedPart(ctx context.Context, r *saleRefund, depositID string, units *big.Int) error {
	return waitUntil(ctx, "the checkout knows of the return", drainMax, func(ctx context.Context) (bool, error) {
		var c webhook.Checkout
		if _, err := s.callAPI(ctx, http.MethodGet, "/checkouts/"+r.sale.created.CheckoutID, nil, &c); err != nil {
			return false, err
		}
		r.sale.current = c
		for _, p := range c.Payments {
			if p.DepositID == depositID && (p.Status != "RETURNED" || p.Amount != units.String()) {
				return false, fmt.Errorf("the payment is %s of %s, want RETURNED of %s", p.Status, p.Amount, units)
			}
		}
		var refunded, refunds int
		err := s.queryRow(ctx, `
			SELECT (SELECT count(*) FROM checkout_payments WHERE checkout_id = $1 AND refunding = 0
					AND refunded = CASE deposit_id WHEN $2 THEN 0 ELSE amount END),
				(SELECT count(*) FROM refunds WHERE checkout_id = $1)`,
			[]any{r.sale.created.CheckoutID, depositID}, &refunded, &refunds)
		if err == nil && (c.Status != paid || c.Exception != "REFUNDED" || len(c.Payments) != 2 || refunded != 2 ||
			refunds != 1) {
			err = fmt.Errorf("the checkout is %s with %s, %d payments and %d refunds", c.Status, c.Exception,
				len(c.Payments), refunds)
		}
		return err == nil, err
	})
}
