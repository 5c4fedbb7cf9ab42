package payerpages

import (
	"compress/gzip"
	"context"
	"errors"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rsc.io/qr"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
)

var (
	tag   = regexp.MustCompile(`<[^>]*>`)
	space = regexp.MustCompile(`[ \t\r\n]+`)
)

// readText returns what a page says: its texts and what its pictures are called.
func readText(body string) string {
	labels := regexp.MustCompile(`aria-label="([^"]*)"`).ReplaceAllString(body, `>$1<`)
	text := html.UnescapeString(space.ReplaceAllString(tag.ReplaceAllString(labels, ""), " "))
	return strings.ReplaceAll(text, "\u00a0", " ")
}

// Every state of a checkout says what happened to the money, in a page that is complete without scripts. Rules CO-41
// and CO-43.
func TestEveryStateSaysWhatHappenedToTheMoney(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, s := range listStates() {
		h.checkouts.change(func(v *View) { *v = s.view })
		got := h.get(prefix + checkoutID + s.query)
		if got.status != http.StatusOK {
			t.Errorf("%s: got %d", s.name, got.status)
		}
		text := readText(got.body)
		for _, want := range s.wantTexts {
			if !strings.Contains(text, strings.ReplaceAll(want, "\u00a0", " ")) {
				t.Errorf("%s: got a page without %q:\n%s", s.name, want, text)
			}
		}
		if has := strings.Contains(got.body, `id="panel-heading"`); has != s.hasPanel {
			t.Errorf("%s: got a panel to pay %v, want %v", s.name, has, s.hasPanel)
		}
		if has := strings.Contains(got.body, `class="option"`); has != s.hasOptions {
			t.Errorf("%s: got a choice %v, want %v", s.name, has, s.hasOptions)
		}
		if has := strings.Contains(got.body, `class="qr"`); has != s.hasPanel {
			t.Errorf("%s: got a QR code %v, want %v", s.name, has, s.hasPanel)
		}
	}
}

// No payer is asked to pay again while a payment is looked at: the ways to pay are folded away.
func TestNoPageAsksForASecondPayment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, s := range listStates() {
		h.checkouts.change(func(v *View) { *v = s.view })
		isFolded := strings.Contains(h.get(prefix+checkoutID).body, `id="more-options"`)
		want := slices.Contains([]string{"valuing", "valuing-credited", "seen", "flagged"}, s.name)
		if isFolded != want {
			t.Errorf("%s: got the ways to pay folded away %v, want %v", s.name, isFolded, want)
		}
	}
}

// forbiddenMarkup finds what the policy would not run or load, or what is not ours.
var forbiddenMarkup = []*regexp.Regexp{
	regexp.MustCompile(`(?i)<style|[\s"]style\s*=`), regexp.MustCompile(`(?i)\son[a-z]+\s*=`),
	regexp.MustCompile(`(?i)<script(?:\s+[a-z]+(?:="[^"]*")?)*>[^<]`), regexp.MustCompile(`(?i)javascript:`),
	regexp.MustCompile(`(?i)(?:src|srcset|data|poster|content)\s*=\s*"?(?:https?:)?//`),
	regexp.MustCompile(`(?i)<(?:iframe|object|embed|base|link[^>]+href="(?:https?:)?//)`),
}

