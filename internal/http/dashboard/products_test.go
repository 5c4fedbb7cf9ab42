package dashboard

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/outbound"
)

// scriptedImages is a source of one image, which counts what it was asked for.
type scriptedImages struct{ asked atomic.Int32 }

// Get implements checkout.ImageSource.
func (s *scriptedImages) Get(_ context.Context, url, _ string, _ int64) ([]byte, error) {
	s.asked.Add(1)
	if strings.Contains(url, "inside") {
		return nil, outbound.ErrForbidden
	}
	var out bytes.Buffer
	err := png.Encode(&out, image.NewGray(image.Rect(0, 0, 2, 1)))
	return out.Bytes(), err
}

// addProduct makes a product with an image and texts of strangers.
func (h *testEnv) addProduct(who tenant, key string) checkout.Product {
	h.t.Helper()
	d := checkout.NewDraft()
	d.Name, d.PriceType, d.Price = "<b>Gold</b> Аlice", checkout.FixedPrice, new("49.5")
	d.AcceptedMintIDs = []int{usdc, evil}
	d.Description = new(strings.ReplaceAll(hostile, "\u202e", ""))
	d.ImageURL, d.SuccessURL = new("https://shop.example/gold.png"), new("https://shop.example/ok")
	d.Metadata = map[string]string{"<i>": "a=b\n\"c\""}
	p, _, err := h.checkouts.Create(h.t.Context(), who.id, checkout.Request{
		Draft: d, IdempotencyKey: &key, Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// wantNo checks that a page has none of some texts.
func (r reply) wantNo(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(r.body, text) {
			t.Errorf("got a page with %q:\n%s", text, r.body)
		}
	}
}

// productFieldsWith returns the fields of the form of a product, with some of them changed.
func productFieldsWith(changes ...string) []string {
	names := []string{
		"name", "description", "imageUrl", "priceType", "currency", "price", "minPrice", "maxPrice", "acceptedMintIds",
		"settlementMintId", "maxQuantity", "underpaymentToleranceBps", "overpaymentPolicy", "latePaymentPolicy",
		"successUrl", "cancelUrl", "metadata",
	}
	values := map[string]string{
		"name": "Silver plan", "priceType": "FIXED", "currency": "USD", "price": "49.99", "acceptedMintIds": "1",
		"maxQuantity": "10", "underpaymentToleranceBps": "50", "overpaymentPolicy": "CREDIT",
		"latePaymentPolicy": "HOLD",
	}
	for i := 0; i < len(changes); i += 2 {
		values[changes[i]] = changes[i+1]
	}
	var fields []string
	for _, name := range names {
		fields = append(fields, name, values[name])
		delete(values, name)
	}
	for name, value := range values { // a box, the key, the version
		fields = append(fields, name, value)
	}
	return fields
}

// A form makes one product, which stands on the first tab until it is archived. Rules PAGE-15, PAGE-81 and PROD-8.
func TestAProductIsMadeArchivedAndReactivated(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	developer, viewer := h.signIn(h.one, identity.Developer), h.signIn(h.one, identity.Viewer)
	h.get(developer, Prefix+"/products").want(t, http.StatusOK, "No product is for sale", "New product")
	h.get(developer, Prefix+"/products?status=ARCHIVED").want(t, http.StatusOK, "No product is archived")
	form := Prefix + "/products/new"
	key := h.get(developer, form).want(t, http.StatusOK, "USDC", `value="CREDIT"`).hidden(t, ui.KeyName)
	fields := productFieldsWith(ui.KeyName, key, "description", "line one\r\nline two", "metadata", `{"sku":"G-1"}`,
		"onePerReference", "on")
	made := h.post(developer, form+"/"+createProductAct, fields...).want(t, http.StatusSeeOther).header.Get("Location")
	if again := h.post(developer, form+"/"+createProductAct, fields...).want(t, http.StatusSeeOther).header.
		Get("Location"); again != made || h.count(`SELECT count(*) FROM products`) != 1 {
		t.Errorf("got %s and %s, want one product", made, again)
	}
	h.post(developer, form+"/"+createProductAct, productFieldsWith(ui.KeyName, key, "price", "1")...).
		want(t, http.StatusConflict, "That first request stands: the product Silver plan.")
	h.get(developer, made).want(t, http.StatusOK, "Silver plan", "49.99", "For sale", "Archive it",
		"waits for a person", "line one\nline two", "once", "G-1")
	h.get(developer, Prefix+"/products").want(t, http.StatusOK, "Silver plan", "49.99")
	h.get(viewer, made).want(t, http.StatusOK, "Silver plan").wantNo(t, "Archive it", "Save the changes")
	h.get(viewer, Prefix+"/products").want(t, http.StatusOK, "Silver plan").wantNo(t, "New product")
	h.get(viewer, form).want(t, http.StatusForbidden)
	h.post(viewer, made+"/"+archiveProductAct).want(t, http.StatusForbidden)

	for range 2 {
		h.post(developer, made+"/"+archiveProductAct).want(t, http.StatusSeeOther)
	}
	h.get(developer, Prefix+"/products").want(t, http.StatusOK).wantNo(t, "Silver plan")
	h.get(developer, Prefix+"/products?status=ARCHIVED").want(t, http.StatusOK, "Silver plan")
	h.get(developer, made).want(t, http.StatusOK, "Archived", "Put it on sale again")
	h.post(developer, made+"/"+unarchiveProductAct).want(t, http.StatusSeeOther)
	h.get(developer, Prefix+"/products").want(t, http.StatusOK, "Silver plan")
	if n := h.count(`SELECT count(*) FROM audit_log WHERE resource_kind = 'PRODUCT' AND actor_kind = 'USER'`); n != 3 {
		t.Errorf("got %d rows in the audit log, want one for each change", n)
	}
}

// What is wrong stands at its field, and what was typed stays. Rules PAGE-2 and PROD-7.
func TestAWrongProductComesBackWithWhatWasTyped(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Owner)
	form := Prefix + "/products/new"
	key := h.get(token, form).hidden(t, ui.KeyName)
	for words, changes := range map[string][]string{
		"price is not a decimal number":  {"price", "1e3"},
		"needs price":                    {"price", ""},
		"has no minPrice":                {"minPrice", "1"},
		"Give a whole number":            {"maxQuantity", "many"},
		"maxQuantity has to be 1 to":     {"maxQuantity", "0"},
		"Write a JSON object":            {"metadata", `{"a":1}`},
		"successUrl has to be https":     {"successUrl", "javascript://x/%0aalert(1)"},
		"not public":                     {"imageUrl", "https://inside.example/x.png"},
		"bidirectional":                  {"name", "Gold\u202e"},
		"currency has to be USD":         {"currency", "EUR"},
		"Tick at least one token":        {"acceptedMintIds", ""},
		"settlementMintId has to be one": {"settlementMintId", "3"},
	} {
		changes = append(changes, ui.KeyName, key, "description", "typed before")
		fields := productFieldsWith(changes...)
		if words == "Tick at least one token" { // A browser sends no box.
			for i := 0; i < len(fields); i += 2 {
				if fields[i] == acceptedName {
					fields = append(fields[:i:i], fields[i+2:]...)
					break
				}
			}
		}
		got := h.post(token, form+"/"+createProductAct, fields...)
		if got.status < 400 || !strings.Contains(got.body, words) || !strings.Contains(got.body, "typed before") {
			t.Errorf("%s: got %d, want the form with the reason and what was typed", words, got.status)
		}
	}
	if n := h.count(`SELECT count(*) FROM products`); n != 0 {
		t.Errorf("got %d products, want none", n)
	}
}

// A form that was opened before another change overwrites nothing, and an image is fetched only for another URL. Rules
// PAGE-21, PAGE-30 and PAGE-81.
func TestAnOldFormOfAProductOverwritesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Admin)
	p := h.addProduct(h.one, "gold")
	path := Prefix + "/products/" + p.ID
	seen := h.get(token, path).want(t, http.StatusOK).hidden(t, seenName)
	changes := []string{
		"name", p.Name, "imageUrl", *p.ImageURL, "successUrl", "", "priceType", "OPEN", "price", "", "minPrice", "1",
		"maxPrice", "2", seenName, seen,
	}
	h.post(token, path+"/"+changeProductAct, productFieldsWith(changes...)...).want(t, http.StatusSeeOther)
	after, err := h.checkouts.ByID(t.Context(), h.one.id, p.ID)
	if err != nil || after.Version != 2 || after.Price != nil || after.SuccessURL != nil || after.Description != nil ||
		after.ImageID != p.ImageID || after.MaxPrice.Text() != "2" || len(after.Metadata) != 0 {
		t.Errorf("got %+v %v, want what the form says", after, err)
	}
	if h.images.asked.Load() != 1 {
		t.Errorf("got %d fetched images, want no change without another URL to fetch", h.images.asked.Load())
	}
	old := productFieldsWith("name", "Old", "imageUrl", "https://b.example/x", seenName, seen)
	h.post(token, path+"/"+changeProductAct, old...).want(t, http.StatusConflict, "changed since you opened it")
	if again, err := h.checkouts.ByID(t.Context(), h.one.id, p.ID); err != nil || again.Version != 2 {
		t.Errorf("got %+v %v, want no change", again, err)
	}
	if h.images.asked.Load() != 1 {
		t.Error("a refused form fetched an image")
	}
	// Later than ten minutes after the last factor, the form goes on only with one.
	h.pass(sudoLasts + time.Minute)
	h.post(token, path+"/"+changeProductAct, productFieldsWith("name", "Late", seenName, "2")...).
		want(t, http.StatusForbidden, "Confirm that it is you", `value="Late"`)
}

