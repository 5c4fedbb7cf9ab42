-- The catalogue: a mint is a token, or the native coin, on a chain.

-- The identity of a mint never changes: its id is in every row of the books.
CREATE TABLE mints (
    mint_id                integer PRIMARY KEY,
    chain                  text NOT NULL,
    network                text NOT NULL,
    kind                   text NOT NULL,
    contract               text NOT NULL, -- '' for the native coin
    symbol                 text NOT NULL,
    name                   text NOT NULL,
    decimals               smallint NOT NULL,
    logo_url               text,
    deposit_enabled        boolean NOT NULL,
    withdraw_enabled       boolean NOT NULL,
    min_deposit            numeric(78,0) NOT NULL,
    min_withdraw           numeric(78,0) NOT NULL,
    confirmations_required integer NOT NULL,
    finality               text NOT NULL,
    quarantined_at         timestamptz,
    quarantine_reason      text,
    CONSTRAINT mints_contract_unique UNIQUE (chain, contract),
    -- Keys that other tables refer to, so that a row names the chain and the contract of its mint.
    CONSTRAINT mints_of_contract UNIQUE (mint_id, chain, contract),
    CONSTRAINT mints_of_chain UNIQUE (mint_id, chain),
    CONSTRAINT mints_kind_known CHECK ((kind = 'NATIVE' AND contract = '') OR (kind = 'TOKEN' AND contract <> '')),
    CONSTRAINT mints_network_known CHECK (network IN ('MAINNET', 'TESTNET', 'LOCAL')),
    CONSTRAINT mints_decimals_bounded CHECK (decimals BETWEEN 0 AND 36),
    CONSTRAINT mints_minimums_positive CHECK (min_deposit > 0 AND min_withdraw > 0),
    CONSTRAINT mints_quarantine_reasoned CHECK ((quarantined_at IS NULL) = (quarantine_reason IS NULL))
);
SELECT coffer_shared('mints', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION mints_keep_identity() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.mint_id, NEW.chain, NEW.network, NEW.contract, NEW.decimals) IS DISTINCT FROM
       (OLD.mint_id, OLD.chain, OLD.network, OLD.contract, OLD.decimals) THEN
        RAISE EXCEPTION 'mint % cannot become another token', OLD.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'mints_identity_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER mints_identity_fixed BEFORE UPDATE ON mints FOR EACH ROW EXECUTE FUNCTION mints_keep_identity();
-- Rows of other tables refer to a mint without a foreign key.
CREATE TRIGGER mints_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF mint_id ON mints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
