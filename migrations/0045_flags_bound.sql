-- Why: between the flag and the decision nothing but the tables bound to whom a deposit
-- goes back, and whoever owns the database passes those. See decision 0040.
-- +goose Up

-- The MAC of the words of the flag, by a key that is not in the database. A deposit that
-- was flagged before has none: it is never sent back, and the operator redirects it.
ALTER TABLE deposits ADD COLUMN return_mac bytea;

-- As before, with the MAC among what stays, and no flag without one any more.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION deposits_flag_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.is_flagged AND (NEW.is_flagged, NEW.risk_of_funds, NEW.flag_reason, NEW.flagged_at, NEW.return_to, NEW.return_risk, NEW.from_address, NEW.return_mac)
        IS DISTINCT FROM (OLD.is_flagged, OLD.risk_of_funds, OLD.flag_reason, OLD.flagged_at, OLD.return_to, OLD.return_risk, OLD.from_address, OLD.return_mac)
        OR NOT OLD.is_flagged AND NEW.is_flagged AND ((OLD.status, NEW.status) <> ('SCREENING', 'FLAGGED') OR NEW.return_mac IS NULL)
        OR OLD.status IN ('REJECTED', 'REDIRECTED') AND NEW.status <> OLD.status
        OR OLD.status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK') AND NEW.status <> OLD.status
            AND (OLD.status, NEW.status) NOT IN (
                ('FLAGGED', 'CREDITED'), ('FLAGGED', 'REJECTING'), ('FLAGGED', 'REDIRECTING'),
                ('REJECTING', 'FLAGGED'), ('REJECTING', 'RESOLUTION_STUCK'), ('REJECTING', 'REJECTED'),
                ('REDIRECTING', 'FLAGGED'), ('REDIRECTING', 'RESOLUTION_STUCK'), ('REDIRECTING', 'REDIRECTED'),
                ('RESOLUTION_STUCK', 'REJECTING'), ('RESOLUTION_STUCK', 'REDIRECTING'), ('RESOLUTION_STUCK', 'REJECTED'), ('RESOLUTION_STUCK', 'REDIRECTED')) THEN
        RAISE EXCEPTION 'deposit % is flagged', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_flag_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
