package swapdesk_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// scriptedChain is a chain whose blocks are what a test says. Its addresses begin with its name.
type scriptedChain struct {
	name chain.Name
	seed swapdesk.Seed
	// kin says that the addresses of another chain count as addresses of this one, too.
	kin chain.Name

	mu       sync.Mutex
	height   uint64
	arrivals map[uint64][]swapdesk.Arrival
	balances map[string]money.Amount
	signings int
	sent     map[string]swapdesk.Payment // by hash, what the chain has
	raw      map[string][]swapdesk.Signed
	outcomes map[string]swapdesk.Outcome
	deaf     bool // SendPayment fails
	outcome  swapdesk.Outcome
}

func newScriptedChain(name chain.Name) *scriptedChain {
	return &scriptedChain{
		name: name, arrivals: map[uint64][]swapdesk.Arrival{}, balances: map[string]money.Amount{},
		sent: map[string]swapdesk.Payment{}, raw: map[string][]swapdesk.Signed{},
		outcomes: map[string]swapdesk.Outcome{}, outcome: swapdesk.Paid,
	}
}

func (c *scriptedChain) Name() chain.Name { return c.name }
func (c *scriptedChain) CloseClient()     {}

func (c *scriptedChain) WalletAddress(n uint32) string { return fmt.Sprintf("%s-desk-%d", c.name, n) }

func (c *scriptedChain) CheckAddress(text string) error {
	if strings.HasPrefix(text, string(c.name)+"-") || c.kin != "" && strings.HasPrefix(text, string(c.kin)+"-") {
		return nil
	}
	return errors.New("another chain's address")
}

func (c *scriptedChain) FinalHeight(context.Context) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.height, nil
}

func (c *scriptedChain) Arrivals(
	_ context.Context, after, end uint64, watches []swapdesk.Watch,
) (found []swapdesk.Arrival, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for height := after + 1; height <= end; height++ {
		for _, a := range c.arrivals[height] {
			for _, w := range watches {
				if w.Address == a.Address {
					found = append(found, a)
				}
			}
		}
	}
	return found, nil
}

func (c *scriptedChain) Balance(_ context.Context, contract string, _ []swapdesk.Signed) (money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.balances[contract], nil
}

func (c *scriptedChain) FeeReserve() money.Amount       { return money.Units(1000) }
func (c *scriptedChain) MinPayment(string) money.Amount { return money.Units(10) }

func (c *scriptedChain) SignPayment(
	_ context.Context, p swapdesk.Payment, pending []swapdesk.Signed,
) (swapdesk.Signed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signings++
	raw, err := json.Marshal(p)
	s := swapdesk.Signed{Hash: fmt.Sprintf("%s-pay-%d", c.name, c.signings), Raw: raw, Slot: uint64(len(pending))}
	return s, err
}

func (c *scriptedChain) SendPayment(_ context.Context, s swapdesk.Signed) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf {
		return errors.New("the chain does not answer")
	}
	var p swapdesk.Payment
	if err := json.Unmarshal(s.Raw, &p); err != nil {
		return err
	}
	c.sent[s.Hash] = p
	c.raw[s.Hash] = append(c.raw[s.Hash], s)
	c.outcomes[s.Hash] = c.outcome
	return nil
}

func (c *scriptedChain) ReadOutcome(_ context.Context, s swapdesk.Signed) (swapdesk.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcomes[s.Hash], nil
}

// deposit pays an address in the next final block.
func (c *scriptedChain) deposit(address string, amount money.Amount, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.height++
	c.arrivals[c.height] = append(c.arrivals[c.height], swapdesk.Arrival{
		Address: address, Hash: fmt.Sprintf("%s-in-%d", c.name, c.height), Amount: amount, Time: at,
	})
}

// payments returns what the chain has, in any order, as text.
func (c *scriptedChain) payments() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := map[string]int{}
	for _, p := range c.sent {
		list[fmt.Sprintf("%s %s to %s", p.Amount, p.Contract, p.Recipient)]++
	}
	return list
}

const (
	usdc = "0xUSDC"
	usdt = "0xUSDT"
)

