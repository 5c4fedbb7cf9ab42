-- Why: an endpoint has filters, secrets that are replaced without a message being
-- lost, and an end when nothing but failures came from it for days; its owner reads
-- what was sent and has it sent again; and what is old leaves. Decision 0028
-- says how each is kept.
-- +goose Up

ALTER TABLE webhook_endpoints
    ADD COLUMN filter_customer_id text COLLATE "C", -- NULL: whomever the event concerns
    ADD COLUMN filter_chain       text,             -- NULL: wherever it happened
    ADD COLUMN failing_since timestamptz,   -- the first of the failed attempts since one succeeded; NULL: not failing
    ADD COLUMN failed_at     timestamptz,   -- the latest of them, to the hour
    ADD COLUMN restart_at    timestamptz,   -- what waited at this moment gets a new schedule; NULL: all of it has
    ADD COLUMN restart_after timestamptz,   -- how far that has come, along deliveries_due
    ADD COLUMN restart_id    bigint,
    ADD CONSTRAINT webhook_endpoints_failing_whole CHECK ((failing_since IS NULL) = (failed_at IS NULL)),
    ADD CONSTRAINT webhook_endpoints_restart_whole CHECK (
        (restart_at IS NULL) = (restart_after IS NULL) AND (restart_at IS NULL) = (restart_id IS NULL));
CREATE INDEX webhook_endpoints_to_restart ON webhook_endpoints (endpoint_id) WHERE restart_at IS NOT NULL;

-- Secrets by version, sealed each in its own place. One that was replaced signs
-- beside its successors until it retires.
CREATE TABLE webhook_secrets (
    endpoint_id text NOT NULL,
    version     integer NOT NULL,
    org_id      text NOT NULL,
    sealed      bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    retires_at  timestamptz,            -- NULL: the present one
    CONSTRAINT webhook_secrets_pkey PRIMARY KEY (endpoint_id, version),
    CONSTRAINT webhook_secrets_endpoint FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT webhook_secrets_version_positive CHECK (version >= 1)
);
CREATE UNIQUE INDEX webhook_secrets_one_present ON webhook_secrets (endpoint_id) WHERE retires_at IS NULL;
-- The owner sees the rows of no organization, and for these three statements has to.
ALTER TABLE webhook_endpoints NO FORCE ROW LEVEL SECURITY;
INSERT INTO webhook_secrets (endpoint_id, version, org_id, sealed, created_at)
SELECT endpoint_id, 1, org_id, secret_sealed, created_at FROM webhook_endpoints WHERE deleted_at IS NULL;
ALTER TABLE webhook_endpoints FORCE ROW LEVEL SECURITY;
ALTER TABLE webhook_endpoints DROP COLUMN secret_sealed;
SELECT coffer_tenant('webhook_secrets', 'SELECT, INSERT, UPDATE (retires_at)', 'SELECT, DELETE');

