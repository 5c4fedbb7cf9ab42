package withdrawal

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
)

// stop is a change of passing facts that makes one check refuse or hold.
type stop struct {
	name   string
	change func(*Facts)
	code   fault.Code // of a refusal
	gate   Gate       // the gate that refuses, or "" before the gates
	reason Reason     // of a hold
}

func freezeCustomer(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeCustomer} }

// earlyStops lists the stops before the gates, in their order.
func earlyStops() []stop {
	return []stop{
		{"a known key of another request", func(f *Facts) {
			f.existing = &request.Accepted{ID: "wd_1", Digest: []byte("another")}
		}, fault.IdempotencyConflict, "", ""},
		{"over the limit", func(f *Facts) {
			f.limitErr = fault.New(fault.Limited, fault.RateLimited, fault.Unprocessed, "")
		}, fault.RateLimited, "", ""},
		{"frozen", freezeCustomer, fault.CustomerFrozen, "", ""},
		{"malformed", func(f *Facts) {
			f.parseErr = fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingHeld, "")
		}, fault.InvalidAmount, "", ""},
	}
}

// customerStops lists what the gates of a customer's request refuse and hold, in their order.
func customerStops() []stop {
	return []stop{
		{"frozen", freezeCustomer, fault.CustomerFrozen, GateFreeze, ""},
		{"no key", func(f *Facts) { f.keyRequired = true }, fault.InvalidRequest, GateIdempotencyKey, ""},
		{
			"below the minimum", func(f *Facts) { f.minReachable = amountPointer(101) }, fault.AmountBelowMinimum,
			GateMinimum, "",
		},
		{"quarantined", func(f *Facts) { f.mint.Quarantined = true }, fault.WithdrawalsSuspended, GateSuspended, ""},
		{"our address", func(f *Facts) { f.isOwnAddress = true }, fault.DestinationNotAllowed, GateAddress, ""},
		{
			"costs that cannot be charged", func(f *Facts) { f.charging.costs = org.ChargeRent }, fault.CodeUnavailable,
			GateCustomerCharge, "",
		},
		{"no balance", func(f *Facts) { f.balance = money.Zero }, fault.InsufficientBalance, GateBalance, ""},
		{
			"above the severity", func(f *Facts) { f.screening = severityRecord(risk.Severe) },
			fault.WithdrawalRiskBlocked, GateRisk, "",
		},
		{"fee unknown", func(f *Facts) { f.deductsFee = true }, fault.CodeUnavailable, GateNetworkFee, ""},
	}
}

func customerHolds() []stop {
	return []stop{
		{"unscreened", func(f *Facts) { f.screening = severityRecord("") }, "", GateRisk, ReasonRiskReview},
		{
			"approval asked for", func(f *Facts) { f.request.RequireApproval = true }, "", GateApproval,
			ReasonRequireApproval,
		},
		{"no price", func(f *Facts) { f.usdValue = nil }, "", GateUSDThreshold, ReasonPriceUnavailable},
		{
			"a lookalike", func(f *Facts) { f.lookalike = usdcAddress }, "", GateDestination, ReasonDestinationAddress,
		},
		{"illiquid", func(f *Facts) { f.liquid = money.Zero }, "", GateLiquidity, ReasonLowLiquidity},
		{
			"fee above the limit", func(f *Facts) { f.fee, f.feeMax = amountPointer(8), amountPointer(7) }, "",
			GateNetworkFee, ReasonNetworkFee,
		},
		{"costs of the day", withCosts("21", "50", "0.01"), "", GateCustomerCosts, ReasonPolicyLimit},
	}
}

// without leaves out the stops of gates that the organization's own money does not pass.
func without(stops []stop, gates ...Gate) []stop {
	return slices.DeleteFunc(slices.Clone(stops), func(s stop) bool { return slices.Contains(gates, s.gate) })
}

