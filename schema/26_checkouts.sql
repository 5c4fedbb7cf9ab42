-- Products, which an organization sells through its checkout, and the checkouts in which payers buy them.
--
-- A product moves no money. A checkout copies what it needs of its products, so a later change concerns no
-- checkout that exists. What a checkout is paid with are deposits, and only they move money.

-- Images of products, as this service encoded them. Pages show them from their own origin: an image at a
-- stranger's address would tell that stranger who looks at it.
CREATE TABLE product_images (
    image_id   text PRIMARY KEY,     -- follows from the organization and the content
    org_id     text NOT NULL REFERENCES organizations,
    media_type text NOT NULL,
    width      integer NOT NULL,
    height     integer NOT NULL,
    hash       bytea NOT NULL,       -- SHA-256 of the content
    content    bytea NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT product_images_of_organization UNIQUE (org_id, image_id),
    CONSTRAINT product_images_media_known CHECK (media_type IN ('image/png', 'image/jpeg')),
    CONSTRAINT product_images_bounded CHECK (
        width BETWEEN 1 AND 4096 AND height BETWEEN 1 AND 4096 AND octet_length(content) BETWEEN 1 AND 4194304),
    CONSTRAINT product_images_hashed CHECK (hash = sha256(content))
);
SELECT coffer_tenant('product_images', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER product_images_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON product_images
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE products (
    product_id         text PRIMARY KEY,
    org_id             text NOT NULL REFERENCES organizations,
    version            bigint NOT NULL,      -- counts the changes
    status             text NOT NULL,
    name               text NOT NULL,
    description        text,
    image_url          text,                 -- from which the image was fetched
    image_id           text,
    price_type         text NOT NULL,
    currency           text NOT NULL,        -- USD, or the symbol of an accepted mint
    price              numeric(36,18),
    min_price          numeric(36,18),       -- of a price that the payer chooses
    max_price          numeric(36,18),
    accepted_mint_ids  integer[] NOT NULL,
    settlement_mint_id integer,              -- NULL: what is paid stays what it is
    max_quantity       integer NOT NULL,     -- in one checkout
    under_bps          integer NOT NULL,     -- how much less than the amount due counts as paid
    over_policy        text NOT NULL,
    late_policy        text NOT NULL,
    success_url        text,
    cancel_url         text,
    one_per_reference  boolean NOT NULL,
    metadata           jsonb NOT NULL,
    idempotency_key    text COLLATE "C",     -- NULL: the caller gave none
    key_hash           text,                 -- hex SHA-256 of the key
    request_digest     bytea NOT NULL,       -- of the caller's parameters
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    archived_at        timestamptz,
    CONSTRAINT products_key_unique UNIQUE (org_id, key_hash),
    CONSTRAINT products_image FOREIGN KEY (org_id, image_id) REFERENCES product_images (org_id, image_id),
    CONSTRAINT products_image_fetched CHECK ((image_url IS NULL) = (image_id IS NULL)),
    CONSTRAINT products_key_hashed CHECK (
        (key_hash IS NULL) = (idempotency_key IS NULL) AND (key_hash IS NULL OR key_hash ~ '^[0-9a-f]{64}$')),
    CONSTRAINT products_versioned CHECK (version > 0 AND updated_at >= created_at),
    CONSTRAINT products_status_known CHECK (status IN ('ACTIVE', 'ARCHIVED')),
    CONSTRAINT products_archived CHECK ((status = 'ARCHIVED') = (archived_at IS NOT NULL)),
    CONSTRAINT products_named CHECK (char_length(name) BETWEEN 1 AND 200 AND char_length(description) BETWEEN 1 AND 2000),
    CONSTRAINT products_price_type_known CHECK (price_type IN ('FIXED', 'OPEN')),
    CONSTRAINT products_currency_named CHECK (char_length(currency) BETWEEN 1 AND 64),
    -- A fixed price has no bounds, and an open one has both and no price.
    CONSTRAINT products_priced CHECK (
        (CASE price_type WHEN 'FIXED' THEN price > 0 AND min_price IS NULL AND max_price IS NULL
            ELSE price IS NULL AND min_price > 0 AND max_price >= min_price END) IS TRUE),
    CONSTRAINT products_mints_bounded CHECK (cardinality(accepted_mint_ids) BETWEEN 1 AND 200),
    CONSTRAINT products_settlement_accepted CHECK ((settlement_mint_id = ANY (accepted_mint_ids)) IS NOT FALSE),
    CONSTRAINT products_quantity_bounded CHECK (max_quantity BETWEEN 1 AND 1000),
    CONSTRAINT products_tolerance_bounded CHECK (under_bps BETWEEN 0 AND 1000),
    CONSTRAINT products_over_policy_known CHECK (over_policy IN ('CREDIT', 'REFUND_LINK')),
    CONSTRAINT products_late_policy_known CHECK (late_policy IN ('ACCEPT_IF_WITHIN_TOLERANCE', 'HOLD', 'REFUND_LINK')),
    CONSTRAINT products_urls_bounded CHECK (
        octet_length(image_url) BETWEEN 1 AND 2048 AND octet_length(success_url) BETWEEN 1 AND 2048
        AND octet_length(cancel_url) BETWEEN 1 AND 2048),
    CONSTRAINT products_urls_web CHECK (
        image_url ~ '^https?://[!-~]+$' AND success_url ~ '^https?://[!-~]+$' AND cancel_url ~ '^https?://[!-~]+$'),
    CONSTRAINT products_metadata_object CHECK (jsonb_typeof(metadata) = 'object')
);
-- For lists, with a filter and without one.
CREATE INDEX products_listed ON products (org_id, created_at, product_id);
CREATE INDEX products_of_status ON products (org_id, status, created_at, product_id);
SELECT coffer_tenant('products',
    'SELECT, INSERT, UPDATE (version, status, name, description, image_url, image_id, price_type, currency, price, min_price,'
        ' max_price, accepted_mint_ids, settlement_mint_id, max_quantity, under_bps, over_policy, late_policy, success_url,'
        ' cancel_url, one_per_reference, metadata, updated_at, archived_at)',
    'SELECT');
-- A product is archived, never deleted.
CREATE TRIGGER products_stay BEFORE DELETE OR TRUNCATE ON products
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION products_begin() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.version, NEW.status) IS DISTINCT FROM (1::bigint, 'ACTIVE') THEN
        RAISE EXCEPTION 'product % begins with changes', NEW.product_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'products_begin';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER products_begin BEFORE INSERT ON products FOR EACH ROW EXECUTE FUNCTION products_begin();

