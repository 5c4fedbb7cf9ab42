-- Billing: what organizations owe the operator, month by month.
--
-- Every network fee of the ledger and every completed swap has one line in fee_lines. An invoice binds lines of one
-- organization, each at most once, and freezes what it prints in one transaction: the next number of its series, both
-- parties, the sums of its sections. From then on nothing of it changes but the mark that it is paid. A mistake is corrected
-- by a credit note, which names lines of one invoice and never exceeds them.

-- What is printed about the parties, in versions: one chain for the installation, which sells (org_id is NULL), and one
-- for each organization. A value that an organization leaves out is that of the installation.
CREATE TABLE billing_terms (
    terms_id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id             text REFERENCES organizations,
    version            integer NOT NULL,
    legal_name         text NOT NULL,
    address            text[] NOT NULL,
    tax_id             text NOT NULL,
    email              text NOT NULL,
    tax_rate_bps       integer,
    tax_note           text,
    invoice_series     text COLLATE "C",
    credit_note_series text COLLATE "C",
    billing_day        smallint,              -- of the month after, at 06:00 UTC
    language           text,
    created_at         timestamptz NOT NULL,
    changed_by         text NOT NULL,         -- kind and id of the actor
    CONSTRAINT billing_terms_version_once UNIQUE NULLS NOT DISTINCT (org_id, version),
    CONSTRAINT billing_terms_versioned CHECK (version > 0 AND changed_by <> ''),
    CONSTRAINT billing_terms_party CHECK (
        char_length(legal_name) BETWEEN 1 AND 200 AND cardinality(address) BETWEEN 1 AND 8
        AND array_position(address, NULL) IS NULL AND array_position(address, '') IS NULL
        AND char_length(array_to_string(address, '')) <= 1000 AND char_length(tax_id) <= 100 AND char_length(email) <= 254),
    CONSTRAINT billing_terms_tax CHECK (tax_rate_bps BETWEEN 0 AND 10000 AND char_length(tax_note) <= 1000),
    CONSTRAINT billing_terms_series CHECK (
        invoice_series ~ '^[A-Z0-9]{1,12}$' AND credit_note_series ~ '^[A-Z0-9]{1,12}$'
        AND (invoice_series <> credit_note_series OR invoice_series IS NULL OR credit_note_series IS NULL)),
    CONSTRAINT billing_terms_day CHECK (billing_day BETWEEN 1 AND 28),
    CONSTRAINT billing_terms_language CHECK (language ~ '^[a-z]{2}(-[A-Za-z]{2,4})?$'),
    CONSTRAINT billing_terms_seller_whole CHECK (
        org_id IS NOT NULL
        OR num_nonnulls(tax_rate_bps, tax_note, invoice_series, credit_note_series, billing_day, language) = 6)
);
SELECT coffer_tenant('billing_terms', 'SELECT',
    'SELECT, INSERT (org_id, version, legal_name, address, tax_id, email, tax_rate_bps, tax_note, invoice_series,'
        ' credit_note_series, billing_day, language, created_at, changed_by)');
CREATE TRIGGER billing_terms_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_terms
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A version follows the one before.
CREATE FUNCTION billing_terms_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NEW.version <> 1 + coalesce((SELECT max(t.version) FROM billing_terms t WHERE t.org_id IS NOT DISTINCT FROM NEW.org_id), 0) THEN
        RAISE EXCEPTION 'version % of the terms of % follows no other', NEW.version, coalesce(NEW.org_id, 'the installation')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'billing_terms_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_terms_follow BEFORE INSERT ON billing_terms FOR EACH ROW EXECUTE FUNCTION billing_terms_follow();

