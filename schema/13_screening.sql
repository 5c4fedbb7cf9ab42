-- Screening: the answers of risk providers, lists of sanctions, and senders that are asked
-- about again (decisions 0034, 0044).

-- What a provider answered, sealed whole: a decision can be checked years later, an answer can
-- be used again for a while, and a writer of the database cannot make one up.
CREATE TABLE risk_answers (
    answer_id text COLLATE "C" PRIMARY KEY,
    provider  text NOT NULL,
    chain     text NOT NULL,
    address   text COLLATE "C" NOT NULL, -- in the form in which addresses are compared
    given_at  timestamptz NOT NULL,
    sealed    bytea NOT NULL,            -- the verdict and the provider's own words
    kept_at   timestamptz,               -- when it was stored; NULL: unknown, and the answer stays
    CONSTRAINT risk_answers_named CHECK (provider <> '' AND chain <> '' AND address <> '' AND length(address) <= 200),
    CONSTRAINT risk_answers_bounded CHECK (length(sealed) BETWEEN 1 AND 1048576)
);
CREATE INDEX risk_answers_latest ON risk_answers (provider, chain, address, given_at);
SELECT coffer_shared('risk_answers', '', 'SELECT, INSERT, DELETE');

-- One row for each time that an answer led to a decision or a report. Triggers write the rows,
-- so no path of the service can forget to. There is no unique key: two uses of one answer at
-- the same moment do not wait for each other.
CREATE TABLE risk_answer_uses (
    answer_id text COLLATE "C" NOT NULL,
    used_by   text NOT NULL,
    CONSTRAINT risk_answer_uses_by_known CHECK (used_by IN ('DEPOSIT', 'WITHDRAWAL', 'SENDER'))
);
CREATE INDEX risk_answer_uses_of ON risk_answer_uses (answer_id);
SELECT coffer_shared('risk_answer_uses', '', 'SELECT');
CREATE TRIGGER risk_answer_uses_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON risk_answer_uses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION deposit_decisions_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'DEPOSIT' FROM added, jsonb_path_query(added.record, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE TRIGGER deposit_decisions_use AFTER INSERT ON deposit_decisions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION deposit_decisions_use();

-- An answer that a decision refers to stays. Others leave after eight days, which is longer
-- than any answer is used again. Rule RISK-13.
CREATE FUNCTION risk_answers_stay() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.kept_at IS NULL OR OLD.kept_at > now() - interval '8 days'
        OR EXISTS (SELECT FROM risk_answer_uses WHERE answer_id = OLD.answer_id) THEN
        RAISE EXCEPTION 'answer % stays: something may have been decided by it', OLD.answer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'risk_answers_used_stay';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER risk_answers_used_stay BEFORE DELETE ON risk_answers FOR EACH ROW EXECUTE FUNCTION risk_answers_stay();

-- Up to which answer the service looked for answers that may leave. The ids are in the order
-- of time.
CREATE TABLE risk_answers_pruned (
    one       boolean PRIMARY KEY DEFAULT true,
    answer_id text COLLATE "C" NOT NULL,
    CONSTRAINT risk_answers_pruned_single CHECK (one)
);
INSERT INTO risk_answers_pruned (answer_id) VALUES ('');
SELECT coffer_shared('risk_answers_pruned', '', 'SELECT, UPDATE');

-- An imported list of sanctions. The entries are sealed values and not rows, so that no
-- single entry can be removed.
CREATE TABLE sanctions_lists (
    list_id      text COLLATE "C" PRIMARY KEY,
    source       text NOT NULL,
    published_at timestamptz NOT NULL, -- by its publisher
    imported_at  timestamptz NOT NULL,
    addresses    int NOT NULL,
    digest       bytea NOT NULL,       -- SHA-256 of the file
    sealed       bytea[] NOT NULL,     -- the whole list, in parts: what counts
    CONSTRAINT sanctions_lists_source_known CHECK (source IN ('OFAC_SDN')),
    CONSTRAINT sanctions_lists_not_empty CHECK (addresses > 0 AND cardinality(sealed) > 0),
    CONSTRAINT sanctions_lists_digest_sha256 CHECK (length(digest) = 32)
);
CREATE INDEX sanctions_lists_newest ON sanctions_lists (source, published_at, imported_at);
SELECT coffer_shared('sanctions_lists', '', 'SELECT, INSERT');

-- The verdicts of networks without money. A developer changes them to see what screening does.
CREATE TABLE local_risk (
    address_key text COLLATE "C" PRIMARY KEY, -- in the form in which addresses are compared
    address     text NOT NULL,                -- as it was entered
    outage      boolean NOT NULL,
    severity    text,
    score       int,
    entity      text,
    categories  text[] NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT local_risk_addressed CHECK (address_key <> '' AND length(address) <= 200),
    CONSTRAINT local_risk_severity_known CHECK (severity IN ('UNKNOWN', 'NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE')),
    CONSTRAINT local_risk_score_of_100 CHECK (score BETWEEN 0 AND 100),
    CONSTRAINT local_risk_says_one_thing CHECK (
        outage = (severity IS NULL)
        AND (NOT outage OR score IS NULL AND entity IS NULL AND cardinality(categories) = 0)),
    CONSTRAINT local_risk_bounded CHECK (length(coalesce(entity, '')) <= 200 AND cardinality(categories) <= 20)
);
CREATE INDEX local_risk_listed ON local_risk (created_at, address_key);
SELECT coffer_shared('local_risk', '', 'SELECT, INSERT, UPDATE, DELETE');
CREATE TRIGGER local_risk_as_inserted BEFORE UPDATE OF address_key, created_at ON local_risk
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a provider says of a sender after the deposits were credited or flagged. A verdict
-- decides nothing: no row refers to it, and it never changes.
CREATE TABLE sender_verdicts (
    verdict_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    chain      text NOT NULL,
    address    text NOT NULL,        -- the sender, as its deposits name it
    at         timestamptz NOT NULL,
    severity   text NOT NULL,
    score      integer,
    provider   text NOT NULL,
    entity     text,
    categories text[] NOT NULL,
    reference  text,
    given_at   timestamptz NOT NULL, -- by the provider
    threshold  text,                 -- of the organization at that time; NULL: none
    above      boolean NOT NULL,
    credited   boolean NOT NULL,     -- screening had let a deposit of this sender pass
    alert      boolean NOT NULL,     -- the verdict was new
    record     jsonb NOT NULL,       -- a risk.Answer
    CONSTRAINT sender_verdicts_named CHECK (chain <> '' AND address <> '' AND provider <> ''),
    CONSTRAINT sender_verdicts_severity_known CHECK (
        severity IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE', 'UNKNOWN')),
    CONSTRAINT sender_verdicts_score_of_100 CHECK (score BETWEEN 0 AND 100),
    CONSTRAINT sender_verdicts_alert_reasoned CHECK (NOT alert OR above AND credited AND threshold IS NOT NULL)
);
CREATE INDEX sender_verdicts_of_sender ON sender_verdicts (org_id, chain, address, verdict_id);
CREATE INDEX sender_verdicts_alerts ON sender_verdicts (at) WHERE alert;
SELECT coffer_tenant('sender_verdicts', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER sender_verdicts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sender_verdicts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION fresh_verdicts_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'SENDER' FROM added, jsonb_path_query(added.record, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE TRIGGER sender_verdicts_use AFTER INSERT ON sender_verdicts REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION fresh_verdicts_use();

-- Which senders are asked about again, and when. The service derives the rows from the
-- deposits over and over, so a lost row loses nothing.
CREATE TABLE sender_watch (
    org_id      text NOT NULL REFERENCES organizations,
    chain       text NOT NULL,
    address     text NOT NULL,
    credited    boolean NOT NULL,     -- screening has let a recent deposit of it pass
    lists_only  boolean NOT NULL,     -- for that deposit only the lists of sanctions were asked
    flagged     boolean NOT NULL,     -- it has a flagged deposit
    enrolled_at timestamptz NOT NULL, -- the round that found it last
    next_at     timestamptz NOT NULL,
    CONSTRAINT sender_watch_pkey PRIMARY KEY (org_id, chain, address)
);
CREATE INDEX sender_watch_due ON sender_watch (next_at);
SELECT coffer_tenant('sender_watch', '', 'SELECT, INSERT, UPDATE, DELETE');
CREATE TRIGGER sender_watch_as_inserted BEFORE UPDATE OF org_id, chain, address ON sender_watch
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- One process asks at a time, so that the installation keeps its rate.
CREATE TABLE sender_watch_lease (
    one         boolean PRIMARY KEY DEFAULT true,
    holder      text NOT NULL,
    until       timestamptz NOT NULL,
    enrolled_at timestamptz, -- when the last whole round began
    CONSTRAINT sender_watch_lease_single CHECK (one)
);
INSERT INTO sender_watch_lease (holder, until) VALUES ('', '-infinity');
SELECT coffer_shared('sender_watch_lease', '', 'SELECT, UPDATE');