var foreignURL = regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+`)

// No page has a style, a script or an event in its markup, names another host except as a link to the shop, or sets a
// cookie. Every answer has the policy and the headers that keep the path to itself. Rules CO-40 and CO-42.
func TestPagesKeepToThemselves(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	look := func(name string, got answer) {
		t.Helper()
		for _, forbidden := range forbiddenMarkup {
			if found := forbidden.FindString(got.body); found != "" {
				t.Errorf("%s: got a page with %q", name, found)
			}
		}
		for _, found := range foreignURL.FindAllString(got.body, -1) {
			if found != "https://shop.example" {
				t.Errorf("%s: got a page that names %s", name, found)
			}
		}
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"X-Robots-Tag": "noindex, nofollow", "X-Content-Type-Options": "nosniff", "Set-Cookie": "",
			"Content-Type": "text/html; charset=utf-8",
		} {
			if got := got.header.Get(header); got != want {
				t.Errorf("%s: got the header %s: %q, want %q", name, header, got, want)
			}
		}
	}
	for _, s := range listStates() {
		h.checkouts.change(func(v *View) { *v = s.view })
		look(s.name, h.get(prefix+checkoutID+s.query))
	}
	look("find", h.get(prefix+checkoutID+"/find"))
	look("unknown", h.get(prefix+otherID))
	look("nowhere", h.get("/c/assets/nothing/at/all"))
	const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if policy != want {
		t.Errorf("got the policy %q, want %q", policy, want)
	}
	for _, bad := range []string{
		`<p style="x">`, `<a onclick="f()">`, `<script>alert(1)</script>`, `<img src="https://x.example/y">`,
		`<a href="javascript:x">`, `<link rel="stylesheet" href="//cdn.example/x">`,
	} {
		if !slices.ContainsFunc(forbiddenMarkup, func(r *regexp.Regexp) bool { return r.MatchString(bad) }) {
			t.Errorf("the check does not find %q", bad)
		}
	}
}

// What a shop, a chain or a payer chose stands on the page as text, whatever it has in it. Rule CO-42.
func TestHostileTextsStayTexts(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	const markup = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e"
	h.checkouts.change(func(v *View) {
		*v = paidView(Open, newPayment(PaymentSeen, 1), Underpaid)
		v.ShopName, v.Items[0].Name, v.Items[0].ImageID, v.Accent = markup, markup, markup, `red" onload="x`
		v.CancelURL, v.ReturnURL = "javascript:alert(1)", "data:text/html,x"
		option := openOption(ethMain)
		option.WalletLink, option.Memo, option.QRText = "javascript:alert(1)", markup, strings.Repeat("x", 5000)
		v.Options = []Option{option}
	})
	h.checkouts.finding = Finding{Outcome: FoundWrongNetwork, ChainName: markup}
	for _, got := range []answer{
		h.get(prefix + checkoutID + "?mint=2"), h.post(prefix+checkoutID+"/find", "hash", markup[:30]),
		h.get(prefix + checkoutID + `?mint=2&lang="><script>`), h.get(prefix + `"><script>alert(1)</script>`),
	} {
		for _, bad := range []string{
			"<script>alert", "<img src=x", "javascript:", "data:text", `onload="`, "Open in a wallet", `class="qr"`,
			`class="accent"`, "\u202e", "Go back", "Back to Northwind",
		} {
			if strings.Contains(got.body, bad) && !strings.Contains(bad, "\u202e") {
				t.Errorf("got a page with %q", bad)
			}
		}
	}
	got := h.get(prefix + checkoutID)
	if before, _, _ := strings.Cut(got.body, "memo"); strings.Contains(before, "\u202e") {
		t.Error("got a name that turns the direction of the line")
	}
}

// A name with markup, a change of direction or ten thousand marks over one letter stays one line of text, and no URL of
// a shop breaks out of its attribute or its header: not with another scheme, a line feed or a quote. Rule CO-42.
func TestNamesAndURLsOfShopsBreakNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	marked := "Zalgo" + strings.Repeat("\u0301", 10_000)
	for _, hostile := range []string{
		marked, "\u202eevil\u202c", "a\r\nSet-Cookie: x=1", "\x00\x1b[31m", strings.Repeat("x", 100_000),
		`<svg onload="alert(1)">`, "\u2066\u2067\u2068", "{shop}{amount}",
	} {
		h.checkouts.change(func(v *View) {
			*v = paidView(Open, newPayment(PaymentSeen, 1), Underpaid)
			v.ShopName, v.Items[0].Name = hostile, hostile
			v.Options = []Option{openOption(solSol)}
		})
		for _, got := range []answer{
			h.get(prefix + checkoutID), h.get(prefix + checkoutID + "?mint=3"), h.get(prefix + checkoutID + "/find"),
			h.request(http.MethodGet, "", ""), h.request(http.MethodPost, "", `{"account":"`+solanaPayer+`"}`),
		} {
			const bytesMax = 60 << 10
			if got.status != http.StatusOK || len(got.body) > bytesMax || got.header.Get("Set-Cookie") != "" {
				t.Errorf("%.20q: got %d with %d bytes", hostile, got.status, len(got.body))
			}
			for _, bad := range []string{
				"<svg onload", "\u202e", "\u2067", "\x00", "\x1b", strings.Repeat("\u0301", 4),
			} {
				if strings.Contains(got.body, bad) {
					t.Errorf("%.20q: got an answer with %q", hostile, bad)
				}
			}
		}
	}
	for _, hostile := range []string{
		"javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "//evil.example", "https:evil.example",
		"ftp://evil.example", "data:text/html,<script>", "https\r\n://evil.example", "vbscript:x", "/cart", "",
	} {
		for _, status := range []Status{Open, Completed, Expired} {
			h.checkouts.change(func(v *View) {
				*v = paidView(status, newPayment(PaymentCredited, 0))
				v.CancelURL, v.ReturnURL = hostile, hostile
			})
			if body := h.get(prefix + checkoutID).body; strings.Contains(body, `rel="noreferrer"`) {
				t.Errorf("%q, %s: got a link to the shop", hostile, status)
			}
		}
	}
	h.checkouts.change(func(v *View) { *v = newView() })
	h.checkouts.change(func(v *View) { v.CancelURL = `https://shop.example/"onclick="x` + "\r\n" + `<b>` })
	if body := h.get(prefix + checkoutID).body; strings.Contains(body, `"onclick="`) || strings.Contains(body, "<b>") {
		t.Error("got a link that breaks out of its attribute")
	}
}

