-- Why: on chains where a transaction spends several coins a deposit may have several
-- senders, and each of them is screened. See decision 0057.
-- +goose Up

-- All of them, sorted, where there are several; from_address is '' then. Above 20 nobody
-- is kept, as where one of them cannot be named.
ALTER TABLE deposits ADD COLUMN senders text[];
ALTER TABLE deposits ADD CONSTRAINT deposits_senders_several CHECK (senders IS NULL OR
    from_address = '' AND cardinality(senders) BETWEEN 2 AND 20 AND array_ndims(senders) = 1
    AND array_position(senders, NULL) IS NULL AND array_position(senders, '') IS NULL) NOT VALID;
ALTER TABLE deposits VALIDATE CONSTRAINT deposits_senders_several;

-- A flag keeps its senders as it keeps its sender. Only these words of the function are
-- exchanged, wherever the others have come to.
-- +goose StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('deposits_flag_keep()'::regprocedure);
    now text := replace(replace(was,
        'NEW.from_address, NEW.return_mac', 'NEW.from_address, NEW.senders, NEW.return_mac'),
        'OLD.from_address, OLD.return_mac', 'OLD.from_address, OLD.senders, OLD.return_mac');
BEGIN
    IF position('NEW.senders' IN now) = 0 OR position('OLD.senders' IN now) = 0 THEN
        RAISE EXCEPTION 'deposits_flag_keep does not ask what it did';
    END IF;
    EXECUTE now;
END $$;
-- +goose StatementEnd
