-- Why: people find the checkouts that wait for a decision, and those that asked for an amount that belongs to none.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS checkouts_to_decide;
CREATE INDEX CONCURRENTLY checkouts_to_decide ON checkouts (org_id, created_at, checkout_id)
    WHERE exceptions && ARRAY['FLAGGED']
        OR status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND exceptions && ARRAY['REVERSED', 'WRONG_TOKEN']
        OR status IN ('EXPIRED', 'CANCELLED') AND exceptions && ARRAY['UNDERPAID', 'PAID_LATE'];
DROP INDEX CONCURRENTLY IF EXISTS checkout_quotes_of_amount;
CREATE INDEX CONCURRENTLY checkout_quotes_of_amount ON checkout_quotes (org_id, mint_id, amount, expires_at);
