-- Why: an organization sells products through reusable public pages. A checkout remembers the page through which it was
-- sold.

-- +goose Up
-- +goose StatementBegin
-- Payment links: reusable public pages, each of which sells one or several products. A sale through a link is a checkout.
CREATE TABLE payment_links (
    link_id         text PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organizations,
    version         bigint NOT NULL,        -- counts the changes
    slug            text COLLATE "C" NOT NULL, -- the end of its address
    status          text NOT NULL,
    line_items      jsonb NOT NULL,
    max_completed   integer,                -- so many sales end it; NULL: no limit
    expires_at      timestamptz,
    after_text      text,                   -- for payers, after the payment
    success_url     text,
    idempotency_key text COLLATE "C",       -- NULL: the caller gave none
    key_hash        text,                   -- hex SHA-256 of the key
    request_digest  bytea NOT NULL,         -- of the caller's parameters
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    CONSTRAINT payment_links_of_organization UNIQUE (org_id, link_id),
    CONSTRAINT payment_links_slug_once UNIQUE (slug),
    CONSTRAINT payment_links_key_unique UNIQUE (org_id, key_hash),
    CONSTRAINT payment_links_key_hashed CHECK (
        (key_hash IS NULL) = (idempotency_key IS NULL) AND (key_hash IS NULL OR key_hash ~ '^[0-9a-f]{64}$')),
    CONSTRAINT payment_links_versioned CHECK (version > 0 AND updated_at >= created_at),
    CONSTRAINT payment_links_slug_formed CHECK (slug ~ '^([A-Za-z0-9]{22}|[a-z0-9][a-z0-9-]{2,38}[a-z0-9])$'),
    CONSTRAINT payment_links_status_known CHECK (status IN ('ACTIVE', 'PAUSED', 'ENDED')),
    CONSTRAINT payment_links_ended CHECK ((status = 'ENDED') = (ended_at IS NOT NULL)),
    CONSTRAINT payment_links_items_list CHECK ((jsonb_typeof(line_items) = 'array' AND jsonb_array_length(line_items) BETWEEN 1 AND 20) IS TRUE),
    CONSTRAINT payment_links_limited CHECK (max_completed BETWEEN 1 AND 1000000),
    CONSTRAINT payment_links_text_bounded CHECK (char_length(after_text) BETWEEN 1 AND 1000),
    CONSTRAINT payment_links_url_web CHECK (
        octet_length(success_url) BETWEEN 1 AND 2048 AND success_url ~ '^https?://[!-~]+$')
);
-- For lists, with a filter and without one.
CREATE INDEX payment_links_listed ON payment_links (org_id, created_at, link_id);
CREATE INDEX payment_links_of_status ON payment_links (org_id, status, created_at, link_id);
SELECT coffer_tenant('payment_links',
    'SELECT, INSERT, UPDATE (version, status, max_completed, expires_at, after_text, success_url, updated_at, ended_at)',
    'SELECT');
-- A link ends, and is never deleted: its address is never another one's.
CREATE TRIGGER payment_links_stay BEFORE DELETE OR TRUNCATE ON payment_links
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The products are in a list, which has no foreign key. Products are never deleted.
CREATE FUNCTION payment_links_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (NEW.version, NEW.status) IS DISTINCT FROM (1::bigint, 'ACTIVE') THEN
        RAISE EXCEPTION 'payment link % begins with changes', NEW.link_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_links_begin';
    END IF;
    IF (SELECT count(DISTINCT p.product_id) FROM public.products p
            WHERE p.org_id = NEW.org_id AND p.product_id IN (
                SELECT item ->> 'productId' FROM jsonb_array_elements(NEW.line_items) item))
       IS DISTINCT FROM jsonb_array_length(NEW.line_items)::bigint THEN
        RAISE EXCEPTION 'payment link % sells a product twice, or one that its organization does not have', NEW.link_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_links_products_known';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER payment_links_begin BEFORE INSERT ON payment_links FOR EACH ROW EXECUTE FUNCTION payment_links_begin();

