package payerpages

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
)

const (
	checkoutID = "co_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	otherID    = "co_01J9ZW3M8Q4S5T6V7W8X9YZABD"
	evmAddress = "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"
	usdcOnBase = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	evmHash    = "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"
)

// fakeCheckouts is a feature with one checkout.
type fakeCheckouts struct {
	mu       sync.Mutex
	view     View
	opened   []int
	openErr  error
	err      error // of every other call
	finding  Finding
	receipt  []byte
	searches []string
	versions int // how often the version was asked for

	requests []WalletRequest
	unsigned []byte         // the transaction for wallets
	problem  *WalletProblem // or why there is none
}

func (f *fakeCheckouts) check(id string) error {
	if f.err != nil {
		return f.err
	}
	if id != f.view.CheckoutID {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no such checkout.")
	}
	return nil
}

// View implements Checkouts.
func (f *fakeCheckouts) View(_ context.Context, id string) (View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.check(id)
}

// Open implements Checkouts.
func (f *fakeCheckouts) Open(_ context.Context, id string, mintID int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(id); err != nil {
		return err
	}
	if f.openErr != nil {
		return f.openErr
	}
	f.opened = append(f.opened, mintID)
	options := append([]Option(nil), f.view.Options...)
	for i := range options {
		if options[i].MintID == mintID {
			options[i] = openOption(mintID)
		}
	}
	f.view.Options = options
	f.view.Version++
	return nil
}

// Versions implements Checkouts.
func (f *fakeCheckouts) Versions(_ context.Context, ids []string) (map[string]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions++
	if slices.Contains(ids, f.view.CheckoutID) {
		return map[string]int64{f.view.CheckoutID: f.view.Version}, f.err
	}
	return nil, f.err
}

// Find implements Checkouts.
func (f *fakeCheckouts) Find(_ context.Context, id, hash string) (Finding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.searches = append(f.searches, hash)
	if strings.Contains(hash, "no hash") {
		return Finding{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "That is no hash.")
	}
	return f.finding, f.check(id)
}

// RequestPayment implements Checkouts.
func (f *fakeCheckouts) RequestPayment(
	_ context.Context, id string, w WalletRequest,
) (WalletTransaction, *WalletProblem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, w)
	if f.problem != nil {
		return WalletTransaction{}, f.problem, f.check(id)
	}
	return WalletTransaction{
		Transaction: f.unsigned, Amount: "0.3121", Symbol: "SOL", ShopName: f.view.ShopName,
	}, nil, f.check(id)
}

// Receipt implements Checkouts.
func (f *fakeCheckouts) Receipt(_ context.Context, id string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(id); err != nil {
		return nil, err
	}
	if f.view.Status != Completed {
		return nil, fault.New(fault.Conflict, fault.InvalidState, fault.ReadOnly, "It is not completed.")
	}
	return f.receipt, nil
}

// Image implements Checkouts.
func (f *fakeCheckouts) Image(_ context.Context, id, imageID string) (mediaType string, content []byte, err error) {
	if imageID != "img_1" {
		id = ""
	}
	return "image/png", onePixel, f.check(id)
}

// onePixel is a small picture.
var onePixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00" +
	"\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\x98~\xc7\xfa?\x00\x06\x1a\x02\xb0\xa5\x8eOo\x00\x00\x00" +
	"\x00IEND\xaeB`\x82")

// change changes the checkout, as a payment does.
func (f *fakeCheckouts) change(act func(*View)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	act(&f.view)
	f.view.Version++
}

// Mints of the fixtures.
const (
	usdcBase = 1
	ethMain  = 2
	solSol   = 3
	btcMain  = 4
	usdtMain = 5
)

// closedOption is an option that no payer has chosen.
func closedOption(mintID int) Option {
	option := openOption(mintID)
	return Option{
		MintID: mintID, Symbol: option.Symbol, Name: option.Name, ChainName: option.ChainName,
		PayerFeeText: option.PayerFeeText, IsNative: option.IsNative, IsPegged: option.IsPegged,
	}
}