-- What an organization asked to be sent again, and how far it has come.
CREATE TABLE webhook_jobs (
    job_id      text PRIMARY KEY,
    org_id      text NOT NULL REFERENCES organizations,
    kind        text NOT NULL,
    endpoint_id text,                   -- NULL: every endpoint that wants the event
    event_id    text REFERENCES events, -- of a RESEND
    since       timestamptz,            -- of a RECOVER: events of this time and later
    until       timestamptz,            -- and before this one; NULL: up to the last event that there was
    only_failed boolean NOT NULL,
    status      text NOT NULL,
    place       bigint NOT NULL,        -- the last sequence that was looked at
    through     bigint NOT NULL,        -- the last that will be
    examined    bigint NOT NULL DEFAULT 0, -- events that the endpoint wants
    queued      bigint NOT NULL DEFAULT 0, -- of them, made due
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    CONSTRAINT webhook_jobs_endpoint FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT webhook_jobs_kind_known CHECK (
        CASE kind
            WHEN 'RESEND' THEN event_id IS NOT NULL AND since IS NULL AND until IS NULL
            WHEN 'RECOVER' THEN event_id IS NULL AND endpoint_id IS NOT NULL AND since IS NOT NULL
            ELSE false
        END),
    CONSTRAINT webhook_jobs_status_known CHECK (status IN ('RUNNING', 'COMPLETED')),
    CONSTRAINT webhook_jobs_ended CHECK ((status = 'COMPLETED') = (ended_at IS NOT NULL)),
    CONSTRAINT webhook_jobs_place CHECK (place <= through AND queued <= examined)
);
CREATE INDEX webhook_jobs_running ON webhook_jobs (created_at, job_id) WHERE status = 'RUNNING';
CREATE UNIQUE INDEX webhook_jobs_one_recovery ON webhook_jobs (endpoint_id) WHERE status = 'RUNNING' AND kind = 'RECOVER';
CREATE INDEX webhook_jobs_of_endpoint ON webhook_jobs (endpoint_id, created_at) WHERE kind = 'RECOVER';
CREATE INDEX webhook_jobs_of_event ON webhook_jobs (event_id, created_at) WHERE kind = 'RESEND';
SELECT coffer_tenant('webhook_jobs', 'SELECT, INSERT', 'SELECT, UPDATE, DELETE');

-- A delivery that is sent again keeps its row and its count of attempts, and goes
-- through the schedule from the beginning.
ALTER TABLE deliveries
    ADD COLUMN schedule_base integer NOT NULL DEFAULT 0, -- attempts before the present run of the schedule
    ADD COLUMN job_id text,                              -- the job that last made it due
    ADD CONSTRAINT deliveries_schedule_base CHECK (schedule_base BETWEEN 0 AND attempts) NOT VALID;
CREATE INDEX deliveries_of_job ON deliveries (job_id) WHERE job_id IS NOT NULL;
GRANT DELETE ON deliveries TO coffer_system;

-- The log that an organization reads. It has what is recorded from here on; older
-- rows go with their deliveries. Rows are written by the one statement that records
-- the outcome of a delivery it has just locked, so nothing has to look that up again.
ALTER TABLE delivery_attempts
    DROP CONSTRAINT delivery_attempts_delivery_id_fkey,
    ADD COLUMN endpoint_id text,
    ADD COLUMN url text;
CREATE INDEX delivery_attempts_logged ON delivery_attempts (endpoint_id, at, delivery_id, attempt) WHERE endpoint_id IS NOT NULL;
CREATE INDEX delivery_attempts_failed ON delivery_attempts (endpoint_id, at, delivery_id, attempt)
    WHERE endpoint_id IS NOT NULL AND (status_code IS NULL OR status_code < 200 OR status_code > 299);
GRANT DELETE ON delivery_attempts TO coffer_system;

-- Samples that were sent on request. They are no events: they have no sequence and
-- tell of nothing that happened.
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
    CONSTRAINT webhook_tests_endpoint FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoints (org_id, endpoint_id)
);
CREATE INDEX webhook_tests_logged ON webhook_tests (endpoint_id, at, event_id);
SELECT coffer_tenant('webhook_tests', 'SELECT, INSERT', 'SELECT, DELETE');

-- The bytes of an event go after 90 days, in the order of the sequence; that it was,
-- and its number, stay. What is checked of events needs no bytes.
ALTER TABLE events ADD COLUMN expired_at timestamptz;
GRANT UPDATE (data, expired_at) ON events TO coffer_system;
ALTER TABLE event_sequences
    ADD COLUMN expired bigint NOT NULL DEFAULT 0, -- the bytes of the events up to this number are gone
    ADD CONSTRAINT event_sequences_expired_bounded CHECK (expired BETWEEN 0 AND last);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION events_keep() RETURNS trigger LANGUAGE plpgsql AS $$
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
-- +goose StatementEnd
