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
	"time"

	"github.com/cofferpay/coffer/internal/trial/oracle"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/webhook"
)

// payment is a withdrawal to a destination of its own.
type payment struct {
	body map[string]any
	made webhook.Withdrawal
	last webhook.Withdrawal
	to   string
	unit *big.Int
}

const paymentUnits = 1_000_000

// payments are those that a scene is about: several where they share a transaction.
type payments []*payment

// newPayment is a payment that was not asked for yet.
func (s *stage) newPayment() *payment { return s.payment(s.name) }

// newPayments are as many as a scene needs. Before there is an order each is alone.
func (s *stage) newPayments() (ps payments) {
	if s.point.name < "W05" {
		return payments{s.newPayment()}
	}
	for n := range s.net.together() {
		ps = append(ps, s.payment(fmt.Sprintf("%s-%d", s.name, n)))
	}
	return ps
}

func (s *stage) payment(key string) *payment {
	p := &payment{unit: big.NewInt(paymentUnits)}
	p.to = s.net.nobody([]byte(s.dir + key))
	p.body = map[string]any{
		"mintId": s.mint.ID, "customerId": rich, "amount": p.unit.String(), "toAddress": p.to, "idempotencyKey": key,
	}
	s.claims = append(s.claims, p)
	return p
}

// pay asks for payments, and does not wait for the answers.
func (s *stage) pay(ps ...*payment) func(context.Context) error {
	return func(ctx context.Context) error {
		s.together(func() error {
			for _, p := range ps {
				if err := s.accepted(ctx, p); err != nil {
					return err
				}
			}
			return s.net.letGo(ctx, s.town)
		})
		return nil
	}
}

// leads is the order whose slot a payment is in.
func (s *stage) leads(ctx context.Context, p *payment) (orderID string, err error) {
	err = s.query(ctx, `SELECT coalesce(rides_id, order_id) FROM dispatch_orders WHERE order_id = $1`, []any{p.made.WithdrawalID}, &orderID)
	return orderID, err
}

// ended waits for the end of all payments, which is the same one. Those that were to share
// a transaction did, unless the fault came before they had their slot.
func (s *stage) ended(ctx context.Context, ps payments, ends ...string) error {
	for _, p := range ps {
		if err := s.completed(ctx, p, ends...); err != nil {
			return err
		}
	}
	var slots, txs, statuses int
	var ids []string
	for _, p := range ps {
		ids = append(ids, p.made.WithdrawalID)
	}
	err := s.query(ctx, `
		SELECT count(DISTINCT coalesce(o.rides_id, o.order_id)), count(DISTINCT o.tx_hash), count(DISTINCT w.status)
		FROM dispatch_orders o JOIN withdrawals w ON w.withdrawal_id = o.order_id WHERE o.order_id = ANY ($1)`, []any{ids}, &slots, &txs, &statuses)
	if err == nil && s.point.name >= "W08" && (slots != 1 || txs != 1 || statuses != 1) {
		err = fmt.Errorf("%d payments had %d slots and %d transactions and ended in %d ways, want one of each", len(ps), slots, txs, statuses)
	}
	return err
}