func openOption(mintID int) Option {
	soon := time.Now().Add(14*time.Minute + 30*time.Second)
	switch mintID {
	case usdcBase:
		return Option{
			MintID: mintID, Symbol: "USDC", Name: "USD Coin", ChainName: "Base", PayerFeeText: "0.01 USD",
			IsPegged: true, IsOpen: true, Address: evmAddress, Amount: "49.99", AtomicAmount: "49990000",
			QRText:     evmAddress,
			WalletLink: "ethereum:" + usdcOnBase + "@8453/transfer?address=" + evmAddress + "&uint256=49990000",
			EVM:        &EVMPayment{ChainID: 8453, Contract: usdcOnBase},
		}
	case ethMain:
		link := "ethereum:" + evmAddress + "@1?value=19897000000000000"
		return Option{
			MintID: mintID, Symbol: "ETH", Name: "Ether", ChainName: "Ethereum", PayerFeeText: "0.42 USD",
			IsNative: true, IsOpen: true, Address: evmAddress, Amount: "0.019897", AtomicAmount: "19897000000000000",
			RateText: "1 ETH = 2512.40 USD", RateExpiresAt: soon, QRText: link, WalletLink: link,
			EVM: &EVMPayment{ChainID: 1},
		}
	case solSol:
		link := "solana:7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2?amount=0.3121&reference=" +
			"9aE476sH92Vz7DMPyq5WLPkrKWivxeuTKEFKd2sZZcde&label=Northwind%20Coffee"
		return Option{
			MintID: mintID, Symbol: "SOL", Name: "Solana", ChainName: "Solana", PayerFeeText: "0.001 USD",
			IsNative: true, IsOpen: true, Address: "DRpbCBMxVnDK7maPM5tGv6MvB3v1sRMC86PZ8okm21hy",
			SharedAddress: "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2",
			Amount:        "0.3121", AtomicAmount: "312100000", RateText: "1 SOL = 160.20 USD", RateExpiresAt: soon,
			QRText: link, WalletLink: link, Solana: &SolanaPayment{Network: "solana:mainnet"},
		}
	case btcMain:
		link := "bitcoin:bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh?amount=0.00054"
		return Option{
			MintID: mintID, Symbol: "BTC", Name: "Bitcoin", ChainName: "Bitcoin", PayerFeeText: "1.80 USD",
			IsNative: true, IsOpen: true, Address: "bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh", Amount: "0.00054",
			AtomicAmount: "54000", RateText: "1 BTC = 92580.00 USD", RateExpiresAt: soon, QRText: link,
			WalletLink: link,
		}
	}
	return Option{
		MintID: usdtMain, Symbol: "USDT", Name: "Tether", ChainName: "Ethereum", PayerFeeText: "0.90 USD",
		IsPegged: true, IsOpen: true, Address: evmAddress, Amount: "49.99", AtomicAmount: "49990000",
		QRText:     evmAddress,
		WalletLink: "ethereum:" + evmAddress, EVM: &EVMPayment{ChainID: 1, Contract: evmAddress},
	}
}

// newView returns a checkout that waits for its payment.
func newView() View {
	refused := closedOption(usdtMain)
	refused.Reason = TooCostly
	return View{
		CheckoutID: checkoutID, Version: 7, Status: Open, ShopName: "Northwind Coffee",
		Items: []Item{
			{Name: "House blend, 1 kg", Quantity: 1, UnitPrice: "29.99", ImageID: "img_1"},
			{Name: "Paper filters", Quantity: 2, UnitPrice: "10.00"},
		},
		Currency: "USD", AmountDue: "49.99", AmountPaid: "0.00", AmountRemaining: "49.99",
		ExpiresAt: time.Now().Add(30 * time.Minute), CancelURL: "https://shop.example/cart",
		Options: []Option{
			closedOption(usdcBase), openOption(ethMain), openOption(solSol), openOption(btcMain), refused,
		},
	}
}

// newPayment returns a payment of the whole amount in a state.
func newPayment(status PaymentStatus, blocks int) Payment {
	payment := Payment{
		Symbol: "ETH", ChainName: "Ethereum", Amount: "0.019897", ValueText: "49.99", TxHash: evmHash, Status: status,
		IsAcceptedCoin: true,
	}
	if blocks > 0 {
		payment.BlocksMissing = &blocks
	}
	return payment
}

// paidView returns a checkout with a payment.
func paidView(status Status, payment Payment, exceptions ...Exception) View {
	v := newView()
	v.Status, v.Exceptions, v.Payments = status, exceptions, []Payment{payment}
	if status == Processing || status == Completed {
		v.AmountPaid, v.AmountRemaining = "49.99", "0.00"
		v.ReturnURL = "https://shop.example/thanks?checkoutId=" + checkoutID + "&status=" + string(status) +
			"&statement=abc"
	}
	return v
}

// state is a checkout in one of its states, with what its page has to say.
type state struct {
	name, query string
	view        View
	wantTexts   []string
	hasPanel    bool
	hasOptions  bool
}

