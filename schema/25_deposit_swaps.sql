-- Deposit swaps: a customer pays an address of a provider, on almost any chain, and the provider pays USDC to
-- a wallet of ours that exists for this deposit swap alone.
--
-- What arrives there is a deposit of the customer, whatever the status says. Only final blocks move money; the
-- status and the hashes inform, and a word of the provider may move them.

CREATE TABLE deposit_swaps (
    deposit_swap_id     text PRIMARY KEY,
    org_id              text NOT NULL REFERENCES organizations,
    customer_id         text COLLATE "C" NOT NULL,
    idempotency_key     text COLLATE "C",     -- NULL: the caller gave none
    key_hash            text,                 -- hex SHA-256 of the key
    request_digest      bytea NOT NULL,       -- of the caller's parameters
    -- The token that the customer pays with. Its chain may be one that no installation runs.
    origin_chain        text NOT NULL,
    origin_contract     text NOT NULL,        -- '' is the coin of the chain
    origin_symbol       text NOT NULL,        -- for display
    origin_decimals     integer NOT NULL,
    to_mint_id          integer NOT NULL,
    to_chain            text NOT NULL,
    amount_in           numeric(78,0),        -- NULL: the caller named none
    estimated_out       numeric(78,0) NOT NULL,
    min_out             numeric(78,0) NOT NULL,
    refund_address      text NOT NULL,        -- of the payer
    wallet_id           text NOT NULL,        -- ours, at which the output arrives
    provider            text COLLATE "C" NOT NULL,
    scheme              text NOT NULL,
    deposit_address     text NOT NULL,        -- of the provider, as it writes it: the customer pays it
    signed_quote        bytea NOT NULL,       -- what the provider signed
    origin_asset        text NOT NULL,        -- the names that the provider has for both tokens
    destination_asset   text NOT NULL,
    expires_at          timestamptz NOT NULL, -- the provider takes no payment after it, as it signed
    -- By the server's key, which is not in the database: without it no address is shown. Rule DSW-6.
    mac                 bytea NOT NULL,
    status              text NOT NULL,
    received_amount     numeric(78,0),        -- what our own node saw at the provider's address
    refunded_amount     numeric(78,0),        -- what our own node saw at the refund address
    amount_out          numeric(78,0),        -- the final arrivals of the mint that were credited or flagged
    origin_tx_hash      text,
    destination_tx_hash text,
    failure_reason      text,
    -- Who paid the provider, and how that is known. NULL: it is not known.
    origin_payers       text[],
    payer_source        text,
    payers_at           timestamptz,          -- when every payment that the provider named had its payers last
    known_payments      text[] NOT NULL DEFAULT '{}', -- the payments whose payers are among origin_payers
    known_refunds       text[] NOT NULL DEFAULT '{}', -- the refunds that are in refunded_amount
    success_said_at     timestamptz,          -- when the provider first reported success
    failure_said_at     timestamptz,          -- since when it reports a failure or a refund
    look_at             timestamptz,          -- when the worker looks at it next; NULL: nothing is expected any more
    look_count          integer NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    completed_at        timestamptz,
    CONSTRAINT deposit_swaps_key_unique UNIQUE (org_id, key_hash),
    -- A wallet and an address of a provider belong to one deposit swap permanently.
    CONSTRAINT deposit_swaps_wallet_once UNIQUE (wallet_id),
    CONSTRAINT deposit_swaps_deposit_address_once UNIQUE (provider, deposit_address),
    CONSTRAINT deposit_swaps_customer FOREIGN KEY (org_id, customer_id) REFERENCES customers (org_id, customer_id),
    CONSTRAINT deposit_swaps_to_mint FOREIGN KEY (to_mint_id, to_chain) REFERENCES mints (mint_id, chain),
    CONSTRAINT deposit_swaps_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT deposit_swaps_key_hashed CHECK (
        (key_hash IS NULL) = (idempotency_key IS NULL) AND (key_hash IS NULL OR key_hash ~ '^[0-9a-f]{64}$')),
    CONSTRAINT deposit_swaps_positive CHECK (
        min_out > 0 AND estimated_out >= min_out AND (amount_in IS NULL OR amount_in > 0)
        AND (received_amount IS NULL OR received_amount > 0) AND (refunded_amount IS NULL OR refunded_amount > 0)
        AND (amount_out IS NULL OR amount_out > 0)),
    CONSTRAINT deposit_swaps_words CHECK (
        origin_chain <> '' AND provider <> '' AND deposit_address <> '' AND refund_address <> ''
        AND origin_asset <> '' AND destination_asset <> '' AND origin_decimals BETWEEN 0 AND 77 AND look_count >= 0),
    CONSTRAINT deposit_swaps_scheme_known CHECK (scheme IN ('ONE_CLICK_V0', 'RELAY_ORDER_V1')),
    CONSTRAINT deposit_swaps_status_known CHECK (status IN
        ('AWAITING_DEPOSIT', 'UNDERPAID', 'PROCESSING', 'COMPLETED', 'REFUNDED', 'FAILED', 'EXPIRED')),
    CONSTRAINT deposit_swaps_completed CHECK (
        (status = 'COMPLETED') = (completed_at IS NOT NULL) AND (status = 'COMPLETED') = (amount_out IS NOT NULL)),
    CONSTRAINT deposit_swaps_failed CHECK (failure_reason IS NULL OR length(failure_reason) BETWEEN 1 AND 200),
    CONSTRAINT deposit_swaps_payers CHECK (
        num_nonnulls(origin_payers, payer_source, payers_at) IN (0, 3)
        AND (payer_source IS NULL OR payer_source IN ('OWN_NODE', 'PROVIDER') AND cardinality(origin_payers) BETWEEN 1 AND 200)
        AND cardinality(known_payments) <= 200 AND cardinality(known_refunds) <= 200)
);
-- For lists: every filter that leaves few rows of many has an index.
CREATE INDEX deposit_swaps_listed ON deposit_swaps (org_id, created_at, deposit_swap_id);
CREATE INDEX deposit_swaps_of_customer ON deposit_swaps (org_id, customer_id, created_at, deposit_swap_id);
CREATE INDEX deposit_swaps_of_status ON deposit_swaps (org_id, status, created_at, deposit_swap_id);
-- The same for operators.
CREATE INDEX deposit_swaps_all_listed ON deposit_swaps (created_at, deposit_swap_id);
CREATE INDEX deposit_swaps_all_of_customer ON deposit_swaps (customer_id, created_at, deposit_swap_id);
CREATE INDEX deposit_swaps_all_of_status ON deposit_swaps (status, created_at, deposit_swap_id);
-- What the worker looks at.
CREATE INDEX deposit_swaps_due ON deposit_swaps (look_at, deposit_swap_id) WHERE look_at IS NOT NULL;
-- Whether an address of a provider was given out before, in whatever spelling.
CREATE INDEX deposit_swaps_of_address ON deposit_swaps (origin_chain, lower(deposit_address));
SELECT coffer_tenant('deposit_swaps',
    -- No outcome: only the service's own work writes one.
    'SELECT, INSERT (deposit_swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, origin_chain, origin_contract,'
        ' origin_symbol, origin_decimals, to_mint_id, to_chain, amount_in, estimated_out, min_out, refund_address, wallet_id, provider,'
        ' scheme, deposit_address, signed_quote, origin_asset, destination_asset, expires_at, mac, status, look_at, created_at, updated_at)',
    'SELECT, UPDATE (status, received_amount, refunded_amount, amount_out, origin_tx_hash, destination_tx_hash, failure_reason,'
        ' origin_payers, payer_source, payers_at, known_payments, known_refunds, success_said_at, failure_said_at, look_at, look_count,'
        ' updated_at, completed_at)');
