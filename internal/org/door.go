package org

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/group"
	"github.com/cofferpay/coffer/internal/pg"
)

// The bounds of a door.
const (
	lookMax    = 256              // keys that are looked up together
	waitingMax = 4096             // requests that may wait for a look-up
	lookFor    = 10 * time.Second // one look-up
)

// Door tells whose key was presented. Requests that come at the same time are
// looked up together, each by a look that starts after it came: nothing is
// remembered between two looks. Safe for concurrent use.
type Door struct {
	line group.Line[[sha256.Size]byte, string]
}

// NewDoor opens a door to a database.
func NewDoor(db *pg.DB) *Door {
	d := &Door{}
	d.line.GroupMax, d.line.WaitingMax, d.line.WorkMax = lookMax, waitingMax, lookFor
	d.line.Work = func(ctx context.Context, hashes [][sha256.Size]byte) []group.Answer[string] {
		owners, err := owners(ctx, db, hashes)
		answers := make([]group.Answer[string], len(hashes))
		for i, hash := range hashes {
			answers[i] = group.Answer[string]{Value: owners[hash], Err: err}
		}
		return answers
	}
	return d
}

// owners are the organizations whose live keys have these hashes.
func owners(ctx context.Context, db *pg.DB, hashes [][sha256.Size]byte) (map[[sha256.Size]byte]string, error) {
	wanted := make([][]byte, len(hashes))
	for i := range hashes {
		wanted[i] = hashes[i][:]
	}
	found := map[[sha256.Size]byte]string{}
	err := db.LookSystem(ctx, func(b *pgx.Batch) {
		b.Queue(`SELECT hash, org_id FROM api_keys WHERE hash = ANY ($1) AND rolled_at IS NULL`, wanted).Query(func(rows pgx.Rows) error {
			var hash []byte
			var org string
			_, err := pgx.ForEachRow(rows, []any{&hash, &org}, func() error {
				found[[sha256.Size]byte(hash)] = org
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look for keys: %w", err)
	}
	return found, nil
}

// Authenticate tells whose key was presented. It reads the key's row each time,
// so a key is refused by every request that starts after it was rolled. A
// missing, malformed, unknown or rolled key takes the same way through here and
// gets the same refusal, UNAUTHORIZED; any other error means "unknown".
func (d *Door) Authenticate(ctx context.Context, presented string) (orgID string, err error) {
	// What is too long is not hashed whole, and cannot be a key either way.
	text := presented[:min(len(presented), keyTextBytes+1)]
	orgID, err = d.line.Ask(ctx, sha256.Sum256([]byte(text)))
	if errors.Is(err, group.ErrFull) || errors.Is(err, group.ErrLeft) {
		return "", fault.New(fault.Unavailable, fault.CodeUnavailable,
			"More requests are waiting than can be taken in. Nothing was done. Repeat the request after the seconds that Retry-After names, a payment with the same idempotencyKey.")
	}
	if err != nil {
		return "", err
	}
	if orgID == "" {
		return "", fault.New(fault.Unauthorized, fault.CodeUnauthorized,
			"Send a valid API key in the header x-api-key. This answer says nothing about any other request.")
	}
	return orgID, nil
}
