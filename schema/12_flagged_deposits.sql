-- Decisions about deposits, and the resolutions of flagged ones (decision 0040).
--
-- A final deposit is decided before it counts. A flagged deposit stays on its address until a
-- person approves it, sends it back or sends it elsewhere. Exactly one of those decisions is
-- carried out.

-- The inputs of every decision, so that it can be made again.
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

-- What was decided about a flagged deposit, and how it went. An attempt that failed before
-- anything could reach the chain makes room for the next one. Any other attempt is the only
-- one that the deposit ever has.
CREATE TABLE deposit_resolutions (
    resolution_id   text PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organizations,
    deposit_id      text NOT NULL REFERENCES deposits,
    decision        text NOT NULL,
    status          text NOT NULL,
    reason          text,          -- of a redirect
    reference       text,          -- of a redirect
    note            text,
    decided_at      timestamptz NOT NULL,
    decided_by_kind text NOT NULL,
    decided_by      text NOT NULL,
    decided_by_name text,
    chain           text NOT NULL,
    wallet_id       text NOT NULL,
    mint_id         integer NOT NULL REFERENCES mints,
    to_address      text,
    sent            numeric(78,0), -- what leaves: the deposit, less the fee of a native coin
    fee_kept        numeric(78,0) NOT NULL DEFAULT 0,
    tx_hash         text,
    network_fee     numeric(78,0), -- what the transfer cost, in native units
    ended_at        timestamptz,
    failure         text,
    failure_message text,
    -- The key that the order of a return refers to.
    CONSTRAINT deposit_resolutions_of_terms UNIQUE (resolution_id, org_id, chain, wallet_id, mint_id, sent, to_address),
    CONSTRAINT deposit_resolutions_decision_known CHECK (decision IN ('APPROVED', 'REJECTED', 'REDIRECTED')),
    CONSTRAINT deposit_resolutions_status_known CHECK (status IN ('OPEN', 'STUCK', 'DONE', 'FAILED')),
    CONSTRAINT deposit_resolutions_redirect_reasoned CHECK (
        decision <> 'REDIRECTED'
        OR reason IN ('COMPLIANCE_HOLD', 'LAW_ENFORCEMENT') AND reference <> '' AND decided_by_kind = 'OPERATOR'),
    CONSTRAINT deposit_resolutions_sent CHECK (
        CASE decision
            WHEN 'APPROVED' THEN sent IS NULL AND to_address IS NULL AND status = 'DONE'
            ELSE status = 'FAILED' AND ended_at IS NOT NULL OR sent > 0 AND fee_kept >= 0 AND to_address IS NOT NULL
        END),
    CONSTRAINT deposit_resolutions_ended CHECK ((status IN ('DONE', 'FAILED')) = (ended_at IS NOT NULL)),
    CONSTRAINT deposit_resolutions_failed CHECK ((status = 'FAILED') = (failure IS NOT NULL))
);
-- Rule DEP-30.
CREATE UNIQUE INDEX deposit_resolutions_one ON deposit_resolutions (deposit_id) WHERE status <> 'FAILED';
CREATE INDEX deposit_resolutions_of_deposit ON deposit_resolutions (deposit_id, decided_at, resolution_id);
CREATE INDEX deposit_resolutions_of_mint ON deposit_resolutions (org_id, mint_id, decided_at);
SELECT coffer_tenant('deposit_resolutions', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION deposit_resolutions_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
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
CREATE TRIGGER deposit_resolutions_keep BEFORE UPDATE ON deposit_resolutions
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_keep();
CREATE TRIGGER deposit_resolutions_stay BEFORE DELETE OR TRUNCATE ON deposit_resolutions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whether a resolution is where its order is. NULL: it has no order.
CREATE FUNCTION resolution_in_step(decision text, status text, order_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE status
    WHEN 'OPEN' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')
    WHEN 'STUCK' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK', 'FAILED')
    WHEN 'DONE' THEN decision = 'APPROVED' AND order_status IS NULL OR order_status = 'PAID'
    WHEN 'FAILED' THEN coalesce(order_status, 'FAILED') IN ('FAILED', 'REFUSED', 'WITHDRAWN')
END;

-- A resolution, its deposit and its order say the same: one resolution, carried out as it
-- was decided. What the order pays is in its key to the resolution.
CREATE FUNCTION deposit_resolutions_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    r  record;
    d  record;
    o  record;
BEGIN
    SELECT * INTO r FROM deposit_resolutions WHERE resolution_id = NEW.resolution_id;
    SELECT org_id, status, chain, wallet_id, mint_id, amount, return_to INTO d FROM deposits WHERE deposit_id = r.deposit_id;
    SELECT status INTO o FROM dispatch_orders WHERE order_id = r.resolution_id AND purpose = 'RETURN';
    IF (d.org_id, d.chain, d.wallet_id, d.mint_id) IS DISTINCT FROM (r.org_id, r.chain, r.wallet_id, r.mint_id)
        OR r.status <> 'FAILED' AND (CASE r.decision
            WHEN 'APPROVED' THEN d.status NOT IN ('CREDITED', 'REVERSED')
            WHEN 'REJECTED' THEN r.to_address IS DISTINCT FROM d.return_to OR r.sent + r.fee_kept <> d.amount
                OR d.status <> CASE r.status WHEN 'DONE' THEN 'REJECTED' WHEN 'STUCK' THEN 'RESOLUTION_STUCK' ELSE 'REJECTING' END
            ELSE r.sent + r.fee_kept <> d.amount
                OR d.status <> CASE r.status WHEN 'DONE' THEN 'REDIRECTED' WHEN 'STUCK' THEN 'RESOLUTION_STUCK' ELSE 'REDIRECTING' END
            END)
        OR resolution_in_step(r.decision, r.status, o.status) IS NOT TRUE THEN
        RAISE EXCEPTION 'resolution % of deposit % says something else than the deposit or its order', r.resolution_id, r.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_as_decided';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposit_resolutions_as_decided AFTER INSERT OR UPDATE ON deposit_resolutions
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_follow();

-- A flagged deposit is decided anew only after the signer voided the refused or recalled
-- order of the decision before (decision 0075). Else the deposit could be credited and
-- sent away. A resolution that a restore writes again was decided already. Rule DEP-50.
CREATE FUNCTION deposit_resolutions_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.decided_by_kind, NEW.decided_by) IS DISTINCT FROM ('OPERATOR', 'restore') AND EXISTS (
        SELECT FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
        WHERE r.deposit_id = NEW.deposit_id AND r.resolution_id <> NEW.resolution_id AND r.status = 'FAILED' AND o.status IN ('REFUSED', 'WITHDRAWN')
            AND NOT EXISTS (SELECT FROM dispatch_voids v WHERE v.order_id = o.order_id AND v.journal_seq IS NOT NULL)) THEN
        RAISE EXCEPTION 'deposit % was to be sent away once, and the signer has not journaled that this is void', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_void_first';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposit_resolutions_void_first BEFORE INSERT ON deposit_resolutions
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_void_first();
CREATE TRIGGER deposit_resolutions_written_once BEFORE UPDATE ON deposit_resolutions FOR EACH ROW
    WHEN (NEW.decided_by_name IS DISTINCT FROM OLD.decided_by_name)
    EXECUTE FUNCTION refuse_row_change();

-- A return that a person asked for and that waits for signatures, because the organization's rule asks for people. With
-- enough of them it becomes the resolution of the same id. Until then the deposit is FLAGGED. Rule CO-145.
CREATE TABLE return_requests (
    request_id    text COLLATE "C" NOT NULL,
    org_id        text NOT NULL,
    deposit_id    text NOT NULL,
    status        text NOT NULL,
    to_address    text NOT NULL,
    sent          numeric(78,0) NOT NULL,
    fee_kept      numeric(78,0) NOT NULL,
    note          text,
    asked_at      timestamptz NOT NULL,
    asked_by_kind text NOT NULL,
    asked_by      text NOT NULL,
    asked_by_name text,
    ended_at      timestamptz,
    ended_by_kind text,          -- who signed last or took it back
    ended_by      text,
    decision      text NOT NULL DEFAULT 'REJECTED', -- REDIRECTED: operators sign it, and the address is not the sender's
    reason        text,          -- of a redirect
    reference     text,          -- of a redirect
    CONSTRAINT return_requests_pkey PRIMARY KEY (request_id),
    CONSTRAINT return_requests_own UNIQUE (org_id, request_id),
    CONSTRAINT return_requests_organization FOREIGN KEY (org_id) REFERENCES organizations,
    CONSTRAINT return_requests_deposit FOREIGN KEY (deposit_id) REFERENCES deposits,
    -- RESTORED: the signer's journal has the return, and this database may lack signatures of it.
    CONSTRAINT return_requests_status_known CHECK (status IN ('OPEN', 'SIGNED', 'WITHDRAWN', 'RESTORED')),
    CONSTRAINT return_requests_sent CHECK (sent > 0 AND fee_kept >= 0 AND to_address <> ''),
    CONSTRAINT return_requests_by_people CHECK (
        asked_by_kind IN ('USER', 'OPERATOR') AND asked_by <> '' AND char_length(note) BETWEEN 1 AND 500),
    CONSTRAINT return_requests_decision CHECK (
        CASE decision
            WHEN 'REJECTED' THEN num_nonnulls(reason, reference) = 0
            WHEN 'REDIRECTED' THEN num_nonnulls(reason, reference) = 2 AND asked_by_kind = 'OPERATOR'
                AND reason IN ('COMPLIANCE_HOLD', 'LAW_ENFORCEMENT') AND char_length(reference) BETWEEN 1 AND 500
            ELSE false
        END),
    CONSTRAINT return_requests_ended CHECK (
        num_nonnulls(ended_at, ended_by_kind, ended_by) = CASE status WHEN 'OPEN' THEN 0 ELSE 3 END)
);
CREATE UNIQUE INDEX return_requests_one_open ON return_requests (deposit_id) WHERE status = 'OPEN';
CREATE INDEX return_requests_of_deposit ON return_requests (deposit_id, asked_at, request_id);
SELECT coffer_tenant('return_requests', 'SELECT',
    'SELECT, INSERT, UPDATE (status, ended_at, ended_by_kind, ended_by)');
CREATE TRIGGER return_requests_stay BEFORE DELETE OR TRUNCATE ON return_requests
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The signatures of a requested return. One that ended may be given again.
CREATE TABLE return_signatures (
    org_id        text NOT NULL,
    request_id    text COLLATE "C" NOT NULL,
    approver_kind text NOT NULL,
    approver_id   text COLLATE "C" NOT NULL,
    not_after     timestamptz NOT NULL,
    at            timestamptz NOT NULL,
    digest        text NOT NULL,  -- hex SHA-256 of the terms that were signed
    mac           bytea NOT NULL, -- of the digest and the person, by the server's key
    signature     jsonb NOT NULL, -- of the words, by the person's passkey
    CONSTRAINT return_signatures_pkey PRIMARY KEY (request_id, approver_kind, approver_id, not_after),
    CONSTRAINT return_signatures_request FOREIGN KEY (org_id, request_id) REFERENCES return_requests (org_id, request_id),
    CONSTRAINT return_signatures_by_people CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> ''),
    CONSTRAINT return_signatures_signature CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId'),
    CONSTRAINT return_signatures_ahead CHECK (not_after > at)
);
SELECT coffer_tenant('return_signatures', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER return_signatures_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON return_signatures
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A signature is of a return that waits for it, and not by the person who asked for the return. People of the
-- organization sign a return, and operators a redirect. Rule SA-17.
CREATE FUNCTION return_signatures_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    q record;
BEGIN
    SELECT status, decision, asked_by_kind, asked_by INTO q
    FROM return_requests WHERE org_id = NEW.org_id AND request_id = NEW.request_id;
    IF (q.status = 'OPEN') IS NOT TRUE THEN
        RAISE EXCEPTION 'return % does not wait for this signature', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_waited_for';
    END IF;
    IF (NEW.approver_kind = 'OPERATOR') <> (q.decision = 'REDIRECTED') THEN
        RAISE EXCEPTION 'return % is signed by other people', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_by_people';
    END IF;
    IF (q.asked_by_kind, q.asked_by) = (NEW.approver_kind, NEW.approver_id) THEN
        RAISE EXCEPTION 'return % was asked for by the same person', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_signatures_not_by_maker';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER return_signatures_fit BEFORE INSERT ON return_signatures
    FOR EACH ROW EXECUTE FUNCTION return_signatures_fit();

-- A request is of a flagged deposit and of all of its amount, and a return goes to its sender. It never changes, and its
-- end is permanent. A signed one has a signature.
CREATE FUNCTION return_requests_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'OPEN' OR NOT EXISTS (
            SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id AND d.org_id = NEW.org_id AND d.status = 'FLAGGED'
                AND (NEW.decision = 'REDIRECTED' OR d.return_to = NEW.to_address)
                AND d.amount = NEW.sent + NEW.fee_kept) THEN
            RAISE EXCEPTION 'return % is of no flagged deposit', NEW.request_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'return_requests_begin';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status <> 'OPEN'
       OR (NEW.request_id, NEW.org_id, NEW.deposit_id, NEW.to_address, NEW.sent, NEW.fee_kept, NEW.note, NEW.asked_at,
           NEW.asked_by_kind, NEW.asked_by, NEW.asked_by_name, NEW.decision, NEW.reason, NEW.reference)
       IS DISTINCT FROM (OLD.request_id, OLD.org_id, OLD.deposit_id, OLD.to_address, OLD.sent, OLD.fee_kept, OLD.note, OLD.asked_at,
           OLD.asked_by_kind, OLD.asked_by, OLD.asked_by_name, OLD.decision, OLD.reason, OLD.reference)
       OR NEW.status = 'SIGNED' AND NOT EXISTS (SELECT FROM return_signatures g WHERE g.request_id = NEW.request_id) THEN
        RAISE EXCEPTION 'return % stays as it was asked for', OLD.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_requests_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER return_requests_keep BEFORE INSERT OR UPDATE ON return_requests
    FOR EACH ROW EXECUTE FUNCTION return_requests_keep();

-- While a return waits for signatures, its deposit is not decided otherwise. A resolution that has the id of a request
-- is what was asked for. One that a restore writes again was decided already.
CREATE FUNCTION deposit_resolutions_as_asked() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    q record;
BEGIN
    SELECT status, org_id, deposit_id, to_address, sent, fee_kept, decision, reason, reference INTO q
    FROM return_requests WHERE request_id = NEW.resolution_id;
    IF FOUND AND (q.status NOT IN ('SIGNED', 'RESTORED') OR NEW.decision <> q.decision
            OR q.status = 'SIGNED' AND (q.reason, q.reference) IS DISTINCT FROM (NEW.reason, NEW.reference)
            OR (q.org_id, q.deposit_id, q.to_address, q.sent, q.fee_kept)
            IS DISTINCT FROM (NEW.org_id, NEW.deposit_id, NEW.to_address, NEW.sent, NEW.fee_kept))
        OR NEW.status <> 'FAILED' AND (NEW.decided_by_kind, NEW.decided_by) IS DISTINCT FROM ('OPERATOR', 'restore')
            AND EXISTS (SELECT FROM return_requests w WHERE w.deposit_id = NEW.deposit_id AND w.status = 'OPEN') THEN
        RAISE EXCEPTION 'a return of deposit % waits for signatures', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_resolutions_as_asked';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposit_resolutions_as_asked BEFORE INSERT ON deposit_resolutions
    FOR EACH ROW EXECUTE FUNCTION deposit_resolutions_as_asked();

-- The flag of a deposit, its senders and the MAC stay in the row. The deposit leaves its
-- state by a resolution, or because a break of finality took it: then it is ORPHANED, without
-- a resolution. There is no flag without a MAC. Rule DEP-35.
CREATE FUNCTION deposits_flag_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.is_flagged AND (NEW.is_flagged, NEW.risk_of_funds, NEW.flag_reason, NEW.flagged_at, NEW.return_to, NEW.return_risk, NEW.from_address, NEW.senders, NEW.return_mac)
        IS DISTINCT FROM (OLD.is_flagged, OLD.risk_of_funds, OLD.flag_reason, OLD.flagged_at, OLD.return_to, OLD.return_risk, OLD.from_address, OLD.senders, OLD.return_mac)
        OR NOT OLD.is_flagged AND NEW.is_flagged AND ((OLD.status, NEW.status) <> ('SCREENING', 'FLAGGED') OR NEW.return_mac IS NULL)
        OR OLD.status IN ('REJECTED', 'REDIRECTED') AND NEW.status <> OLD.status
        OR OLD.status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK') AND NEW.status <> OLD.status
            AND (OLD.status, NEW.status) NOT IN (
                ('FLAGGED', 'ORPHANED'), ('RESOLUTION_STUCK', 'ORPHANED'), ('FLAGGED', 'CREDITED'), ('FLAGGED', 'REJECTING'), ('FLAGGED', 'REDIRECTING'),
                ('REJECTING', 'FLAGGED'), ('REJECTING', 'RESOLUTION_STUCK'), ('REJECTING', 'REJECTED'),
                ('REDIRECTING', 'FLAGGED'), ('REDIRECTING', 'RESOLUTION_STUCK'), ('REDIRECTING', 'REDIRECTED'),
                ('RESOLUTION_STUCK', 'REJECTING'), ('RESOLUTION_STUCK', 'REDIRECTING'), ('RESOLUTION_STUCK', 'REJECTED'), ('RESOLUTION_STUCK', 'REDIRECTED')) THEN
        RAISE EXCEPTION 'deposit % is flagged', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_flag_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_flag_keep BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.is_flagged OR NEW.is_flagged) EXECUTE FUNCTION deposits_flag_keep();

