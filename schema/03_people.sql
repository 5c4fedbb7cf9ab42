-- The people of organizations, the operators of the installation, and changes that need two
-- operators or two persons of an organization.

CREATE TABLE people (
    user_id    text PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    email      text NOT NULL,
    name       text NOT NULL,
    roles      text[] NOT NULL,
    created_at timestamptz NOT NULL,
    account_id text,        -- in accounts (22_sign_in.sql); NULL until the invitation is accepted
    ended_at   timestamptz, -- when the person's access ended; the row stays, because approvals name it
    CONSTRAINT people_email_unique UNIQUE (org_id, email),
    CONSTRAINT people_in_organization UNIQUE (org_id, user_id),
    CONSTRAINT people_roles_known CHECK (
        roles <@ ARRAY['OWNER','ADMIN','APPROVER','FINANCE','DEVELOPER','VIEWER'] AND cardinality(roles) > 0)
);
SELECT coffer_tenant('people', 'SELECT', 'SELECT, INSERT, UPDATE (name, roles, account_id, ended_at)');
CREATE TRIGGER people_as_inserted BEFORE UPDATE OF user_id, org_id, email, created_at ON people
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Keys of the operator's API. The table keeps the SHA-256 of a key. A roll gives the name to
-- the next key, so the name identifies the holder: a person or a program.
CREATE TABLE operator_keys (
    key_id     text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT operator_keys_hash_unique UNIQUE (hash),
    CONSTRAINT operator_keys_hash_sha256 CHECK (length(hash) = 32),
    CONSTRAINT operator_keys_named CHECK (name <> '' AND length(name) <= 200)
);
CREATE UNIQUE INDEX operator_keys_one_live ON operator_keys (name) WHERE revoked_at IS NULL;
-- coffer_app has no privilege: a transaction of an organization does not see these keys.
SELECT coffer_shared('operator_keys', '', 'SELECT, INSERT, UPDATE (revoked_at)');

CREATE FUNCTION operator_keys_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.key_id, NEW.name, NEW.hash, NEW.created_at) IS DISTINCT FROM (OLD.key_id, OLD.name, OLD.hash, OLD.created_at)
       OR OLD.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'operator key % is revoked once and cannot become another', OLD.key_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operator_keys_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER operator_keys_keep BEFORE UPDATE ON operator_keys FOR EACH ROW EXECUTE FUNCTION operator_keys_keep();

-- Dual control (decision 0035): where the installation requires it, a change that
-- loosens a control waits here until a second operator agrees. An operator is identified by
-- the name of the key, so a holder whose key is rolled stays the same operator.
CREATE TABLE change_requests (
    change_id   text COLLATE "C" PRIMARY KEY,
    org_id      text REFERENCES organizations, -- NULL: of the installation
    kind        text NOT NULL,  -- which feature applies the change
    before      jsonb NOT NULL, -- the values at the time of the request
    wanted      jsonb NOT NULL,
    author      text NOT NULL,
    author_key  text NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    status      text NOT NULL DEFAULT 'PENDING',
    decided_by  text,
    decided_key text,
    decided_at  timestamptz,
    CONSTRAINT change_requests_kind_known CHECK (kind IN ('SETTINGS', 'WHITELISTED_ADDRESS', 'SWAP_WRITE_OFF', 'BILLING_TERMS')
        AND (org_id IS NOT NULL OR kind = 'BILLING_TERMS')),
    CONSTRAINT change_requests_status_known CHECK (status IN ('PENDING', 'APPROVED', 'WITHDRAWN', 'EXPIRED')),
    CONSTRAINT change_requests_objects CHECK (
        jsonb_typeof(before) = 'object' AND jsonb_typeof(wanted) = 'object' AND wanted <> '{}'),
    CONSTRAINT change_requests_expire CHECK (expires_at > created_at),
    CONSTRAINT change_requests_named CHECK (author <> '' AND author_key <> ''),
    CONSTRAINT change_requests_decided CHECK (
        CASE status
            WHEN 'PENDING' THEN num_nonnulls(decided_by, decided_key, decided_at) = 0
            WHEN 'EXPIRED' THEN num_nonnulls(decided_by, decided_key) = 0 AND decided_at >= expires_at
            ELSE num_nonnulls(decided_by, decided_key, decided_at) = 3
        END),
    CONSTRAINT change_requests_in_time CHECK (status <> 'APPROVED' OR decided_at < expires_at),
    -- The author does not approve, under this name or by this key. Rule OP-9.
    CONSTRAINT change_requests_four_eyes CHECK (
        status <> 'APPROVED' OR (decided_by <> author AND decided_key <> author_key)),
    -- Only the author withdraws the request.
    CONSTRAINT change_requests_own CHECK (status <> 'WITHDRAWN' OR decided_by = author)
);
CREATE INDEX change_requests_listed ON change_requests (created_at, change_id);
CREATE INDEX change_requests_of_organization ON change_requests (org_id, created_at, change_id);
CREATE INDEX change_requests_pending ON change_requests (expires_at) WHERE status = 'PENDING';
SELECT coffer_tenant('change_requests', '',
    'SELECT, INSERT, UPDATE (status, decided_by, decided_key, decided_at)');

