-- Why: deposits and destinations are screened. What providers answered is kept,
-- sealed whole, so that a decision can be looked at years later and an answer can be
-- used again for a while without anybody who writes the database making one up; so
-- is an imported list of sanctions, which is one sealed value and not rows that
-- could be taken out one by one. local_risk is the list of networks without money,
-- which a person changes to see what screening does.
-- +goose Up

CREATE TABLE risk_answers (
    answer_id text COLLATE "C" PRIMARY KEY,
    provider  text NOT NULL,
    chain     text NOT NULL,
    address   text COLLATE "C" NOT NULL, -- in the form in which addresses are compared
    given_at  timestamptz NOT NULL,
    sealed    bytea NOT NULL, -- the verdict and the provider's own words
    CONSTRAINT risk_answers_named CHECK (provider <> '' AND chain <> '' AND address <> '' AND length(address) <= 200),
    CONSTRAINT risk_answers_bounded CHECK (length(sealed) BETWEEN 1 AND 1048576)
);
CREATE INDEX risk_answers_latest ON risk_answers (provider, chain, address, given_at);
SELECT coffer_shared('risk_answers', '', 'SELECT, INSERT');

CREATE TABLE sanctions_lists (
    list_id      text COLLATE "C" PRIMARY KEY,
    source       text NOT NULL,
    published_at timestamptz NOT NULL, -- by its publisher
    imported_at  timestamptz NOT NULL,
    addresses    int NOT NULL,
    digest       bytea NOT NULL, -- SHA-256 of the file
    sealed       bytea[] NOT NULL, -- all of it, in parts; what counts is in there
    CONSTRAINT sanctions_lists_source_known CHECK (source IN ('OFAC_SDN')),
    CONSTRAINT sanctions_lists_not_empty CHECK (addresses > 0 AND cardinality(sealed) > 0),
    CONSTRAINT sanctions_lists_digest_sha256 CHECK (length(digest) = 32)
);
CREATE INDEX sanctions_lists_newest ON sanctions_lists (source, published_at, imported_at);
SELECT coffer_shared('sanctions_lists', '', 'SELECT, INSERT');

CREATE TABLE local_risk (
    address_key text COLLATE "C" PRIMARY KEY, -- in the form in which addresses are compared
    address     text NOT NULL, -- as it was written
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
    CONSTRAINT local_risk_says_one_thing CHECK (outage = (severity IS NULL) AND (NOT outage OR score IS NULL AND entity IS NULL AND cardinality(categories) = 0)),
    CONSTRAINT local_risk_bounded CHECK (length(coalesce(entity, '')) <= 200 AND cardinality(categories) <= 20)
);
CREATE INDEX local_risk_listed ON local_risk (created_at, address_key);
SELECT coffer_shared('local_risk', '', 'SELECT, INSERT, UPDATE, DELETE');
