package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	traceRetryAfter     = 15 * time.Second // after the first attempt; each later pause is twice as long
	traceRetryMax       = time.Hour
	traceRetryTimeout   = 5 * time.Minute // for one attempt at a block
	traceReasonBytesMax = 500
)

// storePending stores the pending traces of a block, in the transaction of the block.
func storePending(ctx context.Context, tx pg.Tx, proofID int64, traces []pendingTrace) error {
	for _, d := range traces {
		_, err := tx.Exec(ctx, `
			INSERT INTO scan_untraced (proof_id, tx_hash, addresses, attempts, last_error, next_attempt_at, created_at)
			VALUES ($1, $2, $3, 1, $4, $5, $6)
			ON CONFLICT (proof_id, tx_hash) DO NOTHING`,
			proofID, d.tx, d.touchedAddresses(), d.storableReason(), tx.Now.Add(traceRetryAfter), tx.Now)
		if err != nil {
			return fmt.Errorf("record that transaction %q has to be traced: %w", d.tx, err)
		}
	}
	return nil
}

// touchedAddresses returns our addresses that the transaction touched, or nil if they are unknown.
func (d pendingTrace) touchedAddresses() []string {
	if d.unknown {
		return nil
	}
	texts := make([]string, len(d.touched))
	for i, a := range d.touched {
		texts[i] = string(a)
	}
	return texts
}

// storableReason returns the beginning of the reason as valid text. A provider can send any bytes,
// and a text that the database refuses would stop the walk.
func (d pendingTrace) storableReason() string {
	reason := strings.ReplaceAll(d.reason, "\x00", "")
	return strings.ToValidUTF8(reason[:min(len(reason), traceReasonBytesMax)], "")
}

// untracedBlock is a block with transactions to trace now.
type untracedBlock struct {
	Proof
	attempts int      // the maximum of its transactions
	txs      []string // the transactions; "" for all of the block
}

// StepTraces traces the transactions of at most one block that are pending. moved is false if none
// is due. It reports what it finds to the listener, with the proof of the block, in the transaction
// that completes the rows.
func (w *Walker) StepTraces(ctx context.Context) (moved bool, err error) {
	if w.tracer == nil {
		return false, nil
	}
	b, ok, err := w.nextUntraced(ctx)
	if err != nil || !ok {
		return false, err
	}
	if err := w.retryTraces(ctx, b); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		return true, errors.Join(fmt.Errorf("trace block %d: %w", b.Height, err), w.postponeTraces(ctx, b, err))
	}
	return true, nil
}

// nextUntraced returns the block that has been due for the longest time. It ignores proofs that a
// break ended: the block that replaced theirs has rows of its own.
func (w *Walker) nextUntraced(ctx context.Context) (b untracedBlock, ok bool, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT p.proof_id, p.height, p.hash, p.parent, p.block_time, max(u.attempts), array_agg(u.tx_hash)
			FROM scan_untraced u JOIN finality_live p USING (proof_id)
			WHERE p.chain = $1 AND u.status = 'DUE'
			GROUP BY p.proof_id, p.height, p.hash, p.parent, p.block_time
			HAVING min(u.next_attempt_at) <= $2
			ORDER BY min(u.next_attempt_at), p.height LIMIT 1`, w.conf.Chain, tx.Now).
			Scan(&b.ID, &b.Height, &b.Hash, &b.Parent, &b.Time, &b.attempts, &b.txs)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		ok = err == nil
		return err
	})
	if err != nil {
		return b, false, fmt.Errorf("look for transactions to trace: %w", err)
	}
	b.Chain = w.conf.Chain
	return b, ok, nil
}

func (w *Walker) retryTraces(ctx context.Context, b untracedBlock) error {
	c, err := w.conf.Reader.Final(ctx, b.Height)
	if err != nil {
		return err
	}
	if c.Hash != b.Hash {
		return fmt.Errorf("it was %s and is %s: %w", b.Hash, c.Hash, chain.ErrDisagreement)
	}
	transfers, balances, pending, _, err := w.findInternalTransfers(ctx, c, b.attempts, traceRetryTimeout)
	if err != nil {
		return err
	}
	internalOnly := c
	internalOnly.Transfers = transfers
	arrivals, _, err := w.matchArrivals(ctx, internalOnly)
	if err != nil {
		return err
	}
	c.Transfers = append(slices.Clip(c.Transfers), transfers...)
	findings, err := w.reconcileBalances(ctx, c, arrivals, balances, pending)
	if err != nil {
		return err
	}
	// The listener received the other arrivals with the block.
	arrivals = slices.DeleteFunc(arrivals, func(f Arrival) bool {
		return !slices.Contains(b.txs, "") && !slices.Contains(b.txs, string(f.Tx))
	})
	var apply Apply
	if len(arrivals) > 0 {
		apply = w.listener.OnFinal(ctx, w.conf.Chain, b.Block, arrivals)
	}
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		live, err := w.lockLiveProof(ctx, tx, b)
		if err != nil || !live {
			return err
		}
		raced, err := completeTraces(ctx, tx, b, pending)
		if err != nil || raced {
			return err
		}
		if len(arrivals) > 0 {
			if err := apply(ctx, tx, b.Proof); err != nil {
				return err
			}
		}
		for _, f := range findings {
			if err := recordFinding(ctx, tx, w.conf.Chain, b.Block, f); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(arrivals) > 0 {
		w.log.Info("scan: traced later", "height", b.Height, "found", len(arrivals), "left", len(pending))
	}
	return err
}

// lockLiveProof locks the chain's cursor, as both walks do, and reports whether the proof is alive.
func (w *Walker) lockLiveProof(ctx context.Context, tx pg.Tx, b untracedBlock) (live bool, err error) {
	if _, err := tx.Exec(ctx, `SELECT FROM scan_cursors WHERE chain = $1 FOR NO KEY UPDATE`, w.conf.Chain); err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM finality_live WHERE proof_id = $1)`, b.ID).Scan(&live)
	return live, err
}

