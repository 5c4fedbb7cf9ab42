package race

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
)

// batchTask is what the workers of both processes do about the same batch payouts, at the same time.
type batchTask struct {
	Ahead     time.Duration // of the clock
	GrantSeed []byte
	Batches   []string // drafts
}

// The people of batches: the maker, and those who approve. Two of them have to.
var (
	batchMaker     = audit.User("usr_maker")
	batchApprovers = []audit.Actor{audit.User("usr_first"), audit.User("usr_second")}
)

// batchRows is how many rows each batch has.
const batchRows = 4

// Every worker does its own thing with one batch until it has ended or has payments, and some more times. What never
// comes to that is left after batchPatience.
const (
	batchTurns    = 4
	batchPatience = 2 * time.Minute
)

// batchProcess is a process that does everything about batches.
type batchProcess struct {
	*process
	*harness.Harness
	batchTask

	calls, refusals atomic.Uint64
	ended           map[string]string // by batch: how a person ended it
}

// payBatches lets every worker do its own thing with every batch, in the same order.
func payBatches(ctx context.Context, t task) (result, error) {
	s := *t.BatchRace
	clock := func() time.Time { return time.Now().Add(s.Ahead) }
	db, err := pg.Open(ctx, pg.Config{URL: t.URL, MaxConns: workers}, clock)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	grants, err := signer.NewGrantKey(s.GrantSeed)
	if err != nil {
		return result{}, err
	}
	p := &batchProcess{
		process: &process{task: t, db: db, accepted: map[string]string{}, decided: map[string]string{}},
		Harness: newCheckoutHarness(db, sim.New(sim.Config{}), t.Attest, grants, clock), batchTask: s,
		ended: map[string]string{},
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for round, id := range s.Batches {
				late := 0 // turns since it has ended or has payments
				began := time.Now()
				for turn := 0; late < batchTurns && time.Since(began) < batchPatience; turn++ {
					p.goFor(ctx, w, batchTurn{round: round, n: turn, late: late}, id)
					if late > 0 || p.isDecided(ctx, id) {
						late++
					}
				}
			}
		})
	}
	wg.Wait()
	return result{
		Requests: p.calls.Load(), Conflicts: p.refusals.Load(), Looks: p.looks.Load(),
		Deadlocks: db.Counts().Deadlocks, Vain: p.vain.Load(), Accepted: p.accepted, Decided: p.decided,
		Resolved: p.ended, Wrong: p.wrong,
	}, nil
}

// batchTurn is a turn of a worker: its number, and how many turns ago the batch had ended or had payments.
type batchTurn struct{ round, n, late int }

