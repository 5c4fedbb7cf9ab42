-- Why: each process keeps a filter of all addresses in memory. What was committed since its snapshot is found by the
-- transaction that wrote the row, because a transaction may commit long after it took an id or a time.

-- +goose NO TRANSACTION
-- +goose Up
-- Every statement may run again: what an interrupted run left behind is made again. Rows from before stay NULL: they
-- were committed before the trigger was there, and no filter is built without the trigger.
ALTER TABLE wallets ADD COLUMN IF NOT EXISTS written_xid xid8;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION wallets_written() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    NEW.written_xid := pg_current_xact_id();
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER wallets_written BEFORE INSERT OR UPDATE ON wallets
    FOR EACH ROW EXECUTE FUNCTION wallets_written();
ALTER TABLE wallets ENABLE ALWAYS TRIGGER wallets_written;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS wallets_written;
CREATE INDEX CONCURRENTLY wallets_written ON wallets (written_xid) WHERE written_xid IS NOT NULL;
