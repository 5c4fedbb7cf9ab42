-- Why: finality itself can break: a block that was proven final is on the chain
-- no more. What stood on it is not true any more and was not wrong either, so
-- nothing is edited away: a break says from where on the proofs of earlier forks
-- are dead, and whatever stands on a dead proof is proven again or taken back.
-- Decision 0020 says how.
-- +goose Up

-- Which fork a proof belongs to: how many breaks its chain had seen by then.
ALTER TABLE finality_proofs ADD COLUMN fork integer NOT NULL DEFAULT 0;
ALTER TABLE finality_proofs DROP CONSTRAINT finality_proofs_height_once;
ALTER TABLE finality_proofs ADD CONSTRAINT finality_proofs_height_once UNIQUE (chain, height, fork);

-- Set when the final chain was found to part from the one that was walked: the
-- last block that both have. Until a person decides nothing above it counts.
ALTER TABLE scan_cursors ADD COLUMN parted_above bigint;

-- What a person decided about a chain whose finality broke.
CREATE TABLE finality_breaks (
    break_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain           text NOT NULL,
    fork            integer NOT NULL,  -- of the proofs from here on
    ancestor_height bigint NOT NULL,   -- the last block that both forks have
    ancestor_hash   text NOT NULL,
    tip_height      bigint NOT NULL,   -- the last block that was walked of the fork that is gone
    tip_hash        text NOT NULL,
    settle_height   bigint NOT NULL,   -- what the new fork does not have up to here is gone
    reason          text NOT NULL,
    decided_by      text NOT NULL,
    created_at      timestamptz NOT NULL,
    CONSTRAINT finality_breaks_fork_once UNIQUE (chain, fork),
    CONSTRAINT finality_breaks_forward CHECK (fork >= 1 AND ancestor_height < tip_height AND tip_height <= settle_height)
);
SELECT coffer_shared('finality_breaks', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER finality_breaks_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON finality_breaks
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The proofs that count. Everything that asks whether a block is final asks here.
CREATE VIEW finality_live WITH (security_invoker = true) AS
SELECT p.* FROM finality_proofs p
WHERE NOT EXISTS (
    SELECT FROM finality_breaks b WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height);
SELECT coffer_shared('finality_live', 'SELECT', 'SELECT');

-- Whoever builds on a proof holds the chain's cursor with a lock that the walk
-- itself does not wait for, and a break waits for all of them: a proof that was
-- alive when it was asked is alive at the commit.
-- +goose StatementBegin
CREATE FUNCTION finality_breaks_next() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM scan_cursors c WHERE c.chain = NEW.chain FOR UPDATE;
    IF NEW.fork <> (SELECT coalesce(max(b.fork), 0) + 1 FROM finality_breaks b WHERE b.chain = NEW.chain) THEN
        RAISE EXCEPTION 'fork % of % is not the next one', NEW.fork, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_breaks_next';
    END IF;
    -- The block of the first start has no proof, but the one above it names it.
    IF NOT EXISTS (SELECT FROM finality_live p WHERE p.chain = NEW.chain
                   AND ((p.height, p.hash) = (NEW.ancestor_height, NEW.ancestor_hash)
                        OR (p.height, p.parent) = (NEW.ancestor_height + 1, NEW.ancestor_hash))) THEN
        RAISE EXCEPTION 'block % % of % was not walked', NEW.ancestor_height, NEW.ancestor_hash, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_breaks_ancestor';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION finality_proofs_on_fork() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM scan_cursors c WHERE c.chain = NEW.chain FOR KEY SHARE;
    IF NEW.fork <> (SELECT coalesce(max(b.fork), 0) FROM finality_breaks b WHERE b.chain = NEW.chain) THEN
        RAISE EXCEPTION 'block % of % is not proven on the fork that is walked', NEW.height, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_proofs_on_fork';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER finality_breaks_next BEFORE INSERT ON finality_breaks FOR EACH ROW EXECUTE FUNCTION finality_breaks_next();
CREATE TRIGGER finality_proofs_on_fork BEFORE INSERT ON finality_proofs FOR EACH ROW EXECUTE FUNCTION finality_proofs_on_fork();

-- A deposit that was credited and is not on the chain any more is CREDITED and
-- REORGED until the new fork has shown it again, or has not: then it is REVERSED.
ALTER TABLE deposits
    ADD COLUMN reversed_at timestamptz,
    ADD COLUMN taken_back numeric(78,0),         -- what was taken from whom it was credited to; the rest is lost
    ADD COLUMN claims integer NOT NULL DEFAULT 0, -- how often something of the loss was taken later
    DROP CONSTRAINT deposits_status_known,
    ADD CONSTRAINT deposits_status_known CHECK (status IN
        ('DETECTED', 'CONFIRMING', 'SCREENING', 'CREDITED', 'REVERSED', 'ORPHANED', 'UNSUPPORTED', 'BELOW_MINIMUM')),
    DROP CONSTRAINT deposits_credited_at,
    ADD CONSTRAINT deposits_credited_at CHECK ((status IN ('CREDITED', 'REVERSED')) = (credited_at IS NOT NULL)),
    ADD CONSTRAINT deposits_reversed_whole CHECK (
        (status = 'REVERSED') = (reversed_at IS NOT NULL) AND (status = 'REVERSED') = (taken_back IS NOT NULL)),
    ADD CONSTRAINT deposits_taken_back_bounded CHECK (taken_back BETWEEN 0 AND amount),
    ADD CONSTRAINT deposits_reversed_is_gone CHECK (status <> 'REVERSED' OR chain_status = 'REORGED'),
    DROP CONSTRAINT deposits_final_before_credit,
    ADD CONSTRAINT deposits_final_before_credit CHECK (
        status NOT IN ('SCREENING', 'CREDITED', 'REVERSED', 'BELOW_MINIMUM') OR proof_id IS NOT NULL),
    DROP CONSTRAINT deposits_final_has_proof,
    -- What was credited keeps the proof it was credited on, dead as it is.
    ADD CONSTRAINT deposits_final_has_proof CHECK (
        (proof_id IS NOT NULL) = (chain_status = 'FINALIZED' OR chain_status = 'REORGED' AND status IN ('CREDITED', 'REVERSED')));
-- A movement on a chain is one row that stands on the chain. Beside it may lie
-- rows that the chain has taken away, a credited one that waits for its reversal
-- among them: it can come back only where nothing else took its place.
DROP INDEX deposits_movement_once;
CREATE UNIQUE INDEX deposits_movement_once ON deposits (chain, tx_hash, kind, position) WHERE chain_status <> 'REORGED';
CREATE INDEX deposits_in_question ON deposits (chain, deposit_id) WHERE status = 'CREDITED' AND chain_status = 'REORGED';
CREATE INDEX deposits_proven_above ON deposits (chain, height) WHERE proof_id IS NOT NULL;
CREATE INDEX deposits_lost ON deposits (org_id, customer_id) WHERE status = 'REVERSED';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION deposits_keep() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    gone boolean; -- its proof was alive once and is dead
BEGIN
    IF (NEW.deposit_id, NEW.org_id, NEW.wallet_id, NEW.customer_id, NEW.chain, NEW.contract, NEW.address, NEW.tx_hash, NEW.kind, NEW.position)
       IS DISTINCT FROM
       (OLD.deposit_id, OLD.org_id, OLD.wallet_id, OLD.customer_id, OLD.chain, OLD.contract, OLD.address, OLD.tx_hash, OLD.kind, OLD.position) THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    gone := OLD.proof_id IS NOT NULL AND NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id);
    IF OLD.proof_id IS NOT NULL AND (NEW.amount <> OLD.amount
       OR NOT gone AND (NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    IF OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status
       AND NOT (gone AND (OLD.status, NEW.status) IN (('CREDITED', 'REVERSED'), ('BELOW_MINIMUM', 'ORPHANED'))) THEN
        RAISE EXCEPTION 'deposit % is %', OLD.deposit_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.credited_at IS NOT NULL AND NEW.credited_at <> OLD.credited_at THEN
        RAISE EXCEPTION 'deposit % was credited once', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.status = 'REVERSED' AND ((NEW.proof_id, NEW.height, NEW.block_hash, NEW.reversed_at) IS DISTINCT FROM
            (OLD.proof_id, OLD.height, OLD.block_hash, OLD.reversed_at)
       OR NEW.taken_back < OLD.taken_back OR NEW.claims < OLD.claims) THEN
        RAISE EXCEPTION 'deposit % was reversed', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    -- Not before the new fork has been walked so far that it would be there.
    IF NEW.status = 'REVERSED' AND OLD.status <> 'REVERSED' AND EXISTS (
        SELECT FROM finality_breaks b
        JOIN finality_proofs p ON p.proof_id = OLD.proof_id AND b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height
        LEFT JOIN scan_cursors c ON c.chain = b.chain AND c.height >= b.settle_height AND c.parted_above IS NULL
        WHERE c.chain IS NULL) THEN
        RAISE EXCEPTION 'deposit % may still be found again', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_reversed_in_time';
    END IF;
    RETURN NEW;
END $$;

-- What counts stands on a proof that is alive, whatever the program thinks.
CREATE FUNCTION deposits_proof_live() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    parted bigint;
BEGIN
    IF NEW.chain_status <> 'FINALIZED' OR NEW.proof_id IS NULL THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.status, NEW.chain_status, NEW.proof_id) IS NOT DISTINCT FROM (OLD.status, OLD.chain_status, OLD.proof_id) THEN
        RETURN NEW;
    END IF;
    SELECT c.parted_above INTO parted FROM scan_cursors c WHERE c.chain = NEW.chain FOR KEY SHARE;
    IF NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = NEW.proof_id) OR NEW.height > parted THEN
        RAISE EXCEPTION 'the proof of deposit % is dead', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_proof_live';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION dispatch_orders_proof_live() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    parted bigint;
