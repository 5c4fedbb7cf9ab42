-- Batch payouts: lists of payments of the organization's own money that people approve as a whole, by one hash.
--
-- A batch is made with its rows, which never change. Its submission holds the whole sum (BATCH_HELD). Once people
-- approved the hash, each row becomes a withdrawal of its own, which takes its amount out of what is held.

CREATE TABLE payout_batches (
    batch_id        text PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organizations,
    version         bigint NOT NULL,          -- counts the changes
    mode            text NOT NULL,
    row_count       integer NOT NULL,
    content_hash    bytea NOT NULL,           -- what people approve
    list_hash       bytea NOT NULL,           -- finds the same list again; without salts, so it is never shown
    header          jsonb NOT NULL,           -- of which content_hash is the hash, with the root of the rows
    idempotency_key text COLLATE "C",         -- NULL: the caller gave none
    idempotency_key_hash text,                -- hex SHA-256 of the key
    request_digest  bytea NOT NULL,           -- of the caller's parameters
    maker_kind      text NOT NULL,            -- who made it, and never approves it
    maker_id        text COLLATE "C" NOT NULL,
    created_at      timestamptz NOT NULL,
    status          text NOT NULL,
    submitter_kind  text,                     -- who submitted it, and does not approve it either
    submitter_id    text COLLATE "C",
    submitted_at    timestamptz,
    approvals_required smallint NOT NULL DEFAULT 0, -- from the submission on
    request_mac     bytea,                    -- of the content hash and this number, by the server's key
    approved_at     timestamptz,
    ended_at        timestamptz,
    problem         text,                     -- why it is INVALID or REJECTED
    look_at         timestamptz,              -- when the worker looks at it; NULL: it waits for a person, or ended
    updated_at      timestamptz NOT NULL,
    list_columns    text[] NOT NULL DEFAULT '{}', -- that the list names, in its order
    is_decimal      boolean NOT NULL DEFAULT false, -- the list has amounts in whole tokens
    bad_count       integer NOT NULL DEFAULT 0, -- rows of the list that cannot be read
    retry_of        text,                     -- the batch whose unpaid rows it has
    submitted_hash  bytea,                    -- the content hash at the submission; a PARTIAL batch may get another one
    duplicate_of    text,                     -- the batch of the same list that the submission acknowledged
    paused_at       timestamptz,              -- since when it gets no payments
    pause_reason    text,                     -- of a pause by the service
    stopped_at      timestamptz,              -- when a person cancelled it while it was being paid
    stopper_kind    text,
    stopper_id      text COLLATE "C",
    auto_below      numeric(38,18),           -- batchAutoApproveUsd, by which it needed no person
    auto_value      numeric(38,18),           -- what it was worth then, in dollars
    CONSTRAINT payout_batches_of_organization UNIQUE (org_id, batch_id),
    CONSTRAINT payout_batches_key_unique UNIQUE (org_id, idempotency_key_hash),
    CONSTRAINT payout_batches_key_hashed CHECK (
        (idempotency_key_hash IS NULL) = (idempotency_key IS NULL)
        AND (idempotency_key_hash IS NULL OR idempotency_key_hash ~ '^[0-9a-f]{64}$')),
    CONSTRAINT payout_batches_versioned CHECK (version > 0 AND updated_at >= created_at),
    CONSTRAINT payout_batches_mode_known CHECK (mode IN ('STRICT', 'PARTIAL')),
    CONSTRAINT payout_batches_bounded CHECK (row_count BETWEEN 1 AND 5000),
    CONSTRAINT payout_batches_list_bounded CHECK (bad_count BETWEEN 0 AND 5000 - row_count AND cardinality(list_columns) <= 6),
    CONSTRAINT payout_batches_retry FOREIGN KEY (org_id, retry_of) REFERENCES payout_batches (org_id, batch_id),
    CONSTRAINT payout_batches_duplicate FOREIGN KEY (org_id, duplicate_of) REFERENCES payout_batches (org_id, batch_id),
    CONSTRAINT payout_batches_hashed CHECK (octet_length(content_hash) = 32 AND octet_length(list_hash) = 32),
    CONSTRAINT payout_batches_maker_known CHECK (maker_kind IN ('API_KEY', 'USER') AND maker_id <> ''),
    CONSTRAINT payout_batches_status_known CHECK (status IN ('DRAFT', 'VALIDATING', 'INVALID', 'AWAITING_APPROVAL', 'PROCESSING',
        'COMPLETED', 'PARTIALLY_COMPLETED', 'FAILED', 'CANCELLED', 'REJECTED')),
    CONSTRAINT payout_batches_submitted CHECK (
        num_nonnulls(submitter_kind, submitter_id, submitted_at, request_mac) IN (0, 4)
        AND (submitted_at IS NOT NULL OR status IN ('DRAFT', 'CANCELLED'))
        AND (submitted_at IS NULL OR status <> 'DRAFT')
        AND approvals_required BETWEEN CASE WHEN submitted_at IS NULL OR auto_below IS NOT NULL THEN 0 ELSE 1 END AND 10),
    CONSTRAINT payout_batches_auto CHECK (
        num_nonnulls(auto_below, auto_value) = 0
        OR num_nonnulls(auto_below, auto_value, approved_at) = 3 AND auto_value >= 0 AND auto_value < auto_below
            AND approvals_required = 0 AND retry_of IS NULL),
    CONSTRAINT payout_batches_submitter_known CHECK (submitter_kind IN ('API_KEY', 'USER') AND submitter_id <> ''),
    CONSTRAINT payout_batches_approved CHECK (
        (approved_at IS NOT NULL) = (status IN ('PROCESSING', 'COMPLETED', 'PARTIALLY_COMPLETED', 'FAILED')
            OR status = 'CANCELLED' AND stopped_at IS NOT NULL)),
    CONSTRAINT payout_batches_readable CHECK (submitted_at IS NULL OR bad_count = 0 OR mode = 'PARTIAL'),
    CONSTRAINT payout_batches_submitted_as CHECK (
        num_nonnulls(submitted_hash, duplicate_of) = 0
        OR num_nonnulls(submitted_at, submitted_hash) = 2 AND octet_length(submitted_hash) = 32),
    CONSTRAINT payout_batches_paused CHECK (
        (paused_at IS NULL OR approved_at IS NOT NULL) AND (pause_reason IS NULL OR paused_at IS NOT NULL)
        AND char_length(pause_reason) BETWEEN 1 AND 1000),
    CONSTRAINT payout_batches_stopped CHECK (
        num_nonnulls(stopped_at, stopper_kind, stopper_id) IN (0, 3) AND (stopped_at IS NULL OR approved_at IS NOT NULL)),
    CONSTRAINT payout_batches_ended CHECK (
        (ended_at IS NULL) = (status IN ('DRAFT', 'VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING'))),
    CONSTRAINT payout_batches_words CHECK (
        char_length(problem) BETWEEN 1 AND 1000 AND (problem IS NULL OR status IN ('INVALID', 'REJECTED'))),
    CONSTRAINT payout_batches_looked_at CHECK ((look_at IS NOT NULL) = (status IN ('VALIDATING', 'PROCESSING')))
);
-- For lists, with a filter and without one.
CREATE INDEX payout_batches_listed ON payout_batches (org_id, created_at, batch_id);
CREATE INDEX payout_batches_of_status ON payout_batches (org_id, status, created_at, batch_id);
CREATE INDEX payout_batches_of_list ON payout_batches (org_id, list_hash, submitted_at) WHERE submitted_at IS NOT NULL;
-- For the metrics.
CREATE INDEX payout_batches_open ON payout_batches (status, created_at)
    WHERE status IN ('VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING');
