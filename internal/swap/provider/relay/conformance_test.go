package relay

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/provider/providertest"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Lab { return newLab(t) })
}

const (
	zeroAddress    = "0x0000000000000000000000000000000000000000"
	dollarContract = "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85"
	factory        = "0xfac0000000000000000000000000000000000001"
	implementation = "0x1e70000000000000000000000000000000000002"
	depositor      = "0xdeb0000000000000000000000000000000000003"

	solanaNative = "11111111111111111111111111111111"
)

// newConfig returns a section with two chains of which the contracts are pinned, and one that is only delivered
// to. The contracts are made up: the provider publishes none.
func newConfig(solver common.Address) *Config {
	return &Config{
		Solvers: []string{solver.Hex()},
		Chains: map[string]*ChainConfig{
			"BASE": {
				ID: 8453, Name: "base", VM: "ethereum-vm", Native: zeroAddress, Factory: factory,
				Implementation: implementation, Depositor: depositor,
				Currencies: []CurrencyConfig{{"native", "ETH", 18}},
			},
			"OPTIMISM": {
				ID: 10, Name: "optimism", VM: "ethereum-vm", Native: zeroAddress, Factory: factory,
				Implementation: implementation, Depositor: depositor,
				Currencies: []CurrencyConfig{{"native", "ETH", 18}, {dollarContract, "USDC", 6}},
			},
			"SOLANA": {
				ID: 792703809, Name: "solana", VM: "solana-vm", Native: solanaNative,
				Currencies: []CurrencyConfig{{"native", "SOL", 9}},
			},
		},
	}
}

// lab is a service that signs orders as a solver of Relay does, with a key of its own.
type lab struct {
	t        *testing.T
	provider *Provider
	private  *ecdsa.PrivateKey

	mu        sync.Mutex
	addresses int
	quotes    int
	status    string
	refusal   *string
	fault     providertest.Fault
	arrived   chan<- struct{}
	forgery   providertest.Forgery
	order     func(order map[string]any)  // before signing
	after     func(answer map[string]any) // after signing
	requests  []string
	bodies    []string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	private, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, private: private}
	server := httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(server.Close)
	c := newConfig(crypto.PubkeyToAddress(private.PublicKey))
	c.URL, c.Key = server.URL, seal.NewSecret("key")
	member, err := c.Open(provider.SectionEnv{})
	if err != nil {
		t.Fatal(err)
	}
	l.provider = member.Provider.(*Provider)
	return l
}

func (l *lab) Provider() provider.Provider { return l.provider }
func (l *lab) IsFlexible() bool            { return false }

func (l *lab) Ask() provider.Ask {
	return provider.Ask{
		IsFirm: true, Origin: provider.Token{Chain: chain.Base},
		Destination: provider.Token{Chain: chain.Optimism, Contract: dollarContract},
		AmountIn:    money.MustParse("100000000000000000"), SlippageBps: 100,
		Recipient: "0xF0AE622e463fa757Cf72243569E18Be7Df1996cd",
		RefundTo:  "0xcac3C41676deF4FE375E57118f3eB83A99105577",
		Deadline:  time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC), Reference: "cs_1",
	}
}

func (l *lab) Addresses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addresses
}

func (l *lab) Statuses() map[string]provider.Status {
	return map[string]provider.Status{
		"waiting": provider.Waiting, "depositing": provider.Waiting, "pending": provider.Processing,
		"submitted": provider.Processing, "delayed": provider.Processing, "success": provider.Success,
		"refund": provider.Refunded, "failure": provider.Failed,
	}
}

func (l *lab) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *lab) SetStatus(status string) { l.set(func() { l.status = status }) }
func (l *lab) Refuse(message string)   { l.set(func() { l.refusal = &message }) }
func (l *lab) Break(fault providertest.Fault, arrived chan<- struct{}) {
	l.set(func() { l.fault, l.arrived = fault, arrived })
}

