-- Why: an organization's own money may go to addresses that the operator keeps for it,
-- and to no other. Each is a row with the signer's proof of it, so that changing the row
-- is not enough; the signer's journal is what decides: decision 0042.
-- +goose Up

CREATE TABLE whitelisted_addresses (
    whitelisted_address_id text COLLATE "C" NOT NULL,
    org_id       text NOT NULL,
    chain        text NOT NULL,
    address      text NOT NULL,
    label        text NOT NULL,
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,        -- the operator's key that added it, or agreed to
    change_id    text,                 -- where two had to, what the other one asked for
    not_before   timestamptz NOT NULL, -- when the installation's cooling-off is over
    request_mac  bytea NOT NULL,       -- of the words above, by the server's key
    -- What the signer said: nothing yet, a proof, or a no. Its journal has the same.
    usable_from  timestamptz,
    proof        bytea,
    journal_id   text,
    journal_seq  bigint,
    refusal      text,
    removed_at   timestamptz,
    removed_by   text,
    revoked_seq  bigint,               -- where the signer's journal has the removal
    CONSTRAINT whitelisted_addresses_pkey PRIMARY KEY (whitelisted_address_id),
    CONSTRAINT whitelisted_addresses_own UNIQUE (org_id, whitelisted_address_id),
    CONSTRAINT whitelisted_addresses_organization FOREIGN KEY (org_id) REFERENCES organizations,
    CONSTRAINT whitelisted_addresses_change FOREIGN KEY (change_id) REFERENCES change_requests,
    CONSTRAINT whitelisted_addresses_change_once UNIQUE (change_id),
    CONSTRAINT whitelisted_addresses_words CHECK (chain <> '' AND address <> '' AND label <> '' AND length(label) <= 200 AND created_by <> ''),
    CONSTRAINT whitelisted_addresses_endorsed CHECK (num_nonnulls(usable_from, proof, journal_id, journal_seq) IN (0, 4)),
    CONSTRAINT whitelisted_addresses_cool_off CHECK (not_before >= created_at AND usable_from >= not_before),
    CONSTRAINT whitelisted_addresses_removed CHECK (num_nonnulls(removed_at, removed_by) IN (0, 2) AND removed_by <> ''),
    CONSTRAINT whitelisted_addresses_revoked CHECK (revoked_seq IS NULL OR removed_at IS NOT NULL)
);
CREATE UNIQUE INDEX whitelisted_addresses_live ON whitelisted_addresses (org_id, chain, address) WHERE removed_at IS NULL;
CREATE INDEX whitelisted_addresses_of_organization ON whitelisted_addresses (org_id, created_at, whitelisted_address_id);
CREATE INDEX whitelisted_addresses_open ON whitelisted_addresses (whitelisted_address_id)
    WHERE removed_at IS NULL OR revoked_seq IS NULL;
SELECT coffer_tenant('whitelisted_addresses', 'SELECT',
    'SELECT, INSERT, UPDATE (usable_from, proof, journal_id, journal_seq, refusal, removed_at, removed_by, revoked_seq)');

-- +goose StatementBegin
-- A row stays what was asked for. The signer's word may come again, never for an
-- earlier time; and who removes it, removes it once.
CREATE FUNCTION whitelisted_addresses_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.whitelisted_address_id, NEW.org_id, NEW.chain, NEW.address, NEW.label, NEW.created_at, NEW.created_by, NEW.change_id, NEW.not_before, NEW.request_mac)
       IS DISTINCT FROM (OLD.whitelisted_address_id, OLD.org_id, OLD.chain, OLD.address, OLD.label, OLD.created_at, OLD.created_by, OLD.change_id, OLD.not_before, OLD.request_mac)
       OR OLD.usable_from IS NOT NULL AND (NEW.usable_from >= OLD.usable_from) IS NOT TRUE
       OR OLD.removed_at IS NOT NULL AND (NEW.removed_at, NEW.removed_by) IS DISTINCT FROM (OLD.removed_at, OLD.removed_by)
       OR OLD.revoked_seq IS NOT NULL AND NEW.revoked_seq IS DISTINCT FROM OLD.revoked_seq THEN
        RAISE EXCEPTION 'whitelisted address % stays as it was added until it is removed', OLD.whitelisted_address_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'whitelisted_addresses_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER whitelisted_addresses_keep BEFORE UPDATE ON whitelisted_addresses
    FOR EACH ROW EXECUTE FUNCTION whitelisted_addresses_keep();
CREATE TRIGGER whitelisted_addresses_stay BEFORE DELETE OR TRUNCATE ON whitelisted_addresses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
