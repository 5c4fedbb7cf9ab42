-- Orders that keep the treasury: sweeps to it, gas from it, and accounts on Solana that are
-- created and closed. Each row has the id of its order and ends as its order ends.

-- A sweep moves what arrived at an address to the treasury.
CREATE TABLE sweeps (
    sweep_id     text PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organizations,
    chain        text NOT NULL,
    wallet_id    text NOT NULL,
    to_wallet_id text NOT NULL,
    mint_id      integer NOT NULL REFERENCES mints,
    amount       numeric(78,0) NOT NULL,
    trigger      text NOT NULL,
    status       text NOT NULL,
    tx_hash      text,
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT sweeps_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT sweeps_to_wallet FOREIGN KEY (org_id, to_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT sweeps_positive CHECK (amount > 0),
    CONSTRAINT sweeps_trigger_known CHECK (trigger IN ('VALUE', 'DEMAND', 'PERSON', 'RESTORED')),
    CONSTRAINT sweeps_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED'))
);
-- One sweep of a mint from an address at a time. A restore may find that several had been sent
-- since the backup.
CREATE UNIQUE INDEX sweeps_one_open ON sweeps (wallet_id, mint_id) WHERE status = 'OPEN' AND trigger <> 'RESTORED';
CREATE INDEX sweeps_of_wallet ON sweeps (wallet_id, mint_id, created_at);
SELECT coffer_tenant('sweeps', 'SELECT', 'SELECT, INSERT, UPDATE');

-- The row is what its address has reserved: what it moves is fixed, and it ends once.
CREATE FUNCTION sweeps_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.sweep_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.to_wallet_id, NEW.mint_id, NEW.amount)
       IS DISTINCT FROM (OLD.sweep_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.to_wallet_id, OLD.mint_id, OLD.amount) THEN
        RAISE EXCEPTION 'sweep % cannot become another', OLD.sweep_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sweeps_fixed';
    END IF;
    IF OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'sweep % is %', OLD.sweep_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sweeps_terminal';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER sweeps_keep BEFORE UPDATE ON sweeps FOR EACH ROW EXECUTE FUNCTION sweeps_keep();

-- A top-up sends native coin of the operator from the treasury to an address that has to pay
-- for its own sweep. One at a time for each address.
CREATE TABLE gas_top_ups (
    top_up_id  text PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    chain      text NOT NULL,
    wallet_id  text NOT NULL,
    amount     numeric(78,0) NOT NULL,
    status     text NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    restored   boolean NOT NULL DEFAULT false, -- a restore made it from the signer's journal
    CONSTRAINT gas_top_ups_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT gas_top_ups_positive CHECK (amount > 0),
    CONSTRAINT gas_top_ups_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED'))
);
CREATE UNIQUE INDEX gas_top_ups_one_open ON gas_top_ups (wallet_id, chain) WHERE status = 'OPEN' AND NOT restored;
SELECT coffer_tenant('gas_top_ups', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION gas_top_ups_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.top_up_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.amount) IS DISTINCT FROM (OLD.top_up_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.amount)
       OR OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'top-up % cannot become another and ends once', OLD.top_up_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'gas_top_ups_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER gas_top_ups_keep BEFORE UPDATE ON gas_top_ups FOR EACH ROW EXECUTE FUNCTION gas_top_ups_keep();

-- A sweep or top-up ends as its order ends.
CREATE FUNCTION moves_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    id   text;
    now  text;
    sent text;
BEGIN
    IF TG_TABLE_NAME = 'sweeps' THEN
        SELECT sweep_id, status INTO id, now FROM sweeps WHERE sweep_id = NEW.sweep_id;
    ELSE
        SELECT top_up_id, status INTO id, now FROM gas_top_ups WHERE top_up_id = NEW.top_up_id;
    END IF;
    SELECT status INTO sent FROM dispatch_orders WHERE order_id = id;
    IF now IS DISTINCT FROM (CASE WHEN sent = 'PAID' THEN 'DONE' WHEN sent IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED'
            WHEN sent IS NOT NULL THEN 'OPEN' END) THEN
        RAISE EXCEPTION '% is % and its order %', id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_as_ordered';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER sweeps_as_ordered AFTER INSERT OR UPDATE OF status ON sweeps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION moves_follow();
CREATE TRIGGER sweeps_as_inserted BEFORE UPDATE OF trigger, created_at ON sweeps
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER sweeps_written_once BEFORE UPDATE ON sweeps FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at
        OR OLD.status <> 'OPEN' AND NEW.tx_hash IS DISTINCT FROM OLD.tx_hash)
    EXECUTE FUNCTION refuse_row_change();
CREATE CONSTRAINT TRIGGER gas_top_ups_as_ordered AFTER INSERT OR UPDATE OF status ON gas_top_ups
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION moves_follow();
CREATE TRIGGER gas_top_ups_as_inserted BEFORE UPDATE OF restored, created_at ON gas_top_ups
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER gas_top_ups_written_once BEFORE UPDATE ON gas_top_ups FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at)
    EXECUTE FUNCTION refuse_row_change();

