package drill

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/cofferpay/coffer/internal/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// payment is a withdrawal to a destination that nothing else is sent to.
type payment struct {
	key, customer string
	units         *big.Int
	to            string
	held          bool // waits for a person
	id            string
	tx            string
	done          bool // the chain has to show it, once
}

// own is the product that the organization pays in to itself.
const own = "CHECKOUT"

// deposit is an amount that somebody pays a customer, or the organization itself.
type deposit struct {
	customer string // or own
	units    *big.Int
	tx       string
	id       string
}

func (p *payment) body(h *house) map[string]any {
	return map[string]any{
		"mintId": h.mint.ID, "customerId": p.customer, "amount": p.units.String(), "toAddress": p.to,
		"idempotencyKey": p.key, "requireApproval": p.held,
	}
}

// ask asks for a payment.
func (h *house) ask(ctx context.Context, key, customer string, units *big.Int, held bool) (*payment, error) {
	p := &payment{key: key, customer: customer, units: units, held: held, to: h.net.nobody([]byte(h.dir + key))}
	h.payments = append(h.payments, p)
	var w webhook.Withdrawal
	err := h.call(ctx, http.StatusAccepted, http.MethodPost, "/withdraw", p.body(h), &w)
	p.id = w.WithdrawalID
	return p, err
}

// reaches waits until a payment has a status.
func (h *house) reaches(ctx context.Context, p *payment, status string) error {
	return until(ctx, p.key+" is "+status, func(ctx context.Context) error {
		var w webhook.Withdrawal
		if err := h.call(ctx, http.StatusOK, http.MethodGet, "/withdrawals/"+p.id, nil, &w); err != nil {
			return err
		}
		if w.Status != status {
			return fmt.Errorf("it is %s", w.Status)
		}
		if w.TxHash != nil {
			p.tx = *w.TxHash
		}
		p.done = status == "COMPLETED"
		return nil
	})
}

// pay asks for a payment and waits until it is done.
func (h *house) pay(ctx context.Context, key, customer string, units *big.Int) error {
	p, err := h.ask(ctx, key, customer, units, false)
	if err != nil {
		return err
	}
	return h.reaches(ctx, p, "COMPLETED")
}

// replayed asks for every payment again with its key: each leads to the payment
// that it led to before.
func (h *house) replayed(ctx context.Context) error {
	for _, p := range h.payments {
		var w webhook.Withdrawal
		if err := h.call(ctx, http.StatusAccepted, http.MethodPost, "/withdraw", p.body(h), &w); err != nil {
			return fmt.Errorf("key %s again: %w", p.key, err)
		}
		if w.WithdrawalID != p.id {
			return fmt.Errorf("key %s led to %s, and leads to %s now", p.key, p.id, w.WithdrawalID)
		}
	}
	return nil
}

// address is where a customer, or the organization itself, pays in.
func (h *house) address(ctx context.Context, customer string) (string, error) {
	var got struct{ Address string }
	path, body := "/deposit", map[string]any{"mintId": h.mint.ID, "customerId": customer}
	if customer == own {
		path, body = "/organization-deposit", map[string]any{"mintId": h.mint.ID, "product": own}
	}
	err := h.call(ctx, http.StatusOK, http.MethodPost, path, body, &got)
	return got.Address, err
}

// sent pays a customer on the chain.
func (h *house) sent(ctx context.Context, customer string, units *big.Int) (*deposit, error) {
	to, err := h.address(ctx, customer)
	if err != nil {
		return nil, err
	}
	hash, err := h.world.Info.Pay(ctx, h.mint, to, units)
	if err != nil {
		return nil, err
	}
	d := &deposit{customer: customer, units: units, tx: h.net.written(hash)}
	h.deposits = append(h.deposits, d)
	return d, nil
}

// payIn pays a customer and waits until it is credited.
func (h *house) payIn(ctx context.Context, customer string, units *big.Int) error {
	d, err := h.sent(ctx, customer, units)
	if err != nil {
		return err
	}
	return h.stands(ctx, d, "CREDITED")
}

// stands waits until there is one deposit of the transaction, with that status, and
// under the id that it was first seen with.
func (h *house) stands(ctx context.Context, d *deposit, status string) error {
	return until(ctx, "the deposit of "+d.customer+" is "+status, func(ctx context.Context) error {
		var list struct{ Data []webhook.Deposit }
		whose := "?customerId="
		if d.customer == own {
			whose = "?product="
		}
		if err := h.call(ctx, http.StatusOK, http.MethodGet, "/deposits"+whose+d.customer, nil, &list); err != nil {
			return err
		}
		said := []string{}
		n := 0
		for _, got := range list.Data {
			if h.net.written(got.TxHash) != d.tx {
				continue
			}
			if d.id == "" {
				d.id = got.DepositID
			}
			if got.DepositID != d.id {
				return fmt.Errorf("it was %s and is %s", d.id, got.DepositID)
			}
			said = append(said, got.Status)
			if got.Status == status {
				n++
			}
		}
		if n != 1 || len(said) != 1 {
			return fmt.Errorf("there are %v", said)
		}
		return nil
	})
}

