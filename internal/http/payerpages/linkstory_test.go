package payerpages

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// A payer opens a payment link of a real shop, sends its form many times at once, and is led to one checkout, which can
// be paid. Nothing that the shop says for itself is on a page. Rules CO-40, CO-62 and CO-63.
func TestTheFormOfALinkMakesOneCheckoutOfTheShop(t *testing.T) {
	t.Parallel()
	s := newCanaryShop(t)
	s.Checkouts.NonceSecret = make([]byte, 32)
	s.Checkouts.LinkURL = func(slug string) string { return "https://pay.example/p/" + slug }
	s.Checkouts.PageURL = func(checkoutID string) string { return "https://pay.example/c/" + checkoutID + "#k=key" }
	me := audit.APIKey(s.org)
	draft := checkout.NewDraft()
	draft.Name, draft.PriceType, draft.MinPrice, draft.MaxPrice = "Coffee", checkout.OpenPrice, new("2"), new("20")
	draft.AcceptedMintIDs, draft.MaxQuantity = []int{canaryUSDC, canaryETH}, 5
	draft.Metadata = map[string]string{"note": canary}
	product, _, err := s.Checkouts.Create(t.Context(), s.org, checkout.Request{Draft: draft, Actor: me})
	s.must(err)
	link, _, err := s.Checkouts.CreateLink(t.Context(), s.org, checkout.LinkRequest{
		Items: []checkout.LinkItem{{ProductID: product.ID}}, AfterText: new("for payers " + canary),
		IdempotencyKey: new("key-" + canary), Actor: me,
	})
	s.must(err)
	s.pages.Links, _ = s.pages.Checkouts.(Source)
	pages := New(s.pages)
	ask := func(method, path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), canary) {
			t.Errorf("%s %s: got what the shop says for itself: %s", method, path, w.Body)
		}
		return w
	}
	page := ask(http.MethodGet, LinkPrefix+link.Slug, nil)
	nonce := regexp.MustCompile(`name="nonce" value="([^"]+)"`).FindStringSubmatch(page.Body.String())
	text := readText(page.Body.String())
	if page.Code != http.StatusOK || nonce == nil || !strings.Contains(text, "2.00 to 20.00 USD") {
		t.Fatalf("got %d: %s", page.Code, page.Body)
	}
	form := url.Values{nonceName: {nonce[1]}, quantityName + "0": {"3"}, priceName + "0": {"4,50"}}
	var mu sync.Mutex
	places := map[string]bool{}
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			got := ask(http.MethodPost, LinkPrefix+link.Slug, form)
			mu.Lock()
			defer mu.Unlock()
			if places[got.Header().Get("Location")] = true; got.Code != http.StatusSeeOther {
				t.Errorf("got %d: %s", got.Code, got.Body)
			}
		})
	}
	wait.Wait()
	var made int
	s.must(pgtest.OwnerPool(t, s.db).QueryRow(t.Context(), `SELECT count(*) FROM checkouts`).Scan(&made))
	if len(places) != 1 || made != 1 {
		t.Fatalf("got %d checkouts at %v, want one", made, places)
	}
	for place := range places {
		path, isKeyed := strings.CutSuffix(place, "#k=key")
		got := ask(http.MethodGet, path, nil)
		text := readText(got.Body.String())
		if !isKeyed || got.Code != http.StatusOK || !strings.Contains(text, "13.50") ||
			!strings.Contains(text, "3 × 4.50 USD") {
			t.Errorf("got %d at %s: %s", got.Code, place, text)
		}
	}
	form.Set(quantityName+"0", "4")
	if got := ask(http.MethodPost, LinkPrefix+link.Slug, form); got.Code != http.StatusConflict {
		t.Errorf("got %d for another choice of the same form, want 409", got.Code)
	}
	if got := ask(http.MethodGet, LinkPrefix+link.Slug+"/poster.svg", nil); got.Code != http.StatusOK {
		t.Errorf("got %d for the poster", got.Code)
	}
	_, err = s.Checkouts.PauseLink(t.Context(), s.org, link.ID, me)
	s.must(err)
	if got := ask(http.MethodGet, LinkPrefix+link.Slug, nil); !strings.Contains(got.Body.String(), "Not for sale") {
		t.Errorf("got %s, want that it is paused", got.Body)
	}
}
