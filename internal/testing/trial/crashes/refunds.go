package crashes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"

	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// claimKeyHeader has the claim key of a refund in the requests of scripts.
const claimKeyHeader = "Coffer-Claim-Key"

// saleRefund is a refund of all that a sale was paid, which its payer claims.
type saleRefund struct {
	sale             *sale
	body             map[string]any
	created, current webhook.Refund
	claimURL         string // of its present key; "" before there is one
	recipient        string
}

// newRefund returns a refund of a paid sale that is not requested yet.
func (s *cellRun) newRefund(w *sale) *saleRefund {
	r := &saleRefund{
		sale: w, recipient: s.net.unusedAddress([]byte(s.dir + s.name + " refund")),
		body: map[string]any{
			"amount": "FULL", "mintId": s.mint.ID, "idempotencyKey": s.name + "-refund",
			"reason": "The parcel came back.",
		},
	}
	s.refunds = append(s.refunds, r)
	return r
}

// requestRefund requests a refund until it is answered. The first answer alone has its link.
func (s *cellRun) requestRefund(ctx context.Context, r *saleRefund) error {
	earlier := r.created.RefundID
	path := "/checkouts/" + r.sale.created.CheckoutID + "/refunds"
	status, err := s.callAPI(ctx, http.MethodPost, path, r.body, &r.created)
	switch {
	case err != nil:
		return err
	case status != http.StatusCreated && status != http.StatusOK:
		return fmt.Errorf("refund checkout %s: got %d, want 201", r.sale.created.CheckoutID, status)
	case earlier != "" && r.created.RefundID != earlier:
		return fmt.Errorf("the same key got the refunds %s and then %s", earlier, r.created.RefundID)
	case r.created.ClaimURL != nil:
		r.claimURL = *r.created.ClaimURL
	}
	return nil
}

// ensureClaimLink issues a link for a refund whose first answer was lost.
func (s *cellRun) ensureClaimLink(ctx context.Context, r *saleRefund) error {
	if r.claimURL != "" {
		return nil
	}
	var replaced webhook.Refund
	status, err := s.callAPI(ctx, http.MethodPost, "/refunds/"+r.created.RefundID+"/claim-key", nil, &replaced)
	if err == nil && (status != http.StatusOK || replaced.ClaimURL == nil) {
		err = fmt.Errorf("new claim key of %s: got %d and %+v", r.created.RefundID, status, replaced)
	}
	if err != nil {
		return err
	}
	r.claimURL = *replaced.ClaimURL
	return nil
}

// claimRefund claims a refund on its page until it is answered, as its script does. The same address again changes
// nothing.
func (s *cellRun) claimRefund(ctx context.Context, r *saleRefund) error {
	page, err := url.Parse(r.claimURL)
	if err != nil {
		return err
	}
	key := strings.TrimPrefix(page.Fragment, "k=")
	page.Fragment, page.Path = "", page.Path+"/claim"
	var status int
	err = waitUntil(ctx, "the claim is answered", answerMax, func(ctx context.Context) (bool, error) {
		form := strings.NewReader(url.Values{"address": {r.recipient}}.Encode())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, page.String(), form)
		if err != nil {
			return false, err
		}
		req.Header.Set("content-type", "application/x-www-form-urlencoded")
		req.Header.Set(claimKeyHeader, key)
		resp, err := impatient.Do(req)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return false, err
		}
		if status = resp.StatusCode; status >= 500 || status == http.StatusTooManyRequests {
			return false, fmt.Errorf("status %d", status)
		}
		return true, nil
	})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("claim refund %s: got %d, want 200", r.created.RefundID, status)
	}
	return err
}

// beginRefund makes a sale that is paid, and returns a refund of it that is not requested yet.
func (s *cellRun) beginRefund(ctx context.Context) (*saleRefund, error) {
	w, err := s.beginSale(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.paySale(ctx, w); err != nil {
		return nil, err
	}
	if err := s.waitSaleEnd(ctx, w, paid); err != nil {
		return nil, err
	}
	return s.newRefund(w), nil
}

// playRefund plays a refund through the point: its request, its claim, or the end of its payment.
func playRefund(ctx context.Context, s *cellRun) error {
	r, err := s.beginRefund(ctx)
	if err != nil {
		return err
	}
	request := func(ctx context.Context) error { return s.requestRefund(ctx, r) }
	claim := func(ctx context.Context) error {
		return errors.Join(s.ensureClaimLink(ctx, r), s.claimRefund(ctx, r))
	}
	played := claim
	if s.point.name == "C11" {
		played = request
	} else if err := errors.Join(request(ctx), s.ensureClaimLink(ctx, r)); err != nil {
		return err
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return played(ctx) })
		return nil
	})
	if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
		return err
	}
	if s.point.name == "C11" {
		if err := claim(ctx); err != nil {
			return err
		}
	}
	return s.waitRefundEnd(ctx, r)
}

