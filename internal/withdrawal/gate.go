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
	owner     owner
	mint      mint.Mint
	amount    money.Amount
	frozen    *freeze.Freeze
	keyNeeded bool // the organization demands an idempotency key
	keyGiven  bool
	chainRuns bool // this installation talks to the mint's chain

	destination chain.Address
	burns       bool          // nobody holds the destination's key
	ours        bool          // the destination is a wallet of this installation
	token       bool          // the destination is a token's contract
	resembles   chain.Address // a known destination that it could be mistaken for, or ""
	failed      string        // the withdrawal to the destination that failed on the chain, and none after it succeeded; or ""

	max      bool         // an organization wants all of its balance: amount follows from it
	listed   Listed       // what the organization's list says of the destination's entry
	unlisted *fault.Fault // why nothing may be paid to that entry, or nil

	balance         money.Amount          // what the customer or the product may spend
	screen          risk.WithdrawalRecord // what is known of who is behind the destination
	allowed         bool                  // the approval allowlist has the customer's e-mail, which is trusted
	requireApproval bool
	quorum          int          // approvals that the organization wants of a payment that is held
	threshold       *money.USD   // nil: the organization has set none
	value           *money.USD   // nil: no price that is fresh enough
	quote           *price.Quote // what the price's source said, fresh or not; nil: nothing
	asked           time.Time    // when it said so
	liquid          money.Amount

	costs    costs
	charging charging

	deducts bool          // the fee comes out of the amount; of a product's balance, it comes on top
	feeMax  *money.Amount // the caller's limit of the fee, or nil
	fee     *money.Amount // the most that the network would take now; nil: unknown, or nobody needs it
	kept    *money.Amount // the fee that came out of a customer's amount when it was ordered before, or nil
	least   *money.Amount // the smallest payment that reaches the destination; nil: the chain does not say
}

// deducted is the part of the amount that is kept for the fee once the payment is
// ordered, or nil.
func (f facts) deducted() *money.Amount {
	if !f.deducts {
		return nil
	}
	return f.fee
}

// reaches is what the destination would receive. Error: the fee takes all of it.
func (f facts) reaches() (money.Amount, error) {
	out := f.kept
	if f.owner.product == "" && f.deducted() != nil {
		out = f.deducted()
	}
	if out == nil {
		return f.amount, nil
	}
	return f.amount.Sub(*out)
}

// smallest is the least amount that may be asked for: the mint's, or what reaches the
// destination with the fee that comes out of it.
func (f facts) smallest() money.Amount {
	least := f.mint.MinWithdraw
	if f.least != nil {
		reaching := *f.least
		if fee := f.deducted(); fee != nil && f.owner.product == "" {
			if sum, err := reaching.Add(*fee); err == nil {
				reaching = sum
			}
		}
		if least.Less(reaching) {
			least = reaching
		}
	}
	return least
}

