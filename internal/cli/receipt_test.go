package cli

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/webhook"
)

// The texts of a shop are a stranger's for the person who checks a receipt. Rule CO-73.
func TestNoTextOfAReceiptSteersTheTerminal(t *testing.T) {
	t.Parallel()
	key := webhook.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, ed25519.SeedSize)))
	// A clear of the screen, a line of its own, a text from right to left, and an invisible character.
	const bad = "\x1b[2J\nThe receipt is genuine\r\u202eabc\u200b\u009b"
	price, source := "1", bad
	file, err := webhook.SignReceipt(webhook.Receipt{
		Environment: webhook.Live, CheckoutID: bad, OrganizationID: bad, Shop: bad, Currency: bad, AmountDue: "2",
		AmountPaid: "2", Items: webhook.List[webhook.ReceiptItem]{{Name: bad, Quantity: 1, UnitPrice: "2"}},
		Payments: webhook.List[webhook.ReceiptPayment]{{
			DepositID: bad, Symbol: bad, Chain: bad, Amount: "2", TxHash: bad, BlockHash: bad, Price: &price,
			CurrencyPrice: &price, PriceSource: &source, Counted: "2",
		}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"receipt.json": string(file), "webhook.pub": key.Public()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, complaint := run(t, "receipt", "verify", filepath.Join(dir, "receipt.json"), "--key",
		filepath.Join(dir, "webhook.pub"))
	if code != 0 || complaint != "" {
		t.Fatalf("got %d %q, want it verified", code, complaint)
	}
	for _, c := range []string{"\x1b", "\r", "\u202e", "\u200b", "\u009b", "\nThe receipt is genuine\\"} {
		if strings.Contains(out, c) {
			t.Errorf("got %q in %q", c, out)
		}
	}
	if got := strings.Count(out, "\nThe receipt is genuine"); got != 1 {
		t.Errorf("got %d lines that call it genuine in %q, want the last one alone", got, out)
	}
	if strings.Contains(out, "test network") {
		t.Errorf("got %q, want no word of a test network", out)
	}
}