CREATE INDEX payout_batches_to_look_at ON payout_batches (look_at, batch_id) WHERE look_at IS NOT NULL;
-- One list is submitted once, and once more for each submission that a person acknowledged.
CREATE UNIQUE INDEX payout_batches_list_once ON payout_batches (org_id, list_hash, coalesce(duplicate_of, ''))
    WHERE submitted_hash IS NOT NULL AND status NOT IN ('INVALID', 'CANCELLED', 'REJECTED', 'FAILED');
SELECT coffer_tenant('payout_batches',
    'SELECT, INSERT (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header, idempotency_key,'
        ' idempotency_key_hash, request_digest, maker_kind, maker_id, created_at, status, updated_at, list_columns, is_decimal,'
        ' bad_count, retry_of),'
        ' UPDATE (version, status, content_hash, header, submitter_kind, submitter_id, submitted_at, submitted_hash, duplicate_of,'
        ' approvals_required, request_mac, approved_at, auto_below, auto_value, paused_at, pause_reason, stopped_at, stopper_kind, stopper_id, ended_at,'
        ' problem, look_at, updated_at)',
    'SELECT, UPDATE (version, status, ended_at, problem, paused_at, pause_reason, look_at, updated_at)');
CREATE TRIGGER payout_batches_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF batch_id, org_id, mode, row_count, list_hash,
    idempotency_key, idempotency_key_hash, request_digest, maker_kind, maker_id, created_at, list_columns, is_decimal, bad_count,
    retry_of ON payout_batches FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A batch goes along its states, and each fact comes with the state that it belongs to. One that needs no person goes