CREATE TRIGGER deposit_swaps_stay BEFORE DELETE OR TRUNCATE ON deposit_swaps
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A deposit swap begins without an outcome, and its wallet is its own.
CREATE FUNCTION deposit_swaps_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NEW.status <> 'AWAITING_DEPOSIT' OR num_nonnulls(NEW.received_amount, NEW.refunded_amount, NEW.amount_out, NEW.origin_tx_hash,
            NEW.destination_tx_hash, NEW.failure_reason, NEW.origin_payers, NEW.success_said_at, NEW.failure_said_at, NEW.completed_at) <> 0
       OR NEW.known_payments <> '{}' OR NEW.known_refunds <> '{}' THEN
        RAISE EXCEPTION 'deposit swap % begins with an outcome', NEW.deposit_swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_swaps_begin';
    END IF;
    IF (SELECT (w.purpose, w.subject) = ('DEPOSIT_SWAP', NEW.deposit_swap_id COLLATE "C") FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'deposit swap % has the wallet of another one', NEW.deposit_swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_swaps_own_wallet';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposit_swaps_begin BEFORE INSERT ON deposit_swaps FOR EACH ROW EXECUTE FUNCTION deposit_swaps_begin();

-- The terms of a deposit swap are fixed, its numbers only grow, and its completion is written once.
CREATE FUNCTION deposit_swaps_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.deposit_swap_id, NEW.org_id, NEW.customer_id, NEW.idempotency_key, NEW.key_hash, NEW.request_digest, NEW.origin_chain,
            NEW.origin_contract, NEW.origin_symbol, NEW.origin_decimals, NEW.to_mint_id, NEW.to_chain, NEW.amount_in, NEW.estimated_out,
            NEW.min_out, NEW.refund_address, NEW.wallet_id, NEW.provider, NEW.scheme, NEW.deposit_address, NEW.signed_quote, NEW.origin_asset,
            NEW.destination_asset, NEW.expires_at, NEW.mac, NEW.created_at)
       IS DISTINCT FROM
       (OLD.deposit_swap_id, OLD.org_id, OLD.customer_id, OLD.idempotency_key, OLD.key_hash, OLD.request_digest, OLD.origin_chain,
            OLD.origin_contract, OLD.origin_symbol, OLD.origin_decimals, OLD.to_mint_id, OLD.to_chain, OLD.amount_in, OLD.estimated_out,
            OLD.min_out, OLD.refund_address, OLD.wallet_id, OLD.provider, OLD.scheme, OLD.deposit_address, OLD.signed_quote, OLD.origin_asset,
            OLD.destination_asset, OLD.expires_at, OLD.mac, OLD.created_at) THEN
        RAISE EXCEPTION 'the terms of deposit swap % are fixed', OLD.deposit_swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_swaps_terms_fixed';
    END IF;
    IF OLD.status = 'COMPLETED' AND (NEW.status, NEW.completed_at, NEW.destination_tx_hash)
            IS DISTINCT FROM (OLD.status, OLD.completed_at, OLD.destination_tx_hash) THEN
        RAISE EXCEPTION 'deposit swap % is completed', OLD.deposit_swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_swaps_completed_once';
    END IF;
    IF coalesce(NEW.received_amount, 0) < coalesce(OLD.received_amount, 0) OR coalesce(NEW.refunded_amount, 0) < coalesce(OLD.refunded_amount, 0)
       OR coalesce(NEW.amount_out, 0) < coalesce(OLD.amount_out, 0) OR NOT NEW.known_payments @> OLD.known_payments
       OR NOT NEW.known_refunds @> OLD.known_refunds OR NOT coalesce(NEW.origin_payers, '{}') @> coalesce(OLD.origin_payers, '{}') THEN
        RAISE EXCEPTION 'what is known of deposit swap % only grows', OLD.deposit_swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_swaps_numbers_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposit_swaps_keep BEFORE UPDATE ON deposit_swaps FOR EACH ROW EXECUTE FUNCTION deposit_swaps_keep();

