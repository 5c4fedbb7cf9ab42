-- Dispatch: what has to be put on a chain.
--
-- An order is one payment, sweep or other transaction of ours. It has the id of its cause (the
-- withdrawal, the resolution, the sweep, the top-up, and so on): a cause has one order. A slot
-- is the one position on the chain that an order takes, and it never gives the slot back. An
-- attempt is one complete transaction in that slot.

CREATE TABLE dispatch_orders (
    order_id               text PRIMARY KEY,
    org_id                 text NOT NULL REFERENCES organizations,
    purpose                text NOT NULL,
    chain                  text NOT NULL,
    wallet_id              text NOT NULL,                    -- pays, and has the slot
    to_wallet_id           text,                             -- receives, when it is ours
    to_address             text NOT NULL,
    mint_id                integer NOT NULL REFERENCES mints,
    contract               text NOT NULL,
    amount                 numeric(78,0) NOT NULL,
    customer_id            text COLLATE "C",
    key_hash               text NOT NULL DEFAULT '',         -- hex SHA-256 of the caller's idempotency key
    status                 text NOT NULL,
    waiting_for            text,                             -- what it waits for; the causes are in internal/dispatch/wait.go
    missing_amount         numeric(78,0),                    -- how much of it is missing
    last_error             text,
    attempt_after          timestamptz NOT NULL,
    created_at             timestamptz NOT NULL,
    broadcast_at           timestamptz,
    ended_at               timestamptz,
    tx_hash                text,                             -- the attempt that ended it
    fee                    numeric(78,0),
    proof_id               bigint,
    -- A restore made the slot from the signer's journal and the books lack the funds: nothing
    -- of the wallet is reserved for the order, so it cannot end.
    funds_pending          boolean NOT NULL DEFAULT false,
    fee_deducted           numeric(78,0) NOT NULL DEFAULT 0, -- the part of the withdrawal that is kept for the fee
    fee_max                numeric(78,0),                    -- the most that a transaction of it may cost; NULL: no limit
    authority              jsonb,                            -- for the signer: why the order may be paid
    product                text,
    whitelisted_address_id text,
    from_wallet_id         text,                             -- the wallet whose amount it moves, if that is not wallet_id
    tx_lead_id             text,                             -- the lead of its transaction; NULL: it leads or is alone
    -- What the payment cost above the fee, and whether the chain refused it because of its
    -- payee: for a nonce account, because another account has its address. Zero and false while
    -- it is open, or unknown.
    rent                   numeric(78,0) NOT NULL DEFAULT 0,
    payee_failed           boolean NOT NULL DEFAULT false,
    trigger                text,                             -- why the service planned it; NULL: people asked for it
    -- By these it refers to what it has to agree with. NULL: nothing.
    payment_terms          bytea GENERATED ALWAYS AS (CASE purpose WHEN 'PAYMENT' THEN payment_terms(org_id, chain, mint_id,
        amount + fee_deducted, to_address, customer_id, product, whitelisted_address_id, fee_deducted, fee_max) END) STORED,
    return_wallet_id       text GENERATED ALWAYS AS (
        CASE purpose WHEN 'RETURN' THEN coalesce(from_wallet_id, wallet_id) END) STORED,
    to_role                text GENERATED ALWAYS AS (
        CASE purpose WHEN 'SWEEP' THEN 'TREASURY' WHEN 'CLOSE' THEN 'TREASURY' WHEN 'MERGE' THEN 'CHANGE' END) STORED,
    from_role              text GENERATED ALWAYS AS (CASE purpose WHEN 'CLOSE' THEN 'DEPOSIT' END) STORED,
    slot_order_id          text GENERATED ALWAYS AS (
        CASE WHEN status NOT IN ('QUEUED', 'REFUSED', 'WITHDRAWN') THEN coalesce(tx_lead_id, order_id) END) STORED,
    -- Of a payment to a swap provider: when it is not signed any more, and for the signer what it buys.
    pay_by                 timestamptz,
    swap                   jsonb,
    refund                 jsonb,                            -- for the signer: the refund that a payment makes
    batch                  jsonb,                            -- for the signer: the row of a batch that it pays
    -- Keys that other tables refer to.
    CONSTRAINT dispatch_orders_of_org UNIQUE (org_id, order_id),
    CONSTRAINT dispatch_orders_of_wallet UNIQUE (order_id, wallet_id, chain),
    CONSTRAINT dispatch_orders_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_orders_to_wallet FOREIGN KEY (org_id, to_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_orders_from_wallet FOREIGN KEY (org_id, from_wallet_id) REFERENCES wallets (org_id, wallet_id),
    -- An order to one of our wallets goes to the address of that wallet.
    CONSTRAINT dispatch_orders_to_own FOREIGN KEY (to_wallet_id, to_address) REFERENCES wallets (wallet_id, address),
    -- A close empties a deposit address, and what an internal order moves stays with the treasury
    -- or, of UTXOs, with a change wallet.
    CONSTRAINT dispatch_orders_to_role FOREIGN KEY (to_wallet_id, to_role) REFERENCES wallets (wallet_id, role),
    CONSTRAINT dispatch_orders_from_role FOREIGN KEY (from_wallet_id, from_role) REFERENCES wallets (wallet_id, role),
    -- A payment is what was accepted, and a return is what was decided. Without these, one row of a
    -- role that writes orders would be a payment. Every other order has a key to internal_orders.
    CONSTRAINT dispatch_orders_as_accepted FOREIGN KEY (order_id, payment_terms)
        REFERENCES withdrawals (withdrawal_id, terms) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT dispatch_orders_as_decided
        FOREIGN KEY (order_id, org_id, chain, return_wallet_id, mint_id, amount, to_address)
        REFERENCES deposit_resolutions (resolution_id, org_id, chain, wallet_id, mint_id, sent, to_address)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT dispatch_orders_mint FOREIGN KEY (mint_id, chain, contract) REFERENCES mints (mint_id, chain, contract),
    CONSTRAINT dispatch_orders_proof FOREIGN KEY (chain, proof_id) REFERENCES finality_proofs (chain, proof_id),
    CONSTRAINT dispatch_orders_tx_lead FOREIGN KEY (tx_lead_id, wallet_id, chain)
        REFERENCES dispatch_orders (order_id, wallet_id, chain),
    CONSTRAINT dispatch_orders_purpose_known CHECK (
        CASE purpose
            WHEN 'PAYMENT' THEN to_wallet_id IS NULL
            WHEN 'RETURN' THEN to_wallet_id IS NULL
            WHEN 'SWAP' THEN to_wallet_id IS NULL AND from_wallet_id IS NULL
            WHEN 'SWEEP' THEN to_wallet_id IS NOT NULL
            WHEN 'GAS' THEN to_wallet_id IS NOT NULL AND contract = ''
            WHEN 'PLACE' THEN to_wallet_id IS NULL AND contract = '' AND customer_id IS NULL
            WHEN 'MERGE' THEN to_wallet_id IS NOT NULL AND contract = '' AND customer_id IS NULL AND is_utxo(chain)
            WHEN 'CLOSE' THEN to_wallet_id IS NOT NULL AND from_wallet_id IS NOT NULL AND contract <> ''
                AND customer_id IS NULL
            WHEN 'TOKEN_ACCOUNT' THEN to_wallet_id IS NOT NULL AND from_wallet_id IS NULL AND contract <> ''
                AND customer_id IS NULL
            WHEN 'ALLOWANCE' THEN to_wallet_id IS NULL AND from_wallet_id IS NULL AND contract <> '' AND customer_id IS NULL
            WHEN 'REVOCATION' THEN to_wallet_id IS NULL AND from_wallet_id IS NULL AND contract <> '' AND customer_id IS NULL
            ELSE false
        END),
    -- A consolidation pays nothing: its UTXOs come back to a change wallet. The rent of a token account is part of the fee.
    -- An allowance moves nothing.
    CONSTRAINT dispatch_orders_positive CHECK (
        CASE WHEN purpose IN ('MERGE', 'TOKEN_ACCOUNT', 'ALLOWANCE', 'REVOCATION') THEN amount = 0 ELSE amount > 0 END),
    CONSTRAINT dispatch_orders_status_known CHECK (status IN
        ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'PAID', 'FAILED', 'REFUSED', 'WITHDRAWN', 'STUCK')),
    -- What an order waits for, in the queue or after an end whose proof is dead, and which of these
    -- waits have a missing amount: always, or if it is known.
    CONSTRAINT dispatch_orders_waiting_known CHECK (
        CASE
            WHEN waiting_for IN ('FUNDS', 'GAS') AND status = 'QUEUED'
                THEN missing_amount IS NOT NULL AND missing_amount > 0
            WHEN waiting_for IN ('COINS', 'MERGE')
                THEN status = 'QUEUED' AND (missing_amount IS NULL OR missing_amount > 0)
            WHEN missing_amount IS NOT NULL THEN false
            WHEN waiting_for IS NULL THEN true
            WHEN waiting_for IN ('SLOT', 'QUARANTINE', 'PAUSED', 'SIGNER', 'CLOCK', 'FEE_LIMIT', 'ERROR')
                THEN status = 'QUEUED'
            WHEN waiting_for IN ('FREEZE', 'SIMULATION', 'CHAIN') THEN status IN ('QUEUED', 'PAID', 'FAILED')
            WHEN waiting_for IN ('GAS', 'BLOCK', 'EARLIER', 'PERSON') THEN status IN ('PAID', 'FAILED')
            ELSE false
        END),
    -- An order ends on a proven block, or before anything was signed.
    CONSTRAINT dispatch_orders_end_proven CHECK (
        status NOT IN ('PAID', 'FAILED')
        OR (proof_id IS NOT NULL AND tx_hash IS NOT NULL AND fee IS NOT NULL)),
    CONSTRAINT dispatch_orders_funds_before_end CHECK (
        NOT funds_pending OR status IN ('SLOTTED', 'SIGNED', 'BROADCAST')),
    CONSTRAINT dispatch_orders_fee_deducted_bounded CHECK (
        fee_deducted = 0 OR fee_deducted > 0 AND purpose = 'PAYMENT' AND contract = ''),
    CONSTRAINT dispatch_orders_fee_max_positive CHECK (fee_max > 0 AND purpose = 'PAYMENT' OR fee_max IS NULL),
    CONSTRAINT dispatch_orders_product CHECK (
        product IS NULL AND whitelisted_address_id IS NULL
        OR purpose = 'PAYMENT' AND customer_id IS NULL AND num_nonnulls(product, whitelisted_address_id, refund, batch) = 2
            AND product IS NOT NULL
        -- An organization's swap: its payment to the provider goes to no entry of the whitelist.
        OR purpose = 'SWAP' AND customer_id IS NULL AND product IS NOT NULL AND whitelisted_address_id IS NULL),
    -- Where the chain lets the treasury pay the fee, the slot is the treasury's
    -- (decision 0049).
    CONSTRAINT dispatch_orders_from_other CHECK (
        from_wallet_id IS NULL OR from_wallet_id <> wallet_id AND purpose IN ('SWEEP', 'CLOSE', 'RETURN')),
    -- The lead comes first by its id, so that a transaction that locks the orders in that order
    -- locks the lead first.
    CONSTRAINT dispatch_orders_tx_lead_before CHECK (tx_lead_id COLLATE "C" < order_id COLLATE "C"),
    CONSTRAINT dispatch_orders_tx_lead_slotted CHECK (
        tx_lead_id IS NULL
        OR purpose IN ('PAYMENT', 'SWEEP', 'CLOSE') AND status NOT IN ('QUEUED', 'REFUSED', 'WITHDRAWN')),
    CONSTRAINT dispatch_orders_costs_of_payment CHECK (
        (rent = 0 OR rent > 0 AND purpose = 'PAYMENT')
        AND (NOT payee_failed OR purpose = 'PAYMENT' AND status = 'FAILED' OR purpose = 'PLACE' AND status = 'REFUSED')),
    -- A payment, a return and a payment to a swap provider have a cause of their own. Every other order is internal: it has a
    -- trigger, and by it a row in internal_orders.
    CONSTRAINT dispatch_orders_trigger_known CHECK (
        (trigger IS NULL) = (purpose IN ('PAYMENT', 'RETURN', 'SWAP'))
        AND (trigger IS NULL OR trigger IN ('VALUE', 'DEMAND', 'PERSON', 'RESTORED'))),
    -- A failed order pauses the next one, so its end has a time.
    CONSTRAINT dispatch_orders_end_dated CHECK (
        trigger IS NULL OR (ended_at IS NOT NULL) = (status IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN'))),
    CONSTRAINT dispatch_orders_swap CHECK (
        num_nonnulls(pay_by, swap) = CASE purpose WHEN 'SWAP' THEN 2 ELSE 0 END),
    CONSTRAINT dispatch_orders_refund_of_checkout CHECK (
        refund IS NULL OR purpose = 'PAYMENT' AND product IS NOT DISTINCT FROM 'CHECKOUT'),
    CONSTRAINT dispatch_orders_batch_of_product CHECK (
        batch IS NULL OR purpose = 'PAYMENT' AND product IS NOT DISTINCT FROM 'BATCH_PAYOUT')
);
CREATE INDEX dispatch_orders_due ON dispatch_orders (chain, wallet_id, created_at)
    WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST');
-- What is in transactions that are not final.
CREATE INDEX dispatch_orders_on_the_way ON dispatch_orders (org_id)
    WHERE status IN ('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK');
-- What waits for a reason. Few orders do, and a new one has no entry.
CREATE INDEX dispatch_orders_waiting ON dispatch_orders (waiting_for, org_id, mint_id)
    WHERE status = 'QUEUED' AND waiting_for IS NOT NULL;
CREATE INDEX dispatch_orders_proven ON dispatch_orders (chain, proof_id) WHERE status IN ('PAID', 'FAILED');
CREATE INDEX dispatch_orders_tx_members ON dispatch_orders (tx_lead_id) WHERE tx_lead_id IS NOT NULL;
-- One open sweep and one open close of a mint at an address, one top-up of an address and one
-- consolidation of a treasury at a time. A restore may find that several had been sent since the
-- backup.
CREATE UNIQUE INDEX sweeps_one_open ON dispatch_orders (coalesce(from_wallet_id, wallet_id), mint_id)
    WHERE purpose = 'SWEEP' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
CREATE UNIQUE INDEX closes_one_open ON dispatch_orders (from_wallet_id, mint_id)
    WHERE purpose = 'CLOSE' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
CREATE UNIQUE INDEX gas_top_ups_one_open ON dispatch_orders (to_wallet_id, chain)
    WHERE purpose = 'GAS' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
CREATE UNIQUE INDEX consolidations_one_open ON dispatch_orders (wallet_id, chain)
    WHERE purpose = 'MERGE' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
-- Of an address, one nonce account is created at most. After a refusal it may be tried again,
-- unless another account has the address.
CREATE UNIQUE INDEX nonce_accounts_address_once ON dispatch_orders (chain, to_address)
    WHERE purpose = 'PLACE' AND (status NOT IN ('REFUSED', 'WITHDRAWN') OR payee_failed);
-- One open creation of a token account at a time, as of a sweep.
CREATE UNIQUE INDEX token_accounts_one_open ON dispatch_orders (to_wallet_id, mint_id)
    WHERE purpose = 'TOKEN_ACCOUNT' AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN') AND trigger <> 'RESTORED';
CREATE INDEX token_accounts_of_wallet ON dispatch_orders (to_wallet_id, mint_id, created_at) WHERE purpose = 'TOKEN_ACCOUNT';
-- One open change of an allowance at a time.
CREATE UNIQUE INDEX payout_allowances_one_open ON dispatch_orders (wallet_id, chain, mint_id)
    WHERE purpose IN ('ALLOWANCE', 'REVOCATION') AND status NOT IN ('PAID', 'FAILED', 'REFUSED', 'WITHDRAWN')
        AND trigger <> 'RESTORED';
CREATE INDEX payout_allowances_of_wallet ON dispatch_orders (wallet_id, chain, mint_id, created_at)
    WHERE purpose IN ('ALLOWANCE', 'REVOCATION');
CREATE INDEX sweeps_of_wallet ON dispatch_orders (coalesce(from_wallet_id, wallet_id), mint_id, created_at)
    WHERE purpose = 'SWEEP';
CREATE INDEX sweeps_not_paid ON dispatch_orders (org_id, mint_id) WHERE purpose = 'SWEEP' AND status <> 'PAID';
CREATE INDEX closes_of_wallet ON dispatch_orders (from_wallet_id, mint_id, created_at) WHERE purpose = 'CLOSE';
CREATE INDEX gas_top_ups_of_wallet ON dispatch_orders (to_wallet_id, chain) WHERE purpose = 'GAS';
CREATE INDEX consolidations_of_wallet ON dispatch_orders (wallet_id, chain, ended_at) WHERE purpose = 'MERGE';
-- The payments to swap providers that are late.
CREATE INDEX dispatch_orders_pay_by ON dispatch_orders (pay_by)
    WHERE purpose = 'SWAP' AND status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST');
CREATE INDEX nonce_accounts_of_wallet ON dispatch_orders (wallet_id, chain) WHERE purpose = 'PLACE';
-- Which change wallet a consolidation without a slot is to have.
CREATE INDEX dispatch_orders_consolidations ON dispatch_orders (to_wallet_id) WHERE purpose = 'MERGE';
SELECT coffer_tenant('dispatch_orders',
    'SELECT, INSERT, UPDATE (status, waiting_for, missing_amount, last_error, attempt_after, ended_at, authority)',
    'SELECT, INSERT, UPDATE');

-- An order stays the payment that it is, and never gives its slot back.
CREATE FUNCTION dispatch_orders_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.order_id, NEW.org_id, NEW.purpose, NEW.chain, NEW.wallet_id, NEW.to_wallet_id, NEW.to_address, NEW.mint_id, NEW.contract, NEW.amount)
       IS DISTINCT FROM
       (OLD.order_id, OLD.org_id, OLD.purpose, OLD.chain, OLD.wallet_id, OLD.to_wallet_id, OLD.to_address, OLD.mint_id, OLD.contract, OLD.amount) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    -- A refused payment may be submitted again. A refused internal order has released what it
    -- reserved, and another one is planned.
    IF (OLD.status IN ('PAID', 'FAILED', 'WITHDRAWN') OR OLD.status = 'REFUSED' AND OLD.trigger IS NOT NULL)
       AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'order % is %', OLD.order_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_terminal';
    END IF;
    -- An order with a slot only goes forward: it never gives the slot back.
    IF OLD.status IN ('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') AND NEW.status IN ('QUEUED', 'REFUSED', 'WITHDRAWN') THEN
        RAISE EXCEPTION 'order % has a slot', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_slot_kept';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_keep();

-- The end of an order is written once. Only if the proof of its end is dead may the same
-- transaction get another live proof, and another fee (decision 0024).
CREATE FUNCTION dispatch_orders_end_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.customer_id IS DISTINCT FROM OLD.customer_id OR NEW.key_hash <> OLD.key_hash THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    IF OLD.status IN ('PAID', 'FAILED') AND (NEW.tx_hash, NEW.fee, NEW.proof_id) IS DISTINCT FROM (OLD.tx_hash, OLD.fee, OLD.proof_id)
       AND (NEW.tx_hash IS DISTINCT FROM OLD.tx_hash
            OR NEW.proof_id IS NOT DISTINCT FROM OLD.proof_id
            OR EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id)
            OR NOT EXISTS (SELECT FROM finality_live p WHERE p.chain = NEW.chain AND p.proof_id = NEW.proof_id)) THEN
        RAISE EXCEPTION 'order % is %', OLD.order_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_end_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_end_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_end_keep();

