-- Why: who let a held payment go was one time in its row, which one write could make
-- up. Now each approval is a row of its own by another person, bound to the words that
-- the person saw; a payment that was held is not made with fewer than it needs; and an
-- order carries what the signer checks by a key that is not in this database:
-- decision 0039.
-- +goose Up

ALTER TABLE withdrawals
    ADD COLUMN approvals_required smallint NOT NULL DEFAULT 0, -- the organization's quorum when it was held; 0: it never was, or before this
    ADD COLUMN approval_round smallint NOT NULL DEFAULT 0,     -- how often it was sent back to people
    ADD COLUMN request_mac bytea,                              -- of its words, by the server's key
    ADD CONSTRAINT withdrawals_approvals_bounded CHECK (approvals_required BETWEEN 0 AND 10 AND approval_round >= 0) NOT VALID;
GRANT UPDATE (approvals_required) ON withdrawals TO coffer_app;
ALTER TABLE dispatch_orders ADD COLUMN authority jsonb; -- why it may be paid, for the signer
GRANT UPDATE (authority) ON dispatch_orders TO coffer_app;

CREATE TABLE withdrawal_approvals (
    org_id        text NOT NULL,
    withdrawal_id text NOT NULL,
    round         smallint NOT NULL,
    approver_kind text NOT NULL,
    approver_id   text COLLATE "C" NOT NULL,
    at            timestamptz NOT NULL,
    digest        text NOT NULL, -- hex SHA-256 of the words that were approved
    mac           bytea NOT NULL, -- of the digest, the round and the person, by the server's key
    -- A person counts once.
    CONSTRAINT withdrawal_approvals_pkey PRIMARY KEY (withdrawal_id, round, approver_kind, approver_id),
    CONSTRAINT withdrawal_approvals_withdrawal FOREIGN KEY (org_id, withdrawal_id) REFERENCES withdrawals (org_id, withdrawal_id),
    CONSTRAINT withdrawal_approvals_by_people CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> '')
);
SELECT coffer_tenant('withdrawal_approvals', 'SELECT, INSERT', 'SELECT, INSERT');
CREATE TRIGGER withdrawal_approvals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON withdrawal_approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose StatementBegin
-- An approval is of a withdrawal that waits, as it waits now, and not by who asked for it.
CREATE FUNCTION withdrawal_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    w record;
BEGIN
    SELECT status, approval_round INTO w FROM withdrawals WHERE org_id = NEW.org_id AND withdrawal_id = NEW.withdrawal_id;
    IF (w.status = 'AWAITING_APPROVAL' AND w.approval_round = NEW.round) IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % does not wait for this approval', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_waited_for';
    END IF;
    IF EXISTS (SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = NEW.withdrawal_id AND d.act = 'REQUESTED'
            AND (d.actor_kind, d.actor_id) = (NEW.approver_kind, NEW.approver_id)) THEN
        RAISE EXCEPTION 'withdrawal % was asked for by the same person', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_not_by_maker';
    END IF;
    RETURN NEW;
END $$;

-- What was held stays held by at least as many.
CREATE FUNCTION withdrawals_quorum_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.approvals_required < OLD.approvals_required OR NEW.approval_round < OLD.approval_round
       OR OLD.requires_approval AND NOT NEW.requires_approval
       OR OLD.request_mac IS NOT NULL AND NEW.request_mac IS DISTINCT FROM OLD.request_mac THEN
        RAISE EXCEPTION 'withdrawal % needs the approvals that it needs', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_quorum_kept';
    END IF;
    RETURN NEW;
END $$;

-- A held payment goes out with enough of them. One that the signer has signed already
-- and a restored database has again has its slot at the same time.
CREATE FUNCTION withdrawals_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    w record;
    n bigint;
BEGIN
    SELECT status, requires_approval, approvals_required, approval_round INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.status <> 'PROCESSING' OR NOT w.requires_approval OR EXISTS (SELECT FROM dispatch_slots WHERE order_id = NEW.withdrawal_id) THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO n FROM withdrawal_approvals a WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = w.approval_round;
    IF n < greatest(w.approvals_required, 1) THEN
        RAISE EXCEPTION 'withdrawal % has % approvals and needs %', NEW.withdrawal_id, n, greatest(w.approvals_required, 1)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_approved_by_enough';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER withdrawal_approvals_fit BEFORE INSERT ON withdrawal_approvals FOR EACH ROW EXECUTE FUNCTION withdrawal_approvals_fit();
CREATE TRIGGER withdrawals_quorum_keep BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_quorum_keep();
CREATE CONSTRAINT TRIGGER withdrawals_quorum AFTER INSERT OR UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'PROCESSING' AND NEW.requires_approval) EXECUTE FUNCTION withdrawals_quorum();

ALTER TABLE withdrawal_decisions
    DROP CONSTRAINT withdrawal_decisions_act_known,
    ADD CONSTRAINT withdrawal_decisions_act_known CHECK (
        CASE act WHEN 'REQUESTED' THEN status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BLOCKED')
                 WHEN 'APPROVAL_ADDED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'APPROVED' THEN status = 'PROCESSING'
                 WHEN 'APPROVAL_REFUSED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'RETURNED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'REMOVED' THEN status = 'REJECTED'
                 WHEN 'CANCELLED' THEN status = 'CANCELLED'
                 ELSE false END) NOT VALID;
