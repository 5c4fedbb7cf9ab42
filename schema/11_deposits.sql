-- Deposits: movements on a chain to our addresses.
--
-- A deposit is credited once, on the live proof of its very block, and then posted in the
-- books. Deposits are written a thousand at a time, so what can be checked for all rows of a
-- statement is checked together (decision 0033).

CREATE TABLE deposits (
    deposit_id     text PRIMARY KEY,
    org_id         text NOT NULL,
    wallet_id      text NOT NULL,
    purpose        text NOT NULL,
    customer_id    text COLLATE "C",
    mint_id        integer,                    -- NULL: the token is not in the catalogue
    chain          text NOT NULL,
    contract       text NOT NULL,
    amount         numeric(78,0) NOT NULL,
    address        text NOT NULL,
    from_address   text NOT NULL,
    tx_hash        text NOT NULL,
    kind           text NOT NULL,
    position       text NOT NULL,
    log_index      bigint NOT NULL,
    height         bigint NOT NULL,
    block_hash     text NOT NULL,
    proof_id       bigint,
    status         text NOT NULL,
    chain_status   text NOT NULL,
    reason         text,                       -- why it is UNSUPPORTED
    usd_value      numeric(38,18),
    screening      jsonb NOT NULL DEFAULT '{"status":"PENDING"}',
    is_flagged     boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL,
    confirmed_at   timestamptz,
    credited_at    timestamptz,
    reversed_at    timestamptz,
    taken_back     numeric(78,0),              -- what a reversal took from the credited account; the rest is lost
    claim_count    integer NOT NULL DEFAULT 0, -- how often a part of the loss was taken later
    product        text,                       -- the product that it belongs to, in place of a customer
    screen_after   timestamptz,                -- when it is screened again
    screen_tries   integer NOT NULL DEFAULT 0,
    risk_of_funds  text,
    flag_reason    jsonb,
    flagged_at     timestamptz,
    return_to      text,                       -- the sender when it was flagged; NULL: it has none
    return_risk    text,
    return_mac     bytea,                      -- of the flag's columns, by the server's key; without it nothing is returned
    lost_at        timestamptz,                -- when a rejected or redirected deposit turned out to be gone: the operator's loss
    -- All senders, sorted, where a transaction has several; from_address is '' then. NULL where
    -- there are more than 20, or one of them is unknown (decision 0057).
    senders        text[],
    -- How deep its block must be, by the tier of the amount when the block became final. 0:
    -- finality is enough (decision 0059).
    depth_required bigint NOT NULL DEFAULT 0,
    -- The swap at whose wallet it arrived, what it is for that swap, and whether it completes it.
    -- Organizations do not see what is hidden: a refund, and a stray until a person credits it.
    swap_id        text,
    arrival_role   text,
    completes_swap boolean NOT NULL DEFAULT false,
    is_hidden      boolean NOT NULL DEFAULT false,
    -- The deposit swap at whose wallet it arrived. Its customer follows from the row of the deposit swap; while there
    -- is none, the deposit waits and is hidden.
    deposit_swap_id text,
    checkout_id    text,                       -- the checkout at whose own wallet it arrived
    CONSTRAINT deposits_positive CHECK (amount > 0),
    CONSTRAINT deposits_kind_known CHECK (kind IN ('NATIVE', 'INTERNAL', 'TOKEN')),
    CONSTRAINT deposits_subject CHECK (
        CASE WHEN purpose = 'CUSTOMER_DEPOSIT' THEN customer_id IS NOT NULL
            WHEN purpose = 'DEPOSIT_SWAP' THEN customer_id IS NOT NULL
                OR status IN ('DETECTED', 'CONFIRMING', 'SCREENING', 'ORPHANED', 'UNSUPPORTED', 'BELOW_MINIMUM')
            ELSE customer_id IS NULL OR purpose IN ('SWAP_DELIVERY', 'SWAP_REFUND') END),
    CONSTRAINT deposits_product CHECK (
        CASE WHEN purpose IN ('SWAP_DELIVERY', 'SWAP_REFUND') THEN num_nonnulls(customer_id, product) <= 1
            WHEN purpose IN ('CHECKOUT', 'CHECKOUT_SHARED') THEN product IS NOT DISTINCT FROM 'CHECKOUT'
            ELSE (purpose = 'ORGANIZATION_DEPOSIT') = (product IS NOT NULL) END
        AND (product IS NULL OR product IN ('CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT'))),
    CONSTRAINT deposits_status_known CHECK (status IN
        ('DETECTED', 'CONFIRMING', 'SCREENING', 'CREDITED', 'REVERSED', 'ORPHANED', 'UNSUPPORTED', 'BELOW_MINIMUM',
         'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED')),
    CONSTRAINT deposits_chain_status_known CHECK (chain_status IN ('INCLUDED', 'FINALIZED', 'REORGED')),
    -- A deposit is screened and credited only after its block is proven final. Rule DEP-3.
    CONSTRAINT deposits_final_before_credit CHECK (
        status NOT IN ('SCREENING', 'CREDITED', 'REVERSED', 'BELOW_MINIMUM') OR proof_id IS NOT NULL),
    -- A credited or flagged deposit keeps its proof, even if the proof is dead.
    CONSTRAINT deposits_final_has_proof CHECK (
        (proof_id IS NOT NULL) = (chain_status = 'FINALIZED' OR chain_status = 'REORGED' AND status IN
            ('CREDITED', 'REVERSED',
             'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED'))),
    CONSTRAINT deposits_mint_before_credit CHECK (
        status IN ('UNSUPPORTED', 'DETECTED', 'CONFIRMING', 'ORPHANED') OR mint_id IS NOT NULL),
    CONSTRAINT deposits_credited_at CHECK ((status IN ('CREDITED', 'REVERSED')) = (credited_at IS NOT NULL)),
    CONSTRAINT deposits_reversed_whole CHECK (
        (status = 'REVERSED') = (reversed_at IS NOT NULL) AND (status = 'REVERSED') = (taken_back IS NOT NULL)),
    CONSTRAINT deposits_taken_back_bounded CHECK (taken_back BETWEEN 0 AND amount),
    CONSTRAINT deposits_reversed_is_gone CHECK (status <> 'REVERSED' OR chain_status = 'REORGED'),
    CONSTRAINT deposits_flagged_whole CHECK (
        is_flagged = (flagged_at IS NOT NULL)
        AND is_flagged = (risk_of_funds IS NOT NULL)
        AND is_flagged = (flag_reason IS NOT NULL)
        AND (is_flagged OR status NOT IN
            ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED'))),
    CONSTRAINT deposits_return_risk_known CHECK (
        return_risk IN ('NONE', 'MULTIPLE_INPUTS', 'CONTRACT', 'KNOWN_EXCHANGE', 'SWAP_SOLVER')),
    CONSTRAINT deposits_risk_known CHECK (risk_of_funds IN ('NONE', 'LOW', 'MEDIUM', 'HIGH', 'SEVERE', 'UNKNOWN')),
    CONSTRAINT deposits_lost_whole CHECK (
        lost_at IS NULL OR status IN ('REJECTED', 'REDIRECTED') AND chain_status = 'REORGED'),
    CONSTRAINT deposits_senders_several CHECK (senders IS NULL OR
        from_address = '' AND cardinality(senders) BETWEEN 2 AND 20 AND array_ndims(senders) = 1
        AND array_position(senders, NULL) IS NULL AND array_position(senders, '') IS NULL),
    CONSTRAINT deposits_depth_required CHECK (depth_required >= 0),
    CONSTRAINT deposits_swap CHECK ((purpose IN ('SWAP_DELIVERY', 'SWAP_REFUND')) = (swap_id IS NOT NULL)),
    CONSTRAINT deposits_deposit_swap CHECK ((purpose = 'DEPOSIT_SWAP') = (deposit_swap_id IS NOT NULL)),
    CONSTRAINT deposits_checkout CHECK ((purpose = 'CHECKOUT') = (checkout_id IS NOT NULL)),
    CONSTRAINT deposits_arrival CHECK (
        CASE WHEN swap_id IS NULL THEN arrival_role IS NULL AND NOT completes_swap
                AND is_hidden = (deposit_swap_id IS NOT NULL AND customer_id IS NULL)
            WHEN status NOT IN ('CREDITED', 'REVERSED') THEN arrival_role IS NULL AND NOT completes_swap AND is_hidden
            WHEN arrival_role = 'DELIVERY' THEN purpose = 'SWAP_DELIVERY' AND num_nonnulls(customer_id, product) = 1 AND NOT is_hidden
            WHEN arrival_role = 'REFUND' THEN purpose = 'SWAP_REFUND' AND is_hidden AND NOT completes_swap
            WHEN arrival_role = 'STRAY' THEN NOT completes_swap AND (is_hidden OR num_nonnulls(customer_id, product) = 1)
            ELSE false
        END)
);
-- A movement on a chain has one row that counts. Rows that the chain took away may exist as
-- well: on another fork the same position of the same transaction can have paid another
-- address, and that must not stop the scan. A credited row that waits for its reversal can
-- come back only if no other row took its place. Rule DEP-4.
CREATE UNIQUE INDEX deposits_movement_once ON deposits (chain, tx_hash, kind, position) WHERE chain_status <> 'REORGED';
CREATE INDEX deposits_of_transaction ON deposits (chain, tx_hash);
CREATE INDEX deposits_to_credit ON deposits (deposit_id) WHERE status = 'SCREENING';
CREATE INDEX deposits_not_final ON deposits (chain, height) WHERE status IN ('DETECTED', 'CONFIRMING');
CREATE INDEX deposits_reorged ON deposits (chain, deposit_id)
    WHERE status = 'CREDITED' AND chain_status = 'REORGED';
CREATE INDEX deposits_flags_reorged ON deposits (chain, deposit_id) WHERE is_flagged AND chain_status = 'REORGED';
CREATE INDEX deposits_proven_above ON deposits (chain, height) WHERE proof_id IS NOT NULL;
CREATE INDEX deposits_lost ON deposits (org_id, customer_id) WHERE status = 'REVERSED';
-- For lists: every filter that leaves few rows of many has an index.
CREATE INDEX deposits_listed ON deposits (org_id, created_at, deposit_id);
CREATE INDEX deposits_of_customer ON deposits (org_id, customer_id, created_at, deposit_id);
CREATE INDEX deposits_of_product ON deposits (org_id, product, created_at, deposit_id) WHERE product IS NOT NULL;
CREATE INDEX deposits_of_status ON deposits (org_id, status, created_at, deposit_id);
CREATE INDEX deposits_of_mint ON deposits (org_id, mint_id, created_at, deposit_id);
CREATE INDEX deposits_of_chain ON deposits (org_id, chain, created_at, deposit_id);
CREATE INDEX deposits_of_address ON deposits (org_id, address, created_at, deposit_id);
CREATE INDEX deposits_flagged ON deposits (org_id, created_at, deposit_id) WHERE is_flagged;
-- Who else paid from an address to which a payer wants a refund.
CREATE INDEX deposits_of_sender ON deposits (from_address, created_at) WHERE from_address <> '';
CREATE INDEX deposits_to_resolve ON deposits (status, created_at) WHERE status IN ('FLAGGED', 'RESOLUTION_STUCK');
CREATE INDEX deposits_of_deposit_swap ON deposits (deposit_swap_id) WHERE deposit_swap_id IS NOT NULL;
CREATE INDEX deposits_of_checkout ON deposits (checkout_id) WHERE checkout_id IS NOT NULL;
CREATE INDEX deposits_of_swap ON deposits (swap_id) WHERE swap_id IS NOT NULL;
-- One deposit completes a swap. Invariant I-63.
CREATE UNIQUE INDEX deposits_completing_swap ON deposits (swap_id) WHERE completes_swap;
CREATE INDEX deposits_of_product_pending ON deposits (org_id)
    WHERE product IS NOT NULL AND status IN ('DETECTED', 'CONFIRMING', 'SCREENING');
SELECT coffer_tenant('deposits', 'SELECT', 'SELECT, INSERT, UPDATE');

-- The wallet, with the checkout that it is of, the customer, the mint with its contract and the proof of the very
-- block, in place of foreign keys. Rows that are referred to never leave, so the check at the write is
-- enough. Of an update it takes the rows that changed by EXCEPT: a join of the rows before
-- and after, planned for one row, compares every row with every other.
CREATE FUNCTION deposits_refer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT n.deposit_id INTO lost FROM written n
        WHERE (SELECT w.org_id = n.org_id AND n.checkout_id IS NOT DISTINCT FROM CASE w.purpose WHEN 'CHECKOUT' THEN w.subject END
            FROM wallets w WHERE w.wallet_id = n.wallet_id) IS NOT TRUE
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % reached no wallet of its organization and checkout', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_wallet';
        END IF;
        SELECT n.deposit_id INTO lost FROM written n
        WHERE n.customer_id IS NOT NULL
            AND (SELECT c.created_at FROM customers c WHERE c.org_id = n.org_id AND c.customer_id = n.customer_id) IS NULL
        LIMIT 1;
        IF lost IS NOT NULL THEN
            RAISE EXCEPTION 'deposit % is for no customer of its organization', lost
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_customer';
        END IF;
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id FROM written WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT mint_id, chain, contract, min(deposit_id) AS id
            FROM (SELECT deposit_id, mint_id, chain, contract FROM written EXCEPT SELECT deposit_id, mint_id, chain, contract FROM was) moved
            WHERE mint_id IS NOT NULL GROUP BY 1, 2, 3) n
        WHERE (SELECT (m.chain, m.contract) = (n.chain, n.contract) FROM mints m WHERE m.mint_id = n.mint_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % is of another contract than its mint', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_mint';
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id FROM written WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    ELSE
        SELECT n.id INTO lost
        FROM (SELECT chain, proof_id, height, block_hash, min(deposit_id) AS id
            FROM (SELECT deposit_id, chain, proof_id, height, block_hash FROM written
                EXCEPT SELECT deposit_id, chain, proof_id, height, block_hash FROM was) moved
            WHERE proof_id IS NOT NULL GROUP BY 1, 2, 3, 4) n
        WHERE (SELECT (p.chain, p.height, p.hash) = (n.chain, n.height, n.block_hash) FROM finality_proofs p WHERE p.proof_id = n.proof_id) IS NOT TRUE
        LIMIT 1;
    END IF;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'deposit % leans on the proof of another block', lost
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deposits_proof';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER deposits_refer AFTER INSERT ON deposits
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_refer();
CREATE TRIGGER deposits_refer_moved AFTER UPDATE ON deposits
    REFERENCING OLD TABLE AS was NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_refer();

-- A deposit that counts relies on a live proof. The cursors are locked before the proofs are
-- read: a break that committed meanwhile is seen, and a later one waits. Rule DEP-20.
CREATE FUNCTION deposits_proof_live() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    chains  text[];
    proofs  bigint[];
    heights bigint[];
    ids     text[];
    dead    text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(n.chain ORDER BY n.chain), array_agg(n.proof_id ORDER BY n.chain), array_agg(n.height ORDER BY n.chain), array_agg(n.id ORDER BY n.chain)
        INTO chains, proofs, heights, ids
        FROM (SELECT chain, proof_id, max(height) AS height, min(deposit_id) AS id FROM written
            WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL GROUP BY 1, 2) n;
    ELSE
        SELECT array_agg(n.chain ORDER BY n.chain), array_agg(n.proof_id ORDER BY n.chain), array_agg(n.height ORDER BY n.chain), array_agg(n.id ORDER BY n.chain)
        INTO chains, proofs, heights, ids
        FROM (SELECT chain, proof_id, max(height) AS height, min(deposit_id) AS id
            FROM (SELECT deposit_id, chain, height, proof_id, status FROM written WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL
                EXCEPT
                SELECT deposit_id, chain, height, proof_id, status FROM was WHERE chain_status = 'FINALIZED' AND proof_id IS NOT NULL) moved
            GROUP BY 1, 2) n;
    END IF;
    IF chains IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM scan_cursors c WHERE c.chain = ANY (chains) ORDER BY c.chain FOR KEY SHARE;
    SELECT min(n.id) INTO dead FROM unnest(chains, proofs, heights, ids) AS n (chain, proof_id, height, id)
    WHERE NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = n.proof_id)
        OR EXISTS (SELECT FROM scan_cursors c WHERE c.chain = n.chain AND n.height > c.forked_above);
    IF dead IS NOT NULL THEN
        RAISE EXCEPTION 'the proof of deposit % is dead', dead
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_proof_live';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER deposits_proof_live AFTER INSERT ON deposits
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_proof_live();
CREATE TRIGGER deposits_proof_live_moved AFTER UPDATE ON deposits
    REFERENCING OLD TABLE AS was NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION deposits_proof_live();

-- A deposit stays the movement that it is. A final one changes only if its proof died. A
-- credited deposit that left the chain is CREDITED and REORGED until the new fork shows it
-- again, or is scanned far enough to show that it is gone: then it is REVERSED.
CREATE FUNCTION deposits_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    gone boolean; -- the proof of the deposit is dead
BEGIN
    -- The customer of an arrival for a swap is written with its credit, and that of an arrival for a deposit swap
    -- before it is decided.
    IF (NEW.deposit_id, NEW.org_id, NEW.wallet_id, NEW.swap_id, NEW.deposit_swap_id, NEW.checkout_id, NEW.chain, NEW.contract, NEW.address, NEW.tx_hash, NEW.kind, NEW.position)
       IS DISTINCT FROM
       (OLD.deposit_id, OLD.org_id, OLD.wallet_id, OLD.swap_id, OLD.deposit_swap_id, OLD.checkout_id, OLD.chain, OLD.contract, OLD.address, OLD.tx_hash, OLD.kind, OLD.position)
       OR NEW.customer_id IS DISTINCT FROM OLD.customer_id
          AND NOT (OLD.customer_id IS NULL AND OLD.swap_id IS NOT NULL AND OLD.status = 'SCREENING' AND NEW.status = 'CREDITED')
          AND NOT (OLD.customer_id IS NULL AND OLD.deposit_swap_id IS NOT NULL AND OLD.status NOT IN ('CREDITED', 'REVERSED')
              AND NOT OLD.is_flagged)
       OR OLD.status IN ('CREDITED', 'REVERSED') AND ((NEW.arrival_role, NEW.completes_swap) IS DISTINCT FROM (OLD.arrival_role, OLD.completes_swap)
          OR NEW.is_hidden AND NOT OLD.is_hidden) THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    -- Looked up only where it matters: not when a deposit is credited.
    gone := false;
    IF OLD.proof_id IS NOT NULL AND ((NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)
       OR OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status) THEN
        gone := NOT EXISTS (SELECT FROM finality_live p WHERE p.proof_id = OLD.proof_id);
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.amount <> OLD.amount
       OR NOT gone AND (NEW.proof_id, NEW.height, NEW.block_hash) IS DISTINCT FROM (OLD.proof_id, OLD.height, OLD.block_hash)) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    IF OLD.status IN ('CREDITED', 'BELOW_MINIMUM', 'REVERSED') AND NEW.status <> OLD.status
       AND NOT (gone AND (OLD.status, NEW.status) IN (('CREDITED', 'REVERSED'), ('BELOW_MINIMUM', 'ORPHANED'))) THEN
        RAISE EXCEPTION 'deposit % is %', OLD.deposit_id, OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.credited_at IS NOT NULL AND NEW.credited_at <> OLD.credited_at THEN
        RAISE EXCEPTION 'deposit % was credited once', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    IF OLD.status = 'REVERSED' AND ((NEW.proof_id, NEW.height, NEW.block_hash, NEW.reversed_at) IS DISTINCT FROM
            (OLD.proof_id, OLD.height, OLD.block_hash, OLD.reversed_at)
       OR NEW.taken_back < OLD.taken_back OR NEW.claim_count < OLD.claim_count) THEN
        RAISE EXCEPTION 'deposit % was reversed', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_terminal';
    END IF;
    -- Only after the new fork was scanned so far that it would have the deposit.
    IF NEW.status = 'REVERSED' AND OLD.status <> 'REVERSED' AND EXISTS (
        SELECT FROM finality_breaks b
        JOIN finality_proofs p ON p.proof_id = OLD.proof_id AND b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height
        LEFT JOIN scan_cursors c ON c.chain = b.chain AND c.height >= b.settle_height AND c.forked_above IS NULL
        WHERE c.chain IS NULL) THEN
        RAISE EXCEPTION 'deposit % may still be found again', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_reversed_in_time';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_keep BEFORE UPDATE ON deposits FOR EACH ROW EXECUTE FUNCTION deposits_keep();

