-- UTXOs of ours on Bitcoin: which exist, and which payment spends which
-- (decision 0055).

-- An output of a final transaction that pays one of our wallets.
--
--   HELD      may not be chosen: its deposit waits, is flagged or is dust, or the order whose
--             change it is has not ended
--   FREE      any payment of the organization may spend it
--   RESERVED  it is in the slot of an order, and only a proof takes it from there
--   SPENT     spent by that order's transaction, finally
--   GONE      finality broke, and its block is not on the chain
CREATE TABLE utxos (
    chain         text NOT NULL,
    outpoint      text NOT NULL, -- the transaction and the number of the output
    org_id        text NOT NULL,
    wallet_id     text NOT NULL, -- the wallet whose key spends it
    mint_id       integer NOT NULL REFERENCES mints,
    amount        numeric(78,0) NOT NULL,
    status        text NOT NULL,
    deposit_id    text,          -- the deposit that it is
    change_of     text,          -- or the order whose change it is
    order_id      text,          -- the order that spends it; of a HELD one, the return that it is kept for
    spent_tx_hash text,          -- the transaction
    proof_id      bigint,        -- of its block; NULL: only the signer's journal knows it yet
    height        bigint,
    created_at    timestamptz NOT NULL,
    CONSTRAINT utxos_pkey PRIMARY KEY (chain, outpoint),
    CONSTRAINT utxos_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT utxos_deposit FOREIGN KEY (deposit_id) REFERENCES deposits (deposit_id),
    CONSTRAINT utxos_change FOREIGN KEY (org_id, change_of) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT utxos_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT utxos_proof FOREIGN KEY (chain, proof_id) REFERENCES finality_proofs (chain, proof_id),
    CONSTRAINT utxos_on_utxo_chain CHECK (is_utxo(chain)),
    CONSTRAINT utxos_positive CHECK (amount > 0),
    CONSTRAINT utxos_status_known CHECK (status IN ('HELD', 'FREE', 'RESERVED', 'SPENT', 'GONE')),
    CONSTRAINT utxos_one_origin CHECK (
        num_nonnulls(deposit_id, change_of) = CASE WHEN proof_id IS NULL THEN 0 ELSE 1 END),
    CONSTRAINT utxos_proven CHECK (
        (proof_id IS NULL) = (height IS NULL) AND (proof_id IS NOT NULL OR status IN ('RESERVED', 'SPENT'))),
    CONSTRAINT utxos_of_one_order CHECK (
        CASE status
            WHEN 'FREE' THEN order_id IS NULL
            WHEN 'RESERVED' THEN order_id IS NOT NULL
            WHEN 'SPENT' THEN order_id IS NOT NULL
            ELSE true
        END),
    CONSTRAINT utxos_spent_tx_hash CHECK ((status = 'SPENT') = (spent_tx_hash IS NOT NULL))
);
CREATE INDEX utxos_free ON utxos (org_id, chain, mint_id, amount DESC, outpoint) WHERE status = 'FREE';
CREATE INDEX utxos_of_order ON utxos (order_id) WHERE order_id IS NOT NULL;
CREATE INDEX utxos_of_change ON utxos (change_of) WHERE change_of IS NOT NULL;
CREATE INDEX utxos_of_deposit ON utxos (deposit_id) WHERE deposit_id IS NOT NULL;
CREATE INDEX utxos_of_wallet ON utxos (wallet_id);
CREATE INDEX utxos_above ON utxos (chain, height);
SELECT coffer_tenant('utxos', 'SELECT', 'SELECT, INSERT, UPDATE');

