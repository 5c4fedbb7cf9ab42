-- Why: the checks that an earlier step replaced hold for all rows, and organizations' swaps are found by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_kind_known;
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_floored;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_product;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_arrival;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_product;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_status_known;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_decided_own;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_of_one;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_approvals_bounded;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_approved;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_offered;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_ended;
ALTER TABLE swaps VALIDATE CONSTRAINT swaps_restored_failed;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS swaps_own_listed;
CREATE INDEX CONCURRENTLY swaps_own_listed ON swaps (org_id, created_at, swap_id) WHERE kind = 'ORGANIZATION';
DROP INDEX CONCURRENTLY IF EXISTS swaps_payout_once;
CREATE UNIQUE INDEX CONCURRENTLY swaps_payout_once ON swaps (payout_id) WHERE payout_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS swaps_claims;
CREATE INDEX CONCURRENTLY swaps_claims ON swaps (provider, created_at, swap_id)
    WHERE paid_at IS NOT NULL AND amount_out IS NULL AND refunded + short < amount_in;
DROP INDEX CONCURRENTLY IF EXISTS swaps_debts;
CREATE INDEX CONCURRENTLY swaps_debts ON swaps (provider, created_at, swap_id)
    WHERE paid_at IS NULL AND (amount_out IS NOT NULL OR refunded > 0) OR amount_out IS NOT NULL AND refunded > 0;
