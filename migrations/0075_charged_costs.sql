-- Why: an organization can have its customers pay what their withdrawals cost it beside the
-- usual fee: the rent of an account that is made for the payee, and the network fee of a
-- payment that failed because of its payee. See decision 0074.
--
-- A withdrawal keeps the setting and the prices that were in force when it was requested, so
-- what was shown is what is charged. The rent is held beside the amount. What is charged is
-- taken from what is held, before the rest of it is given back, so no balance falls below
-- zero; and it is computed here as well, from the order and those prices.
-- +goose Up

ALTER TABLE organization_settings ADD COLUMN charge_customer_costs text NOT NULL DEFAULT 'NONE';
ALTER TABLE organization_settings ADD CONSTRAINT organization_settings_charge_known
    CHECK (charge_customer_costs IN ('NONE', 'RENT', 'RENT_AND_FAILURES')) NOT VALID;

-- What a payment cost beside the fee, and whether the chain refused it because of its payee:
-- by the outcome that ended the order. Zero and false while it is open, or where nobody knows.
ALTER TABLE dispatch_orders
    ADD COLUMN rent numeric(78,0) NOT NULL DEFAULT 0,
    ADD COLUMN payee_failed boolean NOT NULL DEFAULT false;
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_costs_of_payment CHECK (
    (rent = 0 OR rent > 0 AND purpose = 'PAYMENT') AND (NOT payee_failed OR purpose = 'PAYMENT' AND status = 'FAILED')) NOT VALID;

ALTER TABLE withdrawals
    ADD COLUMN charge_costs text NOT NULL DEFAULT 'NONE',          -- the setting when it was requested
    ADD COLUMN charge_rent numeric(78,0) NOT NULL DEFAULT 0,       -- the most rent that is charged, in native units
    ADD COLUMN charge_held numeric(78,0) NOT NULL DEFAULT 0,       -- the same in units of the mint: held beside the amount
    ADD COLUMN charge_failure_max numeric(78,0),                   -- the most that a failed payment is charged, in units of the mint; NULL: nothing
    ADD COLUMN charge_coin_price numeric(38,18),                   -- dollars for one whole native coin by which it is charged; NULL: not needed
    ADD COLUMN charge_mint_price numeric(38,18),                   -- the same of the mint
    ADD COLUMN charge_cost numeric(78,0) NOT NULL DEFAULT 0,       -- what was charged for, in native units
    ADD COLUMN charged numeric(78,0) NOT NULL DEFAULT 0;           -- what was charged, in units of the mint
ALTER TABLE withdrawals
    ADD CONSTRAINT withdrawals_charge_known CHECK (charge_costs IN ('NONE', 'RENT', 'RENT_AND_FAILURES')) NOT VALID,
    ADD CONSTRAINT withdrawals_charge_bounded CHECK (
        charge_rent >= 0 AND charge_held >= 0 AND (charge_held = 0) = (charge_rent = 0)
        AND charge_failure_max BETWEEN 0 AND amount + charge_held
        AND (charge_coin_price IS NULL) = (charge_mint_price IS NULL) AND charge_coin_price > 0 AND charge_mint_price > 0
        AND charged BETWEEN 0 AND CASE status WHEN 'COMPLETED' THEN charge_held WHEN 'FAILED' THEN coalesce(charge_failure_max, 0) ELSE 0 END
        AND (charged = 0) = (charge_cost = 0) AND charge_cost >= 0) NOT VALID,
    ADD CONSTRAINT withdrawals_charge_of_customer CHECK (
        charge_costs = 'RENT_AND_FAILURES' AND product IS NULL
        OR charge_failure_max IS NULL AND (charge_costs = 'RENT' AND product IS NULL OR charge_costs = 'NONE' AND charge_rent = 0)) NOT VALID,
    ADD CONSTRAINT withdrawals_charge_of_blocked CHECK (status <> 'BLOCKED' OR charge_rent = 0 AND charge_failure_max IS NULL) NOT VALID;

