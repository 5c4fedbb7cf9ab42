package withdrawal

import (
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/policy"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Gate names one check that a request has to pass.
type Gate string

// Gates, in the order in which they run. The first refusal is the answer; holds add up.
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
	GateApprovalRule   Gate = "APPROVAL_RULE"
	GateDestination    Gate = "DESTINATION_ADDRESS"
	GateLiquidity      Gate = "LIQUIDITY"
	GateNetworkFee     Gate = "NETWORK_FEE"
	GateCustomerCosts  Gate = "CUSTOMER_COSTS"
	GateCustomerCharge Gate = "CUSTOMER_CHARGE"
	// GateSigner is not a gate of a request. It is recorded when the signer or the chain has
	// returned an order.
	GateSigner Gate = "SIGNER"
)

// Result is the outcome of a gate.
type Result string

// Results of a gate.
const (
	ResultPass   Result = "PASS"
	ResultHold   Result = "HOLD"
	ResultRefuse Result = "REFUSE"
	ResultBlock  Result = "BLOCK" // refused, with a record
	// ResultSkipped would hold, but the customer is on the approval allowlist, or people approved it with its
	// swap.
	ResultSkipped       Result = "SKIPPED"
	ResultNotConfigured Result = "NOT_CONFIGURED"
)

// Step records one gate of a decision and its inputs.
type Step struct {
	Gate   Gate              `json:"gate"`
	Result Result            `json:"result"`
	Reason Reason            `json:"reason,omitempty"`
	Inputs map[string]string `json:"inputs,omitempty"`
}

func checkFreeze(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateFreeze, Result: ResultPass}
	refusal := policy.CheckFrozen(f.activeFreeze, "customerId", fault.NothingHeld)
	if refusal != nil {
		s.Result = ResultRefuse
	}
	if f.activeFreeze != nil {
		s.Inputs = map[string]string{"freeze": f.activeFreeze.ID, "scope": string(f.activeFreeze.Scope)}
	}
	return s, refusal
}

// Rule IDEM-6.
func requireKey(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateIdempotencyKey, Result: ResultPass}
	if f.keyRequired && f.request.IdempotencyKey == nil {
		s.Result = ResultRefuse
		return s, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"Your organization requires an idempotencyKey on every withdrawal, and this request has none.").
			WithAdvice("Send one key for each payment, and the same key when you repeat it.").
			WithParam("idempotencyKey")
	}
	return s, nil
}

// checkWhitelist refuses an organization's own money unless it goes to a whitelist entry that is
// usable now, on the mint's chain, with exactly this address. Rule OW-2.
func checkWhitelist(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateWhitelist, Result: ResultRefuse, Inputs: map[string]string{}}
	if f.entryRefusal != nil {
		s.Inputs["why"] = strings.TrimSuffix(f.entryRefusal.Reason, ".")
		return s, f.entryRefusal
	}
	refuse := func(reason string) (Step, *fault.Fault) {
		s.Inputs["why"] = reason
		return s, fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld,
			"Your organization's own money goes only to addresses on its whitelist: %s.", reason).
			WithAdvice("Choose a usable address of the whitelist, or ask the operator of this service to add one.").
			WithParam("whitelistedAddressId")
	}
	switch {
	case f.entry.Address == "" || f.entry.Address != f.destination:
		return refuse("the entry has another address")
	case f.entry.Chain != f.mint.Chain:
		return refuse("the address is on another chain than the mint")
	}
	s.Result = ResultPass
	return s, nil
}