// takes is what leaves the balance: the amount, with a customer what is held for a charge,
// and with a product the fee on top that was quoted. Error: more than an amount can be.
func (f facts) takes() (money.Amount, error) {
	if fee := f.deducted(); fee != nil && f.owner.product != "" {
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
	Pass          Result = "PASS"
	Hold          Result = "HOLD"
	Refuse        Result = "REFUSE"
	Block         Result = "BLOCK"   // refused, and a record is kept
	Skip          Result = "SKIPPED" // it would hold, and the approval allowlist has the customer
	NotConfigured Result = "NOT_CONFIGURED"
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

// decide asks every gate in order: refusals by the request itself, by what is
// suspended, by the destination, by the balance, by risk; then the holds.
func decide(f facts) Decision {
	d := Decision{Reasons: []Reason{}}
	gates := []func(facts) (Step, *fault.Fault){
		standing, keyed, minimum, suspended, address, chargeable, balance, screened,
		asked, threshold, knownDestination, liquidity, networkFee, customerCosts,
	}
	if f.owner.product != "" {
		// Rule OW-1. A person asks, who needs no key and whom no list of customers lets pass.
		gates = []func(facts) (Step, *fault.Fault){
			standing, minimum, suspended, whitelisted, address, balance, screened,
			threshold, knownDestination, liquidity, networkFee,
		}
	}
	for _, ask := range gates {
		step, refusal := ask(f)
		d.Gates = append(d.Gates, step)
		if refusal != nil {
			d.refusal = refusal
			if step.Result == Block {
				d.Status = Blocked
			}
			return d
		}
		if step.Result == Hold {
			d.Reasons = append(d.Reasons, step.Reason)
		}
	}
	d.Status = Processing
	if len(d.Reasons) > 0 {
		d.Status = AwaitingApproval
	}
	return d
}

// recheck is what an approval asks again: what may have changed for the worse
// since the request. The balance is held. Of the holds those are what is being decided
// that the person could see; who is behind the destination and what the amount is
// worth are asked again, and what they say beyond seen is found: then nothing goes
// out, and whoever approves again has seen it. While nobody answers who has to, and
// once screening refuses the destination, nobody can approve.
func recheck(f facts, seen []Reason) (asked []Step, found []Reason, refusal *fault.Fault) {
	asked, refusal = again(f)
	if refusal != nil {
		return asked, nil, refusal
	}
	step, stop := screened(f)
	asked = append(asked, step)
	answer := f.screen.Case.Answer
	switch {
	case stop != nil:
		return asked, []Reason{ReasonRiskReview}, fault.New(fault.Conflict, fault.ApprovalRefused,
			"Risk screening refuses the destination now. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it.").
			With("approvalReasons", []Reason{ReasonRiskReview})
	case step.Result == Hold && f.screen.Case.Configured && (answer == nil || answer.Unavailable != ""):
		return asked, []Reason{ReasonRiskReview}, fault.New(fault.Conflict, fault.ApprovalRefused,
			"Risk screening gives no answer about the destination at the moment, and nothing is sent without one. The withdrawal still waits and the amount is still held. Approve it again later, or remove it.").
			With("approvalReasons", []Reason{ReasonRiskReview})
	}
	worth, _ := threshold(f)
	asked = append(asked, worth)
	destination, _ := knownDestination(facts{failed: f.failed}) // a likeness was there to be seen
	if destination.Result == Hold {
		asked = append(asked, destination)
	}
	cost, _ := customerCosts(f)
	if cost.Result == Hold {
		asked = append(asked, cost)
	}
	for _, s := range []Step{step, worth, destination, cost} {
		if s.Result == Hold && !slices.Contains(seen, s.Reason) {
			found = append(found, s.Reason)
		}
	}
	if len(found) > 0 {
		return asked, found, fault.New(fault.Conflict, fault.ApprovalRefused,
			"Since the withdrawal was last shown there is more to look at: %v. Nothing was sent; the withdrawal still waits and the amount is still held. Look at it, and approve it again or remove it.", found).
			With("approvalReasons", found)
	}
	return asked, nil, nil
}

// again asks what no person can approve.
func again(f facts) (asked []Step, refusal *fault.Fault) {
	for _, ask := range []func(facts) (Step, *fault.Fault){standing, suspended} {
		step, refusal := ask(f)
		asked = append(asked, step)
		if refusal != nil {
			return asked, refusal
		}
	}
	if f.owner.product != "" {
		step, refusal := whitelisted(f)
		asked = append(asked, step)
		if refusal != nil {
			return asked, fault.New(fault.Conflict, fault.ApprovalRefused,
				"The destination may not be paid as the organization's list of addresses is now: %s. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it, or approve it when the address may be paid.", step.Inputs["why"])
		}
	}
	step, refusal := address(f)
	asked = append(asked, step)
	if refusal != nil {
		return asked, fault.New(fault.Conflict, fault.ApprovalRefused,
			"The destination is no longer allowed: it is now an address of this installation, a token's contract or an address that nobody holds. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it and ask for one to another address.")
	}
	if !f.deducts {
		return arrives(f, asked)
	}
	step, refusal = networkFee(f)
	asked = append(asked, step)
	switch fee := f.fee; {
	case fee == nil:
		return asked, fault.New(fault.Unavailable, fault.CodeUnavailable,
			"The chain does not say at the moment what the network fee would be, which decides what the destination receives. Nothing was sent; the withdrawal still waits and the amount is still held. Approve it again shortly.")
	case refusal != nil:
		return asked, refusal
	case !fee.Less(f.amount), step.Result == Hold:
		return asked, fault.New(fault.Conflict, fault.ApprovalRefused,
			"The network fee comes out of the amount, and at the moment it would be %s atomic units: all of the amount, or more than the request allows. Nothing was sent; the withdrawal still waits and the amount is still held. Approve it when the network is cheaper, or remove it.", fee)
	}
	return arrives(f, asked)
}

// arrives asks again whether what the destination would receive can reach it.
func arrives(f facts, asked []Step) ([]Step, *fault.Fault) {
	s := Step{Gate: GateMinimum, Result: Pass, Inputs: map[string]string{"minimum": f.smallest().String()}}
	if !f.unreachable() {
		return append(asked, s), nil
	}
	s.Result = Refuse
	reaches, _ := f.reaches()
	return append(asked, s), fault.New(fault.Conflict, fault.ApprovalRefused,
		"The smallest payment that reaches the destination at the moment is %s atomic units, and of this withdrawal it would receive %s. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it and ask for more, or approve it once less reaches the destination or the network is cheaper.", f.least, reaches)
}

func standing(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateFreeze, Result: Pass}
	if f.frozen == nil {
		return s, nil
	}
	s.Inputs = map[string]string{"freeze": f.frozen.ID, "scope": string(f.frozen.Scope)}
	switch f.frozen.Scope {
	case freeze.Customer:
		s.Result = Refuse
		return s, fault.New(fault.Forbidden, fault.CustomerFrozen,
			"This customer is frozen, so nothing may leave the balance. Nothing was held and nothing was sent. Whoever froze the customer has to lift it first.").On("customerId")
	case freeze.Organization:
		s.Result = Refuse
		return s, fault.New(fault.Forbidden, fault.OrganizationFrozen,
			"Your organization is frozen, so nothing may leave its balances. Nothing was held and nothing was sent. Ask the operator of this service.")
	}
	return s, nil
}

func keyed(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateIdempotencyKey, Result: Pass}
	if f.keyNeeded && !f.keyGiven {
		s.Result = Refuse
		return s, fault.New(fault.Invalid, fault.InvalidRequest,
			"Your organization requires an idempotencyKey on every withdrawal, and this request has none. Nothing was held and nothing was sent. Send one key for each payment you mean, and the same key when you repeat it.").On("idempotencyKey")
	}
	return s, nil
}

