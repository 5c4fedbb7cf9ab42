package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The place of a row is its position in the chain, with the hash there. It stands in a run, or alone in
// audit_seal, where the places from before there were runs are. The expressions of this file read both.

// HashAt returns the SQL of the hash at a position of the chain, null if it has none. The position is an
// expression.
func HashAt(position string) string {
	return replaced(`coalesce(
		(SELECT CASE WHEN r.last >= {position} THEN substr(r.hashes, (32 * ({position} - r.first) + 1)::int, 32) END
			FROM audit_runs r WHERE r.first <= {position} ORDER BY r.first DESC LIMIT 1),
		(SELECT s.hash FROM audit_seal s WHERE s.position = {position}))`, "{position}", position)
}

// Unsealed returns the SQL condition that a row a of the log has no place, among the rows with ids after settled.
// It reads the runs of those rows once.
func Unsealed(settled string) string {
	return replaced(`a.audit_id > {settled} AND NOT a.audit_id <@ (
		SELECT coalesce(range_agg(u.ids), '{}') FROM (
			SELECT r.ids FROM audit_runs r WHERE r.ids && int8range({settled}, NULL, '()')
			UNION ALL
			SELECT int8multirange(int8range(s.audit_id, s.audit_id, '[]'))
			FROM audit_seal s WHERE s.audit_id > {settled}) u)`,
		"{settled}", settled)
}

// isSealed returns the SQL condition that a row of the log has a place.
func isSealed(id string) string {
	return replaced(`coalesce((SELECT true FROM audit_runs r WHERE r.ids @> {id} LIMIT 1),
		(SELECT true FROM audit_seal s WHERE s.audit_id = {id} LIMIT 1), false)`, "{id}", id)
}

// lastSealedID is the SQL of the highest id that has a place, among those of the last run and those in audit_seal.
const lastSealedID = `greatest(
	(SELECT max(audit_id) FROM audit_seal), (SELECT upper(ids) - 1 FROM audit_runs ORDER BY first DESC LIMIT 1))`

// sealOf returns the SQL of the place (position, hash) of a row of the log, to be joined laterally.
func sealOf(id string) string {
	return replaced(`(
		SELECT s.position, s.hash FROM audit_seal s WHERE s.audit_id = {id}
		UNION ALL
		SELECT r.first + b.count, substr(r.hashes, (32 * b.count + 1)::int, 32)
		FROM audit_runs r CROSS JOIN LATERAL (
			SELECT coalesce(sum(least(upper(u), {id}) - lower(u)), 0)::bigint AS count
			FROM unnest(r.ids) u WHERE lower(u) < {id}) b
		WHERE r.ids @> {id})`, "{id}", id)
}

// sealsBetween returns the SQL of the places (position, audit_id, hash) from one position to another. The
// hashes of a run are read once, and not for each of its rows.
func sealsBetween(first, last string) string {
	return replaced(`(
		SELECT s.position, s.audit_id, s.hash FROM audit_seal s WHERE s.position BETWEEN {first} AND {last}
		UNION ALL
		SELECT r.first + p.before, p.audit_id, substr(h.hashes, (32 * p.before + 1)::int, 32)
		FROM audit_runs r
		CROSS JOIN LATERAL (SELECT r.hashes || ''::bytea AS hashes OFFSET 0) h
		CROSS JOIN LATERAL (
			SELECT g.id AS audit_id, row_number() OVER (ORDER BY g.id) - 1 AS before
			FROM unnest(r.ids) u CROSS JOIN LATERAL generate_series(lower(u), upper(u) - 1) g (id)) p
		WHERE r.first BETWEEN coalesce((SELECT max(first) FROM audit_runs WHERE first <= {first}), 0) AND {last}
			AND r.first + p.before BETWEEN {first} AND {last})`, "{first}", first, "{last}", last)
}

func replaced(sql string, names ...string) string { return strings.NewReplacer(names...).Replace(sql) }

// sealsRead is how many positions one statement reads, so that none sorts more.
const sealsRead = 4000

// selectSeals reads places with their rows, in order, including places whose rows are gone.
var selectSeals = `
	SELECT s.position, s.hash, s.audit_id, a.audit_id IS NULL, a.org_id, a.at,
		coalesce(a.actor_kind, ''), coalesce(a.actor_id, ''), coalesce(a.action, ''),
		coalesce(a.resource_kind, ''), coalesce(a.resource_id, ''), coalesce(a.detail::text, '')
	FROM ` + sealsBetween("$1", "$2") + ` s
	-- The number of rows of a run is no guess of the planner: each row is looked up by its id.
	LEFT JOIN LATERAL (SELECT * FROM audit_log l WHERE l.audit_id = s.audit_id LIMIT 1) a ON true
	ORDER BY s.position, s.audit_id`

// forEachSeal calls fn for each place from one position to another, in order. The first error of fn ends it.
func forEachSeal(ctx context.Context, tx pg.Tx, first, last int64, fn func(Line) error) error {
	for ; first <= last; first += sealsRead {
		part := min(last, first+sealsRead-1)
		if err := pg.ForEachRow(ctx, tx, selectSeals, []any{first, part}, scanSealed, fn); err != nil {
			return fmt.Errorf("read positions %d to %d of the audit chain: %w", first, part, err)
		}
	}
	return nil
}

// loadLastSeal returns the last position that a place has, which is the end of the chain unless the chain was
// tampered with. The ids of a run count even where it has no hashes for them.
func loadLastSeal(ctx context.Context, tx pg.Tx) (position int64, err error) {
	if err = tx.QueryRow(ctx, `
		SELECT coalesce(greatest((SELECT max(position) FROM audit_seal), (
			SELECT greatest(last, first + audit_run_length(ids) - 1) FROM audit_runs ORDER BY first DESC LIMIT 1)), 0)`,
	).Scan(&position); err != nil {
		return 0, fmt.Errorf("read the last position of the audit chain: %w", err)
	}
	return position, nil
}

// formatIDs writes ascending ids as the multirange of a run.
func formatIDs(lines []Line) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i < len(lines); {
		end := i + 1
		for end < len(lines) && lines[end].AuditID == lines[end-1].AuditID+1 {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "[%d,%d]", lines[i].AuditID, lines[end-1].AuditID)
		i = end
	}
	b.WriteByte('}')
	return b.String()
}
