package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func newLinkEnv(t *testing.T) *testEnv {
	t.Helper()
	e := newTestEnv(t)
	e.service.LinkCheckoutsMax = 20_000
	e.service.NonceSecret = bytes.Repeat([]byte{7}, 32)
	e.service.LinkURL = func(slug string) string { return "https://pay.example.com/p/" + slug }
	e.service.PageURL = func(checkoutID string) string { return "https://pay.example.com/c/" + checkoutID + "#k=key" }
	return e
}

// linkOf returns a link that sells some products once each, with changes.
func (e *testEnv) linkRequest(products []string, changes ...func(*checkout.LinkRequest)) checkout.LinkRequest {
	r := checkout.LinkRequest{Actor: audit.APIKey(e.one)}
	for _, productID := range products {
		r.Items = append(r.Items, checkout.LinkItem{ProductID: productID})
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func (e *testEnv) mustLink(products []string, changes ...func(*checkout.LinkRequest)) checkout.Link {
	e.t.Helper()
	l, _, err := e.service.CreateLink(e.t.Context(), e.one, e.linkRequest(products, changes...))
	if err != nil {
		e.t.Fatal(err)
	}
	return l
}

// nonce returns a nonce of the page of a link.
func (e *testEnv) nonce(slug string) string {
	e.t.Helper()
	p, err := e.service.PublicLink(e.t.Context(), slug)
	if err != nil || p.Nonce == "" {
		e.t.Fatalf("got no nonce of %s in state %s: %v", slug, p.State, err)
	}
	return p.Nonce
}

func (e *testEnv) buy(slug, nonce string, choices ...checkout.LinkChoice) (checkout.Checkout, error) {
	return e.service.CheckoutOfLink(e.t.Context(), slug, choices, nonce)
}

func (e *testEnv) exec(sql string, args ...any) {
	e.t.Helper()
	if _, err := pgtest.OwnerPool(e.t, e.db).Exec(e.t.Context(), sql, args...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *testEnv) count(sql string, args ...any) (n int) {
	e.t.Helper()
	if err := pgtest.OwnerPool(e.t, e.db).QueryRow(e.t.Context(), sql, args...).Scan(&n); err != nil {
		e.t.Fatal(err)
	}
	return n
}

func wantRefusal(t *testing.T, name string, err error, want checkout.LinkRefusal) {
	t.Helper()
	f := fault.Find(err)
	if f == nil || f.Details[checkout.RefusalDetail] != string(want) || f.Effect != fault.NothingWritten {
		t.Errorf("%s: got %v, want the refusal %s", name, err, want)
	}
}

func (e *testEnv) wantState(slug string, want checkout.LinkState) {
	e.t.Helper()
	p, err := e.service.PublicLink(e.t.Context(), slug)
	if err != nil || p.State != want || (p.Nonce != "") != (want == checkout.LinkSells) {
		e.t.Errorf("got the state %s with nonce %q, %v, want %s", p.State, p.Nonce, err, want)
	}
}

// A link has random characters or the chosen word, and the same key finds it again. Rules CO-60 and CO-61.
func TestALinkIsMadeOnceForItsKey(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	productID := e.mustCreate(validDraft(func(d *checkout.Draft) { d.MaxQuantity = 9 })).ID
	first := e.mustLink([]string{productID})
	second := e.mustLink([]string{productID})
	if first.Slug == second.Slug || len(first.Slug) != 22 || !checkout.IsSlug(first.Slug) ||
		first.URL != "https://pay.example.com/p/"+first.Slug || first.Status != checkout.LinkActive {
		t.Errorf("got %+v and %+v, want two random addresses", first, second)
	}
	chosen := e.linkRequest([]string{productID}, func(r *checkout.LinkRequest) {
		r.Slug, r.IdempotencyKey, r.MaxCompleted = new("gold-2026"), new("k"), new(3)
	})
	made, isReplayed, err := e.service.CreateLink(t.Context(), e.one, chosen)
	if err != nil || isReplayed || made.Slug != "gold-2026" {
		t.Fatalf("got %+v %v %v, want the chosen word", made, isReplayed, err)
	}
	again, isReplayed, err := e.service.CreateLink(t.Context(), e.one, chosen)
	if err != nil || !isReplayed || again.ID != made.ID || again.Differs(chosen) {
		t.Errorf("got %+v %v %v, want the same link", again, isReplayed, err)
	}
	other := chosen
	other.MaxCompleted = new(4)
	if again, _, _ := e.service.CreateLink(t.Context(), e.one, other); !again.Differs(other) {
		t.Error("got no difference of another limit")
	}
	// The word is taken, also for another organization.
	chosen.IdempotencyKey = nil
	if _, _, err := e.service.CreateLink(t.Context(), e.one, chosen); !isParam(err, "slug") {
		t.Errorf("got %v, want a refusal of the taken word", err)
	}
	if n := e.count(`SELECT count(*) FROM audit_log WHERE action = 'payment_link.created'`); n != 3 {
		t.Errorf("got %d rows in the audit log, want 3", n)
	}
}

func isParam(err error, param string) bool {
	f := fault.Find(err)
	return f != nil && f.Param == param && f.Effect == fault.NothingWritten
}

// What is wrong is refused with the name of the member, and nothing is written. Rule CO-61.
func TestALinkThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	gold := e.mustCreate(validDraft(func(d *checkout.Draft) { d.MaxQuantity = 9 })).ID
	coins := e.mustCreate(validDraft(func(d *checkout.Draft) { d.Currency, d.AcceptedMintIDs = "ETH", []int{eth} })).ID
	archived := e.mustCreate(validDraft()).ID
	if _, err := e.service.Archive(t.Context(), e.one, archived, audit.APIKey(e.one)); err != nil {
		t.Fatal(err)
	}
	foreign, _, err := e.service.Create(t.Context(), e.two, checkout.Request{
		Draft: validDraft(), Actor: audit.APIKey(e.two),
	})
	if err != nil {
		t.Fatal(err)
	}
	items := func(items ...checkout.LinkItem) func(*checkout.LinkRequest) {
		return func(r *checkout.LinkRequest) { r.Items = items }
	}
	slug := func(word string) func(*checkout.LinkRequest) {
		return func(r *checkout.LinkRequest) { r.Slug = &word }
	}
	var many []checkout.LinkItem
	for range 21 {
		many = append(many, checkout.LinkItem{ProductID: gold})
	}
	for _, c := range []struct {
		name, param string
		change      func(*checkout.LinkRequest)
	}{
		{"a reserved word", "slug", slug("admin")},
		{"a short word", "slug", slug("abc")},
		{"a long word", "slug", slug(strings.Repeat("a", 41))},
		{"capitals", "slug", slug("Gold-2026")},
		{"a letter that looks like another", "slug", slug("gоld-plan")},
		{"an umlaut", "slug", slug("zürich")},
		{"a slash", "slug", slug("a/b/c")},
		{"a hyphen at the end", "slug", slug("gold-")},
		{"no word", "slug", slug("")},
		{"no product", "lineItems", items()},
		{"too many products", "lineItems", items(many...)},
		{"a product twice", "lineItems", items(checkout.LinkItem{ProductID: gold}, checkout.LinkItem{ProductID: gold})},
		{"an absent product", "lineItems", items(checkout.LinkItem{ProductID: "prod_x"})},
		{"a foreign product", "lineItems", items(checkout.LinkItem{ProductID: foreign.ID})},
		{"an archived product", "productId", items(checkout.LinkItem{ProductID: archived})},
		{"two currencies", "lineItems", items(checkout.LinkItem{ProductID: gold}, checkout.LinkItem{ProductID: coins})},
		{"quantity 0", "lineItems", items(checkout.LinkItem{ProductID: gold, Quantity: new(0)})},
		{"quantity above", "lineItems", items(checkout.LinkItem{ProductID: gold, Quantity: new(10)})},
		{"bound 0", "lineItems", items(checkout.LinkItem{ProductID: gold, QuantityMin: new(0)})},
		{"bounds the wrong way round", "lineItems", items(
			checkout.LinkItem{ProductID: gold, QuantityMin: new(5), QuantityMax: new(4)},
		)},
		{"a fixed quantity with a bound", "lineItems", items(
			checkout.LinkItem{ProductID: gold, Quantity: new(1), QuantityMax: new(4)},
		)},
		{"limit 0", "maxCompleted", func(r *checkout.LinkRequest) { r.MaxCompleted = new(0) }},
		{"a limit too high", "maxCompleted", func(r *checkout.LinkRequest) { r.MaxCompleted = new(1_000_001) }},
		{"an end that is over", "expiresAt", func(r *checkout.LinkRequest) {
			r.ExpiresAt = new(time.Now().Add(-time.Second))
		}},
		{"no text", "afterText", func(r *checkout.LinkRequest) { r.AfterText = new("") }},
		{"a long text", "afterText", func(r *checkout.LinkRequest) { r.AfterText = new(strings.Repeat("a", 1001)) }},
		{"a script", "successUrl", func(r *checkout.LinkRequest) { r.SuccessURL = new("javascript:alert(1)") }},
		{"a key with a space", "idempotencyKey", func(r *checkout.LinkRequest) { r.IdempotencyKey = new("a b") }},
	} {
		_, _, err := e.service.CreateLink(t.Context(), e.one, e.linkRequest([]string{gold}, c.change))
		if !isParam(err, c.param) {
			t.Errorf("%s: got %v, want a refusal of %s", c.name, err, c.param)
		}
	}
	if n := e.count(`SELECT count(*) FROM payment_links`); n != 0 {
		t.Errorf("got %d links, want none", n)
	}
}

// The choice of a payer stays within the bounds, and the checkout has the terms of the link. Rule CO-64.
func TestAChoiceOfAPayerIsWithinItsBounds(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	gold := e.mustCreate(validDraft(func(d *checkout.Draft) { d.MaxQuantity = 9 })).ID
	gift := e.mustCreate(validDraft(openPrice("5", "100"))).ID
	l := e.mustLink(nil, func(r *checkout.LinkRequest) {
		r.Items = []checkout.LinkItem{{ProductID: gold, QuantityMin: new(2), QuantityMax: new(4)}, {ProductID: gift}}
		r.SuccessURL = new("https://shop.example.com/thanks")
	})
	choose := func(quantity int, price *string) []checkout.LinkChoice {
		return []checkout.LinkChoice{{ProductID: gold, Quantity: quantity}, {ProductID: gift, UnitPrice: price}}
	}
	for _, c := range []struct {
		name    string
		choices []checkout.LinkChoice
		want    checkout.LinkRefusal
	}{
		{"quantity 0", choose(0, new("10")), checkout.QuantityRefused},
		{"below", choose(1, new("10")), checkout.QuantityRefused},
		{"above", choose(5, new("10")), checkout.QuantityRefused},
		{"negative", choose(-1, new("10")), checkout.QuantityRefused},
		{"no price", choose(2, nil), checkout.PriceRefused},
		{"below the bound", choose(2, new("4.99")), checkout.PriceRefused},
		{"above the bound", choose(2, new("100.01")), checkout.PriceRefused},
		{"no number", choose(2, new("ten")), checkout.PriceRefused},
		{"three digits", choose(2, new("10.001")), checkout.PriceRefused},
		{
			"another product", append(choose(2, new("10")), checkout.LinkChoice{ProductID: "prod_x"}),
			checkout.StateRefused,
		},
	} {
		_, err := e.buy(l.Slug, e.nonce(l.Slug), c.choices...)
		wantRefusal(t, c.name, err, c.want)
	}
	if n := e.count(`SELECT count(*) FROM checkouts`); n != 0 {
		t.Errorf("got %d checkouts, want none", n)
	}
	c, err := e.buy(l.Slug, e.nonce(l.Slug), choose(3, new("10"))...)
	if err != nil {
		t.Fatal(err)
	}
	if c.AmountDue.Text() != "159.97" || len(c.Items) != 2 || c.LinkID == nil || *c.LinkID != l.ID ||
		*c.SuccessURL != "https://shop.example.com/thanks" || c.Reference != nil || c.CustomerID != nil {
		t.Errorf("got %+v, want the checkout of the choice", c)
	}
	sales, err := e.service.ListCheckouts(t.Context(), e.one, checkout.CheckoutFilter{LinkID: l.ID},
		pagination.Page{Limit: 5})
	if err != nil || len(sales.Items) != 1 || sales.Items[0].ID != c.ID || *sales.Items[0].LinkID != l.ID {
		t.Errorf("got %+v %v, want the checkout of the link", sales, err)
	}
}

// One form makes one checkout, however often and from wherever it is sent. Rule CO-63.
func TestTwoClicksMakeOneCheckout(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	gold := e.mustCreate(validDraft(func(d *checkout.Draft) { d.MaxQuantity = 9 })).ID
	l := e.mustLink([]string{gold})
	other := e.mustLink([]string{gold})
	nonce := e.nonce(l.Slug)
	choice := checkout.LinkChoice{ProductID: gold, Quantity: 2}
	var mu sync.Mutex
	ids := map[string]bool{}
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			c, err := e.buy(l.Slug, nonce, choice)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			ids[c.ID] = true
		})
	}
	wait.Wait()
	if n := e.count(`SELECT count(*) FROM checkouts`); n != 1 || len(ids) != 1 {
		t.Errorf("got %d checkouts and %v, want one", n, ids)
	}
	// A form that was paused meanwhile leads to the checkout that it has made.
	if _, err := e.service.PauseLink(t.Context(), e.one, l.ID, audit.APIKey(e.one)); err != nil {
		t.Fatal(err)
	}
	if c, err := e.buy(l.Slug, nonce, choice); err != nil || !ids[c.ID] {
		t.Errorf("got %v %v, want the same checkout", c.ID, err)
	}
	_, err := e.buy(l.Slug, nonce, checkout.LinkChoice{ProductID: gold, Quantity: 3})
	wantRefusal(t, "another choice", err, checkout.NonceUsed)
	for name, bad := range map[string]string{
		"no nonce": "", "a made-up one": "x", "that of another link": e.nonce(other.Slug),
		"a changed one": nonce[:20] + "A" + nonce[21:],
	} {
		if bad == nonce {
			continue
		}
		_, err := e.buy(l.Slug, bad, choice)
		wantRefusal(t, name, err, checkout.NonceRefused)
	}
}