// An id that does not exist and a text that is none are answered alike, byte for byte. Rule CO-44.
func TestAbsentAndMalformedIdsReadAlike(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	address := regexp.MustCompile(`href="[^"]*"`)
	first := h.get(prefix + otherID)
	if first.status != http.StatusNotFound ||
		!strings.Contains(readText(first.body), "There is no payment at this address") {
		t.Errorf("got %d: %s", first.status, readText(first.body))
	}
	for _, id := range []string{
		"co_x", "x", "prod_01J9ZW3M8Q4S5T6V7W8X9YZABC", "%00", "co_01J9ZW3M8Q4S5T6V7W8X9YZAB%27",
	} {
		for _, suffix := range []string{"", "/find", "/images/img_1", "/live", "/nothing", "/receipt"} {
			got := h.get(prefix + id + suffix)
			if got.status != http.StatusNotFound {
				t.Errorf("%s%s: got %d, want 404", id, suffix, got.status)
			}
			// The links to languages name the path that was asked for.
			if address.ReplaceAllString(got.body, "") != address.ReplaceAllString(first.body, "") {
				t.Errorf("%s%s: got another page than for an absent id", id, suffix)
			}
		}
	}
	for _, suffix := range []string{"/find", "/images/img_1", "/live", "/images/img_2"} {
		if got := h.get(prefix + otherID + suffix); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d of an absent checkout, want 404", suffix, got.status)
		}
	}
	if got := h.get(prefix + checkoutID + "/images/img_2"); got.status != http.StatusNotFound {
		t.Errorf("got %d for an image of another checkout, want 404", got.status)
	}
}

// An error of ours tells the payer that nothing happened to the money, and nothing else. Rule CO-44.
func TestAnErrorOfOursTellsNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.checkouts.err = errors.New("read the checkout: connection to 10.0.0.7 refused")
	for _, got := range []answer{
		h.get(prefix + checkoutID), h.get(prefix + checkoutID + "/find"), h.get(prefix + checkoutID + "/images/img_1"),
		h.post(prefix+checkoutID+"/options", "mint", "1"), h.post(prefix+checkoutID+"/find", "hash", evmHash),
		h.get(prefix + checkoutID + "/live"),
	} {
		if got.status != http.StatusInternalServerError || strings.Contains(got.body, "10.0.0.7") ||
			!strings.Contains(readText(got.body), "Nothing happened to your money.") {
			t.Errorf("got %d: %s", got.status, readText(got.body))
		}
	}
	panicking := newTestEnv(t, func(c *Config) { c.Checkouts = panickingCheckouts{} })
	if got := panicking.get(prefix + checkoutID); got.status != http.StatusInternalServerError {
		t.Errorf("got %d after a panic, want 500", got.status)
	}
}

type panickingCheckouts struct{ Checkouts }

// View implements Checkouts.
func (panickingCheckouts) View(context.Context, string) (View, error) { panic("a bug") }

