-- Why: the checks that an earlier step replaced hold for all rows, and the deposits of a deposit swap are found
-- by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE wallets VALIDATE CONSTRAINT wallets_purpose_known;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_subject;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_deposit_swap;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_arrival;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_deposit_swap;
CREATE INDEX CONCURRENTLY deposits_of_deposit_swap ON deposits (deposit_swap_id) WHERE deposit_swap_id IS NOT NULL;
