-- The books.
--
-- A row of ledger_transfers moves an amount of one mint from one account to another, so an
-- entry that does not balance cannot be written. The database alone keeps the balances of
-- accounts with a floor: the service inserts transfers and has no privilege on balances.
--
-- Money moves only for a withdrawal, deposit, order or transfer that says the same
-- (decision 0021). Checks between rows run at the commit, so a transaction may write
-- its rows in any order.

CREATE TABLE ledger_accounts (
    account_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    mint_id    integer NOT NULL REFERENCES mints,
    kind       text NOT NULL,
    subject    text COLLATE "C" NOT NULL, -- the customer, the product, or ''
    floored    boolean,                   -- whether it has a balance row, which stays at or above zero
    created_at timestamptz NOT NULL,
    CONSTRAINT ledger_accounts_unique UNIQUE (org_id, mint_id, kind, subject),
    -- Keys that other tables refer to.
    CONSTRAINT ledger_accounts_of_mint UNIQUE (account_id, mint_id),
    CONSTRAINT ledger_accounts_of_org UNIQUE (account_id, org_id),
    -- Holds of products have kinds of their own: a customer may have the name of a product.
    -- Rule OW-3.
    CONSTRAINT ledger_accounts_kind_known CHECK (
        CASE kind
            WHEN 'CUSTOMER' THEN subject <> ''            -- what a customer may spend
            WHEN 'WITHDRAWING' THEN subject <> ''         -- held for a customer's withdrawals
            WHEN 'RESTORED' THEN subject <> ''            -- owed to us for payments restored from the signer's journal
            WHEN 'PRODUCT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_WITHDRAWING' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_RESTORED' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_IN_SWAP' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'REFUND_OWED' THEN subject = 'CHECKOUT'  -- owed to payers of checkouts
            WHEN 'BATCH_HELD' THEN subject = 'BATCH_PAYOUT' -- held for rows of batches that no withdrawal pays yet
            WHEN 'IN_SWAP' THEN subject <> ''             -- held for a customer's swaps, or came back and is not restored
            WHEN 'AT_PROVIDER' THEN subject <> ''         -- what a swap provider, the subject, has of ours
            WHEN 'GAS' THEN subject = ''                  -- native coin that the operator put in for fees
            WHEN 'SUSPENSE' THEN subject = ''             -- arrived, owner not settled; or a flagged deposit
            WHEN 'CUSTODY' THEN subject = ''              -- what our addresses hold on chain
            WHEN 'FEES_DUE' THEN subject = ''             -- network fees that the organization owes the operator
            WHEN 'FEES_BILLED' THEN subject = ''          -- the other side of FEES_DUE
            WHEN 'SWAP_FEES_DUE' THEN subject = ''        -- fees of swaps that the organization owes the operator
            WHEN 'SWAP_FEES_BILLED' THEN subject = ''     -- the other side of SWAP_FEES_DUE
            WHEN 'REORG_LOSS' THEN subject = ''           -- credited, then taken back by the chain
            ELSE false
        END),
    -- Liabilities grow on the credit side and may not fall below zero. What we own or lost is
    -- a sum over transfers, which no payment has to lock.
    CONSTRAINT ledger_accounts_floored CHECK (
        (floored IS TRUE) = (kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'PRODUCT_IN_SWAP',
            'REFUND_OWED', 'BATCH_HELD', 'GAS', 'SUSPENSE')))
);
-- The accounts of a customer or a product.
CREATE INDEX ledger_accounts_of_subject ON ledger_accounts (org_id, subject, kind);
SELECT coffer_tenant('ledger_accounts',
    'SELECT, INSERT (org_id, mint_id, kind, subject, created_at)',
    'SELECT, INSERT (org_id, mint_id, kind, subject, created_at)');
