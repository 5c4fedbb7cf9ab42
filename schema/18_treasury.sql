-- Internal orders: the service plans them itself, to keep the treasuries. They are sweeps, gas
-- top-ups, consolidations of UTXOs (decision 0063), and nonce accounts (decision 0050) and token
-- accounts (decision 0065) on Solana that are created and closed.

-- The cause of an internal order. What the order moves, and how far it is, is in the order alone.
-- The role that answers requests inserts orders and cannot insert this row, so it plans no order.
CREATE TABLE internal_orders (
    order_id text NOT NULL,
    org_id   text NOT NULL REFERENCES organizations,
    purpose  text NOT NULL,
    trigger  text NOT NULL,
    CONSTRAINT internal_orders_pkey PRIMARY KEY (order_id, org_id, purpose, trigger),
    CONSTRAINT internal_orders_once UNIQUE (order_id),
    -- The order comes first, in the same transaction: none can be added to a row later.
    CONSTRAINT internal_orders_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT internal_orders_trigger_known CHECK (trigger IN ('VALUE', 'DEMAND', 'PERSON', 'RESTORED'))
);
SELECT coffer_tenant('internal_orders', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER internal_orders_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON internal_orders
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An order without a trigger is a payment or a return, and has the key of its own cause, or a
-- payment to a swap provider, which a trigger compares with its swap.
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_caused FOREIGN KEY (order_id, org_id, purpose, trigger)
    REFERENCES internal_orders DEFERRABLE INITIALLY DEFERRED;

-- What an internal order is for those who planned it: OPEN, DONE or FAILED. A failed one moved
-- nothing.
CREATE FUNCTION order_outcome(status text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN status = 'PAID' THEN 'DONE' WHEN status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END;

-- A sweep moves what arrived at an address to the treasury.
CREATE VIEW sweeps WITH (security_invoker = true) AS
SELECT order_id AS sweep_id, org_id, chain, coalesce(from_wallet_id, wallet_id) AS wallet_id, to_wallet_id, mint_id, amount,
    trigger, order_outcome(status) AS status, tx_hash, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'SWEEP';
SELECT coffer_shared('sweeps', 'SELECT', 'SELECT');

-- A top-up sends native coin of the operator from the treasury to an address that has to pay
-- for its own sweep.
CREATE VIEW gas_top_ups WITH (security_invoker = true) AS
SELECT order_id AS top_up_id, org_id, chain, to_wallet_id AS wallet_id, amount, order_outcome(status) AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'GAS';
SELECT coffer_shared('gas_top_ups', 'SELECT', 'SELECT');

-- A durable nonce account of a treasury on Solana. Its transactions are sent with the value of
-- one. amount stays in the account; its address is derived from the treasury and a number.
-- FAILED: the chain has another account at the address, permanently. REFUSED: nothing was sent,
-- and the same address may be tried again.
CREATE VIEW nonce_accounts WITH (security_invoker = true) AS
SELECT order_id AS nonce_account_id, org_id, chain, wallet_id, to_address AS address, amount,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') AND NOT payee_failed THEN 'REFUSED' ELSE order_outcome(status) END AS status,
    created_at, ended_at
FROM dispatch_orders WHERE purpose = 'PLACE';
SELECT coffer_shared('nonce_accounts', 'SELECT', 'SELECT');

-- While fees are low, a consolidation makes one UTXO of many small ones. wallet_id is the treasury
-- that pays the fee. FAILED: its slot was used in another way. REFUSED: nothing was sent.
CREATE VIEW consolidations WITH (security_invoker = true) AS
SELECT order_id AS consolidation_id, org_id, chain, wallet_id,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') THEN 'REFUSED' ELSE order_outcome(status) END AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'MERGE';
SELECT coffer_shared('consolidations', 'SELECT', 'SELECT');

-- A token account on Solana contains rent that cannot be used until the account is closed. A
-- close frees that of one that has had no deposit for long. amount is the rent when the order was
-- planned, in native units. FAILED: the order left the account as it was.
CREATE VIEW closes WITH (security_invoker = true) AS
SELECT order_id AS close_id, org_id, chain, from_wallet_id AS wallet_id, to_wallet_id, mint_id, amount,
    order_outcome(status) AS status, trigger = 'RESTORED' AS restored, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'CLOSE';
SELECT coffer_shared('closes', 'SELECT', 'SELECT');

-- A creation of the token account of an address that checkouts share. The treasury pays its rent, as a part of the fee.
-- FAILED: the transaction was mined and failed. REFUSED: nothing was sent. Both are planned again after a pause.
CREATE VIEW token_account_creations WITH (security_invoker = true) AS
SELECT order_id AS creation_id, org_id, chain, to_wallet_id AS wallet_id, mint_id,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') THEN 'REFUSED' ELSE order_outcome(status) END AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'TOKEN_ACCOUNT';
SELECT coffer_shared('token_account_creations', 'SELECT', 'SELECT');

-- What the payout contract of an EVM chain may move of a treasury, in calls of that treasury: any amount of a token, or,
-- after a revocation, nothing. The chain has the allowance; these are the orders that changed it. FAILED and REFUSED
-- changed nothing.
CREATE VIEW payout_allowances WITH (security_invoker = true) AS
SELECT order_id AS allowance_id, org_id, chain, wallet_id, mint_id, purpose = 'ALLOWANCE' AS is_granted, trigger,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') THEN 'REFUSED' ELSE order_outcome(status) END AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose IN ('ALLOWANCE', 'REVOCATION');
SELECT coffer_shared('payout_allowances', 'SELECT', 'SELECT');

-- The token accounts of these addresses that exist, as a quorum of providers said of the final state. Wallets are asked
-- for a payment only where a row says so. Who created an account makes no difference, and none is ever closed.
CREATE TABLE token_accounts (
    wallet_id text NOT NULL,
    mint_id   integer NOT NULL REFERENCES mints,
    org_id    text NOT NULL,
    found_at  timestamptz NOT NULL,
    CONSTRAINT token_accounts_pkey PRIMARY KEY (wallet_id, mint_id),
    CONSTRAINT token_accounts_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id)
);
SELECT coffer_tenant('token_accounts', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER token_accounts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON token_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION token_accounts_shared() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.purpose, w.family) = ('CHECKOUT_SHARED', 'SOLANA') FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE
       OR (SELECT m.chain = 'SOLANA' AND m.contract <> '' FROM mints m WHERE m.mint_id = NEW.mint_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'wallet % has no token account of mint % that wallets are asked to pay', NEW.wallet_id, NEW.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'token_accounts_shared';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER token_accounts_shared BEFORE INSERT ON token_accounts
    FOR EACH ROW EXECUTE FUNCTION token_accounts_shared();
