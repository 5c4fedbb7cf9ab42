package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/outbound"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The mints of the tests: two coins named USDC with 6 and 2 decimals, ETH, and one that takes no deposits.
const (
	usdc, coarse, eth, shut = 1, 2, 3, 4
)

// images is a source of images that counts what it was asked for.
type images struct {
	mu      sync.Mutex
	asked   []string
	content []byte
	err     error
}

func (i *images) Get(_ context.Context, url, _ string, bytesMax int64) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked = append(i.asked, url)
	if i.err == nil && int64(len(i.content)) > bytesMax {
		return nil, outbound.ErrTooLarge
	}
	return i.content, i.err
}

func (i *images) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.asked)
}

type testEnv struct {
	t        *testing.T
	db       *pg.DB
	one, two string
	images   *images
	service  *checkout.Service
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	db := pgtest.New(t)
	base := mint.Mint{
		Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	var mints []mint.Mint
	for _, change := range []func(*mint.Mint){
		func(m *mint.Mint) { m.ID, m.Contract = usdc, "0x00000000000000000000000000000000000000aa" },
		func(m *mint.Mint) {
			m.ID, m.Chain, m.Contract, m.Decimals = coarse, chain.Base, "0x00000000000000000000000000000000000000ab", 2
		},
		func(m *mint.Mint) { m.ID, m.Kind, m.Symbol, m.Name, m.Decimals = eth, mint.Native, "ETH", "Ether", 18 },
		func(m *mint.Mint) {
			m.ID, m.Contract, m.DepositEnabled = shut, "0x00000000000000000000000000000000000000ac", false
			m.Symbol, m.Name = "OLD", "Old"
		},
	} {
		m := base
		change(&m)
		mints = append(mints, m)
	}
	if err := mint.Sync(t.Context(), db, mints); err != nil {
		t.Fatal(err)
	}
	e := &testEnv{t: t, db: db, images: &images{content: drawPNG(t, 2, 2)}}
	for _, name := range []*string{&e.one, &e.two} {
		o, _, err := org.Create(t.Context(), db, "Acme")
		if err != nil {
			t.Fatal(err)
		}
		*name = o.ID
	}
	e.service = &checkout.Service{DB: db, Images: e.images}
	return e
}

func drawPNG(t *testing.T, width, height int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// validDraft is a fixed product that nothing is wrong with.
func validDraft(changes ...func(*checkout.Draft)) checkout.Draft {
	d := checkout.NewDraft()
	d.Name, d.PriceType, d.Price, d.AcceptedMintIDs = "Gold plan", checkout.FixedPrice, new("49.99"), []int{usdc, eth}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func openPrice(minPrice, maxPrice string) func(*checkout.Draft) {
	return func(d *checkout.Draft) {
		d.PriceType, d.Price, d.MinPrice, d.MaxPrice = checkout.OpenPrice, nil, &minPrice, &maxPrice
	}
}

func (e *testEnv) create(d checkout.Draft, key *string) (checkout.Product, bool, error) {
	e.t.Helper()
	return e.service.Create(e.t.Context(), e.one, checkout.Request{
		Draft: d, IdempotencyKey: key, Actor: audit.APIKey(e.one),
	})
}

func (e *testEnv) mustCreate(d checkout.Draft) checkout.Product {
	e.t.Helper()
	p, _, err := e.create(d, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

func (e *testEnv) patch(productID string, ch checkout.Change) (checkout.Product, error) {
	e.t.Helper()
	return e.service.Patch(e.t.Context(), e.one, productID, audit.APIKey(e.one), ch)
}

func (e *testEnv) countRows(sql string, args ...any) (n int) {
	e.t.Helper()
	if err := pgtest.OwnerPool(e.t, e.db).QueryRow(e.t.Context(), sql, args...).Scan(&n); err != nil {
		e.t.Fatal(err)
	}
	return n
}

// listActions returns the rows of the audit log about a product, oldest first.
func (e *testEnv) listActions(productID string) string {
	e.t.Helper()
	rows, err := pgtest.OwnerPool(e.t, e.db).Query(
		e.t.Context(), `SELECT action FROM audit_log WHERE resource_id = $1 ORDER BY audit_id`, productID,
	)
	if err != nil {
		e.t.Fatal(err)
	}
	actions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		e.t.Fatal(err)
	}
	return strings.Join(actions, " ")
}

// Each wrong member is refused with its name, and nothing is written or fetched. Rules PROD-2, PROD-3, PROD-4,
// PROD-5 and PROD-6.
func TestAProductIsRefusedForEachWrongMember(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	price := func(text string) func(*checkout.Draft) { return func(d *checkout.Draft) { d.Price = &text } }
	name := func(text string) func(*checkout.Draft) { return func(d *checkout.Draft) { d.Name = text } }
	link := func(text string) func(*checkout.Draft) { return func(d *checkout.Draft) { d.SuccessURL = &text } }
	accepts := func(ids ...int) func(*checkout.Draft) { return func(d *checkout.Draft) { d.AcceptedMintIDs = ids } }
	currency := func(symbol, amount string, ids ...int) func(*checkout.Draft) {
		return func(d *checkout.Draft) { d.Currency, d.Price, d.AcceptedMintIDs = symbol, &amount, ids }
	}
	many := map[string]string{}
	for i := range 21 {
		many[fmt.Sprint(i)] = "x"
	}
	for _, c := range []struct {
		name, param string
		code        fault.Code
		change      func(*checkout.Draft)
	}{
		{"price 0", "price", fault.InvalidAmount, price("0")},
		{"price 0.00", "price", fault.InvalidAmount, price("0.00")},
		{"a negative price", "price", fault.InvalidAmount, price("-5")},
		{"a signed price", "price", fault.InvalidAmount, price("+5")},
		{"an exponent", "price", fault.InvalidAmount, price("1e3")},
		{"a comma", "price", fault.InvalidAmount, price("1,000.5")},
		{"a leading zero", "price", fault.InvalidAmount, price("07")},
		{"a bare point", "price", fault.InvalidAmount, price("5.")},
		{"Arabic digits", "price", fault.InvalidAmount, price("٥")},
		{"no text", "price", fault.InvalidAmount, price("")},
		{"19 digits", "price", fault.InvalidAmount, price("1234567890123456.789")},
		{"19 whole digits", "price", fault.InvalidAmount, price("1234567890123456789")},
		{"a tenth of a cent", "price", fault.InvalidAmount, price("1.001")},
		{"zeros below a cent", "price", fault.InvalidAmount, price("1.000")},
		{"more decimals than the coarsest mint", "price", fault.InvalidAmount, currency("USDC", "1.001", usdc, coarse)},
		{"FIXED without a price", "price", fault.InvalidRequest, func(d *checkout.Draft) { d.Price = nil }},
		{"FIXED with a bound", "minPrice", fault.InvalidRequest, func(d *checkout.Draft) { d.MinPrice = new("1") }},
		{"OPEN without bounds", "minPrice", fault.InvalidRequest, func(d *checkout.Draft) {
			d.PriceType, d.Price = checkout.OpenPrice, nil
		}},
		{"OPEN without an upper bound", "maxPrice", fault.InvalidRequest, func(d *checkout.Draft) {
			d.PriceType, d.Price, d.MinPrice = checkout.OpenPrice, nil, new("1")
		}},
		{"OPEN with a price", "price", fault.InvalidRequest, func(d *checkout.Draft) {
			d.PriceType, d.MinPrice, d.MaxPrice = checkout.OpenPrice, new("1"), new("2")
		}},
		{"bounds the wrong way round", "maxPrice", fault.InvalidRequest, openPrice("2", "1.99")},
		{"a lower bound of 0", "minPrice", fault.InvalidAmount, openPrice("0", "1")},
		{"another price type", "priceType", fault.InvalidRequest, func(d *checkout.Draft) { d.PriceType = "fixed" }},
		{"an unknown currency", "currency", fault.InvalidRequest, currency("EUR", "1", usdc)},
		{"the currency of a mint that is not accepted", "currency", fault.InvalidRequest, currency("ETH", "1", usdc)},
		{"no mint", "acceptedMintIds", fault.InvalidRequest, accepts()},
		{"a mint twice", "acceptedMintIds", fault.InvalidRequest, accepts(usdc, eth, usdc)},
		{"an unknown mint", "acceptedMintIds", fault.MintNotFound, accepts(usdc, 99)},
		{"a mint without deposits", "acceptedMintIds", fault.InvalidRequest, accepts(shut)},
		{"settlement in another mint", "settlementMintId", fault.InvalidRequest, func(d *checkout.Draft) {
			d.SettlementMintID = new(coarse)
		}},
		{"quantity 0", "maxQuantity", fault.InvalidRequest, func(d *checkout.Draft) { d.MaxQuantity = 0 }},
		{"quantity 1001", "maxQuantity", fault.InvalidRequest, func(d *checkout.Draft) { d.MaxQuantity = 1001 }},
		{"a negative tolerance", "underpaymentToleranceBps", fault.InvalidRequest, func(d *checkout.Draft) {
			d.UnderpaymentToleranceBps = -1
		}},
		{"a tolerance of 1001", "underpaymentToleranceBps", fault.InvalidRequest, func(d *checkout.Draft) {
			d.UnderpaymentToleranceBps = 1001
		}},
		{"another policy", "overpaymentPolicy", fault.InvalidRequest, func(d *checkout.Draft) {
			d.OverpaymentPolicy = "KEEP"
		}},
		{"another late policy", "latePaymentPolicy", fault.InvalidRequest, func(d *checkout.Draft) {
			d.LatePaymentPolicy = ""
		}},
		{"no name", "name", fault.InvalidRequest, name("")},
		{"a blank name", "name", fault.InvalidRequest, name(" x")},
		{"201 characters", "name", fault.InvalidRequest, name(strings.Repeat("ü", 201))},
		{"a bidirectional override", "name", fault.InvalidRequest, name("Gold\u202eexe.pdf")},
		{"a hidden character", "name", fault.InvalidRequest, name("Go\u200bld")},
		{"a NUL", "name", fault.InvalidRequest, name("Gold\x00")},
		{"a line break", "name", fault.InvalidRequest, name("Gold\nplan")},
		{"invalid UTF-8", "name", fault.InvalidRequest, name("Gold\xff")},
		{"10,000 combining marks", "name", fault.InvalidRequest, name("G" + strings.Repeat("\u0301", 10_000))},
		{"nine combining marks", "name", fault.InvalidRequest, name("G" + strings.Repeat("\u0301", 9))},
		{"a long description", "description", fault.InvalidRequest, func(d *checkout.Draft) {
			d.Description = new(strings.Repeat("x", 2001))
		}},
		{"a description with a NUL", "description", fault.InvalidRequest, func(d *checkout.Draft) {
			d.Description = new("a\x00")
		}},
		{"21 keys", "metadata", fault.InvalidRequest, func(d *checkout.Draft) { d.Metadata = many }},
		{"a key of 41", "metadata", fault.InvalidRequest, func(d *checkout.Draft) {
			d.Metadata = map[string]string{strings.Repeat("k", 41): "v"}
		}},
		{"a value of 501", "metadata", fault.InvalidRequest, func(d *checkout.Draft) {
			d.Metadata = map[string]string{"k": strings.Repeat("v", 501)}
		}},
		{"script", "successUrl", fault.InvalidRequest, link("javascript:alert(1)")},
		{"data", "successUrl", fault.InvalidRequest, link("data:text/html,x")},
		{"http", "successUrl", fault.InvalidRequest, link("http://shop.example.com/ok")},
		{"user info", "successUrl", fault.InvalidRequest, link("https://shop.example.com@evil.example/ok")},
		{"a password", "successUrl", fault.InvalidRequest, link("https://a:b@shop.example.com/ok")},
		{"CRLF", "successUrl", fault.InvalidRequest, link("https://shop.example.com/ok\r\nSet-Cookie: a=b")},
		{"a tab", "successUrl", fault.InvalidRequest, link("https://shop.example.com/\tok")},
		{"a backslash", "successUrl", fault.InvalidRequest, link(`https://shop.example.com\@evil.example`)},
		{"a quotation mark", "successUrl", fault.InvalidRequest, link(`https://shop.example.com/"><script>`)},
		{"another script", "successUrl", fault.InvalidRequest, link("https://shоp.example.com/")}, // a Cyrillic o
		{"no host", "successUrl", fault.InvalidRequest, link("https:///ok")},
		{"no scheme", "successUrl", fault.InvalidRequest, link("//shop.example.com/ok")},
		{"an opaque URL", "successUrl", fault.InvalidRequest, link("https:shop.example.com")},
		{"port 0", "successUrl", fault.InvalidRequest, link("https://shop.example.com:0/")},
		{"4 KB", "successUrl", fault.InvalidRequest, link("https://shop.example.com/" + strings.Repeat("a", 4096))},
		{"a wrong cancelUrl", "cancelUrl", fault.InvalidRequest, func(d *checkout.Draft) {
			d.CancelURL = new("ftp://x")
		}},
		{"a wrong imageUrl", "imageUrl", fault.InvalidRequest, func(d *checkout.Draft) {
			d.ImageURL = new("file:///etc/passwd")
		}},
	} {
		_, _, err := e.create(validDraft(c.change), nil)
		if f := fault.Find(err); f == nil || f.Code != c.code || f.Param != c.param ||
			f.Effect != fault.NothingWritten {
			t.Errorf("%s: got %v, want %s on %s", c.name, err, c.code, c.param)
		}
	}
	if n := e.countRows(`SELECT count(*) FROM products`); n != 0 || e.images.count() != 0 {
		t.Errorf("got %d products and %d fetched images, want none", n, e.images.count())
	}
}

// What is at the bounds is taken as it is, and read as it was written.
func TestAProductAtTheBoundsIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	full := map[string]string{}
	for i := range 20 {
		full[strings.Repeat("ü", 38)+fmt.Sprintf("%02d", i)] = strings.Repeat("é", 500)
	}
	d := validDraft(func(d *checkout.Draft) {
		d.Name = strings.Repeat("ü", 199) + "<"
		d.Description = new("<b>1 month</b>\nand \"more\" 👩‍👩‍👧 é\u0301")
		d.Price, d.Currency = new("0.00000000000000001"), "ETH"
		d.SettlementMintID, d.MaxQuantity, d.UnderpaymentToleranceBps = new(eth), 1000, 1000
		d.OverpaymentPolicy, d.LatePaymentPolicy = checkout.RefundLinkSurplus, checkout.HoldLate
		d.SuccessURL = new("https://shop.example.com/" + strings.Repeat("a", 2048-25))
		d.CancelURL, d.OnePerReference, d.Metadata = new("https://xn--shp-0na.example:8443/#/cart?a=%0A"), true, full
	})
	p := e.mustCreate(d)
	got, err := e.service.ByID(t.Context(), e.one, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != d.Name || *got.Description != *d.Description || got.Price.Text() != *d.Price ||
		*got.SettlementMintID != eth || got.MaxQuantity != 1000 || *got.SuccessURL != *d.SuccessURL ||
		*got.CancelURL != *d.CancelURL || !got.OnePerReference || len(got.Metadata) != 20 || got.Version != 1 ||
		got.Status != checkout.Active || got.ArchivedAt != nil ||
		!slices.Equal(got.AcceptedMintIDs, []int{usdc, eth}) ||
		got.OverpaymentPolicy != checkout.RefundLinkSurplus || got.LatePaymentPolicy != checkout.HoldLate {
		t.Errorf("got %+v, want it as it was written", got)
	}
	open := e.mustCreate(validDraft(openPrice("5", "5.00")))
	if open.MinPrice.Show(open.Currency) != "5.00" || open.MaxPrice.Show(open.Currency) != "5.00" || open.Price != nil {
		t.Errorf("got %+v, want both bounds in dollars with cents", open)
	}
	if got := e.mustCreate(validDraft(func(d *checkout.Draft) { d.Price = new("1234567890123456.78") })); got.Price.
		Show("USD") != "1234567890123456.78" {
		t.Errorf("got %s, want all 18 digits", got.Price.Show("USD"))
	}
}

// One key makes one product, and a replay is the product as it is now, also after it was archived. Rule PROD-1.
func TestAKeyMakesOneProduct(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	key := new("product-gold")
	first, isReplayed, err := e.create(validDraft(), key)
	if err != nil || isReplayed || first.IdempotencyKey != *key {
		t.Fatalf("got %+v %v %v, want a new product", first, isReplayed, err)
	}
	same := validDraft(func(d *checkout.Draft) { d.Metadata = map[string]string{"a": "b"} })
	if _, err := e.service.Archive(t.Context(), e.one, first.ID, audit.APIKey(e.one)); err != nil {
		t.Fatal(err)
	}
	again, isReplayed, err := e.create(same, key)
	if err != nil || !isReplayed || again.ID != first.ID || again.Status != checkout.Archived ||
		again.Differs(checkout.Request{Draft: same}) || len(again.Metadata) != 0 {
		t.Errorf("got %+v %v %v, want the archived product", again, isReplayed, err)
	}
	for name, change := range map[string]func(*checkout.Draft){
		"name":            func(d *checkout.Draft) { d.Name = "Silver" },
		"description":     func(d *checkout.Draft) { d.Description = new("x") },
		"imageUrl":        func(d *checkout.Draft) { d.ImageURL = new("https://a.example/x") },
		"price":           func(d *checkout.Draft) { d.Price = new("50") },
		"bounds":          openPrice("1", "2"),
		"currency":        func(d *checkout.Draft) { d.Currency = "USDC" },
		"mints":           func(d *checkout.Draft) { d.AcceptedMintIDs = []int{eth, usdc} },
		"settlement":      func(d *checkout.Draft) { d.SettlementMintID = new(usdc) },
		"quantity":        func(d *checkout.Draft) { d.MaxQuantity = 2 },
		"tolerance":       func(d *checkout.Draft) { d.UnderpaymentToleranceBps = 0 },
		"surplus":         func(d *checkout.Draft) { d.OverpaymentPolicy = checkout.RefundLinkSurplus },
		"late":            func(d *checkout.Draft) { d.LatePaymentPolicy = checkout.HoldLate },
		"successUrl":      func(d *checkout.Draft) { d.SuccessURL = new("https://a.example/x") },
		"cancelUrl":       func(d *checkout.Draft) { d.CancelURL = new("https://a.example/x") },
		"onePerReference": func(d *checkout.Draft) { d.OnePerReference = true },
	} {
		if !first.Differs(checkout.Request{Draft: validDraft(change)}) {
			t.Errorf("%s: got the same parameters, want others", name)
		}
	}
	if first.Differs(checkout.Request{Draft: validDraft(func(d *checkout.Draft) { d.Price = new("49.990") })}) {
		t.Error("49.99 and 49.990: got other parameters, want the same")
	}
	// The key of another organization is another key.
	other, isReplayed, err := e.service.Create(t.Context(), e.two, checkout.Request{
		Draft: validDraft(), IdempotencyKey: key, Actor: audit.APIKey(e.two),
	})
	if err != nil || isReplayed || other.ID == first.ID {
		t.Errorf("got %+v %v %v, want a product of its own", other, isReplayed, err)
	}
	for _, bad := range []string{"", "a b", "ü", strings.Repeat("k", 256)} {
		_, _, err := e.create(validDraft(), &bad)
		if f := fault.Find(err); f == nil || f.Param != "idempotencyKey" {
			t.Errorf("%.20q: got %v, want it refused", bad, err)
		}
	}
	if got := e.listActions(first.ID); got != "product.created product.archived" {
		t.Errorf("got the rows %q, want one for each change", got)
	}
}

// Concurrent requests with one key make one product. Rule PROD-1.
func TestConcurrentRequestsWithOneKeyMakeOneProduct(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	var group sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		group.Go(func() {
			d := validDraft(func(d *checkout.Draft) { d.ImageURL = new("https://a.example/x") })
			p, _, err := e.create(d, new("k"))
			if err != nil {
				t.Error(err)
			}
			ids[i] = p.ID
		})
	}
	group.Wait()
	if slices.Sort(ids); ids[0] == "" || ids[0] != ids[len(ids)-1] {
		t.Errorf("got the products %v, want one", ids)
	}
	if n := e.countRows(`SELECT count(*) FROM audit_log WHERE action = 'product.created'`); n != 1 {
		t.Errorf("got %d rows in the audit log, want one", n)
	}
}

// A change replaces what it names, and the result is checked as a whole. Rule PROD-9.
func TestAChangeReplacesWhatItNamesAndIsCheckedAsAWhole(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	removed := checkout.Nullable[string]{IsNamed: true}
	to := func(text string) checkout.Nullable[string] {
		return checkout.Nullable[string]{IsNamed: true, Value: &text}
	}
	p := e.mustCreate(validDraft(func(d *checkout.Draft) {
		d.Description, d.SettlementMintID, d.SuccessURL = new("1 month"), new(usdc), new("https://a.example/ok")
		d.CancelURL, d.ImageURL = new("https://a.example/no"), new("https://a.example/gold.png")
		d.Metadata = map[string]string{"a": "b"}
	}))
	if e.images.count() != 1 || p.ImageID == "" {
		t.Fatalf("got %d fetched images and %q, want one", e.images.count(), p.ImageID)
	}
	for _, c := range []struct {
		name   string
		change checkout.Change
		param  string
	}{
		{"bounds of a FIXED product", checkout.Change{MinPrice: to("1"), MaxPrice: to("2")}, "minPrice"},
		{
			"OPEN with the old price",
			checkout.Change{PriceType: new("OPEN"), MinPrice: to("1"), MaxPrice: to("2")},
			"price",
		},
		{"no price", checkout.Change{Price: removed}, "price"},
		{"without the settlement mint", checkout.Change{AcceptedMintIDs: &[]int{eth}}, "settlementMintId"},
		{"a currency that is not accepted", checkout.Change{Currency: new("OLD")}, "currency"},
		{"no name", checkout.Change{Name: new("")}, "name"},
		{"a mint that takes no deposits", checkout.Change{AcceptedMintIDs: &[]int{usdc, shut}}, "acceptedMintIds"},
	} {
		if _, err := e.patch(p.ID, c.change); fault.Find(err) == nil || fault.Find(err).Param != c.param {
			t.Errorf("%s: got %v, want it refused on %s", c.name, err, c.param)
		}
	}
	got, err := e.patch(p.ID, checkout.Change{
		PriceType: new("OPEN"), Price: removed, MinPrice: to("1"), MaxPrice: to("2.5"), Description: removed,
		SettlementMintID: checkout.Nullable[int]{IsNamed: true}, SuccessURL: removed,
		CancelURL: to("https://b.example/"),
		Metadata:  &map[string]string{}, OnePerReference: new(true), MaxQuantity: new(7),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Price != nil || got.MinPrice.Text() != "1" || got.MaxPrice.Text() != "2.5" || got.Description != nil ||
		got.SettlementMintID != nil || got.SuccessURL != nil || *got.CancelURL != "https://b.example/" ||
		len(got.Metadata) != 0 || !got.OnePerReference || got.MaxQuantity != 7 || got.Name != p.Name ||
		got.ImageID != p.ImageID || got.Version != 2 {
		t.Errorf("got %+v, want what was named replaced and the rest as it was", got)
	}
	if e.images.count() != 1 {
		t.Errorf("got %d fetched images, want no change to fetch that names none", e.images.count())
	}
	// The same again changes nothing.
	if again, err := e.patch(p.ID, checkout.Change{MaxQuantity: new(7)}); err != nil || again.Version != 2 {
		t.Errorf("got %+v %v, want no change", again, err)
	}
	// Dollars have cents: a change of the currency checks the price that stays.
	fine := e.mustCreate(validDraft(func(d *checkout.Draft) { d.Currency, d.Price = "USDC", new("1.234567") }))
	if _, err := e.patch(fine.ID, checkout.Change{Currency: new("USD")}); fault.Find(err) == nil ||
		fault.Find(err).Param != "price" {
		t.Errorf("got %v, want the price refused", err)
	}
	// An archived product is changed like an active one, and a mint that closed since stays accepted.
	if _, err := e.service.Archive(t.Context(), e.one, p.ID, audit.APIKey(e.one)); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.OwnerPool(t, e.db).Exec(
		t.Context(), `UPDATE mints SET deposit_enabled = false WHERE mint_id = $1`, usdc,
	); err != nil {
		t.Fatal(err)
	}
	got, err = e.patch(p.ID, checkout.Change{Name: new("Silver"), ImageURL: removed})
	if err != nil || got.Status != checkout.Archived || got.Name != "Silver" || got.ImageID != "" ||
		got.ImageURL != nil {
		t.Errorf("got %+v %v, want the archived product changed and without an image", got, err)
	}
	if want := "product.created product.changed product.archived product.changed"; e.listActions(p.ID) != want {
		t.Errorf("got the rows %q, want %q", e.listActions(p.ID), want)
	}
}

// Concurrent changes of several members are all kept, and a change of an older version is refused. Rule PROD-9.
func TestNoChangeOverwritesAnother(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	p := e.mustCreate(validDraft())
	changes := []checkout.Change{
		{Name: new("Silver")},
		{MaxQuantity: new(9)},
		{UnderpaymentToleranceBps: new(1)},
		{Description: checkout.Nullable[string]{IsNamed: true, Value: new("x")}},
		{OnePerReference: new(true)},
		{OverpaymentPolicy: new(checkout.RefundLinkSurplus)},
		{LatePaymentPolicy: new(checkout.HoldLate)},
		{Metadata: &map[string]string{"a": "b"}},
	}
	var group sync.WaitGroup
	for _, ch := range changes {
		group.Go(func() {
			if _, err := e.patch(p.ID, ch); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := e.service.ByID(t.Context(), e.one, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "Silver" || got.MaxQuantity != 9 || got.UnderpaymentToleranceBps != 1 || got.Description == nil ||
		!got.OnePerReference || got.OverpaymentPolicy != checkout.RefundLinkSurplus ||
		got.LatePaymentPolicy != checkout.HoldLate || got.Metadata["a"] != "b" || got.Version != int64(1+len(changes)) {
		t.Errorf("got %+v, want every change", got)
	}
	seen := int64(1)
	_, err = e.patch(p.ID, checkout.Change{Name: new("Bronze"), SeenVersion: &seen})
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("an old version: got %v, want %s", err, fault.InvalidState)
	}
	if _, err := e.patch(p.ID, checkout.Change{Name: new("Bronze"), SeenVersion: &got.Version}); err != nil {
		t.Errorf("the present version: got %v, want it changed", err)
	}
}

// Archive and reactivate are repeated without effect. Rule PROD-8.
func TestARepeatedArchiveIsTheSameObject(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	p := e.mustCreate(validDraft())
	act := func(do func(context.Context, string, string, audit.Actor) (checkout.Product, error)) checkout.Product {
		t.Helper()
		got, err := do(t.Context(), e.one, p.ID, audit.APIKey(e.one))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, again := act(e.service.Archive), act(e.service.Archive)
	if first.Status != checkout.Archived || first.ArchivedAt == nil || again.Version != first.Version ||
		!again.ArchivedAt.Equal(*first.ArchivedAt) || !again.UpdatedAt.Equal(first.UpdatedAt) {
		t.Errorf("got %+v and %+v, want the same archived product", first, again)
	}
	first, again = act(e.service.Unarchive), act(e.service.Unarchive)
	if first.Status != checkout.Active || first.ArchivedAt != nil || again.Version != first.Version {
		t.Errorf("got %+v and %+v, want the same active product", first, again)
	}
	if want := "product.created product.archived product.unarchived"; e.listActions(p.ID) != want {
		t.Errorf("got the rows %q, want %q", e.listActions(p.ID), want)
	}
}

// Another organization's product, an absent one and a text that is no id are alike. Rule PROD-10.
func TestAProductOfAnotherOrganizationIsNotFound(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	p := e.mustCreate(validDraft(func(d *checkout.Draft) { d.ImageURL = new("https://a.example/gold.png") }))
	by := audit.APIKey(e.two)
	fetched := e.images.count()
	for _, productID := range []string{p.ID, id.New("prod", time.Now()), "prod_x", "", "' OR 1=1--"} {
		for name, act := range map[string]func() error{
			"read": func() error { _, err := e.service.ByID(t.Context(), e.two, productID); return err },
			"change": func() error {
				_, err := e.service.Patch(t.Context(), e.two, productID, by, checkout.Change{
					ImageURL: checkout.Nullable[string]{IsNamed: true, Value: new("https://a.example/x.png")},
				})
				return err
			},
			"archive":   func() error { _, err := e.service.Archive(t.Context(), e.two, productID, by); return err },
			"unarchive": func() error { _, err := e.service.Unarchive(t.Context(), e.two, productID, by); return err },
			"image":     func() error { _, err := e.service.ImageOf(t.Context(), e.two, productID); return err },
		} {
			if err := act(); !fault.HasCode(err, fault.CodeNotFound) {
				t.Errorf("%s %q: got %v, want %s", name, productID, err, fault.CodeNotFound)
			}
		}
	}
	found, err := e.service.List(t.Context(), e.two, checkout.Filter{}, pagination.Page{})
	if err != nil || len(found.Items) != 0 {
		t.Errorf("got %+v %v, want an empty list", found, err)
	}
	if got, err := e.service.ByID(t.Context(), e.one, p.ID); err != nil || got.Version != 1 {
		t.Errorf("got %+v %v, want it as it was", got, err)
	}
	if e.images.count() != fetched {
		t.Error("a change of an absent product fetched an image")
	}
	if found, err := e.service.ImageOf(t.Context(), e.one, p.ID); err != nil || found.MediaType != "image/png" {
		t.Errorf("got %+v %v, want the image", found, err)
	}
}

// Lists have the order of creation, their filters and all rows across pages.
func TestProductsAreListedByStatus(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	var want []string
	for i := range 5 {
		p := e.mustCreate(validDraft(func(d *checkout.Draft) { d.Name = fmt.Sprint("Plan ", i) }))
		want = append(want, p.ID)
	}
	for _, productID := range want[:2] {
		if _, err := e.service.Archive(t.Context(), e.one, productID, audit.APIKey(e.one)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		status string
		want   []string
	}{{"", want}, {"ARCHIVED", want[:2]}, {"ACTIVE", want[2:]}} {
		f, page := checkout.Filter{Status: c.status}, pagination.Page{Limit: 2}
		var got, all []string
		for {
			found, err := e.service.List(t.Context(), e.one, f, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range found.Items {
				got = append(got, p.ID)
			}
			if found.NextCursor == nil {
				break
			}
			page.Cursor = found.NextCursor
		}
		err := e.service.ForEach(t.Context(), e.one, f, false, func(p checkout.Product) error {
			all = append(all, p.ID)
			return nil
		})
		if err != nil || !slices.Equal(got, c.want) || !slices.Equal(all, c.want) {
			t.Errorf("%q: got %v and %v %v, want %v", c.status, got, all, err, c.want)
		}
	}
}

// Every refusal of an image says what is wrong with it, and nothing is written. Rule PROD-7.
func TestAnImageIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, image.NewGray(image.Rect(0, 0, 3, 2)), nil); err != nil {
		t.Fatal(err)
	}
	// A header that announces 60,000 times 60,000 points: 3.6 billion of them would have to be decoded.
	bomb := slices.Clone(drawPNG(t, 2, 2))
	copy(bomb[16:24], []byte{0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60})
	fixChecksum(bomb)
	for _, c := range []struct {
		name    string
		content []byte
		err     error
		words   string
	}{
		{"an internal address", nil, fmt.Errorf("dial: %w", outbound.ErrForbidden), "not public"},
		{"a redirect", nil, &outbound.StatusError{Status: 302}, "redirect"},
		{"an absent one", nil, &outbound.StatusError{Status: 404}, "404"},
		{"too many bytes", make([]byte, 2<<20+1), nil, "2097152 bytes"},
		{"an unreachable host", nil, errors.New("no route to 10.0.0.7"), "could not be reached"},
		{"SVG", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), nil, "no PNG, JPEG"},
		{"HTML", []byte("<!doctype html>"), nil, "no PNG, JPEG"},
		{"GIF", []byte("GIF89a\x01\x00\x01\x00"), nil, "no PNG, JPEG"},
		{"nothing", nil, nil, "no PNG, JPEG"},
		{"a bomb", bomb, nil, "60000 times 60000"},
		{"one point too wide", drawPNG(t, 4097, 1), nil, "4097 times 1"},
		{"one point too high", drawPNG(t, 1, 4097), nil, "1 times 4097"},
		{"the head of a PNG", drawPNG(t, 20, 20)[:40], nil, "cannot be read"},
		{"the head of a JPEG", photo.Bytes()[:photo.Len()/2], nil, "cannot be read"},
		{"the head of a WebP", []byte("RIFF\x00\x00\x00\x00WEBPVP8 "), nil, "cannot be read"},
	} {
		e.images.content, e.images.err = c.content, c.err
		_, _, err := e.create(validDraft(func(d *checkout.Draft) { d.ImageURL = new("https://a.example/x") }), nil)
		f := fault.Find(err)
		if f == nil || f.Code != fault.InvalidRequest || f.Param != "imageUrl" ||
			!strings.Contains(f.Reason, c.words) || strings.Contains(f.Reason, "10.0.0.7") {
			t.Errorf("%s: got %v, want it refused on imageUrl with %q", c.name, err, c.words)
		}
	}
	if n := e.countRows(`SELECT (SELECT count(*) FROM products) + (SELECT count(*) FROM product_images)`); n != 0 {
		t.Errorf("got %d rows, want none", n)
	}
}

// An image is stored as this service encoded it, without what stood beside its points, and once. Rule PROD-7.
func TestAnImageIsStoredAsItWasEncodedHere(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	photo := image.NewRGBA(image.Rect(0, 0, 4096, 1))
	for x := range 4096 {
		photo.Set(x, 0, color.RGBA{uint8(x), 10, 20, 255})
	}
	var encoded bytes.Buffer
	if err := jpeg.Encode(&encoded, photo, nil); err != nil {
		t.Fatal(err)
	}
	const secret = "GPS 48.1, 11.5"
	comment := append([]byte{0xff, 0xfe, 0, byte(len(secret) + 2)}, secret...)
	withComment := slices.Concat(encoded.Bytes()[:2], comment, encoded.Bytes()[2:], []byte("<script>"))
	for name, c := range map[string]struct {
		content []byte
		kind    string
		width   int
	}{
		"JPEG": {withComment, "image/jpeg", 4096},
		"PNG":  {append(drawPNG(t, 3, 2), "<script>"...), "image/png", 3},
		"WebP": {webpOfOnePoint, "image/png", 1},
	} {
		e.images.content, e.images.err = c.content, nil
		var made []checkout.Product
		for range 2 {
			made = append(made, e.mustCreate(validDraft(func(d *checkout.Draft) {
				d.ImageURL = new("https://a.example/" + name)
			})))
		}
		found, err := e.service.ImageOf(t.Context(), e.one, made[0].ID)
		if err != nil || found.MediaType != c.kind || found.Width != c.width {
			t.Errorf("%s: got %s %d times %d %v, want %s", name, found.MediaType, found.Width, found.Height, err,
				c.kind)
		}
		if bytes.Contains(found.Content, []byte(secret)) || bytes.Contains(found.Content, []byte("<script>")) {
			t.Errorf("%s: what stood beside the points is still there", name)
		}
		if _, _, err := image.Decode(bytes.NewReader(found.Content)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if made[0].ImageID != made[1].ImageID {
			t.Errorf("%s: got two images of the same content, want one", name)
		}
	}
	if n := e.countRows(`SELECT count(*) FROM product_images`); n != 3 {
		t.Errorf("got %d images, want one for each content", n)
	}
}
