package risk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
)

// UnknownTreatment says how a verdict with an unknown severity counts.
type UnknownTreatment string

// The treatments. Providers often do not know fresh addresses, so an operator may choose LOW
// deliberately.
const (
	TreatUnknownAsHold UnknownTreatment = "HOLD" // like a missing answer
	TreatUnknownAsLow  UnknownTreatment = "LOW"
)

// Answer is the result of a screening: a verdict, or why there is none. With both, the verdict has
// what some providers answered, which is not enough.
type Answer struct {
	Verdict     *Verdict `json:"verdict"`
	Unavailable string   `json:"unavailable,omitempty"`
}

// NewAnswer stores what a Screener returned.
func NewAnswer(v Verdict, err error) *Answer {
	a := &Answer{}
	if err != nil {
		a.Unavailable = SanitizeText(err.Error())
	}
	if err == nil || v.Severity != "" {
		a.Verdict = &v
	}
	return a
}

// comparison is the result of comparing an answer with a threshold.
type comparison int

const (
	noAnswer        comparison = iota
	withinThreshold            // at or below the threshold
	aboveThreshold
)

// compareWith compares an answer with a threshold. A known severity above it counts even if other
// providers did not answer. A severity within it counts only if no answer is missing.
// Rules RISK-3 and RISK-8.
func (a *Answer) compareWith(threshold Severity, t UnknownTreatment) comparison {
	v := a.Verdict
	switch {
	case v == nil || v.validate() != nil:
		return noAnswer
	case v.Severity != Unknown && v.Severity.Exceeds(threshold):
		return aboveThreshold
	case a.Unavailable != "":
		return noAnswer
	case v.IsKnown:
		return withinThreshold
	case t != TreatUnknownAsLow:
		return noAnswer
	case Low.Exceeds(threshold):
		return aboveThreshold
	}
	return withinThreshold
}

// NewUnknownPayer is the answer about a payer that no one knows. It counts like a provider's answer with an
// unknown severity.
func NewUnknownPayer(now time.Time) *Answer {
	return &Answer{Verdict: &Verdict{
		Provider: "NONE", Severity: Unknown, Entity: "The payer is not known.", Categories: []string{}, GivenAt: now,
	}}
}

// IsComplete reports whether the required providers answered, even if they do not know the address.
func (a *Answer) IsComplete() bool {
	return a.Unavailable == "" && a.Verdict != nil && a.Verdict.validate() == nil
}

// Exceeds reports whether the known severity is above a threshold, for display and not for a
// decision. False does not mean passed: the severity may be unknown.
func (a *Answer) Exceeds(threshold Severity, t UnknownTreatment) bool {
	return a.compareWith(threshold, t) == aboveThreshold
}

// Quote is the price behind a decision.
type Quote struct {
	USD        money.USD        `json:"usd"` // for one whole token
	Source     string           `json:"source"`
	QuotedAt   time.Time        `json:"at"` // the time of the price, by its source
	AgeMax     time.Duration    `json:"ageMax"`
	Components []QuoteComponent `json:"of,omitempty"` // the prices of which it is the median
}

// QuoteComponent is one of several sources of a price.
type QuoteComponent struct {
	USD      money.USD `json:"usd"`
	Source   string    `json:"source"`
	QuotedAt time.Time `json:"at"`
}

// NewQuote converts a price for a decision, with its maximum age.
func NewQuote(q price.Quote, ageMax time.Duration) *Quote {
	out := &Quote{USD: q.Price, Source: q.Source, QuotedAt: q.QuotedAt.UTC(), AgeMax: ageMax}
	for _, o := range q.Components {
		out.Components = append(out.Components, QuoteComponent{o.Price, o.Source, o.QuotedAt.UTC()})
	}
	return out
}

// priceSkewMax is how far in the future the time of a price may be.
const priceSkewMax = time.Minute

