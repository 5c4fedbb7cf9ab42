-- Why: the check of a new swap against the books read all transfers of the ledger in a session that had planned
-- it on small tables. It looks each cause up by the key.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION swaps_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    s      record;
    -- One look-up by the key for each cause: for a list of causes, a session that planned on small tables reads all
    -- transfers.
    posted text[] := ARRAY(SELECT k FROM unnest(ARRAY['SWAP_HOLD', 'SWAP_PAID', 'SWAP_END', 'SWAP_FEE']) k
        WHERE (SELECT true FROM ledger_transfers WHERE cause_kind = k AND cause_id = NEW.swap_id COLLATE "C" AND leg = 0));
    broken text;
BEGIN
    SELECT swap_id, status, paid_at, fee_amount, restored, restore_count, short, short_count, amount_out IS NOT NULL AS delivered,
        status = 'COMPLETED' AND kind = 'CUSTOMER' AS billed,
        -- What was never offered to a provider is whole again when it ends.
        provider IS NULL AND restored <> CASE WHEN status IN ('AWAITING_APPROVAL', 'PENDING') THEN 0 ELSE amount_in END AS kept
    INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    broken := CASE
        WHEN 'SWAP_HOLD' <> ALL (posted) THEN 'swaps_held'
        WHEN s.kept THEN 'swaps_released'
        WHEN 'SWAP_PAID' = ANY (posted) <> (s.paid_at IS NOT NULL) THEN 'swaps_paid'
        WHEN 'SWAP_END' = ANY (posted) <> s.delivered THEN 'swaps_settled'
        WHEN 'SWAP_FEE' = ANY (posted) <> (s.billed AND s.fee_amount > 0) THEN 'swaps_fee_posted'
        WHEN s.billed <> EXISTS (SELECT FROM fee_lines WHERE source_kind = 'SWAP' AND source_id = s.swap_id) THEN 'swaps_billed'
        WHEN s.restored <> (SELECT coalesce(sum((SELECT sum(t.amount) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_RESTORE'
            AND t.cause_id = (s.swap_id || '/' || n) COLLATE "C")), 0) FROM generate_series(1, s.restore_count) n) THEN 'swaps_restored'
        WHEN s.short <> (SELECT coalesce(sum((SELECT sum(t.amount) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_SHORT'
            AND t.cause_id = (s.swap_id || '/' || n) COLLATE "C")), 0) FROM generate_series(1, s.short_count) n) THEN 'swaps_short'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'swap % is %, and the books say something else', NEW.swap_id, s.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