-- A flag is lifted, and a return begun, only with the row that says who decided it, and with
-- the postings of the hold.
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
        OR let <> (d.status IN ('ORPHANED', 'CREDITED', 'REVERSED', 'REJECTED', 'REDIRECTED'))
        OR (CASE d.status WHEN 'ORPHANED' THEN by_.decision IS NOT NULL WHEN 'FLAGGED' THEN by_.decision IS NOT NULL
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
CREATE CONSTRAINT TRIGGER deposits_resolved AFTER UPDATE OF status ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.is_flagged) EXECUTE FUNCTION deposits_resolved();

-- A flagged deposit is decided only while its block is final. Else it would be credited or
-- sent away as money that no chain has.
CREATE FUNCTION deposits_refuse_reorged() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'deposit % is on no final block at the moment', OLD.deposit_id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_decided_when_final';
END $$;
CREATE TRIGGER deposits_decided_when_final BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.status IN ('FLAGGED', 'RESOLUTION_STUCK') AND NEW.status IN ('CREDITED', 'REJECTING', 'REDIRECTING')
        AND NEW.chain_status <> 'FINALIZED')
    EXECUTE FUNCTION deposits_refuse_reorged();

-- A flagged deposit is given up once, and only after the new fork was scanned so far that it
-- would have been found.
CREATE FUNCTION deposits_gone_in_time() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.status = 'ORPHANED' AND NEW.status <> OLD.status OR OLD.lost_at IS NOT NULL AND (NEW.lost_at, NEW.proof_id, NEW.height, NEW.block_hash, NEW.chain_status)
        IS DISTINCT FROM (OLD.lost_at, OLD.proof_id, OLD.height, OLD.block_hash, OLD.chain_status) THEN
        RAISE EXCEPTION 'deposit % is gone', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.lost_at IS NULL AND (NEW.lost_at IS NOT NULL OR NEW.status = 'ORPHANED' AND OLD.status <> 'ORPHANED')
        AND (OLD.chain_status <> 'REORGED' OR EXISTS (
            SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id) OR EXISTS (
            SELECT FROM finality_breaks b
            JOIN finality_proofs p ON p.proof_id = OLD.proof_id AND b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height
            LEFT JOIN scan_cursors c ON c.chain = b.chain AND c.height >= b.settle_height AND c.forked_above IS NULL
            WHERE c.chain IS NULL)) THEN
        RAISE EXCEPTION 'deposit % may still be found again', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_gone_in_time';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_gone_in_time BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.is_flagged AND (OLD.lost_at IS NOT NULL OR NEW.lost_at IS NOT NULL
        OR NEW.status = 'ORPHANED' OR OLD.status = 'ORPHANED'))
    EXECUTE FUNCTION deposits_gone_in_time();
