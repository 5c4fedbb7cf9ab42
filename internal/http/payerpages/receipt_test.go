package payerpages

import (
	"crypto/ed25519"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/webhook"
)

// sampleReceipt returns a signed receipt and the key that verifies it.
func sampleReceipt(t *testing.T) (file []byte, publicKey string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := webhook.PrivateKey(private)
	at := webhook.At(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	file, err = webhook.SignReceipt(webhook.Receipt{
		Environment: webhook.Test, CheckoutID: checkoutID, OrganizationID: "org_1", Shop: "Ada's shop",
		Items:    webhook.List[webhook.ReceiptItem]{{Name: "Gold plan", Quantity: 1, UnitPrice: "49.99"}},
		Currency: "USD", AmountDue: "49.99", AmountPaid: "50.00",
		Payments: webhook.List[webhook.ReceiptPayment]{{
			DepositID: "dep_1", MintID: 4, Symbol: "ETH", Chain: "ETHEREUM", Amount: "20000000000000000", Decimals: 18,
			TxHash: evmHash, BlockHash: "0xb10c", BlockHeight: 1234, Price: new("2500"), CurrencyPrice: new("1"),
			PriceSource: new("median"), PricedAt: &at, Counted: "50", CreditedAt: at,
		}},
		CompletedAt: at, IssuedAt: at,
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return file, key.Public()
}

// Rules CO-19 and CO-73.
func TestACompletedCheckoutHasAReceiptThatAnyoneVerifies(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	file, publicKey := sampleReceipt(t)
	h.checkouts.receipt = file
	if got := h.get(prefix + checkoutID + "/receipt"); got.status != http.StatusNotFound {
		t.Errorf("of an open checkout: got %d, want 404", got.status)
	}
	if got := h.get(prefix + checkoutID); strings.Contains(got.body, "/receipt") {
		t.Error("the page of an open checkout leads to a receipt")
	}
	h.checkouts.change(func(v *View) {
		*v = paidView(Completed, newPayment(PaymentCredited, 0))
		v.HasReceipt = true
	})
	if got := h.get(prefix + checkoutID); !strings.Contains(got.body, checkoutID+"/receipt") {
		t.Error("the page of a completed checkout does not lead to its receipt")
	}
	page := h.get(prefix + checkoutID + "/receipt?lang=de")
	for _, want := range []string{
		"Quittung", "0.02\u00a0ETH", "50.00\u00a0USD", "Blocknummer 1234", "0xb10c", evmHash,
		"1 ETH = 2500 USD, laut median", checkoutID + "/receipt.json",
	} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the receipt lacks %q", want)
		}
	}
	download := h.get(prefix + checkoutID + "/receipt.json")
	disposition := download.header.Get("Content-Disposition")
	if want := `attachment; filename="receipt-` + checkoutID + `.json"`; disposition != want {
		t.Errorf("got %q, want %q", disposition, want)
	}
	verified, _, err := webhook.VerifyReceipt([]string{publicKey}, []byte(download.body))
	if err != nil || verified.CheckoutID != checkoutID || verified.AmountPaid != "50.00" {
		t.Errorf("got %+v, %v, want the receipt", verified, err)
	}
	if got := h.get(prefix + otherID + "/receipt.json"); got.status != http.StatusNotFound {
		t.Errorf("of an absent checkout: got %d, want 404", got.status)
	}
}

func TestAReceiptInABrowser(t *testing.T) {
	h := newTestEnv(t)
	h.checkouts.receipt, _ = sampleReceipt(t)
	h.checkouts.change(func(v *View) { *v = paidView(Completed, newPayment(PaymentCredited, 0)) })
	tab := browser.Open(t)
	for _, query := range []string{"/receipt", "/receipt?lang=ar"} {
		h.open(tab, query, phone)
		if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
			t.Errorf("%s: the page is wider than the screen", query)
		}
		problems := append(tab.ListAccessibilityProblems(), browser.Evaluate[[]string](tab, smallTargets)...)
		for _, problem := range problems {
			t.Errorf("%s: %s", query, problem)
		}
		h.wantQuiet(tab)
	}
}
