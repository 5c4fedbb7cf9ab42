-- Why: an organization's rule covers returns of flagged deposits and swaps of the organization's own money, too. A
-- return that a person asked for waits for signatures in a row of its own, so that the words that people sign never
-- change. The approval of a swap keeps the signature of the passkey. Rows from before have none.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again: what an interrupted run left behind is made again.
DROP INDEX CONCURRENTLY IF EXISTS deposit_resolutions_of_mint;
CREATE INDEX CONCURRENTLY deposit_resolutions_of_mint ON deposit_resolutions (org_id, mint_id, decided_at);
ALTER TABLE swap_approvals ADD COLUMN IF NOT EXISTS signature jsonb;
ALTER TABLE swap_approvals
    DROP CONSTRAINT IF EXISTS swap_approvals_signature,
    ADD CONSTRAINT swap_approvals_signature
        CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId') NOT VALID;
ALTER TABLE swap_approvals VALIDATE CONSTRAINT swap_approvals_signature;
-- +goose StatementBegin
-- One transaction.

-- A return that a person asked for and that waits for signatures, because the organization's rule asks for people. With
-- enough of them it becomes the resolution of the same id. Until then the deposit is FLAGGED. Rule CO-145.
DO $do$
BEGIN
    IF to_regclass('public.return_requests') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE TABLE return_requests (
        request_id    text COLLATE "C" NOT NULL,
        org_id        text NOT NULL,
        deposit_id    text NOT NULL,
        status        text NOT NULL,
        to_address    text NOT NULL,
        sent          numeric(78,0) NOT NULL,
        fee_kept      numeric(78,0) NOT NULL,
        note          text,
        asked_at      timestamptz NOT NULL,
        asked_by_kind text NOT NULL,
        asked_by      text NOT NULL,
        asked_by_name text,
        ended_at      timestamptz,
        ended_by_kind text,          -- who signed last or took it back
        ended_by      text,
        CONSTRAINT return_requests_pkey PRIMARY KEY (request_id),
        CONSTRAINT return_requests_own UNIQUE (org_id, request_id),
        CONSTRAINT return_requests_organization FOREIGN KEY (org_id) REFERENCES organizations,
        CONSTRAINT return_requests_deposit FOREIGN KEY (deposit_id) REFERENCES deposits,
        -- RESTORED: the signer's journal has the return, and this database may lack signatures of it.
        CONSTRAINT return_requests_status_known CHECK (status IN ('OPEN', 'SIGNED', 'WITHDRAWN', 'RESTORED')),
        CONSTRAINT return_requests_sent CHECK (sent > 0 AND fee_kept >= 0 AND to_address <> ''),
        CONSTRAINT return_requests_by_people CHECK (
            asked_by_kind IN ('USER', 'OPERATOR') AND asked_by <> '' AND char_length(note) BETWEEN 1 AND 500),
        CONSTRAINT return_requests_ended CHECK (
            num_nonnulls(ended_at, ended_by_kind, ended_by) = CASE status WHEN 'OPEN' THEN 0 ELSE 3 END)
    );
    CREATE UNIQUE INDEX return_requests_one_open ON return_requests (deposit_id) WHERE status = 'OPEN';
    CREATE INDEX return_requests_of_deposit ON return_requests (deposit_id, asked_at, request_id);
    PERFORM coffer_tenant('return_requests', 'SELECT',
        'SELECT, INSERT, UPDATE (status, ended_at, ended_by_kind, ended_by)');
    CREATE TRIGGER return_requests_stay BEFORE DELETE OR TRUNCATE ON return_requests
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

    -- The signatures of a requested return. One that ended may be given again.
    CREATE TABLE return_signatures (
        org_id        text NOT NULL,
        request_id    text COLLATE "C" NOT NULL,
        approver_kind text NOT NULL,
        approver_id   text COLLATE "C" NOT NULL,
        not_after     timestamptz NOT NULL,
        at            timestamptz NOT NULL,
        digest        text NOT NULL,  -- hex SHA-256 of the terms that were signed
        mac           bytea NOT NULL, -- of the digest and the person, by the server's key
        signature     jsonb NOT NULL, -- of the words, by the person's passkey
        CONSTRAINT return_signatures_pkey PRIMARY KEY (request_id, approver_kind, approver_id, not_after),
        CONSTRAINT return_signatures_request FOREIGN KEY (org_id, request_id) REFERENCES return_requests (org_id, request_id),
        CONSTRAINT return_signatures_by_people CHECK (approver_kind = 'USER' AND approver_id <> ''),
        CONSTRAINT return_signatures_signature CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId'),
        CONSTRAINT return_signatures_ahead CHECK (not_after > at)
    );
    PERFORM coffer_tenant('return_signatures', 'SELECT', 'SELECT, INSERT');
    CREATE TRIGGER return_signatures_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON return_signatures
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
END $do$;

