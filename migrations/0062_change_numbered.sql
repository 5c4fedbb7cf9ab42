-- Why: what a payment on Bitcoin leaves of its coins came back to a wallet that is named by
-- its order. Without database and journal nobody knew the orders, and from the seed alone
-- nobody found the money: decision 0069.
--
-- Not one transaction: the indexes are built beside their writers, so every step may be run
-- again.
-- +goose NO TRANSACTION
-- +goose Up

-- Where a slot's rest comes back to is the last word of its lease, and no other slot's.
DROP INDEX CONCURRENTLY IF EXISTS dispatch_slots_change_once;
CREATE UNIQUE INDEX CONCURRENTLY dispatch_slots_change_once ON dispatch_slots (chain, split_part(lease, ' ', -1)) WHERE pooled(chain);

-- The newest numbers of an organization. Wallets of before have an order as their subject.
DROP INDEX CONCURRENTLY IF EXISTS wallets_change;
CREATE INDEX CONCURRENTLY wallets_change ON wallets (org_id, family, length(subject) DESC, subject DESC)
    WHERE purpose = 'CHANGE' AND subject ~ '^[1-9][0-9]{0,17}$';

-- Which of them a merge is to have that has no slot yet.
DROP INDEX CONCURRENTLY IF EXISTS dispatch_orders_merges;
CREATE INDEX CONCURRENTLY dispatch_orders_merges ON dispatch_orders (to_wallet_id) WHERE purpose = 'MERGE';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_slots_rest() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM wallets w WHERE w.family = 'BITCOIN' AND w.address = split_part(NEW.lease, ' ', -1)
        AND w.org_id = NEW.org_id AND w.purpose = 'CHANGE') THEN
        RAISE EXCEPTION 'the rest of order % comes back to no wallet of its organization for change', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_rest';
    END IF;
    RETURN NEW;
END $$;

-- Whose rest a coin is says the slot that names its address, whatever the wallet is called.
DO $$
DECLARE
    was text := pg_get_functiondef('coins_keep()'::regprocedure);
    now text := replace(was, $q$FROM wallets w JOIN dispatch_attempts a ON a.order_id = w.subject
        WHERE w.wallet_id = NEW.wallet_id AND w.purpose = 'CHANGE' AND w.subject = NEW.change_of AND$q$,
        $q$FROM wallets w JOIN dispatch_slots s ON s.order_id = NEW.change_of AND split_part(s.lease, ' ', -1) = w.address
            JOIN dispatch_attempts a ON a.order_id = s.order_id
        WHERE w.wallet_id = NEW.wallet_id AND w.purpose = 'CHANGE' AND$q$);
BEGIN
    IF position('s.order_id = NEW.change_of' IN now) = 0 THEN
        RAISE EXCEPTION 'coins_keep does not ask whose rest a coin is as it did';
    END IF;
    EXECUTE now;
END $$;

-- The wallet of a merge is numbered likewise: one for change of its organization, which no
-- other slot has.
DO $$
DECLARE
    was text := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now text := replace(was, $q$w.purpose = 'CHANGE' AND w.subject = o.order_id)$q$, $q$w.purpose = 'CHANGE' AND w.org_id = o.org_id)$q$);
BEGIN
    IF position($q$w.purpose = 'CHANGE' AND w.org_id = o.org_id)$q$ IN now) = 0 THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not ask of merges what it did';
    END IF;
    EXECUTE now;
END $$;
-- +goose StatementEnd

DROP TRIGGER IF EXISTS dispatch_slots_rest ON dispatch_slots;
CREATE TRIGGER dispatch_slots_rest BEFORE INSERT ON dispatch_slots FOR EACH ROW WHEN (pooled(NEW.chain)) EXECUTE FUNCTION dispatch_slots_rest();
