-- Why: two processes that got one new key could both ask the providers for the swap, and one of them could
-- refuse it while the other one made it.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE swap_turns (
    org_id  text NOT NULL REFERENCES organizations,
    swap_id text NOT NULL, -- of a swap that does not exist yet
    holder  text NOT NULL, -- names the request
    ends_at timestamptz NOT NULL,
    CONSTRAINT swap_turns_pkey PRIMARY KEY (org_id, swap_id),
    CONSTRAINT swap_turns_named CHECK (swap_id <> '' AND holder <> '')
);
SELECT coffer_tenant('swap_turns', 'SELECT, INSERT, UPDATE (holder, ends_at), DELETE', 'SELECT, DELETE');
CREATE TRIGGER swap_turns_as_inserted BEFORE UPDATE OF org_id, swap_id ON swap_turns
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- +goose StatementEnd
