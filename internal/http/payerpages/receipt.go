package payerpages

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// receiptPage shows a receipt for reading and for printing.
type receiptPage struct {
	*checkoutPage
	Receipt webhook.Receipt
}

// frame returns the document of the page, which never changes.
func (p receiptPage) frame() frame {
	return frame{
		Language: p.language, Accent: p.accentColor(), IsLocal: p.IsLocal, Title: p.text("receipt.heading"),
		EmbedOrigins:  p.EmbedOrigins,
		LanguageLinks: languageLinks(p.request, "/receipt", nil),
	}
}

// filePath is where the signed file is.
func (p receiptPage) filePath() string { return prefix + p.CheckoutID + "/receipt.json" }

// nameAmount writes what was paid, in whole coins.
func (p receiptPage) nameAmount(payment webhook.ReceiptPayment) string {
	paid, err := money.Parse(payment.Amount)
	if err != nil {
		return payment.Amount
	}
	return paid.Decimal(payment.Decimals) + "\u00a0" + payment.Symbol
}

// worth writes what a payment counts, as people of the currency do.
func (p receiptPage) worth(payment webhook.ReceiptPayment) string {
	counted, err := pricing.Read(payment.Counted)
	if err != nil {
		return p.money(payment.Counted)
	}
	return p.money(counted.Show(p.Currency))
}

// priceText says by which price a payment counts; "" where no price was needed.
func (p receiptPage) priceText(payment webhook.ReceiptPayment) string {
	if payment.Price == nil || payment.PriceSource == nil {
		return ""
	}
	return p.text("receipt.price", "symbol", payment.Symbol, "price", *payment.Price, "currency", "USD", "source",
		*payment.PriceSource)
}

func (p receiptPage) block(payment webhook.ReceiptPayment) string {
	return p.text("receipt.block", "height", strconv.FormatUint(payment.BlockHeight, 10))
}

// readReceipt returns the receipt of a checkout. A checkout without one has no such page.
func (s *server) readReceipt(r *request) ([]byte, error) {
	file, err := s.conf.Checkouts.Receipt(r.Context(), r.checkoutID)
	if fault.HasCode(err, fault.InvalidState) {
		return nil, errNoPage
	}
	return file, err
}

func (s *server) showReceipt(r *request) error {
	file, err := s.readReceipt(r)
	if err != nil {
		return err
	}
	view, err := s.conf.Checkouts.View(r.Context(), r.checkoutID)
	if err != nil {
		return err
	}
	p := receiptPage{checkoutPage: newCheckoutPage(r, view, 0)}
	var signed struct {
		Receipt string `json:"receipt"`
	}
	if err := json.Unmarshal(file, &signed); err != nil {
		return fmt.Errorf("read a signed receipt: %w", err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(signed.Receipt)
	if err != nil {
		return fmt.Errorf("decode a signed receipt: %w", err)
	}
	if err := json.Unmarshal(payload, &p.Receipt); err != nil {
		return fmt.Errorf("read a receipt: %w", err)
	}
	s.write(r, http.StatusOK, p.frame(), receiptMain(p))
	return nil
}

// downloadReceipt serves the signed file byte for byte: another form of it would have another signature.
func (s *server) downloadReceipt(r *request) error {
	file, err := s.readReceipt(r)
	if err != nil {
		return err
	}
	h := r.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="receipt-`+r.checkoutID+`.json"`)
	h.Set("Content-Length", strconv.Itoa(len(file)))
	_, _ = r.w.Write(file) // The browser is gone.
	return nil
}
