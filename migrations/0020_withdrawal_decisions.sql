-- Why: what was decided about a withdrawal, by whom and on what, is a record of its
-- own that nobody can change; and a customer may pay the network fee of a coin's
-- payment, as much of it as was decided before anything was signed:
-- decision 0025.
-- +goose Up

-- One row a decision, in the order in which they were made. gates are the rules that
-- were asked, each with what it looked at.
CREATE TABLE withdrawal_decisions (
    decision_id   bigint GENERATED ALWAYS AS IDENTITY,
    org_id        text NOT NULL,
    withdrawal_id text NOT NULL,
    at            timestamptz NOT NULL,
    act           text NOT NULL,
    status        text NOT NULL,           -- what the withdrawal became by it
    reasons       text[] NOT NULL,         -- why it waits for a person, when it does
    gates         jsonb NOT NULL,
    note          text,                    -- what a person wrote, or the signer said
    actor_kind    text NOT NULL,
    actor_id      text NOT NULL,
    CONSTRAINT withdrawal_decisions_pkey PRIMARY KEY (withdrawal_id, decision_id),
    CONSTRAINT withdrawal_decisions_withdrawal FOREIGN KEY (org_id, withdrawal_id) REFERENCES withdrawals (org_id, withdrawal_id),
    CONSTRAINT withdrawal_decisions_act_known CHECK (
        CASE act WHEN 'REQUESTED' THEN status IN ('AWAITING_APPROVAL', 'PROCESSING')
                 WHEN 'APPROVED' THEN status = 'PROCESSING'
                 WHEN 'RETURNED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'REMOVED' THEN status = 'REJECTED'
                 WHEN 'CANCELLED' THEN status = 'CANCELLED'
                 ELSE false END),
    CONSTRAINT withdrawal_decisions_actor_known CHECK (actor_kind IN ('API_KEY', 'USER', 'OPERATOR', 'SYSTEM'))
);
SELECT coffer_tenant('withdrawal_decisions',
    'SELECT, INSERT (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind, actor_id)',
    'SELECT, INSERT (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind, actor_id)');
CREATE TRIGGER withdrawal_decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON withdrawal_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The record of the request moves there. A row from before keeps the one it has.
ALTER TABLE withdrawals ALTER COLUMN decision DROP NOT NULL;

-- What the caller said of the network fee. fee_deducted is what the customer pays of
-- it: it is decided with the order, before anything is signed, and the order pays
-- that much less. The constraints are not looked through: no row from before has any
-- of this.
ALTER TABLE withdrawals
    ADD COLUMN fee_mode text NOT NULL DEFAULT 'ORGANIZATION',
    ADD COLUMN fee_deducted numeric(78,0),
    ADD COLUMN max_network_fee numeric(78,0),  -- the most that the network may take, or NULL
    ADD COLUMN travel_rule jsonb,
    ADD CONSTRAINT withdrawals_fee_mode_known CHECK (fee_mode IN ('ORGANIZATION', 'DEDUCTED')) NOT VALID,
    ADD CONSTRAINT withdrawals_max_network_fee_positive CHECK (max_network_fee > 0) NOT VALID,
    ADD CONSTRAINT withdrawals_fee_deducted_bounded CHECK (
        fee_deducted IS NULL OR fee_mode = 'DEDUCTED' AND fee_deducted >= 0 AND fee_deducted < amount
            AND (max_network_fee IS NULL OR fee_deducted <= max_network_fee)) NOT VALID,
    ADD CONSTRAINT withdrawals_fee_decided CHECK (
        fee_mode <> 'DEDUCTED' OR fee_deducted IS NOT NULL OR status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')) NOT VALID;
ALTER TABLE dispatch_orders
    ADD COLUMN fee_deducted numeric(78,0) NOT NULL DEFAULT 0, -- of what its withdrawal took, kept for the fee
    ADD COLUMN fee_max numeric(78,0),                         -- the most that a transaction of it may cost, or NULL
    ADD CONSTRAINT dispatch_orders_fee_deducted_bounded CHECK (fee_deducted = 0 OR fee_deducted > 0 AND purpose = 'PAYMENT' AND contract = '') NOT VALID,
    ADD CONSTRAINT dispatch_orders_fee_max_positive CHECK (fee_max > 0 AND purpose = 'PAYMENT' OR fee_max IS NULL) NOT VALID;
GRANT UPDATE (fee_deducted) ON withdrawals TO coffer_app;

-- +goose StatementBegin
CREATE FUNCTION withdrawals_terms_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.fee_mode, NEW.max_network_fee, NEW.travel_rule, NEW.decision) IS DISTINCT FROM
       (OLD.fee_mode, OLD.max_network_fee, OLD.travel_rule, OLD.decision)
       OR OLD.fee_deducted IS NOT NULL AND NEW.fee_deducted IS DISTINCT FROM OLD.fee_deducted THEN
        RAISE EXCEPTION 'the terms of withdrawal % are written once', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terms_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION dispatch_orders_terms_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.fee_deducted, NEW.fee_max) IS DISTINCT FROM (OLD.fee_deducted, OLD.fee_max) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER withdrawals_terms_keep BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_terms_keep();
