-- Why: a slot on Solana is the value of a nonce account, which the chain changes when a
-- transaction takes it: decision 0047. The number stays, counted by us.
--
-- Not one transaction: the index is built beside its writers, so every step may be run
-- again.
-- +goose NO TRANSACTION
-- +goose Up

ALTER TABLE dispatch_slots ADD COLUMN IF NOT EXISTS lease text NOT NULL DEFAULT '';

-- As before (0010), and with its lease.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_slots_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.nonce, NEW.lease, NEW.org_id, NEW.order_id)
       IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.nonce, OLD.lease, OLD.org_id, OLD.order_id)
       OR NEW.gas_reserved < OLD.gas_reserved THEN
        RAISE EXCEPTION 'slot % of wallet % is written once', OLD.nonce, OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- No place of a chain is given out twice.
DROP INDEX CONCURRENTLY IF EXISTS dispatch_slots_lease_once;
CREATE UNIQUE INDEX CONCURRENTLY dispatch_slots_lease_once ON dispatch_slots (chain, lease) WHERE lease <> '';