CREATE FUNCTION dispatch_orders_terms_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.fee_deducted, NEW.fee_max, NEW.product, NEW.whitelisted_address_id, NEW.from_wallet_id, NEW.trigger)
       IS DISTINCT FROM (OLD.fee_deducted, OLD.fee_max, OLD.product, OLD.whitelisted_address_id, OLD.from_wallet_id, OLD.trigger) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_terms_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_terms_keep();

-- An order ends on a live proof.
CREATE FUNCTION dispatch_orders_proof_live() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    forked bigint;
BEGIN
    IF NEW.status NOT IN ('PAID', 'FAILED')
       OR TG_OP = 'UPDATE' AND (NEW.status, NEW.proof_id) IS NOT DISTINCT FROM (OLD.status, OLD.proof_id) THEN
        RETURN NEW;
    END IF;
    SELECT c.forked_above INTO forked FROM scan_cursors c WHERE c.chain = NEW.chain FOR KEY SHARE;
    IF NEW.proof_id IS NOT NULL
       AND NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = NEW.proof_id AND (forked IS NULL OR p.height <= forked)) THEN
        RAISE EXCEPTION 'the proof of order % is dead', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_proof_live';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_proof_live BEFORE INSERT OR UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_proof_live();

-- A treasury pays for the token account of an address that checkouts share, and of no other one.
CREATE FUNCTION dispatch_orders_token_account() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT w.purpose = 'CHECKOUT_SHARED' FROM wallets w WHERE w.wallet_id = NEW.to_wallet_id) IS NOT TRUE
       OR (SELECT w.purpose = 'TREASURY' FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % creates the token account of another address, or no treasury pays for it', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_token_account';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_token_account BEFORE INSERT ON dispatch_orders
    FOR EACH ROW WHEN (NEW.purpose = 'TOKEN_ACCOUNT') EXECUTE FUNCTION dispatch_orders_token_account();

-- What the payout contract may move is a treasury's.
CREATE FUNCTION dispatch_orders_allowance() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT w.purpose = 'TREASURY' FROM wallets w WHERE w.wallet_id = NEW.wallet_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'order % allows the payout contract something of a wallet that is no treasury', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_allowance';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_allowance BEFORE INSERT ON dispatch_orders
    FOR EACH ROW WHEN (NEW.purpose IN ('ALLOWANCE', 'REVOCATION')) EXECUTE FUNCTION dispatch_orders_allowance();

-- A payment, a return or a payment to a swap provider is where its cause is.
CREATE FUNCTION dispatch_orders_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    now     text;
    in_step boolean;
BEGIN
    SELECT status INTO now FROM dispatch_orders WHERE order_id = NEW.order_id;
    IF NEW.purpose = 'PAYMENT' THEN
        SELECT withdrawal_in_step(status, end_status, now) INTO in_step FROM withdrawals WHERE withdrawal_id = NEW.order_id;
    ELSIF NEW.purpose = 'SWAP' THEN
        SELECT swap_in_step(CASE WHEN amount_out IS NULL THEN status ELSE 'COMPLETED' END, end_reason, now) INTO in_step
        FROM swaps WHERE swap_id = NEW.order_id;
    ELSE
        SELECT resolution_in_step(decision, status, now) INTO in_step FROM deposit_resolutions WHERE resolution_id = NEW.order_id;
    END IF;
    IF in_step IS NOT TRUE THEN
        RAISE EXCEPTION 'order % is %, and its cause is somewhere else', NEW.order_id, now
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_in_step';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_in_step_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose IN ('PAYMENT', 'RETURN')) EXECUTE FUNCTION dispatch_orders_follow();
CREATE CONSTRAINT TRIGGER dispatch_orders_in_step_move AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.purpose IN ('PAYMENT', 'RETURN') AND OLD.status <> NEW.status)
    EXECUTE FUNCTION dispatch_orders_follow();

