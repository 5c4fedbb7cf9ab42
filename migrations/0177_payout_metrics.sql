-- Why: a scrape of the metrics counts the batches that have not ended, and finds them by index.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS payout_batches_open;
CREATE INDEX CONCURRENTLY payout_batches_open ON payout_batches (status, created_at)
    WHERE status IN ('VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING');
