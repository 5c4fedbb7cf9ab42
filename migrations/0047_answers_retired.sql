-- Why: every answer of a provider was kept for ever, also those that nothing was decided
-- by: estimates, questions asked again, deposits below a threshold. What a decision
-- refers to stays; the rest goes after a while. Which is which is written down by
-- trigger, so that no path of the program can forget to. See decision 0044.
-- +goose Up

-- Answers from before this migration have no moment, and stay: nobody wrote down what
-- refers to them.
ALTER TABLE risk_answers ADD COLUMN kept_at timestamptz;

-- One row for each time that something decided, or was told, by an answer. No unique
-- key: whoever uses the same answer at the same moment waits for nobody.
CREATE TABLE risk_answer_uses (
    answer_id text COLLATE "C" NOT NULL,
    used_by   text NOT NULL,
    CONSTRAINT risk_answer_uses_by_known CHECK (used_by IN ('DEPOSIT', 'WITHDRAWAL', 'SENDER'))
);
CREATE INDEX risk_answer_uses_of ON risk_answer_uses (answer_id);
SELECT coffer_shared('risk_answer_uses', '', 'SELECT');
CREATE TRIGGER risk_answer_uses_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON risk_answer_uses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Up to where it was looked for answers that may go; their ids are in the order of time.
CREATE TABLE risk_answers_retired (
    one       boolean PRIMARY KEY DEFAULT true,
    answer_id text COLLATE "C" NOT NULL,
    CONSTRAINT risk_answers_retired_single CHECK (one)
);
INSERT INTO risk_answers_retired (answer_id) VALUES ('');
SELECT coffer_shared('risk_answers_retired', '', 'SELECT, UPDATE');

-- +goose StatementBegin
CREATE FUNCTION deposit_decisions_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'DEPOSIT' FROM added, jsonb_path_query(added.record, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE FUNCTION withdrawal_decisions_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'WITHDRAWAL' FROM added, jsonb_path_query(added.risk, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;
CREATE FUNCTION fresh_verdicts_use() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO risk_answer_uses (answer_id, used_by)
    SELECT DISTINCT a #>> '{}', 'SENDER' FROM added, jsonb_path_query(added.record, '$.**.answerId') AS a WHERE jsonb_typeof(a) = 'string';
    RETURN NULL;
END $$;

-- Eight days are longer than any answer is used again.
CREATE FUNCTION risk_answers_stay() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.kept_at IS NULL OR OLD.kept_at > now() - interval '8 days'
        OR EXISTS (SELECT FROM risk_answer_uses WHERE answer_id = OLD.answer_id) THEN
        RAISE EXCEPTION 'answer % stays: something may have been decided by it', OLD.answer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'risk_answers_used_stay';
    END IF;
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposit_decisions_use AFTER INSERT ON deposit_decisions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION deposit_decisions_use();
CREATE TRIGGER withdrawal_decisions_use AFTER INSERT ON withdrawal_decisions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION withdrawal_decisions_use();
CREATE TRIGGER sender_verdicts_use AFTER INSERT ON sender_verdicts REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION fresh_verdicts_use();
CREATE TRIGGER risk_answers_used_stay BEFORE DELETE ON risk_answers FOR EACH ROW EXECUTE FUNCTION risk_answers_stay();
GRANT DELETE ON risk_answers TO coffer_system;
