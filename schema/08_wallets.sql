-- The addresses that we control, what each holds by our own account, and the addresses that
-- an organization may pay its own money to.

-- What a person compares of an address, in lower case: its first four and last four
-- characters, after the prefix that all addresses of an EVM chain share.
CREATE FUNCTION address_prefix_suffix(address text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN left(lower(address), CASE WHEN starts_with(address, '0x') THEN 6 ELSE 4 END) || ' ' || right(lower(address), 4);

-- Whether a chain keeps its money in UTXOs, as chain.Name.Pooled says.
CREATE FUNCTION is_utxo(chain text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN chain = 'BITCOIN';

CREATE TABLE wallets (
    wallet_id     text PRIMARY KEY,
    org_id        text NOT NULL REFERENCES organizations,
    family        text NOT NULL,
    purpose       text NOT NULL,
    subject       text COLLATE "C" NOT NULL, -- the customer, the product, the number of a change wallet, the swap, the deposit swap, the checkout; '' for a treasury
    path          text NOT NULL,
    address       text NOT NULL,
    proof         bytea NOT NULL,            -- of the signer, that it derived the address
    created_at    timestamptz NOT NULL,
    prefix_suffix text NOT NULL GENERATED ALWAYS AS (address_prefix_suffix(address)) STORED,
    form          text NOT NULL DEFAULT '',  -- '' is the usual address of the family (decision 0062)
    -- TREASURY, CHANGE or DEPOSIT: what an internal order may take from or bring to.
    role          text NOT NULL GENERATED ALWAYS AS (
        CASE WHEN purpose IN ('TREASURY', 'CHANGE') THEN purpose ELSE 'DEPOSIT' END) STORED,
    -- The transaction that wrote the row; NULL for rows from before the column. The filter of
    -- addresses in memory finds by it what was committed since a snapshot.
    written_xid   xid8,
    -- Rules DEP-1 and DEP-24.
    CONSTRAINT wallets_subject_unique UNIQUE (org_id, family, purpose, subject),
    CONSTRAINT wallets_address_unique UNIQUE (family, address),
    -- Keys that other tables refer to.
    CONSTRAINT wallets_of_org UNIQUE (org_id, wallet_id),
    CONSTRAINT wallets_of_address UNIQUE (wallet_id, address),
    CONSTRAINT wallets_of_role UNIQUE (wallet_id, role),
    -- A CHANGE wallet receives the change output of one transaction.
    CONSTRAINT wallets_purpose_known CHECK (
        CASE purpose
            WHEN 'CUSTOMER_DEPOSIT' THEN subject <> ''
            WHEN 'ORGANIZATION_DEPOSIT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'TREASURY' THEN subject = ''
            WHEN 'CHANGE' THEN subject <> ''
            WHEN 'SWAP_DELIVERY' THEN subject <> ''
            WHEN 'SWAP_REFUND' THEN subject <> ''
            WHEN 'DEPOSIT_SWAP' THEN subject <> ''
            WHEN 'CHECKOUT' THEN subject <> ''
            WHEN 'CHECKOUT_SHARED' THEN subject = 'CHECKOUT'
            ELSE false
        END),
    CONSTRAINT wallets_form_known CHECK (
        form = ''
        OR (form = 'TAPROOT' AND family = 'BITCOIN' AND purpose IN ('CUSTOMER_DEPOSIT', 'ORGANIZATION_DEPOSIT')))
);
CREATE INDEX wallets_prefix_suffix ON wallets (org_id, prefix_suffix);
CREATE INDEX wallets_listed ON wallets (org_id, created_at, wallet_id);
CREATE INDEX wallets_treasuries ON wallets (org_id, family) WHERE purpose = 'TREASURY';
-- Finds the newest number of an organization's change wallets. From the seed alone, the
-- numbers lead to every change output (decision 0069). The oldest change wallets have
-- the id of an order as their subject.
CREATE INDEX wallets_change ON wallets (org_id, family, length(subject) DESC, subject DESC)
    WHERE purpose = 'CHANGE' AND subject ~ '^[1-9][0-9]{0,17}$';
-- The addresses that the checkouts of an organization share: few of many wallets.
CREATE INDEX wallets_shared ON wallets (wallet_id) WHERE purpose = 'CHECKOUT_SHARED';
CREATE INDEX wallets_written ON wallets (written_xid) WHERE written_xid IS NOT NULL;
SELECT coffer_tenant('wallets', 'SELECT, INSERT', 'SELECT, INSERT');
-- The number is of this server. A restore of the rows alone, a copy by replication and a writer that
-- names another number get the number of their own transaction: so the trigger always fires.
CREATE FUNCTION wallets_written() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    NEW.written_xid := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER wallets_written BEFORE INSERT OR UPDATE ON wallets
    FOR EACH ROW EXECUTE FUNCTION wallets_written();
ALTER TABLE wallets ENABLE ALWAYS TRIGGER wallets_written;
-- Deposits refer to a wallet without a foreign key.
CREATE TRIGGER wallets_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id, wallet_id ON wallets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER wallets_as_inserted BEFORE UPDATE OF created_at ON wallets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a wallet holds of a mint, by the blocks that we saw become final.
--
--   credited      all that arrived and was credited, that we moved in, or that is held
--   held          the part of it that is flagged: it leaves only by its own resolution
--   reserved      the part of it that is promised to orders that are not final
--   swept         the part of it that left
--   gas           native coin of the operator, for fees
--   gas_reserved  the part of it that is promised to orders that are not final
--   dust          arrived and not credited, below the minimum
--   reversed      the part of credited that the chain took back
--   gas_reversed  the same of gas
--   short         what is promised and gone beyond what arrived
--   gas_short     the same of gas
CREATE TABLE address_funds (
    wallet_id    text NOT NULL,
    mint_id      integer NOT NULL,
    org_id       text NOT NULL,
    credited     numeric(78,0) NOT NULL DEFAULT 0,
    held         numeric(78,0) NOT NULL DEFAULT 0,
    reserved     numeric(78,0) NOT NULL DEFAULT 0,
    swept        numeric(78,0) NOT NULL DEFAULT 0,
    gas          numeric(78,0) NOT NULL DEFAULT 0,
    gas_reserved numeric(78,0) NOT NULL DEFAULT 0,
    dust         numeric(78,0) NOT NULL DEFAULT 0,
    reversed     numeric(78,0) NOT NULL DEFAULT 0,
    gas_reversed numeric(78,0) NOT NULL DEFAULT 0,
    short        numeric(78,0) NOT NULL DEFAULT 0,
    gas_short    numeric(78,0) NOT NULL DEFAULT 0,
    CONSTRAINT address_funds_pkey PRIMARY KEY (wallet_id, mint_id),
    CONSTRAINT address_funds_not_negative CHECK (
        least(credited, held, reserved, swept, gas_reserved, dust, short, gas_short, reversed, gas_reversed) >= 0),
    CONSTRAINT address_funds_covered CHECK (reserved + swept + held <= credited + short),
    CONSTRAINT address_funds_gas_covered CHECK (gas_reserved <= gas + gas_short)
);
CREATE INDEX address_funds_of_mint ON address_funds (org_id, mint_id);
CREATE INDEX address_funds_lacking ON address_funds (org_id) WHERE short > 0 OR gas_short > 0;
SELECT coffer_tenant('address_funds', 'SELECT',
    'SELECT, INSERT (wallet_id, mint_id, org_id),'
        ' UPDATE (credited, held, reserved, swept, gas, gas_reserved, dust, reversed, gas_reversed)');

-- Money that the chain took back may have been promised, moved or spent before. The row then
-- says how much is missing, and the database computes that. The shortfall grows only by what
-- the chain took back and never by a promise (decision 0020).
CREATE FUNCTION address_funds_short() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    was address_funds;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        was := OLD;
    ELSE
        was.short := 0; was.gas_short := 0; was.reversed := 0; was.gas_reversed := 0;
    END IF;
    NEW.short := greatest(0, NEW.reserved + NEW.swept + NEW.held - NEW.credited);
    NEW.gas_short := greatest(0, NEW.gas_reserved - NEW.gas);
    IF NEW.reversed < was.reversed OR NEW.gas_reversed < was.gas_reversed THEN
        RAISE EXCEPTION 'what the chain took from wallet % only grows', NEW.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'address_funds_reversed_forward';
    END IF;
    IF NEW.short > was.short AND NEW.short - was.short > NEW.reversed - was.reversed THEN
        RAISE EXCEPTION 'wallet % holds less of mint % than is promised', NEW.wallet_id, NEW.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'address_funds_covered';
    END IF;
    IF NEW.gas_short > was.gas_short AND NEW.gas_short - was.gas_short > NEW.gas_reversed - was.gas_reversed THEN
        RAISE EXCEPTION 'wallet % holds less gas of mint % than is promised', NEW.wallet_id, NEW.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'address_funds_gas_covered';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER address_funds_short BEFORE INSERT OR UPDATE ON address_funds
    FOR EACH ROW EXECUTE FUNCTION address_funds_short();
-- The wallet and the mint, in place of foreign keys, which lock both for each row of a block. Rows of
-- both tables never leave and keep their keys, and the columns here never change, so the check at the
-- insert is enough (decision 0032).
CREATE FUNCTION address_funds_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT n.wallet_id INTO lost FROM added n
    WHERE (SELECT w.org_id = n.org_id FROM wallets w WHERE w.wallet_id = n.wallet_id) IS NOT TRUE
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'the funds of wallet % are of another organization, or it does not exist', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'address_funds_wallet';
    END IF;
    SELECT n.mint_id::text INTO lost FROM (SELECT DISTINCT mint_id FROM added) n
    WHERE (SELECT m.mint_id FROM mints m WHERE m.mint_id = n.mint_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no mint %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'address_funds_mint_id_fkey';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER address_funds_refer AFTER INSERT ON address_funds
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION address_funds_refer();
CREATE TRIGGER address_funds_as_inserted BEFORE UPDATE OF wallet_id, mint_id, org_id ON address_funds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What is missing where, for people.
CREATE VIEW reorg_shortfalls WITH (security_invoker = true) AS
SELECT f.org_id, m.chain, f.wallet_id, f.mint_id, s.part, s.open
FROM address_funds f JOIN mints m USING (mint_id)
CROSS JOIN LATERAL (VALUES ('CREDITED', f.short), ('GAS', f.gas_short)) AS s (part, open)
WHERE s.open > 0;
SELECT coffer_shared('reorg_shortfalls', 'SELECT', 'SELECT');

-- The addresses that an organization's own money may go to (decision 0042). The
-- operator keeps the list. Each row has the signer's proof, so a changed row alone admits no
-- payment: the signer's journal decides.
CREATE TABLE whitelisted_addresses (
    whitelisted_address_id text COLLATE "C" NOT NULL,
    org_id      text NOT NULL,
    chain       text NOT NULL,
    address     text NOT NULL,
    label       text NOT NULL,
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,        -- the operator's key that added it or agreed to it
    change_id   text,                 -- the change request, where two operators were needed
    not_before  timestamptz NOT NULL, -- when the installation's cooling-off is over
    request_mac bytea NOT NULL,       -- of the columns above, by the server's key
    -- The answer of the signer: none yet, a proof, or a refusal. Its journal has the same.
    usable_from timestamptz,
    proof       bytea,
    journal_id  text,
    journal_seq bigint,
    refusal     text,
    removed_at  timestamptz,
    removed_by  text,
    revoked_seq bigint,               -- the entry of the removal in the signer's journal
    waits_for   text,                 -- what the signer said last of an address that lacks signatures; it is asked again
    CONSTRAINT whitelisted_addresses_pkey PRIMARY KEY (whitelisted_address_id),
    CONSTRAINT whitelisted_addresses_own UNIQUE (org_id, whitelisted_address_id),
    CONSTRAINT whitelisted_addresses_organization FOREIGN KEY (org_id) REFERENCES organizations,
    CONSTRAINT whitelisted_addresses_change FOREIGN KEY (change_id) REFERENCES change_requests,
    CONSTRAINT whitelisted_addresses_change_once UNIQUE (change_id),
    CONSTRAINT whitelisted_addresses_words CHECK (
        chain <> '' AND address <> '' AND label <> '' AND length(label) <= 200 AND created_by <> ''),
    CONSTRAINT whitelisted_addresses_endorsed CHECK (
        num_nonnulls(usable_from, proof, journal_id, journal_seq) IN (0, 4)),
    CONSTRAINT whitelisted_addresses_cool_off CHECK (not_before >= created_at AND usable_from >= not_before),
    CONSTRAINT whitelisted_addresses_removed CHECK (
        num_nonnulls(removed_at, removed_by) IN (0, 2) AND removed_by <> ''),
    CONSTRAINT whitelisted_addresses_revoked CHECK (revoked_seq IS NULL OR removed_at IS NOT NULL),
    CONSTRAINT whitelisted_addresses_waiting CHECK (
        waits_for IS NULL OR char_length(waits_for) BETWEEN 1 AND 500 AND refusal IS NULL)
);
CREATE UNIQUE INDEX whitelisted_addresses_live ON whitelisted_addresses (org_id, chain, address)
    WHERE removed_at IS NULL;
CREATE INDEX whitelisted_addresses_of_organization
    ON whitelisted_addresses (org_id, created_at, whitelisted_address_id);
CREATE INDEX whitelisted_addresses_open ON whitelisted_addresses (whitelisted_address_id)
    WHERE removed_at IS NULL OR revoked_seq IS NULL;
SELECT coffer_tenant('whitelisted_addresses', 'SELECT',
    'SELECT, INSERT,'
        ' UPDATE (usable_from, proof, journal_id, journal_seq, refusal, removed_at, removed_by, revoked_seq, waits_for)');

-- The requested columns never change. The signer may answer again, never with an earlier
-- time. A removal happens once.
CREATE FUNCTION whitelisted_addresses_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
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
CREATE TRIGGER whitelisted_addresses_keep BEFORE UPDATE ON whitelisted_addresses
    FOR EACH ROW EXECUTE FUNCTION whitelisted_addresses_keep();
CREATE TRIGGER whitelisted_addresses_stay BEFORE DELETE OR TRUNCATE ON whitelisted_addresses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER whitelisted_addresses_written_once BEFORE UPDATE ON whitelisted_addresses FOR EACH ROW
    WHEN (OLD.removed_at IS NOT NULL AND (NEW.usable_from, NEW.proof, NEW.journal_id, NEW.journal_seq, NEW.refusal, NEW.waits_for)
        IS DISTINCT FROM (OLD.usable_from, OLD.proof, OLD.journal_id, OLD.journal_seq, OLD.refusal, OLD.waits_for))
    EXECUTE FUNCTION refuse_row_change();
