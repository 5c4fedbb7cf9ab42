package withdrawal

import (
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Facts hold everything that Decide reads.
type Facts struct {
	parsed                     // the request, or the terms of the withdrawal that is approved
	request  Request           // as the caller sent it; empty for an approval
	approval *approvalFacts    // the withdrawal that a person approves; nil: a new request is decided
	existing *request.Accepted // the withdrawal that has the request's key, or nil
	limitErr error             // why the caller may not send a new request now, or nil
	parseErr error             // why the request could not be parsed, or nil
	isLoaded bool              // the facts below are loaded
	// isPreview says that nothing is written, whatever is decided.
	isPreview bool
	// wasBlocked says that the decision of a moment ago was BLOCKED: the treasury is unknown.
	wasBlocked bool

	activeFreeze *freeze.Freeze
	keyRequired  bool // the organization requires an idempotency key

	isUnspendable   bool          // the destination's key is known to be held by no person
	isOwnAddress    bool          // the destination is a wallet of this installation
	isTokenContract bool          // the destination is a token's contract
	lookalike       chain.Address // a known destination that looks like this one, or ""
	// failedWithdrawalID names the withdrawal to the destination that the chain reverted, unless an
	// approved one succeeded since; or "".
	failedWithdrawalID string

	entry        WhitelistEntry // the whitelist entry of the destination
	entryRefusal *fault.Fault   // why the entry may not be paid, or nil

	balance       money.Amount          // what the customer or the product may spend
	screening     risk.WithdrawalRecord // about the destination; Decide sets its decision
	isAllowlisted bool                  // the customer's trusted e-mail is on the approval allowlist
	quorum        int                   // approvals that the organization requires for a held payment
	threshold     *money.USD            // nil: the organization has set none
	usdValue      *money.USD            // nil: no price that is fresh enough
	quote         *price.Quote          // the price source's answer, fresh or not; nil: none
	quotedAt      time.Time             // when the source answered
	liquid        money.Amount

	costs    costs
	charging charging
	ruleFacts

	payerAddress chain.Address // the treasury's address, or "" before the organization's first payment
	treasury     wallet.Wallet // the wallet of that address, if it was looked up
	native       mint.Mint     // the chain's native coin
	hasNative    bool          // the catalogue has the native coin
	fee          *money.Amount // the most that the network would take now; nil: unknown or not needed
	feeKept      *money.Amount // the fee deducted from a customer's amount by an earlier order, or nil
	minReachable *money.Amount // the smallest payment that reaches the destination; nil: the chain does not say
}

// approvalFacts hold what an approval changes, and whether the approver saw it.
type approvalFacts struct {
	row          storedWithdrawal
	areTermsSeen bool              // the terms are those that were requested, and those that the approver saw
	counting     []signer.Approval // approvals of this round before this one that count

	signature      *signer.KeySignature    // of the person's passkey; nil for none
	signatureFault *fault.Fault            // why the signature is not valid, or nil
	signed         *signer.SignedStatement // the valid signature with its words, or nil
	page           string                  // where people sign, or ""
}

// Decision is the combined result of the gates.
type Decision struct {
	Status  Status   `json:"status,omitempty"` // "" while facts are missing
	Reasons []Reason `json:"reasons"`
	Gates   []Step   `json:"gates"`
}

// Plan says what one transaction is to write. It is written whole, or nothing is.
type Plan struct {
	ExistingID string // the withdrawal that has the request's key: nothing is written
	// ScreenFirst says that no gate refuses, and that the destination has no answer of screening
	// yet. Without one the plan holds the withdrawal.
	ScreenFirst bool

	Decision
	Act    Act
	Answer *fault.Fault // what the caller is told in place of the withdrawal, or nil

	Screening   risk.WithdrawalRecord
	Amount      money.Amount  // what the withdrawal takes, without the hold for a charge
	Hold        money.Amount  // what is taken from the balance; zero: no posting
	DeductedFee *money.Amount // the part of Amount that pays the network, fixed with the plan; or nil
	Charge      charge        // what the customer may be charged in addition
	Required    int           // approvals that the payment requires; 0: it was not held
	IsCovered   bool          // people approved it with its swap, and it needs those approvals
}

// Rejection says why nothing is written.
type Rejection struct {
	Err   error  // a fault, or the error of the request's limit
	Gates []Step // the gates that ran; nil: it was refused before them
}

// Decide decides about a request, a preview or an approval. It is pure: it reads the facts and
// nothing else. It is called as often as facts arrive:
//
//   - with the rows that the request names: a known key is answered, or the request is refused
//     before anything else is loaded;
//   - with all facts, outside the writing transaction: a refusal creates no treasury, and tells
//     whether the destination has to be screened;
//   - with all facts that the writing transaction sees: this decision counts.
func Decide(f Facts) (Plan, *Rejection) {
	if f.existing != nil {
		return decideReplay(f)
	}
	if refusal := refuseEarly(f); refusal != nil {
		return Plan{}, &Rejection{Err: refusal}
	}
	if !f.isLoaded {
		return Plan{}, nil
	}
	f.screening.Decision = risk.DecideWithdrawal(f.screening.Case)
	if f.approval == nil {
		f.computeCharge()
	}
	d, refusal := runGates(f)
	if f.approval != nil {
		return decideApproval(f, d, refusal)
	}
	return decideRequest(f, d, refusal)
}

// decideReplay answers a known key: with the existing withdrawal, or with a conflict when the
// request means another payment. A request that cannot be parsed is another payment. The digest of
// a restored withdrawal has only what the signer's journal knows. Rules IDEM-1, IDEM-2 and IDEM-3.
func decideReplay(f Facts) (Plan, *Rejection) {
	e, wantDigest := f.existing, f.digest
	if f.request.hasOwnKey() {
		return Plan{ExistingID: e.ID}, nil
	}
	if e.IsRestored {
		wantDigest = f.restorableDigest
	}
	if f.parseErr != nil || !e.IsRepeatedBy(wantDigest, f.request.Reference) {
		return Plan{}, &Rejection{Err: fault.New(fault.Conflict, fault.IdempotencyConflict, fault.NothingHeld,
			"This idempotencyKey belongs to %s, a withdrawal with other parameters.", e.ID).
			WithAdvice("Repeat the original request to see that withdrawal, or use a new key for a new payment.").
			WithParam("idempotencyKey").WithExtra("existingId", e.ID)}
	}
	return Plan{ExistingID: e.ID}, nil
}

// refuseEarly checks what needs no facts but the rows that the request names.
func refuseEarly(f Facts) error {
	if a := f.approval; a != nil {
		switch {
		case a.row.status != AwaitingApproval:
			return newInvalidState("approved", a.row.status)
		case a.row.isVoid:
			return newTakenBack()
		case !a.areTermsSeen:
			return newTermsChanged()
		}
		return nil
	}
	if f.limitErr != nil {
		return f.limitErr
	}
	if !f.isLoaded { // else it is the first gate
		if _, refusal := checkFreeze(f); refusal != nil {
			return refusal
		}
	}
	return f.parseErr
}

type gate func(Facts) (Step, *fault.Fault)

// Gates of a customer's request, of a request for the organization's own money, and of an approval,
// in order. First come the refusals: by the request itself, by a suspension, by the destination, by
// the balance, by screening. Then come the holds.
var (
	customerGates = []gate{
		checkFreeze, requireKey, checkMinimum, checkSuspended, checkAddress, checkCharge, checkBalance, checkRisk,
		requireApproval, checkThreshold, checkRule, checkDestination, checkLiquidity, checkNetworkFee,
		checkCustomerCosts,
	}
	// Rule OW-1. A member asks, so no idempotency key is required, and the approval allowlist for
	// customers does not apply.
	organizationGates = []gate{
		checkFreeze, checkMinimum, checkSuspended, checkWhitelist, checkAddress, checkBalance, checkRisk,
		checkThreshold, checkRule, checkDestination, checkLiquidity, checkNetworkFee,
	}
	// A refund goes to its payer, and a row of a batch to whom people approved; no whitelist names them.
	// Rules CO-84 and BP-5.
	unlistedGates = []gate{
		checkFreeze, checkMinimum, checkSuspended, checkAddress, checkBalance, checkRisk, checkThreshold, checkRule,
		checkDestination, checkLiquidity, checkNetworkFee,
	}
	// An approval checks again what may have changed for the worse since the request. The balance
	// is not checked, because the amount is held. Rule WD-32.
	approvalGates = []gate{
		checkFreeze, checkSuspended, recheckWhitelist, recheckAddress, recheckNetworkFee, recheckReachable,
		recheckRisk, checkThreshold, recheckDestination, recheckCustomerCosts, recheckRule,
	}
)

// runGates runs every gate in order. The first refusal ends them; holds add up. The status is
// BLOCKED if screening refuses, and "" after any other refusal.
func runGates(f Facts) (Decision, *fault.Fault) {
	d := Decision{Reasons: []Reason{}}
	gates := customerGates
	switch {
	case f.approval != nil:
		gates = approvalGates
	case f.owner.IsRefund(), f.owner.IsBatch():
		gates = unlistedGates
	case f.owner.IsOrganization():
		gates = organizationGates
	}
	for _, check := range gates {
		step, refusal := check(f)
		if step.Gate != "" {
			d.Gates = append(d.Gates, step)
		}
		if refusal != nil {
			if step.Gate == GateRisk {
				d.Status = Blocked
			}
			return d, refusal
		}
		if step.Result == ResultHold {
			d.Reasons = append(d.Reasons, step.Reason)
		}
	}
	d.Status = Processing
	if len(d.Reasons) > 0 {
		d.Status = AwaitingApproval
	}
	return d, nil
}

// decideRequest returns the plan of a request whose gates ran. A destination that screening refuses
// is recorded, without a hold; every other refusal writes nothing.
func decideRequest(f Facts, d Decision, refusal *fault.Fault) (Plan, *Rejection) {
	p := Plan{Decision: d, Act: ActRequested, Screening: f.screening, Amount: f.amount, Charge: f.charging.charge}
	switch {
	case refusal != nil && d.Status != Blocked:
		return Plan{}, &Rejection{Err: refusal, Gates: d.Gates}
	case d.Status == Blocked:
		p.Answer = refusal
		if f.isTotal { // the record is of the whole output, like a payout that is made
			p.Amount, _ = f.debitAmount() // it is the output that was asked for
		}
		return p, nil
	case d.Status == Processing && f.wasBlocked:
		// Screening refused the destination a moment ago, and the organization's threshold has
		// changed since.
		changed := fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingHeld,
			"The organization's settings changed while the service decided about this withdrawal.").
			WithStep(fault.RepeatWithSameKey)
		return Plan{}, &Rejection{Gates: d.Gates, Err: changed}
	}
	p.ScreenFirst = f.screening.Decision.Outcome == risk.ScreenDestination
	p.Hold, _ = f.debitAmount() // checkBalance has refused a sum above the largest amount
	// A customer's fee is fixed when the order is submitted: an approval may come days later, at
	// another fee. What an organization holds for the fee on top of its amount is fixed now.
	if f.owner.IsOrganization() {
		p.DeductedFee, p.Amount = f.deductedFee(), p.Hold
	} else if d.Status == Processing {
		p.DeductedFee = f.deductedFee()
	}
	if d.Status == AwaitingApproval {
		p.Required = max(f.quorum, f.peopleByRule())
	}
	p.IsCovered = d.Status == Processing && f.isCovered() && slices.ContainsFunc(d.Gates, func(s Step) bool {
		return (s.Gate == GateUSDThreshold || s.Gate == GateApprovalRule) && s.Result == ResultSkipped
	})
	return p, nil
}

