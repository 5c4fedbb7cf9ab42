-- Why: what is written most often was checked row by row. A foreign key asks for
-- every row by itself, ten times for one transfer with its posting, event and
-- audit entry, and that was a third of what the database did. Rows that are
-- referred to here are never deleted and keep their keys, so it is enough that
-- they are there when the row is written, and a statement can ask that for all
-- its rows at once. See decision 0032.
-- +goose Up

-- What is referred to stays.
CREATE TRIGGER organizations_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id ON organizations
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER customers_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id, customer_id ON customers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER mints_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF mint_id ON mints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The functions run as whoever inserts, under row level security: an account or
-- customer of another organization is as good as none. Each look-up is a subquery
-- by key, whatever a session knew about sizes when it made its plan.

-- Both accounts of a posting are of its organization and its mint. It runs before
-- the balances move, for its name comes before theirs.
-- +goose StatementBegin
CREATE FUNCTION ledger_transfers_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT w.account_id || ' of ' || w.org_id || ' in mint ' || w.mint_id INTO lost
    FROM (SELECT debit_account AS account_id, org_id, mint_id FROM added
          UNION SELECT credit_account, org_id, mint_id FROM added) w
    WHERE (SELECT (a.org_id, a.mint_id) = (w.org_id, w.mint_id) FROM ledger_accounts a WHERE a.account_id = w.account_id) IS NOT TRUE
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no account %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_transfers_accounts';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_transfers_accounts AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_refer();
ALTER TABLE ledger_transfers
    DROP CONSTRAINT IF EXISTS ledger_transfers_debit_mint, DROP CONSTRAINT IF EXISTS ledger_transfers_credit_mint,
    DROP CONSTRAINT IF EXISTS ledger_transfers_debit_org, DROP CONSTRAINT IF EXISTS ledger_transfers_credit_org;
-- Said by ledger_balances_account as well.
ALTER TABLE ledger_balances DROP CONSTRAINT IF EXISTS ledger_balances_account_id_fkey;

-- +goose StatementBegin
CREATE FUNCTION transfers_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT 'customer ' || w.customer_id || ' of ' || w.org_id INTO lost
    FROM (SELECT org_id, from_customer AS customer_id FROM added WHERE from_customer IS NOT NULL
          UNION SELECT org_id, to_customer FROM added WHERE to_customer IS NOT NULL) w
    WHERE (SELECT c.created_at FROM customers c WHERE c.org_id = w.org_id AND c.customer_id = w.customer_id) IS NULL
    LIMIT 1;
    IF lost IS NULL THEN
        SELECT 'mint ' || w.mint_id INTO lost FROM (SELECT DISTINCT mint_id FROM added) w
        WHERE (SELECT m.mint_id FROM mints m WHERE m.mint_id = w.mint_id) IS NULL
        LIMIT 1;
    END IF;
    IF lost IS NULL THEN
        SELECT 'organization ' || w.org_id INTO lost FROM (SELECT DISTINCT org_id FROM added) w
        WHERE (SELECT o.org_id FROM organizations o WHERE o.org_id = w.org_id) IS NULL
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'transfers_parties';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER transfers_parties AFTER INSERT ON transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION transfers_refer();
ALTER TABLE transfers
    DROP CONSTRAINT IF EXISTS transfers_org, DROP CONSTRAINT IF EXISTS transfers_mint,
    DROP CONSTRAINT IF EXISTS transfers_from_customer, DROP CONSTRAINT IF EXISTS transfers_to_customer;

-- Nothing is told to, or remembered of, an organization that is not there. An
-- entry of the audit log may be of none.
-- +goose StatementBegin
CREATE FUNCTION organizations_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT w.org_id INTO lost FROM (SELECT DISTINCT org_id FROM added WHERE org_id IS NOT NULL) w
    WHERE (SELECT o.org_id FROM organizations o WHERE o.org_id = w.org_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no organization %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_TABLE_NAME || '_organization';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER events_organization AFTER INSERT ON events
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION organizations_refer();
CREATE TRIGGER audit_log_organization AFTER INSERT ON audit_log
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION organizations_refer();
ALTER TABLE events DROP CONSTRAINT IF EXISTS events_org_id_fkey;
ALTER TABLE audit_log DROP CONSTRAINT IF EXISTS audit_log_org_id_fkey;
