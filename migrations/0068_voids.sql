-- Why: a payment that people take back after it was let go had a grant, and the signer would
-- admit it with that grant on any later day. So the signer journals that it is void before
-- the money is given back, and the tables refuse to give it back earlier:
-- decision 0075.
-- +goose Up

-- An order that was taken back without a slot, and the entry of the signer's journal that
-- says so. The row comes with WITHDRAWN; the entry once the signer has answered.
CREATE TABLE dispatch_voids (
    order_id    text PRIMARY KEY,
    org_id      text NOT NULL,
    asked_at    timestamptz NOT NULL,
    journal_id  text,
    journal_seq bigint,
    voided_at   timestamptz,
    CONSTRAINT dispatch_voids_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_voids_entry FOREIGN KEY (journal_id, journal_seq) REFERENCES signer_journal (journal_id, seq),
    CONSTRAINT dispatch_voids_whole CHECK (num_nonnulls(journal_id, journal_seq, voided_at) IN (0, 3))
);
CREATE INDEX dispatch_voids_open ON dispatch_voids (asked_at) WHERE journal_seq IS NULL;
SELECT coffer_tenant('dispatch_voids', 'SELECT, INSERT', 'SELECT, INSERT, UPDATE');

-- +goose StatementBegin
CREATE FUNCTION dispatch_voids_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    entry jsonb;
BEGIN
    IF TG_OP = 'UPDATE' AND ((NEW.order_id, NEW.org_id, NEW.asked_at) IS DISTINCT FROM (OLD.order_id, OLD.org_id, OLD.asked_at) OR OLD.journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'the void of order % is what it was', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_fixed';
    END IF;
    IF NOT EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.order_id AND status = 'WITHDRAWN' AND purpose IN ('PAYMENT', 'RETURN')) THEN
        RAISE EXCEPTION 'order % was not taken back', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_withdrawn';
    END IF;
    IF NEW.journal_seq IS NOT NULL THEN
        SELECT convert_from(body, 'UTF8')::jsonb INTO entry FROM signer_journal WHERE journal_id = NEW.journal_id AND seq = NEW.journal_seq;
        IF (entry->>'kind', entry->'void'->>'id', entry->'void'->>'orgId') IS DISTINCT FROM ('VOID', NEW.order_id, NEW.org_id) THEN
            RAISE EXCEPTION 'entry % of the journal does not void order %', NEW.journal_seq, NEW.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_by_entry';
        END IF;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dispatch_voids_keep BEFORE INSERT OR UPDATE ON dispatch_voids FOR EACH ROW EXECUTE FUNCTION dispatch_voids_keep();
CREATE TRIGGER dispatch_voids_stay BEFORE DELETE OR TRUNCATE ON dispatch_voids FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- How a withdrawal ends, and by whom, while the signer has not answered yet. It stays
-- AWAITING_APPROVAL with its hold until then, and cannot be approved.
ALTER TABLE withdrawals
    ADD COLUMN ends_as text,
    ADD COLUMN ends_note text,
    ADD COLUMN ends_by_kind text,
    ADD COLUMN ends_by text,
    ADD CONSTRAINT withdrawals_ends_known CHECK (ends_as IN ('REJECTED', 'CANCELLED') AND num_nonnulls(ends_by_kind, ends_by) = 2
        OR num_nonnulls(ends_as, ends_note, ends_by_kind, ends_by) = 0) NOT VALID,
    ADD CONSTRAINT withdrawals_ends_so CHECK (ends_as IS NULL OR status IN ('AWAITING_APPROVAL', ends_as)) NOT VALID;
GRANT UPDATE (ends_as, ends_note, ends_by_kind, ends_by) ON withdrawals TO coffer_app;

-- +goose StatementBegin
CREATE FUNCTION withdrawals_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.ends_as IS NOT NULL AND (NEW.ends_as, NEW.ends_note, NEW.ends_by_kind, NEW.ends_by)
        IS DISTINCT FROM (OLD.ends_as, OLD.ends_note, OLD.ends_by_kind, OLD.ends_by) THEN
        RAISE EXCEPTION 'withdrawal % ends as it was decided', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_ends_fixed';
    END IF;
    IF NEW.status <> OLD.status AND NEW.status IN ('REJECTED', 'CANCELLED', 'FAILED')
        AND EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.withdrawal_id AND status IN ('QUEUED', 'REFUSED', 'WITHDRAWN'))
        AND NOT EXISTS (SELECT FROM dispatch_voids WHERE order_id = NEW.withdrawal_id AND journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'withdrawal % was let go once, and the signer has not journaled that it is void', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_void_first';
    END IF;
    RETURN NEW;
END $$;

-- A flagged deposit is decided anew only when the signer has voided what was decided before
-- and refused: else it could be credited and sent away. What a restore makes again was
-- decided already.
CREATE FUNCTION deposit_resolutions_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.decided_by_kind, NEW.decided_by) IS DISTINCT FROM ('OPERATOR', 'restore') AND EXISTS (
        SELECT FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
        WHERE r.deposit_id = NEW.deposit_id AND r.resolution_id <> NEW.resolution_id AND r.status = 'FAILED' AND o.status IN ('REFUSED', 'WITHDRAWN')
            AND NOT EXISTS (SELECT FROM dispatch_voids v WHERE v.order_id = o.order_id AND v.journal_seq IS NOT NULL)) THEN
        RAISE EXCEPTION 'deposit % was to be sent away once, and the signer has not journaled that this is void', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_void_first';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER withdrawals_void_first BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_void_first();
CREATE TRIGGER deposit_resolutions_void_first BEFORE INSERT ON deposit_resolutions FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_void_first();