// known waits until every deposit is credited under the id that it had.
func (h *house) known(ctx context.Context) error {
	for _, d := range h.deposits {
		if err := h.stands(ctx, d, "CREDITED"); err != nil {
			return err
		}
	}
	return nil
}

// finished waits until every payment is done, the held ones aside.
func (h *house) finished(ctx context.Context) error {
	for _, p := range h.payments {
		if err := h.reaches(ctx, p, "COMPLETED"); err != nil {
			return err
		}
	}
	return nil
}

// balances compares what every customer has with what they paid in and out.
func (h *house) balances(ctx context.Context) error {
	want := map[string]*big.Int{}
	for _, d := range h.deposits {
		if want[d.customer] == nil {
			want[d.customer] = new(big.Int)
		}
		want[d.customer].Add(want[d.customer], d.units)
	}
	for _, p := range h.payments {
		if p.done {
			want[p.customer].Sub(want[p.customer], p.units)
		}
	}
	var errs []error
	for customer, units := range want {
		var list struct {
			Data []struct {
				MintID           int
				Available, Total string
				Product          string
			}
		}
		path, product := "/customers/"+customer+"/balances", ""
		if customer == own {
			path, product = "/balances", own
		}
		if err := h.call(ctx, http.StatusOK, http.MethodGet, path, nil, &list); err != nil {
			return err
		}
		got := "nothing"
		for _, b := range list.Data {
			if b.MintID == h.mint.ID && b.Product == product {
				got = b.Total
			}
		}
		if got != units.String() {
			errs = append(errs, fmt.Errorf("%s has %s, want %s", customer, got, units))
		}
	}
	return errors.Join(errs...)
}

// judged is the oracle's judgement: every destination received its amount once or
// nothing, nothing went anywhere else, and our addresses hold the rest.
func (h *house) judged(ctx context.Context) error {
	judge := h.net.truth()
	height, err := judge.Walk(ctx)
	if err != nil {
		return err
	}
	ours, err := h.ours(ctx)
	if err != nil {
		return err
	}
	asset := h.asset()
	left := new(big.Int)
	for _, d := range h.deposits {
		left.Add(left, d.units)
	}
	var claims []oracle.Claim
	for _, p := range h.payments {
		claims = append(claims, oracle.Claim{ID: p.key, Asset: asset, To: p.to, Amount: p.units, Paid: p.done, Tx: p.tx})
		if p.done {
			left.Sub(left, p.units)
		}
	}
	var errs []error
	for _, w := range judge.Judge(claims, ours) {
		errs = append(errs, errors.New("oracle: "+w))
	}
	left.Add(left, h.net.beside(ours))
	held := new(big.Int)
	for a := range ours {
		units, err := judge.Holds(ctx, asset, a, height)
		if err != nil {
			return err
		}
		held.Add(held, units)
	}
	if held.Cmp(left) != 0 {
		errs = append(errs, fmt.Errorf("oracle: our addresses hold %s, and what was paid in less what was paid out is %s", held, left))
	}
	return errors.Join(errs...)
}

// ours are the addresses of the chain that are the service's, the places of its treasury
// among them.
func (h *house) ours(ctx context.Context) (map[string]bool, error) {
	var addresses []string
	err := h.query(ctx, `SELECT array_agg(address) FROM (SELECT address FROM wallets WHERE family = $1 UNION SELECT address FROM places WHERE chain = $2) AS ours`,
		[]any{h.on.Family(), h.on}, &addresses)
	if err != nil {
		return nil, err
	}
	ours := map[string]bool{}
	for _, a := range addresses {
		ours[h.net.written(a)] = true
	}
	return ours, nil
}

func (h *house) asset() string {
	if h.mint.ContractAddress == nil {
		return ""
	}
	return h.net.written(*h.mint.ContractAddress)
}

func lower(s string) string { return strings.ToLower(s) }

// sound compares everything with everything, when nothing is under way.
func (h *house) sound(ctx context.Context) error {
	if err := h.drained(ctx); err != nil {
		return err
	}
	_, verified := h.coffer(ctx, 0, "verify")
	return errors.Join(verified, h.balances(ctx), h.judged(ctx), h.integrator.agrees(h.deposits, h.payments))
}
