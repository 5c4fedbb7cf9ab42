-- Why: a provider of swaps gets no new swap that would bring what is with it above its limit, and the transaction
-- that writes a swap of one organization counts what is with the provider for all of them.

-- +goose Up
-- +goose StatementBegin
CREATE POLICY keeper ON swaps FOR SELECT TO CURRENT_USER USING (true);

CREATE FUNCTION swap_claims(providers text[])
    RETURNS TABLE (provider text, mint_id integer, decimals integer, amount numeric, stored_usd numeric, unvalued bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
    SELECT s.provider, s.from_mint_id, (SELECT m.decimals FROM mints m WHERE m.mint_id = s.from_mint_id),
        sum(s.amount_in - s.refunded - s.short), coalesce(sum(s.usd_value), 0), count(*) FILTER (WHERE s.usd_value IS NULL)
    FROM swaps s
    WHERE s.provider = ANY (providers) AND s.amount_out IS NULL AND s.refunded + s.short < s.amount_in
        AND (s.paid_at IS NOT NULL OR s.status IN ('PENDING', 'DEPOSITING', 'PROCESSING'))
    GROUP BY s.provider, s.from_mint_id
$$;
-- +goose StatementEnd
