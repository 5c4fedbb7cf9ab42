-- Why: payments that share a transaction are rows of one batch and one mint, except on Bitcoin. Dispatch and the signer keep
-- that, and the database keeps it against every other process.

-- +goose Up
-- +goose StatementBegin
-- Payments share a slot on Bitcoin as they come. Elsewhere they are rows of one batch, under one hash, and of one mint: one
-- payee can make all payments of a slot fail, and their organization bears the fee. Neither changes afterwards. Rule BP-53.
CREATE OR REPLACE FUNCTION dispatch_orders_tx_of_batch() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (l.purpose, l.mint_id, l.batch - 'row') = (NEW.purpose, NEW.mint_id, NEW.batch - 'row')
        FROM dispatch_orders l WHERE l.order_id = NEW.tx_lead_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'payment % is no row of the batch and the mint that the slot of % pays', NEW.order_id, NEW.tx_lead_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_tx_of_batch';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS dispatch_orders_tx_of_batch ON dispatch_orders;
CREATE TRIGGER dispatch_orders_tx_of_batch AFTER UPDATE ON dispatch_orders
    FOR EACH ROW WHEN (OLD.tx_lead_id IS NULL AND NEW.tx_lead_id IS NOT NULL AND NEW.purpose = 'PAYMENT' AND NOT is_utxo(NEW.chain))
    EXECUTE FUNCTION dispatch_orders_tx_of_batch();
DROP TRIGGER IF EXISTS dispatch_orders_tx_of_batch_begin ON dispatch_orders;
CREATE TRIGGER dispatch_orders_tx_of_batch_begin AFTER INSERT ON dispatch_orders
    FOR EACH ROW WHEN (NEW.tx_lead_id IS NOT NULL AND NEW.purpose = 'PAYMENT' AND NOT is_utxo(NEW.chain))
    EXECUTE FUNCTION dispatch_orders_tx_of_batch();
-- +goose StatementEnd