func (l *lab) Forge(f providertest.Forgery) { l.set(func() { l.forgery = f }) }

func (l *lab) Forgeries() []providertest.Forgery {
	return []providertest.Forgery{
		providertest.OtherRecipient, providertest.OtherRefund, providertest.OtherAmount, providertest.OtherOrigin,
		providertest.OtherDestination, providertest.MoreSlippage, providertest.OtherKey, providertest.NoSignature,
		providertest.OtherAddress,
	}
}

func (l *lab) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r.Method+" "+r.URL.String())
	l.bodies = append(l.bodies, string(body))
	if r.Header.Get("x-api-key") != "key" {
		l.t.Errorf("got the key %q", r.Header.Get("x-api-key"))
	}
	status, answer := 200, ""
	switch r.Method + " " + r.URL.Path {
	case "POST /quote/v2":
		status, answer = l.quote(body)
	case "GET /intents/status/v3":
		answer = l.report()
	default:
		l.t.Errorf("got %s %s", r.Method, r.URL)
	}
	if l.fault == providertest.Hang {
		l.arrived <- struct{}{}
		l.mu.Unlock()
		<-r.Context().Done()
		l.mu.Lock()
		return
	}
	kind, status, answer := l.fault.Apply(status, answer)
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

func (l *lab) quote(body []byte) (int, string) {
	if l.refusal != nil {
		return 400, marshal(l.t, map[string]any{"message": *l.refusal, "errorCode": "AMOUNT_TOO_LOW"})
	}
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		l.t.Error(err)
	}
	l.quotes++
	id := fmt.Sprintf("0x%064x", l.quotes)
	describe := func(chainID, currency any, amount, least string) map[string]any {
		return map[string]any{
			"currency": map[string]any{
				"chainId": chainID, "address": currency, "symbol": "ETH", "name": "Ether", "decimals": 18,
				"metadata": map[string]any{"logoURI": "https://x", "verified": true},
			},
			"amount": amount, "amountFormatted": "0.1", "amountUsd": "210.480239", "minimumAmount": least,
		}
	}
	step := map[string]any{
		"id": "deposit", "action": "Confirm", "description": "Depositing", "kind": "transaction", "requestId": id,
		"items": []any{map[string]any{"status": "incomplete"}},
	}
	amount := request["amount"].(string)
	answer := map[string]any{
		"steps": []any{step}, "fees": map[string]any{"gas": map[string]any{}},
		"details": map[string]any{
			"operation": "swap", "sender": request["user"], "recipient": request["recipient"],
			"currencyIn": describe(request["originChainId"], request["originCurrency"], amount, amount),
			"currencyOut": describe(
				request["destinationChainId"], request["destinationCurrency"], "210000000", "207900000",
			),
			"rate": "2100", "timeEstimate": 2, "isFixedRate": false,
		},
	}
	if request["useDepositAddress"] == true {
		if request["strict"] != true || request["includeProtocolData"] != true {
			l.t.Errorf("got %s, want a strict address with its signature", body)
		}
		l.addresses++
		l.promise(request, answer, step)
	}
	if l.after != nil {
		l.after(answer)
	}
	return 200, marshal(l.t, answer)
}

