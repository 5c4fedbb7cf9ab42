-- Why: where a chain lets somebody else pay, the treasury pays the fee of what leaves a
-- deposit address, and the slot is the treasury's: decision 0049. An order's wallet
-- is the one that has the slot, as before; whose amount it moves is said beside it.
-- +goose Up

ALTER TABLE dispatch_orders
    ADD COLUMN from_wallet_id text, -- whose amount it moves, where that is not wallet_id
    ADD CONSTRAINT dispatch_orders_from_wallet FOREIGN KEY (org_id, from_wallet_id) REFERENCES wallets (org_id, wallet_id) NOT VALID,
    ADD CONSTRAINT dispatch_orders_from_other CHECK (from_wallet_id IS NULL OR from_wallet_id <> wallet_id AND purpose IN ('SWEEP', 'RETURN')) NOT VALID;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_orders_terms_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.fee_deducted, NEW.fee_max, NEW.product, NEW.whitelisted_address_id, NEW.from_wallet_id)
       IS DISTINCT FROM (OLD.fee_deducted, OLD.fee_max, OLD.product, OLD.whitelisted_address_id, OLD.from_wallet_id) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    RETURN NEW;
END $$;

-- A sweep and a return name the wallet that is emptied.
DO $$
DECLARE
    was text := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now text := replace(was, 'chain, wallet_id, to_wallet_id,', 'chain, coalesce(from_wallet_id, wallet_id) AS wallet_id, to_wallet_id,');
BEGIN
    IF now = was THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not read what it did';
    END IF;
    EXECUTE now;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE VIEW dispatch_in_question WITH (security_invoker = true) AS
SELECT DISTINCT o.order_id, o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.status, o.waiting_for, o.from_wallet_id
FROM finality_breaks b
JOIN finality_proofs p ON p.chain = b.chain AND p.fork < b.fork AND p.height > b.ancestor_height AND p.height <= b.tip_height
JOIN dispatch_orders o ON o.chain = p.chain AND o.proof_id = p.proof_id
WHERE o.status IN ('PAID', 'FAILED');

-- What a transaction may cost beside gas: where a fee is not so much a unit, all of it.
ALTER TABLE dispatch_attempts ADD COLUMN beside numeric(78,0) NOT NULL DEFAULT 0;