// checkMinimum refuses an amount below the mint's minimum, and a payment that is too small to reach
// the destination. Dispatch checks the latter again right before it takes a slot. Rule WD-41.
func checkMinimum(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateMinimum, Result: ResultPass, Inputs: map[string]string{"minimum": f.minAmount().String()}}
	if f.amount.Less(f.mint.MinWithdraw) {
		s.Result = ResultRefuse
		return s, fault.New(fault.Invalid, fault.AmountBelowMinimum, fault.NothingHeld,
			"The smallest withdrawal of %s is %s atomic units (%s %s).",
			f.mint.Symbol, f.mint.MinWithdraw, f.mint.MinWithdraw.Decimal(f.mint.Decimals), f.mint.Symbol).
			WithAdvice("Ask for at least this amount.").
			WithParam("amount").WithDetail("minWithdrawAmount", f.mint.MinWithdraw.String())
	}
	if fee := f.deductedFee(); fee != nil && !f.owner.IsOrganization() && !fee.Less(f.amount) {
		s.Result, s.Inputs["networkFee"] = ResultRefuse, fee.String()
		return s, fault.New(fault.Invalid, fault.AmountBelowMinimum, fault.NothingHeld,
			"The network fee comes out of the amount, and it would be %s atomic units now: nothing would "+
				"be left.", fee).
			WithAdvice("Ask for more, or let your organization pay the fee.").
			WithParam("amount").WithDetail("networkFee", fee.String()).
			WithDetail("minWithdrawAmount", f.minAmount().String())
	}
	if !f.isUnreachable() {
		return s, nil
	}
	s.Result = ResultRefuse
	received, _ := f.receivedAmount()
	refusal := fault.New(fault.Invalid, fault.AmountBelowMinimum, fault.NothingHeld,
		"The smallest payment of %s that reaches this destination is %s atomic units now, and it "+
			"would receive %s.", f.mint.Symbol, f.minReachable, received).
		WithAdvice("Ask for at least %s.", f.minAmount()).
		WithParam("amount").WithDetail("minWithdrawAmount", f.minAmount().String())
	if fee := f.deductedFee(); fee != nil {
		s.Inputs["networkFee"] = fee.String()
		refusal = refusal.WithDetail("networkFee", fee.String())
	}
	return s, refusal
}

// isUnreachable reports whether the chain would refuse what the destination is to receive.
func (f Facts) isUnreachable() bool {
	if f.minReachable == nil {
		return false
	}
	received, err := f.receivedAmount()
	return err != nil || received.Less(*f.minReachable)
}

func checkSuspended(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateSuspended, Result: ResultPass}
	var reason string
	switch {
	case !f.chainRuns:
		reason = "The chain of this mint does not run on this installation."
	case f.mint.Quarantined:
		reason = policy.Quarantined
	case !f.mint.WithdrawEnabled:
		reason = "Withdrawals of this mint are switched off."
	case policy.IsStopped(f.activeFreeze):
		reason = "Outgoing payments are stopped now."
	default:
		return s, nil
	}
	s.Result = ResultRefuse
	s.Inputs = map[string]string{"why": reason}
	return s, policy.NewSuspended(reason, fault.NothingHeld)
}

func checkAddress(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateAddress, Result: ResultPass}
	reason := wallet.PayeeCheck{
		IsUnspendable: f.isUnspendable, IsOwn: f.isOwnAddress, IsTokenContract: f.isTokenContract,
	}.RefusalReason()
	if reason == "" {
		return s, nil
	}
	s.Result = ResultRefuse
	s.Inputs = map[string]string{"why": reason}
	if f.owner.IsRefund() {
		return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.NothingHeld,
			"Refunds to this address are not allowed: %s.", reason).
			WithAdvice("Give an address of the payer's own.").
			WithParam("toAddress")
	}
	if f.owner.IsBatch() {
		return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.NothingHeld,
			"Payouts to this address are not allowed: %s.", reason).
			WithAdvice("Leave the row out, or ask the payee for an address of their own.").
			WithParam("toAddress")
	}
	if f.owner.IsOrganization() {
		return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.NothingHeld,
			"Withdrawals to this address are not allowed, although the whitelist has it: %s.", reason).
			WithAdvice("Ask the operator of this service to remove it from the whitelist, and choose another " +
				"address.").
			WithParam("whitelistedAddressId")
	}
	return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.NothingHeld,
		"Withdrawals to this address are not allowed: %s.", reason).
		WithAdvice("Give an address of your customer's own.").
		WithParam("toAddress")
}

