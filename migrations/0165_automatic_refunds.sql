-- Why: a product may say that a surplus, a late payment or a part is given back without a person.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE products DROP CONSTRAINT products_late_policy_known;
ALTER TABLE products ADD CONSTRAINT products_late_policy_known
    CHECK (late_policy IN ('ACCEPT_IF_WITHIN_TOLERANCE', 'HOLD', 'REFUND_LINK')) NOT VALID;
ALTER TABLE checkouts DROP CONSTRAINT checkouts_policies_known;
ALTER TABLE checkouts ADD CONSTRAINT checkouts_policies_known CHECK (
        over_policy IN ('CREDIT', 'REFUND_LINK')
        AND late_policy IN ('ACCEPT_IF_WITHIN_TOLERANCE', 'HOLD', 'REFUND_LINK')) NOT VALID;

-- Checkouts whose policies make refunds by themselves, and that were settled: when the worker looks at them. A settlement
-- makes no refund, so nothing that is missing for one keeps a sale from being completed.
CREATE TABLE refund_turns (
    checkout_id text PRIMARY KEY,
    org_id      text NOT NULL,
    look_at     timestamptz,              -- NULL: nothing is due until the checkout is settled again
    tries       integer NOT NULL DEFAULT 0, -- since that settlement
    problem     text,                     -- why something stays with the organization, or waits
    updated_at  timestamptz NOT NULL,
    CONSTRAINT refund_turns_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT refund_turns_counted CHECK (tries >= 0),
    CONSTRAINT refund_turns_words CHECK (char_length(problem) BETWEEN 1 AND 1000)
);
CREATE INDEX refund_turns_due ON refund_turns (look_at, checkout_id) WHERE look_at IS NOT NULL;
SELECT coffer_tenant('refund_turns',
    'SELECT, INSERT (checkout_id, org_id, look_at, updated_at), UPDATE (look_at, tries, problem, updated_at)',
    'SELECT, INSERT (checkout_id, org_id, look_at, updated_at), UPDATE (look_at, tries, problem, updated_at)');
CREATE TRIGGER refund_turns_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF checkout_id, org_id ON refund_turns
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The refunds that policies made: one for each checkout, mint and cause.
CREATE TABLE automatic_refunds (
    checkout_id text NOT NULL,
    mint_id     integer NOT NULL REFERENCES mints,
    cause       text NOT NULL,
    org_id      text NOT NULL,
    refund_id   text NOT NULL,
    CONSTRAINT automatic_refunds_pkey PRIMARY KEY (checkout_id, mint_id, cause),
    CONSTRAINT automatic_refunds_one_cause UNIQUE (refund_id),
    CONSTRAINT automatic_refunds_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT automatic_refunds_refund FOREIGN KEY (org_id, refund_id) REFERENCES refunds (org_id, refund_id),
    CONSTRAINT automatic_refunds_cause_known CHECK (cause IN ('OVERPAID', 'UNDERPAID', 'PAID_LATE'))
);
SELECT coffer_tenant('automatic_refunds', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER automatic_refunds_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON automatic_refunds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A policy makes only what the terms of its checkout say, without a key and an address, and no person asks for it.
CREATE FUNCTION automatic_refunds_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (r.org_id, r.checkout_id, r.mint_id, r.version, r.requester_kind) = (NEW.org_id, NEW.checkout_id, NEW.mint_id, 1, 'SYSTEM')
            AND num_nonnulls(r.idempotency_key, r.key_hash, r.to_address) = 0
            AND CASE NEW.cause WHEN 'OVERPAID' THEN c.over_policy = 'REFUND_LINK' AND c.status = 'COMPLETED'
                ELSE c.late_policy = 'REFUND_LINK' AND c.status IN ('COMPLETED', 'EXPIRED', 'CANCELLED') END
        FROM refunds r, checkouts c WHERE r.refund_id = NEW.refund_id AND c.checkout_id = NEW.checkout_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'no policy of checkout % makes refund %', NEW.checkout_id, NEW.refund_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'automatic_refunds_asked_for';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER automatic_refunds_begin BEFORE INSERT ON automatic_refunds FOR EACH ROW EXECUTE FUNCTION automatic_refunds_begin();
-- +goose StatementEnd