-- The owner of a deposit never changes, and the mint and purpose of a final one do not. The product of an
-- arrival for a swap is written with its credit.
CREATE FUNCTION deposits_final_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.product IS DISTINCT FROM OLD.product
       AND NOT (OLD.product IS NULL AND OLD.swap_id IS NOT NULL AND OLD.status = 'SCREENING' AND NEW.status = 'CREDITED') THEN
        RAISE EXCEPTION 'deposit % cannot become another movement', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_identity_fixed';
    END IF;
    IF OLD.proof_id IS NOT NULL AND (NEW.mint_id, NEW.purpose) IS DISTINCT FROM (OLD.mint_id, OLD.purpose) THEN
        RAISE EXCEPTION 'deposit % is final', OLD.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_final_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_final_keep BEFORE UPDATE ON deposits FOR EACH ROW EXECUTE FUNCTION deposits_final_keep();

-- A deposit is credited only when its block is as deep as its amount requires. Rule DEP-43.
CREATE FUNCTION deposits_deep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.proof_id IS NOT NULL AND NEW.proof_id IS NOT NULL AND NEW.depth_required < OLD.depth_required THEN
        RAISE EXCEPTION 'deposit % is final and waits for % blocks', OLD.deposit_id, OLD.depth_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_deep';
    END IF;
    IF NEW.status = 'CREDITED' AND (TG_OP = 'INSERT' OR OLD.status <> 'CREDITED') AND NEW.depth_required > 1
       AND finality_depth(NEW.chain, NEW.height) < NEW.depth_required THEN
        RAISE EXCEPTION 'deposit % is not % blocks deep', NEW.deposit_id, NEW.depth_required
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_deep';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deposits_deep_first BEFORE INSERT ON deposits FOR EACH ROW WHEN (NEW.depth_required > 1)
    EXECUTE FUNCTION deposits_deep();
