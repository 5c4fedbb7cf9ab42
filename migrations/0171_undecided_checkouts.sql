-- Why: a checkout of which everything was given back waits for no one, so it leaves the list of those that do. The index
-- of before stays for the program of before.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS checkouts_undecided;
CREATE INDEX CONCURRENTLY checkouts_undecided ON checkouts (org_id, created_at, checkout_id)
    WHERE exceptions && ARRAY['FLAGGED']
        OR status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND exceptions && ARRAY['REVERSED']
        OR status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND exceptions && ARRAY['WRONG_TOKEN']
            AND NOT exceptions && ARRAY['REFUNDED']
        OR status IN ('EXPIRED', 'CANCELLED') AND exceptions && ARRAY['UNDERPAID', 'PAID_LATE']
            AND NOT exceptions && ARRAY['REFUNDED'];
