-- Why: where each chain's walks stand, the proof that a block is final, and
-- the deposits that were found. A credit needs the proof of its block, and a
-- movement on a chain is one row for ever.
-- +goose Up

-- The final walk: the last block whose deposits are all in here.
CREATE TABLE scan_cursors (
    chain      text PRIMARY KEY,
    height     bigint NOT NULL,
    hash       text NOT NULL,
    updated_at timestamptz NOT NULL
);
SELECT coffer_shared('scan_cursors', 'SELECT', 'SELECT, INSERT, UPDATE');

CREATE TABLE finality_proofs (
    proof_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain      text NOT NULL,
    height     bigint NOT NULL,
    hash       text NOT NULL,
    parent     text NOT NULL,
    block_time timestamptz NOT NULL,
    providers  integer NOT NULL,
    verified   text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT finality_proofs_height_once UNIQUE (chain, height),
    CONSTRAINT finality_proofs_of_block UNIQUE (chain, proof_id),
    CONSTRAINT finality_proofs_provided CHECK (providers >= 1)
);
SELECT coffer_shared('finality_proofs', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER finality_proofs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON finality_proofs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The head walk: recent blocks as one provider shows them. Disposable.
CREATE TABLE scan_heads (
    chain  text NOT NULL,
    height bigint NOT NULL,
    hash   text NOT NULL,
    parent text NOT NULL,
    CONSTRAINT scan_heads_pkey PRIMARY KEY (chain, height)
);
SELECT coffer_shared('scan_heads', 'SELECT', 'SELECT, INSERT, UPDATE, DELETE');

-- What a person has to look at: a native balance that nothing explains, a
-- token whose events and balances differ.
CREATE TABLE scan_findings (
    finding_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain      text NOT NULL,
    kind       text NOT NULL,
    height     bigint NOT NULL,
    hash       text NOT NULL,
    address    text NOT NULL,
    contract   text NOT NULL,
    detail     text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT scan_findings_once UNIQUE (chain, height, kind, address, contract),
    CONSTRAINT scan_findings_kind_known CHECK (kind IN ('UNATTRIBUTED', 'BALANCE_DELTA', 'FINALITY_BROKEN'))
);
SELECT coffer_shared('scan_findings', 'SELECT', 'SELECT, INSERT');

CREATE TABLE deposits (
    deposit_id   text PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organizations,
    wallet_id    text NOT NULL,
    purpose      text NOT NULL,
    customer_id  text COLLATE "C",
    mint_id      integer REFERENCES mints,   -- NULL for a token that is not in the catalogue
    chain        text NOT NULL,
    contract     text NOT NULL,
    amount       numeric(78,0) NOT NULL,
    address      text NOT NULL,
    from_address text NOT NULL,
    tx_hash      text NOT NULL,
    kind         text NOT NULL,
    position     text NOT NULL,
    log_index    bigint NOT NULL,
    height       bigint NOT NULL,
    block_hash   text NOT NULL,
    proof_id     bigint,
    status       text NOT NULL,
    chain_status text NOT NULL,
    reason       text,                       -- why UNSUPPORTED
    usd_value    numeric(38,18),
    screening    jsonb NOT NULL DEFAULT '{"status":"PENDING"}',
    is_flagged   boolean NOT NULL DEFAULT false,
    created_at   timestamptz NOT NULL,
    confirmed_at timestamptz,
    credited_at  timestamptz,
    CONSTRAINT deposits_of_org UNIQUE (org_id, deposit_id),
    CONSTRAINT deposits_wallet FOREIGN KEY (org_id, wallet_id) REFERENCES wallets (org_id, wallet_id),
    CONSTRAINT deposits_customer FOREIGN KEY (org_id, customer_id) REFERENCES customers (org_id, customer_id),
    CONSTRAINT deposits_proof FOREIGN KEY (chain, proof_id) REFERENCES finality_proofs (chain, proof_id),
    CONSTRAINT deposits_positive CHECK (amount > 0),
    CONSTRAINT deposits_kind_known CHECK (kind IN ('NATIVE', 'INTERNAL', 'TOKEN')),
    CONSTRAINT deposits_subject CHECK ((purpose = 'CUSTOMER_DEPOSIT') = (customer_id IS NOT NULL)),
    CONSTRAINT deposits_status_known CHECK (status IN
        ('DETECTED', 'CONFIRMING', 'SCREENING', 'CREDITED', 'ORPHANED', 'UNSUPPORTED', 'BELOW_MINIMUM')),
    CONSTRAINT deposits_chain_status_known CHECK (chain_status IN ('INCLUDED', 'FINALIZED', 'REORGED')),
    -- Nothing is screened or credited before its block is proven final.
    CONSTRAINT deposits_final_before_credit CHECK (status NOT IN ('SCREENING', 'CREDITED', 'BELOW_MINIMUM') OR proof_id IS NOT NULL),
    CONSTRAINT deposits_final_has_proof CHECK ((chain_status = 'FINALIZED') = (proof_id IS NOT NULL)),
    CONSTRAINT deposits_mint_before_credit CHECK (status IN ('UNSUPPORTED', 'DETECTED', 'CONFIRMING', 'ORPHANED') OR mint_id IS NOT NULL),
    CONSTRAINT deposits_credited_at CHECK ((status = 'CREDITED') = (credited_at IS NOT NULL))
);
-- A movement on a chain is one living row for ever. Orphaned rows may lie beside
-- it: on another fork the same place of the same transaction can have paid
-- another address, and that must not stop the walk.
CREATE UNIQUE INDEX deposits_movement_once ON deposits (chain, tx_hash, kind, position) WHERE status <> 'ORPHANED';
CREATE INDEX deposits_of_transaction ON deposits (chain, tx_hash);
CREATE INDEX deposits_to_credit ON deposits (deposit_id) WHERE status = 'SCREENING';
CREATE INDEX deposits_not_final ON deposits (chain, height) WHERE status IN ('DETECTED', 'CONFIRMING');
CREATE INDEX deposits_listed ON deposits (org_id, created_at, deposit_id);
CREATE INDEX deposits_of_customer ON deposits (org_id, customer_id, created_at, deposit_id);
SELECT coffer_tenant('deposits', 'SELECT', 'SELECT, INSERT, UPDATE');

-- A row that left for good does not come back: the program's compare-and-swap
-- says so, and so does the table.
-- +goose StatementBegin
CREATE FUNCTION deposits_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.deposit_id, NEW.org_id, NEW.wallet_id, NEW.customer_id, NEW.chain, NEW.contract, NEW.address, NEW.tx_hash, NEW.kind, NEW.position)
       IS DISTINCT FROM
       (OLD.deposit_id, OLD.org_id, OLD.wallet_id, OLD.customer_id, OLD.chain, OLD.contract, OLD.address, OLD.tx_hash, OLD.kind, OLD.position) THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.proof_id, NEW.amount, NEW.height, NEW.block_hash) IS DISTINCT FROM
       (OLD.proof_id, OLD.amount, OLD.height, OLD.block_hash) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    IF OLD.status IN ('CREDITED', 'BELOW_MINIMUM') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'deposit % is %', OLD.deposit_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER deposits_keep BEFORE UPDATE ON deposits FOR EACH ROW EXECUTE FUNCTION deposits_keep();