CREATE TRIGGER dispatch_orders_terms_keep BEFORE UPDATE ON dispatch_orders FOR EACH ROW EXECUTE FUNCTION dispatch_orders_terms_keep();

-- As before (0017), and an order pays what was accepted less the fee that its customer pays.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_orders_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    o       record;
    caused  boolean;
    broken  text;
BEGIN
    SELECT order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id, amount, customer_id, status, fee, fee_deducted, fee_max
    INTO o FROM dispatch_orders WHERE order_id = NEW.order_id;
    IF o.purpose = 'PAYMENT' THEN
        SELECT (w.org_id, w.chain, w.mint_id, w.amount, w.to_address, w.customer_id) = (o.org_id, o.chain, o.mint_id, o.amount + o.fee_deducted, o.to_address, o.customer_id)
            AND coalesce(w.fee_deducted, 0) = o.fee_deducted AND w.max_network_fee IS NOT DISTINCT FROM o.fee_max
            AND CASE o.status
                WHEN 'PAID' THEN w.status = 'COMPLETED'
                WHEN 'FAILED' THEN w.status = 'FAILED'
                WHEN 'REFUSED' THEN w.status = 'AWAITING_APPROVAL'
                WHEN 'WITHDRAWN' THEN w.status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')
                WHEN 'BROADCAST' THEN w.status IN ('PROCESSING', 'BROADCAST')
                WHEN 'STUCK' THEN w.status IN ('PROCESSING', 'BROADCAST')
                ELSE w.status = 'PROCESSING' END
        INTO caused FROM withdrawals w WHERE w.withdrawal_id = o.order_id;
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
        WHEN (o.status IN ('QUEUED', 'REFUSED', 'WITHDRAWN')) = EXISTS (SELECT FROM dispatch_slots WHERE order_id = o.order_id)
            THEN 'dispatch_orders_slotted'
        WHEN o.status IN ('PAID', 'FAILED') AND o.fee > 0
            AND 2 <> (SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = o.order_id)
            THEN 'dispatch_orders_charged'
        WHEN o.status = 'PAID' AND o.fee_deducted > 0
            AND NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_FEE' AND cause_id = o.order_id)
            THEN 'dispatch_orders_fee_kept'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'order % is %, and its cause, its slot or its fee says something else', o.order_id, o.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- The fee that a customer paid is the organization's own, once, when its payment is.
ALTER TABLE ledger_transfers
    DROP CONSTRAINT ledger_transfers_cause_known,
    ADD CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_REVERSAL', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_FEE', 'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER')) NOT VALID;
-- +goose StatementBegin
CREATE FUNCTION ledger_withdrawal_fee_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.org_id, w.mint_id, w.fee_deducted, w.status) = (NEW.org_id, NEW.mint_id, NEW.amount, 'COMPLETED')
            AND (d.kind, d.subject, c.kind, c.subject) = ('CUSTODY', '', 'PRODUCT', 'CUSTODIAL')
        FROM withdrawals w, ledger_accounts d, ledger_accounts c
        WHERE w.withdrawal_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_withdrawal_fee';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_transfers_of_withdrawal_fee AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'WITHDRAWAL_FEE') EXECUTE FUNCTION ledger_withdrawal_fee_follow();