-- A UTXO stays the output that it is, and moves from state to state as the service's table
-- says, each time for a reason that another row states. Rule COIN-4.
CREATE FUNCTION utxos_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    o record;
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.chain, NEW.outpoint, NEW.org_id, NEW.wallet_id, NEW.mint_id, NEW.amount)
       IS DISTINCT FROM (OLD.chain, OLD.outpoint, OLD.org_id, OLD.wallet_id, OLD.mint_id, OLD.amount) THEN
        RAISE EXCEPTION 'output % cannot become another', OLD.outpoint
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_fixed';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
        ('HELD', 'FREE'), ('HELD', 'RESERVED'), ('FREE', 'RESERVED'), ('RESERVED', 'SPENT'),
        ('HELD', 'GONE'), ('FREE', 'GONE'), ('RESERVED', 'GONE'), ('GONE', 'SPENT'), ('GONE', 'HELD'), ('GONE', 'FREE'), ('GONE', 'RESERVED')) THEN
        RAISE EXCEPTION 'output % is %', OLD.outpoint, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_moves';
    END IF;
    -- An order keeps its UTXO until that is spent or its block is gone. No order takes it from another.
    IF TG_OP = 'UPDATE' AND OLD.status IN ('RESERVED', 'SPENT') AND NEW.order_id IS DISTINCT FROM OLD.order_id THEN
        RAISE EXCEPTION 'output % is order %''s', OLD.outpoint, OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_kept';
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.status = 'SPENT' AND NEW.spent_tx_hash <> OLD.spent_tx_hash THEN
        RAISE EXCEPTION 'output % is spent by %', OLD.outpoint, OLD.spent_tx_hash
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_spent_once';
    END IF;
    -- It is the movement of its deposit, or the change of the order's own transaction.
    IF NEW.deposit_id IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.deposit_id IS DISTINCT FROM OLD.deposit_id) AND NOT EXISTS (
        SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id
            AND (d.chain, d.tx_hash || ':' || d.position, d.org_id, d.wallet_id, d.mint_id, d.amount)
                = (NEW.chain, NEW.outpoint, NEW.org_id, NEW.wallet_id, NEW.mint_id, NEW.amount)) THEN
        RAISE EXCEPTION 'output % is not deposit %', NEW.outpoint, NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_as_deposited';
    END IF;
    IF NEW.change_of IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.change_of IS DISTINCT FROM OLD.change_of) AND NOT EXISTS (
        SELECT FROM wallets w JOIN dispatch_slots s ON s.order_id = NEW.change_of AND split_part(s.slot_key, ' ', -1) = w.address
            JOIN dispatch_attempts a ON a.order_id = s.order_id
        WHERE w.wallet_id = NEW.wallet_id AND w.purpose = 'CHANGE' AND a.tx_hash = split_part(NEW.outpoint, ':', 1)) THEN
        RAISE EXCEPTION 'output % is not the change of order %', NEW.outpoint, NEW.change_of
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_as_change';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status = OLD.status THEN
        RETURN NEW;
    END IF;
    IF NEW.order_id IS NOT NULL THEN
        SELECT d.status, d.tx_hash, d.funds_pending, s.slot_key INTO o
        FROM dispatch_orders d LEFT JOIN dispatch_slots s USING (order_id) WHERE d.order_id = NEW.order_id;
    END IF;
    CASE NEW.status
    WHEN 'FREE' THEN
        IF NOT EXISTS (SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id AND d.status = 'CREDITED')
           AND NOT EXISTS (SELECT FROM dispatch_orders c WHERE c.order_id = NEW.change_of AND c.status IN ('PAID', 'FAILED')) THEN
            RAISE EXCEPTION 'output % is not free yet', NEW.outpoint
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_free_when_counted';
        END IF;
    WHEN 'RESERVED' THEN
        -- A HELD UTXO leaves only by the return that it is kept for. One that the signer's journal
        -- names was released after the backup that was restored.
        IF (TG_OP = 'INSERT' OR OLD.status = 'HELD' AND OLD.order_id IS DISTINCT FROM NEW.order_id) AND NOT o.funds_pending
           OR coalesce(strpos(o.slot_key, NEW.outpoint || ':'), 0) = 0 THEN
            RAISE EXCEPTION 'output % is not in the slot of order %, or held', NEW.outpoint, NEW.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_reserved_by_slot';
        END IF;
    WHEN 'SPENT' THEN
        IF (o.status IN ('PAID', 'FAILED') AND o.tx_hash = NEW.spent_tx_hash) IS NOT TRUE THEN
            RAISE EXCEPTION 'output % is not spent, by all that is proven', NEW.outpoint
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_spent_when_proven';
        END IF;
    ELSE NULL;
    END CASE;
    RETURN NEW;
END $$;
CREATE TRIGGER utxos_keep BEFORE INSERT OR UPDATE ON utxos FOR EACH ROW EXECUTE FUNCTION utxos_keep();
CREATE TRIGGER utxos_stay BEFORE DELETE OR TRUNCATE ON utxos FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whether a slot key names a UTXO with its amount and its address.
CREATE FUNCTION slot_key_names(slot_key text, outpoint text, amount numeric, holder text) RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN strpos(' ' || slot_key, format(' %s:%s:%s ', outpoint, amount, holder)) > 0;

