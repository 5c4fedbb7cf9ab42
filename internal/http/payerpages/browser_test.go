package payerpages

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/part"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
)

var screensFlag = flag.String("payerpages.screens", "", "folder for pictures of each state")

var (
	phone = browser.Appearance{Width: 360, Height: 740}
	night = browser.Appearance{Width: 360, Height: 740, Dark: true}
	desk  = browser.Appearance{Width: 1280, Height: 900}
)

// wantQuiet checks that a page complained about nothing and asked no other host for anything.
func (h *testEnv) wantQuiet(tab *browser.Page) {
	h.t.Helper()
	for _, complaint := range tab.ListComplaints() {
		h.t.Errorf("the browser complained: %s", complaint)
	}
	for _, url := range tab.ListRequests() {
		if !strings.HasPrefix(url, h.base) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "about:") {
			h.t.Errorf("the page asked for %s", url)
		}
	}
}

func (h *testEnv) open(tab *browser.Page, query string, look browser.Appearance) {
	h.t.Helper()
	tab.OpenURL(h.base+prefix+checkoutID+query, look)
	tab.WaitUntil("document.readyState === 'complete'")
}

func wantText(t *testing.T, tab *browser.Page, texts ...string) {
	t.Helper()
	body := strings.ReplaceAll(browser.Evaluate[string](tab, "document.body.innerText"), "\u00a0", " ")
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("got a page without %q:\n%s", text, body)
		}
	}
}

// look is a way in which a payer sees a page.
type look struct {
	name, language string
	appearance     browser.Appearance
}

// looksInTurn returns all looks in make pages and for pictures. In make test it returns one: the looks take
// turns, so that each state has one and each look has some of the states.
func looksInTurn(turn int, looks ...look) []look {
	if pagematrix.IsWhole() || *screensFlag != "" {
		return looks
	}
	return looks[turn%len(looks):][:1]
}

// listProblems returns what is wrong with the page that stands in the tab: it is wider than the screen, which is
// compared on a phone as well, what is touched is low, or it is not accessible.
func listProblems(tab *browser.Page, l look) (problems []string) {
	const isWide = "document.documentElement.scrollWidth > innerWidth"
	problems = append(browser.Evaluate[[]string](tab, smallTargets), tab.ListAccessibilityProblems()...)
	if browser.Evaluate[bool](tab, isWide) {
		problems = append(problems, "the page is wider than the screen")
	}
	if l.appearance.Width > phone.Width {
		tab.Resize(phone)
		if browser.Evaluate[bool](tab, isWide) {
			problems = append(problems, "the page is wider than a phone")
		}
	}
	return problems
}

