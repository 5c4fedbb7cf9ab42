-- Why: a flagged deposit whose block a broken finality took was kept from being decided
-- by the program alone. Credited or sent away then it would be money that no chain has.
-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION deposits_refuse_in_question() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'deposit % is on no final block at the moment', OLD.deposit_id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_decided_when_final';
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_decided_when_final BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.status IN ('FLAGGED', 'RESOLUTION_STUCK') AND NEW.status IN ('CREDITED', 'REJECTING', 'REDIRECTING') AND NEW.chain_status <> 'FINALIZED')
    EXECUTE FUNCTION deposits_refuse_in_question();
