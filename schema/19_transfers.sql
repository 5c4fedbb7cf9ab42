-- Transfers: an organization charges a customer, pays one, or moves money between its products.
--
-- A transfer touches no chain, so it has no states: the row exists together with its posting.
-- It is written once and never changes.

-- Transfers are written by the thousand (decision 0022), so the table has no foreign keys:
-- transfers_parties checks all rows of a statement. It has few indexes for lists.
CREATE TABLE transfers (
    transfer_id     text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    request_digest  bytea NOT NULL,
    mint_id         integer NOT NULL,
    amount          numeric(78,0) NOT NULL,
    from_customer   text COLLATE "C",
    from_product    text,
    to_customer     text COLLATE "C",
    to_product      text,
    reference       text,
    metadata        jsonb NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL,
    -- Idempotency keys of calls that move money never expire.
    CONSTRAINT transfers_key_unique UNIQUE (org_id, idempotency_key),
    CONSTRAINT transfers_positive CHECK (
        amount > 0 AND amount < 115792089237316195423570985008687907853269984665640564039457584007913129639936),
    CONSTRAINT transfers_one_from CHECK (num_nonnulls(from_customer, from_product) = 1),
    CONSTRAINT transfers_one_to CHECK (num_nonnulls(to_customer, to_product) = 1),
    CONSTRAINT transfers_two_accounts CHECK ((from_customer, from_product) IS DISTINCT FROM (to_customer, to_product)),
    CONSTRAINT transfers_from_product_known CHECK (from_product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')),
    CONSTRAINT transfers_to_product_known CHECK (to_product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT'))
);
CREATE INDEX transfers_listed ON transfers (org_id, created_at, transfer_id);
CREATE INDEX transfers_of_payer ON transfers (org_id, from_customer, created_at, transfer_id)
    WHERE from_customer IS NOT NULL;
CREATE INDEX transfers_of_payee ON transfers (org_id, to_customer, created_at, transfer_id)
    WHERE to_customer IS NOT NULL;
CREATE INDEX transfers_of_mint ON transfers (org_id, mint_id, created_at, transfer_id);
CREATE INDEX transfers_of_paying_product ON transfers (org_id, from_product, created_at, transfer_id)
    WHERE from_product IS NOT NULL;
CREATE INDEX transfers_of_paid_product ON transfers (org_id, to_product, created_at, transfer_id)
    WHERE to_product IS NOT NULL;
-- Most transfers have no reference.
CREATE INDEX transfers_of_reference ON transfers (org_id, reference, created_at, transfer_id)
    WHERE reference IS NOT NULL;
SELECT coffer_tenant('transfers', 'SELECT, INSERT', 'SELECT');
CREATE TRIGGER transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transfers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The parties, the mint and the organization exist. A customer that exists implies its
-- organization.
CREATE FUNCTION transfers_refer() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    lost text;
BEGIN
    SELECT concat_ws(' or ', t.from_customer, t.to_customer, 'mint ' || t.mint_id, t.org_id) INTO lost FROM added t
    WHERE (t.from_customer IS NOT NULL
            AND (SELECT c.created_at FROM public.customers c WHERE c.org_id = t.org_id AND c.customer_id = t.from_customer) IS NULL)
        OR (t.to_customer IS NOT NULL
            AND (SELECT c.created_at FROM public.customers c WHERE c.org_id = t.org_id AND c.customer_id = t.to_customer) IS NULL)
        OR (t.from_customer IS NULL AND t.to_customer IS NULL
            AND (SELECT o.org_id FROM public.organizations o WHERE o.org_id = t.org_id) IS NULL)
        OR (SELECT m.mint_id FROM public.mints m WHERE m.mint_id = t.mint_id) IS NULL
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'there is no %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'transfers_parties';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER transfers_parties AFTER INSERT ON transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION transfers_refer();

-- A transfer was posted. Rule TR-13.
CREATE FUNCTION transfers_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'TRANSFER' AND cause_id = NEW.transfer_id AND leg = 0) THEN
        RAISE EXCEPTION 'transfer % is made and was not posted', NEW.transfer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfers_posted';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER transfers_posted AFTER INSERT ON transfers DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION transfers_follow();

-- Refuses a group of transfers that was sent without a look-up, where something is unusual: a freeze
-- that one of its payers could be under, a debt, or a mint whose row is another than the service
-- remembers. The group is then looked up and decided. The guard decides about no transfer, and what it
-- does not ask for is refused by the key and by the books.
CREATE FUNCTION transfers_guard(org text, customers text[], products text[], mint_ids integer[], fingerprints text[])
    RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    reason text;
BEGIN
    reason := CASE
        WHEN EXISTS (SELECT FROM freezes f WHERE f.lifted_at IS NULL AND (f.scope IN ('ALL', 'CHAIN')
            OR f.scope = 'ORGANIZATION' AND f.org_id = org
            OR f.scope = 'CUSTOMER' AND f.org_id = org AND f.customer_id = ANY (customers))) THEN 'a freeze'
        WHEN EXISTS (SELECT FROM withdrawals w WHERE w.org_id = org AND w.customer_id = ANY (customers) AND w.owed > 0)
            THEN 'a debt of a customer'
        WHEN products <> '{}' AND EXISTS (SELECT FROM withdrawals w WHERE w.org_id = org AND w.product = ANY (products) AND w.owed > 0)
            THEN 'a debt of a product'
        WHEN (SELECT count(*) FROM unnest(mint_ids, fingerprints) AS k (mint_id, fingerprint)
            WHERE (SELECT md5(m::text) FROM mints m WHERE m.mint_id = k.mint_id) = k.fingerprint) <> cardinality(mint_ids)
            THEN 'another mint'
        END;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'the transfers need a look-up: %', reason
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfers_usual';
    END IF;
END $$;