// listStates returns a checkout in each state that a payer can meet.
func listStates() []state {
	part := newPayment(PaymentSeen, 3)
	part.Amount, part.ValueText = "0.01", "25.12"
	under := paidView(Open, part, Underpaid)
	under.AmountPaid, under.AmountRemaining = "25.12", "24.87"
	none := newView()
	for i := range none.Options {
		none.Options[i] = closedOption(none.Options[i].MintID)
		none.Options[i].Reason = []Unavailability{Paused, Unpriced, BelowMinimum, TooCostly, Paused}[i]
	}
	over := paidView(Completed, newPayment(PaymentCredited, 0), Overpaid)
	over.AmountPaid, over.AmountSurplus = "60.00", "10.01"
	late := newPayment(PaymentCredited, 0)
	late.IsLate = true
	wrong := newPayment(PaymentCredited, 0)
	wrong.Symbol, wrong.ValueText, wrong.IsAcceptedCoin = "DAI", "", false
	elsewhere := newPayment(PaymentCredited, 0)
	elsewhere.ChainName, elsewhere.IsOtherNetwork = "Arbitrum", true
	unpriced := newPayment(PaymentSeen, 0)
	unpriced.ValueText, unpriced.IsWaitingForPrice = "", true
	credited := newPayment(PaymentCredited, 0)
	credited.ValueText, credited.IsWaitingForPrice = "", true
	expiredPart := paidView(Expired, part, Underpaid)
	expiredPart.AmountPaid, expiredPart.AmountRemaining = "25.12", "24.87"
	unusable := newPayment(PaymentUnusable, 0)
	unusable.Symbol, unusable.ValueText, unusable.IsAcceptedCoin = "", "", false
	local := newView()
	local.IsLocal, local.Accent = true, "#a04020"
	expired := newView()
	expired.Status = Expired
	cancelled := newView()
	cancelled.Status = Cancelled
	opened := newView()
	opened.Options[0] = openOption(usdcBase)
	panel := func(mint string, texts ...string) state {
		return state{name: "panel-" + mint, query: "?mint=" + mint, view: opened, wantTexts: texts, hasPanel: true}
	}
	return []state{
		{name: "open", view: newView(), hasOptions: true, wantTexts: []string{
			"To pay", "49.99", "Northwind Coffee", "House blend, 1 kg", "2 × 10.00", "How do you want to pay?",
			"on Ethereum", "Network fee: about 0.42\u00a0USD",
			"The network fee of Ethereum is too high for this amount.",
			"Cancel and go back to Northwind Coffee", "Paid, but nothing happens here?",
		}},
		{name: "local", view: local, hasOptions: true, wantTexts: []string{"Test network. No real money moves here."}},
		panel("1", "Pay with USDC on Base", "Send exactly", "49.99", evmAddress, "Enter the amount in your wallet.",
			"Send only USDC, and only on Base.", "Wallet link", "Waiting for your payment"),
		panel("2", "Pay with ETH on Ethereum", "0.019897", evmAddress, "Rate: 1 ETH = 2512.40 USD",
			"A new rate follows at", "Open in a wallet"),
		panel("3", "Pay with SOL on Solana", "0.3121", "From an exchange, or by hand",
			"DRpbCBMxVnDK7maPM5tGv6MvB3v1sRMC86PZ8okm21hy"),
		panel("4", "Pay with BTC on Bitcoin", "0.00054", "bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh"),
		{name: "none", view: none, wantTexts: []string{
			"This can't be paid right now", "USDC on Base is paused.", "There is no reliable price for ETH",
			"The amount is too small for SOL", "The network fee of Bitcoin is too high",
		}},
		{name: "underpaid", view: under, hasOptions: true, wantTexts: []string{
			"24.87 USD still due", "25.12 USD of 49.99 USD has arrived.", "How do you want to pay what is missing?",
			"Blocks still missing: 3", "Still due", evmHash,
		}},
		{name: "valuing", view: paidView(Open, unpriced), hasOptions: true, wantTexts: []string{
			"We are working out what it is worth.", "Seen. Its value is being worked out.",
		}},
		{name: "valuing-credited", view: paidView(Open, credited), hasOptions: true, wantTexts: []string{
			"We are working out what it is worth.", "Arrived. Its value is being worked out.",
		}},
		{name: "seen", view: paidView(Open, newPayment(PaymentSeen, 2)), hasOptions: true, wantTexts: []string{
			"A payment is on its way.", "Blocks still missing: 2",
		}},
		{name: "orphaned", view: paidView(Open, newPayment(PaymentOrphaned, 0)), hasOptions: true, wantTexts: []string{
			"No longer in a block.",
		}},
		{
			name: "flagged", view: paidView(Open, newPayment(PaymentFlagged, 0), Flagged), hasOptions: true,
			wantTexts: []string{"Received, being checked", "Please don't pay again."},
		},
		{name: "wrong-token", view: paidView(Open, wrong, WrongToken), hasOptions: true, wantTexts: []string{
			"A coin arrived that is not accepted here.", "This coin is not accepted here.", "DAI",
		}},
		{name: "unusable", view: paidView(Open, unusable), hasOptions: true, wantTexts: []string{
			"A coin that is unknown here", "Arrived, and can't be used", "It counts for nothing.",
		}},
		{name: "processing", view: paidView(Processing, newPayment(PaymentSeen, 9)), wantTexts: []string{
			"Payment seen", "It is final after a few more blocks.", "Blocks still missing: 9",
			"Back to Northwind Coffee",
		}},
		{name: "completed", view: paidView(Completed, newPayment(PaymentCredited, 0)), wantTexts: []string{
			"Paid", "Thank you. Your payment has arrived at Northwind Coffee.", "Back to Northwind Coffee",
		}},
		{name: "other-network", view: paidView(Completed, elsewhere), wantTexts: []string{
			"It arrived on Arbitrum, another network than shown. It counts.",
		}},
		{name: "overpaid", view: over, wantTexts: []string{"You paid 10.01 USD more than was due."}},
		{name: "reversed", view: paidView(Completed, newPayment(PaymentReversed, 0), Reversed), wantTexts: []string{
			"The network took back a payment that had already arrived.", "Taken back by the network",
		}},
		{name: "refunded", view: paidView(Completed, newPayment(PaymentReturned, 0), Refunded), wantTexts: []string{
			"Northwind Coffee has returned your money.", "Returned to the sender",
		}},
		{name: "expired", view: expired, wantTexts: []string{"The time to pay is over", "Back to Northwind Coffee"}},
		{name: "expired-part", view: expiredPart, wantTexts: []string{
			"25.12 USD of 49.99 USD arrived in time.", "decides whether that is enough",
		}},
		{name: "late", view: paidView(Expired, late, PaidLate), wantTexts: []string{
			"Your payment arrived late", "decides whether to accept it", "Arrived after the time to pay.",
		}},
		{name: "late-accepted", view: paidView(Completed, late, PaidLate), wantTexts: []string{"Thank you."}},
		{
			name: "late-flagged", view: paidView(Expired, newPayment(PaymentFlagged, 0), Flagged, PaidLate),
			wantTexts: []string{"Received, being checked", "decides about it"},
		},
		{name: "cancelled", view: cancelled, wantTexts: []string{"Northwind Coffee has cancelled this payment."}},
	}
}

