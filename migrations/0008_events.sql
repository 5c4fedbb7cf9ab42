-- Why: what organizations are told. An event is written in the transaction of
-- the change it tells of; a sequencer numbers it afterwards and makes its
-- deliveries, so that no writer waits for another.
-- +goose Up

CREATE TABLE events (
    event_id      text PRIMARY KEY,
    org_id        text NOT NULL REFERENCES organizations,
    type          text NOT NULL,
    resource_kind text NOT NULL,
    resource_id   text NOT NULL,
    resource_seq  integer NOT NULL,     -- 1, 2, … within the resource
    customer_id   text COLLATE "C",
    chain         text,
    data          bytea NOT NULL,       -- JSON, frozen when the change was made
    created_at    timestamptz NOT NULL,
    sequence      bigint,               -- within the organization, without gaps
    body          bytea,                -- what is signed and sent, frozen with the sequence
    CONSTRAINT events_resource_order UNIQUE (org_id, resource_id, resource_seq),
    CONSTRAINT events_sequence_unique UNIQUE (org_id, sequence),
    CONSTRAINT events_sequenced_whole CHECK ((sequence IS NULL) = (body IS NULL)),
    CONSTRAINT events_sequence_positive CHECK (sequence >= 1)
);
CREATE INDEX events_to_sequence ON events (event_id) WHERE sequence IS NULL;
SELECT coffer_tenant('events', 'SELECT, INSERT', 'SELECT, INSERT, UPDATE');
-- +goose StatementBegin
CREATE FUNCTION events_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.event_id, NEW.org_id, NEW.type, NEW.resource_id, NEW.resource_seq, NEW.data) IS DISTINCT FROM
       (OLD.event_id, OLD.org_id, OLD.type, OLD.resource_id, OLD.resource_seq, OLD.data)
       OR (OLD.sequence IS NOT NULL AND (NEW.sequence, NEW.body) IS DISTINCT FROM (OLD.sequence, OLD.body)) THEN
        RAISE EXCEPTION 'event % is written once', OLD.event_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'events_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER events_keep BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION events_keep();

CREATE TABLE event_sequences (
    org_id text PRIMARY KEY REFERENCES organizations,
    last   bigint NOT NULL,
    CONSTRAINT event_sequences_not_negative CHECK (last >= 0)
);
SELECT coffer_tenant('event_sequences', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE TABLE webhook_endpoints (
    endpoint_id   text PRIMARY KEY,
    org_id        text NOT NULL REFERENCES organizations,
    url           text NOT NULL,
    description   text NOT NULL DEFAULT '',
    events        text[] NOT NULL,      -- empty: the events of the interface, no extensions
    status        text NOT NULL,
    secret_sealed bytea NOT NULL,
    api_version   text NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    CONSTRAINT webhook_endpoints_of_org UNIQUE (org_id, endpoint_id),
    CONSTRAINT webhook_endpoints_status_known CHECK (status IN ('ENABLED', 'PAUSED', 'DISABLED_GONE', 'DISABLED_BY_FAILURE')),
    CONSTRAINT webhook_endpoints_url_bounded CHECK (octet_length(url) BETWEEN 1 AND 2048)
);
CREATE INDEX webhook_endpoints_listed ON webhook_endpoints (org_id, created_at, endpoint_id) WHERE deleted_at IS NULL;
SELECT coffer_tenant('webhook_endpoints', 'SELECT, INSERT, UPDATE', 'SELECT, UPDATE');

-- One row an endpoint and event. Only the head of each (endpoint, resource) is
-- due; a lease says who is at it, and attempt_after stands at its end meanwhile.
CREATE TABLE deliveries (
    delivery_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id        text NOT NULL,
    endpoint_id   text NOT NULL,
    event_id      text NOT NULL REFERENCES events,
    resource_id   text NOT NULL,
    resource_seq  integer NOT NULL,
    status        text NOT NULL,
    attempts      integer NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL,
    attempt_after timestamptz NOT NULL,
    first_attempt_at timestamptz,
    leased_until  timestamptz,
    lease         uuid,
    ended_at      timestamptz,
    CONSTRAINT deliveries_once UNIQUE (endpoint_id, event_id),
    CONSTRAINT deliveries_endpoint FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoints (org_id, endpoint_id),
    CONSTRAINT deliveries_status_known CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED', 'CANCELLED')),
    CONSTRAINT deliveries_ended CHECK ((status = 'PENDING') = (ended_at IS NULL)),
    CONSTRAINT deliveries_leased_whole CHECK ((leased_until IS NULL) = (lease IS NULL))
);
CREATE INDEX deliveries_due ON deliveries (endpoint_id, attempt_after, delivery_id) WHERE status = 'PENDING';
CREATE INDEX deliveries_in_order ON deliveries (endpoint_id, resource_id, resource_seq) WHERE status = 'PENDING';
SELECT coffer_tenant('deliveries', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE TABLE delivery_attempts (
    delivery_id   bigint NOT NULL REFERENCES deliveries,
    attempt       integer NOT NULL,
    org_id        text NOT NULL,
    at            timestamptz NOT NULL,
    status_code   integer,              -- NULL when there was no answer
    error         text,
    response      text,                 -- the first bytes of the answer
    duration_ms   integer NOT NULL,
    CONSTRAINT delivery_attempts_pkey PRIMARY KEY (delivery_id, attempt)
);
SELECT coffer_tenant('delivery_attempts', 'SELECT', 'SELECT, INSERT');
