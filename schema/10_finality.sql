-- How far each chain was scanned, and the proofs that blocks are final.
--
-- A credit needs the proof of its block. Finality itself can break: a block that was proven
-- final leaves the chain (decision 0020). No row is edited then. A break says from
-- which height on the proofs of earlier forks are dead. Whatever relies on a dead proof is
-- proven again or taken back.

-- The scan of final blocks: the last block whose deposits are all recorded.
CREATE TABLE scan_cursors (
    chain        text PRIMARY KEY,
    height       bigint NOT NULL,
    hash         text NOT NULL,
    updated_at   timestamptz NOT NULL,
    -- Set when the final chain parts from the chain that was scanned: the last block that both
    -- have. Nothing above it counts until an operator decides.
    forked_above bigint
);
SELECT coffer_shared('scan_cursors', 'SELECT', 'SELECT, INSERT, UPDATE (height, hash, forked_above, updated_at)');
CREATE TRIGGER scan_cursors_as_inserted BEFORE UPDATE OF chain ON scan_cursors
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The scan of recent blocks, as one provider shows them. Its rows may be lost.
CREATE TABLE scan_heads (
    chain  text NOT NULL,
    height bigint NOT NULL,
    hash   text NOT NULL,
    parent text NOT NULL,
    CONSTRAINT scan_heads_pkey PRIMARY KEY (chain, height)
);
SELECT coffer_shared('scan_heads', 'SELECT', 'SELECT, INSERT, DELETE');
CREATE TRIGGER scan_heads_as_inserted BEFORE UPDATE ON scan_heads FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- When the walk of recent blocks last had the newest block that its provider showed. What is awaited until a time is
-- given up only once the walk has looked after that time.
CREATE TABLE scan_head_times (
    chain        text PRIMARY KEY,
    caught_up_at timestamptz NOT NULL
);
SELECT coffer_shared('scan_head_times', 'SELECT', 'SELECT, INSERT, UPDATE (caught_up_at)');