-- What a cost in native coin is in units of a mint, at the prices of a withdrawal: rounded up.
-- +goose StatementBegin
CREATE FUNCTION withdrawal_charge(w withdrawals, cost numeric) RETURNS numeric LANGUAGE plpgsql STABLE
    SET search_path = public, pg_temp AS $$
DECLARE
    token  integer;
    coin   integer;
    native boolean;
    worth  numeric;
    unit   numeric;
BEGIN
    SELECT decimals, kind = 'NATIVE' INTO token, native FROM mints WHERE mint_id = w.mint_id;
    IF native OR cost = 0 THEN
        RETURN cost;
    END IF;
    SELECT decimals INTO coin FROM mints WHERE chain = w.chain AND kind = 'NATIVE';
    -- Whole numbers: a division of numerics would round.
    worth := cost * trunc(w.charge_coin_price * 1000000000000000000::numeric) * ('1e' || token)::numeric;
    unit := trunc(w.charge_mint_price * 1000000000000000000::numeric) * ('1e' || coin)::numeric;
    RETURN div(worth + unit - 1, unit);
END $$;

-- What a withdrawal may be charged is written once; what it was, when it ends, and by what
-- its order cost. A charge that is not that is none of ours.
CREATE FUNCTION withdrawals_charge_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp AS $$
DECLARE
    o    record;
    cost numeric := 0;
    due  numeric := 0;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.charge_held IS DISTINCT FROM withdrawal_charge(NEW, NEW.charge_rent) OR NEW.charged <> 0 THEN
            RAISE EXCEPTION 'withdrawal % holds % for a rent of %', NEW.withdrawal_id, NEW.charge_held, NEW.charge_rent
                USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_charge_held';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.charge_costs, NEW.charge_rent, NEW.charge_held, NEW.charge_failure_max, NEW.charge_coin_price, NEW.charge_mint_price)
       IS DISTINCT FROM (OLD.charge_costs, OLD.charge_rent, OLD.charge_held, OLD.charge_failure_max, OLD.charge_coin_price, OLD.charge_mint_price)
       OR NEW.status = OLD.status AND (NEW.charged, NEW.charge_cost) IS DISTINCT FROM (OLD.charged, OLD.charge_cost) THEN
        RAISE EXCEPTION 'what withdrawal % is charged is written once', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_charge_fixed';
    END IF;
    IF NEW.status <> OLD.status THEN
        SELECT rent, fee, payee_failed INTO o FROM dispatch_orders WHERE order_id = NEW.withdrawal_id;
        IF NEW.status = 'COMPLETED' THEN
            cost := coalesce(o.rent, 0);
            due := CASE WHEN NEW.charge_held = 0 THEN 0 ELSE least(NEW.charge_held, withdrawal_charge(NEW, cost)) END;
        ELSIF NEW.status = 'FAILED' AND o.payee_failed THEN
            cost := coalesce(o.fee, 0);
            due := CASE WHEN coalesce(NEW.charge_failure_max, 0) = 0 THEN 0 ELSE least(NEW.charge_failure_max, withdrawal_charge(NEW, cost)) END;
        END IF;
        IF (NEW.charged, NEW.charge_cost) IS DISTINCT FROM (due, CASE WHEN due = 0 THEN 0 ELSE cost END) THEN
            RAISE EXCEPTION 'withdrawal % is charged % for a cost of %, and its order says %', NEW.withdrawal_id, NEW.charged, NEW.charge_cost, cost
                USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_charged';
        END IF;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER withdrawals_charge_begin BEFORE INSERT ON withdrawals
    FOR EACH ROW WHEN (NEW.charge_costs <> 'NONE') EXECUTE FUNCTION withdrawals_charge_keep();
CREATE TRIGGER withdrawals_charge_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW WHEN (NEW.charge_costs <> 'NONE' OR OLD.charge_costs <> 'NONE') EXECUTE FUNCTION withdrawals_charge_keep();

-- A charge is posted once, and so is what was held for the rent and was not charged of a
-- withdrawal that was paid.
ALTER TABLE ledger_transfers
    DROP CONSTRAINT ledger_transfers_cause_known,
    ADD CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE', 'DEPOSIT_REVERSAL', 'WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN',
         'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_FEE', 'FEE_PREPAID', 'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER')) NOT VALID;
