package pages

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"pgregory.net/rapid"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/assertion"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// signPage serves a form that makes a passkey and forms that sign statements, and keeps what a browser posts.
type signPage struct {
	t      *testing.T
	server *httptest.Server
	origin string
	look   browser.Appearance
	tab    *browser.Page

	mu         sync.Mutex
	key        assertion.Passkey
	statements []signer.Statement
	payments   []signer.Statement // of a list; nil for statements that are signed alone
	posted     url.Values
}

func openSignPage(t *testing.T) *signPage {
	t.Helper()
	p := &signPage{t: t, look: browser.Appearance{Width: 1280, Height: 900}}
	kit := newAssets("/assets/")
	mux := chi.NewRouter()
	mux.Get("/assets/{name}", kit.serve)
	mux.Get("/make", func(w http.ResponseWriter, r *http.Request) {
		p.write(w, func(w http.ResponseWriter) error {
			return ui.MakeSignerForm(ui.MakeSignerView{
				Path: "/made", RPID: "localhost", RPName: "Coffer", Person: "Ann", Display: "Approve payments",
				Button: "Make it",
			}).Render(r.Context(), w)
		})
	})
	mux.Get("/sign", func(w http.ResponseWriter, r *http.Request) {
		p.write(w, func(w http.ResponseWriter) error {
			for n, s := range p.statements {
				var payments []ui.PaymentToSign
				for _, payment := range p.payments {
					payments = append(payments, ui.PaymentToSign{
						Title: "Payment", Note: "No word", Words: shownWords(payment),
					})
				}
				err := ui.SignForm(ui.SignView{
					Path: "/signed", Words: shownWords(s), Payments: payments, RPID: "localhost", Button: "Sign",
					Hidden: []ui.Hidden{
						{Name: "n", Value: strconv.Itoa(n)},
					}, Keys: []ui.SignerKey{
						{ID: "apk_other", CredentialID: "AAAA"},
						{ID: "apk_1", CredentialID: base64.RawURLEncoding.EncodeToString(p.key.CredentialID)},
					},
				}).Render(r.Context(), w)
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	mux.Post("/{act}", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		p.posted = r.PostForm
		p.mu.Unlock()
		p.write(w, func(w http.ResponseWriter) error {
			_, err := fmt.Fprint(w, "<h1>Received</h1>")
			return err
		})
	})
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	p.origin = strings.Replace(p.server.URL, "127.0.0.1", "localhost", 1)
	p.tab = browser.Open(t)
	return p
}

func shownWords(s signer.Statement) (words []ui.StatementWord) {
	for _, word := range s {
		words = append(words, ui.StatementWord{Name: word.Name, Text: word.Text})
	}
	return words
}

// write writes a page around a content.
func (p *signPage) write(w http.ResponseWriter, content func(http.ResponseWriter) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	paths := newAssets("/assets/").paths
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	_, err := fmt.Fprintf(w, `<!doctype html><title>x</title><link rel="stylesheet" href="%s">`+
		`<script src="%s" defer></script><p class="announcement"></p><main>`, paths.Style, paths.Script)
	if err == nil {
		err = content(w)
	}
	if err != nil {
		p.t.Error(err)
	}
}

func (p *signPage) lastPosted() url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posted
}

// decode returns a field that the script wrote.
func (p *signPage) decode(values url.Values, name string) []byte {
	p.t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(values.Get(name))
	if err != nil || len(raw) == 0 {
		p.t.Errorf("the field %s is %q: %v, want base64url", name, values.Get(name), err)
	}
	return raw
}

func (p *signPage) makeKey() {
	p.t.Helper()
	p.tab.OpenURL(p.origin+"/make", p.look)
	p.tab.Click("form button")
	made := p.lastPosted()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = assertion.Passkey{
		CredentialID: p.decode(made, ui.CredentialIDName), PublicKey: p.decode(made, ui.PublicKeyName),
		RPID: "localhost", Origin: p.origin,
	}
}

// show opens the page of statements.
func (p *signPage) show(statements ...signer.Statement) {
	p.t.Helper()
	p.mu.Lock()
	p.statements, p.payments, p.posted = statements, nil, nil
	p.mu.Unlock()
	p.tab.OpenURL(p.origin+"/sign", p.look)
}

// showList opens the page of a list of payments.
func (p *signPage) showList(list signer.Statement, payments ...signer.Statement) {
	p.t.Helper()
	p.mu.Lock()
	p.statements, p.payments, p.posted = []signer.Statement{list}, payments, nil
	p.mu.Unlock()
	p.tab.OpenURL(p.origin+"/sign", p.look)
}

// verify checks what was posted against a statement, as the signer does.
func (p *signPage) verify(s signer.Statement) error {
	p.t.Helper()
	values := p.lastPosted()
	a := assertion.Assertion{
		CredentialID: p.decode(values, ui.CredentialIDName), Signature: p.decode(values, ui.SignatureName),
		AuthenticatorData: p.decode(values, ui.AuthenticatorDataName),
		ClientDataJSON:    p.decode(values, ui.ClientDataJSONName),
	}
	return a.Verify(p.key, s.Challenge())
}

// press clicks on what stays on its page, and waits for the reason beside the button.
func (p *signPage) wantProblem(text string) {
	p.t.Helper()
	p.tab.WaitUntil("document.querySelector('form button')?.checkVisibility() === true")
	browser.Evaluate[bool](p.tab, "(document.querySelector('form button').click(), true)")
	p.tab.WaitUntil(fmt.Sprintf(
		"[...document.querySelectorAll('.passkey-problem')].some((p) => p.textContent.includes(%q))", text))
	if got := p.lastPosted(); got != nil {
		p.t.Errorf("the page posted %v, want nothing", got)
	}
}

var shownPayment = signer.PaymentStatement(signer.PaymentWords{
	Terms: signer.Terms{
		OrgID: "org_1", WithdrawalID: "wd_1", Chain: "ETHEREUM", MintID: 3,
		Contract: "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", To: "0x52908400098527886e0f7030069857d2e4169ee7",
		Amount: money.Units(12_500_000_000), Memo: "rent  <b>\u202eАlice\\  ", FeeMode: "ORGANIZATION",
	},
	Purpose: signer.Payment, CustomerID: "eve  ", Network: "31337",
	Token: &signer.Token{Symbol: "USDC", Decimals: 6},
}, signer.StatementContext{
	Installation: strings.Repeat("ab", 32), Approver: "USER usr_1", NotAfter: "2026-11-30T12:00:00.000000Z",
})

// A passkey signs what the page shows, and nothing else. Rules PAGE-106 and PAGE-107.
func TestAPasskeySignsTheTextOnTheScreen(t *testing.T) {
	t.Parallel()
	p := openSignPage(t)
	device := p.tab.AddAuthenticator()
	p.makeKey()

	p.show(shownPayment)
	p.tab.Click("form button")
	if err := p.verify(shownPayment); err != nil {
		t.Errorf("the signature of the page: got %v, want that of these words", err)
	}
	notAfter := shownPayment.Find("notAfter")
	if got := p.lastPosted(); got.Get(ui.KeyIDName) != "apk_1" || got.Get(ui.NotAfterName) != notAfter {
		t.Errorf("got %v, want the passkey and the time of the statement", got)
	}

	// One character of the address, which was changed on the screen before the touch.
	p.show(shownPayment)
	browser.Evaluate[bool](p.tab, `(document.querySelector('[data-word=to] b').textContent = '5390', true)`)
	p.tab.Click("form button")
	if err := p.verify(shownPayment); err == nil || !strings.Contains(err.Error(), "other words") {
		t.Errorf("a changed address: got %v, want a signature of other words", err)
	}
	changed := slices.Clone(shownPayment)
	for i := range changed {
		if changed[i].Name == "to" {
			changed[i].Text = strings.Replace(changed[i].Text, "0x5290", "0x5390", 1)
		}
	}
	if err := p.verify(changed); err != nil {
		t.Errorf("a changed address: got %v, want the signature of what the screen showed", err)
	}

	for name, hide := range map[string]string{
		"folded away":  "word.hidden = true",
		"invisible":    "word.classList.add('announcement'); word.parentElement.hidden = true",
		"without form": "word.remove()",
	} {
		p.show(shownPayment)
		browser.Evaluate[bool](p.tab, `((word) => { `+hide+` })(document.querySelector('[data-word=to]')), true`)
		if name == "without form" {
			p.tab.Click("form button")
			if err := p.verify(shownPayment); err == nil {
				t.Error("a page without the address made the signature of a payment with one")
			}
			continue
		}
		p.wantProblem("does not show every word that you would sign. Nothing was signed.")
	}

	p.show(shownPayment)
	device.SetVerified(false)
	p.wantProblem("Nothing was signed. Try again.")
	for _, complaint := range p.tab.ListComplaints() {
		if !strings.Contains(complaint, "favicon") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}

// Whatever characters a word has, the page and Go compute one challenge. Rule PAGE-106.
func TestWordsFromThePageAreThoseOfGo(t *testing.T) {
	t.Parallel()
	p := openSignPage(t)
	names := []string{
		"amount", "to", "memo", "customer", "fingerprint", "total", "asset", "units", "approver", "notAfter",
	}
	var statements []signer.Statement
	text := rapid.OneOf(
		rapid.String(), rapid.StringMatching(`[ -~]{1,60}`),
		rapid.StringMatching(`[0-9]{1,30}(\.[0-9]{1,18})?( [A-Z ]{1,6})?`),
		rapid.StringMatching(`(0x)?[0-9a-fA-F]{1,64}`), rapid.StringMatching(` {0,3}[a-z\t\n\\]{1,9} {0,3}`))
	for seed := range 300 {
		var s signer.Statement
		for i, name := range names {
			if drawn := signer.EscapeText(text.Example(seed*len(names) + i)); drawn != "" {
				s = append(s, signer.Word{Name: name, Text: drawn})
			}
		}
		statements = append(statements, s)
	}
	p.show(statements...)
	// The browser's own answer is what the script asks the passkey to sign.
	browser.Evaluate[bool](p.tab, `(window.challenges = [], navigator.credentials.get = async (options) => {
		window.challenges.push([...options.publicKey.challenge instanceof ArrayBuffer
			? new Uint8Array(options.publicKey.challenge) : options.publicKey.challenge]
			.map((b) => b.toString(16).padStart(2, '0')).join(''));
		throw new DOMException('', 'NotAllowedError');
	}, true)`)
	browser.Evaluate[bool](p.tab, `(async () => {
		for (const form of document.forms) {
			const before = window.challenges.length;
			form.requestSubmit();
			while (window.challenges.length === before) await new Promise((done) => setTimeout(done));
		}
		window.isDone = true;
	})(), true`)
	p.tab.WaitUntil("window.isDone === true")
	got := browser.Evaluate[[]string](p.tab, "window.challenges")
	if len(got) != len(statements) {
		t.Fatalf("got %d challenges, want %d", len(got), len(statements))
	}
	for i, s := range statements {
		if want := fmt.Sprintf("%x", s.Challenge()); got[i] != want {
			t.Errorf("the words %q: got the challenge %s, want %s", s, got[i], want)
		}
	}
}

// A passkey signs a list of payments if the screen shows each of them with the words that the list names, whatever
// characters they have. One other character in one of them, and nothing is signed. Rule PAGE-125.
func TestAPasskeySignsAListOfThePaymentsOnTheScreen(t *testing.T) {
	t.Parallel()
	p := openSignPage(t)
	p.tab.AddAuthenticator()
	p.makeKey()
	c := signer.StatementContext{
		Installation: strings.Repeat("ab", 32), Approver: "USER usr_1", NotAfter: "2026-11-30T12:00:00.000000Z",
	}
	var words []signer.PaymentWords
	var payments []signer.Statement
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{1,60}`))
	for n := range signer.PaymentListMax {
		w := signer.PaymentWords{
			Terms: signer.Terms{
				OrgID: "org_1", WithdrawalID: fmt.Sprintf("wd_%d", n), Chain: "ETHEREUM", MintID: 3,
				Contract: "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
				To:       "0x52908400098527886e0f7030069857d2e4169ee7",
				Amount:   money.Units(uint64(12_500_000_000 + n)), Memo: text.Example(n), FeeMode: "ORGANIZATION",
			},
			Purpose: signer.Payment, CustomerID: "eve  " + text.Example(100+n), Network: "31337",
			Token: &signer.Token{Symbol: "USDC", Decimals: 6},
		}
		words, payments = append(words, w), append(payments, signer.PaymentStatement(w, c))
	}
	list, err := signer.NewPaymentList(words, c)
	if err != nil {
		t.Fatal(err)
	}
	statement := list.Statement(payments[0])

	p.showList(statement, payments...)
	order := browser.Evaluate[string](p.tab, `[...document.querySelectorAll('[data-word]')]
		.filter((word) => !word.closest('[data-payment]')).map((word) => word.dataset.word).join(' ')`)
	if want := "act payments total" + strings.Repeat(" paymentHash", len(payments)) +
		" organization approver notAfter installation"; order != want {
		t.Errorf("got the words %q, want %q", order, want)
	}
	p.tab.Click("form button")
	if err := p.verify(statement); err != nil {
		t.Errorf("the signature of the page: got %v, want that of the list", err)
	}
	values := p.lastPosted()
	signature := signer.KeySignature{
		KeyID: values.Get(ui.KeyIDName), NotAfter: values.Get(ui.NotAfterName), List: &list,
		Assertion: assertion.Assertion{
			CredentialID: p.decode(values, ui.CredentialIDName), Signature: p.decode(values, ui.SignatureName),
			AuthenticatorData: p.decode(values, ui.AuthenticatorDataName),
			ClientDataJSON:    p.decode(values, ui.ClientDataJSONName),
		},
	}
	for n, payment := range payments {
		if err := signature.Verify(p.key, payment); err != nil {
			t.Errorf("payment %d: got %v, want the signature to be valid for it", n, err)
		}
	}

	for name, change := range map[string]string{
		"one character of an address": `payment.querySelector('[data-word=to] b').textContent = '5390'`,
		"one character of a customer": `payment.querySelector('[data-word=customer]').append('x')`,
		"a payment that is gone":      `payment.remove()`,
		"another order":               `payment.parentElement.querySelector('[data-payment]').before(payment)`,
		"a hash in the list": `((hash) => { hash.textContent = hash.textContent.replace(/[0-9]/, 'a'); })(
			document.querySelector('[data-word=paymentHash] span'))`,
	} {
		p.showList(statement, payments...)
		browser.Evaluate[bool](p.tab, `((payment) => { `+change+`; })(
			document.querySelectorAll('[data-payment]')[7]), true`)
		t.Log(name)
		p.wantProblem("A payment on this page has other words than those that you would sign. Nothing was signed.")
	}
	p.showList(statement, payments...)
	browser.Evaluate[bool](p.tab, `(document.querySelectorAll('[data-payment]')[7].hidden = true, true)`)
	p.wantProblem("does not show every word that you would sign. Nothing was signed.")
	// The total is a word of the list: another one on the screen is another signature.
	p.showList(statement, payments...)
	browser.Evaluate[bool](p.tab, `(document.querySelector('[data-word=total]').textContent = '1 USDC', true)`)
	p.tab.Click("form button")
	if err := p.verify(statement); err == nil || !strings.Contains(err.Error(), "other words") {
		t.Errorf("a changed total: got %v, want a signature of other words", err)
	}
}
