package payerpages

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
)

func (h *testEnv) openRefund(tab *browser.Page, query, fragment string, look browser.Appearance) {
	h.t.Helper()
	tab.OpenURL(h.base+RefundPrefix+refundID+query+fragment, look)
	tab.WaitUntil("document.readyState === 'complete'")
	if fragment != "" {
		tab.WaitUntil("document.querySelector('[data-refund]') !== null")
	}
}

// press clicks what changes the page without leaving it.
func press(tab *browser.Page, selector string) {
	browser.Evaluate[bool](tab, "(document.querySelector('"+selector+"').click(), true)")
}

// The page of a refund in each of its states is accessible in both themes and from right to left, fits a narrow phone
// and asks no other host for anything. The key is in no address that is sent. make pages looks at more states in the
// dark, from right to left and on a desk. Rules CO-42, CO-49 and CO-93.
func TestThePageOfARefundInABrowserIsAccessibleAndQuiet(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	check := func(name string) {
		t.Helper()
		if *screensFlag != "" {
			tab.SaveWholePage(filepath.Join(*screensFlag, name+".png"))
		}
		if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
			t.Errorf("%s: the page is wider than the screen", name)
		}
		problems := append(tab.ListAccessibilityProblems(), browser.Evaluate[[]string](tab, smallTargets)...)
		for _, problem := range problems {
			t.Errorf("%s: %s", name, problem)
		}
	}
	looks := []struct {
		name, language string
		appearance     browser.Appearance
	}{{"light", "en", phone}, {"dark", "de", night}, {"arabic", "ar", phone}, {"desk", "ja", desk}}
	inEachLook := []string{"waits", "sent", "problem-RISK"}
	isWhole := pagematrix.IsWhole() || *screensFlag != ""
	for turn, look := range looks {
		query := "?lang=" + look.language
		h.refunds.change(func(f *fakeRefunds) { f.view, f.refusal = newRefundView(), "" })
		h.openRefund(tab, query, "", look.appearance)
		check("refund-key-" + look.name)
		for _, s := range listRefundStories() {
			if look.name != "light" && !slices.Contains(inEachLook, s.name) {
				continue
			}
			if look.name != "light" && !isWhole && s.name != inEachLook[turn-1] {
				continue
			}
			h.refunds.change(func(f *fakeRefunds) { f.view = s.view })
			h.openRefund(tab, query, "#k="+refundKey, look.appearance)
			check("refund-" + s.name + "-" + look.name)
			tab.OpenURL("about:blank", look.appearance) // another fragment alone would not load the page
		}
		if look.name != "light" && !isWhole {
			continue
		}
		h.refunds.change(func(f *fakeRefunds) { f.view = newRefundView() })
		h.openRefund(tab, query, "#k="+refundKey, look.appearance)
		tab.Type("#address", evmAddress)
		press(tab, "main form[data-claim] button")
		tab.WaitUntil("document.querySelector('#confirm') !== null")
		check("refund-confirm-" + look.name)
		h.refunds.change(func(f *fakeRefunds) { f.refusal = AddressOfSender })
		press(tab, "#confirm")
		tab.WaitUntil("document.querySelector('#address[aria-invalid]') !== null")
		check("refund-refused-" + look.name)
		h.refunds.change(func(f *fakeRefunds) { f.refusal = "" })
		browser.Evaluate[bool](tab, "(document.querySelector('#sign-by-hand').open = true)")
		tab.Type("#proof-address", evmAddress)
		press(tab, "#sign-by-hand button")
		tab.WaitUntil("document.querySelector('#challenge') !== null")
		check("refund-sign-" + look.name)
	}
	for _, url := range tab.ListRequests() {
		if strings.Contains(strings.SplitN(url, "#", 2)[0], refundKey) {
			t.Errorf("the key was sent in an address: %s", url)
		}
	}
	for _, complaint := range tab.ListComplaints() {
		if !strings.Contains(complaint, "status of 42") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}

// injectSigners announces wallets that sign, as extensions of a browser do, and records what they are asked for.
const injectSigners = `(() => {
	window.calls = [];
	dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: {
		info: { uuid: 'one', name: 'First <b>wallet</b>', icon: 'https://tracker.example/icon.png' },
		provider: { request: async ({ method, params }) => {
			window.calls.push(method);
			if (method === 'eth_requestAccounts') return ['` + evmAddress + `'];
			if (window.refuses) throw { code: 4001 };
			const bytes = params[0].slice(2).match(/../g).map((b) => parseInt(b, 16));
			window.signed = new TextDecoder().decode(new Uint8Array(bytes)) + '|' + params[1];
			return '0xsigned';
		} },
	} }));
	const account = { address: '` + solAddress + `', chains: ['solana:mainnet'] };
	const wallet = {
		name: 'Second wallet', chains: ['solana:mainnet'], accounts: [],
		features: {
			'standard:connect': { connect: async () => ({ accounts: [account] }) },
			'solana:signMessage': { signMessage: async ({ account, message }) => {
				window.signed = new TextDecoder().decode(message) + '|' + account.address;
				return [{ signedMessage: message, signature: new Uint8Array([1, 2, 250]) }];
			} },
		},
	};
	dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail: (api) => api.register(wallet) }));
	return true;
})()`

