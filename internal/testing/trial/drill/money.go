package drill

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// payment is a withdrawal to a destination that receives nothing else.
type payment struct {
	key, customer string
	units         *big.Int
	recipient     string
	held          bool // waits for a person
	id            string
	tx            string
	completed     bool // the chain must show it once
}

// orgProduct is the product whose deposits the organization makes itself.
const orgProduct = "CHECKOUT"

// isProduct reports whether a name is that of a product of the organization instead of a customer.
func isProduct(name string) bool { return name == orgProduct || name == batchProduct }

// deposit is an amount paid to a customer, or to the organization itself.
type deposit struct {
	customer string // or a product
	units    *big.Int
	tx       string
	id       string
}

func (p *payment) requestBody(h *drillEnv) map[string]any {
	return map[string]any{
		"mintId": h.mint.ID, "customerId": p.customer, "amount": p.units.String(), "toAddress": p.recipient,
		"idempotencyKey": p.key, "requireApproval": p.held,
	}
}

// requestPayment requests a payment.
func (h *drillEnv) requestPayment(
	ctx context.Context, key, customer string, units *big.Int, held bool,
) (*payment, error) {
	p := &payment{
		key: key, customer: customer, units: units, held: held, recipient: h.net.unusedAddress([]byte(h.dir + key)),
	}
	h.payments = append(h.payments, p)
	var w webhook.Withdrawal
	err := h.callAPI(ctx, http.StatusAccepted, http.MethodPost, "/withdraw", p.requestBody(h), &w)
	p.id = w.WithdrawalID
	return p, err
}

// waitPaymentStatus waits until a payment has a status.
func (h *drillEnv) waitPaymentStatus(ctx context.Context, p *payment, status string) error {
	return retryUntilDone(ctx, p.key+" is "+status, func(ctx context.Context) error {
		var w webhook.Withdrawal
		if err := h.callAPI(ctx, http.StatusOK, http.MethodGet, "/withdrawals/"+p.id, nil, &w); err != nil {
			return err
		}
		if w.Status != status {
			return fmt.Errorf("it is %s", w.Status)
		}
		if w.TxHash != nil {
			p.tx = *w.TxHash
		}
		p.completed = status == "COMPLETED"
		return nil
	})
}

// payAndWait requests a payment and waits until it is completed.
func (h *drillEnv) payAndWait(ctx context.Context, key, customer string, units *big.Int) error {
	p, err := h.requestPayment(ctx, key, customer, units, false)
	if err != nil {
		return err
	}
	return h.waitPaymentStatus(ctx, p, "COMPLETED")
}

// replayPayments requests every payment again with its key: each key returns the same payment as
// before.
func (h *drillEnv) replayPayments(ctx context.Context) error {
	for _, p := range h.payments {
		var w webhook.Withdrawal
		if err := h.callAPI(ctx, http.StatusAccepted, http.MethodPost, "/withdraw", p.requestBody(h), &w); err != nil {
			return fmt.Errorf("key %s again: %w", p.key, err)
		}
		if w.WithdrawalID != p.id {
			return fmt.Errorf("key %s led to %s, and leads to %s now", p.key, p.id, w.WithdrawalID)
		}
	}
	return nil
}

// depositAddress returns the deposit address of a customer, or of the organization itself.
func (h *drillEnv) depositAddress(ctx context.Context, customer string) (string, error) {
	var got struct{ Address string }
	path, body := "/deposit", map[string]any{"mintId": h.mint.ID, "customerId": customer}
	if isProduct(customer) {
		path, body = "/organization-deposit", map[string]any{"mintId": h.mint.ID, "product": customer}
	}
	err := h.callAPI(ctx, http.StatusOK, http.MethodPost, path, body, &got)
	return got.Address, err
}

// sendDeposit pays a customer on the chain.
func (h *drillEnv) sendDeposit(ctx context.Context, customer string, units *big.Int) (*deposit, error) {
	recipient, err := h.depositAddress(ctx, customer)
	if err != nil {
		return nil, err
	}
	hash, err := h.world.Info.PayAddress(ctx, h.mint, recipient, units)
	if err != nil {
		return nil, err
	}
	d := &deposit{customer: customer, units: units, tx: h.net.normalize(hash)}
	h.deposits = append(h.deposits, d)
	return d, nil
}

// payIn pays a customer and waits until the deposit is credited.
func (h *drillEnv) payIn(ctx context.Context, customer string, units *big.Int) error {
	d, err := h.sendDeposit(ctx, customer, units)
	if err != nil {
		return err
	}
	return h.waitDepositStatus(ctx, d, "CREDITED")
}

