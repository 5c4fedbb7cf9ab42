-- Why: what goes out. A withdrawal is the customer's request; an order is what
-- dispatch has to put on a chain; a slot is the one place that an order takes,
-- for ever; an attempt is one complete transaction in that slot. A sweep is an
-- order that moves what arrived to the treasury.
-- +goose Up

CREATE TABLE withdrawals (
    withdrawal_id     text PRIMARY KEY,
    org_id            text NOT NULL REFERENCES organizations,
    customer_id       text COLLATE "C" NOT NULL,
    mint_id           integer NOT NULL REFERENCES mints,
    chain             text NOT NULL,
    amount            numeric(78,0) NOT NULL,
    to_address        text NOT NULL,
    idempotency_key   text COLLATE "C",
    request_digest    bytea NOT NULL,
    reference         text,
    metadata          jsonb NOT NULL DEFAULT '{}',
    status            text NOT NULL,
    chain_status      text NOT NULL DEFAULT 'NONE',
    requires_approval boolean NOT NULL,
    approval_reasons  text[] NOT NULL,
    decision          jsonb NOT NULL,           -- every gate with its inputs
    usd_value         numeric(38,18),
    network_fee       numeric(78,0),
    tx_hash           text,
    replaced_tx_hashes text[] NOT NULL DEFAULT '{}',
    failure_reason    text,
    rejected_reason   text,
    created_at        timestamptz NOT NULL,
    approved_at       timestamptz,
    broadcast_at      timestamptz,
    completed_at      timestamptz,
    -- What a person sees of the destination: beginning and end. An equality on a column of
    -- its own, because row level security keeps an index on a function unused.
    to_shown          text NOT NULL GENERATED ALWAYS AS (address_shown(to_address)) STORED,
    CONSTRAINT withdrawals_of_org UNIQUE (org_id, withdrawal_id),
    -- Keys of calls that move money never expire.
    CONSTRAINT withdrawals_idempotency_key_unique UNIQUE (org_id, idempotency_key),
    CONSTRAINT withdrawals_customer FOREIGN KEY (org_id, customer_id) REFERENCES customers (org_id, customer_id),
    CONSTRAINT withdrawals_positive CHECK (amount > 0),
    CONSTRAINT withdrawals_status_known CHECK (status IN
        ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST', 'COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')),
    CONSTRAINT withdrawals_chain_status_known CHECK (chain_status IN
        ('NONE', 'PENDING', 'INCLUDED', 'FINALIZED', 'REVERTED', 'DROPPED', 'REPLACED')),
    CONSTRAINT withdrawals_broadcast_has_hash CHECK (status NOT IN ('BROADCAST', 'COMPLETED') OR tx_hash IS NOT NULL),
    CONSTRAINT withdrawals_held_has_reason CHECK (status <> 'AWAITING_APPROVAL' OR cardinality(approval_reasons) > 0)
);
CREATE INDEX withdrawals_listed ON withdrawals (org_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_of_customer ON withdrawals (org_id, customer_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_shown ON withdrawals (org_id, to_shown);
CREATE INDEX withdrawals_of_reference ON withdrawals (org_id, reference) WHERE reference IS NOT NULL;
CREATE INDEX withdrawals_open ON withdrawals (org_id, customer_id, mint_id)
    WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST');
SELECT coffer_tenant('withdrawals', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');
-- +goose StatementBegin
CREATE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.withdrawal_id, NEW.org_id, NEW.customer_id, NEW.mint_id, NEW.chain, NEW.amount, NEW.to_address, NEW.idempotency_key, NEW.request_digest)
       IS DISTINCT FROM
       (OLD.withdrawal_id, OLD.org_id, OLD.customer_id, OLD.mint_id, OLD.chain, OLD.amount, OLD.to_address, OLD.idempotency_key, OLD.request_digest) THEN
        RAISE EXCEPTION 'withdrawal % cannot become another payment', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_payment_fixed';
    END IF;
    IF OLD.status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'withdrawal % is %', OLD.withdrawal_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_terminal';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER withdrawals_keep BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_keep();

-- An order has the id of its cause (the withdrawal, the sweep, the top-up): a
-- cause has one order, an order one slot.
CREATE TABLE dispatch_orders (
    order_id      text PRIMARY KEY,
    org_id        text NOT NULL REFERENCES organizations,
    purpose       text NOT NULL,
    chain         text NOT NULL,
    wallet_id     text NOT NULL,               -- pays
    to_wallet_id  text,                        -- receives, when it is ours
    to_address    text NOT NULL,
    mint_id       integer NOT NULL REFERENCES mints,
    contract      text NOT NULL,
    amount        numeric(78,0) NOT NULL,
    customer_id   text COLLATE "C",
    key_hash      text NOT NULL DEFAULT '',    -- hex SHA-256 of the caller's idempotency key
    status        text NOT NULL,
    waiting_for   text,                        -- FUNDS, GAS, FREEZE, SIMULATION, CHAIN, SIGNER: why it is still queued
    short_by      numeric(78,0),               -- how much is missing, for FUNDS and GAS
    last_error    text,
    attempt_after timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    broadcast_at  timestamptz,
    ended_at      timestamptz,
    tx_hash       text,                        -- the attempt that ended it
    fee           numeric(78,0),
    proof_id      bigint,
    CONSTRAINT dispatch_orders_of_org UNIQUE (org_id, order_id),
    CONSTRAINT dispatch_orders_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_orders_to_wallet FOREIGN KEY (org_id, to_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_orders_proof FOREIGN KEY (chain, proof_id) REFERENCES finality_proofs (chain, proof_id),
    CONSTRAINT dispatch_orders_positive CHECK (amount > 0),
    CONSTRAINT dispatch_orders_purpose_known CHECK (
        CASE purpose WHEN 'PAYMENT' THEN to_wallet_id IS NULL
                     WHEN 'SWEEP' THEN to_wallet_id IS NOT NULL
                     WHEN 'GAS' THEN to_wallet_id IS NOT NULL AND contract = ''
                     ELSE false END),
    CONSTRAINT dispatch_orders_status_known CHECK (status IN
        ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'PAID', 'FAILED', 'REFUSED', 'WITHDRAWN', 'STUCK')),
    -- An order ends on a proven block, or before anything was signed.
    CONSTRAINT dispatch_orders_end_proven CHECK (status NOT IN ('PAID', 'FAILED') OR (proof_id IS NOT NULL AND tx_hash IS NOT NULL AND fee IS NOT NULL))
);
CREATE INDEX dispatch_orders_due ON dispatch_orders (chain, wallet_id, created_at) WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST');
SELECT coffer_tenant('dispatch_orders', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');
-- +goose StatementBegin
CREATE FUNCTION dispatch_orders_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.order_id, NEW.org_id, NEW.purpose, NEW.chain, NEW.wallet_id, NEW.to_wallet_id, NEW.to_address, NEW.mint_id, NEW.contract, NEW.amount)
       IS DISTINCT FROM
       (OLD.order_id, OLD.org_id, OLD.purpose, OLD.chain, OLD.wallet_id, OLD.to_wallet_id, OLD.to_address, OLD.mint_id, OLD.contract, OLD.amount) THEN
        RAISE EXCEPTION 'order % cannot become another payment', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_payment_fixed';
    END IF;
    IF OLD.status IN ('PAID', 'FAILED', 'WITHDRAWN') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'order % is %', OLD.order_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_terminal';
    END IF;
    -- Once it has a slot it can only go forward: the slot is never given back.
    IF OLD.status IN ('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') AND NEW.status IN ('QUEUED', 'REFUSED', 'WITHDRAWN') THEN
        RAISE EXCEPTION 'order % has a slot', OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_slot_kept';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dispatch_orders_keep BEFORE UPDATE ON dispatch_orders FOR EACH ROW EXECUTE FUNCTION dispatch_orders_keep();

-- A wallet's account on a chain: the next nonce that nothing of ours has.
CREATE TABLE dispatch_accounts (
    wallet_id  text NOT NULL,
    chain      text NOT NULL,
    org_id     text NOT NULL,
    next_nonce bigint NOT NULL,
    CONSTRAINT dispatch_accounts_pkey PRIMARY KEY (wallet_id, chain),
    CONSTRAINT dispatch_accounts_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT dispatch_accounts_not_negative CHECK (next_nonce >= 0)
);
SELECT coffer_tenant('dispatch_accounts', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE TABLE dispatch_slots (
    wallet_id    text NOT NULL,
    chain        text NOT NULL,
    nonce        bigint NOT NULL,
    org_id       text NOT NULL,
    order_id     text NOT NULL,
    gas_reserved numeric(78,0) NOT NULL,   -- of the wallet's gas, until the slot ends
    created_at   timestamptz NOT NULL,
    CONSTRAINT dispatch_slots_pkey PRIMARY KEY (wallet_id, chain, nonce),
    CONSTRAINT dispatch_slots_order_once UNIQUE (order_id),
    CONSTRAINT dispatch_slots_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_slots_nonce_not_negative CHECK (nonce >= 0)
);
SELECT coffer_tenant('dispatch_slots', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE TABLE dispatch_attempts (
    order_id     text NOT NULL,
    version      integer NOT NULL,
    org_id       text NOT NULL,
    act          text NOT NULL,
    gas_limit    bigint NOT NULL,
    tip_cap      numeric(78,0) NOT NULL,
    fee_cap      numeric(78,0) NOT NULL,
    payload      bytea NOT NULL,           -- the complete unsigned transaction
    raw          bytea,                    -- the signed one
    tx_hash      text,
    created_at   timestamptz NOT NULL,
    signed_at    timestamptz,
    sent_at      timestamptz,              -- first time a provider was asked to take it
    last_sent_at timestamptz,
    last_answer  text,
    CONSTRAINT dispatch_attempts_pkey PRIMARY KEY (order_id, version),
    CONSTRAINT dispatch_attempts_hash_unique UNIQUE (tx_hash),
    CONSTRAINT dispatch_attempts_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT dispatch_attempts_act_known CHECK (act IN ('PAY', 'CANCEL')),
    CONSTRAINT dispatch_attempts_signed_whole CHECK (num_nonnulls(raw, tx_hash, signed_at) IN (0, 3)),
    -- Stored before sent.
    CONSTRAINT dispatch_attempts_stored_before_sent CHECK (sent_at IS NULL OR raw IS NOT NULL)
);
SELECT coffer_tenant('dispatch_attempts', 'SELECT', 'SELECT, INSERT, UPDATE');
-- +goose StatementBegin
CREATE FUNCTION dispatch_attempts_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.payload IS DISTINCT FROM OLD.payload OR NEW.act <> OLD.act
       OR (OLD.raw IS NOT NULL AND (NEW.raw, NEW.tx_hash) IS DISTINCT FROM (OLD.raw, OLD.tx_hash)) THEN
        RAISE EXCEPTION 'attempt % of order % is written once', OLD.version, OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_attempts_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dispatch_attempts_keep BEFORE UPDATE ON dispatch_attempts FOR EACH ROW EXECUTE FUNCTION dispatch_attempts_keep();

CREATE TABLE sweeps (
    sweep_id     text PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organizations,
    chain        text NOT NULL,
    wallet_id    text NOT NULL,
    to_wallet_id text NOT NULL,
    mint_id      integer NOT NULL REFERENCES mints,
    amount       numeric(78,0) NOT NULL,
    trigger      text NOT NULL,
    status       text NOT NULL,
    tx_hash      text,
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT sweeps_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT sweeps_to_wallet FOREIGN KEY (org_id, to_wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT sweeps_positive CHECK (amount > 0),
    CONSTRAINT sweeps_trigger_known CHECK (trigger IN ('VALUE', 'DEMAND', 'PERSON')),
    CONSTRAINT sweeps_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED'))
);
-- One sweep of a mint from an address at a time.
CREATE UNIQUE INDEX sweeps_one_open ON sweeps (wallet_id, mint_id) WHERE status = 'OPEN';
CREATE INDEX sweeps_of_wallet ON sweeps (wallet_id, mint_id, created_at);
SELECT coffer_tenant('sweeps', 'SELECT', 'SELECT, INSERT, UPDATE');

-- Native coin of the operator's, sent from the treasury to an address that has
-- to pay for its own sweep. One at a time an address.
CREATE TABLE gas_top_ups (
    top_up_id  text PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    chain      text NOT NULL,
    wallet_id  text NOT NULL,
    amount     numeric(78,0) NOT NULL,
    status     text NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    CONSTRAINT gas_top_ups_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT gas_top_ups_positive CHECK (amount > 0),
    CONSTRAINT gas_top_ups_status_known CHECK (status IN ('OPEN', 'DONE', 'FAILED'))
);
CREATE UNIQUE INDEX gas_top_ups_one_open ON gas_top_ups (wallet_id, chain) WHERE status = 'OPEN';
SELECT coffer_tenant('gas_top_ups', 'SELECT', 'SELECT, INSERT, UPDATE');
