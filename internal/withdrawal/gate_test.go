package withdrawal

import (
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
)

// passingFacts returns facts that pass every gate.
func passingFacts() Facts {
	threshold, value := money.MustParseUSD("100"), money.MustParseUSD("100")
	return Facts{
		parsed:   parsed{mint: newMints()[0], amount: money.Units(100), chainRuns: true, destination: stranger},
		isLoaded: true, balance: money.Units(100), threshold: &threshold, usdValue: &value, liquid: money.Units(100),
		screening: screenedRecord(risk.WithdrawalCase{}),
	}
}

// decideAll returns the decision and its refusal, also one that is recorded.
func decideAll(f Facts) (Decision, *fault.Fault) {
	plan, rejection := Decide(f)
	if rejection != nil {
		return Decision{Gates: rejection.Gates}, fault.Find(rejection.Err)
	}
	return plan.Decision, plan.Answer
}

// awaitApproval makes an approval of the facts, by a person who could see these reasons.
func awaitApproval(f Facts, seen ...Reason) Facts {
	f.approval = &approvalFacts{row: storedWithdrawal{status: AwaitingApproval, reasons: seen}, areTermsSeen: true}
	return f
}

// screenedRecord returns a record as it is stored.
func screenedRecord(c risk.WithdrawalCase) risk.WithdrawalRecord {
	return risk.WithdrawalRecord{Case: c, Decision: risk.DecideWithdrawal(c)}
}

// severityRecord returns the record for a provider that answers with a severity; "" for no answer.
func severityRecord(s risk.Severity) risk.WithdrawalRecord {
	c := risk.WithdrawalCase{Configured: true, Answer: &risk.Answer{Unavailable: "down"}}
	if s != "" {
		c.Answer = &risk.Answer{
			Verdict: &risk.Verdict{Provider: "TEST", Severity: s, IsKnown: s != risk.Unknown, GivenAt: time.Unix(1, 0)},
		}
	}
	return screenedRecord(c)
}

func amountPointer(n uint64) *money.Amount {
	a := money.Units(n)
	return &a
}

// withDeductedFee sets a fee that comes out of the amount.
func withDeductedFee(fee uint64, most *money.Amount) func(*Facts) {
	return func(f *Facts) { f.deductsFee, f.fee, f.feeMax = true, amountPointer(fee), most }
}

// withCosts sets the dollars spent, the limit, and the cost in a coin that is worth 3000 dollars.
func withCosts(spent, limit, ether string) func(*Facts) {
	return func(f *Facts) {
		s, l := money.MustParseUSD(spent), money.MustParseUSD(limit)
		most, err := money.ParseDecimal(ether, 18)
		if err != nil {
			panic(err)
		}
		f.costs = costs{
			isCounted: true, decimals: 18,
			quote: &price.Quote{Price: money.MustParseUSD("3000"), Source: "test"}, costMax: &most, limit: &l,
			spent: &s,
		}
	}
}