-- Every change of a product counts one, so a change of a version that is not the present one finds no row.
CREATE FUNCTION products_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.product_id, NEW.org_id, NEW.idempotency_key, NEW.key_hash, NEW.request_digest, NEW.created_at)
       IS DISTINCT FROM
       (OLD.product_id, OLD.org_id, OLD.idempotency_key, OLD.key_hash, OLD.request_digest, OLD.created_at) THEN
        RAISE EXCEPTION 'product % cannot become another', OLD.product_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'products_identity_fixed';
    END IF;
    IF NEW.version <> OLD.version + 1 OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'a change of product % does not follow version %', OLD.product_id, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'products_version_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER products_keep BEFORE UPDATE ON products FOR EACH ROW EXECUTE FUNCTION products_keep();

-- A list has no foreign key. Mints are never deleted.
CREATE FUNCTION products_mints_known() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT count(DISTINCT m.mint_id) FROM mints m WHERE m.mint_id = ANY (NEW.accepted_mint_ids))
       IS DISTINCT FROM cardinality(NEW.accepted_mint_ids)::bigint THEN
        RAISE EXCEPTION 'product % accepts a mint twice, or one that does not exist', NEW.product_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'products_mints_known';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER products_mints_known BEFORE INSERT OR UPDATE OF accepted_mint_ids ON products
    FOR EACH ROW EXECUTE FUNCTION products_mints_known();

-- How an organization's checkout looks, and what applies to its new checkouts. Without a row, the defaults apply.
CREATE TABLE checkout_settings (
    org_id       text PRIMARY KEY REFERENCES organizations,
    version      bigint NOT NULL,       -- counts the changes
    shop_name    text,                  -- NULL: the name of the organization
    accent       text,                  -- a color such as #0a7d4f; NULL: the one of the page
    support_url  text,                  -- where a payer asks the shop
    under_usd    numeric(38,18) NOT NULL, -- how much less than an amount due in dollars counts as paid
    cost_max_bps integer NOT NULL,      -- how much of the amount due collecting a payment may cost
    updated_at   timestamptz NOT NULL,
    updated_by   text NOT NULL,
    embed_origins text[] NOT NULL DEFAULT '{}', -- whose pages may show the page of a checkout in a frame
    CONSTRAINT checkout_settings_versioned CHECK (version > 0),
    CONSTRAINT checkout_settings_words CHECK (
        char_length(shop_name) BETWEEN 1 AND 200 AND accent ~ '^#[0-9a-f]{6}$'
        AND octet_length(support_url) BETWEEN 1 AND 2048 AND support_url ~ '^(https?://|mailto:)[!-~]+$'),
    CONSTRAINT checkout_settings_bounded CHECK (under_usd BETWEEN 0 AND 1000 AND cost_max_bps BETWEEN 1 AND 10000),
    CONSTRAINT checkout_settings_embedding CHECK (
        cardinality(embed_origins) <= 10
        AND embed_origins::text ~ '^\{(https?://[a-z0-9.-]+(:[0-9]{1,5})?(,https?://[a-z0-9.-]+(:[0-9]{1,5})?)*)?\}$')
);
SELECT coffer_tenant('checkout_settings',
    'SELECT, INSERT, UPDATE (version, shop_name, accent, support_url, under_usd, cost_max_bps, updated_at, updated_by, embed_origins)',
    'SELECT');
