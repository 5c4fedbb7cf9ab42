-- Why: the approval allowlist compares e-mails with Unicode NFKC and in lower case, and
-- both make one address of two mailboxes: U+FF56 is folded onto v, U+0130 onto i. An
-- e-mail that folding would change, but for its case, or that has a character which is
-- not shown, is written no more. Rows from before keep theirs, and no rule trusts them.

-- +goose Up
-- +goose StatementBegin
-- As customer.PlainEmail in Go. In the class: U+0130 and U+1E9E, whose lower case is
-- that of another letter, then what Unicode calls default ignorable, format characters
-- and the blank of Braille.
CREATE FUNCTION email_is_plain(email text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN email IS NFKC NORMALIZED AND email !~ (
    '[\u0130\u1E9E\u00AD\u034F\u0600-\u0605\u061C\u06DD\u070F\u0890\u0891\u08E2\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B-\u200F'
    '\u202A-\u202E\u2060-\u206F\u2800\uFE00-\uFE0F\uFEFF\uFFF0-\uFFFB\U000110BD\U000110CD\U00013430-\U0001343F\U0001BCA0-\U0001BCA3'
    '\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]');

CREATE FUNCTION customers_email_plain() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the e-mail of customer % is not plain', NEW.customer_id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'customers_email_plain';
END $$;
-- +goose StatementEnd

CREATE TRIGGER customers_email_plain BEFORE INSERT ON customers
    FOR EACH ROW WHEN (NOT email_is_plain(NEW.email)) EXECUTE FUNCTION customers_email_plain();
CREATE TRIGGER customers_email_plain_changed BEFORE UPDATE OF email ON customers
    FOR EACH ROW WHEN (NEW.email IS DISTINCT FROM OLD.email AND NOT email_is_plain(NEW.email)) EXECUTE FUNCTION customers_email_plain();
