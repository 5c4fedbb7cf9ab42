-- Events: what organizations are told, and its delivery by webhook (decisions 0009, 0028).

-- An event is written in the transaction of the change that it reports. A sequencer numbers it
-- afterwards and creates its deliveries, so that no writer waits for another. Rule EVT-1. The first
-- event of a transfer has its number and its deliveries from the beginning. Rule EVT-17.
CREATE TABLE events (
    event_id      text PRIMARY KEY,
    org_id        text NOT NULL,
    type          text NOT NULL,
    resource_kind text NOT NULL,
    resource_id   text NOT NULL,
    resource_seq  integer NOT NULL, -- 1, 2, … within the resource
    customer_id   text COLLATE "C",
    chain         text,
    data          bytea NOT NULL,   -- JSON, frozen when the change was made; empty where body had it from the beginning
    created_at    timestamptz NOT NULL,
    sequence      bigint,           -- within the organization, without gaps
    body          bytea,            -- what is signed and sent, frozen with the sequence
    expired_at    timestamptz,      -- when its bytes were removed
    CONSTRAINT events_resource_order UNIQUE (org_id, resource_id, resource_seq),
    -- Rule EVT-4.
    CONSTRAINT events_sequence_unique UNIQUE (org_id, sequence),
    CONSTRAINT events_sequenced_whole CHECK ((sequence IS NULL) = (body IS NULL)),
    CONSTRAINT events_sequence_positive CHECK (sequence >= 1)
);
CREATE INDEX events_to_sequence ON events (event_id) WHERE sequence IS NULL;
CREATE INDEX events_of_type ON events (org_id, type, sequence) WHERE sequence IS NOT NULL;
SELECT coffer_tenant('events',
    'SELECT, INSERT (event_id, org_id, type, resource_kind, resource_id, resource_seq,'
        ' customer_id, chain, data, created_at)',
    'SELECT, INSERT (event_id, org_id, type, resource_kind, resource_id, resource_seq,'
        ' customer_id, chain, data, created_at),'
        ' UPDATE (data, sequence, body, expired_at)');
CREATE TRIGGER events_organization AFTER INSERT ON events
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION organizations_refer();

-- An event is written once. After 90 days its bytes are removed, in the order of the sequence.
-- The row and its number stay. Rule EVT-15.
CREATE FUNCTION events_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.expired_at IS DISTINCT FROM OLD.expired_at THEN
        IF OLD.expired_at IS NOT NULL OR OLD.sequence IS NULL OR NEW.expired_at < OLD.created_at + interval '2160 hours'
           OR (NEW.event_id, NEW.org_id, NEW.type, NEW.resource_id, NEW.resource_seq, NEW.sequence, NEW.data, NEW.body) IS DISTINCT FROM
              (OLD.event_id, OLD.org_id, OLD.type, OLD.resource_id, OLD.resource_seq, OLD.sequence, ''::bytea, ''::bytea) THEN
            RAISE EXCEPTION 'event % keeps its bytes for 90 days, and then loses nothing else', OLD.event_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'events_kept';
        END IF;
    ELSIF (NEW.event_id, NEW.org_id, NEW.type, NEW.resource_id, NEW.resource_seq, NEW.data) IS DISTINCT FROM
       (OLD.event_id, OLD.org_id, OLD.type, OLD.resource_id, OLD.resource_seq, OLD.data)
       OR (OLD.sequence IS NOT NULL AND (NEW.sequence, NEW.body) IS DISTINCT FROM (OLD.sequence, OLD.body)) THEN
        RAISE EXCEPTION 'event % is written once', OLD.event_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'events_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER events_keep BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION events_keep();
CREATE TRIGGER events_as_inserted BEFORE UPDATE OF chain, created_at, customer_id, resource_kind ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE event_sequences (
    org_id  text PRIMARY KEY REFERENCES organizations,
    last    bigint NOT NULL,
    expired bigint NOT NULL DEFAULT 0, -- the bytes of the events up to this number are removed
    CONSTRAINT event_sequences_not_negative CHECK (last >= 0),
    CONSTRAINT event_sequences_expired_bounded CHECK (expired BETWEEN 0 AND last)
);
SELECT coffer_tenant('event_sequences', 'SELECT', 'SELECT, INSERT, UPDATE');
CREATE TRIGGER event_sequences_as_inserted BEFORE UPDATE OF org_id ON event_sequences
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_sequences_forward BEFORE UPDATE ON event_sequences FOR EACH ROW
    WHEN (NEW.last < OLD.last OR NEW.expired < OLD.expired)
    EXECUTE FUNCTION refuse_row_change();

