-- Why: the checks that an earlier step replaced hold for all rows, and the withdrawals of a refund are found by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_kind_known;
ALTER TABLE ledger_accounts VALIDATE CONSTRAINT ledger_accounts_floored;
ALTER TABLE ledger_transfers VALIDATE CONSTRAINT ledger_transfers_cause_known;
ALTER TABLE withdrawals VALIDATE CONSTRAINT withdrawals_of_one;
ALTER TABLE withdrawals VALIDATE CONSTRAINT withdrawals_refund;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_product;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_refund_of_checkout;
ALTER TABLE checkout_payments VALIDATE CONSTRAINT checkout_payments_refunds;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_refund_once;
CREATE UNIQUE INDEX CONCURRENTLY withdrawals_refund_once ON withdrawals (refund_id)
    WHERE refund_id IS NOT NULL AND status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED');
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_refund;
CREATE INDEX CONCURRENTLY withdrawals_of_refund ON withdrawals (refund_id) WHERE refund_id IS NOT NULL;
