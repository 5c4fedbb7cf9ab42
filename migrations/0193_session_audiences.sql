-- Why: people may sign approvals on pages at an address of their own. A session of the dashboard counts for nothing
-- there, and a session of those pages counts for nothing in the dashboard. Sessions from before are of the dashboard or
-- the console.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE sessions ADD COLUMN IF NOT EXISTS audience text NOT NULL DEFAULT 'PAGES';
ALTER TABLE sessions
    DROP CONSTRAINT IF EXISTS sessions_audience_known,
    ADD CONSTRAINT sessions_audience_known CHECK (audience IN ('PAGES', 'APPROVALS')) NOT VALID;
ALTER TABLE sessions VALIDATE CONSTRAINT sessions_audience_known;
GRANT SELECT (audience) ON sessions TO coffer_reader;
-- +goose StatementBegin
-- Rules SIGN-2, SIGN-11 and PAGE-119.
CREATE OR REPLACE FUNCTION sessions_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (OLD.state = 'ENDED' OR OLD.state = 'OPEN' AND NEW.state NOT IN ('OPEN', 'ENDED')
        OR (NEW.session_id, NEW.account_id, NEW.device, NEW.address, NEW.created_at, NEW.expires_at, NEW.audience)
            IS DISTINCT FROM (OLD.session_id, OLD.account_id, OLD.device, OLD.address, OLD.created_at, OLD.expires_at,
                OLD.audience)
        OR NEW.state = OLD.state AND NEW.ended_at IS DISTINCT FROM OLD.ended_at) THEN
        RAISE EXCEPTION 'session % cannot go from % to %', OLD.session_id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sessions_fixed';
    END IF;
    -- A token is changed by a change of rights: a session that opens keeps no token that was in use before.
    IF TG_OP = 'UPDATE' AND NEW.state = 'OPEN' AND OLD.state <> 'OPEN' AND NEW.hash = OLD.hash THEN
        RAISE EXCEPTION 'session % opens with a new token', OLD.session_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sessions_new_token';
    END IF;
    IF NEW.member_id IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.member_id IS DISTINCT FROM OLD.member_id)
       AND NOT EXISTS (
        SELECT FROM people p
        WHERE p.user_id = NEW.member_id AND p.account_id = NEW.account_id AND p.ended_at IS NULL) THEN
        RAISE EXCEPTION 'person % is not of account %', NEW.member_id, NEW.account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sessions_member_fits';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
