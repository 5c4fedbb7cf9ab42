-- Organizations, their settings and their API keys. Every other row belongs to one.

CREATE TABLE organizations (
    org_id     text PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT organizations_named CHECK (name <> '' AND length(name) <= 200),
    -- The operators' passkeys and their rule stand under this id. Rule SA-20.
    CONSTRAINT organizations_not_operators CHECK (org_id <> 'OPERATORS')
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
    -- A batch payout that is worth less needs no person. NULL: every one needs a person.
    batch_auto_approve_usd          numeric(38,18),
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
    CONSTRAINT organization_settings_batch_auto_not_negative CHECK (batch_auto_approve_usd >= 0),
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
