package tour

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/webhook"
)

// api is the REST API as an integrator or an operator calls it.
type api struct {
	base, header, key string
	client            *http.Client
}

func newAPI(base, header, key string) *api {
	return &api{base: base, header: header, key: key, client: &http.Client{Timeout: 20 * time.Second}}
}

// apiError is an answer whose status is not 2xx.
type apiError struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"error"`

	WithdrawalID string `json:"withdrawalId"` // of a 451: the record of the blocked withdrawal
}

func (r *apiError) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message) }

func (a *api) getJSON(ctx context.Context, path string, target any) error {
	return a.callAPI(ctx, http.MethodGet, path, nil, target)
}

func (a *api) postJSON(ctx context.Context, path string, body, target any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return a.callAPI(ctx, http.MethodPost, path, b, target)
}

func (a *api) sendJSON(ctx context.Context, method, path string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return a.callAPI(ctx, method, path, b, nil)
}

func (a *api) callAPI(ctx context.Context, method, path string, body []byte, target any) error {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(a.header, a.key)
	if body != nil {
		req.Header.Set("content-type", "application/json")
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		r := &apiError{Status: resp.StatusCode}
		if err := json.Unmarshal(answer, r); err != nil {
			return fmt.Errorf("%s %s: %d with a body that is not JSON: %.200s", method, path, resp.StatusCode, answer)
		}
		return r
	}
	if target == nil {
		return nil
	}
	if err := json.Unmarshal(answer, target); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

func (s *tourRun) createDepositAddress(ctx context.Context, m localworld.Mint) (string, error) {
	address, _, err := s.addressAndURI(ctx, m)
	if err == nil && !common.IsHexAddress(address) {
		err = fmt.Errorf("POST /deposit answered %q on %q", address, m.Chain)
	}
	return address, err
}

// addressAndURI returns a customer's deposit address and the link that a wallet opens.
func (s *tourRun) addressAndURI(ctx context.Context, m localworld.Mint) (address, uri string, err error) {
	var answer struct {
		Address    string `json:"address"`
		Chain      string `json:"chain"`
		PaymentURI string `json:"paymentUri"`
	}
	err = s.api.postJSON(ctx, "/deposit", map[string]any{"mintId": m.ID, "customerId": s.customer}, &answer)
	if err == nil &&
		(answer.Chain != m.Chain || answer.Address == "" || !strings.Contains(answer.PaymentURI, answer.Address)) {
		err = fmt.Errorf("POST /deposit answered %q on %q with %q", answer.Address, answer.Chain, answer.PaymentURI)
	}
	return answer.Address, answer.PaymentURI, err
}

// balance is one line of a customer's balances.
type balance struct {
	MintID          int    `json:"mintId"`
	Available       string `json:"available"`
	PendingDeposit  string `json:"pendingDeposit"`
	PendingWithdraw string `json:"pendingWithdraw"`
	Total           string `json:"total"`
}

func (s *tourRun) loadBalance(ctx context.Context, m localworld.Mint) (balance, error) {
	var list struct {
		Data []balance `json:"data"`
	}
	if err := s.api.getJSON(ctx, "/customers/"+url.PathEscape(s.customer)+"/balances", &list); err != nil {
		return balance{}, err
	}
	for _, b := range list.Data {
		if b.MintID == m.ID {
			return b, nil
		}
	}
	return balance{MintID: m.ID, Available: "0", PendingDeposit: "0", PendingWithdraw: "0", Total: "0"}, nil
}

// waitUntil polls until a condition holds.
func (s *tourRun) waitUntil(ctx context.Context, condition string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, stepMax)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		ok, err := holds()
		if ok && err == nil {
			return nil
		}
		var refused *apiError
		if errors.As(err, &refused) && refused.Status < 500 {
			return fmt.Errorf("while waiting until %s: %w", condition, err)
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s until %s (last error: %v)", stepMax, condition, last)
		case <-tick.C:
		}
	}
}

// waitEvent waits for an event of a type whose data, decoded into target, is the wanted one.
func (s *tourRun) waitEvent(
	ctx context.Context, t webhook.Type, target any, wanted func() bool,
) (found webhook.Envelope, err error) {
	err = s.waitUntil(ctx, string(t)+" arrives", func() (bool, error) {
		for _, e := range s.receiver.listEvents() {
			if e.Type != t {
				continue
			}
			if err := json.Unmarshal(e.Data, target); err != nil {
				return false, fmt.Errorf("read %s: %w", e.ID, err)
			}
			if wanted() {
				found = e
				return true, nil
			}
		}
		return false, s.receiver.lastError()
	})
	return found, err
}

// feedItem is an event in GET /events.
type feedItem struct {
	ID       string       `json:"id"`
	Type     webhook.Type `json:"type"`
	Sequence int64        `json:"sequence"`
}

// receiver is the marketplace's webhook handler.
type receiver struct {
	url    string
	server *http.Server

	mu       sync.Mutex
	secret   string
	received []webhook.Envelope
	err      error
}

func newReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/hooks"}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	go r.server.Serve(l)
	return r, nil
}

func (r *receiver) setSecret(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = secret
}

// ServeHTTP verifies an event before it trusts it, and stores each event once.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = webhook.Verify(body, req.Header, r.secret, webhook.DefaultTolerance)
	}
	var e webhook.Envelope
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err != nil {
		r.err = fmt.Errorf("a webhook did not verify: %w", err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, earlier := range r.received {
		if earlier.ID == e.ID {
			return
		}
	}
	r.received = append(r.received, e)
}

func (r *receiver) listEvents() []webhook.Envelope {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]webhook.Envelope(nil), r.received...)
}

func (r *receiver) lastError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// hasAll reports whether every item of the feed with one of the types arrived.
func (r *receiver) hasAll(feed []feedItem, types ...webhook.Type) bool {
	got := map[string]bool{}
	for _, e := range r.listEvents() {
		got[e.ID] = true
	}
	for _, item := range feed {
		for _, t := range types {
			if item.Type == t && !got[item.ID] {
				return false
			}
		}
	}
	return true
}

func (r *receiver) closeServer() { r.server.Close() }

// payFromFaucet sends from the faucet, as a customer does from a wallet elsewhere.
func (s *tourRun) payFromFaucet(
	ctx context.Context, m localworld.Mint, recipient string, amount *big.Int,
) (string, error) {
	hash, err := s.Info.SendFromFaucet(ctx, m, common.HexToAddress(recipient), amount)
	if err != nil {
		return "", fmt.Errorf("pay from the faucet: %w", err)
	}
	return hash.Hex(), nil
}

// chainBalance returns the balance of an address, read from the chain's own RPC.
func (s *tourRun) chainBalance(ctx context.Context, m localworld.Mint, a common.Address) (*big.Int, error) {
	if m.ContractAddress == nil {
		return s.eth.BalanceAt(ctx, a, nil)
	}
	contract := common.HexToAddress(*m.ContractAddress)
	answer, err := s.eth.CallContract(
		ctx, ethereum.CallMsg{To: &contract, Data: evmtoken.Token.CallData("balanceOf", a)}, nil,
	)
	if err != nil {
		return nil, err
	}
	return new(big.Int).SetBytes(answer), nil
}

// newAddress returns a new address, which has received nothing.
func newAddress() common.Address { return common.HexToAddress("0x" + randomHex(common.AddressLength)) }

// misspellAddress returns the address with the case of one letter changed, so that its checksum is
// wrong.
func misspellAddress(a common.Address) string {
	text := []byte(a.Hex())
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case c >= 'a' && c <= 'f':
			text[i] = c - 'a' + 'A'
			return string(text)
		case c >= 'A' && c <= 'F':
			text[i] = c - 'A' + 'a'
			return string(text)
		}
	}
	return strings.ToLower(string(text))
}

func atomicUnits(whole int64, m localworld.Mint) *big.Int {
	return new(big.Int).Mul(big.NewInt(whole), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(m.Decimals)), nil))
}
