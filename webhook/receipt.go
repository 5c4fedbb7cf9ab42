package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Types of what an installation signs with its webhook key beside webhooks.
const (
	TypeReturn  = "RETURN"  // a Statement, which a payer's browser carries to the shop
	TypeReceipt = "RECEIPT" // a Receipt, which a payer keeps
)

// Errors of VerifyStatement and VerifyReceipt, beside ErrKey and ErrSignature. Each is wrapped in a
// sentence that says what was found.
var (
	ErrMalformed = errors.New("webhook: malformed statement or receipt")
	ErrType      = errors.New("webhook: signed as another type")
	ErrExpired   = errors.New("webhook: the statement has expired")
	ErrSums      = errors.New("webhook: the amounts of the receipt do not add up")
)

const (
	statementBytesMax = 8 << 10
	receiptBytesMax   = 1 << 20

	// receiptDomain begins what is signed. No message of a webhook begins with it, because the id
	// of a webhook stands in a header and so has no line break.
	receiptDomain = "coffer-receipt-1\n"

	keyIDBytes = 8

	decimalDigitsMax  = 78
	decimalFractMax   = 36
	receiptEntriesMax = 10_000
)

// Statement says what was paid of a checkout, at the moment when the payer's browser was sent back
// to the shop. It is short-lived: a receiver that needs the state at a later time asks the API.
type Statement struct {
	Type           string `json:"type"`        // RETURN
	Environment    string `json:"environment"` // LIVE or TEST
	CheckoutID     string `json:"checkoutId"`
	OrganizationID string `json:"organizationId"`
	Status         string `json:"status"`   // PROCESSING or COMPLETED
	Currency       string `json:"currency"` // of both amounts
	AmountDue      string `json:"amountDue"`
	AmountPaid     string `json:"amountPaid"`
	IssuedAt       Time   `json:"issuedAt"`
	ExpiresAt      Time   `json:"expiresAt"`
}

// Receipt says what was sold, what was paid for it, and in which transactions.
type Receipt struct {
	Type           string               `json:"type"`        // RECEIPT
	Environment    string               `json:"environment"` // LIVE or TEST
	CheckoutID     string               `json:"checkoutId"`
	OrganizationID string               `json:"organizationId"`
	Shop           string               `json:"shop"` // the name of the organization
	Items          List[ReceiptItem]    `json:"items"`
	Currency       string               `json:"currency"`   // of the prices, the amounts and what was counted
	AmountDue      string               `json:"amountDue"`  // the sum of the items
	AmountPaid     string               `json:"amountPaid"` // at most the sum of what was counted
	Payments       List[ReceiptPayment] `json:"payments"`
	CompletedAt    Time                 `json:"completedAt"`
	// EventSequence is the sequence of the event that told the completion; 0 if it had none yet.
	EventSequence int64 `json:"eventSequence,omitempty"`
	IssuedAt      Time  `json:"issuedAt"`
}

// ReceiptItem is a line of a receipt.
type ReceiptItem struct {
	Name      string `json:"name"`
	Quantity  int64  `json:"quantity"`
	UnitPrice string `json:"unitPrice"`
}

// ReceiptPayment is a credited payment.
type ReceiptPayment struct {
	DepositID   string `json:"depositId"`
	MintID      int    `json:"mintId"`
	Symbol      string `json:"symbol"`
	Chain       string `json:"chain"`
	Amount      string `json:"amount"` // in atomic units
	Decimals    int    `json:"decimals"`
	TxHash      string `json:"txHash"`
	BlockHash   string `json:"blockHash"`
	BlockHeight uint64 `json:"blockHeight"`
	// Price and CurrencyPrice are dollars for a whole coin and for one unit of the currency. All
	// four members of the price are null where the coin is the currency.
	Price         *string `json:"price"`
	CurrencyPrice *string `json:"currencyPrice"`
	PriceSource   *string `json:"priceSource"`
	PricedAt      *Time   `json:"pricedAt"`
	// Counted is what the payment was worth in the currency.
	Counted    string `json:"counted"`
	CreditedAt Time   `json:"creditedAt"`
}

// signedFile is the form of a receipt's file. The payload is carried as its bytes, because a payload
// that was parsed and printed again has another signature.
type signedFile struct {
	Receipt   string `json:"receipt"`
	Signature string `json:"signature"`
	KeyID     string `json:"keyId"`
}

