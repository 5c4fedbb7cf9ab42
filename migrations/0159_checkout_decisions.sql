-- Why: people find the checkouts that wait for a decision, and those with one exception, however many others there are.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS checkouts_to_decide;
CREATE INDEX CONCURRENTLY checkouts_to_decide ON checkouts (org_id, created_at, checkout_id)
    WHERE exceptions && ARRAY['FLAGGED']
        OR status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND exceptions && ARRAY['REVERSED', 'WRONG_TOKEN']
        OR status IN ('EXPIRED', 'CANCELLED') AND exceptions && ARRAY['UNDERPAID', 'PAID_LATE'];
DROP INDEX CONCURRENTLY IF EXISTS checkouts_flagged;
CREATE INDEX CONCURRENTLY checkouts_flagged ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['FLAGGED'];
DROP INDEX CONCURRENTLY IF EXISTS checkouts_reversed;
CREATE INDEX CONCURRENTLY checkouts_reversed ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['REVERSED'];
DROP INDEX CONCURRENTLY IF EXISTS checkouts_wrong_token;
CREATE INDEX CONCURRENTLY checkouts_wrong_token ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['WRONG_TOKEN'];
DROP INDEX CONCURRENTLY IF EXISTS checkouts_overpaid;
CREATE INDEX CONCURRENTLY checkouts_overpaid ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['OVERPAID'];
DROP INDEX CONCURRENTLY IF EXISTS checkouts_paid_late;
CREATE INDEX CONCURRENTLY checkouts_paid_late ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['PAID_LATE'];
DROP INDEX CONCURRENTLY IF EXISTS checkouts_underpaid;
CREATE INDEX CONCURRENTLY checkouts_underpaid ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['UNDERPAID'];
DROP INDEX CONCURRENTLY IF EXISTS checkouts_refunded;
CREATE INDEX CONCURRENTLY checkouts_refunded ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['REFUNDED'];
