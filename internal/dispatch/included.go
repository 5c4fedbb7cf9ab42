package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// inclusion is the block, not proven final yet, in which a slot's transaction was last seen. The
// providers were asked about it and the feature was notified. While that block stands, and no block
// of its height is proven, the slot needs nothing. Where finality takes a quarter of an hour, a
// wallet has hundreds of such slots, and each look asks several providers and writes. A lost
// inclusion costs one look.
type inclusion struct {
	height uint64
	hash   string
}

// horizon is what the database knows of a chain's blocks from the last proven one upward.
type horizon struct {
	proven uint64
	heads  map[uint64]string // what the head walk shows, where it runs
}

func (d *Worker) horizon(ctx context.Context) (h horizon, err error) {
	h.heads = map[uint64]string{}
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(
			ctx, `SELECT height FROM finality_live WHERE chain = $1 ORDER BY height DESC LIMIT 1`, d.chain.Name,
		).Scan(&h.proven)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT height, hash FROM scan_heads WHERE chain = $1`, d.chain.Name)
		if err != nil {
			return err
		}
		var at inclusion
		_, err = pgx.ForEachRow(
			rows, []any{&at.height, &at.hash}, func() error { h.heads[at.height] = at.hash; return nil },
		)
		return err
	})
	if err != nil {
		return h, fmt.Errorf("read up to which block %s is proven: %w", d.chain.Name, err)
	}
	return h, nil
}

// holds reports whether an inclusion is still valid and nothing newer is known.
func (h horizon) holds(in inclusion) bool {
	shown, ok := h.heads[in.height]
	return in.height > h.proven && (!ok || shown == in.hash)
}

// inclusionsMax bounds the inclusions kept in memory.
const inclusionsMax = 1 << 16

// seen returns the block in which the transaction of an order was last seen.
func (d *Worker) seen(orderID string) (in inclusion, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in, ok = d.included[orderID]
	return in, ok
}

// see stores the block in which the transaction of an order was seen; nil deletes it.
func (d *Worker) see(orderID string, in *inclusion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in == nil {
		delete(d.included, orderID)
		return
	}
	if len(d.included) >= inclusionsMax {
		clear(d.included) // mostly of orders that another process has ended
	}
	d.included[orderID] = *in
}

// unmined returns how many of a wallet's slots are not used in the latest block. Without the
// account's state it counts all of them.
func unmined(open []slot, acct *chain.Account) (n int) {
	for _, s := range open {
		if acct == nil {
			n++
		} else if used, _ := acct.IsUsed(s.ChainSlot); !used {
			n++
		}
	}
	return n
}