BEGIN
    IF NEW.status NOT IN ('PAID', 'FAILED')
       OR TG_OP = 'UPDATE' AND (NEW.status, NEW.proof_id) IS NOT DISTINCT FROM (OLD.status, OLD.proof_id) THEN
        RETURN NEW;
    END IF;
    SELECT c.parted_above INTO parted FROM scan_cursors c WHERE c.chain = NEW.chain FOR KEY SHARE;
    IF NEW.proof_id IS NOT NULL
       AND NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = NEW.proof_id AND (parted IS NULL OR p.height <= parted)) THEN
        RAISE EXCEPTION 'the proof of order % is dead', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dispatch_orders_proof_live';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_proof_live BEFORE INSERT OR UPDATE ON deposits FOR EACH ROW EXECUTE FUNCTION deposits_proof_live();
CREATE TRIGGER dispatch_orders_proof_live BEFORE INSERT OR UPDATE ON dispatch_orders FOR EACH ROW EXECUTE FUNCTION dispatch_orders_proof_live();

-- What the chain took back may have been promised, moved or spent meanwhile. The
-- row then says how much is missing: it is what is promised and gone beyond what
-- arrived, and the database keeps it, in both directions. It grows only by what
-- the chain took back, which has columns of its own, and never by a promise.
ALTER TABLE address_funds
    ADD COLUMN reversed numeric(78,0) NOT NULL DEFAULT 0,     -- of what was credited, taken back by the chain
    ADD COLUMN gas_reversed numeric(78,0) NOT NULL DEFAULT 0, -- likewise of the gas
    ADD COLUMN short numeric(78,0) NOT NULL DEFAULT 0,
    ADD COLUMN gas_short numeric(78,0) NOT NULL DEFAULT 0,
    DROP CONSTRAINT address_funds_not_negative,
    ADD CONSTRAINT address_funds_not_negative CHECK (least(credited, held, reserved, swept, gas_reserved, dust, short, gas_short, reversed, gas_reversed) >= 0),
    DROP CONSTRAINT address_funds_covered,
    ADD CONSTRAINT address_funds_covered CHECK (reserved + swept + held <= credited + short),
    DROP CONSTRAINT address_funds_gas_covered,
    ADD CONSTRAINT address_funds_gas_covered CHECK (gas_reserved <= gas + gas_short);
