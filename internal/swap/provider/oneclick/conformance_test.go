package oneclick

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
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
	bitcoinAsset = "nep141:btc.omft.near"
	tetherAsset  = "nep141:eth-0xdac17f958d2ee523a2206206994597c13d831ec7.omft.near"
	tetherToken  = "0xdAC17F958D2ee523a2206206994597C13D831ec7"

	bitcoinEntry = `{"assetId":"` + bitcoinAsset + `","decimals":8,"blockchain":"btc",` +
		`"symbol":"BTC","price":62376.1,` +
		`"priceUpdatedAt":"2026-06-23T17:10:00Z","contractAddress":null,"coingeckoId":"bitcoin"}`
	tetherEntry = `{"assetId":"` + tetherAsset + `","decimals":6,"blockchain":"eth",` +
		`"symbol":"USDT","price":0.9989,` +
		`"priceUpdatedAt":"2026-06-23T17:10:00Z","contractAddress":"` + tetherToken + `"}`
	tonEntry = `{"assetId":"nep245:v2_1.omni.hot.tg:1117_","decimals":9,"blockchain":"ton",` +
		`"symbol":"TON","price":1.5,` +
		`"priceUpdatedAt":"2026-06-23T17:10:00Z"}`
)

// lab is a service that signs as 1Click does, with a key of its own.
type lab struct {
	t        *testing.T
	provider *Provider
	private  ed25519.PrivateKey

	mu        sync.Mutex
	tokens    string
	addresses int
	status    string
	refusal   *string
	fault     providertest.Fault
	arrived   chan<- struct{}
	forgery   providertest.Forgery
	change    func(answer map[string]any) // before signing
	after     func(answer map[string]any) // after signing
	requests  []string
	bodies    []string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, private: private, tokens: "[" + bitcoinEntry + "," + tetherEntry + "," + tonEntry + "]"}
	server := httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(server.Close)
	client, err := httpjson.NewClient(server.URL, AnswerBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	l.provider = New(client, seal.NewSecret("token"), []ed25519.PublicKey{public}, nil, false)
	return l
}

func (l *lab) Provider() provider.Provider { return l.provider }
func (l *lab) IsFlexible() bool            { return true }

func (l *lab) Ask() provider.Ask {
	return provider.Ask{
		IsFirm: true, Origin: provider.Token{Chain: chain.Bitcoin},
		Destination: provider.Token{Chain: chain.Ethereum, Contract: tetherToken},
		AmountIn:    money.Units(10_000), Recipient: "0xcac3C41676deF4FE375E57118f3eB83A99105577",
		RefundTo: "bc1q6mte80265ghwq4vsrpm9lnaz46uvdreu9z8wly", SlippageBps: 100,
		Deadline: time.Date(2026, 6, 23, 19, 0, 0, 0, time.UTC), Reference: "cs_1",
	}
}

func (l *lab) Addresses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addresses
}

