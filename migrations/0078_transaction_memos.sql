-- Why: who pays on Solana may write a memo into the transaction, such as an order number, and
-- deposits did not show it. A memo is read after its deposit was recorded and decides nothing,
-- so it is no column of deposits: a row here for each transaction that made a deposit, asked
-- about until a provider's answer is proven by the transaction's id. See decision 0084.
--
-- Deposits that are final before this version show no memo.
-- +goose Up

CREATE TABLE transaction_memos (
    chain           text NOT NULL,
    tx_hash         text NOT NULL,
    status          text NOT NULL DEFAULT 'DUE',
    memo            text,                        -- what the payer wrote, cleaned; NULL where it is nothing, and while it is not read
    attempts        integer NOT NULL DEFAULT 0,
    last_error      text NOT NULL DEFAULT '',
    next_attempt_at timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (chain, tx_hash),
    CONSTRAINT transaction_memos_status_known CHECK (status IN ('DUE', 'READ', 'ABANDONED')),
    CONSTRAINT transaction_memos_read CHECK (memo IS NULL OR status = 'READ' AND octet_length(memo) BETWEEN 1 AND 4096),
    CONSTRAINT transaction_memos_ended_at CHECK ((status = 'DUE') = (ended_at IS NULL)),
    CONSTRAINT transaction_memos_attempts CHECK (attempts >= 0 AND (status = 'DUE' OR attempts > 0))
);
SELECT coffer_shared('transaction_memos', 'SELECT', 'SELECT, INSERT');
GRANT UPDATE (status, memo, attempts, last_error, next_attempt_at, ended_at) ON transaction_memos TO coffer_system;
CREATE INDEX transaction_memos_due ON transaction_memos (chain, next_attempt_at) WHERE status = 'DUE';
CREATE INDEX transaction_memos_abandoned ON transaction_memos (ended_at) WHERE status = 'ABANDONED';

-- A memo is read once and is what it is from then on; a row stays.
-- +goose StatementBegin
CREATE FUNCTION transaction_memos_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'DUE' OR NEW.attempts <> 0 THEN
            RAISE EXCEPTION 'the memo of transaction % is not read yet', NEW.tx_hash
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_memos_due_first';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status <> 'DUE' OR NEW.attempts <= OLD.attempts
       OR (NEW.chain, NEW.tx_hash, NEW.created_at) IS DISTINCT FROM (OLD.chain, OLD.tx_hash, OLD.created_at) THEN
        RAISE EXCEPTION 'the memo of transaction % was read or given up, or the row is another one', OLD.tx_hash
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_memos_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER transaction_memos_keep BEFORE INSERT OR UPDATE ON transaction_memos FOR EACH ROW EXECUTE FUNCTION transaction_memos_keep();
CREATE TRIGGER transaction_memos_stay BEFORE DELETE OR TRUNCATE ON transaction_memos FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
