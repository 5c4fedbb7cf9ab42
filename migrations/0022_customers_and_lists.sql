-- Why: an organization says from which addresses its key may be used; it lifts its own
-- freezes of customers, and those alone; a change of an e-mail leaves its moment
-- behind, because an approval rule that trusts e-mails must not trust a new one yet;
-- and every filter of a list that leaves few rows of many finds them by an index.
--
-- Not one transaction: an index on a live table is built beside its writers. So every
-- step may be run again: what was begun and not finished is dropped and built anew.
-- +goose NO TRANSACTION
-- +goose Up

-- +goose StatementBegin
DO $$
BEGIN
    -- Empty: from everywhere.
    ALTER TABLE organization_settings ADD COLUMN IF NOT EXISTS ip_allowlist cidr[] NOT NULL DEFAULT '{}';
    ALTER TABLE organization_settings DROP CONSTRAINT IF EXISTS organization_settings_ip_allowlist_bounded;
    ALTER TABLE organization_settings ADD CONSTRAINT organization_settings_ip_allowlist_bounded
        CHECK (cardinality(ip_allowlist) <= 256 AND array_position(ip_allowlist, NULL) IS NULL);

    -- An organization puts and lifts what is its own; who else froze lifts as well.
    GRANT UPDATE (lifted_at, lifted_by) ON freezes TO coffer_app;
    DROP POLICY IF EXISTS own_put ON freezes;
    CREATE POLICY own_put ON freezes AS RESTRICTIVE FOR INSERT TO coffer_app
        WITH CHECK (source = 'ORGANIZATION' AND scope = 'CUSTOMER');
    DROP POLICY IF EXISTS own_lift ON freezes;
    CREATE POLICY own_lift ON freezes AS RESTRICTIVE FOR UPDATE TO coffer_app
        USING (source = 'ORGANIZATION' AND scope = 'CUSTOMER' AND org_id = nullif(current_setting('app.org', true), ''));
END $$;
-- +goose StatementEnd

-- The first e-mail is no change. Every later one is, also that which follows a removal.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION customers_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.email IS DISTINCT FROM OLD.email AND (OLD.email IS NOT NULL OR OLD.email_changed_at IS NOT NULL)
       AND NEW.email_changed_at IS DISTINCT FROM NEW.updated_at THEN
        RAISE EXCEPTION 'customer % got another e-mail without its moment', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_change_dated';
    END IF;
    IF OLD.email_changed_at IS NOT NULL AND (NEW.email_changed_at IS NULL OR NEW.email_changed_at < OLD.email_changed_at) THEN
        RAISE EXCEPTION 'customer % forgets when its e-mail changed', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_change_kept';
    END IF;
    IF (NEW.org_id, NEW.customer_id, NEW.created_at) IS DISTINCT FROM (OLD.org_id, OLD.customer_id, OLD.created_at) THEN
        RAISE EXCEPTION 'customer % cannot become another', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_identity_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER customers_keep BEFORE UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION customers_keep();

-- A build waits for every transaction that began before it, a report's among them.
-- Nobody waits behind it meanwhile, so it may take its time.
SET lock_timeout = '20min';

DROP INDEX CONCURRENTLY IF EXISTS deposits_of_status;
CREATE INDEX CONCURRENTLY deposits_of_status ON deposits (org_id, status, created_at, deposit_id);
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_mint;
CREATE INDEX CONCURRENTLY deposits_of_mint ON deposits (org_id, mint_id, created_at, deposit_id);
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_chain;
CREATE INDEX CONCURRENTLY deposits_of_chain ON deposits (org_id, chain, created_at, deposit_id);
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_address;
CREATE INDEX CONCURRENTLY deposits_of_address ON deposits (org_id, address, created_at, deposit_id);
DROP INDEX CONCURRENTLY IF EXISTS deposits_of_hash;
CREATE INDEX CONCURRENTLY deposits_of_hash ON deposits (org_id, tx_hash);

DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_status;
CREATE INDEX CONCURRENTLY withdrawals_of_status ON withdrawals (org_id, status, created_at, withdrawal_id);
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_mint;
CREATE INDEX CONCURRENTLY withdrawals_of_mint ON withdrawals (org_id, mint_id, created_at, withdrawal_id);
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_chain;
CREATE INDEX CONCURRENTLY withdrawals_of_chain ON withdrawals (org_id, chain, created_at, withdrawal_id);
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_address;
CREATE INDEX CONCURRENTLY withdrawals_of_address ON withdrawals (org_id, to_address, created_at, withdrawal_id);

-- Transfers are written by the thousand, so they carry no index that only a list
-- reads, but this one: most have no reference.
DROP INDEX CONCURRENTLY IF EXISTS transfers_of_reference;
CREATE INDEX CONCURRENTLY transfers_of_reference ON transfers (org_id, reference, created_at, transfer_id) WHERE reference IS NOT NULL;

RESET lock_timeout;
