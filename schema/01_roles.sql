-- Roles, and the functions that every other file uses.
--
-- Three roles carry all privileges. They cannot log in.
--
--   coffer_app     acts for one organization, which the setting app.org names
--   coffer_system  acts across organizations: scanning, dispatch, delivery, checks
--   coffer_reader  reads everything and changes nothing: reports, verification
--
-- The service logs in with a NOINHERIT role that is a member of the three. A transaction
-- has no privilege until it chooses one of them with SET LOCAL ROLE.
--
-- Every function that looks up a name when it runs has a search_path of its own, with
-- pg_temp last. PostgreSQL searches temporary tables first unless the path names them, so a
-- caller's temporary table could otherwise replace one of ours in a guard. Two kinds need
-- no path: functions whose body PostgreSQL parses at their creation (RETURN), and IMMUTABLE
-- SQL functions, which read no table and are inlined only without settings.

-- Roles belong to the cluster. Two databases of one cluster may be migrated at the same
-- moment, so a role that exists already is no error.
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

GRANT USAGE ON SCHEMA public TO coffer_app, coffer_system, coffer_reader;

-- Puts a table with an org_id column behind row level security and grants on it, so that
-- no table is created without its policies. The privileges are what GRANT accepts, columns
-- included: 'SELECT, INSERT, UPDATE (state)'. An empty list grants nothing. No row matches
-- while app.org is unset or empty. FORCE applies the policies to the owner as well: a
-- service that logs in as the owner by mistake sees no row. A row whose org_id is null
-- belongs to the system, and no organization sees it. Rule AUTH-2.
CREATE FUNCTION coffer_tenant(tbl regclass, app_privileges text, system_privileges text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
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

-- Grants on a table that belongs to no organization. Row level security stays off: a role
-- with the privilege sees all rows.
CREATE FUNCTION coffer_shared(tbl regclass, app_privileges text, system_privileges text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
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

REVOKE ALL ON FUNCTION coffer_tenant(regclass, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION coffer_shared(regclass, text, text) FROM PUBLIC;

-- Refuses a statement that changes rows. Triggers call it for append-only tables
-- (*_append_only), for rows whose key other rows refer to (*_stay), and for columns that only
-- an insert writes (*_as_inserted).
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% rows are written once', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', CONSTRAINT = TG_TABLE_NAME || '_append_only';
END $$;

-- Refuses a change of one row, where the condition of the trigger says so: of columns that are
-- written once, or only together with the status (*_written_once). The error has the name of
-- the trigger as its constraint.
CREATE FUNCTION refuse_row_change() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a row of % keeps what was written in it once', TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$;

-- Refuses rows of an organization that does not exist, for all rows of a statement at once.
-- It replaces a foreign key on the tables with the most inserts: a foreign key checks row by
-- row, and the referenced rows are never deleted and keep their keys, so a check at the
-- insert is enough (decision 0032). A null org_id passes.
CREATE FUNCTION organizations_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    lost text;
BEGIN
    SELECT a.org_id INTO lost FROM (SELECT DISTINCT org_id FROM added) a
    WHERE a.org_id IS NOT NULL AND (SELECT o.org_id FROM public.organizations o WHERE o.org_id = a.org_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no organization %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_TABLE_NAME || '_organization';
    END IF;
    RETURN NULL;
END $$;
