-- Why: on Solana a treasury's transactions need nonce accounts to be sent in, and nothing
-- made those. Making one is an order like every other: decision 0050.
-- +goose Up

CREATE TABLE places (
    place_id   text PRIMARY KEY,            -- and its order's id
    org_id     text NOT NULL REFERENCES organizations,
    chain      text NOT NULL,
    wallet_id  text NOT NULL,               -- the treasury that has it
    address    text NOT NULL,               -- where it is, which follows from the treasury and a number
    amount     numeric(78,0) NOT NULL,      -- stays there
    status     text NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    CONSTRAINT places_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT places_positive CHECK (amount > 0),
    -- FAILED: the chain has something else there, for good. REFUSED: nothing was sent, and
    -- the same place may be tried again.
    CONSTRAINT places_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED', 'REFUSED')),
    CONSTRAINT places_end_dated CHECK ((status = 'OPEN') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX places_address_once ON places (chain, address) WHERE status <> 'REFUSED';
CREATE INDEX places_of_wallet ON places (wallet_id, chain);
SELECT coffer_tenant('places', 'SELECT', 'SELECT, INSERT, UPDATE');

-- +goose StatementBegin
CREATE FUNCTION places_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.place_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.address, NEW.amount)
       IS DISTINCT FROM (OLD.place_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.address, OLD.amount)
       OR OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'place % cannot become another and ends once', OLD.place_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'places_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER places_keep BEFORE UPDATE ON places FOR EACH ROW EXECUTE FUNCTION places_keep();

ALTER TABLE dispatch_orders
    DROP CONSTRAINT dispatch_orders_purpose_known,
    ADD CONSTRAINT dispatch_orders_purpose_known CHECK (
        CASE purpose WHEN 'PAYMENT' THEN to_wallet_id IS NULL
                     WHEN 'RETURN' THEN to_wallet_id IS NULL
                     WHEN 'SWEEP' THEN to_wallet_id IS NOT NULL
                     WHEN 'GAS' THEN to_wallet_id IS NOT NULL AND contract = ''
                     WHEN 'PLACE' THEN to_wallet_id IS NULL AND contract = '' AND customer_id IS NULL
                     ELSE false END) NOT VALID;

-- What makes a place names a recent block and is good for so long; another one is made
-- when none before it can be mined any more.
ALTER TABLE dispatch_attempts
    ADD COLUMN good_until bigint, -- the number of the last block that it can be in; NULL where time ends none
    DROP CONSTRAINT dispatch_attempts_made_for_known,
    ADD CONSTRAINT dispatch_attempts_made_for_known CHECK (made_for IN ('FEE', 'OPERATOR', 'REFUSAL', 'LAPSE')) NOT VALID,
    ADD CONSTRAINT dispatch_attempts_good_until_counted CHECK (good_until > 0) NOT VALID;

-- +goose StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now text := replace(was, $q$    ELSIF o.purpose = 'SWEEP' THEN$q$, $q$    ELSIF o.purpose = 'PLACE' THEN
        SELECT (p.org_id, p.chain, p.wallet_id, p.address, p.amount) = (o.org_id, o.chain, o.wallet_id, o.to_address, o.amount)
            AND CASE o.status WHEN 'PAID' THEN p.status = 'DONE'
                WHEN 'FAILED' THEN p.status = 'FAILED'
                WHEN 'REFUSED' THEN p.status IN ('FAILED', 'REFUSED')
                WHEN 'WITHDRAWN' THEN p.status = 'REFUSED'
                ELSE p.status = 'OPEN' END
        INTO caused FROM places p WHERE p.place_id = o.order_id;
    ELSIF o.purpose = 'SWEEP' THEN$q$);
BEGIN
    IF now = was THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not ask of sweeps what it did';
    END IF;
    EXECUTE now;
END $$;

-- The other way round, as sweeps and top-ups: a place that says of itself that it is there.
CREATE FUNCTION places_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now  text;
    sent text;
BEGIN
    SELECT status INTO now FROM places WHERE place_id = NEW.place_id;
    SELECT status INTO sent FROM dispatch_orders WHERE order_id = NEW.place_id AND purpose = 'PLACE';
    IF (CASE now WHEN 'DONE' THEN sent = 'PAID'
            WHEN 'FAILED' THEN sent IN ('FAILED', 'REFUSED')
            WHEN 'REFUSED' THEN sent IN ('REFUSED', 'WITHDRAWN')
            ELSE sent NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') END) IS NOT TRUE THEN
        RAISE EXCEPTION 'place % is % and its order %', NEW.place_id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'places_as_ordered';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER places_as_ordered AFTER INSERT OR UPDATE OF status ON places DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION places_follow();
