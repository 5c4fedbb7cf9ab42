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

// UnknownTreatment is what a verdict means of which the severity is not known.
type UnknownTreatment string

// The treatments. Fresh addresses are often unknown to providers, so LOW can be
// chosen knowingly.
const (
	TreatUnknownAsHold UnknownTreatment = "HOLD" // as if nobody had answered
	TreatUnknownAsLow  UnknownTreatment = "LOW"
)

// Answer is what came of asking: a verdict, or why there is none. With both, those
// who answered said what the verdict says and it is not enough.
type Answer struct {
	Verdict     *Verdict `json:"verdict"`
	Unavailable string   `json:"unavailable,omitempty"`
}

// NewAnswer keeps what a Screener returned.
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

// The ways in which an answer counts.
type comparison int

const (
	noAnswer        comparison = iota
	withinThreshold            // at or below the threshold
	aboveThreshold
)

// compareWith compares an answer with a threshold. What is known to be above counts
// although others did not answer; within counts only when nothing is missing.
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

// IsComplete tells whether those who had to answer did, be it that they know nothing.
func (a *Answer) IsComplete() bool {
	return a.Unavailable == "" && a.Verdict != nil && a.Verdict.validate() == nil
}

// Exceeds tells whether what is known is above a threshold, for whoever looks and does not
// decide. False is not a pass: nothing may be known.
func (a *Answer) Exceeds(threshold Severity, t UnknownTreatment) bool {
	return a.compareWith(threshold, t) == aboveThreshold
}

// Quote is the price that a decision was made by.
type Quote struct {
	USD        money.USD        `json:"usd"` // for one whole token
	Source     string           `json:"source"`
	QuotedAt   time.Time        `json:"at"` // when it was the price, by its source
	AgeMax     time.Duration    `json:"ageMax"`
	Components []QuoteComponent `json:"of,omitempty"` // those that it is the median of
}

// QuoteComponent is one of several sources of a price.
type QuoteComponent struct {
	USD      money.USD `json:"usd"`
	Source   string    `json:"source"`
	QuotedAt time.Time `json:"at"`
}

// NewQuote keeps a price for a decision, with how old it may be.
func NewQuote(q price.Quote, ageMax time.Duration) *Quote {
	out := &Quote{USD: q.Price, Source: q.Source, QuotedAt: q.QuotedAt.UTC(), AgeMax: ageMax}
	for _, o := range q.Components {
		out.Components = append(out.Components, QuoteComponent{o.Price, o.Source, o.QuotedAt.UTC()})
	}
	return out
}

// priceSkewMax is how far in the future a price's clock may be.
const priceSkewMax = time.Minute

// usdValue is what an amount is worth; ok is false when nothing says so that counts.
func (q *Quote) usdValue(a money.Amount, decimals int, now time.Time) (v money.USD, ok bool) {
	if q == nil || q.USD == (money.USD{}) || now.Sub(q.QuotedAt) > q.AgeMax || q.QuotedAt.Sub(now) > priceSkewMax {
		return v, false
	}
	v, err := money.ValueOf(a, decimals, q.USD)
	return v, err == nil
}

// DepositCase is all that is known when it is decided about a final deposit. It is
// kept with the decision, and decides the same whenever it is read again.
type DepositCase struct {
	Subject Subject `json:"subject"`
	// Senders are all of several who sent it; the subject's address is "" then.
	Senders  []chain.Address `json:"senders,omitempty"`
	Decimals int             `json:"decimals"` // of the mint
	// Flagged says that it was flagged before: it is never decided again.
	Flagged bool `json:"flagged"`

	SeverityThreshold *Severity        `json:"severityThreshold"`
	USDThreshold      *money.USD       `json:"usdThreshold"`
	UnknownAs         UnknownTreatment `json:"unknownSeverityTreatment"`
	// SanctionsFloor has lists looked at below the threshold in dollars as well.
	SanctionsFloor bool `json:"sanctionsFloor"`

	Price        *Quote `json:"price"` // nil: there is none
	PriceMissing string `json:"priceMissing,omitempty"`

	Lists  *Answer `json:"lists"`  // of the lists of sanctions; nil: not asked
	Answer *Answer `json:"answer"` // of the providers; nil: not asked

	Now          time.Time     `json:"now"`
	WaitingSince time.Time     `json:"since"` // when it began to wait for a decision
	Grace        time.Duration `json:"grace"` // how long it may wait for an answer
}

// DepositOutcome is what follows for a deposit.
type DepositOutcome string

// The outcomes of a deposit.
const (
	Credit          DepositOutcome = "CREDIT"
	ScreenLists     DepositOutcome = "ASK_LISTS" // ask the lists, put what they say into Lists and decide again
	ScreenProviders DepositOutcome = "ASK"       // ask the providers, put what they say into Answer and decide again
	RetryLater      DepositOutcome = "WAIT"      // no answer: ask again later
	Flag            DepositOutcome = "FLAG"
	LeaveFlagged    DepositOutcome = "LEAVE" // flagged before: people decide
)