CREATE TRIGGER ledger_accounts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Sets floored, which no role may write.
CREATE FUNCTION ledger_accounts_floor() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    NEW.floored := NEW.kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'PRODUCT_IN_SWAP', 'REFUND_OWED', 'BATCH_HELD',
        'GAS', 'SUSPENSE');
    RETURN NEW;
END $$;
CREATE TRIGGER ledger_accounts_floor BEFORE INSERT ON ledger_accounts
    FOR EACH ROW EXECUTE FUNCTION ledger_accounts_floor();

-- One row for each account with a floor.
CREATE TABLE ledger_balances (
    account_id bigint PRIMARY KEY,
    org_id     text NOT NULL,
    mint_id    integer NOT NULL,
    balance    numeric(78,0) NOT NULL DEFAULT 0,
    CONSTRAINT ledger_balances_account FOREIGN KEY (account_id, org_id) REFERENCES ledger_accounts (account_id, org_id),
    CONSTRAINT ledger_balances_mint FOREIGN KEY (account_id, mint_id) REFERENCES ledger_accounts (account_id, mint_id),
    -- Rules WD-2 and TR-4.
    CONSTRAINT ledger_balances_not_overdrawn CHECK (balance >= 0),
    CONSTRAINT ledger_balances_bounded CHECK (
        balance < 115792089237316195423570985008687907853269984665640564039457584007913129639936)
);
SELECT coffer_tenant('ledger_balances', 'SELECT', 'SELECT');
CREATE TRIGGER ledger_balances_as_inserted BEFORE UPDATE OF account_id, org_id, mint_id ON ledger_balances
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- The owner writes here through ledger_open_balances and ledger_move_balances and in no
-- other way.
CREATE POLICY keeper ON ledger_balances TO CURRENT_USER USING (true) WITH CHECK (true);

-- The search_path names pg_temp last: PostgreSQL searches it first otherwise, and the
-- functions would move a caller's temporary table in place of the balances.
CREATE FUNCTION ledger_open_balances() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO ledger_balances (account_id, org_id, mint_id)
    SELECT account_id, org_id, mint_id FROM added WHERE floored ORDER BY account_id;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_accounts_open_balances AFTER INSERT ON ledger_accounts
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_open_balances();

-- ledger_transfers_accounts checks both accounts, in place of foreign keys.
CREATE TABLE ledger_transfers (
    transfer_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id         text NOT NULL,
    mint_id        integer NOT NULL,
    debit_account  bigint NOT NULL,
    credit_account bigint NOT NULL,
    amount         numeric(78,0) NOT NULL,
    cause_kind     text NOT NULL,
    cause_id       text COLLATE "C" NOT NULL,
    leg            smallint NOT NULL,
    created_at     timestamptz NOT NULL,
    CONSTRAINT ledger_transfers_positive CHECK (
        amount > 0 AND amount < 115792089237316195423570985008687907853269984665640564039457584007913129639936),
    CONSTRAINT ledger_transfers_two_accounts CHECK (debit_account <> credit_account),
    -- A cause posts once. The settlement and the release of a hold share a cause, so a hold
    -- cannot end twice. Rules WD-5 and BAL-2.
    CONSTRAINT ledger_transfers_cause_once UNIQUE (cause_kind, cause_id, leg),
    CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE', 'DEPOSIT_REVERSAL',
         'WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_FEE',
         'FEE_PREPAID', 'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER',
         'SWAP_HOLD', 'SWAP_PAID', 'SWAP_END', 'SWAP_FEE', 'SWAP_RESTORE', 'SWAP_SHORT', 'ARRIVAL',
         'REFUND_HOLD', 'REFUND_RELEASE', 'INVOICE_PAID', 'CREDIT_NOTE', 'BATCH_HOLD', 'BATCH_RELEASE')),
    -- A cause has these legs, and no more under other numbers.
    CONSTRAINT ledger_transfers_legs CHECK (
        CASE cause_kind
            WHEN 'NETWORK_FEE' THEN leg IN (0, 1)
            WHEN 'FEE_CHANGE' THEN leg IN (0, 1)
            WHEN 'DEPOSIT_REVERSAL' THEN leg >= 0
            WHEN 'INVOICE_PAID' THEN leg >= 0
            WHEN 'CREDIT_NOTE' THEN leg >= 0
            ELSE leg = 0
        END)
);
CREATE INDEX ledger_transfers_debits ON ledger_transfers (debit_account, created_at, transfer_id);
CREATE INDEX ledger_transfers_credits ON ledger_transfers (credit_account, created_at, transfer_id);
-- The entries of a mint, without network fees: those move no balance of a customer or product,
-- and nearly all entries of the coin that pays for sweeps are network fees.
CREATE INDEX ledger_transfers_of_mint ON ledger_transfers (org_id, mint_id, created_at, transfer_id)
    WHERE cause_kind NOT IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID');
