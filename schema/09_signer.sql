-- The database's copy of the signer's journal.

-- A second journal with the same id and other contents collides with the primary key.
CREATE TABLE signer_journal (
    journal_id text NOT NULL,
    seq        bigint NOT NULL,
    prev       text NOT NULL,
    hash       text NOT NULL,
    body       bytea NOT NULL,
    stored_at  timestamptz NOT NULL,
    CONSTRAINT signer_journal_pkey PRIMARY KEY (journal_id, seq)
);
SELECT coffer_shared('signer_journal', 'SELECT, INSERT', 'SELECT, INSERT');
CREATE TRIGGER signer_journal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON signer_journal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Which journal this database belongs to, and up to which entry it was imported. Moves by
-- compare-and-swap.
CREATE TABLE signer_identity (
    one           boolean PRIMARY KEY DEFAULT true,
    journal_id    text NOT NULL,
    imported_seq  bigint NOT NULL,
    imported_hash text NOT NULL,
    CONSTRAINT signer_identity_one CHECK (one)
);
SELECT coffer_shared('signer_identity', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION signer_identity_forward() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.journal_id = OLD.journal_id AND NEW.imported_seq < OLD.imported_seq THEN
        RAISE EXCEPTION 'the signer journal only grows'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signer_identity_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER signer_identity_forward BEFORE UPDATE ON signer_identity
    FOR EACH ROW EXECUTE FUNCTION signer_identity_forward();

-- The entry that counts as imported is in signer_journal.
CREATE FUNCTION signer_identity_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.imported_seq <> 0 AND NOT EXISTS (
        SELECT FROM signer_journal WHERE journal_id = NEW.journal_id AND seq = NEW.imported_seq AND hash = NEW.imported_hash) THEN
        RAISE EXCEPTION 'entry % of the signer''s journal is called imported and is not here', NEW.imported_seq
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signer_identity_imported';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER signer_identity_imported AFTER INSERT OR UPDATE ON signer_identity
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION signer_identity_follow();
