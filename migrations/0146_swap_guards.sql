-- Why: a role of the service could write an outcome into a swap that waits for approval, and two processes could
-- fail a delivered swap and request the withdrawal that pays its output.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION swaps_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.swap_id, NEW.org_id, NEW.customer_id, NEW.idempotency_key, NEW.key_hash, NEW.request_digest, NEW.metadata, NEW.from_mint_id,
            NEW.to_mint_id, NEW.from_chain, NEW.to_chain, NEW.amount_in, NEW.min_out,
            NEW.delivery_wallet_id, NEW.refund_wallet_id, NEW.usd_value,
            NEW.fee_bps, NEW.fee_amount, NEW.created_at, NEW.imported_at,
            NEW.kind, NEW.product, NEW.whitelisted_address_id, NEW.payout_address, NEW.payout_max, NEW.payout_until, NEW.slippage_bps,
            NEW.approvals_required, NEW.request_mac, NEW.requester_kind, NEW.requester_id)
       IS DISTINCT FROM
       (OLD.swap_id, OLD.org_id, OLD.customer_id, OLD.idempotency_key, OLD.key_hash, OLD.request_digest, OLD.metadata, OLD.from_mint_id,
            OLD.to_mint_id, OLD.from_chain, OLD.to_chain, OLD.amount_in, OLD.min_out,
            OLD.delivery_wallet_id, OLD.refund_wallet_id, OLD.usd_value,
            OLD.fee_bps, OLD.fee_amount, OLD.created_at, OLD.imported_at,
            OLD.kind, OLD.product, OLD.whitelisted_address_id, OLD.payout_address, OLD.payout_max, OLD.payout_until, OLD.slippage_bps,
            OLD.approvals_required, OLD.request_mac, OLD.requester_kind, OLD.requester_id)
       OR (OLD.provider IS NOT NULL OR OLD.status <> 'PENDING' OR NEW.status <> 'PENDING')
          AND (NEW.estimated_out, NEW.provider, NEW.deposit_address, NEW.refund_fee, NEW.pay_by, NEW.expires_at, NEW.estimated_seconds)
            IS DISTINCT FROM
            (OLD.estimated_out, OLD.provider, OLD.deposit_address, OLD.refund_fee, OLD.pay_by, OLD.expires_at, OLD.estimated_seconds) THEN
        RAISE EXCEPTION 'the terms of swap % are fixed', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_terms_fixed';
    END IF;
    IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (('PENDING', 'DEPOSITING'), ('PENDING', 'PROCESSING'), ('PENDING', 'FAILED'),
            ('DEPOSITING', 'PROCESSING'), ('DEPOSITING', 'FAILED'), ('PROCESSING', 'COMPLETED'), ('PROCESSING', 'FAILED'),
            ('AWAITING_APPROVAL', 'PENDING'), ('AWAITING_APPROVAL', 'REJECTED'), ('AWAITING_APPROVAL', 'CANCELLED')) THEN
        RAISE EXCEPTION 'swap % is %', OLD.swap_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_forward';
    END IF;
    IF NEW.refunded < OLD.refunded OR NEW.restored < OLD.restored OR NEW.short < OLD.short
       OR NEW.restore_count NOT IN (OLD.restore_count, OLD.restore_count + 1) OR (NEW.restored = OLD.restored) <> (NEW.restore_count = OLD.restore_count)
       OR NEW.short_count NOT IN (OLD.short_count, OLD.short_count + 1) OR (NEW.short = OLD.short) <> (NEW.short_count = OLD.short_count)
       OR NEW.restored = OLD.restored AND NEW.restored_at IS DISTINCT FROM OLD.restored_at THEN
        RAISE EXCEPTION 'the numbers of swap % only grow', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_numbers_forward';
    END IF;
    IF OLD.paid_at IS NOT NULL AND NEW.paid_at IS DISTINCT FROM OLD.paid_at
       OR OLD.delayed_at IS NOT NULL AND NEW.delayed_at IS DISTINCT FROM OLD.delayed_at
       OR OLD.end_reason IS NOT NULL AND NEW.end_reason IS DISTINCT FROM OLD.end_reason
       OR OLD.amount_out IS NOT NULL AND (NEW.amount_out, NEW.destination_tx_hash, NEW.delivered_at, NEW.refunded)
            IS DISTINCT FROM (OLD.amount_out, OLD.destination_tx_hash, OLD.delivered_at, OLD.refunded)
       OR (NEW.approved_at IS DISTINCT FROM OLD.approved_at OR NEW.rejected_note IS DISTINCT FROM OLD.rejected_note)
            AND OLD.status <> 'AWAITING_APPROVAL'
       OR (NEW.approved_at IS NOT NULL) < (OLD.status = 'AWAITING_APPROVAL' AND NEW.status = 'PENDING')
       OR NEW.adopted_at IS DISTINCT FROM OLD.adopted_at AND (OLD.provider IS NOT NULL OR NEW.provider IS NULL)
       OR NEW.payout_id IS DISTINCT FROM OLD.payout_id AND (OLD.payout_id IS NOT NULL OR OLD.status <> 'PROCESSING')
       OR OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED') AND (NEW.amount_out, NEW.destination_tx_hash, NEW.delivered_at, NEW.completed_at, NEW.failed_at, NEW.failure_reason, NEW.failure_message, NEW.end_reason)
            IS DISTINCT FROM (OLD.amount_out, OLD.destination_tx_hash, OLD.delivered_at, OLD.completed_at, OLD.failed_at, OLD.failure_reason, OLD.failure_message, OLD.end_reason)
       OR OLD.status IN ('REJECTED', 'CANCELLED') AND (NEW.refunded, NEW.look_at) IS DISTINCT FROM (OLD.refunded, OLD.look_at) THEN
        RAISE EXCEPTION 'what became of swap % is written once', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_written_once';
    END IF;
    -- Until people have decided nothing becomes of a swap: it is let go, or ends with its whole amount back.
    IF OLD.status = 'AWAITING_APPROVAL' AND ((NEW.amount_out, NEW.delivered_at, NEW.paid_at, NEW.origin_tx_hash,
            NEW.destination_tx_hash, NEW.refund_tx_hash, NEW.restored, NEW.restored_at, NEW.short, NEW.refund_report, NEW.end_reason,
            NEW.failure_message, NEW.failure_said_at, NEW.success_said_at, NEW.delayed_at, NEW.owed, NEW.collections)
       IS DISTINCT FROM
       (OLD.amount_out, OLD.delivered_at, OLD.paid_at, OLD.origin_tx_hash,
            OLD.destination_tx_hash, OLD.refund_tx_hash, OLD.restored, OLD.restored_at, OLD.short, OLD.refund_report, OLD.end_reason,
            OLD.failure_message, OLD.failure_said_at, OLD.success_said_at, OLD.delayed_at, OLD.owed, OLD.collections)
       OR NEW.refunded <> CASE WHEN NEW.status IN ('REJECTED', 'CANCELLED') THEN NEW.amount_in ELSE OLD.refunded END) THEN
        RAISE EXCEPTION 'swap % waits for people', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_awaits';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION withdrawals_pay_out() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM swaps s WHERE s.org_id = NEW.org_id AND s.swap_id = substr(NEW.idempotency_key, 6) COLLATE "default"
        AND s.status = 'PROCESSING' AND s.amount_out IS NOT NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'withdrawal % pays the output of a swap that has none to pay', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_pay_out';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawals_pay_out AFTER INSERT ON withdrawals
    FOR EACH ROW WHEN (starts_with(NEW.idempotency_key, 'swap ')) EXECUTE FUNCTION withdrawals_pay_out();

CREATE FUNCTION swaps_fail_unpaid() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM withdrawals w WHERE w.org_id = NEW.org_id AND w.key_hash = key_digest('swap ' || NEW.swap_id)
            AND w.status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')) THEN
        RAISE EXCEPTION 'swap % is failed, and a withdrawal pays its output', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_fail_unpaid';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_fail_unpaid AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'FAILED' AND OLD.status <> 'FAILED' AND NEW.amount_out IS NOT NULL)
    EXECUTE FUNCTION swaps_fail_unpaid();
-- +goose StatementEnd
