-- Why: a customer could have the organization pay for failing payments and for new token
-- accounts as often as they liked. A destination that made a payment fail is looked up for
-- every request, and so are the costs that a customer's withdrawals caused in a day.
--
-- The limit on those costs is 50 dollars from the start, for organizations that exist as well.
--
-- Not one transaction: the indexes are built beside the writers of a live table. Every step
-- may be run again. See decision 0074.
-- +goose NO TRANSACTION
-- +goose Up

DROP INDEX CONCURRENTLY IF EXISTS withdrawals_reverted;
CREATE INDEX CONCURRENTLY withdrawals_reverted ON withdrawals (org_id, chain, to_address, completed_at)
    WHERE status = 'FAILED' AND failure_reason = 'REVERTED';
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_approved_paid;
CREATE INDEX CONCURRENTLY withdrawals_approved_paid ON withdrawals (org_id, chain, to_address, approved_at)
    WHERE status = 'COMPLETED' AND approved_at IS NOT NULL;

-- Whoever asks for a withdrawal that was approved late is found by the approval.
DROP INDEX CONCURRENTLY IF EXISTS withdrawals_of_customer_approved;
CREATE INDEX CONCURRENTLY withdrawals_of_customer_approved ON withdrawals (org_id, customer_id, approved_at)
    WHERE approved_at IS NOT NULL;

ALTER TABLE organization_settings
    ADD COLUMN IF NOT EXISTS customer_fee_day_usd numeric(38,18) DEFAULT 50;
ALTER TABLE organization_settings
    DROP CONSTRAINT IF EXISTS organization_settings_customer_fee_day_not_negative,
    ADD CONSTRAINT organization_settings_customer_fee_day_not_negative CHECK (customer_fee_day_usd >= 0) NOT VALID;

ALTER TABLE withdrawals
    ADD COLUMN IF NOT EXISTS cost_max numeric(78,0),    -- the most that the network would take when it was requested, in native units; NULL: not known
    ADD COLUMN IF NOT EXISTS cost_rent numeric(78,0),   -- of that, what stays in an account that is made for the payee
    ADD COLUMN IF NOT EXISTS cost_price numeric(38,18); -- dollars for one whole native coin when it was let go; NULL: not known
ALTER TABLE withdrawals
    DROP CONSTRAINT IF EXISTS withdrawals_costs,
    ADD CONSTRAINT withdrawals_costs CHECK (
        (cost_max IS NULL) = (cost_rent IS NULL) AND (cost_rent IS NULL OR cost_rent >= 0 AND cost_rent <= cost_max) AND (cost_price IS NULL OR cost_price > 0)) NOT VALID;
GRANT UPDATE (cost_price) ON withdrawals TO coffer_app;

-- What was expected is written once, and its price no more once the payment is let go.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawals_costs_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.cost_max, NEW.cost_rent) IS DISTINCT FROM (OLD.cost_max, OLD.cost_rent)
       OR OLD.status <> 'AWAITING_APPROVAL' AND NEW.cost_price IS DISTINCT FROM OLD.cost_price THEN
        RAISE EXCEPTION 'what withdrawal % was expected to cost is written once', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_costs_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS withdrawals_costs_keep ON withdrawals;
CREATE TRIGGER withdrawals_costs_keep BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_costs_keep();
