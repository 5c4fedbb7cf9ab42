-- Why: a customer could have the organization pay for failing payments and for new token
-- accounts as often as they liked. A destination that made a payment fail is looked up for
-- every request, and so are the costs that a customer's withdrawals caused in a day.
--
-- Not one transaction: the indexes are built beside the writers of a live table. Every step
-- may be run again. docs/decisions/0074.
-- +goose NO TRANSACTION
-- +goose Up

DROP INDEX CONCURRENTLY IF EXISTS withdrawals_reverted;
CREATE INDEX CONCURRENTLY withdrawals_reverted ON withdrawals (org_id, chain, to_address, completed_at)
    WHERE status = 'FAILED' AND failure_reason = 'REVERTED';
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_approved_paid;
CREATE INDEX CONCURRENTLY withdrawals_approved_paid ON withdrawals (org_id, chain, to_address, approved_at)
    WHERE status = 'COMPLETED' AND approved_at IS NOT NULL;