// bench is a desk on two scripted chains with a clock.
type bench struct {
	t        *testing.T
	path     string
	eth, sol *scriptedChain
	btc      *scriptedChain
	desk     *swapdesk.Server
	api, ctl *httptest.Server // of the live desk: only the URLs
	now      time.Time
	funded   []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		t: t, path: filepath.Join(t.TempDir(), "swaps.json"), eth: newScriptedChain(chain.Ethereum),
		sol: newScriptedChain(chain.Solana), btc: newScriptedChain(chain.Bitcoin),
		now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC),
	}
	for _, c := range []*scriptedChain{b.eth, b.sol, b.btc} {
		for _, contract := range []string{"", usdc, usdt} {
			c.balances[contract] = money.MustParse("1000000000000000000000000")
		}
	}
	b.open()
	t.Cleanup(func() { b.close() })
	return b
}

func assets() []swapdesk.Asset {
	dollar, ether := money.MustParseUSD("1.00"), money.MustParseUSD("3000.00")
	return []swapdesk.Asset{
		{1, chain.Ethereum, "eth", usdc, "USDC", 6, dollar},
		{2, chain.Ethereum, "eth", usdt, "USDT", 6, dollar},
		{4, chain.Ethereum, "eth", "", "ETH", 18, ether},
		{5, chain.Solana, "sol", usdc, "USDC", 6, dollar},
		{7, chain.Solana, "sol", "", "SOL", 9, money.MustParseUSD("150.00")},
		{8, chain.Bitcoin, "btc", "", "BTC", 8, money.MustParseUSD("60000.00")},
		{0, chain.Ethereum, "eth", "0xLINK", "LINK", 18, money.MustParseUSD("15.00")},
	}
}