// ID returns a short name of an installation's key: 16 hexadecimal digits of the hash of its public
// half. It finds a key among known ones and cannot verify anything, so a file that brings its own
// key convinces no reader. A secret has none.
func (k Key) ID() string {
	if k.public == nil {
		return ""
	}
	sum := sha256.Sum256(k.public)
	return hex.EncodeToString(sum[:keyIDBytes])
}

// SignStatement signs a statement with an installation's private key. Its Type is set.
func SignStatement(s Statement, key Key) (string, error) {
	s.Type = TypeReturn
	payload, err := plain(s)
	if err != nil {
		return "", fmt.Errorf("webhook: statement of checkout %s: %w", s.CheckoutID, err)
	}
	signature, err := key.signDocument(TypeReturn, payload)
	if err != nil {
		return "", err
	}
	return encode(payload) + "." + encode(signature), nil
}

// VerifyStatement returns a statement that one of the installation's public keys (whpk_…) signed and
// that has not expired. It makes no call. Errors: ErrMalformed, ErrSignature, ErrType, ErrExpired,
// ErrKey.
//
// The statement is genuine then, and may still belong to another order of the same shop: a receiver
// compares CheckoutID with the checkout that it created for this order, and OrganizationID and
// Environment with its own. Everything else in the address of the request is unsigned.
func VerifyStatement(publicKeys []string, statement string, now time.Time) (Statement, error) {
	if len(statement) > statementBytesMax {
		return Statement{}, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrMalformed, len(statement),
			statementBytesMax)
	}
	first, second, found := strings.Cut(statement, ".")
	if !found {
		return Statement{}, fmt.Errorf("%w: a statement has two parts with a dot between them", ErrMalformed)
	}
	payload, signature, err := decodeBoth(first, second)
	if err != nil {
		return Statement{}, err
	}
	if _, err := verifyDocument(publicKeys, "", TypeReturn, payload, signature); err != nil {
		return Statement{}, err
	}
	var s Statement
	if err := json.Unmarshal(payload, &s); err != nil {
		return Statement{}, fmt.Errorf("%w: the signed statement is not readable: %w", ErrMalformed, err)
	}
	if s.Type != TypeReturn {
		return Statement{}, fmt.Errorf("%w: the statement is %q, want %s", ErrType, s.Type, TypeReturn)
	}
	if !now.Before(s.ExpiresAt.Time) {
		return Statement{}, fmt.Errorf("%w: it was valid until %s, and now it is %s: ask the API for the checkout",
			ErrExpired, s.ExpiresAt, At(now))
	}
	return s, nil
}

// SignReceipt signs a receipt with an installation's private key and returns its file. Its Type is
// set. It refuses a receipt whose amounts do not add up.
func SignReceipt(r Receipt, key Key) ([]byte, error) {
	r.Type = TypeReceipt
	if err := r.checkSums(); err != nil {
		return nil, err
	}
	payload, err := plain(r)
	if err != nil {
		return nil, fmt.Errorf("webhook: receipt of checkout %s: %w", r.CheckoutID, err)
	}
	signature, err := key.signDocument(TypeReceipt, payload)
	if err != nil {
		return nil, err
	}
	file, err := plain(signedFile{Receipt: encode(payload), Signature: encode(signature), KeyID: key.ID()})
	if err != nil {
		return nil, fmt.Errorf("webhook: receipt of checkout %s: %w", r.CheckoutID, err)
	}
	return append(file, '\n'), nil
}

