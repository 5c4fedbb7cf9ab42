-- Why: a block of a thousand deposits read the accounts of its postings three times, the organization of its events and
-- entries a thousand times, and the purpose of each wallet. Each new row of address_funds locked its wallet and its mint
-- by foreign keys. All of this is now checked once for a statement, or in a query that reads the row anyway.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION organizations_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    lost text;
BEGIN
    SELECT a.org_id INTO lost FROM (SELECT DISTINCT org_id FROM added) a
    WHERE a.org_id IS NOT NULL AND (SELECT o.org_id FROM public.organizations o WHERE o.org_id = a.org_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no organization %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_TABLE_NAME || '_organization';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_transfers_refer() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    lost text;
BEGIN
    IF NOT EXISTS (SELECT FROM added t WHERE t.cause_kind NOT IN ('TRANSFER', 'DEPOSIT')) THEN
        RETURN NULL;
    END IF;
    SELECT t.debit_account || ' or ' || t.credit_account || ' of ' || t.org_id || ' in mint ' || t.mint_id INTO lost FROM added t
    WHERE (SELECT (a.org_id, a.mint_id) = (t.org_id, t.mint_id) FROM public.ledger_accounts a WHERE a.account_id = t.debit_account) IS NOT TRUE
       OR (SELECT (a.org_id, a.mint_id) = (t.org_id, t.mint_id) FROM public.ledger_accounts a WHERE a.account_id = t.credit_account) IS NOT TRUE
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no account %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_transfers_accounts';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
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
                AND (d.kind, d.subject, c.kind, c.subject) = (CASE WHEN w.refund_id IS NOT NULL THEN 'REFUND_OWED' WHEN w.batch_id IS NOT NULL THEN 'BATCH_HELD' WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id),
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
                    WHEN w.status IN ('FAILED', 'REJECTED', 'CANCELLED') THEN (c.kind, c.subject, t.amount) = (CASE WHEN w.refund_id IS NOT NULL THEN 'REFUND_OWED' WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        coalesce(w.product, w.customer_id), w.amount + w.charge_held - w.charged) END
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'DEPOSIT' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'DEPOSIT' AND (
            SELECT (p.org_id, p.mint_id, p.amount) = (t.org_id, t.mint_id, t.amount) AND p.status IN ('CREDITED', 'REVERSED')
                AND (d.org_id, d.mint_id, c.org_id, c.mint_id) = (t.org_id, t.mint_id, t.org_id, t.mint_id)
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
                AND (d.org_id, d.mint_id, c.org_id, c.mint_id) = (t.org_id, t.mint_id, t.org_id, t.mint_id)
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
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_transfers_total() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    products bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM added WHERE cause_kind <> 'TRANSFER') THEN
        SELECT array_agg(a.account_id) INTO products
        FROM (SELECT DISTINCT org_id, mint_id FROM added) t
        CROSS JOIN unnest(ARRAY['CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT']) AS p (product)
        CROSS JOIN LATERAL (SELECT account_id FROM ledger_accounts l
            WHERE l.org_id = t.org_id AND l.mint_id = t.mint_id AND l.kind = 'PRODUCT' AND l.subject = p.product LIMIT 1) a;
        IF products IS NULL THEN
            RETURN NULL;
        END IF;
        INSERT INTO organization_total_changes (org_id, mint_id, available)
        SELECT t.org_id, t.mint_id, sum(CASE WHEN t.debit_account = ANY (products) THEN t.amount ELSE -t.amount END)
        FROM added t
        WHERE (t.debit_account = ANY (products)) <> (t.credit_account = ANY (products))
        GROUP BY t.org_id, t.mint_id
        HAVING sum(CASE WHEN t.debit_account = ANY (products) THEN t.amount ELSE -t.amount END) <> 0;
        RETURN NULL;
    END IF;
    -- Each account is read once. Custody takes part in every credit.
    INSERT INTO organization_total_changes (org_id, mint_id, available, withdrawing, in_swap)
    SELECT m.org_id, m.mint_id, coalesce(sum(m.delta) FILTER (WHERE m.kind = 'CUSTOMER'), 0), coalesce(sum(m.delta) FILTER (WHERE m.kind = 'WITHDRAWING'), 0),
        coalesce(sum(m.delta) FILTER (WHERE m.kind = 'IN_SWAP'), 0)
    FROM (SELECT l.org_id, l.mint_id, l.delta, (SELECT a.kind FROM ledger_accounts a WHERE a.account_id = l.account_id) AS kind
          FROM (SELECT s.org_id, s.mint_id, s.account_id, sum(s.delta) AS delta
                FROM (SELECT org_id, mint_id, credit_account AS account_id, amount AS delta FROM added
                      UNION ALL
                      SELECT org_id, mint_id, debit_account, -amount FROM added) s
                GROUP BY s.org_id, s.mint_id, s.account_id) l) m
    WHERE m.kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP')
    GROUP BY m.org_id, m.mint_id
    HAVING coalesce(sum(m.delta) FILTER (WHERE m.kind = 'CUSTOMER'), 0) <> 0 OR coalesce(sum(m.delta) FILTER (WHERE m.kind = 'WITHDRAWING'), 0) <> 0
        OR coalesce(sum(m.delta) FILTER (WHERE m.kind = 'IN_SWAP'), 0) <> 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION address_funds_total() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    own text[];
BEGIN
    SELECT coalesce(array_agg(w.wallet_id), '{}') INTO own
    FROM (SELECT DISTINCT org_id FROM after) o
    JOIN wallets w ON w.org_id = o.org_id AND w.purpose = 'TREASURY';
    IF TG_OP = 'INSERT' THEN
        INSERT INTO organization_total_changes (org_id, mint_id, addresses, treasuries, dust)
        SELECT f.org_id, f.mint_id, sum(CASE WHEN f.wallet_id = ANY (own) THEN 0 ELSE f.credited - f.swept + f.gas + f.dust END),
            sum(CASE WHEN f.wallet_id = ANY (own) THEN f.credited - f.swept + f.gas + f.dust ELSE 0 END), sum(f.dust)
        FROM after f
        WHERE f.credited - f.swept + f.gas + f.dust <> 0 OR f.dust <> 0
        GROUP BY f.org_id, f.mint_id;
    ELSE
        INSERT INTO organization_total_changes (org_id, mint_id, addresses, treasuries, dust)
        SELECT m.org_id, m.mint_id, m.addresses, m.treasuries, m.dust
        FROM (SELECT d.org_id, d.mint_id, sum(CASE WHEN d.wallet_id = ANY (own) THEN 0 ELSE d.here END) AS addresses,
                  sum(CASE WHEN d.wallet_id = ANY (own) THEN d.here ELSE 0 END) AS treasuries, sum(d.dust) AS dust
              FROM (SELECT wallet_id, org_id, mint_id, credited - swept + gas + dust AS here, dust FROM after
                    UNION ALL
                    SELECT wallet_id, org_id, mint_id, -(credited - swept + gas + dust), -dust FROM before) d
              GROUP BY d.org_id, d.mint_id) m
        WHERE m.addresses <> 0 OR m.treasuries <> 0 OR m.dust <> 0;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION address_funds_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT n.wallet_id INTO lost FROM added n
    WHERE (SELECT w.org_id = n.org_id FROM wallets w WHERE w.wallet_id = n.wallet_id) IS NOT TRUE
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'the funds of wallet % are of another organization, or it does not exist', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'address_funds_wallet';
    END IF;
    SELECT n.mint_id::text INTO lost FROM (SELECT DISTINCT mint_id FROM added) n
    WHERE (SELECT m.mint_id FROM mints m WHERE m.mint_id = n.mint_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no mint %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'address_funds_mint_id_fkey';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- The check is there before the keys go. Both locks are held for a moment: nothing is read.
CREATE TRIGGER address_funds_refer AFTER INSERT ON address_funds
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION address_funds_refer();
ALTER TABLE address_funds DROP CONSTRAINT address_funds_wallet, DROP CONSTRAINT address_funds_mint_id_fkey;
