-- Withdrawals: payments that customers and organizations request.
--
-- A withdrawal holds its amount in the books, waits for approvals where it needs them, has one
-- dispatch order with its own id, and ends together with that order. A destination that
-- screening refuses leaves a BLOCKED row that holds nothing.

-- What identifies an idempotency key of which only the hash is known. It is declared
-- immutable, which it is for the one encoding of our databases.
CREATE FUNCTION key_digest(key text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN encode(sha256(convert_to(key, 'UTF8')), 'hex');

-- What a payment pays, to whom, from whose balance and for which fee. A withdrawal and its order
-- compute it from their own columns, and a key compares the two (dispatch_orders_as_accepted). It
-- is immutable for the same reason.
CREATE FUNCTION payment_terms(
    org_id text, chain text, mint_id integer, amount numeric, to_address text, customer_id text, product text,
    whitelisted_address_id text, fee_deducted numeric, fee_max numeric) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(ROW (org_id, chain, mint_id, amount, to_address, customer_id, product, whitelisted_address_id,
    fee_deducted, fee_max)::text, 'UTF8'));

CREATE TABLE withdrawals (
    withdrawal_id          text PRIMARY KEY,
    org_id                 text NOT NULL REFERENCES organizations,
    customer_id            text COLLATE "C",
    mint_id                integer NOT NULL REFERENCES mints,
    chain                  text NOT NULL,
    amount                 numeric(78,0) NOT NULL,
    to_address             text NOT NULL,
    idempotency_key        text COLLATE "C",
    request_digest         bytea NOT NULL,
    reference              text,
    metadata               jsonb NOT NULL DEFAULT '{}',
    status                 text NOT NULL,
    chain_status           text NOT NULL DEFAULT 'NONE',
    requires_approval      boolean NOT NULL,
    approval_reasons       text[] NOT NULL,
    decision               jsonb,          -- NULL: withdrawal_decisions has it
    usd_value              numeric(38,18),
    network_fee            numeric(78,0),
    tx_hash                text,
    replaced_tx_hashes     text[] NOT NULL DEFAULT '{}',
    failure_reason         text,
    rejected_reason        text,
    created_at             timestamptz NOT NULL,
    approved_at            timestamptz,
    broadcast_at           timestamptz,
    completed_at           timestamptz,
    -- The beginning and end of the destination. A column of its own, because row level
    -- security keeps an index on a function unused.
    to_prefix_suffix       text NOT NULL GENERATED ALWAYS AS (address_prefix_suffix(to_address)) STORED,

    -- Of rows that a restore made from the signer's journal (decision 0015). The journal
    -- knows the hash of a key and not the key, and the restored books may lack the funds.
    restored_at            timestamptz,
    restored_key_hash      text,
    owed                   numeric(78,0) NOT NULL DEFAULT 0, -- part of the hold: still to be taken from the customer
    collections            integer NOT NULL DEFAULT 0,       -- how often a part of it was taken
    key_hash               text GENERATED ALWAYS AS (coalesce(restored_key_hash, key_digest(idempotency_key))) STORED,

    -- The network fee of a coin's payment (decision 0025). fee_deducted is the part that
    -- the customer pays: decided with the order, before anything is signed. The order pays
    -- that much less.
    fee_mode               text NOT NULL DEFAULT 'ORGANIZATION',
    fee_deducted           numeric(78,0),
    max_network_fee        numeric(78,0),  -- the most that the network may take; NULL: no limit
    travel_rule            jsonb,

    screening              jsonb,          -- what the API shows; withdrawal_decisions has the whole
    approvals_required     smallint NOT NULL DEFAULT 0, -- the organization's quorum when it was held; 0: it never was
    approval_round         smallint NOT NULL DEFAULT 0, -- how often it was sent back to the approvers
    request_mac            bytea,          -- of its terms, by the server's key

    -- Of an organization's own withdrawal (decision 0043).
    product                text,           -- the product whose balance pays, in place of a customer's
    whitelisted_address_id text,           -- the entry that to_address was read from

    -- What the network was expected to take (decision 0074).
    cost_max               numeric(78,0),  -- at most, when it was requested, in native units; NULL: unknown
    cost_rent              numeric(78,0),  -- the part of it that stays in an account created for the payee
    cost_price             numeric(38,18), -- dollars for one whole native coin when it was released; NULL: unknown

    -- How the withdrawal ends, and who decided so, while the signer has not voided it yet
    -- (decision 0075).
    end_status             text,
    end_note               text,
    end_actor_kind         text,
    end_actor              text,

    -- What the customer is charged for costs above the usual fee (decision 0074). The
    -- terms are those at the time of the request, so what was shown is what is charged.
    charge_costs           text NOT NULL DEFAULT 'NONE',    -- the organization's setting
    charge_rent            numeric(78,0) NOT NULL DEFAULT 0, -- the most rent that is charged, in native units
    charge_held            numeric(78,0) NOT NULL DEFAULT 0, -- the same in units of the mint: held as well
    charge_failure_max     numeric(78,0),                    -- the most that is charged for a failed payment
    charge_coin_price      numeric(38,18),                   -- dollars for one whole native coin; NULL: not needed
    charge_mint_price      numeric(38,18),                   -- the same of the mint
    charge_cost            numeric(78,0) NOT NULL DEFAULT 0, -- the cost that was charged for, in native units
    charged                numeric(78,0) NOT NULL DEFAULT 0, -- what was charged, in units of the mint

    terms                  bytea NOT NULL GENERATED ALWAYS AS (payment_terms(org_id, chain, mint_id, amount, to_address,
        customer_id, product, whitelisted_address_id, coalesce(fee_deducted, 0), max_network_fee)) STORED,

    refund_id              text,           -- the refund of a checkout that it pays, in place of an entry
    batch_id               text,           -- the batch of which it pays a row, in place of an entry
    batch_row              integer,
    made_by                text,           -- who asked for an organization's own payment while a rule held: kind and id

    -- Keys that other tables refer to.
    CONSTRAINT withdrawals_of_org UNIQUE (org_id, withdrawal_id),
    CONSTRAINT withdrawals_of_terms UNIQUE (withdrawal_id, terms),
    -- Idempotency keys of calls that move money never expire. A key, or its hash where a
    -- restore knows no more, has one withdrawal. Rule IDEM-1.
    CONSTRAINT withdrawals_idempotency_key_unique UNIQUE (org_id, idempotency_key),
    CONSTRAINT withdrawals_key_hash_unique UNIQUE (org_id, key_hash),
    CONSTRAINT withdrawals_customer FOREIGN KEY (org_id, customer_id) REFERENCES customers (org_id, customer_id),
    CONSTRAINT withdrawals_mint FOREIGN KEY (mint_id, chain) REFERENCES mints (mint_id, chain),
    CONSTRAINT withdrawals_positive CHECK (amount > 0),
    CONSTRAINT withdrawals_of_one CHECK (
        num_nonnulls(customer_id, product) = 1
        AND (batch_id IS NULL) = (batch_row IS NULL)
        AND CASE num_nonnulls(whitelisted_address_id, refund_id, batch_id)
            WHEN 1 THEN product IS NOT NULL AND (refund_id IS NULL OR product = 'CHECKOUT')
                AND (batch_id IS NULL OR product = 'BATCH_PAYOUT')
            -- A restore may lack the refund or the batch that the signer paid.
            WHEN 0 THEN product IS NULL OR product IN ('CHECKOUT', 'BATCH_PAYOUT') AND restored_at IS NOT NULL
            ELSE false
        END),
    CONSTRAINT withdrawals_made_by_person CHECK (
        made_by IS NULL OR whitelisted_address_id IS NOT NULL AND made_by ~ '^(USER|OPERATOR) .'),
    CONSTRAINT withdrawals_product_known CHECK (product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')),
    CONSTRAINT withdrawals_status_known CHECK (status IN
        ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST', 'COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')),
    CONSTRAINT withdrawals_chain_status_known CHECK (chain_status IN
        ('NONE', 'PENDING', 'INCLUDED', 'FINALIZED', 'REVERTED', 'DROPPED', 'REPLACED')),
    CONSTRAINT withdrawals_broadcast_has_hash CHECK (status NOT IN ('BROADCAST', 'COMPLETED') OR tx_hash IS NOT NULL),
    CONSTRAINT withdrawals_held_has_reason CHECK (status <> 'AWAITING_APPROVAL' OR cardinality(approval_reasons) > 0),
    -- Rule WD-31.
    CONSTRAINT withdrawals_blocked_is_nothing CHECK (
        status <> 'BLOCKED' OR NOT requires_approval AND approval_reasons = '{}' AND chain_status = 'NONE'
            AND num_nonnulls(
                fee_deducted, network_fee, tx_hash, approved_at, broadcast_at, completed_at, restored_at) = 0),
    -- A withdrawal that needs an approval has it before anything leaves. Rule WD-4.
    CONSTRAINT withdrawals_approved_before_payment CHECK (
        NOT requires_approval OR approved_at IS NOT NULL OR status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')),
    CONSTRAINT withdrawals_approvals_bounded CHECK (approvals_required BETWEEN 0 AND 10 AND approval_round >= 0),
    CONSTRAINT withdrawals_owed_bounded CHECK (owed BETWEEN 0 AND amount),
    CONSTRAINT withdrawals_owed_restored CHECK (owed = 0 OR restored_at IS NOT NULL),
    CONSTRAINT withdrawals_restored_key CHECK (
        restored_key_hash IS NULL OR (restored_at IS NOT NULL AND idempotency_key IS NULL)),
    CONSTRAINT withdrawals_fee_mode_known CHECK (fee_mode IN ('ORGANIZATION', 'DEDUCTED')),
    CONSTRAINT withdrawals_max_network_fee_positive CHECK (max_network_fee > 0),
    CONSTRAINT withdrawals_fee_deducted_bounded CHECK (
        fee_deducted IS NULL OR fee_mode = 'DEDUCTED' AND fee_deducted >= 0 AND fee_deducted < amount
            AND (max_network_fee IS NULL OR fee_deducted <= max_network_fee)),
    -- Rule WD-27.
    CONSTRAINT withdrawals_fee_decided CHECK (
        fee_mode <> 'DEDUCTED' OR fee_deducted IS NOT NULL
        OR status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED')),
    -- The fee of an organization's own payment is decided at the request: both are held.
    CONSTRAINT withdrawals_own_fee_decided CHECK (
        product IS NULL OR fee_mode <> 'DEDUCTED' OR fee_deducted IS NOT NULL OR status = 'BLOCKED'),
    CONSTRAINT withdrawals_costs CHECK (
        (cost_max IS NULL) = (cost_rent IS NULL)
        AND (cost_rent IS NULL OR cost_rent >= 0 AND cost_rent <= cost_max)
        AND (cost_price IS NULL OR cost_price > 0)),
    CONSTRAINT withdrawals_end_known CHECK (
        end_status IN ('REJECTED', 'CANCELLED') AND num_nonnulls(end_actor_kind, end_actor) = 2
        OR num_nonnulls(end_status, end_note, end_actor_kind, end_actor) = 0),
    CONSTRAINT withdrawals_end_as_decided CHECK (end_status IS NULL OR status IN ('AWAITING_APPROVAL', 'PROCESSING', end_status)),
    CONSTRAINT withdrawals_charge_known CHECK (charge_costs IN ('NONE', 'RENT', 'RENT_AND_FAILURES')),
    CONSTRAINT withdrawals_charge_bounded CHECK (
        charge_rent >= 0 AND charge_held >= 0 AND (charge_held = 0) = (charge_rent = 0)
        AND charge_failure_max BETWEEN 0 AND amount + charge_held
        AND (charge_coin_price IS NULL) = (charge_mint_price IS NULL)
        AND charge_coin_price > 0 AND charge_mint_price > 0
        AND charged BETWEEN 0 AND CASE status
            WHEN 'COMPLETED' THEN charge_held
            WHEN 'FAILED' THEN coalesce(charge_failure_max, 0)
            ELSE 0
        END
        AND (charged = 0) = (charge_cost = 0) AND charge_cost >= 0),
    CONSTRAINT withdrawals_charge_of_customer CHECK (
        charge_costs = 'RENT_AND_FAILURES' AND product IS NULL
        OR charge_failure_max IS NULL
            AND (charge_costs = 'RENT' AND product IS NULL OR charge_costs = 'NONE' AND charge_rent = 0)),
    CONSTRAINT withdrawals_charge_of_blocked CHECK (
        status <> 'BLOCKED' OR charge_rent = 0 AND charge_failure_max IS NULL)
);
-- For lists: every filter that leaves few rows of many has an index.
CREATE INDEX withdrawals_listed ON withdrawals (org_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_customer ON withdrawals (org_id, customer_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_status ON withdrawals (org_id, status, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_mint ON withdrawals (org_id, mint_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_chain ON withdrawals (org_id, chain, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_address ON withdrawals (org_id, to_address, created_at, withdrawal_id);
-- All withdrawals may have the same reference.
CREATE INDEX withdrawals_of_reference_listed ON withdrawals (org_id, reference, created_at, withdrawal_id)
    WHERE reference IS NOT NULL;
CREATE INDEX withdrawals_own_listed ON withdrawals (org_id, created_at, withdrawal_id) WHERE customer_id IS NULL;
CREATE INDEX withdrawals_alike ON withdrawals (org_id, to_prefix_suffix, to_address);
CREATE INDEX withdrawals_open ON withdrawals (org_id, customer_id, mint_id)
    WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST');
CREATE INDEX withdrawals_owed ON withdrawals (org_id, customer_id, mint_id) WHERE owed > 0;
-- For the limits on costs: destinations that made a payment fail, destinations that were paid
-- with an approval, and what a customer's withdrawals cost in a day.
CREATE INDEX withdrawals_reverted ON withdrawals (org_id, chain, to_address, completed_at)
    WHERE status = 'FAILED' AND failure_reason = 'REVERTED';
CREATE INDEX withdrawals_approved_paid ON withdrawals (org_id, chain, to_address, approved_at)
    WHERE status = 'COMPLETED' AND approved_at IS NOT NULL;
CREATE INDEX withdrawals_of_customer_approved ON withdrawals (org_id, customer_id, approved_at)
    WHERE approved_at IS NOT NULL;
SELECT coffer_tenant('withdrawals',
    -- Not restored_at, restored_key_hash, owed and collections: a restored withdrawal makes a balance that its
    -- customer owes.
    'SELECT, INSERT (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, idempotency_key, request_digest,'
        ' reference, metadata, status, requires_approval, approval_reasons, usd_value, created_at, fee_mode, fee_deducted,'
        ' max_network_fee, travel_rule, screening, approvals_required, request_mac, product, whitelisted_address_id,'
        ' cost_max, cost_rent, cost_price, charge_costs, charge_rent, charge_held, charge_failure_max, charge_coin_price,'
        ' charge_mint_price, refund_id, batch_id, batch_row, made_by),'
        ' UPDATE (status, approval_reasons, rejected_reason, approved_at, fee_deducted, screening,'
        ' approvals_required, cost_price, end_status, end_note, end_actor_kind, end_actor)',
    'SELECT, INSERT, UPDATE');

-- Rule OW-6.
CREATE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.withdrawal_id, NEW.org_id, NEW.customer_id, NEW.product, NEW.whitelisted_address_id,
            NEW.mint_id, NEW.chain, NEW.amount, NEW.to_address, NEW.idempotency_key, NEW.request_digest, NEW.made_by)
       IS DISTINCT FROM
       (OLD.withdrawal_id, OLD.org_id, OLD.customer_id, OLD.product, OLD.whitelisted_address_id,
            OLD.mint_id, OLD.chain, OLD.amount, OLD.to_address, OLD.idempotency_key, OLD.request_digest, OLD.made_by) THEN
        RAISE EXCEPTION 'withdrawal % cannot become another payment', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_payment_fixed';
    END IF;
    IF OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'withdrawal % is %', OLD.withdrawal_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terminal';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_keep BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_keep();
-- Decisions refer to a withdrawal without a foreign key.
CREATE TRIGGER withdrawals_stay BEFORE DELETE OR TRUNCATE ON withdrawals FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a restore wrote stays, and what is owed only falls.
CREATE FUNCTION withdrawals_restored_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.restored_at, NEW.restored_key_hash) IS DISTINCT FROM (OLD.restored_at, OLD.restored_key_hash) OR NEW.owed > OLD.owed THEN
        RAISE EXCEPTION 'withdrawal %: what was restored is written once, and what is owed only falls', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_restored_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_restored_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_restored_keep();

-- The terms are written once.
CREATE FUNCTION withdrawals_terms_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.fee_mode, NEW.max_network_fee, NEW.travel_rule, NEW.decision) IS DISTINCT FROM
       (OLD.fee_mode, OLD.max_network_fee, OLD.travel_rule, OLD.decision)
       OR OLD.fee_deducted IS NOT NULL AND NEW.fee_deducted IS DISTINCT FROM OLD.fee_deducted THEN
        RAISE EXCEPTION 'the terms of withdrawal % are written once', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terms_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_terms_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_terms_keep();

-- A held withdrawal stays held, by at least as many approvals. Rule WD-37.
CREATE FUNCTION withdrawals_quorum_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.approvals_required < OLD.approvals_required OR NEW.approval_round < OLD.approval_round
       OR OLD.requires_approval AND NOT NEW.requires_approval
       OR OLD.request_mac IS NOT NULL AND NEW.request_mac IS DISTINCT FROM OLD.request_mac THEN
        RAISE EXCEPTION 'withdrawal % needs the approvals that it needs', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_quorum_kept';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_quorum_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_quorum_keep();

-- The expected cost is written once, and its price changes only until the payment is released.
CREATE FUNCTION withdrawals_costs_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.cost_max, NEW.cost_rent) IS DISTINCT FROM (OLD.cost_max, OLD.cost_rent)
       OR OLD.status <> 'AWAITING_APPROVAL' AND NEW.cost_price IS DISTINCT FROM OLD.cost_price THEN
        RAISE EXCEPTION 'what withdrawal % was expected to cost is written once', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_costs_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_costs_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_costs_keep();

-- What a cost in native coin is in units of the mint, at the prices of a withdrawal: rounded
-- up.
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
    -- Both factors are whole numbers, so that div rounds nothing away.
    worth := cost * trunc(w.charge_coin_price * 1000000000000000000::numeric) * ('1e' || token)::numeric;
    unit := trunc(w.charge_mint_price * 1000000000000000000::numeric) * ('1e' || coin)::numeric;
    RETURN div(worth + unit - 1, unit);
END $$;

-- The terms of a charge are written once. The charge itself is written when the withdrawal
-- ends, and the database computes it from what the order cost. Rules WD-54 and WD-55.
CREATE FUNCTION withdrawals_charge_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
CREATE TRIGGER withdrawals_charge_begin BEFORE INSERT ON withdrawals
    FOR EACH ROW WHEN (NEW.charge_costs <> 'NONE') EXECUTE FUNCTION withdrawals_charge_keep();
CREATE TRIGGER withdrawals_charge_keep BEFORE UPDATE ON withdrawals
    FOR EACH ROW WHEN (NEW.charge_costs <> 'NONE' OR OLD.charge_costs <> 'NONE')
    EXECUTE FUNCTION withdrawals_charge_keep();

-- A released payment has a grant, and the signer would admit it on any later day. So the
-- signer journals that the payment is void before its money is given back. A withdrawal that
-- ends without a slot stays AWAITING_APPROVAL or PROCESSING, with its hold, until then. Its
-- order is recalled first (decisions 0073, 0075). Rule WD-50.
CREATE FUNCTION withdrawals_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.end_status IS NOT NULL AND (NEW.end_status, NEW.end_note, NEW.end_actor_kind, NEW.end_actor)
        IS DISTINCT FROM (OLD.end_status, OLD.end_note, OLD.end_actor_kind, OLD.end_actor) THEN
        RAISE EXCEPTION 'withdrawal % ends as it was decided', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_end_fixed';
    END IF;
    IF OLD.end_status IS NULL AND NEW.end_status IS NOT NULL
        AND EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.withdrawal_id AND status <> 'WITHDRAWN') THEN
        RAISE EXCEPTION 'withdrawal % has an order that was not taken back', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_end_recalled';
    END IF;
    IF NEW.status <> OLD.status AND NEW.status IN ('REJECTED', 'CANCELLED', 'FAILED')
        AND EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.withdrawal_id AND status IN ('QUEUED', 'REFUSED', 'WITHDRAWN'))
        AND NOT EXISTS (SELECT FROM dispatch_voids WHERE order_id = NEW.withdrawal_id AND journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'withdrawal % was let go once, and the signer has not journaled that it is void', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_void_first';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawals_void_first BEFORE UPDATE ON withdrawals
    FOR EACH ROW EXECUTE FUNCTION withdrawals_void_first();

-- A withdrawal is held, and ends together with its hold and its charge.
CREATE FUNCTION withdrawals_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
    w record;
BEGIN
    -- Each posting is asked for in the order of the key of causes, which no other index has: a session keeps the plan
    -- that it made for small tables.
    SELECT status, CASE
        WHEN ((SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_HOLD' AND t.leg = 0
                AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NOT NULL)
            = (status = 'BLOCKED') THEN 'withdrawals_held'
        WHEN ((SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_END' AND t.leg = 0
                AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NOT NULL)
            <> (status = 'COMPLETED' OR status IN ('FAILED', 'REJECTED', 'CANCELLED') AND amount + charge_held - charged > 0)
            THEN 'withdrawals_ended'
        WHEN charged > 0
                AND (SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_CHARGE' AND t.leg = 0
                    AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NULL
            OR status = 'COMPLETED' AND charge_held - charged > 0
                AND (SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_CHARGE_RETURN' AND t.leg = 0
                    AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NULL
            THEN 'withdrawals_charge_posted'
        END AS broken
    INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.broken IS NOT NULL THEN
        RAISE EXCEPTION 'withdrawal % is %, and the books say something else', NEW.withdrawal_id, w.status
            USING ERRCODE = 'check_violation', CONSTRAINT = w.broken;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_booked_begin AFTER INSERT ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION withdrawals_book();
CREATE CONSTRAINT TRIGGER withdrawals_booked_move AFTER UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION withdrawals_book();

-- What is owed of a restored withdrawal was posted.
CREATE FUNCTION withdrawals_owe() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    w record;
BEGIN
    SELECT withdrawal_id AS id, owed, collections INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.owed <> (
            SELECT coalesce(sum(CASE WHEN t.cause_id = w.id THEN t.amount ELSE -t.amount END), 0) FROM ledger_transfers t
            WHERE t.cause_kind = 'RESTORE' AND t.cause_id = ANY (w.id || ARRAY(SELECT w.id || '/' || n FROM generate_series(1, w.collections) n))) THEN
        RAISE EXCEPTION 'withdrawal % owes %, and the books say something else', w.id, w.owed
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_owed_posted';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_owed_begin AFTER INSERT ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.restored_at IS NOT NULL) EXECUTE FUNCTION withdrawals_owe();
CREATE CONSTRAINT TRIGGER withdrawals_owed_move AFTER UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.restored_at IS NOT NULL AND (OLD.status <> NEW.status OR OLD.owed <> NEW.owed))
    EXECUTE FUNCTION withdrawals_owe();

-- Whether a withdrawal, which may have an intended end, is where its order is. NULL: it has no
-- order. It takes two other false rows to make a COMPLETED one without an order, and
-- verify finds it.
CREATE FUNCTION withdrawal_in_step(status text, end_status text, order_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE status
    WHEN 'AWAITING_APPROVAL' THEN coalesce(order_status, 'REFUSED') IN ('REFUSED', 'WITHDRAWN')
    WHEN 'PROCESSING' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') OR order_status = 'WITHDRAWN' AND end_status IS NOT NULL
    WHEN 'BROADCAST' THEN order_status IN ('BROADCAST', 'STUCK')
    WHEN 'COMPLETED' THEN coalesce(order_status, 'PAID') = 'PAID'
    WHEN 'FAILED' THEN order_status = 'FAILED'
    WHEN 'REJECTED' THEN coalesce(order_status, 'WITHDRAWN') = 'WITHDRAWN'
    WHEN 'CANCELLED' THEN coalesce(order_status, 'WITHDRAWN') = 'WITHDRAWN'
    WHEN 'BLOCKED' THEN order_status IS NULL
END;

-- A withdrawal is where its order is. What the order pays is in its key to the withdrawal.
CREATE FUNCTION withdrawals_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now record;
BEGIN
    SELECT w.status, o.status AS order_status, withdrawal_in_step(w.status, w.end_status, o.status) AS in_step INTO now
    FROM withdrawals w LEFT JOIN dispatch_orders o ON o.order_id = w.withdrawal_id WHERE w.withdrawal_id = NEW.withdrawal_id;
    IF now.in_step IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % is %, its order %', NEW.withdrawal_id, now.status, coalesce(now.order_status, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_as_ordered';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_ordered_begin AFTER INSERT ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION withdrawals_follow();
CREATE CONSTRAINT TRIGGER withdrawals_ordered_move AFTER UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION withdrawals_follow();

-- One row for each decision, in the order in which they were made. gates are the rules that
-- were applied, each with its inputs. Rule WD-25.
CREATE TABLE withdrawal_decisions (
    decision_id   bigint GENERATED ALWAYS AS IDENTITY,
    org_id        text NOT NULL,
    withdrawal_id text NOT NULL,
    at            timestamptz NOT NULL,
    act           text NOT NULL,
    status        text NOT NULL,   -- the status that the withdrawal got
    reasons       text[] NOT NULL, -- why it waits for a person, when it does
    gates         jsonb NOT NULL,
    note          text,            -- what a person wrote or the signer answered
    actor_kind    text NOT NULL,
    actor_id      text NOT NULL,
    risk          jsonb,           -- the whole input of the risk gate; NULL: it was not applied
    CONSTRAINT withdrawal_decisions_pkey PRIMARY KEY (withdrawal_id, decision_id),
    CONSTRAINT withdrawal_decisions_act_known CHECK (
        CASE act WHEN 'REQUESTED' THEN status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BLOCKED')
                 WHEN 'APPROVAL_ADDED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'APPROVED' THEN status = 'PROCESSING'
                 WHEN 'APPROVAL_REFUSED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'RETURNED' THEN status = 'AWAITING_APPROVAL'
                 WHEN 'REMOVED' THEN status = 'REJECTED'
                 WHEN 'CANCELLED' THEN status = 'CANCELLED'
                 ELSE false END),
    CONSTRAINT withdrawal_decisions_actor_known CHECK (actor_kind IN ('API_KEY', 'USER', 'OPERATOR', 'SYSTEM'))
);
SELECT coffer_tenant('withdrawal_decisions',
    'SELECT, INSERT (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind, actor_id, risk)',
    'SELECT, INSERT (org_id, withdrawal_id, at, act, status, reasons, gates, note, actor_kind, actor_id, risk)');
CREATE TRIGGER withdrawal_decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON withdrawal_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- A decision is about a withdrawal of its organization. A foreign key would check row by row, by a plan that a session
-- made while there were few withdrawals, and that reads all of the organization's.
CREATE FUNCTION withdrawal_decisions_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT a.withdrawal_id INTO lost FROM added a
    WHERE (SELECT w.org_id FROM public.withdrawals w
        WHERE w.withdrawal_id >= a.withdrawal_id AND w.withdrawal_id <= a.withdrawal_id ORDER BY w.withdrawal_id LIMIT 1) IS DISTINCT FROM a.org_id
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'the organization has no withdrawal %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'withdrawal_decisions_withdrawal';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawal_decisions_withdrawal AFTER INSERT ON withdrawal_decisions
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION withdrawal_decisions_refer();
CREATE FUNCTION withdrawal_decisions_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'WITHDRAWAL' FROM added, jsonb_path_query(added.risk, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawal_decisions_use AFTER INSERT ON withdrawal_decisions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION withdrawal_decisions_use();

-- Each approval is a row of its own by another person, bound to the terms that the person saw
-- (decision 0039).
CREATE TABLE withdrawal_approvals (
    org_id        text NOT NULL,
    withdrawal_id text NOT NULL,
    round         smallint NOT NULL,
    approver_kind text NOT NULL,
    approver_id   text COLLATE "C" NOT NULL,
    at            timestamptz NOT NULL,
    digest        text NOT NULL,  -- hex SHA-256 of the approved terms
    mac           bytea NOT NULL, -- of the digest, the round and the person, by the server's key
    signature     jsonb,          -- of the words, by the person's passkey; NULL where no rule asked for it
    nth           smallint NOT NULL DEFAULT 0, -- 1 and more: signed again; it counts no second time
    -- A person counts once. Rule WD-35.
    CONSTRAINT withdrawal_approvals_pkey PRIMARY KEY (withdrawal_id, round, approver_kind, approver_id, nth),
    CONSTRAINT withdrawal_approvals_withdrawal FOREIGN KEY (org_id, withdrawal_id)
        REFERENCES withdrawals (org_id, withdrawal_id),
    -- Rules WD-35 and WD-56.
    CONSTRAINT withdrawal_approvals_by_people CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> ''),
    CONSTRAINT withdrawal_approvals_signature CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId')
);
SELECT coffer_tenant('withdrawal_approvals', 'SELECT, INSERT', 'SELECT, INSERT');
CREATE TRIGGER withdrawal_approvals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON withdrawal_approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An approval is of a withdrawal that waits in this round. The person who requested the
-- withdrawal does not approve it. Rules WD-35 and OW-5.
CREATE FUNCTION withdrawal_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    w record;
BEGIN
    SELECT status, approval_round INTO w FROM withdrawals WHERE org_id = NEW.org_id AND withdrawal_id = NEW.withdrawal_id;
    IF (w.status = 'AWAITING_APPROVAL' AND w.approval_round = NEW.round) IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % does not wait for this approval', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_waited_for';
    END IF;
    IF EXISTS (SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = NEW.withdrawal_id AND d.act = 'REQUESTED'
            AND (d.actor_kind, d.actor_id) = (NEW.approver_kind, NEW.approver_id)) THEN
        RAISE EXCEPTION 'withdrawal % was asked for by the same person', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_not_by_maker';
    END IF;
    -- A person signs again what has no signature, or one that is about to end.
    IF NEW.nth > 0 AND (NEW.signature IS NULL OR NEW.nth <> (SELECT count(*) FROM withdrawal_approvals a
            WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = NEW.round AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id))
        OR EXISTS (SELECT FROM withdrawal_approvals a
            WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = NEW.round AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id)
                AND (a.signature ->> 'notAfter')::timestamptz > NEW.at + interval '5 minutes')) THEN
        RAISE EXCEPTION 'withdrawal % is approved by this person', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawal_approvals_again';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER withdrawal_approvals_fit BEFORE INSERT ON withdrawal_approvals
    FOR EACH ROW EXECUTE FUNCTION withdrawal_approvals_fit();

-- A held payment is released with enough approvals. A restore makes the withdrawal and its
-- slot at the same time if the signer has signed it already: that one needs none. Rule WD-37.
CREATE FUNCTION withdrawals_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    w record;
    n bigint;
BEGIN
    SELECT status, requires_approval, approvals_required, approval_round INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.status <> 'PROCESSING' OR NOT w.requires_approval OR EXISTS (SELECT FROM dispatch_slots WHERE order_id = NEW.withdrawal_id) THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO n FROM withdrawal_approvals a WHERE a.withdrawal_id = NEW.withdrawal_id AND a.round = w.approval_round AND a.nth = 0;
    IF n < greatest(w.approvals_required, 1) THEN
        RAISE EXCEPTION 'withdrawal % has % approvals and needs %', NEW.withdrawal_id, n, greatest(w.approvals_required, 1)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_approved_by_enough';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER withdrawals_quorum AFTER INSERT OR UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'PROCESSING' AND NEW.requires_approval) EXECUTE FUNCTION withdrawals_quorum();
CREATE TRIGGER withdrawals_as_inserted BEFORE UPDATE OF metadata, reference, usd_value, created_at ON withdrawals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A withdrawal that ended keeps everything except what is owed after a restore and the network
-- fee of a payment on the chain, which another block may prove to be another. Before its end
-- each column changes in the states that its work belongs to, or together with the status.
CREATE TRIGGER withdrawals_written_once BEFORE UPDATE ON withdrawals FOR EACH ROW
    WHEN (NEW.status = OLD.status AND (
        (NEW.requires_approval, NEW.approval_round, NEW.approved_at, NEW.rejected_reason, NEW.cost_price,
            NEW.broadcast_at, NEW.completed_at, NEW.failure_reason, NEW.charged, NEW.charge_cost)
            IS DISTINCT FROM (OLD.requires_approval, OLD.approval_round, OLD.approved_at, OLD.rejected_reason, OLD.cost_price,
                OLD.broadcast_at, OLD.completed_at, OLD.failure_reason, OLD.charged, OLD.charge_cost)
        OR OLD.status <> 'AWAITING_APPROVAL' AND (NEW.approval_reasons, NEW.approvals_required, NEW.screening, NEW.fee_deducted)
            IS DISTINCT FROM (OLD.approval_reasons, OLD.approvals_required, OLD.screening, OLD.fee_deducted)
        OR OLD.status NOT IN ('AWAITING_APPROVAL', 'PROCESSING') AND (NEW.end_status, NEW.end_note, NEW.end_actor_kind, NEW.end_actor)
            IS DISTINCT FROM (OLD.end_status, OLD.end_note, OLD.end_actor_kind, OLD.end_actor)
        OR OLD.status <> 'BROADCAST' AND (NEW.tx_hash, NEW.chain_status, NEW.replaced_tx_hashes)
            IS DISTINCT FROM (OLD.tx_hash, OLD.chain_status, OLD.replaced_tx_hashes)
        OR OLD.status NOT IN ('COMPLETED', 'FAILED') AND NEW.network_fee IS DISTINCT FROM OLD.network_fee)
        OR (NEW.charge_rent, NEW.charge_held, NEW.charge_failure_max, NEW.charge_coin_price, NEW.charge_mint_price, NEW.request_mac)
            IS DISTINCT FROM (OLD.charge_rent, OLD.charge_held, OLD.charge_failure_max, OLD.charge_coin_price, OLD.charge_mint_price, OLD.request_mac)
        OR OLD.restored_at IS NULL AND (NEW.owed, NEW.collections) IS DISTINCT FROM (OLD.owed, OLD.collections)
        OR NEW.collections < OLD.collections)
    EXECUTE FUNCTION refuse_row_change();
