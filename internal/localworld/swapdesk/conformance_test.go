package swapdesk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/provider/oneclick"
	"github.com/cofferpay/coffer/internal/swap/provider/providertest"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// The desk and the adapter with which the service asks real providers keep the promises of the port.
func TestTheDeskIsAProviderForTheServicesOwnAdapter(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Lab { return newLab(t) })
}

// A flexible quote is verified like one with exact input: what is forged is no offer, and what is genuine has
// bounds around the amount that was asked about.
func TestAFlexibleQuoteIsVerifiedLikeAnExactOne(t *testing.T) {
	t.Parallel()
	for _, forgery := range newLab(t).Forgeries() {
		if forgery == providertest.Flexible || forgery == providertest.OtherAmount {
			continue // both are what the question leaves open
		}
		l := newLab(t)
		l.Forge(forgery)
		if offer, err := l.Provider().Quote(t.Context(), l.flexibleAsk()); !errors.Is(err, provider.ErrUntrusted) {
			t.Errorf("%s: got %+v and %v, want it not to be trusted", forgery, offer, err)
		}
	}
	l := newLab(t)
	offer, err := l.Provider().Quote(t.Context(), l.flexibleAsk())
	if err != nil {
		t.Fatal(err)
	}
	q := offer.Signed
	if !q.IsFlexible || q.AmountIn.String() != oneETH || q.MinAmountIn.String() != "990000000000000000" ||
		q.AmountOut.String() != quotedUSDC || q.Recipient != "SOLANA-delivery" || q.DepositAddress == "" {
		t.Errorf("got %+v, want the terms of the question", q)
	}
	// The stored bytes prove the same later, without the desk.
	if again, err := signedquote.VerifyOneClick(offer.Raw, l.bench.keys()); err != nil ||
		again.DepositAddress != q.DepositAddress || !again.IsFlexible {
		t.Errorf("got %+v and %v, want the same quote", again, err)
	}
}

// What came of a flexible quote has the same statuses as the adapter knows, and the payments by their hashes.
func TestEveryModeOfAFlexibleSwapIsReported(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]provider.Status{
		"none": provider.Success, "refund": provider.Refunded, "fail": provider.Failed, "stall": provider.Processing,
		"short": provider.Success, "split": provider.Success, "double": provider.Success, "over": provider.Success,
		"late": provider.Failed, "other-token": provider.Success, "lie-success": provider.Success,
		"lie-refunded": provider.Refunded, "refund-other": provider.Refunded,
	} {
		l := newLab(t)
		l.bench.behave(map[string]any{"mode": mode, "next": 1, "asset": "local:ethereum:native"})
		offer, err := l.Provider().Quote(t.Context(), l.flexibleAsk())
		if err != nil {
			t.Fatal(err)
		}
		ref := provider.Ref{DepositAddress: offer.Signed.DepositAddress, SignedQuote: offer.Raw}
		l.bench.eth.deposit(ref.DepositAddress, money.MustParse("2000000000000000000"), l.bench.now)
		l.bench.step()
		report, err := l.Provider().Status(t.Context(), ref, "")
		if err != nil || report.Status != want || len(report.OriginTxs) != 1 ||
			report.OriginTxs[0] != "ETHEREUM-in-1" {
			t.Errorf("%s: got %+v and %v, want %s with the payment", mode, report, err, want)
		}
	}
}

