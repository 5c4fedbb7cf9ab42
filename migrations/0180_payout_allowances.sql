-- Why: rows of a batch share a transaction on EVM chains by a contract, which a treasury allows to move its tokens.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again: what an interrupted run left behind is made again.
ALTER TABLE dispatch_orders DROP CONSTRAINT IF EXISTS dispatch_orders_purpose_known, ADD CONSTRAINT dispatch_orders_purpose_known CHECK (
        CASE purpose
            WHEN 'PAYMENT' THEN to_wallet_id IS NULL
            WHEN 'RETURN' THEN to_wallet_id IS NULL
            WHEN 'SWAP' THEN to_wallet_id IS NULL AND from_wallet_id IS NULL
            WHEN 'SWEEP' THEN to_wallet_id IS NOT NULL
            WHEN 'GAS' THEN to_wallet_id IS NOT NULL AND contract = ''
            WHEN 'PLACE' THEN to_wallet_id IS NULL AND contract = '' AND customer_id IS NULL
            WHEN 'MERGE' THEN to_wallet_id IS NOT NULL AND contract = '' AND customer_id IS NULL AND is_utxo(chain)
            WHEN 'CLOSE' THEN to_wallet_id IS NOT NULL AND from_wallet_id IS NOT NULL AND contract <> ''
                AND customer_id IS NULL
            WHEN 'TOKEN_ACCOUNT' THEN to_wallet_id IS NOT NULL AND from_wallet_id IS NULL AND contract <> ''
                AND customer_id IS NULL
            WHEN 'ALLOWANCE' THEN to_wallet_id IS NULL AND from_wallet_id IS NULL AND contract <> '' AND customer_id IS NULL
            WHEN 'REVOCATION' THEN to_wallet_id IS NULL AND from_wallet_id IS NULL AND contract <> '' AND customer_id IS NULL
            ELSE false
        END) NOT VALID;
ALTER TABLE dispatch_orders DROP CONSTRAINT IF EXISTS dispatch_orders_positive, ADD CONSTRAINT dispatch_orders_positive CHECK (
        CASE WHEN purpose IN ('MERGE', 'TOKEN_ACCOUNT', 'ALLOWANCE', 'REVOCATION') THEN amount = 0 ELSE amount > 0 END) NOT VALID;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_purpose_known;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_positive;
DROP INDEX CONCURRENTLY IF EXISTS payout_allowances_one_open;
CREATE UNIQUE INDEX CONCURRENTLY payout_allowances_one_open ON dispatch_orders (wallet_id, chain, mint_id)
    WHERE purpose IN ('ALLOWANCE', 'REVOCATION') AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN')
        AND trigger <> 'RESTORED';
DROP INDEX CONCURRENTLY IF EXISTS payout_allowances_of_wallet;
CREATE INDEX CONCURRENTLY payout_allowances_of_wallet ON dispatch_orders (wallet_id, chain, mint_id, created_at)
    WHERE purpose IN ('ALLOWANCE', 'REVOCATION');

-- +goose StatementBegin
-- One transaction.

-- What the payout contract may move is a treasury's.
CREATE OR REPLACE FUNCTION dispatch_orders_allowance() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT w.purpose = 'TREASURY' FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % allows the payout contract something of a wallet that is no treasury', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_allowance';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS dispatch_orders_allowance ON dispatch_orders;
CREATE TRIGGER dispatch_orders_allowance BEFORE INSERT ON dispatch_orders
    FOR EACH ROW WHEN (NEW.purpose IN ('ALLOWANCE', 'REVOCATION')) EXECUTE FUNCTION dispatch_orders_allowance();

CREATE OR REPLACE VIEW payout_allowances WITH (security_invoker = true) AS
SELECT order_id AS allowance_id, org_id, chain, wallet_id, mint_id, purpose = 'ALLOWANCE' AS is_granted, trigger,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') THEN 'REFUSED' ELSE order_outcome(status) END AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose IN ('ALLOWANCE', 'REVOCATION');
SELECT coffer_shared('payout_allowances', 'SELECT', 'SELECT');
-- +goose StatementEnd
