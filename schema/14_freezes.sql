-- Freezes: what is stopped, by whom and why. A freeze is lifted and never deleted.

CREATE TABLE freezes (
    freeze_id   text PRIMARY KEY,
    scope       text NOT NULL,
    org_id      text REFERENCES organizations,
    customer_id text COLLATE "C",
    chain       text,
    wallet_id   text,
    source      text NOT NULL,
    reason      text NOT NULL,
    created_at  timestamptz NOT NULL,
    lifted_at   timestamptz,
    lifted_by   text,
    -- When the customer was created, so that frozen customers are listed in the order of customers.
    customer_created_at timestamptz,
    CONSTRAINT freezes_scope_known CHECK (
        CASE scope
            WHEN 'ALL' THEN num_nonnulls(org_id, customer_id, chain, wallet_id) = 0
            WHEN 'CHAIN' THEN chain IS NOT NULL AND num_nonnulls(org_id, customer_id, wallet_id) = 0
            WHEN 'WALLET' THEN wallet_id IS NOT NULL AND chain IS NOT NULL AND customer_id IS NULL
            WHEN 'ORGANIZATION' THEN org_id IS NOT NULL AND num_nonnulls(customer_id, chain, wallet_id) = 0
            WHEN 'CUSTOMER' THEN num_nonnulls(org_id, customer_id) = 2 AND num_nonnulls(chain, wallet_id) = 0
            ELSE false
        END),
    CONSTRAINT freezes_source_known CHECK (
        source IN ('ORGANIZATION', 'OPERATOR', 'VERIFY', 'FINALITY', 'DISPATCH', 'SIGNER')),
    CONSTRAINT freezes_lift_named CHECK ((lifted_at IS NULL) = (lifted_by IS NULL))
);
-- Each source has one active freeze of a scope, so that freezing again adds nothing.
CREATE UNIQUE INDEX freezes_one_active ON freezes
    (scope, source, coalesce(org_id, ''), coalesce(customer_id, ''), coalesce(chain, ''), coalesce(wallet_id, ''))
    WHERE lifted_at IS NULL;
-- For lists.
CREATE INDEX freezes_listed ON freezes (created_at, freeze_id);
CREATE INDEX freezes_in_force ON freezes (created_at, freeze_id) WHERE lifted_at IS NULL;
CREATE INDEX freezes_lifted ON freezes (created_at, freeze_id) WHERE lifted_at IS NOT NULL;
CREATE INDEX freezes_of_scope ON freezes (scope, created_at, freeze_id);
CREATE INDEX freezes_of_source ON freezes (source, created_at, freeze_id);
CREATE INDEX freezes_of_organization ON freezes (org_id, created_at, freeze_id) WHERE org_id IS NOT NULL;
CREATE INDEX freezes_of_chain ON freezes (chain, created_at, freeze_id) WHERE chain IS NOT NULL;
CREATE INDEX freezes_of_customer ON freezes (org_id, customer_id) WHERE scope = 'CUSTOMER' AND lifted_at IS NULL;
CREATE INDEX freezes_of_customers_listed ON freezes (org_id, customer_created_at, customer_id)
    WHERE scope = 'CUSTOMER' AND lifted_at IS NULL;
SELECT coffer_shared('freezes', 'SELECT, INSERT', 'SELECT, INSERT, UPDATE (lifted_at, lifted_by)');
GRANT UPDATE (lifted_at, lifted_by) ON freezes TO coffer_app;

-- An organization sees the freezes that concern it: its own, and those without an
-- organization. It creates and lifts only its own freezes of customers.
ALTER TABLE freezes ENABLE ROW LEVEL SECURITY;
ALTER TABLE freezes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON freezes TO coffer_app
    USING (org_id IS NULL OR org_id = current_setting('app.org', true))
    WITH CHECK (org_id = current_setting('app.org', true));
CREATE POLICY own_put ON freezes AS RESTRICTIVE FOR INSERT TO coffer_app
    WITH CHECK (source = 'ORGANIZATION' AND scope = 'CUSTOMER');
-- Rule CUS-6.
CREATE POLICY own_lift ON freezes AS RESTRICTIVE FOR UPDATE TO coffer_app
    USING (source = 'ORGANIZATION' AND scope = 'CUSTOMER' AND org_id = nullif(current_setting('app.org', true), ''));
