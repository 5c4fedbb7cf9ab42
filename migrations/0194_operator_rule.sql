-- Why: the operators may have a rule, too. Their passkeys and their rule stand under the id OPERATORS, which no
-- organization has. With the rule, a redirect of a flagged deposit and an address of a whitelist wait for signatures of
-- operators. Rows from before are of organizations, and their returns are no redirects.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again: what an interrupted run left behind is made again.
ALTER TABLE organizations
    DROP CONSTRAINT IF EXISTS organizations_not_operators,
    ADD CONSTRAINT organizations_not_operators CHECK (org_id <> 'OPERATORS') NOT VALID;
ALTER TABLE organizations VALIDATE CONSTRAINT organizations_not_operators;

-- What the foreign key refers to: the operators are no organization. The tables are small.
ALTER TABLE approver_keys ADD COLUMN IF NOT EXISTS
    organization_id text GENERATED ALWAYS AS (nullif(org_id, 'OPERATORS')) STORED;
ALTER TABLE approver_keys
    DROP CONSTRAINT IF EXISTS approver_keys_organization,
    ADD CONSTRAINT approver_keys_organization FOREIGN KEY (organization_id) REFERENCES organizations NOT VALID;
ALTER TABLE approver_keys VALIDATE CONSTRAINT approver_keys_organization;
ALTER TABLE approval_rules ADD COLUMN IF NOT EXISTS
    organization_id text GENERATED ALWAYS AS (nullif(org_id, 'OPERATORS')) STORED;
ALTER TABLE approval_rules
    DROP CONSTRAINT IF EXISTS approval_rules_organization,
    ADD CONSTRAINT approval_rules_organization FOREIGN KEY (organization_id) REFERENCES organizations NOT VALID,
    DROP CONSTRAINT IF EXISTS approval_rules_of_operators,
    ADD CONSTRAINT approval_rules_of_operators CHECK (
        org_id <> 'OPERATORS' OR coalesce(rule->'assets', '[]') IN ('[]', 'null')
        AND rule @> '{"ownPayments": false, "returns": false}') NOT VALID;
ALTER TABLE approval_rules VALIDATE CONSTRAINT approval_rules_organization;
ALTER TABLE approval_rules VALIDATE CONSTRAINT approval_rules_of_operators;

ALTER TABLE whitelisted_addresses ADD COLUMN IF NOT EXISTS waits_for text;
ALTER TABLE whitelisted_addresses
    DROP CONSTRAINT IF EXISTS whitelisted_addresses_waiting,
    ADD CONSTRAINT whitelisted_addresses_waiting CHECK (
        waits_for IS NULL OR char_length(waits_for) BETWEEN 1 AND 500 AND refusal IS NULL) NOT VALID;
ALTER TABLE whitelisted_addresses VALIDATE CONSTRAINT whitelisted_addresses_waiting;
GRANT UPDATE (waits_for) ON whitelisted_addresses TO coffer_system;
DROP TRIGGER IF EXISTS whitelisted_addresses_written_once ON whitelisted_addresses;
CREATE TRIGGER whitelisted_addresses_written_once BEFORE UPDATE ON whitelisted_addresses FOR EACH ROW
    WHEN (OLD.removed_at IS NOT NULL AND (NEW.usable_from, NEW.proof, NEW.journal_id, NEW.journal_seq, NEW.refusal, NEW.waits_for)
        IS DISTINCT FROM (OLD.usable_from, OLD.proof, OLD.journal_id, OLD.journal_seq, OLD.refusal, OLD.waits_for))
    EXECUTE FUNCTION refuse_row_change();

ALTER TABLE return_requests ADD COLUMN IF NOT EXISTS decision text NOT NULL DEFAULT 'REJECTED';
ALTER TABLE return_requests ADD COLUMN IF NOT EXISTS reason text;
ALTER TABLE return_requests ADD COLUMN IF NOT EXISTS reference text;
ALTER TABLE return_requests
    DROP CONSTRAINT IF EXISTS return_requests_decision,
    ADD CONSTRAINT return_requests_decision CHECK (
        CASE decision
            WHEN 'REJECTED' THEN num_nonnulls(reason, reference) = 0
            WHEN 'REDIRECTED' THEN num_nonnulls(reason, reference) = 2 AND asked_by_kind = 'OPERATOR'
                AND reason IN ('COMPLIANCE_HOLD', 'LAW_ENFORCEMENT') AND char_length(reference) BETWEEN 1 AND 500
            ELSE false
        END) NOT VALID;
ALTER TABLE return_requests VALIDATE CONSTRAINT return_requests_decision;
ALTER TABLE return_signatures
    DROP CONSTRAINT IF EXISTS return_signatures_by_people,
    ADD CONSTRAINT return_signatures_by_people
        CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> '') NOT VALID;
ALTER TABLE return_signatures VALIDATE CONSTRAINT return_signatures_by_people;
-- +goose StatementBegin
-- One transaction.