// organizationStops lists what the gates of the organization's own money refuse, in their order.
func organizationStops() []stop {
	stops := without(customerStops(), GateIdempotencyKey, GateCustomerCharge)
	i := slices.IndexFunc(stops, func(s stop) bool { return s.gate == GateAddress })
	return slices.Insert(stops, i, stop{
		"not on the whitelist", func(f *Facts) { f.entry = WhitelistEntry{} }, fault.AddressNotWhitelisted,
		GateWhitelist, "",
	})
}

// approvalStops lists the refusals of an approval, in their order. Refusals of screening are
// recorded.
func approvalStops() []stop {
	return []stop{
		{"already approved", func(f *Facts) { f.approval.row.status = Processing }, fault.InvalidState, "", ""},
		{"taken back", func(f *Facts) { f.approval.row.isVoid = true }, fault.InvalidState, "", ""},
		{"other terms", func(f *Facts) { f.approval.areTermsSeen = false }, fault.ApprovalRefused, "", ""},
		{"frozen", freezeCustomer, fault.CustomerFrozen, GateFreeze, ""},
		{"quarantined", func(f *Facts) { f.mint.Quarantined = true }, fault.WithdrawalsSuspended, GateSuspended, ""},
		{
			"not on the whitelist", func(f *Facts) { f.owner = ledger.ProductOwner("CHECKOUT") },
			fault.ApprovalRefused, GateWhitelist, "",
		},
		{"our address", func(f *Facts) { f.isOwnAddress = true }, fault.ApprovalRefused, GateAddress, ""},
		{"fee unknown", func(f *Facts) { f.deductsFee = true }, fault.CodeUnavailable, GateNetworkFee, ""},
		{"unreachable", func(f *Facts) { f.minReachable = amountPointer(101) }, fault.ApprovalRefused, GateMinimum, ""},
	}
}

func approvalHolds() []stop {
	return []stop{
		{
			"unknown to screening", func(f *Facts) { f.screening = severityRecord(risk.Unknown) }, "", GateRisk,
			ReasonRiskReview,
		},
		{"no price", func(f *Facts) { f.usdValue = nil }, "", GateUSDThreshold, ReasonPriceUnavailable},
		{
			"failed before", func(f *Facts) { f.failedWithdrawalID = "wd_1" }, "", GateDestination,
			ReasonDestinationAddress,
		},
		{"costs of the day", withCosts("21", "50", "0.01"), "", GateCustomerCosts, ReasonPolicyLimit},
	}
}

// wantStops checks that each stop stops alone, and that of each adjacent pair the first one does.
func wantStops(t *testing.T, facts func() Facts, stops []stop) {
	t.Helper()
	for i, first := range stops {
		want := func(name string, changes ...stop) {
			f := facts()
			for _, c := range changes {
				c.change(&f)
			}
			plan, rejection := Decide(f)
			var last Gate
			switch {
			case rejection == nil && plan.Answer == nil:
				t.Errorf("%s: got the plan %+v, want %s", name, plan, first.code)
				return
			case rejection == nil:
				rejection = &Rejection{Err: plan.Answer, Gates: plan.Gates}
			}
			if n := len(rejection.Gates); n > 0 {
				last = rejection.Gates[n-1].Gate
			}
			if !fault.HasCode(rejection.Err, first.code) || last != first.gate {
				t.Errorf("%s: got %v at %q, want %s at %q", name, rejection.Err, last, first.code, first.gate)
			}
		}
		want(first.name, first)
		if i+1 < len(stops) {
			want(first.name+" and "+stops[i+1].name, stops[i+1], first)
		}
	}
}

// wantHolds checks that each hold gives its reason, and that those of each adjacent pair add up.
func wantHolds(t *testing.T, facts func() Facts, holds []stop) {
	t.Helper()
	for i, first := range holds {
		f, want := facts(), []Reason{first.reason}
		first.change(&f)
		if d, _ := decideAll(f); d.Status != AwaitingApproval || !slices.Equal(d.Reasons, want) {
			t.Errorf("%s: got %s %v, want %v", first.name, d.Status, d.Reasons, want)
		}
		if i+1 == len(holds) {
			return
		}
		holds[i+1].change(&f)
		want = append(want, holds[i+1].reason)
		if d, _ := decideAll(f); d.Status != AwaitingApproval || !slices.Equal(d.Reasons, want) {
			t.Errorf("%s and %s: got %s %v, want %v", first.name, holds[i+1].name, d.Status, d.Reasons, want)
		}
	}
}

