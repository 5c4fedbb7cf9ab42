package payerpages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
)

const (
	refundID      = "ref_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	otherRefundID = "ref_01J9ZW3M8Q4S5T6V7W8X9YZABD"
	refundKey     = "c2VjcmV0LWtleS1vZi1yZQ"
	pageKey       = "cGFnZS1rZXktb2YtY2hlYw"
	proofText     = "pay.example asks you.\n\nNonce: abc"
	solAddress    = "DRpbCBMxVnDK7maPM5tGv6MvB3v1sRMC86PZ8okm21hy"
)

// fakeRefunds is a feature with one refund. It notes what it is asked for.
type fakeRefunds struct {
	mu      sync.Mutex
	view    RefundView
	refusal RefundRefusal
	asked   int
	claims  []string
	proofs  []RefundProof
	err     error
}

func (f *fakeRefunds) check(id, key string) error {
	f.asked++
	if f.err != nil {
		return f.err
	}
	if id != f.view.RefundID || key != refundKey {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no refund with this key.")
	}
	return nil
}

// Refund implements Refunds.
func (f *fakeRefunds) Refund(_ context.Context, id, key string) (RefundView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.check(id, key)
}

// ReadAddress implements Refunds.
func (f *fakeRefunds) ReadAddress(_ context.Context, id, key, address string) (string, RefundRefusal, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if address != strings.ToLower(evmAddress) && address != evmAddress {
		return "", AddressInvalid, f.check(id, key)
	}
	return evmAddress, f.refusal, f.check(id, key)
}

// Claim implements Refunds.
func (f *fakeRefunds) Claim(_ context.Context, id, key, address string) (RefundRefusal, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal == "" {
		f.claims = append(f.claims, address)
		f.view.State, f.view.Address = RefundRequested, address
	}
	return f.refusal, f.check(id, key)
}

// Challenge implements Refunds.
func (f *fakeRefunds) Challenge(_ context.Context, id, key, address string) (RefundChallenge, RefundRefusal, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return RefundChallenge{Address: address, ExpiresAt: time.Unix(1_800_000_000, 0), Text: proofText}, f.refusal,
		f.check(id, key)
}

// Prove implements Refunds.
func (f *fakeRefunds) Prove(_ context.Context, id, key string, proof RefundProof) (RefundRefusal, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal == "" {
		f.proofs = append(f.proofs, proof)
		f.view.State, f.view.Address, f.view.IsAddressProven = RefundRequested, proof.Address, true
	}
	return f.refusal, f.check(id, key)
}

// RefundKey implements Refunds.
func (f *fakeRefunds) RefundKey(_ context.Context, id, key string) (string, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id != checkoutID || key != pageKey {
		return "", "", fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no refund.")
	}
	return refundID, refundKey, nil
}

func (f *fakeRefunds) change(act func(*fakeRefunds)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	act(f)
}

func newRefundView() RefundView {
	return RefundView{
		RefundID: refundID, State: RefundWaits, ShopName: "Northwind Coffee", Symbol: "USDC", ChainName: "Base",
		Amount: "49.99", ExpiresAt: time.Now().Add(30 * 24 * time.Hour), Proof: EVMProof,
	}
}

// refundStory is a refund in one of its states, with what its page has to say.
type refundStory struct {
	name      string
	view      RefundView
	wantTexts []string
}

