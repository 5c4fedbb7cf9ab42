-- Why: a guard that reads a table by its bare name reads what its caller's search_path
-- finds first, and a temporary table is found before all others. A role that makes one
-- named finality_breaks could have a proof on a dead fork accepted. Every function of
-- the schema gets a search_path of its own, with temporary tables last.
--
-- pg.Migrate takes the right to temporary tables away as well: that right belongs to the
-- database, is in no dump of it, and is missing to nothing here.
--
-- Left out are functions in which no name is looked up when they run: those with a body
-- that was parsed at their creation, and IMMUTABLE ones in SQL, which read no table and
-- stand in indexes and in queries where only a function without settings is inlined.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    loose regprocedure;
BEGIN
    FOR loose IN
        SELECT p.oid
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'public'::regnamespace AND p.prosqlbody IS NULL AND NOT (l.lanname = 'sql' AND p.provolatile = 'i')
            AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c LIKE 'search_path=%')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, public, pg_temp', loose);
    END LOOP;
END $$;
-- +goose StatementEnd
