package signer

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/assertion"
)

// The bounds of a list of payments that a person signs together.
const (
	PaymentListMin = 2
	PaymentListMax = 20

	totalBytesMax = 300
	hashDigits    = 64
)

// PaymentList is what a person signed at once: several payments of customers. Each stands there with the hash of its
// own statement, so the list is valid for exactly those payments, that person and that end. A signer sees one payment
// at a time. It compares the total of that payment's asset with the payment; people read the totals. Rule SA-22.
type PaymentList struct {
	Totals     []string `json:"totals"`     // one of each asset, see totalOf, in the order of what follows the figure
	Challenges []string `json:"challenges"` // hex, of the statements of the payments, in the order of the page
}

// NewPaymentList returns the list of payments for the context of one signature. Error: a total above the largest
// amount.
func NewPaymentList(payments []PaymentWords, c StatementContext) (l PaymentList, err error) {
	type asset struct {
		chain    chain.Name
		contract chain.Address
	}
	sums, last := map[asset]money.Amount{}, map[asset]PaymentWords{}
	for _, p := range payments {
		challenge := PaymentStatement(p, c).Challenge()
		l.Challenges = append(l.Challenges, hex.EncodeToString(challenge[:]))
		name := asset{p.Chain, p.Contract}
		if sums[name], err = sums[name].Add(p.Amount); err != nil {
			return l, fmt.Errorf("sum up payments of %s: %w", p.Chain, err)
		}
		last[name] = p
	}
	for name, sum := range sums {
		p := last[name]
		p.Amount = sum
		l.Totals = append(l.Totals, totalOf(PaymentStatement(p, c)))
	}
	slices.SortFunc(l.Totals, func(a, b string) int { return strings.Compare(unitOf(a), unitOf(b)) })
	return l, nil
}

// totalOf writes the amount of a statement with its asset, as the words of a list have a total.
func totalOf(s Statement) string {
	total := s.Find("amount") + " on " + s.Find("network")
	if contract := s.Find("contract"); contract != "" {
		total += ", contract " + contract
	}
	return total
}

// unitOf returns what follows the figure of a total.
func unitOf(total string) string {
	_, unit, _ := strings.Cut(total, " ")
	return unit
}

// Statement returns the words of the list. Person, organization, end and installation are those of one of its payments.
func (l PaymentList) Statement(payment Statement) Statement {
	s := Statement{{"act", ApproveList}, {"payments", strconv.Itoa(len(l.Challenges))}}
	for _, total := range l.Totals {
		s = append(s, Word{"total", total})
	}
	for _, challenge := range l.Challenges {
		s = append(s, Word{"paymentHash", challenge})
	}
	for _, name := range []string{"organization", "approver", "notAfter", "installation"} {
		s = append(s, Word{name, payment.Find(name)})
	}
	return s
}

// CheckForm returns an error for a list that no page makes, whatever payment it comes with.
func (l PaymentList) CheckForm() error {
	if len(l.Challenges) < PaymentListMin || len(l.Challenges) > PaymentListMax {
		return fmt.Errorf("it is of %d payments, and %d to %d can be signed together", len(l.Challenges),
			PaymentListMin, PaymentListMax)
	}
	for i, challenge := range l.Challenges {
		if len(challenge) != hashDigits || strings.Trim(challenge, "0123456789abcdef") != "" {
			return fmt.Errorf("%.80q is not the hash of a payment", challenge)
		}
		if slices.Contains(l.Challenges[:i], challenge) {
			return errors.New("it has a payment twice")
		}
	}
	if len(l.Totals) == 0 || len(l.Totals) > len(l.Challenges) {
		return fmt.Errorf("it has %d totals of %d payments", len(l.Totals), len(l.Challenges))
	}
	for i, total := range l.Totals {
		figure, unit, _ := strings.Cut(total, " ")
		isText := !strings.ContainsFunc(total, func(r rune) bool { return r < ' ' || r > '~' })
		if len(total) > totalBytesMax || !isText || unit == "" || parseFigure(figure) == nil {
			return fmt.Errorf("%.80q is no total", total)
		}
		if i > 0 && unitOf(l.Totals[i-1]) >= unit {
			return errors.New("its totals are not in their order, or an asset has two")
		}
	}
	return nil
}

// check returns an error unless a payment may be signed with others and is one of the list. Rule SA-22.
func (l PaymentList) check(s Statement) error {
	if !s.isOfCustomer() {
		return errors.New("it was signed together with others, which only payments of customers can be")
	}
	if err := l.CheckForm(); err != nil {
		return fmt.Errorf("its list is malformed: %w", err)
	}
	challenge := s.Challenge()
	if !slices.Contains(l.Challenges, hex.EncodeToString(challenge[:])) {
		return errors.New("its list does not have this payment with these words")
	}
	paid := totalOf(s)
	n := slices.IndexFunc(l.Totals, func(total string) bool { return unitOf(total) == unitOf(paid) })
	if n < 0 {
		return errors.New("its list has no total of the asset of this payment")
	}
	total, amount := figureOf(l.Totals[n]), figureOf(paid)
	if amount == nil || total == nil || total.Cmp(amount) < 0 {
		return fmt.Errorf("its list has the total %q, which is less than this payment", l.Totals[n])
	}
	return nil
}

// isOfCustomer reports whether a statement is of a customer's withdrawal: not of an own payment, a refund, a return, a
// swap or a batch.
func (s Statement) isOfCustomer() bool {
	for _, name := range []string{"product", "whitelistEntry", "refund", "checkout", "madeBy"} {
		if s.Find(name) != "" {
			return false
		}
	}
	return s.Find("act") == ApprovePayment && s.Find("purpose") == string(Payment) && s.Find("customer") != ""
}

func figureOf(total string) *big.Rat {
	figure, _, _ := strings.Cut(total, " ")
	return parseFigure(figure)
}

// parseFigure returns an amount as words write it, or nil for another text.
func parseFigure(figure string) *big.Rat {
	whole, part, hasPart := strings.Cut(figure, ".")
	if whole == "" || hasPart && part == "" || strings.Trim(whole+part, "0123456789") != "" ||
		len(figure) > totalBytesMax {
		return nil
	}
	r, ok := new(big.Rat).SetString(figure)
	if !ok {
		return nil
	}
	return r
}

// Verify checks that a passkey signed a statement: alone, or in a list of payments that has it. Everyone who verifies a
// signature does so with this function. Rules SA-7 and SA-22.
func (s KeySignature) Verify(key assertion.Passkey, statement Statement) error {
	if s.List == nil {
		return s.Assertion.Verify(key, statement.Challenge())
	}
	if err := s.List.check(statement); err != nil {
		return err
	}
	return s.Assertion.Verify(key, s.List.Statement(statement).Challenge())
}