-- +goose StatementBegin
CREATE FUNCTION address_funds_short() RETURNS trigger LANGUAGE plpgsql AS $$
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
-- +goose StatementEnd
CREATE TRIGGER address_funds_short BEFORE INSERT OR UPDATE ON address_funds FOR EACH ROW EXECUTE FUNCTION address_funds_short();

-- What is missing where, for people.
CREATE VIEW reorg_shortfalls WITH (security_invoker = true) AS
SELECT f.org_id, m.chain, f.wallet_id, f.mint_id, s.part, s.open
FROM address_funds f JOIN mints m USING (mint_id)
CROSS JOIN LATERAL (VALUES ('CREDITED', f.short), ('GAS', f.gas_short)) AS s (part, open)
WHERE s.open > 0;
SELECT coffer_shared('reorg_shortfalls', 'SELECT', 'SELECT');

-- Why a broken finality is not settled yet, or NULL when nothing is open. Who
-- keeps something else that stands on proofs adds it here.
-- +goose StatementBegin
CREATE FUNCTION finality_unsettled(of_chain text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN c.parted_above IS NOT NULL THEN
            format('the chain has other final blocks above %s than those that were walked, and nobody has decided', c.parted_above)
        WHEN c.height < b.settle_height THEN
            format('the walk stands at block %s, and what block %s does not bring back is gone', c.height, b.settle_height)
        WHEN EXISTS (SELECT FROM deposits d WHERE d.chain = of_chain AND d.status = 'CREDITED' AND d.chain_status = 'REORGED') THEN
            'deposits that were credited are neither found again nor reversed'
        END
    FROM scan_cursors c
    LEFT JOIN (SELECT max(settle_height) AS settle_height FROM finality_breaks WHERE chain = of_chain) b ON true
    WHERE c.chain = of_chain
$$;
-- +goose StatementEnd

-- A chain is not let go while its break is open.
-- +goose StatementBegin
CREATE FUNCTION freezes_settled() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    why text;
BEGIN
    IF OLD.lifted_at IS NULL AND NEW.lifted_at IS NOT NULL AND OLD.scope = 'CHAIN' AND OLD.source = 'FINALITY' THEN
        why := finality_unsettled(OLD.chain);
        IF why IS NOT NULL THEN
            RAISE EXCEPTION '% stays frozen: %', OLD.chain, why
                USING ERRCODE = 'check_violation', CONSTRAINT = 'freezes_settled';
        END IF;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER freezes_settled BEFORE UPDATE ON freezes FOR EACH ROW EXECUTE FUNCTION freezes_settled();
