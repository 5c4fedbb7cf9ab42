-- Why: people of an organization change thresholds, the approval allowlist and the quorum on pages. What
-- loosens one of these controls waits for another person, or for a day where there is no other.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE people ADD CONSTRAINT people_in_organization UNIQUE (org_id, user_id);

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
-- +goose StatementEnd
