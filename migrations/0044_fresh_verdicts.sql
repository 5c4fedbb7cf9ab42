-- Why: what providers know of an address changes after its deposits were credited or
-- held. They are asked again, and what they say then is written down beside everything
-- and decides nothing: nothing refers to these rows, and they are never changed.
-- See decision 0044.
-- +goose Up

CREATE TABLE sender_verdicts (
    verdict_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    chain      text NOT NULL,
    address    text NOT NULL, -- of the sender, as its deposits have it
    at         timestamptz NOT NULL,
    severity   text NOT NULL,
    score      integer,
    provider   text NOT NULL,
    entity     text,
    categories text[] NOT NULL,
    reference  text,
    given_at   timestamptz NOT NULL, -- by the provider
    threshold  text,                 -- of the organization then; null: none
    above      boolean NOT NULL,
    credited   boolean NOT NULL,     -- there was a deposit of this sender that screening had let pass
    alert      boolean NOT NULL,     -- it was news
    record     jsonb NOT NULL,       -- a risk.Answer
    CONSTRAINT sender_verdicts_named CHECK (chain <> '' AND address <> '' AND provider <> ''),
    CONSTRAINT sender_verdicts_severity_known CHECK (severity IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE', 'UNKNOWN')),
    CONSTRAINT sender_verdicts_score_of_100 CHECK (score BETWEEN 0 AND 100),
    CONSTRAINT sender_verdicts_alert_reasoned CHECK (NOT alert OR above AND credited AND threshold IS NOT NULL)
);
CREATE INDEX sender_verdicts_of_sender ON sender_verdicts (org_id, chain, address, verdict_id);
CREATE INDEX sender_verdicts_alerts ON sender_verdicts (at) WHERE alert;
SELECT coffer_tenant('sender_verdicts', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER sender_verdicts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sender_verdicts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whom to ask about again, and when. It is found anew from the deposits all the time,
-- so nothing is lost with a row.
CREATE TABLE sender_watch (
    org_id      text NOT NULL REFERENCES organizations,
    chain       text NOT NULL,
    address     text NOT NULL,
    credited    boolean NOT NULL, -- it has a recent deposit that screening has let pass
    lists_only  boolean NOT NULL, -- about which only the lists of sanctions were asked
    flagged     boolean NOT NULL, -- it has a deposit that is held
    enrolled_at timestamptz NOT NULL, -- the round that found it last
    next_at     timestamptz NOT NULL,
    CONSTRAINT sender_watch_pkey PRIMARY KEY (org_id, chain, address)
);
CREATE INDEX sender_watch_due ON sender_watch (next_at);
SELECT coffer_tenant('sender_watch', '', 'SELECT, INSERT, UPDATE, DELETE');

-- One process asks at a time, so that the pace is that of the installation.
CREATE TABLE sender_watch_turn (
    one         boolean PRIMARY KEY DEFAULT true,
    holder      text NOT NULL,
    until       timestamptz NOT NULL,
    enrolled_at timestamptz, -- when the last whole round was begun
    CONSTRAINT sender_watch_turn_single CHECK (one)
);
INSERT INTO sender_watch_turn (holder, until) VALUES ('', '-infinity');
SELECT coffer_shared('sender_watch_turn', '', 'SELECT, UPDATE');