CREATE TRIGGER checkout_settings_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id ON checkout_settings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Every change counts one, so a change of a version that is not the present one finds no row.
CREATE FUNCTION checkout_settings_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.version <> OLD.version + 1 OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'a change of the checkout settings of % does not follow version %', OLD.org_id, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkout_settings_version_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkout_settings_keep BEFORE UPDATE ON checkout_settings FOR EACH ROW EXECUTE FUNCTION checkout_settings_keep();

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

-- Checkouts: one sale each. What a payer agreed to is fixed by the row; what was paid is in checkout_payments, and the
-- status follows from it. Nothing is posted for a checkout: the credit of a deposit is all that moves money.
CREATE TABLE checkouts (
    checkout_id       text PRIMARY KEY,
    org_id            text NOT NULL REFERENCES organizations,
    version           bigint NOT NULL,      -- counts the changes, for pages that are open
    -- The terms of sale.
    line_items        jsonb NOT NULL,
    currency          text NOT NULL,        -- USD, or the symbol of an accepted mint
    due               numeric(38,18) NOT NULL,
    need              numeric(38,18) NOT NULL, -- from how much on it counts as paid
    accepted_mint_ids integer[] NOT NULL,
    under_bps         integer NOT NULL,
    under_usd         numeric(38,18) NOT NULL,
    over_policy       text NOT NULL,
    late_policy       text NOT NULL,
    cost_max_bps      integer NOT NULL,
    success_url       text,
    cancel_url        text,
    -- The caller's own words. No payer sees them.
    customer_id       text COLLATE "C",
    customer_email    text,
    reference         text COLLATE "C",
    one_per_reference boolean NOT NULL,
    metadata          jsonb NOT NULL,
    idempotency_key   text COLLATE "C",     -- NULL: the caller gave none
    key_hash          text,                 -- hex SHA-256 of the key
    request_digest    bytea NOT NULL,       -- of the caller's parameters
    created_at        timestamptz NOT NULL,
    -- What became of it.
    status            text NOT NULL,
    exceptions        text[] NOT NULL DEFAULT '{}', -- the most severe first
    seen              numeric(38,18) NOT NULL DEFAULT 0, -- what counts of the payments in blocks
    counted           numeric(38,18) NOT NULL DEFAULT 0, -- what counts of the credited payments
    is_extended       boolean NOT NULL DEFAULT false,    -- a first part has moved the end once
    expires_at        timestamptz NOT NULL,
    decided_by        text,                 -- the person who accepted what was paid
    decided_reason    text,
    cancelled_at      timestamptz,
    completed_at      timestamptz,
    completed_with    numeric(38,18),       -- what counted when it was completed
    updated_at        timestamptz NOT NULL,
    link_id           text,                 -- the payment link through which it was sold
    CONSTRAINT checkouts_of_organization UNIQUE (org_id, checkout_id),
    CONSTRAINT checkouts_link FOREIGN KEY (org_id, link_id) REFERENCES payment_links (org_id, link_id),
    CONSTRAINT checkouts_key_unique UNIQUE (org_id, key_hash),
    CONSTRAINT checkouts_key_hashed CHECK (
        (key_hash IS NULL) = (idempotency_key IS NULL) AND (key_hash IS NULL OR key_hash ~ '^[0-9a-f]{64}$')),
    CONSTRAINT checkouts_versioned CHECK (version > 0 AND updated_at >= created_at),
    CONSTRAINT checkouts_items_list CHECK ((jsonb_typeof(line_items) = 'array' AND jsonb_array_length(line_items) BETWEEN 1 AND 50) IS TRUE),
    CONSTRAINT checkouts_currency_named CHECK (char_length(currency) BETWEEN 1 AND 64),
    -- A tolerance never gives away more than a tenth.
    CONSTRAINT checkouts_due CHECK (due > 0 AND need <= due AND need >= due * 0.9),
    CONSTRAINT checkouts_mints_bounded CHECK (cardinality(accepted_mint_ids) BETWEEN 1 AND 200),
    CONSTRAINT checkouts_tolerance_bounded CHECK (under_bps BETWEEN 0 AND 1000 AND under_usd BETWEEN 0 AND 1000
        AND cost_max_bps BETWEEN 1 AND 10000),
    CONSTRAINT checkouts_policies_known CHECK (
        over_policy IN ('CREDIT', 'REFUND_LINK')
        AND late_policy IN ('ACCEPT_IF_WITHIN_TOLERANCE', 'HOLD', 'REFUND_LINK')),
    CONSTRAINT checkouts_urls_bounded CHECK (
        octet_length(success_url) BETWEEN 1 AND 2048 AND octet_length(cancel_url) BETWEEN 1 AND 2048),
    CONSTRAINT checkouts_urls_web CHECK (success_url ~ '^https?://[!-~]+$' AND cancel_url ~ '^https?://[!-~]+$'),
    CONSTRAINT checkouts_reference_named CHECK (
        octet_length(reference) BETWEEN 1 AND 800 AND (reference IS NOT NULL OR NOT one_per_reference)),
    CONSTRAINT checkouts_metadata_object CHECK (jsonb_typeof(metadata) = 'object'),
    CONSTRAINT checkouts_status_known CHECK (status IN ('OPEN', 'PROCESSING', 'COMPLETED', 'EXPIRED', 'CANCELLED')),
    CONSTRAINT checkouts_exceptions_known CHECK (exceptions <@ ARRAY['UNDERPAID', 'OVERPAID', 'PAID_LATE', 'WRONG_TOKEN', 'FLAGGED',
        'REVERSED', 'REFUNDED']),
    CONSTRAINT checkouts_amounts CHECK (counted >= 0 AND seen >= counted),
    CONSTRAINT checkouts_decided CHECK (num_nonnulls(decided_by, decided_reason) IN (0, 2)
        AND char_length(decided_reason) BETWEEN 1 AND 1000 AND decided_by <> ''),
    CONSTRAINT checkouts_cancelled CHECK (status <> 'CANCELLED' OR cancelled_at IS NOT NULL),
    CONSTRAINT checkouts_completed CHECK (
        (status = 'COMPLETED') = (completed_at IS NOT NULL) AND (status = 'COMPLETED') = (completed_with IS NOT NULL)),
    -- Invariant I-81.
    CONSTRAINT checkouts_paid CHECK (status <> 'COMPLETED' OR completed_with >= need OR decided_by IS NOT NULL)
);
-- For lists: every filter that leaves few rows of many has an index.
CREATE INDEX checkouts_listed ON checkouts (org_id, created_at, checkout_id);
CREATE INDEX checkouts_of_status ON checkouts (org_id, status, created_at, checkout_id);
CREATE INDEX checkouts_of_customer ON checkouts (org_id, customer_id, created_at, checkout_id) WHERE customer_id IS NOT NULL;
CREATE INDEX checkouts_of_reference ON checkouts (org_id, reference, created_at, checkout_id) WHERE reference IS NOT NULL;
CREATE INDEX checkouts_exceptional ON checkouts (org_id, created_at, checkout_id) WHERE exceptions <> '{}';
-- Each exception has few of many checkouts.
CREATE INDEX checkouts_flagged ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['FLAGGED'];
CREATE INDEX checkouts_reversed ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['REVERSED'];
CREATE INDEX checkouts_wrong_token ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['WRONG_TOKEN'];
CREATE INDEX checkouts_overpaid ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['OVERPAID'];
CREATE INDEX checkouts_paid_late ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['PAID_LATE'];
CREATE INDEX checkouts_underpaid ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['UNDERPAID'];
CREATE INDEX checkouts_refunded ON checkouts (org_id, created_at, checkout_id) WHERE exceptions && ARRAY['REFUNDED'];
-- What waited for a person before those of which everything was given back left the list. The program of before reads it.
CREATE INDEX checkouts_to_decide ON checkouts (org_id, created_at, checkout_id)
    WHERE exceptions && ARRAY['FLAGGED']
        OR status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND exceptions && ARRAY['REVERSED', 'WRONG_TOKEN']
        OR status IN ('EXPIRED', 'CANCELLED') AND exceptions && ARRAY['UNDERPAID', 'PAID_LATE'];