// A behaviour, a price and a sum may be those of an asset that the service's catalogue does not have.
func TestAnAssetWithoutAMintIsControlledByItsID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const link = "local:ethereum:0xLINK"
	b.eth.balances["0xLINK"] = money.MustParse("1000000000000000000000")
	put := func(path string, body map[string]any) int {
		status, _ := b.call(http.MethodPut, b.ctl.URL+path, body)
		return status
	}
	if status := put("/behaviour", map[string]any{"mode": "refund", "asset": "local:ethereum:0xNONE"}); status != 404 {
		t.Errorf("got %d for a behaviour of an asset that the desk does not have", status)
	}
	b.behave(map[string]any{"mode": "refund", "asset": link})
	q := b.verified(nil) // of ETH
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	if s := b.status(q.DepositAddress); s.Status != "SUCCESS" {
		t.Errorf("got %+v, want a swap of another asset to be served", s)
	}
	for _, body := range []map[string]any{
		{"price": "1.00"}, {"mint": 0, "price": "1.00"}, {"asset": "x", "price": "1.00"},
	} {
		if status := put("/prices", body); status != http.StatusNotFound {
			t.Errorf("got %d for the price %v", status, body)
		}
	}
	if status := put("/prices", map[string]any{"asset": link, "price": "20.00"}); status != http.StatusOK {
		t.Errorf("got %d for a price by its id", status)
	}
	flexible := b.verified(map[string]any{
		"swapType": "FLEX_INPUT", "originAsset": link, "amount": "10000000000000000000",
	})
	if flexible.AmountOut.String() != "199350000" { // $200 less 0.2 % and $0.25
		t.Errorf("got %s for 10 LINK, want 199.35 USDC", flexible.AmountOut)
	}
	b.eth.deposit(flexible.DepositAddress, flexible.AmountIn, b.now)
	b.step()
	if s := b.status(flexible.DepositAddress); s.Status != "REFUNDED" {
		t.Errorf("got %+v, want a refund", s)
	}
	list := b.transfers()
	for _, total := range list.Totals {
		if total.AssetID == link &&
			(total.Mint != 0 || total.Received != flexible.AmountIn || total.Refunded.IsZero()) {
			t.Errorf("got %+v, want what came and went of it", total)
		}
	}
}

// What is too little for a flexible quote waits for the rest until the deadline, or until the desk is told not
// to wait.
func TestTooLittleGoesBackWhenTheDeskIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.verified(map[string]any{"swapType": "FLEX_INPUT"})
	empty := b.verified(map[string]any{"swapType": "FLEX_INPUT"})
	b.eth.deposit(q.DepositAddress, money.MustParse("500000000000000000"), b.now)
	b.step()
	if s := b.status(q.DepositAddress); s.Status != "INCOMPLETE_DEPOSIT" {
		t.Errorf("got %+v", s)
	}
	_, answer := b.call(http.MethodPost, b.ctl.URL+"/release", map[string]any{})
	if !bytes.Contains(answer, []byte(q.DepositAddress)) || bytes.Contains(answer, []byte(empty.DepositAddress)) {
		t.Errorf("got %s released, want the swap that has a deposit", answer)
	}
	b.step()
	b.wantPayments(map[string]int{"ETHEREUM 499916666666666667  to ETHEREUM-refund": 1})
	if s := b.status(q.DepositAddress); s.Status != "REFUNDED" {
		t.Errorf("got %+v", s)
	}
}

// deskLab is the desk behind a listener that changes its answers, and the adapter that asks it.
type deskLab struct {
	bench    *bench
	provider provider.Provider

	mu      sync.Mutex
	status  *string
	refusal *string
	fault   providertest.Fault
	arrived chan<- struct{}
	forgery providertest.Forgery
}

func newLab(t *testing.T) *deskLab {
	t.Helper()
	l := &deskLab{bench: newBench(t)}
	server := httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(server.Close)
	client, err := httpjson.NewClient(server.URL, oneclick.AnswerBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	l.provider = oneclick.New(client, seal.NewSecret(""), l.bench.keys(), nil, false)
	return l
}

func (l *deskLab) Provider() provider.Provider { return l.provider }
func (l *deskLab) IsFlexible() bool            { return true }

func (l *deskLab) Ask() provider.Ask {
	return provider.Ask{
		IsFirm: true, Origin: provider.Token{Chain: chain.Ethereum},
		Destination: provider.Token{Chain: chain.Solana, Contract: usdc}, AmountIn: money.MustParse(oneETH),
		Recipient: "SOLANA-delivery", RefundTo: "ETHEREUM-refund", SlippageBps: 100,
		Deadline: l.bench.now.Add(30 * time.Minute), Reference: "ds_1",
	}
}

func (l *deskLab) flexibleAsk() provider.Ask {
	ask := l.Ask()
	ask.IsFlexible = true
	return ask
}

func (l *deskLab) Addresses() int {
	l.bench.t.Helper()
	_, answer := l.bench.call(http.MethodGet, l.bench.ctl.URL+"/swaps", nil)
	var list struct{ Swaps []swapdesk.SwapInfo }
	if err := json.Unmarshal(answer, &list); err != nil {
		l.bench.t.Fatal(err)
	}
	return len(list.Swaps)
}

func (l *deskLab) Statuses() map[string]provider.Status {
	return map[string]provider.Status{
		"PENDING_DEPOSIT": provider.Waiting, "KNOWN_DEPOSIT_TX": provider.Waiting,
		"INCOMPLETE_DEPOSIT": provider.Incomplete, "PROCESSING": provider.Processing,
		"SUCCESS": provider.Success, "REFUNDED": provider.Refunded, "FAILED": provider.Failed,
	}
}

func (l *deskLab) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *deskLab) SetStatus(status string) { l.set(func() { l.status = &status }) }
func (l *deskLab) Refuse(message string)   { l.set(func() { l.refusal = &message }) }
func (l *deskLab) Break(fault providertest.Fault, arrived chan<- struct{}) {
	l.set(func() { l.fault, l.arrived = fault, arrived })
}
func (l *deskLab) Forge(f providertest.Forgery) { l.set(func() { l.forgery = f }) }

