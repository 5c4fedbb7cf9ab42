package withdrawal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
)

// facts are everything that decides about a request. They are gathered in one
// transaction, and decide reads nothing else.
type facts struct {
	owner        owner
	mint         mint.Mint
	amount       money.Amount
	activeFreeze *freeze.Freeze
	keyRequired  bool // the organization demands an idempotency key
	keyGiven     bool
	chainRuns    bool // this installation talks to the mint's chain

	destination        chain.Address
	isUnspendable      bool          // nobody holds the destination's key
	isOwnAddress       bool          // the destination is a wallet of this installation
	isTokenContract    bool          // the destination is a token's contract
	lookalike          chain.Address // a known destination that it could be mistaken for, or ""
	failedWithdrawalID string        // the withdrawal to the destination that failed on the chain, and none after it succeeded; or ""

	isMax        bool           // an organization wants all of its balance: amount follows from it
	entry        WhitelistEntry // what the organization's list says of the destination's entry
	entryRefusal *fault.Fault   // why nothing may be paid to that entry, or nil

	balance         money.Amount          // what the customer or the product may spend
	screening       risk.WithdrawalRecord // what is known of who is behind the destination
	isAllowlisted   bool                  // the approval allowlist has the customer's e-mail, which is trusted
	requireApproval bool
	quorum          int          // approvals that the organization wants of a payment that is held
	threshold       *money.USD   // nil: the organization has set none
	usdValue        *money.USD   // nil: no price that is fresh enough
	quote           *price.Quote // what the price's source said, fresh or not; nil: nothing
	quotedAt        time.Time    // when it said so
	liquid          money.Amount

	costs    costs
	charging charging

	deductsFee   bool          // the fee comes out of the amount; of a product's balance, it comes on top
	feeMax       *money.Amount // the caller's limit of the fee, or nil
	fee          *money.Amount // the most that the network would take now; nil: unknown, or nobody needs it
	feeKept      *money.Amount // the fee that came out of a customer's amount when it was ordered before, or nil
	minReachable *money.Amount // the smallest payment that reaches the destination; nil: the chain does not say
}

// deductedFee is the part of the amount that is kept for the fee once the payment is
// ordered, or nil.
func (f facts) deductedFee() *money.Amount {
	if !f.deductsFee {
		return nil
	}
	return f.fee
}

// receivedAmount is what the destination would receive. Error: the fee takes all of it.
func (f facts) receivedAmount() (money.Amount, error) {
	fee := f.feeKept
	if f.owner.product == "" && f.deductedFee() != nil {
		fee = f.deductedFee()
	}
	if fee == nil {
		return f.amount, nil
	}
	return f.amount.Sub(*fee)
}

