-- Why: the operators' pages show the deposits that wait for a decision, the gas stations, what they
-- lack, what cannot be swept, and an organization's wallets. Without these indexes each of them reads all
-- deposits, orders or wallets.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS deposits_to_resolve;
CREATE INDEX CONCURRENTLY deposits_to_resolve ON deposits (status, created_at) WHERE status IN ('FLAGGED', 'RESOLUTION_STUCK');
DROP INDEX CONCURRENTLY IF EXISTS wallets_listed;
CREATE INDEX CONCURRENTLY wallets_listed ON wallets (org_id, created_at, wallet_id);
DROP INDEX CONCURRENTLY IF EXISTS wallets_treasuries;
CREATE INDEX CONCURRENTLY wallets_treasuries ON wallets (org_id, family) WHERE purpose = 'TREASURY';
DROP INDEX CONCURRENTLY IF EXISTS address_funds_lacking;
CREATE INDEX CONCURRENTLY address_funds_lacking ON address_funds (org_id) WHERE short > 0 OR gas_short > 0;
DROP INDEX CONCURRENTLY IF EXISTS sweeps_not_paid;
CREATE INDEX CONCURRENTLY sweeps_not_paid ON dispatch_orders (org_id, mint_id) WHERE purpose = 'SWEEP' AND status <> 'PAID';
