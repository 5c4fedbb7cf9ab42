-- Swaps: we pay a provider that we do not control, and it pays us another asset on a chain.
--
-- A swap moves by what final blocks show and by its order. A word of a provider moves it only where
-- no block can. What is with a provider is a claim on it in the books until a block ends the claim.

-- The providers, for all processes. A provider without a row is active.
CREATE TABLE swap_providers (
    provider   text COLLATE "C" PRIMARY KEY,
    state      text NOT NULL,
    reason     text NOT NULL,
    since      timestamptz NOT NULL,
    changed_by text NOT NULL, -- kind and id of the actor
    CONSTRAINT swap_providers_state_known CHECK (state IN ('ACTIVE', 'SUSPENDED')),
    CONSTRAINT swap_providers_words CHECK (
        provider <> '' AND changed_by <> '' AND length(reason) <= 1000 AND (state = 'ACTIVE' OR reason <> ''))
);
SELECT coffer_shared('swap_providers', 'SELECT', 'SELECT, INSERT, UPDATE (state, reason, since, changed_by)');
CREATE TRIGGER swap_providers_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF provider ON swap_providers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- One row for each swap, of a customer or of a product of the organization. Its order has the same id.
CREATE TABLE swaps (
    swap_id             text PRIMARY KEY,
    org_id              text NOT NULL REFERENCES organizations,
    customer_id         text COLLATE "C",     -- whose balance pays, or a product in its place
    idempotency_key     text COLLATE "C",     -- NULL: restored from the signer's journal, which has the hash alone
    key_hash            text NOT NULL,        -- hex SHA-256 of the key, for an organization's swap after 'ORGANIZATION '
    request_digest      bytea,                -- of the caller's parameters; NULL: restored
    metadata            jsonb NOT NULL DEFAULT '{}',
    from_mint_id        integer NOT NULL,
    to_mint_id          integer NOT NULL,
    from_chain          text NOT NULL,
    to_chain            text NOT NULL,
    amount_in           numeric(78,0) NOT NULL,
    estimated_out       numeric(78,0) NOT NULL,
    min_out             numeric(78,0) NOT NULL,
    -- Of the offer, which a swap that waits for approval does not have yet.
    provider            text COLLATE "C",
    deposit_address     text,                 -- of the provider: our payment goes there
    delivery_wallet_id  text NOT NULL,
    refund_wallet_id    text NOT NULL,
    refund_fee          numeric(78,0) NOT NULL DEFAULT 0, -- what the provider keeps of a refund, as it signed
    pay_by              timestamptz,          -- the payment is not signed after it
    expires_at          timestamptz,          -- the provider takes no payment after it, as it signed
    estimated_seconds   integer,              -- NULL: the provider does not say
    usd_value           numeric(38,18),       -- of amount_in when the swap was created; NULL: no price
    fee_bps             integer NOT NULL,
    fee_amount          numeric(78,0) NOT NULL,
    status              text NOT NULL,
    -- Why the swap ends without a payment, from the recall of its order until the signer has journaled
    -- that the payment is void.
    end_reason          text,
    -- What came back, what of it the customer has again, and what the provider keeps of it for good.
    refunded            numeric(78,0) NOT NULL DEFAULT 0,
    restored            numeric(78,0) NOT NULL DEFAULT 0,
    short               numeric(78,0) NOT NULL DEFAULT 0,
    restore_count       integer NOT NULL DEFAULT 0,
    short_count         integer NOT NULL DEFAULT 0,
    refund_report       text NOT NULL DEFAULT 'NONE', -- what the provider says of a refund
    amount_out          numeric(78,0),
    origin_tx_hash      text,
    destination_tx_hash text,
    refund_tx_hash      text,
    failure_reason      text,
    failure_message     text,
    paid_at             timestamptz,          -- our payment is final
    -- Since when the provider reports, without a break, that the swap failed. Its word counts when it
    -- says so again later, and the walk of the destination is past this moment.
    failure_said_at     timestamptz,
    success_said_at     timestamptz,          -- when it first reported success
    delayed_at          timestamptz,          -- when the organization was told that the swap takes long
    look_at             timestamptz,          -- when the worker looks at it next; NULL: nothing is expected any more
    look_count          integer NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    completed_at        timestamptz,
    failed_at           timestamptz,
    restored_at         timestamptz,          -- when all that came back was restored
    imported_at         timestamptz,          -- when it was restored from the signer's journal
    -- What the customer's restored balance lacked for the hold, and how often a part of it was taken.
    owed                numeric(78,0) NOT NULL DEFAULT 0,
    collections         integer NOT NULL DEFAULT 0,
    -- Of an organization's swap: a product pays, and the output is paid to an entry of the whitelist.
    kind                text NOT NULL DEFAULT 'CUSTOMER',
    product             text,
    whitelisted_address_id text,
    payout_address      text,                 -- of the entry when the swap was requested
    payout_max          numeric(78,0),        -- the most that its approvals let go
    payout_until        timestamptz,          -- until when they do
    slippage_bps        integer,              -- NULL: restored
    approvals_required  smallint NOT NULL DEFAULT 0, -- 0: no person has to approve it
    request_mac         bytea,                -- of its terms and of the approvals, by the server's key
    requester_kind      text,                 -- NULL: restored
    requester_id        text COLLATE "C",
    approved_at         timestamptz,
    adopted_at          timestamptz,          -- when a restore gave it the offer that the signer's journal has
    rejected_note       text,
    delivered_at        timestamptz,          -- when the output was credited to the product
    payout_id           text,                 -- the withdrawal that pays the output, as swaps_paid_out checks
    -- Keys that other tables refer to.
    CONSTRAINT swaps_of_org UNIQUE (org_id, swap_id),
    -- Idempotency keys of calls that move money never expire.
    CONSTRAINT swaps_key_unique UNIQUE (org_id, key_hash),
    -- A wallet and a deposit address belong to one swap permanently. Invariant I-65.
    CONSTRAINT swaps_delivery_once UNIQUE (delivery_wallet_id),
    CONSTRAINT swaps_refund_once UNIQUE (refund_wallet_id),
    CONSTRAINT swaps_deposit_address_once UNIQUE (from_chain, deposit_address),
    CONSTRAINT swaps_customer FOREIGN KEY (org_id, customer_id) REFERENCES customers (org_id, customer_id),
    CONSTRAINT swaps_from_mint FOREIGN KEY (from_mint_id, from_chain) REFERENCES mints (mint_id, chain),
    CONSTRAINT swaps_to_mint FOREIGN KEY (to_mint_id, to_chain) REFERENCES mints (mint_id, chain),
    CONSTRAINT swaps_delivery FOREIGN KEY (org_id, delivery_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT swaps_refund FOREIGN KEY (org_id, refund_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT swaps_two_mints CHECK (from_mint_id <> to_mint_id),
    CONSTRAINT swaps_two_wallets CHECK (delivery_wallet_id <> refund_wallet_id),
    CONSTRAINT swaps_positive CHECK (amount_in > 0 AND min_out > 0 AND estimated_out >= min_out),
    CONSTRAINT swaps_key_hashed CHECK (key_hash ~ '^[0-9a-f]{64}$'
        AND (idempotency_key IS NULL) = (imported_at IS NOT NULL) AND (request_digest IS NULL) = (imported_at IS NOT NULL)),
    CONSTRAINT swaps_fee CHECK (fee_bps BETWEEN 0 AND 10000 AND fee_amount = div(amount_in * fee_bps, 10000)),
    CONSTRAINT swaps_status_known CHECK (
        status IN ('PENDING', 'DEPOSITING', 'PROCESSING', 'COMPLETED', 'FAILED', 'AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')),
    -- People decide about an organization's swap alone.
    CONSTRAINT swaps_decided_own CHECK (kind = 'ORGANIZATION' OR status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')),
    CONSTRAINT swaps_of_one CHECK (
        CASE kind
            WHEN 'CUSTOMER' THEN customer_id IS NOT NULL
                AND num_nonnulls(product, whitelisted_address_id, payout_address, payout_max, payout_until, slippage_bps, request_mac,
                    requester_kind, requester_id, approved_at, adopted_at, rejected_note, delivered_at, payout_id) = 0 AND approvals_required = 0
            WHEN 'ORGANIZATION' THEN customer_id IS NULL
                AND num_nonnulls(product, whitelisted_address_id, payout_address, payout_max, payout_until, request_mac) = 6
                AND num_nonnulls(slippage_bps, requester_kind, requester_id) = CASE WHEN imported_at IS NULL THEN 3 ELSE 0 END
                AND product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT') AND payout_max >= min_out AND fee_bps = 0
            ELSE false
        END),
    CONSTRAINT swaps_approvals_bounded CHECK (approvals_required BETWEEN 0 AND 10),
    -- What is approved has had to be, and what waits for it was not approved.
    CONSTRAINT swaps_approved CHECK (
        (status <> 'AWAITING_APPROVAL' OR approvals_required > 0 AND approved_at IS NULL)
        AND (approved_at IS NULL OR approvals_required > 0)
        AND (rejected_note IS NOT NULL) = (status = 'REJECTED') AND length(rejected_note) <= 1000),
    -- A swap without an offer has paid no provider.
    CONSTRAINT swaps_offered CHECK (
        num_nonnulls(provider, deposit_address, pay_by, expires_at) = 4
            AND status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED')
        OR num_nonnulls(provider, deposit_address, pay_by, expires_at, estimated_seconds, paid_at, origin_tx_hash, amount_out) = 0
            AND kind = 'ORGANIZATION' AND status NOT IN ('DEPOSITING', 'PROCESSING', 'COMPLETED') AND refund_fee = 0),
    CONSTRAINT swaps_reasons_known CHECK (
        failure_reason IN ('SLIPPAGE_EXCEEDED', 'DEADLINE_EXPIRED', 'INCOMPLETE_DEPOSIT', 'ORIGIN_TX_FAILED', 'NO_LIQUIDITY',
            'PROVIDER_REFUNDED', 'PROVIDER_FAILED', 'PROVIDER_COMPLIANCE', 'DESTINATION_UNAVAILABLE', 'DEPOSIT_REORGED', 'UNKNOWN')
        AND (end_reason IS NULL OR end_reason IN ('DEADLINE_EXPIRED', 'ORIGIN_TX_FAILED'))),
    CONSTRAINT swaps_refund_report_known CHECK (refund_report IN ('NONE', 'PENDING', 'UNAVAILABLE', 'MANUAL')),
    CONSTRAINT swaps_ended CHECK (
        (status = 'COMPLETED') = (completed_at IS NOT NULL)
        AND CASE WHEN kind = 'CUSTOMER' THEN (status = 'COMPLETED') = (amount_out IS NOT NULL)
            -- The output of an organization's swap is in its product until its payment is final.
            ELSE (amount_out IS NOT NULL) = (delivered_at IS NOT NULL)
                AND (status <> 'COMPLETED' OR num_nonnulls(amount_out, payout_id) = 2)
                AND (payout_id IS NULL OR amount_out IS NOT NULL)
                AND (amount_out IS NULL OR status IN ('PROCESSING', 'COMPLETED') OR failure_reason = 'DESTINATION_UNAVAILABLE') END
        AND (amount_out IS NULL OR num_nonnulls(origin_tx_hash, destination_tx_hash) = 2)
        AND (status = 'FAILED') = (failed_at IS NOT NULL) AND (status = 'FAILED') = (failure_reason IS NOT NULL)),
    CONSTRAINT swaps_amount_out CHECK (amount_out > 0),
    CONSTRAINT swaps_numbers CHECK (
        refunded >= 0 AND restored >= 0 AND short >= 0 AND refund_fee >= 0
        AND restored <= refunded AND refunded + short <= amount_in
        AND restore_count >= 0 AND (restore_count = 0) = (restored = 0)
        AND short_count >= 0 AND (short_count = 0) = (short = 0)),
    -- Only a swap that ended without an output is restored, and a delivered one is never short of anything.
    CONSTRAINT swaps_restored_failed CHECK (
        (restored = 0 AND short = 0) OR amount_out IS NULL AND (status = 'FAILED' OR short = 0 AND status IN ('REJECTED', 'CANCELLED'))),
    CONSTRAINT swaps_counts CHECK (look_count >= 0 AND estimated_seconds >= 0 AND collections >= 0),
    CONSTRAINT swaps_owed CHECK (owed BETWEEN 0 AND amount_in AND (owed = 0 OR imported_at IS NOT NULL))
);
-- For lists: every filter that leaves few rows of many has an index.
CREATE INDEX swaps_listed ON swaps (org_id, created_at, swap_id);
CREATE INDEX swaps_of_customer ON swaps (org_id, customer_id, created_at, swap_id);
CREATE INDEX swaps_of_status ON swaps (org_id, status, created_at, swap_id);
-- The same for operators, who list the swaps of all organizations.
CREATE INDEX swaps_all_listed ON swaps (created_at, swap_id);
CREATE INDEX swaps_all_of_customer ON swaps (customer_id, created_at, swap_id);
CREATE INDEX swaps_all_of_status ON swaps (status, created_at, swap_id);
CREATE INDEX swaps_of_provider ON swaps (provider, created_at, swap_id);
-- What the worker looks at.
CREATE INDEX swaps_due ON swaps (look_at, swap_id) WHERE look_at IS NOT NULL;
-- The failed swaps that an organization has to restore.
CREATE INDEX swaps_to_restore ON swaps (org_id, failed_at, swap_id) WHERE status = 'FAILED' AND refunded > restored;
CREATE INDEX swaps_owing ON swaps (org_id, customer_id, from_mint_id) WHERE owed > 0;
CREATE INDEX swaps_own_listed ON swaps (org_id, created_at, swap_id) WHERE kind = 'ORGANIZATION';
CREATE INDEX swaps_own_of_status ON swaps (org_id, status, created_at, swap_id) WHERE kind = 'ORGANIZATION';
CREATE INDEX swaps_own_of_product ON swaps (org_id, product, created_at, swap_id) WHERE kind = 'ORGANIZATION';
CREATE INDEX swaps_all_own_listed ON swaps (created_at, swap_id) WHERE kind = 'ORGANIZATION';
-- A withdrawal pays the output of one swap.
CREATE UNIQUE INDEX swaps_payout_once ON swaps (payout_id) WHERE payout_id IS NOT NULL;
-- Claims on providers, by age.
CREATE INDEX swaps_claims ON swaps (provider, created_at, swap_id)
    WHERE paid_at IS NOT NULL AND amount_out IS NULL AND refunded + short < amount_in;
-- What is with a provider, or is about to be paid to it.
CREATE INDEX swaps_with_provider ON swaps (provider, from_mint_id)
    WHERE amount_out IS NULL AND refunded + short < amount_in AND (paid_at IS NOT NULL OR status IN ('PENDING', 'DEPOSITING', 'PROCESSING'));
-- Swaps by which we may owe a provider: it delivered or gave back before our payment is final, or more
-- than it had.
CREATE INDEX swaps_debts ON swaps (provider, created_at, swap_id)
    WHERE paid_at IS NULL AND (amount_out IS NOT NULL OR refunded > 0) OR amount_out IS NOT NULL AND refunded > 0;
SELECT coffer_tenant('swaps',
    -- Not imported_at, owed and collections: a restored swap makes a balance that its customer owes.
    'SELECT, INSERT (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, metadata, from_mint_id, to_mint_id,'
        ' from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address, delivery_wallet_id, refund_wallet_id,'
        ' refund_fee, pay_by, expires_at, estimated_seconds, usd_value, fee_bps, fee_amount, status, look_at, created_at, updated_at,'
        ' kind, product, whitelisted_address_id, payout_address, payout_max, payout_until, slippage_bps, approvals_required,'
        ' request_mac, requester_kind, requester_id),'
        ' UPDATE (restored, restore_count, restored_at, updated_at)',
    'SELECT, INSERT, UPDATE');
CREATE POLICY keeper ON swaps FOR SELECT TO CURRENT_USER USING (true);
CREATE TRIGGER swaps_stay BEFORE DELETE OR TRUNCATE ON swaps FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What is with each provider, by mint, with the dollar values that the swaps had at their creation and how many had
-- none. It counts the swaps of all organizations for the transaction that writes one of a single organization.
CREATE FUNCTION swap_claims(providers text[])
    RETURNS TABLE (provider text, mint_id integer, decimals integer, amount numeric, stored_usd numeric, unvalued bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
    SELECT s.provider, s.from_mint_id, (SELECT m.decimals FROM mints m WHERE m.mint_id = s.from_mint_id),
        sum(s.amount_in - s.refunded - s.short), coalesce(sum(s.usd_value), 0), count(*) FILTER (WHERE s.usd_value IS NULL)
    FROM swaps s
    WHERE s.provider = ANY (providers) AND s.amount_out IS NULL AND s.refunded + s.short < s.amount_in
        AND (s.paid_at IS NOT NULL OR s.status IN ('PENDING', 'DEPOSITING', 'PROCESSING'))
    GROUP BY s.provider, s.from_mint_id
$$;
REVOKE ALL ON FUNCTION swap_claims(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION swap_claims(text[]) TO coffer_app, coffer_system;

-- The terms of a swap are fixed, its status only goes forward, and its numbers only grow. Those of the
-- offer are fixed once it has one, and it gets one while it is pending.
CREATE FUNCTION swaps_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.swap_id, NEW.org_id, NEW.customer_id, NEW.idempotency_key, NEW.key_hash, NEW.request_digest, NEW.metadata, NEW.from_mint_id,
            NEW.to_mint_id, NEW.from_chain, NEW.to_chain, NEW.amount_in, NEW.min_out,
            NEW.delivery_wallet_id, NEW.refund_wallet_id, NEW.usd_value,
            NEW.fee_bps, NEW.fee_amount, NEW.created_at, NEW.imported_at,
            NEW.kind, NEW.product, NEW.whitelisted_address_id, NEW.payout_address, NEW.payout_max, NEW.payout_until, NEW.slippage_bps,
            NEW.approvals_required, NEW.request_mac, NEW.requester_kind, NEW.requester_id)
       IS DISTINCT FROM
       (OLD.swap_id, OLD.org_id, OLD.customer_id, OLD.idempotency_key, OLD.key_hash, OLD.request_digest, OLD.metadata, OLD.from_mint_id,
            OLD.to_mint_id, OLD.from_chain, OLD.to_chain, OLD.amount_in, OLD.min_out,
            OLD.delivery_wallet_id, OLD.refund_wallet_id, OLD.usd_value,
            OLD.fee_bps, OLD.fee_amount, OLD.created_at, OLD.imported_at,
            OLD.kind, OLD.product, OLD.whitelisted_address_id, OLD.payout_address, OLD.payout_max, OLD.payout_until, OLD.slippage_bps,
            OLD.approvals_required, OLD.request_mac, OLD.requester_kind, OLD.requester_id)
       OR (OLD.provider IS NOT NULL OR OLD.status <> 'PENDING' OR NEW.status <> 'PENDING')
          AND (NEW.estimated_out, NEW.provider, NEW.deposit_address, NEW.refund_fee, NEW.pay_by, NEW.expires_at, NEW.estimated_seconds)
            IS DISTINCT FROM
            (OLD.estimated_out, OLD.provider, OLD.deposit_address, OLD.refund_fee, OLD.pay_by, OLD.expires_at, OLD.estimated_seconds) THEN
        RAISE EXCEPTION 'the terms of swap % are fixed', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_terms_fixed';
    END IF;
    IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (('PENDING', 'DEPOSITING'), ('PENDING', 'PROCESSING'), ('PENDING', 'FAILED'),
            ('DEPOSITING', 'PROCESSING'), ('DEPOSITING', 'FAILED'), ('PROCESSING', 'COMPLETED'), ('PROCESSING', 'FAILED'),
            ('AWAITING_APPROVAL', 'PENDING'), ('AWAITING_APPROVAL', 'REJECTED'), ('AWAITING_APPROVAL', 'CANCELLED')) THEN
        RAISE EXCEPTION 'swap % is %', OLD.swap_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_forward';
    END IF;
    IF NEW.refunded < OLD.refunded OR NEW.restored < OLD.restored OR NEW.short < OLD.short
       OR NEW.restore_count NOT IN (OLD.restore_count, OLD.restore_count + 1) OR (NEW.restored = OLD.restored) <> (NEW.restore_count = OLD.restore_count)
       OR NEW.short_count NOT IN (OLD.short_count, OLD.short_count + 1) OR (NEW.short = OLD.short) <> (NEW.short_count = OLD.short_count)
       OR NEW.restored = OLD.restored AND NEW.restored_at IS DISTINCT FROM OLD.restored_at THEN
        RAISE EXCEPTION 'the numbers of swap % only grow', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_numbers_forward';
    END IF;
    IF OLD.paid_at IS NOT NULL AND NEW.paid_at IS DISTINCT FROM OLD.paid_at
       OR OLD.delayed_at IS NOT NULL AND NEW.delayed_at IS DISTINCT FROM OLD.delayed_at
       OR OLD.end_reason IS NOT NULL AND NEW.end_reason IS DISTINCT FROM OLD.end_reason
       OR OLD.amount_out IS NOT NULL AND (NEW.amount_out, NEW.destination_tx_hash, NEW.delivered_at, NEW.refunded)
            IS DISTINCT FROM (OLD.amount_out, OLD.destination_tx_hash, OLD.delivered_at, OLD.refunded)
       OR (NEW.approved_at IS DISTINCT FROM OLD.approved_at OR NEW.rejected_note IS DISTINCT FROM OLD.rejected_note)
            AND OLD.status <> 'AWAITING_APPROVAL'
       OR (NEW.approved_at IS NOT NULL) < (OLD.status = 'AWAITING_APPROVAL' AND NEW.status = 'PENDING')
       OR NEW.adopted_at IS DISTINCT FROM OLD.adopted_at AND (OLD.provider IS NOT NULL OR NEW.provider IS NULL)
       OR NEW.payout_id IS DISTINCT FROM OLD.payout_id AND (OLD.payout_id IS NOT NULL OR OLD.status <> 'PROCESSING')
       OR OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED') AND (NEW.amount_out, NEW.destination_tx_hash, NEW.delivered_at, NEW.completed_at, NEW.failed_at, NEW.failure_reason, NEW.failure_message, NEW.end_reason)
            IS DISTINCT FROM (OLD.amount_out, OLD.destination_tx_hash, OLD.delivered_at, OLD.completed_at, OLD.failed_at, OLD.failure_reason, OLD.failure_message, OLD.end_reason)
       OR OLD.status IN ('REJECTED', 'CANCELLED') AND (NEW.refunded, NEW.look_at) IS DISTINCT FROM (OLD.refunded, OLD.look_at) THEN
        RAISE EXCEPTION 'what became of swap % is written once', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_written_once';
    END IF;
    -- Until people have decided nothing becomes of a swap: it is let go, or ends with its whole amount back.
    IF OLD.status = 'AWAITING_APPROVAL' AND ((NEW.amount_out, NEW.delivered_at, NEW.paid_at, NEW.origin_tx_hash,
            NEW.destination_tx_hash, NEW.refund_tx_hash, NEW.restored, NEW.restored_at, NEW.short, NEW.refund_report, NEW.end_reason,
            NEW.failure_message, NEW.failure_said_at, NEW.success_said_at, NEW.delayed_at, NEW.owed, NEW.collections)
       IS DISTINCT FROM
       (OLD.amount_out, OLD.delivered_at, OLD.paid_at, OLD.origin_tx_hash,
            OLD.destination_tx_hash, OLD.refund_tx_hash, OLD.restored, OLD.restored_at, OLD.short, OLD.refund_report, OLD.end_reason,
            OLD.failure_message, OLD.failure_said_at, OLD.success_said_at, OLD.delayed_at, OLD.owed, OLD.collections)
       OR NEW.refunded <> CASE WHEN NEW.status IN ('REJECTED', 'CANCELLED') THEN NEW.amount_in ELSE OLD.refunded END) THEN
        RAISE EXCEPTION 'swap % waits for people', OLD.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_awaits';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER swaps_keep BEFORE UPDATE ON swaps FOR EACH ROW EXECUTE FUNCTION swaps_keep();

-- A swap begins without an outcome.
CREATE FUNCTION swaps_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NEW.status <> (CASE WHEN NEW.approvals_required > 0 THEN 'AWAITING_APPROVAL' ELSE 'PENDING' END) AND NEW.imported_at IS NULL
       OR NEW.status = 'PENDING' AND NEW.provider IS NULL
       OR NEW.refunded <> 0 OR num_nonnulls(NEW.end_reason, NEW.paid_at, NEW.completed_at, NEW.failed_at, NEW.payout_id) <> 0
       OR NEW.approved_at IS NOT NULL AND NEW.imported_at IS NULL THEN
        RAISE EXCEPTION 'swap % begins with an outcome', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_begin';
    END IF;
    -- The wallets are those of this swap.
    IF (SELECT (w.purpose, w.subject) = ('SWAP_DELIVERY', NEW.swap_id COLLATE "C") FROM wallets w WHERE w.wallet_id = NEW.delivery_wallet_id) IS NOT TRUE
       OR (SELECT (w.purpose, w.subject) = ('SWAP_REFUND', NEW.swap_id COLLATE "C") FROM wallets w WHERE w.wallet_id = NEW.refund_wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % has wallets of another one', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_own_wallets';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER swaps_begin BEFORE INSERT ON swaps FOR EACH ROW EXECUTE FUNCTION swaps_begin();

-- Each approval is a row of its own by another person, bound to the swap and to the payment of its output.
CREATE TABLE swap_approvals (
    org_id        text NOT NULL,
    swap_id       text NOT NULL,
    approver_kind text NOT NULL,
    approver_id   text COLLATE "C" NOT NULL,
    at            timestamptz NOT NULL,
    digest        text NOT NULL,  -- hex SHA-256 of what was approved
    mac           bytea NOT NULL, -- of the digest and the person, by the server's key
    signature     jsonb,          -- of the words, by the person's passkey; NULL where no rule asked for it
    nth           smallint NOT NULL DEFAULT 0, -- 1 and more: signed again; it counts no second time
    -- A person counts once.
    CONSTRAINT swap_approvals_pkey PRIMARY KEY (swap_id, approver_kind, approver_id, nth),
    CONSTRAINT swap_approvals_swap FOREIGN KEY (org_id, swap_id) REFERENCES swaps (org_id, swap_id),
    CONSTRAINT swap_approvals_by_people CHECK (approver_kind IN ('USER', 'OPERATOR') AND approver_id <> ''),
    CONSTRAINT swap_approvals_signature CHECK (jsonb_typeof(signature) = 'object' AND signature ? 'keyId')
);
SELECT coffer_tenant('swap_approvals', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER swap_approvals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON swap_approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An approval is of a swap that waits for it, and not by the person who requested it.
CREATE FUNCTION swap_approvals_fit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    s record;
BEGIN
    SELECT status, requester_kind, requester_id INTO s FROM swaps WHERE org_id = NEW.org_id AND swap_id = NEW.swap_id;
    IF (s.status = 'AWAITING_APPROVAL') IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % does not wait for this approval', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_waited_for';
    END IF;
    IF (s.requester_kind, s.requester_id) = (NEW.approver_kind, NEW.approver_id) THEN
        RAISE EXCEPTION 'swap % was asked for by the same person', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_not_by_maker';
    END IF;
    -- A person signs again what has no signature, or one that is about to end.
    IF NEW.nth > 0 AND (NEW.signature IS NULL OR NEW.nth <> (SELECT count(*) FROM swap_approvals a
            WHERE a.swap_id = NEW.swap_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id))
        OR EXISTS (SELECT FROM swap_approvals a
            WHERE a.swap_id = NEW.swap_id AND (a.approver_kind, a.approver_id) = (NEW.approver_kind, NEW.approver_id)
                AND (a.signature ->> 'notAfter')::timestamptz > NEW.at + interval '5 minutes')) THEN
        RAISE EXCEPTION 'swap % is approved by this person', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_approvals_again';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER swap_approvals_fit BEFORE INSERT ON swap_approvals FOR EACH ROW EXECUTE FUNCTION swap_approvals_fit();

-- A swap that waited is let go with enough approvals. The signer's journal has none of those that it checked:
-- a swap that a restore let go needs none here, and its payout waits for people.
CREATE FUNCTION swaps_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    n bigint;
    s record;
BEGIN
    SELECT approvals_required, num_nonnulls(imported_at, adopted_at) > 0 AS restored INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    SELECT count(*) INTO n FROM swap_approvals a WHERE a.swap_id = NEW.swap_id AND a.nth = 0;
    IF NOT s.restored AND n < s.approvals_required THEN
        RAISE EXCEPTION 'swap % has % approvals and needs %', NEW.swap_id, n, s.approvals_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_approved_by_enough';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_quorum AFTER INSERT OR UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.approvals_required > 0 AND NEW.status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED'))
    EXECUTE FUNCTION swaps_quorum();

-- The payout of a swap is the withdrawal of its output to its entry, with the key that follows from the swap.
CREATE FUNCTION swaps_pay_out() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (w.org_id, w.product, w.mint_id, w.whitelisted_address_id, w.key_hash)
            = (NEW.org_id, NEW.product, NEW.to_mint_id, NEW.whitelisted_address_id, key_digest('swap ' || NEW.swap_id))
            AND w.amount = NEW.amount_out AND (NEW.status <> 'COMPLETED' OR w.status = 'COMPLETED')
        FROM withdrawals w WHERE w.withdrawal_id = NEW.payout_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'withdrawal % does not pay the output of swap %', NEW.payout_id, NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_paid_out';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_paid_out AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.payout_id IS NOT NULL AND (OLD.payout_id IS NULL OR OLD.status <> NEW.status))
    EXECUTE FUNCTION swaps_pay_out();

-- A withdrawal with the key of a payout pays a swap whose output is in the product. The lock keeps the swap from its
-- end until the withdrawal is committed, so one of both is refused where two processes disagree.
CREATE FUNCTION withdrawals_pay_out() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM swaps s WHERE s.org_id = NEW.org_id AND s.swap_id = substr(NEW.idempotency_key, 6) COLLATE "default"
        AND s.status = 'PROCESSING' AND s.amount_out IS NOT NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'withdrawal % pays the output of a swap that has none to pay', NEW.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_pay_out';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER withdrawals_pay_out AFTER INSERT ON withdrawals
    FOR EACH ROW WHEN (starts_with(NEW.idempotency_key, 'swap ')) EXECUTE FUNCTION withdrawals_pay_out();

-- A delivered swap fails only if no withdrawal pays its output.
CREATE FUNCTION swaps_fail_unpaid() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM withdrawals w WHERE w.org_id = NEW.org_id AND w.key_hash = key_digest('swap ' || NEW.swap_id)
            AND w.status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')) THEN
        RAISE EXCEPTION 'swap % is failed, and a withdrawal pays its output', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_fail_unpaid';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_fail_unpaid AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'FAILED' AND OLD.status <> 'FAILED' AND NEW.amount_out IS NOT NULL)
    EXECUTE FUNCTION swaps_fail_unpaid();

-- The requests for new swaps, and for new deposit swaps with a key, that are at work: one caller in all processes
-- asks the providers for one. A request deletes its row when it ends, together with the insert of what it makes. The
-- row of a process that died is taken over when its time is over.
CREATE TABLE swap_turns (
    org_id  text NOT NULL REFERENCES organizations,
    swap_id text NOT NULL, -- of a swap or a deposit swap that does not exist yet
    holder  text NOT NULL, -- names the request
    ends_at timestamptz NOT NULL,
    CONSTRAINT swap_turns_pkey PRIMARY KEY (org_id, swap_id),
    CONSTRAINT swap_turns_named CHECK (swap_id <> '' AND holder <> '')
);
SELECT coffer_tenant('swap_turns', 'SELECT, INSERT, UPDATE (holder, ends_at), DELETE', 'SELECT, DELETE');
CREATE TRIGGER swap_turns_as_inserted BEFORE UPDATE OF org_id, swap_id ON swap_turns
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What the provider signed and the prices by which the offer was compared. The raw bytes are the
-- receipt in a dispute.
CREATE TABLE swap_offers (
    swap_id       text PRIMARY KEY,
    org_id        text NOT NULL,
    scheme        text NOT NULL,
    deposit_address text NOT NULL,   -- as the provider writes it
    signed_quote  bytea NOT NULL,
    quote_digest  bytea NOT NULL GENERATED ALWAYS AS (sha256(signed_quote)) STORED,
    provider_usd_in  numeric(38,18), -- the dollar values that the provider gives
    provider_usd_out numeric(38,18),
    price_in      numeric(38,18),    -- the second prices, of a whole token; NULL: there was none
    price_out     numeric(38,18),
    price_source  text NOT NULL DEFAULT '',
    priced_at     timestamptz,
    created_at    timestamptz NOT NULL,
    CONSTRAINT swap_offers_swap FOREIGN KEY (org_id, swap_id) REFERENCES swaps (org_id, swap_id),
    CONSTRAINT swap_offers_scheme_known CHECK (scheme IN ('ONE_CLICK_V0', 'RELAY_ORDER_V1')),
    -- A signed quote is good for one swap.
    CONSTRAINT swap_offers_quote_once UNIQUE (quote_digest),
    CONSTRAINT swap_offers_prices CHECK (price_in > 0 AND price_out > 0 AND (price_in IS NULL) = (priced_at IS NULL)
        AND (price_in IS NULL) = (price_out IS NULL))
);
SELECT coffer_tenant('swap_offers', 'SELECT, INSERT', 'SELECT, INSERT');
CREATE TRIGGER swap_offers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON swap_offers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Each report of a provider that differs from the one before. The answer as it came is sealed.
CREATE TABLE swap_reports (
    swap_id     text NOT NULL,
    number      integer NOT NULL, -- 1, 2, … of a swap
    org_id      text NOT NULL,
    status      text NOT NULL,
    word        text NOT NULL,    -- the provider's own status
    refund      text NOT NULL,
    reason      text NOT NULL,
    tx_hashes   text[] NOT NULL,  -- which the provider names, of every kind
    sealed      bytea,            -- NULL: the service has no key to seal with
    created_at  timestamptz NOT NULL,
    CONSTRAINT swap_reports_pkey PRIMARY KEY (swap_id, number),
    CONSTRAINT swap_reports_swap FOREIGN KEY (org_id, swap_id) REFERENCES swaps (org_id, swap_id),
    CONSTRAINT swap_reports_number CHECK (number BETWEEN 1 AND 1000),
    CONSTRAINT swap_reports_status_known CHECK (status IN ('WAITING', 'INCOMPLETE', 'PROCESSING', 'SUCCESS', 'REFUNDED', 'FAILED')),
    CONSTRAINT swap_reports_bounded CHECK (length(word) <= 200 AND length(reason) <= 1000 AND cardinality(tx_hashes) <= 60)
);
SELECT coffer_tenant('swap_reports', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER swap_reports_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON swap_reports
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Each final arrival at a wallet of a swap: what it is, and for a stray one what a person decided.
CREATE TABLE swap_arrivals (
    deposit_id  text PRIMARY KEY,
    org_id      text NOT NULL,
    swap_id     text NOT NULL, -- the subject of the wallet; a stray may be of no swap that this database has
    role        text NOT NULL,
    reason      text NOT NULL, -- why it is a stray; '' otherwise
    created_at  timestamptz NOT NULL,
    decision    text,          -- CREDITED to the customer of the swap, or KEPT in suspense for good
    note        text,
    decided_by  text,
    decided_at  timestamptz,
    CONSTRAINT swap_arrivals_deposit FOREIGN KEY (deposit_id) REFERENCES deposits,
    CONSTRAINT swap_arrivals_role_known CHECK (role IN ('DELIVERY', 'REFUND', 'STRAY')),
    CONSTRAINT swap_arrivals_reason CHECK ((role = 'STRAY') = (reason <> '')),
    CONSTRAINT swap_arrivals_decided CHECK (
        num_nonnulls(decision, note, decided_by, decided_at) IN (0, 4)
        AND (decision IS NULL OR role = 'STRAY' AND decision IN ('CREDITED', 'KEPT') AND length(note) BETWEEN 1 AND 1000))
);
CREATE INDEX swap_arrivals_of_swap ON swap_arrivals (swap_id, created_at);
CREATE INDEX swap_arrivals_open ON swap_arrivals (created_at, deposit_id) WHERE role = 'STRAY' AND decision IS NULL;
CREATE INDEX swap_arrivals_strays ON swap_arrivals (created_at, deposit_id) WHERE role = 'STRAY';
SELECT coffer_tenant('swap_arrivals', 'SELECT', 'SELECT, INSERT, UPDATE (decision, note, decided_by, decided_at)');
CREATE TRIGGER swap_arrivals_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF deposit_id, org_id, swap_id, role, reason, created_at ON swap_arrivals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER swap_arrivals_written_once BEFORE UPDATE ON swap_arrivals FOR EACH ROW WHEN (OLD.decision IS NOT NULL)
    EXECUTE FUNCTION refuse_row_change();

-- The price of a mint at a moment, as it was read: what a fee line is valued by.
CREATE TABLE price_marks (
    price_mark_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mint_id       integer NOT NULL REFERENCES mints,
    price         numeric(38,18) NOT NULL,
    source        text NOT NULL,
    quoted_at     timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    CONSTRAINT price_marks_positive CHECK (price > 0 AND source <> '')
);
-- The newest mark of a mint before a moment.
CREATE INDEX price_marks_of_mint ON price_marks (mint_id, created_at, price_mark_id);
SELECT coffer_shared('price_marks', 'SELECT',
    'SELECT, INSERT (mint_id, price, source, quoted_at, created_at)');
CREATE TRIGGER price_marks_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON price_marks
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The fees that an organization owes for what the service did, one line for each source: a completed swap, or a network
-- fee in the ledger.
CREATE TABLE fee_lines (
    fee_line_id   text COLLATE "C" PRIMARY KEY,
    org_id        text NOT NULL REFERENCES organizations,
    kind          text NOT NULL,
    source_kind   text NOT NULL,
    source_id     text NOT NULL,
    mint_id       integer NOT NULL REFERENCES mints,
    amount        numeric(78,0) NOT NULL,
    fee_bps       integer NOT NULL,
    usd_value     numeric(38,18),  -- NULL: it had no price yet
    price_mark_id bigint REFERENCES price_marks,
    incurred_at   timestamptz NOT NULL,
    is_credit     boolean NOT NULL DEFAULT false, -- it lowers what is owed: a prepaid fee, or a fee that became lower
    tx_hash       text,            -- of a network fee: the transaction that cost it
    invoice_id    text,            -- NULL: it is on no invoice yet
    CONSTRAINT fee_lines_source_once UNIQUE (source_kind, source_id),
    -- The source of a network fee is a cause of the ledger.
    CONSTRAINT fee_lines_kind_known CHECK (
        CASE kind
            WHEN 'SWAP_FEE' THEN source_kind = 'SWAP' AND NOT is_credit AND tx_hash IS NULL
            WHEN 'NETWORK_FEE' THEN source_kind IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID') AND amount > 0 AND fee_bps = 0
                AND tx_hash IS NOT NULL AND (source_kind = 'FEE_CHANGE' OR is_credit = (source_kind = 'FEE_PREPAID'))
            ELSE false
        END),
    CONSTRAINT fee_lines_amount CHECK (amount >= 0 AND fee_bps BETWEEN 0 AND 10000),
    CONSTRAINT fee_lines_priced CHECK ((usd_value IS NULL) = (price_mark_id IS NULL) AND usd_value >= 0),
    CONSTRAINT fee_lines_billed_priced CHECK (invoice_id IS NULL OR usd_value IS NOT NULL)
);
CREATE INDEX fee_lines_listed ON fee_lines (org_id, incurred_at, fee_line_id);
CREATE INDEX fee_lines_all_listed ON fee_lines (incurred_at, fee_line_id);
CREATE INDEX fee_lines_unpriced ON fee_lines (incurred_at) WHERE usd_value IS NULL;
-- What the next invoice of an organization takes, and the lines of an invoice.
CREATE INDEX fee_lines_unbilled ON fee_lines (org_id, incurred_at) WHERE invoice_id IS NULL;
CREATE INDEX fee_lines_of_invoice ON fee_lines (invoice_id, incurred_at, fee_line_id) WHERE invoice_id IS NOT NULL;
SELECT coffer_tenant('fee_lines', 'SELECT',
    'SELECT, INSERT (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, incurred_at, is_credit,'
        ' tx_hash), UPDATE (usd_value, price_mark_id, invoice_id)');
CREATE TRIGGER fee_lines_stay BEFORE DELETE OR TRUNCATE
    OR UPDATE OF fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, incurred_at, is_credit, tx_hash ON fee_lines
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- A value is written once, and a line that is on an invoice keeps everything.
CREATE TRIGGER fee_lines_written_once BEFORE UPDATE ON fee_lines FOR EACH ROW
    WHEN (OLD.invoice_id IS NOT NULL
        OR OLD.usd_value IS NOT NULL AND (NEW.usd_value, NEW.price_mark_id) IS DISTINCT FROM (OLD.usd_value, OLD.price_mark_id))
    EXECUTE FUNCTION refuse_row_change();

-- A line is of a completed swap, with its fee.
CREATE FUNCTION fee_lines_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT s.kind = 'CUSTOMER' AND (s.org_id, s.from_mint_id, s.fee_amount, s.fee_bps, s.completed_at) = (NEW.org_id, NEW.mint_id, NEW.amount, NEW.fee_bps, NEW.incurred_at)
        FROM swaps s WHERE s.swap_id = NEW.source_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'fee line % is of no completed swap', NEW.fee_line_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'fee_lines_of_swap';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER fee_lines_of_swap AFTER INSERT ON fee_lines DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.kind = 'SWAP_FEE') EXECUTE FUNCTION fee_lines_follow();

-- What a price mark is worth of its fee line is computed by the service; the mint agrees, and for a network fee the mark
-- was taken at most a quarter of an hour before.
CREATE FUNCTION fee_lines_price() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT p.mint_id = NEW.mint_id
            AND (NEW.kind = 'SWAP_FEE' OR p.created_at BETWEEN NEW.incurred_at - interval '15 minutes' AND NEW.incurred_at)
        FROM price_marks p WHERE p.price_mark_id = NEW.price_mark_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'fee line % has the price of another mint or time', NEW.fee_line_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'fee_lines_price';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fee_lines_price BEFORE INSERT OR UPDATE OF price_mark_id ON fee_lines
    FOR EACH ROW WHEN (NEW.price_mark_id IS NOT NULL) EXECUTE FUNCTION fee_lines_price();

-- Whether a swap, which may have a reason to end without a payment, is where its order is. The order of a
-- pending swap is broadcast when a cancel took its slot. What a delivered swap became of depends on its
-- payout and not on its order: it counts as completed here.
CREATE FUNCTION swap_in_step(status text, end_reason text, order_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE status
    WHEN 'PENDING' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') OR order_status IN ('REFUSED', 'WITHDRAWN') AND end_reason IS NOT NULL
    WHEN 'DEPOSITING' THEN order_status IN ('BROADCAST', 'STUCK')
    WHEN 'PROCESSING' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK', 'PAID', 'FAILED', 'WITHDRAWN')
    WHEN 'COMPLETED' THEN order_status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK', 'PAID', 'FAILED', 'WITHDRAWN')
    WHEN 'FAILED' THEN order_status IN ('PAID', 'FAILED', 'WITHDRAWN', 'BROADCAST', 'STUCK')
END;

-- A swap is where its order is, and the order pays what the swap says.
CREATE FUNCTION swaps_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now record;
BEGIN
    SELECT s.status, o.status AS order_status,
        CASE WHEN s.provider IS NULL THEN o.order_id IS NULL
            ELSE swap_in_step(CASE WHEN s.amount_out IS NULL THEN s.status ELSE 'COMPLETED' END, s.end_reason, o.status) END AS in_step,
        s.provider IS NULL OR (o.org_id, o.purpose, o.chain, o.mint_id, o.amount, o.to_address, coalesce(o.customer_id, o.product), o.pay_by)
            = (s.org_id, 'SWAP', s.from_chain, s.from_mint_id, s.amount_in, s.deposit_address, coalesce(s.customer_id, s.product), s.pay_by)
            AND (o.product IS NULL) = (s.product IS NULL) AS same
    INTO now FROM swaps s LEFT JOIN dispatch_orders o ON o.order_id = s.swap_id WHERE s.swap_id = NEW.swap_id;
    IF now.same IS NOT TRUE OR now.in_step IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % is %, its order % or of another payment', NEW.swap_id, now.status, coalesce(now.order_status, 'missing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_as_ordered';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_ordered_begin AFTER INSERT ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION swaps_follow();
CREATE CONSTRAINT TRIGGER swaps_ordered_move AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status OR OLD.provider IS DISTINCT FROM NEW.provider) EXECUTE FUNCTION swaps_follow();

-- The signer would admit a granted payment on any later day. So it journals that the payment is void
-- before a swap without a slot gives its money back.
CREATE FUNCTION swaps_void_first() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.swap_id AND status IN ('QUEUED', 'REFUSED', 'WITHDRAWN'))
        AND NOT EXISTS (SELECT FROM dispatch_voids WHERE order_id = NEW.swap_id AND journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'swap % may still be paid: the signer has not journaled that it is void', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_void_first';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER swaps_void_first BEFORE UPDATE ON swaps
    FOR EACH ROW WHEN (NEW.status = 'FAILED' AND OLD.status <> 'FAILED' AND NEW.amount_out IS NULL) EXECUTE FUNCTION swaps_void_first();

-- A swap is held, paid, ended, restored and billed as its row says. Invariants I-61, I-62 and I-67.
CREATE FUNCTION swaps_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    s      record;
    -- One look-up by the key for each cause: for a list of causes, a session that planned on small tables reads all
    -- transfers.
    posted text[] := ARRAY(SELECT k FROM unnest(ARRAY['SWAP_HOLD', 'SWAP_PAID', 'SWAP_END', 'SWAP_FEE']) k
        WHERE (SELECT true FROM ledger_transfers WHERE cause_kind = k AND cause_id = NEW.swap_id COLLATE "C" AND leg = 0));
    broken text;
BEGIN
    SELECT swap_id, status, paid_at, fee_amount, restored, restore_count, short, short_count, amount_out IS NOT NULL AS delivered,
        status = 'COMPLETED' AND kind = 'CUSTOMER' AS billed,
        -- What was never offered to a provider is whole again when it ends.
        provider IS NULL AND restored <> CASE WHEN status IN ('AWAITING_APPROVAL', 'PENDING') THEN 0 ELSE amount_in END AS kept
    INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    broken := CASE
        WHEN 'SWAP_HOLD' <> ALL (posted) THEN 'swaps_held'
        WHEN s.kept THEN 'swaps_released'
        WHEN 'SWAP_PAID' = ANY (posted) <> (s.paid_at IS NOT NULL) THEN 'swaps_paid'
        WHEN 'SWAP_END' = ANY (posted) <> s.delivered THEN 'swaps_settled'
        WHEN 'SWAP_FEE' = ANY (posted) <> (s.billed AND s.fee_amount > 0) THEN 'swaps_fee_posted'
        WHEN s.billed <> EXISTS (SELECT FROM fee_lines WHERE source_kind = 'SWAP' AND source_id = s.swap_id) THEN 'swaps_billed'
        WHEN s.restored <> (SELECT coalesce(sum((SELECT sum(t.amount) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_RESTORE'
            AND t.cause_id = (s.swap_id || '/' || n) COLLATE "C")), 0) FROM generate_series(1, s.restore_count) n) THEN 'swaps_restored'
        WHEN s.short <> (SELECT coalesce(sum((SELECT sum(t.amount) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_SHORT'
            AND t.cause_id = (s.swap_id || '/' || n) COLLATE "C")), 0) FROM generate_series(1, s.short_count) n) THEN 'swaps_short'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'swap % is %, and the books say something else', NEW.swap_id, s.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_booked_begin AFTER INSERT ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION swaps_book();
CREATE CONSTRAINT TRIGGER swaps_booked_move AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.status, OLD.paid_at, OLD.restored, OLD.short, OLD.amount_out)
        IS DISTINCT FROM (NEW.status, NEW.paid_at, NEW.restored, NEW.short, NEW.amount_out))
    EXECUTE FUNCTION swaps_book();

-- What is owed of a restored swap was posted, and only falls.
CREATE FUNCTION swaps_owe() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    s record;
BEGIN
    SELECT swap_id, owed, collections INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    IF s.owed <> (
            SELECT coalesce(sum(CASE WHEN t.cause_id = s.swap_id COLLATE "C" THEN t.amount ELSE -t.amount END), 0) FROM ledger_transfers t
            WHERE t.cause_kind = 'RESTORE'
                AND t.cause_id = ANY (s.swap_id || ARRAY(SELECT s.swap_id || '/' || n FROM generate_series(1, s.collections) n)))
        OR TG_OP = 'UPDATE' AND s.owed > OLD.owed THEN
        RAISE EXCEPTION 'swap % owes %, and the books say something else', s.swap_id, s.owed
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_owed_posted';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_owed_begin AFTER INSERT ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.imported_at IS NOT NULL) EXECUTE FUNCTION swaps_owe();
CREATE CONSTRAINT TRIGGER swaps_owed_move AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.owed <> NEW.owed) EXECUTE FUNCTION swaps_owe();