-- from its check to its payments, and only then needs no approval. While it is being paid, people
-- pause, resume and cancel it. Only the time of the next look changes by itself.
CREATE FUNCTION payout_batches_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (NEW.version, NEW.status) IS DISTINCT FROM (1::bigint, 'DRAFT') OR NEW.retry_of IS NOT NULL AND (
                SELECT b.ended_at IS NOT NULL FROM payout_batches b WHERE b.batch_id = NEW.retry_of AND b.org_id = NEW.org_id) IS NOT TRUE THEN
            RAISE EXCEPTION 'batch % begins with an outcome', NEW.batch_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_begin';
        END IF;
        RETURN NEW;
    END IF;
    -- What was approved changes once, when a PARTIAL batch leaves rows out, before anyone may approve it.
    IF (NEW.content_hash, NEW.header) IS DISTINCT FROM (OLD.content_hash, OLD.header)
       AND (OLD.status <> 'VALIDATING' OR NEW.status NOT IN ('AWAITING_APPROVAL', 'PROCESSING') OR OLD.mode <> 'PARTIAL'
            OR NEW.content_hash = OLD.content_hash OR NEW.header = OLD.header) THEN
        RAISE EXCEPTION 'batch % has the content that was submitted', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_content_fixed';
    END IF;
    IF (OLD.status = 'VALIDATING' AND NEW.status = 'PROCESSING') <> (NEW.auto_below IS NOT NULL AND OLD.auto_below IS NULL)
       OR (OLD.auto_below IS NOT NULL OR NEW.auto_below IS NULL) AND (NEW.auto_below, NEW.auto_value) IS DISTINCT FROM (OLD.auto_below, OLD.auto_value) THEN
        RAISE EXCEPTION 'batch % is paid without a person from its check on, or never', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_auto_once';
    END IF;
    IF OLD.status = NEW.status THEN
        IF (NEW.submitter_kind, NEW.submitter_id, NEW.submitted_at, NEW.submitted_hash, NEW.duplicate_of, NEW.approvals_required,
                NEW.request_mac, NEW.approved_at, NEW.ended_at, NEW.problem)
           IS DISTINCT FROM (OLD.submitter_kind, OLD.submitter_id, OLD.submitted_at, OLD.submitted_hash, OLD.duplicate_of,
                OLD.approvals_required, OLD.request_mac, OLD.approved_at, OLD.ended_at, OLD.problem)
           OR (NEW.paused_at, NEW.pause_reason, NEW.stopped_at, NEW.stopper_kind, NEW.stopper_id)
                IS NOT DISTINCT FROM (OLD.paused_at, OLD.pause_reason, OLD.stopped_at, OLD.stopper_kind, OLD.stopper_id)
            AND (NEW.version, NEW.updated_at) IS DISTINCT FROM (OLD.version, OLD.updated_at) THEN
            RAISE EXCEPTION 'batch % changes with its status alone', OLD.batch_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_fixed';
        END IF;
        IF (NEW.paused_at, NEW.pause_reason, NEW.stopped_at, NEW.stopper_kind, NEW.stopper_id)
                IS NOT DISTINCT FROM (OLD.paused_at, OLD.pause_reason, OLD.stopped_at, OLD.stopper_kind, OLD.stopper_id) THEN
            RETURN NEW;
        END IF;
        IF OLD.status <> 'PROCESSING' OR OLD.stopped_at IS NOT NULL OR OLD.paused_at IS NOT NULL AND NEW.paused_at <> OLD.paused_at THEN
            RAISE EXCEPTION 'batch % is not being paid, or was cancelled', OLD.batch_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_pausable';
        END IF;
    ELSIF (NEW.paused_at, NEW.pause_reason, NEW.stopped_at, NEW.stopper_kind, NEW.stopper_id)
            IS DISTINCT FROM (OLD.paused_at, OLD.pause_reason, OLD.stopped_at, OLD.stopper_kind, OLD.stopper_id)
        AND (NEW.status <> 'PROCESSING' OR NEW.stopped_at IS NOT NULL) THEN
        RAISE EXCEPTION 'batch % is not being paid', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_pausable';
    END IF;
    IF NEW.version <> OLD.version + 1 OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'a change of batch % does not follow version %', OLD.batch_id, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_version_forward';
    END IF;
    IF OLD.status <> NEW.status AND (OLD.status || ' ' || NEW.status) NOT IN (
            'DRAFT VALIDATING', 'DRAFT CANCELLED', 'VALIDATING INVALID', 'VALIDATING AWAITING_APPROVAL', 'VALIDATING PROCESSING',
            'VALIDATING CANCELLED',
            'AWAITING_APPROVAL PROCESSING', 'AWAITING_APPROVAL REJECTED', 'AWAITING_APPROVAL CANCELLED',
            'PROCESSING COMPLETED', 'PROCESSING PARTIALLY_COMPLETED', 'PROCESSING FAILED', 'PROCESSING CANCELLED') THEN
        RAISE EXCEPTION 'batch % does not go from % to %', OLD.batch_id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_transition_known';
    END IF;
    IF OLD.status <> 'DRAFT' AND ((NEW.submitter_kind, NEW.submitter_id, NEW.submitted_at, NEW.submitted_hash, NEW.duplicate_of)
               IS DISTINCT FROM (OLD.submitter_kind, OLD.submitter_id, OLD.submitted_at, OLD.submitted_hash, OLD.duplicate_of)
           OR NEW.approvals_required <> OLD.approvals_required AND (NEW.auto_below IS NULL OR OLD.auto_below IS NOT NULL)
           OR NEW.request_mac IS DISTINCT FROM OLD.request_mac AND NEW.content_hash = OLD.content_hash
                AND NEW.approvals_required = OLD.approvals_required)
       OR OLD.approved_at IS NOT NULL AND NEW.approved_at IS DISTINCT FROM OLD.approved_at THEN
        RAISE EXCEPTION 'batch % was submitted and approved once', OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_batches_submitted_once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER payout_batches_keep BEFORE INSERT OR UPDATE ON payout_batches FOR EACH ROW EXECUTE FUNCTION payout_batches_keep();

