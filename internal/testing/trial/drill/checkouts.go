package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/cofferpay/coffer/webhook"
)

// sale is a checkout of the drill, which is paid once with what its option asks for.
type sale struct {
	key     string
	id      string
	address string
	units   *big.Int
	payment *deposit // nil before
}

// saleRefund is a refund of all that a sale was paid. Its recipient receives nothing else.
type saleRefund struct {
	sale      *sale
	recipient string
	current   webhook.Refund
	claimURL  string
	payout    *payment // nil before it is paid
}

// requestSale makes a checkout and opens its option.
func (h *drillEnv) requestSale(ctx context.Context, key string) (*sale, error) {
	s := &sale{key: key}
	return s, errors.Join(h.repeatSale(ctx, s), h.openSale(ctx, s))
}

// repeatSale requests a checkout with its key: a known key leads to its checkout.
func (h *drillEnv) repeatSale(ctx context.Context, s *sale) error {
	var made webhook.Checkout
	err := h.callAPI(ctx, http.StatusCreated, http.MethodPost, "/checkouts", map[string]any{
		"name": "Gold plan", "price": "25", "acceptedMintIds": []int{h.mint.ID}, "reference": "order " + s.key,
		"idempotencyKey": s.key,
	}, &made)
	if err == nil && s.id != "" && made.CheckoutID != s.id {
		err = fmt.Errorf("key %s led to %s, and leads to %s now", s.key, s.id, made.CheckoutID)
	}
	s.id = made.CheckoutID
	return err
}

// openSale opens the option of a checkout. Its address never changes.
func (h *drillEnv) openSale(ctx context.Context, s *sale) error {
	var o webhook.PaymentOption
	err := h.callAPI(
		ctx, http.StatusOK, http.MethodPost, "/checkouts/"+s.id+"/options", map[string]any{"mintId": h.mint.ID}, &o,
	)
	switch {
	case err != nil:
		return err
	case o.Address == nil || o.Amount == nil:
		return fmt.Errorf("the option of %s is %+v", s.key, o)
	case s.address != "" && s.address != *o.Address:
		return fmt.Errorf("the address of %s was %s and is %s", s.key, s.address, *o.Address)
	}
	units, isNumber := new(big.Int).SetString(*o.Amount, 10)
	if !isNumber {
		return fmt.Errorf("the option of %s asks for %q", s.key, *o.Amount)
	}
	s.address, s.units = *o.Address, units
	return nil
}

// paySale pays a checkout, and waits until it is completed and its deposit credited.
func (h *drillEnv) paySale(ctx context.Context, s *sale) error {
	hash, err := h.world.Info.PayAddress(ctx, h.mint, s.address, s.units)
	if err != nil {
		return err
	}
	s.payment = &deposit{customer: orgProduct, units: s.units, tx: h.net.normalize(hash)}
	h.deposits = append(h.deposits, s.payment)
	return errors.Join(h.waitSale(ctx, s, "COMPLETED"), h.waitDepositStatus(ctx, s.payment, "CREDITED"))
}

// waitSale waits until a checkout has a status.
func (h *drillEnv) waitSale(ctx context.Context, s *sale, status string) error {
	return retryUntilDone(ctx, s.key+" is "+status, func(ctx context.Context) error {
		var got webhook.Checkout
		err := h.callAPI(ctx, http.StatusOK, http.MethodGet, "/checkouts/"+s.id, nil, &got)
		if err == nil && got.Status != status {
			err = fmt.Errorf("it is %s with %s", got.Status, got.Exception)
		}
		return err
	})
}

// requestRefund requests a refund of all that a sale was paid. Without an address its payer claims it.
func (h *drillEnv) requestRefund(ctx context.Context, s *sale, hasAddress bool) (*saleRefund, error) {
	r := &saleRefund{sale: s, recipient: h.net.unusedAddress([]byte(h.dir + "refund of " + s.key))}
	body := map[string]any{"amount": "FULL", "mintId": h.mint.ID, "idempotencyKey": "refund-of-" + s.key}
	if hasAddress {
		body["toAddress"] = r.recipient
	}
	err := h.callAPI(ctx, http.StatusCreated, http.MethodPost, "/checkouts/"+s.id+"/refunds", body, &r.current)
	if err == nil && r.current.ClaimURL != nil {
		r.claimURL = *r.current.ClaimURL
	}
	return r, err
}

