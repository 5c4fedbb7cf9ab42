-- Why: a posting was tied to what it follows from by the program alone. Here the
-- tables tie it: money moves in the books only for a withdrawal, a deposit or an
-- order that says the same, and none of those comes to its end without its
-- posting. What one row asks of another is asked when the transaction commits,
-- wherever the program writes the two in either order. See decision 0021.
-- +goose Up

-- One cause has the legs that it has, and no more under another number.
ALTER TABLE ledger_transfers ADD CONSTRAINT ledger_transfers_legs CHECK (
    CASE cause_kind WHEN 'NETWORK_FEE' THEN leg IN (0, 1) WHEN 'DEPOSIT_REVERSAL' THEN leg >= 0 ELSE leg = 0 END);

-- Asks for every new transfer whether its cause is there and moves just this. It
-- runs after the balances moved, for its name comes after theirs: too little money
-- is told as that. One statement a kind of cause: a kind has one role that posts it,
-- and a plan that row level security shapes is made anew when the role changes.
-- Scalar subqueries, because every one of them is a look-up by key, whatever a
-- session knew about the sizes of the tables when it made its plan; with the
-- collation of those keys, for an index of another one would not be used. What is
-- compared stands in the list and not in the condition: on empty tables any index
-- with one of those columns looks as good as the key, and the plan stays.
-- +goose StatementBegin
CREATE FUNCTION ledger_transfers_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    kinds text[];
    lost  text;
