// Package jobcontrol repeats and cancels jobs for an operator, and records who did it.
//
// It runs no job. Nothing about money depends on a job, so a job that is repeated or cancelled by mistake
// is only late. A crash leaves each job as it was, or changed together with its row in the audit log.
package jobcontrol

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// JobsMax bounds the jobs of one call.
const JobsMax = 50

// Retry makes jobs due at once. It skips those that run, are due or completed, and returns how many it
// changed. Errors: NOT_FOUND, INVALID_REQUEST for too many jobs; then it changes none. Rule PAGE-44.
func Retry(ctx context.Context, db *pg.DB, actor audit.Actor, jobIDs []int64) (changed int, err error) {
	return changeJobs(ctx, db, actor, jobIDs, "job.retried", jobs.State.CanRetry, jobs.Retry)
}

// Cancel cancels jobs that have not ended, and returns how many it changed. A running job is asked to
// stop. Errors: those of Retry. Rule PAGE-44.
func Cancel(ctx context.Context, db *pg.DB, actor audit.Actor, jobIDs []int64) (changed int, err error) {
	return changeJobs(ctx, db, actor, jobIDs, "job.cancelled", jobs.State.CanCancel, jobs.Cancel)
}

func changeJobs(
	ctx context.Context, db *pg.DB, actor audit.Actor, jobIDs []int64, action string,
	applies func(jobs.State) bool, change func(context.Context, pg.Tx, int64) error,
) (changed int, err error) {
	if len(jobIDs) == 0 || len(jobIDs) > JobsMax {
		return 0, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose 1 to %d jobs.", JobsMax).WithParam("jobs")
	}
	// In one order, so that two operators who choose the same jobs wait for each other once.
	sorted := slices.Compact(slices.Sorted(slices.Values(jobIDs)))
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		changed = 0
		var entries []audit.Entry
		for _, jobID := range sorted {
			found, err := jobs.ByID(ctx, tx, jobID)
			if errors.Is(err, jobs.ErrUnknownJob) {
				return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
					"There is no job %d any more.", jobID)
			}
			if err != nil {
				return err
			}
			if !applies(found.State) {
				continue
			}
			if err := change(ctx, tx, jobID); err != nil {
				return err
			}
			changed++
			entries = append(entries, audit.Entry{
				Actor: actor, Action: action, ResourceKind: "JOB", ResourceID: strconv.FormatInt(jobID, 10),
				Detail: map[string]string{"kind": found.Kind, "state": string(found.State)},
			})
		}
		if len(entries) == 0 {
			return nil
		}
		return audit.Record(ctx, tx, entries...)
	})
	return changed, err
}