// claimRefund says on the page of a refund where it goes, and returns the status of the answer.
func (h *drillEnv) claimRefund(ctx context.Context, r *saleRefund, address string) (status int, err error) {
	page, err := url.Parse(r.claimURL)
	if err != nil {
		return 0, err
	}
	key := strings.TrimPrefix(page.Fragment, "k=")
	page.Fragment, page.Path = "", page.Path+"/claim"
	form := strings.NewReader(url.Values{"address": {address}}.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, page.String(), form)
	if err != nil {
		return 0, err
	}
	req.Header.Set("content-type", "application/x-www-form-urlencoded")
	req.Header.Set("Coffer-Claim-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// claimAs claims a refund and requires a status.
func (h *drillEnv) claimAs(ctx context.Context, r *saleRefund, address string, want int) error {
	status, err := h.claimRefund(ctx, r, address)
	if err == nil && status != want {
		err = fmt.Errorf("claim of the refund of %s for %s: got %d, want %d", r.sale.key, address, status, want)
	}
	return err
}

// waitRefund waits until a refund is paid, and notes its payment once.
func (h *drillEnv) waitRefund(ctx context.Context, r *saleRefund) error {
	err := retryUntilDone(ctx, "the refund of "+r.sale.key+" is paid", func(ctx context.Context) error {
		err := h.callAPI(ctx, http.StatusOK, http.MethodGet, "/refunds/"+r.current.RefundID, nil, &r.current)
		if err == nil && r.current.Status != "COMPLETED" {
			err = fmt.Errorf("it is %s", r.current.Status)
		}
		return err
	})
	if err != nil || r.payout != nil {
		return err
	}
	r.payout = &payment{
		key: "refund of " + r.sale.key, customer: orgProduct, units: r.sale.units, recipient: r.recipient,
		completed: true,
	}
	if r.current.TxHash != nil {
		r.payout.tx = *r.current.TxHash
	}
	h.payments = append(h.payments, r.payout)
	return nil
}

// refundUnmatched waits until the payment of a sale is unmatched, because the database lacks its checkout, and gives
// it back.
func (h *drillEnv) refundUnmatched(ctx context.Context, s *sale) (*saleRefund, error) {
	type unmatched struct {
		DepositID, Reason, TxHash, DepositStatus string
		CheckoutID                               *string
	}
	var found unmatched
	err := retryUntilDone(ctx, "the payment of "+s.key+" is unmatched", func(ctx context.Context) error {
		var list struct{ Data []unmatched }
		if err := h.callAPI(ctx, http.StatusOK, http.MethodGet, "/unmatched-payments", nil, &list); err != nil {
			return err
		}
		if len(list.Data) != 1 || list.Data[0].DepositStatus != "CREDITED" {
			return fmt.Errorf("unmatched are %+v, want one credited payment", list.Data)
		}
		found = list.Data[0]
		return nil
	})
	if err == nil && (found.Reason != "NO_CHECKOUT" || h.net.normalize(found.TxHash) != s.payment.tx ||
		found.CheckoutID == nil || *found.CheckoutID != s.id) {
		err = fmt.Errorf("the unmatched payment is %+v, want that of %s", found, s.id)
	}
	r := &saleRefund{sale: s, recipient: h.net.unusedAddress([]byte(h.dir + "unmatched " + s.key))}
	if err != nil {
		return r, err
	}
	return r, h.callAPI(
		ctx, http.StatusCreated, http.MethodPost, "/unmatched-payments/"+found.DepositID+"/refund",
		map[string]any{"toAddress": r.recipient, "idempotencyKey": "unmatched-" + s.key}, &r.current,
	)
}

// checkSales compares the balance of the product and the chain with what was paid and given back.
func (h *drillEnv) checkSales(ctx context.Context) error {
	if err := h.waitDrained(ctx); err != nil {
		return err
	}
	_, verified := h.runCoffer(ctx, 0, "verify")
	return errors.Join(verified, h.checkBalances(ctx), h.checkOracle(ctx))
}

// playCheckouts plays the restore of an older backup, while checkouts and refunds are at several stages.
func playCheckouts(ctx context.Context, h *drillEnv) error {
	backup := filepath.Join(h.dir, "backup")
	var open, returned, taken, lost *sale
	var claimed, missing, unmatched *saleRefund
	makeSale := func(target **sale, key string) (err error) {
		*target, err = h.requestSale(ctx, key)
		return err
	}
	return h.playSteps(
		"a checkout is open, two others are paid", func() error {
			return errors.Join(
				makeSale(&open, "open"), makeSale(&returned, "returned"), makeSale(&taken, "taken"),
				h.paySale(ctx, returned), h.paySale(ctx, taken),
			)
		},
		"one of them is refunded, and its payer has not claimed it", func() (err error) {
			claimed, err = h.requestRefund(ctx, returned, false)
			return err
		},
		"nothing else is under way", func() error { return h.waitDrained(ctx) },
		"PostgreSQL is backed up", func() error { return (baseBackup{}).backUpCluster(ctx, h, backup) },
		"after it: the open one is paid and completed, and so is a new one", func() error {
			return errors.Join(h.paySale(ctx, open), makeSale(&lost, "lost"), h.paySale(ctx, lost))
		},
		"after it: the refund is claimed and paid", func() error {
			return errors.Join(h.claimAs(ctx, claimed, claimed.recipient, http.StatusOK), h.waitRefund(ctx, claimed))
		},
		"after it: another refund is requested and paid", func() (err error) {
			if missing, err = h.requestRefund(ctx, taken, true); err != nil {
				return err
			}
			return h.waitRefund(ctx, missing)
		},
		"books and chain agree", func() error { return h.checkSales(ctx) },
		"the service is stopped, the backup restored, the journal imported", func() error {
			if err := h.world.StopService(); err != nil {
				return fmt.Errorf("end the service: %w", err)
			}
			return errors.Join(
				h.restoreBackup(ctx, baseBackup{}, backup), h.checkStartRefused(ctx, notImported), h.importJournal(ctx),
			)
		},
		"the service starts", func() error { return h.world.RestartService(ctx) },
		"every deposit is found again and credited once, under its id",
		func() error { return h.waitDepositsCredited(ctx) },
		"the open checkout has its address again, and is completed by the payment that the backup lacks", func() error {
			return errors.Join(h.repeatSale(ctx, open), h.waitSale(ctx, open, "COMPLETED"), h.openSale(ctx, open))
		},
		"the refund that the backup has without its claim is paid already, and no other address gets it", func() error {
			return errors.Join(
				h.waitRefund(ctx, claimed), h.claimAs(ctx, claimed, claimed.recipient, http.StatusOK),
				h.claimAs(ctx, claimed, h.net.unusedAddress([]byte(h.dir+"another")), http.StatusConflict),
			)
		},
		"books and chain agree: the refund that the backup lacks was paid once",
		func() error { return h.checkSales(ctx) },
		"the payment of the checkout that the backup lacks is unmatched, and is given back", func() (err error) {
			if unmatched, err = h.refundUnmatched(ctx, lost); err != nil {
				return err
			}
			return h.waitRefund(ctx, unmatched)
		},
		"the service goes on: a checkout is paid, refunded and claimed", func() error {
			var after *sale
			if err := errors.Join(makeSale(&after, "after"), h.paySale(ctx, after)); err != nil {
				return err
			}
			r, err := h.requestRefund(ctx, after, false)
			if err != nil {
				return err
			}
			return errors.Join(h.claimAs(ctx, r, r.recipient, http.StatusOK), h.waitRefund(ctx, r))
		},
		"books and chain still agree", func() error { return h.checkSales(ctx) },
	)
}
