-- Why: the checks that the step before replaced hold for all rows, and lines of invoices and marks of mints are found by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE ledger_transfers VALIDATE CONSTRAINT ledger_transfers_cause_known;
ALTER TABLE ledger_transfers VALIDATE CONSTRAINT ledger_transfers_legs;
ALTER TABLE change_requests VALIDATE CONSTRAINT change_requests_kind_known;
ALTER TABLE fee_lines VALIDATE CONSTRAINT fee_lines_kind_known;
ALTER TABLE fee_lines VALIDATE CONSTRAINT fee_lines_billed_priced;
ALTER TABLE fee_lines VALIDATE CONSTRAINT fee_lines_invoice;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS price_marks_of_mint;
CREATE INDEX CONCURRENTLY price_marks_of_mint ON price_marks (mint_id, created_at, price_mark_id);
DROP INDEX CONCURRENTLY IF EXISTS fee_lines_unbilled;
CREATE INDEX CONCURRENTLY fee_lines_unbilled ON fee_lines (org_id, incurred_at) WHERE invoice_id IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS fee_lines_of_invoice;
CREATE INDEX CONCURRENTLY fee_lines_of_invoice ON fee_lines (invoice_id, incurred_at, fee_line_id) WHERE invoice_id IS NOT NULL;
