-- Why: the checks that an earlier step added hold for all rows, a list is submitted once, and used references are found by
-- index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_mode_known;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_approved;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_list_bounded;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_retry;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_duplicate;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_readable;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_submitted_as;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_paused;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_stopped;
ALTER TABLE payout_items VALIDATE CONSTRAINT payout_items_excluded;
ALTER TABLE payout_items VALIDATE CONSTRAINT payout_items_waits;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS payout_batches_list_once;
CREATE UNIQUE INDEX CONCURRENTLY payout_batches_list_once ON payout_batches (org_id, list_hash, coalesce(duplicate_of, ''))
    WHERE submitted_hash IS NOT NULL AND status NOT IN ('INVALID', 'CANCELLED', 'REJECTED', 'FAILED');
DROP INDEX CONCURRENTLY IF EXISTS payout_items_of_reference;
CREATE INDEX CONCURRENTLY payout_items_of_reference ON payout_items (org_id, reference) WHERE reference <> '';
