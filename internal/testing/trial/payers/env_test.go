package payers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/webhook"
)

const (
	lookInterval = 50 * time.Millisecond
	playMax      = 25 * time.Minute // against a hang alone
	// payersMax is how many payers are played at the same time. They mostly wait for blocks.
	payersMax = 5

	priceText       = "25" // below the threshold of screening
	screenedText    = "250"
	screeningText   = "100.00"
	shopName        = "Example Marketplace"
	catalogueFolder = "../../../http/payerpages/catalogue"
)

var phone = browser.Appearance{Width: 360, Height: 740}

// TestMain plays more payers at the same time than the machine has processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(payersMax)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// scenario is the world of all payers.
type scenario struct {
	*localworld.World
	api     *client.Client
	words   map[string]map[string]string // the texts of pages, by language and key
	faucets map[string]*sync.Mutex       // a faucet has one account, whose payments have an order
	// disturbed lets one case at a time disturb a chain.
	disturbed map[string]*sync.Mutex

	mu     sync.Mutex
	looked map[string]bool // states of pages whose accessibility is known
	looks  int
}

// newScenario starts a world whose organization screens deposits above a hundred dollars.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	n := &scenario{
		words: map[string]map[string]string{}, looked: map[string]bool{},
		faucets:   map[string]*sync.Mutex{"ETHEREUM": {}, "SOLANA": {}, "BITCOIN": {}},
		disturbed: map[string]*sync.Mutex{"ETHEREUM": {}, "SOLANA": {}, "BITCOIN": {}},
	}
	files, err := filepath.Glob(filepath.Join(catalogueFolder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("look for the texts of pages: %d files, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		if err := json.Unmarshal(raw, &texts); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		n.words[strings.TrimSuffix(filepath.Base(file), ".json")] = texts
	}
	options := localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), BlockTime: 500 * time.Millisecond, Calm: true,
		Chains: localworld.AllChains, WithoutSwaps: true, OutageProxies: true, Log: slog.New(slog.DiscardHandler),
	}
	if pagematrix.IsWhole() {
		// Two browsers for each payer leave the service too little time for four blocks in a second.
		options.SlotTime = 500 * time.Millisecond
	}
	n.World, err = localworld.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	if n.api, err = client.New(n.Info.BaseURL, n.Info.APIKey); err != nil {
		t.Fatal(err)
	}
	return n
}

// payer is one person with a checkout and a browser.
type payer struct {
	*testing.T
	*scenario
	ctx      context.Context
	tab      *browser.Page
	visitor  *browser.Page // another browser, which looks at each stage in every way; nil in the short form
	request  client.CheckoutRequest
	checkout webhook.Checkout
}

// play makes a checkout and opens its page on a phone. The shop decides about late payments, or its terms accept them.
func (n *scenario) play(t *testing.T, price string, isHeld bool, mints ...localworld.Mint) *payer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), playMax)
	t.Cleanup(cancel)
	p := &payer{T: t, scenario: n, ctx: ctx, tab: browser.Open(t)}
	if pagematrix.IsWhole() {
		p.visitor = browser.Open(t)
	}
	p.request.CustomerEmail = "payer@canary.example"
	for _, m := range mints {
		p.request.AcceptedMintIDs = append(p.request.AcceptedMintIDs, m.ID)
	}
	if isHeld {
		product, err := n.api.CreateProduct(ctx, client.ProductRequest{
			Name: "Gold plan", PriceType: "FIXED", Price: price, AcceptedMintIDs: p.request.AcceptedMintIDs,
			LatePaymentPolicy: "HOLD",
		})
		if err != nil {
			t.Fatal(err)
		}
		p.request.ProductID = product.ProductID
	} else {
		p.request.Name, p.request.Price = "Gold plan", price
	}
	p.open()
	return p
}

// open makes a checkout, and opens its page on the phone.
func (p *payer) open() {
	p.Helper()
	p.request.Reference = "order-" + rand.Text()
	var err error
	p.checkout, err = p.api.CreateCheckout(p.ctx, p.request)
	p.must(err)
	p.tab.OpenURL(*p.checkout.URL, phone)
	p.record()
}

// page returns the address of the page without its key.
func (p *payer) page() string {
	address, _, _ := strings.Cut(*p.checkout.URL, "#")
	return address
}