-- A signature is of a return that waits for it, and not by the person who asked for the return. People of the
-- organization sign a return, and operators a redirect. Rule SA-17.
CREATE OR REPLACE FUNCTION return_signatures_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    q record;
BEGIN
    SELECT status, decision, asked_by_kind, asked_by INTO q
    FROM return_requests WHERE org_id = NEW.org_id AND request_id = NEW.request_id;
    IF (q.status = 'OPEN') IS NOT TRUE THEN
        RAISE EXCEPTION 'return % does not wait for this signature', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_waited_for';
    END IF;
    IF (NEW.approver_kind = 'OPERATOR') <> (q.decision = 'REDIRECTED') THEN
        RAISE EXCEPTION 'return % is signed by other people', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_by_people';
    END IF;
    IF (q.asked_by_kind, q.asked_by) = (NEW.approver_kind, NEW.approver_id) THEN
        RAISE EXCEPTION 'return % was asked for by the same person', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_not_by_maker';
    END IF;
    RETURN NEW;
END $$;

-- A request is of a flagged deposit and of all of its amount, and a return goes to its sender. It never changes, and its
-- end is permanent. A signed one has a signature.
CREATE OR REPLACE FUNCTION return_requests_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'OPEN' OR NOT EXISTS (
            SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id AND d.org_id = NEW.org_id AND d.status = 'FLAGGED'
                AND (NEW.decision = 'REDIRECTED' OR d.return_to = NEW.to_address)
                AND d.amount = NEW.sent + NEW.fee_kept) THEN
            RAISE EXCEPTION 'return % is of no flagged deposit', NEW.request_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'return_requests_begin';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status <> 'OPEN'
       OR (NEW.request_id, NEW.org_id, NEW.deposit_id, NEW.to_address, NEW.sent, NEW.fee_kept, NEW.note, NEW.asked_at,
           NEW.asked_by_kind, NEW.asked_by, NEW.asked_by_name, NEW.decision, NEW.reason, NEW.reference)
       IS DISTINCT FROM (OLD.request_id, OLD.org_id, OLD.deposit_id, OLD.to_address, OLD.sent, OLD.fee_kept, OLD.note, OLD.asked_at,
           OLD.asked_by_kind, OLD.asked_by, OLD.asked_by_name, OLD.decision, OLD.reason, OLD.reference)
       OR NEW.status = 'SIGNED' AND NOT EXISTS (SELECT FROM return_signatures g WHERE g.request_id = NEW.request_id) THEN
        RAISE EXCEPTION 'return % stays as it was asked for', OLD.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_requests_fixed';
    END IF;
    RETURN NEW;
END $$;

-- While a return waits for signatures, its deposit is not decided otherwise. A resolution that has the id of a request
-- is what was asked for. One that a restore writes again was decided already.
CREATE OR REPLACE FUNCTION deposit_resolutions_as_asked() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    q record;
BEGIN
    SELECT status, org_id, deposit_id, to_address, sent, fee_kept, decision, reason, reference INTO q
    FROM return_requests WHERE request_id = NEW.resolution_id;
    IF FOUND AND (q.status NOT IN ('SIGNED', 'RESTORED') OR NEW.decision <> q.decision
            OR q.status = 'SIGNED' AND (q.reason, q.reference) IS DISTINCT FROM (NEW.reason, NEW.reference)
            OR (q.org_id, q.deposit_id, q.to_address, q.sent, q.fee_kept)
            IS DISTINCT FROM (NEW.org_id, NEW.deposit_id, NEW.to_address, NEW.sent, NEW.fee_kept))
        OR NEW.status <> 'FAILED' AND (NEW.decided_by_kind, NEW.decided_by) IS DISTINCT FROM ('OPERATOR', 'restore')
            AND EXISTS (SELECT FROM return_requests w WHERE w.deposit_id = NEW.deposit_id AND w.status = 'OPEN') THEN
        RAISE EXCEPTION 'a return of deposit % waits for signatures', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_as_asked';
    END IF;
    RETURN NEW;
END $$;

DO $do$
BEGIN
    IF to_regclass('public.whitelist_signatures') IS NOT NULL THEN
        RETURN;
    END IF;
    -- The signatures with which operators endorse an address, where they have a rule. One that ended may be given again.
    -- Rule SA-18.
    CREATE TABLE whitelist_signatures (
        org_id                 text NOT NULL, -- of the address
        whitelisted_address_id text COLLATE "C" NOT NULL,
        by_key_id              text COLLATE "C" NOT NULL,
        signed_by              text NOT NULL, -- the operator, as approvals name a person
        not_after              timestamptz NOT NULL,
        signature              jsonb NOT NULL,
        at                     timestamptz NOT NULL,
        by_org_id              text GENERATED ALWAYS AS ('OPERATORS') STORED,
        CONSTRAINT whitelist_signatures_pkey PRIMARY KEY (whitelisted_address_id, by_key_id, not_after),
        CONSTRAINT whitelist_signatures_address FOREIGN KEY (org_id, whitelisted_address_id)
            REFERENCES whitelisted_addresses (org_id, whitelisted_address_id),
        CONSTRAINT whitelist_signatures_by FOREIGN KEY (by_org_id, by_key_id) REFERENCES approver_keys (org_id, key_id),
        CONSTRAINT whitelist_signatures_signature CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId'),
        CONSTRAINT whitelist_signatures_ahead CHECK (not_after > at AND signed_by <> '')
    );
    PERFORM coffer_tenant('whitelist_signatures', NULL, 'SELECT, INSERT');
    CREATE TRIGGER whitelist_signatures_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON whitelist_signatures
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
END $do$;
-- +goose StatementEnd