// Status is how the screening stands, as the API tells it.
type Status string

// The statuses.
const (
	StatusPending       Status = "PENDING"
	StatusNotConfigured Status = "NOT_CONFIGURED"
	StatusSkipped       Status = "SKIPPED" // the rules ask nobody about it
	StatusPassed        Status = "PASSED"
	StatusFlagged       Status = "FLAGGED"
	StatusBlocked       Status = "BLOCKED"
	StatusUnavailable   Status = "UNAVAILABLE"
)

// Why a decision is as it is.
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

// DepositDecision is what was decided, and why.
type DepositDecision struct {
	Outcome DepositOutcome `json:"outcome"`
	Status  Status         `json:"status"`
	Reason  string         `json:"reason"`
	// RiskOfFunds is set with FLAG: the severity, or UNKNOWN.
	RiskOfFunds Severity `json:"riskOfFunds,omitempty"`
	Price       string   `json:"price"`
	Value       string   `json:"usdValue,omitempty"` // exact dollars, when the price was used
	// Verdict is the one that decided, nil when none did.
	Verdict *Verdict `json:"verdict"`
}

// DecideDeposit is the rule for deposits, in its order. It is pure: the caller asks
// whom it says, adds the answer and calls it again. Rules RISK-1 to RISK-5.
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

// decideByAnswer decides by an answer.
func (c DepositCase) decideByAnswer(a *Answer, d DepositDecision, passed Status, reason string) DepositDecision {
	d.Verdict = a.Verdict
	switch a.compareWith(*c.SeverityThreshold, c.UnknownAs) {
	case aboveThreshold:
		d.RiskOfFunds = a.Verdict.Severity
		if a.Verdict.Severity == Unknown {
			d.RiskOfFunds = Low // as the treatment has it
		}
		return d.withResult(Flag, StatusFlagged, ReasonAbove)
	case withinThreshold:
		return d.withResult(Credit, passed, reason)
	}
	// Nobody will ever say more about a sender whom the chain does not name.
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

// WithdrawalThreshold is what holds where an organization has set nothing: what is
// SEVERE is blocked.
const WithdrawalThreshold = High

// WithdrawalCase is all that is known when a destination is looked at, when a
// withdrawal is requested and again when it is approved.
type WithdrawalCase struct {
	Subject Subject `json:"subject"`
	// Configured says that this installation has providers.
	Configured bool `json:"configured"`
	// Threshold is the organization's own; nil: WithdrawalThreshold.
	Threshold *Severity        `json:"withdrawSeverityThreshold"`
	UnknownAs UnknownTreatment `json:"unknownSeverityTreatment"`
	Answer    *Answer          `json:"answer"` // nil: not asked
	Now       time.Time        `json:"now"`
}

// WithdrawalOutcome is what follows for a withdrawal from the gate of risk.
type WithdrawalOutcome string

// The outcomes of the gate.
const (
	Pass              WithdrawalOutcome = "PASS"
	ScreenDestination WithdrawalOutcome = "ASK"   // ask the providers and decide again
	HoldForRisk       WithdrawalOutcome = "HOLD"  // RISK_REVIEW: never sent without a person
	Block             WithdrawalOutcome = "BLOCK" // 451
)

// WithdrawalDecision is what the gate of risk says, and why.
type WithdrawalDecision struct {
	Outcome   WithdrawalOutcome `json:"outcome"`
	Status    Status            `json:"status"`
	Reason    string            `json:"reason"`
	Threshold Severity          `json:"threshold"` // the one that held
	Verdict   *Verdict          `json:"verdict"`
}

// DecideWithdrawal is the gate of risk, whatever the value. Only an installation
// without providers whose organization has set no threshold of its own lets pass
// what nobody looked at, and says NOT_CONFIGURED. Rules RISK-6 and RISK-7.
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

// DepositRecord is a decision with all it was made of, for keeping.
type DepositRecord struct {
	Case     DepositCase     `json:"case"`
	Decision DepositDecision `json:"decision"`
}

// WithdrawalRecord is a decision with all it was made of, for keeping.
type WithdrawalRecord struct {
	Case     WithdrawalCase     `json:"case"`
	Decision WithdrawalDecision `json:"decision"`
}

// ReplayDeposit decides a kept case again. Error: the record cannot be read, or the
// decision is another than the one that was kept.
func ReplayDeposit(record []byte) (DepositRecord, error) {
	var r DepositRecord
	if err := decodeStrict(record, &r); err != nil {
		return r, fmt.Errorf("read a decision about a deposit: %w", err)
	}
	return r, checkSame(r.Decision, DecideDeposit(r.Case))
}

// ReplayWithdrawal decides a kept case again. Errors: those of ReplayDeposit.
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

// checkSame compares in the form that is kept.
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
