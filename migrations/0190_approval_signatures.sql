-- Why: an organization may have a rule by which its payments leave only with signatures of people. The signature of a
-- passkey is kept with the approval, and an own payment says who made it, so that the signer refuses the signature of
-- that person. Rows from before have neither.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE withdrawal_approvals ADD COLUMN IF NOT EXISTS signature jsonb;
ALTER TABLE payout_approvals ADD COLUMN IF NOT EXISTS signature jsonb;
ALTER TABLE withdrawals ADD COLUMN IF NOT EXISTS made_by text;
ALTER TABLE withdrawal_approvals
    DROP CONSTRAINT IF EXISTS withdrawal_approvals_signature,
    ADD CONSTRAINT withdrawal_approvals_signature
        CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId') NOT VALID;
ALTER TABLE withdrawal_approvals VALIDATE CONSTRAINT withdrawal_approvals_signature;
ALTER TABLE payout_approvals
    DROP CONSTRAINT IF EXISTS payout_approvals_signature,
    ADD CONSTRAINT payout_approvals_signature
        CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId') NOT VALID;
ALTER TABLE payout_approvals VALIDATE CONSTRAINT payout_approvals_signature;
ALTER TABLE withdrawals
    DROP CONSTRAINT IF EXISTS withdrawals_made_by_person,
    ADD CONSTRAINT withdrawals_made_by_person CHECK (
        made_by IS NULL OR whitelisted_address_id IS NOT NULL AND made_by ~ '^(USER|OPERATOR) .') NOT VALID;
ALTER TABLE withdrawals VALIDATE CONSTRAINT withdrawals_made_by_person;
GRANT INSERT (made_by) ON withdrawals TO coffer_app;
-- +goose StatementBegin
-- Rule OW-6.
CREATE OR REPLACE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.withdrawal_id, NEW.org_id, NEW.customer_id, NEW.product, NEW.whitelisted_address_id,
            NEW.mint_id, NEW.chain, NEW.amount, NEW.to_address, NEW.idempotency_key, NEW.request_digest, NEW.made_by)
       IS DISTINCT FROM
       (OLD.withdrawal_id, OLD.org_id, OLD.customer_id, OLD.product, OLD.whitelisted_address_id,
            OLD.mint_id, OLD.chain, OLD.amount, OLD.to_address, OLD.idempotency_key, OLD.request_digest, OLD.made_by) THEN
        RAISE EXCEPTION 'withdrawal % cannot become another payment', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_payment_fixed';
    END IF;
    IF OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'withdrawal % is %', OLD.withdrawal_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terminal';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
