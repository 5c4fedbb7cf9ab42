package payerpages

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
)

const slug = "gold-2026"

// fakeLinks is a feature with one payment link.
type fakeLinks struct {
	mu      sync.Mutex
	view    LinkView
	problem *LinkProblem
	nonces  []string
	choices [][]Choice
}

func (f *fakeLinks) check(asked string) error {
	if asked != f.view.Slug {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such payment link.")
	}
	return nil
}

// Link implements Links.
func (f *fakeLinks) Link(_ context.Context, asked string) (LinkView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.check(asked)
}

// Buy implements Links.
func (f *fakeLinks) Buy(_ context.Context, asked, nonce string, choices []Choice) (Sale, *LinkProblem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nonces, f.choices = append(f.nonces, nonce), append(f.choices, choices)
	return Sale{CheckoutID: checkoutID, Key: "k=key"}, f.problem, f.check(asked)
}

// LinkImage implements Links.
func (f *fakeLinks) LinkImage(_ context.Context, asked, imageID string) (mediaType string, content []byte, err error) {
	if imageID != "img_1" {
		asked = ""
	}
	return "image/png", onePixel, f.check(asked)
}

func (f *fakeLinks) change(act func(*fakeLinks)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	act(f)
}

func newLinkView() LinkView {
	return LinkView{
		Slug: slug, URL: "https://pay.example/p/" + slug, State: LinkOpen, ShopName: "Northwind Coffee",
		Currency: "USD", Nonce: "nonce-1",
		Items: []LinkItem{
			{
				ProductID: "prod_1", Name: "House blend, 1 kg", Description: "Fresh.\nEvery week.", ImageID: "img_1",
				QuantityLeast: 1, QuantityMost: 9, UnitPrice: "29.99",
			},
			{
				ProductID: "prod_2", Name: "A tip", QuantityLeast: 1, QuantityMost: 1, PriceMin: "1.00",
				PriceMax: "100.00",
			},
		},
	}
}

// A payer chooses quantity and price in a form that is complete without scripts, and is led to the checkout. Rules
// CO-63 and CO-64.
func TestALinkIsBoughtByAForm(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	got := h.get(LinkPrefix + slug)
	text := readText(got.body)
	for _, want := range []string{
		"Northwind Coffee", "House blend, 1 kg", "Fresh.", "Every week.", "29.99 USD each", "Quantity", "1 to 9",
		"A tip", "Your price in USD", "1.00 to 100.00 USD", "Continue to payment",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got a page without %q:\n%s", want, text)
		}
	}
	for _, want := range []string{
		`name="nonce" value="nonce-1"`, `for="quantity-0"`, `id="quantity-0"`, `min="1"`, `max="9"`, `for="price-1"`,
		`src="/p/gold-2026/images/img_1"`, `action="/p/gold-2026"`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("got a page without %s", want)
		}
	}
	if strings.Contains(got.body, `quantity-1"`) || strings.Contains(got.body, `price-0"`) {
		t.Error("got a field for what the payer does not choose")
	}
	for range 2 {
		got = h.post(LinkPrefix+slug+"?lang=de", "nonce", "nonce-1", "quantity-0", "2", "price-1", " 12,50 ")
		if location := got.header.Get("Location"); got.status != http.StatusSeeOther ||
			location != prefix+checkoutID+"?lang=de#k=key" {
			t.Errorf("got %d to %q, want the checkout", got.status, location)
		}
	}
	for _, choices := range h.links.choices {
		if len(choices) != 2 || choices[0].Quantity != 2 || choices[0].UnitPrice != nil || choices[1].Quantity != 0 ||
			*choices[1].UnitPrice != "12.50" {
			t.Errorf("got the choices %+v", choices)
		}
	}
	if !slices.Equal(h.links.nonces, []string{"nonce-1", "nonce-1"}) {
		t.Errorf("got the nonces %q, want that of the form twice", h.links.nonces)
	}
}

