-- Why: what a payer paid too much, or for nothing, is given back. A refund takes its parts from credited payments, owes
-- its amount, and is paid by a withdrawal to the payer.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE ledger_accounts DROP CONSTRAINT ledger_accounts_kind_known;
ALTER TABLE ledger_accounts ADD CONSTRAINT ledger_accounts_kind_known CHECK (
        CASE kind
            WHEN 'CUSTOMER' THEN subject <> ''            -- what a customer may spend
            WHEN 'WITHDRAWING' THEN subject <> ''         -- held for a customer's withdrawals
            WHEN 'RESTORED' THEN subject <> ''            -- owed to us for payments restored from the signer's journal
            WHEN 'PRODUCT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_WITHDRAWING' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_RESTORED' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'PRODUCT_IN_SWAP' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'REFUND_OWED' THEN subject = 'CHECKOUT'  -- owed to payers of checkouts
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
        END) NOT VALID;
ALTER TABLE ledger_accounts DROP CONSTRAINT ledger_accounts_floored;
ALTER TABLE ledger_accounts ADD CONSTRAINT ledger_accounts_floored CHECK (
        (floored IS TRUE) = (kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'PRODUCT_IN_SWAP',
            'REFUND_OWED', 'GAS', 'SUSPENSE'))) NOT VALID;
ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_cause_known;
ALTER TABLE ledger_transfers ADD CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE', 'DEPOSIT_REVERSAL',
         'WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_FEE',
         'FEE_PREPAID', 'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER',
         'SWAP_HOLD', 'SWAP_PAID', 'SWAP_END', 'SWAP_FEE', 'SWAP_RESTORE', 'SWAP_SHORT', 'ARRIVAL',
         'REFUND_HOLD', 'REFUND_RELEASE')) NOT VALID;

CREATE OR REPLACE FUNCTION ledger_accounts_floor() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    NEW.floored := NEW.kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'PRODUCT_IN_SWAP', 'REFUND_OWED', 'GAS',
        'SUSPENSE');
    RETURN NEW;