// waitDepositStatus waits until the transaction has one deposit, with that status, and under the id
// that it first had.
func (h *drillEnv) waitDepositStatus(ctx context.Context, d *deposit, status string) error {
	return retryUntilDone(ctx, "the deposit of "+d.customer+" is "+status, func(ctx context.Context) error {
		var list struct{ Data []webhook.Deposit }
		filter := "?customerId="
		if isProduct(d.customer) {
			filter = "?product="
		}
		if err := h.callAPI(ctx, http.StatusOK, http.MethodGet, "/deposits"+filter+d.customer, nil, &list); err != nil {
			return err
		}
		statuses := []string{}
		n := 0
		for _, got := range list.Data {
			if h.net.normalize(got.TxHash) != d.tx {
				continue
			}
			if d.id == "" {
				d.id = got.DepositID
			}
			if got.DepositID != d.id {
				return fmt.Errorf("it was %s and is %s", d.id, got.DepositID)
			}
			statuses = append(statuses, got.Status)
			if got.Status == status {
				n++
			}
		}
		if n != 1 || len(statuses) != 1 {
			return fmt.Errorf("there are %v", statuses)
		}
		return nil
	})
}

// waitDepositsCredited waits until every deposit is credited under its first id.
func (h *drillEnv) waitDepositsCredited(ctx context.Context) error {
	for _, d := range h.deposits {
		if err := h.waitDepositStatus(ctx, d, "CREDITED"); err != nil {
			return err
		}
	}
	return nil
}

// waitPaymentsDone waits until every payment is completed, except the held ones.
func (h *drillEnv) waitPaymentsDone(ctx context.Context) error {
	for _, p := range h.payments {
		if err := h.waitPaymentStatus(ctx, p, "COMPLETED"); err != nil {
			return err
		}
	}
	return nil
}

// checkBalances compares every customer's balance with their deposits and payments.
func (h *drillEnv) checkBalances(ctx context.Context) error {
	want := map[string]*big.Int{}
	for _, d := range h.deposits {
		if want[d.customer] == nil {
			want[d.customer] = new(big.Int)
		}
		want[d.customer].Add(want[d.customer], d.units)
	}
	for _, p := range h.payments {
		if p.completed {
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
		if isProduct(customer) {
			path, product = "/balances", customer
		}
		if err := h.callAPI(ctx, http.StatusOK, http.MethodGet, path, nil, &list); err != nil {
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

// checkOracle returns what the oracle finds wrong. Every destination received its amount once or
// nothing, no other address received anything, and our addresses have the remainder.
func (h *drillEnv) checkOracle(ctx context.Context) error {
	judge := h.net.openOracle()
	height, err := judge.Walk(ctx)
	if err != nil {
		return err
	}
	ownAddresses, err := h.loadOwnAddresses(ctx)
	if err != nil {
		return err
	}
	asset := h.assetID()
	left := new(big.Int)
	for _, d := range h.deposits {
		left.Add(left, d.units)
	}
	var claims []oracle.Claim
	for _, p := range h.payments {
		claims = append(claims, oracle.Claim{
			ID: p.key, Asset: asset, To: p.recipient, Amount: p.units, Paid: p.completed, Tx: p.tx,
		})
		if p.completed {
			left.Sub(left, p.units)
		}
	}
	var errs []error
	for _, w := range judge.Judge(claims, ownAddresses) {
		errs = append(errs, errors.New("oracle: "+w))
	}
	left.Add(left, h.net.operatorFunds(ownAddresses))
	held := new(big.Int)
	for a := range ownAddresses {
		units, err := judge.Holds(ctx, asset, a, height)
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
	return errors.Join(errs...)
}

// loadOwnAddresses loads the service's addresses on the chain, with the nonce accounts of its
// treasury.
func (h *drillEnv) loadOwnAddresses(ctx context.Context) (map[string]bool, error) {
	var addresses []string
	err := h.queryRow(ctx,
		`SELECT array_agg(address) FROM (SELECT address FROM wallets WHERE family = $1 UNION SELECT address FROM nonce_accounts WHERE chain = $2) AS ours`,
		[]any{h.chainName.Family(), h.chainName}, &addresses)
	if err != nil {
		return nil, err
	}
	ownAddresses := map[string]bool{}
	for _, a := range addresses {
		ownAddresses[h.net.normalize(a)] = true
	}
	return ownAddresses, nil
}

func (h *drillEnv) assetID() string {
	if h.mint.ContractAddress == nil {
		return ""
	}
	return h.net.normalize(*h.mint.ContractAddress)
}

func toLower(s string) string { return strings.ToLower(s) }

// checkEverything runs all comparisons when nothing is under way.
func (h *drillEnv) checkEverything(ctx context.Context) error {
	if err := h.waitDrained(ctx); err != nil {
		return err
	}
	_, verified := h.runCoffer(ctx, 0, "verify")
	return errors.Join(
		verified, h.checkBalances(ctx), h.checkOracle(ctx), h.integrator.compareBooks(h.deposits, h.payments),
	)
}
