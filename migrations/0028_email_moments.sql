-- Why: a second change of an e-mail that left its moment alone passed while the row
-- had not been written since the first, so an e-mail could be exchanged within the
-- cooling-off of another and be trusted when that one was over. Each change has a
-- moment of its own.
-- +goose Up

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION customers_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.email IS DISTINCT FROM OLD.email AND (OLD.email IS NOT NULL OR OLD.email_changed_at IS NOT NULL)
       AND (NEW.email_changed_at IS DISTINCT FROM NEW.updated_at OR NEW.email_changed_at <= OLD.email_changed_at) THEN
        RAISE EXCEPTION 'customer % got another e-mail without its moment', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_change_dated';
    END IF;
    IF OLD.email_changed_at IS NOT NULL AND (NEW.email_changed_at IS NULL OR NEW.email_changed_at < OLD.email_changed_at) THEN
        RAISE EXCEPTION 'customer % forgets when its e-mail changed', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_change_kept';
    END IF;
    IF (NEW.org_id, NEW.customer_id, NEW.created_at) IS DISTINCT FROM (OLD.org_id, OLD.customer_id, OLD.created_at) THEN
        RAISE EXCEPTION 'customer % cannot become another', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_identity_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