BEGIN
    SELECT array_agg(DISTINCT cause_kind) INTO kinds FROM added;
    IF 'WITHDRAWAL_HOLD' = ANY (kinds) THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'WITHDRAWAL_HOLD' AND (
            SELECT (w.org_id, w.mint_id, w.amount) = (t.org_id, t.mint_id, t.amount)
                AND (d.kind, d.subject, c.kind, c.subject) = ('CUSTOMER', w.customer_id, 'WITHDRAWING', w.customer_id)
            FROM withdrawals w, ledger_accounts d, ledger_accounts c
            WHERE w.withdrawal_id = t.cause_id COLLATE "default" AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'WITHDRAWAL_END' = ANY (kinds) THEN
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
    IF lost IS NULL AND 'DEPOSIT' = ANY (kinds) THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'DEPOSIT' AND (
            SELECT (p.org_id, p.mint_id, p.amount) = (t.org_id, t.mint_id, t.amount) AND p.status IN ('CREDITED', 'REVERSED')
                AND (a.org_id, a.address, a.purpose, a.subject) = (p.org_id, p.address, p.purpose, coalesce(p.customer_id, ''))
                AND (d.kind, d.subject) = ('CUSTODY', '')
                AND (c.kind, c.subject) = (CASE WHEN p.purpose = 'CUSTOMER_DEPOSIT' THEN 'CUSTOMER' WHEN p.contract = '' THEN 'GAS' ELSE 'SUSPENSE' END,
                    coalesce(p.customer_id, ''))
            FROM deposits p, wallets a, ledger_accounts d, ledger_accounts c
            WHERE p.deposit_id = t.cause_id COLLATE "default" AND a.wallet_id = p.wallet_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'NETWORK_FEE' = ANY (kinds) THEN
        SELECT t.cause_kind || ' ' || t.cause_id INTO lost FROM added t
        WHERE t.cause_kind = 'NETWORK_FEE' AND (
            SELECT (o.org_id, o.fee, m.chain, m.contract) = (t.org_id, t.amount, o.chain, '')
                AND o.status IN ('PAID', 'FAILED')
                AND (d.kind, c.kind) = (CASE t.leg WHEN 0 THEN 'GAS' ELSE 'FEES_DUE' END, CASE t.leg WHEN 0 THEN 'CUSTODY' ELSE 'FEES_BILLED' END)
            FROM dispatch_orders o, mints m, ledger_accounts d, ledger_accounts c
            WHERE o.order_id = t.cause_id COLLATE "default" AND m.mint_id = t.mint_id AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NULL AND 'RESTORE' = ANY (kinds) THEN
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
    IF lost IS NULL AND 'TRANSFER' = ANY (kinds) THEN
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
CREATE TRIGGER ledger_transfers_of_cause AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_follow();

-- A withdrawal is held, ends with its hold, and stands where its order stands. An
-- order that is missing under a COMPLETED one is for verify to find: it takes two
-- other lies to come to that.
-- +goose StatementBegin
CREATE FUNCTION withdrawals_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    id       text;
    now      text;
    debt     numeric;
    taken    integer;
    restored boolean;
    held     boolean;
    ended    boolean;
    sent     text;
    broken   text;
BEGIN
    SELECT w.withdrawal_id, w.status, w.owed, w.takings, w.restored_at IS NOT NULL, o.status,
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = NEW.withdrawal_id AND leg = 0),
        EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = NEW.withdrawal_id AND leg = 0)
    INTO id, now, debt, taken, restored, sent, held, ended
    FROM withdrawals w LEFT JOIN dispatch_orders o ON o.order_id = NEW.withdrawal_id
    WHERE w.withdrawal_id = NEW.withdrawal_id;
    IF NOT held THEN
        broken := 'withdrawals_held';
    ELSIF ended <> (now IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')) THEN
        broken := 'withdrawals_ended';
    ELSIF NOT (CASE now
            WHEN 'AWAITING_APPROVAL' THEN coalesce(sent, 'REFUSED') IN ('REFUSED', 'WITHDRAWN')
            WHEN 'REJECTED' THEN coalesce(sent, 'WITHDRAWN') = 'WITHDRAWN'
            WHEN 'CANCELLED' THEN coalesce(sent, 'WITHDRAWN') = 'WITHDRAWN'
            WHEN 'PROCESSING' THEN coalesce(sent, '') IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')
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
CREATE CONSTRAINT TRIGGER withdrawals_begin AFTER INSERT ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION withdrawals_follow();
CREATE CONSTRAINT TRIGGER withdrawals_move AFTER UPDATE ON withdrawals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status OR OLD.owed <> NEW.owed) EXECUTE FUNCTION withdrawals_follow();

-- Whoever had to approve did, before anything goes out.
ALTER TABLE withdrawals ADD CONSTRAINT withdrawals_approved_before_payment
    CHECK (NOT requires_approval OR approved_at IS NOT NULL OR status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED'));

-- A deposit that counts was posted.
-- +goose StatementBegin
CREATE FUNCTION deposits_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'DEPOSIT' AND cause_id = NEW.deposit_id AND leg = 0) THEN
        RAISE EXCEPTION 'deposit % is credited and was not posted', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_posted';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER deposits_posted AFTER INSERT OR UPDATE OF status ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'CREDITED') EXECUTE FUNCTION deposits_follow();

-- An order pays what was accepted, to whom it was accepted for, and stands where
-- its cause stands; it has its slot as soon as it may be signed, and its end was
-- charged. Without this one row of whoever may write orders is a payment.
-- +goose StatementBegin
CREATE FUNCTION dispatch_orders_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    o       record;
    caused  boolean;
    broken  text;
BEGIN
    SELECT order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id, amount, customer_id, status, fee
    INTO o FROM dispatch_orders WHERE order_id = NEW.order_id;
    IF o.purpose = 'PAYMENT' THEN
        SELECT (w.org_id, w.chain, w.mint_id, w.amount, w.to_address, w.customer_id) = (o.org_id, o.chain, o.mint_id, o.amount, o.to_address, o.customer_id)
            AND CASE o.status
                WHEN 'PAID' THEN w.status = 'COMPLETED'
                WHEN 'FAILED' THEN w.status = 'FAILED'
                WHEN 'REFUSED' THEN w.status = 'AWAITING_APPROVAL'
                WHEN 'WITHDRAWN' THEN w.status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')
                WHEN 'BROADCAST' THEN w.status IN ('PROCESSING', 'BROADCAST')
                WHEN 'STUCK' THEN w.status IN ('PROCESSING', 'BROADCAST')
                ELSE w.status = 'PROCESSING' END
        INTO caused FROM withdrawals w WHERE w.withdrawal_id = o.order_id;
    ELSIF o.purpose = 'SWEEP' THEN
        SELECT (s.org_id, s.chain, s.wallet_id, s.to_wallet_id, s.mint_id, s.amount) = (o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.mint_id, o.amount)
            AND s.status = CASE WHEN o.status = 'PAID' THEN 'DONE' WHEN o.status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END
        INTO caused FROM sweeps s WHERE s.sweep_id = o.order_id;
    ELSE
        SELECT (g.org_id, g.chain, g.wallet_id, g.amount) = (o.org_id, o.chain, o.to_wallet_id, o.amount)
            AND g.status = CASE WHEN o.status = 'PAID' THEN 'DONE' WHEN o.status IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED' ELSE 'OPEN' END
        INTO caused FROM gas_top_ups g WHERE g.top_up_id = o.order_id;
    END IF;
    broken := CASE
        WHEN caused IS NOT TRUE THEN 'dispatch_orders_caused'
        WHEN (o.status IN ('QUEUED', 'REFUSED', 'WITHDRAWN')) = EXISTS (SELECT FROM dispatch_slots WHERE order_id = o.order_id)
            THEN 'dispatch_orders_slotted'
        WHEN o.status IN ('PAID', 'FAILED') AND o.fee > 0
            AND 2 <> (SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = o.order_id)
            THEN 'dispatch_orders_charged'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'order % is %, and its cause, its slot or its fee says something else', o.order_id, o.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER dispatch_orders_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_follow();
CREATE CONSTRAINT TRIGGER dispatch_orders_move AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION dispatch_orders_follow();

-- The other way round: a sweep or top-up that says of itself that it ended.
-- +goose StatementBegin
CREATE FUNCTION moves_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    id   text;
    now  text;
    sent text;
BEGIN
    IF TG_TABLE_NAME = 'sweeps' THEN
        SELECT sweep_id, status INTO id, now FROM sweeps WHERE sweep_id = NEW.sweep_id;
    ELSE
        SELECT top_up_id, status INTO id, now FROM gas_top_ups WHERE top_up_id = NEW.top_up_id;
    END IF;
    SELECT status INTO sent FROM dispatch_orders WHERE order_id = id;
    IF now IS DISTINCT FROM (CASE WHEN sent = 'PAID' THEN 'DONE' WHEN sent IN ('FAILED', 'REFUSED', 'WITHDRAWN') THEN 'FAILED'
            WHEN sent IS NOT NULL THEN 'OPEN' END) THEN
        RAISE EXCEPTION '% is % and its order %', id, now, coalesce(sent, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_as_ordered';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER sweeps_as_ordered AFTER INSERT OR UPDATE OF status ON sweeps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION moves_follow();
CREATE CONSTRAINT TRIGGER gas_top_ups_as_ordered AFTER INSERT OR UPDATE OF status ON gas_top_ups DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION moves_follow();

-- A slot is of an order that may be signed, and the counter of nonces stands right
-- behind the last slot: a number that nothing has would hold up every later one.
-- +goose StatementBegin
CREATE FUNCTION dispatch_slots_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT status FROM dispatch_orders WHERE order_id = NEW.order_id) IN ('QUEUED', 'REFUSED', 'WITHDRAWN')
        OR NOT EXISTS (SELECT FROM dispatch_accounts WHERE wallet_id = NEW.wallet_id AND chain = NEW.chain AND next_nonce > NEW.nonce) THEN
        RAISE EXCEPTION 'slot % of wallet % is of an order without one, or not counted', NEW.nonce, NEW.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_counted';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION dispatch_accounts_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NEW.next_nonce > 0 AND NOT EXISTS (
        SELECT FROM dispatch_slots WHERE wallet_id = NEW.wallet_id AND chain = NEW.chain AND nonce = NEW.next_nonce - 1) THEN
        RAISE EXCEPTION 'nonce % of wallet % has no slot', NEW.next_nonce - 1, NEW.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_accounts_slotted';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER dispatch_slots_counted AFTER INSERT ON dispatch_slots DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION dispatch_slots_follow();
CREATE CONSTRAINT TRIGGER dispatch_accounts_slotted AFTER INSERT OR UPDATE ON dispatch_accounts DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION dispatch_accounts_follow();

-- A row is of the very token that it names, and an order to one of our wallets goes
-- to that wallet's address.
ALTER TABLE mints ADD CONSTRAINT mints_of_contract UNIQUE (mint_id, chain, contract), ADD CONSTRAINT mints_of_chain UNIQUE (mint_id, chain);
ALTER TABLE deposits ADD CONSTRAINT deposits_mint FOREIGN KEY (mint_id, chain, contract) REFERENCES mints (mint_id, chain, contract);
ALTER TABLE withdrawals ADD CONSTRAINT withdrawals_mint FOREIGN KEY (mint_id, chain) REFERENCES mints (mint_id, chain);
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_mint FOREIGN KEY (mint_id, chain, contract) REFERENCES mints (mint_id, chain, contract);
ALTER TABLE wallets ADD CONSTRAINT wallets_of_address UNIQUE (wallet_id, address);
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_to_own FOREIGN KEY (to_wallet_id, to_address) REFERENCES wallets (wallet_id, address);

-- A freeze is lifted by somebody, once, and the audit log says by whom.
-- +goose StatementBegin
CREATE FUNCTION freezes_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.freeze_id, NEW.scope, NEW.org_id, NEW.customer_id, NEW.chain, NEW.wallet_id, NEW.source, NEW.reason, NEW.created_at) IS DISTINCT FROM
       (OLD.freeze_id, OLD.scope, OLD.org_id, OLD.customer_id, OLD.chain, OLD.wallet_id, OLD.source, OLD.reason, OLD.created_at)
       OR OLD.lifted_at IS NOT NULL THEN
        RAISE EXCEPTION 'freeze % is lifted once and cannot become another', OLD.freeze_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'freezes_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION freezes_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM audit_log WHERE resource_id = NEW.freeze_id AND action = 'freeze.lifted') THEN
        RAISE EXCEPTION 'freeze % is lifted and nobody says so', NEW.freeze_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'freezes_lift_told';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER freezes_keep BEFORE UPDATE ON freezes FOR EACH ROW EXECUTE FUNCTION freezes_keep();
