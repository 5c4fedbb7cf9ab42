-- Why: an organization has the settings that deposits, withdrawals and swaps are
-- decided by, each within its bounds whoever writes it; and where the installation
-- wants four eyes, what loosens a control waits in a row of its own until somebody
-- else has agreed to it.
-- +goose Up

ALTER TABLE organization_settings
    ADD COLUMN screening_severity_threshold text
        CONSTRAINT organization_settings_screening_severity_known CHECK (screening_severity_threshold IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE')),
    ADD COLUMN screening_usd_threshold numeric(38,18)
        CONSTRAINT organization_settings_screening_usd_not_negative CHECK (screening_usd_threshold >= 0),
    ADD COLUMN two_factor_usd_threshold numeric(38,18)
        CONSTRAINT organization_settings_two_factor_usd_not_negative CHECK (two_factor_usd_threshold >= 0),
    ADD COLUMN withdraw_severity_threshold text
        CONSTRAINT organization_settings_withdraw_severity_known CHECK (withdraw_severity_threshold IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE')),
    -- [{"email", "customerId", "active"}], as internal/org reads and sorts it.
    ADD COLUMN approval_allowlist jsonb NOT NULL DEFAULT '[]'
        CONSTRAINT organization_settings_allowlist_bounded CHECK (CASE jsonb_typeof(approval_allowlist) WHEN 'array' THEN jsonb_array_length(approval_allowlist) <= 500 ELSE false END),
    ADD COLUMN approval_quorum smallint NOT NULL DEFAULT 1
        CONSTRAINT organization_settings_quorum_bounded CHECK (approval_quorum BETWEEN 1 AND 10),
    ADD COLUMN customer_swaps_enabled boolean NOT NULL DEFAULT false,
    ADD COLUMN organization_swaps_enabled boolean NOT NULL DEFAULT false,
    ADD COLUMN swappable_mint_ids integer[] NOT NULL DEFAULT '{}'
        CONSTRAINT organization_settings_mints_bounded CHECK (cardinality(swappable_mint_ids) <= 1000 AND array_position(swappable_mint_ids, NULL) IS NULL),
    ADD COLUMN swap_fee_bps smallint NOT NULL DEFAULT 0
        CONSTRAINT organization_settings_fee_bounded CHECK (swap_fee_bps BETWEEN 0 AND 1000),
    ADD COLUMN flagged_deposit_api_enabled boolean NOT NULL DEFAULT false,
    ADD COLUMN auto_restore_failed_swaps boolean NOT NULL DEFAULT false;

-- What loosens a control, asked for by one operator and waiting for another. Who
-- they are is the holder of a key: a holder whose key is rolled is the same one.
CREATE TABLE change_requests (
    change_id  text COLLATE "C" PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    kind       text NOT NULL, -- what it is that changes, by who applies it
    was        jsonb NOT NULL, -- what held when it was asked for
    wanted     jsonb NOT NULL,
    author     text NOT NULL,
    author_key text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    status     text NOT NULL DEFAULT 'PENDING',
    decided_by text,
    decided_key text,
    decided_at timestamptz,
    CONSTRAINT change_requests_kind_known CHECK (kind IN ('SETTINGS', 'WHITELISTED_ADDRESS')),
    CONSTRAINT change_requests_status_known CHECK (status IN ('PENDING', 'APPROVED', 'WITHDRAWN', 'EXPIRED')),
    CONSTRAINT change_requests_objects CHECK (jsonb_typeof(was) = 'object' AND jsonb_typeof(wanted) = 'object' AND wanted <> '{}'),
    CONSTRAINT change_requests_expire CHECK (expires_at > created_at),
    CONSTRAINT change_requests_named CHECK (author <> '' AND author_key <> ''),
    CONSTRAINT change_requests_decided CHECK (
        CASE status
            WHEN 'PENDING' THEN num_nonnulls(decided_by, decided_key, decided_at) = 0
            WHEN 'EXPIRED' THEN num_nonnulls(decided_by, decided_key) = 0 AND decided_at >= expires_at
            ELSE num_nonnulls(decided_by, decided_key, decided_at) = 3
        END),
    CONSTRAINT change_requests_in_time CHECK (status <> 'APPROVED' OR decided_at < expires_at),
    CONSTRAINT change_requests_four_eyes CHECK (status <> 'APPROVED' OR (decided_by <> author AND decided_key <> author_key)),
    CONSTRAINT change_requests_own CHECK (status <> 'WITHDRAWN' OR decided_by = author)
);
CREATE INDEX change_requests_listed ON change_requests (created_at, change_id);
CREATE INDEX change_requests_of_organization ON change_requests (org_id, created_at, change_id);
CREATE INDEX change_requests_pending ON change_requests (expires_at) WHERE status = 'PENDING';
SELECT coffer_tenant('change_requests', '', 'SELECT, INSERT, UPDATE (status, decided_by, decided_key, decided_at)');

-- +goose StatementBegin
CREATE FUNCTION change_requests_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status <> 'PENDING'
       OR (NEW.change_id, NEW.org_id, NEW.kind, NEW.was, NEW.wanted, NEW.author, NEW.author_key, NEW.created_at, NEW.expires_at)
          IS DISTINCT FROM (OLD.change_id, OLD.org_id, OLD.kind, OLD.was, OLD.wanted, OLD.author, OLD.author_key, OLD.created_at, OLD.expires_at) THEN
        RAISE EXCEPTION 'change request % is decided once, as it was asked for', OLD.change_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'change_requests_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER change_requests_keep BEFORE UPDATE ON change_requests FOR EACH ROW EXECUTE FUNCTION change_requests_keep();
CREATE TRIGGER change_requests_stay BEFORE DELETE OR TRUNCATE ON change_requests
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