func checkBalance(f Facts) (Step, *fault.Fault) {
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

// newInsufficient returns the one answer to too small a balance. It is the same whether the
// customer is unknown, has no balance or spent it in a concurrent request. Rule WD-14.
func newInsufficient(payer ledger.Owner, m mint.Mint) *fault.Fault {
	if payer.IsOrganization() {
		return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
			"%s has an available balance of %s on %s that is smaller than the amount, plus the network "+
				"fee for a native coin.", payer.Product(), m.Symbol, m.Chain).
			WithStep(fault.LookAtBalances).WithParam("amount")
	}
	return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
		"The customer's available balance of %s on %s is smaller than the amount, plus what your "+
			"organization charges for an account of the payee, if it does.", m.Symbol, m.Chain).
		WithStep(fault.LookAtCustomerBalances).WithParam("amount")
}

// checkRisk applies the screening decision, at every amount. It holds what screening does not
// explicitly pass, and so also a request without an answer.
func checkRisk(f Facts) (Step, *fault.Fault) {
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
		s.Inputs["why"] = "Too few risk providers answered about this address."
	}
	return s, nil
}

// newBlocked returns the answer for a destination that screening refuses.
func newBlocked(d risk.WithdrawalDecision) *fault.Fault {
	f := fault.New(fault.Blocked, fault.WithdrawalRiskBlocked, fault.NothingHeld,
		"Withdrawal blocked by risk screening.").
		WithAdvice("A repeated request with this destination gets the same answer: ask your customer for " +
			"another address, or ask the operator of this service.")
	severity, categories := risk.Unknown, []string{}
	if v := d.Verdict; v != nil {
		severity = v.Severity
		categories = append(categories, v.Categories...)
	}
	return f.WithDetail("severity", string(severity)).WithDetail("categories", categories)
}

// skipIfAllowlisted turns a hold into SKIPPED if the approval allowlist has the customer. It
// applies to three reasons only: REQUIRE_APPROVAL, PRICE_UNAVAILABLE and USD_THRESHOLD. Rule WD-33.
func skipIfAllowlisted(f Facts, s Step) Step {
	if f.isAllowlisted {
		s.Result, s.Reason = ResultSkipped, ""
		if s.Inputs == nil {
			s.Inputs = map[string]string{}
		}
		s.Inputs["why"] = "The approval allowlist has the customer's e-mail."
	}
	return s
}

// Rule WD-3.
func requireApproval(f Facts) (Step, *fault.Fault) {
	if f.request.RequireApproval {
		return skipIfAllowlisted(f, Step{Gate: GateApproval, Result: ResultHold, Reason: ReasonRequireApproval}), nil
	}
	return Step{Gate: GateApproval, Result: ResultPass}, nil
}

// Rule WD-3.
func checkThreshold(f Facts) (Step, *fault.Fault) {
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
		// An amount without a value counts as above the threshold.
		s.Result, s.Reason = ResultHold, ReasonPriceUnavailable
		return skipIfCovered(f, skipIfAllowlisted(f, s)), nil
	}
	s.Inputs["usdValue"] = formatUSD(*f.usdValue)
	if f.usdValue.Cmp(*f.threshold) > 0 {
		s.Result, s.Reason = ResultHold, ReasonUSDThreshold
		return skipIfCovered(f, skipIfAllowlisted(f, s)), nil
	}
	return s, nil
}

// checkDestination holds a request to a lookalike of a known destination. It also holds a request
// to a destination that made a payment fail: it may do so again, at the organization's cost.
func checkDestination(f Facts) (Step, *fault.Fault) {
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

// Rule WD-13.
func checkLiquidity(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateLiquidity, Result: ResultPass, Inputs: map[string]string{"liquid": f.liquid.String()}}
	if f.liquid.Less(f.amount) {
		s.Result, s.Reason = ResultHold, ReasonLowLiquidity
	}
	return s, nil
}

// checkNetworkFee compares the network fee with the request, if it limits or deducts the fee.
// Dispatch checks again before anything is signed. Rule WD-26.
func checkNetworkFee(f Facts) (Step, *fault.Fault) {
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

// newUnquoted returns the answer when the fee is needed and the chain does not quote it.
func newUnquoted() *fault.Fault {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingHeld,
		"The chain does not say how high the network fee would be now, and with feeMode DEDUCTED the "+
			"destination receives the amount less this fee.").
		WithStep(fault.RepeatWithSameKey).
		WithAdvice("Or let your organization pay the fee.")
}