-- Every change of a link counts one. Its address and what it sells are fixed, and its end is final.
CREATE FUNCTION payment_links_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.link_id, NEW.org_id, NEW.slug, NEW.line_items, NEW.idempotency_key, NEW.key_hash, NEW.request_digest, NEW.created_at)
       IS DISTINCT FROM
       (OLD.link_id, OLD.org_id, OLD.slug, OLD.line_items, OLD.idempotency_key, OLD.key_hash, OLD.request_digest, OLD.created_at) THEN
        RAISE EXCEPTION 'payment link % cannot become another', OLD.link_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_links_identity_fixed';
    END IF;
    IF NEW.version <> OLD.version + 1 OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'a change of payment link % does not follow version %', OLD.link_id, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_links_version_forward';
    END IF;
    IF OLD.status = 'ENDED' THEN
        RAISE EXCEPTION 'payment link % is ended', OLD.link_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_links_end_final';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER payment_links_keep BEFORE UPDATE ON payment_links FOR EACH ROW EXECUTE FUNCTION payment_links_keep();

ALTER TABLE checkouts ADD COLUMN link_id text;
ALTER TABLE checkouts ADD CONSTRAINT checkouts_link FOREIGN KEY (org_id, link_id) REFERENCES payment_links (org_id, link_id)
    NOT VALID;
GRANT INSERT (link_id) ON checkouts TO coffer_app;

-- The terms of sale are fixed. A completion is written once, and a person decides once. The end moves forward only.
CREATE OR REPLACE FUNCTION checkouts_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.checkout_id, NEW.org_id, NEW.line_items, NEW.currency, NEW.due, NEW.need, NEW.accepted_mint_ids, NEW.under_bps, NEW.under_usd,
            NEW.over_policy, NEW.late_policy, NEW.cost_max_bps, NEW.success_url, NEW.cancel_url, NEW.customer_id,
            NEW.customer_email, NEW.reference, NEW.one_per_reference, NEW.metadata, NEW.idempotency_key, NEW.key_hash, NEW.request_digest,
            NEW.created_at, NEW.link_id)
       IS DISTINCT FROM
       (OLD.checkout_id, OLD.org_id, OLD.line_items, OLD.currency, OLD.due, OLD.need, OLD.accepted_mint_ids, OLD.under_bps, OLD.under_usd,
            OLD.over_policy, OLD.late_policy, OLD.cost_max_bps, OLD.success_url, OLD.cancel_url, OLD.customer_id,
            OLD.customer_email, OLD.reference, OLD.one_per_reference, OLD.metadata, OLD.idempotency_key, OLD.key_hash, OLD.request_digest,
            OLD.created_at, OLD.link_id) THEN
        RAISE EXCEPTION 'the terms of checkout % are fixed', OLD.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_terms_fixed';
    END IF;
    IF NEW.version <> OLD.version + 1 OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'a change of checkout % does not follow version %', OLD.checkout_id, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_version_forward';
    END IF;
    IF OLD.status = 'COMPLETED' AND (NEW.status, NEW.completed_at, NEW.completed_with, NEW.decided_by, NEW.decided_reason)
            IS DISTINCT FROM (OLD.status, OLD.completed_at, OLD.completed_with, OLD.decided_by, OLD.decided_reason) THEN
        RAISE EXCEPTION 'checkout % is completed', OLD.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_completed_once';
    END IF;
    IF OLD.status <> NEW.status AND (OLD.status || ' ' || NEW.status) NOT IN (
            'OPEN PROCESSING', 'OPEN COMPLETED', 'OPEN EXPIRED', 'OPEN CANCELLED', 'PROCESSING COMPLETED', 'PROCESSING OPEN',
            'EXPIRED PROCESSING', 'EXPIRED COMPLETED', 'CANCELLED PROCESSING', 'CANCELLED COMPLETED') THEN
        RAISE EXCEPTION 'checkout % does not go from % to %', OLD.checkout_id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_transition_known';
    END IF;
    IF OLD.cancelled_at IS DISTINCT FROM NEW.cancelled_at AND (OLD.cancelled_at IS NOT NULL OR NEW.status <> 'CANCELLED') THEN
        RAISE EXCEPTION 'checkout % is cancelled once', OLD.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_cancelled_once';
    END IF;
    IF NEW.expires_at < OLD.expires_at OR OLD.is_extended AND NOT NEW.is_extended THEN
        RAISE EXCEPTION 'the end of checkout % only moves forward', OLD.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_end_forward';
    END IF;
    IF OLD.decided_by IS NOT NULL AND (NEW.decided_by, NEW.decided_reason) IS DISTINCT FROM (OLD.decided_by, OLD.decided_reason)
       OR NEW.decided_by IS NOT NULL AND NEW.status <> 'COMPLETED' THEN
        RAISE EXCEPTION 'a decision about checkout % completes it once', OLD.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_decided_once';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