// The choice of an option is a form that needs no script: it opens the option and leads to its panel, in the language
// of the payer. Rules CO-43 and CO-48.
func TestAnOptionIsChosenByAForm(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := prefix + checkoutID
	got := h.post(path+"/options?lang=de", "mint", strconv.Itoa(usdcBase))
	if got.status != http.StatusSeeOther || got.header.Get("Location") != path+"?lang=de&mint=1" ||
		!slices.Equal(h.checkouts.opened, []int{usdcBase}) {
		t.Fatalf("got %d to %q, opened %v", got.status, got.header.Get("Location"), h.checkouts.opened)
	}
	page := h.get(got.header.Get("Location"))
	if text := readText(page.body); !strings.Contains(text, "Mit USDC auf Base bezahlen") {
		t.Errorf("got %s", text)
	}
	for _, link := range regexp.MustCompile(`(?:href|action)="(/c/co_[^"]*)"`).FindAllStringSubmatch(page.body, -1) {
		if !strings.Contains(link[1], "lang=") {
			t.Errorf("got a link that loses the language: %s", link[1])
		}
	}
	for _, bad := range []string{"", "x", "-1", "0", "1.5", "99999999999999999999"} {
		if got := h.post(path+"/options", "mint", bad); got.status != http.StatusBadRequest {
			t.Errorf("%q: got %d, want 400", bad, got.status)
		}
	}
	if got := h.post(path+"/options", "mint", strings.Repeat("1", bodyBytesMax)); got.status != http.StatusBadRequest {
		t.Errorf("got %d for a long form, want 400", got.status)
	}
	if got := h.get(path + "/options"); got.status != http.StatusNotFound {
		t.Errorf("got %d for a GET of the form, want 404", got.status)
	}
	if !slices.Equal(h.checkouts.opened, []int{usdcBase}) {
		t.Errorf("opened %v, want the chosen one alone", h.checkouts.opened)
	}
}

// An option that is not offered any more is refused with its reason, on the page that has the others. In another state
// the page says that state. Rule CO-44.
func TestARefusedOptionLeavesTheOthers(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.checkouts.openErr = fault.New(fault.Unprocessable, fault.OptionUnavailable, fault.NothingWritten, "No price.")
	got := h.post(prefix+checkoutID+"/options", "mint", strconv.Itoa(usdtMain))
	text := readText(got.body)
	if got.status != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "USDT on Ethereum is not available now. Please choose another way to pay.") ||
		!strings.Contains(text, "The network fee of Ethereum is too high") ||
		!strings.Contains(text, "SOL on Solana") ||
		strings.Contains(text, "No price.") {
		t.Errorf("got %d: %s", got.status, text)
	}
	h.checkouts.openErr = fault.New(fault.Invalid, fault.MintNotFound, fault.NothingWritten, "Not this mint.")
	if got := h.post(prefix+checkoutID+"/options", "mint", "77"); got.status != http.StatusBadRequest {
		t.Errorf("got %d for a mint of another checkout, want 400", got.status)
	}
	h.checkouts.openErr = fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, "It is EXPIRED.")
	h.checkouts.change(func(v *View) { v.Status = Expired })
	got = h.post(prefix+checkoutID+"/options", "mint", "1")
	text = readText(got.body)
	if got.status != http.StatusConflict || !strings.Contains(text, "The time to pay is over") {
		t.Errorf("got %d: %s", got.status, text)
	}
}

// The search says what is known of a transaction in every case, changes nothing, and asks nothing about a text that
// cannot be a hash. Rule CO-47.
func TestTheSearchSaysWhereAPaymentIs(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := prefix + checkoutID + "/find"
	if text := readText(h.get(path).body); !strings.Contains(text, "Where is my payment?") {
		t.Errorf("got %s", text)
	}
	for _, outcome := range listOutcomes() {
		payment := newPayment(PaymentSeen, 4)
		h.checkouts.finding = Finding{Outcome: outcome, ChainName: "Polygon"}
		if outcome == FoundPayment {
			h.checkouts.finding.Payment = &payment
		}
		got := h.post(path, "hash", "  "+evmHash+" ")
		text := readText(got.body)
		key := "find." + string(outcome)
		if got.status != http.StatusOK || !strings.Contains(text, languages[0].text(key)) ||
			!strings.Contains(text, languages[0].text(key+".text", "chain", "Polygon", "shop", "Northwind Coffee")) {
			t.Errorf("%s: got %d: %s", outcome, got.status, text)
		}
		if has := strings.Contains(text, "Blocks still missing: 4"); has != (outcome == FoundPayment) {
			t.Errorf("%s: got the state of the payment %v", outcome, has)
		}
	}
	if !slices.Equal(slices.Compact(h.checkouts.searches), []string{evmHash}) || len(h.checkouts.opened) > 0 {
		t.Errorf("looked for %q, opened %v", h.checkouts.searches, h.checkouts.opened)
	}
	searches := len(h.checkouts.searches)
	for _, bad := range []string{"", "   ", strings.Repeat("a", hashBytesMax+1)} {
		if got := h.post(path, "hash", bad); got.status != http.StatusBadRequest {
			t.Errorf("%.10q: got %d, want 400", bad, got.status)
		}
	}
	if len(h.checkouts.searches) != searches {
		t.Error("asked for a text that is no hash")
	}
	if got := h.post(path, "hash", "no hash"); got.status != http.StatusBadRequest ||
		!strings.Contains(readText(got.body), "This is not a transaction hash.") {
		t.Errorf("got %d: %s", got.status, readText(got.body))
	}
}