// usdValue returns the dollar value of an amount; ok is false if there is no valid price.
// Rule RISK-2.
func (q *Quote) usdValue(a money.Amount, decimals int, now time.Time) (v money.USD, ok bool) {
	if q == nil || q.USD == (money.USD{}) || now.Sub(q.QuotedAt) > q.AgeMax || q.QuotedAt.Sub(now) > priceSkewMax {
		return v, false
	}
	v, err := money.ValueOf(a, decimals, q.USD)
	return v, err == nil
}

// DepositCase holds all facts of a decision about a final deposit. It is stored with the decision,
// and gives the same decision whenever it is read again.
type DepositCase struct {
	Subject Subject `json:"subject"`
	// Senders lists the senders of a deposit with several; the subject's address is "" then.
	Senders  []chain.Address `json:"senders,omitempty"`
	Decimals int             `json:"decimals"` // of the mint
	// Flagged says that the deposit was flagged before: it is never decided again.
	Flagged bool `json:"flagged"`

	SeverityThreshold *Severity        `json:"severityThreshold"`
	USDThreshold      *money.USD       `json:"usdThreshold"`
	UnknownAs         UnknownTreatment `json:"unknownSeverityTreatment"`
	// SanctionsFloor screens against the lists below the threshold in dollars as well.
	SanctionsFloor bool `json:"sanctionsFloor"`

	Price        *Quote `json:"price"` // nil if there is none
	PriceMissing string `json:"priceMissing,omitempty"`

	// PayerSource says of a deposit that a swap provider delivered how it is known who paid the provider:
	// OWN_NODE or PROVIDER. The subject and the senders are these payers then.
	PayerSource string `json:"payerSource,omitempty"`

	Lists  *Answer `json:"lists"`  // of the sanctions lists; nil: not asked
	Answer *Answer `json:"answer"` // of the providers; nil: not asked

	Now          time.Time     `json:"now"`
	WaitingSince time.Time     `json:"since"` // when the deposit began to wait for a decision
	Grace        time.Duration `json:"grace"` // how long it may wait for an answer
}

// DepositOutcome is the consequence for a deposit.
type DepositOutcome string

// The outcomes of a deposit.
const (
	Credit DepositOutcome = "CREDIT"
	// Ask the lists, put their answer into Lists and decide again.
	ScreenLists DepositOutcome = "ASK_LISTS"
	// Ask the providers, put their answer into Answer and decide again.
	ScreenProviders DepositOutcome = "ASK"
	RetryLater      DepositOutcome = "WAIT" // no answer: ask again later
	Flag            DepositOutcome = "FLAG"
	LeaveFlagged    DepositOutcome = "LEAVE" // flagged before: a person decides
)

// Status is the state of a screening in the API.
type Status string

// The statuses.
const (
	StatusPending       Status = "PENDING"
	StatusNotConfigured Status = "NOT_CONFIGURED"
	StatusSkipped       Status = "SKIPPED" // the rules require no screening
	StatusPassed        Status = "PASSED"
	StatusFlagged       Status = "FLAGGED"
	StatusBlocked       Status = "BLOCKED"
	StatusUnavailable   Status = "UNAVAILABLE"
)

// The reasons of a decision.
const (
	ReasonNotConfigured  = "NOT_CONFIGURED"
	ReasonBelowThreshold = "BELOW_USD_THRESHOLD"
	ReasonFlaggedBefore  = "FLAGGED_BEFORE"
	ReasonWithin         = "SEVERITY_WITHIN_THRESHOLD"
	ReasonAbove          = "SEVERITY_ABOVE_THRESHOLD" // a code of flagReason
	ReasonUnavailable    = "SCREENING_UNAVAILABLE"    // a code of flagReason
	ReasonNotScreened    = "NOT_ASKED"
)

// The states of a price in a decision.
const (
	PriceUsed      = "USED"
	PriceMissing   = "MISSING_OR_STALE" // counts as above every threshold
	PriceNotNeeded = "NOT_NEEDED"
)