// whitelisted asks whether an organization's own money may go there: to an entry of its
// list that may be used now, on the mint's chain, with just this address.
// Rule OW-2.
func whitelisted(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateWhitelist, Result: Refuse, Inputs: map[string]string{}}
	if f.unlisted != nil {
		s.Inputs["why"] = f.unlisted.Message
		return s, f.unlisted
	}
	refuse := func(why string) (Step, *fault.Fault) {
		s.Inputs["why"] = why
		return s, fault.New(fault.Unprocessable, fault.AddressNotWhitelisted,
			"Your organization's own money goes only to addresses on its list: %s. Nothing was held and nothing was sent. Choose an address of the list that may be used, or ask the operator of this service to add one.", why).On("whitelistedAddressId")
	}
	switch {
	case f.listed.Address == "" || f.listed.Address != f.destination:
		return refuse("the entry has another address")
	case f.listed.Chain != f.mint.Chain:
		return refuse("the address is of another chain than the mint")
	}
	s.Result = Pass
	return s, nil
}

// minimum asks whether the amount is one that is paid, and whether what the destination
// receives of it can reach it. Dispatch asks the latter again right before the slot.
func minimum(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateMinimum, Result: Pass, Inputs: map[string]string{"minimum": f.smallest().String()}}
	if f.amount.Less(f.mint.MinWithdraw) {
		s.Result = Refuse
		return s, fault.New(fault.Invalid, fault.AmountBelowMinimum,
			"The smallest withdrawal of %s is %s atomic units (%s %s). Nothing was held and nothing was sent. Ask for at least that much.",
			f.mint.Symbol, f.mint.MinWithdraw, f.mint.MinWithdraw.Decimal(f.mint.Decimals), f.mint.Symbol).
			On("amount").With("minWithdrawAmount", f.mint.MinWithdraw.String())
	}
	if fee := f.deducted(); fee != nil && f.owner.product == "" && !fee.Less(f.amount) {
		s.Result, s.Inputs["networkFee"] = Refuse, fee.String()
		return s, fault.New(fault.Invalid, fault.AmountBelowMinimum,
			"The network fee comes out of the amount, and at the moment it would be %s atomic units: nothing would be left. Nothing was held and nothing was sent. Ask for more, or let your organization pay the fee.", fee).
			On("amount").With("networkFee", fee.String()).With("minWithdrawAmount", f.smallest().String())
	}
	if !f.unreachable() {
		return s, nil
	}
	s.Result = Refuse
	reaches, _ := f.reaches()
	refusal := fault.New(fault.Invalid, fault.AmountBelowMinimum,
		"The smallest payment of %s that reaches this destination at the moment is %s atomic units, and it would receive %s. Nothing was held and nothing was sent. Ask for at least %s.",
		f.mint.Symbol, f.least, reaches, f.smallest()).
		On("amount").With("minWithdrawAmount", f.smallest().String())
	if fee := f.deducted(); fee != nil {
		s.Inputs["networkFee"] = fee.String()
		refusal = refusal.With("networkFee", fee.String())
	}
	return s, refusal
}

