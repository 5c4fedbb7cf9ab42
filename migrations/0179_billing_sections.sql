-- Why: the statement that binds the lines of an invoice writes their sections, and one key of each section takes the place
-- of one key of each line. An invoice of 100,000 lines checks a few keys instead of 100,000. A program of the version
-- before, which writes the sections itself, issues no invoice from here on; its run says so, and is repeated.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fee_lines_bind() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO invoice_sections (invoice_id, org_id, kind, mint_id, lines, amount, usd_exact, usd)
    SELECT c.invoice_id, c.org_id, fee_section(c.kind, c.is_credit), c.mint_id, count(*), sum(c.amount), sum(c.usd_value),
        round(sum(c.usd_value), 2)
    FROM changed c WHERE c.invoice_id IS NOT NULL GROUP BY 1, 2, 3, 4;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER fee_lines_begin AFTER INSERT ON fee_lines FOR EACH ROW WHEN (NEW.invoice_id IS NOT NULL)
    EXECUTE FUNCTION refuse_row_change();
ALTER TABLE fee_lines DROP CONSTRAINT fee_lines_invoice;
