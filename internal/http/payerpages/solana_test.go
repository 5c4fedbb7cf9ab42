package payerpages

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

const (
	solanaPayer  = "FPP21sbqhr2LPjSnJkw5NBetPubeFG4PsQFBxHj8noTq"
	solanaShared = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2"
)

// unsignedSOL returns the transaction of the fixture's option of Solana, over an amount.
func unsignedSOL(t *testing.T, lamports uint64) []byte {
	t.Helper()
	raw, err := solanatx.Request{
		Payer: solanaPayer, Payee: chain.Address(solanaShared), Amount: money.Units(lamports),
		Reference: sha256.Sum256([]byte("reference")), Blockhash: "96GzYFvs4dEeswTaQFQhvbGi6NHUcNHhEgXnPrRjyF2s",
	}.Unsigned()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// request asks as a wallet does.
func (h *testEnv) request(method, query, body string) answer {
	h.t.Helper()
	r := httptest.NewRequest(method, prefix+checkoutID+solanaPath+query, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return h.do(r)
}

// A wallet that speaks the transaction request of Solana Pay is told who asks, and then gets the transaction with its
// amount and the shop in words. What it says goes to the feature as it is. Rule CO-116.
func TestAWalletRequestsThePaymentOfSolana(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) { c.Origin = "https://pay.example" })
	h.checkouts.unsigned = unsignedSOL(t, 312_100_000)
	got := h.request(http.MethodGet, "?mint=3", "")
	var described struct{ Label, Icon string }
	if err := json.Unmarshal([]byte(got.body), &described); err != nil || got.status != http.StatusOK ||
		described.Label != "Northwind Coffee" || !strings.HasPrefix(described.Icon, "https://pay.example"+assetsPath) ||
		!strings.HasSuffix(described.Icon, ".svg") || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %s %v, want the shop and its icon", got.status, got.body, err)
	}
	if icon := h.get(strings.TrimPrefix(described.Icon, "https://pay.example")); icon.status != http.StatusOK {
		t.Errorf("got %d for the icon", icon.status)
	}
	got = h.request(http.MethodPost, "?mint=3", `{"account":"`+solanaPayer+`"}`)
	var paid struct{ Transaction, Message string }
	err := json.Unmarshal([]byte(got.body), &paid)
	raw, decodeErr := base64.StdEncoding.DecodeString(paid.Transaction)
	if got.status != http.StatusOK || err != nil || decodeErr != nil || !slices.Equal(raw, h.checkouts.unsigned) ||
		paid.Message != "0.3121 SOL to Northwind Coffee" {
		t.Errorf("got %d %s, want the transaction with its message", got.status, got.body)
	}
	got = h.request(http.MethodPost, "", `{"account":"`+solanaPayer+`","amount":"312100000","more":1}`)
	want := []WalletRequest{{MintID: 3, Account: solanaPayer}, {Account: solanaPayer, Amount: "312100000"}}
	if got.status != http.StatusOK || !slices.Equal(h.checkouts.requests, want) {
		t.Errorf("got %d and the requests %+v, want %+v", got.status, h.checkouts.requests, want)
	}
}