// promise adds the signed order and its deposit address.
func (l *lab) promise(request, answer, step map[string]any) {
	names := map[float64]string{8453: "base", 10: "optimism", 792703809: "solana"}
	origin, destination := names[request["originChainId"].(float64)], names[request["destinationChainId"].(float64)]
	refund := func(chainID string, currency any) map[string]any {
		return map[string]any{
			"chainId": chainID, "recipient": strings.ToLower(request["refundTo"].(string)), "currency": currency,
			"minimumAmount": "0", "deadline": 1791082605, "extraData": "0x",
		}
	}
	order := map[string]any{
		"version": "v1", "solverChainId": "base",
		"solver": crypto.PubkeyToAddress(l.private.PublicKey).Hex(), "salt": fmt.Sprintf("0x%x", l.addresses),
		"inputs": []any{map[string]any{
			"payment": map[string]any{
				"chainId": origin, "currency": request["originCurrency"], "amount": request["amount"], "weight": "1",
			},
			"refunds": []any{
				refund(origin, request["originCurrency"]), refund(destination, request["destinationCurrency"]),
			},
		}},
		"output": map[string]any{
			"chainId": destination,
			"payments": []any{map[string]any{
				"recipient": strings.ToLower(request["recipient"].(string)), "currency": request["destinationCurrency"],
				"minimumAmount": "207900000", "expectedAmount": "210000000",
			}},
			"calls": []any{}, "deadline": 1791082605, "extraData": "0x",
		},
		"fees": []any{},
	}
	l.forge(order)
	if l.order != nil {
		l.order(order)
	}
	hash := quotetest.HashRelayOrder(order)
	signature := quotetest.SignRelayOrder(l.t, hash, l.signer())
	v2 := map[string]any{
		"orderId": hash.Hex(), "orderData": order, "orderSignature": signature,
		"hubType": "onchain", "paymentDetails": map[string]any{"chainId": origin},
	}
	answer["protocol"] = map[string]any{"v2": v2}
	step["depositAddress"] = quotetest.RelayDepositAddress(hash, factory, implementation, depositor)
	switch l.forgery {
	case providertest.NoSignature:
		delete(v2, "orderSignature")
	case providertest.OtherAddress:
		step["depositAddress"] = "0xEa04F61d00AFD8649B39b873306949aa11630067"
	}
}

func (l *lab) signer() *ecdsa.PrivateKey {
	if l.forgery != providertest.OtherKey {
		return l.private
	}
	stranger, err := crypto.GenerateKey()
	if err != nil {
		l.t.Error(err)
	}
	return stranger
}

func (l *lab) forge(order map[string]any) {
	input := order["inputs"].([]any)[0].(map[string]any)
	payment := input["payment"].(map[string]any)
	output := order["output"].(map[string]any)["payments"].([]any)[0].(map[string]any)
	stranger := "0x0000000000000000000000000000000000000001"
	switch l.forgery {
	case providertest.OtherRecipient:
		output["recipient"] = stranger
	case providertest.OtherRefund:
		input["refunds"].([]any)[1].(map[string]any)["recipient"] = stranger
	case providertest.OtherAmount:
		payment["amount"] = "100000000000000001"
	case providertest.OtherOrigin:
		payment["currency"] = stranger
	case providertest.OtherDestination:
		output["currency"] = stranger
	case providertest.MoreSlippage:
		output["minimumAmount"] = "207899999"
	}
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func (l *lab) report() string {
	report := map[string]any{
		"status": l.status, "inTxHashes": []string{"0xaa"}, "txHashes": []string{"0xbb"},
		"updatedAt": 1769988962883, "originChainId": 8453, "destinationChainId": 10, "failReason": "N/A",
		"refundFailReason": "N/A",
	}
	if l.status == "refund" || l.status == "failure" {
		report["failReason"] = "SLIPPAGE"
	}
	return marshal(l.t, report)
}

// The hash of this test is the id of the order in the provider's documentation.
func TestTheTestsHashIsTheProviders(t *testing.T) {
	t.Parallel()
	answer := readSample(t, "relay-strict")
	v2 := answer["protocol"].(map[string]any)["v2"].(map[string]any)
	order := maps.Clone(v2["orderData"].(map[string]any))
	output := order["output"].(map[string]any)
	output["deadline"] = int(output["deadline"].(float64))
	for _, entry := range order["inputs"].([]any)[0].(map[string]any)["refunds"].([]any) {
		refund := entry.(map[string]any)
		refund["deadline"] = int(refund["deadline"].(float64))
	}
	if got := quotetest.HashRelayOrder(order).Hex(); got != v2["orderId"] {
		t.Errorf("got %s, want %s", got, v2["orderId"])
	}
}