-- No role writes transfer_id: a role that chose it could take the next ones away.
SELECT coffer_tenant('ledger_transfers',
    'SELECT, INSERT (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)',
    'SELECT, INSERT (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)');
CREATE TRIGGER ledger_transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transfers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- PostgreSQL runs the following triggers in the order of their names.
--
-- The functions run as the role that inserts, under row level security: an account of
-- another organization counts as missing. Each look-up is a scalar subquery by key, and
-- enable_seqscan is off: a session that planned on empty tables keeps its plan, and it must
-- look rows up by key at any size. COLLATE makes a comparison match the collation of the
-- key, for the index is unused otherwise. What is compared stands in the select list and
-- not in the condition: on empty tables any index with one of those columns looks as good
-- as the key, and the plan stays. The functions use few and plain statements because every
-- transfer passes all of them (decision 0036).

-- Both accounts of a transfer belong to its organization and its mint. A transfer between
-- customers and products and the credit of a deposit are left to ledger_transfers_of_cause, which
-- asks for the same in the query that compares it with its cause.
CREATE FUNCTION ledger_transfers_refer() RETURNS trigger LANGUAGE plpgsql
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
CREATE TRIGGER ledger_transfers_accounts AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_refer();

-- Moves the balances of a statement's transfers. It locks the rows in the order of their ids
-- first, so that two statements never wait for each other in a circle. It gathers the ids
-- first, so that both statements look rows up by key.
CREATE FUNCTION ledger_move_balances() RETURNS trigger LANGUAGE plpgsql
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

    PERFORM 1 FROM ledger_balances b
    WHERE b.account_id = ANY (ids)
    ORDER BY b.account_id FOR NO KEY UPDATE;

    UPDATE ledger_balances b SET balance = b.balance + m.delta
    FROM unnest(ids, deltas) AS m (account_id, delta)
    WHERE b.account_id = m.account_id AND b.account_id = ANY (ids) AND m.delta <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_move_balances AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_move_balances();
REVOKE ALL ON FUNCTION ledger_open_balances(), ledger_move_balances() FROM PUBLIC;

-- Checks for every new transfer that its cause exists and moves exactly this. It runs after
-- the balances move, for its name comes later: a lack of funds is reported as that. There
-- is one statement for each kind of cause: a kind has one role that posts it, and
-- PostgreSQL plans anew when the role under row level security changes. Which kinds occur
-- is told by the first and the last in the alphabet: a kind between them may occur.
--
-- A hold is of the amount and of what is held for rent. Its release leaves out what was
-- charged.
CREATE FUNCTION ledger_transfers_follow() RETURNS trigger LANGUAGE plpgsql
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
CREATE TRIGGER ledger_transfers_of_cause AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_follow();