-- The rows of a batch. They are all there when it is made.
CREATE TABLE payout_items (
    batch_id    text NOT NULL,
    row_no      integer NOT NULL,             -- from 1, in the order of the list
    org_id      text NOT NULL,
    line        integer NOT NULL,             -- in the text of the list
    salt        bytea NOT NULL,               -- so that the proof of a row says nothing about the row beside it
    mint_id     integer NOT NULL,
    chain       text NOT NULL,
    contract    text NOT NULL,
    to_address  text NOT NULL,                -- in its canonical form
    amount      numeric(78,0) NOT NULL,
    customer_id text COLLATE "C" NOT NULL,    -- a label of the caller, or ''
    reference   text NOT NULL,                -- the same
    checked_at  timestamptz,                  -- when it was found that it can be paid
    refused     text,                         -- why it is never paid
    included    boolean NOT NULL DEFAULT true, -- false: a PARTIAL batch leaves it out
    waits_for   text,                         -- why it has no payment yet
    CONSTRAINT payout_items_pkey PRIMARY KEY (batch_id, row_no),
    CONSTRAINT payout_items_batch FOREIGN KEY (org_id, batch_id) REFERENCES payout_batches (org_id, batch_id),
    CONSTRAINT payout_items_mint FOREIGN KEY (mint_id, chain, contract) REFERENCES mints (mint_id, chain, contract),
    CONSTRAINT payout_items_positive CHECK (amount > 0 AND row_no > 0 AND line > 0),
    CONSTRAINT payout_items_salted CHECK (octet_length(salt) = 16),
    CONSTRAINT payout_items_words CHECK (octet_length(to_address) BETWEEN 1 AND 255 AND octet_length(customer_id) <= 255
        AND octet_length(reference) <= 255 AND char_length(refused) BETWEEN 1 AND 1000),
    CONSTRAINT payout_items_excluded CHECK (included OR refused IS NOT NULL AND checked_at IS NULL),
    CONSTRAINT payout_items_waits CHECK (char_length(waits_for) BETWEEN 1 AND 1000)
);
CREATE INDEX payout_items_open ON payout_items (batch_id, row_no) WHERE refused IS NULL;
-- For the warning of a reference that was used before.
CREATE INDEX payout_items_of_reference ON payout_items (org_id, reference) WHERE reference <> '';
SELECT coffer_tenant('payout_items',
    'SELECT, INSERT (batch_id, row_no, org_id, line, salt, mint_id, chain, contract, to_address, amount, customer_id, reference),'
        ' UPDATE (checked_at, refused, included, waits_for)',
    'SELECT');
CREATE TRIGGER payout_items_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF batch_id, row_no, org_id, line, salt, mint_id, chain, contract,
    to_address, amount, customer_id, reference ON payout_items FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Rows come with their batch. The worker says once of each whether it can be paid, and refuses once what is never paid.