-- What waits for a person: screening holds a payment, one was taken back, or something was paid that completes nothing,
-- and not all of it was given back.
CREATE INDEX checkouts_undecided ON checkouts (org_id, created_at, checkout_id)
    WHERE exceptions && ARRAY['FLAGGED']
        OR status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND exceptions && ARRAY['REVERSED']
        OR status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND exceptions && ARRAY['WRONG_TOKEN']
            AND NOT exceptions && ARRAY['REFUNDED']
        OR status IN ('EXPIRED', 'CANCELLED') AND exceptions && ARRAY['UNDERPAID', 'PAID_LATE']
            AND NOT exceptions && ARRAY['REFUNDED'];
-- What the worker ends.
CREATE INDEX checkouts_to_expire ON checkouts (expires_at, checkout_id) WHERE status = 'OPEN';
-- The checkouts of a link, those that count for its limit, and those that hold a place in the limit of an organization.
CREATE INDEX checkouts_of_link ON checkouts (link_id, created_at, checkout_id) WHERE link_id IS NOT NULL;
CREATE INDEX checkouts_sold_by_link ON checkouts (link_id) WHERE link_id IS NOT NULL AND status IN ('PROCESSING', 'COMPLETED');
CREATE INDEX checkouts_unpaid_of_links ON checkouts (org_id) WHERE link_id IS NOT NULL AND status = 'OPEN' AND seen = 0;
-- Two tabs cannot pay one order twice.
CREATE UNIQUE INDEX checkouts_reference_once ON checkouts (org_id, reference)
    WHERE one_per_reference AND status IN ('OPEN', 'PROCESSING', 'COMPLETED');
