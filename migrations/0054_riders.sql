-- Why: a transaction may make several payments where a chain can do that, so several
-- orders may have one slot: decision 0056. One of them leads, which has the slot
-- and its transactions; the others name it.
--
-- Not one transaction: the index is built beside its writers, so every step may be run
-- again.
-- +goose NO TRANSACTION
-- +goose Up

-- How many orders a slot is for: known when it is written, so that nobody joins later.
ALTER TABLE dispatch_slots ADD COLUMN IF NOT EXISTS orders integer NOT NULL DEFAULT 1;
ALTER TABLE dispatch_slots
    DROP CONSTRAINT IF EXISTS dispatch_slots_orders,
    ADD CONSTRAINT dispatch_slots_orders CHECK (orders >= 1) NOT VALID;

-- The lead of an order that has its slot with another one: of the same wallet and chain,
-- and before it by its id, so that whoever locks them in that order has the lead first.
ALTER TABLE dispatch_orders ADD COLUMN IF NOT EXISTS rides_id text;
ALTER TABLE dispatch_orders
    DROP CONSTRAINT IF EXISTS dispatch_orders_rides,
    DROP CONSTRAINT IF EXISTS dispatch_orders_rides_before,
    DROP CONSTRAINT IF EXISTS dispatch_orders_rides_slotted,
    ADD CONSTRAINT dispatch_orders_rides FOREIGN KEY (rides_id, wallet_id, chain) REFERENCES dispatch_orders (order_id, wallet_id, chain) NOT VALID,
    ADD CONSTRAINT dispatch_orders_rides_before CHECK (rides_id COLLATE "C" < order_id COLLATE "C") NOT VALID,
    ADD CONSTRAINT dispatch_orders_rides_slotted CHECK (
        rides_id IS NULL OR purpose IN ('PAYMENT', 'SWEEP') AND status NOT IN ('QUEUED', 'REFUSED', 'WITHDRAWN')) NOT VALID;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_orders_rides_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.rides_id IS DISTINCT FROM OLD.rides_id AND (OLD.rides_id IS NOT NULL OR (OLD.status, NEW.status) <> ('QUEUED', 'SLOTTED')) THEN
        RAISE EXCEPTION 'order % has its slot as it got it', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_rides_fixed';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION dispatch_slots_orders_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.orders <> OLD.orders THEN
        RAISE EXCEPTION 'slot % of wallet % is for % orders', OLD.nonce, OLD.wallet_id, OLD.orders
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_orders_fixed';
    END IF;
    RETURN NEW;
END $$;

-- All orders of a slot stand where their lead stands, with its transaction. One
-- transaction pays all or none, so they end together as well, but for what a person
-- decides of those that are stuck, one by one.
CREATE OR REPLACE FUNCTION dispatch_orders_together() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lead  text := coalesce(NEW.rides_id, NEW.order_id);
    slots integer;
    now   record;
BEGIN
    SELECT orders INTO slots FROM dispatch_slots WHERE order_id = lead;
    IF coalesce(slots, 1) = 1 AND NEW.rides_id IS NULL THEN
        RETURN NULL; -- alone, or without a slot: dispatch_orders_follow asks whether that may be
    END IF;
    SELECT count(*) FILTER (WHERE o.rides_id IS NULL) AS leads, count(*) AS orders, count(DISTINCT o.status) AS statuses,
        count(DISTINCT (o.tx_hash, o.org_id)) AS transactions, count(DISTINCT o.purpose) AS purposes,
        bool_and(o.status IN ('PAID', 'FAILED', 'STUCK')) AS final
    INTO now FROM dispatch_orders o WHERE o.order_id = lead OR o.rides_id = lead;
    IF (now.orders, now.leads, now.purposes, now.transactions) IS DISTINCT FROM (slots::bigint, 1::bigint, 1::bigint, 1::bigint)
        OR now.statuses <> 1 AND (NOT now.final OR TG_OP = 'INSERT' OR OLD.status <> 'STUCK') THEN
        RAISE EXCEPTION 'the % orders in the slot of % do not stand together', now.orders, lead
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_together';
    END IF;
    RETURN NULL;
END $$;

-- A rider has the slot of its lead.
DO $$
DECLARE
    was text := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now text := was;
BEGIN
    IF position('rides_id' IN was) > 0 THEN
        RETURN;
    END IF;
    now := replace(now, 'whitelisted_address_id, status, fee, fee_deducted', 'whitelisted_address_id, rides_id, status, fee, fee_deducted');
    IF position('whitelisted_address_id, rides_id, status' IN now) = 0 OR position('dispatch_slots WHERE order_id = o.order_id)' IN now) = 0 THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not ask of slots what it did';
    END IF;
    EXECUTE replace(now, 'dispatch_slots WHERE order_id = o.order_id)', 'dispatch_slots WHERE order_id = coalesce(o.rides_id, o.order_id))');
END $$;
-- +goose StatementEnd

DROP TRIGGER IF EXISTS dispatch_orders_rides_keep ON dispatch_orders;
CREATE TRIGGER dispatch_orders_rides_keep BEFORE UPDATE ON dispatch_orders FOR EACH ROW EXECUTE FUNCTION dispatch_orders_rides_keep();
DROP TRIGGER IF EXISTS dispatch_slots_orders_keep ON dispatch_slots;
CREATE TRIGGER dispatch_slots_orders_keep BEFORE UPDATE ON dispatch_slots FOR EACH ROW EXECUTE FUNCTION dispatch_slots_orders_keep();
DROP TRIGGER IF EXISTS dispatch_orders_together ON dispatch_orders;
CREATE CONSTRAINT TRIGGER dispatch_orders_together AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status OR OLD.tx_hash IS DISTINCT FROM NEW.tx_hash) EXECUTE FUNCTION dispatch_orders_together();

DROP TRIGGER IF EXISTS dispatch_orders_together_begin ON dispatch_orders;
CREATE CONSTRAINT TRIGGER dispatch_orders_together_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.rides_id IS NOT NULL) EXECUTE FUNCTION dispatch_orders_together();

DROP INDEX CONCURRENTLY IF EXISTS dispatch_orders_riders;
CREATE INDEX CONCURRENTLY dispatch_orders_riders ON dispatch_orders (rides_id) WHERE rides_id IS NOT NULL;

ALTER TABLE dispatch_slots VALIDATE CONSTRAINT dispatch_slots_orders;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_rides;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_rides_before;
ALTER TABLE dispatch_orders VALIDATE CONSTRAINT dispatch_orders_rides_slotted;
