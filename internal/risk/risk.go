// Package risk screens addresses and decides the consequences for the money. It has the interface
// of the providers, the panel that asks several of them, the rules for deposits and withdrawals,
// and the local list for networks without real money.
//
// A payment never passes because a provider is down, slow, returns invalid data or does not know
// the address. Anything but an answer is ErrUnavailable, and the rules hold the payment then. No
// provider is asked inside a transaction. A crash leaves the answers that were stored, sealed; an
// answer that was not stored is requested again.
package risk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Severity is a provider's rating of an address.
type Severity string

// The severities in their order. Unknown is outside it: it is above and below no other severity,
// and cannot be a threshold.
const (
	None    Severity = "NONE"
	Low     Severity = "LOW"
	Medium  Severity = "MEDIUM"
	High    Severity = "HIGH"
	Severe  Severity = "SEVERE"
	Unknown Severity = "UNKNOWN"
)

// Severities are the possible thresholds, in their order.
var Severities = []Severity{None, Low, Medium, High, Severe}

// ParseSeverity parses a severity of the order. It refuses any other text, UNKNOWN included.
func ParseSeverity(s string) (Severity, error) {
	if v := Severity(s); slices.Contains(Severities, v) {
		return v, nil
	}
	return "", fmt.Errorf("%q is not a severity: NONE, LOW, MEDIUM, HIGH or SEVERE", s[:min(len(s), 40)])
}

// Exceeds reports whether s is above a threshold. A severity outside the order is above every
// threshold, and a threshold outside the order is below everything.
func (s Severity) Exceeds(threshold Severity) bool {
	rank, limit := slices.Index(Severities, s), slices.Index(Severities, threshold)
	return rank < 0 || limit < 0 || rank > limit
}

// Direction is the direction of the payment, seen from Coffer.
type Direction string

// The directions: the subject paid us, or is to be paid.
const (
	Incoming Direction = "INCOMING"
	Outgoing Direction = "OUTGOING"
)

// Subject is the address about which a provider is asked, with its payment. Only Chain and Address
// are required.
type Subject struct {
	Chain     chain.Name    `json:"chain"`
	Address   chain.Address `json:"address"`
	MintID    int           `json:"mintId,omitempty"`
	Symbol    string        `json:"symbol,omitempty"`
	Amount    money.Amount  `json:"amount"` // atomic units
	Tx        chain.TxHash  `json:"txHash,omitempty"`
	Direction Direction     `json:"direction"`
}

// Verdict is a provider's answer about an address.
type Verdict struct {
	Provider string   `json:"provider"` // such as TRM; of several, the one with this severity
	Severity Severity `json:"severity"` // the highest known one; UNKNOWN if there is none
	// IsKnown is false if one of the providers does not know the address, or does not know all
	// parts of its answer, independent of the others.
	IsKnown    bool     `json:"known"`
	Score      *int     `json:"score"` // 0 to 100, if the provider has one
	Entity     string   `json:"entity,omitempty"`
	Categories []string `json:"categories"`
	// OwnerCategories are the categories that describe the owner of the address itself.
	OwnerCategories []string `json:"owner,omitempty"`
	Direct          bool     `json:"direct"` // about the address itself, and not a counterparty
	// Reference identifies the answer, at the provider or among those stored here.
	Reference string        `json:"reference,omitempty"`
	Latency   time.Duration `json:"latency"` // nanoseconds
	GivenAt   time.Time     `json:"at"`      // when it was given
	Cached    bool          `json:"cached"`  // it is a reused answer, given at GivenAt
	// AnswerID names the sealed row of risk_answers, if there is one.
	AnswerID string `json:"answerId,omitempty"`
	// Parts are the verdicts of all that answered, if several providers were asked, or of each
	// sender, if there are several.
	Parts []Verdict `json:"of,omitempty"`
	// Address is the address of the verdict, if several were screened.
	Address chain.Address `json:"address,omitempty"`
	// Missing lists those that did not answer, with the reason.
	Missing []MissingAnswer `json:"missing,omitempty"`
	// Raw is the provider's original answer. It is only stored sealed.
	Raw json.RawMessage `json:"-"`
}