// listRefundStories returns a refund in each state that a payer can meet.
func listRefundStories() (stories []refundStory) {
	add := func(name string, change func(*RefundView), texts ...string) {
		v := newRefundView()
		change(&v)
		stories = append(stories, refundStory{name, v, texts})
	}
	add("waits", func(*RefundView) {}, "Where should your refund go?",
		"Northwind Coffee returns 49.99 USDC to you on Base", "Address on Base", "You can claim it until",
		"Sign by hand")
	add("bitcoin", func(v *RefundView) { v.Symbol, v.ChainName, v.Proof = "BTC", "Bitcoin", BitcoinProof },
		"Address on Bitcoin", "Sign by hand")
	add("no-proof", func(v *RefundView) { v.Proof, v.IsFeeDeducted = NoProof, true },
		"The network takes its fee from this amount.")
	for problem, text := range map[RefundProblem]string{
		RiskRefundProblem: "a risk check refuses it", FailedRefundProblem: "The network refused the payment",
		EndedRefundProblem:   "was stopped",
		AddressRefundProblem: "The last address can't be paid. Please give another one.",
	} {
		add("problem-"+string(problem), func(v *RefundView) { v.Problem = problem }, text, "Address on Base")
	}
	add("requested", func(v *RefundView) { v.State, v.Address = RefundRequested, evmAddress },
		"Your address is stored", evmAddress, "Reload this page")
	add("checked", func(v *RefundView) { v.State, v.Address, v.IsAddressProven = RefundChecked, evmAddress, true },
		"Being checked", "You have shown that this address is yours.")
	sent := func(v *RefundView) {
		v.State, v.Address, v.TxHash = RefundSent, evmAddress, evmHash
		v.ExplorerURL = "https://explorer.example/tx/" + evmHash
	}
	add("sent", sent, "Sent", evmHash, "Look it up on the network")
	add("completed", func(v *RefundView) { sent(v); v.State = RefundCompleted }, "Refunded", evmHash)
	add("cancelled", func(v *RefundView) { v.State = RefundCancelled }, "Cancelled by the shop")
	add("expired", func(v *RefundView) { v.State = RefundExpired }, "The time for this refund is over")
	return stories
}

// claimRequest is a request of the script, with the key in its header.
func claimRequest(path, key string, values ...string) *http.Request {
	form := url.Values{}
	for i := 0; i+1 < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(claimKeyHeader, key)
	return r
}

// Without a key the page of a refund is the same for a refund and for none, and nothing is looked up. Rule CO-93.
func TestWithoutAKeyThePageSaysNothingAboutARefund(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	known, absent := h.get(RefundPrefix+refundID), h.get(RefundPrefix+otherRefundID)
	if known.status != http.StatusOK || absent.status != http.StatusOK ||
		strings.ReplaceAll(known.body, refundID, otherRefundID) != absent.body {
		t.Errorf("got %d and %d, and another page for a refund than for none:\n%s", known.status, absent.status,
			known.body)
	}
	text := readText(known.body)
	if !strings.Contains(text, "Open the whole link") || strings.Contains(text, "Northwind") {
		t.Errorf("got %s", text)
	}
	if h.refunds.asked != 0 {
		t.Errorf("looked up %d times without a key", h.refunds.asked)
	}
	if head := h.do(httptest.NewRequest(http.MethodHead, RefundPrefix+refundID, nil)); head.status != http.StatusOK ||
		head.body != "" {
		t.Errorf("got %d, %q for HEAD", head.status, head.body)
	}
	if got := h.get(RefundPrefix + "x"); got.status != http.StatusNotFound {
		t.Errorf("got %d for a text that is no id, want 404", got.status)
	}
}

