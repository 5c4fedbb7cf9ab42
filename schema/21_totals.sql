-- The totals of organizations, so that no call sums up every balance (decision 0079).
--
-- Each statement that posts adds a row with the difference that it makes, so no two postings
-- wait for each other. The service folds the differences into one row for each organization
-- and mint. A reader adds the differences that are not folded yet to that row.

CREATE TABLE organization_totals (
    org_id      text NOT NULL,
    mint_id     integer NOT NULL,
    available   numeric NOT NULL, -- what customers may spend
    withdrawing numeric NOT NULL, -- what is held for customers' withdrawals
    addresses   numeric NOT NULL, -- on addresses other than the treasury's
    treasuries  numeric NOT NULL, -- on the treasury's addresses
    dust        numeric NOT NULL, -- the part of both that is below the minimum of its mint and not credited
    in_swap     numeric NOT NULL DEFAULT 0, -- what is held for customers' swaps
    CONSTRAINT organization_totals_pkey PRIMARY KEY (org_id, mint_id),
    CONSTRAINT organization_totals_org FOREIGN KEY (org_id) REFERENCES organizations,
    CONSTRAINT organization_totals_mint FOREIGN KEY (mint_id) REFERENCES mints
);
SELECT coffer_tenant('organization_totals', 'SELECT', 'SELECT');
CREATE TRIGGER organization_totals_stay BEFORE UPDATE OF org_id, mint_id OR DELETE OR TRUNCATE ON organization_totals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What one statement changed of the totals and is not folded yet. Rows are only added and
-- deleted. Autovacuum runs by the number of rows, because most of them leave soon.
CREATE TABLE organization_total_changes (
    org_id      text NOT NULL,
    change_id   bigint GENERATED ALWAYS AS IDENTITY,
    mint_id     integer NOT NULL,
    available   numeric NOT NULL DEFAULT 0,
    withdrawing numeric NOT NULL DEFAULT 0,
    addresses   numeric NOT NULL DEFAULT 0,
    treasuries  numeric NOT NULL DEFAULT 0,
    dust        numeric NOT NULL DEFAULT 0,
    in_swap     numeric NOT NULL DEFAULT 0,
    CONSTRAINT organization_total_changes_pkey PRIMARY KEY (org_id, change_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0);
SELECT coffer_tenant('organization_total_changes', 'SELECT', 'SELECT');
CREATE TRIGGER organization_total_changes_keep BEFORE UPDATE OR TRUNCATE ON organization_total_changes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The owner writes both tables in the functions below and in no other way. The functions read
-- the kind of an account and the purpose of a wallet.
CREATE POLICY keeper ON organization_totals TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY keeper ON organization_total_changes TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY keeper ON ledger_accounts FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY keeper ON wallets FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY keeper ON address_funds FOR SELECT TO CURRENT_USER USING (true);

-- A transfer between two customers changes no total and adds no row. An account is read by its
-- key, whatever the session knew about sizes when it planned. The accounts of transfers are those of
-- customers and of a few products, which ledger_transfers_of_cause has ensured before: then only the
-- products are looked up, once for the statement.
CREATE FUNCTION ledger_transfers_total() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    products bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM added WHERE cause_kind <> 'TRANSFER') THEN
        SELECT array_agg(a.account_id) INTO products
        FROM (SELECT DISTINCT org_id, mint_id FROM added) t
        CROSS JOIN unnest(ARRAY['CUSTODIAL', 'CHECKOUT', 'BATCH_PAYOUT']) AS p (product)
        CROSS JOIN LATERAL (SELECT account_id FROM ledger_accounts l
            WHERE l.org_id = t.org_id AND l.mint_id = t.mint_id AND l.kind = 'PRODUCT' AND l.subject = p.product LIMIT 1) a;
        IF products IS NULL THEN
            RETURN NULL;
        END IF;
        INSERT INTO organization_total_changes (org_id, mint_id, available)
        SELECT t.org_id, t.mint_id, sum(CASE WHEN t.debit_account = ANY (products) THEN t.amount ELSE -t.amount END)
        FROM added t
        WHERE (t.debit_account = ANY (products)) <> (t.credit_account = ANY (products))
        GROUP BY t.org_id, t.mint_id
        HAVING sum(CASE WHEN t.debit_account = ANY (products) THEN t.amount ELSE -t.amount END) <> 0;
        RETURN NULL;
    END IF;
    -- Each account is read once. Custody takes part in every credit.
    INSERT INTO organization_total_changes (org_id, mint_id, available, withdrawing, in_swap)
    SELECT m.org_id, m.mint_id, coalesce(sum(m.delta) FILTER (WHERE m.kind = 'CUSTOMER'), 0), coalesce(sum(m.delta) FILTER (WHERE m.kind = 'WITHDRAWING'), 0),
        coalesce(sum(m.delta) FILTER (WHERE m.kind = 'IN_SWAP'), 0)
    FROM (SELECT l.org_id, l.mint_id, l.delta, (SELECT a.kind FROM ledger_accounts a WHERE a.account_id = l.account_id) AS kind
          FROM (SELECT s.org_id, s.mint_id, s.account_id, sum(s.delta) AS delta
                FROM (SELECT org_id, mint_id, credit_account AS account_id, amount AS delta FROM added
                      UNION ALL
                      SELECT org_id, mint_id, debit_account, -amount FROM added) s
                GROUP BY s.org_id, s.mint_id, s.account_id) l) m
    WHERE m.kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP')
    GROUP BY m.org_id, m.mint_id
    HAVING coalesce(sum(m.delta) FILTER (WHERE m.kind = 'CUSTOMER'), 0) <> 0 OR coalesce(sum(m.delta) FILTER (WHERE m.kind = 'WITHDRAWING'), 0) <> 0
        OR coalesce(sum(m.delta) FILTER (WHERE m.kind = 'IN_SWAP'), 0) <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_total AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_transfers_total();

