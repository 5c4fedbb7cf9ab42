package withdrawal

import (
	"context"

	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Preview says what would become of a request.
type Preview struct {
	WouldBe          Status
	Reasons          []Reason
	Gates            []Step
	NetworkFee       *money.Amount // the most, in units of the chain's native coin; nil: unknown
	NetworkFeeMintID *int
	CustomerCharge   *webhook.CustomerCharge // what the customer may be charged in addition; nil: nothing
	ExistingID       string                  // the withdrawal that the key belongs to, or ""
}

// Preview decides about a request as Request would, by the same gates on the same facts, and writes
// nothing. A refusal without a record returns the fault of Request, with the gates that ran in its
// details. A request that would be blocked is reported with WouldBe Blocked. Rule WD-28.
func (s *Service) Preview(ctx context.Context, org string, r Request) (Preview, error) {
	var empty Preview
	if err := checkKey(r.IdempotencyKey); err != nil {
		return empty, err
	}
	q, err := s.loadRequest(ctx, org, r)
	if err != nil {
		return empty, err
	}
	if q.isKnown {
		w, err := s.answerReplay(ctx, org, q.existing, r, q.parsed, q.parseErr)
		if err != nil {
			return empty, err
		}
		p := Preview{
			WouldBe: Status(w.Status), ExistingID: w.WithdrawalID, NetworkFeeMintID: w.NetworkFeeMintID,
			CustomerCharge: w.CustomerCharge,
		}
		for _, reason := range w.ApprovalReasons {
			p.Reasons = append(p.Reasons, Reason(reason))
		}
		return p, nil
	}
	if err := q.checkRefusal(r); err != nil {
		return empty, err
	}
	f := q.requestFacts(r)
	if _, err := s.loadExternalFacts(ctx, org, &f, true); err != nil {
		return empty, err
	}
	if s.Risk.Configured() {
		// A request that is refused without screening is not screened.
		if d, err := s.evaluateWithScreening(ctx, org, &f); err != nil {
			return empty, err
		} else if d.refusal != nil && d.Status != Blocked {
			return empty, d.refusal.WithDetail("gates", FlattenSteps(d.Gates))
		}
	}
	var d Decision
	var native *int
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if f, d, err = s.evaluateRequest(ctx, tx, org, f); err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if coin, ok := mints.Native(f.mint.Chain); ok {
			native = &coin.ID
		}
		return err
	})
	if err != nil {
		return empty, err
	}
	if d.refusal != nil && d.Status != Blocked {
		return empty, d.refusal.WithDetail("gates", FlattenSteps(d.Gates))
	}
	return Preview{
		WouldBe: d.Status, Reasons: d.Reasons, Gates: d.Gates, NetworkFee: f.fee, NetworkFeeMintID: native,
		CustomerCharge: chargeObject(f.charging.chargedCosts(), f.mint.ID, f.charging.charge),
	}, nil
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