// unreachable tells whether the chain would not let the destination have what is left for
// it.
func (f facts) unreachable() bool {
	if f.least == nil {
		return false
	}
	reaches, err := f.reaches()
	return err != nil || reaches.Less(*f.least)
}

func suspended(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateSuspended, Result: Pass}
	var why string
	switch {
	case !f.chainRuns:
		why = "This installation does not talk to that mint's chain."
	case f.mint.Quarantined:
		why = "That token behaved against its own rules and is in quarantine."
	case !f.mint.WithdrawEnabled:
		why = "Withdrawals of that mint are switched off."
	case f.frozen != nil && f.frozen.Scope != freeze.Customer && f.frozen.Scope != freeze.Organization:
		why = "Outgoing payments are stopped at the moment."
	default:
		return s, nil
	}
	s.Result = Refuse
	s.Inputs = map[string]string{"why": why}
	return s, fault.New(fault.Unprocessable, fault.WithdrawalsSuspended,
		"%s Nothing was held and nothing was sent. Try again later with the same idempotencyKey, or ask the operator of this service.", why).On("mintId")
}

func address(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateAddress, Result: Pass}
	why := wallet.Payee{Burns: f.burns, Ours: f.ours, Token: f.token}.Barred()
	if why == "" {
		return s, nil
	}
	s.Result = Refuse
	s.Inputs = map[string]string{"why": why}
	if f.owner.product != "" {
		return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed,
			"Withdrawals to this address are not allowed, although it is on the list: %s. Nothing was held and nothing was sent. Have it taken from the list, and choose another one.", why).On("whitelistedAddressId")
	}
	return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed,
		"Withdrawals to this address are not allowed: %s. Nothing was held and nothing was sent. Give an address of your customer's own.", why).On("toAddress")
}

func balance(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateBalance, Result: Pass, Inputs: map[string]string{"available": f.balance.String()}}
	takes, err := f.takes()
	if err != nil || f.amount.IsZero() || f.balance.Less(takes) {
		s.Result = Refuse
		refusal := insufficient(f.owner, f.mint)
		if held := f.charging.held; !held.IsZero() {
			s.Inputs["rentMax"] = held.String()
			refusal = refusal.With("rentMax", held.String())
		}
		return s, refusal
	}
	return s, nil
}

// insufficient is the one answer to too little money, whether the customer is
// unknown, has nothing, or was quicker elsewhere.
func insufficient(o owner, m mint.Mint) *fault.Fault {
	if o.product != "" {
		return fault.New(fault.Unprocessable, fault.InsufficientBalance,
			"What %s has available of %s on %s is less than the amount, with the network fee on top for the chain's own coin. Nothing was held and nothing was sent. Look at GET /balances and ask for less, or for the maximum.",
			o.product, m.Symbol, m.Chain).On("amount")
	}
	return fault.New(fault.Unprocessable, fault.InsufficientBalance,
		"The customer's available balance of %s on %s is smaller than the amount, with what your organization charges for an account of the payee where it does. Nothing was held and nothing was sent. Look at GET /customers/{customerId}/balances and ask for less, or wait for a deposit.",
		m.Symbol, m.Chain).On("amount")
}

// screened is the gate of risk, whatever the amount is worth. What it does not let
// pass by name it holds: a question that nobody has answered as well.
func screened(f facts) (Step, *fault.Fault) {
	d := f.screen.Decision
	s := Step{Gate: GateRisk, Result: Hold, Reason: ReasonRiskReview, Inputs: map[string]string{}}
	if d.Threshold != "" {
		s.Inputs["threshold"] = string(d.Threshold)
	}
	if v := d.Verdict; v != nil {
		s.Inputs["severity"], s.Inputs["provider"] = string(v.Severity), v.Provider
	}
	switch {
	case d.Outcome == risk.Pass && d.Status == risk.StatusNotConfigured:
		return Step{Gate: GateRisk, Result: NotConfigured}, nil
	case d.Outcome == risk.Pass:
		s.Result, s.Reason = Pass, ""
	case d.Outcome == risk.Block:
		s.Result, s.Reason = Block, ""
		return s, blocked(d)
	default:
		s.Inputs["why"] = "Nobody could say enough of who is behind this address."
	}
	return s, nil
}

