-- Why: every transfer passes six triggers, and most of what a caller waits for is
-- their start: each statement of each was planned to sort and join what is one row
-- or a hundred, and ran under settings that PostgreSQL takes on and off at every
-- call. They ask the same now, with fewer and plainer statements.
-- See decision 0036.
-- +goose Up

-- Nothing here changes what is refused, under which name, or by which trigger. A
-- function that names the schema of its tables needs no path of its own: temporary
-- tables, the one thing that the program's roles can make, are never public.

-- Balances are locked in the order of their ids by being moved in it: the ids come
-- sorted, and however the two sides are joined rows come out in their order. A row
-- that somebody else was moving is looked at anew when he has committed. The ids are
-- gathered first so that rows are looked up by key however old a session's plan is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_move_balances() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ids    bigint[];
    deltas numeric[];
BEGIN
    SELECT array_agg(m.account_id), array_agg(m.delta)
    INTO ids, deltas
    FROM (SELECT legs.account_id, sum(legs.delta) AS delta
          FROM (SELECT credit_account AS account_id, amount AS delta FROM added
                UNION ALL
                SELECT debit_account, -amount FROM added) legs
          GROUP BY legs.account_id ORDER BY legs.account_id) m;

    UPDATE ledger_balances b SET balance = b.balance + m.delta
    FROM unnest(ids, deltas) AS m (account_id, delta)
    WHERE b.account_id = m.account_id AND b.account_id = ANY (ids) AND m.delta <> 0;
    RETURN NULL;
END $$;

-- Both accounts of a posting are of its organization and its mint.
CREATE OR REPLACE FUNCTION ledger_transfers_refer() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
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

-- Of a customer who is there, the organization is as well.
CREATE OR REPLACE FUNCTION transfers_refer() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT concat_ws(' or ', t.from_customer, t.to_customer, 'mint ' || t.mint_id, t.org_id) INTO lost FROM added t
    WHERE (t.from_customer IS NOT NULL
            AND (SELECT c.created_at FROM public.customers c WHERE c.org_id = t.org_id AND c.customer_id = t.from_customer) IS NULL)
        OR (t.to_customer IS NOT NULL
            AND (SELECT c.created_at FROM public.customers c WHERE c.org_id = t.org_id AND c.customer_id = t.to_customer) IS NULL)
        OR (t.from_customer IS NULL AND t.to_customer IS NULL
            AND (SELECT o.org_id FROM public.organizations o WHERE o.org_id = t.org_id) IS NULL)
        OR (SELECT m.mint_id FROM public.mints m WHERE m.mint_id = t.mint_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'transfers_parties';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION organizations_refer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lost text;
BEGIN
    SELECT a.org_id INTO lost FROM added a
    WHERE a.org_id IS NOT NULL AND (SELECT o.org_id FROM public.organizations o WHERE o.org_id = a.org_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no organization %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_TABLE_NAME || '_organization';
    END IF;
    RETURN NULL;
END $$;

-- As before, but for how it is told which kinds there are: those between the first
-- and the last of the alphabet may be.
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
            SELECT (w.org_id, w.mint_id, w.amount) = (t.org_id, t.mint_id, t.amount)
                AND (d.kind, d.subject, c.kind, c.subject) = ('CUSTOMER', w.customer_id, 'WITHDRAWING', w.customer_id)
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'WITHDRAWAL_END' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'WITHDRAWAL_END' AND (
            SELECT (w.org_id, w.mint_id, w.amount) = (t.org_id, t.mint_id, t.amount)
                AND (d.kind, d.subject) = ('WITHDRAWING', w.customer_id)
                AND CASE WHEN w.status = 'COMPLETED' THEN (c.kind, c.subject) = ('CUSTODY', '')
                    WHEN w.status IN ('FAILED', 'REJECTED', 'CANCELLED') THEN (c.kind, c.subject) = ('CUSTOMER', w.customer_id) END
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'DEPOSIT' BETWEEN low AND high THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'DEPOSIT' AND (
            SELECT (p.org_id, p.mint_id, p.amount) = (t.org_id, t.mint_id, t.amount) AND p.status IN ('CREDITED', 'REVERSED')
                AND (a.org_id, a.address, a.purpose, a.subject) = (p.org_id, p.address, p.purpose, coalesce(p.customer_id, p.product, ''))
                AND (d.kind, d.subject) = ('CUSTODY', '')
                AND (c.kind, c.subject) = (CASE WHEN p.purpose = 'CUSTOMER_DEPOSIT' THEN 'CUSTOMER' WHEN p.purpose = 'ORGANIZATION_DEPOSIT' THEN 'PRODUCT'
                        WHEN p.contract = '' THEN 'GAS' ELSE 'SUSPENSE' END,
                    coalesce(p.customer_id, p.product, ''))
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
        WHERE t.cause_kind = 'RESTORE' AND (
            SELECT (w.org_id, w.mint_id) = (t.org_id, t.mint_id) AND w.restored_at IS NOT NULL
                AND (d.subject, c.subject) = (w.customer_id, w.customer_id)
                AND CASE WHEN t.cause_id = w.withdrawal_id THEN (d.kind, c.kind, w.takings) = ('RESTORED', 'CUSTOMER', 0)
                    ELSE (d.kind, c.kind, t.cause_id) = ('CUSTOMER', 'RESTORED', w.withdrawal_id || '/' || w.takings) END
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = split_part(t.cause_id, '/', 1) COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
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
-- +goose StatementEnd