// The rows follow the interface's table of withdrawals and its order of refusals. Rules WD-3,
// WD-11, WD-12, WD-13, WD-14, WD-26, WD-41.
func TestGatesDecideAsTheInterfaceSays(t *testing.T) {
	t.Parallel()
	above := money.MustParseUSD("100.000000000000000001")
	for _, c := range []struct {
		name    string
		change  func(*Facts)
		refusal fault.Code
		status  Status
		reasons []Reason
	}{
		{"nothing against it", func(*Facts) {}, "", Processing, nil},
		{"no threshold set", func(f *Facts) { f.threshold, f.usdValue = nil, nil }, "", Processing, nil},
		{
			"key demanded and given",
			func(f *Facts) { f.keyRequired, f.request.IdempotencyKey = true, new(string) }, "", Processing, nil,
		},

		{
			"approval asked for", func(f *Facts) { f.request.RequireApproval = true }, "", AwaitingApproval,
			[]Reason{ReasonRequireApproval},
		},
		{
			"value above the threshold by the least", func(f *Facts) { f.usdValue = &above }, "",
			AwaitingApproval,
			[]Reason{ReasonUSDThreshold},
		},
		{
			"price missing where a threshold is set", func(f *Facts) { f.usdValue = nil }, "", AwaitingApproval,
			[]Reason{ReasonPriceUnavailable},
		},
		{
			"looks like a known destination", func(f *Facts) { f.lookalike = stranger }, "", AwaitingApproval,
			[]Reason{ReasonDestinationAddress},
		},
		{
			"not enough to pay with now", func(f *Facts) { f.liquid = money.Units(99) }, "", AwaitingApproval,
			[]Reason{ReasonLowLiquidity},
		},
		{
			"the fee is at the caller's limit",
			func(f *Facts) { f.fee, f.feeMax = amountPointer(7), amountPointer(7) }, "", Processing, nil,
		},
		{
			"the fee is above the caller's limit by the least",
			func(f *Facts) { f.fee, f.feeMax = amountPointer(8), amountPointer(7) }, "", AwaitingApproval,
			[]Reason{ReasonNetworkFee},
		},
		{
			"a limit, and the chain tells no fee: dispatch asks",
			func(f *Facts) { f.feeMax = amountPointer(7) }, "", Processing, nil,
		},
		{"a fee without a limit", func(f *Facts) { f.fee = amountPointer(1_000) }, "", Processing, nil},
		{"the fee leaves one unit of the amount", withDeductedFee(99, nil), "", Processing, nil},
		{
			"the fee that is deducted is above the limit", withDeductedFee(50, amountPointer(49)), "",
			AwaitingApproval,
			[]Reason{ReasonNetworkFee},
		},
		{"the fee takes all of the amount", withDeductedFee(100, nil), fault.AmountBelowMinimum, "", nil},
		{"the fee takes more than the amount", withDeductedFee(101, nil), fault.AmountBelowMinimum, "", nil},
		{
			"what the fee leaves just reaches the destination",
			func(f *Facts) { withDeductedFee(60, nil)(f); f.minReachable = amountPointer(40) }, "", Processing,
			nil,
		},
		{
			"what the fee leaves does not reach the destination",
			func(f *Facts) { withDeductedFee(61, nil)(f); f.minReachable = amountPointer(40) },
			fault.AmountBelowMinimum, "", nil,
		},
		{
			"the amount just reaches the destination", func(f *Facts) { f.minReachable = amountPointer(100) },
			"", Processing, nil,
		},
		{
			"the amount does not reach the destination", func(f *Facts) { f.minReachable = amountPointer(101) },
			fault.AmountBelowMinimum, "", nil,
		},
		{
			"a fee that the organization pays takes nothing of it",
			func(f *Facts) { f.fee, f.minReachable = amountPointer(60), amountPointer(100) }, "", Processing,
			nil,
		},
		{"the smallest payment is unknown: dispatch asks", withDeductedFee(99, nil), "", Processing, nil},
		{
			"400 for the destination before the destination",
			func(f *Facts) { f.minReachable, f.isOwnAddress = amountPointer(101), true },
			fault.AmountBelowMinimum, "", nil,
		},
		{
			"the fee is to be deducted and unknown", func(f *Facts) { f.deductsFee = true },
			fault.CodeUnavailable, "", nil,
		},
		{"holds add up, in order", func(f *Facts) {
			f.request.RequireApproval, f.usdValue, f.lookalike, f.liquid = true, nil, stranger, money.Zero
		}, "", AwaitingApproval, []Reason{
			ReasonRequireApproval, ReasonPriceUnavailable, ReasonDestinationAddress, ReasonLowLiquidity,
		}},

		{
			"destination within the threshold", func(f *Facts) { f.screening = severityRecord(risk.High) }, "",
			Processing, nil,
		},
		{
			"no provider answers for it", func(f *Facts) { f.screening = severityRecord("") }, "",
			AwaitingApproval,
			[]Reason{ReasonRiskReview},
		},
		{
			"an unknown owner", func(f *Facts) { f.screening = severityRecord(risk.Unknown) }, "",
			AwaitingApproval,
			[]Reason{ReasonRiskReview},
		},
		{
			"no provider was asked",
			func(f *Facts) { f.screening = screenedRecord(risk.WithdrawalCase{Configured: true}) }, "",
			AwaitingApproval,
			[]Reason{ReasonRiskReview},
		},
		{
			"destination above the threshold", func(f *Facts) { f.screening = severityRecord(risk.Severe) },
			fault.WithdrawalRiskBlocked, Blocked, nil,
		},
		{
			"balance before risk",
			func(f *Facts) { f.balance, f.screening = money.Zero, severityRecord(risk.Severe) },
			fault.InsufficientBalance, "", nil,
		},
		{
			"risk before the holds",
			func(f *Facts) { f.request.RequireApproval, f.screening = true, severityRecord(risk.Severe) },
			fault.WithdrawalRiskBlocked, Blocked, nil,
		},
		{
			"risk adds to the holds, in order",
			func(f *Facts) { f.request.RequireApproval, f.screening = true, severityRecord("") }, "", AwaitingApproval,
			[]Reason{ReasonRiskReview, ReasonRequireApproval},
		},
		{"allowed, and nothing holds", func(f *Facts) { f.isAllowlisted = true }, "", Processing, nil},
		{
			"allowed: the flag",
			func(f *Facts) { f.isAllowlisted, f.request.RequireApproval = true, true }, "", Processing, nil,
		},
		{"allowed: the threshold", func(f *Facts) { f.isAllowlisted, f.usdValue = true, &above }, "", Processing, nil},
		{"allowed: no price", func(f *Facts) { f.isAllowlisted, f.usdValue = true, nil }, "", Processing, nil},
		{"allowed skips nothing else", func(f *Facts) {
			f.isAllowlisted, f.screening, f.lookalike, f.liquid, f.fee, f.feeMax = true, severityRecord(""), stranger,
				money.Zero, amountPointer(8), amountPointer(7)
		}, "", AwaitingApproval, []Reason{
			ReasonRiskReview, ReasonDestinationAddress, ReasonLowLiquidity, ReasonNetworkFee,
		}},
		{
			"allowed skips no limit on costs",
			func(f *Facts) { f.isAllowlisted = true; withCosts("21", "50", "0.01")(f) }, "", AwaitingApproval,
			[]Reason{ReasonPolicyLimit},
		},
		{
			"allowed does not unblock",
			func(f *Facts) { f.isAllowlisted, f.screening = true, severityRecord(risk.Severe) },
			fault.WithdrawalRiskBlocked, Blocked, nil,
		},

		{"costs at the limit", withCosts("20", "50", "0.01"), "", Processing, nil},
		{
			"costs above the limit by the least", withCosts("20.000000000000000001", "50", "0.01"), "",
			AwaitingApproval,
			[]Reason{ReasonPolicyLimit},
		},
		{
			"costs, and no limit", func(f *Facts) { withCosts("1000", "50", "0.01")(f); f.costs.limit = nil },
			"", Processing, nil,
		},
		{
			"costs, and no source of the coin's price",
			func(f *Facts) { withCosts("1000", "50", "0.01")(f); f.costs.isCounted = false }, "", Processing,
			nil,
		},
		{
			"costs, and the coin's source gives no price",
			func(f *Facts) { withCosts("0", "50", "0.01")(f); f.costs.quote = nil }, "", AwaitingApproval,
			[]Reason{ReasonPolicyLimit},
		},
		{
			"costs that cannot be added up",
			func(f *Facts) { withCosts("0", "50", "0.01")(f); f.costs.spent = nil }, "", AwaitingApproval,
			[]Reason{ReasonPolicyLimit},
		},
		{
			"costs that the chain does not tell: dispatch asks",
			func(f *Facts) { withCosts("20", "50", "0.01")(f); f.costs.costMax = nil }, "", Processing, nil,
		},

		{
			"customer frozen", func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeCustomer} },
			fault.CustomerFrozen, "", nil,
		},
		{
			"organization frozen",
			func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeOrganization} },
			fault.OrganizationFrozen, "", nil,
		},
		{
			"chain frozen", func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeChain} },
			fault.WithdrawalsSuspended, "", nil,
		},
		{
			"everything frozen", func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeAll} },
			fault.WithdrawalsSuspended, "", nil,
		},
		{"key demanded and missing", func(f *Facts) { f.keyRequired = true }, fault.InvalidRequest, "", nil},
		{"below the minimum", func(f *Facts) { f.amount = money.Units(9) }, fault.AmountBelowMinimum, "", nil},
		{"switched off", func(f *Facts) { f.mint.WithdrawEnabled = false }, fault.WithdrawalsSuspended, "", nil},
		{"quarantined", func(f *Facts) { f.mint.Quarantined = true }, fault.WithdrawalsSuspended, "", nil},
		{"chain not running", func(f *Facts) { f.chainRuns = false }, fault.WithdrawalsSuspended, "", nil},
		{"an unspendable address", func(f *Facts) { f.isUnspendable = true }, fault.DestinationNotAllowed, "", nil},
		{"our own address", func(f *Facts) { f.isOwnAddress = true }, fault.DestinationNotAllowed, "", nil},
		{"a token's contract", func(f *Facts) { f.isTokenContract = true }, fault.DestinationNotAllowed, "", nil},
		{"one unit short", func(f *Facts) { f.balance = money.Units(99) }, fault.InsufficientBalance, "", nil},

		{
			"403 before 400",
			func(f *Facts) { f.activeFreeze, f.amount = &freeze.Freeze{Scope: freeze.ScopeCustomer}, money.Units(9) },
			fault.CustomerFrozen, "", nil,
		},
		{
			"400 before the destination", func(f *Facts) { f.amount, f.isOwnAddress = money.Units(9), true },
			fault.AmountBelowMinimum, "", nil,
		},
		{
			"destination before the balance", func(f *Facts) { f.isOwnAddress, f.balance = true, money.Zero },
			fault.DestinationNotAllowed, "", nil,
		},
		{
			"balance before the holds", func(f *Facts) { f.balance, f.request.RequireApproval = money.Zero, true },
			fault.InsufficientBalance, "", nil,
		},
	} {
		f := passingFacts()
		c.change(&f)
		d, refusal := decideAll(f)
		if c.refusal != "" {
			if refusal == nil || refusal.Code != c.refusal || d.Status != c.status {
				t.Errorf("%s: got %v and status %q, want %v", c.name, refusal, d.Status, c.refusal)
			}
			continue
		}
		if refusal != nil || d.Status != c.status || !slices.Equal(d.Reasons, c.reasons) {
			t.Errorf("%s: got %v %s %v, want %s %v", c.name, refusal, d.Status, d.Reasons, c.status, c.reasons)
		}
		if len(d.Gates) != 14 {
			t.Errorf("%s: got a record of %d gates, want all 14", c.name, len(d.Gates))
		}
	}
}

