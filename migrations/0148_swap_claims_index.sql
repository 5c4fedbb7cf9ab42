-- Why: what is with a provider is counted for each new swap, and is a small part of all swaps.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS swaps_with_provider;
CREATE INDEX CONCURRENTLY swaps_with_provider ON swaps (provider, from_mint_id)
    WHERE amount_out IS NULL AND refunded + short < amount_in AND (paid_at IS NOT NULL OR status IN ('PENDING', 'DEPOSITING', 'PROCESSING'));