CREATE FUNCTION payout_items_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    b record;
BEGIN
    SELECT status, version, row_count, mode INTO b FROM payout_batches WHERE batch_id = NEW.batch_id;
    IF TG_OP = 'INSERT' THEN
        IF (b.status = 'DRAFT' AND b.version = 1 AND NEW.row_no <= b.row_count) IS NOT TRUE
           OR num_nonnulls(NEW.checked_at, NEW.refused, NEW.waits_for) > 0 OR NOT NEW.included THEN
            RAISE EXCEPTION 'row % is not one of batch %', NEW.row_no, NEW.batch_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_items_begin';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.checked_at IS DISTINCT FROM OLD.checked_at AND (OLD.checked_at IS NOT NULL OR NEW.checked_at IS NULL OR b.status <> 'VALIDATING')
       OR NEW.refused IS DISTINCT FROM OLD.refused AND (OLD.refused IS NOT NULL OR NEW.refused IS NULL
            OR b.status NOT IN ('VALIDATING', 'PROCESSING'))
       OR NEW.included <> OLD.included AND (NEW.included OR (b.status, b.mode) IS DISTINCT FROM ('VALIDATING', 'PARTIAL'))
       OR NEW.waits_for IS DISTINCT FROM OLD.waits_for AND b.status <> 'PROCESSING' THEN
        RAISE EXCEPTION 'what is known of row % of batch % is written once', OLD.row_no, OLD.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_items_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER payout_items_keep BEFORE INSERT OR UPDATE ON payout_items FOR EACH ROW EXECUTE FUNCTION payout_items_keep();

-- A row of a batch that is being paid is refused only if nothing pays it, and gives its amount back. Invariant I-88.
CREATE FUNCTION payout_items_refuse() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT status <> 'PROCESSING' FROM payout_batches WHERE batch_id = NEW.batch_id) THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'BATCH_RELEASE' AND leg = 0
            AND cause_id = (NEW.batch_id || '/row/' || NEW.row_no) COLLATE "C")
       OR EXISTS (SELECT FROM withdrawals w WHERE w.batch_id = NEW.batch_id AND w.batch_row = NEW.row_no AND w.status <> 'BLOCKED') THEN
        RAISE EXCEPTION 'row % of batch % is refused and keeps its amount', NEW.row_no, NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_items_released';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER payout_items_released AFTER UPDATE ON payout_items DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.refused IS NULL AND NEW.refused IS NOT NULL) EXECUTE FUNCTION payout_items_refuse();