-- A slot has exactly the UTXOs that it names: reserved when it is written, spent when its order
-- has ended. The check reads an order's UTXOs twice in its life. Between the two,
-- utxos_in_slot checks every change of a UTXO. Rule COIN-7.
CREATE FUNCTION utxos_match_slot() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    want text := CASE TG_TABLE_NAME WHEN 'dispatch_slots' THEN 'RESERVED' ELSE 'SPENT' END;
    s    record;
    has  record;
BEGIN
    SELECT order_id, chain, org_id, slot_key, cardinality(string_to_array(slot_key, ' ')) - 1 AS names INTO s FROM dispatch_slots WHERE order_id = NEW.order_id;
    IF NOT FOUND THEN
        RETURN NULL; -- the order has the slot of its lead
    END IF;
    SELECT count(*) AS utxos, count(*) FILTER (WHERE (c.status, c.chain, c.org_id) = (want, s.chain, s.org_id)
        AND slot_key_names(s.slot_key, c.outpoint, c.amount, w.address)) AS named
    INTO has FROM utxos c JOIN wallets w USING (wallet_id) WHERE c.order_id = s.order_id AND c.status IN ('RESERVED', 'SPENT');
    IF s.names < 1 OR (has.utxos, has.named) IS DISTINCT FROM (s.names::bigint, s.names::bigint) THEN
        RAISE EXCEPTION 'the slot of order % names % outputs and has %, of which % are % as it names them', s.order_id, s.names, has.utxos, has.named, want
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_match_slot';
    END IF;
    RETURN NULL;
END $$;
-- PostgreSQL fires the triggers of a table by their names. These come before the checks of the
-- order, so that a wrong set of UTXOs is named as such.
CREATE CONSTRAINT TRIGGER dispatch_slots_chosen_utxos AFTER INSERT ON dispatch_slots DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (is_utxo(NEW.chain)) EXECUTE FUNCTION utxos_match_slot();
CREATE CONSTRAINT TRIGGER dispatch_orders_chosen_utxos AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (is_utxo(NEW.chain) AND OLD.status <> NEW.status AND NEW.status IN ('PAID', 'FAILED'))
    EXECUTE FUNCTION utxos_match_slot();

-- The other direction: a UTXO that changes its order or state is in the slot of the order that
-- has it, and not in the slot of the order that had it. Rule COIN-7.
CREATE FUNCTION utxos_in_slot() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    c   record;
    s   record;
    had text := CASE TG_OP WHEN 'UPDATE' THEN OLD.order_id END;
BEGIN
    SELECT n.outpoint, n.amount, n.status, n.order_id, w.address INTO c
    FROM utxos n JOIN wallets w USING (wallet_id) WHERE n.chain = NEW.chain AND n.outpoint = NEW.outpoint;
    IF c.status IN ('RESERVED', 'SPENT') THEN
        SELECT l.slot_key, o.status IN ('PAID', 'FAILED') AS ended INTO s FROM dispatch_slots l JOIN dispatch_orders o USING (order_id) WHERE l.order_id = c.order_id;
        IF (slot_key_names(s.slot_key, c.outpoint, c.amount, c.address) AND (c.status = 'SPENT') = s.ended) IS NOT TRUE THEN
            RAISE EXCEPTION 'output % is % and not in the slot of order %, or that has ended', c.outpoint, c.status, c.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_in_slot';
        END IF;
    END IF;
    IF had IS NOT NULL AND (c.order_id IS DISTINCT FROM had OR c.status IN ('HELD', 'FREE'))
        AND EXISTS (SELECT FROM dispatch_slots l WHERE l.order_id = had AND slot_key_names(l.slot_key, c.outpoint, c.amount, c.address)) THEN
        RAISE EXCEPTION 'output % is in the slot of order %', c.outpoint, had
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_in_slot';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER utxos_in_slot_begin AFTER INSERT ON utxos DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.order_id IS NOT NULL) EXECUTE FUNCTION utxos_in_slot();
CREATE CONSTRAINT TRIGGER utxos_in_slot AFTER UPDATE ON utxos DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.order_id IS NOT NULL OR NEW.order_id IS NOT NULL)
        AND (OLD.status, OLD.order_id) IS DISTINCT FROM (NEW.status, NEW.order_id)) EXECUTE FUNCTION utxos_in_slot();
CREATE TRIGGER utxos_as_inserted BEFORE UPDATE OF created_at ON utxos
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER utxos_written_once BEFORE UPDATE ON utxos FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.spent_tx_hash IS DISTINCT FROM OLD.spent_tx_hash)
    EXECUTE FUNCTION refuse_row_change();
