-- Why: the schema of a new database. Generated from schema/*.sql by make generate: edit those
-- files, which say the reason for each table and guard.

-- +goose Up
-- +goose StatementBegin

---- 01_roles.sql

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
    SELECT a.org_id INTO lost FROM added a
    WHERE a.org_id IS NOT NULL AND (SELECT o.org_id FROM public.organizations o WHERE o.org_id = a.org_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no organization %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_TABLE_NAME || '_organization';
    END IF;
    RETURN NULL;
END $$;

---- 02_organizations.sql

-- Organizations, their settings and their API keys. Every other row belongs to one.

CREATE TABLE organizations (
    org_id     text PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT organizations_named CHECK (name <> '' AND length(name) <= 200)
);
CREATE INDEX organizations_listed ON organizations (created_at, org_id);
SELECT coffer_tenant('organizations', 'SELECT', 'SELECT, INSERT');

-- Rows of other tables refer to an organization without a foreign key.
CREATE TRIGGER organizations_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id ON organizations
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER organizations_as_inserted BEFORE UPDATE OF created_at ON organizations
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The settings that deposits, withdrawals and swaps are decided by. The checks hold for
-- every writer.
CREATE TABLE organization_settings (
    org_id                          text PRIMARY KEY REFERENCES organizations,
    customer_withdraw_usd_threshold numeric(38,18),
    require_withdraw_idempotency    boolean NOT NULL DEFAULT false,
    updated_at                      timestamptz NOT NULL,
    -- The addresses from which the API keys work. Empty: every address.
    ip_allowlist                    cidr[] NOT NULL DEFAULT '{}',
    screening_severity_threshold    text,
    screening_usd_threshold         numeric(38,18),
    two_factor_usd_threshold        numeric(38,18),
    withdraw_severity_threshold     text,
    -- [{"email", "customerId", "active"}], as internal/identity/org reads and sorts it.
    approval_allowlist              jsonb NOT NULL DEFAULT '[]',
    approval_quorum                 smallint NOT NULL DEFAULT 1,
    customer_swaps_enabled          boolean NOT NULL DEFAULT false,
    organization_swaps_enabled      boolean NOT NULL DEFAULT false,
    swappable_mint_ids              integer[] NOT NULL DEFAULT '{}',
    swap_fee_bps                    smallint NOT NULL DEFAULT 0,
    flagged_deposit_api_enabled     boolean NOT NULL DEFAULT false,
    auto_restore_failed_swaps       boolean NOT NULL DEFAULT false,
    -- The most network fees, in dollars, that the withdrawals of one customer may cost the
    -- organization in a day (decision 0074). NULL: no limit.
    customer_fee_day_usd            numeric(38,18) DEFAULT 50,
    charge_customer_costs           text NOT NULL DEFAULT 'NONE',
    -- Whether the operator lets the organization create further API keys.
    additional_api_keys             boolean NOT NULL DEFAULT false,
    CONSTRAINT organization_settings_threshold_not_negative CHECK (customer_withdraw_usd_threshold >= 0),
    CONSTRAINT organization_settings_ip_allowlist_bounded
        CHECK (cardinality(ip_allowlist) <= 256 AND array_position(ip_allowlist, NULL) IS NULL),
    CONSTRAINT organization_settings_screening_severity_known CHECK (
        screening_severity_threshold IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE')),
    CONSTRAINT organization_settings_screening_usd_not_negative CHECK (screening_usd_threshold >= 0),
    CONSTRAINT organization_settings_two_factor_usd_not_negative CHECK (two_factor_usd_threshold >= 0),
    CONSTRAINT organization_settings_withdraw_severity_known CHECK (
        withdraw_severity_threshold IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE')),
    CONSTRAINT organization_settings_allowlist_bounded CHECK (
        CASE jsonb_typeof(approval_allowlist)
            WHEN 'array' THEN jsonb_array_length(approval_allowlist) <= 500
            ELSE false
        END),
    CONSTRAINT organization_settings_quorum_bounded CHECK (approval_quorum BETWEEN 1 AND 10),
    CONSTRAINT organization_settings_mints_bounded CHECK (
        cardinality(swappable_mint_ids) <= 1000 AND array_position(swappable_mint_ids, NULL) IS NULL),
    CONSTRAINT organization_settings_fee_bounded CHECK (swap_fee_bps BETWEEN 0 AND 1000),
    CONSTRAINT organization_settings_customer_fee_day_not_negative CHECK (customer_fee_day_usd >= 0),
    CONSTRAINT organization_settings_charge_known
        CHECK (charge_customer_costs IN ('NONE', 'RENT', 'RENT_AND_FAILURES'))
);
SELECT coffer_tenant('organization_settings', 'SELECT', 'SELECT, INSERT, UPDATE');
CREATE TRIGGER organization_settings_as_inserted BEFORE UPDATE OF org_id ON organization_settings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The main API key of an organization: one row for each value that it had. The table keeps
-- the SHA-256 of a value and never the value. One value is live.
CREATE TABLE api_keys (
    api_key_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    rolled_at  timestamptz, -- when a new value replaced this one
    ends_at    timestamptz, -- until when a replaced value still works; NULL: it does not
    CONSTRAINT api_keys_hash_unique UNIQUE (hash),
    CONSTRAINT api_keys_hash_sha256 CHECK (length(hash) = 32),
    CONSTRAINT api_keys_ends_when_rolled CHECK (ends_at IS NULL OR rolled_at IS NOT NULL)
);
CREATE UNIQUE INDEX api_keys_one_live ON api_keys (org_id) WHERE rolled_at IS NULL;
SELECT coffer_tenant('api_keys', 'SELECT', 'SELECT, INSERT, UPDATE (rolled_at, ends_at)');

-- A rolled value stays rolled. The roll sets its end, at most a day ahead, and later
-- updates only bring the end forward. An organization has at most one former value that
-- still works: only the live value can become it, and api_keys_one_live admits one roll at
-- a time. Rule KEY-5.
CREATE FUNCTION api_keys_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.api_key_id, NEW.org_id, NEW.hash, NEW.created_at) IS DISTINCT FROM (OLD.api_key_id, OLD.org_id, OLD.hash, OLD.created_at)
       OR OLD.rolled_at IS NOT NULL AND (NEW.rolled_at IS DISTINCT FROM OLD.rolled_at
            OR NEW.ends_at IS NOT NULL AND (OLD.ends_at IS NULL OR NEW.ends_at > OLD.ends_at))
       OR NEW.ends_at > now() + interval '86400 seconds' THEN
        RAISE EXCEPTION 'an API key of % is rolled once and cannot become another', OLD.org_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'api_keys_fixed';
    END IF;
    IF NEW.ends_at IS NOT NULL AND OLD.ends_at IS NULL
       AND EXISTS (SELECT FROM api_keys k WHERE k.org_id = NEW.org_id AND k.ends_at IS NOT NULL AND k.api_key_id <> NEW.api_key_id) THEN
        RAISE EXCEPTION 'an earlier API key of % still works', NEW.org_id
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'api_keys_one_former';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER api_keys_keep BEFORE UPDATE ON api_keys FOR EACH ROW EXECUTE FUNCTION api_keys_keep();

-- Further API keys with a scope and an expiry, where the operator allows them
-- (decision 0080). The main key stays in api_keys.
CREATE TABLE additional_api_keys (
    key_id         text PRIMARY KEY,
    org_id         text NOT NULL REFERENCES organizations,
    name           text NOT NULL,
    scope          text NOT NULL,
    hash           bytea NOT NULL,             -- of the present value
    former_hash    bytea,                      -- of the value before it, which works until former_ends_at
    former_ends_at timestamptz,
    rolls          integer NOT NULL DEFAULT 0, -- how often the value was replaced
    rolled_at      timestamptz,                -- when it was last replaced
    expires_at     timestamptz,                -- NULL: never
    created_at     timestamptz NOT NULL DEFAULT now(),
    deleted_at     timestamptz,
    CONSTRAINT additional_api_keys_hash_unique UNIQUE (hash),
    CONSTRAINT additional_api_keys_hash_sha256 CHECK (length(hash) = 32 AND length(former_hash) = 32),
    CONSTRAINT additional_api_keys_id CHECK (key_id LIKE 'key\_%' AND key_id <> 'key_main'),
    CONSTRAINT additional_api_keys_named CHECK (name <> '' AND octet_length(name) <= 200),
    CONSTRAINT additional_api_keys_scope_known CHECK (scope IN ('READ', 'NO_MONEY_OUT', 'FULL')),
    CONSTRAINT additional_api_keys_former CHECK (
        (former_hash IS NULL) = (former_ends_at IS NULL) AND (former_hash IS NULL OR rolls > 0)),
    CONSTRAINT additional_api_keys_rolls CHECK (rolls >= 0 AND (rolls = 0) = (rolled_at IS NULL))
);
CREATE UNIQUE INDEX additional_api_keys_former_unique ON additional_api_keys (former_hash)
    WHERE former_hash IS NOT NULL;
CREATE INDEX additional_api_keys_of_org ON additional_api_keys (org_id, created_at, key_id) WHERE deleted_at IS NULL;
SELECT coffer_tenant('additional_api_keys',
    'SELECT, INSERT (key_id, org_id, name, scope, hash, expires_at),'
        ' UPDATE (hash, former_hash, former_ends_at, rolls, rolled_at, deleted_at)',
    'SELECT, UPDATE (deleted_at)');

-- The name, scope and expiry of a key never change. A roll replaces its value and keeps the
-- value before it for at most a day. A deleted key stays deleted. Rules KEY-5 and KEY-6.
CREATE FUNCTION additional_api_keys_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.key_id, NEW.org_id, NEW.name, NEW.scope, NEW.expires_at, NEW.created_at)
       IS DISTINCT FROM (OLD.key_id, OLD.org_id, OLD.name, OLD.scope, OLD.expires_at, OLD.created_at)
       OR OLD.deleted_at IS NOT NULL
       OR NEW.hash = OLD.hash AND ((NEW.rolls, NEW.rolled_at) IS DISTINCT FROM (OLD.rolls, OLD.rolled_at)
            OR NEW.former_hash IS NOT NULL AND (NEW.former_hash IS DISTINCT FROM OLD.former_hash OR NEW.former_ends_at > OLD.former_ends_at))
       OR NEW.hash <> OLD.hash AND (NEW.rolls <> OLD.rolls + 1
            OR NEW.former_hash IS NOT NULL AND (NEW.former_hash <> OLD.hash OR NEW.former_ends_at > now() + interval '86400 seconds')) THEN
        RAISE EXCEPTION 'API key % cannot become another', OLD.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'additional_api_keys_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER additional_api_keys_keep BEFORE UPDATE ON additional_api_keys
    FOR EACH ROW EXECUTE FUNCTION additional_api_keys_keep();

-- A new key expires in the future, and an organization has at most 20 keys that are neither
-- deleted nor expired. The lock makes concurrent inserts of one organization count one
-- after the other. Rule KEY-7.
CREATE FUNCTION additional_api_keys_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.expires_at <= now() THEN
        RAISE EXCEPTION 'API key % is over before it begins', NEW.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'additional_api_keys_ahead';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('coffer/org/keys/' || NEW.org_id, 0));
    IF (SELECT count(*) FROM additional_api_keys k
        WHERE k.org_id = NEW.org_id AND k.deleted_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())) >= 20 THEN
        RAISE EXCEPTION 'organization % has 20 API keys beside its main one', NEW.org_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'additional_api_keys_most';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER additional_api_keys_begin BEFORE INSERT ON additional_api_keys
    FOR EACH ROW EXECUTE FUNCTION additional_api_keys_begin();

-- When a value was last used, to the minute. A table of its own, so that a use locks no key.
-- Rule KEY-8.
CREATE TABLE api_key_uses (
    hash         bytea PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organizations,
    last_used_at timestamptz NOT NULL,
    CONSTRAINT api_key_uses_hash_sha256 CHECK (length(hash) = 32)
);
SELECT coffer_tenant('api_key_uses', 'SELECT', 'SELECT, INSERT, UPDATE (last_used_at)');
CREATE TRIGGER api_key_uses_as_inserted BEFORE UPDATE OF hash, org_id ON api_key_uses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 03_people.sql

-- The people of organizations, the operators of the installation, and changes that need two
-- operators.

CREATE TABLE people (
    user_id    text PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    email      text NOT NULL,
    name       text NOT NULL,
    roles      text[] NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT people_email_unique UNIQUE (org_id, email),
    CONSTRAINT people_roles_known CHECK (
        roles <@ ARRAY['OWNER','ADMIN','APPROVER','FINANCE','DEVELOPER','VIEWER'] AND cardinality(roles) > 0)
);
SELECT coffer_tenant('people', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER people_as_inserted BEFORE UPDATE OF user_id, org_id, created_at ON people
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Keys of the operator's API. The table keeps the SHA-256 of a key. A roll gives the name to
-- the next key, so the name identifies the holder: a person or a program.
CREATE TABLE operator_keys (
    key_id     text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT operator_keys_hash_unique UNIQUE (hash),
    CONSTRAINT operator_keys_hash_sha256 CHECK (length(hash) = 32),
    CONSTRAINT operator_keys_named CHECK (name <> '' AND length(name) <= 200)
);
CREATE UNIQUE INDEX operator_keys_one_live ON operator_keys (name) WHERE revoked_at IS NULL;
-- coffer_app has no privilege: a transaction of an organization does not see these keys.
SELECT coffer_shared('operator_keys', '', 'SELECT, INSERT, UPDATE (revoked_at)');

CREATE FUNCTION operator_keys_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.key_id, NEW.name, NEW.hash, NEW.created_at) IS DISTINCT FROM (OLD.key_id, OLD.name, OLD.hash, OLD.created_at)
       OR OLD.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'operator key % is revoked once and cannot become another', OLD.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operator_keys_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER operator_keys_keep BEFORE UPDATE ON operator_keys FOR EACH ROW EXECUTE FUNCTION operator_keys_keep();

-- Dual control (decision 0035): where the installation requires it, a change that
-- loosens a control waits here until a second operator agrees. An operator is identified by
-- the name of the key, so a holder whose key is rolled stays the same operator.
CREATE TABLE change_requests (
    change_id   text COLLATE "C" PRIMARY KEY,
    org_id      text NOT NULL REFERENCES organizations,
    kind        text NOT NULL,  -- which feature applies the change
    before      jsonb NOT NULL, -- the values at the time of the request
    wanted      jsonb NOT NULL,
    author      text NOT NULL,
    author_key  text NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    status      text NOT NULL DEFAULT 'PENDING',
    decided_by  text,
    decided_key text,
    decided_at  timestamptz,
    CONSTRAINT change_requests_kind_known CHECK (kind IN ('SETTINGS', 'WHITELISTED_ADDRESS')),
    CONSTRAINT change_requests_status_known CHECK (status IN ('PENDING', 'APPROVED', 'WITHDRAWN', 'EXPIRED')),
    CONSTRAINT change_requests_objects CHECK (
        jsonb_typeof(before) = 'object' AND jsonb_typeof(wanted) = 'object' AND wanted <> '{}'),
    CONSTRAINT change_requests_expire CHECK (expires_at > created_at),
    CONSTRAINT change_requests_named CHECK (author <> '' AND author_key <> ''),
    CONSTRAINT change_requests_decided CHECK (
        CASE status
            WHEN 'PENDING' THEN num_nonnulls(decided_by, decided_key, decided_at) = 0
            WHEN 'EXPIRED' THEN num_nonnulls(decided_by, decided_key) = 0 AND decided_at >= expires_at
            ELSE num_nonnulls(decided_by, decided_key, decided_at) = 3
        END),
    CONSTRAINT change_requests_in_time CHECK (status <> 'APPROVED' OR decided_at < expires_at),
    -- The author does not approve, under this name or by this key. Rule OP-9.
    CONSTRAINT change_requests_four_eyes CHECK (
        status <> 'APPROVED' OR (decided_by <> author AND decided_key <> author_key)),
    -- Only the author withdraws the request.
    CONSTRAINT change_requests_own CHECK (status <> 'WITHDRAWN' OR decided_by = author)
);
CREATE INDEX change_requests_listed ON change_requests (created_at, change_id);
CREATE INDEX change_requests_of_organization ON change_requests (org_id, created_at, change_id);
CREATE INDEX change_requests_pending ON change_requests (expires_at) WHERE status = 'PENDING';
SELECT coffer_tenant('change_requests', '',
    'SELECT, INSERT, UPDATE (status, decided_by, decided_key, decided_at)');

-- Rule OP-7.
CREATE FUNCTION change_requests_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.status <> 'PENDING'
       OR (NEW.change_id, NEW.org_id, NEW.kind, NEW.before, NEW.wanted, NEW.author, NEW.author_key, NEW.created_at, NEW.expires_at)
          IS DISTINCT FROM (OLD.change_id, OLD.org_id, OLD.kind, OLD.before, OLD.wanted, OLD.author, OLD.author_key, OLD.created_at, OLD.expires_at) THEN
        RAISE EXCEPTION 'change request % is decided once, as it was asked for', OLD.change_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'change_requests_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER change_requests_keep BEFORE UPDATE ON change_requests
    FOR EACH ROW EXECUTE FUNCTION change_requests_keep();
CREATE TRIGGER change_requests_stay BEFORE DELETE OR TRUNCATE ON change_requests
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 04_audit.sql

-- The audit log, and the hash chain over it (decision 0038).

-- Who did what to which resource, written in the transaction that did it.
CREATE TABLE audit_log (
    audit_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id        text, -- NULL: the entry concerns no organization
    at            timestamptz NOT NULL,
    actor_kind    text NOT NULL,
    actor_id      text NOT NULL,
    action        text NOT NULL,
    resource_kind text NOT NULL,
    resource_id   text NOT NULL,
    detail        jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT audit_log_actor_known CHECK (actor_kind IN ('API_KEY', 'USER', 'OPERATOR', 'SYSTEM'))
);
CREATE INDEX audit_log_resource ON audit_log (resource_id, audit_id);
SELECT coffer_tenant('audit_log', 'SELECT, INSERT', 'SELECT, INSERT');
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_organization AFTER INSERT ON audit_log
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION organizations_refer();

-- The sealer reads how many ids were given out.
DO $$
BEGIN
    EXECUTE format('GRANT SELECT ON SEQUENCE %s TO coffer_system', pg_get_serial_sequence('audit_log', 'audit_id'));
END $$;

-- The owner of the database could change rows of the log unnoticed. So each row gets a
-- position in a hash chain after its commit. The chain has tables of its own, so a writer of
-- the log waits for no other.
--
-- The end of the chain. chain_id names the chain: the first hash is made of it. Every row of
-- the log with an id up to sealed_through is in the chain, or will never be in the log.
CREATE TABLE audit_chain (
    one            boolean PRIMARY KEY DEFAULT true,
    chain_id       text NOT NULL,
    position       bigint NOT NULL DEFAULT 0,
    hash           bytea NOT NULL,
    sealed_through bigint NOT NULL DEFAULT 0,
    CONSTRAINT audit_chain_one CHECK (one),
    CONSTRAINT audit_chain_hash_sha256 CHECK (length(hash) = 32),
    CONSTRAINT audit_chain_counts CHECK (position >= 0 AND sealed_through >= 0)
);
INSERT INTO audit_chain (chain_id, hash)
SELECT c.id, sha256(convert_to('coffer-audit-1' || chr(10) || c.id, 'UTF8'))
FROM (SELECT 'aud_' || replace(gen_random_uuid()::text, '-', '') AS id) c;
SELECT coffer_shared('audit_chain', '', 'SELECT, UPDATE (position, hash, sealed_through)');

CREATE FUNCTION audit_chain_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.one, NEW.chain_id) IS DISTINCT FROM (OLD.one, OLD.chain_id) OR NEW.position < OLD.position OR NEW.sealed_through < OLD.sealed_through
       OR (NEW.position = OLD.position) <> (NEW.hash = OLD.hash) THEN
        RAISE EXCEPTION 'the audit chain goes on from %', OLD.position
            USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_chain_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER audit_chain_keep BEFORE UPDATE ON audit_chain FOR EACH ROW EXECUTE FUNCTION audit_chain_keep();
CREATE TRIGGER audit_chain_stay BEFORE DELETE OR TRUNCATE ON audit_chain
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The position of each row of the log, with the hash of the chain up to it.
CREATE TABLE audit_seal (
    position bigint NOT NULL,
    audit_id bigint NOT NULL,
    hash     bytea NOT NULL,
    CONSTRAINT audit_seal_pkey PRIMARY KEY (position),
    CONSTRAINT audit_seal_once UNIQUE (audit_id),
    CONSTRAINT audit_seal_from_one CHECK (position > 0),
    CONSTRAINT audit_seal_hash_sha256 CHECK (length(hash) = 32)
);
SELECT coffer_shared('audit_seal', '', 'SELECT, INSERT');
CREATE TRIGGER audit_seal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A copy of what the signer signed of the chain. The signer keeps the original in its own
-- file. at is the text that was signed, byte for byte.
CREATE TABLE audit_anchors (
    number    bigint NOT NULL,
    chain_id  text NOT NULL,
    position  bigint NOT NULL,
    hash      text NOT NULL,
    at        text NOT NULL,
    prev      text NOT NULL,
    because   text NOT NULL, -- why an operator began the chain again here; '' otherwise
    signature bytea NOT NULL,
    copied_at timestamptz NOT NULL,
    CONSTRAINT audit_anchors_pkey PRIMARY KEY (number),
    CONSTRAINT audit_anchors_counts CHECK (number > 0 AND position >= 0),
    CONSTRAINT audit_anchors_hash_sha256 CHECK (hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT audit_anchors_signed CHECK (length(signature) = 64)
);
CREATE INDEX audit_anchors_of_position ON audit_anchors (position);
SELECT coffer_shared('audit_anchors', '', 'SELECT, INSERT');
CREATE TRIGGER audit_anchors_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_anchors
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 05_customers.sql

-- The customers of organizations.

-- Customer ids are compared byte for byte, whatever the database's collation is. Rule CUS-1.
CREATE TABLE customers (
    org_id           text NOT NULL REFERENCES organizations,
    customer_id      text COLLATE "C" NOT NULL,
    email            text,
    email_changed_at timestamptz,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    CONSTRAINT customers_pkey PRIMARY KEY (org_id, customer_id),
    CONSTRAINT customers_id_bounded CHECK (octet_length(customer_id) BETWEEN 1 AND 128),
    CONSTRAINT customers_email_bounded CHECK (octet_length(email) BETWEEN 3 AND 254)
);
CREATE INDEX customers_listed ON customers (org_id, created_at, customer_id);
SELECT coffer_tenant('customers', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');

-- Rows of other tables refer to a customer without a foreign key.
CREATE TRIGGER customers_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id, customer_id ON customers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An approval rule that trusts an e-mail must not trust a new one before its cooling-off is
-- over. So every change of an e-mail records its time, later than that of the change before:
-- else two changes could share one cooling-off. The first e-mail is no change. A later one
-- is, also after a removal. Rule CUS-4.
CREATE FUNCTION customers_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.email IS DISTINCT FROM OLD.email AND (OLD.email IS NOT NULL OR OLD.email_changed_at IS NOT NULL)
       AND (NEW.email_changed_at IS DISTINCT FROM NEW.updated_at OR NEW.email_changed_at <= OLD.email_changed_at) THEN
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
CREATE TRIGGER customers_keep BEFORE UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION customers_keep();

-- Whether NFKC and lower case leave the e-mail as it is, but for ASCII case, and every
-- character of it is visible. The approval allowlist compares e-mails in that form, and
-- folding makes one address of two mailboxes: U+FF56 becomes v, U+0130 becomes i. The class
-- has U+0130 and U+1E9E, whose lower case is that of another letter, then the characters
-- that Unicode calls default ignorable, format characters and the blank of Braille.
-- customer.PlainEmail in Go is the same function. Rule CUS-7.
CREATE FUNCTION email_is_plain(email text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN email IS NFKC NORMALIZED AND email !~ (
    '[\u0130\u1E9E\u00AD\u034F\u0600-\u0605\u061C\u06DD\u070F\u0890\u0891\u08E2\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B-\u200F'
    '\u202A-\u202E\u2060-\u206F\u2800\uFE00-\uFE0F\uFEFF\uFFF0-\uFFFB\U000110BD\U000110CD\U00013430-\U0001343F\U0001BCA0-\U0001BCA3'
    '\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]');

CREATE FUNCTION customers_email_plain() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the e-mail of customer % is not plain', NEW.customer_id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_plain';
END $$;
CREATE TRIGGER customers_email_plain BEFORE INSERT ON customers
    FOR EACH ROW WHEN (NOT email_is_plain(NEW.email)) EXECUTE FUNCTION customers_email_plain();
CREATE TRIGGER customers_email_plain_changed BEFORE UPDATE OF email ON customers
    FOR EACH ROW WHEN (NEW.email IS DISTINCT FROM OLD.email AND NOT email_is_plain(NEW.email))
    EXECUTE FUNCTION customers_email_plain();

---- 06_mints.sql

-- The catalogue: a mint is a token, or the native coin, on a chain.

-- The identity of a mint never changes: its id is in every row of the books.
CREATE TABLE mints (
    mint_id                integer PRIMARY KEY,
    chain                  text NOT NULL,
    network                text NOT NULL,
    kind                   text NOT NULL,
    contract               text NOT NULL, -- '' for the native coin
    symbol                 text NOT NULL,
    name                   text NOT NULL,
    decimals               smallint NOT NULL,
    logo_url               text,
    deposit_enabled        boolean NOT NULL,
    withdraw_enabled       boolean NOT NULL,
    min_deposit            numeric(78,0) NOT NULL,
    min_withdraw           numeric(78,0) NOT NULL,
    confirmations_required integer NOT NULL,
    finality               text NOT NULL,
    quarantined_at         timestamptz,
    quarantine_reason      text,
    CONSTRAINT mints_contract_unique UNIQUE (chain, contract),
    -- Keys that other tables refer to, so that a row names the chain and the contract of its mint.
    CONSTRAINT mints_of_contract UNIQUE (mint_id, chain, contract),
    CONSTRAINT mints_of_chain UNIQUE (mint_id, chain),
    CONSTRAINT mints_kind_known CHECK ((kind = 'NATIVE' AND contract = '') OR (kind = 'TOKEN' AND contract <> '')),
    CONSTRAINT mints_network_known CHECK (network IN ('MAINNET', 'TESTNET', 'LOCAL')),
    CONSTRAINT mints_decimals_bounded CHECK (decimals BETWEEN 0 AND 36),
    CONSTRAINT mints_minimums_positive CHECK (min_deposit > 0 AND min_withdraw > 0),
    CONSTRAINT mints_quarantine_reasoned CHECK ((quarantined_at IS NULL) = (quarantine_reason IS NULL))
);
SELECT coffer_shared('mints', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION mints_keep_identity() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.mint_id, NEW.chain, NEW.network, NEW.contract, NEW.decimals) IS DISTINCT FROM
       (OLD.mint_id, OLD.chain, OLD.network, OLD.contract, OLD.decimals) THEN
        RAISE EXCEPTION 'mint % cannot become another token', OLD.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'mints_identity_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER mints_identity_fixed BEFORE UPDATE ON mints FOR EACH ROW EXECUTE FUNCTION mints_keep_identity();
-- Rows of other tables refer to a mint without a foreign key.
CREATE TRIGGER mints_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF mint_id ON mints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 07_ledger.sql

-- The books.
--
-- A row of ledger_transfers moves an amount of one mint from one account to another, so an
-- entry that does not balance cannot be written. The database alone keeps the balances of
-- accounts with a floor: the service inserts transfers and has no privilege on balances.
--
-- Money moves only for a withdrawal, deposit, order or transfer that says the same
-- (decision 0021). Checks between rows run at the commit, so a transaction may write
-- its rows in any order.

CREATE TABLE ledger_accounts (
    account_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    mint_id    integer NOT NULL REFERENCES mints,
    kind       text NOT NULL,
    subject    text COLLATE "C" NOT NULL, -- the customer, the product, or ''
    floored    boolean,                   -- whether it has a balance row, which stays at or above zero
    created_at timestamptz NOT NULL,
    CONSTRAINT ledger_accounts_unique UNIQUE (org_id, mint_id, kind, subject),
    -- Keys that other tables refer to.
    CONSTRAINT ledger_accounts_of_mint UNIQUE (account_id, mint_id),
    CONSTRAINT ledger_accounts_of_org UNIQUE (account_id, org_id),
    -- Holds of products have kinds of their own: a customer may have the name of a product.
    -- Rule OW-3.
    CONSTRAINT ledger_accounts_kind_known CHECK (
        CASE kind
            WHEN 'CUSTOMER' THEN subject <> ''            -- what a customer may spend
            WHEN 'WITHDRAWING' THEN subject <> ''         -- held for a customer's withdrawals
            WHEN 'RESTORED' THEN subject <> ''            -- owed to us for payments restored from the signer's journal
            WHEN 'PRODUCT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_WITHDRAWING' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_RESTORED' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'GAS' THEN subject = ''                  -- native coin that the operator put in for fees
            WHEN 'SUSPENSE' THEN subject = ''             -- arrived, owner not settled; or a flagged deposit
            WHEN 'CUSTODY' THEN subject = ''              -- what our addresses hold on chain
            WHEN 'FEES_DUE' THEN subject = ''             -- network fees that the organization owes the operator
            WHEN 'FEES_BILLED' THEN subject = ''          -- the other side of FEES_DUE
            WHEN 'REORG_LOSS' THEN subject = ''           -- credited, then taken back by the chain
            ELSE false
        END),
    -- Liabilities grow on the credit side and may not fall below zero. What we own or lost is
    -- a sum over transfers, which no payment has to lock.
    CONSTRAINT ledger_accounts_floored CHECK (
        (floored IS TRUE) = (kind IN ('CUSTOMER', 'WITHDRAWING', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'GAS', 'SUSPENSE')))
);
-- The accounts of a customer or a product.
CREATE INDEX ledger_accounts_of_subject ON ledger_accounts (org_id, subject, kind);
SELECT coffer_tenant('ledger_accounts',
    'SELECT, INSERT (org_id, mint_id, kind, subject, created_at)',
    'SELECT, INSERT (org_id, mint_id, kind, subject, created_at)');
CREATE TRIGGER ledger_accounts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Sets floored, which no role may write.
CREATE FUNCTION ledger_accounts_floor() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    NEW.floored := NEW.kind IN ('CUSTOMER', 'WITHDRAWING', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'GAS', 'SUSPENSE');
    RETURN NEW;
END $$;
CREATE TRIGGER ledger_accounts_floor BEFORE INSERT ON ledger_accounts
    FOR EACH ROW EXECUTE FUNCTION ledger_accounts_floor();

-- One row for each account with a floor.
CREATE TABLE ledger_balances (
    account_id bigint PRIMARY KEY,
    org_id     text NOT NULL,
    mint_id    integer NOT NULL,
    balance    numeric(78,0) NOT NULL DEFAULT 0,
    CONSTRAINT ledger_balances_account FOREIGN KEY (account_id, org_id) REFERENCES ledger_accounts (account_id, org_id),
    CONSTRAINT ledger_balances_mint FOREIGN KEY (account_id, mint_id) REFERENCES ledger_accounts (account_id, mint_id),
    -- Rules WD-2 and TR-4.
    CONSTRAINT ledger_balances_not_overdrawn CHECK (balance >= 0),
    CONSTRAINT ledger_balances_bounded CHECK (
        balance < 115792089237316195423570985008687907853269984665640564039457584007913129639936)
);
SELECT coffer_tenant('ledger_balances', 'SELECT', 'SELECT');
CREATE TRIGGER ledger_balances_as_inserted BEFORE UPDATE OF account_id, org_id, mint_id ON ledger_balances
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- The owner writes here through ledger_open_balances and ledger_move_balances and in no
-- other way.
CREATE POLICY keeper ON ledger_balances TO CURRENT_USER USING (true) WITH CHECK (true);

-- The search_path names pg_temp last: PostgreSQL searches it first otherwise, and the
-- functions would move a caller's temporary table in place of the balances.
CREATE FUNCTION ledger_open_balances() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO ledger_balances (account_id, org_id, mint_id)
    SELECT account_id, org_id, mint_id FROM added WHERE floored ORDER BY account_id;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_accounts_open_balances AFTER INSERT ON ledger_accounts
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_open_balances();

-- ledger_transfers_accounts checks both accounts, in place of foreign keys.
CREATE TABLE ledger_transfers (
    transfer_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id         text NOT NULL,
    mint_id        integer NOT NULL,
    debit_account  bigint NOT NULL,
    credit_account bigint NOT NULL,
    amount         numeric(78,0) NOT NULL,
    cause_kind     text NOT NULL,
    cause_id       text COLLATE "C" NOT NULL,
    leg            smallint NOT NULL,
    created_at     timestamptz NOT NULL,
    CONSTRAINT ledger_transfers_positive CHECK (
        amount > 0 AND amount < 115792089237316195423570985008687907853269984665640564039457584007913129639936),
    CONSTRAINT ledger_transfers_two_accounts CHECK (debit_account <> credit_account),
    -- A cause posts once. The settlement and the release of a hold share a cause, so a hold
    -- cannot end twice. Rules WD-5 and BAL-2.
    CONSTRAINT ledger_transfers_cause_once UNIQUE (cause_kind, cause_id, leg),
    CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE', 'DEPOSIT_REVERSAL',
         'WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_FEE',
         'FEE_PREPAID', 'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER')),
    -- A cause has these legs, and no more under other numbers.
    CONSTRAINT ledger_transfers_legs CHECK (
        CASE cause_kind
            WHEN 'NETWORK_FEE' THEN leg IN (0, 1)
            WHEN 'FEE_CHANGE' THEN leg IN (0, 1)
            WHEN 'DEPOSIT_REVERSAL' THEN leg >= 0
            ELSE leg = 0
        END)
);
CREATE INDEX ledger_transfers_debits ON ledger_transfers (debit_account, created_at, transfer_id);
CREATE INDEX ledger_transfers_credits ON ledger_transfers (credit_account, created_at, transfer_id);
-- The entries of a mint, without network fees: those move no balance of a customer or product,
-- and nearly all entries of the coin that pays for sweeps are network fees.
CREATE INDEX ledger_transfers_of_mint ON ledger_transfers (org_id, mint_id, created_at, transfer_id)
    WHERE cause_kind NOT IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID');
-- No role writes transfer_id: a role that chose it could take the next ones away.
SELECT coffer_tenant('ledger_transfers',
    'SELECT, INSERT (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)',
    'SELECT, INSERT (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)');
CREATE TRIGGER ledger_transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transfers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- PostgreSQL runs the following triggers in the order of their names.
--
-- The functions run as the role that inserts, under row level security: an account of
-- another organization counts as missing. Each look-up is a scalar subquery by key, and
-- enable_seqscan is off: a session that planned on empty tables keeps its plan, and it must
-- look rows up by key at any size. COLLATE makes a comparison match the collation of the
-- key, for the index is unused otherwise. What is compared stands in the select list and
-- not in the condition: on empty tables any index with one of those columns looks as good
-- as the key, and the plan stays. The functions use few and plain statements because every
-- transfer passes all of them (decision 0036).

-- Both accounts of a transfer belong to its organization and its mint.
CREATE FUNCTION ledger_transfers_refer() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    lost text;
BEGIN
    SELECT t.debit_account || ' or ' || t.credit_account || ' of ' || t.org_id || ' in mint ' || t.mint_id INTO lost FROM added t
    WHERE (SELECT (a.org_id, a.mint_id) = (t.org_id, t.mint_id) FROM public.ledger_accounts a WHERE a.account_id = t.debit_account) IS NOT TRUE
       OR (SELECT (a.org_id, a.mint_id) = (t.org_id, t.mint_id) FROM public.ledger_accounts a WHERE a.account_id = t.credit_account) IS NOT TRUE
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no account %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_transfers_accounts';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_accounts AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_refer();

-- Moves the balances of a statement's transfers. It locks the rows in the order of their ids
-- first, so that two statements never wait for each other in a circle. It gathers the ids
-- first, so that both statements look rows up by key.
CREATE FUNCTION ledger_move_balances() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ids    bigint[];
    deltas numeric[];
BEGIN
    SELECT array_agg(m.account_id), array_agg(m.delta)
    INTO ids, deltas
    FROM (SELECT legs.account_id, sum(legs.delta) AS delta
          FROM (SELECT credit_account AS account_id, amount AS delta FROM added
                UNION ALL
                SELECT debit_account, -amount FROM added) legs
          GROUP BY legs.account_id ORDER BY legs.account_id) m;

    PERFORM 1 FROM ledger_balances b
    WHERE b.account_id = ANY (ids)
    ORDER BY b.account_id FOR NO KEY UPDATE;

    UPDATE ledger_balances b SET balance = b.balance + m.delta
    FROM unnest(ids, deltas) AS m (account_id, delta)
    WHERE b.account_id = m.account_id AND b.account_id = ANY (ids) AND m.delta <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_move_balances AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_move_balances();
REVOKE ALL ON FUNCTION ledger_open_balances(), ledger_move_balances() FROM PUBLIC;

-- Checks for every new transfer that its cause exists and moves exactly this. It runs after
-- the balances move, for its name comes later: a lack of funds is reported as that. There
-- is one statement for each kind of cause: a kind has one role that posts it, and
-- PostgreSQL plans anew when the role under row level security changes. Which kinds occur
-- is told by the first and the last in the alphabet: a kind between them may occur.
--
-- A hold is of the amount and of what is held for rent. Its release leaves out what was
-- charged.
CREATE FUNCTION ledger_transfers_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    low  text;
    high text;
    lost text;
BEGIN
    SELECT min(cause_kind), max(cause_kind) INTO low, high FROM added;
    IF 'WITHDRAWAL_HOLD' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'WITHDRAWAL_HOLD' AND (
            SELECT (w.org_id, w.mint_id, w.amount + w.charge_held) = (t.org_id, t.mint_id, t.amount)
                AND (d.kind, d.subject, c.kind, c.subject) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id),
                    CASE WHEN w.product IS NULL THEN 'WITHDRAWING' ELSE 'PRODUCT_WITHDRAWING' END, coalesce(w.product, w.customer_id))
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'WITHDRAWAL_END' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'WITHDRAWAL_END' AND (
            SELECT (w.org_id, w.mint_id) = (t.org_id, t.mint_id)
                AND (d.kind, d.subject) = (CASE WHEN w.product IS NULL THEN 'WITHDRAWING' ELSE 'PRODUCT_WITHDRAWING' END, coalesce(w.product, w.customer_id))
                AND CASE WHEN w.status = 'COMPLETED' THEN (c.kind, c.subject, t.amount) = ('CUSTODY', '', w.amount)
                    WHEN w.status IN ('FAILED', 'REJECTED', 'CANCELLED') THEN (c.kind, c.subject, t.amount) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        coalesce(w.product, w.customer_id), w.amount + w.charge_held - w.charged) END
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'DEPOSIT' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'DEPOSIT' AND (
            SELECT (p.org_id, p.mint_id, p.amount) = (t.org_id, t.mint_id, t.amount) AND p.status IN ('CREDITED', 'REVERSED')
                AND (a.org_id, a.address, a.purpose, a.subject) = (p.org_id, p.address, p.purpose, coalesce(p.customer_id, p.product, ''))
                AND (d.kind, d.subject) = ('CUSTODY', '')
                AND (c.kind, c.subject) = (CASE WHEN p.purpose = 'CUSTOMER_DEPOSIT' THEN 'CUSTOMER' WHEN p.purpose = 'ORGANIZATION_DEPOSIT' THEN 'PRODUCT'
                        WHEN p.contract = '' THEN 'GAS' ELSE 'SUSPENSE' END,
                    coalesce(p.customer_id, p.product, ''))
            FROM deposits p, wallets a, ledger_accounts d, ledger_accounts c
            WHERE p.deposit_id = t.cause_id COLLATE "default" AND a.wallet_id = p.wallet_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'NETWORK_FEE' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'NETWORK_FEE' AND (
            SELECT (o.org_id, o.fee, m.chain, m.contract) = (t.org_id, t.amount, o.chain, '')
                AND o.status IN ('PAID', 'FAILED')
                AND (d.kind, c.kind) = (CASE t.leg WHEN 0 THEN 'GAS' ELSE 'FEES_DUE' END, CASE t.leg WHEN 0 THEN 'CUSTODY' ELSE 'FEES_BILLED' END)
            FROM dispatch_orders o, mints m, ledger_accounts d, ledger_accounts c
            WHERE o.order_id = t.cause_id COLLATE "default" AND m.mint_id = t.mint_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'RESTORE' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'RESTORE' AND (
            SELECT (w.org_id, w.mint_id) = (t.org_id, t.mint_id) AND w.restored_at IS NOT NULL
                AND (d.subject, c.subject) = (coalesce(w.product, w.customer_id), coalesce(w.product, w.customer_id))
                AND CASE WHEN t.cause_id = w.withdrawal_id THEN (d.kind, c.kind, w.collections) = (CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END,
                        CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, 0)
                    ELSE (d.kind, c.kind, t.cause_id) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END, w.withdrawal_id || '/' || w.collections) END
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = split_part(t.cause_id, '/', 1) COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'TRANSFER' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'TRANSFER' AND (
            SELECT (x.org_id, x.mint_id, x.amount) = (t.org_id, t.mint_id, t.amount)
                AND (d.kind, d.subject) = (CASE WHEN x.from_customer IS NULL THEN 'PRODUCT' ELSE 'CUSTOMER' END, coalesce(x.from_customer, x.from_product))
                AND (c.kind, c.subject) = (CASE WHEN x.to_customer IS NULL THEN 'PRODUCT' ELSE 'CUSTOMER' END, coalesce(x.to_customer, x.to_product))
            FROM transfers x, ledger_accounts d, ledger_accounts c
            WHERE x.transfer_id = t.cause_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: %', lost
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_cause';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_cause AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_follow();

-- The charge of a withdrawal goes to the organization. What was held for rent and not
-- charged goes back to the customer.
CREATE FUNCTION ledger_withdrawal_charge_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.org_id, w.mint_id, d.kind, d.subject) = (NEW.org_id, NEW.mint_id, 'WITHDRAWING', w.customer_id)
            AND CASE NEW.cause_kind
                WHEN 'WITHDRAWAL_CHARGE' THEN w.status IN ('COMPLETED', 'FAILED') AND w.charged = NEW.amount AND (c.kind, c.subject) = ('PRODUCT', 'CUSTODIAL')
                ELSE w.status = 'COMPLETED' AND w.charge_held - w.charged = NEW.amount AND (c.kind, c.subject) = ('CUSTOMER', w.customer_id) END
        FROM withdrawals w, ledger_accounts d, ledger_accounts c
        WHERE w.withdrawal_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_charge';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_charge AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN'))
    EXECUTE FUNCTION ledger_withdrawal_charge_follow();

-- All that was posted for an order adds up to its fee. A change names the fork on which the
-- order is proven: the same transaction may cost more or less in another block
-- (decision 0024).
CREATE FUNCTION ledger_fee_change_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (o.org_id, o.chain, '') = (NEW.org_id, m.chain, m.contract)
            AND o.status IN ('PAID', 'FAILED')
            AND NEW.cause_id COLLATE "C" = (o.order_id || '/' || p.fork) COLLATE "C"
            AND CASE NEW.leg WHEN 0 THEN (d.kind, c.kind) IN (('GAS', 'CUSTODY'), ('CUSTODY', 'GAS'))
                ELSE (d.kind, c.kind) IN (('FEES_DUE', 'FEES_BILLED'), ('FEES_BILLED', 'FEES_DUE')) END
            AND o.fee = (
                SELECT sum(CASE WHEN x.kind IN ('GAS', 'FEES_DUE') THEN t.amount ELSE -t.amount END)
                FROM ledger_transfers t JOIN ledger_accounts x ON x.account_id = t.debit_account
                WHERE t.leg = NEW.leg AND (t.cause_kind = 'NETWORK_FEE' AND t.cause_id = o.order_id COLLATE "C"
                    OR t.cause_kind = 'FEE_CHANGE' AND t.cause_id = ANY (ARRAY(SELECT (o.order_id || '/' || n) COLLATE "C" FROM generate_series(1, p.fork) n))))
        FROM dispatch_orders o, finality_proofs p, mints m, ledger_accounts d, ledger_accounts c
        WHERE o.order_id = split_part(NEW.cause_id, '/', 1) COLLATE "default" AND p.proof_id = o.proof_id AND m.mint_id = NEW.mint_id
            AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_fee_change';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_fee_change AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'FEE_CHANGE') EXECUTE FUNCTION ledger_fee_change_follow();

-- WITHDRAWAL_FEE: the fee that a customer paid belongs to the organization once the payment
-- is completed. FEE_PREPAID: the fee that an organization paid for its own withdrawal is the
-- operator's gas then, and counts as paid on the organization's bill.
CREATE FUNCTION ledger_withdrawal_fee_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.org_id, w.mint_id, w.fee_deducted, w.status) = (NEW.org_id, NEW.mint_id, NEW.amount, 'COMPLETED')
            AND CASE
                WHEN NEW.cause_kind = 'FEE_PREPAID' THEN w.product IS NOT NULL AND (d.kind, c.kind) = ('FEES_BILLED', 'FEES_DUE')
                WHEN w.product IS NOT NULL THEN (d.kind, d.subject, c.kind, c.subject) = ('CUSTODY', '', 'GAS', '')
                ELSE (d.kind, d.subject, c.kind, c.subject) = ('CUSTODY', '', 'PRODUCT', 'CUSTODIAL') END
        FROM withdrawals w, ledger_accounts d, ledger_accounts c
        WHERE w.withdrawal_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_withdrawal_fee';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_withdrawal_fee AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'WITHDRAWAL_FEE') EXECUTE FUNCTION ledger_withdrawal_fee_follow();
CREATE TRIGGER ledger_transfers_of_fee_prepaid AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'FEE_PREPAID') EXECUTE FUNCTION ledger_withdrawal_fee_follow();

-- In the books a flagged deposit is custody of the organization and part of no balance
-- (decision 0040). DEPOSIT_HOLD books it, DEPOSIT_RELEASE ends that, and DEPOSIT_FEE
-- keeps the fee of a return.
CREATE FUNCTION ledger_deposit_hold_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (p.org_id, p.mint_id) = (NEW.org_id, NEW.mint_id) AND p.is_flagged AND CASE NEW.cause_kind
                WHEN 'DEPOSIT_HOLD' THEN p.amount = NEW.amount AND p.status = 'FLAGGED' AND (d.kind, c.kind) = ('CUSTODY', 'SUSPENSE')
                WHEN 'DEPOSIT_RELEASE' THEN p.amount = NEW.amount AND p.status IN ('ORPHANED', 'CREDITED', 'REJECTED', 'REDIRECTED') AND (d.kind, c.kind) = ('SUSPENSE', 'CUSTODY')
                ELSE p.status IN ('REJECTED', 'REDIRECTED') AND (d.kind, c.kind, c.subject) = ('CUSTODY', 'PRODUCT', 'CUSTODIAL')
                    AND NEW.amount = (SELECT r.fee_kept FROM deposit_resolutions r WHERE r.deposit_id = p.deposit_id AND r.status = 'DONE') END
        FROM deposits p, ledger_accounts d, ledger_accounts c
        WHERE p.deposit_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_hold';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_hold AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE'))
    EXECUTE FUNCTION ledger_deposit_hold_follow();

---- 08_wallets.sql

-- The addresses that we control, what each holds by our own account, and the addresses that
-- an organization may pay its own money to.

-- What a person compares of an address, in lower case: its first four and last four
-- characters, after the prefix that all addresses of an EVM chain share.
CREATE FUNCTION address_prefix_suffix(address text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN left(lower(address), CASE WHEN starts_with(address, '0x') THEN 6 ELSE 4 END) || ' ' || right(lower(address), 4);

-- Whether a chain keeps its money in UTXOs, as chain.Name.Pooled says.
CREATE FUNCTION is_utxo(chain text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN chain = 'BITCOIN';

CREATE TABLE wallets (
    wallet_id     text PRIMARY KEY,
    org_id        text NOT NULL REFERENCES organizations,
    family        text NOT NULL,
    purpose       text NOT NULL,
    subject       text COLLATE "C" NOT NULL, -- the customer, the product, the number of a change wallet; '' for a treasury
    path          text NOT NULL,
    address       text NOT NULL,
    proof         bytea NOT NULL,            -- of the signer, that it derived the address
    created_at    timestamptz NOT NULL,
    prefix_suffix text NOT NULL GENERATED ALWAYS AS (address_prefix_suffix(address)) STORED,
    form          text NOT NULL DEFAULT '',  -- '' is the usual address of the family (decision 0062)
    -- TREASURY, CHANGE or DEPOSIT: what an internal order may take from or bring to.
    role          text NOT NULL GENERATED ALWAYS AS (
        CASE WHEN purpose IN ('TREASURY', 'CHANGE') THEN purpose ELSE 'DEPOSIT' END) STORED,
    -- Rules DEP-1 and DEP-24.
    CONSTRAINT wallets_subject_unique UNIQUE (org_id, family, purpose, subject),
    CONSTRAINT wallets_address_unique UNIQUE (family, address),
    -- Keys that other tables refer to.
    CONSTRAINT wallets_of_org UNIQUE (org_id, wallet_id),
    CONSTRAINT wallets_of_address UNIQUE (wallet_id, address),
    CONSTRAINT wallets_of_role UNIQUE (wallet_id, role),
    -- A CHANGE wallet receives the change output of one transaction.
    CONSTRAINT wallets_purpose_known CHECK (
        CASE purpose
            WHEN 'CUSTOMER_DEPOSIT' THEN subject <> ''
            WHEN 'ORGANIZATION_DEPOSIT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'TREASURY' THEN subject = ''
            WHEN 'CHANGE' THEN subject <> ''
            ELSE false
        END),
    CONSTRAINT wallets_form_known CHECK (
        form = ''
        OR (form = 'TAPROOT' AND family = 'BITCOIN' AND purpose IN ('CUSTOMER_DEPOSIT', 'ORGANIZATION_DEPOSIT')))
);
CREATE INDEX wallets_prefix_suffix ON wallets (org_id, prefix_suffix);
-- Finds the newest number of an organization's change wallets. From the seed alone, the
-- numbers lead to every change output (decision 0069). The oldest change wallets have
-- the id of an order as their subject.
CREATE INDEX wallets_change ON wallets (org_id, family, length(subject) DESC, subject DESC)
    WHERE purpose = 'CHANGE' AND subject ~ '^[1-9][0-9]{0,17}$';
SELECT coffer_tenant('wallets', 'SELECT, INSERT', 'SELECT, INSERT');
-- Deposits refer to a wallet without a foreign key.
CREATE TRIGGER wallets_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id, wallet_id ON wallets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER wallets_as_inserted BEFORE UPDATE OF created_at ON wallets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a wallet holds of a mint, by the blocks that we saw become final.
--
--   credited      all that arrived and was credited, that we moved in, or that is held
--   held          the part of it that is flagged: it leaves only by its own resolution
--   reserved      the part of it that is promised to orders that are not final
--   swept         the part of it that left
--   gas           native coin of the operator, for fees
--   gas_reserved  the part of it that is promised to orders that are not final
--   dust          arrived and not credited, below the minimum
--   reversed      the part of credited that the chain took back
--   gas_reversed  the same of gas
--   short         what is promised and gone beyond what arrived
--   gas_short     the same of gas
CREATE TABLE address_funds (
    wallet_id    text NOT NULL,
    mint_id      integer NOT NULL REFERENCES mints,
    org_id       text NOT NULL,
    credited     numeric(78,0) NOT NULL DEFAULT 0,
    held         numeric(78,0) NOT NULL DEFAULT 0,
    reserved     numeric(78,0) NOT NULL DEFAULT 0,
    swept        numeric(78,0) NOT NULL DEFAULT 0,
    gas          numeric(78,0) NOT NULL DEFAULT 0,
    gas_reserved numeric(78,0) NOT NULL DEFAULT 0,
    dust         numeric(78,0) NOT NULL DEFAULT 0,
    reversed     numeric(78,0) NOT NULL DEFAULT 0,
    gas_reversed numeric(78,0) NOT NULL DEFAULT 0,
    short        numeric(78,0) NOT NULL DEFAULT 0,
    gas_short    numeric(78,0) NOT NULL DEFAULT 0,
    CONSTRAINT address_funds_pkey PRIMARY KEY (wallet_id, mint_id),
    CONSTRAINT address_funds_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT address_funds_not_negative CHECK (
        least(credited, held, reserved, swept, gas_reserved, dust, short, gas_short, reversed, gas_reversed) >= 0),
    CONSTRAINT address_funds_covered CHECK (reserved + swept + held <= credited + short),
    CONSTRAINT address_funds_gas_covered CHECK (gas_reserved <= gas + gas_short)
);
CREATE INDEX address_funds_of_mint ON address_funds (org_id, mint_id);
SELECT coffer_tenant('address_funds', 'SELECT',
    'SELECT, INSERT (wallet_id, mint_id, org_id),'
        ' UPDATE (credited, held, reserved, swept, gas, gas_reserved, dust, reversed, gas_reversed)');

-- Money that the chain took back may have been promised, moved or spent before. The row then
-- says how much is missing, and the database computes that. The shortfall grows only by what
-- the chain took back and never by a promise (decision 0020).
CREATE FUNCTION address_funds_short() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    was address_funds;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        was := OLD;
    ELSE
        was.short := 0; was.gas_short := 0; was.reversed := 0; was.gas_reversed := 0;
    END IF;
    NEW.short := greatest(0, NEW.reserved + NEW.swept + NEW.held - NEW.credited);
    NEW.gas_short := greatest(0, NEW.gas_reserved - NEW.gas);
    IF NEW.reversed < was.reversed OR NEW.gas_reversed < was.gas_reversed THEN
        RAISE EXCEPTION 'what the chain took from wallet % only grows', NEW.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'address_funds_reversed_forward';
    END IF;
    IF NEW.short > was.short AND NEW.short - was.short > NEW.reversed - was.reversed THEN
        RAISE EXCEPTION 'wallet % holds less of mint % than is promised', NEW.wallet_id, NEW.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'address_funds_covered';
    END IF;
    IF NEW.gas_short > was.gas_short AND NEW.gas_short - was.gas_short > NEW.gas_reversed - was.gas_reversed THEN
        RAISE EXCEPTION 'wallet % holds less gas of mint % than is promised', NEW.wallet_id, NEW.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'address_funds_gas_covered';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER address_funds_short BEFORE INSERT OR UPDATE ON address_funds
    FOR EACH ROW EXECUTE FUNCTION address_funds_short();
CREATE TRIGGER address_funds_as_inserted BEFORE UPDATE OF wallet_id, mint_id, org_id ON address_funds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What is missing where, for people.
CREATE VIEW reorg_shortfalls WITH (security_invoker = true) AS
SELECT f.org_id, m.chain, f.wallet_id, f.mint_id, s.part, s.open
FROM address_funds f JOIN mints m USING (mint_id)
CROSS JOIN LATERAL (VALUES ('CREDITED', f.short), ('GAS', f.gas_short)) AS s (part, open)
WHERE s.open > 0;
SELECT coffer_shared('reorg_shortfalls', 'SELECT', 'SELECT');

-- The addresses that an organization's own money may go to (decision 0042). The
-- operator keeps the list. Each row has the signer's proof, so a changed row alone admits no
-- payment: the signer's journal decides.
CREATE TABLE whitelisted_addresses (
    whitelisted_address_id text COLLATE "C" NOT NULL,
    org_id      text NOT NULL,
    chain       text NOT NULL,
    address     text NOT NULL,
    label       text NOT NULL,
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,        -- the operator's key that added it or agreed to it
    change_id   text,                 -- the change request, where two operators were needed
    not_before  timestamptz NOT NULL, -- when the installation's cooling-off is over
    request_mac bytea NOT NULL,       -- of the columns above, by the server's key
    -- The answer of the signer: none yet, a proof, or a refusal. Its journal has the same.
    usable_from timestamptz,
    proof       bytea,
    journal_id  text,
    journal_seq bigint,
    refusal     text,
    removed_at  timestamptz,
    removed_by  text,
    revoked_seq bigint,               -- the entry of the removal in the signer's journal
    CONSTRAINT whitelisted_addresses_pkey PRIMARY KEY (whitelisted_address_id),
    CONSTRAINT whitelisted_addresses_own UNIQUE (org_id, whitelisted_address_id),
    CONSTRAINT whitelisted_addresses_organization FOREIGN KEY (org_id) REFERENCES organizations,
    CONSTRAINT whitelisted_addresses_change FOREIGN KEY (change_id) REFERENCES change_requests,
    CONSTRAINT whitelisted_addresses_change_once UNIQUE (change_id),
    CONSTRAINT whitelisted_addresses_words CHECK (
        chain <> '' AND address <> '' AND label <> '' AND length(label) <= 200 AND created_by <> ''),
    CONSTRAINT whitelisted_addresses_endorsed CHECK (
        num_nonnulls(usable_from, proof, journal_id, journal_seq) IN (0, 4)),
    CONSTRAINT whitelisted_addresses_cool_off CHECK (not_before >= created_at AND usable_from >= not_before),
    CONSTRAINT whitelisted_addresses_removed CHECK (
        num_nonnulls(removed_at, removed_by) IN (0, 2) AND removed_by <> ''),
    CONSTRAINT whitelisted_addresses_revoked CHECK (revoked_seq IS NULL OR removed_at IS NOT NULL)
);
CREATE UNIQUE INDEX whitelisted_addresses_live ON whitelisted_addresses (org_id, chain, address)
    WHERE removed_at IS NULL;
CREATE INDEX whitelisted_addresses_of_organization
    ON whitelisted_addresses (org_id, created_at, whitelisted_address_id);
CREATE INDEX whitelisted_addresses_open ON whitelisted_addresses (whitelisted_address_id)
    WHERE removed_at IS NULL OR revoked_seq IS NULL;
SELECT coffer_tenant('whitelisted_addresses', 'SELECT',
    'SELECT, INSERT,'
        ' UPDATE (usable_from, proof, journal_id, journal_seq, refusal, removed_at, removed_by, revoked_seq)');

-- The requested columns never change. The signer may answer again, never with an earlier
-- time. A removal happens once.
CREATE FUNCTION whitelisted_addresses_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.whitelisted_address_id, NEW.org_id, NEW.chain, NEW.address, NEW.label, NEW.created_at, NEW.created_by, NEW.change_id, NEW.not_before, NEW.request_mac)
       IS DISTINCT FROM (OLD.whitelisted_address_id, OLD.org_id, OLD.chain, OLD.address, OLD.label, OLD.created_at, OLD.created_by, OLD.change_id, OLD.not_before, OLD.request_mac)
       OR OLD.usable_from IS NOT NULL AND (NEW.usable_from >= OLD.usable_from) IS NOT TRUE
       OR OLD.removed_at IS NOT NULL AND (NEW.removed_at, NEW.removed_by) IS DISTINCT FROM (OLD.removed_at, OLD.removed_by)
       OR OLD.revoked_seq IS NOT NULL AND NEW.revoked_seq IS DISTINCT FROM OLD.revoked_seq THEN
        RAISE EXCEPTION 'whitelisted address % stays as it was added until it is removed', OLD.whitelisted_address_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'whitelisted_addresses_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER whitelisted_addresses_keep BEFORE UPDATE ON whitelisted_addresses
    FOR EACH ROW EXECUTE FUNCTION whitelisted_addresses_keep();
CREATE TRIGGER whitelisted_addresses_stay BEFORE DELETE OR TRUNCATE ON whitelisted_addresses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER whitelisted_addresses_written_once BEFORE UPDATE ON whitelisted_addresses FOR EACH ROW
    WHEN (OLD.removed_at IS NOT NULL AND (NEW.usable_from, NEW.proof, NEW.journal_id, NEW.journal_seq, NEW.refusal)
        IS DISTINCT FROM (OLD.usable_from, OLD.proof, OLD.journal_id, OLD.journal_seq, OLD.refusal))
    EXECUTE FUNCTION refuse_row_change();

---- 09_signer.sql

-- The database's copy of the signer's journal.

-- A second journal with the same id and other contents collides with the primary key.
CREATE TABLE signer_journal (
    journal_id text NOT NULL,
    seq        bigint NOT NULL,
    prev       text NOT NULL,
    hash       text NOT NULL,
    body       bytea NOT NULL,
    stored_at  timestamptz NOT NULL,
    CONSTRAINT signer_journal_pkey PRIMARY KEY (journal_id, seq)
);
SELECT coffer_shared('signer_journal', 'SELECT, INSERT', 'SELECT, INSERT');
CREATE TRIGGER signer_journal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON signer_journal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Which journal this database belongs to, and up to which entry it was imported. Moves by
-- compare-and-swap.
CREATE TABLE signer_identity (
    one           boolean PRIMARY KEY DEFAULT true,
    journal_id    text NOT NULL,
    imported_seq  bigint NOT NULL,
    imported_hash text NOT NULL,
    CONSTRAINT signer_identity_one CHECK (one)
);
SELECT coffer_shared('signer_identity', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION signer_identity_forward() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.journal_id = OLD.journal_id AND NEW.imported_seq < OLD.imported_seq THEN
        RAISE EXCEPTION 'the signer journal only grows'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signer_identity_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER signer_identity_forward BEFORE UPDATE ON signer_identity
    FOR EACH ROW EXECUTE FUNCTION signer_identity_forward();

-- The entry that counts as imported is in signer_journal.
CREATE FUNCTION signer_identity_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.imported_seq <> 0 AND NOT EXISTS (
        SELECT FROM signer_journal WHERE journal_id = NEW.journal_id AND seq = NEW.imported_seq AND hash = NEW.imported_hash) THEN
        RAISE EXCEPTION 'entry % of the signer''s journal is called imported and is not here', NEW.imported_seq
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signer_identity_imported';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER signer_identity_imported AFTER INSERT OR UPDATE ON signer_identity
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION signer_identity_follow();

---- 10_finality.sql

-- How far each chain was scanned, and the proofs that blocks are final.
--
-- A credit needs the proof of its block. Finality itself can break: a block that was proven
-- final leaves the chain (decision 0020). No row is edited then. A break says from
-- which height on the proofs of earlier forks are dead. Whatever relies on a dead proof is
-- proven again or taken back.

-- The scan of final blocks: the last block whose deposits are all recorded.
CREATE TABLE scan_cursors (
    chain        text PRIMARY KEY,
    height       bigint NOT NULL,
    hash         text NOT NULL,
    updated_at   timestamptz NOT NULL,
    -- Set when the final chain parts from the chain that was scanned: the last block that both
    -- have. Nothing above it counts until an operator decides.
    forked_above bigint
);
SELECT coffer_shared('scan_cursors', 'SELECT', 'SELECT, INSERT, UPDATE (height, hash, forked_above, updated_at)');
CREATE TRIGGER scan_cursors_as_inserted BEFORE UPDATE OF chain ON scan_cursors
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The scan of recent blocks, as one provider shows them. Its rows may be lost.
CREATE TABLE scan_heads (
    chain  text NOT NULL,
    height bigint NOT NULL,
    hash   text NOT NULL,
    parent text NOT NULL,
    CONSTRAINT scan_heads_pkey PRIMARY KEY (chain, height)
);
SELECT coffer_shared('scan_heads', 'SELECT', 'SELECT, INSERT, DELETE');
CREATE TRIGGER scan_heads_as_inserted BEFORE UPDATE ON scan_heads FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a person has to look at: a native balance that no transaction explains, a token whose
-- events and balances differ.
CREATE TABLE scan_findings (
    finding_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain      text NOT NULL,
    kind       text NOT NULL,
    height     bigint NOT NULL,
    hash       text NOT NULL,
    address    text NOT NULL,
    contract   text NOT NULL,
    detail     text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT scan_findings_once UNIQUE (chain, height, kind, address, contract),
    CONSTRAINT scan_findings_kind_known CHECK (kind IN ('UNATTRIBUTED', 'BALANCE_DELTA', 'FINALITY_BROKEN'))
);
SELECT coffer_shared('scan_findings', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER scan_findings_as_inserted BEFORE UPDATE ON scan_findings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE finality_proofs (
    proof_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain      text NOT NULL,
    height     bigint NOT NULL,
    hash       text NOT NULL,
    parent     text NOT NULL,
    block_time timestamptz NOT NULL,
    providers  integer NOT NULL, -- how many agreed
    verified   text NOT NULL,
    created_at timestamptz NOT NULL,
    fork       integer NOT NULL DEFAULT 0, -- how many breaks the chain had had by then
    -- How many blocks were on the chain from this one up, itself included, when it was proven.
    -- 1 where the chain calls a block final without counting.
    depth      bigint NOT NULL DEFAULT 1,
    CONSTRAINT finality_proofs_height_once UNIQUE (chain, height, fork),
    -- Keys that other tables refer to.
    CONSTRAINT finality_proofs_of_block UNIQUE (chain, proof_id),
    CONSTRAINT finality_proofs_whole UNIQUE (chain, proof_id, height, hash),
    CONSTRAINT finality_proofs_provided CHECK (providers >= 1),
    CONSTRAINT finality_proofs_deep CHECK (depth >= 1)
);
SELECT coffer_shared('finality_proofs', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER finality_proofs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON finality_proofs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What an operator decided about a chain whose finality broke.
CREATE TABLE finality_breaks (
    break_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain           text NOT NULL,
    fork            integer NOT NULL,  -- the fork of the proofs from here on
    ancestor_height bigint NOT NULL,   -- the last block that both forks have
    ancestor_hash   text NOT NULL,
    tip_height      bigint NOT NULL,   -- the last scanned block of the abandoned fork
    tip_hash        text NOT NULL,
    settle_height   bigint NOT NULL,   -- what the new fork does not have up to this block is gone
    reason          text NOT NULL,
    decided_by      text NOT NULL,
    created_at      timestamptz NOT NULL,
    CONSTRAINT finality_breaks_fork_once UNIQUE (chain, fork),
    CONSTRAINT finality_breaks_forward CHECK (
        fork >= 1 AND ancestor_height < tip_height AND tip_height <= settle_height)
);
SELECT coffer_shared('finality_breaks', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER finality_breaks_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON finality_breaks
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The proofs that count. Every question whether a block is final reads this view.
CREATE VIEW finality_live WITH (security_invoker = true) AS
SELECT p.* FROM finality_proofs p
WHERE NOT EXISTS (
    SELECT FROM finality_breaks b WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height);
SELECT coffer_shared('finality_live', 'SELECT', 'SELECT');

-- How many proven blocks are on the chain from a final block up. The live proofs are one
-- chain of blocks, so the highest one says it.
CREATE FUNCTION finality_depth(of_chain text, of_height bigint) RETURNS bigint LANGUAGE sql STABLE
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT coalesce((SELECT p.height - of_height + p.depth FROM finality_live p WHERE p.chain = of_chain ORDER BY p.height DESC LIMIT 1), 0)
$$;

-- A transaction that relies on a proof holds the chain's cursor FOR KEY SHARE, which does not
-- make the scan wait. A break takes the cursor FOR UPDATE and so waits for all of them: a
-- proof that was alive when it was read is alive at the commit.
--
-- The block of the first start has no proof, but the proof of the block above names it.
-- Rule DEP-20.
CREATE FUNCTION finality_breaks_next() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM FROM scan_cursors c WHERE c.chain = NEW.chain FOR UPDATE;
    IF NEW.fork <> (SELECT coalesce(max(b.fork), 0) + 1 FROM finality_breaks b WHERE b.chain = NEW.chain) THEN
        RAISE EXCEPTION 'fork % of % is not the next one', NEW.fork, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_breaks_next';
    END IF;
    IF NOT EXISTS (SELECT FROM finality_live p WHERE p.chain = NEW.chain
                   AND ((p.height, p.hash) = (NEW.ancestor_height, NEW.ancestor_hash)
                        OR (p.height, p.parent) = (NEW.ancestor_height + 1, NEW.ancestor_hash))) THEN
        RAISE EXCEPTION 'block % % of % was not walked', NEW.ancestor_height, NEW.ancestor_hash, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_breaks_ancestor';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER finality_breaks_next BEFORE INSERT ON finality_breaks
    FOR EACH ROW EXECUTE FUNCTION finality_breaks_next();

CREATE FUNCTION finality_proofs_on_fork() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM FROM scan_cursors c WHERE c.chain = NEW.chain FOR KEY SHARE;
    IF NEW.fork <> (SELECT coalesce(max(b.fork), 0) FROM finality_breaks b WHERE b.chain = NEW.chain) THEN
        RAISE EXCEPTION 'block % of % is not proven on the fork that is walked', NEW.height, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_proofs_on_fork';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER finality_proofs_on_fork BEFORE INSERT ON finality_proofs
    FOR EACH ROW EXECUTE FUNCTION finality_proofs_on_fork();

-- Transactions of final blocks that were not traced in time (decision 0071). The sender
-- of a transaction decides how long its trace is, so a block that waited for every trace
-- could stop the chain. The block is taken in, and the trace comes later.
CREATE TABLE scan_untraced (
    proof_id        bigint NOT NULL REFERENCES finality_proofs (proof_id),
    tx_hash         text NOT NULL, -- '' for every transaction of the block
    addresses       text[],        -- addresses of ours that it touched; NULL: unknown
    status          text NOT NULL DEFAULT 'DUE',
    attempts        integer NOT NULL,
    last_error      text NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    done_at         timestamptz,
    PRIMARY KEY (proof_id, tx_hash),
    CONSTRAINT scan_untraced_status_known CHECK (status IN ('DUE', 'DONE')),
    CONSTRAINT scan_untraced_done_at CHECK ((status = 'DONE') = (done_at IS NOT NULL)),
    CONSTRAINT scan_untraced_attempts CHECK (attempts >= 1)
);
CREATE INDEX scan_untraced_due ON scan_untraced (proof_id) WHERE status = 'DUE';
SELECT coffer_shared('scan_untraced', 'SELECT',
    'SELECT, INSERT, UPDATE (addresses, status, attempts, last_error, next_attempt_at, done_at)');

-- A row is about a block that counts, is done once, and stays.
CREATE FUNCTION scan_untraced_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'DUE' OR NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = NEW.proof_id) THEN
            RAISE EXCEPTION 'nothing of proof % is to be traced', NEW.proof_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'scan_untraced_proof_live';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status = 'DONE' OR NEW.attempts < OLD.attempts OR NEW.addresses IS NULL AND OLD.addresses IS NOT NULL
       OR (NEW.proof_id, NEW.tx_hash, NEW.created_at) IS DISTINCT FROM (OLD.proof_id, OLD.tx_hash, OLD.created_at) THEN
        RAISE EXCEPTION 'transaction % of proof % was traced, or is another one', OLD.tx_hash, OLD.proof_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'scan_untraced_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER scan_untraced_keep BEFORE INSERT OR UPDATE ON scan_untraced
    FOR EACH ROW EXECUTE FUNCTION scan_untraced_keep();
CREATE TRIGGER scan_untraced_stay BEFORE DELETE OR TRUNCATE ON scan_untraced
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 11_deposits.sql

-- Deposits: movements on a chain to our addresses.
--
-- A deposit is credited once, on the live proof of its very block, and then posted in the
-- books. Deposits are written a thousand at a time, so what can be checked for all rows of a
-- statement is checked together (decision 0033).

CREATE TABLE deposits (
    deposit_id     text PRIMARY KEY,
    org_id         text NOT NULL,
    wallet_id      text NOT NULL,
    purpose        text NOT NULL,
    customer_id    text COLLATE "C",
    mint_id        integer,                    -- NULL: the token is not in the catalogue
    chain          text NOT NULL,
    contract       text NOT NULL,
    amount         numeric(78,0) NOT NULL,
    address        text NOT NULL,
    from_address   text NOT NULL,
    tx_hash        text NOT NULL,
    kind           text NOT NULL,
    position       text NOT NULL,
    log_index      bigint NOT NULL,
    height         bigint NOT NULL,
    block_hash     text NOT NULL,
    proof_id       bigint,
    status         text NOT NULL,
    chain_status   text NOT NULL,
    reason         text,                       -- why it is UNSUPPORTED
    usd_value      numeric(38,18),
    screening      jsonb NOT NULL DEFAULT '{"status":"PENDING"}',
    is_flagged     boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL,
    confirmed_at   timestamptz,
    credited_at    timestamptz,
    reversed_at    timestamptz,
    taken_back     numeric(78,0),              -- what a reversal took from the credited account; the rest is lost
    claim_count    integer NOT NULL DEFAULT 0, -- how often a part of the loss was taken later
    product        text,                       -- the product that it belongs to, in place of a customer
    screen_after   timestamptz,                -- when it is screened again
    screen_tries   integer NOT NULL DEFAULT 0,
    risk_of_funds  text,
    flag_reason    jsonb,
    flagged_at     timestamptz,
    return_to      text,                       -- the sender when it was flagged; NULL: it has none
    return_risk    text,
    return_mac     bytea,                      -- of the flag's columns, by the server's key; without it nothing is returned
    lost_at        timestamptz,                -- when a rejected or redirected deposit turned out to be gone: the operator's loss
    -- All senders, sorted, where a transaction has several; from_address is '' then. NULL where
    -- there are more than 20, or one of them is unknown (decision 0057).
    senders        text[],
    -- How deep its block must be, by the tier of the amount when the block became final. 0:
    -- finality is enough (decision 0059).
    depth_required bigint NOT NULL DEFAULT 0,
    CONSTRAINT deposits_positive CHECK (amount > 0),
    CONSTRAINT deposits_kind_known CHECK (kind IN ('NATIVE', 'INTERNAL', 'TOKEN')),
    CONSTRAINT deposits_subject CHECK ((purpose = 'CUSTOMER_DEPOSIT') = (customer_id IS NOT NULL)),
    CONSTRAINT deposits_product CHECK (
        (purpose = 'ORGANIZATION_DEPOSIT') = (product IS NOT NULL)
        AND product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')),
    CONSTRAINT deposits_status_known CHECK (status IN
        ('DETECTED', 'CONFIRMING', 'SCREENING', 'CREDITED', 'REVERSED', 'ORPHANED', 'UNSUPPORTED', 'BELOW_MINIMUM',
         'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED')),
    CONSTRAINT deposits_chain_status_known CHECK (chain_status IN ('INCLUDED', 'FINALIZED', 'REORGED')),
    -- A deposit is screened and credited only after its block is proven final. Rule DEP-3.
    CONSTRAINT deposits_final_before_credit CHECK (
        status NOT IN ('SCREENING', 'CREDITED', 'REVERSED', 'BELOW_MINIMUM') OR proof_id IS NOT NULL),
    -- A credited or flagged deposit keeps its proof, even if the proof is dead.
    CONSTRAINT deposits_final_has_proof CHECK (
        (proof_id IS NOT NULL) = (chain_status = 'FINALIZED' OR chain_status = 'REORGED' AND status IN
            ('CREDITED', 'REVERSED',
             'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED'))),
    CONSTRAINT deposits_mint_before_credit CHECK (
        status IN ('UNSUPPORTED', 'DETECTED', 'CONFIRMING', 'ORPHANED') OR mint_id IS NOT NULL),
    CONSTRAINT deposits_credited_at CHECK ((status IN ('CREDITED', 'REVERSED')) = (credited_at IS NOT NULL)),
    CONSTRAINT deposits_reversed_whole CHECK (
        (status = 'REVERSED') = (reversed_at IS NOT NULL) AND (status = 'REVERSED') = (taken_back IS NOT NULL)),
    CONSTRAINT deposits_taken_back_bounded CHECK (taken_back BETWEEN 0 AND amount),
    CONSTRAINT deposits_reversed_is_gone CHECK (status <> 'REVERSED' OR chain_status = 'REORGED'),
    CONSTRAINT deposits_flagged_whole CHECK (
        is_flagged = (flagged_at IS NOT NULL)
        AND is_flagged = (risk_of_funds IS NOT NULL)
        AND is_flagged = (flag_reason IS NOT NULL)
        AND (is_flagged OR status NOT IN
            ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED'))),
    CONSTRAINT deposits_return_risk_known CHECK (
        return_risk IN ('NONE', 'MULTIPLE_INPUTS', 'CONTRACT', 'KNOWN_EXCHANGE', 'SWAP_SOLVER')),
    CONSTRAINT deposits_risk_known CHECK (risk_of_funds IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE', 'UNKNOWN')),
    CONSTRAINT deposits_lost_whole CHECK (
        lost_at IS NULL OR status IN ('REJECTED', 'REDIRECTED') AND chain_status = 'REORGED'),
    CONSTRAINT deposits_senders_several CHECK (senders IS NULL OR
        from_address = '' AND cardinality(senders) BETWEEN 2 AND 20 AND array_ndims(senders) = 1
        AND array_position(senders, NULL) IS NULL AND array_position(senders, '') IS NULL),
    CONSTRAINT deposits_depth_required CHECK (depth_required >= 0)
);
-- A movement on a chain has one row that counts. Rows that the chain took away may exist as
-- well: on another fork the same position of the same transaction can have paid another
-- address, and that must not stop the scan. A credited row that waits for its reversal can
-- come back only if no other row took its place. Rule DEP-4.
CREATE UNIQUE INDEX deposits_movement_once ON deposits (chain, tx_hash, kind, position) WHERE chain_status <> 'REORGED';
CREATE INDEX deposits_of_transaction ON deposits (chain, tx_hash);
CREATE INDEX deposits_to_credit ON deposits (deposit_id) WHERE status = 'SCREENING';
CREATE INDEX deposits_not_final ON deposits (chain, height) WHERE status IN ('DETECTED', 'CONFIRMING');
CREATE INDEX deposits_reorged ON deposits (chain, deposit_id)
    WHERE status = 'CREDITED' AND chain_status = 'REORGED';
CREATE INDEX deposits_flags_reorged ON deposits (chain, deposit_id) WHERE is_flagged AND chain_status = 'REORGED';
CREATE INDEX deposits_proven_above ON deposits (chain, height) WHERE proof_id IS NOT NULL;
CREATE INDEX deposits_lost ON deposits (org_id, customer_id) WHERE status = 'REVERSED';
-- For lists: every filter that leaves few rows of many has an index.
CREATE INDEX deposits_listed ON deposits (org_id, created_at, deposit_id);
CREATE INDEX deposits_of_customer ON deposits (org_id, customer_id, created_at, deposit_id);
CREATE INDEX deposits_of_product ON deposits (org_id, product, created_at, deposit_id) WHERE product IS NOT NULL;
CREATE INDEX deposits_of_status ON deposits (org_id, status, created_at, deposit_id);
CREATE INDEX deposits_of_mint ON deposits (org_id, mint_id, created_at, deposit_id);
CREATE INDEX deposits_of_chain ON deposits (org_id, chain, created_at, deposit_id);
CREATE INDEX deposits_of_address ON deposits (org_id, address, created_at, deposit_id);
CREATE INDEX deposits_flagged ON deposits (org_id, created_at, deposit_id) WHERE is_flagged;
CREATE INDEX deposits_of_product_pending ON deposits (org_id)
    WHERE product IS NOT NULL AND status IN ('DETECTED', 'CONFIRMING', 'SCREENING');
SELECT coffer_tenant('deposits', 'SELECT', 'SELECT, INSERT, UPDATE');

-- The wallet, the customer, the mint with its contract and the proof of the very block, in
-- place of foreign keys. Rows that are referred to never leave, so the check at the write is
-- enough. Of an update it takes the rows that changed by EXCEPT: a join of the rows before
-- and after, planned for one row, compares every row with every other.
CREATE FUNCTION deposits_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT n.deposit_id INTO lost FROM written n
        WHERE (SELECT w.org_id = n.org_id FROM wallets w WHERE w.wallet_id = n.wallet_id) IS NOT TRUE
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % reached no wallet of its organization', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_wallet';
        END IF;
        SELECT n.deposit_id INTO lost FROM written n
        WHERE n.customer_id IS NOT NULL
            AND (SELECT c.created_at FROM customers c WHERE c.org_id = n.org_id AND c.customer_id = n.customer_id) IS NULL
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % is for no customer of its organization', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_customer';
        END IF;
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id FROM written WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id
            FROM (SELECT deposit_id, mint_id, chain, contract FROM written EXCEPT SELECT deposit_id, mint_id, chain, contract FROM was) moved
            WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % is of another contract than its mint', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_mint';
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id FROM written WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id
            FROM (SELECT deposit_id, chain, proof_id, height, block_hash FROM written
                EXCEPT SELECT deposit_id, chain, proof_id, height, block_hash FROM was) moved
            WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % leans on the proof of another block', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_proof';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER deposits_refer AFTER INSERT ON deposits
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_refer();
CREATE TRIGGER deposits_refer_moved AFTER UPDATE ON deposits
    REFERENCING OLD TABLE AS was NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_refer();

-- A deposit that counts relies on a live proof. The cursors are locked before the proofs are
-- read: a break that committed meanwhile is seen, and a later one waits. Rule DEP-20.
CREATE FUNCTION deposits_proof_live() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    chains  text[];
    proofs  bigint[];
    heights bigint[];
    ids     text[];
    dead    text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(n.chain ORDER BY n.chain), array_agg(n.proof_id ORDER BY n.chain), array_agg(n.height ORDER BY n.chain), array_agg(n.id ORDER BY n.chain)
        INTO chains, proofs, heights, ids
        FROM (SELECT chain, proof_id, max(height) AS height, min(deposit_id) AS id FROM written
            WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL GROUP BY 1, 2) n;
    ELSE
        SELECT array_agg(n.chain ORDER BY n.chain), array_agg(n.proof_id ORDER BY n.chain), array_agg(n.height ORDER BY n.chain), array_agg(n.id ORDER BY n.chain)
        INTO chains, proofs, heights, ids
        FROM (SELECT chain, proof_id, max(height) AS height, min(deposit_id) AS id
            FROM (SELECT deposit_id, chain, height, proof_id, status FROM written WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL
                EXCEPT
                SELECT deposit_id, chain, height, proof_id, status FROM was WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL) moved
            GROUP BY 1, 2) n;
    END IF;
    IF chains IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM scan_cursors c WHERE c.chain = ANY (chains) ORDER BY c.chain FOR KEY SHARE;
    SELECT min(n.id) INTO dead FROM unnest(chains, proofs, heights, ids) AS n (chain, proof_id, height, id)
    WHERE NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = n.proof_id)
        OR EXISTS (SELECT FROM scan_cursors c WHERE c.chain = n.chain AND n.height > c.forked_above);
    IF dead IS NOT NULL THEN
        RAISE EXCEPTION 'the proof of deposit % is dead', dead
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_proof_live';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER deposits_proof_live AFTER INSERT ON deposits
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_proof_live();
CREATE TRIGGER deposits_proof_live_moved AFTER UPDATE ON deposits
    REFERENCING OLD TABLE AS was NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_proof_live();

-- A deposit stays the movement that it is. A final one changes only if its proof died. A
-- credited deposit that left the chain is CREDITED and REORGED until the new fork shows it
-- again, or is scanned far enough to show that it is gone: then it is REVERSED.
CREATE FUNCTION deposits_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    gone boolean; -- the proof of the deposit is dead
BEGIN
    IF (NEW.deposit_id, NEW.org_id, NEW.wallet_id, NEW.customer_id, NEW.chain, NEW.contract, NEW.address, NEW.tx_hash, NEW.kind, NEW.position)
       IS DISTINCT FROM
       (OLD.deposit_id, OLD.org_id, OLD.wallet_id, OLD.customer_id, OLD.chain, OLD.contract, OLD.address, OLD.tx_hash, OLD.kind, OLD.position) THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    -- Looked up only where it matters: not when a deposit is credited.
    gone := false;
    IF OLD.proof_id IS NOT NULL AND ((NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)
       OR OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status) THEN
        gone := NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id);
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.amount <> OLD.amount
       OR NOT gone AND (NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    IF OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status
       AND NOT (gone AND (OLD.status, NEW.status) IN (('CREDITED', 'REVERSED'), ('BELOW_MINIMUM', 'ORPHANED'))) THEN
        RAISE EXCEPTION 'deposit % is %', OLD.deposit_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.credited_at IS NOT NULL AND NEW.credited_at <> OLD.credited_at THEN
        RAISE EXCEPTION 'deposit % was credited once', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.status = 'REVERSED' AND ((NEW.proof_id, NEW.height, NEW.block_hash, NEW.reversed_at) IS DISTINCT FROM
            (OLD.proof_id, OLD.height, OLD.block_hash, OLD.reversed_at)
       OR NEW.taken_back < OLD.taken_back OR NEW.claim_count < OLD.claim_count) THEN
        RAISE EXCEPTION 'deposit % was reversed', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    -- Only after the new fork was scanned so far that it would have the deposit.
    IF NEW.status = 'REVERSED' AND OLD.status <> 'REVERSED' AND EXISTS (
        SELECT FROM finality_breaks b
        JOIN finality_proofs p ON p.proof_id = OLD.proof_id AND b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height
        LEFT JOIN scan_cursors c ON c.chain = b.chain AND c.height >= b.settle_height AND c.forked_above IS NULL
        WHERE c.chain IS NULL) THEN
        RAISE EXCEPTION 'deposit % may still be found again', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_reversed_in_time';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_keep BEFORE UPDATE ON deposits FOR EACH ROW EXECUTE FUNCTION deposits_keep();

-- The owner of a deposit never changes, and the mint and purpose of a final one do not.
CREATE FUNCTION deposits_final_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.product IS DISTINCT FROM OLD.product THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.mint_id, NEW.purpose) IS DISTINCT FROM (OLD.mint_id, OLD.purpose) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_final_keep BEFORE UPDATE ON deposits FOR EACH ROW EXECUTE FUNCTION deposits_final_keep();

-- A deposit is credited only when its block is as deep as its amount requires. Rule DEP-43.
CREATE FUNCTION deposits_deep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.proof_id IS NOT NULL AND NEW.proof_id IS NOT NULL AND NEW.depth_required < OLD.depth_required THEN
        RAISE EXCEPTION 'deposit % is final and waits for % blocks', OLD.deposit_id, OLD.depth_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_deep';
    END IF;
    IF NEW.status = 'CREDITED' AND (TG_OP = 'INSERT' OR OLD.status <> 'CREDITED') AND NEW.depth_required > 1
       AND finality_depth(NEW.chain, NEW.height) < NEW.depth_required THEN
        RAISE EXCEPTION 'deposit % is not % blocks deep', NEW.deposit_id, NEW.depth_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_deep';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_deep_first BEFORE INSERT ON deposits FOR EACH ROW WHEN (NEW.depth_required > 1)
    EXECUTE FUNCTION deposits_deep();
CREATE TRIGGER deposits_deep BEFORE UPDATE ON deposits
    FOR EACH ROW WHEN (NEW.depth_required > 1 OR OLD.depth_required > 1)
    EXECUTE FUNCTION deposits_deep();

-- A deposit that counts was posted.
CREATE FUNCTION deposits_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'DEPOSIT' AND cause_id = NEW.deposit_id AND leg = 0) THEN
        RAISE EXCEPTION 'deposit % is credited and was not posted', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_posted';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposits_posted AFTER INSERT OR UPDATE OF status ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'CREDITED') EXECUTE FUNCTION deposits_follow();
CREATE TRIGGER deposits_as_inserted BEFORE UPDATE OF created_at ON deposits
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a deposit's proof says of it changes with the proof. What was found out about its sender
-- and its value is written when the deposit is decided, and not after that.
CREATE TRIGGER deposits_written_once BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (NEW.purpose <> OLD.purpose
        OR OLD.proof_id IS NOT NULL AND NEW.proof_id = OLD.proof_id
            AND (NEW.from_address, NEW.senders, NEW.log_index, NEW.confirmed_at)
                IS DISTINCT FROM (OLD.from_address, OLD.senders, OLD.log_index, OLD.confirmed_at)
        OR NEW.status = OLD.status AND (NEW.credited_at, NEW.reversed_at) IS DISTINCT FROM (OLD.credited_at, OLD.reversed_at)
        OR OLD.status <> 'REVERSED' AND NEW.claim_count <> OLD.claim_count
        OR OLD.status NOT IN ('DETECTED', 'CONFIRMING', 'ORPHANED', 'SCREENING')
            AND (NEW.usd_value, NEW.screening, NEW.screen_after, NEW.screen_tries, NEW.reason, NEW.depth_required,
                NEW.risk_of_funds, NEW.flag_reason, NEW.flagged_at, NEW.return_to, NEW.return_risk, NEW.return_mac)
                IS DISTINCT FROM (OLD.usd_value, OLD.screening, OLD.screen_after, OLD.screen_tries, OLD.reason, OLD.depth_required,
                    OLD.risk_of_funds, OLD.flag_reason, OLD.flagged_at, OLD.return_to, OLD.return_risk, OLD.return_mac))
    EXECUTE FUNCTION refuse_row_change();

-- Counts of tokens that are not in the catalogue (decision 0078). A contract can claim
-- any number of transfers to our addresses, so only a thousand are recorded for a wallet and
-- chain. The rest is counted here. Transfers before this table existed are not counted.
-- Rule DEP-52.
CREATE TABLE unknown_token_counts (
    wallet_id     text NOT NULL REFERENCES wallets,
    chain         text NOT NULL,
    recorded      integer NOT NULL,          -- deposits of tokens that are not in the catalogue
    dropped       bigint NOT NULL DEFAULT 0, -- transfers of such tokens that were not recorded
    dropped_first bigint,                    -- the first block that had one of these
    dropped_last  bigint,                    -- the last one
    dropped_at    timestamptz,               -- when the last one was taken in
    PRIMARY KEY (wallet_id, chain),
    CONSTRAINT unknown_token_counts_recorded CHECK (recorded BETWEEN 0 AND 1000),
    CONSTRAINT unknown_token_counts_dropped CHECK (dropped >= 0
        AND (dropped > 0) = (dropped_first IS NOT NULL)
        AND (dropped > 0) = (dropped_last IS NOT NULL)
        AND (dropped > 0) = (dropped_at IS NOT NULL)
        AND (dropped_first IS NULL OR dropped_first <= dropped_last))
);
CREATE INDEX unknown_token_counts_dropped_at ON unknown_token_counts (dropped_at) WHERE dropped_at IS NOT NULL;
SELECT coffer_shared('unknown_token_counts', '',
    'SELECT, INSERT, UPDATE (recorded, dropped, dropped_first, dropped_last, dropped_at)');

-- Both counts only grow, and a row stays: a wallet gets its thousand once.
CREATE FUNCTION unknown_token_counts_grow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.recorded < OLD.recorded OR NEW.dropped < OLD.dropped THEN
        RAISE EXCEPTION 'the counts of unknown tokens of wallet % on % only grow', OLD.wallet_id, OLD.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'unknown_token_counts_grow';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER unknown_token_counts_grow BEFORE UPDATE ON unknown_token_counts
    FOR EACH ROW EXECUTE FUNCTION unknown_token_counts_grow();
CREATE TRIGGER unknown_token_counts_stay BEFORE DELETE OR TRUNCATE ON unknown_token_counts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER unknown_token_counts_as_inserted BEFORE UPDATE OF wallet_id, chain ON unknown_token_counts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Memos that payers on Solana wrote into their transactions, such as an order number
-- (decision 0084). A memo is read after its deposit was recorded and decides nothing, so
-- it is no column of deposits: a transaction that made a deposit has a row here, and the
-- service asks providers until an answer is proven by the transaction's id. Rule DEP-54.
CREATE TABLE transaction_memos (
    chain           text NOT NULL,
    tx_hash         text NOT NULL,
    status          text NOT NULL DEFAULT 'DUE',
    memo            text, -- what the payer wrote, cleaned; NULL: nothing, or not read yet
    attempts        integer NOT NULL DEFAULT 0,
    last_error      text NOT NULL DEFAULT '',
    next_attempt_at timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (chain, tx_hash),
    CONSTRAINT transaction_memos_status_known CHECK (status IN ('DUE', 'READ', 'ABANDONED')),
    CONSTRAINT transaction_memos_read CHECK (
        memo IS NULL OR status = 'READ' AND octet_length(memo) BETWEEN 1 AND 4096),
    CONSTRAINT transaction_memos_ended_at CHECK ((status = 'DUE') = (ended_at IS NULL)),
    CONSTRAINT transaction_memos_attempts CHECK (attempts >= 0 AND (status = 'DUE' OR attempts > 0))
);
CREATE INDEX transaction_memos_due ON transaction_memos (chain, next_attempt_at) WHERE status = 'DUE';
CREATE INDEX transaction_memos_abandoned ON transaction_memos (ended_at) WHERE status = 'ABANDONED';
SELECT coffer_shared('transaction_memos', 'SELECT',
    'SELECT, INSERT, UPDATE (status, memo, attempts, last_error, next_attempt_at, ended_at)');

-- A memo is read once and never changes. A row stays.
CREATE FUNCTION transaction_memos_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'DUE' OR NEW.attempts <> 0 THEN
            RAISE EXCEPTION 'the memo of transaction % is not read yet', NEW.tx_hash
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_memos_due_first';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status <> 'DUE' OR NEW.attempts <= OLD.attempts
       OR (NEW.chain, NEW.tx_hash, NEW.created_at) IS DISTINCT FROM (OLD.chain, OLD.tx_hash, OLD.created_at) THEN
        RAISE EXCEPTION 'the memo of transaction % was read or given up, or the row is another one', OLD.tx_hash
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_memos_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER transaction_memos_keep BEFORE INSERT OR UPDATE ON transaction_memos
    FOR EACH ROW EXECUTE FUNCTION transaction_memos_keep();
CREATE TRIGGER transaction_memos_stay BEFORE DELETE OR TRUNCATE ON transaction_memos
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 12_flagged_deposits.sql

-- Decisions about deposits, and the resolutions of flagged ones (decision 0040).
--
-- A final deposit is decided before it counts. A flagged deposit stays on its address until a
-- person approves it, sends it back or sends it elsewhere. Exactly one of those decisions is
-- carried out.

-- The inputs of every decision, so that it can be made again.
CREATE TABLE deposit_decisions (
    decision_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id      text NOT NULL REFERENCES organizations,
    deposit_id  text NOT NULL REFERENCES deposits,
    at          timestamptz NOT NULL,
    outcome     text NOT NULL,
    record      jsonb NOT NULL, -- a risk.DepositRecord
    CONSTRAINT deposit_decisions_outcome_known CHECK (outcome IN ('CREDIT', 'WAIT', 'FLAG'))
);
CREATE INDEX deposit_decisions_of_deposit ON deposit_decisions (deposit_id, decision_id);
SELECT coffer_tenant('deposit_decisions', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER deposit_decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON deposit_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What was decided about a flagged deposit, and how it went. An attempt that failed before
-- anything could reach the chain makes room for the next one. Any other attempt is the only
-- one that the deposit ever has.
CREATE TABLE deposit_resolutions (
    resolution_id   text PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organizations,
    deposit_id      text NOT NULL REFERENCES deposits,
    decision        text NOT NULL,
    status          text NOT NULL,
    reason          text,          -- of a redirect
    reference       text,          -- of a redirect
    note            text,
    decided_at      timestamptz NOT NULL,
    decided_by_kind text NOT NULL,
    decided_by      text NOT NULL,
    decided_by_name text,
    chain           text NOT NULL,
    wallet_id       text NOT NULL,
    mint_id         integer NOT NULL REFERENCES mints,
    to_address      text,
    sent            numeric(78,0), -- what leaves: the deposit, less the fee of a native coin
    fee_kept        numeric(78,0) NOT NULL DEFAULT 0,
    tx_hash         text,
    network_fee     numeric(78,0), -- what the transfer cost, in native units
    ended_at        timestamptz,
    failure         text,
    failure_message text,
    -- The key that the order of a return refers to.
    CONSTRAINT deposit_resolutions_of_terms UNIQUE (resolution_id, org_id, chain, wallet_id, mint_id, sent, to_address),
    CONSTRAINT deposit_resolutions_decision_known CHECK (decision IN ('APPROVED', 'REJECTED', 'REDIRECTED')),
    CONSTRAINT deposit_resolutions_status_known CHECK (status IN ('OPEN', 'STUCK', 'DONE', 'FAILED')),
    CONSTRAINT deposit_resolutions_redirect_reasoned CHECK (
        decision <> 'REDIRECTED'
        OR reason IN ('COMPLIANCE_HOLD', 'LAW_ENFORCEMENT') AND reference <> '' AND decided_by_kind = 'OPERATOR'),
    CONSTRAINT deposit_resolutions_sent CHECK (
        CASE decision
            WHEN 'APPROVED' THEN sent IS NULL AND to_address IS NULL AND status = 'DONE'
            ELSE status = 'FAILED' AND ended_at IS NOT NULL OR sent > 0 AND fee_kept >= 0 AND to_address IS NOT NULL
        END),
    CONSTRAINT deposit_resolutions_ended CHECK ((status IN ('DONE', 'FAILED')) = (ended_at IS NOT NULL)),
    CONSTRAINT deposit_resolutions_failed CHECK ((status = 'FAILED') = (failure IS NOT NULL))
);
-- Rule DEP-30.
CREATE UNIQUE INDEX deposit_resolutions_one ON deposit_resolutions (deposit_id) WHERE status <> 'FAILED';
CREATE INDEX deposit_resolutions_of_deposit ON deposit_resolutions (deposit_id, decided_at, resolution_id);
SELECT coffer_tenant('deposit_resolutions', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION deposit_resolutions_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.resolution_id, NEW.org_id, NEW.deposit_id, NEW.decision, NEW.reason, NEW.reference, NEW.note, NEW.decided_at, NEW.decided_by_kind, NEW.decided_by,
            NEW.chain, NEW.wallet_id, NEW.mint_id, NEW.to_address, NEW.sent, NEW.fee_kept) IS DISTINCT FROM
       (OLD.resolution_id, OLD.org_id, OLD.deposit_id, OLD.decision, OLD.reason, OLD.reference, OLD.note, OLD.decided_at, OLD.decided_by_kind, OLD.decided_by,
            OLD.chain, OLD.wallet_id, OLD.mint_id, OLD.to_address, OLD.sent, OLD.fee_kept)
       OR OLD.status IN ('DONE', 'FAILED') OR (OLD.status, NEW.status) NOT IN (('OPEN', 'OPEN'), ('OPEN', 'STUCK'), ('OPEN', 'DONE'), ('OPEN', 'FAILED'),
            ('STUCK', 'STUCK'), ('STUCK', 'DONE'), ('STUCK', 'FAILED')) THEN
        RAISE EXCEPTION 'resolution % is what it was decided to be', OLD.resolution_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposit_resolutions_keep BEFORE UPDATE ON deposit_resolutions
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_keep();
CREATE TRIGGER deposit_resolutions_stay BEFORE DELETE OR TRUNCATE ON deposit_resolutions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whether a resolution is where its order is. NULL: it has no order.
CREATE FUNCTION resolution_in_step(decision text, status text, order_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE status
    WHEN 'OPEN' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')
    WHEN 'STUCK' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK', 'FAILED')
    WHEN 'DONE' THEN decision = 'APPROVED' AND order_status IS NULL OR order_status = 'PAID'
    WHEN 'FAILED' THEN coalesce(order_status, 'FAILED') IN ('FAILED', 'REFUSED', 'WITHDRAWN')
END;

-- A resolution, its deposit and its order say the same: one resolution, carried out as it
-- was decided. What the order pays is in its key to the resolution.
CREATE FUNCTION deposit_resolutions_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    r  record;
    d  record;
    o  record;
BEGIN
    SELECT * INTO r FROM deposit_resolutions WHERE resolution_id = NEW.resolution_id;
    SELECT org_id, status, chain, wallet_id, mint_id, amount, return_to INTO d FROM deposits WHERE deposit_id = r.deposit_id;
    SELECT status INTO o FROM dispatch_orders WHERE order_id = r.resolution_id AND purpose = 'RETURN';
    IF (d.org_id, d.chain, d.wallet_id, d.mint_id) IS DISTINCT FROM (r.org_id, r.chain, r.wallet_id, r.mint_id)
        OR r.status <> 'FAILED' AND (CASE r.decision
            WHEN 'APPROVED' THEN d.status NOT IN ('CREDITED', 'REVERSED')
            WHEN 'REJECTED' THEN r.to_address IS DISTINCT FROM d.return_to OR r.sent + r.fee_kept <> d.amount
                OR d.status <> CASE r.status WHEN 'DONE' THEN 'REJECTED' WHEN 'STUCK' THEN 'RESOLUTION_STUCK' ELSE 'REJECTING' END
            ELSE r.sent + r.fee_kept <> d.amount
                OR d.status <> CASE r.status WHEN 'DONE' THEN 'REDIRECTED' WHEN 'STUCK' THEN 'RESOLUTION_STUCK' ELSE 'REDIRECTING' END
            END)
        OR resolution_in_step(r.decision, r.status, o.status) IS NOT TRUE THEN
        RAISE EXCEPTION 'resolution % of deposit % says something else than the deposit or its order', r.resolution_id, r.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_as_decided';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposit_resolutions_as_decided AFTER INSERT OR UPDATE ON deposit_resolutions
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_follow();

-- A flagged deposit is decided anew only after the signer voided the refused or recalled
-- order of the decision before (decision 0075). Else the deposit could be credited and
-- sent away. A resolution that a restore writes again was decided already. Rule DEP-50.
CREATE FUNCTION deposit_resolutions_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.decided_by_kind, NEW.decided_by) IS DISTINCT FROM ('OPERATOR', 'restore') AND EXISTS (
        SELECT FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
        WHERE r.deposit_id = NEW.deposit_id AND r.resolution_id <> NEW.resolution_id AND r.status = 'FAILED' AND o.status IN ('REFUSED', 'WITHDRAWN')
            AND NOT EXISTS (SELECT FROM dispatch_voids v WHERE v.order_id = o.order_id AND v.journal_seq IS NOT NULL)) THEN
        RAISE EXCEPTION 'deposit % was to be sent away once, and the signer has not journaled that this is void', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_void_first';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposit_resolutions_void_first BEFORE INSERT ON deposit_resolutions
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_void_first();
CREATE TRIGGER deposit_resolutions_written_once BEFORE UPDATE ON deposit_resolutions FOR EACH ROW
    WHEN (NEW.decided_by_name IS DISTINCT FROM OLD.decided_by_name)
    EXECUTE FUNCTION refuse_row_change();

-- The flag of a deposit, its senders and the MAC stay in the row. The deposit leaves its
-- state by a resolution, or because a break of finality took it: then it is ORPHANED, without
-- a resolution. There is no flag without a MAC. Rule DEP-35.
CREATE FUNCTION deposits_flag_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.is_flagged AND (NEW.is_flagged, NEW.risk_of_funds, NEW.flag_reason, NEW.flagged_at, NEW.return_to, NEW.return_risk, NEW.from_address, NEW.senders, NEW.return_mac)
        IS DISTINCT FROM (OLD.is_flagged, OLD.risk_of_funds, OLD.flag_reason, OLD.flagged_at, OLD.return_to, OLD.return_risk, OLD.from_address, OLD.senders, OLD.return_mac)
        OR NOT OLD.is_flagged AND NEW.is_flagged AND ((OLD.status, NEW.status) <> ('SCREENING', 'FLAGGED') OR NEW.return_mac IS NULL)
        OR OLD.status IN ('REJECTED', 'REDIRECTED') AND NEW.status <> OLD.status
        OR OLD.status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK') AND NEW.status <> OLD.status
            AND (OLD.status, NEW.status) NOT IN (
                ('FLAGGED', 'ORPHANED'), ('RESOLUTION_STUCK', 'ORPHANED'), ('FLAGGED', 'CREDITED'), ('FLAGGED', 'REJECTING'), ('FLAGGED', 'REDIRECTING'),
                ('REJECTING', 'FLAGGED'), ('REJECTING', 'RESOLUTION_STUCK'), ('REJECTING', 'REJECTED'),
                ('REDIRECTING', 'FLAGGED'), ('REDIRECTING', 'RESOLUTION_STUCK'), ('REDIRECTING', 'REDIRECTED'),
                ('RESOLUTION_STUCK', 'REJECTING'), ('RESOLUTION_STUCK', 'REDIRECTING'), ('RESOLUTION_STUCK', 'REJECTED'), ('RESOLUTION_STUCK', 'REDIRECTED')) THEN
        RAISE EXCEPTION 'deposit % is flagged', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_flag_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_flag_keep BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.is_flagged OR NEW.is_flagged) EXECUTE FUNCTION deposits_flag_keep();

-- A flag is lifted, and a return begun, only with the row that says who decided it, and with
-- the postings of the hold.
CREATE FUNCTION deposits_resolved() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    d    record;
    held boolean;
    let  boolean;
    by_  record;
BEGIN
    SELECT deposit_id, status, is_flagged INTO d FROM deposits WHERE deposit_id = NEW.deposit_id;
    SELECT decision, status INTO by_ FROM deposit_resolutions WHERE deposit_id = d.deposit_id AND status <> 'FAILED';
    held := EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_HOLD' AND cause_id = d.deposit_id AND leg = 0);
    let := EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_RELEASE' AND cause_id = d.deposit_id AND leg = 0);
    IF NOT held
        OR let <> (d.status IN ('ORPHANED', 'CREDITED', 'REVERSED', 'REJECTED', 'REDIRECTED'))
        OR (CASE d.status WHEN 'ORPHANED' THEN by_.decision IS NOT NULL WHEN 'FLAGGED' THEN by_.decision IS NOT NULL
            WHEN 'CREDITED' THEN by_.decision IS DISTINCT FROM 'APPROVED'
            WHEN 'REVERSED' THEN by_.decision IS DISTINCT FROM 'APPROVED'
            WHEN 'REJECTING' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REJECTED', 'OPEN')
            WHEN 'REJECTED' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REJECTED', 'DONE')
            WHEN 'REDIRECTING' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REDIRECTED', 'OPEN')
            WHEN 'REDIRECTED' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REDIRECTED', 'DONE')
            ELSE by_.status IS DISTINCT FROM 'STUCK' END) THEN
        RAISE EXCEPTION 'deposit % is %, and its resolution or the books say something else', d.deposit_id, d.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_resolved';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposits_resolved AFTER UPDATE OF status ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.is_flagged) EXECUTE FUNCTION deposits_resolved();

-- A flagged deposit is decided only while its block is final. Else it would be credited or
-- sent away as money that no chain has.
CREATE FUNCTION deposits_refuse_reorged() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'deposit % is on no final block at the moment', OLD.deposit_id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_decided_when_final';
END $$;
CREATE TRIGGER deposits_decided_when_final BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.status IN ('FLAGGED', 'RESOLUTION_STUCK') AND NEW.status IN ('CREDITED', 'REJECTING', 'REDIRECTING')
        AND NEW.chain_status <> 'FINALIZED')
    EXECUTE FUNCTION deposits_refuse_reorged();

-- A flagged deposit is given up once, and only after the new fork was scanned so far that it
-- would have been found.
CREATE FUNCTION deposits_gone_in_time() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.status = 'ORPHANED' AND NEW.status <> OLD.status OR OLD.lost_at IS NOT NULL AND (NEW.lost_at, NEW.proof_id, NEW.height, NEW.block_hash, NEW.chain_status)
        IS DISTINCT FROM (OLD.lost_at, OLD.proof_id, OLD.height, OLD.block_hash, OLD.chain_status) THEN
        RAISE EXCEPTION 'deposit % is gone', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.lost_at IS NULL AND (NEW.lost_at IS NOT NULL OR NEW.status = 'ORPHANED' AND OLD.status <> 'ORPHANED')
        AND (OLD.chain_status <> 'REORGED' OR EXISTS (
            SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id) OR EXISTS (
            SELECT FROM finality_breaks b
            JOIN finality_proofs p ON p.proof_id = OLD.proof_id AND b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height
            LEFT JOIN scan_cursors c ON c.chain = b.chain AND c.height >= b.settle_height AND c.forked_above IS NULL
            WHERE c.chain IS NULL)) THEN
        RAISE EXCEPTION 'deposit % may still be found again', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_gone_in_time';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_gone_in_time BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.is_flagged AND (OLD.lost_at IS NOT NULL OR NEW.lost_at IS NOT NULL
        OR NEW.status = 'ORPHANED' OR OLD.status = 'ORPHANED'))
    EXECUTE FUNCTION deposits_gone_in_time();

---- 13_screening.sql

-- Screening: the answers of risk providers, lists of sanctions, and senders that are asked
-- about again (decisions 0034, 0044).

-- What a provider answered, sealed whole: a decision can be checked years later, an answer can
-- be used again for a while, and a writer of the database cannot make one up.
CREATE TABLE risk_answers (
    answer_id text COLLATE "C" PRIMARY KEY,
    provider  text NOT NULL,
    chain     text NOT NULL,
    address   text COLLATE "C" NOT NULL, -- in the form in which addresses are compared
    given_at  timestamptz NOT NULL,
    sealed    bytea NOT NULL,            -- the verdict and the provider's own words
    kept_at   timestamptz,               -- when it was stored; NULL: unknown, and the answer stays
    CONSTRAINT risk_answers_named CHECK (provider <> '' AND chain <> '' AND address <> '' AND length(address) <= 200),
    CONSTRAINT risk_answers_bounded CHECK (length(sealed) BETWEEN 1 AND 1048576)
);
CREATE INDEX risk_answers_latest ON risk_answers (provider, chain, address, given_at);
SELECT coffer_shared('risk_answers', '', 'SELECT, INSERT, DELETE');

-- One row for each time that an answer led to a decision or a report. Triggers write the rows,
-- so no path of the service can forget to. There is no unique key: two uses of one answer at
-- the same moment do not wait for each other.
CREATE TABLE risk_answer_uses (
    answer_id text COLLATE "C" NOT NULL,
    used_by   text NOT NULL,
    CONSTRAINT risk_answer_uses_by_known CHECK (used_by IN ('DEPOSIT', 'WITHDRAWAL', 'SENDER'))
);
CREATE INDEX risk_answer_uses_of ON risk_answer_uses (answer_id);
SELECT coffer_shared('risk_answer_uses', '', 'SELECT');
CREATE TRIGGER risk_answer_uses_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON risk_answer_uses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION deposit_decisions_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'DEPOSIT' FROM added, jsonb_path_query(added.record, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE TRIGGER deposit_decisions_use AFTER INSERT ON deposit_decisions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION deposit_decisions_use();

-- An answer that a decision refers to stays. Others leave after eight days, which is longer
-- than any answer is used again. Rule RISK-13.
CREATE FUNCTION risk_answers_stay() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.kept_at IS NULL OR OLD.kept_at > now() - interval '8 days'
        OR EXISTS (SELECT FROM risk_answer_uses WHERE answer_id = OLD.answer_id) THEN
        RAISE EXCEPTION 'answer % stays: something may have been decided by it', OLD.answer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'risk_answers_used_stay';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER risk_answers_used_stay BEFORE DELETE ON risk_answers FOR EACH ROW EXECUTE FUNCTION risk_answers_stay();

-- Up to which answer the service looked for answers that may leave. The ids are in the order
-- of time.
CREATE TABLE risk_answers_pruned (
    one       boolean PRIMARY KEY DEFAULT true,
    answer_id text COLLATE "C" NOT NULL,
    CONSTRAINT risk_answers_pruned_single CHECK (one)
);
INSERT INTO risk_answers_pruned (answer_id) VALUES ('');
SELECT coffer_shared('risk_answers_pruned', '', 'SELECT, UPDATE');

-- An imported list of sanctions. The entries are sealed values and not rows, so that no
-- single entry can be removed.
CREATE TABLE sanctions_lists (
    list_id      text COLLATE "C" PRIMARY KEY,
    source       text NOT NULL,
    published_at timestamptz NOT NULL, -- by its publisher
    imported_at  timestamptz NOT NULL,
    addresses    int NOT NULL,
    digest       bytea NOT NULL,       -- SHA-256 of the file
    sealed       bytea[] NOT NULL,     -- the whole list, in parts: what counts
    CONSTRAINT sanctions_lists_source_known CHECK (source IN ('OFAC_SDN')),
    CONSTRAINT sanctions_lists_not_empty CHECK (addresses > 0 AND cardinality(sealed) > 0),
    CONSTRAINT sanctions_lists_digest_sha256 CHECK (length(digest) = 32)
);
CREATE INDEX sanctions_lists_newest ON sanctions_lists (source, published_at, imported_at);
SELECT coffer_shared('sanctions_lists', '', 'SELECT, INSERT');

-- The verdicts of networks without money. A developer changes them to see what screening does.
CREATE TABLE local_risk (
    address_key text COLLATE "C" PRIMARY KEY, -- in the form in which addresses are compared
    address     text NOT NULL,                -- as it was entered
    outage      boolean NOT NULL,
    severity    text,
    score       int,
    entity      text,
    categories  text[] NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT local_risk_addressed CHECK (address_key <> '' AND length(address) <= 200),
    CONSTRAINT local_risk_severity_known CHECK (severity IN ('UNKNOWN', 'NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE')),
    CONSTRAINT local_risk_score_of_100 CHECK (score BETWEEN 0 AND 100),
    CONSTRAINT local_risk_says_one_thing CHECK (
        outage = (severity IS NULL)
        AND (NOT outage OR score IS NULL AND entity IS NULL AND cardinality(categories) = 0)),
    CONSTRAINT local_risk_bounded CHECK (length(coalesce(entity, '')) <= 200 AND cardinality(categories) <= 20)
);
CREATE INDEX local_risk_listed ON local_risk (created_at, address_key);
SELECT coffer_shared('local_risk', '', 'SELECT, INSERT, UPDATE, DELETE');
CREATE TRIGGER local_risk_as_inserted BEFORE UPDATE OF address_key, created_at ON local_risk
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a provider says of a sender after the deposits were credited or flagged. A verdict
-- decides nothing: no row refers to it, and it never changes.
CREATE TABLE sender_verdicts (
    verdict_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    chain      text NOT NULL,
    address    text NOT NULL,        -- the sender, as its deposits name it
    at         timestamptz NOT NULL,
    severity   text NOT NULL,
    score      integer,
    provider   text NOT NULL,
    entity     text,
    categories text[] NOT NULL,
    reference  text,
    given_at   timestamptz NOT NULL, -- by the provider
    threshold  text,                 -- of the organization at that time; NULL: none
    above      boolean NOT NULL,
    credited   boolean NOT NULL,     -- screening had let a deposit of this sender pass
    alert      boolean NOT NULL,     -- the verdict was new
    record     jsonb NOT NULL,       -- a risk.Answer
    CONSTRAINT sender_verdicts_named CHECK (chain <> '' AND address <> '' AND provider <> ''),
    CONSTRAINT sender_verdicts_severity_known CHECK (
        severity IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE', 'UNKNOWN')),
    CONSTRAINT sender_verdicts_score_of_100 CHECK (score BETWEEN 0 AND 100),
    CONSTRAINT sender_verdicts_alert_reasoned CHECK (NOT alert OR above AND credited AND threshold IS NOT NULL)
);
CREATE INDEX sender_verdicts_of_sender ON sender_verdicts (org_id, chain, address, verdict_id);
CREATE INDEX sender_verdicts_alerts ON sender_verdicts (at) WHERE alert;
SELECT coffer_tenant('sender_verdicts', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER sender_verdicts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sender_verdicts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION fresh_verdicts_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'SENDER' FROM added, jsonb_path_query(added.record, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE TRIGGER sender_verdicts_use AFTER INSERT ON sender_verdicts REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION fresh_verdicts_use();

-- Which senders are asked about again, and when. The service derives the rows from the
-- deposits over and over, so a lost row loses nothing.
CREATE TABLE sender_watch (
    org_id      text NOT NULL REFERENCES organizations,
    chain       text NOT NULL,
    address     text NOT NULL,
    credited    boolean NOT NULL,     -- screening has let a recent deposit of it pass
    lists_only  boolean NOT NULL,     -- for that deposit only the lists of sanctions were asked
    flagged     boolean NOT NULL,     -- it has a flagged deposit
    enrolled_at timestamptz NOT NULL, -- the round that found it last
    next_at     timestamptz NOT NULL,
    CONSTRAINT sender_watch_pkey PRIMARY KEY (org_id, chain, address)
);
CREATE INDEX sender_watch_due ON sender_watch (next_at);
SELECT coffer_tenant('sender_watch', '', 'SELECT, INSERT, UPDATE, DELETE');
CREATE TRIGGER sender_watch_as_inserted BEFORE UPDATE OF org_id, chain, address ON sender_watch
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- One process asks at a time, so that the installation keeps its rate.
CREATE TABLE sender_watch_lease (
    one         boolean PRIMARY KEY DEFAULT true,
    holder      text NOT NULL,
    until       timestamptz NOT NULL,
    enrolled_at timestamptz, -- when the last whole round began
    CONSTRAINT sender_watch_lease_single CHECK (one)
);
INSERT INTO sender_watch_lease (holder, until) VALUES ('', '-infinity');
SELECT coffer_shared('sender_watch_lease', '', 'SELECT, UPDATE');

---- 14_freezes.sql

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

---- 15_withdrawals.sql

-- Withdrawals: payments that customers and organizations request.
--
-- A withdrawal holds its amount in the books, waits for approvals where it needs them, has one
-- dispatch order with its own id, and ends together with that order. A destination that
-- screening refuses leaves a BLOCKED row that holds nothing.

-- What identifies an idempotency key of which only the hash is known. It is declared
-- immutable, which it is for the one encoding of our databases.
CREATE FUNCTION key_digest(key text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN encode(sha256(convert_to(key, 'UTF8')), 'hex');

-- What a payment pays, to whom, from whose balance and for which fee. A withdrawal and its order
-- compute it from their own columns, and a key compares the two (dispatch_orders_as_accepted). It
-- is immutable for the same reason.
CREATE FUNCTION payment_terms(
    org_id text, chain text, mint_id integer, amount numeric, to_address text, customer_id text, product text,
    whitelisted_address_id text, fee_deducted numeric, fee_max numeric) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(ROW (org_id, chain, mint_id, amount, to_address, customer_id, product, whitelisted_address_id,
    fee_deducted, fee_max)::text, 'UTF8'));

CREATE TABLE withdrawals (
    withdrawal_id          text PRIMARY KEY,
    org_id                 text NOT NULL REFERENCES organizations,
    customer_id            text COLLATE "C",
    mint_id                integer NOT NULL REFERENCES mints,
    chain                  text NOT NULL,
    amount                 numeric(78,0) NOT NULL,
    to_address             text NOT NULL,
    idempotency_key        text COLLATE "C",
    request_digest         bytea NOT NULL,
    reference              text,
    metadata               jsonb NOT NULL DEFAULT '{}',
    status                 text NOT NULL,
    chain_status           text NOT NULL DEFAULT 'NONE',
    requires_approval      boolean NOT NULL,
    approval_reasons       text[] NOT NULL,
    decision               jsonb,          -- NULL: withdrawal_decisions has it
    usd_value              numeric(38,18),
    network_fee            numeric(78,0),
    tx_hash                text,
    replaced_tx_hashes     text[] NOT NULL DEFAULT '{}',
    failure_reason         text,
    rejected_reason        text,
    created_at             timestamptz NOT NULL,
    approved_at            timestamptz,
    broadcast_at           timestamptz,
    completed_at           timestamptz,
    -- The beginning and end of the destination. A column of its own, because row level
    -- security keeps an index on a function unused.
    to_prefix_suffix       text NOT NULL GENERATED ALWAYS AS (address_prefix_suffix(to_address)) STORED,

    -- Of rows that a restore made from the signer's journal (decision 0015). The journal
    -- knows the hash of a key and not the key, and the restored books may lack the funds.
    restored_at            timestamptz,
    restored_key_hash      text,
    owed                   numeric(78,0) NOT NULL DEFAULT 0, -- part of the hold: still to be taken from the customer
    collections            integer NOT NULL DEFAULT 0,       -- how often a part of it was taken
    key_hash               text GENERATED ALWAYS AS (coalesce(restored_key_hash, key_digest(idempotency_key))) STORED,

    -- The network fee of a coin's payment (decision 0025). fee_deducted is the part that
    -- the customer pays: decided with the order, before anything is signed. The order pays
    -- that much less.
    fee_mode               text NOT NULL DEFAULT 'ORGANIZATION',
    fee_deducted           numeric(78,0),
    max_network_fee        numeric(78,0),  -- the most that the network may take; NULL: no limit
    travel_rule            jsonb,

    screening              jsonb,          -- what the API shows; withdrawal_decisions has the whole
    approvals_required     smallint NOT NULL DEFAULT 0, -- the organization's quorum when it was held; 0: it never was
    approval_round         smallint NOT NULL DEFAULT 0, -- how often it was sent back to the approvers
    request_mac            bytea,          -- of its terms, by the server's key

    -- Of an organization's own withdrawal (decision 0043).
    product                text,           -- the product whose balance pays, in place of a customer's
    whitelisted_address_id text,           -- the entry that to_address was read from

    -- What the network was expected to take (decision 0074).
    cost_max               numeric(78,0),  -- at most, when it was requested, in native units; NULL: unknown
    cost_rent              numeric(78,0),  -- the part of it that stays in an account created for the payee
    cost_price             numeric(38,18), -- dollars for one whole native coin when it was released; NULL: unknown

    -- How the withdrawal ends, and who decided so, while the signer has not voided it yet
    -- (decision 0075).
    end_status             text,
    end_note               text,
    end_actor_kind         text,
    end_actor              text,

    -- What the customer is charged for costs above the usual fee (decision 0074). The
    -- terms are those at the time of the request, so what was shown is what is charged.
    charge_costs           text NOT NULL DEFAULT 'NONE',    -- the organization's setting
    charge_rent            numeric(78,0) NOT NULL DEFAULT 0, -- the most rent that is charged, in native units
    charge_held            numeric(78,0) NOT NULL DEFAULT 0, -- the same in units of the mint: held as well
    charge_failure_max     numeric(78,0),                    -- the most that is charged for a failed payment
    charge_coin_price      numeric(38,18),                   -- dollars for one whole native coin; NULL: not needed
    charge_mint_price      numeric(38,18),                   -- the same of the mint
    charge_cost            numeric(78,0) NOT NULL DEFAULT 0, -- the cost that was charged for, in native units
    charged                numeric(78,0) NOT NULL DEFAULT 0, -- what was charged, in units of the mint

    terms                  bytea NOT NULL GENERATED ALWAYS AS (payment_terms(org_id, chain, mint_id, amount, to_address,
        customer_id, product, whitelisted_address_id, coalesce(fee_deducted, 0), max_network_fee)) STORED,

    -- Keys that other tables refer to.
    CONSTRAINT withdrawals_of_org UNIQUE (org_id, withdrawal_id),
    CONSTRAINT withdrawals_of_terms UNIQUE (withdrawal_id, terms),
    -- Idempotency keys of calls that move money never expire. A key, or its hash where a
    -- restore knows no more, has one withdrawal. Rule IDEM-1.
    CONSTRAINT withdrawals_idempotency_key_unique UNIQUE (org_id, idempotency_key),
    CONSTRAINT withdrawals_key_hash_unique UNIQUE (org_id, key_hash),
    CONSTRAINT withdrawals_customer FOREIGN KEY (org_id, customer_id) REFERENCES customers (org_id, customer_id),
    CONSTRAINT withdrawals_mint FOREIGN KEY (mint_id, chain) REFERENCES mints (mint_id, chain),
    CONSTRAINT withdrawals_positive CHECK (amount > 0),
    CONSTRAINT withdrawals_of_one CHECK (
        num_nonnulls(customer_id, product) = 1 AND (product IS NULL) = (whitelisted_address_id IS NULL)),
    CONSTRAINT withdrawals_product_known CHECK (product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')),
    CONSTRAINT withdrawals_status_known CHECK (status IN
        ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST', 'COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')),
    CONSTRAINT withdrawals_chain_status_known CHECK (chain_status IN
        ('NONE', 'PENDING', 'INCLUDED', 'FINALIZED', 'REVERTED', 'DROPPED', 'REPLACED')),
    CONSTRAINT withdrawals_broadcast_has_hash CHECK (status NOT IN ('BROADCAST', 'COMPLETED') OR tx_hash IS NOT NULL),
    CONSTRAINT withdrawals_held_has_reason CHECK (status <> 'AWAITING_APPROVAL' OR cardinality(approval_reasons) > 0),
    -- Rule WD-31.
    CONSTRAINT withdrawals_blocked_is_nothing CHECK (
        status <> 'BLOCKED' OR NOT requires_approval AND approval_reasons = '{}' AND chain_status = 'NONE'
            AND num_nonnulls(
                fee_deducted, network_fee, tx_hash, approved_at, broadcast_at, completed_at, restored_at) = 0),
    -- A withdrawal that needs an approval has it before anything leaves. Rule WD-4.
    CONSTRAINT withdrawals_approved_before_payment CHECK (
        NOT requires_approval OR approved_at IS NOT NULL OR status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')),
    CONSTRAINT withdrawals_approvals_bounded CHECK (approvals_required BETWEEN 0 AND 10 AND approval_round >= 0),
    CONSTRAINT withdrawals_owed_bounded CHECK (owed BETWEEN 0 AND amount),
    CONSTRAINT withdrawals_owed_restored CHECK (owed = 0 OR restored_at IS NOT NULL),
    CONSTRAINT withdrawals_restored_key CHECK (
        restored_key_hash IS NULL OR (restored_at IS NOT NULL AND idempotency_key IS NULL)),
    CONSTRAINT withdrawals_fee_mode_known CHECK (fee_mode IN ('ORGANIZATION', 'DEDUCTED')),
    CONSTRAINT withdrawals_max_network_fee_positive CHECK (max_network_fee > 0),
    CONSTRAINT withdrawals_fee_deducted_bounded CHECK (
        fee_deducted IS NULL OR fee_mode = 'DEDUCTED' AND fee_deducted >= 0 AND fee_deducted < amount
            AND (max_network_fee IS NULL OR fee_deducted <= max_network_fee)),
    -- Rule WD-27.
    CONSTRAINT withdrawals_fee_decided CHECK (
        fee_mode <> 'DEDUCTED' OR fee_deducted IS NOT NULL
        OR status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED')),
    -- The fee of an organization's own payment is decided at the request: both are held.
    CONSTRAINT withdrawals_own_fee_decided CHECK (
        product IS NULL OR fee_mode <> 'DEDUCTED' OR fee_deducted IS NOT NULL OR status = 'BLOCKED'),
    CONSTRAINT withdrawals_costs CHECK (
        (cost_max IS NULL) = (cost_rent IS NULL)
        AND (cost_rent IS NULL OR cost_rent >= 0 AND cost_rent <= cost_max)
        AND (cost_price IS NULL OR cost_price > 0)),
    CONSTRAINT withdrawals_end_known CHECK (
        end_status IN ('REJECTED', 'CANCELLED') AND num_nonnulls(end_actor_kind, end_actor) = 2
        OR num_nonnulls(end_status, end_note, end_actor_kind, end_actor) = 0),
    CONSTRAINT withdrawals_end_as_decided CHECK (end_status IS NULL OR status IN ('AWAITING_APPROVAL', 'PROCESSING', end_status)),
    CONSTRAINT withdrawals_charge_known CHECK (charge_costs IN ('NONE', 'RENT', 'RENT_AND_FAILURES')),
    CONSTRAINT withdrawals_charge_bounded CHECK (
        charge_rent >= 0 AND charge_held >= 0 AND (charge_held = 0) = (charge_rent = 0)
        AND charge_failure_max BETWEEN 0 AND amount + charge_held
        AND (charge_coin_price IS NULL) = (charge_mint_price IS NULL)
        AND charge_coin_price > 0 AND charge_mint_price > 0
        AND charged BETWEEN 0 AND CASE status
            WHEN 'COMPLETED' THEN charge_held
            WHEN 'FAILED' THEN coalesce(charge_failure_max, 0)
            ELSE 0
        END
        AND (charged = 0) = (charge_cost = 0) AND charge_cost >= 0),
    CONSTRAINT withdrawals_charge_of_customer CHECK (
        charge_costs = 'RENT_AND_FAILURES' AND product IS NULL
        OR charge_failure_max IS NULL
            AND (charge_costs = 'RENT' AND product IS NULL OR charge_costs = 'NONE' AND charge_rent = 0)),
    CONSTRAINT withdrawals_charge_of_blocked CHECK (
        status <> 'BLOCKED' OR charge_rent = 0 AND charge_failure_max IS NULL)
);
-- For lists: every filter that leaves few rows of many has an index.
CREATE INDEX withdrawals_listed ON withdrawals (org_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_customer ON withdrawals (org_id, customer_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_status ON withdrawals (org_id, status, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_mint ON withdrawals (org_id, mint_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_chain ON withdrawals (org_id, chain, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_address ON withdrawals (org_id, to_address, created_at, withdrawal_id);
-- All withdrawals may have the same reference.
CREATE INDEX withdrawals_of_reference_listed ON withdrawals (org_id, reference, created_at, withdrawal_id)
    WHERE reference IS NOT NULL;
CREATE INDEX withdrawals_own_listed ON withdrawals (org_id, created_at, withdrawal_id) WHERE customer_id IS NULL;
CREATE INDEX withdrawals_prefix_suffix ON withdrawals (org_id, to_prefix_suffix);
CREATE INDEX withdrawals_open ON withdrawals (org_id, customer_id, mint_id)
    WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST');
CREATE INDEX withdrawals_owed ON withdrawals (org_id, customer_id, mint_id) WHERE owed > 0;
-- For the limits on costs: destinations that made a payment fail, destinations that were paid
-- with an approval, and what a customer's withdrawals cost in a day.
CREATE INDEX withdrawals_reverted ON withdrawals (org_id, chain, to_address, completed_at)
    WHERE status = 'FAILED' AND failure_reason = 'REVERTED';
CREATE INDEX withdrawals_approved_paid ON withdrawals (org_id, chain, to_address, approved_at)
    WHERE status = 'COMPLETED' AND approved_at IS NOT NULL;
CREATE INDEX withdrawals_of_customer_approved ON withdrawals (org_id, customer_id, approved_at)
    WHERE approved_at IS NOT NULL;
SELECT coffer_tenant('withdrawals',
    'SELECT, INSERT, UPDATE (status, approval_reasons, rejected_reason, approved_at, fee_deducted, screening,'
        ' approvals_required, cost_price, end_status, end_note, end_actor_kind, end_actor)',
    'SELECT, INSERT, UPDATE');

-- Rule OW-6.
CREATE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.withdrawal_id, NEW.org_id, NEW.customer_id, NEW.product, NEW.whitelisted_address_id,
            NEW.mint_id, NEW.chain, NEW.amount, NEW.to_address, NEW.idempotency_key, NEW.request_digest)
       IS DISTINCT FROM
       (OLD.withdrawal_id, OLD.org_id, OLD.customer_id, OLD.product, OLD.whitelisted_address_id,
            OLD.mint_id, OLD.chain, OLD.amount, OLD.to_address, OLD.idempotency_key, OLD.request_digest) THEN
        RAISE EXCEPTION 'withdrawal % cannot become another payment', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_payment_fixed';
    END IF;
    IF OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'withdrawal % is %', OLD.withdrawal_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terminal';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_keep BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_keep();

-- What a restore wrote stays, and what is owed only falls.
CREATE FUNCTION withdrawals_restored_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.restored_at, NEW.restored_key_hash) IS DISTINCT FROM (OLD.restored_at, OLD.restored_key_hash) OR NEW.owed > OLD.owed THEN
        RAISE EXCEPTION 'withdrawal %: what was restored is written once, and what is owed only falls', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_restored_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_restored_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_restored_keep();

-- The terms are written once.
CREATE FUNCTION withdrawals_terms_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.fee_mode, NEW.max_network_fee, NEW.travel_rule, NEW.decision) IS DISTINCT FROM
       (OLD.fee_mode, OLD.max_network_fee, OLD.travel_rule, OLD.decision)
       OR OLD.fee_deducted IS NOT NULL AND NEW.fee_deducted IS DISTINCT FROM OLD.fee_deducted THEN
        RAISE EXCEPTION 'the terms of withdrawal % are written once', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terms_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_terms_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_terms_keep();

-- A held withdrawal stays held, by at least as many approvals. Rule WD-37.
CREATE FUNCTION withdrawals_quorum_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.approvals_required < OLD.approvals_required OR NEW.approval_round < OLD.approval_round
       OR OLD.requires_approval AND NOT NEW.requires_approval
       OR OLD.request_mac IS NOT NULL AND NEW.request_mac IS DISTINCT FROM OLD.request_mac THEN
        RAISE EXCEPTION 'withdrawal % needs the approvals that it needs', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_quorum_kept';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_quorum_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_quorum_keep();

-- The expected cost is written once, and its price changes only until the payment is released.
CREATE FUNCTION withdrawals_costs_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.cost_max, NEW.cost_rent) IS DISTINCT FROM (OLD.cost_max, OLD.cost_rent)
       OR OLD.status <> 'AWAITING_APPROVAL' AND NEW.cost_price IS DISTINCT FROM OLD.cost_price THEN
        RAISE EXCEPTION 'what withdrawal % was expected to cost is written once', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_costs_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_costs_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_costs_keep();

-- What a cost in native coin is in units of the mint, at the prices of a withdrawal: rounded
-- up.
CREATE FUNCTION withdrawal_charge(w withdrawals, cost numeric) RETURNS numeric LANGUAGE plpgsql STABLE
    SET search_path = public, pg_temp AS $$
DECLARE
    token  integer;
    coin   integer;
    native boolean;
    worth  numeric;
    unit   numeric;
BEGIN
    SELECT decimals, kind = 'NATIVE' INTO token, native FROM mints WHERE mint_id = w.mint_id;
    IF native OR cost = 0 THEN
        RETURN cost;
    END IF;
    SELECT decimals INTO coin FROM mints WHERE chain = w.chain AND kind = 'NATIVE';
    -- Both factors are whole numbers, so that div rounds nothing away.
    worth := cost * trunc(w.charge_coin_price * 1000000000000000000::numeric) * ('1e' || token)::numeric;
    unit := trunc(w.charge_mint_price * 1000000000000000000::numeric) * ('1e' || coin)::numeric;
    RETURN div(worth + unit - 1, unit);
END $$;

-- The terms of a charge are written once. The charge itself is written when the withdrawal
-- ends, and the database computes it from what the order cost. Rules WD-54 and WD-55.
CREATE FUNCTION withdrawals_charge_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    o    record;
    cost numeric := 0;
    due  numeric := 0;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.charge_held IS DISTINCT FROM withdrawal_charge(NEW, NEW.charge_rent) OR NEW.charged <> 0 THEN
            RAISE EXCEPTION 'withdrawal % holds % for a rent of %', NEW.withdrawal_id, NEW.charge_held, NEW.charge_rent
                USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_charge_held';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.charge_costs, NEW.charge_rent, NEW.charge_held, NEW.charge_failure_max, NEW.charge_coin_price, NEW.charge_mint_price)
       IS DISTINCT FROM (OLD.charge_costs, OLD.charge_rent, OLD.charge_held, OLD.charge_failure_max, OLD.charge_coin_price, OLD.charge_mint_price)
       OR NEW.status = OLD.status AND (NEW.charged, NEW.charge_cost) IS DISTINCT FROM (OLD.charged, OLD.charge_cost) THEN
        RAISE EXCEPTION 'what withdrawal % is charged is written once', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_charge_fixed';
    END IF;
    IF NEW.status <> OLD.status THEN
        SELECT rent, fee, payee_failed INTO o FROM dispatch_orders WHERE order_id = NEW.withdrawal_id;
        IF NEW.status = 'COMPLETED' THEN
            cost := coalesce(o.rent, 0);
            due := CASE WHEN NEW.charge_held = 0 THEN 0 ELSE least(NEW.charge_held, withdrawal_charge(NEW, cost)) END;
        ELSIF NEW.status = 'FAILED' AND o.payee_failed THEN
            cost := coalesce(o.fee, 0);
            due := CASE WHEN coalesce(NEW.charge_failure_max, 0) = 0 THEN 0 ELSE least(NEW.charge_failure_max, withdrawal_charge(NEW, cost)) END;
        END IF;
        IF (NEW.charged, NEW.charge_cost) IS DISTINCT FROM (due, CASE WHEN due = 0 THEN 0 ELSE cost END) THEN
            RAISE EXCEPTION 'withdrawal % is charged % for a cost of %, and its order says %', NEW.withdrawal_id, NEW.charged, NEW.charge_cost, cost
                USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_charged';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_charge_begin BEFORE INSERT ON withdrawals
    FOR EACH ROW WHEN (NEW.charge_costs <> 'NONE') EXECUTE FUNCTION withdrawals_charge_keep();
CREATE TRIGGER withdrawals_charge_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW WHEN (NEW.charge_costs <> 'NONE' OR OLD.charge_costs <> 'NONE')
    EXECUTE FUNCTION withdrawals_charge_keep();

-- A released payment has a grant, and the signer would admit it on any later day. So the
-- signer journals that the payment is void before its money is given back. A withdrawal that
-- ends without a slot stays AWAITING_APPROVAL or PROCESSING, with its hold, until then. Its
-- order is recalled first (decisions 0073, 0075). Rule WD-50.
CREATE FUNCTION withdrawals_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.end_status IS NOT NULL AND (NEW.end_status, NEW.end_note, NEW.end_actor_kind, NEW.end_actor)
        IS DISTINCT FROM (OLD.end_status, OLD.end_note, OLD.end_actor_kind, OLD.end_actor) THEN
        RAISE EXCEPTION 'withdrawal % ends as it was decided', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_end_fixed';
    END IF;
    IF OLD.end_status IS NULL AND NEW.end_status IS NOT NULL
        AND EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.withdrawal_id AND status <> 'WITHDRAWN') THEN
        RAISE EXCEPTION 'withdrawal % has an order that was not taken back', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_end_recalled';
    END IF;
    IF NEW.status <> OLD.status AND NEW.status IN ('REJECTED', 'CANCELLED', 'FAILED')
        AND EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.withdrawal_id AND status IN ('QUEUED', 'REFUSED', 'WITHDRAWN'))
        AND NOT EXISTS (SELECT FROM dispatch_voids WHERE order_id = NEW.withdrawal_id AND journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'withdrawal % was let go once, and the signer has not journaled that it is void', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_void_first';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_void_first BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_void_first();

-- A withdrawal is held, and ends together with its hold and its charge.
CREATE FUNCTION withdrawals_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    w      record;
    posted text[] := ARRAY(SELECT cause_kind FROM ledger_transfers WHERE cause_id = NEW.withdrawal_id AND leg = 0
        AND cause_kind IN ('WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN'));
    broken text;
BEGIN
    SELECT status, charged, amount + charge_held - charged AS back, charge_held - charged AS rest
    INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    broken := CASE
        WHEN 'WITHDRAWAL_HOLD' = ANY (posted) = (w.status = 'BLOCKED') THEN 'withdrawals_held'
        WHEN 'WITHDRAWAL_END' = ANY (posted) <> (w.status = 'COMPLETED' OR w.status IN ('FAILED', 'REJECTED', 'CANCELLED') AND w.back > 0)
            THEN 'withdrawals_ended'
        WHEN w.charged > 0 AND 'WITHDRAWAL_CHARGE' <> ALL (posted)
            OR w.status = 'COMPLETED' AND w.rest > 0 AND 'WITHDRAWAL_CHARGE_RETURN' <> ALL (posted) THEN 'withdrawals_charge_posted'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'withdrawal % is %, and the books say something else', NEW.withdrawal_id, w.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_booked_begin AFTER INSERT ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION withdrawals_book();
CREATE CONSTRAINT TRIGGER withdrawals_booked_move AFTER UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION withdrawals_book();

-- What is owed of a restored withdrawal was posted.
CREATE FUNCTION withdrawals_owe() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    w record;
BEGIN
    SELECT withdrawal_id AS id, owed, collections INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.owed <> (
            SELECT coalesce(sum(CASE WHEN t.cause_id = w.id THEN t.amount ELSE -t.amount END), 0) FROM ledger_transfers t
            WHERE t.cause_kind = 'RESTORE' AND t.cause_id = ANY (w.id || ARRAY(SELECT w.id || '/' || n FROM generate_series(1, w.collections) n))) THEN
        RAISE EXCEPTION 'withdrawal % owes %, and the books say something else', w.id, w.owed
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_owed_posted';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_owed_begin AFTER INSERT ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.restored_at IS NOT NULL) EXECUTE FUNCTION withdrawals_owe();
CREATE CONSTRAINT TRIGGER withdrawals_owed_move AFTER UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.restored_at IS NOT NULL AND (OLD.status <> NEW.status OR OLD.owed <> NEW.owed))
    EXECUTE FUNCTION withdrawals_owe();

-- Whether a withdrawal, which may have an intended end, is where its order is. NULL: it has no
-- order. It takes two other false rows to make a COMPLETED one without an order, and
-- verify finds it.
CREATE FUNCTION withdrawal_in_step(status text, end_status text, order_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE status
    WHEN 'AWAITING_APPROVAL' THEN coalesce(order_status, 'REFUSED') IN ('REFUSED', 'WITHDRAWN')
    WHEN 'PROCESSING' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') OR order_status = 'WITHDRAWN' AND end_status IS NOT NULL
    WHEN 'BROADCAST' THEN order_status IN ('BROADCAST', 'STUCK')
    WHEN 'COMPLETED' THEN coalesce(order_status, 'PAID') = 'PAID'
    WHEN 'FAILED' THEN order_status = 'FAILED'
    WHEN 'REJECTED' THEN coalesce(order_status, 'WITHDRAWN') = 'WITHDRAWN'
    WHEN 'CANCELLED' THEN coalesce(order_status, 'WITHDRAWN') = 'WITHDRAWN'
    WHEN 'BLOCKED' THEN order_status IS NULL
END;

-- A withdrawal is where its order is. What the order pays is in its key to the withdrawal.
CREATE FUNCTION withdrawals_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now record;
BEGIN
    SELECT w.status, o.status AS order_status, withdrawal_in_step(w.status, w.end_status, o.status) AS in_step INTO now
    FROM withdrawals w LEFT JOIN dispatch_orders o ON o.order_id = w.withdrawal_id WHERE w.withdrawal_id = NEW.withdrawal_id;
    IF now.in_step IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % is %, its order %', NEW.withdrawal_id, now.status, coalesce(now.order_status, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_as_ordered';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_ordered_begin AFTER INSERT ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION withdrawals_follow();
CREATE CONSTRAINT TRIGGER withdrawals_ordered_move AFTER UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION withdrawals_follow();

-- One row for each decision, in the order in which they were made. gates are the rules that
-- were applied, each with its inputs. Rule WD-25.
CREATE TABLE withdrawal_decisions (
    decision_id   bigint GENERATED ALWAYS AS IDENTITY,
    org_id        text NOT NULL,
    withdrawal_id text NOT NULL,
    at            timestamptz NOT NULL,
    act           text NOT NULL,
    status        text NOT NULL,   -- the status that the withdrawal got
    reasons       text[] NOT NULL, -- why it waits for a person, when it does
    gates         jsonb NOT NULL,
    note          text,            -- what a person wrote or the signer answered
    actor_kind    text NOT NULL,
    actor_id      text NOT NULL,
    risk          jsonb,           -- the whole input of the risk gate; NULL: it was not applied
    CONSTRAINT withdrawal_decisions_pkey PRIMARY KEY (withdrawal_id, decision_id),
    CONSTRAINT withdrawal_decisions_withdrawal FOREIGN KEY (org_id, withdrawal_id)
        REFERENCES withdrawals (org_id, withdrawal_id),
    CONSTRAINT withdrawal_decisions_act_known CHECK (
        CASE act WHEN 'REQUESTED' THEN status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BLOCKED')
                 WHEN 'APPROVAL_ADDED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'APPROVED' THEN status = 'PROCESSING'
                 WHEN 'APPROVAL_REFUSED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'RETURNED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'REMOVED' THEN status = 'REJECTED'
                 WHEN 'CANCELLED' THEN status = 'CANCELLED'
                 ELSE false END),
    CONSTRAINT withdrawal_decisions_actor_known CHECK (actor_kind IN ('API_KEY', 'USER', 'OPERATOR', 'SYSTEM'))
);
SELECT coffer_tenant('withdrawal_decisions',
    'SELECT, INSERT (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind, actor_id, risk)',
    'SELECT, INSERT (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind, actor_id, risk)');
CREATE TRIGGER withdrawal_decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON withdrawal_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION withdrawal_decisions_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'WITHDRAWAL' FROM added, jsonb_path_query(added.risk, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawal_decisions_use AFTER INSERT ON withdrawal_decisions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION withdrawal_decisions_use();

-- Each approval is a row of its own by another person, bound to the terms that the person saw
-- (decision 0039).
CREATE TABLE withdrawal_approvals (
    org_id        text NOT NULL,
    withdrawal_id text NOT NULL,
    round         smallint NOT NULL,
    approver_kind text NOT NULL,
    approver_id   text COLLATE "C" NOT NULL,
    at            timestamptz NOT NULL,
    digest        text NOT NULL,  -- hex SHA-256 of the approved terms
    mac           bytea NOT NULL, -- of the digest, the round and the person, by the server's key
    -- A person counts once. Rule WD-35.
    CONSTRAINT withdrawal_approvals_pkey PRIMARY KEY (withdrawal_id, round, approver_kind, approver_id),
    CONSTRAINT withdrawal_approvals_withdrawal FOREIGN KEY (org_id, withdrawal_id)
        REFERENCES withdrawals (org_id, withdrawal_id),
    -- Rules WD-35 and WD-56.
    CONSTRAINT withdrawal_approvals_by_people CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> '')
);
SELECT coffer_tenant('withdrawal_approvals', 'SELECT, INSERT', 'SELECT, INSERT');
CREATE TRIGGER withdrawal_approvals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON withdrawal_approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An approval is of a withdrawal that waits in this round. The person who requested the
-- withdrawal does not approve it. Rules WD-35 and OW-5.
CREATE FUNCTION withdrawal_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    w record;
BEGIN
    SELECT status, approval_round INTO w FROM withdrawals WHERE org_id = NEW.org_id AND withdrawal_id = NEW.withdrawal_id;
    IF (w.status = 'AWAITING_APPROVAL' AND w.approval_round = NEW.round) IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % does not wait for this approval', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_waited_for';
    END IF;
    IF EXISTS (SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = NEW.withdrawal_id AND d.act = 'REQUESTED'
            AND (d.actor_kind, d.actor_id) = (NEW.approver_kind, NEW.approver_id)) THEN
        RAISE EXCEPTION 'withdrawal % was asked for by the same person', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_not_by_maker';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawal_approvals_fit BEFORE INSERT ON withdrawal_approvals
    FOR EACH ROW EXECUTE FUNCTION withdrawal_approvals_fit();

-- A held payment is released with enough approvals. A restore makes the withdrawal and its
-- slot at the same time if the signer has signed it already: that one needs none. Rule WD-37.
CREATE FUNCTION withdrawals_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    w record;
    n bigint;
BEGIN
    SELECT status, requires_approval, approvals_required, approval_round INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.status <> 'PROCESSING' OR NOT w.requires_approval OR EXISTS (SELECT FROM dispatch_slots WHERE order_id = NEW.withdrawal_id) THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO n FROM withdrawal_approvals a WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = w.approval_round;
    IF n < greatest(w.approvals_required, 1) THEN
        RAISE EXCEPTION 'withdrawal % has % approvals and needs %', NEW.withdrawal_id, n, greatest(w.approvals_required, 1)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_approved_by_enough';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_quorum AFTER INSERT OR UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'PROCESSING' AND NEW.requires_approval) EXECUTE FUNCTION withdrawals_quorum();
CREATE TRIGGER withdrawals_as_inserted BEFORE UPDATE OF metadata, reference, usd_value, created_at ON withdrawals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A withdrawal that ended keeps everything except what is owed after a restore and the network
-- fee of a payment on the chain, which another block may prove to be another. Before its end
-- each column changes in the states that its work belongs to, or together with the status.
CREATE TRIGGER withdrawals_written_once BEFORE UPDATE ON withdrawals FOR EACH ROW
    WHEN (NEW.status = OLD.status AND (
        (NEW.requires_approval, NEW.approval_round, NEW.approved_at, NEW.rejected_reason, NEW.cost_price,
            NEW.broadcast_at, NEW.completed_at, NEW.failure_reason, NEW.charged, NEW.charge_cost)
            IS DISTINCT FROM (OLD.requires_approval, OLD.approval_round, OLD.approved_at, OLD.rejected_reason, OLD.cost_price,
                OLD.broadcast_at, OLD.completed_at, OLD.failure_reason, OLD.charged, OLD.charge_cost)
        OR OLD.status <> 'AWAITING_APPROVAL' AND (NEW.approval_reasons, NEW.approvals_required, NEW.screening, NEW.fee_deducted)
            IS DISTINCT FROM (OLD.approval_reasons, OLD.approvals_required, OLD.screening, OLD.fee_deducted)
        OR OLD.status NOT IN ('AWAITING_APPROVAL', 'PROCESSING') AND (NEW.end_status, NEW.end_note, NEW.end_actor_kind, NEW.end_actor)
            IS DISTINCT FROM (OLD.end_status, OLD.end_note, OLD.end_actor_kind, OLD.end_actor)
        OR OLD.status <> 'BROADCAST' AND (NEW.tx_hash, NEW.chain_status, NEW.replaced_tx_hashes)
            IS DISTINCT FROM (OLD.tx_hash, OLD.chain_status, OLD.replaced_tx_hashes)
        OR OLD.status NOT IN ('COMPLETED', 'FAILED') AND NEW.network_fee IS DISTINCT FROM OLD.network_fee)
        OR (NEW.charge_rent, NEW.charge_held, NEW.charge_failure_max, NEW.charge_coin_price, NEW.charge_mint_price, NEW.request_mac)
            IS DISTINCT FROM (OLD.charge_rent, OLD.charge_held, OLD.charge_failure_max, OLD.charge_coin_price, OLD.charge_mint_price, OLD.request_mac)
        OR OLD.restored_at IS NULL AND (NEW.owed, NEW.collections) IS DISTINCT FROM (OLD.owed, OLD.collections)
        OR NEW.collections < OLD.collections)
    EXECUTE FUNCTION refuse_row_change();

---- 16_dispatch.sql

-- Dispatch: what has to be put on a chain.
--
-- An order is one payment, sweep or other transaction of ours. It has the id of its cause (the
-- withdrawal, the resolution, the sweep, the top-up, and so on): a cause has one order. A slot
-- is the one position on the chain that an order takes, and it never gives the slot back. An
-- attempt is one complete transaction in that slot.

CREATE TABLE dispatch_orders (
    order_id               text PRIMARY KEY,
    org_id                 text NOT NULL REFERENCES organizations,
    purpose                text NOT NULL,
    chain                  text NOT NULL,
    wallet_id              text NOT NULL,                    -- pays, and has the slot
    to_wallet_id           text,                             -- receives, when it is ours
    to_address             text NOT NULL,
    mint_id                integer NOT NULL REFERENCES mints,
    contract               text NOT NULL,
    amount                 numeric(78,0) NOT NULL,
    customer_id            text COLLATE "C",
    key_hash               text NOT NULL DEFAULT '',         -- hex SHA-256 of the caller's idempotency key
    status                 text NOT NULL,
    waiting_for            text,                             -- what it waits for; the causes are in internal/dispatch/wait.go
    missing_amount         numeric(78,0),                    -- how much of it is missing
    last_error             text,
    attempt_after          timestamptz NOT NULL,
    created_at             timestamptz NOT NULL,
    broadcast_at           timestamptz,
    ended_at               timestamptz,
    tx_hash                text,                             -- the attempt that ended it
    fee                    numeric(78,0),
    proof_id               bigint,
    -- A restore made the slot from the signer's journal and the books lack the funds: nothing
    -- of the wallet is reserved for the order, so it cannot end.
    funds_pending          boolean NOT NULL DEFAULT false,
    fee_deducted           numeric(78,0) NOT NULL DEFAULT 0, -- the part of the withdrawal that is kept for the fee
    fee_max                numeric(78,0),                    -- the most that a transaction of it may cost; NULL: no limit
    authority              jsonb,                            -- for the signer: why the order may be paid
    product                text,
    whitelisted_address_id text,
    from_wallet_id         text,                             -- the wallet whose amount it moves, if that is not wallet_id
    tx_lead_id             text,                             -- the lead of its transaction; NULL: it leads or is alone
    -- What the payment cost above the fee, and whether the chain refused it because of its
    -- payee: for a nonce account, because another account has its address. Zero and false while
    -- it is open, or unknown.
    rent                   numeric(78,0) NOT NULL DEFAULT 0,
    payee_failed           boolean NOT NULL DEFAULT false,
    trigger                text,                             -- why the service planned it; NULL: people asked for it
    -- By these it refers to what it has to agree with. NULL: nothing.
    payment_terms          bytea GENERATED ALWAYS AS (CASE purpose WHEN 'PAYMENT' THEN payment_terms(org_id, chain, mint_id,
        amount + fee_deducted, to_address, customer_id, product, whitelisted_address_id, fee_deducted, fee_max) END) STORED,
    return_wallet_id       text GENERATED ALWAYS AS (
        CASE purpose WHEN 'RETURN' THEN coalesce(from_wallet_id, wallet_id) END) STORED,
    to_role                text GENERATED ALWAYS AS (
        CASE purpose WHEN 'SWEEP' THEN 'TREASURY' WHEN 'CLOSE' THEN 'TREASURY' WHEN 'MERGE' THEN 'CHANGE' END) STORED,
    from_role              text GENERATED ALWAYS AS (CASE purpose WHEN 'CLOSE' THEN 'DEPOSIT' END) STORED,
    slot_order_id          text GENERATED ALWAYS AS (
        CASE WHEN status NOT IN ('QUEUED', 'REFUSED', 'WITHDRAWN') THEN coalesce(tx_lead_id, order_id) END) STORED,
    -- Keys that other tables refer to.
    CONSTRAINT dispatch_orders_of_org UNIQUE (org_id, order_id),
    CONSTRAINT dispatch_orders_of_wallet UNIQUE (order_id, wallet_id, chain),
    CONSTRAINT dispatch_orders_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_orders_to_wallet FOREIGN KEY (org_id, to_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_orders_from_wallet FOREIGN KEY (org_id, from_wallet_id) REFERENCES wallets (org_id, wallet_id),
    -- An order to one of our wallets goes to the address of that wallet.
    CONSTRAINT dispatch_orders_to_own FOREIGN KEY (to_wallet_id, to_address) REFERENCES wallets (wallet_id, address),
    -- A close empties a deposit address, and what an internal order moves stays with the treasury
    -- or, of UTXOs, with a change wallet.
    CONSTRAINT dispatch_orders_to_role FOREIGN KEY (to_wallet_id, to_role) REFERENCES wallets (wallet_id, role),
    CONSTRAINT dispatch_orders_from_role FOREIGN KEY (from_wallet_id, from_role) REFERENCES wallets (wallet_id, role),
    -- A payment is what was accepted, and a return is what was decided. Without these, one row of a
    -- role that writes orders would be a payment. Every other order has a key to internal_orders.
    CONSTRAINT dispatch_orders_as_accepted FOREIGN KEY (order_id, payment_terms)
        REFERENCES withdrawals (withdrawal_id, terms) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT dispatch_orders_as_decided
        FOREIGN KEY (order_id, org_id, chain, return_wallet_id, mint_id, amount, to_address)
        REFERENCES deposit_resolutions (resolution_id, org_id, chain, wallet_id, mint_id, sent, to_address)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT dispatch_orders_mint FOREIGN KEY (mint_id, chain, contract) REFERENCES mints (mint_id, chain, contract),
    CONSTRAINT dispatch_orders_proof FOREIGN KEY (chain, proof_id) REFERENCES finality_proofs (chain, proof_id),
    CONSTRAINT dispatch_orders_tx_lead FOREIGN KEY (tx_lead_id, wallet_id, chain)
        REFERENCES dispatch_orders (order_id, wallet_id, chain),
    CONSTRAINT dispatch_orders_purpose_known CHECK (
        CASE purpose
            WHEN 'PAYMENT' THEN to_wallet_id IS NULL
            WHEN 'RETURN' THEN to_wallet_id IS NULL
            WHEN 'SWEEP' THEN to_wallet_id IS NOT NULL
            WHEN 'GAS' THEN to_wallet_id IS NOT NULL AND contract = ''
            WHEN 'PLACE' THEN to_wallet_id IS NULL AND contract = '' AND customer_id IS NULL
            WHEN 'MERGE' THEN to_wallet_id IS NOT NULL AND contract = '' AND customer_id IS NULL AND is_utxo(chain)
            WHEN 'CLOSE' THEN to_wallet_id IS NOT NULL AND from_wallet_id IS NOT NULL AND contract <> ''
                AND customer_id IS NULL
            ELSE false
        END),
    -- A consolidation pays nothing: its UTXOs come back to a change wallet.
    CONSTRAINT dispatch_orders_positive CHECK (CASE purpose WHEN 'MERGE' THEN amount = 0 ELSE amount > 0 END),
    CONSTRAINT dispatch_orders_status_known CHECK (status IN
        ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'PAID', 'FAILED', 'REFUSED', 'WITHDRAWN', 'STUCK')),
    -- What an order waits for, in the queue or after an end whose proof is dead, and which of these
    -- waits have a missing amount: always, or if it is known.
    CONSTRAINT dispatch_orders_waiting_known CHECK (
        CASE
            WHEN waiting_for IN ('FUNDS', 'GAS') AND status = 'QUEUED'
                THEN missing_amount IS NOT NULL AND missing_amount > 0
            WHEN waiting_for IN ('COINS', 'MERGE')
                THEN status = 'QUEUED' AND (missing_amount IS NULL OR missing_amount > 0)
            WHEN missing_amount IS NOT NULL THEN false
            WHEN waiting_for IS NULL THEN true
            WHEN waiting_for IN ('SLOT', 'QUARANTINE', 'PAUSED', 'SIGNER', 'CLOCK', 'FEE_LIMIT', 'ERROR')
                THEN status = 'QUEUED'
            WHEN waiting_for IN ('FREEZE', 'SIMULATION', 'CHAIN') THEN status IN ('QUEUED', 'PAID', 'FAILED')
            WHEN waiting_for IN ('GAS', 'BLOCK', 'EARLIER', 'PERSON') THEN status IN ('PAID', 'FAILED')
            ELSE false
        END),
    -- An order ends on a proven block, or before anything was signed.
    CONSTRAINT dispatch_orders_end_proven CHECK (
        status NOT IN ('PAID', 'FAILED')
        OR (proof_id IS NOT NULL AND tx_hash IS NOT NULL AND fee IS NOT NULL)),
    CONSTRAINT dispatch_orders_funds_before_end CHECK (
        NOT funds_pending OR status IN ('SLOTTED', 'SIGNED', 'BROADCAST')),
    CONSTRAINT dispatch_orders_fee_deducted_bounded CHECK (
        fee_deducted = 0 OR fee_deducted > 0 AND purpose = 'PAYMENT' AND contract = ''),
    CONSTRAINT dispatch_orders_fee_max_positive CHECK (fee_max > 0 AND purpose = 'PAYMENT' OR fee_max IS NULL),
    CONSTRAINT dispatch_orders_product CHECK (
        product IS NULL AND whitelisted_address_id IS NULL
        OR purpose = 'PAYMENT' AND customer_id IS NULL AND num_nonnulls(product, whitelisted_address_id) = 2),
    -- Where the chain lets the treasury pay the fee, the slot is the treasury's
    -- (decision 0049).
    CONSTRAINT dispatch_orders_from_other CHECK (
        from_wallet_id IS NULL OR from_wallet_id <> wallet_id AND purpose IN ('SWEEP', 'CLOSE', 'RETURN')),
    -- The lead comes first by its id, so that a transaction that locks the orders in that order
    -- locks the lead first.
    CONSTRAINT dispatch_orders_tx_lead_before CHECK (tx_lead_id COLLATE "C" < order_id COLLATE "C"),
    CONSTRAINT dispatch_orders_tx_lead_slotted CHECK (
        tx_lead_id IS NULL
        OR purpose IN ('PAYMENT', 'SWEEP', 'CLOSE') AND status NOT IN ('QUEUED', 'REFUSED', 'WITHDRAWN')),
    CONSTRAINT dispatch_orders_costs_of_payment CHECK (
        (rent = 0 OR rent > 0 AND purpose = 'PAYMENT')
        AND (NOT payee_failed OR purpose = 'PAYMENT' AND status = 'FAILED' OR purpose = 'PLACE' AND status = 'REFUSED')),
    -- A payment and a return have a cause of their own. Every other order is internal: it has a
    -- trigger, and by it a row in internal_orders.
    CONSTRAINT dispatch_orders_trigger_known CHECK (
        (trigger IS NULL) = (purpose IN ('PAYMENT', 'RETURN'))
        AND (trigger IS NULL OR trigger IN ('VALUE', 'DEMAND', 'PERSON', 'RESTORED'))),
    -- A failed order pauses the next one, so its end has a time.
    CONSTRAINT dispatch_orders_end_dated CHECK (
        trigger IS NULL OR (ended_at IS NOT NULL) = (status IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN')))
);
CREATE INDEX dispatch_orders_due ON dispatch_orders (chain, wallet_id, created_at)
    WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST');
-- What is in transactions that are not final.
CREATE INDEX dispatch_orders_on_the_way ON dispatch_orders (org_id)
    WHERE status IN ('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK');
CREATE INDEX dispatch_orders_proven ON dispatch_orders (chain, proof_id) WHERE status IN ('PAID', 'FAILED');
CREATE INDEX dispatch_orders_tx_members ON dispatch_orders (tx_lead_id) WHERE tx_lead_id IS NOT NULL;
-- One open sweep and one open close of a mint at an address, one top-up of an address and one
-- consolidation of a treasury at a time. A restore may find that several had been sent since the
-- backup.
CREATE UNIQUE INDEX sweeps_one_open ON dispatch_orders (coalesce(from_wallet_id, wallet_id), mint_id)
    WHERE purpose = 'SWEEP' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
CREATE UNIQUE INDEX closes_one_open ON dispatch_orders (from_wallet_id, mint_id)
    WHERE purpose = 'CLOSE' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
CREATE UNIQUE INDEX gas_top_ups_one_open ON dispatch_orders (to_wallet_id, chain)
    WHERE purpose = 'GAS' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
CREATE UNIQUE INDEX consolidations_one_open ON dispatch_orders (wallet_id, chain)
    WHERE purpose = 'MERGE' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
-- Of an address, one nonce account is created at most. After a refusal it may be tried again,
-- unless another account has the address.
CREATE UNIQUE INDEX nonce_accounts_address_once ON dispatch_orders (chain, to_address)
    WHERE purpose = 'PLACE' AND (status NOT IN ('REFUSED', 'WITHDRAWN') OR payee_failed);
CREATE INDEX sweeps_of_wallet ON dispatch_orders (coalesce(from_wallet_id, wallet_id), mint_id, created_at)
    WHERE purpose = 'SWEEP';
CREATE INDEX closes_of_wallet ON dispatch_orders (from_wallet_id, mint_id, created_at) WHERE purpose = 'CLOSE';
CREATE INDEX gas_top_ups_of_wallet ON dispatch_orders (to_wallet_id, chain) WHERE purpose = 'GAS';
CREATE INDEX consolidations_of_wallet ON dispatch_orders (wallet_id, chain, ended_at) WHERE purpose = 'MERGE';
CREATE INDEX nonce_accounts_of_wallet ON dispatch_orders (wallet_id, chain) WHERE purpose = 'PLACE';
-- Which change wallet a consolidation without a slot is to have.
CREATE INDEX dispatch_orders_consolidations ON dispatch_orders (to_wallet_id) WHERE purpose = 'MERGE';
SELECT coffer_tenant('dispatch_orders',
    'SELECT, INSERT, UPDATE (status, waiting_for, missing_amount, last_error, attempt_after, ended_at, authority)',
    'SELECT, INSERT, UPDATE');

-- An order stays the payment that it is, and never gives its slot back.
CREATE FUNCTION dispatch_orders_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.order_id, NEW.org_id, NEW.purpose, NEW.chain, NEW.wallet_id, NEW.to_wallet_id, NEW.to_address, NEW.mint_id, NEW.contract, NEW.amount)
       IS DISTINCT FROM
       (OLD.order_id, OLD.org_id, OLD.purpose, OLD.chain, OLD.wallet_id, OLD.to_wallet_id, OLD.to_address, OLD.mint_id, OLD.contract, OLD.amount) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    -- A refused payment may be submitted again. A refused internal order has released what it
    -- reserved, and another one is planned.
    IF (OLD.status IN ('PAID', 'FAILED', 'WITHDRAWN') OR OLD.status = 'REFUSED' AND OLD.trigger IS NOT NULL)
       AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'order % is %', OLD.order_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_terminal';
    END IF;
    -- An order with a slot only goes forward: it never gives the slot back.
    IF OLD.status IN ('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') AND NEW.status IN ('QUEUED', 'REFUSED', 'WITHDRAWN') THEN
        RAISE EXCEPTION 'order % has a slot', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_slot_kept';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_keep();

-- The end of an order is written once. Only if the proof of its end is dead may the same
-- transaction get another live proof, and another fee (decision 0024).
CREATE FUNCTION dispatch_orders_end_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.customer_id IS DISTINCT FROM OLD.customer_id OR NEW.key_hash <> OLD.key_hash THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    IF OLD.status IN ('PAID', 'FAILED') AND (NEW.tx_hash, NEW.fee, NEW.proof_id) IS DISTINCT FROM (OLD.tx_hash, OLD.fee, OLD.proof_id)
       AND (NEW.tx_hash IS DISTINCT FROM OLD.tx_hash
            OR NEW.proof_id IS NOT DISTINCT FROM OLD.proof_id
            OR EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id)
            OR NOT EXISTS (SELECT FROM finality_live p WHERE p.chain = NEW.chain AND p.proof_id = NEW.proof_id)) THEN
        RAISE EXCEPTION 'order % is %', OLD.order_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_end_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_end_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_end_keep();

CREATE FUNCTION dispatch_orders_terms_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.fee_deducted, NEW.fee_max, NEW.product, NEW.whitelisted_address_id, NEW.from_wallet_id, NEW.trigger)
       IS DISTINCT FROM (OLD.fee_deducted, OLD.fee_max, OLD.product, OLD.whitelisted_address_id, OLD.from_wallet_id, OLD.trigger) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_terms_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_terms_keep();

-- An order ends on a live proof.
CREATE FUNCTION dispatch_orders_proof_live() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    forked bigint;
BEGIN
    IF NEW.status NOT IN ('PAID', 'FAILED')
       OR TG_OP = 'UPDATE' AND (NEW.status, NEW.proof_id) IS NOT DISTINCT FROM (OLD.status, OLD.proof_id) THEN
        RETURN NEW;
    END IF;
    SELECT c.forked_above INTO forked FROM scan_cursors c WHERE c.chain = NEW.chain FOR KEY SHARE;
    IF NEW.proof_id IS NOT NULL
       AND NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = NEW.proof_id AND (forked IS NULL OR p.height <= forked)) THEN
        RAISE EXCEPTION 'the proof of order % is dead', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_proof_live';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_proof_live BEFORE INSERT OR UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_proof_live();

-- A payment or return is where its cause is.
CREATE FUNCTION dispatch_orders_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now     text;
    in_step boolean;
BEGIN
    SELECT status INTO now FROM dispatch_orders WHERE order_id = NEW.order_id;
    IF NEW.purpose = 'PAYMENT' THEN
        SELECT withdrawal_in_step(status, end_status, now) INTO in_step FROM withdrawals WHERE withdrawal_id = NEW.order_id;
    ELSE
        SELECT resolution_in_step(decision, status, now) INTO in_step FROM deposit_resolutions WHERE resolution_id = NEW.order_id;
    END IF;
    IF in_step IS NOT TRUE THEN
        RAISE EXCEPTION 'order % is %, and its cause is somewhere else', NEW.order_id, now
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_in_step';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_in_step_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose IN ('PAYMENT', 'RETURN')) EXECUTE FUNCTION dispatch_orders_follow();
CREATE CONSTRAINT TRIGGER dispatch_orders_in_step_move AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose IN ('PAYMENT', 'RETURN') AND OLD.status <> NEW.status)
    EXECUTE FUNCTION dispatch_orders_follow();

-- The end of an order was charged, and the fee that its withdrawal kept back was posted.
CREATE FUNCTION dispatch_orders_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    o      record;
    posted text[] := ARRAY(SELECT cause_kind FROM ledger_transfers
        WHERE cause_kind IN ('NETWORK_FEE', 'WITHDRAWAL_FEE', 'FEE_PREPAID') AND cause_id = NEW.order_id);
    broken text;
BEGIN
    SELECT status, fee, status = 'PAID' AND fee_deducted > 0 AS kept, product INTO o FROM dispatch_orders WHERE order_id = NEW.order_id;
    broken := CASE
        WHEN o.fee > 0 AND cardinality(array_positions(posted, 'NETWORK_FEE')) <> 2 THEN 'dispatch_orders_charged'
        WHEN o.kept AND 'WITHDRAWAL_FEE' <> ALL (posted) THEN 'dispatch_orders_fee_kept'
        WHEN o.kept AND o.product IS NOT NULL AND 'FEE_PREPAID' <> ALL (posted) THEN 'dispatch_orders_fee_prepaid'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'order % is %, and the books lack its fee', NEW.order_id, o.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_booked_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status IN ('PAID', 'FAILED')) EXECUTE FUNCTION dispatch_orders_book();
CREATE CONSTRAINT TRIGGER dispatch_orders_booked_move AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NEW.status IN ('PAID', 'FAILED'))
    EXECUTE FUNCTION dispatch_orders_book();

-- Several payments in one transaction (decision 0056): one order leads, and has the slot
-- and the attempts. The others name it, from the moment they get the slot.
CREATE FUNCTION dispatch_orders_tx_lead_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.tx_lead_id IS DISTINCT FROM OLD.tx_lead_id AND (OLD.tx_lead_id IS NOT NULL OR (OLD.status, NEW.status) <> ('QUEUED', 'SLOTTED')) THEN
        RAISE EXCEPTION 'order % has its slot as it got it', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_tx_lead_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_tx_lead_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_tx_lead_keep();

-- All orders of a slot are where their lead is, with its transaction. One transaction pays all
-- or none, so they end together, except for stuck ones that a person decides one by one.
CREATE FUNCTION dispatch_orders_tx_whole() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lead  text := coalesce(NEW.tx_lead_id, NEW.order_id);
    slots integer;
    now   record;
BEGIN
    SELECT orders INTO slots FROM dispatch_slots WHERE order_id = lead;
    IF coalesce(slots, 1) = 1 AND NEW.tx_lead_id IS NULL THEN
        RETURN NULL; -- alone, or without a slot
    END IF;
    SELECT count(*) FILTER (WHERE o.tx_lead_id IS NULL) AS leads, count(*) AS orders, count(DISTINCT o.status) AS statuses,
        count(DISTINCT (o.tx_hash, o.org_id)) AS transactions, count(DISTINCT o.purpose) AS purposes,
        bool_and(o.status IN ('PAID', 'FAILED', 'STUCK')) AS final
    INTO now FROM dispatch_orders o WHERE o.order_id = lead OR o.tx_lead_id = lead;
    IF (now.orders, now.leads, now.purposes, now.transactions) IS DISTINCT FROM (slots::bigint, 1::bigint, 1::bigint, 1::bigint)
        OR now.statuses <> 1 AND (NOT now.final OR TG_OP = 'INSERT' OR OLD.status <> 'STUCK') THEN
        RAISE EXCEPTION 'the % orders in the slot of % do not stand together', now.orders, lead
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_tx_whole';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_tx_whole AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status OR OLD.tx_hash IS DISTINCT FROM NEW.tx_hash)
    EXECUTE FUNCTION dispatch_orders_tx_whole();
CREATE CONSTRAINT TRIGGER dispatch_orders_tx_whole_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.tx_lead_id IS NOT NULL) EXECUTE FUNCTION dispatch_orders_tx_whole();
CREATE TRIGGER dispatch_orders_as_inserted BEFORE UPDATE OF created_at ON dispatch_orders
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What an order cost and when, and by what authority it is paid, is written when its status
-- changes. Only its fee and proof change after its end, when another block proves it.
CREATE TRIGGER dispatch_orders_written_once BEFORE UPDATE ON dispatch_orders FOR EACH ROW
    WHEN (NEW.status = OLD.status AND (
        (NEW.tx_hash, NEW.rent, NEW.payee_failed, NEW.broadcast_at, NEW.ended_at, NEW.authority)
            IS DISTINCT FROM (OLD.tx_hash, OLD.rent, OLD.payee_failed, OLD.broadcast_at, OLD.ended_at, OLD.authority)
        OR OLD.status NOT IN ('PAID', 'FAILED') AND (NEW.fee, NEW.proof_id) IS DISTINCT FROM (OLD.fee, OLD.proof_id)
        OR OLD.status IN ('PAID', 'FAILED') AND (NEW.missing_amount, NEW.funds_pending) IS DISTINCT FROM (OLD.missing_amount, OLD.funds_pending)
        OR OLD.status = 'WITHDRAWN'
            AND (NEW.waiting_for, NEW.missing_amount, NEW.last_error, NEW.attempt_after, NEW.funds_pending)
                IS DISTINCT FROM (OLD.waiting_for, OLD.missing_amount, OLD.last_error, OLD.attempt_after, OLD.funds_pending)))
    EXECUTE FUNCTION refuse_row_change();

-- The ended orders whose proof is dead. They stay ended, and are in question until the same
-- transaction is proven again. A break kills no proof above the tip that was scanned by
-- then, so the view reads no more blocks than were taken back.
CREATE VIEW dispatch_reorged WITH (security_invoker = true) AS
SELECT DISTINCT o.order_id, o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.status, o.waiting_for, o.from_wallet_id
FROM finality_breaks b
JOIN finality_proofs p ON p.chain = b.chain AND p.fork < b.fork
    AND p.height > b.ancestor_height AND p.height <= b.tip_height
JOIN dispatch_orders o ON o.chain = p.chain AND o.proof_id = p.proof_id
WHERE o.status IN ('PAID', 'FAILED');
SELECT coffer_shared('dispatch_reorged', 'SELECT', 'SELECT');

-- A wallet's account on a chain: the next number that no slot has.
CREATE TABLE dispatch_accounts (
    wallet_id  text NOT NULL,
    chain      text NOT NULL,
    org_id     text NOT NULL,
    next_nonce bigint NOT NULL,
    last_nonce bigint GENERATED ALWAYS AS (nullif(next_nonce, 0) - 1) STORED,
    CONSTRAINT dispatch_accounts_pkey PRIMARY KEY (wallet_id, chain),
    CONSTRAINT dispatch_accounts_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_accounts_not_negative CHECK (next_nonce >= 0)
);
SELECT coffer_tenant('dispatch_accounts', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION dispatch_accounts_forward() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.org_id) IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.org_id) OR NEW.next_nonce < OLD.next_nonce THEN
        RAISE EXCEPTION 'the nonces of wallet % only grow', OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_accounts_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_accounts_forward BEFORE UPDATE ON dispatch_accounts
    FOR EACH ROW EXECUTE FUNCTION dispatch_accounts_forward();

-- The 32 bytes that a base58 text stands for; NULL: it stands for none.
CREATE FUNCTION base58_32(t text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    n numeric := 0;
    digit integer;
    b bytea := decode(repeat('00', 32), 'hex');
BEGIN
    IF length(t) NOT BETWEEN 32 AND 44 THEN
        RETURN NULL;
    END IF;
    FOR i IN 1..length(t) LOOP
        digit := strpos('123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz', substr(t, i, 1)) - 1;
        IF digit < 0 THEN
            RETURN NULL;
        END IF;
        n := n * 58 + digit;
    END LOOP;
    FOR i IN REVERSE 31..0 LOOP
        b := set_byte(b, i, mod(n, 256)::integer);
        n := div(n, 256);
    END LOOP;
    RETURN CASE WHEN n = 0 THEN b END; -- a remainder means that it has more than 32 bytes
END $$;

CREATE TABLE dispatch_slots (
    wallet_id     text NOT NULL,
    chain         text NOT NULL,
    nonce         bigint NOT NULL,
    org_id        text NOT NULL,
    order_id      text NOT NULL,
    gas_reserved  numeric(78,0) NOT NULL,     -- of the wallet's gas, until the slot ends
    created_at    timestamptz NOT NULL,
    -- Since when the slot's nonce is used, finally, by no transaction of ours. A service that
    -- restarts over and over would otherwise never report it.
    missing_since timestamptz,
    -- What the chain calls the slot: '' for an account nonce, a nonce account and its value on
    -- Solana (decision 0047), the UTXOs and the change address on Bitcoin
    -- (decision 0053).
    slot_key      text NOT NULL DEFAULT '',
    orders        integer NOT NULL DEFAULT 1, -- how many orders the slot is for
    -- The hash of the block from which the nonce value was derived: of several transactions in
    -- the slot, Solana mines one only if the value is that of a nonce account and no block's
    -- hash (decision 0070). '' for other chains, and until the proof is looked up.
    proof         text NOT NULL DEFAULT '',
    -- Rule WD-7.
    CONSTRAINT dispatch_slots_pkey PRIMARY KEY (wallet_id, chain, nonce),
    CONSTRAINT dispatch_slots_order_once UNIQUE (order_id),
    CONSTRAINT dispatch_slots_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_slots_wallet
        FOREIGN KEY (order_id, wallet_id, chain) REFERENCES dispatch_orders (order_id, wallet_id, chain),
    CONSTRAINT dispatch_slots_nonce_not_negative CHECK (nonce >= 0),
    CONSTRAINT dispatch_slots_orders CHECK (orders >= 1),
    CONSTRAINT dispatch_slots_proven CHECK (proof = '' OR (chain = 'SOLANA'
        AND sha256('DURABLE_NONCE'::bytea || base58_32(proof)) = base58_32(split_part(slot_key, ' ', 2))) IS TRUE)
);
-- A position of a chain is given out once. The index has a hash, because the text of many UTXOs
-- is longer than an index entry may be.
CREATE UNIQUE INDEX dispatch_slots_key_once ON dispatch_slots (chain, md5(slot_key)) WHERE slot_key <> '';
-- The change address is the last word of a slot key, and belongs to one slot. Rule COIN-9.
CREATE UNIQUE INDEX dispatch_slots_change_once ON dispatch_slots (chain, split_part(slot_key, ' ', -1))
    WHERE is_utxo(chain);
-- Which orders used or created a nonce account last: the blocks in which they ended prove its
-- present value.
CREATE INDEX dispatch_slots_at ON dispatch_slots (chain, split_part(slot_key, ' ', 1), nonce DESC) WHERE chain = 'SOLANA';
SELECT coffer_tenant('dispatch_slots', 'SELECT', 'SELECT, INSERT, UPDATE');

-- The counter is right behind the last slot: a number without a slot would hold up every
-- later one.
ALTER TABLE dispatch_accounts ADD CONSTRAINT dispatch_accounts_slotted FOREIGN KEY (wallet_id, chain, last_nonce)
    REFERENCES dispatch_slots DEFERRABLE INITIALLY DEFERRED;
-- An order that may be signed has a slot, in a group that of its lead. dispatch_slots_follow and
-- dispatch_orders_keep see to it that no other order has one.
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_slotted FOREIGN KEY (slot_order_id)
    REFERENCES dispatch_slots (order_id) DEFERRABLE INITIALLY DEFERRED;

-- A slot stays with its order and gives back no gas before it ends. A proof is written once.
CREATE FUNCTION dispatch_slots_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.nonce, NEW.slot_key, NEW.org_id, NEW.order_id)
       IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.nonce, OLD.slot_key, OLD.org_id, OLD.order_id)
       OR OLD.proof <> '' AND NEW.proof <> OLD.proof
       OR NEW.gas_reserved < OLD.gas_reserved THEN
        RAISE EXCEPTION 'slot % of wallet % is written once', OLD.nonce, OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_slots_keep BEFORE UPDATE ON dispatch_slots FOR EACH ROW EXECUTE FUNCTION dispatch_slots_keep();

-- The number of orders is known when the slot is written: no order joins later.
CREATE FUNCTION dispatch_slots_orders_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.orders <> OLD.orders THEN
        RAISE EXCEPTION 'slot % of wallet % is for % orders', OLD.nonce, OLD.wallet_id, OLD.orders
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_orders_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_slots_orders_keep BEFORE UPDATE ON dispatch_slots
    FOR EACH ROW EXECUTE FUNCTION dispatch_slots_orders_keep();

-- A slot is of an order that may be signed, and the counter has passed it. All of a consolidation
-- comes back to the change wallet that the order names.
CREATE FUNCTION dispatch_slots_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT status FROM dispatch_orders WHERE order_id = NEW.order_id) IN ('QUEUED', 'REFUSED', 'WITHDRAWN')
        OR NOT EXISTS (SELECT FROM dispatch_accounts WHERE wallet_id = NEW.wallet_id AND chain = NEW.chain AND next_nonce > NEW.nonce) THEN
        RAISE EXCEPTION 'slot % of wallet % is of an order without one, or not counted', NEW.nonce, NEW.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_counted';
    END IF;
    IF EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.order_id AND purpose = 'MERGE' AND to_address <> split_part(NEW.slot_key, ' ', -1)) THEN
        RAISE EXCEPTION 'consolidation % does not come back to the wallet that it names', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_consolidated';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_slots_counted AFTER INSERT ON dispatch_slots DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION dispatch_slots_follow();

-- On a UTXO chain the change comes back to a change wallet of the organization.
CREATE FUNCTION dispatch_slots_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM wallets w WHERE w.family = 'BITCOIN' AND w.address = split_part(NEW.slot_key, ' ', -1)
        AND w.org_id = NEW.org_id AND w.purpose = 'CHANGE') THEN
        RAISE EXCEPTION 'the change of order % comes back to no wallet of its organization for change', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_change';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_slots_change BEFORE INSERT ON dispatch_slots
    FOR EACH ROW WHEN (is_utxo(NEW.chain)) EXECUTE FUNCTION dispatch_slots_change();
CREATE TRIGGER dispatch_slots_as_inserted BEFORE UPDATE OF created_at ON dispatch_slots
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The transactions of a slot: the first one and its replacements.
CREATE TABLE dispatch_attempts (
    order_id         text NOT NULL,
    version          integer NOT NULL,
    org_id           text NOT NULL,
    act              text NOT NULL,
    gas_limit        bigint NOT NULL,
    tip_cap          numeric(78,0) NOT NULL,
    fee_cap          numeric(78,0) NOT NULL,
    payload          bytea NOT NULL, -- the complete unsigned transaction
    raw              bytea,          -- the signed one
    tx_hash          text,
    created_at       timestamptz NOT NULL,
    signed_at        timestamptz,
    sent_at          timestamptz,    -- when a provider was first asked to take it
    last_sent_at     timestamptz,
    last_answer      text,
    replace_reason   text,           -- why it replaces another; NULL: the first of a slot, or restored
    -- What it may cost in addition to gas: the whole fee, where a fee has no price per unit.
    non_gas_fee      numeric(78,0) NOT NULL DEFAULT 0,
    last_valid_block bigint,         -- the last block that it can be in; NULL: it does not expire
    CONSTRAINT dispatch_attempts_pkey PRIMARY KEY (order_id, version),
    CONSTRAINT dispatch_attempts_hash_unique UNIQUE (tx_hash),
    CONSTRAINT dispatch_attempts_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_attempts_act_known CHECK (act IN ('PAY', 'CANCEL')),
    CONSTRAINT dispatch_attempts_signed_whole CHECK (num_nonnulls(raw, tx_hash, signed_at) IN (0, 3)),
    -- A transaction is stored before it is sent.
    CONSTRAINT dispatch_attempts_stored_before_sent CHECK (sent_at IS NULL OR raw IS NOT NULL),
    CONSTRAINT dispatch_attempts_replace_reason_known CHECK (replace_reason IN ('FEE', 'OPERATOR', 'REFUSAL', 'LAPSE')),
    CONSTRAINT dispatch_attempts_last_valid_block_counted CHECK (last_valid_block > 0)
);
SELECT coffer_tenant('dispatch_attempts', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION dispatch_attempts_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.payload IS DISTINCT FROM OLD.payload OR NEW.act <> OLD.act
       OR (OLD.raw IS NOT NULL AND (NEW.raw, NEW.tx_hash) IS DISTINCT FROM (OLD.raw, OLD.tx_hash)) THEN
        RAISE EXCEPTION 'attempt % of order % is written once', OLD.version, OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_attempts_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_attempts_keep BEFORE UPDATE ON dispatch_attempts
    FOR EACH ROW EXECUTE FUNCTION dispatch_attempts_keep();
CREATE TRIGGER dispatch_attempts_as_inserted
    BEFORE UPDATE OF order_id, version, org_id, gas_limit, fee_cap, tip_cap, replace_reason, non_gas_fee, created_at ON dispatch_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER dispatch_attempts_written_once BEFORE UPDATE ON dispatch_attempts FOR EACH ROW
    WHEN (OLD.signed_at IS NOT NULL AND NEW.signed_at IS DISTINCT FROM OLD.signed_at
        OR OLD.sent_at IS NOT NULL AND NEW.sent_at IS DISTINCT FROM OLD.sent_at
        OR OLD.last_valid_block IS NOT NULL AND NEW.last_valid_block IS DISTINCT FROM OLD.last_valid_block)
    EXECUTE FUNCTION refuse_row_change();

-- A recalled order without a slot, and the entry of the signer's journal that voids it
-- (decision 0075). The row is written with WITHDRAWN, and the entry once the signer has
-- answered.
CREATE TABLE dispatch_voids (
    order_id    text PRIMARY KEY,
    org_id      text NOT NULL,
    asked_at    timestamptz NOT NULL,
    journal_id  text,
    journal_seq bigint,
    voided_at   timestamptz,
    CONSTRAINT dispatch_voids_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_voids_entry FOREIGN KEY (journal_id, journal_seq) REFERENCES signer_journal (journal_id, seq),
    CONSTRAINT dispatch_voids_whole CHECK (num_nonnulls(journal_id, journal_seq, voided_at) IN (0, 3))
);
CREATE INDEX dispatch_voids_open ON dispatch_voids (asked_at) WHERE journal_seq IS NULL;
SELECT coffer_tenant('dispatch_voids', 'SELECT, INSERT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION dispatch_voids_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    entry jsonb;
BEGIN
    IF TG_OP = 'UPDATE' AND ((NEW.order_id, NEW.org_id, NEW.asked_at) IS DISTINCT FROM (OLD.order_id, OLD.org_id, OLD.asked_at) OR OLD.journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'the void of order % is what it was', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_fixed';
    END IF;
    IF NOT EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.order_id AND status = 'WITHDRAWN' AND purpose IN ('PAYMENT', 'RETURN')) THEN
        RAISE EXCEPTION 'order % was not taken back', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_withdrawn';
    END IF;
    IF NEW.journal_seq IS NOT NULL THEN
        SELECT convert_from(body, 'UTF8')::jsonb INTO entry FROM signer_journal WHERE journal_id = NEW.journal_id AND seq = NEW.journal_seq;
        IF (entry->>'kind', entry->'void'->>'id', entry->'void'->>'orgId') IS DISTINCT FROM ('VOID', NEW.order_id, NEW.org_id) THEN
            RAISE EXCEPTION 'entry % of the journal does not void order %', NEW.journal_seq, NEW.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_by_entry';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_voids_keep BEFORE INSERT OR UPDATE ON dispatch_voids
    FOR EACH ROW EXECUTE FUNCTION dispatch_voids_keep();
CREATE TRIGGER dispatch_voids_stay BEFORE DELETE OR TRUNCATE ON dispatch_voids
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 17_utxos.sql

-- UTXOs of ours on Bitcoin: which exist, and which payment spends which
-- (decision 0055).

-- An output of a final transaction that pays one of our wallets.
--
--   HELD      may not be chosen: its deposit waits, is flagged or is dust, or the order whose
--             change it is has not ended
--   FREE      any payment of the organization may spend it
--   RESERVED  it is in the slot of an order, and only a proof takes it from there
--   SPENT     spent by that order's transaction, finally
--   GONE      finality broke, and its block is not on the chain
CREATE TABLE utxos (
    chain         text NOT NULL,
    outpoint      text NOT NULL, -- the transaction and the number of the output
    org_id        text NOT NULL,
    wallet_id     text NOT NULL, -- the wallet whose key spends it
    mint_id       integer NOT NULL REFERENCES mints,
    amount        numeric(78,0) NOT NULL,
    status        text NOT NULL,
    deposit_id    text,          -- the deposit that it is
    change_of     text,          -- or the order whose change it is
    order_id      text,          -- the order that spends it; of a HELD one, the return that it is kept for
    spent_tx_hash text,          -- the transaction
    proof_id      bigint,        -- of its block; NULL: only the signer's journal knows it yet
    height        bigint,
    created_at    timestamptz NOT NULL,
    CONSTRAINT utxos_pkey PRIMARY KEY (chain, outpoint),
    CONSTRAINT utxos_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT utxos_deposit FOREIGN KEY (deposit_id) REFERENCES deposits (deposit_id),
    CONSTRAINT utxos_change FOREIGN KEY (org_id, change_of) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT utxos_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT utxos_proof FOREIGN KEY (chain, proof_id) REFERENCES finality_proofs (chain, proof_id),
    CONSTRAINT utxos_on_utxo_chain CHECK (is_utxo(chain)),
    CONSTRAINT utxos_positive CHECK (amount > 0),
    CONSTRAINT utxos_status_known CHECK (status IN ('HELD', 'FREE', 'RESERVED', 'SPENT', 'GONE')),
    CONSTRAINT utxos_one_origin CHECK (
        num_nonnulls(deposit_id, change_of) = CASE WHEN proof_id IS NULL THEN 0 ELSE 1 END),
    CONSTRAINT utxos_proven CHECK (
        (proof_id IS NULL) = (height IS NULL) AND (proof_id IS NOT NULL OR status IN ('RESERVED', 'SPENT'))),
    CONSTRAINT utxos_of_one_order CHECK (
        CASE status
            WHEN 'FREE' THEN order_id IS NULL
            WHEN 'RESERVED' THEN order_id IS NOT NULL
            WHEN 'SPENT' THEN order_id IS NOT NULL
            ELSE true
        END),
    CONSTRAINT utxos_spent_tx_hash CHECK ((status = 'SPENT') = (spent_tx_hash IS NOT NULL))
);
CREATE INDEX utxos_free ON utxos (org_id, chain, mint_id, amount DESC, outpoint) WHERE status = 'FREE';
CREATE INDEX utxos_of_order ON utxos (order_id) WHERE order_id IS NOT NULL;
CREATE INDEX utxos_of_change ON utxos (change_of) WHERE change_of IS NOT NULL;
CREATE INDEX utxos_of_deposit ON utxos (deposit_id) WHERE deposit_id IS NOT NULL;
CREATE INDEX utxos_of_wallet ON utxos (wallet_id);
CREATE INDEX utxos_above ON utxos (chain, height);
SELECT coffer_tenant('utxos', 'SELECT', 'SELECT, INSERT, UPDATE');

-- A UTXO stays the output that it is, and moves from state to state as the service's table
-- says, each time for a reason that another row states. Rule COIN-4.
CREATE FUNCTION utxos_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    o record;
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.chain, NEW.outpoint, NEW.org_id, NEW.wallet_id, NEW.mint_id, NEW.amount)
       IS DISTINCT FROM (OLD.chain, OLD.outpoint, OLD.org_id, OLD.wallet_id, OLD.mint_id, OLD.amount) THEN
        RAISE EXCEPTION 'output % cannot become another', OLD.outpoint
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_fixed';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
        ('HELD', 'FREE'), ('HELD', 'RESERVED'), ('FREE', 'RESERVED'), ('RESERVED', 'SPENT'),
        ('HELD', 'GONE'), ('FREE', 'GONE'), ('RESERVED', 'GONE'), ('GONE', 'SPENT'), ('GONE', 'HELD'), ('GONE', 'FREE'), ('GONE', 'RESERVED')) THEN
        RAISE EXCEPTION 'output % is %', OLD.outpoint, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_moves';
    END IF;
    -- An order keeps its UTXO until that is spent or its block is gone. No order takes it from another.
    IF TG_OP = 'UPDATE' AND OLD.status IN ('RESERVED', 'SPENT') AND NEW.order_id IS DISTINCT FROM OLD.order_id THEN
        RAISE EXCEPTION 'output % is order %''s', OLD.outpoint, OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_kept';
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.status = 'SPENT' AND NEW.spent_tx_hash <> OLD.spent_tx_hash THEN
        RAISE EXCEPTION 'output % is spent by %', OLD.outpoint, OLD.spent_tx_hash
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_spent_once';
    END IF;
    -- It is the movement of its deposit, or the change of the order's own transaction.
    IF NEW.deposit_id IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.deposit_id IS DISTINCT FROM OLD.deposit_id) AND NOT EXISTS (
        SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id
            AND (d.chain, d.tx_hash || ':' || d.position, d.org_id, d.wallet_id, d.mint_id, d.amount)
                = (NEW.chain, NEW.outpoint, NEW.org_id, NEW.wallet_id, NEW.mint_id, NEW.amount)) THEN
        RAISE EXCEPTION 'output % is not deposit %', NEW.outpoint, NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_as_deposited';
    END IF;
    IF NEW.change_of IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.change_of IS DISTINCT FROM OLD.change_of) AND NOT EXISTS (
        SELECT FROM wallets w JOIN dispatch_slots s ON s.order_id = NEW.change_of AND split_part(s.slot_key, ' ', -1) = w.address
            JOIN dispatch_attempts a ON a.order_id = s.order_id
        WHERE w.wallet_id = NEW.wallet_id AND w.purpose = 'CHANGE' AND a.tx_hash = split_part(NEW.outpoint, ':', 1)) THEN
        RAISE EXCEPTION 'output % is not the change of order %', NEW.outpoint, NEW.change_of
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_as_change';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status = OLD.status THEN
        RETURN NEW;
    END IF;
    IF NEW.order_id IS NOT NULL THEN
        SELECT d.status, d.tx_hash, d.funds_pending, s.slot_key INTO o
        FROM dispatch_orders d LEFT JOIN dispatch_slots s USING (order_id) WHERE d.order_id = NEW.order_id;
    END IF;
    CASE NEW.status
    WHEN 'FREE' THEN
        IF NOT EXISTS (SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id AND d.status = 'CREDITED')
           AND NOT EXISTS (SELECT FROM dispatch_orders c WHERE c.order_id = NEW.change_of AND c.status IN ('PAID', 'FAILED')) THEN
            RAISE EXCEPTION 'output % is not free yet', NEW.outpoint
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_free_when_counted';
        END IF;
    WHEN 'RESERVED' THEN
        -- A HELD UTXO leaves only by the return that it is kept for. One that the signer's journal
        -- names was released after the backup that was restored.
        IF (TG_OP = 'INSERT' OR OLD.status = 'HELD' AND OLD.order_id IS DISTINCT FROM NEW.order_id) AND NOT o.funds_pending
           OR coalesce(strpos(o.slot_key, NEW.outpoint || ':'), 0) = 0 THEN
            RAISE EXCEPTION 'output % is not in the slot of order %, or held', NEW.outpoint, NEW.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_reserved_by_slot';
        END IF;
    WHEN 'SPENT' THEN
        IF (o.status IN ('PAID', 'FAILED') AND o.tx_hash = NEW.spent_tx_hash) IS NOT TRUE THEN
            RAISE EXCEPTION 'output % is not spent, by all that is proven', NEW.outpoint
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_spent_when_proven';
        END IF;
    ELSE NULL;
    END CASE;
    RETURN NEW;
END $$;
CREATE TRIGGER utxos_keep BEFORE INSERT OR UPDATE ON utxos FOR EACH ROW EXECUTE FUNCTION utxos_keep();
CREATE TRIGGER utxos_stay BEFORE DELETE OR TRUNCATE ON utxos FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whether a slot key names a UTXO with its amount and its address.
CREATE FUNCTION slot_key_names(slot_key text, outpoint text, amount numeric, holder text) RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN strpos(' ' || slot_key, format(' %s:%s:%s ', outpoint, amount, holder)) > 0;

-- A slot has exactly the UTXOs that it names: reserved when it is written, spent when its order
-- has ended. The check reads an order's UTXOs twice in its life. Between the two,
-- utxos_in_slot checks every change of a UTXO. Rule COIN-7.
CREATE FUNCTION utxos_match_slot() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    want text := CASE TG_TABLE_NAME WHEN 'dispatch_slots' THEN 'RESERVED' ELSE 'SPENT' END;
    s    record;
    has  record;
BEGIN
    SELECT order_id, chain, org_id, slot_key, cardinality(string_to_array(slot_key, ' ')) - 1 AS names INTO s FROM dispatch_slots WHERE order_id = NEW.order_id;
    IF NOT FOUND THEN
        RETURN NULL; -- the order has the slot of its lead
    END IF;
    SELECT count(*) AS utxos, count(*) FILTER (WHERE (c.status, c.chain, c.org_id) = (want, s.chain, s.org_id)
        AND slot_key_names(s.slot_key, c.outpoint, c.amount, w.address)) AS named
    INTO has FROM utxos c JOIN wallets w USING (wallet_id) WHERE c.order_id = s.order_id AND c.status IN ('RESERVED', 'SPENT');
    IF s.names < 1 OR (has.utxos, has.named) IS DISTINCT FROM (s.names::bigint, s.names::bigint) THEN
        RAISE EXCEPTION 'the slot of order % names % outputs and has %, of which % are % as it names them', s.order_id, s.names, has.utxos, has.named, want
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_match_slot';
    END IF;
    RETURN NULL;
END $$;
-- PostgreSQL fires the triggers of a table by their names. These come before the checks of the
-- order, so that a wrong set of UTXOs is named as such.
CREATE CONSTRAINT TRIGGER dispatch_slots_chosen_utxos AFTER INSERT ON dispatch_slots DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (is_utxo(NEW.chain)) EXECUTE FUNCTION utxos_match_slot();
CREATE CONSTRAINT TRIGGER dispatch_orders_chosen_utxos AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (is_utxo(NEW.chain) AND OLD.status <> NEW.status AND NEW.status IN ('PAID', 'FAILED'))
    EXECUTE FUNCTION utxos_match_slot();

-- The other direction: a UTXO that changes its order or state is in the slot of the order that
-- has it, and not in the slot of the order that had it. Rule COIN-7.
CREATE FUNCTION utxos_in_slot() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    c   record;
    s   record;
    had text := CASE TG_OP WHEN 'UPDATE' THEN OLD.order_id END;
BEGIN
    SELECT n.outpoint, n.amount, n.status, n.order_id, w.address INTO c
    FROM utxos n JOIN wallets w USING (wallet_id) WHERE n.chain = NEW.chain AND n.outpoint = NEW.outpoint;
    IF c.status IN ('RESERVED', 'SPENT') THEN
        SELECT l.slot_key, o.status IN ('PAID', 'FAILED') AS ended INTO s FROM dispatch_slots l JOIN dispatch_orders o USING (order_id) WHERE l.order_id = c.order_id;
        IF (slot_key_names(s.slot_key, c.outpoint, c.amount, c.address) AND (c.status = 'SPENT') = s.ended) IS NOT TRUE THEN
            RAISE EXCEPTION 'output % is % and not in the slot of order %, or that has ended', c.outpoint, c.status, c.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_in_slot';
        END IF;
    END IF;
    IF had IS NOT NULL AND (c.order_id IS DISTINCT FROM had OR c.status IN ('HELD', 'FREE'))
        AND EXISTS (SELECT FROM dispatch_slots l WHERE l.order_id = had AND slot_key_names(l.slot_key, c.outpoint, c.amount, c.address)) THEN
        RAISE EXCEPTION 'output % is in the slot of order %', c.outpoint, had
            USING ERRCODE = 'check_violation', CONSTRAINT = 'utxos_in_slot';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER utxos_in_slot_begin AFTER INSERT ON utxos DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.order_id IS NOT NULL) EXECUTE FUNCTION utxos_in_slot();
CREATE CONSTRAINT TRIGGER utxos_in_slot AFTER UPDATE ON utxos DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.order_id IS NOT NULL OR NEW.order_id IS NOT NULL)
        AND (OLD.status, OLD.order_id) IS DISTINCT FROM (NEW.status, NEW.order_id)) EXECUTE FUNCTION utxos_in_slot();
CREATE TRIGGER utxos_as_inserted BEFORE UPDATE OF created_at ON utxos
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER utxos_written_once BEFORE UPDATE ON utxos FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.spent_tx_hash IS DISTINCT FROM OLD.spent_tx_hash)
    EXECUTE FUNCTION refuse_row_change();

---- 18_treasury.sql

-- Internal orders: the service plans them itself, to keep the treasuries. They are sweeps, gas
-- top-ups, consolidations of UTXOs (decision 0063), and nonce accounts (decision 0050) and token
-- accounts (decision 0065) on Solana that are created and closed.

-- The cause of an internal order. What the order moves, and how far it is, is in the order alone.
-- The role that answers requests inserts orders and cannot insert this row, so it plans no order.
CREATE TABLE internal_orders (
    order_id text NOT NULL,
    org_id   text NOT NULL REFERENCES organizations,
    purpose  text NOT NULL,
    trigger  text NOT NULL,
    CONSTRAINT internal_orders_pkey PRIMARY KEY (order_id, org_id, purpose, trigger),
    CONSTRAINT internal_orders_once UNIQUE (order_id),
    -- The order comes first, in the same transaction: none can be added to a row later.
    CONSTRAINT internal_orders_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT internal_orders_trigger_known CHECK (trigger IN ('VALUE', 'DEMAND', 'PERSON', 'RESTORED'))
);
SELECT coffer_tenant('internal_orders', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER internal_orders_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON internal_orders
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An order without a trigger is a payment or a return, and has the key of its own cause.
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_caused FOREIGN KEY (order_id, org_id, purpose, trigger)
    REFERENCES internal_orders DEFERRABLE INITIALLY DEFERRED;

-- What an internal order is for those who planned it: OPEN, DONE or FAILED. A failed one moved
-- nothing.
CREATE FUNCTION order_outcome(status text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN status = 'PAID' THEN 'DONE' WHEN status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END;

-- A sweep moves what arrived at an address to the treasury.
CREATE VIEW sweeps WITH (security_invoker = true) AS
SELECT order_id AS sweep_id, org_id, chain, coalesce(from_wallet_id, wallet_id) AS wallet_id, to_wallet_id, mint_id, amount,
    trigger, order_outcome(status) AS status, tx_hash, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'SWEEP';
SELECT coffer_shared('sweeps', 'SELECT', 'SELECT');

-- A top-up sends native coin of the operator from the treasury to an address that has to pay
-- for its own sweep.
CREATE VIEW gas_top_ups WITH (security_invoker = true) AS
SELECT order_id AS top_up_id, org_id, chain, to_wallet_id AS wallet_id, amount, order_outcome(status) AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'GAS';
SELECT coffer_shared('gas_top_ups', 'SELECT', 'SELECT');

-- A durable nonce account of a treasury on Solana. Its transactions are sent with the value of
-- one. amount stays in the account; its address is derived from the treasury and a number.
-- FAILED: the chain has another account at the address, permanently. REFUSED: nothing was sent,
-- and the same address may be tried again.
CREATE VIEW nonce_accounts WITH (security_invoker = true) AS
SELECT order_id AS nonce_account_id, org_id, chain, wallet_id, to_address AS address, amount,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') AND NOT payee_failed THEN 'REFUSED' ELSE order_outcome(status) END AS status,
    created_at, ended_at
FROM dispatch_orders WHERE purpose = 'PLACE';
SELECT coffer_shared('nonce_accounts', 'SELECT', 'SELECT');

-- While fees are low, a consolidation makes one UTXO of many small ones. wallet_id is the treasury
-- that pays the fee. FAILED: its slot was used in another way. REFUSED: nothing was sent.
CREATE VIEW consolidations WITH (security_invoker = true) AS
SELECT order_id AS consolidation_id, org_id, chain, wallet_id,
    CASE WHEN status IN ('REFUSED', 'WITHDRAWN') THEN 'REFUSED' ELSE order_outcome(status) END AS status, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'MERGE';
SELECT coffer_shared('consolidations', 'SELECT', 'SELECT');

-- A token account on Solana contains rent that cannot be used until the account is closed. A
-- close frees that of one that has had no deposit for long. amount is the rent when the order was
-- planned, in native units. FAILED: the order left the account as it was.
CREATE VIEW closes WITH (security_invoker = true) AS
SELECT order_id AS close_id, org_id, chain, from_wallet_id AS wallet_id, to_wallet_id, mint_id, amount,
    order_outcome(status) AS status, trigger = 'RESTORED' AS restored, created_at, ended_at
FROM dispatch_orders WHERE purpose = 'CLOSE';
SELECT coffer_shared('closes', 'SELECT', 'SELECT');

---- 19_transfers.sql

-- Transfers: an organization charges a customer, pays one, or moves money between its products.
--
-- A transfer touches no chain, so it has no states: the row exists together with its posting.
-- It is written once and never changes.

-- Transfers are written by the thousand (decision 0022), so the table has no foreign keys:
-- transfers_parties checks all rows of a statement. It has few indexes for lists.
CREATE TABLE transfers (
    transfer_id     text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    request_digest  bytea NOT NULL,
    mint_id         integer NOT NULL,
    amount          numeric(78,0) NOT NULL,
    from_customer   text COLLATE "C",
    from_product    text,
    to_customer     text COLLATE "C",
    to_product      text,
    reference       text,
    metadata        jsonb NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL,
    -- Idempotency keys of calls that move money never expire.
    CONSTRAINT transfers_key_unique UNIQUE (org_id, idempotency_key),
    CONSTRAINT transfers_positive CHECK (
        amount > 0 AND amount < 115792089237316195423570985008687907853269984665640564039457584007913129639936),
    CONSTRAINT transfers_one_from CHECK (num_nonnulls(from_customer, from_product) = 1),
    CONSTRAINT transfers_one_to CHECK (num_nonnulls(to_customer, to_product) = 1),
    CONSTRAINT transfers_two_accounts CHECK ((from_customer, from_product) IS DISTINCT FROM (to_customer, to_product)),
    CONSTRAINT transfers_from_product_known CHECK (from_product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')),
    CONSTRAINT transfers_to_product_known CHECK (to_product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT'))
);
CREATE INDEX transfers_listed ON transfers (org_id, created_at, transfer_id);
CREATE INDEX transfers_of_payer ON transfers (org_id, from_customer, created_at, transfer_id)
    WHERE from_customer IS NOT NULL;
CREATE INDEX transfers_of_payee ON transfers (org_id, to_customer, created_at, transfer_id)
    WHERE to_customer IS NOT NULL;
CREATE INDEX transfers_of_mint ON transfers (org_id, mint_id, created_at, transfer_id);
CREATE INDEX transfers_of_paying_product ON transfers (org_id, from_product, created_at, transfer_id)
    WHERE from_product IS NOT NULL;
CREATE INDEX transfers_of_paid_product ON transfers (org_id, to_product, created_at, transfer_id)
    WHERE to_product IS NOT NULL;
-- Most transfers have no reference.
CREATE INDEX transfers_of_reference ON transfers (org_id, reference, created_at, transfer_id)
    WHERE reference IS NOT NULL;
SELECT coffer_tenant('transfers', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transfers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The parties, the mint and the organization exist. A customer that exists implies its
-- organization.
CREATE FUNCTION transfers_refer() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    lost text;
BEGIN
    SELECT concat_ws(' or ', t.from_customer, t.to_customer, 'mint ' || t.mint_id, t.org_id) INTO lost FROM added t
    WHERE (t.from_customer IS NOT NULL
            AND (SELECT c.created_at FROM public.customers c WHERE c.org_id = t.org_id AND c.customer_id = t.from_customer) IS NULL)
        OR (t.to_customer IS NOT NULL
            AND (SELECT c.created_at FROM public.customers c WHERE c.org_id = t.org_id AND c.customer_id = t.to_customer) IS NULL)
        OR (t.from_customer IS NULL AND t.to_customer IS NULL
            AND (SELECT o.org_id FROM public.organizations o WHERE o.org_id = t.org_id) IS NULL)
        OR (SELECT m.mint_id FROM public.mints m WHERE m.mint_id = t.mint_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'transfers_parties';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER transfers_parties AFTER INSERT ON transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION transfers_refer();

---- 20_events.sql

-- Events: what organizations are told, and its delivery by webhook (decisions 0009, 0028).

-- An event is written in the transaction of the change that it reports. A sequencer numbers it
-- afterwards and creates its deliveries, so that no writer waits for another. Rule EVT-1.
CREATE TABLE events (
    event_id      text PRIMARY KEY,
    org_id        text NOT NULL,
    type          text NOT NULL,
    resource_kind text NOT NULL,
    resource_id   text NOT NULL,
    resource_seq  integer NOT NULL, -- 1, 2, … within the resource
    customer_id   text COLLATE "C",
    chain         text,
    data          bytea NOT NULL,   -- JSON, frozen when the change was made
    created_at    timestamptz NOT NULL,
    sequence      bigint,           -- within the organization, without gaps
    body          bytea,            -- what is signed and sent, frozen with the sequence
    expired_at    timestamptz,      -- when its bytes were removed
    CONSTRAINT events_resource_order UNIQUE (org_id, resource_id, resource_seq),
    -- Rule EVT-4.
    CONSTRAINT events_sequence_unique UNIQUE (org_id, sequence),
    CONSTRAINT events_sequenced_whole CHECK ((sequence IS NULL) = (body IS NULL)),
    CONSTRAINT events_sequence_positive CHECK (sequence >= 1)
);
CREATE INDEX events_to_sequence ON events (event_id) WHERE sequence IS NULL;
CREATE INDEX events_of_type ON events (org_id, type, sequence) WHERE sequence IS NOT NULL;
SELECT coffer_tenant('events',
    'SELECT, INSERT (event_id, org_id, type, resource_kind, resource_id, resource_seq,'
        ' customer_id, chain, data, created_at)',
    'SELECT, INSERT (event_id, org_id, type, resource_kind, resource_id, resource_seq,'
        ' customer_id, chain, data, created_at),'
        ' UPDATE (data, sequence, body, expired_at)');
CREATE TRIGGER events_organization AFTER INSERT ON events
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION organizations_refer();

-- An event is written once. After 90 days its bytes are removed, in the order of the sequence.
-- The row and its number stay. Rule EVT-15.
CREATE FUNCTION events_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.expired_at IS DISTINCT FROM OLD.expired_at THEN
        IF OLD.expired_at IS NOT NULL OR OLD.sequence IS NULL OR NEW.expired_at < OLD.created_at + interval '2160 hours'
           OR (NEW.event_id, NEW.org_id, NEW.type, NEW.resource_id, NEW.resource_seq, NEW.sequence, NEW.data, NEW.body) IS DISTINCT FROM
              (OLD.event_id, OLD.org_id, OLD.type, OLD.resource_id, OLD.resource_seq, OLD.sequence, ''::bytea, ''::bytea) THEN
            RAISE EXCEPTION 'event % keeps its bytes for 90 days, and then loses nothing else', OLD.event_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'events_kept';
        END IF;
    ELSIF (NEW.event_id, NEW.org_id, NEW.type, NEW.resource_id, NEW.resource_seq, NEW.data) IS DISTINCT FROM
       (OLD.event_id, OLD.org_id, OLD.type, OLD.resource_id, OLD.resource_seq, OLD.data)
       OR (OLD.sequence IS NOT NULL AND (NEW.sequence, NEW.body) IS DISTINCT FROM (OLD.sequence, OLD.body)) THEN
        RAISE EXCEPTION 'event % is written once', OLD.event_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'events_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER events_keep BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION events_keep();
CREATE TRIGGER events_as_inserted BEFORE UPDATE OF chain, created_at, customer_id, resource_kind ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE event_sequences (
    org_id  text PRIMARY KEY REFERENCES organizations,
    last    bigint NOT NULL,
    expired bigint NOT NULL DEFAULT 0, -- the bytes of the events up to this number are removed
    CONSTRAINT event_sequences_not_negative CHECK (last >= 0),
    CONSTRAINT event_sequences_expired_bounded CHECK (expired BETWEEN 0 AND last)
);
SELECT coffer_tenant('event_sequences', 'SELECT', 'SELECT, INSERT, UPDATE');
CREATE TRIGGER event_sequences_as_inserted BEFORE UPDATE OF org_id ON event_sequences
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_sequences_forward BEFORE UPDATE ON event_sequences FOR EACH ROW
    WHEN (NEW.last < OLD.last OR NEW.expired < OLD.expired)
    EXECUTE FUNCTION refuse_row_change();

-- Numbers that the sequence of an organization skipped: a lost database may have given them to
-- events that this one does not know.
CREATE TABLE event_gaps (
    org_id     text NOT NULL REFERENCES organizations,
    after      bigint NOT NULL, -- the last number before the gap
    resumed_at bigint NOT NULL, -- the counter after it
    created_at timestamptz NOT NULL,
    CONSTRAINT event_gaps_pkey PRIMARY KEY (org_id, resumed_at),
    CONSTRAINT event_gaps_forward CHECK (after >= 0 AND resumed_at > after)
);
SELECT coffer_tenant('event_gaps', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER event_gaps_as_inserted BEFORE UPDATE ON event_gaps FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE webhook_endpoints (
    endpoint_id        text PRIMARY KEY,
    org_id             text NOT NULL REFERENCES organizations,
    url                text NOT NULL,
    description        text NOT NULL DEFAULT '',
    events             text[] NOT NULL,  -- empty: the events of the interface, without extensions
    status             text NOT NULL,
    api_version        text NOT NULL,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    deleted_at         timestamptz,
    filter_customer_id text COLLATE "C", -- NULL: events of every customer
    filter_chain       text,             -- NULL: events of every chain
    failing_since      timestamptz,      -- the first failed attempt since one succeeded; NULL: not failing
    failed_at          timestamptz,      -- the latest one, to the hour
    restart_at         timestamptz,      -- deliveries that waited at this time get a new schedule; NULL: all have it
    restart_after      timestamptz,      -- how far that has come, along deliveries_due
    restart_id         bigint,
    CONSTRAINT webhook_endpoints_of_org UNIQUE (org_id, endpoint_id),
    CONSTRAINT webhook_endpoints_status_known CHECK (
        status IN ('ENABLED', 'PAUSED', 'DISABLED_GONE', 'DISABLED_BY_FAILURE')),
    CONSTRAINT webhook_endpoints_url_bounded CHECK (octet_length(url) BETWEEN 1 AND 2048),
    CONSTRAINT webhook_endpoints_failing_whole CHECK ((failing_since IS NULL) = (failed_at IS NULL)),
    CONSTRAINT webhook_endpoints_restart_whole CHECK (
        (restart_at IS NULL) = (restart_after IS NULL) AND (restart_at IS NULL) = (restart_id IS NULL))
);
CREATE INDEX webhook_endpoints_listed ON webhook_endpoints (org_id, created_at, endpoint_id) WHERE deleted_at IS NULL;
CREATE INDEX webhook_endpoints_to_restart ON webhook_endpoints (endpoint_id) WHERE restart_at IS NOT NULL;
SELECT coffer_tenant('webhook_endpoints', 'SELECT, INSERT',
    'SELECT, UPDATE (status, failing_since, failed_at, restart_at, restart_after, restart_id, updated_at)');
GRANT UPDATE (url, description, events, filter_customer_id, filter_chain, status, failing_since, failed_at,
    restart_at, restart_after, restart_id, updated_at, deleted_at) ON webhook_endpoints TO coffer_app;
CREATE TRIGGER webhook_endpoints_as_inserted BEFORE UPDATE OF endpoint_id, org_id, api_version, created_at ON webhook_endpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The secrets of an endpoint by version, each sealed for its own row. A replaced secret signs
-- together with its successors until it retires.
CREATE TABLE webhook_secrets (
    endpoint_id text NOT NULL,
    version     integer NOT NULL,
    org_id      text NOT NULL,
    sealed      bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    retires_at  timestamptz, -- NULL: the present one
    CONSTRAINT webhook_secrets_pkey PRIMARY KEY (endpoint_id, version),
    CONSTRAINT webhook_secrets_endpoint FOREIGN KEY (org_id, endpoint_id)
        REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT webhook_secrets_version_positive CHECK (version >= 1)
);
CREATE UNIQUE INDEX webhook_secrets_one_present ON webhook_secrets (endpoint_id) WHERE retires_at IS NULL;
SELECT coffer_tenant('webhook_secrets', 'SELECT, INSERT, UPDATE (retires_at)', 'SELECT, DELETE');
CREATE TRIGGER webhook_secrets_as_inserted BEFORE UPDATE OF endpoint_id, org_id, version, created_at ON webhook_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What an organization asked to be sent again, and how far that has come.
CREATE TABLE webhook_jobs (
    job_id         text PRIMARY KEY,
    org_id         text NOT NULL REFERENCES organizations,
    kind           text NOT NULL,
    endpoint_id    text,                      -- NULL: every endpoint that wants the event
    event_id       text REFERENCES events,    -- of a RESEND
    since          timestamptz,               -- of a RECOVER: events of this time and later
    until          timestamptz,               -- and before this one; NULL: up to the last event at the request
    only_failed    boolean NOT NULL,
    status         text NOT NULL,
    after_sequence bigint NOT NULL,           -- the last sequence that was examined
    last_sequence  bigint NOT NULL,           -- the last that will be
    examined       bigint NOT NULL DEFAULT 0, -- events that the endpoint wants
    queued         bigint NOT NULL DEFAULT 0, -- how many of them were made due
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CONSTRAINT webhook_jobs_endpoint FOREIGN KEY (org_id, endpoint_id)
        REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT webhook_jobs_kind_known CHECK (
        CASE kind
            WHEN 'RESEND' THEN event_id IS NOT NULL AND since IS NULL AND until IS NULL
            WHEN 'RECOVER' THEN event_id IS NULL AND endpoint_id IS NOT NULL AND since IS NOT NULL
            ELSE false
        END),
    CONSTRAINT webhook_jobs_status_known CHECK (status IN ('RUNNING', 'COMPLETED')),
    CONSTRAINT webhook_jobs_ended CHECK ((status = 'COMPLETED') = (ended_at IS NOT NULL)),
    CONSTRAINT webhook_jobs_progress CHECK (after_sequence <= last_sequence AND queued <= examined)
);
CREATE INDEX webhook_jobs_running ON webhook_jobs (created_at, job_id) WHERE status = 'RUNNING';
CREATE UNIQUE INDEX webhook_jobs_one_recovery ON webhook_jobs (endpoint_id)
    WHERE status = 'RUNNING' AND kind = 'RECOVER';
CREATE INDEX webhook_jobs_of_endpoint ON webhook_jobs (endpoint_id, created_at) WHERE kind = 'RECOVER';
CREATE INDEX webhook_jobs_of_event ON webhook_jobs (event_id, created_at) WHERE kind = 'RESEND';
SELECT coffer_tenant('webhook_jobs', 'SELECT, INSERT',
    'SELECT, DELETE, UPDATE (status, after_sequence, examined, queued, updated_at, ended_at)');
CREATE TRIGGER webhook_jobs_as_inserted
    BEFORE UPDATE OF job_id, org_id, kind, endpoint_id, event_id, only_failed, since, until, last_sequence, created_at ON webhook_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A completed job does not change.
CREATE TRIGGER webhook_jobs_written_once BEFORE UPDATE ON webhook_jobs FOR EACH ROW
    WHEN (OLD.status = 'COMPLETED')
    EXECUTE FUNCTION refuse_row_change();

-- One row for each endpoint and event. Only the first open one of each (endpoint, resource) is
-- due. A lease says which process sends it, and attempt_after is the end of the lease
-- meanwhile. A delivery that is sent again keeps its row and its count of attempts, and goes
-- through the schedule from the beginning.
CREATE TABLE deliveries (
    delivery_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id           text NOT NULL,
    endpoint_id      text NOT NULL,
    event_id         text NOT NULL REFERENCES events,
    resource_id      text NOT NULL,
    resource_seq     integer NOT NULL,
    status           text NOT NULL,
    attempts         integer NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    attempt_after    timestamptz NOT NULL,
    first_attempt_at timestamptz,
    leased_until     timestamptz,
    lease            uuid,
    ended_at         timestamptz,
    schedule_base    integer NOT NULL DEFAULT 0, -- attempts before the present run of the schedule
    job_id           text,                       -- the job that last made it due
    CONSTRAINT deliveries_once UNIQUE (endpoint_id, event_id),
    CONSTRAINT deliveries_endpoint FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT deliveries_status_known CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED', 'CANCELLED')),
    CONSTRAINT deliveries_ended CHECK ((status = 'PENDING') = (ended_at IS NULL)),
    CONSTRAINT deliveries_leased_whole CHECK ((leased_until IS NULL) = (lease IS NULL)),
    CONSTRAINT deliveries_schedule_base CHECK (schedule_base BETWEEN 0 AND attempts)
);
CREATE INDEX deliveries_due ON deliveries (endpoint_id, attempt_after, delivery_id) WHERE status = 'PENDING';
CREATE INDEX deliveries_in_order ON deliveries (endpoint_id, resource_id, resource_seq) WHERE status = 'PENDING';
CREATE INDEX deliveries_of_job ON deliveries (job_id) WHERE job_id IS NOT NULL;
SELECT coffer_tenant('deliveries', 'SELECT',
    'SELECT, INSERT, DELETE, UPDATE (status, attempts, attempt_after, first_attempt_at, schedule_base,'
        ' job_id, lease, leased_until, ended_at)');
CREATE TRIGGER deliveries_as_inserted BEFORE UPDATE OF delivery_id, org_id, endpoint_id, event_id, resource_id, resource_seq, created_at ON deliveries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A delivery that ended changes only when it is due again.
CREATE TRIGGER deliveries_written_once BEFORE UPDATE ON deliveries FOR EACH ROW
    WHEN (OLD.status <> 'PENDING' AND NEW.status <> 'PENDING')
    EXECUTE FUNCTION refuse_row_change();

-- The log that an organization reads. One statement writes an attempt and the outcome of the
-- delivery that it has just locked, so no foreign key looks the delivery up again.
CREATE TABLE delivery_attempts (
    delivery_id bigint NOT NULL,
    attempt     integer NOT NULL,
    org_id      text NOT NULL,
    at          timestamptz NOT NULL,
    status_code integer, -- NULL: no answer came
    error       text,
    response    text,    -- the first bytes of the answer
    duration_ms integer NOT NULL,
    endpoint_id text,    -- NULL in the oldest rows, which the log leaves out
    url         text,
    CONSTRAINT delivery_attempts_pkey PRIMARY KEY (delivery_id, attempt)
);
CREATE INDEX delivery_attempts_logged ON delivery_attempts (endpoint_id, at, delivery_id, attempt)
    WHERE endpoint_id IS NOT NULL;
CREATE INDEX delivery_attempts_failed ON delivery_attempts (endpoint_id, at, delivery_id, attempt)
    WHERE endpoint_id IS NOT NULL AND (status_code IS NULL OR status_code < 200 OR status_code > 299);
SELECT coffer_tenant('delivery_attempts', 'SELECT', 'SELECT, INSERT, DELETE');
CREATE TRIGGER delivery_attempts_as_inserted BEFORE UPDATE ON delivery_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Samples that were sent on request. They are no events: they have no sequence and report
-- nothing that happened.
CREATE TABLE webhook_tests (
    event_id    text PRIMARY KEY,
    org_id      text NOT NULL,
    endpoint_id text NOT NULL,
    type        text NOT NULL,
    body        bytea NOT NULL,
    url         text NOT NULL,
    at          timestamptz NOT NULL,
    status_code integer,
    error       text,
    response    text,
    duration_ms integer NOT NULL,
    CONSTRAINT webhook_tests_endpoint FOREIGN KEY (org_id, endpoint_id)
        REFERENCES webhook_endpoints (org_id, endpoint_id)
);
CREATE INDEX webhook_tests_logged ON webhook_tests (endpoint_id, at, event_id);
SELECT coffer_tenant('webhook_tests', 'SELECT, INSERT', 'SELECT, DELETE');
CREATE TRIGGER webhook_tests_as_inserted BEFORE UPDATE ON webhook_tests
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

---- 21_totals.sql

-- The totals of organizations, so that no call sums up every balance (decision 0079).
--
-- Each statement that posts adds a row with the difference that it makes, so no two postings
-- wait for each other. The service folds the differences into one row for each organization
-- and mint. A reader adds the differences that are not folded yet to that row.

CREATE TABLE organization_totals (
    org_id      text NOT NULL,
    mint_id     integer NOT NULL,
    available   numeric NOT NULL, -- what customers may spend
    withdrawing numeric NOT NULL, -- what is held for customers' withdrawals
    addresses   numeric NOT NULL, -- on addresses other than the treasury's
    treasuries  numeric NOT NULL, -- on the treasury's addresses
    dust        numeric NOT NULL, -- the part of both that is below the minimum of its mint and not credited
    CONSTRAINT organization_totals_pkey PRIMARY KEY (org_id, mint_id),
    CONSTRAINT organization_totals_org FOREIGN KEY (org_id) REFERENCES organizations,
    CONSTRAINT organization_totals_mint FOREIGN KEY (mint_id) REFERENCES mints
);
SELECT coffer_tenant('organization_totals', 'SELECT', 'SELECT');
CREATE TRIGGER organization_totals_stay BEFORE UPDATE OF org_id, mint_id OR DELETE OR TRUNCATE ON organization_totals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What one statement changed of the totals and is not folded yet. Rows are only added and
-- deleted. Autovacuum runs by the number of rows, because most of them leave soon.
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
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0);
SELECT coffer_tenant('organization_total_changes', 'SELECT', 'SELECT');
CREATE TRIGGER organization_total_changes_keep BEFORE UPDATE OR TRUNCATE ON organization_total_changes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The owner writes both tables in the functions below and in no other way. The functions read
-- the kind of an account and the purpose of a wallet.
CREATE POLICY keeper ON organization_totals TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY keeper ON organization_total_changes TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY keeper ON ledger_accounts FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY keeper ON wallets FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY keeper ON address_funds FOR SELECT TO CURRENT_USER USING (true);

-- A transfer between two customers changes no total and adds no row. An account is read by its
-- key, whatever the session knew about sizes when it planned.
CREATE FUNCTION ledger_transfers_total() RETURNS trigger LANGUAGE plpgsql
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
CREATE TRIGGER ledger_transfers_total AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_total();

-- A promise or a hold changes no total. The function reads the purpose only of wallets whose
-- holdings changed.
CREATE FUNCTION address_funds_total() RETURNS trigger LANGUAGE plpgsql
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
CREATE TRIGGER address_funds_total_added AFTER INSERT ON address_funds
    REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION address_funds_total();
CREATE TRIGGER address_funds_total_changed AFTER UPDATE ON address_funds
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION address_funds_total();

-- Moves at most that many differences into their totals, in one statement: a reader sees each
-- difference in one of the two tables. Two folds at the same moment take different rows, and
-- lock the totals in one order.
CREATE FUNCTION fold_organization_totals(most integer) RETURNS bigint LANGUAGE sql
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
REVOKE ALL ON FUNCTION ledger_transfers_total(), address_funds_total(), fold_organization_totals(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fold_organization_totals(integer) TO coffer_system;

-- The service compares the version of the schema with its own before it serves.
GRANT SELECT ON goose_db_version TO coffer_reader;
-- +goose StatementEnd
