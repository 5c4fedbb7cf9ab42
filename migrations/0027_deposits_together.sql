-- Why: the deposits of a block are written and credited a thousand at a time, and
-- the table asked every row what one question answers for all of them: whether their
-- proof is alive. Measured, that and two keys that say nothing new were a third of
-- what a deposit costs the database. Nothing is asked less, it is asked together.
-- +goose Up

-- A deposit's wallet is of its organization, and a wallet's organization exists; the
-- mint of a contract is a mint.
ALTER TABLE deposits DROP CONSTRAINT deposits_org_id_fkey, DROP CONSTRAINT deposits_mint_id_fkey;

-- What counts stands on a proof that is alive, whatever the program thinks. The
-- cursor is held before the proofs are looked at, so that a break that commits
-- meanwhile is seen, and one that comes later waits.
DROP TRIGGER deposits_proof_live ON deposits;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION deposits_proof_live() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    chains text[];
    dead   text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(DISTINCT n.chain ORDER BY n.chain) INTO chains FROM written n
        WHERE n.chain_status = 'FINALIZED' AND n.proof_id IS NOT NULL;
    ELSE
        SELECT array_agg(DISTINCT n.chain ORDER BY n.chain) INTO chains FROM written n JOIN was o USING (deposit_id)
        WHERE n.chain_status = 'FINALIZED' AND n.proof_id IS NOT NULL
            AND (n.status, n.chain_status, n.proof_id) IS DISTINCT FROM (o.status, o.chain_status, o.proof_id);
    END IF;
    IF chains IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM scan_cursors c WHERE c.chain = ANY (chains) ORDER BY c.chain FOR KEY SHARE;
    IF TG_OP = 'INSERT' THEN
        SELECT min(n.deposit_id) INTO dead
        FROM (SELECT chain, proof_id, max(height) AS height, min(deposit_id) AS deposit_id FROM written
            WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL GROUP BY 1, 2) n
        WHERE NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = n.proof_id)
            OR EXISTS (SELECT FROM scan_cursors c WHERE c.chain = n.chain AND n.height > c.parted_above);
    ELSE
        SELECT min(n.deposit_id) INTO dead
        FROM (SELECT w.chain, w.proof_id, max(w.height) AS height, min(w.deposit_id) AS deposit_id FROM written w JOIN was o USING (deposit_id)
            WHERE w.chain_status = 'FINALIZED' AND w.proof_id IS NOT NULL
                AND (w.status, w.chain_status, w.proof_id) IS DISTINCT FROM (o.status, o.chain_status, o.proof_id) GROUP BY 1, 2) n
        WHERE NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = n.proof_id)
            OR EXISTS (SELECT FROM scan_cursors c WHERE c.chain = n.chain AND n.height > c.parted_above);
    END IF;
    IF dead IS NOT NULL THEN
        RAISE EXCEPTION 'the proof of deposit % is dead', dead
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_proof_live';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_proof_live AFTER INSERT ON deposits
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_proof_live();
CREATE TRIGGER deposits_proof_live_moved AFTER UPDATE ON deposits
    REFERENCING OLD TABLE AS was NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_proof_live();

-- What is final stays, as before.
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
    -- Asked only where it decides: not when a deposit is credited.
    gone := false;
    IF OLD.proof_id IS NOT NULL AND ((NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)
       OR OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status) THEN
        gone := NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id);
    END IF;
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
-- +goose StatementEnd
