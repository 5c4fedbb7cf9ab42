-- Why: a destination is screened before a customer's withdrawal is accepted and again
-- before it is approved. One that is refused leaves a record that holds nothing, and
-- every decision keeps what screening said, so that it can be decided again later:
-- decision 0039.
-- +goose Up

-- screening is what the interface shows of it; the whole stands with the decision. The
-- constraints are not looked through: no row from before is BLOCKED.
ALTER TABLE withdrawals
    ADD COLUMN screening jsonb,
    DROP CONSTRAINT withdrawals_status_known,
    ADD CONSTRAINT withdrawals_status_known CHECK (status IN
        ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST', 'COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')) NOT VALID,
    ADD CONSTRAINT withdrawals_blocked_is_nothing CHECK (
        status <> 'BLOCKED' OR NOT requires_approval AND approval_reasons = '{}' AND chain_status = 'NONE'
            AND num_nonnulls(fee_deducted, network_fee, tx_hash, approved_at, broadcast_at, completed_at, restored_at) = 0) NOT VALID,
    DROP CONSTRAINT withdrawals_fee_decided,
    ADD CONSTRAINT withdrawals_fee_decided CHECK (
        fee_mode <> 'DEDUCTED' OR fee_deducted IS NOT NULL OR status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED')) NOT VALID;

-- An approval that finds something new leaves the withdrawal where it is, and says so.
GRANT UPDATE (approval_reasons, screening) ON withdrawals TO coffer_app;

ALTER TABLE withdrawal_decisions
    ADD COLUMN risk jsonb, -- what the gate of risk was decided by, whole; NULL where nobody asked it
    DROP CONSTRAINT withdrawal_decisions_act_known,
    ADD CONSTRAINT withdrawal_decisions_act_known CHECK (
        CASE act WHEN 'REQUESTED' THEN status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BLOCKED')
                 WHEN 'APPROVED' THEN status = 'PROCESSING'
                 WHEN 'APPROVAL_REFUSED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'RETURNED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'REMOVED' THEN status = 'REJECTED'
                 WHEN 'CANCELLED' THEN status = 'CANCELLED'
                 ELSE false END) NOT VALID;
GRANT INSERT (risk) ON withdrawal_decisions TO coffer_app, coffer_system;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.withdrawal_id, NEW.org_id, NEW.customer_id, NEW.mint_id, NEW.chain, NEW.amount, NEW.to_address, NEW.idempotency_key, NEW.request_digest)
       IS DISTINCT FROM
       (OLD.withdrawal_id, OLD.org_id, OLD.customer_id, OLD.mint_id, OLD.chain, OLD.amount, OLD.to_address, OLD.idempotency_key, OLD.request_digest) THEN
        RAISE EXCEPTION 'withdrawal % cannot become another payment', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_payment_fixed';
    END IF;
    IF OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'withdrawal % is %', OLD.withdrawal_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terminal';
    END IF;
    RETURN NEW;
END $$;

-- As before (0017), and one that was blocked has no hold, no end and no order.
CREATE OR REPLACE FUNCTION withdrawals_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    id       text;
    now      text;
    debt     numeric;
    taken    integer;
    restored boolean;
    held     boolean;
    ended    boolean;
    sent     text;
    broken   text;
BEGIN
    SELECT w.withdrawal_id, w.status, w.owed, w.takings, w.restored_at IS NOT NULL, o.status,
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = NEW.withdrawal_id AND leg = 0),
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = NEW.withdrawal_id AND leg = 0)
    INTO id, now, debt, taken, restored, sent, held, ended
    FROM withdrawals w LEFT JOIN dispatch_orders o ON o.order_id = NEW.withdrawal_id
    WHERE w.withdrawal_id = NEW.withdrawal_id;
    IF held = (now = 'BLOCKED') THEN
        broken := 'withdrawals_held';
    ELSIF ended <> (now IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')) THEN
        broken := 'withdrawals_ended';
    ELSIF NOT (CASE now
            WHEN 'AWAITING_APPROVAL' THEN coalesce(sent, 'REFUSED') IN ('REFUSED', 'WITHDRAWN')
            WHEN 'REJECTED' THEN coalesce(sent, 'WITHDRAWN') = 'WITHDRAWN'
            WHEN 'CANCELLED' THEN coalesce(sent, 'WITHDRAWN') = 'WITHDRAWN'
            WHEN 'BLOCKED' THEN sent IS NULL
            WHEN 'PROCESSING' THEN coalesce(sent, '') IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')
            WHEN 'BROADCAST' THEN coalesce(sent, '') IN ('BROADCAST', 'STUCK')
            WHEN 'COMPLETED' THEN coalesce(sent, 'PAID') = 'PAID'
            ELSE coalesce(sent, '') = 'FAILED' END) THEN
        broken := 'withdrawals_as_ordered';
    ELSIF restored AND debt <> (
            SELECT coalesce(sum(CASE WHEN t.cause_id = id THEN t.amount ELSE -t.amount END), 0) FROM ledger_transfers t
            WHERE t.cause_kind = 'RESTORE' AND t.cause_id = ANY (ARRAY[id] || ARRAY(SELECT id || '/' || n FROM generate_series(1, taken) n))) THEN
        broken := 'withdrawals_owed_posted';
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'withdrawal % is %, its order %, and the books say something else', id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