// A wallet that runs in a browser has an origin of its own. It reads the answers of the transaction request, and its
// browser allows the request before. No other path is open to other origins, and none takes credentials. Rule CO-139.
func TestWalletsOfOtherOriginsReadTheRequestAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.checkouts.unsigned = unsignedSOL(t, 312_100_000)
	ask := func(method, path string) answer {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(`{"account":"`+solanaPayer+`"}`))
		r.Header.Set("Origin", "https://wallet.example")
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		r.Header.Set("Access-Control-Request-Headers", "content-type")
		return h.do(r)
	}
	path := prefix + checkoutID + solanaPath
	got := ask(http.MethodOptions, path+"?mint=3")
	if got.status != http.StatusNoContent || got.body != "" ||
		got.header.Get("Access-Control-Allow-Methods") != "GET, POST" ||
		!strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Content-Type") {
		t.Errorf("got %d %v, want the request allowed", got.status, got.header)
	}
	if len(h.checkouts.requests) != 0 {
		t.Error("the question before a request asked for a transaction")
	}
	isOpen := func(method, path string, status int) {
		t.Helper()
		got := ask(method, path)
		if got.status != status || got.header.Get("Access-Control-Allow-Origin") != "*" ||
			got.header.Get("Cross-Origin-Resource-Policy") != "cross-origin" ||
			got.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s %s: got %d %v, want %d for every origin, without credentials", method, path, got.status,
				got.header, status)
		}
	}
	isOpen(http.MethodOptions, path, http.StatusNoContent)
	isOpen(http.MethodGet, path, http.StatusOK)
	isOpen(http.MethodPost, path, http.StatusOK)
	isOpen(http.MethodGet, prefix+otherID+solanaPath, http.StatusNotFound)
	problem := FundsProblem
	h.checkouts.problem = &problem
	isOpen(http.MethodPost, path, http.StatusUnprocessableEntity)
	for _, other := range []string{
		prefix + checkoutID, prefix + checkoutID + "/options", prefix + checkoutID + "/find", path + "/x",
		prefix + checkoutID + "/receipt.json", prefix + checkoutID + "/live", LinkPrefix + "shop",
		RefundPrefix + "ref_01J9ZW3M8Q4S5T6V7W8X9YZABC/claim",
	} {
		for _, method := range []string{http.MethodOptions, http.MethodGet} {
			if other == prefix+checkoutID+"/live" && method == http.MethodGet {
				continue // It has no end.
			}
			got := ask(method, other)
			for name := range got.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: got %s, want it for this origin alone", method, other, name)
				}
			}
			if got.header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s %s: got a policy for other origins", method, other)
			}
		}
	}
}

// A wallet that gets no transaction gets words for the payer, in the language of the payer, and nothing of an error.
// Rules CO-44 and CO-117.
func TestARefusedWalletIsToldWhy(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ask := func(body string) (status int, message string) {
		t.Helper()
		got := h.request(http.MethodPost, "?mint=3&lang=de", body)
		var said map[string]string
		if err := json.Unmarshal([]byte(got.body), &said); err != nil || len(said) != 1 || said["message"] == "" ||
			got.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: got %d %s, want a message", body, got.status, got.body)
		}
		return got.status, said["message"]
	}
	account := `{"account":"` + solanaPayer + `"}`
	statuses := map[WalletProblem]int{
		AccountProblem: 400, ClosedProblem: 409, AmountProblem: 409, OptionProblem: 422, FundsProblem: 422,
		UnreadyProblem: 422, NodeProblem: 503,
	}
	for _, problem := range listWalletProblems() {
		h.checkouts.problem = &problem
		status, message := ask(account)
		if want := languages[1].texts["solana."+string(problem)]; status != statuses[problem] || message != want {
			t.Errorf("%s: got %d %q, want %d %q", problem, status, message, statuses[problem], want)
		}
	}
	h.checkouts.problem = nil
	asked := len(h.checkouts.requests)
	for body, want := range map[string]int{
		"": 400, "{}": 400, "[]": 400, `{"account":7}`: 400, `{"account":""}`: 400,
		`{"account":"` + strings.Repeat("1", accountBytesMax+1) + `"}`:              400,
		`{"account":"x","amount":"` + strings.Repeat("1", accountBytesMax+1) + `"}`: 400,
		strings.Repeat(" ", bodyBytesMax) + account:                                 400,
		`{"account":"` + solanaPayer + `"`:                                          400,
	} {
		if status, _ := ask(body); status != want {
			t.Errorf("%.40s: got %d, want %d", body, status, want)
		}
	}
	if len(h.checkouts.requests) != asked {
		t.Error("what is no request reached the feature")
	}
	h.checkouts.err = errors.New("connection to 10.0.0.7 refused")
	status, message := ask(account)
	if status != http.StatusInternalServerError || strings.Contains(message, "10.0.0") {
		t.Errorf("got %d %q for an error of ours", status, message)
	}
	h.checkouts.err = nil
	h.checkouts.view.CheckoutID = otherID
	if status, _ := ask(account); status != http.StatusNotFound {
		t.Errorf("got %d for an absent checkout, want 404", status)
	}
}