CREATE TRIGGER deposits_deep BEFORE UPDATE ON deposits
    FOR EACH ROW WHEN (NEW.depth_required > 1 OR OLD.depth_required > 1)
    EXECUTE FUNCTION deposits_deep();

-- A deposit that counts was posted.
CREATE FUNCTION deposits_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'DEPOSIT' AND cause_id = NEW.deposit_id AND leg = 0) THEN
        RAISE EXCEPTION 'deposit % is credited and was not posted', NEW.deposit_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deposits_posted';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deposits_posted AFTER INSERT OR UPDATE OF status ON deposits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'CREDITED') EXECUTE FUNCTION deposits_follow();
CREATE TRIGGER deposits_as_inserted BEFORE UPDATE OF created_at ON deposits
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a deposit's proof says of it changes with the proof. What was found out about its sender
-- and its value is written when the deposit is decided, and not after that.
CREATE TRIGGER deposits_written_once BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (NEW.purpose <> OLD.purpose
        OR OLD.proof_id IS NOT NULL AND NEW.proof_id = OLD.proof_id
            AND (NEW.from_address, NEW.senders, NEW.log_index, NEW.confirmed_at)
                IS DISTINCT FROM (OLD.from_address, OLD.senders, OLD.log_index, OLD.confirmed_at)
        OR NEW.status = OLD.status AND (NEW.credited_at, NEW.reversed_at) IS DISTINCT FROM (OLD.credited_at, OLD.reversed_at)
        OR OLD.status <> 'REVERSED' AND NEW.claim_count <> OLD.claim_count
        OR OLD.status NOT IN ('DETECTED', 'CONFIRMING', 'ORPHANED', 'SCREENING')
            AND (NEW.usd_value, NEW.screening, NEW.screen_after, NEW.screen_tries, NEW.reason, NEW.depth_required,
                NEW.risk_of_funds, NEW.flag_reason, NEW.flagged_at, NEW.return_to, NEW.return_risk, NEW.return_mac)
                IS DISTINCT FROM (OLD.usd_value, OLD.screening, OLD.screen_after, OLD.screen_tries, OLD.reason, OLD.depth_required,
                    OLD.risk_of_funds, OLD.flag_reason, OLD.flagged_at, OLD.return_to, OLD.return_risk, OLD.return_mac))
    EXECUTE FUNCTION refuse_row_change();