// Rule WD-41. The destination of an organization's own withdrawal receives the amount at any fee.
func TestWhatReachesTheDestinationIsWhatTheMinimumIsAskedOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		change   func(*Facts)
		refused  bool
		smallest string
	}{
		{
			"a customer's, deducted",
			func(f *Facts) { withDeductedFee(30, nil)(f); f.minReachable = amountPointer(71) }, true, "101",
		},
		{
			"a customer's, deducted, enough",
			func(f *Facts) { withDeductedFee(30, nil)(f); f.minReachable = amountPointer(70) }, false, "100",
		},
		{"a product's, the fee on top", func(f *Facts) {
			withDeductedFee(30, nil)(f)
			f.minReachable, f.owner = amountPointer(71), ledger.ProductOwner("CUSTODIAL")
		}, false, "71"},
		{"a product's, too little", func(f *Facts) {
			withDeductedFee(30, nil)(f)
			f.minReachable, f.owner = amountPointer(101), ledger.ProductOwner("CUSTODIAL")
		}, true, "101"},
		{"the mint's own minimum is higher", func(f *Facts) { f.minReachable = amountPointer(1) }, false, "10"},
	} {
		f := passingFacts()
		c.change(&f)
		step, refusal := checkMinimum(f)
		if (refusal != nil) != c.refused || step.Inputs["minimum"] != c.smallest ||
			refusal != nil && refusal.Details["minWithdrawAmount"] != c.smallest {
			t.Errorf(
				"%s: got %+v %v, want refused %v and %s for the smallest", c.name, step, refusal, c.refused,
				c.smallest,
			)
		}
	}
}

