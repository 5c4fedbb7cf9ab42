-- Why: the value of a batch that was paid without a person could change alone. The trigger of migration 0185 compared it only
-- once the amount was set.

-- +goose Up
-- +goose StatementBegin
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
       OR (OLD.auto_below IS NOT NULL OR NEW.auto_below IS NULL) AND (NEW.auto_below, NEW.auto_value) IS DISTINCT FROM (OLD.auto_below, OLD.auto_value) THEN
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
-- +goose StatementEnd