-- The end of an order was charged, and the fee that its withdrawal kept back was posted.
CREATE FUNCTION dispatch_orders_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    o      record;
    posted text[] := ARRAY(SELECT cause_kind FROM ledger_transfers
        WHERE cause_kind IN ('NETWORK_FEE', 'WITHDRAWAL_FEE', 'FEE_PREPAID') AND cause_id = NEW.order_id);
    broken text;
BEGIN
    SELECT status, fee, status = 'PAID' AND fee_deducted > 0 AS kept, product INTO o FROM dispatch_orders WHERE order_id = NEW.order_id;
    broken := CASE
        WHEN o.fee > 0 AND cardinality(array_positions(posted, 'NETWORK_FEE')) <> 2 THEN 'dispatch_orders_charged'
        WHEN o.kept AND 'WITHDRAWAL_FEE' <> ALL (posted) THEN 'dispatch_orders_fee_kept'
        WHEN o.kept AND o.product IS NOT NULL AND 'FEE_PREPAID' <> ALL (posted) THEN 'dispatch_orders_fee_prepaid'
        END;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'order % is %, and the books lack its fee', NEW.order_id, o.status
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_booked_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status IN ('PAID', 'FAILED')) EXECUTE FUNCTION dispatch_orders_book();
CREATE CONSTRAINT TRIGGER dispatch_orders_booked_move AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NEW.status IN ('PAID', 'FAILED'))
    EXECUTE FUNCTION dispatch_orders_book();