// paySQL lets enough arrive for a checkout, as the settlement writes it.
const paySQL = `
	UPDATE checkouts SET version = version + 1, status = 'PROCESSING', seen = due WHERE checkout_id = $1`

// A link stops selling when it is paused, ended, expired or sold out, or when its product is not for sale like this.
// Checkouts that exist are paid further on. Rule CO-62.
func TestALinkSellsOnlyWhileItDoes(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	me := audit.APIKey(e.one)
	gold := e.mustCreate(validDraft(func(d *checkout.Draft) { d.MaxQuantity = 9 })).ID
	l := e.mustLink([]string{gold}, func(r *checkout.LinkRequest) { r.MaxCompleted = new(2) })
	choice := checkout.LinkChoice{ProductID: gold, Quantity: 1}
	stops := func(name string, want checkout.LinkState, stop, resume func() error) {
		t.Helper()
		nonce := e.nonce(l.Slug)
		if err := stop(); err != nil {
			t.Fatal(name, err)
		}
		e.wantState(l.Slug, want)
		_, err := e.buy(l.Slug, nonce, choice)
		wantRefusal(t, name, err, checkout.StateRefused)
		if err := resume(); err != nil {
			t.Fatal(name, err)
		}
	}
	stops("paused", checkout.LinkIsPaused, func() error {
		_, err := e.service.PauseLink(t.Context(), e.one, l.ID, me)
		return err
	}, func() error {
		_, err := e.service.ResumeLink(t.Context(), e.one, l.ID, me)
		return err
	})
	stops("archived product", checkout.LinkUnavailable, func() error {
		_, err := e.service.Archive(t.Context(), e.one, gold, me)
		return err
	}, func() error {
		_, err := e.service.Unarchive(t.Context(), e.one, gold, me)
		return err
	})
	expire := func(change string) func() error {
		return func() error {
			e.exec(`UPDATE payment_links SET version = version + 1, expires_at = ` + change)
			return nil
		}
	}
	stops("expired", checkout.LinkIsExpired, expire(`now() - interval '1 s'`), expire(`NULL`))

	// Two are paid, so the third that was open meanwhile may be paid, and no fourth is made.
	nonce := e.nonce(l.Slug)
	var open []checkout.Checkout
	for range 3 {
		c, err := e.buy(l.Slug, e.nonce(l.Slug), choice)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	pay := func(c checkout.Checkout) {
		e.exec(paySQL, c.ID)
	}
	pay(open[0])
	e.wantState(l.Slug, checkout.LinkSells)
	pay(open[1])
	e.wantState(l.Slug, checkout.LinkIsSoldOut)
	_, err := e.buy(l.Slug, nonce, choice)
	wantRefusal(t, "sold out", err, checkout.StateRefused)
	pay(open[2])
	got, err := e.service.LinkByID(t.Context(), e.one, l.ID)
	if err != nil || got.CompletedCount != 3 {
		t.Errorf("got %d sales %v, want 3", got.CompletedCount, err)
	}
	// A payment that went away makes room again.
	for _, c := range open[1:] {
		e.exec(`UPDATE checkouts SET version = version + 1, status = 'OPEN', seen = 0 WHERE checkout_id = $1`, c.ID)
	}
	e.wantState(l.Slug, checkout.LinkSells)
	stops("ended", checkout.LinkIsEnded, func() error {
		_, err := e.service.EndLink(t.Context(), e.one, l.ID, me)
		return err
	}, func() error { return nil })
	if _, err := e.service.ResumeLink(t.Context(), e.one, l.ID, me); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v, want the end to be final", err)
	}
}

