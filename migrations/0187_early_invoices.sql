-- Why: a local world has no clock that reaches the end of a month, so a person who tries it sees no invoice. Where
-- every mint is of a local network, the invoice of the running month is issued early. Everywhere else the database refuses
-- it as before: the trigger comes before the constraint goes. What becomes due afterwards is on the next invoice.

-- +goose NO TRANSACTION
-- +goose Up
-- +goose StatementBegin
-- A month is billed when it is over. Only where every mint is of a local network, and so no mint has a value, it is billed
-- early. The network of a mint never changes, and no mint is removed.
CREATE OR REPLACE FUNCTION invoices_early() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM mints m WHERE m.network <> 'LOCAL') THEN
        RAISE EXCEPTION 'invoice % is of %, which is not over', NEW.invoice_id, NEW.month
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoices_month_over';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER invoices_month_over BEFORE INSERT ON invoices FOR EACH ROW WHEN (NEW.issued_at < NEW.ends_at)
    EXECUTE FUNCTION invoices_early();
ALTER TABLE invoices
    DROP CONSTRAINT IF EXISTS invoices_month_over,
    DROP CONSTRAINT IF EXISTS invoices_month_begun,
    ADD CONSTRAINT invoices_month_begun CHECK (
        ends_at AT TIME ZONE 'UTC' = date_trunc('month', ends_at AT TIME ZONE 'UTC')
        AND month = to_char(ends_at AT TIME ZONE 'UTC' - interval '1 month', 'YYYY-MM')
        AND issued_at AT TIME ZONE 'UTC' >= ends_at AT TIME ZONE 'UTC' - interval '1 month') NOT VALID;
ALTER TABLE invoices VALIDATE CONSTRAINT invoices_month_begun;
