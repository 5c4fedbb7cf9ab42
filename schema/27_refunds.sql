-- Refunds of checkouts: what is given back to payers.
--
-- A refund takes its parts from credited payments, and its amount from the balance of the product CHECKOUT. From then on
-- the amount is owed to the payer (REFUND_OWED), until a withdrawal has paid it or the refund ends without one. A refund
-- has an address when the organization gave one, or when the payer claimed it with a key of which only the hash is here.

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
ALTER TABLE withdrawals ADD CONSTRAINT withdrawals_refund FOREIGN KEY (org_id, refund_id) REFERENCES refunds (org_id, refund_id);
CREATE UNIQUE INDEX withdrawals_refund_once ON withdrawals (refund_id)
    WHERE refund_id IS NOT NULL AND status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED');
CREATE INDEX withdrawals_of_refund ON withdrawals (refund_id) WHERE refund_id IS NOT NULL;
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

-- Checkouts whose policies make refunds by themselves, and that were settled: when the worker looks at them. A settlement
-- makes no refund, so nothing that is missing for one keeps a sale from being completed.
CREATE TABLE refund_turns (
    checkout_id text PRIMARY KEY,
    org_id      text NOT NULL,
    look_at     timestamptz,              -- NULL: nothing is due until the checkout is settled again
    tries       integer NOT NULL DEFAULT 0, -- since that settlement
    problem     text,                     -- why something stays with the organization, or waits
    updated_at  timestamptz NOT NULL,
    CONSTRAINT refund_turns_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT refund_turns_counted CHECK (tries >= 0),
    CONSTRAINT refund_turns_words CHECK (char_length(problem) BETWEEN 1 AND 1000)
);
CREATE INDEX refund_turns_due ON refund_turns (look_at, checkout_id) WHERE look_at IS NOT NULL;
SELECT coffer_tenant('refund_turns',
    'SELECT, INSERT (checkout_id, org_id, look_at, updated_at), UPDATE (look_at, tries, problem, updated_at)',
    'SELECT, INSERT (checkout_id, org_id, look_at, updated_at), UPDATE (look_at, tries, problem, updated_at)');
CREATE TRIGGER refund_turns_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF checkout_id, org_id ON refund_turns
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The refunds that policies made: one for each checkout, mint and cause.
CREATE TABLE automatic_refunds (
    checkout_id text NOT NULL,
    mint_id     integer NOT NULL REFERENCES mints,
    cause       text NOT NULL,
    org_id      text NOT NULL,
    refund_id   text NOT NULL,
    CONSTRAINT automatic_refunds_pkey PRIMARY KEY (checkout_id, mint_id, cause),
    CONSTRAINT automatic_refunds_one_cause UNIQUE (refund_id),
    CONSTRAINT automatic_refunds_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT automatic_refunds_refund FOREIGN KEY (org_id, refund_id) REFERENCES refunds (org_id, refund_id),
    CONSTRAINT automatic_refunds_cause_known CHECK (cause IN ('OVERPAID', 'UNDERPAID', 'PAID_LATE'))
);
SELECT coffer_tenant('automatic_refunds', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER automatic_refunds_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON automatic_refunds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A policy makes only what the terms of its checkout say, without a key and an address, and no person asks for it.
CREATE FUNCTION automatic_refunds_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (r.org_id, r.checkout_id, r.mint_id, r.version, r.requester_kind) = (NEW.org_id, NEW.checkout_id, NEW.mint_id, 1, 'SYSTEM')
            AND num_nonnulls(r.idempotency_key, r.key_hash, r.to_address) = 0
            AND CASE NEW.cause WHEN 'OVERPAID' THEN c.over_policy = 'REFUND_LINK' AND c.status = 'COMPLETED'
                ELSE c.late_policy = 'REFUND_LINK' AND c.status IN ('COMPLETED', 'EXPIRED', 'CANCELLED') END
        FROM refunds r, checkouts c WHERE r.refund_id = NEW.refund_id AND c.checkout_id = NEW.checkout_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'no policy of checkout % makes refund %', NEW.checkout_id, NEW.refund_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'automatic_refunds_asked_for';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER automatic_refunds_begin BEFORE INSERT ON automatic_refunds FOR EACH ROW EXECUTE FUNCTION automatic_refunds_begin();