// An image comes from the checkout, as a picture and as nothing else. Rule CO-42.
func TestAnImageIsAPictureAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	got := h.get(prefix + checkoutID + "/images/img_1")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "image/png" || got.body != string(onePixel) ||
		got.header.Get("Content-Security-Policy") != imagePolicy {
		t.Errorf("got %d, %v", got.status, got.header)
	}
}

// The way back to the shop has the statement only when something was paid. Rule CO-41.
func TestTheWayBackHasAStatementOnlyOfAPayment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, s := range listStates() {
		v := s.view
		v.ReturnURL, v.CancelURL = "https://shop.example/ok?statement=abc", "https://shop.example/cart"
		h.checkouts.change(func(shown *View) { *shown = v })
		body := h.get(prefix + checkoutID).body
		isPaid := v.Status == Processing || v.Status == Completed
		if strings.Contains(body, "statement=abc") != isPaid || strings.Contains(body, "/cart") == isPaid {
			t.Errorf("%s: got a link with a statement %v, want %v", s.name, !isPaid, isPaid)
		}
	}
}

// Each kind of request has its own limit for each client, and a network of IPv6 is one client. The refusal is a page
// in the language of the payer that says when to come back. Rule CO-46.
func TestEveryKindOfRequestHasItsLimit(t *testing.T) {
	t.Parallel()
	clock := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	two := kernel.Rate{Count: 2, Period: time.Minute, Burst: 2}
	h := newTestEnv(t, func(c *Config) {
		c.Limits = Limits{Views: two, Opens: two, Finds: two, Images: two}
		c.Clock = func() time.Time { return clock }
	})
	path := prefix + checkoutID
	ask := func(client, kind string) answer {
		method, target := http.MethodPost, path+kind
		if kind == "" || strings.Contains(kind, "images") {
			method = http.MethodGet
		}
		r := httptest.NewRequest(method, target, strings.NewReader("mint=1&hash="+evmHash))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept-Language", "fr")
		r.RemoteAddr = client
		return h.do(r)
	}
	for _, kind := range []string{"", "/options", "/find", "/images/img_1"} {
		for range 2 {
			if got := ask("[2001:db8::1]:99", kind); got.status >= http.StatusBadRequest {
				t.Errorf("%s: got %d below the limit", kind, got.status)
			}
		}
		got := ask("[2001:db8::ffff]:99", kind)
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "30" ||
			!strings.Contains(readText(got.body), "Trop de demandes") || !strings.Contains(got.body, "30 secondes") {
			t.Errorf("%s: got %d, Retry-After %q: %s", kind, got.status, got.header.Get("Retry-After"),
				readText(got.body))
		}
		if got := ask("[2001:db8:0:1::1]:99", kind); got.status >= http.StatusBadRequest {
			t.Errorf("%s: got %d for another network", kind, got.status)
		}
	}
	clock = clock.Add(30 * time.Second)
	if got := ask("[2001:db8::1]:99", ""); got.status != http.StatusOK {
		t.Errorf("got %d after the wait, want 200", got.status)
	}
	// A limit of 0 is none.
	free := newTestEnv(t)
	for range 200 {
		if got := free.get(path); got.status != http.StatusOK {
			t.Fatalf("got %d without limits", got.status)
		}
	}
}

