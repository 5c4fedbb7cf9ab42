-- Why: some reads cost more with every customer of an organization. They read all of its
-- accounts, entries or frozen customers, or sorted what a filter left, because no index
-- served them; and its totals were summed up from every balance, at each call.
--
-- The totals are kept now. Each statement that posts adds a row with the difference that it
-- makes, so no two postings wait for each other, and the program folds the differences into
-- one row for each organization and mint. What is read is that row and the differences that
-- are not folded yet. See decision 0079.
--
-- Not one transaction: the indexes are built beside the writers of live tables, and the first
-- totals are summed up beside them. Every step may be run again.
-- +goose NO TRANSACTION
-- +goose Up

-- +goose StatementBegin
DO $$
BEGIN
    IF to_regclass('public.organization_totals') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE TABLE organization_totals (
        org_id      text NOT NULL,
        mint_id     integer NOT NULL,
        available   numeric NOT NULL, -- what customers may spend
        withdrawing numeric NOT NULL, -- what is held for customers' withdrawals
        addresses   numeric NOT NULL, -- what lies on addresses other than the treasury's
        treasuries  numeric NOT NULL, -- what lies on the treasury's addresses
        dust        numeric NOT NULL, -- of both, what is below the minimum of its mint and not credited
        CONSTRAINT organization_totals_pkey PRIMARY KEY (org_id, mint_id),
        CONSTRAINT organization_totals_org FOREIGN KEY (org_id) REFERENCES organizations,
        CONSTRAINT organization_totals_mint FOREIGN KEY (mint_id) REFERENCES mints
    );
    -- What one statement changed of those, not folded yet. Rows are only added and taken away.
    CREATE TABLE organization_total_changes (
        org_id      text NOT NULL,
        change_id   bigint GENERATED ALWAYS AS IDENTITY,
        mint_id     integer NOT NULL,
        available   numeric NOT NULL DEFAULT 0,
        withdrawing numeric NOT NULL DEFAULT 0,
        addresses   numeric NOT NULL DEFAULT 0,
        treasuries  numeric NOT NULL DEFAULT 0,
        dust        numeric NOT NULL DEFAULT 0,
        CONSTRAINT organization_total_changes_pkey PRIMARY KEY (org_id, change_id)
    ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0);
    CREATE TRIGGER organization_totals_stay BEFORE UPDATE OF org_id, mint_id OR DELETE OR TRUNCATE ON organization_totals
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    CREATE TRIGGER organization_total_changes_keep BEFORE UPDATE OR TRUNCATE ON organization_total_changes
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    PERFORM coffer_tenant('organization_totals', 'SELECT', 'SELECT');
    PERFORM coffer_tenant('organization_total_changes', 'SELECT', 'SELECT');
    -- The owner writes both in the functions below and in no other way. They ask of an account
    -- its kind and of a wallet its purpose.
    CREATE POLICY keeper ON organization_totals TO CURRENT_USER USING (true) WITH CHECK (true);
    CREATE POLICY keeper ON organization_total_changes TO CURRENT_USER USING (true) WITH CHECK (true);
    CREATE POLICY keeper ON ledger_accounts FOR SELECT TO CURRENT_USER USING (true);
    CREATE POLICY keeper ON wallets FOR SELECT TO CURRENT_USER USING (true);
    CREATE POLICY keeper ON address_funds FOR SELECT TO CURRENT_USER USING (true);
END $$;

-- An account is read by its key, whatever a session knew about sizes when it made its plan.
-- A transfer between two customers changes no total, and adds no row.
CREATE OR REPLACE FUNCTION ledger_transfers_total() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO organization_total_changes (org_id, mint_id, available, withdrawing)
    SELECT m.org_id, m.mint_id, coalesce(sum(m.delta) FILTER (WHERE m.kind = 'CUSTOMER'), 0), coalesce(sum(m.delta) FILTER (WHERE m.kind = 'WITHDRAWING'), 0)
    FROM (SELECT l.org_id, l.mint_id, l.delta, (SELECT a.kind FROM ledger_accounts a WHERE a.account_id = l.account_id) AS kind
          FROM (SELECT org_id, mint_id, credit_account AS account_id, amount AS delta FROM added
                UNION ALL
                SELECT org_id, mint_id, debit_account, -amount FROM added) l) m
    WHERE m.kind IN ('CUSTOMER', 'WITHDRAWING')
    GROUP BY m.org_id, m.mint_id
    HAVING coalesce(sum(m.delta) FILTER (WHERE m.kind = 'CUSTOMER'), 0) <> 0 OR coalesce(sum(m.delta) FILTER (WHERE m.kind = 'WITHDRAWING'), 0) <> 0;
    RETURN NULL;