-- What a person has to look at: a native balance that no transaction explains, a token whose
-- events and balances differ.
CREATE TABLE scan_findings (
    finding_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain      text NOT NULL,
    kind       text NOT NULL,
    height     bigint NOT NULL,
    hash       text NOT NULL,
    address    text NOT NULL,
    contract   text NOT NULL,
    detail     text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT scan_findings_once UNIQUE (chain, height, kind, address, contract),
    CONSTRAINT scan_findings_kind_known CHECK (kind IN ('UNATTRIBUTED', 'BALANCE_DELTA', 'FINALITY_BROKEN'))
);
SELECT coffer_shared('scan_findings', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER scan_findings_as_inserted BEFORE UPDATE ON scan_findings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE finality_proofs (
    proof_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain      text NOT NULL,
    height     bigint NOT NULL,
    hash       text NOT NULL,
    parent     text NOT NULL,
    block_time timestamptz NOT NULL,
    providers  integer NOT NULL, -- how many agreed
    verified   text NOT NULL,
    created_at timestamptz NOT NULL,
    fork       integer NOT NULL DEFAULT 0, -- how many breaks the chain had had by then
    -- How many blocks were on the chain from this one up, itself included, when it was proven.
    -- 1 where the chain calls a block final without counting.
    depth      bigint NOT NULL DEFAULT 1,
    CONSTRAINT finality_proofs_height_once UNIQUE (chain, height, fork),
    -- Keys that other tables refer to.
    CONSTRAINT finality_proofs_of_block UNIQUE (chain, proof_id),
    CONSTRAINT finality_proofs_whole UNIQUE (chain, proof_id, height, hash),
    CONSTRAINT finality_proofs_provided CHECK (providers >= 1),
    CONSTRAINT finality_proofs_deep CHECK (depth >= 1)
);
SELECT coffer_shared('finality_proofs', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER finality_proofs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON finality_proofs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What an operator decided about a chain whose finality broke.
CREATE TABLE finality_breaks (
    break_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain           text NOT NULL,
    fork            integer NOT NULL,  -- the fork of the proofs from here on
    ancestor_height bigint NOT NULL,   -- the last block that both forks have
    ancestor_hash   text NOT NULL,
    tip_height      bigint NOT NULL,   -- the last scanned block of the abandoned fork
    tip_hash        text NOT NULL,
    settle_height   bigint NOT NULL,   -- what the new fork does not have up to this block is gone
    reason          text NOT NULL,
    decided_by      text NOT NULL,
    created_at      timestamptz NOT NULL,
    CONSTRAINT finality_breaks_fork_once UNIQUE (chain, fork),
    CONSTRAINT finality_breaks_forward CHECK (
        fork >= 1 AND ancestor_height < tip_height AND tip_height <= settle_height)
);
SELECT coffer_shared('finality_breaks', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER finality_breaks_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON finality_breaks
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The proofs that count. Every question whether a block is final reads this view.
CREATE VIEW finality_live WITH (security_invoker = true) AS
SELECT p.* FROM finality_proofs p
WHERE NOT EXISTS (
    SELECT FROM finality_breaks b WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height);
SELECT coffer_shared('finality_live', 'SELECT', 'SELECT');

-- How many proven blocks are on the chain from a final block up. The live proofs are one
-- chain of blocks, so the highest one says it.
CREATE FUNCTION finality_depth(of_chain text, of_height bigint) RETURNS bigint LANGUAGE sql STABLE
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT coalesce((SELECT p.height - of_height + p.depth FROM finality_live p WHERE p.chain = of_chain ORDER BY p.height DESC LIMIT 1), 0)
$$;

-- A transaction that relies on a proof holds the chain's cursor FOR KEY SHARE, which does not
-- make the scan wait. A break takes the cursor FOR UPDATE and so waits for all of them: a
-- proof that was alive when it was read is alive at the commit.
--
-- The block of the first start has no proof, but the proof of the block above names it.
-- Rule DEP-20.
CREATE FUNCTION finality_breaks_next() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM FROM scan_cursors c WHERE c.chain = NEW.chain FOR UPDATE;
    IF NEW.fork <> (SELECT coalesce(max(b.fork), 0) + 1 FROM finality_breaks b WHERE b.chain = NEW.chain) THEN
        RAISE EXCEPTION 'fork % of % is not the next one', NEW.fork, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_breaks_next';
    END IF;
    IF NOT EXISTS (SELECT FROM finality_live p WHERE p.chain = NEW.chain
                   AND ((p.height, p.hash) = (NEW.ancestor_height, NEW.ancestor_hash)
                        OR (p.height, p.parent) = (NEW.ancestor_height + 1, NEW.ancestor_hash))) THEN
        RAISE EXCEPTION 'block % % of % was not walked', NEW.ancestor_height, NEW.ancestor_hash, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_breaks_ancestor';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER finality_breaks_next BEFORE INSERT ON finality_breaks
    FOR EACH ROW EXECUTE FUNCTION finality_breaks_next();

CREATE FUNCTION finality_proofs_on_fork() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM FROM scan_cursors c WHERE c.chain = NEW.chain FOR KEY SHARE;
    IF NEW.fork <> (SELECT coalesce(max(b.fork), 0) FROM finality_breaks b WHERE b.chain = NEW.chain) THEN
        RAISE EXCEPTION 'block % of % is not proven on the fork that is walked', NEW.height, NEW.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'finality_proofs_on_fork';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER finality_proofs_on_fork BEFORE INSERT ON finality_proofs
    FOR EACH ROW EXECUTE FUNCTION finality_proofs_on_fork();

-- Transactions of final blocks that were not traced in time (decision 0071). The sender
-- of a transaction decides how long its trace is, so a block that waited for every trace
-- could stop the chain. The block is taken in, and the trace comes later.
CREATE TABLE scan_untraced (
    proof_id        bigint NOT NULL REFERENCES finality_proofs (proof_id),
    tx_hash         text NOT NULL, -- '' for every transaction of the block
    addresses       text[],        -- addresses of ours that it touched; NULL: unknown
    status          text NOT NULL DEFAULT 'DUE',
    attempts        integer NOT NULL,
    last_error      text NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    done_at         timestamptz,
    PRIMARY KEY (proof_id, tx_hash),
    CONSTRAINT scan_untraced_status_known CHECK (status IN ('DUE', 'DONE')),
    CONSTRAINT scan_untraced_done_at CHECK ((status = 'DONE') = (done_at IS NOT NULL)),
    CONSTRAINT scan_untraced_attempts CHECK (attempts >= 1)
);
CREATE INDEX scan_untraced_due ON scan_untraced (proof_id) WHERE status = 'DUE';
SELECT coffer_shared('scan_untraced', 'SELECT',
    'SELECT, INSERT, UPDATE (addresses, status, attempts, last_error, next_attempt_at, done_at)');

-- A row is about a block that counts, is done once, and stays.
CREATE FUNCTION scan_untraced_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'DUE' OR NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = NEW.proof_id) THEN
            RAISE EXCEPTION 'nothing of proof % is to be traced', NEW.proof_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'scan_untraced_proof_live';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status = 'DONE' OR NEW.attempts < OLD.attempts OR NEW.addresses IS NULL AND OLD.addresses IS NOT NULL
       OR (NEW.proof_id, NEW.tx_hash, NEW.created_at) IS DISTINCT FROM (OLD.proof_id, OLD.tx_hash, OLD.created_at) THEN
        RAISE EXCEPTION 'transaction % of proof % was traced, or is another one', OLD.tx_hash, OLD.proof_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'scan_untraced_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER scan_untraced_keep BEFORE INSERT OR UPDATE ON scan_untraced
    FOR EACH ROW EXECUTE FUNCTION scan_untraced_keep();
CREATE TRIGGER scan_untraced_stay BEFORE DELETE OR TRUNCATE ON scan_untraced
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
