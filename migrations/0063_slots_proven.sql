-- Why: of several transactions in a slot on Solana the chain mines one only if their value is
-- that of a nonce account and no block's hash. The signer wants that proven, and whoever has
-- the slot keeps the proof: decision 0070.
--
-- Not one transaction: the index is built beside its writers, so every step may be run
-- again.
-- +goose NO TRANSACTION
-- +goose Up

-- The 32 bytes that a text in base58 stands for; NULL where it stands for none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION base58_32(t text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    n numeric := 0;
    digit integer;
    b bytea := decode(repeat('00', 32), 'hex');
BEGIN
    IF length(t) NOT BETWEEN 32 AND 44 THEN
        RETURN NULL;
    END IF;
    FOR i IN 1..length(t) LOOP
        digit := strpos('123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz', substr(t, i, 1)) - 1;
        IF digit < 0 THEN
            RETURN NULL;
        END IF;
        n := n * 58 + digit;
    END LOOP;
    FOR i IN REVERSE 31..0 LOOP
        b := set_byte(b, i, mod(n, 256)::integer);
        n := div(n, 256);
    END LOOP;
    RETURN CASE WHEN n = 0 THEN b END; -- else it is longer
END $$;
-- +goose StatementEnd

-- The hash of the block from which the value in the lease was derived. '' is a slot of
-- before, or from a journal of before, until the proof is looked up; and every slot of a
-- chain that needs none.
ALTER TABLE dispatch_slots ADD COLUMN IF NOT EXISTS proof text NOT NULL DEFAULT '';
ALTER TABLE dispatch_slots
    DROP CONSTRAINT IF EXISTS dispatch_slots_proven,
    ADD CONSTRAINT dispatch_slots_proven CHECK (proof = '' OR (chain = 'SOLANA'
        AND sha256('DURABLE_NONCE'::bytea || base58_32(proof)) = base58_32(split_part(lease, ' ', 2))) IS TRUE) NOT VALID;
ALTER TABLE dispatch_slots VALIDATE CONSTRAINT dispatch_slots_proven;

-- As before (0048), and a proof is written once.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_slots_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.nonce, NEW.lease, NEW.org_id, NEW.order_id)
       IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.nonce, OLD.lease, OLD.org_id, OLD.order_id)
       OR OLD.proof <> '' AND NEW.proof <> OLD.proof
       OR NEW.gas_reserved < OLD.gas_reserved THEN
        RAISE EXCEPTION 'slot % of wallet % is written once', OLD.nonce, OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- Which orders used a place last, or made it: the blocks that they ended in prove what it
-- has now.
DROP INDEX CONCURRENTLY IF EXISTS dispatch_slots_at;
CREATE INDEX CONCURRENTLY dispatch_slots_at ON dispatch_slots (chain, split_part(lease, ' ', 1), nonce DESC) WHERE chain = 'SOLANA';
