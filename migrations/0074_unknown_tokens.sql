-- Why: anybody can have a contract say that its token came to an address of ours, as
-- often as a block has gas for. Each time was a deposit and a row of the audit log. Only so
-- many are recorded of a block and of a wallet; what is left out is counted here.
-- See decision 0078.
--
-- What a wallet had before this version is not counted.
-- +goose Up

CREATE TABLE unknown_token_counts (
    wallet_id     text NOT NULL REFERENCES wallets,
    chain         text NOT NULL,
    recorded      integer NOT NULL,           -- deposits of tokens that are not in the catalogue
    dropped       bigint NOT NULL DEFAULT 0,  -- transfers of such tokens that are not recorded
    dropped_first bigint,                     -- the first block that had one of these
    dropped_last  bigint,                     -- the last one, and when it was taken in
    dropped_at    timestamptz,
    PRIMARY KEY (wallet_id, chain),
    CONSTRAINT unknown_token_counts_recorded CHECK (recorded BETWEEN 0 AND 1000),
    CONSTRAINT unknown_token_counts_dropped CHECK (dropped >= 0
        AND (dropped > 0) = (dropped_first IS NOT NULL)
        AND (dropped > 0) = (dropped_last IS NOT NULL)
        AND (dropped > 0) = (dropped_at IS NOT NULL)
        AND (dropped_first IS NULL OR dropped_first <= dropped_last))
);
SELECT coffer_shared('unknown_token_counts', '', 'SELECT, INSERT');
GRANT UPDATE (recorded, dropped, dropped_first, dropped_last, dropped_at) ON unknown_token_counts TO coffer_system;
CREATE INDEX unknown_token_counts_dropped_at ON unknown_token_counts (dropped_at) WHERE dropped_at IS NOT NULL;

-- Both counts only grow, and a row stays: no wallet gets its thousand twice.
-- +goose StatementBegin
CREATE FUNCTION unknown_token_counts_grow() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.recorded < OLD.recorded OR NEW.dropped < OLD.dropped THEN
        RAISE EXCEPTION 'the counts of unknown tokens of wallet % on % only grow', OLD.wallet_id, OLD.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'unknown_token_counts_grow';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER unknown_token_counts_grow BEFORE UPDATE ON unknown_token_counts FOR EACH ROW EXECUTE FUNCTION unknown_token_counts_grow();
CREATE TRIGGER unknown_token_counts_stay BEFORE DELETE OR TRUNCATE ON unknown_token_counts FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