-- The series of numbers. A transaction that takes a number holds the row until it has written its document, so a series has
-- no gap, and no document is dated before the one with the number before, also where a clock was set back.
CREATE TABLE invoice_series (
    series         text COLLATE "C" PRIMARY KEY,
    kind           text NOT NULL,
    next_number    bigint NOT NULL DEFAULT 1,
    last_issued_at timestamptz,
    CONSTRAINT invoice_series_kind_known CHECK (kind IN ('INVOICE', 'CREDIT_NOTE')),
    CONSTRAINT invoice_series_named CHECK (series ~ '^[A-Z0-9]{1,12}$'),
    CONSTRAINT invoice_series_counted CHECK (next_number > 0 AND (last_issued_at IS NULL) = (next_number = 1))
);
SELECT coffer_shared('invoice_series', '', 'SELECT, INSERT (series, kind), UPDATE (next_number, last_issued_at)');
CREATE TRIGGER invoice_series_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF series, kind ON invoice_series
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE invoices (
    invoice_id     text PRIMARY KEY,
    org_id         text NOT NULL REFERENCES organizations,
    month          text NOT NULL,
    ends_at        timestamptz NOT NULL,      -- of the month, exclusive
    series         text COLLATE "C" NOT NULL REFERENCES invoice_series,
    sequence       bigint NOT NULL,
    number         text NOT NULL GENERATED ALWAYS AS (
        series || '-' || CASE WHEN sequence < 1000000 THEN lpad(sequence::text, 6, '0') ELSE sequence::text END) STORED,
    tax_rate_bps   integer NOT NULL,
    subtotal       numeric(38,2) NOT NULL,
    tax            numeric(38,2) NOT NULL,
    total          numeric(38,2) NOT NULL,
    document       jsonb NOT NULL,            -- all that is printed
    document_hash  bytea NOT NULL,            -- SHA-256 of the document as the service writes it
    status         text NOT NULL,
    issued_at      timestamptz NOT NULL,
    paid_at        timestamptz,
    paid_reference text,
    paid_by        text,                      -- kind and id of the actor
    CONSTRAINT invoices_of_organization UNIQUE (org_id, invoice_id),
    CONSTRAINT invoices_month_once UNIQUE (org_id, month),
    CONSTRAINT invoices_sequence_once UNIQUE (series, sequence),
    CONSTRAINT invoices_month_begun CHECK (
        ends_at AT TIME ZONE 'UTC' = date_trunc('month', ends_at AT TIME ZONE 'UTC')
        AND month = to_char(ends_at AT TIME ZONE 'UTC' - interval '1 month', 'YYYY-MM')
        AND issued_at AT TIME ZONE 'UTC' >= ends_at AT TIME ZONE 'UTC' - interval '1 month'),
    CONSTRAINT invoices_totals CHECK (
        subtotal > 0 AND tax = round(subtotal * tax_rate_bps / 10000, 2) AND total = subtotal + tax
        AND tax_rate_bps BETWEEN 0 AND 10000 AND sequence > 0),
    CONSTRAINT invoices_frozen CHECK (jsonb_typeof(document) = 'object' AND octet_length(document_hash) = 32),
    CONSTRAINT invoices_status_known CHECK (status IN ('ISSUED', 'PAID')),
    CONSTRAINT invoices_paid CHECK (
        num_nonnulls(paid_at, paid_reference, paid_by) = CASE status WHEN 'PAID' THEN 3 ELSE 0 END
        AND char_length(paid_reference) BETWEEN 1 AND 200)
);
CREATE INDEX invoices_listed ON invoices (org_id, issued_at, invoice_id);
CREATE INDEX invoices_of_status ON invoices (org_id, status, issued_at, invoice_id);
CREATE INDEX invoices_all_listed ON invoices (issued_at, invoice_id);
CREATE INDEX invoices_all_of_status ON invoices (status, issued_at, invoice_id);
SELECT coffer_tenant('invoices', 'SELECT',
    'SELECT, INSERT (invoice_id, org_id, month, ends_at, series, sequence, tax_rate_bps, subtotal, tax, total, document,'
        ' document_hash, status, issued_at), UPDATE (status, paid_at, paid_reference, paid_by)');
CREATE TRIGGER invoices_stay BEFORE DELETE OR TRUNCATE OR UPDATE OF invoice_id, org_id, month, ends_at, series, sequence,
    tax_rate_bps, subtotal, tax, total, document, document_hash, issued_at ON invoices
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER invoices_paid_once BEFORE UPDATE ON invoices FOR EACH ROW WHEN (OLD.status <> 'ISSUED' OR NEW.status <> 'PAID')
    EXECUTE FUNCTION refuse_row_change();

-- A month is billed when it is over. Only where every mint is of a local network, and so no mint has a value, it is billed
-- early. The network of a mint never changes, and no mint is removed.
CREATE FUNCTION invoices_early() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM mints m WHERE m.network <> 'LOCAL') THEN
        RAISE EXCEPTION 'invoice % is of %, which is not over', NEW.invoice_id, NEW.month
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoices_month_over';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER invoices_month_over BEFORE INSERT ON invoices FOR EACH ROW WHEN (NEW.issued_at < NEW.ends_at)
    EXECUTE FUNCTION invoices_early();