-- +goose StatementBegin
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
-- +goose StatementEnd
CREATE TRIGGER ledger_transfers_of_charge AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN')) EXECUTE FUNCTION ledger_withdrawal_charge_follow();

-- The two functions are as they were but for this: a hold is of the amount and of what is
-- held for the rent, and what gives it back leaves out what was charged. One of which all
-- was charged has nothing to give back.
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
                AND (d.subject, c.subject) = (coalesce(w.product, w.customer_id), coalesce(w.product, w.customer_id))
                AND CASE WHEN t.cause_id = w.withdrawal_id THEN (d.kind, c.kind, w.takings) = (CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END,
                        CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, 0)
                    ELSE (d.kind, c.kind, t.cause_id) = (CASE WHEN w.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
                        CASE WHEN w.product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END, w.withdrawal_id || '/' || w.takings) END
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

CREATE OR REPLACE FUNCTION withdrawals_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    id       text;
    now      text;
    debt     numeric;
    taken    integer;
    restored boolean;
    held     boolean;
    ending   boolean;
    ended    boolean;
    charge   numeric;
    back     numeric; -- what a hold gives back that nothing was paid of
    rest     numeric; -- what was held for the rent of a payment that was made, and not charged
    sent     text;
    broken   text;
BEGIN
    SELECT w.withdrawal_id, w.status, w.owed, w.takings, w.restored_at IS NOT NULL, w.ends_as IS NOT NULL, o.status,
        w.charged, w.amount + w.charge_held - w.charged, CASE WHEN w.status = 'COMPLETED' THEN w.charge_held - w.charged ELSE 0 END,
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = NEW.withdrawal_id AND leg = 0),
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = NEW.withdrawal_id AND leg = 0)
    INTO id, now, debt, taken, restored, ending, sent, charge, back, rest, held, ended
    FROM withdrawals w LEFT JOIN dispatch_orders o ON o.order_id = NEW.withdrawal_id
    WHERE w.withdrawal_id = NEW.withdrawal_id;
    IF held = (now = 'BLOCKED') THEN
        broken := 'withdrawals_held';
    ELSIF ended <> (now = 'COMPLETED' OR now IN ('FAILED', 'REJECTED', 'CANCELLED') AND back > 0) THEN
        broken := 'withdrawals_ended';
    ELSIF charge > 0 AND NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_CHARGE' AND cause_id = NEW.withdrawal_id AND leg = 0)
        OR rest > 0 AND NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_CHARGE_RETURN' AND cause_id = NEW.withdrawal_id AND leg = 0) THEN
        broken := 'withdrawals_charge_posted';
    ELSIF NOT (CASE now
            WHEN 'AWAITING_APPROVAL' THEN coalesce(sent, 'REFUSED') IN ('REFUSED', 'WITHDRAWN')
            WHEN 'REJECTED' THEN coalesce(sent, 'WITHDRAWN') = 'WITHDRAWN'
            WHEN 'CANCELLED' THEN coalesce(sent, 'WITHDRAWN') = 'WITHDRAWN'
            WHEN 'BLOCKED' THEN sent IS NULL
            WHEN 'PROCESSING' THEN coalesce(sent, '') IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') OR sent = 'WITHDRAWN' AND ending
            WHEN 'BROADCAST' THEN coalesce(sent, '') IN ('BROADCAST', 'STUCK')
            WHEN 'COMPLETED' THEN coalesce(sent, 'PAID') = 'PAID'
            ELSE coalesce(sent, '') = 'FAILED' END) THEN
        broken := 'withdrawals_as_ordered';
    ELSIF restored AND debt <> (
            SELECT coalesce(sum(CASE WHEN t.cause_id = id THEN t.amount ELSE -t.amount END), 0) FROM ledger_transfers t
            WHERE t.cause_kind = 'RESTORE' AND t.cause_id = ANY (ARRAY[id] || ARRAY(SELECT id || '/' || n FROM generate_series(1, taken) n))) THEN
        broken := 'withdrawals_owed_posted';
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'withdrawal % is %, its order %, and the books say something else', id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
