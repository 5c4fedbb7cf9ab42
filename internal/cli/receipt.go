package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

type receiptCmd struct {
	Verify receiptVerify `cmd:"" help:"Check a receipt without a database or a call."`
}

type receiptVerify struct {
	File string `arg:"" type:"existingfile" help:"The file of the receipt, as a payer has it."`
	Key  string `required:"" type:"existingfile" help:"The file webhook.pub, or what /.well-known/webhook-keys answers."`
}

// Run prints what a genuine receipt says, and refuses every other file. Rule CO-73.
func (c receiptVerify) Run(std streams) error {
	keys, err := readPublicKeys(c.Key)
	if err != nil {
		return err
	}
	file, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("read the receipt: %w", err)
	}
	r, publicKey, err := webhook.VerifyReceipt(keys, file)
	if err != nil {
		return fmt.Errorf("%s is not to be believed: %s: %w", c.File, explainReceipt(err), err)
	}
	key, err := webhook.ParseKey(publicKey)
	if err != nil {
		return err
	}
	return writeReceipt(std.out, r, key)
}

// explainReceipt says in plain words what is wrong with a receipt.
func explainReceipt(err error) string {
	switch {
	case errors.Is(err, webhook.ErrSignature):
		return "none of the given keys has signed it as it is"
	case errors.Is(err, webhook.ErrType):
		return "it was signed, and is no receipt"
	case errors.Is(err, webhook.ErrSums):
		return "it was signed, and its amounts contradict each other"
	case errors.Is(err, webhook.ErrKey):
		return "it could not be checked"
	}
	return "it is no receipt, or an incomplete one"
}

var publicKeyForm = regexp.MustCompile(`whpk_[A-Za-z0-9+/]+=*`)

// readPublicKeys reads the public keys in a file: one for each line, or in JSON.
func readPublicKeys(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	keys := publicKeyForm.FindAllString(string(text), -1)
	if len(keys) == 0 {
		return nil, fmt.Errorf("--key: %s has no public key of webhooks (whpk_…)", path)
	}
	for _, key := range keys {
		if _, err := webhook.ParseKey(key); err != nil {
			return nil, fmt.Errorf("--key: %s: %w", path, err)
		}
	}
	return keys, nil
}

// writeReceipt prints a verified receipt. Texts of the shop are cleaned: a terminal obeys some
// characters.
func writeReceipt(out io.Writer, r webhook.Receipt, key webhook.Key) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	currency := cleanText(r.Currency)
	fmt.Fprintf(w, "shop\t%s (%s)\n", cleanText(r.Shop), cleanText(r.OrganizationID))
	fmt.Fprintf(w, "checkout\t%s\n", cleanText(r.CheckoutID))
	for _, item := range r.Items {
		fmt.Fprintf(w, "item\t%d x %s, %s %s each\n", item.Quantity, cleanText(item.Name), item.UnitPrice, currency)
	}
	fmt.Fprintf(w, "due\t%s %s\n", r.AmountDue, currency)
	fmt.Fprintf(w, "paid\t%s %s, completed at %s\n", r.AmountPaid, currency, r.CompletedAt)
	for i, p := range r.Payments {
		amount, err := money.Parse(p.Amount)
		if err != nil {
			return fmt.Errorf("amount of payment %d: %w", i+1, err)
		}
		fmt.Fprintf(w, "payment %d\t%s %s on %s, counted as %s %s\n", i+1, amount.Decimal(p.Decimals),
			cleanText(p.Symbol), cleanText(p.Chain), p.Counted, currency)
		fmt.Fprintf(w, "  transaction\t%s\n", cleanText(p.TxHash))
		fmt.Fprintf(w, "  block\t%d, %s\n", p.BlockHeight, cleanText(p.BlockHash))
		if p.Price != nil {
			fmt.Fprintf(w, "  price\t%s\n", priceText(p, currency))
		}
		fmt.Fprintf(w, "  credited\t%s, deposit %s\n", p.CreditedAt, cleanText(p.DepositID))
	}
	if r.EventSequence != 0 {
		fmt.Fprintf(w, "event\t%d of the organization\n", r.EventSequence)
	}
	fmt.Fprintf(w, "signed\tat %s with the key %s, %s\n", r.IssuedAt, key.ID(), key.Public())
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Environment != webhook.Live {
		fmt.Fprintln(out, "This receipt is of a test network: no money of a main network was paid.")
	}
	fmt.Fprintln(out, "The receipt is genuine: the signature is valid, and the amounts add up. A node of each "+
		"chain shows the transaction in its block.")
	return nil
}

func priceText(p webhook.ReceiptPayment, currency string) string {
	text := "USD " + cleanText(*p.Price) + " for a " + cleanText(p.Symbol)
	if p.CurrencyPrice != nil && currency != "USD" {
		text += ", USD " + cleanText(*p.CurrencyPrice) + " for a " + currency
	}
	if p.PriceSource != nil {
		text += ", " + cleanText(*p.PriceSource)
	}
	if p.PricedAt != nil {
		text += ", at " + p.PricedAt.String()
	}
	return text
}

// cleanText replaces what a terminal or a reader would not see as a character: control characters,
// and those that change the direction of the text.
func cleanText(text string) string {
	var clean strings.Builder
	for _, r := range text {
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) {
			clean.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		clean.WriteRune(r)
	}
	return clean.String()
}
