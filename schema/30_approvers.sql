-- Signed approvals: the passkeys of people who approve, and the rules that say when a payment needs them. The signer's
-- journal decides; these rows are what was asked of the signer, and its answers with their proofs.

-- A passkey of a person. Each row is committed before the signer is asked, and a row without its proof is worth nothing.
CREATE TABLE approver_keys (
    key_id           text COLLATE "C" NOT NULL,
    org_id           text NOT NULL,
    person           text NOT NULL,        -- as approvals name a person, such as USER usr_…
    email            text NOT NULL,        -- in the one form in which a person is counted
    key_right        text NOT NULL,        -- what the passkey may sign
    credential_id    bytea NOT NULL,
    public_key       bytea NOT NULL,
    rp_id            text NOT NULL,
    origin           text NOT NULL,
    possession       jsonb NOT NULL,       -- the passkey's signature of its own enrolment
    possession_until timestamptz NOT NULL, -- until when the signer accepts it
    created_at       timestamptz NOT NULL,
    waits_for        text,                 -- what the signer said last; it is asked again
    -- The answer of the signer: none yet, a proof, or a refusal. Its journal has the same.
    usable_from      timestamptz,
    is_founded       boolean NOT NULL DEFAULT false,
    proof            bytea,
    journal_id       text,
    journal_seq      bigint,
    refusal          text,
    retired_at       timestamptz,
    retired_by       text,
    retire_signature jsonb,                -- NULL: the server asks for the end, or the signer's host ended it
    retire_refusal   text,                 -- why the signer keeps the passkey; it is asked again
    retired_seq      bigint,               -- the entry of the end in the signer's journal
    -- What the foreign key refers to: the operators are no organization.
    organization_id  text GENERATED ALWAYS AS (nullif(org_id, 'OPERATORS')) STORED,
    CONSTRAINT approver_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT approver_keys_own UNIQUE (org_id, key_id),
    CONSTRAINT approver_keys_credential_once UNIQUE (credential_id),
    CONSTRAINT approver_keys_organization FOREIGN KEY (organization_id) REFERENCES organizations,
    CONSTRAINT approver_keys_right_known CHECK (key_right IN ('APPROVE', 'ENROL')),
    CONSTRAINT approver_keys_words CHECK (
        person <> '' AND email ~ '^[!-?\[\]-~]+@[!-?\[\]-~]+$' AND email = lower(email) AND octet_length(email) <= 254
        AND octet_length(credential_id) BETWEEN 1 AND 1023 AND octet_length(public_key) BETWEEN 1 AND 1200
        AND rp_id <> '' AND origin <> '' AND possession_until > created_at
        AND char_length(waits_for) BETWEEN 1 AND 500 AND char_length(refusal) BETWEEN 1 AND 500
        AND char_length(retire_refusal) BETWEEN 1 AND 500),
    CONSTRAINT approver_keys_recorded CHECK (
        num_nonnulls(usable_from, proof, journal_id, journal_seq) IN (0, 4) AND (proof IS NOT NULL OR NOT is_founded)),
    CONSTRAINT approver_keys_waiting CHECK (waits_for IS NULL OR num_nonnulls(proof, refusal) = 0),
    CONSTRAINT approver_keys_retired CHECK (
        num_nonnulls(retired_at, retired_by) IN (0, 2) AND retired_by <> ''
        AND (retired_at IS NOT NULL OR num_nonnulls(retire_signature, retire_refusal, retired_seq) = 0)
        AND num_nonnulls(retire_refusal, retired_seq) < 2)
);
CREATE INDEX approver_keys_of_organization ON approver_keys (org_id, created_at, key_id);
CREATE INDEX approver_keys_open ON approver_keys (key_id)
    WHERE retired_at IS NULL AND proof IS NULL AND refusal IS NULL OR retired_at IS NOT NULL AND retired_seq IS NULL;
SELECT coffer_tenant('approver_keys', 'SELECT',
    'SELECT, INSERT,'
        ' UPDATE (waits_for, usable_from, is_founded, proof, journal_id, journal_seq, refusal,'
        ' retired_at, retired_by, retire_signature, retire_refusal, retired_seq)');

-- A person has one address and an address one person, so that no one counts twice. Rule SA-9.
CREATE FUNCTION approver_keys_fit() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF num_nonnulls(NEW.waits_for, NEW.proof, NEW.refusal, NEW.retired_at) > 0 THEN
        RAISE EXCEPTION 'passkey % begins with an answer', NEW.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'approver_keys_begin';
    END IF;
    IF EXISTS (SELECT FROM approver_keys k WHERE k.org_id = NEW.org_id AND k.retired_at IS NULL AND k.refusal IS NULL
            AND (k.person = NEW.person) <> (k.email = NEW.email)) THEN
        RAISE EXCEPTION 'passkey % is of a person who has another address, or of an address of another person', NEW.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'approver_keys_one_person';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approver_keys_fit BEFORE INSERT ON approver_keys FOR EACH ROW EXECUTE FUNCTION approver_keys_fit();