// DepositDecision is a decision with its reason.
type DepositDecision struct {
	Outcome DepositOutcome `json:"outcome"`
	Status  Status         `json:"status"`
	Reason  string         `json:"reason"`
	// RiskOfFunds is set with FLAG: the severity, or UNKNOWN.
	RiskOfFunds Severity `json:"riskOfFunds,omitempty"`
	Price       string   `json:"price"`
	Value       string   `json:"usdValue,omitempty"` // exact dollars, if the price was used
	// Verdict is the verdict that decided, or nil.
	Verdict *Verdict `json:"verdict"`
}

// DecideDeposit applies the rules for deposits, in their order. It is pure: the caller asks the
// providers that the outcome names, adds the answer and calls it again. Rules RISK-1 to RISK-5.
func DecideDeposit(c DepositCase) DepositDecision {
	d := DepositDecision{Price: PriceNotNeeded}
	if c.Flagged {
		return d.withResult(LeaveFlagged, StatusFlagged, ReasonFlaggedBefore)
	}
	if c.SeverityThreshold == nil || c.USDThreshold == nil {
		return d.withResult(Credit, StatusNotConfigured, ReasonNotConfigured)
	}
	value, priced := c.Price.usdValue(c.Subject.Amount, c.Decimals, c.Now)
	d.Price = PriceMissing
	if priced {
		d.Price, d.Value = PriceUsed, value.String()
	}
	if priced && value.Cmp(*c.USDThreshold) <= 0 {
		if !c.SanctionsFloor {
			return d.withResult(Credit, StatusSkipped, ReasonBelowThreshold)
		}
		if c.Lists == nil {
			return d.withResult(ScreenLists, StatusPending, ReasonNotScreened)
		}
		return c.decideByAnswer(c.Lists, d, StatusSkipped, ReasonBelowThreshold)
	}
	if c.Answer == nil {
		return d.withResult(ScreenProviders, StatusPending, ReasonNotScreened)
	}
	return c.decideByAnswer(c.Answer, d, StatusPassed, ReasonWithin)
}

// decideByAnswer decides by an answer. Rules RISK-3 and RISK-4.
func (c DepositCase) decideByAnswer(a *Answer, d DepositDecision, passed Status, reason string) DepositDecision {
	d.Verdict = a.Verdict
	switch a.compareWith(*c.SeverityThreshold, c.UnknownAs) {
	case aboveThreshold:
		d.RiskOfFunds = a.Verdict.Severity
		if a.Verdict.Severity == Unknown {
			d.RiskOfFunds = Low // by the treatment
		}
		return d.withResult(Flag, StatusFlagged, ReasonAbove)
	case withinThreshold:
		return d.withResult(Credit, passed, reason)
	}
	// No later answer will come about a sender that the chain does not name.
	if c.Now.Sub(c.WaitingSince) < c.Grace && (c.Subject.Address != "" || len(c.Senders) > 0) {
		return d.withResult(RetryLater, StatusUnavailable, ReasonUnavailable)
	}
	d.RiskOfFunds = Unknown
	return d.withResult(Flag, StatusUnavailable, ReasonUnavailable)
}

func (d DepositDecision) withResult(o DepositOutcome, s Status, reason string) DepositDecision {
	d.Outcome, d.Status, d.Reason = o, s, reason
	return d
}

// WithdrawalThreshold applies if an organization has set no threshold: SEVERE is blocked.
const WithdrawalThreshold = High

// WithdrawalCase holds all facts of a decision about a destination, at the request of a withdrawal
// and again at its approval.
type WithdrawalCase struct {
	Subject Subject `json:"subject"`
	// Configured says that this installation has providers.
	Configured bool `json:"configured"`
	// Threshold is the organization's own threshold; nil means WithdrawalThreshold.
	Threshold *Severity        `json:"withdrawSeverityThreshold"`
	UnknownAs UnknownTreatment `json:"unknownSeverityTreatment"`
	Answer    *Answer          `json:"answer"` // nil: not asked
	Now       time.Time        `json:"now"`
}