// VerifyReceipt returns the receipt of a file that one of the installation's public keys (whpk_…)
// signed, and that key. It makes no call. Its amounts add up: the items are the amount due, a payment
// counts for at most its amount by its price, and the payments for at least the amount paid.
// Errors: ErrMalformed, ErrSignature, ErrType, ErrSums, ErrKey.
//
// The signature proves what the installation stated. The hash of each transaction's block shows
// with any node of the chain that the payment is there.
func VerifyReceipt(publicKeys []string, file []byte) (r Receipt, publicKey string, err error) {
	if len(file) > receiptBytesMax {
		return Receipt{}, "", fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrMalformed, len(file),
			receiptBytesMax)
	}
	var f signedFile
	decoder := json.NewDecoder(bytes.NewReader(file))
	if err := decoder.Decode(&f); err != nil {
		return Receipt{}, "", fmt.Errorf("%w: the file is no JSON document of a receipt: %w", ErrMalformed, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Receipt{}, "", fmt.Errorf("%w: something follows the receipt in the file", ErrMalformed)
	}
	payload, signature, err := decodeBoth(f.Receipt, f.Signature)
	if err != nil {
		return Receipt{}, "", err
	}
	if f.KeyID == "" {
		return Receipt{}, "", fmt.Errorf("%w: the file names no key", ErrMalformed)
	}
	publicKey, err = verifyDocument(publicKeys, f.KeyID, TypeReceipt, payload, signature)
	if err != nil {
		return Receipt{}, "", err
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return Receipt{}, "", fmt.Errorf("%w: the signed receipt is not readable: %w", ErrMalformed, err)
	}
	if r.Type != TypeReceipt {
		return Receipt{}, "", fmt.Errorf("%w: the document is %q, want %s", ErrType, r.Type, TypeReceipt)
	}
	if err := r.checkSums(); err != nil {
		return Receipt{}, "", err
	}
	return r, publicKey, nil
}

// checkSums compares the amount due with the items, the amount paid with what was counted, and what
// was counted with the prices.
func (r Receipt) checkSums() error {
	if len(r.Items) > receiptEntriesMax || len(r.Payments) > receiptEntriesMax {
		return fmt.Errorf("%w: it has more than %d items or payments", ErrMalformed, receiptEntriesMax)
	}
	amountDue, err := parseDecimal("amountDue", r.AmountDue)
	if err != nil {
		return err
	}
	amountPaid, err := parseDecimal("amountPaid", r.AmountPaid)
	if err != nil {
		return err
	}
	items, counted := new(big.Int), new(big.Int)
	for i, item := range r.Items {
		price, err := parseDecimal(fmt.Sprintf("items[%d].unitPrice", i), item.UnitPrice)
		if err != nil {
			return err
		}
		if item.Quantity < 1 {
			return fmt.Errorf("%w: items[%d].quantity is %d", ErrMalformed, i, item.Quantity)
		}
		items.Add(items, price.Mul(price, big.NewInt(item.Quantity)))
	}
	for i, p := range r.Payments {
		part, err := p.checkValue(fmt.Sprintf("payments[%d]", i))
		if err != nil {
			return err
		}
		counted.Add(counted, part)
	}
	if items.Cmp(amountDue) != 0 {
		return fmt.Errorf("%w: the items are not the amount due, %s %s", ErrSums, r.AmountDue, r.Currency)
	}
	if counted.Cmp(amountPaid) < 0 {
		return fmt.Errorf("%w: the payments count for less than the amount paid, %s %s", ErrSums, r.AmountPaid,
			r.Currency)
	}
	return nil
}

// checkValue returns what a payment counts, which is at most its amount by the price. name is the
// payment's place.
func (p ReceiptPayment) checkValue(name string) (*big.Int, error) {
	counted, err := parseDecimal(name+".counted", p.Counted)
	if err != nil {
		return nil, err
	}
	amount, err := parseDecimal(name+".amount", p.Amount)
	if err != nil {
		return nil, err
	}
	if strings.Contains(p.Amount, ".") || p.Decimals < 0 || p.Decimals >= decimalDigitsMax {
		return nil, fmt.Errorf("%w: %s is %q with %d decimals, which is no amount of a coin", ErrMalformed, name,
			p.Amount, p.Decimals)
	}
	if (p.Price == nil) != (p.CurrencyPrice == nil) {
		return nil, fmt.Errorf("%w: %s has half a price", ErrMalformed, name)
	}
	// counted <= amount / 10^decimals * price / currencyPrice, without a division.
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(p.Decimals)), nil)
	left, right := scale.Mul(scale, counted), amount
	if p.Price != nil {
		price, err := parseDecimal(name+".price", *p.Price)
		if err != nil {
			return nil, err
		}
		currencyPrice, err := parseDecimal(name+".currencyPrice", *p.CurrencyPrice)
		if err != nil {
			return nil, err
		}
		left.Mul(left, currencyPrice)
		right.Mul(right, price)
	}
	if left.Cmp(right) > 0 {
		return nil, fmt.Errorf("%w: %s counts as %s, which is more than its amount by its price", ErrSums, name,
			p.Counted)
	}
	return counted, nil
}