// A comma before the cents is read as a point, and never one that may mean thousands.
func TestAPriceIsReadAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"12.50": "12.50", "12,50": "12.50", "12,5": "12.5", " 7 ": "7", "1,000": "1,000", "1,000.00": "1,000.00",
		"1.000,00": "1.000,00", "1,2,3": "1,2,3", ",": ",", "12,": "12,", "": "", strings.Repeat("1", 61): "",
	} {
		if got := readPrice(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A choice that is not possible is refused on the page, which keeps what was entered. Rule CO-64.
func TestARefusedChoiceIsExplainedOnThePage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, c := range []struct {
		problem LinkProblem
		status  int
		want    string
		isOpen  bool
	}{
		{LinkProblem{Kind: QuantityProblem, ProductID: "prod_1"}, 400, "Please choose a quantity from 1 to 9.", true},
		{
			LinkProblem{Kind: PriceProblem, ProductID: "prod_2"},
			400,
			"Please enter a price from 1.00 to 100.00 USD", true,
		},
		{LinkProblem{Kind: NonceProblem}, 400, "This page was open for too long.", true},
		{LinkProblem{Kind: NonceUsedProblem}, 409, "You have already continued with another choice.", true},
		{LinkProblem{Kind: StateProblem}, 409, "Not available right now", false},
		{LinkProblem{Kind: LimitProblem}, 429, "Too many open payments", false},
	} {
		h.links.change(func(f *fakeLinks) { f.problem = &c.problem })
		got := h.post(LinkPrefix+slug, "nonce", "old", "quantity-0", "77", "price-1", `"><script>`)
		if got.status != c.status || !strings.Contains(readText(got.body), c.want) {
			t.Errorf("%s: got %d: %s", c.problem.Kind, got.status, readText(got.body))
		}
		hasForm := strings.Contains(got.body, `value="nonce-1"`) && strings.Contains(got.body, `value="77"`)
		if hasForm != c.isOpen || strings.Contains(got.body, `"><script>`) {
			t.Errorf("%s: got a form with what was entered %v, want %v", c.problem.Kind, hasForm, c.isOpen)
		}
		if isInvalid := strings.Contains(got.body, `aria-invalid="true"`); isInvalid != (c.problem.ProductID != "") {
			t.Errorf("%s: got a field that is marked %v", c.problem.Kind, isInvalid)
		}
	}
}

// A link that sells nothing says why, and has no form. Rule CO-62.
func TestALinkThatSellsNothingSaysWhy(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for state, want := range map[LinkState]string{
		LinkPaused: "Not for sale at the moment", LinkEnded: "This offer has ended", LinkExpired: "This offer is over",
		LinkSoldOut: "Sold out", LinkUnavailable: "Not available right now",
	} {
		h.links.change(func(f *fakeLinks) { f.view.State, f.view.Nonce = state, "" })
		got := h.get(LinkPrefix + slug)
		if text := readText(got.body); got.status != http.StatusOK || !strings.Contains(text, want) ||
			!strings.Contains(text, "Northwind Coffee") {
			t.Errorf("%s: got %d: %s", state, got.status, text)
		}
		if strings.Contains(got.body, "<form") {
			t.Errorf("%s: got a form", state)
		}
		hasPoster := h.get(LinkPrefix+slug+"/poster.svg").status == http.StatusOK
		if hasPoster != (state != LinkEnded) {
			t.Errorf("%s: got a poster %v", state, hasPoster)
		}
	}
}

// The pages of links keep to themselves as those of checkouts do, and what a shop chose stands there as text. Rule
// CO-42.
func TestLinkPagesKeepToThemselves(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	const markup = `"><script>alert(1)</script>` + "\u202e"
	h.links.change(func(f *fakeLinks) {
		f.view.ShopName, f.view.Items[0].Name, f.view.Items[0].Description = markup, markup, markup+"\n"+markup
		f.view.Accent = `red" onload="x`
	})
	for _, l := range languages {
		got := h.get(LinkPrefix + slug + "?lang=" + l.tag)
		for _, forbidden := range forbiddenMarkup {
			if found := forbidden.FindString(got.body); found != "" {
				t.Errorf("%s: got a page with %q", l.tag, found)
			}
		}
		if strings.Contains(got.body, "<script>alert") || strings.Contains(got.body, "\u202e") {
			t.Errorf("%s: got markup or a turned line", l.tag)
		}
		if !strings.Contains(got.body, `<html lang="`+l.tag+`" dir="`+l.direction+`"`) {
			t.Errorf("%s: got a page in another language", l.tag)
		}
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Set-Cookie": "",
		} {
			if got := got.header.Get(header); got != want {
				t.Errorf("%s: got the header %s: %q, want %q", l.tag, header, got, want)
			}
		}
		poster := h.get(LinkPrefix + slug + "/poster.svg?lang=" + l.tag)
		if poster.status != http.StatusOK || poster.header.Get("Content-Security-Policy") != imagePolicy {
			t.Errorf("%s: got %d with %q", l.tag, poster.status, poster.header.Get("Content-Security-Policy"))
		}
		wantWholeXML(t, l.tag, poster.body)
	}
}

func wantWholeXML(t *testing.T, name, body string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(body))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: got a poster that is no XML: %v", name, err)
		}
		if element, ok := token.(xml.StartElement); ok &&
			!slices.Contains([]string{"svg", "rect", "text", "title", "path"}, element.Name.Local) {
			t.Errorf("%s: got a poster with <%s>", name, element.Name.Local)
		}
	}
}

