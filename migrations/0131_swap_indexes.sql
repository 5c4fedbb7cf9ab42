-- Why: the checks that the step before replaced hold for all rows, and swaps are found by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_kind_known;
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_floored;
ALTER TABLE ledger_transfers VALIDATE CONSTRAINT ledger_transfers_cause_known;
ALTER TABLE wallets VALIDATE CONSTRAINT wallets_purpose_known;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_subject;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_purpose_known;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_trigger_known;
ALTER TABLE change_requests VALIDATE CONSTRAINT change_requests_kind_known;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_swap;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_arrival;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_swap;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_swap;
CREATE INDEX CONCURRENTLY deposits_of_swap ON deposits (swap_id) WHERE swap_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS deposits_completing_swap;
CREATE UNIQUE INDEX CONCURRENTLY deposits_completing_swap ON deposits (swap_id) WHERE completes_swap;
DROP INDEX CONCURRENTLY IF EXISTS dispatch_orders_pay_by;
CREATE INDEX CONCURRENTLY dispatch_orders_pay_by ON dispatch_orders (pay_by)
    WHERE purpose = 'SWAP' AND status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST');