END $$;

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
                AND (d.kind, d.subject, c.kind, c.subject) = (CASE WHEN w.refund_id IS NOT NULL THEN 'REFUND_OWED' WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(w.product, w.customer_id),
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

ALTER TABLE withdrawals ADD COLUMN refund_id text;
ALTER TABLE withdrawals DROP CONSTRAINT withdrawals_of_one;
ALTER TABLE withdrawals ADD CONSTRAINT withdrawals_of_one CHECK (
        num_nonnulls(customer_id, product) = 1
        AND CASE num_nonnulls(whitelisted_address_id, refund_id)
            WHEN 1 THEN product IS NOT NULL AND (refund_id IS NULL OR product = 'CHECKOUT')
            -- A restore may lack the refund that the signer paid.
            WHEN 0 THEN product IS NULL OR product = 'CHECKOUT' AND restored_at IS NOT NULL
            ELSE false
        END) NOT VALID;
GRANT INSERT (refund_id) ON withdrawals TO coffer_app;

ALTER TABLE dispatch_orders ADD COLUMN refund jsonb;
ALTER TABLE dispatch_orders DROP CONSTRAINT dispatch_orders_product;
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_product CHECK (
        product IS NULL AND whitelisted_address_id IS NULL
        OR purpose = 'PAYMENT' AND customer_id IS NULL AND num_nonnulls(product, whitelisted_address_id, refund) = 2
            AND product IS NOT NULL
        -- An organization's swap: its payment to the provider goes to no entry of the whitelist.
        OR purpose = 'SWAP' AND customer_id IS NULL AND product IS NOT NULL AND whitelisted_address_id IS NULL) NOT VALID;
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_refund_of_checkout CHECK (
        refund IS NULL OR purpose = 'PAYMENT' AND product IS NOT DISTINCT FROM 'CHECKOUT') NOT VALID;

ALTER TABLE checkout_payments ADD COLUMN refunding numeric(78,0) NOT NULL DEFAULT 0;
ALTER TABLE checkout_payments ADD COLUMN refunded numeric(78,0) NOT NULL DEFAULT 0;
ALTER TABLE checkout_payments ADD CONSTRAINT checkout_payments_refunds CHECK (refunding >= 0 AND refunded >= 0 AND refunding + refunded <= amount) NOT VALID;
GRANT UPDATE (refunding, refunded) ON checkout_payments TO coffer_app, coffer_system;

CREATE TABLE refunds (
    refund_id       text PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organizations,
    version         bigint NOT NULL,          -- counts the changes
    checkout_id     text NOT NULL,
    mint_id         integer NOT NULL REFERENCES mints,
    amount          numeric(78,0) NOT NULL,
    kind            text NOT NULL,            -- what was asked for
    fee_mode        text NOT NULL,            -- who pays the network
    reason          text,                     -- the organization's own words
    idempotency_key text COLLATE "C",         -- NULL: the caller gave none
    idempotency_key_hash text,                -- hex SHA-256 of the key
    request_digest  bytea NOT NULL,           -- of the caller's parameters
    requester_kind  text NOT NULL,
    requester_id    text NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,     -- until when it can be claimed
    status          text NOT NULL,
    to_address      text,                     -- of the present attempt; NULL: it waits for one
    address_proven  boolean NOT NULL DEFAULT false, -- the payer signed with the address
    attempt         integer NOT NULL DEFAULT 0, -- counts the addresses
    withdrawal_id   text,                     -- pays the present attempt
    key_hash        bytea,                    -- SHA-256 of the claim key; NULL: no one can claim it
    key_version     integer NOT NULL DEFAULT 0, -- counts the keys
    problem         text,                     -- why the last attempt paid nothing
    look_at         timestamptz,              -- when the worker looks at it; NULL: it waits for a person
    completed_at    timestamptz,
    updated_at      timestamptz NOT NULL,
    CONSTRAINT refunds_of_organization UNIQUE (org_id, refund_id),
    CONSTRAINT refunds_key_unique UNIQUE (org_id, idempotency_key_hash),
    CONSTRAINT refunds_claim_key_once UNIQUE (key_hash),
    CONSTRAINT refunds_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT refunds_key_hashed CHECK (
        (idempotency_key_hash IS NULL) = (idempotency_key IS NULL)
        AND (idempotency_key_hash IS NULL OR idempotency_key_hash ~ '^[0-9a-f]{64}$')),
    CONSTRAINT refunds_versioned CHECK (version > 0 AND updated_at >= created_at),
    CONSTRAINT refunds_positive CHECK (amount > 0 AND attempt >= 0),
    CONSTRAINT refunds_kind_known CHECK (kind IN ('FULL', 'OVERPAID', 'AMOUNT')),
    CONSTRAINT refunds_fee_mode_known CHECK (fee_mode IN ('ORGANIZATION', 'DEDUCTED')),
    CONSTRAINT refunds_words CHECK (char_length(reason) BETWEEN 1 AND 1000 AND char_length(problem) BETWEEN 1 AND 1000),
    CONSTRAINT refunds_requester_known CHECK (requester_kind IN ('API_KEY', 'USER', 'SYSTEM') AND requester_id <> ''),
    CONSTRAINT refunds_status_known CHECK (status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT', 'COMPLETED', 'CANCELLED', 'EXPIRED')),
    CONSTRAINT refunds_addressed CHECK (
        (to_address IS NOT NULL) = (status IN ('REQUESTED', 'SENT', 'COMPLETED')) AND octet_length(to_address) BETWEEN 1 AND 128
        AND (attempt > 0 OR to_address IS NULL) AND (to_address IS NOT NULL OR NOT address_proven)),
    CONSTRAINT refunds_paid_by CHECK ((withdrawal_id IS NOT NULL) = (status IN ('SENT', 'COMPLETED'))),
    CONSTRAINT refunds_completed CHECK ((completed_at IS NOT NULL) = (status = 'COMPLETED')),
    CONSTRAINT refunds_keyed CHECK ((key_hash IS NULL OR octet_length(key_hash) = 32) AND (key_version > 0) = (key_hash IS NOT NULL)),
    CONSTRAINT refunds_looked_at CHECK ((look_at IS NOT NULL) = (status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT')))
);
-- For lists, with a filter and without one.
CREATE INDEX refunds_listed ON refunds (org_id, created_at, refund_id);
CREATE INDEX refunds_of_status ON refunds (org_id, status, created_at, refund_id);
CREATE INDEX refunds_of_checkout ON refunds (checkout_id, created_at, refund_id);
CREATE INDEX refunds_to_look_at ON refunds (look_at, refund_id) WHERE look_at IS NOT NULL;
SELECT coffer_tenant('refunds',
    'SELECT, INSERT (refund_id, org_id, version, checkout_id, mint_id, amount, kind, fee_mode, reason, idempotency_key,'
        ' idempotency_key_hash, request_digest, requester_kind, requester_id, created_at, expires_at, status, to_address, attempt, key_hash,'
        ' key_version, look_at, updated_at),'
        ' UPDATE (version, status, to_address, address_proven, attempt, key_hash, key_version, look_at, updated_at)',
    'SELECT, UPDATE (version, status, to_address, address_proven, attempt, withdrawal_id, problem, look_at, completed_at, updated_at)');
CREATE TRIGGER refunds_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF refund_id, org_id, checkout_id, mint_id, amount, kind, fee_mode,
    reason, idempotency_key, idempotency_key_hash, request_digest, requester_kind, requester_id, created_at, expires_at ON refunds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Every change but the time of the next look counts one, an attempt keeps its address, and only a new attempt has another one.
CREATE FUNCTION refunds_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (NEW.version, NEW.attempt) IS DISTINCT FROM (1::bigint, CASE NEW.status WHEN 'REQUESTED' THEN 1 WHEN 'AWAITING_ADDRESS' THEN 0 END) THEN
            RAISE EXCEPTION 'refund % begins with an outcome', NEW.refund_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'refunds_begin';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.version <> OLD.version + ((NEW.status, NEW.key_hash) IS DISTINCT FROM (OLD.status, OLD.key_hash))::integer
       OR NEW.version = OLD.version AND (NEW.updated_at, NEW.completed_at) IS DISTINCT FROM (OLD.updated_at, OLD.completed_at)
       OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'a change of refund % does not follow version %', OLD.refund_id, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refunds_version_forward';
    END IF;
    IF OLD.status <> NEW.status AND (OLD.status || ' ' || NEW.status) NOT IN (
            'AWAITING_ADDRESS REQUESTED', 'AWAITING_ADDRESS CANCELLED', 'AWAITING_ADDRESS EXPIRED', 'REQUESTED SENT',
            'REQUESTED AWAITING_ADDRESS', 'REQUESTED CANCELLED', 'SENT COMPLETED', 'SENT AWAITING_ADDRESS') THEN
        RAISE EXCEPTION 'refund % does not go from % to %', OLD.refund_id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refunds_transition_known';
    END IF;
    IF (NEW.attempt, NEW.to_address, NEW.address_proven) IS DISTINCT FROM (OLD.attempt, OLD.to_address, OLD.address_proven) AND NOT (CASE
            WHEN OLD.status = 'AWAITING_ADDRESS' AND NEW.status = 'REQUESTED' THEN NEW.attempt = OLD.attempt + 1
            WHEN OLD.status <> NEW.status AND NEW.status IN ('AWAITING_ADDRESS', 'CANCELLED') THEN NEW.attempt = OLD.attempt
            ELSE false END) THEN
        RAISE EXCEPTION 'refund % has one address in an attempt', OLD.refund_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refunds_address_once';
    END IF;
    IF (NEW.withdrawal_id, NEW.problem) IS DISTINCT FROM (OLD.withdrawal_id, OLD.problem) AND NEW.status = OLD.status THEN
        RAISE EXCEPTION 'refund % has one payment in an attempt', OLD.refund_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refunds_payment_once';
    END IF;
    IF NEW.key_hash IS DISTINCT FROM OLD.key_hash AND (NEW.key_version <> OLD.key_version + 1 OR NEW.status <> 'AWAITING_ADDRESS' OR OLD.status <> NEW.status)
       OR NEW.key_hash IS NOT DISTINCT FROM OLD.key_hash AND NEW.key_version <> OLD.key_version THEN
        RAISE EXCEPTION 'a key of refund % is replaced by the next one', OLD.refund_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refunds_key_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refunds_keep BEFORE INSERT OR UPDATE ON refunds FOR EACH ROW EXECUTE FUNCTION refunds_keep();

-- What a refund takes of which payments. It is all there when the refund is made.
CREATE TABLE refund_parts (
    refund_id  text NOT NULL,
    deposit_id text NOT NULL REFERENCES checkout_payments,
    org_id     text NOT NULL,
    amount     numeric(78,0) NOT NULL,
    CONSTRAINT refund_parts_pkey PRIMARY KEY (refund_id, deposit_id),
    CONSTRAINT refund_parts_refund FOREIGN KEY (org_id, refund_id) REFERENCES refunds (org_id, refund_id),
    CONSTRAINT refund_parts_positive CHECK (amount > 0)
);
CREATE INDEX refund_parts_of_payment ON refund_parts (deposit_id);
SELECT coffer_tenant('refund_parts', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER refund_parts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON refund_parts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A part is of a credited payment of the same checkout and mint.
CREATE FUNCTION refund_parts_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (r.org_id, r.checkout_id, r.mint_id, r.version, p.status) = (p.org_id, p.checkout_id, p.mint_id, 1, 'CREDITED')
        FROM refunds r, checkout_payments p WHERE r.refund_id = NEW.refund_id AND p.deposit_id = NEW.deposit_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'refund % takes from a payment that it cannot give back', NEW.refund_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_parts_of_credited';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refund_parts_begin BEFORE INSERT ON refund_parts FOR EACH ROW EXECUTE FUNCTION refund_parts_begin();

-- What is noted of a payment is the sum of the parts of its refunds. Invariant I-83.
CREATE FUNCTION refund_parts_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (p.refunding, p.refunded) IS DISTINCT FROM (
                coalesce(sum(t.amount) FILTER (WHERE r.status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT')), 0),
                coalesce(sum(t.amount) FILTER (WHERE r.status = 'COMPLETED'), 0))
        FROM checkout_payments p LEFT JOIN refund_parts t ON t.deposit_id = p.deposit_id LEFT JOIN refunds r ON r.refund_id = t.refund_id
        WHERE p.deposit_id = NEW.deposit_id GROUP BY p.refunding, p.refunded) THEN
        RAISE EXCEPTION 'what is refunded of payment % is not what its refunds take', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_parts_summed';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER refund_parts_summed AFTER INSERT ON refund_parts DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refund_parts_follow();
CREATE CONSTRAINT TRIGGER checkout_payments_summed AFTER UPDATE ON checkout_payments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.refunding <> NEW.refunding OR OLD.refunded <> NEW.refunded) EXECUTE FUNCTION refund_parts_follow();

-- A refund has its parts, its postings and its payment. Invariant I-84.
CREATE FUNCTION refunds_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    r      record;
    posted text[] := ARRAY(SELECT cause_kind FROM ledger_transfers WHERE cause_kind IN ('REFUND_HOLD', 'REFUND_RELEASE')
        AND cause_id = NEW.refund_id AND leg = 0);
    broken text;
BEGIN
    SELECT f.status, f.amount, f.attempt, f.withdrawal_id, f.status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT') AS is_open INTO r
    FROM refunds f WHERE f.refund_id = NEW.refund_id;
    broken := CASE
        WHEN r.amount IS DISTINCT FROM (SELECT sum(t.amount) FROM refund_parts t WHERE t.refund_id = NEW.refund_id) THEN 'refunds_parted'
        WHEN EXISTS (
            SELECT FROM refund_parts x WHERE x.refund_id = NEW.refund_id AND (
                SELECT (p.refunding, p.refunded) IS DISTINCT FROM (
                    coalesce(sum(t.amount) FILTER (WHERE f.status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT')), 0),
                    coalesce(sum(t.amount) FILTER (WHERE f.status = 'COMPLETED'), 0))
                FROM checkout_payments p JOIN refund_parts t ON t.deposit_id = p.deposit_id JOIN refunds f ON f.refund_id = t.refund_id
                WHERE p.deposit_id = x.deposit_id GROUP BY p.refunding, p.refunded)) THEN 'refunds_summed'
        WHEN 'REFUND_HOLD' <> ALL (posted) THEN 'refunds_held'
        WHEN 'REFUND_RELEASE' = ANY (posted) <> (r.status IN ('CANCELLED', 'EXPIRED')) THEN 'refunds_released'
        WHEN r.withdrawal_id IS NOT NULL AND (
                SELECT w.refund_id = NEW.refund_id AND w.key_hash = key_digest('refund ' || NEW.refund_id || ':' || r.attempt)
                    AND (r.status = 'SENT' OR w.status = 'COMPLETED')
                FROM withdrawals w WHERE w.withdrawal_id = r.withdrawal_id) IS NOT TRUE THEN 'refunds_paid'
        WHEN r.status IN ('AWAITING_ADDRESS', 'CANCELLED', 'EXPIRED') AND EXISTS (
                SELECT FROM withdrawals w WHERE w.refund_id = NEW.refund_id AND w.status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED'))
            THEN 'refunds_unpaid'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'refund % is %, and other rows say something else', NEW.refund_id, r.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER refunds_begin_whole AFTER INSERT ON refunds DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refunds_follow();
CREATE CONSTRAINT TRIGGER refunds_move_whole AFTER UPDATE ON refunds DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION refunds_follow();

-- The amount of a refund goes from the balance of the product to what is owed to payers, and back if the refund ends
-- without paying.
CREATE FUNCTION ledger_refund_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (r.org_id, r.mint_id, r.amount, d.subject, c.subject) = (NEW.org_id, NEW.mint_id, NEW.amount, 'CHECKOUT', 'CHECKOUT')
            AND CASE NEW.cause_kind
                WHEN 'REFUND_HOLD' THEN r.version = 1 AND (d.kind, c.kind) = ('PRODUCT', 'REFUND_OWED')
                ELSE r.status IN ('CANCELLED', 'EXPIRED') AND (d.kind, c.kind) = ('REFUND_OWED', 'PRODUCT') END
        FROM refunds r, ledger_accounts d, ledger_accounts c
        WHERE r.refund_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_refund';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_refund AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('REFUND_HOLD', 'REFUND_RELEASE')) EXECUTE FUNCTION ledger_refund_follow();

-- A withdrawal that pays a refund pays what its present attempt says. The lock keeps the refund as it is until the
-- withdrawal is committed. One withdrawal of a refund is open or paid (withdrawals_refund_once).
ALTER TABLE withdrawals ADD CONSTRAINT withdrawals_refund FOREIGN KEY (org_id, refund_id) REFERENCES refunds (org_id, refund_id) NOT VALID;
CREATE FUNCTION withdrawals_refund() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM refunds r WHERE r.refund_id = NEW.refund_id AND r.org_id = NEW.org_id AND r.status = 'REQUESTED'
        AND (r.mint_id, r.amount, r.to_address, r.fee_mode) = (NEW.mint_id, NEW.amount, NEW.to_address, NEW.fee_mode)
        AND NEW.key_hash = key_digest('refund ' || r.refund_id || ':' || r.attempt) FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'withdrawal % pays a refund that is not this one', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_refund_requested';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawals_refund AFTER INSERT ON withdrawals
    FOR EACH ROW WHEN (NEW.refund_id IS NOT NULL) EXECUTE FUNCTION withdrawals_refund();
CREATE TRIGGER withdrawals_refund_as_inserted BEFORE UPDATE OF refund_id ON withdrawals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The order of a refund tells the signer which refund its withdrawal pays, and of which checkout. A restored withdrawal
-- may lack its refund.
CREATE FUNCTION dispatch_orders_refund() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT CASE WHEN w.refund_id IS NULL THEN w.restored_at IS NOT NULL
            ELSE NEW.refund = (SELECT jsonb_build_object('refundId', r.refund_id, 'checkoutId', r.checkout_id) FROM refunds r
                WHERE r.refund_id = w.refund_id) END
        FROM withdrawals w WHERE w.withdrawal_id = NEW.order_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % pays a refund that is not that of its withdrawal', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_refund';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_refund AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.refund IS NOT NULL) EXECUTE FUNCTION dispatch_orders_refund();
CREATE TRIGGER dispatch_orders_refund_as_inserted BEFORE UPDATE OF refund ON dispatch_orders
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- +goose StatementEnd