// WithdrawalOutcome is the consequence for a withdrawal from the risk gate.
type WithdrawalOutcome string

// The outcomes of the risk gate.
const (
	Pass              WithdrawalOutcome = "PASS"
	ScreenDestination WithdrawalOutcome = "ASK"   // ask the providers and decide again
	HoldForRisk       WithdrawalOutcome = "HOLD"  // RISK_REVIEW: never sent without a person
	Block             WithdrawalOutcome = "BLOCK" // 451
)

// WithdrawalDecision is the decision of the risk gate, with its reason.
type WithdrawalDecision struct {
	Outcome   WithdrawalOutcome `json:"outcome"`
	Status    Status            `json:"status"`
	Reason    string            `json:"reason"`
	Threshold Severity          `json:"threshold"` // the one that applied
	Verdict   *Verdict          `json:"verdict"`
}

// DecideWithdrawal is the risk gate, for any value. It passes an unscreened destination only if the
// installation has no providers and the organization has set no threshold of its own; the status is
// then NOT_CONFIGURED. Rules RISK-6 and RISK-7.
func DecideWithdrawal(c WithdrawalCase) WithdrawalDecision {
	d := WithdrawalDecision{Threshold: WithdrawalThreshold}
	if c.Threshold != nil {
		d.Threshold = *c.Threshold
	}
	switch {
	case !c.Configured && c.Threshold == nil:
		return d.withResult(Pass, StatusNotConfigured, ReasonNotConfigured)
	case !c.Configured:
		return d.withResult(HoldForRisk, StatusUnavailable, ReasonUnavailable)
	case c.Answer == nil:
		return d.withResult(ScreenDestination, StatusPending, ReasonNotScreened)
	}
	d.Verdict = c.Answer.Verdict
	switch c.Answer.compareWith(d.Threshold, c.UnknownAs) {
	case aboveThreshold:
		return d.withResult(Block, StatusBlocked, ReasonAbove)
	case withinThreshold:
		return d.withResult(Pass, StatusPassed, ReasonWithin)
	}
	return d.withResult(HoldForRisk, StatusUnavailable, ReasonUnavailable)
}

func (d WithdrawalDecision) withResult(o WithdrawalOutcome, s Status, reason string) WithdrawalDecision {
	d.Outcome, d.Status, d.Reason = o, s, reason
	return d
}

// DepositRecord is a decision with all its facts, for storage.
type DepositRecord struct {
	Case     DepositCase     `json:"case"`
	Decision DepositDecision `json:"decision"`
}

// WithdrawalRecord is a decision with all its facts, for storage.
type WithdrawalRecord struct {
	Case     WithdrawalCase     `json:"case"`
	Decision WithdrawalDecision `json:"decision"`
}

// ReplayDeposit repeats the decision of a stored case. It returns an error if the record cannot be
// read, or if the decision differs from the stored one. Rule RISK-7.
func ReplayDeposit(record []byte) (DepositRecord, error) {
	var r DepositRecord
	if err := decodeStrict(record, &r); err != nil {
		return r, fmt.Errorf("read a decision about a deposit: %w", err)
	}
	return r, checkSame(r.Decision, DecideDeposit(r.Case))
}

// ReplayWithdrawal repeats the decision of a stored case. Errors: those of ReplayDeposit.
func ReplayWithdrawal(record []byte) (WithdrawalRecord, error) {
	var r WithdrawalRecord
	if err := decodeStrict(record, &r); err != nil {
		return r, fmt.Errorf("read a decision about a withdrawal: %w", err)
	}
	return r, checkSame(r.Decision, DecideWithdrawal(r.Case))
}

func decodeStrict(text []byte, target any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(target)
}

// checkSame compares two decisions in their stored form.
func checkSame(recorded, replayed any) error {
	a, err := json.Marshal(recorded)
	if err != nil {
		return err
	}
	b, err := json.Marshal(replayed)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("decided %s, now it would be %s", a, b)
	}
	return nil
}
