package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/pg"
)

// An inclusion is where the transaction of a slot was last seen, in a block that is not
// proven final. Its providers were asked and its feature was told. As long as the block is
// the one, and no block of its height is proven, there is nothing to do for the slot: where
// finality takes a quarter of an hour a wallet has hundreds of such, and each look asks
// several providers and writes. Losing it costs one look.
type inclusion struct {
	height uint64
	hash   string
}

// horizon is what the database knows of a chain's blocks that are not older than the last
// one that is proven.
type horizon struct {
	proven uint64
	heads  map[uint64]string // what the head walk shows, where it runs
}

func (d *Worker) horizon(ctx context.Context) (h horizon, err error) {
	h.heads = map[uint64]string{}
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT height FROM finality_live WHERE chain = $1 ORDER BY height DESC LIMIT 1`, d.chain.Name).Scan(&h.proven)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT height, hash FROM scan_heads WHERE chain = $1`, d.chain.Name)
		if err != nil {
			return err
		}
		var at inclusion
		_, err = pgx.ForEachRow(rows, []any{&at.height, &at.hash}, func() error { h.heads[at.height] = at.hash; return nil })
		return err
	})
	if err != nil {
		return h, fmt.Errorf("read how far %s is proven: %w", d.chain.Name, err)
	}
	return h, nil
}

// holds tells whether what is known of a transaction's block still counts, and is all that
// there is to know.
func (h horizon) holds(in inclusion) bool {
	shown, ok := h.heads[in.height]
	return in.height > h.proven && (!ok || shown == in.hash)
}

// inclusionsMax bounds what is remembered.
const inclusionsMax = 1 << 16

// seen is where the transaction of an order was last seen.
func (d *Worker) seen(orderID string) (in inclusion, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in, ok = d.included[orderID]
	return in, ok
}

// see remembers where it was seen; nil forgets it.
func (d *Worker) see(orderID string, in *inclusion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in == nil {
		delete(d.included, orderID)
		return
	}
	if len(d.included) >= inclusionsMax {
		clear(d.included) // Of orders that another process has ended.
	}
	d.included[orderID] = *in
}

// unmined is how many of a wallet's slots the latest block has not seen used.
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
