-- Why: the checks that an earlier step replaced hold for all rows, and the deposits of a checkout are found by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE wallets VALIDATE CONSTRAINT wallets_purpose_known;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_product;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_checkout;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_checkout;
CREATE INDEX CONCURRENTLY deposits_of_checkout ON deposits (checkout_id) WHERE checkout_id IS NOT NULL;