-- The rows of a list that cannot be read, as they were given. They are shown and never paid, and no hash covers them.
CREATE TABLE payout_bad_rows (
    batch_id text NOT NULL,
    position integer NOT NULL, -- in the list, from 1; it counts the rows of payout_items, too
    org_id   text NOT NULL,
    line     integer NOT NULL, -- in the text of the list
    fields   text[] NOT NULL,  -- the values in the order of all columns; long ones are cut
    problems jsonb NOT NULL,   -- what is wrong with each
    CONSTRAINT payout_bad_rows_pkey PRIMARY KEY (batch_id, position),
    CONSTRAINT payout_bad_rows_batch FOREIGN KEY (org_id, batch_id) REFERENCES payout_batches (org_id, batch_id),
    CONSTRAINT payout_bad_rows_bounded CHECK (position BETWEEN 1 AND 5000 AND line > 0 AND cardinality(fields) = 6
        AND jsonb_typeof(problems) = 'array' AND jsonb_array_length(problems) > 0)
);
SELECT coffer_tenant('payout_bad_rows', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER payout_bad_rows_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_bad_rows
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What people were warned of when the batch was submitted, and what they looked at.
CREATE TABLE payout_warnings (
    batch_id   text NOT NULL,
    row_no     integer NOT NULL,
    kind       text NOT NULL,
    org_id     text NOT NULL,
    text       text NOT NULL,
    needs_tick boolean NOT NULL,
    ticked     boolean NOT NULL,
    CONSTRAINT payout_warnings_pkey PRIMARY KEY (batch_id, row_no, kind),
    CONSTRAINT payout_warnings_batch FOREIGN KEY (org_id, batch_id) REFERENCES payout_batches (org_id, batch_id),
    CONSTRAINT payout_warnings_row FOREIGN KEY (batch_id, row_no) REFERENCES payout_items (batch_id, row_no),
    CONSTRAINT payout_warnings_kind_known CHECK (kind IN ('DUPLICATE_ROW', 'REFERENCE_SEEN', 'LOOK_ALIKE', 'FIRST_PAYMENT')),
    CONSTRAINT payout_warnings_ticked CHECK (needs_tick = (kind = 'LOOK_ALIKE') AND ticked = needs_tick),
    CONSTRAINT payout_warnings_words CHECK (char_length(text) BETWEEN 1 AND 1000)
);
SELECT coffer_tenant('payout_warnings', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER payout_warnings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_warnings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Bad rows come with their batch, and warnings with its submission.
CREATE FUNCTION payout_notes_begin() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT CASE TG_TABLE_NAME WHEN 'payout_bad_rows' THEN b.status = 'DRAFT' AND b.version = 1
                ELSE b.status = 'VALIDATING' AND b.version = 2 END
            FROM payout_batches b WHERE b.batch_id = NEW.batch_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'a row of % comes too late for batch %', TG_TABLE_NAME, NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_notes_begin';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER payout_bad_rows_begin BEFORE INSERT ON payout_bad_rows FOR EACH ROW EXECUTE FUNCTION payout_notes_begin();
CREATE TRIGGER payout_warnings_begin BEFORE INSERT ON payout_warnings FOR EACH ROW EXECUTE FUNCTION payout_notes_begin();

CREATE TABLE payout_approvals (
    org_id        text NOT NULL,
    batch_id      text NOT NULL,
    approver_kind text NOT NULL,
    approver_id   text COLLATE "C" NOT NULL,
    at            timestamptz NOT NULL,
    content_hash  bytea NOT NULL, -- what was approved
    mac           bytea NOT NULL, -- of the hash and the person, by the server's key
    signature     jsonb,          -- of the words, by the person's passkey; NULL where no rule asked for it
    nth           smallint NOT NULL DEFAULT 0, -- 1 and more: signed again; it counts no second time
    -- A person counts once.
    CONSTRAINT payout_approvals_pkey PRIMARY KEY (batch_id, approver_kind, approver_id, nth),
    CONSTRAINT payout_approvals_batch FOREIGN KEY (org_id, batch_id) REFERENCES payout_batches (org_id, batch_id),
    CONSTRAINT payout_approvals_by_people CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> ''),
    CONSTRAINT payout_approvals_signature CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId')
);
SELECT coffer_tenant('payout_approvals', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER payout_approvals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An approval is of a batch that waits for it, over its hash, and neither by its maker nor by who submitted it.
CREATE FUNCTION payout_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    b record;
BEGIN
    SELECT status, content_hash, maker_kind, maker_id, submitter_kind, submitter_id INTO b
    FROM payout_batches WHERE org_id = NEW.org_id AND batch_id = NEW.batch_id;
    IF (b.status = 'AWAITING_APPROVAL' AND b.content_hash = NEW.content_hash) IS NOT TRUE THEN
        RAISE EXCEPTION 'batch % does not wait for this approval', NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_approvals_waited_for';
    END IF;
    IF (NEW.approver_kind, NEW.approver_id) IN ((b.maker_kind, b.maker_id), (b.submitter_kind, b.submitter_id)) THEN
        RAISE EXCEPTION 'batch % was made or submitted by the same person', NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_approvals_not_by_maker';
    END IF;
    -- A person signs again what has no signature, or one that is about to end.
    IF NEW.nth > 0 AND (NEW.signature IS NULL OR NEW.nth <> (SELECT count(*) FROM payout_approvals a
            WHERE a.batch_id = NEW.batch_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id))
        OR EXISTS (SELECT FROM payout_approvals a
            WHERE a.batch_id = NEW.batch_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id)
                AND (a.signature ->> 'notAfter')::timestamptz > NEW.at + interval '5 minutes')) THEN
        RAISE EXCEPTION 'batch % is approved by this person', NEW.batch_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_approvals_again';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER payout_approvals_fit BEFORE INSERT ON payout_approvals FOR EACH ROW EXECUTE FUNCTION payout_approvals_fit();

-- A batch has its rows, its postings, its approvals and its payments. Invariants I-87 and I-88.
CREATE FUNCTION payout_batches_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    b      record;
    unheld bigint;
    kept   bigint;
    excluded bigint;
    included bigint;
    unpaid bigint;
    paid   bigint;
    broken text;
    is_checked boolean;
