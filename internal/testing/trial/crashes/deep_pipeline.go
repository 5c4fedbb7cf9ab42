package crashes

import (
	"context"
	"fmt"
)

// deepPayments is more than the unmined payments that a wallet may have: dozens are in flight when
// the point is reached, most of them in blocks that are not final.
const deepPayments = 40

// fillPipeline requests payments and mines a block whenever the mempool has as many as it takes,
// until all are broadcast. Then it mines no more.
func (s *cellRun) fillPipeline(ctx context.Context) (ps payments, err error) {
	s.holdBroadcasts()
	for n := range deepPayments {
		p := s.addPayment(fmt.Sprintf("%s-deep-%d", s.name, n))
		if err := s.requestPayment(ctx, p); err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	ids := make([]string, len(ps))
	for i, p := range ps {
		ids[i] = p.created.WithdrawalID
	}
	previous := 0
	for previous < deepPayments {
		var broadcast int
		err := waitUntil(ctx, "more payments are out", sceneMax, func(ctx context.Context) (bool, error) {
			var waits int
			err := s.queryRow(ctx, `
				SELECT count(*) FILTER (WHERE status = 'BROADCAST'), count(*) FILTER (WHERE status IN ('SLOTTED', 'SIGNED'))
				FROM dispatch_orders WHERE order_id = ANY ($1)`, []any{ids}, &broadcast, &waits)
			if err == nil && (waits > 0 || broadcast == previous) {
				err = fmt.Errorf("%d of %d are out, %d are about to be", broadcast, deepPayments, waits)
			}
			return err == nil, err
		})
		if err != nil {
			return nil, err
		}
		if previous = broadcast; previous < deepPayments {
			if err := s.net.mineBlock(ctx); err != nil {
				return nil, err
			}
		}
	}
	return ps, nil
}

// playDeepPipeline plays a point while dozens of payments are in flight. Another payment after
// them, or the next block and the end of all, reaches it.
func playDeepPipeline(ctx context.Context, s *cellRun) error {
	earlier, err := s.fillPipeline(ctx)
	if err != nil {
		return err
	}
	last := s.newPayments()
	s.afterFault = s.releaseBroadcasts
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		if err := s.startPayments(last...)(ctx); err != nil {
			return err
		}
		switch s.point.sourceName() {
		case "W22":
			return s.net.mineBlock(ctx)
		case "W27":
			return s.releaseBroadcasts(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.waitPaymentsEnd(ctx, last, paid); err != nil {
		return err
	}
	for _, p := range earlier {
		if err := s.waitPaymentEnd(ctx, p, paid); err != nil {
			return err
		}
	}
	return nil
}

// playDeepFork is playDeepPipeline with a fork that removes the last block.
func playDeepFork(ctx context.Context, s *cellRun) error {
	s.atPoint = func(ctx context.Context) error { return s.net.forkBlock(ctx) }
	return playDeepPipeline(ctx, s)
}