-- Several payments in one transaction (decision 0056): one order leads, and has the slot
-- and the attempts. The others name it, from the moment they get the slot.
CREATE FUNCTION dispatch_orders_tx_lead_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.tx_lead_id IS DISTINCT FROM OLD.tx_lead_id AND (OLD.tx_lead_id IS NOT NULL OR (OLD.status, NEW.status) <> ('QUEUED', 'SLOTTED')) THEN
        RAISE EXCEPTION 'order % has its slot as it got it', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_tx_lead_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_orders_tx_lead_keep BEFORE UPDATE ON dispatch_orders
    FOR EACH ROW EXECUTE FUNCTION dispatch_orders_tx_lead_keep();

-- All orders of a slot are where their lead is, with its transaction. One transaction pays all
-- or none, so they end together, except for stuck ones that a person decides one by one.
CREATE FUNCTION dispatch_orders_tx_whole() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lead  text := coalesce(NEW.tx_lead_id, NEW.order_id);
    slots integer;
    now   record;
BEGIN
    SELECT orders INTO slots FROM dispatch_slots WHERE order_id = lead;
    IF coalesce(slots, 1) = 1 AND NEW.tx_lead_id IS NULL THEN
        RETURN NULL; -- alone, or without a slot
    END IF;
    SELECT count(*) FILTER (WHERE o.tx_lead_id IS NULL) AS leads, count(*) AS orders, count(DISTINCT o.status) AS statuses,
        count(DISTINCT (o.tx_hash, o.org_id)) AS transactions, count(DISTINCT o.purpose) AS purposes,
        bool_and(o.status IN ('PAID', 'FAILED', 'STUCK')) AS final
    INTO now FROM dispatch_orders o WHERE o.order_id = lead OR o.tx_lead_id = lead;
    IF (now.orders, now.leads, now.purposes, now.transactions) IS DISTINCT FROM (slots::bigint, 1::bigint, 1::bigint, 1::bigint)
        OR now.statuses <> 1 AND (NOT now.final OR TG_OP = 'INSERT' OR OLD.status <> 'STUCK') THEN
        RAISE EXCEPTION 'the % orders in the slot of % do not stand together', now.orders, lead
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_tx_whole';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_orders_tx_whole AFTER UPDATE ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status OR OLD.tx_hash IS DISTINCT FROM NEW.tx_hash)
    EXECUTE FUNCTION dispatch_orders_tx_whole();
