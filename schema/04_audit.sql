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
-- the log with an id up to sealed_through is in the chain, or will never be in the log. Runs are
-- written from runs_from on: a while after an upgrade, so that the program of the version before
-- can take over again.
CREATE TABLE audit_chain (
    one            boolean PRIMARY KEY DEFAULT true,
    chain_id       text NOT NULL,
    position       bigint NOT NULL DEFAULT 0,
    hash           bytea NOT NULL,
    sealed_through bigint NOT NULL DEFAULT 0,
    runs_from      timestamptz NOT NULL DEFAULT '-infinity',
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

-- The positions from before there were runs: of each row of the log by itself, with the hash of the chain up to it.
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

-- The places of the rows are written in runs: one row for all rows of the log that were sealed together. The ids of a
-- run ascend with its positions from first to last, and hashes has the 32 bytes of the chain at each of them, so that a
-- changed row is still told by itself.
CREATE FUNCTION audit_run_length(ids int8multirange) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT sum(upper(r) - lower(r))::bigint FROM unnest(ids) r $$;
CREATE TABLE audit_runs (
    first  bigint NOT NULL,
    last   bigint NOT NULL,
    ids    int8multirange NOT NULL,
    hashes bytea NOT NULL,
    CONSTRAINT audit_runs_pkey PRIMARY KEY (first),
    CONSTRAINT audit_runs_once EXCLUDE USING gist (ids WITH &&),
    CONSTRAINT audit_runs_from_one CHECK (first > 0 AND last >= first),
    CONSTRAINT audit_runs_whole CHECK (coalesce(audit_run_length(ids), 0) = last - first + 1
        AND length(hashes) = 32 * (last - first + 1))
);
-- Hashes do not get shorter when they are compressed.
ALTER TABLE audit_runs ALTER COLUMN hashes SET STORAGE EXTERNAL;
SELECT coffer_shared('audit_runs', '', 'SELECT, INSERT');
CREATE TRIGGER audit_runs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_runs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A run ends where the chain ends, and begins behind all positions that there are. A transaction that moved the end of
-- the chain locks it, so that two runs do not overlap.
CREATE FUNCTION audit_runs_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.first <= coalesce((SELECT last FROM audit_runs ORDER BY first DESC LIMIT 1), (SELECT max(position) FROM audit_seal))
       OR NOT EXISTS (SELECT FROM audit_chain c WHERE c.position = NEW.last AND c.hash = substr(NEW.hashes, length(NEW.hashes) - 31)) THEN
        RAISE EXCEPTION 'positions % to % are not the end of the audit chain', NEW.first, NEW.last
            USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_runs_follow';
    END IF;
    IF lower(NEW.ids) <= (SELECT max(audit_id) FROM audit_seal) AND EXISTS (
            SELECT FROM unnest(NEW.ids) r JOIN audit_seal s ON s.audit_id >= lower(r) AND s.audit_id < upper(r)) THEN
        RAISE EXCEPTION 'a row of positions % to % is sealed', NEW.first, NEW.last
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'audit_runs_once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER audit_runs_follow BEFORE INSERT ON audit_runs FOR EACH ROW EXECUTE FUNCTION audit_runs_follow();

-- Behind a run no row is sealed by itself. Only the program from before there were runs would do that.
CREATE FUNCTION audit_seal_before_runs() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM audit_runs) THEN
        RAISE EXCEPTION 'the audit log is sealed in runs'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_seal_before_runs';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_seal_before_runs BEFORE INSERT ON audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION audit_seal_before_runs();

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
