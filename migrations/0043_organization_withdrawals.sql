-- Why: an organization takes its own money out, from the balance of a product and only
-- to an address on its list. It is a withdrawal like a customer's, under every guard
-- that one has, and what customers are owed stays out of its reach:
-- decision 0043.
-- +goose Up

-- None of the constraints is looked through: no row from before has a product, and the
-- tables stay open to a running house.
ALTER TABLE withdrawals
    ALTER COLUMN customer_id DROP NOT NULL,
    ADD COLUMN product text,                -- whose balance pays, in place of a customer's
    ADD COLUMN whitelisted_address_id text, -- the entry of the list that to_address was read from
    ADD CONSTRAINT withdrawals_of_one CHECK (
        num_nonnulls(customer_id, product) = 1 AND (product IS NULL) = (whitelisted_address_id IS NULL)) NOT VALID,
    ADD CONSTRAINT withdrawals_product_known CHECK (product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')) NOT VALID,
    -- The fee of an organization's own payment of a coin comes on top, and is decided when
    -- it is asked for: what is held is both.
    ADD CONSTRAINT withdrawals_own_fee_decided CHECK (
        product IS NULL OR fee_mode <> 'DEDUCTED' OR fee_deducted IS NOT NULL OR status = 'BLOCKED') NOT VALID;
ALTER TABLE dispatch_orders
    ADD COLUMN product text,
    ADD COLUMN whitelisted_address_id text,
    ADD CONSTRAINT dispatch_orders_product CHECK (
        product IS NULL AND whitelisted_address_id IS NULL
        OR purpose = 'PAYMENT' AND customer_id IS NULL AND num_nonnulls(product, whitelisted_address_id) = 2) NOT VALID;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.withdrawal_id, NEW.org_id, NEW.customer_id, NEW.product, NEW.whitelisted_address_id,
            NEW.mint_id, NEW.chain, NEW.amount, NEW.to_address, NEW.idempotency_key, NEW.request_digest)
       IS DISTINCT FROM
       (OLD.withdrawal_id, OLD.org_id, OLD.customer_id, OLD.product, OLD.whitelisted_address_id,
            OLD.mint_id, OLD.chain, OLD.amount, OLD.to_address, OLD.idempotency_key, OLD.request_digest) THEN
        RAISE EXCEPTION 'withdrawal % cannot become another payment', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_payment_fixed';
    END IF;
    IF OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'withdrawal % is %', OLD.withdrawal_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terminal';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION dispatch_orders_terms_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.fee_deducted, NEW.fee_max, NEW.product, NEW.whitelisted_address_id)
       IS DISTINCT FROM (OLD.fee_deducted, OLD.fee_max, OLD.product, OLD.whitelisted_address_id) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- What is held of a product, and what a product owes for restored payments, are accounts
-- of kinds of their own: a customer may have the name of a product. What has a floor was
-- computed from the kinds there were, which cannot be changed without writing the table
-- anew; from now on it is written with the account, and a check says what it has to be.
ALTER TABLE ledger_accounts ALTER COLUMN floored DROP EXPRESSION;
ALTER TABLE ledger_accounts
    DROP CONSTRAINT ledger_accounts_kind_known,
    ADD CONSTRAINT ledger_accounts_kind_known CHECK (
        CASE kind
            WHEN 'CUSTOMER' THEN subject <> ''
            WHEN 'WITHDRAWING' THEN subject <> ''
            WHEN 'RESTORED' THEN subject <> ''
            WHEN 'PRODUCT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_WITHDRAWING' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_RESTORED' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'GAS' THEN subject = ''
            WHEN 'SUSPENSE' THEN subject = ''
            WHEN 'CUSTODY' THEN subject = ''
            WHEN 'FEES_DUE' THEN subject = ''
            WHEN 'FEES_BILLED' THEN subject = ''
            WHEN 'REORG_LOSS' THEN subject = ''
            ELSE false
        END) NOT VALID,
    ADD CONSTRAINT ledger_accounts_floored CHECK (
        (floored IS TRUE) = (kind IN ('CUSTOMER', 'WITHDRAWING', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'GAS', 'SUSPENSE'))) NOT VALID;
-- +goose StatementBegin
CREATE FUNCTION ledger_accounts_floor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.floored := NEW.kind IN ('CUSTOMER', 'WITHDRAWING', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'GAS', 'SUSPENSE');
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_accounts_floor BEFORE INSERT ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION ledger_accounts_floor();

