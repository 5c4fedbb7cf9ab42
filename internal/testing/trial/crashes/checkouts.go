package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"

	"github.com/cofferpay/coffer/webhook"
)

// sale is a checkout that is paid once, with what its option asks for.
type sale struct {
	body             map[string]any
	created, current webhook.Checkout
	option           webhook.PaymentOption
	units            *big.Int // that were paid; nil before
	refunded         *big.Int // what its payer got back; nil for nothing
	mayRepeat        bool     // a fork takes its payment away, so that it is PROCESSING twice
}

// salePrice is what a sale costs in dollars: more than the least deposit of each mint.
const salePrice = "25"

// isProcessing is the status of a checkout whose payments are not final.
const isProcessing = "PROCESSING"

// newSale returns a sale whose checkout is not requested yet.
func (s *cellRun) newSale() *sale {
	w := &sale{body: map[string]any{
		"name": "Gold plan", "price": salePrice, "acceptedMintIds": []int{s.mint.ID}, "reference": "order " + s.name,
		"metadata": map[string]string{"cell": s.name}, "idempotencyKey": s.name,
	}}
	s.sales = append(s.sales, w)
	return w
}

// requestSale requests the checkout until it is answered.
func (s *cellRun) requestSale(ctx context.Context, w *sale) error {
	status, err := s.callAPI(ctx, http.MethodPost, "/checkouts", w.body, &w.created)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("POST /checkouts: got %d, want 201", status)
	}
	return err
}

// openSale opens the option until it is answered. Its address never changes.
func (s *cellRun) openSale(ctx context.Context, w *sale) error {
	earlier := w.option
	status, err := s.callAPI(ctx, http.MethodPost, "/checkouts/"+w.created.CheckoutID+"/options",
		map[string]any{"mintId": s.mint.ID}, &w.option)
	if err == nil && (status != http.StatusOK || w.option.Address == nil || w.option.Amount == nil) {
		err = fmt.Errorf("open mint %d of checkout %s: got %d and %+v", s.mint.ID, w.created.CheckoutID, status,
			w.option)
	}
	if err == nil && earlier.Address != nil && *earlier.Address != *w.option.Address {
		err = fmt.Errorf("checkout %s had the address %s and then %s", w.created.CheckoutID, *earlier.Address,
			*w.option.Address)
	}
	return err
}

// paySale pays what the option asks for, and returns the transaction.
func (s *cellRun) paySale(ctx context.Context, w *sale) (tx string, err error) {
	units, err := parseUnits(w.option.Amount)
	if err != nil {
		return "", err
	}
	if tx, err = s.net.payUnits(ctx, s.scenario, *w.option.Address, units); err != nil {
		return "", err
	}
	w.units = units
	s.deposited.Add(s.deposited, units)
	return tx, nil
}

// beginSale makes a checkout with an open option.
func (s *cellRun) beginSale(ctx context.Context) (*sale, error) {
	w := s.newSale()
	if err := s.requestSale(ctx, w); err != nil {
		return w, err
	}
	return w, s.openSale(ctx, w)
}

// playSale plays a sale through the point: the request, the opening of its option, or the payment.
func playSale(ctx context.Context, s *cellRun) error {
	w := s.newSale()
	steps := []func(ctx context.Context) error{
		func(ctx context.Context) error { return s.requestSale(ctx, w) },
		func(ctx context.Context) error { return s.openSale(ctx, w) },
		func(ctx context.Context) error { _, err := s.paySale(ctx, w); return err },
	}
	played := 2
	switch {
	case s.point.name < "C02":
		played = 0
	case s.point.name < "C04":
		played = 1
	}
	for i, step := range steps {
		if i != played {
			if err := step(ctx); err != nil {
				return err
			}
			continue
		}
		err := s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
			s.startAsync(func() error { return step(ctx) })
			return nil
		})
		if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
			return err
		}
	}
	return s.waitSaleEnd(ctx, w, paid)
}

// playScreenedSale plays a sale whose payer is screened: the amount is above the thresholds that the organization has
// for that time.
func playScreenedSale(ctx context.Context, s *cellRun) error {
	if err := s.setThresholds(ctx, `"MEDIUM"`, `"0.01"`); err != nil {
		return err
	}
	return errors.Join(playSale(ctx, s), s.setThresholds(context.WithoutCancel(ctx), "null", "null"))
}

