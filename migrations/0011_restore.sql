-- Why: a database that was restored from an older backup is brought up to the
-- signer's journal. What the journal remembers of a payment is less than a row
-- of ours has, and the restored books may not have the money that paid for it
-- yet: decision 0015 says how that is kept apart until it is settled.
-- +goose Up

-- What a key is remembered by where only its hash is left. Declared immutable,
-- which it is for the one encoding that the program's databases have.
-- +goose StatementBegin
CREATE FUNCTION key_digest(key text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN encode(sha256(convert_to(key, 'UTF8')), 'hex');
-- +goose StatementEnd

ALTER TABLE withdrawals
    ADD COLUMN restored_at timestamptz,          -- NULL but for rows made from the signer's journal
    ADD COLUMN restored_key_hash text,           -- their key, as far as the journal knows it
    ADD COLUMN owed numeric(78,0) NOT NULL DEFAULT 0, -- of the hold, still to be taken from the customer
    ADD COLUMN takings integer NOT NULL DEFAULT 0,    -- how often something of it was taken
    ADD CONSTRAINT withdrawals_owed_bounded CHECK (owed BETWEEN 0 AND amount),
    ADD CONSTRAINT withdrawals_owed_restored CHECK (owed = 0 OR restored_at IS NOT NULL),
    ADD CONSTRAINT withdrawals_restored_key CHECK (restored_key_hash IS NULL OR (restored_at IS NOT NULL AND idempotency_key IS NULL));
-- One key, one withdrawal, whether the key itself or its hash is known.
ALTER TABLE withdrawals
    ADD COLUMN key_hash text GENERATED ALWAYS AS (coalesce(restored_key_hash, key_digest(idempotency_key))) STORED,
    ADD CONSTRAINT withdrawals_key_hash_unique UNIQUE (org_id, key_hash);
CREATE INDEX withdrawals_owed ON withdrawals (org_id, customer_id, mint_id) WHERE owed > 0;
-- +goose StatementBegin
CREATE FUNCTION withdrawals_restored_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.restored_at, NEW.restored_key_hash) IS DISTINCT FROM (OLD.restored_at, OLD.restored_key_hash) OR NEW.owed > OLD.owed THEN
        RAISE EXCEPTION 'withdrawal %: what was restored is written once, and what is owed only falls', OLD.withdrawal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withdrawals_restored_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER withdrawals_restored_keep BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_restored_keep();

-- The slot of an order that was made from the journal, whose funds the books do
-- not have yet: nothing of its wallet is reserved for it, so it cannot end.
ALTER TABLE dispatch_orders
    ADD COLUMN funds_pending boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT dispatch_orders_funds_before_end CHECK (NOT funds_pending OR status IN ('SLOTTED', 'SIGNED', 'BROADCAST'));

-- Several sweeps of one address may have gone out since the backup.
ALTER TABLE sweeps DROP CONSTRAINT sweeps_trigger_known;
ALTER TABLE sweeps ADD CONSTRAINT sweeps_trigger_known CHECK (trigger IN ('VALUE', 'DEMAND', 'PERSON', 'RESTORED'));
DROP INDEX sweeps_one_open;
CREATE UNIQUE INDEX sweeps_one_open ON sweeps (wallet_id, mint_id) WHERE status = 'OPEN' AND trigger <> 'RESTORED';
ALTER TABLE gas_top_ups ADD COLUMN restored boolean NOT NULL DEFAULT false;
DROP INDEX gas_top_ups_one_open;
CREATE UNIQUE INDEX gas_top_ups_one_open ON gas_top_ups (wallet_id, chain) WHERE status = 'OPEN' AND NOT restored;

-- RESTORED is what restored payments took and the restored books could not
-- take from the customer yet. It comes back to nothing as the deposits are
-- found again; it has no floor, because it is owed to us.
ALTER TABLE ledger_accounts DROP CONSTRAINT ledger_accounts_kind_known;
ALTER TABLE ledger_accounts ADD CONSTRAINT ledger_accounts_kind_known CHECK (
    CASE kind
        WHEN 'CUSTOMER' THEN subject <> ''
        WHEN 'WITHDRAWING' THEN subject <> ''
        WHEN 'RESTORED' THEN subject <> ''
        WHEN 'PRODUCT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
        WHEN 'GAS' THEN subject = ''
        WHEN 'SUSPENSE' THEN subject = ''
        WHEN 'CUSTODY' THEN subject = ''
        WHEN 'FEES_DUE' THEN subject = ''
        WHEN 'FEES_BILLED' THEN subject = ''
        WHEN 'REORG_LOSS' THEN subject = ''
        ELSE false
    END);

-- Numbers that an organization's sequence jumped over, because a database that
-- was lost may have given them to events that nobody here knows.
CREATE TABLE event_gaps (
    org_id     text NOT NULL REFERENCES organizations,
    after      bigint NOT NULL,     -- the last number before the gap
    resumed_at bigint NOT NULL,     -- the counter after it
    created_at timestamptz NOT NULL,
    CONSTRAINT event_gaps_pkey PRIMARY KEY (org_id, resumed_at),
    CONSTRAINT event_gaps_forward CHECK (after >= 0 AND resumed_at > after)
);
SELECT coffer_tenant('event_gaps', 'SELECT', 'SELECT, INSERT');