// The limit holds in the transaction that makes a checkout: buyers at the same time as the last sale get none after it.
// Rule CO-62.
func TestTheLastSaleStopsBuyersAtTheSameTime(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	gold := e.mustCreate(validDraft()).ID
	l := e.mustLink([]string{gold}, func(r *checkout.LinkRequest) { r.MaxCompleted = new(1) })
	first, err := e.buy(l.Slug, e.nonce(l.Slug))
	if err != nil {
		t.Fatal(err)
	}
	nonces := make([]string, 16)
	for i := range nonces {
		nonces[i] = e.nonce(l.Slug)
	}
	e.exec(paySQL, first.ID)
	var wait sync.WaitGroup
	for _, nonce := range nonces {
		wait.Go(func() {
			_, err := e.buy(l.Slug, nonce)
			wantRefusal(t, "sold out", err, checkout.StateRefused)
		})
	}
	wait.Wait()
	if n := e.count(`SELECT count(*) FROM checkouts`); n != 1 {
		t.Errorf("got %d checkouts, want the one that was sold", n)
	}
}

// No checkout is made after a pause has committed, even if the buyer looked before it. Rule CO-62.
func TestNoSaleOvertakesAPause(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	gold := e.mustCreate(validDraft()).ID
	l := e.mustLink([]string{gold})
	nonces := make([]string, 16)
	for i := range nonces {
		nonces[i] = e.nonce(l.Slug)
	}
	var wait sync.WaitGroup
	for _, nonce := range nonces {
		wait.Go(func() {
			if _, err := e.buy(l.Slug, nonce); err != nil {
				wantRefusal(t, "paused", err, checkout.StateRefused)
			}
		})
	}
	paused, err := e.service.PauseLink(t.Context(), e.one, l.ID, audit.APIKey(e.one))
	if err != nil {
		t.Fatal(err)
	}
	made := e.count(`SELECT count(*) FROM checkouts`)
	wait.Wait()
	if n := e.count(`SELECT count(*) FROM checkouts`); n != made {
		t.Errorf("got %d checkouts, want the %d from before the pause at %s", n, made, paused.UpdatedAt)
	}
}