SELECT coffer_tenant('checkouts',
    'SELECT, INSERT (checkout_id, org_id, version, line_items, currency, due, need, accepted_mint_ids, under_bps, under_usd,'
        ' over_policy, late_policy, cost_max_bps, success_url, cancel_url, customer_id, customer_email, reference,'
        ' one_per_reference, metadata, idempotency_key, key_hash, request_digest, created_at, status, expires_at, updated_at,'
        ' link_id), UPDATE (version, status, exceptions, seen, counted, is_extended, expires_at, decided_by, decided_reason, cancelled_at,'
        ' completed_at, completed_with, updated_at)',
    'SELECT, UPDATE (version, status, exceptions, seen, counted, is_extended, expires_at, decided_by, decided_reason, completed_at,'
        ' completed_with, updated_at)');
CREATE TRIGGER checkouts_stay BEFORE DELETE OR TRUNCATE ON checkouts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION checkouts_begin() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.version, NEW.status, NEW.exceptions, NEW.seen, NEW.counted, NEW.is_extended, NEW.decided_by, NEW.cancelled_at)
       IS DISTINCT FROM
       (1::bigint, 'OPEN', '{}'::text[], 0::numeric, 0::numeric, false, NULL::text, NULL::timestamptz) THEN
        RAISE EXCEPTION 'checkout % begins with an outcome', NEW.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_begin';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkouts_begin BEFORE INSERT ON checkouts FOR EACH ROW EXECUTE FUNCTION checkouts_begin();

-- The terms of sale are fixed. A completion is written once, and a person decides once. The end moves forward only.
CREATE FUNCTION checkouts_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
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
CREATE TRIGGER checkouts_keep BEFORE UPDATE ON checkouts FOR EACH ROW EXECUTE FUNCTION checkouts_keep();

-- A list has no foreign key. Mints are never deleted.
CREATE FUNCTION checkouts_mints_known() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT count(DISTINCT m.mint_id) FROM mints m WHERE m.mint_id = ANY (NEW.accepted_mint_ids))
       IS DISTINCT FROM cardinality(NEW.accepted_mint_ids)::bigint THEN
        RAISE EXCEPTION 'checkout % accepts a mint twice, or one that does not exist', NEW.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_mints_known';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkouts_mints_known BEFORE INSERT ON checkouts FOR EACH ROW EXECUTE FUNCTION checkouts_mints_known();