// minAmount is the least amount that may be asked for: the mint's, or what reaches the
// destination with the fee that comes out of it.
func (f facts) minAmount() money.Amount {
	minimum := f.mint.MinWithdraw
	if f.minReachable != nil {
		reaching := *f.minReachable
		if fee := f.deductedFee(); fee != nil && f.owner.product == "" {
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

// debitAmount is what leaves the balance: the amount, with a customer what is held for a charge,
// and with a product the fee on top that was quoted. Error: more than an amount can be.
func (f facts) debitAmount() (money.Amount, error) {
	if fee := f.deductedFee(); fee != nil && f.owner.product != "" {
		return f.amount.Add(*fee)
	}
	return f.amount.Add(f.charging.held)
}

// Gate is one question that a request has to pass.
type Gate string

// The gates, in the order in which they are asked. The first refusal is the
// answer; holds add up.
const (
	GateFreeze         Gate = "FREEZE"
	GateIdempotencyKey Gate = "IDEMPOTENCY_KEY"
	GateMinimum        Gate = "MINIMUM"
	GateSuspended      Gate = "SUSPENDED"
	GateWhitelist      Gate = "WHITELIST"
	GateAddress        Gate = "ADDRESS"
	GateBalance        Gate = "BALANCE"
	GateRisk           Gate = "RISK"
	GateApproval       Gate = "REQUIRE_APPROVAL"
	GateUSDThreshold   Gate = "USD_THRESHOLD"
	GateDestination    Gate = "DESTINATION_ADDRESS"
	GateLiquidity      Gate = "LIQUIDITY"
	GateNetworkFee     Gate = "NETWORK_FEE"
	GateCustomerCosts  Gate = "CUSTOMER_COSTS"
	GateCustomerCharge Gate = "CUSTOMER_CHARGE"
	// GateSigner is no gate of a request: it stands in the record where the signer or
	// the chain has sent an order back.
	GateSigner Gate = "SIGNER"
)

// Result is what a gate said.
type Result string

// The results.
const (
	ResultPass          Result = "PASS"
	ResultHold          Result = "HOLD"
	ResultRefuse        Result = "REFUSE"
	ResultBlock         Result = "BLOCK"   // refused, and a record is kept
	ResultSkipped       Result = "SKIPPED" // it would hold, and the approval allowlist has the customer
	ResultNotConfigured Result = "NOT_CONFIGURED"
)

// Step is one gate in the record of a decision, with what it looked at.
type Step struct {
	Gate   Gate              `json:"gate"`
	Result Result            `json:"result"`
	Reason Reason            `json:"reason,omitempty"`
	Inputs map[string]string `json:"inputs,omitempty"`
}

// Decision is what the gates said together. A request and its preview are decided by
// the same one.
type Decision struct {
	Status  Status   `json:"status,omitempty"` // "" when refused without a record
	Reasons []Reason `json:"reasons"`
	Gates   []Step   `json:"gates"`

	refusal *fault.Fault
}

// runGates asks every gate in order: refusals by the request itself, by what is
// suspended, by the destination, by the balance, by risk; then the holds.
func runGates(f facts) Decision {
	d := Decision{Reasons: []Reason{}}
	gates := []func(facts) (Step, *fault.Fault){
		checkFreeze, requireKey, checkMinimum, checkSuspended, checkAddress, checkCharge, checkBalance, checkRisk,
		requireApproval, checkThreshold, checkDestination, checkLiquidity, checkNetworkFee, checkCustomerCosts,
	}
	if f.owner.product != "" {
		// Rule OW-1. A person asks, who needs no key and whom no list of customers lets pass.
		gates = []func(facts) (Step, *fault.Fault){
			checkFreeze, checkMinimum, checkSuspended, checkWhitelist, checkAddress, checkBalance, checkRisk,
			checkThreshold, checkDestination, checkLiquidity, checkNetworkFee,
		}
	}
	for _, check := range gates {
		step, refusal := check(f)
		d.Gates = append(d.Gates, step)
		if refusal != nil {
			d.refusal = refusal
			if step.Result == ResultBlock {
				d.Status = Blocked
			}
			return d
		}
		if step.Result == ResultHold {
			d.Reasons = append(d.Reasons, step.Reason)
		}
	}
	d.Status = Processing
	if len(d.Reasons) > 0 {
		d.Status = AwaitingApproval
	}
	return d
}

// recheckForApproval is what an approval asks again: what may have changed for the worse
// since the request. The balance is held. Of the holds those are what is being decided
// that the person could see; who is behind the destination and what the amount is
// worth are asked again, and what they say beyond seen is found: then nothing goes
// out, and whoever approves again has seen it. While nobody answers who has to, and
// once screening refuses the destination, nobody can approve.
func recheckForApproval(f facts, shownReasons []Reason) (steps []Step, found []Reason, refusal *fault.Fault) {
	steps, refusal = recheckRefusals(f)
	if refusal != nil {
		return steps, nil, refusal
	}
	step, blockedBy := checkRisk(f)
	steps = append(steps, step)
	answer := f.screening.Case.Answer
	switch {
	case blockedBy != nil:
		return steps, []Reason{ReasonRiskReview}, fault.New(fault.Conflict, fault.ApprovalRefused,
			"Risk screening refuses the destination now. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it.").
			WithDetail("approvalReasons", []Reason{ReasonRiskReview})
	case step.Result == ResultHold && f.screening.Case.Configured && (answer == nil || answer.Unavailable != ""):
		return steps, []Reason{ReasonRiskReview}, fault.New(fault.Conflict, fault.ApprovalRefused,
			"Risk screening gives no answer about the destination at the moment, and nothing is sent without one. The withdrawal still waits and the amount is still held. Approve it again later, or remove it.").
			WithDetail("approvalReasons", []Reason{ReasonRiskReview})
	}
	thresholdStep, _ := checkThreshold(f)
	steps = append(steps, thresholdStep)
	destination, _ := checkDestination(facts{failedWithdrawalID: f.failedWithdrawalID}) // a likeness was there to be seen
	if destination.Result == ResultHold {
		steps = append(steps, destination)
	}
	cost, _ := checkCustomerCosts(f)
	if cost.Result == ResultHold {
		steps = append(steps, cost)
	}
	for _, s := range []Step{step, thresholdStep, destination, cost} {
		if s.Result == ResultHold && !slices.Contains(shownReasons, s.Reason) {
			found = append(found, s.Reason)
		}
	}
	if len(found) > 0 {
		return steps, found, fault.New(fault.Conflict, fault.ApprovalRefused,
			"Since the withdrawal was last shown there is more to look at: %v. Nothing was sent; the withdrawal still waits and the amount is still held. Look at it, and approve it again or remove it.", found).
			WithDetail("approvalReasons", found)
	}
	return steps, nil, nil
}

// recheckRefusals asks what no person can approve.
func recheckRefusals(f facts) (steps []Step, refusal *fault.Fault) {
	for _, check := range []func(facts) (Step, *fault.Fault){checkFreeze, checkSuspended} {
		step, refusal := check(f)
		steps = append(steps, step)
		if refusal != nil {
			return steps, refusal
		}
	}
	if f.owner.product != "" {
		step, refusal := checkWhitelist(f)
		steps = append(steps, step)
		if refusal != nil {
			return steps, fault.New(fault.Conflict, fault.ApprovalRefused,
				"The destination may not be paid as the organization's list of addresses is now: %s. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it, or approve it when the address may be paid.", step.Inputs["why"])
		}
	}
	step, refusal := checkAddress(f)
	steps = append(steps, step)
	if refusal != nil {
		return steps, fault.New(fault.Conflict, fault.ApprovalRefused,
			"The destination is no longer allowed: it is now an address of this installation, a token's contract or an address that nobody holds. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it and ask for one to another address.")
	}
	if !f.deductsFee {
		return recheckReachable(f, steps)
	}
	step, refusal = checkNetworkFee(f)
	steps = append(steps, step)
	switch fee := f.fee; {
	case fee == nil:
		return steps, fault.New(fault.Unavailable, fault.CodeUnavailable,
			"The chain does not say at the moment what the network fee would be, which decides what the destination receives. Nothing was sent; the withdrawal still waits and the amount is still held. Approve it again shortly.")
	case refusal != nil:
		return steps, refusal
	case !fee.Less(f.amount), step.Result == ResultHold:
		return steps, fault.New(fault.Conflict, fault.ApprovalRefused,
			"The network fee comes out of the amount, and at the moment it would be %s atomic units: all of the amount, or more than the request allows. Nothing was sent; the withdrawal still waits and the amount is still held. Approve it when the network is cheaper, or remove it.", fee)
	}
	return recheckReachable(f, steps)
}

// recheckReachable asks again whether what the destination would receive can reach it.
func recheckReachable(f facts, steps []Step) ([]Step, *fault.Fault) {
	s := Step{Gate: GateMinimum, Result: ResultPass, Inputs: map[string]string{"minimum": f.minAmount().String()}}
	if !f.isUnreachable() {
		return append(steps, s), nil
	}
	s.Result = ResultRefuse
	received, _ := f.receivedAmount()
	return append(steps, s), fault.New(fault.Conflict, fault.ApprovalRefused,
		"The smallest payment that reaches the destination at the moment is %s atomic units, and of this withdrawal it would receive %s. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it and ask for more, or approve it once less reaches the destination or the network is cheaper.", f.minReachable, received)
}

func checkFreeze(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateFreeze, Result: ResultPass}
	if f.activeFreeze == nil {
		return s, nil
	}
	s.Inputs = map[string]string{"freeze": f.activeFreeze.ID, "scope": string(f.activeFreeze.Scope)}
	switch f.activeFreeze.Scope {
	case freeze.ScopeCustomer:
		s.Result = ResultRefuse
		return s, fault.New(fault.Forbidden, fault.CustomerFrozen,
			"This customer is frozen, so nothing may leave the balance. Nothing was held and nothing was sent. Whoever froze the customer has to lift it first.").WithParam("customerId")
	case freeze.ScopeOrganization:
		s.Result = ResultRefuse
		return s, fault.New(fault.Forbidden, fault.OrganizationFrozen,
			"Your organization is frozen, so nothing may leave its balances. Nothing was held and nothing was sent. Ask the operator of this service.")
	}
	return s, nil
}

func requireKey(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateIdempotencyKey, Result: ResultPass}
	if f.keyRequired && !f.keyGiven {
		s.Result = ResultRefuse
		return s, fault.New(fault.Invalid, fault.InvalidRequest,
			"Your organization requires an idempotencyKey on every withdrawal, and this request has none. Nothing was held and nothing was sent. Send one key for each payment you mean, and the same key when you repeat it.").WithParam("idempotencyKey")
	}
	return s, nil
}

// checkWhitelist asks whether an organization's own money may go there: to an entry of its
// list that may be used now, on the mint's chain, with just this address.
// Rule OW-2.
func checkWhitelist(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateWhitelist, Result: ResultRefuse, Inputs: map[string]string{}}
	if f.entryRefusal != nil {
		s.Inputs["why"] = f.entryRefusal.Message
		return s, f.entryRefusal
	}
	refuse := func(reason string) (Step, *fault.Fault) {
		s.Inputs["why"] = reason
		return s, fault.New(fault.Unprocessable, fault.AddressNotWhitelisted,
			"Your organization's own money goes only to addresses on its list: %s. Nothing was held and nothing was sent. Choose an address of the list that may be used, or ask the operator of this service to add one.", reason).WithParam("whitelistedAddressId")
	}
	switch {
	case f.entry.Address == "" || f.entry.Address != f.destination:
		return refuse("the entry has another address")
	case f.entry.Chain != f.mint.Chain:
		return refuse("the address is of another chain than the mint")
	}
	s.Result = ResultPass
	return s, nil
}

