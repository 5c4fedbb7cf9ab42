-- Why: an organization swaps its own money. Such a swap belongs to a product in place of a customer, may wait
-- for approval before it has an offer, and pays its output to an entry of the whitelist.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE swaps ADD COLUMN kind text NOT NULL DEFAULT 'CUSTOMER', ADD COLUMN product text,
    ADD COLUMN whitelisted_address_id text, ADD COLUMN payout_address text, ADD COLUMN payout_max numeric(78,0),
    ADD COLUMN payout_until timestamptz, ADD COLUMN slippage_bps integer,
    ADD COLUMN approvals_required smallint NOT NULL DEFAULT 0, ADD COLUMN request_mac bytea,
    ADD COLUMN requester_kind text, ADD COLUMN requester_id text COLLATE "C", ADD COLUMN approved_at timestamptz, ADD COLUMN adopted_at timestamptz,
    ADD COLUMN rejected_note text, ADD COLUMN delivered_at timestamptz, ADD COLUMN payout_id text;
ALTER TABLE swaps ALTER COLUMN customer_id DROP NOT NULL, ALTER COLUMN provider DROP NOT NULL,
    ALTER COLUMN deposit_address DROP NOT NULL, ALTER COLUMN pay_by DROP NOT NULL,
    ALTER COLUMN expires_at DROP NOT NULL;
GRANT INSERT (kind, product, whitelisted_address_id, payout_address, payout_max, payout_until, slippage_bps,
    approvals_required, request_mac, requester_kind, requester_id) ON swaps TO coffer_app;

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
            'GAS', 'SUSPENSE'))) NOT VALID;