// blocked is the answer to a destination that screening refuses.
func blocked(d risk.WithdrawalDecision) *fault.Fault {
	f := fault.New(fault.Blocked, fault.WithdrawalRiskBlocked,
		"Withdrawal blocked by risk screening. Nothing was held and nothing was sent. Repeating it with this destination does not help: ask your customer for another address, or ask the operator of this service.")
	severity, categories := risk.Unknown, []string{}
	if v := d.Verdict; v != nil {
		severity = v.Severity
		categories = append(categories, v.Categories...)
	}
	return f.With("severity", string(severity)).With("categories", categories)
}

// skippable is a hold that the approval allowlist takes away. It is asked of those
// three reasons and of no other.
func skippable(f facts, s Step) Step {
	if f.allowed {
		s.Result, s.Reason = Skip, ""
		if s.Inputs == nil {
			s.Inputs = map[string]string{}
		}
		s.Inputs["why"] = "The approval allowlist has the customer's e-mail."
	}
	return s
}

func asked(f facts) (Step, *fault.Fault) {
	if f.requireApproval {
		return skippable(f, Step{Gate: GateApproval, Result: Hold, Reason: ReasonRequireApproval}), nil
	}
	return Step{Gate: GateApproval, Result: Pass}, nil
}

func threshold(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateUSDThreshold, Result: Pass}
	if f.threshold == nil {
		s.Result = NotConfigured
		return s, nil
	}
	s.Inputs = map[string]string{"threshold": dollars(*f.threshold)}
	if f.quote != nil {
		s.Inputs["price"], s.Inputs["priceSource"] = dollars(f.quote.Price), f.quote.Source
		s.Inputs["priceAt"] = f.quote.At.UTC().Format(time.RFC3339Nano)
		s.Inputs["priceAgeSeconds"] = fmt.Sprint(int64(max(0, f.asked.Sub(f.quote.At)) / time.Second))
	}
	if f.value == nil {
		// What cannot be compared counts as above.
		s.Result, s.Reason = Hold, ReasonPriceUnavailable
		return skippable(f, s), nil
	}
	s.Inputs["usdValue"] = dollars(*f.value)
	if f.value.Cmp(*f.threshold) > 0 {
		s.Result, s.Reason = Hold, ReasonUSDThreshold
		return skippable(f, s), nil
	}
	return s, nil
}

// knownDestination holds what resembles a known destination and is another, and what goes to
// a destination that made a payment fail: it may do so again, at the organization's cost.
func knownDestination(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateDestination, Result: Pass, Inputs: map[string]string{}}
	if f.resembles != "" {
		s.Inputs["resembles"] = string(f.resembles)
	}
	if f.failed != "" {
		s.Inputs["failedWithdrawalId"] = f.failed
	}
	if len(s.Inputs) > 0 {
		s.Result, s.Reason = Hold, ReasonDestinationAddress
	}
	return s, nil
}

func liquidity(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateLiquidity, Result: Pass, Inputs: map[string]string{"liquid": f.liquid.String()}}
	if f.liquid.Less(f.amount) {
		s.Result, s.Reason = Hold, ReasonLowLiquidity
	}
	return s, nil
}

// networkFee asks what the network would take, where the caller has said something
// about it. Dispatch asks again before anything is signed.
func networkFee(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateNetworkFee, Result: NotConfigured}
	if !f.deducts && f.feeMax == nil {
		return s, nil
	}
	s.Result, s.Inputs = Pass, map[string]string{}
	if f.feeMax != nil {
		s.Inputs["maxNetworkFee"] = f.feeMax.String()
	}
	if f.fee == nil {
		if f.deducts {
			s.Result = Refuse
			return s, unquoted()
		}
		return s, nil
	}
	s.Inputs["networkFee"] = f.fee.String()
	if f.feeMax != nil && f.feeMax.Less(*f.fee) {
		s.Result, s.Reason = Hold, ReasonNetworkFee
	}
	return s, nil
}

// unquoted is the answer where a fee has to be known and the chain does not tell it.
func unquoted() *fault.Fault {
	return fault.New(fault.Unavailable, fault.CodeUnavailable,
		"The chain does not say at the moment what the network fee would be, and with feeMode DEDUCTED that decides what the destination receives. Nothing was held and nothing was sent. Repeat the request shortly with the same idempotencyKey, or let your organization pay the fee.")
}

// dollars prints a value exactly, with cents at least.
func dollars(u money.USD) string {
	s := u.String()
	whole, cents, _ := strings.Cut(s, ".")
	for len(cents) < 2 {
		cents += "0"
	}
	return whole + "." + cents
}
