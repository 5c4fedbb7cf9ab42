package swaps

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/provider/relay"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// The contracts of deposit addresses, as Relay has them on a chain. They are made up.
const (
	relayFactory        = "0xfac0000000000000000000000000000000000001"
	relayImplementation = "0x1e70000000000000000000000000000000000002"
	relayDepositor      = "0xdeb0000000000000000000000000000000000003"
	relayNative         = "0x0000000000000000000000000000000000000000"
)

// relayServer answers as Relay does, and signs its orders as its solver.
type relayServer struct {
	t      *testing.T
	solver *ecdsa.PrivateKey
	clock  func() time.Time

	mu     sync.Mutex
	quotes int
	status string
}

func (s *relayServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, `{"status": %q}`, s.status)
		return
	}
	var ask struct {
		OriginCurrency, DestinationCurrency, Recipient, RefundTo, Amount string
		UseDepositAddress                                                bool
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		s.t.Error(err)
	}
	amount := money.MustParse(ask.Amount)
	out, _ := amount.Bps(9980) // better than the desk
	least, _ := out.Bps(9900)
	currency := func(address string) map[string]any { return map[string]any{"chainId": 1, "address": address} }
	answer := map[string]any{"steps": []any{}}
	if ask.UseDepositAddress {
		s.quotes++
		raw, _ := quotetest.Relay{
			Origin: "ethereum", Destination: "ethereum", OriginCurrency: ask.OriginCurrency,
			DestinationCurrency: ask.DestinationCurrency, AmountIn: amount, AmountOut: out, MinAmountOut: least,
			Recipient: strings.ToLower(ask.Recipient), RefundTo: strings.ToLower(ask.RefundTo), Salt: s.quotes,
			Deadline: s.clock().Add(24 * time.Hour), Factory: relayFactory, Implementation: relayImplementation,
			Depositor: relayDepositor,
		}.Sign(s.t, s.solver)
		if err := json.Unmarshal(raw, &answer); err != nil {
			s.t.Error(err)
		}
		step := answer["steps"].([]any)[0].(map[string]any)
		step["id"], step["kind"] = "deposit", "transaction"
		step["requestId"] = "0x" + hex.EncodeToString(crypto.Keccak256(fmt.Append(nil, s.quotes)))
	}
	answer["details"] = map[string]any{
		"recipient": ask.Recipient, "timeEstimate": 10,
		"currencyIn": map[string]any{"currency": currency(ask.OriginCurrency), "amount": ask.Amount},
		"currencyOut": map[string]any{
			"currency": currency(ask.DestinationCurrency), "amount": out.String(), "minimumAmount": least.String(),
		},
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

func (s *relayServer) says(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// relayPins is what the signer's policy, or the service's configuration, has of Relay.
type relayPins struct{ factory, implementation, depositor, solver string }

// newRelayEnv returns an environment with the adapter of Relay, whose offers are the best. The service and the
// signer know Relay by pins of their own.
func newRelayEnv(t *testing.T, change func(inService, inSigner *relayPins)) (*testEnv, *relayServer) {
	t.Helper()
	e, server := newUnfundedRelay(t, change)
	e.fund("ann", funded)
	return e, server
}

func newUnfundedRelay(t *testing.T, change func(inService, inSigner *relayPins)) (*testEnv, *relayServer) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	inService := relayPins{
		relayFactory, relayImplementation, relayDepositor, crypto.PubkeyToAddress(key.PublicKey).Hex(),
	}
	inSigner := inService
	if change != nil {
		change(&inService, &inSigner)
	}
	policy := signpolicy.SwapProvider{
		Scheme: signedquote.RelayOrderV1, Solvers: []string{inSigner.solver},
		Chains: map[string]signpolicy.SwapChain{"ethereum": {
			VM: signedquote.RelayEthereum, Factory: inSigner.factory, Implementation: inSigner.implementation,
			Depositor: inSigner.depositor,
		}},
		Assets: map[string]string{}, Limits: map[string]signpolicy.Limit{},
	}
	conf := relay.Config{
		Solvers: []string{inService.solver},
		Chains: map[string]*relay.ChainConfig{string(chain.Ethereum): {
			ID: 1, Name: "ethereum", VM: string(signedquote.RelayEthereum), Native: relayNative,
			Factory: inService.factory, Implementation: inService.implementation, Depositor: inService.depositor,
		}},
	}
	for _, contract := range []chain.Address{signertest.Token, signertest.LimitedToken} {
		token := signpolicy.TokenKey(signertest.Chain, contract)
		policy.Assets[token] = "ethereum:" + strings.ToLower(string(contract))
		policy.Limits[token] = signpolicy.Limit{Unlimited: true}
		c := conf.Chains[string(chain.Ethereum)]
		c.Currencies = append(c.Currencies, relay.CurrencyConfig{
			Contract: string(contract), Symbol: "USD", Decimals: 6,
		})
	}
	open := func(
		t testing.TB, grants *signer.GrantKey, clock func() time.Time,
	) (*local.Signer, ed25519.PublicKey) {
		return signertest.OpenWithProvider(t, grants, clock, relay.Name, policy)
	}
	e := newUnfundedWith(t, service.SwapConfig{}, open)
	server := &relayServer{t: t, solver: key, clock: e.clock, status: "waiting"}
	httpServer := httptest.NewServer(server)
	t.Cleanup(httpServer.Close)
	conf.URL = httpServer.URL
	member, err := conf.Open(provider.SectionEnv{Network: chain.Local})
	e.must(err)
	e.further = append(e.further, member)
	e.Harness = e.open(e.db)
	return e, server
}

// What an order of Relay promises is paid to the address that follows from it, and its delivery completes the swap.
func TestAnOrderOfRelayIsPaidAndDelivered(t *testing.T) {
	t.Parallel()
	e, server := newRelayEnv(t, nil)
	w := e.begin()
	if w.Provider != relay.Name || w.EstimatedOut != units(299_400_000) {
		t.Fatalf("the swap is with %s and brings %s", w.Provider, w.EstimatedOut)
	}
	e.pay(w.ID)
	w = e.load(w.ID)
	if got := e.net.Balance(chain.Address(w.DepositAddress), signertest.Token); got != units(amountIn) {
		t.Errorf("the deposit address has %s, want what the order asks for", got)
	}
	server.says("pending")
	e.wait(time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	server.says("success")
	e.deliver(w, 299_400_000)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": 299_400_000, "SWAP_FEES_DUE 1": 750_000})
	if schemes := e.texts(`SELECT scheme FROM swap_offers WHERE swap_id = $1`, w.ID); len(schemes) != 1 ||
		schemes[0] != string(signedquote.RelayOrderV1) {
		t.Errorf("the offer has the schemes %v", schemes)
	}
}

// The output of an order of Relay for an organization is paid to its whitelist.
func TestAnOrderOfRelayForAnOrganizationIsPaidOut(t *testing.T) {
	t.Parallel()
	e, server := newUnfundedRelay(t, nil)
	o := newOwnEnvOf(t, e)
	w := o.requestOwn(o.ownRequest("key"))
	if w.Provider != relay.Name {
		t.Fatalf("the swap is with %s", w.Provider)
	}
	server.says("pending")
	w = o.payOwn(w.ID)
	o.deliver(w, 299_400_000)
	o.wantEnd(w.ID, swap.Completed, "")
	o.wantVault(299_400_000)
}

// A refund of Relay comes to the refund wallet, and is counted.
func TestARefundOfRelayIsCounted(t *testing.T) {
	t.Parallel()
	e, server := newRelayEnv(t, nil)
	w := e.paid()
	server.says("refund")
	e.refund(w, amountIn)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
}

// An order of Relay may refund on both chains: the output currency at the refund wallet is a stray for the operator,
// and no reason to suspend Relay. At the delivery wallet another asset is one.
func TestARefundOfRelayInTheOutputCurrencySuspendsNoOne(t *testing.T) {
	t.Parallel()
	e, _ := newRelayEnv(t, nil)
	w := e.paid()
	if w.Provider != relay.Name {
		t.Fatalf("the swap is with %s", w.Provider)
	}
	e.arrive(w.RefundWalletID, euros, 299_400_000)
	e.wantStrays("OTHER_ASSET")
	if e.suspension() != "" {
		t.Fatalf("Relay is suspended for a refund: %s", e.suspension())
	}
	e.arrive(w.DeliveryWalletID, dollars, strayLeast)
	if e.suspension() == "" {
		t.Error("another asset at the delivery wallet does not suspend Relay")
	}
}

// The signer reads an order by pins of its own. Without the contracts of the chain, or with others, or with
// another solver, it pays nothing, and the amount is the customer's again.
func TestTheSignerPaysRelayByItsOwnPinsAlone(t *testing.T) {
	t.Parallel()
	stranger, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(_, inSigner *relayPins){
		"no contracts":      func(_, p *relayPins) { p.factory, p.implementation, p.depositor = "", "", "" },
		"another factory":   func(_, p *relayPins) { p.factory = "0xfac0000000000000000000000000000000000009" },
		"another depositor": func(_, p *relayPins) { p.depositor = "0xdeb0000000000000000000000000000000000009" },
		"another solver":    func(_, p *relayPins) { p.solver = crypto.PubkeyToAddress(stranger.PublicKey).Hex() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := newRelayEnv(t, change)
			w := e.begin()
			if w.Provider != relay.Name {
				t.Fatalf("the swap is with %s", w.Provider)
			}
			e.pass(3)
			e.wantReason(w.ID, swap.OriginTxFailed)
			if got := e.net.Balance(chain.Address(w.DepositAddress), signertest.Token); !got.IsZero() {
				t.Errorf("the deposit address has %s, want nothing", got)
			}
		})
	}
}

// Without the contracts in its configuration the service takes no offer of Relay for a payment, and with another
// solver it suspends Relay. The next provider gets the swap.
func TestTheServiceTakesNoOrderThatItCannotVerify(t *testing.T) {
	t.Parallel()
	stranger, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change      func(inService, _ *relayPins)
		isSuspended bool
	}{
		"no contracts":   {func(p, _ *relayPins) { p.factory, p.implementation, p.depositor = "", "", "" }, false},
		"another solver": {func(p, _ *relayPins) { p.solver = crypto.PubkeyToAddress(stranger.PublicKey).Hex() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := newRelayEnv(t, c.change)
			w := e.begin()
			if w.Provider != e.desk.name {
				t.Errorf("the swap is with %s", w.Provider)
			}
			if isSuspended := e.suspension() != ""; isSuspended != c.isSuspended {
				t.Errorf("suspended: %q, want %v", e.suspension(), c.isSuspended)
			}
		})
	}
}

// A limit holds for Relay like for any provider. Rule SWAP-40.
func TestRelayHasALimit(t *testing.T) {
	t.Parallel()
	e, _ := newRelayEnv(t, nil)
	e.further[0].OutstandingUSDMax = new(money.MustParseUSD("299"))
	e.Harness = e.open(e.db)
	if w := e.begin(); w.Provider != e.desk.name {
		t.Errorf("the swap is with %s, want the other provider", w.Provider)
	}
	e.desk.set(func() { e.desk.dry = func(provider.Ask) error { return provider.Refused(e.desk.name, "no") } })
	r := request("two")
	r.AmountIn = fmt.Sprint(301 * million)
	_, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.wantFault(err, fault.CodeUnavailable)
	r.AmountIn = fmt.Sprint(299 * million)
	if w := e.requestSwap(r); w.Provider != relay.Name {
		t.Errorf("the swap is with %s, want Relay up to its limit", w.Provider)
	}
}
