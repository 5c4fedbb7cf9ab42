-- The customers of organizations.

-- Customer ids are compared byte for byte, whatever the database's collation is. Rule CUS-1.
CREATE TABLE customers (
    org_id           text NOT NULL REFERENCES organizations,
    customer_id      text COLLATE "C" NOT NULL,
    email            text,
    email_changed_at timestamptz,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    CONSTRAINT customers_pkey PRIMARY KEY (org_id, customer_id),
    CONSTRAINT customers_id_bounded CHECK (octet_length(customer_id) BETWEEN 1 AND 128),
    CONSTRAINT customers_email_bounded CHECK (octet_length(email) BETWEEN 3 AND 254)
);
CREATE INDEX customers_listed ON customers (org_id, created_at, customer_id);
SELECT coffer_tenant('customers', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');

-- Rows of other tables refer to a customer without a foreign key.
CREATE TRIGGER customers_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id, customer_id ON customers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An approval rule that trusts an e-mail must not trust a new one before its cooling-off is
-- over. So every change of an e-mail records its time, later than that of the change before:
-- else two changes could share one cooling-off. The first e-mail is no change. A later one
-- is, also after a removal. Rule CUS-4.
CREATE FUNCTION customers_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.email IS DISTINCT FROM OLD.email AND (OLD.email IS NOT NULL OR OLD.email_changed_at IS NOT NULL)
       AND (NEW.email_changed_at IS DISTINCT FROM NEW.updated_at OR NEW.email_changed_at <= OLD.email_changed_at) THEN
        RAISE EXCEPTION 'customer % got another e-mail without its moment', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_change_dated';
    END IF;
    IF OLD.email_changed_at IS NOT NULL AND (NEW.email_changed_at IS NULL OR NEW.email_changed_at < OLD.email_changed_at) THEN
        RAISE EXCEPTION 'customer % forgets when its e-mail changed', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_change_kept';
    END IF;
    IF (NEW.org_id, NEW.customer_id, NEW.created_at) IS DISTINCT FROM (OLD.org_id, OLD.customer_id, OLD.created_at) THEN
        RAISE EXCEPTION 'customer % cannot become another', OLD.customer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_identity_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER customers_keep BEFORE UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION customers_keep();

-- Whether NFKC and lower case leave the e-mail as it is, but for ASCII case, and every
-- character of it is visible. The approval allowlist compares e-mails in that form, and
-- folding makes one address of two mailboxes: U+FF56 becomes v, U+0130 becomes i. The class
-- has U+0130 and U+1E9E, whose lower case is that of another letter, then the characters
-- that Unicode calls default ignorable, format characters and the blank of Braille.
-- customer.PlainEmail in Go is the same function. Rule CUS-7.
CREATE FUNCTION email_is_plain(email text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN email IS NFKC NORMALIZED AND email !~ (
    '[\u0130\u1E9E\u00AD\u034F\u0600-\u0605\u061C\u06DD\u070F\u0890\u0891\u08E2\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B-\u200F'
    '\u202A-\u202E\u2060-\u206F\u2800\uFE00-\uFE0F\uFEFF\uFFF0-\uFFFB\U000110BD\U000110CD\U00013430-\U0001343F\U0001BCA0-\U0001BCA3'
    '\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]');

CREATE FUNCTION customers_email_plain() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the e-mail of customer % is not plain', NEW.customer_id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_plain';
END $$;
CREATE TRIGGER customers_email_plain BEFORE INSERT ON customers
    FOR EACH ROW WHEN (NOT email_is_plain(NEW.email)) EXECUTE FUNCTION customers_email_plain();
CREATE TRIGGER customers_email_plain_changed BEFORE UPDATE OF email ON customers
    FOR EACH ROW WHEN (NEW.email IS DISTINCT FROM OLD.email AND NOT email_is_plain(NEW.email))
    EXECUTE FUNCTION customers_email_plain();
