-- Why: the operator may let batch payouts below an amount be paid without an approval of a person.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again: what an interrupted run left behind is made again.
ALTER TABLE organization_settings ADD COLUMN IF NOT EXISTS batch_auto_approve_usd numeric(38,18);
ALTER TABLE organization_settings DROP CONSTRAINT IF EXISTS organization_settings_batch_auto_not_negative,
    ADD CONSTRAINT organization_settings_batch_auto_not_negative CHECK (batch_auto_approve_usd >= 0) NOT VALID;
ALTER TABLE organization_settings VALIDATE CONSTRAINT organization_settings_batch_auto_not_negative;
ALTER TABLE payout_batches ADD COLUMN IF NOT EXISTS auto_below numeric(38,18);
ALTER TABLE payout_batches ADD COLUMN IF NOT EXISTS auto_value numeric(38,18);
ALTER TABLE payout_batches DROP CONSTRAINT IF EXISTS payout_batches_submitted, ADD CONSTRAINT payout_batches_submitted CHECK (
        num_nonnulls(submitter_kind, submitter_id, submitted_at, request_mac) IN (0, 4)
        AND (submitted_at IS NOT NULL OR status IN ('DRAFT', 'CANCELLED'))
        AND (submitted_at IS NULL OR status <> 'DRAFT')
        AND approvals_required BETWEEN CASE WHEN submitted_at IS NULL OR auto_below IS NOT NULL THEN 0 ELSE 1 END AND 10) NOT VALID;
ALTER TABLE payout_batches DROP CONSTRAINT IF EXISTS payout_batches_auto, ADD CONSTRAINT payout_batches_auto CHECK (
        num_nonnulls(auto_below, auto_value) = 0
        OR num_nonnulls(auto_below, auto_value, approved_at) = 3 AND auto_value >= 0 AND auto_value < auto_below
            AND approvals_required = 0 AND retry_of IS NULL) NOT VALID;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_submitted;
ALTER TABLE payout_batches VALIDATE CONSTRAINT payout_batches_auto;
GRANT UPDATE (auto_below, auto_value) ON payout_batches TO coffer_app;

-- +goose StatementBegin
-- One transaction.

-- A batch that needs no person goes from its check to its payments, and only then needs no approval.
CREATE OR REPLACE FUNCTION payout_batches_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (NEW.version, NEW.status) IS DISTINCT FROM (1::bigint, 'DRAFT') OR NEW.retry_of IS NOT NULL AND (
                SELECT b.ended_at IS NOT NULL FROM payout_batches b WHERE b.batch_id = NEW.retry_of AND b.org_id = NEW.org_id) IS NOT TRUE THEN
            RAISE EXCEPTION 'batch % begins with an outcome', NEW.batch_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_begin';
        END IF;
        RETURN NEW;
    END IF;
    -- What was approved changes once, when a PARTIAL batch leaves rows out, before anyone may approve it.
    IF (NEW.content_hash, NEW.header) IS DISTINCT FROM (OLD.content_hash, OLD.header)
       AND (OLD.status <> 'VALIDATING' OR NEW.status NOT IN ('AWAITING_APPROVAL', 'PROCESSING') OR OLD.mode <> 'PARTIAL'
            OR NEW.content_hash = OLD.content_hash OR NEW.header = OLD.header) THEN
        RAISE EXCEPTION 'batch % has the content that was submitted', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_content_fixed';
    END IF;
    IF (OLD.status = 'VALIDATING' AND NEW.status = 'PROCESSING') <> (NEW.auto_below IS NOT NULL AND OLD.auto_below IS NULL)
       OR OLD.auto_below IS NOT NULL AND (NEW.auto_below, NEW.auto_value) IS DISTINCT FROM (OLD.auto_below, OLD.auto_value) THEN
        RAISE EXCEPTION 'batch % is paid without a person from its check on, or never', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_auto_once';
    END IF;
    IF OLD.status = NEW.status THEN
        IF (NEW.submitter_kind, NEW.submitter_id, NEW.submitted_at, NEW.submitted_hash, NEW.duplicate_of, NEW.approvals_required,
                NEW.request_mac, NEW.approved_at, NEW.ended_at, NEW.problem)
           IS DISTINCT FROM (OLD.submitter_kind, OLD.submitter_id, OLD.submitted_at, OLD.submitted_hash, OLD.duplicate_of,
                OLD.approvals_required, OLD.request_mac, OLD.approved_at, OLD.ended_at, OLD.problem)
           OR (NEW.paused_at, NEW.pause_reason, NEW.stopped_at, NEW.stopper_kind, NEW.stopper_id)
                IS NOT DISTINCT FROM (OLD.paused_at, OLD.pause_reason, OLD.stopped_at, OLD.stopper_kind, OLD.stopper_id)
            AND (NEW.version, NEW.updated_at) IS DISTINCT FROM (OLD.version, OLD.updated_at) THEN
            RAISE EXCEPTION 'batch % changes with its status alone', OLD.batch_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_fixed';
        END IF;
        IF (NEW.paused_at, NEW.pause_reason, NEW.stopped_at, NEW.stopper_kind, NEW.stopper_id)
                IS NOT DISTINCT FROM (OLD.paused_at, OLD.pause_reason, OLD.stopped_at, OLD.stopper_kind, OLD.stopper_id) THEN
            RETURN NEW;
        END IF;
        IF OLD.status <> 'PROCESSING' OR OLD.stopped_at IS NOT NULL OR OLD.paused_at IS NOT NULL AND NEW.paused_at <> OLD.paused_at THEN
            RAISE EXCEPTION 'batch % is not being paid, or was cancelled', OLD.batch_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_pausable';
        END IF;
    ELSIF (NEW.paused_at, NEW.pause_reason, NEW.stopped_at, NEW.stopper_kind, NEW.stopper_id)
            IS DISTINCT FROM (OLD.paused_at, OLD.pause_reason, OLD.stopped_at, OLD.stopper_kind, OLD.stopper_id)
        AND (NEW.status <> 'PROCESSING' OR NEW.stopped_at IS NOT NULL) THEN
        RAISE EXCEPTION 'batch % is not being paid', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_pausable';
    END IF;
    IF NEW.version <> OLD.version + 1 OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'a change of batch % does not follow version %', OLD.batch_id, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_version_forward';
    END IF;
    IF OLD.status <> NEW.status AND (OLD.status || ' ' || NEW.status) NOT IN (
            'DRAFT VALIDATING', 'DRAFT CANCELLED', 'VALIDATING INVALID', 'VALIDATING AWAITING_APPROVAL', 'VALIDATING PROCESSING',
            'VALIDATING CANCELLED',
            'AWAITING_APPROVAL PROCESSING', 'AWAITING_APPROVAL REJECTED', 'AWAITING_APPROVAL CANCELLED',
            'PROCESSING COMPLETED', 'PROCESSING PARTIALLY_COMPLETED', 'PROCESSING FAILED', 'PROCESSING CANCELLED') THEN
        RAISE EXCEPTION 'batch % does not go from % to %', OLD.batch_id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_transition_known';
    END IF;
    IF OLD.status <> 'DRAFT' AND ((NEW.submitter_kind, NEW.submitter_id, NEW.submitted_at, NEW.submitted_hash, NEW.duplicate_of)
               IS DISTINCT FROM (OLD.submitter_kind, OLD.submitter_id, OLD.submitted_at, OLD.submitted_hash, OLD.duplicate_of)
           OR NEW.approvals_required <> OLD.approvals_required AND (NEW.auto_below IS NULL OR OLD.auto_below IS NOT NULL)
           OR NEW.request_mac IS DISTINCT FROM OLD.request_mac AND NEW.content_hash = OLD.content_hash
                AND NEW.approvals_required = OLD.approvals_required)
       OR OLD.approved_at IS NOT NULL AND NEW.approved_at IS DISTINCT FROM OLD.approved_at THEN
        RAISE EXCEPTION 'batch % was submitted and approved once', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_submitted_once';
    END IF;
    RETURN NEW;
