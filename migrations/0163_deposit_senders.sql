-- Why: a payer who wants a refund to an address from which many customers pay would lose it, so its payments are looked
-- up.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_sender;
CREATE INDEX CONCURRENTLY deposits_of_sender ON deposits (from_address, created_at) WHERE from_address <> '';