-- The charge of a withdrawal goes to the organization. What was held for rent and not
-- charged goes back to the customer.
CREATE FUNCTION ledger_withdrawal_charge_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.org_id, w.mint_id, d.kind, d.subject) = (NEW.org_id, NEW.mint_id, 'WITHDRAWING', w.customer_id)
            AND CASE NEW.cause_kind
                WHEN 'WITHDRAWAL_CHARGE' THEN w.status IN ('COMPLETED', 'FAILED') AND w.charged = NEW.amount AND (c.kind, c.subject) = ('PRODUCT', 'CUSTODIAL')
                ELSE w.status = 'COMPLETED' AND w.charge_held - w.charged = NEW.amount AND (c.kind, c.subject) = ('CUSTOMER', w.customer_id) END
        FROM withdrawals w, ledger_accounts d, ledger_accounts c
        WHERE w.withdrawal_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_charge';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_charge AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN'))
    EXECUTE FUNCTION ledger_withdrawal_charge_follow();

-- All that was posted for an order adds up to its fee. A change names the fork on which the
-- order is proven: the same transaction may cost more or less in another block
-- (decision 0024).
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
CREATE TRIGGER ledger_transfers_of_fee_change AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'FEE_CHANGE') EXECUTE FUNCTION ledger_fee_change_follow();

-- WITHDRAWAL_FEE: the fee that a customer paid belongs to the organization once the payment
-- is completed. FEE_PREPAID: the fee that an organization paid for its own withdrawal is the
-- operator's gas then, and counts as paid on the organization's bill.
CREATE FUNCTION ledger_withdrawal_fee_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.org_id, w.mint_id, w.fee_deducted, w.status) = (NEW.org_id, NEW.mint_id, NEW.amount, 'COMPLETED')
            AND CASE
                WHEN NEW.cause_kind = 'FEE_PREPAID' THEN w.product IS NOT NULL AND (d.kind, c.kind) = ('FEES_BILLED', 'FEES_DUE')
                WHEN w.product IS NOT NULL THEN (d.kind, d.subject, c.kind, c.subject) = ('CUSTODY', '', 'GAS', '')
                ELSE (d.kind, d.subject, c.kind, c.subject) = ('CUSTODY', '', 'PRODUCT', 'CUSTODIAL') END
        FROM withdrawals w, ledger_accounts d, ledger_accounts c
        WHERE w.withdrawal_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_withdrawal_fee';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_withdrawal_fee AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'WITHDRAWAL_FEE') EXECUTE FUNCTION ledger_withdrawal_fee_follow();
CREATE TRIGGER ledger_transfers_of_fee_prepaid AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'FEE_PREPAID') EXECUTE FUNCTION ledger_withdrawal_fee_follow();

-- In the books a flagged deposit is custody of the organization and part of no balance
-- (decision 0040). DEPOSIT_HOLD books it, DEPOSIT_RELEASE ends that, and DEPOSIT_FEE
-- keeps the fee of a return.
CREATE FUNCTION ledger_deposit_hold_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (p.org_id, p.mint_id) = (NEW.org_id, NEW.mint_id) AND p.is_flagged AND CASE NEW.cause_kind
                WHEN 'DEPOSIT_HOLD' THEN p.amount = NEW.amount AND p.status = 'FLAGGED' AND (d.kind, c.kind) = ('CUSTODY', 'SUSPENSE')
                WHEN 'DEPOSIT_RELEASE' THEN p.amount = NEW.amount AND p.status IN ('ORPHANED', 'CREDITED', 'REJECTED', 'REDIRECTED') AND (d.kind, c.kind) = ('SUSPENSE', 'CUSTODY')
                ELSE p.status IN ('REJECTED', 'REDIRECTED') AND (d.kind, c.kind, c.subject) = ('CUSTODY', 'PRODUCT', 'CUSTODIAL')
                    AND NEW.amount = (SELECT r.fee_kept FROM deposit_resolutions r WHERE r.deposit_id = p.deposit_id AND r.status = 'DONE') END
        FROM deposits p, ledger_accounts d, ledger_accounts c
        WHERE p.deposit_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_hold';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_hold AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE'))
    EXECUTE FUNCTION ledger_deposit_hold_follow();