-- What came back is what final blocks show at the refund wallet, or the whole amount where no payment
-- left us. Invariant I-66.
CREATE FUNCTION swaps_refunds() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    s       record;
    arrived numeric;
    unpaid  boolean;
BEGIN
    SELECT swap_id, status, refunded, amount_in, provider INTO s FROM swaps WHERE swap_id = NEW.swap_id;
    SELECT coalesce(sum(d.amount), 0) INTO arrived FROM deposits d
    WHERE d.swap_id = s.swap_id AND d.arrival_role = 'REFUND' AND d.status IN ('CREDITED', 'REVERSED');
    unpaid := s.status IN ('FAILED', 'REJECTED', 'CANCELLED') AND (s.provider IS NULL OR EXISTS (
        SELECT FROM dispatch_orders o WHERE o.order_id = s.swap_id AND o.status IN ('FAILED', 'WITHDRAWN')));
    IF s.refunded <> arrived AND NOT (unpaid AND s.refunded = s.amount_in AND arrived = 0) THEN
        RAISE EXCEPTION 'swap % counts % as refunded, and % arrived', s.swap_id, s.refunded, arrived
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_refunds';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_refunds AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.refunded <> NEW.refunded) EXECUTE FUNCTION swaps_refunds();

-- Checks that a posting of a swap moves what the row of the swap says, as ledger_transfers_follow does
-- for the other causes.
CREATE FUNCTION ledger_swap_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (s.org_id, s.from_mint_id, NEW.leg) = (NEW.org_id, NEW.mint_id, 0) AND CASE NEW.cause_kind
            WHEN 'SWAP_HOLD' THEN NEW.amount = s.amount_in AND (d.kind, d.subject, c.kind, c.subject) = (o.free, o.subject, o.held, o.subject)
            WHEN 'SWAP_PAID' THEN NEW.amount = s.amount_in AND s.paid_at IS NOT NULL AND (d.kind, d.subject, c.kind, c.subject) = ('AT_PROVIDER', s.provider, 'CUSTODY', '')
                AND EXISTS (SELECT FROM dispatch_orders o WHERE o.order_id = s.swap_id AND o.status = 'PAID')
            WHEN 'SWAP_END' THEN NEW.amount = s.amount_in AND s.amount_out IS NOT NULL AND (d.kind, d.subject, c.kind, c.subject) = (o.held, o.subject, 'AT_PROVIDER', s.provider)
            WHEN 'SWAP_FEE' THEN NEW.amount = s.fee_amount AND s.status = 'COMPLETED' AND s.kind = 'CUSTOMER' AND (d.kind, c.kind) = ('SWAP_FEES_DUE', 'SWAP_FEES_BILLED')
            WHEN 'SWAP_RESTORE' THEN s.restore_count > 0 AND NEW.cause_id = (s.swap_id || '/' || s.restore_count) COLLATE "C" AND s.status IN ('FAILED', 'REJECTED', 'CANCELLED')
                AND NEW.amount = s.restored - (SELECT coalesce(sum(t.amount), 0) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_RESTORE'
                    AND t.cause_id = ANY (ARRAY(SELECT (s.swap_id || '/' || n) COLLATE "C" FROM generate_series(1, s.restore_count - 1) n)))
                AND (d.kind, d.subject, c.kind, c.subject) = (o.held, o.subject, o.free, o.subject)
            WHEN 'SWAP_SHORT' THEN s.short_count > 0 AND NEW.cause_id = (s.swap_id || '/' || s.short_count) COLLATE "C" AND s.status = 'FAILED'
                AND NEW.amount = s.short - (SELECT coalesce(sum(t.amount), 0) FROM ledger_transfers t WHERE t.cause_kind = 'SWAP_SHORT'
                    AND t.cause_id = ANY (ARRAY(SELECT (s.swap_id || '/' || n) COLLATE "C" FROM generate_series(1, s.short_count - 1) n)))
                AND (d.kind, d.subject, c.kind, c.subject) = (o.held, o.subject, 'AT_PROVIDER', s.provider)
            END
        FROM swaps s, ledger_accounts d, ledger_accounts c, LATERAL (SELECT coalesce(s.customer_id, s.product) AS subject,
            CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END AS free,
            CASE WHEN s.product IS NULL THEN 'IN_SWAP' ELSE 'PRODUCT_IN_SWAP' END AS held) o
        WHERE s.swap_id = split_part(NEW.cause_id, '/', 1) COLLATE "default" AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_swap';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_swap AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('SWAP_HOLD', 'SWAP_PAID', 'SWAP_END', 'SWAP_FEE', 'SWAP_RESTORE', 'SWAP_SHORT'))
    EXECUTE FUNCTION ledger_swap_follow();