// playClaimedRefund plays a claim that is committed while a worker is about to end the refund, whose time is over then.
func playClaimedRefund(ctx context.Context, s *cellRun) error {
	r, err := s.beginRefund(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(s.requestRefund(ctx, r), s.ensureClaimLink(ctx, r)); err != nil {
		return err
	}
	quoted := "'" + r.created.RefundID + "'"
	s.atPoint = func(ctx context.Context) error {
		if err := s.claimRefund(ctx, r); err != nil {
			return err
		}
		return s.queryRow(ctx, `
			BEGIN;
			SET LOCAL session_replication_role = replica;
			UPDATE refunds SET expires_at = now() - interval '1 minute' WHERE refund_id = `+quoted+`;
			COMMIT`, nil)
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		return s.queryRow(ctx, `UPDATE refunds SET look_at = now() WHERE refund_id = `+quoted, nil)
	})
	if err != nil {
		return err
	}
	return s.waitRefundEnd(ctx, r)
}

// waitRefundEnd waits until a refund is paid. Its request, again, returns the same refund, its claim, again, changes
// nothing, and there is one withdrawal, to the claimed address.
func (s *cellRun) waitRefundEnd(ctx context.Context, r *saleRefund) error {
	err := waitUntil(ctx, "the refund is paid", drainMax, func(ctx context.Context) (bool, error) {
		if _, err := s.callAPI(ctx, http.MethodGet, "/refunds/"+r.created.RefundID, nil, &r.current); err != nil {
			return false, err
		}
		if r.current.Status != paid {
			return false, fmt.Errorf("it is %s", r.current.Status)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(s.requestRefund(ctx, r), s.claimRefund(ctx, r)); err != nil {
		return err
	}
	if r.current.TxHash == nil || r.current.ToAddress == nil || *r.current.ToAddress != r.recipient ||
		r.current.Amount != r.sale.units.String() {
		return fmt.Errorf("the paid refund is %+v, want %s to %s", r.current, r.sale.units, r.recipient)
	}
	r.sale.refunded = r.sale.units
	s.sentAway = append(s.sentAway, oracle.Claim{
		ID: r.current.RefundID, Asset: s.assetID(), To: r.recipient, Amount: r.sale.units, Tx: *r.current.TxHash,
		Paid: true,
	})
	var refunds, withdrawals, parts int
	err = s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM refunds WHERE checkout_id = $1),
			(SELECT count(*) FROM withdrawals WHERE refund_id = $2 AND status = 'COMPLETED'),
			(SELECT count(*) FROM checkout_payments WHERE checkout_id = $1 AND refunding = 0 AND refunded = amount)`,
		[]any{r.sale.created.CheckoutID, r.created.RefundID}, &refunds, &withdrawals, &parts)
	if err == nil && (refunds != 1 || withdrawals != 1 || parts != 1) {
		err = fmt.Errorf(
			"the checkout has %d refunds, %d withdrawals that paid and %d payments given back, want one each", refunds,
			withdrawals, parts)
	}
	return errors.Join(err, s.checkShopBalance(ctx))
}

// checkRefundEvents compares the events of refunds with their ends.
func (s *cellRun) checkRefundEvents(eventIDs map[string]string) error {
	var errs []error
	for _, r := range s.refunds {
		name := string(webhook.CheckoutRefunded) + " of " + r.sale.created.CheckoutID
		if isTold := eventIDs[name] != ""; isTold != (r.current.Status == paid) {
			errs = append(errs, fmt.Errorf("refund %s is %s, and its event exists: %v", r.created.RefundID,
				r.current.Status, isTold))
		}
	}
	return errors.Join(errs...)
}

// left returns what of a sale the product has.
func (w *sale) left() *big.Int {
	left := new(big.Int)
	if w.units != nil {
		left.Set(w.units)
	}
	if w.refunded != nil {
		left.Sub(left, w.refunded)
	}
	return left
}