// completed waits for the end of a payment; the same key asks for the same one.
func (s *stage) completed(ctx context.Context, p *payment, ends ...string) error {
	if err := s.returned(ctx); err != nil {
		return err
	}
	err := until(ctx, "the withdrawal is "+strings.Join(ends, " or "), drainMax, func(ctx context.Context) (bool, error) {
		if _, err := s.call(ctx, http.MethodGet, "/withdrawals/"+p.made.WithdrawalID, nil, &p.last); err != nil {
			return false, err
		}
		if !slices.Contains(ends, p.last.Status) {
			return false, errors.New("it is " + p.last.Status)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	first := p.made.WithdrawalID
	if err := s.accepted(ctx, p); err != nil {
		return err
	}
	if p.made.WithdrawalID != first {
		return fmt.Errorf("the same key got %s and then %s", first, p.made.WithdrawalID)
	}
	return nil
}

const (
	paid     = "COMPLETED"
	failed   = "FAILED"
	removed  = "REJECTED"
	recalled = "CANCELLED"
)

// deposit is an amount that somebody pays a customer.
type deposit struct {
	customer string
	units    *big.Int
	address  string
	from     *stranger // who pays; nil: the chain's account that has plenty
	tx       string
	credited int // how many deposits of the customer to expect; 1
}

func (s *stage) newDeposit(units int64) *deposit {
	return &deposit{customer: "user_" + s.name, units: big.NewInt(units)}
}

// addressed gets the address, before anything is armed.
func (t *town) addressed(ctx context.Context, d *deposit) error {
	var got struct{ Address string }
	status, err := t.call(ctx, http.MethodPost, "/deposit", map[string]any{"mintId": t.mint.ID, "customerId": d.customer}, &got)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("POST /deposit: %d %w", status, err)
	}
	d.address = got.Address
	return nil
}

// send pays it on the chain.
func (t *town) send(ctx context.Context, d *deposit) (err error) {
	if d.from != nil {
		d.tx, err = d.from.pay(ctx, t.token(), d.address, d.units)
	} else {
		d.tx, err = t.net.pay(ctx, t, d.address, d.units)
	}
	if err != nil {
		return err
	}
	t.deposited.Add(t.deposited, d.units)
	return nil
}

// booked waits until it is credited.
func (t *town) booked(ctx context.Context, d *deposit) error {
	return until(ctx, "the deposit is credited", drainMax, func(ctx context.Context) (bool, error) {
		var list struct{ Data []webhook.Deposit }
		if _, err := t.call(ctx, http.MethodGet, "/deposits?customerId="+d.customer, nil, &list); err != nil {
			return false, err
		}
		n := 0
		said := []string{}
		for _, got := range list.Data {
			said = append(said, got.Status)
			if got.Status == "CREDITED" {
				n++
			}
		}
		if want := max(1, d.credited); n != want {
			return false, fmt.Errorf("deposits are %v, want %d credited", said, want)
		}
		return true, nil
	})
}

func (t *town) payIn(ctx context.Context, d *deposit) error {
	if err := t.addressed(ctx, d); err != nil {
		return err
	}
	if err := t.send(ctx, d); err != nil {
		return err
	}
	return t.booked(ctx, d)
}

// has compares a customer's balance with what it has to be.
func (t *town) has(ctx context.Context, customer string, want *big.Int) error {
	var list struct {
		Data []struct {
			MintID                            int
			Available, PendingWithdraw, Total string
		}
	}
	if _, err := t.call(ctx, http.MethodGet, "/customers/"+customer+"/balances", nil, &list); err != nil {
		return err
	}
	for _, b := range list.Data {
		if b.MintID == t.mint.ID && b.Available == want.String() && b.Total == want.String() {
			return nil
		}
	}
	return fmt.Errorf("the balance of %s is %+v, want %s", customer, list.Data, want)
}

// sound compares everything with everything: the books with each other and with
// the chain, what was paid with what was asked for, the webhooks with the feed.
func (s *stage) sound(ctx context.Context) error {
	var errs []error
	books, err := verify.Run(ctx, s.tools.DB(), verify.WithGrants(s.tools.Grants()))
	if err != nil {
		// The pool may hold connections of a server that is gone.
		if books, err = verify.Run(ctx, s.tools.DB(), verify.WithGrants(s.tools.Grants())); err != nil {
			return err
		}
	}
	var breaches []verify.Breach
	err = until(ctx, "the chain agrees with the books", 10*time.Second, func(ctx context.Context) (bool, error) {
		chains, err := verify.OnChain(ctx, s.tools.DB(), s.tools.Chains())
		breaches = chains.Breaches
		return err == nil, err
	})
	if err != nil {
		errs = append(errs, err)
	}
	for _, b := range append(books.Breaches, breaches...) {
		errs = append(errs, fmt.Errorf("breach %s %s: %s", b.Check, b.Subject, b.Detail))
	}
	errs = append(errs, s.settled(ctx), s.told(ctx))
	return errors.Join(errs...)
}

// settled is the oracle's judgement.
func (s *stage) settled(ctx context.Context) error {
	height, err := s.oracle.Walk(ctx)
	if err != nil {
		return err
	}
	ours, err := s.ours(ctx)
	if err != nil {
		return err
	}
	var claims []oracle.Claim
	left := new(big.Int).Set(s.deposited)
	balance := new(big.Int).Sub(big.NewInt(s.site.rich), s.given)
	for _, p := range s.claims {
		c := oracle.Claim{ID: p.made.WithdrawalID, Asset: s.asset(), To: p.to, Amount: p.unit, Paid: p.last.Status == paid}
		if c.Paid {
			if p.last.TxHash == nil {
				return fmt.Errorf("%s is completed without a transaction", c.ID)
			}
			c.Tx = *p.last.TxHash
			left.Sub(left, p.unit)
			balance.Sub(balance, p.unit)
		}
		claims = append(claims, c)
	}
	for _, c := range s.sentAway {
		claims = append(claims, c)
		left.Sub(left, c.Amount)
	}
	var errs []error
	for _, w := range s.oracle.Judge(claims, ours) {
		errs = append(errs, errors.New("oracle: "+w))
	}
	left.Add(left, s.net.beside(ours))
	held := new(big.Int)
	for a := range ours {
		units, err := s.oracle.Holds(ctx, s.asset(), a, height)
		if err != nil {
			return err
		}
		held.Add(held, units)
	}
	if held.Cmp(left) != 0 {
		errs = append(errs, fmt.Errorf("oracle: our addresses hold %s, and what was paid in less what was paid out is %s", held, left))
	}
	errs = append(errs, s.books(ctx, held), s.net.agrees(ctx, s.town, ours), s.has(ctx, rich, balance))
	return errors.Join(errs...)
}

// books compares what the oracle found at our addresses with the journal of the books and
// with what the addresses hold by it.
func (s *stage) books(ctx context.Context, held *big.Int) error {
	var owned, kept string
	err := s.query(ctx, `
		SELECT (SELECT coalesce(sum(moved.delta), 0)::text
				FROM (SELECT debit_account AS account_id, amount AS delta FROM ledger_transfers
					UNION ALL SELECT credit_account, -amount FROM ledger_transfers) moved
				JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'CUSTODY' AND a.mint_id = $1),
			(SELECT coalesce(sum(credited - swept + gas), 0)::text FROM address_funds WHERE mint_id = $1)`, []any{s.mint.ID}, &owned, &kept)
	if err == nil && (owned != held.String() || kept != held.String()) {
		err = fmt.Errorf("oracle: our addresses hold %s, the books own %s, and the addresses hold %s by them", held, owned, kept)
	}
	return err
}

// told compares what the receiver got with the feed of events.
func (s *stage) told(ctx context.Context) error {
	var errs []error
	for _, w := range s.receiver.complaints() {
		errs = append(errs, errors.New(w))
	}
	seen := map[string]string{}
	after := int64(0)
	for {
		var page struct {
			Data    []json.RawMessage
			HasMore bool
		}
		if _, err := s.call(ctx, http.MethodGet, fmt.Sprintf("/events?limit=100&after=%d", after), nil, &page); err != nil {
			return err
		}
		for _, body := range page.Data {
			var e webhook.Envelope
			if err := json.Unmarshal(body, &e); err != nil {
				return err
			}
			if e.Sequence != after+1 {
				errs = append(errs, fmt.Errorf("the feed goes from event %d to %d", after, e.Sequence))
			}
			after = e.Sequence
			var of struct{ WithdrawalID, DepositID, TransferID string }
			if err := json.Unmarshal(e.Data, &of); err != nil {
				return err
			}
			what := string(e.Type) + " of " + of.WithdrawalID + of.DepositID + of.TransferID
			if other, twice := seen[what]; twice {
				errs = append(errs, fmt.Errorf("%s was told twice, as %s and %s", what, other, e.ID))
			}
			seen[what] = e.ID
			got := s.receiver.got(hookPath, e.ID)
			switch {
			case len(got) == 0:
				errs = append(errs, fmt.Errorf("%s, %s, was never delivered", e.ID, what))
			case string(got[0]) != string(body):
				errs = append(errs, fmt.Errorf("%s was delivered as\n%s\nand stands in the feed as\n%s", e.ID, got[0], body))
			}
		}
		if !page.HasMore {
			break
		}
	}
	for _, p := range s.claims {
		wants := []webhook.Type{webhook.CustomerWithdraw, webhook.CustomerWithdrawCompleted}
		switch p.last.Status {
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
			if seen[string(want)+" of "+p.made.WithdrawalID] == "" {
				errs = append(errs, fmt.Errorf("there is no event %s of %s", want, p.made.WithdrawalID))
			}
		}
	}
	return errors.Join(errs...)
}
