-- Why: anybody decides how long the trace of a transaction is. A block was not taken in before
-- every trace of it was there, so one cheap transaction stopped a chain. The block is taken in
-- now, and what is not traced in time is a row that is answered later: decision 0071.
-- +goose Up

CREATE TABLE scan_untraced (
    proof_id        bigint NOT NULL REFERENCES finality_proofs (proof_id),
    tx_hash         text NOT NULL,        -- '' for every transaction of the block
    addresses       text[],               -- addresses of ours that it touched; NULL where nobody could tell
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
SELECT coffer_shared('scan_untraced', 'SELECT', 'SELECT, INSERT');
GRANT UPDATE (addresses, status, attempts, last_error, next_attempt_at, done_at) ON scan_untraced TO coffer_system;
CREATE INDEX scan_untraced_due ON scan_untraced (proof_id) WHERE status = 'DUE';

-- A row is about a block that counts, is done once, and stays.
-- +goose StatementBegin
CREATE FUNCTION scan_untraced_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
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
-- +goose StatementEnd
CREATE TRIGGER scan_untraced_keep BEFORE INSERT OR UPDATE ON scan_untraced FOR EACH ROW EXECUTE FUNCTION scan_untraced_keep();
CREATE TRIGGER scan_untraced_stay BEFORE DELETE OR TRUNCATE ON scan_untraced FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
