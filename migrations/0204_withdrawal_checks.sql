-- Why: the check that a withdrawal was posted, and the foreign key of its decision, kept plans that a session had made
-- while there were few withdrawals, and then read all postings and withdrawals of the organization for each new one.
-- The check asks by the key of causes, and decisions are checked by the statement. The funds that cannot move were
-- looked for among all queued orders; an index has those that wait.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again, as after an interrupted run. A block is one transaction.
DROP INDEX CONCURRENTLY IF EXISTS dispatch_orders_waiting;
CREATE INDEX CONCURRENTLY dispatch_orders_waiting ON dispatch_orders (waiting_for, org_id, mint_id)
    WHERE status = 'QUEUED' AND waiting_for IS NOT NULL;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawals_book() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
    w record;
BEGIN
    -- Each posting is asked for in the order of the key of causes, which no other index has: a session keeps the plan
    -- that it made for small tables.
    SELECT status, CASE
        WHEN ((SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_HOLD' AND t.leg = 0
                AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NOT NULL)
            = (status = 'BLOCKED') THEN 'withdrawals_held'
        WHEN ((SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_END' AND t.leg = 0
                AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NOT NULL)
            <> (status = 'COMPLETED' OR status IN ('FAILED', 'REJECTED', 'CANCELLED') AND amount + charge_held - charged > 0)
            THEN 'withdrawals_ended'
        WHEN charged > 0
                AND (SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_CHARGE' AND t.leg = 0
                    AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NULL
            OR status = 'COMPLETED' AND charge_held - charged > 0
                AND (SELECT true FROM ledger_transfers t WHERE t.cause_kind = 'WITHDRAWAL_CHARGE_RETURN' AND t.leg = 0
                    AND t.cause_id >= NEW.withdrawal_id AND t.cause_id <= NEW.withdrawal_id ORDER BY t.cause_id LIMIT 1) IS NULL
            THEN 'withdrawals_charge_posted'
        END AS broken
    INTO w FROM withdrawals WHERE withdrawal_id = NEW.withdrawal_id;
    IF w.broken IS NOT NULL THEN
        RAISE EXCEPTION 'withdrawal % is %, and the books say something else', NEW.withdrawal_id, w.status
            USING ERRCODE = 'check_violation', CONSTRAINT = w.broken;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdrawal_decisions_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT a.withdrawal_id INTO lost FROM added a
    WHERE (SELECT w.org_id FROM public.withdrawals w
        WHERE w.withdrawal_id >= a.withdrawal_id AND w.withdrawal_id <= a.withdrawal_id ORDER BY w.withdrawal_id LIMIT 1) IS DISTINCT FROM a.org_id
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'the organization has no withdrawal %', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'withdrawal_decisions_withdrawal';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DROP TRIGGER IF EXISTS withdrawals_stay ON withdrawals;
CREATE TRIGGER withdrawals_stay BEFORE DELETE OR TRUNCATE ON withdrawals FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- +goose StatementEnd
-- +goose StatementBegin
DROP TRIGGER IF EXISTS withdrawal_decisions_withdrawal ON withdrawal_decisions;
CREATE TRIGGER withdrawal_decisions_withdrawal AFTER INSERT ON withdrawal_decisions
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION withdrawal_decisions_refer();
-- +goose StatementEnd
ALTER TABLE withdrawal_decisions DROP CONSTRAINT IF EXISTS withdrawal_decisions_withdrawal;