// mint returns a mint of the world.
func (n *scenario) mint(t *testing.T, chainName, symbol string) localworld.Mint {
	t.Helper()
	i := slices.IndexFunc(n.Info.Mints, func(m localworld.Mint) bool {
		return m.Chain == chainName && m.Symbol == symbol
	})
	if i < 0 {
		t.Fatalf("the world has no %s on %s", symbol, chainName)
	}
	return n.Info.Mints[i]
}

// pageText is what a page says, and once more what it says of each payment, with a mark that no other line has.
const pageText = `((main) => !main ? '' : main.innerText +
	[...main.querySelectorAll('.payment-state')].map((e) => '\n` + paymentMark + `' + e.innerText).join('')
)(document.querySelector('main'))`

const paymentMark = "payment: "

// recorder records what the page has said, so that a stage that is short on a busy machine is not missed between two
// looks.
const recorder = `(() => {
	const heard = window.heard = [];
	const note = () => {
		const text = ` + pageText + `;
		if (heard.at(-1) !== text) heard.push(text);
	};
	note();
	new MutationObserver(note).observe(document.body, { childList: true, subtree: true, characterData: true });
	return true;
})()`

// record begins to record what the page says.
func (p *payer) record() {
	p.Helper()
	p.tab.WaitUntil("document.readyState === 'complete'")
	browser.Evaluate[bool](p.tab, recorder)
}

// plainText removes what texts have for their layout alone.
var plainText = strings.NewReplacer(
	"\u00a0", " ", "\u202f", " ", "\u2068", "", "\u2069", "", "\u2066", "", "\u2067", "",
)

// text returns a text of the catalogue. The values are pairs of a name and a value.
func (n *scenario) text(t *testing.T, language, key string, values ...string) string {
	t.Helper()
	text, isKnown := n.words[language][key]
	if !isKnown {
		t.Fatalf("the catalogue of %s has no text %s", language, key)
	}
	for i := 0; i+1 < len(values); i += 2 {
		text = strings.ReplaceAll(text, "{"+values[i]+"}", values[i+1])
	}
	return plainText.Replace(text)
}

// said is a text of the catalogue that a page has to say, with its values.
type said struct {
	key    string
	values []string
}

func say(key string, values ...string) said { return said{key, values} }

// in returns the text in a language. What follows a value that is not given is cut off.
func (s said) in(p *payer, language string) (text string, isCut bool) {
	p.Helper()
	values := append([]string{"shop", shopName}, s.values...)
	text, _, isCut = strings.Cut(p.text(p.T, language, s.key, values...), "{")
	if state, isPayment := strings.CutPrefix(s.key, "payment."); isPayment && strings.ToUpper(state[:2]) == state[:2] {
		text = paymentMark + text
	}
	return strings.TrimSpace(text), isCut
}

// isOn reports whether a page says the text, in a line of its own: short texts are parts of others.
func (s said) isOn(p *payer, language, page string) bool {
	p.Helper()
	want, isCut := s.in(p, language)
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if line == want || isCut && strings.HasPrefix(line, want) {
			return true
		}
	}
	return false
}

func describe(p *payer, texts []said) string {
	var wants []string
	for _, s := range texts {
		want, _ := s.in(p, "en")
		wants = append(wants, want)
	}
	return strings.Join(wants, " | ")
}

// hear waits until the open page has said texts at the same time, without being loaded again.
func (p *payer) hear(texts ...said) {
	p.Helper()
	p.waitUntil("the page says "+describe(p, texts), func() bool { return p.hasHeard(texts...) })
}

// hasHeard reports whether the open page has said texts at the same time.
func (p *payer) hasHeard(texts ...said) bool {
	p.Helper()
	return slices.ContainsFunc(browser.Evaluate[[]string](p.tab, "window.heard ?? []"), func(heard string) bool {
		heard = plainText.Replace(heard)
		return !slices.ContainsFunc(texts, func(s said) bool { return !s.isOn(p, "en", heard) })
	})
}

// stand is hear for what the page says last. Then it looks at the page in each way that was asked for.
func (p *payer) stand(name string, texts ...said) {
	p.Helper()
	p.hear(texts...)
	p.waitUntil("the page still says "+describe(p, texts), func() bool {
		now := p.read(p.tab)
		return !slices.ContainsFunc(texts, func(s said) bool { return !s.isOn(p, "en", now) })
	})
	p.look(name, texts)
}

// read returns what a page says.
func (p *payer) read(tab *browser.Page) string {
	p.Helper()
	return plainText.Replace(browser.Evaluate[string](tab, pageText))
}

