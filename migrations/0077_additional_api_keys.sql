-- Why: an organization had one API key with every right, which every program of it shared
-- and which a roll took from all of them at once. It may now have further keys with a scope
-- and an expiry, where the operator allows that, and a value that is replaced may work on
-- for a while. See decision 0080.
--
-- The main key stays in api_keys: a process of the version before finds and rolls it there,
-- and knows no other key.
-- +goose Up

ALTER TABLE organization_settings ADD COLUMN additional_api_keys boolean NOT NULL DEFAULT false;

-- Until when a value of the main key works after its roll; NULL: not at all.
ALTER TABLE api_keys ADD COLUMN ends_at timestamptz;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_ends_when_rolled CHECK (ends_at IS NULL OR rolled_at IS NOT NULL) NOT VALID;
GRANT UPDATE (ends_at) ON api_keys TO coffer_system;

-- A value that was rolled stays rolled. When it ends is said by its roll, and after that only
-- brought forward. An organization has one former value at most: only the present one can
-- become it, and api_keys_one_live lets one roll at a time come so far.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api_keys_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
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
-- +goose StatementEnd

CREATE TABLE additional_api_keys (
    key_id         text PRIMARY KEY,
    org_id         text NOT NULL REFERENCES organizations,
    name           text NOT NULL,
    scope          text NOT NULL,
    hash           bytea NOT NULL,             -- of the present value
    former_hash    bytea,                      -- of the value before it, which works until former_ends_at
    former_ends_at timestamptz,
    rolls          integer NOT NULL DEFAULT 0, -- how often the value was replaced
    rolled_at      timestamptz,                -- when it last was
    expires_at     timestamptz,                -- NULL: never
    created_at     timestamptz NOT NULL DEFAULT now(),
    deleted_at     timestamptz,
    CONSTRAINT additional_api_keys_hash_unique UNIQUE (hash),
    CONSTRAINT additional_api_keys_hash_sha256 CHECK (length(hash) = 32 AND length(former_hash) = 32),
    CONSTRAINT additional_api_keys_id CHECK (key_id LIKE 'key\_%' AND key_id <> 'key_main'),
    CONSTRAINT additional_api_keys_named CHECK (name <> '' AND octet_length(name) <= 200),
    CONSTRAINT additional_api_keys_scope_known CHECK (scope IN ('READ', 'NO_MONEY_OUT', 'FULL')),
    CONSTRAINT additional_api_keys_former CHECK ((former_hash IS NULL) = (former_ends_at IS NULL) AND (former_hash IS NULL OR rolls > 0)),
    CONSTRAINT additional_api_keys_rolls CHECK (rolls >= 0 AND (rolls = 0) = (rolled_at IS NULL))
);
CREATE UNIQUE INDEX additional_api_keys_former_unique ON additional_api_keys (former_hash) WHERE former_hash IS NOT NULL;
CREATE INDEX additional_api_keys_of_org ON additional_api_keys (org_id, created_at, key_id) WHERE deleted_at IS NULL;
SELECT coffer_tenant('additional_api_keys', 'SELECT', 'SELECT');
GRANT INSERT (key_id, org_id, name, scope, hash, expires_at) ON additional_api_keys TO coffer_app;
GRANT UPDATE (hash, former_hash, former_ends_at, rolls, rolled_at, deleted_at) ON additional_api_keys TO coffer_app;
GRANT UPDATE (deleted_at) ON additional_api_keys TO coffer_system;

-- What a key may do and until when is said once. Its value is replaced by a roll, which keeps
-- the one before it for at most a day, and a deleted key stays deleted.
-- +goose StatementBegin
CREATE FUNCTION additional_api_keys_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
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

-- A new key is not over yet, and an organization has at most 20 that are neither deleted nor
-- over. An insert waits for another one of the organization at this moment, and then counts.
CREATE FUNCTION additional_api_keys_begin() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
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
-- +goose StatementEnd
CREATE TRIGGER additional_api_keys_begin BEFORE INSERT ON additional_api_keys FOR EACH ROW EXECUTE FUNCTION additional_api_keys_begin();
CREATE TRIGGER additional_api_keys_keep BEFORE UPDATE ON additional_api_keys FOR EACH ROW EXECUTE FUNCTION additional_api_keys_keep();

-- When a value was last used, to the minute: apart from the keys, so that use locks none.
CREATE TABLE api_key_uses (
    hash         bytea PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organizations,
    last_used_at timestamptz NOT NULL,
    CONSTRAINT api_key_uses_hash_sha256 CHECK (length(hash) = 32)
);
SELECT coffer_tenant('api_key_uses', 'SELECT', 'SELECT, INSERT');
GRANT UPDATE (last_used_at) ON api_key_uses TO coffer_system;
