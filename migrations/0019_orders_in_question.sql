-- Why: an order that ended on a block that finality has taken back stays ended,
-- and its transaction is on no chain. It is in question until the same
-- transaction is proven again: decision 0024 says how.
-- +goose Up

CREATE INDEX dispatch_orders_proven ON dispatch_orders (chain, proof_id) WHERE status IN ('PAID', 'FAILED');

-- The ended orders whose proof is dead. A break killed no proof above the tip that
-- was walked by then, so that this looks at no more blocks than were taken back.
CREATE VIEW dispatch_in_question WITH (security_invoker = true) AS
SELECT DISTINCT o.order_id, o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.status, o.waiting_for
FROM finality_breaks b
JOIN finality_proofs p ON p.chain = b.chain AND p.fork < b.fork AND p.height > b.ancestor_height AND p.height <= b.tip_height
JOIN dispatch_orders o ON o.chain = p.chain AND o.proof_id = p.proof_id
WHERE o.status IN ('PAID', 'FAILED');
SELECT coffer_shared('dispatch_in_question', 'SELECT', 'SELECT');

-- How an order ended is written once. Only when the proof of it is dead may the
-- same transaction have another one that is alive, and have cost something else.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_orders_end_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.customer_id IS DISTINCT FROM OLD.customer_id OR NEW.key_hash <> OLD.key_hash THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    IF OLD.status IN ('PAID', 'FAILED') AND (NEW.tx_hash, NEW.fee, NEW.proof_id) IS DISTINCT FROM (OLD.tx_hash, OLD.fee, OLD.proof_id)
       AND (NEW.tx_hash IS DISTINCT FROM OLD.tx_hash
            OR NEW.proof_id IS NOT DISTINCT FROM OLD.proof_id
            OR EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id)
            OR NOT EXISTS (SELECT FROM finality_live p WHERE p.chain = NEW.chain AND p.proof_id = NEW.proof_id)) THEN
        RAISE EXCEPTION 'order % is %', OLD.order_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_end_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- What the same transaction costs more or less in another block, once a fork.
ALTER TABLE ledger_transfers
    DROP CONSTRAINT ledger_transfers_cause_known,
    ADD CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_REVERSAL', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER')) NOT VALID,
    DROP CONSTRAINT ledger_transfers_legs,
    ADD CONSTRAINT ledger_transfers_legs CHECK (
        CASE cause_kind WHEN 'NETWORK_FEE' THEN leg IN (0, 1) WHEN 'FEE_CHANGE' THEN leg IN (0, 1) WHEN 'DEPOSIT_REVERSAL' THEN leg >= 0 ELSE leg = 0 END);

-- All that was posted for an order comes to its fee, and a change of it is of the
-- fork that the order is proven on.
-- +goose StatementBegin
CREATE FUNCTION ledger_fee_change_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (o.org_id, o.chain, '') = (NEW.org_id, m.chain, m.contract)
            AND o.status IN ('PAID', 'FAILED')
            AND NEW.cause_id COLLATE "C" = (o.order_id || '/' || p.fork) COLLATE "C"
            AND CASE NEW.leg WHEN 0 THEN (d.kind, c.kind) IN (('GAS', 'CUSTODY'), ('CUSTODY', 'GAS'))
                ELSE (d.kind, c.kind) IN (('FEES_DUE', 'FEES_BILLED'), ('FEES_BILLED', 'FEES_DUE')) END
            AND o.fee = (
                SELECT sum(CASE WHEN x.kind IN ('GAS', 'FEES_DUE') THEN t.amount ELSE -t.amount END)
                FROM ledger_transfers t JOIN ledger_accounts x ON x.account_id = t.debit_account
                WHERE t.leg = NEW.leg AND (t.cause_kind = 'NETWORK_FEE' AND t.cause_id = o.order_id COLLATE "C"
                    OR t.cause_kind = 'FEE_CHANGE' AND t.cause_id = ANY (ARRAY(SELECT (o.order_id || '/' || n) COLLATE "C" FROM generate_series(1, p.fork) n))))
        FROM dispatch_orders o, finality_proofs p, mints m, ledger_accounts d, ledger_accounts c
        WHERE o.order_id = split_part(NEW.cause_id, '/', 1) COLLATE "default" AND p.proof_id = o.proof_id AND m.mint_id = NEW.mint_id
            AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_fee_change';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_transfers_of_fee_change AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'FEE_CHANGE') EXECUTE FUNCTION ledger_fee_change_follow();