// checkMinimum asks whether the amount is one that is paid, and whether what the destination
// receives of it can reach it. Dispatch asks the latter again right before the slot.
func checkMinimum(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateMinimum, Result: ResultPass, Inputs: map[string]string{"minimum": f.minAmount().String()}}
	if f.amount.Less(f.mint.MinWithdraw) {
		s.Result = ResultRefuse
		return s, fault.New(fault.Invalid, fault.AmountBelowMinimum,
			"The smallest withdrawal of %s is %s atomic units (%s %s). Nothing was held and nothing was sent. Ask for at least that much.",
			f.mint.Symbol, f.mint.MinWithdraw, f.mint.MinWithdraw.Decimal(f.mint.Decimals), f.mint.Symbol).
			WithParam("amount").WithDetail("minWithdrawAmount", f.mint.MinWithdraw.String())
	}
	if fee := f.deductedFee(); fee != nil && f.owner.product == "" && !fee.Less(f.amount) {
		s.Result, s.Inputs["networkFee"] = ResultRefuse, fee.String()
		return s, fault.New(fault.Invalid, fault.AmountBelowMinimum,
			"The network fee comes out of the amount, and at the moment it would be %s atomic units: nothing would be left. Nothing was held and nothing was sent. Ask for more, or let your organization pay the fee.", fee).
			WithParam("amount").WithDetail("networkFee", fee.String()).WithDetail("minWithdrawAmount", f.minAmount().String())
	}
	if !f.isUnreachable() {
		return s, nil
	}
	s.Result = ResultRefuse
	received, _ := f.receivedAmount()
	refusal := fault.New(fault.Invalid, fault.AmountBelowMinimum,
		"The smallest payment of %s that reaches this destination at the moment is %s atomic units, and it would receive %s. Nothing was held and nothing was sent. Ask for at least %s.",
		f.mint.Symbol, f.minReachable, received, f.minAmount()).
		WithParam("amount").WithDetail("minWithdrawAmount", f.minAmount().String())
	if fee := f.deductedFee(); fee != nil {
		s.Inputs["networkFee"] = fee.String()
		refusal = refusal.WithDetail("networkFee", fee.String())
	}
	return s, refusal
}

