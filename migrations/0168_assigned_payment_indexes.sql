-- Why: the checks of an earlier step hold for all rows, and what is unmatched is found by index, with the checkouts that
-- asked for just this amount.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE checkout_unmatched VALIDATE CONSTRAINT checkout_unmatched_checkout;
ALTER TABLE checkout_unmatched VALIDATE CONSTRAINT checkout_unmatched_assigned;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS checkout_unmatched_open;
CREATE INDEX CONCURRENTLY checkout_unmatched_open ON checkout_unmatched (org_id, seen_at, deposit_id) WHERE assigned_to IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS checkout_quotes_of_amount;
CREATE INDEX CONCURRENTLY checkout_quotes_of_amount ON checkout_quotes (org_id, mint_id, amount, valid_from);
