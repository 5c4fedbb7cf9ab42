-- Why: organizations, who acts for them, their customers and the catalogue of
-- mints are what every other row belongs to. The audit log and the freezes
-- stand here because every feature writes the one and obeys the other.
-- +goose Up

CREATE TABLE organizations (
    org_id     text PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT organizations_named CHECK (name <> '' AND length(name) <= 200)
);
SELECT coffer_tenant('organizations', 'SELECT', 'SELECT, INSERT');

-- Only the hash of a key is kept. One key an organization is live.
CREATE TABLE api_keys (
    api_key_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    rolled_at  timestamptz,
    CONSTRAINT api_keys_hash_unique UNIQUE (hash),
    CONSTRAINT api_keys_hash_sha256 CHECK (length(hash) = 32)
);
CREATE UNIQUE INDEX api_keys_one_live ON api_keys (org_id) WHERE rolled_at IS NULL;
SELECT coffer_tenant('api_keys', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE TABLE organization_settings (
    org_id                          text PRIMARY KEY REFERENCES organizations,
    customer_withdraw_usd_threshold numeric(38,18),
    require_withdraw_idempotency    boolean NOT NULL DEFAULT false,
    updated_at                      timestamptz NOT NULL,
    CONSTRAINT organization_settings_threshold_not_negative CHECK (customer_withdraw_usd_threshold >= 0)
);
SELECT coffer_tenant('organization_settings', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE TABLE people (
    user_id    text PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organizations,
    email      text NOT NULL,
    name       text NOT NULL,
    roles      text[] NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT people_email_unique UNIQUE (org_id, email),
    CONSTRAINT people_roles_known CHECK (roles <@ ARRAY['OWNER','ADMIN','APPROVER','FINANCE','DEVELOPER','VIEWER'] AND cardinality(roles) > 0)
);
SELECT coffer_tenant('people', 'SELECT', 'SELECT, INSERT, UPDATE');

-- A customer id is compared byte for byte, whatever the database's collation.
CREATE TABLE customers (
    org_id           text NOT NULL REFERENCES organizations,
    customer_id      text COLLATE "C" NOT NULL,
    email            text,
    email_changed_at timestamptz,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    CONSTRAINT customers_pkey PRIMARY KEY (org_id, customer_id),
    CONSTRAINT customers_id_bounded CHECK (octet_length(customer_id) BETWEEN 1 AND 128),
    CONSTRAINT customers_email_bounded CHECK (octet_length(email) BETWEEN 3 AND 254)
);
CREATE INDEX customers_listed ON customers (org_id, created_at, customer_id);
SELECT coffer_tenant('customers', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE');

-- A mint is a token on a chain. What identifies it never changes: the id is
-- in every row of the books.
CREATE TABLE mints (
    mint_id                integer PRIMARY KEY,
    chain                  text NOT NULL,
    network                text NOT NULL,
    kind                   text NOT NULL,
    contract               text NOT NULL, -- '' for the native coin
    symbol                 text NOT NULL,
    name                   text NOT NULL,
    decimals               smallint NOT NULL,
    logo_url               text,
    deposit_enabled        boolean NOT NULL,
    withdraw_enabled       boolean NOT NULL,
    min_deposit            numeric(78,0) NOT NULL,
    min_withdraw           numeric(78,0) NOT NULL,
    confirmations_required integer NOT NULL,
    finality               text NOT NULL,
    quarantined_at         timestamptz,
    quarantine_reason      text,
    CONSTRAINT mints_contract_unique UNIQUE (chain, contract),
    CONSTRAINT mints_kind_known CHECK ((kind = 'NATIVE' AND contract = '') OR (kind = 'TOKEN' AND contract <> '')),
    CONSTRAINT mints_network_known CHECK (network IN ('MAINNET', 'TESTNET', 'LOCAL')),
    CONSTRAINT mints_decimals_bounded CHECK (decimals BETWEEN 0 AND 36),
    CONSTRAINT mints_minimums_positive CHECK (min_deposit > 0 AND min_withdraw > 0),
    CONSTRAINT mints_quarantine_reasoned CHECK ((quarantined_at IS NULL) = (quarantine_reason IS NULL))
);
SELECT coffer_shared('mints', 'SELECT', 'SELECT, INSERT, UPDATE');

-- +goose StatementBegin
CREATE FUNCTION mints_keep_identity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.mint_id, NEW.chain, NEW.network, NEW.contract, NEW.decimals) IS DISTINCT FROM
       (OLD.mint_id, OLD.chain, OLD.network, OLD.contract, OLD.decimals) THEN
        RAISE EXCEPTION 'mint % cannot become another token', OLD.mint_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'mints_identity_fixed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER mints_identity_fixed BEFORE UPDATE ON mints FOR EACH ROW EXECUTE FUNCTION mints_keep_identity();

-- What is stopped, by whom and why. A freeze is lifted, never deleted.
CREATE TABLE freezes (
    freeze_id  text PRIMARY KEY,
    scope      text NOT NULL,
    org_id     text REFERENCES organizations,
    customer_id text COLLATE "C",
    chain      text,
    wallet_id  text,
    source     text NOT NULL,
    reason     text NOT NULL,
    created_at timestamptz NOT NULL,
    lifted_at  timestamptz,
    lifted_by  text,
    CONSTRAINT freezes_scope_known CHECK (
        CASE scope
            WHEN 'ALL' THEN num_nonnulls(org_id, customer_id, chain, wallet_id) = 0
            WHEN 'CHAIN' THEN chain IS NOT NULL AND num_nonnulls(org_id, customer_id, wallet_id) = 0
            WHEN 'WALLET' THEN wallet_id IS NOT NULL AND chain IS NOT NULL AND customer_id IS NULL
            WHEN 'ORGANIZATION' THEN org_id IS NOT NULL AND num_nonnulls(customer_id, chain, wallet_id) = 0
            WHEN 'CUSTOMER' THEN num_nonnulls(org_id, customer_id) = 2 AND num_nonnulls(chain, wallet_id) = 0
            ELSE false
        END),
    CONSTRAINT freezes_source_known CHECK (source IN ('ORGANIZATION', 'OPERATOR', 'VERIFY', 'FINALITY', 'DISPATCH', 'SIGNER')),
    CONSTRAINT freezes_lift_named CHECK ((lifted_at IS NULL) = (lifted_by IS NULL))
);
-- One of each source at a time, so that putting it again adds nothing.
CREATE UNIQUE INDEX freezes_one_standing ON freezes
    (scope, source, coalesce(org_id, ''), coalesce(customer_id, ''), coalesce(chain, ''), coalesce(wallet_id, ''))
    WHERE lifted_at IS NULL;
SELECT coffer_shared('freezes', 'SELECT, INSERT', 'SELECT, INSERT, UPDATE');
-- A tenant sees the freezes that concern it: its own and those without an organization.
ALTER TABLE freezes ENABLE ROW LEVEL SECURITY;
ALTER TABLE freezes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON freezes TO coffer_app
    USING (org_id IS NULL OR org_id = current_setting('app.org', true))
    WITH CHECK (org_id = current_setting('app.org', true));
CREATE POLICY system ON freezes TO coffer_system USING (true) WITH CHECK (true);
CREATE POLICY reader ON freezes FOR SELECT TO coffer_reader USING (true);

-- Who did what to which resource, in the transaction that did it.
CREATE TABLE audit_log (
    audit_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id      text REFERENCES organizations,
    at          timestamptz NOT NULL,
    actor_kind  text NOT NULL,
    actor_id    text NOT NULL,
    action      text NOT NULL,
    resource_kind text NOT NULL,
    resource_id text NOT NULL,
    detail      jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT audit_log_actor_known CHECK (actor_kind IN ('API_KEY', 'USER', 'OPERATOR', 'SYSTEM'))
);
CREATE INDEX audit_log_resource ON audit_log (resource_id, audit_id);
SELECT coffer_tenant('audit_log', 'SELECT, INSERT', 'SELECT, INSERT');

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% rows are written once', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', CONSTRAINT = TG_TABLE_NAME || '_append_only';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