ALTER TABLE deposits DROP CONSTRAINT deposits_product;
ALTER TABLE deposits ADD CONSTRAINT deposits_product CHECK (
        CASE WHEN purpose IN ('SWAP_DELIVERY', 'SWAP_REFUND') THEN num_nonnulls(customer_id, product) <= 1
            ELSE (purpose = 'ORGANIZATION_DEPOSIT') = (product IS NOT NULL) END
        AND (product IS NULL OR product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT'))) NOT VALID;

ALTER TABLE deposits DROP CONSTRAINT deposits_arrival;
ALTER TABLE deposits ADD CONSTRAINT deposits_arrival CHECK (
        CASE WHEN swap_id IS NULL THEN arrival_role IS NULL AND NOT completes_swap
                AND is_hidden = (deposit_swap_id IS NOT NULL AND customer_id IS NULL)
            WHEN status NOT IN ('CREDITED', 'REVERSED') THEN arrival_role IS NULL AND NOT completes_swap AND is_hidden
            WHEN arrival_role = 'DELIVERY' THEN purpose = 'SWAP_DELIVERY' AND num_nonnulls(customer_id, product) = 1 AND NOT is_hidden
            WHEN arrival_role = 'REFUND' THEN purpose = 'SWAP_REFUND' AND is_hidden AND NOT completes_swap
            WHEN arrival_role = 'STRAY' THEN NOT completes_swap AND (is_hidden OR num_nonnulls(customer_id, product) = 1)
            ELSE false
        END) NOT VALID;

ALTER TABLE dispatch_orders DROP CONSTRAINT dispatch_orders_product;
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_product CHECK (
        product IS NULL AND whitelisted_address_id IS NULL
        OR purpose = 'PAYMENT' AND customer_id IS NULL AND num_nonnulls(product, whitelisted_address_id) = 2
        -- An organization's swap: its payment to the provider goes to no entry of the whitelist.
        OR purpose = 'SWAP' AND customer_id IS NULL AND product IS NOT NULL AND whitelisted_address_id IS NULL) NOT VALID;

ALTER TABLE swaps DROP CONSTRAINT swaps_status_known;
ALTER TABLE swaps ADD CONSTRAINT swaps_status_known CHECK (
        status IN ('PENDING', 'DEPOSITING', 'PROCESSING', 'COMPLETED', 'FAILED', 'AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')) NOT VALID;
ALTER TABLE swaps ADD CONSTRAINT swaps_decided_own CHECK (kind = 'ORGANIZATION' OR status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')) NOT VALID;

ALTER TABLE swaps ADD CONSTRAINT swaps_of_one CHECK (
        CASE kind
            WHEN 'CUSTOMER' THEN customer_id IS NOT NULL
                AND num_nonnulls(product, whitelisted_address_id, payout_address, payout_max, payout_until, slippage_bps, request_mac,
                    requester_kind, requester_id, approved_at, adopted_at, rejected_note, delivered_at, payout_id) = 0 AND approvals_required = 0
            WHEN 'ORGANIZATION' THEN customer_id IS NULL
                AND num_nonnulls(product, whitelisted_address_id, payout_address, payout_max, payout_until, request_mac) = 6
                AND num_nonnulls(slippage_bps, requester_kind, requester_id) = CASE WHEN imported_at IS NULL THEN 3 ELSE 0 END
                AND product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT') AND payout_max >= min_out AND fee_bps = 0
            ELSE false
        END) NOT VALID;

ALTER TABLE swaps ADD CONSTRAINT swaps_approvals_bounded CHECK (approvals_required BETWEEN 0 AND 10) NOT VALID;

ALTER TABLE swaps ADD CONSTRAINT swaps_approved CHECK (
        (status <> 'AWAITING_APPROVAL' OR approvals_required > 0 AND approved_at IS NULL)
        AND (approved_at IS NULL OR approvals_required > 0)
        AND (rejected_note IS NOT NULL) = (status = 'REJECTED') AND length(rejected_note) <= 1000) NOT VALID;

ALTER TABLE swaps ADD CONSTRAINT swaps_offered CHECK (
        num_nonnulls(provider, deposit_address, pay_by, expires_at) = 4
            AND status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')
        OR num_nonnulls(provider, deposit_address, pay_by, expires_at, estimated_seconds, paid_at, origin_tx_hash, amount_out) = 0
            AND kind = 'ORGANIZATION' AND status NOT IN ('DEPOSITING', 'PROCESSING', 'COMPLETED') AND refund_fee = 0) NOT VALID;

ALTER TABLE swaps DROP CONSTRAINT swaps_ended;
ALTER TABLE swaps ADD CONSTRAINT swaps_ended CHECK (
        (status = 'COMPLETED') = (completed_at IS NOT NULL)
        AND CASE WHEN kind = 'CUSTOMER' THEN (status = 'COMPLETED') = (amount_out IS NOT NULL)
            -- The output of an organization's swap is in its product until its payment is final.
            ELSE (amount_out IS NOT NULL) = (delivered_at IS NOT NULL)
                AND (status <> 'COMPLETED' OR num_nonnulls(amount_out, payout_id) = 2)
                AND (payout_id IS NULL OR amount_out IS NOT NULL)
                AND (amount_out IS NULL OR status IN ('PROCESSING', 'COMPLETED') OR failure_reason = 'DESTINATION_UNAVAILABLE') END
        AND (amount_out IS NULL OR num_nonnulls(origin_tx_hash, destination_tx_hash) = 2)
        AND (status = 'FAILED') = (failed_at IS NOT NULL) AND (status = 'FAILED') = (failure_reason IS NOT NULL)) NOT VALID;

ALTER TABLE swaps DROP CONSTRAINT swaps_restored_failed;
ALTER TABLE swaps ADD CONSTRAINT swaps_restored_failed CHECK (
        (restored = 0 AND short = 0) OR amount_out IS NULL AND (status = 'FAILED' OR short = 0 AND status IN ('REJECTED', 'CANCELLED'))) NOT VALID;

CREATE OR REPLACE FUNCTION ledger_accounts_floor() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    NEW.floored := NEW.kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'PRODUCT_IN_SWAP', 'GAS', 'SUSPENSE');
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
                AND (a.org_id, a.address, a.purpose, a.subject) = (p.org_id, p.address, p.purpose, coalesce(p.swap_id, p.deposit_swap_id, p.customer_id, p.product, ''))
                AND (d.kind, d.subject) = ('CUSTODY', '')
                AND CASE WHEN p.swap_id IS NULL
                    THEN (c.kind, c.subject) = (CASE WHEN p.purpose IN ('CUSTOMER_DEPOSIT', 'DEPOSIT_SWAP') THEN 'CUSTOMER' WHEN p.purpose = 'ORGANIZATION_DEPOSIT' THEN 'PRODUCT'
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

CREATE OR REPLACE FUNCTION deposits_final_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.product IS DISTINCT FROM OLD.product
       AND NOT (OLD.product IS NULL AND OLD.swap_id IS NOT NULL AND OLD.status = 'SCREENING' AND NEW.status = 'CREDITED') THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.mint_id, NEW.purpose) IS DISTINCT FROM (OLD.mint_id, OLD.purpose) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION dispatch_orders_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now     text;
    in_step boolean;
BEGIN
    SELECT status INTO now FROM dispatch_orders WHERE order_id = NEW.order_id;
    IF NEW.purpose = 'PAYMENT' THEN
        SELECT withdrawal_in_step(status, end_status, now) INTO in_step FROM withdrawals WHERE withdrawal_id = NEW.order_id;
    ELSIF NEW.purpose = 'SWAP' THEN
        SELECT swap_in_step(CASE WHEN amount_out IS NULL THEN status ELSE 'COMPLETED' END, end_reason, now) INTO in_step
        FROM swaps WHERE swap_id = NEW.order_id;
    ELSE
        SELECT resolution_in_step(decision, status, now) INTO in_step FROM deposit_resolutions WHERE resolution_id = NEW.order_id;
    END IF;
    IF in_step IS NOT TRUE THEN
        RAISE EXCEPTION 'order % is %, and its cause is somewhere else', NEW.order_id, now
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_in_step';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION swaps_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.swap_id, NEW.org_id, NEW.customer_id, NEW.idempotency_key, NEW.key_hash, NEW.request_digest, NEW.metadata, NEW.from_mint_id,
            NEW.to_mint_id, NEW.from_chain, NEW.to_chain, NEW.amount_in, NEW.min_out,
            NEW.delivery_wallet_id, NEW.refund_wallet_id, NEW.usd_value,
            NEW.fee_bps, NEW.fee_amount, NEW.created_at, NEW.imported_at,
            NEW.kind, NEW.product, NEW.whitelisted_address_id, NEW.payout_address, NEW.payout_max, NEW.payout_until, NEW.slippage_bps,
            NEW.approvals_required, NEW.request_mac, NEW.requester_kind, NEW.requester_id)
       IS DISTINCT FROM
       (OLD.swap_id, OLD.org_id, OLD.customer_id, OLD.idempotency_key, OLD.key_hash, OLD.request_digest, OLD.metadata, OLD.from_mint_id,
            OLD.to_mint_id, OLD.from_chain, OLD.to_chain, OLD.amount_in, OLD.min_out,
            OLD.delivery_wallet_id, OLD.refund_wallet_id, OLD.usd_value,
            OLD.fee_bps, OLD.fee_amount, OLD.created_at, OLD.imported_at,
            OLD.kind, OLD.product, OLD.whitelisted_address_id, OLD.payout_address, OLD.payout_max, OLD.payout_until, OLD.slippage_bps,
            OLD.approvals_required, OLD.request_mac, OLD.requester_kind, OLD.requester_id)
       OR (OLD.provider IS NOT NULL OR OLD.status <> 'PENDING' OR NEW.status <> 'PENDING')
          AND (NEW.estimated_out, NEW.provider, NEW.deposit_address, NEW.refund_fee, NEW.pay_by, NEW.expires_at, NEW.estimated_seconds)
            IS DISTINCT FROM
            (OLD.estimated_out, OLD.provider, OLD.deposit_address, OLD.refund_fee, OLD.pay_by, OLD.expires_at, OLD.estimated_seconds) THEN
        RAISE EXCEPTION 'the terms of swap % are fixed', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_terms_fixed';
    END IF;
    IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (('PENDING', 'DEPOSITING'), ('PENDING', 'PROCESSING'), ('PENDING', 'FAILED'),
            ('DEPOSITING', 'PROCESSING'), ('DEPOSITING', 'FAILED'), ('PROCESSING', 'COMPLETED'), ('PROCESSING', 'FAILED'),
            ('AWAITING_APPROVAL', 'PENDING'), ('AWAITING_APPROVAL', 'REJECTED'), ('AWAITING_APPROVAL', 'CANCELLED')) THEN
        RAISE EXCEPTION 'swap % is %', OLD.swap_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_forward';
    END IF;
    IF NEW.refunded < OLD.refunded OR NEW.restored < OLD.restored OR NEW.short < OLD.short
       OR NEW.restore_count NOT IN (OLD.restore_count, OLD.restore_count + 1) OR (NEW.restored = OLD.restored) <> (NEW.restore_count = OLD.restore_count)
       OR NEW.short_count NOT IN (OLD.short_count, OLD.short_count + 1) OR (NEW.short = OLD.short) <> (NEW.short_count = OLD.short_count)
       OR NEW.restored = OLD.restored AND NEW.restored_at IS DISTINCT FROM OLD.restored_at THEN
        RAISE EXCEPTION 'the numbers of swap % only grow', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_numbers_forward';
    END IF;
    IF OLD.paid_at IS NOT NULL AND NEW.paid_at IS DISTINCT FROM OLD.paid_at
       OR OLD.delayed_at IS NOT NULL AND NEW.delayed_at IS DISTINCT FROM OLD.delayed_at
       OR OLD.end_reason IS NOT NULL AND NEW.end_reason IS DISTINCT FROM OLD.end_reason
       OR OLD.amount_out IS NOT NULL AND (NEW.amount_out, NEW.destination_tx_hash, NEW.delivered_at, NEW.refunded)
            IS DISTINCT FROM (OLD.amount_out, OLD.destination_tx_hash, OLD.delivered_at, OLD.refunded)
       OR (NEW.approved_at IS DISTINCT FROM OLD.approved_at OR NEW.rejected_note IS DISTINCT FROM OLD.rejected_note)
            AND OLD.status <> 'AWAITING_APPROVAL'
       OR (NEW.approved_at IS NOT NULL) < (OLD.status = 'AWAITING_APPROVAL' AND NEW.status = 'PENDING')
       OR NEW.adopted_at IS DISTINCT FROM OLD.adopted_at AND (OLD.provider IS NOT NULL OR NEW.provider IS NULL)
       OR NEW.payout_id IS DISTINCT FROM OLD.payout_id AND (OLD.payout_id IS NOT NULL OR OLD.status <> 'PROCESSING')
       OR OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED') AND (NEW.amount_out, NEW.destination_tx_hash, NEW.delivered_at, NEW.completed_at, NEW.failed_at, NEW.failure_reason, NEW.failure_message, NEW.end_reason)
            IS DISTINCT FROM (OLD.amount_out, OLD.destination_tx_hash, OLD.delivered_at, OLD.completed_at, OLD.failed_at, OLD.failure_reason, OLD.failure_message, OLD.end_reason)
       OR OLD.status IN ('REJECTED', 'CANCELLED') AND (NEW.refunded, NEW.look_at) IS DISTINCT FROM (OLD.refunded, OLD.look_at) THEN
        RAISE EXCEPTION 'what became of swap % is written once', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_written_once';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION swaps_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NEW.status <> (CASE WHEN NEW.approvals_required > 0 THEN 'AWAITING_APPROVAL' ELSE 'PENDING' END) AND NEW.imported_at IS NULL
       OR NEW.status = 'PENDING' AND NEW.provider IS NULL
       OR NEW.refunded <> 0 OR num_nonnulls(NEW.end_reason, NEW.paid_at, NEW.completed_at, NEW.failed_at, NEW.payout_id) <> 0
       OR NEW.approved_at IS NOT NULL AND NEW.imported_at IS NULL THEN
        RAISE EXCEPTION 'swap % begins with an outcome', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_begin';
    END IF;
    -- The wallets are those of this swap.
    IF (SELECT (w.purpose, w.subject) = ('SWAP_DELIVERY', NEW.swap_id COLLATE "C") FROM wallets w WHERE w.wallet_id = NEW.delivery_wallet_id) IS NOT TRUE
       OR (SELECT (w.purpose, w.subject) = ('SWAP_REFUND', NEW.swap_id COLLATE "C") FROM wallets w WHERE w.wallet_id = NEW.refund_wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % has wallets of another one', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_own_wallets';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION fee_lines_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT s.kind = 'CUSTOMER' AND (s.org_id, s.from_mint_id, s.fee_amount, s.fee_bps, s.completed_at) = (NEW.org_id, NEW.mint_id, NEW.amount, NEW.fee_bps, NEW.incurred_at)
        FROM swaps s WHERE s.swap_id = NEW.source_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'fee line % is of no completed swap', NEW.fee_line_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'fee_lines_of_swap';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION swaps_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now record;
BEGIN
    SELECT s.status, o.status AS order_status,
        CASE WHEN s.provider IS NULL THEN o.order_id IS NULL
            ELSE swap_in_step(CASE WHEN s.amount_out IS NULL THEN s.status ELSE 'COMPLETED' END, s.end_reason, o.status) END AS in_step,
        s.provider IS NULL OR (o.org_id, o.purpose, o.chain, o.mint_id, o.amount, o.to_address, coalesce(o.customer_id, o.product), o.pay_by)
            = (s.org_id, 'SWAP', s.from_chain, s.from_mint_id, s.amount_in, s.deposit_address, coalesce(s.customer_id, s.product), s.pay_by)
            AND (o.product IS NULL) = (s.product IS NULL) AS same
    INTO now FROM swaps s LEFT JOIN dispatch_orders o ON o.order_id = s.swap_id WHERE s.swap_id = NEW.swap_id;
    IF now.same IS NOT TRUE OR now.in_step IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % is %, its order % or of another payment', NEW.swap_id, now.status, coalesce(now.order_status, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_as_ordered';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION swaps_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    s      record;
    posted text[] := ARRAY(SELECT cause_kind FROM ledger_transfers WHERE cause_id = NEW.swap_id COLLATE "C" AND leg = 0
        AND cause_kind IN ('SWAP_HOLD', 'SWAP_PAID', 'SWAP_END', 'SWAP_FEE'));
    broken text;
BEGIN
    SELECT swap_id, status, paid_at, fee_amount, restored, restore_count, short, short_count, amount_out IS NOT NULL AS delivered,
        status = 'COMPLETED' AND kind = 'CUSTOMER' AS billed,
        -- What was never offered to a provider is whole again when it ends.
        provider IS NULL AND restored <> CASE WHEN status IN ('AWAITING_APPROVAL', 'PENDING') THEN 0 ELSE amount_in END AS kept
    INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    broken := CASE
        WHEN 'SWAP_HOLD' <> ALL (posted) THEN 'swaps_held'
        WHEN s.kept THEN 'swaps_released'
        WHEN 'SWAP_PAID' = ANY (posted) <> (s.paid_at IS NOT NULL) THEN 'swaps_paid'
        WHEN 'SWAP_END' = ANY (posted) <> s.delivered THEN 'swaps_settled'
        WHEN 'SWAP_FEE' = ANY (posted) <> (s.billed AND s.fee_amount > 0) THEN 'swaps_fee_posted'
        WHEN s.billed <> EXISTS (SELECT FROM fee_lines WHERE source_kind = 'SWAP' AND source_id = s.swap_id) THEN 'swaps_billed'
        WHEN s.restored <> (SELECT coalesce(sum(t.amount), 0) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_RESTORE'
            AND t.cause_id = ANY (ARRAY(SELECT (s.swap_id || '/' || n) COLLATE "C" FROM generate_series(1, s.restore_count) n))) THEN 'swaps_restored'
        WHEN s.short <> (SELECT coalesce(sum(t.amount), 0) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_SHORT'
            AND t.cause_id = ANY (ARRAY(SELECT (s.swap_id || '/' || n) COLLATE "C" FROM generate_series(1, s.short_count) n))) THEN 'swaps_short'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'swap % is %, and the books say something else', NEW.swap_id, s.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION swaps_refunds() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    s       record;
    arrived numeric;
    unpaid  boolean;
BEGIN
    SELECT swap_id, status, refunded, amount_in, provider INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    SELECT coalesce(sum(d.amount), 0) INTO arrived FROM deposits d
    WHERE d.swap_id = s.swap_id AND d.arrival_role = 'REFUND' AND d.status IN ('CREDITED', 'REVERSED');
    unpaid := s.status IN ('FAILED', 'REJECTED', 'CANCELLED') AND (s.provider IS NULL OR EXISTS (
        SELECT FROM dispatch_orders o WHERE o.order_id = s.swap_id AND o.status IN ('FAILED', 'WITHDRAWN')));
    IF s.refunded <> arrived AND NOT (unpaid AND s.refunded = s.amount_in AND arrived = 0) THEN
        RAISE EXCEPTION 'swap % counts % as refunded, and % arrived', s.swap_id, s.refunded, arrived
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_refunds';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION ledger_swap_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (s.org_id, s.from_mint_id, NEW.leg) = (NEW.org_id, NEW.mint_id, 0) AND CASE NEW.cause_kind
            WHEN 'SWAP_HOLD' THEN NEW.amount = s.amount_in AND (d.kind, d.subject, c.kind, c.subject) = (o.free, o.subject, o.held, o.subject)
            WHEN 'SWAP_PAID' THEN NEW.amount = s.amount_in AND s.paid_at IS NOT NULL AND (d.kind, d.subject, c.kind, c.subject) = ('AT_PROVIDER', s.provider, 'CUSTODY', '')
                AND EXISTS (SELECT FROM dispatch_orders o WHERE o.order_id = s.swap_id AND o.status = 'PAID')
            WHEN 'SWAP_END' THEN NEW.amount = s.amount_in AND s.amount_out IS NOT NULL AND (d.kind, d.subject, c.kind, c.subject) = (o.held, o.subject, 'AT_PROVIDER', s.provider)
            WHEN 'SWAP_FEE' THEN NEW.amount = s.fee_amount AND s.status = 'COMPLETED' AND s.kind = 'CUSTOMER' AND (d.kind, c.kind) = ('SWAP_FEES_DUE', 'SWAP_FEES_BILLED')
            WHEN 'SWAP_RESTORE' THEN s.restore_count > 0 AND NEW.cause_id = (s.swap_id || '/' || s.restore_count) COLLATE "C" AND s.status IN ('FAILED', 'REJECTED', 'CANCELLED')
                AND NEW.amount = s.restored - (SELECT coalesce(sum(t.amount), 0) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_RESTORE'
                    AND t.cause_id = ANY (ARRAY(SELECT (s.swap_id || '/' || n) COLLATE "C" FROM generate_series(1, s.restore_count - 1) n)))
                AND (d.kind, d.subject, c.kind, c.subject) = (o.held, o.subject, o.free, o.subject)
            WHEN 'SWAP_SHORT' THEN s.short_count > 0 AND NEW.cause_id = (s.swap_id || '/' || s.short_count) COLLATE "C" AND s.status = 'FAILED'
                AND NEW.amount = s.short - (SELECT coalesce(sum(t.amount), 0) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_SHORT'
                    AND t.cause_id = ANY (ARRAY(SELECT (s.swap_id || '/' || n) COLLATE "C" FROM generate_series(1, s.short_count - 1) n)))
                AND (d.kind, d.subject, c.kind, c.subject) = (o.held, o.subject, 'AT_PROVIDER', s.provider)
            END
        FROM swaps s, ledger_accounts d, ledger_accounts c, LATERAL (SELECT coalesce(s.customer_id, s.product) AS subject,
            CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END AS free,
            CASE WHEN s.product IS NULL THEN 'IN_SWAP' ELSE 'PRODUCT_IN_SWAP' END AS held) o
        WHERE s.swap_id = split_part(NEW.cause_id, '/', 1) COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_swap';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION ledger_arrival_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (p.org_id, p.mint_id, p.amount) = (NEW.org_id, NEW.mint_id, NEW.amount) AND p.status = 'CREDITED' AND p.arrival_role = 'STRAY'
            AND a.decision = 'CREDITED' AND (d.kind, d.subject, c.kind, c.subject)
                = ('SUSPENSE', '', CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(s.customer_id, s.product))
        FROM deposits p, swap_arrivals a, swaps s, ledger_accounts d, ledger_accounts c
        WHERE p.deposit_id = NEW.cause_id COLLATE "default" AND a.deposit_id = p.deposit_id AND s.swap_id = p.swap_id
            AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_arrival';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION deposits_of_swap() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    p  record;
    ok boolean;
BEGIN
    SELECT d.deposit_id, d.swap_id, d.arrival_role, d.completes_swap, d.customer_id, d.product, d.mint_id, d.wallet_id INTO p
    FROM deposits d WHERE d.deposit_id = NEW.deposit_id;
    SELECT a.role = p.arrival_role AND CASE p.arrival_role
            WHEN 'DELIVERY' THEN (s.to_mint_id, s.delivery_wallet_id) = (p.mint_id, p.wallet_id) AND s.amount_out IS NOT NULL
                AND (s.customer_id, s.product) IS NOT DISTINCT FROM (p.customer_id, p.product)
            WHEN 'REFUND' THEN (s.from_mint_id, s.refund_wallet_id) = (p.mint_id, p.wallet_id)
            -- A stray of no swap keeps no owner, also when its swap is made later.
            ELSE (s.customer_id, s.product) IS NOT DISTINCT FROM (p.customer_id, p.product)
                OR a.reason = 'NO_SWAP' AND num_nonnulls(p.customer_id, p.product) = 0 END
    INTO ok FROM swap_arrivals a LEFT JOIN swaps s ON s.swap_id = a.swap_id
    WHERE a.deposit_id = p.deposit_id AND a.swap_id = p.swap_id;
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION 'deposit % is not what swap % takes it for', p.deposit_id, p.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_of_swap';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION swaps_delivered() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (count(*) FILTER (WHERE d.completes_swap), coalesce(sum(d.amount), 0)) = (1::bigint, NEW.amount_out)
        FROM deposits d WHERE d.swap_id = NEW.swap_id AND d.arrival_role = 'DELIVERY') IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % is delivered with other amounts than arrived', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_delivered';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION dispatch_orders_of_swap() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (s.org_id, s.from_chain, s.from_mint_id, s.amount_in, s.deposit_address, s.pay_by)
            = (NEW.org_id, NEW.chain, NEW.mint_id, NEW.amount, NEW.to_address, NEW.pay_by)
            AND (s.customer_id, s.product) IS NOT DISTINCT FROM (NEW.customer_id, NEW.product)
        FROM swaps s WHERE s.swap_id = NEW.order_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % pays for no swap', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_of_swap';
    END IF;
    RETURN NULL;
END $$;

-- Each approval is a row of its own by another person, bound to the swap and to the payment of its output.
CREATE TABLE swap_approvals (
    org_id        text NOT NULL,
    swap_id       text NOT NULL,
    approver_kind text NOT NULL,
    approver_id   text COLLATE "C" NOT NULL,
    at            timestamptz NOT NULL,
    digest        text NOT NULL,  -- hex SHA-256 of what was approved
    mac           bytea NOT NULL, -- of the digest and the person, by the server's key
    -- A person counts once.
    CONSTRAINT swap_approvals_pkey PRIMARY KEY (swap_id, approver_kind, approver_id),
    CONSTRAINT swap_approvals_swap FOREIGN KEY (org_id, swap_id) REFERENCES swaps (org_id, swap_id),
    CONSTRAINT swap_approvals_by_people CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> '')
);
SELECT coffer_tenant('swap_approvals', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER swap_approvals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON swap_approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An approval is of a swap that waits for it, and not by the person who requested it.
CREATE FUNCTION swap_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    s record;
BEGIN
    SELECT status, requester_kind, requester_id INTO s FROM swaps WHERE org_id = NEW.org_id AND swap_id = NEW.swap_id;
    IF (s.status = 'AWAITING_APPROVAL') IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % does not wait for this approval', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_waited_for';
    END IF;
    IF (s.requester_kind, s.requester_id) = (NEW.approver_kind, NEW.approver_id) THEN
        RAISE EXCEPTION 'swap % was asked for by the same person', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_not_by_maker';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER swap_approvals_fit BEFORE INSERT ON swap_approvals FOR EACH ROW EXECUTE FUNCTION swap_approvals_fit();

-- A swap that waited is let go with enough approvals. The signer's journal has none of those that it checked:
-- a swap that a restore let go needs none here, and its payout waits for people.
CREATE FUNCTION swaps_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    n bigint;
    s record;
BEGIN
    SELECT approvals_required, num_nonnulls(imported_at, adopted_at) > 0 AS restored INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    SELECT count(*) INTO n FROM swap_approvals a WHERE a.swap_id = NEW.swap_id;
    IF NOT s.restored AND n < s.approvals_required THEN
        RAISE EXCEPTION 'swap % has % approvals and needs %', NEW.swap_id, n, s.approvals_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_approved_by_enough';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_quorum AFTER INSERT OR UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.approvals_required > 0 AND NEW.status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED'))
    EXECUTE FUNCTION swaps_quorum();