END $$;

-- What is promised or held changes no total: only the wallets of which more or less lies
-- there are asked for their purpose.
CREATE OR REPLACE FUNCTION address_funds_total() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO organization_total_changes (org_id, mint_id, addresses, treasuries, dust)
        SELECT m.org_id, m.mint_id, coalesce(sum(m.here) FILTER (WHERE m.purpose <> 'TREASURY'), 0), coalesce(sum(m.here) FILTER (WHERE m.purpose = 'TREASURY'), 0), sum(m.dust)
        FROM (SELECT f.org_id, f.mint_id, f.credited - f.swept + f.gas + f.dust AS here, f.dust,
                  (SELECT w.purpose FROM wallets w WHERE w.wallet_id = f.wallet_id) AS purpose
              FROM after f WHERE f.credited - f.swept + f.gas + f.dust <> 0 OR f.dust <> 0) m
        GROUP BY m.org_id, m.mint_id;
    ELSE
        INSERT INTO organization_total_changes (org_id, mint_id, addresses, treasuries, dust)
        SELECT m.org_id, m.mint_id, coalesce(sum(m.here) FILTER (WHERE m.purpose <> 'TREASURY'), 0), coalesce(sum(m.here) FILTER (WHERE m.purpose = 'TREASURY'), 0), sum(m.dust)
        FROM (SELECT d.org_id, d.mint_id, sum(d.here) AS here, sum(d.dust) AS dust,
                  (SELECT w.purpose FROM wallets w WHERE w.wallet_id = d.wallet_id) AS purpose
              FROM (SELECT wallet_id, org_id, mint_id, credited - swept + gas + dust AS here, dust FROM after
                    UNION ALL
                    SELECT wallet_id, org_id, mint_id, -(credited - swept + gas + dust), -dust FROM before) d
              GROUP BY d.wallet_id, d.org_id, d.mint_id
              HAVING sum(d.here) <> 0 OR sum(d.dust) <> 0) m
        GROUP BY m.org_id, m.mint_id;
    END IF;
    RETURN NULL;
END $$;

