-- Why: the books. A row of ledger_transfers moves an amount of one mint from
-- one account to another, so an entry that does not balance cannot be written
-- down. Accounts with a floor have a balance row that only the database itself
-- keeps: the program may insert transfers and may not touch a balance.
-- +goose Up

CREATE TABLE ledger_accounts (
    account_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    mint_id    integer NOT NULL REFERENCES mints,
    kind       text NOT NULL,
    subject    text COLLATE "C" NOT NULL, -- the customer, the product, or ''
    -- What we owe grows on the credit side and may not fall below nothing;
    -- what we own or lost is a sum that nothing hot has to lock.
    floored    boolean GENERATED ALWAYS AS (kind IN ('CUSTOMER', 'WITHDRAWING', 'PRODUCT', 'GAS', 'SUSPENSE')) STORED,
    created_at timestamptz NOT NULL,
    CONSTRAINT ledger_accounts_unique UNIQUE (org_id, mint_id, kind, subject),
    CONSTRAINT ledger_accounts_of_mint UNIQUE (account_id, mint_id),
    CONSTRAINT ledger_accounts_of_org UNIQUE (account_id, org_id),
    CONSTRAINT ledger_accounts_kind_known CHECK (
        CASE kind
            WHEN 'CUSTOMER' THEN subject <> ''       -- what a customer may spend
            WHEN 'WITHDRAWING' THEN subject <> ''    -- held for a customer's withdrawals
            WHEN 'PRODUCT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'GAS' THEN subject = ''             -- native coin the operator put in for fees
            WHEN 'SUSPENSE' THEN subject = ''        -- arrived or restored, owner not settled
            WHEN 'CUSTODY' THEN subject = ''         -- what our addresses hold on chain
            WHEN 'FEES_DUE' THEN subject = ''        -- network fees the organization owes the operator
            WHEN 'FEES_BILLED' THEN subject = ''     -- the other side of FEES_DUE
            WHEN 'REORG_LOSS' THEN subject = ''      -- credited, then taken back by the chain
            ELSE false
        END)
);
SELECT coffer_tenant('ledger_accounts',
    'SELECT, INSERT (org_id, mint_id, kind, subject, created_at)',
    'SELECT, INSERT (org_id, mint_id, kind, subject, created_at)');
CREATE TRIGGER ledger_accounts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE ledger_balances (
    account_id bigint PRIMARY KEY REFERENCES ledger_accounts,
    org_id     text NOT NULL,
    mint_id    integer NOT NULL,
    balance    numeric(78,0) NOT NULL DEFAULT 0,
    CONSTRAINT ledger_balances_account FOREIGN KEY (account_id, org_id) REFERENCES ledger_accounts (account_id, org_id),
    CONSTRAINT ledger_balances_mint FOREIGN KEY (account_id, mint_id) REFERENCES ledger_accounts (account_id, mint_id),
    CONSTRAINT ledger_balances_not_overdrawn CHECK (balance >= 0),
    CONSTRAINT ledger_balances_bounded CHECK (balance < 115792089237316195423570985008687907853269984665640564039457584007913129639936)
);
SELECT coffer_tenant('ledger_balances', 'SELECT', 'SELECT');
-- The owner writes here on behalf of whoever inserts a transfer, through the two
-- functions below and in no other way.
CREATE POLICY keeper ON ledger_balances TO CURRENT_USER USING (true) WITH CHECK (true);

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
    CONSTRAINT ledger_transfers_positive CHECK (amount > 0 AND amount < 115792089237316195423570985008687907853269984665640564039457584007913129639936),
    CONSTRAINT ledger_transfers_two_accounts CHECK (debit_account <> credit_account),
    CONSTRAINT ledger_transfers_debit_mint FOREIGN KEY (debit_account, mint_id) REFERENCES ledger_accounts (account_id, mint_id),
    CONSTRAINT ledger_transfers_credit_mint FOREIGN KEY (credit_account, mint_id) REFERENCES ledger_accounts (account_id, mint_id),
    CONSTRAINT ledger_transfers_debit_org FOREIGN KEY (debit_account, org_id) REFERENCES ledger_accounts (account_id, org_id),
    CONSTRAINT ledger_transfers_credit_org FOREIGN KEY (credit_account, org_id) REFERENCES ledger_accounts (account_id, org_id),
    -- One cause posts once: the settlement and the release of a hold share a
    -- cause, so a hold cannot end twice.
    CONSTRAINT ledger_transfers_cause_once UNIQUE (cause_kind, cause_id, leg),
    CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_REVERSAL', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'NETWORK_FEE', 'RESTORE'))
);
CREATE INDEX ledger_transfers_debits ON ledger_transfers (debit_account, created_at, transfer_id);
CREATE INDEX ledger_transfers_credits ON ledger_transfers (credit_account, created_at, transfer_id);
-- Not the id: whoever could choose it could take the next ones away.
SELECT coffer_tenant('ledger_transfers',
    'SELECT, INSERT (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)',
    'SELECT, INSERT (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)');
CREATE TRIGGER ledger_transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transfers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The path names pg_temp last: it is searched first when it is not named, and a
-- temporary table of a caller's would be moved in place of the balances.
-- +goose StatementBegin
CREATE FUNCTION ledger_open_balances() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO ledger_balances (account_id, org_id, mint_id)
    SELECT account_id, org_id, mint_id FROM added WHERE floored ORDER BY account_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_accounts_open_balances AFTER INSERT ON ledger_accounts
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_open_balances();

-- Locks the balances that a statement's transfers touch in the order of their
-- ids, so that two statements never wait for each other, then moves them. The
-- ids are gathered first so that both statements look rows up by key however
-- old their plans are: a session that began on empty books keeps its plan.
-- +goose StatementBegin
CREATE FUNCTION ledger_move_balances() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ids    bigint[];
    deltas numeric[];
BEGIN
    SELECT array_agg(m.account_id ORDER BY m.account_id), array_agg(m.delta ORDER BY m.account_id)
    INTO ids, deltas
    FROM (SELECT legs.account_id, sum(legs.delta) AS delta
          FROM (SELECT credit_account AS account_id, amount AS delta FROM added
                UNION ALL
                SELECT debit_account, -amount FROM added) legs
          GROUP BY legs.account_id) m;

    PERFORM 1 FROM ledger_balances b
    WHERE b.account_id = ANY (ids)
    ORDER BY b.account_id FOR NO KEY UPDATE;

    UPDATE ledger_balances b SET balance = b.balance + m.delta
    FROM unnest(ids, deltas) AS m (account_id, delta)
    WHERE b.account_id = m.account_id AND b.account_id = ANY (ids) AND m.delta <> 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_transfers_move_balances AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_move_balances();
REVOKE ALL ON FUNCTION ledger_open_balances(), ledger_move_balances() FROM PUBLIC;