// isUnreachable tells whether the chain would not let the destination have what is left for
// it.
func (f facts) isUnreachable() bool {
	if f.minReachable == nil {
		return false
	}
	received, err := f.receivedAmount()
	return err != nil || received.Less(*f.minReachable)
}

func checkSuspended(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateSuspended, Result: ResultPass}
	var reason string
	switch {
	case !f.chainRuns:
		reason = "This installation does not talk to that mint's chain."
	case f.mint.Quarantined:
		reason = "That token behaved against its own rules and is in quarantine."
	case !f.mint.WithdrawEnabled:
		reason = "Withdrawals of that mint are switched off."
	case f.activeFreeze != nil && f.activeFreeze.Scope != freeze.ScopeCustomer && f.activeFreeze.Scope != freeze.ScopeOrganization:
		reason = "Outgoing payments are stopped at the moment."
	default:
		return s, nil
	}
	s.Result = ResultRefuse
	s.Inputs = map[string]string{"why": reason}
	return s, fault.New(fault.Unprocessable, fault.WithdrawalsSuspended,
		"%s Nothing was held and nothing was sent. Try again later with the same idempotencyKey, or ask the operator of this service.", reason).WithParam("mintId")
}

func checkAddress(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateAddress, Result: ResultPass}
	reason := wallet.PayeeCheck{IsUnspendable: f.isUnspendable, IsOwn: f.isOwnAddress, IsTokenContract: f.isTokenContract}.RefusalReason()
	if reason == "" {
		return s, nil
	}
	s.Result = ResultRefuse
	s.Inputs = map[string]string{"why": reason}
	if f.owner.product != "" {
		return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed,
			"Withdrawals to this address are not allowed, although it is on the list: %s. Nothing was held and nothing was sent. Have it taken from the list, and choose another one.", reason).WithParam("whitelistedAddressId")
	}
	return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed,
		"Withdrawals to this address are not allowed: %s. Nothing was held and nothing was sent. Give an address of your customer's own.", reason).WithParam("toAddress")
}