// A change names what becomes different, overwrites nothing that its author did not see, and changes no ended link.
// Rule CO-65.
func TestALinkIsChangedByWhatAChangeNames(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	me := audit.APIKey(e.one)
	l := e.mustLink([]string{e.mustCreate(validDraft()).ID}, func(r *checkout.LinkRequest) { r.MaxCompleted = new(2) })
	changed, err := e.service.PatchLink(t.Context(), e.one, l.ID, me, checkout.LinkChange{
		AfterText:   checkout.Nullable[string]{IsNamed: true, Value: new("Thank you.\nWe ship tomorrow.")},
		SeenVersion: &l.Version,
	})
	if err != nil || *changed.AfterText != "Thank you.\nWe ship tomorrow." || *changed.MaxCompleted != 2 ||
		changed.Version != 2 {
		t.Fatalf("got %+v %v, want the text alone changed", changed, err)
	}
	_, err = e.service.PatchLink(t.Context(), e.one, l.ID, me, checkout.LinkChange{
		MaxCompleted: checkout.Nullable[int]{IsNamed: true}, SeenVersion: &l.Version,
	})
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v, want a refusal of the version that was changed since", err)
	}
	same, err := e.service.PatchLink(t.Context(), e.one, l.ID, me, checkout.LinkChange{
		MaxCompleted: checkout.Nullable[int]{IsNamed: true, Value: new(2)},
	})
	if err != nil || same.Version != 2 {
		t.Errorf("got %+v %v, want nothing written", same, err)
	}
	for name, ch := range map[string]checkout.LinkChange{
		"maxCompleted": {MaxCompleted: checkout.Nullable[int]{IsNamed: true, Value: new(0)}},
		"expiresAt": {ExpiresAt: checkout.Nullable[time.Time]{
			IsNamed: true, Value: new(time.Now().Add(-time.Hour)),
		}},
		"successUrl": {SuccessURL: checkout.Nullable[string]{IsNamed: true, Value: new("x")}},
		"afterText":  {AfterText: checkout.Nullable[string]{IsNamed: true, Value: new("\u202e")}},
	} {
		if _, err := e.service.PatchLink(t.Context(), e.one, l.ID, me, ch); !isParam(err, name) {
			t.Errorf("got %v, want a refusal of %s", err, name)
		}
	}
	for range 2 {
		if ended, err := e.service.EndLink(t.Context(), e.one, l.ID, me); err != nil || ended.EndedAt == nil {
			t.Errorf("got %+v %v, want the ended link", ended, err)
		}
	}
	_, err = e.service.PatchLink(t.Context(), e.one, l.ID, me, checkout.LinkChange{
		AfterText: checkout.Nullable[string]{IsNamed: true},
	})
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v, want no change of an ended link", err)
	}
	if n := e.count(`SELECT count(*) FROM audit_log WHERE action LIKE 'payment_link.%'`); n != 3 {
		t.Errorf("got %d rows in the audit log, want the creation, the change and the end", n)
	}
}

