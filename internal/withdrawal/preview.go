package withdrawal

import (
	"context"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
)

// Preview says what would become of a request.
type Preview struct {
	WouldBe          Status
	Reasons          []Reason
	Gates            []Step
	NetworkFee       *money.Amount // the most, in units of the chain's native coin; nil: unknown
	NetworkFeeMintID *int
	CustomerCharge   *CustomerCharge // what the customer may be charged in addition; nil: nothing
	ExistingID       string          // the withdrawal that the key belongs to, or ""
}

// Preview decides about a request as Request would, by the same gates on the same facts, and writes
// nothing. A refusal without a record returns the fault of Request, with the gates that ran in its
// details. A request that would be blocked is reported with WouldBe Blocked. Rule WD-28.
func (s *Service) Preview(ctx context.Context, org string, r Request) (Preview, error) {
	var empty Preview
	f, err := s.loadRequest(ctx, org, r, true)
	if err != nil {
		return empty, err
	}
	plan, rejection := Decide(f)
	if rejection != nil {
		return empty, rejection.Err
	}
	if plan.ExistingID != "" {
		w, err := s.loadAnswer(ctx, org, plan.ExistingID)
		if err != nil {
			return empty, err
		}
		p := Preview{
			WouldBe: w.Status, Reasons: w.ApprovalReasons, ExistingID: w.ID, NetworkFeeMintID: w.NetworkFeeMintID,
			CustomerCharge: w.CustomerCharge,
		}
		return p, nil
	}
	if err := s.loadExternalFacts(ctx, org, &f, true); err != nil {
		return empty, err
	}
	evaluated, plan, rejection, err := s.decideUnwritten(ctx, org, &f)
	if err != nil {
		return empty, err
	}
	if rejection != nil {
		return empty, fault.Find(rejection.Err).WithDetail(gatesDetail, FlattenSteps(rejection.Gates))
	}
	p := Preview{
		WouldBe: plan.Status, Reasons: plan.Reasons, Gates: plan.Gates, NetworkFee: evaluated.fee,
		CustomerCharge: newCharge(evaluated.charging.chargedCosts(), evaluated.mint.ID, plan.Charge),
	}
	if evaluated.hasNative {
		p.NetworkFeeMintID = &evaluated.native.ID
	}
	return p, nil
}

// gatesDetail names the gates in the details of a refusal of Preview.
const gatesDetail = "gates"

// RefusedSteps returns the gates that ran before Preview refused a request, the last one being the gate
// that refused. It returns nil for a refusal before the gates.
func RefusedSteps(refusal *fault.Fault) (steps []Step) {
	flat, _ := refusal.Details[gatesDetail].([]map[string]string)
	for _, m := range flat {
		s := Step{Gate: Gate(m["gate"]), Result: Result(m["result"]), Reason: Reason(m["reason"])}
		for name, input := range m {
			if name == "gate" || name == "result" || name == "reason" {
				continue
			}
			if s.Inputs == nil {
				s.Inputs = map[string]string{}
			}
			s.Inputs[name] = input
		}
		steps = append(steps, s)
	}
	return steps
}

// FlattenSteps returns steps as the API shows them: the inputs of a gate next to its result.
func FlattenSteps(steps []Step) []map[string]string {
	flat := make([]map[string]string, 0, len(steps))
	for _, s := range steps {
		m := map[string]string{"gate": string(s.Gate), "result": string(s.Result)}
		if s.Reason != "" {
			m["reason"] = string(s.Reason)
		}
		for k, v := range s.Inputs {
			m[k] = v
		}
		flat = append(flat, m)
	}
	return flat
}