CREATE CONSTRAINT TRIGGER freezes_lift_told AFTER INSERT OR UPDATE ON freezes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.lifted_at IS NOT NULL) EXECUTE FUNCTION freezes_follow();

-- A key that was rolled stays rolled.
-- +goose StatementBegin
CREATE FUNCTION api_keys_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.api_key_id, NEW.org_id, NEW.hash, NEW.created_at) IS DISTINCT FROM (OLD.api_key_id, OLD.org_id, OLD.hash, OLD.created_at)
       OR OLD.rolled_at IS NOT NULL THEN
        RAISE EXCEPTION 'an API key of % is rolled once and cannot become another', OLD.org_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'api_keys_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER api_keys_keep BEFORE UPDATE ON api_keys FOR EACH ROW EXECUTE FUNCTION api_keys_keep();

-- What counts as imported of the signer's journal is here.
-- +goose StatementBegin
CREATE FUNCTION signer_identity_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.imported_seq <> 0 AND NOT EXISTS (
        SELECT FROM signer_journal WHERE journal_id = NEW.journal_id AND seq = NEW.imported_seq AND hash = NEW.imported_hash) THEN
        RAISE EXCEPTION 'entry % of the signer''s journal is called imported and is not here', NEW.imported_seq
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signer_identity_imported';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER signer_identity_imported AFTER INSERT OR UPDATE ON signer_identity DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION signer_identity_follow();