// testEnv is the pages in a server, with their checkout.
type testEnv struct {
	t         *testing.T
	checkouts *fakeCheckouts
	links     *fakeLinks
	refunds   *fakeRefunds
	base      string
	handler   http.Handler
}

func newTestEnv(t *testing.T, adjust ...func(*Config)) *testEnv {
	t.Helper()
	h := &testEnv{
		t: t, checkouts: &fakeCheckouts{view: newView()}, links: &fakeLinks{view: newLinkView()},
		refunds: &fakeRefunds{view: newRefundView()},
	}
	stopped := make(chan struct{})
	conf := Config{
		Checkouts: h.checkouts, Links: h.links, Refunds: h.refunds, LivePoll: 20 * time.Millisecond, Stopped: stopped,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, act := range adjust {
		act(&conf)
	}
	h.handler = New(conf)
	served := httptest.NewServer(h.handler)
	t.Cleanup(served.Close)
	t.Cleanup(func() { close(stopped) }) // before the server waits for its streams
	h.base = served.URL
	return h
}

// answer is an answer with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

func (h *testEnv) do(r *http.Request) answer {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

func (h *testEnv) get(path string) answer {
	h.t.Helper()
	return h.do(httptest.NewRequest(http.MethodGet, path, nil))
}

func (h *testEnv) post(path string, values ...string) answer {
	h.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return h.do(r)
}

// waitFor waits until a condition holds.
func (h *testEnv) waitFor(what string, holds func() bool) {
	h.t.Helper()
	deadline := time.After(5 * time.Minute) // against a hang
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-deadline:
			h.t.Fatalf("waited in vain: %s", what)
		case <-again.C:
		}
	}
}