// waitPaymentSeen waits until the walk has written the payment of a checkout.
func (s *cellRun) waitPaymentSeen(ctx context.Context, w *sale) error {
	return waitUntil(ctx, "the payment is seen", sceneMax, func(ctx context.Context) (isSeen bool, err error) {
		err = s.queryRow(ctx, `SELECT EXISTS (SELECT FROM checkout_payments WHERE checkout_id = $1)`,
			[]any{w.created.CheckoutID}, &isSeen)
		return isSeen, err
	})
}

// endTime moves a checkout into the past, so that its time was over longer ago than its chain is walked.
func (s *cellRun) endTime(ctx context.Context, w *sale) error {
	quoted := "'" + w.created.CheckoutID + "'"
	return s.queryRow(ctx, `
		BEGIN;
		SET LOCAL session_replication_role = replica;
		UPDATE checkout_options SET opened_at = opened_at - interval '1 hour' WHERE checkout_id = `+quoted+`;
		UPDATE checkout_quotes SET valid_from = valid_from - interval '1 hour',
			priced_at = priced_at - interval '1 hour',
			expires_at = now() - interval '2 minutes' WHERE checkout_id = `+quoted+`;
		UPDATE checkouts SET created_at = created_at - interval '1 hour', expires_at = now() - interval '2 minutes'
			WHERE checkout_id = `+quoted+`;
		COMMIT`, nil)
}

// playExpiredSale plays a checkout that expires in its transaction while a payment arrives. The payment is late, and
// the terms accept it.
func playExpiredSale(ctx context.Context, s *cellRun) error {
	w, err := s.beginSale(ctx)
	if err != nil {
		return err
	}
	s.atPoint = func(ctx context.Context) error {
		_, err := s.paySale(ctx, w)
		return errors.Join(err, s.waitPaymentSeen(ctx, w))
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error { return s.endTime(ctx, w) })
	if err != nil {
		return err
	}
	return s.waitSaleEnd(ctx, w, paid)
}

// cancelSale cancels a checkout until it is answered. 409 says that a payment was seen first.
func (s *cellRun) cancelSale(ctx context.Context, w *sale) error {
	status, err := s.callAPI(ctx, http.MethodPost, "/checkouts/"+w.created.CheckoutID+"/cancel", nil, nil)
	if err == nil && status != http.StatusOK && status != http.StatusConflict {
		err = fmt.Errorf("cancel checkout %s: got %d, want 200 or 409", w.created.CheckoutID, status)
	}
	return err
}

// playCancelledSale plays a cancellation while a payment arrives. The payment is credited. It completes the checkout
// only if its block is older than the cancellation.
func playCancelledSale(ctx context.Context, s *cellRun) error {
	w, err := s.beginSale(ctx)
	if err != nil {
		return err
	}
	s.atPoint = func(ctx context.Context) error {
		_, err := s.paySale(ctx, w)
		return errors.Join(err, s.waitPaymentSeen(ctx, w))
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return s.cancelSale(ctx, w) })
		return nil
	})
	if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
		return err
	}
	return s.waitSaleEnd(ctx, w, paid, recalled)
}

// playForkedSale plays a checkout whose payment a fork removes while it is PROCESSING, and that is mined again.
func playForkedSale(ctx context.Context, s *cellRun) error {
	w, err := s.beginSale(ctx)
	if err != nil {
		return err
	}
	w.mayRepeat = true
	s.holdBroadcasts()
	tx, err := s.paySale(ctx, w)
	if err != nil {
		return err
	}
	if err := s.net.mineBlock(ctx); err != nil {
		return err
	}
	if err := s.waitSale(ctx, w, isProcessing); err != nil {
		return err
	}
	raw, err := s.net.rawTransaction(ctx, tx)
	if err != nil {
		return err
	}
	s.afterFault = func(ctx context.Context) error {
		return errors.Join(s.net.resendTransaction(ctx, raw), s.releaseBroadcasts(ctx))
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error { return s.net.forkBlock(ctx) })
	if err != nil {
		return err
	}
	return s.waitSaleEnd(ctx, w, paid)
}

// waitSale waits until a checkout has one of some statuses.
func (s *cellRun) waitSale(ctx context.Context, w *sale, statuses ...string) error {
	condition := fmt.Sprintf("the checkout is %v", statuses)
	return waitUntil(ctx, condition, drainMax, func(ctx context.Context) (bool, error) {
		if _, err := s.callAPI(ctx, http.MethodGet, "/checkouts/"+w.created.CheckoutID, nil, &w.current); err != nil {
			return false, err
		}
		if !slices.Contains(statuses, w.current.Status) {
			text, err := json.Marshal(w.current)
			return false, errors.Join(err, fmt.Errorf("it is %s", text))
		}
		return true, nil
	})
}

