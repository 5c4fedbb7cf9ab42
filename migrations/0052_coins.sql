-- Why: on Bitcoin an account is a heap of coins, each spent whole and once. What is ours
-- of them, and which payment has which, stands here: decision 0055.
-- +goose Up

-- The chains on which it is so, as chain.Name.Pooled says.
-- +goose StatementBegin
CREATE FUNCTION pooled(chain text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN chain = 'BITCOIN';
-- +goose StatementEnd

-- What is left of the coins that an order spends comes back to an address of its own.
ALTER TABLE wallets
    DROP CONSTRAINT wallets_purpose_known,
    ADD CONSTRAINT wallets_purpose_known CHECK (
        CASE purpose
            WHEN 'CUSTOMER_DEPOSIT' THEN subject <> ''
            WHEN 'ORGANIZATION_DEPOSIT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'TREASURY' THEN subject = ''
            WHEN 'CHANGE' THEN subject <> ''
            ELSE false
        END) NOT VALID;

-- An output of a transaction that became final, of ours.
--   HELD      it may not be chosen: its deposit waits, is flagged or is dust, or the order
--             whose rest it is has not ended
--   FREE      any payment of the organization may have it
--   RESERVED  it is in the slot of an order, for ever: nothing but proof takes it from there
--   SPENT     by that order's transaction, finally
--   GONE      finality broke, and its block is not on the chain
CREATE TABLE coins (
    chain      text NOT NULL,
    outpoint   text NOT NULL,   -- the transaction and the number of the output
    org_id     text NOT NULL,
    wallet_id  text NOT NULL,   -- whose key spends it
    mint_id    integer NOT NULL REFERENCES mints,
    amount     numeric(78,0) NOT NULL,
    status     text NOT NULL,
    deposit_id text,            -- the deposit that it is
    change_of  text,            -- or the order whose rest it is
    order_id   text,            -- that has it; of a held one, the return that it is kept for
    spent_by   text,            -- the transaction
    proof_id   bigint,          -- of its block; none of one that only the signer's journal knows yet
    height     bigint,
    created_at timestamptz NOT NULL,
    CONSTRAINT coins_pkey PRIMARY KEY (chain, outpoint),
    CONSTRAINT coins_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT coins_deposit FOREIGN KEY (deposit_id) REFERENCES deposits (deposit_id),
    CONSTRAINT coins_change FOREIGN KEY (org_id, change_of) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT coins_order FOREIGN KEY (org_id, order_id) REFERENCES dispatch_orders (org_id, order_id),
    CONSTRAINT coins_proof FOREIGN KEY (chain, proof_id) REFERENCES finality_proofs (chain, proof_id),
    CONSTRAINT coins_pooled CHECK (pooled(chain)),
    CONSTRAINT coins_positive CHECK (amount > 0),
    CONSTRAINT coins_status_known CHECK (status IN ('HELD', 'FREE', 'RESERVED', 'SPENT', 'GONE')),
    CONSTRAINT coins_one_origin CHECK (num_nonnulls(deposit_id, change_of) = CASE WHEN proof_id IS NULL THEN 0 ELSE 1 END),
    CONSTRAINT coins_proven CHECK ((proof_id IS NULL) = (height IS NULL) AND (proof_id IS NOT NULL OR status IN ('RESERVED', 'SPENT'))),
    CONSTRAINT coins_of_one_order CHECK (CASE status WHEN 'FREE' THEN order_id IS NULL WHEN 'RESERVED' THEN order_id IS NOT NULL
        WHEN 'SPENT' THEN order_id IS NOT NULL ELSE true END),
    CONSTRAINT coins_spent_by CHECK ((status = 'SPENT') = (spent_by IS NOT NULL))
);
CREATE INDEX coins_free ON coins (org_id, chain, mint_id, amount DESC, outpoint) WHERE status = 'FREE';
CREATE INDEX coins_of_order ON coins (order_id) WHERE order_id IS NOT NULL;
CREATE INDEX coins_of_change ON coins (change_of) WHERE change_of IS NOT NULL;
CREATE INDEX coins_of_deposit ON coins (deposit_id) WHERE deposit_id IS NOT NULL;
CREATE INDEX coins_of_wallet ON coins (wallet_id);
CREATE INDEX coins_above ON coins (chain, height);
SELECT coffer_tenant('coins', 'SELECT', 'SELECT, INSERT, UPDATE');

-- A coin is the output that it is, of whoever it is, and goes from state to state as the
-- program's table says, each for a reason that is written down elsewhere.
-- +goose StatementBegin
CREATE FUNCTION coins_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    o record;
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.chain, NEW.outpoint, NEW.org_id, NEW.wallet_id, NEW.mint_id, NEW.amount)
       IS DISTINCT FROM (OLD.chain, OLD.outpoint, OLD.org_id, OLD.wallet_id, OLD.mint_id, OLD.amount) THEN
        RAISE EXCEPTION 'coin % cannot become another', OLD.outpoint
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_fixed';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
        ('HELD', 'FREE'), ('HELD', 'RESERVED'), ('FREE', 'RESERVED'), ('RESERVED', 'SPENT'),
        ('HELD', 'GONE'), ('FREE', 'GONE'), ('RESERVED', 'GONE'), ('GONE', 'HELD'), ('GONE', 'FREE'), ('GONE', 'RESERVED')) THEN
        RAISE EXCEPTION 'coin % is %', OLD.outpoint, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_moves';
    END IF;
    -- Whoever has it keeps it until it is spent or its block is gone; nobody gets it from another.
    IF TG_OP = 'UPDATE' AND OLD.status IN ('RESERVED', 'SPENT') AND NEW.order_id IS DISTINCT FROM OLD.order_id THEN
        RAISE EXCEPTION 'coin % is order %''s', OLD.outpoint, OLD.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_kept';
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.status = 'SPENT' AND NEW.spent_by <> OLD.spent_by THEN
        RAISE EXCEPTION 'coin % is spent by %', OLD.outpoint, OLD.spent_by
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_spent_once';
    END IF;
    -- It is the very movement that its deposit is, or came back from the order's own transaction.
    IF NEW.deposit_id IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.deposit_id IS DISTINCT FROM OLD.deposit_id) AND NOT EXISTS (
        SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id
            AND (d.chain, d.tx_hash || ':' || d.position, d.org_id, d.wallet_id, d.mint_id, d.amount)
                = (NEW.chain, NEW.outpoint, NEW.org_id, NEW.wallet_id, NEW.mint_id, NEW.amount)) THEN
        RAISE EXCEPTION 'coin % is not deposit %', NEW.outpoint, NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_as_deposited';
    END IF;
    IF NEW.change_of IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.change_of IS DISTINCT FROM OLD.change_of) AND NOT EXISTS (
        SELECT FROM wallets w JOIN dispatch_attempts a ON a.order_id = w.subject
        WHERE w.wallet_id = NEW.wallet_id AND w.purpose = 'CHANGE' AND w.subject = NEW.change_of AND a.tx_hash = split_part(NEW.outpoint, ':', 1)) THEN
        RAISE EXCEPTION 'coin % is not the rest of order %', NEW.outpoint, NEW.change_of
            USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_as_returned';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status = OLD.status THEN
        RETURN NEW;
    END IF;
    IF NEW.order_id IS NOT NULL THEN
        SELECT d.status, d.tx_hash, d.funds_pending, s.lease INTO o
        FROM dispatch_orders d LEFT JOIN dispatch_slots s USING (order_id) WHERE d.order_id = NEW.order_id;
    END IF;
    CASE NEW.status
    WHEN 'FREE' THEN
        IF NOT EXISTS (SELECT FROM deposits d WHERE d.deposit_id = NEW.deposit_id AND d.status = 'CREDITED')
           AND NOT EXISTS (SELECT FROM dispatch_orders c WHERE c.order_id = NEW.change_of AND c.status IN ('PAID', 'FAILED')) THEN
            RAISE EXCEPTION 'coin % is nobody''s yet', NEW.outpoint
                USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_free_when_counted';
        END IF;
    WHEN 'RESERVED' THEN
        -- What is held leaves by the return that it is kept for and by nothing else; what the
        -- journal says was signed for was let go before the backup knew.
        IF (TG_OP = 'INSERT' OR OLD.status = 'HELD' AND OLD.order_id IS DISTINCT FROM NEW.order_id) AND NOT o.funds_pending
           OR coalesce(strpos(o.lease, NEW.outpoint || ':'), 0) = 0 THEN
            RAISE EXCEPTION 'coin % is not in the slot of order %, or held', NEW.outpoint, NEW.order_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_reserved_by_slot';
        END IF;
    WHEN 'SPENT' THEN
        IF (o.status IN ('PAID', 'FAILED') AND o.tx_hash = NEW.spent_by) IS NOT TRUE THEN
            RAISE EXCEPTION 'coin % is not spent, by all that is proven', NEW.outpoint
                USING ERRCODE = 'check_violation', CONSTRAINT = 'coins_spent_when_proven';
        END IF;
    ELSE NULL;
    END CASE;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER coins_keep BEFORE INSERT OR UPDATE ON coins FOR EACH ROW EXECUTE FUNCTION coins_keep();
CREATE TRIGGER coins_stay BEFORE DELETE OR TRUNCATE ON coins FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