-- A row is a durable nonce account of a treasury on Solana. Its transactions are sent with
-- the value of one, and an order creates it (decision 0050).
CREATE TABLE nonce_accounts (
    nonce_account_id text PRIMARY KEY,
    org_id           text NOT NULL REFERENCES organizations,
    chain            text NOT NULL,
    wallet_id        text NOT NULL,          -- the treasury that has it
    address          text NOT NULL,          -- derived from the treasury and a number
    amount           numeric(78,0) NOT NULL, -- stays in the account
    status           text NOT NULL,
    created_at       timestamptz NOT NULL,
    ended_at         timestamptz,
    CONSTRAINT nonce_accounts_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT nonce_accounts_positive CHECK (amount > 0),
    -- FAILED: the chain has another account at the address, permanently. REFUSED: nothing was
    -- sent, and the same address may be tried again.
    CONSTRAINT nonce_accounts_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED', 'REFUSED')),
    CONSTRAINT nonce_accounts_end_dated CHECK ((status = 'OPEN') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX nonce_accounts_address_once ON nonce_accounts (chain, address) WHERE status <> 'REFUSED';
CREATE INDEX nonce_accounts_of_wallet ON nonce_accounts (wallet_id, chain);
SELECT coffer_tenant('nonce_accounts', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION nonce_accounts_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.nonce_account_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.address, NEW.amount)
       IS DISTINCT FROM (OLD.nonce_account_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.address, OLD.amount)
       OR OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'nonce account % cannot become another and ends once', OLD.nonce_account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'nonce_accounts_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER nonce_accounts_keep BEFORE UPDATE ON nonce_accounts FOR EACH ROW EXECUTE FUNCTION nonce_accounts_keep();

CREATE FUNCTION nonce_accounts_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now  text;
    sent text;
BEGIN
    SELECT status INTO now FROM nonce_accounts WHERE nonce_account_id = NEW.nonce_account_id;
    SELECT status INTO sent FROM dispatch_orders WHERE order_id = NEW.nonce_account_id AND purpose = 'PLACE';
    IF (CASE now WHEN 'DONE' THEN sent = 'PAID'
            WHEN 'FAILED' THEN sent IN ('FAILED', 'REFUSED')
            WHEN 'REFUSED' THEN sent IN ('REFUSED', 'WITHDRAWN')
            ELSE sent NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') END) IS NOT TRUE THEN
        RAISE EXCEPTION 'nonce account % is % and its order %', NEW.nonce_account_id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'nonce_accounts_as_ordered';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER nonce_accounts_as_ordered AFTER INSERT OR UPDATE OF status ON nonce_accounts DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION nonce_accounts_follow();
CREATE TRIGGER nonce_accounts_as_inserted BEFORE UPDATE OF created_at ON nonce_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER nonce_accounts_written_once BEFORE UPDATE ON nonce_accounts FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at)
    EXECUTE FUNCTION refuse_row_change();

-- A token account on Solana contains rent that cannot be used until the account is closed. An
-- order closes one that has had no deposit for long (decision 0065).
CREATE TABLE closes (
    close_id     text PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organizations,
    chain        text NOT NULL,
    wallet_id    text NOT NULL,                  -- the wallet whose token account it is
    to_wallet_id text NOT NULL,                  -- the treasury, which gets the rent
    mint_id      integer NOT NULL REFERENCES mints,
    amount       numeric(78,0) NOT NULL,         -- the rent when the order was planned, in native units
    status       text NOT NULL,
    restored     boolean NOT NULL DEFAULT false, -- a restore made it from the signer's journal
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT closes_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT closes_to_wallet FOREIGN KEY (org_id, to_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT closes_mint FOREIGN KEY (mint_id, chain) REFERENCES mints (mint_id, chain),
    CONSTRAINT closes_positive CHECK (amount > 0),
    -- FAILED: the order left the account as it was.
    CONSTRAINT closes_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED')),
    CONSTRAINT closes_end_dated CHECK ((status = 'OPEN') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX closes_one_open ON closes (wallet_id, mint_id) WHERE status = 'OPEN' AND NOT restored;
CREATE INDEX closes_of_wallet ON closes (wallet_id, mint_id, created_at);
SELECT coffer_tenant('closes', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION closes_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.close_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.to_wallet_id, NEW.mint_id, NEW.amount, NEW.restored)
       IS DISTINCT FROM (OLD.close_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.to_wallet_id, OLD.mint_id, OLD.amount, OLD.restored)
       OR OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'close % cannot become another and ends once', OLD.close_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'closes_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER closes_keep BEFORE UPDATE ON closes FOR EACH ROW EXECUTE FUNCTION closes_keep();

-- Only a token account of a customer's or a product's address is closed, and its rent goes to
-- the treasury of the organization.
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
CREATE TRIGGER closes_home AFTER INSERT ON closes FOR EACH ROW EXECUTE FUNCTION closes_home();

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
CREATE CONSTRAINT TRIGGER closes_as_ordered AFTER INSERT OR UPDATE OF status ON closes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION closes_follow();
CREATE TRIGGER closes_as_inserted BEFORE UPDATE OF created_at ON closes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER closes_written_once BEFORE UPDATE ON closes FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at)
    EXECUTE FUNCTION refuse_row_change();