-- The fee that comes on top is the operator's gas once the payment is made, and counts as
-- paid on the organization's bill.
ALTER TABLE ledger_transfers
    DROP CONSTRAINT ledger_transfers_cause_known,
    ADD CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE', 'DEPOSIT_REVERSAL', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_FEE',
         'FEE_PREPAID', 'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER')) NOT VALID;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_withdrawal_fee_follow() RETURNS trigger LANGUAGE plpgsql
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
-- +goose StatementEnd
CREATE TRIGGER ledger_transfers_of_fee_prepaid AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'FEE_PREPAID') EXECUTE FUNCTION ledger_withdrawal_fee_follow();

-- These two functions ask for every kind of cause, so only the lines about withdrawals are
-- exchanged, wherever the others have come to.
-- +goose StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('ledger_transfers_follow()'::regprocedure);
    now text := was;
BEGIN
    now := replace(now,
        $q$(d.kind, d.subject, c.kind, c.subject) = ('CUSTOMER', w.customer_id, 'WITHDRAWING', w.customer_id)$q$,
        $q$(d.kind, d.subject, c.kind, c.subject) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id),
                    CASE WHEN w.product IS NULL THEN 'WITHDRAWING' ELSE 'PRODUCT_WITHDRAWING' END, coalesce(w.product, w.customer_id))$q$);
    now := replace(now,
        $q$(d.kind, d.subject) = ('WITHDRAWING', w.customer_id)$q$,
        $q$(d.kind, d.subject) = (CASE WHEN w.product IS NULL THEN 'WITHDRAWING' ELSE 'PRODUCT_WITHDRAWING' END, coalesce(w.product, w.customer_id))$q$);
    now := replace(now,
        $q$THEN (c.kind, c.subject) = ('CUSTOMER', w.customer_id) END$q$,
        $q$THEN (c.kind, c.subject) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id)) END$q$);
    now := replace(now,
        $q$(d.subject, c.subject) = (w.customer_id, w.customer_id)$q$,
        $q$(d.subject, c.subject) = (coalesce(w.product, w.customer_id), coalesce(w.product, w.customer_id))$q$);
    now := replace(now,
        $q$(d.kind, c.kind, w.takings) = ('RESTORED', 'CUSTOMER', 0)$q$,
        $q$(d.kind, c.kind, w.takings) = (CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END,
                        CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, 0)$q$);
    now := replace(now,
        $q$(d.kind, c.kind, t.cause_id) = ('CUSTOMER', 'RESTORED', w.withdrawal_id || '/' || w.takings)$q$,
        $q$(d.kind, c.kind, t.cause_id) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END, w.withdrawal_id || '/' || w.takings)$q$);
    IF length(now) - length(replace(now, 'w.product IS NULL', '')) <> 8 * length('w.product IS NULL') OR position('w.customer_id, w.customer_id' IN now) > 0 THEN
        RAISE EXCEPTION 'ledger_transfers_follow does not ask of withdrawals what it did';
    END IF;
    EXECUTE now;

    was := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now := replace(was, $q$customer_id, status, fee, fee_deducted, fee_max$q$,
        $q$customer_id, product, whitelisted_address_id, status, fee, fee_deducted, fee_max$q$);
    now := replace(now,
        $q$(w.org_id, w.chain, w.mint_id, w.amount, w.to_address, w.customer_id) = (o.org_id, o.chain, o.mint_id, o.amount + o.fee_deducted, o.to_address, o.customer_id)$q$,
        $q$(w.org_id, w.chain, w.mint_id, w.amount, w.to_address) = (o.org_id, o.chain, o.mint_id, o.amount + o.fee_deducted, o.to_address)
            AND (w.customer_id, w.product, w.whitelisted_address_id) IS NOT DISTINCT FROM (o.customer_id, o.product, o.whitelisted_address_id)$q$);
    now := replace(now,
        $q$            THEN 'dispatch_orders_fee_kept'$q$,
        $q$            THEN 'dispatch_orders_fee_kept'
        WHEN o.status = 'PAID' AND o.fee_deducted > 0 AND o.product IS NOT NULL
            AND NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'FEE_PREPAID' AND cause_id = o.order_id)
            THEN 'dispatch_orders_fee_prepaid'$q$);
    IF position('product, whitelisted_address_id, status' IN now) = 0 OR position('w.whitelisted_address_id) IS NOT DISTINCT' IN now) = 0
        OR position('FEE_PREPAID' IN now) = 0 THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not ask of payments what it did';
    END IF;
    EXECUTE now;
END $$;
-- +goose StatementEnd