-- Counts of tokens that are not in the catalogue (decision 0078). A contract can claim
-- any number of transfers to our addresses, so only a thousand are recorded for a wallet and
-- chain. The rest is counted here. Transfers before this table existed are not counted.
-- Rule DEP-52.
CREATE TABLE unknown_token_counts (
    wallet_id     text NOT NULL REFERENCES wallets,
    chain         text NOT NULL,
    recorded      integer NOT NULL,          -- deposits of tokens that are not in the catalogue
    dropped       bigint NOT NULL DEFAULT 0, -- transfers of such tokens that were not recorded
    dropped_first bigint,                    -- the first block that had one of these
    dropped_last  bigint,                    -- the last one
    dropped_at    timestamptz,               -- when the last one was taken in
    PRIMARY KEY (wallet_id, chain),
    CONSTRAINT unknown_token_counts_recorded CHECK (recorded BETWEEN 0 AND 1000),
    CONSTRAINT unknown_token_counts_dropped CHECK (dropped >= 0
        AND (dropped > 0) = (dropped_first IS NOT NULL)
        AND (dropped > 0) = (dropped_last IS NOT NULL)
        AND (dropped > 0) = (dropped_at IS NOT NULL)
        AND (dropped_first IS NULL OR dropped_first <= dropped_last))
);
CREATE INDEX unknown_token_counts_dropped_at ON unknown_token_counts (dropped_at) WHERE dropped_at IS NOT NULL;
SELECT coffer_shared('unknown_token_counts', '',
    'SELECT, INSERT, UPDATE (recorded, dropped, dropped_first, dropped_last, dropped_at)');

