package crashes

import (
	"context"
	"fmt"
)

// deepPayments are more than a wallet has in no block at a time: dozens are in flight when
// the point is reached, most of them in blocks that are not final.
const deepPayments = 40

// sunk asks for payments and mines a block whenever a mempool's worth of them is out, until
// all are; then nothing more is mined.
func (s *stage) sunk(ctx context.Context) (ps payments, err error) {
	s.still()
	for n := range deepPayments {
		p := s.payment(fmt.Sprintf("%s-deep-%d", s.name, n))
		if err := s.accepted(ctx, p); err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	ids := make([]string, len(ps))
	for i, p := range ps {
		ids[i] = p.made.WithdrawalID
	}
	before := 0
	for before < deepPayments {
		var out int
		err := until(ctx, "more payments are out", sceneMax, func(ctx context.Context) (bool, error) {
			var waits int
			err := s.query(ctx, `
				SELECT count(*) FILTER (WHERE status = 'BROADCAST'), count(*) FILTER (WHERE status IN ('SLOTTED', 'SIGNED'))
				FROM dispatch_orders WHERE order_id = ANY ($1)`, []any{ids}, &out, &waits)
			if err == nil && (waits > 0 || out == before) {
				err = fmt.Errorf("%d of %d are out, %d are about to be", out, deepPayments, waits)
			}
			return err == nil, err
		})
		if err != nil {
			return nil, err
		}
		if before = out; before < deepPayments {
			if err := s.net.mine(ctx); err != nil {
				return nil, err
			}
		}
	}
	return ps, nil
}

// deep plays a point while dozens of payments are in flight: a payment behind them, or the
// next block and the end of all, comes through it.
func deep(ctx context.Context, s *stage) error {
	behind, err := s.sunk(ctx)
	if err != nil {
		return err
	}
	last := s.newPayments()
	s.meanwhile = s.goOn
	err = s.through(ctx, s.point.place(), func(ctx context.Context) error {
		if err := s.pay(last...)(ctx); err != nil {
			return err
		}
		switch s.point.place() {
		case "W22":
			return s.net.mine(ctx)
		case "W27":
			return s.goOn(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.ended(ctx, last, paid); err != nil {
		return err
	}
	for _, p := range behind {
		if err := s.completed(ctx, p, paid); err != nil {
			return err
		}
	}
	return nil
}

// deepFork is deep with a fork that takes the last block back.
func deepFork(ctx context.Context, s *stage) error {
	s.held = func(ctx context.Context) error { return s.net.fork(ctx) }
	return deep(ctx, s)
}