// A link of another organization is absent, and its images are only those of its products. Rule CO-66.
func TestALinkBelongsToOneOrganization(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	p := e.mustCreate(validDraft(func(d *checkout.Draft) { d.ImageURL = new("https://a.example/gold.png") }))
	l := e.mustLink([]string{p.ID})
	them := audit.APIKey(e.two)
	for name, act := range map[string]func() error{
		"read": func() error { _, err := e.service.LinkByID(t.Context(), e.two, l.ID); return err },
		"change": func() error {
			_, err := e.service.PatchLink(t.Context(), e.two, l.ID, them, checkout.LinkChange{})
			return err
		},
		"pause":    func() error { _, err := e.service.PauseLink(t.Context(), e.two, l.ID, them); return err },
		"end":      func() error { _, err := e.service.EndLink(t.Context(), e.two, l.ID, them); return err },
		"no id":    func() error { _, err := e.service.LinkByID(t.Context(), e.one, "plink_x"); return err },
		"no slug":  func() error { _, err := e.service.PublicLink(t.Context(), "nothing-here"); return err },
		"no image": func() error { _, err := e.service.PublicLinkImage(t.Context(), l.Slug, "img_x"); return err },
		"no sale":  func() error { _, err := e.buy("nothing-here", "x"); return err },
	} {
		if err := act(); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("%s: got %v, want NOT_FOUND", name, err)
		}
	}
	for orgID, want := range map[string]int{e.one: 1, e.two: 0} {
		page, err := e.service.ListLinks(t.Context(), orgID, checkout.LinkFilter{Status: "ACTIVE"},
			pagination.Page{Limit: 5})
		if err != nil || len(page.Items) != want {
			t.Errorf("got %d links %v, want %d", len(page.Items), err, want)
		}
		n := 0
		err = e.service.ForEachLink(t.Context(), orgID, checkout.LinkFilter{}, true, func(checkout.Link) error {
			n++
			return nil
		})
		if err != nil || n != want {
			t.Errorf("got %d links %v, want %d", n, err, want)
		}
	}
	shown, err := e.service.PublicLinkImage(t.Context(), l.Slug, p.ImageID)
	if err != nil || shown.MediaType != "image/png" {
		t.Errorf("got %s %v, want the image of the product", shown.MediaType, err)
	}
	public, err := e.service.PublicLink(t.Context(), l.Slug)
	if err != nil || public.ShopName != "Acme" || len(public.Goods) != 1 || public.Goods[0].QuantityMost != 1 {
		t.Errorf("got %+v %v, want what a payer may see", public, err)
	}
}

