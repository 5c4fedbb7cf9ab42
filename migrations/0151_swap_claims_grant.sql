-- Why: swap_claims reads the swaps of all organizations with the rights of its owner, so only the roles that write and
-- list swaps may call it. The login role has no right until it chooses a role, and no report needs it.

-- +goose Up
REVOKE ALL ON FUNCTION swap_claims(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION swap_claims(text[]) TO coffer_app, coffer_system;
