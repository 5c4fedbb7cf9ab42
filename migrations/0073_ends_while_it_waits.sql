-- Why: people end a withdrawal also while it is PROCESSING and waits without a slot. Its
-- order is taken back then, and it stays PROCESSING with its hold until the signer has
-- journaled that it is void, as a held one stays AWAITING_APPROVAL: decisions 0073 and
-- 0075. It has no way to a slot meanwhile, and none to BROADCAST.
-- +goose Up

ALTER TABLE withdrawals DROP CONSTRAINT withdrawals_ends_so,
    ADD CONSTRAINT withdrawals_ends_so CHECK (ends_as IS NULL OR status IN ('AWAITING_APPROVAL', 'PROCESSING', ends_as)) NOT VALID;

-- The three functions are as they were but for this: an order that was taken back has a
-- withdrawal that is PROCESSING only with its end decided, and the end of one that has an
-- order is decided only when that was taken back.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawals_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    id       text;
    now      text;
    debt     numeric;
    taken    integer;
    restored boolean;
    held     boolean;
    ending   boolean;
    ended    boolean;
    sent     text;
    broken   text;
BEGIN
    SELECT w.withdrawal_id, w.status, w.owed, w.takings, w.restored_at IS NOT NULL, w.ends_as IS NOT NULL, o.status,
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = NEW.withdrawal_id AND leg = 0),
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = NEW.withdrawal_id AND leg = 0)
    INTO id, now, debt, taken, restored, ending, sent, held, ended
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
            WHEN 'PROCESSING' THEN coalesce(sent, '') IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') OR sent = 'WITHDRAWN' AND ending
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

CREATE OR REPLACE FUNCTION dispatch_orders_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    o       record;
    caused  boolean;
    broken  text;