// waitSaleEnd waits until a checkout is paid and ended. A request with the same key returns the same checkout, with the
// same address, and there is one payment, which is credited.
func (s *cellRun) waitSaleEnd(ctx context.Context, w *sale, statuses ...string) error {
	if err := s.waitSale(ctx, w, statuses...); err != nil {
		return err
	}
	err := waitUntil(ctx, "the payment is credited", drainMax, func(ctx context.Context) (bool, error) {
		if err := s.waitSale(ctx, w, statuses...); err != nil {
			return false, err
		}
		return len(w.current.Payments) == 1 && w.current.Payments[0].Status == "CREDITED", nil
	})
	if err != nil {
		return err
	}
	first := w.created
	if err := s.requestSale(ctx, w); err != nil {
		return err
	}
	i := slices.IndexFunc(w.created.PaymentOptions, func(o webhook.PaymentOption) bool { return o.MintID == s.mint.ID })
	if w.created.CheckoutID != first.CheckoutID || i < 0 || w.created.PaymentOptions[i].Address == nil ||
		*w.created.PaymentOptions[i].Address != *w.option.Address {
		return fmt.Errorf("the same key got %s with %v and then %s with %+v", first.CheckoutID, *w.option.Address,
			w.created.CheckoutID, w.created.PaymentOptions)
	}
	var rows, wallets, payments int
	err = s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM checkouts WHERE idempotency_key = $1),
			(SELECT count(*) FROM wallets WHERE purpose = 'CHECKOUT' AND subject = $2),
			(SELECT count(*) FROM checkout_payments p JOIN deposits d USING (deposit_id)
				WHERE p.checkout_id = $2 AND d.status = 'CREDITED' AND d.amount = $3::numeric)`,
		[]any{s.name, first.CheckoutID, w.units.String()}, &rows, &wallets, &payments)
	if err == nil && (rows != 1 || wallets != 1 || payments != 1) {
		err = fmt.Errorf("the key has %d checkouts, %d wallets and %d credited payments of %s, want one each", rows,
			wallets, payments, w.units)
	}
	return errors.Join(err, s.checkShopBalance(ctx))
}

// checkShopBalance compares what the product CHECKOUT has with the payments of all sales, less what was refunded.
func (s *cellRun) checkShopBalance(ctx context.Context) error {
	want := new(big.Int)
	for _, w := range s.sales {
		want.Add(want, w.left())
	}
	return waitUntil(ctx, "the product has what was paid", drainMax, func(ctx context.Context) (bool, error) {
		var balance string
		err := s.queryRow(ctx, `
			SELECT coalesce(sum(b.balance), 0)::text FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
			WHERE a.kind = 'PRODUCT' AND a.subject = 'CHECKOUT' AND a.mint_id = $1`, []any{s.mint.ID}, &balance)
		if err == nil && balance != want.String() {
			err = fmt.Errorf("the product CHECKOUT has %s, and %s was paid for its checkouts", balance, want)
		}
		return err == nil, err
	})
}

// maySayAgain reports whether a checkout may have an event of a type several times: another exception, and PROCESSING
// after a fork.
func (s *cellRun) maySayAgain(t webhook.Type, checkoutID string) bool {
	return t == webhook.CheckoutException || t == webhook.CheckoutProcessing &&
		slices.ContainsFunc(s.sales, func(w *sale) bool { return w.mayRepeat && w.created.CheckoutID == checkoutID })
}

// checkSaleEvents compares the events of checkouts with their ends.
func (s *cellRun) checkSaleEvents(ctx context.Context, eventIDs map[string]string) error {
	var errs []error
	for _, w := range s.sales {
		isCompleted := eventIDs[string(webhook.CheckoutCompleted)+" of "+w.created.CheckoutID] != ""
		if isCompleted != (w.current.Status == paid) {
			// A payment that was credited a moment ago may have completed a cancelled checkout since it was read.
			path := "/checkouts/" + w.created.CheckoutID
			if _, err := s.callAPI(ctx, http.MethodGet, path, nil, &w.current); err != nil {
				errs = append(errs, err)
			}
		}
		if isCompleted != (w.current.Status == paid) {
			errs = append(errs, fmt.Errorf("%s is %s, and the event of its completion exists: %v", w.created.CheckoutID,
				w.current.Status, isCompleted))
		}
	}
	return errors.Join(errs...)
}