// A wrong key, an old one, no key, a key of another refund and an absent refund have one answer at every address, and
// nothing is claimed. Rules CO-87 and CO-93.
func TestAWrongKeyAndAnAbsentRefundReadAlike(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	var first string
	for _, suffix := range []string{"", "/check", "/claim", "/challenge", "/proof"} {
		for _, c := range []struct{ id, key string }{
			{refundID, "d3Jvbmcta2V5LW9mLXJlZg"},
			{refundID, ""},
			{refundID, refundKey + "A"},
			{refundID, pageKey},
			{otherRefundID, refundKey},
			{otherRefundID, ""},
			{refundID, strings.Repeat("k", 400)},
		} {
			fields := []string{"key", c.key, "address", evmAddress, "expires", "1800000000", "signature", "0x00"}
			byForm := h.post(RefundPrefix+c.id+suffix, fields...)
			byHeader := h.do(claimRequest(RefundPrefix+c.id+suffix, c.key, fields[2:]...))
			for _, got := range []answer{byForm, byHeader} {
				body := strings.ReplaceAll(got.body, otherRefundID, refundID)
				if first == "" {
					first = body
				}
				if got.status != http.StatusNotFound || body != first ||
					!strings.Contains(readText(body), "There is no refund with this key.") {
					t.Fatalf("%s with %q: got %d, want the one answer:\n%s", suffix, c.key, got.status, body)
				}
			}
		}
	}
	if len(h.refunds.claims)+len(h.refunds.proofs) > 0 {
		t.Errorf("claimed %v, %v", h.refunds.claims, h.refunds.proofs)
	}
}

// The holder of the key sees every state: coin, network, amount, shop, where it goes and what happened. Rules
// CO-93 and CO-99.
func TestEveryStateOfARefundIsToldToTheHolderOfItsKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, s := range listRefundStories() {
		h.refunds.change(func(f *fakeRefunds) { f.view = s.view })
		got := h.do(claimRequest(RefundPrefix+refundID, refundKey))
		text := readText(got.body)
		for _, want := range append(s.wantTexts, "Northwind Coffee", s.view.ChainName, "49.99 "+s.view.Symbol) {
			if !strings.Contains(text, want) {
				t.Errorf("%s: got a page without %q:\n%s", s.name, want, text)
			}
		}
		if has := strings.Contains(got.body, `id="address"`); has != (s.view.State == RefundWaits) {
			t.Errorf("%s: got a field for the address %v", s.name, has)
		}
		for _, forbidden := range forbiddenMarkup {
			if found := forbidden.FindString(got.body); found != "" {
				t.Errorf("%s: got a page with %q", s.name, found)
			}
		}
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"X-Robots-Tag": "noindex, nofollow", "Set-Cookie": "",
		} {
			if got := got.header.Get(header); got != want {
				t.Errorf("%s: got the header %s: %q, want %q", s.name, header, got, want)
			}
		}
		if strings.Contains(got.body, refundKey) {
			t.Errorf("%s: got a page with the key that a script sent", s.name)
		}
	}
}

// A hostile name or link is text, and leads nowhere. Rule CO-42.
func TestThePageOfARefundKeepsHostileTextsTexts(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.refunds.change(func(f *fakeRefunds) {
		f.view.ShopName, f.view.Accent = `"><script>alert(1)</script>`, `red" onload="x`
		f.view.State, f.view.TxHash, f.view.ExplorerURL = RefundSent, evmHash, "javascript:alert(1)"
	})
	got := h.do(claimRequest(RefundPrefix+refundID, refundKey))
	for _, bad := range []string{"<script>alert", "javascript:", `onload="`} {
		if strings.Contains(got.body, bad) {
			t.Errorf("got a page with %q", bad)
		}
	}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)"`)

// readHidden returns the hidden fields of a page.
func readHidden(body string) (values []string) {
	for _, field := range hidden.FindAllStringSubmatch(body, -1) {
		values = append(values, field[1], field[2])
	}
	return values
}