// decideApproval returns the plan of an approval whose gates ran:
//
//   - The holds that the approver could see are what the approver decides.
//   - A reason that the approver could not see is recorded. Then nothing is sent, and the next
//     approval covers that reason, too.
//   - No approval is possible while screening gives no answer, or once it refuses the destination.
//
// Rules WD-32 and WD-35.
func decideApproval(f Facts, d Decision, refusal *fault.Fault) (Plan, *Rejection) {
	row := f.approval.row
	p := Plan{Decision: d, Screening: f.screening, DeductedFee: row.deductedFee}
	found := slices.DeleteFunc(d.Reasons, func(r Reason) bool { return slices.Contains(row.reasons, r) })
	switch {
	case d.Status == Blocked:
		found = []Reason{ReasonRiskReview}
	case refusal != nil:
		return Plan{}, &Rejection{Err: refusal, Gates: d.Gates}
	case len(found) > 0:
		refusal = fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"New reasons apply since the withdrawal was last shown: %v.", found).
			WithAdvice("Look at it, and approve it again or remove it.")
	}
	p.Reasons = found
	if len(found) > 0 {
		p.Act, p.Status, p.Answer = ActApprovalRefused, AwaitingApproval,
			refusal.WithDetail("approvalReasons", found)
		return p, nil
	}
	p.Required = row.approvalsRequired
	if p.Required == 0 { // held before approvals were counted
		p.Required = f.quorum
	}
	if row.batch == nil { // people sign a batch, not its rows
		p.Required = max(p.Required, f.peopleByRule())
	}
	if len(f.approval.counting)+1 < p.Required {
		p.Act, p.Status = ActApprovalAdded, AwaitingApproval
		return p, nil
	}
	p.Act, p.Status = ActApproved, Processing
	if fee := f.deductedFee(); fee != nil {
		p.DeductedFee = fee
	}
	return p, nil
}

