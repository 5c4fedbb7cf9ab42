// Package risk asks who is behind an address and decides what follows for the money:
// the port of the providers, the panel that asks several of them, the rules for
// deposits and withdrawals, and the list of networks that have no real money.
//
// What never happens here: a pass because somebody is down, slow, talks nonsense or
// does not know. Whatever is not an answer is ErrUnavailable, and the rules hold on
// it. No provider is asked inside a transaction. What a crash leaves: answers that
// were kept, sealed; an answer that was not is asked for again.
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

// Severity is how bad what a provider knows is.
type Severity string

// The severities in their order. Unknown stands outside it: it is above nothing
// and below nothing, and no threshold.
const (
	None    Severity = "NONE"
	Low     Severity = "LOW"
	Medium  Severity = "MEDIUM"
	High    Severity = "HIGH"
	Severe  Severity = "SEVERE"
	Unknown Severity = "UNKNOWN"
)

// Severities are those that a threshold can be, in their order.
var Severities = []Severity{None, Low, Medium, High, Severe}

// ParseSeverity reads one of the order. Error: any other text, UNKNOWN included.
func ParseSeverity(s string) (Severity, error) {
	if v := Severity(s); slices.Contains(Severities, v) {
		return v, nil
	}
	return "", fmt.Errorf("%q is no severity: NONE, LOW, MEDIUM, HIGH or SEVERE", s[:min(len(s), 40)])
}

// Exceeds tells whether s is above a threshold. What is not in the order is above
// every threshold, and a threshold that is not in the order is below everything.
func (s Severity) Exceeds(threshold Severity) bool {
	rank, limit := slices.Index(Severities, s), slices.Index(Severities, threshold)
	return rank < 0 || limit < 0 || rank > limit
}

// Direction is which way the money goes, as seen from here.
type Direction string

// The directions: the subject sent to us, or is to be paid.
const (
	Incoming Direction = "INCOMING"
	Outgoing Direction = "OUTGOING"
)

// Subject is whom a provider is asked about. Only Chain and Address are needed.
type Subject struct {
	Chain     chain.Name    `json:"chain"`
	Address   chain.Address `json:"address"`
	MintID    int           `json:"mintId,omitempty"`
	Symbol    string        `json:"symbol,omitempty"`
	Amount    money.Amount  `json:"amount"` // atomic units
	Tx        chain.TxHash  `json:"txHash,omitempty"`
	Direction Direction     `json:"direction"`
}

// Verdict is what a provider says of an address.
type Verdict struct {
	Provider string   `json:"provider"` // such as TRM; of several, whose severity it is
	Severity Severity `json:"severity"` // the highest that is known; UNKNOWN when none is
	// IsKnown is false when a provider that was asked does not know the address, or
	// does not know all of what it says, whatever the others say.
	IsKnown    bool     `json:"known"`
	Score      *int     `json:"score"` // 0 to 100, when the provider has such a thing
	Entity     string   `json:"entity,omitempty"`
	Categories []string `json:"categories"`
	// OwnerCategories are those of the categories that say whose the address itself is.
	OwnerCategories []string `json:"owner,omitempty"`
	Direct          bool     `json:"direct"` // the address itself, and not somebody it dealt with
	// Reference finds the answer again: at the provider, or among those kept here.
	Reference string        `json:"reference,omitempty"`
	Latency   time.Duration `json:"latency"` // nanoseconds
	GivenAt   time.Time     `json:"at"`      // when it was given
	Cached    bool          `json:"cached"`  // it was given before, at At
	// AnswerID names the sealed row of risk_answers, when there is one.
	AnswerID string `json:"answerId,omitempty"`
	// Parts are the verdicts of all who answered, when several were asked; about several
	// senders, of each of them.
	Parts []Verdict `json:"of,omitempty"`
	// Address is whom it is about, where several were asked about.
	Address chain.Address `json:"address,omitempty"`
	// Missing are those who were asked and did not answer, with why.
	Missing []MissingAnswer `json:"missing,omitempty"`
	// Raw is the provider's own answer. It is kept sealed and nowhere else.
	Raw json.RawMessage `json:"-"`
}

// MissingAnswer is a provider that was asked and gave no answer.
type MissingAnswer struct {
	Provider string `json:"provider"`
	Reason   string `json:"reason"`
}

// ErrUnavailable says that there is no answer to decide by.
var ErrUnavailable = errors.New("screening unavailable")

// Unavailable makes an ErrUnavailable with its reason, which may quote what a
// provider said and never a secret.
func Unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
}

// A Screener says what it knows of an address. It may be asked again after any error,
// is safe for concurrent use, and changes nothing that counts. An error, whatever it
// is, means unavailable, and never that the address is clean; a panel returns with it
// what those said who did answer, which can hold money back and never let it pass.
type Screener interface {
	// Name is the provider as the API tells it, such as TRM.
	Name() string
	// Covers tells whether it knows addresses of a chain at all.
	Covers(ch chain.Name) bool
	// Screen asks. The caller bounds the time.
	Screen(ctx context.Context, s Subject) (Verdict, error)
}

// CanonicalAddress is the form in which addresses are compared: two texts of one address
// give one form. A list that knows an address matches it on every chain that has the
// address's form, so no chain is part of it.
func CanonicalAddress(address string) string {
	lower := strings.ToLower(address)
	switch {
	case len(address) == 42 && strings.HasPrefix(lower, "0x") && strings.Trim(lower[2:], "0123456789abcdef") == "":
		return lower
	case address != lower && address != strings.ToUpper(address):
		return address // letters of both cases mean something
	}
	for _, prefix := range []string{"bc1", "tb1", "bcrt1", "ltc1", "bitcoincash:"} {
		if strings.HasPrefix(lower, prefix) {
			return lower
		}
	}
	return address
}

const (
	textBytesMax  = 300 // of what a provider says that is passed on
	categoriesMax = 50
)

// validate refuses a verdict that no adapter may give.
func (v Verdict) validate() error {
	switch {
	case v.Provider == "":
		return errors.New("a verdict of nobody")
	case v.Severity != Unknown && !slices.Contains(Severities, v.Severity):
		return fmt.Errorf("no severity: %q", v.Severity)
	case v.IsKnown && v.Severity == Unknown:
		return fmt.Errorf("severity %s with known %t", v.Severity, v.IsKnown)
	case v.Score != nil && (*v.Score < 0 || *v.Score > 100):
		return fmt.Errorf("a score of %d", *v.Score)
	case v.GivenAt.IsZero():
		return errors.New("a verdict without its time")
	}
	return nil
}

// SanitizeText bounds what a stranger said, for a verdict, a log or an error.
func SanitizeText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.ToValidUTF8(s[:min(len(s), textBytesMax)], "")
}

// normalize bounds the texts of a verdict and puts its categories in order.
func (v *Verdict) normalize() {
	v.Entity, v.Reference = SanitizeText(v.Entity), SanitizeText(v.Reference)
	v.Categories = normalizeTexts(v.Categories)
	if len(v.OwnerCategories) > 0 {
		v.OwnerCategories = normalizeTexts(v.OwnerCategories)
	}
	v.GivenAt = v.GivenAt.UTC()
}

// normalizeTexts are bounded texts in order, each once.
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