// injectStandardWallets registers wallets as extensions do, and records what they are asked for.
const injectStandardWallets = `(() => {
	window.calls = [];
	const setup = %s;
	const account = (chains) => ({
		address: setup.account, publicKey: new Uint8Array(32), chains, features: ['solana:signAndSendTransaction'],
	});
	const make = (name, icon, chains, features = {}) => ({
		version: '1.0.0', name, icon, chains, accounts: [],
		features: {
			'standard:connect': { version: '1.0.0', connect: async () => {
				window.calls.push({ wallet: name, method: 'connect' });
				if (setup.connectError) throw setup.connectError;
				return { accounts: setup.accountChains === null ? [] : [account(setup.accountChains ?? chains)] };
			} },
			'solana:signAndSendTransaction': { version: '1.0.0', supportedTransactionVersions: ['legacy', 0],
				signAndSendTransaction: async (input) => {
					window.calls.push({ wallet: name, method: 'send', chain: input.chain,
						account: input.account.address, transaction: btoa(String.fromCharCode(...input.transaction)) });
					if (setup.sendError) throw setup.sendError;
					return [{ signature: new Uint8Array(setup.signatureLength ?? 64) }];
				} },
			...features,
		},
	});
	const wallets = [
		make('First <b>wallet</b>', 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg">' +
			'<script>window.hacked=1</script></svg>', ['solana:mainnet', 'solana:devnet']),
		make('Second wallet', 'https://tracker.example/icon.png', ['solana:mainnet']),
		make('Other network', '', ['solana:devnet']),
		make('Signs nothing', '', ['solana:mainnet'], { 'solana:signAndSendTransaction': undefined }),
		{ name: 'Broken' }, null,
	];
	// One wallet is there before the page says that it is ready, the others come later.
	const register = (...some) => {
		const callback = ({ register }) => register(...some);
		dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail: callback }));
		addEventListener('wallet-standard:app-ready', ({ detail }) => callback(detail));
	};
	register(wallets[0]);
	register(...wallets);
	return true;
})()`

// chooseWallet opens the panel of Solana with wallets, presses the button of one, and returns what the page says then.
func (h *testEnv) chooseWallet(tab *browser.Page, setup string) (said string) {
	h.t.Helper()
	h.open(tab, "?mint=3", phone)
	browser.Evaluate[bool](tab, fmt.Sprintf(injectStandardWallets, setup))
	tab.WaitUntil("document.querySelectorAll('#wallets button').length === 2")
	browser.Evaluate[bool](tab, "(document.querySelector('#wallet-0').click(), true)")
	tab.WaitUntil("!/^(Please confirm.*)?$/.test(document.querySelector('.wallet-state').textContent)")
	return browser.Evaluate[string](tab, "document.querySelector('.wallet-state').textContent")
}

