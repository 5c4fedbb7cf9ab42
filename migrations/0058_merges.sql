-- Why: many small coins cost more to spend than they have to, when fees are high. While
-- they are low an order of its own makes one of them: decision 0063.
-- +goose Up

CREATE TABLE merges (
    merge_id   text PRIMARY KEY,            -- and its order's id
    org_id     text NOT NULL REFERENCES organizations,
    chain      text NOT NULL,
    wallet_id  text NOT NULL,               -- the treasury that pays the fee
    status     text NOT NULL,
    restored   boolean NOT NULL DEFAULT false, -- from the signer's journal, beside what the backup had
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    CONSTRAINT merges_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT merges_pooled CHECK (pooled(chain)),
    -- FAILED: its slot was used in another way. REFUSED: nothing was sent.
    CONSTRAINT merges_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED', 'REFUSED')),
    CONSTRAINT merges_end_dated CHECK ((status = 'OPEN') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX merges_one_open ON merges (wallet_id, chain) WHERE status = 'OPEN' AND NOT restored;
CREATE INDEX merges_of_wallet ON merges (wallet_id, chain, ended_at);
SELECT coffer_tenant('merges', 'SELECT', 'SELECT, INSERT, UPDATE');

-- +goose StatementBegin
CREATE FUNCTION merges_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.merge_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.restored) IS DISTINCT FROM (OLD.merge_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.restored)
       OR OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'merge % cannot become another and ends once', OLD.merge_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'merges_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER merges_keep BEFORE UPDATE ON merges FOR EACH ROW EXECUTE FUNCTION merges_keep();

-- It pays nobody: its amount is nothing, and who receives is a wallet for change.
ALTER TABLE dispatch_orders
    DROP CONSTRAINT dispatch_orders_positive,
    ADD CONSTRAINT dispatch_orders_positive CHECK (CASE purpose WHEN 'MERGE' THEN amount = 0 ELSE amount > 0 END) NOT VALID,
    DROP CONSTRAINT dispatch_orders_purpose_known,
    ADD CONSTRAINT dispatch_orders_purpose_known CHECK (
        CASE purpose WHEN 'PAYMENT' THEN to_wallet_id IS NULL
                     WHEN 'RETURN' THEN to_wallet_id IS NULL
                     WHEN 'SWEEP' THEN to_wallet_id IS NOT NULL
                     WHEN 'GAS' THEN to_wallet_id IS NOT NULL AND contract = ''
                     WHEN 'PLACE' THEN to_wallet_id IS NULL AND contract = '' AND customer_id IS NULL
                     WHEN 'MERGE' THEN to_wallet_id IS NOT NULL AND contract = '' AND customer_id IS NULL AND pooled(chain)
                     ELSE false END) NOT VALID;

-- +goose StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now text := replace(was, $q$    ELSIF o.purpose = 'SWEEP' THEN$q$, $q$    ELSIF o.purpose = 'MERGE' THEN
        SELECT (m.org_id, m.chain, m.wallet_id) = (o.org_id, o.chain, o.wallet_id)
            -- All of its coins come back to the wallet that is there for its own change.
            AND EXISTS (SELECT FROM wallets w WHERE w.wallet_id = o.to_wallet_id AND w.address = o.to_address AND w.purpose = 'CHANGE' AND w.subject = o.order_id)
            AND NOT EXISTS (SELECT FROM dispatch_slots s WHERE s.order_id = o.order_id AND right(s.lease, length(o.to_address) + 1) <> ' ' || o.to_address)
            AND CASE o.status WHEN 'PAID' THEN m.status = 'DONE'
                WHEN 'FAILED' THEN m.status = 'FAILED'
                WHEN 'REFUSED' THEN m.status = 'REFUSED'
                WHEN 'WITHDRAWN' THEN m.status = 'REFUSED'
                ELSE m.status = 'OPEN' END
        INTO caused FROM merges m WHERE m.merge_id = o.order_id;
    ELSIF o.purpose = 'SWEEP' THEN$q$);
BEGIN
    IF now = was THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not ask of sweeps what it did';
    END IF;
    EXECUTE now;
END $$;

-- The other way round, as places: a merge that says of itself that it is done.
CREATE FUNCTION merges_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now  text;
    sent text;
BEGIN
    SELECT status INTO now FROM merges WHERE merge_id = NEW.merge_id;
    SELECT status INTO sent FROM dispatch_orders WHERE order_id = NEW.merge_id AND purpose = 'MERGE';
    IF (CASE now WHEN 'DONE' THEN sent = 'PAID'
            WHEN 'FAILED' THEN sent = 'FAILED'
            WHEN 'REFUSED' THEN sent IN ('REFUSED', 'WITHDRAWN')
            ELSE sent NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') END) IS NOT TRUE THEN
        RAISE EXCEPTION 'merge % is % and its order %', NEW.merge_id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'merges_as_ordered';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER merges_as_ordered AFTER INSERT OR UPDATE OF status ON merges DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION merges_follow();