// A payer pastes the key and an address without scripts, sees the address in groups of four, and what is confirmed is
// what is claimed. Rule CO-94.
func TestATypedAddressIsConfirmedInASecondStep(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := RefundPrefix + refundID
	for _, pasted := range []string{
		refundKey, "k=" + refundKey, " https://pay.example" + path + "#k=" + refundKey + "\n",
	} {
		got := h.post(path+"?lang=de", "key", pasted)
		if got.status != http.StatusOK || !slices.Equal(readHidden(got.body)[:2], []string{"key", refundKey}) ||
			!strings.Contains(got.body, `action="`+path+`/check?lang=de"`) {
			t.Fatalf("%q: got %d: %s", pasted, got.status, got.body)
		}
	}
	got := h.post(path+"/check", "key", refundKey, "address", " "+strings.ToLower(evmAddress)+" ")
	var groups []string
	for _, span := range regexp.MustCompile(`<span>(\w+)</span>`).FindAllStringSubmatch(got.body, -1) {
		groups = append(groups, span[1])
	}
	want := []string{"0x71", "C765", "6EC7", "ab88", "b098", "defB", "751B", "7401", "B5f6", "d897", "6F"}
	if !slices.Equal(groups, want) {
		t.Errorf("got the groups %q, want %q", groups, want)
	}
	if len(h.refunds.claims) > 0 {
		t.Error("claimed before the payer confirmed")
	}
	fields := readHidden(got.body)
	if !slices.Equal(fields[:4], []string{"key", refundKey, "address", evmAddress}) {
		t.Fatalf("got the fields %q", fields)
	}
	got = h.post(path+"/claim", fields[:4]...)
	if text := readText(got.body); got.status != http.StatusOK || !strings.Contains(text, "Your address is stored") ||
		!strings.Contains(text, evmAddress) || !slices.Equal(h.refunds.claims, []string{evmAddress}) {
		t.Errorf("got %d, claimed %q: %s", got.status, h.refunds.claims, text)
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("key="+refundKey))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept-Encoding", "gzip")
	if got := h.do(r); got.header.Get("Content-Encoding") != "" || !strings.Contains(got.body, refundKey) {
		t.Error("got a page with a key that is compressed, or without the key")
	}
}

// What refuses an address has a word on the page. What is not known yet is no end: the network does not answer, and the
// payer tries again. Rules CO-97 and CO-142.
func TestEachRefusalOfAnAddressHasItsWord(t *testing.T) {
	t.Parallel()
	for refusal, want := range map[checkout.AddressRefusal]RefundRefusal{
		checkout.ExchangeAddress: AddressOfExchange, checkout.SharedAddress: AddressShared,
		checkout.SenderAddress: AddressOfSender, checkout.WrongProof: ProofWrong, checkout.OldProof: ProofExpired,
		checkout.NoProof: ProofImpossible, checkout.UndeployedProof: ProofUndeployed,
		checkout.UnknownProof: NetworkUnavailable,
	} {
		got, err := refusalOf(fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten, "No.").
			WithDetail(checkout.RefusalDetail, string(refusal)))
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", refusal, got, err, want)
		}
	}
}

// A refused address is refused with its reason, and the payer can give another one. Rule CO-97.
func TestARefusedAddressSaysWhy(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := RefundPrefix + refundID
	if got := h.do(claimRequest(path+"/check", refundKey, "address", "0x71")); got.status != http.StatusBadRequest ||
		!strings.Contains(readText(got.body), "This is not an address on Base.") ||
		!strings.Contains(got.body, `aria-invalid="true"`) || !strings.Contains(got.body, `value="0x71"`) {
		t.Errorf("got %d: %s", got.status, got.body)
	}
	for refusal, want := range map[RefundRefusal]string{
		AddressOfExchange: "This address belongs to an exchange or a service.",
		AddressShared:     "Several customers have paid from this address",
		AddressOfSender:   "Your payment came from this address.",
		ProofWrong:        "The signature doesn't fit the address and the text.",
		ProofExpired:      "The text was too old.", ProofImpossible: "This kind of address can't sign here.",
		ProofUndeployed:    "This wallet's contract isn't on Base yet",
		NetworkUnavailable: "Base is not available at the moment.",
	} {
		h.refunds.change(func(f *fakeRefunds) { f.refusal = refusal })
		suffix := "/claim"
		if refusal.isOfProof() {
			suffix = "/proof"
		}
		got := h.do(claimRequest(path+suffix, refundKey, "address", evmAddress, "expires", "1", "signature", "0x"))
		if text := readText(got.body); got.status != http.StatusUnprocessableEntity || !strings.Contains(text, want) ||
			!strings.Contains(got.body, `id="address"`) || strings.Contains(text, "last address") {
			t.Errorf("%s: got %d: %s", refusal, got.status, text)
		}
	}
	h.refunds.change(func(f *fakeRefunds) { f.refusal, f.view.State = RefundMoved, RefundSent })
	if got := h.do(claimRequest(path+"/claim", refundKey, "address", evmAddress)); got.status != http.StatusConflict ||
		!strings.Contains(readText(got.body), "Your refund is on its way.") {
		t.Errorf("got %d: %s", got.status, readText(got.body))
	}
	if len(h.refunds.claims) > 0 {
		t.Errorf("claimed %q", h.refunds.claims)
	}
	for _, bad := range []string{"", "x", "1.5", "99999999999999999999"} {
		if got := h.do(claimRequest(path+"/proof", refundKey, "expires", bad)); got.status != http.StatusBadRequest {
			t.Errorf("%q: got %d for the time of a text, want 400", bad, got.status)
		}
	}
}

