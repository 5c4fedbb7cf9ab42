-- Why: an address of a provider is looked up in every spelling, for each new swap and each new deposit swap.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS deposit_swaps_of_address;
CREATE INDEX CONCURRENTLY deposit_swaps_of_address ON deposit_swaps (origin_chain, lower(deposit_address));