-- What came out is what deposits say, and a deposit is its customer's. Invariant I-71.
CREATE FUNCTION deposit_swap_is_whole(id text) RETURNS boolean LANGUAGE sql STABLE
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
    SELECT coalesce(s.amount_out, 0) = (
            SELECT coalesce(sum(d.amount), 0) FROM deposits d
            WHERE d.deposit_swap_id = s.deposit_swap_id AND d.mint_id = s.to_mint_id AND (d.is_flagged OR d.status IN ('CREDITED', 'REVERSED')))
        AND NOT EXISTS (
            SELECT FROM deposits d WHERE d.deposit_swap_id = s.deposit_swap_id AND d.customer_id IS NOT NULL
                AND (d.org_id, d.customer_id, d.wallet_id) <> (s.org_id, s.customer_id, s.wallet_id))
    FROM deposit_swaps s WHERE s.deposit_swap_id = id
$$;

CREATE FUNCTION deposit_swaps_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF deposit_swap_is_whole(NEW.deposit_swap_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'deposit swap % and its deposits say different things', NEW.deposit_swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposit_swaps_delivered';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposit_swaps_delivered AFTER UPDATE ON deposit_swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.amount_out IS DISTINCT FROM OLD.amount_out) EXECUTE FUNCTION deposit_swaps_follow();
-- A deposit without a customer waits for its row, and is none of these.
CREATE CONSTRAINT TRIGGER deposits_of_deposit_swap AFTER INSERT OR UPDATE ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.deposit_swap_id IS NOT NULL AND NEW.customer_id IS NOT NULL) EXECUTE FUNCTION deposit_swaps_follow();