END $$;

-- It has its rows, its verdicts and its postings, and no row that a person has to look at.
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
        WHEN b.status = 'PROCESSING' AND b.approvals_required > (SELECT count(*) FROM payout_approvals a WHERE a.batch_id = NEW.batch_id)
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

-- What it leaves out comes back with that step.
CREATE OR REPLACE FUNCTION ledger_batch_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    batch text := split_part(NEW.cause_id, '/', 1) COLLATE "default";
    part  text := split_part(NEW.cause_id, '/', 2) COLLATE "default";
    row_text text := split_part(NEW.cause_id, '/', 3) COLLATE "default";
BEGIN
    IF (SELECT b.org_id = NEW.org_id AND (d.subject, c.subject) = ('BATCH_PAYOUT', 'BATCH_PAYOUT')
            AND CASE
                WHEN part = 'row' THEN NEW.cause_kind = 'BATCH_RELEASE' AND b.status = 'PROCESSING'
                    AND NEW.cause_id = (batch || '/row/' || row_text) COLLATE "C"
                    AND (SELECT (i.mint_id, i.amount) = (NEW.mint_id, NEW.amount) AND i.refused IS NOT NULL
                        FROM payout_items i WHERE i.batch_id = batch AND i.row_no::text = row_text)
                WHEN part = 'excluded' THEN NEW.cause_kind = 'BATCH_RELEASE'
                    AND (b.status = 'AWAITING_APPROVAL' OR b.status = 'PROCESSING' AND b.auto_below IS NOT NULL)
                    AND NEW.cause_id = (batch || '/excluded/' || NEW.mint_id) COLLATE "C"
                    AND NEW.amount = (SELECT sum(i.amount) FROM payout_items i WHERE i.batch_id = batch AND i.mint_id = NEW.mint_id AND NOT i.included)
                ELSE NEW.cause_id = (batch || '/' || NEW.mint_id) COLLATE "C"
                    AND NEW.amount = (SELECT sum(i.amount) FROM payout_items i WHERE i.batch_id = batch AND i.mint_id = NEW.mint_id
                        AND i.included)
                    AND CASE NEW.cause_kind WHEN 'BATCH_HOLD' THEN b.status = 'VALIDATING' AND b.version = 2
                        ELSE b.status IN ('INVALID', 'CANCELLED', 'REJECTED') AND b.submitted_at IS NOT NULL AND b.approved_at IS NULL END END
            AND CASE NEW.cause_kind WHEN 'BATCH_HOLD' THEN (d.kind, c.kind) = ('PRODUCT', 'BATCH_HELD')
                ELSE (d.kind, c.kind) = ('BATCH_HELD', 'PRODUCT') END
        FROM payout_batches b, ledger_accounts d, ledger_accounts c
        WHERE b.batch_id = batch AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_batch';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