BEGIN
    SELECT x.status, x.row_count, x.bad_count, x.mode, x.approvals_required, x.submitted_at IS NOT NULL AS is_held, x.approved_at IS NOT NULL AS is_approved
        INTO b FROM payout_batches x WHERE x.batch_id = NEW.batch_id;
    SELECT count(*) FILTER (WHERE h.cause_id IS NULL), count(*) FILTER (WHERE r.cause_id IS NULL AND m.is_included),
        count(*) FILTER (WHERE x.cause_id IS NULL AND m.is_excluded) INTO unheld, kept, excluded
    FROM (SELECT (i.batch_id || '/' || i.mint_id) COLLATE "C" AS cause_id, (i.batch_id || '/excluded/' || i.mint_id) COLLATE "C" AS exclusion_id,
            bool_or(i.included) AS is_included, bool_or(NOT i.included) AS is_excluded
        FROM payout_items i WHERE i.batch_id = NEW.batch_id GROUP BY i.batch_id, i.mint_id) m
    LEFT JOIN ledger_transfers h ON h.cause_kind = 'BATCH_HOLD' AND h.cause_id = m.cause_id AND h.leg = 0
    LEFT JOIN ledger_transfers r ON r.cause_kind = 'BATCH_RELEASE' AND r.cause_id = m.cause_id AND r.leg = 0
    LEFT JOIN ledger_transfers x ON x.cause_kind = 'BATCH_RELEASE' AND x.cause_id = m.exclusion_id AND x.leg = 0;
    is_checked := b.status = 'AWAITING_APPROVAL' OR b.status = 'PROCESSING' AND TG_OP = 'UPDATE' AND OLD.status = 'VALIDATING';
    broken := CASE
        WHEN b.row_count <> (SELECT count(*) FROM payout_items i WHERE i.batch_id = NEW.batch_id) THEN 'payout_batches_whole'
        WHEN b.bad_count <> (SELECT count(*) FROM payout_bad_rows i WHERE i.batch_id = NEW.batch_id) THEN 'payout_batches_bad_rows'
        WHEN b.is_held AND unheld > 0 THEN 'payout_batches_held'
        WHEN b.is_held AND NOT b.is_approved AND b.status IN ('INVALID', 'CANCELLED', 'REJECTED') AND kept > 0 THEN 'payout_batches_released'
        WHEN excluded > 0 THEN 'payout_batches_excluded'
        WHEN is_checked AND EXISTS (SELECT FROM payout_items i WHERE i.batch_id = NEW.batch_id
                AND i.included AND (i.checked_at IS NULL OR i.refused IS NOT NULL)) THEN 'payout_batches_checked'
        WHEN is_checked AND NEW.auto_below IS NOT NULL AND EXISTS (SELECT FROM payout_warnings n JOIN payout_items i USING (batch_id, row_no)
                WHERE n.batch_id = NEW.batch_id AND n.kind IN ('LOOK_ALIKE', 'FIRST_PAYMENT') AND i.included) THEN 'payout_batches_auto_known'
        WHEN is_checked AND (OLD.content_hash <> NEW.content_hash) <> EXISTS (
                SELECT FROM payout_items i WHERE i.batch_id = NEW.batch_id AND NOT i.included) THEN 'payout_batches_content_follows'
        WHEN b.status = 'PROCESSING' AND b.approvals_required > (SELECT count(*) FROM payout_approvals a WHERE a.batch_id = NEW.batch_id AND a.nth = 0)
            THEN 'payout_batches_approved_by_enough'
        END;
    IF broken IS NULL AND b.is_approved AND b.status IN ('COMPLETED', 'PARTIALLY_COMPLETED', 'FAILED', 'CANCELLED') THEN
        SELECT count(*) FILTER (WHERE i.included), count(*) FILTER (WHERE w.status = 'COMPLETED'),
            count(*) FILTER (WHERE i.refused IS NULL AND (w.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')) IS NOT TRUE) INTO included, paid, unpaid
        FROM payout_items i LEFT JOIN withdrawals w ON w.batch_id = i.batch_id AND w.batch_row = i.row_no WHERE i.batch_id = NEW.batch_id;
        broken := CASE WHEN unpaid > 0 OR b.status <> CASE paid WHEN included THEN 'COMPLETED'
                WHEN 0 THEN CASE WHEN NEW.stopped_at IS NULL THEN 'FAILED' ELSE 'CANCELLED' END ELSE 'PARTIALLY_COMPLETED' END
            THEN 'payout_batches_ended_by_rows' END;
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'batch % is %, and other rows say something else', NEW.batch_id, b.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER payout_batches_begin_whole AFTER INSERT ON payout_batches DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION payout_batches_follow();
CREATE CONSTRAINT TRIGGER payout_batches_move_whole AFTER UPDATE ON payout_batches DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION payout_batches_follow();

-- The sum of a batch goes from the balance of the product to what is held, and back if the batch ends before its
-- approval, or for a row that nothing pays.
CREATE FUNCTION ledger_batch_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    batch text := split_part(NEW.cause_id, '/', 1) COLLATE "default";
    part  text := split_part(NEW.cause_id, '/', 2) COLLATE "default";
    row_text text := split_part(NEW.cause_id, '/', 3) COLLATE "default";
BEGIN
    IF (SELECT b.org_id = NEW.org_id AND (d.subject, c.subject) = ('BATCH_PAYOUT', 'BATCH_PAYOUT')
            AND CASE
                WHEN part = 'row' THEN NEW.cause_kind = 'BATCH_RELEASE' AND b.status = 'PROCESSING'
                    AND NEW.cause_id = (batch || '/row/' || row_text) COLLATE "C"
                    AND (SELECT (i.mint_id, i.amount) = (NEW.mint_id, NEW.amount) AND i.refused IS NOT NULL
                        FROM payout_items i WHERE i.batch_id = batch AND i.row_no::text = row_text)
                WHEN part = 'excluded' THEN NEW.cause_kind = 'BATCH_RELEASE'
                    AND (b.status = 'AWAITING_APPROVAL' OR b.status = 'PROCESSING' AND b.auto_below IS NOT NULL)
                    AND NEW.cause_id = (batch || '/excluded/' || NEW.mint_id) COLLATE "C"
                    AND NEW.amount = (SELECT sum(i.amount) FROM payout_items i WHERE i.batch_id = batch AND i.mint_id = NEW.mint_id AND NOT i.included)
                ELSE NEW.cause_id = (batch || '/' || NEW.mint_id) COLLATE "C"
                    AND NEW.amount = (SELECT sum(i.amount) FROM payout_items i WHERE i.batch_id = batch AND i.mint_id = NEW.mint_id
                        AND i.included)
                    AND CASE NEW.cause_kind WHEN 'BATCH_HOLD' THEN b.status = 'VALIDATING' AND b.version = 2
                        ELSE b.status IN ('INVALID', 'CANCELLED', 'REJECTED') AND b.submitted_at IS NOT NULL AND b.approved_at IS NULL END END
            AND CASE NEW.cause_kind WHEN 'BATCH_HOLD' THEN (d.kind, c.kind) = ('PRODUCT', 'BATCH_HELD')
                ELSE (d.kind, c.kind) = ('BATCH_HELD', 'PRODUCT') END
        FROM payout_batches b, ledger_accounts d, ledger_accounts c
        WHERE b.batch_id = batch AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_batch';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_batch AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('BATCH_HOLD', 'BATCH_RELEASE')) EXECUTE FUNCTION ledger_batch_follow();

-- The withdrawal of a row pays what the row says, of a batch that people approved and neither paused nor cancelled. The
-- lock keeps the batch as it is until the withdrawal is committed. A row has one withdrawal, permanently. A payment that
-- the signer's journal has comes back at any time. Invariant I-87, rule BP-57.
ALTER TABLE withdrawals ADD CONSTRAINT withdrawals_batch FOREIGN KEY (batch_id, batch_row) REFERENCES payout_items (batch_id, row_no);
CREATE UNIQUE INDEX withdrawals_batch_once ON withdrawals (batch_id, batch_row) WHERE batch_id IS NOT NULL;
CREATE FUNCTION withdrawals_batch() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM payout_batches b WHERE b.batch_id = NEW.batch_id AND b.org_id = NEW.org_id AND b.status = 'PROCESSING'
        AND (NEW.restored_at IS NOT NULL OR b.paused_at IS NULL AND b.stopped_at IS NULL) FOR SHARE;
    IF NOT FOUND OR (SELECT (i.mint_id, i.chain, i.amount, i.to_address) = (NEW.mint_id, NEW.chain, NEW.amount, NEW.to_address)
                AND i.included AND i.refused IS NULL AND NEW.fee_mode = 'ORGANIZATION' AND NEW.fee_deducted IS NULL
                AND NEW.key_hash = key_digest('batch ' || i.batch_id || ':' || i.row_no)
            FROM payout_items i WHERE i.batch_id = NEW.batch_id AND i.row_no = NEW.batch_row) IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % pays a row that is not this one', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_batch_approved';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawals_batch AFTER INSERT ON withdrawals
    FOR EACH ROW WHEN (NEW.batch_id IS NOT NULL) EXECUTE FUNCTION withdrawals_batch();
CREATE TRIGGER withdrawals_batch_as_inserted BEFORE UPDATE OF batch_id, batch_row ON withdrawals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The order of a row tells the signer which row its withdrawal pays, and under which hash. A restored withdrawal may
-- lack its batch.
CREATE FUNCTION dispatch_orders_batch() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT CASE WHEN w.batch_id IS NULL THEN w.restored_at IS NOT NULL
            ELSE NEW.batch = (SELECT jsonb_build_object('batchId', b.batch_id, 'row', w.batch_row,
                    'contentHash', 'sha256:' || encode(b.content_hash, 'hex'))
                FROM payout_batches b WHERE b.batch_id = w.batch_id) END
        FROM withdrawals w WHERE w.withdrawal_id = NEW.order_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % pays a row that is not that of its withdrawal', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_batch';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_batch AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.batch IS NOT NULL) EXECUTE FUNCTION dispatch_orders_batch();
CREATE TRIGGER dispatch_orders_batch_as_inserted BEFORE UPDATE OF batch ON dispatch_orders
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
