-- Why: a final deposit is decided about before it counts. What the screening holds
-- stays on its address until a person approves it, sends it back or sends it elsewhere,
-- and of those decisions exactly one comes about. See decision 0040.
-- +goose Up

-- What every decision about a deposit was made of, so that it can be made again.
CREATE TABLE deposit_decisions (
    decision_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id      text NOT NULL REFERENCES organizations,
    deposit_id  text NOT NULL REFERENCES deposits,
    at          timestamptz NOT NULL,
    outcome     text NOT NULL,
    record      jsonb NOT NULL, -- a risk.DepositRecord
    CONSTRAINT deposit_decisions_outcome_known CHECK (outcome IN ('CREDIT', 'WAIT', 'FLAG'))
);
CREATE INDEX deposit_decisions_of_deposit ON deposit_decisions (deposit_id, decision_id);
SELECT coffer_tenant('deposit_decisions', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER deposit_decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON deposit_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

ALTER TABLE deposits
    ADD COLUMN screen_after  timestamptz,            -- when it is looked at again
    ADD COLUMN screen_tries  integer NOT NULL DEFAULT 0,
    ADD COLUMN risk_of_funds text,
    ADD COLUMN flag_reason   jsonb,
    ADD COLUMN flagged_at    timestamptz,
    ADD COLUMN return_to     text,                   -- the sender, when there is one, as of the moment it was flagged
    ADD COLUMN return_risk   text,
    DROP CONSTRAINT deposits_status_known,
    ADD CONSTRAINT deposits_status_known CHECK (status IN
        ('DETECTED', 'CONFIRMING', 'SCREENING', 'CREDITED', 'REVERSED', 'ORPHANED', 'UNSUPPORTED', 'BELOW_MINIMUM',
         'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED')) NOT VALID,
    DROP CONSTRAINT deposits_final_has_proof,
    ADD CONSTRAINT deposits_final_has_proof CHECK ((proof_id IS NOT NULL) = (chain_status = 'FINALIZED' OR chain_status = 'REORGED'
        AND status IN ('CREDITED', 'REVERSED', 'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED'))) NOT VALID,
    ADD CONSTRAINT deposits_flagged_whole CHECK (
        is_flagged = (flagged_at IS NOT NULL) AND is_flagged = (risk_of_funds IS NOT NULL) AND is_flagged = (flag_reason IS NOT NULL)
        AND (is_flagged OR status NOT IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED'))) NOT VALID,
    ADD CONSTRAINT deposits_return_risk_known CHECK (return_risk IN ('NONE', 'MULTIPLE_INPUTS', 'CONTRACT', 'KNOWN_EXCHANGE', 'SWAP_SOLVER')) NOT VALID,
    ADD CONSTRAINT deposits_risk_known CHECK (risk_of_funds IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE', 'UNKNOWN')) NOT VALID;

-- What was decided about a flagged deposit, and how it went. One attempt that came to
-- nothing before anything could reach the chain makes room for the next; every other
-- stands for ever, alone.
CREATE TABLE deposit_resolutions (
    resolution_id   text PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organizations,
    deposit_id      text NOT NULL REFERENCES deposits,
    decision        text NOT NULL,
    status          text NOT NULL,
    reason          text,            -- of a redirect
    reference       text,            -- likewise
    note            text,
    decided_at      timestamptz NOT NULL,
    decided_by_kind text NOT NULL,
    decided_by      text NOT NULL,
    decided_by_name text,
    chain           text NOT NULL,
    wallet_id       text NOT NULL,
    mint_id         integer NOT NULL REFERENCES mints,
    to_address      text,
    sent            numeric(78,0),   -- what leaves: the deposit, less the fee of a native coin
    fee_kept        numeric(78,0) NOT NULL DEFAULT 0,
    tx_hash         text,
    network_fee     numeric(78,0),   -- what the transfer cost, in native units
    ended_at        timestamptz,
    failure         text,
    failure_message text,
    CONSTRAINT deposit_resolutions_decision_known CHECK (decision IN ('APPROVED', 'REJECTED', 'REDIRECTED')),
    CONSTRAINT deposit_resolutions_status_known CHECK (status IN ('OPEN', 'STUCK', 'DONE', 'FAILED')),
    CONSTRAINT deposit_resolutions_redirect_reasoned CHECK (
        decision <> 'REDIRECTED' OR reason IN ('COMPLIANCE_HOLD', 'LAW_ENFORCEMENT') AND reference <> '' AND decided_by_kind = 'OPERATOR'),
    CONSTRAINT deposit_resolutions_sent CHECK (
        CASE decision WHEN 'APPROVED' THEN sent IS NULL AND to_address IS NULL AND status = 'DONE'
            ELSE status = 'FAILED' AND ended_at IS NOT NULL OR sent > 0 AND fee_kept >= 0 AND to_address IS NOT NULL END),
    CONSTRAINT deposit_resolutions_ended CHECK ((status IN ('DONE', 'FAILED')) = (ended_at IS NOT NULL)),
    CONSTRAINT deposit_resolutions_failed CHECK ((status = 'FAILED') = (failure IS NOT NULL))
);
CREATE UNIQUE INDEX deposit_resolutions_one ON deposit_resolutions (deposit_id) WHERE status <> 'FAILED';
CREATE INDEX deposit_resolutions_of_deposit ON deposit_resolutions (deposit_id, decided_at, resolution_id);
SELECT coffer_tenant('deposit_resolutions', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');

-- +goose StatementBegin
CREATE FUNCTION deposit_resolutions_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.resolution_id, NEW.org_id, NEW.deposit_id, NEW.decision, NEW.reason, NEW.reference, NEW.note, NEW.decided_at, NEW.decided_by_kind, NEW.decided_by,
            NEW.chain, NEW.wallet_id, NEW.mint_id, NEW.to_address, NEW.sent, NEW.fee_kept) IS DISTINCT FROM
       (OLD.resolution_id, OLD.org_id, OLD.deposit_id, OLD.decision, OLD.reason, OLD.reference, OLD.note, OLD.decided_at, OLD.decided_by_kind, OLD.decided_by,
            OLD.chain, OLD.wallet_id, OLD.mint_id, OLD.to_address, OLD.sent, OLD.fee_kept)
       OR OLD.status IN ('DONE', 'FAILED') OR (OLD.status, NEW.status) NOT IN (('OPEN', 'OPEN'), ('OPEN', 'STUCK'), ('OPEN', 'DONE'), ('OPEN', 'FAILED'),
            ('STUCK', 'STUCK'), ('STUCK', 'DONE'), ('STUCK', 'FAILED')) THEN
        RAISE EXCEPTION 'resolution % is what it was decided to be', OLD.resolution_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_fixed';
    END IF;
    RETURN NEW;
END $$;

-- Exactly one resolution, carried out as it was decided.
CREATE FUNCTION deposit_resolutions_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    r  record;
    d  record;
    o  record;
BEGIN
    SELECT * INTO r FROM deposit_resolutions WHERE resolution_id = NEW.resolution_id;
    SELECT org_id, status, chain, wallet_id, mint_id, amount, return_to INTO d FROM deposits WHERE deposit_id = r.deposit_id;
    SELECT status, purpose INTO o FROM dispatch_orders WHERE order_id = r.resolution_id;
    IF (d.org_id, d.chain, d.wallet_id, d.mint_id) IS DISTINCT FROM (r.org_id, r.chain, r.wallet_id, r.mint_id)
        OR r.status <> 'FAILED' AND (CASE r.decision
            WHEN 'APPROVED' THEN d.status NOT IN ('CREDITED', 'REVERSED')
            WHEN 'REJECTED' THEN r.to_address IS DISTINCT FROM d.return_to OR r.sent + r.fee_kept <> d.amount
                OR d.status <> CASE r.status WHEN 'DONE' THEN 'REJECTED' WHEN 'STUCK' THEN 'RESOLUTION_STUCK' ELSE 'REJECTING' END
            ELSE r.sent + r.fee_kept <> d.amount
                OR d.status <> CASE r.status WHEN 'DONE' THEN 'REDIRECTED' WHEN 'STUCK' THEN 'RESOLUTION_STUCK' ELSE 'REDIRECTING' END
            END)
        OR r.decision <> 'APPROVED' AND r.status <> 'FAILED' AND o.purpose IS DISTINCT FROM 'RETURN'
        OR r.decision <> 'APPROVED' AND r.status = 'DONE' AND o.status IS DISTINCT FROM 'PAID' THEN
        RAISE EXCEPTION 'resolution % of deposit % says something else than the deposit or its order', r.resolution_id, r.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_as_decided';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposit_resolutions_keep BEFORE UPDATE ON deposit_resolutions FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_keep();
CREATE TRIGGER deposit_resolutions_stay BEFORE DELETE OR TRUNCATE ON deposit_resolutions FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE CONSTRAINT TRIGGER deposit_resolutions_as_decided AFTER INSERT OR UPDATE ON deposit_resolutions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_follow();

-- What is flagged stays flagged in the row for ever, its sender with it, and leaves its
-- state only by a resolution.
-- +goose StatementBegin
CREATE FUNCTION deposits_flag_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.is_flagged AND (NEW.is_flagged, NEW.risk_of_funds, NEW.flag_reason, NEW.flagged_at, NEW.return_to, NEW.return_risk, NEW.from_address)
        IS DISTINCT FROM (OLD.is_flagged, OLD.risk_of_funds, OLD.flag_reason, OLD.flagged_at, OLD.return_to, OLD.return_risk, OLD.from_address)
        OR NOT OLD.is_flagged AND NEW.is_flagged AND (OLD.status, NEW.status) <> ('SCREENING', 'FLAGGED')
        OR OLD.status IN ('REJECTED', 'REDIRECTED') AND NEW.status <> OLD.status
        OR OLD.status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK') AND NEW.status <> OLD.status
            AND (OLD.status, NEW.status) NOT IN (
                ('FLAGGED', 'CREDITED'), ('FLAGGED', 'REJECTING'), ('FLAGGED', 'REDIRECTING'),
                ('REJECTING', 'FLAGGED'), ('REJECTING', 'RESOLUTION_STUCK'), ('REJECTING', 'REJECTED'),
                ('REDIRECTING', 'FLAGGED'), ('REDIRECTING', 'RESOLUTION_STUCK'), ('REDIRECTING', 'REDIRECTED'),
                ('RESOLUTION_STUCK', 'REJECTING'), ('RESOLUTION_STUCK', 'REDIRECTING'), ('RESOLUTION_STUCK', 'REJECTED'), ('RESOLUTION_STUCK', 'REDIRECTED')) THEN
        RAISE EXCEPTION 'deposit % is flagged', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_flag_fixed';
    END IF;
    RETURN NEW;
END $$;

-- A flag is not lifted and a return not begun without the row that says who decided it.
CREATE FUNCTION deposits_resolved() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    d    record;
    held boolean;
    let  boolean;
    by_  record;
BEGIN
    SELECT deposit_id, status, is_flagged INTO d FROM deposits WHERE deposit_id = NEW.deposit_id;
    SELECT decision, status INTO by_ FROM deposit_resolutions WHERE deposit_id = d.deposit_id AND status <> 'FAILED';
    held := EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_HOLD' AND cause_id = d.deposit_id AND leg = 0);
    let := EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_RELEASE' AND cause_id = d.deposit_id AND leg = 0);
    IF NOT held
        OR let <> (d.status IN ('CREDITED', 'REVERSED', 'REJECTED', 'REDIRECTED'))
        OR (CASE d.status WHEN 'FLAGGED' THEN by_.decision IS NOT NULL
            WHEN 'CREDITED' THEN by_.decision IS DISTINCT FROM 'APPROVED'
            WHEN 'REVERSED' THEN by_.decision IS DISTINCT FROM 'APPROVED'
            WHEN 'REJECTING' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REJECTED', 'OPEN')
            WHEN 'REJECTED' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REJECTED', 'DONE')
            WHEN 'REDIRECTING' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REDIRECTED', 'OPEN')
            WHEN 'REDIRECTED' THEN (by_.decision, by_.status) IS DISTINCT FROM ('REDIRECTED', 'DONE')
            ELSE by_.status IS DISTINCT FROM 'STUCK' END) THEN
        RAISE EXCEPTION 'deposit % is %, and its resolution or the books say something else', d.deposit_id, d.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_resolved';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_flag_keep BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.is_flagged OR NEW.is_flagged) EXECUTE FUNCTION deposits_flag_keep();
CREATE CONSTRAINT TRIGGER deposits_resolved AFTER UPDATE OF status ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.is_flagged) EXECUTE FUNCTION deposits_resolved();

-- In the books a flagged deposit is the organization's custody and nobody's balance.
ALTER TABLE ledger_transfers
    DROP CONSTRAINT ledger_transfers_cause_known,
    ADD CONSTRAINT ledger_transfers_cause_known CHECK (cause_kind IN
        ('DEPOSIT', 'DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE', 'DEPOSIT_REVERSAL', 'WITHDRAWAL_HOLD', 'WITHDRAWAL_END', 'WITHDRAWAL_FEE',
         'NETWORK_FEE', 'FEE_CHANGE', 'RESTORE', 'TRANSFER')) NOT VALID;
-- +goose StatementBegin
CREATE FUNCTION ledger_deposit_hold_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (p.org_id, p.mint_id) = (NEW.org_id, NEW.mint_id) AND p.is_flagged AND CASE NEW.cause_kind
                WHEN 'DEPOSIT_HOLD' THEN p.amount = NEW.amount AND p.status = 'FLAGGED' AND (d.kind, c.kind) = ('CUSTODY', 'SUSPENSE')
                WHEN 'DEPOSIT_RELEASE' THEN p.amount = NEW.amount AND p.status IN ('CREDITED', 'REJECTED', 'REDIRECTED') AND (d.kind, c.kind) = ('SUSPENSE', 'CUSTODY')
                ELSE p.status IN ('REJECTED', 'REDIRECTED') AND (d.kind, c.kind, c.subject) = ('CUSTODY', 'PRODUCT', 'CUSTODIAL')
                    AND NEW.amount = (SELECT r.fee_kept FROM deposit_resolutions r WHERE r.deposit_id = p.deposit_id AND r.status = 'DONE') END
        FROM deposits p, ledger_accounts d, ledger_accounts c
        WHERE p.deposit_id = NEW.cause_id COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_hold';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_transfers_of_hold AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('DEPOSIT_HOLD', 'DEPOSIT_RELEASE', 'DEPOSIT_FEE')) EXECUTE FUNCTION ledger_deposit_hold_follow();

-- A return is an order like the others: out of the address that was paid, to whom the
-- resolution says.
ALTER TABLE dispatch_orders
    DROP CONSTRAINT dispatch_orders_purpose_known,
    ADD CONSTRAINT dispatch_orders_purpose_known CHECK (
        CASE purpose WHEN 'PAYMENT' THEN to_wallet_id IS NULL
                     WHEN 'RETURN' THEN to_wallet_id IS NULL
                     WHEN 'SWEEP' THEN to_wallet_id IS NOT NULL
                     WHEN 'GAS' THEN to_wallet_id IS NOT NULL AND contract = ''
                     ELSE false END) NOT VALID;
-- +goose StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('dispatch_orders_follow()'::regprocedure);
    now text := replace(was, $q$    ELSIF o.purpose = 'SWEEP' THEN$q$, $q$    ELSIF o.purpose = 'RETURN' THEN
        SELECT (r.org_id, r.chain, r.wallet_id, r.mint_id, r.sent, r.to_address) = (o.org_id, o.chain, o.wallet_id, o.mint_id, o.amount, o.to_address)
            AND CASE o.status WHEN 'PAID' THEN r.status = 'DONE'
                WHEN 'FAILED' THEN r.status IN ('STUCK', 'FAILED')
                WHEN 'REFUSED' THEN r.status = 'FAILED'
                WHEN 'WITHDRAWN' THEN r.status = 'FAILED'
                ELSE r.status IN ('OPEN', 'STUCK') END
        INTO caused FROM deposit_resolutions r WHERE r.resolution_id = o.order_id;
    ELSIF o.purpose = 'SWEEP' THEN$q$);
BEGIN
    IF position('deposit_resolutions' IN now) = 0 THEN
        RAISE EXCEPTION 'dispatch_orders_follow does not ask of sweeps what it did';
    END IF;
    EXECUTE now;
END $$;
-- +goose StatementEnd