-- A stray arrival leaves the suspense account when a person credits it to the customer or the product of its
-- swap.
CREATE FUNCTION ledger_arrival_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (p.org_id, p.mint_id, p.amount) = (NEW.org_id, NEW.mint_id, NEW.amount) AND p.status = 'CREDITED' AND p.arrival_role = 'STRAY'
            AND a.decision = 'CREDITED' AND (d.kind, d.subject, c.kind, c.subject)
                = ('SUSPENSE', '', CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END, coalesce(s.customer_id, s.product))
        FROM deposits p, swap_arrivals a, swaps s, ledger_accounts d, ledger_accounts c
        WHERE p.deposit_id = NEW.cause_id COLLATE "default" AND a.deposit_id = p.deposit_id AND s.swap_id = p.swap_id
            AND d.account_id = NEW.debit_account AND c.account_id = NEW.credit_account) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_arrival';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_arrival AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind = 'ARRIVAL') EXECUTE FUNCTION ledger_arrival_follow();

-- A credited arrival was posted.
CREATE FUNCTION swap_arrivals_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'ARRIVAL' AND cause_id = NEW.deposit_id COLLATE "C" AND leg = 0) THEN
        RAISE EXCEPTION 'arrival % was credited and not posted', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swap_arrivals_posted';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swap_arrivals_posted AFTER UPDATE ON swap_arrivals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.decision = 'CREDITED') EXECUTE FUNCTION swap_arrivals_book();