// open opens the desk with the state that its file has.
func (b *bench) open() {
	b.t.Helper()
	desk, err := swapdesk.New(swapdesk.Config{
		State: b.path, Assets: assets(), DepositWindow: time.Hour, Now: func() time.Time { return b.now },
		Chains: func(seed swapdesk.Seed) ([]swapdesk.Chain, error) {
			b.eth.seed = seed
			return []swapdesk.Chain{b.eth, b.sol, b.btc}, nil
		},
		Fund: func(_ context.Context, a swapdesk.Asset, recipient string, amount money.Amount) error {
			b.funded = append(b.funded, fmt.Sprintf("%s %s to %s", amount, a.ID(), recipient))
			return nil
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.desk = desk
	b.api, b.ctl = httptest.NewServer(desk.API()), httptest.NewServer(desk.Control())
	b.step()
}

func (b *bench) close() {
	b.api.Close()
	b.ctl.Close()
	if err := b.desk.CloseState(); err != nil {
		b.t.Error(err)
	}
}

// reopen ends the desk as a crash does and opens it again.
func (b *bench) reopen() {
	b.t.Helper()
	b.close()
	b.open()
}

// step advances the desk until a planned payment is sent and read.
func (b *bench) step() {
	b.t.Helper()
	for range 3 {
		if err := b.desk.Advance(b.t.Context()); err != nil && !b.eth.deaf && !b.sol.deaf {
			b.t.Fatal(err)
		}
	}
}

// client makes a connection for each call: over an old one it would repeat a call that had no answer.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// newURL stands for a server that has its listener already.
func newURL(url string) *httptest.Server { return &httptest.Server{URL: url} }

// call calls a URL and returns the status with the body.
func (b *bench) call(method, url string, body any) (int, []byte) {
	b.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, url, bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

func (b *bench) behave(behaviour map[string]any) {
	b.t.Helper()
	if status, answer := b.call(http.MethodPut, b.ctl.URL+"/behaviour", behaviour); status != http.StatusOK {
		b.t.Fatalf("got %d %s, want the behaviour to be set", status, answer)
	}
}

// request is a request for a quote of one ETH for USDC on Solana, with changes.
func (b *bench) request(isDry bool, changes map[string]any) map[string]any {
	r := map[string]any{
		"dry": isDry, "depositMode": "SIMPLE", "swapType": "EXACT_INPUT", "slippageTolerance": 100,
		"originAsset": "local:ethereum:native", "depositType": "ORIGIN_CHAIN",
		"destinationAsset": "local:solana:" + usdc, "amount": "1000000000000000000",
		"refundTo": "ETHEREUM-refund", "refundType": "ORIGIN_CHAIN",
		"recipient": "SOLANA-delivery", "recipientType": "DESTINATION_CHAIN",
		"deadline": b.now.Add(30 * time.Minute).Format(time.RFC3339),
	}
	for name, value := range changes {
		r[name] = value
	}
	return r
}

// quote returns a firm quote as it came.
func (b *bench) quote(changes map[string]any) []byte {
	b.t.Helper()
	status, answer := b.call(http.MethodPost, b.api.URL+"/v0/quote", b.request(false, changes))
	if status != http.StatusCreated {
		b.t.Fatalf("got %d %s, want a quote", status, answer)
	}
	return answer
}

func (b *bench) keys() []ed25519.PublicKey {
	b.t.Helper()
	key, err := signedquote.ParseOneClickKey(b.desk.PublicKey())
	if err != nil {
		b.t.Fatal(err)
	}
	return []ed25519.PublicKey{key}
}

// verified returns a firm quote that the desk's key signed.
func (b *bench) verified(changes map[string]any) signedquote.Quote {
	b.t.Helper()
	q, err := signedquote.VerifyOneClick(b.quote(changes), b.keys())
	if err != nil {
		b.t.Fatal(err)
	}
	return q
}

// status is the answer of GET /v0/status.
type status struct {
	Status        string          `json:"status"`
	QuoteResponse json.RawMessage `json:"quoteResponse"`
	SwapDetails   struct {
		OriginChainTxHashes, DestinationChainTxHashes []struct{ Hash string }
		AmountOut, RefundedAmount, DepositedAmount    *string
		RefundReason                                  *string
	} `json:"swapDetails"`
}

func (b *bench) status(address string) (s status) {
	b.t.Helper()
	code, answer := b.call(http.MethodGet, b.api.URL+"/v0/status?depositAddress="+address, nil)
	if code != http.StatusOK {
		b.t.Fatalf("got %d %s, want a status", code, answer)
	}
	if err := json.Unmarshal(answer, &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) transfers() (list swapdesk.Transfers) {
	b.t.Helper()
	_, answer := b.call(http.MethodGet, b.ctl.URL+"/transfers", nil)
	if err := json.Unmarshal(answer, &list); err != nil {
		b.t.Fatal(err)
	}
	return list
}

// wantPayments compares what the three chains have with what is wanted.
func (b *bench) wantPayments(want map[string]int) {
	b.t.Helper()
	got := map[string]int{}
	for _, c := range []*scriptedChain{b.eth, b.sol, b.btc} {
		for p, n := range c.payments() {
			got[string(c.name)+" "+p] += n
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("got the payments %v, want %v", got, want)
	}
}

// One ETH at 3000 dollars, less 20 basis points and a quarter of a dollar, is 2993.75 USDC.
const (
	oneETH     = "1000000000000000000"
	quotedUSDC = "2993750000"
	leastUSDC  = "2963812500" // with a slippage of one percent
	refundFee  = "83333333333333"
	netRefund  = "999916666666666667"
)

func TestAFirmQuoteIsSignedAndItsSwapIsDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	raw := b.quote(nil)
	q, err := signedquote.VerifyOneClick(raw, b.keys())
	if err != nil {
		t.Fatal(err)
	}
	if err := q.CheckTerms(signedquote.Terms{
		OriginAsset: "local:ethereum:native", DestinationAsset: "local:solana:" + usdc,
		AmountIn: money.MustParse(oneETH), Recipient: "SOLANA-delivery", RefundTo: "ETHEREUM-refund",
		SlippageBpsMax: 100,
	}); err != nil {
		t.Error(err)
	}
	if q.AmountOut.String() != quotedUSDC || q.MinAmountOut.String() != leastUSDC ||
		q.RefundFee.String() != refundFee || !q.Deadline.Equal(b.now.Add(90*time.Minute)) ||
		q.AmountInUSD.Cents() != "3000.00" {
		t.Errorf("got %+v", q)
	}
	if bytes.Contains(raw, []byte("null")) {
		t.Errorf("got %s, want no null in a quote", raw)
	}
	if got := b.status(q.DepositAddress).Status; got != "PENDING_DEPOSIT" {
		t.Errorf("got %s before the deposit", got)
	}
	code, answer := b.call(http.MethodPost, b.api.URL+"/v0/deposit/submit", map[string]any{
		"txHash": "0x1", "depositAddress": q.DepositAddress,
	})
	if code != http.StatusCreated || !bytes.Contains(answer, []byte("KNOWN_DEPOSIT_TX")) {
		t.Errorf("got %d %s for the hash", code, answer)
	}
	b.step()
	b.wantPayments(map[string]int{})
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	b.wantPayments(map[string]int{"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1})
	s := b.status(q.DepositAddress)
	if s.Status != "SUCCESS" || *s.SwapDetails.AmountOut != quotedUSDC || s.SwapDetails.RefundedAmount != nil ||
		len(s.SwapDetails.DestinationChainTxHashes) != 1 || len(s.SwapDetails.OriginChainTxHashes) != 1 {
		t.Errorf("got %+v", s)
	}
	// The status has the quote as it was signed, with null for what the request did not have.
	if again, err := signedquote.VerifyOneClick(s.QuoteResponse, b.keys()); err != nil ||
		again.DepositAddress != q.DepositAddress {
		t.Errorf("got %+v, %v for the quote in the status", again, err)
	}
	if !bytes.Contains(s.QuoteResponse, []byte(`"referral":null`)) {
		t.Errorf("got %s, want null for the referral", s.QuoteResponse)
	}
	list := b.transfers()
	if len(list.Transfers) != 2 || list.Totals[2].Received.String() != oneETH ||
		list.Totals[3].Delivered.String() != quotedUSDC || !list.Totals[3].Refunded.IsZero() {
		t.Errorf("got the transfers %+v", list)
	}
	// The optional members are signed as well, or not, as the provider's SDK does it.
	b.verified(map[string]any{
		"quoteWaitingTimeMs": 3000, "referral": "coffer", "appFees": []map[string]any{{"recipient": "x<y", "fee": 1}},
	})
	b.verified(map[string]any{"quoteWaitingTimeMs": 0, "appFees": []any{}})
	// No two quotes have one address.
	if next := b.verified(nil); next.DepositAddress == q.DepositAddress {
		t.Errorf("got the address %s twice", next.DepositAddress)
	}
}

// Each mode, with what reaches the chains after a whole deposit and what the desk says about it.
func TestModesOfASwap(t *testing.T) {
	t.Parallel()
	deliveredOnce := "SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery"
	for mode, test := range map[swapdesk.Mode]struct {
		payments map[string]int
		status   string
	}{
		swapdesk.ModeNone:   {map[string]int{deliveredOnce: 1}, "SUCCESS"},
		swapdesk.ModeRefund: {map[string]int{"ETHEREUM " + netRefund + "  to ETHEREUM-refund": 1}, "REFUNDED"},
		swapdesk.ModeFail:   {map[string]int{}, "FAILED"},
		swapdesk.ModeStall:  {map[string]int{}, "PROCESSING"},
		swapdesk.ModeShort:  {map[string]int{"SOLANA 2667431250 " + usdc + " to SOLANA-delivery": 1}, "SUCCESS"},
		swapdesk.ModeSplit:  {map[string]int{"SOLANA 1496875000 " + usdc + " to SOLANA-delivery": 2}, "SUCCESS"},
		swapdesk.ModeDouble: {map[string]int{deliveredOnce: 2}, "SUCCESS"},
		swapdesk.ModeOver:   {map[string]int{"SOLANA 3592500000 " + usdc + " to SOLANA-delivery": 1}, "SUCCESS"},
		swapdesk.ModeLate:   {map[string]int{}, "FAILED"},
		swapdesk.ModeOtherToken: {
			map[string]int{"SOLANA 19958333333  to SOLANA-delivery": 1}, "SUCCESS",
		},
		swapdesk.ModeOtherChain: {
			map[string]int{"ETHEREUM " + quotedUSDC + " " + usdc + " to ETHEREUM-refund": 1}, "SUCCESS",
		},
		swapdesk.ModeLieSuccess:  {map[string]int{}, "SUCCESS"},
		swapdesk.ModeLieRefunded: {map[string]int{}, "REFUNDED"},
		swapdesk.ModeRefundOther: {
			map[string]int{"ETHEREUM 2999750000 " + usdc + " to ETHEREUM-refund": 1}, "REFUNDED",
		},
		swapdesk.ModePrice: {map[string]int{"SOLANA 2394950000 " + usdc + " to SOLANA-delivery": 1}, "SUCCESS"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.behave(map[string]any{"mode": mode, "next": 1})
			q := b.verified(nil)
			// The next quote is one of the usual kind.
			honest := b.verified(nil)
			b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
			b.step()
			b.wantPayments(test.payments)
			if s := b.status(q.DepositAddress); s.Status != test.status {
				t.Errorf("got %+v, want %s", s, test.status)
			}
			b.reopen()
			b.wantPayments(test.payments)
			if mode == swapdesk.ModeStall || mode == swapdesk.ModeLate {
				if _, answer := b.call(http.MethodPost, b.ctl.URL+"/release", map[string]any{}); !bytes.Contains(
					answer, []byte(q.DepositAddress),
				) {
					t.Errorf("got %s, want the swap to be released", answer)
				}
				b.step()
				b.wantPayments(map[string]int{deliveredOnce: 1})
				if s := b.status(q.DepositAddress); s.Status != "SUCCESS" {
					t.Errorf("got %+v after the release", s)
				}
			}
			s := b.status(honest.DepositAddress)
			if s.Status != "PENDING_DEPOSIT" || honest.AmountOut.String() != quotedUSDC {
				t.Errorf("got %+v, %s for the quote after it", s, honest.AmountOut)
			}
		})
	}
}

func TestALateDeliveryComesAfterItsDelay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.behave(map[string]any{"mode": "late", "delay": "90s"})
	q := b.verified(nil)
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	b.now = b.now.Add(89 * time.Second)
	b.step()
	b.wantPayments(map[string]int{})
	b.now = b.now.Add(time.Second)
	b.step()
	b.wantPayments(map[string]int{"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1})
}

func TestModesOfAQuote(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.behave(map[string]any{"mode": "bad-signature", "next": 1})
	if _, err := signedquote.VerifyOneClick(b.quote(nil), b.keys()); !errors.Is(err, signedquote.ErrUnsigned) {
		t.Errorf("bad-signature: got %v", err)
	}
	terms := signedquote.Terms{
		OriginAsset: "local:ethereum:native", DestinationAsset: "local:solana:" + usdc,
		AmountIn: money.MustParse(oneETH), Recipient: "SOLANA-delivery", RefundTo: "ETHEREUM-refund",
		SlippageBpsMax: 100,
	}
	b.behave(map[string]any{"mode": "other-recipient", "next": 1})
	q := b.verified(nil)
	if err := q.CheckTerms(terms); !errors.Is(err, signedquote.ErrOtherTerms) || q.Recipient == terms.Recipient {
		t.Errorf("other-recipient: got %v, %+v", err, q)
	}
	// A payment of it nevertheless has paid the third party.
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	b.wantPayments(map[string]int{"SOLANA " + quotedUSDC + " " + usdc + " to " + q.Recipient: 1})

	b.behave(map[string]any{"mode": "our-address", "next": 1})
	if q := b.verified(nil); q.DepositAddress != terms.RefundTo {
		t.Errorf("our-address: got the deposit address %s", q.DepositAddress)
	}
	if err := b.verified(nil).CheckTerms(terms); err != nil {
		t.Errorf("got %v after all modes were taken", err)
	}
	// A dry quote has the usual price, and the firm one after it does not.
	b.behave(map[string]any{"mode": "price"})
	_, dry := b.call(http.MethodPost, b.api.URL+"/v0/quote", b.request(true, nil))
	if !bytes.Contains(dry, []byte(`"amountOut":"`+quotedUSDC+`"`)) || bytes.Contains(dry, []byte("depositAddress")) {
		t.Errorf("got the dry quote %s", dry)
	}
	if q := b.verified(nil); q.AmountOut.String() != "2394950000" {
		t.Errorf("got the firm amount %s", q.AmountOut)
	}
	// The mint restricts a behaviour.
	b.behave(map[string]any{"mode": "price", "mint": 8})
	if q := b.verified(nil); q.AmountOut.String() != quotedUSDC {
		t.Errorf("got %s for another mint than that of the behaviour", q.AmountOut)
	}
}

func TestTheRecipientOnAnotherChain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.btc.kin = chain.Solana
	b.behave(map[string]any{"mode": "other-chain", "next": 1})
	q := b.verified(nil)
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	b.wantPayments(map[string]int{"BITCOIN 4989583  to SOLANA-delivery": 1})
	// Nothing else than the quoted asset is there to deliver from Bitcoin to Bitcoin's own chain.
	b.behave(map[string]any{"mode": "other-token", "next": 1})
	status, answer := b.call(http.MethodPost, b.api.URL+"/v0/quote", b.request(false, map[string]any{
		"destinationAsset": "local:bitcoin:native", "recipient": "BITCOIN-delivery",
	}))
	if status != http.StatusBadRequest || !bytes.Contains(answer, []byte("other-token")) {
		t.Errorf("got %d %s", status, answer)
	}
}

func TestShortLateAndSecondDepositsComeBack(t *testing.T) {
	t.Parallel()
	half, quarter := money.MustParse("500000000000000000"), money.MustParse("250000000000000000")
	t.Run("short", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		q := b.verified(nil)
		b.eth.deposit(q.DepositAddress, half, b.now)
		b.step()
		s := b.status(q.DepositAddress)
		if s.Status != "INCOMPLETE_DEPOSIT" || *s.SwapDetails.DepositedAmount != half.String() {
			t.Errorf("got %+v", s)
		}
		b.now = b.now.Add(31 * time.Minute) // the deadline that was asked for
		b.step()
		b.wantPayments(map[string]int{"ETHEREUM 499916666666666667  to ETHEREUM-refund": 1})
		s = b.status(q.DepositAddress)
		if s.Status != "REFUNDED" || *s.SwapDetails.RefundedAmount != "499916666666666667" ||
			*s.SwapDetails.RefundReason != "PARTIAL_DEPOSIT" {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("in two parts", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		q := b.verified(nil)
		b.eth.deposit(q.DepositAddress, half, b.now)
		b.step()
		b.eth.deposit(q.DepositAddress, half, b.now)
		b.step()
		b.wantPayments(map[string]int{"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1})
	})
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		q := b.verified(nil)
		b.eth.deposit(q.DepositAddress, q.AmountIn, q.Deadline.Add(time.Second))
		b.step()
		b.wantPayments(map[string]int{"ETHEREUM " + netRefund + "  to ETHEREUM-refund": 1})
		s := b.status(q.DepositAddress)
		if s.Status != "REFUNDED" || *s.SwapDetails.RefundReason != "DEADLINE_EXCEEDED" {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("second", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		q := b.verified(nil)
		b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
		b.step()
		b.eth.deposit(q.DepositAddress, quarter, b.now)
		b.step()
		b.wantPayments(map[string]int{
			"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1,
			"ETHEREUM 249916666666666667  to ETHEREUM-refund":           1,
		})
		if s := b.status(q.DepositAddress); s.Status != "SUCCESS" {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("more than quoted", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		q := b.verified(nil)
		b.eth.deposit(q.DepositAddress, money.MustParse("1250000000000000000"), b.now)
		b.step()
		b.wantPayments(map[string]int{
			"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1,
			"ETHEREUM 249916666666666667  to ETHEREUM-refund":           1,
		})
	})
	t.Run("less than the fee", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		q := b.verified(nil)
		b.eth.deposit(q.DepositAddress, money.MustParse(refundFee), b.now)
		b.now = b.now.Add(31 * time.Minute)
		b.step()
		b.wantPayments(map[string]int{})
		if s := b.status(q.DepositAddress); s.Status != "FAILED" {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("flexible", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		q := b.verified(map[string]any{"swapType": "FLEX_INPUT"})
		if !q.IsFlexible || q.MinAmountIn.String() != "990000000000000000" {
			t.Errorf("got %+v", q)
		}
		b.eth.deposit(q.DepositAddress, money.MustParse("2000000000000000000"), b.now)
		b.step()
		b.wantPayments(map[string]int{"SOLANA 5987500000 " + usdc + " to SOLANA-delivery": 1})
	})
}

func TestADeliveryThatTheChainRefusesIsRefunded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sol.outcome = swapdesk.Reverted
	q := b.verified(nil)
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	b.step()
	if s := b.status(q.DepositAddress); s.Status != "REFUNDED" || *s.SwapDetails.RefundReason != "DELIVERY_FAILED" {
		t.Errorf("got %+v", s)
	}
	list := b.transfers()
	if got := list.Totals[2].Refunded.String(); got != netRefund || !list.Totals[3].Delivered.IsZero() {
		t.Errorf("got %+v", list)
	}
}

// A crash after a payment was signed, and one after it was sent, end in the same bytes, never in others.
func TestARestartPaysNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.desk.PublicKey()
	q := b.verified(nil)
	b.sol.deaf, b.sol.outcome = true, swapdesk.Waiting
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	if b.sol.signings != 1 || len(b.sol.sent) != 0 {
		t.Fatalf("got %d signed and %v, want one that was not sent", b.sol.signings, b.sol.sent)
	}
	b.reopen()
	b.sol.deaf = false
	for range 3 {
		b.now = b.now.Add(3 * time.Second)
		b.step()
		b.reopen()
	}
	if b.sol.signings != 1 || len(b.sol.raw) != 1 {
		t.Fatalf("got %d signed and %v, want one payment", b.sol.signings, b.sol.raw)
	}
	copies := b.sol.raw["SOLANA-pay-1"]
	for _, s := range copies {
		if !bytes.Equal(s.Raw, copies[0].Raw) {
			t.Errorf("got other bytes, %s", s.Raw)
		}
	}
	if len(copies) < 3 {
		t.Errorf("got %d sendings, want the bytes again after each restart", len(copies))
	}
	b.sol.outcomes["SOLANA-pay-1"] = swapdesk.Paid
	b.step()
	b.reopen()
	if s := b.status(q.DepositAddress); s.Status != "SUCCESS" {
		t.Errorf("got %+v", s)
	}
	if got := b.desk.PublicKey(); got != key {
		t.Errorf("got the key %s, want %s", got, key)
	}
	if next := b.verified(nil); next.DepositAddress == q.DepositAddress {
		t.Error("got an address again after a restart")
	}
	// Blocks that are read again, as after a crash before their cursor was stored, change nothing.
	b.eth.arrivals[b.eth.height+1] = b.eth.arrivals[b.eth.height]
	b.eth.height++
	b.step()
	if got := b.transfers(); len(got.Transfers) != 2 {
		t.Errorf("got %+v, want one deposit and one delivery", got)
	}
}

func TestAPaymentThatExpiredIsSignedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sol.outcome = swapdesk.Expired
	q := b.verified(nil)
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	if err := errors.Join(b.desk.Advance(t.Context()), b.desk.Advance(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.sol.outcome = swapdesk.Paid
	b.step()
	if b.sol.signings != 2 {
		t.Errorf("got %d signed payments, want two", b.sol.signings)
	}
	if s := b.status(q.DepositAddress); s.Status != "SUCCESS" || len(b.transfers().Transfers) != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestTheFaucetFillsTheWallet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sol.balances[usdc], b.sol.balances[""] = money.Zero, money.Units(999)
	q := b.verified(nil)
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	b.step()
	if len(b.funded) != 2 || b.sol.signings != 0 {
		t.Fatalf("got %v and %d signed, want both assets once and no payment", b.funded, b.sol.signings)
	}
	for _, text := range b.funded {
		if text != "10000 local:solana:native to SOLANA-desk-0" &&
			text != "29937500000 local:solana:"+usdc+" to SOLANA-desk-0" {
			t.Errorf("got %s", text)
		}
	}
	b.sol.balances[usdc], b.sol.balances[""] = q.AmountOut, money.Units(1000)
	b.step()
	b.wantPayments(map[string]int{"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1})
}