CREATE POLICY system ON freezes TO coffer_system USING (true) WITH CHECK (true);
CREATE POLICY reader ON freezes FOR SELECT TO coffer_reader USING (true);

-- A customer's time of creation does not change, so its copy does not either.
CREATE FUNCTION freezes_date_customer() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.customer_created_at := (SELECT c.created_at FROM customers c WHERE c.org_id = NEW.org_id AND c.customer_id = NEW.customer_id);
    RETURN NEW;
END $$;
CREATE TRIGGER freezes_date_customer BEFORE INSERT ON freezes
    FOR EACH ROW WHEN (NEW.scope = 'CUSTOMER') EXECUTE FUNCTION freezes_date_customer();

-- A freeze is lifted once and changes in no other way.
CREATE FUNCTION freezes_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.freeze_id, NEW.scope, NEW.org_id, NEW.customer_id, NEW.customer_created_at, NEW.chain, NEW.wallet_id, NEW.source, NEW.reason, NEW.created_at) IS DISTINCT FROM
       (OLD.freeze_id, OLD.scope, OLD.org_id, OLD.customer_id, OLD.customer_created_at, OLD.chain, OLD.wallet_id, OLD.source, OLD.reason, OLD.created_at)
       OR OLD.lifted_at IS NOT NULL THEN
        RAISE EXCEPTION 'freeze % is lifted once and cannot become another', OLD.freeze_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'freezes_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER freezes_keep BEFORE UPDATE ON freezes FOR EACH ROW EXECUTE FUNCTION freezes_keep();

-- The audit log names the person who lifted a freeze.
CREATE FUNCTION freezes_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM audit_log WHERE resource_id = NEW.freeze_id AND action = 'freeze.lifted') THEN
        RAISE EXCEPTION 'freeze % is lifted and nobody says so', NEW.freeze_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'freezes_lift_told';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER freezes_lift_told AFTER INSERT OR UPDATE ON freezes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.lifted_at IS NOT NULL) EXECUTE FUNCTION freezes_follow();

-- Why a broken finality is not settled yet; NULL: nothing is open. A new kind of row that
-- relies on proofs adds its question here.
CREATE FUNCTION finality_unsettled(of_chain text) RETURNS text LANGUAGE sql STABLE
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT CASE
        WHEN c.forked_above IS NOT NULL THEN
            format('the chain has other final blocks above %s than those that were walked, and nobody has decided', c.forked_above)
        WHEN c.height < b.settle_height THEN
            format('the walk stands at block %s, and what block %s does not bring back is gone', c.height, b.settle_height)
        WHEN EXISTS (SELECT FROM deposits d WHERE d.chain = of_chain AND d.status = 'CREDITED' AND d.chain_status = 'REORGED') THEN
            'deposits that were credited are neither found again nor reversed'
        WHEN EXISTS (SELECT FROM deposits d WHERE d.chain = of_chain AND d.is_flagged AND d.chain_status = 'REORGED'
            AND (d.status = 'FLAGGED' OR d.status IN ('REJECTED', 'REDIRECTED') AND d.lost_at IS NULL)) THEN
            'deposits that were flagged are neither found again nor given up'
        END
    FROM scan_cursors c
    LEFT JOIN (SELECT max(settle_height) AS settle_height FROM finality_breaks WHERE chain = of_chain) b ON true
    WHERE c.chain = of_chain
$$;

-- The freeze that a broken finality put on a chain is lifted only after all of it is settled.
-- Rule DEP-20.
CREATE FUNCTION freezes_settled() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    why text;
BEGIN
    IF OLD.lifted_at IS NULL AND NEW.lifted_at IS NOT NULL AND OLD.scope = 'CHAIN' AND OLD.source = 'FINALITY' THEN
        why := finality_unsettled(OLD.chain);
        IF why IS NOT NULL THEN
            RAISE EXCEPTION '% stays frozen: %', OLD.chain, why
                USING ERRCODE = 'check_violation', CONSTRAINT = 'freezes_settled';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER freezes_settled BEFORE UPDATE ON freezes FOR EACH ROW EXECUTE FUNCTION freezes_settled();
