-- Why: that the coins which a slot names are reserved for its order, each of them and no
-- others, was counted by the program and looked at afterwards. One statement of the
-- program's own role could undo it: decision 0055.
-- +goose Up

-- The proof that an order's transaction is final proves its coins spent, one too whose own
-- block nobody has found again since finality broke.
-- +goose StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('coins_keep()'::regprocedure);
BEGIN
    IF position('(''GONE'', ''HELD'')' IN was) = 0 THEN
        RAISE EXCEPTION 'coins_keep does not name the moves that it did';
    END IF;
    EXECUTE replace(was, '(''GONE'', ''HELD'')', '(''GONE'', ''SPENT''), (''GONE'', ''HELD'')');
END $$;

-- Whether a slot names a coin, as what it is.
CREATE FUNCTION lease_names(lease text, outpoint text, amount numeric, holder text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN strpos(' ' || lease, format(' %s:%s:%s ', outpoint, amount, holder)) > 0;

-- A slot has what it names, each of them and no others: reserved when it is written, spent
-- when its order has ended. One look at an order's coins, twice in its life; between the
-- two every change of a coin is looked at by itself.
CREATE FUNCTION coins_as_leased() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    want text := CASE TG_TABLE_NAME WHEN 'dispatch_slots' THEN 'RESERVED' ELSE 'SPENT' END;
    s    record;
    has  record;
BEGIN
    SELECT order_id, chain, org_id, lease, cardinality(string_to_array(lease, ' ')) - 1 AS names INTO s FROM dispatch_slots WHERE order_id = NEW.order_id;
    IF NOT FOUND THEN
        RETURN NULL; -- it has the slot of its lead
    END IF;
    SELECT count(*) AS coins, count(*) FILTER (WHERE (c.status, c.chain, c.org_id) = (want, s.chain, s.org_id)
        AND lease_names(s.lease, c.outpoint, c.amount, w.address)) AS named
    INTO has FROM coins c JOIN wallets w USING (wallet_id) WHERE c.order_id = s.order_id AND c.status IN ('RESERVED', 'SPENT');
    IF s.names < 1 OR (has.coins, has.named) IS DISTINCT FROM (s.names::bigint, s.names::bigint) THEN
        RAISE EXCEPTION 'the slot of order % names % coins and has %, of which % are % as it names them', s.order_id, s.names, has.coins, has.named, want
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_as_leased';
    END IF;
    RETURN NULL;
END $$;

-- The other way round: a coin that changes hands or state is in the slot of whoever has
-- it, and in that of nobody who had it.
CREATE FUNCTION coins_leased() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    c   record;
    s   record;
    had text := CASE TG_OP WHEN 'UPDATE' THEN OLD.order_id END;
BEGIN
    SELECT n.outpoint, n.amount, n.status, n.order_id, w.address INTO c
    FROM coins n JOIN wallets w USING (wallet_id) WHERE n.chain = NEW.chain AND n.outpoint = NEW.outpoint;
    IF c.status IN ('RESERVED', 'SPENT') THEN
        SELECT l.lease, o.status IN ('PAID', 'FAILED') AS ended INTO s FROM dispatch_slots l JOIN dispatch_orders o USING (order_id) WHERE l.order_id = c.order_id;
        IF (lease_names(s.lease, c.outpoint, c.amount, c.address) AND (c.status = 'SPENT') = s.ended) IS NOT TRUE THEN
            RAISE EXCEPTION 'coin % is % and not in the slot of order %, or that has ended', c.outpoint, c.status, c.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_leased';
        END IF;
    END IF;
    IF had IS NOT NULL AND (c.order_id IS DISTINCT FROM had OR c.status IN ('HELD', 'FREE'))
        AND EXISTS (SELECT FROM dispatch_slots l WHERE l.order_id = had AND lease_names(l.lease, c.outpoint, c.amount, c.address)) THEN
        RAISE EXCEPTION 'coin % is in the slot of order %', c.outpoint, had
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_leased';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE CONSTRAINT TRIGGER dispatch_slots_coins AFTER INSERT ON dispatch_slots DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (pooled(NEW.chain)) EXECUTE FUNCTION coins_as_leased();
CREATE CONSTRAINT TRIGGER dispatch_orders_coins AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (pooled(NEW.chain) AND OLD.status <> NEW.status AND NEW.status IN ('PAID', 'FAILED')) EXECUTE FUNCTION coins_as_leased();
CREATE CONSTRAINT TRIGGER coins_leased_begin AFTER INSERT ON coins DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.order_id IS NOT NULL) EXECUTE FUNCTION coins_leased();
CREATE CONSTRAINT TRIGGER coins_leased AFTER UPDATE ON coins DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.order_id IS NOT NULL OR NEW.order_id IS NOT NULL)
        AND (OLD.status, OLD.order_id) IS DISTINCT FROM (NEW.status, NEW.order_id)) EXECUTE FUNCTION coins_leased();