-- Since when a slot's nonce is used, finally, by no transaction of ours. A service
-- that is restarted again and again would otherwise never come to say so.
ALTER TABLE dispatch_slots ADD COLUMN absent_since timestamptz;

-- What a role never writes it may not write.
REVOKE UPDATE ON withdrawals, dispatch_orders FROM coffer_app;
GRANT UPDATE (status, approved_at, rejected_reason) ON withdrawals TO coffer_app;
GRANT UPDATE (status, waiting_for, short_by, last_error, attempt_after, ended_at) ON dispatch_orders TO coffer_app;
REVOKE INSERT, UPDATE ON events FROM coffer_app, coffer_system;
GRANT INSERT (event_id, org_id, type, resource_kind, resource_id, resource_seq, customer_id, chain, data, created_at) ON events TO coffer_app, coffer_system;
GRANT UPDATE (sequence, body) ON events TO coffer_system;
REVOKE UPDATE ON freezes, api_keys FROM coffer_system;
REVOKE INSERT, UPDATE ON address_funds FROM coffer_system;
GRANT UPDATE (lifted_at, lifted_by) ON freezes TO coffer_system;
GRANT UPDATE (rolled_at) ON api_keys TO coffer_system;
GRANT INSERT (wallet_id, mint_id, org_id) ON address_funds TO coffer_system;
GRANT UPDATE (credited, held, reserved, swept, gas, gas_reserved, dust, reversed, gas_reversed) ON address_funds TO coffer_system;