-- A promise or a hold changes no total. An organization has few treasuries, so the function looks those
-- up once for the statement and not the purpose of each wallet.
CREATE FUNCTION address_funds_total() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    own text[];
BEGIN
    SELECT coalesce(array_agg(w.wallet_id), '{}') INTO own
    FROM (SELECT DISTINCT org_id FROM after) o
    JOIN wallets w ON w.org_id = o.org_id AND w.purpose = 'TREASURY';
    IF TG_OP = 'INSERT' THEN
        INSERT INTO organization_total_changes (org_id, mint_id, addresses, treasuries, dust)
        SELECT f.org_id, f.mint_id, sum(CASE WHEN f.wallet_id = ANY (own) THEN 0 ELSE f.credited - f.swept + f.gas + f.dust END),
            sum(CASE WHEN f.wallet_id = ANY (own) THEN f.credited - f.swept + f.gas + f.dust ELSE 0 END), sum(f.dust)
        FROM after f
        WHERE f.credited - f.swept + f.gas + f.dust <> 0 OR f.dust <> 0
        GROUP BY f.org_id, f.mint_id;
    ELSE
        INSERT INTO organization_total_changes (org_id, mint_id, addresses, treasuries, dust)
        SELECT m.org_id, m.mint_id, m.addresses, m.treasuries, m.dust
        FROM (SELECT d.org_id, d.mint_id, sum(CASE WHEN d.wallet_id = ANY (own) THEN 0 ELSE d.here END) AS addresses,
                  sum(CASE WHEN d.wallet_id = ANY (own) THEN d.here ELSE 0 END) AS treasuries, sum(d.dust) AS dust
              FROM (SELECT wallet_id, org_id, mint_id, credited - swept + gas + dust AS here, dust FROM after
                    UNION ALL
                    SELECT wallet_id, org_id, mint_id, -(credited - swept + gas + dust), -dust FROM before) d
              GROUP BY d.org_id, d.mint_id) m
        WHERE m.addresses <> 0 OR m.treasuries <> 0 OR m.dust <> 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER address_funds_total_added AFTER INSERT ON address_funds
    REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION address_funds_total();
CREATE TRIGGER address_funds_total_changed AFTER UPDATE ON address_funds
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION address_funds_total();

-- Moves at most that many differences into their totals, in one statement: a reader sees each
-- difference in one of the two tables. Two folds at the same moment take different rows, and
-- lock the totals in one order.
CREATE FUNCTION fold_organization_totals(most integer) RETURNS bigint LANGUAGE sql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT org_id, change_id FROM organization_total_changes LIMIT most FOR UPDATE SKIP LOCKED),
    taken AS (
        DELETE FROM organization_total_changes c USING due d WHERE c.org_id = d.org_id AND c.change_id = d.change_id
        RETURNING c.org_id, c.mint_id, c.available, c.withdrawing, c.addresses, c.treasuries, c.dust, c.in_swap),
    folded AS (
        INSERT INTO organization_totals AS t (org_id, mint_id, available, withdrawing, addresses, treasuries, dust, in_swap)
        SELECT org_id, mint_id, sum(available), sum(withdrawing), sum(addresses), sum(treasuries), sum(dust), sum(in_swap)
        FROM taken GROUP BY org_id, mint_id ORDER BY org_id, mint_id
        ON CONFLICT ON CONSTRAINT organization_totals_pkey DO UPDATE SET
            available = t.available + excluded.available, withdrawing = t.withdrawing + excluded.withdrawing,
            addresses = t.addresses + excluded.addresses, treasuries = t.treasuries + excluded.treasuries, dust = t.dust + excluded.dust,
            in_swap = t.in_swap + excluded.in_swap)
    SELECT count(*) FROM taken
$$;
REVOKE ALL ON FUNCTION ledger_transfers_total(), address_funds_total(), fold_organization_totals(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fold_organization_totals(integer) TO coffer_system;