-- A credited deposit at a wallet of a swap is what the swap takes it for: a delivery, a refund, or a
-- stray. The one that completes the swap came with its completion.
CREATE FUNCTION deposits_of_swap() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    p  record;
    ok boolean;
BEGIN
    SELECT d.deposit_id, d.swap_id, d.arrival_role, d.completes_swap, d.customer_id, d.product, d.mint_id, d.wallet_id INTO p
    FROM deposits d WHERE d.deposit_id = NEW.deposit_id;
    SELECT a.role = p.arrival_role AND CASE p.arrival_role
            WHEN 'DELIVERY' THEN (s.to_mint_id, s.delivery_wallet_id) = (p.mint_id, p.wallet_id) AND s.amount_out IS NOT NULL
                AND (s.customer_id, s.product) IS NOT DISTINCT FROM (p.customer_id, p.product)
            WHEN 'REFUND' THEN (s.from_mint_id, s.refund_wallet_id) = (p.mint_id, p.wallet_id)
            -- A stray of no swap keeps no owner, also when its swap is made later.
            ELSE (s.customer_id, s.product) IS NOT DISTINCT FROM (p.customer_id, p.product)
                OR a.reason = 'NO_SWAP' AND num_nonnulls(p.customer_id, p.product) = 0 END
    INTO ok FROM swap_arrivals a LEFT JOIN swaps s ON s.swap_id = a.swap_id
    WHERE a.deposit_id = p.deposit_id AND a.swap_id = p.swap_id;
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION 'deposit % is not what swap % takes it for', p.deposit_id, p.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_of_swap';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposits_of_swap AFTER INSERT OR UPDATE ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.swap_id IS NOT NULL AND NEW.status = 'CREDITED') EXECUTE FUNCTION deposits_of_swap();

