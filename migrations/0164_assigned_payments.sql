-- Why: a person says of which checkout a payment is that names none, or several, and the row keeps who said it.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE checkout_unmatched
    ADD COLUMN block_time timestamptz,
    ADD COLUMN was_live boolean NOT NULL DEFAULT false,
    ADD COLUMN assigned_to text,
    ADD COLUMN assigned_by text,
    ADD COLUMN assigned_at timestamptz,
    ADD CONSTRAINT checkout_unmatched_checkout FOREIGN KEY (org_id, assigned_to) REFERENCES checkouts (org_id, checkout_id) NOT VALID,
    ADD CONSTRAINT checkout_unmatched_assigned CHECK (num_nonnulls(assigned_to, assigned_by, assigned_at) IN (0, 3)
        AND assigned_by ~ '^(API_KEY|USER|SYSTEM) .') NOT VALID;
-- +goose StatementEnd

-- +goose StatementBegin
GRANT UPDATE (assigned_to, assigned_by, assigned_at) ON checkout_unmatched TO coffer_system;
-- +goose StatementEnd

-- +goose StatementBegin
DROP TRIGGER checkout_unmatched_append_only ON checkout_unmatched;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER checkout_unmatched_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF deposit_id, org_id, checkout_id, mint_id, amount,
    reason, seen_at, block_time, was_live ON checkout_unmatched FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER checkout_unmatched_assigned_once BEFORE UPDATE ON checkout_unmatched
    FOR EACH ROW WHEN (OLD.assigned_to IS NOT NULL) EXECUTE FUNCTION refuse_row_change();
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION checkout_unmatched_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT coalesce((p.org_id, p.checkout_id) = (u.org_id, u.assigned_to), false) FROM checkout_unmatched u
            LEFT JOIN checkout_payments p ON p.deposit_id = u.deposit_id WHERE u.deposit_id = NEW.deposit_id) IS FALSE THEN
        RAISE EXCEPTION 'deposit % is the payment of a checkout to which it is not assigned', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkout_unmatched_paid';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE CONSTRAINT TRIGGER checkout_unmatched_paid AFTER UPDATE ON checkout_unmatched DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION checkout_unmatched_follow();
-- +goose StatementEnd

-- +goose StatementBegin
CREATE CONSTRAINT TRIGGER checkout_payments_assigned AFTER INSERT ON checkout_payments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION checkout_unmatched_follow();
-- +goose StatementEnd