// An address is proven by hand: the page shows the text, and the signature goes with the address and the time of the
// text. Rule CO-95.
func TestAnAddressIsProvenByHand(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.refunds.change(func(f *fakeRefunds) { f.view.Proof = BitcoinProof })
	path := RefundPrefix + refundID
	got := h.post(path+"/challenge", "key", refundKey, "address", evmAddress)
	if !strings.Contains(got.body, `<pre id="challenge" class="all" dir="ltr" lang="en">`+proofText+`</pre>`) {
		t.Fatalf("got %d: %s", got.status, got.body)
	}
	// Only with a taproot address a wallet has to be told which form it signs in.
	for address, isNew := range map[string]bool{
		"bc1ppv609nr0vr25u07u95waq5lucwfm6tde4nydujnu8npg4q75mr5sxq8lt3": true,
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":                     false,
		"1pMycacnJaSqwwJqjawXBErnLsZ7RkXUAs":                             false,
	} {
		got := h.post(path+"/challenge", "key", refundKey, "address", address)
		if strings.Contains(readText(got.body), "BIP-322") != isNew {
			t.Errorf("%s: got %s, want that BIP-322 is named: %v", address, readText(got.body), isNew)
		}
	}
	fields := readHidden(got.body)
	want := []string{"key", refundKey, "address", evmAddress, "expires", "1800000000"}
	if !slices.Equal(fields[:6], want) {
		t.Fatalf("got the fields %q, want %q", fields, want)
	}
	got = h.post(path+"/proof", append(fields[:6:6], "signature", " signed ")...)
	proof := RefundProof{Address: evmAddress, ExpiresAt: time.Unix(1_800_000_000, 0), Signature: "signed"}
	if got.status != http.StatusOK || !slices.Equal(h.refunds.proofs, []RefundProof{proof}) ||
		!strings.Contains(readText(got.body), "You have shown that this address is yours.") {
		t.Errorf("got %d, %v: %s", got.status, h.refunds.proofs, readText(got.body))
	}
}

