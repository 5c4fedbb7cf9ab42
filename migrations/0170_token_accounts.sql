-- Why: the service creates the token accounts of the addresses that checkouts share, and asks wallets to pay there only
-- when an account exists.

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
            ELSE false
        END) NOT VALID;
ALTER TABLE dispatch_orders DROP CONSTRAINT IF EXISTS dispatch_orders_positive, ADD CONSTRAINT dispatch_orders_positive CHECK (
        CASE WHEN purpose IN ('MERGE', 'TOKEN_ACCOUNT') THEN amount = 0 ELSE amount > 0 END) NOT VALID;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_purpose_known;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_positive;
DROP INDEX CONCURRENTLY IF EXISTS wallets_shared;
CREATE INDEX CONCURRENTLY wallets_shared ON wallets (wallet_id) WHERE purpose = 'CHECKOUT_SHARED';
DROP INDEX CONCURRENTLY IF EXISTS token_accounts_one_open;
CREATE UNIQUE INDEX CONCURRENTLY token_accounts_one_open ON dispatch_orders (to_wallet_id, mint_id)
    WHERE purpose = 'TOKEN_ACCOUNT' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
DROP INDEX CONCURRENTLY IF EXISTS token_accounts_of_wallet;
CREATE INDEX CONCURRENTLY token_accounts_of_wallet ON dispatch_orders (to_wallet_id, mint_id, created_at) WHERE purpose = 'TOKEN_ACCOUNT';
DROP INDEX CONCURRENTLY IF EXISTS checkout_options_shared;
CREATE INDEX CONCURRENTLY checkout_options_shared ON checkout_options (shared_wallet_id, mint_id) WHERE shared_wallet_id IS NOT NULL;

-- +goose StatementBegin
-- One transaction.

-- A treasury pays for the token account of an address that checkouts share, and of no other one.
CREATE OR REPLACE FUNCTION dispatch_orders_token_account() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT w.purpose = 'CHECKOUT_SHARED' FROM wallets w WHERE w.wallet_id = NEW.to_wallet_id) IS NOT TRUE
       OR (SELECT w.purpose = 'TREASURY' FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % creates the token account of another address, or no treasury pays for it', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_token_account';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS dispatch_orders_token_account ON dispatch_orders;
CREATE TRIGGER dispatch_orders_token_account BEFORE INSERT ON dispatch_orders
    FOR EACH ROW WHEN (NEW.purpose = 'TOKEN_ACCOUNT') EXECUTE FUNCTION dispatch_orders_token_account();

-- A creation of the token account of an address that checkouts share. The treasury pays its rent, as a part of the fee.
-- FAILED: the transaction was mined and failed. REFUSED: nothing was sent. Both are planned again after a pause.
CREATE OR REPLACE VIEW token_account_creations WITH (security_invoker = true) AS
SELECT order_id AS creation_id, org_id, chain, to_wallet_id AS wallet_id, mint_id,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') THEN 'REFUSED' ELSE order_outcome(status) END AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'TOKEN_ACCOUNT';
SELECT coffer_shared('token_account_creations', 'SELECT', 'SELECT');

-- The token accounts of these addresses that exist, as a quorum of providers said of the final state. Wallets are asked
-- for a payment only where a row says so. Who created an account makes no difference, and none is ever closed.
DO $$
BEGIN
    IF to_regclass('public.token_accounts') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE TABLE token_accounts (
        wallet_id text NOT NULL,
        mint_id   integer NOT NULL REFERENCES mints,
        org_id    text NOT NULL,
        found_at  timestamptz NOT NULL,
        CONSTRAINT token_accounts_pkey PRIMARY KEY (wallet_id, mint_id),
        CONSTRAINT token_accounts_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id)
    );
    PERFORM coffer_tenant('token_accounts', 'SELECT', 'SELECT, INSERT');
    CREATE TRIGGER token_accounts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON token_accounts
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
END $$;

CREATE OR REPLACE FUNCTION token_accounts_shared() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.purpose, w.family) = ('CHECKOUT_SHARED', 'SOLANA') FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE
       OR (SELECT m.chain = 'SOLANA' AND m.contract <> '' FROM mints m WHERE m.mint_id = NEW.mint_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'wallet % has no token account of mint % that wallets are asked to pay', NEW.wallet_id, NEW.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'token_accounts_shared';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS token_accounts_shared ON token_accounts;
CREATE TRIGGER token_accounts_shared BEFORE INSERT ON token_accounts
    FOR EACH ROW EXECUTE FUNCTION token_accounts_shared();
-- +goose StatementEnd
