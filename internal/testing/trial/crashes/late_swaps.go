package crashes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// failureConfirm is how long a provider has to stand by the report of a failure before the service believes it.
const failureConfirm = time.Minute

// requestLate requests a swap whose provider reports a failure, keeps the payment, and delivers when releaseLate
// is called.
func (s *cellRun) requestLate(ctx context.Context) (*customerSwap, error) {
	if err := s.world.Info.SetLateSwap(ctx); err != nil {
		return nil, err
	}
	w := s.newSwap()
	return w, errors.Join(s.startSwap(w)(ctx), s.waitAsync(ctx))
}

// releaseLate makes the provider deliver what it keeps back of the one late swap.
func (s *cellRun) releaseLate(ctx context.Context) error {
	released, err := s.world.Info.ReleaseSwaps(ctx)
	if err == nil && len(released) != 1 {
		err = fmt.Errorf("the provider released %v, want one swap", released)
	}
	return err
}

// stray is an arrival that a person has to decide about.
type stray struct{ DepositID, SwapID, Amount string }

// waitStray waits until the late delivery of a swap waits for a decision.
func (s *cellRun) waitStray(ctx context.Context, w *customerSwap) (found stray, err error) {
	err = waitUntil(ctx, "the late delivery waits for a decision", drainMax, func(ctx context.Context) (bool, error) {
		var page struct{ Data []stray }
		if _, err := s.callOperator(ctx, http.MethodGet, "/swap-arrivals?open=true", nil, &page); err != nil {
			return false, err
		}
		count := 0
		for _, listed := range page.Data {
			if listed.SwapID == w.created.SwapID {
				found = listed
				count++
			}
		}
		if count > 1 {
			return false, fmt.Errorf("%d arrivals of %s wait, want one", count, w.created.SwapID)
		}
		return count == 1, nil
	})
	if err == nil {
		w.lateOut, err = parseUnits(&found.Amount)
	}
	return found, err
}

// creditStray decides that a late delivery is credited. The decision about a stray whose answer was lost is
// repeated, and answered 409.
func (s *cellRun) creditStray(ctx context.Context, found stray) error {
	status, err := s.callOperator(
		ctx, http.MethodPost, "/swap-arrivals/"+found.DepositID+"/decide",
		map[string]any{"decision": "CREDITED", "note": "the late delivery of a trial"}, nil,
	)
	if err == nil && status != http.StatusOK && status != http.StatusConflict {
		err = fmt.Errorf("decide about %s: got %d, want 200 or 409", found.DepositID, status)
	}
	return err
}

// playStrayArrival plays the decision about a delivery that came after the failure of its swap. A repeated
// decision changes nothing.
func playStrayArrival(ctx context.Context, s *cellRun) error {
	w, err := s.requestLate(ctx)
	if err != nil {
		return err
	}
	if err := s.waitSwapEnd(ctx, w, failed); err != nil {
		return err
	}
	if err := s.releaseLate(ctx); err != nil {
		return err
	}
	found, err := s.waitStray(ctx, w)
	if err != nil {
		return err
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return s.creditStray(ctx, found) })
		return nil
	})
	if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, failed)
}

// playLateDelivery plays a delivery through the point that comes after the failure of its swap. It is in no
// balance before a person decides.
func playLateDelivery(ctx context.Context, s *cellRun) error {
	w, err := s.requestLate(ctx)
	if err != nil {
		return err
	}
	if err := s.waitSwapEnd(ctx, w, failed); err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.releaseLate); err != nil {
		return err
	}
	return s.endWithStray(ctx, w)
}

// endWithStray waits for the late delivery of a failed swap, credits it, and checks that the swap stays failed.
func (s *cellRun) endWithStray(ctx context.Context, w *customerSwap) error {
	found, err := s.waitStray(ctx, w)
	if err != nil {
		return err
	}
	if err := s.creditStray(ctx, found); err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, failed)
}

// waitRowAwaited waits until a transaction waits for the row of a swap.
func (s *cellRun) waitRowAwaited(ctx context.Context) error {
	return waitUntil(ctx, "a transaction waits for the swap", sceneMax, func(ctx context.Context) (bool, error) {
		var waiting int
		err := s.queryRow(ctx, `
			SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%FROM swaps WHERE swap_id = $1 FOR UPDATE%'`, nil, &waiting)
		return waiting > 0, err
	})
}

// playFailureFirst plays a failure through the point, whose transaction has the row of the swap while the
// transaction of the delivery waits for it. A failure that is not committed loses to the delivery, which is in
// a final block by then; one that is committed makes a stray of it.
func playFailureFirst(ctx context.Context, s *cellRun) error {
	s.atPoint = func(ctx context.Context) error {
		if err := s.releaseLate(ctx); err != nil {
			return err
		}
		return s.waitRowAwaited(ctx)
	}
	var w *customerSwap
	err := s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) (err error) {
		w, err = s.requestLate(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if s.fault != Signer { // the others end the transaction of the failure
		return s.waitSwapEnd(ctx, w, paid)
	}
	if err := s.waitSwapEnd(ctx, w, failed); err != nil {
		return err
	}
	return s.endWithStray(ctx, w)
}

// playDeliveryFirst plays a delivery through the point, whose transaction has the row of the swap while the
// failure that the provider has stood by for long enough waits for it. The delivery is in a final block, so the
// swap does not fail, also if that transaction comes to nothing.
func playDeliveryFirst(ctx context.Context, s *cellRun) error {
	w, err := s.requestLate(ctx)
	if err != nil {
		return err
	}
	if err := s.waitFailureSaid(ctx, w, failureConfirm*3/4); err != nil {
		return err
	}
	// The look that could confirm the failure stands between the provider's report and the row.
	release, err := s.holdAtFailpoint(ctx, "Q11", func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	if err := s.waitFailureSaid(ctx, w, failureConfirm); err != nil {
		return err
	}
	s.atPoint = func(ctx context.Context) error {
		if err := release(); err != nil {
			return err
		}
		return s.waitRowAwaited(ctx)
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.releaseLate); err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, paid)
}

// waitFailureSaid waits until the provider of a swap has stood by its failure for a time.
func (s *cellRun) waitFailureSaid(ctx context.Context, w *customerSwap, age time.Duration) error {
	return waitUntil(ctx, "the provider stands by its failure", sceneMax, func(ctx context.Context) (bool, error) {
		var isOld bool
		err := s.queryRow(ctx, `
			SELECT coalesce(failure_said_at <= now() - make_interval(secs => $2), false) FROM swaps WHERE swap_id = $1`,
			[]any{w.created.SwapID, age.Seconds()}, &isOld)
		return isOld, err
	})
}