// Texts of strangers are text, and the image comes from here with its own type. Rules PAGE-4, PAGE-82, PROD-5 and
// PROD-10.
func TestAProductOfStrangersIsTextAndItsImageIsServedHere(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer, foreigner := h.signIn(h.one, identity.Viewer), h.signIn(h.two, identity.Owner)
	p := h.addProduct(h.one, "gold")
	path := Prefix + "/products/" + p.ID
	for _, page := range []string{path, Prefix + "/products"} {
		h.get(viewer, page).want(t, http.StatusOK, "&lt;b&gt;Gold&lt;/b&gt; Аlice").
			wantNo(t, "<b>Gold", "<b>U</b>", "<i>", "<script>alert")
	}
	h.get(h.signIn(h.one, identity.Owner), path).
		want(t, http.StatusOK, `value="49.50"`, "&#34;&lt;i&gt;&#34;: &#34;a=b\\n")
	h.get(viewer, path).want(t, http.StatusOK, `src="`+path+`/image"`).wantNo(t, `src="https://`)
	got := h.get(viewer, path+"/image").want(t, http.StatusOK)
	if got.header.Get("Content-Type") != "image/png" || got.header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(got.header.Get("Content-Security-Policy"), "sandbox") ||
		!strings.HasPrefix(got.body, "\x89PNG") {
		t.Errorf("got %v, want the image with its type and no right to run anything", got.header)
	}
	for _, hidden := range []string{path, path + "/image"} {
		h.get(foreigner, hidden).want(t, http.StatusNotFound)
		if status := h.get("", hidden).status; status != http.StatusSeeOther {
			t.Errorf("%s: got %d without a session, want sign-in", hidden, status)
		}
	}
	h.get(foreigner, Prefix+"/products").want(t, http.StatusOK, "No product is for sale")
	h.post(foreigner, path+"/"+archiveProductAct).want(t, http.StatusNotFound)
	table := h.get(h.signIn(h.one, identity.Finance), Prefix+"/products.csv").want(t, http.StatusOK, p.ID, "49.50")
	if strings.Contains(table.body, h.one.id) {
		t.Error("the table names the organization")
	}
}