-- Takes at most that many differences away and adds them to their totals, in one statement:
-- a reader sees them either here or there. Two folds that run at once take different rows,
-- and lock the totals in one order.
CREATE OR REPLACE FUNCTION fold_organization_totals(most integer) RETURNS bigint LANGUAGE sql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT org_id, change_id FROM organization_total_changes LIMIT most FOR UPDATE SKIP LOCKED),
    taken AS (
        DELETE FROM organization_total_changes c USING due d WHERE c.org_id = d.org_id AND c.change_id = d.change_id
        RETURNING c.org_id, c.mint_id, c.available, c.withdrawing, c.addresses, c.treasuries, c.dust),
    folded AS (
        INSERT INTO organization_totals AS t (org_id, mint_id, available, withdrawing, addresses, treasuries, dust)
        SELECT org_id, mint_id, sum(available), sum(withdrawing), sum(addresses), sum(treasuries), sum(dust)
        FROM taken GROUP BY org_id, mint_id ORDER BY org_id, mint_id
        ON CONFLICT ON CONSTRAINT organization_totals_pkey DO UPDATE SET
            available = t.available + excluded.available, withdrawing = t.withdrawing + excluded.withdrawing,
            addresses = t.addresses + excluded.addresses, treasuries = t.treasuries + excluded.treasuries, dust = t.dust + excluded.dust)
    SELECT count(*) FROM taken
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION ledger_transfers_total(), address_funds_total(), fold_organization_totals(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fold_organization_totals(integer) TO coffer_system;

CREATE OR REPLACE TRIGGER ledger_transfers_total AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_total();
CREATE OR REPLACE TRIGGER address_funds_total_added AFTER INSERT ON address_funds
    REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION address_funds_total();
CREATE OR REPLACE TRIGGER address_funds_total_changed AFTER UPDATE ON address_funds
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION address_funds_total();

-- The first totals are what there is less the differences that were written since the
-- triggers are there: one statement, one snapshot, so it blocks no posting. Nothing folds
-- before this step has ended, for a program that folds does not start before.
INSERT INTO organization_totals (org_id, mint_id, available, withdrawing, addresses, treasuries, dust)
SELECT org_id, mint_id, sum(available), sum(withdrawing), sum(addresses), sum(treasuries), sum(dust)
FROM (SELECT a.org_id, a.mint_id, CASE a.kind WHEN 'CUSTOMER' THEN b.balance ELSE 0 END AS available, CASE a.kind WHEN 'WITHDRAWING' THEN b.balance ELSE 0 END AS withdrawing,
          0 AS addresses, 0 AS treasuries, 0 AS dust
      FROM ledger_accounts a JOIN ledger_balances b USING (account_id) WHERE a.kind IN ('CUSTOMER', 'WITHDRAWING')
      UNION ALL
      SELECT f.org_id, f.mint_id, 0, 0, CASE WHEN w.purpose <> 'TREASURY' THEN f.credited - f.swept + f.gas + f.dust ELSE 0 END,
          CASE WHEN w.purpose = 'TREASURY' THEN f.credited - f.swept + f.gas + f.dust ELSE 0 END, f.dust
      FROM address_funds f JOIN wallets w USING (wallet_id)
      UNION ALL
      SELECT org_id, mint_id, -available, -withdrawing, -addresses, -treasuries, -dust FROM organization_total_changes) AS parts
GROUP BY org_id, mint_id
ON CONFLICT ON CONSTRAINT organization_totals_pkey DO UPDATE SET available = excluded.available, withdrawing = excluded.withdrawing,
    addresses = excluded.addresses, treasuries = excluded.treasuries, dust = excluded.dust;

-- Customers are listed by when they were made. A freeze says when that was, so that the
-- frozen ones are found in the same order. A freeze that was lifted before this step says
-- nothing, and is in no list of customers. The program freezes no customer that is not there.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION freezes_date_customer() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.customer_created_at := (SELECT c.created_at FROM customers c WHERE c.org_id = NEW.org_id AND c.customer_id = NEW.customer_id);
    RETURN NEW;
END $$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'freezes'::regclass AND attname = 'customer_created_at') THEN
        RETURN;
    END IF;
    ALTER TABLE freezes ADD COLUMN customer_created_at timestamptz;
    CREATE TRIGGER freezes_date_customer BEFORE INSERT ON freezes
        FOR EACH ROW WHEN (NEW.scope = 'CUSTOMER') EXECUTE FUNCTION freezes_date_customer();
    -- The owner sees the rows of no organization, and for this statement has to.
    ALTER TABLE freezes NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE customers NO FORCE ROW LEVEL SECURITY;
    UPDATE freezes f SET customer_created_at = c.created_at FROM customers c
    WHERE f.scope = 'CUSTOMER' AND f.lifted_at IS NULL AND c.org_id = f.org_id AND c.customer_id = f.customer_id;
    ALTER TABLE freezes FORCE ROW LEVEL SECURITY;
    ALTER TABLE customers FORCE ROW LEVEL SECURITY;
END $$;

-- A customer's time of creation does not change, and its copy does not either.
CREATE OR REPLACE FUNCTION freezes_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.freeze_id, NEW.scope, NEW.org_id, NEW.customer_id, NEW.customer_created_at, NEW.chain, NEW.wallet_id, NEW.source, NEW.reason, NEW.created_at) IS DISTINCT FROM
       (OLD.freeze_id, OLD.scope, OLD.org_id, OLD.customer_id, OLD.customer_created_at, OLD.chain, OLD.wallet_id, OLD.source, OLD.reason, OLD.created_at)
       OR OLD.lifted_at IS NOT NULL THEN
        RAISE EXCEPTION 'freeze % is lifted once and cannot become another', OLD.freeze_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'freezes_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- A build waits for every transaction that began before it, a report's among them.
