-- Why: an event was written, and a second time with its number. The first event of a transfer gets its number and its
-- deliveries in the transaction that writes it. Where an event waits for the sequencer, its number, counter, deliveries
-- and COMMIT are sent together, so that no counter is locked over a round trip.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION event_body(head bytea, number bigint, data bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT head || decode(number::text, 'escape') || ',"data":'::bytea || data || '}'::bytea
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION events_number(ids text[], orgs text[], places bigint[], heads bytea[]) RETURNS void LANGUAGE plpgsql
    SET enable_seqscan = off SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    numbered bigint;
BEGIN
    INSERT INTO event_sequences (org_id, last) SELECT DISTINCT o, 0 FROM unnest(orgs) AS o ORDER BY o
    ON CONFLICT (org_id) DO NOTHING;
    PERFORM FROM event_sequences s WHERE s.org_id = ANY (orgs) ORDER BY s.org_id FOR NO KEY UPDATE;
    WITH moved AS (
        UPDATE event_sequences s SET last = s.last + w.n
        FROM (SELECT o AS org_id, count(*) AS n FROM unnest(orgs) AS o GROUP BY o) w WHERE s.org_id = w.org_id
        RETURNING s.org_id, s.last - w.n AS before)
    UPDATE events e SET sequence = m.before + n.place, body = event_body(n.head, m.before + n.place, e.data)
    FROM unnest(ids, orgs, places, heads) AS n (event_id, org_id, place, head) JOIN moved m ON m.org_id = n.org_id
    WHERE e.event_id = n.event_id AND e.org_id = n.org_id AND e.sequence IS NULL;
    GET DIAGNOSTICS numbered = ROW_COUNT;
    IF numbered <> cardinality(ids) THEN
        RAISE EXCEPTION 'only % of % events had no number', numbered, cardinality(ids)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'events_numbered_once';
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
REVOKE ALL ON FUNCTION events_number(text[], text[], bigint[], bytea[]) FROM PUBLIC;
-- +goose StatementEnd
-- +goose StatementBegin
GRANT EXECUTE ON FUNCTION events_number(text[], text[], bigint[], bytea[]) TO coffer_system;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE POLICY keeper ON event_sequences TO CURRENT_USER USING (true) WITH CHECK (true);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE POLICY keeper ON events FOR INSERT TO CURRENT_USER WITH CHECK (true);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE POLICY keeper ON deliveries FOR INSERT TO CURRENT_USER WITH CHECK (true);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE POLICY keeper ON webhook_endpoints FOR SELECT TO CURRENT_USER USING (true);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE POLICY keeper ON organizations FOR SELECT TO CURRENT_USER USING (true);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION events_record_first(org text, at timestamptz, ids text[], types text[], extensions boolean[], kinds text[],
    resources text[], customers text[], chains text[], heads bytea[], data bytea[]) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET enable_seqscan = off SET search_path = public, pg_temp AS $$
DECLARE
    before bigint;
BEGIN
    IF org IS DISTINCT FROM current_setting('app.org', true) THEN
        RAISE EXCEPTION 'events of % are recorded by another organization', org USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO event_sequences AS s (org_id, last) VALUES (org, cardinality(ids))
    ON CONFLICT (org_id) DO UPDATE SET last = s.last + cardinality(ids)
    RETURNING s.last - cardinality(ids) INTO before;
    INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, customer_id, chain, data, created_at,
        sequence, body)
    SELECT e.event_id, org, e.type, e.kind, e.resource_id, 1, nullif(e.customer_id, ''), nullif(e.chain, ''), '', at,
        before + e.place, event_body(e.head, before + e.place, e.data)
    FROM unnest(ids, types, kinds, resources, customers, chains, heads, data) WITH ORDINALITY
        AS e (event_id, type, kind, resource_id, customer_id, chain, head, data, place)
    ORDER BY e.place;
    INSERT INTO deliveries (org_id, endpoint_id, event_id, resource_id, resource_seq, status, created_at, attempt_after)
    SELECT org, w.endpoint_id, e.event_id, e.resource_id, 1, 'PENDING', at, at
    FROM webhook_endpoints w
    CROSS JOIN unnest(ids, types, extensions, resources, customers, chains) WITH ORDINALITY
        AS e (event_id, type, extension, resource_id, customer_id, chain, place)
    WHERE w.org_id = org AND w.deleted_at IS NULL AND w.status IN ('ENABLED', 'PAUSED')
        AND CASE WHEN w.events = '{}' THEN NOT e.extension ELSE w.events && ARRAY[e.type, '*'] END
        AND coalesce(w.filter_customer_id = e.customer_id, true) AND coalesce(w.filter_chain = e.chain, true)
    ORDER BY e.place, w.endpoint_id;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
REVOKE ALL ON FUNCTION events_record_first(text, timestamptz, text[], text[], boolean[], text[], text[], text[], text[], bytea[],
    bytea[]) FROM PUBLIC;
-- +goose StatementEnd
-- +goose StatementBegin
GRANT EXECUTE ON FUNCTION events_record_first(text, timestamptz, text[], text[], boolean[], text[], text[], text[], text[], bytea[],
    bytea[]) TO coffer_app;
-- +goose StatementEnd
