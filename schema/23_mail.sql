-- Mails to people: an outbox that is written in the transaction of the change, and sent by a loop.

-- A mail belongs to no organization, because a person has one address in all of them. The subject
-- and the text are sealed: a text can contain a link that signs its reader in. They are erased
-- when the mail ends, so a copy of the database shows no such link. Rules MAIL-1 and MAIL-4.
CREATE TABLE mails (
    mail_id          text COLLATE "C" PRIMARY KEY,
    kind             text NOT NULL,
    to_address       text NOT NULL,
    sealed           bytea,                -- subject and text; NULL once the mail ended
    status           text NOT NULL DEFAULT 'QUEUED',
    attempts         integer NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    first_attempt_at timestamptz,
    attempt_after    timestamptz NOT NULL, -- the next attempt; during an attempt the end of its lease
    last_error       text,                 -- never the text of a mail server, which may quote the mail
    ended_at         timestamptz,
    CONSTRAINT mails_id_form CHECK (mail_id LIKE 'mail\_%'),
    CONSTRAINT mails_kind_form CHECK (kind ~ '^[A-Z][A-Z0-9_]{0,39}$'),
    -- One address and nothing else, so that no address can add a header. Rule MAIL-5.
    CONSTRAINT mails_one_address CHECK (
        octet_length(to_address) <= 254
        AND to_address ~ '^[^][:space:][:cntrl:]<>():;,"@\\[]+@[^][:space:][:cntrl:]<>():;,"@\\[]+$'),
    CONSTRAINT mails_status_known CHECK (status IN ('QUEUED', 'SENT', 'GIVEN_UP', 'SUPPRESSED')),
    CONSTRAINT mails_sealed_while_queued CHECK ((status = 'QUEUED') = (sealed IS NOT NULL)),
    CONSTRAINT mails_ended_whole CHECK ((status = 'QUEUED') = (ended_at IS NULL)),
    CONSTRAINT mails_attempted_whole CHECK (attempts >= 0 AND (attempts = 0) = (first_attempt_at IS NULL)),
    CONSTRAINT mails_end_known CHECK (status = 'QUEUED' OR (status = 'SUPPRESSED') = (attempts = 0)),
    CONSTRAINT mails_error_bounded CHECK (octet_length(last_error) <= 200)
);
CREATE INDEX mails_due ON mails (attempt_after, mail_id) WHERE status = 'QUEUED';
CREATE INDEX mails_of_address ON mails (lower(to_address), kind, first_attempt_at) WHERE first_attempt_at IS NOT NULL;
CREATE INDEX mails_old ON mails (ended_at) WHERE status <> 'QUEUED';
-- A transaction of an organization writes mails and reads none.
SELECT coffer_shared('mails',
    'INSERT (mail_id, kind, to_address, sealed, created_at, attempt_after)',
    'SELECT, DELETE, INSERT (mail_id, kind, to_address, sealed, created_at, attempt_after),'
        ' UPDATE (status, attempts, first_attempt_at, attempt_after, last_error, ended_at, sealed)');
CREATE TRIGGER mails_as_inserted BEFORE UPDATE OF mail_id, kind, to_address, created_at ON mails
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER mails_stay BEFORE TRUNCATE ON mails FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A mail that ended changes no more, and only such a mail is deleted.
CREATE TRIGGER mails_written_once BEFORE UPDATE ON mails FOR EACH ROW
    WHEN (OLD.status <> 'QUEUED')
    EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER mails_queued_stay BEFORE DELETE ON mails FOR EACH ROW
    WHEN (OLD.status = 'QUEUED')
    EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER mails_sealed_once BEFORE UPDATE ON mails FOR EACH ROW
    WHEN (NEW.sealed IS NOT NULL AND NEW.sealed <> OLD.sealed)
    EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER mails_forward BEFORE UPDATE ON mails FOR EACH ROW
    WHEN (NEW.attempts NOT IN (OLD.attempts, OLD.attempts + 1)
        OR OLD.first_attempt_at IS NOT NULL AND NEW.first_attempt_at IS DISTINCT FROM OLD.first_attempt_at)
    EXECUTE FUNCTION refuse_row_change();

-- One address gets at most 5 mails of one kind in an hour and 20 in a day, whatever causes them.
-- A mail counts from its first attempt on. Rule MAIL-2.
CREATE FUNCTION mails_limit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    hour bigint;
    day bigint;
BEGIN
    SELECT count(*) FILTER (WHERE m.first_attempt_at > NEW.first_attempt_at - interval '1 hour'), count(*)
    INTO hour, day
    FROM mails m
    WHERE lower(m.to_address) = lower(NEW.to_address) AND m.kind = NEW.kind
      AND m.first_attempt_at > NEW.first_attempt_at - interval '24 hours';
    IF hour >= 5 OR day >= 20 THEN
        RAISE EXCEPTION 'the address of mail % got too many mails of kind %', NEW.mail_id, NEW.kind
            USING ERRCODE = 'check_violation', CONSTRAINT = 'mails_limit';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER mails_limit BEFORE UPDATE ON mails FOR EACH ROW
    WHEN (OLD.first_attempt_at IS NULL AND NEW.first_attempt_at IS NOT NULL)
    EXECUTE FUNCTION mails_limit();