// Rules IDEM-3, WD-11 to WD-14, OW-1, OW-2, WD-32.
func TestTheFirstCheckThatRefusesAnswersAndHoldsAddUp(t *testing.T) {
	t.Parallel()
	early := func() Facts {
		f := passingFacts()
		f.isLoaded = false
		return f
	}
	wantStops(t, early, earlyStops())
	wantStops(t, passingFacts, customerStops())
	wantHolds(t, passingFacts, customerHolds())
	wantStops(t, ownFacts, organizationStops())
	wantHolds(t, ownFacts, without(customerHolds(), GateApproval, GateCustomerCosts))
	approval := func() Facts { return awaitApproval(passingFacts()) }
	wantStops(t, approval, approvalStops())
	wantHolds(t, approval, approvalHolds())
}

// Every recorded decision has the gates in this order.
func TestGatesRunInOneOrder(t *testing.T) {
	t.Parallel()
	own := awaitApproval(ownFacts())
	own.deductsFee, own.fee = true, amountPointer(1)
	for name, c := range map[string]struct {
		facts Facts
		want  string
	}{
		"customer": {passingFacts(), "[FREEZE IDEMPOTENCY_KEY MINIMUM SUSPENDED ADDRESS CUSTOMER_CHARGE BALANCE RISK " +
			"REQUIRE_APPROVAL USD_THRESHOLD DESTINATION_ADDRESS LIQUIDITY NETWORK_FEE CUSTOMER_COSTS]"},
		"organization": {ownFacts(), "[FREEZE MINIMUM SUSPENDED WHITELIST ADDRESS BALANCE RISK USD_THRESHOLD " +
			"DESTINATION_ADDRESS LIQUIDITY NETWORK_FEE]"},
		"approval": {awaitApproval(passingFacts()), "[FREEZE SUSPENDED ADDRESS MINIMUM RISK USD_THRESHOLD]"},
		"approval of an organization's, with a fee": {
			own, "[FREEZE SUSPENDED WHITELIST ADDRESS NETWORK_FEE MINIMUM RISK USD_THRESHOLD]",
		},
	} {
		plan, rejection := Decide(c.facts)
		if rejection != nil {
			t.Errorf("%s: got %v", name, rejection.Err)
		}
		var gates []Gate
		for _, s := range plan.Gates {
			gates = append(gates, s.Gate)
		}
		if got := fmt.Sprint(gates); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// A plan says what is written and what the caller is told. Rules WD-2, WD-10, WD-31, WD-35, OW-4.
func TestAPlanSaysWhatIsWritten(t *testing.T) {
	t.Parallel()
	held := func(f *Facts) { f.request.RequireApproval, f.quorum, f.threshold = true, 2, nil }
	rent := func(f *Facts) {
		f.mint, f.balance, f.charging = newMints()[1], money.Units(1000), charging{
			isCharged: true, rent: amountPointer(30), costs: org.ChargeRent,
		}
	}
	doubted := func(f *Facts) { f.usdValue = nil }
	for _, c := range []struct {
		name   string
		facts  Facts
		change func(*Facts)
		want   string // act, status, amount, hold, deducted fee, approvals required, answer
	}{
		{"customer", passingFacts(), func(*Facts) {}, "REQUESTED PROCESSING 100 100 <nil> 0 "},
		{"customer, held", passingFacts(), held, "REQUESTED AWAITING_APPROVAL 100 100 <nil> 2 "},
		{"customer, fee deducted", passingFacts(), withDeductedFee(7, nil), "REQUESTED PROCESSING 100 100 7 0 "},
		{
			"customer, held, fee deducted later", passingFacts(),
			func(f *Facts) { held(f); withDeductedFee(7, nil)(f) }, "REQUESTED AWAITING_APPROVAL 100 100 <nil> 2 ",
		},
		{"customer, rent held", passingFacts(), rent, "REQUESTED PROCESSING 100 130 <nil> 0 "},
		{
			"customer, blocked", passingFacts(),
			func(f *Facts) { rent(f); f.screening = severityRecord(risk.Severe) },
			"REQUESTED BLOCKED 100 0 <nil> 0 WITHDRAWAL_RISK_BLOCKED",
		},
		{"organization", ownFacts(), func(*Facts) {}, "REQUESTED PROCESSING 100 100 <nil> 0 "},
		{"organization, fee on top", ownFacts(), func(f *Facts) {
			withDeductedFee(7, nil)(f)
			f.balance = money.Units(107)
		}, "REQUESTED PROCESSING 107 107 7 0 "},
		{"organization, held, fee on top", ownFacts(), func(f *Facts) {
			withDeductedFee(7, nil)(f)
			f.balance, f.usdValue, f.quorum = money.Units(107), nil, 3
		}, "REQUESTED AWAITING_APPROVAL 107 107 7 3 "},
		{"organization, blocked", ownFacts(), func(f *Facts) {
			withDeductedFee(7, nil)(f)
			f.balance, f.screening = money.Units(107), severityRecord(risk.Severe)
		}, "REQUESTED BLOCKED 100 0 <nil> 0 WITHDRAWAL_RISK_BLOCKED"},
		{"the only approval", awaitApproval(passingFacts()), func(f *Facts) {
			f.approval.row.approvalsRequired = 1
		}, "APPROVED PROCESSING 0 0 <nil> 1 "},
		{"the first approval of two", awaitApproval(passingFacts()), func(f *Facts) {
			f.approval.row.approvalsRequired = 2
		}, "APPROVAL_ADDED AWAITING_APPROVAL 0 0 <nil> 2 "},
		{"the second approval of two", awaitApproval(passingFacts()), func(f *Facts) {
			f.approval.row.approvalsRequired, f.approval.counting = 2, make([]signer.Approval, 1)
		}, "APPROVED PROCESSING 0 0 <nil> 2 "},
		{
			"the first approval of a withdrawal that is older than the count", awaitApproval(passingFacts()),
			func(f *Facts) { f.quorum = 2 }, "APPROVAL_ADDED AWAITING_APPROVAL 0 0 <nil> 2 ",
		},
		{"an approval that fixes the fee", awaitApproval(passingFacts()), func(f *Facts) {
			withDeductedFee(7, nil)(f)
			f.approval.row.approvalsRequired = 1
		}, "APPROVED PROCESSING 0 0 7 1 "},
		{"an approval after the fee was fixed", awaitApproval(passingFacts()), func(f *Facts) {
			f.approval.row.approvalsRequired, f.approval.row.deductedFee, f.fee = 1, amountPointer(5), amountPointer(7)
		}, "APPROVED PROCESSING 0 0 5 1 "},
		{
			"an approval with a new reason", awaitApproval(passingFacts()), doubted,
			"APPROVAL_REFUSED AWAITING_APPROVAL 0 0 <nil> 0 APPROVAL_REFUSED",
		},
		{
			"an approval of a reason that was shown", awaitApproval(passingFacts(), ReasonPriceUnavailable),
			func(f *Facts) { doubted(f); f.approval.row.approvalsRequired = 1 }, "APPROVED PROCESSING 0 0 <nil> 1 ",
		},
		{
			"an approval that screening refuses", awaitApproval(passingFacts(), ReasonRiskReview),
			func(f *Facts) { f.screening = severityRecord(risk.Severe) },
			"APPROVAL_REFUSED AWAITING_APPROVAL 0 0 <nil> 0 APPROVAL_REFUSED",
		},
		{
			"an approval without an answer of screening", awaitApproval(passingFacts(), ReasonRiskReview),
			func(f *Facts) { f.screening = severityRecord("") },
			"APPROVAL_REFUSED AWAITING_APPROVAL 0 0 <nil> 0 APPROVAL_REFUSED",
		},
	} {
		c.change(&c.facts)
		p, rejection := Decide(c.facts)
		if rejection != nil {
			t.Errorf("%s: got %v, want a plan", c.name, rejection.Err)
			continue
		}
		var answer fault.Code
		if p.Answer != nil {
			answer = p.Answer.Code
		}
		got := fmt.Sprintf("%s %s %s %s %v %d %s", p.Act, p.Status, p.Amount, p.Hold, p.DeductedFee, p.Required, answer)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// Rules IDEM-1, IDEM-2 and IDEM-3.
func TestAKnownKeyIsAnsweredBeforeAnyRule(t *testing.T) {
	t.Parallel()
	reference, other := "r1", "r2"
	f := passingFacts()
	for _, s := range slices.Concat(earlyStops()[1:3], customerStops()) {
		s.change(&f)
	}
	f.digest, f.restorableDigest, f.request.Reference = []byte("d"), []byte("restorable"), &reference
	same := reference
	for _, c := range []struct {
		name     string
		existing request.Accepted
		isReplay bool
	}{
		{"the same request", request.Accepted{ID: "wd_1", Digest: []byte("d"), Reference: &same}, true},
		{"another digest", request.Accepted{ID: "wd_1", Digest: []byte("e"), Reference: &same}, false},
		{"another reference", request.Accepted{ID: "wd_1", Digest: []byte("d"), Reference: &other}, false},
		{"no reference", request.Accepted{ID: "wd_1", Digest: []byte("d")}, false},
		{"restored", request.Accepted{ID: "wd_1", Digest: []byte("restorable"), IsRestored: true}, true},
		{"restored, another digest", request.Accepted{ID: "wd_1", Digest: []byte("d"), IsRestored: true}, false},
	} {
		f.existing = &c.existing
		plan, rejection := Decide(f)
		if (plan.ExistingID == "wd_1") != c.isReplay ||
			(rejection == nil) != c.isReplay ||
			rejection != nil && !fault.HasCode(rejection.Err, fault.IdempotencyConflict) {
			t.Errorf("%s: got %+v %+v, want a replay: %t", c.name, plan, rejection, c.isReplay)
		}
	}
	f.existing = &request.Accepted{ID: "wd_1", Digest: []byte("d"), Reference: &same}
	f.parseErr = errors.New("malformed")
	if _, rejection := Decide(f); rejection == nil || !fault.HasCode(rejection.Err, fault.IdempotencyConflict) {
		t.Errorf("malformed: got %+v, want a conflict", rejection)
	}
}

// A destination is screened when no gate refuses. A request whose treasury is unknown is not paid.
func TestADestinationIsScreenedOnceNothingRefuses(t *testing.T) {
	t.Parallel()
	unscreened := passingFacts()
	unscreened.screening = screenedRecord(risk.WithdrawalCase{Configured: true})
	if plan, rejection := Decide(unscreened); rejection != nil || !plan.ScreenFirst || plan.Status != AwaitingApproval {
		t.Errorf("got %+v %v, want it held and screened first", plan, rejection)
	}
	for _, s := range customerStops() {
		if s.gate == GateRisk {
			continue
		}
		f := unscreened
		s.change(&f)
		if plan, rejection := Decide(f); rejection == nil || plan.ScreenFirst {
			t.Errorf("%s: got %+v, want it refused and not screened", s.name, plan)
		}
	}
	f := passingFacts()
	f.wasBlocked = true
	if _, rejection := Decide(f); rejection == nil || !fault.HasCode(rejection.Err, fault.CodeUnavailable) {
		t.Errorf("blocked a moment ago: got %+v, want %s", rejection, fault.CodeUnavailable)
	}
	f.request.RequireApproval = true
	if _, rejection := Decide(f); rejection != nil {
		t.Errorf("blocked a moment ago, held now: got %v, want it held", rejection.Err)
	}
}
