-- Why: the first of two signatures may end before the second one comes. The signer then refuses the payment, and all
-- people sign anew. So a person may sign again what is about to end. The person counts once as before: the quorum counts
-- first approvals alone.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again: what an interrupted run left behind is made again.
ALTER TABLE withdrawal_approvals ADD COLUMN IF NOT EXISTS nth smallint NOT NULL DEFAULT 0;
ALTER TABLE payout_approvals ADD COLUMN IF NOT EXISTS nth smallint NOT NULL DEFAULT 0;
ALTER TABLE swap_approvals ADD COLUMN IF NOT EXISTS nth smallint NOT NULL DEFAULT 0;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawal_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
    -- A person signs again what has no signature, or one that is about to end.
    IF NEW.nth > 0 AND (NEW.signature IS NULL OR NEW.nth <> (SELECT count(*) FROM withdrawal_approvals a
            WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = NEW.round AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id))
        OR EXISTS (SELECT FROM withdrawal_approvals a
            WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = NEW.round AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id)
                AND (a.signature ->> 'notAfter')::timestamptz > NEW.at + interval '5 minutes')) THEN
        RAISE EXCEPTION 'withdrawal % is approved by this person', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_again';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION payout_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    b record;
BEGIN
    SELECT status, content_hash, maker_kind, maker_id, submitter_kind, submitter_id INTO b
    FROM payout_batches WHERE org_id = NEW.org_id AND batch_id = NEW.batch_id;
    IF (b.status = 'AWAITING_APPROVAL' AND b.content_hash = NEW.content_hash) IS NOT TRUE THEN
        RAISE EXCEPTION 'batch % does not wait for this approval', NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_approvals_waited_for';
    END IF;
    IF (NEW.approver_kind, NEW.approver_id) IN ((b.maker_kind, b.maker_id), (b.submitter_kind, b.submitter_id)) THEN
        RAISE EXCEPTION 'batch % was made or submitted by the same person', NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_approvals_not_by_maker';
    END IF;
    -- A person signs again what has no signature, or one that is about to end.
    IF NEW.nth > 0 AND (NEW.signature IS NULL OR NEW.nth <> (SELECT count(*) FROM payout_approvals a
            WHERE a.batch_id = NEW.batch_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id))
        OR EXISTS (SELECT FROM payout_approvals a
            WHERE a.batch_id = NEW.batch_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id)
                AND (a.signature ->> 'notAfter')::timestamptz > NEW.at + interval '5 minutes')) THEN
        RAISE EXCEPTION 'batch % is approved by this person', NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_approvals_again';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION swap_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    s record;
BEGIN
    SELECT status, requester_kind, requester_id INTO s FROM swaps WHERE org_id = NEW.org_id AND swap_id = NEW.swap_id;
    IF (s.status = 'AWAITING_APPROVAL') IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % does not wait for this approval', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_waited_for';
    END IF;
    IF (s.requester_kind, s.requester_id) = (NEW.approver_kind, NEW.approver_id) THEN
        RAISE EXCEPTION 'swap % was asked for by the same person', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_not_by_maker';
    END IF;
    -- A person signs again what has no signature, or one that is about to end.
    IF NEW.nth > 0 AND (NEW.signature IS NULL OR NEW.nth <> (SELECT count(*) FROM swap_approvals a
            WHERE a.swap_id = NEW.swap_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id))
        OR EXISTS (SELECT FROM swap_approvals a
            WHERE a.swap_id = NEW.swap_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id)
                AND (a.signature ->> 'notAfter')::timestamptz > NEW.at + interval '5 minutes')) THEN
        RAISE EXCEPTION 'swap % is approved by this person', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_again';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawals_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    w record;
    n bigint;
BEGIN
    SELECT status, requires_approval, approvals_required, approval_round INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.status <> 'PROCESSING' OR NOT w.requires_approval OR EXISTS (SELECT FROM dispatch_slots WHERE order_id = NEW.withdrawal_id) THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO n FROM withdrawal_approvals a WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = w.approval_round AND a.nth = 0;
    IF n < greatest(w.approvals_required, 1) THEN
        RAISE EXCEPTION 'withdrawal % has % approvals and needs %', NEW.withdrawal_id, n, greatest(w.approvals_required, 1)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_approved_by_enough';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION payout_batches_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    b      record;
    unheld bigint;
    kept   bigint;
    excluded bigint;
    included bigint;
    unpaid bigint;
    paid   bigint;
    broken text;
    is_checked boolean;
