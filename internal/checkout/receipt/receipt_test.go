package receipt_test

import (
	"crypto/ed25519"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout/receipt"
	"github.com/cofferpay/coffer/webhook"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func newKey(t *testing.T) webhook.Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return webhook.PrivateKey(private)
}

func paid() receipt.Return {
	return receipt.Return{
		CheckoutID: "co_1", OrgID: "org_1", Environment: webhook.Live, Status: receipt.Completed, Currency: "USD",
		AmountDue: "49.99", AmountPaid: "50",
	}
}

// Rules CO-70 and CO-71.
func TestTheShopReadsWhatWasPaidOutOfTheAddress(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	signer := receipt.Signer{Keys: []webhook.Key{key}}
	for _, status := range []string{receipt.Processing, receipt.Completed} {
		c := paid()
		c.Status = status
		address, err := signer.ReturnURL("https://shop.example.com/thanks", c, now)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		if query.Get("checkoutId") != "co_1" || query.Get("status") != status || len(query) != 3 {
			t.Errorf("got %s, want the checkout, its status and a statement", address)
		}
		s, err := webhook.VerifyStatement([]string{key.Public()}, query.Get("statement"), now)
		want := webhook.Statement{
			Type: webhook.TypeReturn, Environment: webhook.Live, CheckoutID: "co_1", OrganizationID: "org_1",
			Status:   status,
			Currency: "USD", AmountDue: "49.99", AmountPaid: "50", IssuedAt: webhook.At(now),
			ExpiresAt: webhook.At(now.Add(15 * time.Minute)),
		}
		if err != nil || s != want {
			t.Errorf("got %+v, %v, want %+v", s, err, want)
		}
	}
}

// Rule CO-70.
func TestTheShopsOwnAddressStaysAsItIs(t *testing.T) {
	t.Parallel()
	const added = "checkoutId=co_1&status=COMPLETED"
	for before, want := range map[string]string{
		"":                                  "?" + added,
		"/":                                 "/?" + added,
		"/?":                                "/?" + added,
		"/a%2fb?x=1":                        "/a%2fb?x=1&" + added,
		"/?b=2&a=1&b=%7e+&flag":             "/?b=2&a=1&b=%7e+&flag&" + added,
		"/?x=1&":                            "/?x=1&" + added,
		"/#/done?x=1":                       "/?" + added + "#/done?x=1",
		"/?x=1#":                            "/?x=1&" + added + "#",
		"/?x=1#checkoutId=co_2":             "/?x=1&" + added + "#checkoutId=co_2",
		"/?checkoutId=co_2":                 "/?" + added,
		"/?checkoutId&x=1":                  "/?x=1&" + added,
		"/?%63heckoutId=co_2&x=1":           "/?x=1&" + added,
		"/?status=OPEN&x=a?b":               "/?x=a?b&" + added,
		"/?statement=abc.def":               "/?" + added,
		"/?%zz=1&CheckoutID=2":              "/?%zz=1&CheckoutID=2&" + added,
		"/?xcheckoutId=1&status2":           "/?xcheckoutId=1&status2&" + added,
		"/thanks?checkoutId=a&checkoutId=b": "/thanks?" + added,
	} {
		before, want = "https://shop.example.com"+before, "https://shop.example.com"+want
		// Without a private key there is no statement, so the whole text is known.
		if got, err := (receipt.Signer{}).ReturnURL(before, paid(), now); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", before, got, err, want)
		}
		signed, err := receipt.Signer{Keys: []webhook.Key{newKey(t)}}.ReturnURL(before, paid(), now)
		if err != nil {
			t.Fatal(err)
		}
		if beforeFragment, _, _ := strings.Cut(signed, "#"); strings.Count(beforeFragment, "&statement=") != 1 {
			t.Errorf("%s: got %s, want one statement", before, signed)
		}
	}
}

// Rule CO-70.
func TestNobodyReturnsToTheShopUnpaid(t *testing.T) {
	t.Parallel()
	signer := receipt.Signer{Keys: []webhook.Key{newKey(t)}}
	for _, status := range []string{"", "OPEN", "EXPIRED", "CANCELLED", "completed"} {
		c := paid()
		c.Status = status
		if got, err := signer.ReturnURL("https://shop.example.com/", c, now); err == nil {
			t.Errorf("%q: got %s, want an error", status, got)
		}
		if got, err := signer.Statement(c, now); err == nil {
			t.Errorf("%q: got %s, want an error", status, got)
		}
	}
}

// Rules CO-71 and CO-73.
func TestWhatAFormerKeySignedStaysValidWhileItIsListed(t *testing.T) {
	t.Parallel()
	former, present := newKey(t), newKey(t)
	before, after := receipt.Signer{Keys: []webhook.Key{former}}, receipt.Signer{Keys: []webhook.Key{present, former}}
	published := []string{present.Public(), former.Public()}
	for name, c := range map[string]struct {
		signer receipt.Signer
		by     webhook.Key
	}{"before": {before, former}, "after": {after, present}} {
		statement, err := c.signer.Statement(paid(), now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := webhook.VerifyStatement(published, statement, now); err != nil {
			t.Errorf("%s: got %v, want it verified", name, err)
		}
		file, err := c.signer.Receipt(webhook.Receipt{CheckoutID: "co_1", AmountDue: "0", AmountPaid: "0"})
		if err != nil {
			t.Fatal(err)
		}
		if _, by, err := webhook.VerifyReceipt(published, file); err != nil || by != c.by.Public() {
			t.Errorf("%s: got %s, %v, want it verified by %s", name, by, err, c.by)
		}
	}
	statement, err := before.Statement(paid(), now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := webhook.VerifyStatement(published[:1], statement, now); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("a former key that is not listed: got %v, want %v", err, webhook.ErrSignature)
	}
}

// Rule CO-72.
func TestAProcessWithoutAPrivateKeySignsNothing(t *testing.T) {
	t.Parallel()
	var signer receipt.Signer
	if got, err := signer.Statement(paid(), now); err == nil || signer.CanSign() {
		t.Errorf("got %s, want an error", got)
	}
	if got, err := signer.Receipt(webhook.Receipt{CheckoutID: "co_1", AmountDue: "0", AmountPaid: "0"}); err == nil {
		t.Errorf("got %s, want an error", got)
	}
}