// The tables refuse what the program does not try, also to the owner. Rules CO-60, CO-62 and CO-65.
func TestTheTableKeepsTheRulesOfLinks(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	l := e.mustLink([]string{e.mustCreate(validDraft()).ID})
	c, err := e.buy(l.Slug, e.nonce(l.Slug))
	if err != nil {
		t.Fatal(err)
	}
	owner := pgtest.OwnerPool(t, e.db)
	const next = `UPDATE payment_links SET version = version + 1, `
	const copied = `INSERT INTO payment_links SELECT (jsonb_populate_record(l, `
	for _, c := range []struct{ constraint, sql string }{
		{"payment_links_identity_fixed", next + `slug = 'another-one'`},
		{"payment_links_identity_fixed", next + `line_items = '[{"productId": "prod_x"}]'`},
		{"payment_links_identity_fixed", next + `org_id = '` + e.two + `'`},
		{"payment_links_version_forward", `UPDATE payment_links SET after_text = 'x'`},
		{"payment_links_status_known", next + `status = 'GONE'`},
		{"payment_links_ended", next + `status = 'ENDED'`},
		{"payment_links_limited", next + `max_completed = 0`},
		{"payment_links_text_bounded", next + `after_text = ''`},
		{"payment_links_url_web", next + `success_url = 'javascript:alert(1)'`},
		{"payment_links_append_only", `DELETE FROM payment_links`},
		{
			"payment_links_begin",
			copied + `'{"link_id": "plink_y", "slug": "another", "version": 2}')).* FROM payment_links l`,
		},
		{
			"payment_links_products_known",
			copied + `'{"link_id": "plink_y", "slug": "another", "line_items": [{"productId": "prod_x"}]}')).*
				FROM payment_links l`,
		},
		{"payment_links_slug_once", copied + `'{"link_id": "plink_y"}')).* FROM payment_links l`},
		{"payment_links_slug_formed", copied + `'{"link_id": "plink_y", "slug": "Bad Word"}')).* FROM payment_links l`},
		{
			"checkouts_terms_fixed",
			`UPDATE checkouts SET version = version + 1, link_id = NULL WHERE checkout_id = '` + c.ID + `'`,
		},
	} {
		if _, err := owner.Exec(t.Context(), c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.sql, err, c.constraint)
		}
	}
	e.exec(next + `status = 'ENDED', ended_at = now()`)
	_, err = owner.Exec(t.Context(), next+`after_text = 'x'`)
	if !pg.ViolatesConstraint(err, "payment_links_end_final") {
		t.Errorf("got %v, want the end to be final", err)
	}
	err = e.db.InOrg(t.Context(), e.one, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE payment_links SET slug = slug`)
		return err
	})
	if err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want no privilege", err)
	}
}

// The payment links of an organization have at most 20,000 open checkouts without a payment, and one that is paid or
// over makes room. Rule CO-68.
func TestOpenCheckoutsOfLinksAreLimited(t *testing.T) {
	t.Parallel()
	e := newLinkEnv(t)
	l := e.mustLink([]string{e.mustCreate(validDraft()).ID})
	first, err := e.buy(l.Slug, e.nonce(l.Slug))
	if err != nil {
		t.Fatal(err)
	}
	e.exec(`
		BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO checkouts SELECT r.* FROM checkouts c, generate_series(1, 19999) n, LATERAL jsonb_populate_record(
			c, jsonb_build_object('checkout_id', 'co_' || n, 'idempotency_key', NULL, 'key_hash', NULL)) r;
		COMMIT`)
	_, err = e.buy(l.Slug, e.nonce(l.Slug))
	wantRefusal(t, "too many", err, checkout.LimitRefused)
	e.exec(paySQL, first.ID)
	if _, err := e.buy(l.Slug, e.nonce(l.Slug)); err != nil {
		t.Errorf("got %v, want room for another one", err)
	}
	_, err = e.buy(l.Slug, e.nonce(l.Slug))
	wantRefusal(t, "too many again", err, checkout.LimitRefused)
	// It is a setting, and 0 is no limit.
	e.service.LinkCheckoutsMax = 0
	if _, err := e.buy(l.Slug, e.nonce(l.Slug)); err != nil {
		t.Errorf("got %v without a limit", err)
	}
	e.service.LinkCheckoutsMax = 20_000
	// What a program makes is not limited by it.
	_, _, err = e.service.CreateCheckout(t.Context(), e.one, checkout.CheckoutRequest{
		Items: []checkout.ItemRequest{{ProductID: l.Items[0].ProductID, Quantity: 1}}, Actor: audit.APIKey(e.one),
	})
	if err != nil {
		t.Errorf("got %v, want a checkout of a program", err)
	}
}
