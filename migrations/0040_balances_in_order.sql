-- Why: without a lock of its own the move of balances took its rows in whatever order
-- its plan met them, and transactions that moved the same accounts waited for each other
-- in a circle. The rows are locked in the order of their ids first, as before 0032.
-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_move_balances() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ids    bigint[];
    deltas numeric[];
BEGIN
    SELECT array_agg(m.account_id), array_agg(m.delta)
    INTO ids, deltas
    FROM (SELECT legs.account_id, sum(legs.delta) AS delta
          FROM (SELECT credit_account AS account_id, amount AS delta FROM added
                UNION ALL
                SELECT debit_account, -amount FROM added) legs
          GROUP BY legs.account_id ORDER BY legs.account_id) m;

    PERFORM 1 FROM ledger_balances b
    WHERE b.account_id = ANY (ids)
    ORDER BY b.account_id FOR NO KEY UPDATE;

    UPDATE ledger_balances b SET balance = b.balance + m.delta
    FROM unnest(ids, deltas) AS m (account_id, delta)
    WHERE b.account_id = m.account_id AND b.account_id = ANY (ids) AND m.delta <> 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd
