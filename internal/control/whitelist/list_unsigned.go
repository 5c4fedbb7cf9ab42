package whitelist

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// ListUnsigned returns the entries of all organizations that wait for signatures of operators, the oldest first, and at
// most limit of them, in a system transaction. SignedBy is as the rows say: LoadSigning checks the signatures.
func ListUnsigned(ctx context.Context, tx pg.Tx, limit int) (found []Signing, _ error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM whitelisted_addresses
		WHERE waits_for IS NOT NULL AND removed_at IS NULL ORDER BY created_at, whitelisted_address_id LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list the entries that wait for signatures: %w", err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("list the entries that wait for signatures: %w", err)
	}
	numbers, names := map[string]int{}, []string{}
	for n, e := range entries {
		found, names = append(found, Signing{Entry: e}), append(names, e.ID)
		numbers[e.ID] = n
	}
	rows, err = tx.Query(ctx, `SELECT whitelisted_address_id, signed_by FROM whitelist_signatures
		WHERE whitelisted_address_id = ANY ($1) AND not_after > $2 GROUP BY 1, 2 ORDER BY min(at), 2`, names, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("list the signatures of entries: %w", err)
	}
	var name, person string
	_, err = pgx.ForEachRow(rows, []any{&name, &person}, func() error {
		found[numbers[name]].SignedBy = append(found[numbers[name]].SignedBy, person)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the signatures of entries: %w", err)
	}
	return found, nil
}
