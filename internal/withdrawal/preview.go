package withdrawal

import (
	"context"

	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Preview is what would become of a request.
type Preview struct {
	WouldBe          Status
	Reasons          []Reason
	Gates            []Step
	NetworkFee       *money.Amount // the most, in units of the chain's own coin; nil when the chain does not say
	NetworkFeeMintID *int
	CustomerCharge   *webhook.CustomerCharge // what the customer may be charged beside the amount; nil: nothing
	ExistingID       string                  // the withdrawal that the key belongs to already, or ""
}

// Preview decides about a request as Request would, by the same gates on the same
// facts, and writes nothing. What Request would refuse without a record is refused with
// the same fault, whose details have the gates that were asked; what it would block is
// told as such.
func (s *Service) Preview(ctx context.Context, org string, r Request) (Preview, error) {
	var none Preview
	if err := checkKey(r.IdempotencyKey); err != nil {
		return none, err
	}
	q, err := s.prepare(ctx, org, r)
	if err != nil {
		return none, err
	}
	if q.known {
		w, err := s.replay(ctx, org, q.twin, r, q.parsed, q.wrong)
		if err != nil {
			return none, err
		}
		p := Preview{WouldBe: Status(w.Status), ExistingID: w.WithdrawalID, NetworkFeeMintID: w.NetworkFeeMintID, CustomerCharge: w.CustomerCharge}
		for _, reason := range w.ApprovalReasons {
			p.Reasons = append(p.Reasons, Reason(reason))
		}
		return p, nil
	}
	if err := q.refusal(r); err != nil {
		return none, err
	}
	f := q.facts(r)
	if _, err := s.outside(ctx, org, &f, true); err != nil {
		return none, err
	}
	if s.Risk.Configured() {
		// Nobody is asked about what is refused without them.
		if d, err := s.weigh(ctx, org, &f); err != nil {
			return none, err
		} else if d.refusal != nil && d.Status != Blocked {
			return none, d.refusal.With("gates", Flat(d.Gates))
		}
	}
	var d Decision
	var native *int
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if f, d, err = s.judge(ctx, tx, org, f); err != nil {
			return err
		}
		mints, err := mint.All(ctx, tx)
		if coin, ok := mints.Native(f.mint.Chain); ok {
			native = &coin.ID
		}
		return err
	})
	if err != nil {
		return none, err
	}
	if d.refusal != nil && d.Status != Blocked {
		return none, d.refusal.With("gates", Flat(d.Gates))
	}
	return Preview{WouldBe: d.Status, Reasons: d.Reasons, Gates: d.Gates, NetworkFee: f.fee, NetworkFeeMintID: native, CustomerCharge: shownCharge(f.charging.setting(), f.mint.ID, f.charging.charge)}, nil
}

// Flat are steps as a surface shows them: what a gate looked at stands beside what it
// said.
func Flat(steps []Step) []map[string]string {
	out := make([]map[string]string, 0, len(steps))
	for _, s := range steps {
		m := map[string]string{"gate": string(s.Gate), "result": string(s.Result)}
		if s.Reason != "" {
			m["reason"] = string(s.Reason)
		}
		for k, v := range s.Inputs {
			m[k] = v
		}
		out = append(out, m)
	}
	return out
}