-- A delivered swap has exactly one deposit that completes it, and its amount out is what arrived.
CREATE FUNCTION swaps_delivered() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (count(*) FILTER (WHERE d.completes_swap), coalesce(sum(d.amount), 0)) = (1::bigint, NEW.amount_out)
        FROM deposits d WHERE d.swap_id = NEW.swap_id AND d.arrival_role = 'DELIVERY') IS NOT TRUE THEN
        RAISE EXCEPTION 'swap % is delivered with other amounts than arrived', NEW.swap_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'swaps_delivered';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER swaps_delivered AFTER UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.amount_out IS NOT NULL AND OLD.amount_out IS NULL) EXECUTE FUNCTION swaps_delivered();

-- An order of a swap pays what its swap says. The order cannot be another payment afterwards.
CREATE FUNCTION dispatch_orders_of_swap() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (s.org_id, s.from_chain, s.from_mint_id, s.amount_in, s.deposit_address, s.pay_by)
            = (NEW.org_id, NEW.chain, NEW.mint_id, NEW.amount, NEW.to_address, NEW.pay_by)
            AND (s.customer_id, s.product) IS NOT DISTINCT FROM (NEW.customer_id, NEW.product)
        FROM swaps s WHERE s.swap_id = NEW.order_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % pays for no swap', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_of_swap';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_of_swap AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose = 'SWAP') EXECUTE FUNCTION dispatch_orders_of_swap();
CREATE CONSTRAINT TRIGGER dispatch_orders_swap_in_step_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose = 'SWAP') EXECUTE FUNCTION dispatch_orders_follow();
CREATE CONSTRAINT TRIGGER dispatch_orders_swap_in_step_move AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose = 'SWAP' AND OLD.status <> NEW.status) EXECUTE FUNCTION dispatch_orders_follow();
