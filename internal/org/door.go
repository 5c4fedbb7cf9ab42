package org

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
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
	line group.Line[[sha256.Size]byte, holder]
}

// holder is whose a key is, and from where it may be used.
type holder struct {
	org  string // "" for a key that is nobody's
	from []netip.Prefix
}

// NewDoor opens a door to a database.
func NewDoor(db *pg.DB) *Door {
	d := &Door{}
	d.line.GroupMax, d.line.WaitingMax, d.line.WorkMax = lookMax, waitingMax, lookFor
	d.line.Work = func(ctx context.Context, hashes [][sha256.Size]byte) []group.Answer[holder] {
		owners, err := owners(ctx, db, hashes)
		answers := make([]group.Answer[holder], len(hashes))
		for i, hash := range hashes {
			answers[i] = group.Answer[holder]{Value: owners[hash], Err: err}
		}
		return answers
	}
	return d
}

// owners are the organizations whose live keys have these hashes.
func owners(ctx context.Context, db *pg.DB, hashes [][sha256.Size]byte) (map[[sha256.Size]byte]holder, error) {
	wanted := make([][]byte, len(hashes))
	for i := range hashes {
		wanted[i] = hashes[i][:]
	}
	found := map[[sha256.Size]byte]holder{}
	err := db.LookSystem(ctx, func(b *pgx.Batch) {
		b.Queue(`
			SELECT k.hash, k.org_id, s.ip_allowlist
			FROM api_keys k JOIN organization_settings s ON s.org_id = k.org_id
			WHERE k.hash = ANY ($1) AND k.rolled_at IS NULL`, wanted).Query(func(rows pgx.Rows) error {
			var hash []byte
			var h holder
			_, err := pgx.ForEachRow(rows, []any{&hash, &h.org, &h.from}, func() error {
				found[[sha256.Size]byte(hash)] = h
				h.from = nil // the next row does not write into it
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

// Admit tells whose key was presented, by a request that came from an address; the
// zero Addr when nobody knows it. It reads the key's row and the organization's IP
// list each time, so a key is refused by every request that starts after it was
// rolled, and an address by every one after it was taken from the list. A missing,
// malformed, unknown or rolled key takes the same way through here and gets the
// same refusal, UNAUTHORIZED; a good one from an address that the list does not
// have gets IP_NOT_ALLOWED; any other error means "unknown".
func (d *Door) Admit(ctx context.Context, presented string, from netip.Addr) (orgID string, err error) {
	// What is too long is not hashed whole, and cannot be a key either way.
	text := presented[:min(len(presented), keyTextBytes+1)]
	h, err := d.line.Ask(ctx, sha256.Sum256([]byte(text)))
	if errors.Is(err, group.ErrFull) || errors.Is(err, group.ErrLeft) {
		return "", fault.New(fault.Unavailable, fault.CodeUnavailable,
			"More requests are waiting than can be taken in. Nothing was done. Repeat the request after the seconds that Retry-After names, a payment with the same idempotencyKey.")
	}
	if err != nil {
		return "", err
	}
	if h.org == "" {
		return "", fault.New(fault.Unauthorized, fault.CodeUnauthorized,
			"Send a valid API key in the header x-api-key. This answer says nothing about any other request.")
	}
	if !allows(h.from, from) {
		return "", fault.New(fault.Forbidden, fault.IPNotAllowed,
			"This key is not taken from the address that the request came from. Nothing was done by this request, and this answer says nothing about any other. Call from an address on your organization's list, or ask the operator of this service to add this one.")
	}
	return h.org, nil
}