-- A signature is of a return that waits for it, and not by the person who asked for the return.
CREATE OR REPLACE FUNCTION return_signatures_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    q record;
BEGIN
    SELECT status, asked_by_kind, asked_by INTO q
    FROM return_requests WHERE org_id = NEW.org_id AND request_id = NEW.request_id;
    IF (q.status = 'OPEN') IS NOT TRUE THEN
        RAISE EXCEPTION 'return % does not wait for this signature', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_waited_for';
    END IF;
    IF (q.asked_by_kind, q.asked_by) = (NEW.approver_kind, NEW.approver_id) THEN
        RAISE EXCEPTION 'return % was asked for by the same person', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_not_by_maker';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS return_signatures_fit ON return_signatures;
CREATE TRIGGER return_signatures_fit BEFORE INSERT ON return_signatures
    FOR EACH ROW EXECUTE FUNCTION return_signatures_fit();

-- A request is of a flagged deposit and of all of its amount to its sender. It never changes, and its end is permanent.
-- A signed one has a signature.
CREATE OR REPLACE FUNCTION return_requests_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'OPEN' OR NOT EXISTS (
            SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id AND d.org_id = NEW.org_id AND d.status = 'FLAGGED'
                AND d.return_to = NEW.to_address AND d.amount = NEW.sent + NEW.fee_kept) THEN
            RAISE EXCEPTION 'return % is of no flagged deposit', NEW.request_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'return_requests_begin';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status <> 'OPEN'
       OR (NEW.request_id, NEW.org_id, NEW.deposit_id, NEW.to_address, NEW.sent, NEW.fee_kept, NEW.note, NEW.asked_at,
           NEW.asked_by_kind, NEW.asked_by, NEW.asked_by_name)
       IS DISTINCT FROM (OLD.request_id, OLD.org_id, OLD.deposit_id, OLD.to_address, OLD.sent, OLD.fee_kept, OLD.note, OLD.asked_at,
           OLD.asked_by_kind, OLD.asked_by, OLD.asked_by_name)
       OR NEW.status = 'SIGNED' AND NOT EXISTS (SELECT FROM return_signatures g WHERE g.request_id = NEW.request_id) THEN
        RAISE EXCEPTION 'return % stays as it was asked for', OLD.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_requests_fixed';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS return_requests_keep ON return_requests;
CREATE TRIGGER return_requests_keep BEFORE INSERT OR UPDATE ON return_requests
    FOR EACH ROW EXECUTE FUNCTION return_requests_keep();

-- While a return waits for signatures, its deposit is not decided otherwise. A resolution that has the id of a request
-- is what was asked for. One that a restore writes again was decided already.
CREATE OR REPLACE FUNCTION deposit_resolutions_as_asked() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    q record;
BEGIN
    SELECT status, org_id, deposit_id, to_address, sent, fee_kept INTO q
    FROM return_requests WHERE request_id = NEW.resolution_id;
    IF FOUND AND (q.status NOT IN ('SIGNED', 'RESTORED') OR NEW.decision <> 'REJECTED'
            OR (q.org_id, q.deposit_id, q.to_address, q.sent, q.fee_kept)
            IS DISTINCT FROM (NEW.org_id, NEW.deposit_id, NEW.to_address, NEW.sent, NEW.fee_kept))
        OR NEW.status <> 'FAILED' AND (NEW.decided_by_kind, NEW.decided_by) IS DISTINCT FROM ('OPERATOR', 'restore')
            AND EXISTS (SELECT FROM return_requests w WHERE w.deposit_id = NEW.deposit_id AND w.status = 'OPEN') THEN
        RAISE EXCEPTION 'a return of deposit % waits for signatures', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_as_asked';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS deposit_resolutions_as_asked ON deposit_resolutions;
CREATE TRIGGER deposit_resolutions_as_asked BEFORE INSERT ON deposit_resolutions
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_as_asked();
-- +goose StatementEnd