-- The sums of an invoice, by kind and mint. Only these are rounded, to cents, half up.
CREATE TABLE invoice_sections (
    invoice_id text NOT NULL,
    kind       text NOT NULL,
    mint_id    integer NOT NULL REFERENCES mints,
    org_id     text NOT NULL,
    lines      bigint NOT NULL,
    amount     numeric(78,0) NOT NULL,
    usd_exact  numeric(60,18) NOT NULL,
    usd        numeric(38,2) NOT NULL,
    CONSTRAINT invoice_sections_pkey PRIMARY KEY (invoice_id, kind, mint_id),
    -- The sections are written before their invoice, so that none is added to one that exists.
    CONSTRAINT invoice_sections_invoice FOREIGN KEY (org_id, invoice_id) REFERENCES invoices (org_id, invoice_id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT invoice_sections_kind_known CHECK (kind IN ('NETWORK_FEES', 'NETWORK_FEE_CREDITS', 'SWAP_FEES')),
    CONSTRAINT invoice_sections_sums CHECK (lines > 0 AND amount >= 0 AND usd_exact >= 0 AND usd = round(usd_exact, 2))
);
SELECT coffer_tenant('invoice_sections', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER invoice_sections_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON invoice_sections
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A credit note gives back parts of lines of one invoice. What it is worth is a share of what the line was worth.
CREATE TABLE credit_notes (
    credit_note_id  text PRIMARY KEY,
    org_id          text NOT NULL,
    invoice_id      text NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    request_digest  bytea NOT NULL,           -- of the caller's parameters
    series          text COLLATE "C" NOT NULL REFERENCES invoice_series,
    sequence        bigint NOT NULL,
    number          text NOT NULL GENERATED ALWAYS AS (
        series || '-' || CASE WHEN sequence < 1000000 THEN lpad(sequence::text, 6, '0') ELSE sequence::text END) STORED,
    reason          text NOT NULL,
    lowers_debt     boolean NOT NULL,         -- the invoice was not paid when it was issued
    subtotal        numeric(38,2) NOT NULL,
    tax             numeric(38,2) NOT NULL,
    total           numeric(38,2) NOT NULL,
    document        jsonb NOT NULL,
    document_hash   bytea NOT NULL,
    issued_at       timestamptz NOT NULL,
    issued_by       text NOT NULL,            -- kind and id of the actor
    CONSTRAINT credit_notes_of_organization UNIQUE (org_id, credit_note_id),
    CONSTRAINT credit_notes_key_once UNIQUE (idempotency_key),
    CONSTRAINT credit_notes_sequence_once UNIQUE (series, sequence),
    CONSTRAINT credit_notes_invoice FOREIGN KEY (org_id, invoice_id) REFERENCES invoices (org_id, invoice_id),
    CONSTRAINT credit_notes_words CHECK (
        char_length(reason) BETWEEN 1 AND 1000 AND idempotency_key ~ '^[!-~]{1,255}$' AND issued_by <> ''),
    CONSTRAINT credit_notes_totals CHECK (subtotal > 0 AND tax >= 0 AND total = subtotal + tax AND sequence > 0),
    CONSTRAINT credit_notes_frozen CHECK (
        jsonb_typeof(document) = 'object' AND octet_length(document_hash) = 32 AND octet_length(request_digest) = 32)
);
CREATE INDEX credit_notes_listed ON credit_notes (org_id, issued_at, credit_note_id);
CREATE INDEX credit_notes_all_listed ON credit_notes (issued_at, credit_note_id);
CREATE INDEX credit_notes_of_invoice ON credit_notes (invoice_id, issued_at, credit_note_id);
SELECT coffer_tenant('credit_notes', 'SELECT',
    'SELECT, INSERT (credit_note_id, org_id, invoice_id, idempotency_key, request_digest, series, sequence, reason,'
        ' lowers_debt, subtotal, tax, total, document, document_hash, issued_at, issued_by)');
CREATE TRIGGER credit_notes_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_notes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE credit_note_lines (
    credit_note_id text NOT NULL,
    fee_line_id    text COLLATE "C" NOT NULL REFERENCES fee_lines,
    org_id         text NOT NULL,
    amount         numeric(78,0) NOT NULL,
    usd_value      numeric(38,18) NOT NULL,
    CONSTRAINT credit_note_lines_pkey PRIMARY KEY (credit_note_id, fee_line_id),
    -- The lines are written before their note, so that none is added to one that exists.
    CONSTRAINT credit_note_lines_note FOREIGN KEY (org_id, credit_note_id) REFERENCES credit_notes (org_id, credit_note_id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT credit_note_lines_positive CHECK (amount > 0 AND usd_value >= 0)
);
CREATE INDEX credit_note_lines_of_line ON credit_note_lines (fee_line_id);
SELECT coffer_tenant('credit_note_lines', 'SELECT', 'SELECT, INSERT');
CREATE TRIGGER credit_note_lines_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_note_lines
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Which section a line is in.
CREATE FUNCTION fee_section(kind text, is_credit boolean) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN kind = 'SWAP_FEE' THEN 'SWAP_FEES' WHEN is_credit THEN 'NETWORK_FEE_CREDITS' ELSE 'NETWORK_FEES' END;

-- Lines, sections and parts are written before their document. The statement that binds lines writes their sections, so
-- an invoice binds its lines by one statement. A section needs its invoice of the same organization at the commit, and so
-- its lines do: a key of each line would be checked a hundred thousand times for a large invoice. invoice_sections_begin
-- refuses the section of an issued invoice, and so its lines.
CREATE FUNCTION fee_lines_bind() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO invoice_sections (invoice_id, org_id, kind, mint_id, lines, amount, usd_exact, usd)
    SELECT c.invoice_id, c.org_id, fee_section(c.kind, c.is_credit), c.mint_id, count(*), sum(c.amount), sum(c.usd_value),
        round(sum(c.usd_value), 2)
    FROM changed c WHERE c.invoice_id IS NOT NULL GROUP BY 1, 2, 3, 4;
    RETURN NULL;
END $$;
CREATE TRIGGER fee_lines_before_invoice AFTER UPDATE ON fee_lines
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION fee_lines_bind();
-- A new line is on no invoice.
CREATE TRIGGER fee_lines_begin AFTER INSERT ON fee_lines FOR EACH ROW WHEN (NEW.invoice_id IS NOT NULL)
    EXECUTE FUNCTION refuse_row_change();

CREATE FUNCTION invoice_sections_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT true FROM invoices i WHERE i.invoice_id = NEW.invoice_id) THEN
        RAISE EXCEPTION 'invoice % gets no further section', NEW.invoice_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoice_sections_before_invoice';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER invoice_sections_begin BEFORE INSERT ON invoice_sections FOR EACH ROW EXECUTE FUNCTION invoice_sections_begin();

CREATE FUNCTION credit_note_lines_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT true FROM credit_notes n WHERE n.credit_note_id = NEW.credit_note_id) THEN
        RAISE EXCEPTION 'credit note % gets no further line', NEW.credit_note_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'credit_note_lines_before_note';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER credit_note_lines_begin BEFORE INSERT ON credit_note_lines FOR EACH ROW EXECUTE FUNCTION credit_note_lines_begin();

-- A line of a network fee is of a row of the ledger, with its amount, its side and its time.
CREATE FUNCTION fee_lines_of_ledger() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lost text;
BEGIN
    SELECT l.fee_line_id INTO lost FROM added l
    WHERE l.kind = 'NETWORK_FEE' AND (
        SELECT (t.org_id, t.mint_id, t.amount, t.created_at) = (l.org_id, l.mint_id, l.amount, l.incurred_at)
            AND (d.kind, c.kind) = (CASE WHEN l.is_credit THEN 'FEES_BILLED' ELSE 'FEES_DUE' END,
                CASE WHEN l.is_credit THEN 'FEES_DUE' ELSE 'FEES_BILLED' END)
        FROM ledger_transfers t, ledger_accounts d, ledger_accounts c
        WHERE t.cause_kind = l.source_kind AND t.cause_id = l.source_id COLLATE "C" AND t.leg = CASE l.source_kind WHEN 'FEE_PREPAID' THEN 0 ELSE 1 END
            AND d.account_id = t.debit_account AND c.account_id = t.credit_account) IS NOT TRUE
    LIMIT 1;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'fee line % is of no network fee in the ledger', lost
            USING ERRCODE = 'check_violation', CONSTRAINT = 'fee_lines_of_ledger';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER fee_lines_of_ledger AFTER INSERT ON fee_lines
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION fee_lines_of_ledger();

-- A series goes on by one, and forward in time.
CREATE FUNCTION invoice_series_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' AND NEW.next_number <> 1
       OR TG_OP = 'UPDATE' AND (NEW.next_number <> OLD.next_number + 1 OR NEW.last_issued_at IS NULL OR NEW.last_issued_at < OLD.last_issued_at) THEN
        RAISE EXCEPTION 'series % goes on by one, and forward in time', NEW.series
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoice_series_forward';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER invoice_series_keep BEFORE INSERT OR UPDATE ON invoice_series FOR EACH ROW EXECUTE FUNCTION invoice_series_keep();

-- A number that is taken has its document.
CREATE FUNCTION invoice_series_used() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (CASE NEW.kind WHEN 'INVOICE' THEN (SELECT true FROM invoices i WHERE i.series = NEW.series AND i.sequence = NEW.next_number - 1)
            ELSE (SELECT true FROM credit_notes n WHERE n.series = NEW.series AND n.sequence = NEW.next_number - 1) END) IS NOT TRUE THEN
        RAISE EXCEPTION 'number % of series % has no document', NEW.next_number - 1, NEW.series
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoice_series_used';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER invoice_series_used AFTER UPDATE ON invoice_series DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION invoice_series_used();

-- A document has the number that its transaction took.
CREATE FUNCTION invoices_number() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (SELECT (s.kind, s.next_number, s.last_issued_at) = (CASE TG_TABLE_NAME WHEN 'invoices' THEN 'INVOICE' ELSE 'CREDIT_NOTE' END, NEW.sequence + 1, NEW.issued_at)
        FROM invoice_series s WHERE s.series = NEW.series) IS NOT TRUE THEN
        RAISE EXCEPTION 'number % of series % is not the next one', NEW.sequence, NEW.series
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_next_number';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER invoices_next_number BEFORE INSERT ON invoices FOR EACH ROW EXECUTE FUNCTION invoices_number();
CREATE TRIGGER credit_notes_next_number BEFORE INSERT ON credit_notes FOR EACH ROW EXECUTE FUNCTION invoices_number();

-- The sections of an invoice are the sums of its lines, all of the month or before, and its totals those of its sections.
CREATE FUNCTION invoices_add_up() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NEW.status <> 'ISSUED' OR (NEW.document->>'kind', NEW.document->>'month', NEW.document->>'number', (NEW.document->>'subtotal')::numeric,
            (NEW.document->>'tax')::numeric, (NEW.document->>'total')::numeric)
            IS DISTINCT FROM ('INVOICE', NEW.month, NEW.number, NEW.subtotal, NEW.tax, NEW.total)
       OR NEW.subtotal IS DISTINCT FROM (SELECT sum(CASE s.kind WHEN 'NETWORK_FEE_CREDITS' THEN -s.usd ELSE s.usd END)
            FROM invoice_sections s WHERE s.invoice_id = NEW.invoice_id)
       OR EXISTS (SELECT FROM (
                SELECT fee_section(l.kind, l.is_credit) AS kind, l.mint_id, count(*) AS lines, sum(l.amount) AS amount, sum(l.usd_value) AS usd_exact,
                    max(l.incurred_at) AS last
                FROM fee_lines l WHERE l.invoice_id = NEW.invoice_id GROUP BY 1, 2) l
            FULL JOIN (SELECT * FROM invoice_sections WHERE invoice_id = NEW.invoice_id) s ON s.kind = l.kind AND s.mint_id = l.mint_id
            WHERE (l.lines, l.amount, l.usd_exact) IS DISTINCT FROM (s.lines, s.amount, s.usd_exact) OR l.last >= NEW.ends_at) THEN
        RAISE EXCEPTION 'invoice % does not add up', NEW.number
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoices_add_up';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER invoices_add_up AFTER INSERT ON invoices DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION invoices_add_up();

-- The notes of an invoice are written one after the other.
CREATE FUNCTION credit_notes_begin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM 1 FROM invoices i WHERE i.invoice_id = NEW.invoice_id FOR NO KEY UPDATE;
    IF NEW.lowers_debt IS DISTINCT FROM (SELECT i.status = 'ISSUED' FROM invoices i WHERE i.invoice_id = NEW.invoice_id) THEN
        RAISE EXCEPTION 'credit note % says the wrong thing of whether its invoice was paid', NEW.credit_note_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'credit_notes_of_state';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER credit_notes_begin BEFORE INSERT ON credit_notes FOR EACH ROW EXECUTE FUNCTION credit_notes_begin();

-- The notes of an invoice never exceed it: not in a line, and not in its totals.
CREATE FUNCTION credit_notes_bound() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF (NEW.document->>'kind', NEW.document->>'number', (NEW.document->>'subtotal')::numeric, (NEW.document->>'tax')::numeric,
            (NEW.document->>'total')::numeric, NEW.document->>'corrects')
            IS DISTINCT FROM ('CREDIT_NOTE', NEW.number, NEW.subtotal, NEW.tax, NEW.total,
                (SELECT i.number FROM invoices i WHERE i.invoice_id = NEW.invoice_id))
       OR (SELECT sum(n.subtotal) <= i.subtotal AND sum(n.tax) <= i.tax FROM invoices i JOIN credit_notes n USING (invoice_id)
            WHERE i.invoice_id = NEW.invoice_id GROUP BY i.invoice_id) IS NOT TRUE
       OR (SELECT bool_and(l.invoice_id = NEW.invoice_id AND NOT l.is_credit AND u.amount <= l.amount AND u.usd_value <= l.usd_value)
            FROM credit_note_lines c JOIN fee_lines l USING (fee_line_id)
            CROSS JOIN LATERAL (SELECT sum(x.amount) AS amount, sum(x.usd_value) AS usd_value FROM credit_note_lines x
                WHERE x.fee_line_id = c.fee_line_id) u
            WHERE c.credit_note_id = NEW.credit_note_id) IS NOT TRUE THEN
        RAISE EXCEPTION 'credit note % gives back what its invoice does not have', NEW.number
            USING ERRCODE = 'check_violation', CONSTRAINT = 'credit_notes_within_invoice';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER credit_notes_within_invoice AFTER INSERT ON credit_notes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION credit_notes_bound();

-- INVOICE_PAID takes what is left of an invoice off the fees that are due, and CREDIT_NOTE what it gives back of an unpaid
-- one, by mint. Credits of network fees are owed to the organization, so the sum of a mint may go the other way.
CREATE FUNCTION ledger_billing_follow() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    due    text;
    billed text;
    net    numeric;
    side   text := (SELECT a.kind FROM ledger_accounts a WHERE a.account_id = NEW.debit_account);
    other  text := (SELECT a.kind FROM ledger_accounts a WHERE a.account_id = NEW.credit_account);
    isswap boolean := side LIKE 'SWAP%';
BEGIN
    due := CASE WHEN isswap THEN 'SWAP_FEES_DUE' ELSE 'FEES_DUE' END;
    billed := CASE WHEN isswap THEN 'SWAP_FEES_BILLED' ELSE 'FEES_BILLED' END;
    IF NEW.cause_kind = 'INVOICE_PAID' THEN
        SELECT coalesce((SELECT sum(CASE s.kind WHEN 'NETWORK_FEE_CREDITS' THEN -s.amount ELSE s.amount END) FROM invoice_sections s
                WHERE s.invoice_id = i.invoice_id AND s.mint_id = NEW.mint_id AND (s.kind = 'SWAP_FEES') = isswap), 0)
            - coalesce((SELECT sum(c.amount) FROM credit_notes n JOIN credit_note_lines c USING (credit_note_id) JOIN fee_lines l USING (fee_line_id)
                WHERE n.invoice_id = i.invoice_id AND n.lowers_debt AND l.mint_id = NEW.mint_id AND (l.kind = 'SWAP_FEE') = isswap), 0)
        INTO net FROM invoices i WHERE i.invoice_id = NEW.cause_id COLLATE "default" AND i.org_id = NEW.org_id AND i.status = 'PAID';
    ELSE
        SELECT sum(c.amount) INTO net FROM credit_notes n JOIN credit_note_lines c USING (credit_note_id) JOIN fee_lines l USING (fee_line_id)
        WHERE n.credit_note_id = NEW.cause_id COLLATE "default" AND n.org_id = NEW.org_id AND n.lowers_debt
            AND l.mint_id = NEW.mint_id AND (l.kind = 'SWAP_FEE') = isswap;
    END IF;
    IF (net > 0 AND (side, other, NEW.amount) = (billed, due, net) OR net < 0 AND (side, other, NEW.amount) = (due, billed, -net)) IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing that is written down moves this money: % %', NEW.cause_kind, NEW.cause_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transfers_of_billing';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfers_of_billing AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.cause_kind IN ('INVOICE_PAID', 'CREDIT_NOTE'))
    EXECUTE FUNCTION ledger_billing_follow();
