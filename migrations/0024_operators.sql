-- Why: whoever runs the service calls an interface of its own, with keys that are
-- no organization's. Only the hash of a key is kept, as of the organizations' keys,
-- and the name of a key goes from one to the next when it is rolled.
-- +goose Up

CREATE TABLE operator_keys (
    key_id     text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL, -- whose it is: a person, a program
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT operator_keys_hash_unique UNIQUE (hash),
    CONSTRAINT operator_keys_hash_sha256 CHECK (length(hash) = 32),
    CONSTRAINT operator_keys_named CHECK (name <> '' AND length(name) <= 200)
);
CREATE UNIQUE INDEX operator_keys_one_live ON operator_keys (name) WHERE revoked_at IS NULL;
-- Nothing for coffer_app: a transaction that acts for an organization does not even see them.
SELECT coffer_shared('operator_keys', '', 'SELECT, INSERT, UPDATE (revoked_at)');

-- +goose StatementBegin
CREATE FUNCTION operator_keys_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.key_id, NEW.name, NEW.hash, NEW.created_at) IS DISTINCT FROM (OLD.key_id, OLD.name, OLD.hash, OLD.created_at)
       OR OLD.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'operator key % is revoked once and cannot become another', OLD.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operator_keys_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER operator_keys_keep BEFORE UPDATE ON operator_keys FOR EACH ROW EXECUTE FUNCTION operator_keys_keep();

-- What stands still and what was ever stopped, newest first, for a list of freezes
-- that has pages.
CREATE INDEX freezes_listed ON freezes (created_at, freeze_id);
CREATE INDEX organizations_listed ON organizations (created_at, org_id);