func TestApprovalAsksAgainWhatMayHaveChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Facts)
		want   fault.Code
	}{
		{"nothing changed", func(*Facts) {}, ""},
		{
			"holds are what is being decided",
			func(f *Facts) { f.balance, f.liquid, f.lookalike = money.Zero, money.Zero, stranger }, "",
		},
		{"no price, as the person could see", func(f *Facts) { f.usdValue, f.request.RequireApproval = nil, true }, ""},
		{
			"the destination is unknown, as the person could see",
			func(f *Facts) { f.screening, f.request.RequireApproval = severityRecord(risk.Unknown), true }, "",
		},
		{"no price since", func(f *Facts) { f.usdValue = nil }, fault.ApprovalRefused},
		{
			"the destination is unknown since", func(f *Facts) { f.screening = severityRecord(risk.Unknown) },
			fault.ApprovalRefused,
		},
		{
			"no provider answers, whatever the person saw",
			func(f *Facts) { f.screening, f.request.RequireApproval = severityRecord(""), true }, fault.ApprovalRefused,
		},
		{
			"screening refuses now, whoever saw it",
			func(f *Facts) { f.screening, f.request.RequireApproval = severityRecord(risk.Severe), true },
			fault.ApprovalRefused,
		},
		{"costs above the limit since", withCosts("21", "50", "0.01"), fault.ApprovalRefused},
		{
			"costs above the limit, as the person could see",
			func(f *Facts) { withCosts("21", "50", "0.01")(f); f.request.RequireApproval = true }, "",
		},
		{
			"customer frozen since",
			func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeCustomer} },
			fault.CustomerFrozen,
		},
		{
			"everything stopped since",
			func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeAll} },
			fault.WithdrawalsSuspended,
		},
		{"quarantined since", func(f *Facts) { f.mint.Quarantined = true }, fault.WithdrawalsSuspended},
		{"the address is ours now", func(f *Facts) { f.isOwnAddress = true }, fault.ApprovalRefused},
		{"the address is a token now", func(f *Facts) { f.isTokenContract = true }, fault.ApprovalRefused},
		{"a fee that comes out of the amount", withDeductedFee(99, nil), ""},
		{"a fee that takes all of it", withDeductedFee(100, nil), fault.ApprovalRefused},
		{"a fee above the caller's limit", withDeductedFee(50, amountPointer(49)), fault.ApprovalRefused},
		{"a fee that the chain does not tell", func(f *Facts) { f.deductsFee = true }, fault.CodeUnavailable},
		{
			"what the fee leaves just reaches the destination",
			func(f *Facts) { withDeductedFee(60, nil)(f); f.minReachable = amountPointer(40) }, "",
		},
		{
			"what the fee leaves does not reach it",
			func(f *Facts) { withDeductedFee(61, nil)(f); f.minReachable = amountPointer(40) },
			fault.ApprovalRefused,
		},
		{
			"what a fee left that was decided before just reaches it",
			func(f *Facts) { f.feeKept, f.minReachable = amountPointer(60), amountPointer(40) }, "",
		},
		{
			"what a fee left that was decided before does not",
			func(f *Facts) { f.feeKept, f.minReachable = amountPointer(61), amountPointer(40) },
			fault.ApprovalRefused,
		},
		{"the amount does not reach it", func(f *Facts) { f.minReachable = amountPointer(101) }, fault.ApprovalRefused},
		{"the smallest payment is unknown: dispatch asks", func(*Facts) {}, ""},
	} {
		f := passingFacts()
		c.change(&f)
		var seen []Reason
		if f.request.RequireApproval {
			seen = []Reason{ReasonPriceUnavailable, ReasonRiskReview, ReasonPolicyLimit}
		}
		_, got := decideAll(awaitApproval(f, seen...))
		if (got == nil) != (c.want == "") || got != nil && got.Code != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
