-- Why: an organization lists the origins whose pages may show the page of a checkout in a frame.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE checkout_settings ADD COLUMN embed_origins text[] NOT NULL DEFAULT '{}';
ALTER TABLE checkout_settings ADD CONSTRAINT checkout_settings_embedding CHECK (
        cardinality(embed_origins) <= 10
        AND embed_origins::text ~ '^\{(https?://[a-z0-9.-]+(:[0-9]{1,5})?(,https?://[a-z0-9.-]+(:[0-9]{1,5})?)*)?\}$') NOT VALID;
GRANT UPDATE (embed_origins) ON checkout_settings TO coffer_app;
-- +goose StatementEnd
-- +goose StatementBegin
ALTER TABLE checkout_settings VALIDATE CONSTRAINT checkout_settings_embedding;
-- +goose StatementEnd