-- What was asked never changes. The signer answers once, and a retirement is permanent. Rule SA-8.
CREATE FUNCTION approver_keys_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.key_id, NEW.org_id, NEW.person, NEW.email, NEW.key_right, NEW.credential_id, NEW.public_key, NEW.rp_id, NEW.origin, NEW.possession, NEW.possession_until, NEW.created_at)
       IS DISTINCT FROM (OLD.key_id, OLD.org_id, OLD.person, OLD.email, OLD.key_right, OLD.credential_id, OLD.public_key, OLD.rp_id, OLD.origin, OLD.possession, OLD.possession_until, OLD.created_at)
       OR OLD.proof IS NOT NULL AND (NEW.usable_from, NEW.is_founded, NEW.proof, NEW.journal_id, NEW.journal_seq)
           IS DISTINCT FROM (OLD.usable_from, OLD.is_founded, OLD.proof, OLD.journal_id, OLD.journal_seq)
       OR OLD.refusal IS NOT NULL AND (NEW.refusal, NEW.proof) IS DISTINCT FROM (OLD.refusal, OLD.proof)
       OR OLD.retired_at IS NOT NULL AND (NEW.retired_at, NEW.retired_by, NEW.retire_signature, NEW.refusal, NEW.waits_for)
           IS DISTINCT FROM (OLD.retired_at, OLD.retired_by, OLD.retire_signature, OLD.refusal, OLD.waits_for)
       OR OLD.retired_seq IS NOT NULL AND NEW.retired_seq IS DISTINCT FROM OLD.retired_seq THEN
        RAISE EXCEPTION 'passkey % stays as it was enrolled', OLD.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'approver_keys_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approver_keys_keep BEFORE UPDATE ON approver_keys FOR EACH ROW EXECUTE FUNCTION approver_keys_keep();