func checkBalance(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateBalance, Result: ResultPass, Inputs: map[string]string{"available": f.balance.String()}}
	debit, err := f.debitAmount()
	if err != nil || f.amount.IsZero() || f.balance.Less(debit) {
		s.Result = ResultRefuse
		refusal := newInsufficient(f.owner, f.mint)
		if held := f.charging.held; !held.IsZero() {
			s.Inputs["rentMax"] = held.String()
			refusal = refusal.WithDetail("rentMax", held.String())
		}
		return s, refusal
	}
	return s, nil
}

// newInsufficient is the one answer to too little money, whether the customer is
// unknown, has nothing, or was quicker elsewhere.
func newInsufficient(o owner, m mint.Mint) *fault.Fault {
	if o.product != "" {
		return fault.New(fault.Unprocessable, fault.InsufficientBalance,
			"What %s has available of %s on %s is less than the amount, with the network fee on top for the chain's own coin. Nothing was held and nothing was sent. Look at GET /balances and ask for less, or for the maximum.",
			o.product, m.Symbol, m.Chain).WithParam("amount")
	}
	return fault.New(fault.Unprocessable, fault.InsufficientBalance,
		"The customer's available balance of %s on %s is smaller than the amount, with what your organization charges for an account of the payee where it does. Nothing was held and nothing was sent. Look at GET /customers/{customerId}/balances and ask for less, or wait for a deposit.",
		m.Symbol, m.Chain).WithParam("amount")
}

// checkRisk is the gate of risk, whatever the amount is worth. What it does not let
// pass by name it holds: a question that nobody has answered as well.
func checkRisk(f facts) (Step, *fault.Fault) {
	d := f.screening.Decision
	s := Step{Gate: GateRisk, Result: ResultHold, Reason: ReasonRiskReview, Inputs: map[string]string{}}
	if d.Threshold != "" {
		s.Inputs["threshold"] = string(d.Threshold)
	}
	if v := d.Verdict; v != nil {
		s.Inputs["severity"], s.Inputs["provider"] = string(v.Severity), v.Provider
	}
	switch {
	case d.Outcome == risk.Pass && d.Status == risk.StatusNotConfigured:
		return Step{Gate: GateRisk, Result: ResultNotConfigured}, nil
	case d.Outcome == risk.Pass:
		s.Result, s.Reason = ResultPass, ""
	case d.Outcome == risk.Block:
		s.Result, s.Reason = ResultBlock, ""
		return s, newBlocked(d)
	default:
		s.Inputs["why"] = "Nobody could say enough of who is behind this address."
	}
	return s, nil
}

// newBlocked is the answer to a destination that screening refuses.
func newBlocked(d risk.WithdrawalDecision) *fault.Fault {
	f := fault.New(fault.Blocked, fault.WithdrawalRiskBlocked,
		"Withdrawal blocked by risk screening. Nothing was held and nothing was sent. Repeating it with this destination does not help: ask your customer for another address, or ask the operator of this service.")
	severity, categories := risk.Unknown, []string{}
	if v := d.Verdict; v != nil {
		severity = v.Severity
		categories = append(categories, v.Categories...)
	}
	return f.WithDetail("severity", string(severity)).WithDetail("categories", categories)
}