-- Both counts only grow, and a row stays: a wallet gets its thousand once.
CREATE FUNCTION unknown_token_counts_grow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.recorded < OLD.recorded OR NEW.dropped < OLD.dropped THEN
        RAISE EXCEPTION 'the counts of unknown tokens of wallet % on % only grow', OLD.wallet_id, OLD.chain
            USING ERRCODE = 'check_violation', CONSTRAINT = 'unknown_token_counts_grow';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER unknown_token_counts_grow BEFORE UPDATE ON unknown_token_counts
    FOR EACH ROW EXECUTE FUNCTION unknown_token_counts_grow();
CREATE TRIGGER unknown_token_counts_stay BEFORE DELETE OR TRUNCATE ON unknown_token_counts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER unknown_token_counts_as_inserted BEFORE UPDATE OF wallet_id, chain ON unknown_token_counts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Memos that payers on Solana wrote into their transactions, such as an order number
-- (decision 0084). A memo is read after its deposit was recorded and decides nothing, so
-- it is no column of deposits: a transaction that made a deposit has a row here, and the
-- service asks providers until an answer is proven by the transaction's id. Rule DEP-54.
CREATE TABLE transaction_memos (
    chain           text NOT NULL,
    tx_hash         text NOT NULL,
    status          text NOT NULL DEFAULT 'DUE',
    memo            text, -- what the payer wrote, cleaned; NULL: nothing, or not read yet
    attempts        integer NOT NULL DEFAULT 0,
    last_error      text NOT NULL DEFAULT '',
    next_attempt_at timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (chain, tx_hash),
    CONSTRAINT transaction_memos_status_known CHECK (status IN ('DUE', 'READ', 'ABANDONED')),
    CONSTRAINT transaction_memos_read CHECK (
        memo IS NULL OR status = 'READ' AND octet_length(memo) BETWEEN 1 AND 4096),
    CONSTRAINT transaction_memos_ended_at CHECK ((status = 'DUE') = (ended_at IS NULL)),
    CONSTRAINT transaction_memos_attempts CHECK (attempts >= 0 AND (status = 'DUE' OR attempts > 0))
);
CREATE INDEX transaction_memos_due ON transaction_memos (chain, next_attempt_at) WHERE status = 'DUE';
CREATE INDEX transaction_memos_abandoned ON transaction_memos (ended_at) WHERE status = 'ABANDONED';
SELECT coffer_shared('transaction_memos', 'SELECT',
    'SELECT, INSERT, UPDATE (status, memo, attempts, last_error, next_attempt_at, ended_at)');

-- A memo is read once and never changes. A row stays.
CREATE FUNCTION transaction_memos_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'DUE' OR NEW.attempts <> 0 THEN
            RAISE EXCEPTION 'the memo of transaction % is not read yet', NEW.tx_hash
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_memos_due_first';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.status <> 'DUE' OR NEW.attempts <= OLD.attempts
       OR (NEW.chain, NEW.tx_hash, NEW.created_at) IS DISTINCT FROM (OLD.chain, OLD.tx_hash, OLD.created_at) THEN
        RAISE EXCEPTION 'the memo of transaction % was read or given up, or the row is another one', OLD.tx_hash
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_memos_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER transaction_memos_keep BEFORE INSERT OR UPDATE ON transaction_memos
    FOR EACH ROW EXECUTE FUNCTION transaction_memos_keep();
CREATE TRIGGER transaction_memos_stay BEFORE DELETE OR TRUNCATE ON transaction_memos
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