func (l *lab) Statuses() map[string]provider.Status {
	return map[string]provider.Status{
		"PENDING_DEPOSIT": provider.Waiting, "KNOWN_DEPOSIT_TX": provider.Waiting,
		"INCOMPLETE_DEPOSIT": provider.Incomplete, "PROCESSING": provider.Processing,
		"SUCCESS": provider.Success, "REFUNDED": provider.Refunded, "FAILED": provider.Failed,
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
		providertest.OtherDestination, providertest.MoreSlippage, providertest.Memo, providertest.Flexible,
		providertest.OtherKey, providertest.NoSignature, providertest.OtherAddress,
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
	if r.Header.Get("Authorization") != "Bearer token" {
		l.t.Errorf("got the header %q, want the key", r.Header.Get("Authorization"))
	}
	status, answer := 200, ""
	switch r.Method + " " + r.URL.Path {
	case "GET /v0/tokens":
		answer = l.tokens
	case "POST /v0/quote":
		status, answer = l.quote(body)
	case "GET /v0/status":
		answer = l.report(r.URL.Query().Get("depositAddress"))
	case "POST /v0/deposit/submit":
		status, answer = 201, l.report("")
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
		text, err := json.Marshal(map[string]any{"message": *l.refusal})
		if err != nil {
			l.t.Error(err)
		}
		return 400, string(text)
	}
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		l.t.Error(err)
	}
	isDry := request["dry"] == true
	quote := map[string]any{
		"amountIn": request["amount"], "amountInFormatted": "0.0001", "amountInUsd": "6.237600000000",
		"minAmountIn": request["amount"], "amountOut": "5931560", "amountOutFormatted": "5.93156",
		"amountOutUsd": "5.925171709880", "minAmountOut": "5872244", "timeEstimate": 812, "refundFee": "1900",
		"withdrawFee": "300000",
	}
	if !isDry {
		l.addresses++
		quote["depositAddress"] = fmt.Sprintf("bc1q873cxltdc560dth6tpwqpehq9uvhxxcdgwn%03d", l.addresses)
		quote["deadline"] = "2026-06-26T19:00:00.000Z"
		quote["timeWhenInactive"] = "2026-06-26T19:00:00.000Z"
	}
	answer := map[string]any{
		"correlationId": "d4f1b110", "timestamp": "2026-06-23T17:10:41.104Z", "quoteRequest": request,
		"quote": quote,
	}
	l.forge(request, quote)
	if l.change != nil {
		l.change(answer)
	}
	l.sign(answer)
	switch l.forgery {
	case providertest.NoSignature:
		answer["signature"] = ""
	case providertest.OtherAddress:
		quote["depositAddress"] = "bc1q873cxltdc560dth6tpwqpehq9uvhxxcdgwnmnw"
	}
	if l.after != nil {
		l.after(answer)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		l.t.Error(err)
	}
	return 201, string(text)
}

func (l *lab) forge(request, quote map[string]any) {
	switch l.forgery {
	case providertest.OtherRecipient:
		request["recipient"] = "0x0000000000000000000000000000000000000001"
	case providertest.OtherRefund:
		request["refundTo"] = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	case providertest.OtherAmount:
		request["amount"], quote["amountIn"], quote["minAmountIn"] = "10001", "10001", "10001"
	case providertest.OtherOrigin:
		request["originAsset"] = "nep141:zec.omft.near"
	case providertest.OtherDestination:
		request["destinationAsset"] = "nep141:scam.near"
	case providertest.MoreSlippage:
		request["slippageTolerance"] = 101
	case providertest.Memo:
		quote["depositMemo"] = "tag"
	case providertest.Flexible:
		request["swapType"] = "FLEX_INPUT"
	}
}

// sign signs as the provider does.
func (l *lab) sign(answer map[string]any) {
	key := l.private
	if l.forgery == providertest.OtherKey {
		key = quotetest.NewOneClickKey(l.t)
	}
	quotetest.SignOneClick(l.t, key, answer)
}

func (l *lab) report(address string) string {
	text, err := json.Marshal(map[string]any{
		"correlationId": "a60bbb06", "status": l.status, "updatedAt": "2026-06-23T17:20:00.000Z",
		"quoteResponse": map[string]any{"quote": map[string]any{"depositAddress": address, "depositMemo": nil}},
		"swapDetails": map[string]any{
			"intentHashes": []string{"h"}, "nearTxHashes": []string{}, "amountIn": "10000", "amountOut": "9",
			"originChainTxHashes":      []any{map[string]any{"hash": "0xaa", "explorerUrl": ""}},
			"destinationChainTxHashes": []any{map[string]any{"hash": "3exJVjCE", "explorerUrl": "https://x"}},
			"refundedAmount":           "9999999999", "refundReason": "PRICE\nMOVED", "referral": nil,
		},
	})
	if err != nil {
		l.t.Error(err)
	}
	return string(text)
}
