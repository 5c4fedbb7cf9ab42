package swapdesk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

const (
	// resendAfter is how long the desk waits for a payment before it sends the same bytes again.
	resendAfter = 2 * time.Second
	// fundAgainAfter is how long a payment of the faucet may take to be usable.
	fundAgainAfter = 10 * time.Second
	// fundFactor is how many times the lacking amount the faucet sends, so that it is asked seldom.
	fundFactor = 10
)

// task is a payment that has not ended, as it was when the step began.
type task struct {
	swap    *swap
	number  int
	payment swapPayment
}

// tasks returns the payments on a chain that have not ended, in the order of their swaps, and those of them
// that are signed.
func (d *Server) tasks(c Chain) (list []task, pending []Signed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.unsettled {
		for i, p := range s.Payments {
			if p.Asset.Chain != c.Name() || p.hasEnded() {
				continue
			}
			list = append(list, task{s, i, p})
			if p.State == paymentSigned {
				pending = append(pending, p.Signed)
			}
		}
	}
	slices.SortFunc(list, func(a, b task) int {
		return cmp.Or(cmp.Compare(a.swap.Wallet, b.swap.Wallet), cmp.Compare(a.number, b.number))
	})
	return list, pending
}

// makePayments signs and sends the payments of a chain and reads what became of them.
func (d *Server) makePayments(ctx context.Context, c Chain) error {
	list, pending := d.tasks(c)
	var errs []error
	for _, t := range list {
		if t.payment.State == paymentPlanned {
			if signedPayment, err := d.signPayment(ctx, c, t, pending); err != nil {
				errs = append(errs, err)
				break // later payments would only take its funds
			} else if signedPayment.Hash != "" {
				pending = append(pending, signedPayment)
				t.payment.Signed = signedPayment
				errs = append(errs, d.sendPayment(ctx, c, t))
			}
			continue
		}
		errs = append(errs, d.followPayment(ctx, c, t))
	}
	return errors.Join(errs...)
}

// signPayment signs a planned payment and stores its bytes. It returns none while funds are on their way.
func (d *Server) signPayment(ctx context.Context, c Chain, t task, pending []Signed) (Signed, error) {
	p := t.payment
	isFunded, err := d.ensureFunds(ctx, c, p, pending)
	if err != nil || !isFunded {
		return Signed{}, err
	}
	result, err := c.SignPayment(ctx, Payment{p.Asset.Contract, p.Asset.Decimals, p.Recipient, p.Amount}, pending)
	if err != nil {
		return Signed{}, fmt.Errorf("sign a payment of %s: %w", t.swap.paymentID(t.number), err)
	}
	return result, d.savePayment(t, paymentSigned, result)
}

// savePayment stores the new state of a payment.
func (d *Server) savePayment(t task, state paymentState, bytes Signed) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.swap.Payments[t.number].State, t.swap.Payments[t.number].Signed = state, bytes
	t.swap.UpdatedAt = d.cfg.Now()
	return d.store.appendRecords(record{Swap: t.swap})
}

// sendPayment sends a signed payment.
func (d *Server) sendPayment(ctx context.Context, c Chain, t task) error {
	d.sent[t.swap.paymentID(t.number)] = d.cfg.Now()
	if err := c.SendPayment(ctx, t.payment.Signed); err != nil {
		return fmt.Errorf("send the payment %s: %w", t.payment.Signed.Hash, err)
	}
	return nil
}

// followPayment reads what became of a signed payment, and sends it again while nothing did.
func (d *Server) followPayment(ctx context.Context, c Chain, t task) error {
	outcome, err := c.ReadOutcome(ctx, t.payment.Signed)
	if err != nil {
		return fmt.Errorf("outcome of the payment %s: %w", t.payment.Signed.Hash, err)
	}
	switch outcome {
	case Paid:
		return d.savePayment(t, paymentPaid, t.payment.Signed)
	case Reverted:
		return d.savePayment(t, paymentReverted, t.payment.Signed)
	case Expired:
		return d.savePayment(t, paymentPlanned, Signed{})
	}
	last, hasSent := d.sent[t.swap.paymentID(t.number)]
	if hasSent && d.cfg.Now().Sub(last) < resendAfter {
		return nil
	}
	return d.sendPayment(ctx, c, t)
}

// ensureFunds reports whether the paying wallet has what a payment needs, and asks the faucet for it.
func (d *Server) ensureFunds(ctx context.Context, c Chain, p swapPayment, pending []Signed) (bool, error) {
	needs := map[string]money.Amount{"": c.FeeReserve()}
	needs[p.Asset.Contract] = sumAmounts(needs[p.Asset.Contract], p.Amount)
	isFunded := true
	for contract, need := range needs {
		balance, err := c.Balance(ctx, contract, pending)
		if err != nil {
			return false, fmt.Errorf("balance on %s: %w", c.Name(), err)
		}
		if !balance.Less(need) {
			continue
		}
		isFunded = false
		id := AssetID(c.Name(), contract)
		a, isKnown := d.assets[id]
		if !isKnown {
			return false, fmt.Errorf("the desk has no asset %s to pay with", id)
		}
		if last, isAsked := d.funded[id]; isAsked && d.cfg.Now().Sub(last) < fundAgainAfter {
			continue
		}
		d.funded[id] = d.cfg.Now()
		amount := scaleAmount(need, money.Units(fundFactor), money.Units(1))
		if err := d.cfg.Fund(ctx, a, c.WalletAddress(payingWallet), amount); err != nil {
			return false, fmt.Errorf("ask the faucet for %s: %w", id, err)
		}
	}
	return isFunded, nil
}