// A first visit has less than 40 KB with the style sheet, the script, the icon and the QR code, as they are sent. Rule
// CO-49.
func TestAFirstVisitIsSmall(t *testing.T) {
	t.Parallel()
	const bytesMax = 40 << 10
	h := newTestEnv(t)
	for _, s := range listStates() {
		for _, l := range languages {
			h.checkouts.change(func(v *View) { *v = s.view })
			query := "?lang=" + l.tag
			if s.query != "" {
				query = s.query + "&lang=" + l.tag
			}
			total := 0
			var body string
			fetch := func(path string) {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Header.Set("Accept-Encoding", "gzip")
				got := h.do(r)
				if got.status != http.StatusOK || got.header.Get("Content-Encoding") != "gzip" {
					t.Fatalf("%s: got %d, %q", path, got.status, got.header.Get("Content-Encoding"))
				}
				total += len(got.body)
				reader, err := gzip.NewReader(strings.NewReader(got.body))
				if err != nil {
					t.Fatal(err)
				}
				raw, err := io.ReadAll(reader)
				if err != nil {
					t.Fatal(err)
				}
				body = string(raw)
			}
			fetch(prefix + checkoutID + query)
			files := regexp.MustCompile(`(?:href|src)="(/c/assets/[^"]+)"`).FindAllStringSubmatch(body, -1)
			if len(files) != 3 {
				t.Fatalf("%s: got %d files, want a style sheet, a script and an icon", s.name, len(files))
			}
			modules := 0
			for _, file := range files {
				fetch(file[1])
				for _, module := range regexp.MustCompile(`'(/c/assets/[^']+)'`).FindAllStringSubmatch(body, -1) {
					fetch(module[1])
					modules++
				}
			}
			if modules != 1 {
				t.Fatalf("%s: got %d modules of the script, want one", s.name, modules)
			}
			if total > bytesMax {
				t.Errorf("%s, %s: got %d bytes, want at most %d", s.name, l.tag, total, bytesMax)
			}
			if l.tag == "ar" && s.hasPanel {
				t.Logf("%s: %d bytes", s.name, total)
			}
		}
	}
}

// The script is small, and neither it nor the style sheet writes markup, keeps anything, or names another host. Rule
// CO-42.
func TestTheAssetsAreSmallAndPlain(t *testing.T) {
	t.Parallel()
	for name, a := range newAssets().byName {
		if strings.HasSuffix(name, ".js") && len(a.plain) > 14<<10 {
			t.Errorf("%s has %d bytes, want at most 14 KB", name, len(a.plain))
		}
		for _, foreign := range []string{
			"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "//cdn", "https://", "@import",
			"localStorage", "sessionStorage", "document.cookie", "indexedDB",
		} {
			if strings.Contains(string(a.plain), foreign) {
				t.Errorf("%s has %q", name, foreign)
			}
		}
	}
	h := newTestEnv(t)
	if got := h.get(assetsPath + "pay.0000000000000000.js"); got.status != http.StatusNotFound {
		t.Errorf("got %d for an old asset, want 404", got.status)
	}
}

// The QR code has exactly what the option says, in dark on white with a text that says the same. The address that other
// payments share is in it and nowhere else on the page. Rule CO-51.
func TestTheQRCodeHasWhatTheOptionSays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, mintID := range []int{usdcBase, ethMain, solSol, btcMain} {
		option := openOption(mintID)
		h.checkouts.change(func(v *View) { v.Options = []Option{option} })
		body := h.get(prefix + checkoutID).body
		found := drawnCode.FindStringSubmatch(body)
		if found == nil {
			t.Fatalf("mint %d: got no QR code on white", mintID)
		}
		if got, want := readBars(t, found[1]), drawModules(t, option.QRText); got != want {
			t.Errorf("mint %d: got another QR code than that of %s", mintID, option.QRText)
		}
		text := readText(body)
		if !strings.Contains(text, "QR code") || !strings.Contains(text, option.Address) ||
			option.SharedAddress != "" && strings.Contains(text, option.SharedAddress) {
			t.Errorf("mint %d: got %s", mintID, text)
		}
		isLinkFolded := strings.Contains(body, `id="wallet-link"`)
		if isLinkFolded != (mintID == usdcBase) {
			t.Errorf("mint %d: got the wallet link folded away %v", mintID, isLinkFolded)
		}
	}
}

var drawnCode = regexp.MustCompile(
	`<rect width="100%" height="100%" fill="#fff"></rect> ?<path d="([^"]+)" fill="#000">`,
)

// readBars returns the dark modules of a drawn QR code.
func readBars(t *testing.T, path string) (modules string) {
	t.Helper()
	dark := map[string]bool{}
	for _, bar := range regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`).FindAllStringSubmatch(path, -1) {
		x, errX := strconv.Atoi(bar[1])
		width, errWidth := strconv.Atoi(bar[3])
		if errX != nil || errWidth != nil || bar[3] != bar[4] {
			t.Fatalf("got the bar %q", bar[0])
		}
		for i := range width {
			dark[bar[2]+" "+strconv.Itoa(x+i)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(dark)), ",")
}

// drawModules returns the dark modules of the QR code of a text, within a white border of four.
func drawModules(t *testing.T, text string) (modules string) {
	t.Helper()
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		t.Fatal(err)
	}
	dark := map[string]bool{}
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				dark[strconv.Itoa(y+4)+" "+strconv.Itoa(x+4)] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(dark)), ",")
}
