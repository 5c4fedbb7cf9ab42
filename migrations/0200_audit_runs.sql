-- Why: each sealed row of the audit log cost a row of its own, with two entries in indexes. Rows that are sealed together
-- now have one row, and keep the hash of each of them. Rows that were sealed before stay as they are. The program of the
-- version before does not read runs, so a log that has rows gets none for a week.

-- +goose Up
ALTER TABLE audit_chain ADD COLUMN runs_from timestamptz NOT NULL DEFAULT '-infinity';
UPDATE audit_chain SET runs_from = now() + interval '7 days' WHERE position > 0;
-- The places of the rows are written in runs: one row for all rows of the log that were sealed together. The ids of a
-- run ascend with its positions from first to last, and hashes has the 32 bytes of the chain at each of them, so that a
-- changed row is still told by itself.
-- +goose StatementBegin
CREATE FUNCTION audit_run_length(ids int8multirange) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT sum(upper(r) - lower(r))::bigint FROM unnest(ids) r $$;
-- +goose StatementEnd
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
-- +goose StatementBegin
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
-- +goose StatementEnd
CREATE TRIGGER audit_runs_follow BEFORE INSERT ON audit_runs FOR EACH ROW EXECUTE FUNCTION audit_runs_follow();
-- Behind a run no row is sealed by itself. Only the program from before there were runs would do that.
-- +goose StatementBegin
CREATE FUNCTION audit_seal_before_runs() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM audit_runs) THEN
        RAISE EXCEPTION 'the audit log is sealed in runs'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_seal_before_runs';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_seal_before_runs BEFORE INSERT ON audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION audit_seal_before_runs();
