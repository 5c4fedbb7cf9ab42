-- Why: a block's deposits are written a thousand at a time, and which of them had
-- moved was asked by a join of the rows before with the rows after, which a session
-- that had planned it for one row made a thousand times a thousand comparisons of.
-- +goose Up

-- As before, but for how the rows that moved are told: by leaving out of what is
-- written what was there already.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION deposits_proof_live() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    chains  text[];
    proofs  bigint[];
    heights bigint[];
    ids     text[];
    dead    text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(n.chain ORDER BY n.chain), array_agg(n.proof_id ORDER BY n.chain), array_agg(n.height ORDER BY n.chain), array_agg(n.id ORDER BY n.chain)
        INTO chains, proofs, heights, ids
        FROM (SELECT chain, proof_id, max(height) AS height, min(deposit_id) AS id FROM written
            WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL GROUP BY 1, 2) n;
    ELSE
        SELECT array_agg(n.chain ORDER BY n.chain), array_agg(n.proof_id ORDER BY n.chain), array_agg(n.height ORDER BY n.chain), array_agg(n.id ORDER BY n.chain)
        INTO chains, proofs, heights, ids
        FROM (SELECT chain, proof_id, max(height) AS height, min(deposit_id) AS id
            FROM (SELECT deposit_id, chain, height, proof_id, status FROM written WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL
                EXCEPT
                SELECT deposit_id, chain, height, proof_id, status FROM was WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL) moved
            GROUP BY 1, 2) n;
    END IF;
    IF chains IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM scan_cursors c WHERE c.chain = ANY (chains) ORDER BY c.chain FOR KEY SHARE;
    SELECT min(n.id) INTO dead FROM unnest(chains, proofs, heights, ids) AS n (chain, proof_id, height, id)
    WHERE NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = n.proof_id)
        OR EXISTS (SELECT FROM scan_cursors c WHERE c.chain = n.chain AND n.height > c.parted_above);
    IF dead IS NOT NULL THEN
        RAISE EXCEPTION 'the proof of deposit % is dead', dead
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_proof_live';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- What a deposit refers to is asked of all rows of a statement together, as 0026 does
-- for what else is written most. Wallets stay as well from here on; mints, customers
-- and proofs do already.
CREATE TRIGGER wallets_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF org_id, wallet_id ON wallets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- +goose StatementBegin
CREATE FUNCTION deposits_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT n.deposit_id INTO lost FROM written n
        WHERE (SELECT w.org_id = n.org_id FROM wallets w WHERE w.wallet_id = n.wallet_id) IS NOT TRUE
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % reached no wallet of its organization', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_wallet';
        END IF;
        SELECT n.deposit_id INTO lost FROM written n
        WHERE n.customer_id IS NOT NULL
            AND (SELECT c.created_at FROM customers c WHERE c.org_id = n.org_id AND c.customer_id = n.customer_id) IS NULL
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % is for no customer of its organization', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_customer';
        END IF;
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id FROM written WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id
            FROM (SELECT deposit_id, mint_id, chain, contract FROM written EXCEPT SELECT deposit_id, mint_id, chain, contract FROM was) moved
            WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % is of another contract than its mint', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_mint';
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id FROM written WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id
            FROM (SELECT deposit_id, chain, proof_id, height, block_hash FROM written
                EXCEPT SELECT deposit_id, chain, proof_id, height, block_hash FROM was) moved
            WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % leans on the proof of another block', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_proof';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_refer AFTER INSERT ON deposits
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_refer();
CREATE TRIGGER deposits_refer_moved AFTER UPDATE ON deposits
    REFERENCING OLD TABLE AS was NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_refer();
ALTER TABLE deposits DROP CONSTRAINT IF EXISTS deposits_wallet, DROP CONSTRAINT IF EXISTS deposits_customer,
    DROP CONSTRAINT IF EXISTS deposits_mint, DROP CONSTRAINT IF EXISTS deposits_proof;

-- Nothing refers to these keys, and each is an entry for every deposit: the key of
-- deposits names one by itself, and a transaction's hash is found through its chain.
ALTER TABLE deposits DROP CONSTRAINT IF EXISTS deposits_of_org;
DROP INDEX IF EXISTS deposits_of_hash;
