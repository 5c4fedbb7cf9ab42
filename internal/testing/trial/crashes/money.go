package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/webhook"
)

// payment is a withdrawal to a destination of its own.
type payment struct {
	body      map[string]any
	created   webhook.Withdrawal
	current   webhook.Withdrawal
	recipient string
	amount    *big.Int
}

const paymentUnits = 1_000_000

// payments are the payments of a scene: several where they share a transaction.
type payments []*payment

// newPayment returns a payment that is not requested yet.
func (s *cellRun) newPayment() *payment { return s.addPayment(s.name) }

// newPayments returns as many payments as a scene needs. Before there is an order each is alone.
func (s *cellRun) newPayments() (ps payments) {
	if s.point.name < "W05" {
		return payments{s.newPayment()}
	}
	for n := range s.net.paymentsPerTx() {
		ps = append(ps, s.addPayment(fmt.Sprintf("%s-%d", s.name, n)))
	}
	return ps
}

func (s *cellRun) addPayment(key string) *payment {
	p := &payment{amount: big.NewInt(paymentUnits)}
	p.recipient = s.net.unusedAddress([]byte(s.dir + key))
	p.body = map[string]any{
		"mintId": s.mint.ID, "customerId": richCustomer, "amount": p.amount.String(), "toAddress": p.recipient,
		"idempotencyKey": key,
	}
	s.claims = append(s.claims, p)
	return p
}

// startPayments requests payments, and does not wait for the answers.
func (s *cellRun) startPayments(ps ...*payment) func(context.Context) error {
	return func(ctx context.Context) error {
		s.startAsync(func() error {
			for _, p := range ps {
				if err := s.requestPayment(ctx, p); err != nil {
					return err
				}
			}
			return s.net.releasePayments(ctx, s.scenario)
		})
		return nil
	}
}

// findTxLead returns the order whose slot a payment is in.
func (s *cellRun) findTxLead(ctx context.Context, p *payment) (orderID string, err error) {
	err = s.queryRow(
		ctx, `SELECT coalesce(tx_lead_id, order_id) FROM dispatch_orders WHERE order_id = $1`,
		[]any{p.created.WithdrawalID}, &orderID,
	)
	return orderID, err
}

// waitPaymentsEnd waits for the end of all payments, which is the same for all. Payments that were
// to share a transaction did, unless the fault came before they had their slot.
func (s *cellRun) waitPaymentsEnd(ctx context.Context, ps payments, ends ...string) error {
	for _, p := range ps {
		if err := s.waitPaymentEnd(ctx, p, ends...); err != nil {
			return err
		}
	}
	var slots, txs, statuses int
	var ids []string
	for _, p := range ps {
		ids = append(ids, p.created.WithdrawalID)
	}
	err := s.queryRow(ctx, `
		SELECT count(DISTINCT coalesce(o.tx_lead_id, o.order_id)), count(DISTINCT o.tx_hash), count(DISTINCT w.status)
		FROM dispatch_orders o JOIN withdrawals w ON w.withdrawal_id = o.order_id WHERE o.order_id = ANY ($1)`,
		[]any{ids}, &slots, &txs, &statuses)
	if err == nil && s.point.name >= "W08" && (slots != 1 || txs != 1 || statuses != 1) {
		err = fmt.Errorf(
			"%d payments had %d slots and %d transactions and ended in %d ways, want one of each", len(ps), slots, txs,
			statuses,
		)
	}
	return err
}

// waitPaymentEnd waits for the end of a payment; a request with the same key returns the same
// payment.
func (s *cellRun) waitPaymentEnd(ctx context.Context, p *payment, ends ...string) error {
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	err := waitUntil(ctx, "the withdrawal is "+strings.Join(ends, " or "), drainMax, func(ctx context.Context) (
		bool, error,
	) {
		if _, err := s.callAPI(
			ctx, http.MethodGet, "/withdrawals/"+p.created.WithdrawalID, nil, &p.current,
		); err != nil {
			return false, err
		}
		if !slices.Contains(ends, p.current.Status) {
			return false, errors.New("it is " + p.current.Status)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	first := p.created.WithdrawalID
	if err := s.requestPayment(ctx, p); err != nil {
		return err
	}
	if p.created.WithdrawalID != first {
		return fmt.Errorf("the same key got %s and then %s", first, p.created.WithdrawalID)
	}
	return nil
}

const (
	paid     = "COMPLETED"
	failed   = "FAILED"
	removed  = "REJECTED"
	recalled = "CANCELLED"
)

// deposit is an amount that an external account pays a customer.
type deposit struct {
	customer      string
	units         *big.Int
	address       string
	sender        *externalAccount // the payer; nil: the chain's account with a large balance
	tx            string
	creditedCount int // how many deposits of the customer to expect; 1
}

func (s *cellRun) newDeposit(units int64) *deposit {
	return &deposit{customer: "user_" + s.name, units: big.NewInt(units)}
}

// createDepositAddress creates the address before anything is armed.
func (t *scenario) createDepositAddress(ctx context.Context, d *deposit) error {
	var got struct{ Address string }
	status, err := t.callAPI(
		ctx, http.MethodPost, "/deposit", map[string]any{"mintId": t.mint.ID, "customerId": d.customer}, &got,
	)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("POST /deposit: %d %w", status, err)
	}
	d.address = got.Address
	return nil
}

// sendDeposit pays the deposit on the chain.
func (t *scenario) sendDeposit(ctx context.Context, d *deposit) (err error) {
	if d.sender != nil {
		d.tx, err = d.sender.pay(ctx, t.contractAddress(), d.address, d.units)
	} else {
		d.tx, err = t.net.payUnits(ctx, t, d.address, d.units)
	}
	if err != nil {
		return err
	}
	t.deposited.Add(t.deposited, d.units)
	return nil
}

// waitBooked waits until the deposit is credited.
func (t *scenario) waitBooked(ctx context.Context, d *deposit) error {
	return waitUntil(ctx, "the deposit is credited", drainMax, func(ctx context.Context) (bool, error) {
		var list struct{ Data []webhook.Deposit }
		if _, err := t.callAPI(ctx, http.MethodGet, "/deposits?customerId="+d.customer, nil, &list); err != nil {
			return false, err
		}
		n := 0
		statuses := []string{}
		for _, got := range list.Data {
			statuses = append(statuses, got.Status)
			if got.Status == "CREDITED" {
				n++
			}
		}
		if want := max(1, d.creditedCount); n != want {
			return false, fmt.Errorf("deposits are %v, want %d credited", statuses, want)
		}
		return true, nil
	})
}

func (t *scenario) payIn(ctx context.Context, d *deposit) error {
	if err := t.createDepositAddress(ctx, d); err != nil {
		return err
	}
	if err := t.sendDeposit(ctx, d); err != nil {
		return err
	}
	return t.waitBooked(ctx, d)
}

// customerBalance is what a customer has of a mint.
type customerBalance struct {
	MintID                            int
	Available, PendingWithdraw, Total string
}

// checkBalance compares a customer's balance with the expected one.
func (t *scenario) checkBalance(ctx context.Context, customer string, want *big.Int) error {
	return t.checkBalances(ctx, customer, t.mint, want, want)
}

// checkBalances compares what a customer has of a mint, and has available, with the expected amounts.
func (t *scenario) checkBalances(
	ctx context.Context, customer string, m localworld.Mint, available, total *big.Int,
) error {
	var list struct{ Data []customerBalance }
	if _, err := t.callAPI(ctx, http.MethodGet, "/customers/"+customer+"/balances", nil, &list); err != nil {
		return err
	}
	for _, b := range list.Data {
		if b.MintID == m.ID && b.Available == available.String() && b.Total == total.String() {
			return nil
		}
	}
	if total.Sign() == 0 && !slices.ContainsFunc(list.Data, func(b customerBalance) bool { return b.MintID == m.ID }) {
		return nil
	}
	return fmt.Errorf(
		"the balance of %s is %+v, want %s of mint %d, %s of it available", customer, list.Data, total, m.ID, available,
	)
}

// checkEverything compares the books with each other and with the chain, the payments with the
// requests, and the webhooks with the feed.
func (s *cellRun) checkEverything(ctx context.Context) error {
	var errs []error
	options := []verify.Option{
		verify.WithGrants(s.tools.GrantKey()), verify.WithApprovers(s.tools.AttestKey()),
		verify.WithQuotes(s.verifyQuote),
	}
	books, err := verify.RunChecks(ctx, s.tools.DB(), options...)
	if err != nil {
		// The pool may have connections of a server that is gone.
		if books, err = verify.RunChecks(ctx, s.tools.DB(), options...); err != nil {
			return err
		}
	}
	var breaches []verify.Breach
	err = waitUntil(ctx, "the chain agrees with the books", drainMax, func(ctx context.Context) (bool, error) {
		chains, err := verify.CompareWithChains(ctx, s.tools.DB(), s.tools.Chains)
		breaches = chains.Breaches
		return err == nil, err
	})
	if err != nil {
		errs = append(errs, err)
	}
	for _, b := range append(books.Breaches, breaches...) {
		errs = append(errs, fmt.Errorf("breach %s %s: %s", b.Check, b.Subject, b.Detail))
	}
	errs = append(errs, s.checkOracle(ctx), s.checkEvents(ctx))
	return errors.Join(errs...)
}

// checkOracle returns what the oracle finds wrong.
func (s *cellRun) checkOracle(ctx context.Context) error {
	height, err := s.oracle.Walk(ctx)
	if err != nil {
		return err
	}
	ownAddresses, err := s.loadOwnAddresses(ctx)
	if err != nil {
		return err
	}
	var claims []oracle.Claim
	left := new(big.Int).Set(s.deposited)
	balance := new(big.Int).Sub(s.site.richUnits, s.transferredOut)
	for _, p := range s.claims {
		c := oracle.Claim{
			ID: p.created.WithdrawalID, Asset: s.assetID(), To: p.recipient, Amount: p.amount,
			Paid: p.current.Status == paid,
		}
		if c.Paid {
			if p.current.TxHash == nil {
				return fmt.Errorf("%s is completed without a transaction", c.ID)
			}
			c.Tx = *p.current.TxHash
			left.Sub(left, p.amount)
			balance.Sub(balance, p.amount)
		}
		claims = append(claims, c)
	}
	for _, c := range s.sentAway {
		claims = append(claims, c)
		left.Sub(left, c.Amount)
	}
	for _, b := range s.batches {
		for _, c := range b.claims(s.assetID()) {
			claims = append(claims, c)
			if c.Paid {
				left.Sub(left, c.Amount)
			}
		}
	}
	swapped, err := s.sumSwaps(ctx)
	if err != nil {
		return err
	}
	claims = append(claims, swapped.claims...)
	left.Sub(left, swapped.paid).Add(left, swapped.refunded)
	balance.Sub(balance, swapped.swappedIn).Add(balance, swapped.restored)
	var errs []error
	for _, w := range s.oracle.Judge(claims, ownAddresses) {
		errs = append(errs, errors.New("oracle: "+w))
	}
	left.Add(left, s.net.operatorFunds(ownAddresses))
	held := new(big.Int)
	for a := range ownAddresses {
		units, err := s.oracle.Holds(ctx, s.assetID(), a, height)
		if err != nil {
			return err
		}
		held.Add(held, units)
	}
	if held.Cmp(left) != 0 {
		errs = append(
			errs,
			fmt.Errorf("oracle: our addresses hold %s, and what was paid in less what was paid out is %s", held, left),
		)
	}
	errs = append(
		errs, s.checkBooks(ctx, held), s.net.compareOutputs(ctx, s.scenario, ownAddresses),
		s.checkBalances(ctx, richCustomer, s.mint, balance, new(big.Int).Add(balance, swapped.claimed)),
	)
	if s.site.withSwaps {
		errs = append(errs, s.checkSwapBooks(ctx, swapped))
	}
	return errors.Join(errs...)
}

// checkBooks compares what the oracle found at our addresses with the journal of the books, and
// with the balances that the books give the addresses.
func (s *cellRun) checkBooks(ctx context.Context, held *big.Int) error {
	var custodySum, addressSum string
	err := s.queryRow(ctx, `
		SELECT (SELECT coalesce(sum(moved.delta), 0)::text
				FROM (SELECT debit_account AS account_id, amount AS delta FROM ledger_transfers
					UNION ALL SELECT credit_account, -amount FROM ledger_transfers) moved
				JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'CUSTODY' AND a.mint_id = $1),
			(SELECT coalesce(sum(credited - swept + gas), 0)::text FROM address_funds WHERE mint_id = $1)`,
		[]any{s.mint.ID}, &custodySum, &addressSum)
	if err == nil && (custodySum != held.String() || addressSum != held.String()) {
		err = fmt.Errorf(
			"oracle: our addresses hold %s, the books own %s, and the addresses hold %s by them", held, custodySum,
			addressSum,
		)
	}
	return err
}

// checkEvents compares what the receiver got with the feed of events.
func (s *cellRun) checkEvents(ctx context.Context) error {
	var errs []error
	for _, w := range s.receiver.listComplaints() {
		errs = append(errs, errors.New(w))
	}
	eventIDs := map[string]string{}
	sequence := int64(0)
	for {
		var page struct {
			Data    []json.RawMessage
			HasMore bool
		}
		if _, err := s.callAPI(
			ctx, http.MethodGet, fmt.Sprintf("/events?limit=100&after=%d", sequence), nil, &page,
		); err != nil {
			return err
		}
		for _, body := range page.Data {
			var e webhook.Envelope
			if err := json.Unmarshal(body, &e); err != nil {
				return err
			}
			if e.Sequence != sequence+1 {
				errs = append(errs, fmt.Errorf("the feed goes from event %d to %d", sequence, e.Sequence))
			}
			sequence = e.Sequence
			var resource struct {
				WithdrawalID, DepositID, TransferID, SwapID, CheckoutID, InvoiceID, CreditNoteID, BatchPayoutID string

				Swap *struct{ CustomerSwapID string }
			}
			if err := json.Unmarshal(e.Data, &resource); err != nil {
				return err
			}
			eventKey := string(e.Type) + " of " + resource.DepositID + resource.TransferID + resource.SwapID +
				resource.CheckoutID + resource.InvoiceID + resource.CreditNoteID + resource.BatchPayoutID
			if resource.SwapID == "" { // a swap of the organization names its withdrawal, too
				eventKey += resource.WithdrawalID
			}
			if resource.Swap != nil {
				eventKey = string(e.Type) + " of " + resource.Swap.CustomerSwapID
			}
			if s.maySayAgain(e.Type, resource.CheckoutID) {
				eventKey += " as " + e.ID
			}
			if earlier, twice := eventIDs[eventKey]; twice {
				errs = append(errs, fmt.Errorf("%s has two events, %s and %s", eventKey, earlier, e.ID))
			}
			eventIDs[eventKey] = e.ID
			got := s.receiver.receivedBodies(hookPath, e.ID)
			switch {
			case len(got) == 0:
				errs = append(errs, fmt.Errorf("%s, %s, was never delivered", e.ID, eventKey))
			case string(got[0]) != string(body):
				errs = append(
					errs, fmt.Errorf("%s was delivered as\n%s\nand the feed has\n%s", e.ID, got[0], body),
				)
			}
		}
		if !page.HasMore {
			break
		}
	}
	for _, p := range s.claims {
		wants := []webhook.Type{webhook.CustomerWithdraw, webhook.CustomerWithdrawCompleted}
		switch p.current.Status {
		case failed:
			wants[1] = webhook.CustomerWithdrawFailed
		case recalled:
			wants = []webhook.Type{webhook.CustomerWithdrawCancelled}
		case removed:
			wants = []webhook.Type{webhook.CustomerWithdrawRejected}
			if p.body["requireApproval"] == true {
				wants = append(wants, webhook.CustomerWithdrawAwaitingApproval)
			}
		}
		for _, want := range wants {
			if eventIDs[string(want)+" of "+p.created.WithdrawalID] == "" {
				errs = append(errs, fmt.Errorf("there is no event %s of %s", want, p.created.WithdrawalID))
			}
		}
	}
	for _, w := range s.swaps {
		want, opposite := webhook.CustomerDeposit, webhook.CustomerSwapFailed
		if w.current.Status == failed {
			want, opposite = opposite, want
		}
		swapID := w.current.SwapID
		if eventIDs[string(want)+" of "+swapID] == "" || eventIDs[string(opposite)+" of "+swapID] != "" {
			errs = append(errs, fmt.Errorf("%s is %s and has not the event %s alone", swapID, w.current.Status, want))
		}
	}
	for _, w := range s.ownSwaps {
		ended, opposite := " of "+w.current.SwapID, string(webhook.OrganizationSwapFailed)
		if eventIDs[string(webhook.OrganizationSwapCompleted)+ended] == "" || eventIDs[opposite+ended] != "" {
			errs = append(errs, fmt.Errorf("%s is completed, and its events say something else", w.current.SwapID))
		}
		for _, want := range []webhook.Type{webhook.OrganizationWithdraw, webhook.OrganizationWithdrawCompleted} {
			if eventIDs[string(want)+" of "+w.payout.WithdrawalID] == "" {
				errs = append(errs, fmt.Errorf("there is no event %s of %s", want, w.payout.WithdrawalID))
			}
		}
	}
	errs = append(errs, s.checkSaleEvents(ctx, eventIDs), s.checkRefundEvents(eventIDs))
	for _, d := range s.depositSwaps {
		if d.current.DepositID == nil || eventIDs[string(webhook.CustomerDeposit)+" of "+*d.current.DepositID] == "" {
			errs = append(errs, fmt.Errorf("there is no event of what %s brought", d.current.DepositSwapID))
		}
	}
	return errors.Join(errs...)
}
