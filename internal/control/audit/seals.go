package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// OrgSeals says how far the entries of one organization are sealed. It has no position of the chain: the
// positions count the entries of all organizations.
type OrgSeals struct {
	// SealedThrough is the time of the newest sealed entry of the organization; zero if none is sealed.
	SealedThrough time.Time
	Hash          string // of the chain at that entry; "" without one
	IsSigned      bool   // the signer has signed the chain at that entry or after it
	// Sealed are those of the chosen entries that are sealed.
	Sealed map[int64]bool
}

// LoadOrgSeals reads how far the entries of an organization are sealed, and which of some entries are. The
// tables of the chain span organizations, so it runs in a transaction of the system and names the
// organization itself.
func LoadOrgSeals(ctx context.Context, db *pg.DB, org string, entries []int64) (seals OrgSeals, err error) {
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		seals = OrgSeals{Sealed: map[int64]bool{}}
		// An anchor counts that agrees with the chain. Where the chain was begun again, older ones do not.
		// Entries that are newer than the last sealed one are not looked through: the sealer may be far behind.
		// The clocks of two processes may differ by a minute.
		err := tx.QueryRow(ctx, `
			SELECT a.at, encode(s.hash, 'hex'), EXISTS (
				SELECT FROM audit_anchors n JOIN audit_chain c ON c.chain_id = n.chain_id
				WHERE n.position >= s.position AND encode(`+HashAt("n.position")+`, 'hex') = n.hash)
			FROM audit_log a CROSS JOIN LATERAL `+sealOf("a.audit_id")+` s
			WHERE a.org_id = $1 AND a.at <= (
				SELECT l.at + interval '1 minute' FROM audit_log l WHERE l.audit_id = `+lastSealedID+`)
			ORDER BY a.at DESC, a.audit_id DESC LIMIT 1`, org).
			Scan(&seals.SealedThrough, &seals.Hash, &seals.IsSigned)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read how far the audit log of %s is sealed: %w", org, err)
		}
		rows, err := tx.Query(ctx, `
			SELECT a.audit_id FROM audit_log a
			WHERE a.audit_id = ANY ($2) AND a.org_id = $1 AND `+isSealed("a.audit_id"), org, entries)
		if err != nil {
			return fmt.Errorf("read which entries of %s are sealed: %w", org, err)
		}
		var entry int64
		_, err = pgx.ForEachRow(rows, []any{&entry}, func() error {
			seals.Sealed[entry] = true
			return nil
		})
		if err != nil {
			return fmt.Errorf("read which entries of %s are sealed: %w", org, err)
		}
		return nil
	})
	return seals, err
}
