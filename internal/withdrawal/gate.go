package withdrawal

import (
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
)

// facts are everything that decides about a request. They are gathered in one
// transaction, and decide reads nothing else.
type facts struct {
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

	balance         money.Amount // what the customer may spend
	requireApproval bool
	threshold       *money.USD // nil: the organization has set none
	value           *money.USD // nil: no price that is fresh enough
	liquid          money.Amount
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
	GateAddress        Gate = "ADDRESS"
	GateBalance        Gate = "BALANCE"
	GateRisk           Gate = "RISK"
	GateApproval       Gate = "REQUIRE_APPROVAL"
	GateUSDThreshold   Gate = "USD_THRESHOLD"
	GateDestination    Gate = "DESTINATION_ADDRESS"
	GateLiquidity      Gate = "LIQUIDITY"
)

// Result is what a gate said.
type Result string

// The results.
const (
	Pass          Result = "PASS"
	Hold          Result = "HOLD"
	Refuse        Result = "REFUSE"
	NotConfigured Result = "NOT_CONFIGURED"
)

// Step is one gate in the record of a decision, with what it looked at.
type Step struct {
	Gate   Gate              `json:"gate"`
	Result Result            `json:"result"`
	Reason Reason            `json:"reason,omitempty"`
	Inputs map[string]string `json:"inputs,omitempty"`
}

// Decision is what the gates said together. It is stored with the withdrawal.
type Decision struct {
	Status  Status   `json:"status,omitempty"` // "" when refused
	Reasons []Reason `json:"reasons"`
	Gates   []Step   `json:"gates"`

	refusal *fault.Fault
}

// decide asks every gate in order: refusals by the request itself, by what is
// suspended, by the destination, by the balance, by risk; then the holds.
func decide(f facts) Decision {
	d := Decision{Reasons: []Reason{}}
	for _, ask := range []func(facts) (Step, *fault.Fault){
		standing, keyed, minimum, suspended, address, balance, risk,
		asked, threshold, lookalike, liquidity,
	} {
		step, refusal := ask(f)
		d.Gates = append(d.Gates, step)
		if refusal != nil {
			d.refusal = refusal
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
// since the request. The balance is held, the holds are what is being decided.
func recheck(f facts) *fault.Fault {
	for _, ask := range []func(facts) (Step, *fault.Fault){standing, suspended} {
		if _, refusal := ask(f); refusal != nil {
			return refusal
		}
	}
	if _, refusal := address(f); refusal != nil {
		return fault.New(fault.Conflict, fault.ApprovalRefused,
			"The destination is no longer allowed: it is now an address of this installation, a token's contract or an address that nobody holds. Nothing was sent; the withdrawal still waits and the amount is still held. Remove it and ask for one to another address.")
	}
	return nil
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

func minimum(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateMinimum, Result: Pass, Inputs: map[string]string{"minimum": f.mint.MinWithdraw.String()}}
	if f.amount.Less(f.mint.MinWithdraw) {
		s.Result = Refuse
		return s, fault.New(fault.Invalid, fault.AmountBelowMinimum,
			"The smallest withdrawal of %s is %s atomic units (%s %s). Nothing was held and nothing was sent. Ask for at least that much.",
			f.mint.Symbol, f.mint.MinWithdraw, f.mint.MinWithdraw.Decimal(f.mint.Decimals), f.mint.Symbol).
			On("amount").With("minWithdrawAmount", f.mint.MinWithdraw.String())
	}
	return s, nil
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
	var why string
	switch {
	case f.burns:
		why = "nobody holds its key, so the money would be lost"
	case f.ours:
		why = "it belongs to this installation, which credits no transfer of its own"
	case f.token:
		why = "it is a token's contract, which would keep the money for ever"
	default:
		return s, nil
	}
	s.Result = Refuse
	s.Inputs = map[string]string{"why": why}
	return s, fault.New(fault.Unprocessable, fault.DestinationNotAllowed,
		"Withdrawals to this address are not allowed: %s. Nothing was held and nothing was sent. Give an address of your customer's own.", why).On("toAddress")
}

func balance(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateBalance, Result: Pass, Inputs: map[string]string{"available": f.balance.String()}}
	if f.balance.Less(f.amount) {
		s.Result = Refuse
		return s, insufficient(f.mint)
	}
	return s, nil
}

// insufficient is the one answer to too little money, whether the customer is
// unknown, has nothing, or was quicker elsewhere.
func insufficient(m mint.Mint) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.InsufficientBalance,
		"The customer's available balance of %s on %s is smaller than the amount. Nothing was held and nothing was sent. Look at GET /customers/{customerId}/balances and ask for less, or wait for a deposit.",
		m.Symbol, m.Chain).On("amount")
}

// risk has no provider yet; the record says so, so that nobody reads a silence
// as a verdict.
func risk(facts) (Step, *fault.Fault) {
	return Step{Gate: GateRisk, Result: NotConfigured}, nil
}

func asked(f facts) (Step, *fault.Fault) {
	if f.requireApproval {
		return Step{Gate: GateApproval, Result: Hold, Reason: ReasonRequireApproval}, nil
	}
	return Step{Gate: GateApproval, Result: Pass}, nil
}

func threshold(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateUSDThreshold, Result: Pass}
	if f.threshold == nil {
		s.Result = NotConfigured
		return s, nil
	}
	s.Inputs = map[string]string{"threshold": f.threshold.String()}
	if f.value == nil {
		// What cannot be compared counts as above.
		s.Result, s.Reason = Hold, ReasonPriceUnavailable
		return s, nil
	}
	s.Inputs["usdValue"] = f.value.String()
	if f.value.Cmp(*f.threshold) > 0 {
		s.Result, s.Reason = Hold, ReasonUSDThreshold
	}
	return s, nil
}

func lookalike(f facts) (Step, *fault.Fault) {
	if f.resembles == "" {
		return Step{Gate: GateDestination, Result: Pass}, nil
	}
	return Step{
		Gate: GateDestination, Result: Hold, Reason: ReasonDestinationAddress,
		Inputs: map[string]string{"resembles": string(f.resembles)},
	}, nil
}

func liquidity(f facts) (Step, *fault.Fault) {
	s := Step{Gate: GateLiquidity, Result: Pass, Inputs: map[string]string{"liquid": f.liquid.String()}}
	if f.liquid.Less(f.amount) {
		s.Result, s.Reason = Hold, ReasonLowLiquidity
	}
	return s, nil
}
