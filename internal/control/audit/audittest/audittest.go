// Package audittest changes places of the audit log as an attacker with the whole database could.
//
// A crash leaves a database of a test.
package audittest

import "slices"

// Tamper returns statements that change the places as the given ones change audit_seal. They see every
// place as a row of audit_seal. Afterwards the places from runs are runs again: as many as their order needs.
func Tamper(sql ...string) []string {
	return slices.Concat([]string{
		`CREATE TEMP TABLE alone AS SELECT coalesce(max(position), 0) AS through FROM audit_seal`,
		`CREATE TEMP TABLE seals AS
			TABLE audit_seal
			UNION ALL
			SELECT r.first + i.nth - 1, i.id, substr(r.hashes, (32 * i.nth - 31)::int, 32)
			FROM audit_runs r CROSS JOIN LATERAL (
				SELECT g.id, row_number() OVER (ORDER BY g.id) AS nth
				FROM unnest(r.ids) u, generate_series(lower(u), upper(u) - 1) g (id)) i`,
		`ALTER TABLE seals RENAME TO audit_seal`,
	}, sql, []string{
		`DELETE FROM public.audit_seal`,
		`DELETE FROM audit_runs`,
		`INSERT INTO public.audit_seal
			SELECT position, audit_id, hash FROM pg_temp.audit_seal, alone WHERE position <= through`,
		`INSERT INTO audit_runs (first, last, ids, hashes)
			SELECT min(position), max(position), range_agg(int8range(audit_id, audit_id, '[]')),
				string_agg(hash, '' ORDER BY position)
			FROM (SELECT *, count(*) FILTER (WHERE begins) OVER (ORDER BY position) AS nth FROM (
				SELECT s.*, (lag(s.position) OVER w = s.position - 1
					AND lag(s.audit_id) OVER w < s.audit_id) IS NOT TRUE AS begins
				FROM pg_temp.audit_seal s, alone WHERE s.position > through WINDOW w AS (ORDER BY s.position)) b) n
			GROUP BY nth`,
		`DROP TABLE pg_temp.audit_seal, alone`,
	})
}