func (*deskLab) Forgeries() []providertest.Forgery {
	return []providertest.Forgery{
		providertest.OtherRecipient, providertest.OtherRefund, providertest.OtherAmount, providertest.OtherOrigin,
		providertest.OtherDestination, providertest.MoreSlippage, providertest.Memo, providertest.Flexible,
		providertest.OtherKey, providertest.NoSignature, providertest.OtherAddress,
	}
}

// serve answers as the desk does, with the changes of the test.
func (l *deskLab) serve(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isQuote := r.URL.Path == "/v0/quote"
	recorder := httptest.NewRecorder()
	switch {
	case isQuote && l.refusal != nil:
		recorder.Code = http.StatusBadRequest
		l.write(recorder.Body, map[string]any{"message": *l.refusal, "statusCode": 400})
	default:
		l.bench.desk.API().ServeHTTP(recorder, r)
	}
	status, answer := recorder.Code, recorder.Body.Bytes()
	switch {
	case isQuote && status == http.StatusCreated && l.forgery != "":
		answer = l.change(answer, l.forge)
	case r.URL.Path == "/v0/status" && status == http.StatusOK && l.status != nil:
		answer = l.change(answer, func(report map[string]any) { report["status"] = *l.status })
	}
	if l.fault == providertest.Hang {
		l.arrived <- struct{}{}
		l.mu.Unlock()
		<-r.Context().Done()
		l.mu.Lock()
		return
	}
	kind, status, body := l.fault.Apply(status, string(answer))
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (l *deskLab) write(w io.Writer, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		l.bench.t.Error(err)
	}
}

// change changes the members of an answer.
func (l *deskLab) change(answer []byte, change func(map[string]any)) []byte {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		l.bench.t.Error(err)
		return answer
	}
	change(members)
	var changed bytes.Buffer
	l.write(&changed, members)
	return changed.Bytes()
}

// forge changes a quote and signs it again.
func (l *deskLab) forge(answer map[string]any) {
	request, quote := answer["quoteRequest"].(map[string]any), answer["quote"].(map[string]any)
	key := l.bench.desk.SigningKey()
	switch l.forgery {
	case providertest.OtherRecipient:
		request["recipient"] = "SOLANA-stranger"
	case providertest.OtherRefund:
		request["refundTo"] = "ETHEREUM-stranger"
	case providertest.OtherAmount:
		request["amount"], quote["amountIn"], quote["minAmountIn"] = "1", "1", "1"
	case providertest.OtherOrigin:
		request["originAsset"] = "local:bitcoin:native"
	case providertest.OtherDestination:
		request["destinationAsset"] = "local:solana:native"
	case providertest.MoreSlippage:
		request["slippageTolerance"] = json.Number("101")
	case providertest.Memo:
		quote["depositMemo"] = "tag"
	case providertest.Flexible:
		request["swapType"] = "FLEX_INPUT"
	case providertest.OtherKey:
		key = quotetest.NewOneClickKey(l.bench.t)
	}
	quotetest.SignOneClick(l.bench.t, key, answer)
	switch l.forgery {
	case providertest.NoSignature:
		answer["signature"] = ""
	case providertest.OtherAddress:
		quote["depositAddress"] = "ETHEREUM-stranger"
	}
}