CREATE CONSTRAINT TRIGGER dispatch_orders_tx_whole_begin AFTER INSERT ON dispatch_orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.tx_lead_id IS NOT NULL) EXECUTE FUNCTION dispatch_orders_tx_whole();
-- Payments share a slot on Bitcoin as they come. Elsewhere they are rows of one batch, under one hash, and of one mint: one
-- payee can make all payments of a slot fail, and their organization bears the fee. Neither changes afterwards. Rule BP-53.
CREATE FUNCTION dispatch_orders_tx_of_batch() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (l.purpose, l.mint_id, l.batch - 'row') = (NEW.purpose, NEW.mint_id, NEW.batch - 'row')
        FROM dispatch_orders l WHERE l.order_id = NEW.tx_lead_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'payment % is no row of the batch and the mint that the slot of % pays', NEW.order_id, NEW.tx_lead_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_tx_of_batch';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER dispatch_orders_tx_of_batch AFTER UPDATE ON dispatch_orders
    FOR EACH ROW WHEN (OLD.tx_lead_id IS NULL AND NEW.tx_lead_id IS NOT NULL AND NEW.purpose = 'PAYMENT' AND NOT is_utxo(NEW.chain))
    EXECUTE FUNCTION dispatch_orders_tx_of_batch();
CREATE TRIGGER dispatch_orders_tx_of_batch_begin AFTER INSERT ON dispatch_orders
    FOR EACH ROW WHEN (NEW.tx_lead_id IS NOT NULL AND NEW.purpose = 'PAYMENT' AND NOT is_utxo(NEW.chain))
    EXECUTE FUNCTION dispatch_orders_tx_of_batch();
