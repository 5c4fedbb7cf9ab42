-- Why: organizations sell products through the checkout, with prices, accepted tokens and an image that this
-- service serves itself.

-- +goose Up
-- +goose StatementBegin
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
    CONSTRAINT products_late_policy_known CHECK (late_policy IN ('ACCEPT_IF_WITHIN_TOLERANCE', 'HOLD')),
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
-- +goose StatementEnd
