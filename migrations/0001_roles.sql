-- Why: every later table needs somebody to belong to. Three roles that nobody can
-- log in as carry all privileges, and two functions put a table behind them, so that
-- no migration can add a table and forget its row level security.
--
--   coffer_app     acts for one organization, named by the setting app.org
--   coffer_system  acts across organizations: scanning, dispatch, delivery, checks
--   coffer_reader  sees everything and changes nothing: reports, verification
--
-- The login role is a NOINHERIT member of the three: until a transaction has chosen
-- one of them it may do nothing at all.

-- +goose Up

-- Roles belong to the cluster, not to the database, so two databases of one cluster
-- may be migrated at the same moment: whoever comes second finds them made.
-- +goose StatementBegin
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['coffer_app', 'coffer_system', 'coffer_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format(
                    'CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS',
                    wanted);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = wanted AND (rolsuper OR rolbypassrls OR rolcanlogin)) THEN
            RAISE EXCEPTION 'role % exists and may log in or bypass row level security', wanted
                USING HINT = format('ALTER ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS', wanted);
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

GRANT USAGE ON SCHEMA public TO coffer_app, coffer_system, coffer_reader;

-- The program compares the schema's version with its own before it serves.
GRANT SELECT ON goose_db_version TO coffer_reader;

-- coffer_tenant puts a table with an org_id column behind row level security. The
-- privileges are what GRANT accepts, columns included: 'SELECT, INSERT, UPDATE (state)'.
-- An empty list grants nothing. When app.org is unset or empty no row matches, and
-- FORCE makes that true for the owner as well: a mistaken login sees nothing. A row
-- whose org_id is null belongs to the system, and no organization sees it.
-- +goose StatementBegin
CREATE FUNCTION coffer_tenant(tbl regclass, app_privileges text, system_privileges text)
    RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = tbl AND attname = 'org_id' AND atttypid = 'text'::regtype AND NOT attisdropped
    ) THEN
        RAISE EXCEPTION 'table % has no column org_id of type text', tbl;
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tbl);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tbl);
    EXECUTE format(
        'CREATE POLICY tenant ON %s TO coffer_app'
        ' USING (org_id = nullif(current_setting(''app.org'', true), ''''))'
        ' WITH CHECK (org_id = nullif(current_setting(''app.org'', true), ''''))', tbl);
    EXECUTE format('CREATE POLICY spanning ON %s TO coffer_system USING (true) WITH CHECK (true)', tbl);
    EXECUTE format('CREATE POLICY reading ON %s FOR SELECT TO coffer_reader USING (true)', tbl);
    PERFORM coffer_shared(tbl, app_privileges, system_privileges);
END
$$;
-- +goose StatementEnd

-- coffer_shared grants on a table that belongs to no organization. No row level
-- security: whoever is granted the table sees all of it.
-- +goose StatementBegin
CREATE FUNCTION coffer_shared(tbl regclass, app_privileges text, system_privileges text)
    RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    IF coalesce(app_privileges, '') <> '' THEN
        EXECUTE format('GRANT %s ON %s TO coffer_app', app_privileges, tbl);
    END IF;
    IF coalesce(system_privileges, '') <> '' THEN
        EXECUTE format('GRANT %s ON %s TO coffer_system', system_privileges, tbl);
    END IF;
    EXECUTE format('GRANT SELECT ON %s TO coffer_reader', tbl);
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION coffer_tenant(regclass, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION coffer_shared(regclass, text, text) FROM PUBLIC;
