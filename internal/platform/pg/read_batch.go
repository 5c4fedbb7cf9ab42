package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/trace"
)

// ReadSystemBatch does what ReadSystem does, for statements that are known beforehand. It sends the
// statements that queue adds as one transaction in one round trip, where ReadSystem takes three.
// The functions queued with the statements receive the results. They may be called more than once,
// and so may queue. They keep an error that is an answer, because an error that they return repeats
// the batch.
func (db *DB) ReadSystemBatch(ctx context.Context, queue func(b *pgx.Batch)) error {
	return db.readBatch(ctx, func(b *pgx.Batch) {
		b.Queue("set local role " + roleSystem)
		queue(b)
	})
}

// ReadOrgBatch does what ReadOrg does, as ReadSystemBatch does it for ReadSystem. The statements use a
// key and are planned once per session, as those of InOrgPipelined are. The replica may answer, as in ReadOrg.
func (db *DB) ReadOrgBatch(ctx context.Context, org string, queue func(b *pgx.Batch)) (err error) {
	if !isOrgID(org) {
		panic(fmt.Sprintf("pg: %q cannot be the id of an organization", org))
	}
	refuseNested(ctx)
	if isAnswered, err := db.tryReplica(ctx, org, func(ctx context.Context, tx Tx) error {
		b := &pgx.Batch{}
		QueueKeyPlans(b)
		queue(b)
		return tx.SendBatch(ctx, b).Close()
	}); isAnswered {
		return err
	}
	ctx, span := trace.StartChild(ctx, "transaction")
	defer func() { span.End(err) }()
	return db.readBatch(ctx, func(b *pgx.Batch) {
		b.Queue(actAsOrgSQL, org)
		queue(b)
	})
}

// QueueKeyPlans has the statements that are queued after it planned by their keys and once per session,
// as those of InOrgPipelined are.
func QueueKeyPlans(b *pgx.Batch) { b.Queue("SELECT " + keyPlansSQL) }

// readBatch reads in one round trip. The first statement that queue adds sets the role.
func (db *DB) readBatch(ctx context.Context, queue func(b *pgx.Batch)) error {
	refuseNested(ctx)
	release, err := acquireSlot(ctx)
	if err != nil {
		return fmt.Errorf("look: %w", err)
	}
	defer release()
	for attempt := 1; ; attempt++ {
		b := &pgx.Batch{}
		b.Queue("begin isolation level read committed read only")
		queue(b)
		b.Queue("commit")
		// A connection on which a statement failed is still in its transaction. The pool closes it
		// instead of lending it again.
		err := db.pool.SendBatch(ctx, b).Close()
		if err == nil {
			return nil
		}
		// The batch only reads, so a lost connection is no reason to fail.
		refused, isPgErr := errors.AsType[*pgconn.PgError](err)
		_, unconnected := errors.AsType[*pgconn.ConnectError](err)
		if attempt == readBatchTriesMax || ctx.Err() != nil || unconnected ||
			isPgErr && !strings.HasPrefix(refused.Code, "57P") {
			return withReason(fmt.Errorf("look: %w", err), false)
		}
	}
}

// readBatchTriesMax is enough for a pool whose connections a restarted server has closed: each try
// removes one of them.
const readBatchTriesMax = 32