-- What is signed and sent: the envelope up to its number, the number, and the data.
CREATE FUNCTION event_body(head bytea, number bigint, data bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT head || decode(number::text, 'escape') || ',"data":'::bytea || data || '}'::bytea
$$;

-- Numbers events for the sequencer. Their counters are locked first, in the order of their organizations, and
-- until the COMMIT, which is sent with this call. places are 1, 2, … within each organization. An
-- event that another sequencer has numbered makes the call fail.
CREATE FUNCTION events_number(ids text[], orgs text[], places bigint[], heads bytea[]) RETURNS void LANGUAGE plpgsql
    SET enable_seqscan = off SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    numbered bigint;
BEGIN
    INSERT INTO event_sequences (org_id, last) SELECT DISTINCT o, 0 FROM unnest(orgs) AS o ORDER BY o
    ON CONFLICT (org_id) DO NOTHING;
    PERFORM FROM event_sequences s WHERE s.org_id = ANY (orgs) ORDER BY s.org_id FOR NO KEY UPDATE;
    WITH moved AS (
        UPDATE event_sequences s SET last = s.last + w.n
        FROM (SELECT o AS org_id, count(*) AS n FROM unnest(orgs) AS o GROUP BY o) w WHERE s.org_id = w.org_id
        RETURNING s.org_id, s.last - w.n AS before)
    UPDATE events e SET sequence = m.before + n.place, body = event_body(n.head, m.before + n.place, e.data)
    FROM unnest(ids, orgs, places, heads) AS n (event_id, org_id, place, head) JOIN moved m ON m.org_id = n.org_id
    WHERE e.event_id = n.event_id AND e.org_id = n.org_id AND e.sequence IS NULL;
    GET DIAGNOSTICS numbered = ROW_COUNT;
    IF numbered <> cardinality(ids) THEN
        RAISE EXCEPTION 'only % of % events had no number', numbered, cardinality(ids)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'events_numbered_once';
    END IF;
END $$;
REVOKE ALL ON FUNCTION events_number(text[], text[], bigint[], bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION events_number(text[], text[], bigint[], bytea[]) TO coffer_system;

-- Numbers that the sequence of an organization skipped: a lost database may have given them to
-- events that this one does not know.
CREATE TABLE event_gaps (
    org_id     text NOT NULL REFERENCES organizations,
    after      bigint NOT NULL, -- the last number before the gap
    resumed_at bigint NOT NULL, -- the counter after it
    created_at timestamptz NOT NULL,
    CONSTRAINT event_gaps_pkey PRIMARY KEY (org_id, resumed_at),
    CONSTRAINT event_gaps_forward CHECK (after >= 0 AND resumed_at > after)
);
SELECT coffer_tenant('event_gaps', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER event_gaps_as_inserted BEFORE UPDATE ON event_gaps FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE webhook_endpoints (
    endpoint_id        text PRIMARY KEY,
    org_id             text NOT NULL REFERENCES organizations,
    url                text NOT NULL,
    description        text NOT NULL DEFAULT '',
    events             text[] NOT NULL,  -- empty: the events of the interface, without extensions
    status             text NOT NULL,
    api_version        text NOT NULL,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    deleted_at         timestamptz,
    filter_customer_id text COLLATE "C", -- NULL: events of every customer
    filter_chain       text,             -- NULL: events of every chain
    failing_since      timestamptz,      -- the first failed attempt since one succeeded; NULL: not failing
    failed_at          timestamptz,      -- the latest one, to the hour
    restart_at         timestamptz,      -- deliveries that waited at this time get a new schedule; NULL: all have it
    restart_after      timestamptz,      -- how far that has come, along deliveries_due
    restart_id         bigint,
    CONSTRAINT webhook_endpoints_of_org UNIQUE (org_id, endpoint_id),
    CONSTRAINT webhook_endpoints_status_known CHECK (
        status IN ('ENABLED', 'PAUSED', 'DISABLED_GONE', 'DISABLED_BY_FAILURE')),
    CONSTRAINT webhook_endpoints_url_bounded CHECK (octet_length(url) BETWEEN 1 AND 2048),
    CONSTRAINT webhook_endpoints_failing_whole CHECK ((failing_since IS NULL) = (failed_at IS NULL)),
    CONSTRAINT webhook_endpoints_restart_whole CHECK (
        (restart_at IS NULL) = (restart_after IS NULL) AND (restart_at IS NULL) = (restart_id IS NULL))
);
CREATE INDEX webhook_endpoints_listed ON webhook_endpoints (org_id, created_at, endpoint_id) WHERE deleted_at IS NULL;
CREATE INDEX webhook_endpoints_to_restart ON webhook_endpoints (endpoint_id) WHERE restart_at IS NOT NULL;
SELECT coffer_tenant('webhook_endpoints', 'SELECT, INSERT',
    'SELECT, UPDATE (status, failing_since, failed_at, restart_at, restart_after, restart_id, updated_at)');
GRANT UPDATE (url, description, events, filter_customer_id, filter_chain, status, failing_since, failed_at,
    restart_at, restart_after, restart_id, updated_at, deleted_at) ON webhook_endpoints TO coffer_app;
CREATE TRIGGER webhook_endpoints_as_inserted BEFORE UPDATE OF endpoint_id, org_id, api_version, created_at ON webhook_endpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The secrets of an endpoint by version, each sealed for its own row. A replaced secret signs
-- together with its successors until it retires.
CREATE TABLE webhook_secrets (
    endpoint_id text NOT NULL,
    version     integer NOT NULL,
    org_id      text NOT NULL,
    sealed      bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    retires_at  timestamptz, -- NULL: the present one
    CONSTRAINT webhook_secrets_pkey PRIMARY KEY (endpoint_id, version),
    CONSTRAINT webhook_secrets_endpoint FOREIGN KEY (org_id, endpoint_id)
        REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT webhook_secrets_version_positive CHECK (version >= 1)
);
CREATE UNIQUE INDEX webhook_secrets_one_present ON webhook_secrets (endpoint_id) WHERE retires_at IS NULL;
SELECT coffer_tenant('webhook_secrets', 'SELECT, INSERT, UPDATE (retires_at)', 'SELECT, DELETE');
CREATE TRIGGER webhook_secrets_as_inserted BEFORE UPDATE OF endpoint_id, org_id, version, created_at ON webhook_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What an organization asked to be sent again, and how far that has come.
CREATE TABLE webhook_jobs (
    job_id         text PRIMARY KEY,
    org_id         text NOT NULL REFERENCES organizations,
    kind           text NOT NULL,
    endpoint_id    text,                      -- NULL: every endpoint that wants the event
    event_id       text REFERENCES events,    -- of a RESEND
    since          timestamptz,               -- of a RECOVER: events of this time and later
    until          timestamptz,               -- and before this one; NULL: up to the last event at the request
    only_failed    boolean NOT NULL,
    status         text NOT NULL,
    after_sequence bigint NOT NULL,           -- the last sequence that was examined
    last_sequence  bigint NOT NULL,           -- the last that will be
    examined       bigint NOT NULL DEFAULT 0, -- events that the endpoint wants
    queued         bigint NOT NULL DEFAULT 0, -- how many of them were made due
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CONSTRAINT webhook_jobs_endpoint FOREIGN KEY (org_id, endpoint_id)
        REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT webhook_jobs_kind_known CHECK (
        CASE kind
            WHEN 'RESEND' THEN event_id IS NOT NULL AND since IS NULL AND until IS NULL
            WHEN 'RECOVER' THEN event_id IS NULL AND endpoint_id IS NOT NULL AND since IS NOT NULL
            ELSE false
        END),
    CONSTRAINT webhook_jobs_status_known CHECK (status IN ('RUNNING', 'COMPLETED')),
    CONSTRAINT webhook_jobs_ended CHECK ((status = 'COMPLETED') = (ended_at IS NOT NULL)),
    CONSTRAINT webhook_jobs_progress CHECK (after_sequence <= last_sequence AND queued <= examined)
);
CREATE INDEX webhook_jobs_running ON webhook_jobs (created_at, job_id) WHERE status = 'RUNNING';
CREATE UNIQUE INDEX webhook_jobs_one_recovery ON webhook_jobs (endpoint_id)
    WHERE status = 'RUNNING' AND kind = 'RECOVER';
CREATE INDEX webhook_jobs_of_endpoint ON webhook_jobs (endpoint_id, created_at) WHERE kind = 'RECOVER';
CREATE INDEX webhook_jobs_of_event ON webhook_jobs (event_id, created_at) WHERE kind = 'RESEND';
SELECT coffer_tenant('webhook_jobs', 'SELECT, INSERT',
    'SELECT, DELETE, UPDATE (status, after_sequence, examined, queued, updated_at, ended_at)');
CREATE TRIGGER webhook_jobs_as_inserted
    BEFORE UPDATE OF job_id, org_id, kind, endpoint_id, event_id, only_failed, since, until, last_sequence, created_at ON webhook_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A completed job does not change.
CREATE TRIGGER webhook_jobs_written_once BEFORE UPDATE ON webhook_jobs FOR EACH ROW
    WHEN (OLD.status = 'COMPLETED')
    EXECUTE FUNCTION refuse_row_change();

-- One row for each endpoint and event. Only the first open one of each (endpoint, resource) is
-- due. A lease says which process sends it, and attempt_after is the end of the lease
-- meanwhile. A delivery that is sent again keeps its row and its count of attempts, and goes
-- through the schedule from the beginning.
CREATE TABLE deliveries (
    delivery_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id           text NOT NULL,
    endpoint_id      text NOT NULL,
    event_id         text NOT NULL REFERENCES events,
    resource_id      text NOT NULL,
    resource_seq     integer NOT NULL,
    status           text NOT NULL,
    attempts         integer NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    attempt_after    timestamptz NOT NULL,
    first_attempt_at timestamptz,
    leased_until     timestamptz,
    lease            uuid,
    ended_at         timestamptz,
    schedule_base    integer NOT NULL DEFAULT 0, -- attempts before the present run of the schedule
    job_id           text,                       -- the job that last made it due
    CONSTRAINT deliveries_once UNIQUE (endpoint_id, event_id),
    CONSTRAINT deliveries_endpoint FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT deliveries_status_known CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED', 'CANCELLED')),
    CONSTRAINT deliveries_ended CHECK ((status = 'PENDING') = (ended_at IS NULL)),
    CONSTRAINT deliveries_leased_whole CHECK ((leased_until IS NULL) = (lease IS NULL)),
    CONSTRAINT deliveries_schedule_base CHECK (schedule_base BETWEEN 0 AND attempts)
);
CREATE INDEX deliveries_due ON deliveries (endpoint_id, attempt_after, delivery_id) WHERE status = 'PENDING';
CREATE INDEX deliveries_in_order ON deliveries (endpoint_id, resource_id, resource_seq) WHERE status = 'PENDING';
CREATE INDEX deliveries_of_job ON deliveries (job_id) WHERE job_id IS NOT NULL;
SELECT coffer_tenant('deliveries', 'SELECT',
    'SELECT, INSERT, DELETE, UPDATE (status, attempts, attempt_after, first_attempt_at, schedule_base,'
        ' job_id, lease, leased_until, ended_at)');
CREATE TRIGGER deliveries_as_inserted BEFORE UPDATE OF delivery_id, org_id, endpoint_id, event_id, resource_id, resource_seq, created_at ON deliveries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A delivery that ended changes only when it is due again.
CREATE TRIGGER deliveries_written_once BEFORE UPDATE ON deliveries FOR EACH ROW
    WHEN (OLD.status <> 'PENDING' AND NEW.status <> 'PENDING')
    EXECUTE FUNCTION refuse_row_change();

-- The owner writes here through events_record_first and in no other way.
CREATE POLICY keeper ON event_sequences TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY keeper ON events FOR INSERT TO CURRENT_USER WITH CHECK (true);
CREATE POLICY keeper ON deliveries FOR INSERT TO CURRENT_USER WITH CHECK (true);
CREATE POLICY keeper ON webhook_endpoints FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY keeper ON organizations FOR SELECT TO CURRENT_USER USING (true);

-- Writes first events of resources that the same transaction creates, with their numbers and their deliveries. It is
-- the last statement before the COMMIT and is sent with it: the counter of the organization is locked from
-- here on. The place within the resource is 1, so no event gets its number ahead of an earlier one of its
-- resource. Rule EVT-17.
CREATE FUNCTION events_record_first(org text, at timestamptz, ids text[], types text[], extensions boolean[], kinds text[],
    resources text[], customers text[], chains text[], heads bytea[], data bytea[]) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET enable_seqscan = off SET search_path = public, pg_temp AS $$
DECLARE
    before bigint;
BEGIN
    IF org IS DISTINCT FROM current_setting('app.org', true) THEN
        RAISE EXCEPTION 'events of % are recorded by another organization', org USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO event_sequences AS s (org_id, last) VALUES (org, cardinality(ids))
    ON CONFLICT (org_id) DO UPDATE SET last = s.last + cardinality(ids)
    RETURNING s.last - cardinality(ids) INTO before;
    INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, customer_id, chain, data, created_at,
        sequence, body)
    SELECT e.event_id, org, e.type, e.kind, e.resource_id, 1, nullif(e.customer_id, ''), nullif(e.chain, ''), '', at,
        before + e.place, event_body(e.head, before + e.place, e.data)
    FROM unnest(ids, types, kinds, resources, customers, chains, heads, data) WITH ORDINALITY
        AS e (event_id, type, kind, resource_id, customer_id, chain, head, data, place)
    ORDER BY e.place;
    INSERT INTO deliveries (org_id, endpoint_id, event_id, resource_id, resource_seq, status, created_at, attempt_after)
    SELECT org, w.endpoint_id, e.event_id, e.resource_id, 1, 'PENDING', at, at
    FROM webhook_endpoints w
    CROSS JOIN unnest(ids, types, extensions, resources, customers, chains) WITH ORDINALITY
        AS e (event_id, type, extension, resource_id, customer_id, chain, place)
    WHERE w.org_id = org AND w.deleted_at IS NULL AND w.status IN ('ENABLED', 'PAUSED')
        AND CASE WHEN w.events = '{}' THEN NOT e.extension ELSE w.events && ARRAY[e.type, '*'] END
        AND coalesce(w.filter_customer_id = e.customer_id, true) AND coalesce(w.filter_chain = e.chain, true)
    ORDER BY e.place, w.endpoint_id;
END $$;
REVOKE ALL ON FUNCTION events_record_first(text, timestamptz, text[], text[], boolean[], text[], text[], text[], text[], bytea[],
    bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION events_record_first(text, timestamptz, text[], text[], boolean[], text[], text[], text[], text[], bytea[],
    bytea[]) TO coffer_app;

-- The log that an organization reads. One statement writes an attempt and the outcome of the
-- delivery that it has just locked, so no foreign key looks the delivery up again.
CREATE TABLE delivery_attempts (
    delivery_id bigint NOT NULL,
    attempt     integer NOT NULL,
    org_id      text NOT NULL,
    at          timestamptz NOT NULL,
    status_code integer, -- NULL: no answer came
    error       text,
    response    text,    -- the first bytes of the answer
    duration_ms integer NOT NULL,
    endpoint_id text,    -- NULL in the oldest rows, which the log leaves out
    url         text,
    CONSTRAINT delivery_attempts_pkey PRIMARY KEY (delivery_id, attempt)
);
CREATE INDEX delivery_attempts_logged ON delivery_attempts (endpoint_id, at, delivery_id, attempt)
    WHERE endpoint_id IS NOT NULL;
CREATE INDEX delivery_attempts_failed ON delivery_attempts (endpoint_id, at, delivery_id, attempt)
    WHERE endpoint_id IS NOT NULL AND (status_code IS NULL OR status_code < 200 OR status_code > 299);
SELECT coffer_tenant('delivery_attempts', 'SELECT', 'SELECT, INSERT, DELETE');
CREATE TRIGGER delivery_attempts_as_inserted BEFORE UPDATE ON delivery_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Samples that were sent on request. They are no events: they have no sequence and report
-- nothing that happened.
CREATE TABLE webhook_tests (
    event_id    text PRIMARY KEY,
    org_id      text NOT NULL,
    endpoint_id text NOT NULL,
    type        text NOT NULL,
    body        bytea NOT NULL,
    url         text NOT NULL,
    at          timestamptz NOT NULL,
    status_code integer,
    error       text,
    response    text,
    duration_ms integer NOT NULL,
    CONSTRAINT webhook_tests_endpoint FOREIGN KEY (org_id, endpoint_id)
        REFERENCES webhook_endpoints (org_id, endpoint_id)
);
CREATE INDEX webhook_tests_logged ON webhook_tests (endpoint_id, at, event_id);
SELECT coffer_tenant('webhook_tests', 'SELECT, INSERT', 'SELECT, DELETE');
CREATE TRIGGER webhook_tests_as_inserted BEFORE UPDATE ON webhook_tests
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