CREATE TRIGGER approver_keys_stay BEFORE DELETE OR TRUNCATE ON approver_keys
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The signatures with which colleagues admit a passkey. One that ended may be given again.
CREATE TABLE approver_admissions (
    org_id    text NOT NULL,
    key_id    text COLLATE "C" NOT NULL,
    by_key_id text COLLATE "C" NOT NULL,
    not_after timestamptz NOT NULL,
    signature jsonb NOT NULL,
    at        timestamptz NOT NULL,
    CONSTRAINT approver_admissions_pkey PRIMARY KEY (key_id, by_key_id, not_after),
    CONSTRAINT approver_admissions_key FOREIGN KEY (org_id, key_id) REFERENCES approver_keys (org_id, key_id),
    CONSTRAINT approver_admissions_by FOREIGN KEY (org_id, by_key_id) REFERENCES approver_keys (org_id, key_id),
    CONSTRAINT approver_admissions_by_another CHECK (key_id <> by_key_id AND not_after > at)
);
SELECT coffer_tenant('approver_admissions', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER approver_admissions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON approver_admissions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A proposal of the next version of an organization's rule, and what the signer answered. A proposal that was withdrawn
-- or refused leaves its version free.
CREATE TABLE approval_rules (
    proposal_id  text COLLATE "C" NOT NULL,
    org_id       text NOT NULL,
    version      integer NOT NULL,
    rule         jsonb NOT NULL,
    proposed_by  text NOT NULL,
    proposed_at  timestamptz NOT NULL,
    asked_at     timestamptz,   -- from when the signer may have recorded it
    withdrawn_at timestamptz,
    -- The answer of the signer: none yet, a proof, or a refusal. Its journal has the same.
    usable_from  timestamptz,
    loosens      boolean,
    consents     jsonb,         -- who signed, as the proof covers it
    proof        bytea,
    journal_id   text,
    journal_seq  bigint,
    refusal      text,
    organization_id text GENERATED ALWAYS AS (nullif(org_id, 'OPERATORS')) STORED, -- as of passkeys
    CONSTRAINT approval_rules_pkey PRIMARY KEY (proposal_id),
    CONSTRAINT approval_rules_own UNIQUE (org_id, proposal_id),
    CONSTRAINT approval_rules_organization FOREIGN KEY (organization_id) REFERENCES organizations,
    CONSTRAINT approval_rules_of_operators CHECK (
        org_id <> 'OPERATORS' OR coalesce(rule->'assets', '[]') IN ('[]', 'null')
        AND rule @> '{"ownPayments": false, "returns": false}'),
    CONSTRAINT approval_rules_words CHECK (
        version > 0 AND proposed_by <> '' AND char_length(refusal) BETWEEN 1 AND 500),
    CONSTRAINT approval_rules_same CHECK (rule->>'orgId' = org_id AND rule->>'version' = version::text),
    CONSTRAINT approval_rules_recorded CHECK (
        num_nonnulls(usable_from, loosens, consents, proof, journal_id, journal_seq) IN (0, 6)
        AND num_nonnulls(proof, refusal, withdrawn_at) <= 1),
    CONSTRAINT approval_rules_asked CHECK (
        (asked_at IS NOT NULL OR num_nonnulls(proof, refusal) = 0) AND (asked_at IS NULL OR withdrawn_at IS NULL))
);
CREATE UNIQUE INDEX approval_rules_version_once ON approval_rules (org_id, version)
    WHERE withdrawn_at IS NULL AND refusal IS NULL;
CREATE UNIQUE INDEX approval_rules_one_open ON approval_rules (org_id)
    WHERE withdrawn_at IS NULL AND refusal IS NULL AND proof IS NULL;
CREATE INDEX approval_rules_unanswered ON approval_rules (proposal_id)
    WHERE withdrawn_at IS NULL AND refusal IS NULL AND proof IS NULL;
SELECT coffer_tenant('approval_rules', 'SELECT',
    'SELECT, INSERT,'
        ' UPDATE (asked_at, withdrawn_at, usable_from, loosens, consents, proof, journal_id, journal_seq, refusal)');

-- A proposal never changes, and its end is permanent. Rule SA-8.
CREATE FUNCTION approval_rules_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF num_nonnulls(NEW.asked_at, NEW.withdrawn_at, NEW.proof, NEW.refusal) > 0 THEN
            RAISE EXCEPTION 'proposal % begins with an answer', NEW.proposal_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'approval_rules_begin';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.proposal_id, NEW.org_id, NEW.version, NEW.rule, NEW.proposed_by, NEW.proposed_at)
       IS DISTINCT FROM (OLD.proposal_id, OLD.org_id, OLD.version, OLD.rule, OLD.proposed_by, OLD.proposed_at)
       OR OLD.asked_at IS NOT NULL AND NEW.asked_at IS DISTINCT FROM OLD.asked_at
       OR num_nonnulls(OLD.proof, OLD.refusal, OLD.withdrawn_at) > 0
          AND (NEW.withdrawn_at, NEW.usable_from, NEW.loosens, NEW.consents, NEW.proof, NEW.journal_id, NEW.journal_seq, NEW.refusal)
           IS DISTINCT FROM (OLD.withdrawn_at, OLD.usable_from, OLD.loosens, OLD.consents, OLD.proof, OLD.journal_id, OLD.journal_seq, OLD.refusal) THEN
        RAISE EXCEPTION 'proposal % stays as it was made', OLD.proposal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'approval_rules_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approval_rules_keep BEFORE INSERT OR UPDATE ON approval_rules
    FOR EACH ROW EXECUTE FUNCTION approval_rules_keep();
CREATE TRIGGER approval_rules_stay BEFORE DELETE OR TRUNCATE ON approval_rules
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The signatures of a proposal. One that ended may be given again.
CREATE TABLE approval_rule_signatures (
    org_id      text NOT NULL,
    proposal_id text COLLATE "C" NOT NULL,
    by_key_id   text COLLATE "C" NOT NULL,
    not_after   timestamptz NOT NULL,
    signature   jsonb NOT NULL,
    at          timestamptz NOT NULL,
    CONSTRAINT approval_rule_signatures_pkey PRIMARY KEY (proposal_id, by_key_id, not_after),
    CONSTRAINT approval_rule_signatures_proposal FOREIGN KEY (org_id, proposal_id) REFERENCES approval_rules (org_id, proposal_id),
    CONSTRAINT approval_rule_signatures_by FOREIGN KEY (org_id, by_key_id) REFERENCES approver_keys (org_id, key_id),
    CONSTRAINT approval_rule_signatures_ahead CHECK (not_after > at)
);
SELECT coffer_tenant('approval_rule_signatures', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER approval_rule_signatures_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON approval_rule_signatures
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

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
SELECT coffer_tenant('whitelist_signatures', NULL, 'SELECT, INSERT');
CREATE TRIGGER whitelist_signatures_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON whitelist_signatures
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