// A payer claims with a typed address and with wallets that sign, with scripts; the wallets sign exactly the text of
// the page. Without scripts the payer pastes the key. Rules CO-93, CO-94 and CO-95.
func TestARefundIsClaimedInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	fresh := func(kind ProofKind) {
		h.refunds.change(func(f *fakeRefunds) {
			f.view, f.claims, f.proofs = newRefundView(), nil, nil
			f.view.Proof = kind
		})
		tab.OpenURL("about:blank", phone)
	}
	fresh(EVMProof)
	h.openRefund(tab, "", "#k="+refundKey, phone)
	wantText(t, tab, "Where should your refund go?", "49.99 USDC")
	press(tab, ".skip")
	got := browser.Evaluate[string](tab, "document.activeElement.tagName + location.hash")
	if got != "MAIN#k="+refundKey {
		t.Errorf("got %q after the link to the content, want the key kept", got)
	}
	tab.Type("#address", strings.ToLower(evmAddress))
	press(tab, "main form[data-claim] button")
	tab.WaitUntil("document.querySelector('#confirm') !== null")
	press(tab, "#confirm")
	tab.WaitUntil("document.querySelector('[data-refund=REQUESTED]') !== null")
	if !slices.Equal(h.refunds.claims, []string{evmAddress}) {
		t.Errorf("claimed %q", h.refunds.claims)
	}

	for _, c := range []struct {
		kind                           ProofKind
		button, address, wantSignature string
	}{{EVMProof, "#signer-one", evmAddress, "0xsigned"}, {SolanaProof, "#signer-solana-1", solAddress, "AQL6"}} {
		fresh(c.kind)
		h.openRefund(tab, "", "#k="+refundKey, phone)
		browser.Evaluate[bool](tab, injectSigners)
		tab.WaitUntil("document.querySelectorAll('#signers button').length === 1")
		for _, problem := range tab.ListAccessibilityProblems() {
			t.Errorf("wallets: %s", problem)
		}
		if c.kind == EVMProof {
			browser.Evaluate[bool](tab, "(window.refuses = true, document.querySelector('"+c.button+"').click(), true)")
			tab.WaitUntil("/did not sign/.test(document.querySelector('.wallet-state').textContent)")
			browser.Evaluate[bool](tab, "(window.refuses = false, true)")
			if len(h.refunds.proofs) > 0 {
				t.Error("claimed without a signature")
			}
		}
		browser.Evaluate[bool](tab, "(document.querySelector('"+c.button+"').click(), true)")
		tab.WaitUntil("document.querySelector('[data-refund=REQUESTED]') !== null")
		if got := browser.Evaluate[string](tab, "window.signed"); got != proofText+"|"+c.address {
			t.Errorf("%s: signed %q", c.kind, got)
		}
		h.refunds.change(func(f *fakeRefunds) {
			if len(f.proofs) != 1 || f.proofs[0].Address != c.address || f.proofs[0].Signature != c.wantSignature ||
				f.proofs[0].ExpiresAt.Unix() != 1_800_000_000 {
				t.Errorf("%s: got the proofs %+v", c.kind, f.proofs)
			}
		})
		wantText(t, tab, "You have shown that this address is yours.")
		h.refunds.change(func(f *fakeRefunds) { f.view.State, f.view.TxHash = RefundSent, evmHash })
		press(tab, "#reload")
		tab.WaitUntil("document.querySelector('[data-refund=SENT]') !== null")
		wantText(t, tab, evmHash)
	}

	// The page of the checkout leads to the refund, and its field is hidden while the key is in the address.
	fresh(EVMProof)
	h.checkouts.change(func(v *View) { *v = paidView(Completed, newPayment(PaymentCredited, 0)); v.HasRefund = true })
	h.open(tab, "#k="+pageKey, phone)
	if browser.Evaluate[bool](tab, "document.querySelector('#page-key').checkVisibility()") {
		t.Error("the page asks for a key that it has")
	}
	for _, problem := range tab.ListAccessibilityProblems() {
		t.Errorf("checkout with a refund: %s", problem)
	}
	press(tab, "form[data-refund-key] button")
	tab.WaitUntil("document.querySelector('[data-refund=AWAITING_ADDRESS]') !== null")
	if got := browser.Evaluate[string](tab, "location.hash"); got != "#k="+refundKey {
		t.Errorf("got the fragment %q of the refund", got)
	}
	h.wantQuiet(tab)

	fresh(EVMProof)
	tab.DisableScripts()
	h.openRefund(tab, "", "", phone)
	tab.Type("#key", "k="+refundKey)
	tab.Click("main button")
	tab.Type("#address", evmAddress)
	tab.Click("main form button")
	tab.Click("#confirm")
	wantText(t, tab, "Your address is stored")
	if !slices.Equal(h.refunds.claims, []string{evmAddress}) {
		t.Errorf("claimed %q without scripts", h.refunds.claims)
	}
}