// Claims have a limit for each client, and so have new keys; looking has the limit of pages. Rule CO-94.
func TestClaimsHaveTheirLimit(t *testing.T) {
	t.Parallel()
	if UsualLimits.Claims != (kernel.Rate{Count: 10, Period: time.Minute, Burst: 10}) {
		t.Errorf("got %+v, want ten claims a minute", UsualLimits.Claims)
	}
	clock := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	h := newTestEnv(t, func(c *Config) {
		c.Limits, c.Clock = UsualLimits, func() time.Time { return clock }
	})
	ask := func(path, client string) int {
		r := claimRequest(path, "wrong", "address", evmAddress, "expires", "1")
		r.RemoteAddr = client
		return h.do(r).status
	}
	for i := range 10 {
		path := RefundPrefix + refundID + []string{"/claim", "/proof"}[i%2]
		if got := ask(path, "192.0.2.1:9"); got != http.StatusNotFound {
			t.Fatalf("claim %d: got %d", i, got)
		}
		if got := ask(prefix+checkoutID+"/refund-key", "192.0.2.1:9"); got != http.StatusNotFound {
			t.Fatalf("key %d: got %d", i, got)
		}
	}
	for _, path := range []string{
		RefundPrefix + refundID + "/claim", RefundPrefix + refundID + "/proof", prefix + checkoutID + "/refund-key",
	} {
		if got := ask(path, "192.0.2.1:9"); got != http.StatusTooManyRequests {
			t.Errorf("%s: got %d above the limit", path, got)
		}
		if got := ask(path, "192.0.2.2:9"); got != http.StatusNotFound {
			t.Errorf("%s: got %d for another client", path, got)
		}
	}
	if got := ask(RefundPrefix+refundID, "192.0.2.1:9"); got != http.StatusNotFound {
		t.Errorf("got %d for a look, want that it is not counted as a claim", got)
	}
}

// The holder of a checkout's key gets to its refund, by a form and by a script. Without the key, or without a refund,
// the answer is the same. Rule CO-98.
func TestTheKeyOfACheckoutLeadsToItsRefund(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	if strings.Contains(h.get(prefix+checkoutID).body, "refund-key") {
		t.Error("got a page that offers a refund where none waits")
	}
	h.checkouts.change(func(v *View) { *v = paidView(Completed, newPayment(PaymentCredited, 0)); v.HasRefund = true })
	page := h.get(prefix + checkoutID + "?lang=fr")
	if !strings.Contains(page.body, `action="`+prefix+checkoutID+`/refund-key?lang=fr"`) ||
		!strings.Contains(readText(page.body), "Un remboursement vous attend") {
		t.Errorf("got %s", page.body)
	}
	path := prefix + checkoutID + "/refund-key"
	got := h.post(path+"?lang=fr", "key", "https://pay.example/c/"+checkoutID+"#k="+pageKey)
	if want := RefundPrefix + refundID + "?lang=fr#k=" + refundKey; got.status != http.StatusSeeOther ||
		got.header.Get("Location") != want {
		t.Errorf("got %d to %q, want %q", got.status, got.header.Get("Location"), want)
	}
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.Header.Set(checkoutKeyHeader, pageKey)
	r.Header.Set("Accept-Encoding", "gzip")
	if got := h.do(r); got.status != http.StatusOK || got.header.Get("Content-Encoding") != "" ||
		!strings.Contains(got.body, `id="claim-link" class="button primary" href="/r/`+refundID+`#k=`+refundKey+`"`) {
		t.Errorf("got %d: %s", got.status, got.body)
	}
	var first string
	for _, c := range []struct{ id, key string }{
		{checkoutID, ""}, {checkoutID, "wrong"}, {otherID, pageKey}, {checkoutID, refundKey},
	} {
		got := h.post(prefix+c.id+"/refund-key", "key", c.key)
		if first == "" {
			first = got.body
		}
		if got.status != http.StatusNotFound || got.body != first || strings.Contains(got.body, "/r/") {
			t.Errorf("%v: got %d: %s", c, got.status, got.body)
		}
	}
}

// An error of ours tells the payer nothing of a refund. Rule CO-44.
func TestAnErrorOfARefundTellsNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.refunds.change(func(f *fakeRefunds) { f.err = fmt.Errorf("read the refund: 10.0.0.7 refused") })
	for _, suffix := range []string{"", "/check", "/claim", "/challenge", "/proof"} {
		got := h.do(claimRequest(RefundPrefix+refundID+suffix, refundKey, "expires", "1"))
		if got.status != http.StatusInternalServerError || strings.Contains(got.body, "10.0.0.7") {
			t.Errorf("%s: got %d: %s", suffix, got.status, readText(got.body))
		}
	}
}
