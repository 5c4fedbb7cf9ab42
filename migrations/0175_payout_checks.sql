-- Why: the checks that an earlier step replaced hold for all rows, and the withdrawal of a row is found by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_kind_known;
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_floored;
ALTER TABLE ledger_transfers VALIDATE CONSTRAINT ledger_transfers_cause_known;
ALTER TABLE withdrawals VALIDATE CONSTRAINT withdrawals_of_one;
ALTER TABLE withdrawals VALIDATE CONSTRAINT withdrawals_batch;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_product;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_batch_of_product;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_batch_once;
CREATE UNIQUE INDEX CONCURRENTLY withdrawals_batch_once ON withdrawals (batch_id, batch_row) WHERE batch_id IS NOT NULL;
