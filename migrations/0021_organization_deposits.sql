-- Why: an organization pays into its own balances by the chain. It has an address
-- for each of its products, and what arrives there and is final counts for that
-- product, under every guard that a customer's deposit has.
-- +goose Up

-- Neither is looked through again: every row so far has passed the shorter list,
-- and the tables stay open to a running house.
ALTER TABLE wallets
    DROP CONSTRAINT wallets_purpose_known,
    ADD CONSTRAINT wallets_purpose_known CHECK (
        CASE purpose
            WHEN 'CUSTOMER_DEPOSIT' THEN subject <> ''
            WHEN 'ORGANIZATION_DEPOSIT' THEN subject IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')
            WHEN 'TREASURY' THEN subject = ''
            ELSE false
        END) NOT VALID;
ALTER TABLE deposits
    ADD COLUMN product text, -- whose it is in place of a customer's
    ADD CONSTRAINT deposits_product CHECK (
        (purpose = 'ORGANIZATION_DEPOSIT') = (product IS NOT NULL) AND product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT')) NOT VALID;
CREATE INDEX deposits_of_product ON deposits (org_id, product, created_at, deposit_id) WHERE product IS NOT NULL;

-- Whose a deposit is never changes.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION deposits_final_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.product IS DISTINCT FROM OLD.product THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.mint_id, NEW.purpose) IS DISTINCT FROM (OLD.mint_id, OLD.purpose) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    RETURN NEW;
END $$;

-- A posting for a deposit goes to whom the deposit says, the products among them. The
-- function asks for every kind of cause, so only these two lines of it are exchanged,
-- wherever the others have come to.
DO $$
DECLARE
    was text := pg_get_functiondef('ledger_transfers_follow()'::regprocedure);
    now text := replace(replace(was,
        $q$CASE WHEN p.purpose = 'CUSTOMER_DEPOSIT' THEN 'CUSTOMER' WHEN p.contract = '' THEN 'GAS' ELSE 'SUSPENSE' END$q$,
        $q$CASE WHEN p.purpose = 'CUSTOMER_DEPOSIT' THEN 'CUSTOMER' WHEN p.purpose = 'ORGANIZATION_DEPOSIT' THEN 'PRODUCT'
                        WHEN p.contract = '' THEN 'GAS' ELSE 'SUSPENSE' END$q$),
        $q$coalesce(p.customer_id, '')$q$, $q$coalesce(p.customer_id, p.product, '')$q$);
BEGIN
    IF position('ORGANIZATION_DEPOSIT' IN now) = 0 OR position('p.product' IN now) = 0 THEN
        RAISE EXCEPTION 'ledger_transfers_follow does not ask of deposits what it did';
    END IF;
    EXECUTE now;
END $$;
-- +goose StatementEnd