// smallTargets lists what is too low to be touched. Links within a sentence are free of that.
const smallTargets = `[...document.querySelectorAll('a, button, summary, input')].filter((e) =>
	e.checkVisibility() && !e.closest('p:not(.change, .wallet-link)') && !e.classList.contains('skip') &&
	e.getBoundingClientRect().height < 43.9).map((e) => 'low: ' + e.outerHTML.slice(0, 120))`

// way is a language and an appearance in which the whole form looks at each state.
type way struct {
	language string
	look     browser.Appearance
}

// name names a state that is looked at in this way.
func (w way) name(state string) string {
	return fmt.Sprintf("%s in %s, %d wide, dark %v", state, w.language, w.look.Width, w.look.Dark)
}

var ways = []way{
	{"en", phone},
	{"ar", browser.Appearance{Width: 360, Height: 740, Dark: true}},
	{"ar", browser.Appearance{Width: 1280, Height: 900}},
	{"de", browser.Appearance{Width: 820, Height: 1180, Dark: true}},
	{"ja", browser.Appearance{Width: 1280, Height: 900, Dark: true}},
}

// look checks that the page is accessible and fits the phone: each state once, by its name. In the whole form another
// browser looks at each state of each case in every theme and width, in a language from left to right and in one from
// right to left.
func (p *payer) look(name string, texts []said) {
	p.Helper()
	p.mu.Lock()
	isKnown := p.looked[name]
	p.looked[name] = true
	p.mu.Unlock()
	if !isKnown {
		p.check(p.tab, name)
	}
	if p.visitor == nil {
		return
	}
	shown := strings.Replace(browser.Evaluate[string](p.tab, "location.search"), "?", "&", 1)
	for _, way := range ways {
		p.visitor.OpenURL(p.page()+"?lang="+way.language+shown, way.look)
		p.visitor.WaitUntil("document.readyState === 'complete'")
		for _, s := range texts {
			if now := p.read(p.visitor); !s.isOn(p, way.language, now) {
				want, _ := s.in(p, way.language)
				p.Errorf("%s in %s: got a page without %q:\n%s", name, way.language, want, now)
			}
		}
		p.check(p.visitor, way.name(name))
	}
}

// check checks the page that stands in a tab.
func (p *payer) check(tab *browser.Page, name string) {
	p.Helper()
	p.mu.Lock()
	p.looks++
	p.mu.Unlock()
	if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
		p.Errorf("%s: the page is wider than the screen", name)
	}
	for _, problem := range append(tab.ListAccessibilityProblems(), browser.Evaluate[[]string](tab, smallTargets)...) {
		p.Errorf("%s: %s", name, problem)
	}
}

// withoutScripts loads the page again with scripts switched off, and expects the same words.
func (p *payer) withoutScripts(texts ...said) {
	p.Helper()
	p.tab.DisableScripts()
	p.tab.OpenURL(p.page(), phone)
	p.tab.WaitUntil("document.readyState === 'complete'")
	for _, s := range texts {
		if now := p.read(p.tab); !s.isOn(p, "en", now) {
			want, _ := s.in(p, "en")
			p.Errorf("without scripts: got a page without %q:\n%s", want, now)
		}
	}
}

// finish checks what holds for every page: nothing of the customer, no request to another host, no complaint.
func (p *payer) finish() {
	p.Helper()
	for _, canary := range []string{*p.checkout.Reference, *p.checkout.CustomerEmail} {
		if strings.Contains(browser.Evaluate[string](p.tab, "document.documentElement.outerHTML"), canary) {
			p.Errorf("the page shows %q of the customer", canary)
		}
	}
	for _, url := range p.tab.ListRequests() {
		if !strings.HasPrefix(url, p.Info.CheckoutURL) && !strings.HasPrefix(url, "data:") &&
			!strings.HasPrefix(url, "about:") {
			p.Errorf("the page asked for %s", url)
		}
	}
	for _, complaint := range p.tab.ListComplaints() {
		p.Errorf("the browser complained: %s", complaint)
	}
}

// choose opens the option of a mint on the page, and returns the amount and the address that stand there.
func (p *payer) choose(m localworld.Mint) (address string, units *big.Int) {
	p.Helper()
	if browser.Evaluate[bool](p.tab, "document.querySelector('.change a') !== null") {
		p.tab.Press(".change a", 1)
	}
	selector := fmt.Sprintf("button.option[value='%d'], a.option[href*='mint=%d']", m.ID, m.ID)
	p.tab.Press(selector, 1)
	p.tab.WaitUntil("document.querySelector('#address') !== null")
	p.record()
	return p.readPanel(m)
}

