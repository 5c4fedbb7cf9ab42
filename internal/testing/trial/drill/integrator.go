package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// integrator is the organization's backend. It keeps its own books from the webhooks alone, as the
// interface requires: an event counts once by its id, and a deposit once by its id. A restore of
// the database does not change them.
type integrator struct {
	server *http.Server
	url    string

	mu       sync.Mutex
	secret   string
	events   map[string]webhook.Type // by event id
	deposits map[string]string       // deposit id -> transaction
	credited map[string]*big.Int     // by customer, and the organization's own
	ended    map[string]string       // withdrawal id -> status
	wrong    []error
}

func newIntegrator() (*integrator, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &integrator{
		url: "http://" + l.Addr().String() + "/hooks", events: map[string]webhook.Type{},
		deposits: map[string]string{}, credited: map[string]*big.Int{}, ended: map[string]string{},
	}
	i.server = &http.Server{Handler: i, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = i.server.Serve(l) }() // it ends with close
	return i, nil
}

func (i *integrator) closeServer() { _ = i.server.Close() }

// registerWebhook registers the integrator's webhook.
func (h *drillEnv) registerWebhook(ctx context.Context) error {
	var made struct{ Secret string }
	types := []webhook.Type{
		webhook.CustomerDeposit, webhook.OrganizationDeposit, webhook.CustomerWithdrawFailed,
		webhook.CustomerWithdrawCompleted,
	}
	err := h.callAPI(
		ctx, http.StatusCreated, http.MethodPost, "/webhook-endpoints",
		map[string]any{"url": h.integrator.url, "events": types}, &made,
	)
	if err != nil {
		return err
	}
	h.integrator.mu.Lock()
	defer h.integrator.mu.Unlock()
	h.integrator.secret = made.Secret
	return nil
}

// ServeHTTP receives an event.
func (i *integrator) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.applyEvent(body, req.Header); err != nil {
		i.wrong = append(i.wrong, err)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (i *integrator) applyEvent(body []byte, header http.Header) error {
	if err := webhook.Verify(body, header, i.secret, webhook.DefaultTolerance); err != nil {
		return err
	}
	var e webhook.Envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	if _, recorded := i.events[e.ID]; recorded {
		return nil
	}
	i.events[e.ID] = e.Type
	if e.Type != webhook.CustomerDeposit && e.Type != webhook.OrganizationDeposit {
		var w webhook.Withdrawal
		if err := json.Unmarshal(e.Data, &w); err != nil {
			return err
		}
		if earlier, recorded := i.ended[w.WithdrawalID]; recorded && earlier != w.Status {
			return fmt.Errorf("withdrawal %s is %s and was %s", w.WithdrawalID, w.Status, earlier)
		}
		i.ended[w.WithdrawalID] = w.Status
		return nil
	}
	var d webhook.Deposit
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return err
	}
	if tx, recorded := i.deposits[d.DepositID]; recorded {
		return fmt.Errorf("deposit %s of %s has another event, %s", d.DepositID, tx, e.ID)
	}
	i.deposits[d.DepositID] = d.TxHash
	amount, ok := new(big.Int).SetString(d.Amount, 10)
	if !ok {
		return fmt.Errorf("deposit %s is of %q", d.DepositID, d.Amount)
	}
	account := d.CustomerID
	if e.Type == webhook.OrganizationDeposit {
		account = d.Product
	}
	if account == nil || (d.CustomerID == nil) == (d.Product == nil) {
		return fmt.Errorf("%s of %s is of customer %v and product %v", e.Type, d.DepositID, d.CustomerID, d.Product)
	}
	owner := *account
	if i.credited[owner] == nil {
		i.credited[owner] = new(big.Int)
	}
	i.credited[owner].Add(i.credited[owner], amount)
	return nil
}

// compareBooks compares the integrator's books with the real deposits and payments.
func (i *integrator) compareBooks(deposits []*deposit, payments []*payment) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	errs := i.wrong
	want := map[string]*big.Int{}
	for _, d := range deposits {
		if want[d.customer] == nil {
			want[d.customer] = new(big.Int)
		}
		want[d.customer].Add(want[d.customer], d.units)
	}
	for customer, units := range want {
		if got := i.credited[customer]; got == nil || got.Cmp(units) != 0 {
			errs = append(
				errs, fmt.Errorf("the integrator has credited %s with %s, and %s was paid in", customer, got, units),
			)
		}
	}
	for _, p := range payments {
		if p.completed && i.ended[p.id] != "COMPLETED" {
			errs = append(
				errs, fmt.Errorf("the integrator has heard %q of the end of %s, which is paid", i.ended[p.id], p.key),
			)
		}
	}
	return errors.Join(errs...)
}
