-- Why: every address that we control, what it holds by our own account, and
-- the database's copy of the signer's journal.
-- +goose Up

-- What people compare of an address, in lower case: its first four and last
-- four characters, after the prefix that all addresses of an EVM chain share.
-- +goose StatementBegin
CREATE FUNCTION address_shown(address text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN left(lower(address), CASE WHEN starts_with(address, '0x') THEN 6 ELSE 4 END) || ' ' || right(lower(address), 4);
-- +goose StatementEnd

CREATE TABLE wallets (
    wallet_id  text PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    family     text NOT NULL,
    purpose    text NOT NULL,
    subject    text COLLATE "C" NOT NULL, -- the customer's id; '' for a treasury
    path       text NOT NULL,
    address    text NOT NULL,
    proof      bytea NOT NULL,
    created_at timestamptz NOT NULL,
    shown      text NOT NULL GENERATED ALWAYS AS (address_shown(address)) STORED,
    CONSTRAINT wallets_subject_unique UNIQUE (org_id, family, purpose, subject),
    CONSTRAINT wallets_address_unique UNIQUE (family, address),
    CONSTRAINT wallets_of_org UNIQUE (org_id, wallet_id),
    CONSTRAINT wallets_purpose_known CHECK ((purpose = 'CUSTOMER_DEPOSIT' AND subject <> '') OR (purpose = 'TREASURY' AND subject = ''))
);
CREATE INDEX wallets_shown ON wallets (org_id, shown);
SELECT coffer_tenant('wallets', 'SELECT, INSERT', 'SELECT, INSERT');

-- What a wallet holds of a mint, by what we have seen become final.
--   credited  all that arrived and was credited, moved in by us, or is held
--   held      of it, flagged: leaves only by its own resolution
--   reserved  of it, promised to orders that are not final
--   swept     of it, gone
--   gas       native coin of the operator's, for fees
--   gas_reserved  of it, promised to orders that are not final
--   dust      arrived and not credited (below the minimum)
CREATE TABLE address_funds (
    wallet_id    text NOT NULL,
    mint_id      integer NOT NULL REFERENCES mints,
    org_id       text NOT NULL,
    credited     numeric(78,0) NOT NULL DEFAULT 0,
    held         numeric(78,0) NOT NULL DEFAULT 0,
    reserved     numeric(78,0) NOT NULL DEFAULT 0,
    swept        numeric(78,0) NOT NULL DEFAULT 0,
    gas          numeric(78,0) NOT NULL DEFAULT 0,
    gas_reserved numeric(78,0) NOT NULL DEFAULT 0,
    dust         numeric(78,0) NOT NULL DEFAULT 0,
    CONSTRAINT address_funds_pkey PRIMARY KEY (wallet_id, mint_id),
    CONSTRAINT address_funds_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT address_funds_not_negative CHECK (least(credited, held, reserved, swept, gas, gas_reserved, dust) >= 0),
    CONSTRAINT address_funds_covered CHECK (reserved + swept + held <= credited),
    CONSTRAINT address_funds_gas_covered CHECK (gas_reserved <= gas)
);
CREATE INDEX address_funds_of_mint ON address_funds (org_id, mint_id);
SELECT coffer_tenant('address_funds', 'SELECT', 'SELECT, INSERT, UPDATE');

-- The mirror of the signer's journal. A second journal with the same id and
-- other contents collides here.
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

-- Which journal this database belongs to, and up to where every entry of it
-- has been taken into account here. Moves by compare-and-swap.
CREATE TABLE signer_identity (
    one           boolean PRIMARY KEY DEFAULT true,
    journal_id    text NOT NULL,
    imported_seq  bigint NOT NULL,
    imported_hash text NOT NULL,
    CONSTRAINT signer_identity_one CHECK (one)
);
SELECT coffer_shared('signer_identity', 'SELECT', 'SELECT, INSERT, UPDATE');
-- +goose StatementBegin
CREATE FUNCTION signer_identity_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.journal_id = OLD.journal_id AND NEW.imported_seq < OLD.imported_seq THEN
        RAISE EXCEPTION 'the signer journal only grows'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signer_identity_forward';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER signer_identity_forward BEFORE UPDATE ON signer_identity
    FOR EACH ROW EXECUTE FUNCTION signer_identity_forward();