// A poster has the shop, the product, the price, the address and its QR code, and loads nothing. Rule CO-67.
func TestAPosterHasWhatAPrinterNeeds(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.links.change(func(f *fakeLinks) { f.view.Items = f.view.Items[:1] })
	got := h.get(LinkPrefix + slug + "/poster.svg")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "image/svg+xml; charset=utf-8" {
		t.Fatalf("got %d %s", got.status, got.header.Get("Content-Type"))
	}
	for _, want := range []string{
		`width="210mm" height="297mm"`, "Northwind Coffee", "House blend, 1 kg", "29.99 USD each", "Scan to pay",
		"https://pay.example/p/" + slug, "QR code of", `shape-rendering="crispEdges"`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("got a poster without %q", want)
		}
	}
	if found := regexp.MustCompile(`(?i)href|url\(|<style|<script|<image`).FindString(got.body); found != "" {
		t.Errorf("got a poster with %q", found)
	}
	wantWholeXML(t, "poster", got.body)
	// A long name is broken into lines, and cut behind the last one.
	for _, c := range []struct {
		text         string
		letters, max int
		want         []string
	}{
		{"short", 20, 3, []string{"short"}},
		{"", 20, 3, []string{""}},
		{"one two three", 8, 3, []string{"one two", "three"}},
		{"abcdefghij", 4, 2, []string{"abcd", "efgh…"}},
		{"喫茶店コーヒー", 6, 3, []string{"喫茶店", "コーヒ", "ー"}},
	} {
		if got := wrapText(c.text, c.letters, c.max); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// An absent link, a text that is no end of an address, and an unknown path are answered alike. Rules CO-44 and CO-62.
func TestAbsentLinksReadAlike(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, path := range []string{
		"other-word", "abc", "admin", "Gold-2026", "%00", slug + "/nothing", "other-word/poster.svg",
		slug + "/images/img_2", "other-word/images/img_1", checkoutID,
	} {
		got := h.get(LinkPrefix + path)
		const want = "There is no payment at this address"
		if got.status != http.StatusNotFound || !strings.Contains(readText(got.body), want) {
			t.Errorf("%s: got %d: %s", path, got.status, readText(got.body))
		}
	}
	if got := h.post(LinkPrefix+"other-word", "nonce", "x"); got.status != http.StatusNotFound {
		t.Errorf("got %d for a form of an absent link, want 404", got.status)
	}
	if got := h.get(LinkPrefix + slug + "/images/img_1"); got.status != http.StatusOK ||
		got.header.Get("Content-Type") != "image/png" || got.header.Get("Content-Security-Policy") != imagePolicy {
		t.Errorf("got %d %v, want the image", got.status, got.header)
	}
}

// A client that sends forms without end is refused in its language. Rule CO-68.
func TestFormsOfLinksAreLimited(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) {
		c.Limits = Limits{Buys: kernel.Rate{Count: 2, Period: time.Minute, Burst: 2}}
	})
	for i := range 3 {
		got := h.post(LinkPrefix+slug+"?lang=fr", "nonce", "nonce-1", "quantity-0", "1", "price-1", "5")
		want := http.StatusSeeOther
		if i == 2 {
			want = http.StatusTooManyRequests
		}
		if got.status != want || i == 2 && (got.header.Get("Retry-After") == "" ||
			!strings.Contains(readText(got.body), "Trop de demandes")) {
			t.Errorf("form %d: got %d, want %d: %s", i, got.status, want, readText(got.body))
		}
	}
	if UsualLimits.Buys.Count != 10 || UsualLimits.Buys.Period != time.Minute {
		t.Errorf("got %+v, want ten forms a minute", UsualLimits.Buys)
	}
}

// What the shop tells who has paid stands on the page of the paid checkout alone. Rule CO-62.
func TestTheTextAfterThePaymentIsForThoseWhoPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for status, isShown := range map[Status]bool{Open: false, Processing: false, Completed: true} {
		h.checkouts.change(func(v *View) {
			*v = paidView(status, newPayment(PaymentCredited, 0))
			v.AfterText = "Your code is 42.\n<b>Thank you</b>"
		})
		text := h.get(prefix + checkoutID).body
		if strings.Contains(text, "Your code is 42.") != isShown || strings.Contains(text, "<b>") ||
			strings.Contains(text, "A message from Northwind Coffee") != isShown {
			t.Errorf("%s: got the text %v, want %v", status, !isShown, isShown)
		}
	}
}
