-- Why: a large deposit is worth a deeper fork than a small one, so it waits for more
-- blocks after its own than finality wants. See decision 0059.
-- +goose Up

-- How many blocks had the block in them when it was proven, itself and those after it.
-- What was proven before, and what a chain calls final without counting, counts as one.
ALTER TABLE finality_proofs ADD COLUMN depth bigint NOT NULL DEFAULT 1;
ALTER TABLE finality_proofs ADD CONSTRAINT finality_proofs_deep CHECK (depth >= 1) NOT VALID;
ALTER TABLE finality_proofs VALIDATE CONSTRAINT finality_proofs_deep;
CREATE OR REPLACE VIEW finality_live WITH (security_invoker = true) AS
SELECT p.* FROM finality_proofs p
WHERE NOT EXISTS (
    SELECT FROM finality_breaks b WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height);

-- How deep a final block is for all that is proven: what is live is one chain of blocks,
-- so all of it above a block is on top of it.
CREATE FUNCTION finality_depth(of_chain text, of_height bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT p.height - of_height + p.depth FROM finality_live p WHERE p.chain = of_chain ORDER BY p.height DESC LIMIT 1), 0)
$$;

-- 0: finality is enough. It is the tier of its amount when its block became final.
ALTER TABLE deposits ADD COLUMN depth_required bigint NOT NULL DEFAULT 0;
ALTER TABLE deposits ADD CONSTRAINT deposits_depth_required CHECK (depth_required >= 0) NOT VALID;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_depth_required;

-- +goose StatementBegin
CREATE FUNCTION deposits_deep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.proof_id IS NOT NULL AND NEW.proof_id IS NOT NULL AND NEW.depth_required < OLD.depth_required THEN
        RAISE EXCEPTION 'deposit % is final and waits for % blocks', OLD.deposit_id, OLD.depth_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_deep';
    END IF;
    IF NEW.status = 'CREDITED' AND (TG_OP = 'INSERT' OR OLD.status <> 'CREDITED') AND NEW.depth_required > 1
       AND finality_depth(NEW.chain, NEW.height) < NEW.depth_required THEN
        RAISE EXCEPTION 'deposit % is not % blocks deep', NEW.deposit_id, NEW.depth_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_deep';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_deep_first BEFORE INSERT ON deposits FOR EACH ROW WHEN (NEW.depth_required > 1)
    EXECUTE FUNCTION deposits_deep();
CREATE TRIGGER deposits_deep BEFORE UPDATE ON deposits FOR EACH ROW WHEN (NEW.depth_required > 1 OR OLD.depth_required > 1)
    EXECUTE FUNCTION deposits_deep();