BEGIN
    SELECT x.status, x.row_count, x.bad_count, x.mode, x.approvals_required, x.submitted_at IS NOT NULL AS is_held, x.approved_at IS NOT NULL AS is_approved
        INTO b FROM payout_batches x WHERE x.batch_id = NEW.batch_id;
    SELECT count(*) FILTER (WHERE h.cause_id IS NULL), count(*) FILTER (WHERE r.cause_id IS NULL AND m.is_included),
        count(*) FILTER (WHERE x.cause_id IS NULL AND m.is_excluded) INTO unheld, kept, excluded
    FROM (SELECT (i.batch_id || '/' || i.mint_id) COLLATE "C" AS cause_id, (i.batch_id || '/excluded/' || i.mint_id) COLLATE "C" AS exclusion_id,
            bool_or(i.included) AS is_included, bool_or(NOT i.included) AS is_excluded
        FROM payout_items i WHERE i.batch_id = NEW.batch_id GROUP BY i.batch_id, i.mint_id) m
    LEFT JOIN ledger_transfers h ON h.cause_kind = 'BATCH_HOLD' AND h.cause_id = m.cause_id AND h.leg = 0
    LEFT JOIN ledger_transfers r ON r.cause_kind = 'BATCH_RELEASE' AND r.cause_id = m.cause_id AND r.leg = 0
    LEFT JOIN ledger_transfers x ON x.cause_kind = 'BATCH_RELEASE' AND x.cause_id = m.exclusion_id AND x.leg = 0;
    is_checked := b.status = 'AWAITING_APPROVAL' OR b.status = 'PROCESSING' AND TG_OP = 'UPDATE' AND OLD.status = 'VALIDATING';
    broken := CASE
        WHEN b.row_count <> (SELECT count(*) FROM payout_items i WHERE i.batch_id = NEW.batch_id) THEN 'payout_batches_whole'
        WHEN b.bad_count <> (SELECT count(*) FROM payout_bad_rows i WHERE i.batch_id = NEW.batch_id) THEN 'payout_batches_bad_rows'
        WHEN b.is_held AND unheld > 0 THEN 'payout_batches_held'
        WHEN b.is_held AND NOT b.is_approved AND b.status IN ('INVALID', 'CANCELLED', 'REJECTED') AND kept > 0 THEN 'payout_batches_released'
        WHEN excluded > 0 THEN 'payout_batches_excluded'
        WHEN is_checked AND EXISTS (SELECT FROM payout_items i WHERE i.batch_id = NEW.batch_id
                AND i.included AND (i.checked_at IS NULL OR i.refused IS NOT NULL)) THEN 'payout_batches_checked'
        WHEN is_checked AND NEW.auto_below IS NOT NULL AND EXISTS (SELECT FROM payout_warnings n JOIN payout_items i USING (batch_id, row_no)
                WHERE n.batch_id = NEW.batch_id AND n.kind IN ('LOOK_ALIKE', 'FIRST_PAYMENT') AND i.included) THEN 'payout_batches_auto_known'
        WHEN is_checked AND (OLD.content_hash <> NEW.content_hash) <> EXISTS (
                SELECT FROM payout_items i WHERE i.batch_id = NEW.batch_id AND NOT i.included) THEN 'payout_batches_content_follows'
        WHEN b.status = 'PROCESSING' AND b.approvals_required > (SELECT count(*) FROM payout_approvals a WHERE a.batch_id = NEW.batch_id AND a.nth = 0)
            THEN 'payout_batches_approved_by_enough'
        END;
    IF broken IS NULL AND b.is_approved AND b.status IN ('COMPLETED', 'PARTIALLY_COMPLETED', 'FAILED', 'CANCELLED') THEN
        SELECT count(*) FILTER (WHERE i.included), count(*) FILTER (WHERE w.status = 'COMPLETED'),
            count(*) FILTER (WHERE i.refused IS NULL AND (w.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')) IS NOT TRUE) INTO included, paid, unpaid
        FROM payout_items i LEFT JOIN withdrawals w ON w.batch_id = i.batch_id AND w.batch_row = i.row_no WHERE i.batch_id = NEW.batch_id;
        broken := CASE WHEN unpaid > 0 OR b.status <> CASE paid WHEN included THEN 'COMPLETED'
                WHEN 0 THEN CASE WHEN NEW.stopped_at IS NULL THEN 'FAILED' ELSE 'CANCELLED' END ELSE 'PARTIALLY_COMPLETED' END
            THEN 'payout_batches_ended_by_rows' END;
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'batch % is %, and other rows say something else', NEW.batch_id, b.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION swaps_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    n bigint;
    s record;
BEGIN
    SELECT approvals_required, num_nonnulls(imported_at, adopted_at) > 0 AS restored INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    SELECT count(*) INTO n FROM swap_approvals a WHERE a.swap_id = NEW.swap_id AND a.nth = 0;
    IF NOT s.restored AND n < s.approvals_required THEN
        RAISE EXCEPTION 'swap % has % approvals and needs %', NEW.swap_id, n, s.approvals_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_approved_by_enough';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP INDEX CONCURRENTLY IF EXISTS withdrawal_approvals_nth;
CREATE UNIQUE INDEX CONCURRENTLY withdrawal_approvals_nth ON withdrawal_approvals (withdrawal_id, round, approver_kind, approver_id, nth);
ALTER TABLE withdrawal_approvals
    DROP CONSTRAINT IF EXISTS withdrawal_approvals_pkey,
    ADD CONSTRAINT withdrawal_approvals_pkey PRIMARY KEY USING INDEX withdrawal_approvals_nth;
DROP INDEX CONCURRENTLY IF EXISTS payout_approvals_nth;
CREATE UNIQUE INDEX CONCURRENTLY payout_approvals_nth ON payout_approvals (batch_id, approver_kind, approver_id, nth);
ALTER TABLE payout_approvals
    DROP CONSTRAINT IF EXISTS payout_approvals_pkey,
    ADD CONSTRAINT payout_approvals_pkey PRIMARY KEY USING INDEX payout_approvals_nth;
DROP INDEX CONCURRENTLY IF EXISTS swap_approvals_nth;
CREATE UNIQUE INDEX CONCURRENTLY swap_approvals_nth ON swap_approvals (swap_id, approver_kind, approver_id, nth);
ALTER TABLE swap_approvals
    DROP CONSTRAINT IF EXISTS swap_approvals_pkey,
    ADD CONSTRAINT swap_approvals_pkey PRIMARY KEY USING INDEX swap_approvals_nth;
