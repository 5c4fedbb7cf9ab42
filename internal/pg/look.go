package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ReadSystemBatch is ReadSystem for statements that are known beforehand: what queue adds
// to the batch is sent as one transaction in one round trip, where ReadSystem takes
// three. What was found is told to the functions that were queued with the statements;
// like queue itself they may be called more than once.
func (db *DB) ReadSystemBatch(ctx context.Context, queue func(b *pgx.Batch)) error {
	if ctx.Value(insideKey{}) != nil {
		panic("pg: a transaction was opened inside a transaction")
	}
	release, err := acquireSlot(ctx)
	if err != nil {
		return fmt.Errorf("look: %w", err)
	}
	defer release()
	for attempt := 1; ; attempt++ {
		b := &pgx.Batch{}
		b.Queue("begin isolation level read committed read only")
		b.Queue("set local role " + roleSystem)
		queue(b)
		b.Queue("commit")
		// A connection on which something failed is still in its transaction, and the
		// pool closes it instead of giving it to somebody else.
		err := db.pool.SendBatch(ctx, b).Close()
		if err == nil {
			return nil
		}
		// It only reads, so a connection that was lost is no reason to fail.
		refused, isPgErr := errors.AsType[*pgconn.PgError](err)
		_, unconnected := errors.AsType[*pgconn.ConnectError](err)
		if attempt == readBatchTriesMax || ctx.Err() != nil || unconnected || isPgErr && !strings.HasPrefix(refused.Code, "57P") {
			return withReason(fmt.Errorf("look: %w", err), false)
		}
	}
}

// readBatchTriesMax is enough for a pool whose connections a restarted server has closed:
// each try takes one of them out.
const readBatchTriesMax = 32
