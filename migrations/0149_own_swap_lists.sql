-- Why: the lists of organizations' own swaps by status and by product, and those of an operator, read all swaps.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS swaps_own_of_status;
CREATE INDEX CONCURRENTLY swaps_own_of_status ON swaps (org_id, status, created_at, swap_id) WHERE kind = 'ORGANIZATION';
DROP INDEX CONCURRENTLY IF EXISTS swaps_own_of_product;
CREATE INDEX CONCURRENTLY swaps_own_of_product ON swaps (org_id, product, created_at, swap_id) WHERE kind = 'ORGANIZATION';
DROP INDEX CONCURRENTLY IF EXISTS swaps_all_own_listed;
CREATE INDEX CONCURRENTLY swaps_all_own_listed ON swaps (created_at, swap_id) WHERE kind = 'ORGANIZATION';