// parseDecimal reads a decimal without sign and exponent as a multiple of 10^-36.
func parseDecimal(name, text string) (*big.Int, error) {
	whole, fraction, hasPoint := strings.Cut(text, ".")
	digits := whole + fraction
	isDigits := !strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if !isDigits || whole == "" || len(whole) > decimalDigitsMax || len(whole) > 1 && whole[0] == '0' ||
		hasPoint && fraction == "" || len(fraction) > decimalFractMax {
		return nil, fmt.Errorf("%w: %s is %q, which is no decimal number", ErrMalformed, name, shorten(text))
	}
	n, _ := new(big.Int).SetString(digits+strings.Repeat("0", decimalFractMax-len(fraction)), 10)
	return n, nil
}

// shorten cuts a text of a stranger for an error.
func shorten(text string) string {
	const shownMax = 40
	if len(text) > shownMax {
		return text[:shownMax] + "…"
	}
	return text
}

// document returns the bytes that are signed.
func document(kind string, payload []byte) []byte {
	return slices.Concat([]byte(receiptDomain), []byte(kind), []byte{'\n'}, payload)
}

func (k Key) signDocument(kind string, payload []byte) ([]byte, error) {
	if k.private == nil {
		return nil, fmt.Errorf("%w: only an installation's private key signs a document", ErrKey)
	}
	return ed25519.Sign(k.private, document(kind, payload)), nil
}

// verifyDocument returns the key that signed a payload of that kind. keyID is the key that the
// document names; "" tries them all. A key that is malformed is passed over while another matches.
func verifyDocument(publicKeys []string, keyID, kind string, payload, signature []byte) (string, error) {
	givenIDs, named := []string{}, []Key{}
	err := fmt.Errorf("%w: there is no public key to verify with", ErrKey)
	for _, text := range publicKeys {
		k, keyErr := ParseKey(text)
		if keyErr != nil {
			err = keyErr
			continue
		}
		if k.public == nil {
			err = fmt.Errorf("%w: a document is verified with a public key (whpk_…), not with a secret", ErrKey)
			continue
		}
		givenIDs = append(givenIDs, k.ID())
		if keyID == "" || k.ID() == keyID {
			named = append(named, k)
		}
	}
	if len(givenIDs) == 0 {
		return "", err
	}
	if len(named) == 0 {
		return "", fmt.Errorf("%w: it names the key %q, and the given ones are %s", ErrSignature, shorten(keyID),
			strings.Join(givenIDs, ", "))
	}
	for _, k := range named {
		if ed25519.Verify(k.public, document(kind, payload), signature) {
			return k.Public(), nil
		}
		for _, wrongKind := range []string{TypeReturn, TypeReceipt} {
			if wrongKind != kind && ed25519.Verify(k.public, document(wrongKind, payload), signature) {
				return "", fmt.Errorf("%w: it is a %s, want a %s", ErrType, wrongKind, kind)
			}
		}
	}
	return "", fmt.Errorf("%w: it was changed after it was signed, or another installation signed it", ErrSignature)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// decodeBoth decodes a payload and its signature. The decoder ignores line breaks and unused last
// bits; here the same bytes have exactly one text.
func decodeBoth(payloadText, signatureText string) (payload, signature []byte, err error) {
	payload, err = base64.RawURLEncoding.DecodeString(payloadText)
	if err != nil || encode(payload) != payloadText || len(payload) == 0 {
		return nil, nil, fmt.Errorf("%w: the payload is not base64url", ErrMalformed)
	}
	signature, err = base64.RawURLEncoding.DecodeString(signatureText)
	if err != nil || encode(signature) != signatureText {
		return nil, nil, fmt.Errorf("%w: the signature is not base64url", ErrMalformed)
	}
	if len(signature) != ed25519.SignatureSize {
		return nil, nil, fmt.Errorf("%w: the signature has %d bytes, it must have %d", ErrMalformed, len(signature),
			ed25519.SignatureSize)
	}
	return payload, signature, nil
}