// vaspCategory is the category of an owner whom a provider calls a virtual asset service provider.
const vaspCategory = "VASP"

// NameVASP notes that the owner of the address holds coins of its customers.
func (v *Verdict) NameVASP() { v.OwnerCategories = append(v.OwnerCategories, vaspCategory) }

// IsExchange reports whether any provider says that the address belongs to an exchange, or to another business that
// holds coins of its customers, at any severity. An address that only dealt with one does not count. Rule DEP-36.
func (v Verdict) IsExchange() bool {
	return slices.ContainsFunc(v.Parts, Verdict.IsExchange) ||
		slices.ContainsFunc(v.OwnerCategories, func(c string) bool {
			return c == vaspCategory || strings.Contains(strings.ToLower(c), "exchange")
		})
}

// MissingAnswer is a provider that gave no answer.
type MissingAnswer struct {
	Provider string `json:"provider"`
	Reason   string `json:"reason"`
}

// ErrUnavailable says that there is no answer on which to decide.
var ErrUnavailable = errors.New("screening unavailable")

// Unavailable returns an ErrUnavailable with its reason, which may quote a provider but never a
// secret.
func Unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
}

// Screener answers what it knows of an address. It may be asked again after any error, is safe for
// concurrent use, and has no side effects that count. Any error means unavailable, and never that
// the address is clean. A panel returns the answers of the other providers with the error; they can
// hold a payment but never let it pass.
type Screener interface {
	// Name returns the provider's name in the API, such as TRM.
	Name() string
	// Covers reports whether it knows addresses of a chain at all.
	Covers(ch chain.Name) bool
	// Screen asks the provider. The caller bounds the time.
	Screen(ctx context.Context, s Subject) (Verdict, error)
}

// CanonicalAddress returns the form in which addresses are compared: two texts of one address give
// the same form. A list entry matches on every chain with addresses of its form, so no chain is
// part of it.
func CanonicalAddress(address string) string {
	lower := strings.ToLower(address)
	switch {
	case len(address) == 42 && strings.HasPrefix(lower, "0x") && strings.Trim(lower[2:], "0123456789abcdef") == "":
		return lower
	case address != lower && address != strings.ToUpper(address):
		return address // the case of letters matters
	}
	for _, prefix := range []string{"bc1", "tb1", "bcrt1", "ltc1", "bitcoincash:"} {
		if strings.HasPrefix(lower, prefix) {
			return lower
		}
	}
	return address
}

const (
	textBytesMax  = 300 // of a provider's text that is passed on
	categoriesMax = 50
)

// validate refuses a verdict that no adapter may return.
func (v Verdict) validate() error {
	switch {
	case v.Provider == "":
		return errors.New("a verdict without a provider")
	case v.Severity != Unknown && !slices.Contains(Severities, v.Severity):
		return fmt.Errorf("not a severity: %q", v.Severity)
	case v.IsKnown && v.Severity == Unknown:
		return fmt.Errorf("severity %s with known %t", v.Severity, v.IsKnown)
	case v.Score != nil && (*v.Score < 0 || *v.Score > 100):
		return fmt.Errorf("a score of %d", *v.Score)
	case v.GivenAt.IsZero():
		return errors.New("a verdict without its time")
	}
	return nil
}

// SanitizeText truncates and cleans untrusted text, for a verdict, a log or an error.
func SanitizeText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.ToValidUTF8(s[:min(len(s), textBytesMax)], "")
}

// normalize truncates the texts of a verdict and sorts its categories.
func (v *Verdict) normalize() {
	v.Entity, v.Reference = SanitizeText(v.Entity), SanitizeText(v.Reference)
	v.Categories = normalizeTexts(v.Categories)
	if len(v.OwnerCategories) > 0 {
		v.OwnerCategories = normalizeTexts(v.OwnerCategories)
	}
	v.GivenAt = v.GivenAt.UTC()
}

// normalizeTexts returns the texts truncated, sorted and without duplicates.
func normalizeTexts(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, c := range texts {
		if c = SanitizeText(c); c != "" {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), categoriesMax)]
}
