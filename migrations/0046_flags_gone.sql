-- Why: a flagged deposit that a broken finality took stayed in question for ever: held
-- in the books and on an address that has nothing of it, with nobody who may decide.
-- See decisions 0020 and 0040.
--
-- Not one transaction: the index is built beside its writers, so every step may be run
-- again.
-- +goose NO TRANSACTION
-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    was text;
    now text;
BEGIN
    -- When what was sent back or elsewhere turned out to be gone: the operator's loss.
    ALTER TABLE deposits ADD COLUMN IF NOT EXISTS lost_at timestamptz;
    ALTER TABLE deposits DROP CONSTRAINT IF EXISTS deposits_lost_whole;
    ALTER TABLE deposits ADD CONSTRAINT deposits_lost_whole CHECK (lost_at IS NULL OR status IN ('REJECTED', 'REDIRECTED') AND chain_status = 'REORGED') NOT VALID;

    -- A flag that nobody carried out ends with its deposit, without a resolution.
    was := pg_get_functiondef('deposits_flag_keep()'::regprocedure);
    now := replace(was, $q$('FLAGGED', 'CREDITED'), ('FLAGGED', 'REJECTING')$q$,
        $q$('FLAGGED', 'ORPHANED'), ('RESOLUTION_STUCK', 'ORPHANED'), ('FLAGGED', 'CREDITED'), ('FLAGGED', 'REJECTING')$q$);
    IF position($q$('FLAGGED', 'ORPHANED')$q$ IN was) = 0 THEN
        IF now = was THEN
            RAISE EXCEPTION 'deposits_flag_keep does not ask what it did';
        END IF;
        EXECUTE now;
    END IF;
    was := pg_get_functiondef('deposits_resolved()'::regprocedure);
    now := replace(replace(was,
        $q$(d.status IN ('CREDITED', 'REVERSED', 'REJECTED', 'REDIRECTED'))$q$, $q$(d.status IN ('ORPHANED', 'CREDITED', 'REVERSED', 'REJECTED', 'REDIRECTED'))$q$),
        $q$WHEN 'FLAGGED' THEN by_.decision IS NOT NULL$q$, $q$WHEN 'ORPHANED' THEN by_.decision IS NOT NULL WHEN 'FLAGGED' THEN by_.decision IS NOT NULL$q$);
    IF position($q$WHEN 'ORPHANED'$q$ IN was) = 0 THEN
        IF position($q$WHEN 'ORPHANED'$q$ IN now) = 0 OR position($q$('ORPHANED', $q$ IN now) = 0 THEN
            RAISE EXCEPTION 'deposits_resolved does not ask what it did';
        END IF;
        EXECUTE now;
    END IF;
    was := pg_get_functiondef('ledger_deposit_hold_follow()'::regprocedure);
    now := replace(was, $q$p.status IN ('CREDITED', 'REJECTED', 'REDIRECTED') AND$q$, $q$p.status IN ('ORPHANED', 'CREDITED', 'REJECTED', 'REDIRECTED') AND$q$);
    IF position('ORPHANED' IN was) = 0 THEN
        IF now = was THEN
            RAISE EXCEPTION 'ledger_deposit_hold_follow does not ask what it did';
        END IF;
        EXECUTE now;
    END IF;
END $$;

-- Not before the new fork has been walked so far that it would be there, and once.
CREATE OR REPLACE FUNCTION deposits_gone_in_time() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status = 'ORPHANED' AND NEW.status <> OLD.status OR OLD.lost_at IS NOT NULL AND (NEW.lost_at, NEW.proof_id, NEW.height, NEW.block_hash, NEW.chain_status)
        IS DISTINCT FROM (OLD.lost_at, OLD.proof_id, OLD.height, OLD.block_hash, OLD.chain_status) THEN
        RAISE EXCEPTION 'deposit % is gone', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.lost_at IS NULL AND (NEW.lost_at IS NOT NULL OR NEW.status = 'ORPHANED' AND OLD.status <> 'ORPHANED')
        AND (OLD.chain_status <> 'REORGED' OR EXISTS (
            SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id) OR EXISTS (
            SELECT FROM finality_breaks b
            JOIN finality_proofs p ON p.proof_id = OLD.proof_id AND b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height
            LEFT JOIN scan_cursors c ON c.chain = b.chain AND c.height >= b.settle_height AND c.parted_above IS NULL
            WHERE c.chain IS NULL)) THEN
        RAISE EXCEPTION 'deposit % may still be found again', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_gone_in_time';
    END IF;
    RETURN NEW;
END $$;

-- As before, with what is flagged: neither decided nor gone yet, it keeps its chain.
CREATE OR REPLACE FUNCTION finality_unsettled(of_chain text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN c.parted_above IS NOT NULL THEN
            format('the chain has other final blocks above %s than those that were walked, and nobody has decided', c.parted_above)
        WHEN c.height < b.settle_height THEN
            format('the walk stands at block %s, and what block %s does not bring back is gone', c.height, b.settle_height)
        WHEN EXISTS (SELECT FROM deposits d WHERE d.chain = of_chain AND d.status = 'CREDITED' AND d.chain_status = 'REORGED') THEN
            'deposits that were credited are neither found again nor reversed'
        WHEN EXISTS (SELECT FROM deposits d WHERE d.chain = of_chain AND d.is_flagged AND d.chain_status = 'REORGED'
            AND (d.status = 'FLAGGED' OR d.status IN ('REJECTED', 'REDIRECTED') AND d.lost_at IS NULL)) THEN
            'deposits that were flagged are neither found again nor given up'
        END
    FROM scan_cursors c
    LEFT JOIN (SELECT max(settle_height) AS settle_height FROM finality_breaks WHERE chain = of_chain) b ON true
    WHERE c.chain = of_chain
$$;
-- +goose StatementEnd

DROP TRIGGER IF EXISTS deposits_gone_in_time ON deposits;
CREATE TRIGGER deposits_gone_in_time BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (OLD.is_flagged AND (OLD.lost_at IS NOT NULL OR NEW.lost_at IS NOT NULL OR NEW.status = 'ORPHANED' OR OLD.status = 'ORPHANED')) EXECUTE FUNCTION deposits_gone_in_time();

DROP INDEX CONCURRENTLY IF EXISTS deposits_flags_in_question;
CREATE INDEX CONCURRENTLY deposits_flags_in_question ON deposits (chain, deposit_id) WHERE is_flagged AND chain_status = 'REORGED';
