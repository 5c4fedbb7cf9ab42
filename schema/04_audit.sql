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
CREATE INDEX audit_log_of_organization ON audit_log (org_id, at, audit_id);
CREATE INDEX audit_log_of_action ON audit_log (org_id, action, at, audit_id);
CREATE INDEX audit_log_of_person ON audit_log (org_id, actor_id, at, audit_id) WHERE actor_kind = 'USER';
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