BEGIN
    SELECT order_id, org_id, purpose, chain, coalesce(from_wallet_id, wallet_id) AS wallet_id, to_wallet_id, to_address, mint_id, amount, customer_id, product, whitelisted_address_id, rides_id, status, fee, fee_deducted, fee_max
    INTO o FROM dispatch_orders WHERE order_id = NEW.order_id;
    IF o.purpose = 'PAYMENT' THEN
        SELECT (w.org_id, w.chain, w.mint_id, w.amount, w.to_address) = (o.org_id, o.chain, o.mint_id, o.amount + o.fee_deducted, o.to_address)
            AND (w.customer_id, w.product, w.whitelisted_address_id) IS NOT DISTINCT FROM (o.customer_id, o.product, o.whitelisted_address_id)
            AND coalesce(w.fee_deducted, 0) = o.fee_deducted AND w.max_network_fee IS NOT DISTINCT FROM o.fee_max
            AND CASE o.status
                WHEN 'PAID' THEN w.status = 'COMPLETED'
                WHEN 'FAILED' THEN w.status = 'FAILED'
                WHEN 'REFUSED' THEN w.status = 'AWAITING_APPROVAL'
                WHEN 'WITHDRAWN' THEN w.status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED') OR w.status = 'PROCESSING' AND w.ends_as IS NOT NULL
                WHEN 'BROADCAST' THEN w.status IN ('PROCESSING', 'BROADCAST')
                WHEN 'STUCK' THEN w.status IN ('PROCESSING', 'BROADCAST')
                ELSE w.status = 'PROCESSING' END
        INTO caused FROM withdrawals w WHERE w.withdrawal_id = o.order_id;
    ELSIF o.purpose = 'RETURN' THEN
        SELECT (r.org_id, r.chain, r.wallet_id, r.mint_id, r.sent, r.to_address) = (o.org_id, o.chain, o.wallet_id, o.mint_id, o.amount, o.to_address)
            AND CASE o.status WHEN 'PAID' THEN r.status = 'DONE'
                WHEN 'FAILED' THEN r.status IN ('STUCK', 'FAILED')
                WHEN 'REFUSED' THEN r.status = 'FAILED'
                WHEN 'WITHDRAWN' THEN r.status = 'FAILED'
                ELSE r.status IN ('OPEN', 'STUCK') END
        INTO caused FROM deposit_resolutions r WHERE r.resolution_id = o.order_id;
    ELSIF o.purpose = 'PLACE' THEN
        SELECT (p.org_id, p.chain, p.wallet_id, p.address, p.amount) = (o.org_id, o.chain, o.wallet_id, o.to_address, o.amount)
            AND CASE o.status WHEN 'PAID' THEN p.status = 'DONE'
                WHEN 'FAILED' THEN p.status = 'FAILED'
                WHEN 'REFUSED' THEN p.status IN ('FAILED', 'REFUSED')
                WHEN 'WITHDRAWN' THEN p.status = 'REFUSED'
                ELSE p.status = 'OPEN' END
        INTO caused FROM places p WHERE p.place_id = o.order_id;
    ELSIF o.purpose = 'MERGE' THEN
        SELECT (m.org_id, m.chain, m.wallet_id) = (o.org_id, o.chain, o.wallet_id)
            -- All of its coins come back to the wallet that is there for its own change.
            AND EXISTS (SELECT FROM wallets w WHERE w.wallet_id = o.to_wallet_id AND w.address = o.to_address AND w.purpose = 'CHANGE' AND w.org_id = o.org_id)
            AND NOT EXISTS (SELECT FROM dispatch_slots s WHERE s.order_id = o.order_id AND right(s.lease, length(o.to_address) + 1) <> ' ' || o.to_address)
            AND CASE o.status WHEN 'PAID' THEN m.status = 'DONE'
                WHEN 'FAILED' THEN m.status = 'FAILED'
                WHEN 'REFUSED' THEN m.status = 'REFUSED'
                WHEN 'WITHDRAWN' THEN m.status = 'REFUSED'
                ELSE m.status = 'OPEN' END
        INTO caused FROM merges m WHERE m.merge_id = o.order_id;
    ELSIF o.purpose = 'CLOSE' THEN
        SELECT (c.org_id, c.chain, c.wallet_id, c.to_wallet_id, c.mint_id, c.amount) = (o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.mint_id, o.amount)
            AND c.status = CASE WHEN o.status = 'PAID' THEN 'DONE' WHEN o.status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END
        INTO caused FROM closes c WHERE c.close_id = o.order_id;
    ELSIF o.purpose = 'SWEEP' THEN
        SELECT (s.org_id, s.chain, s.wallet_id, s.to_wallet_id, s.mint_id, s.amount) = (o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.mint_id, o.amount)
            AND s.status = CASE WHEN o.status = 'PAID' THEN 'DONE' WHEN o.status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END
        INTO caused FROM sweeps s WHERE s.sweep_id = o.order_id;
    ELSE
        SELECT (g.org_id, g.chain, g.wallet_id, g.amount) = (o.org_id, o.chain, o.to_wallet_id, o.amount)
            AND g.status = CASE WHEN o.status = 'PAID' THEN 'DONE' WHEN o.status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END
        INTO caused FROM gas_top_ups g WHERE g.top_up_id = o.order_id;
    END IF;
    broken := CASE
        WHEN caused IS NOT TRUE THEN 'dispatch_orders_caused'
        WHEN (o.status IN ('QUEUED', 'REFUSED', 'WITHDRAWN')) = EXISTS (SELECT FROM dispatch_slots WHERE order_id = coalesce(o.rides_id, o.order_id))
            THEN 'dispatch_orders_slotted'
        WHEN o.status IN ('PAID', 'FAILED') AND o.fee > 0
            AND 2 <> (SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = o.order_id)
            THEN 'dispatch_orders_charged'
        WHEN o.status = 'PAID' AND o.fee_deducted > 0
            AND NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_FEE' AND cause_id = o.order_id)
            THEN 'dispatch_orders_fee_kept'
        WHEN o.status = 'PAID' AND o.fee_deducted > 0 AND o.product IS NOT NULL
            AND NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'FEE_PREPAID' AND cause_id = o.order_id)
            THEN 'dispatch_orders_fee_prepaid'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'order % is %, and its cause, its slot or its fee says something else', o.order_id, o.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION withdrawals_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.ends_as IS NOT NULL AND (NEW.ends_as, NEW.ends_note, NEW.ends_by_kind, NEW.ends_by)
        IS DISTINCT FROM (OLD.ends_as, OLD.ends_note, OLD.ends_by_kind, OLD.ends_by) THEN
        RAISE EXCEPTION 'withdrawal % ends as it was decided', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_ends_fixed';
    END IF;
    IF OLD.ends_as IS NULL AND NEW.ends_as IS NOT NULL
        AND EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.withdrawal_id AND status <> 'WITHDRAWN') THEN
        RAISE EXCEPTION 'withdrawal % has an order that was not taken back', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_ends_withdrawn';
    END IF;
    IF NEW.status <> OLD.status AND NEW.status IN ('REJECTED', 'CANCELLED', 'FAILED')
        AND EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.withdrawal_id AND status IN ('QUEUED', 'REFUSED', 'WITHDRAWN'))
        AND NOT EXISTS (SELECT FROM dispatch_voids WHERE order_id = NEW.withdrawal_id AND journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'withdrawal % was let go once, and the signer has not journaled that it is void', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_void_first';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
