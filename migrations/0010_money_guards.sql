-- Why: what the program's compare-and-swaps keep of the rows that move money is
-- kept by the tables too. Each of these could be undone by one wrong statement
-- of the program's own role, and verify would only have told afterwards.
-- +goose Up

-- A deposit leans on the proof of its very block, not of some block of its chain.
ALTER TABLE finality_proofs ADD CONSTRAINT finality_proofs_whole UNIQUE (chain, proof_id, height, hash);
ALTER TABLE deposits DROP CONSTRAINT deposits_proof;
ALTER TABLE deposits ADD CONSTRAINT deposits_proof
    FOREIGN KEY (chain, proof_id, height, block_hash) REFERENCES finality_proofs (chain, proof_id, height, hash);

-- What is final stays the same money of the same wallet's purpose.
-- +goose StatementBegin
CREATE FUNCTION deposits_final_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.proof_id IS NOT NULL AND (NEW.mint_id, NEW.purpose) IS DISTINCT FROM (OLD.mint_id, OLD.purpose) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_final_keep BEFORE UPDATE ON deposits FOR EACH ROW EXECUTE FUNCTION deposits_final_keep();

-- An order is of one customer, for the signer and for freezes, and how it ended
-- is written once.
-- +goose StatementBegin
CREATE FUNCTION dispatch_orders_end_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.customer_id IS DISTINCT FROM OLD.customer_id OR NEW.key_hash <> OLD.key_hash THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    IF OLD.status IN ('PAID', 'FAILED') AND (NEW.tx_hash, NEW.fee, NEW.proof_id) IS DISTINCT FROM (OLD.tx_hash, OLD.fee, OLD.proof_id) THEN
        RAISE EXCEPTION 'order % is %', OLD.order_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_end_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dispatch_orders_end_keep BEFORE UPDATE ON dispatch_orders FOR EACH ROW EXECUTE FUNCTION dispatch_orders_end_keep();

-- A slot is its order's for ever, on its order's wallet, and gives back no gas
-- before it ends. A nonce that was given out is not given out again.
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_of_wallet UNIQUE (order_id, wallet_id, chain);
ALTER TABLE dispatch_slots ADD CONSTRAINT dispatch_slots_wallet
    FOREIGN KEY (order_id, wallet_id, chain) REFERENCES dispatch_orders (order_id, wallet_id, chain);
-- +goose StatementBegin
CREATE FUNCTION dispatch_slots_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.nonce, NEW.org_id, NEW.order_id) IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.nonce, OLD.org_id, OLD.order_id)
       OR NEW.gas_reserved < OLD.gas_reserved THEN
        RAISE EXCEPTION 'slot % of wallet % is written once', OLD.nonce, OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dispatch_slots_keep BEFORE UPDATE ON dispatch_slots FOR EACH ROW EXECUTE FUNCTION dispatch_slots_keep();
-- +goose StatementBegin
CREATE FUNCTION dispatch_accounts_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.org_id) IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.org_id) OR NEW.next_nonce < OLD.next_nonce THEN
        RAISE EXCEPTION 'the nonces of wallet % only grow', OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_accounts_forward';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dispatch_accounts_forward BEFORE UPDATE ON dispatch_accounts FOR EACH ROW EXECUTE FUNCTION dispatch_accounts_forward();

-- A sweep's row is what its address has reserved: what it moves is fixed, and it
-- ends once.
-- +goose StatementBegin
CREATE FUNCTION sweeps_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.sweep_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.to_wallet_id, NEW.mint_id, NEW.amount)
       IS DISTINCT FROM (OLD.sweep_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.to_wallet_id, OLD.mint_id, OLD.amount) THEN
        RAISE EXCEPTION 'sweep % cannot become another', OLD.sweep_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sweeps_fixed';
    END IF;
    IF OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'sweep % is %', OLD.sweep_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sweeps_terminal';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION gas_top_ups_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.top_up_id, NEW.org_id, NEW.chain, NEW.wallet_id, NEW.amount) IS DISTINCT FROM (OLD.top_up_id, OLD.org_id, OLD.chain, OLD.wallet_id, OLD.amount)
       OR OLD.status <> 'OPEN' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'top-up % cannot become another and ends once', OLD.top_up_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'gas_top_ups_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER sweeps_keep BEFORE UPDATE ON sweeps FOR EACH ROW EXECUTE FUNCTION sweeps_keep();
CREATE TRIGGER gas_top_ups_keep BEFORE UPDATE ON gas_top_ups FOR EACH ROW EXECUTE FUNCTION gas_top_ups_keep();