// isDecided reports whether a batch has ended or has payments.
func (p *batchProcess) isDecided(ctx context.Context, id string) (decided bool) {
	err := p.db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT ended_at IS NOT NULL OR EXISTS (
			SELECT FROM withdrawals w WHERE w.batch_id = b.batch_id) FROM payout_batches b WHERE batch_id = $1`,
			id).Scan(&decided)
	})
	if err != nil && !isLockTimeout(err) {
		p.addComplaint("look: %v", err)
	}
	return decided
}

// batchPayee returns the address of a row, to which nothing else is paid.
func batchPayee(round, row int) chain.Address {
	return sim.Address(fmt.Sprintf("payee %d of batch %d", row, round))
}

// newBatchList returns the list of a batch.
func newBatchList(round int) (lines []rowfile.Line) {
	for n := 1; n <= batchRows; n++ {
		lines = append(lines, rowfile.NewLine(n, n+1, []string{
			fmt.Sprintf("race-%d-%d", round, n), "", fmt.Sprint(token), string(batchPayee(round, n)), "",
			fmt.Sprint(1_000_000 * n),
		}))
	}
	return lines
}

// goFor does one thing about a batch. Which one follows from the worker, so that several workers of both processes do
// the same thing at the same time.
func (p *batchProcess) goFor(ctx context.Context, worker int, turn batchTurn, id string) {
	round := turn.round
	var act string
	var err error
	switch kind := worker % 10; kind {
	case 0:
		act = "submit"
		_, err = p.submit(ctx, id)
	case 1, 2:
		act = "approve"
		err = p.approve(ctx, id, batchApprovers[kind-1])
	case 3:
		act = "approve as the maker"
		if err = p.approve(ctx, id, batchMaker); err == nil {
			p.addComplaint("the maker approved %s", id)
		}
	case 4:
		act = "work"
		err = p.Payouts.WorkDue(ctx)
	case 5:
		act = "check"
		err = p.Payouts.Validate(ctx, p.Org, id)
	case 6:
		act = "pay"
		err = p.Payouts.Expand(ctx, p.Org, id)
	case 7:
		act = "pause and resume"
		if _, err = p.Payouts.Pause(ctx, p.Org, id, batchMaker); err == nil {
			_, err = p.Payouts.Resume(ctx, p.Org, id, batchApprovers[0])
		}
	case 8:
		act = "create with one key"
		var made payout.Batch
		key := fmt.Sprintf("batch-%d", round)
		made, err = p.Payouts.Create(ctx, p.Org, payout.CreateRequest{
			Lines: newBatchList(round), Mode: contenthash.Partial, IdempotencyKey: &key, Actor: batchMaker,
		})
		if err == nil {
			p.checkSameID(p.accepted, key, made.ID)
		}
	default:
		act = "stop"
		err = p.stop(ctx, turn, id)
	}
	p.calls.Add(1)
	switch f := fault.Find(err); {
	case err == nil:
	case isLockTimeout(err):
		p.vain.Add(1)
	case f == nil:
		p.addComplaint("%s batch %d: %v", act, round, err)
	default:
		p.refusals.Add(1)
		switch f.Code {
		case fault.InvalidState, fault.ApprovalRefused, fault.InsufficientBalance:
		case fault.CodeUnavailable: // a row waited too long for a lock, and its end is recorded by a later round
			p.vain.Add(1)
		default:
			p.addComplaint("%s batch %d: %v", act, round, err)
		}
	}
	p.lookAtHolds(ctx)
}

// submit submits a batch with the hash that it has.
func (p *batchProcess) submit(ctx context.Context, id string) (payout.Batch, error) {
	b, err := p.Payouts.ByID(ctx, p.Org, id)
	if err != nil {
		return b, err
	}
	return p.Payouts.Submit(ctx, p.Org, id, payout.SubmitRequest{ContentHash: b.ContentHash, Actor: batchMaker})
}

func (p *batchProcess) approve(ctx context.Context, id string, person audit.Actor) error {
	b, err := p.Payouts.ByID(ctx, p.Org, id)
	if err == nil {
		_, err = p.Payouts.Approve(ctx, p.Org, id, b.ContentHash, person)
	}
	return err
}

// stop ends two thirds of the batches. Of six it rejects one as soon as it waits for approval, cancels two before or
// after their approval, and one when it has payments.
func (p *batchProcess) stop(ctx context.Context, turn batchTurn, id string) error {
	verdict := string(payout.Cancelled)
	var err error
	switch round := turn.round; {
	case round%3 == 0, round%6 == 4 && turn.late < batchTurns/2, round%3 == 2 && turn.n < round/3%batchTurns:
		if turn.late == 0 {
			select { // its moment comes later
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
		return nil
	case round%6 == 1:
		verdict = string(payout.Rejected)
		_, err = p.Payouts.Reject(ctx, p.Org, id, "by the race", batchApprovers[1])
	default:
		_, err = p.Payouts.Cancel(ctx, p.Org, id, batchMaker)
	}
	if err == nil {
		p.checkSameID(p.ended, id, verdict)
	}
	return err
}

// lookAtHolds compares what is held for batches with their open rows, at one moment.
func (p *batchProcess) lookAtHolds(ctx context.Context) {
	if p.Process != 0 && rand.IntN(4) > 0 {
		return
	}
	err := p.db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		var held, open, lowest string
		err := tx.QueryRow(ctx, batchHolds).Scan(&held, &open, &lowest)
		if err == nil && (held != open || lowest[0] == '-') {
			p.addComplaint("%s is held for batches, their open rows take %s, and the lowest balance is %s", held, open,
				lowest)
		}
		return err
	})
	if err != nil && !isLockTimeout(err) {
		p.addComplaint("look: %v", err)
	}
	p.looks.Add(1)
}

// batchHolds selects what is held for batches, what their rows take that have neither a withdrawal nor a refusal, and
// the lowest balance.
const batchHolds = `
	SELECT (SELECT coalesce(sum(x.balance), 0)::text FROM ledger_accounts a JOIN ledger_balances x USING (account_id)
			WHERE a.kind = 'BATCH_HELD'),
		(SELECT coalesce(sum(i.amount), 0)::text FROM payout_items i JOIN payout_batches b USING (batch_id)
			WHERE b.status IN ('VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING') AND i.included
				AND (b.status <> 'PROCESSING' OR i.refused IS NULL AND NOT EXISTS (
					SELECT FROM withdrawals w WHERE w.batch_id = i.batch_id AND w.batch_row = i.row_no
						AND w.status <> 'BLOCKED'))),
		(SELECT coalesce(min(balance), 0)::text FROM ledger_balances)`