-- No session waits for a build, so it may take its time.
SET lock_timeout = '20min';

-- A customer's or a product's accounts.
DROP INDEX CONCURRENTLY IF EXISTS ledger_accounts_of_subject;
CREATE INDEX CONCURRENTLY ledger_accounts_of_subject ON ledger_accounts (org_id, subject, kind);
-- The entries of a mint, without network fees: those move no balance of a customer or a
-- product, and of the coin that pays for every sweep they are nearly all there is.
DROP INDEX CONCURRENTLY IF EXISTS ledger_transfers_of_mint;
CREATE INDEX CONCURRENTLY ledger_transfers_of_mint ON ledger_transfers (org_id, mint_id, created_at, transfer_id)
    WHERE cause_kind NOT IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID');

DROP INDEX CONCURRENTLY IF EXISTS transfers_of_mint;
CREATE INDEX CONCURRENTLY transfers_of_mint ON transfers (org_id, mint_id, created_at, transfer_id);
DROP INDEX CONCURRENTLY IF EXISTS transfers_of_paying_product;
CREATE INDEX CONCURRENTLY transfers_of_paying_product ON transfers (org_id, from_product, created_at, transfer_id) WHERE from_product IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS transfers_of_paid_product;
CREATE INDEX CONCURRENTLY transfers_of_paid_product ON transfers (org_id, to_product, created_at, transfer_id) WHERE to_product IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS deposits_flagged;
CREATE INDEX CONCURRENTLY deposits_flagged ON deposits (org_id, created_at, deposit_id) WHERE is_flagged;
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_product_pending;
CREATE INDEX CONCURRENTLY deposits_of_product_pending ON deposits (org_id)
    WHERE product IS NOT NULL AND status IN ('DETECTED', 'CONFIRMING', 'SCREENING');

-- A reference may be one and the same on all withdrawals.
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_reference_listed;
CREATE INDEX CONCURRENTLY withdrawals_of_reference_listed ON withdrawals (org_id, reference, created_at, withdrawal_id) WHERE reference IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_reference;

DROP INDEX CONCURRENTLY IF EXISTS withdrawals_own_listed;
CREATE INDEX CONCURRENTLY withdrawals_own_listed ON withdrawals (org_id, created_at, withdrawal_id) WHERE customer_id IS NULL;

-- What is in transactions that are not final.
DROP INDEX CONCURRENTLY IF EXISTS dispatch_orders_on_the_way;
CREATE INDEX CONCURRENTLY dispatch_orders_on_the_way ON dispatch_orders (org_id) WHERE status IN ('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK');

DROP INDEX CONCURRENTLY IF EXISTS events_of_type;
CREATE INDEX CONCURRENTLY events_of_type ON events (org_id, type, sequence) WHERE sequence IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS freezes_of_customer;
CREATE INDEX CONCURRENTLY freezes_of_customer ON freezes (org_id, customer_id) WHERE scope = 'CUSTOMER' AND lifted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS freezes_of_customers_listed;
CREATE INDEX CONCURRENTLY freezes_of_customers_listed ON freezes (org_id, customer_created_at, customer_id) WHERE scope = 'CUSTOMER' AND lifted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS freezes_in_force;
CREATE INDEX CONCURRENTLY freezes_in_force ON freezes (created_at, freeze_id) WHERE lifted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS freezes_lifted;
CREATE INDEX CONCURRENTLY freezes_lifted ON freezes (created_at, freeze_id) WHERE lifted_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS freezes_of_scope;
CREATE INDEX CONCURRENTLY freezes_of_scope ON freezes (scope, created_at, freeze_id);
DROP INDEX CONCURRENTLY IF EXISTS freezes_of_source;
CREATE INDEX CONCURRENTLY freezes_of_source ON freezes (source, created_at, freeze_id);
DROP INDEX CONCURRENTLY IF EXISTS freezes_of_organization;
CREATE INDEX CONCURRENTLY freezes_of_organization ON freezes (org_id, created_at, freeze_id) WHERE org_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS freezes_of_chain;
CREATE INDEX CONCURRENTLY freezes_of_chain ON freezes (chain, created_at, freeze_id) WHERE chain IS NOT NULL;

RESET lock_timeout;