-- The payout of a swap is the withdrawal of its output to its entry, with the key that follows from the swap.
CREATE FUNCTION swaps_pay_out() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.org_id, w.product, w.mint_id, w.whitelisted_address_id, w.key_hash)
            = (NEW.org_id, NEW.product, NEW.to_mint_id, NEW.whitelisted_address_id, key_digest('swap ' || NEW.swap_id))
            AND w.amount = NEW.amount_out AND (NEW.status <> 'COMPLETED' OR w.status = 'COMPLETED')
        FROM withdrawals w WHERE w.withdrawal_id = NEW.payout_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % does not pay the output of swap %', NEW.payout_id, NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_paid_out';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_paid_out AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.payout_id IS NOT NULL AND (OLD.payout_id IS NULL OR OLD.status <> NEW.status))
    EXECUTE FUNCTION swaps_pay_out();

DROP TRIGGER swaps_void_first ON swaps;
CREATE TRIGGER swaps_void_first BEFORE UPDATE ON swaps
    FOR EACH ROW WHEN (NEW.status = 'FAILED' AND OLD.status <> 'FAILED' AND NEW.amount_out IS NULL) EXECUTE FUNCTION swaps_void_first();
DROP TRIGGER swaps_ordered_move ON swaps;
CREATE CONSTRAINT TRIGGER swaps_ordered_move AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status OR OLD.provider IS DISTINCT FROM NEW.provider) EXECUTE FUNCTION swaps_follow();
DROP TRIGGER swaps_booked_move ON swaps;
CREATE CONSTRAINT TRIGGER swaps_booked_move AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.status, OLD.paid_at, OLD.restored, OLD.short, OLD.amount_out)
        IS DISTINCT FROM (NEW.status, NEW.paid_at, NEW.restored, NEW.short, NEW.amount_out))
    EXECUTE FUNCTION swaps_book();
DROP TRIGGER swaps_delivered ON swaps;
CREATE CONSTRAINT TRIGGER swaps_delivered AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.amount_out IS NOT NULL AND OLD.amount_out IS NULL) EXECUTE FUNCTION swaps_delivered();
-- +goose StatementEnd