CREATE TRIGGER dispatch_orders_as_inserted BEFORE UPDATE OF created_at ON dispatch_orders
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER dispatch_orders_swap_as_inserted BEFORE UPDATE OF pay_by, swap ON dispatch_orders
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What an order cost and when, and by what authority it is paid, is written when its status
-- changes. Only its fee and proof change after its end, when another block proves it.
CREATE TRIGGER dispatch_orders_written_once BEFORE UPDATE ON dispatch_orders FOR EACH ROW
    WHEN (NEW.status = OLD.status AND (
        (NEW.tx_hash, NEW.rent, NEW.payee_failed, NEW.broadcast_at, NEW.ended_at, NEW.authority)
            IS DISTINCT FROM (OLD.tx_hash, OLD.rent, OLD.payee_failed, OLD.broadcast_at, OLD.ended_at, OLD.authority)
        OR OLD.status NOT IN ('PAID', 'FAILED') AND (NEW.fee, NEW.proof_id) IS DISTINCT FROM (OLD.fee, OLD.proof_id)
        OR OLD.status IN ('PAID', 'FAILED') AND (NEW.missing_amount, NEW.funds_pending) IS DISTINCT FROM (OLD.missing_amount, OLD.funds_pending)
        OR OLD.status = 'WITHDRAWN'
            AND (NEW.waiting_for, NEW.missing_amount, NEW.last_error, NEW.attempt_after, NEW.funds_pending)
                IS DISTINCT FROM (OLD.waiting_for, OLD.missing_amount, OLD.last_error, OLD.attempt_after, OLD.funds_pending)))
    EXECUTE FUNCTION refuse_row_change();

-- The ended orders whose proof is dead. They stay ended, and are in question until the same
-- transaction is proven again. A break kills no proof above the tip that was scanned by
-- then, so the view reads no more blocks than were taken back.
CREATE VIEW dispatch_reorged WITH (security_invoker = true) AS
SELECT DISTINCT o.order_id, o.org_id, o.chain, o.wallet_id, o.to_wallet_id, o.status, o.waiting_for, o.from_wallet_id
FROM finality_breaks b
JOIN finality_proofs p ON p.chain = b.chain AND p.fork < b.fork
    AND p.height > b.ancestor_height AND p.height <= b.tip_height
JOIN dispatch_orders o ON o.chain = p.chain AND o.proof_id = p.proof_id
WHERE o.status IN ('PAID', 'FAILED');
SELECT coffer_shared('dispatch_reorged', 'SELECT', 'SELECT');

-- A wallet's account on a chain: the next number that no slot has.
CREATE TABLE dispatch_accounts (
    wallet_id  text NOT NULL,
    chain      text NOT NULL,
    org_id     text NOT NULL,
    next_nonce bigint NOT NULL,
    last_nonce bigint GENERATED ALWAYS AS (nullif(next_nonce, 0) - 1) STORED,
    CONSTRAINT dispatch_accounts_pkey PRIMARY KEY (wallet_id, chain),
    CONSTRAINT dispatch_accounts_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_accounts_not_negative CHECK (next_nonce >= 0)
);
SELECT coffer_tenant('dispatch_accounts', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION dispatch_accounts_forward() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.org_id) IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.org_id) OR NEW.next_nonce < OLD.next_nonce THEN
        RAISE EXCEPTION 'the nonces of wallet % only grow', OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_accounts_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_accounts_forward BEFORE UPDATE ON dispatch_accounts
    FOR EACH ROW EXECUTE FUNCTION dispatch_accounts_forward();