// deductedFee returns the part of the amount that pays the fee once the order is submitted, or nil.
func (f Facts) deductedFee() *money.Amount {
	if !f.deductsFee {
		return nil
	}
	return f.fee
}

// receivedAmount returns what the destination would receive. It fails if the fee takes all of it.
func (f Facts) receivedAmount() (money.Amount, error) {
	fee := f.feeKept
	if !f.owner.IsOrganization() && f.deductedFee() != nil {
		fee = f.deductedFee()
	}
	if fee == nil {
		return f.amount, nil
	}
	return f.amount.Sub(*fee)
}

// minAmount returns the smallest amount that a request may have: the mint's minimum, or the
// smallest payment that reaches the destination plus the fee that comes out of it.
func (f Facts) minAmount() money.Amount {
	minimum := f.mint.MinWithdraw
	if f.minReachable != nil {
		reaching := *f.minReachable
		if fee := f.deductedFee(); fee != nil && !f.owner.IsOrganization() {
			if sum, err := reaching.Add(*fee); err == nil {
				reaching = sum
			}
		}
		if minimum.Less(reaching) {
			minimum = reaching
		}
	}
	return minimum
}

// debitAmount returns what leaves the balance. A customer pays the amount and the hold for a
// charge. A product pays the amount and the quoted fee on top. It fails above the largest amount.
// Rule OW-4.
func (f Facts) debitAmount() (money.Amount, error) {
	if fee := f.deductedFee(); fee != nil && f.owner.IsOrganization() {
		return f.amount.Add(*fee)
	}
	return f.amount.Add(f.charging.held)
}
