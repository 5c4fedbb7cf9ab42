-- Why: a process that has a streaming replica must be able to tell whether that server follows this database. Positions
-- in the log of two servers compare only if one replays the log of the other.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE replica_mark (
    one       boolean PRIMARY KEY DEFAULT true,
    mark      text NOT NULL,        -- random
    marked_at timestamptz NOT NULL,
    CONSTRAINT replica_mark_one CHECK (one),
    CONSTRAINT replica_mark_named CHECK (mark <> '')
);
SELECT coffer_shared('replica_mark', '', 'SELECT, INSERT, UPDATE (mark, marked_at)');
CREATE TRIGGER replica_mark_as_inserted BEFORE UPDATE OF one ON replica_mark
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- +goose StatementEnd