// readPanel returns the amount and the address that the page shows.
func (p *payer) readPanel(m localworld.Mint) (address string, units *big.Int) {
	p.Helper()
	amount := browser.Evaluate[string](p.tab, "document.querySelector('#amount').textContent")
	whole, fraction, _ := strings.Cut(amount, ".")
	if len(fraction) > m.Decimals {
		p.Fatalf("the page asks for %s %s", amount, m.Symbol)
	}
	units, isNumber := new(big.Int).SetString(whole+fraction+strings.Repeat("0", m.Decimals-len(fraction)), 10)
	if !isNumber {
		p.Fatalf("the page asks for %s %s", amount, m.Symbol)
	}
	return browser.Evaluate[string](p.tab, "document.querySelector('#address').textContent.trim()"), units
}

// send pays from the faucet, and returns the hash.
func (p *payer) send(m localworld.Mint, address string, units *big.Int) string {
	p.Helper()
	faucet := p.faucets[m.Chain]
	faucet.Lock()
	defer faucet.Unlock()
	hash, err := p.Info.PayAddress(p.ctx, m, address, units)
	if err != nil {
		p.Fatal(err)
	}
	return hash
}

// load reads the checkout by the API.
func (p *payer) load() webhook.Checkout {
	p.Helper()
	c, err := p.api.GetCheckout(p.ctx, p.checkout.CheckoutID)
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// becomes waits until the API says a status and the most severe exception.
func (p *payer) becomes(status, exception string) (c webhook.Checkout) {
	p.Helper()
	p.waitUntil("the checkout is "+status+" with "+exception, func() bool {
		c = p.load()
		return c.Status == status && c.Exception == exception
	})
	return c
}

// payments waits until the payments of the checkout have statuses, in their order.
func (p *payer) payments(statuses ...string) {
	p.Helper()
	var got []string
	p.waitUntil(fmt.Sprintf("the payments are %v", statuses), func() bool {
		got = nil
		for _, payment := range p.load().Payments {
			got = append(got, payment.Status)
		}
		return slices.Equal(got, statuses)
	})
}

// checkBooks runs the verifier, as the service does itself every few minutes: what it finds freezes every payment.
func (n *scenario) checkBooks(t *testing.T) {
	t.Helper()
	r, err := verify.RunChecks(t.Context(), n.ServiceDB(), verify.WithoutSchema)
	if err != nil {
		t.Fatal(err)
	}
	if r.IsIntact() {
		return
	}
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	t.Errorf("the books are not sound:\n%s", b.String())
}

func (p *payer) waitUntil(condition string, holds func() bool) {
	p.Helper()
	for !holds() {
		select {
		case <-p.ctx.Done():
			p.Fatalf("waited too long until %s; the page says:\n%s\nThe service says:\n%s", condition, p.read(p.tab),
				p.ServiceLog())
		case <-time.After(lookInterval):
		}
	}
}

// passTime lets the time of the checkout end at a moment. Five minutes is the least time that a shop can ask for, so
// the superuser of the database writes an earlier end, which no one else can. No quote is valid after its checkout:
// the verifier freezes all payments where one is.
func (p *payer) passTime(end time.Time) {
	p.Helper()
	super, err := pgx.Connect(p.ctx, p.DatabaseCluster().SuperURL(local.Database))
	if err != nil {
		p.Fatal(err)
	}
	defer super.Close(p.ctx)
	tx, err := super.Begin(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"SET LOCAL session_replication_role = replica", nil},
		{
			"UPDATE checkouts SET expires_at = $2 WHERE checkout_id = $1",
			[]any{p.checkout.CheckoutID, end},
		},
		{
			`UPDATE checkout_quotes SET expires_at = least(expires_at, $2),
				valid_from = least(valid_from, $2 - interval '1 minute') WHERE checkout_id = $1`,
			[]any{p.checkout.CheckoutID, end},
		},
	} {
		if _, err := tx.Exec(p.ctx, statement.sql, statement.args...); err != nil {
			p.Fatal(err)
		}
	}
	if err := tx.Commit(p.ctx); err != nil {
		p.Fatal(err)
	}
}

// outage lets the provider of a chain answer nothing until a time.
func (p *payer) outage(name chain.Name, end time.Time) {
	p.Helper()
	if err := p.Info.SetOutage(name, end); err != nil {
		p.Fatal(err)
	}
}