// completeTraces completes the answered rows of a block and postpones the pending ones. raced is
// true if another process has changed some of them meanwhile.
func completeTraces(ctx context.Context, tx pg.Tx, b untracedBlock, pending []pendingTrace) (raced bool, err error) {
	var attemptsMax int
	err = tx.QueryRow(
		ctx, `SELECT coalesce(max(attempts), -1) FROM scan_untraced WHERE proof_id = $1 AND status = 'DUE'`, b.ID,
	).Scan(&attemptsMax)
	if err != nil || attemptsMax != b.attempts {
		return true, err
	}
	open := make([]string, len(pending))
	for i, d := range pending {
		open[i] = string(d.tx)
	}
	if _, err := tx.Exec(ctx, `
		UPDATE scan_untraced SET status = 'DONE', done_at = $3
		WHERE proof_id = $1 AND status = 'DUE' AND tx_hash <> ALL ($2) AND '' <> ALL ($2)`,
		b.ID, open, tx.Now); err != nil {
		return false, fmt.Errorf("complete the traces of block %d: %w", b.Height, err)
	}
	for _, d := range pending {
		if _, err := tx.Exec(ctx, `
			UPDATE scan_untraced SET attempts = $3, last_error = $4, next_attempt_at = $5, addresses = coalesce($6, addresses)
			WHERE proof_id = $1 AND tx_hash = $2 AND status = 'DUE'`,
			b.ID, d.tx, b.attempts+1, d.storableReason(),
			tx.Now.Add(retryDelay(b.attempts)), d.touchedAddresses()); err != nil {
			return false, fmt.Errorf("postpone transaction %q of block %d: %w", d.tx, b.Height, err)
		}
	}
	return false, storePending(ctx, tx, b.ID, pending)
}

// postponeTraces postpones a block that could not be traced at all.
func (w *Walker) postponeTraces(ctx context.Context, b untracedBlock, cause error) error {
	return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE scan_untraced SET attempts = attempts + 1, last_error = $3, next_attempt_at = $4
			WHERE proof_id = $1 AND status = 'DUE' AND attempts <= $2`,
			b.ID, b.attempts, pendingTrace{reason: cause.Error()}.storableReason(), tx.Now.Add(retryDelay(b.attempts)))
		return err
	})
}

// retryDelay returns the pause after the given number of attempts.
func retryDelay(attempts int) time.Duration {
	return min(traceRetryAfter<<min(attempts, 10), traceRetryMax)
}

// runTraces traces pending transactions until ctx ends.
func (w *Walker) runTraces(ctx context.Context) {
	problem := &problemLog{log: w.log, message: "scan: transactions have to be traced"}
	for ctx.Err() == nil {
		moved, err := w.StepTraces(ctx)
		problem.logProblem(ctx, err)
		if !moved || err != nil {
			waitFor(ctx, w.conf.PollInterval)
		}
	}
}

// Untraced is a transaction, or a whole block, that is to be traced.
type Untraced struct {
	Height        uint64
	Tx            chain.TxHash // "" for every transaction of the block
	Addresses     []string     // ours; nil if they are unknown
	Attempts      int
	LastError     string
	CreatedAt     time.Time
	NextAttemptAt time.Time
}

// ListUntraced lists what is to be traced on a chain, oldest first.
func ListUntraced(ctx context.Context, tx pg.Tx, ch chain.Name) ([]Untraced, error) {
	rows, err := tx.Query(ctx, `
		SELECT p.height, u.tx_hash, u.addresses, u.attempts, u.last_error, u.created_at, u.next_attempt_at
		FROM scan_untraced u JOIN finality_live p USING (proof_id)
		WHERE p.chain = $1 AND u.status = 'DUE' ORDER BY p.height, u.tx_hash`, ch)
	if err != nil {
		return nil, fmt.Errorf("read the transactions to trace of %s: %w", ch, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Untraced])
}