// A wallet of the Wallet Standard that is on the network of the option gets exactly the transaction that the server
// built for its account, after the page has compared the amount. Other wallets are not offered. Rule CO-118.
func TestAWalletOfSolanaGetsExactlyTheTransaction(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.checkouts.unsigned = unsignedSOL(t, 312_100_000)
	tab := browser.Open(t)
	said := h.chooseWallet(tab, `{ account: '`+solanaPayer+`' }`)
	if !strings.HasPrefix(said, "Your wallet has sent the payment.") {
		t.Errorf("got %q", said)
	}
	wantText(t, tab, "First <b>wallet</b>", "Second wallet", "Your wallet shows 0.3121 SOL before you confirm.")
	icons := browser.Evaluate[[]string](tab, "[...document.querySelectorAll('#wallets img')].map((i) => i.src)")
	if len(icons) != 1 || !strings.HasPrefix(icons[0], "data:image/svg+xml") ||
		browser.Evaluate[bool](tab, "Boolean(window.hacked)") {
		t.Errorf("got the icons %q, want that of the data URI alone, and no script of it", icons)
	}
	for _, problem := range tab.ListAccessibilityProblems() {
		t.Errorf("wallets: %s", problem)
	}
	var calls []map[string]string
	raw := browser.Evaluate[string](tab, "JSON.stringify(window.calls)")
	if err := json.Unmarshal([]byte(raw), &calls); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"wallet": "First <b>wallet</b>", "method": "send", "chain": "solana:mainnet", "account": solanaPayer,
		"transaction": base64.StdEncoding.EncodeToString(h.checkouts.unsigned),
	}
	if len(calls) != 2 || calls[0]["method"] != "connect" || !maps.Equal(calls[1], want) {
		t.Errorf("got the calls %s, want one connection and %v", raw, want)
	}
	asked := []WalletRequest{{MintID: solSol, Account: solanaPayer, Amount: "312100000"}}
	if !slices.Equal(h.checkouts.requests, asked) {
		t.Errorf("got the requests %+v, want %+v", h.checkouts.requests, asked)
	}
	if !browser.Evaluate[bool](tab, "[...document.querySelectorAll('#wallets button')].every((b) => b.disabled)") {
		t.Error("the page offers to send the payment again")
	}
	h.wantQuiet(tab)
}

// A wallet that refuses, has no account on the network, or answers nonsense is named as what it is, and so is a server
// that gives no transaction. A transaction over another amount than the page shows reaches no wallet. Rule CO-118.
func TestAWalletOfSolanaThatDoesNotPayIsNamed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	const (
		refused = "Your wallet did not send anything."
		unclear = "Your wallet gave no clear answer."
		failed  = "The payment could not be prepared"
	)
	right, wrong := unsignedSOL(t, 312_100_000), unsignedSOL(t, 312_100_001)
	for _, c := range []struct {
		name, setup string
		unsigned    []byte
		problem     WalletProblem
		want        string
		isAsked     bool
	}{
		{"no connection", `connectError: { code: 4001 }`, right, "", refused, false},
		{"no account", `accountChains: null`, right, "", refused, false},
		{"an account of another network", `accountChains: ['solana:devnet']`, right, "", refused, false},
		{"refused", `sendError: { code: 4001 }`, right, "", refused, true},
		{"broken", `sendError: { code: -1 }`, right, "", unclear, true},
		{"no signature", `signatureLength: 3`, right, "", unclear, true},
		{"another amount", ``, wrong, "", failed, false},
		{"no transaction", ``, nil, "", failed, false},
		{"no funds", ``, right, FundsProblem, "This account doesn't have the amount", false},
		{"node", ``, right, NodeProblem, "The network doesn't answer right now.", false},
	} {
		h.checkouts.mu.Lock()
		h.checkouts.unsigned, h.checkouts.problem = c.unsigned, nil
		if c.problem != "" {
			h.checkouts.problem = &c.problem
		}
		h.checkouts.mu.Unlock()
		said := h.chooseWallet(tab, `{ account: '`+solanaPayer+`', `+c.setup+` }`)
		isAsked := browser.Evaluate[bool](tab, "window.calls.some((c) => c.method === 'send')")
		if !strings.HasPrefix(said, c.want) || isAsked != c.isAsked {
			t.Errorf("%s: got %q and a wallet that was asked %v, want %q and %v", c.name, said, isAsked, c.want,
				c.isAsked)
		}
		if browser.Evaluate[bool](tab, "document.querySelector('#wallet-0').disabled") {
			t.Errorf("%s: the payer cannot try again", c.name)
		}
	}
}