-- Rule OP-7.
CREATE FUNCTION change_requests_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.status <> 'PENDING'
       OR (NEW.change_id, NEW.org_id, NEW.kind, NEW.before, NEW.wanted, NEW.author, NEW.author_key, NEW.created_at, NEW.expires_at)
          IS DISTINCT FROM (OLD.change_id, OLD.org_id, OLD.kind, OLD.before, OLD.wanted, OLD.author, OLD.author_key, OLD.created_at, OLD.expires_at) THEN
        RAISE EXCEPTION 'change request % is decided once, as it was asked for', OLD.change_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'change_requests_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER change_requests_keep BEFORE UPDATE ON change_requests
    FOR EACH ROW EXECUTE FUNCTION change_requests_keep();
CREATE TRIGGER change_requests_stay BEFORE DELETE OR TRUNCATE ON change_requests
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A change of settings that an organization's own person asks for on a page, if it loosens a control.
-- Another person with the right approves it. Where there is no other, it takes effect by itself at
-- takes_effect_at. Rules PAGE-24 and PAGE-25.
CREATE TABLE member_changes (
    change_id       text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organizations,
    before          jsonb NOT NULL, -- the values at the time of the request
    wanted          jsonb NOT NULL,
    requested_by    text NOT NULL,
    created_at      timestamptz NOT NULL,
    takes_effect_at timestamptz,    -- NULL: it waits for another person
    expires_at      timestamptz NOT NULL,
    status          text NOT NULL DEFAULT 'PENDING',
    decided_by      text,
    decided_at      timestamptz,
    CONSTRAINT member_changes_requester FOREIGN KEY (org_id, requested_by) REFERENCES people (org_id, user_id),
    CONSTRAINT member_changes_decider FOREIGN KEY (org_id, decided_by) REFERENCES people (org_id, user_id),
    CONSTRAINT member_changes_status_known CHECK (
        status IN ('PENDING', 'APPROVED', 'REJECTED', 'RETRACTED', 'EFFECTIVE', 'EXPIRED', 'OUTDATED')),
    CONSTRAINT member_changes_objects CHECK (
        jsonb_typeof(before) = 'object' AND jsonb_typeof(wanted) = 'object' AND wanted <> '{}'),
    CONSTRAINT member_changes_expire CHECK (expires_at > created_at),
    CONSTRAINT member_changes_wait CHECK (takes_effect_at >= created_at AND takes_effect_at < expires_at),
    CONSTRAINT member_changes_decided CHECK (
        CASE
            WHEN status = 'PENDING' THEN num_nonnulls(decided_by, decided_at) = 0
            WHEN status IN ('APPROVED', 'REJECTED', 'RETRACTED') THEN num_nonnulls(decided_by, decided_at) = 2
            ELSE decided_by IS NULL AND decided_at IS NOT NULL
        END),
    CONSTRAINT member_changes_in_time CHECK (
        CASE status
            WHEN 'APPROVED' THEN decided_at < expires_at
            WHEN 'EFFECTIVE' THEN takes_effect_at IS NOT NULL AND decided_at >= takes_effect_at
            WHEN 'EXPIRED' THEN decided_at >= expires_at
            ELSE true
        END),
    -- The requester does not approve, and only the requester retracts.
    CONSTRAINT member_changes_two_persons CHECK (
        status NOT IN ('APPROVED', 'REJECTED') OR decided_by <> requested_by),
    CONSTRAINT member_changes_own CHECK (status <> 'RETRACTED' OR decided_by = requested_by)
);
CREATE INDEX member_changes_listed ON member_changes (org_id, created_at, change_id);
CREATE INDEX member_changes_due ON member_changes (least(takes_effect_at, expires_at)) WHERE status = 'PENDING';
SELECT coffer_tenant('member_changes', 'SELECT', 'SELECT, INSERT, UPDATE (status, decided_by, decided_at)');
CREATE TRIGGER member_changes_written_once BEFORE UPDATE ON member_changes FOR EACH ROW
    WHEN (OLD.status <> 'PENDING'
        OR NEW.change_id IS DISTINCT FROM OLD.change_id OR NEW.org_id IS DISTINCT FROM OLD.org_id
        OR NEW.before IS DISTINCT FROM OLD.before OR NEW.wanted IS DISTINCT FROM OLD.wanted
        OR NEW.requested_by IS DISTINCT FROM OLD.requested_by OR NEW.created_at IS DISTINCT FROM OLD.created_at
        OR NEW.takes_effect_at IS DISTINCT FROM OLD.takes_effect_at OR NEW.expires_at IS DISTINCT FROM OLD.expires_at)
    EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER member_changes_stay BEFORE DELETE OR TRUNCATE ON member_changes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
