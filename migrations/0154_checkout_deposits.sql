-- Why: a checkout receives what its payer sends at a wallet of its own, and on Solana at one that the checkouts of an
-- organization share. Both credit the product CHECKOUT.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE deposits ADD COLUMN checkout_id text;

ALTER TABLE wallets DROP CONSTRAINT wallets_purpose_known;
ALTER TABLE wallets ADD CONSTRAINT wallets_purpose_known CHECK (
        CASE purpose
            WHEN 'CUSTOMER_DEPOSIT' THEN subject <> ''
            WHEN 'ORGANIZATION_DEPOSIT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'TREASURY' THEN subject = ''
            WHEN 'CHANGE' THEN subject <> ''
            WHEN 'SWAP_DELIVERY' THEN subject <> ''
            WHEN 'SWAP_REFUND' THEN subject <> ''
            WHEN 'DEPOSIT_SWAP' THEN subject <> ''
            WHEN 'CHECKOUT' THEN subject <> ''
            WHEN 'CHECKOUT_SHARED' THEN subject = 'CHECKOUT'
            ELSE false
        END) NOT VALID;

ALTER TABLE deposits DROP CONSTRAINT deposits_product;
ALTER TABLE deposits ADD CONSTRAINT deposits_product CHECK (
        CASE WHEN purpose IN ('SWAP_DELIVERY', 'SWAP_REFUND') THEN num_nonnulls(customer_id, product) <= 1
            WHEN purpose IN ('CHECKOUT', 'CHECKOUT_SHARED') THEN product IS NOT DISTINCT FROM 'CHECKOUT'
            ELSE (purpose = 'ORGANIZATION_DEPOSIT') = (product IS NOT NULL) END
        AND (product IS NULL OR product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT'))) NOT VALID;

ALTER TABLE deposits ADD CONSTRAINT deposits_checkout CHECK ((purpose = 'CHECKOUT') = (checkout_id IS NOT NULL)) NOT VALID;

CREATE OR REPLACE FUNCTION ledger_transfers_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    low  text;
    high text;
    lost text;
BEGIN
    SELECT min(cause_kind), max(cause_kind) INTO low, high FROM added;
    IF 'WITHDRAWAL_HOLD' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'WITHDRAWAL_HOLD' AND (
            SELECT (w.org_id, w.mint_id, w.amount + w.charge_held) = (t.org_id, t.mint_id, t.amount)
                AND (d.kind, d.subject, c.kind, c.subject) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id),
                    CASE WHEN w.product IS NULL THEN 'WITHDRAWING' ELSE 'PRODUCT_WITHDRAWING' END, coalesce(w.product, w.customer_id))
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'WITHDRAWAL_END' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'WITHDRAWAL_END' AND (
            SELECT (w.org_id, w.mint_id) = (t.org_id, t.mint_id)
                AND (d.kind, d.subject) = (CASE WHEN w.product IS NULL THEN 'WITHDRAWING' ELSE 'PRODUCT_WITHDRAWING' END, coalesce(w.product, w.customer_id))
                AND CASE WHEN w.status = 'COMPLETED' THEN (c.kind, c.subject, t.amount) = ('CUSTODY', '', w.amount)
                    WHEN w.status IN ('FAILED', 'REJECTED', 'CANCELLED') THEN (c.kind, c.subject, t.amount) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        coalesce(w.product, w.customer_id), w.amount + w.charge_held - w.charged) END
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'DEPOSIT' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'DEPOSIT' AND (
            SELECT (p.org_id, p.mint_id, p.amount) = (t.org_id, t.mint_id, t.amount) AND p.status IN ('CREDITED', 'REVERSED')
                AND (a.org_id, a.address, a.purpose, a.subject) = (p.org_id, p.address, p.purpose, coalesce(p.swap_id, p.deposit_swap_id, p.checkout_id, p.customer_id, p.product, ''))
                AND (d.kind, d.subject) = ('CUSTODY', '')
                AND CASE WHEN p.swap_id IS NULL
                    THEN (c.kind, c.subject) = (CASE WHEN p.purpose IN ('CUSTOMER_DEPOSIT', 'DEPOSIT_SWAP') THEN 'CUSTOMER' WHEN p.purpose IN ('ORGANIZATION_DEPOSIT', 'CHECKOUT', 'CHECKOUT_SHARED') THEN 'PRODUCT'
                            WHEN p.contract = '' THEN 'GAS' ELSE 'SUSPENSE' END,
                        coalesce(p.customer_id, p.product, ''))
                    -- An arrival for a swap: what it is decides the account.
                    WHEN p.arrival_role = 'DELIVERY' THEN (c.kind, c.subject) = (CASE WHEN p.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        coalesce(p.customer_id, p.product))
                    WHEN p.arrival_role = 'REFUND' THEN (c.kind, c.subject) = ('AT_PROVIDER', (SELECT s.provider FROM swaps s WHERE s.swap_id = p.swap_id))
                    ELSE (c.kind, c.subject) = ('SUSPENSE', '') END
            FROM deposits p, wallets a, ledger_accounts d, ledger_accounts c
            WHERE p.deposit_id = t.cause_id COLLATE "default" AND a.wallet_id = p.wallet_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'NETWORK_FEE' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'NETWORK_FEE' AND (
            SELECT (o.org_id, o.fee, m.chain, m.contract) = (t.org_id, t.amount, o.chain, '')
                AND o.status IN ('PAID', 'FAILED')
                AND (d.kind, c.kind) = (CASE t.leg WHEN 0 THEN 'GAS' ELSE 'FEES_DUE' END, CASE t.leg WHEN 0 THEN 'CUSTODY' ELSE 'FEES_BILLED' END)
            FROM dispatch_orders o, mints m, ledger_accounts d, ledger_accounts c
            WHERE o.order_id = t.cause_id COLLATE "default" AND m.mint_id = t.mint_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'RESTORE' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'RESTORE' AND coalesce((
            SELECT (s.org_id, s.from_mint_id) = (t.org_id, t.mint_id) AND s.imported_at IS NOT NULL
                AND (d.subject, c.subject) = (coalesce(s.customer_id, s.product), coalesce(s.customer_id, s.product))
                AND CASE WHEN t.cause_id = s.swap_id COLLATE "C" THEN (d.kind, c.kind, s.collections) = (CASE WHEN s.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END,
                        CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, 0)
                    ELSE (d.kind, c.kind) = (CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        CASE WHEN s.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END)
                        AND t.cause_id = (s.swap_id || '/' || s.collections) COLLATE "C" END
            FROM swaps s, ledger_accounts d, ledger_accounts c
            WHERE s.swap_id = split_part(t.cause_id, '/', 1) COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account), (
            SELECT (w.org_id, w.mint_id) = (t.org_id, t.mint_id) AND w.restored_at IS NOT NULL
                AND (d.subject, c.subject) = (coalesce(w.product, w.customer_id), coalesce(w.product, w.customer_id))
                AND CASE WHEN t.cause_id = w.withdrawal_id THEN (d.kind, c.kind, w.collections) = (CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END,
                        CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, 0)
                    ELSE (d.kind, c.kind, t.cause_id) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END, w.withdrawal_id || '/' || w.collections) END
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = split_part(t.cause_id, '/', 1) COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account)) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'TRANSFER' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'TRANSFER' AND (
            SELECT (x.org_id, x.mint_id, x.amount) = (t.org_id, t.mint_id, t.amount)
                AND (d.kind, d.subject) = (CASE WHEN x.from_customer IS NULL THEN 'PRODUCT' ELSE 'CUSTOMER' END, coalesce(x.from_customer, x.from_product))
                AND (c.kind, c.subject) = (CASE WHEN x.to_customer IS NULL THEN 'PRODUCT' ELSE 'CUSTOMER' END, coalesce(x.to_customer, x.to_product))
            FROM transfers x, ledger_accounts d, ledger_accounts c
            WHERE x.transfer_id = t.cause_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: %', lost
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_cause';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION deposits_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT n.deposit_id INTO lost FROM written n
        WHERE (SELECT w.org_id = n.org_id AND n.checkout_id IS NOT DISTINCT FROM CASE w.purpose WHEN 'CHECKOUT' THEN w.subject END
            FROM wallets w WHERE w.wallet_id = n.wallet_id) IS NOT TRUE
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % reached no wallet of its organization and checkout', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_wallet';
        END IF;
        SELECT n.deposit_id INTO lost FROM written n
        WHERE n.customer_id IS NOT NULL
            AND (SELECT c.created_at FROM customers c WHERE c.org_id = n.org_id AND c.customer_id = n.customer_id) IS NULL
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % is for no customer of its organization', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_customer';
        END IF;
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id FROM written WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id
            FROM (SELECT deposit_id, mint_id, chain, contract FROM written EXCEPT SELECT deposit_id, mint_id, chain, contract FROM was) moved
            WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % is of another contract than its mint', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_mint';
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id FROM written WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id
            FROM (SELECT deposit_id, chain, proof_id, height, block_hash FROM written
                EXCEPT SELECT deposit_id, chain, proof_id, height, block_hash FROM was) moved
            WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % leans on the proof of another block', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_proof';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION deposits_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    gone boolean; -- the proof of the deposit is dead
BEGIN
    -- The customer of an arrival for a swap is written with its credit, and that of an arrival for a deposit swap
    -- before it is decided.
    IF (NEW.deposit_id, NEW.org_id, NEW.wallet_id, NEW.swap_id, NEW.deposit_swap_id, NEW.checkout_id, NEW.chain, NEW.contract, NEW.address, NEW.tx_hash, NEW.kind, NEW.position)
       IS DISTINCT FROM
       (OLD.deposit_id, OLD.org_id, OLD.wallet_id, OLD.swap_id, OLD.deposit_swap_id, OLD.checkout_id, OLD.chain, OLD.contract, OLD.address, OLD.tx_hash, OLD.kind, OLD.position)
       OR NEW.customer_id IS DISTINCT FROM OLD.customer_id
          AND NOT (OLD.customer_id IS NULL AND OLD.swap_id IS NOT NULL AND OLD.status = 'SCREENING' AND NEW.status = 'CREDITED')
          AND NOT (OLD.customer_id IS NULL AND OLD.deposit_swap_id IS NOT NULL AND OLD.status NOT IN ('CREDITED', 'REVERSED')
              AND NOT OLD.is_flagged)
       OR OLD.status IN ('CREDITED', 'REVERSED') AND ((NEW.arrival_role, NEW.completes_swap) IS DISTINCT FROM (OLD.arrival_role, OLD.completes_swap)
          OR NEW.is_hidden AND NOT OLD.is_hidden) THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    -- Looked up only where it matters: not when a deposit is credited.
    gone := false;
    IF OLD.proof_id IS NOT NULL AND ((NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)
       OR OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status) THEN
        gone := NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id);
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.amount <> OLD.amount
       OR NOT gone AND (NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    IF OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status
       AND NOT (gone AND (OLD.status, NEW.status) IN (('CREDITED', 'REVERSED'), ('BELOW_MINIMUM', 'ORPHANED'))) THEN
        RAISE EXCEPTION 'deposit % is %', OLD.deposit_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.credited_at IS NOT NULL AND NEW.credited_at <> OLD.credited_at THEN
        RAISE EXCEPTION 'deposit % was credited once', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.status = 'REVERSED' AND ((NEW.proof_id, NEW.height, NEW.block_hash, NEW.reversed_at) IS DISTINCT FROM
            (OLD.proof_id, OLD.height, OLD.block_hash, OLD.reversed_at)
       OR NEW.taken_back < OLD.taken_back OR NEW.claim_count < OLD.claim_count) THEN
        RAISE EXCEPTION 'deposit % was reversed', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    -- Only after the new fork was scanned so far that it would have the deposit.
    IF NEW.status = 'REVERSED' AND OLD.status <> 'REVERSED' AND EXISTS (
        SELECT FROM finality_breaks b
        JOIN finality_proofs p ON p.proof_id = OLD.proof_id AND b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height
        LEFT JOIN scan_cursors c ON c.chain = b.chain AND c.height >= b.settle_height AND c.forked_above IS NULL
        WHERE c.chain IS NULL) THEN
        RAISE EXCEPTION 'deposit % may still be found again', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_reversed_in_time';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
