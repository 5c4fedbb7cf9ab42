-- Why: the program alone saw to it that a transfer was posted. A transfer without its posting would tell a customer
-- about money that moved nowhere.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION transfers_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'TRANSFER' AND cause_id = NEW.transfer_id AND leg = 0) THEN
        RAISE EXCEPTION 'transfer % is made and was not posted', NEW.transfer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfers_posted';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE CONSTRAINT TRIGGER transfers_posted AFTER INSERT ON transfers DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION transfers_follow();
-- +goose StatementEnd