// Every state is accessible in both themes and from right to left, fits a narrow phone, breaks its policy nowhere and
// asks no other host for anything. What is touched is at least 44 pixels high. make pages looks at each state in every
// look. Rules CO-42 and CO-49.
func TestEveryStateInABrowserIsAccessibleAndQuiet(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	states, looks, problems := listStates(), 0, 0
	if !pagematrix.IsWhole() && *screensFlag == "" {
		states = part.OfToday(t, states, 3)
	}
	for turn, s := range states {
		h.checkouts.change(func(v *View) { *v = s.view })
		for _, l := range looksInTurn(
			turn, look{"light", "en", phone}, look{"dark", "de", night}, look{"arabic", "ar", phone},
			look{"desk", "pt-BR", desk},
		) {
			query := "?lang=" + l.language
			if s.query != "" {
				query = s.query + "&lang=" + l.language
			}
			h.open(tab, query, l.appearance)
			name := s.name + "-" + l.name
			if *screensFlag != "" {
				tab.SaveWholePage(filepath.Join(*screensFlag, name+".png"))
				continue
			}
			looks++
			for _, problem := range listProblems(tab, l) {
				problems++
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
	h.wantQuiet(tab)
	if pagematrix.IsWhole() {
		fmt.Printf("pages: payerpages: %d pages and states, %d looks, %d problems\n", len(states), looks, problems)
	}
}

// smallTargets lists what is too low to be touched. Links within a sentence are free of that.
const smallTargets = `[...document.querySelectorAll('a, button, summary, input')].filter((e) =>
	e.checkVisibility() && !e.closest('p:not(.change, .wallet-link)') && !e.classList.contains('skip') &&
	e.getBoundingClientRect().height < 43.9).map((e) => 'low: ' + e.outerHTML.slice(0, 120))`

// The page for a search and the pages of refusals are accessible, too. Rule CO-49.
func TestTheOtherPagesInABrowserAreAccessible(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	payment := newPayment(PaymentSeen, 4)
	h.checkouts.finding = Finding{Outcome: FoundPayment, Payment: &payment}
	tab := browser.Open(t)
	for _, appearance := range []browser.Appearance{phone, night} {
		h.open(tab, "/find", appearance)
		tab.Type("#hash", evmHash)
		tab.Click("main button")
		wantText(t, tab, "Your payment is here", "Blocks still missing: 4")
		check := func(name string) {
			for _, problem := range tab.ListAccessibilityProblems() {
				t.Errorf("%s: %s", name, problem)
			}
			if *screensFlag != "" {
				tab.SaveWholePage(filepath.Join(*screensFlag, fmt.Sprintf("%s-%v.png", name, appearance.Dark)))
			}
		}
		check("found")
		tab.Type("#hash", "no hash")
		tab.Click("main button")
		wantText(t, tab, "This is not a transaction hash.")
		check("no-hash")
		tab.OpenURL(h.base+prefix+otherID, appearance)
		wantText(t, tab, "There is no payment at this address")
		check("unknown")
	}
	for _, complaint := range tab.ListComplaints() {
		if !strings.Contains(complaint, "status of 40") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}

// With scripts switched off, a payer chooses, sees amount, address and QR code, sees the state after a reload that the
// page makes by itself, can stop that, and looks for a payment. Rule CO-43.
func TestThePageIsCompleteWithoutScripts(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.checkouts.finding = Finding{Outcome: FoundNowhere}
	tab := browser.Open(t)
	tab.DisableScripts()
	h.open(tab, "", phone)
	tab.Click("button.option")
	wantText(t, tab, "Pay with USDC on Base", "49.99", evmAddress, "Enter the amount in your wallet.",
		"This page loads itself again every 15 seconds.")
	for _, want := range []string{
		"document.querySelector('.qr svg').getBoundingClientRect().width > 150",
		"document.querySelector('meta[http-equiv=refresh]').content === '15; url=" + prefix + checkoutID + "?mint=1'",
		"[...document.querySelectorAll('button[data-copy], #wallets')].every((e) => !e.checkVisibility())",
		"getComputedStyle(document.querySelector('#address')).userSelect === 'all'",
	} {
		if !browser.Evaluate[bool](tab, want) {
			t.Errorf("got a page where it is not so: %s", want)
		}
	}
	if *screensFlag != "" {
		tab.SaveWholePage(filepath.Join(*screensFlag, "no-scripts.png"))
	}
	tab.Click("footer noscript a")
	wantText(t, tab, "Pay with USDC on Base", "Load it again every 15 seconds")
	if browser.Evaluate[bool](tab, "document.querySelector('meta[http-equiv=refresh]') !== null") {
		t.Error("the page still loads itself again")
	}
	h.checkouts.change(func(v *View) { *v = paidView(Processing, newPayment(PaymentSeen, 9)) })
	tab.Click(".exits noscript a")
	wantText(t, tab, "Payment seen", "Blocks still missing: 9", "Back to Northwind Coffee")
	tab.Click(".exits > a:not(.button)")
	tab.Type("#hash", evmHash)
	tab.Click("main button")
	wantText(t, tab, "No network knows it")
	h.wantQuiet(tab)
	for _, url := range tab.ListRequests() {
		if strings.HasSuffix(url, "/live") {
			t.Error("a script ran")
		}
	}
}

// An open page shows each change by itself: the focus stays, what was unfolded stays so, and a screen reader hears the
// state once. Rule CO-45.
func TestAnOpenPageChangesByItself(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	h.open(tab, "?mint=2#k=secret", phone)
	browser.Evaluate[bool](tab, `(window.cofferStays = true, document.querySelector('#order').open = true,
		document.querySelector('#copy-address').focus(), true)`)
	tab.WaitUntil("/^New rate in \\u2068\\d\\d:\\d\\d\\u2069$/.test(" +
		"document.querySelector('[data-countdown]').textContent)")
	h.checkouts.change(func(v *View) {
		*v = paidView(Open, newPayment(PaymentSeen, 3), Underpaid)
		v.AmountPaid, v.AmountRemaining = "25.12", "24.87"
	})
	tab.WaitUntil("document.querySelector('h1').textContent.includes('still due')")
	for _, want := range []string{
		"document.activeElement.id === 'copy-address'", "document.querySelector('#order').open",
		"document.querySelector('#announcement').textContent.includes('Blocks still missing: 3')",
		"document.querySelector('#copy-address').checkVisibility()", "location.hash === '#k=secret'",
	} {
		if !browser.Evaluate[bool](tab, want) {
			t.Errorf("after the change it is not so: %s", want)
		}
	}
	h.checkouts.change(func(v *View) { *v = paidView(Completed, newPayment(PaymentCredited, 0)); v.Version = 99 })
	tab.WaitUntil("document.querySelector('h1').textContent === 'Paid'")
	for _, want := range []string{
		"document.activeElement === document.querySelector('main')", // the button is gone
		"window.cofferStays", "document.querySelector('.exits a').href.includes('statement=abc')",
		"!document.querySelector('.exits a').href.includes('secret')", // the key stays on the pages of the checkout
		"document.querySelector('footer a').href.endsWith('#k=secret')",
	} {
		if !browser.Evaluate[bool](tab, want) {
			t.Errorf("after the payment it is not so: %s", want)
		}
	}
	for _, url := range tab.ListRequests() {
		if strings.Contains(strings.SplitN(url, "#", 2)[0], "secret") {
			t.Errorf("the key was sent: %s", url)
		}
	}
	h.wantQuiet(tab)
}

// A new rate is fetched when the old one ends, without a new version.
func TestANewRateIsFetchedByItself(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	setRate := func(rate string, ends string) {
		h.checkouts.mu.Lock()
		defer h.checkouts.mu.Unlock()
		option := openOption(ethMain)
		option.RateText = rate
		if ends == "" {
			option.RateExpiresAt = option.RateExpiresAt.AddDate(-1, 0, 0)
		}
		h.checkouts.view.Options = []Option{option}
	}
	setRate("1 ETH = 1 USD", "")
	tab := browser.Open(t)
	h.open(tab, "?mint=2", phone)
	// The page has asked once. The next question follows after its pause, or at once when the page is opened anew.
	setRate("1 ETH = 2 USD", "later")
	tab.WaitUntil("document.querySelector('.rate').textContent.includes('1 ETH = 2 USD')")
	h.wantQuiet(tab)
}

// Everything is reached and used by the keyboard: the skip link comes first, an option is chosen by Enter, and the
// panel has its buttons in the order in which they are read. Rule CO-49.
func TestThePageIsUsedByTheKeyboard(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	h.open(tab, "", phone)
	focused := func() string {
		return browser.Evaluate[string](tab, "document.activeElement.className + ' ' + document.activeElement.tagName")
	}
	tab.PressKeys("\t")
	if got := focused(); got != "skip A" {
		t.Errorf("got %q first, want the skip link", got)
	}
	for range 10 {
		if strings.HasPrefix(focused(), "option ") {
			break
		}
		tab.PressKeys("\t")
	}
	if got := browser.Evaluate[string](tab, "getComputedStyle(document.activeElement).outlineStyle"); got != "solid" {
		t.Errorf("got the outline %q of what has the focus, want one that is seen", got)
	}
	tab.PressKeys("\r")
	tab.WaitUntil("document.querySelector('#panel-heading') !== null && document.readyState === 'complete'")
	var order []string
	for range 20 {
		tab.PressKeys("\t")
		if id := browser.Evaluate[string](tab, "document.activeElement.id"); strings.HasPrefix(id, "copy-") {
			order = append(order, id)
		}
	}
	if len(order) < 2 || !slices.Equal(order[:2], []string{"copy-amount", "copy-address"}) {
		t.Errorf("got %q by the keyboard, want amount and address", order)
	}
	h.wantQuiet(tab)
}

// injectWallets announces wallets to the page, as extensions of a browser do, and records what they are asked for.
const injectWallets = `(() => {
	window.calls = [];
	window.answers = %s;
	const announce = (uuid, name, icon) => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: {
		info: { uuid, name, icon, rdns: 'example.' + uuid },
		provider: { request: async ({ method, params }) => {
			window.calls.push({ method, params });
			const answer = window.answers[method];
			if (answer?.code) throw answer;
			return answer ?? null;
		} },
	} }));
	announce('one', 'First <b>wallet</b>', 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>');
	announce('two', 'Second wallet', 'https://tracker.example/icon.png');
	announce('three', 'Third wallet', 'javascript:alert(1)');
	announce('one', 'An impostor', '');
	return true;
})()`

// A wallet of the browser is asked for exactly one transaction: the chain, the contract or address, and the amount of
// the option. Rule CO-50.
func TestAWalletGetsExactlyTheTransaction(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) { c.Origin = "https://pay.example" })
	h.checkouts.change(func(v *View) { v.Options[0] = openOption(usdcBase) })
	tab := browser.Open(t)
	const from = "0x1111111111111111111111111111111111111111"
	for _, c := range []struct{ mint, chain, transaction string }{
		{"1", "0x2105", `{"from":"` + from + `","to":"` + usdcOnBase + `","value":"0x0","data":"0xa9059cbb` +
			`00000000000000000000000071c7656ec7ab88b098defb751b7401b5f6d8976f` +
			`0000000000000000000000000000000000000000000000000000000002fac970"}`},
		{"2", "0x1", `{"from":"` + from + `","to":"` + evmAddress + `","value":"0x46b03751189000"}`},
	} {
		h.open(tab, "?mint="+c.mint, phone)
		// Without a wallet in the browser, the apps of the phone are offered.
		if !browser.Evaluate[bool](tab, "document.querySelector('#phone-wallets').open = true") {
			t.Error("there is no way into the apps of the phone")
		}
		for _, problem := range tab.ListAccessibilityProblems() {
			t.Errorf("apps: %s", problem)
		}
		if *screensFlag != "" {
			tab.SaveWholePage(filepath.Join(*screensFlag, "apps-"+c.mint+".png"))
		}
		browser.Evaluate[bool](tab, fmt.Sprintf(injectWallets, `{ eth_requestAccounts: ['`+from+`'],
			eth_chainId: '`+c.chain+`', eth_sendTransaction: '`+evmHash+`' }`))
		tab.WaitUntil("document.querySelectorAll('#wallets button').length === 3")
		icons := browser.Evaluate[[]string](tab, "[...document.querySelectorAll('#wallets img')].map((i) => i.src)")
		if len(icons) != 1 || !strings.HasPrefix(icons[0], "data:image/svg+xml") {
			t.Errorf("got the icons %q, want that of the data URI alone", icons)
		}
		wantText(t, tab, "First <b>wallet</b>", "Second wallet")
		if !browser.Evaluate[bool](tab, "document.querySelector('#phone-wallets').hidden") {
			t.Error("an app is offered beside the wallet of the browser")
		}
		if *screensFlag != "" {
			tab.SaveWholePage(filepath.Join(*screensFlag, "wallets-"+c.mint+".png"))
		}
		for _, problem := range tab.ListAccessibilityProblems() {
			t.Errorf("wallets: %s", problem)
		}
		browser.Evaluate[bool](tab, "(document.querySelector('#wallet-one').click(), true)")
		tab.WaitUntil("document.querySelector('.wallet-state').textContent.startsWith('Your wallet has sent')")
		var want, got any
		raw := browser.Evaluate[string](tab, "JSON.stringify(window.calls)")
		if err := json.Unmarshal([]byte(raw), &got); err != nil {
			t.Fatal(err)
		}
		wantRaw := `[{"method":"eth_requestAccounts","params":[]},
			{"method":"wallet_switchEthereumChain","params":[{"chainId":"` + c.chain + `"}]},
			{"method":"eth_chainId","params":[]},{"method":"eth_sendTransaction","params":[` + c.transaction + `]}]`
		if err := json.Unmarshal([]byte(wantRaw), &want); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("mint %s: got the calls\n%s\nwant\n%s", c.mint, raw, wantRaw)
		}
		if !browser.Evaluate[bool](tab, "[...document.querySelectorAll('#wallets button')].every((b) => b.disabled)") {
			t.Error("the page offers to send the payment again")
		}
	}
	h.wantQuiet(tab)
}

// A wallet that refuses, stays on another chain or answers nonsense is named as what it is, and another chain gets no
// transaction. Rule CO-50.
func TestAWalletThatDoesNotPayIsNamed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	const account = "eth_requestAccounts: ['0x1111111111111111111111111111111111111111'], "
	const (
		refused = "Your wallet did not send anything."
		strayed = "Your wallet did not change to Ethereum."
		unclear = "Your wallet gave no clear answer."
	)
	for answers, want := range map[string]string{
		"{ eth_requestAccounts: { code: 4001 } }":                                    refused,
		"{ " + account + "wallet_switchEthereumChain: { code: 4902 } }":              strayed,
		"{ " + account + "eth_chainId: '0x38' }":                                     strayed,
		"{ " + account + "eth_chainId: '0x1', eth_sendTransaction: { code: 4001 } }": refused,
		"{ " + account + "eth_chainId: '0x1', eth_sendTransaction: { code: -1 } }":   unclear,
		"{ " + account + "eth_chainId: '0x1', eth_sendTransaction: 'done' }":         unclear,
	} {
		h.open(tab, "?mint=2", phone)
		browser.Evaluate[bool](tab, fmt.Sprintf(injectWallets, answers))
		tab.WaitUntil("document.querySelector('#wallet-two') !== null")
		browser.Evaluate[bool](tab, "(document.querySelector('#wallet-two').click(), true)")
		tab.WaitUntil("!/^(Please confirm.*)?$/.test(document.querySelector('.wallet-state').textContent)")
		wantText(t, tab, want)
		isAsked := browser.Evaluate[bool](tab, "window.calls.some((c) => c.method === 'eth_sendTransaction')")
		if isAsked != strings.Contains(answers, "eth_sendTransaction") {
			t.Errorf("%s: asked for a transaction %v", answers, isAsked)
		}
		if browser.Evaluate[bool](tab, "document.querySelector('#wallet-two').disabled") {
			t.Errorf("%s: the payer cannot try again", answers)
		}
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *screensFlag != "" {
		if err := os.MkdirAll(*screensFlag, 0o700); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// No language and no figure makes a page wider than the narrowest screen, and every language has its own direction.
// Rules CO-48 and CO-49.
func TestNoLanguageIsWiderThanTheScreen(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	narrow := browser.Appearance{Width: 320, Height: 640}
	long := paidView(Open, newPayment(PaymentSeen, 3), Underpaid)
	long.ShopName = strings.Repeat("Donaudampfschifffahrtsgesellschaft", 3)
	long.Items[0].Name = strings.Repeat("W", nameRunesMax)
	for _, figure := range []*string{&long.AmountDue, &long.AmountPaid, &long.AmountRemaining} {
		*figure = "123456789012.123456789012345678"
	}
	option := openOption(ethMain)
	option.Amount, option.Symbol = "123456789012.123456789012345678", "WSTETHVERYLONG"
	option.Memo = strings.Repeat("m", 100)
	long.Options = []Option{option}
	states := append(
		listStates(), state{name: "long", view: long}, state{name: "long-panel", query: "?mint=2", view: long},
	)
	states = slices.DeleteFunc(states, func(s state) bool {
		return !slices.Contains([]string{"open", "panel-2", "underpaid", "long", "long-panel"}, s.name)
	})
	isWhole := pagematrix.IsWhole() || *screensFlag != ""
	for i, s := range states {
		h.checkouts.change(func(v *View) { *v = s.view })
		for j, l := range languages {
			if !isWhole && j%len(states) != i { // Each language is looked at in one state; make pages has them all.
				continue
			}
			h.open(tab, strings.TrimSuffix("?lang="+l.tag+"&"+strings.TrimPrefix(s.query, "?"), "&"), narrow)
			if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
				t.Errorf("%s, %s: the page is wider than the screen", s.name, l.tag)
			}
			if got := browser.Evaluate[string](tab, "getComputedStyle(document.body).direction"); got != l.direction {
				t.Errorf("%s: got the direction %s, want %s", l.tag, got, l.direction)
			}
			if *screensFlag != "" {
				tab.SaveWholePage(filepath.Join(*screensFlag, "narrow-"+s.name+"-"+l.tag+".png"))
			}
		}
	}
	h.wantQuiet(tab)
}