-- The 32 bytes that a base58 text stands for; NULL: it stands for none.
CREATE FUNCTION base58_32(t text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    n numeric := 0;
    digit integer;
    b bytea := decode(repeat('00', 32), 'hex');
BEGIN
    IF length(t) NOT BETWEEN 32 AND 44 THEN
        RETURN NULL;
    END IF;
    FOR i IN 1..length(t) LOOP
        digit := strpos('123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz', substr(t, i, 1)) - 1;
        IF digit < 0 THEN
            RETURN NULL;
        END IF;
        n := n * 58 + digit;
    END LOOP;
    FOR i IN REVERSE 31..0 LOOP
        b := set_byte(b, i, mod(n, 256)::integer);
        n := div(n, 256);
    END LOOP;
    RETURN CASE WHEN n = 0 THEN b END; -- a remainder means that it has more than 32 bytes
END $$;

CREATE TABLE dispatch_slots (
    wallet_id     text NOT NULL,
    chain         text NOT NULL,
    nonce         bigint NOT NULL,
    org_id        text NOT NULL,
    order_id      text NOT NULL,
    gas_reserved  numeric(78,0) NOT NULL,     -- of the wallet's gas, until the slot ends
    created_at    timestamptz NOT NULL,
    -- Since when the slot's nonce is used, finally, by no transaction of ours. A service that
    -- restarts over and over would otherwise never report it.
    missing_since timestamptz,
    -- What the chain calls the slot: '' for an account nonce, a nonce account and its value on
    -- Solana (decision 0047), the UTXOs and the change address on Bitcoin
    -- (decision 0053).
    slot_key      text NOT NULL DEFAULT '',
    orders        integer NOT NULL DEFAULT 1, -- how many orders the slot is for
    -- The hash of the block from which the nonce value was derived: of several transactions in
    -- the slot, Solana mines one only if the value is that of a nonce account and no block's
    -- hash (decision 0070). '' for other chains, and until the proof is looked up.
    proof         text NOT NULL DEFAULT '',
    -- Rule WD-7.
    CONSTRAINT dispatch_slots_pkey PRIMARY KEY (wallet_id, chain, nonce),
    CONSTRAINT dispatch_slots_order_once UNIQUE (order_id),
    CONSTRAINT dispatch_slots_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_slots_wallet
        FOREIGN KEY (order_id, wallet_id, chain) REFERENCES dispatch_orders (order_id, wallet_id, chain),
    CONSTRAINT dispatch_slots_nonce_not_negative CHECK (nonce >= 0),
    CONSTRAINT dispatch_slots_orders CHECK (orders >= 1),
    CONSTRAINT dispatch_slots_proven CHECK (proof = '' OR (chain = 'SOLANA'
        AND sha256('DURABLE_NONCE'::bytea || base58_32(proof)) = base58_32(split_part(slot_key, ' ', 2))) IS TRUE)
);
-- A position of a chain is given out once. The index has a hash, because the text of many UTXOs
-- is longer than an index entry may be.
CREATE UNIQUE INDEX dispatch_slots_key_once ON dispatch_slots (chain, md5(slot_key)) WHERE slot_key <> '';
-- The change address is the last word of a slot key, and belongs to one slot. Rule COIN-9.
CREATE UNIQUE INDEX dispatch_slots_change_once ON dispatch_slots (chain, split_part(slot_key, ' ', -1))
    WHERE is_utxo(chain);
-- Which orders used or created a nonce account last: the blocks in which they ended prove its
-- present value.
CREATE INDEX dispatch_slots_at ON dispatch_slots (chain, split_part(slot_key, ' ', 1), nonce DESC) WHERE chain = 'SOLANA';
SELECT coffer_tenant('dispatch_slots', 'SELECT', 'SELECT, INSERT, UPDATE');

-- The counter is right behind the last slot: a number without a slot would hold up every
-- later one.
ALTER TABLE dispatch_accounts ADD CONSTRAINT dispatch_accounts_slotted FOREIGN KEY (wallet_id, chain, last_nonce)
    REFERENCES dispatch_slots DEFERRABLE INITIALLY DEFERRED;
-- An order that may be signed has a slot, in a group that of its lead. dispatch_slots_follow and
-- dispatch_orders_keep see to it that no other order has one.
ALTER TABLE dispatch_orders ADD CONSTRAINT dispatch_orders_slotted FOREIGN KEY (slot_order_id)
    REFERENCES dispatch_slots (order_id) DEFERRABLE INITIALLY DEFERRED;

-- A slot stays with its order and gives back no gas before it ends. A proof is written once.
CREATE FUNCTION dispatch_slots_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.wallet_id, NEW.chain, NEW.nonce, NEW.slot_key, NEW.org_id, NEW.order_id)
       IS DISTINCT FROM (OLD.wallet_id, OLD.chain, OLD.nonce, OLD.slot_key, OLD.org_id, OLD.order_id)
       OR OLD.proof <> '' AND NEW.proof <> OLD.proof
       OR NEW.gas_reserved < OLD.gas_reserved THEN
        RAISE EXCEPTION 'slot % of wallet % is written once', OLD.nonce, OLD.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_slots_keep BEFORE UPDATE ON dispatch_slots FOR EACH ROW EXECUTE FUNCTION dispatch_slots_keep();

-- The number of orders is known when the slot is written: no order joins later.
CREATE FUNCTION dispatch_slots_orders_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.orders <> OLD.orders THEN
        RAISE EXCEPTION 'slot % of wallet % is for % orders', OLD.nonce, OLD.wallet_id, OLD.orders
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_orders_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_slots_orders_keep BEFORE UPDATE ON dispatch_slots
    FOR EACH ROW EXECUTE FUNCTION dispatch_slots_orders_keep();

-- A slot is of an order that may be signed, and the counter has passed it. All of a consolidation
-- comes back to the change wallet that the order names.
CREATE FUNCTION dispatch_slots_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT status FROM dispatch_orders WHERE order_id = NEW.order_id) IN ('QUEUED', 'REFUSED', 'WITHDRAWN')
        OR NOT EXISTS (SELECT FROM dispatch_accounts WHERE wallet_id = NEW.wallet_id AND chain = NEW.chain AND next_nonce > NEW.nonce) THEN
        RAISE EXCEPTION 'slot % of wallet % is of an order without one, or not counted', NEW.nonce, NEW.wallet_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_counted';
    END IF;
    IF EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.order_id AND purpose = 'MERGE' AND to_address <> split_part(NEW.slot_key, ' ', -1)) THEN
        RAISE EXCEPTION 'consolidation % does not come back to the wallet that it names', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_consolidated';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dispatch_slots_counted AFTER INSERT ON dispatch_slots DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION dispatch_slots_follow();

-- On a UTXO chain the change comes back to a change wallet of the organization.
CREATE FUNCTION dispatch_slots_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM wallets w WHERE w.family = 'BITCOIN' AND w.address = split_part(NEW.slot_key, ' ', -1)
        AND w.org_id = NEW.org_id AND w.purpose = 'CHANGE') THEN
        RAISE EXCEPTION 'the change of order % comes back to no wallet of its organization for change', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_slots_change';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_slots_change BEFORE INSERT ON dispatch_slots
    FOR EACH ROW WHEN (is_utxo(NEW.chain)) EXECUTE FUNCTION dispatch_slots_change();