// recheckWhitelist checks the whitelist again at an approval.
func recheckWhitelist(f Facts) (Step, *fault.Fault) {
	if !f.owner.NeedsWhitelist() {
		return Step{}, nil
	}
	s, refusal := checkWhitelist(f)
	if refusal != nil {
		refusal = fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"The organization's whitelist does not allow the destination now: %s.", s.Inputs["why"]).
			WithAdvice("Remove it, or approve it when the address is allowed.")
	}
	return s, refusal
}

// recheckAddress checks the destination again at an approval.
func recheckAddress(f Facts) (Step, *fault.Fault) {
	s, refusal := checkAddress(f)
	if refusal != nil {
		refusal = fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"The destination is no longer allowed: it is now an address of this installation, a token's "+
				"contract or an address whose key has no holder.").
			WithAdvice("Remove it and request a withdrawal to another address.")
	}
	return s, refusal
}

// recheckNetworkFee checks the fee at an approval, if it is not fixed yet and comes out of the
// amount.
func recheckNetworkFee(f Facts) (Step, *fault.Fault) {
	if !f.deductsFee {
		return Step{}, nil
	}
	s, _ := checkNetworkFee(f)
	switch fee := f.fee; {
	case fee == nil:
		return s, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.StillHeld,
			"The chain does not say how high the network fee would be now, and the destination receives "+
				"the amount less this fee.").
			WithAdvice("Approve it again shortly.")
	case !fee.Less(f.amount), s.Result == ResultHold:
		return s, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"The network fee comes out of the amount, and it would be %s atomic units now: the whole "+
				"amount, or more than the request allows.", fee).
			WithAdvice("Approve it when the network is cheaper, or remove it.")
	}
	return s, nil
}

// recheckReachable checks again at an approval whether the payment reaches the destination.
// Rule WD-41.
func recheckReachable(f Facts) (Step, *fault.Fault) {
	s := Step{Gate: GateMinimum, Result: ResultPass, Inputs: map[string]string{"minimum": f.minAmount().String()}}
	if !f.isUnreachable() {
		return s, nil
	}
	s.Result = ResultRefuse
	received, _ := f.receivedAmount()
	return s, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
		"The smallest payment that reaches the destination is %s atomic units now, and the "+
			"destination would receive %s of this withdrawal.", f.minReachable, received).
		WithAdvice("Remove it and request more, or approve it when a smaller payment reaches the destination or " +
			"the network is cheaper.")
}

// recheckRisk applies the screening decision at an approval. No approval is possible without an
// answer.
func recheckRisk(f Facts) (Step, *fault.Fault) {
	s, blocked := checkRisk(f)
	answer := f.screening.Case.Answer
	switch {
	case blocked != nil:
		return s, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"Risk screening now refuses the destination.").
			WithAdvice("Remove it.")
	case s.Result == ResultHold && f.screening.Case.Configured && (answer == nil || answer.Unavailable != ""):
		return s, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"Risk screening gives no answer about the destination now, and the service pays nothing "+
				"without one.").
			WithAdvice("Approve it again later, or remove it.")
	}
	return s, nil
}

// recheckDestination holds an approval if a payment to the destination failed since. The approver
// could see a lookalike already.
func recheckDestination(f Facts) (Step, *fault.Fault) {
	f.lookalike = ""
	return onlyHold(checkDestination(f))
}

// recheckCustomerCosts holds an approval that would raise the costs of the day above the limit.
func recheckCustomerCosts(f Facts) (Step, *fault.Fault) { return onlyHold(checkCustomerCosts(f)) }

// onlyHold leaves a step out of the record unless it holds.
func onlyHold(s Step, refusal *fault.Fault) (Step, *fault.Fault) {
	if s.Result != ResultHold {
		return Step{}, refusal
	}
	return s, refusal
}

// formatUSD formats a value exactly, with at least two decimals.
func formatUSD(u money.USD) string {
	s := u.String()
	whole, cents, _ := strings.Cut(s, ".")
	for len(cents) < 2 {
		cents += "0"
	}
	return whole + "." + cents
}