-- An option of a checkout that was opened: how it can be paid in one mint. The address belongs to this checkout
-- permanently.
CREATE TABLE checkout_options (
    checkout_id text NOT NULL,
    mint_id     integer NOT NULL REFERENCES mints,
    org_id      text NOT NULL,
    wallet_id   text NOT NULL,
    reference   bytea,               -- the key that names the checkout in a payment to a shared address of Solana
    shared_wallet_id text,           -- that address
    opened_at   timestamptz NOT NULL,
    CONSTRAINT checkout_options_pkey PRIMARY KEY (checkout_id, mint_id),
    CONSTRAINT checkout_options_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT checkout_options_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT checkout_options_shared_wallet FOREIGN KEY (org_id, shared_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT checkout_options_reference_once UNIQUE (reference),
    CONSTRAINT checkout_options_reference_whole CHECK (
        num_nonnulls(reference, shared_wallet_id) IN (0, 2) AND octet_length(reference) = 32)
);
-- Which tokens are paid at a shared address.
CREATE INDEX checkout_options_shared ON checkout_options (shared_wallet_id, mint_id) WHERE shared_wallet_id IS NOT NULL;
SELECT coffer_tenant('checkout_options', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER checkout_options_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON checkout_options
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION checkout_options_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.purpose, w.subject) = ('CHECKOUT', NEW.checkout_id COLLATE "C") FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE
       OR NEW.shared_wallet_id IS NOT NULL
            AND (SELECT w.purpose = 'CHECKOUT_SHARED' FROM wallets w WHERE w.wallet_id = NEW.shared_wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'an option of checkout % has the wallet of another one', NEW.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkout_options_own_wallet';
    END IF;
    IF (SELECT NEW.mint_id = ANY (c.accepted_mint_ids) FROM checkouts c WHERE c.checkout_id = NEW.checkout_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'checkout % does not accept mint %', NEW.checkout_id, NEW.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkout_options_accepted';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkout_options_begin BEFORE INSERT ON checkout_options FOR EACH ROW EXECUTE FUNCTION checkout_options_begin();

-- The quotes of an option, in their order. A payment is priced by the quote of its own moment, so no quote changes.
CREATE TABLE checkout_quotes (
    checkout_id    text NOT NULL,
    mint_id        integer NOT NULL,
    seq            integer NOT NULL,
    org_id         text NOT NULL,
    amount         numeric(78,0) NOT NULL,  -- atomic units
    price          numeric(38,18) NOT NULL, -- dollars of a whole token
    currency_price numeric(38,18) NOT NULL, -- dollars of one unit of the checkout's currency
    source         text NOT NULL,
    priced_at      timestamptz NOT NULL,
    covers         numeric(38,18) NOT NULL, -- the part of the amount due that it is for
    valid_from     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    CONSTRAINT checkout_quotes_pkey PRIMARY KEY (checkout_id, mint_id, seq),
    CONSTRAINT checkout_quotes_option FOREIGN KEY (checkout_id, mint_id) REFERENCES checkout_options (checkout_id, mint_id),
    CONSTRAINT checkout_quotes_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT checkout_quotes_positive CHECK (
        amount > 0 AND price > 0 AND currency_price > 0 AND covers > 0 AND seq > 0 AND source <> '' AND valid_from < expires_at)
);
SELECT coffer_tenant('checkout_quotes', 'SELECT, INSERT', 'SELECT');
-- For the checkouts that asked for just what arrived somewhere.
CREATE INDEX checkout_quotes_of_amount ON checkout_quotes (org_id, mint_id, amount, valid_from);
CREATE TRIGGER checkout_quotes_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON checkout_quotes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What arrived for a checkout. The scan writes the row with its deposit; everything after the amount is written by the
-- worker, which compares told_status with status. A defect of the worker delays no block.
CREATE TABLE checkout_payments (
    deposit_id     text PRIMARY KEY,
    org_id         text NOT NULL,
    checkout_id    text NOT NULL,
    mint_id        integer REFERENCES mints, -- NULL: the token is not in the catalogue
    chain          text NOT NULL,
    amount         numeric(78,0) NOT NULL,
    block_time     timestamptz NOT NULL,     -- of the first block in which it was seen
    seen_at        timestamptz NOT NULL,
    was_live       boolean NOT NULL,         -- it was seen before its block was final
    status         text NOT NULL,
    told_status    text,                     -- the status that the checkout knows; NULL: none
    try_at         timestamptz,              -- when the worker looks at it; NULL: there is nothing to do
    tries          integer NOT NULL DEFAULT 0,
    -- What the worker decided.
    moment         timestamptz,              -- when it was paid
    is_accepted    boolean,                  -- the checkout takes this coin
    in_time        boolean,
    counts         boolean NOT NULL DEFAULT false,
    quote_seq      integer,                  -- NULL: the price of the market
    price          numeric(38,18),           -- dollars of a whole token
    currency_price numeric(38,18),
    price_source   text,
    priced_at      timestamptz,
    counted        numeric(38,18),           -- in the currency of the checkout, rounded down
    refunding      numeric(78,0) NOT NULL DEFAULT 0, -- what its open refunds take
    refunded       numeric(78,0) NOT NULL DEFAULT 0, -- what was given back
    CONSTRAINT checkout_payments_deposit FOREIGN KEY (deposit_id) REFERENCES deposits DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT checkout_payments_checkout FOREIGN KEY (org_id, checkout_id) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT checkout_payments_quote FOREIGN KEY (checkout_id, mint_id, quote_seq)
        REFERENCES checkout_quotes (checkout_id, mint_id, seq),
    CONSTRAINT checkout_payments_status_known CHECK (
        status IN ('SEEN', 'CREDITED', 'FLAGGED', 'RETURNED', 'ORPHANED', 'REVERSED', 'UNUSABLE')
        AND told_status IN ('SEEN', 'CREDITED', 'FLAGGED', 'RETURNED', 'ORPHANED', 'REVERSED', 'UNUSABLE')),
    CONSTRAINT checkout_payments_valued CHECK (
        num_nonnulls(price, currency_price, price_source, priced_at, counted) IN (0, 5)
        AND (counted IS NULL OR num_nonnulls(moment, is_accepted, in_time, mint_id) = 4 AND price > 0 AND currency_price > 0 AND counted >= 0)
        AND (quote_seq IS NULL OR counted IS NOT NULL)),
    CONSTRAINT checkout_payments_counts CHECK (NOT counts OR counted IS NOT NULL),
    -- Invariant I-83.
    CONSTRAINT checkout_payments_refunds CHECK (refunding >= 0 AND refunded >= 0 AND refunding + refunded <= amount)
);
CREATE INDEX checkout_payments_of_checkout ON checkout_payments (checkout_id, seen_at);
CREATE INDEX checkout_payments_to_tell ON checkout_payments (try_at, deposit_id) WHERE try_at IS NOT NULL;
SELECT coffer_tenant('checkout_payments', 'SELECT, UPDATE (told_status, try_at, tries, counts, refunding, refunded)',
    'SELECT, INSERT (deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time, seen_at, was_live, status, try_at),'
        ' UPDATE (amount, status, told_status, try_at, tries, moment, is_accepted, in_time, counts, quote_seq, price, currency_price, price_source,'
        ' priced_at, counted, refunding, refunded)');
CREATE TRIGGER checkout_payments_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF deposit_id, org_id, checkout_id, mint_id, chain,
    block_time, seen_at, was_live ON checkout_payments FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The price of a payment is written once. Before its block is final, another fork may have another amount; then it is
-- valued anew.
CREATE FUNCTION checkout_payments_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.amount <> OLD.amount AND (OLD.status NOT IN ('SEEN', 'ORPHANED') OR num_nonnulls(NEW.counted, NEW.quote_seq) > 0 OR NEW.counts) THEN
        RAISE EXCEPTION 'the amount of payment % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkout_payments_amount_fixed';
    END IF;
    IF OLD.counted IS NOT NULL AND NEW.amount = OLD.amount AND (NEW.quote_seq, NEW.price, NEW.currency_price, NEW.price_source, NEW.priced_at, NEW.counted, NEW.moment,
            NEW.is_accepted, NEW.in_time)
       IS DISTINCT FROM (OLD.quote_seq, OLD.price, OLD.currency_price, OLD.price_source, OLD.priced_at, OLD.counted, OLD.moment,
            OLD.is_accepted, OLD.in_time) THEN
        RAISE EXCEPTION 'payment % is valued', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkout_payments_valued_once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkout_payments_keep BEFORE UPDATE ON checkout_payments FOR EACH ROW EXECUTE FUNCTION checkout_payments_keep();

-- What arrived at a shared address without exactly one known reference, or for a checkout that the database lacks. It is
-- the organization's; a person says whose payment it is. The row stays then, and says who said it.
CREATE TABLE checkout_unmatched (
    deposit_id  text PRIMARY KEY,
    org_id      text NOT NULL REFERENCES organizations,
    checkout_id text,              -- of the wallet, whose checkout the database lacks
    mint_id     integer REFERENCES mints,
    amount      numeric(78,0) NOT NULL,
    reason      text NOT NULL,
    seen_at     timestamptz NOT NULL,
    block_time  timestamptz,       -- of the first block in which it was seen; NULL: it was noted before this was kept
    was_live    boolean NOT NULL DEFAULT false, -- it was seen before its block was final
    assigned_to text,              -- the checkout whose payment it is; NULL: it is unmatched
    assigned_by text,              -- kind and id of the one who said so
    assigned_at timestamptz,
    CONSTRAINT checkout_unmatched_deposit FOREIGN KEY (deposit_id) REFERENCES deposits DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT checkout_unmatched_reason_known CHECK (
        reason IN ('NO_REFERENCE', 'SEVERAL_REFERENCES', 'NO_CHECKOUT', 'OTHER_REFERENCE')
        AND (reason = 'NO_CHECKOUT') = (checkout_id IS NOT NULL)),
    CONSTRAINT checkout_unmatched_checkout FOREIGN KEY (org_id, assigned_to) REFERENCES checkouts (org_id, checkout_id),
    CONSTRAINT checkout_unmatched_assigned CHECK (num_nonnulls(assigned_to, assigned_by, assigned_at) IN (0, 3)
        AND assigned_by ~ '^(API_KEY|USER|SYSTEM) .')
);
CREATE INDEX checkout_unmatched_listed ON checkout_unmatched (org_id, seen_at, deposit_id);
CREATE INDEX checkout_unmatched_open ON checkout_unmatched (org_id, seen_at, deposit_id) WHERE assigned_to IS NULL;
SELECT coffer_tenant('checkout_unmatched', 'SELECT', 'SELECT, INSERT, UPDATE (assigned_to, assigned_by, assigned_at)');
CREATE TRIGGER checkout_unmatched_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF deposit_id, org_id, checkout_id, mint_id, amount,
    reason, seen_at, block_time, was_live ON checkout_unmatched FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- A payment never goes from one checkout to another.
CREATE TRIGGER checkout_unmatched_assigned_once BEFORE UPDATE ON checkout_unmatched
    FOR EACH ROW WHEN (OLD.assigned_to IS NOT NULL) EXECUTE FUNCTION refuse_row_change();

-- What is listed as unmatched becomes a payment only of the checkout to which it is assigned, in the same transaction.
CREATE FUNCTION checkout_unmatched_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT coalesce((p.org_id, p.checkout_id) = (u.org_id, u.assigned_to), false) FROM checkout_unmatched u
            LEFT JOIN checkout_payments p ON p.deposit_id = u.deposit_id WHERE u.deposit_id = NEW.deposit_id) IS FALSE THEN
        RAISE EXCEPTION 'deposit % is the payment of a checkout to which it is not assigned', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkout_unmatched_paid';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER checkout_unmatched_paid AFTER UPDATE ON checkout_unmatched DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION checkout_unmatched_follow();
CREATE CONSTRAINT TRIGGER checkout_payments_assigned AFTER INSERT ON checkout_payments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION checkout_unmatched_follow();

-- Every deposit at a wallet of a checkout is a payment or unmatched, in the same transaction. Invariant I-80.
CREATE FUNCTION deposits_of_checkouts_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (
            SELECT FROM checkout_payments p WHERE p.deposit_id = NEW.deposit_id AND p.org_id = NEW.org_id AND p.amount = NEW.amount
                AND p.mint_id IS NOT DISTINCT FROM NEW.mint_id AND p.checkout_id = coalesce(NEW.checkout_id, p.checkout_id))
       AND NOT EXISTS (SELECT FROM checkout_unmatched u WHERE u.deposit_id = NEW.deposit_id AND u.org_id = NEW.org_id) THEN
        RAISE EXCEPTION 'deposit % is no payment of a checkout', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_of_checkouts';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposits_of_checkouts AFTER INSERT ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose IN ('CHECKOUT', 'CHECKOUT_SHARED')) EXECUTE FUNCTION deposits_of_checkouts_follow();

-- A checkout is completed with what its credited payments count, and never without one, also if a person decides.
CREATE FUNCTION checkouts_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NEW.completed_with IS DISTINCT FROM (
            SELECT coalesce(sum(p.counted) FILTER (WHERE p.counts), 0) FROM checkout_payments p
            WHERE p.checkout_id = NEW.checkout_id AND p.status = 'CREDITED' HAVING count(*) > 0) THEN
        RAISE EXCEPTION 'checkout % is not completed by its payments', NEW.checkout_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'checkouts_completed_by_payments';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkouts_completed_by_payments BEFORE UPDATE ON checkouts FOR EACH ROW
    WHEN (NEW.status = 'COMPLETED' AND OLD.status <> 'COMPLETED') EXECUTE FUNCTION checkouts_follow();
