-- Why: whether a destination looks like another one was answered by reading every payment with the same beginning and
-- end, and so every payment to the same address. With the address in the index, the next address before and behind it
-- answer.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again: what an interrupted run left behind is made again.
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_alike;
CREATE INDEX CONCURRENTLY withdrawals_alike ON withdrawals (org_id, to_prefix_suffix, to_address);
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_prefix_suffix;