// skipIfAllowlisted is a hold that the approval allowlist takes away. It is asked of those
// three reasons and of no other.
func skipIfAllowlisted(f facts, s Step) Step {
	if f.isAllowlisted {
		s.Result, s.Reason = ResultSkipped, ""
		if s.Inputs == nil {
			s.Inputs = map[string]string{}
		}
		s.Inputs["why"] = "The approval allowlist has the customer's e-mail."
	}
	return s
}

func requireApproval(f facts) (Step, *fault.Fault) {
	if f.requireApproval {
		return skipIfAllowlisted(f, Step{Gate: GateApproval, Result: ResultHold, Reason: ReasonRequireApproval}), nil
	}
	return Step{Gate: GateApproval, Result: ResultPass}, nil
}

func checkThreshold(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateUSDThreshold, Result: ResultPass}
	if f.threshold == nil {
		s.Result = ResultNotConfigured
		return s, nil
	}
	s.Inputs = map[string]string{"threshold": formatUSD(*f.threshold)}
	if f.quote != nil {
		s.Inputs["price"], s.Inputs["priceSource"] = formatUSD(f.quote.Price), f.quote.Source
		s.Inputs["priceAt"] = f.quote.QuotedAt.UTC().Format(time.RFC3339Nano)
		s.Inputs["priceAgeSeconds"] = fmt.Sprint(int64(max(0, f.quotedAt.Sub(f.quote.QuotedAt)) / time.Second))
	}
	if f.usdValue == nil {
		// What cannot be compared counts as above.
		s.Result, s.Reason = ResultHold, ReasonPriceUnavailable
		return skipIfAllowlisted(f, s), nil
	}
	s.Inputs["usdValue"] = formatUSD(*f.usdValue)
	if f.usdValue.Cmp(*f.threshold) > 0 {
		s.Result, s.Reason = ResultHold, ReasonUSDThreshold
		return skipIfAllowlisted(f, s), nil
	}
	return s, nil
}

// checkDestination holds what resembles a known destination and is another, and what goes to
// a destination that made a payment fail: it may do so again, at the organization's cost.
func checkDestination(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateDestination, Result: ResultPass, Inputs: map[string]string{}}
	if f.lookalike != "" {
		s.Inputs["resembles"] = string(f.lookalike)
	}
	if f.failedWithdrawalID != "" {
		s.Inputs["failedWithdrawalId"] = f.failedWithdrawalID
	}
	if len(s.Inputs) > 0 {
		s.Result, s.Reason = ResultHold, ReasonDestinationAddress
	}
	return s, nil
}

func checkLiquidity(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateLiquidity, Result: ResultPass, Inputs: map[string]string{"liquid": f.liquid.String()}}
	if f.liquid.Less(f.amount) {
		s.Result, s.Reason = ResultHold, ReasonLowLiquidity
	}
	return s, nil
}

// checkNetworkFee asks what the network would take, where the caller has said something
// about it. Dispatch asks again before anything is signed.
func checkNetworkFee(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateNetworkFee, Result: ResultNotConfigured}
	if !f.deductsFee && f.feeMax == nil {
		return s, nil
	}
	s.Result, s.Inputs = ResultPass, map[string]string{}
	if f.feeMax != nil {
		s.Inputs["maxNetworkFee"] = f.feeMax.String()
	}
	if f.fee == nil {
		if f.deductsFee {
			s.Result = ResultRefuse
			return s, newUnquoted()
		}
		return s, nil
	}
	s.Inputs["networkFee"] = f.fee.String()
	if f.feeMax != nil && f.feeMax.Less(*f.fee) {
		s.Result, s.Reason = ResultHold, ReasonNetworkFee
	}
	return s, nil
}

// newUnquoted is the answer where a fee has to be known and the chain does not tell it.
func newUnquoted() *fault.Fault {
	return fault.New(fault.Unavailable, fault.CodeUnavailable,
		"The chain does not say at the moment what the network fee would be, and with feeMode DEDUCTED that decides what the destination receives. Nothing was held and nothing was sent. Repeat the request shortly with the same idempotencyKey, or let your organization pay the fee.")
}

// formatUSD prints a value exactly, with cents at least.
func formatUSD(u money.USD) string {
	s := u.String()
	whole, cents, _ := strings.Cut(s, ".")
	for len(cents) < 2 {
		cents += "0"
	}
	return whole + "." + cents
}
