-- Why: a token account of Solana has coin in it that nobody can use until it is closed.
-- What no deposit has come to for long is closed by an order of its own:
-- decision 0065.
-- +goose Up

CREATE TABLE closes (
    close_id     text PRIMARY KEY,          -- and its order's id
    org_id       text NOT NULL REFERENCES organizations,
    chain        text NOT NULL,
    wallet_id    text NOT NULL,             -- whose account of the mint it is
    to_wallet_id text NOT NULL,             -- the treasury, which gets what lies in it
    mint_id      integer NOT NULL REFERENCES mints,
    amount       numeric(78,0) NOT NULL,    -- what lay in it when this was planned, in native units
    status       text NOT NULL,
    restored     boolean NOT NULL DEFAULT false, -- from the signer's journal, beside what the backup had
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT closes_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT closes_to_wallet FOREIGN KEY (org_id, to_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT closes_mint FOREIGN KEY (mint_id, chain) REFERENCES mints (mint_id, chain),
    CONSTRAINT closes_positive CHECK (amount > 0),
    -- FAILED: the account is as it was, so far as that order is concerned.
    CONSTRAINT closes_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED')),
    CONSTRAINT closes_end_dated CHECK ((status = 'OPEN') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX closes_one_open ON closes (wallet_id, mint_id) WHERE status = 'OPEN' AND NOT restored;
CREATE INDEX closes_of_wallet ON closes (wallet_id, mint_id, created_at);
SELECT coffer_tenant('closes', 'SELECT', 'SELECT, INSERT, UPDATE');

-- +goose StatementBegin
CREATE FUNCTION closes_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.close_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.to_wallet_id, NEW.mint_id, NEW.amount, NEW.restored)
       IS DISTINCT FROM (OLD.close_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.to_wallet_id, OLD.mint_id, OLD.amount, OLD.restored)
       OR OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'close % cannot become another and ends once', OLD.close_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'closes_fixed';
    END IF;
    RETURN NEW;
END $$;

-- Only a customer's or a product's address is closed, towards its organization's treasury.
CREATE FUNCTION closes_home() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT f.purpose <> 'TREASURY' AND t.purpose = 'TREASURY' AND m.contract <> ''
        FROM wallets f, wallets t, mints m
        WHERE f.wallet_id = NEW.wallet_id AND t.wallet_id = NEW.to_wallet_id AND m.mint_id = NEW.mint_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'close % does not go from an address to its treasury', NEW.close_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'closes_home';
    END IF;
    RETURN NULL;
END $$;

-- The purposes are added to those that there are, whichever they are by now.
DO $$
DECLARE
    name text;
    held boolean;
    was  text;
    now  text;
BEGIN
    FOREACH name IN ARRAY ARRAY['dispatch_orders_purpose_known', 'dispatch_orders_from_other', 'dispatch_orders_rides_slotted'] LOOP
        SELECT pg_get_constraintdef(oid), convalidated INTO was, held FROM pg_constraint WHERE conrelid = 'dispatch_orders'::regclass AND conname = name;
        now := CASE name
            WHEN 'dispatch_orders_purpose_known' THEN replace(was, 'ELSE false',
                $q$WHEN 'CLOSE'::text THEN to_wallet_id IS NOT NULL AND from_wallet_id IS NOT NULL AND contract <> '' AND customer_id IS NULL ELSE false$q$)
            ELSE replace(was, $q$'SWEEP'::text$q$, $q$'SWEEP'::text, 'CLOSE'::text$q$) END;
        IF now IS NULL OR now = was THEN
            RAISE EXCEPTION 'constraint % does not name purposes as it did: %', name, was;
        END IF;
        EXECUTE format('ALTER TABLE dispatch_orders DROP CONSTRAINT %I, ADD CONSTRAINT %I %s NOT VALID', name, name, replace(now, ' NOT VALID', ''));
        IF held THEN -- one scan of orders under the lock
            EXECUTE format('ALTER TABLE dispatch_orders VALIDATE CONSTRAINT %I', name);
        END IF;
    END LOOP;

    was := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now := replace(was, $q$    ELSIF o.purpose = 'SWEEP' THEN$q$, $q$    ELSIF o.purpose = 'CLOSE' THEN
        SELECT (c.org_id, c.chain, c.wallet_id, c.to_wallet_id, c.mint_id, c.amount) = (o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.mint_id, o.amount)
            AND c.status = CASE WHEN o.status = 'PAID' THEN 'DONE' WHEN o.status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END
        INTO caused FROM closes c WHERE c.close_id = o.order_id;
    ELSIF o.purpose = 'SWEEP' THEN$q$);
    IF now = was THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not ask of sweeps what it did';
    END IF;
    EXECUTE now;
END $$;

-- The other way round, as sweeps: a close that says of itself that it ended.
CREATE FUNCTION closes_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now  text;
    sent text;
BEGIN
    SELECT status INTO now FROM closes WHERE close_id = NEW.close_id;
    SELECT status INTO sent FROM dispatch_orders WHERE order_id = NEW.close_id AND purpose = 'CLOSE';
    IF now IS DISTINCT FROM (CASE WHEN sent = 'PAID' THEN 'DONE' WHEN sent IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED'
            WHEN sent IS NOT NULL THEN 'OPEN' END) THEN
        RAISE EXCEPTION 'close % is % and its order %', NEW.close_id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'closes_as_ordered';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER closes_keep BEFORE UPDATE ON closes FOR EACH ROW EXECUTE FUNCTION closes_keep();
CREATE TRIGGER closes_home AFTER INSERT ON closes FOR EACH ROW EXECUTE FUNCTION closes_home();
CREATE CONSTRAINT TRIGGER closes_as_ordered AFTER INSERT OR UPDATE OF status ON closes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION closes_follow();
