-- The mark by which a streaming replica proves that it follows this database. A process renews it every second while it
-- has a replica. Only a server that replays the log of this one shows it: not a promoted one, not one of another
-- installation, and not one that follows a log from before a restore.
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