CREATE TRIGGER dispatch_slots_as_inserted BEFORE UPDATE OF created_at ON dispatch_slots
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The transactions of a slot: the first one and its replacements.
CREATE TABLE dispatch_attempts (
    order_id         text NOT NULL,
    version          integer NOT NULL,
    org_id           text NOT NULL,
    act              text NOT NULL,
    gas_limit        bigint NOT NULL,
    tip_cap          numeric(78,0) NOT NULL,
    fee_cap          numeric(78,0) NOT NULL,
    payload          bytea NOT NULL, -- the complete unsigned transaction
    raw              bytea,          -- the signed one
    tx_hash          text,
    created_at       timestamptz NOT NULL,
    signed_at        timestamptz,
    sent_at          timestamptz,    -- when a provider was first asked to take it
    last_sent_at     timestamptz,
    last_answer      text,
    replace_reason   text,           -- why it replaces another; NULL: the first of a slot, or restored
    -- What it may cost in addition to gas: the whole fee, where a fee has no price per unit.
    non_gas_fee      numeric(78,0) NOT NULL DEFAULT 0,
    last_valid_block bigint,         -- the last block that it can be in; NULL: it does not expire
    CONSTRAINT dispatch_attempts_pkey PRIMARY KEY (order_id, version),
    CONSTRAINT dispatch_attempts_hash_unique UNIQUE (tx_hash),
    CONSTRAINT dispatch_attempts_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_attempts_act_known CHECK (act IN ('PAY', 'CANCEL')),
    CONSTRAINT dispatch_attempts_signed_whole CHECK (num_nonnulls(raw, tx_hash, signed_at) IN (0, 3)),
    -- A transaction is stored before it is sent.
    CONSTRAINT dispatch_attempts_stored_before_sent CHECK (sent_at IS NULL OR raw IS NOT NULL),
    CONSTRAINT dispatch_attempts_replace_reason_known CHECK (replace_reason IN ('FEE', 'OPERATOR', 'REFUSAL', 'LAPSE')),
    CONSTRAINT dispatch_attempts_last_valid_block_counted CHECK (last_valid_block > 0)
);
SELECT coffer_tenant('dispatch_attempts', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION dispatch_attempts_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.payload IS DISTINCT FROM OLD.payload OR NEW.act <> OLD.act
       OR (OLD.raw IS NOT NULL AND (NEW.raw, NEW.tx_hash) IS DISTINCT FROM (OLD.raw, OLD.tx_hash)) THEN
        RAISE EXCEPTION 'attempt % of order % is written once', OLD.version, OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_attempts_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_attempts_keep BEFORE UPDATE ON dispatch_attempts
    FOR EACH ROW EXECUTE FUNCTION dispatch_attempts_keep();
CREATE TRIGGER dispatch_attempts_as_inserted
    BEFORE UPDATE OF order_id, version, org_id, gas_limit, fee_cap, tip_cap, replace_reason, non_gas_fee, created_at ON dispatch_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER dispatch_attempts_written_once BEFORE UPDATE ON dispatch_attempts FOR EACH ROW
    WHEN (OLD.signed_at IS NOT NULL AND NEW.signed_at IS DISTINCT FROM OLD.signed_at
        OR OLD.sent_at IS NOT NULL AND NEW.sent_at IS DISTINCT FROM OLD.sent_at
        OR OLD.last_valid_block IS NOT NULL AND NEW.last_valid_block IS DISTINCT FROM OLD.last_valid_block)
    EXECUTE FUNCTION refuse_row_change();

-- A recalled order without a slot, and the entry of the signer's journal that voids it
-- (decision 0075). The row is written with WITHDRAWN, and the entry once the signer has
-- answered.
CREATE TABLE dispatch_voids (
    order_id    text PRIMARY KEY,
    org_id      text NOT NULL,
    asked_at    timestamptz NOT NULL,
    journal_id  text,
    journal_seq bigint,
    voided_at   timestamptz,
    CONSTRAINT dispatch_voids_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_voids_entry FOREIGN KEY (journal_id, journal_seq) REFERENCES signer_journal (journal_id, seq),
    CONSTRAINT dispatch_voids_whole CHECK (num_nonnulls(journal_id, journal_seq, voided_at) IN (0, 3))
);
CREATE INDEX dispatch_voids_open ON dispatch_voids (asked_at) WHERE journal_seq IS NULL;
SELECT coffer_tenant('dispatch_voids', 'SELECT, INSERT', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION dispatch_voids_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    entry jsonb;
BEGIN
    IF TG_OP = 'UPDATE' AND ((NEW.order_id, NEW.org_id, NEW.asked_at) IS DISTINCT FROM (OLD.order_id, OLD.org_id, OLD.asked_at) OR OLD.journal_seq IS NOT NULL) THEN
        RAISE EXCEPTION 'the void of order % is what it was', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_fixed';
    END IF;
    IF NOT EXISTS (SELECT FROM dispatch_orders WHERE order_id = NEW.order_id AND status = 'WITHDRAWN' AND purpose IN ('PAYMENT', 'RETURN', 'SWAP')) THEN
        RAISE EXCEPTION 'order % was not taken back', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_withdrawn';
    END IF;
    IF NEW.journal_seq IS NOT NULL THEN
        SELECT convert_from(body, 'UTF8')::jsonb INTO entry FROM signer_journal WHERE journal_id = NEW.journal_id AND seq = NEW.journal_seq;
        IF (entry->>'kind', entry->'void'->>'id', entry->'void'->>'orgId') IS DISTINCT FROM ('VOID', NEW.order_id, NEW.org_id) THEN
            RAISE EXCEPTION 'entry % of the journal does not void order %', NEW.journal_seq, NEW.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_voids_by_entry';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dispatch_voids_keep BEFORE INSERT OR UPDATE ON dispatch_voids
    FOR EACH ROW EXECUTE FUNCTION dispatch_voids_keep();
CREATE TRIGGER dispatch_voids_stay BEFORE DELETE OR TRUNCATE ON dispatch_voids
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
